//! Authenticated encryption for callers: keys and jobs.

use core::fmt;

use crate::algorithm::Aead;
use crate::job::{Buffer, Status};
use crate::key::KeyLengthError;
use crate::schedule::AeadSchedule;

/// An AEAD with its key, expanded once, and wiped when dropped.
pub struct AeadKey {
    algorithm: Aead,
    schedule: AeadSchedule,
}

impl fmt::Debug for AeadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AeadKey").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

impl AeadKey {
    /// Expands `key`, of [`Aead::key_bytes`] bytes.
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
        Ok(Self { algorithm, schedule })
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
    /// It must never repeat under one key when sealing.
    pub nonce: [u8; 12],
    /// Authenticated, not encrypted.
    pub aad: &'a [u8],
    /// Plaintext in and ciphertext out when sealing; the reverse when opening.
    pub data: Buffer<'a>,
    /// Written when sealing, checked when opening.
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
