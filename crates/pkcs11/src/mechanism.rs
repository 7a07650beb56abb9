//! Mechanisms, and their parameters as values.
//!
//! **Guarantee:** a [`Mechanism`] is one that the service or AWS-LC computes; any other, and any parameters that are not
//! a mechanism's, are refused.

use crate::refused::Refused;
use cryptoki_sys as c;
use sealane_client::key::CONTEXT_BYTES_MAX;
use sealane_client::{Hash, KeyKind, MlDsaSet, Operation};
use std::mem::{offset_of, size_of};

/// The algorithm of a mechanism, without the hash of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// PKCS#1 v1.5: RSASSA (RFC 8017, 8.2), or RSAES (RFC 8017, 7.2) to decrypt.
    Pkcs1,
    /// RSASSA-PSS (RFC 8017, 8.1).
    Pss { hash: Hash, mask: Hash, salt_bytes: u16 },
    /// RSAES-OAEP (RFC 8017, 7.1) with an empty label.
    Oaep { hash: Hash, mask: Hash },
    /// ECDSA (FIPS 186-5); signatures are r and s.
    Ecdsa,
    /// Ed25519 (RFC 8032).
    Eddsa,
    /// ML-DSA (FIPS 204) of messages.
    MlDsa { is_deterministic: bool, context: Vec<u8> },
}

/// A mechanism with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mechanism {
    pub(crate) scheme: Scheme,
    /// The hash of the message; `None` if the data are signed as they are.
    pub(crate) hash: Option<Hash>,
}

/// The groups of mechanisms with the same form of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Pkcs1,
    Pss,
    Oaep,
    Ecdsa,
    Eddsa,
    MlDsa,
}

/// All mechanisms: their numbers, their families, and the hashes of messages.
const ALL: [(c::CK_MECHANISM_TYPE, Family, Option<Hash>); 21] = [
    (c::CKM_RSA_PKCS, Family::Pkcs1, None),
    (c::CKM_SHA1_RSA_PKCS, Family::Pkcs1, Some(Hash::Sha1)),
    (c::CKM_SHA224_RSA_PKCS, Family::Pkcs1, Some(Hash::Sha224)),
    (c::CKM_SHA256_RSA_PKCS, Family::Pkcs1, Some(Hash::Sha256)),
    (c::CKM_SHA384_RSA_PKCS, Family::Pkcs1, Some(Hash::Sha384)),
    (c::CKM_SHA512_RSA_PKCS, Family::Pkcs1, Some(Hash::Sha512)),
    (c::CKM_RSA_PKCS_PSS, Family::Pss, None),
    (c::CKM_SHA1_RSA_PKCS_PSS, Family::Pss, Some(Hash::Sha1)),
    (c::CKM_SHA224_RSA_PKCS_PSS, Family::Pss, Some(Hash::Sha224)),
    (c::CKM_SHA256_RSA_PKCS_PSS, Family::Pss, Some(Hash::Sha256)),
    (c::CKM_SHA384_RSA_PKCS_PSS, Family::Pss, Some(Hash::Sha384)),
    (c::CKM_SHA512_RSA_PKCS_PSS, Family::Pss, Some(Hash::Sha512)),
    (c::CKM_RSA_PKCS_OAEP, Family::Oaep, None),
    (c::CKM_ECDSA, Family::Ecdsa, None),
    (c::CKM_ECDSA_SHA1, Family::Ecdsa, Some(Hash::Sha1)),
    (c::CKM_ECDSA_SHA224, Family::Ecdsa, Some(Hash::Sha224)),
    (c::CKM_ECDSA_SHA256, Family::Ecdsa, Some(Hash::Sha256)),
    (c::CKM_ECDSA_SHA384, Family::Ecdsa, Some(Hash::Sha384)),
    (c::CKM_ECDSA_SHA512, Family::Ecdsa, Some(Hash::Sha512)),
    (c::CKM_EDDSA, Family::Eddsa, None),
    (c::CKM_ML_DSA, Family::MlDsa, None),
];

