//! ChaCha20-Poly1305 with blocks of the stream side by side in the elements of vectors; the blocks belong to one message
//! or to many. The kernel is constant-time.
//!
//! Up to sixteen messages make a group. Their one-time keys are computed first. Sealing then XORs and authenticates;
//! opening authenticates, and XORs only genuine messages. Long messages, if there are many, are processed as in
//! [`super::long`].
//!
//! `unsafe`: buffers are read and written through the raw pointers of [`crate::job::Buffer`]; the entry points take
//! tokens.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use subtle::ConstantTimeEq as _;

use crate::aead::AeadJob;
use crate::isa::{Avx2, Avx512};
use crate::job::Status;
use crate::modes::Direction;
use crate::poly1305::beside::Beside;
use crate::poly1305::{self, Text};
use crate::schedule::AeadSchedule;
use crate::simd::avx2::Y;
use crate::simd::avx512::Z;
use crate::simd::{Bits as _, Words};
use crate::wipe::wipe;

/// Most messages of a group: one per way of the widest vector.
const GROUP: usize = 16;
/// Three per message and one for ways without a block, rounded up to a power of two, so that indices need no check.
const BASES: usize = 64;

/// Number of messages from which on authenticating them side by side is faster than one after the other.
const SIDE_BY_SIDE: usize = 3;

/// Least bytes of data with which messages gain by being authenticated beside others.
pub(super) const LONG: usize = 192;

/// Bytes of data from which on two messages are sealed faster one after the other; measured.
const LONG_ALONE: usize = 512;

/// The input of ways without a block, with which the first block of a stream is XORed as well.
pub(super) static ZEROS: [u8; 64] = [0; 64];

/// Vectors that take their words from messages side by side.
pub(super) trait Streams: Words {
    /// Number of blocks of each chain of [`Beside`] that the integer units authenticate while vectors do one double
    /// round.
    const BESIDE: usize;
    /// Number of messages of a unit, in which long messages are processed. Vectors authenticate eight texts at a
    /// time; a unit is so large that the remaining texts take the integer units as long as the vectors need for the
    /// stream beside them.
    const UNIT: usize;

    /// Returns, in each way, the word of `self` in the way that `ways` names.
    fn pick(self, ways: Self) -> Self;

    /// Returns a quarter of a quarter round: `a += b`, `d = (d ^ a) <<< BY`.
    #[inline(always)]
    fn mix<const BY: i32>(a: Self, b: Self, d: Self) -> (Self, Self) {
        let a = a.add(b);
        (a, d.xor(a).rotl::<BY>())
    }

    /// Does the same, and keeps the compiler from moving code that runs beside it away.
    #[inline(always)]
    fn mix_in_place<const BY: i32>(a: Self, b: Self, d: Self) -> (Self, Self) {
        Self::mix::<BY>(a, b, d)
    }

    /// Does as [`Words::store_rows`], XORed with 64 bytes of each source; `rows` returns a way's source and
    /// destination.
    ///
    /// # Safety
    /// For each way, 64 bytes are readable at the source and 64 are writable at the destination, with any
    /// alignment, equal or disjoint.
    unsafe fn xor_rows(words: [Self; 16], rows: impl Fn(usize) -> (*const u8, *mut u8));

    /// XORs the first `bytes` bytes of a block, fewer than all.
    ///
    /// # Safety
    /// `bytes` is less than 64. So many bytes are readable at `source` and writable at `destination`, equal
    /// or disjoint.
    unsafe fn xor_part(source: *const u8, stream: &[u8; 64], destination: *mut u8, bytes: usize);
}

impl Streams for Y {
    const BESIDE: usize = 2;
    const UNIT: usize = 8;

