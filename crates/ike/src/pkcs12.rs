//! PKCS #12 (RFC 7292): a user's private key and certificates in one encrypted value, as devices import them.
//!
//! Guarantees: the key is encrypted under the password, and all of it is authenticated; each value has a salt of its own.
//! The algorithms are triple DES and SHA-1, the only ones that every version
//! of Apple's systems, Windows and Android imports, so the password has to be strong: [`password`] makes one.

use aws_lc_rs::{digest, hmac};
use des::{
    TdesEde3,
    cipher::{BlockCipherEncrypt as _, KeyInit as _},
};
use zeroize::Zeroizing;

use crate::random::Random;

/// Rounds of the derivation from a password.
const ROUNDS: u16 = 10_000;
const SALT_BYTES: usize = 16;
/// Bytes of a block of SHA-1 and of its digest.
const BLOCK_BYTES: usize = 64;
const DIGEST_BYTES: usize = 20;
/// Letters of a password: those that are not mistaken for others. They are 32, so each has five bits.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
const PASSWORD_LETTERS: usize = 26;

// Tags of DER.
const INTEGER: u8 = 0x02;
const OCTETS: u8 = 0x04;
const NULL: u8 = 0x05;
const OBJECT: u8 = 0x06;
const WIDE_TEXT: u8 = 0x1e;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
/// `[0] EXPLICIT`.
const FIELD: u8 = 0xa0;

/// 1.2.840.113549.1.7.1, data.
const DATA: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 7, 1];
/// 1.2.840.113549.1.12.1.3, pbeWithSHAAnd3-KeyTripleDES-CBC.
const TRIPLE_DES: [u8; 10] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 12, 1, 3];
/// 1.2.840.113549.1.12.10.1.2, pkcs8ShroudedKeyBag.
const KEY_BAG: [u8; 11] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 12, 10, 1, 2];
/// 1.2.840.113549.1.12.10.1.3, certBag.
const CERTIFICATE_BAG: [u8; 11] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 12, 10, 1, 3];
/// 1.2.840.113549.1.9.22.1, x509Certificate.
const X509: [u8; 10] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 22, 1];
/// 1.2.840.113549.1.9.20, friendlyName.
const NAME: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 20];
/// 1.2.840.113549.1.9.21, localKeyId.
const KEY_ID: [u8; 9] = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 21];
/// 1.3.14.3.2.26, SHA-1.
const SHA1: [u8; 5] = [0x2b, 14, 3, 2, 26];

/// The purposes of what is derived from a password (RFC 7292, appendix B.3).
#[derive(Clone, Copy)]
enum Purpose {
    Key = 1,
    Iv = 2,
    Tag = 3,
}

/// Returns a password of 130 random bits.
pub fn password(random: &mut Random) -> Zeroizing<String> {
    let bytes = Zeroizing::new(random.bytes::<PASSWORD_LETTERS>());
    let letter = |byte: &u8| char::from(LETTERS[usize::from(byte % 32)]);
    Zeroizing::new(bytes.iter().map(letter).collect())
}

/// Returns a private key, PKCS #8 in DER, and certificates in DER, the key's own first, under `password`. `name` is what
/// devices show.
pub fn bundle(
    key: &[u8],
    certificates: &[Vec<u8>],
    name: &str,
    password: &str,
    random: &mut Random,
) -> Vec<u8> {
    let wide = wide(password);
    let id = certificates.first().map(|own| digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, own));
    let attributes = || {
        let name = value(WIDE_TEXT, &[&name.encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<_>>()]);
        let name = value(SEQUENCE, &[&value(OBJECT, &[&NAME]), &value(SET, &[&name])]);
        let id = value(OCTETS, &[id.as_ref().map_or(&[][..], |id| id.as_ref())]);
        let id = value(SEQUENCE, &[&value(OBJECT, &[&KEY_ID]), &value(SET, &[&id])]);
        value(SET, &[&name, &id])
    };
    let salt = random.bytes::<SALT_BYTES>();
    let encrypted = encrypt(&wide, &salt, key);
    let shrouded = value(SEQUENCE, &[&derivation(&TRIPLE_DES, &salt), &value(OCTETS, &[&encrypted])]);
    let keys = bag(&KEY_BAG, &shrouded, &attributes());
    let certificates: Vec<u8> = certificates
        .iter()
        .enumerate()
        .flat_map(|(place, certificate)| {
            let inside = value(FIELD, &[&value(OCTETS, &[certificate])]);
            let inside = value(SEQUENCE, &[&value(OBJECT, &[&X509]), &inside]);
            let attributes = if place == 0 { attributes() } else { Vec::new() };
            bag(&CERTIFICATE_BAG, &inside, &attributes)
        })
        .collect();
    let contents = [keys, certificates].map(|bags| data(&value(SEQUENCE, &[&bags])));
    let safe = value(SEQUENCE, &[&contents.concat()]);
    let salt = random.bytes::<SALT_BYTES>();
    let tag_key: Zeroizing<[u8; DIGEST_BYTES]> = derive(&wide, &salt, Purpose::Tag);
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &*tag_key), &safe);
    let algorithm = value(SEQUENCE, &[&value(OBJECT, &[&SHA1]), &value(NULL, &[])]);
    let tag = value(SEQUENCE, &[&algorithm, &value(OCTETS, &[tag.as_ref()])]);
    let tag = value(SEQUENCE, &[&tag, &value(OCTETS, &[&salt]), &value(INTEGER, &[&ROUNDS.to_be_bytes()])]);
    value(SEQUENCE, &[&value(INTEGER, &[&[3]]), &data(&safe), &tag])
}

