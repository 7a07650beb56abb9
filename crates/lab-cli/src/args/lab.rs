//! Arguments of `sealane lab`.

use crate::units;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use sealane_card::KINDS;
use sealane_engine::{EngineChoice, UnknownEngine};
#[cfg(feature = "nats")]
use sealane_fleet::nats::Server;
use sealane_lab::experiment::Profile;
use sealane_lab::link::Stage;
use sealane_lab::macro_benchmarks;
use sealane_lab::program::End;
use sealane_lab::request::CongestionControl;
use sealane_lab::studies::{self, Family};
use sealane_lab::tunnel::{PEERS, Topology};
use sealane_stack::Spec;
use sealane_terminal::help::engines;
use sealane_terminal::queue::{QueueTrustArgs, WorkArgs};
use std::ffi::OsString;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

pub(super) const LONG_ABOUT: &str = "\
Measure what security costs on this machine.

The lab runs this program itself, so it measures what you use. Each run draws new random data and a new order, and \
reports the machine, the implementation and the uncertainty of its figures. All raw samples are in the report's JSON, \
beside one HTML file without external parts.";

/// The commands of the lab.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Measure in under two minutes what each level costs here, beside other programs
    Quick(QuickArgs),
    /// List the studies of the papers by id: what each is, and how long it takes
    List(ListArgs),
    /// Run studies by id, as in `run N26 B21`, or `run all`; or one family of them, with options of its own
    Run(RunArgs),
    /// Share studies between many hosts: their cells are jobs of one queue
    Fleet(LabFleetArgs),
    /// Build a site of all studies from stored results: each figure as the paper has it, and ours beside it
    Site(SiteArgs),
    /// Run a command behind an emulated link, with delay, loss and a rate on the way to 127.0.0.1
    Link(LinkArgs),
    /// Write the packets of a stack to a capture for Wireshark
    Capture(CaptureArgs),
    /// Predict the gain of more lanes on one connection, by measurements of one lane and a model of the lock
    Predict(PredictArgs),
    /// Move GSO packets between a device and another host without protection, for `lab tunnel`, which starts this command
    /// itself
    #[command(hide = true)]
    NullTunnel(NullTunnelArgs),
    /// Run a gateway whose engine only studies can choose, for `lab tunnel`, which starts this command itself
    #[command(hide = true)]
    Gateway(GatewayArgs),
    /// Restore the host after a gateway, which starts this command itself
    #[command(hide = true)]
    KeepHost,
    /// A family of studies, without the word `run`.
    #[command(flatten)]
    Family(FamilyCommand),
}

/// The families of studies that have options of their own.
#[derive(Debug, Subcommand)]
pub enum FamilyCommand {
    /// Measure threads and streams at four levels of protection (the multicore GridFTP study)
    Transfer(TransferArgs),
    /// Measure parallel protocol stacks of TCP, MD5 and ciphers (the NDSS '96 study)
    Stacks(StacksArgs),
    /// Measure what IPsec costs, between hosts, gateways and road warriors, and by parts of AH (the 2002 study of security
    /// protocols)
    Tunnel(LabTunnelArgs),
    /// Measure what IPsec costs users: files by ftp, scp and HTTP, tiny pages, a mirror, a build, and a job beside the traffic
    /// (the macro benchmarks of the 2002 study)
    Macro(MacroArgs),
    /// Measure a simulated accelerator card by packet size and threads, beside software (the 2002 study's card, and the OpenBSD
    /// framework's)
    Cards(CardsArgs),
    /// Simulate ciphers on network processors (the NPCryptBench study); machines can be your own
    NetworkProcessor(NetworkProcessorArgs),
}

/// Accepts the parts of a command's studies.
fn parts(command: &str) -> PossibleValuesParser {
    PossibleValuesParser::new(Family::of(command).parts)
}

