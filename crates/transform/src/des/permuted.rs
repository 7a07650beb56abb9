//! DES and triple DES for 64 messages at once by byte permutations: `vpermb` looks up 64 entries of an S-box.
//!
//! Each half is kept expanded: eight vectors of 64 lanes, a byte of each for the six bits that enter an S-box. The six
//! places an S-box's output goes to after P and E lie in six different bytes. So every place has one of six colours, its
//! bit in the byte, such that colours differ within each byte and within each S-box's output: one look-up brings all
//! six bits, and a byte picks one bit of each colour. Round keys are sums of two, so that a round adds its key, the
//! other half and the picked bits in one instruction. No table in memory is indexed, no branch on data: constant time.
//!
//! Bitslicing 512 messages ([`super::sliced`]) costs as much a message when all lanes are busy; this needs 64.
//!
//! `unsafe`: rows are read through pointers under the contract of [`crate::lanes::LaneKernel`].
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::sliced::AFTER_P;
use super::{Key, P, s_box};
use crate::catalogue::Mode;
use crate::isa::Avx512;
use crate::job::Direction;
use crate::key::Schedule;
use crate::lanes::{Alone, LaneKernel, Rows};
use crate::simd::avx512::Z;
use crate::wipe::wipe;

/// Messages side by side.
pub(crate) const LANES: usize = 64;

/// The colour of bit m (most significant first) of what enters an S-box.
const COLOURS: [[u8; 6]; 8] = [
    [4, 2, 5, 1, 0, 3],
    [3, 0, 5, 2, 4, 1],
    [0, 4, 5, 1, 3, 2],
    [0, 3, 2, 1, 4, 5],
    [1, 3, 0, 5, 4, 2],
    [0, 4, 1, 2, 3, 5],
    [0, 3, 1, 5, 4, 2],
    [1, 4, 2, 0, 5, 3],
];

/// Bit of a half (from 0, the standard's first) that is bit m of what enters S-box `number`.
const fn expansion(number: usize, m: usize) -> usize {
    (4 * number + m + 31) % 32
}

/// In an affine matrix, makes bit `from` of a byte its bit `to`.
const fn carry(from: usize, to: u8) -> u64 {
    1 << (from + 8 * (7 - to as usize))
}

/// Which S-box brings the bit of a colour.
const SOURCE: [[usize; 6]; 8] = {
    let mut source = [[8; 6]; 8];
    let mut i = 0;
    while i < 48 {
        let (number, m) = (i / 6, i % 6);
        let from = &mut source[number][COLOURS[number][m] as usize];
        assert!(*from == 8, "a colour twice in a byte");
        *from = (P[expansion(number, m)] as usize - 1) / 4;
        i += 1;
    }
    source
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
        let four = s_box(number, six);
        let mut j = 0;
        while j < 48 {
            let (to, m) = (j / 6, j % 6);
            let mut q = 0;
            while q < 4 {
                if AFTER_P[4 * number + q] == expansion(to, m) {
                    tables[number][index] |= (four >> (3 - q) & 1) << COLOURS[to][m];
                }
                q += 1;
            }
            j += 1;
        }
        i += 1;
    }
    tables
};

/// Matrices that make what enters an S-box from the byte of a half that holds most of it, and from the other byte.
const EXPAND: [[u64; 2]; 8] = {
    let mut matrices = [[0; 2]; 8];
    let mut i = 0;
    while i < 48 {
        let (number, m) = (i / 6, i % 6);
        let bit = expansion(number, m);
        matrices[number][(bit / 8 != number / 2) as usize] |= carry(bit % 8, COLOURS[number][m]);
        i += 1;
    }
    matrices
};

/// Matrices that make half a byte from what enters an S-box.
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

/// Matrices that colour six bits of a round key.
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

/// Exchanges byte and element of a vector.
static EXCHANGE: [u8; 64] = {
    let mut places = [0; 64];
    let mut i = 0;
    while i < 64 {
        places[i] = (i % 8 * 8 + i / 8) as u8;
        i += 1;
    }
    places
};

/// Byte n of 64 lanes is vector n.
type Bytes = [Z; 8];

/// Evaluates `$body` with a constant in place of each number.
macro_rules! eight {
    ($n:ident => $body:expr) => {
        eight!($n => $body; 0 1 2 3 4 5 6 7)
    };
    ($n:ident => $body:expr; $($number:literal)*) => {
        [$({
            const $n: usize = $number;
            $body
        }),*]
    };
}

/// A vector of 64 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: 64 bytes, any alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f,gfni")]
fn affine(bytes: Z, matrix: u64) -> __m512i {
    _mm512_gf2p8affine_epi64_epi8::<0>(bytes.0, _mm512_set1_epi64(matrix as i64))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn xor(a: Bytes, b: &Bytes) -> Bytes {
    eight!(N => Z(_mm512_xor_si512(a[N].0, b[N].0)))
}

/// Turns words of the lanes, eight to a vector, into bytes of the lanes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn to_bytes(words: [Z; 8]) -> Bytes {
    let exchange = load(&EXCHANGE);
    Z::transpose_8x8(words.map(|word| Z(_mm512_permutexvar_epi8(exchange, word.0))))
}

