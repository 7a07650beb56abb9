//! Records side by side: claims by machines, or by releases on one machine, and which rows may not be compared.
//!
//! Guarantees: a row whose records differ in the sentence, the bounds, the data or the build says so, and counts neither as
//! agreement nor as contradiction; a claim that only one record has is listed apart.

use super::pages::{PROGRAM, data, page_of, rendered};
use super::{Record, Results};
use crate::LabError;
use crate::experiment::{ClaimResult, Outcome, Profile, Verdict};
use crate::machine::Machine;
use crate::report::Report;
use crate::report::html::{Frame, verdicts};
use crate::report::number::counted;
use crate::report::page::{class_of, measure_of};
use askama::Template;
use std::collections::BTreeSet;

/// The page's file.
pub(super) const PAGE: &str = "machines.html";

/// The finding of a record about a claim.
#[derive(Clone, Copy)]
struct Finding<'a> {
    outcome: &'a Outcome,
    result: &'a ClaimResult,
    report: &'a Report,
}

/// A claim, and what each record found about it.
struct Line<'a> {
    study: &'static str,
    findings: Vec<Option<Finding<'a>>>,
}

impl<'a> Line<'a> {
    fn found(&self) -> impl Iterator<Item = Finding<'a>> + '_ {
        self.findings.iter().flatten().copied()
    }

    fn is_of_one(&self) -> bool {
        self.found().count() == 1
    }

    fn first(&self) -> Finding<'a> {
        self.found().next().expect("a line begins with a finding")
    }

    /// Returns why its records may not be compared; nothing if they may.
    fn reasons(&self) -> Vec<&'static str> {
        let first = self.first();
        let mut differ: Vec<&'static str> = Vec::new();
        let mut note = |is_so: bool, words| differ.extend(is_so.then_some(words));
        let others = |is_other: &dyn Fn(Finding<'_>) -> bool| self.found().any(is_other);
        let claim = &first.result.claim;
        note(others(&|one| one.result.claim.statement != claim.statement), "the sentence has other numbers");
        note(
            others(&|one| one.result.claim.shape.bounds() != claim.shape.bounds())
                && others(&|one| one.result.claim.statement == claim.statement),
            "other bounds",
        );
        note(
            others(&|one| one.outcome.experiment.workload != first.outcome.experiment.workload),
            "other data were copied",
        );
        note(others(&|one| one.report.machine.is_debug_build), "built without optimisation");
        note(others(&|one| one.report.profile == Some(Profile::Smoke)), "the profile smoke");
        note(others(&|one| !one.report.hosts.is_empty()), "taken by several hosts");
        differ
    }

    /// Returns the decided verdicts.
    fn decided(&self) -> Vec<Verdict> {
        let verdicts = self.found().map(|one| one.result.verdict);
        verdicts.filter(|verdict| matches!(verdict, Verdict::Holds | Verdict::DoesNotHold)).collect()
    }

    /// Returns whether two records decide the claim, and whether they decide it alike.
    fn agreement(&self) -> Option<bool> {
        let decided = self.decided();
        (decided.len() > 1).then(|| decided.windows(2).all(|pair| pair[0] == pair[1]))
    }

    /// Returns in words that the verdict is another one than before on the same processor.
    fn change(&self) -> Option<String> {
        let mut found: Vec<Finding<'a>> = self.found().collect();
        found.sort_by(|one, other| one.report.created.cmp(&other.report.created));
        // Records of other processors may lie between two of one.
        let before = |(at, after): (usize, &Finding<'a>)| {
            let is_same = |one: &&Finding<'_>| is_same_processor(&one.report.machine, &after.report.machine);
            let before = found[..at].iter().rev().find(is_same)?;
            (before.result.verdict != after.result.verdict).then_some([*before, *after])
        };
        let pair = found.iter().enumerate().find_map(before)?;
        let [before, after] = [pair[0], pair[1]]
            .map(|one| format!("“{}” {}", one.result.verdict.words(), build_of(one.report)));
        Some(format!("on the same processor: {before}, then {after}"))
    }
}

fn is_same_processor(one: &Machine, other: &Machine) -> bool {
    one.cpu_model.is_some() && (&one.cpu_model, one.cores) == (&other.cpu_model, other.cores)
}

