//! CCM of many messages, each with its own key, nonce and lengths: their chains 32 at once by VAES or 8 by AES-NI,
//! and their streams one after the other. Constant time.
//!
//! A chain waits for every block, and counter mode for none; so ways are for the chains alone. Ways advance together
//! until one of them ends a stretch (head, associated data, data, mask); a way whose message is done takes the next
//! one, and one without work reads the same block again and again.
//!
//! `unsafe`: ways read by raw pointers, made here from the jobs' buffers and slices.
#![allow(unsafe_code)]

use core::ptr::with_exposed_provenance;

use super::format::{associated, behind_first, counter_block, first_block, padded};
use super::{Key, alone};
use crate::aead::AeadJob;
use crate::aes::ni;
use crate::aes::vector::{Four, One};
use crate::aes::ways::{Chains, GROUPS};
use crate::gcm::vector::Field;
use crate::isa::{Avx2, Features};
use crate::job::Status;
use crate::modes::{self, Direction};
use crate::order::by_length;
use crate::wipe::wipe;

/// Messages that are taken together: more would leave the caches between their stream and their chain.
const WINDOW: usize = 128;

/// The places at which each of `L` ways reads a block, and the bytes to its next one.
#[repr(align(64))]
struct Sources<const L: usize> {
    rows: [*const u8; L],
    steps: [usize; L],
}

impl<const L: usize> Sources<L> {
    /// Moves every way to its next block.
    #[inline(always)]
    fn advance(&mut self) {
        for (row, step) in self.rows.iter_mut().zip(&self.steps) {
            *row = with_exposed_provenance(row.expose_provenance().wrapping_add(*step));
        }
    }
}

/// Stretches of a message, in the order of the chain.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stretch {
    /// The first block and, if there are associated data, the one in which they begin.
    Head,
    /// Whole blocks of associated data.
    Clear,
    ClearEnd,
    /// Whole blocks of data.
    Data,
    DataEnd,
    /// The block that encrypts the tag, in a chain of its own.
    Mask,
    /// The way has no work.
    Idle,
}

/// Continues the chains of all ways over so many blocks.
///
/// # Safety
/// The contract of [`absorb`].
type Absorb<'k, B, const L: usize> = unsafe fn(&mut Chains<'k, B, L>, &mut Sources<L>, usize);

/// The blocks that a way reads come first, so that no vector of them crosses a cache line.
#[repr(C, align(64))]
struct Scheduler<'j, 'a, B, const L: usize> {
    from: Sources<L>,
    /// Blocks that are made of a message's lengths or padded.
    made: [[[u8; 16]; 2]; L],
    /// The finished chains of ways in [`Stretch::Mask`].
    tags: [[u8; 16]; L],
    left: [usize; L],
    job_of: [u16; L],
    stretch: [Stretch; L],
    chains: &'j mut Chains<'a, B, L>,
    jobs: &'j mut [AeadJob<'a>],
    order: &'j [u16],
    direction: Direction,
    taken: usize,
    busy: usize,
}

