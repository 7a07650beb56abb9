//! AWS-LC's CCM, by a context for each key.
#![allow(unsafe_code)]

use std::ffi::c_int;
use std::ptr::{null, null_mut};

use aws_lc_sys::{
    EVP_CIPHER_CTX, EVP_CIPHER_CTX_ctrl, EVP_CIPHER_CTX_free, EVP_CIPHER_CTX_new, EVP_CTRL_AEAD_GET_TAG,
    EVP_CTRL_AEAD_SET_IVLEN, EVP_CTRL_AEAD_SET_TAG, EVP_CipherInit_ex, EVP_CipherUpdate, EVP_aes_128_ccm,
    EVP_aes_256_ccm,
};
use sealane_transform::AeadLengths;

/// A key for one direction.
pub(crate) struct Ccm {
    context: *mut EVP_CIPHER_CTX,
    lengths: AeadLengths,
}

impl Drop for Ccm {
    fn drop(&mut self) {
        // SAFETY: it was made by `new`, and nobody else frees it.
        unsafe { EVP_CIPHER_CTX_free(self.context) }
    }
}

impl Ccm {
    /// Takes a key of 16 or 32 bytes.
    pub(crate) fn new(key: &[u8], lengths: AeadLengths, seals: bool) -> Self {
        let mut ccm = Self { context: null_mut(), lengths };
        let AeadLengths { nonce_bytes, tag_bytes } = lengths;
        // SAFETY: the key has the cipher's length; nothing else is read.
        unsafe {
            ccm.context = EVP_CIPHER_CTX_new();
            let cipher = if key.len() == 16 { EVP_aes_128_ccm() } else { EVP_aes_256_ccm() };
            let (context, seals) = (ccm.context, seals.into());
            assert_eq!(EVP_CipherInit_ex(context, cipher, null_mut(), null(), null(), seals), 1);
            assert!(ccm.control(EVP_CTRL_AEAD_SET_IVLEN, nonce_bytes, null_mut()));
            assert!(ccm.control(EVP_CTRL_AEAD_SET_TAG, tag_bytes, null_mut()));
            assert_eq!(EVP_CipherInit_ex(context, null(), null_mut(), key.as_ptr(), null(), -1), 1);
        }
        ccm
    }

    /// # Safety
    /// The control writes or reads as many bytes as it is told, which are there unless the pointer is null.
    unsafe fn control(&mut self, which: c_int, bytes: u8, at: *mut u8) -> bool {
        // SAFETY: the contract: so many bytes are there, or the pointer is null; the context lives as long as this value.
        unsafe { EVP_CIPHER_CTX_ctrl(self.context, which, bytes.into(), at.cast()) == 1 }
    }

    /// # Safety
    /// `input` has as many bytes as `output` and is its beginning, or does not overlap it.
    unsafe fn run(&mut self, nonce: &[u8; 12], aad: &[u8], input: *const u8, output: &mut [u8]) -> bool {
        let mut written = 0;
        let (bytes, aad_bytes) = (output.len() as c_int, aad.len() as c_int);
        // SAFETY: the nonce has at least the length that the context knows; the contract for the others.
        unsafe {
            EVP_CipherInit_ex(self.context, null(), null_mut(), null(), nonce.as_ptr(), -1) == 1
                && EVP_CipherUpdate(self.context, null_mut(), &raw mut written, null(), bytes) == 1
                && EVP_CipherUpdate(self.context, null_mut(), &raw mut written, aad.as_ptr(), aad_bytes) == 1
                && EVP_CipherUpdate(self.context, output.as_mut_ptr(), &raw mut written, input, bytes) == 1
        }
    }

    /// Seals `data` in place, and writes the tag.
    pub(crate) fn seal(&mut self, nonce: &[u8; 12], aad: &[u8], data: &mut [u8], tag: &mut [u8; 16]) {
        // SAFETY: the data are input and output; the tag has room for the longest.
        unsafe {
            assert!(self.run(nonce, aad, data.as_ptr(), data));
            assert!(self.control(EVP_CTRL_AEAD_GET_TAG, self.lengths.tag_bytes, tag.as_mut_ptr()));
        }
    }

    /// Opens `sealed` into `opened`, which is as long. Returns whether the tag is right.
    pub(crate) fn open(
        &mut self,
        nonce: &[u8; 12],
        aad: &[u8],
        sealed: &[u8],
        tag: &[u8; 16],
        opened: &mut [u8],
    ) -> bool {
        assert_eq!(sealed.len(), opened.len());
        let tag = tag.as_ptr().cast_mut();
        // SAFETY: setting a tag only reads it; the slices have one length, and do not overlap.
        unsafe {
            self.control(EVP_CTRL_AEAD_SET_TAG, self.lengths.tag_bytes, tag)
                && self.run(nonce, aad, sealed.as_ptr(), opened)
        }
    }
}
