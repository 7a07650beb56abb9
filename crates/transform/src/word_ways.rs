//! Multi-way kernels for ciphers of 32-bit words (RC5, RC6): `G` groups of vectors side by side.
//!
//! Latency limits these ciphers, so several groups run interleaved. `unsafe`: rows are read and written under the
//! contract of [`crate::cipher_ways::WaysKernel`].
#![allow(unsafe_code)]

use core::marker::PhantomData;

use crate::cipher_ways::{Alone, Rows, WaysKernel};
use crate::modes::{Direction, Mode};
use crate::schedule::Schedule;
use crate::simd::Words;
use crate::wipe::wipe;

/// Words of the largest key (RC6).
const KEY_WORDS: usize = 44;

/// Half a chunk. Halves of chunks are transposed during the rounds of the others, with fewer shuffles than whole
/// chunks.
const HALF: usize = 32;

/// A cipher over 32-bit little-endian words.
pub(crate) trait WordCipher {
    /// Words of a block: 2 or 4.
    const WORDS: usize;

    /// Returns the key's words, and maybe more behind them.
    fn words(key: &Schedule) -> &[u32];

    /// Encrypts or decrypts one block of every way; `key(i)` returns word i of the ways' keys by group. Only the
    /// first [`Self::WORDS`] of `block` are used.
    fn crypt<V: Words, const G: usize>(
        direction: Direction,
        key_words: usize,
        key: impl Fn(usize, usize) -> V,
        block: &mut [[V; G]; 4],
    );
}

/// The key of a way without a message.
static NO_KEY: [u32; KEY_WORDS] = [0; KEY_WORDS];

/// Keys, chains and the functions that run them. Keys come first, so that no load of them crosses a cache line.
#[repr(C, align(64))]
pub(crate) struct WordWays<'k, C, const L: usize> {
    keys: [[u32; L]; KEY_WORDS],
    /// For CBC: the last sealed block. For CTR: the counter, most significant word first.
    chain: [[u32; L]; 4],
    mode: Mode,
    direction: Direction,
    key_words: usize,
    /// Pointers to the ways' keys, with `key_words` words each, which live as long as 'k.
    words: [*const u8; L],
    /// One bit per [`Self::WAYS_A_BIT`] ways, set if some of their keys are not among `keys` yet.
    changed: u64,
    crypt_chunks: unsafe fn(&mut Self, &mut Rows<L>, usize),
    cipher: PhantomData<(C, &'k Schedule)>,
}

impl<C, const L: usize> Drop for WordWays<'_, C, L> {
    fn drop(&mut self) {
        wipe(&mut self.keys[..self.key_words], [0; L]);
        wipe(&mut self.chain, [0; L]);
    }
}

/// Adds one to the counters, whose words come most significant first.
#[inline(always)]
fn increment<V: Words, const G: usize>(counter: &mut [[V; G]; 4], words: usize) {
    for n in 0..G {
        let mut carry = V::splat(1);
        for word in counter[..words].iter_mut().rev() {
            let old = word[n];
            word[n] = old.add(carry);
            // The top bit falls only when the word wraps.
            carry = old.and(word[n].not()).shr::<31>();
        }
    }
}

