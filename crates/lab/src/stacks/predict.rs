//! What more lanes would gain: one lane measured here, or the paper's table, and the model.

use super::model::Costs;
use super::{Direction, Setup, Sharing, Timing, measure, paper};
use crate::LabError;
use crate::experiment::{Cell, Drawn, Experiment, Measure, Outcome, Plot, Profile, RATE, View};
use crate::report::number::quantity;
use crate::rng::Rng;
use sealane_engine::EngineChoice;
use sealane_stack::available_lanes;
use sealane_transform::Tier;
use serde::Serialize;

/// To how many lanes the page extrapolates.
pub(super) const LANES_MAX: usize = 64;

/// A curve over lanes.
#[derive(Clone, Debug, Serialize)]
pub struct Prediction {
    /// The stack.
    pub stack: String,
    /// Which way messages go.
    pub direction: Direction,
    /// How ciphers and digests are computed; `paper`: as the paper's processors did.
    pub tier: String,
    /// What a message costs outside of TCP's turn.
    pub free_ns: f64,
    /// What it costs within.
    pub locked_ns: f64,
    /// What a turn costs more after another lane's.
    pub hand_over_ns: f64,
    /// What the rest costs more where two lanes share it.
    pub spread_ns: f64,
    /// What no number of lanes passes, in times one lane's rate.
    pub cap: f64,
    /// MB/s and times one lane's rate, by lanes.
    pub points: Vec<(usize, f64, f64)>,
}

fn curve(stack: &str, direction: Direction, tier: &str, costs: Costs, lanes: usize) -> Prediction {
    let mut counts: Vec<usize> = (0..).map(|power| 1 << power).take_while(|&count| count < lanes).collect();
    counts.push(lanes);
    if (paper::PROCESSORS..lanes).contains(&paper::PROCESSORS) && !counts.contains(&paper::PROCESSORS) {
        counts.push(paper::PROCESSORS);
        counts.sort_unstable();
    }
    let point = |lanes: usize| (lanes, costs.per_second(lanes) * 4096.0 / 1e6, costs.speedup(lanes));
    Prediction {
        stack: stack.to_owned(),
        direction,
        tier: tier.to_owned(),
        free_ns: costs.free_ns,
        locked_ns: costs.locked_ns,
        hand_over_ns: costs.hand_over_ns,
        spread_ns: costs.spread_ns,
        cap: costs.cap(),
        points: counts.into_iter().map(point).collect(),
    }
}

/// Measures a stack on one lane and what sharing costs on two, and says what up to `lanes` lanes would do on one connection,
/// at tiers `native` and `best`, both ways.
///
/// # Errors
/// A stack or thread that cannot be had.
pub fn predict(stack: &str, lanes: usize) -> Result<Vec<Prediction>, LabError> {
    let timing = Timing { rounds: 7, ..Timing::of(Profile::Quick) };
    let mut rng = Rng::new(Rng::fresh_seed());
    let mut predictions = Vec::new();
    for direction in Direction::ALL {
        let bare = Setup::new(super::STACKS[0], direction, None);
        let mut setups =
            vec![Setup::new(stack, direction, Some(Tier::Native)), Setup::new(stack, direction, None)];
        if available_lanes() > 1 {
            setups.push(Setup { lanes: 2, ..bare.clone() });
            setups.push(Setup { is_apart: true, connections: 2, ..bare });
        }
        let found = measure(&setups, &EngineChoice::default(), timing, &mut rng)?;
        let sharing = match &found[..] {
            [_, _, shared, apart] => Sharing::of(shared, apart, setups[0].message_bytes),
            _ => Sharing::default(),
        };
        for (setup, slices) in setups.iter().zip(&found).take(2) {
            let costs = sharing.costs(slices, 1, setup.message_bytes);
            predictions.push(curve(stack, direction, setup.tier_name(), costs, lanes));
        }
    }
    predictions.extend(of_paper(lanes).into_iter().filter(|prediction| prediction.stack == stack));
    Ok(predictions)
}

/// TCP/IP sending, as measured, and with a signature in every packet, which any lane makes outside of TCP's turn.
pub(super) fn with_signatures(bare: Costs, signature_ns: f64) -> Vec<Prediction> {
    let signed = Costs { free_ns: bare.free_ns + signature_ns, ..bare };
    let named = |name: &str, costs| curve(name, Direction::Send, "best", costs, LANES_MAX);
    vec![named(super::STACKS[0], bare), named("rsa-2048/tcp/ip/fddi", signed)]
}

/// The paper's own curves: Table 1's latencies, and the lock's share as it gives it.
pub(super) fn of_paper(lanes: usize) -> Vec<Prediction> {
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

/// Curves as an experiment: what each is fed with, in words, then times one lane's rate over lanes.
pub(super) fn outcome(
    (id, covers, title): (&str, &str, &str),
    notes: &[&str],
    predictions: &[Prediction],
) -> Outcome {
    let axes = ["stack", "way", "tier", "lanes"];
    let measures =
        vec![Measure::times("times", "times one lane").predicted(), Measure::rate(RATE, "MB/s").predicted()];
    let mut experiment = Experiment::new(id, covers, title, &axes, measures).notes(notes);
    experiment.paper = super::page::PAPER.to_owned();
    let mut cells = Vec::new();
    for one in predictions {
        let way = one.direction.name();
        let one_lane = one.points.first().map_or(0.0, |point| point.1);
        experiment.notes.push(format!(
            "{}, {way}, {}: {} ns of a message outside of TCP's turn (spread {}), {} within (hand-over {}): {} MB/s on one lane, \
             and never more than {:.1} times that.",
            one.stack,
            one.tier,
            quantity(one.free_ns),
            quantity(one.spread_ns),
            quantity(one.locked_ns),
            quantity(one.hand_over_ns),
            quantity(one_lane),
            one.cap,
        ));
        for &(lanes, mb_per_s, times) in &one.points {
            let place =
                [("stack", &*one.stack), ("way", way), ("tier", &*one.tier), ("lanes", &*lanes.to_string())];
            cells.push(Cell::new(place).with("times", times).with(RATE, mb_per_s));
        }
    }
    let plot = Plot::new(Drawn::Lines, "lanes", "times", &axes[..3]);
    let view = View::pivot(&axes[..3], "lanes", "times");
    Outcome::new(experiment.shown(view, vec![plot]), cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_for_each_packet_gains_linearly() {
        let bare = Costs { free_ns: 300.0, locked_ns: 60.0, hand_over_ns: 20.0, spread_ns: 40.0 };
        let [without, with] = &with_signatures(bare, 500_000.0)[..] else { panic!("two curves") };
        let last = |curve: &Prediction| *curve.points.last().unwrap();
        assert!(last(without).2 < 1.01 * without.cap && without.cap < 7.0, "{without:?}");
        assert_eq!(last(with).0, LANES_MAX);
        assert!(last(with).2 > 0.97 * LANES_MAX as f64, "{with:?}");
    }

    /// Table 1 over the lock: it would be busy at 10.6 and at 55 processors.
    #[test]
    fn the_papers_figures_give_its_curves() {
        let curves = of_paper(64);
        let caps: Vec<f64> = curves.iter().map(|curve| (curve.cap * 10.0).round() / 10.0).collect();
        assert_eq!(caps, [1.4, 10.6, 54.8, 130.9]);
        let at_twelve = curves[1].points.iter().find(|point| point.0 == paper::PROCESSORS).unwrap();
        assert!((9.5..=10.7).contains(&at_twelve.2), "{at_twelve:?}");
    }
}