impl<'a, B: Field, const L: usize> Scheduler<'_, 'a, B, L> {
    /// Makes or checks the tags of the jobs that `order` lists.
    ///
    /// # Safety
    /// The CPU has the features of `absorb`.
    #[inline(always)]
    unsafe fn run_all(&mut self, absorb: Absorb<'a, B, L>) {
        (0..L).for_each(|way| self.take(way));
        while self.busy != 0 {
            let shortest = self.left.iter().copied().min().unwrap_or(0);
            // SAFETY: the contract: the features. A busy way has at least `shortest` blocks left in its stretch,
            // and an idle one stays on its made block with step 0.
            unsafe { absorb(self.chains, &mut self.from, shortest) };
            for way in 0..L {
                if self.stretch[way] != Stretch::Idle {
                    self.left[way] -= shortest;
                    if self.left[way] == 0 {
                        self.advance(way);
                    }
                }
            }
        }
        wipe(&mut self.made, [[0; 16]; 2]);
        wipe(&mut self.tags, [0; 16]);
    }

    /// Gives the way the next job, or leaves it idle.
    fn take(&mut self, way: usize) {
        let next = self.order.get(self.taken).and_then(|&index| {
            let job = &self.jobs[usize::from(index)];
            Some((index, job, super::key_of(job)?))
        });
        let Some((index, job, key)) = next else {
            self.stretch[way] = Stretch::Idle;
            (self.left[way], self.from.steps[way]) = (usize::MAX, 0);
            self.from.rows[way] = self.made[way].as_ptr().cast();
            return;
        };
        self.made[way][0] = first_block(job);
        let mut blocks = 1;
        if !job.aad.is_empty() {
            self.made[way][1] = associated(job.aad);
            blocks = 2;
        }
        self.taken += 1;
        self.busy += 1;
        self.job_of[way] = index;
        self.chains.hold(way, &key.cipher, Direction::Encrypt);
        *self.chains.chain(way) = [0; 16];
        self.stretch[way] = Stretch::Head;
        self.read_made(way, blocks);
    }

    /// Lets the way read so many blocks that were made for it.
    fn read_made(&mut self, way: usize, blocks: usize) {
        self.read(way, self.made[way].as_ptr().cast(), blocks);
    }

    fn read(&mut self, way: usize, row: *const u8, blocks: usize) {
        (self.from.rows[way], self.from.steps[way]) = (row, 16);
        self.left[way] = blocks;
    }

    /// Moves a way whose stretch has ended to the next stretch that has blocks, or to the next job.
    fn advance(&mut self, way: usize) {
        let index = usize::from(self.job_of[way]);
        let job = &self.jobs[index];
        let data = match self.direction {
            Direction::Encrypt => job.data.source_bytes(),
            Direction::Decrypt => job.data.written_bytes(),
        };
        let clear = behind_first(job.aad);
        loop {
            let (next, bytes) = match self.stretch[way] {
                Stretch::Head => (Stretch::Clear, clear),
                Stretch::Clear => (Stretch::ClearEnd, &clear[clear.len() & !15..]),
                Stretch::ClearEnd => (Stretch::Data, data),
                Stretch::Data => (Stretch::DataEnd, &data[data.len() & !15..]),
                Stretch::DataEnd => {
                    self.stretch[way] = Stretch::Mask;
                    self.made[way][0] = counter_block(job);
                    self.tags[way] = core::mem::take(self.chains.chain(way));
                    return self.read_made(way, 1);
                }
                Stretch::Mask | Stretch::Idle => break,
            };
            self.stretch[way] = next;
            match next {
                Stretch::Clear | Stretch::Data if bytes.len() >= 16 => {
                    return self.read(way, bytes.as_ptr(), bytes.len() / 16);
                }
                Stretch::ClearEnd | Stretch::DataEnd if !bytes.is_empty() => {
                    self.made[way][0] = padded(bytes);
                    return self.read_made(way, 1);
                }
                _ => {}
            }
        }
        let mut tag = self.tags[way];
        for (byte, mask) in tag.iter_mut().zip(&*self.chains.chain(way)) {
            *byte ^= mask;
        }
        super::conclude(self.direction, &mut self.jobs[index], &tag);
        self.busy -= 1;
        self.take(way);
    }
}

/// Makes or checks tags, `L` ways at once.
///
/// # Safety
/// The contract of [`Scheduler::run_all`].
#[inline(always)]
unsafe fn tags<'a, B: Field, const L: usize>(
    direction: Direction,
    jobs: &mut [AeadJob<'a>],
    order: &[u16],
    absorb: Absorb<'a, B, L>,
) {
    // All jobs are of one algorithm.
    let first = order.first().and_then(|&first| super::key_of(&jobs[usize::from(first)]));
    let mut chains = Chains::<B, L>::new(first.map_or(0, |key: &Key| key.cipher.rounds));
    let mut scheduler = Scheduler {
        from: Sources { rows: [core::ptr::null(); L], steps: [0; L] },
        made: [[[0; 16]; 2]; L],
        tags: [[0; 16]; L],
        left: [0; L],
        job_of: [0; L],
        stretch: [Stretch::Idle; L],
        chains: &mut chains,
        jobs,
        order,
        direction,
        taken: 0,
        busy: 0,
    };
    // SAFETY: the same contract.
    unsafe { scheduler.run_all(absorb) }
}

