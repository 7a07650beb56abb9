//! ChaCha20-Poly1305 with blocks of the stream side by side in the lanes of vectors: of one message or of many,
//! whichever come next. Constant time.
//!
//! Up to sixteen messages make a group. Their one-time keys come first. Sealing then XORs and authenticates; opening
//! authenticates and XORs only what is genuine.
//!
//! `unsafe`: buffers are read and written through the raw pointers of [`crate::job::Buffer`]; the entry points take
//! tokens.
#![allow(unsafe_code)]

use subtle::ConstantTimeEq as _;
use zeroize::Zeroize as _;

use super::reference::input;
use crate::aead::{AeadJob, AeadSchedule};
use crate::isa::{Avx2, Avx512};
use crate::job::{Direction, Status};
use crate::poly1305::{self, Text};
use crate::simd::Words;
use crate::simd::avx2::Y;
use crate::simd::avx512::Z;

/// Messages of a group.
const GROUP: usize = 16;
/// Blocks of a wave: two vectors of the widest.
const LANES: usize = 32;

/// Messages from which authenticating them side by side beats one after the other.
const SIDE_BY_SIDE: usize = 3;

/// What lanes without a block read.
static ZEROS: [u8; 64] = [0; 64];

/// Consecutive bytes of one message.
#[derive(Clone, Copy)]
struct Run {
    source: *const u8,
    destination: *mut u8,
    bytes: usize,
}

/// Blocks that wait until every lane has one, and the stream of those that had.
#[repr(C, align(64))]
struct Wave {
    stream: [[u8; 64]; LANES],
    /// The input words of each lane's message, with block number 0.
    inputs: [*const u8; LANES],
    numbers: [u32; LANES],
    /// What the stream is for, in the order of the lanes; each run but a message's last is whole blocks.
    runs: [Run; LANES],
    run_count: usize,
    lanes: usize,
}

impl Drop for Wave {
    fn drop(&mut self) {
        self.stream.as_flattened_mut().zeroize();
    }
}

impl Wave {
    #[inline(always)]
    fn new() -> Self {
        let nothing = Run { source: ZEROS.as_ptr(), destination: core::ptr::null_mut(), bytes: 0 };
        Self {
            stream: [[0; 64]; LANES],
            inputs: [ZEROS.as_ptr(); LANES],
            numbers: [0; LANES],
            runs: [nothing; LANES],
            run_count: 0,
            lanes: 0,
        }
    }

    /// XORs the bytes of a run with a stream from block `number` on.
    ///
    /// # Safety
    /// They are readable and writable, and what else the wave holds is too.
    #[inline(always)]
    unsafe fn add<V: Words, const SETS: usize>(&mut self, words: &[u32; 16], mut number: u32, mut run: Run) {
        while run.bytes != 0 {
            let (first, room) = (self.lanes, SETS * V::LANES - self.lanes);
            let blocks = run.bytes.div_ceil(64).min(room);
            let part = run.bytes.min(64 * blocks);
            self.runs[self.run_count] = Run { bytes: part, ..run };
            self.run_count += 1;
            self.lanes += blocks;
            for (input, place) in
                self.inputs[first..self.lanes].iter_mut().zip(&mut self.numbers[first..self.lanes])
            {
                *input = words.as_ptr().cast();
                *place = number;
                number = number.wrapping_add(1);
            }
            run = Run {
                source: run.source.wrapping_add(part),
                destination: run.destination.wrapping_add(part),
                bytes: run.bytes - part,
            };
            if blocks == room {
                // SAFETY: the caller's contract.
                unsafe { self.flush::<V, SETS>() };
            }
        }
    }

    /// Runs the blocks that wait, at most `SETS` vectors of them.
    ///
    /// # Safety
    /// Their bytes are readable and writable.
    #[inline(always)]
    unsafe fn flush<V: Words, const SETS: usize>(&mut self) {
        // SAFETY: the caller's contract.
        unsafe {
            match self.lanes {
                0 => return,
                few if few <= V::LANES => self.rounds::<V, 1>(),
                _ => self.rounds::<V, SETS>(),
            }
        }
        let mut stream = self.stream.iter();
        for run in &self.runs[..self.run_count] {
            let (mut source, mut destination, mut left) = (run.source, run.destination, run.bytes);
            for stream in stream.by_ref().take(run.bytes.div_ceil(64)) {
                let part = left.min(64);
                // SAFETY: the caller's contract.
                unsafe { xor(source, destination, part, stream) };
                source = source.wrapping_add(part);
                destination = destination.wrapping_add(part);
                left -= part;
            }
        }
        (self.lanes, self.run_count) = (0, 0);
    }

