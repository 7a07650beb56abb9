//! Signatures, decryption and agreement in the order of OpenSSL's calls: first a key, then parameters one by one,
//! then bytes.
//!
//! Hashes that the service's operations do not have sign by RSASSA-PKCS1-v1_5 and ECDSA as well: the provider makes the
//! structure that is padded.
//!
//! **Guarantee:** unknown parameters fail the call that sets them; no operation falls back to another padding or
//! hash. The bare RSA function, which decrypts as well as it signs, is for keys that are not the service's.

use crate::counters::Counted;
use crate::identifiers;
use crate::key::{Content, Family, KeyBox};
use crate::library::{self, Digest};
use crate::reason::Reason;
use sealane_asymmetric::{Verification, der};
use sealane_client::{Hash, KeyKind, Operation, PssLimits};
use std::borrow::Cow;
use std::sync::Arc;
use zeroize::Zeroizing;

/// The length of a secret of X25519.
const X25519_BYTES: usize = 32;

/// Returns the service's hash with a name of OpenSSL's.
pub(crate) fn hash_of(name: &str) -> Option<Hash> {
    library::Hash::of_signature(name)?.of_service()
}

/// RSA's paddings, with OpenSSL's numbers and names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Padding {
    Pkcs1,
    None,
    Oaep,
    Pss,
}

impl Padding {
    pub(crate) fn of_number(number: i64) -> Option<Self> {
        match number {
            1 => Some(Self::Pkcs1),
            3 => Some(Self::None),
            4 => Some(Self::Oaep),
            6 => Some(Self::Pss),
            _ => None,
        }
    }

    pub(crate) fn of_name(name: &str) -> Option<Self> {
        match name {
            "pkcs1" => Some(Self::Pkcs1),
            "none" => Some(Self::None),
            "oaep" | "oeap" => Some(Self::Oaep),
            "pss" => Some(Self::Pss),
            _ => None,
        }
    }

    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Pkcs1 => 1,
            Self::None => 3,
            Self::Oaep => 4,
            Self::Pss => 6,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Pkcs1 => "pkcs1",
            Self::None => "none",
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

/// A computation with a key.
pub(crate) trait Keyed {
    /// Starts a new one; without a key, a signature uses that of the last one.
    ///
    /// # Errors
    /// Fails if there is no key, or one of another family.
    fn start(&mut self, key: Option<Arc<KeyBox>>) -> Result<(), Reason>;
}

/// A signature that is made or verified, whichever its algorithm, in the order of OpenSSL's calls.
pub(crate) trait Signature: Keyed + Sized {
    /// Returns one for keys of this family.
    fn new(family: Family) -> Self;

    /// Returns a copy that goes on from the same state.
    ///
    /// # Errors
    /// Fails if a digest that is under way cannot be copied.
    fn duplicate(&self) -> Result<Self, Reason>;

    /// Starts a new operation on a message that is digested here, by the hash of this name or by the algorithm's own.
    ///
    /// # Errors
    /// Fails as [`Keyed::start`] does, or if the algorithm does not have the hash.
    fn start_message(&mut self, hash: Option<&str>, key: Option<Arc<KeyBox>>) -> Result<(), Reason>;

    /// Returns the length of the longest signature in bytes.
    ///
    /// # Errors
    /// Fails without a key.
    fn size(&self) -> Result<usize, Reason>;

    /// Signs a digest, or where the algorithm has none, a message.
    ///
    /// # Errors
    /// Fails if the parameters and the key do not allow it, or the service fails.
    fn sign(&self, content: &[u8]) -> Result<Vec<u8>, Reason>;

