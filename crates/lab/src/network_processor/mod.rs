//! NPCryptBench's study as experiments.
//!
//! The figures come from `sealane-simulator` and do not depend on this host; only the page's frame names the host.

mod compilers;

use crate::LabError;
use crate::experiment::{
    Axis, Cell, Claim, Drawn, Experiment, Measure, Outcome, Plot, Profile, Value, View, at,
};
use crate::report::Report;
use crate::request::Request;
use crate::studies::{Family, NPCRYPTBENCH, NPCRYPTBENCH_TITLE, Study, cost, study};
use sealane_simulator::TEN;
use sealane_simulator::study::{
    Bound, COMBINATIONS, Combined, Figure, Kind, Listed, Sentence, VARIANTS, run as simulate,
};
use sealane_transform::PUBLIC_LOOPS;
use std::io::Write;
use std::time::Instant;

/// The family of `sealane lab network-processor`, simulated and by this host's compilers.
pub(crate) const FAMILIES: &[Family] = &[
    Family {
        command: "lab network-processor",
        needs: "nothing: it is simulated",
        parts: &[],
        costs: &[cost(&[], 20)],
        studies: STUDIES,
        run,
    },
    Family {
        command: "lab network-processor --compilers",
        needs: "one processor, a C compiler",
        parts: &[],
        costs: &[cost(&[], 10)],
        studies: &[study("B21", NPCRYPTBENCH, "compilers and their options: throughput, size", &[])],
        run: compilers::run,
    },
];

const STUDIES: &[Study] = &[
    study("B6", NPCRYPTBENCH, "Table I: protocols that the ten algorithms cover", &[]),
    study("B15", NPCRYPTBENCH, "instruction mix of the code as it is written", &[]),
    study("B16", NPCRYPTBENCH, "Table V: instruction mix of the code as it runs", &[]),
    study("B18", NPCRYPTBENCH, "throughput of one thread on three machines", &[]),
    study("B19", NPCRYPTBENCH, "what engines do: execute, abort, idle", &[]),
    study("B20", NPCRYPTBENCH, "cycles by kind of instruction", &[]),
    study("B24", NPCRYPTBENCH, "engines by threads, flows and blocks", &[]),
    study("B25", NPCRYPTBENCH, "level 3: what larger bursts gain, beside a faster memory", &[]),
    study("B26", NPCRYPTBENCH, "advice to hardware designers, as sentences that can fail", &[]),
];

const PROGRAM: &str = "sealane lab network-processor";

/// The page's summary of the study.
const SUMMARY: &str = "NPCryptBench's machines, simulated cycle by cycle and fed by traces of the reference kernels. \
    Every figure is the same on every host.";

/// Returns a report of figures, each with its plot.
pub fn report(figures: &[Figure]) -> Report {
    let outcomes = figures.iter().map(outcome).collect();
    Report::new(PROGRAM, "Ciphers on network processors", SUMMARY, outcomes)
}

/// Returns the complete results of the study.
fn run(request: &Request, progress: &mut dyn Write) -> Result<Report, LabError> {
    let began = Instant::now();
    let mut told = Ok(());
    let (variants, combinations) = match request.profile {
        Profile::Smoke => (&[][..], &[][..]),
        _ => (VARIANTS, COMBINATIONS),
    };
    let study = simulate(variants, combinations, |done, total| {
        let line = writeln!(progress, "{done} of {total} sets of guesses");
        told = std::mem::replace(&mut told, Ok(())).and(line);
    });
    told?;
    // Figures with plots come first.
    let (tables, plots): (Vec<Figure>, Vec<Figure>) =
        study.figures.into_iter().partition(|figure| figure.kind == Kind::Table);
    let mut report = report(&[plots, tables].concat());
    report.outcomes.push(sentences(("The paper's sentences", SENTENCES), OVER_GUESSES, &study.sentences));
    let title = ("Our sentences about public-key operations, the paper's future work", "B26");
    let mut ours = sentences(title, OVER_GUESSES, &study.public_key);
    ours.experiment.paper.clear();
    report.outcomes.push(ours);
    report.outcomes.push(guesses(&study.guesses));
    report.outcomes.extend(combined(&study.combined));
    report.skipped = study.absent.iter().map(|&line| line.to_owned()).collect();
    report.seconds = began.elapsed().as_secs_f64();
    Ok(report)
}

