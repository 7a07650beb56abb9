//! Eight ways of multiplication, squaring and Montgomery reduction in radix 2^52 by AVX-512 IFMA.
//!
//! A number of `L` limbs is an array of `L` vectors: vector `i` holds limb `i` of all eight ways, so that no
//! operation crosses ways. Products are collected in *columns*: 64-bit sums of the low and high halves of
//! 52-bit products, which are carried only where a reduction or a result needs it. A column takes at most 4 L
//! + 2 products of L <= 80 limbs, and 2^52 * 2 * 322 < 2^62.
//!
//! Work is cut into tiles of `W` by `W` limbs whose `W` columns stay in registers while the rows of the tile
//! slide over them; `W` is at most 20, so that the columns, a row's limb and a column's limb fit into 32
//! registers. Every limb of the other operand is loaded once for two products.
//!
//! The instruction stream depends on `L` and `W` only. The intrinsics are safe inside functions that enable
//! their features; `unsafe` is one empty line of assembly that orders instructions.
#![allow(unsafe_code)]

use core::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_and_si512, _mm512_madd52hi_epu64, _mm512_madd52lo_epu64,
    _mm512_set1_epi64, _mm512_setzero_si512, _mm512_srli_epi64,
};

use super::LIMB_BITS;

/// Eight words of 64 bits, one a way.
pub(crate) type V = __m512i;

/// Number of ways.
pub(crate) const WAYS: usize = 8;

/// Numbers of `L` limbs, one a way.
pub(crate) type Number<const L: usize> = [V; L];

#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(crate) fn zero<const L: usize>() -> Number<L> {
    [_mm512_setzero_si512(); L]
}

/// Adds `x * y` to the columns of `t`: `x` and `y` have `W` limbs, `t` has 2 W columns, of which the lower
/// and the upper `W` count as zero if `LOW` and `HIGH` do not keep them.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(crate) fn multiply_tile<const W: usize, const LOW: bool, const HIGH: bool>(
    t: &mut [V],
    x: &[V; W],
    y: &[V; W],
) {
    let (low, high) = t.split_at_mut(W);
    let (Ok(low), Some(high)) = (<&mut [V; W]>::try_from(low), high.first_chunk_mut::<W>()) else { return };
    let zero = _mm512_setzero_si512();
    let mut columns = if LOW { *low } else { [zero; W] };
    for i in 0..W {
        let limb = x[i];
        for j in 0..W {
            columns[j] = _mm512_madd52lo_epu64(columns[j], limb, y[j]);
        }
        low[i] = columns[0];
        for j in 0..W - 1 {
            columns[j] = _mm512_madd52hi_epu64(columns[j + 1], limb, y[j]);
        }
        columns[W - 1] = _mm512_madd52hi_epu64(if HIGH { high[i] } else { zero }, limb, y[W - 1]);
    }
    *high = columns;
}

/// Returns `value`, and has the compiler place its uses behind the computation of `first`.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn after(mut value: V, first: V) -> V {
    // SAFETY: no instruction at all.
    unsafe {
        core::arch::asm!("/* {0} {1} */", inout(zmm_reg) value, in(zmm_reg) first,
            options(pure, nomem, nostack, preserves_flags));
    }
    value
}

