//! Streams of Keccak side by side: one in general registers, four by AVX2, eight by AVX-512.
//!
//! [`Streams`] is a token of a machine's instructions. ML-KEM and ML-DSA sample their matrices and their noise by it, and hash
//! messages of one length.
//!
//! No branch and no address depends on what is absorbed or given.
//!
//! `unsafe`: calls of kernels whose instruction set the token proves, or that read blocks through pointers.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
use core::arch::x86_64::*;

use super::abreast::{self, States};
#[cfg(target_arch = "x86_64")]
use super::ways;
use super::{LAST_BIT, Sponge, alone};
#[cfg(target_arch = "x86_64")]
use crate::isa::{Avx2, Avx512};
use crate::wipe::wipe;

/// The most streams side by side.
pub(crate) const STREAMS_MAX: usize = 8;
/// Bytes of the longest block, with the padding.
const BLOCK_BYTES: usize = 168;
/// Blocks of a stream that are taken out together, at most.
pub(crate) const BLOCKS_MAX: usize = 5;
/// Bytes of a stream's row: blocks, and what vectors write behind them.
pub(crate) const ROW_BYTES: usize = BLOCKS_MAX * BLOCK_BYTES + 64;
/// Bytes of a seed with what follows it, and the start of the padding.
pub(crate) const HEAD_BYTES: usize = 40;
/// Bytes of a hash: as many as the longest that is used has.
pub(crate) const HASH_BYTES: usize = 64;

/// A sponge without input, by which states are permuted only.
const NO_BLOCK: Sponge = Sponge::new(0, 0);

/// The output of streams, a row each.
pub(crate) type Rows = [[u8; ROW_BYTES]; STREAMS_MAX];

/// A seed of a stream, and the number behind it, of two bytes, if there is one.
pub(crate) type Seed<'a> = (&'a [u8], Option<u16>);

/// An instruction set.
pub(crate) trait Streams: Copy {
    /// Streams side by side.
    const STREAMS: usize;
    /// States of Keccak.
    type States;

    /// Returns states that have absorbed a padded block each, permuted.
    fn absorbed(self, sponge: Sponge, blocks: &[[u8; BLOCK_BYTES]; STREAMS_MAX]) -> Self::States;

    /// Returns states that have absorbed a block each, permuted: its head is given with the start of the padding, and its
    /// rest is the end of the padding.
    fn absorbed_heads(self, sponge: Sponge, heads: &[[u8; HEAD_BYTES]; STREAMS_MAX]) -> Self::States {
        let mut blocks = [[0; BLOCK_BYTES]; STREAMS_MAX];
        for (block, head) in blocks.iter_mut().zip(heads) {
            block[..HEAD_BYTES].copy_from_slice(head);
            block[sponge.rate_bytes - 1] |= LAST_BIT;
        }
        let states = self.absorbed(sponge, &blocks);
        wipe(&mut blocks, [0; BLOCK_BYTES]);
        states
    }

    /// Applies Keccak-f[1600] to each state.
    fn permute(self, states: &mut Self::States);

    /// Writes the first words of each state to its row; up to 64 bytes behind them are overwritten.
    fn extract(self, states: &Self::States, words: usize, rows: &mut Rows, at: usize);

    /// Overwrites states.
    fn clear(self, states: &mut Self::States);

    /// Hashes up to [`Streams::STREAMS`] messages of one length; the first bytes of the outputs count.
    fn hash(self, sponge: Sponge, messages: &[&[u8]], outputs: &mut [[u8; HASH_BYTES]; STREAMS_MAX]);

    /// Returns states that are ready to give the first block of a stream for each seed, at most
    /// [`Streams::STREAMS`].
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

impl Streams for Portable {
    const STREAMS: usize = 1;
    type States = States<1>;

    fn absorbed(self, sponge: Sponge, blocks: &[[u8; BLOCK_BYTES]; STREAMS_MAX]) -> Self::States {
        let mut states = States([[0]; 25]);
        // SAFETY: a block of so many words.
        unsafe { abreast::plain(&mut states, &[blocks[0].as_ptr()], sponge, 1) };
        states
    }

    fn permute(self, states: &mut Self::States) {
        // SAFETY: a block of no words.
        unsafe { abreast::plain(states, &[[].as_ptr()], NO_BLOCK, 1) };
    }

    fn extract(self, states: &Self::States, words: usize, rows: &mut Rows, at: usize) {
        for (to, word) in rows[0][at..at + 8 * words].as_chunks_mut::<8>().0.iter_mut().zip(&states.0) {
            *to = word[0].to_le_bytes();
        }
    }

    fn clear(self, states: &mut Self::States) {
        wipe(&mut states.0, [0]);
    }

    fn hash(self, sponge: Sponge, messages: &[&[u8]], outputs: &mut [[u8; HASH_BYTES]; STREAMS_MAX]) {
        outputs[0] = alone::hash(sponge, &[messages[0]]);
    }
}

#[cfg(target_arch = "x86_64")]
impl Streams for Avx2 {
    const STREAMS: usize = 4;
    type States = States<4>;

    fn absorbed(self, sponge: Sponge, blocks: &[[u8; BLOCK_BYTES]; STREAMS_MAX]) -> Self::States {
        let mut states = States([[0; 4]; 25]);
        let rows = core::array::from_fn(|way| blocks[way].as_ptr());
        // SAFETY: the token proves AVX2; blocks of so many words.
        unsafe { abreast::avx2(&mut states, &rows, sponge, 1) };
        states
    }

