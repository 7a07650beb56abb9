//! Ed25519 by AWS-LC, one at a time.

use sealane_native::curve25519::{ed25519_sign, ed25519_verify};

use super::{Signing, Verifying};

/// Signs by AWS-LC.
pub(crate) fn sign(job: &mut Signing<'_>) {
    let is_signed = ed25519_sign(job.signature, job.message, job.key.pair());
    debug_assert!(is_signed, "the library signs without allocation");
}

/// Verifies.
pub(crate) fn verify(job: &Verifying<'_>) -> bool {
    ed25519_verify(job.message, job.signature, job.key.bytes())
}
