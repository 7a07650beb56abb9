//! SHA-512 as FIPS 180-4 section 6.4.2 defines it.

use super::{BLOCK, CONSTANTS};

/// Absorbs whole blocks.
pub(crate) fn blocks(state: &mut [u64; 8], data: &[u8]) {
    for block in data.as_chunks::<BLOCK>().0 {
        compress(state, block);
    }
}

fn compress(state: &mut [u64; 8], block: &[u8; BLOCK]) {
    let mut w = [0u64; 80];
    for (w, bytes) in w.iter_mut().zip(block.as_chunks().0) {
        *w = u64::from_be_bytes(*bytes);
    }
    for t in 16..80 {
        let sigma_0 = w[t - 15].rotate_right(1) ^ w[t - 15].rotate_right(8) ^ (w[t - 15] >> 7);
        let sigma_1 = w[t - 2].rotate_right(19) ^ w[t - 2].rotate_right(61) ^ (w[t - 2] >> 6);
        w[t] = sigma_1.wrapping_add(w[t - 7]).wrapping_add(sigma_0).wrapping_add(w[t - 16]);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for t in 0..80 {
        let sum_1 = e.rotate_right(14) ^ e.rotate_right(18) ^ e.rotate_right(41);
        let choose = (e & f) ^ (!e & g);
        let first = h.wrapping_add(sum_1).wrapping_add(choose).wrapping_add(CONSTANTS[t]).wrapping_add(w[t]);
        let sum_0 = a.rotate_right(28) ^ a.rotate_right(34) ^ a.rotate_right(39);
        let majority = (a & b) ^ (a & c) ^ (b & c);
        let second = sum_0.wrapping_add(majority);
        (h, g, f, e, d, c, b, a) = (g, f, e, d.wrapping_add(first), c, b, a, first.wrapping_add(second));
    }
    for (word, made) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(made);
    }
}
