//! DES with split tables and merged keys: eight tables of 64 words (2 KB), two words of key per round.
//!
//! Tables of two S-boxes each ([`super::double`], 64 KB) halve the look-ups but outgrow first-level caches, and a round
//! waits for its slowest look-up: by measurement, they are slower. CBC chains between the permutations, where XOR commutes with
//! them, so that neither permutation lies on the path from block to block. The look-ups leak key and data through the
//! cache, as in all implementations by tables.

use super::reference::{SP, initial, last};
use super::{Key, TripleKey};
use crate::modes::{Direction, Mode};
use crate::word::{Plain, Word as _};

/// Halves are kept rotated left by five, so that every other row of E starts at a byte.
const ROTATED: u32 = 5;

pub(super) static TABLES: [[u32; 64]; 8] = {
    let mut tables = SP;
    let mut number = 0;
    while number < 8 {
        let mut six = 0;
        while six < 64 {
            tables[number][six] = tables[number][six].rotate_left(ROTATED);
            six += 1;
        }
        number += 1;
    }
    tables
};

/// The two halves of a block between the permutations, rotated.
pub(super) type Halves = [u32; 2];

#[inline(always)]
fn f(right: u32, key: [u32; 2]) -> u32 {
    let (even, odd) = (right ^ key[0], right.rotate_left(4) ^ key[1]);
    let at = |number: usize, word: u32| TABLES[number][(word & 63) as usize];
    let evens = (at(0, even) ^ at(2, even >> 24)) ^ (at(4, even >> 16) ^ at(6, even >> 8));
    let odds = (at(1, odd) ^ at(3, odd >> 24)) ^ (at(5, odd >> 16) ^ at(7, odd >> 8));
    evens ^ odds
}

/// Runs sixteen rounds, with the last swap undone.
#[inline(always)]
fn rounds(key: &Key, direction: Direction, halves: Halves) -> Halves {
    rounds_by(key, direction, halves, f)
}

/// Does the same with the look-ups of `f`.
#[inline(always)]
pub(super) fn rounds_by(
    key: &Key,
    direction: Direction,
    [mut left, mut right]: Halves,
    f: impl Fn(u32, [u32; 2]) -> u32,
) -> Halves {
    for i in (0..16).step_by(2) {
        let k = |i: usize| match direction {
            Direction::Encrypt => key.merged[i],
            Direction::Decrypt => key.merged[15 - i],
        };
        left ^= f(right, k(i));
        right ^= f(left, k(i + 1));
    }
    [right, left]
}

#[inline(always)]
fn permuted(block: [u8; 8]) -> Halves {
    let block = u64::from_be_bytes(block);
    let (mut left, mut right) = (Plain::imm((block >> 32) as u32), Plain::imm(block as u32));
    initial(&mut left, &mut right);
    [left.bits().rotate_left(ROTATED), right.bits().rotate_left(ROTATED)]
}

#[inline(always)]
fn unpermuted(halves: Halves) -> [u8; 8] {
    let [mut left, mut right] = halves.map(|half| Plain::imm(half.rotate_right(ROTATED)));
    last(&mut left, &mut right);
    (u64::from(left.bits()) << 32 | u64::from(right.bits())).to_be_bytes()
}

/// Transforms one message by DES in place, as [`crate::modes::crypt_blocks`] does.
pub(crate) fn crypt_message(key: &Key, mode: Mode, direction: Direction, iv: &[u8; 16], data: &mut [u8]) {
    modes(mode, direction, iv, data, |direction, halves| rounds(key, direction, halves));
}

/// Does the same by triple DES: the inner permutations cancel.
pub(crate) fn run_triple(key: &TripleKey, mode: Mode, direction: Direction, iv: &[u8; 16], data: &mut [u8]) {
    modes(mode, direction, iv, data, |direction, mut halves| {
        for (key, direction) in key.passes(direction) {
            halves = rounds(key, direction, halves);
        }
        halves
    });
}

/// Transforms a message in place by a function on halves.
#[inline(always)]
pub(super) fn modes(
    mode: Mode,
    direction: Direction,
    iv: &[u8; 16],
    data: &mut [u8],
    crypt: impl Fn(Direction, Halves) -> Halves,
) {
    let first = iv.as_chunks().0[0];
    let xor = |a: Halves, b: Halves| [a[0] ^ b[0], a[1] ^ b[1]];
    let mut chain = permuted(first);
    let (blocks, tail) = data.as_chunks_mut::<8>();
    match (mode, direction) {
        (Mode::Ecb, _) => {
            for block in blocks {
                *block = unpermuted(crypt(direction, permuted(*block)));
            }
        }
        (Mode::Cbc, Direction::Encrypt) => {
            for block in blocks {
                chain = crypt(Direction::Encrypt, xor(permuted(*block), chain));
                *block = unpermuted(chain);
            }
        }
        (Mode::Cbc, Direction::Decrypt) => {
            for block in blocks {
                let sealed = permuted(*block);
                *block = unpermuted(xor(crypt(Direction::Decrypt, sealed), chain));
                chain = sealed;
            }
        }
        (Mode::Ctr, _) => {
            let mut counter = u64::from_be_bytes(first);
            let mut next = || {
                let stream = unpermuted(crypt(Direction::Encrypt, permuted(counter.to_be_bytes())));
                counter = counter.wrapping_add(1);
                stream
            };
            for block in blocks {
                *block = (u64::from_ne_bytes(*block) ^ u64::from_ne_bytes(next())).to_ne_bytes();
            }
            if !tail.is_empty() {
                for (byte, stream) in tail.iter_mut().zip(next()) {
                    *byte ^= stream;
                }
            }
        }
    }
}
