//! The site of all studies: static pages from stored reports, with every figure as the paper has it and ours beside it.
//!
//! Guarantees: nothing is measured; every study has a page, with its command if there is no result; a claim that fails
//! is on the index; every verdict's samples are in a file of the site, and a stored verdict is computed again from them by the
//! rules of this program; a page loads nothing from elsewhere; a folder that is not a site is left unchanged.

mod machines;
mod pages;
mod told;
mod words;

use crate::LabError;
use crate::experiment::{Cell, ClaimResult, Coordinates, Outcome, View, find};
use crate::inventory;
use crate::machine::Machine;
use crate::report::Report;
use crate::studies::{self, Listed, Study};
use crate::times::Times;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The folder of `sealane lab run all`, and the one from which a site is built, if no other is given.
pub const RESULTS: &str = "sealane-results";

/// The script that computes claims again from a site's raw data.
const RECOMPUTE: &str = include_str!("../../assets/recompute.py");

/// The maximum size of a stored report.
const REPORT_BYTES_MAX: u64 = 256 << 20;
/// The maximum number of stored reports.
const REPORTS_MAX: usize = 1000;
/// The file that marks a folder as a site, and lists every claim with the place of its data.
const CLAIMS: &str = "claims.json";

/// The contents of a site that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Built {
    /// The path of its `index.html`.
    pub index: PathBuf,
    /// The number of studies with a result.
    pub measured: usize,
    /// The ids of studies without a result.
    pub missing: Vec<&'static str>,
    /// Files that are no reports, with the reason.
    pub skipped: Vec<String>,
}

/// The reports of one machine and build.
struct Record {
    /// The name of its folder.
    name: String,
    /// The newest first.
    stored: Vec<Stored>,
}

/// A stored report.
struct Stored {
    report: Report,
    /// The place of its file in the site.
    data: String,
    bytes: Vec<u8>,
}

/// A study's part of a stored outcome.
struct Found<'a> {
    stored: &'a Stored,
    /// The index of the outcome in its report.
    index: usize,
    outcome: Outcome,
}

/// The results of one study; none if it was not run.
struct Results<'a> {
    study: &'static Study,
    listed: Listed,
    found: Vec<Found<'a>>,
}

impl Results<'_> {
    fn claims(&self) -> impl Iterator<Item = (&Outcome, &ClaimResult)> {
        self.found
            .iter()
            .flat_map(|Found { outcome, .. }| outcome.claims.iter().map(move |result| (outcome, result)))
    }

    /// Returns the reports from which the results are, the newest first.
    fn reports(&self) -> Vec<&Stored> {
        let mut reports: Vec<&Stored> = self.found.iter().map(|found| found.stored).collect();
        reports.dedup_by_key(|stored| stored.data.as_str());
        reports
    }
}

/// Builds the site in `to` from the reports in `from`, with those in the folders `add` beside them; `times` says how long a
/// study without a result takes here.
///
/// # Errors
/// Fails if there is no report in one of the folders, if `to` holds something else than a site, or if a file cannot be read or
/// written. A file in such a folder that is no report is skipped.
pub fn build(from: &Path, add: &[PathBuf], to: &Path, times: &Times) -> Result<Built, LabError> {
    let mut skipped = Vec::new();
    let mut names = BTreeSet::new();
    let mut records: Vec<Record> = Vec::new();
    for folder in [from].into_iter().chain(add.iter().map(PathBuf::as_path)) {
        let name = name_of(folder, &records);
        let prefix = if records.is_empty() { String::new() } else { format!("{name}-") };
        let (stored, others) = stored(folder, &prefix, &mut names)?;
        skipped.extend(others);
        if stored.is_empty() {
            let folder = folder.display();
            return Err(LabError::Unavailable(format!(
                "no results in {folder}: `sealane lab run all --report {folder}` measures and stores them"
            )));
        }
        records.push(Record { name, stored });
    }
    prepare(to)?;
    let here = Machine::describe();
    let listed = times.listed();
    let all: Vec<Vec<Results<'_>>> = records
        .iter()
        .map(|record| listed.iter().map(|one| results(one.clone(), &record.stored)).collect())
        .collect();
    let (results, stored) = (&all[0], &records[0].stored);
    let put = |name: &str, content: &[u8]| {
        let path = to.join(name);
        fs::write(&path, content).map_err(LabError::file("cannot write", &path))
    };
    // The mark comes first, so that an interrupted site can be built again.
    put(CLAIMS, claims(&all)?.as_bytes())?;
    for one in records.iter().flat_map(|record| &record.stored) {
        put(&one.data, &one.bytes)?;
    }
    put("recompute.py", RECOMPUTE.as_bytes())?;
    put("index.html", pages::index(results, stored, records.len())?.as_bytes())?;
    put("glossary.html", pages::glossary(&here)?.as_bytes())?;
    if records.len() > 1 {
        put(machines::PAGE, machines::page(&records, &all)?.as_bytes())?;
    }
    for one in results {
        put(&pages::page_of(one.study.id), pages::study(one, &here)?.as_bytes())?;
    }
    let missing = results.iter().filter(|one| one.found.is_empty()).map(|one| one.study.id);
    let missing: Vec<&str> = missing.collect();
    Ok(Built { index: to.join("index.html"), measured: results.len() - missing.len(), missing, skipped })
}

