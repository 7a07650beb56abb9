//! Eight points of the twisted Edwards curve at once, by complete formulas (Hisil, Wong, Carter and Dawson
//! 2008).
//!
//! Sums and differences of products are made before the carries run. Each operation returns the coordinates
//! in the form that the next one wants: a doubling squares X, Y, X + Y and Z ([`Double`]), an addition
//! multiplies Y + X, Y - X, Z and T ([`Sum`]).

use core::arch::x86_64::*;

use super::field::{self, Fe, V, Wide, add, carry, mul, negate_some, select, splat, square, sub, times};

/// The d of the curve, -121665 / 121666.
const D: [u64; 5] =
    [0x3_4dca_1359_78a3, 0x1_a828_3b15_6ebd, 0x5_e7a2_6001_c029, 0x7_39c6_63a0_3cbb, 0x5_2036_cee2_b6ff];

/// Twice d.
const D2: [u64; 5] =
    [0x6_9b94_26b2_f159, 0x3_5050_762a_dd7a, 0x3_cf44_c003_8052, 0x6_738c_c740_7977, 0x2_406d_9dc5_6dff];

/// A square root of -1.
const ROOT: [u64; 5] =
    [0x6_1b27_4a0e_a0b0, 0x0_d5a5_fc8f_189d, 0x7_ef5e_9cbd_0c60, 0x7_8595_a680_4c9e, 0x2_b832_4804_fc1d];

/// Points as a doubling wants them.
#[derive(Clone, Copy)]
pub(crate) struct Double {
    pub(crate) x: Fe,
    pub(crate) y: Fe,
    pub(crate) z: Fe,
    /// X + Y.
    pub(crate) sum: Fe,
}

/// Points as an addition wants its first operand.
#[derive(Clone, Copy)]
pub(crate) struct Sum {
    /// Y + X.
    pub(crate) plus: Fe,
    /// Y - X.
    pub(crate) minus: Fe,
    pub(crate) z: Fe,
    pub(crate) t: Fe,
}

/// Points as an addition wants its second operand.
#[derive(Clone, Copy)]
pub(crate) struct Cached {
    pub(crate) plus: Fe,
    pub(crate) minus: Fe,
    /// 2 * Z.
    pub(crate) z2: Fe,
    /// 2 * d * T.
    pub(crate) t2d: Fe,
}

/// Points with Z = 1 as an addition wants its second operand.
#[derive(Clone, Copy)]
pub(crate) struct Affine {
    pub(crate) plus: Fe,
    pub(crate) minus: Fe,
    pub(crate) t2d: Fe,
}

/// Factors of a result, made and used in an order that keeps what waits for a result apart from what made it:
/// X = E * F, Y = G * H, Z = F * G, T = E * H.
#[derive(Clone, Copy)]
pub(crate) struct Factors {
    e: Fe,
    f: Fe,
    g: Fe,
    h: Fe,
}

impl Factors {
    #[inline(always)]
    fn of_sum(a: &Wide, b: &Wide, c: &Wide, d: &Wide) -> Self {
        let (e, h) = (carry(&sub(b, a)), carry(&add(b, a)));
        Self { e, h, f: carry(&sub(d, c)), g: carry(&add(d, c)) }
    }

    #[inline(always)]
    pub(crate) fn to_double(self) -> Double {
        let (y, x) = (mul(&self.g, &self.h), mul(&self.e, &self.f));
        let (own_x, own_y, sum) = (carry(&x), carry(&y), carry(&add(&x, &y)));
        Double { x: own_x, y: own_y, z: times(&self.f, &self.g), sum }
    }

    #[inline(always)]
    pub(crate) fn to_sum(self) -> Sum {
        let t = times(&self.e, &self.h);
        let (y, x) = (mul(&self.g, &self.h), mul(&self.e, &self.f));
        let (plus, minus) = (carry(&add(&y, &x)), carry(&sub(&y, &x)));
        Sum { plus, minus, z: times(&self.f, &self.g), t }
    }
}

impl Double {
    /// The neutral point.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn neutral() -> Self {
        Self { x: Fe::zero(), y: Fe::one(), z: Fe::one(), sum: Fe::one() }
    }

    #[inline(always)]
    pub(crate) fn double(&self) -> Factors {
        let (a, b) = (square(&self.x), square(&self.y));
        let (s, c) = (square(&self.sum), square(&self.z));
        // All four factors of RFC 8032 with the other sign: their products are the same.
        let (h, g) = (add(&a, &b), sub(&a, &b));
        let e = carry(&sub(&h, &s));
        Factors { e, h: carry(&h), g: carry(&g), f: carry(&add(&g, &add(&c, &c))) }
    }
}

