//! Public keys: verification and encryption.

use crate::library::{Padding, Pkey};
use crate::private::NoKey;
use sealane_client::{Hash, KeyKind};

/// A public key.
#[derive(Debug)]
pub struct PublicKey {
    key: Pkey,
    kind: KeyKind,
    der: Vec<u8>,
}

/// The method by which a signature was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verification {
    /// RSASSA-PKCS1-v1_5 of a digest; without a hash, the bytes were padded unchanged.
    Pkcs1(Option<Hash>),
    /// RSASSA-PSS of a digest.
    Pss {
        /// The hash of the message.
        hash: Hash,
        /// The hash of the mask.
        mask: Hash,
        /// The required length of the salt in bytes, if any.
        salt_bytes: Option<u16>,
    },
    /// ECDSA of a digest.
    Ecdsa,
    /// Ed25519 of a message.
    Ed25519,
}

impl PublicKey {
    /// Reads a SubjectPublicKeyInfo in DER.
    ///
    /// # Errors
    /// Fails if the bytes are not a key of a supported kind.
    pub fn of_der(der: &[u8]) -> Result<Self, NoKey> {
        let key = Pkey::of_public(der).map_err(|_| NoKey)?;
        let kind = key.kind().ok_or(NoKey)?;
        let der = key.to_public().map_err(|_| NoKey)?;
        Ok(Self { key, kind, der })
    }

    /// Returns a SubjectPublicKeyInfo in DER, with a curve's point uncompressed.
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// Returns its kind.
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Returns whether `signature` of `content`, a digest or a message, was made with the private half.
    pub fn verifies(&self, how: Verification, content: &[u8], signature: &[u8]) -> bool {
        let padded = |padding| self.key.verify(padding, content, signature);
        let is_rsa = matches!(self.kind, KeyKind::Rsa { .. });
        match how {
            Verification::Pkcs1(hash) => is_rsa && padded(Some(Padding::Pkcs1(hash))).is_ok(),
            Verification::Pss { hash, mask, salt_bytes } => {
                is_rsa && padded(Some(Padding::Pss { hash, mask, salt_bytes })).is_ok()
            }
            Verification::Ecdsa => matches!(self.kind, KeyKind::P256 | KeyKind::P384) && padded(None).is_ok(),
            Verification::Ed25519 => {
                self.kind == KeyKind::Ed25519 && self.key.verify_message(content, signature).is_ok()
            }
        }
    }

    /// Returns the bytes from which an RSA signature was made: without the padding of RSASSA-PKCS1-v1_5 (RFC 8017, 8.2.2),
    /// a DigestInfo if a hash was used; otherwise the whole block, as long as the modulus.
    ///
    /// # Errors
    /// Fails if the padding is wrong, or the key is not an RSA key.
    pub fn recover(&self, is_padded: bool, signature: &[u8]) -> Result<Vec<u8>, NoKey> {
        if !matches!(self.kind, KeyKind::Rsa { .. }) {
            return Err(NoKey);
        }
        let padding = if is_padded { Padding::Pkcs1(None) } else { Padding::None };
        self.key.recover(padding, signature).map(|bytes| bytes.to_vec()).map_err(|_| NoKey)
    }

    /// Encrypts for the private half: RSAES-PKCS1-v1_5, or RSAES-OAEP with the hashes of label and mask.
    ///
    /// # Errors
    /// Fails if the plaintext is too long, or the key is not an RSA key.
    pub fn encrypt(&self, oaep: Option<(Hash, Hash)>, plaintext: &[u8]) -> Result<Vec<u8>, NoKey> {
        if !matches!(self.kind, KeyKind::Rsa { .. }) {
            return Err(NoKey);
        }
        let padding = oaep.map_or(Padding::Pkcs1(None), |(hash, mask)| Padding::Oaep { hash, mask });
        self.key.encrypt(padding, plaintext).map_err(|_| NoKey)
    }
}
