//! Segments that leave: headers, acknowledgements, SYN, resets, probes, new data and data sent again.

use crate::connection::{Connection, State};
use crate::segment::{Flags, Header, Options, Parts, SackBlocks, Timestamps, Transmit};
use crate::sender::{Cut, Next};
use crate::timers::Timer;
use crate::{Out, Seq, Time};

impl Connection {
    /// Returns a header from `seq` on. It acknowledges everything received so far.
    fn header(&mut self, seq: Seq, flags: Flags, now: Time) -> Header {
        let shift = if flags.has(Flags::SYN) { 0 } else { self.receive.scale };
        let window = self.receive.offer(shift);
        self.receive.acknowledged();
        self.timers.clear(Timer::Ack);
        let ack = if flags.has(Flags::ACK) { self.receive.nxt } else { Seq(0) };
        let options = Options { timestamps: self.stamp(now), ..Options::default() };
        Header { seq, ack, flags, window, options }
    }

    fn stamp(&self, now: Time) -> Option<Timestamps> {
        let value = now.as_ms_wrapping().wrapping_add(self.timestamp_offset);
        self.is_stamped.then_some(Timestamps { value, echo: self.receive.ts_recent })
    }

    fn push(&mut self, header: Header, parts: Parts, out: &mut Out) {
        self.stats.sent_segments += 1;
        out.send.push(Transmit { header, parts });
    }

    /// Sends SYN, or the answer to one, and sets its timer.
    pub(crate) fn send_syn(&mut self, now: Time, out: &mut Out) {
        let is_answer = self.state == State::SynReceived;
        let flags = if is_answer { Flags::SYN | Flags::ACK } else { Flags::SYN };
        let mut header = self.header(self.send.una, flags, now);
        header.options.mss = Some(self.config.mss);
        // The answer contains only options that the peer's SYN offered (RFC 7323, section 2.2; RFC 2018, section 2).
        let is_scaled = !is_answer || self.is_scaled;
        header.options.window_scale = is_scaled.then_some(self.receive.scale);
        header.options.sack_permitted = if is_answer { self.send.is_sack } else { self.config.sack };
        self.push(header, Parts::default(), out);
        self.timers.set(Timer::Retransmit, now + self.send.rtt.timeout());
    }

    /// Sends an acknowledgement without data.
    pub(crate) fn send_ack(&mut self, now: Time, out: &mut Out) {
        if out.is_send_full() {
            self.receive.is_ack_due = true;
            self.is_more_due = true;
            return;
        }
        let mut header = self.header(self.send.bare_seq(), Flags::ACK, now);
        if self.send.is_sack && !self.receive.reassembly.is_empty() {
            let blocks_max = if self.is_stamped { 3 } else { SackBlocks::MAX };
            header.options.sack = self.receive.reassembly.blocks(blocks_max);
        }
        self.push(header, Parts::default(), out);
    }

    /// Sends an acknowledgement that anybody can provoke (RFC 5961, section 7).
    pub(crate) fn send_challenge(&mut self, now: Time, out: &mut Out) {
        if self.limiter.admit(now) {
            self.stats.challenges += 1;
            self.send_ack(now, out);
        } else {
            self.stats.suppressed += 1;
        }
    }

    /// Sends a segment whose number is just before the window, so that the peer must answer (RFC 9293, section
    /// 3.8.4).
    pub(crate) fn send_probe(&mut self, now: Time, out: &mut Out) {
        if !out.is_send_full() {
            let header = self.header(self.send.una.minus(1), Flags::ACK, now);
            self.push(header, Parts::default(), out);
        }
    }

    /// Sends a reset with the next number, the only one that the peer believes (RFC 5961, section 3).
    pub(crate) fn send_reset(&mut self, now: Time, out: &mut Out) {
        if !out.is_send_full() {
            let header = self.header(self.send.bare_seq(), Flags::RST | Flags::ACK, now);
            self.push(header, Parts::default(), out);
        }
    }

