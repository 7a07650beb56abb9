//! RSA signatures with SHA-1 (RFC 7296, section 3.8, method 1). Windows and Apple's systems require them of a server
//! with an RSA key, because they do not speak RFC 7427. aws-lc-rs verifies such signatures but does not make them;
//! the library beneath it makes them.

use aws_lc_rs::digest;
use sealane_native::Hash;
use sealane_native::key::{Key, Kind, Padding};

/// A private RSA key, owned by the library.
pub(super) struct RsaKey(Key);

impl RsaKey {
    /// Reads a private key, PKCS #8 in DER; `None` if it is not an RSA key.
    pub(super) fn from_pkcs8(der: &[u8]) -> Option<Self> {
        let key = Key::of_pkcs8(der).ok()?;
        matches!(key.kind(), Some(Kind::Rsa { .. })).then_some(Self(key))
    }

    /// Returns the signature of `octets`, PKCS #1 v1.5 with SHA-1.
    pub(super) fn sign(&self, octets: &[u8]) -> Option<Vec<u8>> {
        let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, octets);
        let signature = self.0.sign(Some(Padding::Pkcs1(Some(Hash::Sha1))), digest.as_ref()).ok()?;
        Some(signature.to_vec())
    }
}
