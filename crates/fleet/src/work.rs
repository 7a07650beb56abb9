//! The jobs of a copy and their reports, which a coordinator and its movers exchange through a queue.
//!
//! Guarantees: any bytes are a value or an error; a result is never longer than a queue accepts, and states how many
//! failures it leaves out.

use sealane_copy::proto::entry::identity;
use sealane_copy::{Change, ErrorKind, Location, Piece, Portion, RelativePath};
use sealane_peer::{Identity, PublicKey};
use sealane_tree::{Division, Metadata, Timestamp};
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::error::{FleetError, Result};
use crate::queue::{Job, JobId, Weight};
use crate::settings::Settings;
use crate::signed::{Purpose, Signed};
use crate::wire::{decode, encode, reads_back};

/// The facts that all movers must know; the coordinator announces them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The name of the run.
    pub run: String,
    /// The options of every session.
    pub settings: Settings,
    /// The folders that are copied.
    pub roots: Vec<Root>,
    /// The targets: places as on the command line, one for each host.
    pub targets: Vec<Vec<u8>>,
    /// The relation of the targets.
    pub spread: Spread,
    /// A random name of this invocation of the run.
    pub invocation: [u8; 16],
    /// The maximum number of bytes of a share.
    pub share_bytes: u64,
}

/// A folder that is copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Root {
    /// Its path on the sources.
    pub path: Vec<u8>,
    /// The name in the target folder; `None` if the target itself gets the root's contents.
    pub name: Option<Vec<u8>>,
    /// The stamp by which another source recognises the same folder, once the root has been examined.
    pub stamp: Option<Stamp>,
}

/// A stamp by which hosts detect that they see the same folder: inodes and times of change, which a network file
/// system reports to all of them alike.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    /// Inode of the folder.
    pub inode: u64,
    /// Some names in the folder, with inode and time of change.
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

/// Work that only the coordinator gives.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Charge {
    /// Find out the relation of these targets to each other, and create their folders.
    Look {
        /// Places as on the command line.
        targets: Vec<Vec<u8>>,
    },
    /// Walk a root, and put the tasks of copying it.
    Walk {
        /// Index of the root.
        root: u32,
    },
    /// All files are there: set modes and times of folders, make hard links, and delete.
    Finish {
        /// Index of the root.
        root: u32,
        /// At this target, or at any.
        target: Option<Vec<u8>>,
    },
    /// Remove the marks that distinguished the targets, and with `is_refused` the empty folders that were made for them.
    Unmark {
        /// The run is refused: nothing was copied.
        is_refused: bool,
    },
}

/// Files to copy, which a walker gives to all movers. They are below a root, and go to a target of the order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum CopyTask {
    /// Copy these files.
    Share(Share),
    /// Copy one range of a large file into the temporary file that all its ranges share.
    Range {
        /// The large file that the range is of.
        file: Large,
        /// The number of the range.
        index: u32,
    },
    /// Give a large file its name, once all its ranges are there.
    Name(Large),
}

/// One job of a copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// The coordinator's.
    Charge(Charge),
    /// Anybody's.
    Copy(CopyTask),
}

/// The body of a job.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Body {
    /// A [`Charge`], signed for this job.
    Charge(Signed),
    Copy(CopyTask),
}

/// A large file, which several movers copy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Large {
    /// Index of the root.
    pub root: u32,
    /// The target of the file, if each target has its own folder.
    pub target: Option<Vec<u8>>,
    /// The path below the root.
    pub path: Vec<u8>,
    /// The length of the file in bytes.
    pub bytes: u64,
    /// The time of the file's last change: seconds, and nanoseconds in addition.
    pub modified: (i64, u32),
    /// The length of every range but the last, in bytes.
    pub range_bytes: u64,
}

impl Large {
    /// Returns the ranges of the file.
    ///
    /// # Errors
    /// Fails if a file cannot be divided like this.
    pub(crate) fn division(&self) -> Result<Division> {
        let malformed = || FleetError::Protocol("a job divides a file in a way that makes no sense".into());
        Division::new(self.bytes, self.range_bytes).ok_or_else(malformed)
    }

