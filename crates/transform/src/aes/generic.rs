//! AES with four tables per direction (8 KB), which combine S-box, row shift and column mixing in one look-up.
//!
//! The look-ups leak key and data through the cache; the native and batch tiers do not.

use super::{INVERSE_S, Key, S, times_x};
use crate::modes::{Direction, Mode};

/// `TABLE[i][byte]` is the contribution of a byte of row i to its column, little-endian.
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

pub(crate) static ENCRYPT: [[u32; 256]; 4] = tables(&S, [2, 1, 1, 3]);
static DECRYPT: [[u32; 256]; 4] = tables(&INVERSE_S, [14, 9, 13, 11]);

/// Returns a block or round key as columns.
#[inline(always)]
fn columns(bytes: &[u8; 16]) -> [u32; 4] {
    let word =
        |i: usize| u32::from_le_bytes([bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]]);
    [word(0), word(1), word(2), word(3)]
}

/// Transforms one block. `STEP` is the distance of the column that row 1 is taken from: the next column when
/// encrypting, the one before when decrypting.
#[inline(always)]
fn rounds<const STEP: usize>(
    keys: &[[u8; 16]],
    tables: &[[u32; 256]; 4],
    last: &[u8; 256],
    block: [u32; 4],
) -> [u32; 4] {
    let [first, middle @ .., end] = keys else { return block };
    let xor = |a: [u32; 4], b: [u32; 4]| [a[0] ^ b[0], a[1] ^ b[1], a[2] ^ b[2], a[3] ^ b[3]];
    let mut s = xor(block, columns(first));
    for key in middle {
        let key = columns(key);
        let [t0, t1, t2, t3] = tables;
        let column = |i: usize| {
            let byte = |row: usize| usize::from((s[(i + STEP * row) % 4] >> (8 * row)) as u8);
            // The key is available long before the look-ups are.
            (t0[byte(0)] ^ key[i]) ^ t1[byte(1)] ^ (t2[byte(2)] ^ t3[byte(3)])
        };
        s = [column(0), column(1), column(2), column(3)];
    }
    let column = |i: usize| {
        let byte = |row: usize| {
            let byte = (s[(i + STEP * row) % 4] >> (8 * row)) as u8;
            u32::from(last[usize::from(byte)]) << (8 * row)
        };
        byte(0) | byte(1) | (byte(2) | byte(3))
    };
    xor([column(0), column(1), column(2), column(3)], columns(end))
}

/// Encrypts one block.
pub(crate) fn encrypt(key: &Key, block: &mut [u8; 16]) {
    crypt_message(key, Mode::Ecb, Direction::Encrypt, &[0; 16], block);
}

/// Transforms `data` in place, as [`crate::modes::crypt_blocks`] does, with chain and block in registers.
pub(crate) fn crypt_message(key: &Key, mode: Mode, direction: Direction, iv: &[u8; 16], data: &mut [u8]) {
    let (encrypt, decrypt) = (&key.encrypt[..=key.rounds], &key.decrypt[..=key.rounds]);
    let xor = |a: [u32; 4], b: [u32; 4]| [a[0] ^ b[0], a[1] ^ b[1], a[2] ^ b[2], a[3] ^ b[3]];
    let write = |block: &mut [u8; 16], words: [u32; 4]| {
        for (bytes, word) in block.as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *bytes = word.to_le_bytes();
        }
    };
    let mut chain = columns(iv);
    let (blocks, tail) = data.as_chunks_mut::<16>();
    match (mode, direction) {
        (Mode::Ecb, Direction::Encrypt) => {
            for block in blocks {
                write(block, rounds::<1>(encrypt, &ENCRYPT, &S, columns(block)));
            }
        }
        (Mode::Ecb, Direction::Decrypt) => {
            for block in blocks {
                write(block, rounds::<3>(decrypt, &DECRYPT, &INVERSE_S, columns(block)));
            }
        }
        (Mode::Cbc, Direction::Encrypt) => {
            for block in blocks {
                chain = rounds::<1>(encrypt, &ENCRYPT, &S, xor(columns(block), chain));
                write(block, chain);
            }
        }
        (Mode::Cbc, Direction::Decrypt) => {
            for block in blocks {
                let sealed = columns(block);
                write(block, xor(rounds::<3>(decrypt, &DECRYPT, &INVERSE_S, sealed), chain));
                chain = sealed;
            }
        }
        (Mode::Ctr, _) => {
            let mut counter = u128::from_be_bytes(*iv);
            let mut next = || {
                let stream = rounds::<1>(encrypt, &ENCRYPT, &S, columns(&counter.to_be_bytes()));
                counter = counter.wrapping_add(1);
                stream
            };
            for block in blocks {
                write(block, xor(columns(block), next()));
            }
            if !tail.is_empty() {
                let mut last = [0; 16];
                write(&mut last, next());
                for (byte, stream) in tail.iter_mut().zip(last) {
                    *byte ^= stream;
                }
            }
        }
    }
}
