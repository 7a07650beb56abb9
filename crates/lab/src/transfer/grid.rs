//! Single and pool, one stream and two, four levels: the study's tables G11 to G13.

use super::copies::{Grid, Planned};
use super::modes::{MODES, Mode};
use super::published;
use crate::experiment::{
    ANY, Axis, Claim, Coordinates, Drawn, Experiment, MEGABITS, Pivot, Plot, RATE, Repetition, View, at,
};
use crate::program::{CopyRequest, End, Level};
use std::collections::BTreeMap;

/// A level with its suite, if it needs one.
pub(super) struct Protection {
    pub(super) level: Level,
    pub(super) suite_axis: &'static str,
    pub(super) suite: Option<&'static str>,
    pub(super) group: &'static str,
}

/// The suites of both generations. Levels without cryptography belong to both.
pub(super) const PROTECTIONS: [Protection; 6] = [
    protection(Level::Clear, ANY, None, "clear and authenticated"),
    protection(Level::Authenticated, ANY, None, "clear and authenticated"),
    protection(Level::Safe, "modern", Some("aes-128-gmac"), "modern safe"),
    protection(Level::Private, "modern", Some("aes-128-gcm"), "modern private"),
    protection(Level::Safe, "legacy", Some("hmac-sha1"), "legacy safe"),
    protection(Level::Private, "legacy", Some("3des-cbc-hmac-sha1"), "legacy private"),
];

/// Returns a row of [`PROTECTIONS`].
pub(super) const fn protection(
    level: Level,
    suite_axis: &'static str,
    suite: Option<&'static str>,
    group: &'static str,
) -> Protection {
    Protection { level, suite_axis, suite, group }
}

/// The paper's name, for reports.
pub(super) const PAPER: &str =
    "Kettimuthu, Harnessing Multicore Processors for High Speed Secure Transfer (2007)";

/// Returns the whole grid at `ends`, and the indexes of its most important claims.
pub(super) fn grid(ends: &[End], cores: usize, repetition: Repetition) -> (Grid, Vec<usize>) {
    let mut skipped = Vec::new();
    if cores < 2 {
        skipped.push("claims about two lanes: this machine gives the program one CPU".to_owned());
    }
    let (mut all, mut headlines) = (Vec::new(), Vec::new());
    for &end in ends {
        let (claims, count) = claims(end, cores);
        headlines.extend(all.len()..all.len() + count);
        all.extend(claims);
    }
    let title = ("grid", "Threads and streams at four levels", "G10–G13, G18");
    let experiment = experiment(title, ends, &MODES, repetition, all);
    (Grid { experiment, cells: cells(ends, &MODES), published: published::cells(), skipped }, headlines)
}

/// Returns the experiment over `ends` and `modes`.
pub(super) fn experiment(
    (id, title, covers): (&str, &str, &str),
    ends: &[End],
    modes: &[Mode],
    repetition: Repetition,
    claims: Vec<Claim>,
) -> Experiment {
    let experiment = Experiment {
        axes: vec![
            Axis::new("suite", [ANY, "modern", "legacy"].into_iter().chain(published::platforms()))
                .in_words(suite_words),
            Axis::new("end", ends.iter().map(|end| end.name()).chain([published::END])).in_words(end_words),
            Axis::new("mode", modes.iter().map(|mode| mode.name)),
            Axis::new("level", Level::ALL.map(Level::name)),
        ],
        repetition,
        view: View::Pivot(Pivot {
            rows: vec!["mode".to_owned()],
            columns: "level".to_owned(),
            measure: MEGABITS.to_owned(),
            blocks: ["suite", "end"].map(str::to_owned).to_vec(),
            times: None,
            ratios: GAINS.map(|(top, bottom)| (top.to_owned(), bottom.to_owned())).to_vec(),
        }),
        // Rates are over the same level's first mode: this is the study's question, and readable if levels differ by
        // a factor of hundreds.
        plots: vec![Plot {
            plots: ["suite", "end"].map(str::to_owned).to_vec(),
            divisor: Some(MODES[0].name.to_owned()),
            ..Plot::new(Drawn::Bars, "level", RATE, &["mode"])
        }],
        ..Experiment::new(id, covers, title, &[], Vec::new())
    };
    let experiment = experiment.of(PAPER).claiming(claims).notes(&[
        "Single is one lane (thread), Pool two; P1 and P2 are one and two streams; Packet is one stream whose records any of two lanes \
         may take. Mb/s, as the study prints them. Levels without cryptography are the same for both generations of suites.",
    ]);
    experiment.method(&[
        "Modern suites: AES-128-GCM for private, AES-128-GMAC for safe. Legacy suites: 3DES-CBC with HMAC-SHA1 for private, HMAC-SHA1 \
         for safe. Nobody should use the legacy ones; they run record by record, as in the study's day, which puts the cost of \
         cryptography where the study had it, far above the cost of the path.",
        "Cells of one level and suite copy the same number of bytes, chosen so that one lane needs about as long for each.",
    ])
}

/// The gains of a second stream or lane: the mode, and the mode that it is compared with.
const GAINS: [(&str, &str); 3] =
    [("Pool P2", "Pool P1"), ("Single P2", "Single P1"), ("Packet P1", "Single P1")];

fn suite_words(suite: &str) -> String {
    match suite {
        "modern" | "legacy" => format!("This machine, {suite} suites"),
        platform => platform.to_owned(),
    }
}

/// Returns a measured end in words.
fn end_words(end: &str) -> String {
    match End::ALL.into_iter().find(|one| one.name() == end) {
        Some(End::Both) => End::Both.words().to_owned(),
        Some(one) => format!("{} measured", one.words()),
        None => end.to_owned(),
    }
}

