//! The functions that the folder of a public-key algorithm gives to the dispatcher.

use super::{ASYMMETRIC_LANES, Answer};
use crate::algorithm::Asymmetric;
use crate::isa::{Avx512, Isa};

/// The costs of an operation, as the `crossover` example measures them: nanoseconds on one machine, of which only the
/// ratio applies to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaneCosts {
    /// One operation by AWS-LC.
    pub(crate) single_ns: u32,
    /// One pass of the kernel, however many of its lanes are filled.
    pub(crate) pass_ns: u32,
    /// The operations of a pass: eight, or four if each takes two lanes.
    pub(crate) width: usize,
}

impl LaneCosts {
    /// Makes the costs of an operation that takes one lane.
    pub(crate) const fn new(single_ns: u32, pass_ns: u32) -> Self {
        Self { single_ns, pass_ns, width: ASYMMETRIC_LANES }
    }

    /// Returns the least number of operations for which a pass costs no more than as many single operations.
    pub(crate) const fn least(self) -> usize {
        self.pass_ns.div_ceil(self.single_ns) as usize
    }
}

/// An algorithm, and the number of a step among the algorithm's: operations of the same class share a batch.
pub(crate) type Class = (Asymmetric, u8);

/// An operation of a folder: it owns its keys and its input.
pub(crate) trait Task {
    /// Returns the class, by which operations are collected into batches.
    fn class(&self) -> Class;

    /// Returns the costs that decide about batches with an instruction set; `None` if it has no lanes there.
    fn costs(&self, isa: Isa) -> Option<LaneCosts>;

    /// Computes it by code that follows the definition.
    fn reference(&self) -> Answer;

    /// Computes it by AWS-LC.
    fn native(&self) -> Answer;

    /// Computes up to [`ASYMMETRIC_LANES`] tasks of one class, and puts their answers in.
    #[cfg(target_arch = "x86_64")]
    fn lanes(token: Avx512, tasks: &[&Self], answers: &mut [Answer; ASYMMETRIC_LANES]);
}
