//! In steady state a crew allocates nothing per packet, which the allocator of this test's process counts.

#[path = "../../../testing/allocations.rs"]
mod allocations;

mod memory;

use sealane_engine::Inline;
use sealane_lanes::{Assignment, LaneWork, Placement};
use sealane_port::Batch;
use sealane_stack::{Catalogue, Crew, End, Ends, FlowPlan, Overhead, Sink, Source};
use sealane_transform::Kernels;

struct Endless(Overhead);

impl Source for Endless {
    fn receive(&mut self, batch: &mut Batch) -> std::io::Result<usize> {
        (0..8).for_each(|_| assert!(batch.push_bytes(self.0.head_bytes, &[7; 1400], self.0.tail_bytes)));
        Ok(8)
    }
}

struct Nowhere;

impl Sink for Nowhere {
    fn send(&mut self, batch: &Batch, from: usize) -> std::io::Result<usize> {
        Ok(batch.packets.len() - from)
    }
}

#[test]
fn a_crew_allocates_nothing_once_it_is_warm() {
    for placement in [Placement::Connection, Placement::Packet, Placement::Layer(Assignment::IN_TURN)] {
        for text in ["null/null", "des/hmac-sha256", "aes-128-gcm/md5"] {
            let stack = memory::stack(&Catalogue::new(), text, End::Near, 0);
            let source = Box::new(Endless(stack.overhead()));
            let down = Ends { source: Some(source), sink: Some(Box::new(Nowhere)) };
            let flow = FlowPlan { stack, down, up: Ends::default() };
            let crew = Crew::new(memory::plan(placement, 2), vec![flow]).unwrap();
            let engine = Inline::new(Kernels::best());
            let mut lanes = [crew.lane(0, &engine).unwrap(), crew.lane(1, &engine).unwrap()];
            let mut turns = |count| {
                for _ in 0..count {
                    for lane in &mut lanes {
                        lane.step();
                    }
                }
            };
            turns(100);
            let before = allocations::count();
            turns(400);
            assert_eq!(allocations::count() - before, 0, "{text}, {placement}");
            let counts = crew.counts(0, sealane_stack::Way::Down);
            assert!(counts.of(sealane_port::Verdict::Passed) > 3000);
        }
    }
}
