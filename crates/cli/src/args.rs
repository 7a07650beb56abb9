//! The arguments exactly as given: the values from the shell, in types that need no further parsing.
//!
//! This module makes no decisions. [`crate::options`] checks once if arguments make sense together; help, manual
//! pages and completions are generated from these definitions and from nothing else.

#[cfg(feature = "serve")]
mod authorise;
#[cfg(feature = "copy")]
mod cp;
#[cfg(feature = "serve")]
mod daemon;
mod digest;
#[cfg(feature = "engine")]
mod engine;
pub(crate) mod examples;
#[cfg(feature = "copy")]
mod filters;
#[cfg(feature = "fleet")]
mod fleet;
#[cfg(any(feature = "copy", feature = "tunnel"))]
mod id;
mod laboratory;
mod late;
#[cfg(feature = "copy")]
mod peers;
#[cfg(feature = "copy")]
mod serve;
#[cfg(feature = "copy")]
pub(crate) mod tips;
#[cfg(feature = "tunnel")]
mod tunnel;

#[cfg(feature = "serve")]
pub use authorise::{AuthoriseArgs, AuthorisedArgs};
#[cfg(feature = "copy")]
pub use cp::{CpArgs, EndArg, FarEndArg, SinkArg};
#[cfg(feature = "serve")]
pub use daemon::DaemonArgs;
pub use digest::{DigestArgs, Md5Args};
#[cfg(feature = "engine")]
pub use engine::{
    EngineArgs, EngineCheckArgs, EngineCommand, EngineKeysArgs, EngineKeysCommand, EngineServeArgs,
    EngineSocketArgs, EngineStatsArgs, EngineStatusArgs,
};
#[cfg(feature = "copy")]
pub use filters::Filters;
#[cfg(feature = "fleet")]
pub use fleet::{FleetArgs, FleetCommand, FleetRetryArgs, FleetRunArgs, FleetStatusArgs};
#[cfg(any(feature = "copy", feature = "tunnel"))]
pub use id::IdArgs;
#[cfg(feature = "nats")]
pub use id::QueueRole;
pub use laboratory::LaboratoryArgs;
pub use late::Late;
#[cfg(feature = "copy")]
pub use peers::PeersArgs;
#[cfg(feature = "copy")]
pub use serve::ServeArgs;
#[cfg(feature = "tunnel")]
pub use tunnel::{
    TunnelAllowedArgs, TunnelArgs, TunnelCheckArgs, TunnelCommand, TunnelDeviceArgs, TunnelNewArgs,
    TunnelPkiArgs, TunnelProfileArgs, TunnelReloadArgs, TunnelStatusArgs, TunnelUpArgs,
};

