//! Vectors for kernels: the same kernel source runs on one word, eight words of AVX2 or sixteen of AVX-512.
//!
//! Every method is `#[inline(always)]` and its intrinsics become single instructions only inside a function that
//! enables the features. **Contract of every method of a vector type, safe or not: it is reached only from kernels
//! whose entry point took the token of the type's instruction set** (see [`crate::isa`]). The types are
//! crate-private, and the entry points are the only callers.
#![allow(unsafe_code)]

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
#[cfg(target_arch = "x86_64")]
pub(crate) mod gather;
pub(crate) mod scalar;
#[cfg(target_arch = "x86_64")]
pub(crate) mod shorts;

/// Wraps an expression of intrinsics as the vector type at hand.
#[cfg(target_arch = "x86_64")]
macro_rules! op {
    ($call:expr) => {
        // SAFETY: reached only under the type's token, as the module's contract says.
        Self(unsafe { $call })
    };
}

/// Methods that return the vector type, each by one expression of intrinsics.
#[cfg(target_arch = "x86_64")]
macro_rules! methods {
    ($($name:ident $(<$(const $parameter:ident: $kind:ty),+>)? ($($arguments:tt)*) = $value:expr;)*) => {$(
        #[inline(always)]
        fn $name $(<$(const $parameter: $kind),+>)? ($($arguments)*) -> Self {
            $crate::simd::op!($value)
        }
    )*};
}

/// The methods by which a vector is read and, where that is needed, written, with any alignment.
#[cfg(target_arch = "x86_64")]
macro_rules! memory {
    ($element:ty: $load:ident $(, $store:ident)?) => {
        /// # Safety
        /// A vector of elements at `from` is readable.
        #[inline(always)]
        unsafe fn load(from: *const $element) -> Self {
            // SAFETY: the contract: so much is readable; the module's contract for the features.
            Self(unsafe { $load(from.cast()) })
        }
        $(
            /// # Safety
            /// A vector of elements at `to` is writable.
            #[inline(always)]
            unsafe fn store(self, to: *mut $element) {
                // SAFETY: the contract: so much is writable; the module's contract for the features.
                unsafe { $store(to.cast(), self.0) }
            }
        )?
    };
}

#[cfg(target_arch = "x86_64")]
pub(crate) use {memory, methods, op};

/// Bitwise logic.
pub(crate) trait Bits: Copy {
    fn xor(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    fn or(self, other: Self) -> Self;
    fn not(self) -> Self;

    /// Returns any function of three bits: bit `4a + 2b + c` of `IMM` is the result. One instruction on AVX-512.
    #[inline(always)]
    fn lut<const IMM: i32>(a: Self, b: Self, c: Self) -> Self {
        let (pivot, low, change) = const { decompose(IMM as u8) };
        let (a, b, c) = match pivot {
            0 => (a, b, c),
            1 => (b, a, c),
            _ => (c, a, b),
        };
        // The result is f(a, b, c) = low(b, c) ^ (a & change(b, c)).
        match change {
            0 => two(low, a, b, c),
            15 => match low {
                0 => a,
                15 => a.not(),
                _ => a.xor(two(low, a, b, c)),
            },
            _ => {
                let masked = a.and(two(change, a, b, c));
                if low == 0 { masked } else { masked.xor(two(low, a, b, c)) }
            }
        }
    }

    /// Returns the same for circuits of many gates, in which `a` is the operand that is ready last.
    #[inline(always)]
    fn gate<const IMM: i32>(a: Self, b: Self, c: Self) -> Self {
        Self::lut::<IMM>(a, b, c)
    }
}

/// Returns a function of two bits by its truth table; `any` serves only to make constants.
#[inline(always)]
fn two<V: Bits>(table: u8, any: V, b: V, c: V) -> V {
    match table {
        0 => any.xor(any),
        1 => b.or(c).not(),
        2 => c.and(b.not()),
        3 => b.not(),
        4 => b.and(c.not()),
        5 => c.not(),
        6 => b.xor(c),
        7 => b.and(c).not(),
        8 => b.and(c),
        9 => b.xor(c).not(),
        10 => c,
        11 => b.not().or(c),
        12 => b,
        13 => b.or(c.not()),
        14 => b.or(c),
        _ => any.xor(any).not(),
    }
}

/// Splits a three-bit function at the variable that leaves the fewest two-input operations; returns the variable, the
/// function if it is 0, and the change if it is 1.
const fn decompose(imm: u8) -> (u8, u8, u8) {
    let mut best = (0, 0, 0);
    let mut best_cost = u32::MAX;
    let mut pivot = 0;
    while pivot < 3 {
        let (mut low, mut high) = (0u8, 0u8);
        let mut rest = 0;
        while rest < 4 {
            let (at_0, at_1) = match pivot {
                0 => (rest, 4 + rest),
                1 => ((rest & 2) << 1 | (rest & 1), (rest & 2) << 1 | 2 | (rest & 1)),
                _ => (rest << 1, rest << 1 | 1),
            };
            low |= (imm >> at_0 & 1) << rest;
            high |= (imm >> at_1 & 1) << rest;
            rest += 1;
        }
        let change = low ^ high;
        let cost = cost_of_two(low)
            + match change {
                0 => 0,
                15 => 1,
                _ => cost_of_two(change) + 1 + (low != 0) as u32,
            };
        if cost < best_cost {
            best_cost = cost;
            best = (pivot, low, change);
        }
        pivot += 1;
    }
    best
}

const fn cost_of_two(table: u8) -> u32 {
    match table {
        0 | 10 | 12 => 0,
        6 | 8 | 14 | 2 | 4 | 3 | 5 | 15 => 1,
        _ => 2,
    }
}

/// Vectors of 32-bit words, one message a word.
pub(crate) trait Words: Bits {
    /// Messages side by side.
    const WAYS: usize;
    fn splat(value: u32) -> Self;
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn rotl<const N: i32>(self) -> Self;
    fn rotl_by(self, by: Self) -> Self;
    fn rotr_by(self, by: Self) -> Self;
    fn shr<const N: u32>(self) -> Self;
    fn swap_bytes(self) -> Self;

