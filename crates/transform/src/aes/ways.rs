//! AES over many messages: 32 ways by VAES, 8 by AES-NI. Constant time.
//!
//! CBC encryption is one long chain of rounds per message; eight vectors of independent messages hide its latency.
//! `unsafe`: rows are read and written under the contract of [`crate::cipher_ways::WaysKernel`].
#![allow(unsafe_code)]

use core::marker::PhantomData;

use super::Key;
use super::vector::{Blocks, Four, One};
use crate::cipher_ways::{Alone, HandOver, Rows, WaysKernel, few_ways_do};
use crate::isa::Features;
use crate::job::CipherJob;
use crate::modes::{Direction, Mode};
use crate::schedule::Schedule;
use crate::wipe::wipe;

/// Vectors in flight.
pub(crate) const GROUPS: usize = 8;

/// Keys and chains of `L = GROUPS * B::WAYS` ways. Keys come first, so that no load of them crosses a cache line.
#[repr(C, align(64))]
pub(crate) struct Chains<'k, B, const L: usize> {
    keys: [[[u8; 16]; L]; 15],
    /// For CBC: the last sealed block. For CTR: the counter, least significant byte first.
    chain: [[u8; 16]; L],
    rounds: usize,
    /// The owner of each way's keys.
    held: [Option<&'k Key>; L],
    vector: PhantomData<B>,
}

impl<B, const L: usize> Drop for Chains<'_, B, L> {
    fn drop(&mut self) {
        wipe(&mut self.keys[..=self.rounds], [[0; 16]; L]);
        wipe(&mut self.chain, [0; 16]);
    }
}

impl<'k, B: Blocks, const L: usize> Chains<'k, B, L> {
    /// Makes ways for keys with that many rounds, at most 14.
    pub(crate) fn new(rounds: usize) -> Self {
        let (keys, chain) = ([[[0; 16]; L]; 15], [[0; 16]; L]);
        Self { keys, chain, rounds, held: [None; L], vector: PhantomData }
    }

    /// Gives a way a key for one direction.
    pub(crate) fn hold(&mut self, way: usize, key: &'k Key, direction: Direction) {
        if self.held[way].is_some_and(|held| core::ptr::eq(held, key)) {
            return;
        }
        self.held[way] = Some(key);
        let from = if direction == Direction::Decrypt { &key.decrypt } else { &key.encrypt };
        for (ways, key) in self.keys[..=self.rounds].iter_mut().zip(from) {
            ways[way] = *key;
        }
    }

    /// Returns the number of rounds of the keys.
    pub(crate) fn rounds(&self) -> usize {
        self.rounds
    }

    /// Returns a way's chain.
    pub(crate) fn chain(&mut self, way: usize) -> &mut [u8; 16] {
        &mut self.chain[way]
    }

    /// Returns whether all ways that have a key have the same one, which is then loaded once for all vectors.
    #[inline(always)]
    pub(crate) fn have_one_key(&self) -> bool {
        let first = self.held[0].map_or(core::ptr::null(), core::ptr::from_ref);
        self.held.iter().flatten().all(|&held| core::ptr::eq(held, first))
    }

    /// Returns the key of a round for a group of ways.
    #[inline(always)]
    pub(crate) fn key<const ONE_KEY: bool>(&self, round: usize, n: usize) -> B {
        let keys = self.keys[round].as_ptr();
        // SAFETY: L = GROUPS * WAYS keys a round, rounds at most 14.
        unsafe { if ONE_KEY { B::broadcast(keys) } else { B::load(keys.add(n * B::WAYS)) } }
    }

    /// Returns the chains of all ways.
    #[inline(always)]
    pub(crate) fn loaded(&self) -> [B; GROUPS] {
        let mut chain = [B::zero(); GROUPS];
        for (n, chain) in chain.iter_mut().enumerate() {
            // SAFETY: L = GROUPS * WAYS blocks.
            *chain = unsafe { B::load(self.chain.as_ptr().add(n * B::WAYS)) };
        }
        chain
    }

    /// Keeps the chains of all ways.
    #[inline(always)]
    pub(crate) fn keep(&mut self, chain: [B; GROUPS]) {
        for (n, chain) in chain.into_iter().enumerate() {
            // SAFETY: L = GROUPS * WAYS blocks.
            unsafe { chain.store(self.chain.as_mut_ptr().add(n * B::WAYS)) };
        }
    }