/// The initial permutation: exchanges bit and byte of the words. Even vectors are the left half from the last byte on,
/// odd ones the right.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn split(words: [Z; 8]) -> Bytes {
    let bits = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
    to_bytes(words.map(|word| Z(_mm512_gf2p8affine_epi64_epi8::<0>(bits, word.0))))
}

/// The inverse of [`split`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn join(bytes: Bytes) -> [Z; 8] {
    let exchange = load(&EXCHANGE);
    let bits = _mm512_set1_epi64(0x0102_0408_1020_4080);
    Z::transpose_8x8(eight!(N => bytes[7 - N]))
        .map(|word| Z(_mm512_gf2p8affine_epi64_epi8::<0>(bits, _mm512_permutexvar_epi8(exchange, word.0))))
}

/// Adds the round function of `right`, its key already in it, and a sum of round keys to `left`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn round(left: &mut Bytes, right: &Bytes, key: &Bytes) {
    let odd = _mm512_set1_epi8(0b10_1010);
    let middle = _mm512_set1_epi8(0b00_1100);
    let high = _mm512_set1_epi8(0b11_0000);
    let found = eight!(N => _mm512_permutexvar_epi8(right[N].0, load(&TABLES[N])));
    *left = eight!(N => {
        let pair = |colour: usize| {
            let (one, zero) = (found[SOURCE[N][colour + 1]], found[SOURCE[N][colour]]);
            _mm512_ternarylogic_epi64::<0xca>(odd, one, zero)
        };
        let four = _mm512_ternarylogic_epi64::<0xca>(middle, pair(2), pair(0));
        let six = _mm512_ternarylogic_epi64::<0xca>(high, pair(4), four);
        Z(_mm512_ternarylogic_epi64::<0x96>(left[N].0, key[N].0, six))
    });
}

/// Vectors of keys of a pass: the first round's; what each round adds; the last but one's.
const KEYS: usize = 18;

/// One block of every lane, split.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
fn crypt(keys: &[[Bytes; KEYS]], block: Bytes) -> Bytes {
    let expand = |half: usize| {
        eight!(N => {
            let (main, other) = (N / 2, if N % 2 == 1 { N / 2 + 1 } else { N / 2 + 3 } % 4);
            let at = |byte: usize| block[6 + half - 2 * byte];
            Z(_mm512_xor_si512(affine(at(main), EXPAND[N][0]), affine(at(other), EXPAND[N][1])))
        })
    };
    let (mut left, mut right) = (expand(0), expand(1));
    for key in keys {
        right = xor(right, &key[0]);
        for pair in key[1..KEYS - 1].as_chunks::<2>().0 {
            round(&mut left, &right, &pair[0]);
            round(&mut right, &left, &pair[1]);
        }
        (left, right) = (right, xor(left, &key[KEYS - 1]));
    }
    eight!(N => {
        let (half, byte) = (if N % 2 == 1 { right } else { left }, 3 - N / 2);
        let parts = (affine(half[2 * byte], CONTRACT[2 * byte]), affine(half[2 * byte + 1], CONTRACT[2 * byte + 1]));
        Z(_mm512_xor_si512(parts.0, parts.1))
    })
}

/// 64 lanes, `PASSES` keys (1 or 3).
pub(crate) struct Permuted<'k, const PASSES: usize> {
    mode: Mode,
    direction: Direction,
    /// Round keys of the lanes.
    rounds: [[&'k [[u8; 8]; 16]; LANES]; PASSES],
    /// IVs of the lanes in `fresh`.
    ivs: [u64; LANES],
    /// Lanes set since the last run, a bit each.
    fresh: u64,
    stale_keys: bool,
    keys: [[Bytes; KEYS]; PASSES],
    /// The last sealed block, split.
    chain: Bytes,
    /// The blocks of a chunk.
    blocks: [[Z; 8]; 8],
}

impl<const PASSES: usize> Drop for Permuted<'_, PASSES> {
    fn drop(&mut self) {
        // SAFETY: a vector of zeros is a value.
        let zero: Bytes = unsafe { core::mem::zeroed() };
        wipe(&mut self.keys, [zero; KEYS]);
        wipe(&mut self.chain, zero[0]);
        wipe(&mut self.blocks, zero);
    }
}

