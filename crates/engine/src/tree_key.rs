//! The tree hash of a session: chaining values of subtrees, their merging, and the subtrees' length.

use sealane_transform::{ChainingValue, Kernels, LEAF_BYTES};
use zeroize::Zeroizing;

/// The number of bytes that a subtree's job writes into its tag's place.
pub const CHAINING_BYTES: usize = size_of::<ChainingValue>();

/// The kernels and key that compute a session's trees.
pub(crate) struct TreeKey {
    pub(crate) kernels: Kernels,
    /// The key of keyed mode.
    pub(crate) key: Option<Zeroizing<[u8; 32]>>,
}

impl TreeKey {
    fn key(&self) -> Option<&[u8; 32]> {
        self.key.as_deref()
    }

    /// Returns the chaining value of the subtree that begins with the leaf whose number, little-endian, is at the
    /// start of `iv`. Returns `None` if `bytes` is empty.
    pub(crate) fn subtree(&self, iv: &[u8; 16], bytes: &[u8]) -> Option<ChainingValue> {
        let leaf = u64::from_le_bytes(*iv.first_chunk().expect("an IV's room holds a number"));
        self.kernels.blake3_subtree(self.key(), leaf, bytes)
    }

    /// Returns the chaining value of the tree above equal subtrees, of which the last may be shorter.
    pub(crate) fn merge(&self, values: &[ChainingValue], is_root: bool) -> ChainingValue {
        match values {
            [] => ChainingValue::default(),
            [one] => *one,
            many => {
                let (left, right) = many.split_at(1 << (many.len() - 1).ilog2());
                let halves = [self.merge(left, false), self.merge(right, false)];
                self.kernels.blake3_parent(self.key(), halves.each_ref(), is_root)
            }
        }
    }

    /// Returns the number of bytes of a subtree for `parts` lanes: a power of two leaves, such that the first subtree
    /// alone and the others' share are as equal as possible. Returns `None` if a share would not fill a vector.
    pub(crate) fn subtree_bytes(&self, message_bytes: usize, parts: usize) -> Option<usize> {
        let leaves = message_bytes.div_ceil(LEAF_BYTES);
        let fewest = self.kernels.blake3_leaves(self.key.is_some());
        let parts = parts.min(leaves / fewest);
        if parts < 2 {
            return None;
        }
        let less = 1 << (leaves / parts).ilog2();
        let others_share = (leaves - less).div_ceil(parts - 1);
        // With fewer leaves the first lane waits for the others; with more, they wait for it.
        let more_is_better = 2 * less < others_share.max(less) && 2 * less < leaves;
        Some(LEAF_BYTES * if more_is_better { 2 * less } else { less })
    }
}
