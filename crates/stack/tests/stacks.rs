//! Stacks over memory, under every placement.

#[path = "../../../testing/late_engine.rs"]
mod late_engine;
mod memory;

use std::{
    sync::{Arc, Mutex, atomic::AtomicU64, atomic::Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use late_engine::LateEngine;
use memory::{ends, plan, run_by_schedule, run_on, spec, stack, there_and_back, there_and_back_by};
use proptest::prelude::*;
use sealane_engine::{Inline, Lanes};
use sealane_lanes::{Assignment, LaneWork, Pinning, Placement};
use sealane_port::{Batch, Verdict};
use sealane_stack::{
    Catalogue, Crew, End, Ends, FlowPlan, Kind, Layer, Outbox, SpecError, Way, no_arguments,
};
use sealane_transform::Kernels;

/// A layer that is serial in both directions and records the numbers in whose order it sees packets.
#[derive(Debug, Default)]
struct Sample {
    seen: AtomicU64,
}

impl Layer for Sample {
    fn is_serial(&self, _: Way) -> bool {
        true
    }

    fn serial(&self, way: Way, batch: Batch, _: Instant, out: &mut Outbox<'_>) {
        if way == Way::Down {
            let packets = batch.packets.len() as u64;
            assert_eq!(self.seen.fetch_add(packets, Relaxed), batch.first, "packets come in order, numbered");
        }
        out.put(way, batch);
    }
}

/// An added layer: one file, and an entry in the catalogue.
const SAMPLE: Kind = Kind {
    names: || vec!["sample".to_owned()],
    make: |layer, _| {
        no_arguments(layer)?;
        Ok(Arc::new(Sample::default()))
    },
};

fn catalogue() -> Catalogue {
    Catalogue::new().with(SAMPLE)
}

const STACKS: &[&str] = &[
    "null",
    "md5",
    "des",
    "null/inet/null",
    "des/sample/md5",
    "3des-cbc/md5/null",
    "sample/hmac-sha256",
    "aes-128-ctr/bh-140",
    "aes-256-gcm/sample/chacha20-poly1305/sample/md5",
    "etm(des,hmac-md5)",
    "sample/etm(aes-128-ctr,hmac-sha512)/touch",
    "rc4/seal3/idea-ecb",
    "des/sequence/inet",
];

fn packets() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(any::<u8>(), 1..1600), 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn any_stack_placement_and_schedule_delivers_in_order(
        text in prop::sample::select(STACKS),
        placement in prop::sample::select(&Placement::ALL),
        lanes in 1..5usize,
        flows in prop::collection::vec(packets(), 1..4),
        schedule in prop::collection::vec(any::<usize>(), 1..64),
    ) {
        let (out, receiver) =
            there_and_back(&catalogue(), text, plan(placement, lanes), &flows, |_, _| {}, &schedule);
        prop_assert_eq!(&out, &flows);
        for (flow, packets) in flows.iter().enumerate() {
            prop_assert_eq!(receiver.counts(flow, Way::Up).of(Verdict::Passed), packets.len() as u64);
        }
    }

    /// Every packet from the wire is refused or delivered, and none stops the others.
    #[test]
    fn what_is_altered_or_cut_short_is_refused_and_the_rest_delivered_in_order(
        text in prop::sample::select(&["md5", "etm(des,hmac-md5)", "des/hmac-sha256", "aes-128-gcm"][..]),
        placement in prop::sample::select(&Placement::ALL),
        sent in packets(),
        altered in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), any::<bool>()), 1..8),
    ) {
        let mut bad = std::collections::BTreeSet::new();
        let bad_cell = Mutex::new(&mut bad);
        let change = |_: usize, packets: &mut Vec<Vec<u8>>| {
            for (packet, byte, cut) in &altered {
                if packets.is_empty() { return; }
                let packet = packet.index(packets.len());
                if !bad_cell.lock().unwrap().insert(packet) { continue; }
                let bytes = &mut packets[packet];
                let at = byte.index(bytes.len());
                if *cut { bytes.truncate(at) } else { bytes[at] ^= 0x40 }
            }
        };
        let (out, receiver) =
            there_and_back(&catalogue(), text, plan(placement, 2), std::slice::from_ref(&sent), change, &[0, 1]);
        let good: Vec<_> = (0..).zip(&sent).filter(|(index, _)| !bad.contains(index)).map(|(_, packet)| packet.clone()).collect();
        prop_assert_eq!(&out[0], &good);
        let counts = receiver.counts(0, Way::Up);
        prop_assert_eq!(counts.of(Verdict::Passed), good.len() as u64);
        let refused: u64 = [Verdict::Forged, Verdict::Damaged, Verdict::Malformed].map(|verdict| counts.of(verdict)).iter().sum();
        prop_assert_eq!(refused, bad.len() as u64);
    }

    #[test]
    fn a_spec_that_parses_prints_back(text in "[a-z0-9.-]{0,6}(\\([a-z0-9,=]{0,8}\\))?(/[a-z0-9(),-]{0,9}){0,20}") {
        if let Ok(parsed) = text.parse::<sealane_stack::Spec>() {
            prop_assert_eq!(parsed.to_string(), text);
        }
    }
}

