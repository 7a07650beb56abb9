//! Experiments as data: what is varied, what is measured, how often, which published claim is at stake, how it is shown.
//!
//! One value serves every study: copies by child processes, kernels and stacks in this one, simulations. Guarantees: an
//! experiment says everything needed to run it again; every sample it gave is kept, disturbed ones included; its claims
//! are shapes (a ratio, an order, a slope), never absolute speeds.

mod claim;
pub mod derive;
mod measure;
mod sample;
mod schedule;
mod view;

pub use claim::{Claim, ClaimResult, Shape, Verdict, check};
pub use measure::{Better, CPU_PER_GIB, MEGABITS, Measure, Origin, RATE, WALL, Written, of_runs};
pub use sample::{Copied, Found, Sample};
pub use schedule::{Plan, Sampler};
pub use view::{ANY, Drawn, Pivot, Plot, View};

use crate::stats::{Centre, Interval, Summary};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How much time a run of the lab may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// One run of each cell, as short as can be: whether everything works, and no figure that means anything.
    Smoke,
    /// Five short runs of each cell: enough for an interval, done in minutes.
    #[default]
    Quick,
    /// Ten runs of each cell, as the five papers' rule has it.
    Full,
    /// N25, the rule of Nahum et al.: a point is the mean of ten runs, each 30 s of steady state after 30 s of warming
    /// up. A cell takes ten minutes, so one names the parts that are wanted.
    Paper,
}

impl Profile {
    /// All of them, the shortest first.
    pub const ALL: [Self; 4] = [Self::Smoke, Self::Quick, Self::Full, Self::Paper];

    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Quick => "quick",
            Self::Full => "full",
            Self::Paper => "paper",
        }
    }

    /// How often each cell runs.
    pub fn repetition(self) -> Repetition {
        let (warm_up_rounds, rounds) = match self {
            Self::Smoke => (0, 1),
            Self::Quick => (1, 5),
            Self::Full => (1, 10),
            // Each run warms up on its own.
            Self::Paper => (0, 10),
        };
        Repetition { warm_up_rounds, rounds, retries_per_round: 2, centre: self.centre() }
    }

    /// What stands for a cell's samples.
    pub fn centre(self) -> Centre {
        if self == Self::Paper { Centre::Mean } else { Centre::Median }
    }

    /// How long each run of a cell warms up, and how long it then lasts at least, where a study can say so.
    pub fn run_seconds(self) -> Option<(f64, f64)> {
        (self == Self::Paper).then_some((30.0, 30.0))
    }
}

/// The rule of repetition. A round runs every cell once, in an order drawn afresh, so that drift of the machine falls
/// on all cells alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repetition {
    /// Rounds whose samples are not kept.
    pub warm_up_rounds: usize,
    /// Rounds whose samples are kept.
    pub rounds: usize,
    /// How often a cell is repeated within a round because something else disturbed it.
    pub retries_per_round: usize,
    /// What stands for the samples that are kept.
    #[serde(default, skip_serializing_if = "is_default")]
    pub centre: Centre,
}

/// One thing that is varied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// Its name, which is the key in [`Coordinates`].
    pub name: String,
    /// Its values in the order they are shown.
    pub values: Vec<String>,
    /// The same in words, where a heading or a title says more than the value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
}

impl Axis {
    /// An axis from anything that prints.
    pub fn new(name: &str, values: impl IntoIterator<Item = impl ToString>) -> Self {
        let values = values.into_iter().map(|value| value.to_string()).collect();
        Self { name: name.to_owned(), values, words: Vec::new() }
    }

    /// The same, with each value in words.
    #[must_use]
    pub fn in_words(mut self, words: impl Fn(&str) -> String) -> Self {
        self.words = self.values.iter().map(|value| words(value)).collect();
        self
    }
}

/// A place in the grid: axis to value.
pub type Coordinates = BTreeMap<String, String>;

