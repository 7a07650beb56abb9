//! The few DER structures (X.690) of public keys and signatures.
//!
//! **Guarantee:** reading any bytes returns a value or `None`.

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const SEQUENCE: u8 = 0x30;

/// Returns the content of the first element, which has this tag, and the bytes after it.
fn expect(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
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

/// Returns a positive integer without its leading zeros.
fn integer(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (content, rest) = expect(bytes, INTEGER)?;
    Some((trimmed(content), rest))
}

fn trimmed(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    &bytes[zeros.min(bytes.len().saturating_sub(1))..]
}

/// Returns an element whose content has at most 65,535 bytes.
fn element(tag: u8, content: &[u8]) -> Vec<u8> {
    let [high, low] = (content.len() as u16).to_be_bytes();
    let length: &[u8] = match content.len() {
        0..0x80 => &[low],
        0x80..0x100 => &[0x81, low],
        _ => &[0x82, high, low],
    };
    [&[tag], length, content].concat()
}

/// Returns an OCTET STRING, such as the one that is around the point of `CKA_EC_POINT`.
pub(crate) fn octet_string(content: &[u8]) -> Vec<u8> {
    element(OCTET_STRING, content)
}

/// Returns the content of a SubjectPublicKeyInfo (RFC 5280, 4.1.2.7): a point, 32 bytes, or an RSA key's structure.
pub(crate) fn of_public(der: &[u8]) -> Option<&[u8]> {
    let (info, _) = expect(der, SEQUENCE)?;
    let (_, rest) = expect(info, SEQUENCE)?;
    let (bits, _) = expect(rest, BIT_STRING)?;
    bits.strip_prefix(&[0])
}

/// Returns modulus and exponent of an RSAPublicKey (RFC 8017, A.1.1), without leading zeros.
pub(crate) fn of_rsa_public(content: &[u8]) -> Option<(&[u8], &[u8])> {
    let (key, _) = expect(content, SEQUENCE)?;
    let (modulus, rest) = integer(key)?;
    let (exponent, _) = integer(rest)?;
    Some((modulus, exponent))
}

/// Returns an ECDSA-Sig-Value (RFC 3279, 2.2.3) as PKCS#11 has it: r and s, `width_bytes` each.
pub(crate) fn to_pair(der: &[u8], width_bytes: usize) -> Option<Vec<u8>> {
    let (pair, _) = expect(der, SEQUENCE)?;
    let (r, rest) = integer(pair)?;
    let (s, _) = integer(rest)?;
    let mut raw = vec![0; 2 * width_bytes];
    for (half, digits) in raw.chunks_mut(width_bytes).zip([r, s]) {
        let from = width_bytes.checked_sub(digits.len())?;
        half[from..].copy_from_slice(digits);
    }
    Some(raw)
}

/// Returns the ECDSA-Sig-Value of r and s, each of which is half of the bytes.
pub(crate) fn of_pair(raw: &[u8]) -> Vec<u8> {
    let put = |half: &[u8]| {
        let digits = trimmed(half);
        let sign: &[u8] = if digits.first().is_none_or(|first| *first >= 0x80) { &[0] } else { &[] };
        element(INTEGER, &[sign, digits].concat())
    };
    let (r, s) = raw.split_at(raw.len() / 2);
    element(SEQUENCE, &[put(r), put(s)].concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use sealane_asymmetric::PrivateKey;
    use sealane_client::{KeyKind, Operation};

    proptest! {
        #[test]
        fn any_bytes_are_a_value_or_nothing(bytes in vec(any::<u8>(), 0..80)) {
            let _ = (of_public(&bytes), of_rsa_public(&bytes), to_pair(&bytes, 32));
            let _ = of_pair(&bytes);
        }

        #[test]
        fn signatures_come_back(width in prop_oneof![Just(32usize), Just(48)], seed in vec(any::<u8>(), 96), zeros in 0usize..32) {
            let mut raw = seed[..2 * width].to_vec();
            raw[..zeros].fill(0);
            prop_assert_eq!(to_pair(&of_pair(&raw), width), Some(raw));
        }
    }

    #[test]
    fn keys_and_signatures_of_the_library_are_read() {
        let rsa = PrivateKey::generate(KeyKind::Rsa { bits: 2048 }).unwrap();
        let (modulus, exponent) = of_public(rsa.public()).and_then(of_rsa_public).unwrap();
        assert_eq!((modulus.len(), exponent), (256, &[1, 0, 1][..]));
        for (kind, width) in [(KeyKind::P256, 32), (KeyKind::P384, 48)] {
            let key = PrivateKey::generate(kind).unwrap();
            assert_eq!(of_public(key.public()).unwrap().len(), 1 + 2 * width);
            let signature = key.run(Operation::SignEcdsa, &[7; 32]).unwrap();
            assert_eq!(of_pair(&to_pair(&signature, width).unwrap()), *signature);
        }
        assert_eq!(octet_string(&[1, 2]), [4, 2, 1, 2]);
    }
}
