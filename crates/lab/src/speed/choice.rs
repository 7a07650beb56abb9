//! Advice on what to use on this machine: unbroken algorithms by purpose and rate, and below them those that only old protocols
//! ask for.

use super::summary::{RATE, place};
use super::{Length, Measurement};
use crate::experiment::{Cell, Experiment, Measure, Outcome, View};
use crate::report::number::counted;
use sealane_transform::{Algorithm, Standing};

/// The purpose of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Purpose {
    /// Encrypts and authenticates.
    Aead,
    /// Has no key.
    Hash,
    /// Authenticates.
    Mac,
    /// Encrypts without authenticating.
    Cipher,
}

impl Purpose {
    fn of(algorithm: Algorithm) -> Self {
        match algorithm {
            Algorithm::Aead(_) => Self::Aead,
            Algorithm::Gmac(_) => Self::Mac,
            Algorithm::Digest(digest) if digest.facts().key_bytes.max > 0 => Self::Mac,
            Algorithm::Digest(_) => Self::Hash,
            Algorithm::Cipher(_) => Self::Cipher,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Aead => "AEAD",
            Self::Hash => "hash",
            Self::Mac => "MAC",
            Self::Cipher => "cipher",
        }
    }
}

/// Why an algorithm is in the second table; nothing for those that one may choose.
fn reservation(algorithm: Algorithm) -> Option<&'static str> {
    match (algorithm.facts().standing, algorithm) {
        (Standing::Broken, _) => Some("broken"),
        (Standing::Legacy, _) => Some("legacy"),
        (Standing::Benchmark, _) => Some("no protection"),
        (Standing::Current, Algorithm::Cipher(_)) => Some("needs a MAC"),
        (Standing::Current, _) => None,
    }
}

/// A number of messages of a length, of which there is a rate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Point {
    bytes: usize,
    batch: usize,
}

/// The rates of one algorithm in one direction.
struct Line<'a> {
    algorithm: Algorithm,
    name: String,
    found: Vec<(Point, &'a Measurement)>,
}

impl Line<'_> {
    fn rate(&self, point: Point) -> f64 {
        self.found.iter().find(|(at, _)| *at == point).map_or(0.0, |(_, one)| one.row.mb_per_s)
    }
}

/// Two tables: what one may choose, the fastest of each purpose first and marked, and all else with the reason.
///
/// `lengths` are those that were asked for. One lane and the dispatcher's choice of tier are taken for granted: of several
/// measurements of a point the first counts.
pub fn choice(found: &[Measurement], lengths: &[Length]) -> Vec<Outcome> {
    let point = |one: &Measurement| point(one, lengths);
    let mut points: Vec<Point> = found.iter().filter_map(point).collect();
    points.sort_unstable();
    points.dedup();
    let mut lines: Vec<Line<'_>> = Vec::new();
    for one in found {
        let Some(point) = point(one) else { continue };
        let way = one.row.direction.map_or_else(String::new, |way| format!(" {way}"));
        // Purposes say which way there is, unless there are two.
        let name = if ["encrypt", "seal"].contains(&way.trim()) { String::new() } else { way };
        let name = format!("{}{name}", one.row.algorithm);
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) if line.found.iter().any(|(at, _)| *at == point) => {}
            Some(line) => line.found.push((point, one)),
            None => lines.push(Line { algorithm: one.algorithm, name, found: vec![(point, one)] }),
        }
    }
    // Many long messages are what most bytes come in.
    if let Some(&last) = points.last() {
        lines.sort_by(|one, other| {
            let purpose = |line: &Line<'_>| Purpose::of(line.algorithm);
            purpose(one).cmp(&purpose(other)).then(other.rate(last).total_cmp(&one.rate(last)))
        });
    }
    let (chosen, others): (Vec<_>, Vec<_>) =
        lines.into_iter().partition(|line| reservation(line.algorithm).is_none());
    let tables = [
        (
            "choice",
            "What to use on this machine",
            "All of these are unbroken. MB/s of one core: 1×64 is one message of 64 bytes alone, 512×64 a batch of 512. The fastest is \
             that with the longest messages.",
            chosen,
        ),
        (
            "others",
            "What only old protocols ask for",
            "MB/s as above. Legacy and broken algorithms are here to be measured and to speak with what has nothing better.",
            others,
        ),
    ];
    let outcomes = tables.into_iter().filter(|(_, _, _, lines)| !lines.is_empty());
    outcomes.map(|(id, title, note, lines)| table(id, title, note, &points, &lines)).collect()
}

