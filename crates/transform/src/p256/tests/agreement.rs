//! Agreement of the tiers on random and edge operands.

use proptest::prelude::*;
use sha2::{Digest as _, Sha256};

use super::*;
use crate::p256::curve::{Affine, Projective};
use crate::p256::integer::{self, N, P, U256};

fn key_of(scalar: &U256) -> P256PrivateKey {
    P256PrivateKey::new(&integer::to_bytes(scalar)).unwrap()
}

/// Returns the order minus a small number.
fn below_order(by: u64) -> U256 {
    N.sub(&[0; 4], &[by, 0, 0, 0])
}

/// Scalars near zero and the order, around each window's edge, and of long runs.
fn edge_scalars() -> Vec<U256> {
    let mut scalars: Vec<_> = (1..=40).map(|k| [k, 0, 0, 0]).collect();
    scalars.extend((1..=40).map(below_order));
    for bit in (0..256).step_by(3) {
        let mut power = [0; 4];
        power[bit / 64] = 1 << (bit % 64);
        scalars.push(power);
        scalars.push(N.sub(&power, &[1, 0, 0, 0]));
        scalars.push(N.sub(&[0; 4], &power));
    }
    scalars.push([0x5555_5555_5555_5555; 4]);
    scalars.push([0xf7de_f7de_f7de_f7de; 4].map(|word: u64| word >> 1));
    scalars.retain(|scalar| bool::from(N.contains(scalar) & !integer::is_zero(scalar)));
    scalars
}

#[test]
fn edge_scalars_multiply_the_base_and_other_points() {
    let keys: Vec<_> = edge_scalars().iter().map(key_of).collect();
    let publics = public_keys(&keys.iter().collect::<Vec<_>>());
    let points: Vec<_> = publics.iter().map(P256PublicKey::to_bytes).collect();
    let jobs: Vec<_> =
        keys.iter().enumerate().map(|(i, key)| Ecdh { key, peer: &points[i * 7 % points.len()] }).collect();
    assert!(agree(&jobs).iter().all(Option::is_some));
}

#[test]
fn bad_peers_are_refused_in_any_way() {
    let key = key_of(&[9, 8, 7, 6]);
    let good = key.public_key().to_bytes();
    let mut bad: Vec<Vec<u8>> =
        vec![vec![], vec![0], vec![4], good[..64].to_vec(), [&good[..], &[0]].concat()];
    for tag in [0, 1, 2, 3, 5, 6, 7, 0x84] {
        bad.push([&[tag], &good[1..]].concat());
    }
    for tag in [0, 1, 4, 5, 6] {
        bad.push([&[tag], &good[1..33]].concat());
    }
    for byte in [1, 32, 33, 64] {
        let mut off = good;
        off[byte] ^= 0x10;
        bad.push(off.to_vec());
    }
    bad.push([&[4][..], &[0; 64]].concat());
    bad.push([&[4][..], &[0xff; 64]].concat());
    // Coordinates at and above the prime: the same numbers, not reduced.
    let low = (0..20).find_map(|x| Affine::decompress([x, 0, 0, 0], false)).unwrap();
    let (low_x, prime) = (integer::to_bytes(&low.x), integer::to_bytes(&P.value));
    let raised: Vec<u8> = {
        let mut carry = 0;
        let mut sum: Vec<u8> = low_x
            .iter()
            .zip(&prime)
            .rev()
            .map(|(a, b)| {
                let digit = u16::from(*a) + u16::from(*b) + carry;
                carry = digit >> 8;
                digit as u8
            })
            .collect();
        sum.reverse();
        sum
    };
    bad.push([&[4][..], &raised, &integer::to_bytes(&low.y)].concat());
    bad.push([&[2][..], &raised].concat());
    bad.push([&[2][..], &prime].concat());
    // An x without a point.
    let none = (0..20).find(|&x| Affine::decompress([x, 0, 0, 0], false).is_none());
    bad.push([&[2][..], &integer::to_bytes(&[none.unwrap(), 0, 0, 0])].concat());
    let small = compressed(&good);
    for (at, peer) in bad.iter().enumerate() {
        let mut jobs: Vec<_> = (0..8).map(|_| Ecdh { key: &key, peer: &good }).collect();
        jobs[at % 8].peer = peer;
        jobs[(at + 3) % 8].peer = &small;
        let secrets = agree(&jobs);
        for (way, secret) in secrets.iter().enumerate() {
            assert_eq!(secret.is_some(), way != at % 8, "{peer:x?}");
        }
    }
    assert!(
        agree(&[Ecdh { key: &key, peer: &[&[4][..], &low_x, &integer::to_bytes(&low.y)].concat() }])[0]
            .is_some()
    );
}

