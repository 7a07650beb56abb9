//! The instruction sets on which operations run side by side: AVX2 and AVX-512.
//!
//! A [`Machine`] is a token of its instructions with the kernels of [`super::arithmetic`] and of sampling compiled for
//! them, and with the Keccak streams of [`Streams`].
//!
//! `unsafe`: calls of kernels whose instruction set the token proves.
#![allow(unsafe_code)]

use super::arithmetic::{self, Noise, Sampled, Seed, Vectors};
use super::parameters::Parameters;
use super::{avx2, coding, vector};
use crate::isa::{Avx2, Avx512};
use crate::keccak::streams::Streams;

/// An instruction set.
pub(crate) trait Machine: Streams {
    /// Appends the candidates below q of a stream, SampleNTT of algorithm 7, over bytes that are a multiple of 24 and
    /// behind which eight more can be read; returns how many coefficients there are then, at most N. Everything is
    /// public.
    fn sample_matrix(self, stream: &[u8], bytes: usize, output: &mut Sampled, filled: usize) -> usize;

    /// SamplePolyCBD, algorithm 8.
    fn sample_noise(self, eta: usize, bytes: &[u8], output: &mut Noise);

    /// See [`arithmetic::key_pair`].
    fn key_pair(self, p: &Parameters, matrix: &[Sampled], noise: &[Noise], output: &mut [u8]);

    /// See [`arithmetic::encrypt`].
    fn encrypt(
        self,
        p: &Parameters,
        key: &[u8],
        matrix: &[Sampled],
        noise: &[Noise],
        message: &Seed,
        output: &mut [u8],
    );

    /// See [`arithmetic::decrypt`].
    fn decrypt(self, p: &Parameters, secret: &[u8], ciphertext: &[u8]) -> Seed;
}

/// Defines the kernels of a token: the instructions of `features`, the vectors of a type, and sampling from a module.
macro_rules! machine {
    ($token:ident, $features:literal, $vectors:ty, $sampling:ident) => {
        impl Machine for $token {
            #[inline]
            fn sample_matrix(
                self,
                stream: &[u8],
                bytes: usize,
                output: &mut Sampled,
                filled: usize,
            ) -> usize {
                // SAFETY: the token proves the instructions.
                unsafe { $sampling::sample_matrix(stream, bytes, output, filled) }
            }

            #[inline]
            fn sample_noise(self, eta: usize, bytes: &[u8], output: &mut Noise) {
                // SAFETY: the token proves the instructions.
                unsafe { $sampling::sample_noise(eta, bytes, output) }
            }

            fn key_pair(self, p: &Parameters, matrix: &[Sampled], noise: &[Noise], output: &mut [u8]) {
                #[inline(never)]
                #[target_feature(enable = $features)]
                fn inner<const K: usize>(matrix: &[Sampled], noise: &[Noise], output: &mut [u8]) {
                    arithmetic::key_pair::<$vectors, K>(matrix, noise, output);
                }
                // SAFETY: the token proves the instructions.
                unsafe {
                    match p.k {
                        2 => inner::<2>(matrix, noise, output),
                        3 => inner::<3>(matrix, noise, output),
                        _ => inner::<4>(matrix, noise, output),
                    }
                }
            }

            fn encrypt(
                self,
                p: &Parameters,
                key: &[u8],
                matrix: &[Sampled],
                noise: &[Noise],
                message: &Seed,
                output: &mut [u8],
            ) {
                #[inline(never)]
                #[target_feature(enable = $features)]
                fn inner<const K: usize>(
                    key: &[u8],
                    matrix: &[Sampled],
                    noise: &[Noise],
                    message: &Seed,
                    output: &mut [u8],
                ) {
                    arithmetic::encrypt::<$vectors, K>(key, matrix, noise, message, output);
                }
                // SAFETY: the token proves the instructions.
                unsafe {
                    match p.k {
                        2 => inner::<2>(key, matrix, noise, message, output),
                        3 => inner::<3>(key, matrix, noise, message, output),
                        _ => inner::<4>(key, matrix, noise, message, output),
                    }
                }
            }

            fn decrypt(self, p: &Parameters, secret: &[u8], ciphertext: &[u8]) -> Seed {
                #[inline(never)]
                #[target_feature(enable = $features)]
                fn inner<const K: usize>(secret: &[u8], ciphertext: &[u8]) -> Seed {
                    arithmetic::decrypt::<$vectors, K>(secret, ciphertext)
                }
                // SAFETY: the token proves the instructions.
                unsafe {
                    match p.k {
                        2 => inner::<2>(secret, ciphertext),
                        3 => inner::<3>(secret, ciphertext),
                        _ => inner::<4>(secret, ciphertext),
                    }
                }
            }
        }
    };
}

machine!(Avx512, "avx512f,avx512bw,avx512vl,avx512vbmi", Wide, coding);
machine!(Avx2, "avx2", Narrow, avx2);

