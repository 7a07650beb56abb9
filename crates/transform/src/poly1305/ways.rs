//! Poly1305 over messages side by side by AVX-512 IFMA, one per 64-bit element, in the limbs of [`super::generic`];
//! constant-time.
//!
//! A text consists of whole rows of four blocks, which are multiplied by four powers of r, so that one reduction
//! serves them all. Zero blocks before it make the number of its blocks a multiple of four: zeros without the bit
//! above a block change no sum. Rows that are neither associated data nor data alone are assembled in a buffer: the
//! first, the one between both, and the last. All ways run until the shortest stretch of rows ends; a way whose
//! text has ended repeats another's rows.
//!
//! `unsafe`: intrinsics behind the token, and rows as raw pointers, made here from slices.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::Text;
use crate::isa::Avx512;
use crate::simd::avx512::Z;
use crate::wipe::wipe;

/// Messages that run together.
const WAYS: usize = 8;

/// Blocks of a row, which is the distance of two reductions.
const STEP: usize = 4;

/// Bytes of a row.
const ROW: usize = 16 * STEP;

/// A number of eight ways.
pub(super) type Number = [__m512i; 3];

/// A power of r, and its upper limbs times 20: limbs carried past 2^132 come back times 5 * 4.
#[derive(Clone, Copy)]
pub(super) struct Power {
    r: Number,
    s: [__m512i; 2],
}

/// Sums of products by limb: those of low and of high halves, as the instructions for 52-bit numbers return them.
pub(super) struct Products {
    low: Number,
    high: Number,
}

/// The position of a way in its text.
#[derive(Clone, Copy)]
struct Walk<'t> {
    text: Text<'t>,
    /// Number of blocks of the associated data, and of all blocks including the lengths.
    aad_blocks: usize,
    blocks: usize,
    /// Index of the next block that has no row yet.
    next: usize,
    /// The first of the rows that lie ahead.
    row: *const u8,
    rows: usize,
}

/// Assembled rows, one per way.
#[repr(align(64))]
#[derive(Clone, Copy)]
struct Aside([[u8; ROW]; WAYS]);

/// Computes the tags of the texts.
pub(crate) fn tags(_: Avx512, texts: &[Text<'_>], tags: &mut [[u8; 16]]) {
    for (texts, tags) in texts.chunks(WAYS).zip(tags.chunks_mut(WAYS)) {
        // SAFETY: the token proves the features.
        unsafe { eight(texts, tags) };
    }
}

/// Returns a mask of the bits from `from` to before `to`, as far as a row has them.
const fn span(from: isize, to: isize) -> u64 {
    const fn below(bit: isize) -> u64 {
        if bit <= 0 {
            0
        } else if bit >= 64 {
            u64::MAX
        } else {
            (1 << bit) - 1
        }
    }
    below(to) & !below(from)
}

impl<'t> Walk<'t> {
    /// Returns a text before its first row, which has at least one block, and the number of blocks in that row.
    fn new(text: Text<'t>) -> (Self, usize) {
        let aad_blocks = text.aad.len().div_ceil(16);
        let blocks = aad_blocks + text.data.len().div_ceil(16) + 1;
        let first = (blocks - 1) % STEP + 1;
        (Self { text, aad_blocks, blocks, next: first, row: text.aad.as_ptr(), rows: 0 }, first)
    }

    /// Assembles the row whose last block is the one before `end`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn put_together(&self, end: usize, row: &mut [u8; ROW]) {
        let first = 16 * (end as isize - STEP as isize);
        let data = 16 * self.aad_blocks as isize;
        let part = |bytes: &[u8], at: isize| {
            let mask = span(at - first, at - first + bytes.len() as isize);
            // SAFETY: no byte that the mask leaves out is read; the others are the slice's.
            unsafe { _mm512_maskz_loadu_epi8(mask, bytes.as_ptr().wrapping_offset(first - at).cast()) }
        };
        let mut bytes = _mm512_or_si512(part(self.text.aad, 0), part(self.text.data, data));
        if end == self.blocks {
            let lengths = _mm_set_epi64x(self.text.data.len() as i64, self.text.aad.len() as i64);
            bytes = _mm512_inserti32x4::<3>(bytes, lengths);
        }
        // SAFETY: a row.
        unsafe { _mm512_storeu_si512(row.as_mut_ptr().cast(), bytes) };
    }

    /// Advances to the next rows; returns whether there are any.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn turn(&mut self, aside: &mut [u8; ROW]) -> bool {
        if self.next == self.blocks {
            return false;
        }
        let (part, from) = if self.next < self.aad_blocks {
            (self.text.aad, self.next)
        } else {
            (self.text.data, self.next - self.aad_blocks)
        };
        self.rows = (part.len() / 16).saturating_sub(from) / STEP;
        self.row = part.as_ptr().wrapping_add(16 * from);
        if self.rows == 0 {
            self.put_together(self.next + STEP, aside);
            (self.row, self.rows) = (aside.as_ptr(), 1);
        }
        self.next += STEP * self.rows;
        true
    }
}

