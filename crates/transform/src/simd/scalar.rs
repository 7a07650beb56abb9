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
    const LANES: usize = 1;
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
    #[inline(always)]
    unsafe fn load(from: *const u32) -> Self {
        // SAFETY: the caller's contract.
        unsafe { from.read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut u32) {
        // SAFETY: the caller's contract.
        unsafe { to.write_unaligned(self) }
    }
    #[inline(always)]
    unsafe fn load_half_rows(rows: *const *const u8, offset: usize) -> [Self; 8] {
        // SAFETY: one row, 32 readable bytes, as the caller promises.
        let row = unsafe { rows.read().add(offset).cast::<[u8; 4]>() };
        // SAFETY: as above; word w lies within the 32 bytes.
        core::array::from_fn(|w| Self::from_le_bytes(unsafe { row.add(w).read() }))
    }
    #[inline(always)]
    unsafe fn store_half_rows(words: [Self; 8], rows: *const *mut u8, offset: usize) {
        // SAFETY: one row, 32 writable bytes, as the caller promises.
        let row = unsafe { rows.read().add(offset).cast::<[u8; 4]>() };
        for (w, word) in words.into_iter().enumerate() {
            // SAFETY: as above; word w lies within the 32 bytes.
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
    #[inline(always)]
    unsafe fn load(from: *const u64) -> Self {
        // SAFETY: the caller's contract.
        unsafe { from.read_unaligned() }
    }
}

impl Blocks for u64 {
    #[inline(always)]
    unsafe fn load_blocks(rows: *const *const u8) -> [Self; 8] {
        // SAFETY: one row of 64 readable bytes, as the caller promises.
        let row = unsafe { rows.read().cast::<[u8; 8]>() };
        // SAFETY: as above.
        core::array::from_fn(|b| Self::from_le_bytes(unsafe { row.add(b).read() }))
    }
    #[inline(always)]
    unsafe fn store_blocks(blocks: [Self; 8], rows: *const *mut u8) {
        // SAFETY: one row of 64 writable bytes, as the caller promises.
        let row = unsafe { rows.read().cast::<[u8; 8]>() };
        for (b, block) in blocks.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe { row.add(b).write(block.to_le_bytes()) };
        }
    }
}