/// Continues CBC over `blocks` blocks of every way, and writes none of them: a chain is then the CBC-MAC of what its
/// way has read. `ONE_KEY` says that all ways that have a key have the same.
///
/// The next block is loaded between the rounds of a block, whose rounds fill the queue of their execution units.
///
/// # Safety
/// Each way may read that many blocks along its row, one at least; the keys have `ROUNDS` rounds. The CPU has the features of `B`.
#[inline(always)]
#[expect(
    unused_assignments,
    reason = "a block that is the last loads none, which is known when the loop is compiled"
)]
unsafe fn absorb_by<B: Field, const L: usize, const ROUNDS: usize, const ONE_KEY: bool>(
    chains: &mut Chains<'_, B, L>,
    from: &mut Sources<L>,
    blocks: usize,
) {
    /// Runs a macro for every vector. Loops over the arrays would leave these in memory.
    macro_rules! each {
        ($run:ident $(, $argument:expr)?) => {
            $run!(0 $(, $argument)?);
            $run!(1 $(, $argument)?);
            $run!(2 $(, $argument)?);
            $run!(3 $(, $argument)?);
            $run!(4 $(, $argument)?);
            $run!(5 $(, $argument)?);
            $run!(6 $(, $argument)?);
            $run!(7 $(, $argument)?);
        };
    }
    let (mut chain, mut next) = (chains.loaded(), [B::zero(); GROUPS]);
    macro_rules! load {
        ($n:literal) => {
            // SAFETY: WAYS rows from n * WAYS on, each with a block to read, by the contract.
            next[$n] = unsafe { B::load_rows(from.rows.as_ptr().add($n * B::WAYS), 0) }
        };
    }
    macro_rules! block {
        ($is_last:literal) => {
            // Without this all round keys would be loaded before the loop, and stored for want of registers.
            let keys = core::hint::black_box(&*chains);
            if !B::AHEAD {
                each!(load);
            }
            from.advance();
            macro_rules! begin {
                ($n:literal) => {
                    chain[$n] = chain[$n].xor(next[$n]).xor(keys.key::<ONE_KEY>(0, $n)).pinned()
                };
            }
            each!(begin);
            macro_rules! encrypt {
                ($n:literal, $round:expr) => {
                    chain[$n] = chain[$n].encrypt(keys.key::<ONE_KEY>($round, $n)).pinned()
                };
            }
            macro_rules! round {
                ($n:literal) => {
                    each!(encrypt, 1 + $n);
                    if B::AHEAD && !$is_last {
                        load!($n);
                    }
                };
            }
            each!(round);
            for round in 1 + GROUPS..ROUNDS {
                each!(encrypt, round);
            }
            macro_rules! end {
                ($n:literal) => {
                    chain[$n] = chain[$n].encrypt_last(keys.key::<ONE_KEY>(ROUNDS, $n))
                };
            }
            each!(end);
        };
    }
    if B::AHEAD {
        each!(load);
    }
    for _ in 1..blocks {
        block!(false);
    }
    block!(true);
    chains.keep(chain);
}

/// Does as [`absorb_by`].
///
/// # Safety
/// The contract of [`absorb_by`].
#[inline(always)]
unsafe fn absorb<B: Field, const L: usize>(
    chains: &mut Chains<'_, B, L>,
    from: &mut Sources<L>,
    blocks: usize,
) {
    // SAFETY: the contract is the same; the keys were compared, and their rounds are 10, or else 14.
    unsafe {
        match (chains.rounds(), chains.have_one_key()) {
            (10, true) => absorb_by::<B, L, 10, true>(chains, from, blocks),
            (10, false) => absorb_by::<B, L, 10, false>(chains, from, blocks),
            (_, true) => absorb_by::<B, L, 14, true>(chains, from, blocks),
            (_, false) => absorb_by::<B, L, 14, false>(chains, from, blocks),
        }
    }
}

