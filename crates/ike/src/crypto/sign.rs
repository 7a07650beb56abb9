//! Signatures of AUTH payloads: those of RFC 7427, and the older methods of RFC 7296 and RFC 4754 for clients without
//! RFC 7427.
//!
//! Guarantees: a signature is verified with the algorithm that its identifier names, byte for byte; SHA-1 is verified
//! only where that was allowed, and used for signing only if the other end accepts nothing else.

use aws_lc_rs::{
    encoding::{AsDer as _, PublicKeyX509Der},
    rand::SystemRandom,
    signature::{self, EcdsaKeyPair, Ed25519KeyPair, RsaKeyPair, UnparsedPublicKey, VerificationAlgorithm},
};

use super::{CryptoError, legacy};

/// A hash algorithm of a SIGNATURE_HASH_ALGORITHMS notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// SHA2-256.
    Sha256,
    /// SHA2-384.
    Sha384,
    /// SHA2-512.
    Sha512,
    /// The message itself, as Ed25519 takes it (RFC 8420).
    Identity,
}

impl Hash {
    /// All hash algorithms that are verified here.
    pub const ALL: [Self; 4] = [Self::Sha256, Self::Sha384, Self::Sha512, Self::Identity];

    /// Returns the algorithm's number.
    pub const fn number(self) -> u16 {
        match self {
            Self::Sha256 => 2,
            Self::Sha384 => 3,
            Self::Sha512 => 4,
            Self::Identity => 5,
        }
    }
}

/// The method with which an AUTH payload proves an identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Method(pub u8);

impl Method {
    /// RSA with SHA-1 (PKCS #1).
    pub const RSA: Self = Self(1);
    /// A code under a shared key, or under the key of an EAP method (RFC 7296, sections 2.15 and 2.16).
    pub const SHARED_KEY: Self = Self(2);
    /// ECDSA with SHA-256 on P-256, as r and s.
    pub const ECDSA_256: Self = Self(9);
    /// ECDSA with SHA-384 on P-384, as r and s.
    pub const ECDSA_384: Self = Self(10);
    /// A signature that names its algorithm (RFC 7427).
    pub const DIGITAL_SIGNATURE: Self = Self(14);
}

/// The algorithm of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyType {
    Ed25519,
    P256,
    P384,
    Rsa,
}

/// `id-Ed25519`, `id-ecPublicKey` with its curve, and `rsaEncryption`, as encoded in a SubjectPublicKeyInfo.
const ED25519: &[u8] = &[0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70];
const EC_P256: &[u8] = &[
    0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce,
    0x3d, 0x03, 0x01, 0x07,
];
const EC_P384: &[u8] = &[
    0x30, 0x10, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x05, 0x2b, 0x81, 0x04, 0x00,
    0x22,
];
const RSA: &[u8] =
    &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01, 0x05, 0x00];

/// One algorithm of RFC 7427: its identifier (appendix A), and the algorithms that sign and verify it.
struct Algorithm {
    identifier: &'static [u8],
    key: KeyType,
    hash: Hash,
    verification: &'static dyn VerificationAlgorithm,
}

macro_rules! rsa_identifier {
    ($last:literal) => {
        &[0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, $last, 0x05, 0x00]
    };
}

macro_rules! ecdsa_identifier {
    ($last:literal) => {
        &[0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, $last]
    };
}

/// `RSASSA-PSS` with a hash, MGF1 with the same one, and a salt of the hash's length.
macro_rules! pss_identifier {
    ($hash:literal, $salt:literal) => {
        &[
            0x30, 0x41, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a, 0x30, 0x34, 0xa0,
            0x0f, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, $hash, 0x05, 0x00,
            0xa1, 0x1c, 0x30, 0x1a, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x08, 0x30,
            0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, $hash, 0x05, 0x00, 0xa2, 0x03,
            0x02, 0x01, $salt,
        ]
    };
}

