//! Pieces of a version, with their hashes, and the ranges that are cut into such.
//!
//! Guarantees: a range that another end asks for is checked before it is cut ([`Span::pieces_max`]).

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::{
    cutter::Cutter,
    hash::{HASH_BYTES, Key},
};

/// The places at which a closure that fills a buffer stops: multiples of this, and the end.
pub const FILL_BYTES: usize = 256 << 10;
/// The longest range that is cut for itself: cuts are forced at its ends, so ranges can be compared at the same time.
pub const SPAN_BYTES_MAX: u64 = 64 << 20;
/// The blocks of [`Cut::Grid`].
pub(crate) const BLOCK_BYTES: u64 = 4096;
const BLOCK_LOG2: u8 = 12;

/// How a range is cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Cut {
    /// By content, with this mean length, a power of two.
    Content(u8),
    /// Into blocks of 4 KiB, on the grid of the old file.
    Grid,
}

impl Cut {
    /// The pieces of the second level where the lengths differ.
    pub(crate) const FINE: Self = Self::Content(BLOCK_LOG2);

    /// Returns the length of the shortest piece but the first and the last, and of the longest; `None` if there is no such cut.
    pub(crate) fn bounds(self) -> Option<(usize, usize)> {
        match self {
            Self::Content(mean_log2) => {
                Cutter::new(mean_log2).map(|cutter| (cutter.least_bytes(), cutter.most_bytes()))
            }
            Self::Grid => Some((BLOCK_BYTES as usize, BLOCK_BYTES as usize)),
        }
    }
}

/// A range of the old version whose pieces are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Span {
    /// Its first byte.
    pub start: u64,
    /// Its length.
    pub bytes: u64,
    /// How it is cut.
    pub cut: Cut,
}

impl Span {
    /// Returns the maximum number of its pieces; `None` if it cannot be cut: it is empty, too long, beyond the longest file, or
    /// its cut does not exist.
    pub fn pieces_max(&self) -> Option<usize> {
        let (least, _) = self.cut.bounds()?;
        let end = self.start.checked_add(self.bytes).filter(|&end| end <= crate::FILE_BYTES_MAX);
        let fits = end.is_some() && (1..=SPAN_BYTES_MAX).contains(&self.bytes);
        fits.then(|| (self.bytes as usize).div_ceil(least) + 1)
    }

    /// Returns the length of the longest piece; 0 if the cut does not exist.
    pub(crate) fn most_bytes(&self) -> usize {
        self.cut.bounds().map_or(0, |(_, most)| most)
    }

    /// Returns its first byte and the byte after its last.
    pub fn range(&self) -> Range<u64> {
        self.start..self.start.saturating_add(self.bytes)
    }
}

/// A piece of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Its first byte.
    pub start: u64,
    /// Its length.
    pub bytes: u32,
    /// The keyed hash of its content.
    pub hash: [u8; HASH_BYTES],
}

impl Piece {
    /// Returns the piece of these bytes.
    pub fn of(key: &Key, start: u64, content: &[u8]) -> Self {
        Self { start, bytes: content.len() as u32, hash: key.hash(content) }
    }

    /// Returns the byte after its last.
    pub fn end(&self) -> u64 {
        self.start + u64::from(self.bytes)
    }
}

/// Returns the length of the block that begins at an offset, where blocks lie on a grid that is moved by `shift`.
pub(crate) fn block_bytes(at: u64, shift: u64) -> u64 {
    BLOCK_BYTES - at.wrapping_sub(shift) % BLOCK_BYTES
}
