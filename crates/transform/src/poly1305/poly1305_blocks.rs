//! Poly1305 over eight blocks of one text at a time by AVX-512 IFMA, in the limbs of [`super::ways`];
//! constant-time.
//!
//! Each element sums every eighth block, and multiplies by the eighth power of r; in the last step each element multiplies
//! by the power that its block still lacks, and their sum is the text's. Powers cost as much as a few dozens of
//! blocks word by word, so short texts, and the rests of others, are processed word by word.
//!
//! `unsafe`: intrinsics behind the token.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::Text;
use super::generic::{Poly1305, State, Sum};
use super::ways::{Number, Power, Products, limbs};
use crate::isa::Avx512;
use crate::simd::avx512::Z;

/// Bytes that meet one multiplication.
const GROUP: usize = 8 * 16;

/// Bytes of data from which on groups are faster than blocks; measured.
const WORTH_BYTES: usize = 512;

/// Returns the tag of a text.
pub(crate) fn tag(proof: Avx512, text: &Text<'_>) -> [u8; 16] {
    let mut poly = Poly1305::new(text.key);
    poly.update_padded(text.aad);
    let (blocks, rest) = text.data.as_chunks::<16>();
    update(proof, &mut poly, blocks.as_flattened());
    poly.update_padded(rest);
    poly.update(&text.lengths());
    poly.finish()
}

/// Absorbs whole blocks.
pub(crate) fn update(_: Avx512, poly: &mut Poly1305, mut rest: &[u8]) {
    if rest.len() >= WORTH_BYTES {
        let (groups, behind) = rest.as_chunks();
        // SAFETY: the token proves the features.
        unsafe { absorb(poly.state(), groups) };
        rest = behind;
    }
    poly.update(rest);
}

/// Absorbs groups, at least one.
#[target_feature(enable = "avx512f,avx512ifma")]
fn absorb(state: &mut State, groups: &[[u8; GROUP]]) {
    let [low, high] = state.factor.words().map(|word| Z(_mm512_set1_epi64(word.cast_signed())));
    let r = Power::new(limbs(low, high));
    let square = r.times(r);
    let fourth = square.times(square);
    // Elements hold blocks 0, 4, 1, 5, 2, 6, 3 and 7, which lack r to the power of 8, 4, 7, 3, 6, 2, 5 and 1.
    let of_elements = r.in_ways(0x33, square);
    let of_elements = of_elements.in_ways(0x0f, of_elements.times(square));
    let of_elements = of_elements.in_ways(0x55, of_elements.times(fourth));
    let mut powers = [fourth.times(fourth), of_elements];
    // The first block is added to the earlier sum.
    let mut h = state.sum.limbs().map(|limb| _mm512_maskz_set1_epi64(1, limb.cast_signed()));
    let last = groups.len() - 1;
    for (n, group) in groups.iter().enumerate() {
        h = add(h, group);
        let mut products = Products::new();
        products.add(h, powers[usize::from(n == last)]);
        h = products.reduced();
    }
    state.sum = Sum::of_limbs(h.map(|limb| _mm512_reduce_add_epi64(limb).cast_unsigned()));
    Power::wipe(&mut powers);
}

/// Adds a group to `h`, with the bits above its blocks.
#[inline]
#[target_feature(enable = "avx512f")]
fn add(h: Number, group: &[u8; GROUP]) -> Number {
    let half = |n: usize| {
        // SAFETY: 64 of the group's 128 bytes, any alignment.
        unsafe { _mm512_loadu_si512(group.as_ptr().add(64 * n).cast()) }
    };
    let (low, high) = (half(0), half(1));
    let words = [_mm512_unpacklo_epi64(low, high), _mm512_unpackhi_epi64(low, high)].map(Z);
    let [b0, b1, b2] = limbs(words[0], words[1]);
    let b2 = _mm512_or_si512(b2, _mm512_set1_epi64(1 << 40));
    [_mm512_add_epi64(h[0], b0), _mm512_add_epi64(h[1], b1), _mm512_add_epi64(h[2], b2)]
}

#[cfg(test)]
mod tests {
    use super::{GROUP, Text, WORTH_BYTES, tag};
    use crate::isa::Features;

    /// First r and the blocks are the largest ones, which fill every limb; then come blocks that differ.
    #[test]
    fn as_word_by_word() {
        let Some(proof) = Features::detect().avx512 else { return };
        for (key, step) in [([0xff; 32], 0u8), ([0x5a; 32], 37)] {
            let bytes: Vec<u8> =
                (0..20 * GROUP).map(|at| 0xff_u8.wrapping_sub(step.wrapping_mul(at as u8))).collect();
            for data in (WORTH_BYTES - 1..bytes.len()).step_by(31) {
                let text = Text { key: &key, aad: &bytes[..data % 50], data: &bytes[..data] };
                assert_eq!(tag(proof, &text), text.tag(), "{data} bytes");
            }
        }
    }
}
