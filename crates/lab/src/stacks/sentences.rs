//! What the study says in words, as claims on the figures of the same run.
//!
//! Guarantees: a claim whose cells were not measured is left out; none is hidden for being false. Verdicts are the lab's:
//! a claim holds, or does not, only when the whole 90 % interval of its figure lies on one side of its bounds.

use super::page::{framed, pass, range};
use super::{Cell as Measured, Direction, Pair, STACKS, Study, message_us};
use crate::experiment::{Cell, Claim, ClaimResult, Coordinates, RATE, Shape, Verdict, check};
use crate::report::number::bytes;
use crate::stats::{CONFIDENCE, Interval, median, median_interval};
use serde::Serialize;

/// A claim's result as a line of JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Sentence {
    /// The inventory's id.
    pub id: String,
    /// In words.
    pub statement: String,
    /// The figure that it is about.
    pub figure: Option<f64>,
    /// Its 90 % interval.
    pub interval: Option<Interval>,
    /// Between what the figure must lie; no bound is `null`.
    pub bounds: (Option<f64>, Option<f64>),
    /// Whether it does.
    pub verdict: Verdict,
}

impl From<&ClaimResult> for Sentence {
    fn from(result: &ClaimResult) -> Self {
        Self {
            id: result.claim.source.clone(),
            statement: result.claim.statement.clone(),
            figure: result.estimate,
            interval: result.interval,
            bounds: result.claim.shape.bounds(),
            verdict: result.verdict,
        }
    }
}

/// All cells of a study: the measured ones, and those with what is computed of several.
pub(super) fn evidence(study: &Study) -> Vec<Cell> {
    let sums = Direction::ALL.into_iter().filter_map(|direction| sum(study, direction));
    study
        .cells
        .iter()
        .map(framed)
        .chain(study.pairs.iter().map(|one| pair(study, one)))
        .chain(sums)
        .chain(study.passes.iter().map(pass))
        .collect()
}

/// Every claim, held against `cells`, with the id of the cells under which it is to be shown.
pub(super) fn checked(study: &Study, cells: &[Cell]) -> Vec<(&'static str, ClaimResult)> {
    let mut said = Said(Vec::new());
    together(study, &mut said);
    packets_and_connections(study, &mut said);
    sums(study, &mut said);
    datagrams(study, &mut said);
    fairness(study, &mut said);
    parts(study, &mut said);
    locks(study, &mut said);
    passes(study, &mut said);
    said.0.into_iter().map(|(about, claim)| (about, check(&claim, cells))).collect()
}

