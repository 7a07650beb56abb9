//! Poly1305 over sixteen messages by AVX-512 IFMA, one to a 64-bit lane, in the limbs of [`super::generic`]; constant
//! time.
//!
//! Four blocks at a time meet four powers of r, so that one reduction serves them all.
//!
//! A lane's text is three stretches of whole blocks: associated data, data, and what ends the text. Long associated
//! data have a fourth, their padded tail. All lanes run until the shortest stretch ends; a lane whose text has ended
//! goes over another's.
//!
//! `unsafe`: intrinsics behind the token, and stretches as raw pointers, made here from slices.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::Text;
use super::generic::{Poly1305, clamped};
use crate::isa::Avx512;
use crate::simd::avx512::Z;
use crate::wipe::wipe;

/// Messages that run together.
pub(crate) const LANES: usize = 16;

/// Blocks between two reductions.
const STEP: usize = 4;

/// A number below 2^130 of eight lanes.
type Limbs = [[u64; 8]; 3];

/// Keys, and running sums.
#[repr(align(64))]
struct Lanes {
    /// r, its square, and so on.
    powers: [[Limbs; STEP]; LANES / 8],
    sums: [Limbs; LANES / 8],
    rows: [*const u8; LANES],
}

/// A text cut into stretches.
#[derive(Clone, Copy)]
struct Stretches {
    head: [u8; 64],
    end: [u8; 32],
    stretch: usize,
    blocks_left: usize,
}

