//! Inversion modulo the prime or the order in constant time: Bernstein and Yang's division steps.
//!
//! "Fast constant-time gcd computation and modular inversion" (CHES 2019): a fixed number of steps, which
//! each halve g after they add ±f or swap, ends at f = ±1 and g = 0 whatever the inputs. Steps run in rounds
//! of 59 on the lowest words alone, and then a round's matrix is applied to the long integers. With the start
//! at δ = 1/2, 590 steps suffice for 256 bits (Wuille's bound). About 4,000 cycles.

use core::hint::black_box;

use zeroize::Zeroize as _;

use super::integer::U256;

/// The bits of a limb of the long integers.
const BITS: u32 = 62;
const LIMB: i64 = (1 << BITS) - 1;
/// The rounds, and the steps of each.
const ROUNDS: usize = 10;
const STEPS: usize = 59;

/// An integer in two's complement: four limbs of 62 bits and the highest with the sign.
type Long = [i64; 5];

/// A modulus in this form.
#[derive(Debug)]
pub(super) struct Modulus {
    value: Long,
    /// The inverse modulo 2^62.
    inverse: i64,
}

/// The prime of the field.
pub(super) static PRIME: Modulus = Modulus::new(&super::integer::P.value);
/// The order of the group.
pub(super) static ORDER: Modulus = Modulus::new(&super::integer::N.value);

/// A round's matrix, times 2^62: f becomes (u f + v g) / 2^62, and g (q f + r g) / 2^62.
struct Matrix {
    u: i64,
    v: i64,
    q: i64,
    r: i64,
}

const fn long_of(value: &U256) -> Long {
    let limb = LIMB as u64;
    [
        (value[0] & limb) as i64,
        ((value[0] >> 62 | value[1] << 2) & limb) as i64,
        ((value[1] >> 60 | value[2] << 4) & limb) as i64,
        ((value[2] >> 58 | value[3] << 6) & limb) as i64,
        (value[3] >> 56) as i64,
    ]
}

impl Modulus {
    const fn new(value: &U256) -> Self {
        // Newton's iteration doubles the correct bits: 3, 6, 12, 24, 48, 96.
        let mut inverse = value[0];
        let mut round = 0;
        while round < 5 {
            inverse = inverse.wrapping_mul(2_u64.wrapping_sub(value[0].wrapping_mul(inverse)));
            round += 1;
        }
        Self { value: long_of(value), inverse: (inverse & LIMB as u64) as i64 }
    }
}

/// Runs the steps of a round on the lowest words; `zeta` is −(δ + 1/2).
#[inline(always)]
fn steps(zeta: &mut i64, f: i64, g: i64) -> Matrix {
    // The matrix starts at 2^3, because each of the 59 steps doubles the first row.
    let (mut u, mut v, mut q, mut r) = (8_i64, 0_i64, 0_i64, 8_i64);
    let (mut f, mut g) = (f, g);
    for _ in 0..STEPS {
        let is_positive = *zeta >> 63;
        let is_odd = (g & 1).wrapping_neg();
        // ±f, and the same of its row.
        let negated = |value: i64| (value ^ is_positive).wrapping_sub(is_positive);
        g = g.wrapping_add(negated(f) & is_odd);
        q = q.wrapping_add(negated(u) & is_odd);
        r = r.wrapping_add(negated(v) & is_odd);
        let swaps = is_positive & is_odd;
        *zeta = (*zeta ^ swaps).wrapping_sub(1);
        f = f.wrapping_add(g & swaps);
        u = u.wrapping_add(q & swaps) << 1;
        v = v.wrapping_add(r & swaps) << 1;
        g >>= 1;
    }
    Matrix { u, v, q, r }
}

/// Applies a round to f and g, whose new values are whole.
#[inline(always)]
fn update(f: &mut Long, g: &mut Long, m: &Matrix) {
    let product = |a: i64, b: i64| i128::from(a) * i128::from(b);
    let mut first = (product(m.u, f[0]) + product(m.v, g[0])) >> BITS;
    let mut second = (product(m.q, f[0]) + product(m.r, g[0])) >> BITS;
    for i in 1..5 {
        first += product(m.u, f[i]) + product(m.v, g[i]);
        second += product(m.q, f[i]) + product(m.r, g[i]);
        f[i - 1] = first as i64 & LIMB;
        g[i - 1] = second as i64 & LIMB;
        first >>= BITS;
        second >>= BITS;
    }
    f[4] = first as i64;
    g[4] = second as i64;
}