/// The mechanisms without signatures and ciphertexts: their numbers, the sizes of their keys, and their uses.
const OTHERS: [(c::CK_MECHANISM_TYPE, (c::CK_ULONG, c::CK_ULONG), c::CK_FLAGS); 6] = [
    (c::CKM_ECDH1_DERIVE, (255, EC_BITS.1), c::CKF_DERIVE | CURVE),
    (c::CKM_RSA_PKCS_KEY_PAIR_GEN, RSA_BITS, c::CKF_GENERATE_KEY_PAIR),
    (c::CKM_EC_KEY_PAIR_GEN, EC_BITS, c::CKF_GENERATE_KEY_PAIR | CURVE),
    (c::CKM_EC_EDWARDS_KEY_PAIR_GEN, ED25519_BITS, c::CKF_GENERATE_KEY_PAIR),
    (c::CKM_EC_MONTGOMERY_KEY_PAIR_GEN, ED25519_BITS, c::CKF_GENERATE_KEY_PAIR),
    (c::CKM_ML_DSA_KEY_PAIR_GEN, ML_DSA_BYTES, c::CKF_GENERATE_KEY_PAIR),
];

const CURVE: c::CK_FLAGS = c::CKF_EC_F_P | c::CKF_EC_NAMEDCURVE | c::CKF_EC_UNCOMPRESS;

/// The maximum length of parameters in bytes; longer ones are no mechanism's.
pub(crate) const PARAMETER_BYTES_MAX: usize = 64;

/// The smallest and the largest key of a family, in bits, as in [`KeyKind`].
const RSA_BITS: (c::CK_ULONG, c::CK_ULONG) = (2048, 8192);
const EC_BITS: (c::CK_ULONG, c::CK_ULONG) = (256, 521);
const ED25519_BITS: (c::CK_ULONG, c::CK_ULONG) = (255, 255);

/// The lengths of ML-DSA's public keys in bytes.
const ML_DSA_BYTES: (c::CK_ULONG, c::CK_ULONG) =
    (MlDsaSet::MlDsa44.public_bytes() as c::CK_ULONG, MlDsaSet::MlDsa87.public_bytes() as c::CK_ULONG);

/// Returns the numbers of all mechanisms.
pub(crate) fn all() -> Vec<c::CK_MECHANISM_TYPE> {
    ALL.iter().map(|(number, ..)| *number).chain(OTHERS.map(|(number, ..)| number)).collect()
}

/// Returns the numbers of the mechanisms for keys of a kind.
pub(crate) fn of_kind(kind: KeyKind) -> impl Iterator<Item = c::CK_MECHANISM_TYPE> {
    let derive = derives(kind).then_some(c::CKM_ECDH1_DERIVE);
    ALL.iter()
        .filter(move |(_, family, hash)| family.suits(kind) && is_allowed(kind, *hash))
        .map(|(number, ..)| *number)
        .chain(derive)
}

/// Returns whether a key for RSA-PSS with limits may sign messages of a hash; other keys have no such limits.
fn is_allowed(kind: KeyKind, of_message: Option<Hash>) -> bool {
    match (kind, of_message) {
        (KeyKind::RsaPss { limits: Some(limits), .. }, Some(hash)) => limits.hash == hash,
        _ => true,
    }
}

/// Returns whether keys of a kind agree on secrets.
pub(crate) fn derives(kind: KeyKind) -> bool {
    Operation::Derive.suits(kind)
}

/// Returns the sizes of keys, and the uses, of a mechanism.
///
/// # Errors
/// Fails if the number is not a mechanism's.
pub(crate) fn info(number: c::CK_MECHANISM_TYPE) -> Result<c::CK_MECHANISM_INFO, Refused> {
    if let Some((_, bits, flags)) = OTHERS.into_iter().find(|(known, ..)| *known == number) {
        return Ok(c::CK_MECHANISM_INFO { ulMinKeySize: bits.0, ulMaxKeySize: bits.1, flags });
    }
    let (_, family, hash) = row(number)?;
    let signs = c::CKF_SIGN | c::CKF_VERIFY;
    let curve = signs | CURVE;
    let (bits, flags) = match (family, hash) {
        (Family::Pkcs1, None) => (RSA_BITS, signs | c::CKF_DECRYPT),
        (Family::Pkcs1 | Family::Pss, _) => (RSA_BITS, signs),
        (Family::Oaep, _) => (RSA_BITS, c::CKF_DECRYPT),
        (Family::Ecdsa, _) => (EC_BITS, curve),
        (Family::Eddsa, _) => (ED25519_BITS, signs),
        (Family::MlDsa, _) => (ML_DSA_BYTES, signs),
    };
    Ok(c::CK_MECHANISM_INFO { ulMinKeySize: bits.0, ulMaxKeySize: bits.1, flags })
}

