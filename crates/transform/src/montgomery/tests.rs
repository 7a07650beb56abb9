//! Modular arithmetic side by side against plain numbers.
#![allow(unsafe_code)]

use super::reference::Modulus;
use super::*;
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// A source of reproducible words.
pub(crate) struct Source(SplitMix64);

impl Source {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    pub(crate) fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn words(&mut self, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.word()).collect()
    }
}

/// Returns odd moduli of full length: random ones and those with the longest carries.
fn moduli(words: usize, source: &mut Source) -> Vec<Modulus> {
    let mut out = vec![vec![u64::MAX; words]];
    let mut least = vec![0; words];
    (least[0], least[words - 1]) = (1, 1 << 63);
    out.push(least);
    for _ in 0..6 {
        let mut number = source.words(words);
        number[0] |= 1;
        number[words - 1] |= 1 << 63;
        out.push(number);
    }
    out.iter().map(|words| Modulus::new(words).unwrap()).collect()
}

/// Returns numbers below the modulus: 0, 1, m - 1, random ones.
fn operand(modulus: &Modulus, kind: usize, source: &mut Source) -> Vec<u64> {
    let words = modulus.words().len();
    let mut out = vec![0; words];
    match kind {
        0 => {}
        1 => out[0] = 1,
        2 => {
            out.copy_from_slice(modulus.words());
            out[0] -= 1;
        }
        _ => {
            let wide = source.words(2 * words);
            // Below m R, because m has its top bit: one bit less.
            let mut wide = wide;
            wide[2 * words - 1] >>= 1;
            out.copy_from_slice(&modulus.reduce(&wide));
        }
    }
    out
}

#[cfg(target_arch = "x86_64")]
mod ways_of_reference {
    use super::{Source, moduli, operand};
    use crate::isa::Features;
    use crate::montgomery::kernel::{Number, WAYS, zero};
    use crate::montgomery::reference::Words;
    use crate::montgomery::table::cut;
    use crate::montgomery::ways::*;
    use crate::montgomery::{AcrossConstants, Constants, reference};

    /// Runs multiplication, square, sums and powers of one length in all ways, each with its own modulus.
    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    fn run<const L: usize, const W: usize, const E: usize>(bits: usize) {
        let source = &mut Source::new(bits as u64);
        let moduli = moduli(bits / 64, source);
        let constants: Vec<_> = moduli.iter().map(|modulus| Constants::new(modulus, bits)).collect();
        let constants: [&Constants; WAYS] = core::array::from_fn(|way| &constants[way]);
        let way_moduli = Moduli::<L>::new(constants);
        let scratch = &mut Scratch::new();
        let one = gather::<L>(constants.map(|constants| &*constants.one));
        let square = gather::<L>(constants.map(|constants| &*constants.square));
        for round in 0..12 {
            let a: Vec<_> =
                moduli.iter().enumerate().map(|(n, m)| operand(m, round + n % 3, source)).collect();
            let b: Vec<_> =
                moduli.iter().enumerate().map(|(n, m)| operand(m, (round + n) % 4, source)).collect();
            let take = |numbers: &[Vec<u64>]| {
                let bytes: Vec<Vec<u8>> = numbers
                    .iter()
                    .map(|words| {
                        let mut bytes = vec![0; bits / 8];
                        reference::to_bytes(words, &mut bytes);
                        bytes
                    })
                    .collect();
                from_bytes::<L>(core::array::from_fn(|way| &*bytes[way]))
            };
            let check = |number: &Number<L>, wanted: &dyn Fn(usize) -> Words, what: &str| {
                for way in 0..WAYS {
                    let mut bytes = vec![0; bits / 8];
                    to_bytes(number, way, &mut bytes);
                    let made = reference::from_bytes(&bytes, bits / 64);
                    assert!(*made == *wanted(way), "{what}, {bits} bits, round {round}, way {way}");
                }
            };
            let (x, y) = (take(&a), take(&b));
            check(&x, &|way| a[way].clone().into(), "conversion");
            // x y / R, then times R^2 / R.
            let mut product = x;
            way_moduli.multiply(&mut product, &y, scratch);
            way_moduli.multiply(&mut product, &square, scratch);
            way_moduli.finish(&mut product);
            check(&product, &|way| moduli[way].multiply(&a[way], &b[way]), "product");
            let mut own = x;
            way_moduli.square(&mut own, scratch);
            way_moduli.multiply(&mut own, &square, scratch);
            way_moduli.finish(&mut own);
            check(&own, &|way| moduli[way].multiply(&a[way], &a[way]), "square");
            if round < 3 || round == 7 {
                // Numbers of 128 times the modulus's length of bits need no reduction first.
                let exponents: Vec<_> =
                    (0..WAYS).map(|n| if n == round { vec![0, 0] } else { source.words(2) }).collect();
                let mut digits = [[0; WAYS]; 128];
                let digits = &mut digits[..128usize.div_ceil(W)];
                for (way, exponent) in exponents.iter().enumerate() {
                    cut::<W>(exponent, way, digits);
                }
                let mut power = x;
                way_moduli.multiply(&mut power, &square, scratch);
                let mut table = [zero::<L>(); E];
                way_moduli.power::<W, E>(&mut power, &one, digits, &mut table, scratch);
                way_moduli.leave(&mut power, scratch);
                check(&power, &|way| moduli[way].power(&a[way], &exponents[way]), "power");
                assert!(table.iter().flatten().all(|v| words(*v) == [0; WAYS]), "the table is wiped");
            }
        }
    }

