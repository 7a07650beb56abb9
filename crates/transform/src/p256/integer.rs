//! 256-bit integers modulo the prime of the field or the order of the group: constant time, one value at a
//! time.
//!
//! The arithmetic is the textbook's: Montgomery multiplication word by word (R = 2^256), inversion by
//! Fermat's theorem. No branch and no address depends on a value. The reference, the keys and the tables use
//! this module.

use subtle::{Choice, ConditionallySelectable as _, ConstantTimeEq as _};

/// A 256-bit integer: four words, the lowest first.
pub(super) type U256 = [u64; 4];

/// An odd modulus above 2^255, with the constants of Montgomery's multiplication.
#[derive(Debug)]
pub(super) struct Modulus {
    /// The modulus.
    pub(super) value: U256,
    /// −value^(−1) modulo 2^64.
    negated_inverse: u64,
    /// 2^256 modulo the modulus: the number one in Montgomery form.
    pub(super) one: U256,
    /// 2^512 modulo the modulus.
    square: U256,
}

/// The prime of the field, 2^256 − 2^224 + 2^192 + 2^96 − 1.
pub(super) static P: Modulus = Modulus {
    value: [0xffff_ffff_ffff_ffff, 0xffff_ffff, 0, 0xffff_ffff_0000_0001],
    negated_inverse: 1,
    one: [1, 0xffff_ffff_0000_0000, 0xffff_ffff_ffff_ffff, 0xffff_fffe],
    square: [3, 0xffff_fffb_ffff_ffff, 0xffff_ffff_ffff_fffe, 0x4_ffff_fffd],
};

/// The order of the group.
pub(super) static N: Modulus = Modulus {
    value: [0xf3b9_cac2_fc63_2551, 0xbce6_faad_a717_9e84, 0xffff_ffff_ffff_ffff, 0xffff_ffff_0000_0000],
    negated_inverse: 0xccd1_c8aa_ee00_bc4f,
    one: [0x0c46_353d_039c_daaf, 0x4319_0552_58e8_617b, 0, 0xffff_ffff],
    square: [0x8324_4c95_be79_eea2, 0x4699_799c_49bd_6fa6, 0x2845_b239_2b6b_ec59, 0x66e1_2d94_f3d9_5620],
};

/// Reads a big-endian integer.
pub(super) fn from_bytes(bytes: &[u8; 32]) -> U256 {
    let (words, _) = bytes.as_chunks::<8>();
    core::array::from_fn(|i| u64::from_be_bytes(words[3 - i]))
}

/// Writes a big-endian integer.
pub(super) fn to_bytes(value: &U256) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (chunk, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(value.iter().rev()) {
        *chunk = word.to_be_bytes();
    }
    bytes
}

/// Returns a + b and the carry.
fn add(a: &U256, b: &U256) -> (U256, u64) {
    let mut sum = [0; 4];
    let mut carry = 0;
    for i in 0..4 {
        let word = u128::from(a[i]) + u128::from(b[i]) + u128::from(carry);
        sum[i] = word as u64;
        carry = (word >> 64) as u64;
    }
    (sum, carry)
}

/// Returns a − b modulo 2^256 and the borrow.
fn subtract(a: &U256, b: &U256) -> (U256, u64) {
    let mut difference = [0; 4];
    let mut borrow = 0;
    for i in 0..4 {
        let word = u128::from(a[i]).wrapping_sub(u128::from(b[i])).wrapping_sub(u128::from(borrow));
        difference[i] = word as u64;
        borrow = (word >> 64) as u64 & 1;
    }
    (difference, borrow)
}

/// Returns `b` if `choice`, else `a`.
pub(super) fn select(a: &U256, b: &U256, choice: Choice) -> U256 {
    core::array::from_fn(|i| u64::conditional_select(&a[i], &b[i], choice))
}

/// Returns whether the integer is zero.
pub(super) fn is_zero(a: &U256) -> Choice {
    (a[0] | a[1] | a[2] | a[3]).ct_eq(&0)
}

