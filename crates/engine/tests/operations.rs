//! Public-key operations through engines: every one is answered, as the reference answers it, whoever shares its batch.

use std::{num::NonZeroUsize, sync::Arc, thread, time::Duration};

use sealane_engine::{Engine, Implementations, Inline, Lanes, Operations};
use sealane_transform::{Asymmetric, AsymmetricJob, Kernels, Tier};

/// Returns jobs of every step of every algorithm, `count` of each, and their answers by code that follows the definition.
fn jobs_and_answers(count: usize) -> (Vec<AsymmetricJob>, Vec<Option<Vec<u8>>>) {
    let steps = Asymmetric::ALL.into_iter().flat_map(|algorithm| algorithm.steps());
    let mut jobs: Vec<AsymmetricJob> =
        steps.flat_map(|step| (0..count).map(|_| AsymmetricJob::new((step.sample)()))).collect();
    Kernels::select(Some(Tier::Native), None).unwrap().asymmetric(&mut jobs);
    let answers = jobs.iter().map(|job| job.answer().unwrap().ok().map(<[u8]>::to_vec)).collect();
    jobs.iter_mut().for_each(AsymmetricJob::reset);
    (jobs, answers)
}

fn check(engine: &dyn Engine, count: usize) {
    let (mut jobs, answers) = jobs_and_answers(count);
    Operations::new(engine).unwrap().run(&mut jobs);
    assert_eq!(jobs.len(), answers.len());
    for (job, answer) in jobs.iter().zip(answers) {
        assert_eq!(job.answer().unwrap().ok().map(<[u8]>::to_vec), answer, "{:?}", job.operation());
    }
}

const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();

#[test]
fn every_engine_answers_every_operation() {
    check(&Inline::new(Implementations::default()), 9);
    check(&Lanes::new(Implementations::default(), TWO, TWO).unwrap(), 9);
}

#[test]
fn callers_share_batches_and_get_their_own_answers() {
    let window = Duration::from_millis(1);
    let engine = Arc::new(Lanes::gathering(Implementations::default(), TWO, TWO, window).unwrap());
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| (0..5).for_each(|_| check(&*engine, 1)));
        }
    });
}

#[test]
fn no_operations_are_no_wait() {
    let engine = Lanes::new(Implementations::default(), TWO, TWO).unwrap();
    let mut none = Vec::new();
    Operations::new(&engine).unwrap().run(&mut none);
    assert!(none.is_empty());
}
