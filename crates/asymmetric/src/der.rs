//! The few DER structures (X.690) of keys and signatures, for the forms in which other libraries' programs have them.
//!
//! **Guarantees:** reading any bytes returns a value or `None`, and copies nothing; what is written is DER, and reads back as
//! the same. Lengths and integers that are longer than they need to be are read as well.

use sealane_client::{Hash, KeyKind, MlDsaSet, PssLimits};
use zeroize::Zeroizing;

/// The tags of elements.
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
pub(crate) const OCTET_STRING: u8 = 0x04;
const NULL: u8 = 0x05;
pub(crate) const OBJECT: u8 = 0x06;
pub(crate) const SEQUENCE: u8 = 0x30;
/// `[0]`, primitive: the seed of ML-DSA (RFC 9881, 6).
pub(crate) const SEED: u8 = 0x80;

/// The object identifiers of keys' algorithms and curves: RFC 8017, RFC 5480, RFC 8410 and RFC 9881.
pub(crate) const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
pub(crate) const RSA_PSS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a];
const MGF1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x08];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
pub(crate) const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
pub(crate) const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
pub(crate) const P521: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x23];
const X25519: &[u8] = &[0x2b, 0x65, 0x6e];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];
const ML_DSA_44: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x03, 0x11];
const ML_DSA_65: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x03, 0x12];
const ML_DSA_87: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x03, 0x13];

/// Returns the object identifier's bytes of a parameter set of ML-DSA, which is that of its signatures as well.
pub(crate) const fn ml_dsa_object(set: MlDsaSet) -> &'static [u8] {
    match set {
        MlDsaSet::MlDsa44 => ML_DSA_44,
        MlDsaSet::MlDsa65 => ML_DSA_65,
        MlDsaSet::MlDsa87 => ML_DSA_87,
    }
}

/// Returns the content of the first element, which has this tag, and the bytes after it.
pub(crate) fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&[found, first], rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    rest.split_at_checked(length).filter(|_| found == tag)
}

/// Returns a positive integer without its leading zeros, and the bytes after it. An integer has at least one byte (X.690,
/// 8.3.1).
pub(crate) fn expect_integer(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (content, rest) = expect(bytes, INTEGER)?;
    (!content.is_empty()).then(|| (trimmed(content), rest))
}

fn trimmed(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros.min(bytes.len().saturating_sub(1))..]
}

/// Returns an element whose content is that of all parts, less than 16 MiB.
pub fn element(tag: u8, parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = Zeroizing::new(Vec::with_capacity(length + 5));
    out.push(tag);
    let digits = (length as u32).to_be_bytes();
    match length {
        0..0x80 => out.push(digits[3]),
        0x80..0x100 => out.extend([0x81, digits[3]]),
        0x100..0x1_0000 => out.extend([0x82, digits[2], digits[3]]),
        _ => out.extend([0x83, digits[1], digits[2], digits[3]]),
    }
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

/// Returns a SEQUENCE of elements.
pub fn sequence(elements: &[&[u8]]) -> Zeroizing<Vec<u8>> {
    element(SEQUENCE, elements)
}

/// Returns a positive INTEGER of big-endian bytes.
pub fn integer(big_endian: &[u8]) -> Zeroizing<Vec<u8>> {
    let digits = trimmed(big_endian);
    let sign: &[u8] = if digits.first().is_none_or(|first| *first >= 0x80) { &[0] } else { &[] };
    element(INTEGER, &[sign, digits])
}

/// Returns an OCTET STRING.
pub fn octet_string(content: &[u8]) -> Zeroizing<Vec<u8>> {
    element(OCTET_STRING, &[content])
}

/// Returns an AlgorithmIdentifier (RFC 5280, 4.1.1.2) of an object identifier's bytes, and the elements of its parameters.
pub fn algorithm(object: &[u8], parameters: &[u8]) -> Zeroizing<Vec<u8>> {
    sequence(&[&element(OBJECT, &[object]), parameters])
}

/// The parameters of algorithms that have none, where they must be written.
pub const NO_PARAMETERS: &[u8] = &[NULL, 0];

/// Returns the AlgorithmIdentifier of a key.
pub fn algorithm_of_key(kind: KeyKind) -> Zeroizing<Vec<u8>> {
    match kind {
        KeyKind::Rsa { .. } => algorithm(RSA, NO_PARAMETERS),
        KeyKind::RsaPss { limits, .. } => algorithm(RSA_PSS, &limits.map(pss_parameters).unwrap_or_default()),
        KeyKind::P256 => algorithm(EC, &element(OBJECT, &[P256])),
        KeyKind::P384 => algorithm(EC, &element(OBJECT, &[P384])),
        KeyKind::P521 => algorithm(EC, &element(OBJECT, &[P521])),
        KeyKind::Ed25519 => algorithm(ED25519, &[]),
        KeyKind::X25519 => algorithm(X25519, &[]),
        KeyKind::MlDsa(set) => algorithm(ml_dsa_object(set), &[]),
    }
}

/// Returns the object identifier's bytes of a hash (RFC 8017, B.1).
fn object_of_hash(hash: Hash) -> &'static [u8] {
    match hash {
        Hash::Sha1 => &[0x2b, 0x0e, 0x03, 0x02, 0x1a],
        Hash::Sha224 => &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x04],
        Hash::Sha256 => &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01],
        Hash::Sha384 => &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02],
        Hash::Sha512 => &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x03],
    }
}

