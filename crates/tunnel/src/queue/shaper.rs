//! A rate that what leaves must not exceed, for a queue behind this host that fills otherwise.
//!
//! Queues that share a rate take places, one behind the other, so none that waits is overtaken.
//!
//! Guarantees: over any time no more bytes leave than the rate carries in it, and one burst of each queue, and what it carries in
//! [`LATE_NS`]; no queue waits for another one. Time is a value, in nanoseconds.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{below::BURST_NS, fair::Turn};

/// The time by which a late user may catch up.
const LATE_NS: u64 = 1_000_000;
/// The shortest turn of a flow: a packet.
const TURN_BYTES: u32 = 1514;

/// The time that a place takes until it is known what leaves: a burst's.
const PLACE_NS: u64 = BURST_NS as u64;

/// The time from which the next burst of a queue may leave; `None` if it has taken no place yet.
pub type Booking = Option<u64>;

/// The state of one rate.
#[derive(Debug, Default)]
pub struct Shaper {
    /// The time at which all is through that has left or has a place.
    free_ns: AtomicU64,
}

impl Shaper {
    /// Returns the time at which all is through, and makes it another one. No other memory depends on it.
    fn change(&self, change: impl Fn(u64) -> u64) -> u64 {
        let changed = self.free_ns.fetch_update(Relaxed, Relaxed, |free_ns| Some(change(free_ns)));
        changed.unwrap_or_else(|unchanged| unchanged)
    }

    /// Returns the time until a burst may leave from `place`, which is taken if there is none; `None` if it may now.
    pub fn pause_ns(&self, now_ns: u64, place: &mut Booking) -> Option<u64> {
        let least_ns = now_ns.saturating_sub(LATE_NS);
        let at_ns = *place.get_or_insert_with(|| {
            self.change(|free_ns| free_ns.max(least_ns).saturating_add(PLACE_NS)).max(least_ns)
        });
        at_ns.checked_sub(now_ns).filter(|&ns| ns > 0)
    }

    /// Notes that `bytes` leave from `place`.
    pub fn spend(&self, place: &mut Booking, bytes: u64, bytes_per_s: u64) {
        let ns = (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(bytes_per_s.max(1))) as u64;
        let held_ns = if place.take().is_some() { PLACE_NS } else { 0 };
        self.change(|free_ns| free_ns.saturating_sub(held_ns).saturating_add(ns));
    }

    /// Gives up a place from which nothing leaves.
    pub fn leave(&self, place: &mut Booking) {
        if place.take().is_some() {
            self.change(|free_ns| free_ns.saturating_sub(PLACE_NS));
        }
    }

    /// Shortens a burst, and the flows' turns with it, to what the rate carries in half a millisecond.
    pub fn shorten(turn: Turn, bytes_per_s: u64) -> Turn {
        let bytes = (bytes_per_s as f64 * BURST_NS / 1e9).clamp(1.0, f64::from(turn.most_bytes)) as u32;
        let quantum = turn.quantum.min(bytes.div_ceil(4).max(TURN_BYTES) as i32);
        Turn { most_bytes: bytes, quantum, is_whole: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A user that is late now and then, and sends bursts of several lengths.
    #[test]
    fn no_more_leaves_than_the_rate_carries_and_no_less() {
        for rate in [1_250_000, 11_875_000, 125_000_000_u64] {
            let (shaper, mut now, mut sent, mut count) = (Shaper::default(), 5_000_000_000, 0u64, 0);
            let mut place = None;
            let start = now;
            while now < start + 1_000_000_000 {
                match shaper.pause_ns(now, &mut place) {
                    Some(ns) => now += ns + count % 5 * 150_000,
                    None => {
                        let bytes = 100 + count * 7919 % 6000;
                        shaper.spend(&mut place, bytes, rate);
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
    fn users_have_their_turns_in_the_order_of_their_places_and_one_that_leaves_takes_no_time() {
        let shaper = Shaper::default();
        let (now, ms) = (1_000_000_000, 1_000_000);
        let mut places = [None; 3];
        let pauses = places.each_mut().map(|place| shaper.pause_ns(now, place));
        // The first two catch up with the time before.
        assert_eq!(pauses, [None, None, None]);
        // Each sends what takes 2 ms at 1 GB/s, and takes another place.
        let next = places.each_mut().map(|place| {
            shaper.spend(place, 2 * ms, 1_000_000_000);
            shaper.pause_ns(now, place)
        });
        assert!(next.is_sorted() && next[0] >= Some(2 * ms - LATE_NS), "{next:?}");
        shaper.leave(&mut places[2]);
        let [mut behind, mut other] = [None; 2];
        assert_eq!(shaper.pause_ns(now, &mut behind), next[2], "the place is free again");
        assert!(shaper.pause_ns(now, &mut other) > next[2]);
        assert_eq!(shaper.pause_ns(now + 100 * ms, &mut places[0]), None);
    }

    #[test]
    fn bursts_are_as_long_as_the_rate_carries() {
        let turn = Turn { most_bytes: 65_536, quantum: 65_536, is_whole: true };
        assert_eq!(
            Shaper::shorten(turn, 12_500_000),
            Turn { most_bytes: 6250, quantum: 1563, is_whole: false }
        );
        assert_eq!(Shaper::shorten(turn, 1).most_bytes, 1);
        assert_eq!(Shaper::shorten(turn, u64::MAX).most_bytes, 65_536);
    }
}
