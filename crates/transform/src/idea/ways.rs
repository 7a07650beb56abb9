//! IDEA over vectors of 16-bit words: up to 64 ways by AVX2, 128 by AVX-512. The kernel is constant-time.
//!
//! A round is three products deep, so several groups of vectors run interleaved. `unsafe`: rows are read and written
//! under the contract of [`crate::cipher_ways::WaysKernel`].
#![allow(unsafe_code)]

use core::marker::PhantomData;

use crate::cipher_ways::{self, Alone, HandOver, Rows, WaysKernel};
use crate::isa::{Avx2, Avx512, Features};
use crate::job::CipherJob;
use crate::modes::{Direction, Mode};
use crate::schedule::Schedule;
use crate::short_ways::{Chains, Rounds};
use crate::simd::avx2::Y;
use crate::simd::avx512::Z;
use crate::simd::shorts::Shorts;
use crate::wipe::wipe;

/// Subkeys of a message.
const SUBKEYS: usize = 52;

/// The key of a way without a message.
static NO_KEY: [u16; SUBKEYS] = [0; SUBKEYS];

/// Keys and chains of `L` ways; those of way l are at `place(l)` of a row. Keys come first, so that no load of them
/// crosses a cache line.
#[repr(C, align(64))]
pub(crate) struct IdeaWays<'k, const L: usize> {
    keys: [[u16; L]; SUBKEYS],
    chains: Chains<L>,
    /// Pointers to the ways' subkeys, which live as long as 'k.
    subkeys: [*const u8; L],
    /// One bit per way, set if its subkeys are not among `keys` yet.
    changed: u128,
    crypt_chunks: unsafe fn(&mut Self, &mut Rows<L>, usize),
    owners: PhantomData<&'k Schedule>,
}

impl<const L: usize> Drop for IdeaWays<'_, L> {
    fn drop(&mut self) {
        wipe(&mut self.keys, [0; L]);
    }
}

/// The subkeys of ways, inverted to decrypt.
#[derive(Clone, Copy)]
struct Subkeys<V, const L: usize> {
    keys: *const u16,
    ones: V,
}

impl<V: Shorts, const G: usize, const L: usize> Rounds<V, G> for Subkeys<V, L> {
    #[inline(always)]
    fn crypt(self, block: &mut [[V; G]; 4]) {
        let ones = self.ones;
        // Otherwise the compiler keeps parts of the last subkeys on the stack from block to block.
        let keys = core::hint::black_box(self.keys);
        // SAFETY: subkey i, group n of [[u16; L]; SUBKEYS], L = G * SHORTS.
        let key = |i: usize, n: usize| unsafe { V::load(keys.add(i * L + n * V::SHORTS).cast()) };
        let [mut a, mut b, mut c, mut d] = *block;
        for round in 0..8 {
            let k = |i: usize, n: usize| key(6 * round + i, n);
            for n in 0..G {
                a[n] = a[n].product(k(0, n), ones);
                b[n] = b[n].add16(k(1, n));
                c[n] = c[n].add16(k(2, n));
                d[n] = d[n].product(k(3, n), ones);
            }
            // Each step runs for all groups, because a processor does not look far enough ahead to find the next
            // group itself.
            let (mut e, mut f) = ([ones; G], [ones; G]);
            for n in 0..G {
                e[n] = a[n].xor(c[n]).product(k(4, n), ones);
            }
            for n in 0..G {
                f[n] = b[n].xor(d[n]).add16(e[n]).product(k(5, n), ones);
            }
            for n in 0..G {
                e[n] = e[n].add16(f[n]);
                (a[n], d[n]) = (a[n].xor(f[n]), d[n].xor(e[n]));
                (b[n], c[n]) = (c[n].xor(f[n]), b[n].xor(e[n]));
            }
        }
        for n in 0..G {
            a[n] = a[n].product(key(48, n), ones);
            (b[n], c[n]) = (c[n].add16(key(49, n)), b[n].add16(key(50, n)));
            d[n] = d[n].product(key(51, n), ones);
        }
        *block = [a, b, c, d];
    }
}

