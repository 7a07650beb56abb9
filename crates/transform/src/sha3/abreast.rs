//! Many messages of SHA-3 side by side, each with its own length.
//!
//! A way's message is its whole blocks, read in place, then one padded block in the way's scratch. All ways run until the shortest
//! stretch ends; a way whose message is done takes the next one, and a way without work reads the bytes of one that has least left.
//! When so few ways are busy that single messages are faster, the rests of their messages run one by one.
//!
//! `unsafe`: kernels take raw pointers, made here from the jobs' slices.
#![allow(unsafe_code)]

use super::kangaroo::CHUNK_BYTES;
use super::{Function, one};
use crate::isa::{Features, Tier};
use crate::job::{DigestJob, Status};
use crate::keccak::LAST_BIT;
use crate::keccak::abreast::{self, Absorb, States};
use crate::wipe::wipe;

/// Bytes of the longest block, SHAKE128's.
const BLOCK_MAX: usize = 168;

/// The work of a way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The whole blocks of the message.
    Body,
    /// Its padded end, of one or two blocks.
    End,
    /// No work.
    Idle,
}

struct Ways<'j, 'a, const L: usize> {
    function: &'j Function,
    features: Features,
    jobs: &'j mut [DigestJob<'a>],
    order: &'j [u16],
    taken: usize,
    busy: usize,
    states: States<L>,
    rows: [*const u8; L],
    blocks_left: [usize; L],
    stage: [Stage; L],
    job_of: [u16; L],
    scratch: [[u8; 2 * BLOCK_MAX]; L],
}

impl<const L: usize> Ways<'_, '_, L> {
    /// Gives the way the next job, or leaves it idle.
    fn take(&mut self, way: usize) {
        let index = loop {
            let Some(&index) = self.order.get(self.taken) else {
                self.stage[way] = Stage::Idle;
                return;
            };
            self.taken += 1;
            let job = &mut self.jobs[usize::from(index)];
            if self.function.value_bytes.is_none() || job.input.len() < CHUNK_BYTES {
                break index;
            }
            // The chunks of a long message share ways among each other.
            one(self.function, self.features, Tier::Batch, job);
            job.status = Status::Done;
        };
        self.busy += 1;
        let input = self.jobs[usize::from(index)].input;
        self.states.0.iter_mut().for_each(|row| row[way] = 0);
        self.job_of[way] = index;
        self.stage[way] = Stage::Body;
        self.rows[way] = input.as_ptr();
        self.blocks_left[way] = input.len() / self.function.sponge.rate_bytes;
    }

    /// Moves a way whose stretch has ended to the next one.
    fn advance(&mut self, way: usize) {
        let job = &mut self.jobs[usize::from(self.job_of[way])];
        let rate_bytes = self.function.sponge.rate_bytes;
        match self.stage[way] {
            Stage::Idle => {}
            Stage::Body => {
                let rest = &job.input[job.input.len() - job.input.len() % rate_bytes..];
                let tail = self.function.tail();
                let end = rest.len() + tail.len();
                let blocks = end / rate_bytes + 1;
                let scratch = &mut self.scratch[way];
                scratch[..rest.len()].copy_from_slice(rest);
                scratch[rest.len()..end].copy_from_slice(tail);
                scratch[end..].fill(0);
                scratch[end] = self.function.sponge.suffix;
                scratch[blocks * rate_bytes - 1] |= LAST_BIT;
                self.rows[way] = scratch.as_ptr();
                self.blocks_left[way] = blocks;
                self.stage[way] = Stage::End;
            }
            Stage::End => {
                job.output = [0; 64];
                for (bytes, row) in job.output.as_chunks_mut::<8>().0.iter_mut().zip(&self.states.0) {
                    *bytes = row[way].to_le_bytes();
                }
                job.output[self.function.output_bytes..].fill(0);
                job.status = Status::Done;
                self.busy -= 1;
                self.take(way);
            }
        }
    }

