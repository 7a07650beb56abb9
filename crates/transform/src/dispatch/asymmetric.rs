//! Public-key operations.

use arrayvec::ArrayVec;

use super::{Kernels, Ways};
use crate::asymmetric::{
    ASYMMETRIC_WAYS, ASYMMETRIC_WINDOW, Answer, AsymmetricJob, AsymmetricOperation, Class, Refusal,
};
use crate::isa::Tier;
use crate::{rsa, wipe};

/// A job and its class: a class takes a look at the key, and sorting asks for it many times.
type Classed<'a> = (Class, &'a mut AsymmetricJob);

/// How many jobs of a class run side by side.
#[derive(Clone, Copy)]
struct Plan {
    /// The least number of jobs for a pass, and the largest.
    least: usize,
    width: usize,
    /// The largest number for a call.
    call: usize,
}

/// Returns the number of jobs that fill passes of ways, the last of them with at least `least`.
const fn jobs_together(count: usize, plan: Plan) -> usize {
    if count % plan.width >= plan.least { count } else { count - count % plan.width }
}

impl Kernels {
    /// Runs the jobs that have not run, of any algorithms; returns the number of them that were refused.
    ///
    /// Jobs of one class ([`AsymmetricOperation::class`]) run side by side as long as that costs no more than one
    /// after the other.
    pub fn asymmetric<'a>(&self, jobs: impl IntoIterator<Item = &'a mut AsymmetricJob>) -> usize {
        let mut pending = jobs.into_iter().filter(|job| !job.is_done());
        let mut refused = 0;
        loop {
            let classed = |job: &'a mut AsymmetricJob| (job.operation().class(), job);
            let mut window: ArrayVec<Classed<'a>, ASYMMETRIC_WINDOW> =
                pending.by_ref().take(ASYMMETRIC_WINDOW).map(classed).collect();
            if window.is_empty() {
                break;
            }
            self.run_window(&mut window);
            refused +=
                window.iter().filter(|(_, job)| job.answer().is_some_and(|answer| answer.is_err())).count();
        }
        wipe::registers(self.features);
        refused
    }

    /// Begins a private operation of RSA whose halves two threads can compute at the same time; returns `None` for others, for a
    /// block that it does not take, and if the library fails.
    pub fn halves(&self, operation: rsa::Operation) -> Option<(rsa::Halves, rsa::Spent)> {
        rsa::Halves::begin(self.features, operation)
    }

    /// Returns the least number of jobs of an operation's class that run side by side; `None` if they never do.
    pub fn asymmetric_least(&self, operation: &AsymmetricOperation) -> Option<usize> {
        self.ways_plan(operation).map(|plan| plan.least)
    }

    /// Returns the tier by which an operation alone runs, if not side by side.
    pub fn asymmetric_single(&self, operation: &AsymmetricOperation) -> Tier {
        match self.single() {
            Tier::Generic if !operation.has_generic() => Tier::Native,
            tier => tier,
        }
    }

    /// Returns how many jobs of an operation's class run side by side; `None` if none ever do.
    fn ways_plan(&self, operation: &AsymmetricOperation) -> Option<Plan> {
        let costs = operation.costs(self.isa())?;
        let plan = Plan { least: costs.least(), width: costs.width, call: costs.call };
        match self.ways_wanted() {
            Ways::Never => None,
            Ways::Always => {
                Some(Plan { least: 1, width: ASYMMETRIC_WAYS, call: costs.call.max(ASYMMETRIC_WAYS) })
            }
            Ways::WhereTheyPay => Some(plan).filter(|plan| plan.least <= plan.width),
        }
    }

    fn run_window(&self, jobs: &mut [Classed<'_>]) {
        jobs.sort_unstable_by_key(|(class, _)| *class);
        for class in jobs.chunk_by_mut(|(one, _), (other, _)| one == other) {
            let plan = self.ways_plan(class[0].1.operation());
            for batch in class.chunks_mut(plan.map_or(ASYMMETRIC_WAYS, |plan| plan.call)) {
                let (together, alone) =
                    batch.split_at_mut(plan.map_or(0, |plan| jobs_together(batch.len(), plan)));
                if !together.is_empty() {
                    self.side_by_side(together);
                }
                alone.iter_mut().for_each(|(_, job)| self.one_operation(job));
            }
        }
    }

    fn one_operation(&self, job: &mut AsymmetricJob) {
        let answer = match self.single() {
            Tier::Reference => job.operation().reference(),
            Tier::Generic => job.operation().generic(),
            _ => job.operation().native(),
        };
        job.finish(answer);
    }

    fn side_by_side(&self, batch: &mut [Classed<'_>]) {
        #[cfg(target_arch = "x86_64")]
        if self.features.avx2.is_some() {
            let mut answers: ArrayVec<Answer, ASYMMETRIC_WINDOW> =
                batch.iter().map(|_| Err(Refusal::Fault)).collect();
            let operations: ArrayVec<_, ASYMMETRIC_WINDOW> =
                batch.iter().map(|(_, job)| job.operation()).collect();
            AsymmetricOperation::ways(self.features, &operations, &mut answers);
            drop(operations);
            return batch.iter_mut().zip(answers).for_each(|((_, job), answer)| job.finish(answer));
        }
        batch.iter_mut().for_each(|(_, job)| self.one_operation(job));
    }
}

#[cfg(test)]
mod tests {
    use super::{Plan, jobs_together};

    #[test]
    fn a_pass_that_would_hardly_be_filled_is_left_out() {
        let all = |(least, width)| {
            let plan = Plan { least, width, call: 8 };
            (1..=8).map(|count| jobs_together(count, plan)).collect::<Vec<_>>()
        };
        assert_eq!(all((2, 8)), [0, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(all((3, 4)), [0, 0, 3, 4, 4, 4, 7, 8]);
        assert_eq!(all((1, 8)), [1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
