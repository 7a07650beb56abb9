//! The forms in which people have private keys, as far as AWS-LC does not read them, and the names of those that nobody here reads.
//!
//! **Guarantees:** any bytes are a key's PKCS#8, a name of what they hold, or nothing; nothing is read beyond the bytes, and what is
//! copied of a private key is zeroed.

use crate::der::{self, expect, expect_integer};
use sealane_client::KeyKind;
use sealane_client::key::of_pem;
use zeroize::Zeroizing;

/// The result of a look at some bytes.
#[derive(Debug)]
pub enum Found {
    /// A key, as PKCS#8 in DER.
    Pkcs8(Zeroizing<Vec<u8>>),
    /// A key of a kind that is not supported, or in a form that is not read.
    Unsupported(String),
}

/// The labels of PEM under which there are private keys that are not encrypted, or that say themselves how.
const LABELS: [&str; 5] =
    ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "DSA PRIVATE KEY"];

/// Names of algorithms and curves that are not supported, by their object identifiers' bytes.
const UNSUPPORTED: [(&[u8], &str); 10] = [
    (&[0x2b, 0x65, 0x71], "an Ed448 key"),
    (&[0x2b, 0x65, 0x6f], "an X448 key"),
    (&[0x2a, 0x86, 0x48, 0xce, 0x38, 0x04, 0x01], "a DSA key"),
    (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x03, 0x01], "a Diffie-Hellman key"),
    (&[0x2b, 0x81, 0x04, 0x00, 0x0a], "a key of the curve secp256k1"),
    (&[0x2b, 0x81, 0x04, 0x00, 0x21], "a key of the curve P-224"),
    (&[0x2b, 0x24, 0x03, 0x03, 0x02, 0x08, 0x01, 0x01, 0x07], "a key of the curve brainpoolP256r1"),
    (&[0x2b, 0x24, 0x03, 0x03, 0x02, 0x08, 0x01, 0x01, 0x0b], "a key of the curve brainpoolP384r1"),
    (&[0x2b, 0x24, 0x03, 0x03, 0x02, 0x08, 0x01, 0x01, 0x0d], "a key of the curve brainpoolP512r1"),
    (&[0x2a, 0x81, 0x1c, 0xcf, 0x55, 0x01, 0x82, 0x2d], "a key of the curve SM2"),
];

/// Looks what some bytes hold: PEM or DER of PKCS#8, PKCS#1 or SEC 1, or OpenSSH's own format.
pub fn look(bytes: &[u8]) -> Option<Found> {
    if let Ok(text) = std::str::from_utf8(bytes)
        && text.contains("-----BEGIN ")
    {
        return LABELS.iter().find_map(|label| look_at(&of_pem(label, text)?));
    }
    look_at(bytes)
}

fn look_at(bytes: &[u8]) -> Option<Found> {
    match bytes.strip_prefix(b"openssh-key-v1\0") {
        Some(rest) => of_openssh(rest),
        None => of_der(bytes),
    }
}

fn unsupported(found: &str) -> Option<Found> {
    Some(Found::Unsupported(found.to_owned()))
}

/// Returns the name of an algorithm or curve that is not supported.
fn name_of(object: &[u8]) -> Option<Found> {
    let known = UNSUPPORTED.iter().find(|(known, _)| *known == object);
    known.and_then(|(_, name)| unsupported(name))
}

/// Says that a modulus has a length that is not supported.
fn check_modulus(n: &[u8]) -> Option<Found> {
    let zeros = n.first().map_or(0, |first| first.leading_zeros() as usize);
    let bits = (8 * n.len()).saturating_sub(zeros);
    let is_right = (2048..=8192).contains(&bits) && bits.is_multiple_of(8);
    if is_right { None } else { unsupported(&format!("an RSA key of {bits} bits")) }
}

