//! The sending half: data that is acknowledged, data in flight, and data that may be sent next.

use crate::congestion::Controller;
use crate::flight::{Flight, Sent};
use crate::queue::{Cursor, Queue};
use crate::recovery::{Phase, Prr};
use crate::rtt::Rtt;
use crate::segment::{Header, Parts};
use crate::{Config, Seq, Stats, Time};
use alloc::vec::Vec;

/// RFC 5681: number of duplicate acknowledgements that reveal a loss.
const DUPLICATES: u32 = 3;

/// The state of our FIN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fin {
    Open,
    /// FIN is to be sent behind the queue's last byte.
    Queued,
    Sent,
}

/// The next new segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Nothing,
    /// There is data, but the peer's window, Nagle's rule or silly window avoidance holds it back.
    Held,
    /// There is data, but the congestion window or the scoreboard's size holds it back.
    Limited,
    /// A segment may be sent.
    New {
        bytes: u32,
        fin: bool,
    },
}

/// A segment of the queue.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    pub(crate) seq: Seq,
    /// Bytes of payload.
    pub(crate) bytes: u32,
    pub(crate) fin: bool,
    /// Whether nothing is queued behind it, or it is sent again.
    pub(crate) is_last: bool,
}

/// The changes made by an acknowledgement.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Outcome {
    /// New data, or FIN, was acknowledged.
    pub(crate) is_progress: bool,
    /// FIN was acknowledged.
    pub(crate) fin: bool,
    /// Whether the peer's window was closed and is open now.
    pub(crate) is_opened: bool,
}

/// The sending half of a connection. It has cache lines of its own: a lane that sends and a lane that receives for
/// the same connection follow each other under one lock.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Sender {
    /// The first byte not acknowledged.
    pub(crate) una: Seq,
    /// The next to be sent.
    pub(crate) nxt: Seq,
    /// The peer's window, in bytes from `una` on.
    pub(crate) wnd: u32,
    /// The number and the acknowledgement of the segment that set `wnd` last.
    wl1: Seq,
    wl2: Seq,
    /// The largest window the peer ever had.
    pub(crate) wnd_max: u32,
    /// Most payload bytes of a segment, without options.
    pub(crate) payload_max: u32,
    /// The position of the byte `nxt` in the queue.
    next: Cursor,
    pub(crate) fin: Fin,
    /// The number of bits by which the peer's window field is shifted.
    pub(crate) scale: u8,
    pub(crate) is_sack: bool,
    is_nagle: bool,
    joins: bool,
    /// Whether the congestion window held the sender back since the last acknowledgement.
    is_limited: bool,
    duplicates: u32,
    /// Without SACK: the number of bytes that have arrived according to duplicate acknowledgements.
    guessed_bytes: u32,
    /// Timeouts in a row without progress.
    pub(crate) retries: u32,
    last_sent_at: Time,
    phase: Phase,
    controller: Controller,
    pub(crate) rtt: Rtt,
    pub(crate) flight: Flight,
    pub(crate) queue: Queue,
}

impl Sender {
    pub(crate) fn new(config: &Config, isn: Seq) -> Self {
        let first = isn + 1;
        let queue = Queue::new(config.send_messages, first);
        Self {
            una: isn,
            nxt: isn,
            wnd: 0,
            wl1: Seq(0),
            wl2: isn,
            wnd_max: 0,
            payload_max: 536,
            next: queue.start(),
            fin: Fin::Open,
            scale: 0,
            is_sack: false,
            is_nagle: config.nagle,
            joins: config.join_messages,
            is_limited: false,
            duplicates: 0,
            guessed_bytes: 0,
            retries: 0,
            last_sent_at: Time::ZERO,
            phase: Phase::Open,
            controller: Controller::new(config.congestion, 536),
            rtt: Rtt::new(config.rto_initial, config.rto_min, config.rto_max),
            flight: Flight::new(config.flight_segments),
            queue,
        }
    }

    /// Sets the limits that the handshake agreed on.
    pub(crate) fn agree(&mut self, config: &Config, payload_max: u32, scale: u8, is_sack: bool) {
        self.payload_max = payload_max;
        self.controller = Controller::new(config.congestion, payload_max);
        self.scale = scale;
        self.is_sack = is_sack;
    }

