//! One data stream at its sending end: the [`Flow`] in whose order batches are numbered and leave, and the connection
//! that they leave by.
//!
//! Guarantees: batches leave in the order in which their records were numbered, whatever lane sealed them; what was
//! numbered for a connection never leaves by another; no lock is held while a batch is sealed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use sealane_engine::{Suite, Work};
use sealane_stack::{Association, Claim, Clock, Flow, Pool, Refused, Ticket};

use crate::{
    line::LineError,
    proto::keys::{TransferKeys, Way},
    send::{
        batch::Builder,
        line::{Flushed, Line, Outgoing, Settled},
        window::Window,
    },
    socket::{Socket, Wire},
};

/// The end of a stream that batches leave by, in order.
#[derive(Debug)]
struct End<W> {
    line: Line,
    /// `None` while there is no connection.
    wire: Option<Arc<W>>,
    failed: Option<LineError>,
}

/// One data stream.
#[derive(Debug)]
pub(crate) struct SendStream<W = Socket> {
    /// Which of the parallel streams.
    index: u16,
    suite: Suite,
    clock: Clock,
    /// Numbers are given in it, under keys that last as long as a connection.
    flow: Flow<Option<Association>, Outgoing, End<W>>,
    /// Whether the window admits another batch: a look at it needs no lock of the sending side.
    has_window: AtomicBool,
    /// Will not be opened again.
    abandoned: AtomicBool,
}

/// A batch's place on the stream, given before it is sealed. One that is dropped without its batch ends the connection:
/// what comes behind it would wait for it.
#[derive(Debug)]
pub(crate) struct Place<'a, W: Wire = Socket> {
    stream: &'a SendStream<W>,
    ticket: Option<Ticket>,
    claims: Vec<Claim>,
}

impl<W: Wire> Place<'_, W> {
    /// Lays the batch's jobs into `work`, with its buffer, for an engine to seal.
    pub(crate) fn lay(&self, batch: &mut Builder, work: Work) -> Work {
        batch.lay(&self.claims, work)
    }

    /// Leaves the batch, which an engine has sealed, to the stream. False when the connection was cut meanwhile: the
    /// batch is still the caller's then.
    pub(crate) fn fill(mut self, batch: &mut Builder, work: &mut Work) -> bool {
        batch.sealed(work);
        let records_end = self.claims.last().map_or(0, |claim| claim.first_sequence + claim.records);
        let Some(ticket) = self.ticket.take() else { return false };
        match self.stream.flow.restore(ticket, batch.hand_over(records_end)) {
            Ok(()) => true,
            Err(Refused::Stale(outgoing)) => {
                batch.take_back(outgoing);
                false
            }
            Err(Refused::Misplaced(_)) => panic!("a place is filled by whoever it was given to, once"),
        }
    }
}

impl<W: Wire> Drop for Place<'_, W> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket else { return };
        if self.stream.flow.generation() == ticket.generation {
            self.stream.flow.with_restored(|end| end.failed = end.wire.as_ref().map(|_| LineError::Cut));
        }
    }
}

impl<W: Wire> SendStream<W> {
    /// Returns a stream without a connection. At most `ring` batches are being sealed or wait to be sent.
    pub(crate) fn new(
        index: u16,
        suite: Suite,
        window: Window,
        ring: usize,
        timeout: Duration,
        clock: Clock,
    ) -> Self {
        let line = Line::new(index, window, timeout, clock.now());
        let flow = Flow::new(ring, None, End { line, wire: None, failed: None });
        flow.close(|_| ());
        let (has_window, abandoned) = (AtomicBool::new(true), AtomicBool::new(false));
        Self { index, suite, clock, flow, has_window, abandoned }
    }

    /// Puts a fresh connection in place, after [`Self::cut`]. `taken` records of the opening before it were taken over by
    /// the receiver.
    pub(crate) fn open(&self, keys: &TransferKeys, opening: u32, wire: W, taken: u64) -> Settled {
        let key = |way| keys.stream(self.suite, self.index, opening, way);
        let (forward, backward) = (key(Way::Forward), key(Way::Backward));
        let mut settled = Settled::default();
        self.flow.open(|association, end| {
            *association = Some(forward);
            settled = end.line.open(opening, backward, taken, self.clock.now());
            end.wire = Some(Arc::new(wire));
            self.publish(&end.line);
        });
        settled
    }

    /// So many streams share what may be under way.
    pub(crate) fn share_window(&self, sharers: u16) {
        self.flow.with_restored(|end| {
            end.line.share_window(sharers);
            self.publish(&end.line);
        });
    }

    fn publish(&self, line: &Line) {
        self.has_window.store(line.has_window(), SeqCst);
    }

    /// Returns the connection, for polling; `None` while there is none.
    pub(crate) fn socket(&self) -> Option<Arc<W>> {
        self.flow.with_restored(|end| end.wire.clone())
    }

