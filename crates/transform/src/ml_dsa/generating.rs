//! Key pairs, one or many: ML-DSA.KeyGen_internal, algorithm 6. The secret streams of all pairs fill ways one after
//! the other, the matrices' those of one pair after the other, and the hashes of the public keys run side by side.
//!
//! Which candidates of a secret polynomial are dropped shows in the time, as the standard's rejection does.

use arrayvec::ArrayVec;
use zeroize::Zeroizing;

use super::Generate;
use super::arithmetic::Poly;
use super::coding::pack;
use super::machine::{HASH_BYTES, Machine, ROW_BYTES, STREAMS_MAX, Seed, sample};
use super::parameters::{D, N, PRIVATE_SEED_BYTES, Parameters, SEED_BYTES, T0_BYTES, T1_BYTES, TR_BYTES};
use super::prepared::{Secrets, expand_a};
use crate::keccak::{SHAKE256, alone};
use crate::wipe::wipe;

/// Blocks of a secret polynomial's stream, which are enough for nearly all.
const SECRET_BLOCKS: usize = 2;

/// Appends the candidates of a block, CoeffFromHalfByte of algorithm 15; returns how many there are then.
fn bounded(p: &Parameters, block: &[u8], output: &mut [i32; N + 272], mut filled: usize) -> usize {
    for half in block.iter().flat_map(|byte| [byte & 15, byte >> 4]) {
        let half = i32::from(half);
        // The quotient by five of numbers below 16.
        let (value, bound) =
            if p.eta == 2 { (2 - (half - 5 * ((half * 13) >> 6)), 15) } else { (4 - half, 9) };
        output[filled] = value;
        filled += usize::from(half < bound);
    }
    filled
}

/// ExpandS, algorithm 33, for each seed: s1 and s2, one behind the other.
#[inline(never)]
fn expand_s<M: Machine>(machine: M, p: &Parameters, seeds: &[&[u8]], secrets: &mut [Secrets]) {
    let each = p.l + p.k;
    let mut rows = [[0; ROW_BYTES]; STREAMS_MAX];
    let mut candidates = [[0; N + 272]; STREAMS_MAX];
    for first in (0..each * seeds.len()).step_by(M::STREAMS) {
        let ways = M::STREAMS.min(each * seeds.len() - first);
        let mut inputs: [Seed<'_>; STREAMS_MAX] = [(&[], None); STREAMS_MAX];
        for (input, at) in inputs.iter_mut().zip(first..first + ways) {
            *input = (seeds[at / each], Some((at % each) as u16));
        }
        let mut states = sample(
            machine,
            (SHAKE256, SECRET_BLOCKS),
            &inputs[..ways],
            &mut rows,
            &mut candidates,
            |block, output, filled| bounded(p, block, output, filled),
        );
        machine.clear(&mut states);
        for (at, candidates) in (first..first + ways).zip(&candidates) {
            secrets[at / each].0[at % each] = Poly(*candidates.first_chunk().expect("there are more"));
        }
    }
    wipe(&mut rows, [0; ROW_BYTES]);
    wipe(&mut candidates, [0; N + 272]);
}

/// The seeds of a pair: rho, rho' and K.
type Seeds = [u8; 2 * SEED_BYTES + PRIVATE_SEED_BYTES];

fn rho(seeds: &Seeds) -> &[u8; SEED_BYTES] {
    seeds.first_chunk().expect("rho stands first")
}

/// Makes key pairs of one set.
pub(crate) fn generate<M: Machine>(machine: M, jobs: &mut [Generate<'_>]) {
    jobs.chunks_mut(M::STREAMS).for_each(|jobs| generate_some(machine, jobs));
}

/// Makes as many key pairs as there are ways.
fn generate_some<M: Machine>(machine: M, jobs: &mut [Generate<'_>]) {
    let p = jobs[0].set.parameters();
    let seeds = |job: &Generate<'_>| alone::hash(SHAKE256, &[job.seed, &[p.k as u8, p.l as u8]]);
    let seeds: Zeroizing<Vec<Seeds>> = Zeroizing::new(jobs.iter().map(seeds).collect());
    let mut secrets: Vec<Secrets> = jobs.iter().map(|_| Secrets(vec![Poly::ZERO; p.l + p.k])).collect();
    let private: Vec<&[u8]> = seeds.iter().map(|seeds| &seeds[SEED_BYTES..][..PRIVATE_SEED_BYTES]).collect();
    expand_s(machine, p, &private, &mut secrets);
    let mut matrix = vec![Poly::ZERO; p.k * p.l];
    for ((job, seeds), secrets) in jobs.iter_mut().zip(seeds.iter()).zip(&mut secrets) {
        expand_a(machine, p, rho(seeds), p.l, &mut matrix);
        finish(machine, p, job, seeds, &matrix, &mut secrets.0);
    }
    let mut hashes = [[0; HASH_BYTES]; STREAMS_MAX];
    if let [job] = jobs {
        hashes[0] = alone::hash(SHAKE256, &[job.public]);
    } else {
        let keys: ArrayVec<&[u8], STREAMS_MAX> = jobs.iter().map(|job| &*job.public).collect();
        machine.hash(SHAKE256, &keys, &mut hashes);
    }
    for (job, hash) in jobs.iter_mut().zip(&hashes) {
        job.private[2 * SEED_BYTES..][..TR_BYTES].copy_from_slice(hash);
    }
}

/// Computes t, and encodes both keys but for the hash: pkEncode and skEncode, algorithms 22 and 24.
fn finish<M: Machine>(
    machine: M,
    p: &Parameters,
    job: &mut Generate<'_>,
    seeds: &Seeds,
    matrix: &[Poly],
    secrets: &mut [Poly],
) {
    let (first, packed) = job.public.split_at_mut(SEED_BYTES);
    first.copy_from_slice(rho(seeds));
    let (head, rest) = job.private.split_at_mut(2 * SEED_BYTES + TR_BYTES);
    let (small, large) = rest.split_at_mut((p.l + p.k) * p.eta_bytes());
    for (s, bytes) in secrets.iter().zip(small.chunks_exact_mut(p.eta_bytes())) {
        pack(s, p.eta_bits(), Some(p.eta.cast_signed()), bytes);
    }
    let (s1, s2) = secrets.split_at_mut(p.l);
    s1.iter_mut().for_each(|s1| machine.transform(s1));
    let (mut t, mut high) = (Poly::ZERO, Poly::ZERO);
    let places = packed.chunks_exact_mut(T1_BYTES).zip(large.chunks_exact_mut(T0_BYTES));
    for ((row, s2), (t1, t0)) in matrix.chunks_exact(p.l).zip(s2).zip(places) {
        machine.multiply_row(row, s1, &mut t);
        machine.inverse(&mut t);
        machine.add(&mut t, s2);
        machine.power2_round(&mut t, &mut high);
        pack(&high, 10, None, t1);
        pack(&t, D, Some(1 << (D - 1)), t0);
    }
    wipe(core::slice::from_mut(&mut t), Poly::ZERO);
    head[..SEED_BYTES].copy_from_slice(rho(seeds));
    head[SEED_BYTES..2 * SEED_BYTES].copy_from_slice(&seeds[SEED_BYTES + PRIVATE_SEED_BYTES..]);
}
