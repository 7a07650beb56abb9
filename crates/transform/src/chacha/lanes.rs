//! ChaCha20-Poly1305 with blocks of the stream side by side in the lanes of vectors: of one message or of many,
//! whichever come next. Constant time.
//!
//! Up to sixteen messages make a group. Their one-time keys come first. Sealing then XORs and authenticates; opening
//! authenticates and XORs only what is genuine.
//!
//! `unsafe`: buffers are read and written through the raw pointers of [`crate::job::Buffer`]; the entry points take
//! tokens.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use subtle::ConstantTimeEq as _;

use crate::aead::{AeadJob, AeadSchedule};
use crate::isa::{Avx2, Avx512};
use crate::job::{Direction, Status};
use crate::poly1305::{self, Text};
use crate::simd::avx2::Y;
use crate::simd::avx512::Z;
use crate::simd::{Bits as _, Words};
use crate::wipe::wipe;

/// Messages of a group at most: one for each lane of the widest vector.
const GROUP: usize = 16;
/// Blocks of a wave: two vectors of the widest.
const LANES: usize = 32;
/// A message has three bases, and lanes without a block have one; a power of two spares checking indices.
const BASES: usize = 64;
/// Lanes that are written together; those past the last block are written again or hold nothing.
const STRIDE: usize = 16;

/// Messages from which authenticating them side by side beats one after the other.
const SIDE_BY_SIDE: usize = 3;

/// What lanes without a block read, and the first block of a stream is XORed with.
static ZEROS: [u8; 64] = [0; 64];

/// Lanes that take their words from messages side by side.
trait Streams: Words {
    /// In each lane the word of `self` in the lane that `lanes` names.
    fn pick(self, lanes: Self) -> Self;

    /// As [`Words::store_rows`], XORed with 64 bytes of each source; `rows` gives a lane's source and destination.
    ///
    /// # Safety
    /// They are 64 readable and 64 writable bytes, equal or disjoint.
    unsafe fn xor_rows(words: [Self; 16], rows: impl Fn(usize) -> (*const u8, *mut u8));
}

impl Streams for Y {
    #[inline(always)]
    fn pick(self, lanes: Self) -> Self {
        // SAFETY: reached under the token.
        Self(unsafe { _mm256_permutevar8x32_epi32(self.0, lanes.0) })
    }
    #[inline(always)]
    unsafe fn xor_rows(words: [Self; 16], rows: impl Fn(usize) -> (*const u8, *mut u8)) {
        let (halves, _) = words.as_chunks::<8>();
        for (half, words) in halves.iter().enumerate() {
            for (lane, row) in Self::transpose(*words).into_iter().enumerate() {
                let (source, destination) = rows(lane);
                // SAFETY: the caller's contract.
                unsafe {
                    let source = Self::load(source.add(32 * half).cast());
                    row.xor(source).store(destination.add(32 * half).cast());
                }
            }
        }
    }
}

impl Streams for Z {
    #[inline(always)]
    fn pick(self, lanes: Self) -> Self {
        // SAFETY: reached under the token.
        Self(unsafe { _mm512_permutexvar_epi32(lanes.0, self.0) })
    }
    #[inline(always)]
    unsafe fn xor_rows(words: [Self; 16], rows: impl Fn(usize) -> (*const u8, *mut u8)) {
        for (lane, row) in Self::transpose(words).into_iter().enumerate() {
            let (source, destination) = rows(lane);
            // SAFETY: the caller's contract.
            unsafe {
                let source = <Self as Words>::load(source.cast());
                row.xor(source).store(destination.cast());
            }
        }
    }
}

/// Where the block of a message numbered 0 would lie.
#[derive(Clone, Copy)]
struct Base {
    source: *const u8,
    destination: *mut u8,
}

/// Runs the first vectors of a wave's lanes.
type Rounds<V, const SETS: usize> = for<'w, 'k> unsafe fn(&'w mut Wave<'k, V, SETS>);

/// A group's messages, and blocks of theirs that wait until every lane has one.
struct Wave<'k, V, const SETS: usize> {
    /// Words 4 to 11 and 13 to 15 of each message's blocks: key and nonce.
    words: [[u32; GROUP]; 11],
    /// Whose words those of the keys are.
    keys: [Option<&'k [u8; 32]>; GROUP],
    /// By sixteens: of the messages; of their last blocks, if not whole; of lanes without a block; of blocks 0.
    bases: [Base; BASES],
    /// Where a message's last bytes become a whole block, and lanes without a block write.
    ends: [[u8; 64]; GROUP + 1],
    /// Which of the bases is a lane's, and the number of its block. The lowest bits tell the message.
    messages: [u32; LANES + STRIDE],
    numbers: [u32; LANES + STRIDE],
    lanes: usize,
    /// The messages whose last bytes wait, and where they belong.
    parts: [(usize, *mut u8, usize); LANES],
    part_count: usize,
    /// Runs one vector of lanes, and all of them.
    rounds: [Rounds<V, SETS>; 2],
}

