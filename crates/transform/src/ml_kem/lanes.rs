//! Up to eight operations of ML-KEM-768 with different keys, their Keccak streams side by side.
//!
//! A decapsulation needs 44 permutations: 27 for the matrix, 7 for the noise, 1 for G and 9 for J (AWS-LC runs 9 more,
//! to check the key again). Streams of the matrices and of the noise fill the eight lanes one after the other,
//! whichever operations they belong to, so that even one operation alone takes 17 permutations of eight states instead
//! of 44 of one; G, H and J take a lane an operation. At 1140 cycles a permutation, eight decapsulations have a floor
//! of 44 x 1140 / 8 = 6270 cycles each for Keccak, and some 4000 for ten transforms and the sampling of nine
//! polynomials. Measured on Zen 4, cycles a decapsulation: 16 400 with eight lanes filled, 42 400 with one, and 58 500
//! by AWS-LC.
//!
//! Every batch of eight runs the same instructions whatever its keys and ciphertexts hold, except for the sampling of
//! matrices, whose seeds are public. Lanes without an operation repeat the first one's input. Everything secret in
//! this module's memory is wiped before it returns.
//!
//! `unsafe`: calls of kernels whose instruction set the token proves.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use zeroize::Zeroize as _;

use super::coding::{self, SAMPLE_SLACK};
use super::vector::{self, Factor, Poly};
use super::{
    Ciphertext, Decapsulate, Encapsulate, EncapsulationKeyBytes, Generate, K, N, NOISE_BYTES, PACKED_BYTES,
    POLY_BYTES, SEED_BYTES, Secret, U_BYTES, V_BYTES, parts, public_parts,
};
use crate::isa::Avx512;
use crate::keccak::lanes::{self as keccak, LANES};
use crate::keccak::{LAST_BIT, SHA3_256, SHA3_512, SHAKE128, SHAKE256, Sponge};
use crate::wipe::wipe;

/// A matrix by rows, each polynomial with room behind it.
type Matrix = [[u16; N + SAMPLE_SLACK]; K * K];

/// A seed of 32 bytes.
type Seed = [u8; SEED_BYTES];

/// The polynomials of noise of an operation, at most.
const NOISES: usize = 2 * K + 1;

