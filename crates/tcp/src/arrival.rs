//! The arrival of segments: RFC 9293, section 3.10.7, with RFC 5961 and RFC 7323.

use crate::connection::{Connection, State};
use crate::event::{Event, Reason};
use crate::segment::{Flags, Header, Segment, reset_for};
use crate::sender::Fin;
use crate::timers::Timer;
use crate::{Out, Seq, Time};
use core::time::Duration;

/// RFC 7323, section 5.5: a timestamp older than this has no meaning.
const STAMP_LIFE: Duration = Duration::from_secs(24 * 24 * 3600);

impl Connection {
    /// Takes segments in the order of their arrival. Returns how many it took: all, unless `out` was not drained or
    /// the batch is larger than the one `out` was made for. Every payload taken comes back, now or later, in
    /// [`Out::deliver`] or in [`Out::refused`].
    pub fn receive(&mut self, segments: &[Segment], now: Time, out: &mut Out) -> usize {
        let is_drained = out.deliver.is_empty() && out.acked.is_empty() && out.refused.is_empty();
        let taken = if is_drained { segments.len().min(out.batch_max()) } else { 0 };
        let delivered_before = out.deliver.len();
        for segment in &segments[..taken] {
            self.stats.received_segments += 1;
            self.arrive(segment, now, out);
        }
        self.stats.delivered_bytes +=
            out.deliver[delivered_before..].iter().map(|payload| u64::from(payload.bytes)).sum::<u64>();
        if taken > 0 {
            self.flush(now, out);
        }
        taken
    }

    fn refuse(segment: &Segment, out: &mut Out) {
        if segment.payload.bytes > 0 {
            out.refused.push(segment.payload.slot);
        }
    }

    fn arrive(&mut self, segment: &Segment, now: Time, out: &mut Out) {
        match self.state {
            State::Closed => Self::refuse(segment, out),
            State::SynSent => {
                // Data on SYN is refused, so that the peer sends it again: it would be delivered before the peer is
                // known to be real.
                Self::refuse(segment, out);
                self.arrive_in_syn_sent(segment, now, out);
            }
            _ => {
                if !self.arrive_in_window(segment, now, out) {
                    Self::refuse(segment, out);
                }
            }
        }
    }

    /// Handles a segment in SYN-SENT (section 3.10.7.3).
    fn arrive_in_syn_sent(&mut self, segment: &Segment, now: Time, out: &mut Out) {
        let header = &segment.header;
        let flags = header.flags;
        let is_acked = flags.has(Flags::ACK);
        if is_acked && header.ack != self.send.nxt {
            if !out.is_send_full()
                && let Some(reset) = reset_for(header, segment.payload.bytes)
            {
                self.push_reset(reset, out);
            }
            return;
        }
        if flags.has(Flags::RST) {
            if is_acked {
                self.end(Reason::Refused, out);
            }
            return;
        }
        if !flags.has(Flags::SYN) {
            return;
        }
        self.agree(&header.options);
        self.receive.open(header.seq);
        self.note_stamp(header, now);
        if is_acked {
            // The window of a segment with SYN is not scaled (RFC 7323, section 2.2).
            self.establish(header, u32::from(header.window), now, out);
            self.receive.is_ack_due = true;
        } else {
            // Both ends have opened at once.
            self.state = State::SynReceived;
            self.send_syn(now, out);
        }
    }

    fn establish(&mut self, header: &Header, wnd: u32, now: Time, out: &mut Out) {
        self.send.open(header, wnd);
        self.timers.clear(Timer::Retransmit);
        self.state = match self.send.fin {
            Fin::Open => State::Established,
            Fin::Queued | Fin::Sent => State::FinWait1,
        };
        out.events.push(Event::Established);
        self.note_life(now);
    }

