//! The parts that a segment of a file is made of.
//!
//! Guarantees: a group asks for no more pieces than fit one answer; neighbours that follow each other in both versions are
//! joined.

use std::ops::Range;

use sealane_delta::{Pair, Part, Span, pairs};

use crate::proto::message::PIECES_SIGNED_MAX;

/// The maximum number of ranges in one request.
const SPANS_MAX: usize = 1024;

/// A part of a segment.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Planned {
    /// The receiver has it from this offset on.
    Copy { to: u64, from: u64, bytes: u64 },
    /// It is sent.
    New(Range<u64>),
    /// It is compared once more.
    Pair(Pair),
}

impl Planned {
    /// Returns what is planned for a part that was compared for the last time.
    pub(super) fn last(part: Part) -> Self {
        match part {
            Part::Copy { to, from, bytes } => Self::Copy { to, from, bytes },
            Part::New { to, .. } => Self::New(to),
        }
    }
}

/// Consecutive parts whose finer signatures are asked for together.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) planned: Vec<Planned>,
    /// The old ranges of the pairs among them.
    pub(super) spans: Vec<Span>,
    /// The maximum number of their pieces.
    pub(super) pieces: usize,
}

impl Group {
    /// Returns a range that is sent.
    pub(super) fn whole(range: Range<u64>) -> Self {
        Self { planned: vec![Planned::New(range)], ..Self::default() }
    }
}

/// Returns what follows from a comparison of the first level.
pub(super) fn groups(parts: Vec<Part>) -> Vec<Group> {
    let mut groups = Vec::new();
    let mut group = Group::default();
    for part in parts {
        let (to, old) = match part {
            Part::Copy { to, from, bytes } => {
                group.planned.push(Planned::Copy { to, from, bytes });
                continue;
            }
            Part::New { to, old } => (to, old),
        };
        let mut at = to.start;
        for pair in pairs(&to, &old) {
            // The old version may be longer than is compared.
            let Some(pieces) = pair.old.pieces_max() else { break };
            if group.pieces + pieces > PIECES_SIGNED_MAX || group.spans.len() >= SPANS_MAX {
                groups.push(std::mem::take(&mut group));
            }
            at = pair.to.end;
            group.pieces += pieces;
            group.spans.push(pair.old);
            group.planned.push(Planned::Pair(pair));
        }
        if at < to.end {
            group.planned.push(Planned::New(at..to.end));
        }
    }
    groups.push(group);
    groups
}

/// Returns the ranges of all parts in order, and their offsets in the receiver's version if that has them.
pub(super) fn settle(planned: Vec<Planned>) -> Vec<(Range<u64>, Option<u64>)> {
    let mut ranges: Vec<(Range<u64>, Option<u64>)> = Vec::new();
    for part in planned {
        let (next, from) = match part {
            Planned::Copy { to, from, bytes } => (to..to + bytes, Some(from)),
            Planned::New(range) | Planned::Pair(Pair { to: range, .. }) => (range, None),
        };
        match ranges.last_mut() {
            Some((last, at))
                if last.end == next.start && at.map(|at| at + (last.end - last.start)) == from =>
            {
                last.end = next.end;
            }
            _ => ranges.push((next, from)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use sealane_delta::Cut;

    use super::*;

    #[test]
    fn a_group_asks_for_no_more_than_one_answer_has() {
        // Every second block of a gibibyte has changed.
        let parts = (0..1 << 17).map(|number| {
            let start = number * 8192;
            match number % 2 {
                0 => Part::Copy { to: start, from: start, bytes: 8192 },
                _ => Part::New { to: start..start + 8192, old: start..start + 8192 },
            }
        });
        let parts: Vec<_> = parts.collect();
        let groups = groups(parts);
        assert!(groups.len() > 1);
        let mut next = 0;
        for group in groups {
            assert!(group.pieces <= PIECES_SIGNED_MAX && group.spans.len() <= SPANS_MAX);
            let pieces = group.spans.iter().map(|span| span.pieces_max().unwrap()).sum::<usize>();
            assert_eq!(pieces, group.pieces);
            for (range, from) in settle(group.planned) {
                assert_eq!(range.start, next, "nothing is left out");
                assert!(from.is_none_or(|from| from == range.start));
                next = range.end;
            }
        }
        assert_eq!(next, 1 << 30);
    }

    #[test]
    fn ranges_that_follow_each_other_in_both_versions_are_one() {
        let copy = |to, from, bytes| Planned::Copy { to, from, bytes };
        let pair = Pair { to: 45..50, old: Span { start: 0, bytes: 5, cut: Cut::Grid } };
        let planned = vec![
            copy(0, 100, 10),
            copy(10, 110, 10),
            copy(20, 0, 10),
            Planned::New(30..40),
            Planned::New(40..45),
            Planned::Pair(pair),
            copy(50, 50, 1),
        ];
        let expected = [(0..20, Some(100)), (20..30, Some(0)), (30..50, None), (50..51, Some(50))];
        assert_eq!(settle(planned), expected);
    }
}
