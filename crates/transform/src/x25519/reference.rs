//! X25519 as RFC 7748 section 5 defines it.

use subtle::ConstantTimeEq as _;

use super::{Agreement, PublicOf, X25519_BYTES};
use crate::curve25519::reference::{Element, ladder};

/// Computes a shared secret; `false` if it is zero.
pub(crate) fn shared(job: &mut Agreement<'_>) -> bool {
    *job.shared = ladder(job.key.scalar(), Element::from_bytes(job.peer)).to_bytes();
    !bool::from(job.shared.ct_eq(&[0; X25519_BYTES]))
}

/// Computes a public key: the multiple of the point whose u is 9.
pub(crate) fn public(job: &mut PublicOf<'_>) {
    *job.public = ladder(job.key.scalar(), Element([9, 0, 0, 0])).to_bytes();
}
