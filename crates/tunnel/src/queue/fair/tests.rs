//! The queue under virtual time: models of senders, with a link of a rate.

use std::collections::HashMap;

use rand_xoshiro::{
    Xoshiro256PlusPlus,
    rand_core::{Rng as _, SeedableRng as _},
};

use super::*;

const MS: u64 = 1_000_000;
const QUANTUM: i32 = 1514;
const FLOWS: usize = 16_384;

/// Returns a flow's hash.
fn hash(flow: u64) -> u64 {
    (flow + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn turn(most_bytes: u32) -> Turn {
    Turn { most_bytes, quantum: QUANTUM, is_whole: false }
}

/// Segments of equal length, numbered within their flow.
#[derive(Debug, PartialEq, Eq)]
struct Segments {
    flow: u64,
    first: u64,
    count: u32,
    each: u32,
    is_capable: bool,
    is_marked: bool,
}

impl Parcel for Segments {
    fn left_bytes(&self) -> u32 {
        self.count * self.each
    }

    fn charge_bytes(&self) -> u32 {
        // Memory is as much as at the beginning.
        512
    }

    fn lose_segment(&mut self) -> u32 {
        (self.first, self.count) = (self.first + 1, self.count - 1);
        self.each
    }

    fn mark(&mut self) -> bool {
        self.is_marked |= self.is_capable;
        self.is_capable
    }
}

/// Counts what leaves, and checks the order.
#[derive(Debug, Default)]
struct Sink {
    taken_bytes: u64,
    lost_bytes: u64,
    full_bytes: u64,
    marked: u64,
    lost: u64,
    retired: u64,
    /// The number of the next segment of each flow, at least, and the bytes that it got.
    next: HashMap<u64, u64>,
    bytes: HashMap<u64, u64>,
    /// The longest wait of a flow's segments.
    waited_ns: HashMap<u64, u64>,
    /// The segments that CoDel took from each flow.
    lost_of: HashMap<u64, u64>,
}

impl Taker<Segments> for Sink {
    fn take(&mut self, parcel: &mut Segments, most_bytes: u32, waited_ns: u64) -> u32 {
        let count = (most_bytes / parcel.each).clamp(1, parcel.count);
        let next = self.next.entry(parcel.flow).or_default();
        assert!(parcel.first >= *next, "flow {} in order", parcel.flow);
        *next = parcel.first + u64::from(count);
        parcel.first += u64::from(count);
        parcel.count -= count;
        let bytes = count * parcel.each;
        self.taken_bytes += u64::from(bytes);
        *self.bytes.entry(parcel.flow).or_default() += u64::from(bytes);
        let longest = self.waited_ns.entry(parcel.flow).or_default();
        *longest = (*longest).max(waited_ns);
        bytes
    }

    fn met(&mut self, fate: Fate, parcel: &Segments) {
        match fate {
            Fate::Marked => self.marked += 1,
            Fate::Lost => {
                self.lost += 1;
                *self.lost_of.entry(parcel.flow).or_default() += 1;
                self.lost_bytes += u64::from(parcel.each);
            }
            Fate::Full => self.full_bytes += u64::from(parcel.left_bytes()),
        }
    }

    fn retire(&mut self, _: Segments) {
        self.retired += 1;
    }
}

fn segments(flow: u64, first: u64, count: u32, each: u32) -> Segments {
    Segments { flow, first, count, each, is_capable: false, is_marked: false }
}

/// Anything goes in, in any order of flows: every byte leaves, waits, or is lost for a reason that is told; the order within
/// flows holds, and the memory's bound too.
#[test]
fn bytes_are_conserved_and_flows_keep_their_order() {
    for seed in 0..200 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let limit = 512 * (1 + (random.next_u64() % 200) as u32);
        let mut queue = Fair::new(64, limit);
        let (mut sink, mut now, mut pushed, mut parcels) = (Sink::default(), 0, 0, 0u64);
        let mut numbers: HashMap<u64, u64> = HashMap::new();
        for _ in 0..2000 {
            now += random.next_u64() % (3 * MS);
            if random.next_u64() % 3 > 0 {
                let flow = random.next_u64() % 40;
                let (count, each) =
                    (1 + (random.next_u64() % 45) as u32, 40 + (random.next_u64() % 1400) as u32);
                let first = numbers.entry(flow).or_default();
                let mut parcel = segments(flow, *first, count, each);
                *first += u64::from(count);
                parcel.is_capable = flow % 3 == 0;
                pushed += u64::from(parcel.left_bytes());
                parcels += 1;
                queue.push(hash(flow), parcel, now, QUANTUM, &mut sink);
                assert!(queue.charge() <= limit);
            } else {
                let most = 1 + (random.next_u64() % 60_000) as u32;
                let served = queue.serve(now, turn(most), &mut sink);
                assert!(served <= most + 1440, "{served} of {most}");
                assert!(served >= most || queue.is_empty());
            }
            let told = sink.taken_bytes + sink.lost_bytes + sink.full_bytes + u64::from(queue.bytes());
            assert_eq!(pushed, told, "seed {seed}");
        }
        queue.serve(now, turn(u32::MAX), &mut sink);
        assert!(queue.is_empty() && queue.bytes() == 0 && queue.occupied == 0);
        assert_eq!(sink.retired, parcels);
    }
}

/// Runs a link of `byte_per_ms` for `ms`: `arrive` gives each millisecond's parcels.
fn link(
    byte_per_ms: u32,
    ms: u64,
    mut arrive: impl FnMut(u64, &Sink) -> Vec<Segments>,
) -> (Sink, Fair<Segments>) {
    let (mut queue, mut sink) = (Fair::new(FLOWS, 8 << 20), Sink::default());
    let mut credit = 0i64;
    for at in 0..ms {
        for parcel in arrive(at, &sink) {
            queue.push(hash(parcel.flow), parcel, at * MS, QUANTUM, &mut sink);
        }
        credit += i64::from(byte_per_ms);
        if credit > 0 {
            credit -= i64::from(queue.serve(at * MS, turn(credit as u32), &mut sink));
            credit = credit.min(i64::from(byte_per_ms));
        }
    }
    (sink, queue)
}

#[test]
fn below_the_links_rate_nothing_is_lost() {
    let mut numbers = [0; 8];
    let (sink, queue) = link(12_500, 3000, |at, _| {
        // Each flow in bursts of its own interval, 90 % of the rate in all.
        let due = (0..8u64).filter(|flow| at % (5 + flow) == 0);
        due.map(|flow| {
            let count = (u64::from(12_500u32 / 8) * 9 / 10 * (5 + flow) / 1400) as u32;
            let first = numbers[flow as usize];
            numbers[flow as usize] += u64::from(count);
            segments(flow, first, count, 1400)
        })
        .collect()
    });
    assert_eq!((sink.lost, sink.marked, sink.full_bytes), (0, 0, 0));
    assert!(queue.bytes() < 100_000);
}

/// Senders that answer a loss as TCP does: a window that grows by a segment a round trip, and is halved by a loss.
#[test]
fn standing_flows_share_evenly_lose_by_codel_alone_and_a_sparse_one_waits_for_none() {
    const FLOWS: u64 = 6;
    let mut windows = [20.0_f64; FLOWS as usize];
    let (mut numbers, mut lost_before) = ([0u64; FLOWS as usize + 1], [0; FLOWS as usize]);
    let mut under_way = [0u64; FLOWS as usize];
    let mut got = [0u64; FLOWS as usize];
    let (sink, _) = link(12_500, 20_000, |at, sink| {
        let mut parcels = Vec::new();
        for flow in 0..FLOWS {
            let own = flow as usize;
            let bytes = sink.bytes.get(&flow).copied().unwrap_or_default();
            let acknowledged = (bytes - got[own]) / 1400;
            got[own] += acknowledged * 1400;
            under_way[own] = under_way[own].saturating_sub(acknowledged);
            windows[own] += acknowledged as f64 / windows[own];
            let lost = sink.lost_of.get(&flow).copied().unwrap_or_default();
            if lost > lost_before[own] {
                windows[own] = (windows[own] / 2.0).max(2.0);
                under_way[own] = under_way[own].saturating_sub(lost - lost_before[own]);
                lost_before[own] = lost;
            }
            let count = (windows[own] as u64).saturating_sub(under_way[own]).min(40);
            if count > 0 {
                parcels.push(segments(flow, numbers[own], count as u32, 1400));
                numbers[own] += count;
                under_way[own] += count;
            }
        }
        if at % 7 == 0 {
            parcels.push(segments(FLOWS, numbers[FLOWS as usize], 1, 120));
            numbers[FLOWS as usize] += 1;
        }
        parcels
    });
    assert_eq!(sink.full_bytes, 0);
    assert!(sink.lost > 10, "{}", sink.lost);
    // A turn of the old flows, at 1.4 kB in 0.11 ms.
    assert!(sink.waited_ns[&FLOWS] <= 2 * MS, "{:?}", sink.waited_ns);
    let bytes: Vec<f64> = (0..FLOWS).map(|flow| sink.bytes[&flow] as f64).collect();
    let (sum, squares) =
        bytes.iter().fold((0.0, 0.0), |(sum, squares), own| (sum + own, squares + own * own));
    let jain = sum * sum / (FLOWS as f64 * squares);
    assert!(jain > 0.95, "{jain}: {bytes:?}");
    assert!(sum > 0.95 * 12_500.0 * 20_000.0, "the link is used: {sum}");
}

/// New flows without end, a packet each: a flow that has packets goes on, and memory is bounded.
#[test]
fn a_flood_of_new_flows_stops_no_old_one() {
    let (mut queue, mut sink) = (Fair::new(FLOWS, 1 << 20), Sink::default());
    let (mut number, mut stranger) = (0, 100u64);
    for at in 0..2000u64 {
        queue.push(hash(1), segments(1, number, 4, 1400), at * MS, QUANTUM, &mut sink);
        number += 4;
        for _ in 0..400 {
            stranger += 1;
            queue.push(hash(stranger), segments(stranger, 0, 1, 64), at * MS, QUANTUM, &mut sink);
        }
        queue.serve(at * MS, turn(12_500), &mut sink);
        assert!(queue.charge() <= 1 << 20);
    }
    // A turn of a packet for each of [`SPARSE_BYTES`] of the flood.
    let share = sink.bytes[&1] as f64 / sink.taken_bytes as f64;
    assert!(share > 0.2, "{share}");
    assert!(queue.nodes.len() <= 1 + (1 << 20) / 512);
}

/// A sender that answers to no loss fills the memory with its own packets, and loses those.
#[test]
fn a_flood_in_one_flow_loses_its_own() {
    let (mut numbers, mut sent) = ([0u64; 2], 0);
    let (sink, queue) = link(12_500, 3000, |at, _| {
        let mut parcels: Vec<Segments> =
            (0..27).map(|more| segments(0, numbers[0] + more, 1, 1400)).collect();
        numbers[0] += 27;
        if at % 10 == 0 {
            parcels.push(segments(1, numbers[1], 2, 1400));
            numbers[1] += 2;
            sent += 2800;
        }
        parcels
    });
    assert_eq!(sink.bytes[&1], sent);
    assert!(sink.waited_ns[&1] <= 2 * MS);
    assert!(queue.charge() <= 8 << 20);
    assert!(sink.lost > 0);
}

#[test]
fn who_knows_marks_is_marked_and_loses_nothing() {
    let mut number = 0;
    let (sink, _) = link(12_500, 1000, |_, _| {
        number += 10;
        vec![Segments { is_capable: true, ..segments(0, number, 10, 1400) }]
    });
    assert!(sink.marked > 0);
    assert_eq!((sink.lost, sink.full_bytes), (0, 0));
}

/// A GSO packet stays one while the link bounds nothing, and flows take turns by GSO packets.
#[test]
fn parcels_that_are_not_to_be_cut_leave_whole() {
    let (mut queue, mut sink) = (Fair::new(FLOWS, 8 << 20), Sink::default());
    for at in 0..24 {
        queue.push(hash(at % 2), segments(at % 2, 40 * (at / 2), 40, 1400), 0, 60_000, &mut sink);
    }
    let turn = Turn { most_bytes: 64_000, quantum: 60_000, is_whole: true };
    for taken in 1..=24 {
        assert_eq!(queue.serve(MS, turn, &mut sink), 56_000);
        // A flow may be ahead by its first turn, and by one as an old flow.
        let bytes = |flow| sink.bytes.get(&flow).copied().unwrap_or_default();
        assert!(bytes(0).abs_diff(bytes(1)) <= 3 * 56_000, "{taken}");
    }
    assert!(queue.is_empty() && sink.retired == 24);
}

/// Single segments of GSO packets are lost, not all.
#[test]
fn codel_loses_one_segment_of_a_gso_packet() {
    let (mut queue, mut sink) = (Fair::new(FLOWS, 8 << 20), Sink::default());
    for at in 0..10 {
        queue.push(hash(0), segments(0, 40 * at, 40, 1400), 0, QUANTUM, &mut sink);
    }
    // They stand, and the second look is an interval later.
    queue.serve(10 * MS, turn(1400), &mut sink);
    queue.serve(111 * MS, turn(3000), &mut sink);
    assert_eq!((sink.lost, sink.lost_bytes), (1, 1400));
    assert_eq!(sink.taken_bytes + u64::from(queue.bytes()), 399 * 1400);
}
