//! The page's content as text, ready for the template: everything formatted, nothing yet markup.
//!
//! Guarantees: a figure and its interval come from the same samples; an empty place shows a dash, never a zero.

use super::Report;
use super::charts::{self, Chart, MODE_ORDER, end_words, grid_place};
use super::number::{bytes, quantity, ratio};
use super::published::{LEVELS, MODES, PLATFORMS};
use crate::experiment::RESAMPLING_SEED;
use crate::experiment::{Cell, ClaimResult, Metric, Outcome, Shape, Verdict, View};
use crate::machine::Machine;
use crate::stats::{CONFIDENCE, Summary, ratio_of_medians};

/// One outcome on the page.
pub(super) struct Section {
    pub(super) anchor: String,
    pub(super) title: String,
    pub(super) source: String,
    pub(super) workload: String,
    pub(super) rule: String,
    pub(super) grid: Vec<Block>,
    pub(super) bars: Vec<BarGroup>,
    pub(super) charts: Vec<Chart>,
    pub(super) claims: Vec<ClaimRow>,
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<CellRow>,
    pub(super) method: Vec<String>,
    pub(super) skipped: Vec<String>,
}

/// A platform in the level grid.
pub(super) struct Block {
    pub(super) name: String,
    pub(super) is_published: bool,
    pub(super) rows: Vec<GridRow>,
}

/// A mode, or a ratio of modes, over the four levels.
pub(super) struct GridRow {
    pub(super) mode: String,
    pub(super) is_ratio: bool,
    pub(super) figures: Vec<Figure>,
}

/// A figure and the range it stands for; `range` may be empty.
pub(super) struct Figure {
    pub(super) value: String,
    pub(super) range: String,
}

/// Bars that are compared with each other.
pub(super) struct BarGroup {
    pub(super) name: String,
    pub(super) bars: Vec<Bar>,
}

/// One bar; lengths are in percent of the longest reach on the page.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) is_own: bool,
    pub(super) width: String,
    pub(super) low: String,
    pub(super) reach: String,
    pub(super) rate: String,
    pub(super) range: String,
    pub(super) cpu: String,
    pub(super) note: String,
}

/// A claim with its verdict and a small drawing of where the interval lies.
pub(super) struct ClaimRow {
    pub(super) statement: String,
    pub(super) source: String,
    pub(super) class: &'static str,
    pub(super) verdict: &'static str,
    pub(super) estimate: String,
    pub(super) interval: String,
    pub(super) bound: String,
    pub(super) note: String,
    pub(super) drawing: Option<Drawing>,
}

/// Places on a line 100 wide.
pub(super) struct Drawing {
    pub(super) band_from: String,
    pub(super) band_width: String,
    pub(super) low: String,
    pub(super) width: String,
    pub(super) estimate: String,
}

/// One cell in the plain table.
pub(super) struct CellRow {
    pub(super) place: Vec<String>,
    pub(super) count: String,
    pub(super) rate: Figure,
    pub(super) extremes: String,
    pub(super) mean: String,
    pub(super) cpu: Figure,
    pub(super) wall: String,
    pub(super) remarks: String,
}

/// Label and value of a fact about the machine.
pub(crate) struct Fact {
    pub(crate) label: &'static str,
    pub(crate) value: String,
}

pub(super) fn sections(report: &Report) -> Vec<Section> {
    report.outcomes.iter().enumerate().map(|(index, outcome)| section(outcome, index)).collect()
}

fn section(outcome: &Outcome, index: usize) -> Section {
    let experiment = &outcome.experiment;
    let rule = experiment.repetition;
    Section {
        anchor: format!("experiment-{index}"),
        title: experiment.title.clone(),
        source: [&*experiment.covers, &*experiment.paper]
            .into_iter()
            .filter(|text| !text.is_empty())
            .collect::<Vec<_>>()
            .join(" · "),
        workload: experiment.workload.clone(),
        rule: format!(
            "{} rounds after {} of warm-up, every cell once a round in an order drawn afresh; seed {:#018x}",
            rule.rounds, rule.warm_up_rounds, outcome.seed
        ),
        grid: grid(outcome),
        bars: bars(outcome),
        charts: charts::of_outcome(outcome, &format!("chart-{index}")),
        claims: outcome.claims.iter().map(claim_row).collect(),
        columns: experiment.axes.iter().map(|axis| axis.name.clone()).collect(),
        rows: outcome.cells.iter().map(|cell| cell_row(outcome, cell)).collect(),
        method: experiment.method.clone(),
        skipped: outcome.skipped.clone(),
    }
}

