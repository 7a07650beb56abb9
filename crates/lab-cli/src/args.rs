//! The arguments exactly as given: the values from the shell, in types that need no further parsing. Help, manual pages and
//! completions are generated from these definitions and from nothing else.

pub(crate) mod examples;
mod lab;
mod speed;
mod trial;

pub use lab::{
    ALL_STUDIES, CaptureArgs, CardsArgs, FamilyCommand, GatewayArgs, LabCommand, LabFleetArgs,
    LabFleetCommand, LabFleetRunArgs, LabShared, LabShown, LabTunnelArgs, LinkArgs, ListArgs, MacroArgs,
    NetworkProcessorArgs, NullTunnelArgs, ParallelismArg, PredictArgs, QuickArgs, RunArgs, SiteArgs,
    StacksArgs, TransferArgs,
};
pub use speed::{AlgorithmArg, DirectionArg, SpeedArgs, TierArg};
pub use trial::TrialArgs;

use clap::builder::TypedValueParser;
use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use sealane_lab::experiment::Profile;
use sealane_lab::link::Stage;
use sealane_lab::program::End;
use sealane_lab::request::CongestionControl;
use sealane_lab::tunnel::Topology;
use sealane_terminal::help::{explained, one_of};
use sealane_terminal::laboratory::LABORATORY;
use std::path::PathBuf;

/// The whole command line.
#[derive(Debug, Parser)]
#[command(
    name = "sealane-lab",
    version,
    about = "Measures what protection costs on this machine",
    long_about = lab::LONG_ABOUT,
    propagate_version = true,
    subcommand_required = true,
    arg_required_else_help = true,
    max_term_width = 100
)]
pub struct Cli {
    /// The build of the `sealane` that has started this program
    #[arg(long, hide = true)]
    pub for_build: Option<String>,
    /// The command, with its own arguments.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Studies, and what they are made of.
    #[command(flatten)]
    Lab(Box<LabCommand>),
    /// Measure ciphers, digests and MACs, beside other libraries
    #[command(long_about = speed::LONG_ABOUT)]
    Speed(Box<SpeedArgs>),
    /// Run the time trial of ATOMIC-2's driver, for `sealane md5 -t`
    #[command(hide = true)]
    Md5(TrialArgs),
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

/// Returns the definition from which help, manual pages and completions are generated.
pub fn command() -> clap::Command {
    let families = FamilyCommand::augment_subcommands(clap::Command::new("run"));
    // Their old spelling, without `run`, works and is not shown.
    let command = families.get_subcommands().fold(Cli::command(), |command, family| {
        command.mut_subcommand(family.get_name(), |spelled| spelled.hide(true))
    });
    explained(LABORATORY, command, examples::EXAMPLES, &|_| Vec::new())
}

/// Returns the definition by which arguments are parsed: messages name the command as users type it.
pub fn typed_command() -> clap::Command {
    command().bin_name("sealane lab")
}

fn profile() -> impl TypedValueParser<Value = Profile> {
    one_of(&Profile::ALL, |profile| profile.name())
}

fn stage() -> impl TypedValueParser<Value = Stage> {
    one_of(&[Stage::Outside, Stage::Inside, Stage::Link], |stage| stage.name())
}

fn topology() -> impl TypedValueParser<Value = Topology> {
    one_of(&Topology::ALL, |topology| topology.name())
}

fn congestion_control() -> impl TypedValueParser<Value = CongestionControl> {
    one_of(&CongestionControl::ALL, |control| control.name())
}

fn end() -> impl TypedValueParser<Value = End> {
    one_of(&End::ALL, |end| end.name())
}
