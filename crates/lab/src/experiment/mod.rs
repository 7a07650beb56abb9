//! Experiments as data: what is varied, what is copied, how often, and which published claim is at stake.
//!
//! Guarantees: an experiment says everything needed to run it again; every sample it gave is kept, disturbed ones
//! included; its claims are shapes (a ratio, an order, a slope), never absolute speeds.

mod claim;
mod schedule;

pub use claim::{Claim, ClaimResult, Shape, Verdict, check};
pub use schedule::{Runner, run};

use crate::stats::Summary;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How much time a run of the lab may take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Five short runs of each cell: enough for an interval, done in minutes.
    #[default]
    Quick,
    /// Ten runs of each cell, as the five papers' rule has it.
    Full,
    /// Thirty long runs of each cell, each as long as memory allows.
    Paper,
}

impl Profile {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
            Self::Paper => "paper",
        }
    }

    /// How often each cell runs.
    pub fn repetition(self) -> Repetition {
        let (warm_up_rounds, rounds) = match self {
            Self::Quick => (1, 5),
            Self::Full => (1, 10),
            Self::Paper => (2, 30),
        };
        Repetition { warm_up_rounds, rounds, retries_per_round: 2 }
    }
}

impl std::str::FromStr for Profile {
    type Err = crate::LabError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        [Self::Quick, Self::Full, Self::Paper].into_iter().find(|profile| profile.name() == word).ok_or_else(
            || crate::LabError::Unavailable(format!("no profile {word:?}; choose quick, full or paper")),
        )
    }
}

/// The rule of repetition. A round runs every cell once, in an order drawn afresh, so that drift of the machine falls
/// on all cells alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repetition {
    /// Rounds whose samples are not kept.
    pub warm_up_rounds: usize,
    /// Rounds whose samples are kept.
    pub rounds: usize,
    /// How often a cell is repeated within a round because something else disturbed it.
    pub retries_per_round: usize,
}

/// One thing that is varied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    /// Its name, which is the key in [`Coordinates`].
    pub name: String,
    /// Its values in the order they are shown.
    pub values: Vec<String>,
}

impl Axis {
    /// An axis from anything that prints.
    pub fn new(name: &str, values: impl IntoIterator<Item = impl ToString>) -> Self {
        Self { name: name.to_owned(), values: values.into_iter().map(|value| value.to_string()).collect() }
    }
}

/// A place in the grid: axis to value.
pub type Coordinates = BTreeMap<String, String>;

/// Builds [`Coordinates`] from pairs.
pub fn at<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Coordinates {
    pairs.into_iter().map(|(axis, value)| (axis.to_owned(), value.to_owned())).collect()
}

/// How a report shows the cells beside the plain table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum View {
    /// The layout of the study's results: a block for each `end` and `suite`, modes as rows, levels as columns. The axes
    /// are named `end`, `suite` (`none` for levels without cryptography), `mode` and `level`.
    LevelGrid,
    /// A bar for each cell, within groups, best first.
    Bars {
        /// Axis with a group for each value.
        groups: String,
        /// Axis whose value is the bar's name.
        names: String,
        /// The name that is set off: the product's own.
        own: String,
    },
    /// A line for each value of `lines` over `over`.
    Lines {
        /// Axis of the abscissa; its values are numbers.
        over: String,
        /// Axis with a line for each value.
        lines: String,
        /// Axis with a plot for each value.
        plots: Option<String>,
    },
    /// The plain table alone.
    #[default]
    Table,
}

/// What an experiment is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Short name, stable between versions.
    pub id: String,
    /// Rows of the papers' inventory it answers, such as "G11–G13".
    pub covers: String,
    /// The paper.
    pub paper: String,
    /// One line for people.
    pub title: String,
    /// What is measured and how, in sentences.
    pub method: Vec<String>,
    /// What is varied.
    pub axes: Vec<Axis>,
    /// What is copied.
    pub workload: String,
    /// How often.
    pub repetition: Repetition,
    /// What is at stake.
    pub claims: Vec<Claim>,
    /// How it is shown.
    pub view: View,
}

/// One run of one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Bytes of content copied.
    pub bytes: u64,
    /// Files copied.
    pub files: u64,
    /// Wall time that rates are computed from: that of the whole program, or of the measured end's work.
    pub wall_seconds: f64,
    /// Wall time as the program counts it, if it does.
    pub program_seconds: Option<f64>,
    /// CPU time of this end, if known apart.
    pub cpu_local_seconds: Option<f64>,
    /// CPU time of the far end, if known apart.
    pub cpu_remote_seconds: Option<f64>,
    /// CPU time of all processes of the measured ends.
    pub cpu_seconds: f64,
    /// CPU time others used meanwhile.
    pub other_cpu_seconds: f64,
    /// Time the hypervisor gave to others meanwhile.
    pub stolen_seconds: f64,
    /// Bytes sent more than once.
    pub resent_bytes: u64,
    /// Seed of the random content.
    pub seed: u64,
    /// Round it belongs to, from 0; warm-up rounds are not counted.
    pub round: usize,
    /// Whether other load disturbed it.
    pub is_disturbed: bool,
    /// Implementation that ran, as the program names it.
    pub tier: String,
}

/// What is computed of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// 10⁶ bytes per second of wall time.
    Rate,
    /// CPU seconds of all processes per GiB.
    CpuPerGib,
    /// Wall seconds.
    Wall,
}

impl Metric {
    /// Its unit for a heading.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Rate => "MB/s",
            Self::CpuPerGib => "CPU s/GiB",
            Self::Wall => "s",
        }
    }

    /// Whether more is better.
    pub fn is_better_high(self) -> bool {
        self == Self::Rate
    }

    /// Its value for `sample`; not finite where time or bytes are none.
    pub fn of(self, sample: &Sample) -> f64 {
        match self {
            Self::Rate => sample.bytes as f64 / 1e6 / sample.wall_seconds,
            Self::CpuPerGib => sample.cpu_seconds / (sample.bytes as f64 / f64::from(1 << 30)),
            Self::Wall => sample.wall_seconds,
        }
    }
}

/// What became of one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Its place.
    pub at: Coordinates,
    /// Samples that count, in the order taken.
    pub samples: Vec<Sample>,
    /// Samples repeated because something else disturbed them.
    pub disturbed: Vec<Sample>,
    /// Why it has no (further) samples.
    pub failure: Option<String>,
}

impl Cell {
    /// The metric's values in the order taken.
    pub fn values(&self, metric: Metric) -> Vec<f64> {
        self.samples.iter().map(|sample| metric.of(sample)).filter(|value| value.is_finite()).collect()
    }

    /// The metric's summary, if there are samples.
    pub fn summary(&self, metric: Metric) -> Option<Summary> {
        Summary::of(&self.values(metric), RESAMPLING_SEED)
    }
}

/// Resampling always starts from the same seed, so that a report computed again from its own JSON says the same.
pub const RESAMPLING_SEED: u64 = 0x5ea1_a4e0;

/// What became of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// The one cell whose coordinates include all of `place`.
    pub fn cell(&self, place: &Coordinates) -> Option<&Cell> {
        find(&self.cells, place)
    }
}

/// The first cell whose coordinates include all of `place`.
pub fn find<'a>(cells: &'a [Cell], place: &Coordinates) -> Option<&'a Cell> {
    cells.iter().find(|cell| place.iter().all(|(axis, value)| cell.at.get(axis) == Some(value)))
}
