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
use sealane_transform::debug_only;
use sealane_transform::{Aead, AeadJob, AeadKey, AeadLengths, Buffer, Kernels};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

use super::{CryptoError, Encryption, Integrity, prf::Secret};

/// Bytes of a block of AES, and of the IV of CBC.
const BLOCK_BYTES: usize = 16;
/// Bytes of the IV that AEADs have in the message.
const COUNTED_IV_BYTES: usize = 8;

enum Kind {
    Combined { key: CombinedKey, salt: Secret, check_bytes: usize },
    Apart { algorithm: &'static cipher::Algorithm, key: Secret, integrity: Integrity, check: Box<hmac::Key> },
}

/// The key of an AEAD.
enum CombinedKey {
    Library(LessSafeKey),
    /// CCM, which aws-lc-rs does not have.
    Own(AeadKey),
}

impl CombinedKey {
    fn new(encryption: Encryption, check_bytes: usize, key: &[u8]) -> Option<Self> {
        let (algorithm, own) = match encryption {
            Encryption::Aes256Gcm => (Some(&aead::AES_256_GCM), None),
            Encryption::Aes128Gcm => (Some(&aead::AES_128_GCM), None),
            Encryption::ChaCha20Poly1305 => (Some(&aead::CHACHA20_POLY1305), None),
            Encryption::Aes256Ccm16 | Encryption::Aes256Ccm12 | Encryption::Aes256Ccm8 => {
                (None, Some(Aead::Aes256Ccm))
            }
            Encryption::Aes128Ccm16 | Encryption::Aes128Ccm12 | Encryption::Aes128Ccm8 => {
                (None, Some(Aead::Aes128Ccm))
            }
            Encryption::Aes256Cbc | Encryption::Aes128Cbc => (None, None),
        };
        let nonce_bytes = (encryption.salt_bytes() + COUNTED_IV_BYTES) as u8;
        let lengths = AeadLengths { nonce_bytes, tag_bytes: check_bytes as u8 };
        match (algorithm, own) {
            (Some(algorithm), _) => {
                Some(Self::Library(LessSafeKey::new(UnboundKey::new(algorithm, key).ok()?)))
            }
            (_, Some(own)) => Some(Self::Own(AeadKey::with(own, lengths, key).ok()?)),
            (None, None) => None,
        }
    }

    /// Encrypts `data`. Returns the tag, with zeros behind it if it is shorter.
    fn seal(&self, nonce: [u8; 12], aad: &[u8], data: &mut [u8]) -> Result<[u8; 16], CryptoError> {
        match self {
            Self::Library(key) => {
                let nonce = Nonce::assume_unique_for_key(nonce);
                let tag = key.seal_in_place_separate_tag(nonce, Aad::from(aad), data);
                tag.ok().and_then(|tag| tag.as_ref().try_into().ok()).ok_or(CryptoError::Library)
            }
            Self::Own(key) => {
                let mut jobs = [AeadJob::seal(key, nonce, aad, Buffer::in_place(data))];
                match Kernels::best().seal(key.algorithm(), &mut jobs) {
                    0 => Ok(jobs[0].tag),
                    _ => Err(CryptoError::Library),
                }
            }
        }
    }

    /// Decrypts `sealed` into `clear`, which is as long, if the tag is right.
    fn open(
        &self,
        nonce: [u8; 12],
        aad: &[u8],
        sealed: &[u8],
        tag: &[u8],
        clear: &mut [u8],
    ) -> Result<(), CryptoError> {
        match self {
            Self::Library(key) => {
                let nonce = Nonce::assume_unique_for_key(nonce);
                let opened = key.open_separate_gather(nonce, Aad::from(aad), sealed, tag, clear);
                opened.map_err(|_| CryptoError::NotGenuine)
            }
            Self::Own(key) => {
                let mut whole = [0; 16];
                whole.get_mut(..tag.len()).ok_or(CryptoError::NotGenuine)?.copy_from_slice(tag);
                let data = Buffer::out_of_place(sealed, clear).map_err(|_| CryptoError::NotGenuine)?;
                let mut jobs = [AeadJob::open(key, nonce, aad, data, whole)];
                match Kernels::best().open(key.algorithm(), &mut jobs) {
                    0 => Ok(()),
                    _ => Err(CryptoError::NotGenuine),
                }
            }
        }
    }
}

/// The keys of one direction.
pub struct Sealer {
    kind: Kind,
    sealed: u64,
}

debug_only!(Sealer { sealed });

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
        let kind = match (encryption.combined_check_bytes(), integrity) {
            (Some(check_bytes), None) if salt.len() == encryption.salt_bytes() => Kind::Combined {
                key: CombinedKey::new(encryption, check_bytes, key).ok_or(CryptoError::Library)?,
                salt: Zeroizing::new(salt.to_vec()),
                check_bytes,
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
            Kind::Combined { check_bytes, .. } => COUNTED_IV_BYTES + 1 + check_bytes,
            Kind::Apart { integrity, .. } => BLOCK_BYTES + BLOCK_BYTES + integrity.check_bytes(),
        }
    }

    /// Returns the length in bytes of the body of an Encrypted payload with `clear_bytes` bytes of payloads in it.
    pub fn sealed_bytes(&self, clear_bytes: usize) -> usize {
        match &self.kind {
            Kind::Combined { check_bytes, .. } => COUNTED_IV_BYTES + clear_bytes + 1 + check_bytes,
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
            Kind::Combined { key, salt, check_bytes } => {
                let counter = self.sealed.to_be_bytes();
                self.sealed = self.sealed.checked_add(1).ok_or(CryptoError::Library)?;
                let nonce = nonce(salt, counter);
                let aad_bytes = message.len();
                message.extend(counter);
                message.extend_from_slice(clear);
                message.push(0);
                let (aad, body) = message.split_at_mut(aad_bytes);
                let tag = key.seal(nonce, aad, &mut body[COUNTED_IV_BYTES..])?;
                message.extend_from_slice(&tag[..*check_bytes]);
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
            Kind::Combined { key, salt, check_bytes } => {
                let (iv, sealed) =
                    body.split_first_chunk::<COUNTED_IV_BYTES>().ok_or(CryptoError::NotGenuine)?;
                let length = sealed.len().checked_sub(*check_bytes).ok_or(CryptoError::NotGenuine)?;
                let (sealed, tag) = sealed.split_at(length);
                let mut clear = Zeroizing::new(vec![0; length]);
                key.open(nonce(salt, *iv), aad, sealed, tag, &mut clear)?;
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

/// Returns salt and IV, with zeros behind them where the salt is shorter.
fn nonce(salt: &[u8], iv: [u8; COUNTED_IV_BYTES]) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..salt.len()].copy_from_slice(salt);
    nonce[salt.len()..][..COUNTED_IV_BYTES].copy_from_slice(&iv);
    nonce
}
