//! Keccak states of one message, of four side by side by AVX2, or of eight by AVX-512, and blocks absorbed into them.
//!
//! A vector has one 64-bit word of each state. Sixteen registers hold neither a state nor its successor, so that half of the words
//! wait in memory; a permutation of four takes about 1,200 cycles of Zen 3's clock, one in general registers 730.
//!
//! `unsafe`: intrinsics and ways' pointers; kernels with vectors are reached only by the token of their instructions.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use core::arch::x86_64::*;

#[cfg(target_arch = "x86_64")]
use crate::simd::{memory, methods, op};

use super::{ROUND_CONSTANTS, ROUNDS, Sponge};

/// The states of `L` messages: the words of all, one after the other; that at (x, y) has the index `5y + x`.
#[repr(align(64))]
#[derive(Clone, Copy)]
pub(crate) struct States<const L: usize>(pub(crate) [[u64; L]; 25]);

/// Absorbs that many of a sponge's blocks of each message, which lie one behind the other.
///
/// # Safety
/// The CPU has the kernel's features, and so many blocks are readable at each pointer.
pub(crate) type Absorb<const L: usize> = unsafe fn(&mut States<L>, &[*const u8; L], Sponge, usize);

/// A word of each of several states.
trait Words: Copy {
    /// States.
    const WAYS: usize;
    fn splat(word: u64) -> Self;
    fn xor(self, other: Self) -> Self;
    /// Returns `self ^ (!b & c)`.
    fn chi(self, b: Self, c: Self) -> Self;
    fn rotl<const BITS: i32, const BACK: i32>(self) -> Self;

    /// # Safety
    /// `WAYS` words at `from` are readable, and `from` is aligned for a word. The CPU has the vector's
    /// features, as for all methods.
    unsafe fn load(from: *const u64) -> Self;

    /// # Safety
    /// `WAYS` words at `to` are writable, and `to` is aligned for a word.
    unsafe fn store(self, to: *mut u64);

    /// Reads one little-endian word of each message.
    ///
    /// # Safety
    /// `rows` has `WAYS` pointers, with eight readable bytes at each plus `offset`, with any alignment.
    unsafe fn word(rows: *const *const u8, offset: usize) -> Self;

    /// Reads four words of each message.
    ///
    /// # Safety
    /// `rows` has `WAYS` pointers, with 32 readable bytes at each plus `offset`, with any alignment.
    #[inline(always)]
    unsafe fn four_words(rows: *const *const u8, offset: usize) -> [Self; 4] {
        // SAFETY: the contract: the 32 bytes of each row hold these four words.
        unsafe {
            [
                Self::word(rows, offset),
                Self::word(rows, offset + 8),
                Self::word(rows, offset + 16),
                Self::word(rows, offset + 24),
            ]
        }
    }
}