    /// Returns the name of this version of the file, by which sender and receiver know it.
    ///
    /// # Errors
    /// The path is malformed.
    pub(crate) fn identity(&self) -> Result<[u8; 16]> {
        let path = RelativePath::new(&self.path).map_err(|error| FleetError::Protocol(error.to_string()))?;
        let modified = Timestamp { seconds: self.modified.0, nanoseconds: self.modified.1 };
        Ok(identity(&path, &Metadata { size_bytes: self.bytes, modified, ..Metadata::default() }))
    }

    /// Returns a part of the file for a session.
    ///
    /// # Errors
    /// The path is malformed.
    pub(crate) fn portion(&self, piece: Piece) -> Result<Portion> {
        Ok(Portion { identity: self.identity()?, range_bytes: self.range_bytes, piece })
    }

    /// Returns the file as the only one of a share.
    pub(crate) fn share(&self) -> Share {
        Share { root: self.root, target: self.target.clone(), paths: vec![self.path.clone()] }
    }

    /// Returns the job that copies a range.
    ///
    /// # Errors
    /// There is no such range.
    pub(crate) fn range(&self, index: u32) -> Result<Job> {
        let range = self.division()?.range(index);
        let range = range.ok_or_else(|| FleetError::Protocol("a file has no range of this number".into()))?;
        let weight = Weight { files: 0, bytes: range.end - range.start };
        Ok(CopyTask::Range { file: self.clone(), index }.job(weight, b""))
    }

    /// Returns the job that gives the file its name.
    pub(crate) fn name(&self) -> Job {
        CopyTask::Name(self.clone()).job(Weight { files: 1, bytes: 0 }, b"")
    }
}

/// Files of one root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Share {
    /// Index of the root.
    pub root: u32,
    /// The target of the job, if each target has its own folder.
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
    /// The place of the copy.
    pub target: Vec<u8>,
    /// The weight of the job.
    pub weight: Weight,
    /// The files and bytes that the job added to the target.
    pub copied: Weight,
    /// Entries that were there already.
    pub skipped: u64,
    /// Entries that were deleted.
    pub deleted: u64,
    /// Microseconds that it took.
    pub micros: u64,
    /// The entries that failed: their paths and the reasons.
    pub failures: Vec<Failure>,
    /// The number of further failures, for which a result has no room.
    pub failures_left_out: u64,
    /// The changes that a real copy would make, with the bytes that it would send, if this one changes nothing.
    pub changes: Vec<(Change, u64)>,
    /// The entries that a real copy would delete, if this one changes nothing.
    pub deletions: Vec<Vec<u8>>,
    /// The number of further changes and deletions, for which a result has no room.
    pub changes_left_out: u64,
    /// The fault, if the job failed as a whole.
    pub error: Option<Fault>,
    /// The answer to [`Charge::Look`].
    pub spread: Spread,
    /// The answer to [`Charge::Look`]: the targets that answered.
    pub targets: Vec<Vec<u8>>,
    /// The answer to [`Charge::Look`]: the targets that did not answer, and the reasons.
    pub unreachable: Vec<(Vec<u8>, String)>,
    /// The answer to [`Charge::Look`]: the stamps of the roots.
    pub stamps: Vec<Stamp>,
}

/// The kind of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum WorkKind {
    /// [`Charge::Look`].
    Look,
    /// [`Charge::Walk`].
    Walk,
    /// [`CopyTask::Share`].
    #[default]
    Share,
    /// [`Charge::Finish`].
    Finish,
    /// [`Charge::Unmark`].
    Unmark,
    /// [`CopyTask::Range`]. A failure is not one of the run: the job that gives the name copies the whole file then.
    Range,
    /// [`CopyTask::Name`].
    Name,
}

/// An entry that could not be copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The path of the entry.
    pub path: Vec<u8>,
    /// Why, in words that name it.
    pub reason: String,
}

