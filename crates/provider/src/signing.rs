//! Signatures, decryption and agreement in the order of OpenSSL's calls: first a key, then parameters one by one,
//! then bytes.
//!
//! **Guarantee:** unknown parameters fail the call that sets them; no operation falls back to another padding or
//! hash.

use crate::asn1;
use crate::counters::Counted;
use crate::key::{Content, Family, KeyBox};
use crate::reason::Reason;
use aws_lc_rs::digest;
use sealane_asymmetric::Verification;
use sealane_client::{Hash, KeyKind, Operation};
use std::sync::Arc;
use zeroize::Zeroizing;

/// Returns the hash with a name of OpenSSL's.
pub(crate) fn hash_of(name: &str) -> Option<Hash> {
    let plain: String =
        name.chars().filter(|char| *char != '-').map(|char| char.to_ascii_uppercase()).collect();
    match plain.as_str() {
        "SHA1" | "SSL3SHA1" => Some(Hash::Sha1),
        "SHA224" | "SHA2224" => Some(Hash::Sha224),
        "SHA256" | "SHA2256" => Some(Hash::Sha256),
        "SHA384" | "SHA2384" => Some(Hash::Sha384),
        "SHA512" | "SHA2512" => Some(Hash::Sha512),
        _ => None,
    }
}

/// Returns OpenSSL's name of a hash.
pub(crate) fn name_of(hash: Hash) -> &'static str {
    match hash {
        Hash::Sha1 => "SHA1",
        Hash::Sha224 => "SHA2-224",
        Hash::Sha256 => "SHA2-256",
        Hash::Sha384 => "SHA2-384",
        Hash::Sha512 => "SHA2-512",
    }
}

fn algorithm(hash: Hash) -> &'static digest::Algorithm {
    match hash {
        Hash::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
        Hash::Sha224 => &digest::SHA224,
        Hash::Sha256 => &digest::SHA256,
        Hash::Sha384 => &digest::SHA384,
        Hash::Sha512 => &digest::SHA512,
    }
}

/// RSA's paddings, with OpenSSL's numbers and names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Padding {
    Pkcs1,
    Oaep,
    Pss,
}

impl Padding {
    pub(crate) fn of_number(number: i64) -> Option<Self> {
        match number {
            1 => Some(Self::Pkcs1),
            4 => Some(Self::Oaep),
            6 => Some(Self::Pss),
            _ => None,
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        match name {
            "pkcs1" => Some(Self::Pkcs1),
            "oaep" | "oeap" => Some(Self::Oaep),
            "pss" => Some(Self::Pss),
            _ => None,
        }
    }

    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Pkcs1 => 1,
            Self::Oaep => 4,
            Self::Pss => 6,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pkcs1 => "pkcs1",
            Self::Oaep => "oaep",
            Self::Pss => "pss",
        }
    }
}

/// The salt of PSS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Salt {
    /// The salt is as long as the digest.
    Digest,
    /// To sign, the salt has the maximum length; to verify, it may have any length.
    Auto,
    /// The salt has the maximum length.
    Max,
    /// To sign, the salt is as long as the digest, or has the maximum length if that is less; to verify, it may have
    /// any length.
    AutoDigestMax,
    Bytes(u16),
}

impl Salt {
    pub(crate) fn of_number(number: i64) -> Option<Self> {
        match number {
            -1 => Some(Self::Digest),
            -2 => Some(Self::Auto),
            -3 => Some(Self::Max),
            -4 => Some(Self::AutoDigestMax),
            number => u16::try_from(number).ok().map(Self::Bytes),
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        match name {
            "digest" => Some(Self::Digest),
            "auto" => Some(Self::Auto),
            "max" => Some(Self::Max),
            "auto-digestmax" => Some(Self::AutoDigestMax),
            number => number.parse().ok().and_then(Self::of_number),
        }
    }

    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Digest => -1,
            Self::Auto => -2,
            Self::Max => -3,
            Self::AutoDigestMax => -4,
            Self::Bytes(bytes) => bytes.into(),
        }
    }
}

/// A signature that is being made or verified.
#[derive(Clone)]
pub(crate) struct Signing {
    family: Family,
    key: Option<Arc<KeyBox>>,
    pub(crate) hash: Option<Hash>,
    pub(crate) padding: Padding,
    pub(crate) mask: Option<Hash>,
    pub(crate) salt: Salt,
    digest: Option<digest::Context>,
}

impl Signing {
    pub(crate) fn new(family: Family) -> Self {
        let (padding, salt) = (Padding::Pkcs1, Salt::Auto);
        Self { family, key: None, hash: None, padding, mask: None, salt, digest: None }
    }

