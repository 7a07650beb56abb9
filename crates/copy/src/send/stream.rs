//! One data stream at its sending end.
//!
//! Guarantees: batches leave in the order of their tickets, whatever lane sealed them; content is forgotten
//! only when the receiver has acknowledged it under the stream's key; when a connection is lost, everything
//! that was not acknowledged comes back to the queue exactly once.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU8, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use sealane_engine::{
    Buffer, Direction, Suite,
    record::{Batch, Job, JobStatus, Runner},
};
use sealane_stack::{Association, Claim, OrderRing, Pool};

use crate::{
    line::LineError,
    proto::{
        keys::{TransferKeys, Way},
        record::{HEADER_BYTES, Header, Kind},
    },
    send::{
        batch::Builder,
        window::{Departure, Window},
        work::Content,
    },
    socket::Socket,
};

/// Segments for a path that swallows larger ones: what IPv6 promises everywhere, then what IPv4 does.
pub(crate) const SEGMENT_BYTES: [u16; 2] = [1220, 536];
/// Time without an answer before anybody asks why.
const SUSPICION: Duration = Duration::from_millis(500);
/// The first segments were sent so often again: the path swallows them.
const UNANSWERED_MAX: u8 = 3;
/// The least that a connection costs which breaks as soon as it is used.
const REOPENING: Duration = Duration::from_millis(100);

/// A sealed batch on its way to the socket.
#[derive(Debug)]
pub(crate) struct Outgoing {
    buffer: Buffer,
    wire_bytes: usize,
    records_end: u64,
    contents: Vec<Content>,
}

/// What is not acknowledged yet.
#[derive(Debug)]
struct Unacknowledged {
    /// Number after the batch's last record.
    records_end: u64,
    content_bytes: u64,
    contents: Vec<Content>,
    departure: Departure,
}

/// A batch's place on the stream, given before it is sealed.
#[derive(Debug)]
pub(crate) struct Place {
    generation: u32,
    ticket: u64,
    claims: Vec<Claim>,
}

#[derive(Debug)]
struct Numbering {
    generation: u32,
    next_ticket: u64,
    /// `None` while there is no connection.
    association: Option<Association>,
}

#[derive(Debug)]
struct Line {
    generation: u32,
    socket: Option<Arc<Socket>>,
    ring: OrderRing<Outgoing>,
    /// Bytes of the ring's head that the socket has taken.
    sent_bytes: usize,
    unacknowledged: VecDeque<Unacknowledged>,
    unacknowledged_bytes: u64,
    window: Window,
    acknowledgements: Acknowledgements,
    /// When the receiver was last heard of, its kernel made room, or nothing was due.
    heard: Instant,
    /// Whether the receiver has taken anything over from this connection.
    answered: bool,
    /// What the receiver's silences since it last took something over come to, connection after connection.
    barren: Duration,
}

/// One data stream.
#[derive(Debug)]
pub(crate) struct SendStream {
    /// Which of the parallel streams.
    pub(crate) index: u16,
    suite: Suite,
    numbering: Mutex<Numbering>,
    line: Mutex<Line>,
    /// Will not be opened again.
    abandoned: AtomicBool,
    /// How often it was tried with smaller segments.
    narrowed: AtomicU8,
}

/// What flushing a stream came to.
#[derive(Debug, Default)]
pub(crate) struct Flushed {
    /// Something moved.
    pub(crate) progress: bool,
    /// The socket takes no more for now.
    pub(crate) blocked: bool,
    /// Content that the receiver has.
    pub(crate) acknowledged: Vec<Content>,
    /// Batches that the receiver has.
    pub(crate) batches: usize,
}

impl SendStream {
    /// A stream without a connection. At most `ring` sealed batches wait for the socket.
    pub(crate) fn new(index: u16, suite: Suite, window: Window, ring: usize) -> Self {
        Self {
            index,
            suite,
            numbering: Mutex::new(Numbering { generation: 0, next_ticket: 0, association: None }),
            line: Mutex::new(Line {
                generation: 0,
                socket: None,
                ring: OrderRing::new(0, ring),
                sent_bytes: 0,
                unacknowledged: VecDeque::new(),
                unacknowledged_bytes: 0,
                window,
                acknowledgements: Acknowledgements::new(),
                heard: Instant::now(),
                answered: false,
                barren: Duration::ZERO,
            }),
            abandoned: AtomicBool::new(false),
            narrowed: AtomicU8::new(0),
        }
    }

