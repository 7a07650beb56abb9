//! SHA-256 as FIPS 180-4 section 6.2.2 defines it.

use super::CONSTANTS;
use crate::word::{Plain, Region, Word};

fn rotr<W: Word>(x: W, by: u32) -> W {
    x.rotl(32 - by)
}

/// Absorbs one block.
pub(crate) fn compress<W: Word>(state: &mut [u32; 8], block: &[u8; 64]) {
    let mut w = [W::imm(0); 64];
    for (t, (w, bytes)) in w.iter_mut().zip(block.as_chunks().0).enumerate() {
        *w = W::load(Region::Message.word(t), u32::from_be_bytes(*bytes));
    }
    for t in 16..64 {
        let s0 = rotr(w[t - 15], 7) ^ rotr(w[t - 15], 18) ^ w[t - 15].shr(3);
        let s1 = rotr(w[t - 2], 17) ^ rotr(w[t - 2], 19) ^ w[t - 2].shr(10);
        w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
    let start: [W; 8] = core::array::from_fn(|i| W::load(Region::State.word(i), state[i]));
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = start;
    for t in 0..64 {
        let big_s1 = rotr(e, 6) ^ rotr(e, 11) ^ rotr(e, 25);
        let choose = (e & f) ^ (!e & g);
        let t1 = h + big_s1 + choose + W::imm(CONSTANTS[t]) + w[t];
        let big_s0 = rotr(a, 2) ^ rotr(a, 13) ^ rotr(a, 22);
        let majority = (a & b) ^ (a & c) ^ (b & c);
        let t2 = big_s0 + majority;
        (a, b, c, d, e, f, g, h) = (t1 + t2, a, b, c, d + t1, e, f, g);
    }
    for (i, word) in [a, b, c, d, e, f, g, h].into_iter().enumerate() {
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
