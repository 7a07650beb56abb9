//! Up to eight operations of one parameter set with different keys, their Keccak streams side by side.
//!
//! A decapsulation of ML-KEM-768 needs 44 permutations: 27 for the matrix, 7 for the noise, 1 for G and 9 for J (AWS-LC
//! runs 9 more, to check the key again). Streams of the matrices and of the noise fill the ways one after the other,
//! whichever operations they belong to; G, H and J take a way an operation. With AVX-512 eight decapsulations have a
//! floor of 44 x 1140 / 8 = 6270 cycles each for Keccak, and some 4000 for ten transforms and the sampling of nine
//! polynomials. Measured on Zen 4, cycles a decapsulation: 16 400 with eight ways filled, 42 400 with one, and 58 500
//! by AWS-LC.
//!
//! A key pair that keeps its matrix ([`Generate::matrix`]) saves the 27 permutations when it decapsulates.
//!
//! Every batch of a size runs the same instructions whatever its keys and ciphertexts hold, except for the sampling of
//! matrices, whose seeds are public. Everything secret in this module's memory is wiped before it returns.

use zeroize::Zeroize as _;

use super::arithmetic::{Noise, SAMPLE_SLACK, Sampled, Seed};
use super::machine::Machine;
use super::parameters::{CIPHERTEXT_BYTES_MAX, ETA2, N, Parameters, SEED_BYTES};
use super::{Decapsulate, Encapsulate, Generate, Secret, public_parts};
use crate::keccak::streams::{HASH_BYTES, HEAD_BYTES, ROW_BYTES, STREAMS_MAX};
use crate::keccak::{SHA3_256, SHA3_512, SHAKE128, SHAKE256, Sponge};
use crate::wipe::wipe;

/// Operations of a pass.
const WAYS: usize = 8;

/// Polynomials of noise, wiped when they are dropped.
struct Noises(Vec<Noise>);

impl Drop for Noises {
    fn drop(&mut self) {
        wipe(&mut self.0, Noise::ZERO);
    }
}