/// Claims, each with where it is shown.
struct Said(Vec<(&'static str, Claim)>);

type Bounds = (Option<f64>, Option<f64>);

impl Said {
    /// The ratio of two cells.
    fn ratio(
        &mut self,
        about: &'static str,
        id: &str,
        (statement, measure): (String, &str),
        cells: [&Measured; 2],
        bounds: Bounds,
    ) {
        let [top, bottom] = cells.map(|cell| framed(cell).at);
        self.0.push((about, Claim::ratio((statement, id), measure, (top, bottom), bounds)));
    }

    /// A figure of one cell.
    fn figure(
        &mut self,
        about: &'static str,
        (statement, id): (String, &str),
        (cell, measure): (Coordinates, &str),
        (low, high): Bounds,
    ) {
        let shape = Shape::Bound { cell, low, high };
        self.0.push((about, Claim { statement, source: id.to_owned(), metric: measure.to_owned(), shape }));
    }
}

/// A comparison with independent stacks in the frame.
fn pair(study: &Study, pair: &Pair) -> Cell {
    let lanes = pair.lanes.to_string();
    let place = [
        ("id", "pair"),
        ("stack", &*pair.stack),
        ("way", pair.direction.name()),
        ("tier", pair.tier),
        ("lanes", &*lanes),
        ("by", pair.placement),
    ];
    let reached = pair.predicted_mb_per_s.and_then(|predicted| {
        let cell = study.cell(id_of(pair), &pair.stack, pair.direction, pair.tier, |cell| {
            cell.lanes == pair.lanes && cell.placement == pair.placement
        })?;
        let interval = cell.interval?;
        let interval = Interval { low: interval.low / predicted, high: interval.high / predicted };
        Some(range(cell.mb_per_s / predicted, interval))
    });
    Cell::new(place)
        .with("ratio", range(pair.ratio, pair.interval))
        .with_some("predicted", pair.predicted_mb_per_s)
        .with_some("reached", reached)
        .with("cap", pair.cap)
}

fn id_of(pair: &Pair) -> &'static str {
    match (pair.placement, pair.direction) {
        ("packet", Direction::Send) => "N26",
        ("packet", Direction::Receive) => "N27",
        (_, Direction::Send) => "N31",
        (_, Direction::Receive) => "N32",
    }
}

/// What MD5 and DES cost together, over what each costs alone: round by round, so that what the machine does beside meets
/// all four.
fn sum(study: &Study, direction: Direction) -> Option<Cell> {
    let cells = study.parts_of_a_sum(direction)?;
    let rounds = cells.map(|cell| cell.samples.len()).into_iter().min()?;
    let over = |round: usize| {
        let [bare, digest, cipher, both] = cells.map(|cell| message_us(cell.samples[round]));
        both / (digest + cipher - bare)
    };
    let ratios: Vec<f64> = (0..rounds).map(over).collect();
    let ratio = range(median(&ratios)?, median_interval(&ratios, CONFIDENCE, 1)?);
    let [bare, digest, cipher, both] = cells.map(|cell| message_us(cell.mb_per_s));
    Some(
        Cell::new([("id", "sum"), ("tier", cells[0].tier), ("way", direction.name())])
            .with("bare", bare)
            .with("digest", digest - bare)
            .with("cipher", cipher - bare)
            .with("sum", digest + cipher - bare)
            .with("both", both)
            .with("ratio", ratio),
    )
}

impl Study {
    fn cell(
        &self,
        id: &str,
        stack: &str,
        direction: Direction,
        tier: &str,
        is_it: impl Fn(&Measured) -> bool,
    ) -> Option<&Measured> {
        self.cells.iter().find(|cell| {
            cell.id == id
                && cell.stack == stack
                && cell.direction == direction
                && cell.tier == tier
                && is_it(cell)
        })
    }

    /// The cell at tier `native` with the most lanes.
    fn widest(&self, id: &str, stack: &str, direction: Direction) -> Option<&Measured> {
        let is_it = |cell: &&Measured| {
            cell.id == id && cell.stack == stack && cell.direction == direction && cell.tier == "native"
        };
        self.cells.iter().filter(is_it).max_by_key(|cell| cell.lanes)
    }
}

/// At least this much.
const fn at_least(low: f64) -> Bounds {
    (Some(low), None)
}

/// The same, but for a tenth.
const ALIKE: Bounds = (Some(0.9), Some(1.1));

/// Lanes that work together against lanes that have nothing to do with each other (N26, N27, N31, N32).
fn together(study: &Study, said: &mut Said) {
    for one in &study.pairs {
        let id = id_of(one);
        let Pair { stack, lanes, tier, direction, placement, .. } = one;
        let way = direction.name();
        let place = || pair(study, one).at;
        if *tier == "native" {
            let statement = format!(
                "{stack}, {way}, {tier}: {lanes} lanes by {placement} lose at most 7 % to independent stacks."
            );
            said.figure("pair", (statement, id), (place(), "ratio"), at_least(0.93));
        }
        if stack == STACKS[0] && *placement == "packet" {
            let statement = format!(
                "{stack}, {way}: {lanes} lanes on one connection stay below the cap, (unlocked + locked) / locked.",
            );
            let of = |count: usize| study.cell(id, stack, *direction, tier, |cell| cell.lanes == count);
            if let Some((single, many)) = of(1).zip(of(*lanes)) {
                said.ratio("pair", "N29", (statement, RATE), [many, single], (None, Some(one.cap)));
            }
        }
        if *tier == "best" && one.predicted_mb_per_s.is_some() {
            let statement =
                format!("{stack}, {way}, best: {lanes} lanes reach what the model predicts, within 10 %.");
            said.figure("pair", (statement, "N29"), (place(), "reached"), ALIKE);
        }
    }
}

/// Whether packets or connections are shared out does not matter where cryptography decides (N35).
fn packets_and_connections(study: &Study, said: &mut Said) {
    for direction in Direction::ALL {
        let (packets, connections) = match direction {
            Direction::Send => ("N26", "N31"),
            Direction::Receive => ("N27", "N32"),
        };
        for stack in [STACKS[3], STACKS[4]] {
            let most = |id| study.widest(id, stack, direction);
            let Some((packets, connections)) = most(packets).zip(most(connections)) else { continue };
            let statement = format!(
                "{stack}, {}, native: by packets and by connections, the same rate within 10 %.",
                direction.name()
            );
            said.ratio(connections.id, packets.id, (statement, RATE), [packets, connections], ALIKE);
        }
    }
}

/// Costs of layers add up (N28).
fn sums(study: &Study, said: &mut Said) {
    for cell in Direction::ALL.into_iter().filter_map(|direction| sum(study, direction)) {
        let statement = format!(
            "{}, native: MD5 and DES together cost what each costs alone, within 5 %.",
            cell.at["way"]
        );
        said.figure("sum", (statement, "N28"), (cell.at, "ratio"), (Some(0.95), Some(1.05)));
    }
}

/// UDP against TCP (N30).
fn datagrams(study: &Study, said: &mut Said) {
    for direction in Direction::ALL {
        let way = direction.name();
        let over = |transport: &str| {
            let stack = STACKS[0].replace("tcp", transport);
            let most = study.widest("N30", &stack, direction).filter(|cell| cell.lanes > 1)?;
            let one = study.cell("N30", &stack, direction, most.tier, |cell| cell.lanes == 1)?;
            Some([most, one].map(|cell| framed(cell).at))
        };
        if let Some((numerator, denominator)) = over("udp").zip(over("tcp")) {
            let statement = format!(
                "{}, {way}: without cryptography one connection gains more by lanes over UDP.",
                STACKS[0]
            );
            let shape = Shape::RatioOfRatios { numerator, denominator, low: Some(1.0), high: None };
            let claim = Claim { statement, source: "N30".to_owned(), metric: RATE.to_owned(), shape };
            said.0.push(("N30", claim));
        }
        for stack in [STACKS[2], STACKS[3], STACKS[4]] {
            let over_udp = stack.replace("tcp", "udp");
            let most = |stack: &str| study.widest("N30", stack, direction);
            let Some((udp, tcp)) = most(&over_udp).zip(most(stack)) else { continue };
            let statement = format!(
                "{over_udp}, {way}, native: over UDP one connection is as fast as over TCP, within 10 %."
            );
            said.ratio("N30", "N30", (statement, RATE), [udp, tcp], ALIKE);
        }
    }
}

/// A thread for each connection or for each processor (N34).
fn fairness(study: &Study, said: &mut Said) {
    let cells = || study.cells.iter().filter(|cell| cell.id == "N34");
    for threads in cells().filter(|cell| cell.placement == "thread-per-connection") {
        let is_other = |cell: &&Measured| {
            cell.placement == "connection"
                && cell.stack == threads.stack
                && cell.connections == threads.connections
        };
        let Some(processors) = cells().find(is_other) else { continue };
        let Measured { stack, connections, tier, .. } = threads;
        let (what, bounds) = if *tier == "native" {
            ("with cryptography both give the same in all, within 10 %", ALIKE)
        } else if stack == STACKS[0] {
            ("without cryptography a thread for each connection gives more in all", at_least(1.0))
        } else {
            continue;
        };
        let statement = format!("{stack}, {connections} connections: {what}.");
        said.ratio("N34", "N34", (statement, RATE), [threads, processors], bounds);
        let statement = format!(
            "{stack}, {connections} connections: a thread for each processor is no less fair (Jain)."
        );
        said.ratio("N34", "N34", (statement, "jain"), [processors, threads], at_least(1.0));
    }
}

/// Layers, functions and blocks (N36).
fn parts(study: &Study, said: &mut Said) {
    let cells = || study.cells.iter().filter(|cell| cell.id == "N36");
    for cell in cells().filter(|cell| cell.lanes > 1 && cell.placement != "packet") {
        let Measured { stack, direction, placement, lanes, .. } = cell;
        let alike = |other: &&Measured| other.stack == *stack && other.direction == *direction;
        let is_layer = *placement == "layer";
        let other = cells().filter(alike).find(|other| match is_layer {
            false => other.lanes == 1,
            true => other.placement == "packet" && other.lanes > 1,
        });
        let Some(other) = other else { continue };
        let (what, bounds) = if is_layer {
            // A layer waits for the one that takes longest.
            ("are slower than by packet", (None, Some(1.0)))
        } else if stack.starts_with("aes") {
            // By instructions AES is done before another lane has its copy, so a packet stays whole.
            ("lose at most 7 % to one", at_least(0.93))
        } else {
            ("are faster than one", at_least(1.0))
        };
        let statement = format!("{stack}, {}: {lanes} lanes by {placement} {what}.", direction.name());
        said.ratio("N36", "N36", (statement, RATE), [cell, other], bounds);
    }
}

/// One lock against several, and order (N20).
fn locks(study: &Study, said: &mut Said) {
    let cells = || study.cells.iter().filter(|cell| cell.id == "N20" && cell.placement == "packet");
    for one in cells().filter(|cell| cell.connections == 1 && cell.keeps_order) {
        let alike = |cell: &&Measured| cell.stack == one.stack && cell.direction == one.direction;
        let what = format!("{}, {}", one.stack, one.direction.name());
        if let Some(several) = cells().filter(alike).find(|cell| cell.connections > 1) {
            let statement = format!("{what}: by packet, twelve connections' locks are faster than one's.");
            said.ratio("N20", "N20", (statement, RATE), [several, one], at_least(1.0));
        }
        if let Some(unordered) = cells().filter(alike).find(|cell| !cell.keeps_order) {
            let statement =
                format!("{what}: with order restored no slower than where TCP has to put segments in order.");
            said.ratio("N20", "N20", (statement, RATE), [one, unordered], at_least(1.0));
        }
    }
}

/// Integrated layer processing (A12).
fn passes(study: &Study, said: &mut Said) {
    for one in study.passes.iter().filter(|pass| pass.layers.contains("md5") && pass.one_loop.is_some()) {
        let statement =
            format!("{}, {}: one loop gains less than 10 %.", one.layers, bytes(one.bytes as u64));
        said.figure("A12", (statement, "A12"), (pass(one).at, "one-loop-gain"), (None, Some(1.1)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::study;
    use super::*;

    #[test]
    fn every_claim_has_its_evidence_and_a_verdict() {
        let study = study();
        let results = checked(&study, &evidence(&study));
        let verdict = |words: &str| {
            let found: Vec<&ClaimResult> = results
                .iter()
                .map(|(_, one)| one)
                .filter(|one| one.claim.statement.contains(words))
                .collect();
            assert!(!found.is_empty(), "{words}");
            found.iter().map(|one| one.verdict).collect::<Vec<_>>()
        };
        for (_, result) in &results {
            assert_ne!(result.verdict, Verdict::NotMeasured, "{}: {}", result.claim.statement, result.note);
        }
        assert_eq!(verdict("lose at most 7 %"), [Verdict::Holds]);
        assert_eq!(verdict("what the model predicts"), [Verdict::DoesNotHold]);
        assert_eq!(verdict("stay below the cap"), [Verdict::Holds]);
        assert_eq!(verdict("what each costs alone"), [Verdict::Holds]);
        assert_eq!(verdict("no less fair"), [Verdict::Holds]);
        assert_eq!(verdict("gains more by lanes over UDP"), [Verdict::Holds]);
        assert_eq!(verdict("as fast as over TCP"), [Verdict::Holds]);
        assert_eq!(verdict("one loop gains"), [Verdict::Holds]);
    }
}
