//! X25519, RFC 7748: shared secrets and public keys.
//!
//! Any 32 bytes are a secret and any 32 bytes are a peer's point: bits are cleared and set as the RFC says,
//! and the peer's number may be 2^255 - 19 or more. A peer's point of low order gives the shared secret zero,
//! which is the outcome `false` of all tiers; the output is zero then.
//!
//! A batch of eight shared secrets costs 251 ladder steps of 5 multiplications, 4 squarings and a
//! multiplication by a small number, four doublings and an inversion: 96 k IFMA. Public keys are multiples of
//! the base point of Edwards's form, by 51 additions of entries of a table: 18 k IFMA.

mod operation;

pub(crate) mod library;
pub(crate) mod reference;
#[cfg(target_arch = "x86_64")]
pub(crate) mod ways;

#[cfg(test)]
mod tests;

pub use operation::Operation;
pub(crate) use operation::X25519;

use crate::debug_only;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Bytes of a secret, of a public key and of a shared secret.
pub const X25519_BYTES: usize = 32;

/// A secret scalar of X25519, wiped when it is dropped.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub struct X25519Key {
    /// The secret with the bits cleared and set that RFC 7748 section 5 names.
    scalar: [u8; X25519_BYTES],
}

debug_only!(X25519Key {});

impl X25519Key {
    /// Takes a secret: any 32 bytes are one.
    pub const fn new(secret: &[u8; X25519_BYTES]) -> Self {
        Self { scalar: crate::curve25519::clamp(*secret) }
    }

    pub(crate) const fn scalar(&self) -> &[u8; X25519_BYTES] {
        &self.scalar
    }
}

/// One shared secret to compute.
#[derive(Debug)]
pub(crate) struct Agreement<'a> {
    /// The own secret.
    pub(crate) key: &'a X25519Key,
    /// The peer's public key.
    pub(crate) peer: &'a [u8; X25519_BYTES],
    /// The shared secret, which is zero where the outcome is `false`.
    pub(crate) shared: &'a mut [u8; X25519_BYTES],
}

/// One public key to compute.
#[derive(Debug)]
pub(crate) struct PublicOf<'a> {
    /// The secret.
    pub(crate) key: &'a X25519Key,
    /// The public key.
    pub(crate) public: &'a mut [u8; X25519_BYTES],
}