    /// Returns whether a signature of such content is good.
    ///
    /// # Errors
    /// Fails if the parameters and the key do not allow it.
    fn verify(&self, content: &[u8], signature: &[u8]) -> Result<bool, Reason>;
}

/// A signature that is being made or verified.
pub(crate) struct Signing {
    family: Family,
    key: Option<Arc<KeyBox>>,
    hash: Option<library::Hash>,
    padding: Padding,
    pub(crate) mask: Option<Hash>,
    pub(crate) salt: Salt,
    /// The parameters that a key for RSA-PSS requires.
    limits: Option<PssLimits>,
    digest: Option<Digest>,
}

impl Keyed for Signing {
    fn start(&mut self, key: Option<Arc<KeyBox>>) -> Result<(), Reason> {
        if let Some(key) = key {
            let family = if key.family == Family::RsaPss { Family::Rsa } else { key.family };
            if family != self.family {
                return Err(Reason::NoKey);
            }
            let kind = key.content()?.kind;
            *self = Self { key: Some(key), ..Self::new(self.family) };
            if let KeyKind::RsaPss { limits, .. } = kind {
                self.padding = Padding::Pss;
                self.limits = limits;
            }
            if let Some(limits) = self.limits {
                self.hash = library::Hash::of_client(limits.hash);
                self.mask = Some(limits.mask);
                self.salt = Salt::Bytes(limits.salt_bytes);
            }
        }
        self.digest = None;
        self.key.as_ref().map(|_| ()).ok_or(Reason::NoKey)
    }
}

impl Signature for Signing {
    fn new(family: Family) -> Self {
        let (padding, salt) = (Padding::Pkcs1, Salt::Auto);
        Self { family, key: None, hash: None, padding, mask: None, salt, limits: None, digest: None }
    }

    fn duplicate(&self) -> Result<Self, Reason> {
        let digest = self.digest.as_ref().map(Digest::duplicate).transpose()?;
        let Self { family, hash, padding, mask, salt, limits, .. } = *self;
        Ok(Self { family, key: self.key.clone(), hash, padding, mask, salt, limits, digest })
    }

    /// Starts a new operation on a message, which is digested here. For Ed25519 no hash may be named.
    fn start_message(&mut self, hash: Option<&str>, key: Option<Arc<KeyBox>>) -> Result<(), Reason> {
        self.start(key)?;
        let hash = hash.filter(|name| !name.is_empty());
        if self.family == Family::Ed25519 {
            return if hash.is_none() { Ok(()) } else { Err(Reason::Unsupported) };
        }
        let usual = self.hash.or_else(|| library::Hash::of_name("SHA256"));
        let hash = hash.map_or(usual, library::Hash::of_signature).ok_or(Reason::Unsupported)?;
        self.set_hash(hash)?;
        self.digest = Some(Digest::new(hash.function())?);
        Ok(())
    }

    fn size(&self) -> Result<usize, Reason> {
        self.content().map(Content::size)
    }

    fn sign(&self, digest: &[u8]) -> Result<Vec<u8>, Reason> {
        let content = self.content()?;
        self.check(digest)?;
        Counted::SIGN.add();
        let signature = match (self.family, self.padding) {
            (Family::Rsa, Padding::Pkcs1) => {
                let (hash, bytes) = self.pkcs1(digest)?;
                content.run(Operation::SignPkcs1(hash), &bytes)
            }
            (Family::Rsa, Padding::None) => content.run_bare(digest),
            (Family::Rsa, Padding::Pss) => {
                let (hash, mask) = self.pss_hashes()?;
                let salt_bytes = self.salt_bytes(content, hash)?;
                content.run(Operation::SignPss { hash, mask, salt_bytes }, digest)
            }
            (Family::Ec, _) => content.run(Operation::SignEcdsa, digest),
            _ => Err(Reason::Unsupported),
        };
        signature.map(|signature| signature.to_vec())
    }

