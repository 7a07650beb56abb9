//! The same findings as tables for a terminal.

use super::Report;
use super::number::{duration, quantity, ratio};
use super::page;
use crate::experiment::{Cell, Metric, Outcome, View};
use comfy_table::{Cell as TableCell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use std::fmt::Write;

/// Renders `report` for a terminal `width` columns wide (`None`: as wide as the content).
pub fn to_text(report: &Report, width: Option<u16>) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}\n{}\n", report.title, report.summary);
    for tile in &report.tiles {
        let _ = writeln!(text, "  {}: {} {}  ({})", tile.label, tile.value, tile.unit, tile.detail);
    }
    if !report.checks.is_empty() {
        let _ = writeln!(text);
    }
    for check in &report.checks {
        let mark = if check.is_good { "ok  " } else { "FAIL" };
        let _ = writeln!(text, "  {mark} {}: {}", check.what, check.found);
    }
    for outcome in &report.outcomes {
        let _ = writeln!(text, "\n{}", outcome.experiment.title);
        let tables = match &outcome.experiment.view {
            View::LevelGrid => grid_tables(outcome, width),
            View::Lines { over, lines, plots } => line_tables(outcome, over, lines, plots.as_deref(), width),
            View::Bars { groups, .. } => vec![cells_table(outcome, Some(groups), width)],
            View::Table => vec![cells_table(outcome, None, width)],
        };
        for table in tables {
            let _ = writeln!(text, "\n{table}");
        }
        if !outcome.claims.is_empty() {
            let _ = writeln!(text, "\n{}", claims_table(outcome, width));
        }
        for skipped in &outcome.skipped {
            let _ = writeln!(text, "  skipped: {skipped}");
        }
    }
    if !report.skipped.is_empty() {
        let _ = writeln!(text);
    }
    for skipped in &report.skipped {
        let _ = writeln!(text, "skipped: {skipped}");
    }
    let _ = writeln!(text, "\nTook {}.", duration(report.seconds));
    text.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

fn table(headings: &[&str], width: Option<u16>) -> Table {
    let mut table = Table::new();
    table.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')));
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(headings);
    if let Some(width) = width {
        table.set_width(width);
    }
    table
}

fn number(text: impl ToString) -> TableCell {
    TableCell::new(text).set_alignment(CellAlignment::Right)
}

/// The published platforms stay on the page; a terminal shows what was measured here.
fn grid_tables(outcome: &Outcome, width: Option<u16>) -> Vec<Table> {
    let blocks = page::grid(outcome).into_iter().filter(|block| !block.is_published);
    let tables = blocks.map(|block| {
        let heading = format!("{}, Mb/s", block.name);
        let mut table = table(&[&*heading, "clear", "authenticated", "safe", "private"], width);
        for row in &block.rows {
            let figures = row.figures.iter().map(|figure| number(&figure.value));
            table.add_row([TableCell::new(&row.mode)].into_iter().chain(figures));
        }
        table
    });
    tables.collect()
}

/// A table for each plot: lines as rows, the abscissa as columns.
fn line_tables(
    outcome: &Outcome,
    over: &str,
    lines: &str,
    plots: Option<&str>,
    width: Option<u16>,
) -> Vec<Table> {
    let values = |name: &str| {
        let axis = outcome.experiment.axes.iter().find(|axis| axis.name == name);
        axis.map(|axis| axis.values.clone()).unwrap_or_default()
    };
    let plot_values = plots.map_or_else(|| vec![None], |name| values(name).into_iter().map(Some).collect());
    let tables = plot_values.into_iter().map(|plot| {
        let corner = format!(
            "{}MB/s, {lines} \\ {over}",
            plot.as_ref().map_or(String::new(), |plot| format!("{plot}, "))
        );
        let columns = values(over);
        let headings: Vec<&str> =
            [&*corner].into_iter().chain(columns.iter().map(|value| &**value)).collect();
        let mut table = table(&headings, width);
        for line in values(lines) {
            let figure = |column: &String| {
                let mut place = crate::experiment::at([(over, &**column), (lines, &*line)]);
                place.extend(plots.zip(plot.as_ref()).map(|(axis, value)| (axis.to_owned(), value.clone())));
                let summary = outcome.cell(&place).and_then(|cell| cell.summary(Metric::Rate));
                number(summary.map_or_else(|| "–".to_owned(), |summary| quantity(summary.median)))
            };
            table.add_row([TableCell::new(&line)].into_iter().chain(columns.iter().map(figure)));
        }
        table
    });
    tables.collect()
}

fn cells_table(outcome: &Outcome, groups: Option<&String>, width: Option<u16>) -> Table {
    let axes = &outcome.experiment.axes;
    let mut headings: Vec<&str> = axes.iter().map(|axis| &*axis.name).collect();
    headings.extend(["MB/s", "90 % interval", "CPU s/GiB", "s", "runs", ""]);
    let mut table = table(&headings, width);
    let group_of = |cell: &Cell| {
        let axis = axes.iter().find(|axis| Some(&axis.name) == groups)?;
        axis.values.iter().position(|value| cell.at.get(&axis.name) == Some(value))
    };
    let mut cells: Vec<&Cell> = outcome.cells.iter().collect();
    cells.sort_by_key(|cell| group_of(cell));
    for cell in cells {
        let mut row: Vec<TableCell> = axes
            .iter()
            .map(|axis| TableCell::new(cell.at.get(&axis.name).map_or("–", |name| name)))
            .collect();
        let rate = cell.summary(Metric::Rate);
        let median =
            |metric| cell.summary(metric).map_or_else(|| "–".to_owned(), |summary| quantity(summary.median));
        let interval = rate.as_ref().map_or_else(String::new, |rate| {
            page::range_text(&quantity(rate.median_interval.low), &quantity(rate.median_interval.high))
        });
        row.push(number(median(Metric::Rate)));
        row.push(number(interval));
        row.push(number(median(Metric::CpuPerGib)));
        row.push(number(median(Metric::Wall)));
        row.push(number(cell.samples.len()));
        row.push(TableCell::new(page::remarks(cell, rate.as_ref())));
        table.add_row(row);
    }
    table
}

fn claims_table(outcome: &Outcome, width: Option<u16>) -> Table {
    let mut table = table(&["claim", "verdict", "found", "90 % interval", "claimed"], width);
    for result in &outcome.claims {
        let interval = result
            .interval
            .map_or_else(String::new, |interval| format!("{}–{}", ratio(interval.low), ratio(interval.high)));
        let verdict = match &*result.note {
            "" => result.verdict.words().to_owned(),
            note => format!("{}: {note}", result.verdict.words()),
        };
        table.add_row([
            TableCell::new(&result.claim.statement),
            TableCell::new(verdict),
            number(result.estimate.map_or_else(|| "–".to_owned(), ratio)),
            number(interval),
            number(page::bound_of(result)),
        ]);
    }
    table
}
