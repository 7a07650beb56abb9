//! ML-KEM-512, ML-KEM-768 and ML-KEM-1024, FIPS 203: key generation, encapsulation and decapsulation.
//!
//! `reference` follows the standard's algorithms line by line; `library` is AWS-LC's single operation; `ways` runs up
//! to eight operations with different keys side by side on a `machine` (AVX2 or AVX-512): every Keccak stream of the
//! batch (G, H, J, the noise, the polynomials of each matrix) takes one of the ways of [`crate::keccak::streams`], and
//! `arithmetic` computes one operation after the other in 16-bit elements: of AVX-512 by `vector` and `coding`, of AVX2 by
//! `avx2`.
//!
//! A key that is made, sent and used once keeps the matrix of its generation ([`MlKemEphemeralKey`]), which leaves 17 of
//! the permutations of a decapsulation of ML-KEM-768.
//!
//! **Keys.** A key is checked when it is made, as section 7.2 (the modulus check of an encapsulation key) and section
//! 7.3 (the hash check of a decapsulation key) demand, so the operations themselves cannot fail on any input:
//! a ciphertext that is not its message's gives a secret that only the key's owner can compute (implicit rejection),
//! in the same time. Coefficients of a decapsulation key's secret vector that are not reduced count modulo q, as in
//! ByteDecode12; those of the encapsulation key in it are checked too, which the standard does not demand, so that
//! whoever takes it out has a checked key. All tiers give the same bytes on every input.

mod ephemeral;
mod operation;
mod parameters;

pub(crate) mod arithmetic;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod coding;
pub(crate) mod library;
#[cfg(target_arch = "x86_64")]
pub(crate) mod machine;
pub(crate) mod reference;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
pub(crate) mod vector;
#[cfg(target_arch = "x86_64")]
pub(crate) mod ways;

pub use ephemeral::MlKemEphemeralKey;
pub use operation::Operation;
pub(crate) use operation::{ML_KEM_512, ML_KEM_768, ML_KEM_1024};
pub use parameters::MlKemSet;
pub(crate) use parameters::{N, Q};

use crate::debug_only;
use std::sync::OnceLock;

use aws_lc_rs::digest;
use sealane_native::ml_kem::Key;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use arithmetic::Sampled;
use parameters::{Parameters, SEED_BYTES};

/// Bytes of a shared secret.
pub const ML_KEM_SECRET_BYTES: usize = SEED_BYTES;
/// Bytes of the seed of a key pair: d, then z.
pub const ML_KEM_SEED_BYTES: usize = 2 * SEED_BYTES;

/// A shared secret.
pub(crate) type Secret = [u8; ML_KEM_SECRET_BYTES];

/// Bytes that are not a key of ML-KEM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MlKemKeyError {
    /// The length is another one.
    #[error("a key of {given_bytes} bytes; {} takes {wanted_bytes}", .set.name())]
    Length {
        /// The parameter set.
        set: MlKemSet,
        /// The given length.
        given_bytes: usize,
        /// The only length that is taken.
        wanted_bytes: usize,
    },
    /// A coefficient of the encapsulation key is not below 3329 (FIPS 203 section 7.2).
    #[error("the encapsulation key has a coefficient that is not below the modulus")]
    Modulus,
    /// The decapsulation key does not have the hash of its encapsulation key (FIPS 203 section 7.3).
    #[error("the decapsulation key has the hash of another encapsulation key")]
    Hash,
}

/// An encapsulation key, checked.
pub struct MlKemEncapsulationKey {
    set: MlKemSet,
    bytes: Box<[u8]>,
    native: OnceLock<Option<Key>>,
}

/// A decapsulation key, checked; wiped when dropped.
pub struct MlKemDecapsulationKey {
    set: MlKemSet,
    bytes: Zeroizing<Vec<u8>>,
    native: OnceLock<Option<Key>>,
}

debug_only!(MlKemEncapsulationKey { set });

debug_only!(MlKemDecapsulationKey { set });

/// Fails unless there are as many bytes as wanted.
const fn check_length(set: MlKemSet, given_bytes: usize, wanted_bytes: usize) -> Result<(), MlKemKeyError> {
    if given_bytes == wanted_bytes {
        Ok(())
    } else {
        Err(MlKemKeyError::Length { set, given_bytes, wanted_bytes })
    }
}

/// The modulus check of section 7.2. The key is public: it may end early.
fn check_modulus(key: &[u8]) -> Result<(), MlKemKeyError> {
    let reduced = public_parts(key).0.as_chunks::<3>().0.iter().all(|&[a, b, c]| {
        let first = u16::from(a) | (u16::from(b) & 15) << 8;
        let second = u16::from(b) >> 4 | u16::from(c) << 4;
        first < Q && second < Q
    });
    reduced.then_some(()).ok_or(MlKemKeyError::Modulus)
}

impl MlKemEncapsulationKey {
    /// Checks and copies an encoded key.
    ///
    /// # Errors
    /// The length is not the set's, or a coefficient is not reduced.
    pub fn new(set: MlKemSet, bytes: &[u8]) -> Result<Self, MlKemKeyError> {
        check_length(set, bytes.len(), set.encapsulation_key_bytes())?;
        check_modulus(bytes)?;
        Ok(Self::unchecked(set, bytes))
    }

