//! RC5-32 with 12 or 16 rounds, RFC 2040.

pub(crate) mod lanes;
pub(crate) mod reference;

use zeroize::{Zeroize, ZeroizeOnDrop};

const P: u32 = 0xb7e1_5163;
const Q: u32 = 0x9e37_79b9;

/// Mixes a key of up to 255 bytes into `table`, three passes over the longer of the two; RC6 does the same.
pub(crate) fn expand(key: &[u8], table: &mut [u32]) {
    let mut words = [0u32; 64];
    for (i, byte) in key.iter().enumerate() {
        words[i / 4] |= u32::from(*byte) << (8 * (i % 4));
    }
    let used = key.len().div_ceil(4).max(1);
    for (i, word) in table.iter_mut().enumerate() {
        *word = P.wrapping_add(Q.wrapping_mul(i as u32));
    }
    let (mut a, mut b, mut i, mut j) = (0u32, 0u32, 0, 0);
    for _ in 0..3 * table.len().max(used) {
        a = table[i].wrapping_add(a).wrapping_add(b).rotate_left(3);
        table[i] = a;
        let sum = a.wrapping_add(b);
        b = words[j].wrapping_add(sum).rotate_left(sum & 31);
        words[j] = b;
        i = (i + 1) % table.len();
        j = (j + 1) % used;
    }
    words.zeroize();
}

/// An expanded key.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct Key {
    /// 12 or 16.
    pub(crate) rounds: usize,
    /// The table S, 2 * rounds + 2 words of it in use.
    pub(crate) table: [u32; 34],
}

impl Key {
    pub(crate) fn new(key: &[u8], rounds: usize) -> Self {
        let mut table = [0; 34];
        expand(key, &mut table[..2 * rounds + 2]);
        Self { rounds, table }
    }
}
