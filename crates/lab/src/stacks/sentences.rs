//! What the study says in words, held against the figures of the same run.
//!
//! Guarantees: a sentence holds, or does not, only when the whole 90 % interval of its figure lies on one side of its
//! bounds; one whose cells were not measured is left out; none is hidden for being false.

use super::{Cell, Direction, Pair, STACKS, Study};
use crate::experiment::Verdict;
use crate::report::number::{bytes, quantity};
use crate::speed::{Section, Table};
use crate::stats::{CONFIDENCE, Interval, median, median_interval, ratio_of_medians};
use serde::Serialize;
use std::ops::RangeInclusive;

/// A sentence with what it was held against.
#[derive(Clone, Debug, Serialize)]
pub struct Sentence {
    /// The inventory's id.
    pub id: &'static str,
    /// In words.
    pub statement: String,
    /// The figure that it is about.
    pub figure: f64,
    /// Its 90 % interval.
    pub interval: Interval,
    /// Between what the figure must lie.
    pub bounds: (f64, f64),
    /// Whether it does.
    pub verdict: Verdict,
}

const NO_BOUND: f64 = f64::INFINITY;

impl Sentence {
    fn new(
        id: &'static str,
        statement: String,
        (figure, interval): (f64, Interval),
        bounds: RangeInclusive<f64>,
    ) -> Self {
        let verdict = if bounds.contains(&interval.low) && bounds.contains(&interval.high) {
            Verdict::Holds
        } else if interval.high < *bounds.start() || interval.low > *bounds.end() {
            Verdict::DoesNotHold
        } else {
            Verdict::NotDecidable
        };
        Self { id, statement, figure, interval, bounds: bounds.into_inner(), verdict }
    }
}

/// The ratio of two cells' rates.
fn ratio(top: &Cell, bottom: &Cell) -> Option<(f64, Interval)> {
    ratio_of_medians(&top.samples, &bottom.samples, CONFIDENCE, 1)
}

/// All that is said of a study.
pub(super) fn of(study: &Study) -> Vec<Sentence> {
    let mut said = Vec::new();
    together(study, &mut said);
    packets_and_connections(study, &mut said);
    sums(study, &mut said);
    datagrams(study, &mut said);
    fairness(study, &mut said);
    parts(study, &mut said);
    locks(study, &mut said);
    passes(study, &mut said);
    said
}

impl Study {
    fn cell(
        &self,
        id: &str,
        stack: &str,
        direction: Direction,
        tier: &str,
        is_it: impl Fn(&Cell) -> bool,
    ) -> Option<&Cell> {
        self.cells.iter().find(|cell| {
            cell.id == id
                && cell.stack == stack
                && cell.direction == direction
                && cell.tier == tier
                && is_it(cell)
        })
    }
}

/// Lanes that work together against lanes that have nothing to do with each other (N26, N27, N31, N32).
fn together(study: &Study, said: &mut Vec<Sentence>) {
    let is_bare = |pair: &Pair| pair.stack == STACKS[0];
    for pair in &study.pairs {
        let sends = pair.direction == Direction::Send;
        let by_packet = pair.placement == "packet";
        let id = match (by_packet, sends) {
            (true, true) => "N26",
            (true, false) => "N27",
            (false, true) => "N31",
            (false, false) => "N32",
        };
        let Pair { stack, lanes, tier, direction, .. } = pair;
        let figure = (pair.ratio, pair.interval);
        if *tier == "native" {
            let statement = format!(
                "{stack}, {}, {tier}: {lanes} lanes by {} lose at most 7 % to independent stacks.",
                direction.name(),
                pair.placement,
            );
            said.push(Sentence::new(id, statement, figure, 0.93..=NO_BOUND));
        }
        if is_bare(pair) && by_packet {
            let statement = format!(
                "{stack}, {}: {lanes} lanes on one connection stay below the cap, (unlocked + locked) / locked.",
                direction.name(),
            );
            let one = study.cell(id, stack, *direction, tier, |cell| cell.lanes == 1);
            let many = study.cell(id, stack, *direction, tier, |cell| cell.lanes == *lanes);
            if let Some(figure) = one.zip(many).and_then(|(one, many)| ratio(many, one)) {
                said.push(Sentence::new("N29", statement, figure, 0.0..=pair.cap));
            }
        }
        if let (Some(error), Some(predicted)) = (pair.error, pair.predicted_mb_per_s)
            && *tier == "best"
        {
            let Some(cell) = study.cell(id, stack, *direction, tier, |cell| cell.lanes == *lanes) else {
                continue;
            };
            let statement = format!(
                "{stack}, {}, best: {lanes} lanes reach what the model predicts, within 10 %.",
                direction.name()
            );
            let Some(interval) = cell.interval else { continue };
            let interval = Interval { low: interval.low / predicted, high: interval.high / predicted };
            said.push(Sentence::new("N29", statement, (1.0 + error, interval), 0.9..=1.1));
        }
    }
}

