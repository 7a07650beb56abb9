//! Polynomials of ML-KEM in 16-bit elements of AVX2: a polynomial is sixteen vectors of 16 coefficients.
//!
//! The arithmetic is that of [`super::vector`], with its bounds: signed coefficients, Montgomery's products. Layers of
//! distance 128 to 16 join whole vectors; the three others are done after splitting a pair of vectors by halves of 128,
//! 64 and 32 bits. Transforms at rest are in the standard's order. Coded polynomials are spread to 32-bit elements, whose
//! shifts differ, and packed by multiply-add and general registers.
//!
//! No branch and no address depends on a coefficient, except in [`sample_matrix`], whose input is public.
//!
//! `unsafe`: loads and stores by vectors through pointers, and functions that are reached only by a token.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

#[allow(unused_imports)] // for links
use super::arithmetic::Vectors;
use super::arithmetic::{Noise, Sampled, Seed};
use super::parameters::{N, POLY_BYTES, Q};
use super::reference::{power, reversed};
use super::vector::{Q_INVERSE, centered, factor, zeta};

/// A polynomial.
pub(crate) type Poly = [__m256i; 16];

// SAFETY: zeros are a vector.
pub(crate) const ZERO: Poly = unsafe { core::mem::zeroed() };

/// Makes a polynomial of one expression per vector: closures that are passed on are not compiled for AVX2.
macro_rules! each {
    ($n:ident => $value:expr) => {{
        let mut made = ZERO;
        for $n in 0..16 {
            made[$n] = $value;
        }
        made
    }};
}

/// A factor of every coefficient of a vector, and the same times q^-1.
#[repr(align(32))]
#[derive(Clone, Copy)]
struct Factors {
    value: [i16; 16],
    scaled: [i16; 16],
}

impl Factors {
    const fn new(value: [i16; 16]) -> Self {
        let mut scaled = [0; 16];
        let mut n = 0;
        while n < 16 {
            scaled[n] = value[n].wrapping_mul(Q_INVERSE);
            n += 1;
        }
        Self { value, scaled }
    }
}

/// The places of a pair's coefficients in its low and its high vector after one split more: by 128, 64, 32 bits.
const fn split_places(places: [[usize; 16]; 2], layer: usize) -> [[usize; 16]; 2] {
    let [first, second] = places;
    let mut made = [[0; 16]; 2];
    let mut n = 0;
    while n < 16 {
        let unit = 8 >> layer;
        // Units of the low vector are even ones of the first and the second in turn; of the high vector odd ones.
        let (at, within) = (n / unit, n % unit);
        let (even, odd) = match layer {
            // Halves: [first 0, second 0], [first 1, second 1].
            0 => (within, unit + within),
            _ => (unit * (at & !1) + within, unit * (at | 1) + within),
        };
        let source = if at % 2 == 0 { &first } else { &second };
        made[0][n] = source[even];
        made[1][n] = source[odd];
        n += 1;
    }
    made
}

/// The places of a pair's coefficients at the layers of distance 8, 4 and 2.
const PLACES: [[[usize; 16]; 2]; 3] = {
    let mut start = [[0; 16]; 2];
    let mut n = 0;
    while n < 32 {
        start[n / 16][n % 16] = n;
        n += 1;
    }
    let one = split_places(start, 0);
    let two = split_places(one, 1);
    [one, two, split_places(two, 2)]
};

/// The factors of the three layers within a pair of vectors, by layer and pair.
static ZETAS: [[Factors; 8]; 3] = zetas(false);
/// Their inverses.
static INVERSE_ZETAS: [[Factors; 8]; 3] = zetas(true);

const fn zetas(inverse: bool) -> [[Factors; 8]; 3] {
    let mut all = [[Factors::new([0; 16]); 8]; 3];
    let mut layer = 0;
    while layer < 3 {
        let distance = 8 >> layer;
        let mut pair = 0;
        while pair < 8 {
            let mut value = [0; 16];
            let mut n = 0;
            while n < 16 {
                let low = 32 * pair + PLACES[layer][0][n];
                assert!(PLACES[layer][1][n] == PLACES[layer][0][n] + distance);
                value[n] = zeta(128 / distance + low / (2 * distance), inverse);
                n += 1;
            }
            all[layer][pair] = Factors::new(value);
            pair += 1;
        }
        layer += 1;
    }
    all
}

