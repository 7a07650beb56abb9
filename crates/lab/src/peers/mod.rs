//! Present-day copy programs, run on the same bytes by the same clock.
//!
//! Guarantees: a peer that is not installed, or cannot work here, is skipped with a reason, never silently; time is
//! taken from the start of the client to its end, with servers already running; CPU time covers both ends and every
//! helper process; every server listens on the loopback interface with throw-away keys (WDT, which cannot, is the
//! documented exception) and is gone when its owner is dropped, or when the lab itself is killed.
//!
//! CPU time is that of the processes, not of the machine: that of a client and its children is from `wait4(2)`, that
//! of a server and its descendants is the difference of their `/proc/PID/stat` (in steps of 10 ms). Neither contains
//! work of kernel threads, of which there is almost none on the loopback interface.

mod client;
mod constant;
mod daemons;
mod over_ssh;
mod own;
mod rusage;
mod server;
mod sshd;
mod tail;
mod tool;
mod version;
mod wdt;
mod workload;

pub(crate) use client::timed;
pub(crate) use constant::Constant;
pub(crate) use daemons::{CURL_HTTP, CURL_HTTPS, FTP, WGET_HTTP, WGET_HTTPS, tiny_pages};
pub(crate) use over_ssh::{
    OWN as OWN_OVER_SSH_TOOL, SCP, SCP_OLD, SFTP, beside_sftp, is_over_ssh, own as own_over_ssh,
    own_over_sftp,
};
pub(crate) use own::{Own, copy, warm};
pub(crate) use server::{Hosts, Server};
pub use sshd::PrivateSshd;
pub(crate) use sshd::sftp_server;
pub(crate) use tool::{Installed, SharedSshd, Tool};
pub use workload::{Kind, Workload};

use crate::LabError;
use crate::experiment::Sample;
use crate::program::Level;
use crate::skipped::Skipped;
use crate::surroundings::Surroundings;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// A peer's own version text, such as `rsync  version 3.5.0  protocol version 32`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version(pub String);

/// A copy program, or a way of using one.
pub trait Peer: std::fmt::Debug + Send {
    /// Returns a short name, unique at its level, for a table's row.
    fn name(&self) -> &str;

    /// Returns its level of protection.
    fn level(&self) -> Level;

    /// Returns whether it can copy workloads of this kind.
    fn carries(&self, kind: Kind) -> bool;

    /// Returns whether it leaves a copy that [`Workload::verify`] can compare. A load generator leaves none.
    fn leaves_a_copy(&self) -> bool {
        true
    }

    /// Returns whether it is the product itself, whose failure is a failure of the lab's checks.
    fn is_own(&self) -> bool {
        false
    }

    /// Finds its programs, and starts processes that several runs share. It is called once, before [`Peer::run`].
    fn probe(&mut self) -> Result<Version, Skipped>;

    /// Copies the workload once into its target, which is an empty directory (see [`Workload::clear_target`]).
    fn run(&mut self, workload: &Workload) -> Result<Sample, LabError>;
}

/// Returns every peer known to the lab, installed or not, in the order of a report.
pub fn all(surroundings: &Arc<Surroundings>) -> Vec<Box<dyn Peer>> {
    let sshd = SharedSshd::default();
    let others = [&daemons::RSYNC, &CURL_HTTPS, &wdt::PRIVATE, &wdt::CLEAR, &daemons::IPERF3];
    [&tool::CP]
        .into_iter()
        .chain(over_ssh::TOOLS)
        .chain(others)
        .map(|tool| Box::new(Installed::new(tool, surroundings, &sshd)) as Box<dyn Peer>)
        .collect()
}

/// The product's name in tables.
pub(crate) const OWN: &str = "sealane cp";
/// The name of the product when it is started over ssh, as scp is: a peer of itself without a login.
pub(crate) const OWN_OVER_SSH: &str = "sealane cp, ssh";
/// The name of the product over SFTP, with as many connections as it chooses.
pub(crate) const OWN_OVER_SFTP: &str = "sealane cp, SFTP";
/// The name of the product over SFTP in the other direction.
pub(crate) const OWN_PULLS: &str = "sealane cp, SFTP, pull";

/// The time after which a run is stopped and counts as a failure.
const RUN_LIMIT: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests;
