//! Coded polynomials of ML-KEM by AVX-512: packing, compression, and the sampling of noise and matrices.
//!
//! Values of 4 to 12 bits are spread to 16-bit elements by a permutation of bytes and a shift per element, 32 at a time,
//! and packed by multiply-add and another permutation. Rounded quotients by q are exact: an estimate from below is
//! corrected by its rest.
//!
//! No branch and no address depends on a coefficient, except in [`sample_matrix`], whose input is public.
//!
//! `unsafe`: loads and stores by vectors through pointers, whose bounds are checked by slices first.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::arithmetic::{Noise, Sampled};
use super::parameters::{N, Q};
use super::vector::{Poly, canonical, constant, each, splat};

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

/// Byte places for [`spread`]: element `n` gets the two bytes in which its `bits` bits start.
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

/// Places of the bits of each element within its two bytes.
const fn shifts(bits: usize) -> [u16; 32] {
    let mut all = [0; 32];
    let mut n = 0;
    while n < 32 {
        all[n] = (n * bits % 8) as u16;
        n += 1;
    }
    all
}

/// Byte places for values of 11 bits, which may lie in three bytes: a 64-bit element gets the bytes in which its four
/// values start.
const WIDE_PLACES: [u8; 64] = {
    let mut all = [0; 64];
    let mut n = 0;
    while n < 64 {
        all[n] = (n / 8 * 44 / 8 + n % 8) as u8;
        n += 1;
    }
    all
};

/// Places of the bits of each byte of an element within the element's 64 bits, for values of 11 bits.
const WIDE_SHIFTS: [u8; 64] = {
    let mut all = [0; 64];
    let mut n = 0;
    while n < 64 {
        let (element, value, half) = (n / 8, n % 8 / 2, n % 2);
        all[n] = (element * 44 % 8 + 11 * value + 8 * half) as u8;
        n += 1;
    }
    all
};

/// Returns 32 values of `BITS` bits, which start at the start of `bytes`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn spread<const BITS: usize>(bytes: __m512i) -> __m512i {
    let aligned = if BITS == 11 {
        let elements = _mm512_permutexvar_epi8(constant(const { &WIDE_PLACES }), bytes);
        _mm512_multishift_epi64_epi8(constant(const { &WIDE_SHIFTS }), elements)
    } else {
        let words = _mm512_permutexvar_epi8(constant(const { &places(BITS) }), bytes);
        _mm512_srlv_epi16(words, constant(const { &shifts(BITS) }))
    };
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
pub(crate) fn decode_12(bytes: &[u8]) -> Poly {
    each!(n => {
        let value = part::<12>(bytes, n);
        // A difference that would be negative is large without sign.
        _mm512_min_epu16(value, _mm512_sub_epi16(value, splat(Q as i16)))
    })
}

/// Decompress of a coded polynomial.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(crate) fn decompress<const BITS: usize>(bytes: &[u8]) -> Poly {
    // For 10 bits: (32 x q + 2^14) / 2^15 is (x q + 2^9) / 2^10.
    let scale = _mm_cvtsi32_si128(15 - BITS as i32);
    each!(n => _mm512_mulhrs_epi16(_mm512_sll_epi16(part::<BITS>(bytes, n), scale), splat(Q as i16)))
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
    let reciprocal = splat((((1 << 27) / Q as u32) as u16) as i16);
    let quotient = match BITS {
        10 => _mm512_srli_epi16::<5>(_mm512_mulhi_epu16(_mm512_slli_epi16::<4>(value), reciprocal)),
        11 => _mm512_srli_epi16::<4>(_mm512_mulhi_epu16(_mm512_slli_epi16::<4>(value), reciprocal)),
        5 => _mm512_srli_epi16::<6>(_mm512_mulhi_epu16(value, reciprocal)),
        _ => _mm512_srli_epi16::<7>(_mm512_mulhi_epu16(value, reciprocal)),
    };
    let exact = match BITS {
        10 => _mm512_slli_epi16::<10>(value),
        11 => _mm512_slli_epi16::<11>(value),
        5 => _mm512_slli_epi16::<5>(value),
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

/// Compresses a polynomial, above -q and below q, to 10 or 11 bits a coefficient, and writes 24 or 20 bytes more.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(crate) fn compress_long<const BITS: u32>(f: &Poly, output: &mut [u8]) {
    for (n, &value) in f.iter().enumerate() {
        // Pairs of 20 or 22 bits, then 40 or 44 bits at the bottom of 64.
        let pairs = _mm512_madd_epi16(compress::<BITS>(value), _mm512_set1_epi32(1 | 1 << (16 + BITS)));
        let high = _mm512_srli_epi64::<32>(pairs);
        let low = _mm512_and_si512(pairs, _mm512_set1_epi64((1 << (2 * BITS)) - 1));
        let packed = if BITS == 10 {
            let all = _mm512_or_si512(low, _mm512_slli_epi64::<20>(high));
            _mm512_permutexvar_epi8(constant(const { &packing(5, 8) }), all)
        } else {
            let all = _mm512_or_si512(low, _mm512_slli_epi64::<22>(high));
            // 88 bits at the bottom of 128.
            let upper = _mm512_slli_epi64::<44>(_mm512_bsrli_epi128::<8>(all));
            let shifts = _mm512_set_epi64(20, 0, 20, 0, 20, 0, 20, 0);
            let all = _mm512_or_si512(_mm512_srlv_epi64(all, shifts), upper);
            _mm512_permutexvar_epi8(constant(const { &packing(11, 16) }), all)
        };
        store(&mut output[(4 * BITS) as usize * n..], packed);
    }
}

