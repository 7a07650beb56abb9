//! SHA-512 unrolled, over 64-bit words of one message or of several side by side.
//!
//! `unsafe`: kernels read through the pointers of [`Rows`].
#![allow(unsafe_code)]

use super::longs::Longs;
use super::{BLOCK, CONSTANTS};

/// States, word by word across ways.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub(crate) struct States<const L: usize>(pub(crate) [[u64; L]; 8]);

/// Pointers to each way's next block.
pub(crate) type Rows<const L: usize> = [*const u8; L];

/// Absorbs that many blocks of every way.
///
/// # Safety
/// The CPU has the kernel's features; every row has that many readable blocks.
pub(crate) type Absorb<const L: usize> = unsafe fn(&mut States<L>, &Rows<L>, usize);

/// Absorbs one block of `G` groups of ways.
///
/// # Safety
/// `rows` has `G * V::WAYS` pointers, with 128 readable bytes at each plus `offset`, with any alignment. The
/// CPU has the features of `V`.
#[inline(always)]
unsafe fn block<V: Longs, const G: usize>(state: &mut [[V; G]; 8], rows: *const *const u8, offset: usize) {
    let mut w = [[V::splat(0); 16]; G];
    let mut s = *state;
    macro_rules! steps {
        ($($step:literal)*) => { $( {
            const T: usize = $step;
            // The roles of a to h move one place each step.
            const A: usize = (80 - T) % 8;
            const B: usize = (A + 1) % 8;
            const C: usize = (A + 2) % 8;
            const D: usize = (A + 3) % 8;
            const E: usize = (A + 4) % 8;
            const F: usize = (A + 5) % 8;
            const G_: usize = (A + 6) % 8;
            const H: usize = (A + 7) % 8;
            for n in 0..G {
                let w = &mut w[n];
                if T == 0 || T == 8 {
                    // SAFETY: the contract: WAYS rows from n * WAYS on, with a block there, of which this
                    // is a half.
                    let words = unsafe { V::load_rows(rows.add(n * V::WAYS), offset + 8 * T) };
                    w[T % 16..].iter_mut().zip(words).for_each(|(w, word)| *w = word);
                }
                if T >= 16 {
                    let (w15, w2) = (w[(T + 1) % 16], w[(T + 14) % 16]);
                    let sigma_0 = w15.rotr::<1>().xor3(w15.rotr::<8>(), w15.shr::<7>());
                    let sigma_1 = w2.rotr::<19>().xor3(w2.rotr::<61>(), w2.shr::<6>());
                    w[T % 16] = w[T % 16].add(w[(T + 9) % 16]).add(sigma_0).add(sigma_1);
                }
                let (a, e) = (s[A][n], s[E][n]);
                let sum_1 = e.rotr::<14>().xor3(e.rotr::<18>(), e.rotr::<41>());
                let choose = e.choose(s[F][n], s[G_][n]);
                let first = s[H][n].add(w[T % 16].add(V::splat(CONSTANTS[T]))).add(choose).add(sum_1);
                let sum_0 = a.rotr::<28>().xor3(a.rotr::<34>(), a.rotr::<39>());
                let majority = a.majority(s[B][n], s[C][n]);
                s[D][n] = s[D][n].add(first);
                s[H][n] = first.add(sum_0).add(majority);
            }
        } )* };
    }
    steps!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39);
    steps!(40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64 65 66 67 68 69 70 71 72 73 74 75);
    steps!(76 77 78 79);
    for (word, made) in state.iter_mut().zip(s) {
        for (word, made) in word.iter_mut().zip(made) {
            *word = word.add(made);
        }
    }
}

/// See [`Absorb`]; `G * V::WAYS` is `L`.
///
/// # Safety
/// The contract of [`Absorb`]: `128 * count` bytes at each row are readable, with any alignment, and the CPU
/// has the features of `V`.
#[inline(always)]
unsafe fn blocks<V: Longs, const G: usize, const L: usize>(
    states: &mut States<L>,
    rows: &Rows<L>,
    count: usize,
) {
    const { assert!(G * V::WAYS == L) }
    let mut state = [[V::splat(0); G]; 8];
    for (groups, row) in state.iter_mut().zip(&states.0) {
        for (n, group) in groups.iter_mut().enumerate() {
            // SAFETY: group n of a row of L words.
            *group = unsafe { V::load(row.as_ptr().add(n * V::WAYS)) };
        }
    }
    for number in 0..count {
        // SAFETY: the contract: block `number` of `count` at each row.
        unsafe { block::<V, G>(&mut state, rows.as_ptr(), number * BLOCK) };
    }
    for (groups, row) in state.iter().zip(&mut states.0) {
        for (n, group) in groups.iter().enumerate() {
            // SAFETY: group n of a row of L words.
            unsafe { group.store(row.as_mut_ptr().add(n * V::WAYS)) };
        }
    }
}

/// Absorbs blocks of one message, without vectors.
///
/// # Safety
/// The contract of [`Absorb`] without features: `128 * count` bytes at the row are readable.
pub(crate) unsafe fn plain(states: &mut States<1>, rows: &Rows<1>, count: usize) {
    // SAFETY: the contract: so many blocks are readable; plain words need no features.
    unsafe { blocks::<u64, 1, 1>(states, rows, count) }
}

/// Absorbs whole blocks of one message.
pub(crate) fn one(state: &mut [u64; 8], data: &[u8]) {
    let mut states = States(state.map(|word| [word]));
    // SAFETY: plain words need no features; so many blocks are readable.
    unsafe { plain(&mut states, &[data.as_ptr()], data.len() / BLOCK) };
    *state = states.0.map(|[word]| word);
}

/// Runs eight ways by AVX-512, or two times eight.
///
/// # Safety
/// The contract of [`Absorb`]: `128 * count` bytes at each row are readable. The CPU has AVX-512 F and BW.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
pub(crate) unsafe fn avx512<const G: usize, const L: usize>(
    states: &mut States<L>,
    rows: &Rows<L>,
    count: usize,
) {
    // SAFETY: the contract: so many blocks are readable at each row; this function has the vector's features.
    unsafe { blocks::<super::longs::Eight, G, L>(states, rows, count) }
}

/// Absorbs blocks four ways at once by AVX2.
///
/// # Safety
/// The contract of [`Absorb`]: `128 * count` bytes at each row are readable. The CPU has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
pub(crate) unsafe fn avx2(states: &mut States<4>, rows: &Rows<4>, count: usize) {
    // SAFETY: the contract: so many blocks are readable at each row; this function has the vector's features.
    unsafe { blocks::<super::longs::Four, 1, 4>(states, rows, count) }
}
