//! Numbers modulo the prime or the order eight ways at once: five limbs of 52 bits, in Montgomery form with R =
//! 2^260.
//!
//! A multiplication takes [`Element`]s, whose limbs have 52 bits each, and returns [`Sum`]s, whose limbs have
//! signs and a few bits more; sums are added, subtracted and scaled without carries, and one carry makes an
//! element of the result. Bounds are multiples of the modulus M, below 2^256: an element is below 16 M
//! (2^260), and the product of elements below a M and b M is below (1 + a b / 16) M. [`super::points`] states
//! the bounds of each formula.
//!
//! Cost of a multiplication modulo the prime: 50 IFMA for the product (30 for a square), and for the
//! reduction 20 and 5 × 6 other instructions, because −p^(−1) is 1 modulo 2^52 and p + 1 is 2^96 · (2^160 −
//! 2^128 + 2^96 + 1): the multiple of p is the lowest limb itself, its product with 2^44 two shifts, and one
//! limb of p + 1 is zero. Modulo the order the reduction takes 55 IFMA.

use core::marker::PhantomData;

use super::vector::*;
use crate::wipe::wipe;

/// A modulus of the ways.
pub(super) trait Ring: Copy {
    /// The limbs of the modulus.
    const LIMBS: [u64; 5];
    /// 2^520 modulo the modulus.
    const SQUARE: [u64; 5];
    /// 2^260 modulo the modulus: the number one in Montgomery form.
    const ONE: [u64; 5];

    /// Adds the multiple of the modulus to the ten columns of a product that makes column `I` zero, modulo
    /// 2^52, and carries the rest of the column.
    fn clear<const I: usize>(columns: &mut [V; 10]);
}

/// The prime of the field.
#[derive(Clone, Copy)]
pub(super) struct Prime;

impl Ring for Prime {
    const LIMBS: [u64; 5] = [0xf_ffff_ffff_ffff, 0xfff_ffff_ffff, 0, 0x10_0000_0000, 0xffff_ffff_0000];
    const SQUARE: [u64; 5] = [0x300, 0xf_ffff_fff0_0000, 0xf_fffe_ffff_fffb, 0xf_dfff_ffff_ffff, 0x4ff_ffff];
    const ONE: [u64; 5] = [0x10, 0xf_0000_0000_0000, 0xf_ffff_ffff_ffff, 0xf_feff_ffff_ffff, 0xf_ffff];

    #[inline(always)]
    fn clear<const I: usize>(t: &mut [V; 10]) {
        let (p3, p4, limb) = (splat(Self::LIMBS[3]), splat(Self::LIMBS[4]), splat(LIMB));
        let p1 = splat(1 << 44);
        // Adds t[I] · p, of which t[I] · (−1) makes this column zero.
        let m = t[I];
        t[I + 1] = add(t[I + 1], signed_right::<52>(m));
        if I < SHIFTED {
            t[I + 1] = add(t[I + 1], and(left::<44>(m), limb));
            t[I + 2] = add(t[I + 2], right::<8>(and(m, limb)));
        } else {
            t[I + 1] = low(t[I + 1], m, p1);
            t[I + 2] = high(t[I + 2], m, p1);
        }
        t[I + 3] = low(t[I + 3], m, p3);
        t[I + 4] = high(t[I + 4], m, p3);
        t[I + 5] = high(t[I + 5], m, p4);
        t[I + 4] = low(t[I + 4], m, p4);
    }
}

/// In how many of the five steps the product with 2^44 is made of shifts.
const SHIFTED: usize = 5;

/// The order of the group.
#[derive(Clone, Copy)]
pub(super) struct Order;

impl Ring for Order {
    const LIMBS: [u64; 5] =
        [0x9_cac2_fc63_2551, 0xa_da71_79e8_4f3b, 0xf_ffff_ffbc_e6fa, 0xf_ffff_ffff, 0xffff_ffff_0000];
    const SQUARE: [u64; 5] =
        [0x5_cc0d_ea6d_c3ba, 0x1_92a0_67d8_a084, 0xb_ec59_6155_71bb, 0x1_fc24_5b23_92b6, 0xe12d_9559_d956];
    const ONE: [u64; 5] = [0x3_53d0_39cd_aaf0, 0x2_58e8_617b_0c46, 0x431_9055, 0xf_ff00_0000_0000, 0xf_ffff];

