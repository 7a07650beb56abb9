//! `sealane lab link`: a command behind an emulated link.

use super::failed;
use crate::args::LinkArgs;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::text::complain;
use sealane_lab::link::{LinkOptions, Stage, be_the_link, behind, inside};
use sealane_lab::rng::Rng;
use std::io::IsTerminal as _;

/// Becomes the command, if nothing fails.
pub(super) fn run(arguments: &LinkArgs) -> Result<ExitStatus, Failure> {
    let options = LinkOptions {
        round_trip: arguments.rtt,
        bytes_per_second: arguments.rate,
        loss: arguments.loss,
        reorder: arguments.reorder,
        duplicate: arguments.duplicate,
        seed: arguments.seed.unwrap_or_else(Rng::fresh_seed),
    };
    let program = || std::env::current_exe().map_err(|error| Failure::new(ExitStatus::Io, error));
    // The command takes the place of this process, so nothing can be said when it fails.
    if arguments.stage == Stage::Outside && std::io::stderr().is_terminal() {
        complain(format_args!(
            "the command reaches 127.0.0.1 over the link, and no other address or network"
        ));
    }
    match arguments.stage {
        Stage::Outside => match behind(&program()?, &options, &arguments.command).map_err(failed)? {},
        Stage::Inside => match inside(&program()?, &options, &arguments.command).map_err(failed)? {},
        Stage::Link => be_the_link(&options).map(|()| ExitStatus::Success).map_err(failed),
    }
}
