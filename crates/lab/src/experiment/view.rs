//! How cells are shown: as which table, and as which plots beside it.

use serde::{Deserialize, Serialize};

/// The table of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum View {
    /// A row for each cell: its place, then its measures.
    #[default]
    Cells,
    /// The same, and a bar for each cell, within groups, best first.
    Bars {
        /// Axis with a group for each value.
        groups: String,
        /// Axis whose value is the bar's name.
        names: String,
        /// The name that is set off: the product's own.
        own: String,
    },
    /// One measure, one axis across.
    Pivot(Pivot),
    /// None: the claims say it all.
    Claims,
}

/// A table of one measure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pivot {
    /// Axes with a row for each combination that there is.
    pub rows: Vec<String>,
    /// Axis with a column for each value.
    pub columns: String,
    /// What stands in it.
    pub measure: String,
    /// Axes with a table for each combination that there is. The value [`ANY`] of a cell stands for all.
    #[serde(default)]
    pub blocks: Vec<String>,
    /// Heading of a column with the last column over the first.
    #[serde(default)]
    pub times: Option<String>,
    /// Rows with the ratio of two others.
    #[serde(default)]
    pub ratios: Vec<(String, String)>,
}

/// The value of an axis that stands for all others: what does not depend on it.
pub const ANY: &str = "none";

/// How a plot is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drawn {
    /// Bars side by side.
    #[default]
    Bars,
    /// Bars on top of each other.
    Stacked,
    /// Lines.
    Lines,
}

/// A plot of cells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plot {
    /// How.
    pub drawn: Drawn,
    /// What it shows; the experiment's title if empty.
    #[serde(default)]
    pub title: String,
    /// Axis of the abscissa.
    pub over: String,
    /// Measures that are drawn.
    pub measures: Vec<String>,
    /// Axes with a line, or a bar in each group, for each combination that there is.
    #[serde(default)]
    pub series: Vec<String>,
    /// Axes with a plot for each combination that there is.
    #[serde(default)]
    pub plots: Vec<String>,
    /// The series by which all are divided.
    #[serde(default)]
    pub divisor: Option<String>,
    /// Whether printed figures are drawn beside ours.
    #[serde(default)]
    pub published: bool,
    /// Whether the ordinate is logarithmic, where one bar would flatten the rest.
    #[serde(default)]
    pub logarithmic: bool,
    /// Whether the line is drawn on which twice the abscissa is twice the ordinate.
    #[serde(default)]
    pub ideal: bool,
}

impl Plot {
    /// A plot of one measure: a line or bar for each value of `series`.
    pub fn new(drawn: Drawn, over: &str, measure: &str, series: &[&str]) -> Self {
        Self {
            drawn,
            over: over.to_owned(),
            measures: vec![measure.to_owned()],
            series: series.iter().map(|&axis| axis.to_owned()).collect(),
            ..Self::default()
        }
    }

    /// Under a title of its own.
    #[must_use]
    pub fn titled(self, title: &str) -> Self {
        Self { title: title.to_owned(), ..self }
    }

    /// With the paper's points beside ours.
    #[must_use]
    pub fn with_published(self) -> Self {
        Self { published: true, ..self }
    }

    /// With the line that perfect scaling would draw.
    #[must_use]
    pub fn with_ideal(self) -> Self {
        Self { ideal: true, ..self }
    }

    /// With a logarithmic ordinate.
    #[must_use]
    pub fn logarithmic(self) -> Self {
        Self { logarithmic: true, ..self }
    }

    /// One for each value of an axis.
    #[must_use]
    pub fn each(self, axis: &str) -> Self {
        Self { plots: vec![axis.to_owned()], ..self }
    }
}

impl View {
    /// A table of one measure.
    pub fn pivot(rows: &[&str], columns: &str, measure: &str) -> Self {
        Self::Pivot(Pivot {
            rows: rows.iter().map(|&axis| axis.to_owned()).collect(),
            columns: columns.to_owned(),
            measure: measure.to_owned(),
            ..Pivot::default()
        })
    }

    /// The same with the last column over the first.
    pub fn pivot_with_times(rows: &[&str], columns: &str, measure: &str, heading: &str) -> Self {
        match Self::pivot(rows, columns, measure) {
            Self::Pivot(pivot) => Self::Pivot(Pivot { times: Some(heading.to_owned()), ..pivot }),
            other => other,
        }
    }
}
