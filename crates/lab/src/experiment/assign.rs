//! The samples of a study, taken by this process or by many: each cell of each round is a task for one of them.
//!
//! A study is run as ever, by its family's function; the assignment of the calling thread decides what the scheduler does
//! with the cells. So each study can be shared, and tables and claims are computed by the same code wherever the samples
//! come from.
//!
//! Guarantees: a task names the same cell in every process of the same build with the same request, and one that finds
//! another cell there refuses it; orders and contents are those of a run in one process.

use super::{Cell, Coordinates, Plan, Sample, Sampler};
use crate::LabError;
use crate::machine::Machine;
use crate::rng::Rng;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// One cell in one round.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Task {
    /// The index of the plan within the study's run.
    pub plan: usize,
    /// The index of the cell within the plan.
    pub cell: usize,
    /// The round of the run, from 0.
    pub round: usize,
    /// The id of the experiment.
    pub experiment: String,
    /// The place of the cell.
    pub at: Coordinates,
}

/// The result of a task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Taken {
    /// The sample that counts.
    pub sample: Option<Sample>,
    /// Samples that were repeated because other work disturbed them.
    pub disturbed: Vec<Sample>,
    /// The reason why there is no sample.
    pub failure: Option<String>,
    /// The machine that took it.
    pub machine: Machine,
}

/// The scheduler's way with the cells.
enum Assignment {
    /// It notes the tasks, and takes no sample.
    List(Vec<Task>),
    /// It takes the sample of one task.
    One(Task, Option<Box<Taken>>),
    /// It fills in samples that were taken elsewhere.
    Fill(BTreeMap<Task, Taken>),
}

#[derive(Default)]
struct Assigned {
    assignment: Option<Assignment>,
    /// The number of plans that have been measured.
    plans: usize,
}

thread_local! {
    static ASSIGNED: RefCell<Assigned> = RefCell::default();
}

/// Runs a study under an assignment, and returns what became of both.
fn under<T>(assignment: Assignment, study: impl FnOnce() -> T) -> (T, Option<Assignment>) {
    ASSIGNED.set(Assigned { assignment: Some(assignment), plans: 0 });
    let outcome = study();
    (outcome, ASSIGNED.take().assignment)
}

/// Returns the tasks of a study, which takes no samples meanwhile.
///
/// # Errors
/// The study cannot be run here.
pub fn list<T>(study: impl FnOnce() -> Result<T, LabError>) -> Result<Vec<Task>, LabError> {
    match under(Assignment::List(Vec::new()), study) {
        (Ok(_), Some(Assignment::List(tasks))) => Ok(tasks),
        (outcome, _) => outcome.map(|_| Vec::new()),
    }
}

/// Takes the sample of one task of a study.
pub fn take<T>(task: &Task, study: impl FnOnce() -> Result<T, LabError>) -> Taken {
    let failed = |why: String| Taken { failure: Some(why), machine: Machine::describe(), ..Taken::default() };
    match under(Assignment::One(task.clone(), None), study) {
        (_, Some(Assignment::One(_, Some(taken)))) => *taken,
        (Err(error), _) => failed(error.to_string()),
        (Ok(_), _) => {
            failed("this host does not have the cell: its programs or its processors differ".to_owned())
        }
    }
}

/// Runs a study with samples that were taken elsewhere.
///
/// # Errors
/// The study cannot be run here.
pub fn fill<T>(
    taken: BTreeMap<Task, Taken>,
    study: impl FnOnce() -> Result<T, LabError>,
) -> Result<T, LabError> {
    under(Assignment::Fill(taken), study).0
}

/// Measures a plan as the thread's assignment has it; `None` if it has none, so that the scheduler measures.
pub(super) fn measure(plan: &Plan, sampler: &mut dyn Sampler) -> Option<Result<Vec<Cell>, LabError>> {
    let (mut assignment, number) = ASSIGNED.with_borrow_mut(|assigned| {
        let number = assigned.plans;
        assigned.plans += 1;
        Some((assigned.assignment.take()?, number))
    })?;
    let outcome = match &mut assignment {
        Assignment::List(tasks) => {
            tasks.extend(tasks_of(plan, number));
            Ok(())
        }
        // Nothing that comes later is needed.
        Assignment::One(_, Some(_)) => Err(LabError::Taken),
        Assignment::One(task, taken) if task.plan == number => {
            *taken = Some(Box::new(one(plan, task, sampler)));
            Err(LabError::Taken)
        }
        Assignment::One(..) | Assignment::Fill(_) => Ok(()),
    };
    let cells = outcome.map(|()| cells(plan, number, &assignment));
    ASSIGNED.with_borrow_mut(|assigned| assigned.assignment = Some(assignment));
    Some(cells)
}

fn tasks_of(plan: &Plan, number: usize) -> impl Iterator<Item = Task> + '_ {
    let experiment = &plan.experiment;
    let task = move |round, cell| Task {
        plan: number,
        cell,
        round,
        experiment: experiment.id.clone(),
        at: plan.places[cell].clone(),
    };
    (0..experiment.repetition.rounds)
        .flat_map(move |round| (0..plan.places.len()).map(move |cell| task(round, cell)))
}

