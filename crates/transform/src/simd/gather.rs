//! Look-ups of one word per lane from tables in memory.
//!
//! `unsafe`: intrinsics need proved features; see the contract in [`super`].
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::Words;
use super::avx2::Y;
use super::avx512::Z;

/// Vectors that gather.
pub(crate) trait Gather: Words {
    /// Returns the words at `base` plus each lane's offset in bytes.
    ///
    /// # Safety
    /// Each of them is readable.
    unsafe fn gather(base: *const u32, offsets: Self) -> Self;
}

impl Gather for Z {
    #[inline(always)]
    unsafe fn gather(base: *const u32, offsets: Self) -> Self {
        // SAFETY: the caller's contract.
        Self(unsafe { _mm512_i32gather_epi32::<1>(offsets.0, base.cast()) })
    }
}

impl Gather for Y {
    #[inline(always)]
    unsafe fn gather(base: *const u32, offsets: Self) -> Self {
        // SAFETY: the caller's contract.
        Self(unsafe { _mm256_i32gather_epi32::<1>(base.cast(), offsets.0) })
    }
}
