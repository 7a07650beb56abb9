//! Eight coefficients side by side by AVX2.
//!
//! The contract of [`Ints`] holds for every method. `unsafe`: intrinsics, loads and stores through pointers.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use crate::simd::methods;

use super::arithmetic::{self, Poly};
use super::ints::{Ints, Q_INVERSE, Q_SIGNED};
use super::kernels::{compiled, kernels};

kernels!(compiled Ymm, "avx2",);

/// A ymm register.
#[derive(Clone, Copy)]
pub(crate) struct Ymm(__m256i);

macro_rules! op {
    ($call:expr) => {
        // SAFETY: reached only under the token, as the contract says.
        unsafe { $call }
    };
}

/// Returns the odd elements in the places of the even ones.
#[inline(always)]
fn odd(a: __m256i) -> __m256i {
    op!(_mm256_srli_epi64::<32>(a))
}

/// Returns the upper halves of products of even and of odd elements, each less the multiple of q that clears the lower
/// half; `low` is that multiple.
#[inline(always)]
fn upper(even: __m256i, odd_products: __m256i, low: __m256i) -> Ymm {
    op!({
        let q = _mm256_set1_epi32(Q_SIGNED);
        let even = _mm256_sub_epi64(even, _mm256_mul_epi32(low, q));
        let odds = _mm256_sub_epi64(odd_products, _mm256_mul_epi32(odd(low), q));
        Ymm(_mm256_blend_epi32::<0xaa>(_mm256_srli_epi64::<32>(even), odds))
    })
}

impl Ints for Ymm {
    const WIDTH: usize = 8;
    type Sum = [__m256i; 2];

    methods! {
        splat(value: i32) = _mm256_set1_epi32(value);
        add(self, other: Self) = _mm256_add_epi32(self.0, other.0);
        sub(self, other: Self) = _mm256_sub_epi32(self.0, other.0);
        and(self, other: Self) = _mm256_and_si256(self.0, other.0);
        or(self, other: Self) = _mm256_or_si256(self.0, other.0);
        xor(self, other: Self) = _mm256_xor_si256(self.0, other.0);
        shift_right<const BITS: u32>(self) = _mm256_sra_epi32(self.0, _mm_cvtsi32_si128(BITS.cast_signed()));
        low_product(self, other: Self) = _mm256_mullo_epi32(self.0, other.0);
    }
    /// # Safety
    /// 8 integers are readable, with any alignment.
    #[inline(always)]
    unsafe fn load(from: *const i32) -> Self {
        Self(op!(_mm256_loadu_si256(from.cast())))
    }
    /// # Safety
    /// 8 integers are writable, with any alignment.
    #[inline(always)]
    unsafe fn store(self, to: *mut i32) {
        op!(_mm256_storeu_si256(to.cast(), self.0));
    }
    #[inline(always)]
    fn product(self, by: Self, scaled: Self) -> Self {
        let low = self.low_product(scaled).0;
        let even = op!(_mm256_mul_epi32(self.0, by.0));
        let odds = op!(_mm256_mul_epi32(odd(self.0), odd(by.0)));
        upper(even, odds, low)
    }
    #[inline(always)]
    fn no_sum() -> Self::Sum {
        [op!(_mm256_setzero_si256()); 2]
    }
    #[inline(always)]
    fn add_product([even, odds]: Self::Sum, a: Self, b: Self) -> Self::Sum {
        op!([
            _mm256_add_epi64(even, _mm256_mul_epi32(a.0, b.0)),
            _mm256_add_epi64(odds, _mm256_mul_epi32(odd(a.0), odd(b.0))),
        ])
    }
    #[inline(always)]
    fn reduce_sum([even, odds]: Self::Sum) -> Self {
        op!({
            let low = _mm256_blend_epi32::<0xaa>(even, _mm256_slli_epi64::<32>(odds));
            upper(even, odds, _mm256_mullo_epi32(low, _mm256_set1_epi32(Q_INVERSE)))
        })
    }
    #[inline(always)]
    fn is_any_negative(self) -> bool {
        op!(_mm256_movemask_ps(_mm256_castsi256_ps(self.0))) != 0
    }
    #[inline(always)]
    fn transpose(rows: &mut [Self; 16]) {
        op!({
            let r: [__m256i; 8] = core::array::from_fn(|n| rows[n].0);
            let low = |a, b| _mm256_unpacklo_epi32(a, b);
            let high = |a, b| _mm256_unpackhi_epi32(a, b);
            let a = [low(r[0], r[1]), high(r[0], r[1]), low(r[2], r[3]), high(r[2], r[3])];
            let b = [low(r[4], r[5]), high(r[4], r[5]), low(r[6], r[7]), high(r[6], r[7])];
            let low = |a, b| _mm256_unpacklo_epi64(a, b);
            let high = |a, b| _mm256_unpackhi_epi64(a, b);
            let a = [low(a[0], a[2]), high(a[0], a[2]), low(a[1], a[3]), high(a[1], a[3])];
            let b = [low(b[0], b[2]), high(b[0], b[2]), low(b[1], b[3]), high(b[1], b[3])];
            for n in 0..4 {
                rows[n] = Self(_mm256_permute2x128_si256::<0x20>(a[n], b[n]));
                rows[n + 4] = Self(_mm256_permute2x128_si256::<0x31>(a[n], b[n]));
            }
        });
    }
    /// # Safety
    /// The coded values up to `first + 8` are readable, and [`UNPACK_SLACK`](super::ints::UNPACK_SLACK) bytes behind them.
    #[inline(always)]
    unsafe fn unpack<const BITS: usize>(bytes: *const u8, first: usize) -> Self {
        // Four values have 9 or 10 bytes, and begin at a byte.
        const fn places(bits: usize) -> [u8; 16] {
            let mut all = [0; 16];
            let mut n = 0;
            while n < 16 {
                all[n] = (n / 4 * bits / 8 + n % 4) as u8;
                n += 1;
            }
            all
        }
        // SAFETY: the caller's contract: each load ends less than 32 bytes behind the values.
        unsafe {
            let at = bytes.add(first * BITS / 8);
            let low = _mm_loadu_si128(at.cast());
            let high = _mm_loadu_si128(at.add(BITS / 2).cast());
            let places: *const [u8; 16] = const { &places(BITS) };
            let places = _mm256_broadcastsi128_si256(_mm_loadu_si128(places.cast()));
            let words = _mm256_shuffle_epi8(_mm256_set_m128i(high, low), places);
            let shift = (BITS % 8) as i32;
            let shifts = _mm_setr_epi32(0, shift, 2 * shift % 8, 3 * shift % 8);
            let aligned = _mm256_srlv_epi32(words, _mm256_broadcastsi128_si256(shifts));
            Self(_mm256_and_si256(aligned, _mm256_set1_epi32((1 << BITS) - 1)))
        }
    }
}

