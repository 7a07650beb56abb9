//! Experiments as data: axes, measures, repetition, published claims to check, and presentation.
//!
//! One type serves every study: copies by child processes, kernels and stacks in this process, simulations.
//! Guarantees: an experiment contains everything needed to run it again; all its samples are kept, disturbed ones
//! included; its claims are shapes (a ratio, an order, a slope), never absolute speeds.

pub mod assign;
mod claim;
pub mod derive;
mod measure;
mod plan;
mod runs;
mod sample;
mod schedule;
mod view;

pub use claim::{Claim, ClaimResult, Shape, Verdict, check};
pub use measure::{Better, CPU_PER_GIB, MEGABITS, Measure, Origin, RATE, WALL, Written, of_runs};
pub(crate) use plan::by;
pub use plan::{Plan, Sampler};
pub use runs::Runs;
pub use sample::{Copied, Found, Sample};
pub use view::{ANY, Drawn, Pivot, Plot, View};

use crate::stats::{Centre, Interval, Summary};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The time that a run of the lab may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// One run of each cell, as short as possible: it shows that everything works, and gives no meaningful figures.
    Smoke,
    /// Five short runs of each cell: enough for an interval, finished in minutes.
    #[default]
    Quick,
    /// Ten runs of each cell, by the rule of the five papers.
    Full,
    /// The rule of Nahum et al. (N25): a point is the mean of ten runs, each 30 s of steady state after 30 s of
    /// warming up. A cell takes ten minutes, so the needed parts should be named.
    Paper,
}

impl Profile {
    /// All profiles, the shortest first.
    pub const ALL: [Self; 4] = [Self::Smoke, Self::Quick, Self::Full, Self::Paper];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Smoke => "smoke",
            Self::Quick => "quick",
            Self::Full => "full",
            Self::Paper => "paper",
        }
    }

    /// Returns the number of runs of each cell.
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

    /// Returns the statistic that represents a cell's samples.
    pub fn centre(self) -> Centre {
        if self == Self::Paper { Centre::Mean } else { Centre::Median }
    }

    /// Returns the seconds of warming up and the least seconds of each run of a cell, if the profile determines them.
    pub fn run_seconds(self) -> Option<(f64, f64)> {
        (self == Self::Paper).then_some((30.0, 30.0))
    }
}

/// The rule of repetition. A round runs every cell once, in a new random order, so that drift of the machine affects
/// all cells alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repetition {
    /// Rounds whose samples are not kept.
    pub warm_up_rounds: usize,
    /// Rounds whose samples are kept.
    pub rounds: usize,
    /// The number of times a cell is repeated within a round because other work disturbed it.
    pub retries_per_round: usize,
    /// The statistic that represents the kept samples.
    #[serde(default, skip_serializing_if = "is_default")]
    pub centre: Centre,
}

/// An axis of the grid: one property that is varied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// The name, which is the key in [`Coordinates`].
    pub name: String,
    /// The values in the order of presentation.
    pub values: Vec<String>,
    /// The values in words, if a heading or a title needs more than the value.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<String>,
}

impl Axis {
    /// Returns an axis from printable values.
    pub fn new(name: &str, values: impl IntoIterator<Item = impl ToString>) -> Self {
        let values = values.into_iter().map(|value| value.to_string()).collect();
        Self { name: name.to_owned(), values, words: Vec::new() }
    }

    /// Returns the axis with each value in words.
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

/// The description of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Short name, stable between versions.
    pub id: String,
    /// The rows of the papers' inventory that it answers, such as "G11–G13".
    pub covers: String,
    /// The paper that it repeats, as cited; empty if there is none.
    pub paper: String,
    /// The title, on one line.
    pub title: String,
    /// Sentences on how to read the figures, and on the paper's own figures.
    pub notes: Vec<String>,
    /// Sentences on the subject and the method of measurement.
    pub method: Vec<String>,
    /// The axes. An axis without values has those of the cells.
    pub axes: Vec<Axis>,
    /// The measures of each cell; [`of_runs`] if empty.
    pub measures: Vec<Measure>,
    /// The data that is copied, if any.
    pub workload: String,
    /// The number of runs.
    pub repetition: Repetition,
    /// The claims to check.
    pub claims: Vec<Claim>,
    /// Its table.
    pub view: View,
    /// The plots of its cells, in the order of the report.
    pub plots: Vec<Plot>,
}

impl Experiment {
    /// Returns an experiment with this title. Its axes have the values of its cells.
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

    /// Returns the experiment with these notes.
    #[must_use]
    pub fn notes(self, notes: &[&str]) -> Self {
        Self { notes: notes.iter().map(|&note| note.to_owned()).collect(), ..self }
    }

    /// Returns the experiment of a paper.
    #[must_use]
    pub fn of(self, paper: &str) -> Self {
        Self { paper: paper.to_owned(), ..self }
    }

