//! One number across the elements: its limbs lie side by side in vectors, so that a power that has no company is
//! computed in the shortest time.
//!
//! A multiplication goes over the limbs of one factor. In each row the sum moves down by a limb, and takes a multiple of the
//! other factor and one of the modulus. The modulus m is replaced by its multiple M = m (-1 / m mod 2^52), which is -1
//! modulo 2^52: then the multiple that makes the sum s divisible is its own lowest limb q, and (s + q M) / 2^52 is
//! (s - q) / 2^52 + q M' with M' = (M + 1) / 2^52. This is Montgomery's reduction without a multiplication by -1 / m (C. D.
//! Walter 1992). From one q to the next it is a broadcast, a multiplication and an addition, which take less time than the
//! other multiplications of the row.
//!
//! Numbers have `L` = 21, 31 or 41 limbs in `Z` = 3, 4 or 6 vectors, and are below 2 M. With R = 2^(52 L) > 4 M, the result
//! of a multiplication is below 2 M again. Limbs above `L` are zero.
//!
//! *Cost* in IFMA instructions: 4 Z (L + 1), which is 264 cycles with L = 21 at one a cycle (Zen 4).
//!
//! Every function runs the same instructions for all values; a power reads its whole table for every digit. The intrinsics
//! are safe inside functions that enable their features.

use core::arch::x86_64::{
    __mmask8, _mm512_add_epi64, _mm512_alignr_epi64, _mm512_and_si512, _mm512_broadcastq_epi64,
    _mm512_castsi512_si128, _mm512_cmpeq_epi64_mask, _mm512_cmpgt_epu64_mask, _mm512_madd52hi_epu64,
    _mm512_madd52lo_epu64, _mm512_mask_add_epi64, _mm512_mask_mov_epi64, _mm512_maskz_srli_epi64,
    _mm512_set1_epi64, _mm512_setzero_si512, _mm512_srli_epi64,
};

use zeroize::Zeroizing;

use super::kernel::{V, WAYS};
use super::reference::Words;
use super::ways::{vector, words};
use super::{AcrossConstants, LIMB_BITS, join, split};
use crate::wipe::wipe;

/// Bits of a digit of an exponent.
const DIGIT_BITS: usize = 5;

/// Powers in a table, one for each digit.
const ENTRIES: usize = 1 << DIGIT_BITS;

/// A number of `Z` vectors, from the lowest limb up.
type Across<const Z: usize> = [V; Z];

/// A number in memory, where rows find single limbs.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Limbs<const Z: usize>([[u64; WAYS]; Z]);

