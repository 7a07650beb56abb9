//! GCM without CPU features. The hash is constant-time; the cipher's tables are not.

use super::Key;
use crate::aead::AeadJob;
use crate::aes;
use crate::modes::Direction;

/// Returns every fifth bit, from bit `from` on.
const fn every_fifth(from: u32) -> u128 {
    let mut mask = 0;
    let mut bit = from;
    while bit < 128 {
        mask |= 1 << bit;
        bit += 5;
    }
    mask
}

/// Returns the product of two polynomials over GF(2), by integer multiplication of parts in which only every fifth
/// bit may be set: a column then sums at most thirteen ones, whose carries stay below the next bit in use.
fn carryless(a: u64, b: u64) -> u128 {
    const MASKS: [u128; 5] = [every_fifth(0), every_fifth(1), every_fifth(2), every_fifth(3), every_fifth(4)];
    let a = MASKS.map(|mask| u128::from(a & mask as u64));
    let b = MASKS.map(|mask| u128::from(b & mask as u64));
    let mut product = 0;
    for (sum, mask) in MASKS.into_iter().enumerate() {
        let mut column = 0;
        for (i, a) in a.iter().enumerate() {
            column ^= a * b[(5 + sum - i) % 5];
        }
        product |= column & mask;
    }
    product
}

/// Returns the product of two field elements.
pub(crate) fn multiply(a: u128, b: u128) -> u128 {
    let (a1, a0) = ((a >> 64) as u64, a as u64);
    let (b1, b0) = ((b >> 64) as u64, b as u64);
    let (low, high) = (carryless(a0, b0), carryless(a1, b1));
    let middle = carryless(a0 ^ a1, b0 ^ b1) ^ low ^ high;
    let (low, high) = (low ^ middle << 64, high ^ middle >> 64);
    // The product has 255 bits: one more shift makes the top bit the coefficient of x^0.
    let (high, low) = (high << 1 | low >> 127, low << 1);
    // x^128 = x^7 + x^2 + x + 1, for the low half and once more for the bits that this shifts out.
    let low = low ^ low << 127 ^ low << 126 ^ low << 121;
    high ^ low ^ low >> 1 ^ low >> 2 ^ low >> 7
}

/// Seals or opens one message.
pub(crate) fn seal_or_open(key: &Key, direction: Direction, job: &mut AeadJob<'_>) {
    super::seal_or_open_by(key, direction, job, multiply, aes::generic::encrypt);
}
