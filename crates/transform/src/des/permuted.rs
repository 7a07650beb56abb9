//! DES and triple DES for 64 messages at once by byte permutations: `vpermb` looks up 64 entries of an S-box.
//!
//! Each half is kept expanded: in eight vectors of 64 ways, with one byte per way for the six bits that enter an
//! S-box. After P and E, an S-box's output goes to six places, which lie in six different bytes, and each byte takes
//! its six bits from six S-boxes. So every place has one of six colours, which is its bit in the byte: one look-up
//! gives the whole output of an S-box, in its colours, and a byte selects one bit of each colour. Many bytes share a
//! part of their selection with others: see [`MERGES`]. Each stored round key is the sum of two round keys, so that a
//! round adds its key, the other half and the selected bits in one instruction. No table in memory is indexed, and no
//! branch depends on data: the kernel is constant-time.
//!
//! Bitslicing 512 messages ([`super::sliced`]) costs the same per message when all ways are busy; this kernel needs
//! only 64.
//!
//! `unsafe`: rows are read through pointers under the contract of [`crate::cipher_ways::WaysKernel`].
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::{Key, P, s_box};
use crate::cipher_ways::{Alone, Rows, WaysKernel};
use crate::isa::Avx512;
use crate::modes::{Direction, Mode};
use crate::schedule::Schedule;
use crate::simd::avx512::Z;
use crate::wipe::wipe;

/// Messages side by side.
pub(crate) const WAYS: usize = 64;

/// The colour of bit m (most significant first) of each S-box's input.
const COLOURS: [[u8; 6]; 8] = [
    [0, 1, 2, 3, 4, 5],
    [4, 5, 3, 1, 2, 0],
    [2, 1, 4, 0, 3, 5],
    [2, 1, 0, 3, 5, 4],
    [5, 4, 0, 3, 2, 1],
    [3, 1, 4, 2, 0, 5],
    [2, 1, 0, 4, 3, 5],
    [3, 2, 4, 5, 0, 1],
];

/// The merges that collect a round's bits. Vectors 0 to 7 are the outputs of the S-boxes; each merge makes one more
/// vector, with the colours of a mask from one vector and the others from another. The last eight are the bytes. A
/// SAT solver found them together with the colours: without shared merges there would be 40.
const MERGES: [(u8, usize, usize); 22] = [
    (0b01_1100, 2, 0),
    (0b01_1110, 0, 2),
    (0b01_1100, 1, 3),
    (0b01_1100, 3, 1),
    (0b00_1011, 10, 8),
    (0b00_0111, 9, 11),
    (0b00_0111, 11, 9),
    (0b00_1010, 7, 6),
    (0b00_1011, 6, 7),
    (0b00_1110, 4, 5),
    (0b01_1100, 5, 15),
    (0b01_1110, 15, 4),
    (0b01_1000, 16, 17),
    (0b01_1100, 17, 16),
    (0b00_0110, 10, 21),
    (0b00_1001, 8, 21),
    (0b00_1101, 20, 13),
    (0b00_1101, 19, 14),
    (0b00_1010, 18, 14),
    (0b00_1101, 13, 19),
    (0b00_1101, 12, 20),
    (0b00_0101, 18, 12),
];

/// Index of the first vector that is one of the bytes.
const BYTES: usize = MERGES.len();

/// Returns the S-box from which a vector's bit of a colour comes.
const fn source(vector: usize, colour: u8) -> usize {
    let mut vector = vector;
    while vector >= 8 {
        let (mask, one, zero) = MERGES[vector - 8];
        vector = if mask >> colour & 1 == 1 { one } else { zero };
    }
    vector
}

/// Returns the bit of a half (from 0, the standard's first) that is bit m of the input of S-box `number`.
const fn expansion(number: usize, m: usize) -> usize {
    (4 * number + m + 31) % 32
}

/// Returns the part of an affine matrix that moves bit `from` of a byte to bit `to`.
const fn carry(from: usize, to: u8) -> u64 {
    1 << (from + 8 * (7 - to as usize))
}

/// For each S-box and colour: the bit of its output that has the colour, or 4.
const BROUGHT: [[usize; 6]; 8] = {
    let mut brought = [[4; 6]; 8];
    let mut i = 0;
    while i < 48 {
        let (to, m) = (i / 6, i % 6);
        let bit = P[expansion(to, m)] as usize - 1;
        let place = &mut brought[bit / 4][COLOURS[to][m] as usize];
        assert!(source(BYTES + to, COLOURS[to][m]) == bit / 4, "a bit from another S-box");
        assert!(*place == 4 || *place == bit % 4, "a colour of two bits");
        *place = bit % 4;
        i += 1;
    }
    brought
};

