//! `sealane lab`, `sealane speed` with arguments, and `sealane md5 -t`: they are the laboratory's, a program of its own, which
//! takes the place of this one.
//!
//! Guarantees: the laboratory learns the build of this program, and refuses another one's; a user who does not have it learns how
//! to get it.

use crate::exit::ExitStatus;
use crate::failure::Failure;
use sealane_terminal::laboratory::{BUILD_OPTION, LABORATORY, build, find};
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Becomes `sealane-lab` with these arguments. It returns only if that fails.
pub(crate) fn start(arguments: &[OsString]) -> Result<ExitStatus, Failure> {
    let Some(program) = find(LABORATORY) else {
        let error = anyhow::anyhow!(
            "this is done by the program `sealane-lab`, which is not installed: the Debian package sealane-lab has it, and in \
             the sources `cargo install --path crates/lab-cli` makes it"
        );
        return Err(Failure::new(ExitStatus::Usage, error));
    };
    let error = Command::new(&program).arg(BUILD_OPTION).arg(build()).args(arguments).exec();
    let error = anyhow::Error::new(error).context(format!("starting {}", program.display()));
    Err(Failure::new(ExitStatus::Io, error))
}

/// Becomes one command of the laboratory.
pub(crate) fn start_command(command: &str, arguments: Vec<OsString>) -> Result<ExitStatus, Failure> {
    let words: Vec<OsString> = [command.into()].into_iter().chain(arguments).collect();
    start(&words)
}
