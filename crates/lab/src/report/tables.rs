//! The tables of an outcome: a row for each cell, or one measure across.
//!
//! Guarantees: a figure and its interval come from the same samples; an empty place shows a dash, never a zero.

use super::number::{counted, quantity};
use super::table::{Column, Row, Table, Text};
use crate::experiment::{
    ANY, Cell, Coordinates, Experiment, Measure, Origin, Outcome, Pivot, Role, Value, View, derive,
};
use crate::stats::{Interval, SAMPLES_FOR_CONFIDENCE, Summary};

/// Returns the main tables, which a terminal shows, and a page shows first.
pub(crate) fn main(outcome: &Outcome) -> Vec<Table> {
    match &outcome.experiment.view {
        View::Cells => vec![cells(outcome, None, false)],
        View::Bars { groups, .. } => vec![cells(outcome, Some(groups), false)],
        View::Pivot(pivot) => pivots(outcome, pivot, false),
        View::Claims => Vec::new(),
    }
}

/// Returns the tables that only a page has room for: published ones, and full data of samples.
pub(crate) fn published(outcome: &Outcome) -> Vec<Table> {
    match &outcome.experiment.view {
        View::Pivot(pivot) if !pivot.blocks.is_empty() => pivots(outcome, pivot, true),
        _ => Vec::new(),
    }
}

/// Returns every cell with full data of its samples, if it has any.
pub(crate) fn every_cell(outcome: &Outcome) -> Option<Table> {
    outcome.cells.iter().any(|cell| !cell.samples.is_empty()).then(|| cells(outcome, None, true))
}

/// Returns `low–high`, or nothing if both read the same.
pub(crate) fn range_text(low: &str, high: &str) -> String {
    if low == high { String::new() } else { format!("{low}–{high}") }
}

fn written(measure: &Measure, interval: Option<Interval>) -> String {
    interval.map_or_else(String::new, |interval| {
        range_text(&measure.write(interval.low), &measure.write(interval.high))
    })
}

/// Returns the heading of intervals: fewer samples than a 90 % interval needs give a range.
fn interval_heading(cells: &[Cell], measure: &Measure) -> &'static str {
    let given = |cell: &Cell| matches!(cell.values.get(&measure.id), Some(Value::Range { .. }));
    if cells.iter().any(given) {
        return if measure.origin == Origin::Predicted { "range" } else { "90 % interval" };
    }
    let counts: Vec<usize> =
        cells.iter().map(|cell| cell.samples_of(&measure.id).len()).filter(|count| *count > 0).collect();
    let enough = counts.iter().filter(|count| **count >= SAMPLES_FOR_CONFIDENCE).count();
    match enough {
        0 => "range",
        _ if enough == counts.len() => "90 % interval",
        _ => "90 % interval, or range",
    }
}

/// Returns the experiment's measures, or those of runs if it has no measures but samples.
fn measures(outcome: &Outcome) -> Vec<Measure> {
    let own = &outcome.experiment.measures;
    let has_samples = outcome.cells.iter().any(|cell| !cell.samples.is_empty());
    if own.is_empty() && has_samples { crate::experiment::of_runs() } else { own.clone() }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|character| character.is_ascii_digit() || ",.".contains(character))
}