    /// Powers of one number across the elements, of edges and random numbers, modulo numbers with the longest carries too.
    #[test]
    fn one_number_across_the_elements_agrees_with_plain_numbers() {
        let Some(_) = Features::detect().avx512 else { return };
        let source = &mut Source::new(26);
        for bits in [1024, 1536, 2048] {
            let length = bits / 64;
            for modulus in moduli(length, source) {
                let constants = AcrossConstants::new(&modulus, bits);
                for round in 0..8 {
                    let base = operand(&modulus, round % 4, source);
                    let exponent = match round {
                        0..4 => source.words(1 + round),
                        4 => vec![0; 2],
                        5 => vec![u64::MAX; 3],
                        _ => source.words(length),
                    };
                    // SAFETY: detected.
                    let power = unsafe { constants.power(&base, &exponent, 2 * length) };
                    let wanted = modulus.power(&base, &exponent);
                    assert!(modulus.reduce(&power) == wanted, "{bits} bits, round {round}");
                    if round != 4 {
                        // SAFETY: detected.
                        let power = unsafe { constants.power_public(&base, &exponent, 2 * length) };
                        assert!(modulus.reduce(&power) == wanted, "{bits} bits, round {round}, public");
                    }
                }
            }
        }
    }

    #[test]
    fn agree_on_edges_and_random_numbers_of_every_length() {
        if Features::detect().avx512.is_none() {
            return;
        }
        // SAFETY: detected.
        unsafe {
            run::<20, 4, 16>(1024);
            run::<30, 5, 32>(1536);
            run::<40, 5, 32>(2048);
            run::<60, 4, 16>(3072);
            run::<80, 4, 16>(4096);
        }
    }
}

#[test]
fn plain_numbers_agree_with_the_library() {
    let source = &mut Source::new(7);
    for words in [16, 24, 32, 48, 64] {
        for modulus in moduli(words, source) {
            let mut bytes = vec![0; 8 * words];
            reference::to_bytes(modulus.words(), &mut bytes);
            let oracle = sealane_native::number::Modulus::new(&bytes).unwrap();
            for kind in 0..5 {
                let base = operand(&modulus, kind, source);
                let exponent = source.words(1 + kind);
                let [base_bytes, exponent_bytes] = [&base, &exponent].map(|number| {
                    let mut bytes = vec![0; 8 * number.len()];
                    reference::to_bytes(number, &mut bytes);
                    sealane_native::number::Natural::from_bytes(&bytes).unwrap()
                });
                oracle.power_secret(&base_bytes, &exponent_bytes).unwrap().to_bytes(&mut bytes).unwrap();
                let made = modulus.power(&base, &exponent);
                assert!(*made == *from_bytes(&bytes, words), "{words} words, kind {kind}");
            }
        }
    }
    assert!(Modulus::new(&[4, 1]).is_none(), "an even modulus");
}
