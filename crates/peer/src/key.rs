//! Public keys as people and files see them: 32 bytes of Ed25519, or 32 bytes that stand for a hybrid key, a checked text
//! form and a short fingerprint.
//!
//! The text form is `sealane1:` or `sealane2:` and 56 letters and digits: RFC 4648 base32 in lower case of the key's 32
//! bytes and the first 3 bytes of SHA-256 over the prefix and the key. 35 bytes are exactly 56 characters, so there is no
//! padding and each key has one spelling; the check catches a key that was cut short or mistyped.
//!
//! A hybrid key ([`composite`](crate::composite)) has 1,984 bytes, which nobody pastes. Its 32 bytes are SHA-256 over its
//! `SubjectPublicKeyInfo`, both halves of it, which the peer shows in the handshake or with a signature. Another key with
//! the same 32 bytes would be a second preimage: 2^256 evaluations, 2^128 by Grover's algorithm. Two keys of one owner that
//! collide would gain that owner nothing. A key is one of its kind: no Ed25519 key equals a hybrid one, and nothing that
//! Ed25519 alone has signed is accepted for a hybrid key.

use std::fmt;
use std::str::FromStr;

use aws_lc_rs::digest;
use aws_lc_rs::signature::{ED25519, UnparsedPublicKey};
use data_encoding::{BASE32_NOPAD, HEXLOWER};

use crate::composite::{self, CompositePublicKey};

/// The beginning of every printed Ed25519 key; the digit is the version of the form, not of the program.
const PREFIX: &str = "sealane1:";
/// The beginning of every printed hybrid key.
const HYBRID_PREFIX: &str = "sealane2:";
const KEY_BYTES: usize = 32;
const CHECK_BYTES: usize = 3;
/// Number of characters for the key and its check.
const TEXT_CHARS: usize = 56;
/// DER of `SubjectPublicKeyInfo` for Ed25519 up to the key itself (RFC 8410 section 4).
const SPKI_PREFIX: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
/// Bytes of a whole Ed25519 `SubjectPublicKeyInfo`.
const SPKI_BYTES: usize = SPKI_PREFIX.len() + KEY_BYTES;

/// Bytes of a signature of Ed25519.
pub(crate) const SIGNATURE_BYTES: usize = 64;

/// Returns the bytes that a signature for this purpose covers. The context's length comes first: no two pairs of
/// context and message have the same bytes.
pub(crate) fn signed(context: &str, message: &[u8]) -> Vec<u8> {
    [&(context.len() as u64).to_le_bytes(), context.as_bytes(), message].concat()
}

/// The algorithms by which an end proves who it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum KeyKind {
    /// Ed25519 (RFC 8032).
    Ed25519,
    /// Ed25519 and ML-DSA-65 (FIPS 204): both must verify.
    Hybrid,
}

impl KeyKind {
    const fn prefix(self) -> &'static str {
        match self {
            Self::Ed25519 => PREFIX,
            Self::Hybrid => HYBRID_PREFIX,
        }
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ed25519 => "Ed25519",
            Self::Hybrid => "Ed25519 and ML-DSA-65",
        })
    }
}

/// A public key, which identifies a peer.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PublicKey {
    kind: KeyKind,
    /// The key of Ed25519, or the digest of a hybrid one.
    bytes: [u8; KEY_BYTES],
}

/// The reason why a text is not a public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyFault {
    /// The text begins neither with `sealane1:` nor with `sealane2:`.
    #[error("a key begins with `{PREFIX}` or `{HYBRID_PREFIX}`")]
    Prefix,
    /// The part after the prefix has another length.
    #[error("a key has {TEXT_CHARS} characters after its colon, this one has {chars}")]
    Length {
        /// Characters found after the prefix.
        chars: usize,
    },
    /// The text has a character that base32 does not use.
    #[error("a key is written with the characters a-z and 2-7")]
    Alphabet,
    /// The check does not fit the key, so the key was mistyped.
    #[error("the key's check characters do not fit, it was mistyped")]
    Check,
}

