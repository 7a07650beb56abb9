//! Finds what a new version has in common with an old one.
//!
//! Guarantees: the parts cover what was compared, in order and without gaps; what is to be copied lies within the old version,
//! if the signature's pieces do; as many parts at most as there are new pieces.

use std::ops::Range;

use crate::{
    index::Index,
    piece::{Cut, Piece, SPAN_BYTES_MAX, Span},
};

/// A part of the new version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// The old version has these bytes.
    Copy {
        /// The offset in the new version.
        to: u64,
        /// The offset in the old version.
        from: u64,
        /// Their number.
        bytes: u64,
    },
    /// The old version does not have these bytes as pieces.
    New {
        /// The range in the new version.
        to: Range<u64>,
        /// The range in the old version where something like it may be.
        old: Range<u64>,
    },
}

/// How much longer, apart from a factor, the old range may be that is compared once more.
const SLACK_BYTES: u64 = 64 << 10;
/// The factor.
const LONGER: u64 = 4;

/// Compares consecutive pieces of a new version with those of the old one, which has this size.
pub fn compare(index: &Index, new: &[Piece], old_bytes: u64) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    // In images and databases most pieces are where they were.
    let mut expected = 0;
    for piece in new {
        let found = index.find(&piece.hash, expected);
        expected = found.unwrap_or(expected).saturating_add(1);
        let (start, end) = (piece.start, piece.end());
        match (found.map(|number| index.start(number)), parts.last_mut()) {
            (Some(at), Some(Part::Copy { from, bytes, .. })) if *from + *bytes == at => {
                *bytes += u64::from(piece.bytes);
            }
            (Some(from), _) => parts.push(Part::Copy { to: start, from, bytes: u64::from(piece.bytes) }),
            (None, Some(Part::New { to, .. })) => to.end = end,
            (None, _) => parts.push(Part::New { to: start..end, old: 0..0 }),
        }
    }
    for at in 0..parts.len() {
        let left = at.checked_sub(1).map(|before| &parts[before]);
        let left = match left {
            Some(Part::Copy { from, bytes, .. }) => Some(from + bytes),
            _ => None,
        };
        let right = match parts.get(at + 1) {
            Some(Part::Copy { from, .. }) => Some(*from),
            _ => None,
        };
        if let Part::New { to, old } = &mut parts[at] {
            *old = counterpart(to, left, right, old_bytes);
        }
    }
    parts
}

/// Returns the old range that lies between the same neighbours as the new one.
fn counterpart(to: &Range<u64>, left: Option<u64>, right: Option<u64>, old_bytes: u64) -> Range<u64> {
    let bytes = to.end - to.start;
    let old = match (left, right) {
        (Some(left), Some(right))
            if left <= right && right - left <= bytes.saturating_mul(LONGER).saturating_add(SLACK_BYTES) =>
        {
            left..right
        }
        (Some(left), _) => left..left.saturating_add(bytes),
        (None, Some(right)) => right.saturating_sub(bytes)..right,
        (None, None) => to.clone(),
    };
    old.start.min(old_bytes)..old.end.min(old_bytes)
}

/// A range of the new version, and the one of the old version that it is compared with once more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The new range.
    pub to: Range<u64>,
    /// The old range.
    pub old: Span,
}

impl Pair {
    /// Returns what the new offsets are greater than the old ones, modulo 2^64.
    pub fn shift(&self) -> u64 {
        self.to.start.wrapping_sub(self.old.start)
    }
}

/// The longest range of a pair.
const PAIR_BYTES_MAX: u64 = SPAN_BYTES_MAX / 8;

/// Returns the pairs of a new range and an old one that may be like it. Bytes in no pair are new.
pub fn pairs(to: &Range<u64>, old: &Range<u64>) -> Vec<Pair> {
    let is_equal = to.end - to.start == old.end.saturating_sub(old.start);
    let cut = if is_equal { Cut::Grid } else { Cut::FINE };
    let mut pairs = Vec::new();
    let (mut new_at, mut old_at) = (to.start, old.start);
    while new_at < to.end && old_at < old.end {
        let new_bytes = (to.end - new_at).min(PAIR_BYTES_MAX);
        // The rest of a longer old range belongs to the last pair.
        let is_last = new_at + new_bytes == to.end;
        let old_bytes = if is_last { old.end - old_at } else { (old.end - old_at).min(PAIR_BYTES_MAX) };
        let bytes = old_bytes.min(SPAN_BYTES_MAX);
        let old = Span { start: old_at, bytes, cut };
        pairs.push(Pair { to: new_at..new_at + new_bytes, old });
        (new_at, old_at) = (new_at + new_bytes, old_at + old_bytes);
    }
    pairs
}
