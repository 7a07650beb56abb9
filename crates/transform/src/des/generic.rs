//! DES with double S-boxes: four tables of 4096 words (64 KB), two S-boxes and P in one look-up.
//!
//! Leaks key and data through the cache, as every table implementation does.

use super::reference::{SP, initial, last};
use super::{Key, TripleKey};
use crate::job::Direction;
use crate::word::{Plain, Word as _};

/// `DOUBLE[i][twelve]`: S-boxes 2i and 2i + 1 after P.
static DOUBLE: [[u32; 4096]; 4] = {
    let mut tables = [[0; 4096]; 4];
    let mut pair = 0;
    while pair < 4 {
        let mut twelve = 0;
        while twelve < 4096 {
            tables[pair][twelve] = SP[2 * pair][twelve >> 6] | SP[2 * pair + 1][twelve & 63];
            twelve += 1;
        }
        pair += 1;
    }
    tables
};

/// Ten neighbouring bits of R hold two rows of E; this spreads them to twelve.
#[inline(always)]
fn f(right: u32, part: &[u8; 8]) -> u32 {
    let mut out = 0;
    for pair in 0..4 {
        let ten = right.rotate_left(8 * pair as u32 + 9);
        // Rows share two bits: the upper row is bits 9..4 of the ten, the lower row bits 5..0.
        let spread = (ten << 2 & 0xfc0) | (ten & 0x3f);
        let key = u32::from(part[2 * pair]) << 6 | u32::from(part[2 * pair + 1]);
        out ^= DOUBLE[pair][(spread ^ key) as usize & 4095];
    }
    out
}

#[inline(always)]
fn rounds(key: &Key, direction: Direction, left: &mut u32, right: &mut u32) {
    for round in (0..16).step_by(2) {
        *left ^= f(*right, key.round(round, direction));
        *right ^= f(*left, key.round(round + 1, direction));
    }
    core::mem::swap(left, right);
}

fn permuted(block: &[u8; 8]) -> (u32, u32) {
    let block = u64::from_be_bytes(*block);
    let (mut left, mut right) = (Plain::load((block >> 32) as u32), Plain::load(block as u32));
    initial(&mut left, &mut right);
    (left.bits(), right.bits())
}

fn unpermuted(left: u32, right: u32) -> [u8; 8] {
    let (mut left, mut right) = (Plain::load(left), Plain::load(right));
    last(&mut left, &mut right);
    (u64::from(left.bits()) << 32 | u64::from(right.bits())).to_be_bytes()
}

/// One block.
pub(crate) fn crypt(key: &Key, direction: Direction, block: &mut [u8; 8]) {
    let (mut left, mut right) = permuted(block);
    rounds(key, direction, &mut left, &mut right);
    *block = unpermuted(left, right);
}

/// One block of triple DES.
pub(crate) fn crypt_triple(key: &TripleKey, direction: Direction, block: &mut [u8; 8]) {
    let (mut left, mut right) = permuted(block);
    for (key, direction) in key.passes(direction) {
        rounds(key, direction, &mut left, &mut right);
    }
    *block = unpermuted(left, right);
}