    /// Opens the half after a segment with this header and a window of `wnd` bytes acknowledged SYN.
    pub(crate) fn open(&mut self, header: &Header, wnd: u32) {
        self.una = header.ack;
        self.retries = 0;
        self.rtt.progress();
        self.set_window(header, wnd);
    }

    fn set_window(&mut self, header: &Header, wnd: u32) {
        self.wnd = wnd;
        self.wnd_max = self.wnd_max.max(wnd);
        self.wl1 = header.seq;
        self.wl2 = header.ack;
    }

    pub(crate) fn unsent_bytes(&self) -> u32 {
        if self.fin == Fin::Sent { 0 } else { self.queue.end().since(self.nxt) }
    }

    /// Returns whether any data waits to be sent for the first time.
    pub(crate) fn has_unsent(&self) -> bool {
        self.fin == Fin::Queued || self.unsent_bytes() > 0
    }

    /// Returns the number of a segment without data: the next one, or the end of the peer's window if a probe, or a
    /// window that was taken back, left that end behind. The peer would ignore a number beyond its window.
    pub(crate) fn bare_seq(&self) -> Seq {
        if self.flight.is_empty() { self.nxt } else { self.nxt.earlier(self.una + self.wnd) }
    }

    pub(crate) fn pipe_bytes(&self) -> u32 {
        self.flight.pipe_bytes().saturating_sub(self.guessed_bytes)
    }

    pub(crate) fn window_bytes(&self) -> u32 {
        self.controller.window.bytes
    }

    /// Processes an acknowledgement that lies within `una..=nxt`. Slots of wholly acknowledged messages go to
    /// `acked`.
    pub(crate) fn on_ack(
        &mut self,
        header: &Header,
        is_bare: bool,
        now: Time,
        stats: &mut Stats,
        acked: &mut Vec<u32>,
    ) -> Outcome {
        let wnd = u32::from(header.window) << self.scale;
        let progress_bytes = header.ack.since(self.una);
        // RFC 5681, section 2 defines a duplicate acknowledgement so.
        let is_duplicate = progress_bytes == 0 && is_bare && !self.flight.is_empty() && wnd == self.wnd;
        let was_closed = self.wnd == 0;
        if self.wl1.is_before(header.seq) || self.wl1 == header.seq && self.wl2.is_at_most(header.ack) {
            self.set_window(header, wnd);
        }
        if was_closed {
            // The peer lives: probes of its window are not counted against it (RFC 9293, section 3.8.6.1).
            self.retries = 0;
        }
        let mut news_bytes = 0;
        if self.is_sack {
            for &(from, to) in header.options.sack.iter() {
                if from.is_before(to) && !from.is_before(self.una) && to.is_at_most(self.nxt) {
                    news_bytes += self.flight.sack(from, to);
                }
            }
        }
        let mut outcome = Outcome::default();
        if progress_bytes > 0 {
            let flight_bytes = self.flight.bytes();
            let (flight, queue) = (&mut self.flight, &self.queue);
            let found = flight.acknowledge(header.ack, |at, bytes| queue.skip(at, bytes));
            self.una = header.ack;
            self.queue.acknowledge(header.ack, acked);
            if let Some(sent_at) = found.sent_at {
                self.rtt.sample(now.since(sent_at));
            }
            self.rtt.progress();
            self.retries = 0;
            outcome = Outcome { is_progress: true, fin: found.fin, is_opened: false };
            let mut delivered_bytes = found.delivered_bytes + news_bytes;
            if self.guessed_bytes > 0 {
                // Some of the bytes acknowledged now had been guessed to have arrived (RFC 6937, section 3).
                let known_bytes = self.guessed_bytes.min(progress_bytes.saturating_sub(self.payload_max));
                self.guessed_bytes = (self.guessed_bytes - known_bytes).min(self.flight.bytes());
                delivered_bytes = delivered_bytes.saturating_sub(known_bytes);
            }
            self.advance(progress_bytes, delivered_bytes, flight_bytes, now);
        } else if self.is_sack {
            self.reduce(news_bytes);
        } else if is_duplicate {
            self.duplicates += 1;
            self.guessed_bytes = (self.guessed_bytes + self.payload_max).min(self.flight.bytes());
            self.reduce(self.payload_max);
        }
        stats.duplicate_acks += u64::from(is_duplicate);
        outcome.is_opened = was_closed && self.wnd > 0;
        if outcome.is_opened && self.flight.is_empty() {
            self.rtt.progress();
        }
        if outcome.is_opened && !outcome.is_progress && !self.flight.is_empty() {
            // The peer dropped the probe of its closed window.
            self.flight.mark_front_lost();
        } else if news_bytes > 0 || is_duplicate {
            self.detect(stats);
        }
        outcome
    }

