//! Poly1305 over sixteen messages by AVX-512 IFMA, one to a 64-bit lane, in the limbs of [`super::generic`]; constant
//! time.
//!
//! A lane's text is four stretches of whole blocks: associated data, their padded tail, data, and what ends the text.
//! All lanes run until the shortest stretch ends; a lane whose text has ended goes over zeros.
//!
//! `unsafe`: intrinsics behind the token, and stretches as raw pointers, made here from slices.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use zeroize::Zeroize as _;

use super::Text;
use super::generic::Poly1305;
use crate::isa::Avx512;
use crate::simd::avx512::Z;

/// Messages that run together.
pub(crate) const LANES: usize = 16;

/// A limb of sixteen numbers.
type Limb = [[u64; 8]; 2];

/// Keys, and running sums.
#[repr(align(64))]
struct Lanes {
    r: [Limb; 3],
    sums: [Limb; 3],
    rows: [*const u8; LANES],
    /// 16, or 0 for a lane that rests.
    steps: [usize; LANES],
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.r.as_flattened_mut().as_flattened_mut().zeroize();
        self.sums.as_flattened_mut().as_flattened_mut().zeroize();
    }
}

/// A text cut into stretches.
struct Stretches {
    head: [u8; 64],
    end: [u8; 32],
    stretch: usize,
    blocks_left: usize,
}

/// What a resting lane reads.
static ZEROS: [u8; 64] = [0; 64];

