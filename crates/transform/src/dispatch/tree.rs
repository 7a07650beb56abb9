//! BLAKE3's tree in pieces, for callers that compute a long message in several places.
//!
//! Guarantees: nothing panics, whatever the arguments. Merging subtrees up to the root, in the shape of section 2.1
//! of the paper, gives the message's digest: a left subtree is complete, and as large as possible with at least one
//! leaf left for the right one.

use super::Kernels;
use crate::algorithm::Digest;
use crate::blake3::{self, ChainingValue, LEAF_BYTES};
use crate::isa::{Isa, Tier};

impl Kernels {
    /// Returns the number of leaves that take hardly longer together than one alone: the elements of a vector.
    pub fn blake3_leaves(&self, is_keyed: bool) -> usize {
        match self.isa() {
            _ if !self.is_native(is_keyed) => 1,
            Isa::Avx512 => 16,
            Isa::Avx2 => 8,
            Isa::Portable => 4,
        }
    }

    /// Returns the chaining value of the subtree that begins with leaf number `leaf`; with a key it is in keyed mode,
    /// which always uses the authors' crate. Returns `None` if `bytes` is empty, or longer than a subtree in that
    /// place can be.
    pub fn blake3_subtree(&self, key: Option<&[u8; 32]>, leaf: u64, bytes: &[u8]) -> Option<ChainingValue> {
        let leaves = bytes.len().div_ceil(LEAF_BYTES) as u64;
        // Any number of leaves may follow the message's first; another leaf begins a subtree of at most the power of
        // two that divides its number.
        let leaves_max = if leaf == 0 { u64::MAX } else { 1 << leaf.trailing_zeros() };
        let ends = leaf.checked_add(leaves)?.checked_mul(LEAF_BYTES as u64);
        if !(1..=leaves_max).contains(&leaves) || ends.is_none() {
            return None;
        }
        Some(match self.is_native(key.is_some()) {
            true => blake3::native_subtree(key, leaf, bytes),
            false => blake3::reference::subtree(leaf, bytes),
        })
    }

    /// Returns the chaining value of the node above two subtrees, or the digest if it is the root.
    pub fn blake3_parent(
        &self,
        key: Option<&[u8; 32]>,
        halves: [&ChainingValue; 2],
        is_root: bool,
    ) -> ChainingValue {
        match self.is_native(key.is_some()) {
            true => blake3::native_parent(key, halves, is_root),
            false => blake3::reference::parent(halves, is_root),
        }
    }

    /// Returns whether the authors' crate runs; it always does in keyed mode, which our own reference does not have.
    fn is_native(&self, is_keyed: bool) -> bool {
        is_keyed || self.digest_tier(Digest::Blake3, 1) == Tier::Native
    }
}
