//! Polynomials of ML-KEM in 16-bit elements of AVX-512: a polynomial is eight vectors of 32 coefficients.
//!
//! Coefficients are signed, and products are Montgomery's: [`product`] returns `a b / 2^16` modulo q, below q in
//! amount for any 16-bit `a` and reduced `b`. Bounds of intermediate values are stated in multiples of q; 16 bits
//! hold 9.8 q. A transform is 28 butterflies of a vector each, all in registers: layers of distance 128, 64 and 32
//! join whole vectors, and the four others are done after gathering the low halves of a pair of vectors in one and
//! the high halves in the other. Transforms at rest are in the standard's order.
//!
//! No branch and no address depends on a coefficient.
//!
//! `unsafe`: loads of constants by vectors through pointers.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::parameters::Q;
use super::reference::{power, reversed};

/// A polynomial.
pub(crate) type Poly = [__m512i; 8];

/// A transform prepared to be a factor: pairs `(b0, gamma b1)`, and pairs `(b1, b0)`.
pub(crate) type Factor = [[__m512i; 8]; 2];

/// Sums of products in 32-bit elements: of the even coefficients, and of the odd ones.
pub(crate) type Sum = [[__m512i; 8]; 2];

/// The polynomial of zeros.
// SAFETY: zeros are a vector.
pub(crate) const ZERO: Poly = unsafe { core::mem::zeroed() };

/// Makes a polynomial of one expression per vector: closures that are passed on are not compiled for AVX-512.
macro_rules! each {
    ($n:ident => $value:expr) => {{
        let mut made = [_mm512_setzero_si512(); 8];
        for $n in 0..8 {
            made[$n] = $value;
        }
        made
    }};
}

pub(crate) use each;

/// q^-1 modulo 2^16.
pub(super) const Q_INVERSE: i16 = {
    let mut inverse = 1u16;
    let mut n = 0;
    while n < 4 {
        inverse = inverse.wrapping_mul(2u16.wrapping_sub(Q.wrapping_mul(inverse)));
        n += 1;
    }
    inverse as i16
};

/// Returns `value` modulo q, from -1664 to 1664.
pub(super) const fn centered(value: u32) -> i16 {
    let rest = (value % Q as u32) as i16;
    if rest > Q as i16 / 2 { rest - Q as i16 } else { rest }
}

/// Returns `value 2^16` modulo q, centered: a factor for [`product`].
pub(super) const fn factor(value: u16) -> i16 {
    centered(((value as u32) << 16) % Q as u32)
}

/// A factor of every coefficient of a vector, and the same times q^-1.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Factors {
    value: [i16; 32],
    scaled: [i16; 32],
}

impl Factors {
    const fn new(value: [i16; 32]) -> Self {
        let mut scaled = [0; 32];
        let mut n = 0;
        while n < 32 {
            scaled[n] = value[n].wrapping_mul(Q_INVERSE);
            n += 1;
        }
        Self { value, scaled }
    }
}

/// How a pair of vectors is split for the layer of index `layer` (0: distance 16, 3: distance 2): whether a pair's
/// element `n` of the low result is an element of the first or the second vector, and which.
const fn gathered(layer: usize, n: usize, high: bool) -> usize {
    // In units of 16 / 2^layer coefficients, each result takes every other unit: of 256 bits, 128, 64 and 32. Units
    // of 64 and 32 bits are gathered within 128-bit elements, from both vectors in turn; the others over the vector.
    let odd = high as usize;
    match layer {
        0 | 1 => {
            let unit = 16 >> layer;
            let per = 32 / unit / 2;
            let (of, within) = (n / unit, n % unit);
            32 * (of / per) + unit * (2 * (of % per) + odd) + within
        }
        2 => {
            let (element, within) = (n / 8, n % 8);
            32 * (within / 4) + 8 * element + 4 * odd + within % 4
        }
        _ => {
            let (element, within) = (n / 8, n % 8);
            32 * (within / 4) + 8 * element + 4 * (within % 4 / 2) + 2 * odd + within % 2
        }
    }
}

/// The place in a pair of 64 coefficients of each element of the low and of the high vector, at each layer.
const PLACES: [[usize; 64]; 5] = {
    let mut all = [[0; 64]; 5];
    let mut n = 0;
    while n < 64 {
        all[0][n] = n;
        n += 1;
    }
    let mut layer = 0;
    while layer < 4 {
        let mut n = 0;
        while n < 64 {
            all[layer + 1][n] = all[layer][gathered(layer, n % 32, n >= 32)];
            n += 1;
        }
        layer += 1;
    }
    all
};

