//! Numbers, names and lengths of the algorithms (RFC 8247; the registry "IKEv2 Parameters").

use sealane_transform::ml_kem::MlKemSet;

use crate::wire::{Transform, TransformType};

/// One row has the algorithm's value, its name in files and its name for people.
macro_rules! table {
    ($kind:ident: $($variant:ident = $number:literal, $word:literal;)*) => {
        impl $kind {
            /// All algorithms, the strongest first.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// Returns the algorithm's number in the registry.
            pub const fn number(self) -> u16 {
                match self { $(Self::$variant => $number),* }
            }

            /// Returns the algorithm's name in a proposal, as strongSwan and libreswan write it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $word),* }
            }

            /// Returns the algorithm with this name.
            pub fn from_name(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|algorithm| algorithm.name() == word)
            }
        }
    };
}

/// Encryption, with the length of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encryption {
    /// AES-256-GCM with a 16-byte check value.
    Aes256Gcm,
    /// AES-128-GCM with a 16-byte check value.
    Aes128Gcm,
    /// ChaCha20-Poly1305 (RFC 7634).
    ChaCha20Poly1305,
    /// AES-256-CCM with a 16-byte check value (RFC 4309, RFC 5282).
    Aes256Ccm16,
    /// AES-128-CCM with a 16-byte check value.
    Aes128Ccm16,
    /// AES-256-CCM with a 12-byte check value.
    Aes256Ccm12,
    /// AES-128-CCM with a 12-byte check value.
    Aes128Ccm12,
    /// AES-256-CCM with an 8-byte check value.
    Aes256Ccm8,
    /// AES-128-CCM with an 8-byte check value.
    Aes128Ccm8,
    /// AES-256-CBC.
    Aes256Cbc,
    /// AES-128-CBC.
    Aes128Cbc,
}

table! { Encryption:
    Aes256Gcm = 20, "aes256gcm16";
    Aes128Gcm = 20, "aes128gcm16";
    ChaCha20Poly1305 = 28, "chacha20poly1305";
    Aes256Ccm16 = 16, "aes256ccm16";
    Aes128Ccm16 = 16, "aes128ccm16";
    Aes256Ccm12 = 15, "aes256ccm12";
    Aes128Ccm12 = 15, "aes128ccm12";
    Aes256Ccm8 = 14, "aes256ccm8";
    Aes128Ccm8 = 14, "aes128ccm8";
    Aes256Cbc = 12, "aes256";
    Aes128Cbc = 12, "aes128";
}

impl Encryption {
    /// Returns the length of the key in bytes, without salt.
    pub const fn key_bytes(self) -> usize {
        match self {
            Self::Aes256Gcm
            | Self::ChaCha20Poly1305
            | Self::Aes256Ccm16
            | Self::Aes256Ccm12
            | Self::Aes256Ccm8
            | Self::Aes256Cbc => 32,
            Self::Aes128Gcm | Self::Aes128Ccm16 | Self::Aes128Ccm12 | Self::Aes128Ccm8 | Self::Aes128Cbc => {
                16
            }
        }
    }

    /// Returns the length in bytes of the salt that is derived behind the key.
    pub const fn salt_bytes(self) -> usize {
        match (self.combined_check_bytes(), self.is_ccm()) {
            (None, _) => 0,
            (Some(_), true) => 3,
            (Some(_), false) => 4,
        }
    }

    /// Returns whether the encryption protects integrity too.
    pub const fn is_combined(self) -> bool {
        self.combined_check_bytes().is_some()
    }

    const fn is_ccm(self) -> bool {
        matches!(self.number(), 14..=16)
    }

    /// Returns the length in bytes of the check value, if the encryption protects integrity too.
    pub const fn combined_check_bytes(self) -> Option<usize> {
        match self {
            Self::Aes256Gcm
            | Self::Aes128Gcm
            | Self::ChaCha20Poly1305
            | Self::Aes256Ccm16
            | Self::Aes128Ccm16 => Some(16),
            Self::Aes256Ccm12 | Self::Aes128Ccm12 => Some(12),
            Self::Aes256Ccm8 | Self::Aes128Ccm8 => Some(8),
            Self::Aes256Cbc | Self::Aes128Cbc => None,
        }
    }

    /// Returns the algorithm as a transform. ChaCha20 has one key length and therefore no attribute (RFC 7634,
    /// section 4).
    pub const fn transform(self) -> Transform {
        let key_bits = match self {
            Self::ChaCha20Poly1305 => None,
            _ => Some(8 * self.key_bytes() as u16),
        };
        Transform::new(TransformType::ENCRYPTION, self.number(), key_bits)
    }
}

