//! Sequence numbers: 32 bits that wrap (RFC 9293, section 3.4). They have no total order, hence no `Ord`: of two
//! numbers, the earlier is the one that is less than 2³¹ behind the other.

use crate::Time;
use core::fmt;
use core::ops::{Add, AddAssign};

/// A number in TCP's sequence space.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Seq(pub u32);

impl Seq {
    /// Returns an initial sequence number after RFC 6528: a clock that ticks every 4 µs, plus `keyed_hash`, which the
    /// caller computes over both addresses and ports with a secret of its own.
    pub const fn initial(now: Time, keyed_hash: u32) -> Self {
        Self(((now.as_ns() / 4_000) as u32).wrapping_add(keyed_hash))
    }

    /// Returns the distance from `earlier` to this number in bytes, modulo 2³².
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// Returns whether this comes before `other`.
    pub const fn is_before(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Returns whether this comes before `other` or equals it.
    pub const fn is_at_most(self, other: Self) -> bool {
        !other.is_before(self)
    }

    /// Returns whether this lies in `from..to`.
    pub const fn is_within(self, from: Self, to: Self) -> bool {
        self.since(from) < to.since(from)
    }

    /// Returns the later of two.
    pub const fn later(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }

    /// Returns the earlier of two.
    pub const fn earlier(self, other: Self) -> Self {
        if self.is_before(other) { self } else { other }
    }

    /// Returns the number `bytes` before this one.
    pub const fn minus(self, bytes: u32) -> Self {
        Self(self.0.wrapping_sub(bytes))
    }
}

impl Add<u32> for Seq {
    type Output = Self;

    fn add(self, bytes: u32) -> Self {
        Self(self.0.wrapping_add(bytes))
    }
}

impl AddAssign<u32> for Seq {
    fn add_assign(&mut self, bytes: u32) {
        *self = *self + bytes;
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_survives_the_wrap() {
        for base in [0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
            let here = Seq(base);
            assert!(here.is_before(here + 1) && !(here + 1).is_before(here) && !here.is_before(here));
            assert!(here.is_at_most(here) && (here + 0x7fff_ffff).since(here) == 0x7fff_ffff);
            assert_eq!(here.later(here + 5), here + 5);
            assert_eq!(here.earlier(here + 5), here);
            assert!(here.is_within(here, here + 1) && !(here + 1).is_within(here, here + 1));
            assert!(!here.is_within(here, here));
            assert_eq!((here + 7).minus(7), here);
        }
    }

    #[test]
    fn initial_numbers_tick_every_four_microseconds() {
        let first = Seq::initial(Time::from_ns(0), 99);
        assert_eq!(first, Seq(99));
        assert_eq!(Seq::initial(Time::from_ns(8_000), 99).since(first), 2);
    }
}
