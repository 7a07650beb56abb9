//! How many connections a path is worth.
//!
//! One connection carries no more than its buffers hold in a round trip, and less where packets are lost; and each one
//! costs something, at the least a place in both ends' loops. So a long path gets some at once. After that, on a path that is long or
//! loses packets, their number is doubled for as long as the doubling before has brought more. A short path that
//! loses nothing keeps the number that it began with.
//!
//! Guarantees: never fewer than at first or more than the most; nothing is added for what is left when that will have
//! gone before a connection could have carried its share; no clock but the caller's.

use std::time::{Duration, Instant};

/// From this round trip on a connection is bound by its buffers and not by processors.
pub(crate) const LONG_PATH: Duration = Duration::from_millis(5);
/// What a long path gets at once.
const LONG_PATH_CONNECTIONS: u16 = 8;
/// What there must be left to carry for each connection of a long path.
const SHARE_BYTES: u64 = 1 << 20;
/// What one carries in a round trip at most, as far as nothing has been measured: the window of a channel of ssh.
const TRIP_BYTES: f64 = (2 << 20) as f64;
/// So much more must have come of a doubling for another.
const GAIN: f64 = 1.2;
/// Losses since the last look by which a short path counts as one that loses packets.
const LOSSES_MIN: u64 = 16;
/// How often a path is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// Connections reach their rate in so many round trips, and are then measured for as many.
const SETTLING_TRIPS: u32 = 6;
/// The same on paths whose round trips are over in no time.
const SETTLING_MIN: Duration = Duration::from_millis(100);

/// What a look sees, in totals since the beginning.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sight {
    /// Content that has arrived, in bytes.
    pub(crate) moved: u64,
    /// Content that is known to be left, in bytes.
    pub(crate) left: u64,
    /// Packets that the kernel knows to have been lost.
    pub(crate) losses: u64,
}

/// The number of connections of one transfer.
#[derive(Clone, Debug)]
pub(crate) struct Growth {
    wanted: u16,
    most: u16,
    round_trip: Duration,
    is_long: bool,
    /// How long connections take to reach their rate, and how long that is then measured.
    period: Duration,
    /// What one more costs, from its beginning to its first byte.
    cost: Duration,
    stage: Stage,
    /// Bytes a second before the last doubling.
    rate_before: f64,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Nothing speaks for more so far.
    Watching,
    /// Connections that were added come up to their rate.
    Settling(Instant),
    Measuring(Instant, u64),
    Over,
}

impl Growth {
    /// Of a path with this round trip, on which a connection takes `cost` to come into being.
    pub(crate) fn new(first: u16, most: u16, round_trip: Duration, cost: Duration) -> Self {
        let period = (round_trip * SETTLING_TRIPS).max(SETTLING_MIN);
        let is_long = round_trip >= LONG_PATH;
        let stage = if first < most { Stage::Watching } else { Stage::Over };
        Self { wanted: first, most, round_trip, is_long, period, cost, stage, rate_before: 0.0 }
    }

    /// How many connections there are to be.
    pub(crate) fn wanted(&self) -> u16 {
        self.wanted
    }

    /// Time to the next look; `None` when the number stays as it is.
    pub(crate) fn next_look(&self) -> Option<Duration> {
        (!matches!(self.stage, Stage::Over)).then_some(LOOK)
    }

    /// Some of those that were wanted did not come, so no more will be.
    pub(crate) fn refused(&mut self) {
        self.stage = Stage::Over;
    }

    /// All that were wanted are there.
    pub(crate) fn came(&mut self, now: Instant) {
        if self.wanted == self.most {
            self.stage = Stage::Over;
        }
        if let Stage::Settling(_) = self.stage {
            self.stage = Stage::Settling(now + self.period);
        }
    }

    /// Whether, of a long path of which nothing is known, enough is left for so many connections: more than what is
    /// there carries until they have come.
    fn is_worth(&self, connections: u16, left: u64) -> bool {
        let trips = self.cost.as_secs_f64() / self.round_trip.as_secs_f64();
        let meanwhile = f64::from(self.wanted) * TRIP_BYTES * trips;
        left >= u64::from(connections) * SHARE_BYTES && left as f64 >= meanwhile
    }

    /// Looks at the path. Returns how many connections there are to be.
    pub(crate) fn look(&mut self, now: Instant, sight: Sight) -> u16 {
        match self.stage {
            Stage::Watching if self.is_long => {
                let at_once = LONG_PATH_CONNECTIONS.min(self.most);
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
                // What carries nothing at all is not helped by more of it.
                if rate <= 0.0 || rate < self.rate_before * GAIN {
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

    /// A path under a virtual clock, on which each connection carries so much, and all together no more than `ends`
    /// bytes a second.
    struct Path {
        round_trip: Duration,
        each: f64,
        ends: f64,
        losses: u64,
    }

    /// The number of connections by which a copy of so many bytes ends.
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
    fn a_long_path_gets_what_brings_more() {
        let path = |each, ends| Path { round_trip: Duration::from_millis(100), each, ends, losses: 0 };
        assert_eq!(reached(&path(2e7, 1e10), LARGE, 2, 16), 16);
        assert_eq!(reached(&path(2e7, 1e10), LARGE, 2, 64), 64);
        // Of eight each carries its own; of sixteen the ends would be too slow, which one try shows.
        assert_eq!(reached(&path(2e7, 1.7e8), LARGE, 2, 64), 16);
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
        // What costs a login is not worth it for what two carry meanwhile.
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