/// The output of a study's figures.
#[derive(Debug, Args)]
pub struct LabShown {
    /// Print the report as JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Write an HTML page with tables and plots
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// Arguments of `sealane lab run tunnel`.
#[derive(Debug, Args)]
pub struct LabTunnelArgs {
    /// Topology, and where associations end; all by default
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = super::topology())]
    pub topology: Vec<Topology>,
    /// Tests to run; all by default
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = parts("lab tunnel"))]
    pub only: Vec<String>,
    /// Tunnels and protocols between the hosts; all that are installed by default
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PossibleValuesParser::new(PEERS))]
    pub between: Vec<String>,
    /// How thorough: 5 runs of 1 s, 10 of 10 s, or 10 of 30 s
    #[arg(long, value_parser = super::profile(), default_value = "quick")]
    pub profile: Profile,
    /// Runs of each test and tunnel; by default as the profile has it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Duration of a run, in seconds; by default as the profile has it
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=600))]
    pub seconds: Option<u32>,
    /// Congestion control of TCP; by default cubic for the tests `loaded`, and otherwise as found
    #[arg(long, value_name = "NAME", value_parser = super::congestion_control())]
    pub congestion_control: Option<CongestionControl>,
    /// The output of the figures.
    #[command(flatten)]
    pub shown: LabShown,
    /// Measure another build of this program
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
}

/// Arguments of `sealane lab null-tunnel`.
#[derive(Debug, Args)]
pub struct NullTunnelArgs {
    /// The name of the device
    pub device: String,
    /// The address of this end
    pub own: IpAddr,
    /// The address of the other end
    pub peer: IpAddr,
}

/// Arguments of `sealane lab gateway`.
#[derive(Debug, Args)]
pub struct GatewayArgs {
    /// The site file
    pub site: PathBuf,
    /// Broken and outdated suites are allowed
    #[arg(long)]
    pub allow_legacy: bool,
    /// Keys from files are allowed for suites with counters
    #[arg(long)]
    pub allow_manual_counter: bool,
    /// The number of lanes per direction
    #[arg(long)]
    pub lanes: Option<NonZeroUsize>,
    /// The folder of the control socket
    #[arg(long, env = "SEALANE_RUN")]
    pub run: PathBuf,
    /// The engine, which may be a simulated card
    #[arg(long, value_parser = engine_of_a_study)]
    pub engine: EngineChoice,
}

fn engine_of_a_study(text: &str) -> Result<EngineChoice, UnknownEngine> {
    EngineChoice::among(KINDS, text)
}

/// Arguments of `sealane lab run macro`.
#[derive(Debug, Args)]
pub struct MacroArgs {
    /// Topology of the large files: host-host or gateways; both by default
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = super::topology())]
    pub topology: Vec<Topology>,
    /// Parts of the study; all by default
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = parts("lab macro"))]
    pub only: Vec<String>,
    /// Connections between the hosts; all by default
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = PossibleValuesParser::new(macro_benchmarks::PEERS))]
    pub between: Vec<String>,
    /// How thorough: 5 runs with files of 20 MB, or 10 with the study's 200 MB
    #[arg(long, value_parser = super::profile(), default_value = "quick")]
    pub profile: Profile,
    /// Runs of each row; by default as the profile has it
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// Tree to build over the network, such as busybox's; by default C files are generated
    #[arg(long, value_name = "DIR")]
    pub tree: Option<PathBuf>,
    /// Command of the shell that builds the tree, in its folder
    #[arg(long, value_name = "COMMAND", default_value = macro_benchmarks::BUILD)]
    pub build: String,
    /// The output of the figures.
    #[command(flatten)]
    pub shown: LabShown,
    /// Measure another build of this program
    #[arg(long, value_name = "FILE")]
    pub program: Option<PathBuf>,
}

/// Arguments of `sealane lab run cards`.
#[derive(Debug, Args)]
pub struct CardsArgs {
    /// How thorough: 5 slices of 30 ms, or 10 of 300 ms
    #[arg(long, value_parser = super::profile(), default_value = "quick")]
    pub profile: Profile,
    /// Parts of the study; all by default
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = parts("lab cards"))]
    pub only: Vec<String>,
    /// The output of the figures.
    #[command(flatten)]
    pub shown: LabShown,
}

/// Arguments of `sealane lab list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Print JSON instead of a table, one object a line
    #[arg(long)]
    pub json: bool,
}

/// The word for all studies.
pub const ALL_STUDIES: &str = "all";

