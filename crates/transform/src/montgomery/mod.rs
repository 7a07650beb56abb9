//! Arithmetic of big numbers modulo odd numbers of 1024, 1536, 2048, 3072 and 4096 bits.
//!
//! [`reference`] holds plain numbers of 64-bit words: the oracle, and the preparation of keys. On x86-64
//! `ways` holds the operations of eight moduli side by side in limbs of 52 bits, of which `kernel` is the
//! multiplication; `across` has one number alone, limb beside limb in the elements.
//!
//! A modulus of at most 52 L - 16 bits has L limbs: 20, 30, 40, 60 or 80. With R = 2^(52 L), the product of
//! numbers below 2^7 m after Montgomery's reduction is below 2 m, so that sums of a few results need no
//! subtraction between multiplications ("almost Montgomery"). Only results that leave are reduced fully, by a
//! masked subtraction.
//!
//! Count of IFMA instructions: a multiplication takes 2 L^2, a reduction 2 L^2, a square L^2 + L. A square
//! with its reduction therefore has the floor (3 L^2 + L) / rate cycles for eight ways: 1220 with L = 20 at
//! one a cycle (Zen 4), 610 at two (Zen 5). Karatsuba's method would take 92 instructions off a square's 20
//! by 20 limbs, and add as many additions, loads and stores.

#[cfg(target_arch = "x86_64")]
pub(crate) mod across;
#[cfg(target_arch = "x86_64")]
pub(crate) mod kernel;
pub(crate) mod reference;
#[cfg(target_arch = "x86_64")]
pub(crate) mod table;
#[cfg(target_arch = "x86_64")]
pub(crate) mod ways;

#[cfg(test)]
pub(crate) mod tests;

use zeroize::{Zeroize as _, ZeroizeOnDrop, Zeroizing};

use reference::{Modulus, Words, add_masked, from_bytes, is_below, multiply};

/// Bits of a limb of the ways.
pub(crate) const LIMB_BITS: u32 = 52;

/// Returns the number of limbs for a modulus of `bits` bits.
pub(crate) const fn limbs(bits: usize) -> usize {
    match bits {
        1024 => 20,
        1536 => 30,
        2048 => 40,
        3072 => 60,
        _ => 80,
    }
}

/// Splits a number of little-endian 64-bit words into `limbs` limbs of 52 bits; the number must fit.
pub(crate) fn split(words: &[u64], limbs: usize) -> Box<[u64]> {
    let mut out = vec![0; limbs].into_boxed_slice();
    for (n, limb) in out.iter_mut().enumerate() {
        let bit = n * LIMB_BITS as usize;
        let (word, shift) = (bit / 64, bit % 64);
        let pair = u128::from(words.get(word).copied().unwrap_or(0))
            | u128::from(words.get(word + 1).copied().unwrap_or(0)) << 64;
        *limb = (pair >> shift) as u64 & ((1 << LIMB_BITS) - 1);
    }
    out
}

/// Returns `limbs` of 52 bits as `length` little-endian words of 64 bits; the number must fit.
pub(crate) fn join(limbs: &[u64], length: usize) -> Words {
    let mut out = Zeroizing::new(vec![0; length]);
    for (n, limb) in limbs.iter().enumerate() {
        let bit = n * LIMB_BITS as usize;
        let wide = u128::from(*limb) << (bit % 64);
        for (word, part) in out.iter_mut().skip(bit / 64).zip([wide as u64, (wide >> 64) as u64]) {
            *word |= part;
        }
    }
    out
}

/// The parts of one modulus that the ways need, in limbs of 52 bits; wiped when dropped, because it may be a secret
/// prime.
#[derive(ZeroizeOnDrop)]
pub(crate) struct Constants {
    /// The modulus m.
    pub(crate) modulus: Box<[u64]>,
    /// -1 / m mod 2^52.
    pub(crate) k0: u64,
    /// R mod m, which stands for 1.
    pub(crate) one: Box<[u64]>,
    /// R^2 mod m, which takes a number into Montgomery's form.
    pub(crate) square: Box<[u64]>,
    /// R^3 mod m, which does so for the upper half of a number of 2 L limbs.
    pub(crate) cube: Box<[u64]>,
}

impl Constants {
    /// Prepares a modulus of the given length.
    pub(crate) fn new(modulus: &Modulus, bits: usize) -> Self {
        let limbs = limbs(bits);
        let step = limbs * LIMB_BITS as usize;
        let mut power = modulus.power_of_two(step);
        let one = split(&power, limbs);
        modulus.double(&mut power, step);
        let square = split(&power, limbs);
        modulus.double(&mut power, step);
        let cube = split(&power, limbs);
        power.zeroize();
        Self {
            modulus: split(modulus.words(), limbs),
            k0: modulus.k0() & ((1 << LIMB_BITS) - 1),
            one,
            square,
            cube,
        }
    }
}

/// The parts of one modulus m that a power of one number across the elements needs, in limbs of 52 bits; wiped when dropped,
/// because it may be a secret prime. M = m (-1 / m mod 2^52) is -1 modulo 2^52, and R = 2^(52 L) is more than 4 M.
#[derive(ZeroizeOnDrop)]
pub(crate) struct AcrossConstants {
    /// (M + 1) / 2^52.
    pub(crate) quotient: Box<[u64]>,
    /// R mod m, which stands for 1.
    pub(crate) one: Box<[u64]>,
    /// R^2 mod m, which takes a number into Montgomery's form.
    pub(crate) square: Box<[u64]>,
}

impl AcrossConstants {
    /// Prepares a modulus of 1024, 1536 or 2048 bits.
    pub(crate) fn new(modulus: &Modulus, bits: usize) -> Self {
        let limbs = limbs(bits) + 1;
        let step = limbs * LIMB_BITS as usize;
        let mut power = modulus.power_of_two(step);
        let one = split(&power, limbs);
        modulus.double(&mut power, step);
        let square = split(&power, limbs);
        let factor = modulus.k0() & ((1 << LIMB_BITS) - 1);
        let mut multiple = multiply(modulus.words(), &[factor]);
        let unit = from_bytes(&[1], multiple.len());
        add_masked(&mut multiple, &unit, u64::MAX);
        // The lowest limb has become zero.
        let shifted = Zeroizing::new(split(&multiple, limbs + 1));
        Self { quotient: shifted[1..].into(), one, square }
    }
}

/// The bounds 1 and m - 1.
pub(crate) struct TopAndOne {
    top: Words,
    one: Words,
}

impl TopAndOne {
    /// Returns the bounds of a modulus.
    pub(crate) fn new(modulus: &Modulus) -> Self {
        let mut top = Words::new(modulus.words().to_vec());
        // An odd number: no borrow.
        top[0] -= 1;
        Self { top, one: from_bytes(&[1], modulus.words().len()) }
    }

    /// Returns whether a number of the modulus's length is above 1 and below m - 1, in time that does not
    /// depend on it.
    pub(crate) fn hold(&self, number: &[u64]) -> bool {
        is_below(&self.one, number) & is_below(number, &self.top) != 0
    }
}
