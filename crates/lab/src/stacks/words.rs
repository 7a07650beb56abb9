//! Copy, checksum and MD5 of a packet word by word (A12): each word is loaded once and used by all three, as ATOMIC-2 proposed,
//! or by one after the other with the same code.
//!
//! Guarantees: both orders leave the same bytes, sum and digest, and differ in nothing but the number of passes.

use std::array;
use std::sync::LazyLock;

/// MD5's constants as RFC 1321 defines them: the whole part of 2³² times the sine of 1, 2 and so on.
static SINES: LazyLock<[u32; 64]> =
    LazyLock::new(|| array::from_fn(|at| ((at as f64 + 1.0).sin().abs() * 4_294_967_296.0) as u32));
/// Rotations of the four rounds.
const ROTATIONS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
const START: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
const BLOCK_BYTES: usize = 64;

/// A packet's sum of 16-bit words in the order of the machine, and its digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) sum: u16,
    pub(super) digest: [u8; 16],
}

/// One step of MD5: a = b + ((a + f(b, c, d) + word + sine) <<< rotation), with the four words turned.
#[inline(always)]
fn step(state: &mut [u32; 4], at: usize, word: u32, sines: &[u32; 64]) {
    let [a, b, c, d] = *state;
    let mixed = match at / 16 {
        0 => (b & c) | (!b & d),
        1 => (d & b) | (!d & c),
        2 => b ^ c ^ d,
        _ => c ^ (b | !d),
    };
    let sum = a.wrapping_add(mixed).wrapping_add(word).wrapping_add(sines[at]);
    *state = [d, b.wrapping_add(sum.rotate_left(ROTATIONS[at / 16][at % 4])), b, c];
}

/// Does the rounds of a block whose first round is over: it takes the words in their order, and so can run while they arrive.
#[inline(always)]
fn later_rounds(state: &mut [u32; 4], words: &[u32; 16], sines: &[u32; 64]) {
    for at in 16..64 {
        let word = match at / 16 {
            1 => (5 * at + 1) % 16,
            2 => (3 * at + 5) % 16,
            _ => 7 * at % 16,
        };
        step(state, at, words[word], sines);
    }
}

/// Returns word `at` of some bytes.
#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array::from_fn(|byte| bytes[4 * at + byte]))
}

fn fold(sum: u64) -> u16 {
    let mut sum = sum;
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Digests the padding of a packet of whole blocks, and ends.
fn finish(mut state: [u32; 4], bytes: usize, sum: u64) -> Found {
    let mut words = [0; 16];
    words[0] = 0x80;
    words[14] = (bytes as u32) << 3;
    block(&mut state, &words, &SINES);
    let mut digest = [0; 16];
    digest.as_chunks_mut::<4>().0.iter_mut().zip(state).for_each(|(out, word)| *out = word.to_le_bytes());
    Found { sum: fold(sum), digest }
}

#[inline(always)]
fn block(state: &mut [u32; 4], words: &[u32; 16], sines: &[u32; 64]) {
    let before = *state;
    (0..16).for_each(|at| step(state, at, words[at], sines));
    later_rounds(state, words, sines);
    state.iter_mut().zip(before).for_each(|(word, before)| *word = word.wrapping_add(before));
}

/// Copies whole blocks, then sums them, then digests them: three passes.
pub(super) fn by_passes(source: &[u8], target: &mut [u8]) -> Found {
    let sines = &*SINES;
    for at in 0..source.len() / 4 {
        target[4 * at..][..4].copy_from_slice(&word(source, at).to_le_bytes());
    }
    let sum = (0..target.len() / 4).map(|at| u64::from(word(target, at))).sum();
    let mut state = START;
    for content in target.as_chunks::<BLOCK_BYTES>().0 {
        block(&mut state, &array::from_fn(|at| word(content, at)), sines);
    }
    finish(state, target.len(), sum)
}

/// Does the same in one loop: each word is loaded once, stored, added, and taken by MD5's first round.
pub(super) fn in_one_loop(source: &[u8], target: &mut [u8]) -> Found {
    let sines = &*SINES;
    let (mut state, mut sum) = (START, 0_u64);
    let blocks = source.as_chunks::<BLOCK_BYTES>().0.iter().zip(target.as_chunks_mut::<BLOCK_BYTES>().0);
    for (from, to) in blocks {
        let before = state;
        let mut words = [0; 16];
        for at in 0..16 {
            let word = word(from, at);
            to[4 * at..][..4].copy_from_slice(&word.to_le_bytes());
            sum += u64::from(word);
            words[at] = word;
            step(&mut state, at, word, sines);
        }
        later_rounds(&mut state, &words, sines);
        state.iter_mut().zip(before).for_each(|(word, before)| *word = word.wrapping_add(before));
    }
    finish(state, source.len(), sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_checksum::internet_sum;
    use sealane_transform::{Digest, DigestStream, Kernels, StreamPart};

    #[test]
    fn both_orders_give_the_checksum_and_the_digest() {
        for blocks in [1, 2, 64] {
            let source: Vec<u8> = (0..64 * blocks as u32).map(|at| (at * 41 % 253) as u8).collect();
            let [mut one, mut other] = [vec![0; source.len()], vec![0; source.len()]];
            let found = by_passes(&source, &mut one);
            assert_eq!((found, &one), (in_one_loop(&source, &mut other), &other));
            assert_eq!(one, source);
            let kernels = Kernels::select(None, None).unwrap();
            let mut stream = DigestStream::new(Digest::Md5).unwrap();
            kernels.absorb(&mut [StreamPart { stream: &mut stream, part: &source }]);
            assert_eq!(found.digest[..], kernels.finish(&stream)[..16]);
            // The sum of RFC 1071 is the same in either order of bytes, turned.
            assert_eq!(found.sum.swap_bytes(), internet_sum(&source));
        }
    }
}
