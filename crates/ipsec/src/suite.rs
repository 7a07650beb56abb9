//! Suites of ESP and AH: an encryption, an integrity check, or a combination of both.
//!
//! Guarantees: a name parses to exactly one suite and prints back the same; all lengths of a packet's parts are
//! derived from here. Names are those of the algorithms, followed by the bits of a truncated check value:
//! `aes-128-gcm`, `aes-256-cbc+hmac-sha256-128`, `null+hmac-sha1-96`; AH uses an integrity check alone,
//! `hmac-sha256-128` or `aes-128-gmac`.

use std::{fmt, str::FromStr};

use sealane_engine::{Mac, Protection};
use sealane_transform::{Aead, AeadLengths, BlockCipher, Cipher, Digest, Mode};

/// The derivation of the cipher's IV from the IV in a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Iv {
    /// There is no IV.
    None,
    /// The packet has 8 bytes, the sequence number; with 4 bytes of salt in front they are the nonce (RFC 4106, 4543,
    /// 7634).
    Counted,
    /// The same with 3 bytes of salt (RFC 4309).
    CountedBehindThree,
    /// The packet has 8 bytes, the sequence number; 4 bytes of salt stand in front and a block counter of 1 behind
    /// (RFC 3686).
    CountedBlock,
    /// The packet has an unpredictable block of this many bytes (RFC 3602, section 3; RFC 2451).
    Random(u8),
}

impl Iv {
    /// Returns the number of bytes of the IV in the packet.
    pub const fn wire_bytes(self) -> usize {
        match self {
            Self::None => 0,
            Self::Counted | Self::CountedBehindThree | Self::CountedBlock => 8,
            Self::Random(bytes) => bytes as usize,
        }
    }

    /// Returns the length in bytes of the salt behind the cipher's key in the key material.
    pub const fn salt_bytes(self) -> usize {
        match self {
            Self::None | Self::Random(_) => 0,
            Self::CountedBehindThree => 3,
            Self::Counted | Self::CountedBlock => 4,
        }
    }

    /// Returns whether a repeated number under one key reveals the secret. Such suites are not allowed with keys from
    /// files (RFC 4106, section 8.1 and 3686, section 7).
    pub const fn is_counted(self) -> bool {
        matches!(self, Self::Counted | Self::CountedBehindThree | Self::CountedBlock)
    }
}

/// A cipher that needs an integrity check beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Encryption {
    name: &'static str,
    cipher: Cipher,
    iv: Iv,
    /// The unit of which the length of payload and trailer is a multiple.
    align: u8,
    is_legacy: bool,
}

/// An integrity check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Integrity {
    name: &'static str,
    mac: Mac,
    bytes: u8,
    is_legacy: bool,
}

/// A combination of encryption and integrity check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Combined {
    name: &'static str,
    aead: Aead,
    iv: Iv,
    check_bytes: u8,
    encrypts: bool,
}

const fn block(
    name: &'static str,
    cipher: BlockCipher,
    mode: Mode,
    bytes: u8,
    is_legacy: bool,
) -> Encryption {
    let (iv, align) = match mode {
        Mode::Ctr => (Iv::CountedBlock, 4),
        Mode::Cbc | Mode::Ecb => (Iv::Random(bytes), bytes),
    };
    Encryption { name, cipher: Cipher::Block(cipher, mode), iv, align, is_legacy }
}

/// The ciphers of RFC 8221, section 5, and of the study of 2002.
const ENCRYPTIONS: [Encryption; 9] = [
    Encryption { name: "null", cipher: Cipher::Null, iv: Iv::None, align: 4, is_legacy: false },
    block("aes-128-cbc", BlockCipher::Aes128, Mode::Cbc, 16, false),
    block("aes-192-cbc", BlockCipher::Aes192, Mode::Cbc, 16, false),
    block("aes-256-cbc", BlockCipher::Aes256, Mode::Cbc, 16, false),
    block("aes-128-ctr", BlockCipher::Aes128, Mode::Ctr, 16, false),
    block("aes-192-ctr", BlockCipher::Aes192, Mode::Ctr, 16, false),
    block("aes-256-ctr", BlockCipher::Aes256, Mode::Ctr, 16, false),
    block("3des-cbc", BlockCipher::TripleDes, Mode::Cbc, 8, true),
    block("des-cbc", BlockCipher::Des, Mode::Cbc, 8, true),
];

const fn mac(name: &'static str, mac: Mac, bytes: u8, is_legacy: bool) -> Integrity {
    Integrity { name, mac, bytes, is_legacy }
}

/// The integrity checks of RFC 8221, section 6.
const INTEGRITIES: [Integrity; 5] = [
    mac("hmac-sha256-128", Mac::Digest(Digest::HmacSha256), 16, false),
    mac("hmac-sha384-192", Mac::Digest(Digest::HmacSha384), 24, false),
    mac("hmac-sha512-256", Mac::Digest(Digest::HmacSha512), 32, false),
    mac("hmac-sha1-96", Mac::Digest(Digest::HmacSha1), 12, false),
    mac("hmac-md5-96", Mac::Digest(Digest::HmacMd5), 12, true),
];

