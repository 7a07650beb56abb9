//! Many messages side by side for ciphers with blocks of four 16-bit words, big-endian: the common part of IDEA and Blowfish by
//! permutations.
//!
//! `unsafe`: rows are read and written under the contract of [`crate::cipher_ways::WaysKernel`].
#![allow(unsafe_code)]

use crate::cipher_ways::Rows;
use crate::modes::{Direction, Mode};
use crate::simd::shorts::{Shorts, carried, place};
use crate::wipe::wipe;

/// A cipher with its keys, for `G` vectors side by side.
pub(crate) trait Rounds<V, const G: usize>: Copy {
    /// Encrypts or decrypts one block of every way.
    fn crypt(self, block: &mut [[V; G]; 4]);
}

/// The chaining of `L` ways from block to block; way l is at `place(l)` of a row.
#[repr(C, align(64))]
pub(crate) struct Chains<const L: usize> {
    /// For CBC: the last sealed block. For CTR: the counter, most significant word first.
    words: [[u16; L]; 4],
    mode: Mode,
    direction: Direction,
    /// Elements of a vector.
    shorts: usize,
}

impl<const L: usize> Drop for Chains<L> {
    fn drop(&mut self) {
        wipe(&mut self.words, [0; L]);
    }
}

impl<const L: usize> Chains<L> {
    pub(crate) fn new(mode: Mode, direction: Direction, shorts: usize) -> Self {
        Self { words: [[0; L]; 4], mode, direction, shorts }
    }

    /// Returns whether blocks run through the cipher's inverse.
    pub(crate) fn backward(&self) -> bool {
        self.direction == Direction::Decrypt && self.mode != Mode::Ctr
    }

    /// Prepares a way.
    pub(crate) fn set(&mut self, way: usize, iv: &[u8; 16]) {
        let at = place(way, self.shorts);
        for (row, bytes) in self.words.iter_mut().zip(iv.as_chunks::<2>().0) {
            row[at] = u16::from_be_bytes(*bytes);
        }
    }

    /// Returns the IV from which a way's message continues.
    pub(crate) fn iv(&self, way: usize) -> [u8; 16] {
        let (at, mut iv) = (place(way, self.shorts), [0; 16]);
        for (row, bytes) in self.words.iter().zip(iv.as_chunks_mut::<2>().0) {
            *bytes = row[at].to_be_bytes();
        }
        iv
    }

    /// See [`crate::cipher_ways::WaysKernel::crypt_chunks`].
    ///
    /// # Safety
    /// The contract of [`crate::cipher_ways::WaysKernel::crypt_chunks`], and `G * V::SHORTS` is `L`. The CPU
    /// has the features of `V` and of `rounds`.
    #[inline(always)]
    pub(crate) unsafe fn crypt_chunks<V: Shorts, const G: usize>(
        &mut self,
        rows: &mut Rows<L>,
        chunks: usize,
        rounds: impl Rounds<V, G>,
    ) {
        debug_assert_eq!(G * V::SHORTS, L);
        match (self.mode, self.direction) {
            // SAFETY: the contract of this function is that of `crypt_chunks_as`.
            (Mode::Ecb, _) => unsafe { self.crypt_chunks_as::<V, G, 0>(rows, chunks, rounds) },
            // SAFETY: the contract of this function is that of `crypt_chunks_as`.
            (Mode::Cbc, Direction::Encrypt) => unsafe {
                self.crypt_chunks_as::<V, G, 1>(rows, chunks, rounds)
            },
            // SAFETY: the contract of this function is that of `crypt_chunks_as`.
            (Mode::Cbc, Direction::Decrypt) => unsafe {
                self.crypt_chunks_as::<V, G, 2>(rows, chunks, rounds)
            },
            // SAFETY: the contract of this function is that of `crypt_chunks_as`.
            (Mode::Ctr, _) => unsafe { self.crypt_chunks_as::<V, G, 3>(rows, chunks, rounds) },
        }
    }

    /// `HOW` selects ECB, CBC in both directions, or CTR.
    ///
    /// # Safety
    /// The contract of [`crate::cipher_ways::WaysKernel::crypt_chunks`], and `G * V::SHORTS` is `L`. The CPU
    /// has the features of `V` and of `rounds`.
    #[inline(always)]
    unsafe fn crypt_chunks_as<V: Shorts, const G: usize, const HOW: u8>(
        &mut self,
        rows: &mut Rows<L>,
        chunks: usize,
        rounds: impl Rounds<V, G>,
    ) {
        let mut chain = [[V::zero(); G]; 4];
        for (row, groups) in self.words.iter().zip(&mut chain) {
            for (n, group) in groups.iter_mut().enumerate() {
                // SAFETY: group n of [u16; L], L = G * SHORTS.
                *group = unsafe { V::load(row.as_ptr().add(n * V::SHORTS).cast()) };
            }
        }
        // The array is outside the loop and borrowed, because copies of arrays this large are calls of memcpy.
        let mut x = [[V::zero(); 32]; G];
        for _ in 0..chunks {
            for (n, x) in x.iter_mut().enumerate() {
                // SAFETY: the contract: SHORTS rows from n * SHORTS on, each with a chunk to read.
                unsafe { V::load_short_rows(rows.source.as_ptr().add(n * V::SHORTS), 0, x) };
            }
            for number in 0..8 {
                let mut input = [[V::zero(); G]; 4];
                for i in 0..4 {
                    for n in 0..G {
                        input[i][n] = x[n][4 * number + i].swap_pairs();
                    }
                }
                let xor = |mut left: [[V; G]; 4], right: &[[V; G]; 4]| {
                    for i in 0..4 {
                        for n in 0..G {
                            left[i][n] = left[i][n].xor(right[i][n]);
                        }
                    }
                    left
                };
                let mut block = match HOW {
                    1 => xor(input, &chain),
                    3 => chain,
                    _ => input,
                };
                rounds.crypt(&mut block);
                match HOW {
                    1 => chain = block,
                    2 => {
                        block = xor(block, &chain);
                        chain = input;
                    }
                    3 => {
                        block = xor(block, &input);
                        for n in 0..G {
                            let mut carry = V::splat(0x0001_0001);
                            for word in chain.iter_mut().rev() {
                                let old = word[n];
                                word[n] = old.add16(carry);
                                carry = carried(old, word[n]);
                            }
                        }
                    }
                    _ => {}
                }
                for i in 0..4 {
                    for n in 0..G {
                        x[n][4 * number + i] = block[i][n].swap_pairs();
                    }
                }
            }
            for (n, x) in x.iter().enumerate() {
                // SAFETY: the contract: SHORTS rows from n * SHORTS on, each with a chunk to write.
                unsafe { V::store_short_rows(x, rows.destination.as_ptr().add(n * V::SHORTS)) };
            }
            rows.advance();
        }
        for (row, groups) in self.words.iter_mut().zip(chain) {
            for (n, group) in groups.into_iter().enumerate() {
                // SAFETY: group n of [u16; L], L = G * SHORTS.
                unsafe { group.store(row.as_mut_ptr().add(n * V::SHORTS).cast()) };
            }
        }
    }
}
