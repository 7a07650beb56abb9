//! Finds the bytes of a new version of a file that an old one at another place has, in two levels.
//!
//! Both ends cut their versions into pieces where the content says so ([`Cutter`]), 64 KiB long on average, so that an inserted
//! byte moves the cuts with the bytes. The end with the old version tells the keyed hash and the length of each piece (its
//! signature: [`pack`], [`unpack`]); the other finds the pieces that both have ([`Index`], [`compare`]). Between two neighbours
//! that both have lies what differs, in both versions, and is compared once more in pieces of 4 KiB ([`pairs`]): on the old
//! file's own grid if the lengths are the same, as in images of disks, where content decides nothing, and by content otherwise.
//!
//! Guarantees: no I/O (bytes come through closures), no clock, no thread; the longest buffer is two pieces, or 1 MiB; an index
//! takes about 40 bytes per piece, and there are at most about two million pieces of a file ([`FILE_BYTES_MAX`],
//! [`mean_log2`]); parsing any bytes allocates no more than a small multiple of them. Hashes are keyed ([`Key`]): nobody
//! without the key makes two pieces that look the same. Even so a result is a proposal: whoever builds a file by it must check
//! the whole.

#![forbid(unsafe_code)]

mod compare;
mod cutter;
mod cutting;
mod guide;
mod hash;
mod index;
mod piece;
mod signature;

pub use compare::{Pair, Part, compare, pairs};
pub use cutter::Cutter;
pub use cutting::{pieces, pieces_like};
pub use hash::{HASH_BYTES, Key};
pub use index::Index;
pub use piece::{Cut, FILL_BYTES, Piece, SPAN_BYTES_MAX, Span};
pub use signature::{Malformed, pack, unpack};

/// The longest file that is compared: of a longer one the index would be larger than is good.
pub const FILE_BYTES_MAX: u64 = 1 << 42;

/// The mean length of a piece of the first level of a small file, as a power of two: 64 KiB.
const MEAN_LOG2_MIN: u8 = 16;

/// Returns the mean length of the pieces of the first level, as a power of two, for an old version of this size: about a million
/// pieces at most, up to 2 TiB.
pub fn mean_log2(size_bytes: u64) -> u8 {
    let pieces_log2 = 20;
    let ceiling = size_bytes.max(1).next_power_of_two().trailing_zeros() as u8;
    ceiling.saturating_sub(pieces_log2).clamp(MEAN_LOG2_MIN, Cutter::MEAN_LOG2_MAX)
}

#[cfg(test)]
mod tests;
