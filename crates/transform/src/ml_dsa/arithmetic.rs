//! Polynomials of ML-DSA, over any width of vectors: transforms, products, rounding and checks.
//!
//! A polynomial at rest is in the standard's order. A transform is in the order of the width it was made with: the
//! layers whose distance is below the square of the width are done on blocks of so many coefficients, which are
//! transposed before the last layers and stay so. What is not made by [`transform`] has its order by [`reorder`].
//!
//! Bounds: [`transform`] takes coefficients below q in amount and returns ones below 9 q; [`inverse`] takes ones
//! below 0.85 q, and returns ones below 0.75 q. Of a number that is small modulo q, that is the number itself.
//!
//! No branch and no address depends on a coefficient.
//!
//! `unsafe`: vectors are loaded and stored through pointers into polynomials, whose length is a multiple of every
//! width.
#![allow(unsafe_code)]

use super::ints::{Ints, Q_INVERSE, Q_SIGNED, UNPACK_SLACK};
use super::parameters::{N, Q};
use super::reference::ZETAS;

/// A polynomial, or its transform.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Poly(pub(crate) [i32; N]);

impl Poly {
    pub(crate) const ZERO: Self = Self([0; N]);

    #[inline(always)]
    fn at<V: Ints>(&self, first: usize) -> V {
        assert!(first + V::WIDTH <= N);
        // SAFETY: within the polynomial.
        unsafe { V::load(self.0.as_ptr().add(first)) }
    }

    #[inline(always)]
    fn set<V: Ints>(&mut self, first: usize, value: V) {
        assert!(first + V::WIDTH <= N);
        // SAFETY: within the polynomial.
        unsafe { value.store(self.0.as_mut_ptr().add(first)) }
    }
}

/// Returns `value 2^32` modulo q, from -q / 2 to q / 2.
const fn montgomery(value: u32) -> i32 {
    let rest = (((value as u64) << 32) % Q as u64) as u32;
    if rest > Q / 2 { rest.wrapping_sub(Q).cast_signed() } else { rest.cast_signed() }
}

const fn scaled(factor: i32) -> i32 {
    factor.wrapping_mul(Q_INVERSE)
}

/// Factors of vectors one after the other, and the same times q^-1.
struct Factors {
    value: [i32; N],
    scaled: [i32; N],
}

/// The factors by the index that the standard counts, for layers that join whole vectors.
static ZETAS_BY_INDEX: Factors = by_index(false);
static INVERSE_ZETAS_BY_INDEX: Factors = by_index(true);

const fn zeta(index: usize, is_inverse: bool) -> i32 {
    // The factors of the inverse are the negatives.
    montgomery(if is_inverse { Q - ZETAS[index] } else { ZETAS[index] })
}

const fn by_index(is_inverse: bool) -> Factors {
    let mut all = Factors { value: [0; N], scaled: [0; N] };
    let mut n = 0;
    while n < N {
        let factor = zeta(n, is_inverse);
        all.value[n] = factor;
        all.scaled[n] = scaled(factor);
        n += 1;
    }
    all
}

/// The factors of the layers within transposed blocks of a width: of each block, the layer of the largest distance
/// first, and of each layer a vector for each pair of runs.
struct Within<V>(core::marker::PhantomData<V>);

impl<V: Ints> Within<V> {
    const FORWARD: Factors = Self::factors(false);
    const INVERSE: Factors = Self::factors(true);

    const fn factors(is_inverse: bool) -> Factors {
        let width = V::WIDTH;
        let mut all = Factors { value: [0; N], scaled: [0; N] };
        let mut block = 0;
        while block < N / (width * width) {
            let mut len = width / 2;
            while len >= 1 {
                let mut run = 0;
                while run < width / (2 * len) {
                    let mut way = 0;
                    while way < width {
                        let coefficient = block * width * width + way * width + run * 2 * len;
                        // The standard counts up in each layer forwards, and down backwards.
                        let forward = 128 / len + coefficient / (2 * len);
                        let index =
                            if is_inverse { 256 / len - 1 - coefficient / (2 * len) } else { forward };
                        let at = place(width, block, len, run) + way;
                        all.value[at] = zeta(index, is_inverse);
                        all.scaled[at] = scaled(all.value[at]);
                        way += 1;
                    }
                    run += 1;
                }
                len /= 2;
            }
            block += 1;
        }
        all
    }
}

/// Returns the place of a vector of factors in [`Within`].
#[inline(always)]
const fn place(width: usize, block: usize, len: usize, run: usize) -> usize {
    (block * (width - 1) + width / (2 * len) - 1 + run) * width
}

/// Returns the factors at a place.
#[inline(always)]
fn factors_at<V: Ints>(factors: &'static Factors, at: usize) -> (V, V) {
    assert!(at + V::WIDTH <= N);
    // SAFETY: within the arrays.
    unsafe { (V::load(factors.value.as_ptr().add(at)), V::load(factors.scaled.as_ptr().add(at))) }
}

