//! One data stream at its sending end: the [`Flow`] that numbers batches and sends them in order, and the current
//! connection.
//!
//! Guarantees: batches are sent in the order in which their records were numbered, whatever lane sealed them; records
//! numbered for a connection are never sent on another; no lock is held while a batch is sealed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use crate::shared::Pool;
use sealane_engine::record::{Association, Claim};
use sealane_engine::{Suite, Work};
use sealane_lanes::{Clock, Flow, Refused, Ticket};

use crate::{
    line::LineError,
    proto::{
        join::Awaited,
        keys::{StreamDirection, TransferKeys},
    },
    send::{
        batch::Builder,
        line::{Flushed, Line, Outgoing, Settled},
        window::Window,
    },
    socket::{Socket, Wire},
};

/// The end of a stream that sends batches, in order.
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
    /// The index of the stream.
    index: u16,
    suite: Suite,
    clock: Clock,
    /// Assigns numbers, under keys that last as long as a connection.
    flow: Flow<Option<Association>, Outgoing, End<W>>,
    /// Whether the window admits another batch: reading this needs no lock of the sending side.
    has_window: AtomicBool,
    /// The stream will not be opened again.
    abandoned: AtomicBool,
}

/// A batch's place on the stream, assigned before it is sealed. A place that is dropped without its batch ends the
/// connection, because the batches behind it would wait for it.
#[derive(Debug)]
pub(crate) struct StreamSlot<'a, W: Wire = Socket> {
    stream: &'a SendStream<W>,
    ticket: Option<Ticket>,
    claims: Vec<Claim>,
}

impl<W: Wire> StreamSlot<'_, W> {
    /// Lays the batch's jobs, with its buffer, into `work`, for an engine to seal.
    pub(crate) fn lay(&self, batch: &mut Builder, work: Work) -> Work {
        batch.lay(&self.claims, work)
    }

    /// Passes the batch, sealed by an engine, to the stream. Returns false if the connection was cut meanwhile: the
    /// caller then still owns the batch.
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

impl<W: Wire> Drop for StreamSlot<'_, W> {
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

    /// Sets a new connection, after [`Self::cut`]. The receiver took over `taken` records of the previous opening.
    pub(crate) fn open(&self, keys: &TransferKeys, opening: u32, wire: W, taken: u64) -> Settled {
        self.start(keys, opening, wire, None, taken)
    }

    /// Sets the first connection, whose receiver has not answered yet.
    pub(crate) fn open_unanswered(&self, keys: &TransferKeys, opening: u32, wire: W, awaited: Awaited) {
        self.start(keys, opening, wire, Some(awaited), 0);
    }

    fn start(
        &self,
        keys: &TransferKeys,
        opening: u32,
        wire: W,
        awaited: Option<Awaited>,
        taken: u64,
    ) -> Settled {
        let key = |way| keys.stream(self.suite, self.index, opening, way);
        let (forward, backward) = (key(StreamDirection::Forward), key(StreamDirection::Backward));
        let mut settled = Settled::default();
        self.flow.open(|association, end| {
            *association = Some(forward);
            settled = end.line.open(opening, backward, awaited, taken, self.clock.now());
            end.wire = Some(Arc::new(wire));
            self.publish(&end.line);
        });
        settled
    }

    /// Sets the number of streams that share the permitted bytes in flight.
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

    /// Returns the number of the current or last opening.
    pub(crate) fn opening(&self) -> u32 {
        self.flow.with_restored(|end| end.line.opening())
    }

    /// Returns the number of times that smaller segments are to be tried.
    pub(crate) fn narrowed(&self) -> u8 {
        self.flow.with_restored(|end| end.line.narrowed())
    }

    /// Removes the connection; sent batches are kept until [`Self::open`] or [`Self::abandon`]. Batches that wait to
    /// be sent return their buffers.
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

    /// Ends this opening's connection; the next lane that looks finds it cut.
    pub(crate) fn hang_up(&self, opening: u32) {
        self.flow.with_restored(|end| {
            if let (true, Some(wire)) = (end.line.opening() == opening, &end.wire) {
                wire.shutdown();
            }
        });
    }

    /// The stream will not be opened again: returns everything that was not acknowledged.
    pub(crate) fn abandon(&self) -> Settled {
        self.abandoned.store(true, SeqCst);
        self.flow.with_restored(|end| end.line.abandon(self.clock.now()))
    }

    /// Returns whether the stream was abandoned.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.abandoned.load(SeqCst)
    }

    /// Returns whether another batch may be started: the stream is connected, with room in the order and in the
    /// window.
    pub(crate) fn has_room(&self) -> bool {
        self.has_window.load(SeqCst) && self.flow.has_room()
    }

    /// Assigns numbers and a place to `records` records, if the stream is connected and has room.
    pub(crate) fn place(&self, records: u64) -> Option<StreamSlot<'_, W>> {
        let numbered = self.flow.give(|association, _| Some(association.as_mut()?.claim_all(records)));
        numbered.map(|(ticket, claims)| StreamSlot { stream: self, ticket: Some(ticket), claims })
    }

    /// Sends as much as the connection accepts and reads acknowledgements. Does nothing while another lane does this.
    /// The events count, whether or not the connection failed after them.
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
                let Flushed { progress, acknowledged, batches, sampled } = end.line.news();
                flushed.sampled.extend(sampled);
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

    /// Returns the events to wait for.
    pub(crate) fn interest(&self) -> Interest {
        let is_next_ready = self.flow.is_ready();
        self.flow.with_restored(|end| Interest {
            send: is_next_ready || end.line.to_send().is_some(),
            receive: end.line.is_under_way(),
            until: end.line.deadline(),
        })
    }

    /// Returns the number of unacknowledged content bytes.
    #[cfg(test)]
    pub(crate) fn unacknowledged_bytes(&self) -> u64 {
        self.flow.with_restored(|end| end.line.unacknowledged_bytes())
    }
}

/// The events that a stream waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interest {
    pub(crate) send: bool,
    pub(crate) receive: bool,
    /// The time at which a silence becomes a failure.
    pub(crate) until: Option<Instant>,
}

impl<W: Wire> End<W> {
    /// Returns whether the next batch may be sent because the previous one has been.
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
