//! Many messages through one lane kernel of a cipher, each with its own length, key and IV.
//!
//! Lanes advance together by chunks of 64 bytes. A lane's message is its whole chunks, then a tail that runs in a
//! scratch chunk. All lanes run until the shortest stretch ends; the lanes that ended go on with their next stretch,
//! and a lane whose message is done takes the next message. A lane without work processes its own scratch chunk,
//! again and again. When so few lanes are busy that single messages are faster, the rests of their messages are
//! handed over.
//!
//! `unsafe`: kernels take raw lane pointers, made here from the jobs' buffers.
#![allow(unsafe_code)]

use core::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

use crate::isa::Isa;
use crate::job::{CipherJob, Status};
use crate::schedule::Schedule;
use crate::wipe::wipe;

/// Bytes by which lanes advance.
pub(crate) const CHUNK: usize = 64;

/// The places at which each of `L` lanes reads and writes.
#[repr(align(64))]
pub(crate) struct Rows<const L: usize> {
    pub(crate) source: [*const u8; L],
    pub(crate) destination: [*mut u8; L],
    step: [usize; L],
}

impl<const L: usize> Rows<L> {
    /// Moves every lane to its next chunk.
    #[inline(always)]
    pub(crate) fn advance(&mut self) {
        // These are sums of integers, because the compiler vectorises these and not sums of pointers.
        for (source, step) in self.source.iter_mut().zip(&self.step) {
            *source = with_exposed_provenance(source.expose_provenance().wrapping_add(*step));
        }
        for (destination, step) in self.destination.iter_mut().zip(&self.step) {
            *destination = with_exposed_provenance_mut(destination.expose_provenance().wrapping_add(*step));
        }
    }
}

/// Runs one message alone, in place, from an IV.
pub(crate) type Alone<'f> = dyn Fn(&Schedule, &[u8; 16], &mut [u8]) + 'f;

/// The condition under which lanes stop paying, and the function that takes over.
pub(crate) struct HandOver<'f> {
    /// With at most this many lanes busy and no jobs waiting, the rests of their messages run one by one ...
    pub(crate) few: usize,
    /// ... by this.
    pub(crate) alone: &'f Alone<'f>,
}

#[cfg(target_arch = "x86_64")]
impl HandOver<'_> {
    /// Returns whether lanes run to the end: if the batch tier is forced, its kernels do all the work.
    pub(crate) fn is_never(&self) -> bool {
        self.few == 0
    }

    /// Returns the rule for lanes that stop paying at `few`, unless they run to the end.
    pub(crate) fn at(&self, few: usize) -> Self {
        Self { few: if self.is_never() { 0 } else { few }, alone: self.alone }
    }
}

/// A kernel with `L` lanes, for one cipher, mode and direction; `'k` is the lifetime of the keys.
pub(crate) trait LaneKernel<'k, const L: usize> {
    /// Prepares a lane for a message under `key`.
    fn set(&mut self, lane: usize, key: &'k Schedule, iv: &[u8; 16]);

    /// Runs `chunks` chunks of every lane, advancing the rows after each.
    ///
    /// # Safety
    /// The CPU has the kernel's features. Each lane may read and write that many chunks along its row; source and
    /// destination of a lane are equal or disjoint, and no two lanes write the same bytes.
    unsafe fn crypt_chunks(&mut self, rows: &mut Rows<L>, chunks: usize);

    /// Transforms the rest of a lane's message in place; block ciphers leave it to `alone`, which continues the
    /// chain.
    fn finish(&mut self, lane: usize, key: &'k Schedule, rest: &mut [u8], alone: &Alone<'_>);
}

/// A kernel that interleaves a few messages in ordinary code.
pub(crate) trait Interleaved<'k, const L: usize> {
    /// See [`LaneKernel::set`].
    fn set(&mut self, lane: usize, key: &'k Schedule, iv: &[u8; 16]);

    /// Transforms one chunk of every lane.
    fn chunk(&mut self, data: &mut [[u8; CHUNK]; L]);

    /// See [`LaneKernel::finish`].
    fn finish(&mut self, lane: usize, key: &'k Schedule, rest: &mut [u8], alone: &Alone<'_>);
}

/// An interleaved kernel as a lane kernel.
pub(crate) struct Interleave<K>(pub(crate) K);

