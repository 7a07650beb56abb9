//! Digests by a tree, under `block` placement: the lanes compute subtrees of one packet. The delivered packets are
//! those that were sent, and a byte that is changed anywhere, in the share of any lane, is detected.

mod memory;

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use memory::{MemorySink, MemorySource, Packets, plan, spec};
use proptest::prelude::*;
use sealane_engine::Inline;
use sealane_engine::record::Secret;
use sealane_lanes::{LaneWork as _, Placement, Turn};
use sealane_port::{Batch, Verdict};
use sealane_stack::{
    Catalogue, Context, Crew, End, Ends, FlowPlan, Overhead, Plan, Sink, Source, Stack, Way,
};
use sealane_transform::{Kernels, Tier};

/// With the reference kernels a lane may get as little as one leaf; with the best ones, as many as a vector holds.
fn kernels() -> [Kernels; 2] {
    [Kernels::select(Some(Tier::Reference), None).unwrap(), Kernels::best()]
}

fn stack(kernels: Kernels, text: &str, end: End) -> Stack {
    let context = Context::new(kernels, Secret::new([9; 32]), end);
    Catalogue::new().stack(&spec(text), &context).unwrap()
}

/// One direction between two stacks, in memory.
#[derive(Clone, Default)]
struct Wire(Arc<Mutex<VecDeque<Vec<u8>>>>);

struct WireSource(Wire, Overhead);

impl Source for WireSource {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let mut packets = self.0.0.lock().unwrap();
        let count = packets.len().min(3);
        for packet in packets.drain(..count) {
            assert!(batch.push_bytes(self.1.head_bytes, &packet, self.1.tail_bytes));
        }
        if count == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(count) }
    }
}

impl Sink for Wire {
    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        let packets = (from..batch.packets.len()).filter(|&index| batch.packets[index].is_passed());
        self.0.lock().unwrap().extend(packets.map(|index| batch.bytes(index).to_vec()));
        Ok(batch.packets.len() - from)
    }
}

/// Returns the ends of a stack between an application that sends `packets`, and two wires.
fn ends(room: Overhead, packets: Packets, sends: Wire, receives: Wire) -> ([Ends; 2], Arc<Mutex<Packets>>) {
    let out = Arc::new(Mutex::new(Vec::new()));
    let source = MemorySource { packets: packets.into(), per_batch: 3, room };
    let sink = MemorySink { packets: out.clone(), is_slow: false, calls: 0 };
    let down = Ends { source: Some(Box::new(source)), sink: Some(Box::new(sends)) };
    let up = Ends { source: Some(Box::new(WireSource(receives, room))), sink: Some(Box::new(sink)) };
    ([down, up], out)
}

/// The time limit, longer than any test waits for missing packets.
const LIMIT: Duration = Duration::from_secs(20);

fn long(lanes: usize) -> Plan {
    Plan { batches: 32, buffer_bytes: 512 << 10, ..plan(Placement::Block, lanes) }
}

/// Runs both ends side by side until nothing moves; returns the packets that arrived, and the two crews. `change` may
/// modify the sent packets.
fn between(
    kernels: Kernels,
    text: &str,
    lanes: [usize; 2],
    sent: &Packets,
    change: impl Fn(&mut VecDeque<Vec<u8>>),
) -> (Packets, [Crew; 2]) {
    let (there, back) = (Wire::default(), Wire::default());
    let changed = Wire::default();
    let stacks = [End::Near, End::Far].map(|end| stack(kernels, text, end));
    let room = stacks[0].overhead();
    let [near, far] = stacks;
    let ([down, up], _) = ends(room, sent.clone(), there.clone(), back.clone());
    let near = FlowPlan { stack: near, down, up };
    let ([down, up], out) = ends(room, Vec::new(), back, changed.clone());
    let far = FlowPlan { stack: far, down, up };
    let near = Crew::new(long(lanes[0]), vec![near]).unwrap();
    let far = Crew::new(long(lanes[1]), vec![far]).unwrap();
    let engine = Inline::new(kernels);
    let mut work: Vec<_> = (0..lanes[0]).map(|lane| near.lane(lane, &engine).unwrap()).collect();
    work.extend((0..lanes[1]).map(|lane| far.lane(lane, &engine).unwrap()));
    let (mut quiet, began) = (0, Instant::now());
    // TCP may be waiting for a delayed acknowledgement.
    let waits = || text.contains("tcp") && out.lock().unwrap().len() < sent.len() && began.elapsed() < LIMIT;
    while quiet < 50 || waits() {
        let moved = work.iter_mut().fold(false, |any, lane| (lane.step() == Turn::Moved) | any);
        quiet = if moved { 0 } else { quiet + 1 };
        let mut packets = std::mem::take(&mut *there.0.lock().unwrap());
        change(&mut packets);
        changed.0.lock().unwrap().extend(packets);
    }
    drop(work);
    let out = std::mem::take(&mut *out.lock().unwrap());
    (out, [near, far])
}

