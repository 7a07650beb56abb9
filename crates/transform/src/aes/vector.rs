//! One block in an xmm register, two in a ymm register, or four in a zmm register: of as many messages, or consecutive blocks of one
//! message.
//!
//! `unsafe`: intrinsics, under the contract of [`crate::simd`]: they are reached only from entry points that hold the
//! token.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use crate::simd::{methods, op};

/// AES on as many messages as the vector has blocks.
pub(crate) trait Blocks: Copy {
    /// Messages side by side.
    const WAYS: usize;
    /// Whether there are registers for the blocks before and after the present ones.
    const AHEAD: bool;
    /// Bytes of a vector.
    const BYTES: usize = 16 * Self::WAYS;
    fn zero() -> Self;
    fn xor(self, other: Self) -> Self;
    fn encrypt(self, key: Self) -> Self;
    fn encrypt_last(self, key: Self) -> Self;
    fn decrypt(self, key: Self) -> Self;
    fn decrypt_last(self, key: Self) -> Self;
    /// Reverses the bytes of each block: counters are numbers in registers, and big-endian in memory.
    fn reverse(self) -> Self;
    /// Adds one to the 128-bit number in each block.
    fn increment(self) -> Self;

    /// Reads `WAYS` blocks.
    ///
    /// # Safety
    /// `WAYS` blocks at `from` are readable, with any alignment, as for all reads here.
    #[inline(always)]
    unsafe fn load(from: *const [u8; 16]) -> Self {
        // SAFETY: the contract: `WAYS` blocks are a vector.
        unsafe { Self::read(from.cast()) }
    }

    /// Writes `WAYS` blocks.
    ///
    /// # Safety
    /// `WAYS` blocks at `to` are writable, with any alignment, as for all writes here.
    #[inline(always)]
    unsafe fn store(self, to: *mut [u8; 16]) {
        // SAFETY: the contract: `WAYS` blocks are a vector.
        unsafe { self.write(to.cast()) }
    }

    /// Reads one block into every element.
    ///
    /// # Safety
    /// One block at `from` is readable.
    unsafe fn broadcast(from: *const [u8; 16]) -> Self;

    /// Reads a block of each message.
    ///
    /// # Safety
    /// `rows` has `WAYS` pointers, with 16 readable bytes at each plus `offset`.
    unsafe fn load_rows(rows: *const *const u8, offset: usize) -> Self;

    /// Writes a block of each message, the inverse of [`Self::load_rows`].
    ///
    /// # Safety
    /// `rows` has `WAYS` pointers, with 16 writable bytes at each plus `offset`.
    unsafe fn store_rows(self, rows: *const *mut u8, offset: usize);

    /// Adds `from` and the numbers after it to the lowest words of the blocks.
    fn count(self, from: u32) -> Self;
    /// Adds `number` to the lowest word of every block.
    fn plus(self, number: u32) -> Self;
    /// Returns the last block of `before`, then all blocks but the last.
    fn behind(self, before: Self) -> Self;

    /// Reads a vector.
    ///
    /// # Safety
    /// [`Self::BYTES`] at `from` are readable.
    unsafe fn read(from: *const u8) -> Self;

    /// Writes a vector.
    ///
    /// # Safety
    /// [`Self::BYTES`] at `to` are writable.
    unsafe fn write(self, to: *mut u8);

    /// Reads the first `bytes` of a vector, and fills the rest with zeros.
    ///
    /// # Safety
    /// `bytes` is at most [`Self::BYTES`], and so many bytes at `from` are readable.
    unsafe fn read_part(from: *const u8, bytes: usize) -> Self;

    /// Writes the first `bytes` of a vector.
    ///
    /// # Safety
    /// `bytes` is at most [`Self::BYTES`], and so many bytes at `to` are writable.
    unsafe fn write_part(self, to: *mut u8, bytes: usize);
}

/// An xmm register.
#[derive(Clone, Copy)]
pub(crate) struct One(pub(crate) __m128i);

/// A ymm register.
#[derive(Clone, Copy)]
pub(crate) struct Two(pub(crate) __m256i);

/// A zmm register.
#[derive(Clone, Copy)]
pub(crate) struct Four(pub(crate) __m512i);

