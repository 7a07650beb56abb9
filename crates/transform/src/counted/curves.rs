//! A pass over a bit of a scalar on three curves, as in the references of `curve25519` and `p256`.

use super::{Wide, constant, field_p256, field25519, number, select};
use crate::curve25519::reference::Element;
use crate::word::{Region, Word};

/// Returns all ones if a bit of a scalar is set; the scalar lies in memory.
fn mask_of<W: Word>(scalar: u32, bit: u32) -> W {
    let word = W::load(Region::Key.word(0), scalar).shr(bit) & W::imm(1);
    W::imm(0).sub(word)
}

/// The state of Montgomery's ladder: x and z of both points.
pub(super) type Ladder<W> = [Wide<W>; 4];

/// A step of the ladder of RFC 7748 section 5 for the base `u`; a bit of the scalar is the mask.
pub(super) fn ladder_step<W: Word>(
    f: &field25519::Field<W>,
    u: &Wide<W>,
    s: &Ladder<W>,
    mask: W,
) -> Ladder<W> {
    let swap = |a: &Wide<W>, b: &Wide<W>| (select(mask, a, b), select(mask, b, a));
    let ((x2, x3), (z2, z3)) = (swap(&s[0], &s[2]), swap(&s[1], &s[3]));
    let (a, b, c, d) = (f.add(&x2, &z2), f.sub(&x2, &z2), f.add(&x3, &z3), f.sub(&x3, &z3));
    let (aa, bb, da, cb) = (f.mul(&a, &a), f.mul(&b, &b), f.mul(&d, &a), f.mul(&c, &b));
    let e = f.sub(&aa, &bb);
    let (sum, difference) = (f.add(&da, &cb), f.sub(&da, &cb));
    let x3 = f.mul(&sum, &sum);
    let z3 = f.mul(u, &f.mul(&difference, &difference));
    let x2 = f.mul(&aa, &bb);
    let small = constant(&[121_665, 0, 0, 0]);
    let z2 = f.mul(&e, &f.add(&aa, &f.mul(&small, &e)));
    let ((x2, x3), (z2, z3)) = (swap(&x2, &x3), swap(&z2, &z3));
    W::branch(true);
    [x2, z2, x3, z3]
}

/// A point of the Edwards curve: X, Y, Z and T.
pub(super) type Edwards<W> = [Wide<W>; 4];

/// Returns the sum of two points (RFC 8032 section 5.1.4).
fn add_edwards<W: Word>(f: &field25519::Field<W>, p: &Edwards<W>, q: &Edwards<W>) -> Edwards<W> {
    let d2 = constant(&Element::D.add(Element::D).0);
    let a = f.mul(&f.sub(&p[1], &p[0]), &f.sub(&q[1], &q[0]));
    let b = f.mul(&f.add(&p[1], &p[0]), &f.add(&q[1], &q[0]));
    let c = f.mul(&f.mul(&p[3], &d2), &q[3]);
    let d = f.mul(&f.add(&p[2], &p[2]), &q[2]);
    let (e, g, h, i) = (f.sub(&b, &a), f.sub(&d, &c), f.add(&d, &c), f.add(&b, &a));
    [f.mul(&e, &g), f.mul(&h, &i), f.mul(&g, &h), f.mul(&e, &i)]
}

/// Doubles a sum, and adds the point if the mask says so.
pub(super) fn edwards_bit<W: Word>(
    f: &field25519::Field<W>,
    point: &Edwards<W>,
    sum: &Edwards<W>,
    mask: W,
) -> Edwards<W> {
    let double = add_edwards(f, sum, sum);
    let more = add_edwards(f, &double, point);
    W::branch(true);
    core::array::from_fn(|i| select(mask, &double[i], &more[i]))
}

/// A point of P-256 by projective coordinates in Montgomery's form.
pub(super) type Weierstrass<W> = [Wide<W>; 3];

/// Returns the sum of two points (Renes, Costello and Batina 2016, algorithm 4).
fn add_weierstrass<W: Word>(
    f: &field_p256::Field<W>,
    p: &Weierstrass<W>,
    q: &Weierstrass<W>,
) -> Weierstrass<W> {
    let cross = |a: &Wide<W>, b: &Wide<W>, c: &Wide<W>, d: &Wide<W>| f.add(&f.mul(a, d), &f.mul(b, c));
    let thrice = |a: &Wide<W>| f.add(a, &f.add(a, a));
    let b = f.coefficient;
    let (xx, yy, zz) = (f.mul(&p[0], &q[0]), f.mul(&p[1], &q[1]), f.mul(&p[2], &q[2]));
    let xy = cross(&p[0], &p[1], &q[0], &q[1]);
    let yz = cross(&p[1], &p[2], &q[1], &q[2]);
    let xz = cross(&p[0], &p[2], &q[0], &q[2]);
    let shift = thrice(&f.sub(&xz, &f.mul(&b, &zz)));
    let (minus, plus) = (f.sub(&yy, &shift), f.add(&yy, &shift));
    let v = thrice(&f.sub(&f.sub(&f.mul(&b, &xz), &thrice(&zz)), &xx));
    let w = thrice(&f.sub(&xx, &zz));
    [
        f.sub(&f.mul(&xy, &plus), &f.mul(&yz, &v)),
        f.add(&f.mul(&plus, &minus), &f.mul(&w, &v)),
        f.add(&f.mul(&yz, &minus), &f.mul(&xy, &w)),
    ]
}

/// Doubles a sum, and adds the point if the mask says so.
pub(super) fn weierstrass_bit<W: Word>(
    f: &field_p256::Field<W>,
    point: &Weierstrass<W>,
    sum: &Weierstrass<W>,
    mask: W,
) -> Weierstrass<W> {
    let double = add_weierstrass(f, sum, sum);
    let more = add_weierstrass(f, &double, point);
    W::branch(true);
    core::array::from_fn(|i| select(mask, &double[i], &more[i]))
}

/// Runs a pass of X25519 on sample numbers.
pub(super) fn sample_x25519<W: Word>() {
    let state = [1, 2, 3, 4].map(number);
    ladder_step(&field25519::Field::new(), &number(5), &state, mask_of::<W>(1, 0));
}

/// Runs a pass of Ed25519 on sample numbers.
pub(super) fn sample_ed25519<W: Word>() {
    let (point, sum) = ([1, 2, 3, 4].map(number), [5, 6, 7, 8].map(number));
    edwards_bit(&field25519::Field::new(), &point, &sum, mask_of::<W>(1, 0));
}

/// Runs a pass of P-256 on sample numbers.
pub(super) fn sample_p256<W: Word>() {
    let (point, sum) = ([1, 2, 3].map(number), [5, 6, 7].map(number));
    weierstrass_bit(&field_p256::Field::new(), &point, &sum, mask_of::<W>(1, 0));
}
