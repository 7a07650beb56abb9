//! Keys of ML-DSA: checked when they are made, wiped when they are dropped.

use core::fmt;

use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::parameters::{MU_BYTES, SEED_BYTES, TR_BYTES};
use super::{Generate, MlDsaMessage, MlDsaSet, library, reference};
use crate::keccak::{SHAKE256, alone};

/// Bytes that are no key of ML-DSA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MlDsaKeyError {
    /// The length is another one.
    #[error("a key of {given_bytes} bytes; {} takes {wanted_bytes}", .set.name())]
    Length {
        /// The parameter set.
        set: MlDsaSet,
        /// The given length.
        given_bytes: usize,
        /// The only length that is taken.
        wanted_bytes: usize,
    },
    /// A secret coefficient is out of its range, or t0 or the hash of the public key is not what the rest gives.
    #[error("the parts of the expanded private key do not agree")]
    Inconsistent,
    /// The expanded key and the seed are those of different keys.
    #[error("the expanded private key is not that of the seed")]
    Mismatched,
}

/// Fails unless there are as many bytes as wanted.
const fn check_length(set: MlDsaSet, given_bytes: usize, wanted_bytes: usize) -> Result<(), MlDsaKeyError> {
    if given_bytes == wanted_bytes {
        Ok(())
    } else {
        Err(MlDsaKeyError::Length { set, given_bytes, wanted_bytes })
    }
}

/// A public key: any bytes of the set's length.
pub struct MlDsaPublicKey {
    set: MlDsaSet,
    bytes: Box<[u8]>,
    /// The hash of the key.
    tr: [u8; TR_BYTES],
}

impl fmt::Debug for MlDsaPublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MlDsaPublicKey").field("set", &self.set).finish_non_exhaustive()
    }
}

impl MlDsaPublicKey {
    /// Copies an encoded key.
    ///
    /// # Errors
    /// The length is not the set's.
    pub fn new(set: MlDsaSet, bytes: &[u8]) -> Result<Self, MlDsaKeyError> {
        check_length(set, bytes.len(), set.public_bytes())?;
        Ok(Self { set, bytes: bytes.into(), tr: alone::hash(SHAKE256, &[bytes]) })
    }

    /// Returns the parameter set.
    pub const fn set(&self) -> MlDsaSet {
        self.set
    }

    /// Returns the encoded key.
    pub const fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the representative mu of a message under this key, which alone is needed to sign the message.
    pub fn representative(&self, message: &MlDsaMessage) -> [u8; MU_BYTES] {
        message.representative(&self.tr)
    }
}

/// A private key with its public key; wiped when dropped.
pub struct MlDsaPrivateKey {
    seed: Option<Zeroizing<[u8; SEED_BYTES]>>,
    expanded: Zeroizing<Vec<u8>>,
    public: MlDsaPublicKey,
}

impl fmt::Debug for MlDsaPrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MlDsaPrivateKey").field("set", &self.set()).finish_non_exhaustive()
    }
}

impl MlDsaPrivateKey {
    /// Expands a seed: any 32 bytes are one.
    pub fn from_seed(set: MlDsaSet, seed: &[u8; SEED_BYTES]) -> Self {
        let mut bytes = vec![0; set.public_bytes()];
        let mut expanded = Zeroizing::new(vec![0; set.private_bytes()]);
        let mut job = Generate { set, seed, public: &mut bytes, private: &mut expanded };
        if !library::generate_native(&mut job) {
            reference::key_gen_internal(&mut job);
        }
        let tr = hash_in(&expanded);
        let public = MlDsaPublicKey { set, bytes: bytes.into(), tr };
        Self { seed: Some(Zeroizing::new(*seed)), expanded, public }
    }

    /// Checks and copies an expanded key, whose seed is not known.
    ///
    /// # Errors
    /// The length is not the set's, or the parts of the key do not agree.
    pub fn from_expanded(set: MlDsaSet, expanded: &[u8]) -> Result<Self, MlDsaKeyError> {
        check_length(set, expanded.len(), set.private_bytes())?;
        let bytes = library::public_of(set, expanded).ok_or(MlDsaKeyError::Inconsistent)?;
        let public = MlDsaPublicKey { set, bytes: bytes.into(), tr: hash_in(expanded) };
        Ok(Self { seed: None, expanded: Zeroizing::new(expanded.to_vec()), public })
    }

    /// Expands a seed that is stored with its expanded key.
    ///
    /// # Errors
    /// The length of the expanded key is not the set's, or it is another seed's.
    pub fn from_both(set: MlDsaSet, seed: &[u8; SEED_BYTES], expanded: &[u8]) -> Result<Self, MlDsaKeyError> {
        check_length(set, expanded.len(), set.private_bytes())?;
        let key = Self::from_seed(set, seed);
        if bool::from(key.expanded.ct_eq(expanded)) { Ok(key) } else { Err(MlDsaKeyError::Mismatched) }
    }

    /// Returns the parameter set.
    pub const fn set(&self) -> MlDsaSet {
        self.public.set
    }

    /// Returns the seed, if the key was made from it.
    pub fn seed(&self) -> Option<&[u8; SEED_BYTES]> {
        self.seed.as_deref()
    }

    /// Returns the expanded key.
    pub fn expanded(&self) -> &[u8] {
        &self.expanded
    }

    /// Returns the public key.
    pub const fn public(&self) -> &MlDsaPublicKey {
        &self.public
    }
}

/// Returns the hash of the public key in an expanded private key.
fn hash_in(expanded: &[u8]) -> [u8; TR_BYTES] {
    let (_, rest) = expanded.split_at(2 * SEED_BYTES);
    *rest.first_chunk().expect("an expanded key has a hash")
}
