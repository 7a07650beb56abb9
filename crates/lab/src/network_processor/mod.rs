//! NPCryptBench's study as tables for a terminal and as a page with plots.
//!
//! The figures come from `sealane-simulator` and depend on nothing of this host; only the page's frame says where it was
//! made.

mod compilers;

pub use compilers::{Compilers, Unit, compare};

use crate::LabError;
use crate::report::number::quantity;
use crate::speed::{Section, SpeedPage, Table, chart};
use sealane_simulator::TEN;
use sealane_simulator::study::{Bound, Claim, Figure, Kind, Listed, Study, Verdict};
use std::path::Path;

/// What the page says of itself.
const SUMMARY: &str = "NPCryptBench's machines, simulated cycle by cycle and fed by traces of the reference kernels. \
    Every figure is the same on every host.";

/// And of compilers.
const COMPILERS_SUMMARY: &str = "NPCryptBench's kernels in C, by this host's compilers, on this host. What they make is \
    compared with the reference kernels, then all take turns.";

/// What a page is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// Simulated machines.
    Machines,
    /// This host's compilers.
    Compilers,
}

/// Figures as sections, each with its plot.
pub fn sections(figures: &[Figure]) -> Vec<Section> {
    figures.iter().enumerate().map(|(number, figure)| section(number, figure)).collect()
}

/// All that a study says.
pub fn study_sections(study: &Study) -> Vec<Section> {
    // What is drawn comes first.
    let (tables, plots): (Vec<Figure>, Vec<Figure>) =
        study.figures.iter().cloned().partition(|figure| figure.kind == Kind::Table);
    let mut sections = sections(&[plots, tables].concat());
    sections.push(Section::plain(claims("The paper's sentences", OVER_GUESSES, &study.claims)));
    sections.push(Section::plain(guesses(&study.guesses)));
    let mut absent = Table::new("What cannot be had", &[], &["what"], 1);
    absent.rows = study.absent.iter().map(|&line| vec![line.to_owned()]).collect();
    sections.push(Section::plain(absent));
    sections
}

/// All that a comparison of compilers says.
pub fn compiler_sections(found: &Compilers) -> Vec<Section> {
    let mut sections = sections(&found.figures);
    let title = "The paper's sentences, with this host's compilers";
    sections.push(Section::plain(claims(title, OVER_COMPILERS, &found.claims)));
    let mut table = Table::new("Compilers", &[], &["program", "what it says of itself"], 2);
    let rows = found.units.iter().map(|unit| vec![unit.compiler.clone(), unit.version.clone()]);
    table.rows = rows.collect();
    table.rows.dedup();
    sections.push(Section::plain(table));
    if !found.absent.is_empty() {
        let mut table = Table::new("What was left out", &[], &["what"], 1);
        table.rows = found.absent.iter().map(|line| vec![line.clone()]).collect();
        sections.push(Section::plain(table));
    }
    sections
}

/// Writes a page.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, subject: Subject, seconds: f64, sections: Vec<Section>) -> Result<(), LabError> {
    let (title, summary) = match subject {
        Subject::Machines => ("Ciphers on network processors", SUMMARY),
        Subject::Compilers => ("Compilers on ciphers of network processors", COMPILERS_SUMMARY),
    };
    let page = SpeedPage::new(title, seconds, &[], sections);
    page.by("sealane lab network-processor", summary).write(path)
}