/// The reason why a job failed as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fault {
    /// The kind of failure.
    pub kind: ErrorKind,
    /// The message for people.
    pub message: String,
}

/// Bytes of failures in one result.
const FAILURES_BYTES_MAX: usize = 160 << 10;
/// The most bytes of a change beside its path.
const CHANGE_BYTES: usize = 32;
/// Bytes of changes and deletions in one result.
const CHANGES_BYTES_MAX: usize = 80 << 10;
/// The length at which a reason or message is cut, in bytes.
const REASON_BYTES_MAX: usize = 1 << 10;

impl Charge {
    /// Returns the charge as a job, signed with the key of the run. Its name depends on the salt.
    ///
    /// # Errors
    /// The key cannot sign.
    pub(crate) fn job(&self, salt: &[u8], signer: &Identity) -> Result<Job> {
        let charge = encode(self);
        let id = JobId::of(&[b"charge", &charge, salt]);
        let body = encode(&Body::Charge(Signed::by(signer, Purpose::Job(&id), charge)?));
        Ok(Job { id, weight: Weight::default(), body })
    }

    /// Returns the kind of the charge.
    pub(crate) fn kind(&self) -> WorkKind {
        match self {
            Self::Look { .. } => WorkKind::Look,
            Self::Walk { .. } => WorkKind::Walk,
            Self::Finish { .. } => WorkKind::Finish,
            Self::Unmark { .. } => WorkKind::Unmark,
        }
    }
}

impl CopyTask {
    /// Returns the task as a job.
    ///
    /// Its name depends on the salt, which is the state of the files, so that a later invocation knows what is done.
    pub(crate) fn job(&self, weight: Weight, salt: &[u8]) -> Job {
        let body = encode(&Body::Copy(self.clone()));
        Job { id: JobId::of(&[&body, salt]), weight, body }
    }
}

/// Returns whether a worker of a copy may put this job: it is files to copy, and no charge.
pub fn is_copy_task(job: &Job) -> bool {
    matches!(decode(&job.body), Ok(Body::Copy(_)))
}

impl Task {
    /// Reads a job. A charge is read only if the owner of the run's key has signed it for this job.
    ///
    /// # Errors
    /// Fails if the body is not valid work, or a charge of somebody else.
    pub(crate) fn read(job: &Job, key: &PublicKey) -> Result<Self> {
        match decode(&job.body)? {
            Body::Copy(task) => Ok(Self::Copy(task)),
            Body::Charge(signed) => Ok(Self::Charge(decode(signed.open(key, Purpose::Job(&job.id))?)?)),
        }
    }

    /// Returns the kind of the job.
    pub(crate) fn kind(&self) -> WorkKind {
        match self {
            Self::Charge(charge) => charge.kind(),
            Self::Copy(CopyTask::Share(_)) => WorkKind::Share,
            Self::Copy(CopyTask::Range { .. }) => WorkKind::Range,
            Self::Copy(CopyTask::Name(_)) => WorkKind::Name,
        }
    }
}

