//! Many messages through one lane kernel, each with its own length and key.
//!
//! Every lane walks through its message in segments: the whole blocks in place, then one or two padded blocks in a
//! scratch buffer, then for HMAC the outer block. All lanes run until the shortest segment ends; the lanes that
//! ended move on, and a lane whose message is done takes the next one. Jobs come sorted by length (see
//! [`crate::order`]), so lanes end together when lengths repeat. A lane without work reads along with a busy one.
//!
//! `unsafe`: kernels take raw lane pointers, made here from the jobs' slices.
#![allow(unsafe_code)]

use super::{Compress, Hash};
use crate::job::{DigestJob, Status};
use crate::key::HashKey;
use crate::simd::Words;

/// Lanes of the widest kernel.
pub(crate) const MAX_LANES: usize = 32;

/// Where each lane reads.
pub(crate) type Rows = [*const u8; MAX_LANES];

/// Hash states, word by word across lanes.
#[repr(align(64))]
pub(crate) struct LaneState(pub(super) [[u32; MAX_LANES]; 8]);

impl LaneState {
    /// The first `N` words of `G` groups of lanes.
    ///
    /// # Safety
    /// `G * V::LANES` is at most [`MAX_LANES`].
    #[inline(always)]
    pub(crate) unsafe fn read<V: Words, const N: usize, const G: usize>(&self) -> [[V; G]; N] {
        let mut words = [[V::splat(0); G]; N];
        for (word, row) in words.iter_mut().zip(&self.0) {
            for (n, group) in word.iter_mut().enumerate() {
                // SAFETY: group n lies within the row, by the caller's promise.
                *group = unsafe { V::load(row.as_ptr().add(n * V::LANES)) };
            }
        }
        words
    }

    /// The inverse of [`Self::read`].
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub(crate) unsafe fn write<V: Words, const N: usize, const G: usize>(&mut self, words: &[[V; G]; N]) {
        for (word, row) in words.iter().zip(&mut self.0) {
            for (n, group) in word.iter().enumerate() {
                // SAFETY: as in `read`.
                unsafe { group.store(row.as_mut_ptr().add(n * V::LANES)) };
            }
        }
    }

    pub(super) fn lane(&self, lane: usize) -> [u32; 8] {
        core::array::from_fn(|word| self.0[word][lane])
    }

    pub(super) fn set_lane(&mut self, lane: usize, words: usize, state: &[u32; 8]) {
        for (row, word) in self.0[..words].iter_mut().zip(state) {
            row[lane] = *word;
        }
    }
}

/// Absorbs `blocks` blocks of every lane: lane l reads `64 * blocks` bytes at `rows[l]`.
///
/// # Safety
/// The CPU has the kernel's features; the rows of all lanes are readable that far.
pub(crate) type Run = unsafe fn(&mut LaneState, &Rows, usize);

/// A lane kernel and when to stop using it.
#[derive(Clone, Copy)]
pub(crate) struct Kernel {
    /// Messages side by side.
    pub(crate) lanes: usize,
    pub(crate) run: Run,
    /// At most this many lanes left, and no further jobs: they finish one by one ...
    pub(crate) few: usize,
    /// ... with this.
    pub(crate) alone: Compress,
}

/// Names `#[target_feature]` instances of a generic kernel.
macro_rules! lane_kernels {
    ($run:ident: $($name:ident = $features:literal, $vector:ty, $groups:literal;)*) => { $(
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        pub(crate) unsafe fn $name(state: &mut LaneState, rows: &Rows, blocks: usize) {
            // SAFETY: the caller keeps Run's contract; this function has the vector's features.
            unsafe { $run::<$vector, $groups>(state, rows, blocks) }
        }
    )* };
}
pub(crate) use lane_kernels;

/// What a lane does when its segment ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The message's whole blocks are absorbed: pad.
    Body,
    /// The padded blocks are absorbed: finish, or go on to the outer hash.
    Padded,
    /// The outer block is absorbed: finish.
    Outer,
    /// Nothing to do.
    Idle,
}

struct Lanes<'j, 'a> {
    hash: Hash,
    jobs: &'j mut [DigestJob<'a>],
    order: &'j [u16],
    taken: usize,
    busy: usize,
    state: LaneState,
    rows: Rows,
    blocks_left: [usize; MAX_LANES],
    job_of: [u16; MAX_LANES],
    stage: [Stage; MAX_LANES],
    scratch: [[u8; 128]; MAX_LANES],
}

