//! KT128 and KT256, RFC 9861 section 3, without customization: chunks of 8 KiB whose chaining values a last node takes.
//!
//! Chunks of one message run side by side, the first one too, whose state goes on in the last node. A message that is
//! shorter than a chunk is one sponge.
//!
//! `unsafe`: kernels take raw pointers, made here from slices.
#![allow(unsafe_code)]

use super::Function;
use crate::isa::Features;
use crate::keccak::abreast::{self, Absorb, States};
use crate::keccak::alone::Absorbing;
use crate::keccak::reference::Squeezing;
use crate::keccak::{LAST_BIT, Sponge};
use crate::wipe::wipe;

/// Bytes of a chunk.
pub(super) const CHUNK_BYTES: usize = 8192;

/// The bytes that follow a message: a customization of no bytes, and its length.
pub(super) const TAIL: &[u8] = &[0];

/// The suffix of a message that is one sponge.
pub(super) const SINGLE: u8 = 0x07;
/// The suffix of a chunk.
const LEAF: u8 = 0x0b;
/// The suffix of the last node.
const FINAL: u8 = 0x06;

/// The bytes behind the first chunk in the last node.
const FIRST: [u8; 8] = [3, 0, 0, 0, 0, 0, 0, 0];

/// Returns length_encode of section 3.3, and its bytes.
fn length_encoded(length: u64) -> ([u8; 9], usize) {
    let bytes = (u64::BITS - length.leading_zeros()).div_ceil(8) as usize;
    let mut encoded = [0; 9];
    encoded[..bytes].copy_from_slice(&length.to_be_bytes()[8 - bytes..]);
    encoded[bytes] = bytes as u8;
    (encoded, bytes + 1)
}

/// A message whose first chunks were absorbed.
#[derive(Clone)]
pub(super) struct Tree {
    node: Absorbing,
    sponge: Sponge,
    value_bytes: usize,
    chunks: u64,
}

impl Tree {
    /// Returns the tree of a function whose chunks have chaining values of so many bytes.
    pub(super) const fn new(sponge: Sponge, value_bytes: usize) -> Self {
        Self { node: Absorbing::new(sponge), sponge, value_bytes, chunks: 0 }
    }

    /// Absorbs whole chunks.
    pub(super) fn absorb(&mut self, features: Features, chunks: &[u8]) {
        #[cfg(target_arch = "x86_64")]
        {
            let is_alone = chunks.len() < 2 * CHUNK_BYTES;
            if features.avx512.is_some() && !is_alone {
                // SAFETY: the token proves AVX-512.
                return unsafe { self.absorb_by(abreast::avx512, chunks) };
            }
            if features.avx2.is_some() && !is_alone {
                // SAFETY: the token proves AVX2.
                return unsafe { self.absorb_by(abreast::avx2, chunks) };
            }
        }
        let _ = features;
        // SAFETY: plain words need no features.
        unsafe { self.absorb_by(abreast::plain, chunks) }
    }