/// Algorithms that sign stand before others of the same key and hash.
const ALGORITHMS: &[Algorithm] = &[
    Algorithm {
        identifier: ED25519,
        key: KeyType::Ed25519,
        hash: Hash::Identity,
        verification: &signature::ED25519,
    },
    Algorithm {
        identifier: ecdsa_identifier!(2),
        key: KeyType::P256,
        hash: Hash::Sha256,
        verification: &signature::ECDSA_P256_SHA256_ASN1,
    },
    Algorithm {
        identifier: ecdsa_identifier!(3),
        key: KeyType::P384,
        hash: Hash::Sha384,
        verification: &signature::ECDSA_P384_SHA384_ASN1,
    },
    Algorithm {
        identifier: pss_identifier!(1, 32),
        key: KeyType::Rsa,
        hash: Hash::Sha256,
        verification: &signature::RSA_PSS_2048_8192_SHA256,
    },
    Algorithm {
        identifier: pss_identifier!(2, 48),
        key: KeyType::Rsa,
        hash: Hash::Sha384,
        verification: &signature::RSA_PSS_2048_8192_SHA384,
    },
    Algorithm {
        identifier: pss_identifier!(3, 64),
        key: KeyType::Rsa,
        hash: Hash::Sha512,
        verification: &signature::RSA_PSS_2048_8192_SHA512,
    },
    Algorithm {
        identifier: rsa_identifier!(0x0b),
        key: KeyType::Rsa,
        hash: Hash::Sha256,
        verification: &signature::RSA_PKCS1_2048_8192_SHA256,
    },
    Algorithm {
        identifier: rsa_identifier!(0x0c),
        key: KeyType::Rsa,
        hash: Hash::Sha384,
        verification: &signature::RSA_PKCS1_2048_8192_SHA384,
    },
    Algorithm {
        identifier: rsa_identifier!(0x0d),
        key: KeyType::Rsa,
        hash: Hash::Sha512,
        verification: &signature::RSA_PKCS1_2048_8192_SHA512,
    },
];

enum Pair {
    Ed25519(Ed25519KeyPair),
    /// The second pair is the same key, for signatures as r and s.
    Ecdsa(KeyType, EcdsaKeyPair, EcdsaKeyPair),
    /// The second field is the same key, for signatures with SHA-1.
    Rsa(RsaKeyPair, legacy::RsaKey),
}

/// Our own private key.
pub struct SigningKey {
    pair: Pair,
    public: Vec<u8>,
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").field("type", &self.key_type()).finish_non_exhaustive()
    }
}

/// A private key that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a private key of Ed25519, ECDSA on P-256 or P-384, or RSA of 2,048 bits or more, as PKCS #8")]
pub struct KeyError;

impl SigningKey {
    /// Reads a private key, PKCS #8 in DER.
    ///
    /// # Errors
    /// Fails if the key is not of a kind that signs here.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        fn public<K: signature::KeyPair>(pair: &K) -> Result<Vec<u8>, KeyError>
        where
            K::PublicKey: aws_lc_rs::encoding::AsDer<PublicKeyX509Der<'static>>,
        {
            pair.public_key().as_der().map(|der| der.as_ref().to_vec()).map_err(|_| KeyError)
        }
        if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(der) {
            return Ok(Self { public: public(&pair)?, pair: Pair::Ed25519(pair) });
        }
        let curves = [
            (
                KeyType::P256,
                &signature::ECDSA_P256_SHA256_ASN1_SIGNING,
                &signature::ECDSA_P256_SHA256_FIXED_SIGNING,
            ),
            (
                KeyType::P384,
                &signature::ECDSA_P384_SHA384_ASN1_SIGNING,
                &signature::ECDSA_P384_SHA384_FIXED_SIGNING,
            ),
        ];
        for (key, named, fixed) in curves {
            if let (Ok(pair), Ok(fixed)) =
                (EcdsaKeyPair::from_pkcs8(named, der), EcdsaKeyPair::from_pkcs8(fixed, der))
            {
                return Ok(Self { public: public(&pair)?, pair: Pair::Ecdsa(key, pair, fixed) });
            }
        }
        let pair = RsaKeyPair::from_pkcs8(der).map_err(|_| KeyError)?;
        if pair.public_modulus_len() < 256 {
            return Err(KeyError);
        }
        let legacy = legacy::RsaKey::from_pkcs8(der).ok_or(KeyError)?;
        Ok(Self { public: public(&pair)?, pair: Pair::Rsa(pair, legacy) })
    }

    /// Returns the public key as a SubjectPublicKeyInfo in DER.
    pub fn public_key(&self) -> &[u8] {
        &self.public
    }

    fn key_type(&self) -> KeyType {
        match &self.pair {
            Pair::Ed25519(_) => KeyType::Ed25519,
            Pair::Ecdsa(key, ..) => *key,
            Pair::Rsa(..) => KeyType::Rsa,
        }
    }

    /// Signs `octets` with the best algorithm that a peer accepts whose hash algorithms are `hashes`. Returns the
    /// method and the AUTH payload's data. A peer that names no hash algorithm only knows the methods of RFC 7296;
    /// the one for RSA keys uses SHA-1.
    ///
    /// # Errors
    /// Returns `None` if the peer accepts no signature that this key makes, or only one with SHA-1 where that is not
    /// allowed.
    pub fn sign(&self, hashes: &[u16], allow_sha1: bool, octets: &[u8]) -> Option<(Method, Vec<u8>)> {
        if hashes.is_empty() {
            return match &self.pair {
                Pair::Ed25519(_) => None,
                Pair::Ecdsa(key, _, fixed) => {
                    let method = if *key == KeyType::P256 { Method::ECDSA_256 } else { Method::ECDSA_384 };
                    Some((method, fixed.sign(&SystemRandom::new(), octets).ok()?.as_ref().to_vec()))
                }
                Pair::Rsa(_, legacy) if allow_sha1 => Some((Method::RSA, legacy.sign(octets)?)),
                Pair::Rsa(..) => None,
            };
        }
        let key = self.key_type();
        let algorithm =
            ALGORITHMS.iter().find(|row| row.key == key && hashes.contains(&row.hash.number()))?;
        let signed = match &self.pair {
            Pair::Ed25519(pair) => pair.sign(octets).as_ref().to_vec(),
            Pair::Ecdsa(_, pair, _) => pair.sign(&SystemRandom::new(), octets).ok()?.as_ref().to_vec(),
            Pair::Rsa(pair, _) => {
                let padding: &'static dyn signature::RsaEncoding = match algorithm.hash {
                    Hash::Sha512 => &signature::RSA_PSS_SHA512,
                    Hash::Sha384 => &signature::RSA_PSS_SHA384,
                    Hash::Sha256 | Hash::Identity => &signature::RSA_PSS_SHA256,
                };
                let mut signed = vec![0; pair.public_modulus_len()];
                pair.sign(padding, &SystemRandom::new(), octets, &mut signed).ok()?;
                signed
            }
        };
        let length = u8::try_from(algorithm.identifier.len()).expect("identifiers have at most 67 bytes");
        Some((Method::DIGITAL_SIGNATURE, [&[length], algorithm.identifier, &signed].concat()))
    }
}

