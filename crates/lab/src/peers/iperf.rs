//! iperf3: as many bytes from memory to memory, the bare speed of the path.

use super::client::{Client, Far, measure};
use super::server::Server;
use super::{Kind, Peer, PeerRun, Skipped, Version, Workload, version::version};
use crate::LabError;
use crate::program::Level;
use crate::surroundings::Surroundings;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

/// One stream of TCP with nothing at its ends.
#[derive(Debug)]
pub(super) struct Iperf3 {
    surroundings: Arc<Surroundings>,
    program: PathBuf,
}

impl Iperf3 {
    pub(super) fn new(surroundings: &Arc<Surroundings>) -> Self {
        Self { surroundings: Arc::clone(surroundings), program: PathBuf::new() }
    }
}

impl Peer for Iperf3 {
    fn name(&self) -> &'static str {
        "iperf3"
    }

    fn level(&self) -> Level {
        Level::Clear
    }

    fn carries(&self, kind: Kind) -> bool {
        kind == Kind::File
    }

    fn leaves_a_copy(&self) -> bool {
        false
    }

    fn probe(&mut self) -> Result<Version, Skipped> {
        self.program = self.surroundings.program("iperf3")?;
        version(&self.program, "--version")
    }

    fn run(&mut self, workload: &Workload) -> Result<PeerRun, LabError> {
        let (server, port) = Server::listening("iperf3 --server", |port| {
            let port = port.to_string();
            let mut words: Vec<OsString> = vec![self.program.clone().into_os_string()];
            words.extend(
                ["--server", "--one-off", "--bind", "127.0.0.1", "--port", &port].map(OsString::from),
            );
            Ok(words)
        })?;
        let mut command = Command::new(&self.program);
        command.args(["--client", "127.0.0.1", "--port", &port.to_string()]);
        command.args(["--bytes", &workload.bytes().to_string()]);
        measure(vec![Client::new(command)], Far::Ends(server), workload)
    }
}
