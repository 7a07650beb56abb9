//! Plain big numbers: slices of little-endian 64-bit words, and arithmetic modulo an odd number by
//! Montgomery's reduction as he defined it, one word at a time.
//!
//! Every loop runs for as long as the lengths say, and masks select: no branch and no address depends on a
//! value. It is the oracle of the ways, and prepares keys.

use zeroize::{Zeroize as _, ZeroizeOnDrop, Zeroizing};

/// A number of little-endian words that is wiped when dropped.
pub(crate) type Words = Zeroizing<Vec<u64>>;

/// Reads a big-endian number into `words` words; bytes beyond them must be zero.
pub(crate) fn from_bytes(bytes: &[u8], words: usize) -> Words {
    let mut out = Zeroizing::new(vec![0; words]);
    for (n, byte) in bytes.iter().rev().enumerate().take(8 * words) {
        out[n / 8] |= u64::from(*byte) << (8 * (n % 8));
    }
    out
}

/// Writes the number to `bytes`, big-endian; what does not fit must be zero.
pub(crate) fn to_bytes(number: &[u64], bytes: &mut [u8]) {
    for (n, byte) in bytes.iter_mut().rev().enumerate() {
        *byte = (number.get(n / 8).copied().unwrap_or(0) >> (8 * (n % 8))) as u8;
    }
}

/// Subtracts `b` from `a`, of equal lengths, and returns all ones if `a` was smaller, else 0.
pub(crate) fn subtract(a: &mut [u64], b: &[u64]) -> u64 {
    let mut borrow = 0;
    for (a, b) in a.iter_mut().zip(b) {
        let difference = u128::from(*a).wrapping_sub(u128::from(*b)).wrapping_sub(borrow);
        *a = difference as u64;
        borrow = (difference >> 64) & 1;
    }
    (borrow as u64).wrapping_neg()
}

/// Hides from the compiler that a mask is all zeros or all ones: it would make a branch of the selection.
fn opaque(mask: u64) -> u64 {
    core::hint::black_box(mask)
}

/// Adds those bits of `b` to `a` that `mask` has, and returns the carry.
pub(crate) fn add_masked(a: &mut [u64], b: &[u64], mask: u64) -> u64 {
    let mask = opaque(mask);
    let mut carry = 0;
    for (a, b) in a.iter_mut().zip(b) {
        let sum = u128::from(*a) + u128::from(*b & mask) + carry;
        *a = sum as u64;
        carry = sum >> 64;
    }
    carry as u64
}

/// Returns all ones if `a` is below `b`, of equal lengths, else 0.
pub(crate) fn is_below(a: &[u64], b: &[u64]) -> u64 {
    subtract(&mut Zeroizing::new(a.to_vec()), b)
}

/// Returns all ones if `a` equals `b`, of equal lengths, else 0.
pub(crate) fn equals(a: &[u64], b: &[u64]) -> u64 {
    let difference = a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b));
    // The top bit of x | -x is set unless x is zero.
    ((difference | difference.wrapping_neg()) >> 63).wrapping_sub(1)
}

/// Returns the product, as long as both together.
pub(crate) fn multiply(a: &[u64], b: &[u64]) -> Words {
    let mut out = Zeroizing::new(vec![0; a.len() + b.len()]);
    for (i, a) in a.iter().enumerate() {
        let mut carry = 0;
        for (j, b) in b.iter().enumerate() {
            let sum = u128::from(*a) * u128::from(*b) + u128::from(out[i + j]) + u128::from(carry);
            out[i + j] = sum as u64;
            carry = (sum >> 64) as u64;
        }
        out[i + b.len()] = carry;
    }
    out
}

/// An odd modulus.
#[derive(ZeroizeOnDrop)]
pub(crate) struct Modulus {
    words: Vec<u64>,
    k0: u64,
    /// R^2 modulo the modulus, where R = 2^(64 words).
    square: Vec<u64>,
}