    fn unchecked(set: MlKemSet, bytes: &[u8]) -> Self {
        Self { set, bytes: bytes.into(), native: OnceLock::new() }
    }

    /// Returns the parameter set.
    pub const fn set(&self) -> MlKemSet {
        self.set
    }

    /// Returns the encoded key.
    pub const fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns AWS-LC's object of this key, made at the first call; none if there is no memory.
    pub(crate) fn native(&self) -> Option<&Key> {
        self.native.get_or_init(|| library::public(self.set, &self.bytes)).as_ref()
    }
}

impl MlKemDecapsulationKey {
    /// Checks and copies an encoded key, as key generation returns it.
    ///
    /// # Errors
    /// The length is not the set's, the hash is not that of the encapsulation key, or the encapsulation key has a
    /// coefficient that is not reduced.
    pub fn new(set: MlKemSet, bytes: &[u8]) -> Result<Self, MlKemKeyError> {
        check_length(set, bytes.len(), set.decapsulation_key_bytes())?;
        let parts = parts(set.parameters(), bytes);
        let hash = digest::digest(&digest::SHA3_256, parts.encapsulation_key);
        if !bool::from(hash.as_ref().ct_eq(parts.hash)) {
            return Err(MlKemKeyError::Hash);
        }
        check_modulus(parts.encapsulation_key)?;
        Ok(Self::unchecked(set, bytes))
    }

    fn unchecked(set: MlKemSet, bytes: &[u8]) -> Self {
        Self { set, bytes: Zeroizing::new(bytes.to_vec()), native: OnceLock::new() }
    }

    /// Returns the parameter set.
    pub const fn set(&self) -> MlKemSet {
        self.set
    }

    /// Returns the encoded key.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the encapsulation key that belongs to this key.
    pub fn encapsulation_key(&self) -> MlKemEncapsulationKey {
        MlKemEncapsulationKey::unchecked(self.set, self.parts().encapsulation_key)
    }

    pub(crate) fn parts(&self) -> Parts<'_> {
        parts(self.set.parameters(), &self.bytes)
    }

    /// Returns AWS-LC's object of this key, made at the first call; none if there is no memory.
    pub(crate) fn native(&self) -> Option<&Key> {
        self.native.get_or_init(|| library::private(self.set, &self.bytes)).as_ref()
    }
}

/// The parts of an encoded decapsulation key.
pub(crate) struct Parts<'a> {
    /// The secret vector in the domain of the number-theoretic transform.
    pub(crate) vector: &'a [u8],
    pub(crate) encapsulation_key: &'a [u8],
    /// The hash of the encapsulation key, SHA3-256.
    pub(crate) hash: &'a [u8; SEED_BYTES],
    /// The seed of the secret that a wrong ciphertext gets.
    pub(crate) rejection: &'a [u8; SEED_BYTES],
}

/// Splits an encoded decapsulation key, whose length is the set's.
pub(crate) fn parts<'a>(p: &Parameters, key: &'a [u8]) -> Parts<'a> {
    let (vector, rest) = key.split_at(p.packed_bytes());
    let (encapsulation_key, rest) = rest.split_at(p.packed_bytes() + SEED_BYTES);
    let (hash, rejection) = rest.split_first_chunk().expect("the length was checked");
    Parts {
        vector,
        encapsulation_key,
        hash,
        rejection: rejection.try_into().expect("the length was checked"),
    }
}

/// Splits an encoded encapsulation key into its vector and the seed of the matrix.
pub(crate) fn public_parts(key: &[u8]) -> (&[u8], &[u8; SEED_BYTES]) {
    key.split_last_chunk().expect("the length was checked")
}

/// A key pair to make.
#[derive(Debug)]
pub(crate) struct Generate<'a> {
    /// The parameter set.
    pub(crate) set: MlKemSet,
    /// The random seed: d, then z.
    pub(crate) seed: &'a [u8; ML_KEM_SEED_BYTES],
    /// The encoded decapsulation key, in which that for encapsulation lies, is written here.
    pub(crate) decapsulation_key: &'a mut [u8],
    /// The matrix is kept here, if ways sample it.
    pub(crate) matrix: Option<&'a mut Vec<Sampled>>,
}

/// A shared secret to make and to encapsulate.
#[derive(Debug)]
pub(crate) struct Encapsulate<'a> {
    /// The peer's key.
    pub(crate) key: &'a MlKemEncapsulationKey,
    /// The random message m, never used before.
    pub(crate) message: &'a [u8; SEED_BYTES],
    /// The ciphertext is written here.
    pub(crate) ciphertext: &'a mut [u8],
    /// The shared secret is written here.
    pub(crate) secret: &'a mut Secret,
}

/// A ciphertext to decapsulate.
#[derive(Debug)]
pub(crate) struct Decapsulate<'a> {
    /// Our private key.
    pub(crate) key: &'a MlKemDecapsulationKey,
    /// The key's matrix by rows, if it was kept.
    pub(crate) matrix: Option<&'a [Sampled]>,
    /// The peer's ciphertext, of the set's length and any content.
    pub(crate) ciphertext: &'a [u8],
    /// The shared secret is written here.
    pub(crate) secret: &'a mut Secret,
}
