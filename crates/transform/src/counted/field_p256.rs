//! The field of P-256 in Montgomery's form, as in `p256::integer`: elements are below the prime.

use super::{Wide, add, constant, multiply_add, select, subtract};
use crate::p256::curve::field_constants;
use crate::word::Word;

/// The field, with its constants in registers.
pub(super) struct Field<W> {
    prime: Wide<W>,
    /// The coefficient b of the curve.
    pub(super) coefficient: Wide<W>,
    /// -1 / prime modulo 2^32.
    factor: W,
    zero: W,
}

impl<W: Word> Field<W> {
    pub(super) fn new() -> Self {
        let [prime, coefficient] = field_constants().map(|words| constant(&words));
        Self { prime, coefficient, factor: W::imm(1), zero: W::imm(0) }
    }

    /// Subtracts the prime if the value, with `carry` as its 257th bit, is not below it.
    fn reduce_once(&self, value: &Wide<W>, carry: bool) -> Wide<W> {
        let (smaller, borrow) = subtract(value, &self.prime);
        select(W::spread(borrow & !carry), &smaller, value)
    }

    pub(super) fn add(&self, a: &Wide<W>, b: &Wide<W>) -> Wide<W> {
        let (sum, carry) = add(a, b);
        self.reduce_once(&sum, carry)
    }

    pub(super) fn sub(&self, a: &Wide<W>, b: &Wide<W>) -> Wide<W> {
        let (difference, borrow) = subtract(a, b);
        let (sum, _) = add(&difference, &self.prime);
        select(W::spread(borrow), &difference, &sum)
    }

    /// Returns a b / 2^256, word by word.
    pub(super) fn mul(&self, a: &Wide<W>, b: &Wide<W>) -> Wide<W> {
        let mut t = [self.zero; 8];
        // The word above `t`.
        let mut top = self.zero;
        for a in a {
            let mut carry = self.zero;
            for (t, b) in t.iter_mut().zip(b) {
                (*t, carry) = multiply_add(*a, *b, *t, carry);
            }
            let (above, over) = top.add_carrying(carry, false);
            // The multiple of the prime makes the lowest word zero, and the sum moves down by this word.
            let multiple = t[0].mul(self.factor);
            let (_, mut carry) = multiply_add(multiple, self.prime[0], t[0], self.zero);
            for j in 1..8 {
                (t[j - 1], carry) = multiply_add(multiple, self.prime[j], t[j], carry);
            }
            let (last, more) = above.add_carrying(carry, false);
            t[7] = last;
            top = self.zero.add_carry(over).add_carry(more);
        }
        self.reduce_once(&t, top.bits() != 0)
    }
}
