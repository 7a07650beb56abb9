//! The peer in the process: a key of OpenSSL's own library, called as programs call it.
//!
//! **Guarantee:** the library's functions are called with values of the types that openssl/evp.h states, and with buffers of the
//! stated lengths; each object is used by one thread.

#![allow(unsafe_code)]

use libloading::Library;
use std::ffi::{c_int, c_long, c_uchar, c_void};
use std::ptr::null_mut;

/// A pointer to one of the library's objects.
type Object = *mut c_void;

type ReadKey = unsafe extern "C" fn(*mut Object, *mut *const c_uchar, c_long) -> Object;
type NewContext = unsafe extern "C" fn(Object, Object) -> Object;
type OnContext = unsafe extern "C" fn(Object) -> c_int;
type SetPadding = unsafe extern "C" fn(Object, c_int) -> c_int;
type SetDigest = unsafe extern "C" fn(Object, *const c_void) -> c_int;
type Digest = unsafe extern "C" fn() -> *const c_void;
type Sign = unsafe extern "C" fn(Object, *mut c_uchar, *mut usize, *const c_uchar, usize) -> c_int;

/// The library.
pub(crate) struct OpenSsl(Library);

/// A private key that signs digests of SHA-256 by RSASSA-PKCS1-v1_5. The objects live until the process ends.
pub(crate) struct Signer {
    context: Object,
    sign: Sign,
}

impl OpenSsl {
    /// Loads the library, if this host has one of OpenSSL 3.
    pub(crate) fn load() -> Option<Self> {
        // SAFETY: this is OpenSSL's library.
        unsafe { Library::new("libcrypto.so.3") }.ok().map(Self)
    }

    /// Reads a key in DER; returns `None` if a call fails.
    pub(crate) fn signer(&self, der: &[u8]) -> Option<Signer> {
        /// RSA_PKCS1_PADDING.
        const PADDING: c_int = 1;
        let length = c_long::try_from(der.len()).ok()?;
        let mut at = der.as_ptr();
        // SAFETY: the types are those of openssl/evp.h, and the DER has its length.
        unsafe {
            let read: ReadKey = *self.0.get(b"d2i_AutoPrivateKey\0").ok()?;
            let new: NewContext = *self.0.get(b"EVP_PKEY_CTX_new\0").ok()?;
            let begin: OnContext = *self.0.get(b"EVP_PKEY_sign_init\0").ok()?;
            let pad: SetPadding = *self.0.get(b"EVP_PKEY_CTX_set_rsa_padding\0").ok()?;
            let hash: SetDigest = *self.0.get(b"EVP_PKEY_CTX_set_signature_md\0").ok()?;
            let sha256: Digest = *self.0.get(b"EVP_sha256\0").ok()?;
            let sign: Sign = *self.0.get(b"EVP_PKEY_sign\0").ok()?;
            let key = read(null_mut(), &mut at, length);
            let context = if key.is_null() { null_mut() } else { new(key, null_mut()) };
            let is_made = !context.is_null()
                && begin(context) == 1
                && pad(context, PADDING) == 1
                && hash(context, sha256()) == 1;
            is_made.then_some(Signer { context, sign })
        }
    }
}

impl Signer {
    /// Signs a digest; returns the length of the signature in bytes, or 0 if the call fails.
    pub(crate) fn sign(&mut self, digest: &[u8; 32]) -> usize {
        let mut signature = [0; 512];
        let mut length = signature.len();
        // SAFETY: the context is ready to sign, and the buffers have the stated lengths.
        let outcome = unsafe {
            (self.sign)(self.context, signature.as_mut_ptr(), &mut length, digest.as_ptr(), digest.len())
        };
        if outcome == 1 { length } else { 0 }
    }
}
