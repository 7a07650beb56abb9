//! Keccak-f\[1600\] on halves of its words, as in `keccak::reference`: the state lies in registers.

use super::word;
use crate::keccak::{ROTATIONS, ROUND_CONSTANTS, ROUNDS};
use crate::word::{Region, Word};

/// A word of 64 bits: its lower and its upper half.
pub(super) type Pair<W> = [W; 2];

fn xor<W: Word>(a: Pair<W>, b: Pair<W>) -> Pair<W> {
    [a[0] ^ b[0], a[1] ^ b[1]]
}

/// Returns the word rotated left.
fn rotate<W: Word>([low, high]: Pair<W>, by: u32) -> Pair<W> {
    let [low, high] = if by < 32 { [low, high] } else { [high, low] };
    match by % 32 {
        0 => [low, high],
        by => [low.shl_pair(high, by), high.shl_pair(low, by)],
    }
}

/// Permutes a state.
pub(super) fn permute<W: Word>(a: &mut [Pair<W>; 25]) {
    for (round, constant) in ROUND_CONSTANTS.into_iter().enumerate() {
        let parity: [Pair<W>; 5] =
            core::array::from_fn(|x| (1..5).fold(a[x], |sum, y| xor(sum, a[5 * y + x])));
        let change: [Pair<W>; 5] =
            core::array::from_fn(|x| xor(parity[(x + 4) % 5], rotate(parity[(x + 1) % 5], 1)));
        for (at, word) in a.iter_mut().enumerate() {
            *word = xor(*word, change[at % 5]);
        }
        let mut b = *a;
        for y in 0..5 {
            for x in 0..5 {
                b[5 * ((2 * x + 3 * y) % 5) + y] = rotate(a[5 * y + x], ROTATIONS[5 * y + x]);
            }
        }
        for y in 0..5 {
            for x in 0..5 {
                let [one, two] = [1, 2].map(|by| b[5 * y + (x + by) % 5]);
                a[5 * y + x] = xor(b[5 * y + x], [!one[0] & two[0], !one[1] & two[1]]);
            }
        }
        a[0] = xor(a[0], [W::imm(constant as u32), W::imm((constant >> 32) as u32)]);
        W::branch(round + 1 < ROUNDS);
    }
}

/// Permutes a sample.
pub(super) fn sample<W: Word>() {
    let half = |i: usize| W::load(Region::State.word(i), word(1, i));
    permute(&mut core::array::from_fn(|i| [half(2 * i), half(2 * i + 1)]));
}
