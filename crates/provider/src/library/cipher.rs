//! AES in three modes and ChaCha20-Poly1305, in parts of any length.

use super::chacha::ChaCha;
use super::gcm::Gcm;
use super::{No, Text, some, yes};
use aws_lc_sys as c;
use std::ffi::{c_int, c_uint};
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
    /// AWS-LC's object, of modes that do not authenticate.
    cipher: Option<EvpCipher>,
}

type EvpCipher = unsafe extern "C" fn() -> *const c::EVP_CIPHER;

impl Kind {
    /// The ciphers, in the order of [`crate::counters::NAMES`].
    pub(crate) const ALL: [Self; 10] = [
        Self::new(Mode::Gcm, 16, None),
        Self::new(Mode::Gcm, 24, None),
        Self::new(Mode::Gcm, 32, None),
        Self::new(Mode::Cbc, 16, Some(c::EVP_aes_128_cbc)),
        Self::new(Mode::Cbc, 24, Some(c::EVP_aes_192_cbc)),
        Self::new(Mode::Cbc, 32, Some(c::EVP_aes_256_cbc)),
        Self::new(Mode::Ctr, 16, Some(c::EVP_aes_128_ctr)),
        Self::new(Mode::Ctr, 24, Some(c::EVP_aes_192_ctr)),
        Self::new(Mode::Ctr, 32, Some(c::EVP_aes_256_ctr)),
        Self::new(Mode::ChaCha20Poly1305, 32, None),
    ];

    const fn new(mode: Mode, key_bytes: usize, cipher: Option<EvpCipher>) -> Self {
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

/// A cipher with its key, and a text under way.
#[allow(
    clippy::large_enum_variant,
    reason = "its owner is a box, and AES-CBC of one block would pay for another"
)]
pub(crate) enum Cipher {
    /// AES-CBC or AES-CTR.
    Blocks(Blocks),
    Gcm(Box<Gcm>),
    ChaCha(Box<ChaCha>),
}

impl Cipher {
    pub(crate) fn new(kind: Kind) -> Result<Self, No> {
        Ok(match kind.cipher {
            Some(cipher) => Self::Blocks(Blocks::new(kind, cipher)?),
            None if kind.mode == Mode::Gcm => Self::Gcm(Box::new(Gcm::new())),
            None => Self::ChaCha(Box::new(ChaCha::new())),
        })
    }

    /// Returns a copy that goes on from the same state.
    pub(crate) fn duplicate(&self) -> Result<Self, No> {
        Ok(match self {
            Self::Blocks(blocks) => Self::Blocks(blocks.duplicate()?),
            Self::Gcm(gcm) => Self::Gcm(gcm.clone()),
            Self::ChaCha(chacha) => Self::ChaCha(chacha.clone()),
        })
    }

    /// Sets direction, key and initialisation vector; a key or vector of AES-CBC or AES-CTR that is absent stays. A text
    /// of an AEAD begins with its vector.
    ///
    /// # Errors
    /// Fails if a length is not that of this cipher, or an AEAD's key is missing.
    pub(crate) fn start(&mut self, encrypts: bool, key: Option<&[u8]>, iv: Option<&[u8]>) -> Result<(), No> {
        match self {
            Self::Blocks(blocks) => blocks.start(encrypts, key, iv),
            Self::Gcm(gcm) => {
                key.map_or(Ok(()), |key| gcm.set_key(key))?;
                iv.map_or(Ok(()), |iv| gcm.begin(encrypts, iv))
            }
            Self::ChaCha(chacha) => {
                key.map_or(Ok(()), |key| chacha.set_key(key))?;
                iv.map_or(Ok(()), |iv| chacha.begin(encrypts, iv))
            }
        }
    }

    /// Sets whether AES-CBC pads texts.
    pub(crate) fn set_padding(&mut self, pads: bool) {
        if let Self::Blocks(blocks) = self {
            blocks.set_padding(pads);
        }
    }

