//! Sixteen 32-bit elements or 512 bit planes in a zmm register.
//!
//! `unsafe`: intrinsics need the features proved by [`crate::isa::Avx512`]; see the contract in [`super`].
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::{Bits, Planes, Words, memory, methods, op};

/// A zmm register.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Z(pub(crate) __m512i);

/// See [`Bits::gate`]. The result replaces `a`: Zen 4 waits for the overwritten operand without cost, but for the
/// other two operands it takes a cycle and half an issue slot longer. The compiler treats them as equal, and would
/// overwrite any.
#[inline]
#[target_feature(enable = "avx512f")]
fn gate<const IMM: i32>(mut a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    // SAFETY: changes its operand only.
    unsafe {
        core::arch::asm!(
            "vpternlogq {a}, {b}, {c}, {imm}",
            a = inlateout(zmm_reg) a,
            b = in(zmm_reg) b,
            c = in(zmm_reg) c,
            imm = const IMM,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    a
}

impl Bits for Z {
    methods! {
        xor(self, other: Self) = _mm512_xor_si512(self.0, other.0);
        and(self, other: Self) = _mm512_and_si512(self.0, other.0);
        or(self, other: Self) = _mm512_or_si512(self.0, other.0);
        not(self) = _mm512_ternarylogic_epi64::<0x0f>(self.0, self.0, self.0);
        lut<const IMM: i32>(a: Self, b: Self, c: Self) = _mm512_ternarylogic_epi64::<IMM>(a.0, b.0, c.0);
        gate<const IMM: i32>(a: Self, b: Self, c: Self) = gate::<IMM>(a.0, b.0, c.0);
    }
}

impl Z {
    /// Transposes sixteen rows of sixteen words; it is its own inverse.
    #[inline(always)]
    pub(crate) fn transpose(rows: [Self; 16]) -> [Self; 16] {
        let (halves, _) = rows.as_chunks::<8>();
        let (low, high) = (Self::transpose_pairs(halves[0]), Self::transpose_pairs(halves[1]));
        let mut words = rows;
        for j in 0..8 {
            words[j] = op!(_mm512_shuffle_i32x4::<0x88>(low[j].0, high[j].0));
            words[8 + j] = op!(_mm512_shuffle_i32x4::<0xdd>(low[j].0, high[j].0));
        }
        words
    }

    /// Transposes every four words of four vectors, four by four.
    #[inline(always)]
    fn transpose_quads(rows: [Self; 8]) -> [Self; 8] {
        let mut pairs = rows;
        for i in 0..4 {
            let (a, b) = (rows[2 * i].0, rows[2 * i + 1].0);
            pairs[2 * i] = op!(_mm512_unpacklo_epi32(a, b));
            pairs[2 * i + 1] = op!(_mm512_unpackhi_epi32(a, b));
        }
        let mut quads = pairs;
        for k in 0..2 {
            for j in 0..2 {
                let (a, b) = (pairs[4 * k + j].0, pairs[4 * k + 2 + j].0);
                quads[4 * k + 2 * j] = op!(_mm512_unpacklo_epi64(a, b));
                quads[4 * k + 2 * j + 1] = op!(_mm512_unpackhi_epi64(a, b));
            }
        }
        quads
    }

    /// Transposes sixteen rows of eight words, of which two form a vector: rows 0 to 3 come with 4 to 7, and 8 to 11
    /// with 12 to 15.
    #[inline(always)]
    fn transpose_pairs(rows: [Self; 8]) -> [Self; 8] {
        let quads = Self::transpose_quads(rows);
        let mut words = quads;
        for j in 0..4 {
            let (a, b) = (quads[j].0, quads[4 + j].0);
            words[j] = op!(_mm512_shuffle_i32x4::<0x88>(a, b));
            words[4 + j] = op!(_mm512_shuffle_i32x4::<0xdd>(a, b));
        }
        words
    }

    /// Transposes eight rows of eight 64-bit words; it is its own inverse.
    #[inline(always)]
    pub(crate) fn transpose_8x8(rows: [Self; 8]) -> [Self; 8] {
        let mut pairs = rows;
        for i in 0..4 {
            let (a, b) = (rows[2 * i].0, rows[2 * i + 1].0);
            // The 128-bit part q of pairs[2i + j] is word 2q + j of rows 2i and 2i + 1.
            pairs[2 * i] = op!(_mm512_unpacklo_epi64(a, b));
            pairs[2 * i + 1] = op!(_mm512_unpackhi_epi64(a, b));
        }
        let mut words = pairs;
        for j in 0..2 {
            let (a, b, c, d) = (pairs[j].0, pairs[2 + j].0, pairs[4 + j].0, pairs[6 + j].0);
            let even_low: Self = op!(_mm512_shuffle_i64x2::<0x88>(a, b));
            let odd_low: Self = op!(_mm512_shuffle_i64x2::<0xdd>(a, b));
            let even_high: Self = op!(_mm512_shuffle_i64x2::<0x88>(c, d));
            let odd_high: Self = op!(_mm512_shuffle_i64x2::<0xdd>(c, d));
            words[j] = op!(_mm512_shuffle_i64x2::<0x88>(even_low.0, even_high.0));
            words[2 + j] = op!(_mm512_shuffle_i64x2::<0x88>(odd_low.0, odd_high.0));
            words[4 + j] = op!(_mm512_shuffle_i64x2::<0xdd>(even_low.0, even_high.0));
            words[6 + j] = op!(_mm512_shuffle_i64x2::<0xdd>(odd_low.0, odd_high.0));
        }
        words
    }
}

impl Words for Z {
    const WAYS: usize = 16;
    methods! {
        splat(value: u32) = _mm512_set1_epi32(value as i32);
        add(self, other: Self) = _mm512_add_epi32(self.0, other.0);
        sub(self, other: Self) = _mm512_sub_epi32(self.0, other.0);
        mul(self, other: Self) = _mm512_mullo_epi32(self.0, other.0);
        rotl<const N: i32>(self) = _mm512_rol_epi32::<N>(self.0);
        rotl_by(self, by: Self) = _mm512_rolv_epi32(self.0, by.0);
        rotr_by(self, by: Self) = _mm512_rorv_epi32(self.0, by.0);
        shr<const N: u32>(self) = _mm512_srli_epi32::<N>(self.0);
        swap_bytes(self) = _mm512_shuffle_epi8(
            self.0,
            _mm512_broadcast_i32x4(_mm_set_epi32(0x0c0d0e0f, 0x08090a0b, 0x04050607, 0x00010203))
        );
    }
    memory!(u32: _mm512_loadu_si512, _mm512_storeu_si512);
    // Ways come in pairs that are joined while they load: halves of rows save a quarter of the shuffles.
    /// # Safety
    /// `rows` has sixteen pointers, with 32 readable bytes at each plus `offset`. The CPU has AVX-512 F.
    #[inline(always)]
    unsafe fn load_half_rows(rows: *const *const u8, offset: usize) -> [Self; 8] {
        let half =
            |way: usize| op!(_mm512_castsi256_si512(_mm256_loadu_si256((*rows.add(way)).add(offset).cast())));
        let mut ways = [<Self as Words>::splat(0); 8];
        for (l, pair) in ways.iter_mut().enumerate() {
            let way = l % 4 + 8 * (l / 4);
            *pair = op!(_mm512_inserti64x4::<1>(half(way).0, _mm512_castsi512_si256(half(way + 4).0)));
        }
        Self::transpose_pairs(ways)
    }
    /// # Safety
    /// `rows` has sixteen pointers, with 64 readable bytes at each plus `offset`. The CPU has AVX-512 F.
    #[inline(always)]
    unsafe fn load_rows(rows: *const *const u8, offset: usize) -> [Self; 16] {
        let mut ways = [<Self as Words>::splat(0); 16];
        for (way, row) in ways.iter_mut().enumerate() {
            *row = op!(_mm512_loadu_si512((*rows.add(way)).add(offset).cast()));
        }
        Self::transpose(ways)
    }
    /// # Safety
    /// `rows` has sixteen pointers, with 32 writable bytes at each plus `offset`. The CPU has AVX-512 F.
    #[inline(always)]
    unsafe fn store_half_rows(words: [Self; 8], rows: *const *mut u8, offset: usize) {
        let quads = Self::transpose_quads(words);
        // The order is words 0 to 3 of a way, then 4 to 7, and likewise for the way four further on.
        let low: Self = op!(_mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11));
        let high: Self = op!(_mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15));
        for way in 0..4 {
            for (first, order) in [(way, low), (way + 8, high)] {
                let pair: Self = op!(_mm512_permutex2var_epi64(quads[way].0, order.0, quads[way + 4].0));
                // SAFETY: the contract: 32 bytes of both ways' rows; the module's contract for the features.
                unsafe {
                    let (row, other) = ((*rows.add(first)).add(offset), (*rows.add(first + 4)).add(offset));
                    _mm256_storeu_si256(row.cast(), _mm512_castsi512_si256(pair.0));
                    _mm256_storeu_si256(other.cast(), _mm512_extracti64x4_epi64::<1>(pair.0));
                }
            }
        }
    }
}

impl Planes for Z {
    const ELEMENTS: usize = 8;
    methods! {
        splat(value: u64) = _mm512_set1_epi64(value as i64);
        shl<const N: u32>(self) = _mm512_slli_epi64::<N>(self.0);
        shr<const N: u32>(self) = _mm512_srli_epi64::<N>(self.0);
    }
    memory!(u64: _mm512_loadu_si512);
}
