//! RSA signatures with SHA-1 (RFC 7296, section 3.8, method 1). Windows and Apple's systems require them of a server
//! with an RSA key, because they do not speak RFC 7427. aws-lc-rs verifies such signatures but does not make them;
//! the library beneath it makes them.
//!
//! Guarantees: the key is owned, freed once, and never changed after it has been read.

#![allow(unsafe_code)]

use std::ptr::{self, NonNull};

use aws_lc_rs::digest;
use aws_lc_sys::{
    CBS, EVP_PKEY, EVP_PKEY_free, EVP_PKEY_get0_RSA, EVP_parse_private_key, NID_sha1, RSA_sign, RSA_size,
};

/// A private RSA key, owned by the library.
pub(super) struct RsaKey(NonNull<EVP_PKEY>);

// SAFETY: the key is only read after it was made, and the library locks the state that it keeps within a key, its
// blinding.
unsafe impl Send for RsaKey {}
// SAFETY: the key is only read, and `RSA_sign` may run in several threads at once.
unsafe impl Sync for RsaKey {}

impl Drop for RsaKey {
    fn drop(&mut self) {
        // SAFETY: the pointer came from `EVP_parse_private_key` and is freed here alone.
        unsafe { EVP_PKEY_free(self.0.as_ptr()) }
    }
}

impl RsaKey {
    /// Reads a private key, PKCS #8 in DER; `None` if it is not an RSA key.
    pub(super) fn from_pkcs8(der: &[u8]) -> Option<Self> {
        let mut bytes = CBS { data: der.as_ptr(), len: der.len() };
        // SAFETY: `bytes` points to memory that outlives the call, which copies what it keeps.
        let key = Self(NonNull::new(unsafe { EVP_parse_private_key(ptr::from_mut(&mut bytes)) })?);
        // SAFETY: the key is alive; a key of another kind gives a null pointer.
        let is_rsa = !unsafe { EVP_PKEY_get0_RSA(key.0.as_ptr()) }.is_null();
        is_rsa.then_some(key)
    }

    /// Returns the signature of `octets`, PKCS #1 v1.5 with SHA-1.
    pub(super) fn sign(&self, octets: &[u8]) -> Option<Vec<u8>> {
        let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, octets);
        let digest = digest.as_ref();
        // SAFETY: the key is alive, and was found to be an RSA key when it was read.
        let rsa = unsafe { EVP_PKEY_get0_RSA(self.0.as_ptr()) };
        // SAFETY: `rsa` belongs to the key, which is alive.
        let mut signature = vec![0; unsafe { RSA_size(rsa) } as usize];
        let mut length = 0;
        // SAFETY: the digest is given with its length; `signature` has as many bytes as the key's modulus, the most
        // that is written.
        let is_signed = unsafe {
            RSA_sign(NID_sha1, digest.as_ptr(), digest.len(), signature.as_mut_ptr(), &mut length, rsa)
        };
        signature.truncate(length as usize);
        (is_signed == 1).then_some(signature)
    }
}
