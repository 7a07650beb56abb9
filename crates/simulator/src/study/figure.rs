//! [`Figure`]: a table of numbers, and the form in which it is drawn.

use serde::Serialize;

/// The form in which a figure is drawn besides its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Only the table.
    Table,
    /// A bar per row and column, side by side.
    Bars,
    /// A bar per row, with its columns on top of each other.
    Stacked,
    /// A line per row over the columns.
    Lines,
}

/// A table of numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The subject, and the number of the paper's figure or table.
    pub title: String,
    /// Guidance for the reader.
    pub note: &'static str,
    /// The form in which it is drawn.
    pub kind: Kind,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// A name, and for each column a number or nothing.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
}
