//! The instruction sets on which operations with prepared keys run: general registers, AVX2, AVX-512.
//!
//! A [`Machine`] is a token of its instructions with the kernels of [`super::arithmetic`] compiled for them, and with
//! as many Keccak streams side by side as its vectors have words. What is written over it ([`super::signing`],
//! [`super::verifying`], [`super::generating`]) is the same for all.
//!
//! `unsafe`: calls of kernels whose instruction set the token proves, or that read blocks through pointers.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use core::arch::x86_64::*;

use super::arithmetic::{self, Poly};
use super::ints::One;
use super::kernels::kernels;
use super::parameters::{N, Q};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
#[cfg(target_arch = "x86_64")]
use crate::isa::{Avx2, Avx512};
use crate::keccak::abreast::{self, States};
#[cfg(target_arch = "x86_64")]
use crate::keccak::lanes;
use crate::keccak::{LAST_BIT, SHAKE128, SHAKE256, Sponge, alone};
use crate::wipe::wipe;

/// The most streams side by side.
pub(crate) const STREAMS_MAX: usize = 8;
/// Bytes of the longest block, with the padding.
const BLOCK_BYTES: usize = 168;
/// Blocks of a stream that are taken out together, at most.
pub(crate) const BLOCKS_MAX: usize = 5;
/// Bytes of a stream's row: blocks, and what vectors write behind them.
pub(crate) const ROW_BYTES: usize = BLOCKS_MAX * BLOCK_BYTES + 64;
/// Bytes of a hash: as many as the longest that is used has.
pub(crate) const HASH_BYTES: usize = 64;

/// The output of streams, a row each.
pub(crate) type Rows = [[u8; ROW_BYTES]; STREAMS_MAX];

/// Candidates for coefficients of the matrix, with room behind them.
pub(crate) type Candidates = [i32; N + 80];

/// A seed of a stream, and the number behind it, of two bytes, if there is one.
pub(crate) type Seed<'a> = (&'a [u8], Option<u16>);

/// Declares the kernels.
macro_rules! declared {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            #[doc = concat!("See [`arithmetic::", stringify!($name), "`].")]
            fn $name(self, $($argument: $type),*) $(-> $result)?;
        )*
    };
}

/// Defines the kernels over a type of vectors.
macro_rules! defined {
    ($vector:ty, $($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            fn $name(self, $($argument: $type),*) $(-> $result)? {
                arithmetic::$name::<$vector>($($argument),*)
            }
        )*
    };
}

/// Defines the kernels by the functions of a module, whose instructions the token proves.
#[cfg(target_arch = "x86_64")]
macro_rules! entered {
    ($module:ident, $($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            #[inline]
            fn $name(self, $($argument: $type),*) $(-> $result)? {
                // SAFETY: the token proves the instructions.
                unsafe { $module::$name($($argument),*) }
            }
        )*
    };
}

/// An instruction set.
pub(crate) trait Machine: Copy {
    /// Streams side by side.
    const STREAMS: usize;
    /// The order of its transforms among those of the prepared keys.
    const ORDER: usize;
    /// States of Keccak.
    type States;

    kernels!(declared);

    /// Returns states that have absorbed a padded block each, permuted.
    fn absorbed(self, sponge: Sponge, blocks: &[[u8; BLOCK_BYTES]; STREAMS_MAX]) -> Self::States;

    /// Applies Keccak-f[1600] to each state.
    fn permute(self, states: &mut Self::States);

    /// Writes the first words of each state to its row; up to 64 bytes behind them are overwritten.
    fn extract(self, states: &Self::States, words: usize, rows: &mut Rows, at: usize);

    /// Overwrites states.
    fn clear(self, states: &mut Self::States);

    /// Hashes up to [`Machine::STREAMS`] messages of one length by SHAKE256.
    fn hash(self, messages: &[&[u8]], outputs: &mut [[u8; HASH_BYTES]; STREAMS_MAX]);

    /// Appends the candidates of a block of SHAKE128 that are below q, CoeffFromThreeBytes of algorithm 14; returns
    /// how many there are then. Everything is public.
    fn uniform(self, block: &[u8], output: &mut Candidates, mut filled: usize) -> usize {
        for bytes in block.as_chunks::<3>().0 {
            let value = u32::from_le_bytes([bytes[0], bytes[1], bytes[2] & 0x7f, 0]);
            output[filled] = value.cast_signed();
            filled += usize::from(value < Q);
        }
        filled
    }

