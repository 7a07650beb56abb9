//! The vector operations that GCM needs besides AES: carry-less products, counters, and parts of vectors in memory.
//!
//! `unsafe`: intrinsics, under the contract of [`crate::simd`]: they are reached only from entry points that hold the
//! token.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use crate::simd::{methods, op};

use crate::aes::vector::{Blocks, Four, One, Two, mask};

/// One block, or two or four consecutive blocks of one message; the first is the lowest.
pub(crate) trait Field: Blocks {
    /// Returns the vector with the n-th block in place n; only as many count as a vector has.
    fn of(blocks: [One; 4]) -> Self;
    /// Returns the block in every place.
    fn splat(block: One) -> Self;
    /// Returns the block in the first place, and zeros in the others.
    fn lead(block: One) -> Self;
    /// Returns the sum of the blocks.
    fn total(self) -> One;
    /// Returns, in place n, the sum of the blocks of the n-th vector; only as many count as a vector has blocks.
    fn totals(of: [Self; 4]) -> Self;
    /// Returns, for each block, the product of one half of `self` (bit 0 of `HALVES`) and one of `other` (bit 4).
    fn product<const HALVES: i32>(self, other: Self) -> Self;
    fn xor3(self, b: Self, c: Self) -> Self;
    /// Returns the low half moved up, with zeros below.
    fn low_to_high(self) -> Self;
    /// Returns the high half moved down, with zeros above.
    fn high_to_low(self) -> Self;
    fn swap_halves(self) -> Self;
    /// Returns the low halves of the blocks of both, those of `self` below.
    fn low_halves(self, other: Self) -> Self;
    /// Returns the high halves likewise.
    fn high_halves(self, other: Self) -> Self;
    /// Returns the same value, which the compiler computes before it goes on.
    fn pinned(self) -> Self;
    /// Adds `from` and the numbers after it to the last bytes of the blocks, without carries.
    fn numbered(self, from: u8) -> Self;
    /// Returns the first `bytes`, at most a vector's, with zeros after them.
    fn first(self, bytes: usize) -> Self;
}

impl One {
    /// Returns the nonce, then four zeros.
    #[inline(always)]
    pub(crate) fn nonce(nonce: &[u8; 12]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = *nonce;
        let (start, end) = (i64::from_le_bytes([a, b, c, d, e, f, g, h]), i32::from_le_bytes([i, j, k, l]));
        op!(_mm_insert_epi32::<2>(_mm_cvtsi64_si128(start), end))
    }

    /// Returns a vector with this number, its lowest bits first.
    #[inline(always)]
    pub(crate) fn number(number: u128) -> Self {
        op!(_mm_set_epi64x((number >> 64) as i64, number as i64))
    }
}

impl Field for One {
    #[inline(always)]
    fn of([first, ..]: [One; 4]) -> Self {
        first
    }
    #[inline(always)]
    fn splat(block: One) -> Self {
        block
    }
    #[inline(always)]
    fn lead(block: One) -> Self {
        block
    }
    #[inline(always)]
    fn total(self) -> One {
        self
    }
    #[inline(always)]
    fn totals([first, ..]: [Self; 4]) -> Self {
        first
    }
    methods! {
        product<const HALVES: i32>(self, other: Self) = _mm_clmulepi64_si128::<HALVES>(self.0, other.0);
        low_to_high(self) = _mm_slli_si128::<8>(self.0);
        high_to_low(self) = _mm_srli_si128::<8>(self.0);
        swap_halves(self) = _mm_shuffle_epi32::<0x4e>(self.0);
        low_halves(self, other: Self) = _mm_unpacklo_epi64(self.0, other.0);
        high_halves(self, other: Self) = _mm_unpackhi_epi64(self.0, other.0);
        numbered(self, from: u8) = _mm_xor_si128(self.0, _mm_set_epi32(i32::from(from) << 24, 0, 0, 0));
    }
    #[inline(always)]
    fn xor3(self, b: Self, c: Self) -> Self {
        self.xor(b).xor(c)
    }
    #[inline(always)]
    fn pinned(self) -> Self {
        let mut a = self.0;
        // SAFETY: no instruction.
        unsafe { core::arch::asm!("/* {0} */", inout(xmm_reg) a, options(nomem, nostack, preserves_flags)) };
        Self(a)
    }
    #[inline(always)]
    fn first(self, bytes: usize) -> Self {
        let mut block = [0u8; 16];
        // SAFETY: one block.
        unsafe { self.write(block.as_mut_ptr()) };
        block[bytes..].fill(0);
        // SAFETY: one block.
        unsafe { Self::read(block.as_ptr()) }
    }
}

