//! Diffie-Hellman in three tiers: the same values and secrets, and the same refusals.
#![allow(unsafe_code)]

use proptest::prelude::*;

use super::*;
use crate::isa::{Avx512, Features};
use crate::montgomery::tests::Source;

/// Returns an exponent of reproducible bytes.
fn key(group: DhGroup, length: DhExponent, source: &mut Source) -> DhPrivateKey {
    let mut bytes: Vec<u8> =
        (0..DhPrivateKey::exponent_bytes(group, length)).map(|_| source.word() as u8).collect();
    bytes[0] &= 0x7f;
    DhPrivateKey::new(group, length, &bytes).unwrap()
}

fn alone(run: fn(&mut DhJob<'_>), key: &DhPrivateKey, peer: Option<&[u8]>) -> (DhOutcome, Vec<u8>) {
    let mut output = vec![0xaa; key.group().bytes()];
    let mut job = DhJob::new(key, peer, &mut output);
    run(&mut job);
    (job.outcome, output)
}

/// Runs operations side by side.
fn side_by_side(token: Avx512, jobs: &[(&DhPrivateKey, Option<&[u8]>)]) -> Vec<(DhOutcome, Vec<u8>)> {
    let mut outputs: Vec<_> = jobs.iter().map(|(key, _)| vec![0xaa; key.group().bytes()]).collect();
    let mut jobs: Vec<_> =
        jobs.iter().zip(&mut outputs).map(|((key, peer), output)| DhJob::new(key, *peer, output)).collect();
    #[cfg(target_arch = "x86_64")]
    ways::run(token, &mut jobs);
    // Elsewhere there is no token.
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (token, &mut jobs);
    let outcomes: Vec<_> = jobs.iter().map(|job| job.outcome).collect();
    outcomes.into_iter().zip(outputs).collect()
}

#[test]
fn all_tiers_agree_with_any_number_filled_and_both_sides_share_the_secret() {
    let source = &mut Source::new(1);
    let token = Features::detect().avx512;
    for group in DhGroup::ALL {
        for length in [DhExponent::Short, DhExponent::Full] {
            let keys: Vec<_> = (0..8).map(|_| key(group, length, source)).collect();
            let values: Vec<_> = keys.iter().map(|key| alone(library::run, key, None).1).collect();
            if length == DhExponent::Short || group == DhGroup::Modp2048 {
                assert_eq!(alone(reference::run, &keys[0], None), (DhOutcome::Done, values[0].clone()));
                let secret = alone(reference::run, &keys[0], Some(&values[1]));
                assert_eq!(secret, alone(library::run, &keys[1], Some(&values[0])), "both sides");
            }
            let Some(token) = token else { continue };
            for filled in if length == DhExponent::Short { 1..=8 } else { 8..=8 } {
                let jobs: Vec<_> = (0..2 * filled)
                    .map(|n| (&keys[n / 2], (n % 2 == 1).then_some(&*values[(n / 2 + 3) % 8])))
                    .collect();
                let wanted: Vec<_> = jobs.iter().map(|(key, peer)| alone(library::run, key, *peer)).collect();
                assert!(wanted.iter().all(|(outcome, _)| *outcome == DhOutcome::Done));
                assert_eq!(side_by_side(token, &jobs), wanted, "{group:?} {length:?} {filled}");
            }
        }
    }
}

/// Returns p + `by`, p's lowest word being all ones.
fn near(group: DhGroup, by: i64) -> Vec<u8> {
    let mut words = group.prepared().modulus.words().to_vec();
    let (low, carries) = words[0].overflowing_add_signed(by);
    (words[0], words[1]) = (low, words[1] + u64::from(carries));
    let mut out = vec![0; group.bytes()];
    to_bytes(&words, &mut out);
    out
}

#[test]
fn all_tiers_take_and_refuse_the_same_values() {
    let source = &mut Source::new(2);
    for group in DhGroup::ALL {
        let key = key(group, DhExponent::Short, source);
        let small = |value: u8| {
            let mut out = vec![0; group.bytes()];
            out[group.bytes() - 1] = value;
            out
        };
        let values = [
            (small(0), DhOutcome::BadPeer),
            (small(1), DhOutcome::BadPeer),
            (small(2), DhOutcome::Done),
            (near(group, -2), DhOutcome::Done),
            (near(group, -1), DhOutcome::BadPeer),
            (near(group, 0), DhOutcome::BadPeer),
            (near(group, 1), DhOutcome::BadPeer),
            (vec![0xff; group.bytes()], DhOutcome::BadPeer),
            (vec![0x11; group.bytes() - 1], DhOutcome::BadLength),
            (vec![0x11; group.bytes() + 1], DhOutcome::BadLength),
        ];
        let jobs: Vec<_> = values.iter().map(|(value, _)| (&key, Some(value.as_slice()))).collect();
        let wanted: Vec<_> = jobs.iter().map(|(key, peer)| alone(reference::run, key, *peer)).collect();
        for ((value, outcome), made) in values.iter().zip(&wanted) {
            assert_eq!(made.0, *outcome, "{value:x?}");
            assert_eq!(alone(library::run, &key, Some(value)), *made);
            assert!(*outcome != DhOutcome::BadPeer || made.1.iter().all(|byte| *byte == 0), "zeroed");
        }
        let Some(token) = Features::detect().avx512 else { continue };
        assert_eq!(side_by_side(token, &jobs), wanted);
    }
}

#[test]
fn a_shared_secret_of_one_is_refused() {
    let group = DhGroup::Modp2048;
    // With the order of the subgroup as exponent, every power of 2 becomes 1.
    let mut words = group.prepared().modulus.words().to_vec();
    let count = words.len();
    for n in 0..count {
        words[n] = words[n] >> 1 | words.get(n + 1).map_or(0, |next| next << 63);
    }
    let mut order = vec![0; group.bytes()];
    to_bytes(&words, &mut order);
    let key = DhPrivateKey::new(group, DhExponent::Full, &order).unwrap();
    let mut four = vec![0; group.bytes()];
    four[255] = 4;
    let wanted = (DhOutcome::BadPeer, vec![0; 256]);
    assert_eq!(alone(reference::run, &key, Some(&four)), wanted);
    assert_eq!(alone(library::run, &key, Some(&four)), wanted);
    let Some(token) = Features::detect().avx512 else { return };
    assert_eq!(side_by_side(token, &[(&key, Some(four.as_slice())); 2]), [wanted.clone(), wanted]);
}

#[test]
fn edge_exponents_and_mixed_kinds_agree_in_one_call() {
    let source = &mut Source::new(3);
    let group = DhGroup::Modp2048;
    let mut top = near(group, -2);
    let short = |bytes: &[u8]| DhPrivateKey::new(group, DhExponent::Short, bytes).unwrap();
    let full = |bytes: &[u8]| DhPrivateKey::new(group, DhExponent::Full, bytes).unwrap();
    let keys = [
        short(&[2]),
        short(&[0xff; 32]),
        short(&[1, 0, 0, 0, 0, 0, 0, 0, 0]),
        full(&[2]),
        full(&top),
        full(&[0x80; 200]),
        key(DhGroup::Modp3072, DhExponent::Short, source),
        key(DhGroup::Modp4096, DhExponent::Short, source),
    ];
    let peers: Vec<_> = keys.iter().map(|key| vec![0x5a; key.group().bytes()]).collect();
    let jobs: Vec<_> =
        keys.iter().zip(&peers).flat_map(|(key, peer)| [(key, None), (key, Some(peer.as_slice()))]).collect();
    let wanted: Vec<_> = jobs.iter().map(|(key, peer)| alone(reference::run, key, *peer)).collect();
    let native: Vec<_> = jobs.iter().map(|(key, peer)| alone(library::run, key, *peer)).collect();
    assert_eq!(native, wanted);
    if let Some(token) = Features::detect().avx512 {
        assert_eq!(side_by_side(token, &jobs), wanted);
    }
    let refused = |length, bytes: &[u8]| DhPrivateKey::new(group, length, bytes).map(|_| ()).unwrap_err();
    assert_eq!(refused(DhExponent::Short, &[]), DhKeyError::Range);
    assert_eq!(refused(DhExponent::Short, &[1]), DhKeyError::Range);
    let long = DhKeyError::Length { given_bytes: 33, max_bytes: 32 };
    assert_eq!(refused(DhExponent::Short, &[0; 33]), long);
    top[255] += 1;
    assert_eq!(refused(DhExponent::Full, &top), DhKeyError::Range, "p - 1");
    assert_eq!(refused(DhExponent::Full, &[0xff; 256]), DhKeyError::Range);
    let key = DhPrivateKey::generate(group, DhExponent::Short).unwrap();
    assert_eq!(format!("{key:?}"), "DhPrivateKey { group: Modp2048, length: Short, .. }");
}

/// Returns pi in words of 32 bits, the integer part first, by Machin's formula: 16 arctan(1/5) - 4
/// arctan(1/239).
fn pi(words: usize) -> Vec<u32> {
    fn divide(number: &mut [u32], by: u64) {
        let mut rest = 0;
        for word in number {
            let value = rest << 32 | u64::from(*word);
            *word = (value / by) as u32;
            rest = value % by;
        }
    }
    fn add(sum: &mut [u32], term: &[u32], subtracts: bool) {
        let mut carry = i64::from(0u8);
        for (sum, term) in sum.iter_mut().zip(term).rev() {
            let term = i64::from(*term);
            let value = i64::from(*sum) + carry + if subtracts { -term } else { term };
            *sum = value as u32;
            carry = value >> 32;
        }
    }
    let mut sum = vec![0; words];
    for (x, factor, subtracts) in [(5, 16, false), (239, 4, true)] {
        let mut power = vec![0; words];
        power[0] = factor;
        divide(&mut power, x);
        let mut n = 1;
        while power.iter().any(|word| *word != 0) {
            let mut term = power.clone();
            divide(&mut term, n);
            add(&mut sum, &term, subtracts != (n % 4 == 3));
            divide(&mut power, x * x);
            n += 2;
        }
    }
    sum
}

#[test]
fn primes_are_those_of_the_formula() {
    for (group, c) in DhGroup::ALL.into_iter().zip([124_476, 1_690_314, 240_904]) {
        let bits = group.bits();
        let pi = pi(bits / 32 + 2);
        assert_eq!(pi[..2], [3, 0x243f_6a88]);
        // The lowest n - 128 bits of pi's integer part and its first n - 130 bits: shift right by 30 of n -
        // 100 bits.
        let count = (bits - 128) / 32;
        let mut middle: Vec<u32> = (0..count).map(|n| pi[n] << 30 | pi[n + 1] >> 2).collect();
        let mut carry = c - 1;
        for word in middle.iter_mut().rev() {
            let sum = u64::from(*word) + carry;
            *word = sum as u32;
            carry = sum >> 32;
        }
        let ones = [u32::MAX; 2];
        let wanted: Vec<u8> =
            ones.iter().chain(&middle).chain(&ones).flat_map(|word| word.to_be_bytes()).collect();
        assert!(wanted == group.prime(), "{bits} bits");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn ways_share_what_the_library_shares(seed in any::<u64>(), filled in 1usize..=9) {
        let (Some(token), source) = (Features::detect().avx512, &mut Source::new(seed)) else { return Ok(()) };
        let keys: Vec<_> = (0..filled).map(|_| key(DhGroup::Modp2048, DhExponent::Short, source)).collect();
        let peer = |source: &mut Source| {
            let mut bytes: Vec<u8> = (0..256).map(|_| source.word() as u8).collect();
            bytes[0] &= 0x7f;
            bytes
        };
        let peers: Vec<_> = (0..filled).map(|_| peer(source)).collect();
        let jobs: Vec<_> = keys.iter().zip(&peers).map(|(key, peer)| (key, Some(peer.as_slice()))).collect();
        let wanted: Vec<_> = jobs.iter().map(|(key, peer)| alone(library::run, key, *peer)).collect();
        prop_assert_eq!(side_by_side(token, &jobs), wanted);
    }
}
