//! Rows of public-key operations as experiments: rates, the gain of operations side by side, ratios to peers, scaling
//! over lanes.

use super::PublicKeyRow;
use crate::experiment::{Cell, Drawn, Experiment, Measure, Outcome, Plot, View, derive};
use crate::report::number::counted;

/// The id of the measure of operations per second.
const OPERATIONS: &str = "ops_per_s";

/// Returns the measure of operations per second with a name.
pub(in super::super) fn operations(id: &str, name: &str) -> Measure {
    Measure::gain(id, name, "ops/s")
}

/// Returns the cell of a row. Its place has all fields in which rows differ.
fn cell(row: &PublicKeyRow) -> Cell {
    let [lanes, batch] = [row.lanes, row.batch].map(|count| count.to_string());
    let place = [
        ("algorithm", row.algorithm),
        ("step", row.step),
        ("tier", row.tier),
        ("isa", row.isa),
        ("lanes", &lanes),
        ("batch", &batch),
    ];
    let peer = row.peer.map(|peer| ("peer", peer));
    Cell::new(place.into_iter().chain(peer))
        .with(OPERATIONS, row.rate())
        .with("us_per_operation", row.us_per_operation)
        .with_some("peer_ops_per_s", row.peer_ops_per_s)
        .with_some("ratio", row.ratio)
}

/// Returns every row, and the conclusions that the rows allow; nothing without rows.
pub fn public_key_tables(rows: &[PublicKeyRow]) -> Vec<Outcome> {
    if rows.is_empty() {
        return Vec::new();
    }
    [Some(rates(rows)), gains(rows), ratios(rows), scaling(rows)].into_iter().flatten().collect()
}

/// Returns those of the axes in which rows differ.
fn varied(rows: &[PublicKeyRow]) -> Vec<&'static str> {
    let differ = |of: fn(&PublicKeyRow) -> String| rows.iter().any(|row| of(row) != of(&rows[0]));
    let axes = [
        ("isa", differ(|row| row.isa.to_owned())),
        ("lanes", differ(|row| row.lanes.to_string())),
        ("batch", differ(|row| row.batch.to_string())),
        ("peer", rows.iter().any(|row| row.peer.is_some())),
    ];
    axes.into_iter().filter_map(|(axis, is_varied)| is_varied.then_some(axis)).collect()
}

fn rates(rows: &[PublicKeyRow]) -> Outcome {
    let axes = [vec!["algorithm", "step", "tier"], varied(rows)].concat();
    let mut measures = vec![operations(OPERATIONS, "ops/s")];
    if rows.iter().any(|row| row.peer.is_some()) {
        measures.extend([operations("peer_ops_per_s", "peer ops/s"), Measure::times("ratio", "ratio")]);
    }
    measures.push(Measure::cost("us_per_operation", "µs/op", "µs"));
    let experiment = Experiment::new("public-key", "", "Public-key operations", &axes, measures).notes(&[
        "Operations a second of all lanes; µs of one lane. The operations of a batch have different keys and inputs, and are \
         computed whole: RSA with blinding and the check of the result, agreements with the check of the peer's key. crypto_mb \
         has neither blinding nor that check, and takes ECDSA's random numbers as they are given; OpenSSL draws a private key \
         for each public one.",
    ]);
    Outcome::new(experiment, rows.iter().map(cell).collect())
}

/// Returns the cells without peers, each place once.
fn own(rows: &[PublicKeyRow]) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for row in rows {
        let found = cell(&PublicKeyRow { peer: None, peer_ops_per_s: None, ratio: None, ..row.clone() });
        if cells.iter().all(|cell| cell.at != found.at) {
            cells.push(found);
        }
    }
    cells
}

fn at_a_time(batch: &str) -> String {
    format!("{batch} at a time")
}

/// Returns the rates by the number of operations at a time, whichever tier ran; nothing for one number only.
fn gains(rows: &[PublicKeyRow]) -> Option<Outcome> {
    let axes = ["algorithm", "step", "isa", "lanes", "batch"];
    rows.iter().any(|row| row.batch != rows[0].batch).then_some(())?;
    let mut cells: Vec<Cell> = Vec::new();
    // The fastest of several tiers counts.
    for mut cell in own(rows) {
        cell.at.remove("tier");
        match cells.iter_mut().find(|other| other.at == cell.at) {
            Some(other) if other.figure(OPERATIONS) < cell.figure(OPERATIONS) => *other = cell,
            Some(_) => {}
            None => cells.push(cell),
        }
    }
    let rows_of = ["algorithm", "step"]
        .into_iter()
        .chain(varied(rows).into_iter().filter(|axis| ["isa", "lanes"].contains(axis)));
    let view = View::pivot_with_times(&rows_of.collect::<Vec<_>>(), "batch", OPERATIONS, "gain");
    let plot = Plot::new(Drawn::Bars, "algorithm", OPERATIONS, &["batch"]).each("step").logarithmic();
    let measures = vec![operations(OPERATIONS, "ops/s")];
    let experiment = Experiment::new("side-by-side", "", "Operations side by side", &axes, measures)
        .notes(&["Operations a second by how many are handed over together; the gain is the last column over the first."])
        .shown(view, vec![plot]);
    Some(Outcome::new(experiment, cells).in_words("batch", at_a_time))
}