/// Every stack runs under every placement, on an engine that answers late, out of order, and not for all jobs:
/// nothing is lost, reordered, or sealed twice, which the engine itself asserts.
#[test]
fn a_late_engine_loses_and_reorders_nothing() {
    const LOOKS: usize = 100;
    let packet = |number: u32| number.to_le_bytes().repeat(1 + number as usize * 37 % 300);
    let flows: Vec<Vec<Vec<u8>>> = [0..70, 70..110].map(|numbers| numbers.map(packet).collect()).into();
    let (mut pending_jobs, mut overtaking_works) = (0, 0);
    for (seed, text) in (0..).zip(STACKS) {
        for placement in Placement::ALL {
            let late = LateEngine::new(seed);
            let run = |crew: &Crew| run_on(&late, LOOKS, crew, 3, &[0, 2, 1, 1]);
            let (out, receiver) =
                there_and_back_by(run, &catalogue(), text, plan(placement, 3), &flows, |_, _| {});
            assert!(out == flows, "{text} under {placement}");
            for (flow, packets) in flows.iter().enumerate() {
                let passed = receiver.counts(flow, Way::Up).of(Verdict::Passed);
                assert_eq!(passed, packets.len() as u64, "{text} under {placement}");
            }
            pending_jobs += late.done().pending_jobs.load(Relaxed);
            overtaking_works += late.done().overtaking_works.load(Relaxed);
        }
    }
    assert!(pending_jobs > 1000 && overtaking_works > 100, "{pending_jobs}, {overtaking_works}");
}

/// With real threads and an engine with its own threads, lanes sleep and are woken, and a stop ends them.
#[test]
fn lanes_deliver_in_order_and_stop() {
    let catalogue = catalogue();
    let sent: Vec<Vec<u8>> =
        (0..600u32).map(|number| number.to_le_bytes().repeat(1 + number as usize % 300)).collect();
    let threads = Lanes::new(Kernels::best(), 2.try_into().unwrap(), 4.try_into().unwrap()).unwrap();
    for placement in Placement::ALL {
        for engine in [&Inline::new(Kernels::best()) as &dyn sealane_engine::Engine, &threads] {
            let stack = stack(&catalogue, "etm(des,hmac-md5)/sample/des", End::Near, 0);
            let (down, wire) = ends(sent.clone(), 3, stack.overhead(), false);
            let crew =
                Crew::new(plan(placement, 3), vec![FlowPlan { stack, down, up: Ends::default() }]).unwrap();
            thread::scope(|scope| {
                let run = scope.spawn(|| crew.run(engine, Pinning::Free));
                while wire.lock().unwrap().len() < sent.len() && !run.is_finished() {
                    thread::sleep(Duration::from_millis(1));
                }
                crew.stop().finish(crew.bells());
                run.join().unwrap().unwrap();
            });
            let wire = std::mem::take(&mut *wire.lock().unwrap());
            let far = memory::stack(&catalogue, "etm(des,hmac-md5)/sample/des", End::Far, 0);
            let (up, out) = ends(wire, 4, far.overhead(), false);
            let back = Crew::new(
                plan(Placement::Block, 2),
                vec![FlowPlan { stack: far, down: Ends::default(), up }],
            )
            .unwrap();
            run_by_schedule(&back, 2, &[0, 1]);
            assert_eq!(*out.lock().unwrap(), sent, "{placement} on {}", engine.name());
        }
    }
}

