//! Expanded keys, as the software engines make them of a session.
//!
//! Guarantees: all of them wipe themselves; key material that [`check`] accepts can be expanded.

use aws_lc_rs::aead;
use sealane_transform::{
    Aead, AeadKey, Algorithm, BlockCipher, Cheaper, Cipher, CipherKey, DigestKey, Facts, Kernels,
    KeyLengthError, Mode,
};
use zeroize::Zeroizing;

use crate::{Implementations, Mac, Protection, tree::TreeKey};

/// The longest tag: SHA-512's.
pub(crate) const TAG_BYTES_MAX: usize = 64;

/// The parts of a session that run one after another.
pub(crate) struct Keys {
    pub(crate) cipher: Option<Part<CipherKeys>>,
    pub(crate) aead: Option<Part<AeadKeys>>,
    pub(crate) mac: Option<Part<MacKey>>,
}

/// A key, and which jobs may share a call with it.
pub(crate) struct Part<K> {
    /// Equal where algorithm, implementation, tier and instruction set are.
    pub(crate) group: u32,
    pub(crate) key: K,
}

/// A cipher's key, and how IVs come about.
pub(crate) struct CipherKeys {
    pub(crate) data: CipherKey,
    /// For bodies in chains, each with an IV of its own.
    pub(crate) chains: Option<Chains>,
}

/// How a body is cut into chains.
pub(crate) struct Chains {
    pub(crate) bytes: usize,
    /// Enciphers numbers into IVs.
    pub(crate) ivs: CipherKey,
}

/// The key of an AEAD, for whoever may run it.
pub(crate) enum AeadKeys {
    Own(AeadKey),
    Library(Box<aead::LessSafeKey>),
    /// Whoever is cheaper, call by call.
    Either(AeadKey, Box<aead::LessSafeKey>),
}

impl AeadKeys {
    fn new(implementations: Implementations, algorithm: Aead, key: &[u8]) -> Result<Self, KeyLengthError> {
        let own = || AeadKey::new(algorithm, key);
        let library = || library(algorithm, key).map(Box::new);
        Ok(match implementations.providers(algorithm) {
            Cheaper::Own => Self::Own(own()?),
            Cheaper::Library => Self::Library(library()?),
            Cheaper::Depends => Self::Either(own()?, library()?),
        })
    }

    /// For our kernels.
    pub(crate) fn own(&self) -> Option<&AeadKey> {
        match self {
            Self::Own(key) | Self::Either(key, _) => Some(key),
            Self::Library(_) => None,
        }
    }

    /// For AWS-LC.
    pub(crate) fn library(&self) -> Option<&aead::LessSafeKey> {
        match self {
            Self::Library(key) | Self::Either(_, key) => Some(key),
            Self::Own(_) => None,
        }
    }
}

pub(crate) enum MacKey {
    /// Many in a call.
    Digest(DigestKey),
    /// One by one.
    KeyedBlake3(Zeroizing<[u8; 32]>),
    /// Subtrees, one by one.
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

/// Whether the lengths are those that a protection's algorithms take.
pub(crate) fn check(protection: Protection, cipher: &[u8], mac: &[u8]) -> Result<(), KeyLengthError> {
    match protection {
        Protection::Null | Protection::Mac { .. } => {}
        Protection::Aead(algorithm) => exactly(algorithm.key_bytes(), cipher)?,
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
    /// Expands the keys of a protection: its cipher's, or AEAD's, and its MAC's.
    pub(crate) fn new(
        implementations: Implementations,
        protection: Protection,
        cipher: &[u8],
        mac: &[u8],
    ) -> Result<Self, KeyLengthError> {
        let kernels = implementations.kernels;
        let mut keys = Self { cipher: None, aead: None, mac: None };
        match protection {
            Protection::Null | Protection::Mac { .. } => {}
            Protection::Aead(algorithm) => {
                let key = AeadKeys::new(implementations, algorithm, cipher)?;
                let who = match key {
                    AeadKeys::Own(_) => 0,
                    AeadKeys::Library(_) => 1,
                    AeadKeys::Either(..) => 2,
                };
                keys.aead = Some(Part { group: 3 * group(kernels, Algorithm::Aead(algorithm)) + who, key });
            }
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
                // One by one: what they share does not matter.
                Mac::KeyedBlake3 | Mac::Subtree { .. } => u32::MAX,
            };
            keys.mac = Some(Part { group, key: MacKey::new(kernels, algorithm, mac)? });
        }
        Ok(keys)
    }
}

/// Whole blocks, and at least one.
fn whole_blocks(cipher: BlockCipher, bytes: u16) -> usize {
    let block_bytes = cipher.block_bytes();
    (usize::from(bytes) / block_bytes).max(1) * block_bytes
}

fn library(algorithm: Aead, key: &[u8]) -> Result<aead::LessSafeKey, KeyLengthError> {
    let algorithm = match algorithm {
        Aead::Aes128Gcm => &aead::AES_128_GCM,
        Aead::Aes256Gcm => &aead::AES_256_GCM,
        Aead::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
    };
    let bytes = algorithm.key_len();
    let wrong = KeyLengthError { given_bytes: key.len(), min_bytes: bytes, max_bytes: bytes };
    aead::UnboundKey::new(algorithm, key).map(aead::LessSafeKey::new).map_err(|_| wrong)
}

/// A number for algorithm, tier and instruction set.
fn group(kernels: Kernels, algorithm: Algorithm) -> u32 {
    let place = Algorithm::all().position(|other| other == algorithm).expect("the catalogue lists itself");
    let tier = kernels.tier().map_or(0, |tier| 1 + tier as u32);
    (place as u32 * 8 + tier) * 4 + kernels.isa() as u32
}
