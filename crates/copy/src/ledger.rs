//! The set of bytes of a file that have arrived.
//!
//! Guarantees: the ranges of a ledger are disjoint, never touch each other, and lie within the file; no byte is
//! counted twice, however often and in whatever order it arrives. A ledger holds at most [`MAX_RANGES`] ranges, so a
//! peer that sends every second byte gets an error and cannot exhaust memory.

use std::collections::BTreeMap;
use std::ops::Range;

/// The most fragments one ledger keeps.
///
/// A well-behaved sender leaves about one gap per range in flight on a stream: hundreds.
const MAX_RANGES: usize = 65_536;

/// The reason why a range was not added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LedgerError {
    /// The range ends before it starts, or beyond the file.
    #[error("bytes {start}..{end} are not within a file of {size} bytes")]
    OutOfRange {
        /// First byte of the range.
        start: u64,
        /// The byte after its last.
        end: u64,
        /// Bytes of the file.
        size: u64,
    },
    /// The range touches none of the [`MAX_RANGES`] existing ranges.
    #[error("a file arrives in more than {MAX_RANGES} fragments")]
    TooManyRanges,
}

/// A set of bytes of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ledger {
    size: u64,
    covered_bytes: u64,
    /// The start of each range and its end (exclusive).
    ends: BTreeMap<u64, u64>,
}

impl Ledger {
    /// Returns the empty ledger of a file of `size` bytes. An empty file is complete from the start.
    pub(crate) fn new(size: u64) -> Self {
        Self { size, covered_bytes: 0, ends: BTreeMap::new() }
    }

    /// Adds `range` and returns the number of its bytes that were missing before.
    ///
    /// # Errors
    /// Fails for ranges outside the file, and for fragments beyond [`MAX_RANGES`]; the ledger is then unchanged.
    pub(crate) fn add(&mut self, range: Range<u64>) -> Result<u64, LedgerError> {
        let Range { mut start, mut end } = range;
        if start > end || end > self.size {
            return Err(LedgerError::OutOfRange { start, end, size: self.size });
        }
        if start == end {
            return Ok(0);
        }
        if self.ends.len() >= MAX_RANGES && self.last_touching(start, end).is_none() {
            return Err(LedgerError::TooManyRanges);
        }
        let mut known_bytes = 0;
        while let Some((known_start, known_end)) = self.last_touching(start, end) {
            self.ends.remove(&known_start);
            known_bytes += known_end - known_start;
            start = start.min(known_start);
            end = end.max(known_end);
        }
        self.ends.insert(start, end);
        let new_bytes = end - start - known_bytes;
        self.covered_bytes += new_bytes;
        Ok(new_bytes)
    }

    /// Returns the last range that overlaps or touches `start..end`.
    fn last_touching(&self, start: u64, end: u64) -> Option<(u64, u64)> {
        let (&known_start, &known_end) = self.ends.range(..=end).next_back()?;
        (known_end >= start).then_some((known_start, known_end))
    }

    /// Returns whether every byte of the file has arrived.
    pub(crate) fn is_complete(&self) -> bool {
        self.covered_bytes == self.size
    }

    /// Returns whether the byte at an offset has arrived. Takes logarithmic time, however fragmented the file is.
    pub(crate) fn contains(&self, at: u64) -> bool {
        self.last_touching(at, at).is_some_and(|(_, end)| at < end)
    }

    /// Returns whether every byte of a range has arrived.
    pub(crate) fn covers(&self, range: &Range<u64>) -> bool {
        range.is_empty()
            || self.last_touching(range.start, range.start).is_some_and(|(_, end)| range.end <= end)
    }

    /// Returns the number of bytes that have arrived.
    pub(crate) fn covered_bytes(&self) -> u64 {
        self.covered_bytes
    }

    /// Returns the length of the file in bytes.
    #[cfg(test)]
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Returns whether exactly the first `bytes` have arrived, as required of a file that grew while it was read.
    pub(crate) fn is_exactly(&self, bytes: u64) -> bool {
        self.ranges().eq((bytes > 0).then_some(0..bytes))
    }

    /// Returns the number of ranges in the ledger.
    pub(crate) fn range_count(&self) -> usize {
        self.ends.len()
    }

