//! A lane of the sending end: fills batches, has them sealed and sends them, on the streams of its placement.
//!
//! Guarantees: a lane never blocks on one socket while another of its streams could continue; it sleeps only in
//! [`run_lane`], and wakes for work, room, acknowledgements and the end.

use std::{
    io,
    num::NonZeroUsize,
    sync::{
        Arc, Barrier, OnceLock,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::shared::Pool;
use rustix::event::{PollFd, PollFlags};
use sealane_engine::{Engine, Submitter, Suite, Work};
use sealane_lanes::{At, Bells, LONGEST_SLEEP, LaneWork, Limiter, Placement, Turn, run_lane};
use sealane_tree::Reader;

use crate::{
    error::{Error, ErrorKind},
    line::LineError,
    send::{
        batch::Builder,
        compress::{Governor, Press},
        fill::{Filler, Filling},
        line::{Flushed, Settled},
        stream::{SendStream, StreamSlot},
        work::{Check, Content},
    },
    shared::{self, Stop},
    socket::Socket,
};

/// The message for a user whose data streams open and then carry nothing.
const STALLED: &str = "the data streams open, but no data arrives through them, not even in small segments\n\
    Something on the way drops the data, often a path with a smaller MTU than its ends expect (a VPN, a tunnel). \
    Lower the MTU of this machine's interface, or send the data inside ssh with --through-ssh, to HOST:PATH";

/// The time that a batch waits for a stream of its lane while others are open.
const PATIENCE: Duration = Duration::from_secs(1);

/// The maximum number of one lane's batches in an engine at a time.
const WORKS_MAX: NonZeroUsize = NonZeroUsize::new(4).expect("not zero");

/// The state shared by the lanes of a sending end.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) filling: Filling,
    pub(crate) streams: Vec<Arc<SendStream>>,
    pub(crate) pool: Pool,
    /// The engine that seals.
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) suite: Suite,
    pub(crate) placement: Placement,
    pub(crate) lanes: usize,
    pub(crate) limiter: Limiter,
    pub(crate) compression: Governor,
    pub(crate) bells: Arc<Bells>,
    pub(crate) stop: Arc<Stop>,
    pub(crate) hold: Option<Hold>,
    pub(crate) first_byte: OnceLock<Instant>,
    pub(crate) last_byte: OnceLock<Instant>,
    /// Woken when everything is done or a stream must be opened.
    pub(crate) control: Arc<Bells>,
    /// Whether a stream was abandoned because none of its segments were answered.
    pub(crate) stalled: AtomicBool,
}

/// A batch in a lane's hands. If it is dropped, it returns its buffer to the pool and its content to the queue.
#[derive(Debug)]
struct TakenBatch<'a> {
    sending: &'a Sending,
    batch: Builder,
}

impl Drop for TakenBatch<'_> {
    fn drop(&mut self) {
        let (buffer, again, is_counted) = self.batch.dissolve();
        buffer.into_iter().for_each(|buffer| self.sending.pool.give(buffer));
        if is_counted || !again.is_empty() {
            self.sending.settle(Settled { again, batches: usize::from(is_counted), ..Settled::default() });
        }
    }
}

/// Seals everything before the first byte is sent: the laboratory's sender does this when the receiver is measured.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) barrier: Barrier,
    pub(crate) released: AtomicBool,
}

