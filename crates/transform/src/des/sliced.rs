//! Bitsliced DES and triple DES: one message per bit of a vector, each with its own key, 64, 256 or 512 at once.
//!
//! A block's 64 bits become 64 planes; the permutations become numbering, the S-boxes circuits of three-input gates
//! ([`super::circuits`]). There is no table and no branch on data: the kernel is constant-time. The key planes of C
//! and D are stored twice in a row, so a round's rotation is a pointer.
//!
//! `unsafe`: planes and rows are read through pointers under the contract of [`crate::cipher_ways::WaysKernel`].
#![allow(unsafe_code)]

use super::circuits;
use super::staging::{Block, Half, Staged, transpose};
use super::{P, PC2, ROTATIONS};
use crate::cipher_ways::{Alone, Rows, WaysKernel};
use crate::modes::{Direction, Mode};
use crate::schedule::Schedule;
use crate::simd::Planes;
use crate::wipe::wipe;

/// Returns the plane of bit `number` of the standard (from 1, most significant first), for a block read as a
/// little-endian word.
const fn plane_of(number: usize) -> usize {
    (number - 1) / 8 * 8 + 7 - (number - 1) % 8
}

/// The planes that become L0 and R0, by the initial permutation.
const INITIAL: [usize; 64] = {
    let mut planes = [0; 64];
    let mut i = 0;
    while i < 64 {
        let column = i / 8;
        let first = if column < 4 { 58 + 2 * column } else { 57 + 2 * (column - 4) };
        planes[i] = plane_of(first - 8 * (i % 8));
        i += 1;
    }
    planes
};

/// The place of output bit q of the S-boxes in L.
const AFTER_P: [usize; 32] = {
    let mut to = [0; 32];
    let mut i = 0;
    while i < 32 {
        to[P[i] as usize - 1] = i;
        i += 1;
    }
    to
};

/// Planes of a key: C twice, D twice.
const KEY_PLANES: usize = 112;

/// The first plane of bit j of a round key.
const KEY_AT: [usize; 48] = {
    let mut at = [0; 48];
    let mut j = 0;
    while j < 48 {
        let bit = PC2[j] as usize - 1;
        at[j] = if bit < 28 { bit } else { 56 + bit - 28 };
        j += 1;
    }
    at
};

/// Returns a way's bit of a plane.
fn bit<V: Planes>(plane: &V, way: usize) -> u64 {
    debug_assert!(way < 64 * V::ELEMENTS);
    // SAFETY: a plane is ELEMENTS 64-bit words, 64 ways to each.
    unsafe { *core::ptr::from_ref(plane).cast::<u64>().add(way / 64) >> (way % 64) & 1 }
}

/// XORs the round function of one half of a block into the other, in place: into the left one, or into the right one
/// if the halves' roles are `SWAPPED`.
///
/// The arguments are pointers and not references, because the compiler must not carry 64 planes from round to round
/// in 32 registers.
///
/// # Safety
/// `block` is readable and writable for 64 vectors, aligned, and no reference to them lives. `key` points at
/// a round's first plane, at most 28 behind the first of [`KEY_PLANES`], all of which are readable and
/// aligned. The CPU has the features of `V`.
#[inline(always)]
unsafe fn round<V: Planes, const SWAPPED: bool>(block: *mut V, key: *const V) {
    // The pointer, and so the planes, are opaque to the compiler: otherwise it does carry them, in some builds and
    // not in others, which costs a sixth.
    let block = core::hint::black_box(block);
    macro_rules! boxes {
        ($($number:literal $circuit:ident)*) => { $( {
            const N: usize = $number;
            let (left, right) = if SWAPPED { (32, 0) } else { (0, 32) };
            // SAFETY: the contract: INITIAL has numbers below 64, and KEY_AT numbers of planes behind a
            // round's first.
            unsafe {
                let four = circuits::$circuit(core::array::from_fn(|m| {
                    (*block.add(INITIAL[right + (4 * N + m + 31) % 32])).xor(*key.add(KEY_AT[6 * N + m]))
                }));
                for (q, bit) in four.into_iter().enumerate() {
                    let left = block.add(INITIAL[left + AFTER_P[4 * N + q]]);
                    *left = (*left).xor(bit);
                }
            }
        } )* };
    }
    boxes!(0 s1 1 s2 2 s3 3 s4 4 s5 5 s6 6 s7 7 s8);
}

