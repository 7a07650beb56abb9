//! Eight moduli side by side: conversion, modular multiplication, and powers with secret exponents.
//!
//! Every function runs the same instructions for all ways and all values. A power reads its whole table for
//! every digit and blends by masks; the last subtraction is masked. `unsafe` code turns rows of words into
//! vectors.
#![allow(unsafe_code)]

use core::arch::x86_64::{
    __mmask8, _mm512_add_epi64, _mm512_and_si512, _mm512_cmpeq_epi64_mask, _mm512_mask_blend_epi64,
    _mm512_movepi64_mask, _mm512_set1_epi64, _mm512_setzero_si512, _mm512_srai_epi64, _mm512_srli_epi64,
    _mm512_sub_epi64,
};

use arrayvec::ArrayVec;

use super::kernel::{self, Number, V, WAYS, zero};
use super::table::{Selection, get, put};
use super::{Constants, LIMB_BITS};
use crate::wipe::wipe;

/// Limbs of a tile: ten columns and ten limbs stay in registers.
const TILE: usize = 10;

/// Limbs of the longest modulus.
const LIMBS_MAX: usize = 80;

/// Returns the small number `value` in all ways.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(crate) fn small<const L: usize>(value: u32) -> Number<L> {
    let mut out = zero();
    out[0] = _mm512_set1_epi64(i64::from(value));
    out
}

/// Returns a vector of eight words.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(crate) fn vector(words: [u64; WAYS]) -> V {
    // SAFETY: both are 64 bytes, and all patterns are values of both.
    unsafe { core::mem::transmute::<[u64; WAYS], V>(words) }
}

/// Returns the eight words of a vector.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(crate) fn words(vector: V) -> [u64; WAYS] {
    // SAFETY: both are 64 bytes, and all patterns are values of both.
    unsafe { core::mem::transmute::<V, [u64; WAYS]>(vector) }
}

/// Puts the limbs of eight numbers side by side; each has at least `L` limbs.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(crate) fn gather<const L: usize>(ways: [&[u64]; WAYS]) -> Number<L> {
    let mut out = zero();
    for (n, out) in out.iter_mut().enumerate() {
        *out = vector(ways.map(|way| way[n]));
    }
    out
}

/// Writes the limbs of way `way` to `limbs`.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(crate) fn scatter<const L: usize>(number: &Number<L>, way: usize, limbs: &mut [u64]) {
    for (limb, vector) in limbs.iter_mut().zip(number) {
        *limb = words(*vector)[way];
    }
}

/// Reads eight big-endian numbers, each of less than 52 L bits.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(crate) fn from_bytes<const L: usize>(ways: [&[u8]; WAYS]) -> Number<L> {
    let mut rows = [[0u64; WAYS]; L];
    for (way, bytes) in ways.into_iter().enumerate() {
        for (n, row) in rows.iter_mut().enumerate() {
            // A limb begins at the lower or the upper half of a byte, and lies within eight.
            let (from, shift) = (n * LIMB_BITS as usize / 8, n * LIMB_BITS as usize % 8);
            let rest = &bytes[..bytes.len().saturating_sub(from)];
            let word = match rest.last_chunk() {
                Some(word) => u64::from_be_bytes(*word),
                None => rest.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)),
            };
            row[way] = word >> shift & ((1 << LIMB_BITS) - 1);
        }
    }
    let mut out = zero();
    for (out, row) in out.iter_mut().zip(&rows) {
        *out = vector(*row);
    }
    wipe(&mut rows, [0; WAYS]);
    out
}

/// Writes way `way`, whose limbs are below 2^52, as a big-endian number; what does not fit must be zero.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(crate) fn to_bytes<const L: usize>(number: &Number<L>, way: usize, bytes: &mut [u8]) {
    // Two limbs have thirteen bytes.
    for (bytes, pair) in bytes.rchunks_mut(13).zip(number.chunks(2)) {
        let [low, high] = [0, 1].map(|n| pair.get(n).map_or(0, |vector| words(*vector)[way]));
        let value = (u128::from(high) << LIMB_BITS | u128::from(low)).to_be_bytes();
        bytes.copy_from_slice(&value[value.len() - bytes.len()..]);
    }
}