    /// Handles a segment in all other states (section 3.10.7.4). Returns whether the payload was taken over.
    fn arrive_in_window(&mut self, segment: &Segment, now: Time, out: &mut Out) -> bool {
        let Segment { mut header, mut payload } = *segment;
        self.note_life(now);
        if self.state == State::SynReceived && self.is_syn_again(&header, now, out) {
            return false;
        }
        if self.state == State::SynReceived && header.flags.has(Flags::SYN | Flags::ACK) {
            // Both ends have opened at once, and this answers our SYN: the peer's SYN is known already.
            if header.seq + 1 == self.receive.nxt {
                header.seq += 1;
                header.flags = Flags(header.flags.0 & !Flags::SYN.0);
                // The window of a segment with SYN is not scaled (RFC 7323, section 2.2).
                header.window >>= self.send.scale;
            }
        }
        let flags = header.flags;
        let is_reset = flags.has(Flags::RST);
        if self.is_stamped && !is_reset && !self.is_stamp_good(&header, payload.bytes, now, out) {
            return false;
        }
        let extra = u32::from(flags.has(Flags::SYN)) + u32::from(flags.has(Flags::FIN));
        let bytes = payload.bytes + extra;
        if !self.receive.is_acceptable(header.seq, bytes) {
            if is_reset {
                return false;
            }
            if bytes > 0 && header.seq == self.receive.nxt && !flags.has(Flags::SYN) {
                // The window is closed. The segment's acknowledgement is valid all the same, and the probe gets its
                // answer.
                Self::refuse(segment, out);
                payload.bytes = 0;
                header.flags = Flags(flags.0 & !Flags::FIN.0);
                self.receive.is_ack_due = true;
                let is_taken = self.arrive_acceptable(&Segment { header, payload }, now, out);
                debug_assert!(!is_taken, "there was no payload any more");
                return true;
            }
            self.answer_unacceptable(&header, bytes, now, out);
            return false;
        }
        if is_reset {
            // RFC 5961, section 3.2: only a reset with the very next number is believed. RFC 1337: no reset is
            // believed in TIME-WAIT.
            if self.state == State::TimeWait {
                return false;
            }
            if header.seq == self.receive.nxt {
                let is_refused = self.state == State::SynReceived && !self.is_passive;
                self.end(if is_refused { Reason::Refused } else { Reason::Reset }, out);
            } else {
                self.send_challenge(now, out);
            }
            return false;
        }
        if flags.has(Flags::SYN) {
            // RFC 5961, section 4.2.
            self.send_challenge(now, out);
            return false;
        }
        self.arrive_acceptable(&Segment { header, payload }, now, out)
    }

    /// Returns whether this is the peer's SYN again, because our answer to it was lost.
    fn is_syn_again(&mut self, header: &Header, now: Time, out: &mut Out) -> bool {
        let is_syn = header.flags.has(Flags::SYN) && !header.flags.has(Flags::ACK);
        if !is_syn || header.flags.has(Flags::RST) || header.seq + 1 != self.receive.nxt {
            return false;
        }
        if self.limiter.admit(now) && !out.is_send_full() {
            self.stats.resent_segments += 1;
            self.send_syn(now, out);
        }
        true
    }

    /// Answers a segment outside the window, so that ends that have lost each other find back. A bare segment is
    /// answered a bounded number of times.
    fn answer_unacceptable(&mut self, header: &Header, bytes: u32, now: Time, out: &mut Out) {
        if self.state == State::TimeWait && header.flags.has(Flags::FIN) {
            // Our last acknowledgement was lost: TIME-WAIT starts anew (section 3.10.7.4, eighth).
            self.enter_time_wait(now);
        }
        if header.flags.has(Flags::SYN) || bytes == 0 {
            self.send_challenge(now, out);
        } else {
            self.receive.is_ack_due = true;
        }
    }

    /// Returns whether the segment's timestamp lets it pass (RFC 7323, section 5.3).
    fn is_stamp_good(&mut self, header: &Header, payload_bytes: u32, now: Time, out: &mut Out) -> bool {
        let Some(stamp) = header.options.timestamps else {
            // RFC 7323, section 3.2: once timestamps are agreed on, every segment has one.
            self.stats.paws_segments += 1;
            return false;
        };
        let is_old = (stamp.value.wrapping_sub(self.receive.ts_recent) as i32) < 0
            && now.since(self.receive.ts_recent_at) < STAMP_LIFE;
        if is_old {
            self.stats.paws_segments += 1;
            if payload_bytes > 0 {
                self.receive.is_ack_due = true;
            } else {
                self.send_challenge(now, out);
            }
            return false;
        }
        true
    }

