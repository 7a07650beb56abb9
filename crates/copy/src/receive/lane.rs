//! A lane of the receiving end: receives, opens and writes, from the streams that its placement gives it.
//!
//! Guarantees: as for the sending end, it sleeps only as every lane does; what it read is in place before it is
//! acknowledged.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags};
use sealane_engine::record::Runner;
use sealane_stack::{At, Bells, LONGEST_SLEEP, LaneWork, Limiter, Placement, Pool, Turn, run_lane};

use crate::{
    line::LineError,
    receive::{apply::Applier, files::Files, stream::ReceiveStream},
    shared::{self, Stop},
    socket::Socket,
};

/// Longest sleep while a stream waits for much at once.
const PATIENCE: Duration = Duration::from_millis(5);

/// What the lanes of a receiving end share.
#[derive(Debug)]
pub(crate) struct Receiving {
    pub(crate) files: Files,
    pub(crate) streams: Vec<Arc<ReceiveStream>>,
    pub(crate) pool: Pool,
    pub(crate) placement: Placement,
    pub(crate) lanes: usize,
    pub(crate) limiter: Limiter,
    pub(crate) bells: Arc<Bells>,
    pub(crate) stop: Arc<Stop>,
    pub(crate) first_byte: OnceLock<Instant>,
    /// Woken when a stream needs opening.
    pub(crate) control: Arc<Bells>,
    /// Count without opening or writing (laboratory).
    pub(crate) blind: bool,
}

impl Receiving {
    fn line_failed(&self, stream: &ReceiveStream, error: LineError) {
        match error {
            LineError::Cut | LineError::Stalled => {
                stream.cut(&self.pool);
                self.control.ring();
            }
            LineError::Fatal(error) => {
                self.files.poison();
                self.stop.fail(error, &self.bells);
                self.control.ring();
            }
        }
    }
}

/// Runs lane number `lane` until the transfer stops.
pub(crate) fn run(receiving: &Receiving, lane: usize) {
    let _watch = shared::watch(&receiving.stop, &receiving.bells, &receiving.control);
    let streams: Vec<_> = (0..receiving.streams.len())
        .filter(|&flow| receiving.placement.may_run(lane, receiving.lanes, At::flow(flow)))
        .map(|flow| receiving.streams[flow].clone())
        .collect();
    let applier = Applier::new(&receiving.files, &receiving.stop);
    let mut work = Lane { receiving, streams, applier, runner: Runner::default(), waits: Vec::new() };
    run_lane(lane, &receiving.bells, &receiving.stop, &mut work);
}

struct Lane<'a> {
    receiving: &'a Receiving,
    streams: Vec<Arc<ReceiveStream>>,
    applier: Applier<'a>,
    runner: Runner,
    /// What it sleeps for.
    waits: Vec<Arc<Socket>>,
}

impl LaneWork for Lane<'_> {
    fn step(&mut self) -> Turn {
        let mut moved = false;
        for stream in &self.streams {
            match step(self.receiving, stream, &mut self.applier, &mut self.runner) {
                Ok(some) => moved |= some,
                Err(error) => self.receiving.line_failed(stream, error),
            }
        }
        if moved { Turn::Moved } else { Turn::Idle }
    }

    fn wait_for<'a>(&'a mut self, fds: &mut Vec<PollFd<'a>>) -> Duration {
        self.waits.clear();
        self.waits.extend(self.streams.iter().filter_map(|stream| stream.socket()));
        fds.extend(self.waits.iter().map(|socket| PollFd::new(&**socket, PollFlags::IN)));
        if self.streams.iter().any(|stream| stream.is_patient()) { PATIENCE } else { LONGEST_SLEEP }
    }

    fn slept_out(&mut self) {
        self.streams.iter().for_each(|stream| stream.hurry());
    }
}

fn step(
    receiving: &Receiving,
    stream: &ReceiveStream,
    applier: &mut Applier<'_>,
    runner: &mut Runner,
) -> Result<bool, LineError> {
    let Some(mut in_hand) = stream.look(&receiving.pool)? else {
        stream.acknowledge()?;
        return Ok(false);
    };
    receiving.first_byte.get_or_init(Instant::now);
    in_hand.open(runner)?;
    let arrived = &in_hand.arrived;
    let bytes = if receiving.blind {
        applier.count(arrived)
    } else {
        if applier.lacks_announcement(arrived) {
            in_hand.wait_for_earlier(&receiving.stop);
        }
        applier.apply(arrived).map_err(LineError::Fatal)?
    };
    // Names count as well: a tree of empty files has no content.
    let wire_bytes = arrived.headers.iter().map(|header| header.body_bytes as u64).sum();
    in_hand.taken()?;
    pause(receiving, bytes.max(wire_bytes));
    Ok(true)
}

/// Holds the lane back to the agreed rate; the sockets fill up and the sender feels it.
fn pause(receiving: &Receiving, bytes: u64) {
    let until = Instant::now() + receiving.limiter.delay(bytes, Instant::now());
    while !receiving.stop.is_set() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(LONGEST_SLEEP));
    }
}