/// For each set of elements, the elements that it has, one after the other.
static ORDERS: [[u8; 8]; 256] = {
    let mut all = [[0; 8]; 256];
    let mut set = 0;
    while set < 256 {
        let (mut element, mut count) = (0, 0);
        while element < 8 {
            if set >> element & 1 == 1 {
                all[set][count] = element;
                count += 1;
            }
            element += 1;
        }
        set += 1;
    }
    all
};

/// Appends those of eight numbers of 23 bits each, of 24 bytes, that are below q; returns how many. The numbers are
/// public.
///
/// # Safety
/// The processor has the instructions, and eight integers are writable at `to`.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn uniform(bytes: &[u8; 24], to: *mut i32) -> usize {
    // SAFETY: both loads lie within the 24 bytes, the order within the table, and the caller has room for a vector.
    unsafe {
        let low = _mm_loadu_si128(bytes.as_ptr().cast());
        let high = _mm_loadu_si128(bytes.as_ptr().add(8).cast());
        // The upper four numbers begin at the fifth byte of their load.
        let places = _mm256_setr_epi8(
            0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1, //
            4, 5, 6, -1, 7, 8, 9, -1, 10, 11, 12, -1, 13, 14, 15, -1,
        );
        let words = _mm256_shuffle_epi8(_mm256_set_m128i(high, low), places);
        let candidates = _mm256_and_si256(words, _mm256_set1_epi32(0x7f_ffff));
        let is_below = _mm256_cmpgt_epi32(_mm256_set1_epi32(Q_SIGNED), candidates);
        let taken = _mm256_movemask_ps(_mm256_castsi256_ps(is_below));
        let order = _mm_loadl_epi64(ORDERS[taken as usize].as_ptr().cast());
        let packed = _mm256_permutevar8x32_epi32(candidates, _mm256_cvtepu8_epi32(order));
        _mm256_storeu_si256(to.cast(), packed);
        taken.count_ones() as usize
    }
}
