//! The digest algorithms of signatures.
//!
//! **Guarantee:** [`Hash::ALL`] has every hash once, and a hash's number is its place there.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A digest algorithm (FIPS 180-4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Hash {
    /// SHA-1, for signatures of protocols that still use it.
    Sha1,
    /// SHA-224.
    Sha224,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

impl Hash {
    /// All hashes.
    pub const ALL: [Self; 5] = [Self::Sha1, Self::Sha224, Self::Sha256, Self::Sha384, Self::Sha512];

    /// Returns the length of a digest in bytes.
    pub fn bytes(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha224 => 28,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    pub(crate) fn to_number(self) -> u32 {
        Self::ALL.iter().position(|hash| *hash == self).expect("ALL has every hash") as u32 + 1
    }

    pub(crate) fn of_number(number: u32) -> Option<Self> {
        Self::ALL.get((number as usize).checked_sub(1)?).copied()
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SHA-{}", if *self == Self::Sha1 { 1 } else { 8 * self.bytes() })
    }
}