    /// Runs one round of every way, neither the first nor the last.
    #[inline(always)]
    fn round<const DECRYPT: bool, const ONE_KEY: bool>(&self, round: usize, block: &mut [B; GROUPS]) {
        for (n, block) in block.iter_mut().enumerate() {
            let key = self.key::<ONE_KEY>(round, n);
            *block = if DECRYPT { block.decrypt(key) } else { block.encrypt(key) };
        }
    }
}

/// Ways of a mode.
#[repr(C, align(64))]
pub(crate) struct AesWays<'k, B, const L: usize> {
    chains: Chains<'k, B, L>,
    mode: Mode,
    direction: Direction,
    crypt_chunks: unsafe fn(&mut Self, &mut Rows<L>, usize),
}

impl<B: Blocks, const L: usize> AesWays<'_, B, L> {
    fn new(
        mode: Mode,
        direction: Direction,
        rounds: usize,
        crypt_chunks: unsafe fn(&mut Self, &mut Rows<L>, usize),
    ) -> Self {
        Self { chains: Chains::new(rounds), mode, direction, crypt_chunks }
    }

    /// `HOW` selects ECB in both directions, CBC in both directions, or CTR. `ONE_KEY` says that all ways with a
    /// message have the same key.
    ///
    /// The next block is loaded and the last one stored between the rounds of a block: its rounds fill the queue of
    /// their execution units, so instructions behind them would not be issued.
    ///
    /// # Safety
    /// The contract of [`WaysKernel::crypt_chunks`].
    #[inline(always)]
    unsafe fn chunks<const HOW: u8, const DECRYPT: bool, const ONE_KEY: bool>(
        &mut self,
        rows: &mut Rows<L>,
        chunks: usize,
    ) {
        let mut chain = self.chains.loaded();
        let (mut next, mut made) = ([B::zero(); GROUPS], [B::zero(); GROUPS]);
        for _ in 0..chunks {
            macro_rules! load {
                ($n:expr, $number:expr) => {
                    // SAFETY: WAYS rows from n * WAYS on, each with a chunk to read, by the contract;
                    // $number is below 4.
                    unsafe { B::load_rows(rows.source.as_ptr().add($n * B::WAYS), 16 * $number) }
                };
            }
            macro_rules! store {
                ($n:expr, $number:expr) => {
                    // SAFETY: WAYS rows from n * WAYS on, each with a chunk to write, by the contract;
                    // $number is below 4.
                    unsafe { made[$n].store_rows(rows.destination.as_ptr().add($n * B::WAYS), 16 * $number) }
                };
            }
            macro_rules! block {
                ($number:literal: $($n:literal)*) => {
                    if !B::AHEAD || $number == 0 {
                        for (n, next) in next.iter_mut().enumerate() {
                            *next = load!(n, $number);
                        }
                    }
                    let input = next;
                    let mut block = input;
                    for n in 0..GROUPS {
                        let first = match HOW {
                            2 => input[n].xor(chain[n]),
                            4 => chain[n].reverse(),
                            _ => input[n],
                        };
                        block[n] = first.xor(self.chains.key::<ONE_KEY>(0, n));
                    }
                    $(
                        self.chains.round::<DECRYPT, ONE_KEY>(1 + $n, &mut block);
                        if B::AHEAD && $number < 3 {
                            next[$n] = load!($n, $number + 1);
                        }
                        if B::AHEAD && $number > 0 {
                            store!($n, $number - 1);
                        }
                    )*
                    for round in 1 + GROUPS..self.chains.rounds {
                        self.chains.round::<DECRYPT, ONE_KEY>(round, &mut block);
                    }
                    for n in 0..GROUPS {
                        let key = self.chains.key::<ONE_KEY>(self.chains.rounds, n);
                        let last = if DECRYPT { block[n].decrypt_last(key) } else { block[n].encrypt_last(key) };
                        (made[n], chain[n]) = match HOW {
                            2 => (last, last),
                            3 => (last.xor(chain[n]), input[n]),
                            4 => (last.xor(input[n]), chain[n].increment()),
                            _ => (last, chain[n]),
                        };
                        if !B::AHEAD || $number == 3 {
                            store!(n, $number);
                        }
                    }
                };
            }
            block!(0: 0 1 2 3 4 5 6 7);
            block!(1: 0 1 2 3 4 5 6 7);
            block!(2: 0 1 2 3 4 5 6 7);
            block!(3: 0 1 2 3 4 5 6 7);
            rows.advance();
        }
        self.chains.keep(chain);
    }

    /// See [`WaysKernel::crypt_chunks`].
    ///
    /// # Safety
    /// The contract of [`WaysKernel::crypt_chunks`].
    #[inline(always)]
    unsafe fn go(&mut self, rows: &mut Rows<L>, chunks: usize) {
        let one_key = self.chains.have_one_key();
        macro_rules! chunks {
            ($how:literal, $decrypt:literal) => {
                // SAFETY: the contract of this function is that of `chunks`; `one_key` was compared.
                unsafe {
                    if one_key {
                        self.chunks::<$how, $decrypt, true>(rows, chunks);
                    } else {
                        self.chunks::<$how, $decrypt, false>(rows, chunks);
                    }
                }
            };
        }
        match (self.mode, self.direction) {
            (Mode::Ecb, Direction::Encrypt) => chunks!(0, false),
            (Mode::Ecb, Direction::Decrypt) => chunks!(1, true),
            (Mode::Cbc, Direction::Encrypt) => chunks!(2, false),
            (Mode::Cbc, Direction::Decrypt) => chunks!(3, true),
            (Mode::Ctr, _) => chunks!(4, false),
        }
    }
}