    /// Authenticates bytes that are not encrypted.
    ///
    /// # Errors
    /// Fails outside of an AEAD's text.
    pub(crate) fn authenticate(&mut self, data: &[u8]) -> Result<(), No> {
        match self {
            Self::Blocks(_) => Err(No),
            Self::Gcm(gcm) => gcm.authenticate(data),
            Self::ChaCha(chacha) => chacha.authenticate(data),
        }
    }

    /// Transforms the next bytes; returns how many were written.
    ///
    /// # Errors
    /// Fails if there is no room, or outside of an AEAD's text.
    pub(crate) fn update(&mut self, text: &Text) -> Result<usize, No> {
        match self {
            Self::Blocks(blocks) => blocks.update(text),
            Self::Gcm(gcm) => gcm.update(text).map(|()| text.length()),
            Self::ChaCha(chacha) => chacha.update(text).map(|()| text.length()),
        }
    }

    /// Ends a text of AES-CBC or AES-CTR; returns how many bytes were written.
    ///
    /// # Errors
    /// Fails if the padding is wrong, or blocks are incomplete.
    pub(crate) fn finish(&mut self, out: &Text) -> Result<usize, No> {
        match self {
            Self::Blocks(blocks) => blocks.finish(out),
            Self::Gcm(_) | Self::ChaCha(_) => Err(No),
        }
    }

    /// Ends a text of an AEAD; writes its tag, which the caller compares if the text was decrypted.
    ///
    /// # Errors
    /// Fails outside of a text.
    pub(crate) fn finish_aead(&mut self, tag: &mut [u8; 16]) -> Result<(), No> {
        match self {
            Self::Blocks(_) => Err(No),
            Self::Gcm(gcm) => gcm.finish(tag),
            Self::ChaCha(chacha) => chacha.finish(tag),
        }
    }

    /// Returns the vector for the next block of AES-CBC or AES-CTR, and how many bytes of the present one were used.
    pub(crate) fn next_iv(&self) -> ([u8; 16], u32) {
        match self {
            Self::Blocks(blocks) => blocks.next_iv(),
            Self::Gcm(_) | Self::ChaCha(_) => ([0; 16], 0),
        }
    }
}

/// An `EVP_CIPHER_CTX` of AES-CBC or AES-CTR with its key.
#[derive(Debug)]
pub(crate) struct Blocks {
    context: NonNull<c::EVP_CIPHER_CTX>,
    /// The key of the context once more, for texts that need nothing else of it: for a block, the calls in between take
    /// as long as AES.
    key: c::AES_KEY,
    kind: Kind,
    encrypts: bool,
    has_key: bool,
    pads: bool,
}

// SAFETY: the context is used by its owner alone, and the library ties it to no thread.
unsafe impl Send for Blocks {}

impl Drop for Blocks {
    fn drop(&mut self) {
        // SAFETY: this value owns it. The library zeroes what it frees.
        unsafe {
            c::EVP_CIPHER_CTX_free(self.context.as_ptr());
            c::OPENSSL_cleanse(std::ptr::from_mut(&mut self.key).cast(), size_of::<c::AES_KEY>());
        }
    }
}

impl Blocks {
    fn new(kind: Kind, cipher: EvpCipher) -> Result<Self, No> {
        // SAFETY: the function takes no arguments.
        let context = some(unsafe { c::EVP_CIPHER_CTX_new() })?;
        let key = c::AES_KEY { rd_key: [0; 60], rounds: 0 };
        let blocks = Self { context, key, kind, encrypts: true, has_key: false, pads: true };
        // SAFETY: the context is new; the cipher is static; key and vector follow later.
        yes(unsafe { c::EVP_CipherInit_ex(context.as_ptr(), cipher(), null_mut(), null(), null(), 1) })?;
        Ok(blocks)
    }

