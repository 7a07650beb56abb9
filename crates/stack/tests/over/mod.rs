//! Stacks over ports, in virtual time.
#![allow(dead_code, reason = "each test file uses its part of it")]

use sealane_engine::record::Secret;
use sealane_engine::{Engine, Inline};
use sealane_lanes::{LaneWork as _, Placement, Turn};
use sealane_port::Batch;
use sealane_port::link::Clock;
use sealane_port::{Port, Room};
use sealane_stack::ends;
use sealane_stack::{Catalogue, Context, Crew, End, Ends, Lane, Plan, Stack};
use sealane_transform::Kernels;
use std::io;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(crate) fn stack(text: &str, end: End, flow: usize) -> Stack {
    let secret = Secret::new([flow as u8 + 1; 32]);
    let context = Context::new(Kernels::best(), secret, end).with_association(flow as u32);
    Catalogue::new().stack(&text.parse().unwrap(), &context).unwrap()
}

pub(crate) fn plan(placement: Placement, lanes: usize) -> Plan {
    let lanes = NonZeroUsize::new(lanes).unwrap();
    Plan { placement, lanes, batches: 8, buffer_bytes: 64 << 10, packets: 8, in_flight: 3, keeps_order: true }
}

pub(crate) fn room(stack: &Stack) -> Room {
    let room = stack.overhead();
    Room { headroom_bytes: room.head_bytes, tailroom_bytes: room.tail_bytes, ..Room::NONE }
}

/// A port whose state the test can read while a stack owns it.
pub(crate) struct Seen<P>(pub(crate) Arc<Mutex<P>>);

pub(crate) fn seen<P: Port + 'static>(port: P) -> (Arc<Mutex<P>>, Seen<P>) {
    let port = Arc::new(Mutex::new(port));
    (Arc::clone(&port), Seen(port))
}

impl<P: Port> Port for Seen<P> {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        self.0.lock().unwrap().receive(batch)
    }

    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        self.0.lock().unwrap().send(batch, from)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.0.lock().unwrap().poll_timeout()
    }
}

pub(crate) fn sent_by(port: impl Port + 'static) -> Ends {
    Ends { source: None, sink: Some(Box::new(ends(port).unwrap().1)) }
}

pub(crate) fn way(from: impl Port + 'static, to: impl Port + 'static) -> Ends {
    Ends { source: Some(Box::new(ends(from).unwrap().0)), ..sent_by(to) }
}

/// Runs the lanes of both crews in the order of `schedule` until nothing moves, then advances the time to the next
/// deadline; ends when there is no deadline.
pub(crate) fn run(crews: [&Crew; 2], lanes: usize, schedule: &[usize], clock: &Clock) {
    run_on(&Inline::new(Kernels::best()), 1, crews, lanes, schedule, clock);
}

/// Does the same on an engine that answers within `looks` polls.
pub(crate) fn run_on(
    engine: &dyn Engine,
    looks: usize,
    crews: [&Crew; 2],
    lanes: usize,
    schedule: &[usize],
    clock: &Clock,
) {
    let mut all: Vec<Lane<'_>> =
        crews.iter().flat_map(|crew| (0..lanes).map(|lane| crew.lane(lane, engine).unwrap())).collect();
    let count = all.len();
    let mut turns = schedule.iter().copied().cycle();
    let mut quiet = 0;
    loop {
        for turn in turns.by_ref().take(schedule.len().min(16)) {
            let _ = all[turn % count].step();
        }
        let has_moved = |lane: &mut Lane<'_>| lane.step() == Turn::Moved;
        let any = all.iter_mut().fold(false, |any, lane| has_moved(lane) | any);
        quiet = if any { 0 } else { quiet + 1 };
        if quiet < looks {
            continue;
        }
        quiet = 0;
        let Some(due) = crews.iter().filter_map(|crew| crew.poll_timeout()).min() else { return };
        // Lanes look at their layers' deadlines every few milliseconds.
        clock.advance_to(due.max(clock.now() + Duration::from_millis(5)));
    }
}