const fn combined(name: &'static str, aead: Aead) -> Combined {
    Combined { name, aead, iv: Iv::Counted, check_bytes: 16, encrypts: true }
}

const fn ccm(name: &'static str, aead: Aead, check_bytes: u8) -> Combined {
    Combined { iv: Iv::CountedBehindThree, check_bytes, ..combined(name, aead) }
}

/// The combined algorithms of RFC 8221, section 5; CCM's are for devices that have no GCM.
const COMBINED: [Combined; 11] = [
    combined("aes-128-gcm", Aead::Aes128Gcm),
    combined("aes-256-gcm", Aead::Aes256Gcm),
    combined("chacha20-poly1305", Aead::ChaCha20Poly1305),
    ccm("aes-128-ccm", Aead::Aes128Ccm, 16),
    ccm("aes-128-ccm-96", Aead::Aes128Ccm, 12),
    ccm("aes-128-ccm-64", Aead::Aes128Ccm, 8),
    ccm("aes-256-ccm", Aead::Aes256Ccm, 16),
    ccm("aes-256-ccm-96", Aead::Aes256Ccm, 12),
    ccm("aes-256-ccm-64", Aead::Aes256Ccm, 8),
    Combined { encrypts: false, ..combined("aes-128-gmac", Aead::Aes128Gcm) },
    Combined { encrypts: false, ..combined("aes-256-gmac", Aead::Aes256Gcm) },
];

/// The algorithms that protect packets of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Suite(Parts);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Parts {
    Combined(&'static Combined),
    Both(&'static Encryption, &'static Integrity),
    Integrity(&'static Integrity),
}

/// The suite name is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown suite {word:?}; choose {}", choices())]
pub struct UnknownSuite {
    /// The given name.
    pub word: String,
}

fn choices() -> String {
    let joined = |names: &mut dyn Iterator<Item = &'static str>| names.collect::<Vec<_>>().join(", ");
    format!(
        "one of {}, or an encryption ({}), a plus sign and an integrity ({})",
        joined(&mut COMBINED.iter().map(|row| row.name)),
        joined(&mut ENCRYPTIONS.iter().map(|row| row.name)),
        joined(&mut INTEGRITIES.iter().map(|row| row.name)),
    )
}

impl Suite {
    /// Returns all suites for ESP.
    pub fn all_esp() -> impl Iterator<Item = Self> {
        let both = ENCRYPTIONS.iter().flat_map(|encryption| {
            INTEGRITIES.iter().map(move |integrity| Parts::Both(encryption, integrity))
        });
        COMBINED.iter().map(Parts::Combined).chain(both).map(Self)
    }

    /// Returns all suites for AH.
    pub fn all_ah() -> impl Iterator<Item = Self> {
        let combined = COMBINED.iter().map(Parts::Combined).map(Self).filter(|suite| suite.is_for_ah());
        INTEGRITIES.iter().map(Parts::Integrity).map(Self).chain(combined)
    }

    /// Returns whether ESP can use the suite.
    pub fn is_for_esp(self) -> bool {
        !matches!(self.0, Parts::Integrity(_))
    }

    /// Returns whether AH can use the suite.
    pub fn is_for_ah(self) -> bool {
        match self.0 {
            Parts::Combined(row) => !row.encrypts,
            Parts::Both(..) => false,
            Parts::Integrity(_) => true,
        }
    }

    /// Returns whether payloads are encrypted.
    pub fn encrypts(self) -> bool {
        match self.0 {
            Parts::Combined(row) => row.encrypts,
            Parts::Both(encryption, _) => encryption.cipher != Cipher::Null,
            Parts::Integrity(_) => false,
        }
    }

    /// Returns whether the suite is refused without the user's explicit consent.
    pub fn is_legacy(self) -> bool {
        match self.0 {
            Parts::Combined(_) => false,
            Parts::Both(encryption, integrity) => encryption.is_legacy || integrity.is_legacy,
            Parts::Integrity(integrity) => integrity.is_legacy,
        }
    }

    /// Returns whether one combined algorithm encrypts and authenticates. The extended sequence number is then part
    /// of the authenticated data, and is not appended behind it.
    pub fn is_combined(self) -> bool {
        matches!(self.0, Parts::Combined(_))
    }

    /// Returns the operation of an engine on the packets.
    pub fn protection(self) -> Protection {
        match self.0 {
            Parts::Combined(row) => {
                let nonce_bytes = (row.iv.salt_bytes() + row.iv.wire_bytes()) as u8;
                match (AeadLengths { nonce_bytes, tag_bytes: row.check_bytes }, row.aead) {
                    (AeadLengths::USUAL, aead) => Protection::Aead(aead),
                    (lengths, aead) => Protection::ShortAead { aead, lengths },
                }
            }
            Parts::Both(Encryption { cipher: Cipher::Null, .. }, integrity) | Parts::Integrity(integrity) => {
                Protection::Mac { mac: integrity.mac, tag_bytes: integrity.bytes }
            }
            Parts::Both(encryption, integrity) => Protection::EncryptThenMac {
                cipher: encryption.cipher,
                mac: integrity.mac,
                tag_bytes: integrity.bytes,
            },
        }
    }

    /// Returns the kind of IV.
    pub fn iv(self) -> Iv {
        match self.0 {
            Parts::Combined(row) => row.iv,
            Parts::Both(encryption, _) => encryption.iv,
            Parts::Integrity(_) => Iv::None,
        }
    }

    /// Returns the number of bytes of which the length of payload and trailer is a multiple (RFC 4303, section 2.4).
    pub fn align_bytes(self) -> usize {
        match self.0 {
            Parts::Combined(_) | Parts::Integrity(_) => 4,
            Parts::Both(encryption, _) => usize::from(encryption.align),
        }
    }

    /// Returns the length of the integrity check value in bytes.
    pub fn check_bytes(self) -> usize {
        self.protection().tag_bytes()
    }

    /// Returns the length of the key material in bytes: the cipher's key, its salt, the MAC's key (RFC 7296, section
    /// 2.17; RFC 4106, section 8.1).
    pub fn material_bytes(self) -> usize {
        self.protection().key_bytes() + self.iv().salt_bytes()
    }

    /// Returns the number of bytes of the key of the cipher or of the combined algorithm, without the salt behind it.
    pub(crate) fn cipher_key_bytes(self) -> usize {
        match self.0 {
            Parts::Combined(row) => row.aead.key_bytes(),
            Parts::Both(encryption, _) => encryption.cipher.facts().key_bytes.usual,
            Parts::Integrity(_) => 0,
        }
    }
}

impl fmt::Display for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Parts::Combined(row) => f.write_str(row.name),
            Parts::Both(encryption, integrity) => write!(f, "{}+{}", encryption.name, integrity.name),
            Parts::Integrity(row) => f.write_str(row.name),
        }
    }
}

