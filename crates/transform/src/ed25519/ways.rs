//! Ed25519 eight ways at once.
//!
//! Signing is free of branches and addresses that depend on secrets. Verification needs no such care, but
//! follows the same stream of instructions in all ways; each way's digits choose entries of its own table
//! by address.
//!
//! `unsafe`: calls of functions whose CPU features the token proves, and loads of table entries.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::hash::{self, Message};
use super::{Signing, Verifying};
use crate::curve25519::base::Base;
use crate::curve25519::edwards::{self, Affine, Double, Sum};
use crate::curve25519::field::{self, Rows, carry, mul, sub};
use crate::curve25519::reference::{bytes_of, words_of};
use crate::curve25519::scalar::{DIGITS, Scalar};
use crate::curve25519::select::{BaseChoice, Choice};
use crate::curve25519::{WAYS, scrub};
use crate::isa::Avx512;
use crate::wipe::wipe;

/// A message for the hash of ways without a job.
const NOTHING: Message<'static> = Message { head: &[], body: &[] };

/// Signs up to eight messages.
pub(crate) fn sign(token: Avx512, jobs: &mut [Signing<'_>]) {
    assert!(jobs.len() <= WAYS, "a batch has eight ways");
    let base = Base::get(token);
    let mut messages = [NOTHING; WAYS];
    let mut secrets = Rows::ZERO;
    for (way, job) in jobs.iter().enumerate() {
        messages[way] = Message { head: job.key.prefix(), body: job.message };
        secrets.set(way, &words_of(job.key.scalar()));
    }
    let mut wide = hash::ways(token, &messages[..jobs.len()]);
    // SAFETY: the token proves the features.
    let (mut nonces, points) = unsafe { commit(&wide, base) };
    let mut heads = [[0; 64]; WAYS];
    for (way, job) in jobs.iter().enumerate() {
        heads[way][..32].copy_from_slice(&bytes_of(&points.get(way)));
        heads[way][32..].copy_from_slice(job.key.public());
    }
    for (way, job) in jobs.iter().enumerate() {
        messages[way] = Message { head: &heads[way], body: job.message };
    }
    let challenges = hash::ways(token, &messages[..jobs.len()]);
    // SAFETY: the token proves the features.
    let scalars = unsafe { respond(&challenges, &secrets, &nonces) };
    for (way, job) in jobs.iter_mut().enumerate() {
        job.signature[..32].copy_from_slice(&heads[way][..32]);
        job.signature[32..].copy_from_slice(&bytes_of(&scalars.get(way)));
    }
    wipe(&mut secrets.0, [0; WAYS]);
    wipe(&mut wide.0, [0; WAYS]);
    wipe(&mut nonces.0, [0; WAYS]);
    scrub();
}

/// Returns the secret scalars that the hashes give, and the encodings of their multiples of the base point.
#[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
fn commit(wide: &Rows<8>, base: Base) -> (Rows<4>, Rows<4>) {
    let nonce = Scalar::from_wide_words(&wide.load());
    let (x, y, z) = base.multiply(&nonce.digits()).coordinates();
    let encoded = edwards::encode(&x, &y, &field::invert(&z));
    (Rows::store(&nonce.to_words()), Rows::store(&encoded))
}

/// Returns the second halves of signatures: nonce + challenge * secret.
#[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
fn respond(challenges: &Rows<8>, secrets: &Rows<4>, nonces: &Rows<4>) -> Rows<4> {
    let challenge = Scalar::from_wide_words(&challenges.load());
    let nonce = Scalar::from_words(&nonces.load());
    Rows::store(&Scalar::from_words(&secrets.load()).multiply_add(&challenge, &nonce).to_words())
}

/// Verifies up to eight signatures; ways without a job are `false`.
pub(crate) fn verify(token: Avx512, jobs: &[Verifying<'_>]) -> [bool; WAYS] {
    assert!(jobs.len() <= WAYS, "a batch has eight ways");
    let base = BaseChoice::get(token);
    let mut heads = [[0; 64]; WAYS];
    for (head, job) in heads.iter_mut().zip(jobs) {
        head[..32].copy_from_slice(&job.signature[..32]);
        head[32..].copy_from_slice(job.key.bytes());
    }
    let mut messages = [NOTHING; WAYS];
    let mut parts = [Rows::ZERO; 3];
    for (way, job) in jobs.iter().enumerate() {
        messages[way] = Message { head: &heads[way], body: job.message };
        let ([r, s], []) = job.signature.as_chunks::<32>() else { continue };
        for (rows, bytes) in parts.iter_mut().zip([r, s, job.key.bytes()]) {
            rows.set(way, &words_of(bytes));
        }
    }
    let challenges = hash::ways(token, &messages[..jobs.len()]);
    let [r, s, a] = &parts;
    // SAFETY: the token proves the features.
    let accepted = unsafe { accepted(r, s, a, &challenges, base) };
    core::array::from_fn(|way| way < jobs.len() && accepted >> way & 1 == 1)
}

/// Returns 32 times the points.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
fn shift(point: &Double) -> Sum {
    let mut point = *point;
    for _ in 0..4 {
        point = point.double().to_double();
    }
    point.double().to_sum()
}

#[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
fn accepted(r: &Rows<4>, s: &Rows<4>, a: &Rows<4>, challenges: &Rows<8>, base: BaseChoice) -> __mmask8 {
    let [(rx, ry, r_is_point), (ax, ay, a_is_point)] = edwards::decode(&[r.load(), a.load()]);
    let s = Scalar::from_words(&s.load());
    // A way whose s is too large has digits without meaning, of which every magnitude finds an entry all the
    // same.
    let (of_base, of_a) = (s.digits(), Scalar::from_wide_words(&challenges.load()).digits());
    let minus_a = Affine::new(&ax, &ay).negate_some(0xff);
    let choice = Choice::of_multiples(&minus_a);
    let mut point = Double::neutral();
    for place in (0..DIGITS).rev() {
        // Entries are fetched before the doublings, which hide how long that takes.
        let (magnitude, negative) = of_a.get(place);
        let entry = choice.get(magnitude).negate_some(negative);
        // The digits of s are taken two at a time.
        let other = (place % 2 == 0).then(|| {
            let (magnitude, negative) = of_base.pair(place / 2);
            base.entry(magnitude).negate_some(negative)
        });
        let sum = if place + 1 < DIGITS { shift(&point) } else { Sum::neutral() };
        let made = sum.add(&entry);
        point = match other {
            Some(other) => made.to_sum().add_affine(&other).to_double(),
            None => made.to_double(),
        };
    }
    let x = carry(&sub(&point.x.wide(), &mul(&rx, &point.z)));
    let y = carry(&sub(&point.y.wide(), &mul(&ry, &point.z)));
    r_is_point & a_is_point & s.is_below_order() & x.is_zero() & y.is_zero()
}