    fn verify(&self, digest: &[u8], signature: &[u8]) -> Result<bool, Reason> {
        let public = &self.content()?.public;
        self.check(digest)?;
        Counted::VERIFY.add();
        Ok(match (self.family, self.padding) {
            (Family::Rsa, Padding::Pkcs1) => {
                let (hash, bytes) = self.pkcs1(digest)?;
                public.verifies(Verification::Pkcs1(hash), &bytes, signature)
            }
            (Family::Rsa, Padding::None) => {
                public.recover(false, signature).is_ok_and(|block| block == digest)
            }
            (Family::Rsa, Padding::Pss) => {
                let (hash, mask) = self.pss_hashes()?;
                let salt_bytes = match self.salt {
                    Salt::Auto | Salt::AutoDigestMax if self.limits.is_none() => None,
                    _ => Some(self.salt_bytes(self.content()?, hash)?),
                };
                public.verifies(Verification::Pss { hash, mask, salt_bytes }, digest, signature)
            }
            (Family::Ec, _) => public.verifies(Verification::Ecdsa, digest, signature),
            _ => return Err(Reason::Unsupported),
        })
    }
}

impl Signing {
    pub(crate) fn hash(&self) -> Option<library::Hash> {
        self.hash
    }

    pub(crate) fn padding(&self) -> Padding {
        self.padding
    }

    /// Names the hash of the message.
    pub(crate) fn set_hash(&mut self, hash: library::Hash) -> Result<(), Reason> {
        self.hash = Some(hash);
        self.is_possible()
    }

    pub(crate) fn set_padding(&mut self, padding: Padding) -> Result<(), Reason> {
        self.padding = padding;
        self.is_possible()
    }

    /// Names the hash of the mask.
    pub(crate) fn set_mask(&mut self, mask: Hash) -> Result<(), Reason> {
        self.mask = Some(mask);
        self.is_possible()
    }

    pub(crate) fn set_salt(&mut self, salt: Salt) -> Result<(), Reason> {
        self.salt = salt;
        self.is_possible()
    }

    /// Fails if the parameters are not those that a key for RSA-PSS requires.
    fn keeps_limits(&self) -> bool {
        let is_for_pss = self.key.as_ref().is_some_and(|key| key.family == Family::RsaPss);
        let Some(limits) = self.limits else { return !is_for_pss || self.padding == Padding::Pss };
        let is_long_enough = match self.salt {
            Salt::Bytes(bytes) => bytes >= limits.salt_bytes,
            Salt::Digest | Salt::AutoDigestMax => limits.hash.bytes() >= usize::from(limits.salt_bytes),
            Salt::Auto | Salt::Max => true,
        };
        self.padding == Padding::Pss
            && self.hash.and_then(|hash| hash.of_service()) == Some(limits.hash)
            && self.mask == Some(limits.mask)
            && is_long_enough
    }

    /// Fails if the padding and the hash do not fit: a bare block has no hash, and PSS has those of the service alone, or those that
    /// the key names.
    fn is_possible(&self) -> Result<(), Reason> {
        let is_possible = self.keeps_limits()
            && match (self.padding, self.hash) {
                (Padding::None, hash) => hash.is_none(),
                (Padding::Pss, Some(hash)) => hash.of_service().is_some(),
                (Padding::Oaep, _) => false,
                _ => true,
            };
        if is_possible { Ok(()) } else { Err(Reason::Unsupported) }
    }

    fn content(&self) -> Result<&Content, Reason> {
        self.key.as_ref().ok_or(Reason::NoKey)?.content()
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

    /// Returns the hashes of PSS, of the message and of the mask; without a name it is SHA-1, as in OpenSSL.
    fn pss_hashes(&self) -> Result<(Hash, Hash), Reason> {
        let hash = self.hash.map_or(Some(Hash::Sha1), |hash| hash.of_service()).ok_or(Reason::Unsupported)?;
        Ok((hash, self.mask.unwrap_or(hash)))
    }

    /// Fails if a digest is not as long as those of the hash that was named.
    fn check(&self, digest: &[u8]) -> Result<(), Reason> {
        if self.hash.is_some_and(|hash| hash.bytes != digest.len()) {
            Err(Reason::BadContent)
        } else {
            Ok(())
        }
    }

    /// Returns the hash that RSASSA-PKCS1-v1_5 names, and the bytes that are signed: a digest, or a structure that is
    /// padded as it is.
    fn pkcs1<'a>(&self, digest: &'a [u8]) -> Result<(Option<Hash>, Cow<'a, [u8]>), Reason> {
        let Some(hash) = self.hash else { return Ok((None, Cow::Borrowed(digest))) };
        Ok(match hash.of_service() {
            Some(own) => (Some(own), Cow::Borrowed(digest)),
            None => (None, Cow::Owned(identifiers::digest_info(hash, digest))),
        })
    }