impl<C: WordCipher, const L: usize> WordWays<'_, C, L> {
    /// Number of ways that share a bit of `changed`: they belong to one vector.
    const WAYS_A_BIT: usize = L.div_ceil(u64::BITS as usize);

    pub(crate) fn new(
        mode: Mode,
        direction: Direction,
        key_words: usize,
        crypt_chunks: unsafe fn(&mut Self, &mut Rows<L>, usize),
    ) -> Self {
        Self {
            mode,
            direction,
            key_words,
            keys: [[0; L]; KEY_WORDS],
            chain: [[0; L]; 4],
            words: [NO_KEY.as_ptr().cast(); L],
            changed: 0,
            crypt_chunks,
            cipher: PhantomData,
        }
    }

    /// See [`WaysKernel::crypt_chunks`]; `G * V::WAYS` is `L`.
    ///
    /// # Safety
    /// The contract of [`WaysKernel::crypt_chunks`], and `G * V::WAYS` is `L`. The CPU has the features of
    /// `V`.
    #[inline(always)]
    pub(crate) unsafe fn go<V: Words, const G: usize>(&mut self, rows: &mut Rows<L>, chunks: usize) {
        debug_assert_eq!(G * V::WAYS, L);
        // SAFETY: the contract: G * WAYS ways, and the features; keys of RC5 have 26 words or more, those
        // of RC6 have 44.
        unsafe { self.place_keys::<V, G>() };
        match (self.mode, self.direction) {
            // SAFETY: the contract of this function is that of `chunks`.
            (Mode::Ecb, Direction::Encrypt) => unsafe { self.chunks::<V, G, 0>(rows, chunks) },
            // SAFETY: the contract of this function is that of `chunks`.
            (Mode::Ecb, Direction::Decrypt) => unsafe { self.chunks::<V, G, 1>(rows, chunks) },
            // SAFETY: the contract of this function is that of `chunks`.
            (Mode::Cbc, Direction::Encrypt) => unsafe { self.chunks::<V, G, 2>(rows, chunks) },
            // SAFETY: the contract of this function is that of `chunks`.
            (Mode::Cbc, Direction::Decrypt) => unsafe { self.chunks::<V, G, 3>(rows, chunks) },
            // SAFETY: the contract of this function is that of `chunks`.
            (Mode::Ctr, _) => unsafe { self.chunks::<V, G, 4>(rows, chunks) },
        }
    }

    /// Does as [`Self::go`], for sealing by CBC only.
    ///
    /// # Safety
    /// The contract of [`WaysKernel::crypt_chunks`], and `G * V::WAYS` is `L`. The CPU has the features of
    /// `V`.
    #[inline(always)]
    pub(crate) unsafe fn seal_cbc<V: Words, const G: usize>(&mut self, rows: &mut Rows<L>, chunks: usize) {
        debug_assert_eq!((G * V::WAYS, self.mode, self.direction), (L, Mode::Cbc, Direction::Encrypt));
        // SAFETY: the contract of this function is that of both.
        unsafe {
            self.place_keys::<V, G>();
            self.chunks::<V, G, 2>(rows, chunks);
        }
    }

    /// Copies the keys of groups with a changed way to the place where the rounds read them. Ways mostly change
    /// together, and then a transposition has a fraction of the stores of a copy way by way.
    ///
    /// # Safety
    /// `G * V::WAYS` is `L`, and the CPU has the features of `V`. The kernel's `key_words` is 0, or from
    /// eight to [`KEY_WORDS`]; its pointers to keys are those that `new` and `set` stored.
    #[inline(always)]
    unsafe fn place_keys<V: Words, const G: usize>(&mut self) {
        let changed = core::mem::take(&mut self.changed);
        for n in 0..G {
            let first = n * V::WAYS;
            let bits = (1 << (V::WAYS / Self::WAYS_A_BIT)) - 1;
            if changed >> (first / Self::WAYS_A_BIT) & bits == 0 {
                continue;
            }
            for at in (0..self.key_words).step_by(8) {
                let at = at.min(self.key_words - 8);
                // SAFETY: WAYS keys from `first` on, each with eight words there.
                let words = unsafe { V::load_half_rows(self.words.as_ptr().add(first), 4 * at) };
                for (row, word) in self.keys[at..].iter_mut().zip(words) {
                    // SAFETY: group n of row `at + ..`, L = G * WAYS.
                    unsafe { word.store(row.as_mut_ptr().add(first)) };
                }
            }
        }
    }

    /// `HOW` selects ECB in both directions, CBC in both directions, or CTR.
    ///
    /// # Safety
    /// The contract of [`WaysKernel::crypt_chunks`], and `G * V::WAYS` is `L`. The CPU has the features of
    /// `V`.
    #[inline(always)]
    unsafe fn chunks<V: Words, const G: usize, const HOW: u8>(&mut self, rows: &mut Rows<L>, chunks: usize) {
        let words = C::WORDS;
        let keys = self.keys.as_ptr().cast::<u32>();
        let mut chain = [[V::splat(0); G]; 4];
        for (row, groups) in self.chain.iter().zip(&mut chain) {
            for (n, group) in groups.iter_mut().enumerate() {
                // SAFETY: group n of [u32; L], L = G * WAYS.
                *group = unsafe { V::load(row.as_ptr().add(n * V::WAYS)) };
            }
        }
        // The array is outside the loop and borrowed, because copies of arrays this large are calls of memcpy.
        let mut x = [[V::splat(0); 8]; G];
        for half in 0..2 * chunks {
            let offset = half % 2 * HALF;
            for (n, x) in x.iter_mut().enumerate() {
                // SAFETY: the contract: WAYS rows from n * WAYS on, each with a chunk to read, of which
                // this is a half.
                *x = unsafe { V::load_half_rows(rows.source.as_ptr().add(n * V::WAYS), offset) };
            }
            for number in 0..8 / words {
                let mut block = [[V::splat(0); G]; 4];
                for i in 0..words {
                    for n in 0..G {
                        block[i][n] = x[n][number * words + i];
                    }
                }
                let input = block;
                match HOW {
                    2 => {
                        for i in 0..words {
                            for n in 0..G {
                                block[i][n] = block[i][n].xor(chain[i][n]);
                            }
                        }
                    }
                    4 => {
                        for i in 0..words {
                            for n in 0..G {
                                block[i][n] = chain[i][n].swap_bytes();
                            }
                        }
                    }
                    _ => {}
                }
                let direction = if matches!(HOW, 1 | 3) { Direction::Decrypt } else { Direction::Encrypt };
                // Otherwise some words would stay on the stack from block to block, where they are not wiped.
                let keys = core::hint::black_box(keys);
                // SAFETY: row `word`, group n of [[u32; L]; _], L = G * WAYS.
                let key = |word: usize, n: usize| unsafe { V::load(keys.add(word * L + n * V::WAYS)) };
                C::crypt::<V, G>(direction, self.key_words, key, &mut block);
                match HOW {
                    2 => chain = block,
                    3 | 4 => {
                        let other = if HOW == 3 { chain } else { input };
                        for i in 0..words {
                            for n in 0..G {
                                block[i][n] = block[i][n].xor(other[i][n]);
                            }
                        }
                        if HOW == 3 {
                            chain = input;
                        } else {
                            increment(&mut chain, words);
                        }
                    }
                    _ => {}
                }
                for i in 0..words {
                    for n in 0..G {
                        x[n][number * words + i] = block[i][n];
                    }
                }
            }
            for (n, x) in x.iter().enumerate() {
                // SAFETY: the contract: WAYS rows from n * WAYS on, each with a chunk to write, of which
                // this is a half.
                unsafe { V::store_half_rows(*x, rows.destination.as_ptr().add(n * V::WAYS), offset) };
            }
            if offset != 0 {
                rows.advance();
            }
        }
        for (row, groups) in self.chain.iter_mut().zip(chain) {
            for (n, group) in groups.into_iter().enumerate() {
                // SAFETY: group n of [u32; L], L = G * WAYS.
                unsafe { group.store(row.as_mut_ptr().add(n * V::WAYS)) };
            }
        }
    }
}

