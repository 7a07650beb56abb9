//! ML-KEM-768, FIPS 203: key generation, encapsulation and decapsulation.
//!
//! `reference` follows the standard's algorithms line by line; `library` is AWS-LC's single operation; `lanes` runs up
//! to eight operations with different keys side by side: every Keccak stream of the batch (G, H, J, the noise, the
//! nine polynomials of each matrix) takes one of eight lanes of [`crate::keccak::lanes`], and `vector` and
//! `coding` do the arithmetic of one operation after the other in 16-bit lanes.
//!
//! **Keys.** A key is checked when it is made, as section 7.2 (the modulus check of an encapsulation key) and section
//! 7.3 (the hash check of a decapsulation key) demand, so the operations themselves cannot fail on any input:
//! a ciphertext that is not its message's gives a secret that only the key's owner can compute (implicit rejection),
//! in the same time. Coefficients of a decapsulation key's secret vector that are not reduced count modulo q, as in
//! ByteDecode12; those of the encapsulation key in it are checked too, which the standard does not demand, so that
//! whoever takes it out has a checked key. All tiers give the same bytes on every input.

mod operation;

#[cfg(target_arch = "x86_64")]
pub(crate) mod coding;
#[cfg(target_arch = "x86_64")]
pub(crate) mod lanes;
pub(crate) mod library;
pub(crate) mod reference;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
pub(crate) mod vector;

pub(crate) use operation::ML_KEM_768;
pub use operation::Operation;

use core::fmt;
use std::sync::OnceLock;

use aws_lc_rs::digest;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroize as _;

/// Bytes of an encapsulation key: three polynomials of 12-bit coefficients, and the seed of the matrix.
pub const ML_KEM_768_ENCAPSULATION_KEY_BYTES: usize = PACKED_BYTES + SEED_BYTES;
/// Bytes of a decapsulation key: the secret vector, the encapsulation key, its hash, and the seed of rejection.
pub const ML_KEM_768_DECAPSULATION_KEY_BYTES: usize = 2 * PACKED_BYTES + 3 * SEED_BYTES;
/// Bytes of a ciphertext: three polynomials of 10-bit coefficients, and one of 4-bit coefficients.
pub const ML_KEM_768_CIPHERTEXT_BYTES: usize = K * U_BYTES + V_BYTES;
/// Bytes of a shared secret.
pub const ML_KEM_768_SECRET_BYTES: usize = 32;
/// Bytes of the seed of a key pair: d, then z.
pub const ML_KEM_768_SEED_BYTES: usize = 2 * SEED_BYTES;

/// The modulus q.
pub(crate) const Q: u16 = 3329;
/// Coefficients of a polynomial.
pub(crate) const N: usize = 256;
/// Polynomials of a vector: the parameter k of ML-KEM-768.
pub(crate) const K: usize = 3;
/// Bytes of every seed, hash and message.
pub(crate) const SEED_BYTES: usize = 32;
/// Bytes of a polynomial whose coefficients have 12 bits.
pub(crate) const POLY_BYTES: usize = 384;
/// Bytes of a vector of polynomials whose coefficients have 12 bits.
pub(crate) const PACKED_BYTES: usize = K * POLY_BYTES;
/// Bytes of a compressed polynomial of u: the parameter du is 10.
pub(crate) const U_BYTES: usize = 320;
/// Bytes of the compressed polynomial v: the parameter dv is 4.
pub(crate) const V_BYTES: usize = 128;
/// Bytes of the noise of a polynomial: the parameters eta1 and eta2 are 2.
pub(crate) const NOISE_BYTES: usize = 128;

/// A ciphertext: u, compressed, then v.
pub(crate) type Ciphertext = [u8; ML_KEM_768_CIPHERTEXT_BYTES];
/// An encoded encapsulation key.
pub(crate) type EncapsulationKeyBytes = [u8; ML_KEM_768_ENCAPSULATION_KEY_BYTES];
/// An encoded decapsulation key.
pub(crate) type DecapsulationKeyBytes = [u8; ML_KEM_768_DECAPSULATION_KEY_BYTES];
/// A shared secret.
pub(crate) type Secret = [u8; ML_KEM_768_SECRET_BYTES];