/// The factors of the four layers within a pair of vectors, by layer and pair.
static ZETAS: [[Factors; 4]; 4] = zetas(false);
/// Their inverses.
static INVERSE_ZETAS: [[Factors; 4]; 4] = zetas(true);

const fn zetas(inverse: bool) -> [[Factors; 4]; 4] {
    let mut all = [[Factors::new([0; 32]); 4]; 4];
    let mut layer = 0;
    while layer < 4 {
        let distance = 16 >> layer;
        let mut pair = 0;
        while pair < 4 {
            let mut value = [0; 32];
            let mut n = 0;
            while n < 32 {
                let block = (64 * pair + PLACES[layer + 1][n]) / (2 * distance);
                let index = 128 / distance + block;
                value[n] = zeta(index, inverse);
                n += 1;
            }
            all[layer][pair] = Factors::new(value);
            pair += 1;
        }
        layer += 1;
    }
    all
}

/// The factor of a butterfly by the index that the standard counts, or of its inverse, 1 / zeta.
pub(super) const fn zeta(index: usize, inverse: bool) -> i16 {
    let exponent = reversed(index as u32);
    factor(power(if inverse { 256 - exponent } else { exponent }))
}

/// Places of 32-bit elements, pairs of coefficients, in two vectors.
#[repr(align(64))]
struct Order([i32; 16]);

/// For each 32 bits of a pair of vectors in the standard's order, its place after the last layer.
static TO_STANDARD: [Order; 2] = order(false);
/// For each 32 bits of a pair of vectors after the last layer, its place in the standard's order.
static FROM_STANDARD: [Order; 2] = order(true);

const fn order(from: bool) -> [Order; 2] {
    let mut all = [Order([0; 16]), Order([0; 16])];
    let mut n = 0;
    while n < 32 {
        let place = PLACES[4][2 * n] / 2;
        let (at, value) = if from { (n, place) } else { (place, n) };
        all[at / 16].0[at % 16] = value as i32;
        n += 1;
    }
    all
}

/// Gamma of each odd coefficient, in the standard's order; even ones are 1.
static GAMMAS: [Factors; 8] = {
    let mut all = [Factors::new([0; 32]); 8];
    let mut vector = 0;
    while vector < 8 {
        let mut value = [factor(1); 32];
        let mut n = 1;
        while n < 32 {
            value[n] = factor(power(2 * reversed((16 * vector + n / 2) as u32) + 1));
            n += 2;
        }
        all[vector] = Factors::new(value);
        vector += 1;
    }
    all
};

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn splat(value: i16) -> __m512i {
    _mm512_set1_epi16(value)
}

/// Loads 64 aligned bytes of constants.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn constant<T>(value: &T) -> __m512i {
    const { assert!(size_of::<T>() == 64) };
    // SAFETY: 64 bytes of plain integers.
    unsafe { _mm512_loadu_si512(core::ptr::from_ref(value).cast()) }
}

/// Returns `a b / 2^16` modulo q, below q in amount; `scaled` is `b q^-1` modulo 2^16.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn product(a: __m512i, b: __m512i, scaled: __m512i) -> __m512i {
    let low = _mm512_mullo_epi16(a, scaled);
    let high = _mm512_mulhi_epi16(a, b);
    _mm512_sub_epi16(high, _mm512_mulhi_epi16(low, splat(Q as i16)))
}

/// Returns `a` times one factor.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn product_by(a: __m512i, by: i16) -> __m512i {
    product(a, splat(by), splat(by.wrapping_mul(Q_INVERSE)))
}

/// Returns `a` modulo q, below 0.64 q in amount, for `a` up to 9 q.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn reduce(a: __m512i) -> __m512i {
    // 10 / 2^15 is 1 / q but for 1.6 %.
    let quotient = _mm512_mulhrs_epi16(a, splat(10));
    _mm512_sub_epi16(a, _mm512_mullo_epi16(quotient, splat(Q as i16)))
}

/// Returns `a` modulo q, from 0 to q - 1, for `a` above -q and below q.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn canonical(a: __m512i) -> __m512i {
    // A negative value is a large one without sign.
    _mm512_min_epu16(a, _mm512_add_epi16(a, splat(Q as i16)))
}

