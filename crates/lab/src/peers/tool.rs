//! Installed programs as data: name, required programs, supported workloads, and the function that copies once.
//!
//! Guarantees: a program is searched when it is probed, and a missing one is named; those that log in by SSH share
//! one private server, started once.

use super::client::{Client, Far, measure};
use super::server::Hosts;
use super::{Kind, Peer, PrivateSshd, Version, Workload, version::version};
use crate::LabError;
use crate::experiment::Sample;
use crate::program::Level;
use crate::skipped::Skipped;
use crate::surroundings::Surroundings;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, OnceLock};

/// A program, or a way of using one.
#[derive(Debug)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(super) level: Level,
    /// The workloads that it copies: a file, a tree, or either.
    pub(super) kinds: &'static [Kind],
    pub(super) leaves_a_copy: bool,
    /// Programs that it needs.
    pub(super) programs: &'static [&'static str],
    /// Returns its version, or the reason why it cannot work here, once its programs are found.
    pub(super) version: fn(&mut Found) -> Result<Version, Skipped>,
    /// Runs one copy.
    pub(super) run: fn(&Found, &Workload) -> Result<Sample, LabError>,
}

/// A file or a tree.
pub(super) const BOTH: &[Kind] = &[Kind::File, Kind::Tree];

/// The server that tools share, or the reason why there is none.
pub(crate) type SharedSshd = Arc<OnceLock<Result<PrivateSshd, Skipped>>>;

/// The programs and hosts of a tool here.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) surroundings: Arc<Surroundings>,
    /// Paths in the order of [`Tool::programs`].
    pub(crate) programs: Vec<PathBuf>,
    pub(crate) hosts: Hosts,
    sshd: SharedSshd,
}

impl Found {
    /// Returns the program that copies.
    pub(super) fn program(&self) -> &Path {
        &self.programs[0]
    }

    /// Returns a command of it, on the client's host.
    pub(super) fn client(&self) -> Command {
        self.hosts.client(self.program())
    }

    /// Returns the shared server, which is started if it has not been.
    pub(super) fn sshd(&self) -> Result<&PrivateSshd, Skipped> {
        let start = || PrivateSshd::start_on(&self.surroundings, &[], self.hosts.clone());
        self.sshd.get_or_init(start).as_ref().map_err(Clone::clone)
    }
}

/// Returns the output of `--version`.
pub(super) fn by_itself(found: &mut Found) -> Result<Version, Skipped> {
    version(found.program(), "--version")
}

/// A tool on this machine.
#[derive(Debug)]
pub(crate) struct Installed {
    tool: &'static Tool,
    /// The path of the program, if it is not searched.
    program: Option<PathBuf>,
    pub(crate) found: Found,
}

impl Installed {
    pub(crate) fn new(tool: &'static Tool, surroundings: &Arc<Surroundings>, sshd: &SharedSshd) -> Self {
        let (surroundings, sshd) = (Arc::clone(surroundings), Arc::clone(sshd));
        let found = Found { surroundings, programs: Vec::new(), hosts: Hosts::default(), sshd };
        Self { tool, program: None, found }
    }

    /// Returns the tool, probed, with its two ends on these hosts.
    pub(crate) fn between(
        tool: &'static Tool,
        surroundings: &Arc<Surroundings>,
        hosts: Hosts,
    ) -> Result<Self, Skipped> {
        let mut installed = Self::new(tool, surroundings, &SharedSshd::default()).on(hosts);
        installed.probe().map(|_| installed)
    }

    /// Returns the tool with its two ends on these hosts.
    pub(crate) fn on(mut self, hosts: Hosts) -> Self {
        self.found.hosts = hosts;
        self
    }

    /// Returns the tool with this program, at any place.
    pub(crate) fn by(self, program: &Path) -> Self {
        Self { program: Some(program.to_owned()), ..self }
    }
}

impl Peer for Installed {
    fn name(&self) -> &str {
        self.tool.name
    }

    fn level(&self) -> Level {
        self.tool.level
    }

    fn carries(&self, kind: Kind) -> bool {
        self.tool.kinds.contains(&kind)
    }

    fn leaves_a_copy(&self) -> bool {
        self.tool.leaves_a_copy
    }

    fn probe(&mut self) -> Result<Version, Skipped> {
        let looked_for = self.tool.programs.iter().map(|name| self.found.surroundings.program(name));
        let known = self.program.iter().cloned().map(Ok);
        self.found.programs = known.chain(looked_for).collect::<Result<_, _>>()?;
        (self.tool.version)(&mut self.found)
    }

    fn run(&mut self, workload: &Workload) -> Result<Sample, LabError> {
        if self.found.programs.is_empty() {
            return Err(LabError::Unavailable(format!("{} was not probed", self.name())));
        }
        (self.tool.run)(&self.found, workload)
    }
}

/// `cp`: the cost of the same bytes without a network.
pub(super) const CP: Tool = Tool {
    name: "cp",
    level: Level::Clear,
    kinds: BOTH,
    leaves_a_copy: true,
    programs: &["cp"],
    version: by_itself,
    run: |found, workload| {
        let mut command = found.client();
        command.args(["-r", "--"]).arg(workload.source()).arg(workload.target());
        measure(vec![Client::new(command)], Far::None, workload)
    },
};
