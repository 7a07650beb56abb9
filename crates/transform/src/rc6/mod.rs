//! RC6-32/20, the AES candidate of Rivest, Robshaw, Sidney and Yin.

pub(crate) mod lanes;
pub(crate) mod reference;

use zeroize::{Zeroize, ZeroizeOnDrop};

/// Rounds.
pub(crate) const ROUNDS: usize = 20;

/// An expanded key.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct Key {
    /// The table S.
    pub(crate) table: [u32; 44],
}

impl Key {
    pub(crate) fn new(key: &[u8]) -> Self {
        let mut table = [0; 44];
        crate::rc5::expand(key, &mut table);
        Self { table }
    }
}