impl Words for u64 {
    const WAYS: usize = 1;
    #[inline(always)]
    fn splat(word: u64) -> Self {
        word
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        self ^ other
    }
    #[inline(always)]
    fn chi(self, b: Self, c: Self) -> Self {
        self ^ (!b & c)
    }
    #[inline(always)]
    fn rotl<const BITS: i32, const BACK: i32>(self) -> Self {
        self.rotate_left(BITS as u32)
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
    /// `rows` is a pointer to one pointer, with eight readable bytes there plus `offset`.
    #[inline(always)]
    unsafe fn word(rows: *const *const u8, offset: usize) -> Self {
        // SAFETY: the contract: one row, with eight bytes at `offset`.
        Self::from_le_bytes(unsafe { (*rows).add(offset).cast::<[u8; 8]>().read() })
    }
}

/// A ymm register.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct Four(__m256i);

#[cfg(target_arch = "x86_64")]
impl Words for Four {
    const WAYS: usize = 4;
    methods! {
        splat(word: u64) = _mm256_set1_epi64x(word.cast_signed());
        xor(self, other: Self) = _mm256_xor_si256(self.0, other.0);
        chi(self, b: Self, c: Self) = _mm256_xor_si256(self.0, _mm256_andnot_si256(b.0, c.0));
    }
    #[inline(always)]
    fn rotl<const BITS: i32, const BACK: i32>(self) -> Self {
        // Whole bytes move by one instruction.
        if BITS == 8 {
            let order = |word: i64| word * 0x0101_0101_0101_0101 + 0x0605_0403_0201_0007;
            return op!(_mm256_shuffle_epi8(
                self.0,
                _mm256_set_epi64x(order(8), order(0), order(8), order(0))
            ));
        }
        if BITS == 56 {
            let order = |word: i64| word * 0x0101_0101_0101_0101 + 0x0007_0605_0403_0201;
            return op!(_mm256_shuffle_epi8(
                self.0,
                _mm256_set_epi64x(order(8), order(0), order(8), order(0))
            ));
        }
        op!(_mm256_or_si256(_mm256_slli_epi64::<BITS>(self.0), _mm256_srli_epi64::<BACK>(self.0)))
    }
    memory!(u64: _mm256_loadu_si256, _mm256_storeu_si256);
    /// # Safety
    /// `rows` has four pointers, with eight readable bytes at each plus `offset`. The CPU has AVX2.
    #[inline(always)]
    unsafe fn word(rows: *const *const u8, offset: usize) -> Self {
        // SAFETY: the contract: four rows, with eight bytes at `offset`.
        let word = |way| unsafe { (*rows.add(way)).add(offset).cast::<i64>().read_unaligned() };
        op!(_mm256_setr_epi64x(word(0), word(1), word(2), word(3)))
    }
    /// # Safety
    /// `rows` has four pointers, with 32 readable bytes at each plus `offset`. The CPU has AVX2.
    #[inline(always)]
    unsafe fn four_words(rows: *const *const u8, offset: usize) -> [Self; 4] {
        let row = |way| -> Self { op!(_mm256_loadu_si256((*rows.add(way)).add(offset).cast())) };
        let [a, b, c, d] = [row(0), row(1), row(2), row(3)];
        let even = |a: Self, b: Self| -> Self { op!(_mm256_unpacklo_epi64(a.0, b.0)) };
        let odd = |a: Self, b: Self| -> Self { op!(_mm256_unpackhi_epi64(a.0, b.0)) };
        let low = |a: Self, b: Self| -> Self { op!(_mm256_permute2x128_si256::<0x20>(a.0, b.0)) };
        let high = |a: Self, b: Self| -> Self { op!(_mm256_permute2x128_si256::<0x31>(a.0, b.0)) };
        let [ab, ab_odd, cd, cd_odd] = [even(a, b), odd(a, b), even(c, d), odd(c, d)];
        [low(ab, cd), low(ab_odd, cd_odd), high(ab, cd), high(ab_odd, cd_odd)]
    }
}

/// A zmm register.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct Eight(__m512i);

#[cfg(target_arch = "x86_64")]
impl Words for Eight {
    const WAYS: usize = 8;
    methods! {
        splat(word: u64) = _mm512_set1_epi64(word.cast_signed());
        xor(self, other: Self) = _mm512_xor_si512(self.0, other.0);
        chi(self, b: Self, c: Self) = _mm512_ternarylogic_epi64::<0xd2>(self.0, b.0, c.0);
        rotl<const BITS: i32, const BACK: i32>(self) = _mm512_rol_epi64::<BITS>(self.0);
    }
    memory!(u64: _mm512_loadu_si512, _mm512_storeu_si512);
    /// # Safety
    /// `rows` has eight pointers, with eight readable bytes at each plus `offset`. The CPU has AVX-512.
    #[inline(always)]
    unsafe fn word(rows: *const *const u8, offset: usize) -> Self {
        // SAFETY: the contract: eight rows, with eight bytes at `offset`.
        let word = |way| unsafe { (*rows.add(way)).add(offset).cast::<i64>().read_unaligned() };
        op!(_mm512_setr_epi64(word(0), word(1), word(2), word(3), word(4), word(5), word(6), word(7)))
    }
    /// # Safety
    /// `rows` has eight pointers, with 32 readable bytes at each plus `offset`. The CPU has AVX-512.
    #[inline(always)]
    unsafe fn four_words(rows: *const *const u8, offset: usize) -> [Self; 4] {
        // SAFETY: the contract: 32 bytes of each row.
        let half = |way| unsafe { _mm256_loadu_si256((*rows.add(way)).add(offset).cast()) };
        let row =
            |way| -> Self { op!(_mm512_inserti64x4::<1>(_mm512_castsi256_si512(half(way)), half(way + 4))) };
        let [a, b, c, d] = [row(0), row(1), row(2), row(3)];
        let even = |a: Self, b: Self| -> Self { op!(_mm512_unpacklo_epi64(a.0, b.0)) };
        let odd = |a: Self, b: Self| -> Self { op!(_mm512_unpackhi_epi64(a.0, b.0)) };
        let low = |a: Self, b: Self| -> Self {
            op!(_mm512_permutex2var_epi64(a.0, _mm512_setr_epi64(0, 1, 8, 9, 4, 5, 12, 13), b.0))
        };
        let high = |a: Self, b: Self| -> Self {
            op!(_mm512_permutex2var_epi64(a.0, _mm512_setr_epi64(2, 3, 10, 11, 6, 7, 14, 15), b.0))
        };
        let [ab, ab_odd, cd, cd_odd] = [even(a, b), odd(a, b), even(c, d), odd(c, d)];
        [low(ab, cd), low(ab_odd, cd_odd), high(ab, cd), high(ab_odd, cd_odd)]
    }
}

/// One round, as in [`super::ways`]: rho and pi are which word each row of chi takes, and how far it is rotated.
#[inline(always)]
fn round<V: Words>(a: &[V; 25], constant: u64) -> [V; 25] {
    macro_rules! parity {
        ($x:literal) => {
            a[$x].xor(a[$x + 5]).xor(a[$x + 10].xor(a[$x + 15])).xor(a[$x + 20])
        };
    }
    let c = [parity!(0), parity!(1), parity!(2), parity!(3), parity!(4)];
    macro_rules! change {
        ($x:literal) => {
            c[($x + 4) % 5].xor(c[($x + 1) % 5].rotl::<1, 63>())
        };
    }
    let d = [change!(0), change!(1), change!(2), change!(3), change!(4)];
    macro_rules! word {
        ($at:literal, $by:literal) => {
            a[$at].xor(d[$at % 5]).rotl::<$by, { 64 - $by }>()
        };
    }
    let mut out = *a;
    macro_rules! row {
        ($y:literal, $b0:expr, $b1:expr, $b2:expr, $b3:expr, $b4:expr) => {{
            let (b0, b1, b2, b3, b4) = ($b0, $b1, $b2, $b3, $b4);
            out[5 * $y] = b0.chi(b1, b2);
            out[5 * $y + 1] = b1.chi(b2, b3);
            out[5 * $y + 2] = b2.chi(b3, b4);
            out[5 * $y + 3] = b3.chi(b4, b0);
            out[5 * $y + 4] = b4.chi(b0, b1);
        }};
    }
    row!(0, a[0].xor(d[0]), word!(6, 44), word!(12, 43), word!(18, 21), word!(24, 14));
    row!(1, word!(3, 28), word!(9, 20), word!(10, 3), word!(16, 45), word!(22, 61));
    row!(2, word!(1, 1), word!(7, 6), word!(13, 25), word!(19, 8), word!(20, 18));
    row!(3, word!(4, 27), word!(5, 36), word!(11, 10), word!(17, 15), word!(23, 56));
    row!(4, word!(2, 62), word!(8, 55), word!(14, 39), word!(15, 41), word!(21, 2));
    out[0] = out[0].xor(V::splat(constant));
    out
}

/// See [`Absorb`].
///
/// # Safety
/// The contract of [`Absorb`]: so many blocks' bytes at each of `rows` are readable, with any alignment,
/// and the CPU has the features of `V`.
#[inline(always)]
unsafe fn absorb<V: Words, const L: usize>(
    states: &mut States<L>,
    rows: &[*const u8; L],
    sponge: Sponge,
    blocks: usize,
) {
    const { assert!(V::WAYS == L) }
    let words = sponge.words();
    let constants = &ROUND_CONSTANTS[ROUNDS - sponge.rounds..];
    let mut a = [V::splat(0); 25];
    for (a, row) in a.iter_mut().zip(&states.0) {
        // SAFETY: a row of L words.
        *a = unsafe { V::load(row.as_ptr()) };
    }
    let mut offset = 0;
    for _ in 0..blocks {
        let (fours, ones) = a[..words].split_at_mut(words & !3);
        for (n, four) in fours.chunks_exact_mut(4).enumerate() {
            // SAFETY: the contract: four words of a block that is readable.
            let added = unsafe { V::four_words(rows.as_ptr(), offset + 32 * n) };
            for (a, added) in four.iter_mut().zip(added) {
                *a = a.xor(added);
            }
        }
        for (n, a) in ones.iter_mut().enumerate() {
            // SAFETY: the contract: a word of a block that is readable.
            *a = a.xor(unsafe { V::word(rows.as_ptr(), offset + 8 * ((words & !3) + n)) });
        }
        offset += 8 * words;
        for pair in constants.as_chunks::<2>().0 {
            a = round(&round(&a, pair[0]), pair[1]);
        }
    }
    for (a, row) in a.into_iter().zip(&mut states.0) {
        // SAFETY: a row of L words.
        unsafe { a.store(row.as_mut_ptr()) };
    }
}

/// Absorbs blocks of one message, without vectors.
///
/// # Safety
/// The contract of [`Absorb`] without features: so many blocks' bytes at the row are readable.
pub(crate) unsafe fn plain(states: &mut States<1>, rows: &[*const u8; 1], sponge: Sponge, blocks: usize) {
    // SAFETY: the contract: so many blocks are readable; plain words need no features.
    unsafe { absorb::<u64, 1>(states, rows, sponge, blocks) }
}

/// Absorbs blocks of four messages by AVX2.
///
/// # Safety
/// The contract of [`Absorb`]: so many blocks' bytes at each row are readable, and the CPU has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn avx2(states: &mut States<4>, rows: &[*const u8; 4], sponge: Sponge, blocks: usize) {
    // An aligned variable makes the frame aligned, so that words that wait in memory lie in one cache line each.
    core::hint::black_box(&Four::splat(0));
    // SAFETY: the contract: so many blocks are readable at each row; this function has the vector's features.
    unsafe { absorb::<Four, 4>(states, rows, sponge, blocks) }
}

/// Absorbs blocks of eight messages by AVX-512.
///
/// # Safety
/// The contract of [`Absorb`]: so many blocks' bytes at each row are readable, and the CPU has AVX-512 F and VL.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,avx512f,avx512vl")]
pub(crate) unsafe fn avx512(states: &mut States<8>, rows: &[*const u8; 8], sponge: Sponge, blocks: usize) {
    // As for [`avx2`].
    core::hint::black_box(&Eight::splat(0));
    // SAFETY: the contract: so many blocks are readable at each row; this function has the vector's features.
    unsafe { absorb::<Eight, 8>(states, rows, sponge, blocks) }
}
