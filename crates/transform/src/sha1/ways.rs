//! SHA-1 unrolled, over vectors: one way is the generic tier, and eight or sixteen are the batch tier.
//!
//! `unsafe`: kernels read through ways' pointers whose contract is [`crate::hash::ways::Absorb`]'s.
#![allow(unsafe_code)]

use super::CONSTANTS;
use crate::hash::Hash;
use crate::hash::ways::{self, Rounds, load_half, ways_kernels};
use crate::simd::Words;

#[inline(always)]
fn choose<V: Words>(b: V, c: V, d: V) -> V {
    V::lut::<0xca>(b, c, d)
}
#[inline(always)]
fn parity<V: Words>(b: V, c: V, d: V) -> V {
    V::lut::<0x96>(b, c, d)
}
#[inline(always)]
fn majority<V: Words>(b: V, c: V, d: V) -> V {
    V::lut::<0xe8>(b, c, d)
}

pub(crate) struct Sha1;

impl Rounds<5> for Sha1 {
    const HASH: &'static Hash = &super::HASH;

    /// # Safety
    /// The contract of [`Rounds::block`].
    #[inline(always)]
    unsafe fn block<V: Words, const G: usize, const LOADS: bool>(
        s: &mut [[V; G]; 5],
        w: &mut [[V; 16]; G],
        rows: *const *const u8,
        offset: usize,
    ) {
        macro_rules! steps {
            ($mix:ident: $($step:literal)*) => { $( {
                const T: usize = $step;
                // The roles of a to e move one place each step.
                const A: usize = (80 - T) % 5;
                const B: usize = (A + 1) % 5;
                const C: usize = (A + 2) % 5;
                const D: usize = (A + 3) % 5;
                const E: usize = (A + 4) % 5;
                // Words are computed well before their step, which then waits only for the step before it.
                const SOON: usize = T + 7;
                if LOADS && (T == 0 || T == 8) {
                    // SAFETY: the contract: LOADS, so that the rows have 64 bytes, of which this is a half.
                    unsafe { load_half::<Self, V, 5, G>(w, T, rows, offset) };
                }
                for n in 0..G {
                    if 16 <= SOON && SOON < 80 {
                        let w = &mut w[n];
                        let three = V::lut::<0x96>(w[(SOON + 13) % 16], w[(SOON + 8) % 16], w[(SOON + 2) % 16]);
                        w[SOON % 16] = w[SOON % 16].xor(three).rotl::<1>();
                    }
                    let word = w[n][T % 16].add(V::splat(CONSTANTS[T / 20]));
                    let sum = s[E][n].add(word).add($mix(s[B][n], s[C][n], s[D][n]));
                    s[E][n] = sum.add(s[A][n].rotl::<5>());
                    s[B][n] = s[B][n].rotl::<30>();
                }
            } )* };
        }
        steps!(choose: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19);
        steps!(parity: 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39);
        steps!(majority: 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59);
        steps!(parity: 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79);
    }
}

/// Absorbs whole blocks of one message.
pub(crate) fn one(state: &mut [u32; 8], data: &[u8]) {
    ways::one::<Sha1, 5>(state, data);
}

ways_kernels! { Sha1:
    avx512_16 = "avx512f,avx512bw", crate::simd::avx512::Z, 1;
    avx512_32 = "avx512f,avx512bw", crate::simd::avx512::Z, 2;
    avx2_8 = "avx2", crate::simd::avx2::Y, 1;
}