/// Adds a multiple of the modulus to the columns of `t` so that the lowest `W` vanish: `m` is the lowest tile
/// of the modulus, `k0` is -1 / m mod 2^52. Leaves the factors in `q` and the carry in column `W`.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(crate) fn reduce_tile<const W: usize>(t: &mut [V], m: &[V; W], k0: V, q: &mut [V; W]) {
    let (low, high) = t.split_at_mut(W);
    let (Ok(low), Some(high)) = (<&mut [V; W]>::try_from(low), high.first_chunk_mut::<W>()) else { return };
    let (zero, mask) = (_mm512_setzero_si512(), _mm512_set1_epi64((1 << LIMB_BITS) - 1));
    let mut columns = *low;
    let mut factor = _mm512_madd52lo_epu64(zero, columns[0], k0);
    for i in 0..W {
        q[i] = factor;
        // The chain from one factor to the next goes first, and the other products fill its latency. The
        // lowest column becomes a multiple of 2^52, so its carry is its quotient rounded up: neither its
        // product nor the factor is needed.
        let carry = _mm512_srli_epi64::<LIMB_BITS>(_mm512_add_epi64(columns[0], mask));
        let second = _mm512_madd52lo_epu64(_mm512_add_epi64(columns[1], carry), factor, m[1]);
        columns[0] = _mm512_add_epi64(second, _mm512_madd52hi_epu64(zero, factor, m[0]));
        let next = _mm512_madd52lo_epu64(zero, columns[0], k0);
        factor = after(factor, next);
        for j in 2..W {
            columns[j] = _mm512_madd52lo_epu64(columns[j], factor, m[j]);
        }
        for j in 1..W - 1 {
            columns[j] = _mm512_madd52hi_epu64(columns[j + 1], factor, m[j]);
        }
        columns[W - 1] = _mm512_madd52hi_epu64(high[i], factor, m[W - 1]);
        factor = next;
    }
    *high = columns;
}

/// Carries columns into limbs of 52 bits; the value must fit.
#[inline]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(crate) fn carry_limbs(out: &mut [V], columns: &[V]) {
    let mask = _mm512_set1_epi64((1 << LIMB_BITS) - 1);
    let mut carry = _mm512_setzero_si512();
    for (out, column) in out.iter_mut().zip(columns) {
        let sum = _mm512_add_epi64(*column, carry);
        *out = _mm512_and_si512(sum, mask);
        carry = _mm512_srli_epi64::<LIMB_BITS>(sum);
    }
}

/// Doubles the columns of `t` and adds the square of `x` to them, doubled columns being the products of
/// different limbs: those that `t` has already, and those of this tile. The lower and the upper `W` columns
/// of `t` count as zero if `LOW` and `HIGH` do not keep them.
#[inline(never)]
#[allow(unused_assignments, reason = "the last row slides the columns like all others")]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
pub(crate) fn square_tile<const W: usize, const LOW: bool, const HIGH: bool>(t: &mut [V], x: &[V; W]) {
    let (low, high) = t.split_at_mut(W);
    let (Ok(low), Some(high)) = (<&mut [V; W]>::try_from(low), high.first_chunk_mut::<W>()) else { return };
    // Column i + j of a row i, which has the limbs j > i; `columns` begins at column 2 i + 1.
    macro_rules! column {
        ($n:expr) => {
            if $n < W { &mut low[$n] } else { &mut high[$n - W] }
        };
    }
    let zero = _mm512_setzero_si512();
    if !LOW {
        *low = [zero; W];
    }
    if !HIGH {
        *high = [zero; W];
    }
    let mut columns = [zero; W];
    for n in 0..W {
        columns[n] = *column!(n + 1);
    }
    let first = _mm512_add_epi64(low[0], low[0]);
    low[0] = _mm512_madd52lo_epu64(first, x[0], x[0]);
    macro_rules! rows {
        ($($i:literal)*) => { $( if $i < W {
            let limb = x[$i];
            for j in $i + 1..W {
                columns[j - $i - 1] = _mm512_madd52lo_epu64(columns[j - $i - 1], limb, x[j]);
            }
            for j in $i + 1..W {
                columns[j - $i] = _mm512_madd52hi_epu64(columns[j - $i], limb, x[j]);
            }
            let odd = _mm512_add_epi64(columns[0], columns[0]);
            *column!(2 * $i + 1) = _mm512_madd52hi_epu64(odd, limb, limb);
            if $i + 1 < W {
                let even = _mm512_add_epi64(columns[1], columns[1]);
                *column!(2 * $i + 2) = _mm512_madd52lo_epu64(even, x[$i + 1], x[$i + 1]);
                for n in 2..W {
                    columns[n - 2] = columns[n];
                }
                if 2 * $i + 1 < W {
                    columns[W - 2] = *column!(W + 2 * $i + 1);
                }
                if 2 * $i + 2 < W {
                    columns[W - 1] = *column!(W + 2 * $i + 2);
                }
            }
        } )* };
    }
    rows!(0 1 2 3 4 5 6 7 8 9);
}
