//! ECDSA on P-256 for up to eight jobs at a time; see [`super::ways`].
//!
//! `unsafe`: calls of functions with target features under the token.
#![allow(unsafe_code)]

use arrayvec::ArrayVec;
use zeroize::Zeroize as _;

use super::field::{Element, Order, Ring as _};
use super::integer::{self, U256};
use super::key::{P256PrivateKey, P256PublicKey};
use super::multiply::{add_base, invert, multiples, multiply, multiply_base};
use super::nonce_ways::{self, Input};
use super::points::{AffinePoint, Fe, is_on_curve};
use super::reference::{self, integer_of_digest, parts_of_signature};
use super::vector::*;
use super::ways::{WAYS, affine, flags, get, put};
use super::{curve, native};
use crate::isa::Avx512;
use crate::wipe;

/// The prime minus the order.
const GAP: U256 = [0x0c46_353d_039c_daae, 0x4319_0553_58e8_617b, 0, 0];

/// A signature by ECDSA.
#[derive(Debug)]
pub(crate) struct SignJob<'a> {
    /// The signer's key.
    pub(crate) key: &'a P256PrivateKey,
    /// The digest, of at least 20 bytes.
    pub(crate) digest: &'a [u8],
    /// The additional data of RFC 6979 section 3.6, or none.
    pub(crate) hedge: Option<&'a [u8; 32]>,
    /// Whether the signature is verified before it is released, which costs four times as much as to sign.
    pub(crate) check: bool,
    /// r and s, big-endian; zero if there is none.
    pub(crate) signature: &'a mut [u8; 64],
}

/// A verification by ECDSA.
#[derive(Debug)]
pub(crate) struct VerifyJob<'a> {
    /// The signer's key.
    pub(crate) key: &'a P256PublicKey,
    pub(crate) digest: &'a [u8],
    /// r and s, big-endian.
    pub(crate) signature: &'a [u8; 64],
}