/// Returns a cell for each end, mode and protection.
pub(super) fn cells(ends: &[End], modes: &[Mode]) -> Vec<Planned> {
    let mut cells = Vec::new();
    for &end in ends {
        for protection in &PROTECTIONS {
            for mode in modes {
                cells.push(Planned {
                    at: place(end, protection.suite_axis, mode.name, protection.level),
                    request: request(end, protection, mode),
                    group: protection.group,
                });
            }
        }
    }
    cells
}

/// The variable that runs ciphers as the programs of the study's time did. In lanes, the legacy suites would cost
/// little more than the path, and the study is about ciphers that cost far more.
pub(super) const RECORD_BY_RECORD: [&str; 2] = ["SEALANE_TIER", "native"];

/// Returns the request to the program for one cell.
pub(super) fn request(end: End, protection: &Protection, mode: &Mode) -> CopyRequest {
    let is_legacy = protection.suite_axis == "legacy";
    CopyRequest {
        level: Some(protection.level),
        suite: protection.suite.map(str::to_owned),
        streams: Some(mode.streams),
        lanes: Some(mode.lanes),
        placement: Some(mode.placement),
        end: Some(end),
        allow_legacy: is_legacy,
        discard: true,
        resume: Some(false),
        environment: if is_legacy {
            BTreeMap::from([RECORD_BY_RECORD.map(str::to_owned).into()])
        } else {
            BTreeMap::new()
        },
        ..CopyRequest::default()
    }
}

/// Returns the coordinates of a cell.
pub(super) fn place(end: End, suite: &str, mode: &str, level: Level) -> Coordinates {
    at([("end", end.name()), ("suite", suite), ("mode", mode), ("level", level.name())])
}

/// Returns the claims about an end, and the number of the study's headlines among them, which come first.
fn claims(end: End, cores: usize) -> (Vec<Claim>, usize) {
    let who = end.words();
    let ratio = |statement: String, source, [top, bottom]: [Coordinates; 2], bounds| {
        Claim::ratio((statement, source), RATE, (top, bottom), bounds)
    };
    let alike = (Some(0.9), Some(1.1));
    let (mut claims, mut headlines) = (Vec::new(), 0);
    // With both ends on one machine, one stream already uses a core at each end; the study had a machine for each.
    if end != End::Both && cores >= 2 {
        let legacy = |level, modes: [&str; 2]| modes.map(|mode| place(end, "legacy", mode, level));
        headlines = 2;
        let [private_gain, safe_gain] = [Level::Private, Level::Safe].map(published::least_gain);
        claims.extend([
            ratio(
                format!("Legacy private, {who}: two streams on two lanes bring at least {private_gain:.2} times one, the least of the study's machines"),
                "G11–G13: 1.84, 1.92, 1.96",
                legacy(Level::Private, ["Pool P2", "Pool P1"]),
                (Some(private_gain), None),
            ),
            ratio(
                format!("Legacy safe, {who}: two streams on two lanes bring at least {safe_gain:.2} times one, the least of the study's machines"),
                "G11–G13: 1.74, 1.58, 1.85",
                legacy(Level::Safe, ["Pool P2", "Pool P1"]),
                (Some(safe_gain), None),
            ),
            ratio(
                format!("Legacy private, {who}, one stream over two lanes: at least {private_gain:.2} times one lane, as two streams in the study"),
                "ours: the study needed a stream for each core",
                legacy(Level::Private, ["Packet P1", "Single P1"]),
                (Some(private_gain), None),
            ),
            ratio(
                format!("Legacy private, {who}: a second stream alone changes nothing, within 10 %"),
                "G10–G13: 1.01 to 1.06",
                legacy(Level::Private, ["Single P2", "Single P1"]),
                alike,
            ),
        ]);
    }
    claims.push(ratio(
        format!("Authenticated costs what clear costs, {who}, within 10 %"),
        "G11–G13",
        [Level::Authenticated, Level::Clear].map(|level| place(end, ANY, "Single P1", level)),
        alike,
    ));
    for Protection { level, suite_axis, .. } in &PROTECTIONS {
        let suite = if *suite_axis == ANY { String::new() } else { format!("{suite_axis} ") };
        claims.push(ratio(
            format!("Parallel is not slower: {suite}{}, {who}", level.name()),
            "target: Pool P2 against Single P1",
            ["Pool P2", "Single P1"].map(|mode| place(end, suite_axis, mode, *level)),
            (Some(1.0), None),
        ));
    }
    (claims, headlines)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Profile, find};

    #[test]
    fn every_claim_is_about_cells_of_the_grid() {
        let (plan, _) = grid(&End::ALL, 2, Profile::Quick.repetition());
        let cell = |cell: &Planned| crate::experiment::Cell { at: cell.at.clone(), ..Default::default() };
        let cells: Vec<_> = plan.cells.iter().map(cell).collect();
        assert_eq!(cells.len(), 3 * 6 * 5);
        for claim in &plan.experiment.claims {
            assert!(claim.shape.places().into_iter().all(|place| find(&cells, place).is_some()));
        }
    }

    #[test]
    fn one_cpu_makes_no_claims_about_two() {
        let rule = Profile::Quick.repetition();
        let (plan, headlines) = grid(&[End::Send], 1, rule);
        assert_eq!(plan.skipped.len(), 1);
        assert!(headlines.is_empty() && !grid(&[End::Send], 2, rule).1.is_empty());
    }

    #[test]
    fn legacy_suites_need_a_word_from_the_user() {
        for cell in cells(&End::ALL, &MODES) {
            let is_legacy = cell.at["suite"] == "legacy";
            assert_eq!(cell.request.allow_legacy, is_legacy);
        }
    }
}
