//! Blowfish for 64 messages of one key by byte permutations: `vpermt2b` looks up 128 entries of one byte.
//!
//! Each of the four bytes of an S-box's output has a table of 256: two permutations and a selection make 64 look-ups.
//! A half of a block is kept as its 16-bit words; bytes interleave to words, and a sum carries from the low words to
//! the high ones. With keys of their own, ways would need tables of their own; [`super::ways`] serves that
//! case. No table in memory is indexed, and no branch depends on data: the kernel is constant-time.
//!
//! `unsafe`: rows are read and written under the contract of [`crate::cipher_ways::WaysKernel`].
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::Key;
use crate::cipher_ways::{Alone, Rows, WaysKernel};
use crate::isa::Avx512;
use crate::modes::{Direction, Mode};
use crate::schedule::Schedule;
use crate::short_ways::{Chains, Rounds};
use crate::simd::Words;
use crate::simd::avx512::Z;
use crate::simd::shorts::Shorts;
use crate::wipe::wipe;

/// Messages side by side.
pub(crate) const WAYS: usize = 2 * <Z as Shorts>::SHORTS;

/// One key's tables. The bytes of an S-box, from the least significant one on.
#[repr(C, align(64))]
struct Tables {
    boxes: [[[u8; 256]; 4]; 4],
    /// Subkeys in the order of use, with the low word twice and the high word twice.
    subkeys: [[u32; 2]; 18],
}

impl Tables {
    fn fill(&mut self, key: &Key, backward: bool) {
        for (to, from) in self.boxes.iter_mut().zip(&key.s) {
            for (byte, to) in to.iter_mut().enumerate() {
                for (to, from) in to.iter_mut().zip(from) {
                    *to = (from >> (8 * byte)) as u8;
                }
            }
        }
        for (i, to) in self.subkeys.iter_mut().enumerate() {
            let subkey = key.p[if backward { 17 - i } else { i }];
            *to = [subkey & 0xffff, subkey >> 16].map(|word| word << 16 | word);
        }
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        wipe(self.boxes.as_flattened_mut(), [0; 256]);
        wipe(&mut self.subkeys, [0; 2]);
    }
}

/// The even or odd bytes of two vectors, in the order in which `vpunpck*bw` restores them.
const fn bytes_of_words(odd: u8) -> [u8; 64] {
    let mut order = [0; 64];
    let mut i = 0;
    while i < 64 {
        let (eight, place) = (i / 16, i % 16);
        order[i] = (16 * eight + 2 * (place % 8) + 64 * (place / 8)) as u8 + odd;
        i += 1;
    }
    order
}
static EVEN: [u8; 64] = bytes_of_words(0);
static ODD: [u8; 64] = bytes_of_words(1);

/// Half a block of every way: its low words and its high words, in two vectors each.
type Half = [[Z; 2]; 2];

#[inline]
#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: 64 bytes.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// Looks up the bytes of a table at the indices `index`, of which `upper` are above 127. This is assembly, because
/// the compiler would load the tables of a whole round first, and keep copies of them on the stack.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn look_up(table: &[u8; 256], index: __m512i, upper: __mmask64) -> __m512i {
    let mut bytes;
    // SAFETY: reads the table, four vectors.
    unsafe {
        core::arch::asm!(
            "vmovdqu64 {bytes}, [{table}]",
            "vmovdqu64 {high}, [{table} + 128]",
            "vpermt2b {bytes}, {index}, [{table} + 64]",
            "vpermt2b {high}, {index}, [{table} + 192]",
            "vmovdqu8 {bytes} {{{upper}}}, {high}",
            table = in(reg) table,
            index = in(zmm_reg) index,
            upper = in(kreg) upper,
            bytes = out(zmm_reg) bytes,
            high = out(zmm_reg) _,
            options(pure, readonly, nostack, preserves_flags),
        );
    }
    bytes
}

/// Adds low words, and returns the carries.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn add_low(a: __m512i, b: __m512i, carry: &mut __mmask32, _: Z) -> __m512i {
    let sum = _mm512_add_epi16(a, b);
    *carry = _mm512_cmplt_epu16_mask(sum, b);
    sum
}

/// Adds high words and the carries of the low ones.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn add_high(a: __m512i, b: __m512i, carry: &mut __mmask32, ones: Z) -> __m512i {
    let sum = _mm512_add_epi16(a, b);
    _mm512_mask_sub_epi16(sum, *carry, sum, ones.0)
}

