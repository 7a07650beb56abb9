//! Poly1305 by the integer units, step by step beside rounds that keep the vectors busy; constant-time.
//!
//! A product depends on the sum before it, so two chains of texts alternate. Only the middle of a text is processed
//! here, in whole rows of adjacent blocks: so a step has no branches, and all checks run once per row.
//!
//! `unsafe`: assembly, and blocks read through raw pointers, because they outlive the slices that they come from.
#![allow(unsafe_code)]

use super::Text;
use super::generic::{Factor, State, Sum};
use crate::wipe::wipe;

const CHAINS: usize = 2;
/// At most 48 texts, and for each chain one without blocks; a power of two makes index checks unnecessary.
const PLACES: usize = 64;
/// Bytes of the longest row.
const ROW: usize = 16 * 8;

/// The input of chains that have ended.
static NOTHING: [u8; ROW] = [0; ROW];

/// Sums of the chains and their present rows, while registers hold them.
#[derive(Clone, Copy)]
pub(crate) struct Steps {
    sums: [[u64; 3]; CHAINS],
    rows: [*const u8; CHAINS],
}

/// A text, and the rows that lie ahead.
#[derive(Clone, Copy)]
struct Middle {
    state: State,
    row: *const u8,
    rows: usize,
}

/// Texts under way.
#[repr(C)]
pub(crate) struct Beside {
    /// The factors of the chains' present texts; they come first, where the assembly reads them.
    factors: [Factor; CHAINS],
    steps: Steps,
    /// Rows that are left of these texts, and the indices of the texts.
    left: [usize; CHAINS],
    at: [usize; CHAINS],
    /// The texts are assigned to the chains in turn.
    texts: [Middle; PLACES],
    count: usize,
}

impl Steps {
    /// Absorbs a block of the chain's row.
    ///
    /// # Safety
    /// The block number `BLOCK` of the chain's row, 16 bytes, is readable, and the CPU has BMI2.
    #[inline(always)]
    unsafe fn step<const CHAIN: usize, const BLOCK: usize>(&mut self, beside: &Beside) {
        let [h0, h1, h2] = &mut self.sums[CHAIN];
        // SAFETY: the contract: the block is readable; the factors are those of `beside`, which is borrowed;
        // BMI2.
        unsafe {
            core::arch::asm!(
                "add {h0}, [{row} + {block}]",
                "adc {h1}, [{row} + {block} + 8]",
                "adc {h2}, 1",
                "mov rdx, {h0}",
                "mulx {a}, {h0}, [{factors} + {factor}]", // h0 r0
                "mulx {c}, {b}, [{factors} + {factor} + 8]", // h0 r1
                "mov rdx, {h1}",
                "mulx {d}, {h1}, [{factors} + {factor} + 16]", // h1 s
                "add {h0}, {h1}",
                "adc {a}, {d}",
                "mulx {d}, {h1}, [{factors} + {factor}]", // h1 r0
                "add {h1}, {b}",
                "adc {d}, {c}",
                "mov {b}, [{factors} + {factor} + 16]",
                "imul {b}, {h2}", // h2 s
                "imul {h2}, [{factors} + {factor}]", // h2 r0
                "add {a}, {b}",
                "add {h1}, {a}",
                "adc {h2}, {d}",
                // The part past 2^130 comes back times 5.
                "mov {a}, {h2}",
                "shr {a}, 2",
                "lea {a}, [{a} + 4*{a}]",
                "and {h2:e}, 3",
                "add {h0}, {a}",
                "adc {h1}, 0",
                "adc {h2}, 0",
                h0 = inout(reg) *h0, h1 = inout(reg) *h1, h2 = inout(reg) *h2,
                a = out(reg) _, b = out(reg) _, c = out(reg) _, d = out(reg) _, out("rdx") _,
                row = in(reg) self.rows[CHAIN], factors = in(reg) beside,
                block = const 16 * BLOCK, factor = const size_of::<Factor>() * CHAIN,
                options(readonly, nostack),
            );
        }
    }

    /// Absorbs the blocks that are due in one of the eighths of the time for a row of each chain.
    ///
    /// # Safety
    /// `row_blocks` blocks of 16 bytes of each chain's row are readable, at most eight, and the CPU has BMI2.
    #[inline(always)]
    pub(crate) unsafe fn eighth<const N: usize>(&mut self, beside: &Beside, row_blocks: usize) {
        macro_rules! blocks {
            ($($block:literal)*) => {
                $(
                    // SAFETY: the contract: this block is one of `row_blocks` of the chain's row.
                    unsafe {
                        if $block < row_blocks && N == 2 * $block * 8 / (2 * row_blocks) {
                            self.step::<0, $block>(beside);
                        }
                        if $block < row_blocks && N == (2 * $block + 1) * 8 / (2 * row_blocks) {
                            self.step::<1, $block>(beside);
                        }
                    }
                )*
            };
        }
        blocks!(0 1 2 3 4 5 6 7);
    }
}