fn row(number: c::CK_MECHANISM_TYPE) -> Result<(c::CK_MECHANISM_TYPE, Family, Option<Hash>), Refused> {
    ALL.into_iter().find(|(known, ..)| *known == number).ok_or(Refused(c::CKR_MECHANISM_INVALID))
}

impl Family {
    fn suits(self, kind: KeyKind) -> bool {
        match self {
            Self::Pkcs1 | Self::Oaep => matches!(kind, KeyKind::Rsa { .. }),
            Self::Pss => kind.modulus_bits().is_some(),
            Self::Ecdsa => kind.coordinate_bytes().is_some(),
            Self::Eddsa => kind == KeyKind::Ed25519,
            Self::MlDsa => matches!(kind, KeyKind::MlDsa(_)),
        }
    }
}

impl Scheme {
    fn family(&self) -> Family {
        match self {
            Self::Pkcs1 => Family::Pkcs1,
            Self::Pss { .. } => Family::Pss,
            Self::Oaep { .. } => Family::Oaep,
            Self::Ecdsa => Family::Ecdsa,
            Self::Eddsa => Family::Eddsa,
            Self::MlDsa { .. } => Family::MlDsa,
        }
    }
}

impl Mechanism {
    /// Reads a mechanism: its number, and the bytes of the structure of its parameters.
    ///
    /// # Errors
    /// Fails if there is no such mechanism, or if the parameters are not its own.
    pub(crate) fn of(number: c::CK_MECHANISM_TYPE, parameter: &[u8]) -> Result<Self, Refused> {
        let (_, family, hash) = row(number)?;
        let scheme = match family {
            Family::Pkcs1 if parameter.is_empty() => Some(Scheme::Pkcs1),
            Family::Ecdsa if parameter.is_empty() => Some(Scheme::Ecdsa),
            Family::Pkcs1 | Family::Ecdsa => None,
            Family::Pss => pss(parameter, hash),
            Family::Oaep => oaep(parameter),
            Family::Eddsa => is_pure_eddsa(parameter).then_some(Scheme::Eddsa),
            Family::MlDsa => ml_dsa(parameter),
        };
        let scheme = scheme.ok_or(Refused(c::CKR_MECHANISM_PARAM_INVALID))?;
        Ok(Self { scheme, hash })
    }

    /// Returns it for messages in a context, which only ML-DSA's have.
    ///
    /// # Errors
    /// Fails if the context is longer than 255 bytes, or if there is one and the mechanism takes none.
    pub(crate) fn in_context(mut self, bytes: &[u8]) -> Result<Self, Refused> {
        match &mut self.scheme {
            Scheme::MlDsa { context, .. } if bytes.len() <= CONTEXT_BYTES_MAX => *context = bytes.to_vec(),
            _ if bytes.is_empty() => {}
            _ => return Err(Refused(c::CKR_MECHANISM_PARAM_INVALID)),
        }
        Ok(self)
    }

    pub(crate) fn suits(&self, kind: KeyKind) -> bool {
        match &self.scheme {
            Scheme::Pss { hash, mask, salt_bytes } => {
                let (hash, mask, salt_bytes) = (*hash, *mask, *salt_bytes);
                Operation::SignPss { hash, mask, salt_bytes }.suits(kind)
            }
            scheme => scheme.family().suits(kind),
        }
    }
}

/// Returns the number at an offset in bytes.
fn number_at(parameter: &[u8], at: usize) -> Option<c::CK_ULONG> {
    let (digits, _) = parameter.get(at..)?.split_first_chunk()?;
    Some(c::CK_ULONG::from_ne_bytes(*digits))
}

fn hash_of(number: c::CK_MECHANISM_TYPE) -> Option<Hash> {
    match number {
        c::CKM_SHA_1 => Some(Hash::Sha1),
        c::CKM_SHA224 => Some(Hash::Sha224),
        c::CKM_SHA256 => Some(Hash::Sha256),
        c::CKM_SHA384 => Some(Hash::Sha384),
        c::CKM_SHA512 => Some(Hash::Sha512),
        _ => None,
    }
}

