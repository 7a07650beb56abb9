//! SHA-256 by the SHA extensions, one message or two side by side.
//!
//! The instructions of one message wait for each other; those of a second one fill the gaps, and two already take all that the
//! execution units have. All 64 steps are written out: in a loop, the schedule would lie in memory.
//!
//! `unsafe`: intrinsics; [`super::native`] and the descriptor's ways give these functions out only with the [`crate::isa::ShaNi`]
//! token. Ways' pointers have the contracts of [`crate::hash::ways::Absorb`] and `Outer`.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::CONSTANTS;
use crate::hash::ways::{MAX_WAYS, Rows, WaysState, Width};

/// Two messages side by side.
pub(crate) const PAIR: Width = Width { ways: 2, absorb: absorb_pair, outer: outer_pair };

/// The state of a message as the instructions take it, high word first.
#[derive(Clone, Copy)]
struct State {
    abef: __m128i,
    cdgh: __m128i,
}

/// Absorbs whole blocks.
pub(crate) fn blocks(state: &mut [u32; 8], data: &[u8]) {
    // SAFETY: `super::native` hands this function out only where the SHA extensions were detected; so many blocks are readable.
    unsafe { absorb_one(state, data.as_ptr(), data.len() / 64) }
}

#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn load(words: &[u32; 8]) -> State {
    let words = words.as_ptr().cast::<__m128i>();
    // SAFETY: the state's two halves, any alignment.
    let (dcba, hgfe) = unsafe { (_mm_loadu_si128(words), _mm_loadu_si128(words.add(1))) };
    let (cdab, efgh) = (_mm_shuffle_epi32::<0xb1>(dcba), _mm_shuffle_epi32::<0x1b>(hgfe));
    State { abef: _mm_alignr_epi8::<8>(cdab, efgh), cdgh: _mm_blend_epi16::<0xf0>(efgh, cdab) }
}

#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
fn store(state: State, words: &mut [u32; 8]) {
    let feba = _mm_shuffle_epi32::<0x1b>(state.abef);
    let dchg = _mm_shuffle_epi32::<0xb1>(state.cdgh);
    let words = words.as_mut_ptr().cast::<__m128i>();
    // SAFETY: the state's two halves, any alignment.
    unsafe {
        _mm_storeu_si128(words, _mm_blend_epi16::<0xf0>(feba, dchg));
        _mm_storeu_si128(words.add(1), _mm_alignr_epi8::<8>(dchg, feba));
    }
}

