//! Eight elements of the field of 2^255 - 19 at once: five limbs of 51 bits, one vector per limb.
//!
//! IFMA multiplies 52-bit numbers, so a limb of an operand is below 2^52 ([`Fe`]). The products of two
//! operands, summed by weight and folded (2^255 is 19), are below 2^59 a limb ([`Wide`]). Sums and
//! differences are made of these, before the carries run: an addition costs five instructions and no carry of
//! its own. A multiplication is 50 IFMA, a squaring 30, and each fold is five multiplications by 19; that is
//! its floor in cycles where a vector of 512 bits is multiplied each cycle, and half of it where two are.
//!
//! The high half of a product weighs 2^52, one bit more than a limb, so it counts twice; accumulators take
//! the high halves first, are doubled, and take the low halves then.
//!
//! `unsafe`: vector instructions in functions without their features, which are always inlined, and loads and
//! stores of vectors. All of them are reached only from entry points that hold the token, as in
//! [`crate::simd`].
#![allow(unsafe_code)]
#![expect(clippy::needless_range_loop, reason = "an index is the weight of a limb")]

use core::arch::x86_64::*;

use zeroize::Zeroize as _;

use super::{WAYS, inverse};

/// Runs vector instructions in a function without their features, which is always inlined.
macro_rules! op {
    ($body:expr) => {
        // SAFETY: reached only from functions with these features, as the module's contract says.
        unsafe { $body }
    };
}

/// Eight words of 64 bits, one a way.
pub(crate) type V = __m512i;

const LIMB: i64 = (1 << 51) - 1;

/// Limbs of 2^10 * (2^255 - 19): what is added to a difference so that it stays positive.
const BIAS: [i64; 5] = [(LIMB - 18) << 10, LIMB << 10, LIMB << 10, LIMB << 10, LIMB << 10];

/// Limbs of 2 * (2^255 - 19), each of which is not below the limb of an [`Fe`] after a carry.
const TWICE: [i64; 5] = [(LIMB - 18) << 1, LIMB << 1, LIMB << 1, LIMB << 1, LIMB << 1];

/// Eight elements whose limbs are below 2^51 + 2^17: operands of multiplications.
#[derive(Clone, Copy)]
pub(crate) struct Fe(pub(crate) [V; 5]);

/// Eight elements whose limbs are below 2^62. Those from one multiplication are below 2^59.
#[derive(Clone, Copy)]
pub(crate) struct Wide(pub(crate) [V; 5]);

/// Words of eight numbers in memory, word by word: row i has word i of each way.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(crate) struct Rows<const N: usize>(pub(crate) [[u64; WAYS]; N]);