impl<'k, const L: usize, K: Interleaved<'k, L>> LaneKernel<'k, L> for Interleave<K> {
    fn set(&mut self, lane: usize, key: &'k Schedule, iv: &[u8; 16]) {
        self.0.set(lane, key, iv);
    }

    /// # Safety
    /// The contract of [`LaneKernel::crypt_chunks`]; no features are needed.
    unsafe fn crypt_chunks(&mut self, rows: &mut Rows<L>, chunks: usize) {
        let mut data = [[0; CHUNK]; L];
        for _ in 0..chunks {
            for (data, source) in data.iter_mut().zip(&rows.source) {
                // SAFETY: the trait's contract: each row has a chunk to read, with any alignment.
                *data = unsafe { source.cast::<[u8; CHUNK]>().read() };
            }
            self.0.chunk(&mut data);
            for (data, destination) in data.iter().zip(&rows.destination) {
                // SAFETY: the trait's contract: each row has a chunk to write, and no other row's bytes are
                // among them.
                unsafe { destination.cast::<[u8; CHUNK]>().write(*data) };
            }
            rows.advance();
        }
    }

    fn finish(&mut self, lane: usize, key: &'k Schedule, rest: &mut [u8], alone: &Alone<'_>) {
        self.0.finish(lane, key, rest, alone);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The lane runs the whole chunks of the message.
    Body,
    /// The tail is done, in scratch.
    Tail,
    /// The lane has no work.
    Idle,
}

/// The data that kernels read come first, so that no vector of them crosses a cache line.
#[repr(C, align(64))]
struct Scheduler<'j, 'a, const L: usize> {
    rows: Rows<L>,
    scratch: [[u8; CHUNK]; L],
    chunks_left: [usize; L],
    job_of: [u16; L],
    stage: [Stage; L],
    jobs: &'j mut [CipherJob<'a>],
    order: &'j [u16],
    taken: usize,
    busy: usize,
}