impl Sending {
    fn holds(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| !hold.released.load(Relaxed))
    }

    /// Counts content that the receiver has.
    pub(crate) fn arrived(&self, flushed: Flushed) {
        let progress = &self.filling.progress;
        let bytes = flushed.acknowledged.iter().map(Content::bytes).sum();
        self.filling.deltas.arrived(self, bytes);
        for content in &flushed.acknowledged {
            progress.bytes_moved.fetch_add(content.bytes(), Relaxed);
            if let Content::Pack { candidates, .. } = content {
                progress.files_done.fetch_add(candidates.len() as u64, Relaxed);
            }
        }
        self.compression.arrived(&flushed.sampled, Instant::now());
        self.batches_done(flushed.batches);
    }

    /// Counts batches, or files that are compared, as done.
    pub(in crate::send) fn batches_done(&self, batches: usize) {
        (0..batches).for_each(|_| self.filling.queue.done());
        if batches > 0 && self.filling.queue.is_done() {
            let _ = self.last_byte.set(Instant::now());
            self.bells.ring();
            self.control.ring();
        }
    }

    /// Divides the permitted bytes in flight among the opened streams.
    pub(crate) fn share_windows(&self) {
        let opened = self.streams.iter().filter(|stream| stream.opening() > 0).count();
        self.streams.iter().for_each(|stream| stream.share_window(opened as u16));
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
                // If the closing record was made, it is made and counted again.
                Content::Range { file, .. } => u64::from(file.reopen()),
                Content::Kept { file, claim } => {
                    let kept = claim.range.end - claim.range.start;
                    let counter = match claim.check {
                        Check::Elsewhere(_) => &counters.matched_bytes,
                        Check::Hash(_) | Check::Trusted => &counters.resumed_bytes,
                    };
                    counter.fetch_sub(kept, Relaxed);
                    u64::from(file.reopen())
                }
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
    match Lane::new(sending, lane, reader) {
        Ok(mut work) => run_lane(lane, &sending.bells, &sending.stop, &mut work),
        Err(error) => sending.stop.fail(Error::io(shared::NO_QUEUE, &error), &sending.bells),
    }
    sending.bells.ring();
    sending.control.ring();
}

/// A batch that an engine seals, and its place.
struct Sealing<'a> {
    in_hand: TakenBatch<'a>,
    place: StreamSlot<'a>,
}

struct Lane<'a> {
    sending: &'a Sending,
    streams: Vec<&'a SendStream>,
    filler: Filler<'a>,
    engine: Submitter<Sealing<'a>>,
    /// Works without a buffer, kept for the memory of their jobs.
    spare: Vec<Work>,
    /// Compresses content, once some is to be; `None` also while a batch has it.
    press: Option<Box<Press>>,
    /// Filled, but without a place yet.
    ready: Option<TakenBatch<'a>>,
    ready_at: Instant,
    turn: usize,
    /// Maybe no stream has been opened yet.
    may_be_early: bool,
    /// The sockets to sleep on.
    waits: Vec<(Arc<Socket>, PollFlags)>,
}

impl LaneWork for Lane<'_> {
    fn step(&mut self) -> Turn {
        let sending = self.sending;
        if sending.filling.queue.is_done() {
            return Turn::Done;
        }
        let holds = sending.holds();
        let mut moved = self.collect();
        moved |= !holds && self.flush();
        moved |= self.build();
        moved |= self.place();
        if self.streams.iter().all(|stream| stream.is_abandoned()) {
            self.release();
            return Turn::Done;
        }
        moved = moved || self.give_back();
        if !moved && holds && self.engine.in_hand() == 0 && sending.filling.queue.is_drained() {
            self.unhold();
            moved = true;
        }
        if moved { Turn::Moved } else { Turn::Idle }
    }

    fn wait_for<'a>(&'a mut self, fds: &mut Vec<PollFd<'a>>) -> Duration {
        let now = Instant::now();
        let mut sleep = match self.ready_at.saturating_duration_since(now) {
            Duration::ZERO => LONGEST_SLEEP,
            until_ready => until_ready,
        };
        let wait = |stream: &&SendStream| {
            let (socket, interest) = (stream.socket()?, stream.interest());
            if let Some(until) = interest.until {
                sleep = sleep.min(until.saturating_duration_since(now));
            }
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::OUT, interest.send);
            flags.set(PollFlags::IN, interest.receive);
            (!flags.is_empty()).then_some((socket, flags))
        };
        self.waits.clear();
        self.waits.extend(self.streams.iter().filter_map(wait));
        fds.extend(self.waits.iter().map(|(socket, flags)| PollFd::new(&**socket, *flags)));
        fds.extend(self.engine.fd().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        sleep
    }
}