/// Returns one factor for all.
#[inline(always)]
fn factor_of<V: Ints>(factors: &'static Factors, index: usize) -> (V, V) {
    (V::splat(factors.value[index]), V::splat(factors.scaled[index]))
}

#[inline(always)]
fn butterfly<V: Ints>(low: &mut V, high: &mut V, (factor, scaled): (V, V)) {
    let t = high.product(factor, scaled);
    *high = low.sub(t);
    *low = low.add(t);
}

#[inline(always)]
fn inverse_butterfly<V: Ints>(low: &mut V, high: &mut V, (factor, scaled): (V, V)) {
    let difference = low.sub(*high);
    *low = low.add(*high);
    *high = difference.product(factor, scaled);
}

/// Returns two vectors of an array, in order.
#[inline(always)]
fn two<V>(rows: &mut [V; 16], low: usize, high: usize) -> (&mut V, &mut V) {
    let (first, second) = rows.split_at_mut(high);
    (&mut first[low], &mut second[0])
}

/// The vectors of a block.
#[inline(always)]
fn load_block<V: Ints>(f: &Poly, block: usize) -> [V; 16] {
    let mut rows = [V::splat(0); 16];
    for (n, row) in rows[..V::WIDTH].iter_mut().enumerate() {
        *row = f.at(block + n * V::WIDTH);
    }
    rows
}

#[inline(always)]
fn store_block<V: Ints>(f: &mut Poly, block: usize, rows: &[V; 16]) {
    for (n, row) in rows[..V::WIDTH].iter().enumerate() {
        f.set(block + n * V::WIDTH, *row);
    }
}

/// A layer that joins vectors of a block which are `LEN` apart, if the block has so many.
#[inline(always)]
fn row_layer<V: Ints, const LEN: usize>(rows: &mut [V; 16], block: usize) {
    let distance = LEN * V::WIDTH;
    for start in (0..V::WIDTH / (2 * LEN)).map(|run| 2 * LEN * run) {
        let index = (N / 2) / distance + (block + start * V::WIDTH) / (2 * distance);
        let factor = factor_of::<V>(&ZETAS_BY_INDEX, index);
        for j in start..start + LEN {
            let (low, high) = two(rows, j, j + LEN);
            butterfly(low, high, factor);
        }
    }
}

/// A layer of a transposed block.
#[inline(always)]
fn inner_layer<V: Ints, const LEN: usize>(rows: &mut [V; 16], block: usize) {
    let number = block / (V::WIDTH * V::WIDTH);
    for run in 0..V::WIDTH / (2 * LEN) {
        let at = place(V::WIDTH, number, LEN, run);
        let factor = factors_at::<V>(const { &Within::<V>::FORWARD }, at);
        for j in 2 * run * LEN..(2 * run + 1) * LEN {
            let (low, high) = two(rows, j, j + LEN);
            butterfly(low, high, factor);
        }
    }
}

/// The inverse of [`row_layer`], times 2.
#[inline(always)]
fn inverse_row_layer<V: Ints, const LEN: usize>(rows: &mut [V; 16], block: usize) {
    let distance = LEN * V::WIDTH;
    for start in (0..V::WIDTH / (2 * LEN)).map(|run| 2 * LEN * run) {
        let index = N / distance - 1 - (block + start * V::WIDTH) / (2 * distance);
        let factor = factor_of::<V>(&INVERSE_ZETAS_BY_INDEX, index);
        for j in start..start + LEN {
            let (low, high) = two(rows, j, j + LEN);
            inverse_butterfly(low, high, factor);
        }
    }
}

/// The inverse of [`inner_layer`], times 2.
#[inline(always)]
fn inverse_inner_layer<V: Ints, const LEN: usize>(rows: &mut [V; 16], block: usize) {
    let number = block / (V::WIDTH * V::WIDTH);
    for run in 0..V::WIDTH / (2 * LEN) {
        let at = place(V::WIDTH, number, LEN, run);
        let factor = factors_at::<V>(const { &Within::<V>::INVERSE }, at);
        for j in 2 * run * LEN..(2 * run + 1) * LEN {
            let (low, high) = two(rows, j, j + LEN);
            inverse_butterfly(low, high, factor);
        }
    }
}

