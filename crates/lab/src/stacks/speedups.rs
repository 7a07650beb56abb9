//! Claims about the gain of lanes, in the paper's own words: “linear” and “good”.
//!
//! Guarantees: no claim asks for more than there are processors, or connections where each has one lane; a word without a
//! figure has a bound with its reason.

use super::rig::THREADS;
use super::{ALIKE, CONNECTIONS, Cell, Claim, lanes_of};
use sealane_lanes::available_lanes;

/// The paper's rate of TCP/IP by connections on one processor in Mb/s: 4 KB in the 226 µs of its Table 2.
const ONE_PROCESSOR_MEGABITS: f64 = 145.0;
/// The end of the axis of its figure 7.
const AXIS_MEGABITS: f64 = 1800.0;

/// Returns the gain of a cell's lanes if each adds what the first gives: of lanes beyond the processors, or beyond the
/// connections where each has one lane, nothing comes.
fn linear_gain(cell: &Cell, processors: usize) -> f64 {
    let lanes = lanes_of(cell).min(processors);
    let by_connection = cell.at.get("by").is_some_and(|by| by == "connection" || by == THREADS);
    let connections =
        || cell.at.get("connections").and_then(|count| count.parse().ok()).unwrap_or(CONNECTIONS);
    (if by_connection { lanes.min(connections()) } else { lanes }) as f64
}

fn words_of(cell: &Cell) -> String {
    format!("{}, {}, {} lanes", cell.at["stack"], cell.at["way"], cell.at["lanes"])
}

fn claim_on(
    processors: usize,
    source: &str,
    words: &str,
    cell: &Cell,
    bounds: impl Fn(f64) -> [Option<f64>; 2],
) -> Option<Claim> {
    let linear = linear_gain(cell, processors);
    let statement = format!("{}: {words}.", words_of(cell));
    (linear > 1.0).then(|| Claim::bound((statement, source), "times", cell.at.clone(), bounds(linear).into()))
}

/// Returns the claim that a cell's lanes gain linearly, within what the lab calls alike.
pub(super) fn linear(source: &str, papers: &str, cell: &Cell) -> Option<Claim> {
    let words = format!("the gain is linear within 10 % (the paper: “{papers}”)");
    let bounds = |linear| [ALIKE.0, ALIKE.1].map(|by| by.map(|by| by * linear));
    claim_on(available_lanes(), source, &words, cell, bounds)
}

/// Returns the claim that a cell's lanes gain well: at least half of the way to linear.
pub(super) fn good(source: &str, cell: &Cell) -> Option<Claim> {
    let words = format!(
        "the gain is at least half of the way to linear (the paper: “good”, and the axis of its figure 7 ends at {:.1} times one \
         processor's rate)",
        AXIS_MEGABITS / ONE_PROCESSOR_MEGABITS
    );
    claim_on(available_lanes(), source, &words, cell, |linear| [Some(1.0 + (linear - 1.0) / 2.0), None])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Value, Verdict, check};

    fn cell(lanes: &str, by: &str, times: f64) -> Cell {
        Cell::new([("stack", "s"), ("way", "send"), ("lanes", lanes), ("by", by), ("connections", "12")])
            .with("times", Value::exact(times))
    }

    #[test]
    fn what_gains_half_is_neither_linear_nor_good() {
        let verdict = |claim: Option<Claim>, cell: Cell| check(&claim.unwrap(), &[cell]).verdict;
        let on_16 = |times: f64| {
            let cell = cell("16", "connection", times);
            let bounds = |linear: f64| [Some(0.9 * linear), Some(1.1 * linear)];
            verdict(claim_on(16, "N31", "linear", &cell, bounds), cell)
        };
        // Sixteen lanes have twelve connections.
        assert_eq!(
            [6.0, 11.5, 16.0].map(on_16),
            [Verdict::DoesNotHold, Verdict::Holds, Verdict::DoesNotHold]
        );
        let two = |make: fn(&Cell) -> Option<Claim>, times: f64| {
            let cell = cell("2", "packet", times);
            make(&cell).map(|claim| verdict(Some(claim), cell))
        };
        if available_lanes() > 1 {
            let linear = |times| two(|cell| linear("N26", "near linear", cell), times).unwrap();
            let good = |times| two(|cell| good("N31", cell), times).unwrap();
            assert_eq!([1.4, 1.9].map(linear), [Verdict::DoesNotHold, Verdict::Holds]);
            assert_eq!([1.4, 1.6].map(good), [Verdict::DoesNotHold, Verdict::Holds]);
        }
    }

    #[test]
    fn one_lane_or_one_processor_claims_no_gain() {
        assert!(linear("N26", "", &cell("1", "packet", 1.0)).is_none());
        assert!(claim_on(1, "N31", "", &cell("4", "connection", 1.0), |_| [None, None]).is_none());
        assert_eq!(linear_gain(&cell("16", "packet", 1.0), 64), 16.0);
        assert_eq!(linear_gain(&cell("16", "packet", 1.0), 2), 2.0);
    }
}