/// The tags of up to sixteen texts.
pub(crate) fn tags(_: Avx512, texts: &[Text<'_>], tags: &mut [[u8; 16]]) {
    let count = texts.len().min(tags.len()).min(LANES);
    let mut lanes = Lanes {
        powers: [[[[0; 8]; 3]; STEP]; LANES / 8],
        sums: [[[0; 8]; 3]; LANES / 8],
        rows: [core::ptr::null(); LANES],
    };
    let mut walks = [Stretches { head: [0; 64], end: [0; 32], stretch: 0, blocks_left: 0 }; LANES];
    for (lane, text) in texts[..count].iter().enumerate() {
        let (halves, _) = text.key.as_chunks();
        for (limb, r) in lanes.powers[lane / 8][0].iter_mut().zip(clamped(&halves[0])) {
            limb[lane % 8] = r;
        }
    }
    let groups = count.div_ceil(8);
    // SAFETY: the token proves the features.
    unsafe { raise(&mut lanes.powers[..groups]) };
    // Lanes without a text have none left.
    let mut ended: [bool; LANES] = core::array::from_fn(|lane| lane >= count);
    loop {
        let mut shortest = usize::MAX;
        for (lane, (text, walk)) in texts[..count].iter().zip(&mut walks).enumerate() {
            while walk.blocks_left == 0 && !ended[lane] {
                if let Some((row, blocks)) = next_stretch(text, walk) {
                    (lanes.rows[lane], walk.blocks_left) = (row, blocks);
                } else {
                    let sum = lanes.sums[lane / 8].map(|limb| limb[lane % 8]);
                    tags[lane] = Poly1305::new(text.key).resumed(sum).finish();
                    ended[lane] = true;
                }
            }
            if !ended[lane] {
                shortest = shortest.min(walk.blocks_left);
            }
        }
        let Some(busy) = ended[..count].iter().position(|ended| !ended) else { break };
        let borrowed = lanes.rows[busy];
        for (row, ended) in lanes.rows.iter_mut().zip(&ended) {
            if *ended {
                *row = borrowed;
            }
        }
        // SAFETY: the token proves the features. A busy lane has at least `shortest` blocks at its row.
        unsafe { run(&mut lanes, groups, shortest) };
        for walk in &mut walks[..count] {
            walk.blocks_left = walk.blocks_left.saturating_sub(shortest);
        }
    }
    wipe(&mut lanes.powers, [[[0; 8]; 3]; STEP]);
    wipe(&mut lanes.sums, [[0; 8]; 3]);
}

/// The next stretch and its blocks, perhaps none; the short ones lie in `walk`.
fn next_stretch(text: &Text<'_>, walk: &mut Stretches) -> Option<(*const u8, usize)> {
    let aad_short = text.aad.len() <= walk.head.len();
    let (aad_whole, aad_tail) =
        if aad_short { (&[][..], text.aad) } else { text.aad.split_at(text.aad.len() & !15) };
    let (data_whole, data_tail) = text.data.split_at(text.data.len() & !15);
    walk.stretch += 1;
    match walk.stretch {
        1 => Some((aad_whole.as_ptr(), aad_whole.len() / 16)),
        2 => {
            walk.head[..aad_tail.len()].copy_from_slice(aad_tail);
            Some((walk.head.as_ptr(), aad_tail.len().div_ceil(16)))
        }
        3 => Some((data_whole.as_ptr(), data_whole.len() / 16)),
        4 => {
            walk.end[..data_tail.len()].copy_from_slice(data_tail);
            let padded = data_tail.len().next_multiple_of(16);
            walk.end[padded..padded + 16].copy_from_slice(&text.lengths());
            Some((walk.end.as_ptr(), padded / 16 + 1))
        }
        _ => None,
    }
}

/// A number of eight lanes.
type Number = [__m512i; 3];

/// A power of r, and its upper limbs times 20: limbs carried past 2^132 come back times 5 * 4.
#[derive(Clone, Copy)]
struct Power {
    r: Number,
    s: [__m512i; 2],
}

/// Sums of products by limb: those of low and of high halves, as products of 52-bit numbers come.
struct Products {
    low: Number,
    high: Number,
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(limbs: &Limbs) -> Number {
    // SAFETY: eight numbers, of any alignment.
    limbs.map(|limb| unsafe { _mm512_loadu_si512(limb.as_ptr().cast()) })
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(number: Number, limbs: &mut Limbs) {
    for (limb, number) in limbs.iter_mut().zip(number) {
        // SAFETY: eight numbers, of any alignment.
        unsafe { _mm512_storeu_si512(limb.as_mut_ptr().cast(), number) };
    }
}

impl Power {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(r: Number) -> Self {
        let twenty = |r| _mm512_add_epi64(_mm512_slli_epi64::<4>(r), _mm512_slli_epi64::<2>(r));
        Self { r, s: [twenty(r[1]), twenty(r[2])] }
    }
}

impl Products {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new() -> Self {
        let zero = [_mm512_setzero_si512(); 3];
        Self { low: zero, high: zero }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn add(&mut self, [h0, h1, h2]: Number, Power { r: [r0, r1, r2], s: [s1, s2] }: Power) {
        for (limb, factors) in [[r0, s2, s1], [r1, r0, s2], [r2, r1, r0]].into_iter().enumerate() {
            for (h, factor) in [h0, h1, h2].into_iter().zip(factors) {
                self.low[limb] = _mm512_madd52lo_epu64(self.low[limb], h, factor);
                self.high[limb] = _mm512_madd52hi_epu64(self.high[limb], h, factor);
            }
        }
    }

    /// Their sum in limbs of 44, 45 and 42 bits.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn reduced(&self) -> Number {
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

/// Makes the powers of each group from the first.
#[target_feature(enable = "avx512f,avx512ifma")]
fn raise(groups: &mut [[Limbs; STEP]]) {
    for powers in groups {
        let first = Power::new(load(&powers[0]));
        let mut power = first.r;
        for limbs in &mut powers[1..] {
            let mut products = Products::new();
            products.add(power, first);
            power = products.reduced();
            store(power, limbs);
        }
    }
}

/// A block of each lane, with the bit above it.
#[inline]
#[target_feature(enable = "avx512f")]
fn block(low: Z, high: Z) -> Number {
    let mask = _mm512_set1_epi64((1 << 44) - 1);
    let cut = _mm512_or_si512(_mm512_srli_epi64::<44>(low.0), _mm512_slli_epi64::<20>(high.0));
    let top = _mm512_or_si512(_mm512_srli_epi64::<24>(high.0), _mm512_set1_epi64(1 << 40));
    [_mm512_and_si512(low.0, mask), _mm512_and_si512(cut, mask), top]
}

/// Adds `N` blocks of each lane to `h`: each comes to be multiplied by r as often as blocks follow it, and once more.
///
/// # Safety
/// As many are readable at the rows plus `offset`.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma")]
unsafe fn absorb<const N: usize>(
    h: Number,
    powers: &[Power; STEP],
    rows: &[*const u8; 8],
    offset: usize,
) -> Number {
    let mut words = [Z(_mm512_setzero_si512()); 8];
    for (word, row) in words.iter_mut().zip(rows) {
        // SAFETY: two words a block, as the caller says; the others are not read.
        *word = Z(unsafe { _mm512_maskz_loadu_epi64(((1u32 << (2 * N)) - 1) as u8, row.add(offset).cast()) });
    }
    let words = Z::transpose_8x8(words);
    let mut products = Products::new();
    // The first block waits for `h`: it comes last.
    for n in (0..N).rev() {
        let mut number = block(words[2 * n], words[2 * n + 1]);
        if n == 0 {
            for (number, h) in number.iter_mut().zip(h) {
                *number = _mm512_add_epi64(*number, h);
            }
        }
        products.add(number, powers[N - 1 - n]);
    }
    products.reduced()
}

/// Absorbs `blocks` blocks of every lane of the first groups and advances the rows.
///
/// # Safety
/// As many are readable at the row of each lane.
#[target_feature(enable = "avx512f,avx512ifma")]
unsafe fn run(lanes: &mut Lanes, groups: usize, blocks: usize) {
    let rows = lanes.rows.as_chunks_mut::<8>().0;
    for ((powers, sums), rows) in lanes.powers.iter().zip(&mut lanes.sums).zip(rows).take(groups) {
        let powers = powers.each_ref().map(|power| Power::new(load(power)));
        let mut h = load(sums);
        let (whole, rest) = (16 * (blocks - blocks % STEP), blocks % STEP);
        for offset in (0..whole).step_by(16 * STEP) {
            // SAFETY: the caller's contract, here and below.
            h = unsafe { absorb::<STEP>(h, &powers, rows, offset) };
        }
        // SAFETY: as above.
        h = unsafe {
            match rest {
                1 => absorb::<1>(h, &powers, rows, whole),
                2 => absorb::<2>(h, &powers, rows, whole),
                3 => absorb::<3>(h, &powers, rows, whole),
                _ => h,
            }
        };
        store(h, sums);
        for row in rows {
            *row = row.wrapping_add(16 * blocks);
        }
    }
}
