//! Claims on two cells, and their bounds.

use crate::experiment::{Cell, Claim};

/// Returns the bounds of at least `low`.
pub(super) const fn at_least(low: f64) -> (Option<f64>, Option<f64>) {
    (Some(low), None)
}

/// Returns a claim on the first cell over the second.
pub(super) fn ratio(
    source: &str,
    statement: String,
    measure: &str,
    [top, bottom]: [&Cell; 2],
    bounds: (Option<f64>, Option<f64>),
) -> Claim {
    Claim::ratio((statement, source), measure, (top.at.clone(), bottom.at.clone()), bounds)
}
