//! The successive connections of one sending stream, as a value: batches in their order and received bytes go in,
//! with the time; bytes, deadlines, and the fate of content come out. It has no socket and no clock.
//!
//! Guarantees: content is forgotten only when the receiver has acknowledged it under the key of its opening;
//! unacknowledged content of an opening is returned exactly once, with the next opening or when there will be no
//! other; a silent receiver ends the opening, and one that is silent in several openings in a row ends the stream.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use sealane_engine::Buffer;
use sealane_engine::record::Association;

use crate::{
    line::LineError,
    proto::join::Awaited,
    send::{
        acknowledgements::Acknowledgements,
        window::{Departure, Window},
        work::Content,
    },
};

/// The segment sizes for a path that drops larger ones: the guaranteed size of IPv6, then that of IPv4.
pub(crate) const SEGMENT_BYTES: [u16; 2] = [1220, 536];
/// The time without an answer before the reason is examined.
const SUSPICION: Duration = Duration::from_millis(500);
/// The number of retransmissions of the first segments after which the path counts as dropping them.
const UNANSWERED_MAX: u8 = 3;
/// The minimum cost of a connection that breaks as soon as it is used.
const REOPENING: Duration = Duration::from_millis(100);

/// A sealed batch on its way out.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) buffer: Buffer,
    pub(crate) wire_bytes: usize,
    /// Number after its last record.
    pub(crate) records_end: u64,
    pub(crate) contents: Vec<Content>,
    /// The sample of compression that it belongs to; 0 if to none.
    pub(crate) sample: u32,
}

/// A batch that is not acknowledged yet.
#[derive(Debug)]
struct Unacknowledged {
    records_end: u64,
    content_bytes: u64,
    contents: Vec<Content>,
    sample: u32,
    departure: Departure,
}

/// The result of one turn at a stream.
#[derive(Debug, Default)]
pub(crate) struct Flushed {
    /// Whether bytes moved.
    pub(crate) progress: bool,
    /// Content that the receiver has.
    pub(crate) acknowledged: Vec<Content>,
    /// Batches that the receiver has.
    pub(crate) batches: usize,
    /// Samples of compression that batches among these belong to, with the batch's bytes of content.
    pub(crate) sampled: Vec<(u32, u64)>,
}

/// The fate of the batches of a lost connection.
#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// The content to send again.
    pub(crate) again: Vec<Content>,
    /// Batches that this content was in.
    pub(crate) batches: usize,
    /// The content that had arrived after all.
    pub(crate) arrived: Flushed,
}

/// One stream's connections.
#[derive(Debug)]
pub(crate) struct Line {
    index: u16,
    timeout: Duration,
    /// The number of the current or last opening.
    opening: u32,
    is_open: bool,
    /// The batch that is being sent, and its number of sent bytes.
    leaving: Option<Outgoing>,
    sent_bytes: usize,
    unacknowledged: VecDeque<Unacknowledged>,
    unacknowledged_bytes: u64,
    window: Window,
    acknowledgements: Acknowledgements,
    news: Flushed,
    /// The last time when the receiver answered, its kernel made room, or no answer was due.
    heard: Instant,
    /// Whether the receiver has taken over anything from this connection.
    answered: bool,
    /// The sum of the receiver's silences since it last took over anything, over all connections.
    barren: Duration,
    /// The number of times that smaller segments were tried.
    narrowed: u8,
}

impl Line {
    /// Returns stream `index`, without a connection. The stream ends after silences of `timeout`.
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

    /// Starts a new connection, whose acknowledgements are sealed with these keys, and come behind the answer `awaited`
    /// if the receiver has not answered yet. The receiver took over `taken` records of the previous opening; the rest
    /// is returned.
    pub(crate) fn open(
        &mut self,
        opening: u32,
        keys: Association,
        awaited: Option<Awaited>,
        taken: u64,
        now: Instant,
    ) -> Settled {
        let settled = self.settle(taken, now);
        self.opening = opening;
        self.is_open = true;
        self.acknowledgements.open(keys, awaited);
        self.heard = now;
        self.answered = false;
        self.window.begin_anew();
        settled
    }

