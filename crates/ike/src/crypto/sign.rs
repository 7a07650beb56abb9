//! Signatures of AUTH payloads: those of RFC 7427, with ML-DSA (draft-ietf-ipsecme-ikev2-pqc-auth) where that is allowed, and
//! the older methods of RFC 7296 and RFC 4754 for clients without RFC 7427.
//!
//! Guarantees: a signature is verified with the algorithm that its identifier names, byte for byte; SHA-1 is verified
//! only where that was allowed, and used for signing only if the other end accepts nothing else; an end that announces methods
//! (RFC 9593) gets none that it has not announced.

use aws_lc_rs::{
    encoding::{AsDer as _, PublicKeyX509Der},
    rand::SystemRandom,
    signature::{
        self, EcdsaKeyPair, Ed25519KeyPair, PqdsaKeyPair, RsaKeyPair, UnparsedPublicKey,
        VerificationAlgorithm,
    },
};

use super::{CryptoError, legacy};
use crate::wire::Announcement;
use sealane_transform::debug_only;

/// A hash algorithm of a SIGNATURE_HASH_ALGORITHMS notification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hash {
    /// SHA2-256.
    Sha256,
    /// SHA2-384.
    Sha384,
    /// SHA2-512.
    Sha512,
    /// The message itself, as Ed25519 takes it (RFC 8420), and ML-DSA.
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
    MlDsa44,
    MlDsa65,
    MlDsa87,
}

impl KeyType {
    const fn is_ml_dsa(self) -> bool {
        matches!(self, Self::MlDsa44 | Self::MlDsa65 | Self::MlDsa87)
    }
}

/// The signatures that are made and verified beside those that always are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// RSA with SHA-1, for peers without RFC 7427.
    pub sha1: bool,
    /// ML-DSA, of which the standard for IKE is a draft.
    pub ml_dsa: bool,
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

macro_rules! ml_dsa_identifier {
    ($last:literal) => {
        &[0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x03, $last]
    };
}

/// `id-ml-dsa-44` and the others (RFC 9881), which are those of signatures as well.
const ML_DSA_44: &[u8] = ml_dsa_identifier!(0x11);
const ML_DSA_65: &[u8] = ml_dsa_identifier!(0x12);
const ML_DSA_87: &[u8] = ml_dsa_identifier!(0x13);

/// One algorithm of RFC 7427: its identifier (appendix A), and the algorithms that sign and verify it.
struct Algorithm {
    identifier: &'static [u8],
    key: KeyType,
    hash: Hash,
    verification: &'static dyn VerificationAlgorithm,
}

impl Algorithm {
    const fn new(
        identifier: &'static [u8],
        key: KeyType,
        hash: Hash,
        verification: &'static dyn VerificationAlgorithm,
    ) -> Self {
        Self { identifier, key, hash, verification }
    }
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
    Algorithm::new(ED25519, KeyType::Ed25519, Hash::Identity, &signature::ED25519),
    Algorithm::new(ecdsa_identifier!(2), KeyType::P256, Hash::Sha256, &signature::ECDSA_P256_SHA256_ASN1),
    Algorithm::new(ecdsa_identifier!(3), KeyType::P384, Hash::Sha384, &signature::ECDSA_P384_SHA384_ASN1),
    Algorithm::new(pss_identifier!(1, 32), KeyType::Rsa, Hash::Sha256, &signature::RSA_PSS_2048_8192_SHA256),
    Algorithm::new(pss_identifier!(2, 48), KeyType::Rsa, Hash::Sha384, &signature::RSA_PSS_2048_8192_SHA384),
    Algorithm::new(pss_identifier!(3, 64), KeyType::Rsa, Hash::Sha512, &signature::RSA_PSS_2048_8192_SHA512),
    Algorithm::new(rsa_identifier!(0x0b), KeyType::Rsa, Hash::Sha256, &signature::RSA_PKCS1_2048_8192_SHA256),
    Algorithm::new(rsa_identifier!(0x0c), KeyType::Rsa, Hash::Sha384, &signature::RSA_PKCS1_2048_8192_SHA384),
    Algorithm::new(rsa_identifier!(0x0d), KeyType::Rsa, Hash::Sha512, &signature::RSA_PKCS1_2048_8192_SHA512),
    Algorithm::new(ML_DSA_44, KeyType::MlDsa44, Hash::Identity, &signature::ML_DSA_44),
    Algorithm::new(ML_DSA_65, KeyType::MlDsa65, Hash::Identity, &signature::ML_DSA_65),
    Algorithm::new(ML_DSA_87, KeyType::MlDsa87, Hash::Identity, &signature::ML_DSA_87),
];

