//! The points of P-256, as SP 800-186 defines the curve.
//!
//! Points are projective and are added by the complete formulas of Renes, Costello and Batina (EUROCRYPT
//! 2016, algorithm 4, for a = −3), which hold for all points, the neutral one and doublings included. A
//! multiplication doubles and adds for each bit, and a mask decides which sum stays. No branch and no address
//! depends on a secret.

use subtle::{Choice, ConstantTimeEq as _};

use super::integer::{self, P, U256};

/// The coefficient b of the curve y² = x³ − 3x + b.
const B: U256 = [0x3bce_3c3e_27d2_604b, 0x651d_06b0_cc53_b0f6, 0xb3eb_bd55_7698_86bc, 0x5ac6_35d8_aa3a_93e7];

/// The base point.
pub(super) const G: Affine = Affine {
    x: [0xf4a1_3945_d898_c296, 0x7703_7d81_2deb_33a0, 0xf8bc_e6e5_63a4_40f2, 0x6b17_d1f2_e12c_4247],
    y: [0xcbb6_4068_37bf_51f5, 0x2bce_3357_6b31_5ece, 0x8ee7_eb4a_7c0f_9e16, 0x4fe3_42e2_fe1a_7f9b],
};

/// Returns the prime of the field, and b in Montgomery form, for loops whose operations are counted.
pub(crate) fn field_constants() -> [[u64; 4]; 2] {
    [P.value, P.enter(&B)]
}

/// A point of the curve that is not the neutral one, by its coordinates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Affine {
    pub(super) x: U256,
    pub(super) y: U256,
}

/// A point of the curve by projective coordinates in Montgomery form: (X/Z, Y/Z), neutral if Z is zero.
#[derive(Clone, Copy)]
pub(super) struct Projective {
    pub(super) x: U256,
    pub(super) y: U256,
    pub(super) z: U256,
}

impl Affine {
    /// Returns the point with these coordinates, if both are below the prime and the point is on the curve.
    pub(super) fn new(x: U256, y: U256) -> Option<Self> {
        let is_point = P.contains(&x)
            & P.contains(&y)
            & curve_at(&P.enter(&x)).ct_eq(&{
                let y = P.enter(&y);
                P.mul(&y, &y)
            });
        bool::from(is_point).then_some(Self { x, y })
    }

    /// Returns the point with this x and the parity of y, if there is one.
    pub(super) fn decompress(x: U256, is_odd: bool) -> Option<Self> {
        let y = P.leave(&integer::square_root(&curve_at(&P.enter(&P.reduce(&x)))));
        let y = if (y[0] & 1 == 1) == is_odd { y } else { P.sub(&[0; 4], &y) };
        Self::new(x, y)
    }
}

/// Returns x³ − 3x + b, in Montgomery form as x.
fn curve_at(x: &U256) -> U256 {
    let mut value = P.mul(&P.mul(x, x), x);
    for _ in 0..3 {
        value = P.sub(&value, x);
    }
    P.add(&value, &P.enter(&B))
}

impl Projective {
    /// The neutral point.
    pub(super) fn neutral() -> Self {
        Self { x: [0; 4], y: P.one, z: [0; 4] }
    }

    /// The base point.
    pub(super) fn base() -> Self {
        Self::new(&G)
    }

    pub(super) fn new(point: &Affine) -> Self {
        Self { x: P.enter(&point.x), y: P.enter(&point.y), z: P.one }
    }

    /// Returns the sum of any two points.
    pub(super) fn add(&self, other: &Self) -> Self {
        let cross = |a: &U256, b: &U256, c: &U256, d: &U256| P.add(&P.mul(a, d), &P.mul(b, c));
        let thrice = |a: &U256| P.add(a, &P.add(a, a));
        let b = P.enter(&B);
        let xx = P.mul(&self.x, &other.x);
        let yy = P.mul(&self.y, &other.y);
        let zz = P.mul(&self.z, &other.z);
        let xy = cross(&self.x, &self.y, &other.x, &other.y);
        let yz = cross(&self.y, &self.z, &other.y, &other.z);
        let xz = cross(&self.x, &self.z, &other.x, &other.z);
        let shift = thrice(&P.sub(&xz, &P.mul(&b, &zz)));
        let (minus, plus) = (P.sub(&yy, &shift), P.add(&yy, &shift));
        let v = thrice(&P.sub(&P.sub(&P.mul(&b, &xz), &thrice(&zz)), &xx));
        let w = thrice(&P.sub(&xx, &zz));
        Self {
            x: P.sub(&P.mul(&xy, &plus), &P.mul(&yz, &v)),
            y: P.add(&P.mul(&plus, &minus), &P.mul(&w, &v)),
            z: P.add(&P.mul(&yz, &minus), &P.mul(&xy, &w)),
        }
    }

    /// Returns the multiple of the point by a secret.
    pub(super) fn multiply(&self, scalar: &U256) -> Self {
        let mut sum = Self::neutral();
        for bit in (0..256).rev() {
            let double = sum.add(&sum);
            let more = double.add(self);
            let choice = Choice::from((scalar[bit / 64] >> (bit % 64)) as u8 & 1);
            sum = Self {
                x: integer::select(&double.x, &more.x, choice),
                y: integer::select(&double.y, &more.y, choice),
                z: integer::select(&double.z, &more.z, choice),
            };
        }
        sum
    }

    /// Returns the coordinates; zeros, which are no point, for the neutral one.
    pub(super) fn affine(&self) -> Affine {
        let inverse = P.invert(&self.z);
        Affine { x: P.leave(&P.mul(&self.x, &inverse)), y: P.leave(&P.mul(&self.y, &inverse)) }
    }
}

/// Returns the public point of a private key.
pub(super) fn public_point(scalar: &U256) -> Affine {
    Projective::base().multiply(scalar).affine()
}
