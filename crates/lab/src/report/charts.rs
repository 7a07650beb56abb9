//! The figures that the page's script draws, as plain numbers.
//!
//! Guarantees: every number here stands in a table of the page, or is the ratio of two that do.

use super::published::LEVELS;
use crate::experiment::{Coordinates, Metric, Outcome, RESAMPLING_SEED, View};
use crate::stats::{CONFIDENCE, Interval, Summary, ratio_of_medians};
use serde::Serialize;

/// Modes of the study in their order, ours after them.
pub(super) const MODE_ORDER: [&str; 6] =
    ["Single P1", "Single P2", "Pool P1", "Pool P2", "Packet P1", "Packet P2"];

/// One chart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Chart {
    /// Element it is drawn into.
    pub(crate) id: String,
    /// `bars`, `stacked` or `lines`.
    pub(crate) kind: &'static str,
    /// Heading.
    pub(crate) title: String,
    /// Name of the abscissa.
    pub(crate) x_label: String,
    /// Name and unit of the ordinate.
    pub(crate) y_label: String,
    /// Labels along the abscissa.
    pub(crate) labels: Vec<String>,
    /// What is drawn over them.
    pub(crate) series: Vec<Series>,
}

/// One line, or one bar in each group; `null` where there is no sample.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Series {
    pub(crate) name: String,
    pub(crate) median: Vec<Option<f64>>,
    pub(crate) low: Vec<Option<f64>>,
    pub(crate) high: Vec<Option<f64>>,
}

impl Series {
    fn of(name: &str, summaries: &[Option<Summary>]) -> Self {
        let pick = |value: fn(&Summary) -> f64| {
            summaries.iter().map(|summary| summary.as_ref().map(value)).collect()
        };
        Self {
            name: name.to_owned(),
            median: pick(|summary| summary.median),
            low: pick(|summary| summary.median_interval.low),
            high: pick(|summary| summary.median_interval.high),
        }
    }
}

/// The charts of one outcome; `prefix` makes their ids unique on the page.
pub(super) fn of_outcome(outcome: &Outcome, prefix: &str) -> Vec<Chart> {
    match &outcome.experiment.view {
        View::LevelGrid => level_grid(outcome, prefix),
        View::Lines { over, lines, plots } => line_plots(outcome, prefix, over, lines, plots.as_deref()),
        View::Bars { .. } | View::Table => Vec::new(),
    }
}

/// A block of the level grid: one end, one generation of suites.
pub(super) fn blocks(outcome: &Outcome) -> Vec<(String, String)> {
    let values = |name: &str| {
        let axes = outcome.experiment.axes.iter().find(|axis| axis.name == name);
        axes.map(|axis| axis.values.clone()).unwrap_or_default()
    };
    let suites: Vec<String> = values("suite").into_iter().filter(|suite| suite != "none").collect();
    let pairs = values("end").into_iter();
    pairs.flat_map(|end| suites.iter().map(move |suite| (end.clone(), suite.clone()))).collect()
}

/// The place of a figure in the level grid. Levels without cryptography are shared between generations of suites.
pub(super) fn grid_place(end: &str, suite: &str, mode: &str, level: &str) -> Coordinates {
    let suite = if matches!(level, "clear" | "authenticated") { "none" } else { suite };
    crate::experiment::at([("end", end), ("suite", suite), ("mode", mode), ("level", level)])
}

/// Rates over the same level's Single P1: the study's question, and legible where levels differ by a factor of
/// hundreds.
fn level_grid(outcome: &Outcome, prefix: &str) -> Vec<Chart> {
    let chart = |(index, (end, suite)): (usize, &(String, String))| {
        let values = |mode: &str, level: &str| {
            outcome.cell(&grid_place(end, suite, mode, level)).map(|cell| cell.values(Metric::Rate))
        };
        let series = MODE_ORDER.iter().filter_map(|mode| {
            let gain = |level: &&str| {
                let (top, bottom) = (values(mode, level)?, values("Single P1", level)?);
                ratio_of_medians(&top, &bottom, CONFIDENCE, RESAMPLING_SEED)
            };
            let gains: Vec<Option<(f64, Interval)>> = LEVELS.iter().map(gain).collect();
            let pick = |value: fn(&(f64, Interval)) -> f64| {
                gains.iter().map(|gain| gain.as_ref().map(value)).collect()
            };
            gains.iter().any(Option::is_some).then(|| Series {
                name: (*mode).to_owned(),
                median: pick(|gain| gain.0),
                low: pick(|gain| gain.1.low),
                high: pick(|gain| gain.1.high),
            })
        });
        Chart {
            id: format!("{prefix}-{index}"),
            kind: "bars",
            title: format!("{}, {suite} suites", end_words(end)),
            x_label: String::new(),
            y_label: "times Single P1".to_owned(),
            labels: LEVELS.iter().map(|level| (*level).to_owned()).collect(),
            series: series.collect(),
        }
    };
    blocks(outcome).iter().enumerate().map(chart).filter(|chart| !chart.series.is_empty()).collect()
}

/// A measured end in words.
pub(super) fn end_words(end: &str) -> &'static str {
    match end {
        "send" => "Sender measured",
        "receive" => "Receiver measured",
        _ => "Both ends",
    }
}

fn line_plots(outcome: &Outcome, prefix: &str, over: &str, lines: &str, plots: Option<&str>) -> Vec<Chart> {
    let values = |name: &str| {
        let axis = outcome.experiment.axes.iter().find(|axis| axis.name == name);
        axis.map(|axis| axis.values.clone()).unwrap_or_default()
    };
    let labels = values(over);
    let plot_values = plots.map_or_else(|| vec![None], |name| values(name).into_iter().map(Some).collect());
    let chart = |(index, plot): (usize, Option<String>)| {
        let series = values(lines).into_iter().filter_map(|line| {
            let summary = |x: &String| {
                let mut place = crate::experiment::at([(over, &**x), (lines, &*line)]);
                if let (Some(axis), Some(value)) = (plots, &plot) {
                    place.insert(axis.to_owned(), value.clone());
                }
                outcome.cell(&place)?.summary(Metric::Rate)
            };
            let summaries: Vec<_> = labels.iter().map(summary).collect();
            let name = format!("{line} {lines}");
            summaries.iter().any(Option::is_some).then(|| Series::of(&name, &summaries))
        });
        Chart {
            id: format!("{prefix}-{index}"),
            kind: "lines",
            title: plot.clone().unwrap_or_else(|| outcome.experiment.title.clone()),
            x_label: over.to_owned(),
            y_label: Metric::Rate.unit().to_owned(),
            labels: labels.clone(),
            series: series.collect(),
        }
    };
    plot_values.into_iter().enumerate().map(chart).filter(|chart| !chart.series.is_empty()).collect()
}
