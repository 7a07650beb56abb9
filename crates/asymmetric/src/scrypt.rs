//! Bytes sealed under a passphrase, for keys at rest.

use crate::library;
use crate::private::NoKey;
use std::fmt;
use zeroize::Zeroizing;

/// scrypt's cost of now: 2^15 blocks of 1 KiB, 32 MiB (RFC 7914).
pub const SCRYPT_LOG_N: u8 = 15;

/// Random bytes.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    library::random(&mut bytes);
    bytes
}

/// AES-256-GCM under a key that scrypt makes of a passphrase. Nonces are random: one sealer is good for 2^32 texts.
pub struct Sealer {
    key: Zeroizing<[u8; 32]>,
}

impl fmt::Debug for Sealer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealer")
    }
}

impl Sealer {
    /// Takes some 50 ms and 32 MiB.
    ///
    /// # Errors
    /// A cost that is not 10 to 15.
    pub fn new(passphrase: &[u8], salt: &[u8], log_n: u8) -> Result<Self, NoKey> {
        if !(10..=SCRYPT_LOG_N).contains(&log_n) {
            return Err(NoKey);
        }
        let mut key = Zeroizing::new([0; 32]);
        library::scrypt(passphrase, salt, log_n, &mut *key).map_err(|_| NoKey)?;
        Ok(Self { key })
    }

    /// Nonce and sealed text.
    ///
    /// # Errors
    /// None in practice: the library fails for lengths that memory does not hold.
    pub fn seal(&self, associated: &[u8], text: &[u8]) -> Result<Vec<u8>, NoKey> {
        let nonce = random::<12>();
        let sealed = library::gcm(true, &self.key, &nonce, associated, text).map_err(|_| NoKey)?;
        Ok([nonce.as_slice(), &sealed].concat())
    }

    /// The text that was sealed.
    ///
    /// # Errors
    /// Bytes that were not sealed so.
    pub fn open(&self, associated: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, NoKey> {
        let (nonce, sealed) = sealed.split_first_chunk::<12>().ok_or(NoKey)?;
        library::gcm(false, &self.key, nonce, associated, sealed).map_err(|_| NoKey)
    }
}
