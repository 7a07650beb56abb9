//! The same sums by the vectors of this machine.
//!
//! The vectors are explicit, because the compiler does not always find them: whether it did depended on how the crate
//! was split into codegen units, and code without them took four times as long. `unsafe`: intrinsics, in functions with
//! target features that are entered behind their detection, and moves of blocks by vectors.
#![allow(unsafe_code)]

use super::{portable_sum, portable_sum_copying};

#[cfg(target_arch = "x86_64")]
mod vectors {
    use std::arch::x86_64::*;

    use crate::{BLOCK_BYTES, RUN_BLOCKS, folded, tail_sum};

    type Block = [u8; BLOCK_BYTES];

    /// A vector of 32-bit words.
    pub(super) trait Words: Copy {
        /// The number of words.
        const WORDS: usize;

        /// Returns a vector of equal words.
        ///
        /// # Safety
        /// The CPU has the vector's instructions: AVX2 for `__m256i`, AVX-512 F for `__m512i`.
        unsafe fn splat(word: u32) -> Self;

        /// # Safety
        /// A vector's bytes at `from` are readable, with any alignment. The CPU has the vector's
        /// instructions.
        unsafe fn load(from: *const u32) -> Self;

        /// # Safety
        /// A vector's bytes at `into` are writable, with any alignment. The CPU has the vector's
        /// instructions.
        unsafe fn store(self, into: *mut u32);

        /// # Safety
        /// The CPU has the vector's instructions.
        unsafe fn or(self, other: Self) -> Self;

        /// Returns the sums of words, modulo 2^32.
        ///
        /// # Safety
        /// The CPU has the vector's instructions.
        unsafe fn add(self, other: Self) -> Self;

        /// Returns the low halves of the words.
        ///
        /// # Safety
        /// The CPU has the vector's instructions.
        unsafe fn low(self) -> Self;

        /// Returns the high halves of the words.
        ///
        /// # Safety
        /// The CPU has the vector's instructions.
        unsafe fn high(self) -> Self;
    }

    macro_rules! words {
        ($vector:ty: $splat:ident, $load:ident, $store:ident, $or:ident, $and:ident, $add:ident, $shift:ident::<$bits:literal>) => {
            impl Words for $vector {
                const WORDS: usize = size_of::<$vector>() / 4;

                /// # Safety
                /// The CPU has the vector's instructions.
                #[inline(always)]
                unsafe fn splat(word: u32) -> Self {
                    // SAFETY: the contract: the CPU has the vector's instructions.
                    unsafe { $splat(word as i32) }
                }

                /// # Safety
                /// A vector's bytes at `from` are readable, with any alignment. The CPU has the vector's
                /// instructions.
                #[inline(always)]
                unsafe fn load(from: *const u32) -> Self {
                    // SAFETY: the contract: the bytes are readable, and the CPU has the vector's
                    // instructions.
                    unsafe { $load(from.cast()) }
                }

                /// # Safety
                /// A vector's bytes at `into` are writable, with any alignment. The CPU has the vector's
                /// instructions.
                #[inline(always)]
                unsafe fn store(self, into: *mut u32) {
                    // SAFETY: the contract: the bytes are writable, and the CPU has the vector's
                    // instructions.
                    unsafe { $store(into.cast(), self) }
                }

                /// # Safety
                /// The CPU has the vector's instructions.
                #[inline(always)]
                unsafe fn or(self, other: Self) -> Self {
                    // SAFETY: the contract: the CPU has the vector's instructions.
                    unsafe { $or(self, other) }
                }

                /// # Safety
                /// The CPU has the vector's instructions.
                #[inline(always)]
                unsafe fn add(self, other: Self) -> Self {
                    // SAFETY: the contract: the CPU has the vector's instructions.
                    unsafe { $add(self, other) }
                }

                /// # Safety
                /// The CPU has the vector's instructions.
                #[inline(always)]
                unsafe fn low(self) -> Self {
                    // SAFETY: the contract: the CPU has the vector's instructions.
                    unsafe { $and(self, $splat(0xffff)) }
                }

                /// # Safety
                /// The CPU has the vector's instructions.
                #[inline(always)]
                unsafe fn high(self) -> Self {
                    // SAFETY: the contract: the CPU has the vector's instructions.
                    unsafe { $shift::<$bits>(self) }
                }
            }
        };
    }