/// Returns a row for each cell. `in_full` requests full data of the first measure's samples, for a page.
fn cells(outcome: &Outcome, groups: Option<&String>, in_full: bool) -> Table {
    let Outcome { experiment, cells, .. } = outcome;
    let measures = measures(outcome);
    let sampled = measures.iter().position(|measure| {
        let has_interval = |cell: &Cell| match cell.values.get(&measure.id) {
            Some(value) => matches!(value, Value::Range { .. }),
            None => cell.samples.iter().any(|sample| sample.value(&measure.id).is_some()),
        };
        cells.iter().any(has_interval)
    });
    let is_sampled = cells.iter().any(|cell| !cell.samples.is_empty());
    let mut columns: Vec<Column> = experiment
        .axes
        .iter()
        .map(|axis| Column::new(&axis.name, axis.values.iter().all(|value| is_number(value))))
        .collect();
    for (at, measure) in measures.iter().enumerate() {
        columns.push(Column { is_published: measure.is_published(), ..Column::new(&measure.name, true) });
        if sampled == Some(at) {
            columns.push(Column::new(interval_heading(cells, measure), true));
            if in_full {
                columns.extend([Column::new("min–max", true), Column::new("mean ± 90 %", true)]);
            }
        }
    }
    if is_sampled {
        columns.push(Column::new("runs", true));
    }
    columns.push(Column::new("", false));
    let row = |cell: &Cell| {
        let absent = || if cell.role == Role::Own { "–" } else { "" };
        let place =
            experiment.axes.iter().map(|axis| cell.at.get(&axis.name).map_or_else(absent, String::as_str));
        let mut texts: Vec<Text> = place.map(Text::from).collect();
        for (at, measure) in measures.iter().enumerate() {
            let figure = cell.figure(&measure.id).map(|value| measure.write(value));
            let figure_is_there = figure.is_some();
            let value = match cell.values.get(&measure.id) {
                Some(Value::Text(text)) => text.clone(),
                _ => figure.unwrap_or_else(|| absent().to_owned()),
            };
            let range = written(measure, cell.interval(&measure.id));
            let is_doubtful = cell.is_doubtful() && figure_is_there;
            if sampled != Some(at) {
                texts.push(Text { value, range, is_doubtful });
                continue;
            }
            texts.extend([Text { is_doubtful, ..Text::from(value) }, Text::from(range)]);
            if in_full {
                texts.extend(spread(cell.summary(&measure.id)).map(Text::from));
            }
        }
        if is_sampled {
            let runs = cell.samples.len();
            texts.push(if cell.role == Role::Own { runs.to_string() } else { String::new() }.into());
        }
        let first = sampled.and_then(|at| cell.summary(&measures[at].id));
        texts.push(remarks(cell, first.as_ref()).into());
        Row {
            cells: texts,
            is_summary: cell.role == Role::Summary,
            is_published: cell.role == Role::Published,
        }
    };
    let group_of = |cell: &&Cell| {
        let axis = groups?;
        experiment.values(axis).iter().position(|value| cell.at.get(axis) == Some(value))
    };
    // Published figures have no samples.
    let mut sorted: Vec<&Cell> = cells.iter().filter(|cell| !in_full || cell.role == Role::Own).collect();
    sorted.sort_by_key(group_of);
    let table = Table { title: String::new(), columns, rows: sorted.into_iter().map(row).collect() };
    if is_sampled && groups.is_some() { table } else { table.without_empty_columns() }
}

fn spread(summary: Option<Summary>) -> [String; 2] {
    let Some(summary) = summary else { return ["–", "–"].map(str::to_owned) };
    let mean = match summary.mean_interval {
        Some(interval) => format!("{} ± {}", quantity(summary.mean), quantity(interval.high - summary.mean)),
        None => quantity(summary.mean),
    };
    [format!("{}–{}", quantity(summary.min), quantity(summary.max)), mean]
}

/// Returns remarks on a cell's samples in words.
fn remarks(cell: &Cell, first: Option<&Summary>) -> String {
    let still_disturbed = cell.samples.iter().filter(|sample| sample.is_disturbed).count();
    let outliers = first.map_or(0, |summary| summary.outliers.len());
    let counts = [
        (cell.disturbed.len(), "disturbed by other work and repeated"),
        (still_disturbed, "disturbed by other work but counted"),
        (cell.behind.disturbed, "behind it disturbed by other work"),
        (outliers, "far from the others (outside Tukey's fences)"),
    ];
    let mut remarks: Vec<String> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, words)| format!("{} {words}", counted(count, "run")))
        .collect();
    if let Some(tier) = cell.samples.first().map(|sample| &*sample.tier).filter(|tier| !tier.is_empty()) {
        remarks.push(tier.to_owned());
    }
    remarks.extend(cell.failure.clone());
    remarks.join("; ")
}

/// Returns the combinations of values of some axes, in their order, the last axis slowest, without those that no cell
/// has.
pub(crate) fn combinations(outcome: &Outcome, axes: &[String], role: Role) -> Vec<Coordinates> {
    let mut all = vec![Coordinates::new()];
    for axis in axes {
        let values: Vec<&String> =
            outcome.experiment.values(axis).iter().filter(|value| *value != ANY).collect();
        let with = |value: &&String| {
            let value = (*value).clone();
            all.iter().map(move |place| {
                let mut place = place.clone();
                place.insert(axis.clone(), value.clone());
                place
            })
        };
        all = values.iter().flat_map(with).collect();
    }
    let cells = || outcome.cells.iter().filter(|cell| cell.role == role);
    all.retain(|place| {
        cells().any(|cell| place.iter().all(|(axis, value)| cell.at.get(axis) == Some(value)))
    });
    all
}

/// Returns the cell at a place, in which [`ANY`] stands for every value of an axis.
pub(crate) fn at_or_any<'a>(outcome: &'a Outcome, place: &Coordinates, role: Role) -> Option<&'a Cell> {
    let is_there = |cell: &&Cell| {
        let is = |(axis, value): (&String, &String)| {
            cell.at.get(axis).is_some_and(|own| own == value || own == ANY)
        };
        cell.role == role && place.iter().all(is)
    };
    outcome.cells.iter().find(is_there)
}