/// Returns the ratios to peers by operations at a time; nothing for one number only, or without peers.
fn ratios(rows: &[PublicKeyRow]) -> Option<Outcome> {
    let axes = ["algorithm", "step", "tier", "isa", "lanes", "peer", "batch"];
    let cells: Vec<Cell> = rows.iter().filter(|row| row.ratio.is_some()).map(cell).collect();
    rows.iter().any(|row| row.batch != rows[0].batch).then_some(())?;
    // A larger batch often runs by another tier, which would leave holes if tiers were rows.
    let several_tiers = cells.iter().any(|cell| {
        cells.iter().any(|other| {
            let without = |cell: &Cell| {
                let mut at = cell.at.clone();
                at.remove("tier");
                at
            };
            cell.at != other.at && without(cell) == without(other)
        })
    });
    let more = varied(rows).into_iter().filter(|axis| ["isa", "lanes"].contains(axis));
    let rows_of: Vec<&str> = ["algorithm", "step"]
        .into_iter()
        .chain(several_tiers.then_some("tier"))
        .chain(more)
        .chain(["peer"])
        .collect();
    let measures = vec![Measure::times("ratio", "ratio")];
    let experiment =
        Experiment::new("public-key-ratios", "", "Ratios by operations at a time", &axes, measures)
            .notes(&["Our rate over the other library's. What takes no batches gets operations one by one."])
            .shown(View::pivot(&rows_of, "batch", "ratio"), Vec::new());
    (!cells.is_empty()).then(|| Outcome::new(experiment, cells).in_words("batch", at_a_time))
}

/// Returns the rates over lanes, with their gain; nothing for one number of lanes only.
fn scaling(rows: &[PublicKeyRow]) -> Option<Outcome> {
    let axes = ["algorithm", "step", "tier", "isa", "batch", "lanes"];
    let first = rows.iter().map(|row| row.lanes).min()?.to_string();
    let mut cells = own(rows);
    derive::over_first(&mut cells, "lanes", &first, OPERATIONS, "times");
    let view = View::pivot_with_times(&["algorithm", "step", "tier", "batch"], "lanes", OPERATIONS, "times");
    let measures = vec![operations(OPERATIONS, "ops/s"), Measure::times("times", "times")];
    let experiment = Experiment::new("public-key-lanes", "", "Operations over lanes", &axes, measures)
        .notes(&["Operations a second of lanes with operations of their own."])
        .shown(view, Vec::new());
    let has_several = rows.iter().any(|row| row.lanes != rows[0].lanes);
    has_several.then(|| Outcome::new(experiment, cells).in_words("lanes", |lanes| counted(lanes, "lane")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::outcome_text;

    fn row(batch: usize, ops_per_s: f64) -> PublicKeyRow {
        let theirs = 500.0;
        PublicKeyRow {
            tier: if batch == 1 { "native" } else { "batch" },
            ops_per_s,
            peer: Some("openssl"),
            peer_ops_per_s: Some(theirs),
            ratio: Some(ops_per_s / theirs),
            ..PublicKeyRow::of_test("x25519", "agree", batch)
        }
    }

    #[test]
    fn tables_are_those_that_the_rows_allow() {
        let ids = |rows: &[PublicKeyRow]| -> Vec<String> {
            public_key_tables(rows).iter().map(|outcome| outcome.experiment.id.clone()).collect()
        };
        assert!(ids(&[]).is_empty());
        assert_eq!(ids(&[PublicKeyRow::of_test("x25519", "agree", 1)]), ["public-key"]);
        assert_eq!(
            ids(&[row(1, 500.0), row(8, 2000.0)]),
            ["public-key", "side-by-side", "public-key-ratios"]
        );
        let lanes = PublicKeyRow { lanes: 2, ..row(1, 900.0) };
        assert_eq!(ids(&[row(1, 500.0), lanes]), ["public-key", "public-key-lanes"]);
    }

    /// The tier changes with the number at a time; the rows must not.
    #[test]
    fn ratios_stand_in_one_line() {
        let tables = public_key_tables(&[row(1, 500.0), row(8, 2000.0)]);
        let text = outcome_text(&tables[2], Some(80));
        assert!(text.lines().any(|line| line.contains("1.00") && line.contains("4.00")), "{text}");
        let text = outcome_text(&tables[1], Some(80));
        assert!(text.lines().any(|line| line.contains("2,000") && line.contains("500")), "{text}");
    }
}
