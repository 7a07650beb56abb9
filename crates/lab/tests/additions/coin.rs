//! A study for the test: it asks whether a coin is fair. A new study needs only a file like this one and a line in
//! `lib.rs`.

use crate::LabError;
use crate::experiment::{Claim, Experiment, Measure, Plan, Sample, Sampler, at};
use crate::report::Report;
use crate::request::Request;
use crate::rng::Rng;
use crate::studies::{Family, OWN, cost, study};
use std::io::Write;

pub(crate) const FAMILIES: &[Family] = &[Family {
    command: "lab coin",
    needs: "a coin",
    parts: &[],
    costs: &[cost(&[], 1)],
    studies: &[study("coin", OWN, "whether a coin is fair", &[])],
    run,
}];

/// Throws a coin, heads or tails.
struct Coin(Rng);

impl Sampler for Coin {
    fn sample(&mut self, _cell: usize) -> Result<Sample, LabError> {
        Ok(Sample::slice("heads", (self.0.next_u64() % 2) as f64, false))
    }
}

fn run(request: &Request, progress: &mut dyn Write) -> Result<Report, LabError> {
    let place = at([("coin", "one")]);
    let experiment = Experiment {
        repetition: request.profile.repetition(),
        claims: vec![Claim::bound(("A coin is fair", "folklore"), "heads", place.clone(), (Some(0.4), Some(0.6)))],
        ..Experiment::new("coin", "coin", "Heads and tails", &["coin"], vec![Measure::new("heads", "heads")])
    };
    let plan = Plan { experiment, places: vec![place], seed: request.seed, ..Plan::default() };
    let outcome = plan.run(&mut Coin(Rng::new(request.seed)), progress, |_| ())?;
    Ok(Report::new("sealane lab coin", "A coin", "Heads and tails.", vec![outcome]))
}