/// Returns the signature and the digest for the private key `d` with u1 = u and u2 = v, if r is not zero.
fn signature_with(d: &U256, u: &U256, v: &U256) -> Option<([u8; 64], [u8; 32])> {
    let product = |a: &U256, b: &U256| N.leave(&N.mul(&N.enter(a), &N.enter(b)));
    let k = N.add(u, &product(v, d));
    let r = N.reduce(&public_point(&k).x);
    if bool::from(integer::is_zero(&r)) {
        return None;
    }
    let s = N.leave(&N.mul(&N.enter(&r), &N.invert(&N.enter(v))));
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(&integer::to_bytes(&r));
    signature[32..].copy_from_slice(&integer::to_bytes(&s));
    Some((signature, integer::to_bytes(&product(u, &s))))
}

/// Signatures whose verification adds equal or opposite points: the sum before a window is ± what the window
/// adds.
#[test]
fn verification_survives_equal_and_opposite_points() {
    let mut cases = Vec::new();
    let keys =
        [[1, 0, 0, 0], [2, 0, 0, 0], below_order(1), below_order(2), [64, 0, 0, 0]].map(|d| (d, key_of(&d)));
    for (d, key) in &keys {
        for v in [[1, 0, 0, 0], [2, 0, 0, 0], [5, 0, 0, 0], [17, 0, 0, 0], below_order(1), below_order(5)] {
            for u in [0, 1, 2, 5, 5 + 64, 17 + 128, 59, 123, 64, 320].map(|u| [u, 0, 0, 0]) {
                for u in [u, N.sub(&[0; 4], &u)] {
                    if let Some((signature, digest)) = signature_with(d, &u, &v) {
                        cases.push((key.public_key(), digest, signature));
                    }
                }
            }
        }
    }
    let jobs: Vec<_> =
        cases.iter().map(|(key, digest, signature)| Verify { key, digest, signature }).collect();
    assert!(jobs.len() > 500);
    assert!(verify(&jobs).iter().all(|&is_valid| is_valid));
}

/// The x coordinate of R may be r + n, which is below the prime for few r only.
#[test]
fn coordinates_above_the_order_are_found() {
    // Points with an x of the order and a little: nobody knows their logarithms, but each is R for some
    // public key.
    let above = (1..60).filter_map(|i| {
        let x = P.add(&N.value, &[i, 0, 0, 0]);
        Affine::decompress(x, false).map(|point| (i, point))
    });
    let (u, v) = ([3, 1, 4, 1], [5, 9, 2, 6]);
    let mut cases = Vec::new();
    for (r, point) in above {
        let r = [r, 0, 0, 0];
        assert_eq!(N.reduce(&point.x), r);
        // Q is (R − u G) / v.
        let rest = Projective::new(&point).add(&Projective::base().multiply(&N.sub(&[0; 4], &u)));
        let public = rest.multiply(&N.leave(&N.invert(&N.enter(&v)))).affine();
        let key = P256PublicKey::of_point(Affine::new(public.x, public.y).unwrap());
        let s = N.leave(&N.mul(&N.enter(&r), &N.invert(&N.enter(&v))));
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&integer::to_bytes(&r));
        signature[32..].copy_from_slice(&integer::to_bytes(&s));
        let e = N.leave(&N.mul(&N.enter(&u), &N.enter(&s)));
        cases.push((key, integer::to_bytes(&e), signature));
    }
    assert!(cases.len() > 20);
    let jobs: Vec<_> =
        cases.iter().map(|(key, digest, signature)| Verify { key, digest, signature }).collect();
    assert!(verify(&jobs).iter().all(|&is_valid| is_valid));
}

