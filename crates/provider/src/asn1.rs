//! The few DER structures (X.690) that contain keys: read from AWS-LC's output, and written from OpenSSL's values.
//!
//! **Guarantee:** reading any bytes returns a value or `None`.

use crate::library::Hash;
use sealane_client::KeyKind;
use zeroize::Zeroizing;

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT: u8 = 0x06;
const SEQUENCE: u8 = 0x30;

const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01];
const PSS: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0a];
const MGF1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x08];
const EC: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const P384: &[u8] = &[0x2b, 0x81, 0x04, 0x00, 0x22];
const X25519: &[u8] = &[0x2b, 0x65, 0x6e];
const ED25519: &[u8] = &[0x2b, 0x65, 0x70];

/// Returns the tag and content of the first element, and the bytes after it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk::<2>()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x83 => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (digits.iter().fold(0, |length, digit| length << 8 | usize::from(*digit)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// Returns the content of an element with this tag, and the bytes after it.
fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    element(bytes).filter(|(found, ..)| *found == tag).map(|(_, content, rest)| (content, rest))
}

/// Returns a positive integer without its leading zeros.
fn integer(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (content, rest) = expect(bytes, INTEGER)?;
    Some((trimmed(content), rest))
}

fn trimmed(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros.min(bytes.len().saturating_sub(1))..]
}

fn put(tag: u8, parts: &[&[u8]]) -> Zeroizing<Vec<u8>> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = Zeroizing::new(Vec::with_capacity(length + 6));
    out.push(tag);
    let digits = (length as u32).to_be_bytes();
    match length {
        0..0x80 => out.push(length as u8),
        0x80..0x100 => out.extend([0x81, digits[3]]),
        0x100..0x1_0000 => out.extend([0x82, digits[2], digits[3]]),
        _ => out.extend([0x83, digits[1], digits[2], digits[3]]),
    }
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

fn put_integer(big_endian: &[u8]) -> Zeroizing<Vec<u8>> {
    let digits = trimmed(big_endian);
    let sign: &[u8] = if digits.first().is_none_or(|first| *first >= 0x80) { &[0] } else { &[] };
    put(INTEGER, &[sign, digits])
}

fn put_null() -> Vec<u8> {
    vec![5, 0]
}

/// Returns the algorithm identifier of a key.
fn algorithm(kind: KeyKind) -> Zeroizing<Vec<u8>> {
    let (algorithm, parameters) = match kind {
        KeyKind::Rsa { .. } => (RSA, put_null()),
        KeyKind::P256 => (EC, put(OBJECT, &[P256]).to_vec()),
        KeyKind::P384 => (EC, put(OBJECT, &[P384]).to_vec()),
        KeyKind::Ed25519 => (ED25519, Vec::new()),
        KeyKind::X25519 => (X25519, Vec::new()),
    };
    put(SEQUENCE, &[&put(OBJECT, &[algorithm]), &parameters])
}

/// Returns the SubjectPublicKeyInfo of a point or of 32 bytes.
pub(crate) fn public_of(kind: KeyKind, bytes: &[u8]) -> Vec<u8> {
    put(SEQUENCE, &[&algorithm(kind), &put(BIT_STRING, &[&[0], bytes])]).to_vec()
}

/// Returns the SubjectPublicKeyInfo of an RSA key.
pub(crate) fn public_of_rsa(n: &[u8], e: &[u8]) -> Vec<u8> {
    let key = put(SEQUENCE, &[&put_integer(n), &put_integer(e)]);
    public_of(KeyKind::Rsa { bits: 0 }, &key)
}

/// Returns the content of a SubjectPublicKeyInfo: a point, 32 bytes, or an RSA key's modulus and exponent.
pub(crate) fn of_public(der: &[u8]) -> Option<&[u8]> {
    let (info, _) = expect(der, SEQUENCE)?;
    let (_, rest) = expect(info, SEQUENCE)?;
    let (bits, _) = expect(rest, BIT_STRING)?;
    bits.strip_prefix(&[0])
}

/// Returns the modulus and exponent in an RSA key's SubjectPublicKeyInfo.
pub(crate) fn of_rsa_public(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (key, _) = expect(of_public(der)?, SEQUENCE)?;
    let (n, rest) = integer(key)?;
    let (e, _) = integer(rest)?;
    Some((n, e))
}

