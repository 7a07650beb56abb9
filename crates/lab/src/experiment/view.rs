//! The presentation of cells: the table, and the plots beside it.

use serde::{Deserialize, Serialize};

/// The table of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum View {
    /// A row per cell: its place, then its measures.
    #[default]
    Cells,
    /// The same rows, and a bar per cell, within groups, best first.
    Bars {
        /// The axis with a group per value.
        groups: String,
        /// The axis whose value is the bar's name.
        names: String,
        /// The name that is highlighted: the product's own.
        own: String,
    },
    /// One measure, with one axis across.
    Pivot(Pivot),
    /// No table: the claims suffice.
    Claims,
}

/// A table of one measure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pivot {
    /// Axes with a row per existing combination of values.
    pub rows: Vec<String>,
    /// The axis with a column per value.
    pub columns: String,
    /// The measure of the entries.
    pub measure: String,
    /// Axes with a table per existing combination of values. The value [`ANY`] of a cell represents all values.
    #[serde(default)]
    pub blocks: Vec<String>,
    /// The heading of a column with the last column over the first.
    #[serde(default)]
    pub times: Option<String>,
    /// Rows with the ratio of two others.
    #[serde(default)]
    pub ratios: Vec<(String, String)>,
}

/// The value of an axis that represents all others, for figures that do not depend on it.
pub const ANY: &str = "none";

/// The kind of a plot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drawn {
    /// Bars side by side.
    #[default]
    Bars,
    /// Bars on top of each other.
    Stacked,
    /// A line for each series.
    Lines,
}

/// A plot of cells.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plot {
    /// The kind.
    pub drawn: Drawn,
    /// The title; the experiment's title if empty.
    #[serde(default)]
    pub title: String,
    /// Axis of the abscissa.
    pub over: String,
    /// Measures that are drawn.
    pub measures: Vec<String>,
    /// Axes with a line, or a bar in each group, per existing combination of values.
    #[serde(default)]
    pub series: Vec<String>,
    /// Axes with a plot per existing combination of values.
    #[serde(default)]
    pub plots: Vec<String>,
    /// The series by which all are divided.
    #[serde(default)]
    pub divisor: Option<String>,
    /// Whether published figures are drawn beside ours.
    #[serde(default)]
    pub published: bool,
    /// Whether the ordinate is logarithmic, if one bar would otherwise flatten the rest.
    #[serde(default)]
    pub logarithmic: bool,
    /// Whether the line of proportionality is drawn, on which twice the abscissa is twice the ordinate.
    #[serde(default)]
    pub ideal: bool,
}

impl Plot {
    /// Returns a plot of one measure: a line or bar per value of `series`.
    pub fn new(drawn: Drawn, over: &str, measure: &str, series: &[&str]) -> Self {
        Self {
            drawn,
            over: over.to_owned(),
            measures: vec![measure.to_owned()],
            series: series.iter().map(|&axis| axis.to_owned()).collect(),
            ..Self::default()
        }
    }

    /// Returns the plot with a title of its own.
    #[must_use]
    pub fn titled(self, title: &str) -> Self {
        Self { title: title.to_owned(), ..self }
    }

    /// Returns the plot with the paper's points beside ours.
    #[must_use]
    pub fn with_published(self) -> Self {
        Self { published: true, ..self }
    }

    /// Returns the plot with the line of perfect scaling.
    #[must_use]
    pub fn with_ideal(self) -> Self {
        Self { ideal: true, ..self }
    }

    /// Returns the plot with a logarithmic ordinate.
    #[must_use]
    pub fn logarithmic(self) -> Self {
        Self { logarithmic: true, ..self }
    }

    /// Returns one plot per value of an axis, of each plot that there is already.
    #[must_use]
    pub fn each(mut self, axis: &str) -> Self {
        self.plots.push(axis.to_owned());
        self
    }
}

impl View {
    /// Returns a bar per cell.
    pub fn bars(groups: &str, names: &str, own: &str) -> Self {
        Self::Bars { groups: groups.to_owned(), names: names.to_owned(), own: own.to_owned() }
    }

    /// Returns a table of one measure for each existing combination of values of these axes, if this is one.
    #[must_use]
    pub fn blocks(mut self, axes: &[&str]) -> Self {
        if let Self::Pivot(pivot) = &mut self {
            pivot.blocks = axes.iter().map(|&axis| axis.to_owned()).collect();
        }
        self
    }

    /// Returns a table of one measure.
    pub fn pivot(rows: &[&str], columns: &str, measure: &str) -> Self {
        Self::Pivot(Pivot {
            rows: rows.iter().map(|&axis| axis.to_owned()).collect(),
            columns: columns.to_owned(),
            measure: measure.to_owned(),
            ..Pivot::default()
        })
    }

    /// Returns a table of one measure, with a column of the last column over the first.
    pub fn pivot_with_times(rows: &[&str], columns: &str, measure: &str, heading: &str) -> Self {
        match Self::pivot(rows, columns, measure) {
            Self::Pivot(pivot) => Self::Pivot(Pivot { times: Some(heading.to_owned()), ..pivot }),
            other => other,
        }
    }
}