    #[inline(always)]
    fn pick(self, ways: Self) -> Self {
        // SAFETY: reached under the token.
        Self(unsafe { _mm256_permutevar8x32_epi32(self.0, ways.0) })
    }
    /// # Safety
    /// The contract of [`Streams::xor_rows`], for eight ways. The CPU has AVX2.
    #[inline(always)]
    unsafe fn xor_rows(words: [Self; 16], rows: impl Fn(usize) -> (*const u8, *mut u8)) {
        let (halves, _) = words.as_chunks::<8>();
        for (half, words) in halves.iter().enumerate() {
            for (way, row) in Self::transpose(*words).into_iter().enumerate() {
                let (source, destination) = rows(way);
                // SAFETY: the contract: the way's 64 bytes at both places, of which this is a half.
                unsafe {
                    let source = Self::load(source.add(32 * half).cast());
                    row.xor(source).store(destination.add(32 * half).cast());
                }
            }
        }
    }
    /// # Safety
    /// The contract of [`Streams::xor_part`]. The CPU has AVX2.
    #[inline(always)]
    unsafe fn xor_part(source: *const u8, stream: &[u8; 64], destination: *mut u8, bytes: usize) {
        let mut block = [0; 64];
        // SAFETY: the contract: so many bytes are readable, and the block has 64.
        unsafe { core::ptr::copy_nonoverlapping(source, block.as_mut_ptr(), bytes.min(64)) };
        block.iter_mut().zip(stream).for_each(|(byte, stream)| *byte ^= stream);
        // SAFETY: the contract: so many bytes are writable, and the block has 64.
        unsafe { core::ptr::copy_nonoverlapping(block.as_ptr(), destination, bytes.min(64)) };
    }
}

impl Streams for Z {
    const BESIDE: usize = 4;
    const UNIT: usize = 48;

    #[inline(always)]
    fn pick(self, ways: Self) -> Self {
        // SAFETY: reached under the token.
        Self(unsafe { _mm512_permutexvar_epi32(ways.0, self.0) })
    }
    #[inline(always)]
    fn mix_in_place<const BY: i32>(a: Self, b: Self, d: Self) -> (Self, Self) {
        // SAFETY: reached under the token.
        let (a, d) = unsafe { mix_in_place::<BY>(a.0, b.0, d.0) };
        (Self(a), Self(d))
    }
    /// # Safety
    /// The contract of [`Streams::xor_rows`], for sixteen ways. The CPU has AVX-512 F.
    #[inline(always)]
    unsafe fn xor_rows(words: [Self; 16], rows: impl Fn(usize) -> (*const u8, *mut u8)) {
        for (way, row) in Self::transpose(words).into_iter().enumerate() {
            let (source, destination) = rows(way);
            // SAFETY: the contract: the way's 64 bytes at both places.
            unsafe {
                let source = <Self as Words>::load(source.cast());
                row.xor(source).store(destination.cast());
            }
        }
    }
    /// # Safety
    /// The contract of [`Streams::xor_part`]. The CPU has AVX-512 BW.
    #[inline(always)]
    unsafe fn xor_part(source: *const u8, stream: &[u8; 64], destination: *mut u8, bytes: usize) {
        let mask = (1 << (bytes % 64)) - 1;
        // SAFETY: the contract: fewer than 64 bytes at both places, and the mask leaves out all others; the
        // stream has 64; the module's contract for the features.
        unsafe {
            let (read, stream) =
                (_mm512_maskz_loadu_epi8(mask, source.cast()), _mm512_loadu_si512(stream.as_ptr().cast()));
            _mm512_mask_storeu_epi8(destination.cast(), mask, _mm512_xor_si512(read, stream));
        }
    }
}

/// Expands to the eighths of a double round, each passed with its number to a macro, which gets the words to add and
/// the rotation; quarter rounds of columns, and then of diagonals, are side by side.
macro_rules! double_round {
    ($eighth:ident) => {
        $eighth!(0, 16, [0, 1, 2, 3], [4, 5, 6, 7], [12, 13, 14, 15]);
        $eighth!(1, 12, [8, 9, 10, 11], [12, 13, 14, 15], [4, 5, 6, 7]);
        $eighth!(2, 8, [0, 1, 2, 3], [4, 5, 6, 7], [12, 13, 14, 15]);
        $eighth!(3, 7, [8, 9, 10, 11], [12, 13, 14, 15], [4, 5, 6, 7]);
        $eighth!(4, 16, [0, 1, 2, 3], [5, 6, 7, 4], [15, 12, 13, 14]);
        $eighth!(5, 12, [10, 11, 8, 9], [15, 12, 13, 14], [5, 6, 7, 4]);
        $eighth!(6, 8, [0, 1, 2, 3], [5, 6, 7, 4], [15, 12, 13, 14]);
        $eighth!(7, 7, [10, 11, 8, 9], [15, 12, 13, 14], [5, 6, 7, 4]);
    };
}
pub(super) use double_round;

