//! AES-CCM (NIST SP 800-38C), by a context for each key: what other implementations are compared with.
//!
//! **Guarantees:** lengths are checked; the context and its key are wiped when dropped.
#![allow(unsafe_code)]

use core::ffi::c_int;
use core::ptr::{null, null_mut};

use aws_lc_sys as c;

use crate::blocks::Context;
use crate::outcome::{Refused, yes};

/// A key for one direction, with the lengths of nonces and tags.
#[derive(Debug)]
pub struct Ccm {
    context: Context,
    nonce_bytes: u8,
    tag_bytes: u8,
}

impl Ccm {
    /// Takes a key of 16 or 32 bytes.
    ///
    /// # Errors
    /// There are others, or CCM has no nonces or tags of these lengths.
    pub fn new(key: &[u8], nonce_bytes: u8, tag_bytes: u8, seals: bool) -> Result<Self, Refused> {
        // SAFETY: the functions take no arguments and return constants.
        let cipher = unsafe {
            match key.len() {
                16 => c::EVP_aes_128_ccm(),
                32 => c::EVP_aes_256_ccm(),
                _ => return Err(Refused),
            }
        };
        let mut ccm = Self { context: Context::new()?, nonce_bytes, tag_bytes };
        // SAFETY: the context lives, and the cipher is static; key and nonce follow.
        yes(unsafe {
            c::EVP_CipherInit_ex(ccm.context.context(), cipher, null_mut(), null(), null(), seals.into())
        })?;
        // SAFETY: with null pointers, lengths alone are set.
        unsafe {
            ccm.control(c::EVP_CTRL_AEAD_SET_IVLEN, nonce_bytes, null_mut())?;
            ccm.control(c::EVP_CTRL_AEAD_SET_TAG, tag_bytes, null_mut())?;
        }
        // SAFETY: the key has the cipher's length; nothing else is read.
        yes(unsafe {
            c::EVP_CipherInit_ex(ccm.context.context(), null(), null_mut(), key.as_ptr(), null(), -1)
        })?;
        Ok(ccm)
    }

    /// # Safety
    /// The control writes or reads as many bytes as it is told, which are there unless the pointer is null.
    unsafe fn control(&mut self, which: c_int, bytes: u8, at: *mut u8) -> Result<(), Refused> {
        // SAFETY: the contract: so many bytes are there, or the pointer is null; the context lives as long as this value.
        yes(unsafe { c::EVP_CIPHER_CTX_ctrl(self.context.context(), which, bytes.into(), at.cast()) })
    }

    /// # Safety
    /// `input` has as many bytes as `output` and is its beginning, or does not overlap it.
    unsafe fn run(
        &mut self,
        nonce: &[u8],
        aad: &[u8],
        input: *const u8,
        output: &mut [u8],
    ) -> Result<(), Refused> {
        if nonce.len() < self.nonce_bytes.into() {
            return Err(Refused);
        }
        let mut written = 0;
        let bytes = c_int::try_from(output.len()).map_err(|_| Refused)?;
        let aad_bytes = c_int::try_from(aad.len()).map_err(|_| Refused)?;
        let context = self.context.context();
        // SAFETY: the nonce has at least the length that the context knows; the contract for the others.
        unsafe {
            yes(c::EVP_CipherInit_ex(context, null(), null_mut(), null(), nonce.as_ptr(), -1))?;
            yes(c::EVP_CipherUpdate(context, null_mut(), &raw mut written, null(), bytes))?;
            yes(c::EVP_CipherUpdate(context, null_mut(), &raw mut written, aad.as_ptr(), aad_bytes))?;
            yes(c::EVP_CipherUpdate(context, output.as_mut_ptr(), &raw mut written, input, bytes))
        }
    }

    /// Seals `data` in place, and writes the tag; of the nonce its first bytes count.
    ///
    /// # Errors
    /// The nonce is too short, or the key opens.
    pub fn seal(
        &mut self,
        nonce: &[u8],
        aad: &[u8],
        data: &mut [u8],
        tag: &mut [u8; 16],
    ) -> Result<(), Refused> {
        // SAFETY: the data are input and output; the tag has room for the longest.
        unsafe {
            let input = data.as_mut_ptr().cast_const();
            self.run(nonce, aad, input, data)?;
            self.control(c::EVP_CTRL_AEAD_GET_TAG, self.tag_bytes, tag.as_mut_ptr())
        }
    }

    /// Opens `sealed` into `opened`, which is as long.
    ///
    /// # Errors
    /// The tag is wrong, the lengths differ, or the key seals.
    pub fn open(
        &mut self,
        nonce: &[u8],
        aad: &[u8],
        sealed: &[u8],
        tag: &[u8; 16],
        opened: &mut [u8],
    ) -> Result<(), Refused> {
        if sealed.len() != opened.len() {
            return Err(Refused);
        }
        // SAFETY: setting a tag only reads it; the slices have one length, and do not overlap.
        unsafe {
            self.control(c::EVP_CTRL_AEAD_SET_TAG, self.tag_bytes, tag.as_ptr().cast_mut())?;
            self.run(nonce, aad, sealed.as_ptr(), opened)
        }
    }
}