fn build_of(report: &Report) -> String {
    let commit = report.machine.commit.as_deref().map(|commit| format!(" ({commit})")).unwrap_or_default();
    let day = report.created.split('T').next().unwrap_or_default();
    format!("with {}{commit} of {day}", report.machine.version)
}

/// Returns a sentence with its numbers left out.
fn without_numbers(sentence: &str) -> String {
    sentence.chars().filter(|character| !character.is_ascii_digit() && !",.".contains(*character)).collect()
}

/// Returns the lines of all studies, in the order of the list: the same sentence stands on one line, and so do sentences that
/// differ in numbers alone, if each record has one of them.
fn lines<'a>(records: &'a [Vec<Results<'_>>]) -> Vec<Line<'a>> {
    let mut all: Vec<Line<'a>> = Vec::new();
    // Several studies may share a claim.
    let mut seen = BTreeSet::new();
    for at in 0..records.first().map_or(0, Vec::len) {
        let mut of_study: Vec<Line<'a>> = Vec::new();
        for (record, results) in records.iter().enumerate() {
            let one = &results[at];
            for found in &one.found {
                for result in &found.outcome.claims {
                    let claim = &result.claim;
                    if !seen.insert((&found.stored.data, found.index, &claim.statement, &claim.source)) {
                        continue;
                    }
                    let finding = Finding { outcome: &found.outcome, result, report: &found.stored.report };
                    let is_it = |line: &&mut Line<'_>| {
                        let claim = &line.first().result.claim;
                        let own = &result.claim;
                        line.findings[record].is_none()
                            && (&claim.statement, &claim.source) == (&own.statement, &own.source)
                    };
                    if let Some(line) = of_study.iter_mut().find(is_it) {
                        line.findings[record] = Some(finding);
                        continue;
                    }
                    let mut findings = vec![None; records.len()];
                    findings[record] = Some(finding);
                    of_study.push(Line { study: one.study.id, findings });
                }
            }
        }
        all.extend(joined(of_study));
    }
    all
}

/// Joins the lines of one record each whose sentences differ in numbers alone.
fn joined(lines: Vec<Line<'_>>) -> Vec<Line<'_>> {
    let words: Vec<Option<String>> = lines
        .iter()
        .map(|line| line.is_of_one().then(|| without_numbers(&line.first().result.claim.statement)))
        .collect();
    let record_of = |line: &Line<'_>| line.findings.iter().position(Option::is_some);
    let records: Vec<Option<usize>> = lines.iter().map(record_of).collect();
    // Several sentences of one record with the same words have no one partner.
    let partners = |at: usize| -> Vec<usize> {
        let same: Vec<usize> = (0..words.len()).filter(|&other| words[other] == words[at]).collect();
        let distinct: BTreeSet<Option<usize>> = same.iter().map(|&other| records[other]).collect();
        if words[at].is_some() && distinct.len() == same.len() { same } else { vec![at] }
    };
    let groups: Vec<Vec<usize>> = (0..lines.len()).map(partners).collect();
    let mut out: Vec<Line<'_>> = Vec::new();
    for (at, group) in groups.iter().enumerate().filter(|(at, group)| group[0] == *at) {
        let mut findings = lines[at].findings.clone();
        for &other in group {
            for (place, finding) in findings.iter_mut().zip(&lines[other].findings) {
                *place = place.or(*finding);
            }
        }
        out.push(Line { study: lines[at].study, findings });
    }
    out
}

/// A record's column.
struct Column {
    name: String,
    machine: String,
    build: String,
    verdicts: Vec<(&'static str, &'static str, usize)>,
    files: Vec<super::pages::Data>,
}

/// A record's finding in a row.
struct Shown {
    class: &'static str,
    verdict: &'static str,
    figure: String,
}

/// A claim's row.
struct Row {
    study: &'static str,
    href: String,
    statement: String,
    source: String,
    /// Why it may not be compared, or since when it differs; may be empty.
    mark: String,
    is_comparable: bool,
    cells: Vec<Option<Shown>>,
}

#[derive(Template)]
#[template(path = "site_machines.html")]
struct Machines<'a> {
    frame: Frame<'a>,
    summary: String,
    columns: Vec<Column>,
    differ: Vec<Row>,
    compared: Vec<Row>,
    alone: Vec<(String, usize)>,
}