impl Field for Two {
    methods! {
        of([a, b, ..]: [One; 4]) = _mm256_set_m128i(b.0, a.0);
        splat(block: One) = _mm256_broadcastsi128_si256(block.0);
        lead(block: One) = _mm256_zextsi128_si256(block.0);
        totals([a, b, ..]: [Self; 4]) = _mm256_xor_si256(
            _mm256_permute2x128_si256::<0x20>(a.0, b.0),
            _mm256_permute2x128_si256::<0x31>(a.0, b.0)
        );
        product<const HALVES: i32>(self, other: Self) = _mm256_clmulepi64_epi128::<HALVES>(self.0, other.0);
        low_to_high(self) = _mm256_slli_si256::<8>(self.0);
        high_to_low(self) = _mm256_srli_si256::<8>(self.0);
        swap_halves(self) = _mm256_shuffle_epi32::<0x4e>(self.0);
        low_halves(self, other: Self) = _mm256_unpacklo_epi64(self.0, other.0);
        high_halves(self, other: Self) = _mm256_unpackhi_epi64(self.0, other.0);
    }
    #[inline(always)]
    fn total(self) -> One {
        // SAFETY: reached only under the token, as the module's contract says.
        One(unsafe { _mm_xor_si128(_mm256_castsi256_si128(self.0), _mm256_extracti128_si256::<1>(self.0)) })
    }
    #[inline(always)]
    fn xor3(self, b: Self, c: Self) -> Self {
        self.xor(b).xor(c)
    }
    #[inline(always)]
    fn pinned(self) -> Self {
        // SAFETY: reached only under the token, as the module's contract says.
        Self(unsafe { pinned_ymm(self.0) })
    }
    #[inline(always)]
    fn numbered(self, from: u8) -> Self {
        let (a, b) = (top(from, 0), top(from, 1));
        op!(_mm256_xor_si256(self.0, _mm256_set_epi32(b, 0, 0, 0, a, 0, 0, 0)))
    }
    #[inline(always)]
    fn first(self, bytes: usize) -> Self {
        let mut blocks = [0u8; 32];
        // SAFETY: two blocks.
        unsafe { self.write(blocks.as_mut_ptr()) };
        blocks[bytes..].fill(0);
        // SAFETY: two blocks.
        unsafe { Self::read(blocks.as_ptr()) }
    }
}

impl Field for Four {
    #[inline(always)]
    fn of([a, b, c, d]: [One; 4]) -> Self {
        // SAFETY: reached only under the token, as the module's contract says.
        let half = |a: One, b: One| unsafe { _mm256_set_m128i(b.0, a.0) };
        op!(_mm512_inserti64x4::<1>(_mm512_castsi256_si512(half(a, b)), half(c, d)))
    }
    methods! {
        splat(block: One) = _mm512_broadcast_i32x4(block.0);
        lead(block: One) = _mm512_zextsi128_si512(block.0);
        product<const HALVES: i32>(self, other: Self) = _mm512_clmulepi64_epi128::<HALVES>(self.0, other.0);
        xor3(self, b: Self, c: Self) = _mm512_ternarylogic_epi64::<0x96>(self.0, b.0, c.0);
        low_to_high(self) = _mm512_bslli_epi128::<8>(self.0);
        high_to_low(self) = _mm512_bsrli_epi128::<8>(self.0);
        swap_halves(self) = _mm512_shuffle_epi32::<0x4e>(self.0);
        low_halves(self, other: Self) = _mm512_unpacklo_epi64(self.0, other.0);
        high_halves(self, other: Self) = _mm512_unpackhi_epi64(self.0, other.0);
        first(self, bytes: usize) = _mm512_maskz_mov_epi8(mask(bytes), self.0);
    }
    #[inline(always)]
    fn total(self) -> One {
        // SAFETY: reached only under the token, as the module's contract says.
        One(unsafe {
            let half =
                _mm256_xor_si256(_mm512_castsi512_si256(self.0), _mm512_extracti64x4_epi64::<1>(self.0));
            _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half))
        })
    }
    #[inline(always)]
    fn totals([a, b, c, d]: [Self; 4]) -> Self {
        // The result has halves of the sums of a and b, then of c and d: [a, a, b, b].
        let halves = |a: Self, b: Self| -> Self {
            op!(_mm512_xor_si512(
                _mm512_shuffle_i64x2::<0x44>(a.0, b.0),
                _mm512_shuffle_i64x2::<0xee>(a.0, b.0)
            ))
        };
        let (ab, cd) = (halves(a, b), halves(c, d));
        op!(_mm512_xor_si512(
            _mm512_shuffle_i64x2::<0x88>(ab.0, cd.0),
            _mm512_shuffle_i64x2::<0xdd>(ab.0, cd.0)
        ))
    }
    #[inline(always)]
    fn pinned(self) -> Self {
        // SAFETY: reached only under the token, as the module's contract says.
        Self(unsafe { pinned(self.0) })
    }
    #[inline(always)]
    fn numbered(self, from: u8) -> Self {
        let (a, b, c, d) = (top(from, 0), top(from, 1), top(from, 2), top(from, 3));
        op!(_mm512_xor_si512(self.0, _mm512_set_epi32(d, 0, 0, 0, c, 0, 0, 0, b, 0, 0, 0, a, 0, 0, 0)))
    }
}

/// Returns a word whose last byte in memory is `from + n`.
#[inline(always)]
const fn top(from: u8, n: i32) -> i32 {
    (from as i32 + n) << 24
}

/// See [`Field::pinned`].
#[inline]
#[target_feature(enable = "avx512f")]
fn pinned(mut a: __m512i) -> __m512i {
    // SAFETY: no instruction.
    unsafe { core::arch::asm!("/* {0} */", inout(zmm_reg) a, options(nomem, nostack, preserves_flags)) };
    a
}

/// See [`Field::pinned`].
#[inline]
#[target_feature(enable = "avx2")]
fn pinned_ymm(mut a: __m256i) -> __m256i {
    // SAFETY: no instruction.
    unsafe { core::arch::asm!("/* {0} */", inout(ymm_reg) a, options(nomem, nostack, preserves_flags)) };
    a
}
