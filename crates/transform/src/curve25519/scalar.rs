//! Eight scalars at once, modulo the order L of the base point: five limbs of 52 bits, Montgomery
//! multiplication.
#![expect(clippy::needless_range_loop, reason = "an index is the weight of a limb")]

use core::arch::x86_64::*;

use super::field::{V, bits, or, splat};

const LIMB: i64 = (1 << 52) - 1;

/// Limbs of L = 2^252 + 27742317777372353535851937790883648493. The fourth is zero.
const ORDER: [i64; 5] = [0x2_631a_5cf5_d3ed, 0xd_ea2f_79cd_6581, 0x14_def9, 0, 0x1000_0000_0000];

/// -1 / L modulo 2^52.
const FACTOR: i64 = 0x5_1da3_1254_7e1b;

/// R modulo L, where R is 2^260.
const R: [i64; 5] =
    [0xf_48bd_6721_e6ed, 0x3_bab5_ac67_e45a, 0xf_ffff_eb35_e51b, 0xf_ffff_ffff_ffff, 0xfff_ffff_ffff];

/// The square of R modulo L.
const R2: [i64; 5] =
    [0x9_d265_e952_d13b, 0xd_63c7_15be_a69f, 0x5_be65_cb68_7604, 0x3_dcee_c73d_217f, 0x941_1b7c_309a];

/// Limbs of 50 bits of the sum of 16 * 32^i over 51 digits.
const OFFSETS: [i64; 6] = [
    0x2_1084_2108_4210,
    0x2_1084_2108_4210,
    0x2_1084_2108_4210,
    0x2_1084_2108_4210,
    0x2_1084_2108_4210,
    0x10,
];

/// Eight numbers of five whole limbs: below 2^260, and below L where a function says so.
#[derive(Clone, Copy)]
pub(crate) struct Scalar(pub(crate) [V; 5]);

/// Digits of a scalar in the base 32, from -16 to 15.
#[derive(Clone, Copy)]
pub(crate) struct Digits(pub(crate) [V; 6]);

/// The number of [`Digits`].
pub(crate) const DIGITS: usize = 51;

impl Scalar {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn splat(limbs: &[i64; 5]) -> Self {
        Self([splat(limbs[0]), splat(limbs[1]), splat(limbs[2]), splat(limbs[3]), splat(limbs[4])])
    }

