//! Sentences about a study's own figures, where a claim alone would leave a reader to compare them.
//!
//! Guarantees: each sentence is made from the figures, and says the opposite for the opposite ones; what intervals do not tell
//! apart is called alike; a figure that stands on disturbed runs is marked; a sentence without figures is left out.

use crate::experiment::{Cell, Coordinates, MEGABITS, Outcome, Role, Value, at, derive, find};
use crate::report::number::{counted, quantity, ratio};
use crate::report::table::DOUBTFUL;
use std::cmp::Ordering;

/// Returns the sentences about the study `id`, from its results.
pub(super) fn told(id: &str, found: &[&Outcome]) -> Vec<String> {
    let tell = match id {
        "R9" => of_cards,
        "R12" => of_algorithms,
        "B25" => of_bursts,
        _ => return Vec::new(),
    };
    found.iter().flat_map(|outcome| tell(outcome)).collect()
}

/// Returns how a ratio lies to 1; equal if its interval has 1 in it.
fn beside_one(value: &Value) -> Option<Ordering> {
    match *value {
        Value::Number(value) => value.partial_cmp(&1.0),
        Value::Range { low, .. } if low > 1.0 => Some(Ordering::Greater),
        Value::Range { high, .. } if high < 1.0 => Some(Ordering::Less),
        Value::Range { .. } => Some(Ordering::Equal),
        Value::Text(_) => None,
    }
}

fn mark<'a>(cells: impl IntoIterator<Item = &'a Cell>) -> &'static str {
    if cells.into_iter().any(Cell::is_doubtful) { DOUBTFUL } else { "" }
}

/// Returns where a card is faster than what is beside it: lengths in their order, with the rate relative to the other's.
fn where_faster(lengths: &[(String, Value)]) -> Option<String> {
    let signs: Vec<Ordering> = lengths.iter().map(|(_, times)| beside_one(times)).collect::<Option<_>>()?;
    let faster = signs.iter().filter(|sign| **sign == Ordering::Greater).count();
    let from = signs.iter().position(|sign| *sign == Ordering::Greater);
    Some(match from {
        None if signs.iter().all(|sign| *sign == Ordering::Less) => "it is slower at every length".to_owned(),
        None => "it is faster at no length".to_owned(),
        Some(0) if faster == signs.len() => "it is faster at every length".to_owned(),
        Some(from) if faster == signs.len() - from => {
            format!("it is faster from {} bytes on", lengths[from].0)
        }
        Some(_) => format!("it is faster at {faster} of {}", counted(signs.len(), "length")),
    })
}

/// R9: a card beside software, by length.
fn of_cards(outcome: &Outcome) -> Vec<String> {
    let experiment = &outcome.experiment;
    let bytes = experiment.values("bytes");
    let sentence = |what: &str, other: &str, lengths: &[(String, Value)], mark: &str| {
        let [(least, first), (most, last)] = [lengths.first()?, lengths.last()?];
        let [first, last] = [ratio(first.number()?), ratio(last.number()?)];
        Some(format!(
            "{what}: with {least} bytes the simulated card carries {first} times what {other} does, with {most} bytes {last} \
             times{mark}: {}.",
            where_faster(lengths)?
        ))
    };
    let of_algorithm = |algorithm: &String| {
        let place = |engine: &str, bytes: &str| {
            at([("algorithm", &**algorithm), ("engine", engine), ("bytes", bytes)])
        };
        let both = |bytes: &String| {
            let [card, software] =
                ["simulated card", "software"].map(|engine| outcome.cell(&place(engine, bytes)));
            let (card, software) = (card?, software?);
            Some((bytes.clone(), derive::over(card, software, MEGABITS)?, [card, software]))
        };
        let both: Vec<_> = bytes.iter().filter_map(both).collect();
        let mark = mark(both.iter().flat_map(|(.., cells)| *cells));
        let lengths: Vec<(String, Value)> =
            both.into_iter().map(|(bytes, times, _)| (bytes, times)).collect();
        sentence(algorithm, "software on this processor", &lengths, mark)
    };
    let of_threads = |threads: &String| {
        let both = |bytes: &String| {
            let cell = outcome.cell(&at([("threads", &**threads), ("bytes", &**bytes)]))?;
            Some((bytes.clone(), derive::ratio(cell.values.get("card")?, cell.values.get("processor")?)?))
        };
        let lengths: Vec<(String, Value)> = bytes.iter().filter_map(both).collect();
        let threads = counted(threads, "thread");
        sentence(&threads, "a processor of its time", &lengths, "")
    };
    match &*experiment.id {
        "card-curve" => experiment.values("algorithm").iter().filter_map(of_algorithm).collect(),
        "card-crossover" => experiment.values("threads").iter().filter_map(of_threads).collect(),
        _ => Vec::new(),
    }
}