/// The S-boxes, from and to colours.
static TABLES: [[u8; 64]; 8] = {
    let mut tables = [[0; 64]; 8];
    let mut i = 0;
    while i < 8 * 64 {
        let (number, index) = (i / 64, i % 64);
        let mut six = 0;
        let mut m = 0;
        while m < 6 {
            six |= (index >> COLOURS[number][m] & 1) << (5 - m);
            m += 1;
        }
        let mut colour = 0;
        while colour < 6 {
            let bit = BROUGHT[number][colour];
            tables[number][index] |= ((bit < 4) as u8 & s_box(number, six) >> (3 - bit % 4)) << colour;
            colour += 1;
        }
        i += 1;
    }
    tables
};

/// Matrices that make an S-box's input from six bits of the byte that contains them, modulo 8.
const EXPAND: [u64; 8] = {
    let mut matrices = [0; 8];
    let mut i = 0;
    while i < 48 {
        let (number, m) = (i / 6, i % 6);
        matrices[number] |= carry(expansion(number, m) % 8, COLOURS[number][m]);
        i += 1;
    }
    matrices
};

/// Matrices that make half a byte from an S-box's input.
const CONTRACT: [u64; 8] = {
    let mut matrices = [0; 8];
    let mut i = 0;
    while i < 32 {
        let (number, m) = (i / 4, 1 + i % 4);
        matrices[number] |= carry(COLOURS[number][m] as usize, (expansion(number, m) % 8) as u8);
        i += 1;
    }
    matrices
};

/// Matrices that move six bits of a round key to their colours.
const COLOUR: [u64; 8] = {
    let mut matrices = [0; 8];
    let mut i = 0;
    while i < 48 {
        let (number, m) = (i / 6, i % 6);
        matrices[number] |= carry(5 - m, COLOURS[number][m]);
        i += 1;
    }
    matrices
};

/// Vector n holds byte n of 64 ways.
type Bytes = [Z; 8];

/// Both halves, the left one first, in the form of S-box inputs.
type State = [Bytes; 2];

/// Evaluates `$body` with a constant in place of each number below 8, 16 or 22.
macro_rules! each {
    (8 $n:ident => $body:expr) => { each!($n => $body; 0 1 2 3 4 5 6 7) };
    (16 $n:ident => $body:expr) => { each!($n => $body; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15) };
    (22 $n:ident => $body:expr) => {
        each!($n => $body; 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21)
    };
    ($n:ident => $body:expr; $($number:literal)*) => {
        [$({
            const $n: usize = $number;
            $body
        }),*]
    };
}

#[inline]
#[target_feature(enable = "avx512f,gfni")]
fn affine(bytes: Z, matrix: u64) -> __m512i {
    _mm512_gf2p8affine_epi64_epi8::<0>(bytes.0, _mm512_set1_epi64(matrix as i64))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn xor(a: Bytes, b: &Bytes) -> Bytes {
    each!(8 N => Z(_mm512_xor_si512(a[N].0, b[N].0)))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add(a: State, b: &State) -> State {
    [xor(a[0], &b[0]), xor(a[1], &b[1])]
}

/// Takes the bits of a mask from one vector, the others from another.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn merge(mask: u8, one: Z, zero: Z) -> Z {
    Z(_mm512_ternarylogic_epi64::<0xca>(_mm512_set1_epi8(mask as i8), one.0, zero.0))
}

/// Loads 16 bytes of every way in order: vector n has those of ways n, 16 + n, 32 + n and 48 + n.
///
/// # Safety
/// For every way below 64, 16 bytes at `at(way)` are readable, with any alignment. The CPU has AVX-512 F
/// and BW.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn gather(at: impl Fn(usize) -> *const u8) -> [Z; 16] {
    // SAFETY: the contract: the 16 bytes of each of these four ways.
    each!(16 N => unsafe { Z::load_quarters([at(N), at(16 + N), at(32 + N), at(48 + N)]) })
}

/// Returns the initial permutation of two blocks of every way: it exchanges bit and byte of each. Even vectors are
/// the left half from the last byte on, odd ones the right half.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn split(blocks: [Z; 16]) -> [Z; 16] {
    let bits = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
    Z::transpose_16(each!(16 N => Z(_mm512_gf2p8affine_epi64_epi8::<0>(bits, blocks[N].0))))
}

/// Returns the inverse of [`split`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn join(bytes: [Z; 16]) -> [Z; 16] {
    let bits = _mm512_set1_epi64(0x0102_0408_1020_4080);
    let blocks = Z::transpose_16(each!(16 N => bytes[N ^ 7]));
    each!(16 N => Z(_mm512_gf2p8affine_epi64_epi8::<0>(bits, blocks[N].0)))
}