/// See [`Streams::mix_in_place`]: LLVM would move all code that runs beside behind all vectors of a double round.
#[inline]
#[target_feature(enable = "avx512f")]
fn mix_in_place<const BY: i32>(mut a: __m512i, b: __m512i, mut d: __m512i) -> (__m512i, __m512i) {
    // SAFETY: changes what it names.
    unsafe {
        core::arch::asm!(
            "vpaddd {a}, {a}, {b}", "vpxord {d}, {d}, {a}", "vprold {d}, {d}, {by}",
            a = inout(zmm_reg) a, b = in(zmm_reg) b, d = inout(zmm_reg) d, by = const BY,
            options(nomem, nostack, preserves_flags),
        );
    }
    (a, d)
}

/// The place at which the block of a message numbered 0 would lie.
#[derive(Clone, Copy)]
struct Base {
    source: *const u8,
    destination: *mut u8,
}

/// Runs the vectors of a wave's ways.
///
/// # Safety
/// The contract of [`Wave::rounds`], with the features of the kernel.
type Rounds<V, const SETS: usize> = for<'w, 'k> unsafe fn(&'w mut Wave<'k, V, SETS>);

/// Runs them beside Poly1305.
///
/// # Safety
/// The contract of [`Wave::rounds`], with the features of the kernel.
type BesideRounds<V, const SETS: usize> =
    for<'w, 'k, 'b> unsafe fn(&'w mut Wave<'k, V, SETS>, &'b mut Beside);

/// The rounds of a wave, alone and beside Poly1305: of the first vector of ways, and of all of them.
#[derive(Clone, Copy)]
pub(super) struct Kernels<V, const SETS: usize> {
    one: Rounds<V, SETS>,
    all: Rounds<V, SETS>,
    one_beside: BesideRounds<V, SETS>,
    all_beside: BesideRounds<V, SETS>,
}

/// A word of every message of a group, or of every way of a vector.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Row(pub(super) [u32; GROUP]);

/// Distance of each way from the first.
pub(super) static STEPS: Row = Row([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]);

/// A vector that begins that many words before the second row has ones in the ways from there on.
static FROM: [Row; 2] = [Row([0; GROUP]), Row([u32::MAX; GROUP])];

/// A group's messages, and their blocks that wait until every way has one.
pub(super) struct Wave<'k, V, const SETS: usize> {
    /// Words 4 to 11 and 13 to 15 of each message's blocks: key and nonce.
    words: [Row; 11],
    /// The owners of the key words.
    keys: [Option<&'k [u8; 32]>; GROUP],
    /// Four groups of sixteen: for the messages; for their incomplete last blocks; for ways without a block; for
    /// blocks 0.
    bases: [Base; BASES],
    /// Buffers in which a message's last bytes become a whole block, and to which ways without a block write.
    ends: [[u8; 64]; GROUP + 1],
    /// Each way's index of its base, and the number of its block. The lowest bits identify the message.
    messages: [Row; SETS],
    numbers: [Row; SETS],
    ways: usize,
    /// The messages whose last bytes wait, and the destinations of these bytes.
    parts: [(usize, *mut u8, usize); GROUP],
    part_count: usize,
    kernels: Kernels<V, SETS>,
}

impl<'k, V: Streams, const SETS: usize> Wave<'k, V, SETS> {
    #[inline(always)]
    pub(super) fn new(kernels: Kernels<V, SETS>) -> Self {
        let nowhere = core::ptr::null_mut();
        Self {
            words: [Row([0; GROUP]); 11],
            keys: [None; GROUP],
            bases: [Base { source: ZEROS.as_ptr(), destination: nowhere }; BASES],
            ends: [[0; 64]; GROUP + 1],
            messages: [Row([0; GROUP]); SETS],
            numbers: [Row([0; GROUP]); SETS],
            ways: 0,
            parts: [(0, nowhere, 0); GROUP],
            part_count: 0,
            kernels,
        }
    }

