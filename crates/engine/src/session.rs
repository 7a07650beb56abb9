//! An algorithm with its keys.
//!
//! Guarantees: key bytes are wiped when the session ends and never printed; tags are compared in constant
//! time; a failed [`Session::open`] says nothing but that it failed.

use aws_lc_rs::{aead, hmac};
use sealane_transform::{Aead, AeadKey, Status};
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use crate::{
    Provider, Suite,
    batch::Direction,
    legacy::CbcCipher,
    own::{self, OwnAead},
    provider,
};

const AEAD_TAG_BYTES: usize = own::TAG_BYTES;
const BLAKE3_TAG_BYTES: usize = 16;
const SHA1_TAG_BYTES: usize = 20;

/// The key material does not fit the suite.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{suite} takes {expected} bytes of key material, not {given}")]
pub struct KeyError {
    /// The suite.
    pub suite: Suite,
    /// What it needs, in bytes.
    pub expected: usize,
    /// What it got, in bytes.
    pub given: usize,
}

/// One association's algorithm and keys; used from any lane, by shared reference.
pub struct Session {
    suite: Suite,
    keys: Keys,
}

enum Keys {
    Null,
    /// Key, and the mask that makes nonces of sequence numbers (RFC 8446, section 5.3).
    Aead(aead::LessSafeKey, NonceMask),
    /// The same for GMAC, whose body is associated data.
    Gmac(aead::LessSafeKey, NonceMask),
    /// Any of the AEADs, and GMAC, by our own kernels.
    Own(OwnAead),
    Blake3(Blake3Key),
    /// Boxed because the key schedules dwarf the other keys.
    Cbc(Box<CbcCipher>, hmac::Key),
    Hmac(hmac::Key),
}

#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct NonceMask([u8; 12]);

#[derive(Zeroize, ZeroizeOnDrop)]
struct Blake3Key([u8; 32]);

impl NonceMask {
    /// The nonce of a record (RFC 8446, section 5.3).
    pub(crate) fn nonce(&self, sequence: u64) -> [u8; 12] {
        let mut nonce = self.0;
        for (byte, count) in nonce[4..].iter_mut().zip(sequence.to_be_bytes()) {
            *byte ^= count;
        }
        nonce
    }

    fn unique(&self, sequence: u64) -> aead::Nonce {
        aead::Nonce::assume_unique_for_key(self.nonce(sequence))
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("suite", &self.suite).finish_non_exhaustive()
    }
}

impl Session {
    /// Makes a session of exactly [`Suite::key_bytes`] bytes of key material, run by the implementation that is
    /// forced or the fastest here.
    ///
    /// # Errors
    /// Any other length is refused.
    pub fn new(suite: Suite, material: &[u8]) -> Result<Self, KeyError> {
        Self::by(Provider::of(suite), suite, material)
    }

