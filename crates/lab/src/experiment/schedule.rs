//! The order of runs: round by round, every cell once a round, each round in an order of its own.
//!
//! Guarantees: all orders and contents follow from one seed; a cell that fails is tried no more and says why; a run
//! that something else disturbed is repeated a bounded number of times and kept beside the others.

use super::{Cell, Coordinates, Repetition, Sample};
use crate::LabError;
use crate::rng::Rng;

/// Runs cells for [`run`].
pub trait Runner {
    /// Called before each round with the seed of its random content.
    fn prepare(&mut self, _content_seed: u64) -> Result<(), LabError> {
        Ok(())
    }

    /// Runs the cell with index `cell` once.
    fn sample(&mut self, cell: usize) -> Result<Sample, LabError>;

    /// Called when the last sample of the cell counts: it is not repeated.
    fn counts(&mut self, _cell: usize) {}

    /// Called when a round is over, for progress. Warm-up rounds are negative.
    fn round_done(&mut self, _round: isize, _rounds: usize) -> Result<(), LabError> {
        Ok(())
    }
}

/// Runs the cells at `places` by the rule. An error is one that ends the whole experiment; that of a single cell is
/// noted in it.
pub fn run(
    places: &[Coordinates],
    repetition: Repetition,
    seed: u64,
    runner: &mut dyn Runner,
) -> Result<Vec<Cell>, LabError> {
    let mut rng = Rng::new(seed);
    let cell = |at: &Coordinates| Cell { at: at.clone(), centre: repetition.centre, ..Cell::default() };
    let mut cells: Vec<Cell> = places.iter().map(cell).collect();
    for round in 0..repetition.warm_up_rounds + repetition.rounds {
        let kept_round = round.checked_sub(repetition.warm_up_rounds);
        let content_seed = rng.next_u64();
        runner.prepare(content_seed)?;
        let mut order: Vec<usize> = (0..cells.len()).collect();
        rng.shuffle(&mut order);
        for index in order {
            let cell = &mut cells[index];
            if cell.failure.is_some() {
                continue;
            }
            let retries = if kept_round.is_some() { repetition.retries_per_round } else { 0 };
            if let Err(error) = run_cell(cell, index, kept_round, content_seed, retries, runner) {
                cell.failure = Some(error.to_string());
            }
        }
        runner.round_done(round as isize - repetition.warm_up_rounds as isize, repetition.rounds)?;
    }
    Ok(cells)
}

fn run_cell(
    cell: &mut Cell,
    index: usize,
    kept_round: Option<usize>,
    content_seed: u64,
    retries: usize,
    runner: &mut dyn Runner,
) -> Result<(), LabError> {
    for attempt in 0..=retries {
        let mut sample = runner.sample(index)?;
        let Some(round) = kept_round else { return Ok(()) };
        sample.seed = content_seed;
        sample.round = round;
        if sample.is_disturbed && attempt < retries {
            cell.disturbed.push(sample);
        } else {
            cell.samples.push(sample);
            runner.counts(index);
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Profile, RESAMPLING_SEED, at};
    use super::*;
    use crate::stats::Centre;

    #[derive(Default)]
    struct Recorder {
        order: Vec<Vec<usize>>,
        seeds: Vec<u64>,
        disturbed: usize,
        counted: Vec<usize>,
        failing: Option<usize>,
    }

    impl Runner for Recorder {
        fn prepare(&mut self, content_seed: u64) -> Result<(), LabError> {
            self.order.push(Vec::new());
            self.seeds.push(content_seed);
            Ok(())
        }

        fn sample(&mut self, cell: usize) -> Result<Sample, LabError> {
            self.order.last_mut().unwrap().push(cell);
            if self.failing == Some(cell) {
                return Err(LabError::Unavailable("broken".to_owned()));
            }
            let is_disturbed = self.disturbed > 0;
            self.disturbed = self.disturbed.saturating_sub(1);
            Ok(Sample { is_disturbed, ..Sample::default() })
        }

        fn counts(&mut self, cell: usize) {
            self.counted.push(cell);
        }
    }

    fn places() -> Vec<Coordinates> {
        ["a", "b", "c", "d"].map(|name| at([("cell", name)])).to_vec()
    }

    const RULE: Repetition =
        Repetition { warm_up_rounds: 1, rounds: 4, retries_per_round: 2, centre: Centre::Median };

    /// By the paper's rule a cell is the mean of its samples.
    #[test]
    fn a_cell_is_what_the_rule_makes_of_its_samples() {
        for (profile, centre) in [(Profile::Full, Centre::Median), (Profile::Paper, Centre::Mean)] {
            let places = [at([("cell", "one")])];
            let cells = run(&places, profile.repetition(), 1, &mut Recorder::default()).unwrap();
            assert_eq!((cells[0].centre, cells[0].samples.len()), (centre, 10));
            let mut cell = cells[0].clone();
            cell.samples
                .iter_mut()
                .enumerate()
                .for_each(|(n, sample)| *sample = Sample::slice("x", (n * n) as f64, n));
            let values = cell.samples_of("x");
            assert_eq!(
                (cell.figure("x"), cell.interval("x")),
                (centre.of(&values), centre.interval(&values, RESAMPLING_SEED))
            );
        }
    }

    #[test]
    fn every_round_has_every_cell_in_an_order_of_its_own() {
        let mut recorder = Recorder::default();
        let cells = run(&places(), RULE, 3, &mut recorder).unwrap();
        assert_eq!(recorder.order.len(), 5);
        for order in &recorder.order {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, [0, 1, 2, 3]);
        }
        assert!(recorder.order.windows(2).any(|pair| pair[0] != pair[1]));
        recorder.seeds.dedup();
        assert_eq!(recorder.seeds.len(), 5);
        for cell in cells {
            assert_eq!(cell.samples.iter().map(|sample| sample.round).collect::<Vec<_>>(), [0, 1, 2, 3]);
        }
    }

    #[test]
    fn one_seed_gives_one_order() {
        let (mut left, mut right) = (Recorder::default(), Recorder::default());
        run(&places(), RULE, 11, &mut left).unwrap();
        run(&places(), RULE, 11, &mut right).unwrap();
        assert_eq!((left.order, left.seeds), (right.order, right.seeds));
    }

    #[test]
    fn a_failing_cell_is_tried_once_and_says_why() {
        let mut recorder = Recorder { failing: Some(2), ..Recorder::default() };
        let cells = run(&places(), RULE, 3, &mut recorder).unwrap();
        assert_eq!(cells[2].failure.as_deref(), Some("broken"));
        assert!(cells[2].samples.is_empty());
        assert_eq!(recorder.order.iter().flatten().filter(|&&cell| cell == 2).count(), 1);
        assert_eq!(cells[1].samples.len(), 4);
    }

    #[test]
    fn disturbed_runs_are_repeated_within_bounds_and_kept() {
        let rule = Repetition { warm_up_rounds: 0, rounds: 1, ..RULE };
        let mut recorder = Recorder { disturbed: 4, ..Recorder::default() };
        let cells = run(&places()[..2], rule, 3, &mut recorder).unwrap();
        let count = |cell: &Cell| (cell.samples.len(), cell.disturbed.len(), cell.samples[0].is_disturbed);
        let mut counts: Vec<_> = cells.iter().map(count).collect();
        counts.sort_unstable();
        // The first cell used up its retries and keeps a disturbed sample; the second needed one.
        assert_eq!(counts, [(1, 1, false), (1, 2, true)]);
        recorder.counted.sort_unstable();
        assert_eq!(recorder.counted, [0, 1]);
    }
}