/// Splits a pair of vectors for a layer; see [`gathered`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn split<const LAYER: usize>(a: __m512i, b: __m512i) -> (__m512i, __m512i) {
    match LAYER {
        0 => (_mm512_shuffle_i64x2::<0x44>(a, b), _mm512_shuffle_i64x2::<0xee>(a, b)),
        1 => (_mm512_shuffle_i64x2::<0x88>(a, b), _mm512_shuffle_i64x2::<0xdd>(a, b)),
        2 => (_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b)),
        _ => {
            let (a, b) = (_mm512_castsi512_ps(a), _mm512_castsi512_ps(b));
            let low = _mm512_shuffle_ps::<0x88>(a, b);
            let high = _mm512_shuffle_ps::<0xdd>(a, b);
            (_mm512_castps_si512(low), _mm512_castps_si512(high))
        }
    }
}

/// Undoes [`split`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn join<const LAYER: usize>(low: __m512i, high: __m512i) -> (__m512i, __m512i) {
    match LAYER {
        0 => split::<0>(low, high),
        1 => {
            // Each takes the elements of 128 bits from both in turn.
            let first = _mm512_set_epi64(11, 10, 3, 2, 9, 8, 1, 0);
            let second = _mm512_set_epi64(15, 14, 7, 6, 13, 12, 5, 4);
            (_mm512_permutex2var_epi64(low, first, high), _mm512_permutex2var_epi64(low, second, high))
        }
        2 => split::<2>(low, high),
        _ => (_mm512_unpacklo_epi32(low, high), _mm512_unpackhi_epi32(low, high)),
    }
}

/// One layer within pairs, forward.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn layer<const LAYER: usize>(f: &mut Poly) {
    for pair in 0..4 {
        let zetas = &ZETAS[LAYER][pair];
        let (low, high) = split::<LAYER>(f[2 * pair], f[2 * pair + 1]);
        let t = product(high, constant(&zetas.value), constant(&zetas.scaled));
        f[2 * pair] = _mm512_add_epi16(low, t);
        f[2 * pair + 1] = _mm512_sub_epi16(low, t);
    }
}

/// One layer within pairs, of the inverse.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn inverse_layer<const LAYER: usize>(f: &mut Poly) {
    for pair in 0..4 {
        let zetas = &INVERSE_ZETAS[LAYER][pair];
        let (low, high) = (f[2 * pair], f[2 * pair + 1]);
        let difference = _mm512_sub_epi16(low, high);
        let high = product(difference, constant(&zetas.value), constant(&zetas.scaled));
        let low = _mm512_add_epi16(f[2 * pair], f[2 * pair + 1]);
        (f[2 * pair], f[2 * pair + 1]) = join::<LAYER>(low, high);
    }
}

/// A butterfly of two whole vectors, with the factor of an index.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn butterfly<const INDEX: usize>(f: &mut Poly, low: usize, high: usize) {
    let t = product_by(f[high], const { zeta(INDEX, false) });
    f[high] = _mm512_sub_epi16(f[low], t);
    f[low] = _mm512_add_epi16(f[low], t);
}

/// The inverse of [`butterfly`], times 2.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn inverse_butterfly<const INDEX: usize>(f: &mut Poly, low: usize, high: usize) {
    let difference = _mm512_sub_epi16(f[low], f[high]);
    f[low] = _mm512_add_epi16(f[low], f[high]);
    f[high] = product_by(difference, const { zeta(INDEX, true) });
}

/// NTT of coefficients up to 1.5 q; the result is below 0.64 q in amount.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn transform(f: &mut Poly) {
    let mut a = *f;
    // Every layer adds less than q.
    for n in 0..4 {
        butterfly::<1>(&mut a, n, n + 4);
    }
    for n in 0..2 {
        butterfly::<2>(&mut a, n, n + 2);
        butterfly::<3>(&mut a, n + 4, n + 6);
    }
    butterfly::<4>(&mut a, 0, 1);
    butterfly::<5>(&mut a, 2, 3);
    butterfly::<6>(&mut a, 4, 5);
    butterfly::<7>(&mut a, 6, 7);
    layer::<0>(&mut a);
    layer::<1>(&mut a);
    layer::<2>(&mut a);
    layer::<3>(&mut a);
    for pair in 0..4 {
        let (low, high) = (reduce(a[2 * pair]), reduce(a[2 * pair + 1]));
        f[2 * pair] = _mm512_permutex2var_epi32(low, constant(&TO_STANDARD[0].0), high);
        f[2 * pair + 1] = _mm512_permutex2var_epi32(low, constant(&TO_STANDARD[1].0), high);
    }
}