/// Returns a block after [`split`] in the form of S-box inputs.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn expand(block: &[Z]) -> State {
    let half = |half: usize| {
        each!(8 N => {
            // Five bits lie in one byte. The sixth bit comes to the place of a bit that is not needed.
            let (byte, (other, place)) = (N / 2, if N % 2 == 1 { (N / 2 + 1, 0) } else { (N / 2 + 3, 7) });
            let at = |byte: usize| block[6 + half - 2 * (byte % 4)];
            Z(affine(merge(1 << place, at(other), at(byte)), EXPAND[N]))
        })
    };
    [half(0), half(1)]
}

/// Returns the inverse of [`expand`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,gfni")]
fn contract([left, right]: &State) -> Bytes {
    each!(8 N => {
        let (half, byte) = (if N % 2 == 1 { right } else { left }, 3 - N / 2);
        let parts = (affine(half[2 * byte], CONTRACT[2 * byte]), affine(half[2 * byte + 1], CONTRACT[2 * byte + 1]));
        Z(_mm512_xor_si512(parts.0, parts.1))
    })
}

/// Adds the round function of `right`, which includes its key, and a sum of round keys to `left`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn round(left: &mut Bytes, right: &Bytes, key: &Bytes) {
    // The pointer is opaque to the compiler, which would otherwise keep copies of the tables.
    let tables = core::hint::black_box(&TABLES);
    let mut vectors = [right[0]; 8 + MERGES.len()];
    // SAFETY: a table has 64 bytes.
    let table = |n: usize| unsafe { _mm512_loadu_si512(tables[n].as_ptr().cast()) };
    each!(8 N => vectors[N] = Z(_mm512_permutexvar_epi8(right[N].0, table(N))));
    each!(22 N => {
        let (mask, one, zero) = MERGES[N];
        vectors[8 + N] = merge(mask, vectors[one], vectors[zero]);
    });
    *left = each!(8 N => Z(_mm512_ternarylogic_epi64::<0x96>(left[N].0, key[N].0, vectors[BYTES + N].0)));
}

/// Number of key vectors of a pass: the first round's, the one that each round adds, and the last but one's.
const KEYS: usize = 18;

/// Transforms one block of every way.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn crypt(keys: &[[Bytes; KEYS]], [mut left, mut right]: State) -> State {
    for key in keys {
        right = xor(right, &key[0]);
        for pair in key[1..KEYS - 1].as_chunks::<2>().0 {
            round(&mut left, &right, &pair[0]);
            round(&mut right, &left, &pair[1]);
        }
        (left, right) = (right, xor(left, &key[KEYS - 1]));
    }
    [left, right]
}

/// The kernel has 64 ways and `PASSES` keys (1 or 3).
pub(crate) struct Permuted<'k, const PASSES: usize> {
    mode: Mode,
    direction: Direction,
    /// Round keys of the ways.
    rounds: [[&'k [[u8; 8]; 16]; WAYS]; PASSES],
    /// IVs of the ways in `fresh`.
    ivs: [[u8; 16]; WAYS],
    /// Ways set since the last run, one bit per way.
    fresh: u64,
    stale_keys: bool,
    keys: [[Bytes; KEYS]; PASSES],
    /// The last sealed block, expanded.
    chain: State,
    /// The blocks of a chunk after [`split`], two by two.
    blocks: [[Z; 16]; 4],
}

impl<const PASSES: usize> Drop for Permuted<'_, PASSES> {
    fn drop(&mut self) {
        // SAFETY: a vector of zeros is a value.
        let zero: Bytes = unsafe { core::mem::zeroed() };
        wipe(&mut self.keys, [zero; KEYS]);
        wipe(&mut self.chain, zero);
        wipe(&mut self.blocks, [zero[0]; 16]);
    }
}

