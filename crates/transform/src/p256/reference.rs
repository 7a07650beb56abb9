//! P-256 as SP 800-186 and FIPS 186-5 define it: the oracle of the other tiers.
//!
//! No branch and no address depends on a secret, except that a nonce that RFC 6979 rejects is followed by another.

use zeroize::Zeroize as _;

use super::curve::Projective;
use super::integer::{self, N, U256};
use super::key::{P256PrivateKey, P256PublicKey};
use super::nonce::Nonces;

/// Returns the integer of a digest modulo the order, FIPS 186-5 section 6.4: its leftmost 256 bits. Digests
/// below 20 bytes are refused.
pub(super) fn integer_of_digest(digest: &[u8]) -> Option<U256> {
    if digest.len() < super::SHORTEST_DIGEST_BYTES {
        return None;
    }
    let mut bytes = [0; 32];
    let used = digest.len().min(32);
    bytes[32 - used..].copy_from_slice(&digest[..used]);
    Some(N.reduce(&integer::from_bytes(&bytes)))
}

/// Returns r and s of a signature if both are between zero and the order.
pub(super) fn parts_of_signature(signature: &[u8; 64]) -> Option<(U256, U256)> {
    let (halves, _) = signature.as_chunks::<32>();
    let part = |half| {
        let value = integer::from_bytes(half);
        bool::from(N.contains(&value) & !integer::is_zero(&value)).then_some(value)
    };
    part(&halves[0]).zip(part(&halves[1]))
}

/// Writes the x coordinate of the shared point, SP 800-56A section 5.7.1.2, and returns whether the peer's
/// point (65 bytes, or 33 compressed) is valid. `shared` is zero if it is not.
pub(crate) fn ecdh_reference(key: &P256PrivateKey, peer: &[u8], shared: &mut [u8; 32]) -> bool {
    *shared = [0; 32];
    let Some(point) = super::key::point_of_bytes(peer) else { return false };
    // No multiple by a scalar between zero and the order is neutral, because the order is a prime.
    let mut product = Projective::new(&point).multiply(key.scalar()).affine();
    *shared = integer::to_bytes(&product.x);
    product.x.zeroize();
    product.y.zeroize();
    true
}

/// Signs a digest, FIPS 186-5 section 6.4.1, with the nonce of RFC 6979 over HMAC-SHA-256; `hedge` is the
/// additional data of its section 3.6. Returns whether there is a signature: there is none for a digest below
/// 20 bytes.
pub(crate) fn sign_reference(
    key: &P256PrivateKey,
    digest: &[u8],
    hedge: Option<&[u8; 32]>,
    signature: &mut [u8; 64],
) -> bool {
    *signature = [0; 64];
    let Some(e) = integer_of_digest(digest) else { return false };
    let mut nonces = Nonces::new(key.scalar(), &e, hedge);
    loop {
        let mut nonce = nonces.next();
        let signed = sign_with(key.scalar(), &e, &nonce);
        nonce.zeroize();
        if let Some((r, s)) = signed {
            signature[..32].copy_from_slice(&integer::to_bytes(&r));
            signature[32..].copy_from_slice(&integer::to_bytes(&s));
            return true;
        }
    }
}

/// Returns r and s, unless one is zero.
pub(super) fn sign_with(scalar: &U256, e: &U256, nonce: &U256) -> Option<(U256, U256)> {
    let r = N.reduce(&Projective::base().multiply(nonce).affine().x);
    let mut product = N.mul(&N.enter(&r), &N.enter(scalar));
    let mut inverse = N.invert(&N.enter(nonce));
    let s = N.leave(&N.mul(&inverse, &N.add(&N.enter(e), &product)));
    product.zeroize();
    inverse.zeroize();
    let is_zero = integer::is_zero(&r) | integer::is_zero(&s);
    (!bool::from(is_zero)).then_some((r, s))
}

/// Returns whether a signature of a digest is valid, FIPS 186-5 section 6.4.2: r and s between zero and the
/// order, digests of at least 20 bytes. Both s and n − s are valid, as the standard says.
pub(crate) fn verify_reference(key: &P256PublicKey, digest: &[u8], signature: &[u8; 64]) -> bool {
    let Some((e, (r, s))) = integer_of_digest(digest).zip(parts_of_signature(signature)) else {
        return false;
    };
    let inverse = N.invert(&N.enter(&s));
    let u = N.mul(&e, &inverse);
    let v = N.mul(&r, &inverse);
    let sum = Projective::base().multiply(&u).add(&Projective::new(key.point()).multiply(&v));
    // The x of a neutral sum is zero, and r is not.
    N.reduce(&sum.affine().x) == r
}
