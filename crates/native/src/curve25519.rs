//! X25519 (RFC 7748) and Ed25519 (RFC 8032).
//!
//! aws-lc-rs has both, with keys as objects on the heap: here keys are bytes of the caller's, and nothing is allocated.
#![allow(unsafe_code)]

use aws_lc_sys as c;

/// Writes the shared secret of a scalar and a peer's public key. Returns false if it is zero.
#[inline]
#[must_use]
pub fn x25519(shared: &mut [u8; 32], scalar: &[u8; 32], peer: &[u8; 32]) -> bool {
    // SAFETY: three arrays of 32 bytes, of which the first is written.
    unsafe { c::X25519(shared.as_mut_ptr(), scalar.as_ptr(), peer.as_ptr()) == 1 }
}

/// Writes the public key of a scalar.
#[inline]
pub fn x25519_public(public: &mut [u8; 32], scalar: &[u8; 32]) {
    // SAFETY: two arrays of 32 bytes, of which the first is written.
    unsafe { c::X25519_public_from_private(public.as_mut_ptr(), scalar.as_ptr()) };
}

/// Writes a seed of Ed25519, and its public key behind it.
#[inline]
pub fn ed25519_pair(pair: &mut [u8; 64], seed: &[u8; 32]) {
    let mut public = [0; 32];
    // SAFETY: arrays of 32, 64 and 32 bytes, of which the last is read.
    unsafe { c::ED25519_keypair_from_seed(public.as_mut_ptr(), pair.as_mut_ptr(), seed.as_ptr()) };
}

/// Signs a message with a pair that [`ed25519_pair`] has written. Returns whether it did.
#[inline]
#[must_use]
pub fn ed25519_sign(signature: &mut [u8; 64], message: &[u8], pair: &[u8; 64]) -> bool {
    // SAFETY: 64 bytes to write, a message of so many bytes, and a private key of 64 bytes.
    unsafe { c::ED25519_sign(signature.as_mut_ptr(), message.as_ptr(), message.len(), pair.as_ptr()) == 1 }
}

/// Returns whether a signature of a message was made with the private half.
#[inline]
#[must_use]
pub fn ed25519_verify(message: &[u8], signature: &[u8; 64], public: &[u8; 32]) -> bool {
    // SAFETY: a message of so many bytes, a signature of 64 and a public key of 32 bytes.
    unsafe { c::ED25519_verify(message.as_ptr(), message.len(), signature.as_ptr(), public.as_ptr()) == 1 }
}
