//! The number of connections that a copy over SFTP benefits from, each of which costs a login.
//!
//! A login takes round trips, and processor time of both ends that the copy could use, so connections are added only while
//! the last ones raised the rate, and only if the content that is left takes so much longer than their logins that a part of
//! the expected gain remains. On a long path a window of ssh bounds the rate of one connection, so the second one begins
//! before any measurement if the content takes longer even at that rate.
//!
//! Guarantees: the number never exceeds the maximum; nothing but that second one is added before the rate of the existing ones
//! was measured; only the caller's clock is used.

use std::time::{Duration, Instant};

/// The interval between two looks at the rate.
const LOOK: Duration = Duration::from_millis(20);
/// Connections reach their rate in this many round trips, and are then measured for as many.
const PERIOD_TRIPS: u32 = 8;
/// The minimum of the same time: the processors' other work evens out in it.
const PERIOD_MIN: Duration = Duration::from_millis(200);
/// The expected gain must be this many times the time that the logins take.
const GAIN_PER_COST: f64 = 2.0;
/// The share of the ideal gain that the last connections must have brought to justify another.
const SHARE_MIN: f64 = 0.4;
/// The share from which their number is doubled.
const SHARE_TO_DOUBLE: f64 = 0.75;
/// The second connection begins at once if the content takes one connection at least this many times a login's time: the
/// copy then ends at least half a login's time earlier, as that login mostly waits on a long path.
const LOGINS_TO_BEGIN: f64 = 2.0;

/// The number of connections of one copy.
#[derive(Clone, Debug)]
pub(super) struct Adding {
    count: u16,
    most: u16,
    period: Duration,
    /// The wall time of a login.
    login: Duration,
    /// The bytes per second that one connection cannot exceed, if its path sets a bound.
    bound: Option<f64>,
    /// The last ones that were added, and the bytes per second before.
    last: Option<(u16, f64)>,
    stage: Stage,
}

#[derive(Clone, Copy, Debug)]
enum Stage {
    /// Connections are reaching their rate.
    Settling(Instant),
    Measuring(Instant, u64),
    /// The second connection logs in since this time, while the first one is measured.
    Beginning(Instant, u64),
    Over,
}

impl Adding {
    /// Returns the state of a copy that begins with one connection. The path carries at most `window` bytes of one connection
    /// in a round trip; `None` if something else limits it.
    pub(super) fn new(
        now: Instant,
        most: u16,
        round_trip: Duration,
        login: Duration,
        window: Option<u64>,
    ) -> Self {
        let period = (round_trip * PERIOD_TRIPS).max(PERIOD_MIN);
        let stage = if most > 1 { Stage::Settling(now + period) } else { Stage::Over };
        let seconds = round_trip.as_secs_f64();
        let bound = window.filter(|_| seconds > 0.0).map(|window| window as f64 / seconds);
        Self { count: 1, most, period, login, bound, last: None, stage }
    }

    /// Returns the number of connections.
    pub(super) fn count(&self) -> u16 {
        self.count
    }

    /// Returns the time to the next look; `None` if the number is final.
    pub(super) fn next_look(&self) -> Option<Duration> {
        (!matches!(self.stage, Stage::Over)).then_some(LOOK)
    }

    /// Ends the adding: a login was refused.
    pub(super) fn refused(&mut self) {
        self.stage = Stage::Over;
    }

    /// Records that the connections exist that [`Self::look`] wanted; `moved` bytes have arrived so far.
    pub(super) fn came(&mut self, now: Instant, moved: u64) {
        if let Stage::Beginning(since, before) = self.stage {
            self.last = rate(since, before, now, moved).map(|rate| (1, rate));
        }
        self.stage = Stage::Settling(now + self.period);
    }

    /// Returns whether the content that is left takes one connection so long, at the most that it can carry, that the second
    /// one begins before the first one is measured.
    fn must_begin(&self, left: u64) -> bool {
        let is_first = self.count == 1 && self.last.is_none();
        is_first
            && self
                .bound
                .is_some_and(|bound| left as f64 / bound >= LOGINS_TO_BEGIN * self.login.as_secs_f64())
    }

    /// Returns whether the content that is left takes so long at this rate that some more connections are worth their logins.
    fn is_worth(&self, more: u16, rate: f64, left: u64) -> bool {
        let (more, count) = (f64::from(more), f64::from(self.count));
        let gain_seconds = left as f64 / rate * more / (count + more);
        gain_seconds >= GAIN_PER_COST * more * self.login.as_secs_f64()
    }

    /// Looks at the content that has arrived so far and the part known to be left, in bytes. Returns the number of
    /// connections to add now.
    pub(super) fn look(&mut self, now: Instant, moved: u64, left: u64) -> u16 {
        match self.stage {
            Stage::Settling(_) | Stage::Measuring(..) if self.must_begin(left) => {
                self.stage = Stage::Beginning(now, moved);
                self.count += 1;
                return 1;
            }
            Stage::Settling(until) if now >= until => self.stage = Stage::Measuring(now, moved),
            Stage::Measuring(since, before) if now >= since + self.period => {
                let rate = rate(since, before, now, moved);
                // The scan may find more, and the rate may fall.
                self.stage = Stage::Measuring(now, moved);
                if let Some(rate) = rate {
                    return self.decide(rate, left);
                }
            }
            Stage::Settling(_) | Stage::Measuring(..) | Stage::Beginning(..) | Stage::Over => {}
        }
        0
    }

