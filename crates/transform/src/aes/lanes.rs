//! AES over many messages: 32 lanes by VAES, 8 by AES-NI. Constant time.
//!
//! CBC encryption is one long chain of rounds a message; eight vectors of independent messages hide its latency.
//! `unsafe`: rows are read and written under the contract of [`crate::lanes::LaneKernel`].
#![allow(unsafe_code)]

use core::marker::PhantomData;

use super::vector::{Blocks, Four, One};
use crate::catalogue::Mode;
use crate::isa::{Avx2, Avx512};
use crate::job::Direction;
use crate::key::Schedule;
use crate::lanes::{Alone, LaneKernel, Rows};
use crate::wipe::wipe;

/// Vectors in flight.
const GROUPS: usize = 8;

/// Keys and chains of `L = GROUPS * B::LANES` lanes. Keys first, so that no load of them crosses a cache line.
#[repr(C, align(64))]
pub(crate) struct AesLanes<B, const L: usize> {
    keys: [[[u8; 16]; L]; 15],
    /// CBC: the last sealed block. CTR: the counter, least significant byte first.
    chain: [[u8; 16]; L],
    mode: Mode,
    direction: Direction,
    rounds: usize,
    run: unsafe fn(&mut Self, &mut Rows<L>, usize),
    vector: PhantomData<B>,
}

impl<B, const L: usize> Drop for AesLanes<B, L> {
    fn drop(&mut self) {
        wipe(&mut self.keys[..=self.rounds], [[0; 16]; L]);
        wipe(&mut self.chain, [0; 16]);
    }
}

impl<B: Blocks, const L: usize> AesLanes<B, L> {
    fn new(
        mode: Mode,
        direction: Direction,
        rounds: usize,
        run: unsafe fn(&mut Self, &mut Rows<L>, usize),
    ) -> Self {
        let (keys, chain) = ([[[0; 16]; L]; 15], [[0; 16]; L]);
        Self { mode, direction, rounds, keys, chain, run, vector: PhantomData }
    }

    /// One block of every lane.
    #[inline(always)]
    fn crypt<const DECRYPT: bool>(&self, block: &mut [B; GROUPS]) {
        // SAFETY: L = GROUPS * LANES keys a round, rounds at most 14.
        let key = |round: usize, n: usize| unsafe { B::load(self.keys[round].as_ptr().add(n * B::LANES)) };
        for (n, block) in block.iter_mut().enumerate() {
            *block = block.xor(key(0, n));
        }
        for round in 1..self.rounds {
            for (n, block) in block.iter_mut().enumerate() {
                *block = if DECRYPT { block.decrypt(key(round, n)) } else { block.encrypt(key(round, n)) };
            }
        }
        for (n, block) in block.iter_mut().enumerate() {
            let key = key(self.rounds, n);
            *block = if DECRYPT { block.decrypt_last(key) } else { block.encrypt_last(key) };
        }
    }

    /// `HOW`: ECB both ways, CBC both ways, CTR.
    #[inline(always)]
    unsafe fn chunks<const HOW: u8>(&mut self, rows: &mut Rows<L>, chunks: usize) {
        let mut chain = [B::zero(); GROUPS];
        for (n, chain) in chain.iter_mut().enumerate() {
            // SAFETY: L = GROUPS * LANES blocks.
            *chain = unsafe { B::load(self.chain.as_ptr().add(n * B::LANES)) };
        }
        // Kept outside the loop, as clearing an array this large is a call of memset.
        let mut x = [[B::zero(); 4]; GROUPS];
        for _ in 0..chunks {
            for (n, x) in x.iter_mut().enumerate() {
                // SAFETY: LANES rows from n * LANES on, each with a chunk to read.
                *x = unsafe { B::load_rows(rows.source.as_ptr().add(n * B::LANES)) };
            }
            #[expect(clippy::needless_range_loop, reason = "the index runs across the groups, inside them")]
            for number in 0..4 {
                let mut block = [B::zero(); GROUPS];
                for n in 0..GROUPS {
                    let input = x[n][number];
                    block[n] = match HOW {
                        2 => input.xor(chain[n]),
                        4 => chain[n].reverse(),
                        _ => input,
                    };
                }
                if matches!(HOW, 1 | 3) {
                    self.crypt::<true>(&mut block);
                } else {
                    self.crypt::<false>(&mut block);
                }
                for n in 0..GROUPS {
                    let input = x[n][number];
                    x[n][number] = match HOW {
                        3 => block[n].xor(chain[n]),
                        4 => block[n].xor(input),
                        _ => block[n],
                    };
                    chain[n] = match HOW {
                        2 => block[n],
                        3 => input,
                        4 => chain[n].increment(),
                        _ => chain[n],
                    };
                }
            }
            for (n, x) in x.iter().enumerate() {
                // SAFETY: as at the load, with a chunk to write.
                unsafe { B::store_rows(*x, rows.destination.as_ptr().add(n * B::LANES)) };
            }
            rows.advance();
        }
        for (n, chain) in chain.into_iter().enumerate() {
            // SAFETY: as at the load.
            unsafe { chain.store(self.chain.as_mut_ptr().add(n * B::LANES)) };
        }
    }

