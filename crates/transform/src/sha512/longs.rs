//! 64-bit words of several messages: one in a plain word, four in a ymm register, eight in a zmm register.
//!
//! `unsafe`: intrinsics, under the contract of [`crate::simd`]: they are reached only from entry points that hold the
//! token.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use core::arch::x86_64::*;

#[cfg(target_arch = "x86_64")]
use crate::simd::{memory, methods, op};

/// A word of each message.
pub(crate) trait Longs: Copy {
    /// Messages.
    const WAYS: usize;
    /// Returns the same word for all.
    fn splat(word: u64) -> Self;
    /// Sums modulo 2^64.
    fn add(self, other: Self) -> Self;
    /// Returns the exclusive or of three.
    fn xor3(self, b: Self, c: Self) -> Self;
    /// Returns bits of `b` where this has ones, and of `c` where it has zeros.
    fn choose(self, b: Self, c: Self) -> Self;
    /// Bits that two or three have.
    fn majority(self, b: Self, c: Self) -> Self;
    /// Rotates right.
    fn rotr<const BITS: u32>(self) -> Self;
    /// Shifts right.
    fn shr<const BITS: u32>(self) -> Self;

    /// Reads a word of each.
    ///
    /// # Safety
    /// `WAYS` words at `from` are readable, and `from` is aligned for a word. The CPU has the vector's
    /// features, as for all methods.
    unsafe fn load(from: *const u64) -> Self;

    /// Writes a word of each.
    ///
    /// # Safety
    /// `WAYS` words at `to` are writable, and `to` is aligned for a word.
    unsafe fn store(self, to: *mut u64);

    /// Reads eight big-endian words of each message.
    ///
    /// # Safety
    /// `rows` has `WAYS` pointers, with 64 readable bytes at each plus `offset`, with any alignment.
    unsafe fn load_rows(rows: *const *const u8, offset: usize) -> [Self; 8];
}

