//! Many messages through one multi-way kernel of a cipher, each with its own length, key and IV.
//!
//! Ways advance together by chunks of 64 bytes. A way's message is its whole chunks, then a tail that runs in a
//! scratch chunk. All ways run until the shortest stretch ends; the ways that ended go on with their next stretch,
//! and a way whose message is done takes the next message. A way without work processes its own scratch chunk,
//! again and again. When so few ways are busy that single messages are faster, the rests of their messages are
//! handed over.
//!
//! `unsafe`: kernels take raw pointers of ways, made here from the jobs' buffers.
#![allow(unsafe_code)]

use core::ptr::{with_exposed_provenance, with_exposed_provenance_mut};

use crate::isa::Isa;
use crate::job::{CipherJob, Status};
use crate::schedule::Schedule;
use crate::wipe::wipe;

/// Bytes by which ways advance.
pub(crate) const CHUNK: usize = 64;

/// The places at which each of `L` ways reads and writes.
#[repr(align(64))]
pub(crate) struct Rows<const L: usize> {
    pub(crate) source: [*const u8; L],
    pub(crate) destination: [*mut u8; L],
    step: [usize; L],
}

impl<const L: usize> Rows<L> {
    /// Moves every way to its next chunk.
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

/// The condition under which ways stop paying, and the function that takes over.
pub(crate) struct HandOver<'f> {
    /// With at most this many ways busy and no jobs waiting, the rests of their messages run one by one ...
    pub(crate) few: usize,
    /// ... by this.
    pub(crate) alone: &'f Alone<'f>,
}

#[cfg(target_arch = "x86_64")]
impl HandOver<'_> {
    /// Returns whether ways run to the end: if the batch tier is forced, its kernels do all the work.
    pub(crate) fn is_never(&self) -> bool {
        self.few == 0
    }

    /// Returns the rule for ways that stop paying at `few`, unless they run to the end.
    pub(crate) fn at(&self, few: usize) -> Self {
        Self { few: if self.is_never() { 0 } else { few }, alone: self.alone }
    }
}

/// A kernel with `L` ways, for one cipher, mode and direction; `'k` is the lifetime of the keys.
pub(crate) trait WaysKernel<'k, const L: usize> {
    /// Prepares a way for a message under `key`.
    fn set(&mut self, way: usize, key: &'k Schedule, iv: &[u8; 16]);

    /// Runs `chunks` chunks of every way, advancing the rows after each.
    ///
    /// # Safety
    /// The CPU has the kernel's features. Each way may read and write that many chunks along its row; source and
    /// destination of a way are equal or disjoint, and no two ways write the same bytes.
    unsafe fn crypt_chunks(&mut self, rows: &mut Rows<L>, chunks: usize);

    /// Transforms the rest of a way's message in place; block ciphers leave it to `alone`, which continues the
    /// chain.
    fn finish(&mut self, way: usize, key: &'k Schedule, rest: &mut [u8], alone: &Alone<'_>);
}

/// A kernel that interleaves a few messages in ordinary code.
pub(crate) trait Interleaved<'k, const L: usize> {
    /// See [`WaysKernel::set`].
    fn set(&mut self, way: usize, key: &'k Schedule, iv: &[u8; 16]);

    /// Transforms one chunk of every way.
    fn chunk(&mut self, data: &mut [[u8; CHUNK]; L]);

    /// See [`WaysKernel::finish`].
    fn finish(&mut self, way: usize, key: &'k Schedule, rest: &mut [u8], alone: &Alone<'_>);
}

/// An interleaved kernel as a multi-way kernel.
pub(crate) struct Interleave<K>(pub(crate) K);