/// Makes key pairs, [`LANES`] at a time.
pub(crate) fn generate_lanes(token: Avx512, jobs: &mut [Generate<'_>]) {
    let _ = token;
    for jobs in jobs.chunks_mut(LANES) {
        // SAFETY: the token proves AVX-512 with these extensions.
        unsafe { generate(jobs) };
    }
}

/// Encapsulates secrets, [`LANES`] at a time.
pub(crate) fn encapsulate_lanes(token: Avx512, jobs: &mut [Encapsulate<'_>]) {
    let _ = token;
    for jobs in jobs.chunks_mut(LANES) {
        // SAFETY: the token proves AVX-512 with these extensions.
        unsafe { encapsulate(jobs) };
    }
}

/// Decapsulates ciphertexts, [`LANES`] at a time.
pub(crate) fn decapsulate_lanes(token: Avx512, jobs: &mut [Decapsulate<'_>]) {
    let _ = token;
    for jobs in jobs.chunks_mut(LANES) {
        // SAFETY: the token proves AVX-512 with these extensions.
        unsafe { decapsulate(jobs) };
    }
}

/// Returns a value for each lane; lanes without a job repeat the first job's.
#[inline]
fn for_lanes<'a, T, R>(jobs: &'a [T], of: impl Fn(&'a T) -> R) -> [R; LANES] {
    core::array::from_fn(|lane| of(jobs.get(lane).unwrap_or(&jobs[0])))
}

/// Returns eight states that have absorbed a seed and up to two bytes each, with the padding.
#[inline]
#[target_feature(enable = "avx512f")]
fn seeded(sponge: Sponge, seeds: [&Seed; LANES], tails: [u64; LANES]) -> keccak::States {
    let mut states = keccak::zeros();
    let seeds = seeds.map(|seed| &seed[..]);
    keccak::add_block(&mut states, SEED_BYTES / 8, seeds);
    states[4] = from_words(tails);
    let last = u64::from(LAST_BIT) << 56;
    states[sponge.words() - 1] = _mm512_set1_epi64(last as i64);
    states
}

#[inline]
#[target_feature(enable = "avx512f")]
fn from_words(words: [u64; LANES]) -> __m512i {
    let [a, b, c, d, e, f, g, h] = words.map(|word| word as i64);
    _mm512_set_epi64(h, g, f, e, d, c, b, a)
}

/// Samples the matrix of each seed, or its transpose. The seeds are public.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn sample_matrices(seeds: &[&Seed], is_transposed: bool, matrices: &mut [Matrix; LANES]) {
    const BLOCK: usize = SHAKE128.rate_bytes;
    let streams = K * K * seeds.len();
    // Three blocks are enough for 99 of 100 polynomials.
    let mut rows = [[0; 3 * BLOCK + 24]; LANES];
    for first in (0..streams).step_by(LANES) {
        let stream = |lane: usize| if first + lane < streams { first + lane } else { first };
        let of = core::array::from_fn(|lane| seeds[stream(lane) / (K * K)]);
        let tails = core::array::from_fn(|lane| {
            let entry = (stream(lane) % (K * K)) as u64;
            let (row, column) = (entry / K as u64, entry % K as u64);
            let (row, column) = if is_transposed { (column, row) } else { (row, column) };
            column | row << 8 | u64::from(SHAKE128.suffix) << 16
        });
        let mut states = seeded(SHAKE128, of, tails);
        for block in 0..3 {
            keccak::permute(&mut states);
            keccak::extract(&states, SHAKE128.words(), &mut rows, block * BLOCK);
        }
        let mut filled = [0; LANES];
        let mut bytes = 3 * BLOCK;
        loop {
            for (lane, filled) in filled.iter_mut().enumerate() {
                let entry = first + lane;
                if entry < streams && *filled < N {
                    let output = &mut matrices[entry / (K * K)][entry % (K * K)];
                    *filled = coding::sample_matrix(&rows[lane], bytes, output, *filled);
                }
            }
            if (0..LANES).all(|lane| filled[lane] == N || first + lane >= streams) {
                break;
            }
            keccak::permute(&mut states);
            keccak::extract(&states, SHAKE128.words(), &mut rows, 0);
            bytes = BLOCK;
        }
    }
}

/// Samples the first `count` polynomials of noise of each seed.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn sample_noises(seeds: &[Seed], count: usize, noises: &mut [[Poly; NOISES]; LANES]) {
    let streams = count * seeds.len();
    let mut rows = [[0; NOISE_BYTES]; LANES];
    for first in (0..streams).step_by(LANES) {
        let stream = |lane: usize| if first + lane < streams { first + lane } else { first };
        let of = core::array::from_fn(|lane| &seeds[stream(lane) / count]);
        let tails =
            core::array::from_fn(|lane| (stream(lane) % count) as u64 | u64::from(SHAKE256.suffix) << 8);
        let mut states = seeded(SHAKE256, of, tails);
        keccak::permute(&mut states);
        keccak::extract(&states, NOISE_BYTES / 8, &mut rows, 0);
        for (lane, row) in rows.iter().enumerate().take(streams - first) {
            let at = first + lane;
            noises[at / count][at % count] = coding::sample_noise(row);
        }
        wipe(&mut states, _mm512_setzero_si512());
    }
    wipe(&mut rows, [0; NOISE_BYTES]);
}

/// Returns room for the noise of all lanes, zeroed.
#[inline]
#[target_feature(enable = "avx512f")]
fn no_noises() -> [[Poly; NOISES]; LANES] {
    [[[_mm512_setzero_si512(); 8]; NOISES]; LANES]
}

/// Returns the product of a row of a matrix and a vector, divided by 2^16.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn row_product(row: &[[u16; N + SAMPLE_SLACK]], vector: &[Factor; K]) -> Poly {
    let mut sum = vector::nothing();
    for (entry, factor) in row.iter().zip(vector) {
        vector::add_product(&mut sum, &coding::load_poly(entry), factor);
    }
    vector::reduce_sum(&sum)
}

