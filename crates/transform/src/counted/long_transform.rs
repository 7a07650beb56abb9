//! NTT of ML-DSA (FIPS 204, algorithm 41), as in `ml_dsa::reference`: coefficients lie in memory, and grow by at most twice the
//! modulus with each layer, so that a butterfly multiplies by Montgomery's method and reduces nothing else.

use super::word;
use crate::ml_dsa::reference::ZETAS;
use crate::word::{Region, Word};

/// Coefficients of a polynomial.
const N: usize = 256;
/// The modulus.
const Q: u32 = (1 << 23) - (1 << 13) + 1;

/// Q^-1 modulo 2^32.
const INVERSE: u32 = {
    let (mut inverse, mut bits) = (1_u32, 1);
    while bits < 32 {
        inverse = inverse.wrapping_mul(2_u32.wrapping_sub(Q.wrapping_mul(inverse)));
        bits *= 2;
    }
    inverse
};

/// The zetas times 2^32.
const MULTIPLIERS: [u32; N] = {
    let (mut all, mut i) = ([0; N], 0);
    while i < N {
        all[i] = (((ZETAS[i] as u64) << 32) % Q as u64) as u32;
        i += 1;
    }
    all
};

/// Returns ab / 2^32 modulo Q, between 0 and 2 Q, if the product is below 2^32 Q.
fn times<W: Word>(a: W, b: W) -> W {
    let (low, high) = (a.mul(b), a.mul_high(b));
    let multiple = low.mul(W::imm(INVERSE)).mul_high(W::imm(Q));
    (high + W::imm(Q)).sub(multiple)
}

/// Transforms a polynomial of coefficients below Q. The coefficients that it leaves are below 17 Q.
pub(super) fn transform<W: Word>(w: &mut [u32; N]) {
    let place = |i: usize| Region::Key.word(i);
    let (mut m, mut length) = (0, 128);
    while length >= 1 {
        for start in (0..N).step_by(2 * length) {
            m += 1;
            let zeta = W::load(Region::Table("zetas").word(m), MULTIPLIERS[m]);
            for j in start..start + length {
                let (low, high) = (W::load(place(j), w[j]), W::load(place(j + length), w[j + length]));
                let t = times(zeta, high);
                w[j + length] = (low + W::imm(2 * Q)).sub(t).store(place(j + length));
                w[j] = (low + t).store(place(j));
                W::branch(j + 1 < start + length);
            }
            W::branch(start + 2 * length < N);
        }
        length /= 2;
        W::branch(length >= 1);
    }
}

/// Transforms a sample.
pub(super) fn sample<W: Word>() {
    transform::<W>(&mut core::array::from_fn(|i| word(3, i) % Q));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counted::PUBLIC_LOOPS;
    use crate::ml_dsa::reference::ntt;
    use crate::word::{Mix, Plain};

    #[test]
    fn the_transform_is_the_references() {
        for seed in 0..4 {
            // The last has the largest coefficients.
            let mut expected: [u32; N] =
                core::array::from_fn(|i| if seed == 3 { Q - 1 } else { word(seed, i) % Q });
            let mut found = expected;
            ntt(&mut expected);
            transform::<Plain>(&mut found);
            assert!(found.iter().all(|&value| value < 17 * Q));
            assert_eq!(found.map(|value| value % Q), expected, "seed {seed}");
        }
    }

    #[test]
    fn a_butterfly_multiplies_four_times() {
        let one = PUBLIC_LOOPS.iter().find(|one| one.name == "ml-dsa-65, NTT").expect("the loop");
        let mut mix = Mix::default();
        one.trace(|event| mix.add(event));
        assert_eq!(mix.complex_alu, 8 * 128 * 4);
    }
}
