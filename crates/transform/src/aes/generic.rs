//! AES with four tables a direction (8 KB), S-box, row shift and column mixing in one look-up.
//!
//! Leaks key and data through the cache; the native and batch tiers do not.

use super::{INVERSE_S, Key, S, times_x};
use crate::job::Direction;

/// `TABLE[i][byte]`: what a byte of row i adds to its column, little-endian.
const fn tables(s: &[u8; 256], mix: [u8; 4]) -> [[u32; 256]; 4] {
    let mut tables = [[0; 256]; 4];
    let mut i = 0;
    while i < 256 {
        let mut column = [0; 4];
        let mut j = 0;
        while j < 4 {
            column[j] = times(s[i], mix[j]);
            j += 1;
        }
        let word = u32::from_le_bytes(column);
        let mut row = 0;
        while row < 4 {
            tables[row][i] = word.rotate_left(8 * row as u32);
            row += 1;
        }
        i += 1;
    }
    tables
}

const fn times(byte: u8, by: u8) -> u8 {
    let two = times_x(byte);
    let four = times_x(two);
    let eight = times_x(four);
    ((by & 1) * byte) ^ ((by >> 1 & 1) * two) ^ ((by >> 2 & 1) * four) ^ ((by >> 3 & 1) * eight)
}

static ENCRYPT: [[u32; 256]; 4] = tables(&S, [2, 1, 1, 3]);
static DECRYPT: [[u32; 256]; 4] = tables(&INVERSE_S, [14, 9, 13, 11]);

fn columns(bytes: &[u8; 16]) -> [u32; 4] {
    core::array::from_fn(|i| u32::from_le_bytes([0, 1, 2, 3].map(|j| bytes[4 * i + j])))
}

/// `STEP` is where row 1 comes from: the next column when encrypting, the one before when decrypting.
#[inline(always)]
fn rounds<const STEP: usize>(
    keys: &[[u8; 16]],
    tables: &[[u32; 256]; 4],
    last: &[u8; 256],
    block: &mut [u8; 16],
) {
    let (Some((first, middle)), true) = (keys.split_first(), keys.len() >= 2) else { return };
    let (mut s, key) = (columns(block), columns(first));
    for (word, key) in s.iter_mut().zip(key) {
        *word ^= key;
    }
    for key in &middle[..middle.len() - 1] {
        let key = columns(key);
        s = core::array::from_fn(|i| {
            let byte = |row: usize| (s[(i + STEP * row) % 4] >> (8 * row)) as usize & 255;
            tables[0][byte(0)] ^ tables[1][byte(1)] ^ tables[2][byte(2)] ^ tables[3][byte(3)] ^ key[i]
        });
    }
    let key = columns(&middle[middle.len() - 1]);
    for i in 0..4 {
        let byte =
            |row: usize| u32::from(last[(s[(i + STEP * row) % 4] >> (8 * row)) as usize & 255]) << (8 * row);
        let word = byte(0) | byte(1) | byte(2) | byte(3);
        block[4 * i..4 * i + 4].copy_from_slice(&(word ^ key[i]).to_le_bytes());
    }
}

/// One block.
pub(crate) fn crypt(key: &Key, direction: Direction, block: &mut [u8; 16]) {
    match direction {
        Direction::Encrypt => rounds::<1>(&key.encrypt[..=key.rounds], &ENCRYPT, &S, block),
        Direction::Decrypt => rounds::<3>(&key.decrypt[..=key.rounds], &DECRYPT, &INVERSE_S, block),
    }
}
