//! Bytes sealed under a passphrase, for keys at rest.

use crate::library;
use crate::private::NoKey;
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
    key: Zeroizing<[u8; 32]>,
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
        library::scrypt(passphrase, salt, log_n, &mut *key).map_err(|_| NoKey)?;
        Ok(Self { key })
    }

    /// Returns the nonce and the sealed text.
    ///
    /// # Errors
    /// Does not fail in practice: the library fails for lengths beyond the memory's size.
    pub fn seal(&self, associated: &[u8], text: &[u8]) -> Result<Vec<u8>, NoKey> {
        let nonce = random::<12>();
        let sealed = library::gcm(true, &self.key, &nonce, associated, text).map_err(|_| NoKey)?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// Returns the text that was sealed.
    ///
    /// # Errors
    /// Fails if the bytes were not sealed with this key and these associated data.
    pub fn open(&self, associated: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, NoKey> {
        let (nonce, sealed) = sealed.split_first_chunk::<12>().ok_or(NoKey)?;
        library::gcm(false, &self.key, nonce, associated, sealed).map_err(|_| NoKey)
    }
}