    fn permute(self, states: &mut Self::States) {
        // SAFETY: the token proves AVX2; blocks of no words.
        unsafe { abreast::avx2(states, &[[].as_ptr(); 4], NO_BLOCK, 1) };
    }

    fn extract(self, states: &Self::States, words: usize, rows: &mut Rows, at: usize) {
        for (way, row) in rows[..4].iter_mut().enumerate() {
            for (to, words) in row[at..at + 8 * words].as_chunks_mut::<8>().0.iter_mut().zip(&states.0) {
                *to = words[way].to_le_bytes();
            }
        }
    }

    fn clear(self, states: &mut Self::States) {
        wipe(&mut states.0, [0; 4]);
    }

    fn hash(self, sponge: Sponge, messages: &[&[u8]], outputs: &mut [[u8; HASH_BYTES]; STREAMS_MAX]) {
        if let [message] = messages {
            // One in general registers takes less than four.
            outputs[0] = alone::hash(sponge, &[message]);
            return;
        }
        let (rate, bytes) = (sponge.rate_bytes, messages[0].len());
        assert!(messages.len() <= 4 && messages.iter().all(|message| message.len() == bytes));
        let mut states = States([[0; 4]; 25]);
        let of = |way: usize| messages.get(way).unwrap_or(&messages[0]);
        let whole = bytes / rate;
        let rows = core::array::from_fn(|way| of(way).as_ptr());
        // SAFETY: the token proves AVX2; each message has so many whole blocks.
        unsafe { abreast::avx2(&mut states, &rows, sponge, whole) };
        let mut last = [[0; BLOCK_BYTES]; STREAMS_MAX];
        for (way, last) in last[..4].iter_mut().enumerate() {
            let rest = &of(way)[whole * rate..];
            last[..rest.len()].copy_from_slice(rest);
            last[rest.len()] = sponge.suffix;
            last[rate - 1] |= LAST_BIT;
        }
        let rows = core::array::from_fn(|way| last[way].as_ptr());
        // SAFETY: the token proves AVX2; blocks of so many words.
        unsafe { abreast::avx2(&mut states, &rows, sponge, 1) };
        for (way, output) in outputs[..4].iter_mut().enumerate() {
            for (to, words) in output.as_chunks_mut::<8>().0.iter_mut().zip(&states.0) {
                *to = words[way].to_le_bytes();
            }
        }
        wipe(&mut last, [0; BLOCK_BYTES]);
        wipe(&mut states.0, [0; 4]);
    }
}

#[cfg(target_arch = "x86_64")]
impl Streams for Avx512 {
    const STREAMS: usize = 8;
    type States = ways::States;

    fn absorbed(self, sponge: Sponge, blocks: &[[u8; BLOCK_BYTES]; STREAMS_MAX]) -> Self::States {
        #[target_feature(enable = "avx512f")]
        fn inner(words: usize, blocks: &[[u8; BLOCK_BYTES]; STREAMS_MAX]) -> ways::States {
            let mut states = ways::zeros();
            ways::add_block(&mut states, words, blocks.each_ref().map(|block| &block[..]));
            ways::permute(&mut states);
            states
        }
        // SAFETY: the token proves AVX-512.
        unsafe { inner(sponge.words(), blocks) }
    }

    fn absorbed_heads(self, sponge: Sponge, heads: &[[u8; HEAD_BYTES]; STREAMS_MAX]) -> Self::States {
        #[target_feature(enable = "avx512f")]
        fn inner(sponge: Sponge, heads: &[[u8; HEAD_BYTES]; STREAMS_MAX]) -> ways::States {
            let mut states = ways::zeros();
            ways::add_block(&mut states, HEAD_BYTES / 8, heads.each_ref().map(|head| &head[..]));
            let last = u64::from(LAST_BIT) << 56;
            states[sponge.words() - 1] = _mm512_set1_epi64(last.cast_signed());
            ways::permute(&mut states);
            states
        }
        // SAFETY: the token proves AVX-512.
        unsafe { inner(sponge, heads) }
    }

    fn permute(self, states: &mut Self::States) {
        // SAFETY: the token proves AVX-512.
        unsafe { ways::permute(states) };
    }

    fn extract(self, states: &Self::States, words: usize, rows: &mut Rows, at: usize) {
        #[target_feature(enable = "avx512f")]
        fn inner(states: &ways::States, words: usize, rows: &mut Rows, at: usize) {
            ways::extract(states, words, rows, at);
        }
        // SAFETY: the token proves AVX-512.
        unsafe { inner(states, words, rows, at) };
    }

    fn clear(self, states: &mut Self::States) {
        #[target_feature(enable = "avx512f")]
        fn inner(states: &mut ways::States) {
            wipe(states, _mm512_setzero_si512());
        }
        // SAFETY: the token proves AVX-512.
        unsafe { inner(states) };
    }

    fn hash(self, sponge: Sponge, messages: &[&[u8]], outputs: &mut [[u8; HASH_BYTES]; STREAMS_MAX]) {
        #[target_feature(enable = "avx512f")]
        fn inner(
            sponge: Sponge,
            messages: [&[u8]; STREAMS_MAX],
            outputs: &mut [[u8; HASH_BYTES]; STREAMS_MAX],
        ) {
            ways::hash_inner(sponge, messages, outputs);
        }
        if let [message] = messages {
            outputs[0] = alone::hash(sponge, &[message]);
            return;
        }
        let messages = core::array::from_fn(|way| *messages.get(way).unwrap_or(&messages[0]));
        // SAFETY: the token proves AVX-512.
        unsafe { inner(sponge, messages, outputs) };
    }
}