    words!(__m256i: _mm256_set1_epi32, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_or_si256, _mm256_and_si256, _mm256_add_epi32, _mm256_srli_epi32::<16>);
    words!(__m512i: _mm512_set1_epi32, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_or_si512, _mm512_and_si512, _mm512_add_epi32, _mm512_srli_epi32::<16>);

    /// Separate sums of the low and high halves of 32-bit words, over blocks of `N` vectors.
    struct Sums<W, const N: usize> {
        halves: [[W; 2]; N],
        /// A zero that the compiler does not know. Copied vectors are combined with it: otherwise the compiler would
        /// copy all blocks by a call, and sum them in a second pass.
        nothing: W,
    }

    impl<W: Words, const N: usize> Sums<W, N> {
        /// # Safety
        /// The machine has the vector's instructions.
        #[inline(always)]
        unsafe fn new() -> Self {
            const { assert!(4 * W::WORDS * N == BLOCK_BYTES) };
            // SAFETY: the contract: the CPU has the vector's instructions.
            let (zero, nothing) = unsafe { (W::splat(0), W::splat(core::hint::black_box(0))) };
            Self { halves: [[zero; 2]; N], nothing }
        }

        /// Adds a block, and writes it to `into` if that is given.
        ///
        /// # Safety
        /// The machine has the vector's instructions.
        #[inline(always)]
        unsafe fn add(&mut self, block: &Block, into: Option<&mut Block>) {
            let into = into.map(|into| into.as_mut_ptr().cast::<u32>());
            for (n, [low, high]) in self.halves.iter_mut().enumerate() {
                // SAFETY: `N` vectors are a block; the contract: the CPU has the vector's instructions.
                unsafe {
                    let words = W::load(block.as_ptr().cast::<u32>().add(n * W::WORDS));
                    if let Some(into) = into {
                        words.or(self.nothing).store(into.add(n * W::WORDS));
                    }
                    *low = low.add(words.low());
                    *high = high.add(words.high());
                }
            }
        }

        /// # Safety
        /// The machine has the vector's instructions.
        #[inline(always)]
        unsafe fn total(self) -> u64 {
            let mut words = [0u32; BLOCK_BYTES / 4];
            let mut sum = 0;
            for half in 0..2 {
                for (n, halves) in self.halves.iter().enumerate() {
                    // SAFETY: `N` vectors are a block; the contract: the CPU has the vector's instructions.
                    unsafe { halves[half].store(words.as_mut_ptr().add(n * W::WORDS)) };
                }
                sum += words.iter().map(|&word| u64::from(word)).sum::<u64>();
            }
            sum
        }
    }

    /// # Safety
    /// The machine has the vector's instructions.
    #[inline(always)]
    pub(super) unsafe fn sum<W: Words, const N: usize>(data: &[u8]) -> u16 {
        let (blocks, tail) = data.as_chunks::<BLOCK_BYTES>();
        let mut sum = tail_sum(tail);
        for run in blocks.chunks(RUN_BLOCKS) {
            // SAFETY: the contract: the CPU has the vector's instructions.
            sum += unsafe {
                let mut sums = Sums::<W, N>::new();
                for block in run {
                    sums.add(block, None);
                }
                sums.total()
            };
        }
        folded(sum)
    }