/// A measurement's point, by the length that was asked for: a block cipher's messages may be a few bytes shorter.
fn point(one: &Measurement, asked: &[Length]) -> Option<Point> {
    let Length::Equal(own) = one.length else { return None };
    let equal = |length: &Length| match length {
        Length::Equal(bytes) => Some(*bytes),
        Length::Imix => None,
    };
    let bytes = asked.iter().filter_map(equal).filter(|bytes| *bytes >= own).min().unwrap_or(own);
    Some(Point { bytes, batch: one.row.batch })
}

fn table(id: &str, title: &str, note: &str, points: &[Point], lines: &[Line<'_>]) -> Outcome {
    let mut measures: Vec<Measure> =
        points.iter().map(|point| Measure::rate(&measure(*point), &heading(*point))).collect();
    measures.push(Measure::new(REMARK, ""));
    let cells = lines.iter().map(|line| {
        let place = [("for", Purpose::of(line.algorithm).name()), ("algorithm", &*line.name)];
        let cell = line
            .found
            .iter()
            .fold(Cell::new(place), |cell, (point, one)| cell.with(&measure(*point), one.row.rate()));
        cell.with(REMARK, remark(line, lines, points).as_str())
    });
    let experiment = Experiment::new(id, "", title, &["for", "algorithm"], measures).notes(&[note]);
    Outcome::new(experiment, cells.collect())
}

const REMARK: &str = "remark";

fn measure(point: Point) -> String {
    format!("{RATE} {} {}", point.batch, point.bytes)
}

fn heading(point: Point) -> String {
    format!("{}×{}", point.batch, point.bytes)
}

/// The reservation; or with how many messages, of the longest, the algorithm is the fastest of its purpose.
fn remark(line: &Line<'_>, lines: &[Line<'_>], points: &[Point]) -> String {
    if let Some(reservation) = reservation(line.algorithm) {
        return reservation.to_owned();
    }
    let rivals = || lines.iter().filter(|other| Purpose::of(other.algorithm) == Purpose::of(line.algorithm));
    let longest = points.iter().map(|point| point.bytes).max();
    let leads = |is_many: bool| {
        let point = points.iter().rfind(|point| Some(point.bytes) == longest && (point.batch > 1) == is_many);
        point.is_some_and(|point| rivals().all(|other| other.rate(*point) <= line.rate(*point)))
    };
    let (one, many) = (leads(false), leads(true));
    match (one, many) {
        (true, true) => "fastest",
        (true, false) => "fastest alone",
        (false, true) => "fastest in batches",
        (false, false) => "",
    }
    .to_owned()
}

