//! BLAKE3, unkeyed, 256-bit digests; O'Connor, Aumasson, Neves, Wilcox-O'Hearn, "BLAKE3" (2020).
//!
//! Only the reference is ours: the authors' crate uses the instructions, and runs parts of one long message side by side.

use ::blake3::Hasher;
use ::blake3::hazmat::{HasherExt as _, Mode, merge_subtrees_non_root, merge_subtrees_root};

pub(crate) mod reference;

use crate::descriptor::{DigestDescriptor, Making, OwnDigest, PeerNames};
use crate::facts::{ByteOrder, Standing};
use crate::hash;
use crate::isa::Tier;
use crate::word::{Counted, end_block};

/// BLAKE3 as the catalogue knows it.
pub(crate) static BLAKE3: DigestDescriptor = DigestDescriptor {
    name: "blake3",
    // Blocks are chained within a chunk of 1,024 bytes; chunks are not.
    facts: hash::facts(7, 32, ByteOrder::Little, Standing::Current, "BLAKE3, 2020"),
    making: Making::Own(OwnDigest {
        together: None,
        expand: |_| None,
        tier: |tier, features| if features.have_libraries() { tier } else { tier.min(Tier::Generic) },
        digest: |_, tier, job| {
            if tier == Tier::Native {
                job.output[..32].copy_from_slice(::blake3::hash(job.input).as_bytes());
            } else {
                let mut digest = [0; 32];
                reference::digest(job.input, &mut digest);
                job.output[..32].copy_from_slice(&digest);
            }
        },
        // One block, whatever its length.
        trace: |_, data, sink| {
            let mut out = [0; 32];
            reference::digest_by::<Counted>(data, &mut out);
            end_block(sink);
            Some(out.to_vec())
        },
    }),
    peers: PeerNames::NONE,
    promises: &[],
};

/// Bytes of a leaf of the tree, which is a chunk (section 2.1).
pub const LEAF_BYTES: usize = 1024;

/// The result of a subtree, as the node above it takes it.
pub type ChainingValue = [u8; 32];

/// Returns the chaining value of the subtree that begins with leaf `leaf`, by the authors' crate, which panics if
/// `bytes` are not a subtree.
pub(crate) fn native_subtree(key: Option<&[u8; 32]>, leaf: u64, bytes: &[u8]) -> ChainingValue {
    let mut hasher = key.map_or_else(Hasher::new, Hasher::new_keyed);
    hasher.set_input_offset(leaf * LEAF_BYTES as u64).update(bytes);
    hasher.finalize_non_root()
}

/// Returns the node above two subtrees, by the authors' crate.
pub(crate) fn native_parent(
    key: Option<&[u8; 32]>,
    [left, right]: [&ChainingValue; 2],
    is_root: bool,
) -> ChainingValue {
    let mode = key.map_or(Mode::Hash, Mode::KeyedHash);
    if is_root {
        *merge_subtrees_root(left, right, mode).as_bytes()
    } else {
        merge_subtrees_non_root(left, right, mode)
    }
}
