//! What several rows say together: cost as a line, scaling over lanes, what ragged batches keep.

use super::table::{Table, figure};
use super::{Cost, Length, Measurement, Row, fit};
use crate::report::number::ratio;

/// The tables that the measurements allow; none where they allow nothing.
pub fn summary(found: &[Measurement]) -> Vec<Table> {
    [costs(found), scaling(found), ragged(found)].into_iter().flatten().collect()
}

/// What two rows share that differ in one thing only.
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

/// Our line and the peer's.
fn lines(members: &[&Measurement]) -> (Option<Cost>, Option<Cost>) {
    let points = |ns: &dyn Fn(&Row) -> Option<f64>| -> Vec<(f64, f64)> {
        members.iter().filter_map(|one| Some((one.row.bytes as f64, ns(&one.row)?))).collect()
    };
    let own = points(&|row| Some(row.ns_per_message));
    let peer = points(&|row| Some(row.lanes as f64 * row.bytes as f64 * 1000.0 / row.peer_mb_per_s?));
    (fit(&own), fit(&peer))
}

fn costs(found: &[Measurement]) -> Option<Table> {
    let key = |one: &Measurement| {
        let row = &one.row;
        (name(row), row.tier, row.isa, row.lanes, row.batch, row.peer)
    };
    let mut table = Table::new(
        "Cost of a message: per message + per byte",
        &["A line through all lengths, relative errors weighed alike; per lane."],
        &[
            "algorithm",
            "tier",
            "isa",
            "lanes",
            "batch",
            "ns a message",
            "ns a byte",
            "peer",
            "ns a message",
            "ns a byte",
        ],
        3,
    );
    for members in groups(found.iter().filter(has_equal_lengths), key) {
        let (Some(own), peer) = lines(&members) else { continue };
        let row = &members[0].row;
        table.rows.push(vec![
            name(row),
            row.tier.to_owned(),
            row.isa.to_owned(),
            row.lanes.to_string(),
            row.batch.to_string(),
            figure(Some(own.per_message_ns)),
            format!("{:.4}", own.per_byte_ns),
            row.peer.unwrap_or("–").to_owned(),
            figure(peer.map(|peer| peer.per_message_ns)),
            peer.map_or_else(|| "–".to_owned(), |peer| format!("{:.4}", peer.per_byte_ns)),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}

fn scaling(found: &[Measurement]) -> Option<Table> {
    let key = |one: &Measurement| {
        let row = &one.row;
        (name(row), row.tier, row.isa, one.length, row.batch, row.peer)
    };
    let mut table = Table::new(
        "Scaling over lanes",
        &["Every lane is a thread with batches of its own."],
        &["algorithm", "tier", "isa", "bytes", "batch", "lanes", "MB/s", "times"],
        3,
    );
    for members in groups(found.iter(), key) {
        let Some(fewest) = members.iter().min_by_key(|one| one.row.lanes) else { continue };
        for one in members.iter().filter(|one| one.row.lanes > fewest.row.lanes) {
            let row = &one.row;
            let times = row.mb_per_s / fewest.row.mb_per_s;
            table.rows.push(vec![
                name(row),
                row.tier.to_owned(),
                row.isa.to_owned(),
                row.bytes.to_string(),
                row.batch.to_string(),
                format!("{} over {}", row.lanes, fewest.row.lanes),
                figure(Some(row.mb_per_s)),
                ratio(times),
            ]);
        }
    }
    (!table.rows.is_empty()).then_some(table)
}

fn ragged(found: &[Measurement]) -> Option<Table> {
    let mut table = Table::new(
        "What ragged batches keep",
        &["IMIX lengths with a key for every message, beside equal lengths of about the same mean."],
        &["algorithm", "tier", "isa", "lanes", "batch", "MB/s", "equal MB/s", "kept"],
        3,
    );
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
        table.rows.push(vec![
            name(row),
            row.tier.to_owned(),
            row.isa.to_owned(),
            row.lanes.to_string(),
            row.batch.to_string(),
            figure(Some(row.mb_per_s)),
            figure(Some(equal.row.mb_per_s)),
            format!("{:.0} %", 100.0 * row.mb_per_s / equal.row.mb_per_s),
        ]);
    }
    (!table.rows.is_empty()).then_some(table)
}
