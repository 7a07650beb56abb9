//! Compares batches of public-key operations with single ones by AWS-LC: whether a batch of any size is ever slower,
//! and, with forced ways, the costs that descriptors hold.

use std::hint::black_box;

use sealane_transform::{ASYMMETRIC_WAYS, Asymmetric, AsymmetricJob, AsymmetricStep};

use super::{COUNTS, Cell, Lengths, Options, PAIRS, SLACK, Verdict, pairs_of, verdict_of};

/// Batches of operations whose random bytes decide how long one takes.
const BATCHES: usize = 128;

/// A kind of operation of an algorithm.
struct Subject {
    algorithm: Asymmetric,
    step: AsymmetricStep,
}

impl Subject {
    fn name(&self) -> String {
        format!("{} {}", self.algorithm.name(), self.step.name)
    }

    /// Measures one number of operations, each with a key of its own as far as the samples have such.
    fn cell(&self, options: &Options, count: usize, pair_count: usize, slice_seconds: f64) -> Cell {
        let first: Vec<AsymmetricJob> =
            (0..count).map(|_| AsymmetricJob::new((self.step.sample)())).collect();
        // Both sides take the same batches in turn, where one operation says little about others.
        let renewed = || first.iter().map(|job| job.operation().renewed().map(AsymmetricJob::new)).collect();
        let mut batches: Vec<Vec<AsymmetricJob>> = (1..BATCHES).map_while(|_| renewed()).collect();
        batches.push(first);
        let mut at = [0; 2];
        let mut call = |is_single: bool| {
            let (kernels, at) = match is_single {
                true => (&options.single, &mut at[0]),
                false => (&options.batch, &mut at[1]),
            };
            *at = (*at + 1) % batches.len();
            let jobs = &mut batches[*at];
            jobs.iter_mut().for_each(AsymmetricJob::reset);
            assert_eq!(kernels.asymmetric(black_box(jobs)), 0);
        };
        let pairs = pairs_of(&mut call, pair_count, slice_seconds);
        Cell { subject: 0, count, lengths: Lengths::Equal(0), pairs }
    }

    /// Prints what ways cost, and from which number of operations on they pay.
    fn costs(&self, options: &Options, slice_seconds: f64) {
        let cells: Vec<Cell> =
            (1..=ASYMMETRIC_WAYS).map(|count| self.cell(options, count, PAIRS[0], slice_seconds)).collect();
        let ([single, _], [_, batch]) = (cells[0].seconds(), cells[ASYMMETRIC_WAYS - 1].seconds());
        let least = cells.iter().find(|cell| cell.ratio().0 > 1.0).map(|cell| cell.count);
        let (ratio, low, high) = cells[ASYMMETRIC_WAYS - 1].ratio();
        println!(
            "{:24} single {:.0} ns, four {:.0} ns, eight {:.0} ns; pays from {}; eight: {ratio:.2} ({low:.2} to {high:.2})",
            self.name(),
            single * 1e9,
            cells[ASYMMETRIC_WAYS / 2 - 1].seconds()[1] * 1e9,
            batch * 1e9,
            least.map_or_else(|| "never".to_owned(), |least| least.to_string()),
        );
    }
}

/// Measures every kind of operation, by as many at a time as run side by side; returns the worst verdict.
pub(super) fn run(options: &Options) -> Verdict {
    let steps = |algorithm: Asymmetric| algorithm.steps().iter().map(move |step| (algorithm, *step));
    let subjects: Vec<Subject> = Asymmetric::ALL
        .into_iter()
        .flat_map(steps)
        .map(|(algorithm, step)| Subject { algorithm, step })
        .filter(|subject| {
            options.names.is_empty()
                || options.names.iter().any(|name| subject.name().contains(name.as_str()))
        })
        .collect();
    let counts = if options.is_forced { ASYMMETRIC_WAYS } else { COUNTS.len() };
    let slices = (2 * PAIRS[0] * counts * subjects.len()).max(1) as f64;
    let slice_seconds = options.seconds / slices;
    let mut worst = Verdict::Holds;
    for subject in &subjects {
        if options.is_forced {
            subject.costs(options, slice_seconds);
            continue;
        }
        let ways_from = options.batch.asymmetric_least(&(subject.step.sample)());
        let mut least: Option<Cell> = None;
        // Fewer operations run by the same calls as single ones: a difference would be noise.
        for count in COUNTS.into_iter().filter(|count| ways_from.is_some_and(|from| *count >= from)) {
            let mut cell = subject.cell(options, count, PAIRS[0], slice_seconds);
            if cell.verdict() != Verdict::Holds {
                cell = subject.cell(options, count, PAIRS[1], slice_seconds);
            }
            if least.as_ref().is_none_or(|least| cell.ratio().0 < least.ratio().0) {
                least = Some(cell);
            }
        }
        let Some(least) = least else {
            println!("{:24} never runs side by side", subject.name());
            continue;
        };
        let (ratio, low, high) = least.ratio();
        let verdict = verdict_of(low, high, SLACK);
        println!(
            "{:24} {:9} least {ratio:.3} ({low:.3} to {high:.3}) with {}",
            subject.name(),
            format!("{verdict:?}").to_lowercase(),
            least.count
        );
        worst = worst.max(verdict);
    }
    worst
}