impl Power {
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn new(r: Number) -> Self {
        let twenty = |r| _mm512_slli_epi64::<2>(_mm512_add_epi64(_mm512_slli_epi64::<2>(r), r));
        Self { r, s: [twenty(r[1]), twenty(r[2])] }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn times(self, other: Self) -> Self {
        let mut products = Products::new();
        products.add(self.r, other);
        Self::new(products.reduced())
    }

    /// Replaces the power in the ways of a mask by another one.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn in_ways(self, mask: u8, other: Self) -> Self {
        let pick = |own, other| _mm512_mask_mov_epi64(own, mask, other);
        let ([r0, r1, r2], [o0, o1, o2]) = (self.r, other.r);
        let r = [pick(r0, o0), pick(r1, o1), pick(r2, o2)];
        Self { r, s: [pick(self.s[0], other.s[0]), pick(self.s[1], other.s[1])] }
    }

    /// Overwrites powers.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn wipe(powers: &mut [Self]) {
        let zero = [_mm512_setzero_si512(); 3];
        wipe(powers, Self { r: zero, s: [zero[0]; 2] });
    }
}

impl Products {
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn new() -> Self {
        let zero = [_mm512_setzero_si512(); 3];
        Self { low: zero, high: zero }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    pub(super) fn add(&mut self, [h0, h1, h2]: Number, Power { r: [r0, r1, r2], s: [s1, s2] }: Power) {
        for (limb, factors) in [[r0, s2, s1], [r1, r0, s2], [r2, r1, r0]].into_iter().enumerate() {
            for (h, factor) in [h0, h1, h2].into_iter().zip(factors) {
                self.low[limb] = _mm512_madd52lo_epu64(self.low[limb], h, factor);
                self.high[limb] = _mm512_madd52hi_epu64(self.high[limb], h, factor);
            }
        }
    }

    /// Returns the sum in limbs of 44, 45 and 42 bits.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn reduced(&self) -> Number {
        let mask = _mm512_set1_epi64((1 << 44) - 1);
        let ([d0, d1, d2], [e0, e1, e2]) = (self.low, self.high);
        // 2^52 is 2^8 of the next limb, and 2^10 past the last, which has 42 bits.
        let d1 =
            _mm512_add_epi64(_mm512_add_epi64(d1, _mm512_slli_epi64::<8>(e0)), _mm512_srli_epi64::<44>(d0));
        let d2 =
            _mm512_add_epi64(_mm512_add_epi64(d2, _mm512_slli_epi64::<8>(e1)), _mm512_srli_epi64::<44>(d1));
        let carry = _mm512_add_epi64(_mm512_srli_epi64::<42>(d2), _mm512_slli_epi64::<10>(e2));
        let low = _mm512_add_epi64(
            _mm512_and_si512(d0, mask),
            _mm512_add_epi64(carry, _mm512_slli_epi64::<2>(carry)),
        );
        [
            _mm512_and_si512(low, mask),
            _mm512_add_epi64(_mm512_and_si512(d1, mask), _mm512_srli_epi64::<44>(low)),
            _mm512_and_si512(d2, _mm512_set1_epi64((1 << 42) - 1)),
        ]
    }
}

/// Returns the limbs of a number of two words.
#[inline]
#[target_feature(enable = "avx512f")]
pub(super) fn limbs(low: Z, high: Z) -> Number {
    let mask = _mm512_set1_epi64((1 << 44) - 1);
    let cut = _mm512_or_si512(_mm512_srli_epi64::<44>(low.0), _mm512_slli_epi64::<20>(high.0));
    [_mm512_and_si512(low.0, mask), _mm512_and_si512(cut, mask), _mm512_srli_epi64::<24>(high.0)]
}