/// Whether packets or connections are shared out does not matter where cryptography decides (N35).
fn packets_and_connections(study: &Study, said: &mut Vec<Sentence>) {
    for direction in Direction::ALL {
        let (packets, connections) = match direction {
            Direction::Send => ("N26", "N31"),
            Direction::Receive => ("N27", "N32"),
        };
        for stack in [STACKS[3], STACKS[4]] {
            let most = |id| {
                let all = study.cells.iter().filter(|cell| {
                    cell.id == id
                        && cell.stack == stack
                        && cell.direction == direction
                        && cell.tier == "native"
                });
                all.max_by_key(|cell| cell.lanes)
            };
            let Some(figure) = most(packets).zip(most(connections)).and_then(|(a, b)| ratio(a, b)) else {
                continue;
            };
            let statement = format!(
                "{stack}, {}, native: by packets and by connections, the same rate within 10 %.",
                direction.name()
            );
            said.push(Sentence::new(packets, statement, figure, 0.9..=1.1));
        }
    }
}

/// Costs of layers add up (N28).
fn sums(study: &Study, said: &mut Vec<Sentence>) {
    for direction in Direction::ALL {
        let Some([bare, digest, cipher, both]) = study.parts_of_a_sum(direction) else { continue };
        let us = |cell: &Cell, at: usize| super::message_us(cell.samples[at]);
        let over = |at: usize| us(both, at) / (us(digest, at) + us(cipher, at) - us(bare, at));
        let slices = [bare, digest, cipher, both].map(|cell| cell.samples.len()).into_iter().min();
        let sums: Vec<f64> = (0..slices.unwrap_or(0)).map(over).collect();
        let Some(figure) = median(&sums).zip(median_interval(&sums, CONFIDENCE, 1)) else { continue };
        let statement = format!(
            "{}, native: MD5 and DES together cost what each costs alone, within 5 %.",
            direction.name()
        );
        said.push(Sentence::new("N28", statement, figure, 0.95..=1.05));
    }
}

/// UDP against TCP (N30).
fn datagrams(study: &Study, said: &mut Vec<Sentence>) {
    for stack in [STACKS[2], STACKS[3], STACKS[4]] {
        let over_udp = stack.replace("tcp", "udp");
        let most = |id: &str, stack: &str| {
            let all = study.cells.iter().filter(|cell| {
                cell.id == id
                    && cell.stack == stack
                    && cell.direction == Direction::Send
                    && cell.tier == "native"
            });
            all.max_by_key(|cell| cell.lanes)
        };
        let cells = most("N30", &over_udp).zip(most("N26", stack));
        let Some(figure) = cells.and_then(|(udp, tcp)| ratio(udp, tcp)) else { continue };
        let statement =
            format!("{over_udp}, native: over UDP one connection is as fast as over TCP, within 10 %.");
        said.push(Sentence::new("N30", statement, figure, 0.9..=1.1));
    }
}

/// A thread for each connection or for each processor (N34).
fn fairness(study: &Study, said: &mut Vec<Sentence>) {
    let cells = || study.cells.iter().filter(|cell| cell.id == "N34");
    for threads in cells().filter(|cell| cell.placement == "thread-per-connection") {
        let is_other = |cell: &&Cell| {
            cell.placement == "connection"
                && cell.stack == threads.stack
                && cell.connections == threads.connections
        };
        let Some(processors) = cells().find(is_other) else { continue };
        let Some(figure) = ratio(threads, processors) else { continue };
        let Cell { stack, connections, tier, .. } = threads;
        let (statement, bounds) = if *tier == "native" {
            let what = "with cryptography both give the same in all, within 10 %";
            (format!("{stack}, {connections} connections: {what}."), 0.9..=1.1)
        } else if *stack == STACKS[0] {
            let what = "without cryptography a thread for each connection gives more in all";
            (format!("{stack}, {connections} connections: {what}."), 1.0..=NO_BOUND)
        } else {
            continue;
        };
        said.push(Sentence::new("N34", statement, figure, bounds));
        if let Some((threads, processors)) = threads.jain.zip(processors.jain) {
            let figure = processors / threads;
            let interval = Interval { low: figure, high: figure };
            let statement = format!(
                "{stack}, {connections} connections: a thread for each processor is no less fair (Jain)."
            );
            said.push(Sentence::new("N34", statement, (figure, interval), 1.0..=NO_BOUND));
        }
    }
}

/// Layers, functions and blocks (N36).
fn parts(study: &Study, said: &mut Vec<Sentence>) {
    let cells = || study.cells.iter().filter(|cell| cell.id == "N36");
    for cell in cells().filter(|cell| cell.lanes > 1 && cell.placement != "packet") {
        let Cell { stack, direction, placement, lanes, .. } = cell;
        let alike = |other: &&Cell| other.stack == *stack && other.direction == *direction;
        // A layer waits for the one that takes longest, and AES is done before another lane has its piece.
        let gains = *placement != "layer" && !stack.starts_with("aes");
        let other = cells().filter(alike).find(|other| match gains {
            true => other.lanes == 1,
            false => other.placement == "packet" && other.lanes > 1,
        });
        let Some(figure) = other.and_then(|other| ratio(cell, other)) else { continue };
        let (what, bounds) = if gains {
            ("are faster than one", 1.0..=NO_BOUND)
        } else {
            ("are slower than by packet", 0.0..=1.0)
        };
        let statement = format!("{stack}, {}: {lanes} lanes by {placement} {what}.", direction.name());
        said.push(Sentence::new("N36", statement, figure, bounds));
    }
}