    /// Reads `WAYS` words, with any alignment.
    ///
    /// # Safety
    /// `WAYS` words at `from` are readable.
    unsafe fn load(from: *const u32) -> Self;

    /// Writes `WAYS` words, with any alignment.
    ///
    /// # Safety
    /// `WAYS` words at `to` are writable.
    unsafe fn store(self, to: *mut u32);

    /// Reads 32 bytes at `rows[way] + offset` of every way and turns them into eight vectors, the w-th of which
    /// holds each way's w-th little-endian word.
    ///
    /// # Safety
    /// `rows` has `WAYS` pointers, with 32 readable bytes at each plus `offset`.
    unsafe fn load_half_rows(rows: *const *const u8, offset: usize) -> [Self; 8];

    /// Reads 64 bytes at `rows[way] + offset` of every way and turns them into sixteen vectors, the w-th of
    /// which holds each way's w-th little-endian word.
    ///
    /// # Safety
    /// `rows` has `WAYS` pointers, with 64 readable bytes at each plus `offset`.
    #[inline(always)]
    unsafe fn load_rows(rows: *const *const u8, offset: usize) -> [Self; 16] {
        let mut words = [Self::splat(0); 16];
        for (half, words) in words.as_chunks_mut::<8>().0.iter_mut().enumerate() {
            // SAFETY: the contract: the 64 bytes of each row, of which this is a half.
            *words = unsafe { Self::load_half_rows(rows, offset + 32 * half) };
        }
        words
    }

    /// Writes 32 bytes per way, the inverse of [`Self::load_half_rows`].
    ///
    /// # Safety
    /// `rows` has `WAYS` pointers, with 32 writable bytes at each plus `offset`.
    unsafe fn store_half_rows(words: [Self; 8], rows: *const *mut u8, offset: usize);

    /// Writes 64 bytes per way, the inverse of [`Self::load_rows`].
    ///
    /// # Safety
    /// `rows` has `WAYS` pointers, with 64 writable bytes at each plus `offset`.
    #[inline(always)]
    unsafe fn store_rows(words: [Self; 16], rows: *const *mut u8, offset: usize) {
        for (half, words) in words.as_chunks::<8>().0.iter().enumerate() {
            // SAFETY: the contract: the 64 bytes of each row, of which this is a half.
            unsafe { Self::store_half_rows(*words, rows, offset + 32 * half) };
        }
    }
}

/// Bit planes: bit i of every plane belongs to message i.
pub(crate) trait Planes: Bits {
    /// Number of 64-bit elements of a vector, with 64 messages each.
    const ELEMENTS: usize;
    fn splat(value: u64) -> Self;
    fn shl<const N: u32>(self) -> Self;
    fn shr<const N: u32>(self) -> Self;

    /// Reads a vector, with any alignment.
    ///
    /// # Safety
    /// The vector's bytes at `from` are readable.
    unsafe fn load(from: *const u64) -> Self;
}

/// Planes of messages that are read one 64-bit word at a time.
pub(crate) trait Blocks: Planes {
    /// Reads 64 bytes at each of `ELEMENTS` pointers that lie 64 apart in `rows`, and turns them into eight vectors,
    /// the b-th of which holds each row's b-th little-endian 64-bit word.
    ///
    /// # Safety
    /// `rows`, `rows + 64`, ... are readable pointers, each to 64 readable bytes.
    unsafe fn load_blocks(rows: *const *const u8) -> [Self; 8];

    /// Writes the blocks, the inverse of [`Self::load_blocks`].
    ///
    /// # Safety
    /// `rows`, `rows + 64`, ... are readable pointers, each to 64 writable bytes.
    unsafe fn store_blocks(blocks: [Self; 8], rows: *const *mut u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_luts<const IMM: i32>() {
        let got = <u64 as Bits>::lut::<IMM>(0xf0, 0xcc, 0xaa) & 0xff;
        assert_eq!(got, IMM as u64, "{IMM:#x}");
    }

    #[test]
    fn decomposed_functions_of_three_bits_are_right() {
        macro_rules! each {
            ($($high:literal)*) => { $(
                all_luts::<{ $high }>(); all_luts::<{ $high + 1 }>(); all_luts::<{ $high + 2 }>(); all_luts::<{ $high + 3 }>();
                all_luts::<{ $high + 4 }>(); all_luts::<{ $high + 5 }>(); all_luts::<{ $high + 6 }>(); all_luts::<{ $high + 7 }>();
                all_luts::<{ $high + 8 }>(); all_luts::<{ $high + 9 }>(); all_luts::<{ $high + 10 }>(); all_luts::<{ $high + 11 }>();
                all_luts::<{ $high + 12 }>(); all_luts::<{ $high + 13 }>(); all_luts::<{ $high + 14 }>(); all_luts::<{ $high + 15 }>();
            )* };
        }
        each!(0 16 32 48 64 80 96 112 128 144 160 176 192 208 224 240);
    }
}
