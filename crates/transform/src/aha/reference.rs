//! `aha-i`, block by block.

use crate::md5::{SHIFTS, SINES, word_of};
use crate::word::{Plain, Region, Word};

/// Absorbs block `number` of the message.
pub(crate) fn absorb<W: Word>(chains: &mut [[u32; 4]; 4], number: usize, block: &[u8; 64]) {
    let x: [W; 16] = core::array::from_fn(|i| {
        W::load(Region::Message.word(i), u32::from_le_bytes(block.as_chunks().0[i]))
    });
    let round = number / 4 % 4;
    let state = &mut chains[number % 4];
    let start: [W; 4] = core::array::from_fn(|i| W::load(Region::State.word(i), state[i]));
    let [mut a, mut b, mut c, mut d] = start;
    for step in 16 * round..16 * round + 16 {
        let mixed = match round {
            0 => (b & c) | (!b & d),
            1 => (b & d) | (c & !d),
            2 => b ^ c ^ d,
            _ => c ^ (b | !d),
        };
        let sum = a + mixed + x[word_of(step)] + W::imm(SINES[step]);
        let rotated = b + sum.rotl(SHIFTS[round][step % 4] as u32);
        (a, b, c, d) = (d, rotated, b, c);
    }
    for (i, word) in [a, b, c, d].into_iter().enumerate() {
        state[i] = (start[i] + word).store(Region::State.word(i));
    }
    W::branch(true);
}

/// Absorbs whole blocks.
pub(crate) fn blocks(chains: &mut [[u32; 4]; 4], first: usize, data: &[u8]) {
    for (i, block) in data.as_chunks().0.iter().enumerate() {
        absorb::<Plain>(chains, first + i, block);
    }
}