impl<'k, const L: usize, K: Interleaved<'k, L>> WaysKernel<'k, L> for Interleave<K> {
    fn set(&mut self, way: usize, key: &'k Schedule, iv: &[u8; 16]) {
        self.0.set(way, key, iv);
    }

    /// # Safety
    /// The contract of [`WaysKernel::crypt_chunks`]; no features are needed.
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

    fn finish(&mut self, way: usize, key: &'k Schedule, rest: &mut [u8], alone: &Alone<'_>) {
        self.0.finish(way, key, rest, alone);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The way runs the whole chunks of the message.
    Body,
    /// The tail is done, in scratch.
    Tail,
    /// The way has no work.
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

/// Returns whether few ways are faster than many, whose step takes longer by a given ratio: for few jobs, or if a
/// few long ones would leave ways empty.
pub(crate) fn few_ways_do(
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
/// `ways` is the width of an AVX-512 vector, and an AVX2 vector has half of it. Returns `None` without vectors.
pub(crate) fn by_width(isa: Isa, count: usize, ways: usize, of: [u32; 3]) -> Option<u32> {
    let ways = match isa {
        Isa::Portable => return None,
        Isa::Avx2 => ways / 2,
        Isa::Avx512 => ways,
    };
    Some(of[usize::from(count > ways) + usize::from(count > 2 * ways)])
}

/// Runs the jobs that `order` lists; their keys belong to the kernel's cipher, and their lengths are valid.
pub(crate) fn run_jobs<'k, const L: usize>(
    kernel: &mut impl WaysKernel<'k, L>,
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
    fn run_all(&mut self, kernel: &mut impl WaysKernel<'a, L>, hand_over: &HandOver<'_>) {
        for way in 0..L {
            self.take(way, kernel);
        }
        loop {
            let mut shortest = usize::MAX;
            for way in 0..L {
                if self.stage[way] != Stage::Idle {
                    if self.chunks_left[way] == 0 {
                        self.advance(way, kernel);
                    }
                    shortest = shortest.min(self.chunks_left[way]);
                }
            }
            if self.busy == 0 {
                return;
            }
            if self.busy <= hand_over.few && self.taken == self.order.len() {
                return self.finish_alone(kernel, hand_over.alone);
            }
            // SAFETY: the kernel was made under its token. A busy way has at least `shortest` chunks left, in its
            // job's buffer or (one) in its scratch; an idle one stays on its scratch with step 0. Buffers of
            // different jobs are disjoint, as their borrows show.
            unsafe { kernel.crypt_chunks(&mut self.rows, shortest) };
            for left in &mut self.chunks_left {
                *left = left.wrapping_sub(shortest);
            }
        }
    }

    /// Gives the way the next job, or leaves it idle on its scratch.
    fn take(&mut self, way: usize, kernel: &mut impl WaysKernel<'a, L>) {
        if let Some(&index) = self.order.get(self.taken) {
            let job = &self.jobs[usize::from(index)];
            self.taken += 1;
            self.busy += 1;
            self.job_of[way] = index;
            kernel.set(way, job.key.schedule(), &job.iv);
            self.rows.source[way] = job.data.source();
            self.rows.destination[way] = job.data.destination();
            self.rows.step[way] = CHUNK;
            self.chunks_left[way] = job.data.len() / CHUNK;
            self.stage[way] = Stage::Body;
            if self.chunks_left[way] == 0 {
                self.advance(way, kernel);
            }
        } else {
            self.stage[way] = Stage::Idle;
            self.chunks_left[way] = usize::MAX;
            self.aim_at_scratch(way);
        }
    }

    fn aim_at_scratch(&mut self, way: usize) {
        let scratch = self.scratch[way].as_mut_ptr();
        self.rows.source[way] = scratch;
        self.rows.destination[way] = scratch;
        self.rows.step[way] = 0;
    }

    /// Moves a way whose stretch has ended to its tail, or to the next job that has bytes.
    fn advance(&mut self, way: usize, kernel: &mut impl WaysKernel<'a, L>) {
        let job = &mut self.jobs[usize::from(self.job_of[way])];
        let bytes = job.data.len();
        let (whole, tail) = (bytes & !(CHUNK - 1), bytes % CHUNK);
        if self.stage[way] == Stage::Body && tail != 0 {
            // SAFETY: the tail lies within the buffer; the scratch is larger.
            unsafe {
                let from = job.data.source().add(whole);
                core::ptr::copy_nonoverlapping(from, self.scratch[way].as_mut_ptr(), tail);
            }
            self.stage[way] = Stage::Tail;
            self.chunks_left[way] = 1;
            self.aim_at_scratch(way);
            return;
        }
        if self.stage[way] == Stage::Tail {
            // SAFETY: the tail lies within the buffer; the scratch is larger, and no part of the buffer.
            unsafe {
                let to = job.data.destination().add(whole);
                core::ptr::copy_nonoverlapping(self.scratch[way].as_ptr(), to, tail);
            }
        }
        job.status = Status::Done;
        self.busy -= 1;
        self.take(way, kernel);
    }

    /// Finishes every busy way's message without the ways.
    fn finish_alone(&mut self, kernel: &mut impl WaysKernel<'a, L>, alone: &Alone<'_>) {
        for way in 0..L {
            if self.stage[way] == Stage::Idle {
                continue;
            }
            let job = &mut self.jobs[usize::from(self.job_of[way])];
            let whole = job.data.len() / CHUNK;
            // A tail in scratch has not run yet.
            let left = if self.stage[way] == Stage::Body { self.chunks_left[way] } else { 0 };
            kernel.finish(
                way,
                job.key.schedule(),
                job.data.copied_in_place_from((whole - left) * CHUNK),
                alone,
            );
            job.status = Status::Done;
        }
    }
}
