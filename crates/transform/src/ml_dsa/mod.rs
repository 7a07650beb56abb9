//! ML-DSA-44, ML-DSA-65 and ML-DSA-87, FIPS 204: key generation, signatures and their verification.
//!
//! `reference` follows the standard's algorithms line by line; `library` is AWS-LC, one operation at a time, which
//! samples the matrix of a key and transforms its vectors again for each operation. `prepared` keeps both with the
//! key, and `signing`, `verifying` and `generating` compute with them, one operation or many, over a `machine`:
//! general registers, AVX2 or AVX-512. Of these each has the polynomials of `arithmetic` in vectors of 32-bit
//! coefficients (`ints`), one polynomial after the other, and one, four or eight streams of Keccak, which belong to
//! whichever operations need them.
//!
//! **Guarantees.** All tiers give the same bytes on every input. What is signed is always the message's representative
//! mu ([`MlDsaMessage`]), made of the public key, a context and the message, or given by the caller; the pre-hashed
//! form of the standard has no operation here. The random value of a signature is part of the operation: random bytes
//! hedge it, which is the standard's default, and zeros make it deterministic.
//!
//! **Keys.** A private key comes as a seed, expanded, or as both; an expanded key is accepted only if its parts agree,
//! and a pair of both only if the one gives the other. A public key is any bytes of its length. A key that a batch
//! has used holds what was prepared of it: 28 to 79 KiB of a private key, 20 to 64 KiB of a public one. Private keys
//! are wiped when they are dropped.
//!
//! **Secrets.** No branch and no address depends on a secret, except for what the standard's rejections show: how many
//! attempts a signature takes, and the challenges of rejected ones.

#[cfg(test)]
mod acvp;
mod key;
mod message;
mod operation;
mod parameters;

pub(crate) mod arithmetic;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
mod challenges;
mod coding;
pub(crate) mod generating;
pub(crate) mod ints;
mod kernels;
pub(crate) mod library;
pub(crate) mod machine;
pub(crate) mod prepared;
pub(crate) mod reference;
pub(crate) mod signing;
#[cfg(test)]
mod tests;
pub(crate) mod verifying;

pub use key::{MlDsaKeyError, MlDsaPrivateKey, MlDsaPublicKey};
pub use message::{ContextTooLong, MlDsaMessage};
pub use operation::Operation;
pub(crate) use operation::{ML_DSA_44, ML_DSA_65, ML_DSA_87};
pub use parameters::MlDsaSet;

use parameters::{MU_BYTES, SEED_BYTES};

/// Bytes of the seed of a key pair.
pub const ML_DSA_SEED_BYTES: usize = SEED_BYTES;
/// Bytes of the random value of a signature.
pub const ML_DSA_RANDOM_BYTES: usize = SEED_BYTES;

/// A key pair to make.
#[derive(Debug)]
pub(crate) struct Generate<'a> {
    /// The parameter set.
    pub(crate) set: MlDsaSet,
    /// The random seed xi.
    pub(crate) seed: &'a [u8; SEED_BYTES],
    /// The public key is written here.
    pub(crate) public: &'a mut [u8],
    /// The expanded private key is written here.
    pub(crate) private: &'a mut [u8],
}

/// A representative to sign.
#[derive(Debug)]
pub(crate) struct Signing<'a> {
    /// The signer's key.
    pub(crate) key: &'a MlDsaPrivateKey,
    /// The message's representative.
    pub(crate) mu: [u8; MU_BYTES],
    /// The random value rnd: zeros for a deterministic signature.
    pub(crate) rnd: &'a [u8; SEED_BYTES],
    /// The signature is written here.
    pub(crate) signature: &'a mut [u8],
}

/// A signature to verify.
#[derive(Debug)]
pub(crate) struct Verifying<'a> {
    /// The signer's key.
    pub(crate) key: &'a MlDsaPublicKey,
    /// The message's representative.
    pub(crate) mu: [u8; MU_BYTES],
    /// The signature, of any content and length.
    pub(crate) signature: &'a [u8],
}