    /// Reads the 260 bits from bit `at` on; bits beyond the words are zero.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn from_bits(words: &[V], at: usize) -> Self {
        Self([
            bits::<52>(words, at),
            bits::<52>(words, at + 52),
            bits::<52>(words, at + 104),
            bits::<52>(words, at + 156),
            bits::<52>(words, at + 208),
        ])
    }

    /// Reads 256 bits; the number may be L or more.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn from_words(words: &[V; 4]) -> Self {
        Self::from_bits(words, 0)
    }

    /// Reads 512 bits; returns the number modulo L.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
    pub(crate) fn from_wide_words(words: &[V; 8]) -> Self {
        // The upper 252 bits weigh R: they want two factors R, of which the multiplication takes one.
        let low = Self::from_bits(words, 0).over_r(&Self::splat(&R));
        let high = Self::from_bits(words, 260).over_r(&Self::splat(&R2));
        low.add(&high)
    }

    /// Returns the number modulo L.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
    pub(crate) fn reduce(&self) -> Self {
        self.over_r(&Self::splat(&R))
    }

    /// Returns `self * b + c` modulo L; `c` is below L.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
    pub(crate) fn multiply_add(&self, b: &Self, c: &Self) -> Self {
        self.over_r(&b.over_r(&Self::splat(&R2))).add(c)
    }

    /// Returns `self * b / R` modulo L; `b` is below L.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
    fn over_r(&self, b: &Self) -> Self {
        let (a, b) = (&self.0, &b.0);
        let zero = _mm512_setzero_si512();
        let order = [splat(ORDER[0]), splat(ORDER[1]), splat(ORDER[2]), zero, splat(ORDER[4])];
        let mut c = [zero; 10];
        for i in 0..5 {
            for j in 0..5 {
                c[i + j] = _mm512_madd52lo_epu64(c[i + j], a[i], b[j]);
                c[i + j + 1] = _mm512_madd52hi_epu64(c[i + j + 1], a[i], b[j]);
            }
        }
        for i in 0..5 {
            let m = _mm512_madd52lo_epu64(zero, c[i], splat(FACTOR));
            for j in [0, 1, 2, 4] {
                c[i + j] = _mm512_madd52lo_epu64(c[i + j], m, order[j]);
                c[i + j + 1] = _mm512_madd52hi_epu64(c[i + j + 1], m, order[j]);
            }
            // The lower 52 bits are zero now.
            c[i + 1] = _mm512_add_epi64(c[i + 1], _mm512_srli_epi64::<52>(c[i]));
        }
        // The number is below 2^260 * L / R + L, which is twice L.
        Self([c[5], c[6], c[7], c[8], c[9]]).whole().subtract_order_once()
    }

    /// Adds; both are below L, and so is the sum.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(crate) fn add(&self, other: &Self) -> Self {
        let mut r = self.0;
        for k in 0..5 {
            r[k] = _mm512_add_epi64(r[k], other.0[k]);
        }
        Self(r).whole().subtract_order_once()
    }

    /// Makes all limbs but the last whole.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn whole(mut self) -> Self {
        for k in 0..4 {
            self.0[k + 1] = _mm512_add_epi64(self.0[k + 1], _mm512_srli_epi64::<52>(self.0[k]));
            self.0[k] = _mm512_and_si512(self.0[k], splat(LIMB));
        }
        self
    }

    /// Subtracts L from the ways that are not below it.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn subtract_order_once(self) -> Self {
        let mut r = self.0;
        for k in 0..5 {
            r[k] = _mm512_sub_epi64(r[k], splat(ORDER[k]));
        }
        for k in 0..4 {
            r[k + 1] = _mm512_add_epi64(r[k + 1], _mm512_srai_epi64::<52>(r[k]));
            r[k] = _mm512_and_si512(r[k], splat(LIMB));
        }
        let below = _mm512_movepi64_mask(r[4]);
        for k in 0..5 {
            r[k] = _mm512_mask_mov_epi64(r[k], below, self.0[k]);
        }
        Self(r)
    }

    /// Returns the ways whose number is below L.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(crate) fn is_below_order(&self) -> __mmask8 {
        let mut borrow = _mm512_setzero_si512();
        for k in 0..5 {
            borrow = _mm512_add_epi64(_mm512_sub_epi64(self.0[k], splat(ORDER[k])), borrow);
            borrow = _mm512_srai_epi64::<52>(borrow);
        }
        _mm512_movepi64_mask(borrow)
    }

    /// Returns the digits of a number below L.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn digits(&self) -> Digits {
        let words = self.to_words();
        let mut r = [_mm512_setzero_si512(); 6];
        // With 16 added to every digit none is negative. Ten digits are 50 bits.
        for k in 0..6 {
            r[k] = _mm512_add_epi64(bits::<50>(&words, 50 * k), splat(OFFSETS[k]));
            if k > 0 {
                r[k] = _mm512_add_epi64(r[k], _mm512_srli_epi64::<50>(r[k - 1]));
                r[k - 1] = _mm512_and_si512(r[k - 1], splat((1 << 50) - 1));
            }
        }
        Digits(r)
    }

    /// Returns the four words.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn to_words(self) -> [V; 4] {
        let r = &self.0;
        [
            or(r[0], _mm512_slli_epi64::<52>(r[1])),
            or(_mm512_srli_epi64::<12>(r[1]), _mm512_slli_epi64::<40>(r[2])),
            or(_mm512_srli_epi64::<24>(r[2]), _mm512_slli_epi64::<28>(r[3])),
            or(_mm512_srli_epi64::<36>(r[3]), _mm512_slli_epi64::<16>(r[4])),
        ]
    }
}

impl Digits {
    /// Returns the magnitudes of digit `i`, from 0 to 16, and the ways where it is negative.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(crate) fn get(&self, i: usize) -> (V, __mmask8) {
        let shifted = _mm512_srl_epi64(self.0[i / 10], _mm_cvtsi64_si128(5 * (i % 10) as i64));
        let digit = _mm512_sub_epi64(_mm512_and_si512(shifted, splat(31)), splat(16));
        (_mm512_abs_epi64(digit), _mm512_movepi64_mask(digit))
    }

    /// Returns the magnitudes of digits `2 * i` and `2 * i + 1` as one number in the base 1024, from 0 to
    /// 528, and the ways where it is negative.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(crate) fn pair(&self, i: usize) -> (V, __mmask8) {
        let shifted = _mm512_srl_epi64(self.0[i / 5], _mm_cvtsi64_si128(10 * (i % 5) as i64));
        // The last digit is alone.
        let offset = if 2 * i + 1 < DIGITS { 16 * 33 } else { 16 };
        let digit = _mm512_sub_epi64(_mm512_and_si512(shifted, splat(1023)), splat(offset));
        (_mm512_abs_epi64(digit), _mm512_movepi64_mask(digit))
    }
}
