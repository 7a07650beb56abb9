//! The page's content as text, ready for the template: everything formatted, nothing yet markup.
//!
//! Guarantees: every outcome is shown the same way, for all studies.

use super::Report;
use super::charts::{self, Chart};
use super::number::{bytes, counted};
use super::table::{DOUBTFUL, DOUBTFUL_WORDS, Table};
use super::tables::{self, range_text};
use crate::experiment::{
    Cell, ClaimResult, Experiment, Measure, Outcome, RATE, Runs, Shape, Verdict, View, of_runs,
};
use crate::machine::Machine;
use crate::stats::{SAMPLES_FOR_CONFIDENCE, Summary};
use crate::studies::{self, Study};

/// One outcome on the page.
pub(crate) struct Section {
    pub(crate) anchor: String,
    pub(crate) title: String,
    pub(crate) covers: Vec<Mention>,
    pub(crate) paper: String,
    pub(crate) notes: Vec<String>,
    pub(crate) rule: String,
    pub(crate) bars: Option<Bars>,
    pub(crate) charts: Vec<Chart>,
    pub(crate) tables: Vec<Table>,
    pub(crate) published: Vec<Table>,
    pub(crate) claims: Vec<ClaimRow>,
    pub(crate) every_cell: Option<Table>,
    pub(crate) method: Vec<String>,
    pub(crate) skipped: Vec<String>,
    /// The cells that stand on disturbed runs, in words.
    pub(crate) doubt: Option<String>,
}

/// A piece of text, and the study that it names, with the place to which it leads.
pub(crate) struct Mention {
    pub(crate) text: String,
    pub(crate) study: Option<&'static str>,
    pub(crate) href: String,
}

/// Bars that are compared with each other, in groups.
pub(crate) struct Bars {
    pub(crate) headings: Vec<String>,
    pub(crate) caption: String,
    pub(crate) groups: Vec<BarGroup>,
}

/// A group of bars.
pub(crate) struct BarGroup {
    pub(crate) name: String,
    pub(crate) bars: Vec<Bar>,
}

/// One bar; lengths are in percent of the longest reach on the page.
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) is_own: bool,
    pub(crate) width: String,
    pub(crate) low: String,
    pub(crate) reach: String,
    pub(crate) figure: String,
    pub(crate) range: String,
    pub(crate) others: Vec<String>,
    pub(crate) note: String,
    pub(crate) is_doubtful: bool,
}

/// A claim with its verdict and a small drawing of its interval.
pub(crate) struct ClaimRow {
    pub(crate) statement: String,
    pub(crate) source: String,
    pub(crate) class: &'static str,
    pub(crate) verdict: &'static str,
    pub(crate) estimate: String,
    pub(crate) interval: String,
    pub(crate) bound: String,
    pub(crate) note: String,
    pub(crate) drawing: Option<Drawing>,
}

/// Positions on a line of width 100.
pub(crate) struct Drawing {
    pub(crate) band_from: String,
    pub(crate) band_width: String,
    pub(crate) low: String,
    pub(crate) width: String,
    pub(crate) estimate: String,
}

/// Label and value of a fact about the machine.
pub(crate) struct Fact {
    pub(crate) label: &'static str,
    pub(crate) value: String,
}

pub(crate) fn sections(report: &Report) -> Vec<Section> {
    let href = |id: &str| format!("#study-{id}");
    report.outcomes.iter().enumerate().map(|(index, outcome)| section(outcome, index, &href)).collect()
}

/// Returns the studies that the sections mention, in the order of the list.
pub(crate) fn mentioned(sections: &[Section]) -> Vec<&'static Study> {
    let is_mentioned = |id: &&str| {
        sections.iter().flat_map(|section| &section.covers).any(|mention| mention.study == Some(*id))
    };
    studies::ids().into_iter().filter(is_mentioned).filter_map(studies::find).collect()
}

