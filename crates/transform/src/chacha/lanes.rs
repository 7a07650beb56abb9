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

/// Messages of a group.
const GROUP: usize = 16;
/// Blocks of a wave: two vectors of the widest.
const LANES: usize = 32;
/// Lanes whose pointers are written together; those past the last block are written again or hold nothing.
const STRIDE: usize = 8;

/// Messages from which authenticating them side by side beats one after the other.
const SIDE_BY_SIDE: usize = 3;

/// What lanes without a block read, and the first block of a stream is XORed with.
static ZEROS: [u8; 64] = [0; 64];

/// The numbers of the lanes.
static NUMBERS: [u32; LANES] = {
    let mut numbers = [0; LANES];
    let mut lane = 0;
    while lane < LANES {
        numbers[lane] = lane as u32;
        lane += 1;
    }
    numbers
};

/// Lanes that take what differs between messages.
trait Streams: Words {
    /// `other` in the lanes from `first` on.
    fn past_lane(self, first: usize, other: Self) -> Self;

    /// As [`Words::store_rows`], XORed with 64 bytes of each source.
    ///
    /// # Safety
    /// `LANES` pointers each, to 64 readable and 64 writable bytes; those of a lane are equal or disjoint.
    unsafe fn xor_rows(words: [Self; 16], sources: *const *const u8, destinations: *const *mut u8);
}

impl Streams for Y {
    #[inline(always)]
    fn past_lane(self, first: usize, other: Self) -> Self {
        // SAFETY: reached under the token; the numbers of eight lanes.
        unsafe {
            let lanes = Self::load(NUMBERS.as_ptr());
            let before = _mm256_cmpgt_epi32(_mm256_set1_epi32(first as i32), lanes.0);
            Self(_mm256_blendv_epi8(other.0, self.0, before))
        }
    }
    #[inline(always)]
    unsafe fn xor_rows(words: [Self; 16], sources: *const *const u8, destinations: *const *mut u8) {
        let (halves, _) = words.as_chunks::<8>();
        for (half, words) in halves.iter().enumerate() {
            for (lane, row) in Self::transpose(*words).into_iter().enumerate() {
                // SAFETY: the caller's contract.
                unsafe {
                    let source = Self::load((*sources.add(lane)).add(32 * half).cast());
                    row.xor(source).store((*destinations.add(lane)).add(32 * half).cast());
                }
            }
        }
    }
}

impl Streams for Z {
    #[inline(always)]
    fn past_lane(self, first: usize, other: Self) -> Self {
        let lanes = (0xffffu32 << first.min(16)) as u16;
        // SAFETY: reached under the token.
        Self(unsafe { _mm512_mask_mov_epi32(self.0, lanes, other.0) })
    }
    #[inline(always)]
    unsafe fn xor_rows(words: [Self; 16], sources: *const *const u8, destinations: *const *mut u8) {
        for (lane, row) in Self::transpose(words).into_iter().enumerate() {
            // SAFETY: the caller's contract.
            unsafe {
                let source = <Self as Words>::load((*sources.add(lane)).cast());
                row.xor(source).store((*destinations.add(lane)).cast());
            }
        }
    }
}

/// Consecutive bytes of one message, in consecutive lanes.
#[derive(Clone, Copy)]
struct Run<'k> {
    key: &'k [u8; 32],
    nonce: [u32; 3],
    /// Of the first block.
    number: u32,
    first_lane: usize,
    destination: *mut u8,
    bytes: usize,
}

/// Runs the first vectors of a wave's lanes.
type Rounds<V, const SETS: usize> = for<'w, 'k> unsafe fn(&'w mut Wave<'k, V, SETS>);

/// Blocks that wait until every lane has one.
struct Wave<'k, V, const SETS: usize> {
    /// The words that messages of one key have in common.
    common: [[V; 12]; SETS],
    /// Whose they are in all lanes.
    key: Option<&'k [u8; 32]>,
    sources: [*const u8; LANES + STRIDE],
    destinations: [*mut u8; LANES + STRIDE],
    /// In the order of the lanes; each run but a message's last is whole blocks.
    runs: [Run<'k>; LANES],
    run_count: usize,
    lanes: usize,
    /// Runs one vector of lanes, and all of them.
    rounds: [Rounds<V, SETS>; 2],
    /// Where a message's last bytes become a whole block, and lanes without a block write.
    ends: [[u8; 64]; LANES],
}