#[cfg(feature = "copy")]
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
#[cfg(feature = "copy")]
use sealane_copy::Level;
#[cfg(feature = "copy")]
use sealane_engine::Suite;
#[cfg(feature = "copy")]
use sealane_lanes::Placement;
#[cfg(feature = "copy")]
use sealane_terminal::help::one_of;
use sealane_terminal::help::{exit_status_text, explained};
use std::path::PathBuf;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "sealane",
    version,
    about = "Secures network data on every core, and measures what that costs",
    long_about = long_about(),
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub struct Cli {
    /// The command, with its own arguments.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    #[cfg(feature = "copy")]
    /// Copy files and trees between hosts, or on this one
    #[command(visible_alias = "copy", long_about = cp::long_about(), override_usage = cp::USAGE)]
    Cp(Late<Box<CpArgs>>),
    #[cfg(feature = "fleet")]
    /// Look after copies between many hosts
    #[command(long_about = fleet::LONG_ABOUT)]
    Fleet(Late<FleetArgs>),
    #[cfg(feature = "copy")]
    /// Serve a folder to authorised peers, without ssh
    #[cfg_attr(feature = "serve", command(long_about = daemon::LONG_ABOUT, override_usage = daemon::USAGE))]
    #[cfg_attr(
        not(feature = "serve"),
        command(about = "Be the far end of a copy over ssh, which starts this command itself", hide = true)
    )]
    Serve(Late<ServeArgs>),
    #[cfg(feature = "tunnel")]
    /// Join networks by IPsec in user space
    #[command(long_about = tunnel::LONG_ABOUT)]
    Tunnel(Late<TunnelArgs>),
    #[cfg(feature = "engine")]
    /// Keep private keys in a process of their own, and compute with them for programs
    #[command(long_about = engine::LONG_ABOUT)]
    Engine(Late<EngineArgs>),
    #[cfg(any(feature = "copy", feature = "tunnel"))]
    /// Print your public key, by which other hosts know you; it is made if there is none
    Id(IdArgs),
    #[cfg(feature = "serve")]
    /// Let a peer use your daemons
    #[command(visible_alias = "authorize", long_about = authorise::LONG_ABOUT)]
    Authorise(AuthoriseArgs),
    #[cfg(feature = "copy")]
    /// List authorised peers and known daemons, or remove them
    #[cfg_attr(not(feature = "serve"), command(about = "List known daemons, or forget one"))]
    Peers(PeersArgs),
    /// Measure what protection costs on this machine
    #[command(long_about = laboratory::LAB_ABOUT, disable_help_flag = true)]
    Lab(LaboratoryArgs),
    /// Show what algorithms to use on this machine, or measure any of them beside other libraries
    #[command(long_about = laboratory::SPEED_ABOUT, disable_help_flag = true)]
    Speed(LaboratoryArgs),
    /// Compute or check MD5 digests of files
    #[command(long_about = digest::MD5_LONG_ABOUT)]
    Md5(Late<Box<Md5Args>>),
    /// Compute or check SHA-1 digests of files
    #[command(long_about = digest::LONG_ABOUT)]
    Sha1(Late<DigestArgs>),
    /// Compute or check SHA-224 digests of files
    #[command(long_about = digest::LONG_ABOUT)]
    Sha224(Late<DigestArgs>),
    /// Compute or check SHA-256 digests of files
    #[command(long_about = digest::LONG_ABOUT)]
    Sha256(Late<DigestArgs>),
    /// Compute or check SHA-384 digests of files
    #[command(long_about = digest::LONG_ABOUT)]
    Sha384(Late<DigestArgs>),
    /// Compute or check SHA-512 digests of files
    #[command(long_about = digest::LONG_ABOUT)]
    Sha512(Late<DigestArgs>),
    /// Compute or check SHA3-224 digests of files
    #[command(name = "sha3-224", long_about = digest::LONG_ABOUT)]
    Sha3224(Late<DigestArgs>),
    /// Compute or check SHA3-256 digests of files
    #[command(name = "sha3-256", long_about = digest::LONG_ABOUT)]
    Sha3256(Late<DigestArgs>),
    /// Compute or check SHA3-384 digests of files
    #[command(name = "sha3-384", long_about = digest::LONG_ABOUT)]
    Sha3384(Late<DigestArgs>),
    /// Compute or check SHA3-512 digests of files
    #[command(name = "sha3-512", long_about = digest::LONG_ABOUT)]
    Sha3512(Late<DigestArgs>),
    /// Compute or check KT128 (KangarooTwelve) digests of files
    #[command(long_about = digest::LONG_ABOUT)]
    Kt128(Late<DigestArgs>),
    /// Compute or check KT256 digests of files
    #[command(long_about = digest::LONG_ABOUT)]
    Kt256(Late<DigestArgs>),
    /// Compute or check BLAKE3 digests of files
    #[command(long_about = digest::LONG_ABOUT)]
    Blake3(Late<DigestArgs>),
    /// Print the completions for a shell
    Completions {
        /// The shell that the script is for
        shell: Shell,
    },
    /// Write the manual pages into a folder
    Man {
        /// The folder; it is made if missing
        directory: PathBuf,
    },
}

/// Returns the purposes of the program as it is built.
fn long_about() -> String {
    [
        "Sealane secures network data on every core.",
        #[cfg(feature = "copy")]
        " It copies files and trees between hosts, like scp and rsync, over parallel encrypted streams.",
        #[cfg(feature = "tunnel")]
        " It joins networks by IPsec in user space.",
        #[cfg(feature = "engine")]
        " It keeps private keys in a process of their own.",
        " It computes digests, and measures what protection costs.",
    ]
    .concat()
}

/// The variables that select kernels, as a section of the help text.
const ENVIRONMENT: &str = "Environment:
  SEALANE_AEAD  library for AES-GCM, GMAC and ChaCha20-Poly1305: `sealane` or `aws-lc`; by default the cheaper
  SEALANE_ISA   instruction set of Sealane's kernels: `portable`, `avx2` or `avx512`; the best by default";

/// Returns the definition from which help, manual pages and completions are generated.
pub fn command() -> clap::Command {
    explained("sealane", late::whole(Cli::command), examples::EXAMPLES, &|name| {
        let statuses = tells_exit_statuses(name).then(exit_status_text);
        let variables = (name == "sealane-cp").then(|| ENVIRONMENT.to_owned());
        statuses.into_iter().chain(variables).collect()
    })
}

/// Returns whether help and manual page of the command list the exit statuses.
pub(crate) fn tells_exit_statuses(name: &str) -> bool {
    matches!(name, "sealane" | "sealane-cp")
}

#[cfg(feature = "copy")]
fn level() -> impl TypedValueParser<Value = Level> {
    let explained = |level: &Level| {
        PossibleValue::new(level.name()).help(match level {
            Level::Clear => "no protection",
            Level::Authenticated => {
                "each stream proves at its start that it belongs to the peer; data is not protected"
            }
            Level::Safe => {
                "every record is authenticated: changes are detected, but others can read the data"
            }
            Level::Private => "every record is encrypted and authenticated",
        })
    };
    PossibleValuesParser::new(Level::ALL.iter().map(explained)).map(|word| {
        let found = Level::ALL.iter().find(|level| level.name() == word);
        *found.expect("clap accepts only the names listed")
    })
}

#[cfg(feature = "copy")]
fn suite() -> impl TypedValueParser<Value = Suite> {
    one_of(&Suite::ALL, |suite| suite.name())
}

#[cfg(feature = "copy")]
fn placement() -> impl TypedValueParser<Value = Placement> {
    one_of(&Placement::OF_STREAMS, |placement| placement.name())
}
