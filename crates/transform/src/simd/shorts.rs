//! Vectors of 16-bit words, one message a word: sixteen of AVX2, thirty-two of AVX-512.
//!
//! `unsafe`: intrinsics need proved features; see the contract in [`super`].
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::avx2::Y;
use super::avx512::Z;
use super::{Bits, Words, methods, op};

/// Vectors of 16-bit words.
pub(crate) trait Shorts: Words {
    /// Messages side by side.
    const SHORTS: usize = 2 * Self::WAYS;
    fn zero() -> Self;
    fn add16(self, other: Self) -> Self;

    /// Returns the product mod 2^16 + 1 with 0 for 2^16, in constant time.
    ///
    /// Because 2^16 = -1, the product of two words is its low half minus its high half, plus one if that wraps. The
    /// halves are equal only if a factor is 0, which means -1; then the product is 1 minus the sum of both factors.
    /// `ones` is all ones and must be opaque to the compiler, which would otherwise build vectors from masks and not
    /// use the masks.
    fn product(self, other: Self, ones: Self) -> Self;

    /// Returns one if the top bit of the word is set, and zero otherwise.
    fn top_bit(self) -> Self;

    /// Exchanges the bytes of every word.
    fn swap_pairs(self) -> Self;

    /// Returns the low halves of the 32-bit words of `even` and `odd` side by side, and the high halves likewise.
    fn halves(even: Self, odd: Self) -> (Self, Self);

    /// Reads 64 bytes at `rows[way] + offset` of every way and turns them into 32 vectors, the w-th of which holds
    /// each way's w-th little-endian word.
    ///
    /// # Safety
    /// `rows` has `SHORTS` pointers, with 64 readable bytes at each plus `offset`.
    #[inline(always)]
    unsafe fn load_short_rows(rows: *const *const u8, offset: usize, words: &mut [Self; 32]) {
        // SAFETY: the contract: the first WAYS rows, then as many more, each with 64 bytes at `offset`.
        let (even, odd) =
            unsafe { (Self::load_rows(rows, offset), Self::load_rows(rows.add(Self::WAYS), offset)) };
        for w in 0..16 {
            (words[2 * w], words[2 * w + 1]) = Self::halves(even[w], odd[w]);
        }
    }

    /// Writes 64 bytes per way, the inverse of [`Self::load_short_rows`] at offset 0.
    ///
    /// # Safety
    /// `rows` has `SHORTS` pointers, with 64 writable bytes at each.
    #[inline(always)]
    unsafe fn store_short_rows(words: &[Self; 32], rows: *const *mut u8) {
        let (mut even, mut odd) = ([Self::zero(); 16], [Self::zero(); 16]);
        for w in 0..16 {
            // The exchange is its own inverse.
            (even[w], odd[w]) = Self::halves(words[2 * w], words[2 * w + 1]);
        }
        // SAFETY: the contract: the first WAYS rows, then as many more, each with 64 bytes.
        unsafe {
            Self::store_rows(even, rows, 0);
            Self::store_rows(odd, rows.add(Self::WAYS), 0);
        }
    }
}

/// Returns the place in memory of the words of a way of [`Shorts`]: ways of the two halves alternate.
pub(crate) const fn place(way: usize, shorts: usize) -> usize {
    let (group, way) = (way / shorts * shorts, way % shorts);
    group + 2 * (way % (shorts / 2)) + way / (shorts / 2)
}

impl Shorts for Z {
    methods! {
        zero() = _mm512_setzero_si512();
        add16(self, other: Self) = _mm512_add_epi16(self.0, other.0);
        product(self, other: Self, ones: Self) = {
            let (low, high) = (_mm512_mullo_epi16(self.0, other.0), _mm512_mulhi_epu16(self.0, other.0));
            let wraps = _mm512_cmple_epu16_mask(low, high);
            let zero = _mm512_cmpeq_epi16_mask(low, high);
            let high = _mm512_mask_add_epi16(high, zero, self.0, other.0);
            let rest = _mm512_sub_epi16(low, high);
            _mm512_mask_sub_epi16(rest, wraps, rest, ones.0)
        };
        top_bit(self) = _mm512_srli_epi16::<15>(self.0);
        swap_pairs(self) = _mm512_shuffle_epi8(
            self.0,
            _mm512_broadcast_i32x4(_mm_set_epi32(0x0e0f0c0d, 0x0a0b0809, 0x06070405, 0x02030001))
        );
    }
    #[inline(always)]
    fn halves(even: Self, odd: Self) -> (Self, Self) {
        (
            op!(_mm512_mask_mov_epi16(_mm512_slli_epi32::<16>(odd.0), 0x5555_5555, even.0)),
            op!(_mm512_mask_mov_epi16(_mm512_srli_epi32::<16>(even.0), 0xaaaa_aaaa, odd.0)),
        )
    }
}

impl Shorts for Y {
    methods! {
        zero() = _mm256_setzero_si256();
        add16(self, other: Self) = _mm256_add_epi16(self.0, other.0);
        product(self, other: Self, _: Self) = {
            let (low, high) = (_mm256_mullo_epi16(self.0, other.0), _mm256_mulhi_epu16(self.0, other.0));
            let wraps = _mm256_cmpeq_epi16(_mm256_min_epu16(low, high), low);
            let zero = _mm256_cmpeq_epi16(low, high);
            let sum = _mm256_and_si256(_mm256_add_epi16(self.0, other.0), zero);
            _mm256_sub_epi16(_mm256_sub_epi16(_mm256_sub_epi16(low, high), wraps), sum)
        };
        top_bit(self) = _mm256_srli_epi16::<15>(self.0);
        swap_pairs(self) = _mm256_shuffle_epi8(
            self.0,
            _mm256_broadcastsi128_si256(_mm_set_epi32(0x0e0f0c0d, 0x0a0b0809, 0x06070405, 0x02030001))
        );
    }
    #[inline(always)]
    fn halves(even: Self, odd: Self) -> (Self, Self) {
        (
            op!(_mm256_blend_epi16::<0xaa>(even.0, _mm256_slli_epi32::<16>(odd.0))),
            op!(_mm256_blend_epi16::<0xaa>(_mm256_srli_epi32::<16>(even.0), odd.0)),
        )
    }
}

/// Returns one if the counter word wrapped to zero by `old + carry`: the top bit falls only then.
#[inline(always)]
pub(crate) fn carried<V: Shorts>(old: V, new: V) -> V {
    Bits::and(old, new.not()).top_bit()
}