    fn numbering(&self) -> MutexGuard<'_, Numbering> {
        self.numbering.lock().expect("no lane panics holding a stream's numbers")
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        self.line.lock().expect("no lane panics holding a stream's line")
    }

    /// Puts a fresh connection in place. `taken` records of the opening before it were taken over by the
    /// receiver.
    pub(crate) fn open(&self, keys: &TransferKeys, generation: u32, socket: Socket, taken: u64) -> Settled {
        let mut numbering = self.numbering();
        let mut line = self.line();
        let settled = settle(&mut line, taken);
        numbering.generation = generation;
        numbering.association = Some(keys.stream(self.suite, self.index, generation, Way::Forward));
        line.generation = generation;
        line.socket = Some(Arc::new(socket));
        line.acknowledgements.open(keys.stream(self.suite, self.index, generation, Way::Backward));
        line.heard = Instant::now();
        line.answered = false;
        line.window.begin_anew();
        // Batches numbered under the old connection find another generation and come back.
        let (head, capacity) = (numbering.next_ticket, line.ring.capacity());
        line.ring = OrderRing::new(head, capacity);
        settled
    }

    /// The connection, for polling; `None` while there is none.
    pub(crate) fn socket(&self) -> Option<Arc<Socket>> {
        self.line().socket.clone()
    }

    /// Number of the opening that is or was in force.
    pub(crate) fn generation(&self) -> u32 {
        self.line().generation
    }

    /// Takes the connection away; what was sent stays known until [`Self::open`] or [`Self::abandon`].
    /// Batches that wait for the socket give their buffers back.
    pub(crate) fn cut(&self, pool: &Pool) {
        self.numbering().association = None;
        let mut line = self.line();
        if let Some(socket) = line.socket.take() {
            socket.shutdown();
            if line.is_under_way() {
                // At least the pause before it is opened again, so that connections that break at once come to an end.
                let silence = line.heard.elapsed().max(REOPENING);
                line.barren += silence;
            }
        }
        let waiting: Vec<Outgoing> = line.ring.drain().collect();
        line.sent_bytes = 0;
        for outgoing in waiting {
            line.remember(outgoing.records_end, outgoing.contents);
            pool.give(outgoing.buffer);
        }
    }

    /// How often smaller segments are to be tried.
    pub(crate) fn narrowed(&self) -> u8 {
        self.narrowed.load(SeqCst)
    }

    /// Ends this opening's connection; the lane that looks next finds it cut.
    pub(crate) fn hang_up(&self, generation: u32) {
        let line = self.line();
        if let (true, Some(socket)) = (line.generation == generation, &line.socket) {
            socket.shutdown();
        }
    }

    /// The stream will not be opened again: everything that was not acknowledged comes back.
    pub(crate) fn abandon(&self) -> Settled {
        self.abandoned.store(true, SeqCst);
        settle(&mut self.line(), 0)
    }

    /// Whether it was given up.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(SeqCst)
    }

    /// Whether another batch may be started: connected, room in the ring and in the window.
    pub(crate) fn has_room(&self) -> bool {
        let next_ticket = {
            let numbering = self.numbering();
            if numbering.association.is_none() {
                return false;
            }
            numbering.next_ticket
        };
        let line = self.line();
        line.ring.admits(next_ticket) && line.unacknowledged_bytes < line.window.bytes()
    }

    /// Gives `records` records their numbers and place, if the stream is connected and has room.
    pub(crate) fn place(&self, records: u64) -> Option<Place> {
        let mut numbering = self.numbering();
        let ticket = numbering.next_ticket;
        if !self.line().ring.admits(ticket) {
            return None;
        }
        let association = numbering.association.as_mut()?;
        let claims = association.claim_all(records);
        numbering.next_ticket += 1;
        Some(Place { generation: numbering.generation, ticket, claims })
    }

    /// Seals a batch in its place and queues it for the socket. When the connection changed meanwhile, the
    /// content comes back.
    pub(crate) fn seal(
        &self,
        place: Place,
        builder: Builder,
        runner: &mut Runner,
        pool: &Pool,
    ) -> Result<(), Vec<Content>> {
        let records_end = place.claims.last().map_or(0, |claim| claim.first_sequence + claim.records);
        let (mut batch, wire_bytes, contents) = builder.number(&place.claims, place.ticket);
        runner.run(&mut batch);
        let Batch { buffer, .. } = batch;
        let mut line = self.line();
        if line.generation != place.generation || line.socket.is_none() {
            drop(line);
            pool.give(buffer);
            return Err(contents);
        }
        let outgoing = Outgoing { buffer, wire_bytes, records_end, contents };
        line.ring
            .insert(place.ticket, outgoing)
            .unwrap_or_else(|_| panic!("a place is only given where the ring admits it, and once"));
        Ok(())
    }

    /// Sends what the socket takes and reads acknowledgements. Skips when another lane is at it.
    pub(crate) fn flush(&self, pool: &Pool, timeout: Duration) -> Result<Flushed, LineError> {
        let mut flushed = Flushed::default();
        let Ok(mut line) = self.line.try_lock() else { return Ok(flushed) };
        let Some(socket) = line.socket.clone() else { return Ok(flushed) };
        loop {
            let sent_bytes = line.sent_bytes;
            let Some(head) = line.ring.peek_mut() else { break };
            let wire_bytes = head.wire_bytes;
            let Some(sent) = socket.try_send(&head.buffer.bytes()[sent_bytes..wire_bytes])? else {
                flushed.blocked = true;
                break;
            };
            flushed.progress |= sent > 0;
            // The kernel has room only as long as the far one takes what it was sent.
            line.heard = Instant::now();
            if sent_bytes + sent < wire_bytes {
                line.sent_bytes += sent;
                continue;
            }
            line.sent_bytes = 0;
            if let Some(outgoing) = line.ring.pop() {
                pool.give(outgoing.buffer);
                line.remember(outgoing.records_end, outgoing.contents);
            }
        }
        if line.is_under_way() {
            if let Some(taken) = line.acknowledgements.read(self.index, &socket)? {
                line.heard = Instant::now();
                line.answered = true;
                line.barren = Duration::ZERO;
                line.acknowledge(taken, &mut flushed);
            } else {
                self.bear(&line, &socket, timeout)?;
            }
        }
        Ok(flushed)
    }

    /// Bears a silence, or not. A path that swallows what is large lets small packets pass (so the stream was opened)
    /// and answers to nothing else; the next opening then has smaller segments.
    fn bear(&self, line: &Line, socket: &Socket, timeout: Duration) -> Result<(), LineError> {
        let silence = line.heard.elapsed();
        if line.barren + silence > timeout {
            return Err(LineError::Stalled);
        }
        let is_swallowed = || {
            let may_narrow = usize::from(self.narrowed()) < SEGMENT_BYTES.len();
            let looks = silence > SUSPICION && socket.unanswered() >= UNANSWERED_MAX;
            !line.answered && may_narrow && looks
        };
        // A stream that never carried anything is given less: there are smaller segments to be tried.
        let patience = if line.answered { timeout / 2 } else { timeout / 4 };
        if silence > patience || is_swallowed() {
            if !line.answered {
                self.narrowed.fetch_add(1, SeqCst);
            }
            return Err(LineError::Cut);
        }
        Ok(())
    }

    /// Whether anything waits for the socket or for an acknowledgement.
    pub(crate) fn interest(&self) -> Interest {
        let line = self.line();
        Interest { send: !line.ring.is_empty(), receive: line.is_under_way() }
    }
}

