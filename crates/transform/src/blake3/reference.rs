//! BLAKE3 as section 2 of its paper defines it.

use super::{ChainingValue, LEAF_BYTES};
use crate::sha256::INITIAL;
use crate::word::{Plain, Region, Word};

const BLOCK_BYTES: usize = 64;

// Table 3.
const CHUNK_START: u32 = 1;
const CHUNK_END: u32 = 2;
const PARENT: u32 = 4;
const ROOT: u32 = 8;

/// Table 2: the order in which the next round takes the message words.
const PERMUTATION: [usize; 16] = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];

/// The words that `G` mixes in a round: columns, then diagonals.
const MIXED: [[usize; 4]; 8] = [
    [0, 4, 8, 12],
    [1, 5, 9, 13],
    [2, 6, 10, 14],
    [3, 7, 11, 15],
    [0, 5, 10, 15],
    [1, 6, 11, 12],
    [2, 7, 8, 13],
    [3, 4, 9, 14],
];

/// A compression that is still to be computed: the root's differs from the others by a flag.
struct Node {
    chaining: [u32; 8],
    block: [u8; BLOCK_BYTES],
    chunk: u64,
    bytes: usize,
    flags: u32,
}

impl Node {
    /// Returns the first half of the output, which suffices for the tree and a digest.
    fn compress<W: Word>(&self, flags: u32) -> [u32; 8] {
        let mut words: [W; 16] = core::array::from_fn(|i| {
            W::load(Region::Message.word(i), u32::from_le_bytes(self.block.as_chunks().0[i]))
        });
        let last = [self.chunk as u32, (self.chunk >> 32) as u32, self.bytes as u32, self.flags | flags];
        let mut v: [W; 16] = core::array::from_fn(|i| match i {
            0..8 => W::load(Region::State.word(i), self.chaining[i]),
            8..12 => W::imm(INITIAL[i - 8]),
            _ => W::imm(last[i - 12]),
        });
        for round in 0..7 {
            for (i, [a, b, c, d]) in MIXED.into_iter().enumerate() {
                v[a] = v[a] + v[b] + words[2 * i];
                v[d] = (v[d] ^ v[a]).rotl(16);
                v[c] = v[c] + v[d];
                v[b] = (v[b] ^ v[c]).rotl(20);
                v[a] = v[a] + v[b] + words[2 * i + 1];
                v[d] = (v[d] ^ v[a]).rotl(24);
                v[c] = v[c] + v[d];
                v[b] = (v[b] ^ v[c]).rotl(25);
            }
            if round < 6 {
                words = PERMUTATION.map(|from| words[from]);
            }
        }
        W::branch(true);
        core::array::from_fn(|i| (v[i] ^ v[i + 8]).store(Region::State.word(i)))
    }
}

/// Returns the node above `input`, whose first chunk has that number.
fn node<W: Word>(input: &[u8], chunk: u64) -> Node {
    if input.len() > LEAF_BYTES {
        // The left subtree is complete, and as large as possible with at least one chunk left for the right one.
        let left_chunks = 1 << ((input.len() - 1) / LEAF_BYTES).ilog2();
        let (left, right) = input.split_at(left_chunks * LEAF_BYTES);
        let halves = [node::<W>(left, chunk), node::<W>(right, chunk + left_chunks as u64)];
        return above(halves.map(|half| bytes_of(half.compress::<W>(0))));
    }
    let mut blocks = input.chunks(BLOCK_BYTES);
    let mut next = || {
        let part = blocks.next().unwrap_or_default();
        let mut block = [0; BLOCK_BYTES];
        block[..part.len()].copy_from_slice(part);
        (block, part.len())
    };
    let (block, bytes) = next();
    let mut leaf = Node { chaining: INITIAL, block, chunk, bytes, flags: CHUNK_START };
    for _ in 1..input.len().div_ceil(BLOCK_BYTES) {
        let chaining = leaf.compress::<W>(0);
        let (block, bytes) = next();
        leaf = Node { chaining, block, chunk, bytes, flags: 0 };
    }
    leaf.flags |= CHUNK_END;
    leaf
}

/// Returns the node above two subtrees.
fn above(halves: [ChainingValue; 2]) -> Node {
    let mut block = [0; BLOCK_BYTES];
    block.copy_from_slice(halves.as_flattened());
    Node { chaining: INITIAL, block, chunk: 0, bytes: BLOCK_BYTES, flags: PARENT }
}

fn bytes_of(words: [u32; 8]) -> ChainingValue {
    let mut value = ChainingValue::default();
    value.as_chunks_mut().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
    value
}

/// Digests a message over any machine word.
pub(crate) fn digest_by<W: Word>(message: &[u8], output: &mut [u8; 32]) {
    *output = bytes_of(node::<W>(message, 0).compress::<W>(ROOT));
}

/// Digests a message.
pub(crate) fn digest(message: &[u8], output: &mut [u8; 32]) {
    digest_by::<Plain>(message, output);
}

/// Returns the chaining value of the subtree that begins with leaf `leaf`.
pub(crate) fn subtree(leaf: u64, bytes: &[u8]) -> ChainingValue {
    bytes_of(node::<Plain>(bytes, leaf).compress::<Plain>(0))
}

/// Returns the chaining value of the node above two subtrees, or the digest if it is the root.
pub(crate) fn parent([left, right]: [&ChainingValue; 2], is_root: bool) -> ChainingValue {
    bytes_of(above([*left, *right]).compress::<Plain>(if is_root { ROOT } else { 0 }))
}
