//! Points of P-256 eight ways at once: Jacobian coordinates with a doubled y, complete by masks.
//!
//! A point (X, W, Z) stands for x = X/Z², y = W/(2 Z³): the doubled y spares halves and doublings in the
//! formulas. Doubling holds for all points, because the group has no point of order two. Addition of an
//! affine point holds unless both points are equal or opposite, or one is neutral. The neutral cases are
//! masks: a digit of zero keeps the sum, and a sum that has met only zeros is replaced. Equal and opposite
//! points are excluded by the arguments of [`super::ways`] where scalars are secret; elsewhere they are
//! found afterwards, because they make Z zero, and Z stays zero in all later doublings and additions.
//!
//! Bounds, in multiples of p: X < 1.01, W < 6, Z < 4 between operations; affine x and w < 1.2.

use super::field::{Element, Prime, Product, Square, difference, pair};
use super::vector::*;

/// A number of the field.
pub(super) type Fe = Element<Prime>;

/// A point, as the module says.
#[derive(Clone, Copy)]
pub(super) struct Point {
    pub(super) x: Fe,
    pub(super) w: Fe,
    pub(super) z: Fe,
}

impl Point {
    /// Overwrites the point.
    #[inline(always)]
    pub(super) fn wipe(&mut self) {
        self.x.wipe();
        self.w.wipe();
        self.z.wipe();
    }
}

/// An affine point: x and twice y.
#[derive(Clone, Copy)]
pub(super) struct AffinePoint {
    pub(super) x: Fe,
    pub(super) w: Fe,
}

/// The summand of each way: the point or its negation, or nothing.
#[derive(Clone, Copy)]
pub(super) struct Signs {
    /// The ways in which the point is negated.
    pub(super) negated: Mask,
    /// The ways in which nothing is added.
    pub(super) nothing: Mask,
}

/// Doubles a point: four multiplications and four squarings.
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
#[inline(never)]
pub(super) fn double(point: &mut Point) {
    let Point { x, w, z } = *point;
    let delta = z.squared(); // < 2
    let gamma = w.square(); // 4 y², < 3.25
    let plus = x.sum().plus(&delta).carry(); // < 3.01
    let minus = x.sum().minus(&delta).bias::<2>().carry(); // < 3.01
    let third = plus.times(&minus); // < 1.57
    let beta = x.times(&gamma); // 4 x y², < 1.21
    let alpha = third.shift::<1>().plus(&third).carry(); // < 4.71
    // < 2.4 + 3, and 2 beta < 3.
    let x3 = alpha.squared().minus(&beta.shift::<1>()).bias::<3>().reduce(); // < 1.01
    let z3 = w.mul(&z); // < 1 + 6 · 4 / 16
    let rest = beta.minus(&x3.sum()).bias::<2>().carry(); // < 3.21
    // 2 · alpha · rest − 16 y⁴: < 2 · 4.71 · 3.21 / 16 + 1 + 1, and 3.25² / 16 < 1.
    let w3 = difference::<_, 1, 0>(Product(&alpha, &rest), Square(&gamma)).bias::<1>().carry();
    *point = Point { x: x3, w: w3, z: z3 };
}

/// Adds an affine point: eight multiplications and three squarings. `neutral` says where the sum is neutral
/// so far.
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
#[inline(never)]
pub(super) fn add_affine(point: &mut Point, neutral: &mut Mask, other: &AffinePoint, signs: Signs) {
    let Point { x: x1, w: w1, z: z1 } = *point;
    let AffinePoint { x: x2, w: w2 } = *other;
    let zz = z1.square(); // < 2
    let (zzz, u2) = pair(Product(&z1, &zz), Product(&x2, &zz));
    let zzz = zzz.carry(); // < 1.5
    let h = u2.minus(&x1.sum()).bias::<2>().carry(); // < 1.15 + 2
    let (s2, hh) = pair(Product(&w2, &zzz), Square(&h));
    // |s2| < 1.12.
    // Twice the textbook's, < 9.12.
    let r = s2.negate_where(signs.negated).minus(&w1.sum()).bias::<8>().carry();
    let i = hh.shift::<2>().carry(); // 4 h², < 4 · 1.63
    let (j, v) = pair(Product(&h, &i), Product(&x1, &i));
    let j = j.carry(); // 4 h³, < 2.3; v < 1.42
    let (square, z3) = pair(Square(&r), Product(&z1, &h));
    // < 1 + 9.12² / 16 + 6 = 12.2; j + 2 v < 5.2.
    let x3 = square.minus(&j.sum()).minus(&v.shift::<1>()).bias::<6>();
    let x3 = x3.or_where(signs.nothing, &x1.sum()).or_where(*neutral, &x2.sum()).reduce(); // < 1.01
    let z3 = z3.shift::<1>(); // < 2 · (1 + 4 · 3.15 / 16) < 4
    let z3 = z3.or_where(signs.nothing, &z1.sum()).or_where(*neutral, &Fe::one().sum()).carry();
    let rest = v.minus(&x3.sum()).bias::<2>().carry(); // < 3.42
    // < 2 · 9.12 · 3.42 / 16 + 1 + 2, and 2 · 6 · 2.3 / 16 < 2.
    let w3 = difference::<_, 1, 1>(Product(&r, &rest), Product(&w1, &j)).bias::<2>();
    let own = w2.sum().negate_where(signs.negated).bias::<2>();
    let w3 = w3.or_where(signs.nothing, &w1.sum()).or_where(*neutral, &own).reduce(); // < 1.01
    *neutral &= signs.nothing;
    *point = Point { x: x3, w: w3, z: z3 };
}

/// Returns where an affine point (x, y) is on the curve: y² = x³ − 3 x + b, for x and y below 1.1.
#[inline(always)]
pub(super) fn is_on_curve(x: &Fe, y: &Fe) -> Mask {
    let difference = y.squared().minus(&curve_at(x).sum()).bias::<2>();
    difference.reduce().minus_modulus().is_zero()
}

/// Returns x³ − 3 x + b, below 1.01, for x below 1.1.
#[inline(always)]
pub(super) fn curve_at(x: &Fe) -> Fe {
    // b · 2^260 modulo p.
    let b = Fe::constant([
        0xd_f622_9c4b_ddfd,
        0xc_a884_3090_d89c,
        0x2_12ed_6acf_005c,
        0x8_3415_a220_abf7,
        0xc300_61dd_4874,
    ]);
    let thrice = x.sum().shift::<1>().plus(&x.sum());
    x.square().times(x).minus(&thrice).plus(&b.sum()).bias::<4>().reduce()
}

/// Squares `count` times.
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn squares(x: &Fe, count: usize) -> Fe {
    let mut power = *x;
    for _ in 0..count {
        power = power.square();
    }
    power
}

/// Returns x^(2^32 − 1).
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn power_32_ones(x: &Fe) -> Fe {
    let x2 = squares(x, 1).mul(x);
    let x4 = squares(&x2, 2).mul(&x2);
    let x8 = squares(&x4, 4).mul(&x4);
    let x16 = squares(&x8, 8).mul(&x8);
    squares(&x16, 16).mul(&x16)
}

/// Returns x^((p + 1) / 4): a root of x, or of −x.
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(super) fn square_root(x: &Fe) -> Fe {
    // (p + 1) / 4 is (2^32 − 1) · 2^222 + 2^190 + 2^94.
    let power = squares(&power_32_ones(x), 32).mul(x);
    squares(&squares(&power, 96).mul(x), 94)
}
