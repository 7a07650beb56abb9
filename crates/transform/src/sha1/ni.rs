//! SHA-1 by the SHA extensions, one message.
//!
//! `unsafe`: intrinsics; [`super::native`] gives this out only with the [`crate::isa::ShaNi`] token.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

/// Absorbs whole blocks.
pub(crate) fn blocks(state: &mut [u32; 8], data: &[u8]) {
    // SAFETY: `super::native` hands this function out only where the SHA extensions were detected.
    unsafe { blocks_ni(state, data) }
}

#[target_feature(enable = "sha,sse4.1,ssse3")]
fn blocks_ni(state: &mut [u32; 8], data: &[u8]) {
    let swap = _mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f);
    // SAFETY: sixteen of the state's 32 bytes, any alignment.
    let mut abcd = unsafe { _mm_shuffle_epi32::<0x1b>(_mm_loadu_si128(state.as_ptr().cast())) };
    let mut e = _mm_set_epi32(state[4] as i32, 0, 0, 0);
    for block in data.as_chunks::<64>().0 {
        let (abcd_start, e_start) = (abcd, e);
        let mut w = [_mm_setzero_si128(); 4];
        for (i, w) in w.iter_mut().enumerate() {
            // SAFETY: sixteen bytes of the block at 16 * i, any alignment.
            *w = _mm_shuffle_epi8(unsafe { _mm_loadu_si128(block.as_ptr().add(16 * i).cast()) }, swap);
        }
        // Each entry runs four steps: five entries to a round function.
        macro_rules! four {
            ($($i:literal $function:literal;)*) => { $(
                if $i >= 4 {
                    let older = _mm_xor_si128(_mm_sha1msg1_epu32(w[$i % 4], w[($i + 1) % 4]), w[($i + 2) % 4]);
                    w[$i % 4] = _mm_sha1msg2_epu32(older, w[($i + 3) % 4]);
                }
                let with_e = if $i == 0 { _mm_add_epi32(e, w[0]) } else { _mm_sha1nexte_epu32(e, w[$i % 4]) };
                e = abcd;
                abcd = _mm_sha1rnds4_epu32::<$function>(abcd, with_e);
            )* };
        }
        four! {
            0 0; 1 0; 2 0; 3 0; 4 0; 5 1; 6 1; 7 1; 8 1; 9 1;
            10 2; 11 2; 12 2; 13 2; 14 2; 15 3; 16 3; 17 3; 18 3; 19 3;
        }
        e = _mm_sha1nexte_epu32(e, e_start);
        abcd = _mm_add_epi32(abcd, abcd_start);
    }
    // SAFETY: the state's first four words, any alignment.
    unsafe { _mm_storeu_si128(state.as_mut_ptr().cast(), _mm_shuffle_epi32::<0x1b>(abcd)) };
    state[4] = _mm_extract_epi32::<3>(e) as u32;
}