impl Blocks for One {
    const WAYS: usize = 1;
    const AHEAD: bool = false;
    methods! {
        zero() = _mm_setzero_si128();
        xor(self, other: Self) = _mm_xor_si128(self.0, other.0);
        encrypt(self, key: Self) = _mm_aesenc_si128(self.0, key.0);
        encrypt_last(self, key: Self) = _mm_aesenclast_si128(self.0, key.0);
        decrypt(self, key: Self) = _mm_aesdec_si128(self.0, key.0);
        decrypt_last(self, key: Self) = _mm_aesdeclast_si128(self.0, key.0);
        reverse(self) = _mm_shuffle_epi8(self.0, _mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f));
        plus(self, number: u32) = _mm_add_epi32(self.0, _mm_set_epi32(0, 0, 0, number as i32));
    }
    #[inline(always)]
    fn increment(self) -> Self {
        // The low half is all ones if it carries: that is minus one, which is moved to the high half and subtracted.
        op!({
            let ones = _mm_cmpeq_epi64(self.0, _mm_set_epi64x(0, -1));
            _mm_sub_epi64(_mm_add_epi64(self.0, _mm_set_epi64x(0, 1)), _mm_slli_si128::<8>(ones))
        })
    }
    /// # Safety
    /// One block at `from` is readable.
    #[inline(always)]
    unsafe fn broadcast(from: *const [u8; 16]) -> Self {
        // SAFETY: the contract is that of `load`: one block.
        unsafe { Self::load(from) }
    }
    /// # Safety
    /// `rows` is a pointer to one pointer, with 16 readable bytes there plus `offset`.
    #[inline(always)]
    unsafe fn load_rows(rows: *const *const u8, offset: usize) -> Self {
        // SAFETY: the contract: one row, with a block to read at `offset`.
        unsafe { Self::load((*rows).add(offset).cast()) }
    }
    /// # Safety
    /// `rows` is a pointer to one pointer, with 16 writable bytes there plus `offset`.
    #[inline(always)]
    unsafe fn store_rows(self, rows: *const *mut u8, offset: usize) {
        // SAFETY: the contract: one row, with a block to write at `offset`.
        unsafe { self.store((*rows).add(offset).cast()) }
    }
    #[inline(always)]
    fn count(self, from: u32) -> Self {
        self.plus(from)
    }
    #[inline(always)]
    fn behind(self, before: Self) -> Self {
        before
    }
    /// # Safety
    /// 16 bytes at `from` are readable.
    #[inline(always)]
    unsafe fn read(from: *const u8) -> Self {
        op!(_mm_loadu_si128(from.cast()))
    }
    /// # Safety
    /// 16 bytes at `to` are writable.
    #[inline(always)]
    unsafe fn write(self, to: *mut u8) {
        // SAFETY: the contract: 16 bytes at `to` are writable; SSE2 is part of the architecture.
        unsafe { _mm_storeu_si128(to.cast(), self.0) }
    }
    /// # Safety
    /// `bytes` is at most 16, and so many bytes at `from` are readable.
    #[inline(always)]
    unsafe fn read_part(from: *const u8, bytes: usize) -> Self {
        let mut block = [0u8; 16];
        // SAFETY: the contract: so many bytes are readable, and no more than the block has, which is then
        // read.
        unsafe {
            core::ptr::copy_nonoverlapping(from, block.as_mut_ptr(), bytes);
            Self::read(block.as_ptr())
        }
    }
    /// # Safety
    /// `bytes` is at most 16, and so many bytes at `to` are writable.
    #[inline(always)]
    unsafe fn write_part(self, to: *mut u8, bytes: usize) {
        let mut block = [0u8; 16];
        // SAFETY: the block is written, of which no more bytes are copied than it has; the contract: so many
        // are writable.
        unsafe {
            self.write(block.as_mut_ptr());
            core::ptr::copy_nonoverlapping(block.as_ptr(), to, bytes);
        }
    }
}

