//! Keccak by its definition, one state at a time: the oracle.
//!
//! No branch and no address depends on the bytes of a message, only on its length.

use super::{LAST_BIT, ROTATIONS, ROUND_CONSTANTS, ROUNDS, Sponge};
use zeroize::Zeroize as _;

/// Keccak-p\[1600, `rounds`\], FIPS 202 section 3.3: the last rounds; the word at (x, y) has the index `5y + x`.
pub(crate) fn permute(a: &mut [u64; 25], rounds: usize) {
    for &constant in &ROUND_CONSTANTS[ROUNDS - rounds..] {
        // Theta.
        let parity: [u64; 5] = core::array::from_fn(|x| (0..5).fold(0, |sum, y| sum ^ a[5 * y + x]));
        for (at, word) in a.iter_mut().enumerate() {
            let x = at % 5;
            *word ^= parity[(x + 4) % 5] ^ parity[(x + 1) % 5].rotate_left(1);
        }
        // Rho and pi.
        let mut b = [0; 25];
        for y in 0..5 {
            for x in 0..5 {
                b[5 * ((2 * x + 3 * y) % 5) + y] = a[5 * y + x].rotate_left(ROTATIONS[5 * y + x]);
            }
        }
        // Chi.
        for y in 0..5 {
            for x in 0..5 {
                a[5 * y + x] = b[5 * y + x] ^ (!b[5 * y + (x + 1) % 5] & b[5 * y + (x + 2) % 5]);
            }
        }
        // Iota.
        a[0] ^= constant;
    }
}

/// A sponge that has absorbed a message and gives bytes, as many as are asked for.
pub(crate) struct Squeezing {
    sponge: Sponge,
    state: [u64; 25],
    given: usize,
}

impl Squeezing {
    /// Absorbs `parts`, one after the other.
    pub(crate) fn new(sponge: Sponge, parts: &[&[u8]]) -> Self {
        let mut state = [0; 25];
        let mut at = 0;
        let put =
            |state: &mut [u64; 25], at: usize, byte: u8| state[at / 8] ^= u64::from(byte) << (8 * (at % 8));
        for &byte in parts.iter().copied().flatten() {
            put(&mut state, at, byte);
            at += 1;
            if at == sponge.rate_bytes {
                permute(&mut state, sponge.rounds);
                at = 0;
            }
        }
        put(&mut state, at, sponge.suffix);
        put(&mut state, sponge.rate_bytes - 1, LAST_BIT);
        permute(&mut state, sponge.rounds);
        Self { sponge, state, given: 0 }
    }

    /// Writes the next bytes of the output.
    pub(crate) fn squeeze(&mut self, output: &mut [u8]) {
        for byte in output {
            if self.given == self.sponge.rate_bytes {
                permute(&mut self.state, self.sponge.rounds);
                self.given = 0;
            }
            *byte = (self.state[self.given / 8] >> (8 * (self.given % 8))) as u8;
            self.given += 1;
        }
    }
}

impl Drop for Squeezing {
    fn drop(&mut self) {
        self.state.zeroize();
    }
}

/// Returns the first `N` bytes of a sponge's output over `parts`, one after the other.
pub(crate) fn hash<const N: usize>(sponge: Sponge, parts: &[&[u8]]) -> [u8; N] {
    let mut output = [0; N];
    Squeezing::new(sponge, parts).squeeze(&mut output);
    output
}
