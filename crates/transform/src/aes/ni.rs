//! AES-NI and VAES for one message: up to eight vectors of its blocks are in flight if the mode allows that. The
//! kernel is constant-time.
//!
//! The lower bound is one round of a vector per cycle (two on some CPUs): eight vectors hide the latency of a round,
//! and the other work on a block runs on other units. Messages that end within a vector are read and written in part.
//!
//! `unsafe`: intrinsics behind [`super::vector`], and the raw pointers of a [`Buffer`]; [`kernel`] checks the
//! detected features.
#![allow(unsafe_code)]

use super::Key;
use super::vector::{Blocks, Four, One};
use crate::descriptor::Alone;
use crate::isa::{Avx2, Features};
use crate::job::Buffer;
use crate::modes;
use crate::modes::{Direction, Mode};
use crate::schedule::Schedule;

/// Vectors in flight.
const GROUP: usize = 8;

const ECB_SEAL: u8 = 0;
const ECB_OPEN: u8 = 1;
const CBC_OPEN: u8 = 2;
const CTR: u8 = 3;

/// Number of blocks for which four bytes of a counter count without a carry.
const COUNTS: u64 = 1 << 32;

/// The places at which a message is read and written.
#[derive(Clone, Copy)]
struct Ends {
    source: *const u8,
    destination: *mut u8,
}

impl Ends {
    /// Returns the same, further on.
    #[inline(always)]
    const fn at(self, offset: usize) -> Self {
        let (source, destination) = (self.source.wrapping_add(offset), self.destination.wrapping_add(offset));
        Self { source, destination }
    }
}

/// Runs all rounds on `N` vectors.
#[inline(always)]
pub(crate) fn rounds<B: Blocks, const N: usize, const OPEN: bool>(key: &Key, blocks: &mut [B; N]) {
    let keys = if OPEN { &key.decrypt } else { &key.encrypt };
    // SAFETY: one block of the schedule's fifteen.
    let load = |round: usize| unsafe { B::broadcast(&raw const keys[round]) };
    let first = load(0);
    for block in &mut *blocks {
        *block = block.xor(first);
    }
    for round in 1..key.rounds {
        let key = load(round);
        for block in &mut *blocks {
            *block = if OPEN { block.decrypt(key) } else { block.encrypt(key) };
        }
    }
    let last = load(key.rounds);
    for block in &mut *blocks {
        *block = if OPEN { block.decrypt_last(last) } else { block.encrypt_last(last) };
    }
}

/// Transforms `N` vectors of a message, of which only `bytes` are read and written if that is less than a vector
/// (then `N` is one). `chain` holds the sealed blocks before for CBC, and the counters of the first vector, their
/// bytes reversed, for CTR.
///
/// # Safety
/// `N` vectors, or `bytes` bytes if that is less than a vector, are readable at the source and writable at
/// the destination, which are equal or disjoint. The CPU has the features of `B`.
#[inline(always)]
unsafe fn vectors<B: Blocks, const N: usize, const HOW: u8>(
    key: &Key,
    ends: Ends,
    bytes: usize,
    chain: &mut B,
) {
    let part = bytes < B::BYTES;
    let mut input = [B::zero(); N];
    for (n, input) in input.iter_mut().enumerate() {
        let from = ends.at(n * B::BYTES).source;
        // SAFETY: the contract: the N vectors, or `bytes`, are readable at the source.
        *input = unsafe { if part { B::read_part(from, bytes) } else { B::read(from) } };
    }
    let mut made = input;
    if HOW == CTR {
        for (n, made) in made.iter_mut().enumerate() {
            *made = chain.plus((n * B::WAYS) as u32).reverse();
        }
        *chain = chain.plus((N * B::WAYS) as u32);
    }
    match HOW {
        ECB_OPEN | CBC_OPEN => rounds::<B, N, true>(key, &mut made),
        _ => rounds::<B, N, false>(key, &mut made),
    }
    for (n, made) in made.iter_mut().enumerate() {
        *made = match HOW {
            CBC_OPEN => made.xor(input[n].behind(*chain)),
            CTR => made.xor(input[n]),
            _ => *made,
        };
        if HOW == CBC_OPEN {
            *chain = input[n];
        }
        let to = ends.at(n * B::BYTES).destination;
        // SAFETY: the contract: the N vectors, or `bytes`, are writable at the destination.
        unsafe { if part { made.write_part(to, bytes) } else { made.write(to) } };
    }
}

/// Transforms a stretch of a message, and advances `chain` through its blocks as [`vectors`] does.
///
/// # Safety
/// `bytes` bytes are readable at the source and writable at the destination, which are equal or disjoint. The
/// CPU has the features of `B`.
#[inline(always)]
unsafe fn stretch<B: Blocks, const HOW: u8>(key: &Key, mut ends: Ends, bytes: usize, mut chain: B) {
    let mut left = bytes;
    macro_rules! take {
        ($($how:ident $n:expr),*) => {
            $($how left >= $n * B::BYTES {
                // SAFETY: so many bytes are left.
                unsafe { vectors::<B, { $n }, HOW>(key, ends, B::BYTES, &mut chain) };
                ends = ends.at($n * B::BYTES);
                left -= $n * B::BYTES;
            })*
        };
    }
    take!(while GROUP, if GROUP / 2, if GROUP / 4, if GROUP / 8);
    if left > 0 {
        // SAFETY: less than a vector is left.
        unsafe { vectors::<B, 1, HOW>(key, ends, left, &mut chain) };
    }
}

