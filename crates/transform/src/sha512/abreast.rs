//! Many messages of SHA-384 or SHA-512 side by side, each with its own length and key.
//!
//! A way's message is its whole blocks, read in place, then one or two padded blocks in the way's scratch, and for
//! HMAC the block of the outer hash. All ways run until the shortest stretch ends; a way whose message is done
//! takes the next one, and a way without work reads the same bytes as the way that has least left, so that it reads
//! only valid bytes. When so few ways are busy that single messages are faster, the rests of their messages run one
//! by one.
//!
//! `unsafe`: kernels take raw pointers, made here from the jobs' slices.
#![allow(unsafe_code)]

use super::rounds::{self, Absorb, Rows, States};
use super::{BLOCK, HmacKey, bytes_of, initial, pad};
use crate::isa::Features;
use crate::job::{DigestJob, Status};
use crate::wipe::wipe;

/// The work of a way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// The whole blocks of the message.
    Body,
    /// Its padded end.
    End,
    /// HMAC's outer hash.
    Outer,
    /// No work.
    Idle,
}

struct Ways<'j, 'a, const L: usize> {
    jobs: &'j mut [DigestJob<'a>],
    order: &'j [u16],
    taken: usize,
    busy: usize,
    bits: usize,
    states: States<L>,
    rows: Rows<L>,
    blocks_left: [usize; L],
    stage: [Stage; L],
    job_of: [u16; L],
    scratch: [[u8; 2 * BLOCK]; L],
}

impl<const L: usize> Ways<'_, '_, L> {
    fn state(&self, way: usize) -> [u64; 8] {
        self.states.0.map(|row| row[way])
    }

    fn set_state(&mut self, way: usize, state: &[u64; 8]) {
        for (row, word) in self.states.0.iter_mut().zip(state) {
            row[way] = *word;
        }
    }

    /// Gives the way the next job, or leaves it idle.
    fn take(&mut self, way: usize) {
        let Some(&index) = self.order.get(self.taken) else {
            self.stage[way] = Stage::Idle;
            return;
        };
        self.taken += 1;
        self.busy += 1;
        let job = &self.jobs[usize::from(index)];
        let (input, key) = (job.input, job.key.own::<HmacKey>());
        self.set_state(way, key.map_or_else(|| initial(self.bits), |key| &key.inner));
        self.job_of[way] = index;
        self.stage[way] = Stage::Body;
        self.rows[way] = input.as_ptr();
        self.blocks_left[way] = input.len() / BLOCK;
    }

    /// Writes a way's padded blocks into its scratch, where it continues.
    fn go_on(&mut self, way: usize, stage: Stage, tail: &[u8], message_bytes: usize, absorbed_bytes: usize) {
        let scratch = &mut self.scratch[way];
        let bytes = pad(tail, (message_bytes + absorbed_bytes) as u64, scratch);
        self.rows[way] = scratch.as_ptr();
        self.blocks_left[way] = bytes / BLOCK;
        self.stage[way] = stage;
    }

    /// Moves a way whose stretch has ended to the next one.
    fn advance(&mut self, way: usize) {
        let index = usize::from(self.job_of[way]);
        let (input, key) = (self.jobs[index].input, self.jobs[index].key.own::<HmacKey>());
        let key_bytes = if key.is_some() { BLOCK } else { 0 };
        match (self.stage[way], key) {
            (Stage::Idle, _) => {}
            (Stage::Body, _) => {
                let tail = &input[input.len() & !(BLOCK - 1)..];
                self.go_on(way, Stage::End, tail, input.len(), key_bytes);
            }
            (Stage::End, Some(key)) => {
                let inner = bytes_of(&self.state(way));
                self.set_state(way, &key.outer);
                self.go_on(way, Stage::Outer, &inner[..self.bits / 8], self.bits / 8, BLOCK);
            }
            (Stage::End | Stage::Outer, _) => {
                let made = bytes_of(&self.state(way));
                let job = &mut self.jobs[index];
                job.output = [0; 64];
                job.output[..self.bits / 8].copy_from_slice(&made[..self.bits / 8]);
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
            unsafe { kernel(&mut self.states, &self.rows, shortest) };
            for (row, left) in self.rows.iter_mut().zip(&mut self.blocks_left) {
                *row = row.wrapping_add(BLOCK * shortest);
                *left = left.saturating_sub(shortest);
            }
        }
    }

    /// Finishes the messages of all busy ways one by one; there are no more jobs.
    fn finish_alone(&mut self) {
        for way in 0..L {
            while self.stage[way] != Stage::Idle {
                let mut state = States(self.state(way).map(|word| [word]));
                // SAFETY: plain words need no features; so many blocks are left at the row, in the job's
                // input or in the scratch.
                unsafe { rounds::plain(&mut state, &[self.rows[way]], self.blocks_left[way]) };
                self.set_state(way, &state.0.map(|[word]| word));
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
    kernel: Absorb<L>,
    bits: usize,
    few: usize,
    jobs: &mut [DigestJob<'_>],
    order: &[u16],
) {
    let mut ways = Ways {
        jobs,
        order,
        taken: 0,
        busy: 0,
        bits,
        states: States([[0; L]; 8]),
        rows: [core::ptr::null(); L],
        blocks_left: [0; L],
        stage: [Stage::Idle; L],
        job_of: [0; L],
        scratch: [[0; 2 * BLOCK]; L],
    };
    // SAFETY: the contract: the CPU has the kernel's features.
    unsafe { ways.digest_all(kernel, few) };
    wipe(&mut ways.states.0, [0; L]);
    wipe(&mut ways.scratch, [0; 2 * BLOCK]);
}

/// Runs the jobs that a list of indices, longest first, names, side by side by the largest instruction set available.
/// With at most `few` ways busy and no jobs waiting, messages end one by one.
pub(crate) fn run_widest<const BITS: usize>(
    features: Features,
    few: usize,
    jobs: &mut [DigestJob<'_>],
    order: &[u16],
) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the tokens prove the features.
    unsafe {
        match (features.avx512, features.avx2) {
            (Some(_), _) if order.len() > 8 => all(rounds::avx512::<2, 16>, BITS, few, jobs, order),
            (Some(_), _) => all(rounds::avx512::<1, 8>, BITS, few, jobs, order),
            (_, Some(_)) => all(rounds::avx2, BITS, few, jobs, order),
            _ => all(rounds::plain, BITS, few, jobs, order),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: plain words need no features.
    unsafe {
        all(rounds::plain, BITS, few, jobs, order);
    }
}
