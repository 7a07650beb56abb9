//! The site of all studies: static pages from stored reports, with every figure as the paper has it and ours beside it.
//!
//! Guarantees: nothing is measured; every study has a page, with its command if there is no result; a claim that fails
//! is on the index; every verdict's samples are in a file of the site; a page loads nothing from elsewhere; a folder
//! that is not a site is left unchanged.

mod pages;
mod told;
mod words;

use crate::LabError;
use crate::experiment::{ClaimResult, Coordinates, Outcome, View};
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

/// Builds the site in `to` from the reports in `from`; `times` says how long a study without a result takes here.
///
/// # Errors
/// Fails if there is no report in `from`, if `to` holds something else than a site, or if a file cannot be read or
/// written. A file in `from` that is no report is skipped.
pub fn build(from: &Path, to: &Path, times: &Times) -> Result<Built, LabError> {
    let (stored, skipped) = stored(from)?;
    if stored.is_empty() {
        let from = from.display();
        return Err(LabError::Unavailable(format!(
            "no results in {from}: `sealane lab run all --report {from}` measures and stores them"
        )));
    }
    prepare(to)?;
    let here = Machine::describe();
    let results: Vec<Results<'_>> = times.listed().into_iter().map(|one| results(one, &stored)).collect();
    let put = |name: &str, content: &[u8]| {
        let path = to.join(name);
        fs::write(&path, content).map_err(LabError::file("cannot write", &path))
    };
    // The mark comes first, so that an interrupted site can be built again.
    put(CLAIMS, claims(&results)?.as_bytes())?;
    for one in &stored {
        put(&one.data, &one.bytes)?;
    }
    put("recompute.py", RECOMPUTE.as_bytes())?;
    put("index.html", pages::index(&results, &stored)?.as_bytes())?;
    put("glossary.html", pages::glossary(&here)?.as_bytes())?;
    for one in &results {
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

/// Returns the reports in a folder, the newest first, and the files that are none.
fn stored(from: &Path) -> Result<(Vec<Stored>, Vec<String>), LabError> {
    let failed = || LabError::file("cannot read the results in", from);
    let mut paths = Vec::new();
    for entry in fs::read_dir(from).map_err(failed())? {
        let path = entry.map_err(failed())?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    let (mut stored, mut skipped) = (Vec::new(), Vec::new());
    let mut names = BTreeSet::new();
    for path in paths {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if stored.len() == REPORTS_MAX {
            skipped.push(format!("{}: only {REPORTS_MAX} reports are read", path.display()));
            continue;
        }
        match read(&path) {
            Ok((report, bytes)) => {
                let mut safe: String = name
                    .chars()
                    .map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' })
                    .collect();
                while !names.insert(safe.clone()) {
                    safe.push('_');
                }
                stored.push(Stored { report, data: format!("data/{safe}.json"), bytes });
            }
            Err(error) => skipped.push(format!("{}: {error}", path.display())),
        }
    }
    stored.sort_by(|one, other| other.report.created.cmp(&one.report.created));
    Ok((stored, skipped))
}

fn read(path: &Path) -> Result<(Report, Vec<u8>), LabError> {
    let file = File::open(path).map_err(LabError::file("cannot open", path))?;
    let mut bytes = Vec::new();
    file.take(REPORT_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(LabError::file("cannot read", path))?;
    if bytes.len() as u64 > REPORT_BYTES_MAX {
        return Err(LabError::Unavailable(format!("longer than {REPORT_BYTES_MAX} bytes")));
    }
    let text = std::str::from_utf8(&bytes).map_err(|error| LabError::Render(error.to_string()))?;
    Ok((Report::from_json(text)?, bytes))
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

fn claims(results: &[Results<'_>]) -> Result<String, LabError> {
    let all = results.iter().flat_map(|one| one.found.iter().map(move |found| (one.study.id, found)));
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
    use crate::experiment::{Cell, Claim, Experiment, Measure, Verdict, at};

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
        let empty = build(&from, &to, &Times::default()).unwrap_err().to_string();
        assert!(empty.contains("lab run all"), "{empty}");
        let report = Report::new("sealane lab x", "X", "", vec![outcome("N26")]);
        fs::write(from.join("x.json"), report.to_json().unwrap()).unwrap();
        fs::write(from.join("y.json"), "{}").unwrap();
        fs::create_dir(&to).unwrap();
        fs::write(to.join("index.html"), "mine").unwrap();
        let refused = build(&from, &to, &Times::default()).unwrap_err().to_string();
        assert!(refused.contains("neither empty nor a site"), "{refused}");
        assert_eq!(fs::read(to.join("index.html")).unwrap(), b"mine");
        fs::remove_file(to.join("index.html")).unwrap();
        for _ in 0..2 {
            let built = build(&from, &to, &Times::default()).unwrap();
            assert_eq!((built.measured, built.skipped.len()), (1, 1), "{built:?}");
            assert!(!built.missing.contains(&"N26") && built.missing.contains(&"N27"));
        }
    }
}
