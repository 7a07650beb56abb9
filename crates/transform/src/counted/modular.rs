//! A bit of an exponent modulo an odd number, as in `montgomery::reference`: square, multiply, and select. Numbers lie in
//! memory.

use super::{multiply_add, word};
use crate::word::{Region, Word};

/// A number in memory, the lowest word first.
struct Number {
    words: Vec<u32>,
    /// Its first word in the region.
    at: usize,
}

impl Number {
    fn load<W: Word>(&self, i: usize) -> W {
        W::load(Region::Key.word(self.at + i), self.words[i])
    }

    fn store<W: Word>(&mut self, i: usize, value: W) {
        self.words[i] = value.store(Region::Key.word(self.at + i));
    }
}

/// An odd modulus of an even number of words.
struct Modulus {
    words: Number,
    /// -1 / modulus modulo 2^32.
    factor: u32,
}

/// Writes a b to `out`, which has twice their words.
fn multiply<W: Word>(a: &Number, b: &Number, out: &mut Number) {
    let size = b.words.len();
    for i in 0..2 * size {
        out.store(i, W::imm(0));
    }
    for i in 0..size {
        let (factor, mut carry) = (a.load::<W>(i), W::imm(0));
        for j in 0..size {
            let (low, high) = multiply_add(factor, b.load(j), out.load(i + j), carry);
            out.store(i + j, low);
            carry = high;
            W::branch(j + 1 < size);
        }
        out.store(i + size, carry);
        W::branch(i + 1 < size);
    }
}

/// Writes `t` / 2^(32 words) modulo the modulus to `out`, for a number of twice its words.
fn reduce<W: Word>(modulus: &Modulus, t: &mut Number, out: &mut Number) {
    let size = modulus.words.words.len();
    let mut top = false;
    for i in 0..size {
        let factor = t.load::<W>(i).mul(W::imm(modulus.factor));
        let mut carry = W::imm(0);
        for j in 0..size {
            let (low, high) = multiply_add(factor, modulus.words.load(j), t.load(i + j), carry);
            t.store(i + j, low);
            carry = high;
            W::branch(j + 1 < size);
        }
        let (sum, more) = t.load::<W>(i + size).add_carrying(carry, top);
        t.store(i + size, sum);
        top = more;
        W::branch(i + 1 < size);
    }
    let mut borrow = false;
    for i in 0..size {
        let (difference, more) = t.load::<W>(i + size).sub_borrowing(modulus.words.load(i), borrow);
        out.store(i, difference);
        borrow = more;
        W::branch(i + 1 < size);
    }
    // The subtraction is taken back if it borrowed more than the top bit covers.
    let (mask, mut carry) = (W::spread(borrow & !top), false);
    for i in 0..size {
        let (sum, more) = out.load::<W>(i).add_carrying(modulus.words.load::<W>(i) & mask, carry);
        out.store(i, sum);
        carry = more;
        W::branch(i + 1 < size);
    }
}

/// The numbers of a power in Montgomery's form.
pub(super) struct Power {
    modulus: Modulus,
    base: Number,
    power: Number,
    product: Number,
    wide: Number,
}

impl Power {
    /// Begins a power of `base` with `one`, both in Montgomery's form, modulo an odd number.
    pub(super) fn new(modulus: Vec<u32>, base: Vec<u32>, one: Vec<u32>) -> Self {
        let (size, lowest) = (modulus.len(), modulus[0]);
        // Newton's iteration: each step doubles the number of correct bits, of which the start has three.
        let inverse = (0..4)
            .fold(lowest, |inverse, _| inverse.wrapping_mul(2u32.wrapping_sub(lowest.wrapping_mul(inverse))));
        let factor = inverse.wrapping_neg();
        let number = |words, place| Number { words, at: place * size };
        Self {
            modulus: Modulus { words: number(modulus, 0), factor },
            base: number(base, 1),
            power: number(one, 2),
            product: number(vec![0; size], 3),
            wide: number(vec![0; 2 * size], 4),
        }
    }

    /// Returns the power of the bits so far.
    #[cfg(test)]
    pub(super) fn words(&self) -> &[u32] {
        &self.power.words
    }

    /// Takes in the next bit of the exponent, which is that bit of `exponent`.
    pub(super) fn take_bit<W: Word>(&mut self, exponent: u32, bit: u32) {
        multiply::<W>(&self.power, &self.power, &mut self.wide);
        reduce::<W>(&self.modulus, &mut self.wide, &mut self.power);
        multiply::<W>(&self.power, &self.base, &mut self.wide);
        reduce::<W>(&self.modulus, &mut self.wide, &mut self.product);
        let size = self.power.words.len();
        let is_set = W::load(Region::Key.word(6 * size), exponent).shr(bit) & W::imm(1);
        let mask = W::imm(0).sub(is_set);
        for i in 0..size {
            let (power, product) = (self.power.load::<W>(i), self.product.load::<W>(i));
            self.power.store(i, power ^ ((power ^ product) & mask));
            W::branch(i + 1 < size);
        }
        W::branch(true);
    }
}

/// Runs a pass on a sample of `N` words.
pub(super) fn sample<W: Word, const N: usize>() {
    let words = |seed| (0..N).map(|i| word(seed, i) >> u32::from(i + 1 == N)).collect::<Vec<_>>();
    let mut modulus = words(1);
    modulus[0] |= 1;
    modulus[N - 1] |= 1 << 31;
    Power::new(modulus, words(2), words(3)).take_bit::<W>(1, 0);
}
