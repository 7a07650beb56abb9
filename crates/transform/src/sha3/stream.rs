//! Digests of the Keccak family of messages that come in parts.

use super::kangaroo::{CHUNK_BYTES, Tree};
use super::{FUNCTIONS, Function};
use crate::algorithm::Digest;
use crate::debug_only;
use crate::dispatch::Kernels;
use crate::keccak::alone::Absorbing;

/// Chunks of one message that are collected before they are absorbed: ways of the widest kernel.
const COLLECTED: usize = 8;

/// A digest in progress; what it holds of the message is not wiped.
#[derive(Clone)]
pub struct KeccakStream {
    function: &'static Function,
    state: State,
}

#[derive(Clone)]
enum State {
    Sponge(Absorbing),
    /// A tree, and bytes that follow it.
    Tree(Tree, Vec<u8>),
}

debug_only!(KeccakStream {});

impl KeccakStream {
    /// Returns the beginning of a message; `None` for a digest of another family.
    pub fn new(digest: Digest) -> Option<Self> {
        let function = FUNCTIONS.iter().find(|function| function.name == digest.name())?;
        let state = match function.value_bytes {
            None => State::Sponge(Absorbing::new(function.sponge)),
            Some(bytes) => State::Tree(Tree::new(function.sponge, bytes), Vec::new()),
        };
        Some(Self { function, state })
    }

    /// Absorbs the next part of the message.
    pub fn absorb(&mut self, kernels: &Kernels, part: &[u8]) {
        match &mut self.state {
            State::Sponge(sponge) => {
                sponge.absorb(part);
            }
            State::Tree(tree, held) => {
                let mut part = part;
                if !held.is_empty() {
                    let (now, rest) = part.split_at(part.len().min(COLLECTED * CHUNK_BYTES - held.len()));
                    held.extend_from_slice(now);
                    part = rest;
                    if held.len() == COLLECTED * CHUNK_BYTES {
                        tree.absorb(kernels.features(), held);
                        held.clear();
                    }
                }
                // A group of chunks needs no copy, nor do the last ones of a part that fills one.
                let (whole, rest) =
                    part.split_at(part.len() / (COLLECTED * CHUNK_BYTES) * COLLECTED * CHUNK_BYTES);
                if !whole.is_empty() {
                    tree.absorb(kernels.features(), whole);
                }
                held.extend_from_slice(rest);
            }
        }
    }

    /// Returns the digest of the message so far.
    pub fn finish(&self, kernels: &Kernels) -> Vec<u8> {
        let mut output = vec![0; self.function.output_bytes];
        match self.state.clone() {
            State::Sponge(sponge) => sponge.finish().squeeze(&mut output),
            State::Tree(mut tree, held) => {
                let (chunks, rest) = held.split_at(held.len() / CHUNK_BYTES * CHUNK_BYTES);
                if !chunks.is_empty() {
                    tree.absorb(kernels.features(), chunks);
                }
                tree.finish(rest, &mut output);
            }
        }
        output
    }
}