/// Runs sixteen rounds. The halves stay in place: the result of the last round comes first in the output.
#[inline(always)]
fn pass<V: Planes, const SWAPPED: bool>(block: &mut [V; 64], key: &[V; KEY_PLANES], direction: Direction) {
    let (block, key) = (block.as_mut_ptr(), key.as_ptr());
    for pair in 0..8 {
        let rotation = |round: usize| {
            ROTATIONS[match direction {
                Direction::Encrypt => round,
                Direction::Decrypt => 15 - round,
            }] as usize
        };
        // SAFETY: rotations are at most 28, and KEY_AT + 28 at most 111.
        unsafe {
            match SWAPPED {
                false => round::<V, false>(block, key.add(rotation(2 * pair))),
                true => round::<V, true>(block, key.add(rotation(2 * pair))),
            }
            match SWAPPED {
                false => round::<V, true>(block, key.add(rotation(2 * pair + 1))),
                true => round::<V, false>(block, key.add(rotation(2 * pair + 1))),
            }
        }
    }
}

/// Transforms one block of every way, with `passes` keys (1 or 3). Planes 2i and 2i + 1 come out exchanged, because
/// the halves do.
#[inline(always)]
fn crypt<V: Planes>(keys: &[[V; KEY_PLANES]; 3], passes: usize, direction: Direction, block: &mut [V; 64]) {
    let back = match direction {
        Direction::Encrypt => Direction::Decrypt,
        Direction::Decrypt => Direction::Encrypt,
    };
    for number in 0..passes {
        // Triple DES runs its middle key in the other direction, on exchanged halves, so the roles here are exchanged
        // too.
        let key = &keys[if matches!(direction, Direction::Encrypt) { number } else { passes - 1 - number }];
        if number == 1 {
            pass::<V, true>(block, key, back);
        } else {
            pass::<V, false>(block, key, direction);
        }
    }
}

/// The kernel has `E` 64-bit elements, with a way per bit, and `L = 64 * E`.
pub(crate) struct Sliced<V: Staged, const L: usize> {
    mode: Mode,
    direction: Direction,
    passes: usize,
    crypt_chunks: unsafe fn(&mut Self, &mut Rows<L>, usize),
    /// C || D of every way and pass, in the order of [`Self::place`].
    keys: [[u64; L]; 3],
    /// IVs of the ways in `fresh`, in the same order.
    ivs: [u64; L],
    /// Ways set since the last run, one bit per way, as in a plane.
    fresh: [u64; 8],
    stale_keys: bool,
    key_planes: [[V; KEY_PLANES]; 3],
    /// The last sealed block is the first one; encrypting leaves it with planes 2i and 2i + 1 exchanged. Then the
    /// next.
    chains: [[V; 64]; 2],
    /// A block besides the chain, on which decryption works.
    block: [V; 64],
    half: Half<V>,
    /// The blocks of a chunk.
    blocks: [Block<V>; 8],
}

impl<V: Staged, const L: usize> Drop for Sliced<V, L> {
    fn drop(&mut self) {
        let zero = self.block[0].xor(self.block[0]);
        wipe(&mut self.keys, [0; L]);
        wipe(&mut self.key_planes[..self.passes], [zero; KEY_PLANES]);
        wipe(&mut self.blocks, [zero; 65]);
        wipe(&mut self.chains, [zero; 64]);
        wipe(&mut self.block, zero);
        wipe(&mut self.half, [zero; 8]);
    }
}

impl<V: Staged, const L: usize> Sliced<V, L> {
    fn new(
        mode: Mode,
        direction: Direction,
        passes: usize,
        zero: V,
        crypt_chunks: unsafe fn(&mut Self, &mut Rows<L>, usize),
    ) -> Self {
        Self {
            mode,
            direction,
            passes,
            crypt_chunks,
            keys: [[0; L]; 3],
            ivs: [0; L],
            fresh: [0; 8],
            stale_keys: true,
            key_planes: [[zero; KEY_PLANES]; 3],
            chains: [[zero; 64]; 2],
            block: [zero; 64],
            half: [[zero; 8]; 8],
            blocks: [[zero; 65]; 8],
        }
    }

