//! AES in three modes and ChaCha20-Poly1305, in parts of any length.

use super::{No, Text, some, yes};
use aws_lc_sys as c;
use std::ffi::c_int;
use std::ptr::{NonNull, null, null_mut};

/// The length of AES's block in bytes.
const BLOCK: usize = 16;

/// A mode of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// NIST SP 800-38A, 6.2.
    Cbc,
    /// NIST SP 800-38A, 6.5.
    Ctr,
    /// NIST SP 800-38D.
    Gcm,
    /// RFC 8439, 2.8.
    ChaCha20Poly1305,
}

/// A cipher with its length of key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) mode: Mode,
    pub(crate) key_bytes: usize,
    cipher: unsafe extern "C" fn() -> *const c::EVP_CIPHER,
}

impl Kind {
    /// The ciphers, in the order of [`crate::counters::NAMES`].
    pub(crate) const ALL: [Self; 10] = [
        Self::new(Mode::Gcm, 16, c::EVP_aes_128_gcm),
        Self::new(Mode::Gcm, 24, c::EVP_aes_192_gcm),
        Self::new(Mode::Gcm, 32, c::EVP_aes_256_gcm),
        Self::new(Mode::Cbc, 16, c::EVP_aes_128_cbc),
        Self::new(Mode::Cbc, 24, c::EVP_aes_192_cbc),
        Self::new(Mode::Cbc, 32, c::EVP_aes_256_cbc),
        Self::new(Mode::Ctr, 16, c::EVP_aes_128_ctr),
        Self::new(Mode::Ctr, 24, c::EVP_aes_192_ctr),
        Self::new(Mode::Ctr, 32, c::EVP_aes_256_ctr),
        Self::new(Mode::ChaCha20Poly1305, 32, c::EVP_chacha20_poly1305),
    ];

    const fn new(
        mode: Mode,
        key_bytes: usize,
        cipher: unsafe extern "C" fn() -> *const c::EVP_CIPHER,
    ) -> Self {
        Self { mode, key_bytes, cipher }
    }

    /// Returns the length of a block in bytes; 1 if texts may have any length.
    pub(crate) fn block_bytes(&self) -> usize {
        if self.mode == Mode::Cbc { BLOCK } else { 1 }
    }

    /// Returns the usual length of an initialisation vector in bytes.
    pub(crate) fn iv_bytes(&self) -> usize {
        if self.is_aead() { 12 } else { BLOCK }
    }

    pub(crate) fn is_aead(&self) -> bool {
        matches!(self.mode, Mode::Gcm | Mode::ChaCha20Poly1305)
    }
}

/// An `EVP_CIPHER_CTX`, one cipher with its key.
#[derive(Debug)]
pub(crate) struct Cipher {
    context: NonNull<c::EVP_CIPHER_CTX>,
    kind: Kind,
    iv_bytes: usize,
}

// SAFETY: the context is used by its owner alone, and the library ties it to no thread.
unsafe impl Send for Cipher {}

impl Drop for Cipher {
    fn drop(&mut self) {
        // SAFETY: this value owns it. The library zeroes what it frees.
        unsafe { c::EVP_CIPHER_CTX_free(self.context.as_ptr()) };
    }
}

impl Cipher {
    pub(crate) fn new(kind: Kind) -> Result<Self, No> {
        // SAFETY: the function takes no arguments.
        let context = some(unsafe { c::EVP_CIPHER_CTX_new() })?;
        let cipher = Self { context, kind, iv_bytes: kind.iv_bytes() };
        // SAFETY: the context is new; the cipher is static; key and vector follow later.
        yes(unsafe {
            c::EVP_CipherInit_ex(context.as_ptr(), (kind.cipher)(), null_mut(), null(), null(), 1)
        })?;
        Ok(cipher)
    }

    /// Returns a copy that goes on from the same state.
    pub(crate) fn duplicate(&self) -> Result<Self, No> {
        // SAFETY: the function takes no arguments.
        let context = some(unsafe { c::EVP_CIPHER_CTX_new() })?;
        let copy = Self { context, ..*self };
        // SAFETY: both are contexts, and the first is empty.
        yes(unsafe { c::EVP_CIPHER_CTX_copy(context.as_ptr(), self.context.as_ptr()) })?;
        Ok(copy)
    }

    /// Sets the length of the vectors that follow.
    pub(crate) fn set_iv_bytes(&mut self, bytes: usize) -> Result<(), No> {
        if bytes != self.iv_bytes {
            let length = c_int::try_from(bytes).map_err(|_| No)?;
            self.control(c::EVP_CTRL_AEAD_SET_IVLEN, length, null_mut())?;
            self.iv_bytes = bytes;
        }
        Ok(())
    }