/// The study's suites with the ciphers of its x axis, one packet after another, and the test with the largest writes.
const SOFTWARE: (&str, &str) = ("sealane-native", "ttcp-8192");
/// The beginning of the name of the suite with the oldest cipher.
const OLDEST: &str = "des-";

/// R12: the slowest and the fastest suite, and where the oldest cipher lies.
fn of_algorithms(outcome: &Outcome) -> Vec<String> {
    let experiment = &outcome.experiment;
    if experiment.id != "tunnels-in-parts" {
        return Vec::new();
    }
    let is_asked = |cell: &&Cell| {
        cell.role == Role::Own && cell.at["between"] == SOFTWARE.0 && cell.at["test"] == SOFTWARE.1
    };
    let share = |cell: &Cell| cell.figure("share");
    let mut suites: Vec<(&Cell, f64)> =
        outcome.cells.iter().filter(is_asked).filter_map(|cell| Some((cell, share(cell)?))).collect();
    suites.sort_by(|(_, one), (_, other)| one.total_cmp(other));
    let (Some(&(slowest, least)), Some(&(fastest, most))) = (suites.first(), suites.last()) else {
        return Vec::new();
    };
    if suites.len() < 2 {
        return Vec::new();
    }
    let overlap = |one: &Cell, other: &Cell| {
        let ends = |cell: &Cell| {
            cell.interval("share").map_or_else(|| (share(cell), share(cell)), |i| (Some(i.low), Some(i.high)))
        };
        ends(one).1 >= ends(other).0
    };
    let alike = if overlap(slowest, fastest) { "; their intervals do not tell them apart" } else { "" };
    let topology = experiment.title.rsplit(", ").next().unwrap_or_default();
    let mark = mark(suites.iter().map(|(cell, _)| *cell));
    let mut told = vec![format!(
        "{topology}: of the suites in software {} is the slowest, with {} of clear, and {} the fastest, with {}{mark}{alike}.",
        slowest.at["suite"],
        ratio(least),
        fastest.at["suite"],
        ratio(most)
    )];
    if let Some(place) = suites.iter().position(|(cell, _)| cell.at["suite"].starts_with(OLDEST)) {
        let slower = match place {
            0 => "no other is slower".to_owned(),
            1 => "1 other is slower".to_owned(),
            more => format!("{more} others are slower"),
        };
        let (oldest, share) = suites[place];
        told.push(format!(
            "{topology}: the suite of the oldest cipher, {}, leaves {} of clear{mark}; {slower}.",
            oldest.at["suite"],
            ratio(share)
        ));
    }
    told
}

/// The sentences of figure 9 that are compared: larger bursts, a faster memory, and the difference in points.
const FIGURE_9: [&str; 3] = [
    "the largest bursts gain 72.1 %",
    "memory clocks of +16.5 % (DRAM) and +33.5 % (SRAM) gain 14.5 %",
    "bursts contribute more than a faster memory",
];