    /// Handles newly acknowledged data: the window grows, or recovery goes on or ends.
    fn advance(&mut self, progress_bytes: u32, delivered_bytes: u32, flight_bytes: u32, now: Time) {
        self.duplicates = 0;
        let until = match self.phase {
            Phase::Open => None,
            Phase::Fast { until, .. } | Phase::Timeout { until } => Some(until),
        };
        let is_over = until.is_some_and(|until| until.is_at_most(self.una));
        match self.phase {
            Phase::Fast { .. } if is_over => {
                self.controller.window.bytes = self.controller.window.threshold_bytes;
                self.phase = Phase::Open;
                self.guessed_bytes = 0;
            }
            Phase::Fast { .. } => {
                if !self.is_sack {
                    // RFC 6582, section 3.2: a partial acknowledgement reveals the next hole.
                    self.flight.mark_first_lost();
                }
                self.reduce(delivered_bytes);
            }
            Phase::Open | Phase::Timeout { .. } => {
                if is_over {
                    self.phase = Phase::Open;
                }
                if self.is_limited || flight_bytes >= self.controller.window.bytes {
                    let rtt = self.rtt.smoothed().unwrap_or_default();
                    self.controller.on_ack(progress_bytes, rtt, now);
                }
                self.guessed_bytes = 0;
            }
        }
        self.is_limited = false;
    }

    /// Lowers the window during fast recovery by the data that leaves the network.
    fn reduce(&mut self, delivered_bytes: u32) {
        let pipe_bytes = self.pipe_bytes();
        if let Phase::Fast { prr, .. } = &mut self.phase {
            let window = &mut self.controller.window;
            let room = prr.delivered(delivered_bytes, pipe_bytes, window.threshold_bytes, window.mss);
            window.bytes = pipe_bytes.saturating_add(room);
        }
    }

    /// Looks for losses after news from the receiver.
    fn detect(&mut self, stats: &mut Stats) {
        match self.phase {
            Phase::Timeout { .. } => {}
            Phase::Fast { .. } => {
                if self.is_sack && self.flight.mark_lost(self.payload_max) {
                    self.reduce(0);
                }
            }
            Phase::Open => {
                let is_lost = if self.is_sack {
                    self.flight.mark_lost(self.payload_max)
                } else {
                    self.duplicates == DUPLICATES
                };
                if is_lost {
                    let flight_bytes = self.flight.bytes();
                    self.flight.mark_first_lost();
                    self.controller.on_loss(flight_bytes);
                    self.phase = Phase::Fast { until: self.nxt, prr: Prr::new(flight_bytes) };
                    stats.fast_recoveries += 1;
                    self.reduce(self.guessed_bytes);
                }
            }
        }
    }

    /// Notes that the retransmission timer ran out. Marks the first segment to be sent again, whatever the windows
    /// allow.
    pub(crate) fn on_timeout(&mut self) {
        if self.wnd == 0 {
            // The peer refused this probe of its closed window, so nothing follows about the path.
            self.flight.mark_first_lost();
        } else {
            self.controller.on_timeout(self.flight.bytes(), self.retries == 0);
            self.flight.mark_all_lost();
            self.phase = Phase::Timeout { until: self.nxt };
        }
        self.guessed_bytes = 0;
        self.duplicates = 0;
        self.retries += 1;
        self.rtt.back_off();
    }

    /// Returns the index of the segment to be sent again, if one is lost and the congestion window allows it, and
    /// whether one waits.
    pub(crate) fn next_lost(&mut self) -> (Option<u32>, bool) {
        let Some(index) = self.flight.next_lost() else { return (None, false) };
        let bytes = self.flight.get(index).map_or(0, |sent| sent.bytes);
        let pipe_bytes = self.pipe_bytes();
        let may_pass = pipe_bytes == 0 || pipe_bytes.saturating_add(bytes) <= self.controller.window.bytes;
        (may_pass.then_some(index), true)
    }

