//! CoDel (RFC 8289): decides when a queue that stands loses its first packet.
//!
//! Guarantees: a packet that waited less than `TARGET_NS`, or that has less than a packet behind it, is never lost; a
//! queue begins to lose packets only when none has waited less for `INTERVAL_NS`.

/// The time that packets of a standing queue may wait, in nanoseconds.
const TARGET_NS: u64 = 5_000_000;
/// The time in which a sender answers a loss, in nanoseconds.
const INTERVAL_NS: u64 = 100_000_000;
/// A queue that has no more bytes does not stand: the length of a packet.
const LEAST_BYTES: u32 = 1514;
/// The intervals without a loss after which the rate of losses begins anew.
const FORGET: u64 = 16;

/// The state of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Codel {
    /// The time at which the queue will have stood for an interval; 0 if it does not stand.
    stands_at_ns: u64,
    /// The time of the next loss, while there are losses.
    next_ns: u64,
    /// The losses since they began, and their number at the beginning.
    count: u32,
    last_count: u32,
    is_losing: bool,
}

/// Returns the time of the loss behind one at `ns`, the `count`th.
fn after(ns: u64, count: u32) -> u64 {
    ns + (INTERVAL_NS as f64 / f64::from(count.max(1)).sqrt()) as u64
}

impl Codel {
    /// A queue that never stood.
    pub const NEW: Self = Self { stands_at_ns: 0, next_ns: 0, count: 0, last_count: 0, is_losing: false };

    /// Returns whether the packet at the front, which waited for `waited_ns`, is to be lost or marked at `now_ns`. `bytes` is
    /// the queue's length with it. After a loss, the next packet is asked about in the same way.
    pub fn is_due(&mut self, now_ns: u64, waited_ns: u64, bytes: u32) -> bool {
        if !self.stands(now_ns, waited_ns, bytes) {
            self.is_losing = false;
            return false;
        }
        if self.is_losing {
            if now_ns < self.next_ns {
                return false;
            }
            self.count = self.count.saturating_add(1);
            self.next_ns = after(self.next_ns, self.count);
            return true;
        }
        // RFC 8289, section 5.4: losses go on at their former rate if they ended only lately.
        let more = self.count.saturating_sub(self.last_count);
        let is_lately = now_ns.saturating_sub(self.next_ns) < FORGET * INTERVAL_NS;
        self.count = if more > 1 && is_lately { more } else { 1 };
        self.last_count = self.count;
        self.next_ns = after(now_ns, self.count);
        self.is_losing = true;
        true
    }

    fn stands(&mut self, now_ns: u64, waited_ns: u64, bytes: u32) -> bool {
        if waited_ns < TARGET_NS || bytes <= LEAST_BYTES {
            self.stands_at_ns = 0;
            return false;
        }
        if self.stands_at_ns == 0 {
            self.stands_at_ns = now_ns + INTERVAL_NS;
        }
        now_ns >= self.stands_at_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn what_waits_shortly_or_alone_is_never_lost() {
        let mut codel = Codel::default();
        for ms in 0..1000 {
            assert!(!codel.is_due(ms * MS, TARGET_NS - 1, 100_000));
            assert!(!codel.is_due(ms * MS, 50 * MS, LEAST_BYTES));
        }
    }

    /// The times of the losses are those of the RFC's control law.
    #[test]
    fn a_queue_that_stands_loses_more_and_more_until_it_does_not_stand() {
        let mut codel = Codel::default();
        let mut lost = Vec::new();
        for ms in 1..400 {
            while codel.is_due(ms * MS, 6 * MS, 100_000) {
                lost.push(ms);
            }
        }
        assert_eq!(lost[..5], [101, 201, 272, 330, 380]);
        assert!(!codel.is_due(400 * MS, MS, 100_000));
        // It stands again shortly afterwards: the rate is as it was, but not at once.
        let again: Vec<u64> = (401..700).filter(|ms| codel.is_due(ms * MS, 6 * MS, 100_000)).collect();
        assert_eq!(again[0], 501);
        assert!(again[1] - again[0] <= 60, "{again:?}");
    }

    /// A burst of less than an interval passes whole.
    #[test]
    fn a_burst_passes() {
        let mut codel = Codel::default();
        let lost = (1..100).filter(|ms| codel.is_due(ms * MS, 20 * MS, 1_000_000)).count();
        assert_eq!(lost, 0);
    }
}
