//! The number of connections that a path benefits from.
//!
//! One connection carries at most its buffers per round trip, and less if packets are lost; each connection has a
//! cost, at the least a place in both ends' loops. So a long path gets several at once. After that, on a path that is
//! long or loses packets, their number is doubled as long as the previous doubling raised the rate. A short path
//! without losses keeps its first number.
//!
//! Guarantees: the number is never lower than at first and never above the maximum; no connection is added if the
//! remaining content will be sent before it could have carried its share; only the caller's clock is used.

use std::time::{Duration, Instant};

/// From this round trip on, a connection is limited by its buffers and not by processors.
pub(crate) const LONG_PATH: Duration = Duration::from_millis(5);
/// The maximum number of connections that a long path gets at once.
const LONG_PATH_CONNECTIONS: u16 = 8;
/// The rate for which a long path gets connections at once: more than the processors of small machines seal for ssh.
const BYTES_PER_SECOND_AT_ONCE: f64 = 800e6;
/// The content that must be left per connection of a long path.
const SHARE_BYTES: u64 = 1 << 20;
/// The maximum that one connection carries per round trip before anything has been measured: the window of an ssh
/// channel.
const TRIP_BYTES: f64 = (2 << 20) as f64;
/// The rate from which it is processors that keep connections from filling half of their windows, and not the path.
const PROCESSORS_BYTES_PER_SECOND: f64 = 100e6;
/// The factor by which a doubling must have raised the rate to justify another.
const GAIN: f64 = 1.2;
/// The number of losses since the last look from which a short path counts as lossy.
const LOSSES_MIN: u64 = 16;
/// The interval between two looks at a path.
const LOOK: Duration = Duration::from_millis(20);
/// Connections reach their rate in this many round trips, and are then measured for as many.
const SETTLING_TRIPS: u32 = 6;
/// The minimum of the same time on paths with very short round trips.
const SETTLING_MIN: Duration = Duration::from_millis(100);

/// The totals since the beginning, as of one look.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sight {
    /// Content that has arrived, in bytes.
    pub(crate) moved: u64,
    /// The content known to be left, in bytes.
    pub(crate) left: u64,
    /// Packets that the kernel counts as lost.
    pub(crate) losses: u64,
}

/// The number of connections of one transfer.
#[derive(Clone, Debug)]
pub(crate) struct Growth {
    wanted: u16,
    most: u16,
    round_trip: Duration,
    is_long: bool,
    /// The time in which connections reach their rate, and the time for which the rate is then measured.
    period: Duration,
    /// The time from a new connection's start to its first byte.
    cost: Duration,
    stage: Stage,
    /// Bytes per second before the last doubling.
    rate_before: f64,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// There is no reason for more connections so far.
    Watching,
    /// Added connections are reaching their rate.
    Settling(Instant),
    Measuring(Instant, u64),
    Over,
}

impl Growth {
    /// Returns the growth for a path with this round trip, on which a new connection takes `cost` to set up.
    pub(crate) fn new(first: u16, most: u16, round_trip: Duration, cost: Duration) -> Self {
        let period = (round_trip * SETTLING_TRIPS).max(SETTLING_MIN);
        let is_long = round_trip >= LONG_PATH;
        let stage = if first < most { Stage::Watching } else { Stage::Over };
        Self { wanted: first, most, round_trip, is_long, period, cost, stage, rate_before: 0.0 }
    }

    /// Returns the wanted number of connections.
    pub(crate) fn wanted(&self) -> u16 {
        self.wanted
    }

    /// Returns the time to the next look; `None` if the number is final.
    pub(crate) fn next_look(&self) -> Option<Duration> {
        (!matches!(self.stage, Stage::Over)).then_some(LOOK)
    }

    /// Ends the growth: some of the wanted connections were refused.
    pub(crate) fn refused(&mut self) {
        self.stage = Stage::Over;
    }

    /// Records that all wanted connections exist.
    pub(crate) fn came(&mut self, now: Instant) {
        if self.wanted == self.most {
            self.stage = Stage::Over;
        }
        if let Stage::Settling(_) = self.stage {
            self.stage = Stage::Settling(now + self.period);
        }
    }