    /// Runs all jobs.
    ///
    /// # Safety
    /// The CPU has the kernel's features.
    unsafe fn digest_all(&mut self, kernel: Absorb<L>, few: usize) {
        let sponge = self.function.sponge;
        (0..L).for_each(|way| self.take(way));
        loop {
            let (mut shortest, mut along) = (usize::MAX, core::ptr::null());
            for way in 0..L {
                while self.stage[way] != Stage::Idle && self.blocks_left[way] == 0 {
                    self.advance(way);
                }
                if self.stage[way] != Stage::Idle && self.blocks_left[way] < shortest {
                    (shortest, along) = (self.blocks_left[way], self.rows[way]);
                }
            }
            if self.busy == 0 {
                return;
            }
            if self.busy <= few && self.taken == self.order.len() {
                return self.finish_alone();
            }
            for way in 0..L {
                if self.stage[way] == Stage::Idle {
                    self.rows[way] = along;
                }
            }
            // SAFETY: the contract for the features; a busy way has at least so many blocks at its row, in
            // its job's input or in its scratch, and idle ones share the row of one that has exactly as many.
            unsafe { kernel(&mut self.states, &self.rows, sponge, shortest) };
            for (row, left) in self.rows.iter_mut().zip(&mut self.blocks_left) {
                *row = row.wrapping_add(sponge.rate_bytes * shortest);
                *left = left.saturating_sub(shortest);
            }
        }
    }

    /// Finishes the messages of all busy ways one by one; there are no more jobs.
    fn finish_alone(&mut self) {
        for way in 0..L {
            while self.stage[way] != Stage::Idle {
                let mut state = States(self.states.0.map(|row| [row[way]]));
                let (rows, sponge) = ([self.rows[way]], self.function.sponge);
                // SAFETY: plain words need no features; so many blocks are left at the row, in the job's
                // input or in the scratch.
                unsafe { abreast::plain(&mut state, &rows, sponge, self.blocks_left[way]) };
                for (row, [word]) in self.states.0.iter_mut().zip(state.0) {
                    row[way] = word;
                }
                self.blocks_left[way] = 0;
                self.advance(way);
            }
        }
    }
}

/// Runs the jobs that `order` lists through the ways of a kernel.
///
/// # Safety
/// The CPU has the kernel's features.
unsafe fn all<const L: usize>(
    function: &Function,
    features: Features,
    kernel: Absorb<L>,
    few: usize,
    jobs: &mut [DigestJob<'_>],
    order: &[u16],
) {
    let mut ways = Ways {
        function,
        features,
        jobs,
        order,
        taken: 0,
        busy: 0,
        states: States([[0; L]; 25]),
        rows: [core::ptr::null(); L],
        blocks_left: [0; L],
        stage: [Stage::Idle; L],
        job_of: [0; L],
        scratch: [[0; 2 * BLOCK_MAX]; L],
    };
    // SAFETY: the contract: the CPU has the kernel's features.
    unsafe { ways.digest_all(kernel, few) };
    wipe(&mut ways.states.0, [0; L]);
    wipe(&mut ways.scratch, [0; 2 * BLOCK_MAX]);
}

/// Runs the jobs that a list of indices, longest first, names. With at most `few` ways busy and no jobs waiting, messages end one by
/// one.
pub(super) fn run(
    function: &Function,
    features: Features,
    few: usize,
    jobs: &mut [DigestJob<'_>],
    order: &[u16],
) {
    #[cfg(target_arch = "x86_64")]
    if features.avx512.is_some() {
        // SAFETY: the token proves AVX-512.
        return unsafe { all(function, features, abreast::avx512, few, jobs, order) };
    }
    #[cfg(target_arch = "x86_64")]
    if features.avx2.is_some() {
        // SAFETY: the token proves AVX2.
        return unsafe { all(function, features, abreast::avx2, few, jobs, order) };
    }
    // SAFETY: plain words need no features.
    unsafe { all(function, features, abreast::plain, few, jobs, order) }
}

/// Digests one message without vectors.
pub(super) fn alone(function: &Function, job: &mut DigestJob<'_>) {
    // SAFETY: plain words need no features.
    unsafe { all(function, Features::NONE, abreast::plain, 0, core::slice::from_mut(job), &[0]) }
}
