//! The multiples of the base point that multiplications of the base point side by side add: made once per
//! process.
//!
//! Window `i` of 43 has the points d · 2^(6 i) · G for d of 1 to 32, limb by limb: 32 values of a limb lie
//! together, so that a kernel reads all of them, and picks by a permutation inside registers. 110 kB, and
//! about a millisecond of the reference's arithmetic.

use std::sync::LazyLock;

use super::curve::Projective;
use super::integer::{P, U256};

/// The width of a window's digit, of which one bit is the sign.
pub(super) const WIDTH: u32 = 6;
/// The points of a window.
pub(super) const POINTS: usize = 1 << (WIDTH - 1);
/// The windows of a scalar of 256 bits.
pub(super) const WINDOWS: usize = 43;

/// A window: the five limbs of x and of 2 y, in Montgomery form with R = 2^260, of all points.
#[repr(align(64))]
pub(super) struct Window(pub(super) [[u64; POINTS]; 10]);

/// The windows, the lowest first.
pub(super) static COMB: LazyLock<Vec<Window>> = LazyLock::new(make);

fn make() -> Vec<Window> {
    let mut points = Vec::with_capacity(WINDOWS * POINTS);
    let mut base = Projective::base();
    for _ in 0..WINDOWS {
        let mut multiple = base;
        for _ in 0..POINTS {
            points.push(multiple);
            multiple = multiple.add(&base);
        }
        for _ in 0..WIDTH {
            base = base.add(&base);
        }
    }
    // One inversion serves all points: products[i] is that of all z before the point.
    let mut product = P.one;
    let mut products = Vec::with_capacity(points.len());
    for point in &points {
        products.push(product);
        product = P.mul(&product, &point.z);
    }
    let mut inverse = P.invert(&product);
    let mut windows: Vec<_> = (0..WINDOWS).map(|_| Window([[0; POINTS]; 10])).collect();
    for (index, (point, before)) in points.iter().zip(&products).enumerate().rev() {
        let own = P.mul(&inverse, before);
        inverse = P.mul(&inverse, &point.z);
        let (x, y) = (P.mul(&point.x, &own), P.mul(&point.y, &own));
        let window = &mut windows[index / POINTS].0;
        let limbs = [limbs_of(&ways_form(x)), limbs_of(&ways_form(P.add(&y, &y)))];
        for (row, limb) in window.iter_mut().zip(limbs.as_flattened()) {
            row[index % POINTS] = *limb;
        }
    }
    windows
}

/// Returns the Montgomery form with R = 2^260 of one with R = 2^256.
fn ways_form(mut form: U256) -> U256 {
    for _ in 0..4 {
        form = P.add(&form, &form);
    }
    form
}

/// Returns the five 52-bit limbs of an integer.
pub(super) fn limbs_of(value: &U256) -> [u64; 5] {
    let limb = (1 << 52) - 1;
    [
        value[0] & limb,
        (value[0] >> 52 | value[1] << 12) & limb,
        (value[1] >> 40 | value[2] << 24) & limb,
        (value[2] >> 28 | value[3] << 36) & limb,
        value[3] >> 16,
    ]
}

/// Returns the integer of five 52-bit limbs below 2^256.
pub(super) fn integer_of(limbs: [u64; 5]) -> U256 {
    [
        limbs[0] | limbs[1] << 52,
        limbs[1] >> 12 | limbs[2] << 40,
        limbs[2] >> 24 | limbs[3] << 28,
        limbs[3] >> 36 | limbs[4] << 16,
    ]
}