/// A sum that is the neutral point is no signature.
#[test]
fn neutral_sums_are_refused() {
    // u1 = −u2 · d: e = −r d, for any r and s.
    let d = [77, 1, 2, 3];
    let key = key_of(&d);
    let r = [5, 5, 5, 5];
    let e = N.sub(&[0; 4], &N.leave(&N.mul(&N.enter(&r), &N.enter(&d))));
    let mut signature = [3; 64];
    signature[..32].copy_from_slice(&integer::to_bytes(&r));
    let digest = integer::to_bytes(&e);
    assert_eq!(verify(&[Verify { key: key.public_key(), digest: &digest, signature: &signature }]), [false]);
}

#[test]
fn signatures_out_of_range_are_refused_and_both_halves_of_s_taken() {
    let key = key_of(&[1, 2, 3, 4]);
    let public = key.public_key();
    let digest = Sha256::digest("a message");
    let good = sign(&[Sign { key: &key, digest: &digest, hedge: None }])[0].unwrap();
    let mut malleable = good;
    let s = integer::from_bytes(good[32..].try_into().unwrap());
    malleable[32..].copy_from_slice(&integer::to_bytes(&N.sub(&[0; 4], &s)));
    let mut wrong = Vec::new();
    for half in [0..32, 32..64] {
        for value in [[0; 32], integer::to_bytes(&N.value), integer::to_bytes(&P.value), [0xff; 32]] {
            let mut signature = good;
            signature[half.clone()].copy_from_slice(&value);
            wrong.push(signature);
        }
        for byte in [half.start, half.end - 1] {
            let mut signature = good;
            signature[byte] ^= 1;
            wrong.push(signature);
        }
    }
    for chunk in wrong.chunks(6) {
        let mut jobs = vec![Verify { key: public, digest: &digest, signature: &good }];
        jobs.extend(chunk.iter().map(|signature| Verify { key: public, digest: &digest, signature }));
        jobs.push(Verify { key: public, digest: &digest, signature: &malleable });
        let outcomes = verify(&jobs);
        assert!(outcomes[0] && outcomes[jobs.len() - 1]);
        assert!(!outcomes[1..jobs.len() - 1].contains(&true));
    }
}

#[test]
fn digests_of_any_length_from_twenty_bytes() {
    let key = key_of(&[4, 3, 2, 1]);
    let public = key.public_key();
    let bytes = [0xff; 80];
    for length in [0, 1, 19, 20, 28, 31, 32, 33, 48, 64, 80] {
        let digest = &bytes[..length];
        let signature = sign(&[Sign { key: &key, digest, hedge: None }])[0];
        assert_eq!(signature.is_some(), length >= 20, "{length}");
        let signature = signature.unwrap_or([1; 64]);
        let jobs = [Verify { key: public, digest, signature: &signature }];
        assert_eq!(verify(&jobs), [length >= 20]);
    }
    // Only the first 32 bytes count.
    let signatures = sign(&[32, 48, 64].map(|n| Sign { key: &key, digest: &bytes[..n], hedge: None }));
    assert!(signatures.iter().all(|signature| *signature == signatures[0]));
}

/// Returns RFC 6979's nonce by the words of its section 3.2, over another implementation of SHA-256.
fn nonce_by_definition(scalar: &U256, e: &U256, hedge: Option<&[u8; 32]>) -> U256 {
    let hmac = |key: &[u8; 32], parts: &[&[u8]]| -> [u8; 32] {
        let pad = |by: u8| -> Vec<u8> { (0..64).map(|i| by ^ key.get(i).copied().unwrap_or(0)).collect() };
        let inner = Sha256::digest([&pad(0x36)[..], &parts.concat()].concat());
        Sha256::digest([&pad(0x5c)[..], &inner].concat()).into()
    };
    let (x, h) = (integer::to_bytes(scalar), integer::to_bytes(e));
    let more: &[u8] = hedge.map_or(&[], |hedge| hedge);
    let (mut key, mut value) = ([0; 32], [1; 32]);
    for step in [0, 1] {
        key = hmac(&key, &[&value, &[step], &x, &h, more]);
        value = hmac(&key, &[&value]);
    }
    loop {
        value = hmac(&key, &[&value]);
        let nonce = integer::from_bytes(&value);
        if bool::from(N.contains(&nonce) & !integer::is_zero(&nonce)) {
            return nonce;
        }
        key = hmac(&key, &[&value, &[0]]);
        value = hmac(&key, &[&value]);
    }
}