/// Runs the rounds of a block of each message, whose words are in its array, and adds the states before. The messages have names,
/// not places in an array: what a loop indexes would lie in memory.
macro_rules! compress {
    ($($state:ident $w:ident),+) => { {
        let before = ($($state,)+);
        compress!(@ [$($state $w),+] 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
        let ($($w,)+) = before;
        $(
            $state.abef = _mm_add_epi32($state.abef, $w.abef);
            $state.cdgh = _mm_add_epi32($state.cdgh, $w.cdgh);
        )+
    } };
    (@ $messages:tt $($four:literal)+) => { $( compress!(@@ $messages $four); )+ };
    (@@ [$($state:ident $w:ident),+] $four:literal) => {
        // SAFETY: four of the 64 constants.
        let constants = unsafe { _mm_loadu_si128(CONSTANTS.as_ptr().add(4 * $four).cast()) };
        $(
            if $four >= 4 {
                let nine = _mm_alignr_epi8::<4>($w[($four + 3) % 4], $w[($four + 2) % 4]);
                let older = _mm_add_epi32(_mm_sha256msg1_epu32($w[$four % 4], $w[($four + 1) % 4]), nine);
                $w[$four % 4] = _mm_sha256msg2_epu32(older, $w[($four + 3) % 4]);
            }
            let sum = _mm_add_epi32($w[$four % 4], constants);
            $state.cdgh = _mm_sha256rnds2_epu32($state.cdgh, $state.abef, sum);
            $state.abef = _mm_sha256rnds2_epu32($state.abef, $state.cdgh, _mm_shuffle_epi32::<0x0e>(sum));
        )+
    };
}

/// Returns the words of a block.
///
/// # Safety
/// 64 bytes at `block` are readable, with any alignment. The CPU has the SHA extensions, SSE4.1 and SSSE3.
#[inline]
#[target_feature(enable = "sha,sse4.1,ssse3")]
unsafe fn words(block: *const u8) -> [__m128i; 4] {
    let swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    // SAFETY: the contract: sixteen bytes of the 64, any alignment.
    let quarter = |at: usize| _mm_shuffle_epi8(unsafe { _mm_loadu_si128(block.add(at).cast()) }, swap);
    [quarter(0), quarter(16), quarter(32), quarter(48)]
}

/// Absorbs that many blocks of a message.
///
/// # Safety
/// `64 * blocks` bytes at `row` are readable, with any alignment. The CPU has the SHA extensions, SSE4.1 and
/// SSSE3.
#[target_feature(enable = "sha,sse4.1,ssse3")]
unsafe fn absorb_one(state: &mut [u32; 8], row: *const u8, blocks: usize) {
    let mut s = load(state);
    for block in 0..blocks {
        // SAFETY: the contract: block number `block` of the readable ones.
        let mut w = unsafe { words(row.add(64 * block)) };
        compress!(s w);
    }
    store(s, state);
}

/// Absorbs that many blocks of two messages.
///
/// # Safety
/// `64 * blocks` bytes at each of `rows` are readable, with any alignment. The CPU has the SHA extensions,
/// SSE4.1 and SSSE3.
#[target_feature(enable = "sha,sse4.1,ssse3")]
unsafe fn absorb_two(states: &mut [[u32; 8]; 2], rows: [*const u8; 2], blocks: usize) {
    let [mut s, mut t] = [load(&states[0]), load(&states[1])];
    for block in 0..blocks {
        // SAFETY: the contract: block number `block` of the readable ones of each row.
        let (mut w, mut x) = unsafe { (words(rows[0].add(64 * block)), words(rows[1].add(64 * block))) };
        compress!(s w, t x);
    }
    store(s, &mut states[0]);
    store(t, &mut states[1]);
}

/// See [`crate::hash::ways::Absorb`].
///
/// # Safety
/// The contract of [`crate::hash::ways::Absorb`], for two ways; the CPU has the SHA extensions, SSE4.1
/// and SSSE3.
unsafe fn absorb_pair(state: &mut WaysState, rows: &mut Rows, blocks: usize) {
    let mut states = [state.way(0), state.way(1)];
    let mut left = blocks;
    while left > 0 {
        let straight = rows.straight(0..2, left);
        // SAFETY: the contract of Absorb: the rows are readable, and so many blocks of each way are in one
        // piece; the features.
        unsafe { absorb_two(&mut states, [rows.next[0], rows.next[1]], straight) };
        rows.advance(0..2, straight);
        left -= straight;
    }
    state.set_way(0, 8, &states[0]);
    state.set_way(1, 8, &states[1]);
}

/// See [`crate::hash::ways::Outer`].
///
/// # Safety
/// The contract of [`crate::hash::ways::Outer`], for two ways: 32 bytes at each of the first two
/// `states` are readable, and 32 at each of the first two `outputs` are writable. The CPU has the SHA
/// extensions, SSE4.1 and SSSE3.
#[target_feature(enable = "sha,sse4.1,ssse3")]
unsafe fn outer_pair(digests: &WaysState, states: &[*const u8; MAX_WAYS], outputs: &[*mut u8; MAX_WAYS]) {
    let swap = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    let words = |way: usize| {
        let digest = digests.way(way).map(u32::cast_signed);
        [
            _mm_setr_epi32(digest[0], digest[1], digest[2], digest[3]),
            _mm_setr_epi32(digest[4], digest[5], digest[6], digest[7]),
            // The end of the padding: the key's block and the digest.
            _mm_setr_epi32(i32::MIN, 0, 0, 0),
            _mm_setr_epi32(0, 0, 0, 8 * (64 + 32)),
        ]
    };
    // SAFETY: the contract: 32 bytes at the state are readable; any alignment.
    let state = |way: usize| load(&unsafe { states[way].cast::<[u32; 8]>().read_unaligned() });
    let (mut w, mut x, mut s, mut t) = (words(0), words(1), state(0), state(1));
    compress!(s w, t x);
    for (state, output) in [s, t].into_iter().zip(outputs) {
        let mut made = [0; 8];
        store(state, &mut made);
        for (i, half) in made.as_chunks::<4>().0.iter().enumerate() {
            // SAFETY: four words of the state; the contract: 32 bytes at the output are writable, of which
            // this is a half.
            unsafe {
                let half = _mm_shuffle_epi8(_mm_loadu_si128(half.as_ptr().cast()), swap);
                _mm_storeu_si128(output.add(16 * i).cast(), half);
            }
        }
    }
}
