//! Many threads and many streams: the study's G16, whose plots are lost but whose conclusions are known.

use super::copies::{Copies, Grid, Planned};
use super::grid::{PAPER, PROTECTIONS, request};
use super::modes::Mode;
use super::published;
use crate::LabError;
use crate::experiment::{
    Axis, Claim, Coordinates, Drawn, Experiment, Outcome, Plot, RATE, Repetition, Shape, View, at,
};
use crate::program::{End, Level};
use crate::report::number;
use sealane_lanes::Placement;
use std::io::Write;

/// The numbers of lanes, if none are requested.
const LANES: [u32; 4] = [1, 2, 4, 8];
/// Equality as the lab has it in every study: within a tenth in either direction.
pub(super) const ALIKE: (Option<f64>, Option<f64>) = (Some(0.9), Some(1.1));
const STREAMS: [u32; 5] = [1, 2, 4, 8, 16];

/// Runs the study.
pub(super) fn outcomes(copies: &Copies<'_>, progress: &mut dyn Write) -> Result<Vec<Outcome>, LabError> {
    let request = copies.request;
    let lanes = (!request.lanes.is_empty()).then(|| request.lane_counts());
    Ok(vec![copies.run(counts(copies.cores, lanes, copies.repetition), progress)?])
}

/// Returns the grid of lanes, `lanes` in rising order or the usual ones, by streams at `private`, with the sender
/// measured.
fn counts(cores: usize, lanes: Option<Vec<usize>>, repetition: Repetition) -> Grid {
    let all_lanes: Vec<u32> =
        lanes.map_or_else(|| LANES.to_vec(), |lanes| lanes.into_iter().map(|lanes| lanes as u32).collect());
    let mut cells = Vec::new();
    for protection in PROTECTIONS.iter().filter(|protection| protection.level == Level::Private) {
        for &lanes in &all_lanes {
            for streams in STREAMS {
                let mode = Mode { name: "", lanes, streams, placement: Placement::Connection };
                cells.push(Planned {
                    at: place(protection.suite_axis, lanes, streams),
                    request: request(End::Send, protection, &mode),
                    group: protection.group,
                });
            }
        }
    }
    let (claims, skipped) = claims(cores, &all_lanes);
    Grid {
        experiment: Experiment {
            axes: vec![
                Axis::new("suite", ["modern", "legacy"]).in_words(|suite| format!("{suite} suite")),
                Axis::new("lanes", &all_lanes).in_words(|lanes| number::counted(lanes, "lane")),
                Axis::new("streams", STREAMS).in_words(|streams| number::counted(streams, "stream")),
            ],
            repetition,
            view: View::pivot(&["lanes"], "streams", RATE).blocks(&["suite"]),
            plots: vec![Plot::new(Drawn::Lines, "streams", RATE, &["lanes"]).each("suite")],
            ..Experiment::new("counts", "G16", "Many threads, many streams", &[], Vec::new())
        }
        .of(PAPER)
        .method(&["Level private, sender measured, a stream belongs to one lane."])
        .claiming(claims),
        cells,
        skipped,
        ..Grid::default()
    }
}

fn place(suite: &str, lanes: u32, streams: u32) -> Coordinates {
    at([("suite", suite), ("lanes", &*lanes.to_string()), ("streams", &*streams.to_string())])
}

fn claims(cores: usize, lanes: &[u32]) -> (Vec<Claim>, Vec<String>) {
    // This is the maximum of lanes in the grid that have a CPU each.
    let fitting = lanes.iter().copied().filter(|&lanes| lanes as usize <= cores).max().unwrap_or(1);
    let most = lanes.last().copied().unwrap_or(1);
    let claim = |statement: String, source: &str, shape| Claim::new((statement, source), RATE, shape);
    let ratio = |numerator, denominator, low, high| Shape::Ratio { numerator, denominator, low, high };
    let mut claims = Vec::new();
    // A grid has cells of as many streams as lanes only for the numbers that streams have too.
    if STREAMS.contains(&fitting) {
        claims.push(claim(
            format!("Legacy: more streams than lanes ({fitting}) bring little, at most a tenth"),
            "G16: streams > min(CPUs, threads)",
            ratio(place("legacy", fitting, 16), place("legacy", fitting, fitting), None, ALIKE.1),
        ));
    }
    let mut skipped = Vec::new();
    if most as usize > cores {
        claims.push(claim(
            format!("Legacy: more lanes ({most}) than CPUs ({cores}) bring nothing, within a tenth"),
            "G16: threads > CPUs",
            ratio(place("legacy", most, 16), place("legacy", fitting, 16), None, ALIKE.1),
        ));
        for suite in ["legacy", "modern"] {
            claims.push(claim(
                format!("{suite}: nor do they hurt by more than 10 %"),
                "target; the study saw it hurt",
                ratio(place(suite, most, 16), place(suite, fitting, 16), ALIKE.0, None),
            ));
        }
    } else {
        skipped.push(format!("more lanes than CPUs: this machine has {cores} CPUs, the grid {most} lanes"));
    }
    if fitting > 1 {
        let counts = lanes.iter().copied().filter(|&lanes| lanes <= fitting && STREAMS.contains(&lanes));
        let points = counts.map(|count| (f64::from(count), place("legacy", count, count))).collect();
        let least = published::least_gain(Level::Private).log2();
        claims.push(claim(
            format!(
                "Legacy: rate grows nearly linearly up to {fitting} lanes with a stream each: an exponent of at least {least:.2}, the least \
                 of the study's machines with two"
            ),
            "G9: linear or nearly",
            Shape::Slope { points, low: least, high: 1.1 },
        ));
    }
    (claims, skipped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Profile;

    #[test]
    fn claims_fit_the_machine() {
        let rule = Profile::Quick.repetition();
        let small = counts(2, None, rule);
        assert_eq!(small.cells.len(), 40);
        assert_eq!(small.experiment.claims.len(), 5);
        assert!(small.skipped.is_empty());
        assert_eq!(counts(1, None, rule).experiment.claims.len(), 4);
        let given = counts(2, Some(vec![1, 2, 3]), rule);
        assert_eq!((given.cells.len(), given.experiment.claims.len()), (30, 5));
        assert!(given.experiment.claims[1].statement.contains("more lanes (3) than CPUs (2)"));
        let large = counts(64, None, rule);
        assert_eq!(large.experiment.claims.len(), 2);
        assert_eq!(large.skipped.len(), 1);
    }
}