/// Makes the folder of the site, unless it holds something else.
fn prepare(to: &Path) -> Result<(), LabError> {
    let data = to.join("data");
    let is_empty = fs::read_dir(to).map_or(true, |mut entries| entries.next().is_none());
    if !is_empty && !to.join(CLAIMS).exists() {
        let to = to.display();
        return Err(LabError::Unavailable(format!("{to} is neither empty nor a site: name another folder")));
    }
    fs::create_dir_all(&data).map_err(LabError::file("cannot make the site's folder", data))
}

/// Returns the name of a record: that of its folder, with a number if another one has it.
fn name_of(folder: &Path, others: &[Record]) -> String {
    let whole = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let name = safe(&whole.file_name().unwrap_or_default().to_string_lossy());
    let same = others.iter().filter(|other| other.name.starts_with(&name)).count();
    if same == 0 { name } else { format!("{name}-{}", same + 1) }
}

/// Returns a name for a file of the site.
fn safe(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

/// The ends of reports' names: as they are written, and compressed to be kept.
const ENDS: [&str; 2] = [".json", ".json.xz"];

/// Returns the reports in a folder, the newest first, and the files that are none. `names` are those of the site's files so far,
/// and `prefix` begins the new ones.
fn stored(
    from: &Path,
    prefix: &str,
    names: &mut BTreeSet<String>,
) -> Result<(Vec<Stored>, Vec<String>), LabError> {
    let failed = || LabError::file("cannot read the results in", from);
    let mut paths = Vec::new();
    for entry in fs::read_dir(from).map_err(failed())? {
        let path = entry.map_err(failed())?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if let Some(end) = ENDS.iter().find(|end| name.ends_with(**end)) {
            let stem = name[..name.len() - end.len()].to_owned();
            paths.push((path, stem));
        }
    }
    paths.sort();
    let (mut stored, mut skipped) = (Vec::new(), Vec::new());
    for (path, stem) in paths {
        if stored.len() == REPORTS_MAX {
            skipped.push(format!("{}: only {REPORTS_MAX} reports are read", path.display()));
            continue;
        }
        match read(&path) {
            Ok((report, bytes)) => {
                let mut name = prefix.to_owned() + &safe(&stem);
                while !names.insert(name.clone()) {
                    name.push('_');
                }
                stored.push(Stored { report, data: format!("data/{name}.json"), bytes });
            }
            Err(error) => skipped.push(format!("{}: {error}", path.display())),
        }
    }
    stored.sort_by(|one, other| other.report.created.cmp(&one.report.created));
    Ok((stored, skipped))
}

fn read(path: &Path) -> Result<(Report, Vec<u8>), LabError> {
    let bytes = contents(path)?;
    if bytes.len() as u64 > REPORT_BYTES_MAX {
        return Err(LabError::Unavailable(format!("longer than {REPORT_BYTES_MAX} bytes")));
    }
    let text = std::str::from_utf8(&bytes).map_err(|error| LabError::Render(error.to_string()))?;
    let mut report = Report::from_json(text)?;
    let all: Vec<Cell> = report.outcomes.iter().flat_map(|outcome| &outcome.cells).cloned().collect();
    report.outcomes.iter_mut().for_each(|outcome| decide_again(outcome, &all));
    Ok((report, bytes))
}

/// Reads a file, which `xz` expands if it is compressed, until it is longer than a report may be.
fn contents(path: &Path) -> Result<Vec<u8>, LabError> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(LabError::file("cannot open", path))?;
    if path.extension().is_none_or(|extension| extension != "xz") {
        file.take(REPORT_BYTES_MAX + 1)
            .read_to_end(&mut bytes)
            .map_err(LabError::file("cannot read", path))?;
        return Ok(bytes);
    }
    let mut expanding = Command::new("xz");
    expanding.arg("-dc").stdin(file).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = expanding.spawn().map_err(|_| LabError::Unavailable("xz is missing".to_owned()))?;
    let output = child.stdout.take().expect("standard output is a pipe");
    let read = output.take(REPORT_BYTES_MAX + 1).read_to_end(&mut bytes);
    // The pipe is closed, so that it ends although there is more.
    let status = child.wait().map_err(LabError::file("cannot read", path))?;
    read.map_err(LabError::file("cannot read", path))?;
    if !status.success() && bytes.len() as u64 <= REPORT_BYTES_MAX {
        return Err(LabError::Unavailable("xz cannot expand it".to_owned()));
    }
    Ok(bytes)
}