    /// Returns the experiment with these sentences on its method.
    #[must_use]
    pub fn method(self, method: &[&str]) -> Self {
        Self { method: method.iter().map(|&sentence| sentence.to_owned()).collect(), ..self }
    }

    /// Returns the experiment with these claims.
    #[must_use]
    pub fn claiming(self, claims: Vec<Claim>) -> Self {
        Self { claims, ..self }
    }

    /// Returns the experiment with this table and these plots.
    #[must_use]
    pub fn shown(self, view: View, plots: Vec<Plot>) -> Self {
        Self { view, plots, ..self }
    }

    /// Returns the measure of this id.
    pub fn measure(&self, id: &str) -> Measure {
        let own = self.measures.iter().find(|measure| measure.id == id).cloned();
        let usual = || of_runs().into_iter().find(|measure| measure.id == id);
        own.or_else(usual).unwrap_or_else(|| match id {
            MEGABITS => Measure::megabits(),
            _ => Measure::new(id, id),
        })
    }

    /// Checks a claim on `cells`. A figure with an interval is of runs or of a model: where it says neither how many runs stand
    /// behind it nor that it is predicted, nobody knows whether the machine was busy, and the claim is not decided.
    pub fn decide(&self, claim: &Claim, cells: &[Cell]) -> ClaimResult {
        let result = check(claim, cells);
        let is_of_nothing = |cell: &Cell| match cell.values.get(&claim.metric) {
            Some(Value::Range { low, high, .. }) => low < high && cell.runs().taken == 0,
            _ => false,
        };
        let is_decided =
            matches!(result.verdict, Verdict::Holds | Verdict::ByConstruction | Verdict::DoesNotHold);
        let is_predicted = self.measure(&claim.metric).origin == Origin::Predicted;
        let mut its_cells = claim.shape.places().into_iter().filter_map(|place| find(cells, place));
        if is_decided && !is_predicted && its_cells.any(is_of_nothing) {
            let note = "it is not known which runs stand behind a figure".to_owned();
            return ClaimResult { verdict: Verdict::NotDecidable, note, ..result };
        }
        result
    }

    /// Returns the values of an axis, in order.
    pub fn values(&self, axis: &str) -> &[String] {
        self.axes.iter().find(|one| one.name == axis).map_or(&[], |one| &one.values)
    }

    /// Returns a value of an axis in words.
    pub fn words<'a>(&'a self, axis: &str, value: &'a str) -> &'a str {
        let words = || {
            let axis = self.axes.iter().find(|one| one.name == axis)?;
            let at = axis.values.iter().position(|one| one == value)?;
            axis.words.get(at)
        };
        words().map_or(value, |words| words)
    }
}

/// A cell's value of a measure that is not computed from samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A figure.
    Number(f64),
    /// A figure that may lie anywhere in a range: an interval, or the result of stated guesses.
    Range {
        /// The assumed figure.
        value: f64,
        /// The lower end of the range.
        low: f64,
        /// The upper end of the range.
        high: f64,
    },
    /// A text as printed in a paper.
    Text(String),
}

impl Value {
    /// Returns a figure that is the same in every run, as a count is: claims about it are decided without samples.
    pub fn exact(value: f64) -> Self {
        Self::Range { value, low: value, high: value }
    }

    /// Returns the value as a number.
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

/// The role of a cell beside others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A figure of its own.
    #[default]
    Own,
    /// Computed from the cells before it, as a mean.
    Summary,
    /// A published figure, to show beside ours.
    Published,
}

