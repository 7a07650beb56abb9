//! X25519 eight ways at once.
//!
//! The ladder keeps the sums and differences of both points' coordinates: A = X2 + Z2, B = X2 - Z2, C = X3 +
//! Z3, D = X3 - Z3. To exchange the points is to exchange A with C and B with D, which changes neither (DA +
//! CB)^2 nor (DA - CB)^2, so a mask chooses only what is doubled. The highest bit of a scalar is one and its
//! last three are zero: the ladder begins with the point and its double, and ends with three doublings.
//!
//! `unsafe`: calls of functions whose CPU features the token proves.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use super::{Agreement, PublicOf};
use crate::curve25519::base::Base;
use crate::curve25519::field::{self, Fe, Rows, V, Wide, carry, mul, mul_small, select, splat, square};
use crate::curve25519::reference::{bytes_of, words_of};
use crate::curve25519::scalar::Scalar;
use crate::curve25519::{WAYS, scrub};
use crate::isa::Avx512;
use crate::wipe::wipe;

/// Computes up to eight shared secrets, each with its own key; `false` for those that are zero, and for ways
/// without a job.
pub(crate) fn shared(_: Avx512, jobs: &mut [Agreement<'_>]) -> [bool; WAYS] {
    assert!(jobs.len() <= WAYS, "a batch has eight ways");
    let (mut scalars, mut points) = (Rows::ZERO, Rows::ZERO);
    for (way, job) in jobs.iter().enumerate() {
        scalars.set(way, &words_of(job.key.scalar()));
        points.set(way, &words_of(job.peer));
    }
    // SAFETY: the token proves the features.
    let (mut made, zero) = unsafe { shared_rows(&scalars, &points) };
    for (way, job) in jobs.iter_mut().enumerate() {
        *job.shared = bytes_of(&made.get(way));
    }
    wipe(&mut scalars.0, [0; WAYS]);
    wipe(&mut made.0, [0; WAYS]);
    scrub();
    core::array::from_fn(|way| way < jobs.len() && zero >> way & 1 == 0)
}

/// Computes up to eight public keys.
pub(crate) fn public(token: Avx512, jobs: &mut [PublicOf<'_>]) {
    assert!(jobs.len() <= WAYS, "a batch has eight ways");
    let mut scalars = Rows::ZERO;
    for (way, job) in jobs.iter().enumerate() {
        scalars.set(way, &words_of(job.key.scalar()));
    }
    // SAFETY: the token proves the features.
    let made = unsafe { public_rows(&scalars, Base::get(token)) };
    for (way, job) in jobs.iter_mut().enumerate() {
        *job.public = bytes_of(&made.get(way));
    }
    wipe(&mut scalars.0, [0; WAYS]);
    scrub();
}

/// Returns u = (1 + y) / (1 - y) of the multiples of the base point of Edwards's form. The scalars are
/// multiples of eight and below eight times the order, so none of the points is neutral.
#[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
fn public_rows(scalars: &Rows<4>, base: Base) -> Rows<4> {
    let digits = Scalar::from_words(&scalars.load()).reduce().digits();
    let (_, y, z) = base.multiply(&digits).coordinates();
    let above = carry(&field::add(&z.wide(), &y.wide()));
    let below = carry(&field::sub(&z.wide(), &y.wide()));
    Rows::store(&field::times(&above, &field::invert(&below)).to_words())
}

/// The four values that a step of the ladder begins with.
struct Step {
    a: Fe,
    b: Fe,
    c: Fe,
    d: Fe,
}

/// Doubles the point whose sum and difference are given; returns X and Z before their carries.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
fn double(sum: &Fe, difference: &Fe) -> (Wide, Wide) {
    let (aa, bb) = (square(sum), square(difference));
    let e = carry(&field::sub(&aa, &bb));
    let x = mul(&carry(&aa), &carry(&bb));
    let z = mul(&e, &carry(&mul_small(&aa, &e, 121_665)));
    (x, z)
}

/// Goes one bit of the scalar further: ways of `swap` double the second point, the others the first.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
fn step(s: &Step, x1: &Fe, swap: __mmask8) -> Step {
    // The order keeps what waits for a result apart from what made it.
    let (a, b) = (select(swap, &s.a, &s.c), select(swap, &s.b, &s.d));
    let (da, cb) = (mul(&s.d, &s.a), mul(&s.c, &s.b));
    let (aa, bb) = (square(&a), square(&b));
    let sum = carry(&field::add(&da, &cb));
    let difference = carry(&field::sub(&da, &cb));
    let e = carry(&field::sub(&aa, &bb));
    let x3 = square(&sum);
    let square = square(&difference);
    let x2 = mul(&carry(&aa), &carry(&bb));
    let z3 = mul(x1, &carry(&square));
    let z2 = mul(&e, &carry(&mul_small(&aa, &e, 121_665)));
    Step {
        a: carry(&field::add(&x2, &z2)),
        b: carry(&field::sub(&x2, &z2)),
        c: carry(&field::add(&x3, &z3)),
        d: carry(&field::sub(&x3, &z3)),
    }
}

#[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
fn shared_rows(scalars: &Rows<4>, points: &Rows<4>) -> (Rows<4>, __mmask8) {
    let bits: [V; 4] = scalars.load();
    // The number itself, not below 2^255 - 19 perhaps; limbs are whole all the same.
    let x1 = Fe::from_words(&points.load());
    let one = Fe::one();
    let (c, d) = (carry(&field::add(&x1.wide(), &one.wide())), carry(&field::sub(&x1.wide(), &one.wide())));
    // After the highest bit, the points are the given one and its double; the step's first is the double.
    let (x2, z2) = double(&c, &d);
    let (a, b) = (carry(&field::add(&x2, &z2)), carry(&field::sub(&x2, &z2)));
    let mut s = Step { a, b, c, d };
    let mut last: __mmask8 = 0xff;
    for bit in (3..254).rev() {
        let now = _mm512_test_epi64_mask(bits[bit / 64], splat(1 << (bit % 64)));
        s = step(&s, &x1, now ^ last);
        last = now;
    }
    let (mut a, mut b) = (select(last, &s.a, &s.c), select(last, &s.b, &s.d));
    for _ in 0..2 {
        let (x, z) = double(&a, &b);
        (a, b) = (carry(&field::add(&x, &z)), carry(&field::sub(&x, &z)));
    }
    let (x, z) = double(&a, &b);
    let result = field::times(&carry(&x), &field::invert(&carry(&z)));
    let zero = result.is_zero();
    (Rows::store(&result.to_words()), zero)
}