/// Returns what an end announces that verifies signatures (RFC 9593).
pub fn announcements(allowed: Allowed) -> Vec<Announcement> {
    let rows = ALGORITHMS.iter().filter(|row| allowed.ml_dsa || !row.key.is_ml_dsa());
    let named = rows.map(|row| (Method::DIGITAL_SIGNATURE, row.identifier.to_vec()));
    let mut older = vec![Method::ECDSA_256, Method::ECDSA_384];
    if allowed.sha1 {
        older.push(Method::RSA);
    }
    let older = older.into_iter().map(|method| (method, Vec::new()));
    named.chain(older).map(|(method, identifier)| Announcement { method: method.0, identifier }).collect()
}

enum Pair {
    Ed25519(Ed25519KeyPair),
    /// The second pair is the same key, for signatures as r and s.
    Ecdsa(KeyType, EcdsaKeyPair, EcdsaKeyPair),
    /// The second field is the same key, for signatures with SHA-1.
    Rsa(RsaKeyPair, legacy::RsaKey),
    MlDsa(KeyType, PqdsaKeyPair),
}

/// Our own private key.
pub struct SigningKey {
    pair: Pair,
    public: Vec<u8>,
}

debug_only!(self: SigningKey { type: self.key_type() });

/// A private key that cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a private key of Ed25519, ECDSA on P-256 or P-384, RSA of 2,048 bits or more, or ML-DSA, as PKCS #8"
)]
pub struct KeyError;

/// The reason why a key makes no signature for a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoSignature {
    /// The key is of ML-DSA, which is not allowed.
    #[error("our key is of ML-DSA, which is a draft for IKE: `ml-dsa = true` beside `listen` allows it")]
    MlDsa,
    /// The peer has not announced the algorithm.
    #[error("the peer announces no method that our key can use")]
    NotAnnounced,
    /// The peer does not take the algorithm, or the library refuses.
    #[error(
        "the peer takes no signature that our key makes: one of RFC 7427, or of an RSA key with SHA-1 where that is allowed"
    )]
    NotTaken,
}

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
        let sets = [
            (KeyType::MlDsa44, &signature::ML_DSA_44_SIGNING),
            (KeyType::MlDsa65, &signature::ML_DSA_65_SIGNING),
            (KeyType::MlDsa87, &signature::ML_DSA_87_SIGNING),
        ];
        for (key, set) in sets {
            if let Ok(pair) = PqdsaKeyPair::from_pkcs8(set, der) {
                return Ok(Self { public: public(&pair)?, pair: Pair::MlDsa(key, pair) });
            }
        }
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
            Pair::MlDsa(key, _) => *key,
        }
    }

    /// Signs `octets` with the best algorithm that a peer accepts whose hash algorithms are `hashes`, and which has announced
    /// these methods. Returns the method and the AUTH payload's data. A peer that names no hash algorithm only knows the
    /// methods of RFC 7296; the one for RSA keys uses SHA-1.
    ///
    /// # Errors
    /// Fails if the peer accepts no signature that this key makes, or only one that is not allowed.
    pub fn sign(
        &self,
        hashes: &[u16],
        announced: Option<&[Announcement]>,
        allowed: Allowed,
        octets: &[u8],
    ) -> Result<(Method, Vec<u8>), NoSignature> {
        let key = self.key_type();
        if key.is_ml_dsa() && !allowed.ml_dsa {
            return Err(NoSignature::MlDsa);
        }
        // An announcement without an algorithm stands for all.
        let is_announced = |method: Method, identifier: &[u8]| {
            announced.is_none_or(|all| {
                let mut of_method = all.iter().filter(|one| one.method == method.0);
                of_method.any(|one| one.identifier.is_empty() || one.identifier == identifier)
            })
        };
        let failed = |_| NoSignature::NotTaken;
        if hashes.is_empty() {
            let (method, data) = match &self.pair {
                Pair::Ed25519(_) | Pair::MlDsa(..) => return Err(NoSignature::NotTaken),
                Pair::Ecdsa(key, _, fixed) => {
                    let method = if *key == KeyType::P256 { Method::ECDSA_256 } else { Method::ECDSA_384 };
                    (method, fixed.sign(&SystemRandom::new(), octets).map_err(failed)?.as_ref().to_vec())
                }
                Pair::Rsa(_, legacy) if allowed.sha1 => {
                    (Method::RSA, legacy.sign(octets).ok_or(NoSignature::NotTaken)?)
                }
                Pair::Rsa(..) => return Err(NoSignature::NotTaken),
            };
            return if is_announced(method, &[]) {
                Ok((method, data))
            } else {
                Err(NoSignature::NotAnnounced)
            };
        }
        let mut taken =
            ALGORITHMS.iter().filter(|row| row.key == key && hashes.contains(&row.hash.number())).peekable();
        if taken.peek().is_none() {
            return Err(NoSignature::NotTaken);
        }
        let algorithm = taken
            .find(|row| is_announced(Method::DIGITAL_SIGNATURE, row.identifier))
            .ok_or(NoSignature::NotAnnounced)?;
        let signed = match &self.pair {
            Pair::Ed25519(pair) => pair.sign(octets).as_ref().to_vec(),
            Pair::Ecdsa(_, pair, _) => {
                pair.sign(&SystemRandom::new(), octets).map_err(failed)?.as_ref().to_vec()
            }
            Pair::Rsa(pair, _) => {
                let padding = algorithm.rsa_encoding();
                let mut signed = vec![0; pair.public_modulus_len()];
                pair.sign(padding, &SystemRandom::new(), octets, &mut signed).map_err(failed)?;
                signed
            }
            Pair::MlDsa(_, pair) => {
                let mut signed = vec![0; pair.algorithm().signature_len()];
                let length = pair.sign(octets, &mut signed).map_err(failed)?;
                signed.truncate(length);
                signed
            }
        };
        let length = u8::try_from(algorithm.identifier.len()).expect("identifiers have at most 67 bytes");
        Ok((Method::DIGITAL_SIGNATURE, [&[length], algorithm.identifier, &signed].concat()))
    }
}