/// Adds a row of each way to `h`: a block is multiplied by r once for each block that follows it, and once more.
/// `tops` are the bits above the blocks.
///
/// # Safety
/// 64 bytes at each of `rows` plus `offset` are readable, with any alignment. The CPU has AVX-512 F and IFMA.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
unsafe fn absorb(
    h: Number,
    powers: &[Power; STEP],
    rows: &[*const u8; WAYS],
    offset: usize,
    tops: [__m512i; STEP],
) -> Number {
    let mut words = [Z(_mm512_setzero_si512()); WAYS];
    for (word, row) in words.iter_mut().zip(rows) {
        // SAFETY: the contract: a row of 64 bytes there.
        *word = Z(unsafe { _mm512_loadu_si512(row.wrapping_add(offset).cast()) });
    }
    let words = Z::transpose_8x8(words);
    let mut products = Products::new();
    // The first block depends on `h`, so it comes last.
    for n in (0..STEP).rev() {
        let mut number = limbs(words[2 * n], words[2 * n + 1]);
        number[2] = _mm512_or_si512(number[2], tops[n]);
        if n == 0 {
            for (number, h) in number.iter_mut().zip(h) {
                *number = _mm512_add_epi64(*number, h);
            }
        }
        products.add(number, powers[STEP - 1 - n]);
    }
    products.reduced()
}

/// Absorbs the next `count` rows of every way.
///
/// # Safety
/// `64 * count` bytes at each of `rows` are readable, with any alignment. The CPU has AVX-512 F and IFMA.
#[target_feature(enable = "avx512f,avx512ifma")]
unsafe fn absorb_rows(
    mut h: Number,
    powers: &[Power; STEP],
    rows: &[*const u8; WAYS],
    count: usize,
) -> Number {
    let tops = [_mm512_set1_epi64(1 << 40); STEP];
    for offset in (0..ROW * count).step_by(ROW) {
        // With all of them in registers, none would be left for the computation, so each is read where it is used.
        let powers = core::hint::black_box(powers);
        // SAFETY: the contract: the row at `offset` is one of `count`.
        h = unsafe { absorb(h, powers, rows, offset, tops) };
    }
    h
}

/// Returns the sums modulo 2^130 - 5 and 2^128, plus the second halves of the keys.
#[inline]
#[target_feature(enable = "avx512f")]
fn finish([mut h0, mut h1, mut h2]: Number, pad: [Z; 2]) -> [__m512i; 2] {
    let (mask_44, mask_42) = (_mm512_set1_epi64((1 << 44) - 1), _mm512_set1_epi64((1 << 42) - 1));
    for _ in 0..2 {
        h1 = _mm512_add_epi64(h1, _mm512_srli_epi64::<44>(h0));
        h2 = _mm512_add_epi64(h2, _mm512_srli_epi64::<44>(h1));
        let carry = _mm512_srli_epi64::<42>(h2);
        h0 = _mm512_and_si512(h0, mask_44);
        h0 = _mm512_add_epi64(h0, _mm512_add_epi64(carry, _mm512_slli_epi64::<2>(carry)));
        (h1, h2) = (_mm512_and_si512(h1, mask_44), _mm512_and_si512(h2, mask_42));
    }
    h1 = _mm512_add_epi64(h1, _mm512_srli_epi64::<44>(h0));
    h0 = _mm512_and_si512(h0, mask_44);
    // This is h - p, if that is not negative: h + 5 then reaches 2^130.
    let g0 = _mm512_add_epi64(h0, _mm512_set1_epi64(5));
    let g1 = _mm512_add_epi64(h1, _mm512_srli_epi64::<44>(g0));
    let g2 = _mm512_add_epi64(h2, _mm512_srli_epi64::<44>(g1));
    let past = _mm512_test_epi64_mask(g2, _mm512_set1_epi64(1 << 42));
    let [h0, h1, h2] = [(h0, g0), (h1, g1), (h2, g2)].map(|(h, g)| _mm512_mask_mov_epi64(h, past, g));
    // Only the lowest 128 bits count, and limbs may hold a carry that has moved on.
    let h0 = _mm512_and_si512(h0, mask_44);
    let h1 = _mm512_and_si512(h1, mask_44);
    let low = _mm512_add_epi64(_mm512_or_si512(h0, _mm512_slli_epi64::<44>(h1)), pad[0].0);
    let carry = _mm512_cmplt_epu64_mask(low, pad[0].0);
    let high = _mm512_or_si512(_mm512_srli_epi64::<20>(h1), _mm512_slli_epi64::<24>(h2));
    let high = _mm512_add_epi64(high, pad[1].0);
    [low, _mm512_mask_add_epi64(high, carry, high, _mm512_set1_epi64(1))]
}

