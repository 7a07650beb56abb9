//! Ed25519 by AWS-LC, one at a time.
//!
//! `unsafe`: calls of C with fixed arrays and a slice.
#![allow(unsafe_code)]

use aws_lc_sys::{ED25519_keypair_from_seed, ED25519_sign, ED25519_verify};

use super::{ED25519_SEED_BYTES, Signing, Verifying};

/// Writes the seed and its public key.
pub(crate) fn pair(seed: &[u8; ED25519_SEED_BYTES], pair: &mut [u8; 64]) {
    let mut public = [0; 32];
    // SAFETY: arrays of 32, 64 and 32 bytes, of which the last is read.
    unsafe { ED25519_keypair_from_seed(public.as_mut_ptr(), pair.as_mut_ptr(), seed.as_ptr()) };
}

/// Signs by AWS-LC.
pub(crate) fn sign(job: &mut Signing<'_>) {
    let (message, pair) = (job.message, job.key.pair());
    // SAFETY: 64 bytes to write, a message of so many bytes, and a private key of 64 bytes.
    let done =
        unsafe { ED25519_sign(job.signature.as_mut_ptr(), message.as_ptr(), message.len(), pair.as_ptr()) };
    debug_assert_eq!(done, 1, "the library signs without allocation");
}

/// Verifies.
pub(crate) fn verify(job: &Verifying<'_>) -> bool {
    let (message, key) = (job.message, job.key.bytes());
    // SAFETY: a message of so many bytes, a signature of 64 and a public key of 32 bytes.
    unsafe { ED25519_verify(message.as_ptr(), message.len(), job.signature.as_ptr(), key.as_ptr()) == 1 }
}
