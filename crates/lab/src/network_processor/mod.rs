//! NPCryptBench's study as experiments.
//!
//! The figures come from `sealane-simulator` and depend on nothing of this host; only the page's frame says where it was
//! made.

mod compilers;

pub use compilers::{Compilers, Unit, compare};

use crate::experiment::{
    Axis, Cell, Claim, ClaimResult, Drawn, Experiment, Measure, Outcome, Plot, Shape, Value, Verdict, View,
    at,
};
use crate::report::Report;
use crate::stats::Interval;
use sealane_simulator::TEN;
use sealane_simulator::study::{self, Bound, Figure, Kind, Listed, Study};

const PROGRAM: &str = "sealane lab network-processor";
/// Where the paper's sentences and figures are.
const PAPER: &str =
    "Yue, Lin, Tan: NPCryptBench, a cryptographic benchmark suite for network processors (2006)";

/// What the page says of itself.
const SUMMARY: &str = "NPCryptBench's machines, simulated cycle by cycle and fed by traces of the reference kernels. \
    Every figure is the same on every host.";

/// And of compilers.
const COMPILERS_SUMMARY: &str = "NPCryptBench's kernels in C, by this host's compilers, on this host. What they make is \
    compared with the reference kernels, then all take turns.";

/// Figures, each with its plot.
pub fn report(figures: &[Figure]) -> Report {
    let outcomes = figures.iter().map(outcome).collect();
    Report::new(PROGRAM, "Ciphers on network processors", SUMMARY, outcomes)
}

/// All that a study says.
pub fn study_report(study: &Study) -> Report {
    // What is drawn comes first.
    let (tables, plots): (Vec<Figure>, Vec<Figure>) =
        study.figures.iter().cloned().partition(|figure| figure.kind == Kind::Table);
    let mut report = report(&[plots, tables].concat());
    report.outcomes.push(sentences("The paper's sentences", OVER_GUESSES, &study.claims));
    report.outcomes.push(guesses(&study.guesses));
    report.skipped = study.absent.iter().map(|&line| line.to_owned()).collect();
    report
}

/// All that a comparison of compilers says.
pub fn compilers_report(found: &Compilers) -> Report {
    let mut outcomes: Vec<Outcome> = found.figures.iter().map(outcome).collect();
    let title = "The paper's sentences, with this host's compilers";
    outcomes.push(sentences(title, OVER_COMPILERS, &found.claims));
    let columns = ["program", "what it says of itself"];
    let mut programs: Vec<Cell> = found
        .units
        .iter()
        .map(|unit| Cell::new(columns.into_iter().zip([&*unit.compiler, &unit.version])))
        .collect();
    programs.dedup();
    outcomes
        .push(Outcome::new(Experiment::new("compilers", "B21", "Compilers", &columns, Vec::new()), programs));
    let title = "Compilers on ciphers of network processors";
    Report { skipped: found.absent.clone(), ..Report::new(PROGRAM, title, COMPILERS_SUMMARY, outcomes) }
}

fn outcome(figure: &Figure) -> Outcome {
    let is_algorithm = |name: &str| TEN.iter().any(|found| found.starts_with(name));
    let first = figure.rows.first().is_some_and(|(name, _)| is_algorithm(name));
    let row_axis = if first { "algorithm" } else { "" };
    let (column_axis, plot) = match figure.kind {
        Kind::Table => ("column", None),
        Kind::Bars => ("column", Some((Drawn::Bars, row_axis, "column"))),
        Kind::Stacked => ("column", Some((Drawn::Stacked, row_axis, "column"))),
        Kind::Lines => ("engines", Some((Drawn::Lines, "engines", row_axis))),
    };
    // Counts stay counts.
    let mut values = figure.rows.iter().flat_map(|(_, row)| row).flatten();
    let measure = if values.all(|value| value.fract() == 0.0) {
        Measure::count("figure", "")
    } else {
        Measure::new("figure", "")
    };
    let experiment = Experiment {
        axes: vec![
            Axis::new(row_axis, figure.rows.iter().map(|(name, _)| name)),
            Axis::new(column_axis, &figure.columns),
        ],
        paper: PAPER.to_owned(),
        ..Experiment::new("figure", "", &figure.title, &[], vec![measure.predicted()])
    };
    let plots = plot.map(|(drawn, over, series)| Plot::new(drawn, over, "figure", &[series]));
    let cells = figure.rows.iter().flat_map(|(name, row)| {
        let cell = move |(column, value): (&String, &Option<f64>)| {
            Cell::new([(row_axis, &**name), (column_axis, &**column)]).with_some("figure", *value)
        };
        figure.columns.iter().zip(row).map(cell)
    });
    let view = View::pivot(&[row_axis], column_axis, "figure");
    Outcome::new(experiment.notes(&[figure.note]).shown(view, plots.into_iter().collect()), cells.collect())
}

/// Between what a figure must lie.
const BOUNDS: &str = "Where the paper gives a number, ours may differ from it by a tenth: the paper prints neither a spread nor \
    its compilers' code, and a tenth is what the lab calls alike in every study. Where the paper gives a limit, that is the \
    bound; where it has words only, their plain meaning is.";

/// How verdicts come about.
const OVER_GUESSES: [&str; 3] = [
    "A sentence holds when our figure is within its bound under every set of guesses, fails when it is under none, and else \
     depends on the guesses that turn it.",
    BOUNDS,
    "The range is over all guesses, each changed alone.",
];
const OVER_COMPILERS: [&str; 3] = [
    "A sentence holds when our figure is within its bound for every compiler here, fails when it is for none, and else \
     depends on those that turn it.",
    BOUNDS,
    "What is found is the first compiler's.",
];

