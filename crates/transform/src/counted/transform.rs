//! NTT of ML-KEM (FIPS 203, algorithm 9), as in `ml_kem::reference`: coefficients lie in memory.

use crate::ml_kem::reference::ZETAS;
use crate::ml_kem::{N, Q};
use crate::word::{Region, Word};

/// 2^36 / q, rounded up.
const RECIPROCAL: u32 = ((1 << 36) / Q as u64 + 1) as u32;

/// Returns a value below 2^24 modulo q.
fn rest<W: Word>(value: W) -> W {
    let quotient = value.mul_high(W::imm(RECIPROCAL)).shr(4);
    value.sub(quotient.mul(W::imm(u32::from(Q))))
}

/// Transforms a polynomial.
pub(super) fn transform<W: Word>(f: &mut [u32; N]) {
    let place = |i: usize| Region::Key.word(i);
    let (mut i, mut length) = (1, 128);
    while length >= 2 {
        for start in (0..N).step_by(2 * length) {
            let zeta = W::load(Region::Table("zetas").word(i), ZETAS[i].into());
            i += 1;
            for j in start..start + length {
                let (low, high) = (W::load(place(j), f[j]), W::load(place(j + length), f[j + length]));
                let t = rest(zeta.mul(high));
                f[j + length] = rest(low + W::imm(u32::from(Q)).sub(t)).store(place(j + length));
                f[j] = rest(low + t).store(place(j));
                W::branch(j + 1 < start + length);
            }
            W::branch(start + 2 * length < N);
        }
        length /= 2;
        W::branch(length >= 2);
    }
}

/// Transforms a sample.
pub(super) fn sample<W: Word>() {
    transform::<W>(&mut core::array::from_fn(|i| i as u32 * 13 % u32::from(Q)));
}
