//! SHA-256 by the SHA extensions, one message.
//!
//! `unsafe`: intrinsics; [`super::native`] gives this out only with the [`crate::isa::ShaNi`] token.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::CONSTANTS;

/// Absorbs whole blocks.
pub(crate) fn blocks(state: &mut [u32; 8], data: &[u8]) {
    // SAFETY: `super::native` hands this function out only where the SHA extensions were detected.
    unsafe { blocks_ni(state, data) }
}

#[target_feature(enable = "sha,sse4.1,ssse3")]
fn blocks_ni(state: &mut [u32; 8], data: &[u8]) {
    let swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    let words = state.as_mut_ptr().cast::<__m128i>();
    // The instructions take the state as (a, b, e, f) and (c, d, g, h), high word first. SAFETY: the state's two
    // halves, any alignment.
    let (dcba, hgfe) = unsafe { (_mm_loadu_si128(words), _mm_loadu_si128(words.add(1))) };
    let cdab = _mm_shuffle_epi32::<0xb1>(dcba);
    let efgh = _mm_shuffle_epi32::<0x1b>(hgfe);
    let mut abef = _mm_alignr_epi8::<8>(cdab, efgh);
    let mut cdgh = _mm_blend_epi16::<0xf0>(efgh, cdab);
    for block in data.as_chunks::<64>().0 {
        let (abef_start, cdgh_start) = (abef, cdgh);
        let mut w = [_mm_setzero_si128(); 4];
        for (i, w) in w.iter_mut().enumerate() {
            // SAFETY: sixteen bytes of the block at 16 * i, any alignment.
            *w = _mm_shuffle_epi8(unsafe { _mm_loadu_si128(block.as_ptr().add(16 * i).cast()) }, swap);
        }
        for i in 0..16 {
            if i >= 4 {
                let nine = _mm_alignr_epi8::<4>(w[(i + 3) % 4], w[(i + 2) % 4]);
                let older = _mm_add_epi32(_mm_sha256msg1_epu32(w[i % 4], w[(i + 1) % 4]), nine);
                w[i % 4] = _mm_sha256msg2_epu32(older, w[(i + 3) % 4]);
            }
            // SAFETY: four of the 64 constants at 4 * i.
            let constants = unsafe { _mm_loadu_si128(CONSTANTS.as_ptr().add(4 * i).cast()) };
            let sum = _mm_add_epi32(w[i % 4], constants);
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32::<0x0e>(sum));
        }
        abef = _mm_add_epi32(abef, abef_start);
        cdgh = _mm_add_epi32(cdgh, cdgh_start);
    }
    let feba = _mm_shuffle_epi32::<0x1b>(abef);
    let dchg = _mm_shuffle_epi32::<0xb1>(cdgh);
    // SAFETY: as at the load.
    unsafe {
        _mm_storeu_si128(words, _mm_blend_epi16::<0xf0>(feba, dchg));
        _mm_storeu_si128(words.add(1), _mm_alignr_epi8::<8>(dchg, feba));
    }
}