/// One lock against several, and order (N20).
fn locks(study: &Study, said: &mut Vec<Sentence>) {
    let cells = || study.cells.iter().filter(|cell| cell.id == "N20" && cell.placement == "packet");
    for one in cells().filter(|cell| cell.connections == 1 && cell.keeps_order) {
        let alike = |cell: &&Cell| {
            cell.stack == one.stack && cell.direction == one.direction && cell.tier == one.tier
        };
        let Cell { stack, direction, .. } = one;
        let several = cells().filter(alike).find(|cell| cell.connections > 1);
        if let Some(figure) = several.and_then(|several| ratio(several, one)) {
            let statement = format!(
                "{stack}, {}: by packet, twelve connections' locks are faster than one's.",
                direction.name()
            );
            said.push(Sentence::new("N20", statement, figure, 1.0..=NO_BOUND));
        }
        let unordered = cells().filter(alike).find(|cell| !cell.keeps_order);
        if let Some(figure) = unordered.and_then(|unordered| ratio(one, unordered)) {
            let statement = format!(
                "{stack}, {}: with order restored no slower than where TCP has to put segments in order.",
                direction.name()
            );
            said.push(Sentence::new("N20", statement, figure, 1.0..=NO_BOUND));
        }
    }
}

/// Integrated layer processing (A12). Of a gain there is no interval.
fn passes(study: &Study, said: &mut Vec<Sentence>) {
    for pass in study.passes.iter().filter(|pass| pass.layers.contains("md5")) {
        let figure = pass.gain();
        let interval = Interval { low: figure, high: figure };
        let statement =
            format!("{}, {}: one pass gains less than 10 %.", pass.layers, bytes(pass.bytes as u64));
        said.push(Sentence::new("A12", statement, (figure, interval), 0.0..=1.1));
    }
}

/// The sentences as a table, those that do not hold first.
pub(super) fn section(sentences: &[Sentence]) -> Option<Section> {
    let columns = ["id", "sentence", "figure", "90 %", "must lie in", "verdict"];
    let count = |verdict| sentences.iter().filter(|sentence| sentence.verdict == verdict).count();
    let notes = [format!(
        "{} hold, {} do not, {} cannot be decided by this run's intervals.",
        count(Verdict::Holds),
        count(Verdict::DoesNotHold),
        count(Verdict::NotDecidable)
    )];
    let mut table = Table::new("What is said, held against what was measured", &[], &columns, 2);
    table.notes.extend(notes);
    let mut ordered: Vec<&Sentence> = sentences.iter().collect();
    ordered.sort_by_key(|sentence| match sentence.verdict {
        Verdict::DoesNotHold => 0,
        Verdict::NotDecidable => 1,
        _ => 2,
    });
    for sentence in ordered {
        let Sentence { figure, interval, bounds: (low, high), .. } = sentence;
        let bounds = match (*low > 0.0, high.is_finite()) {
            (true, true) => format!("{low}…{high:.2}"),
            (true, false) => format!("≥ {low}"),
            _ => format!("≤ {high:.2}"),
        };
        table.rows.push(vec![
            sentence.id.to_owned(),
            sentence.statement.clone(),
            quantity(*figure),
            format!("{}…{}", quantity(interval.low), quantity(interval.high)),
            bounds,
            sentence.verdict.words().to_owned(),
        ]);
    }
    (!table.rows.is_empty()).then(|| Section::plain(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentence(low: f64, high: f64) -> Verdict {
        let interval = Interval { low, high };
        Sentence::new("N26", String::new(), ((low + high) / 2.0, interval), 0.9..=1.1).verdict
    }

    #[test]
    fn only_a_whole_interval_on_one_side_decides() {
        assert_eq!(sentence(0.92, 1.05), Verdict::Holds);
        assert_eq!(sentence(0.85, 0.95), Verdict::NotDecidable);
        assert_eq!(sentence(0.8, 1.2), Verdict::NotDecidable);
        assert_eq!(sentence(0.7, 0.8), Verdict::DoesNotHold);
        assert_eq!(sentence(1.2, 1.3), Verdict::DoesNotHold);
    }

    #[test]
    fn what_does_not_hold_stands_first_and_nothing_is_left_out() {
        let all = [(0.95, 1.0), (0.85, 0.95), (0.7, 0.8)].map(|(low, high)| {
            let interval = Interval { low, high };
            Sentence::new("N26", format!("from {low}"), (low, interval), 0.9..=1.1)
        });
        let section = section(&all).unwrap();
        let table = section.table();
        let verdicts: Vec<&str> = table.rows.iter().map(|row| row[5].as_str()).collect();
        assert_eq!(verdicts, ["does not hold", "not decidable", "holds"]);
        assert!(super::section(&[]).is_none());
    }
}
