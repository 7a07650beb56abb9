//! Multiples of points eight ways at once, and inverses.
//!
//! Scalars are cut into digits with signs (Booth): a digit of `w` bits is between −2^(w−1) and 2^(w−1). Every
//! table entry is read for each digit, and a mask or a permutation inside registers picks the way's: no
//! branch and no address depends on a scalar.
//!
//! Why no addition of a secret multiple meets equal or opposite points, for scalars k between zero and the
//! order n:
//! - [`multiply`], w = 5, from the highest digit down. Before a digit d is added, the sum is 32 K P with K
//!   the digits above. As integers, 32 K and ±d are equal only if both are zero. Modulo n they are congruent
//!   only if 32 K is n + d or n − d, which only the lowest digit reaches, where 32 K + d = k. The first needs
//!   d = 15 and k = n + 30, because n is 17 modulo 32 and digits end at −16; the second is k = n.
//! - [`multiply_base`], w = 6, from the lowest digit up. Before d · W with W = 2^(6 i) is added, the sum is
//!   below 33/64 W in magnitude, so that it equals ±d · W only if both are zero. Modulo n they are congruent
//!   only if d · W is within 33/64 W of n, which only d = 16 at the top reaches (2^256 − n is below 2^224):
//!   then the sum is 2^256 − n and k = 2^257 − n, above n, or the sum is n − 2^256 and k = n.

use super::comb::{COMB, POINTS, WIDTH, WINDOWS, integer_of, limbs_of};
use super::field::{Element, Order, Prime, Ring};
use super::integer::U256;
use super::inverse;
use super::points::{AffinePoint, Fe, Point, Signs, add_affine, double};
use super::vector::*;

/// The points of a table of [`multiply`].
const TABLE: usize = 16;
/// The digits of [`multiply`].
const DIGITS: usize = 52;

/// A table of the multiples 1 to 16 of a point.
pub(super) type Table = [AffinePoint; TABLE];

/// Returns digit `index` of the scalars, of `width` bits: the magnitude, and where it is negative.
#[inline(always)]
fn digit(scalar: &[V; 5], width: u32, index: usize) -> (V, Mask) {
    // A digit is its bits plus the highest bit of the digit below, less twice its own highest bit.
    let bits = if index == 0 {
        left::<1>(scalar[0])
    } else {
        let at = width as usize * index - 1;
        let (limb, shift) = (at / 52, (at % 52) as u64);
        let above = if limb < 4 { left_by(scalar[limb + 1], 52 - shift) } else { zero() };
        or(right_by(scalar[limb], shift), above)
    };
    let ones = splat((2 << width) - 1);
    let bits = and(bits, ones);
    let is_negative = any_common(bits, splat(1 << width));
    let magnitude = blend(is_negative, bits, xor(bits, ones));
    (right::<1>(add(magnitude, splat(1))), is_negative)
}

/// Returns the multiples of the base point by the scalars, which are below the order. Z is zero for a scalar
/// of zero.
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(super) fn multiply_base(scalar: &[V; 5]) -> Point {
    let mut sum = Point { x: Fe::one(), w: Fe::one(), z: Fe::one() };
    let mut neutral: Mask = !0;
    add_base(&mut sum, &mut neutral, scalar);
    sum.z = Fe::blend(neutral, &sum.z, &Fe::new([zero(); 5]));
    sum
}

/// Adds the multiples of the base point by the scalars.
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(super) fn add_base(sum: &mut Point, neutral: &mut Mask, scalar: &[V; 5]) {
    for (index, window) in COMB.iter().enumerate().take(WINDOWS) {
        let (magnitude, negated) = digit(scalar, WIDTH, index);
        // Entry j has the magnitude j + 1.
        let entry = sub(magnitude, splat(1));
        let is_high = any_common(entry, splat(POINTS as u64 / 2));
        let mut limbs = [zero(); 10];
        for (limb, row) in limbs.iter_mut().zip(&window.0) {
            let (rows, _) = row.as_chunks::<8>();
            let lower = pick(load(&rows[0]), entry, load(&rows[1]));
            let upper = pick(load(&rows[2]), entry, load(&rows[3]));
            *limb = blend(is_high, lower, upper);
        }
        let [x0, x1, x2, x3, x4, w0, w1, w2, w3, w4] = limbs;
        let other = AffinePoint { x: Fe::new([x0, x1, x2, x3, x4]), w: Fe::new([w0, w1, w2, w3, w4]) };
        let nothing = equal(magnitude, zero());
        add_affine(sum, neutral, &other, Signs { negated, nothing });
    }
}

