//! P-256 for up to eight jobs at a time, the batch tier: ECDH and public keys; [`super::ecdsa_ways`] has
//! signatures.
//!
//! All ways run the same instructions, and ways without a valid job run those of a dummy. No branch and no
//! address depends on a private key, a nonce or a shared secret; public inputs (points, signatures, digests)
//! may decide. Costs in multiplications of the field, each for eight ways:
//! - a multiple of the base point: 43 additions of 11;
//! - of any point: 255 doublings of 8, 52 additions of 11, and 14 more for the table, which 9 a multiple make
//!   affine;
//! - verification: both; signing: the first, an inversion in the field and one modulo the order, and RFC
//!   6979.
//!
//! An addition has 690 and a doubling 460 IFMA, so that on a core with one 512-bit IFMA a cycle (Zen 4) the
//! floors of a batch are 30 k cycles (signing), 172 k (ECDH) and 202 k (verification), and with two half of
//! them. Measured on Zen 4: 73 k with nonces and inversions, 250 k and 294 k.
//!
//! `unsafe`: calls of functions with target features under the token.
#![allow(unsafe_code)]

use zeroize::Zeroize as _;

use super::comb::{integer_of, limbs_of};
use super::curve::Affine;
use super::integer::{self, P, U256};
use super::key::{P256PrivateKey, P256PublicKey};
use super::multiply::{invert, multiples, multiply, multiply_base};
use super::points::{AffinePoint, Fe, Point, curve_at, is_on_curve, square_root};
use super::vector::*;
use crate::isa::Avx512;
use crate::wipe;

/// The ways of a batch.
pub(crate) const WAYS: usize = 8;

/// One limb of eight ways, and all five.
pub(super) type Rows = [[u64; WAYS]; 5];

/// The base point's x and 2 y in Montgomery form.
const BASE_X: [u64; 5] =
    [0x3_0d41_8a91_43c1, 0xc_4fed_b601_79e7, 0x6_2251_075b_a95f, 0x5_c669_fb73_2b77, 0x8905_f76b_5375];
const BASE_W: [u64; 5] =
    [0xa_6af9_d2aa_c150, 0x8_7433_c8b9_bbe4, 0x4_3e64_b169_571c, 0xb_0aa5_d10d_11ba, 0xae3f_e314_b10b];

/// (p + 1) / 2 in Montgomery form.
const HALF: [u64; 5] = [0x8, 0xf_8000_0000_0000, 0xf_ffff_ffff_ffff, 0xf_ff7f_ffff_ffff, 0x7_ffff];

/// An agreement of a key for ECDH.
#[derive(Debug)]
pub(crate) struct EcdhJob<'a> {
    /// Our private key.
    pub(crate) key: &'a P256PrivateKey,
    /// The peer's point: 65 bytes, or 33 compressed.
    pub(crate) peer: &'a [u8],
    /// The x coordinate of the shared point, big-endian; zero if the peer's point is refused.
    pub(crate) shared: &'a mut [u8; 32],
}

/// Puts an integer into a way.
pub(super) fn put(rows: &mut Rows, way: usize, value: &U256) {
    for (row, limb) in rows.iter_mut().zip(limbs_of(value)) {
        row[way] = limb;
    }
}

/// Returns the integer of a way.
pub(super) fn get(rows: &Rows, way: usize) -> U256 {
    integer_of(rows.map(|row| row[way]))
}

/// Returns the bits of a mask.
pub(super) fn flags(mask: Mask) -> [bool; WAYS] {
    core::array::from_fn(|way| mask >> way & 1 == 1)
}