impl Algorithm {
    /// Returns the encoding of a signature by RSA: PKCS#1 v1.5 only for a peer that announces nothing else.
    fn rsa_encoding(&self) -> &'static dyn signature::RsaEncoding {
        let is_pss = self.identifier.len() > RSA.len();
        match (self.hash, is_pss) {
            (Hash::Sha512, true) => &signature::RSA_PSS_SHA512,
            (Hash::Sha384, true) => &signature::RSA_PSS_SHA384,
            (Hash::Sha256 | Hash::Identity, true) => &signature::RSA_PSS_SHA256,
            (Hash::Sha512, false) => &signature::RSA_PKCS1_SHA512,
            (Hash::Sha384, false) => &signature::RSA_PKCS1_SHA384,
            (Hash::Sha256 | Hash::Identity, false) => &signature::RSA_PKCS1_SHA256,
        }
    }
}

/// Returns whether a public key, a SubjectPublicKeyInfo in DER, is of ML-DSA.
pub fn is_ml_dsa(public_key: &[u8]) -> bool {
    key_type(public_key).is_some_and(KeyType::is_ml_dsa)
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
        (ML_DSA_44, KeyType::MlDsa44),
        (ML_DSA_65, KeyType::MlDsa65),
        (ML_DSA_87, KeyType::MlDsa87),
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
    allowed: Allowed,
    octets: &[u8],
    data: &[u8],
) -> Result<(), CryptoError> {
    let key = key_type(public_key).ok_or(CryptoError::NotGenuine)?;
    if key.is_ml_dsa() && !allowed.ml_dsa {
        return Err(CryptoError::NotGenuine);
    }
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
        (Method::RSA, KeyType::Rsa) if allowed.sha1 => {
            (&signature::RSA_PKCS1_2048_8192_SHA1_FOR_LEGACY_USE_ONLY, data)
        }
        _ => return Err(CryptoError::NotGenuine),
    };
    UnparsedPublicKey::new(algorithm, public_key).verify(octets, signed).map_err(|_| CryptoError::NotGenuine)
}