impl WorkKind {
    /// Returns whether the kind is that of a [`CopyTask`].
    pub(crate) fn is_copy_task(self) -> bool {
        matches!(self, Self::Share | Self::Range | Self::Name)
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

    /// One more entry that a real copy would change, and how, or delete (`None`).
    pub(crate) fn foretell(&mut self, path: Vec<u8>, change: Option<(Change, u64)>) {
        let changes: usize = self.changes.iter().map(|(change, _)| change.path.len() + CHANGE_BYTES).sum();
        let deletions: usize = self.deletions.iter().map(|path| path.len() + CHANGE_BYTES).sum();
        if changes + deletions + path.len() + CHANGE_BYTES > CHANGES_BYTES_MAX {
            self.changes_left_out += 1;
            return;
        }
        match change {
            Some(change) => self.changes.push(change),
            None => self.deletions.push(path),
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

    /// Returns whether a later invocation of the run need not do the job again.
    pub(crate) fn is_lasting(&self) -> bool {
        self.kind.is_copy_task() && self.is_good()
    }

    /// Encodes the report as a result.
    pub(crate) fn encode(&self) -> Vec<u8> {
        encode(self)
    }

    /// Reads a result.
    ///
    /// # Errors
    /// Fails if the result is not a valid report.
    pub(crate) fn read(result: &[u8]) -> Result<Self> {
        decode(result)
    }
}

impl Order {
    /// Returns a root.
    ///
    /// # Errors
    /// Fails if there is no root of this index.
    pub(crate) fn root(&self, index: u32) -> Result<&Root> {
        let root = self.roots.get(index as usize);
        root.ok_or_else(|| FleetError::Protocol("a job names a folder that the run does not have".into()))
    }
}

/// Returns the place that gets a root's contents at a target.
///
/// # Errors
/// Fails if the target is not a place on a far host.
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

/// Parses bytes as each of these types, and encodes the parsed value again; returns whether one of them succeeded.
pub(crate) fn read_any(bytes: &[u8]) -> bool {
    reads_back::<Body>(bytes)
        | reads_back::<Charge>(bytes)
        | reads_back::<Report>(bytes)
        | reads_back::<Order>(bytes)
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
        for number in 0..5000 {
            report.foretell(vec![b'a'; number % 40], None);
        }
        report.fault(ErrorKind::Io, &"é".repeat(5000));
        assert!(
            report.changes_left_out > 0
                && report.deletions.len() > 1000
                && report.failures_left_out > 0
                && !report.failures.is_empty()
                && !report.is_good()
        );
        assert!(report.encode().len() <= RESULT_BYTES_MAX);
        assert_eq!(Report::read(&report.encode()).ok(), Some(report));
    }

    #[test]
    fn a_charge_is_read_as_the_coordinators_job_alone_and_a_load_as_anybodys() {
        let (ours, other) = (Identity::generate().expect("a key"), Identity::generate().expect("a key"));
        let key = ours.public_key();
        let charge = Charge::Walk { root: 0 };
        let job = charge.job(b"salt", &ours).expect("it signs");
        assert_eq!(Task::read(&job, &key).expect("it is ours"), Task::Charge(charge.clone()));
        assert!(!is_copy_task(&job));
        let forged = charge.job(b"salt", &other).expect("it signs");
        assert!(matches!(Task::read(&forged, &key), Err(FleetError::Forged { .. })));
        // The same words under another name would be done a second time.
        let again = Job { id: JobId([7; 16]), ..job };
        assert!(Task::read(&again, &key).is_err());
        let task = CopyTask::Share(Share { root: 0, target: None, paths: vec![b"a".to_vec()] });
        let job = task.job(Weight::default(), b"");
        assert!(is_copy_task(&job) && !is_copy_task(&Job { body: b"?".to_vec(), ..job.clone() }));
        assert_eq!(Task::read(&job, &key).expect("it is valid"), Task::Copy(task));
    }

    #[test]
    fn a_large_file_has_a_job_for_each_range_and_one_for_its_name() {
        let file = Large {
            root: 0,
            target: None,
            path: b"d/large".to_vec(),
            bytes: (5 << 20) + 7,
            modified: (1, 2),
            range_bytes: 2 << 20,
        };
        let jobs: Vec<_> = (0..3).map(|index| file.range(index).expect("it exists")).collect();
        let weight = jobs.iter().fold(file.name().weight, |sum, job| sum.plus(job.weight));
        assert_eq!(weight, Weight { files: 1, bytes: file.bytes });
        assert!(file.range(3).is_err());
        let later = Large { modified: (1, 3), ..file.clone() };
        assert!(later.name().id != file.name().id && later.range(0).is_ok_and(|job| job.id != jobs[0].id));
        assert!(later.identity().is_ok_and(|identity| file.identity().is_ok_and(|other| other != identity)));
        assert!(Large { range_bytes: 1000, ..file }.range(0).is_err());
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