    /// Handles the loss of the connection; the batches in `waiting` were next. Batches that were sent, or were about
    /// to be, are kept until [`Self::open`] or [`Self::abandon`]. Returns the buffers.
    pub(crate) fn cut(
        &mut self,
        waiting: impl IntoIterator<Item = Outgoing>,
        now: Instant,
    ) -> impl Iterator<Item = Buffer> {
        if self.is_open && self.is_under_way() {
            // At least the pause before the next opening is added, so that connections that break at once come to an
            // end.
            self.barren += now.saturating_duration_since(self.heard).max(REOPENING);
        }
        self.is_open = false;
        self.sent_bytes = 0;
        self.leaving.take().into_iter().chain(waiting).map(move |outgoing| self.remember(outgoing, now))
    }

    /// There will be no other connection: returns everything that was not acknowledged.
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

    /// Starts to send the next batch in order, after [`Self::to_send`] has returned `None`.
    pub(crate) fn begin(&mut self, outgoing: Outgoing) {
        debug_assert!(self.leaving.is_none(), "one after the other");
        self.leaving = Some(outgoing);
    }

    /// Returns the bytes for the connection: the rest of the batch that is being sent.
    pub(crate) fn to_send(&self) -> Option<&[u8]> {
        let leaving = self.leaving.as_ref()?;
        Some(&leaving.buffer.bytes()[self.sent_bytes..leaving.wire_bytes])
    }

    /// Records that the connection accepted this many of them. Returns the buffer when the batch has been sent.
    pub(crate) fn sent(&mut self, bytes: usize, now: Instant) -> Option<Buffer> {
        self.news.progress |= bytes > 0;
        // The kernel has room only as long as the far kernel accepts data.
        self.heard = now;
        self.sent_bytes += bytes;
        let outgoing = self.leaving.take_if(|leaving| leaving.wire_bytes <= self.sent_bytes)?;
        self.sent_bytes = 0;
        Some(self.remember(outgoing, now))
    }

    fn remember(&mut self, outgoing: Outgoing, now: Instant) -> Buffer {
        let Outgoing { buffer, records_end, contents, sample, .. } = outgoing;
        let content_bytes = contents.iter().map(Content::bytes).sum();
        self.unacknowledged_bytes += content_bytes;
        let departure = self.window.departure(now);
        let batch = Unacknowledged { records_end, content_bytes, contents, sample, departure };
        self.unacknowledged.push_back(batch);
        buffer
    }

    /// Returns the place of the next received bytes; never empty.
    pub(crate) fn room(&mut self) -> &mut [u8] {
        self.acknowledgements.room()
    }

    /// Records that this many bytes have arrived there.
    ///
    /// # Errors
    /// Fails if they are not acknowledgements by the receiver.
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
                self.news.sampled.extend((batch.sample != 0).then_some((batch.sample, batch.content_bytes)));
                self.news.batches += 1;
                self.news.progress = true;
            }
        }
    }

    /// Returns the events since the last call.
    pub(crate) fn news(&mut self) -> Flushed {
        std::mem::take(&mut self.news)
    }

    /// Fails if the receiver has been silent for too long. A path that drops large segments passes small packets (so
    /// the stream was opened) and nothing else is answered; the next opening then has smaller segments. `unanswered`
    /// returns the number of times that the same segment was sent in vain, if the wire knows it.
    ///
    /// # Errors
    /// Fails if the connection must be cut, or the stream abandoned.
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
        // A stream that never carried anything gets less time: smaller segments remain to be tried.
        if self.answered { self.timeout / 2 } else { self.timeout / 4 }
    }

    /// Returns the time at which a lasting silence becomes a failure ([`Self::bear`]); `None` while no answer is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let left = self.timeout.saturating_sub(self.barren);
        self.is_under_way().then(|| self.heard + self.patience().min(left))
    }

    /// Returns whether an answer is due.
    pub(crate) fn is_under_way(&self) -> bool {
        self.sent_bytes > 0 || !self.unacknowledged.is_empty()
    }

    /// Sets the number of streams that share the permitted bytes in flight.
    pub(crate) fn share_window(&mut self, sharers: u16) {
        self.window.share(sharers);
    }

    /// Returns whether more content may be sent.
    pub(crate) fn has_window(&self) -> bool {
        self.unacknowledged_bytes < self.window.bytes()
    }

    /// Returns the number of the current or last opening.
    pub(crate) fn opening(&self) -> u32 {
        self.opening
    }

    /// Returns the number of times that smaller segments are to be tried.
    pub(crate) fn narrowed(&self) -> u8 {
        self.narrowed
    }

    /// Returns the number of unacknowledged content bytes.
    #[cfg(test)]
    pub(crate) fn unacknowledged_bytes(&self) -> u64 {
        self.unacknowledged_bytes
    }
}