impl Blocks for Two {
    const WAYS: usize = 2;
    const AHEAD: bool = false;
    methods! {
        zero() = _mm256_setzero_si256();
        xor(self, other: Self) = _mm256_xor_si256(self.0, other.0);
        encrypt(self, key: Self) = _mm256_aesenc_epi128(self.0, key.0);
        encrypt_last(self, key: Self) = _mm256_aesenclast_epi128(self.0, key.0);
        decrypt(self, key: Self) = _mm256_aesdec_epi128(self.0, key.0);
        decrypt_last(self, key: Self) = _mm256_aesdeclast_epi128(self.0, key.0);
        reverse(self) = _mm256_shuffle_epi8(
            self.0,
            _mm256_broadcastsi128_si256(_mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f))
        );
        behind(self, before: Self) = _mm256_permute2x128_si256::<0x21>(before.0, self.0);
    }
    #[inline(always)]
    fn increment(self) -> Self {
        // As in `One`.
        op!({
            let ones = _mm256_cmpeq_epi64(self.0, _mm256_set_epi64x(0, -1, 0, -1));
            let sum = _mm256_add_epi64(self.0, _mm256_set_epi64x(0, 1, 0, 1));
            _mm256_sub_epi64(sum, _mm256_slli_si256::<8>(ones))
        })
    }
    /// # Safety
    /// One block at `from` is readable. The CPU has AVX2.
    #[inline(always)]
    unsafe fn broadcast(from: *const [u8; 16]) -> Self {
        op!(_mm256_broadcastsi128_si256(_mm_loadu_si128(from.cast())))
    }
    /// # Safety
    /// `rows` has two pointers, with 16 readable bytes at each plus `offset`. The CPU has AVX2.
    #[inline(always)]
    unsafe fn load_rows(rows: *const *const u8, offset: usize) -> Self {
        op!({
            let block = |way: usize| _mm_loadu_si128((*rows.add(way)).add(offset).cast());
            _mm256_set_m128i(block(1), block(0))
        })
    }
    /// # Safety
    /// `rows` has two pointers, with 16 writable bytes at each plus `offset`. The CPU has AVX2.
    #[inline(always)]
    unsafe fn store_rows(self, rows: *const *mut u8, offset: usize) {
        // SAFETY: the contract: two rows, each with a block to write at `offset`; the module's contract for
        // the features.
        unsafe {
            let to = |way: usize| (*rows.add(way)).add(offset).cast();
            _mm_storeu_si128(to(0), _mm256_castsi256_si128(self.0));
            _mm_storeu_si128(to(1), _mm256_extracti128_si256::<1>(self.0));
        }
    }
    #[inline(always)]
    fn count(self, from: u32) -> Self {
        let first = from as i32;
        op!(_mm256_add_epi32(self.0, _mm256_set_epi32(0, 0, 0, first + 1, 0, 0, 0, first)))
    }
    #[inline(always)]
    fn plus(self, number: u32) -> Self {
        let number = number as i32;
        op!(_mm256_add_epi32(self.0, _mm256_set_epi32(0, 0, 0, number, 0, 0, 0, number)))
    }
    /// # Safety
    /// 32 bytes at `from` are readable. The CPU has AVX2.
    #[inline(always)]
    unsafe fn read(from: *const u8) -> Self {
        op!(_mm256_loadu_si256(from.cast()))
    }
    /// # Safety
    /// 32 bytes at `to` are writable. The CPU has AVX2.
    #[inline(always)]
    unsafe fn write(self, to: *mut u8) {
        // SAFETY: the contract: 32 bytes at `to` are writable; the module's contract for the features.
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }
    /// # Safety
    /// `bytes` is at most 32, and so many bytes at `from` are readable. The CPU has AVX2.
    #[inline(always)]
    unsafe fn read_part(from: *const u8, bytes: usize) -> Self {
        let mut blocks = [0u8; 32];
        // SAFETY: the contract: so many bytes are readable, and no more than the blocks have, which are then
        // read.
        unsafe {
            core::ptr::copy_nonoverlapping(from, blocks.as_mut_ptr(), bytes);
            Self::read(blocks.as_ptr())
        }
    }
    /// # Safety
    /// `bytes` is at most 32, and so many bytes at `to` are writable. The CPU has AVX2.
    #[inline(always)]
    unsafe fn write_part(self, to: *mut u8, bytes: usize) {
        let mut blocks = [0u8; 32];
        // SAFETY: the blocks are written, of which no more bytes are copied than they have; the contract: so
        // many are writable.
        unsafe {
            self.write(blocks.as_mut_ptr());
            core::ptr::copy_nonoverlapping(blocks.as_ptr(), to, bytes);
        }
    }
}

