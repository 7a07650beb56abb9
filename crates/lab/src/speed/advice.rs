//! Advice on algorithms for this machine: unbroken algorithms by purpose and rate, and below them those that only old
//! protocols require.

use super::{Length, Row};
use crate::experiment::{Cell, Experiment, Measure, Outcome, RATE};
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

/// Returns the reason why an algorithm is in the second table; nothing for recommended ones.
fn reservation(algorithm: Algorithm) -> Option<&'static str> {
    match (algorithm.facts().standing, algorithm) {
        (Standing::Broken, _) => Some("broken"),
        (Standing::Legacy, _) => Some("legacy"),
        (Standing::Benchmark, _) => Some("no protection"),
        (Standing::Current, Algorithm::Cipher(_)) => Some("needs a MAC"),
        (Standing::Current, _) => None,
    }
}

/// The length of messages and their number.
type Point = (usize, usize);

/// One algorithm in one direction, with its rates.
struct Line<'a> {
    algorithm: Algorithm,
    name: String,
    found: Vec<(Point, &'a Row)>,
}

impl Line<'_> {
    fn rate(&self, point: Point) -> f64 {
        self.found.iter().find(|(at, _)| *at == point).map_or(0.0, |(_, row)| row.mb_per_s)
    }

    fn purpose(&self) -> Purpose {
        Purpose::of(self.algorithm)
    }
}

/// Returns two tables: the recommended algorithms, the fastest of each purpose first and marked, and all others with
/// the reason.
///
/// `lengths` are the requested ones. One lane and the dispatcher's choice of tier are assumed: of several
/// measurements of a point the first counts.
pub fn advice(rows: &[Row], lengths: &[Length]) -> Vec<Outcome> {
    let equal = |length: &Length| match length {
        Length::Equal(bytes) => Some(*bytes),
        Length::Imix => None,
    };
    // The requested length is used: a block cipher's messages may be a few bytes shorter.
    let point = |row: &Row| {
        let asked = lengths.iter().filter_map(equal).filter(|bytes| *bytes >= row.bytes).min();
        (asked.unwrap_or(row.bytes), row.batch)
    };
    let rows = || rows.iter().filter(|row| !row.is_ragged);
    let mut points: Vec<Point> = rows().map(point).collect();
    points.sort_unstable();
    points.dedup();
    let mut lines: Vec<Line<'_>> = Vec::new();
    for row in rows() {
        let Some(algorithm) = row.entry() else { continue };
        // The purpose determines the direction, unless there are two.
        let is_usual = row.direction.is_none_or(|way| ["encrypt", "seal"].contains(&way));
        let name = if is_usual { row.algorithm.clone() } else { row.name() };
        let at = lines.iter().position(|line| line.name == name).unwrap_or_else(|| {
            lines.push(Line { algorithm, name, found: Vec::new() });
            lines.len() - 1
        });
        lines[at].found.push((point(row), row));
    }
    // Most bytes come in many long messages.
    if let Some(&last) = points.last() {
        lines.sort_by(|one, other| {
            one.purpose().cmp(&other.purpose()).then(other.rate(last).total_cmp(&one.rate(last)))
        });
    }
    let (chosen, others): (Vec<_>, Vec<_>) =
        lines.into_iter().partition(|line| reservation(line.algorithm).is_none());
    let texts = [
        (
            ("choice", "What to use on this machine"),
            "All of these are unbroken. MB/s of one core: 1×64 is one message of 64 bytes alone, 512×64 a batch of 512. The fastest is \
             that with the longest messages.",
        ),
        (
            ("others", "What only old protocols ask for"),
            "MB/s as above. Legacy and broken algorithms are here to be measured and to speak with what has nothing better.",
        ),
    ];
    let tables = texts.into_iter().zip([chosen, others]).filter(|(_, lines)| !lines.is_empty());
    tables.map(|((title, note), lines)| table(title, note, &points, &lines)).collect()
}

const REMARK: &str = "remark";

fn measure((bytes, batch): Point) -> String {
    format!("{RATE} {batch} {bytes}")
}

fn table((id, title): (&str, &str), note: &str, points: &[Point], lines: &[Line<'_>]) -> Outcome {
    let rate = |&(bytes, batch): &Point| Measure::rate(&measure((bytes, batch)), &format!("{batch}×{bytes}"));
    let mut measures: Vec<Measure> = points.iter().map(rate).collect();
    measures.push(Measure::new(REMARK, ""));
    let cells = lines.iter().map(|line| {
        let place = [("for", line.purpose().name()), ("algorithm", &*line.name)];
        // The first rate of a point counts.
        let rates = line.found.iter().rev();
        let cell = rates.fold(Cell::new(place), |cell, (point, row)| cell.with(&measure(*point), row.rate()));
        cell.with(REMARK, remark(line, lines, points))
    });
    let experiment = Experiment::new(id, "", title, &["for", "algorithm"], measures).notes(&[note]);
    Outcome::new(experiment, cells.collect())
}

/// Returns the reservation; or the numbers of messages, of the longest length, with which the algorithm is the
/// fastest of its purpose.
fn remark(line: &Line<'_>, lines: &[Line<'_>], points: &[Point]) -> &'static str {
    if let Some(reservation) = reservation(line.algorithm) {
        return reservation;
    }
    let longest = points.iter().map(|point| point.0).max();
    let leads = |is_many: bool| {
        let point = points.iter().rfind(|point| Some(point.0) == longest && (point.1 > 1) == is_many);
        let mut rivals = lines.iter().filter(|other| other.purpose() == line.purpose());
        point.is_some_and(|point| rivals.all(|other| other.rate(*point) <= line.rate(*point)))
    };
    match (leads(false), leads(true)) {
        (true, true) => "fastest",
        (true, false) => "fastest alone",
        (false, true) => "fastest in batches",
        (false, false) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, bytes: usize, batch: usize, mb_per_s: f64) -> Row {
        let direction = name.ends_with("gcm").then_some("seal");
        Row { direction, batch, mb_per_s, ..Row::of_test(name, bytes) }
    }

    #[test]
    fn what_is_unbroken_comes_first_and_the_fastest_is_marked() {
        let all = [
            found("md5", 100, 1, 900.0),
            found("md5", 100, 64, 9000.0),
            found("sha256", 100, 1, 500.0),
            found("sha256", 100, 64, 600.0),
            found("blake3", 100, 1, 400.0),
            found("blake3", 100, 64, 1400.0),
            found("aes-256-gcm", 100, 1, 2000.0),
            found("aes-256-gcm", 100, 64, 4000.0),
            found("aes-128-ctr", 100, 64, 8000.0),
            // The length is a whole number of blocks.
            found("3des-cbc", 96, 64, 30.0),
        ];
        let tables = advice(&all, &[Length::Equal(100)]);
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
        let rate = |outcome: &Outcome, row: usize| outcome.cells[row].figure(&measure((100, 64)));
        assert_eq!((rate(&tables[0], 0), rate(&tables[1], 2)), (Some(4000.0), Some(30.0)));
    }
}