impl<'k, V: Streams, const SETS: usize> Wave<'k, V, SETS> {
    #[inline(always)]
    fn new(rounds: [Rounds<V, SETS>; 2]) -> Self {
        let (number, destination) = (0, core::ptr::null_mut());
        let nothing = Run { key: &[0; 32], nonce: [0; 3], number, first_lane: 0, destination, bytes: 0 };
        let mut common = [V::splat(0); 12];
        for (word, bytes) in common.iter_mut().zip(b"expand 32-byte k".as_chunks().0) {
            *word = V::splat(u32::from_le_bytes(*bytes));
        }
        Self {
            common: [common; SETS],
            key: None,
            sources: [ZEROS.as_ptr(); LANES + STRIDE],
            destinations: [destination; LANES + STRIDE],
            runs: [nothing; LANES],
            run_count: 0,
            lanes: 0,
            rounds,
            ends: [[0; 64]; LANES],
        }
    }

    /// XORs `run.bytes` bytes from `source` on with a stream from block `run.number` on; lanes are given here.
    ///
    /// # Safety
    /// They are readable, the destination is writable, and what else the wave holds is too.
    #[inline(always)]
    unsafe fn add(&mut self, mut source: *const u8, mut run: Run<'k>) {
        while run.bytes != 0 {
            let (first_lane, room) = (self.lanes, SETS * V::LANES - self.lanes);
            let blocks = run.bytes.div_ceil(64).min(room);
            let bytes = run.bytes.min(64 * blocks);
            for first in (0..blocks).step_by(STRIDE) {
                let lanes = first_lane + first..first_lane + first + STRIDE;
                let rows = self.sources[lanes.clone()].iter_mut().zip(&mut self.destinations[lanes]);
                for (block, (from, to)) in rows.enumerate() {
                    *from = source.wrapping_add(64 * (first + block));
                    *to = run.destination.wrapping_add(64 * (first + block));
                }
            }
            self.lanes += blocks;
            if !bytes.is_multiple_of(64) {
                let end = self.ends[self.lanes - 1].as_mut_ptr();
                // SAFETY: the last bytes, fewer than a block.
                unsafe {
                    core::ptr::copy_nonoverlapping(self.sources[self.lanes - 1], end, bytes % 64);
                }
                (self.sources[self.lanes - 1], self.destinations[self.lanes - 1]) = (end, end);
            }
            self.runs[self.run_count] = Run { first_lane, bytes, ..run };
            self.run_count += 1;
            source = source.wrapping_add(bytes);
            run.destination = run.destination.wrapping_add(bytes);
            run.bytes -= bytes;
            run.number = run.number.wrapping_add(blocks as u32);
            if blocks == room {
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
        for run in &self.runs[..self.run_count] {
            let (whole, end) = (run.bytes / 64, run.bytes % 64);
            if end != 0 {
                let from = self.ends[run.first_lane + whole].as_ptr();
                // SAFETY: the caller's contract.
                unsafe { core::ptr::copy_nonoverlapping(from, run.destination.add(64 * whole), end) };
            }
        }
        (self.lanes, self.run_count) = (0, 0);
    }

    /// The words after the common ones: number and nonce. Sees that the common ones are those of the lanes.
    #[inline(always)]
    fn numbered<const N: usize>(&mut self) -> [[V; 4]; N] {
        let mut own = [[V::splat(0); 4]; N];
        let mut mixed = false;
        for run in &self.runs[..self.run_count] {
            if self.key.is_none_or(|key| !core::ptr::eq(key, run.key)) {
                self.key = Some(run.key);
                mixed = run.first_lane != 0;
                for (set, common) in self.common.iter_mut().enumerate() {
                    let first = run.first_lane.saturating_sub(set * V::LANES);
                    for (word, bytes) in common[4..].iter_mut().zip(run.key.as_chunks().0) {
                        *word = word.past_lane(first, V::splat(u32::from_le_bytes(*bytes)));
                    }
                }
            }
            let [a, b, c] = run.nonce;
            for (set, own) in own.iter_mut().enumerate() {
                let first = run.first_lane.saturating_sub(set * V::LANES);
                for (own, word) in
                    own.iter_mut().zip([run.number.wrapping_sub(run.first_lane as u32), a, b, c])
                {
                    *own = own.past_lane(first, V::splat(word));
                }
            }
        }
        if mixed {
            self.key = None;
        }
        for (set, own) in own.iter_mut().enumerate() {
            // SAFETY: as many numbers as lanes.
            own[0] = own[0].add(unsafe { V::load(NUMBERS.as_ptr().add(set * V::LANES)) });
        }
        own
    }

    /// Clears keys and what was written past messages' ends.
    #[inline(always)]
    fn wipe(&mut self) {
        wipe(&mut self.common, [V::splat(0); 12]);
        wipe(&mut self.ends, [0; 64]);
    }

    /// Runs the first `N` vectors of lanes: two sets hide the latency of one, if registers suffice.
    ///
    /// # Safety
    /// The bytes of the lanes' blocks are readable and writable.
    #[inline(always)]
    unsafe fn rounds<const N: usize>(&mut self) {
        for lane in self.lanes..N * V::LANES {
            (self.sources[lane], self.destinations[lane]) = (ZEROS.as_ptr(), self.ends[lane].as_mut_ptr());
        }
        let own = self.numbered::<N>();
        let mut s = [[V::splat(0); 16]; N];
        for set in 0..N {
            s[set][..12].copy_from_slice(&self.common[set]);
            s[set][12..].copy_from_slice(&own[set]);
        }
        for _ in 0..10 {
            quarters(&mut s, [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]);
            quarters(&mut s, [5, 6, 7, 4], [10, 11, 8, 9], [15, 12, 13, 14]);
        }
        // SAFETY: the caller's contract. Sets by constants, so that they stay in registers.
        unsafe {
            self.write::<0>(s[0], &own[0]);
            if N > 1 {
                self.write::<1>(s[1], &own[1]);
            }
        }
    }

    /// XORs a set's blocks with its stream.
    ///
    /// # Safety
    /// The bytes of the lanes' blocks are readable and writable.
    #[inline(always)]
    unsafe fn write<const SET: usize>(&self, mut s: [V; 16], own: &[V; 4]) {
        for word in 0..16 {
            s[word] = s[word].add(if word < 12 { self.common[SET][word] } else { own[word - 12] });
        }
        let first = SET * V::LANES;
        // SAFETY: as many rows as the vector has lanes: blocks as the caller says, and ends.
        unsafe { V::xor_rows(s, self.sources.as_ptr().add(first), self.destinations.as_ptr().add(first)) };
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

/// A run of a job's stream from block `number` on.
#[inline(always)]
fn run<'k>(job: &AeadJob<'k>, number: u32, destination: *mut u8, bytes: usize) -> Run<'k> {
    let key = if let AeadSchedule::ChaCha(key) = job.key.schedule() { key } else { &[0; 32] };
    let [a, b, c] = [0, 1, 2].map(|i| u32::from_le_bytes([0, 1, 2, 3].map(|j| job.nonce[4 * i + j])));
    Run { key, nonce: [a, b, c], number, first_lane: 0, destination, bytes }
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
    for group in order.chunks(GROUP) {
        for (&index, zeroth) in group.iter().zip(&mut zeroth) {
            let run = run(&jobs[usize::from(index)], 0, zeroth.as_flattened_mut().as_mut_ptr(), 64);
            // SAFETY: as many bytes on both sides.
            unsafe { wave.add(ZEROS.as_ptr(), run) };
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
                for &index in group {
                    let job = &jobs[usize::from(index)];
                    let run = run(job, 1, job.data.destination(), job.data.len());
                    // SAFETY: the job's buffer, here and when the wave is flushed.
                    unsafe {
                        if job.status == Status::Forged {
                            run.destination.write_bytes(0, run.bytes);
                        } else {
                            wave.add(job.data.source(), run);
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