/// Returns a value in DER whose content is that of all parts.
fn value(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = content.len().to_be_bytes();
    let zeros = length.iter().take_while(|byte| **byte == 0).count();
    let mut out = vec![tag];
    match content.len() {
        short @ 0..0x80 => out.push(short as u8),
        _ => {
            out.push(0x80 | (length.len() - zeros) as u8);
            out.extend(&length[zeros..]);
        }
    }
    out.extend(content);
    out
}

/// Returns a ContentInfo that is not encrypted.
fn data(content: &[u8]) -> Vec<u8> {
    let content = value(FIELD, &[&value(OCTETS, &[content])]);
    value(SEQUENCE, &[&value(OBJECT, &[&DATA]), &content])
}

fn bag(kind: &[u8], content: &[u8], attributes: &[u8]) -> Vec<u8> {
    value(SEQUENCE, &[&value(OBJECT, &[kind]), &value(FIELD, &[content]), attributes])
}

/// Returns an AlgorithmIdentifier with the parameters of the derivation.
fn derivation(algorithm: &[u8], salt: &[u8]) -> Vec<u8> {
    let rounds = value(INTEGER, &[&ROUNDS.to_be_bytes()]);
    let parameters = value(SEQUENCE, &[&value(OCTETS, &[salt]), &rounds]);
    value(SEQUENCE, &[&value(OBJECT, &[algorithm]), &parameters])
}

/// Returns a password as it enters the derivation (RFC 7292, appendix B.1).
fn wide(password: &str) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(password.encode_utf16().chain([0]).flat_map(u16::to_be_bytes).collect())
}

/// Returns bytes that are derived from a password (RFC 7292, appendix B.2).
fn derive<const N: usize>(wide: &[u8], salt: &[u8], purpose: Purpose) -> Zeroizing<[u8; N]> {
    let filled = |bytes: &[u8]| -> Vec<u8> {
        let most = bytes.len().div_ceil(BLOCK_BYTES) * BLOCK_BYTES;
        bytes.iter().cycle().take(most).copied().collect()
    };
    let mut input = Zeroizing::new([filled(salt), filled(wide)].concat());
    let mut derived = Zeroizing::new([0; N]);
    for part in derived.chunks_mut(DIGEST_BYTES) {
        let first = [&[purpose as u8; BLOCK_BYTES], &input[..]].concat();
        let mut round = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &Zeroizing::new(first));
        for _ in 1..ROUNDS {
            round = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, round.as_ref());
        }
        part.copy_from_slice(&round.as_ref()[..part.len()]);
        // Each block of the input grows by the digest, repeated to a block's length, and by one.
        let (blocks, _) = input.as_chunks_mut::<BLOCK_BYTES>();
        for block in blocks {
            let mut carry = 1;
            for (place, byte) in block.iter_mut().enumerate().rev() {
                let sum = u16::from(*byte) + u16::from(round.as_ref()[place % DIGEST_BYTES]) + carry;
                (*byte, carry) = (sum as u8, sum >> 8);
            }
        }
    }
    derived
}

/// Encrypts by triple DES in CBC, padded to whole blocks.
fn encrypt(wide: &[u8], salt: &[u8], clear: &[u8]) -> Vec<u8> {
    let key: Zeroizing<[u8; 24]> = derive(wide, salt, Purpose::Key);
    let mut chain: [u8; 8] = *derive(wide, salt, Purpose::Iv);
    let cipher = TdesEde3::new(&(*key).into());
    let padding = 8 - clear.len() % 8;
    let padded = Zeroizing::new([clear, &[padding as u8; 8][..padding]].concat());
    let (blocks, _) = padded.as_chunks::<8>();
    let encrypted = blocks.iter().flat_map(|block| {
        let mut mixed = std::array::from_fn(|place| block[place] ^ chain[place]).into();
        cipher.encrypt_block(&mut mixed);
        chain = mixed.into();
        chain
    });
    encrypted.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_as_short_as_possible() {
        for (bytes, head) in
            [(0, &[4, 0][..]), (127, &[4, 127]), (128, &[4, 0x81, 128]), (256, &[4, 0x82, 1, 0])]
        {
            let written = value(OCTETS, &[&vec![7; bytes]]);
            assert_eq!(written, [head, &vec![7; bytes][..]].concat());
        }
    }

    #[test]
    fn passwords_are_long_and_differ() {
        let mut random = Random::system();
        let (one, other) = (password(&mut random), password(&mut random));
        assert_eq!((one.len(), one == other), (PASSWORD_LETTERS, false));
        assert!(one.bytes().all(|letter| LETTERS.contains(&letter)));
    }
}