impl Beside {
    pub(crate) fn new() -> Self {
        let none = Middle { state: State::ZERO, row: NOTHING.as_ptr(), rows: 1 };
        let steps = Steps { sums: [[0; 3]; CHAINS], rows: [NOTHING.as_ptr(); CHAINS] };
        Self {
            factors: [State::ZERO.factor; CHAINS],
            steps,
            left: [1; CHAINS],
            at: [0, 1],
            texts: [none; PLACES],
            count: 0,
        }
    }

    /// Adds a text, one of 48 at most, of which rows of `row_blocks` blocks lie ahead.
    #[inline(always)]
    pub(crate) fn push(&mut self, text: &Text<'_>, row_blocks: usize) {
        let (blocks, _) = text.data.as_chunks::<16>();
        let (head, rows) = blocks.split_at(blocks.len() % row_blocks);
        // The text is written in place, because vectors copy slowly what has been written word by word.
        let place = &mut self.texts[self.count % PLACES];
        place.state.start(text.key);
        place.state.update_padded(text.aad);
        place.state.update_padded(head.as_flattened());
        (place.row, place.rows) = (rows.as_ptr().cast(), rows.len() / row_blocks);
        self.count += 1;
    }

    /// Lets the chains begin.
    pub(crate) fn start(&mut self) {
        for place in 0..CHAINS {
            let place = &mut self.texts[(self.count + place) % PLACES];
            (place.row, place.rows) = (NOTHING.as_ptr(), 1);
        }
        let mut steps = self.steps;
        self.enter::<0>(&mut steps, 0);
        self.enter::<1>(&mut steps, 1);
        self.steps = steps;
    }

    /// Returns whether rows are left.
    pub(crate) fn is_busy(&self) -> bool {
        self.at.iter().any(|&at| at < self.count)
    }

    pub(crate) fn steps(&self) -> Steps {
        self.steps
    }

    pub(crate) fn set_steps(&mut self, steps: Steps) {
        self.steps = steps;
    }

    #[inline(always)]
    fn enter<const CHAIN: usize>(&mut self, steps: &mut Steps, at: usize) {
        let text = &self.texts[at % PLACES];
        let Sum { low, high } = text.state.sum;
        steps.sums[CHAIN] = [low as u64, (low >> 64) as u64, high];
        steps.rows[CHAIN] = text.row;
        (self.factors[CHAIN], self.left[CHAIN], self.at[CHAIN]) = (text.state.factor, text.rows, at);
    }

    #[inline(always)]
    fn next<const CHAIN: usize>(&mut self, steps: &mut Steps, row_blocks: usize) {
        steps.rows[CHAIN] = steps.rows[CHAIN].wrapping_add(16 * row_blocks);
        self.left[CHAIN] -= 1;
        if self.left[CHAIN] == 0 {
            let at = self.at[CHAIN];
            let [h0, h1, high] = steps.sums[CHAIN];
            self.texts[at % PLACES].state.sum = Sum { low: u128::from(h0) | u128::from(h1) << 64, high };
            self.enter::<CHAIN>(steps, at + CHAINS * usize::from(at < self.count));
        }
    }

    /// Advances to the next rows of `row_blocks` blocks.
    #[inline(always)]
    pub(crate) fn advance(&mut self, steps: &mut Steps, row_blocks: usize) {
        self.next::<0>(steps, row_blocks);
        self.next::<1>(steps, row_blocks);
    }

    /// Absorbs the rows that are left. Returns the states of the texts.
    ///
    /// # Safety
    /// The data of the texts that were pushed since the last call are readable, and were pushed with this
    /// `row_blocks`, at most eight. The CPU has BMI2.
    #[inline(always)]
    pub(crate) unsafe fn finish(&mut self, row_blocks: usize) -> impl Iterator<Item = &mut State> {
        let mut steps = self.steps;
        while self.is_busy() {
            macro_rules! eighths {
                ($($n:literal)*) => { $(
                    // SAFETY: the contract: the present rows are those of texts that are readable, or
                    // NOTHING; BMI2.
                    unsafe { steps.eighth::<$n>(self, row_blocks) };
                )* };
            }
            eighths!(0 1 2 3 4 5 6 7);
            self.advance(&mut steps, row_blocks);
        }
        self.steps = steps;
        let count = core::mem::take(&mut self.count);
        self.texts[..count].iter_mut().map(|text| &mut text.state)
    }

    /// Clears keys and sums.
    pub(crate) fn wipe(&mut self) {
        wipe(&mut self.texts, Middle { state: State::ZERO, row: NOTHING.as_ptr(), rows: 1 });
        wipe(&mut self.factors, State::ZERO.factor);
        wipe(&mut self.steps.sums, [0; 3]);
    }
}
