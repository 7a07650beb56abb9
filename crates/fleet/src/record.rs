//! The records of a run on the host that coordinates it: a folder with its command, results and status.
//!
//! Guarantees: one process at a time coordinates a run; a reader never sees half a file; results of a finished run
//! are not taken for work of the next one.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use sealane_copy::Options;
use sealane_peer::{Identity, KeyKind};
use serde::{Deserialize, Serialize};

use crate::error::{FleetError, Result};
use crate::journal::Journal;
use crate::queue::{JobId, Outcome};
use crate::work::{Failure, Report, WorkKind};

const PLAN: &str = "plan.json";
const RESULTS: &str = "results";
const STATUS: &str = "status.json";
const STOP: &str = "stop";
const LOCK: &str = "lock";
const KEY: &str = "key";
/// Digits of a run's name.
const DIGITS: usize = 10;

/// The command of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Command {
    /// The command as people read it.
    pub command: String,
    /// The arguments, byte for byte.
    pub words: Vec<Vec<u8>>,
    /// The folder in which the command was given.
    pub folder: Vec<u8>,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Its coordinator is at work.
    #[default]
    Running,
    /// Everything was done.
    Done,
    /// Everything possible was done; some entries failed.
    Incomplete,
    /// A user stopped it, or its coordinator was killed.
    Stopped,
    /// It failed as a whole.
    Failed,
}

/// The status of a run, in numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The name of the run.
    pub run: String,
    /// Its key, for workers that come by themselves; empty for a run of an earlier version.
    #[serde(default)]
    pub key: String,
    /// The state when the status was noted; stopped if nobody coordinates the run any more.
    pub state: State,
    /// Its command, as people read it.
    pub command: String,
    /// Process that coordinates it.
    pub process: u32,
    /// Seconds since this invocation began.
    pub seconds: f64,
    /// The content bytes that the run copied to the targets.
    pub bytes: u64,
    /// The content bytes found so far that are to be copied.
    pub bytes_found: u64,
    /// Files done.
    pub files: u64,
    /// Files found so far.
    pub files_found: u64,
    /// True once all files were found.
    pub walked: bool,
    /// The seconds that are left, once they can be estimated.
    pub seconds_left: Option<f64>,
    /// The number of waiting shares, and of held shares.
    pub waiting: u64,
    /// Shares that movers have in hand.
    pub in_hand: u64,
    /// Movers that are connected.
    pub movers: u64,
    /// Sources that take part.
    pub sources: Vec<String>,
    /// Targets that take part.
    pub targets: Vec<String>,
    /// The hosts that were left out, and the reasons.
    pub left_out: Vec<LeftOut>,
    /// Entries that failed.
    pub failed: u64,
    /// Why it failed as a whole.
    pub error: Option<String>,
}

/// A host that no longer takes part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The host's name for people.
    pub host: String,
    /// Why.
    pub reason: String,
}

/// All runs of a user on this host.
#[derive(Clone, Debug)]
pub struct Runs {
    folder: PathBuf,
}

/// One run.
#[derive(Clone, Debug)]
pub struct Run {
    name: String,
    folder: PathBuf,
}

/// A run that this process coordinates.
#[derive(Debug)]
pub struct Held {
    /// The run whose lock is held.
    pub run: Run,
    /// The lock, held as long as this value lives.
    _lock: File,
}

impl Runs {
    /// Returns the runs below a folder for states.
    pub fn below(state: &Path) -> Self {
        Self { folder: state.join("runs") }
    }

    /// Returns the run of a command: equal commands have the same run.
    pub fn of(&self, parts: &[&[u8]]) -> Run {
        let name = JobId::of(parts).to_string()[..DIGITS].to_owned();
        Run { folder: self.folder.join(&name), name }
    }

    /// Finds a run by its name, or by the start of its name if that is unique.
    ///
    /// # Errors
    /// Fails if there is no such run.
    pub fn find(&self, name: &str) -> Result<Run> {
        let none = || FleetError::NoRun { run: name.to_owned() };
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let found: Vec<_> =
            self.all().into_iter().filter(|run| is_name && run.name.starts_with(name)).collect();
        match <[Run; 1]>::try_from(found) {
            Ok([run]) => Ok(run),
            Err(_) => Err(none()),
        }
    }

