//! The retransmission timer's length (RFC 6298), in nanoseconds.

use core::time::Duration;

/// Most doublings of a timeout; more would overflow.
const BACKOFF_MAX: u32 = 16;

/// The smoothed round trip, its variation, and the timeout derived from them.
#[derive(Debug, Clone)]
pub(crate) struct Rtt {
    smoothed_ns: u64,
    variation_ns: u64,
    timeout_ns: u64,
    min_ns: u64,
    max_ns: u64,
    backoff: u32,
}

impl Rtt {
    /// Starts with the timeout `initial`, until a first sample (RFC 6298, section 2.1: one second).
    pub(crate) fn new(initial: Duration, min: Duration, max: Duration) -> Self {
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX / 4);
        Self {
            smoothed_ns: 0,
            variation_ns: 0,
            timeout_ns: ns(initial),
            min_ns: ns(min),
            max_ns: ns(max).max(ns(min)),
            backoff: 0,
        }
    }

    /// Takes a sample (section 2.2 and 2.3).
    pub(crate) fn sample(&mut self, rtt: Duration) {
        let rtt_ns = u64::try_from(rtt.as_nanos()).unwrap_or(self.max_ns).clamp(1, self.max_ns);
        if self.smoothed_ns == 0 {
            self.smoothed_ns = rtt_ns;
            self.variation_ns = rtt_ns / 2;
        } else {
            let error_ns = self.smoothed_ns.abs_diff(rtt_ns);
            self.variation_ns = self.variation_ns - self.variation_ns / 4 + error_ns / 4;
            self.smoothed_ns = self.smoothed_ns - self.smoothed_ns / 8 + rtt_ns / 8;
        }
        let margin_ns = self.variation_ns.saturating_mul(4).max(1_000_000);
        let timeout_ns = self.smoothed_ns.saturating_add(margin_ns);
        self.timeout_ns = timeout_ns.clamp(self.min_ns, self.max_ns);
    }

    /// Returns the timeout, doubled for each time that it expired.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_nanos(self.timeout_ns.saturating_mul(1 << self.backoff).min(self.max_ns))
    }

    /// Notes that the timeout expired (section 5.5).
    pub(crate) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(BACKOFF_MAX);
    }

    /// Notes that new data was acknowledged.
    pub(crate) fn progress(&mut self) {
        self.backoff = 0;
    }

    /// Returns the smoothed round trip, or `None` before the first sample.
    pub(crate) fn smoothed(&self) -> Option<Duration> {
        (self.smoothed_ns != 0).then(|| Duration::from_nanos(self.smoothed_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn rtt() -> Rtt {
        Rtt::new(1000 * MS, 200 * MS, 60_000 * MS)
    }

    #[test]
    fn follows_rfc_6298() {
        let mut rtt = rtt();
        assert_eq!(rtt.timeout(), 1000 * MS);
        rtt.sample(400 * MS);
        assert_eq!((rtt.smoothed(), rtt.timeout()), (Some(400 * MS), 1200 * MS));
        rtt.sample(800 * MS);
        // SRTT = 7/8 · 400 + 1/8 · 800, RTTVAR = 3/4 · 200 + 1/4 · 400.
        assert_eq!((rtt.smoothed(), rtt.timeout()), (Some(450 * MS), 1450 * MS));
    }

    #[test]
    fn stays_in_its_bounds_and_doubles() {
        let mut rtt = rtt();
        for _ in 0..100 {
            rtt.sample(MS);
        }
        assert_eq!(rtt.timeout(), 200 * MS);
        for doublings in 1..20 {
            rtt.back_off();
            assert_eq!(rtt.timeout(), (200 * MS * (1 << doublings)).min(60_000 * MS));
        }
        rtt.progress();
        assert_eq!(rtt.timeout(), 200 * MS);
        rtt.sample(Duration::MAX);
        assert!(rtt.timeout() <= 60_000 * MS);
    }
}
