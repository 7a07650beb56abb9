//! Reports as tables for a terminal.

use super::Report;
use super::number::duration;
use super::page::{bound_words, measure_of};
use super::table::{Column, Row, Table, Text, wrapped};
use super::tables;
use crate::experiment::{ClaimResult, Outcome};
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
        let _ = write!(text, "\n{}", outcome_text(outcome, width));
    }
    if !report.skipped.is_empty() {
        let _ = writeln!(text);
    }
    for skipped in &report.skipped {
        let _ = writeln!(text, "skipped: {skipped}");
    }
    let _ = writeln!(text, "\nTook {}.", duration(report.seconds));
    if !report.conclusions.is_empty() {
        let _ = writeln!(text);
    }
    for line in &report.conclusions {
        let _ = writeln!(text, "{}", wrapped(line, width));
    }
    text.lines().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

/// Returns all experiments of a report, one after the other, and the omitted parts.
pub fn outcomes_text(report: &Report, width: Option<u16>) -> String {
    let outcomes = report.outcomes.iter().map(|outcome| outcome_text(outcome, width) + "\n");
    let skipped = report.skipped.iter().map(|skipped| format!("skipped: {skipped}\n"));
    outcomes.chain(skipped).collect()
}

/// Returns one experiment: its title, how to read it, its tables, its claims.
pub fn outcome_text(outcome: &Outcome, width: Option<u16>) -> String {
    let mut text = outcome.experiment.title.clone() + "\n";
    for note in &outcome.experiment.notes {
        text += &format!("{}\n", wrapped(note, width));
    }
    for table in tables::main(outcome).iter().filter(|table| !table.rows.is_empty()) {
        text += &format!("\n{}", table.to_text(width));
    }
    if !outcome.claims.is_empty() {
        text += &format!("\n{}", claims(outcome).to_text(width));
    }
    for skipped in &outcome.skipped {
        text += &format!("  skipped: {skipped}\n");
    }
    text
}

fn claims(outcome: &Outcome) -> Table {
    let columns =
        [("claim", false), ("verdict", false), ("found", true), ("interval", true), ("claimed", true)];
    let row = |result: &ClaimResult| {
        let measure = measure_of(&outcome.experiment, result);
        let interval = result
            .interval
            .map_or_else(String::new, |i| format!("{}–{}", measure.write(i.low), measure.write(i.high)));
        let verdict = match &*result.note {
            "" => result.verdict.words().to_owned(),
            note => format!("{}: {note}", result.verdict.words()),
        };
        let cells = [
            format!("{} ({})", result.claim.statement, result.claim.source),
            verdict,
            result.estimate.map_or_else(|| "–".to_owned(), |value| measure.write(value)),
            interval,
            bound_words(&measure, result.claim.shape.bounds()),
        ];
        Row { cells: cells.map(Text::from).to_vec(), ..Row::default() }
    };
    Table {
        title: String::new(),
        columns: columns.map(|(name, is_number)| Column::new(name, is_number)).to_vec(),
        rows: outcome.claims.iter().map(row).collect(),
    }
}
