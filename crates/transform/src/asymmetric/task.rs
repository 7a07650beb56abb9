//! The functions that the folder of a public-key algorithm gives to the dispatcher.

use super::{ASYMMETRIC_WAYS, ASYMMETRIC_WINDOW, Answer};
use crate::algorithm::Asymmetric;
use crate::isa::{Avx2, Avx512, Isa};

/// The costs of an operation, as the `crossover` example measures them: nanoseconds on one machine, of which only the
/// ratio applies to another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaysCosts {
    /// One operation by AWS-LC.
    pub(crate) single_ns: u32,
    /// One pass of the kernel, however many of its ways are filled.
    pub(crate) pass_ns: u32,
    /// The operations of a pass: eight, or four if each takes two ways.
    pub(crate) width: usize,
    /// The most operations that a call takes: a pass, or more if the kernel gives ways that are done to the next.
    pub(crate) call: usize,
}

impl WaysCosts {
    /// Makes the costs of an operation that takes one way.
    pub(crate) const fn new(single_ns: u32, pass_ns: u32) -> Self {
        Self { single_ns, pass_ns, width: ASYMMETRIC_WAYS, call: ASYMMETRIC_WAYS }
    }

    /// Makes the costs of operations that take ways as they become free; `pass_ns` is the cost of one alone.
    pub(crate) const fn queued(single_ns: u32, pass_ns: u32) -> Self {
        Self { call: ASYMMETRIC_WINDOW, ..Self::new(single_ns, pass_ns) }
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
    /// Whether [`Task::generic`] is code of the folder's own.
    const HAS_GENERIC: bool = false;

    /// Returns the class, by which operations are collected into batches.
    fn class(&self) -> Class;

    /// Returns the costs that decide about batches with an instruction set; `None` if it has no ways there.
    fn costs(&self, isa: Isa) -> Option<WaysCosts>;

    /// Returns the same operation with new random bytes, if these decide how long it takes.
    fn renewed(&self) -> Option<Self>
    where
        Self: Sized,
    {
        None
    }

    /// Computes it by code that follows the definition.
    fn reference(&self) -> Answer;

    /// Computes it without instructions that not every machine has: by AWS-LC, unless the folder has code of its own.
    fn generic(&self) -> Answer {
        self.native()
    }

    /// Computes it by AWS-LC.
    fn native(&self) -> Answer;

    /// Computes tasks of one class, at most as many as [`WaysCosts::call`], and puts their answers in.
    #[cfg(target_arch = "x86_64")]
    fn ways(token: Avx512, tasks: &[&Self], answers: &mut [Answer]);

    /// Computes the same with ways of AVX2. A folder without costs there has none.
    #[cfg(target_arch = "x86_64")]
    fn narrow_ways(_: Avx2, tasks: &[&Self], answers: &mut [Answer]) {
        answers.iter_mut().zip(tasks).for_each(|(answer, task)| *answer = task.native());
    }
}
