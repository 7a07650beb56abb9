//! Rows as experiments: rates, and conclusions from several rows: ratios by messages at a time, cost as a line,
//! scaling over lanes, the rates of ragged batches.

use super::Row;
use super::fit::{Cost, fit};
use crate::experiment::{Cell, Drawn, Experiment, Measure, Outcome, Plot, RATE, View, Written, derive};
use crate::report::number::counted;

/// Returns the cell of a row. Its place has all fields in which rows differ.
pub(super) fn cell(row: &Row) -> Cell {
    let [bytes, lanes, batch] = [row.bytes, row.lanes, row.batch].map(|count| count.to_string());
    let mut cell = Cell::new([
        ("algorithm", &*row.algorithm),
        ("tier", row.tier),
        ("isa", row.isa),
        ("bytes", if row.is_ragged { "imix" } else { &bytes }),
        ("lanes", &lanes),
        ("batch", &batch),
    ]);
    let others = [("way", row.direction), ("peer", row.peer)];
    cell.at.extend(others.into_iter().filter_map(|(axis, value)| Some((axis.to_owned(), value?.to_owned()))));
    let cell = cell
        .behind(row.runs)
        .with(RATE, row.rate())
        .with("ns_per_message", row.ns_per_message)
        .with_some("cycles_per_byte", row.cycles_per_byte)
        .with_some("peer_mb_per_s", row.peer_mb_per_s)
        .with_some("ratio", row.ratio);
    let Some(entry) = row.entry() else { return cell };
    let facts = entry.facts();
    cell.with("table_bytes", facts.table_bytes as f64)
        .with("working_set_bytes", facts.working_set_bytes as f64)
}

/// Returns every row, and rates over lengths if there are several lengths.
pub fn rates(rows: &[Row]) -> Option<Outcome> {
    let has_peers = rows.iter().any(|row| row.peer.is_some());
    let has = |is_there: bool, name: &'static str| is_there.then_some(name);
    let axes: Vec<&str> = [
        Some("algorithm"),
        has(rows.iter().any(|row| row.direction.is_some()), "way"),
        Some("tier"),
        Some("bytes"),
        has(rows.iter().any(|row| row.lanes != rows[0].lanes), "lanes"),
        has(rows.iter().any(|row| row.batch != rows[0].batch), "batch"),
        has(has_peers, "peer"),
    ]
    .into_iter()
    .flatten()
    .collect();
    let mut measures = vec![Measure::rate(RATE, "MB/s")];
    if has_peers {
        measures.extend([Measure::rate("peer_mb_per_s", "peer MB/s"), Measure::times("ratio", "ratio")]);
    }
    measures.push(Measure::cost("ns_per_message", "ns/msg", "ns"));
    if rows.iter().any(|row| row.cycles_per_byte.is_some()) {
        measures.push(Measure::cost("cycles_per_byte", "c/B", "cycles").decimals(3));
    }
    measures.push(Measure::count("table_bytes", "table").unit("bytes"));
    measures.push(Measure::count("working_set_bytes", "set").unit("bytes"));
    let series: Vec<&str> = axes.iter().copied().filter(|axis| *axis != "bytes").chain(["isa"]).collect();
    let drawn = [RATE, "peer_mb_per_s"].into_iter().take(1 + usize::from(has_peers));
    let plot = Plot {
        measures: drawn.map(str::to_owned).collect(),
        ..Plot::new(Drawn::Lines, "bytes", RATE, &series)
    };
    let mut lengths: Vec<usize> = rows.iter().filter(|row| !row.is_ragged).map(|row| row.bytes).collect();
    lengths.sort_unstable();
    lengths.dedup();
    let plots = (lengths.len() > 1).then_some(plot).into_iter().collect();
    let experiment = Experiment::new("rates", "", "Rates", &axes, measures).notes(&[
        "MB/s of all lanes; ns per message and cycles per byte (of the time stamp counter) of one lane; bytes of tables and of what \
         an association keeps hot.",
    ]);
    (!rows.is_empty())
        .then(|| Outcome::new(experiment.shown(View::Cells, plots), rows.iter().map(cell).collect()))
}

/// Returns the conclusions that the rows allow; nothing if there are none.
pub fn summary(rows: &[Row]) -> Vec<Outcome> {
    [ratios(rows), costs(rows), scaling(rows), ragged(rows)].into_iter().flatten().collect()
}

/// The axes in which rows differ in a summary.
const AXES: [&str; 6] = ["algorithm", "tier", "isa", "lanes", "batch", "peer"];

/// Returns a row's place in a summary, with those of `axes` that it has.
fn place(row: &Row, axes: &[&str]) -> Cell {
    let mut cell = Cell { at: cell(row).at, ..Cell::default() };
    cell.at.insert("algorithm".to_owned(), row.name());
    cell.at.retain(|axis, _| axes.contains(&&**axis));
    cell
}

fn outcome(
    (id, title, note): (&str, &str, &str),
    axes: &[&str],
    measures: Vec<Measure>,
    view: View,
    cells: Vec<Cell>,
) -> Option<Outcome> {
    let experiment = Experiment::new(id, "", title, axes, measures).notes(&[note]).shown(view, Vec::new());
    (!cells.is_empty()).then(|| Outcome::new(experiment, cells))
}