/// Gamma of each odd coefficient, in the standard's order; even ones are 1.
static GAMMAS: [Factors; 16] = {
    let mut all = [Factors::new([0; 16]); 16];
    let mut vector = 0;
    while vector < 16 {
        let mut value = [factor(1); 16];
        let mut n = 1;
        while n < 16 {
            value[n] = factor(power(2 * reversed((8 * vector + n / 2) as u32) + 1));
            n += 2;
        }
        all[vector] = Factors::new(value);
        vector += 1;
    }
    all
};

#[inline]
#[target_feature(enable = "avx2")]
fn splat(value: i16) -> __m256i {
    _mm256_set1_epi16(value)
}

/// Loads 32 bytes of constants.
#[inline]
#[target_feature(enable = "avx2")]
fn constant<T>(value: &T) -> __m256i {
    const { assert!(size_of::<T>() == 32) };
    // SAFETY: 32 bytes of plain integers.
    unsafe { _mm256_loadu_si256(core::ptr::from_ref(value).cast()) }
}

/// Returns `a b / 2^16` modulo q, below q in amount; `scaled` is `b q^-1` modulo 2^16.
#[inline]
#[target_feature(enable = "avx2")]
fn product(a: __m256i, b: __m256i, scaled: __m256i) -> __m256i {
    let low = _mm256_mullo_epi16(a, scaled);
    let high = _mm256_mulhi_epi16(a, b);
    _mm256_sub_epi16(high, _mm256_mulhi_epi16(low, splat(Q as i16)))
}

/// Returns `a` times one factor.
#[inline]
#[target_feature(enable = "avx2")]
fn product_by(a: __m256i, by: i16) -> __m256i {
    product(a, splat(by), splat(by.wrapping_mul(Q_INVERSE)))
}

/// Returns `a` modulo q, below 0.64 q in amount, for `a` up to 9 q.
#[inline]
#[target_feature(enable = "avx2")]
fn reduce(a: __m256i) -> __m256i {
    let quotient = _mm256_mulhrs_epi16(a, splat(10));
    _mm256_sub_epi16(a, _mm256_mullo_epi16(quotient, splat(Q as i16)))
}

/// Returns `a` modulo q, from 0 to q - 1, for `a` above -q and below q.
#[inline]
#[target_feature(enable = "avx2")]
fn canonical(a: __m256i) -> __m256i {
    _mm256_min_epu16(a, _mm256_add_epi16(a, splat(Q as i16)))
}

/// Splits a pair of vectors by units of 128, 64 or 32 bits; the same joins them again.
#[inline]
#[target_feature(enable = "avx2")]
fn split<const LAYER: usize>(a: __m256i, b: __m256i) -> (__m256i, __m256i) {
    match LAYER {
        0 => (_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x31>(a, b)),
        1 => (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)),
        _ => (
            _mm256_blend_epi32::<0xaa>(a, _mm256_slli_epi64::<32>(b)),
            _mm256_blend_epi32::<0xaa>(_mm256_srli_epi64::<32>(a), b),
        ),
    }
}

/// One layer within pairs, forward.
#[inline]
#[target_feature(enable = "avx2")]
fn layer<const LAYER: usize>(pair: usize, a: __m256i, b: __m256i) -> (__m256i, __m256i) {
    let (low, high) = split::<LAYER>(a, b);
    let zetas = &ZETAS[LAYER][pair];
    let t = product(high, constant(&zetas.value), constant(&zetas.scaled));
    (_mm256_add_epi16(low, t), _mm256_sub_epi16(low, t))
}

