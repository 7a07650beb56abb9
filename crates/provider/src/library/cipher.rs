//! AES in three modes and ChaCha20-Poly1305, in parts of any length.

use super::chacha::ChaCha;
use sealane_native::{self as native, Blocks, Gcm, Refused, Text};

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
}

impl Kind {
    /// The ciphers, in the order of [`crate::counters::NAMES`].
    pub(crate) const ALL: [Self; 10] = [
        Self::new(Mode::Gcm, 16),
        Self::new(Mode::Gcm, 24),
        Self::new(Mode::Gcm, 32),
        Self::new(Mode::Cbc, 16),
        Self::new(Mode::Cbc, 24),
        Self::new(Mode::Cbc, 32),
        Self::new(Mode::Ctr, 16),
        Self::new(Mode::Ctr, 24),
        Self::new(Mode::Ctr, 32),
        Self::new(Mode::ChaCha20Poly1305, 32),
    ];

    const fn new(mode: Mode, key_bytes: usize) -> Self {
        Self { mode, key_bytes }
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
    pub(crate) fn new(kind: Kind) -> Result<Self, Refused> {
        Ok(match kind.mode {
            Mode::Cbc => Self::Blocks(Blocks::new(native::Mode::Cbc, kind.key_bytes)?),
            Mode::Ctr => Self::Blocks(Blocks::new(native::Mode::Ctr, kind.key_bytes)?),
            Mode::Gcm => Self::Gcm(Box::new(Gcm::without_key())),
            Mode::ChaCha20Poly1305 => Self::ChaCha(Box::new(ChaCha::new())),
        })
    }

    /// Returns a copy that goes on from the same state.
    pub(crate) fn duplicate(&self) -> Result<Self, Refused> {
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
    pub(crate) fn start(
        &mut self,
        encrypts: bool,
        key: Option<&[u8]>,
        iv: Option<&[u8]>,
    ) -> Result<(), Refused> {
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
    pub(crate) fn authenticate(&mut self, data: &[u8]) -> Result<(), Refused> {
        match self {
            Self::Blocks(_) => Err(Refused),
            Self::Gcm(gcm) => gcm.authenticate(data),
            Self::ChaCha(chacha) => chacha.authenticate(data),
        }
    }

    /// Transforms the next bytes; returns how many were written.
    ///
    /// # Errors
    /// Fails if there is no room, or outside of an AEAD's text.
    pub(crate) fn update(&mut self, text: &Text) -> Result<usize, Refused> {
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
    pub(crate) fn finish(&mut self, out: &Text) -> Result<usize, Refused> {
        match self {
            Self::Blocks(blocks) => blocks.finish(out),
            Self::Gcm(_) | Self::ChaCha(_) => Err(Refused),
        }
    }

    /// Ends a text of an AEAD; writes its tag, which the caller compares if the text was decrypted.
    ///
    /// # Errors
    /// Fails outside of a text.
    pub(crate) fn finish_aead(&mut self, tag: &mut [u8; 16]) -> Result<(), Refused> {
        match self {
            Self::Blocks(_) => Err(Refused),
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
