//! Operations to measure, made once for the whole process.
//!
//! The making of a key may take longer than the measurement with it, so rows and lanes take samples from a store and
//! put them back. Guarantees: a sample is in one place at a time; a sample that is taken has not run.

use sealane_transform::{Asymmetric, AsymmetricJob};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Samples that nobody uses, by algorithm and number of the step.
static STORE: Mutex<BTreeMap<(Asymmetric, usize), Vec<AsymmetricJob>>> = Mutex::new(BTreeMap::new());

/// Operations of one step, which go back into the store when they are dropped.
pub(crate) struct Samples {
    class: (Asymmetric, usize),
    /// The operations.
    pub(crate) jobs: Vec<AsymmetricJob>,
}

impl Samples {
    /// Returns `count` operations of a step, which have not run. The step is one of the algorithm's.
    pub(crate) fn take(algorithm: Asymmetric, step: usize, count: usize) -> Self {
        let class = (algorithm, step);
        let mut jobs = {
            let mut store = STORE.lock().unwrap_or_else(PoisonError::into_inner);
            let stored = store.entry(class).or_default();
            stored.split_off(stored.len().saturating_sub(count))
        };
        jobs.iter_mut().for_each(AsymmetricJob::reset);
        let sample = algorithm.steps()[step].sample;
        jobs.resize_with(count, || AsymmetricJob::new(sample()));
        Self { class, jobs }
    }
}

impl Drop for Samples {
    fn drop(&mut self) {
        let mut store = STORE.lock().unwrap_or_else(PoisonError::into_inner);
        store.entry(self.class).or_default().append(&mut self.jobs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sealane_transform::Kernels;

    #[test]
    fn samples_come_back_and_have_not_run() {
        let algorithm = Asymmetric::ALL.into_iter().find(|one| one.name() == "x25519").unwrap();
        let mut some = Samples::take(algorithm, 0, 3);
        assert_eq!(Kernels::best().asymmetric(&mut some.jobs), 0);
        drop(some);
        let more = Samples::take(algorithm, 0, 5);
        assert!(more.jobs.len() == 5 && more.jobs.iter().all(|job| !job.is_done()));
    }
}