/// The blocks of the level grid: ours first, the study's beneath.
pub(super) fn grid(outcome: &Outcome) -> Vec<Block> {
    if outcome.experiment.view != View::LevelGrid {
        return Vec::new();
    }
    let ours = charts::blocks(outcome).into_iter().filter_map(|(end, suite)| {
        let place = |mode: &str, level: &str| outcome.cell(&grid_place(&end, &suite, mode, level));
        let mut rows: Vec<GridRow> = MODE_ORDER
            .iter()
            .map(|mode| measured_row(mode, |level| place(mode, level)))
            .filter(|row| row.figures.iter().any(|figure| figure.value != "–"))
            .collect();
        if rows.is_empty() {
            return None;
        }
        for (top, bottom) in [("Pool P2", "Pool P1"), ("Single P2", "Single P1"), ("Packet P1", "Single P1")]
        {
            let row = ratio_row(top, bottom, |level| Some((place(top, level)?, place(bottom, level)?)));
            rows.extend(row);
        }
        Some(Block {
            name: format!("This machine, {suite} suites, {}", end_words(&end).to_lowercase()),
            is_published: false,
            rows,
        })
    });
    let published = PLATFORMS.iter().map(|platform| {
        let plain = |value: f64| Figure { value: quantity(value), range: String::new() };
        let mode_rows = MODES.iter().zip(&platform.megabits).map(|(mode, figures)| GridRow {
            mode: (*mode).to_owned(),
            is_ratio: false,
            figures: figures.iter().map(|&value| plain(value)).collect(),
        });
        let [_, _, pool_p1, pool_p2] = &platform.megabits;
        let ratios = pool_p2.iter().zip(pool_p1);
        let ratio_row = GridRow {
            mode: "Pool P2 / Pool P1".to_owned(),
            is_ratio: true,
            figures: ratios
                .map(|(top, bottom)| Figure { value: ratio(top / bottom), range: String::new() })
                .collect(),
        };
        Block {
            name: format!("{}, as published", platform.name),
            is_published: true,
            rows: mode_rows.chain([ratio_row]).collect(),
        }
    });
    let ours: Vec<Block> = ours.collect();
    if ours.is_empty() { ours } else { ours.into_iter().chain(published).collect() }
}

fn measured_row<'a>(mode: &str, cell_at: impl Fn(&str) -> Option<&'a Cell>) -> GridRow {
    let figure = |level: &&str| {
        let summary = cell_at(level).and_then(|cell| cell.summary(Metric::Rate));
        figure(summary.as_ref(), 8.0)
    };
    GridRow { mode: mode.to_owned(), is_ratio: false, figures: LEVELS.iter().map(figure).collect() }
}

fn ratio_row<'a>(
    top: &str,
    bottom: &str,
    cells_at: impl Fn(&str) -> Option<(&'a Cell, &'a Cell)>,
) -> Option<GridRow> {
    let figure = |level: &&str| {
        let (top, bottom) = cells_at(level)?;
        let rate = Metric::Rate;
        let (estimate, interval) =
            ratio_of_medians(&top.values(rate), &bottom.values(rate), CONFIDENCE, RESAMPLING_SEED)?;
        Some(Figure {
            value: ratio(estimate),
            range: range_text(&ratio(interval.low), &ratio(interval.high)),
        })
    };
    let figures: Vec<Option<Figure>> = LEVELS.iter().map(figure).collect();
    figures.iter().any(Option::is_some).then(|| GridRow {
        mode: format!("{top} / {bottom}"),
        is_ratio: true,
        figures: figures.into_iter().map(|figure| figure.unwrap_or_else(empty)).collect(),
    })
}

fn figure(summary: Option<&Summary>, scale: f64) -> Figure {
    let Some(summary) = summary else { return empty() };
    let text = |value: f64| quantity(value * scale);
    Figure {
        value: text(summary.median),
        range: range_text(&text(summary.median_interval.low), &text(summary.median_interval.high)),
    }
}