/// Each of the lanes among which a placement divides one flow has a part that no other lane does.
#[test]
fn no_lane_does_another_lanes_part() {
    let cases = [
        (Placement::Layer(Assignment::IN_TURN), "null/md5"),
        (Placement::Function, "etm(des,hmac-md5)"),
        (Placement::Block, "des"),
    ];
    for (placement, text) in cases {
        let sent = vec![vec![7; 1500]; 20];
        let near = stack(&catalogue(), text, End::Near, 0);
        let (down, wire) = ends(sent.clone(), 3, near.overhead(), false);
        let flow = FlowPlan { stack: near, down, up: Ends::default() };
        run_by_schedule(&Crew::new(plan(Placement::Packet, 1), vec![flow]).unwrap(), 1, &[0]);
        let far = stack(&catalogue(), text, End::Far, 0);
        let (up, out) = ends(std::mem::take(&mut *wire.lock().unwrap()), 4, far.overhead(), false);
        let crew =
            Crew::new(plan(placement, 2), vec![FlowPlan { stack: far, down: Ends::default(), up }]).unwrap();
        let engine = Inline::new(Kernels::best());
        let mut lanes = [crew.lane(0, &engine).unwrap(), crew.lane(1, &engine).unwrap()];
        for _ in 0..100 {
            lanes[0].step();
        }
        assert!(out.lock().unwrap().is_empty(), "{placement}: the other lane has done nothing yet");
        for turn in 0..100 {
            lanes[turn % 2].step();
        }
        assert_eq!(*out.lock().unwrap(), sent, "{placement}");
    }
}

/// Under `packet` placement a delayed batch delays those behind it in order, and no more are started than the flow
/// may have under way.
#[test]
fn a_sink_that_takes_nothing_stops_the_source() {
    struct Never;
    impl sealane_stack::Sink for Never {
        fn send(&mut self, _: &Batch, _: usize) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::WouldBlock.into())
        }
    }
    struct Endless(Arc<AtomicU64>);
    impl sealane_stack::Source for Endless {
        fn receive(&mut self, batch: &mut Batch) -> std::io::Result<usize> {
            self.0.fetch_add(1, Relaxed);
            assert!(batch.push_bytes(0, b"packet", 16));
            Ok(1)
        }
    }
    for placement in Placement::ALL {
        let received = Arc::new(AtomicU64::new(0));
        let down = Ends { source: Some(Box::new(Endless(received.clone()))), sink: Some(Box::new(Never)) };
        let flow =
            FlowPlan { stack: stack(&catalogue(), "null/md5", End::Near, 0), down, up: Ends::default() };
        let crew = Crew::new(plan(placement, 2), vec![flow]).unwrap();
        run_by_schedule(&crew, 2, &[0, 1]);
        assert!(
            received.load(Relaxed) <= 1 + 3,
            "{placement}: one at the sink, and as many as the order holds"
        );
    }
}

/// Even with very few batches, no flow waits for ever behind those that are asked before it.
#[test]
fn many_flows_share_few_batches() {
    struct Endless;
    impl sealane_stack::Source for Endless {
        fn receive(&mut self, batch: &mut Batch) -> std::io::Result<usize> {
            assert!(batch.push_bytes(0, b"packet", 16));
            Ok(1)
        }
    }
    const FLOWS: usize = 40;
    let flow = |flow| {
        let down = Ends { source: Some(Box::new(Endless)), sink: None };
        FlowPlan { stack: stack(&catalogue(), "sample", End::Near, flow), down, up: Ends::default() }
    };
    let crew = Crew::new(plan(Placement::Connection, 1), (0..FLOWS).map(flow).collect()).unwrap();
    let mut lane = crew.lane(0, &Inline::new(Kernels::best())).unwrap();
    for _ in 0..FLOWS {
        let _ = lane.step();
    }
    for flow in 0..FLOWS {
        assert!(crew.counts(flow, Way::Down).of(Verdict::Passed) > 0, "flow {flow}");
    }
}

/// An engine that finishes nothing until the test allows it.
#[derive(Debug)]
struct Held(Arc<AtomicU64>);

struct HeldQueue(Box<dyn sealane_engine::Queue>, Arc<AtomicU64>);

impl sealane_engine::Engine for Held {
    fn name(&self) -> &'static str {
        "held"
    }

    fn cost(&self, _: sealane_engine::Protection) -> Option<sealane_engine::Cost> {
        None
    }

    fn queue(&self, depth: std::num::NonZeroUsize) -> std::io::Result<Box<dyn sealane_engine::Queue>> {
        let queue = sealane_engine::Engine::queue(&Inline::new(Kernels::best()), depth)?;
        Ok(Box::new(HeldQueue(queue, Arc::clone(&self.0))))
    }
}

impl sealane_engine::Queue for HeldQueue {
    fn submit(&mut self, from: &mut std::collections::VecDeque<sealane_engine::Work>) -> usize {
        self.0.submit(from)
    }

    fn finished(&mut self) -> Option<sealane_engine::Work> {
        if self.1.load(Relaxed) == 0 { None } else { self.0.finished() }
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
    }

    fn fd(&self) -> Option<std::os::fd::BorrowedFd<'_>> {
        None
    }
}

