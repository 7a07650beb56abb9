//! `cp`: what the same bytes cost without a network.

use super::client::{Client, Far, measure};
use super::{Kind, Peer, PeerRun, Skipped, Version, Workload, version::version};
use crate::LabError;
use crate::program::Level;
use crate::surroundings::Surroundings;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

/// Coreutils' copy.
#[derive(Debug)]
pub(super) struct Cp {
    surroundings: Arc<Surroundings>,
    program: PathBuf,
}

impl Cp {
    pub(super) fn new(surroundings: &Arc<Surroundings>) -> Self {
        Self { surroundings: Arc::clone(surroundings), program: PathBuf::new() }
    }
}

impl Peer for Cp {
    fn name(&self) -> &'static str {
        "cp"
    }

    fn level(&self) -> Level {
        Level::Clear
    }

    fn carries(&self, _kind: Kind) -> bool {
        true
    }

    fn probe(&mut self) -> Result<Version, Skipped> {
        self.program = self.surroundings.program("cp")?;
        version(&self.program, "--version")
    }

    fn run(&mut self, workload: &Workload) -> Result<PeerRun, LabError> {
        let mut command = Command::new(&self.program);
        command.args(["-r", "--"]).arg(workload.source()).arg(workload.target());
        measure(vec![Client::new(command)], Far::None, workload)
    }
}