fn empty() -> Figure {
    Figure { value: "–".to_owned(), range: String::new() }
}

/// `low–high`, or nothing where both read the same.
pub(super) fn range_text(low: &str, high: &str) -> String {
    if low == high { String::new() } else { format!("{low}–{high}") }
}

fn bars(outcome: &Outcome) -> Vec<BarGroup> {
    let View::Bars { groups, names, own } = &outcome.experiment.view else { return Vec::new() };
    let Some(axis) = outcome.experiment.axes.iter().find(|axis| axis.name == *groups) else {
        return Vec::new();
    };
    let measured: Vec<(&Cell, Summary)> =
        outcome.cells.iter().filter_map(|cell| Some((cell, cell.summary(Metric::Rate)?))).collect();
    let longest = measured.iter().map(|(_, summary)| summary.median_interval.high).fold(0.0, f64::max);
    let percent = |value: f64| format!("{:.2}", (value / longest * 100.0).clamp(0.0, 100.0));
    let bar = |cell: &Cell, summary: &Summary| {
        let name = cell.at.get(names).cloned().unwrap_or_default();
        let cpu = cell.summary(Metric::CpuPerGib);
        let text = |value: f64| quantity(value);
        Bar {
            is_own: name.starts_with(&**own),
            width: percent(summary.median),
            low: percent(summary.median_interval.low),
            reach: percent(summary.median_interval.high - summary.median_interval.low),
            rate: text(summary.median),
            range: range_text(&text(summary.median_interval.low), &text(summary.median_interval.high)),
            cpu: cpu
                .filter(|cpu| cpu.median > 0.0)
                .map_or_else(|| "–".to_owned(), |cpu| quantity(cpu.median)),
            note: cell.failure.clone().unwrap_or_default(),
            name,
        }
    };
    let group = |value: &String| {
        let mut members: Vec<&(&Cell, Summary)> =
            measured.iter().filter(|(cell, _)| cell.at.get(groups) == Some(value)).collect();
        members.sort_by(|(_, left), (_, right)| right.median.total_cmp(&left.median));
        BarGroup {
            name: value.clone(),
            bars: members.into_iter().map(|(cell, summary)| bar(cell, summary)).collect(),
        }
    };
    axis.values.iter().map(group).filter(|group| !group.bars.is_empty()).collect()
}

fn claim_row(result: &ClaimResult) -> ClaimRow {
    let bounds = bounds(&result.claim.shape);
    ClaimRow {
        statement: result.claim.statement.clone(),
        source: result.claim.source.clone(),
        class: match result.verdict {
            Verdict::Holds => "good",
            Verdict::DoesNotHold => "bad",
            Verdict::NotDecidable => "open",
            Verdict::NotMeasured => "none",
        },
        verdict: result.verdict.words(),
        estimate: result.estimate.map_or_else(|| "–".to_owned(), ratio),
        interval: result.interval.map_or_else(String::new, |i| range_text(&ratio(i.low), &ratio(i.high))),
        bound: bound_words(bounds),
        note: result.note.clone(),
        drawing: drawing(result, bounds),
    }
}

fn bounds(shape: &Shape) -> (Option<f64>, Option<f64>) {
    match shape {
        Shape::Ratio { low, high, .. } => (*low, *high),
        Shape::Ascending { tolerance, .. } => (Some(1.0 - tolerance), None),
        Shape::Slope { low, high, .. } => (Some(*low), Some(*high)),
    }
}

/// The bounds of a claim in signs.
pub(super) fn bound_words(bounds: (Option<f64>, Option<f64>)) -> String {
    match bounds {
        (Some(low), Some(high)) => format!("{}–{}", ratio(low), ratio(high)),
        (Some(low), None) => format!("≥ {}", ratio(low)),
        (None, Some(high)) => format!("≤ {}", ratio(high)),
        (None, None) => String::new(),
    }
}

/// Bounds of a claim result in signs.
pub(super) fn bound_of(result: &ClaimResult) -> String {
    bound_words(bounds(&result.claim.shape))
}