/// Returns an outcome as a section of a page, on which `href` is the place of a study. `index` makes ids unique.
pub(crate) fn section(outcome: &Outcome, index: usize, href: &dyn Fn(&str) -> String) -> Section {
    let experiment = &outcome.experiment;
    let rule = experiment.repetition;
    let mut rules = vec![experiment.workload.clone()];
    if rule.rounds > 0 {
        let warm_up = match rule.warm_up_rounds {
            0 => String::new(),
            rounds => format!(" after {rounds} of warm-up"),
        };
        let taken = match outcome.runs_taken() {
            Some((least, most)) if least == most && most < rule.rounds => {
                format!(" were planned, and cells have {}", counted(most, "run"))
            }
            Some((least, most)) if least < most => {
                format!(" were planned, and cells have {least} to {}", counted(most, "run"))
            }
            _ => String::new(),
        };
        rules.push(format!(
            "{} rounds{warm_up}{taken}, every cell once a round, in a new random order; seed {:#018x}.",
            rule.rounds, outcome.seed
        ));
    }
    let bars = bars(outcome);
    let is_pivot = matches!(experiment.view, View::Pivot(_));
    // The bars show the same as the table would; all figures follow below.
    let every_cell = if bars.is_some() || is_pivot { tables::every_cell(outcome) } else { None };
    Section {
        anchor: format!("experiment-{index}"),
        title: experiment.title.clone(),
        covers: mentions(&experiment.covers, href),
        paper: experiment.paper.clone(),
        notes: experiment.notes.clone(),
        rule: rules.into_iter().filter(|rule| !rule.is_empty()).collect::<Vec<_>>().join(" "),
        charts: charts::of_outcome(outcome, &format!("chart-{index}")),
        tables: if bars.is_some() { Vec::new() } else { tables::main(outcome) },
        published: tables::published(outcome),
        bars,
        claims: outcome.claims.iter().map(|result| claim_row(experiment, result)).collect(),
        every_cell,
        method: experiment.method.clone(),
        skipped: outcome.skipped.clone(),
        doubt: doubt(outcome.doubtful_cells()),
    }
}

/// Returns how many of some cells stand on disturbed runs, in words; `None` if none does.
pub(crate) fn doubt(cells: Runs) -> Option<String> {
    let Runs { taken, disturbed } = cells;
    (disturbed > 0).then(|| format!("{disturbed} of {} {DOUBTFUL} on disturbed runs", counted(taken, "cell")))
}

/// Splits a list of ids, which may contain ranges, into names of studies and the text between them.
fn mentions(covers: &str, href: &dyn Fn(&str) -> String) -> Vec<Mention> {
    let mut mentions: Vec<Mention> = Vec::new();
    let is_of_id = |character: char| character.is_ascii_alphanumeric();
    for piece in covers.split_inclusive(|character| !is_of_id(character)) {
        let id = piece.trim_end_matches(|character| !is_of_id(character));
        let study = studies::find(id).map(|study| study.id);
        let href = study.map(href).unwrap_or_default();
        mentions.push(Mention { text: id.to_owned(), study, href });
        mentions.push(Mention { text: piece[id.len()..].to_owned(), study: None, href: String::new() });
    }
    mentions.retain(|mention| !mention.text.is_empty());
    mentions
}

fn bars(outcome: &Outcome) -> Option<Bars> {
    let View::Bars { groups, names, own } = &outcome.experiment.view else { return None };
    let measures = match &outcome.experiment.measures[..] {
        [] => of_runs().into_iter().take(2).collect(),
        some => some.to_vec(),
    };
    let (first, others) = measures.split_first()?;
    let measured: Vec<(&Cell, Summary)> =
        outcome.cells.iter().filter_map(|cell| Some((cell, cell.summary(&first.id)?))).collect();
    let longest = measured.iter().map(|(_, summary)| summary.median_interval.high).fold(0.0, f64::max);
    let percent = |value: f64| format!("{:.2}", (value / longest * 100.0).clamp(0.0, 100.0));
    let bar = |cell: &Cell, summary: &Summary| {
        let name = cell.at.get(names).cloned().unwrap_or_default();
        let interval = summary.median_interval;
        Bar {
            is_own: name.starts_with(&**own),
            width: percent(summary.median),
            low: percent(interval.low),
            reach: percent(interval.high - interval.low),
            figure: first.write(summary.median),
            range: range_text(&first.write(interval.low), &first.write(interval.high)),
            others: others
                .iter()
                .map(|measure| {
                    cell.figure(&measure.id).map_or_else(|| "–".to_owned(), |value| measure.write(value))
                })
                .collect(),
            note: cell.failure.clone().unwrap_or_default(),
            is_doubtful: cell.is_doubtful(),
            name,
        }
    };
    let group = |value: &String| {
        let mut members: Vec<&(&Cell, Summary)> =
            measured.iter().filter(|(cell, _)| cell.at.get(groups) == Some(value)).collect();
        members.sort_by(|(_, left), (_, right)| right.median.total_cmp(&left.median));
        let bars = members.into_iter().map(|(cell, summary)| bar(cell, summary)).collect();
        BarGroup { name: outcome.experiment.words(groups, value).to_owned(), bars }
    };
    let groups: Vec<BarGroup> = outcome.experiment.values(groups).iter().map(group).collect();
    let count = measured.iter().map(|(_, summary)| summary.count).max().unwrap_or(0);
    let mut caption = match count {
        SAMPLES_FOR_CONFIDENCE.. => "Bars are medians, whiskers their 90 % intervals.".to_owned(),
        _ => "Bars are medians, whiskers are the smallest and largest values.".to_owned(),
    };
    if first.id == RATE {
        caption += " MB/s counts 10⁶ bytes over the whole run of the program, start and connection set-up included. CPU \
                    seconds are those of all processes at both ends.";
    }
    if measured.iter().any(|(cell, _)| cell.is_doubtful()) {
        caption = format!("{caption} {DOUBTFUL_WORDS}");
    }
    Some(Bars {
        headings: measures.iter().map(|measure| measure.name.clone()).collect(),
        caption,
        groups: groups.into_iter().filter(|group| !group.bars.is_empty()).collect(),
    })
}

