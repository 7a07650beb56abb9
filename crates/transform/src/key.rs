//! Expanded keys: each is made once per association, shared by all its jobs, and wiped when dropped.

use core::any::Any;

use zeroize::Zeroize as _;

use crate::algorithm::{Cipher, Digest};
use crate::debug_only;
use crate::schedule::Schedule;

/// The error of a key whose length the algorithm does not accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key of {given_bytes} bytes; the algorithm takes {min_bytes} to {max_bytes}")]
pub struct KeyLengthError {
    /// The given length.
    pub given_bytes: usize,
    /// The shortest that is taken.
    pub min_bytes: usize,
    /// The longest that is taken.
    pub max_bytes: usize,
}

fn check(given_bytes: usize, min_bytes: usize, max_bytes: usize) -> Result<(), KeyLengthError> {
    let fits = (min_bytes..=max_bytes).contains(&given_bytes);
    fits.then_some(()).ok_or(KeyLengthError { given_bytes, min_bytes, max_bytes })
}

/// The expanded key of a digest that is not a Merkle-Damgard hash; it wipes itself.
pub(crate) type OwnKey = Option<Box<dyn Any + Send + Sync>>;

/// The use of a key in a digest of the catalogue.
pub(crate) enum Keyed {
    /// No key, or a construction of its own.
    Own(OwnKey),
    /// HMAC: the states after the two key blocks.
    Hmac { inner: [u32; 8], outer: [u32; 8] },
}

impl Drop for Keyed {
    fn drop(&mut self) {
        if let Self::Hmac { inner, outer } = self {
            inner.zeroize();
            outer.zeroize();
        }
    }
}

/// A digest or MAC with its key.
pub struct DigestKey {
    algorithm: Digest,
    keyed: Keyed,
}

debug_only!(DigestKey { algorithm });

impl DigestKey {
    /// Expands `key`, which is empty for algorithms without one.
    ///
    /// # Errors
    /// Fails if the algorithm does not accept a key of that length.
    pub fn new(algorithm: Digest, key: &[u8]) -> Result<Self, KeyLengthError> {
        let lengths = algorithm.facts().key_bytes;
        check(key.len(), lengths.min, lengths.max)?;
        Ok(Self { algorithm, keyed: algorithm.descriptor().making.keyed(key) })
    }

    /// Returns the algorithm to which the key belongs.
    pub const fn algorithm(&self) -> Digest {
        self.algorithm
    }

    pub(crate) const fn keyed(&self) -> &Keyed {
        &self.keyed
    }

    /// Returns the expanded key of a digest that is not a Merkle-Damgard hash.
    pub(crate) fn own<K: 'static>(&self) -> Option<&K> {
        match &self.keyed {
            Keyed::Own(Some(key)) => key.downcast_ref(),
            Keyed::Own(None) | Keyed::Hmac { .. } => None,
        }
    }
}

/// A cipher with its key; the schedules wipe themselves.
#[derive(Clone)]
pub struct CipherKey {
    algorithm: Cipher,
    schedule: Schedule,
}

debug_only!(CipherKey { algorithm });

impl CipherKey {
    /// Expands `key`, which is empty for the null cipher. DES ignores parity bits.
    ///
    /// # Errors
    /// Fails if the algorithm does not accept a key of that length.
    pub fn new(algorithm: Cipher, key: &[u8]) -> Result<Self, KeyLengthError> {
        let lengths = algorithm.facts().key_bytes;
        check(key.len(), lengths.min, lengths.max)?;
        let wrong = KeyLengthError { given_bytes: key.len(), min_bytes: lengths.min, max_bytes: lengths.max };
        let schedule = (algorithm.descriptor().expand)(key).ok_or(wrong)?;
        Ok(Self { algorithm, schedule })
    }

    /// Returns the algorithm to which the key belongs.
    pub const fn algorithm(&self) -> Cipher {
        self.algorithm
    }

    pub(crate) const fn schedule(&self) -> &Schedule {
        &self.schedule
    }
}