impl<const N: usize> Rows<N> {
    pub(crate) const ZERO: Self = Self([[0; WAYS]; N]);

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn load(&self) -> [V; N] {
        let mut rows = [_mm512_setzero_si512(); N];
        for i in 0..N {
            // SAFETY: a row is 64 bytes.
            rows[i] = unsafe { _mm512_load_si512(self.0[i].as_ptr().cast()) };
        }
        rows
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn store(values: &[V; N]) -> Self {
        let mut rows = Self::ZERO;
        for i in 0..N {
            // SAFETY: a row is 64 bytes.
            unsafe { _mm512_store_si512(rows.0[i].as_mut_ptr().cast(), values[i]) };
        }
        rows
    }

    /// Sets a way.
    pub(crate) fn set(&mut self, way: usize, words: &[u64; N]) {
        for (row, word) in self.0.iter_mut().zip(words) {
            row[way] = *word;
        }
    }

    /// Returns a way.
    pub(crate) fn get(&self, way: usize) -> [u64; N] {
        let mut words = [0; N];
        for (word, row) in words.iter_mut().zip(&self.0) {
            *word = row[way];
        }
        words
    }
}

/// Returns the same value in each way.
#[inline(always)]
pub(crate) fn splat(value: i64) -> V {
    op!(_mm512_set1_epi64(value))
}

#[inline(always)]
fn fold(c: &[V; 10]) -> Wide {
    op!({
        let nineteen = splat(19);
        let mut r = [c[0]; 5];
        for k in 0..5 {
            r[k] = _mm512_add_epi64(c[k], _mm512_mullo_epi64(c[k + 5], nineteen));
        }
        Wide(r)
    })
}

/// Multiplies. The highest limbs come first, because the columns that are folded must be done first.
#[inline(always)]
pub(crate) fn mul(a: &Fe, b: &Fe) -> Wide {
    op!({
        let (a, b) = (&a.0, &b.0);
        let mut c = [_mm512_setzero_si512(); 10];
        for i in (0..5).rev() {
            for j in (0..5).rev() {
                c[i + j + 1] = _mm512_madd52hi_epu64(c[i + j + 1], a[i], b[j]);
            }
        }
        for k in 1..10 {
            c[k] = _mm512_add_epi64(c[k], c[k]);
        }
        for i in (0..5).rev() {
            for j in (0..5).rev() {
                c[i + j] = _mm512_madd52lo_epu64(c[i + j], a[i], b[j]);
            }
        }
        fold(&c)
    })
}

/// Returns the squares, by fewer multiplications than [`mul`].
#[inline(always)]
pub(crate) fn square(a: &Fe) -> Wide {
    op!({
        let a = &a.0;
        let mut c = [_mm512_setzero_si512(); 10];
        for i in 0..5 {
            for j in i + 1..5 {
                c[i + j + 1] = _mm512_madd52hi_epu64(c[i + j + 1], a[i], a[j]);
            }
        }
        for k in 2..9 {
            c[k] = _mm512_add_epi64(c[k], c[k]);
        }
        for i in 0..5 {
            c[2 * i + 1] = _mm512_madd52hi_epu64(c[2 * i + 1], a[i], a[i]);
            for j in i + 1..5 {
                c[i + j] = _mm512_madd52lo_epu64(c[i + j], a[i], a[j]);
            }
        }
        for k in 1..10 {
            c[k] = _mm512_add_epi64(c[k], c[k]);
        }
        for i in 0..5 {
            c[2 * i] = _mm512_madd52lo_epu64(c[2 * i], a[i], a[i]);
        }
        fold(&c)
    })
}

/// Returns `sum + a * small`, where `small` is below 2^17.
#[inline(always)]
pub(crate) fn mul_small(sum: &Wide, a: &Fe, small: i64) -> Wide {
    op!({
        let small = splat(small);
        let mut r = sum.0;
        for k in 0..5 {
            r[k] = _mm512_madd52lo_epu64(r[k], a.0[k], small);
            let high = _mm512_madd52hi_epu64(_mm512_setzero_si512(), a.0[k], small);
            if k < 4 {
                r[k + 1] = _mm512_add_epi64(r[k + 1], _mm512_add_epi64(high, high));
            } else {
                r[0] = _mm512_madd52lo_epu64(r[0], high, splat(38));
            }
        }
        Wide(r)
    })
}

/// Lets every limb carry into the next one at once.
#[inline(always)]
pub(crate) fn carry(a: &Wide) -> Fe {
    op!({
        let a = &a.0;
        let limb = splat(LIMB);
        let mut r = *a;
        let top = _mm512_srli_epi64::<51>(a[4]);
        r[0] = _mm512_madd52lo_epu64(_mm512_and_si512(a[0], limb), top, splat(19));
        for k in 1..5 {
            r[k] = _mm512_add_epi64(_mm512_and_si512(a[k], limb), _mm512_srli_epi64::<51>(a[k - 1]));
        }
        Fe(r)
    })
}

/// Adds. The sum is below 2^62 as every [`Wide`].
#[inline(always)]
pub(crate) fn add(a: &Wide, b: &Wide) -> Wide {
    op!({
        let mut r = a.0;
        for k in 0..5 {
            r[k] = _mm512_add_epi64(r[k], b.0[k]);
        }
        Wide(r)
    })
}

/// Subtracts; `b` is below 2^61 - 2^15, which a sum of three products is.
#[inline(always)]
pub(crate) fn sub(a: &Wide, b: &Wide) -> Wide {
    op!({
        let mut r = a.0;
        for k in 0..5 {
            r[k] = _mm512_sub_epi64(_mm512_add_epi64(r[k], splat(BIAS[k])), b.0[k]);
        }
        Wide(r)
    })
}

/// Negates the ways of `mask`. The limbs of the result are below 2^52: it is an operand of [`mul`] only.
#[inline(always)]
pub(crate) fn negate_some(mask: __mmask8, a: &Fe) -> Fe {
    op!({
        let mut r = a.0;
        for k in 0..5 {
            r[k] = _mm512_mask_sub_epi64(r[k], mask, splat(TWICE[k]), r[k]);
        }
        Fe(r)
    })
}

/// Returns `b` in the ways of `mask`, and `a` in the others.
#[inline(always)]
pub(crate) fn select(mask: __mmask8, a: &Fe, b: &Fe) -> Fe {
    op!({
        let mut r = a.0;
        for k in 0..5 {
            r[k] = _mm512_mask_mov_epi64(r[k], mask, b.0[k]);
        }
        Fe(r)
    })
}

impl Fe {
    /// Returns the same element in each way.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn splat(limbs: &[u64; 5]) -> Self {
        let mut r = [_mm512_setzero_si512(); 5];
        for k in 0..5 {
            r[k] = splat(limbs[k].cast_signed());
        }
        Self(r)
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn one() -> Self {
        Self::splat(&[1, 0, 0, 0, 0])
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn zero() -> Self {
        Self::splat(&[0; 5])
    }

    #[inline]
    pub(crate) fn wide(&self) -> Wide {
        Wide(self.0)
    }

    /// Reads 255 bits of each way; the last bit of the four words is ignored.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn from_words(w: &[V; 4]) -> Self {
        Self([
            bits::<51>(w, 0),
            bits::<51>(w, 51),
            bits::<51>(w, 102),
            bits::<51>(w, 153),
            bits::<51>(w, 204),
        ])
    }

