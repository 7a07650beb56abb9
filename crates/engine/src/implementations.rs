//! Whose code runs sessions, and which of it.
//!
//! Guarantees: all choices compute the same bytes, so the ends of an association need not agree. A choice is a value:
//! nothing here reads the environment.

use std::{fmt, str::FromStr};

use sealane_transform::{Aead, Cipher, Digest, Direction, Isa, Kernels, Mode, Tier};

use crate::{Mac, Protection};

/// An implementation of AES-GCM, GMAC and ChaCha20-Poly1305.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Provider {
    /// AWS-LC, one message after the other.
    AwsLc,
    /// Our own kernels.
    Sealane,
}

/// A provider name that is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{word}: choose aws-lc or sealane")]
pub struct UnknownProvider {
    /// What was given.
    pub word: String,
}

impl Provider {
    /// As in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AwsLc => "aws-lc",
            Self::Sealane => "sealane",
        }
    }
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Provider {
    type Err = UnknownProvider;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        [Self::AwsLc, Self::Sealane]
            .into_iter()
            .find(|provider| provider.name() == word)
            .ok_or_else(|| UnknownProvider { word: word.to_owned() })
    }
}

/// What new sessions run on.
#[derive(Clone, Copy, Debug)]
pub struct Implementations {
    /// Our own kernels: all of them, or a tier and an instruction set.
    pub kernels: Kernels,
    /// Whose AEADs; `None`: the faster on this machine.
    pub aead: Option<Provider>,
}

impl Implementations {
    /// Who runs `aead`.
    pub fn provider(self, aead: Aead) -> Provider {
        self.aead.unwrap_or_else(|| match aead {
            // With 512-bit registers, on Zen 5 with records of 64 KiB, 1.1 (seal) and 1.3 (open) times AWS-LC, 1.4 times,
            // and 1.9 times where some records go together. AES-256-GCM is no faster, and with narrower registers AWS-LC
            // is ahead.
            Aead::Aes128Gcm | Aead::ChaCha20Poly1305 if self.kernels.isa() == Isa::Avx512 => {
                Provider::Sealane
            }
            Aead::Aes128Gcm | Aead::Aes256Gcm | Aead::ChaCha20Poly1305 => Provider::AwsLc,
        })
    }
}

/// Jobs of a call that reports speak of: eight records of `cp`, each in eight chains where it comes in chains.
const RECORDS: usize = 8;
const CHAINS: usize = 64;

impl Implementations {
    /// What runs a protection's records, for reports: its cipher or, without one, its MAC.
    pub fn name(self, protection: Protection) -> &'static str {
        match protection {
            Protection::Null => "none",
            Protection::Aead(aead) => match self.provider(aead) {
                Provider::AwsLc => "native (aws-lc)",
                Provider::Sealane => "native (sealane)",
            },
            Protection::Cipher(cipher) | Protection::EncryptThenMac { cipher, .. } => {
                own(self.kernels.cipher_tier(cipher, Direction::Encrypt, RECORDS))
            }
            Protection::ChainsThenMac { cipher, .. } => {
                let cipher = Cipher::Block(cipher, Mode::Cbc);
                own(self.kernels.cipher_tier(cipher, Direction::Encrypt, CHAINS))
            }
            Protection::Mac { mac: Mac::Digest(digest), .. } => {
                own(self.kernels.digest_tier(digest, RECORDS))
            }
            Protection::Mac { mac: Mac::KeyedBlake3 | Mac::Subtree { is_keyed: true }, .. } => {
                "native (blake3)"
            }
            Protection::Mac { mac: Mac::Subtree { is_keyed: false }, .. } => {
                own(self.kernels.digest_tier(Digest::Blake3, RECORDS))
            }
        }
    }
}

/// The name of our own kernels' tier.
const fn own(tier: Tier) -> &'static str {
    match tier {
        Tier::Reference => "reference (sealane)",
        Tier::Generic => "generic (sealane)",
        Tier::Native => "native (sealane)",
        Tier::Batch => "batch (sealane)",
    }
}

impl From<Kernels> for Implementations {
    fn from(kernels: Kernels) -> Self {
        Self { kernels, aead: None }
    }
}

impl Default for Implementations {
    /// The fastest on this machine.
    fn default() -> Self {
        Kernels::best().into()
    }
}