fn of_der(bytes: &[u8]) -> Option<Found> {
    let (content, _) = expect(bytes, der::SEQUENCE)?;
    let (version, rest) = expect_integer(content)?;
    // SEC 1: version 1, the scalar, the curve.
    if version == [1]
        && let Some((scalar, rest)) = expect(rest, der::OCTET_STRING)
    {
        let (curve, _) = expect(rest, CURVE)?;
        let (object, _) = expect(curve, der::OBJECT)?;
        return of_scalar(object, scalar);
    }
    // PKCS#8: version 0 or 1, the algorithm with its parameters, the key.
    if let Some((algorithm, rest)) = expect(rest, der::SEQUENCE) {
        let (object, parameters) = expect(algorithm, der::OBJECT)?;
        let curve = expect(parameters, der::OBJECT).map(|(curve, _)| curve);
        let known = name_of(object).or_else(|| name_of(curve?));
        if known.is_some() || ![der::RSA, der::RSA_PSS].contains(&object) {
            return known;
        }
        let (key, _) = expect(rest, der::OCTET_STRING)?;
        let (key, _) = expect(key, der::SEQUENCE)?;
        let (_, rest) = expect_integer(key)?;
        let unusual = || if object == der::RSA_PSS { unsupported(UNUSUAL_PSS) } else { None };
        return check_modulus(expect_integer(rest)?.0).or_else(unusual);
    }
    // PKCS#1: version 0 and eight integers. DSA has five.
    let mut parts = std::array::from_fn::<_, 8, _>(|_| Zeroizing::new(Vec::new()));
    let mut rest = rest;
    for (at, part) in parts.iter_mut().enumerate() {
        let Some((digits, behind)) = expect_integer(rest) else {
            return if at == 5 && rest.is_empty() { unsupported("a DSA key") } else { None };
        };
        part.extend_from_slice(digits);
        rest = behind;
    }
    check_modulus(&parts[0]).or_else(|| Some(Found::Pkcs8(der::private_of_rsa(RSA, &parts))))
}

/// The kind of a plain RSA key, whose length its numbers tell.
const RSA: KeyKind = KeyKind::Rsa { bits: 0 };

/// The name of what AWS-LC has not read although its length is usual.
const UNUSUAL_PSS: &str =
    "a key for RSA-PSS with other parameters than SHA-1 or SHA-2 for messages and mask, and a salt that fits";

/// `[0]`, constructed: the curve in SEC 1.
const CURVE: u8 = 0xa0;

fn of_scalar(object: &[u8], scalar: &[u8]) -> Option<Found> {
    let kind = match object {
        der::P256 => KeyKind::P256,
        der::P384 => KeyKind::P384,
        der::P521 => KeyKind::P521,
        other => return name_of(other),
    };
    (!scalar.is_empty()).then(|| Found::Pkcs8(der::private_of_ec(kind, scalar)))
}

/// Takes a string of OpenSSH's (RFC 4251, 5) from the front.
fn string<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, behind) = rest.split_first_chunk::<4>()?;
    let (content, behind) = behind.split_at_checked(u32::from_be_bytes(*length) as usize)?;
    *rest = behind;
    Some(content)
}