    /// Returns the limbs of the one number below 2^255 - 19 that each way stands for.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(crate) fn canonical(&self) -> [V; 5] {
        let (limb, nineteen) = (splat(LIMB), splat(19));
        let mut r = self.0;
        // After two rounds the value is below 2^255, or at most a little above and then small in all upper
        // limbs.
        for _ in 0..2 {
            for k in 0..4 {
                r[k + 1] = _mm512_add_epi64(r[k + 1], _mm512_srli_epi64::<51>(r[k]));
                r[k] = _mm512_and_si512(r[k], limb);
            }
            r[0] = _mm512_madd52lo_epu64(r[0], _mm512_srli_epi64::<51>(r[4]), nineteen);
            r[4] = _mm512_and_si512(r[4], limb);
        }
        // The value is not below 2^255 - 19 exactly if 19 more reach 2^255.
        let mut q = _mm512_srli_epi64::<51>(_mm512_add_epi64(r[0], nineteen));
        for k in 1..5 {
            q = _mm512_srli_epi64::<51>(_mm512_add_epi64(r[k], q));
        }
        r[0] = _mm512_madd52lo_epu64(r[0], q, nineteen);
        for k in 0..4 {
            r[k + 1] = _mm512_add_epi64(r[k + 1], _mm512_srli_epi64::<51>(r[k]));
            r[k] = _mm512_and_si512(r[k], limb);
        }
        r[4] = _mm512_and_si512(r[4], limb);
        r
    }

    /// Returns the four words of the number below 2^255 - 19.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(crate) fn to_words(self) -> [V; 4] {
        let r = self.canonical();
        [
            or(r[0], _mm512_slli_epi64::<51>(r[1])),
            or(_mm512_srli_epi64::<13>(r[1]), _mm512_slli_epi64::<38>(r[2])),
            or(_mm512_srli_epi64::<26>(r[2]), _mm512_slli_epi64::<25>(r[3])),
            or(_mm512_srli_epi64::<39>(r[3]), _mm512_slli_epi64::<12>(r[4])),
        ]
    }

    /// Returns the ways that are zero.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(crate) fn is_zero(&self) -> __mmask8 {
        let r = self.canonical();
        let any = or(or(or(r[0], r[1]), or(r[2], r[3])), r[4]);
        _mm512_testn_epi64_mask(any, any)
    }

    /// Returns the ways whose number below 2^255 - 19 is odd.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(crate) fn is_odd(&self) -> __mmask8 {
        _mm512_test_epi64_mask(self.canonical()[0], splat(1))
    }
}