impl<'k, C: WordCipher, const L: usize> WaysKernel<'k, L> for WordWays<'k, C, L> {
    fn set(&mut self, way: usize, key: &'k Schedule, iv: &[u8; 16]) {
        self.words[way] = C::words(key)[..self.key_words].as_ptr().cast();
        self.changed |= 1 << (way / Self::WAYS_A_BIT);
        for (row, bytes) in self.chain[..C::WORDS].iter_mut().zip(iv.as_chunks::<4>().0) {
            row[way] = match self.mode {
                Mode::Ctr => u32::from_be_bytes(*bytes),
                _ => u32::from_le_bytes(*bytes),
            };
        }
    }

    /// # Safety
    /// The contract of [`WaysKernel::crypt_chunks`].
    unsafe fn crypt_chunks(&mut self, rows: &mut Rows<L>, chunks: usize) {
        // SAFETY: the function that `new` was given has the same contract.
        unsafe { (self.crypt_chunks)(self, rows, chunks) }
    }

    fn finish(&mut self, way: usize, key: &Schedule, rest: &mut [u8], alone: &Alone<'_>) {
        let mut iv = [0; 16];
        for (row, bytes) in self.chain.iter().zip(iv.as_chunks_mut::<4>().0) {
            *bytes = match self.mode {
                Mode::Ctr => row[way].to_be_bytes(),
                _ => row[way].to_le_bytes(),
            };
        }
        alone(key, &iv, rest);
    }
}

/// Makes a cipher's kernels. A kernel with fewer groups of vectors takes jobs that do not fill the ways of the
/// widest.
macro_rules! word_ways_kernels {
    ($cipher:ty: $(
        $name:ident = $features:literal, $token:ty, $vector:ty,
        $($groups:literal of $ways:literal,)* or $most:literal of $all:literal;
    )*) => {
        $(
            #[cfg(target_arch = "x86_64")]
            pub(crate) fn $name<'k>(
                _: $token,
                mode: $crate::modes::Mode,
                direction: $crate::modes::Direction,
                key_words: usize,
                jobs: &mut [$crate::job::CipherJob<'k>],
                order: &[u16],
                hand_over: &$crate::cipher_ways::HandOver<'_>,
            ) {
                use $crate::cipher_ways::{self, Rows};
                use $crate::word_ways::WordWays;
                /// # Safety
                /// The contract of [`cipher_ways::WaysKernel::crypt_chunks`], and `L` ways are `G` vectors;
                /// the CPU has the features named here.
                #[target_feature(enable = $features)]
                unsafe fn crypt_chunks<const G: usize, const L: usize>(
                    kernel: &mut WordWays<'_, $cipher, L>,
                    rows: &mut Rows<L>,
                    chunks: usize,
                ) {
                    // SAFETY: the contract of this function is that of `go`, and it has the vector's
                    // features.
                    unsafe { kernel.go::<$vector, G>(rows, chunks) }
                }
                match order.len() {
                    $(..=$ways => {
                        let kernel = &mut WordWays::new(mode, direction, key_words, crypt_chunks::<$groups, $ways>);
                        cipher_ways::run_jobs(kernel, jobs, order, hand_over);
                    })*
                    _ => {
                        let kernel = &mut WordWays::new(mode, direction, key_words, crypt_chunks::<$most, $all>);
                        cipher_ways::run_jobs(kernel, jobs, order, hand_over);
                    }
                }
            }
        )*
    };
}
pub(crate) use word_ways_kernels;
