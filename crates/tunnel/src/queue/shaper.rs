//! A rate that what leaves must not exceed, for a queue behind this host that fills otherwise.
//!
//! Guarantees: over any time no more bytes leave than the rate carries in it, and one train and what it carries in [`LATE_NS`]. Time
//! is a value, in nanoseconds.

use super::{below::TRAIN_NS, fair::Turn};

/// The time by which a late user may catch up.
const LATE_NS: u64 = 1_000_000;
/// The shortest turn of a flow: a packet.
const TURN_BYTES: u32 = 1514;

/// The state of one rate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shaper {
    /// The time at which all that has left is through.
    free_ns: u64,
}

impl Shaper {
    /// Returns the time until more may leave; `None` if it may now.
    pub fn pause_ns(&self, now_ns: u64) -> Option<u64> {
        self.free_ns.checked_sub(now_ns).filter(|&ns| ns > 0)
    }

    /// Notes that `bytes` leave at `now_ns`.
    pub fn spend(&mut self, now_ns: u64, bytes: u64, bytes_per_s: u64) {
        let ns = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(bytes_per_s.max(1)));
        self.free_ns = self.free_ns.max(now_ns.saturating_sub(LATE_NS)).saturating_add(ns as u64);
    }

    /// Shortens a train, and the flows' turns with it, to what the rate carries in half a millisecond.
    pub fn shorten(turn: Turn, bytes_per_s: u64) -> Turn {
        let bytes = (bytes_per_s as f64 * TRAIN_NS / 1e9).clamp(1.0, f64::from(turn.most_bytes)) as u32;
        let quantum = turn.quantum.min(bytes.div_ceil(4).max(TURN_BYTES) as i32);
        Turn { most_bytes: bytes, quantum, is_whole: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A user that is late now and then, and sends trains of several lengths.
    #[test]
    fn no_more_leaves_than_the_rate_carries_and_no_less() {
        for rate in [1_250_000, 11_875_000, 125_000_000_u64] {
            let (mut shaper, mut now, mut sent, mut count) = (Shaper::default(), 5_000_000_000, 0u64, 0);
            let start = now;
            while now < start + 1_000_000_000 {
                match shaper.pause_ns(now) {
                    Some(ns) => now += ns + count % 5 * 150_000,
                    None => {
                        let bytes = 100 + count * 7919 % 6000;
                        shaper.spend(now, bytes, rate);
                        sent += bytes;
                        count += 1;
                    }
                }
                let most = (now - start + LATE_NS) as f64 * rate as f64 / 1e9 + 6100.0;
                assert!(sent as f64 <= most, "{sent} after {} ns at {rate}", now - start);
            }
            assert!(sent as f64 > 0.98 * rate as f64, "{sent} at {rate}");
        }
    }

    #[test]
    fn trains_are_as_long_as_the_rate_carries() {
        let turn = Turn { most_bytes: 65_536, quantum: 65_536, is_whole: true };
        assert_eq!(
            Shaper::shorten(turn, 12_500_000),
            Turn { most_bytes: 6250, quantum: 1563, is_whole: false }
        );
        assert_eq!(Shaper::shorten(turn, 1).most_bytes, 1);
        assert_eq!(Shaper::shorten(turn, u64::MAX).most_bytes, 65_536);
    }
}