impl Modulus {
    /// Prepares a modulus, whose top word must not be zero; `None` if it is even.
    pub(crate) fn new(words: &[u64]) -> Option<Self> {
        let lowest = *words.first()?;
        if lowest & 1 == 0 {
            return None;
        }
        // Newton's iteration: each step doubles the number of correct bits, of which the start has three.
        let mut inverse = lowest;
        for _ in 0..5 {
            inverse = inverse.wrapping_mul(2u64.wrapping_sub(lowest.wrapping_mul(inverse)));
        }
        let mut modulus = Self { words: words.to_vec(), k0: inverse.wrapping_neg(), square: Vec::new() };
        let square = modulus.power_of_two(128 * words.len());
        modulus.square.extend_from_slice(&square);
        Some(modulus)
    }

    /// Returns the modulus.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns -1 / m mod 2^64.
    pub(crate) const fn k0(&self) -> u64 {
        self.k0
    }

    /// Subtracts the modulus from a number below twice the modulus, `top` being its bit above the words,
    /// unless the number is below the modulus.
    fn reduce_once(&self, number: &mut [u64], top: u64) {
        let below = subtract(number, &self.words);
        // The subtraction is taken back if it borrowed more than the top bit covers.
        add_masked(number, &self.words, below & top.wrapping_sub(1));
    }

    /// Doubles a number below the modulus `times` times.
    pub(crate) fn double(&self, number: &mut [u64], times: usize) {
        for _ in 0..times {
            let mut top = 0;
            for word in number.iter_mut() {
                (*word, top) = (*word << 1 | top, *word >> 63);
            }
            self.reduce_once(number, top);
        }
    }

    /// Returns 2^`exponent` modulo the modulus, which is above 1.
    pub(crate) fn power_of_two(&self, exponent: usize) -> Words {
        let mut out = Zeroizing::new(vec![0; self.words.len()]);
        out[0] = 1;
        self.double(&mut out, exponent);
        out
    }

    /// Returns `number` / R modulo the modulus, for a number of twice the words, below m R.
    fn montgomery(&self, number: &[u64]) -> Words {
        let size = self.words.len();
        let mut t = Zeroizing::new(number.to_vec());
        let mut top = 0;
        for i in 0..size {
            let factor = t[i].wrapping_mul(self.k0);
            let mut carry = 0;
            for j in 0..size {
                let sum =
                    u128::from(factor) * u128::from(self.words[j]) + u128::from(t[i + j]) + u128::from(carry);
                t[i + j] = sum as u64;
                carry = (sum >> 64) as u64;
            }
            let sum = u128::from(t[i + size]) + u128::from(carry) + u128::from(top);
            t[i + size] = sum as u64;
            top = (sum >> 64) as u64;
        }
        let mut out = Zeroizing::new(t[size..].to_vec());
        self.reduce_once(&mut out, top);
        out
    }

    /// Returns a b modulo the modulus; `a` and `b` have its length and a b is below m R.
    pub(crate) fn multiply(&self, a: &[u64], b: &[u64]) -> Words {
        self.montgomery(&multiply(&self.montgomery(&multiply(a, b)), &self.square))
    }

    /// Returns a number of twice the words, below m R, modulo the modulus.
    pub(crate) fn reduce(&self, number: &[u64]) -> Words {
        self.montgomery(&multiply(&self.montgomery(number), &self.square))
    }

    /// Returns `base` to the power of `exponent` modulo the modulus, bit by bit from the top: square,
    /// multiply, and select whether the product counts. The base has the modulus's length; all bits of the
    /// exponent's words count.
    pub(crate) fn power(&self, base: &[u64], exponent: &[u64]) -> Words {
        let base = self.montgomery(&multiply(base, &self.square));
        let mut out = self.montgomery(&[self.square.as_slice(), &vec![0; self.words.len()]].concat());
        for bit in (0..64 * exponent.len()).rev() {
            out = self.montgomery(&multiply(&out, &out));
            let product = self.montgomery(&multiply(&out, &base));
            let mask = opaque(((exponent[bit / 64] >> (bit % 64)) & 1).wrapping_neg());
            for (out, product) in out.iter_mut().zip(product.iter()) {
                *out ^= (*out ^ product) & mask;
            }
        }
        let mut wide = Zeroizing::new(out.to_vec());
        wide.resize(2 * self.words.len(), 0);
        out.zeroize();
        self.montgomery(&wide)
    }
}