/// Reads what follows the magic word of OpenSSH's format (its PROTOCOL.key).
fn of_openssh(bytes: &[u8]) -> Option<Found> {
    let mut rest = bytes;
    let cipher = string(&mut rest)?;
    let (_function, _options) = (string(&mut rest)?, string(&mut rest)?);
    if cipher != b"none" {
        return unsupported(
            "a key with a passphrase in OpenSSH's format (`ssh-keygen -p -m PKCS8 -f FILE` rewrites it)",
        );
    }
    let (count, behind) = rest.split_first_chunk::<4>()?;
    if *count != [0, 0, 0, 1] {
        return None;
    }
    rest = behind;
    let (_public, mut rest) = (string(&mut rest)?, string(&mut rest)?);
    let (checks, behind) = rest.split_first_chunk::<8>()?;
    if checks[..4] != checks[4..] {
        return None;
    }
    rest = behind;
    match string(&mut rest)? {
        b"ssh-ed25519" => {
            let (_public, both) = (string(&mut rest)?, string(&mut rest)?);
            let seed = both.get(..32).filter(|_| both.len() == 64)?;
            Some(Found::Pkcs8(der::private_of_raw(KeyKind::Ed25519, seed)))
        }
        kind @ (b"ecdsa-sha2-nistp256" | b"ecdsa-sha2-nistp384" | b"ecdsa-sha2-nistp521") => {
            let (_curve, _point, scalar) = (string(&mut rest)?, string(&mut rest)?, string(&mut rest)?);
            let curve = match kind.last() {
                Some(b'6') => der::P256,
                Some(b'4') => der::P384,
                _ => der::P521,
            };
            of_scalar(curve, scalar)
        }
        b"ssh-dss" => unsupported("a DSA key"),
        // It lacks two of the eight integers.
        b"ssh-rsa" => {
            unsupported("an RSA key in OpenSSH's format (`ssh-keygen -p -m PKCS8 -f FILE` rewrites it)")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PrivateKey;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use sealane_client::key::pem;

    fn length(bytes: &[u8]) -> [u8; 4] {
        (bytes.len() as u32).to_be_bytes()
    }

    /// Writes OpenSSH's format with these strings after the kind.
    fn openssh(cipher: &str, kind: &str, parts: &[&[u8]]) -> Vec<u8> {
        let strings = |parts: &[&[u8]]| -> Vec<u8> {
            parts.iter().flat_map(|part| [&length(part), *part].concat()).collect()
        };
        let private = [&[7; 8][..], &strings(&[kind.as_bytes()]), &strings(parts)].concat();
        let head = strings(&[cipher.as_bytes(), b"none", b""]);
        [&b"openssh-key-v1\0"[..], &head, &[0, 0, 0, 1], &strings(&[b"public", &private])].concat()
    }

    fn unsupported(bytes: &[u8]) -> String {
        match look(bytes) {
            Some(Found::Unsupported(name)) => name,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn every_form_of_a_key_is_the_same_key() {
        for kind in [KeyKind::P256, KeyKind::P384, KeyKind::P521, KeyKind::Ed25519] {
            let key = PrivateKey::generate(kind).unwrap();
            let pkcs8 = key.to_pkcs8().unwrap();
            let (bytes, label) = match kind {
                KeyKind::Ed25519 => {
                    let seed = der::of_raw_private(&pkcs8).unwrap();
                    let both = [seed, &[0; 32]].concat();
                    (openssh("none", "ssh-ed25519", &[&[0; 32], &both]), "OPENSSH PRIVATE KEY")
                }
                KeyKind::P256 => {
                    let scalar = der::of_ec_private(&pkcs8).unwrap();
                    let curve = der::element(CURVE, &[&der::element(der::OBJECT, &[der::P256])]);
                    let sec1 = der::sequence(&[&der::integer(&[1]), &der::octet_string(scalar), &curve]);
                    (sec1.to_vec(), "EC PRIVATE KEY")
                }
                _ => {
                    let scalar = der::of_ec_private(&pkcs8).unwrap();
                    let curve = if kind == KeyKind::P384 { "nistp384" } else { "nistp521" };
                    let parts: [&[u8]; 3] = [curve.as_bytes(), b"point", scalar];
                    (openssh("none", &format!("ecdsa-sha2-{curve}"), &parts), "OPENSSH PRIVATE KEY")
                }
            };
            for bytes in [bytes.clone(), pem(label, &bytes).into_bytes()] {
                let found = PrivateKey::import(&bytes, None).unwrap();
                assert_eq!(found.public(), key.public(), "{kind}");
            }
        }
    }

    #[test]
    fn an_unsupported_key_has_a_name() {
        let rsa = |bits: usize| {
            let n = [&[0x80][..], &vec![1; bits / 8 - 1]].concat();
            der::public_of_rsa(RSA, &n, &[1, 0, 1])
        };
        let (n, e) = (rsa(1024), [1, 0, 1]);
        let n = der::of_rsa_public(&n).unwrap().0;
        let parts = [n, &e, &[1], &[1], &[1], &[1], &[1], &[1]].map(|part| Zeroizing::new(part.to_vec()));
        assert_eq!(unsupported(&der::private_of_rsa(RSA, &parts)), "an RSA key of 1024 bits");
        for (object, name) in UNSUPPORTED {
            let algorithm = der::algorithm(object, &[]);
            let pkcs8 = der::sequence(&[&der::integer(&[0]), &algorithm, &der::octet_string(&[1])]);
            assert_eq!(unsupported(&pkcs8), name);
            assert_eq!(unsupported(pem("PRIVATE KEY", &pkcs8).as_bytes()), name);
        }
        let encrypted = openssh("aes256-ctr", "ssh-ed25519", &[]);
        assert!(unsupported(&encrypted).contains("with a passphrase"));
        assert!(unsupported(&openssh("none", "ssh-rsa", &[])).contains("ssh-keygen"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in vec(any::<u8>(), 0..400), prefix in 0usize..3) {
            let _ = look(&bytes);
            let prefix: &[u8] = [&b""[..], b"openssh-key-v1\0", b"0\x82\x01\x10\x02\x01\0"][prefix];
            let _ = look(&[prefix, &bytes].concat());
        }
    }
}