/// As [`reference::sign_reference`] for each of the first eight jobs: returns whether each has a signature.
///
/// Every way checks that its R is on the curve and that s · k is e + r · d, for a hundredth of the cost; a
/// way that fails has no signature. [`SignJob::check`] verifies with the public key.
pub(crate) fn sign_ways(_token: Avx512, jobs: &mut [SignJob<'_>]) -> [bool; WAYS] {
    // SAFETY: the token proves the features.
    unsafe { sign(jobs) }
}

/// As [`sign_ways`], with the nonces of published vectors.
#[cfg(test)]
pub(super) fn sign_ways_with(
    _token: Avx512,
    jobs: &mut [SignJob<'_>],
    nonces: &[U256; WAYS],
) -> [bool; WAYS] {
    // SAFETY: the token proves the features.
    unsafe { sign_with(jobs, nonces) }
}

#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn sign(jobs: &mut [SignJob<'_>]) -> [bool; WAYS] {
    // Empty ways make a nonce for the key one.
    let mut inputs = [Input { scalar: &[1, 0, 0, 0], e: [0; 4], hedge: None }; WAYS];
    for (input, job) in inputs.iter_mut().zip(&*jobs) {
        if let Some(e) = integer_of_digest(job.digest) {
            *input = Input { scalar: job.key.scalar(), e, hedge: job.hedge };
        }
    }
    let mut made = nonce_ways::nonces(&inputs);
    let outcomes = sign_with(jobs, &made);
    made.zeroize();
    outcomes
}

/// Signs with the nonce of each way.
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn sign_with(jobs: &mut [SignJob<'_>], made: &[U256; WAYS]) -> [bool; WAYS] {
    let mut outcomes = [false; WAYS];
    let (mut scalars, mut nonces, mut digests) = ([[0; WAYS]; 5], [[0; WAYS]; 5], [[0; WAYS]; 5]);
    for (way, job) in jobs.iter_mut().enumerate().take(WAYS) {
        *job.signature = [0; 64];
        let Some(e) = integer_of_digest(job.digest) else { continue };
        outcomes[way] = true;
        put(&mut scalars, way, job.key.scalar());
        put(&mut digests, way, &e);
    }
    for (way, nonce) in made.iter().enumerate() {
        put(&mut nonces, way, nonce);
    }
    let mut nonce = Element::<Order>::load(&nonces);
    let mut point = multiply_base(&nonce.0);
    let (x, y) = affine(&point);
    let r = Element::<Order>::new(x.leave().0).minus_modulus();
    let mut inverse = invert(&nonce.enter());
    // r · R · d / R, below 1.1 n.
    let product = r.enter().times(&Element::load(&scalars));
    let mut sum = product.plus(&Element::load(&digests).sum()).carry();
    let s = sum.mul(&inverse).minus_modulus();
    // A fault of the machine could reveal the key: R must be on the curve, and s · k be e + r · d.
    let repeated = s.enter().mul(&nonce).minus_modulus();
    let is_sound = is_on_curve(&x, &y) & repeated.equals(&sum.minus_modulus().minus_modulus());
    let is_zero = flags(r.is_zero() | s.is_zero());
    let is_sound = flags(is_sound);
    let (r, s) = (r.store(), s.store());
    scalars.zeroize();
    nonces.zeroize();
    nonce.wipe();
    point.wipe();
    inverse.wipe();
    sum.wipe();
    wipe::avx512();
    for (way, job) in jobs.iter_mut().enumerate().take(WAYS) {
        if !outcomes[way] {
            continue;
        }
        if is_zero[way] {
            // Another nonce is needed, with a probability of 2^-255.
            outcomes[way] = reference::sign_reference(job.key, job.digest, job.hedge, job.signature);
        } else if is_sound[way] {
            job.signature[..32].copy_from_slice(&integer::to_bytes(&get(&r, way)));
            job.signature[32..].copy_from_slice(&integer::to_bytes(&get(&s, way)));
        } else {
            outcomes[way] = false;
        }
    }
    if jobs.iter().any(|job| job.check) {
        check(jobs, &mut outcomes);
    }
    outcomes
}

/// Verifies the signatures of the jobs that ask for it, and takes wrong ones back.
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn check(jobs: &mut [SignJob<'_>], outcomes: &mut [bool; WAYS]) {
    let signed: ArrayVec<_, WAYS> = jobs
        .iter()
        .take(WAYS)
        .map(|job| VerifyJob { key: job.key.public_key(), digest: job.digest, signature: job.signature })
        .collect();
    let is_valid = verify(&signed);
    drop(signed);
    for (way, job) in jobs.iter_mut().enumerate().take(WAYS) {
        if job.check && !is_valid[way] {
            *job.signature = [0; 64];
            outcomes[way] = false;
        }
    }
}

/// As [`reference::verify_reference`] for each of the first eight jobs: returns whether each signature is
/// valid.
pub(crate) fn verify_ways(_token: Avx512, jobs: &[VerifyJob<'_>]) -> [bool; WAYS] {
    // SAFETY: the token proves the features.
    unsafe { verify(jobs) }
}

#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn verify(jobs: &[VerifyJob<'_>]) -> [bool; WAYS] {
    let mut rows = [[[0; WAYS]; 5]; 5];
    let [x_rows, y_rows, r_rows, s_rows, e_rows] = &mut rows;
    s_rows[0] = [1; WAYS];
    let (base_x, base_y) = (curve::G.x, curve::G.y);
    for way in 0..WAYS {
        put(x_rows, way, &base_x);
        put(y_rows, way, &base_y);
    }
    let (mut known, mut has_second): (Mask, Mask) = (0, 0);
    for (way, job) in jobs.iter().enumerate().take(WAYS) {
        let parts = parts_of_signature(job.signature);
        let Some((e, (r, s))) = integer_of_digest(job.digest).zip(parts) else { continue };
        known |= 1 << way;
        // Another x below the prime has the same r only if r + n is below it.
        has_second |= if bool::from(integer::is_below(&r, &GAP)) { 1 << way } else { 0 };
        let point = job.key.point();
        for (rows, value) in
            [(&mut *x_rows, &point.x), (y_rows, &point.y), (r_rows, &r), (s_rows, &s), (e_rows, &e)]
        {
            put(rows, way, value);
        }
    }
    let x = Fe::load(x_rows).enter();
    let w = {
        let y = Fe::load(y_rows).enter().sum();
        y.plus(&y).reduce()
    };
    let (r, e) = (Element::<Order>::load(r_rows), Element::<Order>::load(e_rows));
    let inverse = invert(&Element::<Order>::load(s_rows).enter());
    let (u, v) = (e.mul(&inverse).minus_modulus(), r.mul(&inverse).minus_modulus());
    let (mut sum, mut neutral) = multiply(&multiples(&AffinePoint { x, w }), &v.0);
    add_base(&mut sum, &mut neutral, &u.0);
    // X is r · Z² or (r + n) · Z².
    let square = sum.z.square();
    let x = sum.x.canonical();
    let r_field = Fe::new(r.0);
    let order = Fe::constant(Order::LIMBS);
    let first = r_field.enter().mul(&square).canonical().equals(&x);
    let second_r = r_field.sum().plus(&order.sum()).carry();
    let second = second_r.enter().mul(&square).canonical().equals(&x) & has_second;
    // An addition of equal or opposite points left Z zero: AWS-LC decides, also about a neutral sum.
    let is_open = flags(sum.z.canonical().is_zero() | neutral);
    let is_valid = flags((first | second) & known);
    let known = flags(known);
    core::array::from_fn(|way| match jobs.get(way) {
        Some(job) if known[way] && is_open[way] => native::verify_native(job.key, job.digest, job.signature),
        Some(_) => is_valid[way],
        None => false,
    })
}
