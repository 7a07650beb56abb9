//! Measurements as experiments: rates, and what several say together: cost as a line, scaling over lanes, what ragged
//! batches keep.

use super::choice::ratios;
use super::{Cost, Length, Measurement, Row, fit};
use crate::experiment::{Cell, Drawn, Experiment, Measure, Outcome, Plot, View, Written};

/// The measure that every cell has.
pub(super) const RATE: &str = "mb_per_s";

/// What is found of a row. Its place has everything by which rows differ.
pub(super) fn cell(one: &Measurement) -> Cell {
    let row = &one.row;
    let facts = one.algorithm.facts();
    let [bytes, lanes, batch] = [row.bytes, row.lanes, row.batch].map(|count| count.to_string());
    let mut cell = Cell::new([
        ("algorithm", &*row.algorithm),
        ("tier", row.tier),
        ("isa", row.isa),
        ("bytes", &bytes),
        ("lanes", &lanes),
        ("batch", &batch),
    ]);
    let others = [("way", row.direction), ("peer", row.peer)];
    cell.at.extend(others.into_iter().filter_map(|(axis, value)| Some((axis.to_owned(), value?.to_owned()))));
    cell.with(RATE, row.rate())
        .with("ns_per_message", row.ns_per_message)
        .with_some("cycles_per_byte", row.cycles_per_byte)
        .with_some("peer_mb_per_s", row.peer_mb_per_s)
        .with_some("ratio", row.ratio)
        .with("table_bytes", facts.table_bytes as f64)
        .with("working_set_bytes", facts.working_set_bytes as f64)
}

/// Every row, and rates over lengths where there are several.
pub fn rates(found: &[Measurement]) -> Option<Outcome> {
    let axes = ["algorithm", "way", "tier", "isa", "bytes", "lanes", "batch", "peer"];
    let measures = vec![
        Measure::rate(RATE, "MB/s"),
        Measure::cost("ns_per_message", "ns a message", "ns"),
        Measure::cost("cycles_per_byte", "cycles a byte", "cycles").decimals(3),
        Measure::rate("peer_mb_per_s", "peer MB/s"),
        Measure::times("ratio", "ratio"),
        Measure::count("table_bytes", "table bytes").unit("bytes"),
        Measure::count("working_set_bytes", "working set").unit("bytes"),
    ];
    let mut lengths: Vec<usize> = found.iter().map(|one| one.row.bytes).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let has_peers = found.iter().any(|one| one.row.peer.is_some());
    let drawn = [RATE, "peer_mb_per_s"].into_iter().take(1 + usize::from(has_peers));
    let plot = Plot {
        measures: drawn.map(str::to_owned).collect(),
        ..Plot::new(
            Drawn::Lines,
            "bytes",
            RATE,
            &["algorithm", "way", "tier", "isa", "lanes", "batch", "peer"],
        )
    };
    let experiment = Experiment::new("rates", "", "Rates", &axes, measures).notes(&[
        "MB/s of all lanes; ns a message and cycles a byte (of the time stamp counter) of one lane.",
    ]);
    let plots = (lengths.len() > 1).then_some(plot);
    let mut experiment = experiment.shown(View::Cells, plots.into_iter().collect());
    if let Some(axis) = experiment.axes.iter_mut().find(|axis| axis.name == "bytes") {
        axis.values = lengths.iter().map(usize::to_string).collect();
    }
    (!found.is_empty()).then(|| Outcome::new(experiment, found.iter().map(cell).collect()))
}

/// What the measurements allow to say; nothing where they allow nothing.
pub fn summary(found: &[Measurement]) -> Vec<Outcome> {
    [ratios(found), costs(found), scaling(found), ragged(found)].into_iter().flatten().collect()
}

/// The algorithm with its direction.
fn name(row: &Row) -> String {
    let direction = row.direction.map_or_else(String::new, |direction| format!(" {direction}"));
    format!("{}{direction}", row.algorithm)
}

/// Groups measurements, in their order, by `key`.
fn groups<'a, K: PartialEq>(
    found: impl Iterator<Item = &'a Measurement>,
    key: impl Fn(&'a Measurement) -> K,
) -> Vec<Vec<&'a Measurement>> {
    let mut groups: Vec<(K, Vec<&Measurement>)> = Vec::new();
    for one in found {
        let place = key(one);
        match groups.iter_mut().find(|(key, _)| *key == place) {
            Some((_, members)) => members.push(one),
            None => groups.push((place, vec![one])),
        }
    }
    groups.into_iter().map(|(_, members)| members).collect()
}

fn has_equal_lengths(one: &&Measurement) -> bool {
    matches!(one.length, Length::Equal(_))
}

/// A row's place in a summary, as far as `axes` ask for it.
pub(super) fn place(one: &Measurement, axes: &[&str]) -> Cell {
    let mut cell = Cell { at: cell(one).at, ..Cell::default() };
    cell.at.insert("algorithm".to_owned(), name(&one.row));
    cell.at.retain(|axis, _| axes.contains(&&**axis));
    cell
}