/// The tags of up to sixteen texts.
pub(crate) fn tags(_: Avx512, texts: &[Text<'_>], tags: &mut [[u8; 16]]) {
    let count = texts.len().min(tags.len()).min(LANES);
    let mut lanes = Lanes {
        r: [[[0; 8]; 2]; 3],
        sums: [[[0; 8]; 2]; 3],
        rows: [ZEROS.as_ptr(); LANES],
        steps: [0; LANES],
    };
    let mut walks: [Stretches; LANES] =
        [const { Stretches { head: [0; 64], end: [0; 32], stretch: 0, blocks_left: 0 } }; LANES];
    for (lane, text) in texts[..count].iter().enumerate() {
        for (limb, r) in lanes.r.iter_mut().zip(Poly1305::new(text.key).r()) {
            limb[lane / 8][lane % 8] = r;
        }
        lanes.steps[lane] = 16;
    }
    let mut busy = count;
    while busy != 0 {
        let mut shortest = usize::MAX;
        for (lane, (text, walk)) in texts.iter().zip(&mut walks[..count]).enumerate() {
            while walk.blocks_left == 0 && lanes.steps[lane] != 0 {
                let Some((row, blocks)) = next_stretch(text, walk) else {
                    let [low, middle, high] = &lanes.sums;
                    let sum = [low, middle, high].map(|limb| limb[lane / 8][lane % 8]);
                    tags[lane] = Poly1305::new(text.key).resumed(sum).finish();
                    lanes.steps[lane] = 0;
                    lanes.rows[lane] = ZEROS.as_ptr();
                    busy -= 1;
                    break;
                };
                lanes.rows[lane] = row;
                walk.blocks_left = blocks;
            }
            if lanes.steps[lane] != 0 {
                shortest = shortest.min(walk.blocks_left);
            }
        }
        if busy == 0 {
            break;
        }
        // SAFETY: the token proves the features. A busy lane has at least `shortest` blocks at its row, and a resting
        // one reads zeros.
        unsafe {
            if count > 8 {
                run::<2>(&mut lanes, shortest);
            } else {
                run::<1>(&mut lanes, shortest);
            }
        }
        for walk in &mut walks[..count] {
            walk.blocks_left = walk.blocks_left.saturating_sub(shortest);
        }
    }
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

/// One group of eight lanes.
#[derive(Clone, Copy)]
struct Eight {
    r: [__m512i; 3],
    /// 20 r: limbs carried past 2^132 come back times 5 * 4.
    s: [__m512i; 2],
    h: [__m512i; 3],
}

impl Eight {
    /// Adds a block of each lane, with the bit above it, and multiplies by r.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma")]
    fn absorb(&mut self, low: __m512i, high: __m512i) {
        let mask = _mm512_set1_epi64((1 << 44) - 1);
        let [r0, r1, r2] = self.r;
        let [s1, s2] = self.s;
        let h0 = _mm512_add_epi64(self.h[0], _mm512_and_si512(low, mask));
        let cut = _mm512_or_si512(_mm512_srli_epi64::<44>(low), _mm512_slli_epi64::<20>(high));
        let h1 = _mm512_add_epi64(self.h[1], _mm512_and_si512(cut, mask));
        let top = _mm512_or_si512(_mm512_srli_epi64::<24>(high), _mm512_set1_epi64(1 << 40));
        let h2 = _mm512_add_epi64(self.h[2], top);
        let zero = _mm512_setzero_si512();
        // Products of 52-bit numbers come in two halves: the low 52 bits and the rest.
        let sum = |a: __m512i, b: __m512i, c: __m512i| {
            let low = _mm512_madd52lo_epu64(zero, h1, b);
            let high = _mm512_madd52hi_epu64(zero, h1, b);
            let low = _mm512_madd52lo_epu64(_mm512_madd52lo_epu64(low, h2, c), h0, a);
            let high = _mm512_madd52hi_epu64(_mm512_madd52hi_epu64(high, h2, c), h0, a);
            (low, high)
        };
        let (d0, e0) = sum(r0, s2, s1);
        let (d1, e1) = sum(r1, r0, s2);
        let (d2, e2) = sum(r2, r1, r0);
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
        self.h = [
            _mm512_and_si512(low, mask),
            _mm512_add_epi64(_mm512_and_si512(d1, mask), _mm512_srli_epi64::<44>(low)),
            _mm512_and_si512(d2, _mm512_set1_epi64((1 << 42) - 1)),
        ];
    }
}

/// Absorbs `blocks` blocks of every lane of the first `G` groups and advances the rows.
///
/// # Safety
/// As many are readable at the row of each lane that steps, four at the others.
#[target_feature(enable = "avx512f,avx512ifma")]
unsafe fn run<const G: usize>(lanes: &mut Lanes, blocks: usize) {
    // SAFETY: eight aligned or unaligned numbers.
    let load = |limb: &[u64; 8]| unsafe { _mm512_loadu_si512(limb.as_ptr().cast()) };
    let twenty = |r| _mm512_add_epi64(_mm512_slli_epi64::<4>(r), _mm512_slli_epi64::<2>(r));
    let zero = [_mm512_setzero_si512(); 3];
    let mut eights = [Eight { r: zero, s: [zero[0]; 2], h: zero }; G];
    for (g, eight) in eights.iter_mut().enumerate() {
        for limb in 0..3 {
            (eight.r[limb], eight.h[limb]) = (load(&lanes.r[limb][g]), load(&lanes.sums[limb][g]));
        }
        eight.s = [twenty(eight.r[1]), twenty(eight.r[2])];
    }
    for _ in 0..blocks / 4 {
        let mut words = [[Z(_mm512_setzero_si512()); 8]; G];
        for (g, words) in words.iter_mut().enumerate() {
            for (lane, word) in words.iter_mut().enumerate() {
                let lane = 8 * g + lane;
                // SAFETY: four blocks, as the caller says.
                *word = Z(unsafe { _mm512_loadu_si512(lanes.rows[lane].cast()) });
                lanes.rows[lane] = lanes.rows[lane].wrapping_add(4 * lanes.steps[lane]);
            }
            *words = Z::transpose_8x8(*words);
        }
        for block in 0..4 {
            for (eight, words) in eights.iter_mut().zip(&words) {
                eight.absorb(words[2 * block].0, words[2 * block + 1].0);
            }
        }
    }
    for _ in 0..blocks % 4 {
        for (g, eight) in eights.iter_mut().enumerate() {
            let mut halves = [[0; 8]; 2];
            let [lows, highs] = &mut halves;
            for (lane, (low, high)) in lows.iter_mut().zip(highs).enumerate() {
                let row = &mut lanes.rows[8 * g + lane];
                // SAFETY: a block, as the caller says.
                [*low, *high] = unsafe { row.cast::<[u64; 2]>().read_unaligned() };
                *row = row.wrapping_add(lanes.steps[8 * g + lane]);
            }
            eight.absorb(load(&halves[0]), load(&halves[1]));
        }
    }
    for (g, eight) in eights.iter().enumerate() {
        for (sums, h) in lanes.sums.iter_mut().zip(eight.h) {
            // SAFETY: eight numbers.
            unsafe { _mm512_storeu_si512(sums[g].as_mut_ptr().cast(), h) };
        }
    }
}
