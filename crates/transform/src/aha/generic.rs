//! `aha-i` with its four chains side by side: four blocks per turn, sixteen steps deep.

use crate::md5::{SHIFTS, SINES, word_of};

/// Runs one round over four blocks, each with its own chain.
#[inline(always)]
fn turn<const ROUND: usize>(chains: &mut [[u32; 4]; 4], data: &[u8; 256]) {
    let mut x = [[0; 16]; 4];
    for (word, bytes) in x.as_flattened_mut().iter_mut().zip(data.as_chunks().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    let mut s = *chains;
    for step in 0..16 {
        let at = 16 * ROUND + step;
        let (a, b, c, d) = ((16 - step) % 4, (17 - step) % 4, (18 - step) % 4, (19 - step) % 4);
        for (s, x) in s.iter_mut().zip(&x) {
            let mixed = match ROUND {
                0 => (s[b] & s[c]) | (!s[b] & s[d]),
                1 => (s[b] & s[d]) | (s[c] & !s[d]),
                2 => s[b] ^ s[c] ^ s[d],
                _ => s[c] ^ (s[b] | !s[d]),
            };
            let sum = s[a].wrapping_add(mixed).wrapping_add(x[word_of(at)]).wrapping_add(SINES[at]);
            s[a] = s[b].wrapping_add(sum.rotate_left(SHIFTS[ROUND][step % 4] as u32));
        }
    }
    for (chain, s) in chains.iter_mut().zip(s) {
        for (word, new) in chain.iter_mut().zip(s) {
            *word = word.wrapping_add(new);
        }
    }
}

/// Absorbs whole blocks: turns of four from chain 0 on, and single blocks at the end.
pub(crate) fn blocks(chains: &mut [[u32; 4]; 4], first: usize, data: &[u8]) {
    if !first.is_multiple_of(4) {
        return super::reference::blocks(chains, first, data);
    }
    let (turns, rest) = data.as_chunks::<256>();
    for (i, data) in turns.iter().enumerate() {
        match (first / 4 + i) % 4 {
            0 => turn::<0>(chains, data),
            1 => turn::<1>(chains, data),
            2 => turn::<2>(chains, data),
            _ => turn::<3>(chains, data),
        }
    }
    super::reference::blocks(chains, first + 4 * turns.len(), rest);
}
