//! The catalogue of record protections, as a table.
//!
//! Guarantees: every fact that a protocol needs about a suite (sizes, limits, status) is decided here and nowhere
//! else. A suite is one row.

use std::{fmt, str::FromStr};

use sealane_transform::{Aead, BlockCipher, Digest};

use crate::{Mac, Protection};

/// The maximum length of a record's body on which the limits are based.
const RECORD_BYTES: u64 = 64 * 1024;

/// The place of a record's number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Numbering {
    /// The number is not used, because nothing is authenticated.
    Nowhere,
    /// The number enters the nonce, by a secret mask.
    Nonce,
    /// The number is authenticated behind the record (big-endian). The header carries the length, so no two inputs
    /// collide.
    Behind,
    /// The same, little-endian. It comes last so that the data keep their alignment to BLAKE3's chunks.
    BehindLittleEndian,
    /// The number enters the IVs of chains, and is authenticated behind the record.
    ChainsAndBehind,
}

/// The facts about a suite.
struct Row {
    /// The name on the command line and in reports.
    name: &'static str,
    /// The number on the wire.
    code: u8,
    protection: Protection,
    /// Whether bodies are enciphered; if not, an AEAD takes them as associated data.
    encrypts: bool,
    numbering: Numbering,
    /// Whether the suite is refused without the user's explicit consent.
    is_legacy: bool,
    /// A key is changed after this many records, or this many bytes, whichever comes first.
    records_per_key: u64,
    bytes_per_key: u64,
}

/// GCM's distinguishing advantage stays below 2^-48 with 2^36 blocks per key; the other limits are far higher.
const CURRENT: Row = Row {
    name: "",
    code: 0,
    protection: Protection::Null,
    encrypts: false,
    numbering: Numbering::Nowhere,
    is_legacy: false,
    records_per_key: 1 << 24,
    bytes_per_key: 1 << 40,
};

