//! An algorithm with its keys.
//!
//! Guarantees: key bytes are wiped when the session ends and never printed.

use sealane_transform::{Aead, AeadKey};
use zeroize::{Zeroize, ZeroizeOnDrop};

use super::{
    Provider, Suite,
    legacy::Legacy,
    library::Library,
    own::{Own, OwnAead},
    provider,
};

/// The key material does not fit the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{suite} takes {expected} bytes of key material, not {given}")]
pub struct KeyError {
    /// The suite.
    pub suite: Suite,
    /// What it needs, in bytes.
    pub expected: usize,
    /// What it got, in bytes.
    pub given: usize,
}

/// One association's algorithm and keys; used from any lane, by shared reference.
pub struct Session {
    suite: Suite,
    protection: Protection,
}

/// Keys, and what runs them.
pub(crate) enum Protection {
    /// Our own kernels, which take many records at once.
    Own(Own),
    /// A library, record by record.
    Library(Library),
}

/// What makes nonces of sequence numbers (RFC 8446, section 5.3).
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct NonceMask(pub(crate) [u8; 12]);

impl NonceMask {
    /// The nonce of a record.
    pub(crate) fn nonce(&self, sequence: u64) -> [u8; 12] {
        let mut nonce = self.0;
        for (byte, count) in nonce[4..].iter_mut().zip(sequence.to_be_bytes()) {
            *byte ^= count;
        }
        nonce
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("suite", &self.suite).finish_non_exhaustive()
    }
}

impl Session {
    /// Makes a session of exactly [`Suite::key_bytes`] bytes of key material, run by the implementation that is
    /// forced or the fastest here.
    ///
    /// # Errors
    /// Any other length is refused.
    pub fn new(suite: Suite, material: &[u8]) -> Result<Self, KeyError> {
        Self::by(Provider::of(suite), suite, material)
    }

    /// As [`Self::new`], run by `provider` if the suite is an AEAD.
    ///
    /// # Errors
    /// Any other length is refused.
    pub fn by(provider: Provider, suite: Suite, material: &[u8]) -> Result<Self, KeyError> {
        let error = KeyError { suite, expected: suite.key_bytes(), given: material.len() };
        if material.len() != suite.key_bytes() {
            return Err(error);
        }
        let own = match own_algorithm(suite).filter(|_| provider == Provider::Sealane) {
            Some(algorithm) => own_aead(suite, algorithm, material).map(Own::Aead),
            None if suite.is_legacy() => Legacy::new(provider::kernels_or_best(), suite, material)
                .map(|legacy| Own::Legacy(Box::new(legacy))),
            None => None,
        };
        let protection = match own {
            Some(own) => Protection::Own(own),
            None => Protection::Library(Library::new(suite, material).ok_or(error)?),
        };
        Ok(Self { suite, protection })
    }

    /// The keys.
    pub(crate) fn protection(&self) -> &Protection {
        &self.protection
    }

    /// The algorithm.
    pub fn suite(&self) -> Suite {
        self.suite
    }
}

/// What a suite is to our own kernels.
fn own_algorithm(suite: Suite) -> Option<Aead> {
    match suite {
        Suite::Aes128Gcm | Suite::Aes128Gmac => Some(Aead::Aes128Gcm),
        Suite::Aes256Gcm => Some(Aead::Aes256Gcm),
        Suite::ChaCha20Poly1305 => Some(Aead::ChaCha20Poly1305),
        Suite::Null | Suite::Blake3 | Suite::TripleDesCbcHmacSha1 | Suite::HmacSha1 => None,
    }
}

fn own_aead(suite: Suite, algorithm: Aead, material: &[u8]) -> Option<OwnAead> {
    let kernels = provider::kernels().ok()?;
    let (key, mask) = material.split_at_checked(algorithm.key_bytes())?;
    let key = AeadKey::new(algorithm, key).ok()?;
    let nonces = NonceMask(mask.try_into().ok()?);
    Some(OwnAead { kernels, key, nonces, is_gmac: !suite.encrypts() })
}