impl Sum {
    /// The neutral point.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn neutral() -> Self {
        Self { plus: Fe::one(), minus: Fe::one(), z: Fe::one(), t: Fe::zero() }
    }

    #[inline(always)]
    pub(crate) fn add(&self, other: &Cached) -> Factors {
        let (a, b) = (mul(&self.minus, &other.minus), mul(&self.plus, &other.plus));
        let (c, d) = (mul(&self.t, &other.t2d), mul(&self.z, &other.z2));
        Factors::of_sum(&a, &b, &c, &d)
    }

    #[inline(always)]
    pub(crate) fn add_affine(&self, other: &Affine) -> Factors {
        let (a, b) = (mul(&self.minus, &other.minus), mul(&self.plus, &other.plus));
        let (c, z) = (mul(&self.t, &other.t2d), self.z.wide());
        Factors::of_sum(&a, &b, &c, &add(&z, &z))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
    pub(crate) fn cached(&self) -> Cached {
        let z = self.z.wide();
        Cached {
            plus: self.plus,
            minus: self.minus,
            z2: carry(&add(&z, &z)),
            t2d: times(&self.t, &Fe::splat(&D2)),
        }
    }

    /// Returns 2 * X, 2 * Y and 2 * Z.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
    pub(crate) fn coordinates(&self) -> (Fe, Fe, Fe) {
        let (plus, minus, z) = (self.plus.wide(), self.minus.wide(), self.z.wide());
        (carry(&sub(&plus, &minus)), carry(&add(&plus, &minus)), carry(&add(&z, &z)))
    }
}

impl Cached {
    /// Negates the ways of `mask`.
    #[inline(always)]
    pub(crate) fn negate_some(&self, mask: __mmask8) -> Self {
        Self {
            plus: select(mask, &self.plus, &self.minus),
            minus: select(mask, &self.minus, &self.plus),
            z2: self.z2,
            t2d: negate_some(mask, &self.t2d),
        }
    }
}

impl Affine {
    /// Takes points with Z = 1 by their x and y.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
    pub(crate) fn new(x: &Fe, y: &Fe) -> Self {
        Self {
            plus: carry(&add(&y.wide(), &x.wide())),
            minus: carry(&sub(&y.wide(), &x.wide())),
            t2d: times(&times(x, y), &Fe::splat(&D2)),
        }
    }

    /// Negates the ways of `mask`.
    #[inline(always)]
    pub(crate) fn negate_some(&self, mask: __mmask8) -> Self {
        Self {
            plus: select(mask, &self.plus, &self.minus),
            minus: select(mask, &self.minus, &self.plus),
            t2d: negate_some(mask, &self.t2d),
        }
    }
}

/// Encodes points by their X, Y and the inverse of Z (RFC 8032 section 5.1.2).
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
pub(crate) fn encode(x: &Fe, y: &Fe, inverse: &Fe) -> [V; 4] {
    let odd = times(x, inverse).is_odd();
    let mut words = times(y, inverse).to_words();
    words[3] = _mm512_mask_or_epi64(words[3], odd, words[3], splat(i64::MIN));
    words
}

/// Decodes `M` times eight points (RFC 8032 section 5.1.3), side by side. Returns x, y, and the ways whose
/// encoding is that of a point; the others hold any numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
pub(crate) fn decode<const M: usize>(encodings: &[[V; 4]; M]) -> [(Fe, Fe, __mmask8); M] {
    let one = Fe::one().wide();
    let mut products = [Fe::zero(); M];
    let (mut us, mut vs, mut ys) = (products, products, products);
    for m in 0..M {
        ys[m] = Fe::from_words(&encodings[m]);
        let square = square(&ys[m]);
        us[m] = carry(&sub(&square, &one));
        vs[m] = carry(&add(&mul(&carry(&square), &Fe::splat(&D)), &one));
        products[m] = times(&us[m], &vs[m]);
    }
    let powers = field::root_power(&products);
    let mut made = [(Fe::zero(), Fe::zero(), 0); M];
    for m in 0..M {
        let (u, y) = (us[m].wide(), &ys[m]);
        let mut x = times(&us[m], &powers[m]);
        // v * x^2 is u, or -u and then x wants a factor, or x does not exist.
        let check = mul(&vs[m], &carry(&square(&x)));
        let is_root = carry(&sub(&check, &u)).is_zero();
        let is_other = carry(&add(&check, &u)).is_zero();
        x = select(is_other & !is_root, &x, &times(&x, &Fe::splat(&ROOT)));
        let negative = _mm512_movepi64_mask(encodings[m][3]);
        let wrong_sign = negative ^ x.is_odd();
        let is_zero = x.is_zero();
        x = carry(&negate_some(wrong_sign, &x).wide());
        // A number from 2^255 - 19 on is no encoding, and neither is a zero with a sign.
        let number = y.to_words();
        let mut same: __mmask8 = 0xff;
        for k in 0..3 {
            same &= _mm512_cmpeq_epi64_mask(number[k], encodings[m][k]);
        }
        let unsigned = _mm512_and_si512(encodings[m][3], splat(i64::MAX));
        same &= _mm512_cmpeq_epi64_mask(number[3], unsigned);
        made[m] = (x, *y, (is_root | is_other) & same & !(is_zero & negative));
    }
    made
}