    /// Adds a message.
    #[inline(always)]
    pub(super) fn take(&mut self, message: usize, job: &AeadJob<'k>) {
        let AeadSchedule::ChaCha(key) = job.key.schedule() else { return };
        let word = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
        let (of_key, of_nonce) = self.words.split_at_mut(8);
        if self.keys[message].is_none_or(|other| !core::ptr::eq(other, &raw const **key)) {
            self.keys[message] = Some(key);
            for (words, bytes) in of_key.iter_mut().zip(key.as_chunks().0) {
                words.0[message] = word(bytes);
            }
        }
        for (words, bytes) in of_nonce.iter_mut().zip(job.nonce.as_chunks().0) {
            words.0[message] = word(bytes);
        }
    }

    /// Gives a base to `count` ways from `first` on, behind which no way has a block yet; the first gets block
    /// `number`, and each next one is `STEP` further.
    #[inline(always)]
    fn give<const STEP: u32>(&mut self, first: usize, count: usize, base: usize, number: u32) {
        for set in 0..SETS {
            let at = set * V::WAYS;
            if first >= at + V::WAYS || first + count <= at {
                continue;
            }
            let ahead = STEP.wrapping_mul((at as u32).wrapping_sub(first as u32));
            // SAFETY: rows of as many words as a vector has, or more.
            unsafe {
                let is_given = V::load(FROM.as_ptr().cast::<u32>().add(GROUP - first.saturating_sub(at)));
                // The loop writes whole vectors, because they are read soon: a masked store would have to reach the
                // cache first.
                let put = |row: &mut Row, new: V| {
                    let row = row.0.as_mut_ptr();
                    V::lut::<0xca>(is_given, new, V::load(row)).store(row);
                };
                put(&mut self.messages[set], V::splat(base as u32));
                let numbers = V::splat(number.wrapping_add(ahead));
                let steps = if STEP == 0 { V::splat(0) } else { V::load(STEPS.0.as_ptr()) };
                put(&mut self.numbers[set], numbers.add(steps));
            }
        }
    }

    /// Computes the blocks 0 of the first messages, in the first ways: no way has a block yet.
    ///
    /// # Safety
    /// No block waits, and there are at most as many `blocks` as a vector has ways; they stay writable until
    /// the wave was flushed. The rows of `beside` are readable, and the CPU has the features of the wave's
    /// kernels.
    #[inline(always)]
    unsafe fn add_zeroth(&mut self, blocks: &mut [Zeroth], beside: Option<&mut Beside>) {
        for (base, block) in self.bases[3 * GROUP..].iter_mut().zip(&mut *blocks) {
            base.destination = block.as_flattened_mut().as_mut_ptr();
        }
        // SAFETY: rows of as many words as a vector has, or more.
        unsafe {
            let messages = V::load(STEPS.0.as_ptr()).add(V::splat(3 * GROUP as u32));
            messages.store(self.messages[0].0.as_mut_ptr());
            V::splat(0).store(self.numbers[0].0.as_mut_ptr());
        }
        self.ways = blocks.len();
        if self.ways == SETS * V::WAYS {
            // SAFETY: the contract: the blocks are writable, their source is ZEROS, and the rows of `beside`
            // are readable.
            unsafe { self.flush(beside) };
        }
    }