/// Returns whether all jobs have the same key.
pub(crate) fn one_key(jobs: &[CipherJob<'_>], order: &[u16]) -> bool {
    let mut keys = order.iter().map(|&index| jobs[usize::from(index)].key);
    let first = keys.next();
    keys.all(|key| first.is_some_and(|first| core::ptr::eq(key, first)))
}

/// Lengths in the order of `order`.
pub(crate) fn lengths(jobs: &[CipherJob<'_>], order: &[u16]) -> impl ExactSizeIterator<Item = usize> {
    order.iter().map(|&index| jobs[usize::from(index)].data.len())
}

/// Returns whether few lanes are faster than many, whose step takes longer by a given ratio: for few jobs, or if a
/// few long ones would leave lanes empty.
pub(crate) fn few_lanes_do(
    jobs: &[CipherJob<'_>],
    order: &[u16],
    few: usize,
    many: usize,
    ratio: (usize, usize),
) -> bool {
    let chunks = |bytes: usize| bytes.div_ceil(CHUNK);
    let longest = lengths(jobs, order).next().map_or(0, chunks);
    let all = lengths(jobs, order).fold(0usize, |all, bytes| all.saturating_add(chunks(bytes)));
    ratio.1 * longest.max(all.div_ceil(few)) < ratio.0 * longest.max(all.div_ceil(many))
}

/// Selects among measurements of kernels of one, two and four vectors the one for the kernel that takes `count` jobs;
/// `lanes` is the width of an AVX-512 vector, and an AVX2 vector has half of it. Returns `None` without vectors.
pub(crate) fn by_width(isa: Isa, count: usize, lanes: usize, of: [u32; 3]) -> Option<u32> {
    let lanes = match isa {
        Isa::Portable => return None,
        Isa::Avx2 => lanes / 2,
        Isa::Avx512 => lanes,
    };
    Some(of[usize::from(count > lanes) + usize::from(count > 2 * lanes)])
}

/// Runs the jobs that `order` lists; their keys belong to the kernel's cipher, and their lengths are valid.
pub(crate) fn run_jobs<'k, const L: usize>(
    kernel: &mut impl LaneKernel<'k, L>,
    jobs: &mut [CipherJob<'k>],
    order: &[u16],
    hand_over: &HandOver<'_>,
) {
    let mut scheduler = Scheduler {
        jobs,
        order,
        taken: 0,
        busy: 0,
        rows: Rows { source: [core::ptr::null(); L], destination: [core::ptr::null_mut(); L], step: [0; L] },
        chunks_left: [0; L],
        job_of: [0; L],
        stage: [Stage::Idle; L],
        scratch: [[0; CHUNK]; L],
    };
    scheduler.run_all(kernel, hand_over);
    wipe(&mut scheduler.scratch, [0; CHUNK]);
}

impl<'a, const L: usize> Scheduler<'_, 'a, L> {
    fn run_all(&mut self, kernel: &mut impl LaneKernel<'a, L>, hand_over: &HandOver<'_>) {
        for lane in 0..L {
            self.take(lane, kernel);
        }
        loop {
            let mut shortest = usize::MAX;
            for lane in 0..L {
                if self.stage[lane] != Stage::Idle {
                    if self.chunks_left[lane] == 0 {
                        self.advance(lane, kernel);
                    }
                    shortest = shortest.min(self.chunks_left[lane]);
                }
            }
            if self.busy == 0 {
                return;
            }
            if self.busy <= hand_over.few && self.taken == self.order.len() {
                return self.finish_alone(kernel, hand_over.alone);
            }
            // SAFETY: the kernel was made under its token. A busy lane has at least `shortest` chunks left, in its
            // job's buffer or (one) in its scratch; an idle one stays on its scratch with step 0. Buffers of
            // different jobs are disjoint, as their borrows show.
            unsafe { kernel.crypt_chunks(&mut self.rows, shortest) };
            for left in &mut self.chunks_left {
                *left = left.wrapping_sub(shortest);
            }
        }
    }

    /// Gives the lane the next job, or leaves it idle on its scratch.
    fn take(&mut self, lane: usize, kernel: &mut impl LaneKernel<'a, L>) {
        if let Some(&index) = self.order.get(self.taken) {
            let job = &self.jobs[usize::from(index)];
            self.taken += 1;
            self.busy += 1;
            self.job_of[lane] = index;
            kernel.set(lane, job.key.schedule(), &job.iv);
            self.rows.source[lane] = job.data.source();
            self.rows.destination[lane] = job.data.destination();
            self.rows.step[lane] = CHUNK;
            self.chunks_left[lane] = job.data.len() / CHUNK;
            self.stage[lane] = Stage::Body;
            if self.chunks_left[lane] == 0 {
                self.advance(lane, kernel);
            }
        } else {
            self.stage[lane] = Stage::Idle;
            self.chunks_left[lane] = usize::MAX;
            self.aim_at_scratch(lane);
        }
    }

    fn aim_at_scratch(&mut self, lane: usize) {
        let scratch = self.scratch[lane].as_mut_ptr();
        self.rows.source[lane] = scratch;
        self.rows.destination[lane] = scratch;
        self.rows.step[lane] = 0;
    }

    /// Moves a lane whose stretch has ended to its tail, or to the next job that has bytes.
    fn advance(&mut self, lane: usize, kernel: &mut impl LaneKernel<'a, L>) {
        let job = &mut self.jobs[usize::from(self.job_of[lane])];
        let bytes = job.data.len();
        let (whole, tail) = (bytes & !(CHUNK - 1), bytes % CHUNK);
        if self.stage[lane] == Stage::Body && tail != 0 {
            // SAFETY: the tail lies within the buffer; the scratch is larger.
            unsafe {
                let from = job.data.source().add(whole);
                core::ptr::copy_nonoverlapping(from, self.scratch[lane].as_mut_ptr(), tail);
            }
            self.stage[lane] = Stage::Tail;
            self.chunks_left[lane] = 1;
            self.aim_at_scratch(lane);
            return;
        }
        if self.stage[lane] == Stage::Tail {
            // SAFETY: the tail lies within the buffer; the scratch is larger, and no part of the buffer.
            unsafe {
                let to = job.data.destination().add(whole);
                core::ptr::copy_nonoverlapping(self.scratch[lane].as_ptr(), to, tail);
            }
        }
        job.status = Status::Done;
        self.busy -= 1;
        self.take(lane, kernel);
    }

    /// Finishes every busy lane's message without the lanes.
    fn finish_alone(&mut self, kernel: &mut impl LaneKernel<'a, L>, alone: &Alone<'_>) {
        for lane in 0..L {
            if self.stage[lane] == Stage::Idle {
                continue;
            }
            let job = &mut self.jobs[usize::from(self.job_of[lane])];
            let whole = job.data.len() / CHUNK;
            // A tail in scratch has not run yet.
            let left = if self.stage[lane] == Stage::Body { self.chunks_left[lane] } else { 0 };
            kernel.finish(
                lane,
                job.key.schedule(),
                job.data.copied_in_place_from((whole - left) * CHUNK),
                alone,
            );
            job.status = Status::Done;
        }
    }
}
