//! Arguments of `sealane lab`.

use crate::units;
use clap::{Args, Subcommand};
use sealane_lab::experiment::Profile;
use sealane_lab::link::Stage;
use sealane_lab::program::End;
use sealane_lab::stacks::IDS;
use sealane_lab::tunnel::{TESTS, Topology};
use sealane_lab::{studies, transfer};
use sealane_stack::Spec;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const LONG_ABOUT: &str = "\
Measure what security costs on this machine.

The lab runs this very program, so what it measures is what ships. Each run draws new random data and a new order, and \
says what machine, which implementation and how much doubt its figures have. Every raw sample is kept in the report's \
JSON, beside one HTML file that opens anywhere.";

/// Arguments of `sealane lab`.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct LabArgs {
    /// What to find out.
    #[command(subcommand)]
    pub command: LabCommand,
}

/// What the lab can find out.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// In under two minutes: what each level costs here, beside other programs, and whether everything works
    Quick(QuickArgs),
    /// Threads and streams at four levels of protection: the multicore GridFTP study on this machine
    Transfer(TransferArgs),
    /// Ciphers on processors without caches: the NPCryptBench study on simulated machines, yours among them
    NetworkProcessor(NetworkProcessorArgs),
    /// Every study of the papers by its id: what it is, and how long it takes
    List(ListArgs),
    /// Run studies by their ids, as in `run N26 B21`
    Run(RunArgs),
    /// Run a command behind an emulated link: delay, loss and rate on the way to 127.0.0.1
    Link(LinkArgs),
    /// TCP, MD5 and ciphers in stacks on several lanes: the NDSS '96 study on this machine
    Stacks(StacksArgs),
    /// Write what a stack puts on the wire to a capture that Wireshark reads
    Capture(CaptureArgs),
    /// What up to so many lanes would gain on one connection: measured on one, extrapolated by a model of the lock
    Predict(PredictArgs),
    /// What IPsec costs, from host to host and between gateways: the 2002 study of security protocols on this machine
    Tunnel(LabTunnelArgs),
}

/// Arguments of `sealane lab tunnel`.
#[derive(Debug, Args)]
pub struct LabTunnelArgs {
    /// Where hosts and gateways stand; both otherwise
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = super::topology())]
    pub topology: Vec<Topology>,
    /// What is run; all otherwise
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = clap::builder::PossibleValuesParser::new(TESTS))]
    pub only: Vec<String>,
    /// Runs of each test through each tunnel
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), default_value = "3")]
    pub rounds: u32,
    /// Seconds of a run
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=600), default_value = "2")]
    pub seconds: u32,
    /// Print one JSON object a line for each run instead of tables
    #[arg(long)]
    pub json: bool,
    /// Write a page with the tables
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Another build of this program, to measure that one
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
}

/// Arguments of `sealane lab list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `sealane lab run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Ids, as `sealane lab list` shows them
    #[arg(value_name = "ID", required = true, value_parser = clap::builder::PossibleValuesParser::new(studies::ids()), ignore_case = true)]
    pub ids: Vec<String>,
    /// How thorough, for studies that repeat measurements
    #[arg(long, value_parser = super::profile(), default_value = "quick")]
    pub profile: Profile,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Folder for the pages; none are written otherwise
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
}