impl PublicKey {
    /// Returns the Ed25519 key with these 32 bytes, as RFC 8032 encodes them.
    ///
    /// Checking a signature shows whether they are a point on the curve.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self { kind: KeyKind::Ed25519, bytes }
    }

    /// Returns the 32 bytes of an Ed25519 key, as RFC 8032 encodes them; `None` for a hybrid key.
    #[must_use]
    pub fn ed25519(&self) -> Option<&[u8; KEY_BYTES]> {
        (self.kind == KeyKind::Ed25519).then_some(&self.bytes)
    }

    /// Returns 32 bytes that tell the key from others, to name what belongs to its owner: an Ed25519 key itself, or the digest
    /// of a hybrid one. Whom to trust is decided by the whole key.
    #[must_use]
    pub const fn identifier(&self) -> [u8; KEY_BYTES] {
        self.bytes
    }

    /// Returns by which algorithms its owner proves to own it.
    #[must_use]
    pub const fn kind(&self) -> KeyKind {
        self.kind
    }

    /// Returns whether the key's owner has signed this message for this purpose
    /// ([`Identity::sign`](crate::Identity::sign)).
    #[must_use]
    pub fn has_signed(&self, context: &str, message: &[u8], signature: &[u8]) -> bool {
        let message = signed(context, message);
        match self.kind {
            KeyKind::Ed25519 => {
                UnparsedPublicKey::new(&ED25519, &self.bytes).verify(&message, signature).is_ok()
            }
            KeyKind::Hybrid => {
                let Some((spki, signature)) = signature.split_at_checked(composite::SPKI_BYTES) else {
                    return false;
                };
                Self::from_spki(spki) == Some(*self)
                    && CompositePublicKey::from_spki(spki)
                        .is_some_and(|key| key.has_signed(&message, signature))
            }
        }
    }

    /// Returns the text form without its prefix: letters and digits, which are also a valid label of a host name.
    #[must_use]
    pub fn label(&self) -> String {
        self.to_string().split_off(self.kind.prefix().len())
    }

    /// Returns the short form for messages.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        let digest = match self.kind {
            KeyKind::Ed25519 => sha256(&[&ed25519_spki(&self.bytes)]),
            KeyKind::Hybrid => self.bytes,
        };
        let mut short = [0; 16];
        short.copy_from_slice(&digest[..16]);
        Fingerprint(short)
    }

    /// Returns the key in a DER `SubjectPublicKeyInfo`, which RFC 7250 puts on the wire, or `None` if that is no key of ours in
    /// its one encoding.
    #[must_use]
    pub fn from_spki(spki: &[u8]) -> Option<Self> {
        if let Some(key) = spki.strip_prefix(&SPKI_PREFIX) {
            return key.try_into().ok().map(Self::from_bytes);
        }
        CompositePublicKey::from_spki(spki)?;
        Some(Self { kind: KeyKind::Hybrid, bytes: sha256(&[spki]) })
    }

    fn check(&self) -> [u8; CHECK_BYTES] {
        let digest = sha256(&[self.kind.prefix().as_bytes(), &self.bytes]);
        let mut check = [0; CHECK_BYTES];
        check.copy_from_slice(&digest[..CHECK_BYTES]);
        check
    }
}

/// Returns an Ed25519 key as a DER `SubjectPublicKeyInfo`.
pub(crate) fn ed25519_spki(key: &[u8; KEY_BYTES]) -> [u8; SPKI_BYTES] {
    let mut spki = [0; SPKI_BYTES];
    spki[..SPKI_PREFIX.len()].copy_from_slice(&SPKI_PREFIX);
    spki[SPKI_PREFIX.len()..].copy_from_slice(key);
    spki
}

fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = digest::Context::new(&digest::SHA256);
    parts.iter().for_each(|part| context.update(part));
    context.finish().as_ref().try_into().expect("SHA-256 has 32 bytes")
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = [0; KEY_BYTES + CHECK_BYTES];
        bytes[..KEY_BYTES].copy_from_slice(&self.bytes);
        bytes[KEY_BYTES..].copy_from_slice(&self.check());
        write!(f, "{}{}", self.kind.prefix(), BASE32_NOPAD.encode(&bytes).to_ascii_lowercase())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for PublicKey {
    type Err = KeyFault;

    fn from_str(text: &str) -> Result<Self, KeyFault> {
        let (kind, body) = [KeyKind::Ed25519, KeyKind::Hybrid]
            .into_iter()
            .find_map(|kind| Some((kind, text.strip_prefix(kind.prefix())?)))
            .ok_or(KeyFault::Prefix)?;
        if body.len() != TEXT_CHARS {
            return Err(KeyFault::Length { chars: body.chars().count() });
        }
        // Each key has one spelling: capitals are refused so that `grep` in a trust file finds every entry of a key.
        if body.bytes().any(|b| b.is_ascii_uppercase()) {
            return Err(KeyFault::Alphabet);
        }
        let bytes =
            BASE32_NOPAD.decode(body.to_ascii_uppercase().as_bytes()).map_err(|_| KeyFault::Alphabet)?;
        let (&bytes, check) = bytes.split_first_chunk().ok_or(KeyFault::Alphabet)?;
        let key = Self { kind, bytes };
        if check == key.check() { Ok(key) } else { Err(KeyFault::Check) }
    }
}

