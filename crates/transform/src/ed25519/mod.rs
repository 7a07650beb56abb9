//! Ed25519, RFC 8032: signatures over whole messages (no context, no prehash).
//!
//! The rule of all tiers is that of AWS-LC: a signature (R, s) of a message M by the key A is accepted
//! exactly if s < L, A is the encoding of a point (y < 2^255 - 19, and no zero x with a sign), and the 32
//! bytes of R are the encoding of s * B - k * A, where k is SHA-512(R, A, M) modulo L. The cofactor takes no
//! part, and A may be of low order. So a verifying key is any 32 bytes, and one that is no point accepts
//! nothing.
//!
//! A batch of eight signs by 51 additions of entries of a table, which are 7 multiplications each, and an
//! inversion: 18 k IFMA. It verifies by 250 doublings of 4 squarings and 3 or 4 multiplications, 77
//! additions, 16 multiples of the key, and the square roots of A and R, which run side by side (to decode R
//! and compare takes less than to encode the sum): 120 k IFMA.

mod operation;

pub(crate) mod hash;
pub(crate) mod library;
pub(crate) mod reference;
#[cfg(target_arch = "x86_64")]
pub(crate) mod ways;

#[cfg(test)]
mod tests;

pub(crate) use operation::ED25519;
pub use operation::Operation;

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::curve25519::clamp;
use crate::debug_only;

/// Bytes of a seed, which is the secret key of RFC 8032.
pub const ED25519_SEED_BYTES: usize = 32;

/// Bytes of a public key.
const ED25519_PUBLIC_BYTES: usize = 32;

/// Bytes of a signature.
pub const ED25519_SIGNATURE_BYTES: usize = 64;

/// A signing key: what RFC 8032 section 5.1.5 makes of a seed. It is wiped when it is dropped.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct Ed25519Key {
    /// The seed and the public key, as AWS-LC wants a private key.
    pair: [u8; 64],
    /// The secret scalar, a multiple of eight from 2^254 on.
    scalar: [u8; 32],
    /// The bytes that are hashed before the message to make the secret scalar of a signature.
    prefix: [u8; 32],
}

debug_only!(self: Ed25519Key { public: self.public() });

impl Ed25519Key {
    /// Expands a seed: any 32 bytes are one.
    pub fn from_seed(seed: &[u8; ED25519_SEED_BYTES]) -> Self {
        let mut key = Self { pair: [0; 64], scalar: [0; 32], prefix: [0; 32] };
        sealane_native::curve25519::ed25519_pair(&mut key.pair, seed);
        let mut expanded = hash::library(&hash::Message { head: seed, body: &[] });
        let ([scalar, prefix], []) = expanded.as_chunks::<32>() else {
            unreachable!("64 bytes are twice 32")
        };
        (key.scalar, key.prefix) = (clamp(*scalar), *prefix);
        expanded.zeroize();
        key
    }

    /// Returns the public key.
    pub fn public(&self) -> &[u8; ED25519_PUBLIC_BYTES] {
        let (_, public) = self.pair.split_last_chunk().expect("64 bytes end with 32");
        public
    }

    pub(crate) const fn pair(&self) -> &[u8; 64] {
        &self.pair
    }

    pub(crate) const fn scalar(&self) -> &[u8; 32] {
        &self.scalar
    }

    pub(crate) const fn prefix(&self) -> &[u8; 32] {
        &self.prefix
    }
}

/// A verifying key: any 32 bytes. One that is not the encoding of a point accepts no signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ed25519PublicKey([u8; ED25519_PUBLIC_BYTES]);

impl Ed25519PublicKey {
    /// Takes an encoded point.
    pub const fn new(bytes: &[u8; ED25519_PUBLIC_BYTES]) -> Self {
        Self(*bytes)
    }

    /// Returns the encoded point.
    pub const fn bytes(&self) -> &[u8; ED25519_PUBLIC_BYTES] {
        &self.0
    }
}

/// One message to sign.
#[derive(Debug)]
pub(crate) struct Signing<'a> {
    /// The signer.
    pub(crate) key: &'a Ed25519Key,
    /// The whole message.
    pub(crate) message: &'a [u8],
    /// The signature is written here: the encoded point R, then s.
    pub(crate) signature: &'a mut [u8; ED25519_SIGNATURE_BYTES],
}

/// One signature to verify.
#[derive(Debug)]
pub(crate) struct Verifying<'a> {
    /// The signer's public key.
    pub(crate) key: &'a Ed25519PublicKey,
    /// The whole message.
    pub(crate) message: &'a [u8],
    /// The encoded point R, then s.
    pub(crate) signature: &'a [u8; ED25519_SIGNATURE_BYTES],
}
