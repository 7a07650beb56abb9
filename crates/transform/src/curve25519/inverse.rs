//! The inverse of one element of the field of 2^255 - 19 by division steps (Bernstein and Yang 2019, in the
//! variant that starts from 1/2), for all eight ways: their product is inverted, which is one chain of short
//! steps instead of 254 squarings that wait for each other.
//!
//! 590 steps are enough for any numbers below 2^256. They run in ten batches of 59 over the lowest words
//! alone; each batch yields a matrix by which the whole numbers are multiplied. Numbers are five limbs of 59
//! bits, and only the highest has a sign. Every step is the same whatever the bits are.
//!
//! `unsafe`: a comment in assembly, that keeps the compiler from making branches of masks.
#![allow(unsafe_code)]

/// Bits of a limb, and steps of a batch.
const BITS: u32 = 59;

const BATCHES: usize = 10;

const LIMB: i64 = (1 << BITS) - 1;

/// 1 / 19 modulo 2^59.
const NINETEENTH: i64 = 0x6bc_a1af_286b_ca1b;

type Limbs = [i64; 5];

/// Returns a mask, of which the compiler does not know that it has two values.
#[inline(always)]
fn hide(mut mask: i64) -> i64 {
    // SAFETY: the text is a comment.
    unsafe {
        core::arch::asm!("/* {0} */", inout(reg) mask, options(pure, nomem, nostack, preserves_flags));
    }
    mask
}

/// Runs some steps over the lowest bits, at most 30; returns the matrix, times two for each step.
///
/// A row of the matrix is one word, its second entry at 2^32: sums and negations are those of both entries.
#[inline(always)]
fn steps(theta: &mut i64, f: &mut i64, g: &mut i64, count: u32) -> [[i64; 2]; 2] {
    let (mut first, mut second) = (1i64, 1i64 << 32);
    for _ in 0..count {
        let odd = hide((*g & 1).wrapping_neg());
        // The numbers, and the rows likewise: g becomes g - f or g + f if it is odd, and f becomes the old g
        // if it was g - f. Then g is halved, or the first row doubled.
        let minus = hide(!(*theta >> 63));
        let swap = odd & minus;
        *g = g.wrapping_add(((*f ^ minus).wrapping_sub(minus)) & odd);
        second = second.wrapping_add(((first ^ minus).wrapping_sub(minus)) & odd);
        *f = f.wrapping_add(*g & swap);
        first = first.wrapping_add(second & swap);
        *g >>= 1;
        first <<= 1;
        *theta = (*theta ^ swap).wrapping_add(1);
    }
    [first, second].map(|row| {
        let low = i64::from(row as i32);
        [low, (row - low) >> 32]
    })
}

/// Runs a batch of steps over the lowest limbs; returns the matrix, times 2^59.
#[inline(always)]
fn batch(theta: &mut i64, mut f: i64, mut g: i64) -> [[i64; 2]; 2] {
    let first = steps(theta, &mut f, &mut g, 30);
    let second = steps(theta, &mut f, &mut g, BITS - 30);
    second.map(|[a, b]| [a * first[0][0] + b * first[1][0], a * first[0][1] + b * first[1][1]])
}

/// Returns `(a * x + b * y + m * (2^255 - 19)) / 2^59`, which is whole.
#[inline(always)]
fn combine([a, b]: [i64; 2], x: &Limbs, y: &Limbs, m: i64) -> Limbs {
    let term = |k: usize| i128::from(a) * i128::from(x[k]) + i128::from(b) * i128::from(y[k]);
    let mut made = [0; 5];
    let mut sum = (term(0) - 19 * i128::from(m)) >> BITS;
    for k in 1..5 {
        sum += term(k);
        if k == 4 {
            // 2^255 is 2^19 times the weight of this limb.
            sum += i128::from(m) << 19;
        }
        made[k - 1] = sum as i64 & LIMB;
        sum >>= BITS;
    }
    made[4] = sum as i64;
    made
}

/// Returns the multiple of 2^255 - 19 that makes the lowest limb of `a * x + b * y` zero.
#[inline(always)]
fn multiple([a, b]: [i64; 2], x: &Limbs, y: &Limbs) -> i64 {
    a.wrapping_mul(x[0]).wrapping_add(b.wrapping_mul(y[0])).wrapping_mul(NINETEENTH) & LIMB
}

/// Inverts a number below 2^255, given by words, modulo 2^255 - 19; zero stays zero. The five limbs of the
/// result are of 51 bits, but the highest may have 57.
pub(crate) fn invert(words: &[u64; 4]) -> [u64; 5] {
    let bits = |at: usize| {
        let (word, shift) = (at / 64, at % 64);
        let next = words.get(word + 1).copied().unwrap_or(0);
        // Two shifts, because one by 64 does not exist.
        (words[word] >> shift | next << 1 << (63 - shift)).cast_signed() & LIMB
    };
    let mut f = [LIMB - 18, LIMB, LIMB, LIMB, (1 << 19) - 1];
    let mut g = [bits(0), bits(59), bits(118), bits(177), bits(236)];
    let (mut d, mut e) = ([0; 5], [1, 0, 0, 0, 0]);
    let mut theta = 0;
    for _ in 0..BATCHES {
        let [first, second] = batch(&mut theta, f[0], g[0]);
        (f, g) = (combine(first, &f, &g, 0), combine(second, &f, &g, 0));
        // Each of these grows by at most 2^255 - 19 a batch.
        (d, e) = (
            combine(first, &d, &e, multiple(first, &d, &e)),
            combine(second, &d, &e, multiple(second, &d, &e)),
        );
    }
    // Now f is 1 or -1, and d is the inverse times f: between -11 and 11 times 2^255, so that adding 16 times
    // 2^255 - 19 makes it positive.
    let sign = hide(f[4] >> 63);
    let mut sum = [0; 5];
    let mut carry = -19 * 16;
    for k in 0..5 {
        carry += (d[k] ^ sign) - sign;
        if k == 4 {
            carry += 16 << 19;
        }
        sum[k] = carry & LIMB;
        carry >>= BITS;
    }
    let [a, b, c, d, e] = sum.map(i64::cast_unsigned);
    let limb = (1 << 51) - 1;
    [
        a & limb,
        (a >> 51 | b << 8) & limb,
        (b >> 43 | c << 16) & limb,
        (c >> 35 | d << 24) & limb,
        d >> 27 | e << 32,
    ]
}
