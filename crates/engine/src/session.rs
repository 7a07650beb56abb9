//! A protection with its keys.
//!
//! Guarantees: key bytes are wiped when the session ends and never printed.

use std::fmt;

use sealane_transform::Kernels;
use zeroize::Zeroizing;

use crate::Protection;

/// Keys that a protection does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The material has another length.
    #[error("{given} bytes of key material, not {expected}")]
    Length {
        /// What the protection takes, in bytes.
        expected: usize,
        /// What there was.
        given: usize,
    },
    /// A tag of no bytes, or of more than the MAC makes.
    #[error("a tag of {tag_bytes} bytes, not of 1 to {longest}")]
    Tag {
        /// What was asked for.
        tag_bytes: usize,
        /// What the MAC makes.
        longest: usize,
    },
}

/// One association's protection and keys; used from any lane, by shared reference.
pub struct Session {
    protection: Protection,
    kernels: Kernels,
    material: Zeroizing<Vec<u8>>,
}

impl Session {
    /// Takes exactly [`Protection::key_bytes`] bytes of key material.
    ///
    /// # Errors
    /// Material of another length, and tags that the MAC cannot make.
    pub fn with(kernels: Kernels, protection: Protection, material: &[u8]) -> Result<Self, KeyError> {
        if let Protection::Mac { mac, tag_bytes } | Protection::EncryptThenMac { mac, tag_bytes, .. } =
            protection
        {
            let (tag_bytes, longest) = (usize::from(tag_bytes), mac.output_bytes());
            if tag_bytes == 0 || tag_bytes > longest {
                return Err(KeyError::Tag { tag_bytes, longest });
            }
        }
        let expected = protection.key_bytes();
        if material.len() != expected {
            return Err(KeyError::Length { expected, given: material.len() });
        }
        Ok(Self { protection, kernels, material: Zeroizing::new(material.to_vec()) })
    }

    /// What it does.
    pub fn protection(&self) -> Protection {
        self.protection
    }

    /// What runs it.
    pub fn kernels(&self) -> Kernels {
        self.kernels
    }

    /// The keys, to open the session again on an engine that has memory of its own.
    pub fn material(&self) -> &[u8] {
        &self.material
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("protection", &self.protection).finish_non_exhaustive()
    }
}