/// Returns the plan's cells with the samples that the assignment has for them.
fn cells(plan: &Plan, number: usize, assignment: &Assignment) -> Vec<Cell> {
    let centre = plan.experiment.repetition.centre;
    let empty = |at: &Coordinates| Cell { at: at.clone(), centre, ..Cell::default() };
    let mut cells: Vec<Cell> = plan.places.iter().map(empty).collect();
    let Assignment::Fill(all) = assignment else { return cells };
    for task in tasks_of(plan, number) {
        let cell = &mut cells[task.cell];
        match all.get(&task) {
            Some(taken) => {
                cell.samples.extend(taken.sample.clone());
                cell.disturbed.extend(taken.disturbed.iter().cloned());
                cell.failure = cell.failure.take().or_else(|| taken.failure.clone());
            }
            None => cell.failure = Some("no host took it".to_owned()),
        }
    }
    cells
}

/// Takes one sample, with the contents of its round, after a warm-up if the rule has one.
fn one(plan: &Plan, task: &Task, sampler: &mut dyn Sampler) -> Taken {
    let mut taken = Taken { machine: Machine::describe(), ..Taken::default() };
    let is_there = plan.experiment.id == task.experiment && plan.places.get(task.cell) == Some(&task.at);
    if !is_there {
        taken.failure = Some(format!("this host has another cell in the place of {:?}", task.at));
        return taken;
    }
    if let Err(error) = sample(plan, task, sampler, &mut taken) {
        taken.failure = Some(error.to_string());
    }
    taken
}

fn sample(plan: &Plan, task: &Task, sampler: &mut dyn Sampler, taken: &mut Taken) -> Result<(), LabError> {
    let rule = plan.experiment.repetition;
    let content_seed = content_seed(plan, rule.warm_up_rounds + task.round);
    sampler.prepare(content_seed)?;
    if rule.warm_up_rounds > 0 {
        sampler.sample(task.cell)?;
    }
    for retries_left in (0..=rule.retries_per_round).rev() {
        let found = sampler.sample(task.cell)?;
        let found = Sample { seed: content_seed, round: task.round, ..found };
        if !found.is_disturbed || retries_left == 0 {
            taken.sample = Some(found);
            break;
        }
        taken.disturbed.push(found);
    }
    Ok(())
}

/// Returns the seed of a round's contents, as the scheduler draws it.
fn content_seed(plan: &Plan, round: usize) -> u64 {
    let mut rng = Rng::new(plan.seed);
    let mut seed = rng.next_u64();
    for _ in 0..round {
        let mut order: Vec<usize> = (0..plan.places.len()).collect();
        rng.shuffle(&mut order);
        seed = rng.next_u64();
    }
    seed
}

#[cfg(test)]
mod tests {
    use super::super::{Experiment, Repetition, at};
    use super::*;

    /// A study whose sample is computed from the content of its round and the cell.
    #[derive(Default)]
    struct Computed {
        seed: u64,
        samples: usize,
    }

    impl Sampler for Computed {
        fn prepare(&mut self, content_seed: u64) -> Result<(), LabError> {
            self.seed = content_seed;
            Ok(())
        }

        fn sample(&mut self, cell: usize) -> Result<Sample, LabError> {
            self.samples += 1;
            if cell == 1 {
                return Err(LabError::Unavailable("it is broken".to_owned()));
            }
            Ok(Sample::slice("x", (self.seed >> 40) as f64 + cell as f64, false))
        }
    }

    fn study(sampler: &mut Computed) -> Result<Vec<Cell>, LabError> {
        let mut all = Vec::new();
        for (id, cells) in [("one", 3), ("other", 2)] {
            let repetition =
                Repetition { warm_up_rounds: 1, rounds: 3, retries_per_round: 1, ..Repetition::default() };
            let experiment = Experiment { id: id.to_owned(), repetition, ..Experiment::default() };
            let places = (0..cells).map(|cell: usize| at([("cell", &*cell.to_string())])).collect();
            let plan = Plan { experiment, places, seed: 5, ..Plan::default() };
            all.extend(plan.measure(sampler, &mut std::io::sink())?);
        }
        Ok(all)
    }

    #[test]
    fn shared_tasks_give_the_cells_of_one_run() {
        let alone = study(&mut Computed::default()).unwrap();
        let mut lister = Computed::default();
        let tasks = list(|| study(&mut lister)).unwrap();
        assert_eq!((tasks.len(), lister.samples), (15, 0));
        let mut taken = BTreeMap::new();
        for task in tasks.iter().rev() {
            let mut worker = Computed::default();
            let found = take(task, || study(&mut worker));
            assert!(worker.samples <= 2, "{}", worker.samples);
            let text = serde_json::to_string(&found).unwrap();
            assert_eq!(serde_json::from_str::<Taken>(&text).unwrap(), found);
            taken.insert(task.clone(), found);
        }
        assert_eq!(fill(taken, || study(&mut Computed::default())).unwrap(), alone);
        // Afterwards the scheduler measures by itself again.
        assert_eq!(study(&mut Computed::default()).unwrap(), alone);
    }

    #[test]
    fn a_cell_that_is_another_here_is_refused() {
        let task =
            Task { plan: 1, cell: 0, round: 0, experiment: "other".to_owned(), at: at([("cell", "7")]) };
        let other = Task { plan: 9, ..task.clone() };
        for task in [task, other] {
            let taken = take(&task, || study(&mut Computed::default()));
            assert!(taken.sample.is_none() && taken.failure.is_some_and(|why| why.contains("this host")));
        }
        let missing = fill(BTreeMap::new(), || study(&mut Computed::default())).unwrap();
        assert!(missing.iter().all(|cell| cell.failure.is_some()));
    }
}
