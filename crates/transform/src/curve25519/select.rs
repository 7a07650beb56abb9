//! A table of multiples of eight public points, each way's in its own memory, from which digits choose by
//! address.
//!
//! It is for verification only: the addresses show the digits.
//!
//! `unsafe`: loads and stores of vectors at computed places within the table.
#![allow(unsafe_code)]

use core::arch::x86_64::*;
use std::sync::LazyLock;

use super::WAYS;
use super::edwards::{Affine, Cached, Sum};
use super::field::{self, Fe, Rows, V, splat, times};
use super::reference::Point;
use crate::isa::{Avx512, Features};

/// Multiples from 0 to 16.
const ENTRIES: usize = 17;

/// Words of an entry: four times five limbs, filled up to whole vectors.
const WORDS: usize = 24;

/// Multiples of a point in each way.
#[repr(C, align(64))]
pub(crate) struct Choice([[[u64; WORDS]; ENTRIES]; WAYS]);

/// Multiples of the base point, from 0 to what two digits can make.
const BASE_ENTRIES: usize = 16 * 33 + 1;

/// Words of an entry of the base point: three times five limbs, filled up to whole vectors.
const BASE_WORDS: usize = 16;

/// Multiples of the base point.
#[repr(C, align(64))]
struct Table([[u64; BASE_WORDS]; BASE_ENTRIES]);

static TABLE: LazyLock<Option<Box<Table>>> = LazyLock::new(|| {
    // SAFETY: the token proves the features.
    Features::detect().avx512.map(|_| unsafe { table() })
});

/// The multiples of the base point, which only a machine with the features of their users has.
#[derive(Clone, Copy)]
pub(crate) struct BaseChoice(&'static Table);

/// Computes the table, eight multiples side by side.
#[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
fn table() -> Box<Table> {
    let (mut x, mut y) = (Rows::ZERO, Rows::ZERO);
    for way in 0..WAYS {
        x.set(way, &Point::BASE.x.0);
        y.set(way, &Point::BASE.y.0);
    }
    let base = Affine::new(&Fe::from_words(&x.load()), &Fe::from_words(&y.load()));
    // Way n begins with n times the base point, and then takes eight steps at once.
    let (mut sum, mut next) = (Sum::neutral(), Sum::neutral());
    for way in 0..WAYS {
        next = next.add_affine(&base).to_sum();
        let mask = 0xfe << way;
        let choose = |a: &Fe, b: &Fe| field::select(mask, a, b);
        sum = Sum {
            plus: choose(&sum.plus, &next.plus),
            minus: choose(&sum.minus, &next.minus),
            z: choose(&sum.z, &next.z),
            t: choose(&sum.t, &next.t),
        };
    }
    let eight = next.cached();
    let mut table = Box::new(Table([[0; BASE_WORDS]; BASE_ENTRIES]));
    for entries in table.0.chunks_mut(WAYS) {
        let (x, y, z) = sum.coordinates();
        let inverse = field::invert(&z);
        let made = Affine::new(&times(&x, &inverse), &times(&y, &inverse));
        for (n, value) in [made.plus, made.minus, made.t2d].iter().enumerate() {
            let rows = Rows::store(&value.canonical());
            for (way, entry) in entries.iter_mut().enumerate() {
                entry[5 * n..5 * n + 5].copy_from_slice(&rows.get(way));
            }
        }
        sum = sum.add(&eight).to_sum();
    }
    table
}

impl BaseChoice {
    /// Returns the table, and computes it if this is the first use.
    pub(crate) fn get(_: Avx512) -> Self {
        Self(TABLE.as_deref().expect("there is a token only if the features are there"))
    }

    /// Returns the multiples by magnitudes from 0 to 528.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn entry(self, magnitude: V) -> Affine {
        let mut places = [0u64; WAYS];
        let index = _mm512_min_epu64(magnitude, splat(BASE_ENTRIES as i64 - 1));
        // SAFETY: eight words.
        unsafe { _mm512_storeu_si512(places.as_mut_ptr().cast(), index) };
        let mut rows = [[splat(0); WAYS]; 2];
        for way in 0..WAYS {
            let from = self.0.0[places[way] as usize].as_ptr();
            for (n, rows) in rows.iter_mut().enumerate() {
                // SAFETY: an entry is two vectors.
                rows[way] = unsafe { _mm512_load_si512(from.add(8 * n).cast()) };
            }
        }
        let [p0, p1, p2, p3, p4, m0, m1, m2] = transpose(rows[0]);
        let [m3, m4, t0, t1, t2, t3, t4, _] = transpose(rows[1]);
        Affine {
            plus: Fe([p0, p1, p2, p3, p4]),
            minus: Fe([m0, m1, m2, m3, m4]),
            t2d: Fe([t0, t1, t2, t3, t4]),
        }
    }
}