impl Blocks for Four {
    const WAYS: usize = 4;
    const AHEAD: bool = true;
    methods! {
        zero() = _mm512_setzero_si512();
        xor(self, other: Self) = _mm512_xor_si512(self.0, other.0);
        encrypt(self, key: Self) = _mm512_aesenc_epi128(self.0, key.0);
        encrypt_last(self, key: Self) = _mm512_aesenclast_epi128(self.0, key.0);
        decrypt(self, key: Self) = _mm512_aesdec_epi128(self.0, key.0);
        decrypt_last(self, key: Self) = _mm512_aesdeclast_epi128(self.0, key.0);
        reverse(self) = _mm512_shuffle_epi8(
            self.0,
            _mm512_broadcast_i32x4(_mm_set_epi64x(0x0001020304050607, 0x08090a0b0c0d0e0f))
        );
        increment(self) = {
            let one = _mm512_set1_epi64(1);
            let sum = _mm512_mask_add_epi64(self.0, 0x55, self.0, one);
            let wrapped = _mm512_mask_cmpeq_epi64_mask(0x55, sum, _mm512_setzero_si512());
            _mm512_mask_add_epi64(sum, wrapped << 1, sum, one)
        };
        plus(self, number: u32) =
            _mm512_add_epi32(self.0, _mm512_broadcast_i32x4(_mm_set_epi32(0, 0, 0, number as i32)));
        behind(self, before: Self) = _mm512_alignr_epi64::<6>(self.0, before.0);
    }
    /// # Safety
    /// One block at `from` is readable. The CPU has AVX-512 F.
    #[inline(always)]
    unsafe fn broadcast(from: *const [u8; 16]) -> Self {
        op!(_mm512_broadcast_i32x4(_mm_loadu_si128(from.cast())))
    }
    /// # Safety
    /// `rows` has four pointers, with 16 readable bytes at each plus `offset`. The CPU has AVX-512 F.
    #[inline(always)]
    unsafe fn load_rows(rows: *const *const u8, offset: usize) -> Self {
        op!({
            let block = |way: usize| _mm_loadu_si128((*rows.add(way)).add(offset).cast());
            let pair = |way: usize| _mm256_set_m128i(block(way + 1), block(way));
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(pair(0)), pair(2))
        })
    }
    /// # Safety
    /// `rows` has four pointers, with 16 writable bytes at each plus `offset`. The CPU has AVX-512 F.
    #[inline(always)]
    unsafe fn store_rows(self, rows: *const *mut u8, offset: usize) {
        // SAFETY: the contract: four rows, each with a block to write at `offset`; the module's contract for
        // the features.
        unsafe {
            let to = |way: usize| (*rows.add(way)).add(offset).cast();
            _mm_storeu_si128(to(0), _mm512_castsi512_si128(self.0));
            _mm_storeu_si128(to(1), _mm512_extracti32x4_epi32::<1>(self.0));
            _mm_storeu_si128(to(2), _mm512_extracti32x4_epi32::<2>(self.0));
            _mm_storeu_si128(to(3), _mm512_extracti32x4_epi32::<3>(self.0));
        }
    }
    #[inline(always)]
    fn count(self, from: u32) -> Self {
        let first = from as i32;
        op!(_mm512_add_epi32(
            self.0,
            _mm512_set_epi32(0, 0, 0, first + 3, 0, 0, 0, first + 2, 0, 0, 0, first + 1, 0, 0, 0, first)
        ))
    }
    /// # Safety
    /// 64 bytes at `from` are readable. The CPU has AVX-512 F.
    #[inline(always)]
    unsafe fn read(from: *const u8) -> Self {
        op!(_mm512_loadu_si512(from.cast()))
    }
    /// # Safety
    /// 64 bytes at `to` are writable. The CPU has AVX-512 F.
    #[inline(always)]
    unsafe fn write(self, to: *mut u8) {
        // SAFETY: the contract: 64 bytes at `to` are writable; the module's contract for the features.
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }
    /// # Safety
    /// `bytes` is at most 64, and so many bytes at `from` are readable. The CPU has AVX-512 BW.
    #[inline(always)]
    unsafe fn read_part(from: *const u8, bytes: usize) -> Self {
        op!(_mm512_maskz_loadu_epi8(mask(bytes), from.cast()))
    }
    /// # Safety
    /// `bytes` is at most 64, and so many bytes at `to` are writable. The CPU has AVX-512 BW.
    #[inline(always)]
    unsafe fn write_part(self, to: *mut u8, bytes: usize) {
        // SAFETY: the contract: `bytes` bytes are writable, and the mask leaves out all others; the module's
        // contract for the features.
        unsafe { _mm512_mask_storeu_epi8(to.cast(), mask(bytes), self.0) }
    }
}

/// Returns a mask of the lowest `bytes` (at most 64) bits.
#[inline(always)]
pub(crate) const fn mask(bytes: usize) -> u64 {
    ((1u128 << bytes) - 1) as u64
}