    fn control(&mut self, command: c_int, length: c_int, data: *mut u8) -> Result<(), No> {
        // SAFETY: the callers pass as many bytes as the command reads or writes.
        yes(unsafe { c::EVP_CIPHER_CTX_ctrl(self.context.as_ptr(), command, length, data.cast()) })
    }

    /// Sets direction, key and initialisation vector; one that is absent stays.
    ///
    /// # Errors
    /// Fails if a length is not that of this cipher.
    pub(crate) fn start(&mut self, encrypts: bool, key: Option<&[u8]>, iv: Option<&[u8]>) -> Result<(), No> {
        if key.is_some_and(|key| key.len() != self.kind.key_bytes)
            || iv.is_some_and(|iv| iv.len() != self.iv_bytes)
        {
            return Err(No);
        }
        let (key, iv) = (key.map_or(null(), <[u8]>::as_ptr), iv.map_or(null(), <[u8]>::as_ptr));
        // SAFETY: the lengths were checked.
        yes(unsafe {
            c::EVP_CipherInit_ex(self.context.as_ptr(), null(), null_mut(), key, iv, encrypts.into())
        })
    }

    pub(crate) fn set_padding(&mut self, pads: bool) {
        // SAFETY: it sets a flag.
        unsafe { c::EVP_CIPHER_CTX_set_padding(self.context.as_ptr(), pads.into()) };
    }

    /// Authenticates bytes that are not encrypted.
    pub(crate) fn authenticate(&mut self, data: &[u8]) -> Result<(), No> {
        let length = c_int::try_from(data.len()).map_err(|_| No)?;
        if !self.kind.is_aead() {
            return Err(No);
        }
        let mut written = 0;
        // SAFETY: without a place to write to, the cipher only reads `length` bytes.
        yes(unsafe {
            c::EVP_CipherUpdate(self.context.as_ptr(), null_mut(), &mut written, data.as_ptr(), length)
        })
    }

    /// Transforms the next bytes; returns how many were written.
    pub(crate) fn update(&mut self, text: Text) -> Result<usize, No> {
        if text.length() == 0 {
            return Ok(0);
        }
        let length = c_int::try_from(text.length()).map_err(|_| No)?;
        let most = if self.kind.block_bytes() == 1 {
            text.length()
        } else {
            // SAFETY: these are plain fields of a context that this value owns.
            let (kept, has_last) = unsafe {
                let context = self.context.as_ref();
                (context.buf_len, context.final_used != 0)
            };
            let kept = usize::try_from(kept).map_err(|_| No)? + if has_last { BLOCK } else { 0 };
            (kept + text.length()) / BLOCK * BLOCK
        };
        if text.capacity() < most {
            return Err(No);
        }
        let mut written = 0;
        // SAFETY: the place has room for all complete blocks, and nothing beyond them is written.
        yes(unsafe {
            c::EVP_CipherUpdate(self.context.as_ptr(), text.to(), &mut written, text.from(), length)
        })?;
        usize::try_from(written).map_err(|_| No)
    }

    /// Ends a text; returns how many bytes were written.
    ///
    /// # Errors
    /// Fails if the padding is wrong, blocks are incomplete, or a tag does not belong to the text.
    pub(crate) fn finish(&mut self, out: Text) -> Result<usize, No> {
        let mut last = [0u8; 2 * BLOCK];
        let mut written = 0;
        // SAFETY: at most one block is written.
        yes(unsafe { c::EVP_CipherFinal_ex(self.context.as_ptr(), last.as_mut_ptr(), &mut written) })?;
        let written = usize::try_from(written).map_err(|_| No)?;
        if written == 0 {
            return Ok(0);
        }
        let outcome = out.write(0, &last[..written.min(BLOCK)]);
        zeroize::Zeroize::zeroize(&mut last);
        outcome.map(|()| written)
    }

    /// Returns the tag of the text that was encrypted.
    pub(crate) fn tag(&mut self) -> Result<[u8; 16], No> {
        let mut tag = [0; 16];
        self.control(c::EVP_CTRL_AEAD_GET_TAG, 16, tag.as_mut_ptr())?;
        Ok(tag)
    }

    /// Sets the tag that a decrypted text must have.
    pub(crate) fn set_tag(&mut self, tag: &[u8]) -> Result<(), No> {
        let mut bytes = [0; 16];
        bytes.get_mut(..tag.len()).ok_or(No)?.copy_from_slice(tag);
        self.control(c::EVP_CTRL_AEAD_SET_TAG, tag.len() as c_int, bytes.as_mut_ptr())
    }

    /// Returns the vector for the next block, and how many bytes of the present one were used.
    pub(crate) fn next_iv(&self) -> ([u8; 16], u32) {
        // SAFETY: these are plain fields of a context that this value owns.
        unsafe { (self.context.as_ref().iv, self.context.as_ref().num) }
    }
}
