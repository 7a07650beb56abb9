//! The instruction sets on which operations with prepared keys run: general registers, AVX2, AVX-512.
//!
//! A [`Machine`] is a token of its instructions with the kernels of [`super::arithmetic`] compiled for them, and with
//! the Keccak streams of [`Streams`]. What is written over it ([`super::signing`],
//! [`super::verifying`], [`super::generating`]) is the same for all.
//!
//! `unsafe`: calls of kernels whose instruction set the token proves, or that read blocks through pointers.
#![allow(unsafe_code)]

use super::arithmetic::{self, Poly};
use super::ints::One;
use super::kernels::kernels;
use super::parameters::{N, Q};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
#[cfg(target_arch = "x86_64")]
use crate::isa::{Avx2, Avx512};
pub(crate) use crate::keccak::streams::{
    BLOCKS_MAX, HASH_BYTES, Portable, ROW_BYTES, Rows, STREAMS_MAX, Seed, Streams,
};
use crate::keccak::{SHAKE128, Sponge};

/// Candidates for coefficients of the matrix, with room behind them.
pub(crate) type Candidates = [i32; N + 80];

/// Declares the kernels.
macro_rules! declared {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            #[doc = concat!("See [`arithmetic::", stringify!($name), "`].")]
            fn $name(self, $($argument: $type),*) $(-> $result)?;
        )*
    };
}

/// Defines the kernels over a type of vectors.
macro_rules! defined {
    ($vector:ty, $($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            fn $name(self, $($argument: $type),*) $(-> $result)? {
                arithmetic::$name::<$vector>($($argument),*)
            }
        )*
    };
}

/// Defines the kernels by the functions of a module, whose instructions the token proves.
#[cfg(target_arch = "x86_64")]
macro_rules! entered {
    ($module:ident, $($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        $(
            #[inline]
            fn $name(self, $($argument: $type),*) $(-> $result)? {
                // SAFETY: the token proves the instructions.
                unsafe { $module::$name($($argument),*) }
            }
        )*
    };
}

/// An instruction set.
pub(crate) trait Machine: Streams {
    /// The order of its transforms among those of the prepared keys.
    const ORDER: usize;
    kernels!(declared);

    /// Appends the candidates of a block of SHAKE128 that are below q, CoeffFromThreeBytes of algorithm 14; returns
    /// how many there are then. Everything is public.
    fn uniform(self, block: &[u8], output: &mut Candidates, mut filled: usize) -> usize {
        for bytes in block.as_chunks::<3>().0 {
            let value = u32::from_le_bytes([bytes[0], bytes[1], bytes[2] & 0x7f, 0]);
            output[filled] = value.cast_signed();
            filled += usize::from(value < Q);
        }
        filled
    }
}

/// Fills a polynomial's candidates from the stream of each seed, at most [`Streams::STREAMS`]: `append` takes a block and
/// returns how many there are then. That many blocks are enough for nearly all. Returns the states after the last block.
#[inline]
pub(crate) fn sample<M: Machine, const C: usize>(
    machine: M,
    (sponge, blocks): (Sponge, usize),
    seeds: &[Seed<'_>],
    rows: &mut Rows,
    outputs: &mut [[i32; C]; STREAMS_MAX],
    append: impl Fn(&[u8], &mut [i32; C], usize) -> usize,
) -> M::States {
    let mut states = machine.streams(sponge, seeds);
    machine.squeeze(&mut states, sponge, blocks, rows);
    let mut filled = [0; STREAMS_MAX];
    let mut count = blocks;
    loop {
        for ((row, filled), output) in rows.iter().zip(&mut filled).zip(&mut *outputs).take(seeds.len()) {
            for block in row[..count * sponge.rate_bytes].chunks_exact(sponge.rate_bytes) {
                if *filled < N {
                    *filled = append(block, output, *filled);
                }
            }
        }
        if filled[..seeds.len()].iter().all(|filled| *filled >= N) {
            return states;
        }
        machine.permute(&mut states);
        machine.squeeze(&mut states, sponge, 1, rows);
        count = 1;
    }
}

impl Machine for Portable {
    const ORDER: usize = 0;

    kernels!(defined One,);
}

#[cfg(target_arch = "x86_64")]
impl Machine for Avx2 {
    const ORDER: usize = 1;

    kernels!(entered avx2,);

    fn uniform(self, block: &[u8], output: &mut Candidates, mut filled: usize) -> usize {
        for bytes in block.as_chunks::<24>().0 {
            let place = &mut output[filled..filled + 8];
            // SAFETY: the token proves AVX2, and the place has eight integers.
            filled += unsafe { avx2::uniform(bytes, place.as_mut_ptr()) };
        }
        filled
    }
}

#[cfg(target_arch = "x86_64")]
impl Machine for Avx512 {
    const ORDER: usize = 2;

    kernels!(entered avx512,);

    fn uniform(self, block: &[u8], output: &mut Candidates, mut filled: usize) -> usize {
        for bytes in block.as_chunks::<24>().0 {
            let place = &mut output[filled..filled + 8];
            // SAFETY: the token proves AVX-512, and the place has eight integers.
            filled += unsafe { avx512::uniform(bytes, place.as_mut_ptr()) };
        }
        filled
    }
}

/// Returns the sponge of the matrix's streams, and how many blocks of each are enough for nearly all polynomials.
pub(crate) const MATRIX: (Sponge, usize) = (SHAKE128, 5);
