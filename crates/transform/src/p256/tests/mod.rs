//! Tests of P-256 by all tiers: published vectors, and agreement on random and edge operands.

mod agreement;
#[cfg(target_arch = "x86_64")]
mod bounds;
mod vectors;

use super::curve::public_point;
use super::native::{ecdh_native, public_key_native, sign_native, verify_native};
use super::reference::{ecdh_reference, sign_reference, verify_reference};
use super::{P256PrivateKey, P256PublicKey};
#[cfg(target_arch = "x86_64")]
use crate::isa::{Avx512, Features};
#[cfg(target_arch = "x86_64")]
use crate::p256::{ecdsa_ways, ways};

/// The token, on machines that have ways.
#[cfg(target_arch = "x86_64")]
fn token() -> Option<Avx512> {
    Features::detect().avx512
}

/// An agreement to be made.
struct Ecdh<'a> {
    key: &'a P256PrivateKey,
    peer: &'a [u8],
}

/// Agrees by all tiers, up to eight jobs side by side, and returns the secret of each job, or none if it is
/// refused.
fn agree(jobs: &[Ecdh<'_>]) -> Vec<Option<[u8; 32]>> {
    let expected: Vec<_> = jobs
        .iter()
        .map(|job| {
            let mut shared = [1; 32];
            let is_valid = ecdh_reference(job.key, job.peer, &mut shared);
            let mut native = [2; 32];
            assert_eq!(ecdh_native(job.key, job.peer, &mut native), is_valid, "{:x?}", job.peer);
            assert_eq!(native, shared, "{:x?}", job.peer);
            assert!(is_valid || shared == [0; 32]);
            is_valid.then_some(shared)
        })
        .collect();
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = token() {
        for (jobs, expected) in jobs.chunks(ways::WAYS).zip(expected.chunks(ways::WAYS)) {
            let mut shared = [[3; 32]; ways::WAYS];
            let mut batch: Vec<_> = jobs
                .iter()
                .zip(&mut shared)
                .map(|(job, shared)| ways::EcdhJob { key: job.key, peer: job.peer, shared })
                .collect();
            let outcomes = ways::ecdh_ways(token, &mut batch);
            for (way, expected) in expected.iter().enumerate() {
                assert_eq!(outcomes[way].then_some(shared[way]), *expected, "{:x?}", jobs[way].peer);
                assert!(outcomes[way] || shared[way] == [0; 32]);
            }
            assert_eq!(outcomes[jobs.len()..], [false; ways::WAYS][jobs.len()..]);
        }
    }
    expected
}

/// A signature to be made.
struct Sign<'a> {
    key: &'a P256PrivateKey,
    digest: &'a [u8],
    hedge: Option<&'a [u8; 32]>,
}

/// Signs by all tiers, and returns the signatures.
fn sign(jobs: &[Sign<'_>]) -> Vec<Option<[u8; 64]>> {
    let expected: Vec<_> = jobs
        .iter()
        .map(|job| {
            let mut signature = [1; 64];
            let is_signed = sign_reference(job.key, job.digest, job.hedge, &mut signature);
            let mut native = [2; 64];
            assert_eq!(sign_native(job.key, job.digest, job.hedge, &mut native), is_signed);
            assert_eq!(native, signature);
            assert!(is_signed || signature == [0; 64]);
            is_signed.then_some(signature)
        })
        .collect();
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = token() {
        for (jobs, expected) in jobs.chunks(ways::WAYS).zip(expected.chunks(ways::WAYS)) {
            let mut signatures = [[3; 64]; ways::WAYS];
            let mut batch: Vec<_> = jobs
                .iter()
                .zip(&mut signatures)
                .enumerate()
                .map(|(way, (job, signature))| ecdsa_ways::SignJob {
                    key: job.key,
                    digest: job.digest,
                    hedge: job.hedge,
                    check: way % 3 == 1,
                    signature,
                })
                .collect();
            let outcomes = ecdsa_ways::sign_ways(token, &mut batch);
            for (way, expected) in expected.iter().enumerate() {
                assert_eq!(outcomes[way].then_some(signatures[way]), *expected, "way {way}");
                assert!(outcomes[way] || signatures[way] == [0; 64]);
            }
            assert_eq!(outcomes[jobs.len()..], [false; ways::WAYS][jobs.len()..]);
        }
    }
    expected
}

/// A signature to be verified.
struct Verify<'a> {
    key: &'a P256PublicKey,
    digest: &'a [u8],
    signature: &'a [u8; 64],
}

/// Verifies by all tiers.
fn verify(jobs: &[Verify<'_>]) -> Vec<bool> {
    let expected: Vec<_> = jobs
        .iter()
        .map(|job| {
            let is_valid = verify_reference(job.key, job.digest, job.signature);
            let native = verify_native(job.key, job.digest, job.signature);
            assert_eq!(native, is_valid, "{:x?}", job.signature);
            is_valid
        })
        .collect();
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = token() {
        for (jobs, expected) in jobs.chunks(ways::WAYS).zip(expected.chunks(ways::WAYS)) {
            let batch: Vec<_> = jobs
                .iter()
                .map(|job| ecdsa_ways::VerifyJob {
                    key: job.key,
                    digest: job.digest,
                    signature: job.signature,
                })
                .collect();
            let outcomes = ecdsa_ways::verify_ways(token, &batch);
            assert_eq!(outcomes[..jobs.len()], *expected);
            assert_eq!(outcomes[jobs.len()..], [false; ways::WAYS][jobs.len()..]);
        }
    }
    expected
}

/// Returns the public keys of private keys by all tiers.
fn public_keys(keys: &[&P256PrivateKey]) -> Vec<P256PublicKey> {
    let expected: Vec<_> =
        keys.iter().map(|key| P256PublicKey::of_point(public_point(key.scalar()))).collect();
    #[cfg(target_arch = "x86_64")]
    if let Some(token) = token() {
        for (keys, expected) in keys.chunks(ways::WAYS).zip(expected.chunks(ways::WAYS)) {
            let made = ways::public_keys_ways(token, keys);
            for (expected, made) in expected.iter().zip(&made) {
                assert_eq!(made.as_ref(), Some(expected));
            }
            assert!(made[keys.len()..].iter().all(Option::is_none));
        }
    }
    for (key, expected) in keys.iter().zip(&expected) {
        assert_eq!(public_key_native(key).as_ref(), Some(expected));
        assert_eq!(key.public_key(), expected);
    }
    expected
}

/// Returns the compressed form of a point.
fn compressed(point: &[u8; 65]) -> [u8; 33] {
    let mut bytes = [2 + (point[64] & 1); 33];
    bytes[1..].copy_from_slice(&point[1..33]);
    bytes
}