/// Exchanges rows and columns.
#[inline]
#[target_feature(enable = "avx512f")]
fn transpose(rows: [V; 8]) -> [V; 8] {
    let [a, b, c, d, e, f, g, h] = rows;
    // Words of two rows, then pairs of words of four, then quarters of all.
    let (ab0, ab1) = (_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
    let (cd0, cd1) = (_mm512_unpacklo_epi64(c, d), _mm512_unpackhi_epi64(c, d));
    let (ef0, ef1) = (_mm512_unpacklo_epi64(e, f), _mm512_unpackhi_epi64(e, f));
    let (gh0, gh1) = (_mm512_unpacklo_epi64(g, h), _mm512_unpackhi_epi64(g, h));
    let even = |x, y| _mm512_shuffle_i64x2::<0x88>(x, y);
    let odd = |x, y| _mm512_shuffle_i64x2::<0xdd>(x, y);
    let (p0, p1, q0, q1) = (even(ab0, cd0), even(ab1, cd1), even(ef0, gh0), even(ef1, gh1));
    let (s0, s1, t0, t1) = (odd(ab0, cd0), odd(ab1, cd1), odd(ef0, gh0), odd(ef1, gh1));
    [
        even(p0, q0),
        even(p1, q1),
        even(s0, t0),
        even(s1, t1),
        odd(p0, q0),
        odd(p1, q1),
        odd(s0, t0),
        odd(s1, t1),
    ]
}

impl Choice {
    /// Computes the multiples of points with Z = 1.
    #[inline(never)]
    #[target_feature(enable = "avx512f,avx512ifma,avx512dq")]
    pub(crate) fn of_multiples(point: &Affine) -> Self {
        let mut table = Self([[[0; WORDS]; ENTRIES]; WAYS]);
        let mut sum = Sum::neutral();
        table.put(0, &sum.cached());
        for entry in 1..ENTRIES {
            sum = sum.add_affine(point).to_sum();
            table.put(entry, &sum.cached());
        }
        table
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn put(&mut self, entry: usize, value: &Cached) {
        let Cached { plus: Fe(p), minus: Fe(m), z2: Fe(z), t2d: Fe(t) } = value;
        let zero = _mm512_setzero_si512();
        let rows = [
            transpose([p[0], p[1], p[2], p[3], p[4], m[0], m[1], m[2]]),
            transpose([m[3], m[4], z[0], z[1], z[2], z[3], z[4], t[0]]),
            transpose([t[1], t[2], t[3], t[4], zero, zero, zero, zero]),
        ];
        for way in 0..WAYS {
            let to = self.0[way][entry].as_mut_ptr();
            for (n, rows) in rows.iter().enumerate() {
                // SAFETY: an entry is three vectors.
                unsafe { _mm512_storeu_si512(to.add(8 * n).cast(), rows[way]) };
            }
        }
    }

    /// Returns the multiples by magnitudes from 0 to 16.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn get(&self, magnitude: V) -> Cached {
        let mut places = [0u64; WAYS];
        // SAFETY: eight words.
        unsafe { _mm512_storeu_si512(places.as_mut_ptr().cast(), _mm512_min_epu64(magnitude, splat(16))) };
        let mut rows = [[splat(0); WAYS]; 3];
        for way in 0..WAYS {
            let from = self.0[way][places[way] as usize].as_ptr();
            for (n, rows) in rows.iter_mut().enumerate() {
                // SAFETY: an entry is three vectors.
                rows[way] = unsafe { _mm512_loadu_si512(from.add(8 * n).cast()) };
            }
        }
        let [p0, p1, p2, p3, p4, m0, m1, m2] = transpose(rows[0]);
        let [m3, m4, z0, z1, z2, z3, z4, t0] = transpose(rows[1]);
        let [t1, t2, t3, t4, ..] = transpose(rows[2]);
        Cached {
            plus: Fe([p0, p1, p2, p3, p4]),
            minus: Fe([m0, m1, m2, m3, m4]),
            z2: Fe([z0, z1, z2, z3, z4]),
            t2d: Fe([t0, t1, t2, t3, t4]),
        }
    }
}
