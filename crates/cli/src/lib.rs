//! The `sealane` program as a library, so that its tests and the generators of its documentation can reach it.
//!
//! Arguments are parsed into the values that were *given* ([`args`]), checked once into the values that were *meant*
//! ([`options`]), and passed to the crates that do the work. There is no transfer logic here.
//!
//! Standard output carries results (data, digests, lists, JSON lines, documentation); standard error carries messages
//! for people. A reader that closes standard output early is not an error.

#![forbid(unsafe_code)]

pub mod args;
#[cfg(feature = "serve")]
mod authorised;
#[cfg(feature = "copy")]
pub mod copy_units;
#[cfg(feature = "copy")]
mod cp;
#[cfg(feature = "serve")]
mod daemon;
mod digest;
mod documents;
#[cfg(feature = "engine")]
mod engine;
mod environment;
#[cfg(feature = "copy")]
mod event_log;
#[cfg(feature = "copy")]
pub mod events;
#[cfg(feature = "copy")]
mod far_end;
#[cfg(feature = "fleet")]
mod fleet;
#[cfg(any(feature = "copy", feature = "tunnel"))]
mod id;
#[cfg(feature = "copy")]
mod itemised;
mod laboratory;
#[cfg(feature = "copy")]
mod listed;
#[cfg(feature = "serve")]
mod log;
#[cfg(feature = "copy")]
pub mod mode_changes;
#[cfg(feature = "copy")]
mod once;
#[cfg(feature = "copy")]
pub mod options;
#[cfg(feature = "copy")]
mod peers;
#[cfg(feature = "copy")]
mod progress;
#[cfg(feature = "copy")]
mod report;
#[cfg(feature = "copy")]
mod serve;
mod speed;
#[cfg(any(feature = "tunnel", feature = "engine"))]
mod systemd;
#[cfg(feature = "tunnel")]
mod tunnel;

pub use args::command;
#[doc(hidden)]
pub use digest::reread_any;

pub use sealane_terminal::{exit, units};

use args::{Cli, Command};
use clap::{CommandFactory as _, FromArgMatches as _, error::ErrorKind};
use digest::Kind;
use exit::ExitStatus;
use failure::conclude;
#[cfg(any(feature = "copy", feature = "tunnel", feature = "engine"))]
use sealane_terminal::signals;
use sealane_terminal::{failure, text};
use std::ffi::OsString;

/// Runs the program with `arguments`, the first of which is its own name.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitStatus {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let json = arguments.iter().any(|argument| argument == "--json");
    let parsed = matches(&arguments).and_then(|found| Cli::from_arg_matches(&found));
    let cli = match parsed {
        Ok(cli) => cli,
        #[cfg(feature = "copy")]
        Err(mut error) if !json && arguments.get(1).is_some_and(|word| word == "cp" || word == "copy") => {
            args::tips::add(&mut error);
            return failure::misused(&error, json);
        }
        Err(error) => return failure::misused(&error, json),
    };
    if holds_keys(&cli.command) {
        // This keeps the keys out of core dumps and away from other processes of this user. If the kernel refuses,
        // the program runs without this protection.
        let _ = rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable);
    }
    let outcome = match cli.command {
        // A transfer reports its own failures: as JSON, below its progress bar, or with advice how to resume.
        #[cfg(feature = "fleet")]
        Command::Cp(args::Late(arguments)) if fleet::is_many(&arguments) => {
            return fleet::copy(*arguments, environment::arguments().split_off(1));
        }
        #[cfg(feature = "copy")]
        Command::Cp(args::Late(arguments)) => return cp::run(*arguments),
        #[cfg(feature = "fleet")]
        Command::Fleet(args::Late(arguments)) => return conclude(fleet::run(arguments)),
        #[cfg(feature = "copy")]
        Command::Serve(args::Late(arguments)) => serve::run(arguments),
        #[cfg(feature = "tunnel")]
        Command::Tunnel(arguments) => tunnel::run(&arguments),
        #[cfg(feature = "engine")]
        Command::Engine(args::Late(arguments)) => engine::run(arguments),
        #[cfg(any(feature = "copy", feature = "tunnel"))]
        Command::Id(arguments) => id::run(&arguments),
        #[cfg(feature = "serve")]
        Command::Authorise(arguments) => authorised::add(arguments),
        #[cfg(feature = "copy")]
        Command::Peers(arguments) => peers::run(&arguments),
        Command::Lab(arguments) => return conclude(laboratory::start(&arguments.words)),
        Command::Speed(arguments) => return conclude(speed::run(arguments.words)),
        Command::Md5(arguments) => return conclude(digest::md5(&arguments)),
        Command::Sha1(arguments) => return conclude(digest::run(Kind::SHA1, &arguments)),
        Command::Sha224(arguments) => return conclude(digest::run(Kind::SHA224, &arguments)),
        Command::Sha256(arguments) => return conclude(digest::run(Kind::SHA256, &arguments)),
        Command::Sha384(arguments) => return conclude(digest::run(Kind::SHA384, &arguments)),
        Command::Sha512(arguments) => return conclude(digest::run(Kind::SHA512, &arguments)),
        Command::Sha3224(arguments) => return conclude(digest::run(Kind::SHA3_224, &arguments)),
        Command::Sha3256(arguments) => return conclude(digest::run(Kind::SHA3_256, &arguments)),
        Command::Sha3384(arguments) => return conclude(digest::run(Kind::SHA3_384, &arguments)),
        Command::Sha3512(arguments) => return conclude(digest::run(Kind::SHA3_512, &arguments)),
        Command::Kt128(arguments) => return conclude(digest::run(Kind::KT128, &arguments)),
        Command::Kt256(arguments) => return conclude(digest::run(Kind::KT256, &arguments)),
        Command::Blake3(arguments) => return conclude(digest::run(Kind::Blake3, &arguments)),
        Command::Completions { shell } => documents::completions(shell),
        Command::Man { directory } => documents::man(&directory),
    };
    conclude(outcome.map(|()| ExitStatus::Success))
}

/// Returns what `arguments` say. Only a text of help has examples and exit statuses.
fn matches(arguments: &[OsString]) -> Result<clap::ArgMatches, clap::Error> {
    Cli::command().try_get_matches_from(arguments).or_else(|error| match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            command().try_get_matches_from(arguments)
        }
        _ => Err(error),
    })
}

/// Returns whether the process will hold keys, of a user or of packets.
fn holds_keys(command: &Command) -> bool {
    match command {
        #[cfg(feature = "copy")]
        Command::Cp(_) | Command::Serve(_) => true,
        #[cfg(feature = "fleet")]
        Command::Fleet(_) => true,
        #[cfg(feature = "tunnel")]
        Command::Tunnel(_) => true,
        #[cfg(feature = "engine")]
        Command::Engine(_) => true,
        #[cfg(any(feature = "copy", feature = "tunnel"))]
        Command::Id(_) => true,
        #[cfg(feature = "serve")]
        Command::Authorise(_) => true,
        _ => false,
    }
}
