//! Look-ups of one word per way from tables in memory.
//!
//! `unsafe`: intrinsics need proved features; see the contract in [`super`].
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::Words;
use super::avx2::Y;
use super::avx512::Z;

/// Vectors that gather.
pub(crate) trait Gather: Words {
    /// Returns the words at `base` plus each way's offset in bytes.
    ///
    /// # Safety
    /// For every way, four bytes at `base` plus the way's offset, a signed number of bytes, are readable,
    /// with any alignment. The CPU has the vector's features.
    unsafe fn gather(base: *const u32, offsets: Self) -> Self;
}

impl Gather for Z {
    /// # Safety
    /// The contract of [`Gather::gather`], for sixteen ways. The CPU has AVX-512 F.
    #[inline(always)]
    unsafe fn gather(base: *const u32, offsets: Self) -> Self {
        // SAFETY: the contract: the four bytes of each way are readable; the module's contract for the
        // features.
        Self(unsafe { _mm512_i32gather_epi32::<1>(offsets.0, base.cast()) })
    }
}

impl Gather for Y {
    /// # Safety
    /// The contract of [`Gather::gather`], for eight ways. The CPU has AVX2.
    #[inline(always)]
    unsafe fn gather(base: *const u32, offsets: Self) -> Self {
        // SAFETY: the contract: the four bytes of each way are readable; the module's contract for the
        // features.
        Self(unsafe { _mm256_i32gather_epi32::<1>(base.cast(), offsets.0) })
    }
}
