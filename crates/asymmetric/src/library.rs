//! AWS-LC's keys in the words of the engine service.
//!
//! **Guarantee:** a key that [`unbound`] returns is of a kind that the service has, and its limits are in the kind alone.

use crate::der;
use sealane_client::{Hash, KeyKind, MlDsaSet, PssLimits};
use sealane_native::key::{self, Key, Kind};
use sealane_native::{Hash as Function, Refused};
use zeroize::Zeroizing;

/// The length of the longest expanded private key of ML-DSA in bytes (FIPS 204, table 2).
const EXPANDED_BYTES_MAX: usize = 4896;

/// Returns AWS-LC's name of a hash.
pub(crate) const fn function(hash: Hash) -> Function {
    match hash {
        Hash::Sha1 => Function::Sha1,
        Hash::Sha224 => Function::Sha224,
        Hash::Sha256 => Function::Sha256,
        Hash::Sha384 => Function::Sha384,
        Hash::Sha512 => Function::Sha512,
    }
}

/// Returns the padding of a signature by RSASSA-PKCS1-v1_5.
pub(crate) fn pkcs1(hash: Option<Hash>) -> key::Padding {
    key::Padding::Pkcs1(hash.map(function))
}

/// Returns the padding of one by RSASSA-PSS.
pub(crate) const fn pss(hash: Hash, mask: Hash, salt_bytes: Option<u16>) -> key::Padding {
    key::Padding::Pss { hash: function(hash), mask: function(mask), salt_bytes }
}

/// Returns the padding of RSAES-OAEP.
pub(crate) const fn oaep(hash: Hash, mask: Hash) -> key::Padding {
    key::Padding::Oaep { hash: function(hash), mask: function(mask) }
}

/// Makes a new key.
pub(crate) fn generate(kind: KeyKind) -> Result<Key, Refused> {
    Key::generate(match kind {
        KeyKind::Rsa { bits } | KeyKind::RsaPss { bits, .. } => Kind::Rsa { bits: bits.into() },
        KeyKind::P256 => Kind::P256,
        KeyKind::P384 => Kind::P384,
        KeyKind::P521 => Kind::P521,
        KeyKind::Ed25519 => Kind::Ed25519,
        KeyKind::X25519 => Kind::X25519,
        KeyKind::MlDsa(_) => return Err(Refused),
    })
}

/// Returns a key's kind, if the service has it.
fn kind_of(key: &Key) -> Option<KeyKind> {
    Some(match key.kind()? {
        Kind::Rsa { bits } => {
            let bits =
                u16::try_from(bits).ok().filter(|bits| (2048..=8192).contains(bits) && bits % 8 == 0)?;
            KeyKind::Rsa { bits }
        }
        Kind::P256 => KeyKind::P256,
        Kind::P384 => KeyKind::P384,
        Kind::P521 => KeyKind::P521,
        Kind::Ed25519 => KeyKind::Ed25519,
        Kind::X25519 => KeyKind::X25519,
    })
}

/// Returns a key that can do all that its numbers can, and its kind, if the service has it. The library would keep a key for
/// RSA-PSS to its limits, but does not write it.
pub(crate) fn unbound(key: Key) -> Option<(Key, KeyKind)> {
    if !key.is_rsa_pss() {
        let kind = kind_of(&key)?;
        return Some((key, kind));
    }
    let hash_of = |found| Hash::ALL.into_iter().find(|hash| function(*hash) == found);
    let limits = match key.pss_limits().ok()? {
        Some(key::PssLimits { hash, mask, salt_bytes }) => {
            Some(PssLimits { hash: hash_of(hash)?, mask: hash_of(mask)?, salt_bytes })
        }
        None => None,
    };
    let plain = key.to_unbound().ok()?;
    let bits = kind_of(&plain)?.modulus_bits()?;
    Some((plain, KeyKind::RsaPss { bits, limits }))
}

/// Returns the SubjectPublicKeyInfo of an unbound key of a kind.
pub(crate) fn to_public_of(key: &Key, kind: KeyKind) -> Option<Vec<u8>> {
    let der = key.to_public().ok()?;
    match kind {
        KeyKind::RsaPss { .. } => der::of_public(&der).map(|numbers| der::public_of(kind, numbers)),
        _ => Some(der),
    }
}

/// Returns the parameter set of a key of ML-DSA.
pub(crate) fn ml_dsa_set(key: &Key) -> Option<MlDsaSet> {
    let signature_bytes = key.is_ml_dsa().then(|| key.size())?;
    MlDsaSet::ALL.into_iter().find(|set| set.signature_bytes() == signature_bytes)
}

/// Returns the expanded private key of ML-DSA.
pub(crate) fn expanded(key: &Key) -> Result<Zeroizing<Vec<u8>>, Refused> {
    key.raw_private(EXPANDED_BYTES_MAX)
}

/// Returns the 32 bytes of a private key of P-256, Ed25519 or X25519.
pub(crate) fn raw_private(key: &Key) -> Result<Zeroizing<Vec<u8>>, Refused> {
    key.scalar(32).or_else(|_| key.raw_private(32))
}

/// Fills the slice with random bytes.
pub(crate) fn random(bytes: &mut [u8]) {
    aws_lc_rs::rand::fill(bytes).expect("without entropy the library ends the process");
}
