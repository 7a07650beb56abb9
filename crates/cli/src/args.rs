//! The arguments exactly as given: the values from the shell, in types that need no further parsing.
//!
//! This module makes no decisions. [`crate::options`] checks once if arguments make sense together; help, manual
//! pages and completions are generated from these definitions and from nothing else.

#[cfg(feature = "copy")]
mod cp;
mod digest;
#[cfg(feature = "engine")]
mod engine;
pub(crate) mod examples;
#[cfg(feature = "copy")]
mod filters;
#[cfg(feature = "fleet")]
mod fleet;
mod laboratory;
mod late;
mod peers;
#[cfg(feature = "copy")]
mod serve;
#[cfg(feature = "copy")]
pub(crate) mod tips;
#[cfg(feature = "tunnel")]
mod tunnel;

#[cfg(feature = "copy")]
pub use cp::{CpArgs, EndArg, FarEndArg, SinkArg};
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
pub use laboratory::LaboratoryArgs;
pub use late::Late;
pub use peers::{AuthoriseArgs, PeersArgs};
#[cfg(feature = "copy")]
pub use serve::ServeArgs;
#[cfg(feature = "tunnel")]
pub use tunnel::{
    TunnelAllowedArgs, TunnelArgs, TunnelCheckArgs, TunnelCommand, TunnelDeviceArgs, TunnelNewArgs,
    TunnelPkiArgs, TunnelProfileArgs, TunnelReloadArgs, TunnelStatusArgs, TunnelUpArgs,
};

#[cfg(feature = "nats")]
use clap::ValueEnum;
#[cfg(feature = "copy")]
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, CommandFactory, Parser, Subcommand};
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
    about = "Copies files over encrypted streams on every core, and measures what that costs",
    long_about = "Sealane copies files and trees between hosts, like scp and rsync, over parallel encrypted streams on \
                  every core. It also joins networks by IPsec, computes digests, and measures what protection costs.",
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
    #[command(visible_alias = "copy", long_about = cp::LONG_ABOUT, override_usage = cp::USAGE)]
    Cp(Late<Box<CpArgs>>),
    #[cfg(feature = "fleet")]
    /// Look after copies between many hosts
    #[command(long_about = fleet::LONG_ABOUT)]
    Fleet(Late<FleetArgs>),
    #[cfg(feature = "copy")]
    /// Serve a folder to authorised peers, without ssh
    #[command(long_about = serve::LONG_ABOUT, override_usage = serve::USAGE)]
    Serve(Late<ServeArgs>),
    #[cfg(feature = "tunnel")]
    /// Join networks by IPsec in user space
    #[command(long_about = tunnel::LONG_ABOUT)]
    Tunnel(Late<TunnelArgs>),
    #[cfg(feature = "engine")]
    /// Keep private keys in a process of their own, and compute with them for programs
    #[command(long_about = engine::LONG_ABOUT)]
    Engine(Late<EngineArgs>),
    /// Print your public key for daemons; it is made if there is none
    Id(IdArgs),
    /// Let a peer use your daemons
    #[command(visible_alias = "authorize", long_about = peers::AUTHORISE_LONG_ABOUT)]
    Authorise(AuthoriseArgs),
    /// List authorised peers and known daemons, or remove them
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

/// Arguments of `sealane id`.
#[derive(Debug, Args)]
pub struct IdArgs {
    /// File of the identity; by default the one in your configuration folder
    #[arg(long, value_name = "FILE")]
    pub identity: Option<PathBuf>,
    /// The identity of this system's tunnels, /etc/sealane/identity
    #[arg(long, conflicts_with = "identity")]
    pub system: bool,
    /// The identity of the daemon that runs as a service, /var/lib/sealane/identity
    #[arg(long, conflicts_with_all = ["identity", "system", "certificate"])]
    pub daemon: bool,
    /// Make a hybrid identity if there is none yet: peers then demand signatures of Ed25519 and of ML-DSA-65 (FIPS 204), so that a
    /// quantum computer that breaks one of them gains nothing. Its public key begins with `sealane2:`; older versions refuse it.
    /// An identity that exists stays as it is
    #[arg(long, conflicts_with_all = ["daemon", "certificate"])]
    pub hybrid: bool,
    /// Print a certificate of the key instead, in PEM: for a NATS server, and for its list of clients
    #[arg(long)]
    pub certificate: bool,
    /// Print the rights of the key at a NATS server instead, an entry of `authorization.users` in its configuration: as a
    /// `worker` of runs, or as a `coordinator` that starts them
    #[cfg(feature = "nats")]
    #[arg(long, value_name = "ROLE", conflicts_with_all = ["certificate", "daemon", "hybrid"])]
    pub queue_rights: Option<QueueRole>,
}

/// The part of a key in runs whose queue is a NATS server.
#[cfg(feature = "nats")]
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum QueueRole {
    /// It takes part in runs: it copies, and gives no orders.
    Worker,
    /// It starts runs.
    Coordinator,
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
