//! A sending and a receiving stream over a wire under virtual time, with lanes that take steps chosen by a seed, one
//! after the other: connections that break at any byte, in either direction, or discard everything silently; late
//! acknowledgements; full windows and pools; repeated openings; lanes that drop their batch; engines that answer
//! late, out of order, and not for all jobs.

use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    io,
    num::NonZeroUsize,
    ops::Range,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU8, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use crate::shared::{Pool, buffers};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use sealane_engine::record::Secret;
use sealane_engine::{Engine, Inline, Software, Submitter, Suite, Work};
use sealane_lanes::Clock;

use crate::{
    late_engine::LateEngine,
    line::LineError,
    proto::{
        keys::{self, TransferKeys},
        record::{Kind, seal},
    },
    receive::stream::{ReceiveStream, TakenRecords},
    send::{
        batch::Builder,
        line::{Flushed, SEGMENT_BYTES, Settled},
        stream::{SendStream, StreamSlot},
        window::Window,
        work::Content,
    },
    socket::Wire,
};

const SUITE: Suite = Suite::Aes128Gcm;
const TIMEOUT: Duration = Duration::from_secs(20);
/// The capacity of one direction; less than the length of some batches.
const WIRE_BYTES: usize = 2500;
const SEND_BUFFERS: usize = 5;
const SEND_BUFFER_BYTES: usize = 4096;
const RECEIVE_BUFFERS: usize = 4;
const RECEIVE_BUFFER_BYTES: usize = 1500;
const BODY_BYTES_MAX: u64 = 600;
const RECORDS_MAX: u64 = 4;
const RING: usize = 3;
const IN_FLIGHT: usize = 3;
const WINDOW_BYTES: u64 = 6_000;
/// The content of the first batch in bytes; each later batch has one more, so that batches can be told apart.
const FIRST_BYTES: u64 = 1_000;

/// Pseudo-random numbers from a seed.
struct Dice(SplitMix64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn of(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.of(0..count) == 0
    }
}

/// One direction of a connection.
#[derive(Debug, Default)]
struct Way {
    /// The bytes with their time of arrival.
    chunks: VecDeque<(Instant, VecDeque<u8>)>,
    /// The number of bytes until the connection breaks.
    left: Option<usize>,
}

impl Way {
    fn held(&self) -> usize {
        self.chunks.iter().map(|(_, bytes)| bytes.len()).sum()
    }
}

#[derive(Debug)]
struct Connection {
    clock: Clock,
    /// The directions to the receiver and back.
    ways: [Mutex<Way>; 2],
    is_cut: Mutex<bool>,
    delay: Duration,
    /// The wire accepts bytes and delivers none.
    swallows: bool,
    /// Bytes in flight are lost with the connection.
    loses: bool,
    unanswered: AtomicU8,
}

impl Connection {
    /// Returns a connection without faults.
    fn new(clock: &Clock, delay: Duration) -> Self {
        Self {
            clock: clock.clone(),
            ways: Default::default(),
            is_cut: Mutex::new(false),
            delay,
            swallows: false,
            loses: false,
            unanswered: AtomicU8::new(0),
        }
    }

    fn way(&self, way: usize) -> MutexGuard<'_, Way> {
        self.ways[way].lock().unwrap()
    }

    fn is_cut(&self) -> bool {
        *self.is_cut.lock().unwrap()
    }
}

/// An end of a connection: 0 sends content, 1 receives it.
#[derive(Debug)]
struct TestWire(Arc<Connection>, usize);

impl Wire for TestWire {
    fn try_send(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        if self.0.is_cut() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut way = self.0.way(self.1);
        let mut taken = bytes.len().min(WIRE_BYTES - way.held());
        if let Some(left) = &mut way.left {
            taken = taken.min(*left);
            *left -= taken;
            if *left == 0 {
                *self.0.is_cut.lock().unwrap() = true;
            }
        }
        if taken == 0 {
            return Ok(None);
        }
        let arrival = self.0.clock.now() + if self.0.swallows { 1000 * TIMEOUT } else { self.0.delay };
        way.chunks.push_back((arrival, bytes[..taken].iter().copied().collect()));
        Ok(Some(taken))
    }