/// Returns whether a is below b.
pub(super) fn is_below(a: &U256, b: &U256) -> Choice {
    Choice::from(subtract(a, b).1 as u8)
}

impl Modulus {
    /// Returns whether the integer is below the modulus.
    pub(super) fn contains(&self, a: &U256) -> Choice {
        is_below(a, &self.value)
    }

    /// Returns any 256-bit integer modulo the modulus, which is more than half of 2^256.
    pub(super) fn reduce(&self, a: &U256) -> U256 {
        let (difference, borrow) = subtract(a, &self.value);
        select(&difference, a, Choice::from(borrow as u8))
    }

    /// Returns a + b; both are below the modulus.
    pub(super) fn add(&self, a: &U256, b: &U256) -> U256 {
        let (sum, carry) = add(a, b);
        let (difference, borrow) = subtract(&sum, &self.value);
        select(&difference, &sum, Choice::from((borrow & (carry ^ 1)) as u8))
    }

    /// Returns a − b; both are below the modulus.
    pub(super) fn sub(&self, a: &U256, b: &U256) -> U256 {
        let (difference, borrow) = subtract(a, b);
        let (sum, _) = add(&difference, &self.value);
        select(&difference, &sum, Choice::from(borrow as u8))
    }

    /// Returns a · b / 2^256; both are below the modulus.
    pub(super) fn mul(&self, a: &U256, b: &U256) -> U256 {
        let mut t = [0_u64; 6];
        for &word in a {
            let mut carry = 0_u128;
            for j in 0..4 {
                carry += u128::from(t[j]) + u128::from(word) * u128::from(b[j]);
                t[j] = carry as u64;
                carry >>= 64;
            }
            carry += u128::from(t[4]);
            t[4] = carry as u64;
            t[5] = (carry >> 64) as u64;
            // The multiple of the modulus makes the lowest word zero, and the sum moves down by this word.
            let multiple = t[0].wrapping_mul(self.negated_inverse);
            let mut carry = (u128::from(t[0]) + u128::from(multiple) * u128::from(self.value[0])) >> 64;
            for j in 1..4 {
                carry += u128::from(t[j]) + u128::from(multiple) * u128::from(self.value[j]);
                t[j - 1] = carry as u64;
                carry >>= 64;
            }
            carry += u128::from(t[4]);
            t[3] = carry as u64;
            t[4] = t[5] + (carry >> 64) as u64;
        }
        let low = [t[0], t[1], t[2], t[3]];
        let (difference, borrow) = subtract(&low, &self.value);
        select(&difference, &low, Choice::from((borrow & (t[4] ^ 1)) as u8))
    }

    /// Returns the Montgomery form of an integer below the modulus.
    pub(super) fn enter(&self, a: &U256) -> U256 {
        self.mul(a, &self.square)
    }

    /// Returns the integer of a Montgomery form.
    pub(super) fn leave(&self, a: &U256) -> U256 {
        self.mul(a, &[1, 0, 0, 0])
    }

    /// Returns the power of a Montgomery form; the exponent is public.
    pub(super) fn power(&self, a: &U256, exponent: &U256) -> U256 {
        let mut power = self.one;
        for bit in (0..256).rev() {
            power = self.mul(&power, &power);
            if exponent[bit / 64] >> (bit % 64) & 1 == 1 {
                power = self.mul(&power, a);
            }
        }
        power
    }

    /// Returns the inverse of a Montgomery form, and zero for zero.
    pub(super) fn invert(&self, a: &U256) -> U256 {
        let exponent = subtract(&self.value, &[2, 0, 0, 0]).0;
        self.power(a, &exponent)
    }
}

/// Returns a root of a Montgomery form modulo [`P`], or of its negation if the form has none.
pub(super) fn square_root(a: &U256) -> U256 {
    // (p + 1) / 4, because p is 3 modulo 4.
    P.power(a, &[0, 0x4000_0000, 0x4000_0000_0000_0000, 0x3fff_ffff_c000_0000])
}
