//! A lane of the receiving end: receives records, has them opened and writes them, for the streams of its placement.
//!
//! Guarantees: like a lane of the sending end, it sleeps only in [`run_lane`]; records are in place before they are
//! acknowledged; it waits for other lanes only while it holds nothing that they may wait for.

use std::{
    io,
    num::NonZeroUsize,
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use crate::shared::Pool;
use rustix::event::{PollFd, PollFlags};
use sealane_engine::{Engine, Submitter, Work};
use sealane_lanes::{At, Bells, LONGEST_SLEEP, LaneWork, Limiter, Placement, Turn, run_lane};

use crate::{
    error::Error,
    line::LineError,
    proto::record::Header,
    receive::{
        apply::Applier,
        files::Files,
        stream::{ReceiveStream, TakenRecords},
    },
    shared::{self, Stop},
    socket::Socket,
};

/// The longest sleep while a stream waits for a large amount.
const PATIENCE: Duration = Duration::from_millis(5);

/// The maximum number of one lane's batches in an engine at a time.
const WORKS_MAX: NonZeroUsize = NonZeroUsize::new(4).expect("not zero");

/// The state shared by the lanes of a receiving end.
#[derive(Debug)]
pub(crate) struct Receiving {
    pub(crate) files: Files,
    pub(crate) streams: Vec<Arc<ReceiveStream>>,
    pub(crate) pool: Pool,
    /// The engine that verifies and opens.
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) placement: Placement,
    pub(crate) lanes: usize,
    pub(crate) limiter: Limiter,
    pub(crate) bells: Arc<Bells>,
    pub(crate) stop: Arc<Stop>,
    pub(crate) first_byte: OnceLock<Instant>,
    /// The bell of the control thread, which rings when a stream must be opened.
    pub(crate) control: Arc<Bells>,
    /// Whether records are counted without being opened or written (laboratory).
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
    match Lane::new(receiving, lane) {
        Ok(mut work) => run_lane(lane, &receiving.bells, &receiving.stop, &mut work),
        Err(error) => {
            receiving.stop.fail(Error::io(shared::NO_QUEUE, &error), &receiving.bells);
            receiving.control.ring();
        }
    }
}

struct Lane<'a> {
    receiving: &'a Receiving,
    streams: Vec<&'a ReceiveStream>,
    applier: Applier<'a>,
    engine: Submitter<TakenRecords<'a>>,
    /// Opened batches that wait for earlier ones of their streams.
    opened: Vec<TakenRecords<'a>>,
    /// Streams with lost connections. A lane removes a connection only when it holds no batches: it then waits for
    /// other lanes' batches of that stream, and they may wait for its own.
    failed: Vec<(&'a ReceiveStream, LineError)>,
    /// Works without a buffer, kept for the memory of their jobs.
    spare: Vec<Work>,
    /// The sockets to sleep on.
    waits: Vec<Arc<Socket>>,
}

impl LaneWork for Lane<'_> {
    fn step(&mut self) -> Turn {
        let mut moved = self.collect();
        for index in 0..self.streams.len() {
            if !self.failed.is_empty() {
                break;
            }
            let stream = self.streams[index];
            match self.look(stream) {
                Ok(some) => moved |= some,
                Err(error) => self.fail(stream, error),
            }
        }
        if !self.failed.is_empty() && !self.has_in_hand() {
            moved = true;
            for (stream, error) in self.failed.drain(..) {
                self.receiving.line_failed(stream, error);
            }
        }
        if moved { Turn::Moved } else { Turn::Idle }
    }

    fn wait_for<'a>(&'a mut self, fds: &mut Vec<PollFd<'a>>) -> Duration {
        self.waits.clear();
        // While the engine has all buffers, a lane could not read a socket's bytes.
        let has_room = self.engine.in_hand() == 0 || self.receiving.pool.left() > 0;
        if has_room && self.failed.is_empty() {
            self.waits.extend(self.streams.iter().filter_map(|stream| stream.socket()));
        }
        fds.extend(self.waits.iter().map(|socket| PollFd::new(&**socket, PollFlags::IN)));
        fds.extend(self.engine.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        let is_patient = !self.opened.is_empty() || self.streams.iter().any(|stream| stream.is_patient());
        if is_patient { PATIENCE } else { LONGEST_SLEEP }
    }

    fn slept_out(&mut self) {
        self.streams.iter().for_each(|stream| stream.hurry());
    }
}