/// Returns the product of a coded vector and a vector, divided by 2^16.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn coded_product(coded: &[u8; PACKED_BYTES], vector: &[Factor; K]) -> Poly {
    let mut sum = vector::nothing();
    for (bytes, factor) in coded.as_chunks::<POLY_BYTES>().0.iter().zip(vector) {
        vector::add_product(&mut sum, &coding::decode_12(bytes), factor);
    }
    vector::reduce_sum(&sum)
}

/// Transforms the first K polynomials, and returns them as factors.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn transform_vector(polys: &mut [Poly]) -> [Factor; K] {
    let mut factors = [[[_mm512_setzero_si512(); 8]; 2]; K];
    for (poly, factor) in polys.iter_mut().zip(&mut factors) {
        vector::transform(poly);
        *factor = vector::prepare(poly);
    }
    factors
}

/// K-PKE.Encrypt of one operation, from its transposed matrix and its noise.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn encrypt(
    key: &[u8; PACKED_BYTES],
    matrix: &Matrix,
    noise: &mut [Poly; NOISES],
    message: &Seed,
    output: &mut Ciphertext,
) {
    let mut y = transform_vector(noise);
    for (i, row) in matrix.as_chunks::<K>().0.iter().enumerate() {
        let mut u = row_product(row, &y);
        vector::inverse(&mut u);
        vector::add(&mut u, &noise[K + i]);
        // The next polynomial or v overwrites the bytes that this writes too much.
        coding::compress_10(&u, &mut output[U_BYTES * i..]);
    }
    let mut v = coded_product(key, &y);
    vector::inverse(&mut v);
    vector::add(&mut v, &noise[2 * K]);
    vector::add(&mut v, &coding::from_message(message));
    let bytes: &mut [u8; V_BYTES] = output.last_chunk_mut().expect("a constant length");
    coding::compress_4(&v, bytes);
    wipe(&mut y, [[_mm512_setzero_si512(); 8]; 2]);
    wipe(&mut v, _mm512_setzero_si512());
}

/// K-PKE.Decrypt of one operation.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn decrypt(secret: &[u8; PACKED_BYTES], ciphertext: &Ciphertext) -> Seed {
    let (u, v) = ciphertext.split_at(K * U_BYTES);
    let mut polys = [[_mm512_setzero_si512(); 8]; K];
    for (poly, bytes) in polys.iter_mut().zip(u.as_chunks().0) {
        *poly = coding::decompress_10(bytes);
    }
    let u = transform_vector(&mut polys);
    let mut w = coded_product(secret, &u);
    vector::inverse(&mut w);
    let v = coding::decompress_4(v.first_chunk().expect("a constant length"));
    let mut difference = vector::subtract(&v, &w);
    let message = coding::to_message(&difference);
    wipe(&mut w, _mm512_setzero_si512());
    wipe(&mut difference, _mm512_setzero_si512());
    message
}

/// G over a message and a hash for each lane: returns secrets and coins.
#[inline]
#[target_feature(enable = "avx512f")]
fn secrets_and_coins(messages: &[Seed; LANES], hashes: [&Seed; LANES]) -> ([Secret; LANES], [Seed; LANES]) {
    let mut inputs = [[0; 2 * SEED_BYTES]; LANES];
    for ((input, message), hash) in inputs.iter_mut().zip(messages).zip(hashes) {
        input[..SEED_BYTES].copy_from_slice(message);
        input[SEED_BYTES..].copy_from_slice(hash);
    }
    let mut outputs = [[0; 2 * SEED_BYTES]; LANES];
    keccak::hash_inner(SHA3_512, inputs.each_ref().map(|input| &input[..]), &mut outputs);
    let halves = outputs.each_ref().map(|both| both.as_chunks::<SEED_BYTES>().0);
    let made = (halves.map(|half| half[0]), halves.map(|half| half[1]));
    inputs.zeroize();
    outputs.zeroize();
    made
}

