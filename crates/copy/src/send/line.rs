//! The connections of one sending stream, one after the other, as a value: batches in their order and bytes that have
//! arrived go in, with the time; bytes, deadlines, and what became of content come out. It has no socket and no clock.
//!
//! Guarantees: content is forgotten only when the receiver has acknowledged it under the key of its opening; what an
//! opening leaves unacknowledged comes back exactly once, with the next opening or when there is to be none; a receiver
//! that stays silent ends the opening, and one that stays silent opening after opening ends the stream.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use sealane_engine::Buffer;
use sealane_stack::Association;

use crate::{
    line::LineError,
    send::{
        acknowledgements::Acknowledgements,
        window::{Departure, Window},
        work::Content,
    },
};

/// Segments for a path that swallows larger ones: what IPv6 promises everywhere, then what IPv4 does.
pub(crate) const SEGMENT_BYTES: [u16; 2] = [1220, 536];
/// Time without an answer before anybody asks why.
const SUSPICION: Duration = Duration::from_millis(500);
/// The first segments were sent so often again: the path swallows them.
const UNANSWERED_MAX: u8 = 3;
/// The least that a connection costs which breaks as soon as it is used.
const REOPENING: Duration = Duration::from_millis(100);

/// A sealed batch on its way out.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) buffer: Buffer,
    pub(crate) wire_bytes: usize,
    /// Number after its last record.
    pub(crate) records_end: u64,
    pub(crate) contents: Vec<Content>,
}

/// What is not acknowledged yet.
#[derive(Debug)]
struct Unacknowledged {
    records_end: u64,
    content_bytes: u64,
    contents: Vec<Content>,
    departure: Departure,
}

/// What a turn at a stream came to.
#[derive(Debug, Default)]
pub(crate) struct Flushed {
    /// Something moved.
    pub(crate) progress: bool,
    /// Content that the receiver has.
    pub(crate) acknowledged: Vec<Content>,
    /// Batches that the receiver has.
    pub(crate) batches: usize,
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

/// One stream's connections.
#[derive(Debug)]
pub(crate) struct Line {
    index: u16,
    timeout: Duration,
    /// Number of the opening that is or was in force.
    opening: u32,
    is_open: bool,
    /// The batch that is going out, and how much of it is out.
    leaving: Option<Outgoing>,
    sent_bytes: usize,
    unacknowledged: VecDeque<Unacknowledged>,
    unacknowledged_bytes: u64,
    window: Window,
    acknowledgements: Acknowledgements,
    news: Flushed,
    /// When the receiver was last heard of, its kernel made room, or nothing was due.
    heard: Instant,
    /// Whether the receiver has taken anything over from this connection.
    answered: bool,
    /// What the receiver's silences since it last took something over come to, connection after connection.
    barren: Duration,
    /// How often it was tried with smaller segments.
    narrowed: u8,
}

impl Line {
    /// Of stream `index`, without a connection. Silences of `timeout` end it.
    pub(crate) fn new(index: u16, window: Window, timeout: Duration, now: Instant) -> Self {
        Self {
            index,
            timeout,
            opening: 0,
            is_open: false,
            leaving: None,
            sent_bytes: 0,
            unacknowledged: VecDeque::new(),
            unacknowledged_bytes: 0,
            window,
            acknowledgements: Acknowledgements::new(),
            news: Flushed::default(),
            heard: now,
            answered: false,
            barren: Duration::ZERO,
            narrowed: 0,
        }
    }

    /// Returns a fresh connection, whose acknowledgements come under these keys. `taken` records of the opening
    /// before it were taken over by the receiver; the rest comes back.
    pub(crate) fn open(&mut self, opening: u32, keys: Association, taken: u64, now: Instant) -> Settled {
        let settled = self.settle(taken, now);
        self.opening = opening;
        self.is_open = true;
        self.acknowledgements.open(keys);
        self.heard = now;
        self.answered = false;
        self.window.begin_anew();
        settled
    }

    /// The connection is gone, and `waiting` were next. What was sent, or would have been, stays known until
    /// [`Self::open`] or [`Self::abandon`]. Returns the buffers.
    pub(crate) fn cut(
        &mut self,
        waiting: impl IntoIterator<Item = Outgoing>,
        now: Instant,
    ) -> impl Iterator<Item = Buffer> {
        if self.is_open && self.is_under_way() {
            // At least the pause before it is opened again, so that connections that break at once come to an end.
            self.barren += now.saturating_duration_since(self.heard).max(REOPENING);
        }
        self.is_open = false;
        self.sent_bytes = 0;
        self.leaving.take().into_iter().chain(waiting).map(move |outgoing| self.remember(outgoing, now))
    }

    /// There will be no other connection: everything that was not acknowledged comes back.
    pub(crate) fn abandon(&mut self, now: Instant) -> Settled {
        self.settle(0, now)
    }

    fn settle(&mut self, taken: u64, now: Instant) -> Settled {
        self.acknowledge(taken, now);
        let arrived = self.news();
        if arrived.batches > 0 {
            self.barren = Duration::ZERO;
        }
        let batches = self.unacknowledged.len();
        let again = self.unacknowledged.drain(..).flat_map(|batch| batch.contents).collect();
        self.unacknowledged_bytes = 0;
        Settled { again, batches, arrived }
    }