/// 128 bits of SHA-256 over a key's `SubjectPublicKeyInfo`, written as eight groups of four hex digits.
///
/// That is enough to compare keys by eye against a second pre-image; files and comparisons use the whole key.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 16]);

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, pair) in self.0.chunks(2).enumerate() {
            write!(f, "{}{}", if i == 0 { "" } else { "-" }, HEXLOWER.encode(pair))?;
        }
        Ok(())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_form_is_fixed() {
        let key = PublicKey::from_bytes(std::array::from_fn(|i| i as u8));
        let text = key.to_string();
        assert_eq!(text.len(), PREFIX.len() + TEXT_CHARS);
        // Another implementation of base32 and SHA-256 computed this text.
        assert_eq!(text, "sealane1:aaaqeayeaudaocajbifqydiob4ibceqtcqkrmfyydenbwha5dyp5kszg");
        assert_eq!(text.parse(), Ok(key));
    }

    #[test]
    fn faults_are_told_apart() {
        let good = PublicKey::from_bytes([7; 32]).to_string();
        let parse = |text: &str| text.parse::<PublicKey>();
        assert_eq!(parse(""), Err(KeyFault::Prefix));
        assert_eq!(parse("sealane3:aaaa"), Err(KeyFault::Prefix));
        assert_eq!(parse("sealane2:aaaa"), Err(KeyFault::Length { chars: 4 }));
        // The check covers the prefix: an Ed25519 key is not taken for a hybrid one.
        assert_eq!(parse(&good.replace(PREFIX, HYBRID_PREFIX)), Err(KeyFault::Check));
        assert_eq!(parse(&good[..good.len() - 1]), Err(KeyFault::Length { chars: 55 }));
        assert_eq!(parse(&format!("{good}a")), Err(KeyFault::Length { chars: 57 }));
        assert_eq!(parse(&good.replacen("aq", "AQ", 1)), parse(&good.replacen("aq", "a1", 1)));
        let mut wrong = good.into_bytes();
        wrong[20] = if wrong[20] == b'a' { b'b' } else { b'a' };
        assert_eq!(parse(std::str::from_utf8(&wrong).unwrap()), Err(KeyFault::Check));
    }

    #[test]
    fn spki_is_what_rfc_8410_prints() {
        // RFC 8410 section 10.1 has this public key as base64 of the DER.
        let der = data_encoding::BASE64
            .decode(b"MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=")
            .unwrap();
        let key = PublicKey::from_spki(&der).unwrap();
        assert_eq!(ed25519_spki(key.ed25519().unwrap())[..], der[..]);
        assert!(PublicKey::from_spki(&der[..43]).is_none());
        let mut longer = der;
        longer.push(0);
        assert!(PublicKey::from_spki(&longer).is_none());
    }

    proptest! {
        #[test]
        fn round_trip(bytes: [u8; 32]) {
            let keys = [KeyKind::Ed25519, KeyKind::Hybrid].map(|kind| PublicKey { kind, bytes });
            for key in keys {
                prop_assert_eq!(key.to_string().parse(), Ok(key));
                prop_assert_eq!(key.label().len(), TEXT_CHARS);
            }
            prop_assert_ne!(keys[0], keys[1]);
        }

        #[test]
        fn no_text_panics(text in ".{0,80}") {
            let _ = text.parse::<PublicKey>();
            let _ = format!("sealane1:{text}").parse::<PublicKey>();
            let _ = format!("sealane2:{text}").parse::<PublicKey>();
        }

        #[test]
        fn one_wrong_character_is_noticed(bytes: [u8; 32], at in 0usize..TEXT_CHARS, to in 0usize..32) {
            let key = PublicKey::from_bytes(bytes);
            let mut text = key.to_string().into_bytes();
            let new = b"abcdefghijklmnopqrstuvwxyz234567"[to];
            prop_assume!(text[PREFIX.len() + at] != new);
            text[PREFIX.len() + at] = new;
            // With 24 bits of check, a chance hit is one in sixteen million.
            prop_assert!(std::str::from_utf8(&text).unwrap().parse::<PublicKey>().is_err());
        }
    }
}