impl Longs for u64 {
    const WAYS: usize = 1;
    #[inline(always)]
    fn splat(word: u64) -> Self {
        word
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    #[inline(always)]
    fn xor3(self, b: Self, c: Self) -> Self {
        self ^ b ^ c
    }
    #[inline(always)]
    fn choose(self, b: Self, c: Self) -> Self {
        c ^ (self & (b ^ c))
    }
    #[inline(always)]
    fn majority(self, b: Self, c: Self) -> Self {
        (self & b) | (c & (self | b))
    }
    #[inline(always)]
    fn rotr<const BITS: u32>(self) -> Self {
        self.rotate_right(BITS)
    }
    #[inline(always)]
    fn shr<const BITS: u32>(self) -> Self {
        self >> BITS
    }
    /// # Safety
    /// One word at `from` is readable and aligned.
    #[inline(always)]
    unsafe fn load(from: *const u64) -> Self {
        // SAFETY: the contract: one word, aligned.
        unsafe { from.read() }
    }
    /// # Safety
    /// One word at `to` is writable and aligned.
    #[inline(always)]
    unsafe fn store(self, to: *mut u64) {
        // SAFETY: the contract: one word, aligned.
        unsafe { to.write(self) }
    }
    /// # Safety
    /// `rows` is a pointer to one pointer, with 64 readable bytes there plus `offset`.
    #[inline(always)]
    unsafe fn load_rows(rows: *const *const u8, offset: usize) -> [Self; 8] {
        // SAFETY: the contract: one row, with 64 bytes at `offset`; bytes need no alignment.
        let bytes = unsafe { (*rows).add(offset).cast::<[[u8; 8]; 8]>().read() };
        bytes.map(Self::from_be_bytes)
    }
}

/// A ymm register.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Four(__m256i);

/// A zmm register.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Eight(__m512i);

#[cfg(target_arch = "x86_64")]
impl Four {
    /// Transposes four rows of four words.
    #[inline(always)]
    fn transpose([a, b, c, d]: [Self; 4]) -> [Self; 4] {
        let even = |a: Self, b: Self| -> Self { op!(_mm256_unpacklo_epi64(a.0, b.0)) };
        let odd = |a: Self, b: Self| -> Self { op!(_mm256_unpackhi_epi64(a.0, b.0)) };
        let low = |a: Self, b: Self| -> Self { op!(_mm256_permute2x128_si256::<0x20>(a.0, b.0)) };
        let high = |a: Self, b: Self| -> Self { op!(_mm256_permute2x128_si256::<0x31>(a.0, b.0)) };
        let [ab, ab_odd, cd, cd_odd] = [even(a, b), odd(a, b), even(c, d), odd(c, d)];
        [low(ab, cd), low(ab_odd, cd_odd), high(ab, cd), high(ab_odd, cd_odd)]
    }
}

#[cfg(target_arch = "x86_64")]
impl Longs for Four {
    const WAYS: usize = 4;
    methods! {
        splat(word: u64) = _mm256_set1_epi64x(word.cast_signed());
        add(self, other: Self) = _mm256_add_epi64(self.0, other.0);
        xor3(self, b: Self, c: Self) = _mm256_xor_si256(_mm256_xor_si256(self.0, b.0), c.0);
        choose(self, b: Self, c: Self) =
            _mm256_xor_si256(c.0, _mm256_and_si256(self.0, _mm256_xor_si256(b.0, c.0)));
        majority(self, b: Self, c: Self) = _mm256_or_si256(
            _mm256_and_si256(self.0, b.0),
            _mm256_and_si256(c.0, _mm256_or_si256(self.0, b.0))
        );
        rotr<const BITS: u32>(self) = _mm256_or_si256(
            _mm256_srl_epi64(self.0, _mm_cvtsi32_si128(BITS as i32)),
            _mm256_sll_epi64(self.0, _mm_cvtsi32_si128(64 - BITS as i32))
        );
        shr<const BITS: u32>(self) = _mm256_srl_epi64(self.0, _mm_cvtsi32_si128(BITS as i32));
    }
    memory!(u64: _mm256_loadu_si256, _mm256_storeu_si256);
    /// # Safety
    /// `rows` has four pointers, with 64 readable bytes at each plus `offset`. The CPU has AVX2.
    #[inline(always)]
    unsafe fn load_rows(rows: *const *const u8, offset: usize) -> [Self; 8] {
        let half = |offset: usize| {
            Self::transpose([0, 1, 2, 3].map(|way| {
                op!({
                    let bytes = _mm256_loadu_si256((*rows.add(way)).add(offset).cast());
                    let order = _mm_set_epi64x(0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607);
                    _mm256_shuffle_epi8(bytes, _mm256_broadcastsi128_si256(order))
                })
            }))
        };
        let ([a, b, c, d], [e, f, g, h]) = (half(offset), half(offset + 32));
        [a, b, c, d, e, f, g, h]
    }
}

#[cfg(target_arch = "x86_64")]
impl Longs for Eight {
    const WAYS: usize = 8;
    methods! {
        splat(word: u64) = _mm512_set1_epi64(word.cast_signed());
        add(self, other: Self) = _mm512_add_epi64(self.0, other.0);
        xor3(self, b: Self, c: Self) = _mm512_ternarylogic_epi64::<0x96>(self.0, b.0, c.0);
        choose(self, b: Self, c: Self) = _mm512_ternarylogic_epi64::<0xca>(self.0, b.0, c.0);
        majority(self, b: Self, c: Self) = _mm512_ternarylogic_epi64::<0xe8>(self.0, b.0, c.0);
        rotr<const BITS: u32>(self) = _mm512_rorv_epi64(self.0, _mm512_set1_epi64(i64::from(BITS)));
        shr<const BITS: u32>(self) = _mm512_srlv_epi64(self.0, _mm512_set1_epi64(i64::from(BITS)));
    }
    memory!(u64: _mm512_loadu_si512, _mm512_storeu_si512);
    /// # Safety
    /// `rows` has eight pointers, with 64 readable bytes at each plus `offset`. The CPU has AVX-512 F and BW.
    #[inline(always)]
    unsafe fn load_rows(rows: *const *const u8, offset: usize) -> [Self; 8] {
        let [a, b, c, d, e, f, g, h] = [0, 1, 2, 3, 4, 5, 6, 7].map(|way| {
            op!({
                let bytes = _mm512_loadu_si512((*rows.add(way)).add(offset).cast());
                let order = _mm_set_epi64x(0x0809_0a0b_0c0d_0e0f, 0x0001_0203_0405_0607);
                _mm512_shuffle_epi8(bytes, _mm512_broadcast_i32x4(order))
            })
        });
        // The steps join words of two rows, pairs of words of four rows, and quarters of all rows, which gives words
        // of all.
        let even = |a: Self, b: Self| -> Self { op!(_mm512_unpacklo_epi64(a.0, b.0)) };
        let odd = |a: Self, b: Self| -> Self { op!(_mm512_unpackhi_epi64(a.0, b.0)) };
        let firsts = |a: Self, b: Self| -> Self { op!(_mm512_shuffle_i64x2::<0x88>(a.0, b.0)) };
        let seconds = |a: Self, b: Self| -> Self { op!(_mm512_shuffle_i64x2::<0xdd>(a.0, b.0)) };
        let quarters = |ab: Self, cd: Self, ef: Self, gh: Self| {
            let (near, far) = ((firsts(ab, cd), firsts(ef, gh)), (seconds(ab, cd), seconds(ef, gh)));
            [firsts(near.0, near.1), firsts(far.0, far.1), seconds(near.0, near.1), seconds(far.0, far.1)]
        };
        let [w0, w2, w4, w6] = quarters(even(a, b), even(c, d), even(e, f), even(g, h));
        let [w1, w3, w5, w7] = quarters(odd(a, b), odd(c, d), odd(e, f), odd(g, h));
        [w0, w1, w2, w3, w4, w5, w6, w7]
    }
}
