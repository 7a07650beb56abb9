//! SHA-1 as FIPS 180-4 section 6.1.2 defines it.

use super::CONSTANTS;
use crate::word::{Plain, Region, Word};

/// Absorbs one block.
pub(crate) fn compress<W: Word>(state: &mut [u32; 8], block: &[u8; 64]) {
    let mut w = [W::imm(0); 80];
    for (t, (w, bytes)) in w.iter_mut().zip(block.as_chunks().0).enumerate() {
        *w = W::load(Region::Message.word(t), u32::from_be_bytes(*bytes));
    }
    for t in 16..80 {
        w[t] = (w[t - 3] ^ w[t - 8] ^ w[t - 14] ^ w[t - 16]).rotl(1);
    }
    let start: [W; 5] = core::array::from_fn(|i| W::load(Region::State.word(i), state[i]));
    let [mut a, mut b, mut c, mut d, mut e] = start;
    for t in 0..80 {
        let f = match t / 20 {
            0 => (b & c) | (!b & d),
            2 => (b & c) | (b & d) | (c & d),
            _ => b ^ c ^ d,
        };
        let next = a.rotl(5) + f + e + W::imm(CONSTANTS[t / 20]) + w[t];
        (a, b, c, d, e) = (next, a, b.rotl(30), c, d);
    }
    for (i, word) in [a, b, c, d, e].into_iter().enumerate() {
        state[i] = (start[i] + word).store(Region::State.word(i));
    }
    W::branch(true);
}

/// Absorbs whole blocks.
pub(crate) fn blocks(state: &mut [u32; 8], data: &[u8]) {
    for block in data.as_chunks().0 {
        compress::<Plain>(state, block);
    }
}
