//! Many messages of SHA-3 side by side, each with its own length.
//!
//! A lane's message is its whole blocks, read in place, then one padded block in the lane's scratch. All lanes run until the shortest
//! stretch ends; a lane whose message is done takes the next one, and a lane without work reads the bytes of one that has least left.
//! When so few lanes are busy that single messages are faster, the rests of their messages run one by one.
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

/// The work of a lane.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The whole blocks of the message.
    Body,
    /// Its padded end, of one or two blocks.
    End,
    /// No work.
    Idle,
}

struct Lanes<'j, 'a, const L: usize> {
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

impl<const L: usize> Lanes<'_, '_, L> {
    /// Gives the lane the next job, or leaves it idle.
    fn take(&mut self, lane: usize) {
        let index = loop {
            let Some(&index) = self.order.get(self.taken) else {
                self.stage[lane] = Stage::Idle;
                return;
            };
            self.taken += 1;
            let job = &mut self.jobs[usize::from(index)];
            if self.function.value_bytes.is_none() || job.input.len() < CHUNK_BYTES {
                break index;
            }
            // The chunks of a long message share lanes among each other.
            one(self.function, self.features, Tier::Batch, job);
            job.status = Status::Done;
        };
        self.busy += 1;
        let input = self.jobs[usize::from(index)].input;
        self.states.0.iter_mut().for_each(|row| row[lane] = 0);
        self.job_of[lane] = index;
        self.stage[lane] = Stage::Body;
        self.rows[lane] = input.as_ptr();
        self.blocks_left[lane] = input.len() / self.function.sponge.rate_bytes;
    }

    /// Moves a lane whose stretch has ended to the next one.
    fn advance(&mut self, lane: usize) {
        let job = &mut self.jobs[usize::from(self.job_of[lane])];
        let rate_bytes = self.function.sponge.rate_bytes;
        match self.stage[lane] {
            Stage::Idle => {}
            Stage::Body => {
                let rest = &job.input[job.input.len() - job.input.len() % rate_bytes..];
                let tail = self.function.tail();
                let end = rest.len() + tail.len();
                let blocks = end / rate_bytes + 1;
                let scratch = &mut self.scratch[lane];
                scratch[..rest.len()].copy_from_slice(rest);
                scratch[rest.len()..end].copy_from_slice(tail);
                scratch[end..].fill(0);
                scratch[end] = self.function.sponge.suffix;
                scratch[blocks * rate_bytes - 1] |= LAST_BIT;
                self.rows[lane] = scratch.as_ptr();
                self.blocks_left[lane] = blocks;
                self.stage[lane] = Stage::End;
            }
            Stage::End => {
                job.output = [0; 64];
                for (bytes, row) in job.output.as_chunks_mut::<8>().0.iter_mut().zip(&self.states.0) {
                    *bytes = row[lane].to_le_bytes();
                }
                job.output[self.function.output_bytes..].fill(0);
                job.status = Status::Done;
                self.busy -= 1;
                self.take(lane);
            }
        }
    }

    /// Runs all jobs.
    ///
    /// # Safety
    /// The CPU has the kernel's features.
    unsafe fn digest_all(&mut self, kernel: Absorb<L>, few: usize) {
        let sponge = self.function.sponge;
        (0..L).for_each(|lane| self.take(lane));
        loop {
            let (mut shortest, mut along) = (usize::MAX, core::ptr::null());
            for lane in 0..L {
                while self.stage[lane] != Stage::Idle && self.blocks_left[lane] == 0 {
                    self.advance(lane);
                }
                if self.stage[lane] != Stage::Idle && self.blocks_left[lane] < shortest {
                    (shortest, along) = (self.blocks_left[lane], self.rows[lane]);
                }
            }
            if self.busy == 0 {
                return;
            }
            if self.busy <= few && self.taken == self.order.len() {
                return self.finish_alone();
            }
            for lane in 0..L {
                if self.stage[lane] == Stage::Idle {
                    self.rows[lane] = along;
                }
            }
            // SAFETY: the contract for the features; a busy lane has at least so many blocks at its row, in
            // its job's input or in its scratch, and idle ones share the row of one that has exactly as many.
            unsafe { kernel(&mut self.states, &self.rows, sponge, shortest) };
            for (row, left) in self.rows.iter_mut().zip(&mut self.blocks_left) {
                *row = row.wrapping_add(sponge.rate_bytes * shortest);
                *left = left.saturating_sub(shortest);
            }
        }
    }

    /// Finishes the messages of all busy lanes one by one; there are no more jobs.
    fn finish_alone(&mut self) {
        for lane in 0..L {
            while self.stage[lane] != Stage::Idle {
                let mut state = States(self.states.0.map(|row| [row[lane]]));
                let (rows, sponge) = ([self.rows[lane]], self.function.sponge);
                // SAFETY: plain words need no features; so many blocks are left at the row, in the job's
                // input or in the scratch.
                unsafe { abreast::plain(&mut state, &rows, sponge, self.blocks_left[lane]) };
                for (row, [word]) in self.states.0.iter_mut().zip(state.0) {
                    row[lane] = word;
                }
                self.blocks_left[lane] = 0;
                self.advance(lane);
            }
        }
    }
}

/// Runs the jobs that `order` lists through the lanes of a kernel.
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
    let mut lanes = Lanes {
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
    unsafe { lanes.digest_all(kernel, few) };
    wipe(&mut lanes.states.0, [0; L]);
    wipe(&mut lanes.scratch, [0; 2 * BLOCK_MAX]);
}

/// Runs the jobs that a list of indices, longest first, names. With at most `few` lanes busy and no jobs waiting, messages end one by
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
