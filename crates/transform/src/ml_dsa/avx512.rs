//! Sixteen coefficients side by side by AVX-512.
//!
//! The contract of [`Ints`] holds for every method. `unsafe`: intrinsics, loads and stores through pointers.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use crate::simd::methods;

use super::arithmetic::{self, Poly};
use super::ints::{Ints, Q_INVERSE, Q_SIGNED};
use super::kernels::{compiled, kernels};

kernels!(compiled Zmm, "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi",);

/// A zmm register.
#[derive(Clone, Copy)]
pub(crate) struct Zmm(__m512i);

macro_rules! op {
    ($call:expr) => {
        // SAFETY: reached only under the token, as the contract says.
        unsafe { $call }
    };
}

/// Returns the odd elements in the places of the even ones.
#[inline(always)]
fn odd(a: __m512i) -> __m512i {
    op!(_mm512_srli_epi64::<32>(a))
}

/// Returns the upper halves of products of even and of odd elements, each less the multiple of q that clears the lower
/// half; `low` is that multiple.
#[inline(always)]
fn upper(even: __m512i, odd_products: __m512i, low: __m512i) -> Zmm {
    op!({
        let q = _mm512_set1_epi32(Q_SIGNED);
        let even = _mm512_sub_epi64(even, _mm512_mul_epi32(low, q));
        let odds = _mm512_sub_epi64(odd_products, _mm512_mul_epi32(odd(low), q));
        Zmm(_mm512_mask_shuffle_epi32::<{ _MM_PERM_DDBB }>(odds, 0x5555, even))
    })
}

impl Ints for Zmm {
    const WIDTH: usize = 16;
    type Sum = [__m512i; 2];

