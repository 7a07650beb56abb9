//! Multiples of the base point eight ways at once, without doublings: 51 additions of entries of a table.
//!
//! The table has, for each digit's place in the base 32, the sixteen multiples that a digit's magnitude may
//! want. All ways share it, so the sixteen entries of a limb lie in two vectors, and a permutation of these
//! takes each way's entry: both vectors are read whole, whatever the digits are.
//!
//! The first use computes the table, in less than a millisecond.
//!
//! `unsafe`: loads of vectors, and a call whose CPU features a token proves.
#![allow(unsafe_code)]

use core::arch::x86_64::*;
use std::sync::LazyLock;

use super::WAYS;
use super::edwards::{Affine, Double, Sum};
use super::field::{self, Fe, Rows, V, splat, times};
use super::reference::Point;
use super::scalar::{DIGITS, Digits};
use crate::isa::{Avx512, Features};

/// Multiples for one digit, from 1 to [`ENTRIES`].
const ENTRIES: usize = 16;

/// Limbs of an entry: Y + X, Y - X and 2 * d * T of five each.
const LIMBS: usize = 15;

/// For each place, limb and multiple.
#[repr(C, align(64))]
struct Table([[[u64; ENTRIES]; LIMBS]; DIGITS]);

static TABLE: LazyLock<Option<Box<Table>>> = LazyLock::new(|| {
    // SAFETY: the token proves the features.
    Features::detect().avx512.map(|_| unsafe { table() })
});

/// The table, which only a machine with the features of its users has.
#[derive(Clone, Copy)]
pub(crate) struct Base(&'static Table);

impl Base {
    /// Returns the table, and computes it if this is the first use.
    pub(crate) fn get(_: Avx512) -> Self {
        Self(TABLE.as_deref().expect("there is a token only if the features are there"))
    }

    /// Returns the multiples of the base point by the digits.
    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
    pub(crate) fn multiply(self, digits: &Digits) -> Sum {
        let mut sum = Sum::neutral();
        for place in 0..DIGITS {
            let (magnitude, negative) = digits.get(place);
            let entry = self.entry(place, magnitude).negate_some(negative);
            sum = sum.add_affine(&entry).to_sum();
        }
        sum
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
    fn entry(self, place: usize, magnitude: V) -> Affine {
        let one = splat(1);
        let some = _mm512_test_epi64_mask(magnitude, magnitude);
        // The permutation looks at the last four bits.
        let index = _mm512_sub_epi64(magnitude, one);
        let mut limbs = [one; LIMBS];
        for (limb, row) in limbs.iter_mut().zip(&self.0.0[place]) {
            // SAFETY: a row is two vectors.
            let (low, high) = unsafe {
                (_mm512_load_si512(row.as_ptr().cast()), _mm512_load_si512(row.as_ptr().add(WAYS).cast()))
            };
            *limb = _mm512_maskz_permutex2var_epi64(some, low, index, high);
        }
        let [p0, p1, p2, p3, p4, m0, m1, m2, m3, m4, t0, t1, t2, t3, t4] = limbs;
        // The neutral point has y + x = y - x = 1.
        let (p0, m0) = (_mm512_mask_mov_epi64(one, some, p0), _mm512_mask_mov_epi64(one, some, m0));
        Affine {
            plus: Fe([p0, p1, p2, p3, p4]),
            minus: Fe([m0, m1, m2, m3, m4]),
            t2d: Fe([t0, t1, t2, t3, t4]),
        }
    }
}

/// Computes the table, eight places side by side.
#[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
fn table() -> Box<Table> {
    // The points of the places, 32 times each other.
    let mut places = [[[0; 5]; 3]; DIGITS];
    let (mut x, mut y) = (Rows::ZERO, Rows::ZERO);
    for way in 0..WAYS {
        x.set(way, &Point::BASE.x.0);
        y.set(way, &Point::BASE.y.0);
    }
    let (x, y) = (Fe::from_words(&x.load()), Fe::from_words(&y.load()));
    let mut point = Double { x, y, z: Fe::one(), sum: field::carry(&field::add(&x.wide(), &y.wide())) };
    for place in &mut places {
        for (limbs, value) in place.iter_mut().zip([point.x, point.y, point.z]) {
            *limbs = Rows::store(&value.0).get(0);
        }
        for _ in 0..5 {
            point = point.double().to_double();
        }
    }
    let mut table = Box::new(Table([[[0; ENTRIES]; LIMBS]; DIGITS]));
    for (group, places) in places.chunks(WAYS).enumerate() {
        let mut rows = [Rows::ZERO; 3];
        for way in 0..WAYS {
            for (rows, limbs) in rows.iter_mut().zip(places.get(way).unwrap_or(&places[0])) {
                rows.set(way, limbs);
            }
        }
        let [x, y, z] = [Fe(rows[0].load()), Fe(rows[1].load()), Fe(rows[2].load())];
        let inverse = field::invert(&z);
        let first = Affine::new(&times(&x, &inverse), &times(&y, &inverse));
        let mut sum = Sum::neutral();
        for entry in 0..ENTRIES {
            sum = sum.add_affine(&first).to_sum();
            let (x, y, z) = sum.coordinates();
            let inverse = field::invert(&z);
            let made = Affine::new(&times(&x, &inverse), &times(&y, &inverse));
            for (n, value) in [made.plus, made.minus, made.t2d].iter().enumerate() {
                let rows = Rows::store(&value.canonical());
                for way in 0..places.len() {
                    for (limb, value) in rows.get(way).into_iter().enumerate() {
                        table.0[WAYS * group + way][5 * n + limb][entry] = value;
                    }
                }
            }
        }
    }
    table
}