    /// Returns the next segment to be sent for the first time. `is_forced` overrides the peer's window by one byte
    /// and silly window avoidance altogether: the persist timer has run out.
    pub(crate) fn next_new(&mut self, is_forced: bool) -> Next {
        let unsent_bytes = self.unsent_bytes();
        let is_fin_due = self.fin == Fin::Queued;
        if unsent_bytes == 0 && !is_fin_due {
            return Next::Nothing;
        }
        if self.flight.is_full() {
            return Next::Limited;
        }
        // A peer may take back its offer: the difference is then negative.
        let room = ((self.una + self.wnd).since(self.nxt) as i32).max(i32::from(is_forced)).max(0) as u32;
        let full_bytes = if self.joins {
            self.payload_max
        } else {
            self.payload_max.min(self.queue.message_rest(self.next))
        };
        let bytes = unsent_bytes.min(full_bytes).min(room);
        let fin = is_fin_due && bytes == unsent_bytes && room > bytes;
        if bytes == 0 && !fin {
            return Next::Held;
        }
        // RFC 9293, section 3.8.6.2.1, and RFC 896.
        let is_last = bytes == unsent_bytes && (fin || !self.is_nagle || self.flight.is_empty());
        let is_full = bytes == full_bytes && bytes > 0;
        if !(is_full || is_last || bytes >= (self.wnd_max / 2).max(1) || is_forced) {
            return Next::Held;
        }
        let pipe_bytes = self.pipe_bytes();
        if pipe_bytes > 0 && pipe_bytes.saturating_add(bytes) > self.controller.window.bytes {
            self.is_limited = true;
            return Next::Limited;
        }
        Next::New { bytes, fin }
    }

    /// Puts new data in flight, its payload into `parts`.
    #[inline]
    pub(crate) fn send_new(&mut self, bytes: u32, fin: bool, now: Time, parts: &mut Parts) -> Cut {
        if self.flight.is_empty() && now.since(self.last_sent_at) > self.rtt.timeout() {
            self.controller.on_idle();
        }
        let (cut_bytes, next) = self.queue.cut(self.next, bytes, parts);
        // Many small messages do not all fit into the segment: FIN then waits for the last of them.
        let fin = fin && cut_bytes == bytes;
        let (seq, at) = (self.nxt, self.next);
        let sent = Sent { seq, bytes: cut_bytes + u32::from(fin), at, sent_at: now, fin, ..Sent::default() };
        self.flight.push(sent);
        self.nxt += sent.bytes;
        self.next = next;
        if fin {
            self.fin = Fin::Sent;
        }
        self.note_sent(sent.bytes, now);
        Cut { seq, bytes: cut_bytes, fin, is_last: self.unsent_bytes() == 0 }
    }

    /// Puts the segment at `index` in flight again, its payload into `parts`.
    pub(crate) fn send_again(&mut self, index: u32, now: Time, parts: &mut Parts) -> Option<Cut> {
        let sent = *self.flight.get(index)?;
        let (bytes, _) = self.queue.cut(sent.at, sent.payload_bytes(), parts);
        self.flight.resent(index, now);
        self.note_sent(sent.bytes, now);
        Some(Cut { seq: sent.seq, bytes, fin: sent.fin, is_last: true })
    }

    fn note_sent(&mut self, bytes: u32, now: Time) {
        self.last_sent_at = now;
        if let Phase::Fast { prr, .. } = &mut self.phase {
            prr.sent(bytes);
        }
    }

    /// Asserts the invariants that hold between calls once the handshake is complete.
    pub(crate) fn assert_invariants(&self) {
        self.flight.assert_invariants(self.una, self.nxt);
        assert!(self.guessed_bytes <= self.flight.bytes(), "more guessed than sent");
        let end = self.queue.end() + u32::from(self.fin == Fin::Sent);
        assert!(self.nxt.is_at_most(end), "sent what was never queued");
        assert!(
            self.queue.len() > 0 || self.queue.end().is_at_most(self.una),
            "unacknowledged bytes are gone"
        );
        assert!(self.controller.window.bytes >= 1 && self.controller.window.threshold_bytes >= 1);
    }
}