    /// The next batch in order goes out, after [`Self::to_send`] has given `None`.
    pub(crate) fn begin(&mut self, outgoing: Outgoing) {
        debug_assert!(self.leaving.is_none(), "one after the other");
        self.leaving = Some(outgoing);
    }

    /// Returns the bytes for the connection: what is left of the batch that is going out.
    pub(crate) fn to_send(&self) -> Option<&[u8]> {
        let leaving = self.leaving.as_ref()?;
        Some(&leaving.buffer.bytes()[self.sent_bytes..leaving.wire_bytes])
    }

    /// Returns the connection took so many of them. Returns the buffer when the batch is out.
    pub(crate) fn sent(&mut self, bytes: usize, now: Instant) -> Option<Buffer> {
        self.news.progress |= bytes > 0;
        // The kernel has room only as long as the far one takes what it was sent.
        self.heard = now;
        self.sent_bytes += bytes;
        let outgoing = self.leaving.take_if(|leaving| leaving.wire_bytes <= self.sent_bytes)?;
        self.sent_bytes = 0;
        Some(self.remember(outgoing, now))
    }

    fn remember(&mut self, Outgoing { buffer, records_end, contents, .. }: Outgoing, now: Instant) -> Buffer {
        let content_bytes = contents.iter().map(Content::bytes).sum();
        self.unacknowledged_bytes += content_bytes;
        let departure = self.window.departure(now);
        self.unacknowledged.push_back(Unacknowledged { records_end, content_bytes, contents, departure });
        buffer
    }

    /// Where bytes that arrive go; never empty.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.acknowledgements.room()
    }

    /// So many have arrived there.
    ///
    /// # Errors
    /// They are no acknowledgements by the receiver.
    pub(crate) fn received(&mut self, bytes: usize, now: Instant) -> Result<(), LineError> {
        if let Some(taken) = self.acknowledgements.take(self.index, bytes)? {
            self.heard = now;
            self.answered = true;
            self.barren = Duration::ZERO;
            self.acknowledge(taken, now);
        }
        Ok(())
    }

    fn acknowledge(&mut self, taken: u64, now: Instant) {
        while self.unacknowledged.front().is_some_and(|batch| batch.records_end <= taken) {
            if let Some(batch) = self.unacknowledged.pop_front() {
                self.unacknowledged_bytes -= batch.content_bytes;
                self.window.delivered(batch.departure, batch.content_bytes, now);
                self.news.acknowledged.extend(batch.contents);
                self.news.batches += 1;
                self.news.progress = true;
            }
        }
    }

    /// What happened since it was asked last.
    pub(crate) fn news(&mut self) -> Flushed {
        std::mem::take(&mut self.news)
    }

    /// Bears the receiver's silence, or not. A path that swallows what is large lets small packets pass (so the stream
    /// was opened) and answers to nothing else; the next opening then has smaller segments. `unanswered` tells how often
    /// the same segment was sent in vain, for one that knows.
    ///
    /// # Errors
    /// The connection is to be cut, or the stream given up.
    pub(crate) fn bear(&mut self, now: Instant, unanswered: impl FnOnce() -> u8) -> Result<(), LineError> {
        if !self.is_under_way() {
            return Ok(());
        }
        let silence = now.saturating_duration_since(self.heard);
        if self.barren + silence >= self.timeout {
            return Err(LineError::Stalled);
        }
        let is_swallowed = || {
            let may_narrow = usize::from(self.narrowed) < SEGMENT_BYTES.len();
            !self.answered && may_narrow && silence > SUSPICION && unanswered() >= UNANSWERED_MAX
        };
        if silence < self.patience() && !is_swallowed() {
            return Ok(());
        }
        if !self.answered {
            self.narrowed = self.narrowed.saturating_add(1);
        }
        Err(LineError::Cut)
    }

    fn patience(&self) -> Duration {
        // A stream that never carried anything is given less: there are smaller segments to be tried.
        if self.answered { self.timeout / 2 } else { self.timeout / 4 }
    }

    /// When a silence that lasts is borne no longer ([`Self::bear`]); `None` while no answer is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let left = self.timeout.saturating_sub(self.barren);
        self.is_under_way().then(|| self.heard + self.patience().min(left))
    }

    /// Returns whether an answer is due.
    pub(crate) fn is_under_way(&self) -> bool {
        self.sent_bytes > 0 || !self.unacknowledged.is_empty()
    }

    /// So many streams share what may be under way.
    pub(crate) fn share_window(&mut self, sharers: u16) {
        self.window.share(sharers);
    }

    /// Returns whether more content may go under way.
    pub(crate) fn has_window(&self) -> bool {
        self.unacknowledged_bytes < self.window.bytes()
    }

    /// Number of the opening that is or was in force.
    pub(crate) fn opening(&self) -> u32 {
        self.opening
    }

    /// How often smaller segments are to be tried.
    pub(crate) fn narrowed(&self) -> u8 {
        self.narrowed
    }

    /// Content that is under way.
    #[cfg(test)]
    pub(crate) fn unacknowledged_bytes(&self) -> u64 {
        self.unacknowledged_bytes
    }
}