#[inline(always)]
pub(crate) fn or(a: V, b: V) -> V {
    op!(_mm512_or_si512(a, b))
}

/// Returns `COUNT` bits from bit `at` of each way's number on; bits beyond the words are zero.
#[inline(always)]
pub(crate) fn bits<const COUNT: u32>(words: &[V], at: usize) -> V {
    op!({
        let (word, shift) = (at / 64, (at % 64) as i64);
        let zero = _mm512_setzero_si512();
        let low = words.get(word).copied().unwrap_or(zero);
        let high = words.get(word + 1).copied().unwrap_or(zero);
        // A shift by 64 gives zero.
        let pair = or(_mm512_srlv_epi64(low, splat(shift)), _mm512_sllv_epi64(high, splat(64 - shift)));
        _mm512_and_si512(pair, splat((1 << COUNT) - 1))
    })
}

/// Multiplies, and lets the product carry.
#[inline(always)]
pub(crate) fn times(a: &Fe, b: &Fe) -> Fe {
    carry(&mul(a, b))
}

/// Squares each of `M` elements `n` times, side by side: one alone leaves the multipliers waiting for its
/// carries.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
fn squares<const M: usize>(a: &[Fe; M], n: usize) -> [Fe; M] {
    let mut r = *a;
    for _ in 0..n {
        for r in &mut r {
            *r = carry(&square(r));
        }
    }
    r
}

#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
fn products<const M: usize>(a: &[Fe; M], b: &[Fe; M]) -> [Fe; M] {
    let mut r = *a;
    for k in 0..M {
        r[k] = times(&a[k], &b[k]);
    }
    r
}

/// Returns the powers by 2^250 - 1.
#[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
fn power_250<const M: usize>(a: &[Fe; M]) -> [Fe; M] {
    let two = squares(a, 1);
    let nine = products(a, &squares(&two, 2));
    let eleven = products(&two, &nine);
    // The power by 2^n - 1 is named by its n.
    let n5 = products(&nine, &squares(&eleven, 1));
    let n10 = products(&n5, &squares(&n5, 5));
    let n20 = products(&n10, &squares(&n10, 10));
    let n40 = products(&n20, &squares(&n20, 20));
    let n50 = products(&n10, &squares(&n40, 10));
    let n100 = products(&n50, &squares(&n50, 50));
    let n200 = products(&n100, &squares(&n100, 100));
    products(&n50, &squares(&n200, 50))
}

/// Returns the inverses, and zero for zero.
///
/// One number is inverted, the product of all ways: each way multiplies the inverse of that by the others'
/// product.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
pub(crate) fn invert(a: &Fe) -> Fe {
    let zero = a.is_zero();
    let a = select(zero, a, &Fe::one());
    // Neighbours, then neighbouring pairs, then halves change places.
    let (mut neighbours, mut pairs, mut halves) = (a, a, a);
    for k in 0..5 {
        neighbours.0[k] = _mm512_permutex_epi64::<0b10_11_00_01>(a.0[k]);
    }
    let two = times(&a, &neighbours);
    for k in 0..5 {
        pairs.0[k] = _mm512_permutex_epi64::<0b01_00_11_10>(two.0[k]);
    }
    let four = times(&two, &pairs);
    for k in 0..5 {
        halves.0[k] = _mm512_shuffle_i64x2::<0b01_00_11_10>(four.0[k], four.0[k]);
    }
    let mut words = Rows::store(&times(&four, &halves).to_words());
    let others = times(&times(&neighbours, &pairs), &halves);
    let mut limbs = inverse::invert(&words.get(0));
    let made = times(&carry(&Fe::splat(&limbs).wide()), &others);
    words.0.zeroize();
    limbs.zeroize();
    select(zero, &made, &Fe::zero())
}

/// Returns the powers by 2^252 - 3, of which square roots are made: 2^2 * (2^250 - 1) + 1.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
pub(crate) fn root_power<const M: usize>(a: &[Fe; M]) -> [Fe; M] {
    products(&squares(&power_250(a), 2), a)
}