    #[inline(always)]
    fn clear<const I: usize>(t: &mut [V; 10]) {
        // −n^(−1) modulo 2^52.
        let m = low(zero(), t[I], splat(0x1_c8aa_ee00_bc4f));
        for j in 0..5 {
            let n = splat(Self::LIMBS[j]);
            t[I + j] = low(t[I + j], m, n);
            t[I + j + 1] = high(t[I + j + 1], m, n);
        }
        t[I + 1] = add(t[I + 1], right::<52>(t[I]));
    }
}

/// A number of five 52-bit limbs.
#[derive(Clone, Copy)]
pub(super) struct Element<R>(pub(super) [V; 5], PhantomData<R>);

/// A number whose limbs have signs and more than 52 bits: a sum of products before its carries.
#[derive(Clone, Copy)]
pub(super) struct Sum<R>([V; 5], PhantomData<R>);

/// Runs expressions for each of the five limbs, a constant in them: the compiler leaves so large loops as
/// they are.
macro_rules! each {
    ($index:ident => $($call:expr),*) => {
        each!($index $($call),*; 0);
        each!($index $($call),*; 1);
        each!($index $($call),*; 2);
        each!($index $($call),*; 3);
        each!($index $($call),*; 4);
    };
    ($index:ident $($call:expr),*; $value:literal) => {{
        const $index: usize = $value;
        $($call;)*
    }};
}

/// A multiplication in parts, so that the instructions of two can alternate.
pub(super) trait Multiplication<R: Ring> {
    /// Adds row `I` of five to the columns: the products of limb `I`. Of a square, those with higher limbs.
    fn row<const I: usize>(&self, t: &mut [V; 10]);
    /// Doubles the products of a square, and adds the squares of the limbs.
    fn finish(&self, t: &mut [V; 10]);
}

/// The product of two numbers.
pub(super) struct Product<'a, R>(pub(super) &'a Element<R>, pub(super) &'a Element<R>);

/// The square of a number.
pub(super) struct Square<'a, R>(pub(super) &'a Element<R>);

impl<R: Ring> Multiplication<R> for Product<'_, R> {
    #[inline(always)]
    fn row<const I: usize>(&self, t: &mut [V; 10]) {
        let (a, b) = (&self.0.0, &self.1.0);
        for j in 0..5 {
            t[I + j] = low(t[I + j], a[I], b[j]);
        }
        for j in 0..5 {
            t[I + j + 1] = high(t[I + j + 1], a[I], b[j]);
        }
    }

    #[inline(always)]
    fn finish(&self, _: &mut [V; 10]) {}
}

impl<R: Ring> Multiplication<R> for Square<'_, R> {
    #[inline(always)]
    fn row<const I: usize>(&self, t: &mut [V; 10]) {
        let a = &self.0.0;
        for j in I + 1..5 {
            t[I + j] = low(t[I + j], a[I], a[j]);
        }
        for j in I + 1..5 {
            t[I + j + 1] = high(t[I + j + 1], a[I], a[j]);
        }
    }

    #[inline(always)]
    fn finish(&self, t: &mut [V; 10]) {
        let a = &self.0.0;
        for column in &mut t[1..9] {
            *column = add(*column, *column);
        }
        for i in 0..5 {
            t[2 * i] = low(t[2 * i], a[i], a[i]);
            t[2 * i + 1] = high(t[2 * i + 1], a[i], a[i]);
        }
    }
}

/// Returns the Montgomery results of one multiplication.
#[inline(always)]
fn alone<R: Ring>(work: impl Multiplication<R>) -> Sum<R> {
    let mut t = [zero(); 10];
    each!(I => work.row::<I>(&mut t));
    work.finish(&mut t);
    each!(I => R::clear::<I>(&mut t));
    Sum([t[5], t[6], t[7], t[8], t[9]], PhantomData)
}

