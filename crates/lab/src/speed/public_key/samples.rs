//! Operations to measure, made once for the whole process.
//!
//! The making of a key may take longer than the measurement with it, so rows and lanes take samples from a store and
//! put them back. Guarantees: a sample is in one place at a time; a sample that is taken has not run.

use sealane_transform::{ASYMMETRIC_WAYS, Asymmetric, AsymmetricJob};
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Operations of a step whose random bytes decide how long one takes. The standard deviation of ML-DSA-65's attempts is 0.9
/// of their mean of 5.1: the mean of so many is within 3 % in two of three runs.
const VARIED: usize = 1_024;

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
        while jobs.len() < count {
            // As many keys as a kernel has ways: more of them would measure the memory.
            let like = jobs.len().checked_sub(ASYMMETRIC_WAYS).and_then(|of| jobs[of].operation().renewed());
            jobs.push(AsymmetricJob::new(like.unwrap_or_else(sample)));
        }
        Self { class, jobs }
    }

    /// Returns how many operations of a step stand for all of its.
    pub(crate) fn enough(algorithm: Asymmetric, step: usize) -> usize {
        let one = Self::take(algorithm, step, 1);
        if one.jobs[0].operation().renewed().is_some() { VARIED } else { ASYMMETRIC_WAYS }
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

    /// Signatures of ML-DSA take one attempt or twenty, by their random bytes: there are many of them, with few keys.
    #[test]
    fn signatures_that_take_more_or_fewer_attempts_are_many() {
        let of = |name| Asymmetric::ALL.into_iter().find(|one| one.name() == name).unwrap();
        let (ml_dsa, ed25519) = (of("ml-dsa-44"), of("ed25519"));
        let sign = ml_dsa.steps().iter().position(|step| step.name == "sign").unwrap();
        assert_eq!(Samples::enough(ml_dsa, sign), VARIED);
        assert_eq!(Samples::enough(ed25519, 0), ASYMMETRIC_WAYS);
        let mut some = Samples::take(ml_dsa, sign, 2 * ASYMMETRIC_WAYS);
        assert_eq!(Kernels::best().asymmetric(&mut some.jobs), 0);
        let (first, others) = some.jobs.split_at(ASYMMETRIC_WAYS);
        assert!(first.iter().zip(others).all(|(one, other)| one.answer() != other.answer()));
    }
}
