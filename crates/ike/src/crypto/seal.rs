//! The Encrypted payload (RFC 7296, section 3.14; RFC 5282): one key for each direction.
//!
//! Guarantees: a message that is not genuine yields no text; a counted nonce is never used twice under one key,
//! because the counter lives with the key and does not wrap.

use aws_lc_rs::{
    aead::{self, Aad, LessSafeKey, Nonce, UnboundKey},
    cipher::{self, DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext, UnboundCipherKey},
    hmac,
    iv::FixedLength,
};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::{CryptoError, Encryption, Integrity, prf::Secret};

/// Bytes of a block of AES, and of the IV of CBC.
const BLOCK_BYTES: usize = 16;
/// Bytes of the IV that AEADs have in the message, and of their check value.
const COUNTED_IV_BYTES: usize = 8;
const AEAD_CHECK_BYTES: usize = 16;

enum Kind {
    Combined { key: LessSafeKey, salt: Zeroizing<[u8; 4]> },
    Apart { algorithm: &'static cipher::Algorithm, key: Secret, integrity: Integrity, check: Box<hmac::Key> },
}

/// The keys of one direction.
pub struct Sealer {
    kind: Kind,
    sealed: u64,
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealer").field("sealed", &self.sealed).finish_non_exhaustive()
    }
}

impl Sealer {
    /// Takes SK_e (followed by the salt) and SK_a.
    ///
    /// # Errors
    /// Fails if the algorithms do not belong together, or if a key does not have its algorithm's length.
    pub fn new(
        encryption: Encryption,
        integrity: Option<Integrity>,
        encryption_key: &[u8],
        integrity_key: &[u8],
    ) -> Result<Self, CryptoError> {
        let (key, salt) =
            encryption_key.split_at_checked(encryption.key_bytes()).ok_or(CryptoError::Library)?;
        let combined = match encryption {
            Encryption::Aes256Gcm => Some(&aead::AES_256_GCM),
            Encryption::Aes128Gcm => Some(&aead::AES_128_GCM),
            Encryption::ChaCha20Poly1305 => Some(&aead::CHACHA20_POLY1305),
            Encryption::Aes256Cbc | Encryption::Aes128Cbc => None,
        };
        let kind = match (combined, integrity) {
            (Some(algorithm), None) => Kind::Combined {
                key: LessSafeKey::new(UnboundKey::new(algorithm, key).map_err(|_| CryptoError::Library)?),
                salt: Zeroizing::new(salt.try_into().map_err(|_| CryptoError::Library)?),
            },
            (None, Some(integrity)) if integrity_key.len() == integrity.key_bytes() => {
                let is_long = encryption == Encryption::Aes256Cbc;
                Kind::Apart {
                    algorithm: if is_long { &cipher::AES_256 } else { &cipher::AES_128 },
                    key: Zeroizing::new(key.to_vec()),
                    integrity,
                    check: Box::new(integrity.key(integrity_key)),
                }
            }
            _ => return Err(CryptoError::Library),
        };
        Ok(Self { kind, sealed: 0 })
    }

    /// Returns the maximum number of bytes that sealing adds.
    pub fn overhead_bytes(&self) -> usize {
        match &self.kind {
            Kind::Combined { .. } => COUNTED_IV_BYTES + 1 + AEAD_CHECK_BYTES,
            Kind::Apart { integrity, .. } => BLOCK_BYTES + BLOCK_BYTES + integrity.check_bytes(),
        }
    }

    /// Returns the length in bytes of the body of an Encrypted payload with `clear_bytes` bytes of payloads in it.
    pub fn sealed_bytes(&self, clear_bytes: usize) -> usize {
        match &self.kind {
            Kind::Combined { .. } => COUNTED_IV_BYTES + clear_bytes + 1 + AEAD_CHECK_BYTES,
            Kind::Apart { integrity, .. } => {
                BLOCK_BYTES + (clear_bytes + 1).next_multiple_of(BLOCK_BYTES) + integrity.check_bytes()
            }
        }
    }