/// The result of one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Its place.
    pub at: Coordinates,
    /// Its role beside others.
    #[serde(default, skip_serializing_if = "is_default")]
    pub role: Role,
    /// Samples that count, in the order taken.
    pub samples: Vec<Sample>,
    /// The statistic that represents them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub centre: Centre,
    /// Samples that were repeated because other work disturbed them.
    pub disturbed: Vec<Sample>,
    /// The runs behind its values that are not among its samples.
    #[serde(default, skip_serializing_if = "is_default")]
    pub behind: Runs,
    /// Figures that are not computed from samples, by measure.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Value>,
    /// The reason why it has no (further) samples.
    pub failure: Option<String>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Cell {
    /// Returns a cell without samples.
    pub fn new<'a>(place: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self { at: at(place), ..Self::default() }
    }

    /// Returns the cell with a figure. A value that is not a number is ignored.
    #[must_use]
    pub fn with(mut self, measure: &str, value: impl Into<Value>) -> Self {
        let value = value.into();
        if value.number().is_none_or(f64::is_finite) {
            self.values.insert(measure.to_owned(), value);
        }
        self
    }

    /// Returns the cell with a figure, if there is one.
    #[must_use]
    pub fn with_some(self, measure: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.with(measure, value),
            None => self,
        }
    }

    /// Returns the cell's place with other values on some axes.
    pub fn elsewhere(&self, others: &[(&str, &str)]) -> Coordinates {
        let mut place = self.at.clone();
        place.extend(others.iter().map(|&(axis, value)| (axis.to_owned(), value.to_owned())));
        place
    }

    /// Returns the values of its place in one line.
    pub(crate) fn name(&self) -> String {
        self.at.values().map(String::as_str).collect::<Vec<_>>().join(", ")
    }

    /// Returns the cell, whose values are computed from these runs too.
    #[must_use]
    pub fn behind(self, runs: Runs) -> Self {
        Self { behind: self.behind + runs, ..self }
    }

    /// Returns all runs behind its figures.
    pub fn runs(&self) -> Runs {
        let disturbed = self.samples.iter().filter(|sample| sample.is_disturbed).count();
        self.behind + Runs { taken: self.samples.len(), disturbed }
    }

    /// Returns whether so many of the runs behind its figures were disturbed that a reader should doubt them.
    pub fn is_doubtful(&self) -> bool {
        self.runs().are_doubtful()
    }

    /// Returns the cell with another role.
    #[must_use]
    pub fn of_role(self, role: Role) -> Self {
        Self { role, ..self }
    }

    /// Returns the cell's own value of the measure, or else those of its samples in the order taken.
    pub fn samples_of(&self, measure: &str) -> Vec<f64> {
        match self.values.get(measure) {
            Some(value) => value.number().into_iter().collect(),
            None => self.samples.iter().filter_map(|sample| sample.value(measure)).collect(),
        }
    }

    /// Returns the measure's summary, if there are samples.
    pub fn summary(&self, measure: &str) -> Option<Summary> {
        Summary::of(&self.samples_of(measure), RESAMPLING_SEED)
    }

    /// Returns the figure that represents the measure's samples.
    pub fn figure(&self, measure: &str) -> Option<f64> {
        self.centre.of(&self.samples_of(measure))
    }

    /// Returns the interval of the figure: its range, or the interval of its samples' centre.
    pub fn interval(&self, measure: &str) -> Option<Interval> {
        match self.values.get(measure) {
            Some(Value::Range { low, high, .. }) => Some(Interval { low: *low, high: *high }),
            Some(_) => None,
            None => self.centre.interval(&self.samples_of(measure), RESAMPLING_SEED),
        }
    }
}

/// Resampling always starts from the same seed, so that a report computed again from its own JSON is the same.
pub const RESAMPLING_SEED: u64 = 0x5ea1_a4e0;

/// The result of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The experiment as it was run.
    pub experiment: Experiment,
    /// The seed of orders and contents.
    pub seed: u64,
    /// The starting time in UTC.
    pub started: String,
    /// Wall time of the whole experiment.
    pub seconds: f64,
    /// The results, one for each place.
    pub cells: Vec<Cell>,
    /// The claims of the experiment, each with its verdict.
    pub claims: Vec<ClaimResult>,
    /// The omitted parts and the reasons.
    pub skipped: Vec<String>,
}

impl Outcome {
    /// Returns the outcome of these cells: axes without values get theirs, claims their verdicts.
    pub fn new(mut experiment: Experiment, cells: Vec<Cell>) -> Self {
        for axis in experiment.axes.iter_mut().filter(|axis| axis.values.is_empty()) {
            for value in cells.iter().filter_map(|cell| cell.at.get(&axis.name)) {
                if !axis.values.contains(value) {
                    axis.values.push(value.clone());
                }
            }
        }
        let claims = experiment.claims.iter().map(|claim| experiment.decide(claim, &cells)).collect();
        Self { experiment, cells, claims, ..Self::default() }
    }

    /// Returns the outcome with the values of an axis in words.
    #[must_use]
    pub fn in_words(mut self, axis: &str, words: impl Fn(&str) -> String) -> Self {
        for one in self.experiment.axes.iter_mut().filter(|one| one.name == axis) {
            *one = one.clone().in_words(&words);
        }
        self
    }

    /// Returns the least and the greatest number of samples of a cell that has any; `None` if none has.
    pub fn runs_taken(&self) -> Option<(usize, usize)> {
        let counts = || self.cells.iter().map(|cell| cell.samples.len()).filter(|count| *count > 0);
        Some((counts().min()?, counts().max()?))
    }

    /// Returns the numbers of cells that stand on disturbed runs, and of all that have runs.
    pub fn doubtful_cells(&self) -> Runs {
        let of = |cell: &Cell| Runs { taken: 1, disturbed: cell.is_doubtful().into() };
        self.cells.iter().filter(|cell| cell.runs().taken > 0).map(of).sum()
    }

    /// Returns the one cell whose coordinates include all of `place`.
    pub fn cell(&self, place: &Coordinates) -> Option<&Cell> {
        find(&self.cells, place)
    }
}

/// Returns the first cell whose coordinates include all of `place`.
pub fn find<'a>(cells: &'a [Cell], place: &Coordinates) -> Option<&'a Cell> {
    cells.iter().find(|cell| place.iter().all(|(axis, value)| cell.at.get(axis) == Some(value)))
}
