//! The site's pages: the index, a page for each study, the glossary.
//!
//! Guarantees: every text passes the templates' escaping; a sentence about a figure is made from the figure.

use super::told::told;
use super::words::{GLOSSARY, QUESTIONS};
use super::{Results, Stored};
use crate::LabError;
use crate::experiment::{ClaimResult, Outcome, Profile, Verdict};
use crate::inventory::{self, Row};
use crate::machine::Machine;
use crate::report::charts::Chart;
use crate::report::html::{Frame, verdicts};
use crate::report::number::{bytes, counted, duration};
use crate::report::page::{self, ClaimRow, Section, doubt};
use crate::studies::{self, Listed, PAPERS};
use askama::Template;
use std::borrow::Cow;
use std::collections::BTreeSet;

pub(super) const PROGRAM: &str = "sealane lab site";

/// Returns the file of a study's page.
pub(super) fn page_of(id: &str) -> String {
    format!("{}.html", id.to_lowercase())
}

/// A study on the index.
struct Entry {
    id: &'static str,
    href: String,
    title: &'static str,
    place: &'static str,
    command: String,
    /// The time and what it needs, in words.
    effort: String,
    /// Whether there is a result.
    is_measured: bool,
    /// Class, words and number of each verdict.
    verdicts: Vec<(&'static str, &'static str, usize)>,
    /// The cells that stand on disturbed runs, in words.
    doubt: Option<String>,
}

/// A question with the studies that answer it.
struct Answer {
    question: &'static str,
    lines: Vec<String>,
    entries: Vec<Entry>,
}

/// The studies of a paper.
struct Paper {
    name: &'static str,
    entries: Vec<Entry>,
    absent: Vec<&'static Row>,
}

/// A claim with its study.
struct Failed {
    id: &'static str,
    href: String,
    claim: ClaimRow,
}

/// A file of raw data.
pub(super) struct Data {
    pub(super) href: String,
    pub(super) words: String,
}

#[derive(Template)]
#[template(path = "site_index.html")]
struct Index<'a> {
    frame: Frame<'a>,
    summary: String,
    verdicts: Vec<(&'static str, &'static str, usize)>,
    doubt: Option<String>,
    conclusions: &'a [String],
    answers: Vec<Answer>,
    failed: Vec<Failed>,
    papers: Vec<Paper>,
    data: Vec<Data>,
    /// The number of records on the page of records, if there is one.
    beside: Option<usize>,
    /// The studies without a result.
    missing: Vec<Entry>,
}

#[derive(Template)]
#[template(path = "site_study.html")]
struct StudyPage<'a> {
    frame: Frame<'a>,
    paper: &'static str,
    row: Option<&'static Row>,
    command: &'a str,
    again: &'a str,
    effort: String,
    time: String,
    findings: Vec<String>,
    verdicts: Vec<(&'static str, &'static str, usize)>,
    sections: Vec<Section>,
    skipped: Vec<&'a String>,
    data: Vec<Data>,
    is_measured: bool,
    before: Option<(String, &'static str)>,
    after: Option<(String, &'static str)>,
}

#[derive(Template)]
#[template(path = "site_glossary.html")]
struct Glossary<'a> {
    frame: Frame<'a>,
    terms: &'static [(&'static str, &'static str)],
}

pub(super) fn rendered(page: &impl Template) -> Result<String, LabError> {
    page.render().map_err(|error| LabError::Render(error.to_string()))
}

/// Returns how long a claim of the study takes again, and what it needs of a machine, in words.
fn effort(listed: &Listed) -> String {
    let seconds = listed.again_seconds.unwrap_or(listed.seconds);
    format!("{}, {}", duration(f64::from(seconds)), listed.needs)
}

fn entry(one: &Results<'_>) -> Entry {
    Entry {
        id: one.study.id,
        href: page_of(one.study.id),
        title: one.study.title,
        place: inventory::row(one.study.id).map_or("", |row| row.place),
        command: format!("sealane {}", one.listed.again),
        effort: effort(&one.listed),
        is_measured: !one.found.is_empty(),
        verdicts: verdicts(one.claims().map(|(_, result)| result)),
        doubt: doubt(one.found.iter().map(|found| found.outcome.doubtful_cells()).sum()),
    }
}

/// Returns a claim's result as a sentence.
fn sentence((outcome, result): (&Outcome, &ClaimResult)) -> String {
    let row = page::claim_row(&outcome.experiment, result);
    let statement = capitalised(row.statement.trim_end_matches('.'));
    let figures = match &*row.bound {
        "" => format!("found {}", row.estimate),
        bound => format!("found {}, claimed {bound}", row.estimate),
    };
    format!("{statement}: {} ({figures}).", row.verdict)
}

/// Returns a statement that begins as a sentence does, unless it begins with a name, such as `tcp/ip` or `send:`.
fn capitalised(statement: &str) -> Cow<'_, str> {
    let first = statement.split(' ').next().unwrap_or_default();
    match statement.chars().next() {
        Some(letter) if first.chars().all(|c| c.is_ascii_lowercase()) => {
            Cow::Owned(format!("{}{}", letter.to_ascii_uppercase(), &statement[1..]))
        }
        _ => Cow::Borrowed(statement),
    }
}