    /// # Safety
    /// The machine has the vector's instructions.
    #[inline(always)]
    pub(super) unsafe fn sum_copying<W: Words, const N: usize>(from: &[u8], into: &mut [u8]) -> u16 {
        let (blocks, tail) = from.as_chunks::<BLOCK_BYTES>();
        let (into_blocks, _) = into.as_chunks_mut::<BLOCK_BYTES>();
        let mut sum = 0;
        for (run, into_run) in blocks.chunks(RUN_BLOCKS).zip(into_blocks.chunks_mut(RUN_BLOCKS)) {
            // SAFETY: the contract: the CPU has the vector's instructions.
            sum += unsafe {
                let mut sums = Sums::<W, N>::new();
                for (block, into) in run.iter().zip(into_run) {
                    sums.add(block, Some(into));
                }
                sums.total()
            };
        }
        // The bytes behind the last block are copied together with bytes before them, which avoids a call.
        match (from.last_chunk::<BLOCK_BYTES>(), into.last_chunk_mut()) {
            (Some(last), Some(into)) => *into = *last,
            _ => into.copy_from_slice(from),
        }
        folded(sum + tail_sum(tail))
    }
}

macro_rules! variants {
    ($($module:ident: $vector:ty, $count:literal, $($feature:tt),+;)*) => {$(
        #[cfg(target_arch = "x86_64")]
        mod $module {
            $(#[target_feature(enable = $feature)])+
            pub(super) fn sum(data: &[u8]) -> u16 {
                // SAFETY: the function has the vector's features.
                unsafe { super::vectors::sum::<$vector, $count>(data) }
            }

            $(#[target_feature(enable = $feature)])+
            pub(super) fn sum_copying(from: &[u8], into: &mut [u8]) -> u16 {
                // SAFETY: the function has the vector's features.
                unsafe { super::vectors::sum_copying::<$vector, $count>(from, into) }
            }

            pub(super) fn is_here() -> bool {
                $(std::arch::is_x86_feature_detected!($feature))&&+
            }
        }
    )*};
}

variants! {
    avx2: std::arch::x86_64::__m256i, 2, "avx2";
    avx512: std::arch::x86_64::__m512i, 1, "avx512f", "avx512bw", "avx512vl";
}

pub(super) fn sum(data: &[u8]) -> u16 {
    #[cfg(target_arch = "x86_64")]
    {
        if avx512::is_here() {
            // SAFETY: the instructions were detected.
            return unsafe { avx512::sum(data) };
        }
        if avx2::is_here() {
            // SAFETY: the instructions were detected.
            return unsafe { avx2::sum(data) };
        }
    }
    portable_sum(data)
}

pub(super) fn sum_copying(from: &[u8], into: &mut [u8]) -> u16 {
    #[cfg(target_arch = "x86_64")]
    {
        if avx512::is_here() {
            // SAFETY: the instructions were detected.
            return unsafe { avx512::sum_copying(from, into) };
        }
        if avx2::is_here() {
            // SAFETY: the instructions were detected.
            return unsafe { avx2::sum_copying(from, into) };
        }
    }
    portable_sum_copying(from, into)
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// The test includes widths that this machine would not choose.
    #[test]
    fn every_width_sums_as_the_portable_code() {
        let data: Vec<u8> = (0..9000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 11) as u8).collect();
        for bytes in (0..260).chain([1408, 8999]) {
            let data = &data[1..=bytes];
            let (sum, mut copy) = (portable_sum(data), vec![0; bytes]);
            if avx2::is_here() {
                // SAFETY: the instructions were detected.
                let sums = unsafe { [avx2::sum(data), avx2::sum_copying(data, &mut copy)] };
                assert_eq!((sums, &copy[..]), ([sum; 2], data), "{bytes} bytes");
            }
            copy.fill(0);
            if avx512::is_here() {
                // SAFETY: the instructions were detected.
                let sums = unsafe { [avx512::sum(data), avx512::sum_copying(data, &mut copy)] };
                assert_eq!((sums, &copy[..]), ([sum; 2], data), "{bytes} bytes");
            }
        }
    }
}
