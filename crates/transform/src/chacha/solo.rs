//! ChaCha20-Poly1305 over one message: the elements of vectors are consecutive blocks of its stream, from block 0 on,
//! which makes the one-time key. The kernel is constant-time.
//!
//! A short message needs one run of the rounds, in either direction: the stream waits in memory until the tag is
//! known. The lower bound is the latency of twenty rounds, then that of the text's blocks, which depend on each
//! other.
//!
//! `unsafe`: buffers are read and written through the raw pointers of [`crate::job::Buffer`]; the entry points take
//! tokens.
#![allow(unsafe_code)]

use core::mem::MaybeUninit;

use super::ways::{Row, STEPS, Streams, ZEROS, double_round, settle, text};
use crate::aead::AeadJob;
use crate::isa::{Avx2, Avx512};
use crate::job::{Buffer, Status};
use crate::modes::Direction;
use crate::poly1305::{Text, poly1305_blocks};
use crate::schedule::AeadSchedule;
use crate::simd::avx2::Y;
use crate::simd::avx512::Z;
use crate::wipe::wipe;

/// Bytes of a block.
const BLOCK: usize = 64;

/// A block of a stream.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Block([u8; BLOCK]);

/// Key and nonce: words 4 to 11 and 13 to 15 of every block.
#[derive(Clone)]
pub(super) struct Words {
    key: [u32; 8],
    nonce: [u32; 3],
}

impl Words {
    pub(super) fn new(key: &[u8; 32], nonce: &[u8; 12]) -> Self {
        let word = |bytes: [u8; 4]| u32::from_le_bytes(bytes);
        let (mut words, mut of_nonce) = ([0; 8], [0; 3]);
        words.iter_mut().zip(key.as_chunks().0).for_each(|(to, bytes)| *to = word(*bytes));
        of_nonce.iter_mut().zip(nonce.as_chunks().0).for_each(|(to, bytes)| *to = word(*bytes));
        Self { key: words, nonce: of_nonce }
    }

    pub(super) fn wipe(&mut self) {
        wipe(&mut self.key, 0);
    }

    /// Returns the sixteen words with which a vector of blocks from `number` on starts.
    #[inline(always)]
    fn start<V: Streams>(&self, number: u32) -> [V; 16] {
        let [a, b, c, d] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574].map(V::splat);
        let [e, f, g, h, i, j, k, l] = self.key.map(V::splat);
        let [n, o, p] = self.nonce.map(V::splat);
        let Row(steps) = &STEPS;
        // SAFETY: a row of as many words as a vector has, or more.
        let m = unsafe { V::load(steps.as_ptr()) }.add(V::splat(number));
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]
    }
}

/// Blocks of the stream from a number on, XORed with bytes at a source, each block a number of bytes behind the one
/// before, and written to a destination.
#[derive(Clone, Copy)]
struct Stretch {
    number: u32,
    source: *const u8,
    step: usize,
    destination: *mut u8,
}

/// Makes the blocks of some vectors.
///
/// # Safety
/// The contract of [`make`], with the vectors and the features of the kernel.
type Make = unsafe fn(&Words, Stretch);

/// See [`Make`]: the blocks of `N` vectors.
///
/// # Safety
/// For each of `N * V::WAYS` blocks, 64 bytes are readable at the stretch's source plus the block's number
/// times `step`, and 64 are writable at its destination plus the number times 64; source and destination are
/// equal or disjoint. The CPU has the features of `V`.
#[inline(always)]
unsafe fn make<V: Streams, const N: usize>(words: &Words, stretch: Stretch) {
    let number = |set: usize| stretch.number.wrapping_add((set * V::WAYS) as u32);
    let mut s = [[V::splat(0); 16]; N];
    for (set, s) in s.iter_mut().enumerate() {
        *s = words.start(number(set));
    }
    macro_rules! eighth {
        ($n:literal, $by:literal, $a:expr, $b:expr, $d:expr) => {
            for s in &mut s {
                for ((a, b), d) in $a.into_iter().zip($b).zip($d) {
                    (s[a], s[d]) = V::mix::<$by>(s[a], s[b], s[d]);
                }
            }
        };
    }
    for _ in 0..10 {
        double_round!(eighth);
    }
    for (set, mut s) in s.into_iter().enumerate() {
        for (word, start) in s.iter_mut().zip(words.start::<V>(number(set))) {
            *word = word.add(start);
        }
        let row = |way: usize| {
            let block = set * V::WAYS + way;
            let source = stretch.source.wrapping_add(block * stretch.step);
            (source, stretch.destination.wrapping_add(block * BLOCK))
        };
        // SAFETY: the contract: the blocks `set * WAYS` and following, of the N sets, at both places.
        unsafe { V::xor_rows(s, row) };
    }
}

/// The functions that make the blocks of one vector, and all blocks of the stream in memory.
#[derive(Clone, Copy)]
struct Kernels {
    one: Make,
    all: Make,
}

/// A message under way.
struct Message<'m, const BLOCKS: usize> {
    words: Words,
    stream: &'m mut [Block; BLOCKS],
    kernels: Kernels,
}

