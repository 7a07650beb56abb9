//! The scheduler of every study: it runs every cell once per round, each round in a new order.
//!
//! Guarantees: all orders and contents are derived from one seed; a cell that fails is not tried again and gives the
//! reason; a run that other work disturbed is repeated a bounded number of times and kept beside the others; after
//! the deadline only those runs start that the sampler requires. With a deadline every cell has its first turn before any is
//! repeated, in the order of the plan, and a disturbed run counts where there was no time for another: a busy machine has
//! figures too.

use super::{Cell, Coordinates, Outcome, Plan, Runs, Sample, Sampler, assign};
use crate::LabError;
use crate::cleanup::stop_if_ending;
use crate::report::number::duration;
use crate::rng::Rng;
use sealane_terminal::text::utc_now;
use std::io::Write;
use std::time::{Duration, Instant};

impl Plan {
    /// Measures every cell by the rule, calls `derive` to compute figures of several cells, and decides the claims.
    ///
    /// # Errors
    /// Fails if an error concerns the whole experiment; an error of a single cell is noted in the cell.
    pub fn run(
        self,
        sampler: &mut dyn Sampler,
        progress: &mut dyn Write,
        derive: impl FnOnce(&mut Vec<Cell>),
    ) -> Result<Outcome, LabError> {
        let (began, started) = (Instant::now(), utc_now());
        let mut cells = self.measure(sampler, progress)?;
        derive(&mut cells);
        let Self { experiment, beside, skipped, seed, .. } = self;
        cells.extend(beside);
        let seconds = began.elapsed().as_secs_f64();
        Ok(Outcome { seed, started, seconds, skipped, ..Outcome::new(experiment, cells) })
    }

    /// Measures every cell by the rule.
    ///
    /// # Errors
    /// Fails as [`Plan::run`] does.
    pub fn measure(
        &self,
        sampler: &mut dyn Sampler,
        progress: &mut dyn Write,
    ) -> Result<Vec<Cell>, LabError> {
        if let Some(cells) = assign::measure(self, sampler) {
            return cells;
        }
        let rule = self.experiment.repetition;
        let began = Instant::now();
        let mut rng = Rng::new(self.seed);
        let cell = |at: &Coordinates| Cell { at: at.clone(), centre: rule.centre, ..Cell::default() };
        let mut cells: Vec<Cell> = self.places.iter().map(cell).collect();
        let mut last_turns = vec![Duration::ZERO; cells.len()];
        // The limit ends an experiment even if the machine is never quiet.
        let mut retries_left = (rule.rounds * cells.len() / 4).max(2 * rule.retries_per_round);
        let rounds = rule.warm_up_rounds + rule.rounds;
        for round in 0..rounds {
            let kept_round = round.checked_sub(rule.warm_up_rounds);
            let content_seed = rng.next_u64();
            sampler.prepare(content_seed)?;
            let is_first_in_haste = self.deadline.is_some() && kept_round == Some(0);
            for index in order(&mut rng, cells.len(), is_first_in_haste) {
                let mut retries = match kept_round {
                    Some(_) if !is_first_in_haste => rule.retries_per_round.min(retries_left),
                    _ => 0,
                };
                while cells[index].failure.is_none() {
                    stop_if_ending();
                    let turn = Instant::now();
                    let is_late = self.deadline.is_some_and(|deadline| turn + last_turns[index] > deadline);
                    let cell = &mut cells[index];
                    if is_late
                        && let Some(found) = cell.disturbed.pop_if(|found| Some(found.round) == kept_round)
                    {
                        // There is no time for another run of this round.
                        cell.samples.push(found);
                        break;
                    }
                    let result = if is_late && !sampler.owes(index) {
                        Err(LabError::Unavailable("no time left".to_owned()))
                    } else {
                        sampler.sample(index)
                    };
                    last_turns[index] = turn.elapsed();
                    if let Some(line) = sampler.line(index, &result) {
                        writeln!(progress, "  {line}")?;
                        progress.flush()?;
                    }
                    let cell = &mut cells[index];
                    let (sample, kept_round) = match (result, kept_round) {
                        (Ok(sample), Some(round)) => (sample, round),
                        (Ok(_), None) => break,
                        (Err(error), _) => {
                            cell.failure = Some(error.to_string());
                            break;
                        }
                    };
                    let sample = Sample { seed: content_seed, round: kept_round, ..sample };
                    if !sample.is_disturbed || retries == 0 {
                        cell.samples.push(sample);
                        break;
                    }
                    cell.disturbed.push(sample);
                    retries -= 1;
                    retries_left -= 1;
                }
            }
            let left = began.elapsed().as_secs_f64() * (rounds - round - 1) as f64 / (round + 1) as f64;
            if left >= 1.0 || round + 1 == rounds {
                writeln!(progress, "  {}", self.round_line(kept_round, left, &cells))?;
                progress.flush()?;
            }
        }
        Ok(cells)
    }