/// Batches that overtake others wait for these, unless the plan does not keep order.
#[test]
fn order_is_kept_unless_the_plan_says_otherwise() {
    for keeps_order in [true, false] {
        let stack = stack(&catalogue(), "md5", End::Near, 0);
        let sent: Vec<Vec<u8>> = (0..20).map(|number| vec![number]).collect();
        let (down, out) = ends(sent, 1, stack.overhead(), false);
        let plan = sealane_stack::Plan { keeps_order, ..plan(Placement::Packet, 2) };
        let crew = Crew::new(plan, vec![FlowPlan { stack, down, up: Ends::default() }]).unwrap();
        let released = Arc::new(AtomicU64::new(0));
        let mut held = crew.lane(0, &Held(Arc::clone(&released))).unwrap();
        let mut other = crew.lane(1, &Inline::new(Kernels::best())).unwrap();
        held.step();
        for _ in 0..50 {
            other.step();
        }
        let numbers =
            || out.lock().unwrap().iter().map(|packet| packet[packet.len() - 1]).collect::<Vec<_>>();
        assert_eq!(numbers().is_empty(), keeps_order, "{:?}", numbers());
        released.store(1, Relaxed);
        for _ in 0..50 {
            held.step();
            other.step();
        }
        let mut arrived = numbers();
        assert_eq!(arrived.is_sorted(), keeps_order, "{arrived:?}");
        arrived.sort_unstable();
        assert_eq!(arrived, (0..20).collect::<Vec<_>>());
    }
}

#[test]
fn the_papers_stacks_parse_and_print() {
    for text in ["des/tcp/md5/ip/fddi", "esp(aes-gcm)/udp/ip", "private/tcp", "3des/tcp/md5/ip/fddi"] {
        assert_eq!(spec(text).to_string(), text);
    }
    for text in ["", "/", "des//md5", "esp(", "esp()", "esp(a", "esp(a))", "Des", "a b", &"x/".repeat(40)] {
        assert!(text.parse::<sealane_stack::Spec>().is_err(), "{text}");
    }
}

#[test]
fn an_unknown_layer_is_told_what_is_known_and_an_added_one_is() {
    let context = memory::context(End::Near, 0);
    let error = Catalogue::new().stack(&spec("md5/sample"), &context).unwrap_err();
    let SpecError::Unknown { word, known } = &error else { panic!("{error}") };
    assert_eq!(word, "sample");
    assert!(known.contains("aes-128-gcm, ") && known.contains(", md5, "), "{known}");
    let stack = catalogue().stack(&spec("md5/sample"), &context).unwrap();
    assert_eq!(stack.to_string(), "md5/sample");
    assert!(matches!(catalogue().stack(&spec("null(1)"), &context), Err(SpecError::Arguments { .. })));
    assert!(matches!(catalogue().stack(&spec("etm(des,md5)"), &context), Err(SpecError::Arguments { .. })));
}

/// If several waiting batches get places at once, they are divided among the lanes: the lane that found the places
/// does not keep them all.
#[test]
fn places_that_open_at_once_are_for_all_lanes() {
    struct Gate(Arc<AtomicU64>);
    impl sealane_stack::Sink for Gate {
        fn send(&mut self, batch: &Batch, from: usize) -> std::io::Result<usize> {
            let is_open = self.0.load(Relaxed) > 0;
            if is_open { Ok(batch.packets.len() - from) } else { Err(std::io::ErrorKind::WouldBlock.into()) }
        }
    }
    let opened = Arc::new(AtomicU64::new(0));
    let stack = stack(&catalogue(), "sample/md5", End::Near, 0);
    let (mut down, _) = ends(vec![vec![7; 1500]; 100], 3, stack.overhead(), false);
    down.sink = Some(Box::new(Gate(Arc::clone(&opened))));
    let plan = sealane_stack::Plan { batches: 32, ..plan(Placement::Packet, 2) };
    let crew = Crew::new(plan, vec![FlowPlan { stack, down, up: Ends::default() }]).unwrap();
    let engine = Inline::new(Kernels::best());
    let mut lanes = [crew.lane(0, &engine).unwrap(), crew.lane(1, &engine).unwrap()];
    // One batch is at the sink and three are behind it in the order; one waits for a place, and three are behind
    // that.
    for _ in 0..100 {
        lanes[0].step();
    }
    assert_eq!(crew.lane_counts(1).batches, 0);
    opened.store(1, Relaxed);
    lanes[0].step();
    lanes[1].step();
    assert!(crew.lane_counts(1).batches > 0, "the other lane finds work");
}
