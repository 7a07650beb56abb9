//! Signatures, encryption and agreements, one at a time.
//!
//! **Guarantees:** results are wiped when dropped; RSA's private operation is blinded and checked.
#![allow(unsafe_code)]

use core::ffi::c_int;
use core::ptr::{null, null_mut};

use aws_lc_sys as c;
use zeroize::Zeroizing;

use super::{Context, Key, Padding, filled};
use crate::digest;
use crate::outcome::{Refused, yes};

/// A function that begins an operation.
type Begin = unsafe extern "C" fn(*mut c::EVP_PKEY_CTX) -> c_int;

/// A function that runs one: context, place of the result, its room and length, content, its length.
type Run = unsafe extern "C" fn(*mut c::EVP_PKEY_CTX, *mut u8, *mut usize, *const u8, usize) -> c_int;

impl Key {
    /// Begins an operation.
    fn begin(&self, begin: Begin, padding: Option<Padding>) -> Result<Context, Refused> {
        let mut context = self.context()?;
        // SAFETY: the context lives.
        yes(unsafe { begin(context.context()) })?;
        context.pad(padding)?;
        Ok(context)
    }

    /// Runs an operation that makes bytes of bytes.
    fn run(
        &self,
        (begin, run): (Begin, Run),
        padding: Option<Padding>,
        content: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, Refused> {
        let mut context = self.begin(begin, padding)?;
        // SAFETY: the context lives and was initialised for this; slices have their lengths, and `filled` provides memory of the
        // stated length.
        filled(self.size(), |out, length| unsafe {
            run(context.context(), out, length, content.as_ptr(), content.len())
        })
    }

    /// Signs a digest by RSA, which has a padding, or by ECDSA.
    ///
    /// # Errors
    /// The digest has not the hash's length, or the key cannot sign.
    pub fn sign(&self, padding: Option<Padding>, digest: &[u8]) -> Result<Zeroizing<Vec<u8>>, Refused> {
        self.run((c::EVP_PKEY_sign_init, c::EVP_PKEY_sign), padding, digest)
    }

    /// Fails unless the signature of the digest was made with this key.
    ///
    /// # Errors
    /// It was not.
    pub fn verify(&self, padding: Option<Padding>, digest: &[u8], signature: &[u8]) -> Result<(), Refused> {
        let mut context = self.begin(c::EVP_PKEY_verify_init, padding)?;
        // SAFETY: the context lives and was initialised to verify; slices have their lengths.
        yes(unsafe {
            let (signature, length) = (signature.as_ptr(), signature.len());
            c::EVP_PKEY_verify(context.context(), signature, length, digest.as_ptr(), digest.len())
        })
    }

    /// Returns the bytes from which a signature by RSA was made, without their padding.
    ///
    /// # Errors
    /// The padding is wrong, or the key is another's.
    pub fn recover(&self, padding: Padding, signature: &[u8]) -> Result<Zeroizing<Vec<u8>>, Refused> {
        self.run((c::EVP_PKEY_verify_recover_init, c::EVP_PKEY_verify_recover), Some(padding), signature)
    }

    /// Decrypts by RSA.
    ///
    /// # Errors
    /// The ciphertext was not made for this key.
    pub fn decrypt(&self, padding: Padding, ciphertext: &[u8]) -> Result<Zeroizing<Vec<u8>>, Refused> {
        self.run((c::EVP_PKEY_decrypt_init, c::EVP_PKEY_decrypt), Some(padding), ciphertext)
    }

    /// Encrypts by RSA.
    ///
    /// # Errors
    /// The plaintext is too long.
    pub fn encrypt(&self, padding: Padding, plaintext: &[u8]) -> Result<Vec<u8>, Refused> {
        let made = self.run((c::EVP_PKEY_encrypt_init, c::EVP_PKEY_encrypt), Some(padding), plaintext)?;
        Ok(made.to_vec())
    }

    /// Signs a message by Ed25519.
    ///
    /// # Errors
    /// The key is another's.
    pub fn sign_message(&self, message: &[u8]) -> Result<Zeroizing<Vec<u8>>, Refused> {
        let mut context = digest::Context::new()?;
        let raw = context.context();
        // SAFETY: context and key live; slices have their lengths.
        unsafe {
            yes(c::EVP_DigestSignInit(raw, null_mut(), null(), null_mut(), self.key()))?;
            filled(64, |out, length| c::EVP_DigestSign(raw, out, length, message.as_ptr(), message.len()))
        }
    }

    /// Fails unless the Ed25519 signature of the message was made with this key.
    ///
    /// # Errors
    /// It was not.
    pub fn verify_message(&self, message: &[u8], signature: &[u8]) -> Result<(), Refused> {
        let mut context = digest::Context::new()?;
        let raw = context.context();
        // SAFETY: context and key live; slices have their lengths.
        unsafe {
            yes(c::EVP_DigestVerifyInit(raw, null_mut(), null(), null_mut(), self.key()))?;
            let (signature, length) = (signature.as_ptr(), signature.len());
            yes(c::EVP_DigestVerify(raw, signature, length, message.as_ptr(), message.len()))
        }
    }

    /// Returns the secret shared with the owner of a public key, which is a point or 32 bytes.
    ///
    /// # Errors
    /// The public key is none, or of X25519 and gives zero.
    pub fn derive(&self, peer: &[u8]) -> Result<Zeroizing<Vec<u8>>, Refused> {
        let peer = self.peer(peer)?;
        let mut context = self.begin(c::EVP_PKEY_derive_init, None)?;
        let raw = context.context();
        // SAFETY: context and keys live; `filled` provides memory of the stated length.
        unsafe {
            yes(c::EVP_PKEY_derive_set_peer(raw, peer.key()))?;
            filled(self.size().max(32), |out, length| c::EVP_PKEY_derive(raw, out, length))
        }
    }
}

impl Context {
    fn pad(&mut self, padding: Option<Padding>) -> Result<(), Refused> {
        let Some(padding) = padding else { return Ok(()) };
        let raw = self.context();
        // SAFETY: the context lives, and tables of digests are static.
        unsafe {
            match padding {
                Padding::Pkcs1(hash) => {
                    yes(c::EVP_PKEY_CTX_set_rsa_padding(raw, c::RSA_PKCS1_PADDING))?;
                    hash.map_or(Ok(()), |hash| yes(c::EVP_PKEY_CTX_set_signature_md(raw, hash.table())))
                }
                Padding::Pss { hash, mask, salt_bytes } => {
                    yes(c::EVP_PKEY_CTX_set_rsa_padding(raw, c::RSA_PKCS1_PSS_PADDING))?;
                    yes(c::EVP_PKEY_CTX_set_signature_md(raw, hash.table()))?;
                    yes(c::EVP_PKEY_CTX_set_rsa_mgf1_md(raw, mask.table()))?;
                    yes(c::EVP_PKEY_CTX_set_rsa_pss_saltlen(raw, salt_bytes.map_or(-2, c_int::from)))
                }
                Padding::None => yes(c::EVP_PKEY_CTX_set_rsa_padding(raw, c::RSA_NO_PADDING)),
                Padding::Oaep { hash, mask } => {
                    yes(c::EVP_PKEY_CTX_set_rsa_padding(raw, c::RSA_PKCS1_OAEP_PADDING))?;
                    yes(c::EVP_PKEY_CTX_set_rsa_oaep_md(raw, hash.table()))?;
                    yes(c::EVP_PKEY_CTX_set_rsa_mgf1_md(raw, mask.table()))
                }
            }
        }
    }
}
