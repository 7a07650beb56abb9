//! A request to the lab: the parameters of studies, by family. Each study uses those that concern it.
//!
//! Guarantees: one value for every study, so that a study is run in the same way from the command line, from `lab run`
//! and from a test.

use crate::LabError;
use crate::experiment::Profile;
use crate::machine::Machine;
use crate::program::{End, Program};
use crate::rng::Rng;
use crate::scratch::Scratch;
use crate::surroundings::Surroundings;
use crate::topology::Topology;
use sealane_engine::EngineChoice;
use sealane_lanes::available_lanes;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A congestion control of TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionControl {
    /// CUBIC (RFC 9438), Linux's default.
    Cubic,
    /// BBR as the kernel has it (version 1), where its module is there.
    Bbr,
}

impl CongestionControl {
    /// All, in the order of the help.
    pub const ALL: [Self; 2] = [Self::Cubic, Self::Bbr];

    /// Returns the kernel's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        }
    }
}

/// The parameters of all studies, and of families of them.
#[derive(Clone, Debug)]
pub struct Request {
    /// The locations of programs, temporary files and trees.
    pub surroundings: Arc<Surroundings>,
    /// The thoroughness.
    pub profile: Profile,
    /// Names of the parts of the study to run; all if empty.
    pub only: Vec<String>,
    /// The seed of orders and contents, to repeat a run.
    pub seed: u64,
    /// The program under test; by default the running program.
    pub program: Option<PathBuf>,
    /// The numbers of lanes, for studies that vary them; by default 1, 2, 4 and so on, and all CPUs.
    pub lanes: Vec<usize>,
    /// The engine that runs the cryptography of stacks.
    pub engine: EngineChoice,
    /// The parameters of studies of copies.
    pub copies: Copies,
    /// The parameters of studies between hosts.
    pub hosts: Hosts,
}

/// The parameters of studies of copies.
#[derive(Clone, Debug)]
pub struct Copies {
    /// Whether to compare with installed programs.
    pub peers: bool,
    /// The size of the largest file to copy; by default the study's own choice.
    pub file_bytes_max: Option<u64>,
    /// The tree to sample; by default the first of the usual places.
    pub tree: Option<PathBuf>,
    /// The maximum size of the sample.
    pub tree_bytes_max: u64,
    /// The directory for workloads; by default in shared memory.
    pub work_directory: Option<PathBuf>,
    /// The time after which no further run is started, if the study has such a limit.
    pub limit: Duration,
    /// The ends that do their full work, each measured on its own.
    pub ends: Vec<End>,
}

/// The parameters of studies between hosts.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// The arrangements of hosts and gateways.
    pub topologies: Vec<Topology>,
    /// Names of the connections between hosts; all that are installed if empty.
    pub between: Vec<String>,
    /// The number of runs of each test; by default that of the profile.
    pub rounds: Option<usize>,
    /// The length in seconds of a run that has no other end; by default that of the profile.
    pub seconds: Option<u32>,
    /// The congestion control of TCP through tunnels; by default CUBIC for delays beside load, and otherwise the host's.
    pub congestion_control: Option<CongestionControl>,
    /// The tree to build; by default a generated one.
    pub tree: Option<PathBuf>,
    /// The command that builds the tree.
    pub build: Option<String>,
}

impl Default for Request {
    fn default() -> Self {
        Self {
            surroundings: Arc::default(),
            profile: Profile::default(),
            only: Vec::new(),
            seed: Rng::fresh_seed(),
            program: None,
            lanes: Vec::new(),
            engine: EngineChoice::default(),
            copies: Copies::default(),
            hosts: Hosts::default(),
        }
    }
}

impl Default for Copies {
    fn default() -> Self {
        Self {
            peers: true,
            file_bytes_max: None,
            tree: None,
            tree_bytes_max: 200_000_000,
            work_directory: None,
            limit: Duration::from_secs(100),
            ends: End::ALL.to_vec(),
        }
    }
}