/// Returns RSASSA-PSS-params (RFC 8017, A.2.3), without what is the default, as DER wants it.
fn pss_parameters(limits: PssLimits) -> Zeroizing<Vec<u8>> {
    let PssLimits { hash, mask, salt_bytes } = limits;
    let of_hash = |hash| algorithm(object_of_hash(hash), NO_PARAMETERS);
    let unless_default = |tag, is_default: bool, value: Zeroizing<Vec<u8>>| {
        if is_default { Zeroizing::default() } else { element(tag, &[&value]) }
    };
    let default = PssLimits::DEFAULT;
    sequence(&[
        &unless_default(0xa0, hash == default.hash, of_hash(hash)),
        &unless_default(0xa1, mask == default.mask, algorithm(MGF1, &of_hash(mask))),
        &unless_default(0xa2, salt_bytes == default.salt_bytes, integer(&salt_bytes.to_be_bytes())),
    ])
}

/// Returns the SubjectPublicKeyInfo (RFC 5280, 4.1.2.7) of a point or of raw bytes.
pub fn public_of(kind: KeyKind, bytes: &[u8]) -> Vec<u8> {
    sequence(&[&algorithm_of_key(kind), &element(BIT_STRING, &[&[0], bytes])]).to_vec()
}

/// Returns the SubjectPublicKeyInfo of the modulus and exponent of an RSA key, or one for RSA-PSS.
pub fn public_of_rsa(kind: KeyKind, n: &[u8], e: &[u8]) -> Vec<u8> {
    public_of(kind, &sequence(&[&integer(n), &integer(e)]))
}

/// Returns the content of a SubjectPublicKeyInfo: a point, raw bytes, or an RSA key's structure.
pub fn of_public(der: &[u8]) -> Option<&[u8]> {
    let (info, _) = expect(der, SEQUENCE)?;
    let (_, rest) = expect(info, SEQUENCE)?;
    let (bits, _) = expect(rest, BIT_STRING)?;
    bits.strip_prefix(&[0])
}

/// Returns the parameter set and the bytes of a public key of ML-DSA in a SubjectPublicKeyInfo of its length.
pub(crate) fn of_ml_dsa_public(der: &[u8]) -> Option<(MlDsaSet, &[u8])> {
    let (info, nothing) = expect(der, SEQUENCE)?;
    let (algorithm, rest) = expect(info, SEQUENCE).filter(|_| nothing.is_empty())?;
    let (object, parameters) = expect(algorithm, OBJECT)?;
    let set = MlDsaSet::ALL.into_iter().find(|set| ml_dsa_object(*set) == object)?;
    let (bits, nothing) = expect(rest, BIT_STRING)?;
    let bytes = bits.strip_prefix(&[0])?;
    let is_right = parameters.is_empty() && nothing.is_empty() && bytes.len() == set.public_bytes();
    is_right.then_some((set, bytes))
}

/// Returns the modulus and exponent in an RSA key's SubjectPublicKeyInfo, without leading zeros.
pub fn of_rsa_public(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (key, _) = expect(of_public(der)?, SEQUENCE)?;
    let (n, rest) = expect_integer(key)?;
    let (e, _) = expect_integer(rest)?;
    Some((n, e))
}

/// The parts of a certificate (RFC 5280, 4.1) by which others find it, each a whole element in DER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Certificate<'a> {
    /// The serial number.
    pub serial: &'a [u8],
    /// The name of the issuer.
    pub issuer: &'a [u8],
    /// The name of the owner.
    pub subject: &'a [u8],
    /// The SubjectPublicKeyInfo.
    pub public: &'a [u8],
}