/// Applies a round to d and e modulo the modulus; both stay above −2 M and below M.
#[inline(always)]
fn update_modular(d: &mut Long, e: &mut Long, m: &Matrix, modulus: &Modulus) {
    let product = |a: i64, b: i64| i128::from(a) * i128::from(b);
    let (d_sign, e_sign) = (black_box(d[4] >> 63), black_box(e[4] >> 63));
    // The multiples of the modulus: one where an operand is negative, and what makes the lowest limb zero.
    let mut d_multiple = (m.u & d_sign) + (m.v & e_sign);
    let mut e_multiple = (m.q & d_sign) + (m.r & e_sign);
    let mut first = product(m.u, d[0]) + product(m.v, e[0]);
    let mut second = product(m.q, d[0]) + product(m.r, e[0]);
    d_multiple -= modulus.inverse.wrapping_mul(first as i64).wrapping_add(d_multiple) & LIMB;
    e_multiple -= modulus.inverse.wrapping_mul(second as i64).wrapping_add(e_multiple) & LIMB;
    first = (first + product(modulus.value[0], d_multiple)) >> BITS;
    second = (second + product(modulus.value[0], e_multiple)) >> BITS;
    for i in 1..5 {
        first += product(m.u, d[i]) + product(m.v, e[i]) + product(modulus.value[i], d_multiple);
        second += product(m.q, d[i]) + product(m.r, e[i]) + product(modulus.value[i], e_multiple);
        d[i - 1] = first as i64 & LIMB;
        e[i - 1] = second as i64 & LIMB;
        first >>= BITS;
        second >>= BITS;
    }
    d[4] = first as i64;
    e[4] = second as i64;
}

/// Returns the inverse of an integer below the modulus; of zero, zero.
pub(super) fn invert(value: &U256, modulus: &Modulus) -> U256 {
    let (mut f, mut g) = (modulus.value, long_of(value));
    let (mut d, mut e) = ([0; 5], [1, 0, 0, 0, 0]);
    let mut zeta = -1;
    for _ in 0..ROUNDS {
        let matrix = steps(&mut zeta, f[0] | f[1] << BITS, g[0] | g[1] << BITS);
        update_modular(&mut d, &mut e, &matrix, modulus);
        update(&mut f, &mut g, &matrix);
    }
    // f is 1 or −1, and d the inverse with the same sign, above −2 M and below M.
    let sign = black_box(f[4] >> 63);
    add_if_negative(&mut d, modulus);
    for limb in &mut d {
        *limb = (*limb ^ sign).wrapping_sub(sign);
    }
    carry(&mut d);
    add_if_negative(&mut d, modulus);
    let inverse = integer_of(&d);
    d.zeroize();
    e.zeroize();
    inverse
}

/// Adds the modulus to a negative number.
fn add_if_negative(d: &mut Long, modulus: &Modulus) {
    // The compiler would make a branch of a mask that it knows to be a sign.
    let mask = black_box(d[4] >> 63);
    for (limb, modulus) in d.iter_mut().zip(modulus.value) {
        *limb += modulus & mask;
    }
    carry(d);
}

fn carry(d: &mut Long) {
    for i in 0..4 {
        d[i + 1] += d[i] >> BITS;
        d[i] &= LIMB;
    }
}

fn integer_of(long: &Long) -> U256 {
    let [a, b, c, d, e] = long.map(|limb| limb as u64);
    [a | b << 62, b >> 2 | c << 60, c >> 4 | d << 58, d >> 6 | e << 56]
}

#[cfg(test)]
mod tests {
    use super::super::integer::{N, P};
    use super::*;

    #[test]
    fn inverses_are_those_of_fermat() {
        for (long, modulus) in [(&PRIME, &P), (&ORDER, &N)] {
            let mut value = [1, 0, 0, 0];
            assert_eq!(invert(&[0; 4], long), [0; 4]);
            for round in 0..2000 {
                let expected = modulus.leave(&modulus.invert(&modulus.enter(&value)));
                assert_eq!(invert(&value, long), expected, "{value:x?}");
                value = match round {
                    0 => [2, 0, 0, 0],
                    1 => modulus.sub(&[0; 4], &[1, 0, 0, 0]),
                    2 => modulus.sub(&[0; 4], &[2, 0, 0, 0]),
                    3 => [0, 0, 0, 1 << 63],
                    _ => modulus.mul(&modulus.add(&value, &[round, 7, 0, round]), &modulus.one),
                };
                value = modulus.mul(&modulus.enter(&modulus.mul(&value, &expected)), &[round, 3, 3, 3]);
                value = modulus.add(&value, &[round, round, round, round]);
            }
        }
    }
}