impl<const Z: usize> Limbs<Z> {
    /// Reads limbs; those that are missing are zero.
    fn new(limbs: &[u64]) -> Self {
        let mut out = [[0; WAYS]; Z];
        out.as_flattened_mut()[..limbs.len()].copy_from_slice(limbs);
        Self(out)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    fn load(&self) -> Across<Z> {
        let mut out = [_mm512_setzero_si512(); Z];
        for (out, row) in out.iter_mut().zip(&self.0) {
            *out = vector(*row);
        }
        out
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    fn store(&mut self, number: &Across<Z>) {
        for (row, limbs) in self.0.iter_mut().zip(number) {
            *row = words(*limbs);
        }
    }

    fn wipe(&mut self) {
        wipe(&mut self.0, [0; WAYS]);
    }
}

impl AcrossConstants {
    /// Returns a number that is `base` to the power of `exponent` modulo the modulus, and longer than it by one limb at most,
    /// as `length` little-endian words. The base is below the modulus; all bits of the exponent count.
    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    pub(crate) fn power(&self, base: &[u64], exponent: &[u64], length: usize) -> Words {
        match self.one.len() {
            21 => self.power_of::<3, 21>(base, exponent, length),
            31 => self.power_of::<4, 31>(base, exponent, length),
            _ => self.power_of::<6, 41>(base, exponent, length),
        }
    }

    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    fn power_of<const Z: usize, const L: usize>(
        &self,
        base: &[u64],
        exponent: &[u64],
        length: usize,
    ) -> Words {
        let mut x = Limbs::<Z>::new(&Zeroizing::new(split(base, L)));
        let mut square = Limbs::new(&self.square);
        let mut modulus = Product::<Z, L>(Limbs::new(&self.quotient));
        modulus.step(&mut x, 0, &square);
        let mut table = [Limbs::new(&self.one); ENTRIES];
        table[1] = x;
        let (mut power, mut factor) = (x, x);
        for n in 2..ENTRIES {
            // The square of a power, or the one before times the base.
            (power, factor) = if n % 2 == 0 { (table[n / 2], table[n / 2]) } else { (table[n - 1], x) };
            modulus.step(&mut power, 0, &factor);
            table[n] = power;
        }
        let digits = (64 * exponent.len()).div_ceil(DIGIT_BITS);
        select(&table, digit(exponent, digits - 1), &mut x);
        for n in (0..digits - 1).rev() {
            select(&table, digit(exponent, n), &mut factor);
            modulus.step(&mut x, DIGIT_BITS, &factor);
        }
        let out = modulus.leave(&mut x, length);
        for number in table.iter_mut().chain([&mut power, &mut factor, &mut square]) {
            number.wipe();
        }
        out
    }

    /// Does as [`Self::power`], for a public exponent above 1: its bits choose the sequence of multiplications.
    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    pub(crate) fn power_public(&self, base: &[u64], exponent: &[u64], length: usize) -> Words {
        match self.one.len() {
            21 => self.power_public_of::<3, 21>(base, exponent, length),
            31 => self.power_public_of::<4, 31>(base, exponent, length),
            _ => self.power_public_of::<6, 41>(base, exponent, length),
        }
    }

    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    fn power_public_of<const Z: usize, const L: usize>(
        &self,
        base: &[u64],
        exponent: &[u64],
        length: usize,
    ) -> Words {
        let mut factor = Limbs::<Z>::new(&Zeroizing::new(split(base, L)));
        let mut modulus = Product::<Z, L>(Limbs::new(&self.quotient));
        modulus.step(&mut factor, 0, &Limbs::new(&self.square));
        let mut x = factor;
        let bits = (0..64 * exponent.len()).rev().map(|bit| exponent[bit / 64] >> (bit % 64) & 1);
        for bit in bits.skip_while(|bit| *bit == 0).skip(1) {
            if bit == 1 {
                modulus.step(&mut x, 1, &factor);
            } else {
                let own = x;
                modulus.step(&mut x, 0, &own);
            }
        }
        let out = modulus.leave(&mut x, length);
        factor.wipe();
        out
    }
}

/// Returns digit `n` of an exponent of little-endian words.
fn digit(exponent: &[u64], n: usize) -> u64 {
    let (word, shift) = (n * DIGIT_BITS / 64, n * DIGIT_BITS % 64);
    let low = exponent.get(word).copied().unwrap_or(0);
    let high = exponent.get(word + 1).copied().unwrap_or(0);
    ((u128::from(high) << 64 | u128::from(low)) >> shift) as u64 & (ENTRIES as u64 - 1)
}

/// Copies the entry of a digit to `out`, and reads all entries.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn select<const Z: usize>(table: &[Limbs<Z>; ENTRIES], digit: u64, out: &mut Limbs<Z>) {
    let digit = _mm512_set1_epi64(digit as i64);
    let mut entry = [_mm512_setzero_si512(); Z];
    for (n, limbs) in table.iter().enumerate() {
        let mask = _mm512_cmpeq_epi64_mask(digit, _mm512_set1_epi64(n as i64));
        for (entry, row) in entry.iter_mut().zip(&limbs.0) {
            *entry = _mm512_mask_mov_epi64(*entry, mask, vector(*row));
        }
    }
    out.store(&entry);
}

/// Multiplications modulo one number, of which this is M'.
struct Product<const Z: usize, const L: usize>(Limbs<Z>);

impl<const Z: usize, const L: usize> Product<Z, L> {
    /// Squares `x` `squares` times, then multiplies it by `factor`.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    fn step(&self, x: &mut Limbs<Z>, squares: usize, factor: &Limbs<Z>) {
        let m = self.0.load();
        let mut y = x.load();
        for n in 0..=squares {
            // Each row reads its limb from memory, which takes no instruction of a vector.
            let limbs = core::hint::black_box(if n < squares { &*x } else { factor });
            y = Self::rows(&m, &y, limbs.0.as_flattened());
            x.store(&y);
        }
    }