    /// Returns a copy that goes on from the same state.
    fn duplicate(&self) -> Result<Self, No> {
        // SAFETY: the function takes no arguments.
        let context = some(unsafe { c::EVP_CIPHER_CTX_new() })?;
        let copy = Self { context, ..*self };
        // SAFETY: both are contexts, and the first is empty.
        yes(unsafe { c::EVP_CIPHER_CTX_copy(context.as_ptr(), self.context.as_ptr()) })?;
        Ok(copy)
    }

    /// Sets direction, key and initialisation vector; one that is absent stays.
    ///
    /// # Errors
    /// Fails if a length is not that of this cipher.
    fn start(&mut self, encrypts: bool, key: Option<&[u8]>, iv: Option<&[u8]>) -> Result<(), No> {
        if key.is_some_and(|key| key.len() != self.kind.key_bytes) || iv.is_some_and(|iv| iv.len() != BLOCK) {
            return Err(No);
        }
        self.encrypts = encrypts;
        if let Some(key) = key {
            let is_forward = encrypts || self.kind.mode == Mode::Ctr;
            let expand = if is_forward { c::AES_set_encrypt_key } else { c::AES_set_decrypt_key };
            // SAFETY: the length was checked, and is one of AES's.
            let expanded = unsafe { expand(key.as_ptr(), 8 * key.len() as c_uint, &mut self.key) };
            self.has_key = expanded == 0;
        }
        let (key, iv) = (key.map_or(null(), <[u8]>::as_ptr), iv.map_or(null(), <[u8]>::as_ptr));
        // SAFETY: the lengths were checked.
        yes(unsafe {
            c::EVP_CipherInit_ex(self.context.as_ptr(), null(), null_mut(), key, iv, encrypts.into())
        })
    }

    fn set_padding(&mut self, pads: bool) {
        self.pads = pads;
        // SAFETY: it sets a flag.
        unsafe { c::EVP_CIPHER_CTX_set_padding(self.context.as_ptr(), pads.into()) };
    }

    /// Transforms the next bytes; returns how many were written.
    fn update(&mut self, text: &Text) -> Result<usize, No> {
        if text.length() == 0 {
            return Ok(0);
        }
        if self.transform(text) {
            return Ok(text.length());
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

    /// Transforms bytes of which nothing is kept back; returns false, and has done nothing, if they are others.
    fn transform(&mut self, text: &Text) -> bool {
        let (from, to, length) = (text.from(), text.to(), text.length());
        if !self.has_key || text.capacity() < length {
            return false;
        }
        // SAFETY: the context is this value's alone.
        let context = unsafe { self.context.as_mut() };
        if self.kind.mode == Mode::Ctr {
            let (iv, stream) = (context.iv.as_mut_ptr(), context.buf.as_mut_ptr());
            // SAFETY: there is a key, vector and buffer are blocks, and the places are as long as stated.
            unsafe { c::AES_ctr128_encrypt(from, to, length, &self.key, iv, stream, &mut context.num) };
            return true;
        }
        let is_whole = context.buf_len == 0 && context.final_used == 0 && length.is_multiple_of(BLOCK);
        if !is_whole || !self.encrypts && self.pads {
            return false;
        }
        let (iv, encrypts) = (context.iv.as_mut_ptr(), c_int::from(self.encrypts));
        // SAFETY: there is a key, the vector is a block, and the places have as many whole blocks.
        unsafe { c::AES_cbc_encrypt(from, to, length, &self.key, iv, encrypts) };
        true
    }

    /// Ends a text; returns how many bytes were written.
    ///
    /// # Errors
    /// Fails if the padding is wrong, or blocks are incomplete.
    fn finish(&mut self, out: &Text) -> Result<usize, No> {
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

    /// Returns the vector for the next block, and how many bytes of the present one were used.
    fn next_iv(&self) -> ([u8; 16], u32) {
        // SAFETY: these are plain fields of a context that this value owns.
        unsafe { (self.context.as_ref().iv, self.context.as_ref().num) }
    }
}
