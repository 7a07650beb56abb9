//! Pieces of a version, with their hashes.
//!
//! Guarantees: pieces are in order and cover their range without gaps; reading is in order, each byte once.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::cutter::Cutter;

/// The length of a hash.
pub const HASH_BYTES: usize = 16;
/// The places at which a closure that fills a buffer stops: multiples of this, and the end.
pub const FILL_BYTES: usize = 256 << 10;
/// The longest range that is cut for itself: cuts are forced at its ends, so ranges can be compared at the same time.
pub const SPAN_BYTES_MAX: u64 = 64 << 20;
/// The blocks of [`Cut::Grid`].
pub(crate) const BLOCK_BYTES: u64 = 4096;
const BLOCK_LOG2: u8 = 12;

/// The key of the hashes of pieces.
pub type Key = [u8; 32];

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
    fn bounds(self) -> Option<(usize, usize)> {
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
        let mut hash = [0; HASH_BYTES];
        blake3::Hasher::new_keyed(key).update(content).finalize_xof().fill(&mut hash);
        Self { start, bytes: content.len() as u32, hash }
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

/// Cuts a range into pieces, and passes them to `each`. `fill` reads from an offset on; the places where it stops are multiples
/// of [`FILL_BYTES`], and the end. `room` is memory that is used again. `shift` is what the offsets of a new version are
/// greater, modulo 2^64, than those of the old one, whose grid counts.
///
/// # Errors
/// Fails if `fill` does.
///
/// # Panics
/// Panics if there is no such cut ([`Span::pieces_max`] tells).
pub fn pieces<E>(
    range: Range<u64>,
    (cut, shift): (Cut, u64),
    key: &Key,
    room: &mut Vec<u8>,
    mut fill: impl FnMut(u64, &mut [u8]) -> Result<(), E>,
    mut each: impl FnMut(Piece),
) -> Result<(), E> {
    let (_, most) = cut.bounds().expect("spans are checked by those who take them from others");
    let cutter = match cut {
        Cut::Content(mean_log2) => Cutter::new(mean_log2),
        Cut::Grid => None,
    };
    room.resize((2 * most).max(1 << 20) + FILL_BYTES, 0);
    let (mut begin, mut end) = (0, 0);
    let (mut at, mut filled) = (range.start, range.start);
    while at < range.end {
        if end - begin < most && filled < range.end {
            room.copy_within(begin..end, 0);
            (begin, end) = (0, end - begin);
            let last =
                filled.saturating_add((room.len() - end) as u64) / FILL_BYTES as u64 * FILL_BYTES as u64;
            let last = last.min(range.end);
            let length = (last - filled) as usize;
            fill(filled, &mut room[end..end + length])?;
            filled = last;
            end += length;
        }
        let content = &room[begin..end];
        let length = match &cutter {
            Some(cutter) => cutter.first(content),
            None => content.len().min(block_bytes(at, shift) as usize),
        };
        each(Piece::of(key, at, &content[..length]));
        begin += length;
        at += length as u64;
    }
    Ok(())
}