    /// # Safety
    /// The CPU has the kernel's features.
    unsafe fn absorb_by<const L: usize>(&mut self, kernel: Absorb<L>, chunks: &[u8]) {
        let (rate, leaf) = (self.sponge.rate_bytes, self.sponge.with_suffix(LEAF));
        let whole = CHUNK_BYTES / rate;
        let mut ends = [[0; 168]; L];
        for group in chunks.chunks(L * CHUNK_BYTES) {
            let chunk =
                |way: usize| &group[CHUNK_BYTES * way.min(group.len() / CHUNK_BYTES - 1)..][..CHUNK_BYTES];
            let mut states = States([[0; L]; 25]);
            let rows = core::array::from_fn(|way| chunk(way).as_ptr());
            // SAFETY: the contract for the features; every row is a chunk.
            unsafe { kernel(&mut states, &rows, leaf, whole) };
            let is_first = self.chunks == 0;
            if is_first {
                self.node = Absorbing::from_state(self.sponge, states.0.map(|row| [row[0]]));
                self.node.absorb(&chunk(0)[whole * rate..]).absorb(&FIRST);
            }
            for (way, end) in ends.iter_mut().enumerate() {
                let rest = &chunk(way)[whole * rate..];
                end[..rest.len()].copy_from_slice(rest);
                end[rest.len()..].fill(0);
                end[rest.len()] = LEAF;
                end[rate - 1] |= LAST_BIT;
            }
            let rows = core::array::from_fn(|way| ends[way].as_ptr());
            // SAFETY: the contract for the features; every row has a block.
            unsafe { kernel(&mut states, &rows, leaf, 1) };
            let count = group.len() / CHUNK_BYTES;
            for way in usize::from(is_first)..count {
                let mut value = [0; 64];
                for (bytes, row) in value.as_chunks_mut::<8>().0.iter_mut().zip(&states.0) {
                    *bytes = row[way].to_le_bytes();
                }
                self.node.absorb(&value[..self.value_bytes]);
            }
            self.chunks += count as u64;
            wipe(&mut states.0, [0; L]);
        }
        wipe(&mut ends, [0; 168]);
    }

    /// Returns the digest, with the last bytes of the message, which are less than a chunk.
    pub(super) fn finish(mut self, rest: &[u8], output: &mut [u8]) {
        if self.chunks == 0 {
            self.node.absorb(rest).absorb(TAIL);
            return self.node.with_suffix(SINGLE).finish().squeeze(output);
        }
        let mut leaf = Absorbing::new(self.sponge.with_suffix(LEAF));
        leaf.absorb(rest).absorb(TAIL);
        let mut value = [0; 64];
        leaf.finish().squeeze(&mut value[..self.value_bytes]);
        // The last chunk is none of those that were counted, and the first is no leaf.
        let (encoded, bytes) = length_encoded(self.chunks);
        self.node.absorb(&value[..self.value_bytes]).absorb(&encoded[..bytes]).absorb(&[0xff, 0xff]);
        self.node.with_suffix(FINAL).finish().squeeze(output);
    }
}

/// Digests a message.
pub(super) fn digest(
    function: &Function,
    value_bytes: usize,
    features: Features,
    message: &[u8],
    output: &mut [u8],
) {
    let mut tree = Tree::new(function.sponge, value_bytes);
    let (chunks, rest) = message.split_at(message.len() / CHUNK_BYTES * CHUNK_BYTES);
    if !chunks.is_empty() {
        tree.absorb(features, chunks);
    }
    tree.finish(rest, output);
}

/// Digests a message by the definition.
pub(super) fn reference(function: &Function, value_bytes: usize, message: &[u8], output: &mut [u8]) {
    let text = [message, TAIL].concat();
    let sponge = |suffix: u8| function.sponge.with_suffix(suffix);
    let mut chunks = text.chunks(CHUNK_BYTES);
    let first = chunks.next().expect("the tail is there");
    if text.len() <= CHUNK_BYTES {
        return Squeezing::new(sponge(SINGLE), &[first]).squeeze(output);
    }
    let mut node = [first, &FIRST].concat();
    let mut count = 0;
    for chunk in chunks {
        let mut value = vec![0; value_bytes];
        Squeezing::new(sponge(LEAF), &[chunk]).squeeze(&mut value);
        node.extend(value);
        count += 1;
    }
    let (encoded, bytes) = length_encoded(count);
    node.extend(&encoded[..bytes]);
    Squeezing::new(sponge(FINAL), &[&node, &[0xff, 0xff]]).squeeze(output);
}

#[cfg(test)]
mod tests {
    use super::length_encoded;

    #[test]
    fn lengths_are_encoded_as_in_section_3_3() {
        let encoded = |length| {
            let (encoded, bytes) = length_encoded(length);
            encoded[..bytes].to_vec()
        };
        assert_eq!(encoded(0), [0]);
        assert_eq!(encoded(12), [0x0c, 1]);
        assert_eq!(encoded(65_538), [1, 0, 2, 3]);
        assert_eq!(encoded(u64::MAX), [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 8]);
    }
}