    /// Returns a line about a round that is done, `left` seconds before the last one will be.
    fn round_line(&self, kept_round: Option<usize>, left: f64, cells: &[Cell]) -> String {
        let rounds = self.experiment.repetition.rounds;
        let name = kept_round
            .map_or_else(|| "warm-up".to_owned(), |round| format!("round {} of {rounds}", round + 1));
        let left = if left >= 1.0 { format!(", about {} left", duration(left)) } else { String::new() };
        let Runs { taken, disturbed } = cells.iter().map(Cell::runs).sum();
        let busy = match disturbed {
            0 => String::new(),
            _ => format!("; other work disturbed {disturbed} of {taken} runs"),
        };
        format!("{}: {name} done ({} cells){left}{busy}", self.experiment.id, cells.len())
    }
}

/// Returns the order of a round's turns: a new one, or that of the plan. Either takes the same numbers from `rng`.
fn order(rng: &mut Rng, cells: usize, is_by_plan: bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..cells).collect();
    rng.shuffle(&mut order);
    if is_by_plan {
        order.sort_unstable();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::super::{Experiment, Profile, RESAMPLING_SEED, Repetition, at};
    use super::*;
    use crate::stats::Centre;

    #[derive(Default)]
    struct Recorder {
        order: Vec<Vec<usize>>,
        seeds: Vec<u64>,
        disturbed: usize,
        owed: Option<usize>,
        failing: Option<usize>,
        /// The number of the run that outlasts a deadline.
        slow: Option<usize>,
    }

    impl Sampler for Recorder {
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
            if self.slow == Some(self.order.iter().map(Vec::len).sum()) {
                std::thread::sleep(HASTE);
            }
            let is_disturbed = self.disturbed > 0;
            self.disturbed = self.disturbed.saturating_sub(1);
            Ok(Sample::of([], is_disturbed))
        }

        fn owes(&self, cell: usize) -> bool {
            self.owed == Some(cell)
        }
    }

    fn plan(places: &[Coordinates], repetition: Repetition, seed: u64) -> Plan {
        let experiment = Experiment { repetition, ..Experiment::default() };
        Plan { experiment, places: places.to_vec(), seed, ..Plan::default() }
    }

    fn run(places: &[Coordinates], rule: Repetition, seed: u64, recorder: &mut Recorder) -> Vec<Cell> {
        plan(places, rule, seed).measure(recorder, &mut std::io::sink()).unwrap()
    }

    fn places() -> Vec<Coordinates> {
        ["a", "b", "c", "d"].map(|name| at([("cell", name)])).to_vec()
    }

    /// A time to a deadline.
    const HASTE: Duration = Duration::from_secs(2);

    const RULE: Repetition =
        Repetition { warm_up_rounds: 1, rounds: 4, retries_per_round: 2, centre: Centre::Median };

    /// By the paper's rule a cell is the mean of its samples.
    #[test]
    fn a_cell_is_what_the_rule_makes_of_its_samples() {
        for (profile, centre) in [(Profile::Full, Centre::Median), (Profile::Paper, Centre::Mean)] {
            let places = [at([("cell", "one")])];
            let cells = run(&places, profile.repetition(), 1, &mut Recorder::default());
            assert_eq!((cells[0].centre, cells[0].samples.len()), (centre, 10));
            let mut cell = cells[0].clone();
            cell.samples
                .iter_mut()
                .enumerate()
                .for_each(|(n, sample)| *sample = Sample::slice("x", (n * n) as f64, false));
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
        let cells = run(&places(), RULE, 3, &mut recorder);
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
        run(&places(), RULE, 11, &mut left);
        run(&places(), RULE, 11, &mut right);
        assert_eq!((left.order, left.seeds), (right.order, right.seeds));
    }

    #[test]
    fn a_failing_cell_is_tried_once_and_says_why() {
        let mut recorder = Recorder { failing: Some(2), ..Recorder::default() };
        let cells = run(&places(), RULE, 3, &mut recorder);
        assert_eq!(cells[2].failure.as_deref(), Some("broken"));
        assert!(cells[2].samples.is_empty());
        assert_eq!(recorder.order.iter().flatten().filter(|&&cell| cell == 2).count(), 1);
        assert_eq!(cells[1].samples.len(), 4);
    }

    #[test]
    fn disturbed_runs_are_repeated_within_bounds_and_kept() {
        let rule = Repetition { warm_up_rounds: 0, rounds: 1, ..RULE };
        let mut recorder = Recorder { disturbed: 4, ..Recorder::default() };
        let cells = run(&places()[..2], rule, 3, &mut recorder);
        let count = |cell: &Cell| (cell.samples.len(), cell.disturbed.len(), cell.samples[0].is_disturbed);
        let mut counts: Vec<_> = cells.iter().map(count).collect();
        counts.sort_unstable();
        // The first cell used up its retries and keeps a disturbed sample; the second needed one.
        assert_eq!(counts, [(1, 1, false), (1, 2, true)]);
    }

    /// On a machine that is never quiet each cell has a turn first, and its figure stays when the time is up.
    #[test]
    fn with_a_deadline_disturbed_runs_count() {
        let rule = Repetition { warm_up_rounds: 0, ..RULE };
        // The fifth run is the first of the second round.
        let mut recorder = Recorder { disturbed: usize::MAX, slow: Some(5), ..Recorder::default() };
        let plan = Plan { deadline: Some(Instant::now() + HASTE), ..plan(&places(), rule, 3) };
        let cells = plan.measure(&mut recorder, &mut std::io::sink()).unwrap();
        assert_eq!(recorder.order[0], [0, 1, 2, 3]);
        let counts: Vec<_> = cells.iter().map(|cell| (cell.samples.len(), cell.disturbed.len())).collect();
        assert_eq!(counts.iter().filter(|count| **count == (2, 0)).count(), 1, "{counts:?}");
        assert_eq!(counts.iter().filter(|count| **count == (1, 0)).count(), 3, "{counts:?}");
        assert!(cells.iter().all(|cell| cell.samples[0].is_disturbed && cell.failure.is_some()));
    }

    /// A cell that is required is run, and a peer that would end too late is skipped with a reason.
    #[test]
    fn after_the_deadline_only_what_is_owed_runs() {
        let mut recorder = Recorder { owed: Some(1), ..Recorder::default() };
        let late = Plan { deadline: Some(Instant::now()), ..plan(&places(), RULE, 3) };
        let mut told = Vec::new();
        let outcome = late.run(&mut recorder, &mut told, |cells| cells.truncate(2)).unwrap();
        let found: Vec<_> =
            outcome.cells.iter().map(|cell| (cell.samples.len(), cell.failure.clone())).collect();
        assert_eq!(found, [(0, Some("no time left".to_owned())), (4, None)]);
        assert!(String::from_utf8(told).unwrap().contains("round 4 of 4 done (4 cells)"));
    }
}