    /// Returns `y` times the number of the limbs / R.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    fn rows(m: &Across<Z>, y: &Across<Z>, limbs: &[u64]) -> Across<Z> {
        let zero = _mm512_setzero_si512();
        let mut limb = _mm512_set1_epi64(limbs[0] as i64);
        let (mut sum, mut q) = ([zero; Z], zero);
        for n in 0..Z {
            sum[n] = _mm512_madd52lo_epu64(zero, y[n], limb);
        }
        // The high halves of a row's products belong one limb up, which is where the sum lies in the next row.
        for next_limb in &limbs[1..=L] {
            let next_limb = _mm512_set1_epi64(*next_limb as i64);
            let next_q = _mm512_broadcastq_epi64(_mm512_castsi512_si128(sum[0]));
            let carry = _mm512_maskz_srli_epi64::<LIMB_BITS>(1, sum[0]);
            for n in 0..Z {
                let above = if n + 1 < Z { sum[n + 1] } else { zero };
                let mut moved = _mm512_alignr_epi64::<1>(above, sum[n]);
                if n == 0 {
                    moved = _mm512_add_epi64(moved, carry);
                }
                let mut row = _mm512_madd52hi_epu64(zero, y[n], limb);
                row = _mm512_madd52lo_epu64(row, y[n], next_limb);
                // M' has a limb less.
                if WAYS * n < L - 1 {
                    row = _mm512_madd52hi_epu64(row, m[n], q);
                    row = _mm512_madd52lo_epu64(row, m[n], next_q);
                }
                sum[n] = _mm512_add_epi64(moved, row);
            }
            (limb, q) = (next_limb, next_q);
        }
        // The last limb is zero: only the modulus has high halves.
        let mut up = [zero; Z];
        for n in 0..Z {
            up[n] = _mm512_madd52hi_epu64(zero, m[n], q);
        }
        carried(sum, up)
    }

    /// Takes `x` out of Montgomery's form, as `length` words, and overwrites it and what is kept here.
    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    fn leave(&mut self, x: &mut Limbs<Z>, length: usize) -> Words {
        self.step(x, 0, &Limbs::new(&[1]));
        let out = join(&x.0.as_flattened()[..L], length);
        x.wipe();
        self.0.wipe();
        out
    }
}

/// Returns sum + 2^52 up in limbs below 2^52; the elements of `sum` are below 2^61, those of `up` below 2^52.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn carried<const Z: usize>(mut sum: Across<Z>, mut up: Across<Z>) -> Across<Z> {
    let mask = _mm512_set1_epi64((1 << LIMB_BITS) - 1);
    // After the first round limbs are below 2^53 + 2^9, after the second at most 2^52 + 1.
    for _ in 0..2 {
        for (sum, up) in sum.iter_mut().zip(&mut up) {
            *up = _mm512_add_epi64(*up, _mm512_srli_epi64::<LIMB_BITS>(*sum));
            *sum = _mm512_and_si512(*sum, mask);
        }
        for n in 0..Z {
            let below = if n > 0 { up[n - 1] } else { _mm512_setzero_si512() };
            sum[n] = _mm512_add_epi64(sum[n], _mm512_alignr_epi64::<7>(up[n], below));
        }
        up = [_mm512_setzero_si512(); Z];
    }
    // A limb carries if it is greater than the mask, or equal and carried into: an addition of these bits runs through all.
    let (mut greater, mut equal) = (0u64, 0u64);
    for (n, sum) in sum.iter().enumerate() {
        greater |= u64::from(_mm512_cmpgt_epu64_mask(*sum, mask)) << (WAYS * n);
        equal |= u64::from(_mm512_cmpeq_epi64_mask(*sum, mask)) << (WAYS * n);
    }
    let into = (equal + (greater << 1)) ^ equal;
    let one = _mm512_set1_epi64(1);
    for (n, sum) in sum.iter_mut().enumerate() {
        let elements = (into >> (WAYS * n)) as __mmask8;
        *sum = _mm512_and_si512(_mm512_mask_add_epi64(*sum, elements, *sum, one), mask);
    }
    sum
}