    /// Returns the digest or the block from which an RSA signature was made.
    pub(crate) fn recover(&self, signature: &[u8]) -> Result<Vec<u8>, Reason> {
        let content = self.content()?;
        let is_padded = match (self.family, self.padding) {
            (Family::Rsa, Padding::Pkcs1) => true,
            (Family::Rsa, Padding::None) => false,
            _ => return Err(Reason::Unsupported),
        };
        Counted::VERIFY.add();
        let found = content.public.recover(is_padded, signature).map_err(|_| Reason::BadContent)?;
        let Some(hash) = self.hash else { return Ok(found) };
        let digest = found.get(found.len().saturating_sub(hash.bytes)..).unwrap_or_default();
        // All other bytes of the structure follow from the hash.
        if found == identifiers::digest_info(hash, digest) {
            Ok(digest.to_vec())
        } else {
            Err(Reason::BadContent)
        }
    }

    /// Adds a part of the message.
    pub(crate) fn update(&mut self, bytes: &[u8]) -> Result<(), Reason> {
        Ok(self.digest.as_mut().ok_or(Reason::Unsupported)?.update(bytes)?)
    }

    /// Returns the digest of the message.
    pub(crate) fn digest(&mut self) -> Result<Vec<u8>, Reason> {
        let (mut digest, hash) = self.digest.take().zip(self.hash).ok_or(Reason::Unsupported)?;
        Ok(digest.finish()?[..hash.bytes].to_vec())
    }

    /// Signs a whole message.
    pub(crate) fn sign_message(&mut self, message: &[u8]) -> Result<Vec<u8>, Reason> {
        if self.family == Family::Ed25519 {
            Counted::SIGN.add();
            return self.content()?.run(Operation::SignEd25519, message).map(|signature| signature.to_vec());
        }
        self.update(message)?;
        let digest = self.digest()?;
        self.sign(&digest)
    }

    /// Returns whether a signature of a whole message is valid.
    pub(crate) fn verify_message(&mut self, message: &[u8], signature: &[u8]) -> Result<bool, Reason> {
        if self.family == Family::Ed25519 {
            Counted::VERIFY.add();
            return Ok(self.content()?.public.verifies(Verification::Ed25519, message, signature));
        }
        self.update(message)?;
        let digest = self.digest()?;
        self.verify(&digest, signature)
    }

