//! Verifications with prepared keys, of one signature or of many: ML-DSA.Verify_internal, algorithm 8.
//!
//! Everything is public. The hashes of the commitments run side by side.

use arrayvec::ArrayVec;

use super::Verifying;
use super::arithmetic::Poly;
use super::challenges::challenges;
use super::coding::{pack, unpack_hints};
use super::ints::UNPACK_SLACK;
use super::machine::{HASH_BYTES, Machine, STREAMS_MAX};
use super::parameters::{L_MAX, MU_BYTES, Parameters, Q};
use crate::keccak::{SHAKE256, alone};

/// Returns mu and the packed w1 that a signature of the right length, its challenge and the key give; none if the
/// signature is malformed or its z too large.
fn commitment<M: Machine>(machine: M, p: &Parameters, job: &Verifying<'_>, c: &Poly) -> Option<Vec<u8>> {
    let (_, rest) = job.signature.split_at(p.challenge_bytes);
    let (_, hints) = rest.split_at(p.l * p.z_bytes());
    let mut vector = [Poly::ZERO; L_MAX + 1];
    for (n, z) in vector[..p.l].iter_mut().enumerate() {
        machine.unpack_z(&rest[n * p.z_bytes()..], p.gamma1_bits, z);
        if !machine.is_below(z, (p.gamma1() - p.beta()).cast_signed()) {
            return None;
        }
        machine.transform(z);
    }
    if !unpack_hints(p, hints, |_, _| {}) {
        return None;
    }
    vector[p.l] = *c;
    let key = job.key.prepared(machine);
    let mut message = vec![0; MU_BYTES + p.k * p.w1_bytes()];
    let (mu, packed) = message.split_at_mut(MU_BYTES);
    mu.copy_from_slice(&job.mu);
    let top = ((Q - 1) / (2 * p.gamma2)).cast_signed();
    let rows = key.matrix.chunks_exact(p.l + 1);
    for (r, (row, bytes)) in rows.zip(packed.chunks_exact_mut(p.w1_bytes())).enumerate() {
        let (mut low, mut high) = (Poly::ZERO, Poly::ZERO);
        // The matrix times z, less c t1 2^d.
        machine.multiply_row(row, &vector[..=p.l], &mut low);
        machine.inverse(&mut low);
        machine.decompose(p.gamma2, &mut low, &mut high);
        // UseHint, algorithm 40.
        unpack_hints(p, hints, |i, j| {
            if i == r {
                let change = if low.0[j] > 0 { 1 } else { top - 1 };
                high.0[j] = (high.0[j] + change) % top;
            }
        });
        pack(&high, p.w1_bits(), None, bytes);
    }
    Some(message)
}

/// Verifies signatures with keys of one set; returns which are valid.
pub(crate) fn verify<M: Machine>(machine: M, jobs: &[Verifying<'_>]) -> Vec<bool> {
    let mut valid = Vec::with_capacity(jobs.len());
    for jobs in jobs.chunks(M::STREAMS) {
        let p = jobs[0].key.set().parameters();
        let mut hashes = [[0; HASH_BYTES]; STREAMS_MAX];
        let has_length = |job: &&Verifying<'_>| job.signature.len() == p.signature_bytes();
        let given: ArrayVec<&[u8], STREAMS_MAX> =
            jobs.iter().filter(has_length).map(|job| &job.signature[..p.challenge_bytes]).collect();
        let challenges = challenges(machine, p, &given);
        let mut challenges = challenges.iter();
        let made = jobs.iter().map(|job| {
            let c = Some(job).filter(has_length).and_then(|_| challenges.next())?;
            commitment(machine, p, job, c)
        });
        let made: Vec<Option<Vec<u8>>> = made.collect();
        let messages: ArrayVec<&[u8], STREAMS_MAX> = made.iter().flatten().map(Vec::as_slice).collect();
        match messages[..] {
            [] => {}
            [one] => hashes[0] = alone::hash(SHAKE256, &[one]),
            _ => machine.hash(SHAKE256, &messages, &mut hashes),
        }
        let mut hashes = hashes.iter();
        valid.extend(jobs.iter().zip(&made).map(|(job, made)| {
            let hash = made.as_ref().and_then(|_| hashes.next());
            hash.is_some_and(|hash| hash[..p.challenge_bytes] == job.signature[..p.challenge_bytes])
        }));
    }
    valid
}

// Behind z, a signature has its hints, of at least 55 + 6 bytes.
const _: () = assert!(UNPACK_SLACK <= 55 + 6);
