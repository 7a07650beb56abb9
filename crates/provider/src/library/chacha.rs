//! ChaCha20-Poly1305 (RFC 8439), in parts of any length: by Sealane's own kernels on processors with AVX-512, and by AWS-LC on
//! others.
//!
//! **Guarantees:** no bytes are transformed and no tag is made before a key and a nonce are set; a nonce is used for
//! one text; the keys are zeroed when the value is dropped.

use sealane_native::{Refused, Text};

#[cfg(target_arch = "x86_64")]
use own::Own;

/// A text under way, and its key.
#[derive(Clone)]
#[expect(clippy::large_enum_variant, reason = "its owner is a box")]
pub(crate) enum ChaCha {
    #[cfg(target_arch = "x86_64")]
    Own(Own),
    Library(sealane_native::ChaCha),
}

/// Calls the method of whichever computes it.
macro_rules! either {
    ($self:expr, $chacha:ident => $call:expr) => {
        match $self {
            #[cfg(target_arch = "x86_64")]
            ChaCha::Own($chacha) => $call,
            ChaCha::Library($chacha) => $call,
        }
    };
}

impl ChaCha {
    pub(super) fn new() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(own) = Own::new() {
            return Self::Own(own);
        }
        Self::Library(sealane_native::ChaCha::without_key())
    }

    /// Sets the key; a nonce must follow.
    ///
    /// # Errors
    /// Fails if it has not 32 bytes.
    pub(super) fn set_key(&mut self, key: &[u8]) -> Result<(), Refused> {
        either!(self, chacha => chacha.set_key(key))
    }

    /// Begins a text.
    ///
    /// # Errors
    /// Fails without a key, or if the nonce has not 12 bytes.
    pub(super) fn begin(&mut self, encrypts: bool, nonce: &[u8]) -> Result<(), Refused> {
        either!(self, chacha => chacha.begin(encrypts, nonce))
    }

    /// Authenticates bytes that are not encrypted.
    ///
    /// # Errors
    /// Fails outside of a text, or after its first bytes.
    pub(super) fn authenticate(&mut self, data: &[u8]) -> Result<(), Refused> {
        either!(self, chacha => chacha.authenticate(data))
    }

    /// Transforms the next bytes of the text.
    ///
    /// # Errors
    /// Fails outside of a text, if the text becomes too long, or if there is no room.
    pub(super) fn update(&mut self, text: &Text) -> Result<(), Refused> {
        either!(self, chacha => chacha.update(text))
    }

    /// Ends the text; writes its tag.
    ///
    /// # Errors
    /// Fails outside of a text.
    pub(super) fn finish(&mut self, tag: &mut [u8; 16]) -> Result<(), Refused> {
        either!(self, chacha => chacha.finish(tag))
    }
}

#[cfg(target_arch = "x86_64")]
mod own {
    use sealane_native::{Places, Refused, Text};
    use sealane_transform::{Buffer, ChaChaParts, Direction};
    use zeroize::Zeroizing;

    /// A text that own kernels compute.
    #[derive(Clone)]
    pub(crate) struct Own {
        parts: ChaChaParts,
        key: Option<Zeroizing<[u8; 32]>>,
    }

    impl Own {
        /// Returns none if the processor has not what they take.
        pub(super) fn new() -> Option<Self> {
            Some(Self { parts: ChaChaParts::new()?, key: None })
        }

        pub(super) fn set_key(&mut self, key: &[u8]) -> Result<(), Refused> {
            let _ = self.parts.finish();
            self.key = Some(Zeroizing::new(key.try_into().map_err(|_| Refused)?));
            Ok(())
        }

        pub(super) fn begin(&mut self, encrypts: bool, nonce: &[u8]) -> Result<(), Refused> {
            let key = self.key.as_deref().ok_or(Refused)?;
            let direction = if encrypts { Direction::Encrypt } else { Direction::Decrypt };
            self.parts.begin(direction, key, nonce.try_into().map_err(|_| Refused)?);
            Ok(())
        }

        pub(super) fn authenticate(&mut self, data: &[u8]) -> Result<(), Refused> {
            if self.parts.authenticate(data) { Ok(()) } else { Err(Refused) }
        }

        pub(super) fn update(&mut self, text: &Text) -> Result<(), Refused> {
            let is_done = text.with_places(|places| match places {
                Places::One(bytes) => self.parts.update(Buffer::in_place(bytes)),
                Places::Two(from, to) => {
                    Buffer::out_of_place(from, to).is_ok_and(|bytes| self.parts.update(bytes))
                }
            })?;
            if is_done { Ok(()) } else { Err(Refused) }
        }

        pub(super) fn finish(&mut self, tag: &mut [u8; 16]) -> Result<(), Refused> {
            *tag = self.parts.finish().ok_or(Refused)?;
            Ok(())
        }
    }
}
