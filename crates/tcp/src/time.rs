//! Time as the caller provides it: nanoseconds since an instant of the caller's choice. This crate reads no clock.

use core::ops::Add;
use core::time::Duration;

/// An instant, in nanoseconds since the caller's own zero. The range is 584 years.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(u64);

impl Time {
    /// The caller's zero.
    pub const ZERO: Self = Self(0);

    /// Returns the instant `ns` nanoseconds after zero.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Nanoseconds since zero.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Returns the milliseconds since zero, modulo 2³²: the tick of RFC 7323's timestamps.
    pub const fn as_ms_wrapping(self) -> u32 {
        (self.0 / 1_000_000) as u32
    }

    /// Returns the time from `earlier` to this instant, or zero if this is not later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        let ns = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        Self(self.0.saturating_add(ns))
    }
}
