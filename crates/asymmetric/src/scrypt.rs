//! Bytes sealed under a passphrase, for keys at rest.

use crate::library;
use crate::private::NoKey;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use std::fmt;
use zeroize::Zeroizing;

/// The present cost of scrypt: 2^15 blocks of 1 KiB, 32 MiB (RFC 7914).
pub const SCRYPT_LOG_N: u8 = 15;

/// Returns random bytes.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    library::random(&mut bytes);
    bytes
}

/// AES-256-GCM under a key that scrypt derives from a passphrase. Nonces are random: one sealer may seal 2^32 texts.
pub struct Sealer {
    key: LessSafeKey,
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer")
    }
}

impl Sealer {
    /// Makes a sealer, which takes about 50 ms and 32 MiB.
    ///
    /// # Errors
    /// Fails if the cost is not 10 to 15.
    pub fn new(passphrase: &[u8], salt: &[u8], log_n: u8) -> Result<Self, NoKey> {
        if !(10..=SCRYPT_LOG_N).contains(&log_n) {
            return Err(NoKey);
        }
        let mut key = Zeroizing::new([0; 32]);
        sealane_native::scrypt(passphrase, salt, log_n, &mut *key).map_err(|_| NoKey)?;
        let key = UnboundKey::new(&AES_256_GCM, &*key).map_err(|_| NoKey)?;
        Ok(Self { key: LessSafeKey::new(key) })
    }

    /// Returns the nonce and the sealed text.
    ///
    /// # Errors
    /// Does not fail in practice: the library fails for lengths beyond the memory's size.
    pub fn seal(&self, associated: &[u8], text: &[u8]) -> Result<Vec<u8>, NoKey> {
        let nonce = random::<NONCE_LEN>();
        let mut sealed = Zeroizing::new([nonce.as_slice(), text].concat());
        let (number, associated) = (Nonce::assume_unique_for_key(nonce), Aad::from(associated));
        let tag = self.key.seal_in_place_separate_tag(number, associated, &mut sealed[NONCE_LEN..]);
        sealed.extend_from_slice(tag.map_err(|_| NoKey)?.as_ref());
        Ok(std::mem::take(&mut *sealed))
    }

    /// Returns the text that was sealed.
    ///
    /// # Errors
    /// Fails if the bytes were not sealed with this key and these associated data.
    pub fn open(&self, associated: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, NoKey> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>().ok_or(NoKey)?;
        let (nonce, mut text) = (Nonce::assume_unique_for_key(*nonce), Zeroizing::new(sealed.to_vec()));
        let opened = self.key.open_in_place(nonce, Aad::from(associated), &mut text);
        let length = opened.map_err(|_| NoKey)?.len();
        text.truncate(length);
        Ok(text)
    }
}
