//! Arguments of `sealane fleet`.

use clap::{Args, Subcommand};
use sealane_terminal::queue::WorkArgs;

pub(super) const LONG_ABOUT: &str = "\
Look after copies between many hosts, which `sealane cp` starts when a source or the target names several:

  sealane cp -r 'src[1-4]:/data' 'dst[1-8]:/in'

Each such run has a name, which the copy prints. These commands take it on the host where the copy was started, and from every \
other host as HOST:RUN, over ssh. The beginning of a name is enough.";

#[cfg(feature = "nats")]
const WORK_LONG_ABOUT: &str = "\
Take part in a run whose queue is a NATS server, as one of its sources, until there is no more work. A scheduler such as Slurm or \
Kubernetes starts workers like this; `sealane cp --queue` starts the run, and prints its name and its key. A worker does nothing \
that the owner of that key has not signed, whatever the queue or another worker says.

Without --queue this works for the `sealane cp` that has started it, on standard input and output.";

#[cfg(not(feature = "nats"))]
const WORK_ABOUT: &str = "Take part in a copy between many hosts, which starts this command itself";

/// Arguments of `sealane fleet`.
#[derive(Debug, Args)]
pub struct FleetArgs {
    /// The command, with its own arguments.
    #[command(subcommand)]
    pub command: FleetCommand,
}

/// The commands for runs.
#[derive(Debug, Subcommand)]
pub enum FleetCommand {
    /// Show how far a run is, or list all runs
    Status(FleetStatusArgs),
    /// List the entries of a run that failed
    Failed(FleetRunArgs),
    /// Go on with a run that was stopped or is incomplete
    Retry(FleetRetryArgs),
    /// Stop a run; what has arrived stays
    Stop(FleetRetryArgs),
    /// Take part in a run whose queue is a NATS server
    #[cfg_attr(feature = "nats", command(long_about = WORK_LONG_ABOUT))]
    #[cfg_attr(not(feature = "nats"), command(about = WORK_ABOUT, hide = true))]
    Work(WorkArgs),
}

/// A run, or all.
#[derive(Debug, Args)]
pub struct FleetStatusArgs {
    /// The run, as RUN or HOST:RUN; all runs of this host by default
    #[arg(value_name = "RUN")]
    pub run: Option<String>,
    /// Print JSON, one object a line for each run
    #[arg(long)]
    pub json: bool,
}

/// The run whose failed entries are listed.
#[derive(Debug, Args)]
pub struct FleetRunArgs {
    /// The run, as RUN or HOST:RUN
    #[arg(value_name = "RUN")]
    pub run: String,
    /// Print JSON, one object a line for each entry
    #[arg(long)]
    pub json: bool,
}

/// The run whose failed entries are tried again.
#[derive(Debug, Args)]
pub struct FleetRetryArgs {
    /// The run, as RUN or HOST:RUN
    #[arg(value_name = "RUN")]
    pub run: String,
}
