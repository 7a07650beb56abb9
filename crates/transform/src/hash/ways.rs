//! Many messages through one multi-way kernel, each with its own length and key.
//!
//! Every way reads its message's whole blocks in place, then one or two padded blocks in a scratch buffer; the
//! kernel itself switches from one to the other. All ways run until the shortest message ends, and a way whose
//! message is done takes the next one. Jobs come sorted by length (see [`crate::order`]), so ways end together when
//! lengths repeat. When there are no more jobs, the last busy way's message moves to a way that is done, so busy
//! ways are always the first ones; as they become fewer, narrower kernels take over. A way without work reads the
//! same bytes as the first. HMAC's outer hashes are one block each, and its words are available already: they wait
//! until they fill the ways of a kernel of their own.
//!
//! `unsafe`: kernels take raw pointers of ways, made here from the jobs' slices.
#![allow(unsafe_code)]

use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::ops::Range;

use super::{Compress, Hash};
use crate::job::{DigestJob, Status};
use crate::key::Keyed;
use crate::simd::Words;

/// Ways of the widest kernel.
pub(crate) const MAX_WAYS: usize = 64;

/// The places at which each way reads.
#[repr(align(64))]
pub(crate) struct Rows {
    /// The next block ...
    pub(crate) next: [*const u8; MAX_WAYS],
    /// ... until it reaches this, the end of the bytes read in place ...
    in_place_end: [*const u8; MAX_WAYS],
    /// ... and is this instead.
    padded: [*const u8; MAX_WAYS],
}

impl Rows {
    pub(super) const NOWHERE: Self = Self {
        next: [core::ptr::null(); MAX_WAYS],
        in_place_end: [core::ptr::null(); MAX_WAYS],
        padded: [core::ptr::null(); MAX_WAYS],
    };

    /// Returns how many of the next `blocks` blocks every one of these ways has in one piece.
    #[inline(always)]
    pub(crate) fn straight(&self, ways: Range<usize>, blocks: usize) -> usize {
        let rows = self.next[ways.clone()].iter().zip(&self.in_place_end[ways]);
        // For a way past its message this wraps, or is a distance that only shortens the piece.
        let further =
            |(next, end): (&*const u8, &*const u8)| end.addr().wrapping_sub(next.addr()).wrapping_sub(64);
        blocks.min(rows.map(further).fold(usize::MAX, usize::min) / 64 + 1)
    }

    /// Advances by `blocks`, which are in one piece.
    #[inline(always)]
    pub(crate) fn advance(&mut self, ways: Range<usize>, blocks: usize) {
        let ends = self.in_place_end[ways.clone()].iter().zip(&self.padded[ways.clone()]);
        for (next, (end, padded)) in self.next[ways].iter_mut().zip(ends) {
            let following = next.wrapping_add(64 * blocks);
            *next = if following == *end { *padded } else { following };
        }
    }

    /// Makes a way read the bytes of another one.
    fn follow(&mut self, way: usize, other: usize) {
        self.next[way] = self.next[other];
        self.in_place_end[way] = self.in_place_end[other];
        self.padded[way] = self.padded[other];
    }
}

/// Hash states, word by word across ways.
#[repr(align(64))]
pub(crate) struct WaysState(pub(super) [[u32; MAX_WAYS]; 8]);

impl WaysState {
    /// Returns the first `N` words of `G` groups of ways.
    ///
    /// # Safety
    /// `G * V::WAYS` is at most [`MAX_WAYS`], and the CPU has the features of `V`.
    #[inline(always)]
    pub(crate) unsafe fn read<V: Words, const N: usize, const G: usize>(&self) -> [[V; G]; N] {
        let mut words = [[V::splat(0); G]; N];
        for (word, row) in words.iter_mut().zip(&self.0) {
            for (n, group) in word.iter_mut().enumerate() {
                // SAFETY: the contract: group n lies within the row of MAX_WAYS words.
                *group = unsafe { V::load(row.as_ptr().add(n * V::WAYS)) };
            }
        }
        words
    }