    /// As [`Self::new`], run by `provider` if the suite is an AEAD.
    ///
    /// # Errors
    /// Any other length is refused.
    pub fn by(provider: Provider, suite: Suite, material: &[u8]) -> Result<Self, KeyError> {
        let error = KeyError { suite, expected: suite.key_bytes(), given: material.len() };
        if material.len() != suite.key_bytes() {
            return Err(error);
        }
        let aead = |algorithm: &'static aead::Algorithm| {
            let (key, mask) = material.split_at(algorithm.key_len());
            let key = aead::UnboundKey::new(algorithm, key).map_err(|_| error)?;
            let mask: [u8; 12] = mask.try_into().map_err(|_| error)?;
            Ok((aead::LessSafeKey::new(key), NonceMask(mask)))
        };
        let kernels = (provider == Provider::Sealane).then(provider::kernels).and_then(Result::ok);
        if let (Some(kernels), Some(algorithm)) = (kernels, own_algorithm(suite)) {
            let (key, mask) = material.split_at(algorithm.key_bytes());
            let key = AeadKey::new(algorithm, key).map_err(|_| error)?;
            let nonces = NonceMask(mask.try_into().map_err(|_| error)?);
            let is_gmac = !suite.encrypts();
            return Ok(Self { suite, keys: Keys::Own(OwnAead { kernels, key, nonces, is_gmac }) });
        }
        let keys = match suite {
            Suite::Null => Keys::Null,
            Suite::Aes128Gcm => aead(&aead::AES_128_GCM).map(|(key, mask)| Keys::Aead(key, mask))?,
            Suite::Aes256Gcm => aead(&aead::AES_256_GCM).map(|(key, mask)| Keys::Aead(key, mask))?,
            Suite::ChaCha20Poly1305 => {
                aead(&aead::CHACHA20_POLY1305).map(|(key, mask)| Keys::Aead(key, mask))?
            }
            Suite::Aes128Gmac => aead(&aead::AES_128_GCM).map(|(key, mask)| Keys::Gmac(key, mask))?,
            Suite::Blake3 => Keys::Blake3(Blake3Key(material.try_into().map_err(|_| error)?)),
            Suite::TripleDesCbcHmacSha1 => {
                let (ciphers, mac) = material.split_at(48);
                let cipher = CbcCipher::new(ciphers).ok_or(error)?;
                Keys::Cbc(Box::new(cipher), hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, mac))
            }
            Suite::HmacSha1 => Keys::Hmac(hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, material)),
        };
        Ok(Self { suite, keys })
    }

    /// What our own kernels need, if they run this session.
    pub(crate) fn own(&self) -> Option<&OwnAead> {
        match &self.keys {
            Keys::Own(own) => Some(own),
            _ => None,
        }
    }

    /// The algorithm.
    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// Seals in place. `record` is the header, `body_bytes` of plaintext, and room for the suite's
    /// expansion, to the byte. Returns the length of the sealed body.
    ///
    /// # Panics
    /// When `record` is not exactly that long: a fault of the caller, who sizes it.
    pub(crate) fn seal(
        &self,
        sequence: u64,
        record: &mut [u8],
        header_bytes: usize,
        body_bytes: usize,
    ) -> usize {
        let sealed_bytes = body_bytes + self.suite.expansion_bytes(body_bytes);
        assert_eq!(record.len(), header_bytes + sealed_bytes, "a record to seal has room for its expansion");
        match &self.keys {
            Keys::Null => {}
            Keys::Aead(key, mask) => {
                let (header, rest) = record.split_at_mut(header_bytes);
                let (body, tag) = rest.split_at_mut(body_bytes);
                let made = key
                    .seal_in_place_separate_tag(mask.unique(sequence), aead::Aad::from(header), body)
                    .expect("a record is far below the AEAD's length limit");
                tag.copy_from_slice(made.as_ref());
            }
            Keys::Gmac(key, mask) => {
                let (clear, tag) = record.split_at_mut(header_bytes + body_bytes);
                let made = key
                    .seal_in_place_separate_tag(mask.unique(sequence), aead::Aad::from(clear), &mut [])
                    .expect("a record is far below the AEAD's length limit");
                tag.copy_from_slice(made.as_ref());
            }
            Keys::Own(own) => {
                let (call, tag) = own
                    .call(Direction::Seal, sequence, record, header_bytes)
                    .expect("a record to seal has room for its tag");
                let mut calls = [call];
                own.run(Direction::Seal, &mut calls);
                assert_eq!(calls[0].status, Status::Done, "a record is far below the AEAD's length limit");
                *tag = calls[0].tag;
            }
            Keys::Blake3(key) => {
                let (clear, tag) = record.split_at_mut(header_bytes + body_bytes);
                tag.copy_from_slice(&blake3_tag(key, sequence, clear));
            }
            Keys::Cbc(cipher, mac) => {
                let (sealed, tag) = record.split_at_mut(header_bytes + sealed_bytes - SHA1_TAG_BYTES);
                cipher.encrypt(sequence, &mut sealed[header_bytes..], body_bytes);
                tag.copy_from_slice(hmac_tag(mac, sequence, sealed).as_ref());
            }
            Keys::Hmac(mac) => {
                let (clear, tag) = record.split_at_mut(header_bytes + body_bytes);
                tag.copy_from_slice(hmac_tag(mac, sequence, clear).as_ref());
            }
        }
        sealed_bytes
    }

    /// Opens in place; `record` is the header and the sealed body. Returns the length of the plaintext,
    /// which starts where the sealed body started, or `None` when the record is not authentic.
    pub(crate) fn open(&self, sequence: u64, record: &mut [u8], header_bytes: usize) -> Option<usize> {
        let sealed_bytes = record.len() - header_bytes;
        let body_bytes = sealed_bytes.checked_sub(self.tag_bytes())?;
        match &self.keys {
            Keys::Null => {}
            Keys::Aead(key, mask) => {
                let (header, sealed) = record.split_at_mut(header_bytes);
                key.open_in_place(mask.unique(sequence), aead::Aad::from(header), sealed).ok()?;
            }
            Keys::Gmac(key, mask) => {
                let (clear, tag) = record.split_at_mut(header_bytes + body_bytes);
                key.open_in_place(mask.unique(sequence), aead::Aad::from(clear), tag).ok()?;
            }
            Keys::Own(own) => {
                let (call, _) = own.call(Direction::Open, sequence, record, header_bytes)?;
                let mut calls = [call];
                own.run(Direction::Open, &mut calls);
                if calls[0].status != Status::Done {
                    return None;
                }
            }
            Keys::Blake3(key) => {
                let (clear, tag) = record.split_at(header_bytes + body_bytes);
                let made = Zeroizing::new(blake3_tag(key, sequence, clear));
                if !bool::from(made.as_slice().ct_eq(tag)) {
                    return None;
                }
            }
            Keys::Cbc(cipher, mac) => {
                let (sealed, tag) = record.split_at_mut(header_bytes + body_bytes);
                verify_hmac(mac, sequence, sealed, tag)?;
                return cipher.decrypt(sequence, &mut sealed[header_bytes..]);
            }
            Keys::Hmac(mac) => {
                let (clear, tag) = record.split_at(header_bytes + body_bytes);
                verify_hmac(mac, sequence, clear, tag)?;
            }
        }
        Some(body_bytes)
    }

    fn tag_bytes(&self) -> usize {
        match self.keys {
            Keys::Null => 0,
            Keys::Aead(..) | Keys::Gmac(..) | Keys::Own(_) => AEAD_TAG_BYTES,
            Keys::Blake3(_) => BLAKE3_TAG_BYTES,
            Keys::Cbc(..) | Keys::Hmac(_) => SHA1_TAG_BYTES,
        }
    }
}

