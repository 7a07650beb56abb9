//! Coefficients side by side: the same kernels run on one coefficient, eight of AVX2 or sixteen of AVX-512.
//!
//! **Contract of every method of a vector type, safe or not: it is reached only from kernels whose entry took the token
//! of the type's instruction set** (see [`super::machine`]). Products are Montgomery's: [`Ints::product`] and
//! [`Ints::reduce_sum`] return a product or a sum of products divided by 2^32 modulo q, below q in amount as long as
//! the sum of products is below 2^31 q.
//!
//! No branch and no address depends on a coefficient.
//!
//! `unsafe`: loads and stores through pointers.
#![allow(unsafe_code)]

use super::parameters::Q;

/// The modulus, signed.
pub(crate) const Q_SIGNED: i32 = Q as i32;

/// q^-1 modulo 2^32.
pub(crate) const Q_INVERSE: i32 = {
    let mut inverse = 1u32;
    let mut n = 0;
    while n < 5 {
        inverse = inverse.wrapping_mul(2u32.wrapping_sub(Q.wrapping_mul(inverse)));
        n += 1;
    }
    inverse.cast_signed()
};

/// Bytes that must be readable behind the coded values that [`Ints::unpack`] reads.
pub(crate) const UNPACK_SLACK: usize = 32;

/// Signed 32-bit integers side by side.
pub(crate) trait Ints: Copy {
    /// How many: a power of two, at most 16.
    const WIDTH: usize;
    /// Sums of products.
    type Sum: Copy;

    fn splat(value: i32) -> Self;

    /// # Safety
    /// `WIDTH` integers are readable.
    unsafe fn load(from: *const i32) -> Self;

    /// # Safety
    /// `WIDTH` integers are writable.
    unsafe fn store(self, to: *mut i32);

    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;

    /// Shifts right, with the sign.
    fn shift_right<const BITS: u32>(self) -> Self;

    /// Returns the low halves of products.
    fn low_product(self, other: Self) -> Self;

    /// Returns `self by / 2^32` modulo q; `scaled` is `by q^-1` modulo 2^32.
    fn product(self, by: Self, scaled: Self) -> Self;

    /// Returns sums of nothing.
    fn no_sum() -> Self::Sum;

    /// Adds the products `a b` to the sums, without a reduction.
    fn add_product(sum: Self::Sum, a: Self, b: Self) -> Self::Sum;

    /// Returns a sum divided by 2^32 modulo q.
    fn reduce_sum(sum: Self::Sum) -> Self;

    /// Returns whether any of the integers is negative, and nothing else.
    fn is_any_negative(self) -> bool;

    /// Transposes the first `WIDTH` vectors, of so many integers each.
    fn transpose(rows: &mut [Self; 16]);

    /// Returns values of `BITS` bits, 18 or 20, from the one of index `first` on, which is a multiple of `WIDTH`.
    ///
    /// # Safety
    /// The values and [`UNPACK_SLACK`] bytes behind them are readable.
    unsafe fn unpack<const BITS: usize>(bytes: *const u8, first: usize) -> Self;
}

/// The coefficient alone.
#[derive(Clone, Copy)]
pub(crate) struct One(i32);

impl One {
    #[inline(always)]
    fn reduce(sum: i64) -> Self {
        let low = (sum as i32).wrapping_mul(Q_INVERSE);
        Self(((sum - i64::from(low) * i64::from(Q_SIGNED)) >> 32) as i32)
    }
}

impl Ints for One {
    const WIDTH: usize = 1;
    type Sum = i64;

    #[inline(always)]
    fn splat(value: i32) -> Self {
        Self(value)
    }
    /// # Safety
    /// The integer is readable and aligned.
    #[inline(always)]
    unsafe fn load(from: *const i32) -> Self {
        // SAFETY: the contract: a readable, aligned integer.
        Self(unsafe { from.read() })
    }
    /// # Safety
    /// The integer is writable and aligned.
    #[inline(always)]
    unsafe fn store(self, to: *mut i32) {
        // SAFETY: the contract: a writable, aligned integer.
        unsafe { to.write(self.0) }
    }
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }
    #[inline(always)]
    fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
    #[inline(always)]
    fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(self.0 ^ other.0)
    }
    #[inline(always)]
    fn shift_right<const BITS: u32>(self) -> Self {
        Self(self.0 >> BITS)
    }
    #[inline(always)]
    fn low_product(self, other: Self) -> Self {
        Self(self.0.wrapping_mul(other.0))
    }
    #[inline(always)]
    fn product(self, by: Self, scaled: Self) -> Self {
        let low = self.0.wrapping_mul(scaled.0);
        let whole = i64::from(self.0) * i64::from(by.0);
        Self(((whole - i64::from(low) * i64::from(Q_SIGNED)) >> 32) as i32)
    }
    #[inline(always)]
    fn no_sum() -> i64 {
        0
    }
    #[inline(always)]
    fn add_product(sum: i64, a: Self, b: Self) -> i64 {
        sum + i64::from(a.0) * i64::from(b.0)
    }
    #[inline(always)]
    fn reduce_sum(sum: i64) -> Self {
        Self::reduce(sum)
    }
    #[inline(always)]
    fn is_any_negative(self) -> bool {
        self.0 < 0
    }
    #[inline(always)]
    fn transpose(_: &mut [Self; 16]) {}
    /// # Safety
    /// The coded values up to `first` are readable, and [`UNPACK_SLACK`] bytes behind them.
    #[inline(always)]
    unsafe fn unpack<const BITS: usize>(bytes: *const u8, first: usize) -> Self {
        let bit = first * BITS;
        // SAFETY: the contract: four bytes from a coded value on end within the slack.
        let window = unsafe { bytes.add(bit / 8).cast::<[u8; 4]>().read() };
        Self((u32::from_le_bytes(window) >> (bit % 8)).cast_signed() & ((1 << BITS) - 1))
    }
}
