//! Tables of powers, and the selection of each way's entry without an address that depends on it.
//!
//! `unsafe` code is absent; the intrinsics are safe inside functions that enable their features.

use core::arch::x86_64::{
    __mmask8, _mm_cvtsi64_si128, _mm512_cmpeq_epi64_mask, _mm512_cvtepu8_epi64, _mm512_mask_mov_epi64,
    _mm512_set1_epi64, _mm512_setzero_si512,
};

use super::kernel::{Number, V, WAYS, zero};
use crate::wipe::wipe;

/// Limbs that one step of a selection reads of each entry.
const STEP: usize = 2;

/// Writes entry `n` of a table. A table has the first two limbs of all entries, then the next two of all, so
/// that a selection reads it from its start to its end.
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(super) fn put<const L: usize, const E: usize>(table: &mut [V], n: usize, number: &Number<L>) {
    for (step, limbs) in number.chunks_exact(STEP).enumerate() {
        table[(step * E + n) * STEP..][..STEP].copy_from_slice(limbs);
    }
}

/// Reads entry `n`, which is no secret.
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(super) fn get<const L: usize, const E: usize>(table: &[V], n: usize) -> Number<L> {
    let mut out = zero();
    for (step, limbs) in out.chunks_exact_mut(STEP).enumerate() {
        limbs.copy_from_slice(&table[(step * E + n) * STEP..][..STEP]);
    }
    out
}

/// The selection of each way's entry of a table, by reading all of them.
///
/// It goes in small steps between the tiles of squares: those keep the multipliers busy, and a selection the
/// loads, so that a processor which executes out of order does both at once.
pub(super) struct Selection<const L: usize, const E: usize> {
    /// The ways that select an entry.
    masks: [__mmask8; E],
    /// The limbs that are selected.
    done: usize,
    /// The selected entries.
    pub(super) out: Number<L>,
}

impl<const L: usize, const E: usize> Selection<L, E> {
    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    pub(super) fn new() -> Self {
        Self { masks: [0; E], done: L, out: zero() }
    }

    /// Begins with the first limb of the entries that the ways' digits name.
    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    pub(super) fn begin(&mut self, digit: [u8; WAYS]) {
        let digit = _mm512_cvtepu8_epi64(_mm_cvtsi64_si128(i64::from_le_bytes(digit)));
        for (n, mask) in self.masks.iter_mut().enumerate() {
            *mask = _mm512_cmpeq_epi64_mask(digit, _mm512_set1_epi64(n as i64));
        }
        self.done = 0;
    }

    /// Selects the next limbs, unless all are selected.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    pub(super) fn step(&mut self, table: &[V]) {
        if self.done >= L {
            return;
        }
        let (entries, _) = table[self.done * E..].as_chunks::<STEP>();
        let mut limbs = [_mm512_setzero_si512(); STEP];
        for (entry, mask) in entries.iter().zip(&self.masks) {
            for (limb, entry) in limbs.iter_mut().zip(entry) {
                *limb = _mm512_mask_mov_epi64(*limb, *mask, *entry);
            }
        }
        self.out[self.done..][..STEP].copy_from_slice(&limbs);
        self.done += STEP;
    }

    /// Selects all that is left.
    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    pub(super) fn finish(&mut self, table: &[V]) {
        while self.done < L {
            self.step(table);
        }
    }

    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    pub(super) fn wipe(&mut self) {
        wipe(&mut self.masks, 0);
        wipe(&mut self.out, _mm512_setzero_si512());
    }
}

/// Cuts an exponent of little-endian words into `digits.len()` digits of `W` bits, highest first, for one
/// way.
pub(crate) fn cut<const W: usize>(exponent: &[u64], way: usize, digits: &mut [[u8; WAYS]]) {
    for (n, digit) in digits.iter_mut().rev().enumerate() {
        let (word, shift) = (n * W / 64, n * W % 64);
        let low = exponent.get(word).copied().unwrap_or(0);
        let high = exponent.get(word + 1).copied().unwrap_or(0);
        let bits = (u128::from(high) << 64 | u128::from(low)) >> shift;
        digit[way] = bits as u8 & ((1 << W) - 1);
    }
}