impl<'a> Lane<'a> {
    fn new(sending: &'a Sending, lane: usize, reader: Reader) -> io::Result<Self> {
        let queue = sending.engine.queue(WORKS_MAX)?;
        Ok(Self {
            sending,
            streams: (0..sending.streams.len())
                .filter(|&flow| sending.placement.may_run(lane, sending.lanes, At::flow(flow)))
                .map(|flow| &*sending.streams[flow])
                .collect(),
            filler: Filler::new(&sending.filling, reader),
            engine: Submitter::new(queue, WORKS_MAX.get()),
            spare: Vec::new(),
            press: None,
            ready: None,
            ready_at: Instant::now(),
            turn: lane,
            may_be_early: true,
            waits: Vec::new(),
        })
    }

    fn flush(&self) -> bool {
        let sending = self.sending;
        let mut progress = false;
        for stream in &self.streams {
            let (flushed, outcome) = stream.flush(&sending.pool);
            progress |= flushed.progress;
            sending.arrived(flushed);
            if let Err(error) = outcome {
                sending.line_failed(stream, error);
            }
        }
        progress
    }

    /// Fills a batch if a stream could take it. Before any is open, the lane of the first one does so too, because this tells
    /// how much is to be sent.
    fn build(&mut self) -> bool {
        let sending = self.sending;
        let has_room = self.streams.iter().any(|stream| stream.has_room());
        let is_early = !has_room && self.ready.is_none() && self.is_early();
        if self.ready.is_some() || !(has_room || is_early) {
            return false;
        }
        let Some(buffer) = sending.pool.take() else { return false };
        let mut in_hand = TakenBatch { sending, batch: Builder::new(buffer, sending.suite) };
        let batch = &mut in_hand.batch;
        let setting = sending.compression.next();
        batch.belongs_to(setting.sample);
        if let Some(level) = setting.level
            && let Some(press) = self.press.take().or_else(Press::new)
        {
            batch.compress_by(press.at(level));
        }
        self.filler.fill(batch);
        self.press = batch.stop_compressing().or_else(|| self.press.take());
        if let Some(press) = &mut self.press {
            let spared = std::mem::take(&mut press.spared_bytes);
            sending.filling.counters.spared_bytes.fetch_add(spared, Relaxed);
        }
        if is_early || sending.filling.deltas.has_messages() {
            sending.control.ring();
        }
        if batch.is_empty() {
            return false;
        }
        sending.first_byte.get_or_init(Instant::now);
        if !batch.counted {
            sending.filling.queue.batch_out();
            batch.counted = true;
        }
        let now = Instant::now();
        // Names count as well: a tree of empty files has no content.
        self.ready_at = now + sending.limiter.delay(batch.wire_bytes(), now);
        self.ready = Some(in_hand);
        true
    }

    /// Returns whether this is the lane of the first stream, and none has been opened yet.
    fn is_early(&mut self) -> bool {
        if !self.may_be_early {
            return false;
        }
        let streams = &self.sending.streams;
        let has_first = matches!((streams.first(), self.streams.first()), (Some(first), Some(own)) if std::ptr::eq(&**first, *own));
        self.may_be_early = has_first && streams.iter().all(|stream| stream.opening() == 0);
        self.may_be_early
    }

    /// Has the ready batch sealed for the next stream in turn that has a place for it.
    fn place(&mut self) -> bool {
        if self.ready.is_none() || Instant::now() < self.ready_at {
            return false;
        }
        let count = self.streams.len();
        for step in 0..count {
            let stream = self.streams[(self.turn + step) % count];
            let Some(records) = self.ready.as_ref().map(|in_hand| in_hand.batch.records()) else {
                return true;
            };
            let room = stream.has_room().then(|| stream.place(records)).flatten();
            let Some(place) = room else { continue };
            let Some(mut in_hand) = self.ready.take() else { return true };
            self.turn = (self.turn + step + 1) % count;
            let work = place.lay(&mut in_hand.batch, self.spare.pop().unwrap_or_default());
            self.engine.submit(work, Sealing { in_hand, place });
            self.collect();
            return true;
        }
        false
    }