fn pkcs8(kind: KeyKind, key: &[u8]) -> Zeroizing<Vec<u8>> {
    put(SEQUENCE, &[&put_integer(&[0]), &algorithm(kind), &put(OCTET_STRING, &[key])])
}

/// Returns the PKCS#8 of an RSA key with n, e, d, p, q, d mod (p-1), d mod (q-1), q^-1 mod p.
pub(crate) fn private_of_rsa(parts: &[Zeroizing<Vec<u8>>; 8]) -> Zeroizing<Vec<u8>> {
    let mut key = put_integer(&[0]);
    for part in parts {
        key.extend_from_slice(&put_integer(part));
    }
    pkcs8(KeyKind::Rsa { bits: 0 }, &put(SEQUENCE, &[&key]))
}

/// Returns the PKCS#8 of a curve's scalar.
pub(crate) fn private_of_ec(kind: KeyKind, scalar: &[u8]) -> Zeroizing<Vec<u8>> {
    let bytes = if kind == KeyKind::P256 { 32 } else { 48 };
    let digits = trimmed(scalar);
    let zeros = vec![0; bytes - digits.len().min(bytes)];
    pkcs8(kind, &put(SEQUENCE, &[&put_integer(&[1]), &put(OCTET_STRING, &[&zeros, digits])]))
}

/// Returns the PKCS#8 of an Ed25519 or X25519 key (RFC 8410).
pub(crate) fn private_of_raw(kind: KeyKind, raw: &[u8]) -> Zeroizing<Vec<u8>> {
    pkcs8(kind, &put(OCTET_STRING, &[raw]))
}

/// Returns the key within a PKCS#8 structure.
fn of_pkcs8(der: &[u8]) -> Option<&[u8]> {
    let (info, _) = expect(der, SEQUENCE)?;
    let (_, rest) = integer(info)?;
    let (_, rest) = expect(rest, SEQUENCE)?;
    Some(expect(rest, OCTET_STRING)?.0)
}

/// Returns the eight integers of an RSA key in PKCS#8, in the order of [`private_of_rsa`].
pub(crate) fn of_rsa_private(der: &[u8]) -> Option<[Zeroizing<Vec<u8>>; 8]> {
    let (key, _) = expect(of_pkcs8(der)?, SEQUENCE)?;
    let (_, mut rest) = integer(key)?;
    let mut parts = std::array::from_fn::<_, 8, _>(|_| Zeroizing::new(Vec::new()));
    for part in &mut parts {
        let (digits, behind) = integer(rest)?;
        part.extend_from_slice(digits);
        rest = behind;
    }
    Some(parts)
}

/// Returns the scalar of a curve's key in PKCS#8.
pub(crate) fn of_ec_private(der: &[u8]) -> Option<&[u8]> {
    let (key, _) = expect(of_pkcs8(der)?, SEQUENCE)?;
    let (_, rest) = integer(key)?;
    Some(expect(rest, OCTET_STRING)?.0)
}

/// Returns the 32 bytes of an Ed25519 or X25519 key in PKCS#8.
pub(crate) fn of_raw_private(der: &[u8]) -> Option<&[u8]> {
    Some(expect(of_pkcs8(der)?, OCTET_STRING)?.0)
}

/// The object identifier 2.16.840.1.101.3.4, of NIST's algorithms.
const NIST: [u8; 7] = [0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04];

fn hash_object(hash: Hash) -> Vec<u8> {
    match hash.nist_number() {
        Some(number) => [&NIST[..], &[2, number]].concat(),
        None => vec![0x2b, 0x0e, 0x03, 0x02, 0x1a],
    }
}

/// Returns the AlgorithmIdentifier of a hash.
fn algorithm_of_hash(hash: Hash) -> Zeroizing<Vec<u8>> {
    put(SEQUENCE, &[&put(OBJECT, &[&hash_object(hash)]), &put_null()])
}

/// Returns the DigestInfo of a digest (RFC 8017, 9.2), which RSASSA-PKCS1-v1_5 pads.
pub(crate) fn digest_info(hash: Hash, digest: &[u8]) -> Vec<u8> {
    put(SEQUENCE, &[&algorithm_of_hash(hash), &put(OCTET_STRING, &[digest])]).to_vec()
}