fn mask_of(number: c::CK_RSA_PKCS_MGF_TYPE) -> Option<Hash> {
    match number {
        c::CKG_MGF1_SHA1 => Some(Hash::Sha1),
        c::CKG_MGF1_SHA224 => Some(Hash::Sha224),
        c::CKG_MGF1_SHA256 => Some(Hash::Sha256),
        c::CKG_MGF1_SHA384 => Some(Hash::Sha384),
        c::CKG_MGF1_SHA512 => Some(Hash::Sha512),
        _ => None,
    }
}

/// Reads `CK_RSA_PKCS_PSS_PARAMS`, which name the hash of the message again.
fn pss(parameter: &[u8], of_message: Option<Hash>) -> Option<Scheme> {
    type Layout = c::CK_RSA_PKCS_PSS_PARAMS;
    if parameter.len() != size_of::<Layout>() {
        return None;
    }
    let hash = hash_of(number_at(parameter, offset_of!(Layout, hashAlg))?)?;
    let mask = mask_of(number_at(parameter, offset_of!(Layout, mgf))?)?;
    let salt_bytes = u16::try_from(number_at(parameter, offset_of!(Layout, sLen))?).ok()?;
    of_message.is_none_or(|named| named == hash).then_some(Scheme::Pss { hash, mask, salt_bytes })
}

/// Reads `CK_RSA_PKCS_OAEP_PARAMS`, whose label must be empty.
fn oaep(parameter: &[u8]) -> Option<Scheme> {
    type Layout = c::CK_RSA_PKCS_OAEP_PARAMS;
    if parameter.len() != size_of::<Layout>() {
        return None;
    }
    let hash = hash_of(number_at(parameter, offset_of!(Layout, hashAlg))?)?;
    let mask = mask_of(number_at(parameter, offset_of!(Layout, mgf))?)?;
    let source = number_at(parameter, offset_of!(Layout, source))?;
    let label_bytes = number_at(parameter, offset_of!(Layout, ulSourceDataLen))?;
    // No source at all is how some programs say that there is no label.
    let is_empty = [0, c::CKZ_DATA_SPECIFIED].contains(&source) && label_bytes == 0;
    is_empty.then_some(Scheme::Oaep { hash, mask })
}

/// Reads `CK_SIGN_ADDITIONAL_CONTEXT`, which may be missing, without the bytes of its context.
fn ml_dsa(parameter: &[u8]) -> Option<Scheme> {
    type Layout = c::CK_SIGN_ADDITIONAL_CONTEXT;
    let hedge = match parameter.len() {
        0 => c::CKH_HEDGE_PREFERRED,
        length if length == size_of::<Layout>() => number_at(parameter, offset_of!(Layout, hedgeVariant))?,
        _ => return None,
    };
    let is_deterministic = match hedge {
        c::CKH_HEDGE_PREFERRED | c::CKH_HEDGE_REQUIRED => false,
        c::CKH_DETERMINISTIC_REQUIRED => true,
        _ => return None,
    };
    Some(Scheme::MlDsa { is_deterministic, context: Vec::new() })
}