    /// Writes the words of groups of ways, the inverse of [`Self::read`].
    ///
    /// # Safety
    /// `G * V::WAYS` is at most [`MAX_WAYS`], and the CPU has the features of `V`.
    #[inline(always)]
    pub(crate) unsafe fn write<V: Words, const N: usize, const G: usize>(&mut self, words: &[[V; G]; N]) {
        for (word, row) in words.iter().zip(&mut self.0) {
            for (n, group) in word.iter().enumerate() {
                // SAFETY: the contract: group n lies within the row of MAX_WAYS words.
                unsafe { group.store(row.as_mut_ptr().add(n * V::WAYS)) };
            }
        }
    }

    #[inline(always)]
    pub(crate) fn way(&self, way: usize) -> [u32; 8] {
        core::array::from_fn(|word| self.0[word][way])
    }

    #[inline(always)]
    pub(crate) fn set_way(&mut self, way: usize, words: usize, state: &[u32; 8]) {
        for (row, word) in self.0[..words].iter_mut().zip(state) {
            row[way] = *word;
        }
    }
}

/// Absorbs that many blocks of every way.
///
/// # Safety
/// The CPU has the kernel's features; the rows of all ways are readable that far.
pub(crate) type Absorb = unsafe fn(&mut WaysState, &mut Rows, usize);

/// Computes HMACs of every way's inner digest, from the pointers to states after the outer key blocks.
///
/// # Safety
/// The CPU has the kernel's features; every way has eight readable words there, and 32 writable bytes for its HMAC.
pub(crate) type Outer = unsafe fn(&WaysState, &[*const u8; MAX_WAYS], &[*mut u8; MAX_WAYS]);

/// A multi-way kernel.
#[derive(Clone, Copy)]
pub(crate) struct Width {
    /// Messages that run side by side.
    pub(crate) ways: usize,
    pub(crate) absorb: Absorb,
    pub(crate) outer: Outer,
}

/// The multi-way kernels of a hash, and the number of ways at which they stop paying.
#[derive(Clone, Copy)]
pub(crate) struct Kernel {
    /// Narrowest first.
    pub(crate) widths: &'static [Width],
    /// With at most this many ways left and no further jobs, messages finish one by one ...
    pub(crate) few: usize,
    /// ... with this.
    pub(crate) alone: Compress,
    pub(crate) drive: Drive,
}

impl Kernel {
    /// Runs the jobs that `order` lists; their keys belong to the kernel's hash, all with HMAC or all without.
    pub(crate) fn digest_jobs(&self, jobs: &mut [DigestJob<'_>], order: &[u16]) {
        // SAFETY: the kernel was chosen under its token.
        unsafe { (self.drive)(self, jobs, order) }
    }

    /// Returns the narrowest kernel that has ways for that many messages, or the widest one.
    pub(super) fn width(&self, messages: usize) -> Width {
        let widest = self.widths.len() - 1;
        self.widths[self.widths[..widest].iter().take_while(|width| width.ways < messages).count()]
    }
}

/// The rounds of a hash over vectors, with `N` words of state.
pub(crate) trait Rounds<const N: usize> {
    /// The hash to which the rounds belong.
    const HASH: &'static Hash;

    /// Runs the rounds of one block of each way in `G` groups of ways. The block's words are loaded into `x` if
    /// `LOADS`; otherwise they are there already.
    ///
    /// # Safety
    /// If `LOADS`, `rows` has `G * V::WAYS` pointers, with 64 readable bytes at each plus `offset`, with any
    /// alignment; otherwise `rows` is not read, and may be null. The CPU has the features of `V`.
    unsafe fn block<V: Words, const G: usize, const LOADS: bool>(
        state: &mut [[V; G]; N],
        x: &mut [[V; 16]; G],
        rows: *const *const u8,
        offset: usize,
    );