impl Default for Hosts {
    fn default() -> Self {
        Self {
            topologies: Topology::ALL.to_vec(),
            between: Vec::new(),
            rounds: None,
            seconds: None,
            congestion_control: None,
            tree: None,
            build: None,
        }
    }
}

impl Request {
    /// Returns whether one of these parts is requested.
    pub fn wants(&self, parts: &[&str]) -> bool {
        let is_wanted = |part: &&str| self.only.iter().any(|only| only.eq_ignore_ascii_case(part));
        self.only.is_empty() || parts.iter().any(is_wanted)
    }

    /// Returns the numbers of lanes to measure, in rising order. One lane is always among them, because gains are over
    /// one.
    pub(crate) fn lane_counts(&self) -> Vec<usize> {
        let most = available_lanes();
        let usual = (0..).map(|power| 1 << power).take_while(|&lanes| lanes <= most).chain([most]);
        let mut lanes: Vec<usize> = if self.lanes.is_empty() { usual.collect() } else { self.lanes.clone() };
        lanes.push(1);
        lanes.sort_unstable();
        lanes.dedup();
        lanes
    }

    /// Returns the program under test.
    ///
    /// # Errors
    /// Fails if there is none beside the running one or in `PATH`.
    pub fn program(&self) -> Result<Program, LabError> {
        self.program.as_ref().map_or_else(Program::installed, |path| Ok(Program::new(path)))
    }

    /// Returns a directory with room for `bytes`.
    pub(crate) fn scratch(&self, bytes: u64) -> Result<Scratch, LabError> {
        Scratch::create(&self.surroundings, self.copies.work_directory.as_deref(), bytes)
    }

    /// Returns the number of bytes that a workload may use there.
    pub(crate) fn room_bytes(&self, wished_bytes: u64) -> u64 {
        Scratch::room_bytes(&self.surroundings, self.copies.work_directory.as_deref(), wished_bytes)
    }
}

/// Returns the notes on the method that all studies of copies share.
pub(crate) fn method_of_copies(scratch: &Scratch, machine: &Machine) -> Vec<String> {
    let place = if scratch.is_memory() { "memory (tmpfs)" } else { "a directory on disk" };
    let control = machine.congestion_control.as_deref().unwrap_or("unknown");
    vec![
        "The program under test is the one that ships: a child process for every sample, which starts the far end, another process, and talks to it over real TCP on loopback.".to_owned(),
        format!("Sources and copies lie in {place}; files are written anew with random bytes before each round. Memory is touched and freed before each run, because a host may take freed pages back and charge their first touch to the run."),
        "CPU seconds are those of all processes of the measured ends; time stolen by a hypervisor is not among them.".to_owned(),
        format!("TCP congestion control is {control}, as found."),
    ]
}

/// Returns the limits that all studies of copies on one machine share.
pub(crate) fn limits_of_copies(machine: &Machine) -> Vec<String> {
    let mut limits = vec![
        "Loopback has no delay, no loss and no network card; only emulated links have the first two."
            .to_owned(),
    ];
    if machine.cores <= 2 {
        limits.push(format!(
            "Both ends share {} CPUs. With both ends measured, one stream already fills them, so only figures of one measured end, in `sealane lab run transfer`, can show scaling.",
            machine.cores
        ));
    }
    if machine.is_virtual {
        limits.push("A virtual machine: wall time may vary by a fifth between runs; CPU seconds are steadier. Stolen time is recorded with each sample.".to_owned());
    }
    limits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_lanes_rise_from_one() {
        let of = |lanes: &[usize]| Request { lanes: lanes.to_vec(), ..Request::default() }.lane_counts();
        assert_eq!(of(&[8, 2, 4, 2]), [1, 2, 4, 8]);
        assert_eq!(of(&[1]), [1]);
        let usual = of(&[]);
        assert_eq!((usual[0], usual.last()), (1, Some(&available_lanes())));
        assert!(usual.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