impl<'a> Lane<'a> {
    fn new(receiving: &'a Receiving, lane: usize) -> io::Result<Self> {
        let queue = receiving.engine.queue(WORKS_MAX)?;
        Ok(Self {
            receiving,
            streams: (0..receiving.streams.len())
                .filter(|&flow| receiving.placement.may_run(lane, receiving.lanes, At::flow(flow)))
                .map(|flow| &*receiving.streams[flow])
                .collect(),
            applier: Applier::new(&receiving.files, &receiving.stop),
            engine: Submitter::new(queue, WORKS_MAX.get()),
            opened: Vec::new(),
            failed: Vec::new(),
            spare: Vec::new(),
            waits: Vec::new(),
        })
    }

    fn has_in_hand(&self) -> bool {
        self.engine.in_hand() > 0 || !self.opened.is_empty()
    }

    /// The failure counts at once, but the connection is removed when the lane has finished its batches.
    fn fail(&mut self, stream: &'a ReceiveStream, error: LineError) {
        match error {
            LineError::Fatal(_) => self.receiving.line_failed(stream, error),
            LineError::Cut | LineError::Stalled => self.failed.push((stream, error)),
        }
    }

    /// Receives the available bytes of a stream and has the records opened.
    fn look(&mut self, stream: &'a ReceiveStream) -> Result<bool, LineError> {
        let receiving = self.receiving;
        let Some(mut in_hand) = stream.look(&receiving.pool)? else {
            stream.acknowledge()?;
            return Ok(false);
        };
        receiving.first_byte.get_or_init(Instant::now);
        if receiving.blind {
            let bytes = self.applier.count(&in_hand.arrived);
            taken(receiving, in_hand, bytes)?;
        } else {
            let work = in_hand.lay(self.spare.pop().unwrap_or_default())?;
            self.engine.submit(work, in_hand);
            self.collect();
        }
        Ok(true)
    }

    /// Collects the records that the engine has opened, and writes them.
    fn collect(&mut self) -> bool {
        let mut any = false;
        while let Some((work, mut in_hand)) = self.engine.finished() {
            any = true;
            let stream = in_hand.stream();
            match in_hand.opened(work) {
                Ok(()) => self.opened.push(in_hand),
                Err(error) => self.fail(stream, error),
            }
        }
        any | self.put_in_place()
    }

    /// Writes the batches that do not wait for an earlier one of their stream.
    fn put_in_place(&mut self) -> bool {
        let stop = &self.receiving.stop;
        let mut any = false;
        let mut index = 0;
        while index < self.opened.len() {
            let in_hand = &self.opened[index];
            if self.applier.lacks_announcement(&in_hand.arrived) && !in_hand.is_next(stop) {
                if self.opened.len() > 1 || self.engine.in_hand() > 0 {
                    index += 1;
                    continue;
                }
                in_hand.wait_for_earlier(stop);
            }
            any = true;
            let in_hand = self.opened.remove(index);
            let stream = in_hand.stream();
            if let Err(error) = self.apply(in_hand) {
                self.fail(stream, error);
            }
        }
        any
    }

    fn apply(&mut self, mut in_hand: TakenRecords<'a>) -> Result<(), LineError> {
        let bytes = self.applier.apply(&in_hand.arrived).map_err(LineError::Fatal)?;
        self.spare.push(in_hand.arrived.reclaim());
        taken(self.receiving, in_hand, bytes)
    }
}

/// Counts records that are in place, with this many bytes of content.
fn taken(receiving: &Receiving, in_hand: TakenRecords<'_>, bytes: u64) -> Result<(), LineError> {
    // Names count as well: a tree of empty files has no content. What was compressed counts as it came.
    let is_compressed = |header: &Header| header.kind.expanded().is_some();
    let headers = &in_hand.arrived.headers;
    let wire_bytes: u64 = headers.iter().map(|header| header.body_bytes as u64).sum();
    let bytes = if headers.iter().any(is_compressed) { wire_bytes } else { bytes.max(wire_bytes) };
    in_hand.taken()?;
    pause(receiving, bytes);
    Ok(())
}

/// Holds the lane back to the agreed rate; the sockets then fill up and slow down the sender.
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
