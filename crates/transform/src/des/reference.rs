//! DES with the S-boxes and P folded into eight tables of 64 words: the 2 KB form of NPCryptBench's table.

use super::{Key, P, TripleKey, s_box};
use crate::modes::Direction;
use crate::word::{Plain, Region, Word};

/// `SP[i][six]` is the output of S-box i in its place after P.
pub(crate) const SP: [[u32; 64]; 8] = {
    let mut tables = [[0; 64]; 8];
    let mut number = 0;
    while number < 8 {
        let mut six = 0;
        while six < 64 {
            let before = (s_box(number, six) as u32) << (28 - 4 * number);
            let mut bit = 0;
            while bit < 32 {
                tables[number][six] |= (before >> (32 - P[bit]) & 1) << (31 - bit);
                bit += 1;
            }
            six += 1;
        }
        number += 1;
    }
    tables
};

/// Exchanges the bits of `a >> by` and `b` under a mask.
fn exchange<W: Word>(a: &mut W, b: &mut W, by: u32, mask: u32) {
    let differ = (a.shr(by) ^ *b) & W::imm(mask);
    *b = *b ^ differ;
    *a = *a ^ differ.shl(by);
}

/// Applies the initial permutation.
pub(crate) fn initial<W: Word>(left: &mut W, right: &mut W) {
    exchange(left, right, 4, 0x0f0f_0f0f);
    exchange(left, right, 16, 0x0000_ffff);
    exchange(right, left, 2, 0x3333_3333);
    exchange(right, left, 8, 0x00ff_00ff);
    exchange(left, right, 1, 0x5555_5555);
}

/// Applies the inverse of the initial permutation.
pub(crate) fn last<W: Word>(left: &mut W, right: &mut W) {
    exchange(left, right, 1, 0x5555_5555);
    exchange(right, left, 8, 0x00ff_00ff);
    exchange(right, left, 2, 0x3333_3333);
    exchange(left, right, 16, 0x0000_ffff);
    exchange(left, right, 4, 0x0f0f_0f0f);
}

/// Runs sixteen rounds between the permutations; the halves come out swapped, as in the standard.
fn rounds<W: Word>(key: &Key, direction: Direction, left: &mut W, right: &mut W) {
    for round in 0..16 {
        let at = match direction {
            Direction::Encrypt => round,
            Direction::Decrypt => 15 - round,
        };
        let part = |odd: usize| W::load(Region::Key.word(2 * at + odd), key.merged[at][odd]);
        // Row `number` of E is six neighbouring bits of R: four rows are in one word, four in its rotation.
        let (even, odd) = (right.rotl(5) ^ part(0), right.rotl(9) ^ part(1));
        let mut f = *left;
        for (word, numbers) in [(even, [0, 6, 4, 2]), (odd, [1, 7, 5, 3])] {
            for (place, number) in numbers.into_iter().enumerate() {
                let six = if place == 0 { word } else { word.shr(8 * place as u32) } & W::imm(0x3f);
                f = f ^ W::lookup("SP", 64 * number, &SP[number], six);
            }
        }
        (*left, *right) = (*right, f);
        W::branch(round != 15);
    }
    (*left, *right) = (*right, *left);
}

fn halves<W: Word>(block: &[u8; 8]) -> (W, W) {
    let block = u64::from_be_bytes(*block);
    (W::load(Region::Message.word(0), (block >> 32) as u32), W::load(Region::Message.word(1), block as u32))
}

fn joined<W: Word>(left: W, right: W) -> [u8; 8] {
    let (high, low) = (left.store(Region::Message.word(0)), right.store(Region::Message.word(1)));
    (u64::from(high) << 32 | u64::from(low)).to_be_bytes()
}

/// Transforms one block.
pub(crate) fn crypt<W: Word>(key: &Key, direction: Direction, block: &mut [u8; 8]) {
    let (mut left, mut right) = halves::<W>(block);
    initial(&mut left, &mut right);
    rounds(key, direction, &mut left, &mut right);
    last(&mut left, &mut right);
    *block = joined(left, right);
}

/// Transforms one block by triple DES: the inner permutations cancel.
pub(crate) fn crypt_triple<W: Word>(key: &TripleKey, direction: Direction, block: &mut [u8; 8]) {
    let (mut left, mut right) = halves::<W>(block);
    initial(&mut left, &mut right);
    for (key, direction) in key.passes(direction) {
        rounds(key, direction, &mut left, &mut right);
    }
    last(&mut left, &mut right);
    *block = joined(left, right);
}

/// Transforms one block, without counting operations.
pub(crate) fn plain(key: &Key, direction: Direction, block: &mut [u8; 8]) {
    crypt::<Plain>(key, direction, block);
}

/// Transforms one block by triple DES, without counting.
pub(crate) fn plain_triple(key: &TripleKey, direction: Direction, block: &mut [u8; 8]) {
    crypt_triple::<Plain>(key, direction, block);
}
