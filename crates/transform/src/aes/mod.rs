//! AES, FIPS 197, with 128-, 192- and 256-bit keys.

pub(crate) mod generic;
#[cfg(target_arch = "x86_64")]
pub(crate) mod lanes;
#[cfg(target_arch = "x86_64")]
pub(crate) mod ni;
pub(crate) mod reference;
pub(crate) mod tables;
#[cfg(target_arch = "x86_64")]
pub(crate) mod vector;

use zeroize::{Zeroize, ZeroizeOnDrop};

/// Multiplication by x in GF(2^8).
pub(crate) const fn times_x(byte: u8) -> u8 {
    (byte << 1) ^ ((byte >> 7) * 0x1b)
}

/// The S-box and its inverse, from their definition: inversion in GF(2^8) and an affine map.
pub(crate) const S: [u8; 256] = {
    let mut table = [0; 256];
    // 3 generates the field: walk p through all elements and q through their inverses.
    let (mut p, mut q) = (1u8, 1u8);
    loop {
        p ^= times_x(p);
        q ^= q << 1;
        q ^= q << 2;
        q ^= q << 4;
        if q & 0x80 != 0 {
            q ^= 0x09;
        }
        table[p as usize] =
            q ^ q.rotate_left(1) ^ q.rotate_left(2) ^ q.rotate_left(3) ^ q.rotate_left(4) ^ 0x63;
        if p == 1 {
            break;
        }
    }
    table[0] = 0x63;
    table
};

/// The inverse S-box.
pub(crate) const INVERSE_S: [u8; 256] = {
    let mut table = [0; 256];
    let mut i = 0;
    while i < 256 {
        table[S[i] as usize] = i as u8;
        i += 1;
    }
    table
};

/// An expanded key.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct Key {
    /// 10, 12 or 14.
    pub(crate) rounds: usize,
    /// Round keys in the order of encryption.
    pub(crate) encrypt: [[u8; 16]; 15],
    /// Round keys of the equivalent inverse cipher (FIPS 197 section 5.3.5), in the order of decryption.
    pub(crate) decrypt: [[u8; 16]; 15],
}

impl Key {
    /// Expands 16, 24 or 32 bytes.
    pub(crate) fn new(key: &[u8]) -> Self {
        let words = key.len() / 4;
        let rounds = words + 6;
        let mut encrypt = [[0; 16]; 15];
        let flat = encrypt.as_flattened_mut();
        flat[..key.len()].copy_from_slice(key);
        let mut constant = 1;
        for i in words..4 * (rounds + 1) {
            let mut word = [0, 1, 2, 3].map(|j| flat[4 * i - 4 + j]);
            if i % words == 0 {
                word.rotate_left(1);
                word = word.map(|byte| S[usize::from(byte)]);
                word[0] ^= constant;
                constant = times_x(constant);
            } else if words == 8 && i % 8 == 4 {
                word = word.map(|byte| S[usize::from(byte)]);
            }
            for (j, byte) in word.into_iter().enumerate() {
                flat[4 * i + j] = flat[4 * (i - words) + j] ^ byte;
            }
        }
        let mut decrypt = [[0; 16]; 15];
        for round in 0..=rounds {
            decrypt[round] = encrypt[rounds - round];
            if round != 0 && round != rounds {
                for column in decrypt[round].as_chunks_mut().0 {
                    *column = inverse_mix(*column);
                }
            }
        }
        Self { rounds, encrypt, decrypt }
    }
}

/// InvMixColumns on one column.
fn inverse_mix(column: [u8; 4]) -> [u8; 4] {
    let times = |byte: u8, by: u8| {
        let (two, four) = (times_x(byte), times_x(times_x(byte)));
        let eight = times_x(four);
        (if by & 8 != 0 { eight } else { 0 })
            ^ (if by & 4 != 0 { four } else { 0 })
            ^ (if by & 2 != 0 { two } else { 0 })
            ^ (if by & 1 != 0 { byte } else { 0 })
    };
    core::array::from_fn(|i| {
        times(column[i], 14)
            ^ times(column[(i + 1) % 4], 11)
            ^ times(column[(i + 2) % 4], 13)
            ^ times(column[(i + 3) % 4], 9)
    })
}
