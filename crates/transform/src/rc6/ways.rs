//! RC6 over vectors: one way is the generic tier, up to 16 by AVX2 and 32 by AVX-512 the batch tier.
//!
//! `unsafe`: the kernels' entry points, see [`crate::word_ways`].
#![allow(unsafe_code)]

use super::{KEY_WORDS, Key, ROUNDS};
use crate::cipher_ways::HandOver;
use crate::isa::{Avx2, Avx512, Features};
use crate::job::CipherJob;
use crate::modes::{Direction, Mode};
use crate::schedule::Schedule;
use crate::simd::Words;
use crate::word_ways::{WordCipher, word_ways_kernels};

pub(crate) struct Rc6;

#[inline(always)]
fn quadratic<V: Words>(x: V) -> V {
    x.mul(x.add(x).add(V::splat(1))).rotl::<5>()
}

/// Runs one round; the caller rotates the roles.
#[inline(always)]
fn forward<V: Words, const G: usize>(
    [a, b, c, d]: [&mut [V; G]; 4],
    i: usize,
    key: &impl Fn(usize, usize) -> V,
) {
    for n in 0..G {
        let (t, u) = (quadratic(b[n]), quadratic(d[n]));
        a[n] = a[n].xor(t).rotl_by(u).add(key(2 * i, n));
        c[n] = c[n].xor(u).rotl_by(t).add(key(2 * i + 1, n));
    }
}

/// Runs the inverse of [`forward`].
#[inline(always)]
fn backward<V: Words, const G: usize>(
    [a, b, c, d]: [&mut [V; G]; 4],
    i: usize,
    key: &impl Fn(usize, usize) -> V,
) {
    for n in 0..G {
        let (t, u) = (quadratic(b[n]), quadratic(d[n]));
        c[n] = c[n].sub(key(2 * i + 1, n)).rotr_by(t).xor(u);
        a[n] = a[n].sub(key(2 * i, n)).rotr_by(u).xor(t);
    }
}

impl WordCipher for Rc6 {
    const WORDS: usize = 4;

    fn words(key: &Schedule) -> &[u32] {
        match key {
            Schedule::Rc6(key) => &key.table,
            _ => &[],
        }
    }

    #[inline(always)]
    fn crypt<V: Words, const G: usize>(
        direction: Direction,
        _: usize,
        key: impl Fn(usize, usize) -> V,
        block: &mut [[V; G]; 4],
    ) {
        let [mut a, mut b, mut c, mut d] = *block;
        match direction {
            Direction::Encrypt => {
                for n in 0..G {
                    b[n] = b[n].add(key(0, n));
                    d[n] = d[n].add(key(1, n));
                }
                for i in (1..ROUNDS).step_by(4) {
                    forward([&mut a, &mut b, &mut c, &mut d], i, &key);
                    forward([&mut b, &mut c, &mut d, &mut a], i + 1, &key);
                    forward([&mut c, &mut d, &mut a, &mut b], i + 2, &key);
                    forward([&mut d, &mut a, &mut b, &mut c], i + 3, &key);
                }
                for n in 0..G {
                    a[n] = a[n].add(key(2 * ROUNDS + 2, n));
                    c[n] = c[n].add(key(2 * ROUNDS + 3, n));
                }
            }
            Direction::Decrypt => {
                for n in 0..G {
                    c[n] = c[n].sub(key(2 * ROUNDS + 3, n));
                    a[n] = a[n].sub(key(2 * ROUNDS + 2, n));
                }
                for i in (1..ROUNDS).step_by(4).rev() {
                    backward([&mut d, &mut a, &mut b, &mut c], i + 3, &key);
                    backward([&mut c, &mut d, &mut a, &mut b], i + 2, &key);
                    backward([&mut b, &mut c, &mut d, &mut a], i + 1, &key);
                    backward([&mut a, &mut b, &mut c, &mut d], i, &key);
                }
                for n in 0..G {
                    d[n] = d[n].sub(key(1, n));
                    b[n] = b[n].sub(key(0, n));
                }
            }
        }
        *block = [a, b, c, d];
    }
}

/// Transforms one block of one message.
pub(crate) fn one(key: &Key, direction: Direction, block: &mut [u8; 16]) {
    let mut words: [[u32; 1]; 4] = core::array::from_fn(|i| [u32::from_le_bytes(block.as_chunks().0[i])]);
    Rc6::crypt::<u32, 1>(direction, key.table.len(), |i, _| key.table[i], &mut words);
    for (bytes, [word]) in block.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
}

/// Runs RC6 over vectors of the largest instruction set available.
pub(crate) fn run_widest(
    features: Features,
    mode: Mode,
    direction: Direction,
    jobs: &mut [CipherJob<'_>],
    order: &[u16],
    hand_over: &HandOver<'_>,
) {
    #[cfg(target_arch = "x86_64")]
    match (features.avx512, features.avx2) {
        (Some(proof), _) => avx512(proof, mode, direction, KEY_WORDS, jobs, order, hand_over),
        (_, Some(proof)) => avx2(proof, mode, direction, KEY_WORDS, jobs, order, hand_over),
        _ => {}
    }
}

word_ways_kernels! { Rc6:
    avx512 = "avx512f,avx512bw", Avx512, crate::simd::avx512::Z, 1 of 16, or 2 of 32;
    avx2 = "avx2", Avx2, crate::simd::avx2::Y, 1 of 8, or 2 of 16;
}