    fn decide(&mut self, rate: f64, left: u64) -> u16 {
        let mut more = 1;
        if let Some((added, rate_before)) = self.last {
            let ideal = f64::from(added) / f64::from(self.count - added);
            let share = (rate / rate_before - 1.0) / ideal;
            if share < SHARE_MIN {
                self.stage = Stage::Over;
                return 0;
            }
            if share >= SHARE_TO_DOUBLE {
                more = self.count;
            }
        }
        more = more.min(self.most - self.count);
        while more > 0 && !self.is_worth(more, rate, left) {
            more /= 2;
        }
        if more > 0 {
            self.last = Some((more, rate));
            self.count += more;
        } else if self.count == self.most {
            self.stage = Stage::Over;
        }
        more
    }
}

/// Returns the bytes per second of a time in which some arrived; `None` if none did.
fn rate(since: Instant, before: u64, now: Instant, moved: u64) -> Option<f64> {
    let bytes = moved.saturating_sub(before);
    (bytes > 0 && now > since).then(|| bytes as f64 / (now - since).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path under a virtual clock: the rate of each connection, the most that the ends carry together, and a login's time.
    struct Path {
        round_trip: Duration,
        each: f64,
        ends: f64,
        login: Duration,
        window: Option<u64>,
    }

    const LOGIN: Duration = Duration::from_millis(400);
    const FAST: Path =
        Path { round_trip: Duration::from_millis(100), each: 2e7, ends: 1e10, login: LOGIN, window: None };

    /// Returns the number of connections at the end of a copy of so many bytes, and the time that it takes in seconds.
    fn copied(path: &Path, bytes: u64, most: u16) -> (u16, f64) {
        let began = Instant::now();
        let mut now = began;
        let mut adding = Adding::new(now, most, path.round_trip, path.login, path.window);
        let mut moved = 0;
        let mut carried = 1;
        while moved < bytes {
            if adding.next_look().is_some() && adding.look(now, moved, bytes - moved) > 0 {
                // The existing ones go on meanwhile, beside the logins' work.
                let logins = path.login * u32::from(adding.count() - carried);
                moved +=
                    ((path.each * f64::from(carried)).min(path.ends) * logins.as_secs_f64() / 2.0) as u64;
                now += logins;
                carried = adding.count();
                adding.came(now, moved);
            }
            now += LOOK;
            moved += ((path.each * f64::from(carried)).min(path.ends) * LOOK.as_secs_f64()) as u64;
        }
        (carried, (now - began).as_secs_f64())
    }

    #[test]
    fn connections_are_added_while_they_raise_the_rate() {
        assert_eq!(copied(&FAST, 64 << 30, 16).0, 16);
        // The ends are the limit from the third on.
        assert!(copied(&Path { ends: 4.5e7, ..FAST }, 64 << 30, 16).0 <= 4);
        assert_eq!(copied(&Path { ends: 2e7, ..FAST }, 64 << 30, 16).0, 2, "one attempt shows it");
    }

    #[test]
    fn the_second_connection_begins_at_once_where_a_window_is_the_limit() {
        // 2 MB in 100 ms are what each connection carries.
        let path = Path { window: Some(2_000_000), ..FAST };
        let at_once = |bytes| {
            let now = Instant::now();
            let mut adding = Adding::new(now, 16, path.round_trip, path.login, path.window);
            adding.look(now + LOOK, 0, bytes)
        };
        assert_eq!(at_once(15 << 20), 0);
        assert_eq!(at_once(17 << 20), 1);
        let (count, seconds) = copied(&path, 256 << 20, 16);
        let (_, later) = copied(&FAST, 256 << 20, 16);
        assert!(count >= 2 && seconds + 0.5 < later, "{count}: {seconds} s, {later} s after a measurement");
        // A login takes some of the rate beside which it is compared, so that one attempt more is made here.
        assert!(copied(&Path { ends: 2e7, ..path }, 64 << 30, 16).0 <= 4);
    }

    #[test]
    fn a_login_s_cost_counts() {
        for mebibytes in [1, 16, 64, 256, 1024, 8192] {
            let bytes = mebibytes << 20;
            for login in [100, 400, 2000].map(Duration::from_millis) {
                for ends in [2e7, 4e7, 1e10] {
                    let path = Path { login, ends, ..FAST };
                    let (_, alone) = copied(&path, bytes, 1);
                    let (count, seconds) = copied(&path, bytes, 16);
                    let lost = login.as_secs_f64() + 0.1;
                    assert!(
                        seconds <= alone + lost,
                        "{mebibytes} {login:?} {ends}: {count} in {seconds}, {alone}"
                    );
                }
            }
        }
        assert_eq!(copied(&FAST, 32 << 20, 16).0, 1);
        assert!(copied(&FAST, 256 << 20, 16).0 >= 2);
    }

    #[test]
    fn refused_connections_are_not_tried_again() {
        let now = Instant::now();
        let mut adding = Adding::new(now, 16, Duration::ZERO, LOGIN, None);
        adding.refused();
        assert_eq!(adding.next_look(), None);
        assert_eq!(adding.look(now + Duration::from_secs(9), 1 << 30, 1 << 40), 0);
        assert_eq!(Adding::new(now, 1, Duration::ZERO, LOGIN, None).next_look(), None);
    }
}
