//! DES with the S-boxes and P folded into eight tables of 64 words: the 2 KB form of NPCryptBench's table.

use super::{Key, P, TripleKey, s_box};
use crate::job::Direction;
use crate::word::{Plain, Word};

/// `SP[i][six]`: the output of S-box i in its place after P.
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

/// The initial permutation.
pub(crate) fn initial<W: Word>(left: &mut W, right: &mut W) {
    exchange(left, right, 4, 0x0f0f_0f0f);
    exchange(left, right, 16, 0x0000_ffff);
    exchange(right, left, 2, 0x3333_3333);
    exchange(right, left, 8, 0x00ff_00ff);
    exchange(left, right, 1, 0x5555_5555);
}

/// The inverse of the initial permutation.
pub(crate) fn last<W: Word>(left: &mut W, right: &mut W) {
    exchange(left, right, 1, 0x5555_5555);
    exchange(right, left, 8, 0x00ff_00ff);
    exchange(right, left, 2, 0x3333_3333);
    exchange(left, right, 16, 0x0000_ffff);
    exchange(left, right, 4, 0x0f0f_0f0f);
}

/// Sixteen rounds between the permutations; the halves come out swapped, as the standard has it.
fn rounds<W: Word>(key: &Key, direction: Direction, left: &mut W, right: &mut W) {
    for round in 0..16 {
        let mut f = W::imm(0);
        for (number, part) in key.round(round, direction).iter().enumerate() {
            // Row `number` of E is six neighbouring bits of R.
            let six = right.rotl(4 * number as u32 + 5) & W::imm(0x3f);
            f = f ^ W::lookup("SP", &SP[number], six ^ W::load(u32::from(*part)));
        }
        (*left, *right) = (*right, *left ^ f);
        W::branch();
    }
    (*left, *right) = (*right, *left);
}

fn halves<W: Word>(block: &[u8; 8]) -> (W, W) {
    let block = u64::from_be_bytes(*block);
    (W::load((block >> 32) as u32), W::load(block as u32))
}

/// One block.
pub(crate) fn crypt<W: Word>(key: &Key, direction: Direction, block: &mut [u8; 8]) {
    let (mut left, mut right) = halves::<W>(block);
    initial(&mut left, &mut right);
    rounds(key, direction, &mut left, &mut right);
    last(&mut left, &mut right);
    *block = (u64::from(left.store()) << 32 | u64::from(right.store())).to_be_bytes();
}

/// One block of triple DES: the inner permutations cancel.
pub(crate) fn crypt_triple<W: Word>(key: &TripleKey, direction: Direction, block: &mut [u8; 8]) {
    let (mut left, mut right) = halves::<W>(block);
    initial(&mut left, &mut right);
    for (key, direction) in key.passes(direction) {
        rounds(key, direction, &mut left, &mut right);
    }
    last(&mut left, &mut right);
    *block = (u64::from(left.store()) << 32 | u64::from(right.store())).to_be_bytes();
}

/// One block, not counted.
pub(crate) fn plain(key: &Key, direction: Direction, block: &mut [u8; 8]) {
    crypt::<Plain>(key, direction, block);
}

/// One block of triple DES, not counted.
pub(crate) fn plain_triple(key: &TripleKey, direction: Direction, block: &mut [u8; 8]) {
    crypt_triple::<Plain>(key, direction, block);
}
