//! A rate limit that all lanes share.
//!
//! Guarantees: for any number of callers and any order of their clocks' readings, the bytes whose wait is over at
//! time `t` never exceed the burst plus the rate times the time since the first call, to the byte: no rounding errors
//! accumulate. Callers are served in the order of their calls.

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const NS_PER_SECOND: u128 = 1_000_000_000;

/// A token bucket which starts full.
#[derive(Debug)]
pub struct Limiter {
    /// `None` if there is no limit.
    bucket: Option<Bucket>,
    /// A limit that several transfers share.
    shared: Option<Arc<Self>>,
}

#[derive(Debug)]
struct Bucket {
    bytes_per_second: NonZeroU64,
    /// The bytes that may pass at once, in ticks.
    burst_ticks: u128,
    fill: Mutex<Fill>,
}

/// Time is counted from the first call in ticks of `1 / bytes_per_second` nanoseconds. A nanosecond is then
/// `bytes_per_second` ticks and a byte is 10⁹ ticks: both are whole numbers, so no value is rounded.
#[derive(Debug, Default)]
struct Fill {
    epoch: Option<Instant>,
    /// The time at which the bucket will be full again, in ticks.
    full_at: u128,
}

impl Limiter {
    /// Returns a limit of `bytes_per_second`, of which `burst_bytes` may pass at once after a pause; `None` means no
    /// limit.
    pub fn new(bytes_per_second: Option<NonZeroU64>, burst_bytes: u64) -> Self {
        let bucket = bytes_per_second.map(|bytes_per_second| Bucket {
            bytes_per_second,
            burst_ticks: u128::from(burst_bytes) * NS_PER_SECOND,
            fill: Mutex::default(),
        });
        Self { bucket, shared: None }
    }

    /// Adds a second limit, which others may share.
    pub fn beside(self, shared: Option<Arc<Self>>) -> Self {
        Self { shared, ..self }
    }

    /// Takes `bytes` from the bucket and returns the time to wait, from `now`, before they are used.
    ///
    /// They are taken in any case: a caller that gives up has spent them.
    pub fn delay(&self, bytes: u64, now: Instant) -> Duration {
        let own = self.bucket.as_ref().map_or(Duration::ZERO, |bucket| bucket.delay(bytes, now));
        self.shared.as_ref().map_or(own, |shared| own.max(shared.delay(bytes, now)))
    }
}