/// The rows of the paper that a figure answers, by the beginning of its title.
const COVERS: [(&str, &str); 13] = [
    ("Table I:", "B6"),
    ("Fig 2", "B15"),
    ("Table V", "B16"),
    ("Fig 3", "B18"),
    ("Large tables", "B18"),
    ("Fig 4", "B19"),
    ("Fig 5", "B20"),
    ("Fig 8", "B24"),
    ("Fig 9", "B25"),
    ("The paper's three gains", "B22, B25"),
    ("Levels on one thread", "B22"),
    ("Where keys and tables lie", "B22"),
    ("Public-key operations", "B26"),
];

/// The rows whose sentences are checked.
const SENTENCES: &str = "B15–B20, B24–B26";

fn outcome(figure: &Figure) -> Outcome {
    let is_algorithm = |name: &str| {
        TEN.iter().any(|found| found.starts_with(name)) || PUBLIC_LOOPS.iter().any(|one| one.name == name)
    };
    let first = figure.rows.first().is_some_and(|(name, _)| is_algorithm(name));
    let row_axis = if first { "algorithm" } else { "" };
    let (column_axis, plot) = match figure.kind {
        Kind::Table => ("column", None),
        Kind::Bars => ("column", Some((Drawn::Bars, row_axis, "column"))),
        Kind::Stacked => ("column", Some((Drawn::Stacked, row_axis, "column"))),
        Kind::Lines => ("engines", Some((Drawn::Lines, "engines", row_axis))),
    };
    // Whole numbers are shown as such.
    let mut values = figure.rows.iter().flat_map(|(_, row)| row).flatten();
    let is_count = values.all(|value| value.fract() == 0.0);
    let measure = if is_count { Measure::count("figure", "") } else { Measure::new("figure", "") };
    let covers = COVERS.iter().find(|(title, _)| figure.title.starts_with(title)).map_or("", |row| row.1);
    let experiment = Experiment {
        axes: vec![
            Axis::new(row_axis, figure.rows.iter().map(|(name, _)| name)),
            Axis::new(column_axis, &figure.columns),
        ],
        ..Experiment::new("figure", covers, &figure.title, &[], vec![measure.predicted()])
    };
    let claims =
        if covers == COVERAGE { coverage_claims(figure, [row_axis, column_axis]) } else { Vec::new() };
    let experiment = experiment.of(NPCRYPTBENCH_TITLE).claiming(claims);
    let plots = plot.map(|(drawn, over, series)| Plot::new(drawn, over, "figure", &[series]));
    // Nothing of a simulation is random.
    let value = |value: f64| if covers == COVERAGE { Value::exact(value) } else { value.into() };
    let cells = figure.rows.iter().flat_map(|(name, row)| {
        let cell = move |(column, found): (&String, &Option<f64>)| {
            Cell::new([(row_axis, &**name), (column_axis, &**column)]).with_some("figure", found.map(value))
        };
        figure.columns.iter().zip(row).map(cell)
    });
    let view = View::pivot(&[row_axis], column_axis, "figure");
    Outcome::new(experiment.notes(&[figure.note]).shown(view, plots.into_iter().collect()), cells.collect())
}

/// The row of Table I.
const COVERAGE: &str = "B6";