impl<const BLOCKS: usize> Message<'_, BLOCKS> {
    /// Makes blocks of the stream from `number` on: as many as a vector has, or all.
    ///
    /// # Safety
    /// `make` makes at most `BLOCKS` blocks, and the CPU has its features.
    #[inline(always)]
    unsafe fn make(&mut self, number: u32, make: Make) {
        let destination = self.stream.as_mut_ptr().cast();
        // SAFETY: the contract: no more blocks than the stream has, which nothing else reads meanwhile; the
        // source is a block of zeros.
        unsafe { make(&self.words, Stretch { number, source: ZEROS.as_ptr(), step: 0, destination }) };
    }

    /// XORs the message, the first blocks of whose stream are in memory.
    ///
    /// # Safety
    /// `bytes` bytes are readable at `source` and writable at `destination`, equal or disjoint. `BLOCKS` are
    /// the blocks of the kernel `all`, the kernel `one` makes those of one `V`, and the CPU has the features
    /// of both.
    #[inline(always)]
    unsafe fn crypt<V: Streams>(&mut self, source: *const u8, destination: *mut u8, bytes: usize) {
        let mut done = bytes.min(BLOCK * (BLOCKS - 1));
        // SAFETY: the contract, to the end: `done` bytes were XORed, and as many as are left lie at both
        // places.
        unsafe {
            xor::<V>(source, destination, &self.stream[1..], done);
            while done < bytes {
                let (left, number) = (bytes - done, (done / BLOCK + 1) as u32);
                let (source, destination) = (source.add(done), destination.add(done));
                if left >= BLOCK * BLOCKS {
                    (self.kernels.all)(&self.words, Stretch { number, source, step: BLOCK, destination });
                    done += BLOCK * BLOCKS;
                } else {
                    let fits = left <= BLOCK * V::WAYS;
                    self.make(number, if fits { self.kernels.one } else { self.kernels.all });
                    xor::<V>(source, destination, &*self.stream, left);
                    done = bytes;
                }
            }
        }
    }
}

/// XORs `bytes` bytes with a stream of as many or more.
///
/// # Safety
/// `bytes` bytes are readable at `source` and writable at `destination`, with any alignment, equal or
/// disjoint. The CPU has the features of `V`.
#[inline(always)]
unsafe fn xor<V: Streams>(source: *const u8, destination: *mut u8, stream: &[Block], bytes: usize) {
    let whole = bytes / BLOCK;
    for (n, block) in stream.iter().enumerate().take(whole) {
        for at in (0..BLOCK).step_by(4 * V::WAYS) {
            // SAFETY: the contract: a vector of the block n, which lies within `bytes`.
            unsafe {
                let made =
                    V::load(source.add(BLOCK * n + at).cast()).xor(V::load(block.0.as_ptr().add(at).cast()));
                made.store(destination.add(BLOCK * n + at).cast());
            }
        }
    }
    if let (part @ 1.., Some(block)) = (bytes % BLOCK, stream.get(whole)) {
        // SAFETY: the contract: the last bytes, fewer than a block.
        unsafe { V::xor_part(source.add(BLOCK * whole), &block.0, destination.add(BLOCK * whole), part) };
    }
}