/// One layer within pairs, of the inverse.
#[inline]
#[target_feature(enable = "avx2")]
fn inverse_layer<const LAYER: usize>(pair: usize, low: __m256i, high: __m256i) -> (__m256i, __m256i) {
    let zetas = &INVERSE_ZETAS[LAYER][pair];
    let difference = _mm256_sub_epi16(low, high);
    let scaled = product(difference, constant(&zetas.value), constant(&zetas.scaled));
    split::<LAYER>(_mm256_add_epi16(low, high), scaled)
}

/// A layer of whole vectors.
#[inline]
#[target_feature(enable = "avx2")]
fn whole_layer<const DISTANCE: usize>(f: &mut Poly) {
    for block in 0..8 / DISTANCE {
        let by = const { whole_zetas::<DISTANCE>(false) }[block];
        for low in 2 * DISTANCE * block..2 * DISTANCE * block + DISTANCE {
            let t = product_by(f[low + DISTANCE], by);
            f[low + DISTANCE] = _mm256_sub_epi16(f[low], t);
            f[low] = _mm256_add_epi16(f[low], t);
        }
    }
}

/// A layer of whole vectors of the inverse.
#[inline]
#[target_feature(enable = "avx2")]
fn inverse_whole_layer<const DISTANCE: usize>(f: &mut Poly) {
    for block in 0..8 / DISTANCE {
        let by = const { whole_zetas::<DISTANCE>(true) }[block];
        for low in 2 * DISTANCE * block..2 * DISTANCE * block + DISTANCE {
            let difference = _mm256_sub_epi16(f[low], f[low + DISTANCE]);
            f[low] = _mm256_add_epi16(f[low], f[low + DISTANCE]);
            f[low + DISTANCE] = product_by(difference, by);
        }
    }
}

/// The factors of a layer of whole vectors.
const fn whole_zetas<const DISTANCE: usize>(inverse: bool) -> [i16; 8] {
    let mut all = [0; 8];
    let mut block = 0;
    while block < 8 / DISTANCE {
        all[block] = zeta(8 / DISTANCE + block, inverse);
        block += 1;
    }
    all
}

/// See [`Vectors::transform`].
#[inline(never)]
#[target_feature(enable = "avx2")]
pub(crate) fn transform(f: &mut Poly) {
    // Every layer adds less than q.
    whole_layer::<8>(f);
    whole_layer::<4>(f);
    whole_layer::<2>(f);
    whole_layer::<1>(f);
    for pair in 0..8 {
        let (a, b) = layer::<0>(pair, f[2 * pair], f[2 * pair + 1]);
        let (a, b) = layer::<1>(pair, a, b);
        let (a, b) = layer::<2>(pair, a, b);
        let (a, b) = split::<2>(reduce(a), reduce(b));
        let (a, b) = split::<1>(a, b);
        (f[2 * pair], f[2 * pair + 1]) = split::<0>(a, b);
    }
}

/// See [`Vectors::inverse`].
#[inline(never)]
#[target_feature(enable = "avx2")]
pub(crate) fn inverse(f: &mut Poly) {
    for pair in 0..8 {
        let (a, b) = split::<0>(f[2 * pair], f[2 * pair + 1]);
        let (a, b) = split::<1>(a, b);
        let (a, b) = split::<2>(a, b);
        let (a, b) = inverse_layer::<2>(pair, a, b);
        let (a, b) = inverse_layer::<1>(pair, a, b);
        let (a, b) = inverse_layer::<0>(pair, a, b);
        // Sums double in every layer: 8 q now.
        (f[2 * pair], f[2 * pair + 1]) = (reduce(a), reduce(b));
    }
    inverse_whole_layer::<1>(f);
    inverse_whole_layer::<2>(f);
    inverse_whole_layer::<4>(f);
    // 2^32 / 128 for [`product`], which divides by 2^16.
    const SCALE: i16 = centered((1 << 25) % Q as u32);
    const SCALE_ZETA: i16 = centered((1 << 25) % Q as u32 * power(256 - reversed(1)) as u32);
    for n in 0..8 {
        // 5.1 q each.
        let (low, high) = (reduce(f[n]), reduce(f[n + 8]));
        f[n] = product_by(_mm256_add_epi16(low, high), SCALE);
        f[n + 8] = product_by(_mm256_sub_epi16(low, high), SCALE_ZETA);
    }
}