/// Makes the enumeration and its rows from one list.
macro_rules! suites {
    ($($(#[$doc:meta])* $suite:ident = $row:expr,)*) => {
        /// One way to protect a record.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Suite {
            $($(#[$doc])* $suite,)*
        }

        impl Suite {
            /// The whole catalogue.
            pub const ALL: [Self; [$(stringify!($suite)),*].len()] = [$(Self::$suite),*];

            const fn row(self) -> &'static Row {
                match self {
                    $(Self::$suite => { const ROW: Row = $row; &ROW })*
                }
            }
        }
    };
}

suites! {
    /// No protection, and no proof of anything.
    Null = Row { name: "null", ..CURRENT },
    /// AES-128-GCM (NIST SP 800-38D).
    Aes128Gcm = Row {
        name: "aes-128-gcm",
        code: 1,
        protection: Protection::Aead(Aead::Aes128Gcm),
        encrypts: true,
        numbering: Numbering::Nonce,
        ..CURRENT
    },
    /// AES-256-GCM (NIST SP 800-38D).
    Aes256Gcm = Row {
        name: "aes-256-gcm",
        code: 2,
        protection: Protection::Aead(Aead::Aes256Gcm),
        encrypts: true,
        numbering: Numbering::Nonce,
        ..CURRENT
    },
    /// ChaCha20-Poly1305 (RFC 8439).
    ChaCha20Poly1305 = Row {
        name: "chacha20-poly1305",
        code: 3,
        protection: Protection::Aead(Aead::ChaCha20Poly1305),
        encrypts: true,
        numbering: Numbering::Nonce,
        ..CURRENT
    },
    /// AES-128-GMAC: GCM's authenticator over clear data (NIST SP 800-38D).
    Aes128Gmac = Row {
        name: "aes-128-gmac",
        code: 4,
        protection: Protection::Aead(Aead::Aes128Gcm),
        numbering: Numbering::Nonce,
        ..CURRENT
    },
    /// BLAKE3 in keyed mode, truncated to 128 bits, over clear data.
    Blake3 = Row {
        name: "blake3",
        code: 5,
        protection: Protection::Mac { mac: Mac::KeyedBlake3, tag_bytes: 16 },
        numbering: Numbering::BehindLittleEndian,
        ..CURRENT
    },
    /// Triple-DES in CBC mode and HMAC-SHA-1, encrypt then authenticate: the suite that the multicore GridFTP study
    /// of 2007 measured as *private*. Outdated.
    TripleDesCbcHmacSha1 = Row {
        name: "3des-cbc-hmac-sha1",
        code: 6,
        protection: Protection::ChainsThenMac {
            cipher: BlockCipher::TripleDes,
            // Eight chains make a record of 64 KiB with its padding. The length is not a power of two, so that the
            // chains' bytes do not all fall into the same few sets of a cache.
            chain_bytes: 129 * 64,
            mac: Mac::Digest(Digest::HmacSha1),
            tag_bytes: 20,
        },
        encrypts: true,
        numbering: Numbering::ChainsAndBehind,
        is_legacy: true,
        // The limit is 2^26 blocks of 64 bits, well below the 2^32 at which Sweet32 becomes practical.
        bytes_per_key: 1 << 29,
        ..CURRENT
    },
    /// HMAC-SHA-1 over clear data: the suite that the same study measured as *safe*. Outdated.
    HmacSha1 = Row {
        name: "hmac-sha1",
        code: 7,
        protection: Protection::Mac { mac: Mac::Digest(Digest::HmacSha1), tag_bytes: 20 },
        numbering: Numbering::Behind,
        is_legacy: true,
        ..CURRENT
    },
}

/// The error for a suite name that is not in the catalogue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown suite {word:?}; choose one of {}", names())]
pub struct UnknownSuite {
    /// The given name.
    pub word: String,
}

fn names() -> String {
    Suite::ALL.map(Suite::name).join(", ")
}

impl Suite {
    /// Returns the name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the number that stands for the suite on the wire.
    pub fn code(self) -> u8 {
        self.row().code
    }

    /// Returns the suite with a number on the wire.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.code() == code)
    }

    /// Returns the protection that the engine applies for it.
    pub fn protection(self) -> Protection {
        self.row().protection
    }

    pub(super) fn numbering(self) -> Numbering {
        self.row().numbering
    }

    /// Returns whether the body of a record is encrypted.
    pub fn encrypts(self) -> bool {
        self.row().encrypts
    }

    /// Returns whether every record carries a cryptographic tag.
    pub fn authenticates(self) -> bool {
        self.protection().tag_bytes() > 0
    }

    /// Returns whether the suite is refused without the user's explicit consent.
    pub fn is_legacy(self) -> bool {
        self.row().is_legacy
    }

    /// Returns the length of a session's key material in bytes: the protection's, then the nonces' mask.
    pub fn key_bytes(self) -> usize {
        let mask_bytes = if self.numbering() == Numbering::Nonce { self.protection().iv_bytes() } else { 0 };
        self.protection().key_bytes() + mask_bytes
    }

    /// Returns the number of bytes by which a sealed body is longer than its plaintext of `body_bytes`.
    pub fn expansion_bytes(self, body_bytes: usize) -> usize {
        let (granule, tag_bytes) = (self.protection().granule_bytes(), self.protection().tag_bytes());
        // PKCS#7 padding (RFC 5652, section 6.3) always adds at least one byte if the protection has blocks.
        let padding = if granule > 1 { granule - body_bytes % granule } else { 0 };
        padding + tag_bytes
    }

    /// Returns the maximum growth of a body in bytes.
    pub fn expansion_bytes_max(self) -> usize {
        self.expansion_bytes(0)
    }

    /// Returns the number of records of at most 64 KiB after which an association must change keys.
    pub fn records_per_key(self) -> u64 {
        self.row().records_per_key.min(self.row().bytes_per_key / RECORD_BYTES)
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

    /// Both ends of a transfer must agree on these facts.
    #[test]
    fn the_table_says_what_is_on_the_wire() {
        let facts = Suite::ALL.map(|suite| {
            let expansion = (suite.expansion_bytes(0), suite.expansion_bytes(7), suite.expansion_bytes(8));
            (suite.code(), suite.key_bytes(), expansion, suite.records_per_key())
        });
        let tag = (16, 16, 16);
        let expected = [
            (0, 0, (0, 0, 0), 1 << 24),
            (1, 28, tag, 1 << 24),
            (2, 44, tag, 1 << 24),
            (3, 44, tag, 1 << 24),
            (4, 28, tag, 1 << 24),
            (5, 32, tag, 1 << 24),
            (6, 68, (28, 21, 28), 1 << 13),
            (7, 20, (20, 20, 20), 1 << 24),
        ];
        assert_eq!(facts, expected);
        assert!(
            Suite::ALL.into_iter().all(
                |suite| (0..100).all(|bytes| suite.expansion_bytes(bytes) <= suite.expansion_bytes_max())
            )
        );
    }
}