/// Returns the claims about Table I: the share of each application's primitives that the ten algorithms are.
fn coverage_claims(figure: &Figure, [row_axis, column_axis]: [&str; 2]) -> Vec<Claim> {
    let [_, _, ten, _, named] = &figure.columns[..] else { return Vec::new() };
    let claim = |(name, row): &(String, Vec<Option<f64>>)| {
        let [Some(covered), Some(of), Some(ours), _, Some(all)] = row[..] else { return None };
        let (paper, share) = (covered / of, ours / all);
        let statement = format!(
            "{name}: the ten are {covered} of {of} primitives in the paper, here {ours} of {all}, {:.2} times the share; within one \
             primitive of the paper's list, which it does not print.",
            share / paper
        );
        let place = |column: &str| at([(row_axis, &**name), (column_axis, column)]);
        let bounds = (Some((covered - 1.0) / of), Some((covered + 1.0) / of));
        Some(Claim::ratio((statement, "B6, Table I"), "figure", (place(ten), place(named)), bounds))
    };
    figure.rows.iter().filter_map(claim).collect()
}

/// The explanation of a claim's bounds.
const BOUNDS: &str = "Where the paper gives a number, ours may differ from it by a tenth: the paper prints neither a spread nor \
    its compilers' code, and a tenth is what the lab calls alike in every study. Where the paper gives a limit, that is the \
    bound; where it has words only, their plain meaning is.";

/// The explanation of verdicts.
const OVER_GUESSES: [&str; 3] = [
    "A sentence holds when our figure is within its bound under every set of guesses, fails when it is on one side of it under \
     all of them, and else depends on the guesses that turn it.",
    BOUNDS,
    "The range is over all guesses, each changed alone.",
];

/// Returns sentences as claims on the range of our figure.
fn sentences((title, covers): (&str, &str), notes: [&str; 3], sentences: &[Sentence]) -> Outcome {
    let axes = ["source", "sentence", "our figure"];
    let known = || sentences.iter().filter_map(|one| Some((one, one.range()?)));
    let place = |one: &Sentence| at(axes.into_iter().zip([one.source, one.sentence, one.measure]));
    let cells = known().map(|(one, [value, low, high])| {
        Cell { at: place(one), ..Cell::default() }.with("figure", Value::Range { value, low, high })
    });
    let claim = |(one, [value, ..]): (&Sentence, [f64; 3])| {
        let beside = match one.bound {
            Bound::Paper(number) => format!("; {:.2} times the paper's {number}", value / number),
            Bound::AtLeast(_) | Bound::AtMost(_) | Bound::Between(..) => String::new(),
        };
        let statement = format!("{}: {}{beside}", one.sentence, one.measure);
        Claim::bound((statement, one.source), "figure", place(one), one.bound.ends())
    };
    let measure = Measure::new("figure", "our figure").predicted();
    let experiment = Experiment::new("sentences", covers, title, &axes, vec![measure]).of(NPCRYPTBENCH_TITLE);
    let experiment = experiment.claiming(known().map(claim).collect()).notes(&notes);
    let mut outcome = Outcome::new(experiment.shown(View::Claims, Vec::new()), cells.collect());
    for (result, (one, _)) in outcome.claims.iter_mut().zip(known()) {
        let turned_by = one.turned_by();
        if !turned_by.is_empty() {
            result.note = format!("turned by {}", turned_by.join("; "));
        }
    }
    outcome
}

fn guesses(guesses: &[Listed]) -> Outcome {
    let columns = ["guess", "IXP1200", "IXP2400", "IXP2800", "tried"];
    let cell = |one: &Listed| {
        let [first, second, third] = &one.usual;
        let tried = one.tried.join("; ");
        Cell::new(columns.into_iter().zip([one.guess, &**first, &**second, &**third, &*tried]))
    };
    let experiment = Experiment::new("guesses", SENTENCES, "Guesses", &columns, Vec::new()).notes(&[
        "What neither the paper nor Intel's manual says: what the machines' files have, and what was tried.",
    ]);
    Outcome::new(experiment, guesses.iter().map(cell).collect())
}