/// Returns the values of a place in words.
pub(crate) fn words_of(experiment: &Experiment, place: &Coordinates, axes: &[String]) -> String {
    let words = axes.iter().filter_map(|axis| Some(experiment.words(axis, place.get(axis)?)));
    words.collect::<Vec<_>>().join(", ")
}

fn joined(one: &Coordinates, other: &Coordinates) -> Coordinates {
    one.iter().chain(other).map(|(axis, value)| (axis.clone(), value.clone())).collect()
}

/// Returns one measure with one axis across, a table per block, for this machine's or for published figures.
fn pivots(outcome: &Outcome, pivot: &Pivot, is_published: bool) -> Vec<Table> {
    let experiment = &outcome.experiment;
    let role = if is_published { Role::Published } else { Role::Own };
    let blocks = combinations(outcome, &pivot.blocks, role);
    let tables = blocks.iter().filter_map(|block| {
        let table = pivot_table(outcome, pivot, block, role)?;
        let title = words_of(experiment, block, &pivot.blocks);
        Some(Table { title, ..table })
    });
    tables.collect()
}

fn pivot_table(outcome: &Outcome, pivot: &Pivot, block: &Coordinates, role: Role) -> Option<Table> {
    let experiment = &outcome.experiment;
    let measure = experiment.measure(&pivot.measure);
    let across = experiment.values(&pivot.columns);
    let mut columns: Vec<Column> = pivot.rows.iter().map(|axis| Column::new(axis, false)).collect();
    if let [only] = &mut columns[..]
        && !measure.name.is_empty()
    {
        only.name.clone_from(&measure.name);
    }
    let names = across.iter().map(|value| experiment.words(&pivot.columns, value));
    columns.extend(names.map(|name| Column::new(name, true)));
    columns.extend(pivot.times.iter().map(|heading| Column::new(heading, true)));
    let cell = |row: &Coordinates, column: &String| {
        let mut place = joined(block, row);
        place.insert(pivot.columns.clone(), column.clone());
        at_or_any(outcome, &place, role)
    };
    let dash = || Text::from("–");
    let figure = |cell: Option<&Cell>| {
        let value = cell.and_then(|cell| cell.figure(&measure.id)).map(|value| measure.write(value));
        let range = cell.map_or_else(String::new, |cell| written(&measure, cell.interval(&measure.id)));
        let is_doubtful = cell.is_some_and(Cell::is_doubtful);
        value.map_or_else(dash, |value| Text { value, range, is_doubtful })
    };
    let times = Measure::times("", "");
    let ratio = |top: Option<&Cell>, bottom: Option<&Cell>| {
        let (top, bottom) = (top?, bottom?);
        let value = derive::over(top, bottom, &measure.id)?;
        let interval = match value {
            Value::Range { low, high, .. } => Some(Interval { low, high }),
            _ => None,
        };
        let is_doubtful = top.is_doubtful() || bottom.is_doubtful();
        Some(Text { value: times.write(value.number()?), range: written(&times, interval), is_doubtful })
    };
    let mut rows = Vec::new();
    // The first axis of rows varies slowest.
    let axes: Vec<String> = pivot.rows.iter().rev().cloned().collect();
    for place in combinations(outcome, &axes, role) {
        let found: Vec<Option<&Cell>> = across.iter().map(|column| cell(&place, column)).collect();
        if found.iter().all(Option::is_none) {
            continue;
        }
        let mut cells: Vec<Text> =
            pivot.rows.iter().map(|axis| experiment.words(axis, &place[axis]).into()).collect();
        cells.extend(found.iter().map(|cell| figure(*cell)));
        if pivot.times.is_some() {
            let (first, last) = (found.first().copied().flatten(), found.last().copied().flatten());
            cells.push(ratio(last, first).unwrap_or_else(dash));
        }
        rows.push(Row { cells, is_published: role == Role::Published, ..Row::default() });
    }
    let names = pivot.rows.first()?;
    for (top, bottom) in &pivot.ratios {
        let place = |name: &String| Coordinates::from([(names.clone(), name.clone())]);
        let found: Vec<Option<Text>> = across
            .iter()
            .map(|column| ratio(cell(&place(top), column), cell(&place(bottom), column)))
            .collect();
        if found.iter().any(Option::is_some) {
            let name = Text::from(format!("{top} / {bottom}"));
            let cells =
                [name].into_iter().chain(found.into_iter().map(|text| text.unwrap_or_else(dash))).collect();
            rows.push(Row { cells, is_summary: true, is_published: role == Role::Published });
        }
    }
    (!rows.is_empty()).then_some(Table { title: String::new(), columns, rows })
}
