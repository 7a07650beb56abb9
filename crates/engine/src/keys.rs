//! Expanded keys, which the software engines derive from a session.
//!
//! Guarantees: all keys are wiped when they are dropped; key material that [`check`] accepts can be expanded.

use aws_lc_rs::aead;
use sealane_transform::{
    Aead, AeadKey, AeadKeyError, AeadLengths, Algorithm, BlockCipher, Cheaper, Cipher, CipherKey, DigestKey,
    Facts, Kernels, KeyLengthError, Mode,
};
use zeroize::Zeroizing;

use crate::{Implementations, Mac, Protection, tree_key::TreeKey};

/// The length of the longest tag, that of SHA-512.
pub(crate) const TAG_BYTES_MAX: usize = 64;

/// The keys of a session, by the steps that run one after another.
pub(crate) struct Keys {
    pub(crate) cipher: Option<Part<CipherKeys>>,
    pub(crate) aead: Option<Part<AeadKeys>>,
    pub(crate) mac: Option<Part<MacKey>>,
}

/// A key, and the group of jobs that may share a call with it.
pub(crate) struct Part<K> {
    /// Equal if the algorithm, implementation, tier and instruction set are equal.
    pub(crate) group: u32,
    pub(crate) key: K,
}

/// A cipher's key, and the derivation of IVs.
pub(crate) struct CipherKeys {
    pub(crate) data: CipherKey,
    /// Present if bodies are cut into chains, each with its own IV.
    pub(crate) chains: Option<Chains>,
}

/// The way in which a body is cut into chains.
pub(crate) struct Chains {
    pub(crate) bytes: usize,
    /// The key that enciphers numbers into IVs.
    pub(crate) ivs: CipherKey,
}

/// The key of an AEAD, in the form of each implementation that may run it.
pub(crate) enum AeadKeys {
    Own(AeadKey),
    Library(Box<aead::LessSafeKey>),
    /// Both implementations: call by call, the cheaper one runs.
    Either(AeadKey, Box<aead::LessSafeKey>),
}

impl AeadKeys {
    fn new(
        implementations: Implementations,
        algorithm: Aead,
        lengths: AeadLengths,
        key: &[u8],
    ) -> Result<Self, AeadKeyError> {
        let own = || AeadKey::with(algorithm, lengths, key);
        let library = || library(algorithm, key).map(Box::new);
        Ok(match implementations.providers(algorithm) {
            Cheaper::Own => Self::Own(own()?),
            Cheaper::Library => Self::Library(library()?),
            Cheaper::Depends => Self::Either(own()?, library()?),
        })
    }

    /// Returns the key for our kernels.
    pub(crate) fn own(&self) -> Option<&AeadKey> {
        match self {
            Self::Own(key) | Self::Either(key, _) => Some(key),
            Self::Library(_) => None,
        }
    }

    /// Returns the key for AWS-LC.
    pub(crate) fn library(&self) -> Option<&aead::LessSafeKey> {
        match self {
            Self::Library(key) | Self::Either(_, key) => Some(key),
            Self::Own(_) => None,
        }
    }
}

pub(crate) enum MacKey {
    /// A digest, of which one call computes many.
    Digest(DigestKey),
    /// BLAKE3 in keyed mode, computed one by one.
    KeyedBlake3(Zeroizing<[u8; 32]>),
    /// Subtrees of BLAKE3, computed one by one.
    Tree(TreeKey),
}

impl MacKey {
    fn new(kernels: Kernels, mac: Mac, key: &[u8]) -> Result<Self, KeyLengthError> {
        let bytes = mac.key_bytes();
        let wrong = KeyLengthError { given_bytes: key.len(), min_bytes: bytes, max_bytes: bytes };
        let key = match mac {
            Mac::Digest(digest) => return Ok(Self::Digest(DigestKey::new(digest, key)?)),
            Mac::Subtree { is_keyed } => {
                if key.len() != bytes {
                    return Err(wrong);
                }
                let key = is_keyed.then(|| key.try_into().map(Zeroizing::new)).transpose();
                return Ok(Self::Tree(TreeKey { kernels, key: key.map_err(|_| wrong)? }));
            }
            Mac::KeyedBlake3 => Zeroizing::new(key.try_into().map_err(|_| wrong)?),
        };
        Ok(Self::KeyedBlake3(key))
    }

    pub(crate) fn tree(&self) -> Option<&TreeKey> {
        match self {
            Self::Tree(key) => Some(key),
            Self::Digest(_) | Self::KeyedBlake3(_) => None,
        }
    }
}

/// Fails unless the lengths are those that a protection's algorithms take.
pub(crate) fn check(protection: Protection, cipher: &[u8], mac: &[u8]) -> Result<(), KeyLengthError> {
    match protection {
        Protection::Null | Protection::Mac { .. } => {}
        Protection::Aead(algorithm) | Protection::ShortAead { aead: algorithm, .. } => {
            exactly(algorithm.key_bytes(), cipher)?;
        }
        Protection::Cipher(algorithm) | Protection::EncryptThenMac { cipher: algorithm, .. } => {
            within(&algorithm.facts(), cipher)?;
        }
        Protection::ChainsThenMac { cipher: block, .. } => {
            let (data, ivs) = cipher.split_at(cipher.len() / 2);
            let facts = Cipher::Block(block, Mode::Cbc).facts();
            within(&facts, data)?;
            within(&facts, ivs)?;
        }
    }
    match protection.mac() {
        None => Ok(()),
        Some(Mac::Digest(digest)) => within(&digest.facts(), mac),
        Some(other) => exactly(other.key_bytes(), mac),
    }
}

