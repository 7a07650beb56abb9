//! The jobs of a copy and their reports: a coordinator and its movers say these to each other through a
//! queue.
//!
//! Guarantees: any bytes are a value or an error; a result is never longer than a queue takes, and says how many failures it
//! leaves out.

use sealane_copy::{ErrorKind, Location};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::error::{FleetError, Result};
use crate::queue::{Job, JobId, Weight};
use crate::wire::{decode, encode, reads_back};

/// The facts that all movers of a run must know; the coordinator announces them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The run.
    pub run: String,
    /// The arguments of `sealane cp` as they were given.
    pub words: Vec<Vec<u8>>,
    /// The folders that are copied.
    pub roots: Vec<Root>,
    /// The targets: places as on the command line, one for each host.
    pub targets: Vec<Vec<u8>>,
    /// The relation of the targets.
    pub spread: Spread,
    /// A random name of this invocation of the run.
    pub invocation: [u8; 16],
}

/// A folder that is copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Root {
    /// Its path on the sources.
    pub path: Vec<u8>,
    /// Its name in the target folder; `None` where the target is what gets its contents.
    pub name: Option<Vec<u8>>,
    /// By what another source knows that it has the same folder, once somebody has looked.
    pub stamp: Option<Stamp>,
}

/// By what hosts know that they see the same folder: inodes and times of change, which a network file system tells all of
/// them alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    /// Inode of the folder.
    pub inode: u64,
    /// Some names in it, with inode and time of change.
    pub entries: Vec<(Vec<u8>, u64, i64)>,
}

/// The relation of targets to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Spread {
    /// Nobody has looked yet.
    #[default]
    Unknown,
    /// All of them write to the same folder.
    Shared,
    /// Each has a folder of its own, and a part of the tree.
    Own,
}

/// One job of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Work {
    /// Find out how these targets are to each other, and make their folders.
    Look {
        /// Places as on the command line.
        targets: Vec<Vec<u8>>,
    },
    /// Walk a root, and put its shares.
    Walk {
        /// Index of the root.
        root: u32,
    },
    /// Copy these files.
    Share(Share),
    /// All files are there: give folders their modes and times, make hard links, and delete.
    Finish {
        /// Index of the root.
        root: u32,
        /// At this target, or at any.
        target: Option<Vec<u8>>,
    },
    /// Take away what was made at the targets to tell them apart.
    Unmark,
}

/// Files of one root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Share {
    /// Index of the root.
    pub root: u32,
    /// The target that is to get it, if each target has its own folder.
    pub target: Option<Vec<u8>>,
    /// Paths below the root.
    pub paths: Vec<Vec<u8>>,
}

/// The report of a job that was done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The kind of the job.
    pub kind: WorkKind,
    /// The host that did it.
    pub host: String,
    /// The place that it was copied to.
    pub target: Vec<u8>,
    /// The weight of the job.
    pub weight: Weight,
    /// The files and bytes that the target has by it.
    pub copied: Weight,
    /// Entries that were there already.
    pub skipped: u64,
    /// Entries that were deleted.
    pub deleted: u64,
    /// Microseconds that it took.
    pub micros: u64,
    /// Entries that failed: their path and why.
    pub failures: Vec<Failure>,
    /// More of them than a result has room for.
    pub failures_left_out: u64,
    /// The fault, if the job failed as a whole.
    pub error: Option<Fault>,
    /// To [`Work::Look`].
    pub spread: Spread,
    /// To [`Work::Look`]: the targets that answered.
    pub targets: Vec<Vec<u8>>,
    /// To [`Work::Look`]: those that did not, and why.
    pub unreachable: Vec<(Vec<u8>, String)>,
    /// To [`Work::Look`]: what the roots are like.
    pub stamps: Vec<Stamp>,
}

/// The kind of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WorkKind {
    /// [`Work::Look`].
    Look,
    /// [`Work::Walk`].
    Walk,
    /// [`Work::Share`].
    #[default]
    Share,
    /// [`Work::Finish`].
    Finish,
    /// [`Work::Unmark`].
    Unmark,
}

/// An entry that could not be copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The path of the entry.
    pub path: Vec<u8>,
    /// Why, in words that name it.
    pub reason: String,
}

/// Why a job failed as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fault {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// For people.
    pub message: String,
}

/// Bytes of failures in one result.
const FAILURES_BYTES_MAX: usize = 160 << 10;
/// A reason or message is cut here, in bytes.
const REASON_BYTES_MAX: usize = 1 << 10;