/// Adds F of one half and a subkey to the other half. The round consists of macros, because a loop that the compiler
/// did not unroll would keep its vectors in memory.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn round(tables: &Tables, subkey: [u32; 2], [low, high]: &Half, to: &mut Half, ones: Z) {
    let (even, odd) = (load(&EVEN), load(&ODD));
    let mut carries = [[0; 2]; 2];
    macro_rules! index {
        ($words:ident, $order:ident) => {{
            let index = _mm512_permutex2var_epi8($words[0].0, $order, $words[1].0);
            (index, _mm512_movepi8_mask(index))
        }};
    }
    macro_rules! words {
        ($half:literal, $number:literal, $index:ident) => {{
            let even = look_up(&tables.boxes[$number][2 * $half], $index.0, $index.1);
            let odd = look_up(&tables.boxes[$number][2 * $half + 1], $index.0, $index.1);
            [_mm512_unpacklo_epi8(even, odd), _mm512_unpackhi_epi8(even, odd)]
        }};
    }
    macro_rules! sum {
        ($half:literal, $add:ident, $a:ident, $b:ident, $c:ident, $d:ident) => {
            let subkey = _mm512_set1_epi32(subkey[$half] as i32);
            for n in 0..2 {
                let sum = $add($a[n], $b[n], &mut carries[n][0], ones);
                let sum = $add(_mm512_xor_si512(sum, $c[n]), $d[n], &mut carries[n][1], ones);
                to[$half][n].0 = _mm512_ternarylogic_epi64::<0x96>(to[$half][n].0, sum, subkey);
            }
        };
    }
    // The round before finished its low words first, so these index the last two S-boxes.
    let (third, fourth) = (index!(low, odd), index!(low, even));
    let (c, d) = (words!(0, 2, third), words!(0, 3, fourth));
    let (first, second) = (index!(high, odd), index!(high, even));
    let (a, b) = (words!(0, 0, first), words!(0, 1, second));
    sum!(0, add_low, a, b, c, d);
    let (c, d) = (words!(1, 2, third), words!(1, 3, fourth));
    let (a, b) = (words!(1, 0, first), words!(1, 1, second));
    sum!(1, add_high, a, b, c, d);
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add_subkey(subkey: [u32; 2], to: &mut Half) {
    for (words, subkey) in to.iter_mut().zip(subkey) {
        for words in words {
            words.0 = _mm512_xor_si512(words.0, _mm512_set1_epi32(subkey as i32));
        }
    }
}

/// Transforms one block of every way.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn crypt(tables: &Tables, ones: Z, block: &mut [[Z; 2]; 4]) {
    let (mut left, mut right) = ([block[1], block[0]], [block[3], block[2]]);
    add_subkey(tables.subkeys[0], &mut left);
    // The number of rounds is hidden from the compiler, which would unroll them all, beyond the size of instruction
    // caches.
    for subkey in &core::hint::black_box(&tables.subkeys)[1..17] {
        round(tables, *subkey, &left, &mut right, ones);
        (left, right) = (right, left);
    }
    add_subkey(tables.subkeys[17], &mut right);
    *block = [right[1], right[0], left[1], left[0]];
}

/// A key's tables, and an all-ones vector hidden from the compiler, which would otherwise build vectors from masks
/// and not use the masks.
#[derive(Clone, Copy)]
struct OneKey<'t>(&'t Tables, Z);

impl Rounds<Z, 2> for OneKey<'_> {
    #[inline(always)]
    fn crypt(self, block: &mut [[Z; 2]; 4]) {
        // SAFETY: made under the token, which proves the features.
        unsafe { crypt(self.0, self.1, block) };
    }
}

/// Ways of one key.
pub(crate) struct Permuted {
    tables: Tables,
    /// Whether the tables are those of the key.
    filled: bool,
    chains: Chains<WAYS>,
}

impl Permuted {
    /// Returns ways without a key; all messages must have the same key.
    pub(crate) fn new(_: Avx512, mode: Mode, direction: Direction) -> Self {
        let tables = Tables { boxes: [[[0; 256]; 4]; 4], subkeys: [[0; 2]; 18] };
        Self { tables, filled: false, chains: Chains::new(mode, direction, <Z as Shorts>::SHORTS) }
    }

    /// See [`WaysKernel::crypt_chunks`].
    ///
    /// # Safety
    /// The contract of [`WaysKernel::crypt_chunks`]; the CPU has AVX-512 F, BW and VBMI.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    unsafe fn go(&mut self, rows: &mut Rows<WAYS>, chunks: usize) {
        let ones = core::hint::black_box(<Z as Words>::splat(u32::MAX));
        // SAFETY: the contract of this function is that of the chains' function; 2 * SHORTS ways.
        unsafe { self.chains.crypt_chunks::<Z, 2>(rows, chunks, OneKey(&self.tables, ones)) };
    }
}

impl WaysKernel<'_, WAYS> for Permuted {
    fn set(&mut self, way: usize, key: &Schedule, iv: &[u8; 16]) {
        if let (Schedule::Blowfish(key), false) = (key, self.filled) {
            self.tables.fill(key, self.chains.backward());
            self.filled = true;
        }
        self.chains.set(way, iv);
    }

    /// # Safety
    /// The contract of [`WaysKernel::crypt_chunks`].
    unsafe fn crypt_chunks(&mut self, rows: &mut Rows<WAYS>, chunks: usize) {
        // SAFETY: made under the token, which proves the features; for the rows, the trait's contract is that
        // of `go`.
        unsafe { self.go(rows, chunks) }
    }

    fn finish(&mut self, way: usize, key: &Schedule, rest: &mut [u8], alone: &Alone<'_>) {
        alone(key, &self.chains.iv(way), rest);
    }
}