/// NTT, algorithm 41.
#[inline(always)]
pub(crate) fn transform<V: Ints>(f: &mut Poly) {
    let (width, square) = (V::WIDTH, V::WIDTH * V::WIDTH);
    let mut len = N / 2;
    while len >= square {
        for start in (0..N).step_by(2 * len) {
            let factor = factor_of::<V>(&ZETAS_BY_INDEX, (N / 2) / len + start / (2 * len));
            for j in (start..start + len).step_by(width) {
                let (mut low, mut high) = (f.at::<V>(j), f.at::<V>(j + len));
                butterfly(&mut low, &mut high, factor);
                f.set(j, low);
                f.set(j + len, high);
            }
        }
        len /= 2;
    }
    if width == 1 {
        return;
    }
    for block in (0..N).step_by(square) {
        let mut rows = load_block::<V>(f, block);
        // Called one by one, so that all vectors stay in registers.
        row_layer::<V, 8>(&mut rows, block);
        row_layer::<V, 4>(&mut rows, block);
        row_layer::<V, 2>(&mut rows, block);
        row_layer::<V, 1>(&mut rows, block);
        V::transpose(&mut rows);
        inner_layer::<V, 8>(&mut rows, block);
        inner_layer::<V, 4>(&mut rows, block);
        inner_layer::<V, 2>(&mut rows, block);
        inner_layer::<V, 1>(&mut rows, block);
        store_block(f, block, &rows);
    }
}

/// The inverse of NTT, algorithm 42, times 2^32: undoes the factor 2^-32 of a product.
#[inline(always)]
pub(crate) fn inverse<V: Ints>(f: &mut Poly) {
    let (width, square) = (V::WIDTH, V::WIDTH * V::WIDTH);
    // Sums double in each layer: from 0.85 q to 218 q, which is below 2^31.
    if width > 1 {
        for block in (0..N).step_by(square) {
            let mut rows = load_block::<V>(f, block);
            inverse_inner_layer::<V, 1>(&mut rows, block);
            inverse_inner_layer::<V, 2>(&mut rows, block);
            inverse_inner_layer::<V, 4>(&mut rows, block);
            inverse_inner_layer::<V, 8>(&mut rows, block);
            V::transpose(&mut rows);
            inverse_row_layer::<V, 1>(&mut rows, block);
            inverse_row_layer::<V, 2>(&mut rows, block);
            inverse_row_layer::<V, 4>(&mut rows, block);
            inverse_row_layer::<V, 8>(&mut rows, block);
            store_block(f, block, &rows);
        }
    }
    let mut len = if width > 1 { square } else { 1 };
    while len < N {
        for start in (0..N).step_by(2 * len) {
            let factor = factor_of::<V>(&INVERSE_ZETAS_BY_INDEX, N / len - 1 - start / (2 * len));
            for j in (start..start + len).step_by(width) {
                let (mut low, mut high) = (f.at::<V>(j), f.at::<V>(j + len));
                inverse_butterfly(&mut low, &mut high, factor);
                f.set(j, low);
                f.set(j + len, high);
            }
        }
        len *= 2;
    }
    // 256^-1 times 2^32, for a product that divides by 2^32 again.
    const LAST: i32 = montgomery(((8_347_681u64 << 32) % Q as u64) as u32);
    let (last, last_scaled) = (V::splat(LAST), V::splat(scaled(LAST)));
    for j in (0..N).step_by(width) {
        f.set(j, f.at::<V>(j).product(last, last_scaled));
    }
}

/// Puts a transform in the standard's order into the order of [`transform`].
#[inline(always)]
pub(crate) fn reorder<V: Ints>(f: &mut Poly) {
    for block in (0..N).step_by(V::WIDTH * V::WIDTH) {
        let mut rows = load_block::<V>(f, block);
        V::transpose(&mut rows);
        store_block(f, block, &rows);
    }
}

/// Returns a transform modulo q, below 0.75 q in amount: for transforms that are kept.
#[inline(always)]
pub(crate) fn reduce<V: Ints>(f: &mut Poly) {
    const ONE: i32 = montgomery(1);
    let (one, one_scaled) = (V::splat(ONE), V::splat(scaled(ONE)));
    for j in (0..N).step_by(V::WIDTH) {
        f.set(j, f.at::<V>(j).product(one, one_scaled));
    }
}

/// Sets `sum` to the sum of the products of up to eight pairs of transforms, of which the first are below q in amount
/// and the second below 9 q, divided by 2^32: below 0.85 q in amount.
#[inline(always)]
pub(crate) fn multiply_row<V: Ints>(row: &[Poly], v: &[Poly], sum: &mut Poly) {
    for j in (0..N).step_by(V::WIDTH) {
        let mut total = V::no_sum();
        for (a, b) in row.iter().zip(v) {
            total = V::add_product(total, a.at(j), b.at(j));
        }
        sum.set(j, V::reduce_sum(total));
    }
}

/// Adds a polynomial.
#[inline(always)]
pub(crate) fn add<V: Ints>(f: &mut Poly, other: &Poly) {
    for j in (0..N).step_by(V::WIDTH) {
        f.set(j, f.at::<V>(j).add(other.at(j)));
    }
}