/// Arguments of `sealane lab run`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct RunArgs {
    /// The family, with its own arguments, instead of ids.
    #[command(subcommand)]
    pub family: Option<FamilyCommand>,
    /// Ids, as `sealane lab list` shows them, or `all`
    #[arg(value_name = "ID", required = true, value_parser = ids(), ignore_case = true, hide_possible_values = true)]
    pub ids: Vec<String>,
    /// How thorough: number and length of runs, for studies that repeat measurements
    #[arg(long, value_parser = super::profile(), default_value = "quick")]
    pub profile: Profile,
    /// Numbers of lanes for studies that vary them, as in 1,2,4,8; by default 1, 2, 4 and so on up to the CPUs
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub lanes: Vec<u16>,
    /// Arrangements of hosts, for studies between hosts; all by default
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = super::topology())]
    pub topology: Vec<Topology>,
    /// Print only the claims with these words, each with its verdict
    #[arg(long, value_name = "WORDS", conflicts_with = "json")]
    pub claim: Option<String>,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Folder for the reports; by default none are written, and those of `all` to sealane-results
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
}

/// Arguments of `sealane lab fleet`.
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct LabFleetArgs {
    /// The command, with its own arguments.
    #[command(subcommand)]
    pub command: LabFleetCommand,
}

/// The commands for studies on many hosts.
#[derive(Debug, Subcommand)]
pub enum LabFleetCommand {
    /// Run studies by id, on one host or many, with one report
    #[command(long_about = FLEET_RUN_ABOUT)]
    Run(LabFleetRunArgs),
    /// Take part in a run whose queue is a NATS server, until there are no samples to take
    Work(WorkArgs),
}

const FLEET_RUN_ABOUT: &str = "\
Run studies by id, with one report, and share their samples between hosts: each cell of each round is a job. Without --hosts \
and --queue all are taken here, one after the other.

All hosts must have the same build of this program. The report states the machines, and each sample the host that took it. \
With the same --seed, the same command continues a run that was interrupted. `sealane fleet status`, `stop` and `retry` know \
these runs too, and `sealane lab fleet work --queue` takes part in one.";

/// Arguments of `sealane lab fleet run`.
#[derive(Debug, Args)]
pub struct LabFleetRunArgs {
    /// Ids, as `sealane lab list` shows them
    #[arg(value_name = "ID", required = true, value_parser = PossibleValuesParser::new(studies::ids()), ignore_case = true)]
    pub ids: Vec<String>,
    /// Hosts that are reached over ssh, as in `n[1-4]` or `@FILE` with a host a line, which is read again when it changes
    #[arg(long, value_name = "HOSTS")]
    pub hosts: Option<OsString>,
    /// A NATS server that has the queue, as tls://HOST[:PORT]; hosts take part by `sealane lab fleet work`
    #[cfg(feature = "nats")]
    #[arg(long, value_name = "QUEUE")]
    pub queue: Option<Server>,
    /// How thorough: number and length of runs, for studies that repeat measurements
    #[arg(long, value_parser = super::profile(), default_value = "quick")]
    pub profile: Profile,
    /// Seed of order and contents, to repeat or continue a run; a new one by default
    #[arg(long, value_name = "N", value_parser = units::seed)]
    pub seed: Option<u64>,
    /// Largest file to copy, as in 1G or 512MiB
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub size: Option<u64>,
    /// Do not compare with other installed programs
    #[arg(long)]
    pub no_peers: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Folder for the reports; by default none are written
    #[arg(long, value_name = "DIR")]
    pub report: Option<PathBuf>,
    /// Configuration file for ssh
    #[arg(short = 'F', value_name = "FILE")]
    pub ssh_config: Option<PathBuf>,
    /// The hosts' sealane-lab, if it is not in their PATH
    #[arg(long, value_name = "PROGRAM")]
    pub remote_program: Option<String>,
    /// The identity towards the queue, and the trust in it.
    #[command(flatten)]
    pub trust: QueueTrustArgs,
}

/// Accepts the ids of studies, and the word for all.
fn ids() -> PossibleValuesParser {
    PossibleValuesParser::new([ALL_STUDIES].into_iter().chain(studies::ids()))
}