/// What a suite is to our own kernels.
fn own_algorithm(suite: Suite) -> Option<Aead> {
    match suite {
        Suite::Aes128Gcm | Suite::Aes128Gmac => Some(Aead::Aes128Gcm),
        Suite::Aes256Gcm => Some(Aead::Aes256Gcm),
        Suite::ChaCha20Poly1305 => Some(Aead::ChaCha20Poly1305),
        Suite::Null | Suite::Blake3 | Suite::TripleDesCbcHmacSha1 | Suite::HmacSha1 => None,
    }
}

fn blake3_tag(key: &Blake3Key, sequence: u64, clear: &[u8]) -> [u8; BLAKE3_TAG_BYTES] {
    // The number comes last so that the data keeps its alignment to BLAKE3's 1024-byte chunks; the header
    // carries the length, so no two inputs collide.
    let mut hasher = blake3::Hasher::new_keyed(&key.0);
    hasher.update(clear).update(&sequence.to_le_bytes());
    let mut tag = [0; BLAKE3_TAG_BYTES];
    tag.copy_from_slice(&hasher.finalize().as_bytes()[..BLAKE3_TAG_BYTES]);
    tag
}

fn hmac_tag(key: &hmac::Key, sequence: u64, clear: &[u8]) -> hmac::Tag {
    let mut context = hmac::Context::with_key(key);
    context.update(&sequence.to_be_bytes());
    context.update(clear);
    context.sign()
}

fn verify_hmac(key: &hmac::Key, sequence: u64, clear: &[u8], tag: &[u8]) -> Option<()> {
    bool::from(hmac_tag(key, sequence, clear).as_ref().ct_eq(tag)).then_some(())
}
