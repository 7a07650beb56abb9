//! Ed25519 as RFC 8032 sections 5.1.6 and 5.1.7 define it.

use zeroize::Zeroize as _;

use super::hash::{Message, reference as hash};
use super::{Signing, Verifying};
use crate::curve25519::reference::{
    Point, bytes_of, is_scalar, scalar_from_wide, scalar_multiply_add, words_of,
};

/// Returns SHA-512(R, A, M) modulo the order of the base point.
fn challenge(r: &[u8; 32], public: &[u8; 32], message: &[u8]) -> [u64; 4] {
    let mut head = [0; 64];
    head[..32].copy_from_slice(r);
    head[32..].copy_from_slice(public);
    scalar_from_wide(&hash(&Message { head: &head, body: message }))
}

/// Signs by the definition (RFC 8032, section 5.1.6).
pub(crate) fn sign(job: &mut Signing<'_>) {
    let mut nonce = scalar_from_wide(&hash(&Message { head: job.key.prefix(), body: job.message }));
    let r = Point::BASE.multiply(&nonce).encode();
    let k = challenge(&r, job.key.public(), job.message);
    let mut scalar = words_of(job.key.scalar());
    let s = scalar_multiply_add(&scalar, &k, &nonce);
    job.signature[..32].copy_from_slice(&r);
    job.signature[32..].copy_from_slice(&bytes_of(&s));
    nonce.zeroize();
    scalar.zeroize();
}

/// Verifies.
pub(crate) fn verify(job: &Verifying<'_>) -> bool {
    let ([r, s], []) = job.signature.as_chunks::<32>() else { return false };
    let s = words_of(s);
    let Some(a) = Point::decode(job.key.bytes()) else { return false };
    if !is_scalar(&s) {
        return false;
    }
    let k = challenge(r, job.key.bytes(), job.message);
    Point::BASE.multiply(&s).add(a.neg().multiply(&k)).encode() == *r
}