impl<const L: usize> IdeaWays<'_, L> {
    fn new(
        mode: Mode,
        direction: Direction,
        shorts: usize,
        crypt_chunks: unsafe fn(&mut Self, &mut Rows<L>, usize),
    ) -> Self {
        Self {
            keys: [[0; L]; SUBKEYS],
            chains: Chains::new(mode, direction, shorts),
            subkeys: [NO_KEY.as_ptr().cast(); L],
            changed: 0,
            crypt_chunks,
            owners: PhantomData,
        }
    }

    /// See [`WaysKernel::crypt_chunks`]; `G * V::SHORTS` is `L`.
    ///
    /// # Safety
    /// The contract of [`WaysKernel::crypt_chunks`], and `G * V::SHORTS` is `L`. The CPU has the features of
    /// `V`.
    #[inline(always)]
    unsafe fn go<V: Shorts, const G: usize>(&mut self, rows: &mut Rows<L>, chunks: usize) {
        // SAFETY: the contract: G * SHORTS ways.
        unsafe { self.place_keys::<V, G>() };
        let ones = core::hint::black_box(V::splat(u32::MAX));
        let subkeys = Subkeys::<V, L> { keys: self.keys.as_ptr().cast(), ones };
        // SAFETY: the contract of this function is that of the chains' function.
        unsafe { self.chains.crypt_chunks::<V, G>(rows, chunks, subkeys) };
    }

    /// Copies the subkeys of groups with a changed way to the place where the rounds read them: by transposition,
    /// which has a fraction of the stores of a copy way by way.
    ///
    /// # Safety
    /// `G * V::SHORTS` is `L`, and the CPU has the features of `V`. The pointers to subkeys are those that
    /// `new` and `set` stored.
    #[inline(always)]
    unsafe fn place_keys<V: Shorts, const G: usize>(&mut self) {
        let changed = core::mem::take(&mut self.changed);
        for n in 0..G {
            let first = n * V::SHORTS;
            if changed >> first & ((1 << V::SHORTS) - 1) == 0 {
                continue;
            }
            let mut words = [V::zero(); 32];
            for at in [0, SUBKEYS - 32] {
                // SAFETY: SHORTS keys from `first` on, each with 32 subkeys there.
                unsafe { V::load_short_rows(self.subkeys.as_ptr().add(first), 2 * at, &mut words) };
                for (row, word) in self.keys[at..].iter_mut().zip(words) {
                    // SAFETY: group n of row `at + ..`, L = G * SHORTS.
                    unsafe { word.store(row.as_mut_ptr().add(first).cast()) };
                }
            }
            wipe(&mut words, V::zero());
        }
    }
}

impl<'k, const L: usize> WaysKernel<'k, L> for IdeaWays<'k, L> {
    fn set(&mut self, way: usize, key: &'k Schedule, iv: &[u8; 16]) {
        let Schedule::Idea(key) = key else { return };
        self.chains.set(way, iv);
        self.subkeys[way] = if self.chains.backward() { &key.decrypt } else { &key.encrypt }.as_ptr().cast();
        self.changed |= 1 << way;
    }

    /// # Safety
    /// The contract of [`WaysKernel::crypt_chunks`].
    unsafe fn crypt_chunks(&mut self, rows: &mut Rows<L>, chunks: usize) {
        // SAFETY: the function that `new` was given has the same contract.
        unsafe { (self.crypt_chunks)(self, rows, chunks) }
    }

    fn finish(&mut self, way: usize, key: &Schedule, rest: &mut [u8], alone: &Alone<'_>) {
        alone(key, &self.chains.iv(way), rest);
    }
}

/// # Safety
/// The contract of [`WaysKernel::crypt_chunks`], and `G * 16` is `L`; the CPU has AVX2.
#[target_feature(enable = "avx2")]
unsafe fn run_avx2<const G: usize, const L: usize>(
    kernel: &mut IdeaWays<'_, L>,
    rows: &mut Rows<L>,
    chunks: usize,
) {
    // SAFETY: the contract of this function is that of `go`, and it has the features of Y.
    unsafe { kernel.go::<Y, G>(rows, chunks) }
}

/// # Safety
/// The contract of [`WaysKernel::crypt_chunks`], and `G * 32` is `L`; the CPU has AVX-512 F and BW.
#[target_feature(enable = "avx512f,avx512bw")]
unsafe fn run_avx512<const G: usize, const L: usize>(
    kernel: &mut IdeaWays<'_, L>,
    rows: &mut Rows<L>,
    chunks: usize,
) {
    // SAFETY: the contract of this function is that of `go`, and it has the features of Z.
    unsafe { kernel.go::<Z, G>(rows, chunks) }
}

/// Makes a kernel. A kernel with fewer groups of vectors takes jobs that do not fill the ways of the widest.
macro_rules! kernel {
    ($name:ident = $token:ty, $vector:ty, $run:ident, $($groups:literal,)* or $most:literal) => {
        pub(crate) fn $name<'k>(
            _: $token,
            mode: Mode,
            direction: Direction,
            jobs: &mut [CipherJob<'k>],
            order: &[u16],
            hand_over: &HandOver<'_>,
        ) {
            const ONE: usize = <$vector as Shorts>::SHORTS;
            match order.len() {
                $(count if count <= $groups * ONE => {
                    let kernel = &mut IdeaWays::new(mode, direction, ONE, $run::<$groups, { $groups * ONE }>);
                    cipher_ways::run_jobs(kernel, jobs, order, hand_over);
                })*
                _ => {
                    let kernel = &mut IdeaWays::new(mode, direction, ONE, $run::<$most, { $most * ONE }>);
                    cipher_ways::run_jobs(kernel, jobs, order, hand_over);
                }
            }
        }
    };
}

kernel!(avx512 = Avx512, Z, run_avx512, 1, 2, or 4);
kernel!(avx2 = Avx2, Y, run_avx2, 1, 2, or 4);

/// Runs IDEA over vectors of the largest instruction set available.
pub(crate) fn run_widest(
    features: Features,
    mode: Mode,
    direction: Direction,
    jobs: &mut [CipherJob<'_>],
    order: &[u16],
    hand_over: &HandOver<'_>,
) {
    match (features.avx512, features.avx2) {
        (Some(proof), _) => avx512(proof, mode, direction, jobs, order, hand_over),
        (_, Some(proof)) => avx2(proof, mode, direction, jobs, order, hand_over),
        _ => {}
    }
}