impl<'k, V: Streams, const SETS: usize> Wave<'k, V, SETS> {
    #[inline(always)]
    fn new(rounds: [Rounds<V, SETS>; 2]) -> Self {
        let nowhere = core::ptr::null_mut();
        Self {
            words: [[0; GROUP]; 11],
            keys: [None; GROUP],
            bases: [Base { source: ZEROS.as_ptr(), destination: nowhere }; BASES],
            ends: [[0; 64]; GROUP + 1],
            messages: [0; LANES + STRIDE],
            numbers: [0; LANES + STRIDE],
            lanes: 0,
            parts: [(0, nowhere, 0); LANES],
            part_count: 0,
            rounds,
        }
    }

    /// Takes up a message.
    #[inline(always)]
    fn take(&mut self, message: usize, job: &AeadJob<'k>) {
        let AeadSchedule::ChaCha(key) = job.key.schedule() else { return };
        let word = |bytes: &[u8; 4]| u32::from_le_bytes(*bytes);
        let (of_key, of_nonce) = self.words.split_at_mut(8);
        if self.keys[message].is_none_or(|other| !core::ptr::eq(other, &raw const **key)) {
            self.keys[message] = Some(key);
            for (words, bytes) in of_key.iter_mut().zip(key.as_chunks().0) {
                words[message] = word(bytes);
            }
        }
        for (words, bytes) in of_nonce.iter_mut().zip(job.nonce.as_chunks().0) {
            words[message] = word(bytes);
        }
    }

    /// XORs `bytes` bytes from `source` on with the message's stream from block `number` on; lanes are given here.
    ///
    /// # Safety
    /// They are readable, as many are writable at the destination, and what else the wave holds is too.
    #[inline(always)]
    unsafe fn add(&mut self, message: usize, mut number: u32, source: *const u8, to: *mut u8, bytes: usize) {
        let ahead = 64 * number as usize;
        // Blocks 0 wait with the others.
        let base = if number == 0 { 3 * GROUP + message } else { message };
        self.bases[base] = Base { source: source.wrapping_sub(ahead), destination: to.wrapping_sub(ahead) };
        let mut blocks = bytes.div_ceil(64);
        while blocks != 0 {
            let now = blocks.min(SETS * V::LANES - self.lanes);
            for first in (0..now).step_by(STRIDE) {
                let lanes = self.lanes + first..self.lanes + first + STRIDE;
                self.messages[lanes.clone()].fill(base as u32);
                for (lane, of_lane) in self.numbers[lanes].iter_mut().enumerate() {
                    *of_lane = number.wrapping_add((first + lane) as u32);
                }
            }
            (self.lanes, blocks) = (self.lanes + now, blocks - now);
            number = number.wrapping_add(now as u32);
            let part = bytes % 64;
            if blocks == 0 && part != 0 {
                let end = self.ends[message].as_mut_ptr();
                // SAFETY: the last bytes, fewer than a block.
                unsafe { core::ptr::copy_nonoverlapping(source.add(bytes - part), end, part) };
                self.parts[self.part_count] = (message, to.wrapping_add(bytes - part), part);
                self.part_count += 1;
                self.messages[self.lanes - 1] = (GROUP + message) as u32;
                let end = end.wrapping_sub(64 * self.numbers[self.lanes - 1] as usize);
                self.bases[GROUP + message] = Base { source: end, destination: end };
            }
            if self.lanes == SETS * V::LANES {
                // SAFETY: the caller's contract.
                unsafe { self.flush() };
            }
        }
    }

    /// Runs the blocks that wait.
    ///
    /// # Safety
    /// Their bytes are readable and writable.
    #[inline(always)]
    unsafe fn flush(&mut self) {
        if self.lanes == 0 {
            return;
        }
        let [one, all] = self.rounds;
        // SAFETY: the caller's contract.
        unsafe { if self.lanes <= V::LANES { one(self) } else { all(self) } };
        for &(message, to, bytes) in &self.parts[..self.part_count] {
            // SAFETY: the caller's contract.
            unsafe { core::ptr::copy_nonoverlapping(self.ends[message].as_ptr(), to, bytes) };
        }
        (self.lanes, self.part_count) = (0, 0);
    }