fn drawing(result: &ClaimResult, (low, high): (Option<f64>, Option<f64>)) -> Option<Drawing> {
    let (estimate, interval) = (result.estimate?, result.interval?);
    let known = [Some(interval.high), Some(estimate), low, high, Some(1.0)];
    let top = known.into_iter().flatten().fold(0.0, f64::max) * 1.12;
    if !top.is_finite() || interval.low < 0.0 {
        return None;
    }
    let place = |value: f64| (value / top * 100.0).clamp(0.0, 100.0);
    let (from, to) = (low.map_or(0.0, place), high.map_or(100.0, place));
    let text = |value: f64| format!("{value:.2}");
    Some(Drawing {
        band_from: text(from),
        band_width: text(to - from),
        low: text(place(interval.low)),
        width: text((place(interval.high) - place(interval.low)).max(0.6)),
        estimate: text(place(estimate)),
    })
}

fn cell_row(outcome: &Outcome, cell: &Cell) -> CellRow {
    let rate = cell.summary(Metric::Rate);
    let cpu = cell.summary(Metric::CpuPerGib).filter(|cpu| cpu.median > 0.0);
    let wall = cell.summary(Metric::Wall);
    let dash = || "–".to_owned();
    let axes = &outcome.experiment.axes;
    CellRow {
        place: axes.iter().map(|axis| cell.at.get(&axis.name).cloned().unwrap_or_else(dash)).collect(),
        count: cell.samples.len().to_string(),
        extremes: rate
            .as_ref()
            .map_or_else(dash, |rate| format!("{}–{}", quantity(rate.min), quantity(rate.max))),
        mean: rate.as_ref().map_or_else(dash, |rate| match rate.mean_interval {
            Some(interval) => format!("{} ± {}", quantity(rate.mean), quantity(interval.high - rate.mean)),
            None => quantity(rate.mean),
        }),
        remarks: remarks(cell, rate.as_ref()),
        rate: figure(rate.as_ref(), 1.0),
        cpu: figure(cpu.as_ref(), 1.0),
        wall: wall.map_or_else(dash, |wall| quantity(wall.median)),
    }
}

/// What a reader should know of a cell's samples, in words.
pub(super) fn remarks(cell: &Cell, rate: Option<&Summary>) -> String {
    let mut remarks = Vec::new();
    let still_disturbed = cell.samples.iter().filter(|sample| sample.is_disturbed).count();
    if !cell.disturbed.is_empty() {
        remarks.push(format!("{} repeated", cell.disturbed.len()));
    }
    if still_disturbed > 0 {
        remarks.push(format!("{still_disturbed} disturbed"));
    }
    let outliers = rate.map_or(0, |rate| rate.outliers.len());
    if outliers > 0 {
        remarks.push(format!("{outliers} outside Tukey's fences"));
    }
    if let Some(tier) = cell.samples.first().map(|sample| &*sample.tier).filter(|tier| !tier.is_empty()) {
        remarks.push(tier.to_owned());
    }
    remarks.extend(cell.failure.clone());
    remarks.join("; ")
}

/// The machine, for people.
pub(crate) fn facts(machine: &Machine) -> Vec<Fact> {
    let mut facts = Vec::new();
    let mut fact = |label: &'static str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            facts.push(Fact { label, value });
        }
    };
    let virtual_words = if machine.is_virtual { ", virtual machine" } else { "" };
    fact("CPU", machine.cpu_model.clone().map(|model| format!("{model}{virtual_words}")));
    fact("CPU identity", machine.cpu_id.clone());
    fact("CPUs for this run", Some(machine.cores.to_string()));
    fact("Instruction sets", Some(machine.cpu_features.join(" ")));
    fact("Memory", machine.memory_bytes.map(bytes));
    fact("Frequency governor", machine.governor.clone());
    fact("Kernel", machine.kernel.clone());
    fact("System", machine.system.clone());
    fact("TCP congestion control", machine.congestion_control.clone());
    fact("TCP buffers", machine.tcp_buffers.clone());
    fact(
        "Sealane",
        Some(match &machine.commit {
            Some(commit) => format!("{} at {commit}", machine.version),
            None => machine.version.clone(),
        }),
    );
    fact("Compiler", machine.rustc.clone());
    fact("Build", machine.is_debug_build.then(|| "unoptimised: its figures mean nothing".to_owned()));
    facts
}