/// Returns the AlgorithmIdentifier of sha…WithRSAEncryption (RFC 8017, A.2.4), or of
/// id-rsassa-pkcs1-v1-5-with-sha3-… (NIST).
pub(crate) fn algorithm_of_pkcs1(hash: Hash) -> Vec<u8> {
    let last = match hash.nist_number() {
        None => 5,
        Some(number @ 1..=3) => 10 + number,
        Some(4) => 14,
        Some(number @ 5..=6) => 10 + number,
        Some(number) => {
            let object = [&NIST[..], &[3, 6 + number]].concat();
            return put(SEQUENCE, &[&put(OBJECT, &[&object]), &put_null()]).to_vec();
        }
    };
    let object = [&RSA[..8], &[last]].concat();
    put(SEQUENCE, &[&put(OBJECT, &[&object]), &put_null()]).to_vec()
}

/// Returns the AlgorithmIdentifier of RSASSA-PSS (RFC 8017, A.2.3).
pub(crate) fn algorithm_of_pss(hash: Hash, mask: Hash, salt_bytes: u16) -> Vec<u8> {
    let mask = put(SEQUENCE, &[&put(OBJECT, &[MGF1]), &algorithm_of_hash(mask)]);
    let salt = put_integer(&salt_bytes.to_be_bytes());
    let parameters =
        put(SEQUENCE, &[&put(0xa0, &[&algorithm_of_hash(hash)]), &put(0xa1, &[&mask]), &put(0xa2, &[&salt])]);
    put(SEQUENCE, &[&put(OBJECT, &[PSS]), &parameters]).to_vec()
}

/// Returns the AlgorithmIdentifier of ecdsa-with-SHA… (RFC 5758), or of id-ecdsa-with-sha3-… (NIST); `None` if there is
/// none.
pub(crate) fn algorithm_of_ecdsa(hash: Hash) -> Option<Vec<u8>> {
    const ECDSA: [u8; 6] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04];
    let object = match hash.nist_number() {
        None => [&ECDSA[..], &[1]].concat(),
        Some(4) => [&ECDSA[..], &[3, 1]].concat(),
        Some(number @ 1..=3) => [&ECDSA[..], &[3, 1 + number]].concat(),
        Some(number @ 7..=10) => [&NIST[..], &[3, 2 + number]].concat(),
        Some(_) => return None,
    };
    Some(put(SEQUENCE, &[&put(OBJECT, &[&object])]).to_vec())
}

/// Returns the AlgorithmIdentifier of Ed25519 (RFC 8410).
pub(crate) fn algorithm_of_ed25519() -> Vec<u8> {
    algorithm(KeyKind::Ed25519).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_asymmetric::PrivateKey;

    #[test]
    fn keys_come_apart_and_together_again() {
        for kind in
            [KeyKind::Rsa { bits: 2048 }, KeyKind::P256, KeyKind::P384, KeyKind::Ed25519, KeyKind::X25519]
        {
            let key = PrivateKey::generate(kind).unwrap();
            let der = key.to_pkcs8().unwrap();
            let (private, public) = match kind {
                KeyKind::Rsa { .. } => {
                    let (n, e) = of_rsa_public(key.public()).unwrap();
                    (private_of_rsa(&of_rsa_private(&der).unwrap()), public_of_rsa(n, e))
                }
                KeyKind::P256 | KeyKind::P384 => {
                    let point = of_public(key.public()).unwrap();
                    (private_of_ec(kind, of_ec_private(&der).unwrap()), public_of(kind, point))
                }
                KeyKind::Ed25519 | KeyKind::X25519 => {
                    let point = of_public(key.public()).unwrap();
                    (private_of_raw(kind, of_raw_private(&der).unwrap()), public_of(kind, point))
                }
            };
            assert_eq!(public, key.public(), "{kind}");
            assert_eq!(PrivateKey::of_pkcs8(&private).unwrap().public(), key.public(), "{kind}");
            for length in 0..der.len() {
                // This only checks that there is no panic.
                let _ = (
                    of_rsa_private(&der[..length]),
                    of_ec_private(&der[..length]),
                    of_raw_private(&der[..length]),
                );
                let _ = of_rsa_public(&der[..length]);
            }
        }
    }
}
