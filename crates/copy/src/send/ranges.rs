//! Arithmetic of byte ranges that are ascending and do not touch.

use std::ops::Range;

/// Widens ranges to multiples of `alignment` and joins those that meet.
pub(super) fn align(ranges: impl Iterator<Item = Range<u64>>, alignment: u64, size: u64) -> Vec<Range<u64>> {
    let mut aligned: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        let start = range.start / alignment * alignment;
        let end = range.end.div_ceil(alignment).saturating_mul(alignment).min(size);
        match aligned.last_mut() {
            Some(last) if start <= last.end => last.end = last.end.max(end),
            _ => aligned.push(start..end),
        }
    }
    aligned
}

/// Returns the parts of `0..size` outside `ranges` (ascending, not touching).
pub(super) fn complement(ranges: &[Range<u64>], size: u64) -> Vec<Range<u64>> {
    subtract(std::slice::from_ref(&(0..size)), ranges)
}

/// Returns the parts of `from` that are not in `take` (both ascending, not touching).
pub(super) fn subtract(from: &[Range<u64>], take: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = Vec::new();
    for range in from {
        let mut start = range.start;
        for gap in take.iter().filter(|gap| gap.end > range.start && gap.start < range.end) {
            if gap.start > start {
                left.push(start..gap.start);
            }
            start = start.max(gap.end);
        }
        if start < range.end {
            left.push(start..range.end);
        }
    }
    left
}

/// Returns the parts of `ranges` (ascending, not touching) that are within `bounds`.
pub(super) fn within(ranges: &[Range<u64>], bounds: &Range<u64>) -> Vec<Range<u64>> {
    let clip = |range: &Range<u64>| range.start.max(bounds.start)..range.end.min(bounds.end);
    ranges.iter().map(clip).filter(|range| !range.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_subtract_and_complement() {
        assert_eq!(subtract(&[0..10, 20..30], &[5..7, 8..25, 29..40]), [0..5, 7..8, 25..29]);
        assert_eq!(complement(&[2..4, 8..10], 10), [0..2, 4..8]);
        assert_eq!(complement(&[], 0), []);
        assert_eq!(within(&[0..10, 20..30, 40..50], &(5..25)), [5..10, 20..25]);
        assert_eq!(within(&[0..5, 5..10], &(10..10)), []);
    }

    #[test]
    fn ranges_align_and_join() {
        assert_eq!(align([1..2, 9..12, 30..31].into_iter(), 8, 31), [0..16, 24..31]);
        assert_eq!(align([1..2, 9..12].into_iter(), 1, 31), [1..2, 9..12]);
    }
}