/// Returns the first element whole, which has this tag, and the bytes after it.
fn whole(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (_, rest) = expect(bytes, tag)?;
    Some((&bytes[..bytes.len() - rest.len()], rest))
}

/// Returns the parts of bytes that look like one certificate. Its signature is not looked at.
pub fn of_certificate(der: &[u8]) -> Option<Certificate<'_>> {
    /// `[0]`, constructed: the version.
    const VERSION: u8 = 0xa0;
    let (content, nothing) = expect(der, SEQUENCE)?;
    let (content, _) = expect(content, SEQUENCE).filter(|_| nothing.is_empty())?;
    let content = expect(content, VERSION).map_or(content, |(_, rest)| rest);
    let (serial, rest) = whole(content, INTEGER)?;
    let (_algorithm, rest) = whole(rest, SEQUENCE)?;
    let (issuer, rest) = whole(rest, SEQUENCE)?;
    let (_validity, rest) = whole(rest, SEQUENCE)?;
    let (subject, rest) = whole(rest, SEQUENCE)?;
    let (public, _) = whole(rest, SEQUENCE)?;
    of_public(public)?;
    Some(Certificate { serial, issuer, subject, public })
}

fn pkcs8(kind: KeyKind, key: &[u8]) -> Zeroizing<Vec<u8>> {
    sequence(&[&integer(&[0]), &algorithm_of_key(kind), &octet_string(key)])
}

/// Returns the PKCS#8 of an RSA key, or one for RSA-PSS, with n, e, d, p, q, d mod (p-1), d mod (q-1), q^-1 mod p.
pub fn private_of_rsa(kind: KeyKind, parts: &[Zeroizing<Vec<u8>>; 8]) -> Zeroizing<Vec<u8>> {
    let mut key = integer(&[0]);
    for part in parts {
        key.extend_from_slice(&integer(part));
    }
    pkcs8(kind, &sequence(&[&key]))
}

/// Returns the PKCS#8 of an RSA key, which is one for RSA-PSS from now on.
pub(crate) fn private_for_pss(kind: KeyKind, der: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    Some(pkcs8(kind, of_pkcs8(der)?))
}

/// Returns the PKCS#8 of the scalar of a key for ECDSA.
pub fn private_of_ec(kind: KeyKind, scalar: &[u8]) -> Zeroizing<Vec<u8>> {
    let bytes = kind.coordinate_bytes().unwrap_or_default();
    let digits = trimmed(scalar);
    let zeros = vec![0; bytes - digits.len().min(bytes)];
    pkcs8(kind, &sequence(&[&integer(&[1]), &element(OCTET_STRING, &[&zeros, digits])]))
}

/// Returns the PKCS#8 of an Ed25519 or X25519 key (RFC 8410).
pub fn private_of_raw(kind: KeyKind, raw: &[u8]) -> Zeroizing<Vec<u8>> {
    pkcs8(kind, &octet_string(raw))
}

/// The private half of a key of ML-DSA: a seed, an expanded key, or both.
#[derive(Clone, Copy, Default)]
pub struct MlDsaParts<'a> {
    /// The 32 bytes from which the key was made.
    pub seed: Option<&'a [u8]>,
    /// The expanded key.
    pub expanded: Option<&'a [u8]>,
}

/// Returns the PKCS#8 of a key of ML-DSA, as RFC 9881 has it.
pub fn private_of_ml_dsa(set: MlDsaSet, parts: MlDsaParts<'_>) -> Zeroizing<Vec<u8>> {
    let key = match (parts.seed, parts.expanded) {
        (Some(seed), None) => element(SEED, &[seed]),
        (None, expanded) => octet_string(expanded.unwrap_or_default()),
        (Some(seed), Some(expanded)) => sequence(&[&octet_string(seed), &octet_string(expanded)]),
    };
    pkcs8(KeyKind::MlDsa(set), &key)
}

/// Returns the seed, or without one the expanded key, of the PKCS#8 of [`crate::PrivateKey`].
pub fn of_ml_dsa_private(der: &[u8]) -> Option<MlDsaParts<'_>> {
    let key = of_pkcs8(der)?;
    let seed = expect(key, SEED).map(|(seed, _)| seed);
    Some(MlDsaParts { seed, expanded: expect(key, OCTET_STRING).map(|(expanded, _)| expanded) })
}