    /// Makes the stream of the first `SETS` vectors of lanes: two sets hide the latency of one, if registers suffice.
    ///
    /// # Safety
    /// The CPU has the vector's instructions.
    #[inline(always)]
    unsafe fn rounds<V: Words, const SETS: usize>(&mut self) {
        let mut start = [[V::splat(0); 16]; SETS];
        for (set, start) in start.iter_mut().enumerate() {
            // SAFETY: as many inputs and numbers as the vector has lanes.
            unsafe {
                *start = V::load_rows(self.inputs.as_ptr().add(set * V::LANES), 0);
                start[12] = start[12].add(V::load(self.numbers.as_ptr().add(set * V::LANES)));
            }
        }
        let mut s = start;
        for _ in 0..10 {
            quarters(&mut s, [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]);
            quarters(&mut s, [5, 6, 7, 4], [10, 11, 8, 9], [15, 12, 13, 14]);
        }
        for (set, (mut s, start)) in s.into_iter().zip(start).enumerate() {
            for (s, start) in s.iter_mut().zip(start) {
                *s = s.add(start);
            }
            let mut rows = [core::ptr::null_mut(); LANES];
            for (row, stream) in rows.iter_mut().zip(&mut self.stream) {
                *row = stream.as_mut_ptr();
            }
            // SAFETY: as many rows of 64 bytes as the vector has lanes.
            unsafe { V::store_rows(s, rows.as_ptr().add(set * V::LANES), 0) };
        }
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

/// XORs up to 64 bytes.
///
/// # Safety
/// `bytes` bytes are readable and writable.
#[inline(always)]
unsafe fn xor(source: *const u8, destination: *mut u8, bytes: usize, stream: &[u8; 64]) {
    let words = stream.as_chunks::<8>().0;
    let crypted = |block: &[u8; 64]| {
        let mut out = [0; 64];
        for ((out, block), word) in
            out.as_chunks_mut::<8>().0.iter_mut().zip(block.as_chunks::<8>().0).zip(words)
        {
            *out = (u64::from_le_bytes(*block) ^ u64::from_le_bytes(*word)).to_le_bytes();
        }
        out
    };
    // SAFETY: the caller's contract.
    unsafe {
        if bytes == 64 {
            let block = source.cast::<[u8; 64]>().read();
            destination.cast::<[u8; 64]>().write(crypted(&block));
        } else {
            let mut block = [0; 64];
            core::ptr::copy_nonoverlapping(source, block.as_mut_ptr(), bytes);
            core::ptr::copy_nonoverlapping(crypted(&block).as_ptr(), destination, bytes);
        }
    }
}

/// Makes the tags of as many texts.
type Tags<P> = fn(P, &[Text<'_>], &mut [[u8; 16]]);

/// Runs the jobs that `order` lists, all of them pending.
///
/// # Safety
/// The CPU has the vector's instructions.
#[inline(always)]
unsafe fn all<V: Words, P: Copy, const SETS: usize>(
    proof: P,
    tags: Tags<P>,
    direction: Direction,
    jobs: &mut [AeadJob<'_>],
    order: &[u16],
) {
    let mut wave = Wave::new();
    let mut inputs = [[0; 16]; GROUP];
    let mut one_time = [[0; 32]; GROUP];
    for group in order.chunks(GROUP) {
        for ((&index, input_words), one_time) in group.iter().zip(&mut inputs).zip(&mut one_time) {
            let job = &jobs[usize::from(index)];
            let AeadSchedule::ChaCha(key) = job.key.schedule() else { return };
            *input_words = input(key, 0, &job.nonce);
            let run =
                Run { source: ZEROS.as_ptr(), destination: one_time.as_mut_ptr(), bytes: one_time.len() };
            // SAFETY: as many bytes on both sides.
            unsafe { wave.add::<V, SETS>(input_words, 0, run) };
        }
        let sealing = direction == Direction::Encrypt;
        let mut made = [[0; 16]; GROUP];
        for now_tags in [!sealing, sealing] {
            if now_tags {
                // SAFETY: as said where they were added.
                unsafe { wave.flush::<V, SETS>() };
                let mut texts = [Text { key: &[0; 32], aad: &[], data: &[] }; GROUP];
                for ((&index, text), key) in group.iter().zip(&mut texts).zip(&one_time) {
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
                for (&index, words) in group.iter().zip(&inputs) {
                    let job = &jobs[usize::from(index)];
                    let run = Run {
                        source: job.data.source(),
                        destination: job.data.destination(),
                        bytes: job.data.len(),
                    };
                    // SAFETY: the job's buffer, here and when the wave is flushed.
                    unsafe {
                        if job.status == Status::Forged {
                            run.destination.write_bytes(0, run.bytes);
                        } else {
                            wave.add::<V, SETS>(words, 1, run);
                        }
                    }
                }
            }
        }
        // SAFETY: as said where they were added.
        unsafe { wave.flush::<V, SETS>() };
        if sealing {
            for (&index, tag) in group.iter().zip(made) {
                let job = &mut jobs[usize::from(index)];
                (job.tag, job.status) = (tag, Status::Done);
            }
        }
    }
    inputs.as_flattened_mut().zeroize();
    one_time.as_flattened_mut().zeroize();
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
unsafe fn all_avx2(proof: Avx2, direction: Direction, jobs: &mut [AeadJob<'_>], order: &[u16]) {
    // SAFETY: the features of Y.
    unsafe { all::<Y, _, 1>(proof, tags_one_by_one, direction, jobs, order) }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma,bmi2")]
unsafe fn all_avx512(proof: Avx512, direction: Direction, jobs: &mut [AeadJob<'_>], order: &[u16]) {
    // SAFETY: the features of Z.
    unsafe { all::<Z, _, 2>(proof, tags_side_by_side, direction, jobs, order) }
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
