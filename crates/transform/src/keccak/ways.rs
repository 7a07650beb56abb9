//! Eight Keccak states side by side by AVX-512: one 64-bit word of each in every vector.
//!
//! A round is 95 instructions for eight states (`vprolq` 29, `vpternlogq` 35, `vpxorq` 31): the difference of each
//! column is computed once, for which registers suffice. A permutation is 2280 instructions, or 1140 cycles at two a
//! cycle; measured 1420 on Zen 4, 180 a state, where one state in general registers takes about 1000. Words go in and
//! out by transposing eight rows of 64 bytes.
//!
//! `unsafe`: loads and stores by vectors through pointers, whose bounds are checked by slices first.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::{LAST_BIT, ROUND_CONSTANTS, Sponge};
#[cfg(test)]
use crate::isa::Avx512;

/// States side by side.
pub(crate) const WAYS: usize = 8;

/// Eight states: vector `5y + x` has the words at (x, y).
pub(crate) type States = [__m512i; 25];

/// Returns eight states of zeros.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn zeros() -> States {
    [_mm512_setzero_si512(); 25]
}

#[inline]
#[target_feature(enable = "avx512f")]
fn xor3(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0x96>(a, b, c)
}

/// Returns `a ^ (!b & c)`.
#[inline]
#[target_feature(enable = "avx512f")]
fn chi(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0xd2>(a, b, c)
}

/// One round. The words keep their places: rho and pi are which word each row of chi takes, and how far it is rotated.
#[inline]
#[target_feature(enable = "avx512f")]
fn round(a: &States, constant: u64) -> States {
    macro_rules! parity {
        ($x:literal) => {
            xor3(xor3(a[$x], a[$x + 5], a[$x + 10]), a[$x + 15], a[$x + 20])
        };
    }
    let c = [parity!(0), parity!(1), parity!(2), parity!(3), parity!(4)];
    macro_rules! change {
        ($x:literal) => {
            _mm512_xor_si512(c[($x + 4) % 5], _mm512_rol_epi64::<1>(c[($x + 1) % 5]))
        };
    }
    let d = [change!(0), change!(1), change!(2), change!(3), change!(4)];
    // The word of column x after theta, rotated.
    macro_rules! word {
        ($at:literal, $by:literal) => {
            _mm512_rol_epi64::<$by>(_mm512_xor_si512(a[$at], d[$at % 5]))
        };
    }
    macro_rules! row {
        ($out:ident, $y:literal, $b0:expr, $b1:expr, $b2:expr, $b3:expr, $b4:expr) => {{
            let (b0, b1, b2, b3, b4) = ($b0, $b1, $b2, $b3, $b4);
            $out[5 * $y] = chi(b0, b1, b2);
            $out[5 * $y + 1] = chi(b1, b2, b3);
            $out[5 * $y + 2] = chi(b2, b3, b4);
            $out[5 * $y + 3] = chi(b3, b4, b0);
            $out[5 * $y + 4] = chi(b4, b0, b1);
        }};
    }
    let mut out = *a;
    row!(out, 0, _mm512_xor_si512(a[0], d[0]), word!(6, 44), word!(12, 43), word!(18, 21), word!(24, 14));
    row!(out, 1, word!(3, 28), word!(9, 20), word!(10, 3), word!(16, 45), word!(22, 61));
    row!(out, 2, word!(1, 1), word!(7, 6), word!(13, 25), word!(19, 8), word!(20, 18));
    row!(out, 3, word!(4, 27), word!(5, 36), word!(11, 10), word!(17, 15), word!(23, 56));
    row!(out, 4, word!(2, 62), word!(8, 55), word!(14, 39), word!(15, 41), word!(21, 2));
    out[0] = _mm512_xor_si512(out[0], _mm512_set1_epi64(constant as i64));
    out
}

/// Keccak-f\[1600\] of eight states.
#[inline(never)]
#[target_feature(enable = "avx512f")]
pub(crate) fn permute(states: &mut States) {
    // A variable in memory makes the compiler align the stack, and with it the words for which registers do not
    // suffice: across two cache lines each would cost twice.
    let mut anchor = _mm512_setzero_si512();
    core::hint::black_box(&mut anchor);
    let mut a = *states;
    for pair in ROUND_CONSTANTS.as_chunks::<2>().0 {
        a = round(&a, pair[0]);
        a = round(&a, pair[1]);
    }
    *states = a;
}