impl<const PASSES: usize> Permuted<'_, PASSES> {
    /// Ways that have no key yet.
    #[inline]
    pub(crate) fn new(_: Avx512, mode: Mode, direction: Direction) -> Self {
        // SAFETY: a vector of zeros is a value.
        let zero: Bytes = unsafe { core::mem::zeroed() };
        Self {
            mode,
            direction,
            rounds: [[&[[0; 8]; 16]; WAYS]; PASSES],
            ivs: [[0; 16]; WAYS],
            fresh: 0,
            stale_keys: true,
            keys: [[zero; KEYS]; PASSES],
            chain: [zero; 2],
            blocks: [[zero[0]; 16]; 4],
        }
    }

    /// Converts keys and IVs of fresh ways to bytes.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
    fn refresh(&mut self) {
        if self.stale_keys {
            for (pass, (keys, rounds)) in self.keys.iter_mut().zip(&self.rounds).enumerate() {
                let backward = (self.direction == Direction::Decrypt) != (pass == 1);
                for two in 0..8 {
                    // SAFETY: two round keys of eight bytes.
                    self.blocks[0] =
                        Z::transpose_16(unsafe { gather(|way| rounds[way][2 * two..][..2].as_ptr().cast()) });
                    for (odd, bytes) in self.blocks[0].as_chunks::<8>().0.iter().enumerate() {
                        let number = if backward { 15 - 2 * two - odd } else { 2 * two + odd };
                        keys[number] = each!(8 N => Z(affine(bytes[N], COLOUR[N])));
                    }
                }
                // The key that a round adds stays there: the next round but one removes it with its own sum.
                (keys[16], keys[17]) = (keys[14], keys[15]);
                for number in (2..16).rev() {
                    keys[number] = xor(keys[number], &keys[number - 2]);
                }
            }
            self.stale_keys = false;
        }
        // SAFETY: an IV is 16 bytes.
        let ivs = expand(&split(unsafe { gather(|way| self.ivs[way].as_ptr()) }));
        let fresh = core::mem::take(&mut self.fresh);
        for (chain, ivs) in self.chain.iter_mut().zip(ivs) {
            *chain = each!(8 N => Z(_mm512_mask_mov_epi8(chain[N].0, fresh, ivs[N].0)));
        }
    }

    /// See [`WaysKernel::crypt_chunks`].
    ///
    /// # Safety
    /// The contract of [`WaysKernel::crypt_chunks`]; the CPU has AVX-512 F, BW and VBMI, and GFNI.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
    unsafe fn go(&mut self, rows: &mut Rows<WAYS>, chunks: usize) {
        if self.fresh != 0 {
            self.refresh();
        }
        for _ in 0..chunks {
            for (two, blocks) in self.blocks.iter_mut().enumerate() {
                // SAFETY: the trait's contract: each row has a chunk to read, of which this is a quarter.
                *blocks = split(unsafe { gather(|way| rows.source[way].add(16 * two)) });
            }
            for block in self.blocks.as_flattened_mut().as_chunks_mut::<8>().0 {
                let given = expand(block);
                let made = match (self.mode, self.direction) {
                    (Mode::Cbc, Direction::Encrypt) => {
                        self.chain = crypt(&self.keys, add(given, &self.chain));
                        self.chain
                    }
                    (Mode::Cbc, Direction::Decrypt) => {
                        let made = add(crypt(&self.keys, given), &self.chain);
                        self.chain = given;
                        made
                    }
                    _ => crypt(&self.keys, given),
                };
                *block = contract(&made);
            }
            for (two, blocks) in self.blocks.iter().enumerate() {
                for (n, ways) in join(*blocks).into_iter().enumerate() {
                    // SAFETY: the trait's contract: each row has a chunk to write, of which this is a
                    // quarter.
                    unsafe {
                        let at = |way: usize| rows.destination[way].add(16 * two);
                        ways.store_quarters([at(n), at(16 + n), at(32 + n), at(48 + n)]);
                    }
                }
            }
            rows.advance();
        }
    }
}

impl<'k, const PASSES: usize> WaysKernel<'k, WAYS> for Permuted<'k, PASSES> {
    fn set(&mut self, way: usize, key: &'k Schedule, iv: &[u8; 16]) {
        let mut store = |pass: usize, key: &'k Key| {
            self.stale_keys |= !core::ptr::eq(self.rounds[pass][way], &raw const key.rounds);
            self.rounds[pass][way] = &key.rounds;
        };
        match key {
            Schedule::Des(key) => store(0, key),
            Schedule::TripleDes(key) => {
                for (pass, (key, _)) in key.passes(self.direction).into_iter().enumerate() {
                    store(pass, key);
                }
            }
            _ => {}
        }
        self.ivs[way] = *iv;
        self.fresh |= 1 << way;
    }

    /// # Safety
    /// The contract of [`WaysKernel::crypt_chunks`].
    unsafe fn crypt_chunks(&mut self, rows: &mut Rows<WAYS>, chunks: usize) {
        // SAFETY: made under the token, which proves the features; for the rows, the trait's contract is that
        // of `go`.
        unsafe { self.go(rows, chunks) }
    }

    fn finish(&mut self, way: usize, key: &Schedule, rest: &mut [u8], alone: &Alone<'_>) {
        let mut iv = [0; 16];
        if self.fresh >> way & 1 != 0 {
            iv = self.ivs[way];
        } else {
            // SAFETY: made under the token, which proves the features; eight vectors are eight times 64 bytes.
            let chain: [[u8; WAYS]; 8] = unsafe { core::mem::transmute(contract(&self.chain)) };
            for (bit, bytes) in chain.iter().enumerate() {
                for (i, byte) in iv[..8].iter_mut().enumerate() {
                    *byte |= (bytes[way] >> (7 - i) & 1) << bit;
                }
            }
        }
        alone(key, &iv, rest);
    }
}
