//! Reports of the lab on standard output and in files, and the parts of the environment that the lab may read.
//!
//! Guarantees: a report's files and page are written although standard output is closed.

use crate::exit::ExitStatus;
use crate::failure::{Failure, print};
use crate::text;
use sealane_lab::LabError;
use sealane_lab::report::{self, Files, Report, outcomes_text, to_text};
use sealane_lab::surroundings::Surroundings;
use std::env;
use std::io;
use std::path::{Path, PathBuf};

/// The destinations of a report.
pub(crate) struct Output {
    pub(crate) is_json: bool,
    /// Tables alone, without the headline.
    pub(crate) is_brief: bool,
    /// Words of the claims that alone are printed.
    pub(crate) claim: Option<String>,
    pub(crate) page: Option<PathBuf>,
    pub(crate) files: Option<Files>,
}

/// Writes a report, and prints it.
pub(crate) fn show(report: &Report, output: &Output) -> Result<ExitStatus, Failure> {
    let text = match (output.is_json, output.is_brief, &output.claim) {
        (true, ..) => report.to_json().map_err(failed)?,
        (false, _, Some(words)) => claims_text(report, words),
        (false, true, None) => outcomes_text(report, columns()),
        (false, false, None) => to_text(report, columns()),
    };
    publish(report, &text, output.files.as_ref(), output.page.as_deref())?;
    Ok(if report.is_sound() { ExitStatus::Success } else { ExitStatus::Partial })
}

/// Returns the claims that have these words; a complaint says where there is none.
fn claims_text(report: &Report, words: &str) -> String {
    let claims = report.claims_with(words);
    if claims.outcomes.is_empty() {
        let printable = text::printable(words.as_bytes());
        text::complain(format_args!("{}: no claim has the words {printable}", report.program));
        return String::new();
    }
    outcomes_text(&claims, columns())
}

/// Checks that the page can be written, if one is requested.
pub(crate) fn prepare_page(path: Option<&Path>) -> Result<(), Failure> {
    path.map_or(Ok(()), report::prepare_page).map_err(failed)
}

/// Writes a report's files and its page as far as they are requested, and then prints `text`: a reader that leaves
/// standard output does not lose the report. All three are attempted even if one fails: nobody measures again because
/// an output was missing.
pub(crate) fn publish(
    report: &Report,
    text: &str,
    files: Option<&Files>,
    page: Option<&Path>,
) -> Result<(), Failure> {
    let files_written = files.map_or(Ok(()), |files| report.write(files));
    let page_written = page.map_or(Ok(()), |page| report.write_page(page));
    let printed = print(text);
    if let (Some(Files { html, json }), Ok(())) = (files, &files_written) {
        text::complain(format_args!("the report: {} and {}", html.display(), json.display()));
    }
    if let (Some(page), Ok(())) = (page, &page_written) {
        text::complain(format_args!("the report: {}", page.display()));
    }
    files_written.and(page_written).map_err(failed)?;
    printed
}

/// Returns the parts of the environment that the lab may read.
pub(crate) fn surroundings() -> Surroundings {
    let usual = Surroundings::default();
    let home = env::home_dir();
    // Sources of Rust packages, before the system's headers and documentation.
    let cargo = env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(home?.join(".cargo")));
    let sources = cargo.map(|cargo| cargo.join("registry/src"));
    Surroundings {
        search_path: env::var_os("PATH").map_or(usual.search_path, |path| env::split_paths(&path).collect()),
        temporary: env::temp_dir(),
        trees: sources.into_iter().chain(usual.trees).collect(),
        wdt: env::var_os("SEALANE_WDT").map(PathBuf::from),
    }
}

/// Returns the width of the terminal on standard output, if it is a terminal.
pub(crate) fn columns() -> Option<u16> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0)
}

pub(crate) fn failed(error: LabError) -> Failure {
    let status = match &error {
        LabError::Differs { .. } => ExitStatus::Integrity,
        LabError::Stack(_) => ExitStatus::Usage,
        _ => ExitStatus::Io,
    };
    Failure::new(status, error)
}