    /// Returns the ranges that have arrived, ascending, as few as possible.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.ends.iter().map(|(&start, &end)| start..end)
    }

    /// Returns the ranges that are missing, ascending, as few as possible.
    pub(crate) fn missing(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        let past_the_end = self.size..self.size;
        self.ranges()
            .chain(std::iter::once(past_the_end))
            .scan(0, |at, range| {
                let gap = *at..range.start;
                *at = range.end;
                Some(gap)
            })
            .filter(|gap| !gap.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the ranges from an obvious model with one flag per byte.
    fn runs(flags: &[bool], wanted: bool) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for (at, _) in flags.iter().enumerate().filter(|&(_, &flag)| flag == wanted) {
            let at = at as u64;
            match runs.last_mut() {
                Some(run) if run.end == at => run.end += 1,
                _ => runs.push(at..at + 1),
            }
        }
        runs
    }

    fn check(ledger: &Ledger, flags: &[bool]) {
        assert_eq!(ledger.ranges().collect::<Vec<_>>(), runs(flags, true));
        assert_eq!(ledger.missing().collect::<Vec<_>>(), runs(flags, false));
        assert_eq!(ledger.covered_bytes(), flags.iter().filter(|&&flag| flag).count() as u64);
        assert_eq!(ledger.is_complete(), flags.iter().all(|&flag| flag));
        assert_eq!(ledger.range_count(), runs(flags, true).len());
        assert_eq!(ledger.size(), flags.len() as u64);
        assert!(flags.iter().enumerate().all(|(at, &flag)| ledger.contains(at as u64) == flag));
        for (start, end) in [(0, flags.len()), (flags.len() / 3, flags.len() / 2), (1, 5), (7, 7)] {
            let expected = flags.get(start..end).is_some_and(|range| range.iter().all(|&flag| flag));
            assert_eq!(ledger.covers(&(start as u64..end as u64)), expected || start == end);
        }
        assert!(!ledger.contains(flags.len() as u64));
    }

    proptest! {
        #[test]
        fn a_ledger_is_a_bitmap(size in 0_usize..200, adds in prop::collection::vec((0_u64..210, 0_u64..40), 0..60)) {
            let mut ledger = Ledger::new(size as u64);
            let mut flags = vec![false; size];
            check(&ledger, &flags);
            for (start, len) in adds {
                let end = start + len;
                let added = ledger.add(start..end);
                if end > size as u64 {
                    prop_assert_eq!(added, Err(LedgerError::OutOfRange { start, end, size: size as u64 }));
                } else {
                    let part = &mut flags[start as usize..end as usize];
                    prop_assert_eq!(added, Ok(part.iter().filter(|&&flag| !flag).count() as u64));
                    part.fill(true);
                }
                check(&ledger, &flags);
            }
        }
    }

    #[test]
    #[expect(clippy::reversed_empty_ranges, reason = "a peer can say so")]
    fn ranges_outside_the_file_are_refused() {
        let mut ledger = Ledger::new(10);
        for range in [11..11, 0..11, 10..12, 5..4, u64::MAX..0, 0..u64::MAX] {
            let refusal = LedgerError::OutOfRange { start: range.start, end: range.end, size: 10 };
            assert_eq!(ledger.add(range), Err(refusal));
        }
        assert_eq!(ledger, Ledger::new(10));
        assert_eq!(ledger.add(10..10), Ok(0));
    }

    #[test]
    fn the_largest_file_is_counted_exactly() {
        let mut ledger = Ledger::new(u64::MAX);
        assert_eq!(ledger.add(u64::MAX - 1..u64::MAX), Ok(1));
        assert_eq!(ledger.missing().collect::<Vec<_>>(), vec![0..u64::MAX - 1]);
        assert_eq!(ledger.add(0..u64::MAX), Ok(u64::MAX - 1));
        assert!(ledger.is_complete());
    }

    #[test]
    fn fragments_are_bounded() {
        let mut ledger = Ledger::new(u64::MAX);
        for index in 0..MAX_RANGES as u64 {
            assert_eq!(ledger.add(index * 2..index * 2 + 1), Ok(1));
        }
        let full = ledger.clone();
        let beyond = MAX_RANGES as u64 * 2;
        assert_eq!(ledger.add(beyond..beyond + 1), Err(LedgerError::TooManyRanges));
        assert_eq!(ledger, full);
        // A range that touches a fragment is still added, and closing a gap makes room.
        assert_eq!(ledger.add(beyond - 1..beyond), Ok(1));
        assert_eq!(ledger.add(1..2), Ok(1));
        assert_eq!(ledger.add(beyond + 1..beyond + 2), Ok(1));
        assert_eq!(ledger.range_count(), MAX_RANGES);
        assert_eq!(ledger.add(0..u64::MAX), Ok(u64::MAX - MAX_RANGES as u64 - 3));
        assert_eq!(ledger.range_count(), 1);
    }

    #[test]
    fn what_grew_is_there_from_its_first_byte() {
        let mut ledger = Ledger::new(u64::MAX);
        assert!(ledger.is_exactly(0));
        assert_eq!(ledger.add(3..10), Ok(7));
        assert!(!ledger.is_exactly(7) && !ledger.is_exactly(10) && !ledger.is_exactly(0));
        assert_eq!(ledger.add(0..3), Ok(3));
        assert!(ledger.is_exactly(10) && !ledger.is_exactly(9));
    }
}
