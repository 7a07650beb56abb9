//! Plans of experiments, and the samplers of their cells.

use super::{Cell, Coordinates, Experiment, Repetition, Sample};
use crate::LabError;
use std::time::Instant;

/// Takes the samples of an experiment's cells.
pub trait Sampler {
    /// Prepares a round with the seed of its random content; called before each round.
    ///
    /// # Errors
    /// One that ends the whole experiment.
    fn prepare(&mut self, _content_seed: u64) -> Result<(), LabError> {
        Ok(())
    }

    /// Takes one sample of the cell with index `cell`.
    ///
    /// # Errors
    /// One that ends this cell.
    fn sample(&mut self, cell: usize) -> Result<Sample, LabError>;

    /// Returns whether the cell is run even after the deadline.
    fn owes(&self, _cell: usize) -> bool {
        false
    }

    /// Returns a line of progress about a run; `None` if runs are too short for one.
    fn line(&self, _cell: usize, _result: &Result<Sample, LabError>) -> Option<String> {
        None
    }
}

/// A sampler that is a function of the cell's index.
pub(crate) struct By<F>(F);

/// Returns the sampler that takes each sample by a function.
pub(crate) fn by<F: FnMut(usize) -> Result<Sample, LabError>>(sample: F) -> By<F> {
    By(sample)
}

impl<F: FnMut(usize) -> Result<Sample, LabError>> Sampler for By<F> {
    fn sample(&mut self, cell: usize) -> Result<Sample, LabError> {
        self.0(cell)
    }
}

/// An experiment, the places of its cells, and the condition to stop.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The experiment, whose repetition rule applies.
    pub experiment: Experiment,
    /// Places of the cells.
    pub places: Vec<Coordinates>,
    /// Published figures, to show beside ours.
    pub beside: Vec<Cell>,
    /// The omitted parts and the reasons.
    pub skipped: Vec<String>,
    /// Seed of orders and contents.
    pub seed: u64,
    /// The deadline: no run starts later, nor one that by its previous duration would end later.
    pub deadline: Option<Instant>,
}

impl Plan {
    /// Returns the plan of these cells, with nothing beside them and no deadline.
    pub fn new(experiment: Experiment, places: Vec<Coordinates>, seed: u64) -> Self {
        Self { experiment, places, seed, ..Self::default() }
    }

    /// Returns the plan of cells that several tables will show.
    pub(crate) fn of_cells(
        id: impl Into<String>,
        repetition: Repetition,
        places: Vec<Coordinates>,
        seed: u64,
    ) -> Self {
        Self::new(Experiment { id: id.into(), repetition, ..Experiment::default() }, places, seed)
    }
}