/// Returns the name of a verdict's colours in the style.
pub(crate) fn class_of(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Holds => "good",
        Verdict::DoesNotHold => "bad",
        Verdict::NotDecidable | Verdict::MachineBusy => "open",
        Verdict::ByConstruction | Verdict::NotMeasured | Verdict::NotJudged => "none",
    }
}

/// Returns a claim with everything formatted.
pub(crate) fn claim_row(experiment: &Experiment, result: &ClaimResult) -> ClaimRow {
    let bounds = result.claim.shape.bounds();
    let measure = measure_of(experiment, result);
    ClaimRow {
        statement: result.claim.statement.clone(),
        source: result.claim.source.clone(),
        class: class_of(result.verdict),
        verdict: result.verdict.words(),
        estimate: result.estimate.map_or_else(|| "–".to_owned(), |value| measure.write(value)),
        interval: result
            .interval
            .map_or_else(String::new, |i| range_text(&measure.write(i.low), &measure.write(i.high))),
        bound: bound_words(&measure, bounds),
        note: result.note.clone(),
        drawing: drawing(result, bounds),
    }
}

/// Returns the measure of a claim's figure: the measure itself, or a ratio.
pub(crate) fn measure_of(experiment: &Experiment, result: &ClaimResult) -> Measure {
    match result.claim.shape {
        Shape::Bound { .. } => experiment.measure(&result.claim.metric),
        _ => Measure::times("", ""),
    }
}

/// Returns the bounds of a claim in signs.
pub(crate) fn bound_words(measure: &Measure, bounds: (Option<f64>, Option<f64>)) -> String {
    match bounds {
        (Some(low), Some(high)) if low == high => measure.write(low),
        (Some(low), Some(high)) => format!("{}–{}", measure.write(low), measure.write(high)),
        (Some(low), None) => format!("≥ {}", measure.write(low)),
        (None, Some(high)) => format!("≤ {}", measure.write(high)),
        (None, None) => String::new(),
    }
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

/// Returns facts about the machine, for people.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Repetition, Sample};

    #[test]
    fn a_page_tells_the_runs_that_cells_have() {
        let rule = |runs: &[usize]| {
            let cell = |(at, &runs): (usize, &usize)| Cell {
                samples: vec![Sample::slice(RATE, 1.0, false); runs],
                ..Cell::new([("x", &*at.to_string())])
            };
            let repetition = Repetition { rounds: 3, ..Repetition::default() };
            let experiment = Experiment { repetition, ..Experiment::new("x", "", "X", &["x"], Vec::new()) };
            let cells = runs.iter().enumerate().map(cell).collect();
            section(&Outcome::new(experiment, cells), 0, &str::to_owned).rule
        };
        assert!(rule(&[3, 3]).starts_with("3 rounds, every cell once"));
        assert!(
            rule(&[1, 1]).starts_with("3 rounds were planned, and cells have 1 run, every"),
            "{}",
            rule(&[1, 1])
        );
        assert!(rule(&[1, 3]).starts_with("3 rounds were planned, and cells have 1 to 3 runs, every"));
    }
}