fn section(number: usize, figure: &Figure) -> Section {
    let is_algorithm = |name: &str| TEN.iter().any(|found| found.starts_with(name));
    let first = figure.rows.first().is_some_and(|(name, _)| is_algorithm(name));
    let mut columns = vec![if first { "algorithm" } else { "" }];
    columns.extend(figure.columns.iter().map(String::as_str));
    let mut table = Table::new(&figure.title, &[figure.note], &columns, 1);
    // Counts stay counts.
    let is_whole = |row: &[Option<f64>]| row.iter().flatten().all(|value| value.fract() == 0.0);
    let are_whole = figure.rows.iter().all(|(_, row)| is_whole(row));
    let shown = |value: f64| if are_whole { format!("{value:.0}") } else { quantity(value) };
    let cell = |value: &Option<f64>| value.map_or_else(|| "–".to_owned(), shown);
    table.rows = figure
        .rows
        .iter()
        .map(|(name, row)| [name.clone()].into_iter().chain(row.iter().map(cell)).collect())
        .collect();
    let of_column = |at: usize| figure.rows.iter().map(|(_, row)| row.get(at).copied().flatten()).collect();
    let over_rows = || {
        let series = figure.columns.iter().enumerate().map(|(at, name)| (name.clone(), of_column(at)));
        (figure.rows.iter().map(|(name, _)| name.clone()).collect(), series.collect())
    };
    let (kind, x, (labels, series)) = match figure.kind {
        Kind::Table => return Section::plain(table),
        Kind::Bars => ("bars", "", over_rows()),
        Kind::Stacked => ("stacked", "", over_rows()),
        Kind::Lines => {
            let shown = figure.rows.iter().filter(|(_, row)| row.iter().any(Option::is_some));
            ("lines", "engines", (figure.columns.clone(), shown.cloned().collect()))
        }
    };
    let id = format!("figure-{number}");
    let plot = chart(&id, kind, (&figure.title, x, ""), labels, series);
    Section::plotted(table, vec![plot])
}

/// How verdicts come about.
const OVER_GUESSES: [&str; 2] = [
    "A sentence holds when our figure is within its bound under every set of guesses, fails when it is under none, and else depends \
     on the guesses that turn it.",
    "Bounds are the paper's numbers; the range is over all guesses, each changed alone.",
];
const OVER_COMPILERS: [&str; 2] = [
    "A sentence holds when our figure is within its bound for every compiler here, fails when it is for none, and else depends on \
     those that turn it.",
    "Bounds are the paper's numbers; value is the first compiler's.",
];

fn claims(title: &str, notes: [&str; 2], claims: &[Claim]) -> Table {
    let columns =
        ["source", "the paper's sentence", "our figure", "verdict", "turned by", "value", "range", "bound"];
    let mut table = Table::new(title, &notes, &columns, 5);
    table.rows = claims
        .iter()
        .map(|claim| {
            vec![
                claim.source.to_owned(),
                claim.sentence.to_owned(),
                claim.measure.to_owned(),
                match claim.verdict {
                    Verdict::Holds => "holds",
                    Verdict::Fails => "fails",
                    Verdict::Depends => "depends",
                }
                .to_owned(),
                claim.turned_by.join("; "),
                quantity(claim.value),
                format!("{} … {}", quantity(claim.range.0), quantity(claim.range.1)),
                match claim.bound {
                    Bound::AtLeast(least) => format!("≥ {}", quantity(least)),
                    Bound::AtMost(most) => format!("≤ {}", quantity(most)),
                    Bound::Between(least, most) if least >= most => quantity(least),
                    Bound::Between(least, most) => format!("{} … {}", quantity(least), quantity(most)),
                },
            ]
        })
        .collect();
    table
}

fn guesses(guesses: &[Listed]) -> Table {
    let notes = [
        "What neither the paper nor Intel's manual says: what the machines' files have, and what was tried.",
    ];
    let columns = ["guess", "IXP1200", "IXP2400", "IXP2800", "tried"];
    let mut table = Table::new("Guesses", &notes, &columns, 5);
    table.rows = guesses
        .iter()
        .map(|one| {
            let [first, second, third] = one.usual.clone();
            vec![one.guess.to_owned(), first, second, third, one.tried.join("; ")]
        })
        .collect();
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_become_tables_with_plots() {
        let figure = Figure {
            title: "Fig".to_owned(),
            note: "Note.",
            kind: Kind::Stacked,
            columns: vec!["a".to_owned(), "b".to_owned()],
            rows: vec![("md5".to_owned(), vec![Some(1.0), None])],
        };
        let sections = sections(&[figure]);
        assert_eq!(sections[0].table().rows, [["md5", "1", "–"]]);
        assert_eq!(sections[0].table().columns[0].name, "algorithm");
        let page = SpeedPage::new("T", 1.0, &[], sections).by("p", SUMMARY).to_html().unwrap();
        assert!(page.contains("figure-0") && page.contains("cycle by cycle"));
    }
}
