//! Coded polynomials of ML-KEM by AVX-512: packing, compression, and the sampling of noise and matrices.
//!
//! Values of 4, 10 and 12 bits are spread to 16-bit lanes by a permutation of bytes and a shift per lane, 32 at a time,
//! and packed by multiply-add and another permutation. Rounded quotients by q are exact: an estimate from below is
//! corrected by its rest.
//!
//! No branch and no address depends on a coefficient, except in [`sample_matrix`], whose input is public.
//!
//! `unsafe`: loads and stores by vectors through pointers, whose bounds are checked by slices first.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::vector::{Poly, canonical, constant, each, splat};
use super::{N, NOISE_BYTES, POLY_BYTES, Q, U_BYTES, V_BYTES};

/// Loads a slice of at most 64 bytes, followed by zeros.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_part(bytes: &[u8]) -> __m512i {
    let mask = u64::MAX >> (64 - bytes.len().min(64));
    // SAFETY: the mask admits the bytes of the slice only.
    unsafe { _mm512_maskz_loadu_epi8(mask, bytes.as_ptr().cast()) }
}

/// Stores 64 bytes at the start of a slice.
#[inline]
#[target_feature(enable = "avx512f")]
fn store(bytes: &mut [u8], value: __m512i) {
    let bytes = &mut bytes[..64];
    // SAFETY: the slice has 64 bytes.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), value) };
}

/// Byte places for [`spread`]: lane `n` gets the two bytes in which its `bits` bits start.
const fn places(bits: usize) -> [u8; 64] {
    let mut all = [0; 64];
    let mut n = 0;
    while n < 32 {
        all[2 * n] = (n * bits / 8) as u8;
        all[2 * n + 1] = (n * bits / 8 + 1) as u8;
        n += 1;
    }
    all
}

/// Places of the bits of each lane within its two bytes.
const fn shifts(bits: usize) -> [u16; 32] {
    let mut all = [0; 32];
    let mut n = 0;
    while n < 32 {
        all[n] = (n * bits % 8) as u16;
        n += 1;
    }
    all
}

/// Returns 32 values of `BITS` bits, which start at the start of `bytes`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn spread<const BITS: usize>(bytes: __m512i) -> __m512i {
    let words = _mm512_permutexvar_epi8(constant(const { &places(BITS) }), bytes);
    let aligned = _mm512_srlv_epi16(words, constant(const { &shifts(BITS) }));
    _mm512_and_si512(aligned, splat((1 << BITS) - 1))
}

/// Returns the 32 values of `BITS` bits of the part `n` of a coded polynomial.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn part<const BITS: usize>(bytes: &[u8], n: usize) -> __m512i {
    spread::<BITS>(load_part(&bytes[4 * BITS * n..][..4 * BITS]))
}

/// ByteDecode12; coefficients count modulo q.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(crate) fn decode_12(bytes: &[u8; POLY_BYTES]) -> Poly {
    each!(n => {
        let value = part::<12>(bytes, n);
        // A difference that would be negative is large without sign.
        _mm512_min_epu16(value, _mm512_sub_epi16(value, splat(Q as i16)))
    })
}

/// Decompress of a coded polynomial of u.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(crate) fn decompress_10(bytes: &[u8; U_BYTES]) -> Poly {
    // (32 x q + 2^14) / 2^15 is (x q + 2^9) / 2^10.
    each!(n => {
        _mm512_mulhrs_epi16(_mm512_slli_epi16::<5>(part::<10>(bytes, n)), splat(Q as i16))
    })
}

/// Decompress of the coded polynomial v.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(crate) fn decompress_4(bytes: &[u8; V_BYTES]) -> Poly {
    each!(n => {
        _mm512_mulhrs_epi16(_mm512_slli_epi16::<11>(part::<4>(bytes, n)), splat(Q as i16))
    })
}

/// Decompress of a message: 0 or 1665.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn from_message(message: &[u8; 32]) -> Poly {
    let masks = message.as_chunks::<4>().0;
    each!(n => _mm512_maskz_set1_epi16(u32::from_le_bytes(masks[n]), (Q as i16 + 1) / 2))
}

/// Compress to a message of a reduced polynomial.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn to_message(f: &Poly) -> [u8; 32] {
    let mut message = [0; 32];
    for (bytes, &value) in message.as_chunks_mut::<4>().0.iter_mut().zip(f) {
        // From 833 to 2496 is nearer to q / 2 than to 0 or q.
        let above = _mm512_sub_epi16(canonical(value), splat(833));
        *bytes = _mm512_cmplt_epu16_mask(above, splat(1664)).to_le_bytes();
    }
    message
}

/// Compress to `BITS` bits of values above -q and below q.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn compress<const BITS: u32>(value: __m512i) -> __m512i {
    let value = canonical(value);
    // An estimate from below of 2^BITS value / q, rounded down: it is the rounded quotient or one less.
    let quotient = if BITS == 10 {
        let scaled =
            _mm512_mulhi_epu16(_mm512_slli_epi16::<4>(value), splat((((1 << 27) / Q as u32) as u16) as i16));
        _mm512_srli_epi16::<5>(scaled)
    } else {
        let scaled = _mm512_mulhi_epu16(value, splat((((1 << 27) / Q as u32) as u16) as i16));
        _mm512_srli_epi16::<7>(scaled)
    };
    let exact = match BITS {
        10 => _mm512_slli_epi16::<10>(value),
        _ => _mm512_slli_epi16::<4>(value),
    };
    // The rest lies above -q / 2 and below 3 q / 2, so 16 bits tell it.
    let rest = _mm512_sub_epi16(exact, _mm512_mullo_epi16(quotient, splat(Q as i16)));
    let more = _mm512_cmpgt_epi16_mask(rest, splat(Q as i16 / 2));
    let rounded = _mm512_mask_add_epi16(quotient, more, quotient, splat(1));
    _mm512_and_si512(rounded, splat((1 << BITS) - 1))
}

