//! MD5 unrolled, over vectors: eight or sixteen ways, once or several times, are the batch tier.
//!
//! Latency limits MD5: a step waits for the one before. Interleaved groups of ways fill the wait. `unsafe`: kernels
//! read through ways' pointers whose contract is [`crate::hash::ways::Absorb`]'s.
#![allow(unsafe_code)]

use super::{SHIFTS, SINES, word_of};
use crate::hash::Hash;
use crate::hash::ways::{Rounds, load_half, ways_kernels};
use crate::simd::Words;

#[inline(always)]
fn f<V: Words>(b: V, c: V, d: V) -> V {
    V::lut::<0xca>(b, c, d)
}
#[inline(always)]
fn g<V: Words>(b: V, c: V, d: V) -> V {
    V::lut::<0xca>(d, b, c)
}
#[inline(always)]
fn h<V: Words>(b: V, c: V, d: V) -> V {
    V::lut::<0x96>(b, c, d)
}
#[inline(always)]
fn i<V: Words>(b: V, c: V, d: V) -> V {
    V::lut::<0x39>(b, c, d)
}

pub(crate) struct Md5;

impl Rounds<4> for Md5 {
    const HASH: &'static Hash = &super::HASH;

    /// # Safety
    /// The contract of [`Rounds::block`].
    #[inline(always)]
    unsafe fn block<V: Words, const G: usize, const LOADS: bool>(
        s: &mut [[V; G]; 4],
        x: &mut [[V; 16]; G],
        rows: *const *const u8,
        offset: usize,
    ) {
        macro_rules! steps {
            ($mix:ident: $($step:literal)*) => { $( {
                const STEP: usize = $step;
                // The roles of a, b, c, d move one place each step.
                const A: usize = (64 - STEP) % 4;
                const B: usize = (A + 1) % 4;
                const C: usize = (A + 2) % 4;
                const D: usize = (A + 3) % 4;
                if LOADS && (STEP == 0 || STEP == 8) {
                    // SAFETY: the contract: LOADS, so that the rows have 64 bytes, of which this is a half.
                    unsafe { load_half::<Self, V, 4, G>(x, STEP, rows, offset) };
                }
                for n in 0..G {
                    let word = x[n][word_of(STEP)].add(V::splat(SINES[STEP]));
                    let sum = s[A][n].add(word).add($mix(s[B][n], s[C][n], s[D][n]));
                    s[A][n] = sum.rotl::<{ SHIFTS[STEP / 16][STEP % 4] }>().add(s[B][n]);
                }
            } )* };
        }
        steps!(f: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        steps!(g: 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
        steps!(h: 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47);
        steps!(i: 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63);
    }
}

ways_kernels! { Md5:
    avx512_16 = "avx512f,avx512bw", crate::simd::avx512::Z, 1;
    avx512_32 = "avx512f,avx512bw", crate::simd::avx512::Z, 2;
    avx512_64 = "avx512f,avx512bw", crate::simd::avx512::Z, 4;
    avx2_8 = "avx2", crate::simd::avx2::Y, 1;
    avx2_16 = "avx2", crate::simd::avx2::Y, 2;
}