/// Returns the ratios to peers with one message beside those with many; nothing if only one number of messages was
/// measured.
fn ratios(rows: &[Row]) -> Option<Outcome> {
    let axes = ["algorithm", "bytes", "peer", "batch"];
    let cells: Vec<Cell> =
        rows.iter().filter_map(|row| Some(place(row, &axes).with("ratio", row.ratio?))).collect();
    let has_several = rows.iter().any(|row| row.batch != rows[0].batch);
    let note = "Our rate over the other library's. What takes no batches gets them one by one.";
    let view = View::pivot(&axes[..3], "batch", "ratio");
    let measures = vec![Measure::times("ratio", "messages at a time")];
    let outcome = outcome(("ratios", "Ratios by messages at a time", note), &axes, measures, view, cells)?;
    has_several.then(|| outcome.in_words("batch", |batch| counted(batch, "message")))
}

/// Returns the cost of a message as a line over its length, ours and the peer's.
fn costs(rows: &[Row]) -> Option<Outcome> {
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
    let mut groups: Vec<(Cell, Vec<&Row>)> = Vec::new();
    for row in rows.iter().filter(|row| !row.is_ragged) {
        let place = place(row, &AXES);
        match groups.iter_mut().find(|(group, _)| *group == place) {
            Some((_, members)) => members.push(row),
            None => groups.push((place, vec![row])),
        }
    }
    let cells = groups.into_iter().filter_map(|(place, members)| {
        let line = |ns: &dyn Fn(&Row) -> Option<f64>| -> Option<Cost> {
            fit(&members.iter().filter_map(|row| Some((row.bytes as f64, ns(row)?))).collect::<Vec<_>>())
        };
        let own = line(&|row| Some(row.ns_per_message))?;
        let peer = line(&|row| Some(row.lanes as f64 * row.bytes as f64 * 1000.0 / row.peer_mb_per_s?));
        let cell = place.with("per_message_ns", own.per_message_ns).with("per_byte_ns", own.per_byte_ns);
        let cell = cell.with_some("peer_per_message_ns", peer.map(|peer| peer.per_message_ns));
        Some(cell.with_some("peer_per_byte_ns", peer.map(|peer| peer.per_byte_ns)))
    });
    let title = "Cost of a message: per message + per byte";
    let note = "A line through all lengths, relative errors weighed alike; per lane.";
    outcome(("costs", title, note), &AXES, measures, View::Cells, cells.collect())
}

fn scaling(rows: &[Row]) -> Option<Outcome> {
    let axes = ["algorithm", "tier", "isa", "bytes", "batch", "peer", "lanes"];
    let fewest = rows.iter().map(|row| row.lanes).min()?;
    let mut cells: Vec<Cell> = rows.iter().map(|row| place(row, &axes).with(RATE, row.mb_per_s)).collect();
    derive::over_first(&mut cells, "lanes", &fewest.to_string(), RATE, "times");
    cells.retain(|cell| cell.at["lanes"] != fewest.to_string());
    let measures = vec![
        Measure::rate(RATE, "MB/s"),
        Measure::times("times", &format!("times {}", counted(fewest, "lane"))),
    ];
    let note = "Every lane is a thread with batches of its own.";
    outcome(("scaling", "Scaling over lanes", note), &axes, measures, View::Cells, cells)
}

fn ragged(rows: &[Row]) -> Option<Outcome> {
    let mut cells = Vec::new();
    for row in rows.iter().filter(|row| row.is_ragged) {
        let place = place(row, &AXES);
        let is_alike = |other: &&Row| {
            !other.is_ragged && other.bytes.abs_diff(row.bytes) < 64 && self::place(other, &AXES) == place
        };
        let Some(equal) = rows.iter().find(is_alike) else { continue };
        let kept = row.mb_per_s / equal.mb_per_s;
        cells.push(place.with(RATE, row.mb_per_s).with("equal", equal.mb_per_s).with("kept", kept));
    }
    let measures = vec![
        Measure::rate(RATE, "MB/s"),
        Measure::rate("equal", "equal MB/s"),
        Measure::times("kept", "kept").written(Written::PerCent(0)),
    ];
    let note = "IMIX lengths with a key for every message, beside equal lengths of about the same mean.";
    outcome(("ragged", "What ragged batches keep", note), &AXES, measures, View::Cells, cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_of_one_message_stand_beside_those_of_many() {
        let row =
            |batch, ratio| Row { batch, ratio, peer: ratio.map(|_| "openssl"), ..Row::of_test("md5", 64) };
        let all = [row(1, Some(0.5)), row(512, Some(4.5))];
        let text = crate::report::outcome_text(&ratios(&all).unwrap(), None);
        assert!(text.lines().any(|line| line.contains("0.50") && line.contains("4.50")), "{text}");
        assert!(ratios(&all[..1]).is_none());
        assert!(ratios(&[row(1, None), row(2, None)]).is_none());
    }
}