/// Builds [`Coordinates`] from pairs.
pub fn at<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Coordinates {
    pairs.into_iter().map(|(axis, value)| (axis.to_owned(), value.to_owned())).collect()
}

/// What an experiment is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Short name, stable between versions.
    pub id: String,
    /// Rows of the papers' inventory it answers, such as "G11–G13".
    pub covers: String,
    /// The paper.
    pub paper: String,
    /// One line for people.
    pub title: String,
    /// How to read the figures, and what the paper says of its own, in sentences.
    pub notes: Vec<String>,
    /// What is measured and how, in sentences.
    pub method: Vec<String>,
    /// What is varied. An axis without values has those of the cells.
    pub axes: Vec<Axis>,
    /// What is found of each cell; [`of_runs`] if empty.
    pub measures: Vec<Measure>,
    /// What is copied, where something is.
    pub workload: String,
    /// How often.
    pub repetition: Repetition,
    /// What is at stake.
    pub claims: Vec<Claim>,
    /// Its table.
    pub view: View,
    /// Its plots.
    pub plots: Vec<Plot>,
}

impl Experiment {
    /// One with a title and notes. Its axes have the values of its cells.
    pub fn new(id: &str, covers: &str, title: &str, axes: &[&str], measures: Vec<Measure>) -> Self {
        Self {
            id: id.to_owned(),
            covers: covers.to_owned(),
            title: title.to_owned(),
            axes: axes.iter().map(|&name| Axis { name: name.to_owned(), ..Axis::default() }).collect(),
            measures,
            ..Self::default()
        }
    }

    /// With these notes.
    #[must_use]
    pub fn notes(self, notes: &[&str]) -> Self {
        Self { notes: notes.iter().map(|&note| note.to_owned()).collect(), ..self }
    }

    /// Shown so.
    #[must_use]
    pub fn shown(self, view: View, plots: Vec<Plot>) -> Self {
        Self { view, plots, ..self }
    }

    /// The measure of this id.
    pub fn measure(&self, id: &str) -> Measure {
        let own = self.measures.iter().find(|measure| measure.id == id).cloned();
        let usual = || of_runs().into_iter().find(|measure| measure.id == id);
        own.or_else(usual).unwrap_or_else(|| match id {
            MEGABITS => Measure { better: Better::High, ..Measure::new(MEGABITS, "Mb/s") }.unit("Mb/s"),
            _ => Measure::new(id, id),
        })
    }

    /// Values of an axis, in order.
    pub fn values(&self, axis: &str) -> &[String] {
        self.axes.iter().find(|one| one.name == axis).map_or(&[], |one| &one.values)
    }

    /// A value of an axis in words.
    pub fn words<'a>(&'a self, axis: &str, value: &'a str) -> &'a str {
        let words = || {
            let axis = self.axes.iter().find(|one| one.name == axis)?;
            let at = axis.values.iter().position(|one| one == value)?;
            axis.words.get(at)
        };
        words().map_or(value, |words| words)
    }
}

/// What a cell has of a measure, where that is not computed of samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A figure.
    Number(f64),
    /// A figure that may lie anywhere in a range: an interval, or what stated guesses make of it.
    Range {
        /// As it is taken.
        value: f64,
        /// The least.
        low: f64,
        /// The most.
        high: f64,
    },
    /// As printed in a paper.
    Text(String),
}

impl Value {
    /// As a number.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(value) | Self::Range { value, .. } => Some(*value),
            Self::Text(_) => None,
        }
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// What a cell is beside others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A figure of its own.
    #[default]
    Own,
    /// Made of the cells before it: a mean.
    Summary,
    /// Printed elsewhere, to stand beside ours.
    Published,
}

