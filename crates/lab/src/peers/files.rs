//! `cp`: what the same bytes cost without a network.

use super::client::{Client, Far, measure};
use super::{Kind, Peer, PeerRun, Skipped, Version, Workload, find};
use crate::LabError;
use crate::program::Level;
use std::path::PathBuf;
use std::process::Command;

/// Coreutils' copy.
#[derive(Debug, Default)]
pub(super) struct Cp {
    program: PathBuf,
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
        self.program = find::program("cp")?;
        find::version(&self.program, "--version")
    }

    fn run(&mut self, workload: &Workload) -> Result<PeerRun, LabError> {
        let mut command = Command::new(&self.program);
        command.args(["-r", "--"]).arg(workload.source()).arg(workload.target());
        measure(vec![Client::new(command)], Far::None, workload)
    }
}