    /// Passes batches that the engine has sealed to the streams.
    fn collect(&mut self) -> bool {
        let mut any = false;
        while let Some((work, sealing)) = self.engine.finished() {
            any = true;
            self.sealed(work, sealing);
        }
        any
    }

    fn sealed(&mut self, mut work: Work, Sealing { mut in_hand, place }: Sealing<'_>) {
        // A batch that the stream does not take goes back to the queue.
        place.fill(&mut in_hand.batch, &mut work);
        self.spare.push(work);
    }

    /// Gives the ready batch to the lanes of other streams, if none of this lane's is open: one was abandoned, or for a while
    /// others carry and these do not come. An end that is connected to never learns that a first stream stays away, as the
    /// second of a copy that one login carries between two far ends.
    fn give_back(&mut self) -> bool {
        let is_open = |stream: &SendStream| !stream.is_abandoned() && stream.opening() > 0;
        if self.ready.is_none() || self.streams.iter().any(|stream| is_open(stream)) {
            return false;
        }
        let has_lost = self.streams.iter().any(|stream| stream.is_abandoned());
        let is_late = self.ready_at.elapsed() >= PATIENCE;
        let is_left_out = is_late && self.sending.streams.iter().any(|stream| is_open(stream));
        if !has_lost && !is_left_out {
            return false;
        }
        self.filler.release();
        self.ready = None;
        self.sending.bells.ring();
        true
    }

    /// Returns everything it holds, because none of its streams will be opened again.
    fn release(&mut self) {
        let sending = self.sending;
        self.filler.release();
        self.ready = None;
        while let Some((work, sealing)) = self.engine.wait() {
            self.sealed(work, sealing);
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

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, os::unix::net::UnixStream, sync::Arc, thread};

    use sealane_engine::Software;
    use sealane_engine::record::Secret;
    use sealane_tree::{Naming, Source, SourceRoot, WalkOptions};

    use super::*;
    use crate::{
        proto::keys::TransferKeys,
        send::scan,
        transfer::ends::{self, Plan},
    };

    /// The first stream is abandoned, or stays away while nobody says so.
    #[test]
    fn a_batch_of_a_stream_that_was_never_opened_goes_to_another_lane() {
        for is_abandoned in [true, false] {
            goes_to_another_lane(is_abandoned);
        }
    }

    fn goes_to_another_lane(is_abandoned: bool) {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join("file"), b"content").unwrap();
        let source = Source::new(vec![SourceRoot::open(&tree, &Naming::Basename, false).unwrap()]);
        let (notices, _pending) = crossbeam_channel::unbounded();
        // More streams may be added, so that the first lane has some that have not been opened yet.
        let mut plan = Plan::bare();
        (plan.terms.streams, plan.terms.streams_max, plan.terms.lanes) = (2, 4, 2);
        let sending = ends::sending(&plan, Default::default(), notices, Arc::default()).unwrap();
        scan::run(&sending, source.walk(WalkOptions { recursive: true, ..WalkOptions::default() }), || {
            source.reader()
        });
        let mut first = Lane::new(&sending, 0, source.reader()).unwrap();
        assert!(first.build() && first.ready.is_some(), "it fills a batch before any stream is open");
        let (socket, _far) = UnixStream::pair().unwrap();
        let keys = TransferKeys::new(Default::default(), &Secret::new([0; 32]), b"request", b"answer");
        let _ = sending.streams[1].open(&keys, 1, Socket::new(socket.into()).unwrap(), 0);
        let mut second = Lane::new(&sending, 1, source.reader()).unwrap();
        assert!(!first.give_back() && !second.build(), "its stream may still be opened");
        if is_abandoned {
            let _ = sending.streams[0].abandon();
        } else {
            first.ready_at -= PATIENCE;
        }
        assert!(matches!(first.step(), Turn::Moved) && first.ready.is_none());
        assert!(second.build() && second.ready.is_some(), "the other lane has its content");
    }

