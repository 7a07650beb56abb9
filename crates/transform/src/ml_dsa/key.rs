//! Keys of ML-DSA: checked when they are made, wiped when they are dropped.

use core::sync::atomic::{AtomicBool, Ordering};

use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::machine::Machine;
use super::parameters::{MU_BYTES, SEED_BYTES, TR_BYTES};
use super::prepared::{Prepared, PreparedPrivate, PreparedPublic, not_prepared};
use super::{Generate, MlDsaMessage, MlDsaSet, Signing, library, reference};
use crate::debug_only;
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
    prepared: Prepared<PreparedPublic>,
    is_used: AtomicBool,
}

debug_only!(MlDsaPublicKey { set });

impl MlDsaPublicKey {
    /// Copies an encoded key.
    ///
    /// # Errors
    /// The length is not the set's.
    pub fn new(set: MlDsaSet, bytes: &[u8]) -> Result<Self, MlDsaKeyError> {
        check_length(set, bytes.len(), set.public_bytes())?;
        Ok(Self::with_hash(set, bytes.into(), alone::hash(SHAKE256, &[bytes])))
    }

    const fn with_hash(set: MlDsaSet, bytes: Box<[u8]>, tr: [u8; TR_BYTES]) -> Self {
        Self { set, bytes, tr, prepared: not_prepared(), is_used: AtomicBool::new(false) }
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

    /// Returns whether this is the first call.
    pub(crate) fn is_first_use(&self) -> bool {
        !self.is_used.swap(true, Ordering::Relaxed)
    }

    /// Returns what a machine has prepared, at the first call.
    pub(crate) fn prepared<M: Machine>(&self, machine: M) -> &PreparedPublic {
        self.prepared[M::ORDER]
            .get_or_init(|| PreparedPublic::new(machine, self.set.parameters(), &self.bytes))
    }
}

/// A private key with its public key; wiped when dropped.
pub struct MlDsaPrivateKey {
    seed: Option<Zeroizing<[u8; SEED_BYTES]>>,
    expanded: Zeroizing<Vec<u8>>,
    public: MlDsaPublicKey,
    prepared: Prepared<PreparedPrivate>,
}

debug_only!(self: MlDsaPrivateKey { set: self.set() });

impl MlDsaPrivateKey {
    /// Expands a seed: any 32 bytes are one.
    pub fn from_seed(set: MlDsaSet, seed: &[u8; SEED_BYTES]) -> Self {
        let mut bytes = vec![0; set.public_bytes()];
        let mut expanded = Zeroizing::new(vec![0; set.private_bytes()]);
        let mut job = Generate { set, seed, public: &mut bytes, private: &mut expanded };
        if !library::generate_native(&mut job) {
            reference::key_gen_internal(&mut job);
        }
        let public = MlDsaPublicKey::with_hash(set, bytes.into(), hash_in(&expanded));
        Self { seed: Some(Zeroizing::new(*seed)), expanded, public, prepared: not_prepared() }
    }

    /// Checks and copies an expanded key, whose seed is not known.
    ///
    /// # Errors
    /// The length is not the set's, or the parts of the key do not agree.
    pub fn from_expanded(set: MlDsaSet, expanded: &[u8]) -> Result<Self, MlDsaKeyError> {
        check_length(set, expanded.len(), set.private_bytes())?;
        let bytes = library::public_of(set, expanded).ok_or(MlDsaKeyError::Inconsistent)?;
        let public = MlDsaPublicKey::with_hash(set, bytes.into(), hash_in(expanded));
        let expanded = Zeroizing::new(expanded.to_vec());
        Ok(Self { seed: None, expanded, public, prepared: not_prepared() })
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

    /// Returns how many attempts a signature takes, which its time shows: for tests of what else it shows. The
    /// reference counts.
    pub fn attempts(&self, message: &MlDsaMessage, random: &[u8; SEED_BYTES]) -> Option<usize> {
        let mut signature = vec![0; self.set().signature_bytes()];
        let mu = self.public.representative(message);
        reference::sign_internal(&mut Signing { key: self, mu, rnd: random, signature: &mut signature })
    }

    /// Returns what a machine has prepared, at the first call.
    pub(crate) fn prepared<M: Machine>(&self, machine: M) -> &PreparedPrivate {
        self.prepared[M::ORDER]
            .get_or_init(|| PreparedPrivate::new(machine, self.set().parameters(), &self.expanded))
    }
}

/// Returns the hash of the public key in an expanded private key.
fn hash_in(expanded: &[u8]) -> [u8; TR_BYTES] {
    let (_, rest) = expanded.split_at(2 * SEED_BYTES);
    *rest.first_chunk().expect("an expanded key has a hash")
}