/// Returns 16 values of `BITS` bits, the first of which starts at the start of `bytes`; 16 bytes behind the last are
/// readable.
#[inline]
#[target_feature(enable = "avx2")]
fn spread<const BITS: usize>(bytes: &[u8]) -> __m256i {
    // Four bytes from that in which each of four values starts: the first four of eight, and the others.
    const fn places(bits: usize, from: usize) -> [u8; 32] {
        let mut all = [0; 32];
        let mut n = 0;
        while n < 32 {
            all[n] = ((n % 16 / 4 + from) * bits / 8 + n % 4) as u8;
            n += 1;
        }
        all
    }
    const fn shifts(bits: usize, from: usize) -> [u32; 8] {
        let mut all = [0; 8];
        let mut n = 0;
        while n < 8 {
            all[n] = ((n % 4 + from) * bits % 8) as u32;
            n += 1;
        }
        all
    }
    let bytes = &bytes[..BITS + 16];
    // SAFETY: 16 bytes at the start and behind the first eight values.
    let halves = unsafe { _mm256_loadu2_m128i(bytes[BITS..].as_ptr().cast(), bytes.as_ptr().cast()) };
    let mask = _mm256_set1_epi32((1 << BITS) - 1);
    let first = _mm256_shuffle_epi8(halves, constant(const { &places(BITS, 0) }));
    let second = _mm256_shuffle_epi8(halves, constant(const { &places(BITS, 4) }));
    let first = _mm256_srlv_epi32(first, constant(const { &shifts(BITS, 0) }));
    let second = _mm256_srlv_epi32(second, constant(const { &shifts(BITS, 4) }));
    // Within 128 bits the values of the second are behind those of the first.
    _mm256_packus_epi32(_mm256_and_si256(first, mask), _mm256_and_si256(second, mask))
}

/// Returns the values of a coded polynomial.
#[inline]
#[target_feature(enable = "avx2")]
fn decoded<const BITS: usize>(bytes: &[u8]) -> Poly {
    let mut room = [0; POLY_BYTES + 16];
    room[..32 * BITS].copy_from_slice(&bytes[..32 * BITS]);
    each!(n => spread::<BITS>(&room[2 * BITS * n..]))
}

/// Packs values of `BITS` bits, at least four.
#[inline]
#[target_feature(enable = "avx2")]
fn packed<const BITS: usize>(f: &Poly, output: &mut [u8]) {
    let mut room = [0; POLY_BYTES + 16];
    for (n, &values) in f.iter().enumerate() {
        let pairs = _mm256_madd_epi16(values, _mm256_set1_epi32(1 | 1 << (16 + BITS)));
        let quarters: [u64; 4] = {
            let mut quarters = [0; 4];
            // SAFETY: room for 32 bytes.
            unsafe { _mm256_storeu_si256(quarters.as_mut_ptr().cast(), pairs) };
            quarters.map(|pairs| (pairs & 0xffff_ffff) | pairs >> 32 << (2 * BITS))
        };
        for half in 0..2 {
            let bits = u128::from(quarters[2 * half]) | u128::from(quarters[2 * half + 1]) << (4 * BITS);
            room[(2 * n + half) * BITS..][..16].copy_from_slice(&bits.to_le_bytes());
        }
    }
    output[..32 * BITS].copy_from_slice(&room[..32 * BITS]);
}