fn scalar() -> impl Strategy<Value = U256> {
    let any = any::<U256>().prop_map(|value| N.reduce(&value));
    let sparse = prop::collection::vec(0..256_usize, 1..4).prop_map(|bits| {
        let mut value = [0; 4];
        bits.iter().for_each(|bit| value[bit / 64] |= 1 << (bit % 64));
        N.reduce(&value)
    });
    prop_oneof![any, sparse.clone(), sparse.prop_map(|value| N.sub(&[0; 4], &value))]
        .prop_filter("the key is not zero", |value| !bool::from(integer::is_zero(value)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Every fill of the ways, each with another key, digest and hedge; a changed way is refused alone.
    #[test]
    fn tiers_agree(
        scalars in prop::collection::vec(scalar(), 1..=8),
        digests in prop::collection::vec(prop::collection::vec(any::<u8>(), 20..70), 8),
        hedges in prop::collection::vec(prop::option::of(any::<[u8; 32]>()), 8),
        flip in (0..8_usize, 0..512_usize),
    ) {
        let keys: Vec<_> = scalars.iter().map(key_of).collect();
        let publics = public_keys(&keys.iter().collect::<Vec<_>>());
        let jobs: Vec<_> = keys
            .iter()
            .enumerate()
            .map(|(i, key)| Sign { key, digest: &digests[i], hedge: hedges[i].as_ref() })
            .collect();
        let mut signatures: Vec<_> = sign(&jobs).into_iter().map(Option::unwrap).collect();
        let way = flip.0 % keys.len();
        signatures[way][flip.1 / 8] ^= 1 << (flip.1 % 8);
        let jobs: Vec<_> = publics
            .iter()
            .enumerate()
            .map(|(i, key)| Verify { key, digest: &digests[i], signature: &signatures[i] })
            .collect();
        for (at, is_valid) in verify(&jobs).into_iter().enumerate() {
            prop_assert_eq!(is_valid, at != way);
        }
        let points: Vec<_> = publics.iter().map(P256PublicKey::to_bytes).collect();
        let small: Vec<_> = points.iter().map(compressed).collect();
        let jobs: Vec<_> = keys
            .iter()
            .enumerate()
            .map(|(i, key)| {
                let at = (i + 1) % keys.len();
                Ecdh { key, peer: if i % 2 == 0 { &points[at][..] } else { &small[at] } }
            })
            .collect();
        prop_assert!(agree(&jobs).iter().all(Option::is_some));
    }

    /// The nonces of one, and of ways, are RFC 6979's.
    #[test]
    fn nonces_follow_the_definition(
        scalars in prop::collection::vec(scalar(), 8),
        digests in prop::collection::vec(any::<U256>(), 8),
        hedges in prop::collection::vec(prop::option::of(any::<[u8; 32]>()), 8),
    ) {
        let digests: Vec<_> = digests.iter().map(|e| N.reduce(e)).collect();
        let expected: Vec<_> =
            (0..8).map(|i| nonce_by_definition(&scalars[i], &digests[i], hedges[i].as_ref())).collect();
        for i in 0..8 {
            let mut nonces = crate::p256::nonce::Nonces::new(&scalars[i], &digests[i], hedges[i].as_ref());
            prop_assert_eq!(nonces.next(), expected[i]);
        }
        #[cfg(target_arch = "x86_64")]
        if let Some(token) = token() {
            let inputs = core::array::from_fn(|i| crate::p256::nonce_ways::Input {
                scalar: &scalars[i],
                e: digests[i],
                hedge: hedges[i].as_ref(),
            });
            prop_assert_eq!(&crate::p256::nonce_ways::nonces_of(token, &inputs)[..], &expected[..]);
        }
    }
}
