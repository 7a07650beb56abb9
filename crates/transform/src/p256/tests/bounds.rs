//! Tests of the arithmetic side by side at the bounds that its modules state: numbers that are not reduced.
//!
//! `unsafe`: calls of functions with target features under the token.
#![allow(unsafe_code)]

use super::token;
use crate::p256::comb::{integer_of, limbs_of};
use crate::p256::curve::{Projective, public_point};
use crate::p256::field::{Element, Order, Prime, Product, Ring, Square, pair};
use crate::p256::integer::{Modulus, N, P, U256};
use crate::p256::multiply::{Inverse, invert, multiply_base};
use crate::p256::points::{AffinePoint, Point, Signs, add_affine, double};
use crate::p256::ways::{affine, get, put};

/// Returns the number in all ways plus a multiple of the modulus.
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn raised<R: Ring>(value: &U256, multiples: u64) -> Element<R> {
    let mut sum = Element::<R>::constant(limbs_of(value)).sum();
    for _ in 0..multiples {
        sum = sum.plus(&Element::constant(R::LIMBS).sum());
    }
    sum.carry()
}

/// Returns the least number that is congruent to a number below 2 M.
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn least<R: Ring>(value: &Element<R>) -> U256 {
    let rows = value.minus_modulus().minus_modulus().store();
    assert!(rows.iter().flatten().all(|&limb| limb < 1 << 52));
    assert!(rows.iter().all(|row| row.iter().all(|limb| *limb == row[0])));
    integer_of(rows.map(|row| row[0]))
}

fn values(modulus: &Modulus) -> Vec<U256> {
    let mut values = vec![[0; 4], [1, 0, 0, 0], [2, 0, 0, 0], modulus.one, [u64::MAX, u64::MAX, u64::MAX, 0]];
    for i in 0..5 {
        values.push(modulus.sub(&[0; 4], &values[i]));
    }
    values.push(modulus.reduce(&[u64::MAX; 4]));
    values.push(modulus.enter(&[0x0123_4567_89ab_cdef; 4].map(|word: u64| word >> 1)));
    values
}

#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn products<R: Inverse>(modulus: &Modulus) {
    // A product of R = 2^260 is a sixteenth of one of R = 2^256.
    let times_16 = |mut value: U256| {
        for _ in 0..4 {
            value = modulus.add(&value, &value);
        }
        value
    };
    for (a, a_multiples) in values(modulus).iter().zip([0, 1, 3].into_iter().cycle()) {
        for b in &values(modulus) {
            for b_multiples in [0, 3] {
                let (x, y) = (raised::<R>(a, a_multiples), raised::<R>(b, b_multiples));
                let expected = modulus.mul(a, b);
                assert_eq!(times_16(least(&x.mul(&y))), expected, "{a:x?} {b:x?}");
                assert_eq!(times_16(least(&y.square())), modulus.mul(b, b), "{b:x?}");
                let (product, square) = pair(Product(&x, &y), Square(&y));
                assert_eq!(times_16(least(&product.carry())), expected);
                assert_eq!(times_16(least(&square.carry())), modulus.mul(b, b));
                assert_eq!(least(&x.mul(&y).enter().leave()), least(&x.mul(&y)));
                let difference = x.sum().minus(&y.sum()).bias::<4>().carry();
                assert_eq!(
                    least(&difference.enter().leave()),
                    modulus.sub(a, b),
                    "{a:x?} {b:x?} {a_multiples} {b_multiples}"
                );
            }
        }
        let inverse = invert(&raised::<R>(a, 1)).mul(&raised(a, 2));
        let is_zero = *a == [0; 4];
        assert_eq!(least(&inverse.leave()), [u64::from(!is_zero), 0, 0, 0]);
    }
}

#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn ways_of_inverses() {
    // Each way another number, two of them zero.
    let mut rows = [[0; 8]; 5];
    let numbers: [U256; 8] = core::array::from_fn(|i| [i as u64 % 5, 0, i as u64 % 5 * 77, 0]);
    for (way, number) in numbers.iter().enumerate() {
        put(&mut rows, way, number);
    }
    let inverse = invert(&Element::<Order>::load(&rows).enter()).leave().store();
    for (way, number) in numbers.iter().enumerate() {
        assert_eq!(get(&inverse, way), N.leave(&N.invert(&N.enter(number))));
    }
}

#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn points() {
    let coordinates = |point: &Point| {
        let (x, y) = affine(point);
        (least(&x.leave()), least(&y.leave()))
    };
    let base = public_point(&[1, 0, 0, 0]);
    let other = AffinePoint {
        x: raised::<Prime>(&base.x, 0).enter(),
        w: raised::<Prime>(&P.add(&base.y, &base.y), 0).enter(),
    };
    for k in [2_u64, 3, 5, 1 << 40, u64::MAX] {
        let point = multiply_base(&Element::<Order>::constant(limbs_of(&[k, 0, 0, 0])).0);
        for (w_multiples, z_multiples) in [(0, 0), (4, 2), (5, 3), (0, 3), (5, 0)] {
            let high = Point {
                x: point.x,
                w: raised(&least(&point.w.canonical()), w_multiples),
                z: raised(&least(&point.z.canonical()), z_multiples),
            };
            let mut doubled = high;
            double(&mut doubled);
            let expected = Projective::base().multiply(&[k, 0, 0, 0]);
            let twice = expected.add(&expected).affine();
            assert_eq!(coordinates(&doubled), (twice.x, twice.y));
            for negated in [0, !0] {
                let mut sum = high;
                let mut neutral = 0;
                add_affine(&mut sum, &mut neutral, &other, Signs { negated, nothing: 0 });
                let mut single = Projective::base();
                if negated != 0 {
                    single.y = P.sub(&[0; 4], &single.y);
                }
                let expected = expected.add(&single).affine();
                assert_eq!(coordinates(&sum), (expected.x, expected.y));
                // A sum that is neutral so far becomes the other point, and nothing added keeps the sum.
                let (mut fresh, mut neutral) = (high, !0);
                add_affine(&mut fresh, &mut neutral, &other, Signs { negated, nothing: 0 });
                let single = single.affine();
                assert_eq!((coordinates(&fresh), neutral), ((single.x, single.y), 0));
                let (mut kept, mut neutral) = (high, 0);
                add_affine(&mut kept, &mut neutral, &other, Signs { negated, nothing: !0 });
                assert_eq!(coordinates(&kept), coordinates(&high));
            }
        }
    }
}

#[test]
fn numbers_that_are_not_reduced() {
    if token().is_none() {
        return;
    }
    // SAFETY: the token proves the features.
    unsafe {
        products::<Prime>(&P);
        products::<Order>(&N);
        ways_of_inverses();
    }
}

#[test]
fn points_at_their_bounds() {
    if token().is_none() {
        return;
    }
    // SAFETY: the token proves the features.
    unsafe { points() }
}
