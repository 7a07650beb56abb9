//! Many threads and many streams: the study's G16, whose plots are lost but whose conclusions are known.

use super::copies::{Grid, Planned};
use super::grid::{Mode, PAPER, PROTECTIONS, request};
use crate::experiment::{
    Axis, Claim, Coordinates, Drawn, Experiment, Pivot, Plot, RATE, Repetition, Shape, View, at,
};
use crate::program::{End, Level};
use crate::report::number;
use sealane_stack::Placement;

const LANES: [u32; 4] = [1, 2, 4, 8];
const STREAMS: [u32; 5] = [1, 2, 4, 8, 16];

/// Returns the grid of lanes by streams at `private`, with the sender measured.
pub(super) fn counts(cores: usize, repetition: Repetition) -> Grid {
    let mut cells = Vec::new();
    for protection in PROTECTIONS.iter().filter(|protection| protection.level == Level::Private) {
        for lanes in LANES {
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
    let (claims, skipped) = claims(cores);
    Grid {
        experiment: Experiment {
            id: "counts".to_owned(),
            covers: "G16".to_owned(),
            paper: PAPER.to_owned(),
            title: "Many threads, many streams".to_owned(),
            method: vec!["Level private, sender measured, a stream belongs to one lane.".to_owned()],
            axes: vec![
                Axis::new("suite", ["modern", "legacy"]).in_words(|suite| format!("{suite} suite")),
                Axis::new("lanes", LANES).in_words(|lanes| number::counted(lanes, "lane")),
                Axis::new("streams", STREAMS).in_words(|streams| number::counted(streams, "stream")),
            ],
            repetition,
            claims,
            view: View::Pivot(Pivot {
                rows: vec!["lanes".to_owned()],
                columns: "streams".to_owned(),
                measure: RATE.to_owned(),
                blocks: vec!["suite".to_owned()],
                ..Pivot::default()
            }),
            plots: vec![Plot::new(Drawn::Lines, "streams", RATE, &["lanes"]).each("suite")],
            ..Experiment::default()
        },
        cells,
        skipped,
        ..Grid::default()
    }
}

fn place(suite: &str, lanes: u32, streams: u32) -> Coordinates {
    at([("suite", suite), ("lanes", &*lanes.to_string()), ("streams", &*streams.to_string())])
}

fn claims(cores: usize) -> (Vec<Claim>, Vec<String>) {
    // This is the maximum of lanes in the grid that have a CPU each.
    let fitting = LANES.into_iter().filter(|&lanes| lanes as usize <= cores).max().unwrap_or(1);
    let claim = |statement: String, source: &str, shape| Claim {
        statement,
        source: source.to_owned(),
        metric: RATE.to_owned(),
        shape,
    };
    let ratio = |numerator, denominator, low, high| Shape::Ratio { numerator, denominator, low, high };
    let mut claims = vec![claim(
        format!("Legacy: more streams than lanes ({fitting}) bring little"),
        "G16: streams > min(CPUs, threads)",
        ratio(place("legacy", fitting, 16), place("legacy", fitting, fitting), None, Some(1.15)),
    )];
    let mut skipped = Vec::new();
    if cores < 8 {
        claims.push(claim(
            format!("Legacy: more lanes (8) than CPUs ({cores}) bring nothing"),
            "G16: threads > CPUs",
            ratio(place("legacy", 8, 16), place("legacy", fitting, 16), None, Some(1.1)),
        ));
        for suite in ["legacy", "modern"] {
            claims.push(claim(
                format!("{suite}: nor do they hurt by more than 10 %"),
                "target; the study saw it hurt",
                ratio(place(suite, 8, 16), place(suite, fitting, 16), Some(0.9), None),
            ));
        }
    } else {
        skipped.push(format!("more lanes than CPUs: this machine has {cores} CPUs, the grid 8 lanes"));
    }
    if fitting > 1 {
        let counts = LANES.into_iter().filter(|&lanes| lanes <= fitting);
        let points = counts.map(|count| (f64::from(count), place("legacy", count, count))).collect();
        claims.push(claim(
            format!("Legacy: rate grows nearly linearly up to {fitting} lanes with a stream each (exponent)"),
            "G9: linear or nearly",
            Shape::Slope { points, low: 0.75, high: 1.1 },
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
        let small = counts(2, rule);
        assert_eq!(small.cells.len(), 40);
        assert_eq!(small.experiment.claims.len(), 5);
        assert!(small.skipped.is_empty());
        assert_eq!(counts(1, rule).experiment.claims.len(), 4);
        let large = counts(64, rule);
        assert_eq!(large.experiment.claims.len(), 2);
        assert_eq!(large.skipped.len(), 1);
    }
}