/// Adds `b` to `a` and carries.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(crate) fn add<const L: usize>(a: &mut Number<L>, b: &Number<L>) {
    for (a, b) in a.iter_mut().zip(b) {
        *a = _mm512_add_epi64(*a, *b);
    }
    carry(a);
}

/// Subtracts `b` from `a` and carries; the difference must not be negative.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(crate) fn subtract<const L: usize>(a: &mut Number<L>, b: &Number<L>) {
    let _ = subtract_borrowing(a, b);
}

/// Subtracts `b` from `a` modulo 2^(52 L), and returns the ways in which `a` was smaller.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn subtract_borrowing<const L: usize>(a: &mut Number<L>, b: &Number<L>) -> __mmask8 {
    let mask = _mm512_set1_epi64((1 << LIMB_BITS) - 1);
    let mut borrow = _mm512_setzero_si512();
    for (a, b) in a.iter_mut().zip(b) {
        let difference = _mm512_add_epi64(_mm512_sub_epi64(*a, *b), borrow);
        *a = _mm512_and_si512(difference, mask);
        borrow = _mm512_srai_epi64::<LIMB_BITS>(difference);
    }
    _mm512_movepi64_mask(borrow)
}

/// Returns the ways in which `a` is below `b`, both in limbs below 2^52.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(crate) fn is_below<const L: usize>(a: &Number<L>, b: &Number<L>) -> __mmask8 {
    let mut difference = *a;
    let below = subtract_borrowing(&mut difference, b);
    wipe(&mut difference, _mm512_setzero_si512());
    below
}

/// Carries columns into limbs.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(crate) fn carry(number: &mut [V]) {
    let mask = _mm512_set1_epi64((1 << LIMB_BITS) - 1);
    let mut carry = _mm512_setzero_si512();
    for limb in number {
        let sum = _mm512_add_epi64(*limb, carry);
        *limb = _mm512_and_si512(sum, mask);
        carry = _mm512_srli_epi64::<LIMB_BITS>(sum);
    }
}

/// Returns the ways in which `a` equals `b`, both in limbs below 2^52.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(crate) fn equals<const L: usize>(a: &Number<L>, b: &Number<L>) -> __mmask8 {
    a.iter().zip(b).fold(0xff, |all, (a, b)| all & _mm512_cmpeq_epi64_mask(*a, *b))
}

/// Memory for the intermediate values of one batch, wiped by [`Scratch::wipe`].
pub(crate) struct Scratch {
    columns: [V; 2 * LIMBS_MAX],
    factors: [V; TILE],
}

impl Scratch {
    /// Returns zeroed memory.
    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    pub(crate) fn new() -> Self {
        Self { columns: zero(), factors: zero() }
    }

    /// Overwrites the memory.
    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    pub(crate) fn wipe(&mut self) {
        wipe(&mut self.columns, _mm512_setzero_si512());
        wipe(&mut self.factors, _mm512_setzero_si512());
    }
}

/// Eight moduli of `L` limbs.
pub(crate) struct Moduli<const L: usize> {
    modulus: Number<L>,
    k0: V,
}

impl<const L: usize> Moduli<L> {
    /// Takes the moduli of eight keys, each of `L` limbs.
    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    pub(crate) fn new(ways: [&Constants; WAYS]) -> Self {
        Self { modulus: gather(ways.map(|way| &*way.modulus)), k0: vector(ways.map(|way| way.k0)) }
    }

    /// Overwrites the moduli, which may be secret.
    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    pub(crate) fn wipe(&mut self) {
        wipe(&mut self.modulus, _mm512_setzero_si512());
        wipe(core::slice::from_mut(&mut self.k0), _mm512_setzero_si512());
    }

    /// Returns the moduli.
    pub(crate) const fn modulus(&self) -> &Number<L> {
        &self.modulus
    }

