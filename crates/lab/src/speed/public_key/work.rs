//! The catalogue's own public-key kernels as measured units.
//!
//! A call forgets the answers of the next operations and computes them again. Guarantees: operations that run side by side
//! are handed over together, others one by one; before anything is measured, the answers of one batch are compared
//! with those of AWS-LC.

use super::super::SpeedError;
use super::super::work::{Done, Handler, Runner, Share};
use super::samples::Samples;
use sealane_transform::{Asymmetric, AsymmetricJob, Kernels, Tier};
use std::hint::black_box;

/// The measured work: a step, and the operations handed over together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in super::super) struct StepTask {
    pub(in super::super) algorithm: Asymmetric,
    /// The number of the step among the algorithm's.
    pub(in super::super) step: usize,
    pub(in super::super) batch: usize,
}

impl StepTask {
    /// Returns the step's name.
    pub(in super::super) fn name(self) -> &'static str {
        self.algorithm.steps()[self.step].name
    }

    /// Returns the error of an operation.
    pub(in super::super) fn fails(self, reason: &'static str) -> SpeedError {
        SpeedError::Operation { algorithm: self.algorithm.name(), step: self.name(), reason }
    }
}

/// Samples are drawn by each lane from the common store.
impl Share for StepTask {
    fn of_lane(&self, _: usize) -> Self {
        *self
    }
}

/// Our kernels, limited to a tier.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Ours {
    pub(super) kernels: Kernels,
    /// The tier that runs the load.
    pub(super) tier: Tier,
}

impl Ours {
    /// Returns the kernels, with the tier by which they run the load.
    pub(super) fn new(kernels: Kernels, load: StepTask) -> Self {
        let sample = Samples::take(load.algorithm, load.step, 1);
        let operation = sample.jobs[0].operation();
        let least = kernels.asymmetric_least(operation);
        let tier = if least.is_some_and(|least| load.batch >= least) {
            Tier::Batch
        } else {
            kernels.asymmetric_single(operation)
        };
        Self { kernels, tier }
    }

    /// Returns AWS-LC, one operation after the other.
    pub(in super::super) fn aws_lc() -> Result<Self, SpeedError> {
        Ok(Self { kernels: Kernels::select(Some(Tier::Native), None)?, tier: Tier::Native })
    }
}

impl Runner<StepTask> for Ours {
    fn with(&self, load: &StepTask, scope: &mut dyn FnMut(&mut Handler<'_>)) -> Result<(), SpeedError> {
        let step = if self.tier == Tier::Batch { load.batch } else { 1 };
        let count = Samples::enough(load.algorithm, load.step).next_multiple_of(step);
        let mut samples = Samples::take(load.algorithm, load.step, count);
        let jobs = &mut samples.jobs;
        compare(*load, &self.kernels, &mut jobs[..step])?;
        let mut at = 0;
        scope(&mut || {
            let range = at..at + step;
            at = if range.end == count { 0 } else { range.end };
            let jobs = &mut jobs[range];
            jobs.iter_mut().for_each(AsymmetricJob::reset);
            self.kernels.asymmetric(black_box(jobs));
            Done { messages: step as u64, bytes: 0 }
        });
        Ok(())
    }
}

/// Runs operations by these kernels and by AWS-LC.
fn compare(load: StepTask, kernels: &Kernels, jobs: &mut [AsymmetricJob]) -> Result<(), SpeedError> {
    let mut answers = |kernels: &Kernels| -> Result<Vec<Vec<u8>>, SpeedError> {
        jobs.iter_mut().for_each(AsymmetricJob::reset);
        kernels.asymmetric(&mut *jobs);
        let answers = jobs.iter().map(|job| Some(job.answer()?.ok()?.to_vec())).collect::<Option<_>>();
        answers.ok_or_else(|| load.fails("an operation that is a sample was refused"))
    };
    if answers(kernels)? == answers(&Ours::aws_lc()?.kernels)? {
        Ok(())
    } else {
        Err(load.fails("the answers differ from AWS-LC's"))
    }
}