fn exactly(bytes: usize, key: &[u8]) -> Result<(), KeyLengthError> {
    between(bytes, bytes, key)
}

fn within(facts: &Facts, key: &[u8]) -> Result<(), KeyLengthError> {
    between(facts.key_bytes.min, facts.key_bytes.max, key)
}

fn between(min_bytes: usize, max_bytes: usize, key: &[u8]) -> Result<(), KeyLengthError> {
    let fits = (min_bytes..=max_bytes).contains(&key.len());
    fits.then_some(()).ok_or(KeyLengthError { given_bytes: key.len(), min_bytes, max_bytes })
}

impl Keys {
    /// Expands the keys of a protection: those of its cipher or AEAD, and of its MAC.
    pub(crate) fn new(
        implementations: Implementations,
        protection: Protection,
        cipher: &[u8],
        mac: &[u8],
    ) -> Result<Self, AeadKeyError> {
        let kernels = implementations.kernels;
        let mut keys = Self { cipher: None, aead: None, mac: None };
        if let Some((algorithm, lengths)) = protection.aead() {
            let key = AeadKeys::new(implementations, algorithm, lengths, cipher)?;
            let who = match key {
                AeadKeys::Own(_) => 0,
                AeadKeys::Library(_) => 1,
                AeadKeys::Either(..) => 2,
            };
            keys.aead = Some(Part { group: 3 * group(kernels, Algorithm::Aead(algorithm)) + who, key });
        }
        match protection {
            Protection::Null
            | Protection::Aead(_)
            | Protection::ShortAead { .. }
            | Protection::Mac { .. } => {}
            Protection::Cipher(algorithm) | Protection::EncryptThenMac { cipher: algorithm, .. } => {
                let key = CipherKeys { data: CipherKey::new(algorithm, cipher)?, chains: None };
                keys.cipher = Some(Part { group: 2 * group(kernels, Algorithm::Cipher(algorithm)), key });
            }
            Protection::ChainsThenMac { cipher: block, chain_bytes, .. } => {
                let (data, ivs) = cipher.split_at(cipher.len() / 2);
                let algorithm = Cipher::Block(block, Mode::Cbc);
                let ivs = CipherKey::new(Cipher::Block(block, Mode::Ecb), ivs)?;
                let chains = Some(Chains { bytes: whole_blocks(block, chain_bytes), ivs });
                let key = CipherKeys { data: CipherKey::new(algorithm, data)?, chains };
                keys.cipher = Some(Part { group: 2 * group(kernels, Algorithm::Cipher(algorithm)) + 1, key });
            }
        }
        if let Some(algorithm) = protection.mac() {
            let group = match algorithm {
                Mac::Digest(digest) => group(kernels, Algorithm::Digest(digest)),
                // These are computed one by one, so it does not matter which jobs share a call.
                Mac::KeyedBlake3 | Mac::Subtree { .. } => u32::MAX,
            };
            keys.mac = Some(Part { group, key: MacKey::new(kernels, algorithm, mac)? });
        }
        Ok(keys)
    }
}

/// Returns `bytes` rounded down to whole blocks, and at least one block.
fn whole_blocks(cipher: BlockCipher, bytes: u16) -> usize {
    let block_bytes = cipher.block_bytes();
    (usize::from(bytes) / block_bytes).max(1) * block_bytes
}

/// Returns the key of an AEAD that the library has ([`Aead::is_in_library`]).
fn library(algorithm: Aead, key: &[u8]) -> Result<aead::LessSafeKey, KeyLengthError> {
    let algorithm = match algorithm {
        Aead::Aes128Gcm => &aead::AES_128_GCM,
        Aead::Aes256Gcm => &aead::AES_256_GCM,
        Aead::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
        Aead::Aes128Ccm | Aead::Aes256Ccm => {
            unreachable!("`Implementations::providers` leaves CCM to our kernels")
        }
    };
    let bytes = algorithm.key_len();
    let wrong = KeyLengthError { given_bytes: key.len(), min_bytes: bytes, max_bytes: bytes };
    aead::UnboundKey::new(algorithm, key).map(aead::LessSafeKey::new).map_err(|_| wrong)
}

/// Returns a number that identifies the algorithm, tier and instruction set.
fn group(kernels: Kernels, algorithm: Algorithm) -> u32 {
    let place = Algorithm::all().position(|other| other == algorithm).expect("the catalogue lists itself");
    let tier = kernels.tier().map_or(0, |tier| 1 + tier as u32);
    (place as u32 * 8 + tier) * 4 + kernels.isa() as u32
}