/// What a stream waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interest {
    pub(crate) send: bool,
    pub(crate) receive: bool,
}

impl Line {
    /// Whether an answer is due.
    fn is_under_way(&self) -> bool {
        self.sent_bytes > 0 || !self.unacknowledged.is_empty()
    }

    fn remember(&mut self, records_end: u64, contents: Vec<Content>) {
        let content_bytes = contents.iter().map(Content::bytes).sum();
        self.unacknowledged_bytes += content_bytes;
        let departure = self.window.departure(Instant::now());
        self.unacknowledged.push_back(Unacknowledged { records_end, content_bytes, contents, departure });
    }

    fn acknowledge(&mut self, taken: u64, flushed: &mut Flushed) {
        let now = Instant::now();
        while self.unacknowledged.front().is_some_and(|batch| batch.records_end <= taken) {
            if let Some(batch) = self.unacknowledged.pop_front() {
                self.unacknowledged_bytes -= batch.content_bytes;
                self.window.delivered(batch.departure, batch.content_bytes, now);
                flushed.acknowledged.extend(batch.contents);
                flushed.batches += 1;
                flushed.progress = true;
            }
        }
    }
}

/// What became of the batches of a connection that is gone.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// To be sent again.
    pub(crate) again: Vec<Content>,
    /// Batches that this content was in.
    pub(crate) batches: usize,
    /// What had arrived after all.
    pub(crate) arrived: Flushed,
}