    /// Starts a new operation; without a key, it uses that of the last one.
    pub(crate) fn start(&mut self, key: Option<Arc<KeyBox>>) -> Result<(), Reason> {
        if let Some(key) = key {
            if key.family != self.family {
                return Err(Reason::NoKey);
            }
            key.content()?;
            *self = Self { key: Some(key), ..Self::new(self.family) };
        }
        self.digest = None;
        self.key.as_ref().map(|_| ()).ok_or(Reason::NoKey)
    }

    /// Starts a new operation on a message, which is digested here. For Ed25519 no hash may be named.
    pub(crate) fn start_message(
        &mut self,
        hash: Option<&str>,
        key: Option<Arc<KeyBox>>,
    ) -> Result<(), Reason> {
        self.start(key)?;
        let hash = hash.filter(|name| !name.is_empty());
        if self.family == Family::Ed25519 {
            return if hash.is_none() { Ok(()) } else { Err(Reason::Unsupported) };
        }
        let hash =
            hash.map_or_else(|| self.hash.or(Some(Hash::Sha256)), hash_of).ok_or(Reason::Unsupported)?;
        self.hash = Some(hash);
        self.digest = Some(digest::Context::new(algorithm(hash)));
        Ok(())
    }

    fn content(&self) -> Result<&Content, Reason> {
        self.key.as_ref().ok_or(Reason::NoKey)?.content()
    }

    pub(crate) fn size(&self) -> Result<usize, Reason> {
        self.content().map(Content::size)
    }

    fn salt_bytes(&self, content: &Content, hash: Hash) -> Result<u16, Reason> {
        let most = (content.size()).checked_sub(hash.bytes() + 2).ok_or(Reason::BadContent)?;
        let bytes = match self.salt {
            Salt::Digest => hash.bytes(),
            Salt::Auto | Salt::Max => most,
            Salt::AutoDigestMax => most.min(hash.bytes()),
            Salt::Bytes(bytes) => bytes.into(),
        };
        u16::try_from(bytes).map_err(|_| Reason::BadContent)
    }

    /// Signs a digest.
    pub(crate) fn sign(&self, digest: &[u8]) -> Result<Vec<u8>, Reason> {
        let content = self.content()?;
        let operation = match (self.family, self.padding) {
            (Family::Rsa, Padding::Pkcs1) => Operation::SignPkcs1(self.hash),
            (Family::Rsa, Padding::Pss) => {
                let hash = self.hash.ok_or(Reason::Unsupported)?;
                let salt_bytes = self.salt_bytes(content, hash)?;
                Operation::SignPss { hash, mask: self.mask.unwrap_or(hash), salt_bytes }
            }
            (Family::Ec, _) => Operation::SignEcdsa,
            _ => return Err(Reason::Unsupported),
        };
        Counted::SIGN.add();
        content.run(operation, digest).map(|signature| signature.to_vec())
    }

    /// Returns whether a signature of a digest is valid.
    pub(crate) fn verify(&self, digest: &[u8], signature: &[u8]) -> Result<bool, Reason> {
        let content = self.content()?;
        let how = match (self.family, self.padding) {
            (Family::Rsa, Padding::Pkcs1) => Verification::Pkcs1(self.hash),
            (Family::Rsa, Padding::Pss) => {
                let hash = self.hash.ok_or(Reason::Unsupported)?;
                let salt_bytes = match self.salt {
                    Salt::Auto | Salt::AutoDigestMax => None,
                    _ => Some(self.salt_bytes(content, hash)?),
                };
                Verification::Pss { hash, mask: self.mask.unwrap_or(hash), salt_bytes }
            }
            (Family::Ec, _) => Verification::Ecdsa,
            _ => return Err(Reason::Unsupported),
        };
        Counted::VERIFY.add();
        Ok(content.public.verifies(how, digest, signature))
    }

    /// Adds a part of the message.
    pub(crate) fn update(&mut self, bytes: &[u8]) -> Result<(), Reason> {
        self.digest.as_mut().ok_or(Reason::Unsupported)?.update(bytes);
        Ok(())
    }

    /// Returns the digest of the message.
    pub(crate) fn digest(&mut self) -> Result<digest::Digest, Reason> {
        self.digest.take().map(digest::Context::finish).ok_or(Reason::Unsupported)
    }

    /// Signs a whole message.
    pub(crate) fn sign_message(&mut self, message: &[u8]) -> Result<Vec<u8>, Reason> {
        if self.family == Family::Ed25519 {
            Counted::SIGN.add();
            return self.content()?.run(Operation::SignEd25519, message).map(|signature| signature.to_vec());
        }
        self.update(message)?;
        let digest = self.digest()?;
        self.sign(digest.as_ref())
    }