    /// Clears keys and what was written past messages' ends.
    #[inline(always)]
    fn wipe(&mut self) {
        wipe(&mut self.words, [0; GROUP]);
        wipe(&mut self.ends, [0; 64]);
    }

    /// The sixteen words that a set starts from.
    #[inline(always)]
    fn start(&self, set: usize) -> [V; 16] {
        let first = set * V::LANES;
        // SAFETY: as many lanes follow the first, and a word has as many messages.
        unsafe {
            let lanes = V::load(self.messages.as_ptr().add(first));
            let own = |n: usize| V::load(self.words[n].as_ptr()).pick(lanes);
            let [a, b, c, d] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574].map(V::splat);
            let number = V::load(self.numbers.as_ptr().add(first));
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
                number,
                own(8),
                own(9),
                own(10),
            ]
        }
    }

    /// Runs the first `N` vectors of lanes: two sets hide the latency of one, if registers suffice.
    ///
    /// # Safety
    /// The bytes of the lanes' blocks are readable and writable.
    #[inline(always)]
    unsafe fn rounds<const N: usize>(&mut self) {
        if self.lanes < N * V::LANES {
            self.messages[self.lanes..N * V::LANES].fill(2 * GROUP as u32);
            self.numbers[self.lanes..N * V::LANES].fill(0);
            self.bases[2 * GROUP].destination = self.ends[GROUP].as_mut_ptr();
        }
        let mut s = [[V::splat(0); 16]; N];
        for (set, s) in s.iter_mut().enumerate() {
            *s = self.start(set);
        }
        for _ in 0..10 {
            quarters(&mut s, [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]);
            quarters(&mut s, [5, 6, 7, 4], [10, 11, 8, 9], [15, 12, 13, 14]);
        }
        // SAFETY: the caller's contract. Sets by constants, so that they stay in registers.
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
    /// The bytes of the lanes' blocks are readable and writable.
    #[inline(always)]
    unsafe fn write(&self, mut s: [V; 16], set: usize) {
        for (word, start) in s.iter_mut().zip(self.start(set)) {
            *word = word.add(start);
        }
        let rows = |lane: usize| {
            let lane = set * V::LANES + lane;
            let base = self.bases[self.messages[lane] as usize % BASES];
            let ahead = 64 * self.numbers[lane] as usize;
            (base.source.wrapping_add(ahead), base.destination.wrapping_add(ahead))
        };
        // SAFETY: blocks as the caller says, and ends.
        unsafe { V::xor_rows(s, rows) };
    }
}

/// Four quarter rounds of each set, step by step; their first words are the first four.
#[inline(always)]
fn quarters<V: Words, const SETS: usize>(
    s: &mut [[V; 16]; SETS],
    b: [usize; 4],
    c: [usize; 4],
    d: [usize; 4],
) {
    macro_rules! half {
        ($one:literal, $two:literal) => {
            for s in s.iter_mut() {
                for i in 0..4 {
                    s[i] = s[i].add(s[b[i]]);
                    s[d[i]] = s[d[i]].xor(s[i]).rotl::<$one>();
                }
            }
            for s in s.iter_mut() {
                for i in 0..4 {
                    s[c[i]] = s[c[i]].add(s[d[i]]);
                    s[b[i]] = s[b[i]].xor(s[c[i]]).rotl::<$two>();
                }
            }
        };
    }
    half!(16, 12);
    half!(8, 7);
}