/// Implements [`Vectors`] by the functions of a vector module and a coding module, which are reached only where a token
/// was given.
macro_rules! vectors {
    ($name:ty, $vector:ident, $coding:ident) => {
        impl Vectors for $name {
            type Poly = $vector::Poly;
            type Factor = [$vector::Poly; 2];
            type Sum = [$vector::Poly; 2];

            const ZERO: Self::Poly = $vector::ZERO;
            const NO_FACTOR: Self::Factor = [$vector::ZERO; 2];

            #[inline(always)]
            fn load(coefficients: &Noise) -> Self::Poly {
                const { assert!(size_of::<Noise>() == size_of::<Self::Poly>()) };
                // SAFETY: as many bytes, of which any are a vector.
                unsafe { core::ptr::from_ref(coefficients).cast::<Self::Poly>().read_unaligned() }
            }

            #[inline(always)]
            fn load_sampled(coefficients: &Sampled) -> Self::Poly {
                const { assert!(size_of::<Sampled>() >= size_of::<Self::Poly>()) };
                // SAFETY: more bytes, of which any are a vector.
                unsafe { core::ptr::from_ref(coefficients).cast::<Self::Poly>().read_unaligned() }
            }

            #[inline(always)]
            fn transform(f: &mut Self::Poly) {
                // SAFETY: the contract of the trait: the caller has the instructions.
                unsafe { $vector::transform(f) }
            }

            #[inline(always)]
            fn inverse(f: &mut Self::Poly) {
                // SAFETY: the contract of the trait: the caller has the instructions.
                unsafe { $vector::inverse(f) }
            }

            #[inline(always)]
            fn prepare(f: &Self::Poly) -> Self::Factor {
                // SAFETY: the contract of the trait: the caller has the instructions.
                unsafe { $vector::prepare(f) }
            }

            #[inline(always)]
            fn nothing() -> Self::Sum {
                [$vector::ZERO; 2]
            }

            #[inline(always)]
            fn add_product(sum: &mut Self::Sum, a: &Self::Poly, b: &Self::Factor) {
                // SAFETY: the contract of the trait: the caller has the instructions.
                unsafe { $vector::add_product(sum, a, b) }
            }

            #[inline(always)]
            fn reduce_sum(sum: &Self::Sum) -> Self::Poly {
                // SAFETY: the contract of the trait: the caller has the instructions.
                unsafe { $vector::reduce_sum(sum) }
            }

            #[inline(always)]
            fn restore(f: &Self::Poly) -> Self::Poly {
                // SAFETY: the contract of the trait: the caller has the instructions.
                unsafe { $vector::restore(f) }
            }

            #[inline(always)]
            fn add(f: &mut Self::Poly, other: &Self::Poly) {
                // SAFETY: the contract of the trait: the caller has the instructions.
                unsafe { $vector::add(f, other) }
            }

            #[inline(always)]
            fn subtract(a: &Self::Poly, b: &Self::Poly) -> Self::Poly {
                // SAFETY: the contract of the trait: the caller has the instructions.
                unsafe { $vector::subtract(a, b) }
            }

            #[inline(always)]
            fn decode_12(bytes: &[u8]) -> Self::Poly {
                // SAFETY: the contract of the trait: the caller has the instructions.
                unsafe { $coding::decode_12(bytes) }
            }

            #[inline(always)]
            fn encode_12(f: &Self::Poly, output: &mut [u8]) {
                // SAFETY: the contract of the trait: the caller has the instructions.
                unsafe { $coding::encode_12(f, output) }
            }

            #[inline(always)]
            fn decompress(bits: usize, bytes: &[u8]) -> Self::Poly {
                // SAFETY: the contract of the trait: the caller has the instructions.
                unsafe {
                    match bits {
                        4 => $coding::decompress::<4>(bytes),
                        5 => $coding::decompress::<5>(bytes),
                        10 => $coding::decompress::<10>(bytes),
                        _ => $coding::decompress::<11>(bytes),
                    }
                }
            }

            #[inline(always)]
            fn compress(bits: usize, f: &Self::Poly, output: &mut [u8]) {
                // SAFETY: the contract of the trait: the caller has the instructions.
                unsafe {
                    match bits {
                        4 => $coding::compress_short::<4>(f, output),
                        5 => $coding::compress_short::<5>(f, output),
                        10 => $coding::compress_long::<10>(f, output),
                        _ => $coding::compress_long::<11>(f, output),
                    }
                }
            }

            #[inline(always)]
            fn from_message(message: &Seed) -> Self::Poly {
                // SAFETY: the contract of the trait: the caller has the instructions.
                unsafe { $coding::from_message(message) }
            }

            #[inline(always)]
            fn to_message(f: &Self::Poly) -> Seed {
                // SAFETY: the contract of the trait: the caller has the instructions.
                unsafe { $coding::to_message(f) }
            }
        }
    };
}

/// Vectors of AVX-512.
struct Wide;
/// Vectors of AVX2.
struct Narrow;

vectors!(Wide, vector, coding);
vectors!(Narrow, avx2, avx2);