fn key_type(public_key: &[u8]) -> Option<KeyType> {
    // The algorithm follows the header of the outer sequence, whose length takes one to three bytes.
    let behind = match public_key.get(1)? {
        ..=0x7f => 2,
        0x81 => 3,
        0x82 => 4,
        _ => return None,
    };
    let rest = public_key.get(behind..)?;
    let types = [
        (ED25519, KeyType::Ed25519),
        (EC_P256, KeyType::P256),
        (EC_P384, KeyType::P384),
        (RSA, KeyType::Rsa),
    ];
    types.iter().find(|(algorithm, _)| rest.starts_with(algorithm)).map(|&(_, key)| key)
}

/// Verifies the data of an AUTH payload with the peer's public key, a SubjectPublicKeyInfo in DER.
///
/// # Errors
/// [`CryptoError::NotGenuine`]: another algorithm than the key's or than is taken here, or another signature.
pub fn verify(
    public_key: &[u8],
    method: Method,
    allow_sha1: bool,
    octets: &[u8],
    data: &[u8],
) -> Result<(), CryptoError> {
    let key = key_type(public_key).ok_or(CryptoError::NotGenuine)?;
    let (algorithm, signed): (&'static dyn VerificationAlgorithm, _) = match (method, key) {
        (Method::DIGITAL_SIGNATURE, _) => {
            let (length, rest) = data.split_first().ok_or(CryptoError::NotGenuine)?;
            let (identifier, signed) =
                rest.split_at_checked(usize::from(*length)).ok_or(CryptoError::NotGenuine)?;
            let row = ALGORITHMS.iter().find(|row| row.key == key && row.identifier == identifier);
            (row.ok_or(CryptoError::NotGenuine)?.verification, signed)
        }
        (Method::ECDSA_256, KeyType::P256) => (&signature::ECDSA_P256_SHA256_FIXED, data),
        (Method::ECDSA_384, KeyType::P384) => (&signature::ECDSA_P384_SHA384_FIXED, data),
        (Method::RSA, KeyType::Rsa) if allow_sha1 => {
            (&signature::RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, data)
        }
        _ => return Err(CryptoError::NotGenuine),
    };
    UnparsedPublicKey::new(algorithm, public_key).verify(octets, signed).map_err(|_| CryptoError::NotGenuine)
}