/// Subtracts a polynomial.
#[inline(always)]
pub(crate) fn subtract<V: Ints>(f: &mut Poly, other: &Poly) {
    for j in (0..N).step_by(V::WIDTH) {
        f.set(j, f.at::<V>(j).sub(other.at(j)));
    }
}

/// Returns whether all coefficients, small numbers, are below `bound` in amount, and nothing else.
#[inline(always)]
pub(crate) fn is_below<V: Ints>(f: &Poly, bound: i32) -> bool {
    let most = V::splat(bound - 1);
    let mut outside = V::splat(0);
    for j in (0..N).step_by(V::WIDTH) {
        let value = f.at::<V>(j);
        // A number above the most, or below its negative, makes one of these negative.
        outside = outside.or(most.sub(value)).or(most.add(value));
    }
    !outside.is_any_negative()
}

/// Decompose, algorithm 36, of numbers above -q and below q: leaves r0 in `f`, and writes r1 to `high`.
#[inline(always)]
pub(crate) fn decompose<V: Ints>(gamma2: u32, f: &mut Poly, high: &mut Poly) {
    let q = V::splat(Q_SIGNED);
    let is_32nd = gamma2 == (Q - 1) / 32;
    for j in (0..N).step_by(V::WIDTH) {
        let value = f.at::<V>(j);
        let value = value.add(value.shift_right::<31>().and(q));
        // The quotients of 2^7 by twice gamma2, exact for all numbers below q; the top one counts as 0.
        let r1 = value.add(V::splat(127)).shift_right::<7>();
        let r1 = if is_32nd {
            let r1 = r1.low_product(V::splat(1025)).add(V::splat(1 << 21)).shift_right::<22>();
            r1.and(V::splat(15))
        } else {
            let r1 = r1.low_product(V::splat(11_275)).add(V::splat(1 << 23)).shift_right::<24>();
            r1.xor(V::splat(43).sub(r1).shift_right::<31>().and(r1))
        };
        let r0 = value.sub(r1.low_product(V::splat(2 * gamma2.cast_signed())));
        let is_top = V::splat((Q_SIGNED - 1) / 2).sub(r0).shift_right::<31>();
        f.set(j, r0.sub(is_top.and(q)));
        high.set(j, r1);
    }
}

/// Power2Round, algorithm 35, of numbers above -q and below q: leaves r0 in `f`, and writes r1 to `high`.
#[inline(always)]
pub(crate) fn power2_round<V: Ints>(f: &mut Poly, high: &mut Poly) {
    for j in (0..N).step_by(V::WIDTH) {
        let value = f.at::<V>(j);
        let value = value.add(value.shift_right::<31>().and(V::splat(Q_SIGNED)));
        let r1 = value.add(V::splat((1 << 12) - 1)).shift_right::<13>();
        f.set(j, value.sub(r1.low_product(V::splat(1 << 13))));
        high.set(j, r1);
    }
}

/// BitUnpack, algorithm 19, of y and z: coefficients from -gamma1 + 1 to gamma1.
///
/// # Panics
/// There are not [`UNPACK_SLACK`] bytes more than the values have.
#[inline(always)]
pub(crate) fn unpack_z<V: Ints>(bytes: &[u8], gamma1_bits: u32, f: &mut Poly) {
    let bits = 1 + gamma1_bits as usize;
    assert!(bytes.len() >= N * bits / 8 + UNPACK_SLACK);
    let gamma1 = V::splat(1 << gamma1_bits);
    for j in (0..N).step_by(V::WIDTH) {
        // SAFETY: the slice has the values and the slack.
        let value = unsafe {
            if bits == 20 { V::unpack::<20>(bytes.as_ptr(), j) } else { V::unpack::<18>(bytes.as_ptr(), j) }
        };
        f.set(j, gamma1.sub(value));
    }
}

/// MakeHint, algorithm 39, from w0 - c s2 + c t0 in `f` and w1 in `high`: a hint says that the high bits of the sum
/// are others than w1. Returns ones in `f`.
#[inline(always)]
pub(crate) fn make_hint<V: Ints>(gamma2: u32, f: &mut Poly, high: &Poly) {
    let gamma2 = V::splat(gamma2.cast_signed());
    let one = V::splat(1);
    for j in (0..N).step_by(V::WIDTH) {
        let (value, high) = (f.at::<V>(j), high.at::<V>(j));
        // Above gamma2, or below -gamma2.
        let outside = gamma2.sub(value).or(gamma2.add(value)).shift_right::<31>();
        // At -gamma2, unless the high bits are 0.
        let sum = gamma2.add(value);
        let is_edge = sum.or(V::splat(0).sub(sum)).shift_right::<31>().xor(V::splat(-1));
        let is_high = V::splat(0).sub(high).shift_right::<31>();
        f.set(j, outside.or(is_edge.and(is_high)).and(one));
    }
}