/// Makes key pairs of one set.
pub(crate) fn generate_ways<M: Machine>(machine: M, jobs: &mut [Generate<'_>]) {
    jobs.chunks_mut(WAYS).for_each(|jobs| generate(machine, jobs));
}

/// Encapsulates secrets of one set.
pub(crate) fn encapsulate_ways<M: Machine>(machine: M, jobs: &mut [Encapsulate<'_>]) {
    jobs.chunks_mut(WAYS).for_each(|jobs| encapsulate(machine, jobs));
}

/// Decapsulates ciphertexts of one set.
pub(crate) fn decapsulate_ways<M: Machine>(machine: M, jobs: &mut [Decapsulate<'_>]) {
    jobs.chunks_mut(WAYS).for_each(|jobs| decapsulate(machine, jobs));
}

/// Returns states that have absorbed a seed and up to two bytes each, with the padding, and are permuted.
fn seeded<'a, M: Machine>(
    machine: M,
    sponge: Sponge,
    ways: usize,
    input: impl Fn(usize) -> (&'a Seed, [u8; 3]),
) -> M::States {
    let mut heads = [[0; HEAD_BYTES]; STREAMS_MAX];
    for (way, head) in heads.iter_mut().enumerate().take(ways) {
        let (seed, tail) = input(way);
        head[..SEED_BYTES].copy_from_slice(seed);
        head[SEED_BYTES..SEED_BYTES + 3].copy_from_slice(&tail);
    }
    let states = machine.absorbed_heads(sponge, &heads);
    wipe(&mut heads, [0; HEAD_BYTES]);
    states
}

/// Samples the matrix of each seed by rows. The seeds are public.
#[inline(never)]
fn sample_matrices<M: Machine>(machine: M, p: &Parameters, seeds: &[&Seed]) -> Vec<Sampled> {
    const BLOCK: usize = SHAKE128.rate_bytes;
    // Three blocks are enough for 99 of 100 polynomials.
    const BLOCKS: usize = 3;
    let each = p.k * p.k;
    let mut matrices = vec![[0; N + SAMPLE_SLACK]; each * seeds.len()];
    let mut rows = [[0; ROW_BYTES]; STREAMS_MAX];
    for (group, outputs) in matrices.chunks_mut(M::STREAMS).enumerate() {
        let first = group * M::STREAMS;
        let mut states = seeded(machine, SHAKE128, outputs.len(), |way| {
            let (of, entry) = ((first + way) / each, (first + way) % each);
            (seeds[of], [(entry % p.k) as u8, (entry / p.k) as u8, SHAKE128.suffix])
        });
        machine.squeeze(&mut states, SHAKE128, BLOCKS, &mut rows);
        let mut filled = [0; STREAMS_MAX];
        let mut bytes = BLOCKS * BLOCK;
        loop {
            for ((output, row), filled) in outputs.iter_mut().zip(&rows).zip(&mut filled) {
                if *filled < N {
                    *filled = machine.sample_matrix(row, bytes, output, *filled);
                }
            }
            if filled[..outputs.len()].iter().all(|&filled| filled == N) {
                break;
            }
            machine.permute(&mut states);
            machine.extract(&states, SHAKE128.words(), &mut rows, 0);
            bytes = BLOCK;
        }
    }
    matrices
}

/// Samples `each` polynomials of noise of each seed, of which the first `secret` have the parameter eta1.
#[inline(never)]
fn sample_noises<M: Machine>(
    machine: M,
    p: &Parameters,
    seeds: &[&Seed],
    each: usize,
    secret: usize,
) -> Noises {
    let mut noises = Noises(vec![Noise::ZERO; each * seeds.len()]);
    let mut rows = [[0; ROW_BYTES]; STREAMS_MAX];
    for (group, outputs) in noises.0.chunks_mut(M::STREAMS).enumerate() {
        let first = group * M::STREAMS;
        let mut states = seeded(machine, SHAKE256, outputs.len(), |way| {
            let (of, counter) = ((first + way) / each, (first + way) % each);
            (seeds[of], [counter as u8, SHAKE256.suffix, 0])
        });
        // The noise of eta 3 is longer than a block.
        if p.eta1 == ETA2 {
            machine.extract(&states, 64 * ETA2 / 8, &mut rows, 0);
        } else {
            machine.squeeze(&mut states, SHAKE256, 2, &mut rows);
        }
        machine.clear(&mut states);
        for (way, (output, row)) in outputs.iter_mut().zip(&rows).enumerate() {
            let eta = if (first + way) % each < secret { p.eta1 } else { ETA2 };
            machine.sample_noise(eta, row, output);
        }
    }
    wipe(&mut rows, [0; ROW_BYTES]);
    noises
}

/// Hashes a message of each operation, all of one length.
fn hash_all<M: Machine, T: AsRef<[u8]>>(
    machine: M,
    sponge: Sponge,
    messages: &[T],
) -> [[u8; HASH_BYTES]; WAYS] {
    let mut outputs = [[0; HASH_BYTES]; WAYS];
    let mut some = [[0; HASH_BYTES]; STREAMS_MAX];
    for (messages, outputs) in messages.chunks(M::STREAMS).zip(outputs.chunks_mut(M::STREAMS)) {
        let mut views: [&[u8]; STREAMS_MAX] = [&[]; STREAMS_MAX];
        views.iter_mut().zip(messages).for_each(|(view, message)| *view = message.as_ref());
        machine.hash(sponge, &views[..messages.len()], &mut some);
        outputs[..messages.len()].copy_from_slice(&some[..messages.len()]);
    }
    some.zeroize();
    outputs
}

/// Returns both halves of an output of 64 bytes.
fn halves(both: &[u8; HASH_BYTES]) -> (&Seed, &Seed) {
    let halves = both.as_chunks::<SEED_BYTES>().0;
    (&halves[0], &halves[1])
}

fn first(both: &[u8; HASH_BYTES]) -> &Seed {
    halves(both).0
}

fn generate<M: Machine>(machine: M, jobs: &mut [Generate<'_>]) {
    let (p, count) = (jobs[0].set.parameters(), jobs.len());
    let mut inputs = [[p.k as u8; SEED_BYTES + 1]; WAYS];
    for (input, job) in inputs.iter_mut().zip(&*jobs) {
        input[..SEED_BYTES].copy_from_slice(&job.seed[..SEED_BYTES]);
    }
    // Rho, which is public, and sigma.
    let mut seeds = hash_all(machine, SHA3_512, &inputs[..count]);
    let public = seeds.each_ref().map(|both| halves(both).0);
    let secret = seeds.each_ref().map(|both| halves(both).1);
    let matrices = sample_matrices(machine, p, &public[..count]);
    let noises = sample_noises(machine, p, &secret[..count], 2 * p.k, 2 * p.k);
    let sampled = matrices.chunks_exact(p.k * p.k).zip(noises.0.chunks_exact(2 * p.k));
    for (((matrix, noise), job), public) in sampled.zip(jobs.iter_mut()).zip(public) {
        machine.key_pair(p, matrix, noise, job.decapsulation_key);
        job.decapsulation_key[2 * p.packed_bytes()..][..SEED_BYTES].copy_from_slice(public);
        if let Some(kept) = &mut job.matrix {
            kept.clear();
            kept.extend_from_slice(matrix);
        }
    }
    let mut keys: [&[u8]; WAYS] = [&[]; WAYS];
    for (key, job) in keys.iter_mut().zip(&*jobs) {
        *key = &job.decapsulation_key[p.packed_bytes()..][..p.packed_bytes() + SEED_BYTES];
    }
    let hashes = hash_all(machine, SHA3_256, &keys[..count]);
    for (job, hash) in jobs.iter_mut().zip(&hashes) {
        let rest = &mut job.decapsulation_key[2 * p.packed_bytes() + SEED_BYTES..];
        let (own, rejection) = rest.split_at_mut(SEED_BYTES);
        own.copy_from_slice(first(hash));
        rejection.copy_from_slice(&job.seed[SEED_BYTES..]);
    }
    inputs.zeroize();
    seeds.zeroize();
}

/// G over a message and a hash of each operation: the secrets and the coins.
fn secrets_and_coins<'a, M: Machine>(
    machine: M,
    inputs: impl Iterator<Item = (Seed, &'a Seed)>,
) -> [[u8; HASH_BYTES]; WAYS] {
    let mut both = [[0; 2 * SEED_BYTES]; WAYS];
    let mut count = 0;
    for (both, (message, hash)) in both.iter_mut().zip(inputs) {
        both[..SEED_BYTES].copy_from_slice(&message);
        both[SEED_BYTES..].copy_from_slice(hash);
        count += 1;
    }
    let outputs = hash_all(machine, SHA3_512, &both[..count]);
    both.zeroize();
    outputs
}

fn encapsulate<M: Machine>(machine: M, jobs: &mut [Encapsulate<'_>]) {
    let (p, count) = (jobs[0].key.set().parameters(), jobs.len());
    let mut keys: [&[u8]; WAYS] = [&[]; WAYS];
    keys.iter_mut().zip(&*jobs).for_each(|(key, job)| *key = job.key.as_bytes());
    let keys = &keys[..count];
    let hashes = hash_all(machine, SHA3_256, keys);
    let inputs = jobs.iter().zip(&hashes).map(|(job, hash)| (*job.message, first(hash)));
    let mut both = secrets_and_coins(machine, inputs);
    let mut seeds = [&[0; SEED_BYTES]; WAYS];
    seeds.iter_mut().zip(keys).for_each(|(seed, key)| *seed = public_parts(key).1);
    let matrices = sample_matrices(machine, p, &seeds[..count]);
    let coins = both.each_ref().map(|both| halves(both).1);
    let noises = sample_noises(machine, p, &coins[..count], 2 * p.k + 1, p.k);
    let sampled = matrices.chunks_exact(p.k * p.k).zip(noises.0.chunks_exact(2 * p.k + 1));
    for (((matrix, noise), job), both) in sampled.zip(jobs.iter_mut()).zip(&both) {
        let vector = public_parts(job.key.as_bytes()).0;
        machine.encrypt(p, vector, matrix, noise, job.message, job.ciphertext);
        *job.secret = *first(both);
    }
    both.zeroize();
}

fn decapsulate<M: Machine>(machine: M, jobs: &mut [Decapsulate<'_>]) {
    let (p, count) = (jobs[0].key.set().parameters(), jobs.len());
    let mut messages = [[0; SEED_BYTES]; WAYS];
    for (message, job) in messages.iter_mut().zip(&*jobs) {
        *message = machine.decrypt(p, job.key.parts().vector, job.ciphertext);
    }
    let inputs = messages.iter().zip(&*jobs).map(|(message, job)| (*message, job.key.parts().hash));
    let mut both = secrets_and_coins(machine, inputs);
    let mut seeds = [&[0; SEED_BYTES]; WAYS];
    let without = jobs.iter().filter(|job| job.matrix.is_none());
    let missing = seeds.iter_mut().zip(without).fold(0, |missing, (seed, job)| {
        *seed = public_parts(job.key.parts().encapsulation_key).1;
        missing + 1
    });
    let matrices = sample_matrices(machine, p, &seeds[..missing]);
    let mut matrices = matrices.chunks_exact(p.k * p.k);
    let coins = both.each_ref().map(|both| halves(both).1);
    let noises = sample_noises(machine, p, &coins[..count], 2 * p.k + 1, p.k);
    let mut rejected = reject(machine, jobs);
    let mut room = [0; CIPHERTEXT_BYTES_MAX];
    let noises_of = noises.0.chunks_exact(2 * p.k + 1);
    for (way, (job, noise)) in jobs.iter_mut().zip(noises_of).enumerate() {
        let again = &mut room[..job.ciphertext.len()];
        let vector = public_parts(job.key.parts().encapsulation_key).0;
        let matrix = job.matrix.or_else(|| matrices.next()).expect("as many as jobs without one");
        machine.encrypt(p, vector, matrix, noise, &messages[way], again);
        let keep = core::hint::black_box(same(again, job.ciphertext));
        *job.secret = choose(keep, first(&both[way]), first(&rejected[way]));
    }
    messages.zeroize();
    both.zeroize();
    rejected.zeroize();
    room.zeroize();
}

/// J over the seed of rejection and the ciphertext of each operation.
fn reject<M: Machine>(machine: M, jobs: &[Decapsulate<'_>]) -> [[u8; HASH_BYTES]; WAYS] {
    let mut inputs = [[0; SEED_BYTES + CIPHERTEXT_BYTES_MAX]; WAYS];
    let mut views: [&[u8]; WAYS] = [&[]; WAYS];
    for ((input, view), job) in inputs.iter_mut().zip(&mut views).zip(jobs) {
        input[..SEED_BYTES].copy_from_slice(job.key.parts().rejection);
        input[SEED_BYTES..][..job.ciphertext.len()].copy_from_slice(job.ciphertext);
        *view = &input[..SEED_BYTES + job.ciphertext.len()];
    }
    let outputs = hash_all(machine, SHAKE256, &views[..jobs.len()]);
    inputs.iter_mut().for_each(|input| input[..SEED_BYTES].zeroize());
    outputs
}

/// Returns all ones if two ciphertexts of one length are the same, else zero, in one time.
#[inline]
fn same(a: &[u8], b: &[u8]) -> u8 {
    let words = |bytes: &[u8], n: usize| u64::from_le_bytes(bytes.as_chunks().0[n]);
    let difference = (0..a.len() / 8).fold(0, |all, n| all | (words(a, n) ^ words(b, n)));
    // The top bit of x | -x is set unless x is zero.
    (((difference | difference.wrapping_neg()) >> 63) as u8).wrapping_sub(1)
}

/// Returns `a` if `mask` is all ones, `b` if it is zero, in one time.
#[inline]
fn choose(mask: u8, a: &Secret, b: &Secret) -> Secret {
    core::array::from_fn(|n| b[n] ^ (mask & (a[n] ^ b[n])))
}