/// Computes the tags of one to eight texts.
#[target_feature(enable = "avx512f,avx512bw,avx512ifma")]
fn eight(texts: &[Text<'_>], tags: &mut [[u8; 16]]) {
    let mut keys = [Z(_mm512_setzero_si512()); WAYS];
    let mut asides = Aside([[0; ROW]; WAYS]);
    let mut walks = [Walk::new(texts[0]).0; WAYS];
    let mut firsts = [0u64; WAYS];
    for (way, text) in texts.iter().enumerate().take(WAYS) {
        // SAFETY: half a vector.
        keys[way] = Z(unsafe { _mm512_maskz_loadu_epi64(0x0f, text.key.as_ptr().cast()) });
        let (walk, first) = Walk::new(*text);
        walk.put_together(first, &mut asides.0[way]);
        (walks[way], firsts[way]) = (walk, first as u64);
    }
    let [r_low, r_high, pads @ .., _, _, _, _] = Z::transpose_8x8(keys);
    // The words are clamped as RFC 8439 section 2.5.1 says.
    let clamped = |word: Z, mask: i64| Z(_mm512_and_si512(word.0, _mm512_set1_epi64(mask)));
    let r = Power::new(limbs(clamped(r_low, 0x0fff_fffc_0fff_ffff), clamped(r_high, 0x0fff_fffc_0fff_fffc)));
    let square = r.times(r);
    let mut powers = [r, square, square.times(r), square.times(square)];
    // SAFETY: eight numbers.
    let firsts = unsafe { _mm512_loadu_si512(firsts.as_ptr().cast()) };
    let mut tops = [_mm512_setzero_si512(); STEP];
    for (n, top) in tops.iter_mut().enumerate() {
        let has = _mm512_cmpge_epu64_mask(firsts, _mm512_set1_epi64((STEP - n) as i64));
        *top = _mm512_maskz_set1_epi64(has, 1 << 40);
    }
    let mut rows = asides.0.each_ref().map(|row| row.as_ptr());
    // SAFETY: the rows put together.
    let mut h = unsafe { absorb([_mm512_setzero_si512(); 3], &powers, &rows, 0, tops) };
    let mut sums = h;
    let mut busy = (1u32 << texts.len().min(WAYS)) - 1;
    loop {
        let mut ended = 0;
        let mut shortest = usize::MAX;
        for (way, walk) in walks.iter_mut().enumerate() {
            if busy >> way & 1 != 0 {
                if walk.rows == 0 && !walk.turn(&mut asides.0[way]) {
                    ended |= 1 << way;
                    continue;
                }
                shortest = shortest.min(walk.rows);
            }
        }
        for (sum, h) in sums.iter_mut().zip(h) {
            *sum = _mm512_mask_mov_epi64(*sum, ended as u8, h);
        }
        busy &= !ended;
        if busy == 0 {
            break;
        }
        let other = walks[busy.trailing_zeros() as usize].row;
        for (way, (row, walk)) in rows.iter_mut().zip(&mut walks).enumerate() {
            *row = if busy >> way & 1 != 0 { walk.row } else { other };
            walk.row = walk.row.wrapping_add(ROW * shortest);
            walk.rows = walk.rows.wrapping_sub(shortest);
        }
        // SAFETY: a busy way has as many rows ahead.
        h = unsafe { absorb_rows(h, &powers, &rows, shortest) };
    }
    let [low, high] = finish(sums, pads);
    let mut words = [[0u64; WAYS]; 2];
    for (words, vector) in words.iter_mut().zip([low, high]) {
        // SAFETY: eight words.
        unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), vector) };
    }
    for (way, tag) in tags.iter_mut().enumerate().take(WAYS) {
        *tag = (u128::from(words[0][way]) | u128::from(words[1][way]) << 64).to_le_bytes();
    }
    Power::wipe(&mut powers);
}
