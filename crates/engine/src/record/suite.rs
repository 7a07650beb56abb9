//! The catalogue of record protections, as data.
//!
//! Guarantees: every fact a protocol needs about a suite (sizes, limits, status) is asked here and nowhere
//! else decided.

use std::{fmt, str::FromStr};

use sealane_transform::Tier;

use super::{Provider, legacy};

/// One way to protect a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Suite {
    /// Nothing: the record is its own proof of nothing.
    Null,
    /// AES-128-GCM (NIST SP 800-38D).
    Aes128Gcm,
    /// AES-256-GCM (NIST SP 800-38D).
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 8439).
    ChaCha20Poly1305,
    /// AES-128-GMAC: GCM's authenticator over clear data (NIST SP 800-38D).
    Aes128Gmac,
    /// BLAKE3 in keyed mode, truncated to 128 bits, over clear data.
    Blake3,
    /// Triple-DES in CBC mode and HMAC-SHA-1, encrypt then authenticate: the suite that the multicore
    /// GridFTP study of 2007 measured as *private*. Outdated.
    TripleDesCbcHmacSha1,
    /// HMAC-SHA-1 over clear data: the same study's *safe*. Outdated.
    HmacSha1,
}

/// A suite name that is not in the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown suite {word:?}; choose one of {}", names())]
pub struct UnknownSuite {
    /// What was given.
    pub word: String,
}

fn names() -> String {
    Suite::ALL.map(Suite::name).join(", ")
}

impl Suite {
    /// The whole catalogue.
    pub const ALL: [Self; 8] = [
        Self::Null,
        Self::Aes128Gcm,
        Self::Aes256Gcm,
        Self::ChaCha20Poly1305,
        Self::Aes128Gmac,
        Self::Blake3,
        Self::TripleDesCbcHmacSha1,
        Self::HmacSha1,
    ];

    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Aes128Gcm => "aes-128-gcm",
            Self::Aes256Gcm => "aes-256-gcm",
            Self::ChaCha20Poly1305 => "chacha20-poly1305",
            Self::Aes128Gmac => "aes-128-gmac",
            Self::Blake3 => "blake3",
            Self::TripleDesCbcHmacSha1 => "3des-cbc-hmac-sha1",
            Self::HmacSha1 => "hmac-sha1",
        }
    }

    /// The number that stands for the suite on the wire.
    pub fn code(self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Aes128Gcm => 1,
            Self::Aes256Gcm => 2,
            Self::ChaCha20Poly1305 => 3,
            Self::Aes128Gmac => 4,
            Self::Blake3 => 5,
            Self::TripleDesCbcHmacSha1 => 6,
            Self::HmacSha1 => 7,
        }
    }

    /// The suite of a wire number.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.code() == code)
    }

    /// Whether the body of a record is encrypted.
    pub fn encrypts(self) -> bool {
        matches!(
            self,
            Self::Aes128Gcm | Self::Aes256Gcm | Self::ChaCha20Poly1305 | Self::TripleDesCbcHmacSha1
        )
    }

    /// Whether every record carries a cryptographic tag.
    pub fn authenticates(self) -> bool {
        self != Self::Null
    }

    /// Whether the suite is refused without the user's explicit consent.
    pub fn is_legacy(self) -> bool {
        matches!(self, Self::TripleDesCbcHmacSha1 | Self::HmacSha1)
    }

    /// Key material a session needs, in bytes: cipher key, then nonce mask or authenticator key.
    pub fn key_bytes(self) -> usize {
        match self {
            Self::Null => 0,
            Self::Aes128Gcm | Self::Aes128Gmac => 16 + 12,
            Self::Aes256Gcm | Self::ChaCha20Poly1305 => 32 + 12,
            Self::Blake3 => 32,
            // Cipher key, key of the cipher that makes the IVs, authenticator key.
            Self::TripleDesCbcHmacSha1 => 24 + 24 + 20,
            Self::HmacSha1 => 20,
        }
    }

    /// How many bytes longer than its plaintext a sealed body of `body_bytes` is.
    pub fn expansion_bytes(self, body_bytes: usize) -> usize {
        match self {
            Self::Null => 0,
            Self::Aes128Gcm | Self::Aes256Gcm | Self::ChaCha20Poly1305 | Self::Aes128Gmac | Self::Blake3 => {
                16
            }
            // PKCS#7 padding (RFC 5652, section 6.3) always adds 1 to 8 bytes.
            Self::TripleDesCbcHmacSha1 => 8 - body_bytes % 8 + 20,
            Self::HmacSha1 => 20,
        }
    }

    /// The most by which any body grows.
    pub fn expansion_bytes_max(self) -> usize {
        match self {
            Self::TripleDesCbcHmacSha1 => 28,
            _ => self.expansion_bytes(0),
        }
    }

    /// Records after which an association must change keys. With records of at most 64 KiB this keeps
    /// GCM's distinguishing advantage below 2^-48 (2^36 blocks a key) and leaves a 64-bit block cipher at
    /// 2^26 blocks, under the 2^32 where Sweet32 bites.
    pub fn records_per_key(self) -> u64 {
        match self {
            Self::TripleDesCbcHmacSha1 => 1 << 13,
            _ => 1 << 24,
        }
    }

    /// The implementation that runs the suite, for reports.
    pub fn tier(self) -> &'static str {
        match self {
            Self::Null => "none",
            Self::Aes128Gcm | Self::Aes256Gcm | Self::ChaCha20Poly1305 | Self::Aes128Gmac => {
                match Provider::of(self) {
                    Provider::AwsLc => "native (aws-lc)",
                    Provider::Sealane => "native (sealane)",
                }
            }
            Self::Blake3 => "native (blake3)",
            Self::HmacSha1 | Self::TripleDesCbcHmacSha1 => match legacy::tier(self) {
                Tier::Reference => "reference (sealane)",
                Tier::Generic => "generic (sealane)",
                Tier::Native => "native (sealane)",
                Tier::Batch => "batch (sealane)",
            },
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Suite {
    type Err = UnknownSuite;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|suite| suite.name() == word)
            .ok_or_else(|| UnknownSuite { word: word.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_codes_round_trip() {
        for suite in Suite::ALL {
            assert_eq!(suite.name().parse(), Ok(suite));
            assert_eq!(Suite::from_code(suite.code()), Some(suite));
        }
        assert_eq!(Suite::from_code(200), None);
        assert!("rot13".parse::<Suite>().is_err());
    }
}
