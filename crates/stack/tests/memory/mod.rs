//! Sources and sinks in memory.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part of it")]

use std::{
    collections::VecDeque,
    io,
    num::NonZeroUsize,
    sync::{Arc, Mutex},
};

use sealane_engine::record::Secret;
use sealane_engine::{Engine, Inline};
use sealane_lanes::Placement;
use sealane_port::Batch;
use sealane_stack::{
    Catalogue, Context, Crew, End, Ends, FlowPlan, Overhead, Plan, Sink, Source, Spec, Stack,
};
use sealane_transform::Kernels;

pub type Packets = Vec<Vec<u8>>;

/// Packets to be sent, several per batch.
pub struct MemorySource {
    pub packets: VecDeque<Vec<u8>>,
    pub per_batch: usize,
    pub room: Overhead,
}

impl Source for MemorySource {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let count = self.per_batch.min(self.packets.len());
        for packet in self.packets.drain(..count) {
            assert!(batch.push_bytes(self.room.head_bytes, &packet, self.room.tail_bytes));
        }
        Ok(count)
    }
}

/// Keeps the packets that it gets; if it is slow, every third call takes nothing, and the others take one packet.
pub struct MemorySink {
    pub packets: Arc<Mutex<Packets>>,
    pub is_slow: bool,
    pub calls: usize,
}

impl Sink for MemorySink {
    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        self.calls += 1;
        if self.is_slow && self.calls.is_multiple_of(3) {
            return Ok(0);
        }
        let count = if self.is_slow { 1 } else { batch.packets.len() - from };
        let mut packets = self.packets.lock().unwrap();
        for index in from..from + count {
            if batch.packets[index].is_passed() {
                packets.push(batch.bytes(index).to_vec());
            }
        }
        Ok(count)
    }
}

pub fn spec(text: &str) -> Spec {
    text.parse().unwrap()
}

pub fn context(end: End, flow: usize) -> Context {
    let secret = Secret::new([flow as u8 + 1; 32]);
    Context::new(Kernels::best(), secret, end).with_association(flow as u32)
}

pub fn stack(catalogue: &Catalogue, text: &str, end: End, flow: usize) -> Stack {
    catalogue.stack(&spec(text), &context(end, flow)).unwrap()
}

/// Returns the ends of one direction: a source of `packets`, and the list that collects those that came out.
pub fn ends(
    packets: Packets,
    per_batch: usize,
    room: Overhead,
    is_slow: bool,
) -> (Ends, Arc<Mutex<Packets>>) {
    let out = Arc::new(Mutex::new(Vec::new()));
    let source = MemorySource { packets: packets.into(), per_batch, room };
    let sink = MemorySink { packets: out.clone(), is_slow, calls: 0 };
    (Ends { source: Some(Box::new(source)), sink: Some(Box::new(sink)) }, out)
}

pub fn plan(placement: Placement, lanes: usize) -> Plan {
    let lanes = NonZeroUsize::new(lanes).unwrap();
    Plan { placement, lanes, batches: 8, buffer_bytes: 64 << 10, packets: 8, in_flight: 3, keeps_order: true }
}

/// Runs lanes one after another, in the order of `schedule` repeatedly, until no lane moves.
pub fn run_by_schedule(crew: &Crew, lanes: usize, schedule: &[usize]) {
    run_on(&Inline::new(Kernels::best()), 2, crew, lanes, schedule);
}

/// Does the same on an engine that answers within `looks` looks.
pub fn run_on(engine: &dyn Engine, looks: usize, crew: &Crew, lanes: usize, schedule: &[usize]) {
    let mut work: Vec<_> = (0..lanes).map(|lane| crew.lane(lane, engine).unwrap()).collect();
    let mut quiet = 0;
    let mut turns = schedule.iter().copied().cycle();
    while quiet < looks {
        // Between two looks at all lanes, some turns follow the schedule.
        for _ in 0..schedule.len().min(20) {
            let lane = turns.next().unwrap_or(0) % lanes;
            let _ = sealane_lanes::LaneWork::step(&mut work[lane]);
        }
        let moved = |lane: &mut _| sealane_lanes::LaneWork::step(lane) == sealane_lanes::Turn::Moved;
        let any = work.iter_mut().fold(false, |any, lane| moved(lane) | any);
        quiet = if any { 0 } else { quiet + 1 };
    }
}

/// Sends `packets` down one stack, one flow for each of them, and the result up another; returns the packets that
/// came out.
pub fn there_and_back(
    catalogue: &Catalogue,
    text: &str,
    plan: Plan,
    flows: &[Packets],
    change: impl Fn(usize, &mut Packets),
    schedule: &[usize],
) -> (Vec<Packets>, Crew) {
    let run = |crew: &Crew| run_by_schedule(crew, plan.lanes.get(), schedule);
    there_and_back_by(run, catalogue, text, plan, flows, change)
}

/// Does the same with `run`, which runs a crew's lanes to the end.
pub fn there_and_back_by(
    run: impl Fn(&Crew),
    catalogue: &Catalogue,
    text: &str,
    plan: Plan,
    flows: &[Packets],
    change: impl Fn(usize, &mut Packets),
) -> (Vec<Packets>, Crew) {
    let mut wires = Vec::new();
    let mut plans = Vec::new();
    for (flow, packets) in flows.iter().enumerate() {
        let stack = stack(catalogue, text, End::Near, flow);
        let (down, wire) = ends(packets.clone(), 3, stack.overhead(), flow % 2 == 0);
        plans.push(FlowPlan { stack, down, up: Ends::default() });
        wires.push(wire);
    }
    let sender = Crew::new(plan, plans).unwrap();
    run(&sender);
    let (mut outs, mut plans) = (Vec::new(), Vec::new());
    for (flow, wire) in wires.into_iter().enumerate() {
        let stack = stack(catalogue, text, End::Far, flow);
        let mut packets = std::mem::take(&mut *wire.lock().unwrap());
        change(flow, &mut packets);
        let (up, out) = ends(packets, 4, stack.overhead(), flow % 2 == 1);
        plans.push(FlowPlan { stack, down: Ends::default(), up });
        outs.push(out);
    }
    let receiver = Crew::new(plan, plans).unwrap();
    run(&receiver);
    let outs = outs.into_iter().map(|out| std::mem::take(&mut *out.lock().unwrap())).collect();
    (outs, receiver)
}