    /// Returns states that are ready to give the first block of a stream for each seed, at most
    /// [`Machine::STREAMS`].
    fn streams(self, sponge: Sponge, seeds: &[Seed<'_>]) -> Self::States {
        let mut blocks = [[0; BLOCK_BYTES]; STREAMS_MAX];
        for (block, (seed, number)) in blocks.iter_mut().zip(seeds) {
            block[..seed.len()].copy_from_slice(seed);
            let mut end = seed.len();
            if let Some(number) = number {
                block[end..end + 2].copy_from_slice(&number.to_le_bytes());
                end += 2;
            }
            block[end] = sponge.suffix;
            block[sponge.rate_bytes - 1] |= LAST_BIT;
        }
        let states = self.absorbed(sponge, &blocks);
        wipe(&mut blocks, [0; BLOCK_BYTES]);
        states
    }

    /// Writes that many blocks of each stream to its row; there is a permutation between two, and none behind the
    /// last.
    fn squeeze(self, states: &mut Self::States, sponge: Sponge, blocks: usize, rows: &mut Rows) {
        for block in 0..blocks {
            if block > 0 {
                self.permute(states);
            }
            self.extract(states, sponge.words(), rows, block * sponge.rate_bytes);
        }
    }
}

/// General registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

impl Machine for Portable {
    const STREAMS: usize = 1;
    const ORDER: usize = 0;
    type States = States<1>;

    kernels!(defined One,);

    fn absorbed(self, sponge: Sponge, blocks: &[[u8; BLOCK_BYTES]; STREAMS_MAX]) -> Self::States {
        let mut states = States([[0]; 25]);
        // SAFETY: a block of so many words.
        unsafe { abreast::plain(&mut states, &[blocks[0].as_ptr()], sponge.words(), 1) };
        states
    }

    fn permute(self, states: &mut Self::States) {
        // SAFETY: a block of no words.
        unsafe { abreast::plain(states, &[[].as_ptr()], 0, 1) };
    }

    fn extract(self, states: &Self::States, words: usize, rows: &mut Rows, at: usize) {
        for (to, word) in rows[0][at..at + 8 * words].as_chunks_mut::<8>().0.iter_mut().zip(&states.0) {
            *to = word[0].to_le_bytes();
        }
    }

    fn clear(self, states: &mut Self::States) {
        wipe(&mut states.0, [0]);
    }

    fn hash(self, messages: &[&[u8]], outputs: &mut [[u8; HASH_BYTES]; STREAMS_MAX]) {
        outputs[0] = alone::hash(SHAKE256, &[messages[0]]);
    }
}

#[cfg(target_arch = "x86_64")]
impl Machine for Avx2 {
    const STREAMS: usize = 4;
    const ORDER: usize = 1;
    type States = States<4>;

    kernels!(entered avx2,);

    fn absorbed(self, sponge: Sponge, blocks: &[[u8; BLOCK_BYTES]; STREAMS_MAX]) -> Self::States {
        let mut states = States([[0; 4]; 25]);
        let rows = core::array::from_fn(|lane| blocks[lane].as_ptr());
        // SAFETY: the token proves AVX2; blocks of so many words.
        unsafe { abreast::avx2(&mut states, &rows, sponge.words(), 1) };
        states
    }

    fn permute(self, states: &mut Self::States) {
        // SAFETY: the token proves AVX2; blocks of no words.
        unsafe { abreast::avx2(states, &[[].as_ptr(); 4], 0, 1) };
    }

    fn extract(self, states: &Self::States, words: usize, rows: &mut Rows, at: usize) {
        for (lane, row) in rows[..4].iter_mut().enumerate() {
            for (to, words) in row[at..at + 8 * words].as_chunks_mut::<8>().0.iter_mut().zip(&states.0) {
                *to = words[lane].to_le_bytes();
            }
        }
    }

    fn clear(self, states: &mut Self::States) {
        wipe(&mut states.0, [0; 4]);
    }