    /// Returns the AlgorithmIdentifier for certificates, in DER.
    pub(crate) fn algorithm_id(&self) -> Result<Vec<u8>, Reason> {
        let hash = self.hash.ok_or(Reason::Unsupported);
        Ok(match (self.family, self.padding) {
            (Family::Ed25519, _) => identifiers::algorithm_of_ed25519(),
            (Family::Ec, _) => identifiers::algorithm_of_ecdsa(hash?).ok_or(Reason::Unsupported)?,
            (Family::Rsa, Padding::Pss) => {
                let salt_bytes = self.salt_bytes(self.content()?, self.pss_hashes()?.0)?;
                let mask = self.mask.and_then(library::Hash::of_client).unwrap_or(hash?);
                identifiers::algorithm_of_pss(hash?, mask, salt_bytes)
            }
            _ if hash?.is_of_old_tls() => return Err(Reason::Unsupported),
            _ => identifiers::algorithm_of_pkcs1(hash?),
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

impl Default for Crypting {
    fn default() -> Self {
        Self { key: None, padding: Padding::Pkcs1, hash: Hash::Sha1, mask: None }
    }
}

impl Keyed for Crypting {
    fn start(&mut self, key: Option<Arc<KeyBox>>) -> Result<(), Reason> {
        *self = Self { key, ..Self::default() };
        self.content().map(|_| ())
    }
}

impl Crypting {
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
            Padding::Pss | Padding::None => return Err(Reason::Unsupported),
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
            Padding::Pss | Padding::None => return Err(Reason::Unsupported),
        };
        Counted::DECRYPT.add();
        self.content()?.run(operation, ciphertext)
    }
}

/// ANSI X9.63's function (SEC 1, 3.6.1), which makes keys of a secret, as CMS wants it.
#[derive(Clone, Default)]
pub(crate) struct Derivation {
    pub(crate) hash: Option<library::Hash>,
    pub(crate) bytes: usize,
    pub(crate) shared: Vec<u8>,
}

/// The maximum length of what is made of a secret in bytes.
const DERIVED_BYTES_MAX: usize = 4096;

impl Derivation {
    fn derive(&self, secret: &[u8]) -> Result<Zeroizing<Vec<u8>>, Reason> {
        let hash = self.hash.ok_or(Reason::Unsupported)?;
        let mut made = Zeroizing::new(Vec::with_capacity(self.bytes + library::DIGEST_BYTES_MAX));
        for counter in 1..=self.bytes.div_ceil(hash.bytes) as u32 {
            let mut digest = Digest::new(hash.function())?;
            digest.update(secret)?;
            digest.update(&counter.to_be_bytes())?;
            digest.update(&self.shared)?;
            made.extend_from_slice(&Zeroizing::new(digest.finish()?)[..hash.bytes]);
        }
        made.truncate(self.bytes);
        Ok(made)
    }
}

/// A secret that is being agreed on.
#[derive(Clone, Default)]
pub(crate) struct Agreeing {
    key: Option<Arc<KeyBox>>,
    peer: Option<Arc<KeyBox>>,
    /// Whether a derivation function makes something else of it, and the values that were set for one.
    pub(crate) is_derived: bool,
    pub(crate) derivation: Derivation,
}

impl Keyed for Agreeing {
    fn start(&mut self, key: Option<Arc<KeyBox>>) -> Result<(), Reason> {
        *self = Self { key, ..Self::default() };
        self.content().map(|_| ())
    }
}

impl Agreeing {
    fn content(&self) -> Result<&Content, Reason> {
        self.key.as_ref().ok_or(Reason::NoKey)?.content()
    }

    pub(crate) fn set_peer(&mut self, peer: Arc<KeyBox>) -> Result<(), Reason> {
        if peer.content()?.kind != self.content()?.kind {
            return Err(Reason::BadContent);
        }
        self.peer = Some(peer);
        Ok(())
    }

    pub(crate) fn size(&self) -> Result<usize, Reason> {
        let content = self.content()?;
        if self.is_derived {
            let is_right = (1..=DERIVED_BYTES_MAX).contains(&self.derivation.bytes);
            return if is_right { Ok(self.derivation.bytes) } else { Err(Reason::BadContent) };
        }
        Ok(content.kind.coordinate_bytes().unwrap_or(X25519_BYTES))
    }

    pub(crate) fn derive(&self) -> Result<Zeroizing<Vec<u8>>, Reason> {
        let key = self.content()?;
        let peer = self.peer.as_ref().ok_or(Reason::NoKey)?.content()?;
        let point = der::of_public(peer.public.der()).ok_or(Reason::NoKey)?;
        Counted::DERIVE.add();
        let secret = key.run(Operation::Derive, point)?;
        if self.is_derived { self.derivation.derive(&secret) } else { Ok(secret) }
    }
}
