//! The limit on a stream's content in flight.
//!
//! Data beyond the capacity of the path waits in the receiver's socket, and after many megabytes of waiting it has
//! left the caches when it is read. So a window is twice the capacity of the path (the amount delivered in the
//! shortest flight time), plus an allowance for pauses of the receiver. If the window limits the path, flights are as
//! short as possible and deliver a full window each: the window then more than doubles.
//!
//! Guarantees: the window is never below its minimum or above its maximum; only the caller's clock is used.

use std::time::{Duration, Instant};

/// The window of one stream.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// The minimum, for all streams together.
    least: u64,
    most: u64,
    /// Streams that share it.
    sharers: u64,
    bytes: u64,
    /// The content delivered since the stream was opened.
    delivered: u64,
    shortest: Duration,
}

/// The time when a batch was sent, and the content delivered by then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Departure {
    at: Instant,
    delivered: u64,
}

impl Window {
    /// Returns the window of a stream on an unmeasured path: a near receiver answers before much is in flight, and a
    /// far one is not kept waiting. Sizes are in bytes, for all streams together.
    pub(crate) fn new(least: u64, most: u64) -> Self {
        Self { least, most, sharers: 1, bytes: most, delivered: 0, shortest: Duration::MAX }
    }

    /// Sets the number of streams that share the permitted bytes in flight.
    pub(crate) fn share(&mut self, sharers: u16) {
        self.sharers = u64::from(sharers.max(1));
        self.bytes = self.bytes.min(self.most / self.sharers);
    }

    /// Resets the window: another connection may take another path.
    pub(crate) fn begin_anew(&mut self) {
        let sharers = self.sharers;
        *self = Self { sharers, bytes: self.most / sharers, ..Self::new(self.least, self.most) };
    }

    /// Returns the permitted number of bytes in flight.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// A batch leaves.
    pub(crate) fn departure(&self, now: Instant) -> Departure {
        Departure { at: now, delivered: self.delivered }
    }

    /// Records that the receiver has a batch with this many bytes of content.
    pub(crate) fn delivered(&mut self, departure: Departure, bytes: u64, now: Instant) {
        self.delivered += bytes;
        let flight = now.saturating_duration_since(departure.at).max(Duration::from_nanos(1));
        self.shortest = self.shortest.min(flight);
        let meanwhile = u128::from(self.delivered - departure.delivered);
        let taken = meanwhile * self.shortest.as_nanos() / flight.as_nanos();
        let taken = u64::try_from(taken).unwrap_or(u64::MAX);
        let (least, most) = (self.least / self.sharers, self.most / self.sharers);
        self.bytes = taken.saturating_mul(2).saturating_add(least).min(most);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    const BATCH: u64 = 512 << 10;
    const LEAST: u64 = 4 << 20;
    const MOST: u64 = 64 << 20;

    /// A path under a virtual clock, whose sender always has another batch.
    struct Path {
        now: Instant,
        window: Window,
        in_flight: VecDeque<(Departure, Instant)>,
        /// The time when the receiver has processed everything sent to it.
        free_at: Instant,
    }

    impl Path {
        fn new() -> Self {
            let now = Instant::now();
            Self { now, window: Window::new(LEAST, MOST), in_flight: VecDeque::new(), free_at: now }
        }

        /// Delivers this many batches over a path of this round trip to a receiver of this rate. Returns the rate;
        /// both rates are in bytes per second.
        fn deliver(&mut self, batches: u32, round_trip: Duration, rate: f64) -> f64 {
            let began = self.now;
            for _ in 0..batches {
                while self.in_flight.len() as u64 * BATCH < self.window.bytes() {
                    let arrival = self.now + round_trip / 2;
                    self.free_at = self.free_at.max(arrival) + Duration::from_secs_f64(BATCH as f64 / rate);
                    let departure = self.window.departure(self.now);
                    self.in_flight.push_back((departure, self.free_at + round_trip / 2));
                }
                let (departure, acknowledged) = self.in_flight.pop_front().unwrap();
                self.now = acknowledged;
                self.window.delivered(departure, BATCH, self.now);
            }
            f64::from(batches) * BATCH as f64 / (self.now - began).as_secs_f64()
        }
    }

    #[test]
    fn a_near_receiver_is_not_flooded() {
        let mut path = Path::new();
        let rate = path.deliver(1000, Duration::from_micros(100), 1.5e9);
        assert!(rate > 1.49e9, "{rate}");
        assert!(path.window.bytes() < 8 << 20, "{}", path.window.bytes());
    }

    #[test]
    fn a_far_receiver_is_kept_busy() {
        let (round_trip, rate) = (Duration::from_millis(40), 1.0e9);
        let mut path = Path::new();
        let begun = path.deliver(500, round_trip, rate);
        assert!(begun > 0.8 * rate, "{begun}");
        let reached = path.deliver(1000, round_trip, rate);
        assert!(reached > 0.99 * rate, "{reached}");
    }

    #[test]
    fn a_receiver_that_slows_down_is_not_flooded_for_long() {
        let (round_trip, mut path) = (Duration::from_millis(10), Path::new());
        path.deliver(1000, round_trip, 1.5e9);
        assert!(path.window.bytes() > 20 << 20);
        path.deliver(1000, round_trip, 1.0e8);
        assert!(path.window.bytes() < 8 << 20, "{}", path.window.bytes());
    }

    #[test]
    fn another_connection_learns_anew() {
        let mut path = Path::new();
        path.deliver(1000, Duration::from_micros(100), 1.0e9);
        assert!(path.window.bytes() < 8 << 20);
        path.window.begin_anew();
        assert_eq!(path.window.bytes(), MOST);
    }

    #[test]
    fn streams_share_what_may_be_under_way() {
        let mut path = Path::new();
        path.deliver(1000, Duration::from_millis(40), 1.0e9);
        assert!(path.window.bytes() > 40 << 20);
        path.window.share(4);
        assert!(path.window.bytes() <= MOST / 4);
        path.deliver(1000, Duration::from_millis(40), 1.0e9);
        assert_eq!(path.window.bytes(), MOST / 4);
        path.window.begin_anew();
        assert_eq!(path.window.bytes(), MOST / 4);
    }

    proptest! {
        #[test]
        fn bounds_hold(
            least in any::<u64>(), most in any::<u64>(), flights in proptest::collection::vec((0..u64::MAX >> 8, any::<u32>()), 0..50),
        ) {
            let (mut window, mut now) = (Window::new(least, most), Instant::now());
            for (bytes, nanoseconds) in flights {
                let departure = window.departure(now);
                now += Duration::from_nanos(nanoseconds.into());
                window.delivered(departure, bytes, now);
                prop_assert!(window.bytes() <= most && window.bytes() >= least.min(most));
            }
        }
    }
}