/// H over the encapsulation key of each lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn hash_keys(keys: [&EncapsulationKeyBytes; LANES]) -> [Seed; LANES] {
    let mut hashes = [[0; SEED_BYTES]; LANES];
    keccak::hash_inner(SHA3_256, keys.map(|key| &key[..]), &mut hashes);
    hashes
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn generate(jobs: &mut [Generate<'_>]) {
    let count = jobs.len();
    let mut inputs = for_lanes(jobs, |job| {
        let mut input = [K as u8; SEED_BYTES + 1];
        input[..SEED_BYTES].copy_from_slice(&job.seed[..SEED_BYTES]);
        input
    });
    let mut seeds = [[0; 2 * SEED_BYTES]; LANES];
    keccak::hash_inner(SHA3_512, inputs.each_ref().map(|input| &input[..]), &mut seeds);
    let halves = seeds.each_ref().map(|both| both.as_chunks::<SEED_BYTES>().0);
    let public = halves.map(|half| &half[0]);
    let mut secret = halves.map(|half| half[1]);
    let mut matrices = [[[0; N + SAMPLE_SLACK]; K * K]; LANES];
    sample_matrices(&public[..count], false, &mut matrices);
    let mut noises = no_noises();
    sample_noises(&secret[..count], 2 * K, &mut noises);
    for (((job, matrix), noise), public) in jobs.iter_mut().zip(&matrices).zip(&mut noises).zip(public) {
        let (s, e) = noise.split_at_mut(K);
        let mut factors = transform_vector(s);
        for (i, row) in matrix.as_chunks::<K>().0.iter().enumerate() {
            let mut t = vector::restore(&row_product(row, &factors));
            vector::transform(&mut e[i]);
            vector::add(&mut t, &e[i]);
            coding::encode_12(&t, &mut job.encapsulation_key[POLY_BYTES * i..]);
            coding::encode_12(&s[i], &mut job.decapsulation_key[POLY_BYTES * i..]);
        }
        job.encapsulation_key[PACKED_BYTES..].copy_from_slice(public);
        wipe(&mut factors, [[_mm512_setzero_si512(); 8]; 2]);
    }
    let hashes = hash_keys(for_lanes(jobs, |job| &*job.encapsulation_key));
    for (job, hash) in jobs.iter_mut().zip(&hashes) {
        let rest = &mut job.decapsulation_key[PACKED_BYTES..];
        let (key, rest) = rest.split_at_mut(job.encapsulation_key.len());
        key.copy_from_slice(job.encapsulation_key);
        let (own, rejection) = rest.split_at_mut(SEED_BYTES);
        own.copy_from_slice(hash);
        rejection.copy_from_slice(&job.seed[SEED_BYTES..]);
    }
    inputs.zeroize();
    seeds.zeroize();
    secret.zeroize();
    wipe(&mut noises[..count], [[_mm512_setzero_si512(); 8]; NOISES]);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn encapsulate(jobs: &mut [Encapsulate<'_>]) {
    let count = jobs.len();
    let keys = for_lanes(jobs, |job| job.key.as_bytes());
    let hashes = hash_keys(keys);
    let mut messages = for_lanes(jobs, |job| *job.message);
    let (mut secrets, mut coins) = secrets_and_coins(&messages, hashes.each_ref());
    let mut matrices = [[[0; N + SAMPLE_SLACK]; K * K]; LANES];
    sample_matrices(&keys.map(|key| public_parts(key).1)[..count], true, &mut matrices);
    let mut noises = no_noises();
    sample_noises(&coins[..count], NOISES, &mut noises);
    for (lane, job) in jobs.iter_mut().enumerate() {
        let vector = public_parts(keys[lane]).0;
        encrypt(vector, &matrices[lane], &mut noises[lane], job.message, job.ciphertext);
        *job.secret = secrets[lane];
    }
    messages.zeroize();
    secrets.zeroize();
    coins.zeroize();
    wipe(&mut noises[..count], [[_mm512_setzero_si512(); 8]; NOISES]);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn decapsulate(jobs: &mut [Decapsulate<'_>]) {
    let count = jobs.len();
    let keys = for_lanes(jobs, |job| parts(job.key.as_bytes()));
    let mut messages = [[0; SEED_BYTES]; LANES];
    for ((message, job), key) in messages.iter_mut().zip(jobs.iter()).zip(&keys) {
        *message = decrypt(key.vector, job.ciphertext);
    }
    let (mut secrets, mut coins) = secrets_and_coins(&messages, keys.each_ref().map(|key| key.hash));
    let public = keys.each_ref().map(|key| public_parts(key.encapsulation_key));
    let mut matrices = [[[0; N + SAMPLE_SLACK]; K * K]; LANES];
    sample_matrices(&public.map(|(_, seed)| seed)[..count], true, &mut matrices);
    let mut noises = no_noises();
    sample_noises(&coins[..count], NOISES, &mut noises);
    let mut rejected = reject(jobs, keys.each_ref().map(|key| key.rejection));
    let mut again = [0; super::ML_KEM_768_CIPHERTEXT_BYTES];
    for (lane, job) in jobs.iter_mut().enumerate() {
        encrypt(public[lane].0, &matrices[lane], &mut noises[lane], &messages[lane], &mut again);
        let keep = core::hint::black_box(same(&again, job.ciphertext));
        *job.secret = choose(keep, &secrets[lane], &rejected[lane]);
    }
    messages.zeroize();
    secrets.zeroize();
    coins.zeroize();
    rejected.zeroize();
    again.zeroize();
    wipe(&mut noises[..count], [[_mm512_setzero_si512(); 8]; NOISES]);
}

/// J over the seed of rejection and the ciphertext of each lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn reject(jobs: &[Decapsulate<'_>], seeds: [&Seed; LANES]) -> [Secret; LANES] {
    const BYTES: usize = SEED_BYTES + super::ML_KEM_768_CIPHERTEXT_BYTES;
    let mut inputs = for_lanes(jobs, |job| {
        let mut input = [0; BYTES];
        input[SEED_BYTES..].copy_from_slice(job.ciphertext);
        input
    });
    for (input, seed) in inputs.iter_mut().zip(seeds) {
        input[..SEED_BYTES].copy_from_slice(seed);
    }
    let mut outputs = [[0; SEED_BYTES]; LANES];
    keccak::hash_inner(SHAKE256, inputs.each_ref().map(|input| &input[..]), &mut outputs);
    for input in &mut inputs {
        input[..SEED_BYTES].zeroize();
    }
    outputs
}

/// Returns all ones if two ciphertexts are the same, else zero, in one time.
#[inline]
fn same(a: &Ciphertext, b: &Ciphertext) -> u8 {
    let words = |bytes: &Ciphertext, n: usize| u64::from_le_bytes(bytes.as_chunks().0[n]);
    let difference = (0..a.len() / 8).fold(0, |all, n| all | (words(a, n) ^ words(b, n)));
    // The top bit of x | -x is set unless x is zero.
    (((difference | difference.wrapping_neg()) >> 63) as u8).wrapping_sub(1)
}

/// Returns `a` if `mask` is all ones, `b` if it is zero, in one time.
#[inline]
fn choose(mask: u8, a: &Secret, b: &Secret) -> Secret {
    core::array::from_fn(|n| b[n] ^ (mask & (a[n] ^ b[n])))
}