    /// XORs `bytes` bytes from `source` on with the message's stream from block 1 on; ways are assigned here.
    /// `beside` is authenticated meanwhile.
    ///
    /// # Safety
    /// `bytes` bytes are readable at the source and writable at the destination, equal or disjoint, until the
    /// wave was flushed; so are those of all messages added since the last flush. Between two flushes a
    /// message is added once, and the wave is not moved: bases may point into it. The rows of `beside` are
    /// readable, and the CPU has the features of the wave's kernels.
    #[inline(always)]
    pub(super) unsafe fn add(
        &mut self,
        message: usize,
        (source, to): (*const u8, *mut u8),
        bytes: usize,
        mut beside: Option<&mut Beside>,
    ) {
        self.bases[message] = Base { source: source.wrapping_sub(64), destination: to.wrapping_sub(64) };
        let mut number = 1u32;
        let mut blocks = bytes.div_ceil(64);
        while blocks != 0 {
            let now = blocks.min(SETS * V::WAYS - self.ways);
            self.give::<1>(self.ways, now, message, number);
            (self.ways, blocks) = (self.ways + now, blocks - now);
            number = number.wrapping_add(now as u32);
            let part = bytes % 64;
            if blocks == 0 && part != 0 {
                let end = self.ends[message].as_mut_ptr();
                // SAFETY: the contract: `bytes` are readable, of which these are the last; they are fewer
                // than a block.
                unsafe { core::ptr::copy_nonoverlapping(source.add(bytes - part), end, part) };
                self.parts[self.part_count] = (message, to.wrapping_add(bytes - part), part);
                self.part_count += 1;
                let last = number.wrapping_sub(1);
                self.give::<0>(self.ways - 1, 1, GROUP + message, last);
                let end = end.wrapping_sub(64 * last as usize);
                self.bases[GROUP + message] = Base { source: end, destination: end };
            }
            if self.ways == SETS * V::WAYS {
                // SAFETY: the contract: the bytes of all waiting blocks, and the rows of `beside`.
                unsafe { self.flush(beside.as_deref_mut()) };
            }
        }
    }

    /// Runs the waiting blocks, and authenticates `beside` meanwhile.
    ///
    /// # Safety
    /// The bytes that were added since the last flush are still readable and writable, as [`Self::add`] and
    /// [`Self::add_zeroth`] say. The rows of `beside` are readable, and the CPU has the features of the
    /// wave's kernels.
    #[inline(always)]
    pub(super) unsafe fn flush(&mut self, beside: Option<&mut Beside>) {
        if self.ways == 0 {
            return;
        }
        let Kernels { one, all, one_beside, all_beside } = self.kernels;
        let is_one = self.ways <= V::WAYS;
        // SAFETY: the contract is that of the kernels: the bytes of the ways' blocks, and the rows of
        // `beside`.
        unsafe {
            match beside.filter(|beside| beside.is_busy()) {
                Some(beside) if is_one => one_beside(self, beside),
                Some(beside) => all_beside(self, beside),
                None if is_one => one(self),
                None => all(self),
            }
        }
        for &(message, to, bytes) in &self.parts[..self.part_count] {
            // SAFETY: the contract: the last bytes of a message, which `add` put into `parts`, are writable.
            unsafe { core::ptr::copy_nonoverlapping(self.ends[message].as_ptr(), to, bytes) };
        }
        (self.ways, self.part_count) = (0, 0);
    }

    /// Clears keys and the bytes written past messages' ends.
    #[inline(always)]
    pub(super) fn wipe(&mut self) {
        wipe(&mut self.words, Row([0; GROUP]));
        wipe(&mut self.ends, [0; 64]);
    }

