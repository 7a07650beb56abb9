//! RSA eight ways at once: up to eight operations with different keys of one size at a time.
//!
//! A private operation is two powers of half the length, modulo p and modulo q, so eight ways hold the
//! halves of four operations: a batch of up to four costs half of a batch of eight. Ways without an
//! operation repeat the first.
//!
//! *Blinding.* Each key has a pool of pairs (r^e, 1 / r) modulo n with random r. An operation takes a pair
//! out of the pool, multiplies the block by r^e and the result by 1 / r, squares both numbers and puts the
//! pair back, so that no two operations share a pair, also none at the same time. After 32 uses a pair is
//! dropped; an empty pool is filled with eight fresh pairs by one inversion.
//!
//! *Check.* The unblinded result s leaves only if s^e = m; this covers the blinding as well.
//!
//! *Cost* of eight operations of 2048 bits in IFMA instructions: 2070 squares of 1220 and 444 multiplications
//! of 1600 modulo the primes, 18 squares of 4840 and 5 multiplications of 6400 modulo n: 3.4 million, which
//! is 421 000 cycles an operation at one instruction a cycle (Zen 4), half of it at two (Zen 5).
//!
//! No branch and no address depends on a block or a private key; the bits of a public exponent choose the
//! sequence of multiplications of the check.
#![allow(unsafe_code)]

use core::arch::x86_64::{__mmask8, _mm512_mask_blend_epi64, _mm512_setzero_si512, _mm512_shuffle_i64x2};

use super::key::Pair;
use super::{PrivateJob, PublicJob, RsaOutcome};
use crate::isa::Avx512;
use crate::montgomery::kernel::{Number, WAYS, zero};
use crate::montgomery::reference::Words;
use crate::montgomery::table::cut;
use crate::montgomery::ways::{
    self, Moduli, Scratch, each_eight, from_bytes, gather, is_inner, multiply_add, scatter, to_bytes,
    way_jobs,
};
use crate::montgomery::{AcrossConstants, Constants};
use crate::wipe::{self, wipe};

/// The lengths of moduli in bits.
const SIZES: [usize; 3] = [2048, 3072, 4096];

/// Operations whose halves fill the ways.
const HALF: usize = WAYS / 2;

/// Digits of the longest exponent of a half.
const DIGITS_MAX: usize = 2048 / 4;

/// Runs private operations, of which each has its own key of any size; at most eight of a size share the
/// ways.
pub(crate) fn private(_token: Avx512, jobs: &mut [PrivateJob<'_>]) {
    let size = |job: &mut PrivateJob<'_>| {
        let public = job.key.public();
        job.fits(public.bytes()).then_some(public.bits())
    };
    each_eight(jobs, SIZES, size, |bits, jobs| {
        // SAFETY: the token proves the instructions.
        unsafe {
            match bits {
                2048 => private_batch::<20, 40, 5, 32>(jobs),
                3072 => private_batch::<30, 60, 5, 32>(jobs),
                _ => private_batch::<40, 80, 5, 32>(jobs),
            }
        }
    });
}