    /// Returns whether a signature of a whole message is valid.
    pub(crate) fn verify_message(&mut self, message: &[u8], signature: &[u8]) -> Result<bool, Reason> {
        if self.family == Family::Ed25519 {
            Counted::VERIFY.add();
            return Ok(self.content()?.public.verifies(Verification::Ed25519, message, signature));
        }
        self.update(message)?;
        let digest = self.digest()?;
        self.verify(digest.as_ref(), signature)
    }

    /// Returns the AlgorithmIdentifier for certificates, in DER.
    pub(crate) fn algorithm_id(&self) -> Result<Vec<u8>, Reason> {
        let hash = self.hash.ok_or(Reason::Unsupported);
        Ok(match (self.family, self.padding) {
            (Family::Ed25519, _) => asn1::algorithm_of_ed25519(),
            (Family::Ec, _) => asn1::algorithm_of_ecdsa(hash?),
            (Family::Rsa, Padding::Pss) => {
                let hash = hash?;
                let salt_bytes = self.salt_bytes(self.content()?, hash)?;
                asn1::algorithm_of_pss(hash, self.mask.unwrap_or(hash), salt_bytes)
            }
            _ => asn1::algorithm_of_pkcs1(hash?),
        })
    }
}

/// RSA encryption or decryption.
#[derive(Clone)]
pub(crate) struct Crypting {
    key: Option<Arc<KeyBox>>,
    pub(crate) padding: Padding,
    pub(crate) hash: Hash,
    pub(crate) mask: Option<Hash>,
}

impl Crypting {
    pub(crate) fn new() -> Self {
        Self { key: None, padding: Padding::Pkcs1, hash: Hash::Sha1, mask: None }
    }

    pub(crate) fn start(&mut self, key: Arc<KeyBox>) -> Result<(), Reason> {
        key.content()?;
        *self = Self { key: Some(key), ..Self::new() };
        Ok(())
    }

    fn content(&self) -> Result<&Content, Reason> {
        self.key.as_ref().ok_or(Reason::NoKey)?.content()
    }

    pub(crate) fn size(&self) -> Result<usize, Reason> {
        self.content().map(Content::size)
    }

    fn oaep(&self) -> (Hash, Hash) {
        (self.hash, self.mask.unwrap_or(self.hash))
    }

    pub(crate) fn encrypt(&self, plaintext: &[u8]) -> Result<Vec<u8>, Reason> {
        let oaep = match self.padding {
            Padding::Pkcs1 => None,
            Padding::Oaep => Some(self.oaep()),
            Padding::Pss => return Err(Reason::Unsupported),
        };
        Counted::ENCRYPT.add();
        self.content()?.public.encrypt(oaep, plaintext).map_err(|_| Reason::BadContent)
    }

    pub(crate) fn decrypt(&self, ciphertext: &[u8]) -> Result<Zeroizing<Vec<u8>>, Reason> {
        let operation = match self.padding {
            Padding::Pkcs1 => Operation::DecryptPkcs1,
            Padding::Oaep => {
                let (hash, mask) = self.oaep();
                Operation::DecryptOaep { hash, mask }
            }
            Padding::Pss => return Err(Reason::Unsupported),
        };
        Counted::DECRYPT.add();
        self.content()?.run(operation, ciphertext)
    }
}

/// A secret that is being agreed on.
#[derive(Clone, Default)]
pub(crate) struct Agreeing {
    key: Option<Arc<KeyBox>>,
    peer: Option<Arc<KeyBox>>,
}

impl Agreeing {
    pub(crate) fn start(&mut self, key: Arc<KeyBox>) -> Result<(), Reason> {
        key.content()?;
        *self = Self { key: Some(key), peer: None };
        Ok(())
    }

    pub(crate) fn set_peer(&mut self, peer: Arc<KeyBox>) -> Result<(), Reason> {
        let own = self.key.as_ref().ok_or(Reason::NoKey)?.content()?;
        if peer.content()?.kind != own.kind {
            return Err(Reason::BadContent);
        }
        self.peer = Some(peer);
        Ok(())
    }

    pub(crate) fn size(&self) -> Result<usize, Reason> {
        let content = self.key.as_ref().ok_or(Reason::NoKey)?.content()?;
        Ok(if content.kind == KeyKind::P384 { 48 } else { 32 })
    }

    pub(crate) fn derive(&self) -> Result<Zeroizing<Vec<u8>>, Reason> {
        let key = self.key.as_ref().ok_or(Reason::NoKey)?.content()?;
        let peer = self.peer.as_ref().ok_or(Reason::NoKey)?.content()?;
        let point = asn1::of_public(peer.public.der()).ok_or(Reason::NoKey)?;
        Counted::DERIVE.add();
        key.run(Operation::Derive, point)
    }
}
