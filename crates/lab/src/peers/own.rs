//! The product as a peer of others, with a check that it did what was requested.
//!
//! Guarantees: the clock covers the program from its start to its end, or the measured end's work; the reported
//! properties are the requested ones; memory is warm and load beside the run is noted (see [`crate::load`]).

use super::{Kind, OWN, Peer, Version, Workload};
use crate::LabError;
use crate::experiment::{Copied, Sample};
use crate::load::{MachineTime, is_disturbed, warm_memory};
use crate::program::{CopyRequest, Finished, Level, Program};
use crate::skipped::Skipped;
use std::path::{Path, PathBuf};

/// The product with a request.
#[derive(Debug)]
pub(crate) struct Own {
    pub(crate) program: Program,
    pub(crate) name: String,
    pub(crate) request: CopyRequest,
}

impl Own {
    /// Returns the product at a level, with a file as its target.
    pub(crate) fn new(program: &Program, name: &str, level: Level) -> Self {
        let request = CopyRequest { level: Some(level), resume: Some(false), ..CopyRequest::default() };
        Self { program: program.clone(), name: name.to_owned(), request }
    }

    /// Returns the product at each of the four levels.
    pub(crate) fn four_levels(program: &Program) -> Vec<Box<dyn Peer>> {
        let at = |level| Box::new(Self::new(program, OWN, level)) as Box<dyn Peer>;
        Level::ALL.map(at).into()
    }
}

impl Peer for Own {
    fn name(&self) -> &str {
        &self.name
    }

    fn level(&self) -> Level {
        self.request.level.unwrap_or(Level::Private)
    }

    fn carries(&self, _kind: Kind) -> bool {
        true
    }

    fn is_own(&self) -> bool {
        true
    }

    fn probe(&mut self) -> Result<Version, Skipped> {
        Ok(Version(self.program.path.display().to_string()))
    }

    fn run(&mut self, workload: &Workload) -> Result<Sample, LabError> {
        let request = CopyRequest { recursive: workload.kind() == Kind::Tree, ..self.request.clone() };
        copy(&self.program, &request, &[workload.source().to_owned()], workload.target(), workload.bytes())
    }
}

/// Makes one timed copy of `bytes`.
pub(crate) fn copy(
    program: &Program,
    request: &CopyRequest,
    sources: &[PathBuf],
    target: &Path,
    bytes: u64,
) -> Result<Sample, LabError> {
    let before = MachineTime::now();
    let finished = program.copy(request, sources, target)?;
    let after = MachineTime::now();
    check_promises(request, &finished, bytes)?;
    let Finished { done, wall, .. } = finished;
    let cpu_seconds = done.cpu_seconds.local + done.cpu_seconds.remote;
    let passed = before.zip(after).map(|(before, after)| after.since(before)).unwrap_or_default();
    let copied = Copied {
        bytes: done.bytes,
        files: done.files,
        wall_seconds: wall.as_secs_f64(),
        program_seconds: Some(done.seconds),
        cpu_local_seconds: Some(done.cpu_seconds.local),
        cpu_remote_seconds: Some(done.cpu_seconds.remote),
        cpu_seconds,
        other_cpu_seconds: (passed.busy_seconds - cpu_seconds).max(0.0),
        stolen_seconds: passed.stolen_seconds,
        resent_bytes: done.resent_bytes,
    };
    let is_disturbed = is_disturbed(copied.other_cpu_seconds, copied.stolen_seconds, wall);
    Ok(Sample { tier: done.tier, ..Sample::copied(copied, is_disturbed) })
}

/// Touches and frees the amount of memory that a copy of `bytes` needs.
pub(crate) fn warm(bytes: u64) {
    warm_memory(bytes / 4 * 5);
}

/// A figure under the wrong name is worse than none: a copy that lowered its level, changed its suite or lost bytes
/// is a failure here even if the program reported success.
fn check_promises(request: &CopyRequest, finished: &Finished, bytes: u64) -> Result<(), LabError> {
    let done = &finished.done;
    let pairs = [
        ("level", request.level.map(|level| level.name().to_owned()), done.level.clone()),
        ("suite", request.suite.clone(), done.suite.clone()),
        ("streams", request.streams.map(|count| count.to_string()), done.streams.to_string()),
        ("lanes", request.lanes.map(|count| count.to_string()), done.lanes.to_string()),
        ("bytes", Some(bytes.to_string()), done.bytes.to_string()),
    ];
    for (what, wanted, found) in pairs {
        if let Some(wanted) = wanted.filter(|wanted| *wanted != found) {
            let message = format!("{what} {wanted} was asked for, {found} was in force");
            return Err(LabError::Copy { kind: "promise".to_owned(), message });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::Done;
    use std::time::Duration;

    #[test]
    fn a_figure_under_the_wrong_name_is_refused() {
        let request = CopyRequest {
            level: Some(Level::Private),
            suite: Some("aes-128-gcm".to_owned()),
            streams: Some(2),
            ..CopyRequest::default()
        };
        let done = Done {
            level: "private".to_owned(),
            suite: "aes-128-gcm".to_owned(),
            streams: 2,
            bytes: 10,
            ..Done::default()
        };
        let check = |change: fn(&mut Done)| {
            let mut done = done.clone();
            change(&mut done);
            let finished = Finished { done, wall: Duration::from_secs(1) };
            check_promises(&request, &finished, 10).map_err(|error| error.to_string())
        };
        assert_eq!(check(|_| {}), Ok(()));
        assert!(check(|done| done.level = "clear".to_owned()).unwrap_err().contains("clear"));
        assert!(check(|done| done.suite = "blake3".to_owned()).is_err());
        assert!(check(|done| done.streams = 1).is_err());
        assert!(check(|done| done.bytes = 9).unwrap_err().contains("bytes 10"));
    }
}
