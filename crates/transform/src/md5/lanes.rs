//! MD5 unrolled, over vectors: eight or sixteen lanes, once or twice, are the batch tier.
//!
//! MD5 is bound by latency: a step waits for the one before. Two interleaved groups of lanes fill the wait.
//! `unsafe`: kernels read through lane pointers whose contract is [`crate::hash::lanes::Run`]'s.
#![allow(unsafe_code)]

use super::{SHIFTS, SINES, word_of};
use crate::hash::lanes::{LaneState, Rows, lane_kernels};
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

/// Absorbs one block of each lane in `G` groups of lanes.
#[inline(always)]
fn compress<V: Words, const G: usize>(state: &mut [[V; G]; 4], x: &[[V; 16]; G]) {
    let mut s = *state;
    macro_rules! steps {
        ($mix:ident: $($step:literal)*) => { $( {
            const STEP: usize = $step;
            // The roles of a, b, c, d move one place each step.
            const A: usize = (64 - STEP) % 4;
            const B: usize = (A + 1) % 4;
            const C: usize = (A + 2) % 4;
            const D: usize = (A + 3) % 4;
            for n in 0..G {
                let sum = s[A][n].add(x[n][word_of(STEP)].add(V::splat(SINES[STEP]))).add($mix(s[B][n], s[C][n], s[D][n]));
                s[A][n] = sum.rotl::<{ SHIFTS[STEP / 16][STEP % 4] }>().add(s[B][n]);
            }
        } )* };
    }
    steps!(f: 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    steps!(g: 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31);
    steps!(h: 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47);
    steps!(i: 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63);
    for (old, new) in state.iter_mut().zip(s) {
        for (old, new) in old.iter_mut().zip(new) {
            *old = old.add(new);
        }
    }
}

/// See [`crate::hash::lanes::Run`].
#[inline(always)]
unsafe fn run<V: Words, const G: usize>(state: &mut LaneState, rows: &mut Rows, blocks: usize) {
    // SAFETY: rows and blocks are as the contract of Run says; LaneState has 32 words a row, LANES * G at most.
    unsafe {
        let mut s = state.read::<V, 4, G>();
        let mut left = blocks;
        while left > 0 {
            let straight = rows.straight(G * V::LANES, left);
            for block in 0..straight {
                let mut x = [[V::splat(0); 16]; G];
                rows.load(block, &mut x, |word| word);
                compress(&mut s, &x);
            }
            rows.advance(G * V::LANES, straight);
            left -= straight;
        }
        state.write(&s);
    }
}

lane_kernels! { run:
    avx512_16 = "avx512f,avx512bw", crate::simd::avx512::Z, 1;
    avx512_32 = "avx512f,avx512bw", crate::simd::avx512::Z, 2;
    avx2_8 = "avx2", crate::simd::avx2::Y, 1;
    avx2_16 = "avx2", crate::simd::avx2::Y, 2;
}