/// Places of the first `used` bytes of every `of`.
const fn packing(used: usize, of: usize) -> [u8; 64] {
    let mut all = [0; 64];
    let mut n = 0;
    while n < 64 / of * used {
        all[n] = (n / used * of + n % used) as u8;
        n += 1;
    }
    all
}

/// Compresses a polynomial of u, above -q and below q, and writes 24 bytes more.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(crate) fn compress_10(f: &Poly, output: &mut [u8]) {
    for (n, &value) in f.iter().enumerate() {
        // Pairs of 20 bits, then 40 bits at the bottom of 64.
        let pairs = _mm512_madd_epi16(compress::<10>(value), _mm512_set1_epi32(1 | 1 << 26));
        let high = _mm512_srli_epi64::<32>(pairs);
        let low = _mm512_and_si512(pairs, _mm512_set1_epi64(0xf_ffff));
        let all = _mm512_or_si512(low, _mm512_slli_epi64::<20>(high));
        store(&mut output[40 * n..], _mm512_permutexvar_epi8(constant(const { &packing(5, 8) }), all));
    }
}

/// Compresses the polynomial v, above -q and below q.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) fn compress_4(f: &Poly, output: &mut [u8; V_BYTES]) {
    for (bytes, &value) in output.as_chunks_mut::<16>().0.iter_mut().zip(f) {
        let pairs = _mm512_madd_epi16(compress::<4>(value), _mm512_set1_epi32(1 | 16 << 16));
        // SAFETY: the chunk has 16 bytes.
        unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), _mm512_cvtepi32_epi8(pairs)) };
    }
}

/// ByteEncode12 of a polynomial above -q and below q; writes 16 bytes more.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(crate) fn encode_12(f: &Poly, output: &mut [u8]) {
    for (n, &value) in f.iter().enumerate() {
        let pairs = _mm512_madd_epi16(canonical(value), _mm512_set1_epi32(1 | 4096 << 16));
        store(&mut output[48 * n..], _mm512_permutexvar_epi8(constant(const { &packing(3, 4) }), pairs));
    }
}

/// SamplePolyCBD with eta = 2.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(crate) fn sample_noise(bytes: &[u8; NOISE_BYTES]) -> Poly {
    // By four bits: the ones among the lower two, less the ones among the upper two.
    const TABLE: [i16; 32] = {
        let mut all = [0; 32];
        let mut n = 0u32;
        while n < 32 {
            all[n as usize] = (n & 3).count_ones() as i16 - (n >> 2 & 3).count_ones() as i16;
            n += 1;
        }
        all
    };
    each!(n => _mm512_permutexvar_epi16(part::<4>(bytes, n), constant(const { &TABLE })))
}

/// Coefficients that [`sample_matrix`] may write behind a polynomial.
pub(crate) const SAMPLE_SLACK: usize = 16;

/// SampleNTT over some more bytes, a multiple of 24 of which 32 can be read at each: continues a polynomial of which
/// `filled` coefficients are there, and returns how many are there now, at most N.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
pub(crate) fn sample_matrix(
    stream: &[u8],
    bytes: usize,
    output: &mut [u16; N + SAMPLE_SLACK],
    mut filled: usize,
) -> usize {
    const PLACES: [u8; 64] = {
        let mut all = [0; 64];
        let mut n = 0;
        while n < 16 {
            all[4 * n] = (n * 12 / 8) as u8;
            all[4 * n + 1] = (n * 12 / 8 + 1) as u8;
            n += 1;
        }
        all
    };
    let shifts = _mm512_set1_epi64(4 << 32);
    for at in (0..bytes).step_by(24) {
        let chunk = &stream[at..at + 32];
        // SAFETY: the slice has 32 bytes.
        let half = unsafe { _mm256_loadu_si256(chunk.as_ptr().cast()) };
        let words = _mm512_permutexvar_epi8(constant(const { &PLACES }), _mm512_castsi256_si512(half));
        let candidates = _mm512_and_si512(_mm512_srlv_epi32(words, shifts), _mm512_set1_epi32(0xfff));
        let taken = _mm512_cmplt_epu32_mask(candidates, _mm512_set1_epi32(Q as i32));
        let packed = _mm512_cvtepi32_epi16(_mm512_maskz_compress_epi32(taken, candidates));
        let place = &mut output[filled..filled + 16];
        // SAFETY: the slice has 32 bytes.
        unsafe { _mm256_storeu_si256(place.as_mut_ptr().cast(), packed) };
        filled = (filled + taken.count_ones() as usize).min(N);
    }
    filled
}

/// Loads the coefficients that [`sample_matrix`] wrote.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn load_poly(coefficients: &[u16; N + SAMPLE_SLACK]) -> Poly {
    let vectors = coefficients.as_chunks::<32>().0;
    each!(n => constant(&vectors[n]))
}