/// # Safety
/// The contract of [`absorb_by`]; the CPU has AES-NI, SSE4.1, SSSE3 and AVX2.
#[target_feature(enable = "aes,sse4.1,ssse3,avx2")]
unsafe fn absorb_avx2(chains: &mut Chains<'_, One, GROUPS>, from: &mut Sources<GROUPS>, blocks: usize) {
    // SAFETY: the same contract, and this function has the features of One.
    unsafe { absorb(chains, from, blocks) }
}

/// # Safety
/// The contract of [`absorb_by`]; the CPU has AVX-512 F, BW and VL, and VAES.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,vaes")]
unsafe fn absorb_avx512(
    chains: &mut Chains<'_, Four, { 4 * GROUPS }>,
    from: &mut Sources<{ 4 * GROUPS }>,
    blocks: usize,
) {
    // SAFETY: the same contract, and this function has the features of Four.
    unsafe { absorb(chains, from, blocks) }
}

/// Transforms the data of the jobs that `order` lists by counter mode.
fn count(avx2: Avx2, features: Features, jobs: &mut [AeadJob<'_>], order: &[u16]) {
    for &index in order {
        let job = &mut jobs[usize::from(index)];
        if let Some(key) = super::key_of(job) {
            let mut first = counter_block(job);
            modes::increase(&mut first, 1);
            ni::count(avx2, features, &key.cipher, &first, &mut job.data);
        }
    }
}

/// Returns whether eight ways are faster than 32, whose step takes three times as long: for few jobs, or if a few
/// long ones would leave ways empty.
fn few_ways_do(jobs: &[AeadJob<'_>], order: &[u16]) -> bool {
    let blocks = |&index: &u16| jobs[usize::from(index)].data.len() / 16 + 4;
    let longest = order.iter().map(blocks).max().unwrap_or(0);
    let all = order.iter().map(blocks).fold(0usize, usize::saturating_add);
    longest.max(all / GROUPS) < longest.max(all / (4 * GROUPS)).saturating_mul(3)
}

/// Returns whether messages are so short that each is done alone in the time that ways need for their beginnings and
/// ends; measured.
fn one_by_one(jobs: &[AeadJob<'_>]) -> bool {
    let bytes = jobs.iter().map(|job| job.data.len() + job.aad.len()).fold(0usize, usize::saturating_add);
    jobs.len() == 1 || bytes / 640 < jobs.len()
}

/// Runs the pending jobs.
pub(super) fn run_widest(avx2: Avx2, features: Features, direction: Direction, jobs: &mut [AeadJob<'_>]) {
    for window in jobs.chunks_mut(WINDOW) {
        if one_by_one(window) {
            for job in window.iter_mut().filter(|job| job.status == Status::Pending) {
                alone::run(avx2, direction, job);
            }
            continue;
        }
        let bytes =
            |job: &mut AeadJob<'_>| (job.status == Status::Pending).then_some(job.data.len() + job.aad.len());
        by_length(window, bytes, |jobs, order| {
            if direction == Direction::Decrypt {
                count(avx2, features, jobs, order);
            }
            // The tags of sealed messages are those of their texts, which must still be there.
            let narrow = few_ways_do(jobs, order);
            // SAFETY: the tokens prove the features.
            unsafe {
                match features.avx512.filter(|_| !narrow) {
                    Some(_) => tags(direction, jobs, order, absorb_avx512),
                    None => tags(direction, jobs, order, absorb_avx2),
                }
            }
            if direction == Direction::Encrypt {
                count(avx2, features, jobs, order);
            }
        });
    }
}
