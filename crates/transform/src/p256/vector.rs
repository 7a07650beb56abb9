//! Eight 64-bit elements: the few instructions that the kernels of this folder use.
//!
//! Every function is `#[inline(always)]` and becomes one instruction inside a function that enables the
//! features. **Contract of this module, of [`super::field`] and of [`super::points`]: they are reached only
//! from functions whose entry point took [`crate::isa::Avx512`]**, which proves AVX-512 F, BW, DQ, VL and
//! IFMA. `unsafe`: intrinsics.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

/// Eight 64-bit elements.
pub(super) type V = __m512i;
/// A bit for each way.
pub(super) type Mask = __mmask8;

/// The bits of a limb.
pub(super) const LIMB: u64 = (1 << 52) - 1;

macro_rules! instructions {
    ($(
        $(#[$doc:meta])*
        $name:ident$(<const $n:ident: $kind:ty>)?($($arg:ident: $type:ty),*) -> $ret:ty = $call:expr;
    )*) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub(super) fn $name$(<const $n: $kind>)?($($arg: $type),*) -> $ret {
            // SAFETY: reached only under the token, as the module's contract says.
            unsafe { $call }
        }
    )* };
}

instructions! {
    /// Returns the value in all ways.
    splat(value: u64) -> V = _mm512_set1_epi64(value as i64);
    zero() -> V = _mm512_setzero_si512();
    add(a: V, b: V) -> V = _mm512_add_epi64(a, b);
    sub(a: V, b: V) -> V = _mm512_sub_epi64(a, b);
    and(a: V, b: V) -> V = _mm512_and_si512(a, b);
    or(a: V, b: V) -> V = _mm512_or_si512(a, b);
    xor(a: V, b: V) -> V = _mm512_xor_si512(a, b);
    /// Shifts left by a constant.
    left<const N: u32>(a: V) -> V = _mm512_slli_epi64::<N>(a);
    /// Shifts right by a constant.
    right<const N: u32>(a: V) -> V = _mm512_srli_epi64::<N>(a);
    /// Shifts right by a constant with the sign.
    signed_right<const N: u32>(a: V) -> V = _mm512_srai_epi64::<N>(a);
    /// Shifts all ways left by the same count; 64 and above give zero.
    left_by(a: V, count: u64) -> V = _mm512_sll_epi64(a, _mm_cvtsi64_si128(count as i64));
    /// Shifts all ways right by the same count.
    right_by(a: V, count: u64) -> V = _mm512_srl_epi64(a, _mm_cvtsi64_si128(count as i64));
    /// Returns b where the mask is set, else a.
    blend(mask: Mask, a: V, b: V) -> V = _mm512_mask_mov_epi64(a, mask, b);
    /// Returns a − b where the mask is set, else `kept`.
    sub_where(kept: V, mask: Mask, a: V, b: V) -> V = _mm512_mask_sub_epi64(kept, mask, a, b);
    /// Returns where a equals b.
    equal(a: V, b: V) -> Mask = _mm512_cmpeq_epi64_mask(a, b);
    /// Returns where a & b is not zero.
    any_common(a: V, b: V) -> Mask = _mm512_test_epi64_mask(a, b);
    /// Returns where a is below zero.
    negative(a: V) -> Mask = _mm512_movepi64_mask(a);
    /// Returns, in each way, the value of the sixteen of `a` and `b` that the low four bits of the index
    /// name. All sixteen are in registers: no address depends on the index.
    pick(a: V, index: V, b: V) -> V = _mm512_permutex2var_epi64(a, index, b);
    /// Exchanges neighbouring ways.
    swap_one(a: V) -> V = _mm512_permutex_epi64::<0b10_11_00_01>(a);
    /// Exchanges neighbouring pairs of ways.
    swap_two(a: V) -> V = _mm512_permutex_epi64::<0b01_00_11_10>(a);
    /// Exchanges the halves.
    swap_four(a: V) -> V = _mm512_shuffle_i64x2::<0b01_00_11_10>(a, a);
    /// Returns the words of an array.
    load(words: &[u64; 8]) -> V = _mm512_loadu_si512(words.as_ptr().cast());
}

/// Writes the ways to an array.
#[inline(always)]
pub(super) fn store(words: &mut [u64; 8], value: V) {
    // SAFETY: reached only under the token; the array has the 64 bytes.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), value) }
}

/// Defines an IFMA whose order among others the compiler keeps.
///
/// As intrinsics the compiler reorders them for its idea of register pressure, one chain after the other, and
/// the core waits for latencies: a doubling took 188 ns on Zen 4 and takes 163 in the order of the source.
macro_rules! in_order {
    ($($(#[$doc:meta])* $name:ident = $instruction:literal;)*) => { $(
        $(#[$doc])*
        #[inline(always)]
        pub(super) fn $name(t: V, a: V, b: V) -> V {
            #[inline]
            #[target_feature(enable = "avx512f,avx512ifma")]
            fn featured(mut t: V, a: V, b: V) -> V {
                // SAFETY: changes its operand only.
                unsafe {
                    core::arch::asm!(
                        concat!($instruction, " {t}, {a}, {b}"),
                        t = inlateout(zmm_reg) t,
                        a = in(zmm_reg) a,
                        b = in(zmm_reg) b,
                        options(nomem, nostack, preserves_flags),
                    );
                }
                t
            }
            // SAFETY: reached only under the token, as the module's contract says.
            unsafe { featured(t, a, b) }
        }
    )* };
}

in_order! {
    /// Returns t + the low 52 bits of the product of the low 52 bits of a and b.
    low = "vpmadd52luq";
    /// Returns t + the high 52 bits of the product of the low 52 bits of a and b.
    high = "vpmadd52huq";
}
