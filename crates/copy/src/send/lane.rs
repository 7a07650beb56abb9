//! A lane of the sending end: fills, seals and sends, on the streams that its placement gives it.
//!
//! Guarantees: a lane never blocks on one socket while another of its streams could go on; it sleeps only as every lane
//! does ([`run_lane`]), and wakes for work, room, acknowledgements and the end.

use std::{
    sync::{
        Arc, Barrier, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags};
use sealane_engine::{Suite, record::Runner};
use sealane_stack::{At, Bells, LONGEST_SLEEP, LaneWork, Limiter, Placement, Pool, Turn, run_lane};
use sealane_tree::Reader;

use crate::{
    error::{Error, ErrorKind},
    line::LineError,
    send::{
        batch::Builder,
        fill::{Filler, Filling},
        stream::{Flushed, SendStream, Settled},
        work::Content,
    },
    shared::{self, Stop},
    socket::Socket,
};

/// What a user reads whose data streams open and then carry nothing.
const STALLED: &str = "the data streams open, but nothing that they carry arrives, not even in small segments\n\
    Something on the way swallows the data: often a path whose MTU is smaller than its ends believe (a VPN, a tunnel). \
    Lower the MTU of this machine's interface, or carry the data inside ssh: --through-ssh, with HOST:PATH";

/// What the lanes of a sending end share.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) filling: Filling,
    pub(crate) streams: Vec<Arc<SendStream>>,
    pub(crate) pool: Pool,
    pub(crate) suite: Suite,
    pub(crate) placement: Placement,
    pub(crate) lanes: usize,
    pub(crate) limiter: Limiter,
    pub(crate) bells: Arc<Bells>,
    pub(crate) stop: Arc<Stop>,
    pub(crate) timeout: Duration,
    pub(crate) hold: Option<Hold>,
    pub(crate) first_byte: OnceLock<Instant>,
    pub(crate) last_byte: OnceLock<Instant>,
    /// Woken when all is done or a stream needs opening.
    pub(crate) control: Arc<Bells>,
    /// A stream was given up because nothing that it sent was answered.
    pub(crate) stalled: AtomicBool,
}

/// Seal everything before the first byte is sent: what the laboratory's sender does when the receiver is
/// measured.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) barrier: Barrier,
    pub(crate) released: AtomicBool,
}

impl Sending {
    fn holds(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| !hold.released.load(Relaxed))
    }

    /// Takes note of what the receiver has.
    pub(crate) fn arrived(&self, flushed: Flushed) {
        let progress = &self.filling.progress;
        for content in &flushed.acknowledged {
            progress.bytes_moved.fetch_add(content.bytes(), Relaxed);
            if let Content::Pack { candidates, .. } = content {
                progress.files_done.fetch_add(candidates.len() as u64, Relaxed);
            }
        }
        self.batches_done(flushed.batches);
    }

    fn batches_done(&self, batches: usize) {
        (0..batches).for_each(|_| self.filling.queue.done());
        if batches > 0 && self.filling.queue.is_done() {
            let _ = self.last_byte.set(Instant::now());
            self.bells.ring();
            self.control.ring();
        }
    }

    /// Puts lost content back into the queue.
    pub(crate) fn settle(&self, settled: Settled) -> u64 {
        self.arrived(settled.arrived);
        let bytes = self.again(settled.again);
        self.batches_done(settled.batches);
        self.bells.ring();
        bytes
    }

    fn again(&self, contents: Vec<Content>) -> u64 {
        let counters = &self.filling.counters;
        let bytes = contents.iter().map(Content::bytes).sum();
        counters.resent_bytes.fetch_add(bytes, Relaxed);
        counters.bytes.fetch_sub(bytes, Relaxed);
        for content in contents {
            let entries = match &content {
                Content::Pack { candidates, .. } => candidates.len() as u64,
                // The closing record, if it was made, is made and counted again.
                Content::Range { file, .. } => u64::from(file.reopen()),
            };
            counters.entries.fetch_sub(entries, Relaxed);
            self.filling.queue.give_back(content);
        }
        bytes
    }

    fn line_failed(&self, stream: &SendStream, error: LineError) {
        match error {
            LineError::Cut => {
                stream.cut(&self.pool);
                self.control.ring();
            }
            LineError::Stalled => {
                self.stalled.store(true, Relaxed);
                stream.cut(&self.pool);
                self.settle(stream.abandon());
                self.control.ring();
            }
            LineError::Fatal(error) => self.stop.fail(error, &self.bells),
        }
    }
}

/// Runs lane number `lane` until everything is sent and acknowledged, or the transfer stops.
pub(crate) fn run(sending: &Sending, lane: usize, reader: Reader) {
    let _watch = shared::watch(&sending.stop, &sending.bells, &sending.control);
    let mut work = Lane {
        sending,
        streams: (0..sending.streams.len())
            .filter(|&flow| sending.placement.may_run(lane, sending.lanes, At::flow(flow)))
            .map(|flow| sending.streams[flow].clone())
            .collect(),
        filler: Filler::new(&sending.filling, reader),
        runner: Runner::default(),
        ready: None,
        ready_at: Instant::now(),
        turn: lane,
        waits: Vec::new(),
    };
    run_lane(lane, &sending.bells, &sending.stop, &mut work);
    sending.bells.ring();
    sending.control.ring();
}