fn outcome(
    (id, title, note): (&str, &str, &str),
    axes: &[&str],
    measures: Vec<Measure>,
    cells: Vec<Cell>,
) -> Option<Outcome> {
    let experiment = Experiment::new(id, "", title, axes, measures).notes(&[note]);
    (!cells.is_empty()).then(|| Outcome::new(experiment, cells))
}

/// Our line and the peer's.
fn lines(members: &[&Measurement]) -> (Option<Cost>, Option<Cost>) {
    let points = |ns: &dyn Fn(&Row) -> Option<f64>| -> Vec<(f64, f64)> {
        members.iter().filter_map(|one| Some((one.row.bytes as f64, ns(&one.row)?))).collect()
    };
    let own = points(&|row| Some(row.ns_per_message));
    let peer = points(&|row| Some(row.lanes as f64 * row.bytes as f64 * 1000.0 / row.peer_mb_per_s?));
    (fit(&own), fit(&peer))
}

fn costs(found: &[Measurement]) -> Option<Outcome> {
    let axes = ["algorithm", "tier", "isa", "lanes", "batch", "peer"];
    let cost = |id, name, digits: Option<u8>| {
        let measure = Measure::cost(id, name, "ns").derived();
        match digits {
            Some(digits) => measure.decimals(digits),
            None => measure,
        }
    };
    let measures = vec![
        cost("per_message_ns", "ns a message", None),
        cost("per_byte_ns", "ns a byte", Some(4)),
        cost("peer_per_message_ns", "peer: ns a message", None),
        cost("peer_per_byte_ns", "ns a byte", Some(4)),
    ];
    let key = |one: &Measurement| {
        let row = &one.row;
        (name(row), row.tier, row.isa, row.lanes, row.batch, row.peer)
    };
    let members = groups(found.iter().filter(has_equal_lengths), key);
    let cells = members.iter().filter_map(|members| {
        let (own, peer) = lines(members);
        let own = own?;
        let cell = place(members[0], &axes)
            .with("per_message_ns", own.per_message_ns)
            .with("per_byte_ns", own.per_byte_ns)
            .with_some("peer_per_message_ns", peer.map(|peer| peer.per_message_ns))
            .with_some("peer_per_byte_ns", peer.map(|peer| peer.per_byte_ns));
        Some(cell)
    });
    let title = "Cost of a message: per message + per byte";
    let note = "A line through all lengths, relative errors weighed alike; per lane.";
    outcome(("costs", title, note), &axes, measures, cells.collect())
}

fn scaling(found: &[Measurement]) -> Option<Outcome> {
    let axes = ["algorithm", "tier", "isa", "bytes", "batch", "lanes"];
    let key = |one: &Measurement| {
        let row = &one.row;
        (name(row), row.tier, row.isa, one.length, row.batch, row.peer)
    };
    let mut cells = Vec::new();
    for members in groups(found.iter(), key) {
        let Some(fewest) = members.iter().min_by_key(|one| one.row.lanes) else { continue };
        for one in members.iter().filter(|one| one.row.lanes > fewest.row.lanes) {
            let mut cell = place(one, &axes);
            cell.at.insert("lanes".to_owned(), format!("{} over {}", one.row.lanes, fewest.row.lanes));
            let times = one.row.mb_per_s / fewest.row.mb_per_s;
            cells.push(cell.with(RATE, one.row.mb_per_s).with("times", times));
        }
    }
    let measures = vec![Measure::rate(RATE, "MB/s"), Measure::times("times", "times")];
    let note = "Every lane is a thread with batches of its own.";
    outcome(("scaling", "Scaling over lanes", note), &axes, measures, cells)
}

fn ragged(found: &[Measurement]) -> Option<Outcome> {
    let axes = ["algorithm", "tier", "isa", "lanes", "batch"];
    let mut cells = Vec::new();
    for one in found.iter().filter(|one| one.length == Length::Imix) {
        let row = &one.row;
        let alike = |other: &&Measurement| {
            let beside = &other.row;
            has_equal_lengths(other)
                && (name(beside), beside.tier, beside.isa) == (name(row), row.tier, row.isa)
                && (beside.lanes, beside.batch, beside.peer) == (row.lanes, row.batch, row.peer)
                && beside.bytes.abs_diff(row.bytes) < 64
        };
        let Some(equal) = found.iter().find(alike) else { continue };
        let kept = row.mb_per_s / equal.row.mb_per_s;
        let cell = place(one, &axes).with(RATE, row.mb_per_s).with("equal", equal.row.mb_per_s);
        cells.push(cell.with("kept", kept));
    }
    let measures = vec![
        Measure::rate(RATE, "MB/s"),
        Measure::rate("equal", "equal MB/s"),
        Measure::times("kept", "kept").written(Written::PerCent(0)),
    ];
    let note = "IMIX lengths with a key for every message, beside equal lengths of about the same mean.";
    outcome(("ragged", "What ragged batches keep", note), &axes, measures, cells)
}