/// Runs the jobs that `order` lists; their keys are those of `hash`.
pub(crate) fn run(hash: Hash, kernel: &Kernel, jobs: &mut [DigestJob<'_>], order: &[u16]) {
    let mut lanes = Lanes {
        hash,
        jobs,
        order,
        taken: 0,
        busy: 0,
        state: LaneState([[0; MAX_LANES]; 8]),
        rows: [core::ptr::null(); MAX_LANES],
        blocks_left: [0; MAX_LANES],
        job_of: [0; MAX_LANES],
        stage: [Stage::Idle; MAX_LANES],
        scratch: [[0; 128]; MAX_LANES],
    };
    lanes.run(kernel);
}

impl Lanes<'_, '_> {
    fn run(&mut self, kernel: &Kernel) {
        for lane in 0..kernel.lanes {
            self.take(lane);
        }
        while self.busy > 0 {
            let mut shortest = usize::MAX;
            let mut readable = core::ptr::null();
            for lane in 0..kernel.lanes {
                self.advance(lane);
                if self.stage[lane] != Stage::Idle {
                    // A lane without work follows the one with least to go, so it reads nothing it must not.
                    if self.blocks_left[lane] < shortest {
                        shortest = self.blocks_left[lane];
                        readable = self.rows[lane];
                    }
                }
            }
            if self.busy == 0 {
                break;
            }
            if self.taken == self.order.len() && self.busy <= kernel.few {
                for lane in 0..kernel.lanes {
                    self.finish_alone(lane, kernel.alone);
                }
                break;
            }
            if self.busy < kernel.lanes {
                for lane in 0..kernel.lanes {
                    if self.stage[lane] == Stage::Idle {
                        self.rows[lane] = readable;
                    }
                }
            }
            // SAFETY: the kernel was chosen under its token; every busy lane has at least `shortest` blocks at its
            // row, and idle lanes share the row of the lane that has exactly that many. Lanes beyond
            // `kernel.lanes` are not read.
            unsafe { (kernel.run)(&mut self.state, &self.rows, shortest) };
            for lane in 0..kernel.lanes {
                self.blocks_left[lane] = self.blocks_left[lane].wrapping_sub(shortest);
                self.rows[lane] = self.rows[lane].wrapping_add(64 * shortest);
            }
        }
    }

    /// Gives the lane the next job, if there is one.
    fn take(&mut self, lane: usize) {
        let Some(&index) = self.order.get(self.taken) else {
            self.stage[lane] = Stage::Idle;
            return;
        };
        self.taken += 1;
        self.busy += 1;
        let job = &self.jobs[usize::from(index)];
        self.job_of[lane] = index;
        self.rows[lane] = job.input.as_ptr();
        self.blocks_left[lane] = job.input.len() / 64;
        self.stage[lane] = Stage::Body;
        let words = self.hash.words();
        match job.key.hash_key() {
            HashKey::Hmac { inner, .. } => self.state.set_lane(lane, words, inner),
            HashKey::Plain => self.state.set_lane(lane, words, &self.hash.initial()),
        }
    }

    /// Moves the lane on until it has blocks to absorb or nothing is left for it.
    fn advance(&mut self, lane: usize) {
        while self.stage[lane] != Stage::Idle && self.blocks_left[lane] == 0 {
            let index = usize::from(self.job_of[lane]);
            let job = &mut self.jobs[index];
            let key = job.key.hash_key();
            match (self.stage[lane], key) {
                (Stage::Body, _) => {
                    let keyed_bytes = if matches!(key, HashKey::Hmac { .. }) { 64 } else { 0 };
                    let tail = &job.input[job.input.len() & !63..];
                    let total = job.input.len() as u64 + keyed_bytes;
                    self.blocks_left[lane] = self.hash.pad(tail, total, &mut self.scratch[lane]) / 64;
                    self.rows[lane] = self.scratch[lane].as_ptr();
                    self.stage[lane] = Stage::Padded;
                }
                (Stage::Padded, HashKey::Hmac { outer, .. }) => {
                    let mut digest = [0; 32];
                    self.hash.write_digest(&self.state.lane(lane), &mut digest);
                    let digest_bytes = 4 * self.hash.words();
                    let total = 64 + digest_bytes as u64;
                    self.blocks_left[lane] =
                        self.hash.pad(&digest[..digest_bytes], total, &mut self.scratch[lane]) / 64;
                    self.rows[lane] = self.scratch[lane].as_ptr();
                    self.state.set_lane(lane, self.hash.words(), outer);
                    self.stage[lane] = Stage::Outer;
                }
                _ => {
                    self.hash.write_digest(&self.state.lane(lane), &mut job.output);
                    job.status = Status::Done;
                    self.busy -= 1;
                    self.take(lane);
                }
            }
        }
    }

    /// Finishes the lane's message with a kernel for single messages.
    fn finish_alone(&mut self, lane: usize, compress: Compress) {
        self.advance(lane);
        while self.stage[lane] != Stage::Idle {
            let mut state = self.state.lane(lane);
            // SAFETY: the lane's row has that many blocks left, in its job's input or in its scratch.
            let rest = unsafe { core::slice::from_raw_parts(self.rows[lane], 64 * self.blocks_left[lane]) };
            compress(&mut state, rest);
            self.state.set_lane(lane, self.hash.words(), &state);
            self.blocks_left[lane] = 0;
            self.advance(lane);
        }
    }
}
