//! The cheap end of the catalogue: the Internet checksum (RFC 1071) and touching the data without computing.

use crate::isa::Tier;
use crate::word::{Plain, Region, Word};

/// The one's complement of the one's complement sum of big-endian 16-bit words, an odd byte padded with zero.
pub(crate) fn internet_reference<W: Word>(data: &[u8]) -> u16 {
    let mut sum = W::imm(0);
    for (i, pair) in data.chunks(2).enumerate() {
        sum = sum
            + W::load(
                Region::Message.part(2 * i, 2),
                u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)),
            );
        sum = (sum & W::imm(0xffff)) + sum.shr(16);
        W::branch(true);
    }
    (!sum & W::imm(0xffff)).store(Region::State.word(0)) as u16
}

/// The one's complement sum of big-endian 16-bit words, an odd byte padded with zero, not yet complemented: sums of
/// pieces of even length add up to the sum of the whole (RFC 1071 section 2). By 64-bit words in host order; the sum's
/// byte order is mended at the end.
#[must_use]
pub fn internet_sum(data: &[u8]) -> u16 {
    let (words, tail) = data.as_chunks::<8>();
    let mut sums = [0u64; 4];
    let (quads, singles) = words.as_chunks::<4>();
    for quad in quads {
        for (sum, word) in sums.iter_mut().zip(quad) {
            let word = u64::from_ne_bytes(*word);
            // Halves apart: 2^32 additions before a carry can be lost.
            *sum += (word & 0xffff_ffff) + (word >> 32);
        }
    }
    let mut sum: u64 = sums.iter().map(|sum| (sum & 0xffff_ffff) + (sum >> 32)).sum();
    for word in singles {
        let word = u64::from_ne_bytes(*word);
        sum += (word & 0xffff_ffff) + (word >> 32);
    }
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    let last = u64::from_ne_bytes(last);
    sum += (last & 0xffff_ffff) + (last >> 32);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::from_be_bytes((sum as u16).to_ne_bytes())
}

/// The Internet checksum.
pub(crate) fn internet(tier: Tier, data: &[u8]) -> u16 {
    match tier {
        Tier::Reference => internet_reference::<Plain>(data),
        _ => !internet_sum(data),
    }
}

/// XOR of all little-endian 64-bit words, the last padded with zeros: reads everything, computes next to nothing.
pub(crate) fn touch(data: &[u8]) -> u64 {
    let (words, tail) = data.as_chunks::<8>();
    let mut last = [0; 8];
    last[..tail.len()].copy_from_slice(tail);
    words.iter().fold(u64::from_le_bytes(last), |all, word| all ^ u64::from_le_bytes(*word))
}