/// Bytes that are not a key of ML-KEM-768.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MlKemKeyError {
    /// The length is another one.
    #[error("a key of {given_bytes} bytes; ML-KEM-768 takes {wanted_bytes}")]
    Length {
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

/// An encapsulation key of ML-KEM-768, checked.
pub struct MlKem768EncapsulationKey {
    bytes: Box<EncapsulationKeyBytes>,
    native: OnceLock<Option<library::Key>>,
}

/// A decapsulation key of ML-KEM-768, checked; wiped when dropped.
pub struct MlKem768DecapsulationKey {
    bytes: Box<DecapsulationKeyBytes>,
    native: OnceLock<Option<library::Key>>,
}

impl Drop for MlKem768DecapsulationKey {
    fn drop(&mut self) {
        self.bytes.zeroize();
    }
}

impl fmt::Debug for MlKem768EncapsulationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MlKem768EncapsulationKey").finish_non_exhaustive()
    }
}

impl fmt::Debug for MlKem768DecapsulationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MlKem768DecapsulationKey").finish_non_exhaustive()
    }
}

/// Returns `bytes` as an array of its only length.
fn sized<const N: usize>(bytes: &[u8]) -> Result<&[u8; N], MlKemKeyError> {
    bytes.try_into().map_err(|_| MlKemKeyError::Length { given_bytes: bytes.len(), wanted_bytes: N })
}

/// The modulus check of section 7.2. The key is public: it may end early.
fn check_modulus(key: &EncapsulationKeyBytes) -> Result<(), MlKemKeyError> {
    let reduced = key[..PACKED_BYTES].as_chunks::<3>().0.iter().all(|&[a, b, c]| {
        let first = u16::from(a) | (u16::from(b) & 15) << 8;
        let second = u16::from(b) >> 4 | u16::from(c) << 4;
        first < Q && second < Q
    });
    reduced.then_some(()).ok_or(MlKemKeyError::Modulus)
}

impl MlKem768EncapsulationKey {
    /// Checks and copies an encoded key.
    ///
    /// # Errors
    /// The length is not [`ML_KEM_768_ENCAPSULATION_KEY_BYTES`], or a coefficient is not reduced.
    pub fn new(bytes: &[u8]) -> Result<Self, MlKemKeyError> {
        let bytes = sized::<ML_KEM_768_ENCAPSULATION_KEY_BYTES>(bytes)?;
        check_modulus(bytes)?;
        Ok(Self { bytes: Box::new(*bytes), native: OnceLock::new() })
    }

    /// Returns the encoded key.
    pub const fn as_bytes(&self) -> &[u8; ML_KEM_768_ENCAPSULATION_KEY_BYTES] {
        &self.bytes
    }

    /// Returns AWS-LC's object of this key, made at the first call; none if there is no memory.
    pub(crate) fn native(&self) -> Option<&library::Key> {
        self.native.get_or_init(|| library::Key::public(&self.bytes)).as_ref()
    }
}

impl MlKem768DecapsulationKey {
    /// Checks and copies an encoded key, as key generation returns it.
    ///
    /// # Errors
    /// The length is not [`ML_KEM_768_DECAPSULATION_KEY_BYTES`], the hash is not that of the encapsulation key, or the
    /// encapsulation key has a coefficient that is not reduced.
    pub fn new(bytes: &[u8]) -> Result<Self, MlKemKeyError> {
        let bytes = sized::<ML_KEM_768_DECAPSULATION_KEY_BYTES>(bytes)?;
        let hash = digest::digest(&digest::SHA3_256, parts(bytes).encapsulation_key);
        if !bool::from(hash.as_ref().ct_eq(parts(bytes).hash)) {
            return Err(MlKemKeyError::Hash);
        }
        check_modulus(parts(bytes).encapsulation_key)?;
        Ok(Self { bytes: Box::new(*bytes), native: OnceLock::new() })
    }

