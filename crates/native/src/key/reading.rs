//! Keys of the formats in which files and programs have them.
//!
//! **Guarantees:** any bytes are a key or an error; passphrases are read where they are, and not kept.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr::{NonNull, null_mut};

use aws_lc_sys as c;

use super::{Key, reader};
use crate::outcome::{Refused, owned, yes};

owned! {
    /// Bytes that a function reads as a file.
    struct File(c::BIO), BIO_free_all
}

owned! {
    /// A list that owns nothing of what is in it.
    struct List(c::OPENSSL_STACK), OPENSSL_sk_free
}

impl Key {
    /// Reads unencrypted PKCS#8 in DER (RFC 5958).
    ///
    /// # Errors
    /// The bytes are not such a key, or more.
    pub fn of_pkcs8(der: &[u8]) -> Result<Self, Refused> {
        let mut reader = reader(der);
        // SAFETY: the reader is over the slice, and the key is new.
        let key = unsafe { Self::take(c::EVP_parse_private_key(&mut reader))? };
        if reader.len == 0 { Ok(key) } else { Err(Refused) }
    }

    /// Reads encrypted PKCS#8 in DER.
    ///
    /// # Errors
    /// The bytes are not such a key, or the passphrase is another.
    pub fn of_encrypted_pkcs8(der: &[u8], passphrase: &[u8]) -> Result<Self, Refused> {
        let mut reader = reader(der);
        // SAFETY: both slices live through the call with their lengths, and the key is new.
        unsafe {
            Self::take(c::PKCS8_parse_encrypted_private_key(
                &mut reader,
                passphrase.as_ptr().cast(),
                passphrase.len(),
            ))
        }
    }

    /// Reads the only key of a PKCS#12 file (RFC 7292).
    ///
    /// # Errors
    /// The bytes are no such file, or the passphrase is another.
    pub fn of_pkcs12(der: &[u8], passphrase: &CStr) -> Result<Self, Refused> {
        let mut reader = reader(der);
        let mut key = null_mut();
        // SAFETY: the list is new, and each certificate that the function puts on it is freed once; the passphrase ends with a
        // zero byte; the key is new.
        unsafe {
            let certificates = List::take(c::OPENSSL_sk_new_null())?;
            let list = certificates.as_ptr();
            let outcome =
                c::PKCS12_get_key_and_certs(&mut key, list.cast(), &mut reader, passphrase.as_ptr());
            while let Some(certificate) = NonNull::new(c::OPENSSL_sk_pop(list)) {
                c::X509_free(certificate.as_ptr().cast());
            }
            yes(outcome)?;
            Self::take(key)
        }
    }

    /// Reads the first private key of a PEM file: PKCS#8, PKCS#1 or SEC 1, encrypted or not.
    ///
    /// # Errors
    /// There is none, or the passphrase is another.
    pub fn of_pem(pem: &[u8], passphrase: &[u8]) -> Result<Self, Refused> {
        let length = pem.len().try_into().map_err(|_| Refused)?;
        let mut passphrase = passphrase;
        let secret: *mut &[u8] = &mut passphrase;
        // SAFETY: the file's bytes and the passphrase live through the call; the callback reads the latter; file and key are new.
        unsafe {
            let file = File::take(c::BIO_new_mem_buf(pem.as_ptr().cast(), length))?;
            Self::take(c::PEM_read_bio_PrivateKey(
                file.as_ptr(),
                null_mut(),
                Some(give_passphrase),
                secret.cast(),
            ))
        }
    }

    /// Reads a SubjectPublicKeyInfo in DER.
    ///
    /// # Errors
    /// The bytes are none, or more.
    pub fn of_public(der: &[u8]) -> Result<Self, Refused> {
        let mut reader = reader(der);
        // SAFETY: the reader is over the slice, and the key is new.
        let key = unsafe { Self::take(c::EVP_parse_public_key(&mut reader))? };
        if reader.len == 0 { Ok(key) } else { Err(Refused) }
    }
}

/// Copies the passphrase to which `secret` points.
///
/// # Safety
/// AWS-LC calls it, as the callback of a function that reads PEM (openssl/pem.h): `out` is writable for
/// `size` bytes, and `secret` is the pointer that was given with it, which points to a `&[u8]` that outlives
/// the call.
unsafe extern "C" fn give_passphrase(out: *mut c_char, size: c_int, _: c_int, secret: *mut c_void) -> c_int {
    // SAFETY: the contract: `of_pem` passes a pointer to a slice that outlives the call, and the library
    // passes `size` bytes to write to, with which the passphrase was compared.
    unsafe {
        let passphrase: &[u8] = *secret.cast::<&[u8]>();
        let capacity = usize::try_from(size).unwrap_or(0);
        if passphrase.is_empty() || passphrase.len() > capacity {
            return 0;
        }
        core::ptr::copy_nonoverlapping(passphrase.as_ptr(), out.cast(), passphrase.len());
        passphrase.len() as c_int
    }
}
