//! X25519 by AWS-LC, one at a time.

use sealane_native::curve25519::{x25519, x25519_public};

use super::{Agreement, PublicOf};

/// Computes a shared secret; `false` if it is zero.
pub(crate) fn shared(job: &mut Agreement<'_>) -> bool {
    x25519(job.shared, job.key.scalar(), job.peer)
}

/// Computes a public key.
pub(crate) fn public(job: &mut PublicOf<'_>) {
    x25519_public(job.public, job.key.scalar());
}
