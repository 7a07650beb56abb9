//! Predicts the gain of more lanes, by the model fitted to few lanes measured here, or by the paper's table.
//!
//! Guarantees: beside a prediction stands what was measured of it, or that nothing was; the fit has not seen what tests it;
//! beyond four times the measured lanes nothing is predicted.

use super::model::{BEYOND_MAX, Costs, FITTED_MAX, Fit};
use super::rig::{Direction, Setup};
use super::{Bench, STACKS, interval_of, paper};
use crate::LabError;
use crate::experiment::{Cell, Drawn, Experiment, Measure, Outcome, Plot, RATE, Runs, Value, View};
use crate::report::Report;
use crate::report::number::{counted, quantity, ratio};
use crate::request::Request;
use crate::studies::NDSS_TITLE;
use sealane_transform::Tier;
use std::io::Write;

/// The processors to which the paper extrapolates.
pub(super) const PAPERS_LANES_MAX: usize = 30;
/// The measure that says what a prediction stands on.
pub(super) const BASIS: &str = "basis";

/// Returns MB/s.
pub(super) fn megabytes(messages_per_second: f64, message_bytes: usize) -> f64 {
    messages_per_second * message_bytes as f64 / 1e6
}

/// Returns what a prediction for measured lanes stands on.
pub(super) fn basis(lanes: usize) -> &'static str {
    if lanes <= FITTED_MAX { "fitted" } else { "tested" }
}

/// Returns a cell's rate over the predicted one.
pub(super) fn reached(cell: &Cell, predicted: f64) -> Option<Value> {
    let [value, low, high] = interval_of(cell, RATE)?.map(|rate| rate / predicted);
    Some(Value::Range { value, low, high })
}

/// Fits the model to cells by their lanes; `connections` if each connection has one lane.
pub(super) fn fit<'a>(
    cells: impl Iterator<Item = (usize, &'a Cell)>,
    message_bytes: usize,
    connections: Option<usize>,
) -> Option<Fit> {
    let cells: Vec<(usize, &Cell)> = cells.collect();
    let of = |measure: &str, times: f64| -> Vec<(usize, f64)> {
        cells.iter().filter_map(|(lanes, cell)| Some((*lanes, cell.figure(measure)? * times))).collect()
    };
    Fit::of(&of(RATE, 1e6 / message_bytes as f64), &of("locked_ns", 1.0), connections)
}

/// A prediction, and what was measured of it.
#[derive(Clone, Debug)]
pub(super) struct Point {
    lanes: usize,
    mb_per_s: f64,
    /// The rate relative to one lane.
    times: f64,
    /// The measured rate over the predicted one, and the runs behind it.
    reached: Option<(Value, Runs)>,
    basis: String,
}

/// A curve over lanes.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) stack: String,
    direction: Direction,
    /// The tier of ciphers and digests; `paper` means that of the paper's processors.
    tier: &'static str,
    costs: Costs,
    points: Vec<Point>,
}