/// Returns the key within a PKCS#8 structure.
fn of_pkcs8(der: &[u8]) -> Option<&[u8]> {
    let (info, _) = expect(der, SEQUENCE)?;
    let (_, rest) = expect_integer(info)?;
    let (_, rest) = expect(rest, SEQUENCE)?;
    Some(expect(rest, OCTET_STRING)?.0)
}

/// Returns the eight integers of an RSA key in PKCS#8, in the order of [`private_of_rsa`].
pub fn of_rsa_private(der: &[u8]) -> Option<[Zeroizing<Vec<u8>>; 8]> {
    let (key, _) = expect(of_pkcs8(der)?, SEQUENCE)?;
    let (_, mut rest) = expect_integer(key)?;
    let mut parts = std::array::from_fn::<_, 8, _>(|_| Zeroizing::new(Vec::new()));
    for part in &mut parts {
        let (digits, behind) = expect_integer(rest)?;
        part.extend_from_slice(digits);
        rest = behind;
    }
    Some(parts)
}

/// Returns the scalar of a curve's key in PKCS#8.
pub fn of_ec_private(der: &[u8]) -> Option<&[u8]> {
    let (key, _) = expect(of_pkcs8(der)?, SEQUENCE)?;
    let (_, rest) = expect_integer(key)?;
    let (scalar, _) = expect(rest, OCTET_STRING)?;
    (!scalar.is_empty()).then_some(scalar)
}

/// Returns the 32 bytes of an Ed25519 or X25519 key in PKCS#8.
pub fn of_raw_private(der: &[u8]) -> Option<&[u8]> {
    Some(expect(of_pkcs8(der)?, OCTET_STRING)?.0)
}

/// Returns r and s of an ECDSA-Sig-Value (RFC 3279, 2.2.3), `width_bytes`, at least one, each, as PKCS#11 has them.
pub fn of_signature(der: &[u8], width_bytes: usize) -> Option<Vec<u8>> {
    let (pair, _) = expect(der, SEQUENCE)?;
    let (r, rest) = expect_integer(pair)?;
    let (s, _) = expect_integer(rest)?;
    let mut raw = vec![0; 2 * width_bytes];
    for (half, digits) in raw.chunks_mut(width_bytes).zip([r, s]) {
        let from = width_bytes.checked_sub(digits.len())?;
        half[from..].copy_from_slice(digits);
    }
    Some(raw)
}