/// Runs public operations, of which each has its own key of any size; at most eight of a size share the
/// ways.
pub(crate) fn public(_token: Avx512, jobs: &mut [PublicJob<'_>]) {
    let size = |job: &mut PublicJob<'_>| job.fits(job.key.bytes()).then_some(job.key.bits());
    each_eight(jobs, SIZES, size, |bits, jobs| {
        // SAFETY: the token proves the instructions.
        unsafe {
            match bits {
                2048 => public_batch::<40>(jobs),
                3072 => public_batch::<60>(jobs),
                _ => public_batch::<80>(jobs),
            }
        }
    });
}

/// Returns a number of `length` words that is `base` to the power of `exponent` modulo a prime, not reduced fully: one power
/// alone, by [`AcrossConstants::power`].
pub(crate) fn power_across(
    _token: Avx512,
    prime: &AcrossConstants,
    base: &[u64],
    exponent: &[u64],
    length: usize,
) -> Words {
    // SAFETY: the token proves the instructions.
    unsafe {
        let power = prime.power(base, exponent, length);
        wipe::avx512();
        power
    }
}

/// Does as [`power_across`] for a public exponent, by [`AcrossConstants::power_public`].
pub(crate) fn power_across_public(
    _token: Avx512,
    modulus: &AcrossConstants,
    base: &[u64],
    exponent: &[u64],
    length: usize,
) -> Words {
    // SAFETY: the token proves the instructions.
    unsafe {
        let power = modulus.power_public(base, exponent, length);
        wipe::avx512();
        power
    }
}

/// Runs up to eight operations modulo numbers of `N` limbs, whose primes have `H` limbs, with tables of 2^W = `E` powers.
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn private_batch<const H: usize, const N: usize, const W: usize, const E: usize>(
    jobs: &mut [&mut PrivateJob<'_>],
) {
    let mut ready = arrayvec::ArrayVec::<(&mut PrivateJob<'_>, Pair), WAYS>::new();
    for job in jobs {
        match job.key.take_pair() {
            Some(pair) => ready.push((&mut **job, pair)),
            None => job.finish(RsaOutcome::Fault),
        }
    }
    if ready.is_empty() {
        return;
    }
    // With four operations or fewer, each has a way for p and one for q.
    let is_paired = ready.len() <= HALF;
    let spread = if is_paired { HALF } else { WAYS };
    let way_job = way_jobs(ready.len(), spread);
    let public = way_job.map(|job| ready[job].0.key.public());
    let secret = way_job.map(|job| ready[job].0.key.secret());

    let scratch = &mut Scratch::new();
    let n = Moduli::<N>::new(public.map(|key| key.constants()));
    let n_one = gather::<N>(public.map(|key| &*key.constants().one));
    let n_square = gather::<N>(public.map(|key| &*key.constants().square));
    let mut message = from_bytes::<N>(way_job.map(|job| ready[job].0.input));
    let taken = is_inner(&n, &message);

    let mut blind = gather::<N>(way_job.map(|job| &*ready[job].1.blind));
    let mut unblind = gather::<N>(way_job.map(|job| &*ready[job].1.unblind));
    let mut blinded = message;
    n.multiply(&mut blinded, &blind, scratch);

    let mut signature = zero::<N>();
    {
        let mut table = [zero::<H>(); E];
        let mut halves = [zero::<H>(); 2];
        for (pass, half) in halves.iter_mut().enumerate() {
            // Which prime a way has: both in one pass, or one in each.
            let is_q = |way: usize| if is_paired { way >= HALF } else { pass == 1 };
            if is_paired && pass == 1 {
                continue;
            }
            let primes: [&Constants; WAYS] =
                core::array::from_fn(|way| if is_q(way) { &secret[way].q_ways } else { &secret[way].p_ways });
            let mut digits = [[0; WAYS]; DIGITS_MAX];
            let digits = &mut digits[..public[0].bits().div_ceil(2 * W)];
            for (way, secret) in secret.iter().enumerate() {
                cut::<W>(if is_q(way) { &secret.dq } else { &secret.dp }, way, digits);
            }
            half_power::<H, N, W, E>(half, &blinded, primes, digits, &mut table, scratch);
            wipe(digits, [0; WAYS]);
        }
        if is_paired {
            let [p, q] = &mut halves;
            for (p, q) in p.iter().zip(q) {
                *q = _mm512_shuffle_i64x2::<0b1110>(*p, *p);
            }
        }
        let [p_half, q_half] = &mut halves;
        // h = (s_p - s_q) / q mod p; s_q < 2^(bits / 2) <= 2 p.
        let mut p = Moduli::<H>::new(secret.map(|secret| &secret.p_ways));
        ways::add(p_half, p.modulus());
        ways::add(p_half, p.modulus());
        ways::subtract(p_half, q_half);
        let mut qinv = gather::<H>(secret.map(|secret| &**secret.qinv_ways));
        p.multiply(p_half, &qinv, scratch);
        p.finish(p_half);
        // s = s_q + h q, below n.
        let mut q = gather::<H>(secret.map(|secret| &*secret.q_ways.modulus));
        multiply_add(&mut signature, p_half, &q, q_half);
        p.wipe();
        wipe(&mut halves, zero());
        wipe(&mut qinv, _mm512_setzero_si512());
        wipe(&mut q, _mm512_setzero_si512());
    }
    n.multiply(&mut signature, &unblind, scratch);
    n.finish(&mut signature);

    let mut check = signature;
    n.multiply(&mut check, &n_square, scratch);
    public_power(&n, &mut check, &n_one, public.map(|key| key.exponent()), scratch);
    let passed = ways::equals(&check, &message);

    n.square(&mut blind, scratch);
    n.square(&mut unblind, scratch);
    n.finish(&mut blind);
    n.finish(&mut unblind);
    for (way, (job, mut pair)) in ready.drain(..).enumerate() {
        scatter(&blind, way, &mut pair.blind);
        scatter(&unblind, way, &mut pair.unblind);
        job.key.return_pair(pair);
        let bit = 1 << way;
        if taken & bit == 0 {
            job.finish(RsaOutcome::OutOfRange);
        } else if passed & bit == 0 {
            job.finish(RsaOutcome::Fault);
        } else {
            to_bytes(&signature, way, job.output);
            job.finish(RsaOutcome::Done);
        }
    }
    for number in [&mut message, &mut blind, &mut unblind, &mut blinded, &mut signature, &mut check] {
        wipe(number, _mm512_setzero_si512());
    }
    scratch.wipe();
}

/// Raises the blinded block to the power of `digits` modulo a prime of each way, and reduces fully.
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn half_power<const H: usize, const N: usize, const W: usize, const E: usize>(
    out: &mut Number<H>,
    blinded: &Number<N>,
    primes: [&Constants; WAYS],
    digits: &[[u8; WAYS]],
    table: &mut [Number<H>; E],
    scratch: &mut Scratch,
) {
    let mut prime = Moduli::<H>::new(primes);
    let mut one = gather::<H>(primes.map(|prime| &*prime.one));
    // The block is low + high R: low R^2 + high R^3, each divided by R, is its Montgomery form.
    let (Some(low), Some(high)) = (blinded.first_chunk::<H>(), blinded.last_chunk::<H>()) else { return };
    let mut factor = gather::<H>(primes.map(|prime| &*prime.square));
    *out = *low;
    prime.multiply(out, &factor, scratch);
    let mut upper = *high;
    factor = gather::<H>(primes.map(|prime| &*prime.cube));
    prime.multiply(&mut upper, &factor, scratch);
    ways::add(out, &upper);
    prime.power::<W, E>(out, &one, digits, table, scratch);
    prime.leave(out, scratch);
    prime.wipe();
    for number in [&mut one, &mut factor, &mut upper] {
        wipe(number, _mm512_setzero_si512());
    }
}

/// Runs up to eight operations modulo numbers of `N` limbs.
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn public_batch<const N: usize>(jobs: &mut [&mut PublicJob<'_>]) {
    let way_job = way_jobs(jobs.len(), WAYS);
    let keys = way_job.map(|job| jobs[job].key);
    let scratch = &mut Scratch::new();
    let n = Moduli::<N>::new(keys.map(|key| key.constants()));
    let one = gather::<N>(keys.map(|key| &*key.constants().one));
    let square = gather::<N>(keys.map(|key| &*key.constants().square));
    let mut number = from_bytes::<N>(way_job.map(|job| jobs[job].input));
    let taken = ways::is_below(&number, n.modulus());
    n.multiply(&mut number, &square, scratch);
    public_power(&n, &mut number, &one, keys.map(|key| key.exponent()), scratch);
    for (way, job) in jobs.iter_mut().enumerate() {
        if taken & (1 << way) == 0 {
            job.finish(RsaOutcome::OutOfRange);
        } else {
            to_bytes(&number, way, job.output);
            job.finish(RsaOutcome::Done);
        }
    }
    wipe(&mut number, _mm512_setzero_si512());
    scratch.wipe();
}

/// `x` = x^e, fully reduced, for public exponents; `x` and `one` are in Montgomery's form, the result is not.
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn public_power<const N: usize>(
    n: &Moduli<N>,
    x: &mut Number<N>,
    one: &Number<N>,
    exponents: [&[u64]; WAYS],
    scratch: &mut Scratch,
) {
    let words = exponents.iter().map(|exponent| exponent.len()).max().unwrap_or(0);
    // The ways whose exponent has the bit.
    let ways_of = |bit: usize| {
        (0..WAYS).fold(0, |mask: __mmask8, way| {
            let word = exponents[way].get(bit / 64).copied().unwrap_or(0);
            mask | (((word >> (bit % 64)) & 1) as __mmask8) << way
        })
    };
    let mut bits = (0..64 * words).rev().map(ways_of).skip_while(|mask| *mask == 0);
    // The base, and per way the base or 1.
    let (mut base, mut factor) = (*x, *one);
    let select = |factor: &mut Number<N>, base: &Number<N>, mask: __mmask8| {
        for ((factor, base), one) in factor.iter_mut().zip(base).zip(one) {
            *factor = _mm512_mask_blend_epi64(mask, *one, *base);
        }
    };
    // Ways with shorter exponents begin with the square of 1.
    if let Some(first) = bits.next() {
        select(x, &base, first);
    }
    for mask in bits {
        n.square(x, scratch);
        if mask != 0 {
            select(&mut factor, &base, mask);
            n.multiply(x, &factor, scratch);
        }
    }
    n.leave(x, scratch);
    wipe(&mut base, _mm512_setzero_si512());
    wipe(&mut factor, _mm512_setzero_si512());
}
