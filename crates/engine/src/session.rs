//! A protection with its keys.
//!
//! Guarantees: key bytes are wiped when the session ends and never printed.

use std::{fmt, sync::Arc};

use sealane_transform::{Kernels, KeyLengthError};
use zeroize::Zeroizing;

use crate::{CHAINING_BYTES, Implementations, Mac, Protection, keys::Keys};

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
    /// The algorithm does not take a key of that length.
    #[error(transparent)]
    Key(#[from] KeyLengthError),
    /// A tag of no bytes, or of more than the MAC makes.
    #[error("a tag of {tag_bytes} bytes, not of 1 to {longest}")]
    Tag {
        /// What was asked for.
        tag_bytes: usize,
        /// What the MAC makes.
        longest: usize,
    },
}

/// What jobs of a protection must keep to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) tag_bytes: u32,
    /// What a body's length is a multiple of.
    pub(crate) granule_bytes: u32,
    /// Of what a MAC takes.
    pub(crate) message_bytes_max: usize,
}

impl Limits {
    fn of(protection: Protection) -> Self {
        Self {
            tag_bytes: protection.tag_bytes() as u32,
            granule_bytes: protection.granule_bytes() as u32,
            message_bytes_max: protection.mac().map_or(usize::MAX, Mac::message_bytes_max),
        }
    }
}

/// One association's protection and keys; used from any lane, by shared reference.
pub struct Session {
    protection: Protection,
    limits: Limits,
    kernels: Kernels,
    keys: Keys,
    material: Zeroizing<Vec<u8>>,
    /// How much of the material is the cipher's.
    cipher_bytes: usize,
    /// For the subtrees of what is hashed by a tree.
    subtrees: Option<Arc<Self>>,
}

impl Session {
    /// Takes exactly [`Protection::key_bytes`] bytes of key material.
    ///
    /// # Errors
    /// Material of another length, and tags that the MAC cannot make.
    pub fn with(
        implementations: impl Into<Implementations>,
        protection: Protection,
        material: &[u8],
    ) -> Result<Self, KeyError> {
        let (expected, given) = (protection.key_bytes(), material.len());
        if given != expected {
            return Err(KeyError::Length { expected, given });
        }
        let (cipher, mac) = material.split_at(protection.cipher_key_bytes());
        Self::with_keys(implementations, protection, cipher, mac)
    }

    /// Takes keys of any length that the algorithms take.
    ///
    /// # Errors
    /// Keys of another length, and tags that the MAC cannot make.
    pub fn with_keys(
        implementations: impl Into<Implementations>,
        protection: Protection,
        cipher_key: &[u8],
        mac_key: &[u8],
    ) -> Result<Self, KeyError> {
        if let Some(mac) = protection.mac() {
            let (tag_bytes, longest) = (protection.tag_bytes(), mac.output_bytes());
            if tag_bytes == 0 || tag_bytes > longest {
                return Err(KeyError::Tag { tag_bytes, longest });
            }
        }
        let implementations = implementations.into();
        Ok(Self {
            protection,
            limits: Limits::of(protection),
            kernels: implementations.kernels,
            keys: Keys::new(implementations, protection, cipher_key, mac_key)?,
            material: Zeroizing::new([cipher_key, mac_key].concat()),
            cipher_bytes: cipher_key.len(),
            subtrees: Self::of_subtrees(implementations, protection, mac_key)?.map(Arc::new),
        })
    }

    /// Where the tag's place holds a chaining value.
    fn of_subtrees(
        implementations: Implementations,
        protection: Protection,
        key: &[u8],
    ) -> Result<Option<Self>, KeyError> {
        let Protection::Mac { mac, tag_bytes } = protection else { return Ok(None) };
        let subtree = mac.subtree().filter(|_| usize::from(tag_bytes) == CHAINING_BYTES);
        let session = |mac| Self::with_keys(implementations, Protection::Mac { mac, tag_bytes }, &[], key);
        subtree.map(session).transpose()
    }

    /// The same protection and keys, run by other implementations.
    pub fn reopen(&self, implementations: impl Into<Implementations>) -> Self {
        let (cipher, mac) = self.keys_given();
        Self::with_keys(implementations, self.protection, cipher, mac).expect("the keys were taken before")
    }

    /// What it does.
    pub fn protection(&self) -> Protection {
        self.protection
    }

    /// The keys as they were given, the cipher's and the MAC's: for an engine that expands them elsewhere.
    pub fn keys_given(&self) -> (&[u8], &[u8]) {
        self.material.split_at(self.cipher_bytes)
    }

    /// What runs the subtrees of its jobs, where these come apart ([`crate::Work::cut_tree`]).
    pub fn subtrees(&self) -> Option<&Arc<Self>> {
        self.subtrees.as_ref()
    }

    /// Whether the cipher takes much longer than copying its bytes does: only then it pays to let other lanes have some.
    pub fn is_slower_than_a_copy(&self) -> bool {
        !matches!(self.protection, Protection::Cipher(cipher) if self.kernels.has_instructions(cipher))
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    pub(crate) fn kernels(&self) -> Kernels {
        self.kernels
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("protection", &self.protection).finish_non_exhaustive()
    }
}
