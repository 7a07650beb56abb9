//! The sender's state of loss recovery, and the amount that it may send meanwhile: Proportional Rate Reduction (RFC
//! 6937), which lowers the window to the threshold evenly over the round trip after a loss.

use crate::Seq;

/// Proportional Rate Reduction, with its slow start reduction bound.
#[derive(Debug, Clone)]
pub(crate) struct Prr {
    delivered_bytes: u64,
    sent_bytes: u64,
    /// Bytes in flight when the loss was found.
    flight_bytes: u64,
}

impl Prr {
    pub(crate) fn new(flight_bytes: u32) -> Self {
        Self { delivered_bytes: 0, sent_bytes: 0, flight_bytes: u64::from(flight_bytes).max(1) }
    }

    pub(crate) fn sent(&mut self, bytes: u32) {
        self.sent_bytes += u64::from(bytes);
    }

    /// Notes that `delivered_bytes` more have left the network; returns how many may enter it now (section 3,
    /// `SndCnt`).
    pub(crate) fn delivered(
        &mut self,
        delivered_bytes: u32,
        pipe_bytes: u32,
        threshold_bytes: u32,
        mss: u32,
    ) -> u32 {
        self.delivered_bytes += u64::from(delivered_bytes);
        let room_bytes = if pipe_bytes > threshold_bytes {
            let due_bytes = (self.delivered_bytes * u64::from(threshold_bytes)).div_ceil(self.flight_bytes);
            due_bytes.saturating_sub(self.sent_bytes)
        } else {
            let unsent_bytes = self.delivered_bytes.saturating_sub(self.sent_bytes);
            let limit_bytes = unsent_bytes.max(u64::from(delivered_bytes)) + u64::from(mss);
            limit_bytes.min(u64::from(threshold_bytes - pipe_bytes))
        };
        // The first lost segment is sent at once, however much is under way.
        let least_bytes = if self.sent_bytes == 0 { u64::from(mss) } else { 0 };
        u32::try_from(room_bytes.max(least_bytes)).unwrap_or(u32::MAX)
    }
}

/// A sender's state of loss recovery.
#[derive(Debug, Clone)]
pub(crate) enum Phase {
    /// No loss is known.
    Open,
    /// A loss was found by acknowledgements (RFC 6675, RFC 6582); the phase ends when all before `until` is
    /// acknowledged.
    Fast {
        /// The next number to be sent when the loss was found.
        until: Seq,
        prr: Prr,
    },
    /// The retransmission timer ran out; the phase ends likewise.
    Timeout {
        /// The next number to be sent when the timer ran out.
        until: Seq,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sends_the_thresholds_share_of_what_was_delivered() {
        // Twenty segments are in flight, and ten at the end: one segment is sent for every second one that arrives.
        let mss = 1000;
        let mut prr = Prr::new(20_000);
        let mut pipe_bytes = 17_000;
        assert_eq!(prr.delivered(3_000, pipe_bytes, 10_000, mss), 1_500);
        prr.sent(1_500);
        pipe_bytes += 1_500;
        let mut sent_bytes = 1_500;
        while pipe_bytes > 10_000 {
            pipe_bytes -= mss;
            let room_bytes = prr.delivered(mss, pipe_bytes, 10_000, mss);
            prr.sent(room_bytes);
            pipe_bytes += room_bytes;
            sent_bytes += room_bytes;
        }
        assert!((8_000..=10_500).contains(&sent_bytes), "{sent_bytes}");
    }

    #[test]
    fn fills_up_to_the_threshold_no_faster_than_slow_start() {
        let mut prr = Prr::new(20_000);
        prr.sent(1_000);
        assert_eq!(prr.delivered(3_000, 2_000, 10_000, 1_000), 4_000);
        prr.sent(4_000);
        assert_eq!(prr.delivered(2_000, 9_500, 10_000, 1_000), 500, "never beyond the threshold");
    }

    #[test]
    fn the_first_retransmission_is_never_held_back() {
        assert_eq!(Prr::new(20_000).delivered(0, 19_000, 10_000, 1_000), 1_000);
    }
}