    pub(crate) fn note_stamp(&mut self, header: &Header, now: Time) {
        if let Some(stamp) = header.options.timestamps {
            self.receive.ts_recent = stamp.value;
            self.receive.ts_recent_at = now;
        }
    }

    /// Handles an acceptable segment, from its acknowledgement on. Returns whether the payload was taken over.
    fn arrive_acceptable(&mut self, segment: &Segment, now: Time, out: &mut Out) -> bool {
        let Segment { header, payload } = segment;
        if !header.flags.has(Flags::ACK) {
            return false;
        }
        if self.is_stamped && header.seq.is_at_most(self.receive.last_ack_sent) {
            self.note_stamp(header, now);
        }
        if self.state == State::SynReceived {
            if header.ack != self.send.nxt {
                if let Some(reset) = reset_for(header, payload.bytes)
                    && !out.is_send_full()
                {
                    self.push_reset(reset, out);
                }
                return false;
            }
            let wnd = u32::from(header.window) << self.send.scale;
            self.establish(header, wnd, now, out);
        }
        if !self.is_ack_good(header.ack) {
            // RFC 5961, section 5.2 asks for this, also for an acknowledgement of bytes never sent.
            self.send_challenge(now, out);
            return false;
        }
        if self.send.una.is_at_most(header.ack) && self.on_ack(segment, now, out) {
            return false;
        }
        let is_fin = header.flags.has(Flags::FIN);
        if self.may_receive() {
            let is_taken = payload.bytes > 0;
            self.receive.accept(header.seq, *payload, &mut self.stats, out);
            if is_fin {
                self.receive.accept_fin(header.seq + payload.bytes);
            }
            if self.receive.take_early() {
                // Each early segment is answered by itself: the peer counts duplicates (RFC 5681, section 4.2).
                self.send_ack(now, out);
            }
            if self.receive.reach_fin() {
                self.on_fin(now, out);
            }
            return is_taken;
        }
        // The peer's FIN has been reached; bytes beyond it are answered and dropped.
        self.receive.is_ack_due |= is_fin || payload.bytes > 0;
        if is_fin && self.state == State::TimeWait {
            self.enter_time_wait(now);
        }
        false
    }

    fn is_ack_good(&self, ack: Seq) -> bool {
        let oldest = self.send.una.minus(self.send.wnd_max);
        oldest.is_at_most(ack) && ack.is_at_most(self.send.nxt)
    }

    /// Hands the acknowledgement to the sender; returns true if the connection has ended by it.
    fn on_ack(&mut self, segment: &Segment, now: Time, out: &mut Out) -> bool {
        let Segment { header, payload } = segment;
        let is_bare = payload.bytes == 0 && !header.flags.has(Flags::FIN);
        let outcome = self.send.on_ack(header, is_bare, now, &mut self.stats, &mut out.acked);
        if outcome.is_progress {
            if self.send.flight.is_empty() {
                self.timers.clear(Timer::Retransmit);
            } else {
                self.timers.set(Timer::Retransmit, now + self.send.rtt.timeout());
            }
        }
        if outcome.is_opened {
            // If the window is still too small to be used, the persist timer starts anew, without its backoff.
            self.timers.clear(Timer::Persist);
        }
        if outcome.fin {
            match self.state {
                State::FinWait1 => self.state = State::FinWait2,
                State::Closing => self.enter_time_wait(now),
                State::LastAck => {
                    self.end(Reason::Finished, out);
                    return true;
                }
                _ => {}
            }
        }
        false
    }

    /// Handles the peer's FIN once it has been reached.
    fn on_fin(&mut self, now: Time, out: &mut Out) {
        out.events.push(Event::PeerClosed);
        match self.state {
            State::Established => self.state = State::CloseWait,
            State::FinWait1 => self.state = State::Closing,
            State::FinWait2 => self.enter_time_wait(now),
            _ => {}
        }
    }

    fn push_reset(&mut self, header: Header, out: &mut Out) {
        self.stats.sent_segments += 1;
        out.send.push(crate::segment::Transmit { header, ..Default::default() });
    }
}
