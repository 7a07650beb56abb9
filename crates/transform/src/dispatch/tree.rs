//! BLAKE3's tree in pieces, for whoever computes a long message in several places.
//!
//! Guarantees: nothing panics, whatever is said to be a subtree. What is merged to the root as section 2.1 of the paper
//! draws the tree is the message's digest: a left subtree is complete, and as large as can be with something left for the
//! right one.

use super::Kernels;
use crate::blake3::{self, ChainingValue, LEAF_BYTES};
use crate::catalogue::Digest;
use crate::isa::{Isa, Tier};

impl Kernels {
    /// Leaves that take hardly longer together than one alone: what a vector holds.
    pub fn blake3_leaves(&self, is_keyed: bool) -> usize {
        match self.isa() {
            _ if !self.is_native(is_keyed) => 1,
            Isa::Avx512 => 16,
            Isa::Avx2 => 8,
            Isa::Portable => 4,
        }
    }

    /// The chaining value of the subtree that begins with leaf number `leaf`; with a key in keyed mode, always by the
    /// authors' crate. `None` if `bytes` are none, or more than a subtree of that place can have.
    pub fn blake3_subtree(&self, key: Option<&[u8; 32]>, leaf: u64, bytes: &[u8]) -> Option<ChainingValue> {
        let leaves = bytes.len().div_ceil(LEAF_BYTES) as u64;
        // Any number of leaves may follow the message's first; others begin as many as their number divides by.
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

    /// The chaining value of the node above two subtrees, or the digest if it is the root.
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

    /// Our own reference has no keyed mode.
    fn is_native(&self, is_keyed: bool) -> bool {
        is_keyed || self.digest_tier(Digest::Blake3, 1) == Tier::Native
    }
}