/// Tells how many of the claims that are not shown hold, and how many do not: at least one of the two.
fn of_the_others(hold: usize, fail: usize) -> String {
    let others = match hold + fail {
        1 => "The other claim".to_owned(),
        n => format!("The other {n} claims"),
    };
    let verb = |n: usize, one: &'static str, several: &'static str| if n == 1 { one } else { several };
    match (hold, fail) {
        (_, 0) => format!("{others} {}.", verb(hold, "holds", "hold")),
        (0, _) => format!("{others} {} not hold.", verb(fail, "does", "do")),
        _ => format!(
            "Of the other {} claims {hold} {}, and {fail} {} not.",
            hold + fail,
            verb(hold, "holds", "hold"),
            verb(fail, "does", "do")
        ),
    }
}

/// The most sentences in an answer.
const SENTENCES_MAX: usize = 4;

/// Returns the decided claims as sentences: those that fail first, and the number of the others.
fn findings<'a>(claims: impl Iterator<Item = (&'a Outcome, &'a ClaimResult)>) -> Vec<String> {
    let (fitted, claims): (Vec<_>, Vec<_>) =
        claims.partition(|(_, result)| result.verdict == Verdict::ByConstruction);
    let (decided, open): (Vec<_>, Vec<_>) = claims
        .into_iter()
        .partition(|(_, result)| matches!(result.verdict, Verdict::Holds | Verdict::DoesNotHold));
    let (fail, hold): (Vec<_>, Vec<_>) =
        decided.iter().copied().partition(|(_, result)| result.verdict == Verdict::DoesNotHold);
    // A reader wants to see both kinds.
    let fails = fail.len().min(SENTENCES_MAX.saturating_sub(hold.len().min(2)));
    let shown: Vec<_> = fail.iter().take(fails).chain(&hold).take(SENTENCES_MAX).copied().collect();
    let mut lines: Vec<String> = shown.iter().copied().map(sentence).collect();
    let rest = decided.len() - shown.len();
    if rest > 0 {
        let fail = fail.len() - shown.iter().filter(|(_, one)| one.verdict == Verdict::DoesNotHold).count();
        lines.push(of_the_others(rest - fail, fail));
    }
    let busy = open.iter().filter(|(_, result)| result.verdict == Verdict::MachineBusy).count();
    if busy > 0 {
        let busy = counted(busy, "claim");
        lines.push(format!(
            "{busy} could not be decided because the machine was busy; a quiet one may decide."
        ));
    }
    if open.len() > busy {
        lines.push(format!("{} could not be decided.", counted(open.len() - busy, "claim")));
    }
    if !fitted.is_empty() {
        let agree = if fitted.len() == 1 { "agrees" } else { "agree" };
        let fitted = counted(fitted.len(), "claim");
        lines.push(format!("{fitted} more {agree} by a fit or by construction, which is no finding."));
    }
    lines
}

pub(super) fn data(stored: &Stored) -> Data {
    let report = &stored.report;
    let profile = report.profile.map_or_else(String::new, |profile| format!(", profile {}", profile.name()));
    let words =
        format!("{}{profile}, {}, {}", report.program, report.created, bytes(stored.bytes.len() as u64));
    Data { href: stored.data.clone(), words }
}