/// Transforms a message whose blocks do not depend on each other.
///
/// # Safety
/// `bytes` bytes are readable at the source and writable at the destination, which are equal or disjoint. The
/// CPU has the features of `B`.
#[inline(always)]
unsafe fn message<B: Blocks>(
    key: &Key,
    mode: Mode,
    direction: Direction,
    iv: &[u8; 16],
    mut ends: Ends,
    mut bytes: usize,
) {
    // SAFETY: one block.
    let chain = unsafe { B::broadcast(iv) };
    // SAFETY: the contract is that of `stretch`, to which all parts of the message go in turn; `counter` is
    // one block.
    unsafe {
        match (mode, direction) {
            (Mode::Ecb, Direction::Encrypt) => stretch::<B, ECB_SEAL>(key, ends, bytes, chain),
            (Mode::Ecb, Direction::Decrypt) => stretch::<B, ECB_OPEN>(key, ends, bytes, chain),
            (Mode::Cbc, _) => stretch::<B, CBC_OPEN>(key, ends, bytes, chain),
            (Mode::Ctr, _) => {
                let mut counter = u128::from_be_bytes(*iv);
                while bytes > 0 {
                    let blocks = COUNTS - u64::from(counter as u32);
                    let now =
                        usize::try_from(blocks).map_or(bytes, |blocks| bytes.min(blocks.saturating_mul(16)));
                    let chain = B::broadcast(&counter.to_le_bytes()).count(0);
                    stretch::<B, CTR>(key, ends, now, chain);
                    counter = counter.wrapping_add(u128::from(blocks));
                    (ends, bytes) = (ends.at(now), bytes - now);
                }
            }
        }
    }
}

/// Seals by CBC, in which every block waits for the one before.
#[inline(always)]
fn chained(key: &Key, iv: &[u8; 16], data: &mut [u8]) {
    modes::crypt_blocks(Mode::Cbc, Direction::Encrypt, iv, data, |_, block: &mut [u8; 16]| {
        // SAFETY: one block.
        let mut vector = [unsafe { One::load(block) }];
        rounds::<One, 1, false>(key, &mut vector);
        // SAFETY: one block.
        unsafe { vector[0].store(block) };
    });
}

#[target_feature(enable = "aes,sse4.1,ssse3,avx2")]
fn run_ni(key: &Key, mode: Mode, direction: Direction, iv: &[u8; 16], data: &mut Buffer<'_>) {
    if (mode, direction) == (Mode::Cbc, Direction::Encrypt) {
        return chained(key, iv, data.copied_in_place());
    }
    let ends = Ends { source: data.source(), destination: data.destination() };
    // SAFETY: a buffer has so many bytes at both ends, which are the same or apart.
    unsafe { message::<One>(key, mode, direction, iv, ends, data.len()) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes")]
fn run_vaes(key: &Key, mode: Mode, direction: Direction, iv: &[u8; 16], data: &mut Buffer<'_>) {
    let ends = Ends { source: data.source(), destination: data.destination() };
    // SAFETY: a buffer has so many bytes at both ends, which are the same or apart.
    unsafe { message::<Four>(key, mode, direction, iv, ends, data.len()) }
}

/// Transforms a message by CTR, from the first counter block on, with the largest instruction set available.
pub(crate) fn count(avx2: Avx2, features: Features, key: &Key, first: &[u8; 16], data: &mut Buffer<'_>) {
    let _ = avx2;
    // SAFETY: the tokens prove AES-NI, SSSE3, SSE4.1 and AVX2, or AVX-512 F, BW and VL, and VAES.
    unsafe {
        if features.avx512.is_some() {
            run_vaes(key, Mode::Ctr, Direction::Encrypt, first, data);
        } else {
            run_ni(key, Mode::Ctr, Direction::Encrypt, first, data);
        }
    }
}

fn avx2(key: &Schedule, mode: Mode, direction: Direction, iv: &[u8; 16], data: &mut Buffer<'_>) {
    if let Some(key) = super::key_of(key) {
        // SAFETY: `kernel` gives this out only where AES-NI, SSSE3 and SSE4.1 were detected.
        unsafe { run_ni(key, mode, direction, iv, data) }
    }
}

fn avx512(key: &Schedule, mode: Mode, direction: Direction, iv: &[u8; 16], data: &mut Buffer<'_>) {
    if let Some(key) = super::key_of(key) {
        // SAFETY: `kernel` gives this out only where AVX-512 F, BW and VL, and VAES were detected.
        unsafe { run_vaes(key, mode, direction, iv, data) }
    }
}

/// Returns the kernel that transforms a message as [`modes::crypt_blocks`] does: by VAES, or by AES-NI if that is
/// missing or if blocks come one by one.
pub(super) fn kernel(features: Features, mode: Mode, direction: Direction) -> Option<Alone> {
    match (features.avx512, features.avx2) {
        (Some(_), _) if mode.can_cut(direction) => Some(avx512),
        (_, Some(_)) => Some(avx2),
        _ => None,
    }
}
