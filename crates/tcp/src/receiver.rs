//! The receiving half: data that has arrived, data that may arrive, and the time to acknowledge.

use crate::reassembly::Reassembly;
use crate::segment::Payload;
use crate::{Config, Out, Seq, Stats, Time};

/// Larger shifts are not allowed (RFC 7323, section 2.3).
pub(crate) const SCALE_MAX: u8 = 14;

/// Returns the size of `config`'s window in bytes, and the least shift that fits it into its field.
fn capacity(config: &Config) -> (u32, u8) {
    let capacity_bytes = config.receive_bytes.clamp(1, 1 << 30);
    let mut scale = 0;
    while scale < SCALE_MAX && capacity_bytes >> scale > u32::from(u16::MAX) {
        scale += 1;
    }
    (capacity_bytes, scale)
}

/// Returns the window field and the shift in our SYN.
pub(crate) fn first_offer(config: &Config) -> (u16, u8) {
    let (capacity_bytes, scale) = capacity(config);
    (u16::try_from(capacity_bytes).unwrap_or(u16::MAX), scale)
}

/// The receiving half of a connection, in cache lines of its own.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Receiver {
    /// The next byte waited for.
    pub(crate) nxt: Seq,
    /// One behind the last byte that was ever offered: an offer is never taken back (RFC 9293, section 3.8.6).
    pub(crate) edge: Seq,
    capacity_bytes: u32,
    /// Delivered, and not yet consumed.
    pub(crate) unconsumed_bytes: u32,
    /// Delivered since the last acknowledgement.
    unacked_bytes: u32,
    /// The largest payload that came: it counts as the peer's full segment.
    largest_bytes: u32,
    /// The number of bits by which our window field is shifted.
    pub(crate) scale: u8,
    /// An acknowledgement is due at once.
    pub(crate) is_ack_due: bool,
    /// A segment came before its turn.
    is_early: bool,
    /// Whether an acknowledgement is due after a delay.
    pub(crate) is_ack_delayed: bool,
    /// The number of FIN, once one has come.
    fin_at: Option<Seq>,
    /// Whether FIN was reached.
    pub(crate) is_finished: bool,
    /// RFC 7323, section 4.3.
    pub(crate) last_ack_sent: Seq,
    pub(crate) ts_recent: u32,
    pub(crate) ts_recent_at: Time,
    pub(crate) reassembly: Reassembly,
}

impl Receiver {
    pub(crate) fn new(config: &Config) -> Self {
        let (capacity_bytes, scale) = capacity(config);
        Self {
            nxt: Seq(0),
            edge: Seq(0),
            capacity_bytes,
            unconsumed_bytes: 0,
            unacked_bytes: 0,
            largest_bytes: 0,
            scale,
            is_ack_due: false,
            is_early: false,
            is_ack_delayed: false,
            fin_at: None,
            is_finished: false,
            last_ack_sent: Seq(0),
            ts_recent: 0,
            ts_recent_at: Time::ZERO,
            reassembly: Reassembly::new(config.reassembly_segments),
        }
    }

    /// Starts at `irs`, the number of the peer's SYN.
    pub(crate) fn open(&mut self, irs: Seq) {
        self.nxt = irs + 1;
        self.edge = self.nxt;
        self.last_ack_sent = self.nxt;
    }

    /// Returns whether the last segment came before its turn, and clears the flag.
    pub(crate) fn take_early(&mut self) -> bool {
        core::mem::take(&mut self.is_early)
    }

    /// Returns the number of bytes that may still arrive.
    pub(crate) fn window_bytes(&self) -> u32 {
        self.edge.since(self.nxt)
    }

    /// Returns whether a segment of `bytes` of sequence space touches the window (RFC 9293, section 3.10.7.4).
    pub(crate) fn is_acceptable(&self, seq: Seq, bytes: u32) -> bool {
        let window_bytes = self.window_bytes();
        match (bytes, window_bytes) {
            (0, 0) => seq == self.nxt,
            (0, _) => seq.is_within(self.nxt, self.edge),
            (_, 0) => false,
            _ => seq.is_within(self.nxt, self.edge) || (seq + (bytes - 1)).is_within(self.nxt, self.edge),
        }
    }

    /// Returns the window field of the next segment, shifted by `shift`, and notes the offer.
    ///
    /// The offer grows by a full segment or half the capacity at least (RFC 9293, section 3.8.6.2.2). If the old edge
    /// is not a multiple of the unit, the field is rounded up, by less than 2^14 bytes beyond the capacity.
    pub(crate) fn offer(&mut self, shift: u8) -> u16 {
        let offered_bytes = self.window_bytes();
        let wanted_bytes =
            if self.gain_bytes() >= self.gain_least_bytes() { self.free_bytes() } else { offered_bytes };
        let mut field = wanted_bytes >> shift;
        if field << shift < offered_bytes {
            field = offered_bytes.div_ceil(1 << shift);
        }
        let field = field.min(u32::from(u16::MAX)) as u16;
        self.edge = self.edge.later(self.nxt + (u32::from(field) << shift));
        field
    }