/// Compresses a polynomial, above -q and below q, to 4 or 5 bits a coefficient.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(crate) fn compress_short<const BITS: u32>(f: &Poly, output: &mut [u8]) {
    for (bytes, &value) in output.chunks_exact_mut((4 * BITS) as usize).zip(f) {
        let pairs = _mm512_madd_epi16(compress::<BITS>(value), _mm512_set1_epi32(1 | 1 << (16 + BITS)));
        if BITS == 4 {
            let packed = _mm512_cvtepi32_epi8(pairs);
            // SAFETY: the chunk has 16 bytes.
            unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), packed) };
        } else {
            // 20 bits at the bottom of 64, then 40 at the bottom of 128.
            let high = _mm512_srli_epi64::<32>(pairs);
            let low = _mm512_and_si512(pairs, _mm512_set1_epi64(0x3ff));
            let all = _mm512_or_si512(low, _mm512_slli_epi64::<10>(high));
            let all = _mm512_or_si512(all, _mm512_slli_epi64::<20>(_mm512_bsrli_epi128::<8>(all)));
            let packed = _mm512_permutexvar_epi8(constant(const { &packing(5, 16) }), all);
            // SAFETY: the chunk has 20 bytes, which the mask admits.
            unsafe { _mm512_mask_storeu_epi8(bytes.as_mut_ptr().cast(), (1 << 20) - 1, packed) };
        }
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

/// Ones among the lower half of a value's bits, less the ones among the upper half.
const fn difference_of_ones<const COUNT: usize>(half_bits: u32) -> [i16; COUNT] {
    let mut all = [0; COUNT];
    let mask = (1 << half_bits) - 1;
    let mut n = 0;
    while n < COUNT as u32 {
        all[n as usize] = (n & mask).count_ones() as i16 - (n >> half_bits & mask).count_ones() as i16;
        n += 1;
    }
    all
}

/// SamplePolyCBD.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
pub(crate) fn sample_noise(eta: usize, bytes: &[u8], output: &mut Noise) {
    const FOUR: [i16; 32] = difference_of_ones(2);
    const SIX: [[i16; 32]; 2] = {
        let all: [i16; 64] = difference_of_ones(3);
        let mut halves = [[0; 32]; 2];
        let mut n = 0;
        while n < 64 {
            halves[n / 32][n % 32] = all[n];
            n += 1;
        }
        halves
    };
    for (n, output) in output.0.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let values = if eta == 2 {
            _mm512_permutexvar_epi16(part::<4>(bytes, n), constant(const { &FOUR }))
        } else {
            let low = constant(const { &SIX[0] });
            _mm512_permutex2var_epi16(low, part::<6>(bytes, n), constant(const { &SIX[1] }))
        };
        // SAFETY: the chunk has 64 bytes.
        unsafe { _mm512_storeu_si512(output.as_mut_ptr().cast(), values) };
    }
}

/// SampleNTT over some more bytes, a multiple of 24 of which 32 can be read at each: continues a polynomial of which
/// `filled` coefficients are there, and returns how many are there now, at most N.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
pub(crate) fn sample_matrix(stream: &[u8], bytes: usize, output: &mut Sampled, mut filled: usize) -> usize {
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