impl Bucket {
    fn delay(&self, bytes: u64, now: Instant) -> Duration {
        let ticks_per_ns = u128::from(self.bytes_per_second.get());
        // The time is a plain number, which is consistent at every step: a panic elsewhere does not corrupt it.
        let mut fill = self.fill.lock().unwrap_or_else(PoisonError::into_inner);
        let epoch = *fill.epoch.get_or_insert(now);
        // A lane that read its clock just before the first one counts as simultaneous.
        let now_ticks = now.saturating_duration_since(epoch).as_nanos().saturating_mul(ticks_per_ns);
        let cost_ticks = u128::from(bytes) * NS_PER_SECOND;
        fill.full_at = fill.full_at.max(now_ticks).saturating_add(cost_ticks);
        let wait_ticks = fill.full_at.saturating_sub(now_ticks).saturating_sub(self.burst_ticks);
        drop(fill);
        let wait_ns = wait_ticks.div_ceil(ticks_per_ns);
        Duration::from_nanos(u64::try_from(wait_ns).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn limiter(bytes_per_second: u64, burst_bytes: u64) -> Limiter {
        Limiter::new(NonZeroU64::new(bytes_per_second), burst_bytes)
    }

    #[test]
    fn transfers_that_share_a_limit_get_its_rate_together() {
        let start = Instant::now();
        let shared = Arc::new(limiter(1000, 0));
        let (fast, slow) =
            (limiter(1_000_000, 0).beside(Some(shared.clone())), limiter(100, 0).beside(Some(shared)));
        assert_eq!(fast.delay(1000, start), Duration::from_secs(1));
        assert_eq!(fast.delay(1000, start), Duration::from_secs(2));
        assert_eq!(slow.delay(1000, start), Duration::from_secs(10));
        assert_eq!(fast.delay(1000, start), Duration::from_secs(4));
    }

    #[test]
    fn no_limit_never_waits() {
        let limiter = Limiter::new(None, 0);
        assert_eq!(limiter.delay(u64::MAX, Instant::now()), Duration::ZERO);
        assert_eq!(limiter.delay(u64::MAX, Instant::now()), Duration::ZERO);
    }

    #[test]
    fn a_burst_passes_and_the_rest_waits() {
        let start = Instant::now();
        let limiter = limiter(1000, 500);
        assert_eq!(limiter.delay(400, start), Duration::ZERO);
        assert_eq!(limiter.delay(100, start), Duration::ZERO);
        assert_eq!(limiter.delay(1, start), Duration::from_millis(1));
        assert_eq!(limiter.delay(999, start), Duration::from_secs(1));
        // Half a second later, half of that debt is left.
        let later = start + Duration::from_millis(500);
        assert_eq!(limiter.delay(0, later), Duration::from_millis(500));
        // A long pause fills the bucket, but not beyond its size.
        let much_later = start + Duration::from_secs(3600);
        assert_eq!(limiter.delay(500, much_later), Duration::ZERO);
        assert_eq!(limiter.delay(500, much_later), Duration::from_millis(500));
    }

    #[test]
    fn without_a_burst_every_byte_takes_its_time() {
        let start = Instant::now();
        let limiter = limiter(10, 0);
        assert_eq!(limiter.delay(1, start), Duration::from_millis(100));
        assert_eq!(limiter.delay(1, start + Duration::from_millis(100)), Duration::from_millis(100));
    }

    #[test]
    fn fractions_of_a_nanosecond_add_up() {
        // A byte takes a tenth of a nanosecond.
        let start = Instant::now();
        let limiter = limiter(10_000_000_000, 0);
        let waits = (0..10_000).map(|_| limiter.delay(1, start)).collect::<Vec<_>>();
        assert_eq!(waits[9], Duration::from_nanos(1));
        assert_eq!(waits[9_999], Duration::from_nanos(1000));
    }

    #[test]
    fn extremes_saturate() {
        let start = Instant::now();
        let slow = limiter(1, 0);
        for _ in 0..4 {
            assert_eq!(slow.delay(u64::MAX, start), Duration::from_nanos(u64::MAX));
        }
        let fast = limiter(u64::MAX, u64::MAX);
        assert_eq!(fast.delay(u64::MAX, start), Duration::ZERO);
        assert_eq!(fast.delay(u64::MAX, start), Duration::from_secs(1));
        assert_eq!(fast.delay(0, start + Duration::from_secs(1 << 32)), Duration::ZERO);
    }

    #[test]
    fn lanes_together_get_the_rate_of_one() {
        const LANES: u64 = 4;
        const CALLS: u64 = 500;
        let start = Instant::now();
        let limiter = limiter(1_000_000, 0);
        let mut waits = std::thread::scope(|scope| {
            let lanes = (0..LANES)
                .map(|_| scope.spawn(|| (0..CALLS).map(|_| limiter.delay(1000, start)).collect::<Vec<_>>()))
                .collect::<Vec<_>>();
            let waits = lanes.into_iter().map(|lane| lane.join().unwrap()).collect::<Vec<_>>();
            // Each lane's own waits grow.
            assert!(waits.iter().all(|waits| waits.is_sorted()));
            waits.concat()
        });
        waits.sort_unstable();
        let expected = (1..=LANES * CALLS).map(Duration::from_millis).collect::<Vec<_>>();
        assert_eq!(waits, expected);
    }

    proptest! {
        /// The virtual clock may also step back a little, like the readings of several lanes.
        #[test]
        fn the_rate_holds_and_is_reached(
            rate in 1_u64..2_000_000_000,
            burst in 0_u64..1_000_000,
            calls in prop::collection::vec((0_u64..200_000, -1_000_i64..1_000_000), 1..200),
        ) {
            let start = Instant::now();
            let limiter = limiter(rate, burst);
            let (mut clock_ns, mut taken) = (0_u64, 0_u128);
            for (bytes, step_ns) in calls {
                clock_ns = clock_ns.saturating_add_signed(step_ns);
                let wait = limiter.delay(bytes, start + Duration::from_nanos(clock_ns));
                taken += u128::from(bytes);
                let used_at_ns = u128::from(clock_ns) + wait.as_nanos();
                // The rate is never exceeded …
                let allowed = u128::from(burst) * NS_PER_SECOND + u128::from(rate) * used_at_ns;
                prop_assert!(taken * NS_PER_SECOND <= allowed);
                // … and no caller waits longer than all requested bytes take to pass.
                let all_ns = (taken * NS_PER_SECOND).div_ceil(u128::from(rate));
                prop_assert!(wait.as_nanos() <= all_ns);
            }
        }

        /// A caller that waits as long as required never waits twice.
        #[test]
        fn one_obedient_caller_gets_the_whole_rate(rate in 1_u64..2_000_000_000, sizes in prop::collection::vec(1_u64..200_000, 1..100)) {
            let start = Instant::now();
            let limiter = limiter(rate, 0);
            let (mut now, mut taken) = (start, 0_u128);
            for bytes in sizes {
                now += limiter.delay(bytes, now);
                taken += u128::from(bytes);
                let exact_ns = (taken * NS_PER_SECOND).div_ceil(u128::from(rate));
                let late_ns = (now - start).as_nanos() - exact_ns;
                prop_assert!(late_ns <= 100, "at most a nanosecond is rounded up each time");
            }
        }
    }
}