    /// Returns the place of a way: way `64 e + i` is element e of row i.
    const fn place(way: usize) -> usize {
        way % 64 * V::ELEMENTS + way / 64
    }

    /// Returns the index of plane `i` of the chain.
    fn chain_plane(&self, i: usize) -> usize {
        if self.direction == Direction::Encrypt { i ^ 1 } else { i }
    }

    /// Converts keys and IVs of fresh ways to planes.
    #[inline(always)]
    fn refresh(&mut self) {
        // SAFETY: row i is ELEMENTS of the L = 64 * ELEMENTS words.
        let row = |words: &[u64; L], i: usize| unsafe { V::load(words.as_ptr().add(i * V::ELEMENTS)) };
        if self.stale_keys {
            for (planes, words) in self.key_planes.iter_mut().zip(&self.keys).take(self.passes) {
                transpose(
                    &mut self.half,
                    |i| row(words, i),
                    |n, eight| {
                        for (i, plane) in (8 * n..56).zip(eight) {
                            let at = if i < 28 { i } else { 28 + i };
                            (planes[at], planes[28 + at]) = (plane, plane);
                        }
                    },
                );
            }
            self.stale_keys = false;
        }
        // SAFETY: a vector is at most eight elements.
        let fresh = unsafe { V::load(self.fresh.as_ptr()) };
        let exchanged = self.chain_plane(0);
        let (ivs, chain) = (&self.ivs, &mut self.chains[0]);
        transpose(
            &mut self.half,
            |i| row(ivs, i),
            |n, eight| {
                for (i, iv) in eight.into_iter().enumerate() {
                    let chain = &mut chain[8 * n + (i ^ exchanged)];
                    *chain = V::lut::<0xca>(fresh, iv, *chain);
                }
            },
        );
        self.fresh = [0; 8];
    }

    /// See [`WaysKernel::crypt_chunks`].
    ///
    /// # Safety
    /// The contract of [`WaysKernel::crypt_chunks`].
    #[inline(always)]
    unsafe fn go(&mut self, rows: &mut Rows<L>, chunks: usize) {
        if self.fresh != [0; 8] {
            self.refresh();
        }
        for _ in 0..chunks {
            // SAFETY: the trait's contract: each of the L = 64 * ELEMENTS rows has a chunk to read.
            unsafe { V::load_chunk(rows.source.as_ptr(), &mut self.blocks) };
            match (self.mode, self.direction) {
                (Mode::Cbc, Direction::Encrypt) => self.chunk::<1>(),
                (Mode::Cbc, Direction::Decrypt) => self.chunk::<2>(),
                _ => self.chunk::<0>(),
            }
            // SAFETY: the trait's contract: each of the L = 64 * ELEMENTS rows has a chunk to write.
            unsafe { V::store_chunk(&self.blocks, rows.destination.as_ptr()) };
            rows.advance();
        }
    }

    /// Transforms the eight blocks of a chunk. `HOW` selects ECB, or CBC in both directions.
    #[inline(always)]
    fn chunk<const HOW: u8>(&mut self) {
        let [even, odd] = &mut self.chains;
        for (number, rows) in self.blocks.iter_mut().enumerate() {
            let (chain, next) = if number % 2 == 0 { (&*even, &mut *odd) } else { (&*odd, &mut *even) };
            let block = &mut self.block;
            V::to_planes(rows, &mut self.half, |n, eight| {
                for (i, plane) in eight.into_iter().enumerate() {
                    let at = 8 * n + i;
                    next[at] = if HOW == 1 { plane.xor(chain[at ^ 1]) } else { plane };
                    if HOW == 2 {
                        block[at] = plane;
                    }
                }
            });
            let block = if HOW == 2 { block } else { next };
            crypt(&self.key_planes, self.passes, self.direction, block);
            V::from_planes(rows, &mut self.half, |i| {
                if HOW == 2 { block[i ^ 1].xor(chain[i]) } else { block[i ^ 1] }
            });
        }
    }
}