fn settle(line: &mut Line, taken: u64) -> Settled {
    let mut settled = Settled::default();
    line.acknowledge(taken, &mut settled.arrived);
    if settled.arrived.batches > 0 {
        line.barren = Duration::ZERO;
    }
    settled.batches = line.unacknowledged.len();
    settled.again = line.unacknowledged.drain(..).flat_map(|batch| batch.contents).collect();
    line.unacknowledged_bytes = 0;
    settled
}

/// Reads the receiver's records: how many of ours it has taken over.
#[derive(Debug)]
pub(crate) struct Acknowledgements {
    association: Option<Association>,
    buffer: Buffer,
    filled: usize,
    runner: Runner,
}

const ACKNOWLEDGEMENT_BYTES: usize = 4096;

impl Acknowledgements {
    pub(crate) fn new() -> Self {
        let buffer = Buffer::new(ACKNOWLEDGEMENT_BYTES);
        Self { association: None, buffer, filled: 0, runner: Runner::default() }
    }

    pub(crate) fn open(&mut self, association: Association) {
        self.association = Some(association);
        self.filled = 0;
    }

    /// The latest count that has arrived, if any.
    fn read(&mut self, stream: u16, socket: &Socket) -> Result<Option<u64>, LineError> {
        if self.association.is_none() {
            return Ok(None);
        }
        let mut latest = None;
        loop {
            match socket.try_recv(self.room())? {
                None => return Ok(latest),
                Some(0) => return Err(LineError::Cut),
                Some(received) => latest = self.take(stream, received)?.or(latest),
            }
        }
    }

    /// Where the next bytes go. It is never empty: whole records are taken out, and none is as long as the buffer.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        &mut self.buffer.bytes_mut()[self.filled..]
    }

    /// `received` bytes have arrived: the latest count among the records that are whole, if any.
    pub(crate) fn take(&mut self, stream: u16, received: usize) -> Result<Option<u64>, LineError> {
        let Some(association) = &mut self.association else { return Ok(None) };
        self.filled += received;
        let mut latest = None;
        while let Some(header) = self.buffer.bytes()[..self.filled].first_chunk::<HEADER_BYTES>() {
            let header =
                Header::decode(header).map_err(|error| LineError::forged(stream, &error.to_string()))?;
            if header.kind != Kind::Acknowledge || header.body_bytes > 64 {
                return Err(LineError::forged(stream, "a record that is no acknowledgement"));
            }
            let record_bytes = HEADER_BYTES + header.body_bytes;
            if self.filled < record_bytes {
                break;
            }
            let claim = association.claim(1);
            let mut record = Buffer::new(record_bytes);
            record.bytes_mut().copy_from_slice(&self.buffer.bytes()[..record_bytes]);
            let job = Job {
                session: claim.session,
                offset: 0,
                header_bytes: HEADER_BYTES,
                body_bytes: header.body_bytes,
                sequence: claim.first_sequence,
                status: JobStatus::Pending,
            };
            let mut batch = Batch { buffer: record, jobs: vec![job], direction: Direction::Open, ticket: 0 };
            if self.runner.run(&mut batch) > 0 {
                return Err(LineError::forged(stream, "an acknowledgement that is not authentic"));
            }
            latest = Some(header.offset);
            self.buffer.bytes_mut().copy_within(record_bytes..self.filled, 0);
            self.filled -= record_bytes;
        }
        Ok(latest)
    }
}
