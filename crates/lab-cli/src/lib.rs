//! The `sealane-lab` program as a library, so that its tests can reach it. `sealane lab`, `sealane speed` and `sealane md5 -t`
//! start it.
//!
//! Guarantees: a start by a `sealane` of another build is refused, so that a study never measures one program and describes
//! another; standard output carries results, standard error messages for people.

#![forbid(unsafe_code)]

pub mod args;
mod documents;
mod lab;
mod speed;
mod study;
mod trial;

pub use args::command;

use args::{Cli, Command, typed_command};
use clap::FromArgMatches as _;
use sealane_terminal::exit::ExitStatus;
use sealane_terminal::failure::{Failure, conclude};
use sealane_terminal::{exit, failure, laboratory, signals, text, units};
use std::ffi::OsString;

/// Runs the program with `arguments`, the first of which is its own name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitStatus {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let json = arguments.iter().any(|argument| argument == "--json");
    let parsed =
        typed_command().try_get_matches_from(arguments).and_then(|found| Cli::from_arg_matches(&found));
    match parsed {
        Ok(cli) => conclude(run(cli)),
        Err(error) => failure::misused(&error, json),
    }
}

fn run(cli: Cli) -> Result<ExitStatus, Failure> {
    let build = laboratory::build();
    if let Some(asked) = cli.for_build.filter(|asked| *asked != build) {
        let error = anyhow::anyhow!(
            "`sealane-lab` is {build} and `sealane` is {asked}: install both from one build, or call `sealane-lab` itself"
        );
        return Err(Failure::new(ExitStatus::Usage, error));
    }
    match cli.command {
        Command::Lab(command) => lab::run(*command),
        Command::Speed(arguments) => speed::run(&arguments),
        Command::Md5(arguments) => trial::run(&arguments),
        Command::Completions { shell } => documents::completions(shell).map(|()| ExitStatus::Success),
        Command::Man { directory } => documents::man(&directory).map(|()| ExitStatus::Success),
    }
}