    /// Returns whether a long path that has not been measured has enough left for so many connections: more than the
    /// existing ones carry while the new ones are set up.
    fn is_worth(&self, connections: u16, left: u64) -> bool {
        let trips = self.cost.as_secs_f64() / self.round_trip.as_secs_f64();
        let meanwhile = f64::from(self.wanted) * TRIP_BYTES * trips;
        left >= u64::from(connections) * SHARE_BYTES && left as f64 >= meanwhile
    }

    /// Returns the number of connections that a long path gets at once: as many as can carry together what processors seal,
    /// if each carries a window per round trip.
    fn at_once(&self) -> u16 {
        let needed = BYTES_PER_SECOND_AT_ONCE * self.round_trip.as_secs_f64() / TRIP_BYTES;
        (needed.ceil() as u16).clamp(2, LONG_PATH_CONNECTIONS).min(self.most)
    }

    /// Returns whether processors are the limit at this rate: connections leave half of their windows empty although the
    /// path is fast.
    fn is_bound_by_processors(&self, rate: f64) -> bool {
        let windows = f64::from(self.wanted) * TRIP_BYTES / self.round_trip.as_secs_f64();
        self.is_long && rate >= PROCESSORS_BYTES_PER_SECOND && rate < windows / 2.0
    }

    /// Looks at the path. Returns the wanted number of connections.
    pub(crate) fn look(&mut self, now: Instant, sight: Sight) -> u16 {
        match self.stage {
            Stage::Watching if self.is_long => {
                let at_once = self.at_once();
                if self.wanted >= at_once {
                    self.stage = Stage::Settling(now + self.period);
                } else if self.is_worth(at_once, sight.left) {
                    self.wanted = at_once;
                    self.stage = Stage::Settling(now + self.period);
                }
            }
            Stage::Watching if sight.losses >= LOSSES_MIN => self.stage = Stage::Settling(now),
            Stage::Settling(until) if now >= until => self.stage = Stage::Measuring(now, sight.moved),
            Stage::Measuring(since, moved) if now >= since + self.period => {
                let rate = sight.moved.saturating_sub(moved) as f64 / (now - since).as_secs_f64();
                // More connections do not help a path that carries nothing at all.
                if rate <= 0.0 || rate < self.rate_before * GAIN || self.is_bound_by_processors(rate) {
                    self.stage = Stage::Over;
                } else if sight.left as f64 > rate * (2 * self.cost + 2 * self.period).as_secs_f64() {
                    self.rate_before = rate;
                    self.wanted = self.wanted.saturating_mul(2).min(self.most);
                    self.stage = Stage::Settling(now + self.period);
                } else {
                    // The scan may find more.
                    self.stage = Stage::Measuring(now, sight.moved);
                }
            }
            Stage::Watching | Stage::Settling(_) | Stage::Measuring(..) | Stage::Over => {}
        }
        self.wanted
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A path under a virtual clock, with a rate per connection and, for all together, at most `ends` bytes per
    /// second.
    struct Path {
        round_trip: Duration,
        each: f64,
        ends: f64,
        losses: u64,
    }

    /// Returns the number of connections at the end of a copy of so many bytes.
    fn reached(path: &Path, bytes: u64, first: u16, most: u16) -> u16 {
        let mut now = Instant::now();
        let mut growth = Growth::new(first, most, path.round_trip, path.round_trip * 2);
        let (mut moved, mut losses) = (0, 0);
        while moved < bytes && growth.next_look().is_some() {
            let sight = Sight { moved, left: bytes - moved, losses };
            let before = growth.wanted();
            if growth.look(now, sight) > before {
                now += path.round_trip * 2;
                growth.came(now);
            }
            let rate = (path.each * f64::from(growth.wanted())).min(path.ends);
            now += LOOK;
            moved += (rate * LOOK.as_secs_f64()) as u64;
            losses += path.losses;
        }
        growth.wanted()
    }

    const LARGE: u64 = 64 << 30;

    #[test]
    fn a_short_path_without_loss_keeps_its_number() {
        let path = Path { round_trip: Duration::from_micros(100), each: 1e9, ends: 1.5e9, losses: 0 };
        assert_eq!(reached(&path, LARGE, 2, 16), 2);
    }

    #[test]
    fn a_longer_path_gets_more_connections_at_once() {
        let at_once = |ms| Growth::new(1, 16, Duration::from_millis(ms), Duration::ZERO).at_once();
        assert_eq!([5, 10, 20, 100].map(at_once), [2, 4, 8, 8]);
    }

    #[test]
    fn a_long_path_gets_what_brings_more() {
        let path = |each, ends| Path { round_trip: Duration::from_millis(100), each, ends, losses: 0 };
        assert_eq!(reached(&path(2e7, 1e10), LARGE, 2, 16), 16);
        assert_eq!(reached(&path(2e7, 1e10), LARGE, 2, 64), 64);
        // Each of eight connections carries its full rate; with sixteen the ends are the limit, which one attempt
        // shows.
        assert_eq!(reached(&path(2e7, 1.7e8), LARGE, 2, 64), 16);
        // On a shorter path four connections fill no half of their windows, because the ends are the limit.
        let shorter = Path { round_trip: Duration::from_millis(10), each: 2e8, ends: 3e8, losses: 0 };
        assert_eq!(reached(&shorter, LARGE, 1, 64), 4);
        // The ends are too slow for eight already.
        assert_eq!(reached(&path(2e7, 1e8), LARGE, 2, 64), 16);
    }

    #[test]
    fn a_short_path_that_loses_packets_tries_more() {
        let path = |ends| Path { round_trip: Duration::from_micros(100), each: 1e8, ends, losses: 5 };
        assert_eq!(reached(&path(1e10), LARGE, 2, 16), 16);
        assert_eq!(reached(&path(1e8), LARGE, 2, 16), 4);
    }

    #[test]
    fn little_is_left_to_what_is_there() {
        let path = Path { round_trip: Duration::from_millis(100), each: 2e7, ends: 1e10, losses: 0 };
        assert_eq!(reached(&path, 7 << 20, 2, 16), 2);
        // A connection that costs a login is not worth it for content that two carry meanwhile.
        let mut growth = Growth::new(2, 16, path.round_trip, path.round_trip * 10);
        let mut look =
            |mebibytes: u64| growth.look(Instant::now(), Sight { left: mebibytes << 20, ..Sight::default() });
        assert_eq!((look(30), look(50)), (2, 8));
        assert_eq!(reached(&path, 100 << 20, 2, 16), 8);
    }

    #[test]
    fn refused_connections_are_not_tried_again() {
        let mut growth = Growth::new(2, 16, Duration::from_millis(100), Duration::ZERO);
        let now = Instant::now();
        assert_eq!(growth.look(now, Sight { left: LARGE, ..Sight::default() }), 8);
        growth.refused();
        assert_eq!(growth.next_look(), None);
        assert_eq!(growth.look(now + Duration::from_secs(9), Sight { left: LARGE, ..Sight::default() }), 8);
    }

    proptest! {
        #[test]
        fn bounds_hold(
            first in 1..64_u16, more in 0..64_u16, round_trip in 0..1000_u64,
            looks in proptest::collection::vec((0..10_000_u64, any::<u32>(), any::<u32>(), any::<u16>()), 0..60),
        ) {
            let most = first + more;
            let mut growth = Growth::new(first, most, Duration::from_millis(round_trip), Duration::ZERO);
            let (mut now, mut moved) = (Instant::now(), 0);
            for (milliseconds, bytes, left, losses) in looks {
                now += Duration::from_millis(milliseconds);
                moved += u64::from(bytes);
                let sight = Sight { moved, left: left.into(), losses: losses.into() };
                let before = growth.wanted();
                let wanted = growth.look(now, sight);
                prop_assert!(before <= wanted && (first..=most).contains(&wanted));
                growth.came(now);
            }
        }
    }
}
