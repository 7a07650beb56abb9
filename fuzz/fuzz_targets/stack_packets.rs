//! Any packets from a wire travel up a stack, in any batches: each is refused or delivered, and none blocks another.
//! Checksums and digests are ignored, so that the code behind them is reached.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_engine::Inline;
use sealane_engine::record::Secret;
use sealane_fuzz::packets::{STACKS, packets};
use sealane_lanes::{Clock, LaneWork as _, Placement};
use sealane_port::{Batch, Verdict};
use sealane_stack::{Catalogue, Context, Crew, End, Ends, FlowPlan, Plan, Sink, Source, Way};
use sealane_transform::Kernels;
use std::collections::VecDeque;
use std::io;
use std::num::NonZeroUsize;
use std::time::Duration;

struct Wire(VecDeque<Vec<u8>>, usize);

impl Source for Wire {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let mut count = 0;
        while count < self.1
            && let Some(packet) = self.0.pop_front()
        {
            assert!(batch.push_bytes(0, &packet, 0));
            count += 1;
        }
        Ok(count)
    }
}

struct Nowhere;

impl Sink for Nowhere {
    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        Ok(batch.packets.len() - from)
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&[stack, per_batch], data)) = data.split_first_chunk() else { return };
    let text = STACKS[usize::from(stack) % STACKS.len()];
    let end = if stack & 0x80 == 0 { End::Far } else { End::Near };
    let context = Context::new(Kernels::best(), Secret::new([7; 32]), end).ignoring_verdicts();
    let stack = Catalogue::new().stack(&text.parse().unwrap(), &context).unwrap();
    let packets: VecDeque<Vec<u8>> = packets(data).map(<[u8]>::to_vec).collect();
    let count = packets.len() as u64;
    let plan = Plan {
        placement: Placement::Packet,
        lanes: NonZeroUsize::MIN,
        batches: 16,
        buffer_bytes: 32 << 10,
        packets: 8,
        in_flight: 4,
        keeps_order: true,
    };
    let up = Ends {
        source: Some(Box::new(Wire(packets, usize::from(per_batch % 8) + 1))),
        sink: Some(Box::new(Nowhere)),
    };
    let down = Ends { source: None, sink: Some(Box::new(Nowhere)) };
    let clock = Clock::still();
    let crew = Crew::with_clock(plan, vec![FlowPlan { stack, down, up }], clock.clone()).unwrap();
    let mut lane = crew.lane(0, &Inline::new(Kernels::best())).unwrap();
    for _ in 0..256 {
        let _ = lane.step();
        clock.advance_to(clock.now() + Duration::from_millis(40));
    }
    let counts = crew.counts(0, Way::Up);
    let ended: u64 = Verdict::ALL.map(|verdict| counts.of(verdict)).iter().sum();
    // TCP divides and joins packets; without it every packet ends as one.
    assert!(text.contains("tcp") || ended == count, "{ended} of {count} packets");
});
