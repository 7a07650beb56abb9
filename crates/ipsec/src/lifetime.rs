//! Lifetimes of associations (RFC 4301, section 4.4.2.1) in bytes, packets and seconds. At a soft limit a successor
//! is requested; after a hard limit nothing is protected or accepted any more.
//!
//! Guarantees: counting takes no lock; once a limit is passed, every later query reports it.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// One set of limits. `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of payload.
    pub bytes: Option<u64>,
    /// The number of packets carried.
    pub packets: Option<u64>,
    /// The time since the association was installed.
    pub age: Option<Duration>,
}

/// Soft and hard limits of an association.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lifetime {
    /// A successor is negotiated after these.
    pub soft: Limits,
    /// The association ends after these.
    pub hard: Limits,
}

/// The stage of an association's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Age {
    /// No limit is passed.
    Young,
    /// A soft limit is passed.
    Soft,
    /// A hard limit is passed.
    Hard,
}

/// The counts of packets and bytes that an association has carried.
#[derive(Debug, Default)]
pub struct Carried {
    bytes: AtomicU64,
    packets: AtomicU64,
}

impl Carried {
    /// Counts a batch.
    pub fn add(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Returns the number of bytes carried.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Returns the number of packets carried.
    pub fn packets(&self) -> u64 {
        self.packets.load(Relaxed)
    }
}

impl Limits {
    fn passed(&self, carried: &Carried, age: Duration) -> bool {
        self.bytes.is_some_and(|limit| carried.bytes() >= limit)
            || self.packets.is_some_and(|limit| carried.packets() >= limit)
            || self.age.is_some_and(|limit| age >= limit)
    }
}

impl Lifetime {
    /// Returns the stage of an association that has carried `carried` and was installed `age` ago.
    pub fn age(&self, carried: &Carried, age: Duration) -> Age {
        if self.hard.passed(carried, age) {
            Age::Hard
        } else if self.soft.passed(carried, age) {
            Age::Soft
        } else {
            Age::Young
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_counts_alone() {
        let limits = |bytes, packets, seconds: Option<u64>| Limits {
            bytes,
            packets,
            age: seconds.map(Duration::from_secs),
        };
        let lifetime = Lifetime {
            soft: limits(Some(1000), Some(10), Some(60)),
            hard: limits(Some(2000), None, Some(90)),
        };
        let at = |packets, bytes, seconds| {
            let carried = Carried::default();
            carried.add(packets, bytes);
            lifetime.age(&carried, Duration::from_secs(seconds))
        };
        assert_eq!(at(9, 999, 59), Age::Young);
        assert_eq!(at(10, 0, 0), Age::Soft);
        assert_eq!(at(0, 1000, 0), Age::Soft);
        assert_eq!(at(0, 0, 60), Age::Soft);
        assert_eq!(at(1_000_000, 1999, 89), Age::Soft);
        assert_eq!(at(0, 2000, 0), Age::Hard);
        assert_eq!(at(0, 0, 90), Age::Hard);
        let unlimited = Lifetime::default();
        assert_eq!(unlimited.age(&Carried::default(), Duration::MAX), Age::Young);
    }
}