    /// Turns a little-endian word into a word of the hash, and back.
    #[inline(always)]
    fn native<V: Words>(word: V) -> V {
        if Self::HASH.is_little_endian { word } else { word.swap_bytes() }
    }
}

/// Loads eight words of each way's block, from `first` on. Rounds that load the second half only when they reach it
/// leave the transposition to execution units that would be idle.
///
/// # Safety
/// `rows` has `G * V::WAYS` pointers, with 32 readable bytes at each plus `offset` plus four times `first`,
/// with any alignment. The CPU has the features of `V`.
#[inline(always)]
pub(crate) unsafe fn load_half<R: Rounds<N>, V: Words, const N: usize, const G: usize>(
    x: &mut [[V; 16]; G],
    first: usize,
    rows: *const *const u8,
    offset: usize,
) {
    for (n, x) in x.iter_mut().enumerate() {
        // SAFETY: the contract: WAYS rows from n * WAYS on, with 32 bytes there.
        let half = unsafe { V::load_half_rows(rows.add(n * V::WAYS), offset + 4 * first) };
        for (x, word) in x[first..].iter_mut().zip(half) {
            *x = R::native(word);
        }
    }
}

/// Absorbs one block of each way.
///
/// # Safety
/// The contract is that of [`Rounds::block`].
#[inline(always)]
unsafe fn compress<R: Rounds<N>, V: Words, const N: usize, const G: usize, const LOADS: bool>(
    state: &mut [[V; G]; N],
    x: &mut [[V; 16]; G],
    rows: *const *const u8,
    offset: usize,
) {
    let old = *state;
    // SAFETY: the contract is that of `block`.
    unsafe { R::block::<V, G, LOADS>(state, x, rows, offset) };
    for (word, old) in state.iter_mut().zip(old) {
        for (word, old) in word.iter_mut().zip(old) {
            *word = word.add(old);
        }
    }
}

/// Absorbs whole blocks of one message.
pub(crate) fn one<R: Rounds<N>, const N: usize>(state: &mut [u32; 8], data: &[u8]) {
    let mut s: [[u32; 1]; N] = core::array::from_fn(|i| [state[i]]);
    let mut x = [[0; 16]];
    for block in data.as_chunks::<64>().0 {
        // SAFETY: one row of one block.
        unsafe { compress::<R, u32, N, 1, true>(&mut s, &mut x, &block.as_ptr(), 0) };
    }
    for (word, [value]) in state.iter_mut().zip(s) {
        *word = value;
    }
}

/// See [`Absorb`].
///
/// # Safety
/// The contract of [`Absorb`], for the first `G * V::WAYS` ways, at most [`MAX_WAYS`]: `blocks` blocks of
/// 64 bytes of each are readable along its row. The CPU has the features of `V`.
#[inline(always)]
pub(crate) unsafe fn absorb<R: Rounds<N>, V: Words, const N: usize, const G: usize>(
    state: &mut WaysState,
    rows: &mut Rows,
    blocks: usize,
) {
    // SAFETY: the contract of Absorb: the rows are readable for so many blocks; no kernel has more than
    // MAX_WAYS ways.
    unsafe {
        let mut s = state.read::<V, N, G>();
        // The array is outside the loop, because clearing it there would call memset for every block.
        let mut x = [[V::splat(0); 16]; G];
        let mut left = blocks;
        while left > 0 {
            let straight = rows.straight(0..G * V::WAYS, left);
            for block in 0..straight {
                compress::<R, V, N, G, true>(&mut s, &mut x, rows.next.as_ptr(), 64 * block);
            }
            rows.advance(0..G * V::WAYS, straight);
            left -= straight;
        }
        state.write(&s);
    }
}

/// See [`Outer`].
///
/// # Safety
/// The contract of [`Outer`], for the first `G * V::WAYS` ways, at most [`MAX_WAYS`]: 32 bytes at each of
/// `states` are readable, and 32 at each of `outputs` are writable, with any alignment. The CPU has the
/// features of `V`.
#[inline(always)]
pub(crate) unsafe fn outer<R: Rounds<N>, V: Words, const N: usize, const G: usize>(
    digests: &WaysState,
    states: &[*const u8; MAX_WAYS],
    outputs: &[*mut u8; MAX_WAYS],
) {
    let mut s = [[V::splat(0); G]; N];
    let mut x = [[V::splat(0); 16]; G];
    // SAFETY: the contract of Outer: 32 bytes at both places of each way; no kernel has more than MAX_WAYS
    // ways.
    unsafe {
        for (word, groups) in digests.read::<V, N, G>().into_iter().enumerate() {
            for (n, group) in groups.into_iter().enumerate() {
                x[n][word] = group;
            }
        }
        for (n, x) in x.iter_mut().enumerate() {
            x[N] = V::splat(if R::HASH.is_little_endian { 0x80 } else { 0x80 << 24 });
            x[if R::HASH.is_little_endian { 14 } else { 15 }] = V::splat(8 * (64 + 4 * N as u32));
            let words = V::load_half_rows(states.as_ptr().add(n * V::WAYS), 0);
            for (s, word) in s.iter_mut().zip(words) {
                s[n] = word;
            }
        }
        compress::<R, V, N, G, false>(&mut s, &mut x, core::ptr::null(), 0);
        for n in 0..G {
            let mut words = [V::splat(0); 8];
            for (word, s) in words.iter_mut().zip(&s) {
                *word = R::native(s[n]);
            }
            V::store_half_rows(words, outputs.as_ptr().add(n * V::WAYS), 0);
        }
    }
}

/// Defines `#[target_feature]` instances of a hash side by side, with vectors and a number of groups of them.
macro_rules! ways_kernels {
    ($rounds:ident: $($name:ident = $features:literal, $vector:ty, $groups:literal;)*) => { $(
        #[cfg(target_arch = "x86_64")]
        pub(crate) mod $name {
            use $crate::hash::ways::{self, WaysState, MAX_WAYS, Rows, Width};
            use $crate::simd::Words;

            pub(crate) const WIDTH: Width = Width { ways: $groups * <$vector>::WAYS, absorb, outer };

            /// # Safety
            /// The contract of [`ways::Absorb`], for as many ways as [`WIDTH`] has; the CPU has the
            /// features named here.
            #[target_feature(enable = $features)]
            unsafe fn absorb(state: &mut WaysState, rows: &mut Rows, blocks: usize) {
                // An aligned variable makes the frame aligned, so that spilled vectors lie in one cache line each.
                core::hint::black_box(&<$vector>::splat(0));
                // SAFETY: the contract of this function is that of Absorb, and it has the vector's features.
                unsafe { ways::absorb::<super::$rounds, $vector, _, $groups>(state, rows, blocks) }
            }

            /// # Safety
            /// The contract of [`ways::Outer`], for as many ways as [`WIDTH`] has; the CPU has the
            /// features named here.
            #[target_feature(enable = $features)]
            unsafe fn outer(
                digests: &WaysState,
                states: &[*const u8; MAX_WAYS],
                outputs: &[*mut u8; MAX_WAYS],
            ) {
                core::hint::black_box(&<$vector>::splat(0));
                // SAFETY: the contract of this function is that of Outer, and it has the vector's features.
                unsafe { ways::outer::<super::$rounds, $vector, _, $groups>(digests, states, outputs) }
            }
        }
    )* };
}
pub(crate) use ways_kernels;

/// The end of a way's message; it is aligned, so that no load crosses a cache line.
#[repr(align(64))]
struct Scratch([u8; 128]);

/// Inner digests of HMAC.
struct Waiting {
    count: usize,
    digests: WaysState,
    job_of: [u16; MAX_WAYS],
}

/// The jobs of a hash.
struct Ways<'j, 'a, R, const WORDS: usize> {
    jobs: &'j mut [DigestJob<'a>],
    /// Jobs not yet taken.
    order: core::slice::Iter<'j, u16>,
    /// Number of ways that have a message; they are the first ones.
    busy: usize,
    /// Blocks that every way has absorbed.
    absorbed: usize,
    /// Number of blocks after which the way's message ends.
    end: [usize; MAX_WAYS],
    job_of: [u16; MAX_WAYS],
    state: WaysState,
    rows: Rows,
    scratch: [MaybeUninit<Scratch>; MAX_WAYS],
    /// It is `None` for keys without HMAC, so that small batches need not pay for clearing it.
    waiting: Option<Waiting>,
    rounds: PhantomData<R>,
}