    /// Sends what the windows allow: first lost segments, then new data.
    pub(crate) fn transmit(&mut self, now: Time, out: &mut Out) {
        self.is_more_due = false;
        let sends_data = matches!(
            self.state,
            State::Established | State::FinWait1 | State::CloseWait | State::Closing | State::LastAck
        );
        if !sends_data {
            return;
        }
        // Segments of one call differ in number, bits and payload alone.
        let mut like = None;
        let held = loop {
            let (lost, is_any_lost) = self.send.next_lost();
            let next = if is_any_lost { Next::Limited } else { self.send.next_new(false) };
            let is_due = lost.is_some() || matches!(next, Next::New { .. });
            if is_due && out.is_send_full() {
                self.is_more_due = true;
                break false;
            }
            if !is_due {
                break next == Next::Held;
            }
            let like = like.get_or_insert_with(|| self.header(Seq(0), Flags::ACK, now));
            match (lost, next) {
                (Some(index), _) => self.push_lost(like, index, now, out),
                (None, Next::New { bytes, fin }) => self.push_new(like, bytes, fin, now, out),
                (None, _) => break false,
            }
        };
        if !self.send.flight.is_empty() {
            self.timers.clear(Timer::Persist);
            if !self.timers.is_set(Timer::Retransmit) {
                self.timers.set(Timer::Retransmit, now + self.send.rtt.timeout());
            }
        } else if held {
            if !self.timers.is_set(Timer::Persist) {
                self.timers.set(Timer::Persist, now + self.send.rtt.timeout());
            }
        } else {
            self.timers.clear(Timer::Persist);
        }
    }

    pub(crate) fn send_new(&mut self, bytes: u32, fin: bool, now: Time, out: &mut Out) {
        let like = self.header(Seq(0), Flags::ACK, now);
        self.push_new(&like, bytes, fin, now, out);
    }

    /// Sends the segment at `index` of the flight again.
    pub(crate) fn resend(&mut self, index: u32, now: Time, out: &mut Out) {
        if out.is_send_full() {
            self.is_more_due = true;
            return;
        }
        if self.send.flight.get(index).is_some() {
            let like = self.header(Seq(0), Flags::ACK, now);
            self.push_lost(&like, index, now, out);
        }
    }

    /// Sends new data under a header like this one.
    #[inline]
    fn push_new(&mut self, like: &Header, bytes: u32, fin: bool, now: Time, out: &mut Out) {
        let segment = out.push(like);
        let cut = self.send.send_new(bytes, fin, now, &mut segment.parts);
        self.stats.sent_segments += 1;
        self.stats.sent_bytes += u64::from(cut.bytes);
        finish(&mut segment.header, cut);
    }

    fn push_lost(&mut self, like: &Header, index: u32, now: Time, out: &mut Out) {
        let segment = out.push(like);
        match self.send.send_again(index, now, &mut segment.parts) {
            Some(cut) => {
                self.stats.sent_segments += 1;
                self.stats.resent_segments += 1;
                finish(&mut segment.header, cut);
            }
            None => drop(out.send.pop()),
        }
    }

    /// Sends everything due after a batch or a deadline: data, and an acknowledgement if no data carried it.
    pub(crate) fn flush(&mut self, now: Time, out: &mut Out) {
        if self.state == State::Closed {
            return;
        }
        self.transmit(now, out);
        if self.receive.is_ack_due {
            self.send_ack(now, out);
        } else if self.receive.is_ack_delayed && !self.timers.is_set(Timer::Ack) {
            self.timers.set(Timer::Ack, now + self.config.ack_delay);
        }
    }
}

/// Fills in the fields in which the segments of a call differ.
#[inline]
fn finish(header: &mut Header, cut: Cut) {
    header.seq = cut.seq;
    if cut.is_last && cut.bytes > 0 {
        header.flags = header.flags | Flags::PSH;
    }
    if cut.fin {
        header.flags = header.flags | Flags::FIN;
    }
}