    /// Appends the body of an Encrypted payload to `message`, which ends with that payload's header. All lengths in
    /// `message` must already be those of the whole, see [`Self::sealed_bytes`].
    ///
    /// # Errors
    /// Fails if the library fails, or if the counter is used up.
    pub fn seal(&mut self, message: &mut Vec<u8>, clear: &[u8]) -> Result<(), CryptoError> {
        match &self.kind {
            Kind::Combined { key, salt } => {
                let counter = self.sealed.to_be_bytes();
                self.sealed = self.sealed.checked_add(1).ok_or(CryptoError::Library)?;
                let nonce = nonce(salt, counter);
                let aad_bytes = message.len();
                message.extend(counter);
                message.extend_from_slice(clear);
                message.push(0);
                let (aad, body) = message.split_at_mut(aad_bytes);
                let tag = key
                    .seal_in_place_separate_tag(nonce, Aad::from(&*aad), &mut body[COUNTED_IV_BYTES..])
                    .map_err(|_| CryptoError::Library)?;
                message.extend_from_slice(tag.as_ref());
            }
            Kind::Apart { algorithm, key, integrity, check } => {
                let mut iv = [0; BLOCK_BYTES];
                aws_lc_rs::rand::fill(&mut iv).map_err(|_| CryptoError::Library)?;
                message.extend(iv);
                let start = message.len();
                message.extend_from_slice(clear);
                let padding = (clear.len() + 1).next_multiple_of(BLOCK_BYTES) - clear.len() - 1;
                message.resize(message.len() + padding, 0);
                message.push(padding as u8);
                let key = UnboundCipherKey::new(algorithm, key).map_err(|_| CryptoError::Library)?;
                let key = EncryptingKey::cbc(key).map_err(|_| CryptoError::Library)?;
                let context = EncryptionContext::Iv128(FixedLength::from(iv));
                key.less_safe_encrypt(&mut message[start..], context).map_err(|_| CryptoError::Library)?;
                let tag = hmac::sign(check, message);
                message.extend_from_slice(&tag.as_ref()[..integrity.check_bytes()]);
            }
        }
        Ok(())
    }

    /// Opens a message; the body of its Encrypted payload begins at `body_at` and ends with the message.
    ///
    /// # Errors
    /// Fails if the message is not genuine.
    pub fn open(&self, message: &[u8], body_at: usize) -> Result<Secret, CryptoError> {
        let (aad, body) = message.split_at_checked(body_at).ok_or(CryptoError::NotGenuine)?;
        let mut clear = match &self.kind {
            Kind::Combined { key, salt } => {
                let (iv, sealed) =
                    body.split_first_chunk::<COUNTED_IV_BYTES>().ok_or(CryptoError::NotGenuine)?;
                let mut clear = Zeroizing::new(sealed.to_vec());
                let opened = key.open_in_place(nonce(salt, *iv), Aad::from(aad), &mut clear);
                let length = opened.map_err(|_| CryptoError::NotGenuine)?.len();
                clear.truncate(length);
                clear
            }
            Kind::Apart { algorithm, key, integrity, check } => {
                let checked = message.len().checked_sub(integrity.check_bytes());
                let checked = checked.filter(|&at| at >= body_at).ok_or(CryptoError::NotGenuine)?;
                let (checked, tag) = message.split_at(checked);
                let expected = hmac::sign(check, checked);
                if !bool::from(expected.as_ref()[..integrity.check_bytes()].ct_eq(tag)) {
                    return Err(CryptoError::NotGenuine);
                }
                let (iv, sealed) =
                    checked[body_at..].split_first_chunk::<BLOCK_BYTES>().ok_or(CryptoError::NotGenuine)?;
                if sealed.is_empty() || !sealed.len().is_multiple_of(BLOCK_BYTES) {
                    return Err(CryptoError::NotGenuine);
                }
                let mut clear = Zeroizing::new(sealed.to_vec());
                let key = UnboundCipherKey::new(algorithm, key).map_err(|_| CryptoError::Library)?;
                let key = DecryptingKey::cbc(key).map_err(|_| CryptoError::Library)?;
                let context = DecryptionContext::Iv128(FixedLength::from(*iv));
                key.decrypt(&mut clear, context).map_err(|_| CryptoError::NotGenuine)?;
                clear
            }
        };
        let padding = usize::from(*clear.last().ok_or(CryptoError::NotGenuine)?);
        let length = clear.len().checked_sub(padding + 1).ok_or(CryptoError::NotGenuine)?;
        clear.truncate(length);
        Ok(clear)
    }
}

fn nonce(salt: &[u8; 4], iv: [u8; COUNTED_IV_BYTES]) -> Nonce {
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(salt);
    nonce[4..].copy_from_slice(&iv);
    Nonce::assume_unique_for_key(nonce)
}
