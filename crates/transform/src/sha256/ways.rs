//! SHA-256 over vectors: one way is the generic tier, and eight or sixteen are the batch tier.
//!
//! `unsafe`: kernels read through ways' pointers whose contract is [`crate::hash::ways::Absorb`]'s.
#![allow(unsafe_code)]

use super::CONSTANTS;
use crate::hash::Hash;
use crate::hash::ways::{self, Rounds, load_half, ways_kernels};
use crate::simd::Words;

#[inline(always)]
fn xor3<V: Words>(a: V, b: V, c: V) -> V {
    V::lut::<0x96>(a, b, c)
}

pub(crate) struct Sha256;

impl Rounds<8> for Sha256 {
    const HASH: &'static Hash = &super::HASH;

    /// # Safety
    /// The contract of [`Rounds::block`].
    #[inline(always)]
    unsafe fn block<V: Words, const G: usize, const LOADS: bool>(
        s: &mut [[V; G]; 8],
        w: &mut [[V; 16]; G],
        rows: *const *const u8,
        offset: usize,
    ) {
        // Runs sixteen steps, after which every role is back at its start.
        macro_rules! steps {
            ($constants:expr, $first:literal) => {
                steps!($constants, $first, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
            };
            ($constants:expr, $first:literal, $($step:literal)*) => { $( {
                const T: usize = $step;
                // The roles of a to h move one place each step.
                const A: usize = (16 - T) % 8;
                const B: usize = (A + 1) % 8;
                const C: usize = (A + 2) % 8;
                const D: usize = (A + 3) % 8;
                const E: usize = (A + 4) % 8;
                const F: usize = (A + 5) % 8;
                const G_: usize = (A + 6) % 8;
                const H: usize = (A + 7) % 8;
                if LOADS && $first && T % 8 == 0 {
                    // SAFETY: the contract: LOADS, so that the rows have 64 bytes, of which this is a half.
                    unsafe { load_half::<Self, V, 8, G>(w, T, rows, offset) };
                }
                for n in 0..G {
                    if !$first {
                        let w = &mut w[n];
                        let (w15, w2) = (w[(T + 1) % 16], w[(T + 14) % 16]);
                        let s0 = xor3(w15.rotl::<25>(), w15.rotl::<14>(), w15.shr::<3>());
                        let s1 = xor3(w2.rotl::<15>(), w2.rotl::<13>(), w2.shr::<10>());
                        w[T] = w[T].add(w[(T + 9) % 16]).add(s0).add(s1);
                    }
                    let (a, e) = (s[A][n], s[E][n]);
                    let big_s1 = xor3(e.rotl::<26>(), e.rotl::<21>(), e.rotl::<7>());
                    let choose = V::lut::<0xca>(e, s[F][n], s[G_][n]);
                    let word = w[n][T].add(V::splat($constants[T]));
                    let t1 = s[H][n].add(word).add(choose).add(big_s1);
                    let big_s0 = xor3(a.rotl::<30>(), a.rotl::<19>(), a.rotl::<10>());
                    let majority = V::lut::<0xe8>(a, s[B][n], s[C][n]);
                    s[D][n] = s[D][n].add(t1);
                    s[H][n] = t1.add(big_s0).add(majority);
                }
            } )* };
        }
        let [first, second, third, fourth] = CONSTANTS.as_chunks::<16>().0 else { return };
        steps!(first, true);
        if G == 1 {
            // All values stay in registers.
            steps!(second, false);
            steps!(third, false);
            steps!(fourth, false);
        } else {
            // All 64 steps of two groups would fill the whole instruction cache.
            for constants in [second, third, fourth] {
                steps!(constants, false);
            }
        }
    }
}

/// The same rounds, for messages that begin with the other initial state.
pub(crate) struct Sha224;

impl Rounds<8> for Sha224 {
    const HASH: &'static Hash = &super::HASH_224;

    /// # Safety
    /// The contract of [`Rounds::block`].
    #[inline(always)]
    unsafe fn block<V: Words, const G: usize, const LOADS: bool>(
        s: &mut [[V; G]; 8],
        w: &mut [[V; 16]; G],
        rows: *const *const u8,
        offset: usize,
    ) {
        // SAFETY: the same contract.
        unsafe { Sha256::block::<V, G, LOADS>(s, w, rows, offset) }
    }
}

/// Absorbs whole blocks of one message.
pub(crate) fn one(state: &mut [u32; 8], data: &[u8]) {
    ways::one::<Sha256, 8>(state, data);
}

ways_kernels! { Sha256:
    avx512_16 = "avx512f,avx512bw", crate::simd::avx512::Z, 1;
    avx512_32 = "avx512f,avx512bw", crate::simd::avx512::Z, 2;
    avx2_8 = "avx2", crate::simd::avx2::Y, 1;
}