/// Returns a message of `bytes` bytes, whose values depend on `seed`.
fn message(bytes: usize, seed: u8) -> Vec<u8> {
    (0..bytes).map(|at| seed ^ (at * 7 + at / 251) as u8).collect()
}

/// The digest is above, below and beside transports and ciphers, and used twice.
const STACKS: &[&str] = &[
    "blake3",
    "null/blake3/null",
    "blake3/md5/blake3",
    "aes-128-ctr/blake3",
    "blake3/udp/ip/ether(65535)",
    "aes-128-ctr/udp/blake3/ip/fddi(65535)",
    "blake3/tcp/ip/fddi(65535)",
    "blake3/tcp/blake3/ip/ether(9000)",
];

/// The length of the longest message that all of them take.
const LONGEST: usize = 65_535 - 400;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn lanes_that_share_a_tree_deliver_what_was_sent(
        text in prop::sample::select(STACKS),
        lanes in [1..6usize, 1..6usize],
        messages in prop::collection::vec((prop_oneof![1..3000usize, 1..LONGEST, Just(LONGEST)], any::<u8>()), 1..8),
        is_slow: bool,
    ) {
        let sent: Packets = messages.into_iter().map(|(bytes, seed)| message(bytes, seed)).collect();
        let (out, _) = between(kernels()[usize::from(!is_slow)], text, lanes, &sent, |_| {});
        prop_assert!(out == sent, "{} of {} messages", out.len(), sent.len());
    }
}

#[test]
fn every_lane_has_a_share_both_ways() {
    for kernels in kernels() {
        for text in ["blake3", "blake3/tcp/ip/fddi(65535)", "aes-128-ctr/udp/blake3/ip/fddi(65535)"] {
            let sent: Packets = (0..9).map(|number| message(LONGEST, number)).collect();
            for lanes in 2..5 {
                let (out, crews) = between(kernels, text, [lanes; 2], &sent, |_| {});
                assert!(out == sent, "{text}");
                for crew in &crews {
                    // A lane hands each part back.
                    let shares = (0..lanes).map(|lane| crew.lane_counts(lane).handed_over);
                    assert!(
                        shares.clone().all(|parts| parts >= 3),
                        "{text}: {:?}",
                        shares.collect::<Vec<_>>()
                    );
                }
            }
        }
    }
}

/// A packet of 4 KB is less than one vector: nothing is cut, and no lane gets a part. Without vectors it is cut.
#[test]
fn what_one_lane_does_as_fast_stays_whole() {
    let sent: Packets = (0..9).map(|number| message(4096, number)).collect();
    for kernels in kernels() {
        let (out, [sender, _]) = between(kernels, "blake3", [2, 2], &sent, |_| {});
        assert!(out == sent);
        let is_cut = sender.lane_counts(1).handed_over > 0;
        assert_eq!(is_cut, kernels.blake3_leaves(false) <= 2);
    }
}

/// One byte of each leaf is changed, hence of each piece of every lane, and one of the digest itself.
#[test]
fn what_is_changed_in_any_piece_is_refused_and_the_rest_delivered() {
    for kernels in kernels() {
        for lanes in [2, 3, 4] {
            let bytes = LONGEST;
            let leaves = (bytes + 36).div_ceil(1024);
            let sent: Packets = (0..leaves + 2).map(|number| message(bytes, number as u8)).collect();
            // The digest's last byte, the packet's last, and one of each leaf are changed; the first packet passes.
            let at = |number: usize| match number {
                0 => 35,
                1 => bytes + 35,
                _ => (number - 2) * 1024 + 777,
            };
            let seen = Mutex::new(0usize);
            let change = |packets: &mut VecDeque<Vec<u8>>| {
                let mut seen = seen.lock().unwrap();
                for packet in packets {
                    if seen.is_multiple_of(2) {
                        packet[at(*seen / 2).min(bytes + 35)] ^= 0x10;
                    }
                    *seen += 1;
                }
            };
            let twice: Packets = sent.iter().flat_map(|packet| [packet.clone(), packet.clone()]).collect();
            let (out, [_, receiver]) = between(kernels, "blake3", [lanes, lanes], &twice, change);
            assert_eq!(*seen.lock().unwrap(), twice.len());
            assert!(out == sent, "{} of {}", out.len(), sent.len());
            let counts = receiver.counts(0, Way::Up);
            assert_eq!(counts.of(Verdict::Damaged), sent.len() as u64);
            assert_eq!(counts.of(Verdict::Passed), sent.len() as u64);
        }
    }
}