/// Renders the index; `records` is the number of those side by side.
pub(super) fn index(results: &[Results<'_>], stored: &[Stored], records: usize) -> Result<String, LabError> {
    // Several studies may share a claim.
    let mut seen = BTreeSet::new();
    let mut distinct: Vec<(&Results<'_>, &Outcome, &ClaimResult)> = Vec::new();
    for one in results {
        for found in &one.found {
            for result in &found.outcome.claims {
                let claim = &result.claim;
                if seen.insert((&found.stored.data, found.index, &claim.statement, &claim.source)) {
                    distinct.push((one, &found.outcome, result));
                }
            }
        }
    }
    let fails = distinct.iter().filter(|(.., result)| result.verdict == Verdict::DoesNotHold);
    let failed = fails.map(|(one, outcome, result)| Failed {
        id: one.study.id,
        href: page_of(one.study.id),
        claim: page::claim_row(&outcome.experiment, result),
    });
    let answer = |question: &super::words::Question| {
        let of = |id: &&str| results.iter().find(|one| one.study.id == *id);
        let studies: Vec<&Results<'_>> = question.ids.iter().filter_map(of).collect();
        // Studies that share a claim count it once.
        let mut seen = BTreeSet::new();
        let claims = studies.iter().flat_map(|one| one.claims());
        let claims = claims.filter(|(_, result)| seen.insert(result.claim.statement.clone()));
        Answer {
            question: question.question,
            lines: findings(claims),
            entries: studies.iter().filter(|one| !one.found.is_empty()).map(|one| entry(one)).collect(),
        }
    };
    // Questions with results come first.
    let mut answers: Vec<Answer> = QUESTIONS.iter().map(answer).collect();
    answers.sort_by_key(|answer| answer.entries.is_empty());
    let paper = |&name: &&'static str| Paper {
        name,
        entries: results
            .iter()
            .filter(|one| one.study.paper == name && !one.found.is_empty())
            .map(entry)
            .collect(),
        absent: studies::absent().filter(|row| studies::paper_of(row.id) == name).collect(),
    };
    let newest = &stored[0].report;
    let conclusions = stored.iter().find(|one| !one.report.conclusions.is_empty());
    let measured = results.iter().filter(|one| !one.found.is_empty()).count();
    let machines: BTreeSet<&str> =
        stored.iter().filter_map(|one| one.report.machine.cpu_model.as_deref()).collect();
    let summary = format!(
        "Five papers asked what it costs to protect network data. Each of their tables and figures is measured again here, by \
         the program itself: {measured} of {} studies have results{}.",
        results.len(),
        if machines.len() > 1 { format!(", from {} machines", machines.len()) } else { String::new() }
    );
    let seconds = stored.iter().map(|one| one.report.seconds).sum();
    let title = "What network security costs";
    rendered(&Index {
        frame: Frame::new(PROGRAM, (title, &*newest.created, seconds), &newest.machine, &[])?,
        summary,
        verdicts: verdicts(distinct.iter().map(|(.., result)| *result)),
        doubt: doubt(stored.iter().flat_map(|one| &one.report.outcomes).map(Outcome::doubtful_cells).sum()),
        conclusions: conclusions.map_or(&[][..], |one| &one.report.conclusions[..]),
        answers,
        failed: failed.collect(),
        papers: PAPERS.iter().map(paper).collect(),
        data: stored.iter().map(data).collect(),
        beside: (records > 1).then_some(records),
        missing: results.iter().filter(|one| one.found.is_empty()).map(entry).collect(),
    })
}

/// Renders the page of one study. `here` is this machine, for the version of a page without a result.
pub(super) fn study(one: &Results<'_>, here: &Machine) -> Result<String, LabError> {
    let study = one.study;
    let sections: Vec<Section> = one
        .found
        .iter()
        .enumerate()
        .map(|(number, found)| page::section(&found.outcome, number, &page_of))
        .collect();
    let charts: Vec<&Chart> = sections.iter().flat_map(|section| &section.charts).collect();
    let reports = one.reports();
    let (machine, created) =
        reports.first().map_or((here, ""), |stored| (&stored.report.machine, &*stored.report.created));
    let title = format!("{}: {}", study.id, study.title);
    let seconds = one.found.iter().map(|found| found.outcome.seconds).sum();
    let frame = Frame::new(PROGRAM, (&*title, created, seconds), machine, &charts)?;
    let outcomes: Vec<&Outcome> = one.found.iter().map(|found| &found.outcome).collect();
    let mut findings = [told(study.id, &outcomes), findings(one.claims())].concat();
    if reports.iter().any(|stored| stored.report.profile == Some(Profile::Smoke)) {
        findings
            .insert(0, "These runs were of the profile smoke, which gives no meaningful figures.".to_owned());
    }
    let neighbour = |index: Option<usize>| {
        let id = *studies::ids().get(index?)?;
        Some((page_of(id), id))
    };
    let at = studies::ids().iter().position(|id| *id == study.id);
    rendered(&StudyPage {
        frame,
        paper: study.paper,
        row: inventory::row(study.id),
        command: &one.listed.command,
        again: &one.listed.again,
        effort: effort(&one.listed),
        time: duration(f64::from(one.listed.seconds)),
        findings,
        verdicts: verdicts(one.claims().map(|(_, result)| result)),
        sections,
        skipped: reports.iter().flat_map(|stored| &stored.report.skipped).collect(),
        data: reports.iter().map(|stored| data(stored)).collect(),
        is_measured: !one.found.is_empty(),
        before: neighbour(at.and_then(|at| at.checked_sub(1))),
        after: neighbour(at.map(|at| at + 1)),
    })
}

/// Renders the glossary.
pub(super) fn glossary(here: &Machine) -> Result<String, LabError> {
    let frame = Frame::new(PROGRAM, ("Glossary", "", 0.0), here, &[])?;
    rendered(&Glossary { frame, terms: &GLOSSARY })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_begin_as_such_and_count_as_people_do() {
        let begun = ["hashes gain nothing", "send: 2 lanes gain", "tcp/ip/fddi, send", "hmac-md5: header"];
        let told = ["Hashes gain nothing", "send: 2 lanes gain", "tcp/ip/fddi, send", "hmac-md5: header"];
        assert_eq!(begun.map(|one| capitalised(one).into_owned()), told);
        assert_eq!(of_the_others(1, 0), "The other claim holds.");
        assert_eq!(of_the_others(0, 2), "The other 2 claims do not hold.");
        assert_eq!(of_the_others(1, 3), "Of the other 4 claims 1 holds, and 3 do not.");
        assert_eq!(of_the_others(2, 1), "Of the other 3 claims 2 hold, and 1 does not.");
    }
}