/// Makes the tags of as many texts.
type Tags<P> = fn(P, &[Text<'_>], &mut [[u8; 16]]);

/// Runs the jobs that `order` lists, all of them pending.
///
/// # Safety
/// The CPU has the vector's instructions.
#[inline(always)]
unsafe fn all<'k, V: Streams, P: Copy, const SETS: usize>(
    rounds: [Rounds<V, SETS>; 2],
    proof: P,
    tags: Tags<P>,
    direction: Direction,
    jobs: &mut [AeadJob<'k>],
    order: &[u16],
) {
    let mut wave = Wave::<V, SETS>::new(rounds);
    // Blocks 0; the first half of each is a message's one-time key.
    let mut zeroth = [[[0; 32]; 2]; GROUP];
    for group in order.chunks(V::LANES) {
        for (message, &index) in group.iter().enumerate() {
            wave.take(message, &jobs[usize::from(index)]);
        }
        for (message, zeroth) in zeroth[..group.len()].iter_mut().enumerate() {
            // SAFETY: as many bytes on both sides.
            unsafe { wave.add(message, 0, ZEROS.as_ptr(), zeroth.as_flattened_mut().as_mut_ptr(), 64) };
        }
        let sealing = direction == Direction::Encrypt;
        let mut made = [[0; 16]; GROUP];
        for now_tags in [!sealing, sealing] {
            if now_tags {
                // SAFETY: as said where they were added.
                unsafe { wave.flush() };
                let mut texts = [Text { key: &[0; 32], aad: &[], data: &[] }; GROUP];
                for ((&index, text), [key, _]) in group.iter().zip(&mut texts).zip(&zeroth) {
                    let job = &jobs[usize::from(index)];
                    let sealed =
                        if sealing { job.data.destination().cast_const() } else { job.data.source() };
                    // SAFETY: the job's buffer, which nothing writes while the texts live.
                    let data = unsafe { core::slice::from_raw_parts(sealed, job.data.len()) };
                    *text = Text { key, aad: job.aad, data };
                }
                tags(proof, &texts[..group.len()], &mut made[..group.len()]);
                if !sealing {
                    for (&index, tag) in group.iter().zip(&made) {
                        let job = &mut jobs[usize::from(index)];
                        let genuine = u128::from_le_bytes(*tag).ct_eq(&u128::from_le_bytes(job.tag));
                        job.status = if bool::from(genuine) { Status::Done } else { Status::Forged };
                    }
                }
            } else {
                for (message, &index) in group.iter().enumerate() {
                    let job = &jobs[usize::from(index)];
                    let (destination, bytes) = (job.data.destination(), job.data.len());
                    // SAFETY: the job's buffer, here and when the wave is flushed.
                    unsafe {
                        if job.status == Status::Forged {
                            destination.write_bytes(0, bytes);
                        } else {
                            wave.add(message, 1, job.data.source(), destination, bytes);
                        }
                    }
                }
            }
        }
        // SAFETY: as said where they were added.
        unsafe { wave.flush() };
        if sealing {
            for (&index, tag) in group.iter().zip(made) {
                let job = &mut jobs[usize::from(index)];
                (job.tag, job.status) = (tag, Status::Done);
            }
        }
    }
    wave.wipe();
    wipe(&mut zeroth, [[0; 32]; 2]);
}

fn tags_one_by_one<P>(_: P, texts: &[Text<'_>], tags: &mut [[u8; 16]]) {
    for (text, tag) in texts.iter().zip(tags) {
        *tag = text.tag();
    }
}

fn tags_side_by_side(proof: Avx512, texts: &[Text<'_>], tags: &mut [[u8; 16]]) {
    if texts.len() < SIDE_BY_SIDE {
        tags_one_by_one(proof, texts, tags);
    } else {
        poly1305::lanes::tags(proof, texts, tags);
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2,ssse3,sse4.1")]
unsafe fn rounds_avx2(wave: &mut Wave<'_, Y, 1>) {
    // SAFETY: the features of Y, and the caller's contract.
    unsafe { wave.rounds::<1>() }
}

#[target_feature(enable = "avx2,bmi1,bmi2,ssse3,sse4.1")]
unsafe fn all_avx2(proof: Avx2, direction: Direction, jobs: &mut [AeadJob<'_>], order: &[u16]) {
    let rounds: [Rounds<Y, 1>; 2] = [rounds_avx2; 2];
    // SAFETY: the features of Y.
    unsafe { all(rounds, proof, tags_one_by_one, direction, jobs, order) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma,bmi2")]
unsafe fn rounds_avx512<const N: usize>(wave: &mut Wave<'_, Z, 2>) {
    // SAFETY: the features of Z, and the caller's contract.
    unsafe { wave.rounds::<N>() }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma,bmi2")]
unsafe fn all_avx512(proof: Avx512, direction: Direction, jobs: &mut [AeadJob<'_>], order: &[u16]) {
    let rounds: [Rounds<Z, 2>; 2] = [rounds_avx512::<1>, rounds_avx512::<2>];
    // SAFETY: the features of Z.
    unsafe { all(rounds, proof, tags_side_by_side, direction, jobs, order) }
}

/// Runs the jobs that `order` lists, all of them pending, in eight lanes.
pub(crate) fn avx2(proof: Avx2, direction: Direction, jobs: &mut [AeadJob<'_>], order: &[u16]) {
    // SAFETY: the token.
    unsafe { all_avx2(proof, direction, jobs, order) }
}

/// As [`avx2`], in sixteen lanes.
pub(crate) fn avx512(proof: Avx512, direction: Direction, jobs: &mut [AeadJob<'_>], order: &[u16]) {
    // SAFETY: the token.
    unsafe { all_avx512(proof, direction, jobs, order) }
}