    fn free_bytes(&self) -> u32 {
        self.capacity_bytes.saturating_sub(self.unconsumed_bytes)
    }

    /// Returns the number of bytes by which an offer could grow.
    fn gain_bytes(&self) -> u32 {
        self.free_bytes().saturating_sub(self.window_bytes())
    }

    fn gain_least_bytes(&self) -> u32 {
        (self.capacity_bytes / 2).min(self.largest_bytes.max(536)).max(1)
    }

    /// Notes that the application is done with `bytes`; returns whether the peer should be sent the larger window.
    /// While a window is open, ordinary acknowledgements carry its size; this is for a window that is nearly closed.
    pub(crate) fn consume(&mut self, bytes: u32) -> bool {
        self.unconsumed_bytes = self.unconsumed_bytes.saturating_sub(bytes);
        let least_bytes = (self.capacity_bytes / 2).min(2 * self.largest_bytes.max(536)).max(1);
        !self.is_finished
            && self.gain_bytes() >= least_bytes
            && self.window_bytes() <= self.capacity_bytes / 2
    }

    /// Takes a payload, and delivers data that is in order.
    pub(crate) fn accept(&mut self, seq: Seq, payload: Payload, stats: &mut Stats, out: &mut Out) {
        if payload.bytes == 0 {
            return;
        }
        self.largest_bytes = self.largest_bytes.max(payload.bytes);
        let last = self.fin_at.map_or(self.edge, |fin_at| fin_at.earlier(self.edge));
        let (mut seq, mut payload) = (seq, payload);
        if seq.is_before(self.nxt) {
            payload = payload.skip(self.nxt.since(seq));
            seq = self.nxt;
        }
        let room_bytes = if seq.is_before(last) { last.since(seq) } else { 0 };
        if room_bytes < payload.bytes {
            // The peer oversteps the window: an acknowledgement at once shows it the window's end.
            payload = payload.take(room_bytes);
            self.is_ack_due = true;
        }
        if payload.bytes == 0 {
            stats.refused_segments += 1;
            self.is_ack_due = true;
            out.refused.push(payload.slot);
        } else if seq != self.nxt {
            stats.early_segments += 1;
            self.is_early = true;
            self.is_ack_due = true;
            if !self.reassembly.insert(seq, payload, &mut out.refused) {
                stats.refused_segments += 1;
            }
        } else {
            self.deliver(payload, out);
            if !self.reassembly.is_empty() {
                // RFC 5681, section 4.2: a segment that fills a gap is acknowledged at once.
                self.is_ack_due = true;
                while let Some(payload) = self.reassembly.take(self.nxt, &mut out.refused) {
                    self.deliver(payload, out);
                }
            }
            if self.unacked_bytes >= 2 * self.largest_bytes {
                self.is_ack_due = true;
            }
            self.is_ack_delayed = true;
        }
    }

    fn deliver(&mut self, payload: Payload, out: &mut Out) {
        self.nxt += payload.bytes;
        self.unconsumed_bytes += payload.bytes;
        self.unacked_bytes = self.unacked_bytes.saturating_add(payload.bytes);
        out.deliver.push(payload);
    }

    /// Takes a FIN with the number `seq`. The first FIN counts; one beyond the window does not, nor one before bytes
    /// that have arrived.
    pub(crate) fn accept_fin(&mut self, seq: Seq) {
        let first = self.reassembly.end().unwrap_or(self.nxt);
        if self.fin_at.is_none() && first.is_at_most(seq) && seq.is_at_most(self.edge) {
            self.fin_at = Some(seq);
        }
        self.is_ack_due = true;
    }

    /// Moves past FIN if all data before it has arrived; returns whether that happened now.
    pub(crate) fn reach_fin(&mut self) -> bool {
        if self.is_finished || self.fin_at != Some(self.nxt) {
            return false;
        }
        self.is_finished = true;
        self.is_ack_due = true;
        self.nxt += 1;
        self.edge = self.edge.later(self.nxt);
        true
    }

    /// Notes that an acknowledgement of everything so far leaves with a segment.
    pub(crate) fn acknowledged(&mut self) {
        self.unacked_bytes = 0;
        self.is_ack_due = false;
        self.is_ack_delayed = false;
        self.last_ack_sent = self.nxt;
    }

    /// Asserts the invariants that hold between calls.
    pub(crate) fn assert_invariants(&self) {
        assert!(self.nxt.is_at_most(self.edge), "the window's end lies before its start");
        assert!(self.window_bytes() <= self.capacity_bytes + (1 << SCALE_MAX), "more offered than there is");
        self.reassembly.assert_invariants(self.nxt + 1, self.edge);
        if let (Some(fin_at), false) = (self.fin_at, self.is_finished) {
            assert!(self.nxt.is_at_most(fin_at), "FIN was overtaken");
        }
    }
}