/// Returns the ECDSA-Sig-Value of r and s, each of which is half of the bytes.
pub fn signature_of(raw: &[u8]) -> Vec<u8> {
    let (r, s) = raw.split_at(raw.len() / 2);
    sequence(&[&integer(r), &integer(s)]).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PrivateKey;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use sealane_client::Operation;

    const RSA: KeyKind = KeyKind::Rsa { bits: 2048 };

    const KINDS: [KeyKind; 9] = [
        RSA,
        KeyKind::RsaPss { bits: 2048, limits: None },
        KeyKind::RsaPss { bits: 2048, limits: Some(PssLimits::DEFAULT) },
        KeyKind::P256,
        KeyKind::P384,
        KeyKind::P521,
        KeyKind::Ed25519,
        KeyKind::X25519,
        KeyKind::MlDsa(MlDsaSet::MlDsa44),
    ];

    /// Reads bytes as everything; what is read must read back as the same from its own form.
    fn read_all(bytes: &[u8]) {
        if let Some((n, e)) = of_rsa_public(bytes) {
            assert_eq!(of_rsa_public(&public_of_rsa(RSA, n, e)), Some((n, e)));
        }
        if let Some(point) = of_public(bytes) {
            assert_eq!(of_public(&public_of(KeyKind::P256, point)), Some(point));
        }
        if let Some(parts) = of_rsa_private(bytes) {
            assert_eq!(of_rsa_private(&private_of_rsa(RSA, &parts)), Some(parts));
        }
        if let Some(raw) = of_raw_private(bytes) {
            assert_eq!(of_raw_private(&private_of_raw(KeyKind::X25519, raw)), Some(raw));
        }
        if let Some(scalar) = of_ec_private(bytes) {
            let again = private_of_ec(KeyKind::P384, scalar);
            assert_eq!(of_ec_private(&again).map(trimmed), Some(trimmed(scalar)));
        }
        if let Some(found) = of_certificate(bytes) {
            let parts = [
                &[][..],
                found.serial,
                &sequence(&[]),
                found.issuer,
                &sequence(&[]),
                found.subject,
                found.public,
            ];
            assert_eq!(of_certificate(&sequence(&[&sequence(&parts)])), Some(found));
        }
        for width_bytes in [1, 32, 48, 66] {
            if let Some(raw) = of_signature(bytes, width_bytes) {
                assert_eq!(of_signature(&signature_of(&raw), width_bytes), Some(raw));
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_value_or_nothing(bytes in vec(any::<u8>(), 0..80)) {
            read_all(&bytes);
        }

        /// Mostly elements within elements, which random bytes hardly ever are.
        #[test]
        fn any_structure_is_a_value_or_nothing(
            contents in vec((prop_oneof![Just(2u8), Just(3), Just(4), Just(0x30)], vec(prop_oneof![Just(0u8), any::<u8>()], 0..4)), 1..12),
            depths in vec(0usize..3, 3),
        ) {
            let mut elements: Vec<u8> = contents.iter().flat_map(|(tag, content)| element(*tag, &[content]).to_vec()).collect();
            for depth in depths {
                elements = match depth {
                    0 => sequence(&[&elements]).to_vec(),
                    1 => sequence(&[&integer(&[0]), &sequence(&[]), &octet_string(&elements)]).to_vec(),
                    _ => public_of(KeyKind::Ed25519, &elements),
                };
                read_all(&elements);
            }
        }

        #[test]
        fn signatures_come_back(width in prop_oneof![Just(32usize), Just(48)], seed in vec(any::<u8>(), 96), zeros in 0usize..32) {
            let mut raw = seed[..2 * width].to_vec();
            raw[..zeros].fill(0);
            prop_assert_eq!(of_signature(&signature_of(&raw), width), Some(raw));
        }

        #[test]
        fn contents_of_any_length_come_back(length in prop_oneof![0usize..0x90, 0xf0usize..0x110, 0xff_f0usize..0x1_0010], cut in 1usize..9) {
            let content = vec![7; length];
            let der = octet_string(&content);
            prop_assert_eq!(expect(&der, OCTET_STRING), Some((&content[..], &[][..])));
            prop_assert_eq!(expect(&der[..der.len().saturating_sub(cut)], OCTET_STRING), None);
            prop_assert_eq!(expect(&der, SEQUENCE), None);
        }
    }

    #[test]
    fn keys_of_the_library_come_apart_and_together_again() {
        for kind in KINDS {
            let key = PrivateKey::generate(kind).unwrap();
            let der = key.to_pkcs8().unwrap();
            let (private, public) = match kind {
                KeyKind::Rsa { .. } | KeyKind::RsaPss { .. } => {
                    let (n, e) = of_rsa_public(key.public()).unwrap();
                    assert_eq!((n.len(), e), (256, &[1, 0, 1][..]));
                    (private_of_rsa(kind, &of_rsa_private(&der).unwrap()), public_of_rsa(kind, n, e))
                }
                KeyKind::P256 | KeyKind::P384 | KeyKind::P521 => {
                    let point = of_public(key.public()).unwrap();
                    (private_of_ec(kind, of_ec_private(&der).unwrap()), public_of(kind, point))
                }
                KeyKind::Ed25519 | KeyKind::X25519 => {
                    let point = of_public(key.public()).unwrap();
                    (private_of_raw(kind, of_raw_private(&der).unwrap()), public_of(kind, point))
                }
                KeyKind::MlDsa(set) => {
                    let parts = of_ml_dsa_private(&der).unwrap();
                    let (_, public) = of_ml_dsa_public(key.public()).unwrap();
                    (private_of_ml_dsa(set, parts), public_of(kind, public))
                }
            };
            assert_eq!(public, key.public(), "{kind}");
            assert_eq!(PrivateKey::of_pkcs8(&private).unwrap().public(), key.public(), "{kind}");
            (0..der.len()).for_each(|length| read_all(&der[..length]));
        }
    }

    #[test]
    fn signatures_of_the_library_come_apart_and_together_again() {
        for (kind, width) in [(KeyKind::P256, 32), (KeyKind::P384, 48), (KeyKind::P521, 66)] {
            let key = PrivateKey::generate(kind).unwrap();
            let signature = key.run(Operation::SignEcdsa, &[7; 32]).unwrap();
            assert_eq!(signature_of(&of_signature(&signature, width).unwrap()), *signature);
        }
    }
}