    /// Returns the encoded key.
    pub const fn as_bytes(&self) -> &[u8; ML_KEM_768_DECAPSULATION_KEY_BYTES] {
        &self.bytes
    }

    /// Returns the encapsulation key that belongs to this key.
    pub fn encapsulation_key(&self) -> MlKem768EncapsulationKey {
        MlKem768EncapsulationKey {
            bytes: Box::new(*parts(&self.bytes).encapsulation_key),
            native: OnceLock::new(),
        }
    }

    /// Returns AWS-LC's object of this key, made at the first call; none if there is no memory.
    pub(crate) fn native(&self) -> Option<&library::Key> {
        self.native.get_or_init(|| library::Key::private(&self.bytes)).as_ref()
    }
}

/// The parts of an encoded decapsulation key.
pub(crate) struct Parts<'a> {
    /// The secret vector in the domain of the number-theoretic transform.
    pub(crate) vector: &'a [u8; PACKED_BYTES],
    pub(crate) encapsulation_key: &'a EncapsulationKeyBytes,
    /// The hash of the encapsulation key, SHA3-256.
    pub(crate) hash: &'a [u8; SEED_BYTES],
    /// The seed of the secret that a wrong ciphertext gets.
    pub(crate) rejection: &'a [u8; SEED_BYTES],
}

/// Splits an encoded decapsulation key.
pub(crate) fn parts(key: &DecapsulationKeyBytes) -> Parts<'_> {
    let (vector, rest) = split(key);
    let (encapsulation_key, rest) = split(rest);
    let (hash, rest) = split(rest);
    let (rejection, _) = split(rest);
    Parts { vector, encapsulation_key, hash, rejection }
}

/// Splits an encoded encapsulation key into its vector and the seed of the matrix.
pub(crate) fn public_parts(key: &EncapsulationKeyBytes) -> (&[u8; PACKED_BYTES], &[u8; SEED_BYTES]) {
    let (vector, rest) = split(key);
    (vector, split(rest).0)
}

/// Splits off the first `N` bytes.
///
/// # Panics
/// There are fewer: the callers' lengths are constants.
fn split<const N: usize>(bytes: &[u8]) -> (&[u8; N], &[u8]) {
    bytes.split_first_chunk().expect("a constant length")
}

/// A key pair to make.
#[derive(Debug)]
pub(crate) struct Generate<'a> {
    /// The random seed: d, then z.
    pub(crate) seed: &'a [u8; ML_KEM_768_SEED_BYTES],
    /// The encoded encapsulation key is written here.
    pub(crate) encapsulation_key: &'a mut EncapsulationKeyBytes,
    /// The encoded decapsulation key is written here.
    pub(crate) decapsulation_key: &'a mut DecapsulationKeyBytes,
}

/// A shared secret to make and to encapsulate.
#[derive(Debug)]
pub(crate) struct Encapsulate<'a> {
    /// The peer's key.
    pub(crate) key: &'a MlKem768EncapsulationKey,
    /// The random message m, never used before.
    pub(crate) message: &'a [u8; SEED_BYTES],
    /// The ciphertext is written here.
    pub(crate) ciphertext: &'a mut Ciphertext,
    /// The shared secret is written here.
    pub(crate) secret: &'a mut Secret,
}

/// A ciphertext to decapsulate.
#[derive(Debug)]
pub(crate) struct Decapsulate<'a> {
    /// Our private key.
    pub(crate) key: &'a MlKem768DecapsulationKey,
    /// The peer's ciphertext, of any content.
    pub(crate) ciphertext: &'a Ciphertext,
    /// The shared secret is written here.
    pub(crate) secret: &'a mut Secret,
}
