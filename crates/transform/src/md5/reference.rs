//! MD5 as RFC 1321 section 3.4 defines it.

use super::{SHIFTS, SINES, word_of};
use crate::word::{Plain, Region, Word};

/// Absorbs one block.
pub(crate) fn compress<W: Word>(state: &mut [u32; 8], block: &[u8; 64]) {
    let x: [W; 16] = core::array::from_fn(|i| {
        W::load(Region::Message.word(i), u32::from_le_bytes(block.as_chunks().0[i]))
    });
    let [aa, bb, cc, dd] = core::array::from_fn(|i| W::load(Region::State.word(i), state[i]));
    let (mut a, mut b, mut c, mut d) = (aa, bb, cc, dd);
    for step in 0..64 {
        let mixed = match step / 16 {
            0 => (b & c) | (!b & d),
            1 => (b & d) | (c & !d),
            2 => b ^ c ^ d,
            _ => c ^ (b | !d),
        };
        let sum = a + mixed + x[word_of(step)] + W::imm(SINES[step]);
        let rotated = b + sum.rotl(SHIFTS[step / 16][step % 4] as u32);
        (a, b, c, d) = (d, rotated, b, c);
    }
    state[0] = (aa + a).store(Region::State.word(0));
    state[1] = (bb + b).store(Region::State.word(1));
    state[2] = (cc + c).store(Region::State.word(2));
    state[3] = (dd + d).store(Region::State.word(3));
    W::branch(true);
}

/// Absorbs whole blocks.
pub(crate) fn blocks(state: &mut [u32; 8], data: &[u8]) {
    for block in data.as_chunks().0 {
        compress::<Plain>(state, block);
    }
}
