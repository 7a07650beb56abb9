//! The same sums by the vectors of this machine.
//!
//! The vectors are explicit, because the compiler does not always find them: whether it did depended on how the crate
//! was split into codegen units, and code without them took four times as long. `unsafe`: enters functions with
//! target features behind their detection, and moves blocks by vectors.
#![allow(unsafe_code)]

use super::{portable_sum, portable_sum_copying};

#[cfg(target_arch = "x86_64")]
mod vectors {
    use crate::checksum::{BLOCK_BYTES, RUN_BLOCKS, folded, tail_sum};
    use crate::simd::Words;

    type Block = [u8; BLOCK_BYTES];

    /// Separate sums of the low and high halves of 32-bit words, over blocks of `N` vectors.
    struct Sums<W, const N: usize> {
        halves: [[W; 2]; N],
        /// A zero that the compiler does not know. Copied vectors are combined with it: otherwise the compiler would
        /// copy all blocks by a call, and sum them in a second pass.
        nothing: W,
    }

    impl<W: Words, const N: usize> Sums<W, N> {
        #[inline(always)]
        fn new() -> Self {
            const { assert!(4 * W::LANES * N == BLOCK_BYTES) };
            Self { halves: [[W::splat(0); 2]; N], nothing: W::splat(core::hint::black_box(0)) }
        }

        /// Adds a block, and writes it to `into` if that is given.
        #[inline(always)]
        fn add(&mut self, block: &Block, into: Option<&mut Block>) {
            let into = into.map(|into| into.as_mut_ptr().cast::<u32>());
            for (n, [low, high]) in self.halves.iter_mut().enumerate() {
                // SAFETY: `N` vectors are a block.
                unsafe {
                    let words = W::load(block.as_ptr().cast::<u32>().add(n * W::LANES));
                    if let Some(into) = into {
                        words.or(self.nothing).store(into.add(n * W::LANES));
                    }
                    *low = low.add(words.and(W::splat(0xffff)));
                    *high = high.add(words.shr::<16>());
                }
            }
        }

        #[inline(always)]
        fn total(self) -> u64 {
            let mut words = [0u32; BLOCK_BYTES / 4];
            let mut sum = 0;
            for half in 0..2 {
                for (n, halves) in self.halves.iter().enumerate() {
                    // SAFETY: `N` vectors are a block.
                    unsafe { halves[half].store(words.as_mut_ptr().add(n * W::LANES)) };
                }
                sum += words.iter().map(|&word| u64::from(word)).sum::<u64>();
            }
            sum
        }
    }

    #[inline(always)]
    pub(super) fn sum<W: Words, const N: usize>(data: &[u8]) -> u16 {
        let (blocks, tail) = data.as_chunks::<BLOCK_BYTES>();
        let mut sum = tail_sum(tail);
        for run in blocks.chunks(RUN_BLOCKS) {
            let mut sums = Sums::<W, N>::new();
            for block in run {
                sums.add(block, None);
            }
            sum += sums.total();
        }
        folded(sum)
    }

    #[inline(always)]
    pub(super) fn sum_copying<W: Words, const N: usize>(from: &[u8], into: &mut [u8]) -> u16 {
        let (blocks, tail) = from.as_chunks::<BLOCK_BYTES>();
        let (into_blocks, _) = into.as_chunks_mut::<BLOCK_BYTES>();
        let mut sum = 0;
        for (run, into_run) in blocks.chunks(RUN_BLOCKS).zip(into_blocks.chunks_mut(RUN_BLOCKS)) {
            let mut sums = Sums::<W, N>::new();
            for (block, into) in run.iter().zip(into_run) {
                sums.add(block, Some(into));
            }
            sum += sums.total();
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
                super::vectors::sum::<$vector, $count>(data)
            }

            $(#[target_feature(enable = $feature)])+
            pub(super) fn sum_copying(from: &[u8], into: &mut [u8]) -> u16 {
                super::vectors::sum_copying::<$vector, $count>(from, into)
            }

            pub(super) fn is_here() -> bool {
                $(std::arch::is_x86_feature_detected!($feature))&&+
            }
        }
    )*};
}

variants! {
    avx2: crate::simd::avx2::Y, 2, "avx2";
    avx512: crate::simd::avx512::Z, 1, "avx512f", "avx512bw", "avx512vl";
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