fn sentences(title: &str, notes: [&str; 3], claims: &[study::Claim]) -> Outcome {
    let axes = ["source", "sentence", "our figure"];
    let place = |claim: &study::Claim| axes.into_iter().zip([claim.source, claim.sentence, claim.measure]);
    let cell = |claim: &study::Claim| {
        let (low, high) = claim.range;
        Cell::new(place(claim)).with("figure", Value::Range { value: claim.value, low, high })
    };
    let measure = Measure::new("figure", "our figure").predicted();
    let experiment = Experiment {
        paper: PAPER.to_owned(),
        ..Experiment::new("sentences", "", title, &axes, vec![measure])
    };
    let mut outcome = Outcome::new(
        experiment.notes(&notes).shown(View::Claims, Vec::new()),
        claims.iter().map(cell).collect(),
    );
    outcome.claims = claims.iter().map(|claim| verdict(claim, at(place(claim)))).collect();
    outcome.experiment.claims = outcome.claims.iter().map(|result| result.claim.clone()).collect();
    outcome
}

/// The simulator's verdict: guesses that turn a sentence do so one by one.
fn verdict(claim: &study::Claim, cell: crate::experiment::Coordinates) -> ClaimResult {
    let (low, high) = claim.bound.ends();
    let beside = match claim.bound {
        Bound::Paper(number) => format!("; {:.2} times the paper's {number}", claim.value / number),
        Bound::AtLeast(_) | Bound::AtMost(_) | Bound::Between(..) => String::new(),
    };
    ClaimResult {
        claim: Claim {
            statement: format!("{}: {}{beside}", claim.sentence, claim.measure),
            source: claim.source.to_owned(),
            metric: "figure".to_owned(),
            shape: Shape::Bound { cell, low, high },
        },
        verdict: match claim.verdict {
            study::Verdict::Holds => Verdict::Holds,
            study::Verdict::Fails => Verdict::DoesNotHold,
            study::Verdict::Depends => Verdict::NotDecidable,
        },
        estimate: Some(claim.value),
        interval: Some(Interval { low: claim.range.0, high: claim.range.1 }),
        note: match &claim.turned_by[..] {
            [] => String::new(),
            turned_by => format!("turned by {}", turned_by.join("; ")),
        },
    }
}

fn guesses(guesses: &[Listed]) -> Outcome {
    let columns = ["guess", "IXP1200", "IXP2400", "IXP2800", "tried"];
    let cell = |one: &Listed| {
        let [first, second, third] = &one.usual;
        let tried = one.tried.join("; ");
        Cell::new(columns.into_iter().zip([one.guess, &**first, &**second, &**third, &*tried]))
    };
    let experiment = Experiment::new("guesses", "", "Guesses", &columns, Vec::new()).notes(&[
        "What neither the paper nor Intel's manual says: what the machines' files have, and what was tried.",
    ]);
    Outcome::new(experiment, guesses.iter().map(cell).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{outcomes_text, to_html};

    #[test]
    fn figures_become_tables_with_plots() {
        let figure = Figure {
            title: "Fig".to_owned(),
            note: "Note.",
            kind: Kind::Stacked,
            columns: vec!["a".to_owned(), "b".to_owned()],
            rows: vec![("md5".to_owned(), vec![Some(1.0), None])],
        };
        let report = report(&[figure]);
        let text = outcomes_text(&report, None);
        assert!(text.starts_with("Fig\nNote.\n\n algorithm   a   b\n"), "{text}");
        assert!(text.contains(" md5         1   –\n"), "{text}");
        let page = to_html(&report).unwrap();
        assert!(
            page.contains("chart-0-0") && page.contains("cycle by cycle") && page.contains("\"stacked\"")
        );
    }

    /// The verdict is the simulator's, and says what turns it.
    #[test]
    fn sentences_become_claims() {
        let claim = study::Claim {
            source: "Fig 9",
            sentence: "bursts gain",
            measure: "mean, %",
            bound: Bound::AtLeast(10.0),
            value: 12.0,
            range: (8.0, 13.0),
            verdict: study::Verdict::Depends,
            turned_by: vec!["clock: 2".to_owned()],
        };
        let outcome = sentences("S", OVER_GUESSES, &[claim]);
        let text = crate::report::outcome_text(&outcome, None);
        for part in ["bursts gain: mean, % (Fig 9)", "turned by clock: 2", "12.0", "8.00–13.0", "≥ 10.0"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
    }

    /// A number of the paper's stands beside ours, and three times as much is a miss.
    #[test]
    fn the_papers_number_is_the_bound() {
        let bound = Bound::Paper(2.0);
        assert!(bound.holds(1.81) && bound.holds(2.19) && !bound.holds(6.03) && !bound.holds(0.0));
        let claim = study::Claim {
            source: "Table V",
            sentence: "branches 2.0 %",
            measure: "mean, %",
            bound,
            value: 6.03,
            range: (6.0, 6.1),
            verdict: study::Verdict::Fails,
            turned_by: Vec::new(),
        };
        let text = crate::report::outcome_text(&sentences("S", OVER_GUESSES, &[claim]), None);
        for part in ["3.02 times the paper's 2", "does not hold", "1.80–2.20", "by a tenth"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