/// Integrity, used with an encryption that has none itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Integrity {
    /// HMAC-SHA2-512-256.
    HmacSha512,
    /// HMAC-SHA2-384-192.
    HmacSha384,
    /// HMAC-SHA2-256-128.
    HmacSha256,
    /// HMAC-SHA1-96, for ESP with Windows only.
    HmacSha1,
}

table! { Integrity:
    HmacSha512 = 14, "sha512";
    HmacSha384 = 13, "sha384";
    HmacSha256 = 12, "sha256";
    HmacSha1 = 2, "sha1";
}

impl Integrity {
    /// Returns the length of the key in bytes.
    pub const fn key_bytes(self) -> usize {
        match self {
            Self::HmacSha512 => 64,
            Self::HmacSha384 => 48,
            Self::HmacSha256 => 32,
            Self::HmacSha1 => 20,
        }
    }

    /// Returns the length of the check value in bytes.
    pub const fn check_bytes(self) -> usize {
        match self {
            Self::HmacSha512 => 32,
            Self::HmacSha384 => 24,
            Self::HmacSha256 => 16,
            Self::HmacSha1 => 12,
        }
    }

    /// Returns the algorithm as a transform.
    pub const fn transform(self) -> Transform {
        Transform::new(TransformType::INTEGRITY, self.number(), None)
    }
}

/// The pseudo-random function from which keys are derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Prf {
    /// PRF_HMAC_SHA2_512.
    HmacSha512,
    /// PRF_HMAC_SHA2_384.
    HmacSha384,
    /// PRF_HMAC_SHA2_256.
    HmacSha256,
}

table! { Prf:
    HmacSha512 = 7, "prfsha512";
    HmacSha384 = 6, "prfsha384";
    HmacSha256 = 5, "prfsha256";
}

impl Prf {
    /// Returns the length in bytes of the function's output, and of the keys that it prefers.
    pub const fn output_bytes(self) -> usize {
        match self {
            Self::HmacSha512 => 64,
            Self::HmacSha384 => 48,
            Self::HmacSha256 => 32,
        }
    }

    /// Returns the algorithm as a transform.
    pub const fn transform(self) -> Transform {
        Transform::new(TransformType::PRF, self.number(), None)
    }
}

/// A method of type 4 (RFC 7296, section 3.3.2): a Diffie-Hellman group or a key encapsulation (RFC 9370).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum KeyExchange {
    /// ML-KEM-1024 (FIPS 203), in IKE_INTERMEDIATE or as an additional exchange: what CNSA 2.0 demands.
    MlKem1024,
    /// ML-KEM-768, likewise.
    MlKem768,
    /// ML-KEM-512, likewise; only where it is asked for by name.
    MlKem512,
    /// X25519 (RFC 8031).
    X25519,
    /// NIST P-256 (RFC 5903).
    P256,
    /// NIST P-384.
    P384,
    /// NIST P-521.
    P521,
    /// MODP of 4,096 bits (RFC 3526).
    Modp4096,
    /// MODP of 3,072 bits.
    Modp3072,
    /// MODP of 2,048 bits.
    Modp2048,
}

table! { KeyExchange:
    MlKem1024 = 37, "mlkem1024";
    MlKem768 = 36, "mlkem768";
    MlKem512 = 35, "mlkem512";
    X25519 = 31, "x25519";
    P256 = 19, "ecp256";
    P384 = 20, "ecp384";
    P521 = 21, "ecp521";
    Modp4096 = 16, "modp4096";
    Modp3072 = 15, "modp3072";
    Modp2048 = 14, "modp2048";
}

impl KeyExchange {
    /// Returns the key exchange with this number.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.iter().copied().find(|method| method.number() == number)
    }

    /// Returns the key exchange as a transform of the first exchange or of an additional one.
    pub const fn transform(self, kind: TransformType) -> Transform {
        Transform::new(kind, self.number(), None)
    }

    /// Returns whether the exchange's values are too long for IKE_SA_INIT, which is not fragmented (RFC 9370, section
    /// 1.2). Those of ML-KEM-512 would fit, but an exchange that is not beside an elliptic curve's is not offered.
    pub const fn is_only_additional(self) -> bool {
        self.ml_kem().is_some()
    }

    /// Returns the parameter set, if the method is ML-KEM.
    pub(crate) const fn ml_kem(self) -> Option<MlKemSet> {
        match self {
            Self::MlKem1024 => Some(MlKemSet::MlKem1024),
            Self::MlKem768 => Some(MlKemSet::MlKem768),
            Self::MlKem512 => Some(MlKemSet::MlKem512),
            _ => None,
        }
    }
}