fn row(line: &Line<'_>) -> Row {
    let reasons = line.reasons();
    let claim = &line.first().result.claim;
    let shown = |one: &Finding<'_>| {
        let Finding { outcome, result, .. } = one;
        let measure = measure_of(&outcome.experiment, result);
        let verdict = match result.verdict {
            Verdict::MachineBusy => "busy",
            Verdict::ByConstruction => "fitted",
            other => other.words(),
        };
        let figure = result.estimate.map_or_else(|| "–".to_owned(), |value| measure.write(value));
        Shown { class: class_of(result.verdict), verdict, figure }
    };
    Row {
        study: line.study,
        href: page_of(line.study),
        statement: claim.statement.clone(),
        source: claim.source.clone(),
        mark: match &reasons[..] {
            [] => line.change().unwrap_or_default(),
            some => format!("not comparable: {}", some.join("; ")),
        },
        is_comparable: reasons.is_empty(),
        cells: line.findings.iter().map(|finding| finding.as_ref().map(shown)).collect(),
    }
}

fn column(record: &Record, results: &[Results<'_>]) -> Column {
    let newest = record.stored.first().map(|stored| &stored.report);
    let models: BTreeSet<String> = record
        .stored
        .iter()
        .map(|stored| {
            let Machine { cpu_model, cores, kernel, .. } = &stored.report.machine;
            let model = cpu_model.as_deref().unwrap_or("a processor that gives no name");
            let kernel = kernel.as_deref().map(|kernel| format!(", {kernel}")).unwrap_or_default();
            format!("{model}, {}{kernel}", counted(cores, "CPU"))
        })
        .collect();
    Column {
        name: record.name.clone(),
        machine: models.into_iter().collect::<Vec<_>>().join("; and "),
        build: newest.map_or_else(String::new, build_of),
        verdicts: verdicts(results.iter().flat_map(|one| one.claims().map(|(_, result)| result))),
        files: record.stored.iter().map(data).collect(),
    }
}

/// Returns how far the records agree, in words.
fn summary(lines: &[Line<'_>]) -> String {
    let several = lines.iter().filter(|line| !line.is_of_one()).count();
    let comparable: Vec<&Line<'_>> =
        lines.iter().filter(|line| !line.is_of_one() && line.reasons().is_empty()).collect();
    let decided: Vec<bool> = comparable.iter().filter_map(|line| line.agreement()).collect();
    let alike = decided.iter().filter(|alike| **alike).count();
    let share = match decided.len() {
        0 => "no claim is decided by two of them".to_owned(),
        count => format!(
            "{} by two of them or more, {alike} of these alike ({} %)",
            if count == 1 { "1 claim is decided".to_owned() } else { format!("{count} claims are decided") },
            100 * alike / count
        ),
    };
    format!(
        "{} in several records, of which {} may not be compared, for the reason beside them; {share}.",
        counted(several, "claim"),
        several - comparable.len()
    )
}

/// Renders the page: the site's own record first, then the added ones.
pub(super) fn page(records: &[Record], results: &[Vec<Results<'_>>]) -> Result<String, LabError> {
    let newest = &records[0].stored[0].report;
    let lines = lines(results);
    let differs = |line: &&Line<'_>| {
        line.reasons().is_empty() && (line.agreement() == Some(false) || line.change().is_some())
    };
    let alone = |(at, record): (usize, &Record)| {
        let count = lines.iter().filter(|line| line.is_of_one() && line.findings[at].is_some()).count();
        (record.name.clone(), count)
    };
    rendered(&Machines {
        frame: Frame::new(PROGRAM, ("Records side by side", "", 0.0), &newest.machine, &[])?,
        summary: summary(&lines),
        columns: records.iter().zip(results).map(|(record, results)| column(record, results)).collect(),
        differ: lines.iter().filter(differs).map(row).collect(),
        compared: lines.iter().filter(|line| !line.is_of_one()).map(row).collect(),
        alone: records.iter().enumerate().map(alone).filter(|(_, count)| *count > 0).collect(),
    })
}
