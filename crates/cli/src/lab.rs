//! `sealane lab`: experiments of the lab, told on standard error while they run and on standard output when they end.

use crate::args::{LabCommand, LabShared, QuickArgs, TransferArgs};
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::text;
use sealane_lab::LabError;
use sealane_lab::quick::{self, QuickOptions};
use sealane_lab::report::{self, Files, Report, to_text};
use sealane_lab::surroundings::Surroundings;
use sealane_lab::transfer::{self, TransferOptions};
use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod link;
mod network_processor;
mod stacks;
mod studies;
mod tunnel;

/// Runs one experiment. A check that found what must not be is a status of its own, because the report was made.
pub(crate) fn run(command: LabCommand) -> Result<ExitStatus, Failure> {
    let mut progress = io::stderr();
    let (json, files, outcome) = match command {
        LabCommand::Quick(QuickArgs { tree, limit, shared }) => {
            let LabShared { size, no_peers, report, no_report, json, work_directory, seed, program } = shared;
            let files = files(report, no_report, quick::REPORT_NAME)?;
            let default = QuickOptions::default();
            let options = QuickOptions {
                surroundings: Arc::new(surroundings()),
                program,
                file_bytes: size.unwrap_or(default.file_bytes),
                tree,
                peers: !no_peers,
                limit,
                seed,
                work_directory,
                ..default
            };
            (json, files, quick::run(&options, &mut progress))
        }
        LabCommand::List(arguments) => return studies::list(&arguments),
        LabCommand::Run(arguments) => return studies::run(&arguments),
        LabCommand::NetworkProcessor(arguments) => return network_processor::run(&arguments),
        LabCommand::Link(arguments) => return link::run(&arguments),
        LabCommand::Stacks(arguments) => return stacks::run(&arguments),
        LabCommand::Capture(arguments) => return stacks::capture(&arguments),
        LabCommand::Predict(arguments) => return stacks::predict(&arguments),
        LabCommand::Tunnel(arguments) => return tunnel::run(&arguments),
        LabCommand::Transfer(TransferArgs { profile, ends, only, behind_link, shared }) => {
            let LabShared { size, no_peers, report, no_report, json, work_directory, seed, program } = shared;
            let name = transfer::REPORT_NAME;
            // Behind a link the lab that made the link writes the report.
            let files = files(report, no_report || behind_link, name)?;
            let options = TransferOptions {
                surroundings: Arc::new(surroundings()),
                program,
                profile,
                ends,
                only,
                peers: !no_peers,
                file_bytes_max: size,
                seed,
                work_directory,
            };
            let outcome = if behind_link {
                transfer::run_behind_link(&options, &mut progress)
            } else {
                transfer::run(&options, &mut progress)
            };
            (json, files, outcome)
        }
    };
    let report = outcome.map_err(failed)?;
    // Whatever becomes of the one, the other is done: nobody measures again for the want of an output.
    let printed = print(&report, json);
    let written = files.as_ref().map_or(Ok(()), |files| report.write(files)).map_err(failed);
    printed?;
    written?;
    if let Some(Files { html, json }) = files {
        text::complain(format_args!("the report: {} and {}", html.display(), json.display()));
    }
    Ok(if report.is_sound() { ExitStatus::Success } else { ExitStatus::Partial })
}

/// The report's files, known to be writable, unless there are to be none.
fn files(directory: PathBuf, none: bool, name: &str) -> Result<Option<Files>, Failure> {
    (!none).then(|| Files::prepare(&directory, name)).transpose().map_err(failed)
}

/// Makes sure that a page can be written where one is wanted.
pub(crate) fn prepare_page(path: Option<&Path>) -> Result<(), Failure> {
    path.map_or(Ok(()), report::prepare_page).map_err(failed)
}

/// What the lab may know of the environment.
fn surroundings() -> Surroundings {
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

fn print(report: &Report, json: bool) -> Result<(), Failure> {
    let mut stdout = io::stdout();
    let text = if json { report.to_json().map_err(failed)? } else { to_text(report, columns()) };
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::output)
}

/// The width of the terminal that standard output is, if it is one.
pub(super) fn columns() -> Option<u16> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0)
}

fn failed(error: LabError) -> Failure {
    let status = match &error {
        LabError::Differs { .. } => ExitStatus::Integrity,
        _ => ExitStatus::Io,
    };
    Failure::new(status, error)
}