/// Transposes eight rows of eight words.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn transpose(rows: [__m512i; 8]) -> [__m512i; 8] {
    let [a, b, c, d, e, f, g, h] = rows;
    let pairs = [
        _mm512_unpacklo_epi64(a, b),
        _mm512_unpackhi_epi64(a, b),
        _mm512_unpacklo_epi64(c, d),
        _mm512_unpackhi_epi64(c, d),
        _mm512_unpacklo_epi64(e, f),
        _mm512_unpackhi_epi64(e, f),
        _mm512_unpacklo_epi64(g, h),
        _mm512_unpackhi_epi64(g, h),
    ];
    let [ab0, ab1, cd0, cd1, ef0, ef1, gh0, gh1] = pairs;
    // 0x88 takes the even 128-bit elements of both, 0xdd the odd ones.
    let even = |low, high| _mm512_shuffle_i64x2::<0x88>(low, high);
    let odd = |low, high| _mm512_shuffle_i64x2::<0xdd>(low, high);
    let (abcd0, abcd2) = (even(ab0, cd0), odd(ab0, cd0));
    let (abcd1, abcd3) = (even(ab1, cd1), odd(ab1, cd1));
    let (efgh0, efgh2) = (even(ef0, gh0), odd(ef0, gh0));
    let (efgh1, efgh3) = (even(ef1, gh1), odd(ef1, gh1));
    [
        even(abcd0, efgh0),
        even(abcd1, efgh1),
        even(abcd2, efgh2),
        even(abcd3, efgh3),
        odd(abcd0, efgh0),
        odd(abcd1, efgh1),
        odd(abcd2, efgh2),
        odd(abcd3, efgh3),
    ]
}

/// Adds the first `words` words of every block, at most 25.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn add_block(states: &mut States, words: usize, blocks: [&[u8]; WAYS]) {
    for first in (0..words).step_by(8) {
        let count = (words - first).min(8);
        let mask = (0xffu16 >> (8 - count)) as u8;
        let mut rows = [_mm512_setzero_si512(); WAYS];
        for (row, block) in rows.iter_mut().zip(blocks) {
            let words = &block[8 * first..8 * (first + count)];
            // SAFETY: the mask admits `count` words, which the slice has.
            *row = unsafe { _mm512_maskz_loadu_epi64(mask, words.as_ptr().cast()) };
        }
        for (state, column) in states[first..].iter_mut().zip(transpose(rows)).take(count) {
            *state = _mm512_xor_si512(*state, column);
        }
    }
}

/// Absorbs eight messages of one length, with the padding. The first block of output is still to be permuted.
///
/// # Panics
/// The lengths differ.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn absorb(sponge: Sponge, messages: [&[u8]; WAYS]) -> States {
    let mut states = zeros();
    let bytes = messages[0].len();
    assert!(messages.iter().all(|message| message.len() == bytes), "messages of one length");
    let rate = sponge.rate_bytes;
    let whole = bytes / rate;
    for block in 0..whole {
        add_block(&mut states, sponge.words(), messages.map(|message| &message[block * rate..][..rate]));
        permute(&mut states);
    }
    let mut last = [[0; 168]; WAYS];
    for (last, message) in last.iter_mut().zip(messages) {
        let rest = &message[whole * rate..];
        last[..rest.len()].copy_from_slice(rest);
        last[rest.len()] = sponge.suffix;
        last[rate - 1] |= LAST_BIT;
    }
    add_block(&mut states, sponge.words(), last.each_ref().map(|last| &last[..]));
    crate::wipe::wipe(&mut last, [0; 168]);
    states
}

/// Writes the first words of every state, eight at a time: as many as `words` rounded up to a multiple of eight, so
/// that a row has room for up to 56 bytes more than the words asked for.
///
/// # Panics
/// A row is too short.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn extract<const N: usize>(states: &States, words: usize, rows: &mut [[u8; N]; WAYS], at: usize) {
    for first in (0..words).step_by(8) {
        let mut columns = [_mm512_setzero_si512(); 8];
        for (column, state) in columns.iter_mut().zip(&states[first..]) {
            *column = *state;
        }
        for (row, words) in rows.iter_mut().zip(transpose(columns)) {
            let place = &mut row[at + 8 * first..][..64];
            // SAFETY: the slice has 64 bytes.
            unsafe { _mm512_storeu_si512(place.as_mut_ptr().cast(), words) };
        }
    }
}

/// Returns the first `N` bytes of a sponge's output over each of eight messages of one length.
///
/// # Panics
/// The lengths of the messages differ.
#[cfg(test)]
pub(crate) fn hash<const N: usize>(
    token: Avx512,
    sponge: Sponge,
    messages: [&[u8]; WAYS],
    outputs: &mut [[u8; N]; WAYS],
) {
    let _ = token;
    // SAFETY: the token proves AVX-512.
    unsafe { hash_inner(sponge, messages, outputs) };
}

/// Does the same for kernels that have AVX-512 already.
///
/// # Panics
/// The lengths of the messages differ.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn hash_inner<const N: usize>(
    sponge: Sponge,
    messages: [&[u8]; WAYS],
    outputs: &mut [[u8; N]; WAYS],
) {
    let mut states = absorb(sponge, messages);
    // Three vectors for a block of up to 21 words.
    let mut block = [[0; 192]; WAYS];
    for at in (0..N).step_by(sponge.rate_bytes) {
        permute(&mut states);
        extract(&states, sponge.words(), &mut block, 0);
        let count = sponge.rate_bytes.min(N - at);
        for (output, block) in outputs.iter_mut().zip(&block) {
            output[at..at + count].copy_from_slice(&block[..count]);
        }
    }
    crate::wipe::wipe(&mut block, [0; 192]);
    crate::wipe::wipe(&mut states, _mm512_setzero_si512());
}