/// What became of one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Its place.
    pub at: Coordinates,
    /// What it is beside others.
    #[serde(default, skip_serializing_if = "is_default")]
    pub role: Role,
    /// Samples that count, in the order taken.
    pub samples: Vec<Sample>,
    /// What stands for them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub centre: Centre,
    /// Samples repeated because something else disturbed them.
    pub disturbed: Vec<Sample>,
    /// Figures that are not computed of samples, by measure.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Value>,
    /// Why it has no (further) samples.
    pub failure: Option<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Cell {
    /// A cell without samples.
    pub fn new<'a>(place: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self { at: at(place), ..Self::default() }
    }

    /// With a figure. What is no number is not there.
    #[must_use]
    pub fn with(mut self, measure: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        if value.number().is_none_or(f64::is_finite) {
            self.values.insert(measure.to_owned(), value);
        }
        self
    }

    /// With a figure, if there is one.
    #[must_use]
    pub fn with_some(self, measure: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(measure, value),
            None => self,
        }
    }

    /// As another role.
    #[must_use]
    pub fn of_role(self, role: Role) -> Self {
        Self { role, ..self }
    }

    /// The measure's values in the order taken; one where it was not sampled.
    pub fn samples_of(&self, measure: &str) -> Vec<f64> {
        match self.values.get(measure) {
            Some(value) => value.number().into_iter().collect(),
            None => self.samples.iter().filter_map(|sample| sample.value(measure)).collect(),
        }
    }

    /// The measure's summary, if there are samples.
    pub fn summary(&self, measure: &str) -> Option<Summary> {
        Summary::of(&self.samples_of(measure), RESAMPLING_SEED)
    }

    /// What stands for the measure's samples.
    pub fn figure(&self, measure: &str) -> Option<f64> {
        self.centre.of(&self.samples_of(measure))
    }

    /// Where the figure may lie: its range, or the interval of its samples' centre.
    pub fn interval(&self, measure: &str) -> Option<Interval> {
        match self.values.get(measure) {
            Some(Value::Range { low, high, .. }) => Some(Interval { low: *low, high: *high }),
            Some(_) => None,
            None => self.centre.interval(&self.samples_of(measure), RESAMPLING_SEED),
        }
    }
}

/// Resampling always starts from the same seed, so that a report computed again from its own JSON says the same.
pub const RESAMPLING_SEED: u64 = 0x5ea1_a4e0;

/// What became of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The experiment as it was run.
    pub experiment: Experiment,
    /// Seed of the orders and of the contents.
    pub seed: u64,
    /// When it started, UTC.
    pub started: String,
    /// Wall time of the whole experiment.
    pub seconds: f64,
    /// Its cells.
    pub cells: Vec<Cell>,
    /// Its claims.
    pub claims: Vec<ClaimResult>,
    /// What was left out and why.
    pub skipped: Vec<String>,
}

impl Outcome {
    /// What these cells make of the experiment: axes without values get theirs, claims their verdicts.
    pub fn new(mut experiment: Experiment, cells: Vec<Cell>) -> Self {
        for axis in experiment.axes.iter_mut().filter(|axis| axis.values.is_empty()) {
            for value in cells.iter().filter_map(|cell| cell.at.get(&axis.name)) {
                if !axis.values.contains(value) {
                    axis.values.push(value.clone());
                }
            }
        }
        let claims = experiment.claims.iter().map(|claim| check(claim, &cells)).collect();
        Self { experiment, cells, claims, ..Self::default() }
    }

    /// With the values of an axis in words.
    #[must_use]
    pub fn in_words(mut self, axis: &str, words: impl Fn(&str) -> String) -> Self {
        for one in self.experiment.axes.iter_mut().filter(|one| one.name == axis) {
            *one = one.clone().in_words(&words);
        }
        self
    }

    /// The one cell whose coordinates include all of `place`.
    pub fn cell(&self, place: &Coordinates) -> Option<&Cell> {
        find(&self.cells, place)
    }
}

/// The first cell whose coordinates include all of `place`.
pub fn find<'a>(cells: &'a [Cell], place: &Coordinates) -> Option<&'a Cell> {
    cells.iter().find(|cell| place.iter().all(|(axis, value)| cell.at.get(axis) == Some(value)))
}