    fn try_recv(&self, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        assert!(!bytes.is_empty(), "room for nothing looks like the end");
        let mut way = self.0.way(1 - self.1);
        let now = self.0.clock.now();
        if self.0.is_cut() && (self.0.loses || way.chunks.is_empty()) {
            return Ok(Some(0));
        }
        let arrived = way.chunks.front_mut().filter(|(arrival, _)| *arrival <= now);
        let Some((_, chunk)) = arrived else { return Ok(None) };
        let received = bytes.len().min(chunk.len());
        for (byte, sent) in bytes.iter_mut().zip(chunk.drain(..received)) {
            *byte = sent;
        }
        if chunk.is_empty() {
            way.chunks.pop_front();
        }
        Ok(Some(received))
    }

    fn wake_at(&self, _: usize) {}

    fn unanswered(&self) -> u8 {
        self.0.unanswered.load(SeqCst)
    }

    fn shutdown(&self) {
        *self.0.is_cut.lock().unwrap() = true;
    }
}

/// The shared parts that the streams of a world use.
struct Ground {
    clock: Clock,
    keys: TransferKeys,
    sender: SendStream<TestWire>,
    receiver: ReceiveStream<TestWire>,
    send_pool: Pool,
    receive_pool: Pool,
}

impl Ground {
    fn new() -> Self {
        let clock = Clock::still();
        let window = Window::new(WINDOW_BYTES / 4, WINDOW_BYTES);
        Self {
            keys: TransferKeys::new(Default::default(), &Secret::new([7; 32]), b"request", b"answer"),
            sender: SendStream::new(0, SUITE, window, RING, TIMEOUT, clock.clone()),
            receiver: ReceiveStream::new(0, SUITE, IN_FLIGHT),
            send_pool: buffers(SEND_BUFFERS, SEND_BUFFER_BYTES),
            receive_pool: buffers(RECEIVE_BUFFERS, RECEIVE_BUFFER_BYTES),
            clock,
        }
    }

    fn pass(&self, time: Duration) {
        self.clock.advance_to(self.clock.now() + time);
    }

    /// Ends both connections and opens others, as the keepers of the ends do.
    fn reopen(&self, opening: u32, connection: Connection) -> Settled {
        let connection = Arc::new(connection);
        let taken = self.receiver.cut(&self.receive_pool);
        self.sender.cut(&self.send_pool);
        self.receiver.open(&self.keys, opening, TestWire(connection.clone(), 1));
        self.sender.open(&self.keys, opening, TestWire(connection, 0), taken)
    }

    fn is_cut(&self) -> bool {
        self.sender.socket().is_none() || self.receiver.socket().is_none()
    }

    /// Returns a batch of this content, if there is a free buffer.
    fn batch(&self, bytes: u64) -> Option<Builder> {
        let mut batch = Builder::new(self.send_pool.take()?, SUITE);
        let records = records(bytes);
        for record in 0..records {
            let body_bytes = body_bytes(bytes, record);
            batch.body()[..body_bytes].fill(record as u8);
            batch.push(Kind::Data, bytes as u32, record, body_bytes);
        }
        batch.contents.push(Content::Pack { candidates: Vec::new(), bytes });
        batch.counted = true;
        Some(batch)
    }
}

fn records(content: u64) -> u64 {
    1 + content % RECORDS_MAX
}

fn body_bytes(content: u64, record: u64) -> usize {
    (content * 37 + record * 101).rem_euclid(BODY_BYTES_MAX) as usize
}

