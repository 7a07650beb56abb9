//! The native tier of P-256: AWS-LC, one operation at a time.
//!
//! Signatures take the nonces of RFC 6979 that the other tiers take, so that all tiers write the same signature.

use zeroize::Zeroize as _;

use super::integer;
use super::key::{P256PrivateKey, P256PublicKey};
use super::nonce::Nonces;
use super::reference::{integer_of_digest, parts_of_signature};

/// As [`super::reference::ecdh_reference`].
pub(crate) fn ecdh_native(key: &P256PrivateKey, peer: &[u8], shared: &mut [u8; 32]) -> bool {
    *shared = [0; 32];
    key.library().is_some_and(|key| key.agree(peer, shared).is_ok())
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
    let is_signed = key.library().is_some_and(|key| key.sign_with(digest, &nonce, signature).is_ok());
    nonce.zeroize();
    is_signed
}

/// As [`super::reference::verify_reference`].
pub(crate) fn verify_native(key: &P256PublicKey, digest: &[u8], signature: &[u8; 64]) -> bool {
    if digest.len() < super::SHORTEST_DIGEST_BYTES {
        return false;
    }
    let ([r, s], []) = signature.as_chunks() else { unreachable!("64 bytes are twice 32") };
    parts_of_signature(signature).is_some()
        && key.library().is_some_and(|key| key.verify(digest, r, s).is_ok())
}

/// Returns the public key of a private key.
pub(crate) fn public_key_native(key: &P256PrivateKey) -> Option<P256PublicKey> {
    P256PublicKey::by_library(key.scalar())
}
