//! One message at a time in a plain word (the generic tier), and 64 bit planes in a `u64` (portable bitslicing).
#![allow(unsafe_code)]

use super::{Bits, Blocks, Planes, Words};

macro_rules! bits {
    ($($name:ty)*) => { $(
        impl Bits for $name {
            #[inline(always)]
            fn xor(self, other: Self) -> Self { self ^ other }
            #[inline(always)]
            fn and(self, other: Self) -> Self { self & other }
            #[inline(always)]
            fn or(self, other: Self) -> Self { self | other }
            #[inline(always)]
            fn not(self) -> Self { !self }
        }
    )* };
}

bits!(u32 u64);

impl Words for u32 {
    const WAYS: usize = 1;
    #[inline(always)]
    fn splat(value: u32) -> Self {
        value
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        self.wrapping_sub(other)
    }
    #[inline(always)]
    fn mul(self, other: Self) -> Self {
        self.wrapping_mul(other)
    }
    #[inline(always)]
    fn rotl<const N: i32>(self) -> Self {
        self.rotate_left(N as Self)
    }
    #[inline(always)]
    fn rotl_by(self, by: Self) -> Self {
        self.rotate_left(by & 31)
    }
    #[inline(always)]
    fn rotr_by(self, by: Self) -> Self {
        self.rotate_right(by & 31)
    }
    #[inline(always)]
    fn shr<const N: u32>(self) -> Self {
        self >> N
    }
    #[inline(always)]
    fn swap_bytes(self) -> Self {
        Self::swap_bytes(self)
    }
    /// # Safety
    /// One word at `from` is readable, with any alignment.
    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self {
        // SAFETY: the contract: one word, with any alignment.
        unsafe { from.read_unaligned() }
    }
    /// # Safety
    /// One word at `to` is writable, with any alignment.
    #[inline(always)]
    unsafe fn store(self, to: *mut u32) {
        // SAFETY: the contract: one word, with any alignment.
        unsafe { to.write_unaligned(self) }
    }
    /// # Safety
    /// `rows` is a pointer to one pointer, with 32 readable bytes there plus `offset`.
    #[inline(always)]
    unsafe fn load_half_rows(rows: *const *const u8, offset: usize) -> [Self; 8] {
        // SAFETY: the contract: one row, with 32 readable bytes at `offset`.
        let row = unsafe { rows.read().add(offset).cast::<[u8; 4]>() };
        // SAFETY: the contract: word w lies within the 32 bytes.
        core::array::from_fn(|w| Self::from_le_bytes(unsafe { row.add(w).read() }))
    }
    /// # Safety
    /// `rows` is a pointer to one pointer, with 32 writable bytes there plus `offset`.
    #[inline(always)]
    unsafe fn store_half_rows(words: [Self; 8], rows: *const *mut u8, offset: usize) {
        // SAFETY: the contract: one row, with 32 writable bytes at `offset`.
        let row = unsafe { rows.read().add(offset).cast::<[u8; 4]>() };
        for (w, word) in words.into_iter().enumerate() {
            // SAFETY: the contract: word w lies within the 32 bytes.
            unsafe { row.add(w).write(word.to_le_bytes()) };
        }
    }
}

impl Planes for u64 {
    const ELEMENTS: usize = 1;
    #[inline(always)]
    fn splat(value: u64) -> Self {
        value
    }
    #[inline(always)]
    fn shl<const N: u32>(self) -> Self {
        self << N
    }
    #[inline(always)]
    fn shr<const N: u32>(self) -> Self {
        self >> N
    }
    /// # Safety
    /// One word at `from` is readable, with any alignment.
    #[inline(always)]
    unsafe fn load(from: *const u64) -> Self {
        // SAFETY: the contract: one word, with any alignment.
        unsafe { from.read_unaligned() }
    }
}

impl Blocks for u64 {
    /// # Safety
    /// `rows` is a pointer to one pointer, with 64 readable bytes there.
    #[inline(always)]
    unsafe fn load_blocks(rows: *const *const u8) -> [Self; 8] {
        // SAFETY: the contract: one row of 64 readable bytes.
        let row = unsafe { rows.read().cast::<[u8; 8]>() };
        // SAFETY: the contract: word b lies within the 64 bytes.
        core::array::from_fn(|b| Self::from_le_bytes(unsafe { row.add(b).read() }))
    }
    /// # Safety
    /// `rows` is a pointer to one pointer, with 64 writable bytes there.
    #[inline(always)]
    unsafe fn store_blocks(blocks: [Self; 8], rows: *const *mut u8) {
        // SAFETY: the contract: one row of 64 writable bytes.
        let row = unsafe { rows.read().cast::<[u8; 8]>() };
        for (b, block) in blocks.into_iter().enumerate() {
            // SAFETY: the contract: word b lies within the 64 bytes.
            unsafe { row.add(b).write(block.to_le_bytes()) };
        }
    }
}
