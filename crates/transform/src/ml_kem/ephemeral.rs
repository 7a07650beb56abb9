//! Key pairs that are made for one exchange, and keep the matrix of their generation for their decapsulation.
//!
//! A decapsulation encrypts again, for which the matrix is sampled from the seed in the key: 27 of the 44 permutations
//! of ML-KEM-768. Whoever makes a key, sends it and decapsulates with it has had that matrix already. It takes 2 to
//! 9 KiB, and is as public as its seed; the rest of the key is wiped when it is dropped.

use std::sync::OnceLock;

use super::arithmetic::Sampled;
use super::{MlKemDecapsulationKey, MlKemSet};
use crate::debug_only;

/// A key pair of one exchange: made by [`super::Operation::GenerateEphemeral`], used by
/// [`super::Operation::DecapsulateEphemeral`].
pub struct MlKemEphemeralKey {
    set: MlKemSet,
    pair: OnceLock<Pair>,
}

/// A pair that was made.
pub(crate) struct Pair {
    pub(crate) key: MlKemDecapsulationKey,
    /// By rows; none if the tier that made the pair does not show it.
    matrix: Option<Vec<Sampled>>,
}

debug_only!(MlKemEphemeralKey { set });

impl MlKemEphemeralKey {
    /// Returns a key that is still to be made.
    pub const fn new(set: MlKemSet) -> Self {
        Self { set, pair: OnceLock::new() }
    }

    /// Returns the parameter set.
    pub const fn set(&self) -> MlKemSet {
        self.set
    }

    /// Returns the encoded encapsulation key; none if it was not made.
    pub fn encapsulation_key(&self) -> Option<&[u8]> {
        self.pair.get().map(|pair| pair.key.parts().encapsulation_key)
    }

    /// Takes a pair that was generated; the first one stays.
    pub(crate) fn fill(&self, decapsulation_key: &[u8], matrix: Vec<Sampled>) {
        let is_sampled = !matrix.is_empty();
        self.pair.get_or_init(|| Pair {
            key: MlKemDecapsulationKey::unchecked(self.set, decapsulation_key),
            matrix: is_sampled.then_some(matrix),
        });
    }

    pub(crate) fn pair(&self) -> Option<&Pair> {
        self.pair.get()
    }
}

impl Pair {
    pub(crate) fn matrix(&self) -> Option<&[Sampled]> {
        self.matrix.as_deref()
    }
}