/// As [`super::reference::ecdh_reference`] for each of the first eight jobs: returns whether each peer's
/// point is valid.
pub(crate) fn ecdh_ways(_token: Avx512, jobs: &mut [EcdhJob<'_>]) -> [bool; WAYS] {
    // SAFETY: the token proves the features.
    unsafe { ecdh(jobs) }
}

#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn ecdh(jobs: &mut [EcdhJob<'_>]) -> [bool; WAYS] {
    let (mut x, mut y, mut scalars) = ([[0; WAYS]; 5], [[0; WAYS]; 5], [[0; WAYS]; 5]);
    let (mut known, mut compressed, mut odd): (Mask, Mask, Mask) = (0, 0, 0);
    for (way, job) in jobs.iter_mut().enumerate().take(WAYS) {
        *job.shared = [0; 32];
        put(&mut scalars, way, job.key.scalar());
        let bit = 1 << way;
        match (job.peer.len(), job.peer.first()) {
            (65, Some(4)) => {
                known |= bit;
                put_bytes(&mut x, way, &job.peer[1..33], &mut known);
                put_bytes(&mut y, way, &job.peer[33..], &mut known);
            }
            (33, Some(tag @ (2 | 3))) => {
                known |= bit;
                compressed |= bit;
                odd |= if *tag == 3 { bit } else { 0 };
                put_bytes(&mut x, way, &job.peer[1..], &mut known);
            }
            _ => {}
        }
    }
    let x = Fe::load(&x).enter();
    let mut y = Fe::load(&y).enter();
    if compressed != 0 {
        let root = square_root(&curve_at(&x));
        let is_odd = any_common(root.leave().0[0], splat(1));
        let root = root.sum().negate_where(is_odd ^ odd).bias::<2>().reduce();
        y = Fe::blend(compressed, &y, &root);
    }
    let is_valid = known & is_on_curve(&x, &y);
    // The other ways multiply the base point.
    let base = AffinePoint { x: Fe::constant(BASE_X), w: Fe::constant(BASE_W) };
    let w = y.sum().plus(&y.sum()).reduce();
    let point = AffinePoint { x: Fe::blend(is_valid, &base.x, &x), w: Fe::blend(is_valid, &base.w, &w) };
    let table = multiples(&point);
    let mut scalar = Fe::load(&scalars);
    let (mut product, _) = multiply(&table, &scalar.0);
    let (mut x, mut y) = affine(&product);
    // A fault of the machine could leave the curve, and reveal the key.
    let outcomes = flags(is_valid & is_on_curve(&x, &y));
    let mut shared = x.leave().store();
    for (way, job) in jobs.iter_mut().enumerate().take(WAYS) {
        if outcomes[way] {
            *job.shared = integer::to_bytes(&get(&shared, way));
        }
    }
    shared.zeroize();
    scalars.zeroize();
    scalar.wipe();
    product.wipe();
    x.wipe();
    y.wipe();
    wipe::avx512();
    outcomes
}

/// Puts a coordinate into a way, and clears the way's bit if it is not below the prime.
fn put_bytes(rows: &mut Rows, way: usize, bytes: &[u8], known: &mut Mask) {
    let mut array = [0; 32];
    array.copy_from_slice(bytes);
    let value = integer::from_bytes(&array);
    if !bool::from(P.contains(&value)) {
        *known &= !(1 << way);
    }
    put(rows, way, &value);
}

/// Returns x and y, in Montgomery form, of points whose Z is not zero.
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(super) fn affine(point: &Point) -> (Fe, Fe) {
    let inverse = invert(&point.z);
    let square = inverse.square();
    let w = point.w.mul(&square.mul(&inverse));
    (point.x.mul(&square), w.mul(&Fe::constant(HALF)))
}

/// Returns the public keys of the first eight private keys; none for a way that a fault took off the curve.
pub(crate) fn public_keys_ways(_token: Avx512, keys: &[&P256PrivateKey]) -> [Option<P256PublicKey>; WAYS] {
    // SAFETY: the token proves the features.
    unsafe { public_keys(keys) }
}

#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn public_keys(keys: &[&P256PrivateKey]) -> [Option<P256PublicKey>; WAYS] {
    let mut scalars = [[0; WAYS]; 5];
    for (way, key) in keys.iter().enumerate().take(WAYS) {
        put(&mut scalars, way, key.scalar());
    }
    let mut scalar = Fe::load(&scalars);
    let mut point = multiply_base(&scalar.0);
    let (x, y) = affine(&point);
    let is_sound = flags(is_on_curve(&x, &y));
    let (x, y) = (x.leave().store(), y.leave().store());
    scalars.zeroize();
    scalar.wipe();
    point.wipe();
    wipe::avx512();
    core::array::from_fn(|way| {
        (way < keys.len() && is_sound[way])
            .then(|| P256PublicKey::of_point(Affine { x: get(&x, way), y: get(&y, way) }))
    })
}
