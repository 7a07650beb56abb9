//! The Internet checksum (RFC 1071), with and without a copy in the same pass.
//!
//! - [`internet_sum`] sums bytes, and [`internet_sum_copying`] copies them as well. Both are as fast as memory is read,
//!   by the vectors that the machine has, and by portable code elsewhere.
//!
//! Guarantees: no allocation; the result does not depend on the machine; no C.

#![deny(unsafe_code)]

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod wide;

/// Returns the one's complement sum of big-endian 16-bit words, an odd byte padded with zero, not yet complemented:
/// sums of pieces of even length add up to the sum of the whole (RFC 1071 section 2). The function adds words in host
/// order, and corrects the byte order of the sum at the end.
#[must_use]
pub fn internet_sum(data: &[u8]) -> u16 {
    // For headers, detecting the machine's features costs more than it gains.
    if data.len() < 2 * BLOCK_BYTES { portable_sum(data) } else { wide::sum(data) }
}

/// Returns the sum of `from`, as [`internet_sum`] does, and copies `from` to `into` in the same pass.
///
/// # Panics
/// Panics if the lengths differ.
#[must_use]
pub fn internet_sum_copying(from: &[u8], into: &mut [u8]) -> u16 {
    assert_eq!(from.len(), into.len(), "a copy is as long as what is copied");
    wide::sum_copying(from, into)
}

/// Bytes that are summed at a time.
const BLOCK_BYTES: usize = 64;
/// Number of blocks after which a sum of 32 bits may be full.
const RUN_BLOCKS: usize = 1 << 16;

/// Separate sums of the low and high halves of 32-bit words.
type Sums = [[u32; BLOCK_BYTES / 4]; 2];

#[inline(always)]
fn add(sums: &mut Sums, block: &[u8; BLOCK_BYTES]) {
    let (words, _) = block.as_chunks::<4>();
    let [low, high] = sums;
    for ((low, high), word) in low.iter_mut().zip(high).zip(words) {
        let word = u32::from_ne_bytes(*word);
        *low += word & 0xffff;
        *high += word >> 16;
    }
}

#[inline(always)]
fn total(sums: &Sums) -> u64 {
    sums.iter().flatten().map(|&sum| u64::from(sum)).sum()
}

/// Returns the sum of less than a block.
#[inline(always)]
fn tail_sum(tail: &[u8]) -> u64 {
    let (words, rest) = tail.as_chunks::<8>();
    let halves = |word: u64| (word & 0xffff_ffff) + (word >> 32);
    let mut sum: u64 = words.iter().map(|word| halves(u64::from_ne_bytes(*word))).sum();
    if let Some(last) = tail.last_chunk::<8>().filter(|_| !rest.is_empty()) {
        // The last bytes are moved to the places that they would have before zeros.
        let last = u64::from_le_bytes(*last) >> (64 - 8 * rest.len());
        sum += halves(last.to_le());
    } else if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        sum += halves(u64::from_ne_bytes(last));
    }
    sum
}

#[inline(always)]
fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::from_be_bytes((sum as u16).to_ne_bytes())
}

/// The code is compiled for every machine of the target, and again for the features of this one.
#[inline(always)]
fn portable_sum(data: &[u8]) -> u16 {
    let (blocks, tail) = data.as_chunks::<BLOCK_BYTES>();
    let mut sum = tail_sum(tail);
    for run in blocks.chunks(RUN_BLOCKS) {
        let mut sums = Sums::default();
        run.iter().for_each(|block| add(&mut sums, block));
        sum += total(&sums);
    }
    folded(sum)
}

#[inline(always)]
fn portable_sum_copying(from: &[u8], into: &mut [u8]) -> u16 {
    let (blocks, tail) = from.as_chunks::<BLOCK_BYTES>();
    let (into_blocks, into_tail) = into.as_chunks_mut::<BLOCK_BYTES>();
    let mut sum = tail_sum(tail);
    into_tail.copy_from_slice(tail);
    for (run, into_run) in blocks.chunks(RUN_BLOCKS).zip(into_blocks.chunks_mut(RUN_BLOCKS)) {
        let mut sums = Sums::default();
        for (block, into) in run.iter().zip(into_run) {
            add(&mut sums, block);
            *into = *block;
        }
        sum += total(&sums);
    }
    folded(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 1071, section 1, word by word.
    fn reference(data: &[u8]) -> u16 {
        data.chunks(2).fold(0, |sum, pair| {
            let word = u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]);
            let (sum, carry) = sum.overflowing_add(word);
            sum + u16::from(carry)
        })
    }

    #[test]
    fn every_sum_is_the_references() {
        let data: Vec<u8> = (0..3000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for start in 0..9 {
            for bytes in (0..300).chain([1396, 1397, 1448, 2047, 2900]) {
                let data = &data[start..start + bytes];
                let mut copy = vec![0x5a; bytes + 1];
                let sum = reference(data);
                assert_eq!(portable_sum(data), sum, "{bytes} from {start}");
                assert_eq!(internet_sum(data), sum, "{bytes} from {start}");
                assert_eq!(portable_sum_copying(data, &mut copy[..bytes]), sum, "{bytes} from {start}");
                copy.fill(0x5a);
                assert_eq!(internet_sum_copying(data, &mut copy[..bytes]), sum, "{bytes} from {start}");
                assert_eq!((&copy[..bytes], copy[bytes]), (data, 0x5a));
            }
        }
        // No carry is lost if all sums have their largest values.
        assert_eq!(internet_sum(&vec![0xff; (RUN_BLOCKS + 1) * BLOCK_BYTES]), 0xffff);
    }

    /// RFC 1071, section 3.
    #[test]
    fn the_example_of_the_rfc() {
        assert_eq!(internet_sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]), 0xddf2);
    }
}