impl<'k, B: Blocks, const L: usize> WaysKernel<'k, L> for AesWays<'k, B, L> {
    fn set(&mut self, way: usize, key: &'k Schedule, iv: &[u8; 16]) {
        let Some(key) = super::key_of(key) else { return };
        let chain = self.chains.chain(way);
        *chain = *iv;
        if self.mode == Mode::Ctr {
            chain.reverse();
        }
        let direction = if self.mode == Mode::Ctr { Direction::Encrypt } else { self.direction };
        self.chains.hold(way, key, direction);
    }

    /// # Safety
    /// The contract of [`WaysKernel::crypt_chunks`].
    unsafe fn crypt_chunks(&mut self, rows: &mut Rows<L>, chunks: usize) {
        // SAFETY: the function that `new` was given has the same contract.
        unsafe { (self.crypt_chunks)(self, rows, chunks) }
    }

    fn finish(&mut self, way: usize, key: &Schedule, rest: &mut [u8], alone: &Alone<'_>) {
        let mut iv = *self.chains.chain(way);
        if self.mode == Mode::Ctr {
            iv.reverse();
        }
        alone(key, &iv, rest);
    }
}

/// # Safety
/// The contract of [`WaysKernel::crypt_chunks`]; the CPU has AES-NI, SSE4.1, SSSE3 and AVX2.
#[target_feature(enable = "aes,sse4.1,ssse3,avx2")]
unsafe fn run_avx2(kernel: &mut AesWays<'_, One, 8>, rows: &mut Rows<8>, chunks: usize) {
    // SAFETY: the contract of this function is that of `go`, and it has the features of One.
    unsafe { kernel.go(rows, chunks) }
}

/// # Safety
/// The contract of [`WaysKernel::crypt_chunks`]; the CPU has AVX-512 F, BW and VL, and VAES.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes")]
unsafe fn run_avx512(kernel: &mut AesWays<'_, Four, 32>, rows: &mut Rows<32>, chunks: usize) {
    // SAFETY: the contract of this function is that of `go`, and it has the features of Four.
    unsafe { kernel.go(rows, chunks) }
}

/// Runs AES 32 ways at once by VAES, or eight by AES-NI if there are few messages.
pub(crate) fn run_widest(
    features: Features,
    mode: Mode,
    direction: Direction,
    jobs: &mut [CipherJob<'_>],
    order: &[u16],
    hand_over: &HandOver<'_>,
) {
    // All jobs are of one algorithm.
    let first = order.first().and_then(|&first| super::key_of(jobs[usize::from(first)].key.schedule()));
    let rounds = first.map_or(0, |key| key.rounds);
    let narrow = few_ways_do(jobs, order, 8, 32, (7, 2));
    match (features.avx512.filter(|_| !narrow), features.avx2) {
        (Some(_), _) => {
            let kernel = &mut AesWays::<Four, 32>::new(mode, direction, rounds, run_avx512);
            crate::cipher_ways::run_jobs(kernel, jobs, order, hand_over);
        }
        (_, Some(_)) => {
            let kernel = &mut AesWays::<One, 8>::new(mode, direction, rounds, run_avx2);
            crate::cipher_ways::run_jobs(kernel, jobs, order, hand_over);
        }
        _ => {}
    }
}