/// Returns the multiples 1 to 16 of points of the curve.
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(super) fn multiples(point: &AffinePoint) -> Table {
    let mut sum = Point { x: point.x, w: point.w, z: Fe::one() };
    let mut points = [sum; TABLE];
    double(&mut sum);
    points[1] = sum;
    for slot in &mut points[2..] {
        add_affine(&mut sum, &mut 0, point, Signs { negated: 0, nothing: 0 });
        *slot = sum;
    }
    // One inversion serves all multiples: products[i] is that of the z up to multiple i.
    let mut products = [Fe::one(); TABLE];
    for i in 1..TABLE {
        products[i] = products[i - 1].mul(&points[i].z);
    }
    let mut inverse = invert(&products[TABLE - 1]);
    let mut table = [*point; TABLE];
    for i in (1..TABLE).rev() {
        let own = inverse.mul(&products[i - 1]);
        inverse = inverse.mul(&points[i].z);
        let square = own.square();
        table[i] = AffinePoint { x: points[i].x.mul(&square), w: points[i].w.mul(&square.mul(&own)) };
    }
    table
}

/// Returns the multiples of the points of a table by the scalars, which are between zero and the order, and
/// where the multiple is still neutral (the scalar is zero).
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(super) fn multiply(table: &Table, scalar: &[V; 5]) -> (Point, Mask) {
    let mut sum = Point { x: Fe::one(), w: Fe::one(), z: Fe::one() };
    let mut neutral: Mask = !0;
    for index in (0..DIGITS).rev() {
        if index < DIGITS - 1 {
            for _ in 0..5 {
                double(&mut sum);
            }
        }
        let (magnitude, negated) = digit(scalar, 5, index);
        let mut other = table[0];
        for (entry, point) in table.iter().enumerate().skip(1) {
            let is_own = equal(magnitude, splat(entry as u64 + 1));
            other.x = Fe::blend(is_own, &other.x, &point.x);
            other.w = Fe::blend(is_own, &other.w, &point.w);
        }
        let nothing = equal(magnitude, zero());
        add_affine(&mut sum, &mut neutral, &other, Signs { negated, nothing });
    }
    (sum, neutral)
}

/// A ring in which one inversion serves all ways.
pub(super) trait Inverse: Ring {
    /// Returns the inverse of an integer below the modulus, in constant time.
    fn invert_one(value: &U256) -> U256;
}

impl Inverse for Prime {
    fn invert_one(value: &U256) -> U256 {
        inverse::invert(value, &inverse::PRIME)
    }
}

impl Inverse for Order {
    fn invert_one(value: &U256) -> U256 {
        inverse::invert(value, &inverse::ORDER)
    }
}

/// Returns the inverses, in Montgomery form; of zero, zero.
///
/// The product of all ways is inverted once, and the products of the other ways take it to each way
/// (Montgomery's trick): six multiplications and one scalar inversion.
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(super) fn invert<R: Inverse>(value: &Element<R>) -> Element<R> {
    let is_zero = value.leave().is_zero();
    let own = Element::blend(is_zero, value, &Element::one());
    let neighbour = permuted(&own, swap_one);
    let pair = own.mul(&neighbour);
    let other_pair = permuted(&pair, swap_two);
    let four = pair.mul(&other_pair);
    let other_four = permuted(&four, swap_four);
    let all = four.mul(&other_four).leave().store();
    let product = integer_of(all.map(|limb| limb[0]));
    let inverse = Element::constant(limbs_of(&R::invert_one(&product))).enter();
    let inverse = inverse.mul(&other_four).mul(&other_pair).mul(&neighbour);
    Element::blend(is_zero, &inverse, &Element::new([zero(); 5]))
}

#[inline(always)]
fn permuted<R: Ring>(value: &Element<R>, permute: impl Fn(V) -> V) -> Element<R> {
    let mut limbs = value.0;
    for limb in &mut limbs {
        *limb = permute(*limb);
    }
    Element::new(limbs)
}