    /// Returns all runs, the oldest first.
    pub fn all(&self) -> Vec<Run> {
        let Ok(found) = fs::read_dir(&self.folder) else { return Vec::new() };
        let mut runs: Vec<_> = found
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name().into_string().ok()?;
                let folder = entry.path();
                let began = fs::metadata(folder.join(PLAN)).and_then(|plan| plan.modified()).ok()?;
                Some((began, Run { name, folder }))
            })
            .collect();
        runs.sort_by(|(one, a), (other, b)| (one, &a.name).cmp(&(other, &b.name)));
        runs.into_iter().map(|(_, run)| run).collect()
    }
}

impl Run {
    /// Returns the digits by which commands name the run.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Takes exclusive control of the run, and records its command.
    ///
    /// # Errors
    /// Fails if another process controls it, or the folder cannot be written.
    pub fn hold(self, command: &Command) -> Result<Held> {
        let failed = || FleetError::file("cannot keep the state of the run in", &self.folder);
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder).map_err(failed())?;
        let path = self.folder.join(LOCK);
        let lock = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path);
        let lock = lock.map_err(failed())?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(FleetError::UnderWay { run: self.name });
        }
        let _ = fs::remove_file(self.folder.join(STOP));
        write_whole(&self.folder, PLAN, command)?;
        Ok(Held { run: self, _lock: lock })
    }

    /// True if a process coordinates it.
    pub fn is_held(&self) -> bool {
        let Ok(lock) = File::open(self.folder.join(LOCK)) else { return false };
        flock(&lock, FlockOperation::NonBlockingLockShared).is_err()
    }

    /// Its command.
    ///
    /// # Errors
    /// Fails if the command cannot be read.
    pub fn command(&self) -> Result<Command> {
        read_whole(&self.folder, PLAN)
    }

    /// Its status.
    ///
    /// # Errors
    /// Fails if the status cannot be read.
    pub fn status(&self) -> Result<Status> {
        let mut status: Status = read_whole(&self.folder, STATUS)?;
        if status.state == State::Running && !self.is_held() {
            status.state = State::Stopped;
            status.movers = 0;
        }
        Ok(status)
    }

    /// Calls `each` for every failure of its last invocation.
    ///
    /// # Errors
    /// The results cannot be read.
    pub fn failures(&self, mut each: impl FnMut(&Failure)) -> Result<()> {
        Journal::scan(&self.folder.join(RESULTS), |_, result| {
            let report = Report::read(&result).unwrap_or_default();
            if report.kind == WorkKind::Range {
                return;
            }
            report.failures.iter().for_each(&mut each);
            if report.failures_left_out > 0 {
                let reason = format!("{} more entries failed", report.failures_left_out);
                each(&Failure { path: Vec::new(), reason });
            }
            if let Some(fault) = report.error {
                each(&Failure { path: Vec::new(), reason: fault.message });
            }
        })
    }

    /// Asks its coordinator to end.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn stop(&self) -> Result<()> {
        File::create(self.folder.join(STOP))
            .map(drop)
            .map_err(FleetError::file("cannot write", self.folder.join(STOP)))
    }

    /// Returns whether a user asked for the end.
    pub fn is_stopped(&self) -> bool {
        self.folder.join(STOP).exists()
    }
}

impl Held {
    /// Returns the results that are still valid: those of shares that were done completely, unless the whole run was.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn journal(&self) -> Result<Journal> {
        self.journal_of(|outcome| Report::read(&outcome.result).is_ok_and(|report| report.is_lasting()))
    }

    /// Returns the results that are still valid: those that `keep` accepts, unless the whole run was done.
    ///
    /// # Errors
    /// They cannot be read.
    pub(crate) fn journal_of(&self, keep: impl FnMut(&Outcome) -> bool) -> Result<Journal> {
        let path = self.run.folder.join(RESULTS);
        let before: Option<Status> = read_whole(&self.run.folder, STATUS).ok();
        if before.is_some_and(|status| status.state == State::Done) {
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(FleetError::file("cannot begin anew", path)(error));
                }
                _ => {}
            }
        }
        Journal::open(&path, keep)
    }

    /// Returns the key of the run, with which its coordinator signs orders; it is made when the run begins for the
    /// first time, of the kind of the user's own identity.
    ///
    /// # Errors
    /// It cannot be read or made.
    pub fn key(&self, options: &Options) -> Result<Identity> {
        let path = self.run.folder.join(KEY);
        let own = match (&options.remote.identity, &options.remote.config_dir) {
            (Some(file), _) => Some(file.clone()),
            (None, folder) => folder.as_ref().map(|folder| folder.join(Identity::FILE_NAME)),
        };
        // A run needs no identity of the user: without one its key is of the usual kind.
        let kind = own.and_then(|file| Identity::public_key_in(&file).ok()).map(|key| key.kind());
        match (kind, path.exists()) {
            (Some(KeyKind::Hybrid), false) => Ok(Identity::load_or_create_hybrid(&path)?),
            _ => Ok(Identity::load_or_create(&path)?),
        }
    }

    /// Records the status.
    ///
    /// # Errors
    /// Fails if the status cannot be written.
    pub fn note(&self, status: &Status) -> Result<()> {
        write_whole(&self.run.folder, STATUS, status)
    }
}