    methods! {
        splat(value: i32) = _mm512_set1_epi32(value);
        add(self, other: Self) = _mm512_add_epi32(self.0, other.0);
        sub(self, other: Self) = _mm512_sub_epi32(self.0, other.0);
        and(self, other: Self) = _mm512_and_si512(self.0, other.0);
        or(self, other: Self) = _mm512_or_si512(self.0, other.0);
        xor(self, other: Self) = _mm512_xor_si512(self.0, other.0);
        shift_right<const BITS: u32>(self) = _mm512_srai_epi32::<BITS>(self.0);
        low_product(self, other: Self) = _mm512_mullo_epi32(self.0, other.0);
    }
    /// # Safety
    /// 16 integers are readable, with any alignment.
    #[inline(always)]
    unsafe fn load(from: *const i32) -> Self {
        Self(op!(_mm512_loadu_si512(from.cast())))
    }
    /// # Safety
    /// 16 integers are writable, with any alignment.
    #[inline(always)]
    unsafe fn store(self, to: *mut i32) {
        op!(_mm512_storeu_si512(to.cast(), self.0));
    }
    #[inline(always)]
    fn product(self, by: Self, scaled: Self) -> Self {
        let low = self.low_product(scaled).0;
        let even = op!(_mm512_mul_epi32(self.0, by.0));
        let odds = op!(_mm512_mul_epi32(odd(self.0), odd(by.0)));
        upper(even, odds, low)
    }
    #[inline(always)]
    fn no_sum() -> Self::Sum {
        [op!(_mm512_setzero_si512()); 2]
    }
    #[inline(always)]
    fn add_product([even, odds]: Self::Sum, a: Self, b: Self) -> Self::Sum {
        op!([
            _mm512_add_epi64(even, _mm512_mul_epi32(a.0, b.0)),
            _mm512_add_epi64(odds, _mm512_mul_epi32(odd(a.0), odd(b.0))),
        ])
    }
    #[inline(always)]
    fn reduce_sum([even, odds]: Self::Sum) -> Self {
        op!({
            let low = _mm512_mask_shuffle_epi32::<{ _MM_PERM_CCAA }>(even, 0xaaaa, odds);
            upper(even, odds, _mm512_mullo_epi32(low, _mm512_set1_epi32(Q_INVERSE)))
        })
    }
    #[inline(always)]
    fn is_any_negative(self) -> bool {
        op!(_mm512_movepi32_mask(self.0)) != 0
    }
    #[inline(always)]
    fn transpose(rows: &mut [Self; 16]) {
        op!({
            // Within 128 bits first: element i of vector 4n + j of `quads` has the integers 4i + j of four rows.
            let mut quads = [_mm512_setzero_si512(); 16];
            for n in 0..4 {
                let [a, b, c, d]: [__m512i; 4] = core::array::from_fn(|m| rows[4 * n + m].0);
                let (ab, ab_high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
                let (cd, cd_high) = (_mm512_unpacklo_epi32(c, d), _mm512_unpackhi_epi32(c, d));
                quads[4 * n] = _mm512_unpacklo_epi64(ab, cd);
                quads[4 * n + 1] = _mm512_unpackhi_epi64(ab, cd);
                quads[4 * n + 2] = _mm512_unpacklo_epi64(ab_high, cd_high);
                quads[4 * n + 3] = _mm512_unpackhi_epi64(ab_high, cd_high);
            }
            for j in 0..4 {
                let [a, b, c, d] = [quads[j], quads[4 + j], quads[8 + j], quads[12 + j]];
                // 0x44 and 0xee take the lower and the upper 128-bit elements of both, 0x88 and 0xdd the even and odd
                // ones.
                let (ab, ab_high) = (_mm512_shuffle_i64x2::<0x44>(a, b), _mm512_shuffle_i64x2::<0xee>(a, b));
                let (cd, cd_high) = (_mm512_shuffle_i64x2::<0x44>(c, d), _mm512_shuffle_i64x2::<0xee>(c, d));
                rows[j] = Self(_mm512_shuffle_i64x2::<0x88>(ab, cd));
                rows[4 + j] = Self(_mm512_shuffle_i64x2::<0xdd>(ab, cd));
                rows[8 + j] = Self(_mm512_shuffle_i64x2::<0x88>(ab_high, cd_high));
                rows[12 + j] = Self(_mm512_shuffle_i64x2::<0xdd>(ab_high, cd_high));
            }
        });
    }
    /// # Safety
    /// The coded values up to `first + 16` are readable, and [`UNPACK_SLACK`](super::ints::UNPACK_SLACK) bytes behind them.
    #[inline(always)]
    unsafe fn unpack<const BITS: usize>(bytes: *const u8, first: usize) -> Self {
        const fn places(bits: usize) -> [u8; 64] {
            let mut all = [0; 64];
            let mut n = 0;
            while n < 64 {
                all[n] = (n / 4 * bits / 8 + n % 4) as u8;
                n += 1;
            }
            all
        }
        const fn shifts(bits: usize) -> [i32; 16] {
            let mut all = [0; 16];
            let mut n = 0;
            while n < 16 {
                all[n] = (n * bits % 8) as i32;
                n += 1;
            }
            all
        }
        // SAFETY: the caller's contract: the load ends less than 32 bytes behind the values.
        unsafe {
            let words = _mm512_loadu_si512(bytes.add(first * BITS / 8).cast());
            let places: *const [u8; 64] = const { &places(BITS) };
            let words = _mm512_permutexvar_epi8(_mm512_loadu_si512(places.cast()), words);
            let shifts: *const [i32; 16] = const { &shifts(BITS) };
            let aligned = _mm512_srlv_epi32(words, _mm512_loadu_si512(shifts.cast()));
            Self(_mm512_and_si512(aligned, _mm512_set1_epi32((1 << BITS) - 1)))
        }
    }
}

/// Appends those of eight numbers of 23 bits each, of 24 readable bytes, that are below q; returns how many.
///
/// # Safety
/// The processor has the instructions, and eight integers are writable at `to`.
#[inline]
#[target_feature(enable = "avx512f,avx512vl,avx512bw,avx512vbmi")]
pub(crate) unsafe fn uniform(bytes: &[u8; 24], to: *mut i32) -> usize {
    const PLACES: [u8; 32] = {
        let mut all = [0; 32];
        let mut n = 0;
        while n < 32 {
            all[n] = (n / 4 * 3 + if n % 4 == 3 { 0 } else { n % 4 }) as u8;
            n += 1;
        }
        all
    };
    // SAFETY: 24 bytes are read by the mask, and a vector is written, which the caller has room for.
    unsafe {
        let words = _mm256_maskz_loadu_epi8(0x00ff_ffff, bytes.as_ptr().cast());
        let words = _mm256_permutexvar_epi8(_mm256_loadu_si256(PLACES.as_ptr().cast()), words);
        let candidates = _mm256_and_si256(words, _mm256_set1_epi32(0x7f_ffff));
        let taken = _mm256_cmplt_epi32_mask(candidates, _mm256_set1_epi32(Q_SIGNED));
        _mm256_storeu_si256(to.cast(), _mm256_maskz_compress_epi32(taken, candidates));
        taken.count_ones() as usize
    }
}