/// Returns whether the parameters, which may be missing, are those of Ed25519 itself: no hash before, and no context.
fn is_pure_eddsa(parameter: &[u8]) -> bool {
    type Layout = c::CK_EDDSA_PARAMS;
    let context_bytes = number_at(parameter, offset_of!(Layout, ulContextDataLen));
    parameter.is_empty()
        || parameter.len() == size_of::<Layout>()
            && parameter[offset_of!(Layout, phFlag)] == c::CK_FALSE
            && context_bytes == Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use sealane_client::PssLimits;

    fn bytes(numbers: &[c::CK_ULONG]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    #[test]
    fn parameters_are_read() {
        let parameter = bytes(&[c::CKM_SHA256, c::CKG_MGF1_SHA1, 20]);
        let scheme = Scheme::Pss { hash: Hash::Sha256, mask: Hash::Sha1, salt_bytes: 20 };
        let bare = Mechanism { scheme: scheme.clone(), hash: None };
        assert_eq!(Mechanism::of(c::CKM_RSA_PKCS_PSS, &parameter), Ok(bare));
        let whole = Mechanism { scheme, hash: Some(Hash::Sha256) };
        assert_eq!(Mechanism::of(c::CKM_SHA256_RSA_PKCS_PSS, &parameter), Ok(whole));
        let wrong = Err(Refused(c::CKR_MECHANISM_PARAM_INVALID));
        assert_eq!(Mechanism::of(c::CKM_SHA512_RSA_PKCS_PSS, &parameter), wrong);
        assert_eq!(Mechanism::of(c::CKM_RSA_PKCS, &parameter), wrong);
        assert_eq!(Mechanism::of(c::CKM_RSA_PKCS_PSS, &[]), wrong);
        let labelled = bytes(&[c::CKM_SHA_1, c::CKG_MGF1_SHA1, c::CKZ_DATA_SPECIFIED, 8, 3]);
        assert_eq!(Mechanism::of(c::CKM_RSA_PKCS_OAEP, &labelled), wrong);
        let plain = bytes(&[c::CKM_SHA_1, c::CKG_MGF1_SHA1, c::CKZ_DATA_SPECIFIED, 0, 0]);
        let scheme = Scheme::Oaep { hash: Hash::Sha1, mask: Hash::Sha1 };
        assert_eq!(Mechanism::of(c::CKM_RSA_PKCS_OAEP, &plain), Ok(Mechanism { scheme, hash: None }));
        assert!(Mechanism::of(c::CKM_EDDSA, &bytes(&[0, 0, 0])).is_ok());
        assert_eq!(Mechanism::of(c::CKM_EDDSA, &bytes(&[1, 0, 0])), wrong);
        assert_eq!(Mechanism::of(c::CKM_EDDSA, &bytes(&[0, 1, 0])), wrong);
        let ml_dsa = |hedge| Mechanism::of(c::CKM_ML_DSA, &bytes(&[hedge, 0, 0]));
        for (hedge, is_deterministic) in [(0, false), (1, false), (2, true)] {
            let scheme = Scheme::MlDsa { is_deterministic, context: Vec::new() };
            assert_eq!(ml_dsa(hedge), Ok(Mechanism { scheme, hash: None }));
        }
        assert_eq!(ml_dsa(3), wrong);
        assert_eq!(Mechanism::of(c::CKM_ML_DSA, &bytes(&[0, 0])), wrong);
        let plain = Mechanism::of(c::CKM_ML_DSA, &[]).unwrap();
        assert!(plain.clone().in_context(&[7; 255]).is_ok());
        assert_eq!(plain.in_context(&[7; 256]), wrong);
        assert_eq!(Mechanism::of(c::CKM_EDDSA, &[]).unwrap().in_context(b"text"), wrong);
        assert_eq!(Mechanism::of(c::CKM_MD5_RSA_PKCS, &[]), Err(Refused(c::CKR_MECHANISM_INVALID)));
    }

    #[test]
    fn a_key_for_pss_alone_has_the_mechanisms_of_its_limits() {
        let limits = PssLimits { hash: Hash::Sha256, mask: Hash::Sha256, salt_bytes: 32 };
        let (free, bound) =
            ([None, Some(limits)].map(|limits| KeyKind::RsaPss { bits: 2048, limits })).into();
        let of = |kind| of_kind(kind).collect::<Vec<_>>();
        assert_eq!(of(bound), [c::CKM_RSA_PKCS_PSS, c::CKM_SHA256_RSA_PKCS_PSS]);
        assert!(of(free).contains(&c::CKM_SHA512_RSA_PKCS_PSS) && !of(free).contains(&c::CKM_RSA_PKCS));
        for (salt_bytes, is_allowed) in [(32, true), (31, false)] {
            let parameter = bytes(&[c::CKM_SHA256, c::CKG_MGF1_SHA256, salt_bytes]);
            let mechanism = Mechanism::of(c::CKM_RSA_PKCS_PSS, &parameter).unwrap();
            assert_eq!((mechanism.suits(free), mechanism.suits(bound)), (true, is_allowed));
        }
        let plain = Mechanism::of(c::CKM_RSA_PKCS, &[]).unwrap();
        assert!(!plain.suits(free) && !plain.suits(bound));
    }

    proptest! {
        #[test]
        fn any_parameters_are_read_or_refused(place in 0..ALL.len(), parameter in vec(any::<u8>(), 0..PARAMETER_BYTES_MAX)) {
            let _ = Mechanism::of(ALL[place].0, &parameter);
            prop_assert!(info(ALL[place].0).is_ok());
        }
    }
}