/// Compress to `BITS` bits of values above -q and below q, as [`super::coding`] does.
#[inline]
#[target_feature(enable = "avx2")]
fn compressed<const BITS: usize>(value: __m256i) -> __m256i {
    let value = canonical(value);
    let reciprocal = splat((((1 << 27) / Q as u32) as u16) as i16);
    let shifted = _mm256_slli_epi16::<4>(value);
    let quotient = match BITS {
        10 => _mm256_srli_epi16::<5>(_mm256_mulhi_epu16(shifted, reciprocal)),
        11 => _mm256_srli_epi16::<4>(_mm256_mulhi_epu16(shifted, reciprocal)),
        5 => _mm256_srli_epi16::<6>(_mm256_mulhi_epu16(value, reciprocal)),
        _ => _mm256_srli_epi16::<7>(_mm256_mulhi_epu16(value, reciprocal)),
    };
    let exact = _mm256_sll_epi16(value, _mm_cvtsi32_si128(BITS as i32));
    // The rest lies above -q / 2 and below 3 q / 2, so 16 bits tell it.
    let rest = _mm256_sub_epi16(exact, _mm256_mullo_epi16(quotient, splat(Q as i16)));
    let more = _mm256_cmpgt_epi16(rest, splat(Q as i16 / 2));
    _mm256_and_si256(_mm256_sub_epi16(quotient, more), splat((1 << BITS) - 1))
}

/// See [`Vectors::compress`].
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn compress_long<const BITS: usize>(f: &Poly, output: &mut [u8]) {
    packed::<BITS>(&each!(n => compressed::<BITS>(f[n])), output);
}

pub(crate) use compress_long as compress_short;

/// See [`Vectors`].
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn decompress<const BITS: usize>(bytes: &[u8]) -> Poly {
    let values = decoded::<BITS>(bytes);
    let scale = _mm_cvtsi32_si128(15 - BITS as i32);
    each!(n => _mm256_mulhrs_epi16(_mm256_sll_epi16(values[n], scale), splat(Q as i16)))
}

/// Returns the ones among the lower four bits of every byte.
#[inline]
#[target_feature(enable = "avx2")]
fn ones(bits: __m256i) -> __m256i {
    let table = _mm256_setr_epi8(
        0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
    );
    _mm256_shuffle_epi8(table, bits)
}

/// SamplePolyCBD; 16 bytes behind those of the noise are readable.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn sample_noise(eta: usize, bytes: &[u8], output: &mut Noise) {
    for (n, output) in output.0.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        let (low, high) = if eta == 2 {
            let values = spread::<4>(&bytes[8 * n..]);
            (_mm256_and_si256(values, splat(3)), _mm256_srli_epi16::<2>(values))
        } else {
            let values = spread::<6>(&bytes[12 * n..]);
            (_mm256_and_si256(values, splat(7)), _mm256_srli_epi16::<3>(values))
        };
        let values = _mm256_sub_epi16(ones(low), ones(high));
        // SAFETY: the chunk has 32 bytes.
        unsafe { _mm256_storeu_si256(output.as_mut_ptr().cast(), values) };
    }
}

/// For each mask of eight 16-bit elements, the bytes that move its elements to the front.
static FRONT: [[u8; 16]; 256] = {
    let mut all = [[0x80; 16]; 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut element, mut to) = (0, 0);
        while element < 8 {
            if mask >> element & 1 == 1 {
                all[mask][2 * to] = 2 * element as u8;
                all[mask][2 * to + 1] = 2 * element as u8 + 1;
                to += 1;
            }
            element += 1;
        }
        mask += 1;
    }
    all
};

/// SampleNTT over some more bytes, a multiple of 24 behind which eight can be read: continues a polynomial of which
/// `filled` coefficients are there, and returns how many are there now, at most N.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn sample_matrix(stream: &[u8], bytes: usize, output: &mut Sampled, mut filled: usize) -> usize {
    for at in (0..bytes).step_by(24) {
        let candidates = spread::<12>(&stream[at..]);
        let taken = _mm256_cmpgt_epi16(splat(Q as i16), candidates);
        let masks = _mm256_movemask_epi8(_mm256_packs_epi16(taken, _mm256_setzero_si256())).cast_unsigned();
        let halves = [_mm256_castsi256_si128(candidates), _mm256_extracti128_si256::<1>(candidates)];
        for (half, mask) in halves.into_iter().zip([masks & 0xff, masks >> 16 & 0xff]) {
            // SAFETY: 16 bytes of plain integers.
            let order = unsafe { _mm_loadu_si128(FRONT[mask as usize].as_ptr().cast()) };
            let place = &mut output[filled..filled + 8];
            // SAFETY: the slice has 16 bytes.
            unsafe { _mm_storeu_si128(place.as_mut_ptr().cast(), _mm_shuffle_epi8(half, order)) };
            filled = (filled + mask.count_ones() as usize).min(N);
        }
    }
    filled
}