struct Lane<'a> {
    sending: &'a Sending,
    streams: Vec<Arc<SendStream>>,
    filler: Filler<'a>,
    runner: Runner,
    /// Filled, but without a place yet.
    ready: Option<Builder>,
    ready_at: Instant,
    turn: usize,
    /// What it sleeps for.
    waits: Vec<(Arc<Socket>, PollFlags)>,
}

impl LaneWork for Lane<'_> {
    fn step(&mut self) -> Turn {
        let sending = self.sending;
        if sending.filling.queue.is_done() {
            return Turn::Done;
        }
        let holds = sending.holds();
        let mut moved = !holds && self.flush();
        moved |= self.build();
        moved |= self.place();
        if self.streams.iter().all(|stream| stream.is_abandoned()) {
            self.release();
            return Turn::Done;
        }
        if !moved && holds && sending.filling.queue.is_drained() {
            self.unhold();
            moved = true;
        }
        if moved { Turn::Moved } else { Turn::Idle }
    }

    fn wait_for<'a>(&'a mut self, fds: &mut Vec<PollFd<'a>>) -> Duration {
        let wait = |stream: &Arc<SendStream>| {
            let (socket, interest) = (stream.socket()?, stream.interest());
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::OUT, interest.send);
            flags.set(PollFlags::IN, interest.receive);
            (!flags.is_empty()).then_some((socket, flags))
        };
        self.waits.clear();
        self.waits.extend(self.streams.iter().filter_map(wait));
        fds.extend(self.waits.iter().map(|(socket, flags)| PollFd::new(&**socket, *flags)));
        let until_ready = self.ready_at.saturating_duration_since(Instant::now());
        if until_ready.is_zero() { LONGEST_SLEEP } else { until_ready }
    }
}

impl Lane<'_> {
    fn flush(&self) -> bool {
        let sending = self.sending;
        let mut progress = false;
        for stream in &self.streams {
            match stream.flush(&sending.pool, sending.timeout) {
                Ok(flushed) => {
                    progress |= flushed.progress;
                    sending.arrived(flushed);
                }
                Err(error) => sending.line_failed(stream, error),
            }
        }
        progress
    }

    /// Fills a batch if there is a stream that could take it.
    fn build(&mut self) -> bool {
        let sending = self.sending;
        if self.ready.is_some() || !self.streams.iter().any(|stream| stream.has_room()) {
            return false;
        }
        let Some(buffer) = sending.pool.take() else { return false };
        let mut builder = Builder::new(buffer, sending.suite);
        self.filler.fill(&mut builder);
        if builder.is_empty() {
            let (buffer, _) = builder.dissolve();
            sending.pool.give(buffer);
            return false;
        }
        sending.first_byte.get_or_init(Instant::now);
        if !builder.counted {
            sending.filling.queue.batch_out();
            builder.counted = true;
        }
        let now = Instant::now();
        // Names count as well: a tree of empty files has no content.
        self.ready_at = now + sending.limiter.delay(builder.wire_bytes(), now);
        self.ready = Some(builder);
        true
    }

    /// Seals the ready batch on the next stream in turn that has a place for it.
    fn place(&mut self) -> bool {
        let sending = self.sending;
        if self.ready.is_none() || Instant::now() < self.ready_at {
            return false;
        }
        let count = self.streams.len();
        for step in 0..count {
            let stream = &self.streams[(self.turn + step) % count];
            let Some(builder) = self.ready.take() else { return true };
            let room = stream.has_room().then(|| stream.place(builder.records())).flatten();
            let Some(place) = room else {
                self.ready = Some(builder);
                continue;
            };
            self.turn = (self.turn + step + 1) % count;
            if let Err(contents) = stream.seal(place, builder, &mut self.runner, &sending.pool) {
                sending.settle(Settled { again: contents, batches: 1, ..Settled::default() });
            }
            return true;
        }
        false
    }

    /// Gives back what it holds, because none of its streams will be opened again.
    fn release(&mut self) {
        let sending = self.sending;
        self.filler.release();
        if let Some(builder) = self.ready.take() {
            let (buffer, contents) = builder.dissolve();
            sending.pool.give(buffer);
            sending.settle(Settled { again: contents, batches: 1, ..Settled::default() });
        }
        if sending.streams.iter().all(|stream| stream.is_abandoned()) {
            let (kind, message) = match sending.stalled.load(Relaxed) {
                true => (ErrorKind::TimedOut, STALLED),
                false => {
                    (ErrorKind::Disconnected, "every data stream was lost and none could be opened again")
                }
            };
            sending.stop.fail(Error::new(kind, message), &sending.bells);
        }
    }

    fn unhold(&self) {
        if let Some(hold) = &self.sending.hold {
            if hold.barrier.wait().is_leader() {
                let _ = self.sending.first_byte.set(Instant::now());
            }
            hold.released.store(true, Relaxed);
        }
    }
}