impl FromStr for Suite {
    type Err = UnknownSuite;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let combined = || COMBINED.iter().find(|row| row.name == word).map(Parts::Combined);
        let integrity = |name: &str| INTEGRITIES.iter().find(|row| row.name == name);
        let parts = match word.split_once('+') {
            Some((encryption, check)) => ENCRYPTIONS
                .iter()
                .find(|row| row.name == encryption)
                .and_then(|encryption| Some(Parts::Both(encryption, integrity(check)?))),
            None => combined().or_else(|| integrity(word).map(Parts::Integrity)),
        };
        parts.map(Self).ok_or_else(|| UnknownSuite { word: word.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_lengths_are_those_of_the_rfcs() {
        for suite in Suite::all_esp().chain(Suite::all_ah()) {
            assert_eq!(suite.to_string().parse(), Ok(suite));
        }
        let lengths = |word: &str| {
            let suite: Suite = word.parse().expect(word);
            (suite.material_bytes(), suite.iv().wire_bytes(), suite.align_bytes(), suite.check_bytes())
        };
        assert_eq!(lengths("aes-128-gcm"), (20, 8, 4, 16));
        assert_eq!(lengths("aes-256-gcm"), (36, 8, 4, 16));
        assert_eq!(lengths("chacha20-poly1305"), (36, 8, 4, 16));
        assert_eq!(lengths("aes-128-ccm"), (19, 8, 4, 16));
        assert_eq!(lengths("aes-256-ccm-64"), (35, 8, 4, 8));
        assert_eq!(lengths("aes-128-cbc+hmac-sha256-128"), (16 + 32, 16, 16, 16));
        assert_eq!(lengths("aes-256-ctr+hmac-sha512-256"), (32 + 4 + 64, 8, 4, 32));
        assert_eq!(lengths("3des-cbc+hmac-sha1-96"), (24 + 20, 8, 8, 12));
        assert_eq!(lengths("null+hmac-md5-96"), (16, 0, 4, 12));
        assert_eq!(lengths("hmac-sha384-192"), (48, 0, 4, 24));
        assert_eq!(lengths("aes-128-gmac"), (20, 8, 4, 16));
    }

    #[test]
    fn unknown_names_list_the_choices() {
        for word in
            ["", "aes", "aes-128-gcm+hmac-sha1-96", "null", "null+", "+hmac-sha1-96", "rot13+hmac-sha1-96"]
        {
            let error = word.parse::<Suite>().expect_err(word).to_string();
            assert!(error.contains("aes-128-gcm") && error.contains("3des-cbc"), "{error}");
        }
    }

    #[test]
    fn the_old_algorithms_need_consent() {
        let legacy: Vec<String> =
            Suite::all_esp().filter(|suite| suite.is_legacy()).map(|suite| suite.to_string()).collect();
        assert!(legacy.iter().all(|name| name.contains("des-cbc") || name.contains("md5")));
        assert_eq!(legacy.len(), 2 * 5 + 7);
    }
}