    /// Number of the opening that is or was in force.
    pub(crate) fn opening(&self) -> u32 {
        self.flow.with_restored(|end| end.line.opening())
    }

    /// How often smaller segments are to be tried.
    pub(crate) fn narrowed(&self) -> u8 {
        self.flow.with_restored(|end| end.line.narrowed())
    }

    /// Takes the connection away; what was sent stays known until [`Self::open`] or [`Self::abandon`].
    /// Batches that wait to be sent give their buffers back.
    pub(crate) fn cut(&self, pool: &Pool) {
        self.flow.cut(|association, end, waiting| {
            *association = None;
            end.failed = None;
            if let Some(wire) = end.wire.take() {
                wire.shutdown();
            }
            end.line.cut(waiting, self.clock.now()).for_each(|buffer| pool.give(buffer));
        });
    }

    /// Ends this opening's connection; the lane that looks next finds it cut.
    pub(crate) fn hang_up(&self, opening: u32) {
        self.flow.with_restored(|end| {
            if let (true, Some(wire)) = (end.line.opening() == opening, &end.wire) {
                wire.shutdown();
            }
        });
    }

    /// The stream will not be opened again: everything that was not acknowledged comes back.
    pub(crate) fn abandon(&self) -> Settled {
        self.abandoned.store(true, SeqCst);
        self.flow.with_restored(|end| end.line.abandon(self.clock.now()))
    }

    /// Returns whether it was given up.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(SeqCst)
    }

    /// Returns whether another batch may be started: connected, room in the order and in the window.
    pub(crate) fn has_room(&self) -> bool {
        self.has_window.load(SeqCst) && self.flow.has_room()
    }

    /// Gives `records` records their numbers and place, if the stream is connected and has room.
    pub(crate) fn place(&self, records: u64) -> Option<Place<'_, W>> {
        let numbered = self.flow.give(|association, _| Some(association.as_mut()?.claim_all(records)));
        numbered.map(|(ticket, claims)| Place { stream: self, ticket: Some(ticket), claims })
    }

    /// Sends what the connection takes and reads acknowledgements. Skips when another lane is at it. What moved counts,
    /// whether or not the connection failed after it.
    pub(crate) fn flush(&self, pool: &Pool) -> (Flushed, Result<(), LineError>) {
        let (mut flushed, mut outcome) = (Flushed::default(), Ok(()));
        self.flow.visit(
            |end| end.write(pool, &self.clock),
            |end, outgoing| end.line.begin(outgoing),
            |end| {
                if end.failed.is_none() {
                    end.failed = end.read(&self.clock).err();
                }
                self.publish(&end.line);
                let Flushed { progress, acknowledged, batches } = end.line.news();
                flushed.progress |= progress;
                flushed.acknowledged.extend(acknowledged);
                flushed.batches += batches;
                if let Some(error) = end.failed.take() {
                    outcome = Err(error);
                }
            },
        );
        (flushed, outcome)
    }

    /// What there is to wait for.
    pub(crate) fn interest(&self) -> Interest {
        let is_next_ready = self.flow.is_ready();
        self.flow.with_restored(|end| Interest {
            send: is_next_ready || end.line.to_send().is_some(),
            receive: end.line.is_under_way(),
            until: end.line.deadline(),
        })
    }

    /// Content that is under way.
    #[cfg(test)]
    pub(crate) fn unacknowledged_bytes(&self) -> u64 {
        self.flow.with_restored(|end| end.line.unacknowledged_bytes())
    }
}

/// What a stream waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interest {
    pub(crate) send: bool,
    pub(crate) receive: bool,
    /// When a silence is borne no longer.
    pub(crate) until: Option<Instant>,
}

impl<W: Wire> End<W> {
    /// Returns whether the next batch may go out: the one before it is out.
    fn write(&mut self, pool: &Pool, clock: &Clock) -> bool {
        let Some(wire) = &self.wire else { return false };
        while let Some(bytes) = self.line.to_send() {
            match wire.try_send(bytes) {
                Ok(Some(sent)) => {
                    if let Some(buffer) = self.line.sent(sent, clock.now()) {
                        pool.give(buffer);
                    }
                }
                Ok(None) => return false,
                Err(error) => {
                    self.failed = Some(error.into());
                    return false;
                }
            }
        }
        true
    }

    fn read(&mut self, clock: &Clock) -> Result<(), LineError> {
        let Some(wire) = &self.wire else { return Ok(()) };
        if !self.line.is_under_way() {
            return Ok(());
        }
        while let Some(received) = wire.try_recv(self.line.room())? {
            if received == 0 {
                return Err(LineError::Cut);
            }
            self.line.received(received, clock.now())?;
        }
        self.line.bear(clock.now(), || wire.unanswered())
    }
}