/// See [`Kernel::digest_jobs`].
///
/// # Safety
/// The CPU has the kernel's features.
pub(crate) type Drive = unsafe fn(&Kernel, &mut [DigestJob<'_>], &[u16]);

/// See [`Drive`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi1,bmi2")]
pub(crate) fn drive_avx512<R: Rounds<N>, const N: usize>(
    kernel: &Kernel,
    jobs: &mut [DigestJob<'_>],
    order: &[u16],
) {
    Ways::<R, N>::new(jobs, order).digest_all(kernel);
}

/// See [`Drive`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2")]
pub(crate) fn drive_avx2<R: Rounds<N>, const N: usize>(
    kernel: &Kernel,
    jobs: &mut [DigestJob<'_>],
    order: &[u16],
) {
    Ways::<R, N>::new(jobs, order).digest_all(kernel);
}

impl<'j, 'a, R: Rounds<WORDS>, const WORDS: usize> Ways<'j, 'a, R, WORDS> {
    #[inline(always)]
    fn new(jobs: &'j mut [DigestJob<'a>], order: &'j [u16]) -> Self {
        const NO_STATE: WaysState = WaysState([[0; MAX_WAYS]; 8]);
        let first = order.first().map(|&first| jobs[usize::from(first)].key.keyed());
        let keyed = matches!(first, Some(Keyed::Hmac { .. }));
        Self {
            jobs,
            order: order.iter(),
            busy: 0,
            absorbed: 0,
            end: [0; MAX_WAYS],
            job_of: [0; MAX_WAYS],
            state: NO_STATE,
            rows: Rows::NOWHERE,
            scratch: [const { MaybeUninit::uninit() }; MAX_WAYS],
            waiting: keyed.then_some(Waiting { count: 0, digests: NO_STATE, job_of: [0; MAX_WAYS] }),
            rounds: PhantomData,
        }
    }

    #[inline(always)]
    fn digest_all(&mut self, kernel: &Kernel) {
        // Up to `few` - 1 messages more than a kernel has ways need no wider kernel.
        let widest = kernel.width(self.order.len().saturating_sub(kernel.few.saturating_sub(1)));
        while self.busy < widest.ways && self.take(self.busy, None) {
            self.busy += 1;
        }
        while self.busy > kernel.few || !self.order.as_slice().is_empty() {
            let width = kernel.width(self.busy);
            for way in self.busy..width.ways {
                self.rows.follow(way, 0);
            }
            let next_end = self.end[..self.busy].iter().fold(usize::MAX, |a, &b| a.min(b));
            // SAFETY: the kernel was chosen under its token; every busy way has at least so many blocks in its row,
            // and idle ways share the row of the first, which is busy. Further ways are not read.
            unsafe { (width.absorb)(&mut self.state, &mut self.rows, next_end - self.absorbed) };
            self.absorbed = next_end;
            // The loop runs backwards, because a way that gets the last one's message must not be visited again.
            for way in (0..self.busy).rev() {
                if self.end[way] == next_end {
                    let before = self.jobs[usize::from(self.job_of[way])].input.len();
                    self.finish(way, kernel);
                    if !self.take(way, Some(before)) {
                        self.close(way);
                    }
                }
            }
        }
        for way in 0..self.busy {
            self.finish_alone(way, kernel);
        }
        self.release(kernel);
    }

    /// Gives the way the next job, if there is one, and lays out the end of its message. `before` is the length of
    /// the way's previous message.
    #[inline(always)]
    fn take(&mut self, way: usize, before: Option<usize>) -> bool {
        let Some(&index) = self.order.next() else { return false };
        let job = &self.jobs[usize::from(index)];
        let (mut initial, mut message_bytes) = (&R::HASH.initial, job.input.len() as u64);
        if self.waiting.is_some()
            && let Keyed::Hmac { inner, .. } = job.key.keyed()
        {
            initial = inner;
            message_bytes += 64;
        }
        self.state.set_way(way, WORDS, initial);
        let message = job.input;
        let in_place = message.len() & !63;
        let tail = &message[in_place..];
        // After whole blocks the end depends on their number only, and it is still there.
        let padded_bytes = if tail.is_empty() && before == Some(in_place) {
            64
        } else {
            R::HASH.pad(tail, message_bytes, &mut self.scratch[way].write(Scratch([0; 128])).0)
        };
        let scratch = self.scratch[way].as_ptr().cast();
        self.rows.next[way] = if in_place == 0 { scratch } else { message.as_ptr() };
        self.rows.in_place_end[way] = tail.as_ptr();
        self.rows.padded[way] = scratch;
        self.end[way] = self.absorbed + (in_place + padded_bytes) / 64;
        self.job_of[way] = index;
        true
    }

    /// Moves the last message into a way that has none.
    #[inline(always)]
    fn close(&mut self, way: usize) {
        self.busy -= 1;
        let last = self.busy;
        if way == last {
            return;
        }
        self.state.set_way(way, WORDS, &self.state.way(last));
        self.rows.follow(way, last);
        self.end[way] = self.end[last];
        self.job_of[way] = self.job_of[last];
    }

    /// Gives the job its digest, or queues it for its outer hash.
    #[inline(always)]
    fn finish(&mut self, way: usize, kernel: &Kernel) {
        let index = self.job_of[way];
        let Some(waiting) = &mut self.waiting else {
            let job = &mut self.jobs[usize::from(index)];
            R::HASH.write_digest(&self.state.way(way), &mut job.output);
            job.status = Status::Done;
            return;
        };
        waiting.digests.set_way(waiting.count, WORDS, &self.state.way(way));
        waiting.job_of[waiting.count] = index;
        waiting.count += 1;
        if waiting.count == kernel.widths[kernel.widths.len() - 1].ways {
            self.release(kernel);
        }
    }

    /// Computes the outer hashes of the queued jobs.
    fn release(&mut self, kernel: &Kernel) {
        let Some(waiting) = &mut self.waiting else { return };
        let count = core::mem::take(&mut waiting.count);
        if count <= kernel.few {
            for way in 0..count {
                let job = &mut self.jobs[usize::from(waiting.job_of[way])];
                let Keyed::Hmac { outer, .. } = job.key.keyed() else { continue };
                let (mut state, mut digest) = (*outer, [0; 32]);
                R::HASH.write_digest(&waiting.digests.way(way), &mut digest);
                R::HASH.finish(kernel.alone, &mut state, 64, &digest[..4 * WORDS]);
                R::HASH.write_digest(&state, &mut job.output);
                job.status = Status::Done;
            }
            return;
        }
        let width = kernel.width(count);
        let (mut states, mut outputs) = ([core::ptr::null(); MAX_WAYS], [core::ptr::null_mut(); MAX_WAYS]);
        let jobs = self.jobs.as_mut_ptr();
        for way in 0..width.ways {
            // Unused ways repeat the first one's work.
            let of = if way < count { way } else { 0 };
            if way != of {
                waiting.digests.set_way(way, WORDS, &waiting.digests.way(of));
            }
            // SAFETY: these jobs were taken by their index.
            let job = unsafe { &mut *jobs.add(usize::from(waiting.job_of[of])) };
            if let Keyed::Hmac { outer, .. } = job.key.keyed() {
                states[way] = outer.as_ptr().cast();
            }
            outputs[way] = job.output.as_mut_ptr();
            job.status = Status::Done;
        }
        // SAFETY: the kernel was chosen under its token; as all jobs of a run have keys of HMAC, its ways have the
        // states of theirs and their outputs.
        unsafe { (width.outer)(&waiting.digests, &states, &outputs) };
    }

    /// Finishes the way's message with a kernel for single messages.
    #[inline(always)]
    fn finish_alone(&mut self, way: usize, kernel: &Kernel) {
        let mut state = self.state.way(way);
        let mut left = self.end[way] - self.absorbed;
        while left > 0 {
            let straight = self.rows.straight(way..way + 1, left);
            // SAFETY: so many of the way's blocks lie there.
            let blocks = unsafe { core::slice::from_raw_parts(self.rows.next[way], 64 * straight) };
            (kernel.alone)(&mut state, blocks);
            self.rows.advance(way..way + 1, straight);
            left -= straight;
        }
        self.state.set_way(way, WORDS, &state);
        self.finish(way, kernel);
    }
}