/// Returns the Montgomery results of two independent multiplications, whose instructions alternate: each
/// hides the latencies of the other.
#[inline(always)]
pub(super) fn pair<R: Ring>(
    first: impl Multiplication<R>,
    second: impl Multiplication<R>,
) -> (Sum<R>, Sum<R>) {
    let (mut s, mut t) = ([zero(); 10], [zero(); 10]);
    each!(I => first.row::<I>(&mut s), second.row::<I>(&mut t));
    first.finish(&mut s);
    second.finish(&mut t);
    each!(I => R::clear::<I>(&mut s), R::clear::<I>(&mut t));
    (Sum([s[5], s[6], s[7], s[8], s[9]], PhantomData), Sum([t[5], t[6], t[7], t[8], t[9]], PhantomData))
}

/// Returns the Montgomery result of `first` · 2^A − `second` · 2^B, by one reduction for both. It is above −b
/// M if the bounds of the second's operands multiply to 16 b / 2^B.
#[inline(always)]
pub(super) fn difference<R: Ring, const A: u32, const B: u32>(
    first: impl Multiplication<R>,
    second: impl Multiplication<R>,
) -> Sum<R> {
    let (mut s, mut t) = ([zero(); 10], [zero(); 10]);
    each!(I => first.row::<I>(&mut s), second.row::<I>(&mut t));
    first.finish(&mut s);
    second.finish(&mut t);
    for (s, t) in s.iter_mut().zip(t) {
        *s = sub(left::<A>(*s), left::<B>(t));
    }
    each!(I => R::clear::<I>(&mut s));
    Sum([s[5], s[6], s[7], s[8], s[9]], PhantomData)
}

impl<R: Ring> Element<R> {
    /// Returns the number with these limbs.
    #[inline(always)]
    pub(super) fn new(limbs: [V; 5]) -> Self {
        Self(limbs, PhantomData)
    }

    /// Returns the number in all ways.
    #[inline(always)]
    pub(super) fn constant(limbs: [u64; 5]) -> Self {
        let mut all = [zero(); 5];
        for (all, limb) in all.iter_mut().zip(limbs) {
            *all = splat(limb);
        }
        Self::new(all)
    }

    #[inline(always)]
    pub(super) fn one() -> Self {
        Self::constant(R::ONE)
    }

    #[inline(always)]
    pub(super) fn load(limbs: &[[u64; 8]; 5]) -> Self {
        let mut all = [zero(); 5];
        for (all, limb) in all.iter_mut().zip(limbs) {
            *all = load(limb);
        }
        Self::new(all)
    }

    #[inline(always)]
    pub(super) fn store(&self) -> [[u64; 8]; 5] {
        let mut limbs = [[0; 8]; 5];
        for (words, limb) in limbs.iter_mut().zip(self.0) {
            store(words, limb);
        }
        limbs
    }

    #[inline(always)]
    pub(super) fn sum(&self) -> Sum<R> {
        Sum(self.0, PhantomData)
    }

    /// Returns the Montgomery product.
    #[inline(always)]
    pub(super) fn times(&self, other: &Self) -> Sum<R> {
        alone(Product(self, other))
    }

    /// Returns the Montgomery square.
    #[inline(always)]
    pub(super) fn squared(&self) -> Sum<R> {
        alone(Square(self))
    }

    /// Returns the carried product.
    #[inline(always)]
    pub(super) fn mul(&self, other: &Self) -> Self {
        self.times(other).carry()
    }

    /// Returns the carried square.
    #[inline(always)]
    pub(super) fn square(&self) -> Self {
        self.squared().carry()
    }

    /// Returns the Montgomery form of a number below 2^260.
    #[inline(always)]
    pub(super) fn enter(&self) -> Self {
        self.mul(&Self::constant(R::SQUARE))
    }

    /// Returns the number of a Montgomery form, below the modulus.
    #[inline(always)]
    pub(super) fn leave(&self) -> Self {
        // The product is at most the modulus.
        self.mul(&Self::constant([1, 0, 0, 0, 0])).minus_modulus()
    }

    /// Returns the number minus the modulus unless this is negative.
    #[inline(always)]
    pub(super) fn minus_modulus(&self) -> Self {
        let mut difference = self.sum();
        for (limb, modulus) in difference.0.iter_mut().zip(R::LIMBS) {
            *limb = sub(*limb, splat(modulus));
        }
        let difference = difference.carry();
        // The carry of the highest limb stays in it.
        let is_negative = negative(difference.0[4]);
        Self::blend(is_negative, &difference, self)
    }