/// Decides the claims of a stored outcome by the rules of this program, by its own cells, or by those of the whole report where
/// it compares with another table's. A note on a verdict that stays is kept.
fn decide_again(outcome: &mut Outcome, all: &[Cell]) {
    let Outcome { experiment, cells, claims, .. } = outcome;
    for result in claims {
        let places = result.claim.shape.places();
        let has = |cells: &[Cell]| places.iter().all(|place| find(cells, place).is_some());
        let cells = if has(cells) { &cells[..] } else { all };
        if has(cells) {
            let now = experiment.decide(&result.claim, cells);
            if now.verdict != result.verdict {
                *result = now;
            }
        }
    }
}

/// Returns the newest results of a study: of outcomes with the same title, the newest.
fn results(listed: Listed, stored: &[Stored]) -> Results<'_> {
    let study = studies::find(listed.id).expect("listed studies exist");
    let mut found: Vec<Found<'_>> = Vec::new();
    for stored in stored {
        for (index, whole) in stored.report.outcomes.iter().enumerate() {
            let title = &whole.experiment.title;
            if found
                .iter()
                .all(|one| one.stored.data == stored.data || one.outcome.experiment.title != *title)
                && let Some(outcome) = part(whole, study)
            {
                found.push(Found { stored, index, outcome });
            }
        }
    }
    Results { study, listed, found }
}

/// Returns the part of an outcome that belongs to a study; `None` if nothing does.
fn part(outcome: &Outcome, study: &Study) -> Option<Outcome> {
    let covered = studies::covered(&outcome.experiment.covers);
    if !covered.iter().any(|id| id == study.id) || !study.is_in(&outcome.experiment.title) {
        return None;
    }
    let belongs = |place: &Coordinates| study.has(place);
    let mut outcome = outcome.clone();
    outcome.cells.retain(|cell| belongs(&cell.at));
    outcome.claims.retain(|result| {
        let mut places = result.claim.shape.places().into_iter();
        places.all(belongs) && concerns(&result.claim.source, study.id, &covered)
    });
    let cells = &outcome.cells;
    for axis in &mut outcome.experiment.axes {
        let used = |value: &String| cells.iter().any(|cell| cell.at.get(&axis.name) == Some(value));
        let kept: Vec<bool> = axis.values.iter().map(used).collect();
        let mut keep = kept.iter();
        axis.values.retain(|_| *keep.next().unwrap_or(&true));
        let mut keep = kept.iter();
        axis.words.retain(|_| *keep.next().unwrap_or(&true));
    }
    let is_empty =
        outcome.cells.is_empty() || outcome.experiment.view == View::Claims && outcome.claims.is_empty();
    (!is_empty).then_some(outcome)
}

/// Returns whether a claim of an outcome is about this study: its source names the study, or no study of the outcome.
fn concerns(source: &str, id: &str, covered: &[String]) -> bool {
    let pieces: Vec<String> = studies::covered(source);
    let names = |id: &str| {
        let place = inventory::row(id).map_or("", |row| row.place);
        pieces.iter().any(|piece| piece == id) || source.split(", ").any(|piece| piece == place)
    };
    names(id) || !covered.iter().any(|other| names(other))
}