/// The ratios to peers with one message beside those with many; nothing where only one number of messages was measured.
pub(super) fn ratios(found: &[Measurement]) -> Option<Outcome> {
    let mut batches: Vec<usize> = found.iter().map(|one| one.row.batch).collect();
    batches.sort_unstable();
    batches.dedup();
    let axes = ["algorithm", "bytes", "peer", "batch"];
    let cell = |one: &Measurement| Some(place(one, &axes).with("ratio", one.row.ratio?));
    let cells: Vec<Cell> = found.iter().filter_map(cell).collect();
    if batches.len() < 2 || cells.is_empty() {
        return None;
    }
    let pivot = View::pivot(&["algorithm", "bytes", "peer"], "batch", "ratio");
    let measures = vec![Measure::times("ratio", "messages at a time")];
    let experiment = Experiment::new("ratios", "", "Ratios by messages at a time", &axes, measures)
        .notes(&["Our rate over the other library's. What takes no batches gets them one by one."])
        .shown(pivot, Vec::new());
    let mut outcome = Outcome::new(experiment, cells);
    for axis in outcome.experiment.axes.iter_mut().filter(|axis| axis.name == "batch") {
        *axis = axis.clone().in_words(|batch| counted(batch, "message"));
    }
    Some(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speed::Row;

    fn found(name: &str, bytes: usize, batch: usize, mb_per_s: f64, ratio: Option<f64>) -> Measurement {
        let algorithm: Algorithm = name.parse().unwrap();
        let row = Row {
            algorithm: name.to_owned(),
            mode: None,
            direction: matches!(algorithm, Algorithm::Aead(_)).then_some("seal"),
            tier: "batch",
            isa: "avx2",
            bytes,
            lanes: 1,
            batch,
            mb_per_s,
            ns_per_message: 1.0,
            cycles_per_byte: None,
            peer: ratio.map(|_| "openssl"),
            peer_mb_per_s: ratio.map(|ratio| mb_per_s / ratio),
            ratio,
            mb_per_s_interval: None,
        };
        Measurement { row, algorithm, length: Length::Equal(bytes), index: 0 }
    }

    #[test]
    fn what_is_unbroken_comes_first_and_the_fastest_is_marked() {
        let asked = [Length::Equal(100)];
        let all = [
            found("md5", 100, 1, 900.0, None),
            found("md5", 100, 64, 9000.0, None),
            found("sha256", 100, 1, 500.0, None),
            found("sha256", 100, 64, 600.0, None),
            found("blake3", 100, 1, 400.0, None),
            found("blake3", 100, 64, 1400.0, None),
            found("aes-256-gcm", 100, 1, 2000.0, None),
            found("aes-256-gcm", 100, 64, 4000.0, None),
            found("aes-128-ctr", 100, 64, 8000.0, None),
            // A whole number of blocks.
            found("3des-cbc", 96, 64, 30.0, None),
        ];
        let tables = choice(&all, &asked);
        let rows = |outcome: &Outcome| -> Vec<[String; 2]> {
            let remark = |cell: &Cell| match cell.values.get(REMARK) {
                Some(crate::experiment::Value::Text(text)) => text.clone(),
                _ => String::new(),
            };
            outcome.cells.iter().map(|cell| [cell.at["algorithm"].clone(), remark(cell)]).collect()
        };
        assert_eq!(
            rows(&tables[0]),
            [["aes-256-gcm", "fastest"], ["blake3", "fastest in batches"], ["sha256", "fastest alone"]]
        );
        assert_eq!(
            rows(&tables[1]),
            [["md5", "broken"], ["aes-128-ctr", "needs a MAC"], ["3des-cbc", "legacy"]]
        );
        let rate = |outcome: &Outcome, row: usize| {
            outcome.cells[row].figure(&measure(Point { bytes: 100, batch: 64 }))
        };
        assert_eq!((rate(&tables[0], 0), rate(&tables[1], 2)), (Some(4000.0), Some(30.0)));
    }

    #[test]
    fn ratios_of_one_message_stand_beside_those_of_many() {
        let all = [found("md5", 64, 1, 100.0, Some(0.5)), found("md5", 64, 512, 900.0, Some(4.5))];
        let text = crate::report::outcome_text(&ratios(&all).unwrap(), None);
        assert!(text.lines().any(|line| line.contains("0.50") && line.contains("4.50")), "{text}");
        assert!(ratios(&all[..1]).is_none());
        assert!(ratios(&[found("md5", 64, 1, 1.0, None), found("md5", 64, 2, 1.0, None)]).is_none());
    }
}
