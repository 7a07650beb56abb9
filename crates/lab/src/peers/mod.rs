//! The copy programs people use today, run on the same bytes by the same clock.
//!
//! Guarantees: a peer that is not installed, or cannot work here, says why and is skipped, never silently left out;
//! time is taken from the start of the client to its end, with servers already up; CPU time covers both ends and
//! every helper process; every server listens on the loopback interface with throw-away keys (WDT, which cannot, is
//! the documented exception) and is gone when its owner is dropped, or when the lab itself is killed.
//!
//! CPU time is that of the processes, not of the machine: what a client and its children used comes from `wait4(2)`,
//! what a server and its descendants used is the difference of their `/proc/PID/stat` (in steps of 10 ms). Work of
//! kernel threads is in neither; on the loopback interface there is next to none.

mod alternate;
mod client;
mod cpu;
mod daemons;
mod files;
mod iperf;
mod over_ssh;
mod rusage;
mod server;
mod sshd;
mod version;
mod wdt;
mod workload;

pub use alternate::{Outcome, alternate};
pub(crate) use over_ssh::{is_over_ssh, own as own_over_ssh};
pub use sshd::PrivateSshd;
pub use workload::{Kind, Workload};

use crate::LabError;
use crate::load::is_disturbed;
use crate::program::Level;
use crate::surroundings::Surroundings;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// What a peer calls itself, such as `rsync  version 3.5.0  protocol version 32`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version(pub String);

/// Why a peer does not take part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("skipped: {reason}")]
pub struct Skipped {
    /// For people, e.g. "no `rclone` in PATH".
    pub reason: String,
}

impl Skipped {
    pub(crate) fn because(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// What one run of a peer cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerRun {
    /// Wall time of the client, from its start to its end.
    pub seconds: f64,
    /// CPU time, user and system, of both ends and their helpers in that time.
    pub cpu_seconds: f64,
    /// Bytes of file content (or of payload, where there are no files).
    pub bytes: u64,
    /// CPU time that all other processes of the machine used meanwhile.
    pub other_cpu_seconds: f64,
    /// Time the hypervisor gave to others meanwhile.
    pub stolen_seconds: f64,
}

impl PeerRun {
    /// 10⁶ bytes per second.
    pub fn megabytes_per_second(&self) -> f64 {
        self.bytes as f64 / 1e6 / self.seconds
    }

    /// CPU seconds per 2³⁰ bytes.
    pub fn cpu_seconds_per_gib(&self) -> f64 {
        self.cpu_seconds * (1u64 << 30) as f64 / self.bytes as f64
    }

    /// Whether something else ran so much that the run should be repeated.
    pub fn is_disturbed(&self) -> bool {
        is_disturbed(self.other_cpu_seconds, self.stolen_seconds, Duration::from_secs_f64(self.seconds))
    }
}

/// A copy program, or a way of using one.
pub trait Peer: std::fmt::Debug + Send {
    /// Short and unique, for a table's row.
    fn name(&self) -> &'static str;

    /// What it protects.
    fn level(&self) -> Level;

    /// Whether it can copy a file, or a tree.
    fn carries(&self, kind: Kind) -> bool;

    /// Whether it leaves a copy that [`Workload::verify`] can compare. A generator of load does not.
    fn leaves_a_copy(&self) -> bool {
        true
    }

    /// Finds its programs, and starts what several runs share. Asked once, before [`Peer::run`].
    fn probe(&mut self) -> Result<Version, Skipped>;

    /// Copies the workload once into its target, which is an empty directory (see [`Workload::clear_target`]).
    fn run(&mut self, workload: &Workload) -> Result<PeerRun, LabError>;
}

/// Every peer the lab knows, installed or not, in the order of a report.
pub fn all(surroundings: &Arc<Surroundings>) -> Vec<Box<dyn Peer>> {
    let mut peers: Vec<Box<dyn Peer>> = vec![Box::new(files::Cp::new(surroundings))];
    peers.extend(over_ssh::all(surroundings));
    peers.extend([
        Box::new(daemons::RsyncDaemon::new(surroundings)) as Box<dyn Peer>,
        Box::new(daemons::CurlHttps::new(surroundings)),
        Box::new(wdt::Wdt::private(surroundings)),
        Box::new(wdt::Wdt::clear(surroundings)),
        Box::new(iperf::Iperf3::new(surroundings)),
    ]);
    peers
}

/// The product where it is started over ssh, as scp is: a peer of itself without a login.
pub(crate) const OWN_OVER_SSH: &str = "sealane cp, ssh";

/// How long one run may take before it is stopped and counts as a failure.
const RUN_LIMIT: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests;