/// Arguments of `sealane lab link`.
#[derive(Debug, Args)]
#[command(long_about = LINK_ABOUT)]
pub struct LinkArgs {
    /// Time there and back, as in 100us, 10ms or 1s
    #[arg(long, value_name = "TIME", value_parser = units::short_duration, default_value = "0")]
    pub rtt: Duration,
    /// Bytes a second, both directions together; as fast as this host moves packets otherwise
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub rate: Option<u64>,
    /// Percent of packets that are lost
    #[arg(long, value_name = "PERCENT", value_parser = units::percent, default_value = "0")]
    pub loss: f64,
    /// Percent of packets that come late
    #[arg(long, value_name = "PERCENT", value_parser = units::percent, default_value = "0")]
    pub reorder: f64,
    /// Percent of packets that come twice
    #[arg(long, value_name = "PERCENT", value_parser = units::percent, default_value = "0")]
    pub duplicate: f64,
    /// Where chance starts, to repeat a run; a new one otherwise
    #[arg(long, value_name = "N", value_parser = units::seed)]
    pub seed: Option<u64>,
    /// Which of the processes that start one another this is
    #[arg(long, value_parser = super::stage(), default_value = "outside", hide = true)]
    pub stage: Stage,
    /// The command and its arguments
    #[arg(value_name = "COMMAND", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

const LINK_ABOUT: &str = "\
Run a command behind an emulated link: delay, loss and rate on the way to 127.0.0.1.

The command runs in a network namespace of its own, where whatever talks to 127.0.0.1 goes through the link, in packets \
of 1500 bytes. Servers that it is to talk to must be started by it. No other network is reachable from there. It needs \
iproute2, and rights to make namespaces: root's, or a system that lets users make them. The command's exit status is \
passed on.";

/// Arguments of `sealane lab stacks`.
#[derive(Debug, Args)]
pub struct StacksArgs {
    /// How thorough: 5 slices of 30 ms, 10 of 400 ms, or 10 of 30 s after 30 s of warming up
    #[arg(long, value_parser = super::profile(), default_value = "quick")]
    pub profile: Profile,
    /// Parts of the study: N26 to N34, N36, A12; all otherwise
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = clap::builder::PossibleValuesParser::new(IDS), ignore_case = true)]
    pub only: Vec<String>,
    /// Seed of messages and keys, to repeat a run; a new one otherwise
    #[arg(long, value_name = "N", value_parser = units::seed)]
    pub seed: Option<u64>,
    /// Print one JSON object a line for each figure instead of tables
    #[arg(long)]
    pub json: bool,
    /// Write a page with plots
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// Arguments of `sealane lab capture`.
#[derive(Debug, Args)]
pub struct CaptureArgs {
    /// Layers from the application's side on, down to ip, ipv6, ether or fddi
    #[arg(long, value_name = "LAYERS")]
    pub stack: Spec,
    /// The capture; replaced where it is there
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// Arguments of `sealane lab predict`.
#[derive(Debug, Args)]
pub struct PredictArgs {
    /// Layers from the application's side on, as in des/tcp/md5/ip/fddi
    #[arg(long, value_name = "LAYERS")]
    pub stack: Spec,
    /// Most lanes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), default_value = "64")]
    pub lanes: u16,
    /// Print one JSON object a line instead of a table
    #[arg(long)]
    pub json: bool,
    /// Write a page with a plot
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// Arguments of `sealane lab network-processor`.
#[derive(Debug, Args)]
pub struct NetworkProcessorArgs {
    /// A machine instead of the whole study: IXP1200, IXP2400, IXP2800, or a TOML file
    #[arg(long, value_name = "NAME|FILE")]
    pub machine: Option<String>,
    /// Algorithms that run there, as in md5 or aes; all ten otherwise
    #[arg(long, short, value_name = "NAME", value_delimiter = ',', requires = "machine")]
    pub algorithm: Vec<String>,
    /// Level of optimisation
    #[arg(long, value_name = "0-3", value_parser = clap::value_parser!(u8).range(0..=3), default_value = "0", requires = "machine")]
    pub level: u8,
    /// Engines that run; the machine's own number at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), default_value = "1", requires = "machine")]
    pub engines: u64,
    /// Threads of each engine; the machine's own number at most
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), default_value = "1", requires = "machine")]
    pub threads: u64,
    /// What threads share out: flows with keys of their own, or blocks of one flow
    #[arg(long, value_enum, value_name = "KIND", default_value = "flow", requires = "machine")]
    pub parallelism: ParallelismArg,
    /// Compare this host's C compilers on the ten kernels instead: throughput and code size by option
    #[arg(long, conflicts_with = "machine")]
    pub compilers: bool,
    /// Print the machine as TOML, to change it
    #[arg(long, requires = "machine", conflicts_with_all = ["json", "report"])]
    pub print_machine: bool,
    /// Print JSON instead of tables; without --compilers it is the same on every host
    #[arg(long)]
    pub json: bool,
    /// Write a page with plots
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// What the threads of a simulated machine share out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ParallelismArg {
    /// Every thread has a flow with a key of its own
    Flow,
    /// All threads work at blocks of one flow
    Block,
}

/// Arguments of `sealane lab quick`.
#[derive(Debug, Args)]
pub struct QuickArgs {
    /// Folder to take a sample of many files from, instead of one of the usual places
    #[arg(long, value_name = "DIR")]
    pub tree: Option<PathBuf>,
    /// After so long no further run is started
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "100s")]
    pub limit: Duration,
    /// What all experiments take.
    #[command(flatten)]
    pub shared: LabShared,
}

/// What all experiments take: on what the lab works, and what it leaves behind.
#[derive(Debug, Args)]
pub struct LabShared {
    /// Largest file that is copied, as in 1G or 512MiB; less where there is no room
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub size: Option<u64>,
    /// Do not compare with other programs that are installed
    #[arg(long)]
    pub no_peers: bool,
    /// Folder for the report's HTML and JSON
    #[arg(long, value_name = "DIR", default_value = ".", conflicts_with = "no_report")]
    pub report: PathBuf,
    /// Leave no report behind
    #[arg(long)]
    pub no_report: bool,
    /// Print the report as JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Folder for the data that is copied, instead of shared memory
    #[arg(long = "work-dir", value_name = "DIR")]
    pub work_directory: Option<PathBuf>,
    /// Seed of orders and contents, to repeat a run; a new one otherwise
    #[arg(long, value_name = "N", value_parser = units::seed)]
    pub seed: Option<u64>,
    /// Another build of this program, to measure that one
    #[arg(long, value_name = "FILE", hide = true)]
    pub program: Option<PathBuf>,
}

/// Arguments of `sealane lab transfer`.
#[derive(Debug, Args)]
pub struct TransferArgs {
    /// How thorough: 5, 10 or 30 runs of every cell
    #[arg(long, value_parser = super::profile(), default_value = "quick")]
    pub profile: Profile,
    /// Ends that do their full work, each measured on its own
    #[arg(long = "ends", value_name = "END", value_parser = super::end(), value_delimiter = ',', default_value = "send,receive,both")]
    pub ends: Vec<End>,
    /// Parts of the study: G10 to G13, G16, G18, links, B25, R15 (see `sealane lab list`); all otherwise
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = clap::builder::PossibleValuesParser::new(transfer::IDS), ignore_case = true)]
    pub only: Vec<String>,
    /// Only what is done behind an emulated link
    #[arg(long, hide = true)]
    pub behind_link: bool,
    /// What all experiments take.
    #[command(flatten)]
    pub shared: LabShared,
}
