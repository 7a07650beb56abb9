//! Eight 32-bit elements or 256 bit planes in a ymm register.
//!
//! `unsafe`: intrinsics need the features proved by [`crate::isa::Avx2`]; see the contract in [`super`].
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::{Bits, Blocks, Planes, Words, memory, methods, op};

/// A ymm register.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Y(pub(crate) __m256i);

impl Bits for Y {
    methods! {
        xor(self, other: Self) = _mm256_xor_si256(self.0, other.0);
        and(self, other: Self) = _mm256_and_si256(self.0, other.0);
        or(self, other: Self) = _mm256_or_si256(self.0, other.0);
        not(self) = _mm256_xor_si256(self.0, _mm256_set1_epi8(-1));
    }
}

impl Y {
    /// Transposes eight rows of eight words; it is its own inverse.
    #[inline(always)]
    pub(crate) fn transpose(rows: [Self; 8]) -> [Self; 8] {
        let mut pairs = rows;
        for i in 0..4 {
            let (a, b) = (rows[2 * i].0, rows[2 * i + 1].0);
            pairs[2 * i] = op!(_mm256_unpacklo_epi32(a, b));
            pairs[2 * i + 1] = op!(_mm256_unpackhi_epi32(a, b));
        }
        let mut quads = pairs;
        for k in 0..2 {
            for j in 0..2 {
                let (a, b) = (pairs[4 * k + j].0, pairs[4 * k + 2 + j].0);
                quads[4 * k + 2 * j] = op!(_mm256_unpacklo_epi64(a, b));
                quads[4 * k + 2 * j + 1] = op!(_mm256_unpackhi_epi64(a, b));
            }
        }
        let mut words = quads;
        for j in 0..4 {
            let (a, b) = (quads[j].0, quads[4 + j].0);
            words[j] = op!(_mm256_permute2x128_si256::<0x20>(a, b));
            words[4 + j] = op!(_mm256_permute2x128_si256::<0x31>(a, b));
        }
        words
    }

    /// Transposes four rows of four 64-bit words; it is its own inverse.
    #[inline(always)]
    fn transpose_4x4(rows: [Self; 4]) -> [Self; 4] {
        let [a, b, c, d] = rows;
        let ab_low: Self = op!(_mm256_unpacklo_epi64(a.0, b.0));
        let ab_high: Self = op!(_mm256_unpackhi_epi64(a.0, b.0));
        let cd_low: Self = op!(_mm256_unpacklo_epi64(c.0, d.0));
        let cd_high: Self = op!(_mm256_unpackhi_epi64(c.0, d.0));
        [
            op!(_mm256_permute2x128_si256::<0x20>(ab_low.0, cd_low.0)),
            op!(_mm256_permute2x128_si256::<0x20>(ab_high.0, cd_high.0)),
            op!(_mm256_permute2x128_si256::<0x31>(ab_low.0, cd_low.0)),
            op!(_mm256_permute2x128_si256::<0x31>(ab_high.0, cd_high.0)),
        ]
    }
}

