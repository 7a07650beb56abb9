//! Outbound sequence numbers (RFC 4303, section 3.3.3).
//!
//! Guarantees: every number is assigned once, from 1 on, in the order of the calls; the counter never wraps: after
//! the last number, none is assigned. A batch reserves its whole range before the work is distributed, so a nonce
//! made from a number never depends on scheduling.

use std::{
    ops::Range,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

/// The size of an association's sequence numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SequenceBits {
    /// 32 bits, all of them in the packet.
    Short,
    /// 64 bits, of which the high half is implied (RFC 4303, section 2.2.1).
    Extended,
}

impl SequenceBits {
    /// Returns the last number that may be used.
    pub fn last(self) -> u64 {
        match self {
            Self::Short => u64::from(u32::MAX),
            // The end of a range of numbers is one more, and must fit as well.
            Self::Extended => u64::MAX - 1,
        }
    }
}

/// The counter of an outbound association.
#[derive(Debug)]
pub struct Numbers {
    next: AtomicU64,
    /// The last number that may be assigned now.
    limit: AtomicU64,
    last: u64,
}

impl Numbers {
    /// Makes a counter that begins at `first`, but at least at 1. After a restart, an association continues above all
    /// numbers that it may have used.
    pub fn new(bits: SequenceBits, first: u64) -> Self {
        let last = bits.last();
        Self { next: AtomicU64::new(first.max(1)), limit: AtomicU64::new(last), last }
    }

    /// Assigns no number above `limit` from now on; numbers up to it are reserved in storage that outlives the
    /// process.
    pub fn set_limit(&self, limit: u64) {
        self.limit.store(limit.min(self.last), Relaxed);
    }

    /// Returns the number of numbers left.
    pub fn left(&self) -> u64 {
        (self.limit.load(Relaxed) + 1).saturating_sub(self.next())
    }

    /// Returns the next `count` numbers; `None` if fewer are left, so that the association has to be replaced.
    pub fn reserve(&self, count: u64) -> Option<Range<u64>> {
        let limit = self.limit.load(Relaxed);
        let end_of = |first: u64| first.checked_add(count).filter(|&end| end - 1 <= limit);
        // No other memory depends on the counter's order.
        let first = self.next.fetch_update(Relaxed, Relaxed, end_of).ok()?;
        Some(first..first + count)
    }

    /// Returns the next number.
    pub fn next(&self) -> u64 {
        self.next.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_follow_each_other_and_end_with_the_numbers() {
        let numbers = Numbers::new(SequenceBits::Short, 0);
        assert_eq!(numbers.reserve(3), Some(1..4));
        assert_eq!(numbers.reserve(1), Some(4..5));
        let numbers = Numbers::new(SequenceBits::Short, u64::from(u32::MAX) - 1);
        assert_eq!(numbers.reserve(3), None);
        assert_eq!(numbers.reserve(2), Some(0xffff_fffe..0x1_0000_0000));
        assert_eq!(numbers.reserve(1), None);
        let numbers = Numbers::new(SequenceBits::Extended, u64::MAX - 1);
        assert_eq!(numbers.reserve(2), None);
        assert_eq!(numbers.reserve(1), Some(u64::MAX - 1..u64::MAX));
        assert_eq!(numbers.reserve(1), None);
    }

    #[test]
    fn nothing_is_given_beyond_a_limit() {
        let numbers = Numbers::new(SequenceBits::Short, 10);
        numbers.set_limit(12);
        assert_eq!((numbers.left(), numbers.reserve(4)), (3, None));
        assert_eq!((numbers.reserve(3), numbers.left()), (Some(10..13), 0));
        numbers.set_limit(u64::MAX);
        assert_eq!(numbers.left(), u64::from(u32::MAX) - 12);
        assert_eq!(numbers.reserve(1), Some(13..14));
    }

    #[test]
    fn two_lanes_never_get_the_same_number() {
        let numbers = Numbers::new(SequenceBits::Extended, 1);
        let mut ranges: Vec<Range<u64>> = std::thread::scope(|scope| {
            let lane = |count: u64| {
                let numbers = &numbers;
                scope.spawn(move || (0..500).filter_map(|_| numbers.reserve(count)).collect::<Vec<_>>())
            };
            let lanes = [lane(1), lane(7)];
            lanes.into_iter().flat_map(|lane| lane.join().expect("a lane does not panic")).collect()
        });
        ranges.sort_by_key(|range| range.start);
        assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
        assert_eq!(numbers.next(), 1 + 500 * 8);
    }
}
