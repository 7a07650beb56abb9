//! The native tier of P-256: AWS-LC, one operation at a time.
//!
//! Signatures take the nonces of RFC 6979 that the other tiers take, so that all tiers write the same signature.

use zeroize::Zeroize as _;

use super::key::{P256PrivateKey, P256PublicKey};
use super::nonce::Nonces;
use super::reference::{integer_of_digest, parts_of_signature};
use super::{integer, library};

/// As [`super::reference::ecdh_reference`].
pub(crate) fn ecdh_native(key: &P256PrivateKey, peer: &[u8], shared: &mut [u8; 32]) -> bool {
    *shared = [0; 32];
    key.library().is_some_and(|key| library::ecdh(key, peer, shared))
}

/// As [`super::reference::sign_reference`].
pub(crate) fn sign_native(
    key: &P256PrivateKey,
    digest: &[u8],
    hedge: Option<&[u8; 32]>,
    signature: &mut [u8; 64],
) -> bool {
    *signature = [0; 64];
    let Some(e) = integer_of_digest(digest) else { return false };
    let mut nonces = Nonces::new(key.scalar(), &e, hedge);
    let mut nonce = integer::to_bytes(&nonces.next());
    let is_signed = key.library().is_some_and(|key| library::sign_with(key, digest, &nonce, signature));
    nonce.zeroize();
    is_signed
}

/// As [`super::reference::verify_reference`].
pub(crate) fn verify_native(key: &P256PublicKey, digest: &[u8], signature: &[u8; 64]) -> bool {
    if digest.len() < super::SHORTEST_DIGEST_BYTES {
        return false;
    }
    let Some((parts, key)) = parts_of_signature(signature).zip(key.library()) else { return false };
    library::verify(key, digest, parts)
}

/// Returns the public key of a private key.
pub(crate) fn public_key_native(key: &P256PrivateKey) -> Option<P256PublicKey> {
    P256PublicKey::by_library(key.scalar())
}
