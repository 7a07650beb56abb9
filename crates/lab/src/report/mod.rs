//! Reports: terminal tables, JSON with every raw sample, and one HTML file that opens anywhere, offline.
//!
//! Guarantees: the JSON holds everything that the other two show and reads back equal; the HTML loads nothing, runs
//! only its own scripts, and is readable without scripts; text from files or programs never becomes markup.

pub(crate) mod charts;
pub(crate) mod html;
pub mod number;
pub(crate) mod page;
pub mod table;
pub(crate) mod tables;
mod terminal;

use crate::LabError;
use crate::experiment::{Outcome, Profile, View};
use crate::machine::Machine;
use sealane_terminal::text::utc_now;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};

pub use html::to_html;
pub use terminal::{outcome_text, outcomes_text, to_text};

/// Version of the JSON's layout.
pub const FORMAT: u32 = 2;

/// All findings of one run of the lab, for any study.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Layout of this structure, [`FORMAT`].
    pub format: u32,
    /// The command that made it.
    pub program: String,
    /// Headline.
    pub title: String,
    /// One or two sentences under it.
    pub summary: String,
    /// The time at which it was made, in UTC.
    pub created: String,
    /// Wall time of the whole run.
    pub seconds: f64,
    /// The thoroughness, if the study has several profiles.
    pub profile: Option<Profile>,
    /// The machine that ran it.
    pub machine: Machine,
    /// The machines that took its samples, by the names of their hosts, if many hosts share the study.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub hosts: BTreeMap<String, Machine>,
    /// The few most important figures.
    pub tiles: Vec<Tile>,
    /// Results that were checked rather than measured.
    pub checks: Vec<Check>,
    /// The experiments.
    pub outcomes: Vec<Outcome>,
    /// The method of measurement.
    pub method: Vec<String>,
    /// The limits of the findings.
    pub limits: Vec<String>,
    /// The omitted parts, with reasons.
    pub skipped: Vec<String>,
    /// The sources of published figures.
    pub sources: Vec<String>,
    /// The conclusions for a reader, made from the figures; may be empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conclusions: Vec<String>,
}

/// A headline figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tile {
    /// The figure's name.
    pub label: String,
    /// The figure.
    pub value: String,
    /// The unit; may be empty.
    pub unit: String,
    /// The figure to compare it with.
    pub detail: String,
}

/// A check with its result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// The subject of the check.
    pub what: String,
    /// The finding.
    pub found: String,
    /// Whether the finding is as required.
    pub is_good: bool,
}

/// The files of a report, before or after they are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The page.
    pub html: PathBuf,
    /// Everything as JSON.
    pub json: PathBuf,
}

impl Files {
    /// Checks that `NAME.html` and `NAME.json` in `directory` can be written, before anything is measured, so that no
    /// measurement is lost for lack of a place. A missing folder is created; an existing file is left unchanged.
    ///
    /// # Errors
    /// Fails if a file cannot be opened for writing.
    pub fn prepare(directory: &Path, name: &str) -> Result<Self, LabError> {
        let files = Self {
            html: directory.join(format!("{name}.html")),
            json: directory.join(format!("{name}.json")),
        };
        prepare_page(&files.html)?;
        prepare_page(&files.json)?;
        Ok(files)
    }
}

/// Does the same as [`Files::prepare`] for a report's page alone.
///
/// # Errors
/// Fails if the file cannot be opened for writing.
pub fn prepare_page(path: &Path) -> Result<(), LabError> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(LabError::file("cannot make the report's folder", folder))?;
    }
    let is_new = fs::symlink_metadata(path).is_err();
    let mut opened = OpenOptions::new();
    opened.write(true).create(true).truncate(false);
    opened.open(path).map_err(LabError::file("cannot write the report", path))?;
    if is_new {
        // An empty file would look like a report if the measurement were interrupted.
        fs::remove_file(path).map_err(LabError::file("cannot remove an empty file", path))?;
    }
    Ok(())
}

impl Report {
    /// Returns a report by `program` on this machine at the present time.
    pub fn new(program: &str, title: &str, summary: &str, outcomes: Vec<Outcome>) -> Self {
        Self {
            format: FORMAT,
            program: program.to_owned(),
            title: title.to_owned(),
            summary: summary.to_owned(),
            created: utc_now(),
            machine: Machine::describe(),
            outcomes,
            ..Self::default()
        }
    }

    /// Writes the page alone.
    pub fn write_page(&self, path: &Path) -> Result<(), LabError> {
        fs::write(path, to_html(self)?).map_err(LabError::file("cannot write", path))
    }

    /// Writes both files, replacing older ones.
    pub fn write(&self, files: &Files) -> Result<(), LabError> {
        self.write_page(&files.html)?;
        fs::write(&files.json, self.to_json()?).map_err(LabError::file("cannot write", &files.json))
    }

    /// Returns the report as JSON for people and programs.
    pub fn to_json(&self) -> Result<String, LabError> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|error| LabError::Render(error.to_string()))
    }

    /// Reads a report back, to render it again.
    pub fn from_json(text: &str) -> Result<Self, LabError> {
        let none = |why: String| LabError::Unavailable(format!("this is no report of a study: {why}"));
        let report: Self = serde_json::from_str(text).map_err(|error| none(error.to_string()))?;
        if report.format != FORMAT {
            return Err(none(format!("layout {} is not {FORMAT}", report.format)));
        }
        Ok(report)
    }

    /// Returns the report with nothing but the claims that have these words, in capitals or not.
    #[must_use]
    pub fn claims_with(&self, words: &str) -> Self {
        let words = words.to_lowercase();
        let with = |outcome: &Outcome| {
            let mut outcome = outcome.clone();
            outcome.claims.retain(|result| result.claim.statement.to_lowercase().contains(&words));
            outcome.experiment.view = View::Claims;
            (!outcome.claims.is_empty()).then_some(outcome)
        };
        Self { outcomes: self.outcomes.iter().filter_map(with).collect(), ..self.clone() }
    }

    /// Returns whether every check was successful.
    pub fn is_sound(&self) -> bool {
        self.checks.iter().all(|check| check.is_good)
    }
}