    /// Reduces the columns of the scratch memory by R into `out`, and runs `beside` after each tile.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    fn reduce(&self, out: &mut Number<L>, scratch: &mut Scratch, beside: &mut impl FnMut()) {
        let (modulus, _) = self.modulus.as_chunks::<TILE>();
        for i in 0..L / TILE {
            let rest = &mut scratch.columns[i * TILE..];
            kernel::reduce_tile::<TILE>(rest, &modulus[0], self.k0, &mut scratch.factors);
            beside();
            for j in 1..L / TILE {
                kernel::multiply_tile::<TILE, true, true>(
                    &mut rest[j * TILE..],
                    &scratch.factors,
                    &modulus[j],
                );
                beside();
            }
        }
        kernel::carry_limbs(out, &scratch.columns[L..2 * L]);
    }

    /// `x` = x y / R, below twice the modulus if x y is below m R.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    pub(crate) fn multiply(&self, x: &mut Number<L>, y: &Number<L>, scratch: &mut Scratch) {
        product(&mut scratch.columns, x, y);
        self.reduce(x, scratch, &mut || {});
    }

    /// `x` = x^2 / R, below twice the modulus if x^2 is below m R.
    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    pub(crate) fn square(&self, x: &mut Number<L>, scratch: &mut Scratch) {
        self.square_beside(x, scratch, &mut || {});
    }

    /// Squares, and runs `beside` after each tile of the reduction: L / 10 times squared.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    fn square_beside(&self, x: &mut Number<L>, scratch: &mut Scratch, beside: &mut impl FnMut()) {
        let columns = &mut scratch.columns;
        let (tiles, _) = x.as_chunks::<TILE>();
        let count = L / TILE;
        for i in 0..count {
            for j in 0..i {
                let columns = &mut columns[(i + j) * TILE..];
                // Whether an earlier tile has written the lower and the upper columns.
                match (i + j > 1, i > j + 2) {
                    (false, _) => kernel::multiply_tile::<TILE, false, false>(columns, &tiles[i], &tiles[j]),
                    (true, false) => {
                        kernel::multiply_tile::<TILE, true, false>(columns, &tiles[i], &tiles[j])
                    }
                    (true, true) => kernel::multiply_tile::<TILE, true, true>(columns, &tiles[i], &tiles[j]),
                }
            }
        }
        kernel::square_tile::<TILE, false, true>(columns, &tiles[0]);
        for (i, tile) in tiles.iter().enumerate().take(count - 1).skip(1) {
            kernel::square_tile::<TILE, true, true>(&mut columns[2 * i * TILE..], tile);
        }
        kernel::square_tile::<TILE, true, false>(&mut columns[2 * (count - 1) * TILE..], &tiles[count - 1]);
        self.reduce(x, scratch, beside);
    }

    /// Reduces a number below twice the modulus fully.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    pub(crate) fn finish(&self, x: &mut Number<L>) {
        let mut reduced = *x;
        let below = subtract_borrowing(&mut reduced, &self.modulus);
        for (x, reduced) in x.iter_mut().zip(&mut reduced) {
            *x = _mm512_mask_blend_epi64(below, *reduced, *x);
        }
        wipe(&mut reduced, _mm512_setzero_si512());
    }

    /// Takes `x` out of Montgomery's form and reduces it fully.
    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    pub(crate) fn leave(&self, x: &mut Number<L>, scratch: &mut Scratch) {
        let (low, high) = scratch.columns.split_at_mut(L);
        low.copy_from_slice(x);
        high[..L].fill(_mm512_setzero_si512());
        self.reduce(x, scratch, &mut || {});
        self.finish(x);
    }

    /// `x` = x to the power of the exponent whose digits of `W` bits are `digits`, highest first, each with
    /// its eight ways. `x` and `one` are in Montgomery's form; the 2^W = `E` entries of `table` are
    /// overwritten with secrets, and wiped.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
    pub(crate) fn power<const W: usize, const E: usize>(
        &self,
        x: &mut Number<L>,
        one: &Number<L>,
        digits: &[[u8; WAYS]],
        table: &mut [Number<L>; E],
        scratch: &mut Scratch,
    ) {
        const { assert!(E == 1 << W, "a table has an entry for every digit") };
        let Some((first, rest)) = digits.split_first() else {
            *x = *one;
            return;
        };
        let table = table.as_flattened_mut();
        let mut power = *one;
        put::<L, E>(table, 0, &power);
        put::<L, E>(table, 1, x);
        for n in 2..E {
            if n % 2 == 0 {
                power = get::<L, E>(table, n / 2);
                self.square(&mut power, scratch);
            } else {
                self.multiply(&mut power, x, scratch);
            }
            put::<L, E>(table, n, &power);
        }
        wipe(&mut power, _mm512_setzero_si512());
        let mut selection = Selection::<L, E>::new();
        selection.begin(*first);
        selection.finish(table);
        *x = selection.out;
        for digit in rest {
            selection.begin(*digit);
            for _ in 0..W {
                self.square_beside(x, scratch, &mut || selection.step(table));
            }
            selection.finish(table);
            self.multiply(x, &selection.out, scratch);
        }
        selection.wipe();
        wipe(table, _mm512_setzero_si512());
    }
}