/// Arguments of `sealane lab site`.
#[derive(Debug, Args)]
pub struct SiteArgs {
    /// Folder of the site; it must be new, empty, or a site
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Folder of results, as `sealane lab run all` makes it
    #[arg(long, value_name = "DIR", default_value = sealane_lab::site::RESULTS)]
    pub from: PathBuf,
    /// Folder with the results of another machine, or of another release, to put beside these; may be given several times
    #[arg(long, value_name = "DIR")]
    pub add: Vec<PathBuf>,
}

/// Arguments of `sealane lab link`.
#[derive(Debug, Args)]
#[command(long_about = LINK_ABOUT)]
pub struct LinkArgs {
    /// Round-trip time, as in 100us, 10ms or 1s
    #[arg(long, value_name = "TIME", value_parser = units::short_duration, default_value = "0")]
    pub rtt: Duration,
    /// Rate in bytes a second, both directions together; by default unlimited
    #[arg(long, value_name = "RATE", value_parser = units::rate)]
    pub rate: Option<u64>,
    /// Percentage of packets that are lost
    #[arg(long, value_name = "PERCENT", value_parser = units::percent, default_value = "0")]
    pub loss: f64,
    /// Percentage of packets that are reordered
    #[arg(long, value_name = "PERCENT", value_parser = units::percent, default_value = "0")]
    pub reorder: f64,
    /// Percentage of packets that are duplicated
    #[arg(long, value_name = "PERCENT", value_parser = units::percent, default_value = "0")]
    pub duplicate: f64,
    /// Seed of the random numbers, to repeat a run; a new one by default
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
Run a command behind an emulated link, with delay, loss and a rate on the way to 127.0.0.1.

The command runs in its own network namespace, where all traffic to 127.0.0.1 passes the link, in packets of 1500 bytes. \
It must start the servers that it needs, because no other network is reachable from there. This needs iproute2, and the \
right to make namespaces: root, or a system that allows it to users. The exit status is that of the command.";

/// Arguments of `sealane lab run stacks`.
#[derive(Debug, Args)]
pub struct StacksArgs {
    /// How thorough: 5 slices of 30 ms, 10 of 400 ms, or 10 of 30 s after a warm-up of 30 s
    #[arg(long, value_parser = super::profile(), default_value = "quick")]
    pub profile: Profile,
    /// Parts of the study, by id (see `sealane lab list`); all by default
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = parts("lab stacks"), ignore_case = true)]
    pub only: Vec<String>,
    /// Numbers of lanes, as in 1,2,4,8; by default 1, 2, 4 and so on up to the CPUs
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub lanes: Vec<u16>,
    /// The engine of this end
    #[arg(long, value_name = "ENGINE", default_value_t, value_parser = engine_of_a_study, help = engines(KINDS))]
    pub engine: EngineChoice,
    /// Seed of messages and keys, to repeat a run; a new one by default
    #[arg(long, value_name = "N", value_parser = units::seed)]
    pub seed: Option<u64>,
    /// The output of the figures.
    #[command(flatten)]
    pub shown: LabShown,
}