/// B25: which of two changes gains more.
fn of_bursts(outcome: &Outcome) -> Vec<String> {
    let figure = |sentence: &str| -> Option<&Value> {
        let place: Coordinates = at([("sentence", sentence)]);
        find(&outcome.cells, &place)?.values.get("figure")
    };
    let [Some(bursts), Some(faster), Some(points)] = FIGURE_9.map(figure) else { return Vec::new() };
    let [Some(gained), Some(beside), Some(points_usual)] = [bursts, faster, points].map(Value::number) else {
        return Vec::new();
    };
    let (low, high) = match points {
        Value::Range { low, high, .. } => (*low, *high),
        _ => (points_usual, points_usual),
    };
    let which = match (low > 0.0, high < 0.0, points_usual > 0.0) {
        (true, ..) => "larger bursts gain more, under every set of guesses",
        (_, true, _) => "a faster memory gains more, under every set of guesses",
        (.., true) => "larger bursts gain more by the machines' files, and not under every guess",
        _ => "a faster memory gains more by the machines' files, and not under every guess",
    };
    vec![format!(
        "Larger bursts gain {} % here and a faster memory {} %: {which}.",
        quantity(gained),
        quantity(beside)
    )]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Experiment, Measure};

    fn exact(measure: &str, value: f64, place: &[(&str, &str)]) -> Cell {
        Cell::new(place.iter().copied()).with(measure, Value::exact(value))
    }

    fn outcome(id: &str, title: &str, axes: &[&str], cells: Vec<Cell>) -> Outcome {
        Outcome::new(Experiment::new(id, "", title, axes, vec![Measure::megabits()]), cells)
    }

    fn told_of(id: &str, outcome: &Outcome) -> String {
        told(id, &[outcome]).join(" ")
    }

    #[test]
    fn a_card_wins_only_where_its_figures_do() {
        let curve = |card: [f64; 3]| {
            let cells = ["64", "1024", "32768"].into_iter().zip(card).flat_map(|(bytes, card)| {
                [("simulated card", card), ("software", 100.0)].map(|(engine, rate)| {
                    exact(MEGABITS, rate, &[("algorithm", "3des"), ("engine", engine), ("bytes", bytes)])
                })
            });
            outcome("card-curve", "", &["algorithm", "engine", "bytes"], cells.collect())
        };
        for (card, words) in [
            ([2.0, 30.0, 81.0], "with 32768 bytes 0.81 times: it is slower at every length."),
            ([2.0, 130.0, 250.0], "with 32768 bytes 2.50 times: it is faster from 1024 bytes on."),
            ([200.0, 130.0, 250.0], "it is faster at every length."),
            ([200.0, 30.0, 81.0], "it is faster at 1 of 3 lengths."),
            ([2.0, 30.0, 100.0], "it is faster at no length."),
        ] {
            let text = told_of("R9", &curve(card));
            assert!(text.starts_with("3des: with 64 bytes") && text.contains(words), "{words}: {text}");
        }
        let crossover = |processor: f64| {
            let cells = [("16", 1.0), ("4096", 100.0)].map(|(bytes, card)| {
                exact("card", card, &[("threads", "4"), ("bytes", bytes)])
                    .with("processor", Value::exact(processor))
            });
            outcome("card-crossover", "", &["threads", "bytes"], cells.to_vec())
        };
        assert!(told_of("R9", &crossover(27.0)).contains("times what a processor of its time does"));
        assert!(told_of("R9", &crossover(27.0)).contains("faster from 4096 bytes on"));
        assert!(told_of("R9", &crossover(270.0)).contains("slower at every length"));
    }

    #[test]
    fn the_slowest_suite_is_that_of_the_figures() {
        let parts = |shares: [f64; 3], is_disturbed: bool| {
            let suites = ["des-cbc", "3des-cbc", "aes-128-cbc"];
            let mut cells: Vec<Cell> = suites
                .into_iter()
                .zip(shares)
                .map(|(suite, share)| {
                    exact("share", share, &[("between", SOFTWARE.0), ("suite", suite), ("test", SOFTWARE.1)])
                })
                .collect();
            cells[0].behind.taken = 5;
            cells[0].behind.disturbed = if is_disturbed { 5 } else { 0 };
            let title = "In parts of clear, host-host";
            told_of("R12", &outcome("tunnels-in-parts", title, &["between", "suite", "test"], cells))
        };
        let usual = parts([0.07, 0.03, 0.4], false);
        assert!(
            usual.contains("3des-cbc is the slowest, with 0.03 of clear, and aes-128-cbc the fastest"),
            "{usual}"
        );
        assert!(usual.contains(
            "host-host: the suite of the oldest cipher, des-cbc, leaves 0.07 of clear; 1 other is slower."
        ));
        let inverted = parts([0.02, 0.5, 0.4], true);
        assert!(
            inverted
                .contains("des-cbc is the slowest, with 0.02 of clear, and 3des-cbc the fastest, with 0.50†"),
            "{inverted}"
        );
        assert!(inverted.contains("no other is slower"));
        assert!(parts([0.3, 0.3, 0.3], false).contains("do not tell them apart"));
    }

    #[test]
    fn bursts_gain_more_only_where_their_figures_do() {
        let sentences = |bursts: f64, faster: f64, [low, high]: [f64; 2]| {
            let range = Value::Range { value: bursts - faster, low, high };
            let values = [Value::exact(bursts), Value::exact(faster), range];
            let cell = |(sentence, value)| Cell::new([("sentence", sentence)]).with("figure", value);
            let cells = FIGURE_9.into_iter().zip(values).map(cell).collect();
            told_of("B25", &outcome("sentences", "", &["sentence"], cells))
        };
        let usual = sentences(40.0, 15.0, [10.0, 30.0]);
        assert_eq!(
            usual,
            "Larger bursts gain 40.0 % here and a faster memory 15.0 %: larger bursts gain more, under every set of guesses."
        );
        assert!(sentences(10.0, 15.0, [-9.0, -1.0]).contains("a faster memory gains more, under every"));
        assert!(
            sentences(40.0, 15.0, [-9.0, 30.0])
                .contains("larger bursts gain more by the machines' files, and not")
        );
        assert!(
            sentences(10.0, 15.0, [-9.0, 3.0])
                .contains("a faster memory gains more by the machines' files, and not")
        );
    }

    /// The names that these sentences look for are those of the studies.
    #[test]
    fn the_simulator_has_the_sentences_of_figure_9() {
        let sentences = sealane_simulator::study::run(&[], &[], |_, _| ()).sentences;
        for sentence in FIGURE_9 {
            assert!(sentences.iter().any(|one| one.sentence == sentence), "{sentence}");
        }
    }
}
