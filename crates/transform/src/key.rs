//! Expanded keys: made once for an association, shared by all its jobs, wiped when dropped.

use core::fmt;

use zeroize::Zeroize as _;

use crate::bucket::BucketKey;
use crate::catalogue::{BlockCipher, Cipher, Digest};
use crate::hash::Hash;
use crate::{aes, blowfish, des, idea, rc4, rc5, rc6, seal};

/// A key that its algorithm does not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a key of {given_bytes} bytes; the algorithm takes {min_bytes} to {max_bytes}")]
pub struct KeyLengthError {
    /// What was given.
    pub given_bytes: usize,
    /// The shortest that is taken.
    pub min_bytes: usize,
    /// The longest that is taken.
    pub max_bytes: usize,
}

fn check(given_bytes: usize, min_bytes: usize, max_bytes: usize) -> Result<(), KeyLengthError> {
    let fits = (min_bytes..=max_bytes).contains(&given_bytes);
    fits.then_some(()).ok_or(KeyLengthError { given_bytes, min_bytes, max_bytes })
}

/// How a hash of the catalogue is keyed.
#[derive(Clone)]
pub(crate) enum HashKey {
    /// Not at all.
    Plain,
    /// HMAC: the states after the two key blocks.
    Hmac { inner: [u32; 8], outer: [u32; 8] },
}

impl Drop for HashKey {
    fn drop(&mut self) {
        if let Self::Hmac { inner, outer } = self {
            inner.zeroize();
            outer.zeroize();
        }
    }
}

/// A digest or MAC with its key.
pub struct DigestKey {
    algorithm: Digest,
    hash: HashKey,
    bucket: Option<Box<BucketKey>>,
}

impl fmt::Debug for DigestKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DigestKey").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

impl DigestKey {
    /// Expands `key`, which is empty for algorithms without one.
    ///
    /// # Errors
    /// The algorithm does not take a key of that length.
    pub fn new(algorithm: Digest, key: &[u8]) -> Result<Self, KeyLengthError> {
        let lengths = algorithm.facts().key_bytes;
        check(key.len(), lengths.min, lengths.max)?;
        let mut made = Self { algorithm, hash: HashKey::Plain, bucket: None };
        match (algorithm, Hash::of(algorithm)) {
            (Digest::HmacMd5 | Digest::HmacSha1 | Digest::HmacSha256, Some(hash)) => {
                let (inner, outer) = hash.hmac_states(key);
                made.hash = HashKey::Hmac { inner, outer };
            }
            (Digest::Bh140, _) => {
                if let Some((draw, rest)) = key.split_first_chunk()
                    && let Some(finish) = rest.first_chunk()
                {
                    made.bucket = Some(Box::new(BucketKey::new(draw, finish)));
                }
            }
            _ => {}
        }
        Ok(made)
    }

    /// The algorithm this key is for.
    pub const fn algorithm(&self) -> Digest {
        self.algorithm
    }

    pub(crate) const fn hash_key(&self) -> &HashKey {
        &self.hash
    }

    pub(crate) fn bucket(&self) -> Option<&BucketKey> {
        self.bucket.as_deref()
    }
}

/// The expanded key of a cipher.
#[derive(Clone)]
pub(crate) enum Schedule {
    Null,
    Des(des::Key),
    TripleDes(Box<des::TripleKey>),
    Aes(Box<aes::Key>),
    Rc5(rc5::Key),
    Rc6(rc6::Key),
    Blowfish(Box<blowfish::Key>),
    Idea(idea::Key),
    Rc4(rc4::Key),
    Seal(Box<seal::Key>),
}

/// A cipher with its key; the schedules wipe themselves.
#[derive(Clone)]
pub struct CipherKey {
    algorithm: Cipher,
    schedule: Schedule,
}

impl fmt::Debug for CipherKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CipherKey").field("algorithm", &self.algorithm).finish_non_exhaustive()
    }
}

impl CipherKey {
    /// Expands `key`, which is empty for the null cipher. DES ignores parity bits.
    ///
    /// # Errors
    /// The algorithm does not take a key of that length.
    pub fn new(algorithm: Cipher, key: &[u8]) -> Result<Self, KeyLengthError> {
        let lengths = algorithm.facts().key_bytes;
        check(key.len(), lengths.min, lengths.max)?;
        let wrong = KeyLengthError { given_bytes: key.len(), min_bytes: lengths.min, max_bytes: lengths.max };
        let schedule = match algorithm {
            Cipher::Null => Schedule::Null,
            Cipher::Rc4 => Schedule::Rc4(rc4::Key::new(key)),
            Cipher::Seal3 => Schedule::Seal(seal::Key::new(key.try_into().map_err(|_| wrong)?)),
            Cipher::Block(cipher, _) => match cipher {
                BlockCipher::Des => Schedule::Des(des::Key::new(key.try_into().map_err(|_| wrong)?)),
                BlockCipher::TripleDes => {
                    let key = key.try_into().map_err(|_| wrong)?;
                    Schedule::TripleDes(Box::new(des::TripleKey::new(key)))
                }
                BlockCipher::Aes128 | BlockCipher::Aes192 | BlockCipher::Aes256 => {
                    Schedule::Aes(Box::new(aes::Key::new(key)))
                }
                BlockCipher::Rc5 => Schedule::Rc5(rc5::Key::new(key, 12)),
                BlockCipher::Rc5R16 => Schedule::Rc5(rc5::Key::new(key, 16)),
                BlockCipher::Rc6 => Schedule::Rc6(rc6::Key::new(key)),
                BlockCipher::Blowfish => Schedule::Blowfish(blowfish::Key::new(key)),
                BlockCipher::Idea => Schedule::Idea(idea::Key::new(key.try_into().map_err(|_| wrong)?)),
            },
        };
        Ok(Self { algorithm, schedule })
    }

    /// The algorithm this key is for.
    pub const fn algorithm(&self) -> Cipher {
        self.algorithm
    }

    pub(crate) const fn schedule(&self) -> &Schedule {
        &self.schedule
    }
}