/// Seals or opens a job.
///
/// # Safety
/// The kernel `all` makes exactly `BLOCKS` blocks and the kernel `one` those of one `V`; the CPU has the
/// features of `V` and of both.
#[inline(always)]
unsafe fn crypt<V: Streams, const BLOCKS: usize>(
    kernels: Kernels,
    tag: impl Fn(&Text<'_>) -> [u8; 16],
    direction: Direction,
    job: &mut AeadJob<'_>,
) {
    let AeadSchedule::ChaCha(key) = job.key.schedule() else { return };
    let (source, destination, bytes) = (job.data.source(), job.data.destination(), job.data.len());
    let mut stream = MaybeUninit::<[Block; BLOCKS]>::uninit();
    let words = Words::new(key, &job.nonce);
    let first =
        Stretch { number: 0, source: ZEROS.as_ptr(), step: 0, destination: stream.as_mut_ptr().cast() };
    // SAFETY: as many blocks as the kernel makes: they are all written here.
    let stream = unsafe {
        (kernels.all)(&words, first);
        stream.assume_init_mut()
    };
    let mut one_time = [0; 32];
    one_time.copy_from_slice(&stream[0].0[..32]);
    let mut message = Message { words, stream, kernels };
    if direction == Direction::Encrypt {
        // SAFETY: the job's buffer.
        unsafe { message.crypt::<V>(source, destination, bytes) };
    }
    // SAFETY: nothing writes before the tag is made.
    let made = tag(&unsafe { text(direction, job, &one_time) });
    settle(direction, job, made);
    if direction == Direction::Decrypt {
        // SAFETY: the job's buffer.
        unsafe {
            if job.status == Status::Done {
                message.crypt::<V>(source, destination, bytes);
            } else {
                destination.write_bytes(0, bytes);
            }
        }
    }
    wipe(message.stream, Block([0; BLOCK]));
    wipe(&mut message.words.key, 0);
    wipe(&mut one_time, 0);
}

/// # Safety
/// The contract of [`make`] with one vector of AVX2; the CPU has AVX2, BMI1, BMI2, SSSE3 and SSE4.1.
#[target_feature(enable = "avx2,bmi1,bmi2,ssse3,sse4.1")]
unsafe fn make_avx2(words: &Words, stretch: Stretch) {
    // SAFETY: this function has the features of Y, and the contract of `make`.
    unsafe { make::<Y, 1>(words, stretch) }
}

/// # Safety
/// The CPU has AVX2, BMI1, BMI2, SSSE3 and SSE4.1.
#[target_feature(enable = "avx2,bmi1,bmi2,ssse3,sse4.1")]
unsafe fn crypt_avx2(direction: Direction, job: &mut AeadJob<'_>) {
    let kernels = Kernels { one: make_avx2, all: make_avx2 };
    let tag = |text: &Text<'_>| text.tag();
    // SAFETY: this function has the features of Y and of the kernels, which make eight blocks.
    unsafe { crypt::<Y, 8>(kernels, tag, direction, job) }
}

/// # Safety
/// The contract of [`make`] with `N` vectors of AVX-512; the CPU has AVX-512 F, BW, DQ, VL and IFMA, and
/// BMI2.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma,bmi2")]
unsafe fn make_avx512<const N: usize>(words: &Words, stretch: Stretch) {
    // SAFETY: this function has the features of Z, and the contract of `make`.
    unsafe { make::<Z, N>(words, stretch) }
}

/// # Safety
/// `BLOCKS` is `16 * N`; the CPU has AVX-512 F, BW, DQ, VL and IFMA, and BMI2.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma,bmi2")]
unsafe fn crypt_avx512<const N: usize, const BLOCKS: usize>(
    proof: Avx512,
    direction: Direction,
    job: &mut AeadJob<'_>,
) {
    let kernels = Kernels { one: make_avx512::<1>, all: make_avx512::<N> };
    let tag = |text: &Text<'_>| poly1305_blocks::tag(proof, text);
    // SAFETY: this function has the features of Z and of the kernels, of which `all` makes `BLOCKS` blocks by
    // the contract.
    unsafe { crypt::<Z, BLOCKS>(kernels, tag, direction, job) }
}

/// Seals or opens a job eight ways at once.
pub(super) fn avx2(_: Avx2, direction: Direction, job: &mut AeadJob<'_>) {
    // SAFETY: the token.
    unsafe { crypt_avx2(direction, job) }
}

/// Does as [`avx2`], sixteen ways at once, or 32 if the message is longer than fifteen of them.
pub(super) fn avx512(proof: Avx512, direction: Direction, job: &mut AeadJob<'_>) {
    // SAFETY: the token.
    unsafe {
        if job.data.len() <= 15 * BLOCK {
            crypt_avx512::<1, 16>(proof, direction, job);
        } else {
            crypt_avx512::<2, 32>(proof, direction, job);
        }
    }
}

/// Makes sixteen blocks of a stream, from `number` on.
pub(super) fn ahead(_: Avx512, words: &Words, number: u32, stream: &mut [u8; 16 * BLOCK]) {
    let destination = stream.as_mut_ptr();
    // SAFETY: as many blocks, and the token.
    unsafe { make_avx512::<1>(words, Stretch { number, source: ZEROS.as_ptr(), step: 0, destination }) }
}

/// XORs groups of sixteen whole blocks, the first of which is `number`; bytes behind them stay.
pub(super) fn whole(_: Avx512, words: &Words, number: u32, data: &Buffer<'_>) {
    let groups = data.len() / (16 * BLOCK);
    let stretch = |group: usize| Stretch {
        number: number.wrapping_add(16 * group as u32),
        source: data.source().wrapping_add(16 * BLOCK * group),
        step: BLOCK,
        destination: data.destination().wrapping_add(16 * BLOCK * group),
    };
    // SAFETY: the buffer has as many blocks, equal or disjoint, and the token.
    unsafe {
        for pair in 0..groups / 2 {
            make_avx512::<2>(words, stretch(2 * pair));
        }
        if groups % 2 == 1 {
            make_avx512::<1>(words, stretch(groups - 1));
        }
    }
}

/// XORs bytes with a stream of as many or more.
pub(super) fn xor_bytes(data: &Buffer<'_>, stream: &[u8]) {
    let (source, destination) = (data.source(), data.destination());
    let (blocks, rest) = stream[..data.len()].as_chunks::<16>();
    for (n, block) in blocks.iter().enumerate() {
        // SAFETY: both places have as many bytes, equal or disjoint.
        unsafe {
            let bytes = source.add(16 * n).cast::<[u8; 16]>().read();
            let made = core::array::from_fn(|at| bytes[at] ^ block[at]);
            destination.add(16 * n).cast::<[u8; 16]>().write(made);
        }
    }
    for (at, byte) in (16 * blocks.len()..).zip(rest) {
        // SAFETY: both places have as many bytes, equal or disjoint.
        unsafe { destination.add(at).write(source.add(at).read() ^ byte) };
    }
}