/// Returns the ways whose number, in limbs below 2^52, is above 1 and below m - 1.
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(crate) fn is_inner<const L: usize>(moduli: &Moduli<L>, number: &Number<L>) -> __mmask8 {
    let mut top = *moduli.modulus();
    subtract(&mut top, &small(1));
    let is_small = equals(number, &small(0)) | equals(number, &small(1));
    is_below(number, &top) & !is_small
}

/// Overwrites 2 L columns with the product of `x` and `y`.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn product<const L: usize>(columns: &mut [V], x: &Number<L>, y: &Number<L>) {
    let (x, y) = (x.as_chunks::<TILE>().0, y.as_chunks::<TILE>().0);
    for (i, x) in x.iter().enumerate() {
        for (j, y) in y.iter().enumerate() {
            let columns = &mut columns[(i + j) * TILE..];
            // Whether an earlier tile has written the lower and the upper columns.
            match (i + j > 0, i > 0 && j + 1 < L / TILE) {
                (false, _) => kernel::multiply_tile::<TILE, false, false>(columns, x, y),
                (true, false) => kernel::multiply_tile::<TILE, true, false>(columns, x, y),
                (true, true) => kernel::multiply_tile::<TILE, true, true>(columns, x, y),
            }
        }
    }
}

/// Writes x y + z to `out`, whose 2 L limbs take it.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(crate) fn multiply_add<const L: usize>(out: &mut [V], x: &Number<L>, y: &Number<L>, z: &Number<L>) {
    product(out, x, y);
    for (out, z) in out.iter_mut().zip(z) {
        *out = _mm512_add_epi64(*out, *z);
    }
    carry(out);
}

/// Passes up to eight jobs of one kind at a time to `run`, kind by kind. A job of no kind is left out: `kind_of` has said
/// in it why.
pub(crate) fn each_eight<J, K: Copy + PartialEq>(
    jobs: &mut [J],
    kinds: impl IntoIterator<Item = K>,
    kind_of: impl Fn(&mut J) -> Option<K>,
    mut run: impl FnMut(K, &mut [&mut J]),
) {
    for kind in kinds {
        let mut batch = ArrayVec::<&mut J, WAYS>::new();
        for job in jobs.iter_mut() {
            if kind_of(job) == Some(kind) {
                batch.push(job);
            }
            if batch.is_full() {
                run(kind, &mut batch);
                batch.clear();
            }
        }
        if !batch.is_empty() {
            run(kind, &mut batch);
        }
    }
}

/// Returns the job of each way, where `count` jobs lie in the first of every `spread` ways; a way without a job repeats
/// the first.
pub(crate) fn way_jobs(count: usize, spread: usize) -> [usize; WAYS] {
    core::array::from_fn(|way| if way % spread < count { way % spread } else { 0 })
}
