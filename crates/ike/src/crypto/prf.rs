//! Pseudo-random functions and prf+ (RFC 7296, sections 2.13 and 2.14).

use aws_lc_rs::hmac;
use zeroize::Zeroizing;

use super::{Integrity, Prf};

/// Secret bytes, wiped when they are dropped.
pub type Secret = Zeroizing<Vec<u8>>;

impl Prf {
    fn algorithm(self) -> hmac::Algorithm {
        match self {
            Self::HmacSha512 => hmac::HMAC_SHA512,
            Self::HmacSha384 => hmac::HMAC_SHA384,
            Self::HmacSha256 => hmac::HMAC_SHA256,
        }
    }

    /// Returns the function's value for the concatenated parts of a message.
    pub fn compute(self, key: &[u8], parts: &[&[u8]]) -> Secret {
        let mut context = hmac::Context::with_key(&hmac::Key::new(self.algorithm(), key));
        parts.iter().for_each(|part| context.update(part));
        Zeroizing::new(context.sign().as_ref().to_vec())
    }

    /// Returns the first `length_bytes` bytes of prf+.
    ///
    /// # Panics
    /// Panics if more than 255 blocks are requested, which no set of keys needs.
    pub fn plus(self, key: &[u8], seed: &[&[u8]], length_bytes: usize) -> Secret {
        let key = hmac::Key::new(self.algorithm(), key);
        // The capacity is reserved once: growing would leave secrets behind in freed memory.
        let mut output = Zeroizing::new(Vec::with_capacity(length_bytes + self.output_bytes()));
        let mut counter = 0u8;
        while output.len() < length_bytes {
            counter = counter.checked_add(1).expect("keys are far shorter than 255 blocks");
            let mut context = hmac::Context::with_key(&key);
            let previous = output.len().saturating_sub(self.output_bytes());
            context.update(&output[previous..]);
            seed.iter().for_each(|part| context.update(part));
            context.update(&[counter]);
            output.extend_from_slice(context.sign().as_ref());
        }
        output.truncate(length_bytes);
        output
    }
}

impl Integrity {
    pub(super) fn key(self, key: &[u8]) -> hmac::Key {
        let algorithm = match self {
            Self::HmacSha512 => hmac::HMAC_SHA512,
            Self::HmacSha384 => hmac::HMAC_SHA384,
            Self::HmacSha256 => hmac::HMAC_SHA256,
            Self::HmacSha1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        };
        hmac::Key::new(algorithm, key)
    }
}