/// The inverse of NTT, times 2^16: undoes the factor 2^-16 of a product. Coefficients up to q; the result is below
/// 0.6 q in amount.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn inverse(f: &mut Poly) {
    let mut a = *f;
    for pair in 0..4 {
        let (first, second) = (f[2 * pair], f[2 * pair + 1]);
        a[2 * pair] = _mm512_permutex2var_epi32(first, constant(&FROM_STANDARD[0].0), second);
        a[2 * pair + 1] = _mm512_permutex2var_epi32(first, constant(&FROM_STANDARD[1].0), second);
    }
    inverse_layer::<3>(&mut a);
    inverse_layer::<2>(&mut a);
    inverse_layer::<1>(&mut a);
    // Sums double in every layer: 8 q now.
    a = each!(n => reduce(a[n]));
    inverse_layer::<0>(&mut a);
    inverse_butterfly::<4>(&mut a, 0, 1);
    inverse_butterfly::<5>(&mut a, 2, 3);
    inverse_butterfly::<6>(&mut a, 4, 5);
    inverse_butterfly::<7>(&mut a, 6, 7);
    for n in 0..2 {
        inverse_butterfly::<2>(&mut a, n, n + 2);
        inverse_butterfly::<3>(&mut a, n + 4, n + 6);
    }
    // 5.1 q now.
    a = each!(n => reduce(a[n]));
    // 2^32 / 128 for [`product`], which divides by 2^16.
    const SCALE: i16 = centered((1 << 25) % Q as u32);
    const SCALE_ZETA: i16 = centered((1 << 25) % Q as u32 * power(256 - reversed(1)) as u32);
    for n in 0..4 {
        let difference = _mm512_sub_epi16(a[n], a[n + 4]);
        f[n] = product_by(_mm512_add_epi16(a[n], a[n + 4]), SCALE);
        f[n + 4] = product_by(difference, SCALE_ZETA);
    }
}

/// Prepares a reduced transform to be a factor.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn prepare(f: &Poly) -> Factor {
    let mut made = [*f; 2];
    for n in 0..8 {
        let scaled = product(f[n], constant(&GAMMAS[n].value), constant(&GAMMAS[n].scaled));
        made[0][n] = _mm512_mask_blend_epi16(0xaaaa_aaaa, f[n], scaled);
        made[1][n] = _mm512_rol_epi32::<16>(f[n]);
    }
    made
}

/// Adds the product of a transform, below q in amount, and a factor; four products fit.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn add_product(sum: &mut Sum, a: &Poly, b: &Factor) {
    for half in 0..2 {
        for n in 0..8 {
            let product = _mm512_madd_epi16(a[n], b[half][n]);
            sum[half][n] = _mm512_add_epi32(sum[half][n], product);
        }
    }
}

/// Returns sums of up to four products, divided by 2^16 modulo q: below 0.93 q in amount.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn reduce_sum(sum: &Sum) -> Poly {
    each!(n => {
        let (even, odd) = (sum[0][n], sum[1][n]);
        let low = _mm512_mask_blend_epi16(0xaaaa_aaaa, even, _mm512_slli_epi32::<16>(odd));
        let high = _mm512_mask_blend_epi16(0xaaaa_aaaa, _mm512_srli_epi32::<16>(even), odd);
        let low = _mm512_mullo_epi16(low, splat(Q_INVERSE));
        _mm512_sub_epi16(high, _mm512_mulhi_epi16(low, splat(Q as i16)))
    })
}

/// Returns `f` times 2^16, which undoes the factor of a product without a transform.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn restore(f: &Poly) -> Poly {
    const SCALE: i16 = centered(((1u64 << 32) % Q as u64) as u32);
    each!(n => product_by(f[n], SCALE))
}

/// Adds another polynomial, and reduces: both up to 4 q in amount.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn add(f: &mut Poly, other: &Poly) {
    for (f, other) in f.iter_mut().zip(other) {
        *f = reduce(_mm512_add_epi16(*f, *other));
    }
}

/// Returns `a - b`, reduced.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn subtract(a: &Poly, b: &Poly) -> Poly {
    each!(n => reduce(_mm512_sub_epi16(a[n], b[n])))
}