impl Work {
    /// The job that says this. Of one salt it has one name: that of a share is what its files are like, so that a later
    /// invocation knows what is done; that of all others is the invocation.
    pub(crate) fn job(&self, weight: Weight, salt: &[u8]) -> Job {
        let body = encode(self);
        Job { id: JobId::of(&[&body, salt]), weight, body }
    }

    /// Reads a job's body.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn read(body: &[u8]) -> Result<Self> {
        decode(body)
    }

    /// The kind of the job.
    pub(crate) fn kind(&self) -> WorkKind {
        match self {
            Self::Look { .. } => WorkKind::Look,
            Self::Walk { .. } => WorkKind::Walk,
            Self::Share(_) => WorkKind::Share,
            Self::Finish { .. } => WorkKind::Finish,
            Self::Unmark => WorkKind::Unmark,
        }
    }
}

impl Report {
    /// One more entry that failed.
    pub(crate) fn fail(&mut self, path: Vec<u8>, reason: &str) {
        let bytes: usize =
            self.failures.iter().map(|failure| failure.path.len() + failure.reason.len() + 8).sum();
        let reason = cut(reason);
        if bytes + path.len() + reason.len() + 8 > FAILURES_BYTES_MAX {
            self.failures_left_out += 1;
        } else {
            self.failures.push(Failure { path, reason });
        }
    }

    /// The whole failed.
    pub(crate) fn fault(&mut self, kind: ErrorKind, message: &str) {
        self.error = Some(Fault { kind, message: cut(message) });
    }

    /// True if everything was done.
    pub(crate) fn is_good(&self) -> bool {
        self.error.is_none() && self.failures.is_empty() && self.failures_left_out == 0
    }

    /// As a result.
    pub(crate) fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads a result.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn read(result: &[u8]) -> Result<Self> {
        decode(result)
    }
}

impl Order {
    /// As an announcement.
    pub(crate) fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads an announcement.
    ///
    /// # Errors
    /// It is none.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self> {
        decode(bytes)
    }

    /// A root.
    ///
    /// # Errors
    /// There is none of this index.
    pub(crate) fn root(&self, index: u32) -> Result<&Root> {
        let root = self.roots.get(index as usize);
        root.ok_or_else(|| FleetError::Protocol("a job names a folder that the run does not have".into()))
    }
}

/// The place that gets a root's contents at a target.
///
/// # Errors
/// The target is no place on a far host.
pub(crate) fn destination(target: &[u8], name: Option<&[u8]>) -> Result<Location> {
    let mut location = Location::parse(OsStr::from_bytes(target))?;
    let path = match &mut location {
        Location::Ssh { path, .. } | Location::Daemon { path, .. } => path,
        Location::Local(_) => {
            let text = String::from_utf8_lossy(target);
            return Err(FleetError::Usage(format!(
                "{text} is not on a far host: hosts that copy could not reach it"
            )));
        }
    };
    if let Some(name) = name {
        if !path.ends_with(b"/") {
            path.push(b'/');
        }
        path.extend_from_slice(name);
    }
    Ok(location)
}

fn cut(text: &str) -> String {
    let mut end = text.len().min(REASON_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// Reads bytes as each of these, and writes again what was read; says whether one of them was.
pub(crate) fn read_any(bytes: &[u8]) -> bool {
    reads_back::<Work>(bytes) | reads_back::<Report>(bytes) | reads_back::<Order>(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::RESULT_BYTES_MAX;

    #[test]
    fn a_report_fits_a_result_whatever_fails() {
        let mut report = Report::default();
        for number in 0..5000 {
            report.fail(vec![b'a'; number % 4000], &"é".repeat(number % 900));
        }
        report.fault(ErrorKind::Io, &"é".repeat(5000));
        assert!(report.failures_left_out > 0 && !report.failures.is_empty() && !report.is_good());
        assert!(report.encode().len() <= RESULT_BYTES_MAX);
        assert_eq!(Report::read(&report.encode()).ok(), Some(report));
    }

    #[test]
    fn names_go_below_the_target() {
        for (target, name, path) in [
            ("h:/in", Some(&b"data"[..]), &b"/in/data"[..]),
            ("h:/in/", Some(b"data"), b"/in/data"),
            ("h:", Some(b"data"), b"./data"),
            ("h:/in", None, b"/in"),
        ] {
            match destination(target.as_bytes(), name).expect("a place") {
                Location::Ssh { path: found, .. } => assert_eq!(found, path),
                other => panic!("{other:?}"),
            }
        }
        assert!(destination(b"/in", None).is_err());
    }
}
