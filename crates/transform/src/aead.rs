//! Authenticated encryption for callers: keys and jobs.

use crate::algorithm::Aead;
use crate::debug_only;
use crate::job::{Buffer, Status};
use crate::key::KeyLengthError;
use crate::schedule::AeadSchedule;

/// The lengths of an AEAD's nonces and tags, which belong to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AeadLengths {
    /// Bytes of a nonce, at most 12.
    pub nonce_bytes: u8,
    /// Bytes of a tag, at most 16.
    pub tag_bytes: u8,
}

impl AeadLengths {
    /// Nonces of 12 bytes and tags of 16, which every AEAD takes (RFC 5116, section 4).
    pub const USUAL: Self = Self { nonce_bytes: 12, tag_bytes: 16 };
}

/// A key that an AEAD does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AeadKeyError {
    /// The key has another length.
    #[error(transparent)]
    Key(#[from] KeyLengthError),
    /// The algorithm has no such nonces or tags.
    #[error("no nonces of {} bytes with tags of {}", .0.nonce_bytes, .0.tag_bytes)]
    Lengths(AeadLengths),
}

/// An AEAD with its key, expanded once, and wiped when dropped.
pub struct AeadKey {
    algorithm: Aead,
    lengths: AeadLengths,
    schedule: AeadSchedule,
}

debug_only!(AeadKey { algorithm });

impl AeadKey {
    /// Expands `key`, of [`Aead::key_bytes`] bytes, for the usual lengths.
    ///
    /// # Errors
    /// The key has another length.
    pub fn new(algorithm: Aead, key: &[u8]) -> Result<Self, KeyLengthError> {
        let wanted = algorithm.key_bytes();
        let wrong = KeyLengthError { given_bytes: key.len(), min_bytes: wanted, max_bytes: wanted };
        if key.len() != wanted {
            return Err(wrong);
        }
        let schedule = (algorithm.descriptor().expand)(key).ok_or(wrong)?;
        Ok(Self { algorithm, lengths: AeadLengths::USUAL, schedule })
    }

    /// Expands `key` for nonces and tags of other lengths.
    ///
    /// # Errors
    /// The key has another length, or the algorithm does not take such lengths: only CCM takes others than the usual.
    pub fn with(algorithm: Aead, lengths: AeadLengths, key: &[u8]) -> Result<Self, AeadKeyError> {
        if !algorithm.takes(lengths) {
            return Err(AeadKeyError::Lengths(lengths));
        }
        Ok(Self { lengths, ..Self::new(algorithm, key)? })
    }

    /// Returns the lengths of nonces and tags.
    pub const fn lengths(&self) -> AeadLengths {
        self.lengths
    }

    /// Returns the algorithm to which the key belongs.
    pub const fn algorithm(&self) -> Aead {
        self.algorithm
    }

    pub(crate) const fn schedule(&self) -> &AeadSchedule {
        &self.schedule
    }
}

/// One message to seal or to open.
///
/// Without data and with the whole message as `aad` it is authenticated only: that is GMAC if the algorithm is a GCM.
#[derive(Debug)]
pub struct AeadJob<'a> {
    /// The expanded key.
    pub key: &'a AeadKey,
    /// It must never repeat under one key when sealing. The first bytes count if the key's nonces are shorter.
    pub nonce: [u8; 12],
    /// Authenticated, not encrypted.
    pub aad: &'a [u8],
    /// Plaintext in and ciphertext out when sealing; the reverse when opening.
    pub data: Buffer<'a>,
    /// Written when sealing, checked when opening. The first bytes count if the key's tags are shorter; the others
    /// are written as zeros.
    pub tag: [u8; 16],
    /// The result.
    pub status: Status,
}

impl<'a> AeadJob<'a> {
    /// Returns a job that seals `data`.
    pub const fn seal(key: &'a AeadKey, nonce: [u8; 12], aad: &'a [u8], data: Buffer<'a>) -> Self {
        Self { key, nonce, aad, data, tag: [0; 16], status: Status::Pending }
    }

    /// Returns a job that opens `data` if `tag` is right.
    pub const fn open(
        key: &'a AeadKey,
        nonce: [u8; 12],
        aad: &'a [u8],
        data: Buffer<'a>,
        tag: [u8; 16],
    ) -> Self {
        Self { key, nonce, aad, data, tag, status: Status::Pending }
    }
}
