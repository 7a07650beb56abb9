//! Predicts the gain of more lanes, from one lane measured here or the paper's table, and the model.

use super::model::{Costs, Sharing};
use super::rig::{Direction, Setup};
use super::{Bench, STACKS, paper};
use crate::LabError;
use crate::experiment::{Cell, Drawn, Experiment, Measure, Outcome, Plot, RATE, View};
use crate::report::Report;
use crate::report::number::quantity;
use crate::request::Request;
use crate::studies::NDSS_TITLE;
use sealane_lanes::available_lanes;
use sealane_transform::Tier;
use std::io::Write;

/// The maximum number of lanes to which the page extrapolates.
pub(super) const LANES_MAX: usize = 64;

/// A curve over lanes.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    pub(super) stack: String,
    direction: Direction,
    /// The tier of ciphers and digests; `paper` means that of the paper's processors.
    tier: &'static str,
    costs: Costs,
    /// Lanes, MB/s, and the rate relative to one lane.
    points: Vec<(usize, f64, f64)>,
}

fn curve(stack: &str, direction: Direction, tier: &'static str, costs: Costs, lanes: usize) -> Curve {
    let mut counts: Vec<usize> = (0..).map(|power| 1 << power).take_while(|&count| count < lanes).collect();
    counts.push(lanes);
    if (paper::PROCESSORS..lanes).contains(&paper::PROCESSORS) && !counts.contains(&paper::PROCESSORS) {
        counts.push(paper::PROCESSORS);
        counts.sort_unstable();
    }
    let point = |lanes: usize| (lanes, costs.per_second(lanes) * 4096.0 / 1e6, costs.speedup(lanes));
    let points = counts.into_iter().map(point).collect();
    Curve { stack: stack.to_owned(), direction, tier, costs, points }
}

/// Measures a stack on one lane and the cost of sharing on two, and predicts the rates of up to `lanes` lanes on one
/// connection, at tiers `native` and `best`, in both directions.
///
/// # Errors
/// Fails if a stack or thread cannot be made.
pub fn predict(
    stack: &str,
    lanes: usize,
    request: &Request,
    progress: &mut dyn Write,
) -> Result<Report, LabError> {
    let mut curves = Vec::new();
    for direction in Direction::ALL {
        let tiers = [("native", Some(Tier::Native)), ("best", None)];
        let mut setups = tiers.map(|(name, tier)| (name, Setup::new(stack, direction, tier))).to_vec();
        if available_lanes() > 1 {
            setups.extend(Sharing::setups(direction).map(|setup| ("bare", setup)));
        }
        let cells = Bench::new(request, progress).take_turns(&setups)?;
        let message_bytes = setups[0].1.message_bytes;
        let sharing = match &cells[..] {
            [_, _, shared, apart] => Sharing::of(shared, apart, message_bytes),
            _ => Sharing::default(),
        };
        curves.extend(tiers.iter().zip(&cells).map(|((tier, _), cell)| {
            curve(stack, direction, tier, sharing.costs(cell, 1, message_bytes), lanes)
        }));
    }
    curves.extend(of_paper(lanes).into_iter().filter(|curve| curve.stack == stack));
    let notes = [
        "Lanes that share TCP's lock on one connection, event by event: a prediction. Hand-over and spread (what a turn, and \
         what the rest of a packet's way, cost more on two lanes that share one connection) are measured on two lanes.",
    ];
    let outcome = outcome(("predicted", "N29", "Lanes on one connection"), &notes, &curves);
    let summary =
        "What more lanes would gain: one lane measured on this machine, or the paper's table, and the model.";
    Ok(Report::new("sealane lab predict", "Lanes that share one connection", summary, vec![outcome]))
}

/// Returns curves of sending over TCP/IP, as measured, and with a signature in every packet, which any lane makes
/// outside of TCP's turn; schemes with the nanoseconds of a signature.
pub(super) fn with_signatures(bare: Costs, schemes: &[(String, f64)]) -> Vec<Curve> {
    let named = |name: &str, costs| curve(name, Direction::Send, "best", costs, LANES_MAX);
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
    paper::TABLE_1
        .iter()
        .map(|row| curve(row.stack, Direction::Send, "paper", costs(row.send_us), lanes))
        .collect()
}

/// Returns curves as an experiment: the inputs of each in words, then the rate relative to one lane over lanes.
pub(super) fn outcome((id, covers, title): (&str, &str, &str), notes: &[&str], curves: &[Curve]) -> Outcome {
    let axes = ["stack", "way", "tier", "lanes"];
    let measures =
        vec![Measure::times("times", "times one lane").predicted(), Measure::rate(RATE, "MB/s").predicted()];
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
            quantity(points.first().map_or(0.0, |point| point.1)),
            costs.cap(),
        ));
        for &(lanes, mb_per_s, times) in points {
            let lanes = lanes.to_string();
            let place = [("stack", &**stack), ("way", way), ("tier", *tier), ("lanes", &*lanes)];
            cells.push(Cell::new(place).with("times", times).with(RATE, mb_per_s));
        }
    }
    let plot = Plot::new(Drawn::Lines, "lanes", "times", &axes[..3]).with_ideal();
    let view = View::pivot(&axes[..3], "lanes", "times");
    Outcome::new(experiment.shown(view, vec![plot]), cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_for_each_packet_gains_linearly() {
        let bare = Costs { free_ns: 300.0, locked_ns: 60.0, hand_over_ns: 20.0, spread_ns: 40.0 };
        let rsa = [("rsa-2048×1".to_owned(), 500_000.0)];
        let [without, with] = &with_signatures(bare, &rsa)[..] else { panic!("two curves") };
        assert_eq!(with.stack, "rsa-2048×1/tcp/ip/fddi");
        let last = |curve: &Curve| *curve.points.last().unwrap();
        assert!(last(without).2 < 1.01 * without.costs.cap() && without.costs.cap() < 7.0, "{without:?}");
        assert_eq!(last(with).0, LANES_MAX);
        assert!(last(with).2 > 0.97 * LANES_MAX as f64, "{with:?}");
    }

    /// Table 1 over the lock shows that it would be busy at 10.6 and at 55 processors.
    #[test]
    fn the_papers_figures_give_its_curves() {
        let curves = of_paper(64);
        let caps: Vec<f64> = curves.iter().map(|curve| (curve.costs.cap() * 10.0).round() / 10.0).collect();
        assert_eq!(caps, [1.4, 10.6, 54.8, 130.9]);
        let at_twelve = curves[1].points.iter().find(|point| point.0 == paper::PROCESSORS).unwrap();
        assert!((9.5..=10.7).contains(&at_twelve.2), "{at_twelve:?}");
    }
}