    fn hash(self, messages: &[&[u8]], outputs: &mut [[u8; HASH_BYTES]; STREAMS_MAX]) {
        let (rate, bytes) = (SHAKE256.rate_bytes, messages[0].len());
        assert!(messages.len() <= 4 && messages.iter().all(|message| message.len() == bytes));
        let mut states = States([[0; 4]; 25]);
        let of = |lane: usize| messages.get(lane).unwrap_or(&messages[0]);
        let whole = bytes / rate;
        let rows = core::array::from_fn(|lane| of(lane).as_ptr());
        // SAFETY: the token proves AVX2; each message has so many whole blocks.
        unsafe { abreast::avx2(&mut states, &rows, SHAKE256.words(), whole) };
        let mut last = [[0; BLOCK_BYTES]; STREAMS_MAX];
        for (lane, last) in last[..4].iter_mut().enumerate() {
            let rest = &of(lane)[whole * rate..];
            last[..rest.len()].copy_from_slice(rest);
            last[rest.len()] = SHAKE256.suffix;
            last[rate - 1] |= LAST_BIT;
        }
        let rows = core::array::from_fn(|lane| last[lane].as_ptr());
        // SAFETY: the token proves AVX2; blocks of so many words.
        unsafe { abreast::avx2(&mut states, &rows, SHAKE256.words(), 1) };
        for (lane, output) in outputs[..4].iter_mut().enumerate() {
            for (to, words) in output.as_chunks_mut::<8>().0.iter_mut().zip(&states.0) {
                *to = words[lane].to_le_bytes();
            }
        }
        wipe(&mut last, [0; BLOCK_BYTES]);
        wipe(&mut states.0, [0; 4]);
    }

    fn uniform(self, block: &[u8], output: &mut Candidates, mut filled: usize) -> usize {
        for bytes in block.as_chunks::<24>().0 {
            let place = &mut output[filled..filled + 8];
            // SAFETY: the token proves AVX2, and the place has eight integers.
            filled += unsafe { avx2::uniform(bytes, place.as_mut_ptr()) };
        }
        filled
    }
}

#[cfg(target_arch = "x86_64")]
impl Machine for Avx512 {
    const STREAMS: usize = 8;
    const ORDER: usize = 2;
    type States = lanes::States;

    kernels!(entered avx512,);

    fn absorbed(self, sponge: Sponge, blocks: &[[u8; BLOCK_BYTES]; STREAMS_MAX]) -> Self::States {
        #[target_feature(enable = "avx512f")]
        fn inner(words: usize, blocks: &[[u8; BLOCK_BYTES]; STREAMS_MAX]) -> lanes::States {
            let mut states = lanes::zeros();
            lanes::add_block(&mut states, words, blocks.each_ref().map(|block| &block[..]));
            lanes::permute(&mut states);
            states
        }
        // SAFETY: the token proves AVX-512.
        unsafe { inner(sponge.words(), blocks) }
    }

    fn permute(self, states: &mut Self::States) {
        // SAFETY: the token proves AVX-512.
        unsafe { lanes::permute(states) };
    }

    fn extract(self, states: &Self::States, words: usize, rows: &mut Rows, at: usize) {
        #[target_feature(enable = "avx512f")]
        fn inner(states: &lanes::States, words: usize, rows: &mut Rows, at: usize) {
            lanes::extract(states, words, rows, at);
        }
        // SAFETY: the token proves AVX-512.
        unsafe { inner(states, words, rows, at) };
    }

    fn clear(self, states: &mut Self::States) {
        #[target_feature(enable = "avx512f")]
        fn inner(states: &mut lanes::States) {
            wipe(states, _mm512_setzero_si512());
        }
        // SAFETY: the token proves AVX-512.
        unsafe { inner(states) };
    }

    fn hash(self, messages: &[&[u8]], outputs: &mut [[u8; HASH_BYTES]; STREAMS_MAX]) {
        #[target_feature(enable = "avx512f")]
        fn inner(messages: [&[u8]; STREAMS_MAX], outputs: &mut [[u8; HASH_BYTES]; STREAMS_MAX]) {
            lanes::hash_inner(SHAKE256, messages, outputs);
        }
        let messages = core::array::from_fn(|lane| *messages.get(lane).unwrap_or(&messages[0]));
        // SAFETY: the token proves AVX-512.
        unsafe { inner(messages, outputs) };
    }

    fn uniform(self, block: &[u8], output: &mut Candidates, mut filled: usize) -> usize {
        for bytes in block.as_chunks::<24>().0 {
            let place = &mut output[filled..filled + 8];
            // SAFETY: the token proves AVX-512, and the place has eight integers.
            filled += unsafe { avx512::uniform(bytes, place.as_mut_ptr()) };
        }
        filled
    }
}

/// Returns the sponge of the matrix's streams, and how many blocks of each are enough for nearly all polynomials.
pub(crate) const MATRIX: (Sponge, usize) = (SHAKE128, 5);
