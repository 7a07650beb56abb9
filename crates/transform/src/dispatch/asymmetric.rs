//! Public-key operations.

use arrayvec::ArrayVec;

use super::{Kernels, Lanes};
use crate::asymmetric::{ASYMMETRIC_LANES, AsymmetricJob, AsymmetricOperation, Class, Refusal};
use crate::isa::Tier;
use crate::{rsa, wipe};

/// Jobs that are sorted into batches at a time.
const WINDOW: usize = 64;

/// A job and its class: a class takes a look at the key, and sorting asks for it many times.
type Classed<'a> = (Class, &'a mut AsymmetricJob);

/// Returns the number of jobs that fill passes of lanes, the last of them with at least `least`.
const fn jobs_together(count: usize, (least, width): (usize, usize)) -> usize {
    if count % width >= least { count } else { count - count % width }
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
            let mut window: ArrayVec<Classed<'a>, WINDOW> =
                pending.by_ref().take(WINDOW).map(classed).collect();
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

    /// Returns the least number of jobs of an operation's class that run in lanes; `None` if they never do.
    pub fn asymmetric_least(&self, operation: &AsymmetricOperation) -> Option<usize> {
        self.lane_plan(operation).map(|(least, _)| least)
    }

    /// Returns the least number of jobs for a pass of lanes, and the largest.
    fn lane_plan(&self, operation: &AsymmetricOperation) -> Option<(usize, usize)> {
        let costs = operation.costs(self.isa());
        match self.lanes_wanted() {
            Lanes::Never => None,
            Lanes::Always => costs.map(|_| (1, ASYMMETRIC_LANES)),
            Lanes::WhereTheyPay => {
                costs.map(|costs| (costs.least(), costs.width)).filter(|(least, width)| least <= width)
            }
        }
    }

    fn run_window(&self, jobs: &mut [Classed<'_>]) {
        jobs.sort_unstable_by_key(|(class, _)| *class);
        for class in jobs.chunk_by_mut(|(one, _), (other, _)| one == other) {
            let plan = self.lane_plan(class[0].1.operation());
            for batch in class.chunks_mut(ASYMMETRIC_LANES) {
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
            _ => job.operation().native(),
        };
        job.finish(answer);
    }

    fn side_by_side(&self, batch: &mut [Classed<'_>]) {
        #[cfg(target_arch = "x86_64")]
        if let Some(token) = self.features.avx512 {
            let mut answers = [const { Err(Refusal::Fault) }; ASYMMETRIC_LANES];
            let operations: ArrayVec<_, ASYMMETRIC_LANES> =
                batch.iter().map(|(_, job)| job.operation()).collect();
            AsymmetricOperation::lanes(token, &operations, &mut answers);
            drop(operations);
            return batch.iter_mut().zip(answers).for_each(|((_, job), answer)| job.finish(answer));
        }
        batch.iter_mut().for_each(|(_, job)| self.one_operation(job));
    }
}

#[cfg(test)]
mod tests {
    use super::jobs_together;

    #[test]
    fn a_pass_that_would_hardly_be_filled_is_left_out() {
        let all = |plan| (1..=8).map(|count| jobs_together(count, plan)).collect::<Vec<_>>();
        assert_eq!(all((2, 8)), [0, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(all((3, 4)), [0, 0, 3, 4, 4, 4, 7, 8]);
        assert_eq!(all((1, 8)), [1, 2, 3, 4, 5, 6, 7, 8]);
    }
}