    /// Returns the sixteen words with which a set starts.
    #[inline(always)]
    fn start(&self, set: usize) -> [V; 16] {
        let [a, b, c, d] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574].map(V::splat);
        // SAFETY: rows of as many words as a vector has, or more.
        let row = |row: &Row| unsafe { V::load(row.0.as_ptr()) };
        let ways = row(&self.messages[set]);
        let own = |n: usize| row(&self.words[n]).pick(ways);
        [
            a,
            b,
            c,
            d,
            own(0),
            own(1),
            own(2),
            own(3),
            own(4),
            own(5),
            own(6),
            own(7),
            row(&self.numbers[set]),
            own(8),
            own(9),
            own(10),
        ]
    }

    /// Runs the first `N` vectors of ways: two sets hide the latency of one, if there are enough registers.
    ///
    /// # Safety
    /// Every way has a base whose block of the way's number is readable at the source and writable at the
    /// destination, equal or disjoint; ways behind `ways` get theirs here. The rows of `beside`, of
    /// `V::BESIDE` blocks each, are readable. The CPU has the features of `V`, and BMI2 if there is a `beside`.
    #[inline(always)]
    unsafe fn rounds<const N: usize>(&mut self, mut beside: Option<&mut Beside>) {
        if self.ways < N * V::WAYS {
            self.give::<0>(self.ways, N * V::WAYS - self.ways, 2 * GROUP, 0);
            self.bases[2 * GROUP].destination = self.ends[GROUP].as_mut_ptr();
        }
        let mut s = [[V::splat(0); 16]; N];
        for (set, s) in s.iter_mut().enumerate() {
            *s = self.start(set);
        }
        let mut steps = beside.as_deref().map(Beside::steps);
        macro_rules! eighth {
            ($n:literal, $by:literal, $a:expr, $b:expr, $d:expr) => {
                for s in &mut s {
                    for ((a, b), d) in $a.into_iter().zip($b).zip($d) {
                        (s[a], s[d]) = if beside.is_some() {
                            V::mix_in_place::<$by>(s[a], s[b], s[d])
                        } else {
                            V::mix::<$by>(s[a], s[b], s[d])
                        };
                    }
                }
                if let (Some(steps), Some(beside)) = (&mut steps, &beside) {
                    // SAFETY: the contract: the rows of `beside` are readable, and the CPU has BMI2.
                    unsafe { steps.eighth::<$n>(beside, V::BESIDE) };
                }
            };
        }
        for _ in 0..10 {
            double_round!(eighth);
            if let (Some(steps), Some(beside)) = (&mut steps, beside.as_deref_mut()) {
                beside.advance(steps, V::BESIDE);
            }
        }
        if let (Some(steps), Some(beside)) = (steps, beside) {
            beside.set_steps(steps);
        }
        // SAFETY: the contract: the ways' blocks; the others got `ends`. The sets have constant indices, so
        // that they stay in registers.
        unsafe {
            self.write(s[0], 0);
            if N > 1 {
                self.write(s[1], 1);
            }
        }
    }

    /// XORs a set's blocks with its stream.
    ///
    /// # Safety
    /// Every way of the set has a base whose block of the way's number is readable at the source and
    /// writable at the destination, equal or disjoint. The CPU has the features of `V`.
    #[inline(always)]
    unsafe fn write(&self, mut s: [V; 16], set: usize) {
        for (word, start) in s.iter_mut().zip(self.start(set)) {
            *word = word.add(start);
        }
        let rows = |way: usize| {
            let base = self.bases[self.messages[set].0[way] as usize % BASES];
            let ahead = 64 * self.numbers[set].0[way] as usize;
            (base.source.wrapping_add(ahead), base.destination.wrapping_add(ahead))
        };
        // SAFETY: the contract: each way's block at its base, which may be one of `ends`.
        unsafe { V::xor_rows(s, rows) };
    }
}