impl Command {
    /// Returns the command of this program, such as `sealane cp`, with these arguments.
    pub fn new(program: &str, words: Vec<Vec<u8>>, folder: &Path) -> Self {
        let shown = |word: &Vec<u8>| {
            let text = String::from_utf8_lossy(word);
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:@%+=,".contains(&byte);
            match !text.is_empty() && text.bytes().all(is_plain) {
                true => text.into_owned(),
                false => format!("'{}'", text.replace('\'', r"'\''")),
            }
        };
        let words_shown: Vec<_> = words.iter().map(shown).collect();
        let command = format!("{program} {}", words_shown.join(" "));
        Self { command, words, folder: folder.as_os_str().as_bytes().to_vec() }
    }

    /// Returns the folder in which the command was given.
    pub fn folder(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.folder))
    }
}

fn write_whole<T: Serialize>(folder: &Path, name: &str, value: &T) -> Result<()> {
    let path = folder.join(name);
    let fresh = folder.join(format!("{name}.new"));
    let text = serde_json::to_vec(value).expect("these have no part that cannot be written");
    let open = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh);
    let written = open.and_then(|mut file| file.write_all(&text)).and_then(|()| fs::rename(&fresh, &path));
    written.map_err(FleetError::file("cannot write", path))
}

fn read_whole<T: for<'a> Deserialize<'a>>(folder: &Path, name: &str) -> Result<T> {
    let path = folder.join(name);
    let failed = || FleetError::file("cannot read", &path);
    let text = fs::read(&path).map_err(failed())?;
    serde_json::from_slice(&text).map_err(|error| failed()(io::Error::other(error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_at_a_time_has_a_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let runs = Runs::below(folder.path());
        let command = Command::new("sealane cp", vec![b"-r".to_vec(), b"a b".to_vec()], Path::new("/"));
        assert_eq!(command.command, "sealane cp -r 'a b'");
        let run = runs.of(&[b"one"]);
        let held = run.clone().hold(&command).expect("nobody has it");
        assert!(run.is_held() && runs.find(run.name()).is_ok() && runs.find("").is_err());
        assert!(matches!(run.clone().hold(&command), Err(FleetError::UnderWay { .. })));
        held.note(&Status { state: State::Running, ..Status::default() }).expect("room");
        assert_eq!(run.status().expect("it was noted").state, State::Running);
        drop(held);
        assert_eq!(run.status().expect("it was noted").state, State::Stopped);
        assert_eq!(run.command().expect("it was noted"), command);
    }

    #[test]
    fn what_failed_is_done_again_and_what_was_done_is_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let run = Runs::below(folder.path()).of(&[b"one"]);
        let command = Command::new("sealane cp", Vec::new(), Path::new("/"));
        let held = run.clone().hold(&command).expect("nobody has it");
        let mut journal = held.journal().expect("a journal");
        let mut bad = Report::default();
        bad.fail(b"x".to_vec(), "no");
        journal.append(JobId([1; 16]), &Report::default().encode()).expect("room");
        journal.append(JobId([2; 16]), &bad.encode()).expect("room");
        let failed = |run: &Run| {
            let mut all = Vec::new();
            run.failures(|failure| all.push(failure.path.clone())).expect("readable");
            all
        };
        assert_eq!(failed(&run), [b"x"]);
        let mut journal = held.journal().expect("a journal");
        assert!(journal.has(&JobId([1; 16])) && !journal.has(&JobId([2; 16])));
        journal.append(JobId([2; 16]), &Report::default().encode()).expect("room");
        assert!(failed(&run).is_empty());
        held.note(&Status { state: State::Done, ..Status::default() }).expect("room");
        assert!(!held.journal().expect("a journal").has(&JobId([1; 16])));
    }
}