/// A claim, and the place of the data from which it can be computed again.
#[derive(Serialize)]
struct Traced<'a> {
    study: &'static str,
    data: &'a str,
    /// The index of the outcome in the report.
    outcome: usize,
    #[serde(flatten)]
    result: &'a ClaimResult,
}

fn claims(records: &[Vec<Results<'_>>]) -> Result<String, LabError> {
    let all =
        records.iter().flatten().flat_map(|one| one.found.iter().map(move |found| (one.study.id, found)));
    let traced = all.flat_map(|(study, Found { stored, index, outcome })| {
        outcome.claims.iter().map(move |result| Traced { study, data: &stored.data, outcome: *index, result })
    });
    let traced: Vec<Traced<'_>> = traced.collect();
    let text = serde_json::to_string_pretty(&traced).map_err(|error| LabError::Render(error.to_string()))?;
    Ok(text + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Claim, Experiment, Measure, Verdict, at};

    fn outcome(covers: &str) -> Outcome {
        let cells = ["send", "receive"]
            .map(|way| Cell::new([("way", way), ("stack", "tcp")]).with("r", 1.0))
            .to_vec();
        let claim =
            |way: &str, source: &str| Claim::bound((way, source), "r", at([("way", way)]), (Some(0.5), None));
        let experiment = Experiment {
            claims: vec![claim("send", "N26"), claim("receive", "N27"), claim("receive", "target")],
            ..Experiment::new("x", covers, "X", &["way", "stack"], vec![Measure::times("r", "")])
        };
        Outcome::new(experiment.shown(View::Cells, Vec::new()), cells)
    }

    #[test]
    fn a_study_has_its_own_part_of_a_shared_outcome() {
        let whole = outcome("N26, N27");
        let of = |id: &str| part(&whole, studies::find(id).unwrap());
        let ways = |part: &Outcome| part.experiment.values("way").join(" ");
        let claims = |part: &Outcome| part.claims.len();
        let [sending, receiving] = ["N26", "N27"].map(|id| of(id).unwrap());
        assert_eq!((&*ways(&sending), claims(&sending)), ("send", 1));
        assert_eq!((&*ways(&receiving), claims(&receiving)), ("receive", 2));
        assert!(of("N28").is_none());
        assert!(whole.claims.iter().all(|claim| claim.verdict == Verdict::NotDecidable));
    }

    #[test]
    fn claims_go_to_the_figure_that_they_name() {
        let covered = ["B16", "B18"].map(str::to_owned);
        assert!(concerns("Table V", "B16", &covered) && !concerns("Table V", "B18", &covered));
        assert!(concerns("Fig 3, Fig 5", "B18", &covered));
        assert!(concerns("the text", "B16", &covered) && concerns("the text", "B18", &covered));
    }

    #[test]
    fn a_folder_with_other_files_is_left_alone() {
        let place = tempfile::tempdir().unwrap();
        let (from, to) = (place.path().join("from"), place.path().join("to"));
        fs::create_dir(&from).unwrap();
        let empty = build(&from, &[], &to, &Times::default()).unwrap_err().to_string();
        assert!(empty.contains("lab run all"), "{empty}");
        let report = Report::new("sealane lab x", "X", "", vec![outcome("N26")]);
        fs::write(from.join("x.json"), report.to_json().unwrap()).unwrap();
        fs::write(from.join("y.json"), "{}").unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(to.join("index.html"), "mine").unwrap();
        let refused = build(&from, &[], &to, &Times::default()).unwrap_err().to_string();
        assert!(refused.contains("neither empty nor a site"), "{refused}");
        assert_eq!(fs::read(to.join("index.html")).unwrap(), b"mine");
        fs::remove_file(to.join("index.html")).unwrap();
        for _ in 0..2 {
            let built = build(&from, &[], &to, &Times::default()).unwrap();
            assert_eq!((built.measured, built.skipped.len()), (1, 1), "{built:?}");
            assert!(!built.missing.contains(&"N26") && built.missing.contains(&"N27"));
        }
    }
}