/// See [`Vectors`].
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn decode_12(bytes: &[u8]) -> Poly {
    let values = decoded::<12>(bytes);
    // A difference that would be negative is large without sign.
    each!(n => _mm256_min_epu16(values[n], _mm256_sub_epi16(values[n], splat(Q as i16))))
}

/// See [`Vectors`].
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn from_message(message: &Seed) -> Poly {
    let bits =
        _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, i16::MIN);
    let words = message.as_chunks::<2>().0;
    each!(n => {
        let set = _mm256_and_si256(splat(i16::from_le_bytes(words[n])), bits);
        _mm256_and_si256(_mm256_cmpeq_epi16(set, bits), splat((Q as i16 + 1) / 2))
    })
}

/// See [`Vectors`].
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn to_message(f: &Poly) -> Seed {
    let mut message = [0; 32];
    for (bytes, &value) in message.as_chunks_mut::<2>().0.iter_mut().zip(f) {
        // From 833 to 2496 is nearer to q / 2 than to 0 or q.
        let above = _mm256_sub_epi16(canonical(value), splat(833));
        let is_near = _mm256_cmpeq_epi16(_mm256_min_epu16(above, splat(1663)), above);
        let mask = _mm256_movemask_epi8(_mm256_packs_epi16(is_near, _mm256_setzero_si256()));
        *bytes = [mask as u8, (mask >> 16) as u8];
    }
    message
}

/// See [`Vectors`].
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn prepare(f: &Poly) -> [Poly; 2] {
    let mut made = [*f; 2];
    for n in 0..16 {
        let scaled = product(f[n], constant(&GAMMAS[n].value), constant(&GAMMAS[n].scaled));
        made[0][n] = _mm256_blend_epi16::<0xaa>(f[n], scaled);
        made[1][n] = _mm256_or_si256(_mm256_slli_epi32::<16>(f[n]), _mm256_srli_epi32::<16>(f[n]));
    }
    made
}

/// See [`Vectors`].
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn add_product(sum: &mut [Poly; 2], a: &Poly, b: &[Poly; 2]) {
    for half in 0..2 {
        for n in 0..16 {
            let product = _mm256_madd_epi16(a[n], b[half][n]);
            sum[half][n] = _mm256_add_epi32(sum[half][n], product);
        }
    }
}

/// See [`Vectors`].
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn reduce_sum(sum: &[Poly; 2]) -> Poly {
    each!(n => {
        let (even, odd) = (sum[0][n], sum[1][n]);
        let low = _mm256_blend_epi16::<0xaa>(even, _mm256_slli_epi32::<16>(odd));
        let high = _mm256_blend_epi16::<0xaa>(_mm256_srli_epi32::<16>(even), odd);
        let low = _mm256_mullo_epi16(low, splat(Q_INVERSE));
        _mm256_sub_epi16(high, _mm256_mulhi_epi16(low, splat(Q as i16)))
    })
}

/// See [`Vectors`].
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn restore(f: &Poly) -> Poly {
    const SCALE: i16 = centered(((1u64 << 32) % Q as u64) as u32);
    each!(n => product_by(f[n], SCALE))
}

/// See [`Vectors`].
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn add(f: &mut Poly, other: &Poly) {
    for (f, other) in f.iter_mut().zip(other) {
        *f = reduce(_mm256_add_epi16(*f, *other));
    }
}

/// See [`Vectors`].
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn subtract(a: &Poly, b: &Poly) -> Poly {
    each!(n => reduce(_mm256_sub_epi16(a[n], b[n])))
}

/// See [`Vectors`].
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn encode_12(f: &Poly, output: &mut [u8]) {
    packed::<12>(&each!(n => canonical(f[n])), output);
}
