//! The choice of implementations that run sessions.
//!
//! Guarantees: all choices compute the same bytes, so the ends of an association need not agree on one. A choice is a
//! value: nothing here reads the environment.

use std::{fmt, str::FromStr};

use sealane_transform::{Aead, AeadTotals, Cheaper, Cipher, Digest, Direction, Kernels, Mode, Tier};

use crate::{Mac, Protection};

/// An implementation of AES-GCM, GMAC and ChaCha20-Poly1305. AES-CCM is always ours, because aws-lc-rs has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Provider {
    /// AWS-LC, which runs one message after the other.
    AwsLc,
    /// Our own kernels.
    Sealane,
}

/// The error for an unknown provider name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{word}: choose aws-lc or sealane")]
pub struct UnknownProvider {
    /// The given name.
    pub word: String,
}

impl Provider {
    /// Returns the name used in reports.
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

/// The implementations that new sessions use.
#[derive(Clone, Copy, Debug)]
pub struct Implementations {
    /// Our own kernels: all of them, or those of one tier and instruction set.
    pub kernels: Kernels,
    /// The implementation of AEADs; `None` selects, call by call, the cheaper one on this machine.
    pub aead: Option<Provider>,
}

impl Implementations {
    /// Returns the implementations that may run `aead`: the chosen one, or else the cheaper one by the kernels'
    /// measured costs.
    pub(crate) fn providers(self, aead: Aead) -> Cheaper {
        match self.aead {
            Some(Provider::AwsLc) if aead.is_in_library() => Cheaper::Library,
            Some(_) => Cheaper::Own,
            None => self.kernels.cheaper(aead),
        }
    }

    /// Returns the implementation that runs such jobs of `aead` in one call.
    pub fn provider(self, aead: Aead, direction: Direction, jobs: AeadTotals) -> Provider {
        let chosen = self.aead.filter(|_| aead.is_in_library());
        chosen.unwrap_or_else(|| match self.kernels.is_own_cheaper(aead, direction, jobs) {
            true => Provider::Sealane,
            false => Provider::AwsLc,
        })
    }
}

/// The numbers of jobs in the call that reports describe: eight records of `cp`, with eight chains per record if the
/// protection uses chains.
const RECORDS: usize = 8;
const CHAINS: usize = 64;
/// The totals of these records, for which costs are computed.
const OF_RECORDS: AeadTotals =
    AeadTotals { messages: RECORDS, data_bytes: RECORDS << 16, clear_bytes: 32 * RECORDS };

impl Implementations {
    /// Returns the name of the implementation that runs a protection's records, for reports: its cipher's or, without
    /// a cipher, its MAC's.
    pub fn name(self, protection: Protection) -> &'static str {
        match protection {
            Protection::Null => "none",
            Protection::Aead(aead) | Protection::ShortAead { aead, .. } => {
                match self.provider(aead, Direction::Encrypt, OF_RECORDS) {
                    Provider::AwsLc => "native (aws-lc)",
                    Provider::Sealane => "native (sealane)",
                }
            }
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

/// Returns the name of our own kernels' tier.
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
    /// Returns the fastest implementations on this machine.
    fn default() -> Self {
        Kernels::best().into()
    }
}