impl Words for Y {
    const WAYS: usize = 8;
    methods! {
        splat(value: u32) = _mm256_set1_epi32(value as i32);
        add(self, other: Self) = _mm256_add_epi32(self.0, other.0);
        sub(self, other: Self) = _mm256_sub_epi32(self.0, other.0);
        mul(self, other: Self) = _mm256_mullo_epi32(self.0, other.0);
        rotl<const N: i32>(self) = _mm256_or_si256(
            _mm256_sll_epi32(self.0, _mm_cvtsi32_si128(N)),
            _mm256_srl_epi32(self.0, _mm_cvtsi32_si128(32 - N))
        );
        shr<const N: u32>(self) = _mm256_srl_epi32(self.0, _mm_cvtsi32_si128(N as i32));
        swap_bytes(self) = _mm256_shuffle_epi8(
            self.0,
            _mm256_broadcastsi128_si256(_mm_set_epi32(0x0c0d0e0f, 0x08090a0b, 0x04050607, 0x00010203))
        );
    }
    #[inline(always)]
    fn rotl_by(self, by: Self) -> Self {
        let by = by.and(<Self as Words>::splat(31));
        let back = <Self as Words>::splat(32).sub(by);
        op!(_mm256_or_si256(_mm256_sllv_epi32(self.0, by.0), _mm256_srlv_epi32(self.0, back.0)))
    }
    #[inline(always)]
    fn rotr_by(self, by: Self) -> Self {
        let by = by.and(<Self as Words>::splat(31));
        let back = <Self as Words>::splat(32).sub(by);
        op!(_mm256_or_si256(_mm256_srlv_epi32(self.0, by.0), _mm256_sllv_epi32(self.0, back.0)))
    }
    memory!(u32: _mm256_loadu_si256, _mm256_storeu_si256);
    /// # Safety
    /// `rows` has eight pointers, with 32 readable bytes at each plus `offset`. The CPU has AVX2.
    #[inline(always)]
    unsafe fn load_half_rows(rows: *const *const u8, offset: usize) -> [Self; 8] {
        let mut ways = [<Self as Words>::splat(0); 8];
        for (way, row) in ways.iter_mut().enumerate() {
            *row = op!(_mm256_loadu_si256((*rows.add(way)).add(offset).cast()));
        }
        Self::transpose(ways)
    }
    /// # Safety
    /// `rows` has eight pointers, with 32 writable bytes at each plus `offset`. The CPU has AVX2.
    #[inline(always)]
    unsafe fn store_half_rows(words: [Self; 8], rows: *const *mut u8, offset: usize) {
        for (way, row) in Self::transpose(words).into_iter().enumerate() {
            // SAFETY: the contract: 32 bytes of the way's row; the module's contract for the features.
            unsafe { _mm256_storeu_si256((*rows.add(way)).add(offset).cast(), row.0) };
        }
    }
}

impl Planes for Y {
    const ELEMENTS: usize = 4;
    methods! {
        splat(value: u64) = _mm256_set1_epi64x(value as i64);
        shl<const N: u32>(self) = _mm256_sll_epi64(self.0, _mm_cvtsi32_si128(N as i32));
        shr<const N: u32>(self) = _mm256_srl_epi64(self.0, _mm_cvtsi32_si128(N as i32));
    }
    memory!(u64: _mm256_loadu_si256);
}

impl Blocks for Y {
    /// # Safety
    /// `rows`, `rows + 64`, `rows + 128` and `rows + 192` are readable pointers, each to 64 readable bytes.
    /// The CPU has AVX2.
    #[inline(always)]
    unsafe fn load_blocks(rows: *const *const u8) -> [Self; 8] {
        let mut blocks = [<Self as Planes>::splat(0); 8];
        for half in 0..2 {
            let mut elements = [<Self as Planes>::splat(0); 4];
            for (e, row) in elements.iter_mut().enumerate() {
                *row = op!(_mm256_loadu_si256((*rows.add(64 * e)).add(32 * half).cast()));
            }
            blocks[4 * half..4 * half + 4].copy_from_slice(&Self::transpose_4x4(elements));
        }
        blocks
    }
    /// # Safety
    /// `rows`, `rows + 64`, `rows + 128` and `rows + 192` are readable pointers, each to 64 writable bytes.
    /// The CPU has AVX2.
    #[inline(always)]
    unsafe fn store_blocks(blocks: [Self; 8], rows: *const *mut u8) {
        for half in 0..2 {
            let mut words = [<Self as Planes>::splat(0); 4];
            words.copy_from_slice(&blocks[4 * half..4 * half + 4]);
            for (e, row) in Self::transpose_4x4(words).into_iter().enumerate() {
                // SAFETY: the contract: the row's 64 bytes, of which this is a half; the module's contract
                // for the features.
                unsafe { _mm256_storeu_si256((*rows.add(64 * e)).add(32 * half).cast(), row.0) };
            }
        }
    }
}
