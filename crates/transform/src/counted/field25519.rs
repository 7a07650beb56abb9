//! The field of 2^255 - 19, as in [`crate::curve25519::reference`]: elements are below the prime.

use super::{Wide, add, constant, multiply_add, select, subtract};
use crate::curve25519::reference::P;
use crate::word::Word;

/// The field, with its constants in registers.
pub(super) struct Field<W> {
    prime: Wide<W>,
    /// 2^256 modulo the prime.
    fold: W,
    zero: W,
}

impl<W: Word> Field<W> {
    pub(super) fn new() -> Self {
        Self { prime: constant(&P), fold: W::imm(38), zero: W::imm(0) }
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
        let (above, _) = add(&difference, &self.prime);
        select(W::spread(borrow), &difference, &above)
    }

    pub(super) fn mul(&self, a: &Wide<W>, b: &Wide<W>) -> Wide<W> {
        let mut product = [self.zero; 16];
        for (i, a) in a.iter().enumerate() {
            let mut carry = self.zero;
            for (j, b) in b.iter().enumerate() {
                (product[i + j], carry) = multiply_add(*a, *b, product[i + j], carry);
            }
            product[i + 8] = carry;
        }
        let mut folded = [self.zero; 8];
        let mut carry = self.zero;
        for i in 0..8 {
            (folded[i], carry) = multiply_add(self.fold, product[i + 8], product[i], carry);
        }
        let mut rest = [self.zero; 8];
        rest[0] = self.fold.mul(carry);
        let (folded, carry) = add(&folded, &rest);
        rest[0] = self.fold & W::spread(carry);
        let (folded, _) = add(&folded, &rest);
        self.reduce_once(&self.reduce_once(&folded, false), false)
    }
}