/// Returns the figures of several guesses at once, which no sentence is judged by; `None` if there are none.
fn combined(all: &[Combined]) -> Option<Outcome> {
    let axes = ["guesses", "sentence", "our figure"];
    let measures = vec![
        Measure::new("figure", "together").predicted(),
        Measure::new("least", "least alone").predicted(),
        Measure::new("most", "most alone").predicted(),
    ];
    let cell = |one: &Combined| {
        Cell::new(axes.into_iter().zip([one.guesses, one.sentence, one.measure]))
            .with("figure", one.value)
            .with("least", one.alone[0])
            .with("most", one.alone[1])
    };
    let title = "Several guesses at once: figures without a verdict";
    let experiment = Experiment::new("combinations", SENTENCES, title, &axes, measures).notes(&[
        "What several guesses give together and none of them alone. Whoever chooses values together can reach many numbers, the \
         paper's among them, so no sentence is judged by these.",
    ]);
    (!all.is_empty()).then(|| Outcome::new(experiment, all.iter().map(cell).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Verdict;
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

    /// A share that is off by more than a primitive is a miss.
    #[test]
    fn the_coverage_of_protocols_has_claims_that_can_fail() {
        let row = |name: &str, row: [f64; 5]| (name.to_owned(), row.map(Some).to_vec());
        let columns = ["the paper: covered", "the paper: of", "the ten", "our catalogue", "named"];
        let figure = Figure {
            title: "Table I: what protocols use".to_owned(),
            note: "",
            kind: Kind::Table,
            columns: columns.map(str::to_owned).to_vec(),
            rows: vec![row("A", [5.0, 8.0, 5.0, 5.0, 9.0]), row("B", [6.0, 7.0, 3.0, 3.0, 7.0])],
        };
        let outcome = outcome(&figure);
        let verdicts: Vec<_> = outcome.claims.iter().map(|result| result.verdict).collect();
        assert_eq!(verdicts, [Verdict::Holds, Verdict::DoesNotHold], "{:?}", outcome.claims);
        assert!(outcome.claims[0].claim.statement.contains("0.89 times the share"), "{:?}", outcome.claims);
        let simulated = sealane_simulator::study::run(&[], &[], |_, _| ()).figures;
        let table = simulated.iter().find(|figure| figure.title.starts_with("Table I:")).unwrap();
        let claims = super::outcome(table).claims;
        assert_eq!(claims.len(), 9);
        for result in claims {
            assert!([Verdict::Holds, Verdict::DoesNotHold].contains(&result.verdict), "{result:?}");
        }
    }

    fn sentence(bound: Bound, values: &[f64]) -> Sentence {
        let values = values.iter().enumerate().map(|(at, value)| (format!("clock: {at}"), *value));
        Sentence {
            source: "Fig 9",
            sentence: "bursts gain",
            measure: "mean, %",
            bound,
            values: values.collect(),
        }
    }

    /// A sentence has a claim with its direction; the paper's number is shown beside ours, and a factor of three is a
    /// miss.
    #[test]
    fn sentences_become_claims_that_can_fail() {
        let told = |one: Sentence| {
            let outcome = sentences(("S", ""), OVER_GUESSES, &[one]);
            (outcome.claims[0].verdict, crate::report::outcome_text(&outcome, None))
        };
        let (verdict, text) = told(sentence(Bound::AtLeast(10.0), &[12.0, 13.0, 8.0]));
        assert_eq!(verdict, Verdict::NotDecidable);
        for part in ["bursts gain: mean, % (Fig 9)", "turned by clock: 2", "12.0", "8.00–13.0", "≥ 10.0"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        let bound = Bound::Paper(2.0);
        assert!(bound.holds(1.81) && bound.holds(2.19) && !bound.holds(6.03) && !bound.holds(0.0));
        let (verdict, text) = told(sentence(bound, &[6.03, 6.0, 6.1]));
        assert_eq!(verdict, Verdict::DoesNotHold);
        for part in ["3.02 times the paper's 2", "does not hold", "1.80–2.20", "by a tenth"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(told(sentence(Bound::AtMost(3.0), &[2.0, 2.5])).0, Verdict::Holds);
    }
}