    /// Returns where a number is zero, of one that is below the modulus.
    #[inline(always)]
    pub(super) fn is_zero(&self) -> Mask {
        let [a, b, c, d, e] = self.0;
        let bits = or(or(a, b), or(or(c, d), e));
        equal(bits, zero())
    }

    /// Returns where two numbers are equal that are below the modulus.
    #[inline(always)]
    pub(super) fn equals(&self, other: &Self) -> Mask {
        let mut bits = zero();
        for (a, b) in self.0.iter().zip(other.0) {
            bits = or(bits, xor(*a, b));
        }
        equal(bits, zero())
    }

    /// Overwrites the number.
    #[inline(always)]
    pub(super) fn wipe(&mut self) {
        wipe(&mut self.0, zero());
    }

    /// Returns b where the mask is set, else a.
    #[inline(always)]
    pub(super) fn blend(mask: Mask, a: &Self, b: &Self) -> Self {
        a.sum().or_where(mask, &b.sum()).element()
    }
}

impl<R: Ring> Sum<R> {
    #[inline(always)]
    fn element(self) -> Element<R> {
        Element(self.0, PhantomData)
    }

    #[inline(always)]
    pub(super) fn plus(mut self, other: &Self) -> Self {
        for (limb, other) in self.0.iter_mut().zip(other.0) {
            *limb = add(*limb, other);
        }
        self
    }

    #[inline(always)]
    pub(super) fn minus(mut self, other: &Self) -> Self {
        for (limb, other) in self.0.iter_mut().zip(other.0) {
            *limb = sub(*limb, other);
        }
        self
    }

    /// Returns the number plus `K` times the modulus: the bias that keeps a difference above zero.
    #[inline(always)]
    pub(super) fn bias<const K: u64>(mut self) -> Self {
        for (limb, modulus) in self.0.iter_mut().zip(R::LIMBS) {
            if modulus != 0 {
                *limb = add(*limb, splat(K * modulus));
            }
        }
        self
    }

    /// Returns the number times 2^N.
    #[inline(always)]
    pub(super) fn shift<const N: u32>(mut self) -> Self {
        for limb in &mut self.0 {
            *limb = left::<N>(*limb);
        }
        self
    }

    /// Returns the negated number where the mask is set.
    #[inline(always)]
    pub(super) fn negate_where(mut self, mask: Mask) -> Self {
        for limb in &mut self.0 {
            *limb = sub_where(*limb, mask, zero(), *limb);
        }
        self
    }

    /// Returns the other number where the mask is set.
    #[inline(always)]
    pub(super) fn or_where(mut self, mask: Mask, other: &Self) -> Self {
        for (limb, other) in self.0.iter_mut().zip(other.0) {
            *limb = blend(mask, *limb, other);
        }
        self
    }

    /// Carries; the number is not negative and below 2^260, or else the highest limb keeps the rest.
    #[inline(always)]
    pub(super) fn carry(mut self) -> Element<R> {
        let limb = splat(LIMB);
        for i in 0..4 {
            self.0[i + 1] = add(self.0[i + 1], signed_right::<52>(self.0[i]));
            self.0[i] = and(self.0[i], limb);
        }
        self.element()
    }
}

impl Sum<Prime> {
    /// Carries after the multiple of the prime that the highest bits name is taken off: a number that is not
    /// negative becomes one below 2^256 + 16 · 2^224, which is below 1.01 p.
    #[inline(always)]
    pub(super) fn reduce(mut self) -> Element<Prime> {
        // q · p is q · (2^256 − 2^224 + 2^192 + 2^96 − 1). The carries that are yet to come are far below
        // 2^48.
        let q = signed_right::<48>(self.0[4]);
        self.0[0] = add(self.0[0], q);
        self.0[1] = sub(self.0[1], left::<44>(q));
        self.0[3] = sub(self.0[3], left::<36>(q));
        self.0[4] = add(and(self.0[4], splat((1 << 48) - 1)), left::<16>(q));
        self.carry()
    }
}

impl Element<Prime> {
    /// Returns the number below the prime.
    #[inline(always)]
    pub(super) fn canonical(&self) -> Self {
        self.sum().reduce().minus_modulus()
    }
}