/// One run.
struct World<'a> {
    ground: &'a Ground,
    dice: Dice,
    queue: VecDeque<u64>,
    /// Sealing lanes.
    sealing: Vec<(Builder, StreamSlot<'a, TestWire>)>,
    sealer: Submitter<(Builder, StreamSlot<'a, TestWire>)>,
    /// Receiving lanes.
    opening: Vec<TakenRecords<'a, TestWire>>,
    opener: Submitter<TakenRecords<'a, TestWire>>,
    openings: u32,
    acknowledged: HashSet<u64>,
    /// The content whose last record was taken over.
    taken: HashSet<u64>,
    /// Records of the current opening, by number, that lanes have taken over before their predecessors.
    ahead: BTreeMap<u64, Vec<(u64, u64)>>,
    /// The next number to count, and the batch that its record belongs to.
    next: u64,
    coming: Option<(u64, u64)>,
    faults_left: u32,
    stalled: bool,
}

impl<'a> World<'a> {
    fn new(ground: &'a Ground, engine: &dyn Engine, seed: u64, batches: u64, faults: u32) -> Self {
        let works = NonZeroUsize::new(3).unwrap();
        let queue = || engine.queue(works).unwrap();
        Self {
            ground,
            dice: Dice(SplitMix64::seed_from_u64(seed)),
            queue: (FIRST_BYTES..FIRST_BYTES + batches).collect(),
            sealing: Vec::new(),
            sealer: Submitter::new(queue(), works.get()),
            opening: Vec::new(),
            opener: Submitter::new(queue(), works.get()),
            openings: 0,
            acknowledged: HashSet::new(),
            taken: HashSet::new(),
            ahead: BTreeMap::new(),
            next: 0,
            coming: None,
            faults_left: faults,
            stalled: false,
        }
    }

    fn arrived(&mut self, flushed: Flushed) {
        assert_eq!(flushed.acknowledged.len(), flushed.batches, "one to a batch");
        for content in flushed.acknowledged {
            assert!(self.taken.contains(&content.bytes()), "acknowledged, but not taken over");
            assert!(self.acknowledged.insert(content.bytes()), "acknowledged twice");
        }
    }

    fn settle(&mut self, settled: Settled) {
        assert_eq!(settled.again.len(), settled.batches, "one to a batch");
        self.arrived(settled.arrived);
        self.again(settled.again);
    }

    fn again(&mut self, contents: Vec<Content>) {
        for content in contents {
            assert!(!self.acknowledged.contains(&content.bytes()), "what is there goes again");
            assert!(!self.queue.contains(&content.bytes()), "came back twice");
            self.queue.push_front(content.bytes());
        }
    }

    /// Returns whether a fault happens, with a chance of one in `one_in`.
    fn fault(&mut self, one_in: u64) -> bool {
        let is_due = self.faults_left > 0 && self.dice.one_in(one_in);
        self.faults_left -= u32::from(is_due);
        is_due
    }

    fn number_and_place(&mut self) {
        let ground = self.ground;
        let Some(&bytes) = self.queue.front() else { return };
        if self.sealing.len() + self.sealer.in_hand() > RING || !ground.sender.has_room() {
            return;
        }
        let Some(mut batch) = ground.batch(bytes) else { return };
        self.queue.pop_front();
        match ground.sender.place(batch.records()) {
            Some(place) => self.sealing.push((batch, place)),
            None => self.give_back(&mut batch),
        }
    }

    fn give_back(&mut self, batch: &mut Builder) {
        let (buffer, contents, is_counted) = batch.dissolve();
        assert!(is_counted);
        self.ground.send_pool.give(buffer.unwrap());
        self.again(contents);
    }

    /// A sealing lane hands its batch to the engine, or drops it; other lanes get theirs back.
    fn seal(&mut self) {
        if !self.sealing.is_empty() {
            let which = self.dice.of(0..self.sealing.len() as u64) as usize;
            let (mut batch, place) = self.sealing.swap_remove(which);
            if self.fault(100) {
                drop(place);
                self.give_back(&mut batch);
            } else {
                let work = place.lay(&mut batch, Work::default());
                self.sealer.submit(work, (batch, place));
            }
        }
        while let Some((work, sealing)) = self.sealer.finished() {
            self.sealed(work, sealing);
        }
    }

    fn sealed(&mut self, mut work: Work, (mut batch, place): (Builder, StreamSlot<'a, TestWire>)) {
        if !place.fill(&mut batch, &mut work) {
            self.give_back(&mut batch);
        }
    }

    fn flush(&mut self) {
        let (flushed, outcome) = self.ground.sender.flush(&self.ground.send_pool);
        self.arrived(flushed);
        match outcome {
            Ok(()) => {}
            Err(LineError::Cut) => self.ground.sender.cut(&self.ground.send_pool),
            Err(LineError::Stalled) => {
                self.ground.sender.cut(&self.ground.send_pool);
                self.stalled = true;
            }
            Err(LineError::Fatal(error)) => panic!("{error}"),
        }
    }

    fn look(&mut self) {
        if self.opening.len() + self.opener.in_hand() > IN_FLIGHT {
            return;
        }
        match self.ground.receiver.look(&self.ground.receive_pool) {
            Ok(in_hand) => self.opening.extend(in_hand),
            Err(LineError::Cut) => self.cut_receiver(),
            Err(error) => panic!("{error:?}"),
        }
    }

    /// Acts as a lane that finds the connection gone, after the other lanes have finished their records.
    fn cut_receiver(&mut self) {
        while !self.opening.is_empty() {
            self.take();
        }
        while let Some((work, in_hand)) = self.opener.wait() {
            self.opened(work, in_hand);
        }
        self.ground.receiver.cut(&self.ground.receive_pool);
    }

    /// A receiving lane hands its records to the engine, or fails; other lanes finish theirs.
    fn take(&mut self) {
        if !self.opening.is_empty() {
            let which = self.dice.of(0..self.opening.len() as u64) as usize;
            let mut in_hand = self.opening.swap_remove(which);
            if self.fault(300) {
                drop(in_hand);
                // The transfer ends, and another continues; here, over another connection.
                return self.ground.receiver.hang_up(self.openings);
            }
            let work = in_hand.lay(Work::default()).unwrap();
            self.opener.submit(work, in_hand);
        }
        while let Some((work, in_hand)) = self.opener.finished() {
            self.opened(work, in_hand);
        }
    }

    fn opened(&mut self, work: Work, mut in_hand: TakenRecords<'a, TestWire>) {
        in_hand.opened(work).unwrap();
        let arrived = &in_hand.arrived;
        let records = arrived.opened().map(|(header, body)| {
            let body = body.unwrap();
            let content = u64::from(header.file);
            assert!(body.len() == body_bytes(content, header.offset), "as long as it was");
            assert!(body.iter().all(|&byte| byte == header.offset as u8), "as it was");
            (content, header.offset)
        });
        self.ahead.insert(arrived.records[0].sequence, records.collect());
        if let Err(error) = in_hand.taken() {
            assert!(matches!(error, LineError::Cut), "{error:?}");
            self.ground.receiver.hang_up(self.openings);
        }
        while let Some(records) = self.ahead.remove(&self.next) {
            self.next += records.len() as u64;
            records.into_iter().for_each(|(content, record)| self.count(content, record));
        }
    }

    /// Counts a record that was taken over after all its predecessors.
    fn count(&mut self, content: u64, record: u64) {
        let expected = self.coming.take().unwrap_or((content, 0));
        assert_eq!((content, record), expected, "records leave in the order in which they were numbered");
        if record + 1 < records(content) {
            self.coming = Some((content, record + 1));
        } else {
            assert!(self.taken.insert(content), "a batch that was taken over came again");
        }
    }

    fn acknowledge(&mut self) {
        if let Err(error) = self.ground.receiver.acknowledge() {
            assert!(matches!(error, LineError::Cut), "{error:?}");
            self.cut_receiver();
        }
    }

    /// Does the work of both ends' keepers.
    fn keep(&mut self) {
        if !self.ground.is_cut() {
            return;
        }
        self.cut_receiver();
        let (clock, dice) = (&self.ground.clock, &mut self.dice);
        let mut connection = Connection::new(clock, Duration::from_millis(dice.of(0..200)));
        if self.faults_left > 0 && !dice.one_in(8) {
            self.faults_left -= 1;
            let lasts = [dice.of(0..12_000), dice.of(0..300)].map(|bytes| bytes as usize);
            let breaks = dice.of(0..5);
            connection.swallows = breaks == 4;
            for (way, bytes) in lasts.into_iter().enumerate() {
                connection.way(way).left = (breaks == way as u64 || breaks == 2).then_some(bytes);
            }
            connection.loses = connection.swallows || dice.one_in(2);
        }
        self.openings += 1;
        (self.next, self.coming) = (0, None);
        self.ahead.clear();
        let settled = self.ground.reopen(self.openings, connection);
        self.settle(settled);
    }

    /// Lets time pass: a random step, or until a timeout expires.
    fn wait(&mut self) {
        let until = self.ground.sender.interest().until;
        match until {
            Some(until) if self.faults_left == 0 || self.fault(20) => {
                // Only a wire that discards everything takes so long.
                let step = Duration::from_millis(self.dice.of(0..500));
                self.ground.clock.advance_to(until.min(self.ground.clock.now() + step));
            }
            Some(until) if self.dice.one_in(50) => self.ground.clock.advance_to(until),
            _ => self.ground.pass(Duration::from_millis(self.dice.of(0..30))),
        }
    }

    fn step(&mut self) {
        match self.dice.of(0..100) {
            0..15 => self.number_and_place(),
            15..30 => self.seal(),
            30..50 => self.flush(),
            50..65 => self.look(),
            65..82 => self.take(),
            82..87 => self.acknowledge(),
            87..94 => self.keep(),
            _ => self.wait(),
        }
        let most = WINDOW_BYTES + (RING as u64 + 1) * 2 * FIRST_BYTES;
        assert!(self.ground.sender.unacknowledged_bytes() < most, "more is under way than the window admits");
    }

    /// Runs until everything is acknowledged, or the stream is given up; then nothing may be missing.
    fn run(mut self, batches: u64) -> Outcome {
        for _ in 0..400_000 {
            if self.stalled || self.acknowledged.len() as u64 == batches {
                break;
            }
            self.step();
        }
        let is_complete = self.acknowledged.len() as u64 == batches;
        assert!(is_complete || self.stalled, "it does not end");
        let ground = self.ground;
        self.cut_receiver();
        ground.sender.cut(&ground.send_pool);
        let settled = ground.sender.abandon();
        self.settle(settled);
        while let Some((work, (mut batch, place))) = self.sealer.wait() {
            let mut work = work;
            assert!(!place.fill(&mut batch, &mut work), "it was given before the cut");
            self.give_back(&mut batch);
        }
        while let Some((mut batch, place)) = self.sealing.pop() {
            assert!(!seal_and_fill(place, &mut batch), "it was given before the cut");
            self.give_back(&mut batch);
        }
        let mut all: Vec<u64> = self.acknowledged.iter().chain(&self.queue).copied().collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(FIRST_BYTES..FIRST_BYTES + batches), "lost, or there twice");
        let buffers = |pool: &Pool| std::iter::from_fn(|| pool.take()).count();
        assert_eq!(buffers(&ground.send_pool), SEND_BUFFERS);
        assert_eq!(buffers(&ground.receive_pool), RECEIVE_BUFFERS);
        Outcome { is_complete, openings: self.openings }
    }
}

/// Seals a batch and passes it to its stream; returns false if the connection was cut.
fn seal_and_fill(place: StreamSlot<'_, TestWire>, batch: &mut Builder) -> bool {
    let mut work = place.lay(batch, Work::default());
    Software::default().run(&mut work);
    place.fill(batch, &mut work)
}

struct Outcome {
    is_complete: bool,
    openings: u32,
}

#[test]
fn whatever_breaks_every_batch_arrives_once_and_it_ends() {
    let (runs, batches) = (300, 60);
    let (mut completed, mut openings) = (0, 0);
    let mut pending_jobs = 0;
    for seed in 0..runs {
        let ground = Ground::new();
        let faults = (seed % 20) as u32;
        let (inline, late) = (Inline::default(), LateEngine::new(seed));
        let engine: &dyn Engine = if seed / 20 % 2 == 0 { &late } else { &inline };
        let outcome = World::new(&ground, engine, seed, batches, faults).run(batches);
        pending_jobs += late.done().pending_jobs.load(SeqCst);
        assert!(outcome.is_complete || faults > 3, "seed {seed}: an honest wire stalls");
        completed += u64::from(outcome.is_complete);
        openings += outcome.openings;
    }
    assert!(completed > runs * 9 / 10, "{completed} of {runs} runs came to their end");
    assert!(openings > 3 * runs as u32, "{openings} openings: hardly anything broke");
    assert!(pending_jobs > 1000, "{pending_jobs} jobs were handed back");
}

/// Sends a batch into a wire that discards it.
fn swallowed(ground: &Ground, opening: u32, unanswered: u8) {
    let mut connection = Connection::new(&ground.clock, Duration::ZERO);
    connection.swallows = true;
    connection.unanswered.store(unanswered, SeqCst);
    ground.reopen(opening, connection);
    let mut batch = ground.batch(FIRST_BYTES).unwrap();
    assert!(ground.sender.interest().until.is_none(), "no answer is due yet");
    let place = ground.sender.place(batch.records()).unwrap();
    assert!(seal_and_fill(place, &mut batch));
    ground.sender.flush(&ground.send_pool).1.unwrap();
}

#[test]
fn silences_are_borne_to_their_deadlines_and_no_longer() {
    let ground = Ground::new();
    let began = ground.clock.now();
    for opening in 1.. {
        swallowed(&ground, opening, 0);
        let until = ground.sender.interest().until.unwrap();
        ground.clock.advance_to(until - Duration::from_nanos(1));
        ground.sender.flush(&ground.send_pool).1.unwrap();
        ground.clock.advance_to(until);
        match ground.sender.flush(&ground.send_pool).1.unwrap_err() {
            LineError::Cut => assert_eq!(u32::from(ground.sender.narrowed()), opening),
            LineError::Stalled => break,
            LineError::Fatal(error) => panic!("{error}"),
        }
    }
    assert_eq!(ground.clock.now() - began, TIMEOUT, "opening after opening, no longer than was agreed");
}

#[test]
fn smaller_segments_are_tried_as_soon_as_the_kernel_sends_in_vain() {
    let ground = Ground::new();
    let soon = Duration::from_millis(600);
    for narrowed in 1..=SEGMENT_BYTES.len() {
        swallowed(&ground, narrowed as u32, 3);
        ground.sender.flush(&ground.send_pool).1.unwrap();
        ground.pass(soon);
        assert!(matches!(ground.sender.flush(&ground.send_pool).1, Err(LineError::Cut)));
        assert_eq!(usize::from(ground.sender.narrowed()), narrowed);
    }
    swallowed(&ground, 9, 3);
    ground.pass(soon);
    ground.sender.flush(&ground.send_pool).1.expect("there are none smaller to be tried");
}

#[test]
fn records_behind_a_gap_do_not_count() {
    let ground = Ground::new();
    let _ = ground.reopen(1, Connection::new(&ground.clock, Duration::ZERO));
    let send = |content| {
        let mut batch = ground.batch(content).unwrap();
        assert!(seal_and_fill(ground.sender.place(batch.records()).unwrap(), &mut batch));
        ground.sender.flush(&ground.send_pool).1.unwrap();
        ground.receiver.look(&ground.receive_pool).unwrap().unwrap()
    };
    let in_hand = [send(FIRST_BYTES), send(FIRST_BYTES + 4), send(FIRST_BYTES + 8)];
    assert!(in_hand.iter().all(|in_hand| in_hand.arrived.headers.len() == 1));
    let [first, second, third] = in_hand;
    third.taken().unwrap();
    let fails = || {
        let _in_hand = second;
        panic!("as a test wants it");
    };
    thread::scope(|scope| scope.spawn(fails).join().unwrap_err());
    first.taken().unwrap();
    assert_eq!(ground.receiver.cut(&ground.receive_pool), 1);
}

#[test]
fn acknowledgements_that_come_again_or_too_late_change_nothing() {
    let ground = Ground::new();
    let connection = Arc::new(Connection::new(&ground.clock, Duration::ZERO));
    let mut keys = ground.keys.stream(SUITE, 0, 1, keys::StreamDirection::Backward);
    let _ = ground.sender.open(&ground.keys, 1, TestWire(connection.clone(), 0), 0);
    let mut expected = Vec::new();
    for content in [FIRST_BYTES + 1, FIRST_BYTES + 2, FIRST_BYTES + 3] {
        let mut batch = ground.batch(content).unwrap();
        let place = ground.sender.place(batch.records()).unwrap();
        assert!(seal_and_fill(place, &mut batch));
        let _ = ground.sender.flush(&ground.send_pool).1;
        expected.push(content);
        connection.way(0).chunks.clear();
    }
    // Two records, three, and four. The first batch; one more record; repetitions of earlier counts; and everything.
    let told = [(2, 1), (3, 0), (3, 0), (2, 0), (5, 1), (9, 1), (9, 0), (u64::MAX, 0)];
    for (taken, batches) in told {
        let record = seal(&mut keys, Kind::Acknowledge, 0, taken, &[]);
        assert_eq!(TestWire(connection.clone(), 1).try_send(&record).unwrap(), Some(record.len()));
        let (flushed, outcome) = ground.sender.flush(&ground.send_pool);
        outcome.unwrap();
        assert_eq!(flushed.batches, batches, "{taken} records");
        let acknowledged: Vec<u64> = flushed.acknowledged.iter().map(Content::bytes).collect();
        assert_eq!(acknowledged, expected.drain(..batches).collect::<Vec<_>>());
    }
    // The same count, repeated after the stream is opened again.
    ground.sender.cut(&ground.send_pool);
    let settled = ground.sender.open(&ground.keys, 2, TestWire(connection, 0), 9);
    assert_eq!((settled.arrived.batches, settled.batches, settled.again.len()), (0, 0, 0));
}
