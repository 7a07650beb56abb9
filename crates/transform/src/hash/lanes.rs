//! Many messages through one lane kernel, each with its own length and key.
//!
//! Every lane walks through its message in segments: the whole blocks in place, then one or two padded blocks in a
//! scratch buffer, where messages that fit run from the start, then for HMAC the outer block. All lanes run until the
//! shortest segment ends; the lanes that ended move on, and a lane whose message is done takes the next one. Jobs come
//! sorted by length (see [`crate::order`]), so lanes end together when lengths repeat. A lane without work reads along
//! with a busy one.
//!
//! `unsafe`: kernels take raw lane pointers, made here from the jobs' slices.
#![allow(unsafe_code)]

use super::{Compress, Hash, MAX_TAIL};
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

/// What a lane absorbs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The message's whole blocks, in place; then its end.
    Body,
    /// Its end, padded; then the outer hash, if there is one.
    Padded,
    /// The outer block.
    Outer,
    /// Nothing to do.
    Idle,
}

/// The end of a lane's message; aligned, so that no load crosses a cache line.
#[repr(align(64))]
struct Scratch([u8; 128]);

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
    /// Blocks in the lane's scratch.
    padded_blocks: [usize; MAX_LANES],
    scratch: [Scratch; MAX_LANES],
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
        padded_blocks: [0; MAX_LANES],
        scratch: [const { Scratch([0; 128]) }; MAX_LANES],
    };
    lanes.run(kernel);
}

impl Lanes<'_, '_> {
    fn run(&mut self, kernel: &Kernel) {
        for lane in 0..kernel.lanes {
            self.take(lane);
        }
        while self.busy > kernel.few || self.taken < self.order.len() {
            let (mut shortest, mut readable) = (usize::MAX, core::ptr::null());
            for (left, row) in self.blocks_left.iter().zip(&self.rows).take(kernel.lanes) {
                if *left < shortest {
                    (shortest, readable) = (*left, *row);
                }
            }
            if self.busy < kernel.lanes {
                // A lane without work follows the one with least to go, so it reads nothing it must not.
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
                self.rows[lane] = self.rows[lane].wrapping_add(64 * shortest);
                self.blocks_left[lane] -= shortest;
                if self.blocks_left[lane] == 0 {
                    self.advance(lane);
                }
            }
        }
        for lane in 0..kernel.lanes {
            self.finish_alone(lane, kernel.alone);
        }
    }

    /// Gives the lane the next job, if there is one, and lays out the end of its message.
    #[inline(always)]
    fn take(&mut self, lane: usize) {
        let Some(&index) = self.order.get(self.taken) else {
            self.stage[lane] = Stage::Idle;
            self.blocks_left[lane] = usize::MAX;
            return;
        };
        self.taken += 1;
        self.busy += 1;
        let job = &self.jobs[usize::from(index)];
        self.job_of[lane] = index;
        let (initial, keyed_bytes) = match job.key.hash_key() {
            HashKey::Hmac { inner, .. } => (inner, 64),
            HashKey::Plain => (self.hash.initial(), 0),
        };
        self.state.set_lane(lane, self.hash.words(), initial);
        // What fits into the scratch with its padding need not run in place first.
        let bytes = job.input.len();
        let in_place = if bytes <= MAX_TAIL { 0 } else { bytes & !63 };
        let total = bytes as u64 + keyed_bytes;
        self.padded_blocks[lane] =
            self.hash.pad(&job.input[in_place..], total, &mut self.scratch[lane].0) / 64;
        if in_place == 0 {
            return self.aim_at_scratch(lane, Stage::Padded);
        }
        self.rows[lane] = job.input.as_ptr();
        self.blocks_left[lane] = in_place / 64;
        self.stage[lane] = Stage::Body;
    }

    fn aim_at_scratch(&mut self, lane: usize, stage: Stage) {
        self.rows[lane] = self.scratch[lane].0.as_ptr();
        self.blocks_left[lane] = self.padded_blocks[lane];
        self.stage[lane] = stage;
    }

    /// Moves a lane whose segment has ended on to the next, or to the next message.
    fn advance(&mut self, lane: usize) {
        if self.stage[lane] == Stage::Body {
            return self.aim_at_scratch(lane, Stage::Padded);
        }
        let job = &mut self.jobs[usize::from(self.job_of[lane])];
        let state = self.state.lane(lane);
        match job.key.hash_key() {
            HashKey::Hmac { outer, .. } if self.stage[lane] == Stage::Padded => {
                let mut digest = [0; 32];
                self.hash.write_digest(&state, &mut digest);
                let digest = &digest[..4 * self.hash.words()];
                let total = 64 + digest.len() as u64;
                self.padded_blocks[lane] = self.hash.pad(digest, total, &mut self.scratch[lane].0) / 64;
                self.state.set_lane(lane, self.hash.words(), outer);
                self.aim_at_scratch(lane, Stage::Outer);
            }
            _ => {
                self.hash.write_digest(&state, &mut job.output);
                job.status = Status::Done;
                self.busy -= 1;
                self.take(lane);
            }
        }
    }

    /// Finishes the lane's message with a kernel for single messages.
    fn finish_alone(&mut self, lane: usize, compress: Compress) {
        while self.stage[lane] != Stage::Idle {
            let mut state = self.state.lane(lane);
            // SAFETY: the lane's row has that many blocks left, in its job's input or in its scratch.
            let rest = unsafe { core::slice::from_raw_parts(self.rows[lane], 64 * self.blocks_left[lane]) };
            compress(&mut state, rest);
            self.state.set_lane(lane, self.hash.words(), &state);
            self.advance(lane);
        }
    }
}
