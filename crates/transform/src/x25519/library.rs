//! X25519 by AWS-LC, one at a time.
//!
//! `unsafe`: calls of C with fixed arrays.
#![allow(unsafe_code)]

use aws_lc_sys::{X25519, X25519_public_from_private};

use super::{Agreement, PublicOf};

/// Computes a shared secret; `false` if it is zero.
pub(crate) fn shared(job: &mut Agreement<'_>) -> bool {
    // SAFETY: three arrays of 32 bytes, of which the first is written.
    unsafe { X25519(job.shared.as_mut_ptr(), job.key.scalar().as_ptr(), job.peer.as_ptr()) == 1 }
}

/// Computes a public key.
pub(crate) fn public(job: &mut PublicOf<'_>) {
    // SAFETY: two arrays of 32 bytes, of which the first is written.
    unsafe { X25519_public_from_private(job.public.as_mut_ptr(), job.key.scalar().as_ptr()) };
}