/// Arguments of `sealane lab capture`.
#[derive(Debug, Args)]
pub struct CaptureArgs {
    /// Layers from the application down to ip, ipv6, ether or fddi, as in tcp/md5/ip/fddi
    #[arg(long, value_name = "LAYERS")]
    pub stack: Spec,
    /// The capture file; an old one is replaced
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

/// Arguments of `sealane lab predict`.
#[derive(Debug, Args)]
pub struct PredictArgs {
    /// Layers from the application down, as in des/tcp/md5/ip/fddi
    #[arg(long, value_name = "LAYERS")]
    pub stack: Spec,
    /// Largest number of lanes; by default, and at most, four times those of this machine
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub lanes: Option<u16>,
    /// The output of the figures.
    #[command(flatten)]
    pub shown: LabShown,
}

/// Arguments of `sealane lab run network-processor`.
#[derive(Debug, Args)]
pub struct NetworkProcessorArgs {
    /// Simulate one machine instead of the whole study: IXP1200, IXP2400, IXP2800, or a TOML file
    #[arg(long, value_name = "NAME|FILE")]
    pub machine: Option<String>,
    /// Algorithms, as in md5 or aes; all ten by default
    #[arg(long, short, value_name = "NAME", value_delimiter = ',', requires = "machine")]
    pub algorithm: Vec<String>,
    /// Level of optimisation of the kernels
    #[arg(long, value_name = "0-3", value_parser = clap::value_parser!(u8).range(0..=3), default_value = "0", requires = "machine")]
    pub level: u8,
    /// Engines that run; at most as many as the machine has
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), default_value = "1", requires = "machine")]
    pub engines: u64,
    /// Threads of each engine; at most as many as the machine has
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), default_value = "1", requires = "machine")]
    pub threads: u64,
    /// Work that threads divide: flows with a key each, or blocks of one flow
    #[arg(long, value_enum, value_name = "KIND", default_value = "flow", requires = "machine")]
    pub parallelism: ParallelismArg,
    /// Compare the C compilers of this host on the ten kernels instead, by rate and code size
    #[arg(long, conflicts_with = "machine")]
    pub compilers: bool,
    /// Print the machine as TOML, as a start for your own
    #[arg(long, requires = "machine", conflicts_with_all = ["json", "report"])]
    pub print_machine: bool,
    /// The output of the figures.
    #[command(flatten)]
    pub shown: LabShown,
}

/// The work that the threads of a simulated machine divide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ParallelismArg {
    /// Every thread has a flow with a key of its own
    Flow,
    /// All threads work on blocks of one flow
    Block,
}

/// Arguments of `sealane lab quick`.
#[derive(Debug, Args)]
pub struct QuickArgs {
    /// Folder to take a sample of files from; by default one of the usual places
    #[arg(long, value_name = "DIR")]
    pub tree: Option<PathBuf>,
    /// Start no more runs after this time
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "100s")]
    pub limit: Duration,
    /// The arguments that all experiments share.
    #[command(flatten)]
    pub shared: LabShared,
}

/// The arguments that all experiments share: the data and the outputs.
#[derive(Debug, Args)]
pub struct LabShared {
    /// Largest file to copy, as in 1G or 512MiB; less if there is no room
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    pub size: Option<u64>,
    /// Do not compare with other installed programs
    #[arg(long)]
    pub no_peers: bool,
    /// Folder for the report's HTML and JSON
    #[arg(long, value_name = "DIR", default_value = ".", conflicts_with = "no_report")]
    pub report: PathBuf,
    /// Write no report
    #[arg(long)]
    pub no_report: bool,
    /// Print the report as JSON instead of tables
    #[arg(long)]
    pub json: bool,
    /// Folder for the data that is copied; by default shared memory
    #[arg(long = "work-dir", value_name = "DIR")]
    pub work_directory: Option<PathBuf>,
    /// Seed of order and contents, to repeat a run; a new one by default
    #[arg(long, value_name = "N", value_parser = units::seed)]
    pub seed: Option<u64>,
    /// Measure another build of this program
    #[arg(long, value_name = "FILE", hide = true)]
    pub program: Option<PathBuf>,
}

/// Arguments of `sealane lab run transfer`.
#[derive(Debug, Args)]
pub struct TransferArgs {
    /// How thorough: 5 or 10 runs of every cell; `paper` takes 10, and their means
    #[arg(long, value_parser = super::profile(), default_value = "quick")]
    pub profile: Profile,
    /// Ends that do their full work, each measured separately
    #[arg(long = "ends", value_name = "END", value_parser = super::end(), value_delimiter = ',', default_value = "send,receive,both")]
    pub ends: Vec<End>,
    /// Parts of the study, by id (see `sealane lab list`); all by default
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = parts("lab transfer"), ignore_case = true)]
    pub only: Vec<String>,
    /// Numbers of threads of G16, as in 1,2,4,8, which is the default
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub lanes: Vec<u16>,
    /// Only what is done behind an emulated link
    #[arg(long, hide = true)]
    pub behind_link: bool,
    /// The arguments that all experiments share.
    #[command(flatten)]
    pub shared: LabShared,
}
