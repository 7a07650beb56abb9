//! RC5 over vectors: one way is the generic tier, up to 32 by AVX2 and 128 by AVX-512 the batch tier.
//!
//! `unsafe`: the kernels' entry points, see [`crate::word_ways`].
#![allow(unsafe_code)]

use super::Key;
use crate::cipher_ways::HandOver;
use crate::isa::{Avx2, Avx512, Features};
use crate::job::CipherJob;
use crate::modes::{Direction, Mode};
use crate::schedule::Schedule;
use crate::simd::Words;
use crate::word_ways::{WordCipher, word_ways_kernels};
#[cfg(target_arch = "x86_64")]
use crate::{
    cipher_ways::{self, Rows, few_ways_do},
    simd::{avx2::Y, avx512::Z},
    word_ways::WordWays,
};

/// RC5; its table's length determines the number of rounds.
pub(crate) struct Rc5;

impl WordCipher for Rc5 {
    const WORDS: usize = 2;

    fn words(key: &Schedule) -> &[u32] {
        match key {
            Schedule::Rc5(key) | Schedule::Rc5R16(key) => &key.table,
            _ => &[],
        }
    }

    #[inline(always)]
    fn crypt<V: Words, const G: usize>(
        direction: Direction,
        key_words: usize,
        key: impl Fn(usize, usize) -> V,
        block: &mut [[V; G]; 4],
    ) {
        let [mut a, mut b, _, _] = *block;
        match direction {
            Direction::Encrypt => {
                for n in 0..G {
                    a[n] = a[n].add(key(0, n));
                    b[n] = b[n].add(key(1, n));
                }
                let mut i = 2;
                while i < key_words {
                    for n in 0..G {
                        a[n] = a[n].xor(b[n]).rotl_by(b[n]).add(key(i, n));
                    }
                    for n in 0..G {
                        b[n] = b[n].xor(a[n]).rotl_by(a[n]).add(key(i + 1, n));
                    }
                    i += 2;
                }
            }
            Direction::Decrypt => {
                let mut i = key_words;
                while i > 2 {
                    i -= 2;
                    for n in 0..G {
                        b[n] = b[n].sub(key(i + 1, n)).rotr_by(a[n]).xor(a[n]);
                    }
                    for n in 0..G {
                        a[n] = a[n].sub(key(i, n)).rotr_by(b[n]).xor(b[n]);
                    }
                }
                for n in 0..G {
                    b[n] = b[n].sub(key(1, n));
                    a[n] = a[n].sub(key(0, n));
                }
            }
        }
        block[0] = a;
        block[1] = b;
    }
}

/// Transforms one block of one message.
pub(crate) fn one(key: &Key, direction: Direction, block: &mut [u8; 8]) {
    let value = u64::from_le_bytes(*block);
    let mut words = [[value as u32], [(value >> 32) as u32], [0], [0]];
    Rc5::crypt::<u32, 1>(direction, 2 * key.rounds + 2, |i, _| key.table[i], &mut words);
    *block = (u64::from(words[1][0]) << 32 | u64::from(words[0][0])).to_le_bytes();
}

word_ways_kernels! { Rc5:
    avx512 = "avx512f,avx512bw", Avx512, Z, 1 of 16, 2 of 32, or 4 of 64;
    avx2 = "avx2", Avx2, Y, 1 of 8, 2 of 16, or 4 of 32;
}

/// Runs RC5 over vectors of the largest instruction set available.
pub(crate) fn run_widest(
    features: Features,
    mode: Mode,
    direction: Direction,
    jobs: &mut [CipherJob<'_>],
    order: &[u16],
    hand_over: &HandOver<'_>,
) {
    #[cfg(target_arch = "x86_64")]
    {
        // All jobs are of one algorithm.
        let key_words = order.first().map_or(0, |&first| match jobs[usize::from(first)].key.schedule() {
            Schedule::Rc5(key) | Schedule::Rc5R16(key) => 2 * key.rounds + 2,
            _ => 0,
        });
        let half = MOST_WAYS / 2;
        match (features.avx512, features.avx2) {
            (Some(proof), _)
                if (mode, direction) == (Mode::Cbc, Direction::Encrypt)
                    // Otherwise half of the ways would be empty at the end.
                    && order.len().div_ceil(half).is_multiple_of(2)
                    && !few_ways_do(jobs, order, half, MOST_WAYS, (37, 20)) =>
            {
                seal_cbc(proof, key_words, jobs, order, hand_over);
            }
            (Some(proof), _) => avx512(proof, mode, direction, key_words, jobs, order, hand_over),
            (_, Some(proof)) => avx2(proof, mode, direction, key_words, jobs, order, hand_over),
            _ => {}
        }
    }
}

/// Ways of [`seal_cbc`].
#[cfg(target_arch = "x86_64")]
const MOST_WAYS: usize = 128;

/// Seals by CBC, in which every block waits for the one before, as many ways at once as registers hold: eight vectors'
/// rounds wait less than four's. In other modes the blocks kept for later would exceed the remaining registers.
#[cfg(target_arch = "x86_64")]
pub(crate) fn seal_cbc<'k>(
    _: Avx512,
    key_words: usize,
    jobs: &mut [CipherJob<'k>],
    order: &[u16],
    hand_over: &HandOver<'_>,
) {
    /// # Safety
    /// The contract of [`WaysKernel::crypt_chunks`]; the CPU has AVX-512 F and BW.
    #[target_feature(enable = "avx512f,avx512bw")]
    unsafe fn crypt_chunks(
        kernel: &mut WordWays<'_, Rc5, MOST_WAYS>,
        rows: &mut Rows<MOST_WAYS>,
        chunks: usize,
    ) {
        // SAFETY: the contract of this function is that of `seal_cbc`, and it has the features of Z; eight
        // times sixteen ways.
        unsafe { kernel.seal_cbc::<Z, 8>(rows, chunks) }
    }
    let kernel = &mut WordWays::new(Mode::Cbc, Direction::Encrypt, key_words, crypt_chunks);
    cipher_ways::run_jobs(kernel, jobs, order, hand_over);
}