/// Computes the tags of as many texts.
pub(super) type Tags<P> = fn(P, &[Text<'_>], &mut [[u8; 16]]);

/// Writes or checks a job's tag.
pub(super) fn settle(direction: Direction, job: &mut AeadJob<'_>, tag: [u8; 16]) {
    job.status = match direction {
        Direction::Decrypt if !bool::from(u128::from_le_bytes(tag).ct_eq(&u128::from_le_bytes(job.tag))) => {
            Status::Forged
        }
        Direction::Encrypt | Direction::Decrypt => Status::Done,
    };
    if direction == Direction::Encrypt {
        job.tag = tag;
    }
}

/// Block 0 of a message's stream; its first half is the one-time key.
pub(super) type Zeroth = [[u8; 32]; 2];

/// Computes blocks 0 of a group's messages if there is a place for them, and crypts their data if that is wanted,
/// except for forged messages; `beside` is authenticated meanwhile.
///
/// # Safety
/// The CPU has the features of the wave's kernels, the rows of `beside` are readable, and no block waits in
/// the wave. `group` has at most as many jobs as a vector has ways, and `zeroth`, if there is one, at least
/// as many blocks. If `with_data`, no reference to the data of these jobs lives.
#[inline(always)]
pub(super) unsafe fn crypt<'k, V: Streams, const SETS: usize>(
    wave: &mut Wave<'k, V, SETS>,
    jobs: &[AeadJob<'k>],
    group: &[u16],
    zeroth: Option<&mut [Zeroth]>,
    with_data: bool,
    mut beside: Option<&mut Beside>,
) {
    for (message, &index) in group.iter().enumerate() {
        wave.take(message, &jobs[usize::from(index)]);
    }
    if let Some(zeroth) = zeroth {
        // SAFETY: the contract: no way has a block yet; there are as many blocks as messages; `beside` is
        // handed on.
        unsafe { wave.add_zeroth(&mut zeroth[..group.len()], beside.as_deref_mut()) };
    }
    if with_data {
        for (message, &index) in group.iter().enumerate() {
            let job = &jobs[usize::from(index)];
            let (destination, bytes) = (job.data.destination(), job.data.len());
            // SAFETY: the job's buffer, which lives here and when the wave is flushed; no reference to it, by
            // the contract.
            unsafe {
                if job.status == Status::Forged {
                    destination.write_bytes(0, bytes);
                } else {
                    wave.add(message, (job.data.source(), destination), bytes, beside.as_deref_mut());
                }
            }
        }
    }
    // SAFETY: the blocks and buffers that were added live; `beside` is handed on.
    unsafe { wave.flush(beside) };
}

/// Returns the text that a job's tag authenticates.
///
/// # Safety
/// Nothing writes the job's buffer while the text lives.
#[inline(always)]
pub(super) unsafe fn text<'t>(direction: Direction, job: &AeadJob<'t>, key: &'t [u8; 32]) -> Text<'t> {
    let sealed = match direction {
        Direction::Encrypt => job.data.destination().cast_const(),
        Direction::Decrypt => job.data.source(),
    };
    // SAFETY: the job's buffer has so many bytes at both ends; nothing writes them, by the contract.
    Text { key, aad: job.aad, data: unsafe { core::slice::from_raw_parts(sealed, job.data.len()) } }
}

/// Runs the jobs that `order` lists, all of them pending.
///
/// # Safety
/// The CPU has the features of `V` and of `kernels`, and BMI2.
#[inline(always)]
unsafe fn all<'k, V: Streams, P: Copy, const SETS: usize>(
    kernels: Kernels<V, SETS>,
    proof: P,
    tags: Tags<P>,
    direction: Direction,
    jobs: &mut [AeadJob<'k>],
    order: &[u16],
) {
    let mut wave = Wave::<V, SETS>::new(kernels);
    let mut zeroth = [[[0; 32]; 2]; GROUP];
    let sealing = direction == Direction::Encrypt;
    for group in order.chunks(V::WAYS) {
        // SAFETY: the jobs' buffers.
        unsafe { crypt(&mut wave, jobs, group, Some(&mut zeroth), sealing, None) };
        let mut made = [[0; 16]; GROUP];
        let mut texts = [Text { key: &[0; 32], aad: &[], data: &[] }; GROUP];
        for ((&index, place), [key, _]) in group.iter().zip(&mut texts).zip(&zeroth) {
            // SAFETY: no wave runs before the tags are made.
            *place = unsafe { text(direction, &jobs[usize::from(index)], key) };
        }
        tags(proof, &texts[..group.len()], &mut made[..group.len()]);
        for (&index, tag) in group.iter().zip(made) {
            settle(direction, &mut jobs[usize::from(index)], tag);
        }
        if !sealing {
            // SAFETY: the jobs' buffers.
            unsafe { crypt(&mut wave, jobs, group, None, true, None) };
        }
    }
    wave.wipe();
    wipe(&mut zeroth, [[0; 32]; 2]);
}

pub(super) fn tags_one_by_one<P>(_: P, texts: &[Text<'_>], tags: &mut [[u8; 16]]) {
    for (text, tag) in texts.iter().zip(tags) {
        *tag = text.tag();
    }
}

pub(super) fn tags_side_by_side(proof: Avx512, texts: &[Text<'_>], tags: &mut [[u8; 16]]) {
    if texts.len() < SIDE_BY_SIDE {
        tags_one_by_one(proof, texts, tags);
    } else {
        poly1305::ways::tags(proof, texts, tags);
    }
}

/// # Safety
/// The contract of [`Wave::rounds`] with `N` = 1 and without `beside`; the CPU has AVX2, BMI1, BMI2, SSSE3
/// and SSE4.1.
#[target_feature(enable = "avx2,bmi1,bmi2,ssse3,sse4.1")]
unsafe fn rounds_avx2(wave: &mut Wave<'_, Y, 1>) {
    // SAFETY: this function has the features of Y, and the contract of `rounds`.
    unsafe { wave.rounds::<1>(None) }
}

/// # Safety
/// The contract of [`Wave::rounds`] with `N` = 1; the CPU has AVX2, BMI1, BMI2, SSSE3 and SSE4.1.
#[target_feature(enable = "avx2,bmi1,bmi2,ssse3,sse4.1")]
unsafe fn beside_avx2(wave: &mut Wave<'_, Y, 1>, beside: &mut Beside) {
    // SAFETY: this function has the features of Y, and the contract of `rounds`.
    unsafe { wave.rounds::<1>(Some(beside)) }
}

pub(super) const AVX2: Kernels<Y, 1> =
    Kernels { one: rounds_avx2, all: rounds_avx2, one_beside: beside_avx2, all_beside: beside_avx2 };

/// # Safety
/// The CPU has AVX2, BMI1, BMI2, SSSE3 and SSE4.1.
#[target_feature(enable = "avx2,bmi1,bmi2,ssse3,sse4.1")]
pub(super) unsafe fn all_avx2(proof: Avx2, direction: Direction, jobs: &mut [AeadJob<'_>], order: &[u16]) {
    // SAFETY: this function has the features of Y, of its kernels, and BMI2.
    unsafe { all(AVX2, proof, tags_one_by_one, direction, jobs, order) }
}

/// # Safety
/// The contract of [`Wave::rounds`] without `beside`; the CPU has AVX-512 F, BW, DQ, VL and IFMA, and BMI2.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma,bmi2")]
unsafe fn rounds_avx512<const N: usize>(wave: &mut Wave<'_, Z, 2>) {
    // SAFETY: this function has the features of Z, and the contract of `rounds`.
    unsafe { wave.rounds::<N>(None) }
}

/// # Safety
/// The contract of [`Wave::rounds`]; the CPU has AVX-512 F, BW, DQ, VL and IFMA, and BMI2.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma,bmi2")]
unsafe fn beside_avx512<const N: usize>(wave: &mut Wave<'_, Z, 2>, beside: &mut Beside) {
    // SAFETY: this function has the features of Z, and the contract of `rounds`.
    unsafe { wave.rounds::<N>(Some(beside)) }
}

pub(super) const AVX512: Kernels<Z, 2> = Kernels {
    one: rounds_avx512::<1>,
    all: rounds_avx512::<2>,
    one_beside: beside_avx512::<1>,
    all_beside: beside_avx512::<2>,
};

/// # Safety
/// The CPU has AVX-512 F, BW, DQ, VL and IFMA, and BMI2.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma,bmi2")]
pub(super) unsafe fn all_avx512(
    proof: Avx512,
    direction: Direction,
    jobs: &mut [AeadJob<'_>],
    order: &[u16],
) {
    // SAFETY: this function has the features of Z, of its kernels, and BMI2.
    unsafe { all(AVX512, proof, tags_side_by_side, direction, jobs, order) }
}

/// Returns whether these messages are too few to gain by sharing vectors; measured. Two short messages gain when they
/// are sealed, because both streams fit into one vector; opening computes blocks 0 before all others, and only three
/// short messages outweigh that.
pub(super) fn one_by_one(direction: Direction, jobs: &[AeadJob<'_>]) -> bool {
    let none_from = |bytes| jobs.iter().all(|job| job.data.len() < bytes);
    match (jobs.len(), direction) {
        (0 | 1, _) | (2, Direction::Decrypt) => true,
        (2, Direction::Encrypt) => !none_from(LONG_ALONE),
        (3, Direction::Decrypt) => !none_from(LONG),
        _ => false,
    }
}