impl<V: Staged, const L: usize> WaysKernel<'_, L> for Sliced<V, L> {
    fn set(&mut self, way: usize, key: &Schedule, iv: &[u8; 16]) {
        let at = Self::place(way);
        let mut store = |number: usize, cd: u64| {
            let word = &mut self.keys[number][at];
            self.stale_keys |= *word != cd;
            *word = cd;
        };
        match key {
            Schedule::Des(key) => store(0, key.cd),
            Schedule::TripleDes(key) => {
                for (number, key) in key.0.iter().enumerate() {
                    store(number, key.cd);
                }
            }
            _ => {}
        }
        self.ivs[at] = u64::from_le_bytes(iv.as_chunks().0[0]);
        self.fresh[way / 64] |= 1 << (way % 64);
    }

    /// # Safety
    /// The contract of [`WaysKernel::crypt_chunks`].
    unsafe fn crypt_chunks(&mut self, rows: &mut Rows<L>, chunks: usize) {
        // SAFETY: the function that `new` was given has the same contract.
        unsafe { (self.crypt_chunks)(self, rows, chunks) }
    }

    fn finish(&mut self, way: usize, key: &Schedule, rest: &mut [u8], alone: &Alone<'_>) {
        let mut iv = [0; 16];
        let bytes = if self.fresh[way / 64] >> (way % 64) & 1 != 0 {
            self.ivs[Self::place(way)]
        } else {
            (0..64).fold(0, |word, i| word | bit(&self.chains[0][self.chain_plane(i)], way) << i)
        };
        iv[..8].copy_from_slice(&bytes.to_le_bytes());
        alone(key, &iv, rest);
    }
}

/// Returns the portable kernel: 64 ways.
pub(crate) fn portable(mode: Mode, direction: Direction, passes: usize) -> Sliced<u64, 64> {
    /// # Safety
    /// The contract of [`WaysKernel::crypt_chunks`]; no features are needed.
    unsafe fn crypt_chunks(kernel: &mut Sliced<u64, 64>, rows: &mut Rows<64>, chunks: usize) {
        // SAFETY: the contract of this function is that of `go`; plain words need no features.
        unsafe { kernel.go(rows, chunks) }
    }
    Sliced::new(mode, direction, passes, 0, crypt_chunks)
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::*;
    use crate::isa::{Avx2, Avx512};
    use crate::simd::avx2::Y;
    use crate::simd::avx512::Z;

    /// # Safety
    /// The contract of [`WaysKernel::crypt_chunks`]; the CPU has AVX2.
    #[target_feature(enable = "avx2")]
    unsafe fn run_avx2(kernel: &mut Sliced<Y, 256>, rows: &mut Rows<256>, chunks: usize) {
        // SAFETY: the contract of this function is that of `go`, and it has the features of Y.
        unsafe { kernel.go(rows, chunks) }
    }

    /// # Safety
    /// The contract of [`WaysKernel::crypt_chunks`]; the CPU has AVX-512 F and BW, and GFNI.
    #[target_feature(enable = "avx512f,avx512bw,gfni")]
    unsafe fn run_avx512(kernel: &mut Sliced<Z, 512>, rows: &mut Rows<512>, chunks: usize) {
        // SAFETY: the contract of this function is that of `go`, and it has the features of Z.
        unsafe { kernel.go(rows, chunks) }
    }

    /// Returns the kernel with 256 ways of AVX2.
    pub(crate) fn avx2(_: Avx2, mode: Mode, direction: Direction, passes: usize) -> Sliced<Y, 256> {
        Sliced::new(mode, direction, passes, <Y as Planes>::splat(0), run_avx2)
    }

    /// Returns the kernel with 512 ways of AVX-512.
    pub(crate) fn avx512(_: Avx512, mode: Mode, direction: Direction, passes: usize) -> Sliced<Z, 512> {
        Sliced::new(mode, direction, passes, <Z as Planes>::splat(0), run_avx512)
    }
}
#[cfg(target_arch = "x86_64")]
pub(crate) use x86::{avx2, avx512};