impl<const PASSES: usize> Permuted<'_, PASSES> {
    /// Lanes that have no key yet.
    #[inline]
    pub(crate) fn new(_: Avx512, mode: Mode, direction: Direction) -> Self {
        // SAFETY: a vector of zeros is a value.
        let zero: Bytes = unsafe { core::mem::zeroed() };
        Self {
            mode,
            direction,
            rounds: [[&[[0; 8]; 16]; LANES]; PASSES],
            ivs: [0; LANES],
            fresh: 0,
            stale_keys: true,
            keys: [[zero; KEYS]; PASSES],
            chain: zero,
            blocks: [zero; 8],
        }
    }

    /// Brings keys and IVs of fresh lanes into bytes.
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
    fn refresh(&mut self) {
        // SAFETY: vector n is eight of the 64 words.
        let rows = |words: &[u64; LANES]| eight!(N => Z(unsafe { _mm512_loadu_si512(words.as_ptr().add(8 * N).cast()) }));
        if self.stale_keys {
            for (pass, (keys, rounds)) in self.keys.iter_mut().zip(&self.rounds).enumerate() {
                let backward = (self.direction == Direction::Decrypt) != (pass == 1);
                for number in 0..16 {
                    if number % 8 == 0 {
                        let first = if backward { 8 - number } else { number };
                        for n in 0..8 {
                            // SAFETY: eight round keys of eight bytes.
                            let lanes = eight!(N => Z(unsafe {
                                _mm512_loadu_si512(rounds[8 * n + N][first..first + 8].as_ptr().cast())
                            }));
                            for (block, words) in self.blocks.iter_mut().zip(Z::transpose_8x8(lanes)) {
                                block[n] = words;
                            }
                        }
                    }
                    let bytes = to_bytes(self.blocks[if backward { 7 - number % 8 } else { number % 8 }]);
                    let key = eight!(N => Z(affine(bytes[N], COLOUR[N])));
                    // Round n adds what is in the other half already, key n - 1, and what it shall hold next, key n + 1.
                    match number {
                        0 => (keys[0], keys[2]) = (key, key),
                        1 => (keys[1], keys[3]) = (key, key),
                        _ => {
                            keys[number] = xor(keys[number], &key);
                            keys[number + 2] = key;
                        }
                    }
                }
            }
            self.stale_keys = false;
        }
        let ivs = split(rows(&self.ivs));
        let fresh = core::mem::take(&mut self.fresh);
        self.chain = eight!(N => Z(_mm512_mask_mov_epi8(self.chain[N].0, fresh, ivs[N].0)));
    }

    /// See [`LaneKernel::run`].
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,gfni")]
    unsafe fn go(&mut self, rows: &mut Rows<LANES>, chunks: usize) {
        if self.fresh != 0 {
            self.refresh();
        }
        for _ in 0..chunks {
            for n in 0..8 {
                // SAFETY: each row has a chunk to read, as the caller promises.
                let lanes = eight!(N => Z(unsafe { _mm512_loadu_si512(rows.source[8 * n + N].cast()) }));
                for (block, words) in self.blocks.iter_mut().zip(Z::transpose_8x8(lanes)) {
                    block[n] = words;
                }
            }
            for block in &mut self.blocks {
                let given = split(*block);
                let made = match (self.mode, self.direction) {
                    (Mode::Cbc, Direction::Encrypt) => {
                        self.chain = crypt(&self.keys, xor(given, &self.chain));
                        self.chain
                    }
                    (Mode::Cbc, Direction::Decrypt) => {
                        let made = xor(crypt(&self.keys, given), &self.chain);
                        self.chain = given;
                        made
                    }
                    _ => crypt(&self.keys, given),
                };
                *block = join(made);
            }
            for n in 0..8 {
                let lanes = Z::transpose_8x8(eight!(N => self.blocks[N][n]));
                for (lane, to) in lanes.into_iter().zip(&rows.destination[8 * n..]) {
                    // SAFETY: each row has a chunk to write, as the caller promises.
                    unsafe { _mm512_storeu_si512(to.cast(), lane.0) };
                }
            }
            rows.advance();
        }
    }
}

impl<'k, const PASSES: usize> LaneKernel<'k, LANES> for Permuted<'k, PASSES> {
    fn set(&mut self, lane: usize, key: &'k Schedule, iv: &[u8; 16]) {
        let mut store = |pass: usize, key: &'k Key| {
            self.stale_keys |= !core::ptr::eq(self.rounds[pass][lane], &raw const key.rounds);
            self.rounds[pass][lane] = &key.rounds;
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
        self.ivs[lane] = u64::from_le_bytes([0, 1, 2, 3, 4, 5, 6, 7].map(|i| iv[i]));
        self.fresh |= 1 << lane;
    }

    unsafe fn run(&mut self, rows: &mut Rows<LANES>, chunks: usize) {
        // SAFETY: made under the token, which proves the features; the caller keeps the trait's contract.
        unsafe { self.go(rows, chunks) }
    }

    fn finish(&mut self, lane: usize, key: &Schedule, rest: &mut [u8], alone: &Alone<'_>) {
        let mut iv = [0; 16];
        if self.fresh >> lane & 1 != 0 {
            iv[..8].copy_from_slice(&self.ivs[lane].to_le_bytes());
        } else {
            // SAFETY: eight vectors are eight times 64 bytes.
            let chain = unsafe { &*core::ptr::from_ref(&self.chain).cast::<[[u8; LANES]; 8]>() };
            for (bit, bytes) in chain.iter().enumerate() {
                for (i, byte) in iv[..8].iter_mut().enumerate() {
                    *byte |= (bytes[lane] >> (7 - i) & 1) << bit;
                }
            }
        }
        alone(key, &iv, rest);
    }
}