/// Returns powers of two up to `lanes`, `lanes`, and the paper's number of processors if it lies between.
fn counts(lanes: usize) -> Vec<usize> {
    let mut counts: Vec<usize> = (0..).map(|power| 1 << power).take_while(|&count| count < lanes).collect();
    counts.push(lanes);
    if (paper::PROCESSORS..lanes).contains(&paper::PROCESSORS) {
        counts.push(paper::PROCESSORS);
    }
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// Returns a curve that nothing tests.
fn untested(
    stack: &str,
    direction: Direction,
    tier: &'static str,
    costs: Costs,
    lanes: usize,
    basis: &str,
) -> Curve {
    let point = |lanes: usize| Point {
        lanes,
        mb_per_s: megabytes(costs.per_second(lanes), 4096),
        times: costs.speedup(lanes),
        reached: None,
        basis: basis.to_owned(),
    };
    let points = counts(lanes).into_iter().map(point).collect();
    Curve { stack: stack.to_owned(), direction, tier, costs, points }
}

/// Returns the curve of a stack on one connection up to `lanes` lanes, from its cells by their lanes; `None` without one lane.
fn curve(
    (stack, direction, tier): (&str, Direction, &'static str),
    cells: &[(usize, &Cell)],
    message_bytes: usize,
    lanes: usize,
) -> Option<Curve> {
    let fit = fit(cells.iter().copied(), message_bytes, None)?;
    let predicted = |lanes: usize| megabytes(fit.per_second(lanes), message_bytes);
    let beside = |lanes: usize| {
        let cell = cells.iter().find(|(own, _)| *own == lanes)?.1;
        Some((reached(cell, predicted(lanes))?, cell.runs()))
    };
    let most_tested = cells.iter().map(|(lanes, _)| *lanes).filter(|lanes| *lanes > FITTED_MAX).max();
    let error = most_tested.and_then(|lanes| {
        let share = beside(lanes)?.0.number()?;
        Some(format!("untested; {} of it on {lanes} lanes", ratio(share)))
    });
    let untested = error.unwrap_or_else(|| "untested".to_owned());
    let mut counts = counts(lanes);
    counts.extend(cells.iter().map(|(own, _)| *own).filter(|own| *own <= lanes));
    counts.sort_unstable();
    counts.dedup();
    let one = fit.per_second(1);
    let point = |lanes: usize| {
        let reached = beside(lanes);
        Point {
            lanes,
            mb_per_s: predicted(lanes),
            times: fit.per_second(lanes) / one,
            basis: if reached.is_some() { basis(lanes).to_owned() } else { untested.clone() },
            reached,
        }
    };
    let points = counts.into_iter().map(point).collect();
    Some(Curve { stack: stack.to_owned(), direction, tier, costs: fit.costs, points })
}

/// Measures a stack on one connection with the lanes that this machine has, and predicts the rates of up to `lanes` lanes, by
/// default as many as it may, by the model fitted to four of them, at tiers `native` and `best`, in both directions.
///
/// # Errors
/// Fails if a stack or thread cannot be made.
pub fn predict(
    stack: &str,
    lanes: Option<usize>,
    request: &Request,
    progress: &mut dyn Write,
) -> Result<Report, LabError> {
    let mut bench = Bench::new(request, progress);
    let measured = bench.lanes.clone();
    let most = BEYOND_MAX * bench.most_lanes();
    let mut curves = Vec::new();
    for direction in Direction::ALL {
        let tiers = [("native", Some(Tier::Native)), ("best", None)];
        let one = |tier| Setup::new(stack, direction, tier);
        let message_bytes = one(None).message_bytes;
        let setups: Vec<(&str, Setup)> = tiers
            .into_iter()
            .flat_map(|(name, tier)| measured.iter().map(move |&lanes| (name, Setup { lanes, ..one(tier) })))
            .collect();
        let cells = bench.take_turns(&setups)?;
        for (tier, cells) in tiers.iter().map(|(name, _)| *name).zip(cells.chunks(measured.len())) {
            let by_lanes: Vec<(usize, &Cell)> = measured.iter().copied().zip(cells).collect();
            curves.extend(curve(
                (stack, direction, tier),
                &by_lanes,
                message_bytes,
                lanes.unwrap_or(most).min(most),
            ));
        }
    }
    curves.extend(
        of_paper(lanes.unwrap_or(PAPERS_LANES_MAX).min(PAPERS_LANES_MAX))
            .into_iter()
            .filter(|curve| curve.stack == stack),
    );
    let notes = [
        "Lanes that share TCP's lock on one connection, event by event: a prediction, fitted to one to four lanes measured here. \
         Measured over predicted says there how well the model fits, and on more lanes, which the fit has not seen, whether it is \
         right.",
    ];
    let outcome = outcome(("predicted", "N29", "Lanes on one connection"), &notes, &curves);
    let summary =
        "What more lanes would gain: the model fitted to few lanes of this machine, or by the paper's table.";
    let mut report =
        Report::new("sealane lab predict", "Lanes that share one connection", summary, vec![outcome]);
    if let Some(lanes) = lanes.filter(|lanes| *lanes > most) {
        let lanes = counted(lanes, "lane");
        report.skipped.push(format!("{lanes}: only {most} are predicted, {BEYOND_MAX} times those measured"));
    }
    Ok(report)
}

/// Returns curves of sending over TCP/IP, as measured, and with a signature in every packet, which any lane makes
/// outside of TCP's turn, up to `lanes` lanes; schemes with the nanoseconds of a signature.
pub(super) fn with_signatures(bare: Costs, schemes: &[(String, f64)], lanes: usize) -> Vec<Curve> {
    let named = |name: &str, costs| untested(name, Direction::Send, "best", costs, lanes, "untested");
    let signed = |(scheme, signature_ns): &(String, f64)| {
        let costs = Costs { free_ns: bare.free_ns + signature_ns, ..bare };
        named(&format!("{scheme}/{}", STACKS[0]), costs)
    };
    [named(STACKS[0], bare)].into_iter().chain(schemes.iter().map(signed)).collect()
}

/// Returns the paper's own curves, from Table 1's latencies and the lock's share as given there.
pub(super) fn of_paper(lanes: usize) -> Vec<Curve> {
    let costs = |us: f64| Costs {
        free_ns: (us - paper::LOCKED_US).max(0.0) * 1e3,
        locked_ns: paper::LOCKED_US * 1e3,
        hand_over_ns: 0.0,
        spread_ns: 0.0,
    };
    let curve = |row: &paper::Latency| {
        untested(row.stack, Direction::Send, "paper", costs(row.send_us), lanes, "the paper's Table 1")
    };
    paper::TABLE_1.iter().map(curve).collect()
}

/// Returns curves as an experiment: the inputs of each in words, then each prediction with what was measured of it.
pub(super) fn outcome((id, covers, title): (&str, &str, &str), notes: &[&str], curves: &[Curve]) -> Outcome {
    let axes = ["stack", "way", "tier", "lanes"];
    let measures = vec![
        Measure::times("times", "times one lane").predicted(),
        Measure::rate(RATE, "MB/s").predicted(),
        Measure::times("reached", "measured over predicted"),
        Measure::new(BASIS, "basis"),
    ];
    let mut experiment = Experiment::new(id, covers, title, &axes, measures).notes(notes);
    experiment.paper = NDSS_TITLE.to_owned();
    let mut cells = Vec::new();
    for Curve { stack, direction, tier, costs, points } in curves {
        let way = direction.name();
        experiment.notes.push(format!(
            "{stack}, {way}, {tier}: {} ns of a message outside of TCP's turn (spread {}), {} within (hand-over {}): {} MB/s on \
             one lane, and never more than {:.1} times that.",
            quantity(costs.free_ns),
            quantity(costs.spread_ns),
            quantity(costs.locked_ns),
            quantity(costs.hand_over_ns),
            quantity(points.first().map_or(0.0, |point| point.mb_per_s)),
            costs.cap(),
        ));
        for Point { lanes, mb_per_s, times, reached, basis } in points {
            let lanes = lanes.to_string();
            let place = [("stack", &**stack), ("way", way), ("tier", *tier), ("lanes", &*lanes)];
            let (reached, runs) =
                reached.clone().map_or_else(|| (None, Runs::default()), |(value, runs)| (Some(value), runs));
            let cell = Cell::new(place).with("times", *times).with(RATE, *mb_per_s);
            cells.push(cell.with_some("reached", reached).with(BASIS, &**basis).behind(runs));
        }
    }
    let plot = Plot::new(Drawn::Lines, "lanes", "times", &axes[..3]).with_ideal();
    Outcome::new(experiment.shown(View::Cells, vec![plot]), cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_for_each_packet_gains_linearly() {
        let bare = Costs { free_ns: 300.0, locked_ns: 60.0, hand_over_ns: 20.0, spread_ns: 40.0 };
        let rsa = [("rsa-2048×1".to_owned(), 500_000.0)];
        let [without, with] = &with_signatures(bare, &rsa, 64)[..] else { panic!("two curves") };
        assert_eq!(with.stack, "rsa-2048×1/tcp/ip/fddi");
        let last = |curve: &Curve| curve.points.last().unwrap().clone();
        assert!(last(without).times < 1.01 * without.costs.cap() && without.costs.cap() < 7.0, "{without:?}");
        assert_eq!(last(with).lanes, 64);
        assert!(last(with).times > 0.97 * 64.0, "{with:?}");
    }

    /// Table 1 over the lock shows that it would be busy at 10.6 and at 55 processors.
    #[test]
    fn the_papers_figures_give_its_curves() {
        let curves = of_paper(64);
        let caps: Vec<f64> = curves.iter().map(|curve| (curve.costs.cap() * 10.0).round() / 10.0).collect();
        assert_eq!(caps, [1.4, 10.6, 54.8, 130.9]);
        let at_twelve = curves[1].points.iter().find(|point| point.lanes == paper::PROCESSORS).unwrap();
        assert!((9.5..=10.7).contains(&at_twelve.times), "{at_twelve:?}");
    }

    /// Each prediction has its error beside it: how well it fits, whether it is right, or that nobody knows.
    #[test]
    fn a_prediction_stands_beside_what_was_measured_of_it() {
        let cell = |rate: f64| Cell::new([("x", "y")]).with(RATE, Value::exact(rate)).with("locked_ns", 20.0);
        let told = |rates: &[(usize, f64)], lanes: usize| {
            let cells: Vec<(usize, Cell)> = rates.iter().map(|(lanes, rate)| (*lanes, cell(*rate))).collect();
            let by_lanes: Vec<(usize, &Cell)> = cells.iter().map(|(lanes, cell)| (*lanes, cell)).collect();
            let curve = curve(("s", Direction::Send, "best"), &by_lanes, 4096, lanes).unwrap();
            let basis = |point: &Point| {
                let reached = point.reached.as_ref().and_then(|(value, _)| value.number()).map(ratio);
                format!("{} {} {}", point.lanes, point.basis, reached.unwrap_or_default())
            };
            curve.points.iter().map(basis).collect::<Vec<_>>()
        };
        let tested = told(&[(1, 100.0), (2, 200.0), (4, 400.0), (8, 400.0)], 16);
        let expected = ["1 fitted 1.00", "2 fitted 1.00", "4 fitted 1.00", "8 tested 0.50"];
        assert_eq!(&tested[..4], expected, "{tested:?}");
        assert_eq!(
            tested[4..],
            ["12 untested; 0.50 of it on 8 lanes ", "16 untested; 0.50 of it on 8 lanes "]
        );
        assert_eq!(told(&[(1, 100.0), (2, 200.0)], 4), ["1 fitted 1.00", "2 fitted 1.00", "4 untested "]);
    }
}