    #[inline(always)]
    unsafe fn go(&mut self, rows: &mut Rows<L>, chunks: usize) {
        match (self.mode, self.direction) {
            // SAFETY: the caller keeps LaneKernel's contract.
            (Mode::Ecb, Direction::Encrypt) => unsafe { self.chunks::<0>(rows, chunks) },
            // SAFETY: as above.
            (Mode::Ecb, Direction::Decrypt) => unsafe { self.chunks::<1>(rows, chunks) },
            // SAFETY: as above.
            (Mode::Cbc, Direction::Encrypt) => unsafe { self.chunks::<2>(rows, chunks) },
            // SAFETY: as above.
            (Mode::Cbc, Direction::Decrypt) => unsafe { self.chunks::<3>(rows, chunks) },
            // SAFETY: as above.
            (Mode::Ctr, _) => unsafe { self.chunks::<4>(rows, chunks) },
        }
    }
}

impl<B: Blocks, const L: usize> LaneKernel<'_, L> for AesLanes<B, L> {
    fn set(&mut self, lane: usize, key: &Schedule, iv: &[u8; 16]) {
        let Schedule::Aes(key) = key else { return };
        let backward = self.direction == Direction::Decrypt && self.mode != Mode::Ctr;
        let from = if backward { &key.decrypt } else { &key.encrypt };
        for (lanes, key) in self.keys[..=self.rounds].iter_mut().zip(from) {
            lanes[lane] = *key;
        }
        self.chain[lane] = *iv;
        if self.mode == Mode::Ctr {
            self.chain[lane].reverse();
        }
    }

    unsafe fn run(&mut self, rows: &mut Rows<L>, chunks: usize) {
        // SAFETY: the caller keeps the trait's contract.
        unsafe { (self.run)(self, rows, chunks) }
    }

    fn finish(&mut self, lane: usize, key: &Schedule, rest: &mut [u8], alone: &Alone<'_>) {
        let mut iv = self.chain[lane];
        if self.mode == Mode::Ctr {
            iv.reverse();
        }
        alone(key, &iv, rest);
    }
}

#[target_feature(enable = "aes,sse4.1,ssse3,avx2")]
unsafe fn run_avx2(kernel: &mut AesLanes<One, 8>, rows: &mut Rows<8>, chunks: usize) {
    // SAFETY: the caller keeps LaneKernel's contract.
    unsafe { kernel.go(rows, chunks) }
}

#[target_feature(enable = "avx512f,avx512bw,vaes")]
unsafe fn run_avx512(kernel: &mut AesLanes<Four, 32>, rows: &mut Rows<32>, chunks: usize) {
    // SAFETY: the caller keeps LaneKernel's contract.
    unsafe { kernel.go(rows, chunks) }
}

/// 8 lanes of AES-NI.
pub(crate) fn avx2(_: Avx2, mode: Mode, direction: Direction, rounds: usize) -> AesLanes<One, 8> {
    AesLanes::new(mode, direction, rounds, run_avx2)
}

/// 32 lanes of VAES.
pub(crate) fn avx512(_: Avx512, mode: Mode, direction: Direction, rounds: usize) -> AesLanes<Four, 32> {
    AesLanes::new(mode, direction, rounds, run_avx512)
}