    #[test]
    fn what_a_lane_has_in_hand_goes_back_when_it_goes() {
        const LARGE_BYTES: u64 = 5 << 20;
        const SMALL_FILES: usize = 300;
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join("large"), vec![1; LARGE_BYTES as usize]).unwrap();
        for index in 0..SMALL_FILES {
            fs::write(tree.join(index.to_string()), vec![2; 1000]).unwrap();
        }
        let source = Source::new(vec![SourceRoot::open(&tree, &Naming::Basename, false).unwrap()]);
        let (notices, _pending) = crossbeam_channel::unbounded();
        let sending = ends::sending(&Plan::bare(), Default::default(), notices, Arc::default()).unwrap();
        scan::run(&sending, source.walk(WalkOptions { recursive: true, ..WalkOptions::default() }), || {
            source.reader()
        });
        let (socket, _far) = UnixStream::pair().unwrap();
        let keys = TransferKeys::new(Default::default(), &Secret::new([0; 32]), b"request", b"answer");
        let _ = sending.streams[0].open(&keys, 1, Socket::new(socket.into()).unwrap(), 0);

        let queue = &sending.filling.queue;
        for turn in 0..40 {
            let mut lane = Lane::new(&sending, 0, source.reader()).unwrap();
            assert!(lane.build(), "turn {turn}: there is work for a lane");
            // Some batches are complete and only need sealing.
            if turn % 4 == 0 {
                let ready = lane.ready.as_mut().unwrap();
                let place = sending.streams[0].place(ready.batch.records()).unwrap();
                let mut work = place.lay(&mut ready.batch, Work::default());
                sending.streams[0].cut(&sending.pool);
                Software::default().run(&mut work);
                assert!(!place.fill(&mut ready.batch, &mut work));
                let (socket, _far) = UnixStream::pair().unwrap();
                let _ = sending.streams[0].open(&keys, 2 + turn, Socket::new(socket.into()).unwrap(), 0);
            } else if turn % 4 == 1 {
                let panic = || {
                    let _lane = lane;
                    panic!("as a test wants it");
                };
                thread::scope(|scope| scope.spawn(panic).join().unwrap_err());
            }
            assert!(!queue.is_done());
        }

        let (mut small, mut large, mut batches) = (BTreeSet::new(), Vec::new(), 0);
        let mut filler = Filler::new(&sending.filling, source.reader());
        loop {
            let mut batch = Builder::new(sending.pool.take().expect("every buffer came back"), sending.suite);
            filler.fill(&mut batch);
            let (buffer, contents, is_counted) = batch.dissolve();
            sending.pool.give(buffer.unwrap());
            if contents.is_empty() {
                break;
            }
            if !is_counted {
                queue.batch_out();
            }
            batches += 1;
            for content in contents {
                match content {
                    Content::Range { start, end, .. } => large.extend((start < end).then_some(start..end)),
                    Content::Kept { .. } => {}
                    Content::Pack { candidates, .. } => {
                        for candidate in candidates {
                            let path = candidate.found.path.to_string();
                            assert!(small.insert(path), "{:?} is there twice", candidate.found.path);
                        }
                    }
                }
            }
        }
        sending.batches_done(batches);
        assert!(queue.is_done(), "nothing is in anybody's hands");
        assert_eq!(small.len(), SMALL_FILES + 1, "with the folder");
        large.sort_by_key(|range| range.start);
        assert!(large.windows(2).all(|pair| pair[0].end == pair[1].start), "{large:?}");
        assert_eq!(large.iter().map(|range| range.end - range.start).sum::<u64>(), LARGE_BYTES);
        let counters = &sending.filling.counters;
        assert_eq!(counters.bytes.load(Relaxed), LARGE_BYTES + 1000 * SMALL_FILES as u64);
    }
}
