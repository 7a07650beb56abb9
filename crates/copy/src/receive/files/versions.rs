//! Versions of files that a receiving end has: their signatures, ranges copied from them, and the digests of what is built.
//!
//! Guarantees: a version is opened only under a path that the sender may write, and stays the file that was opened; what is
//! built is read again as it was written, by several threads while more arrives, and gets its name only if its digest is the
//! sender's; a version that is written meanwhile spoils the file, which is then sent as a whole. The sender can ask for a bounded
//! number of versions and pieces at a time.

use std::{
    collections::{HashMap, VecDeque},
    ops::Range,
    sync::{Arc, Condvar, Mutex, MutexGuard},
    time::Duration,
};

use sealane_delta::{Cut, Key, Span, pack, pieces};
use sealane_lanes::Bells;
use sealane_tree::{Kind, Metadata, OpenFile, RelativePath};

use crate::{
    digest::{GROUP_BYTES, TreeDigest, hash_group},
    error::Error,
    ledger::Ledger,
    proto::{
        entry::{Copied, Entry},
        message::{Message, PIECES_ASKED_MAX, Sign, VERSIONS_MAX},
    },
    receive::lane::Receiving,
    shared,
};

use super::{FileState, Files, ReceiveFile, is_settled};

/// The longest sleep of a thread that has nothing to do.
const LONGEST: Duration = Duration::from_secs(1);
/// The bytes of a file that one thread reads again at once.
const CHECK_BYTES: u64 = 16 << 20;

/// The version of a file.
#[derive(Debug)]
pub(crate) struct Version {
    path: RelativePath,
    open: OpenFile,
}

impl Version {
    /// Returns the file that was opened, if the range of it exists and nobody has written it since.
    ///
    /// # Errors
    /// Fails if there is no such range: the sender knows the size.
    pub(super) fn range(&self, copied: &Copied) -> Result<&OpenFile, Error> {
        let end = copied.from.checked_add(copied.bytes);
        let is_within = end.is_some_and(|end| end <= self.open.metadata().size_bytes);
        match is_within && copied.bytes <= sealane_delta::SPAN_BYTES_MAX {
            true => Ok(&self.open),
            false => Err(Error::protocol("the sender copies what is not in the version of the file here")),
        }
    }

    /// Returns whether nobody has written the version since it was opened.
    pub(super) fn is_unchanged(&self) -> bool {
        self.open.unchanged()
    }
}

/// The ranges of a file that is built of a version, which are read again.
#[derive(Debug)]
pub(crate) struct Checks {
    begun: Vec<bool>,
    size_bytes: u64,
}

impl Checks {
    pub(super) fn new(size_bytes: u64) -> Self {
        Self { begun: vec![false; size_bytes.div_ceil(CHECK_BYTES) as usize], size_bytes }
    }

    /// Returns the ranges about which a new range of the ledger decides: all their bytes are there.
    fn complete(&mut self, ledger: &Ledger, new: &Range<u64>) -> Vec<Range<u64>> {
        let mut complete = Vec::new();
        for number in new.start / CHECK_BYTES..new.end.div_ceil(CHECK_BYTES) {
            let start = number * CHECK_BYTES;
            let range = start..(start + CHECK_BYTES).min(self.size_bytes);
            let Some(begun) = self.begun.get_mut(number as usize).filter(|begun| !**begun) else { continue };
            if ledger.covers(&range) {
                *begun = true;
                complete.push(range);
            }
        }
        complete
    }
}

/// All versions of a receiving end.
#[derive(Debug)]
pub(crate) struct Deltas {
    key: Key,
    state: Mutex<State>,
    work: Condvar,
    control: Arc<Bells>,
}

#[derive(Debug, Default)]
struct State {
    versions: HashMap<u32, Arc<Version>>,
    jobs: VecDeque<Job>,
    pieces_asked: usize,
    outgoing: VecDeque<Message>,
    is_over: bool,
}

#[derive(Debug)]
enum Job {
    Sign { version: Arc<Version>, number: u32, spans: Vec<Span>, pieces: usize },
    Check { file: Arc<ReceiveFile>, range: Range<u64> },
}

impl Deltas {
    /// Returns no versions yet. `control` wakes the control thread.
    pub(crate) fn new(secret: &[u8; 32], control: Arc<Bells>) -> Self {
        Self { key: Key::new(secret), state: Mutex::default(), work: Condvar::new(), control }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics holding the versions")
    }

    /// Opens a version for the sender: that of the path, or of an earlier copy, or the one that was told by this hash.
    pub(crate) fn open(
        &self,
        files: &Files,
        number: u32,
        path: RelativePath,
        elsewhere: Option<[u8; 16]>,
    ) -> Result<(), Error> {
        let untold = || Error::protocol("the sender compares with a file that it was not told of");
        let told = elsewhere.map(|hash| files.movable.path(&hash).ok_or_else(untold)).transpose()?;
        let kind = Kind::File;
        let entry = Entry { path, kind, metadata: Metadata::default(), digest: None };
        files.intake.permit.check(&entry)?;
        let Entry { path, .. } = entry;
        // One that cannot be read is sent as a whole.
        let open = files.writer().and_then(|mut writer| {
            let there = writer.read_existing(told.as_ref().unwrap_or(&path)).ok();
            there.or_else(|| writer.read_basis(&path).filter(|_| told.is_none()))
        });
        let bytes = open.as_ref().map(|open| open.metadata().size_bytes);
        let mut state = self.state();
        if state.versions.len() >= VERSIONS_MAX || state.versions.contains_key(&number) {
            return Err(Error::protocol("the sender compares too many files at once, or one twice"));
        }
        state.outgoing.push_back(Message::VersionSize { file: number, bytes });
        let Some(open) = open else { return Ok(()) };
        let version = Arc::new(Version { path, open });
        state.versions.insert(number, version.clone());
        drop(state);
        // The beginning of the file may have arrived already.
        files.attach(self, number, &version)
    }

    /// Takes a request for a signature.
    pub(crate) fn sign(&self, sign: Sign) -> Result<(), Error> {
        let pieces = sign.pieces_max();
        let pieces =
            pieces.ok_or_else(|| Error::protocol("the sender asks for ranges that make no sense"))?;
        let mut state = self.state();
        let Some(version) = state.versions.get(&sign.file).cloned() else {
            // It may have been settled meanwhile.
            state.outgoing.push_back(Message::Signature { number: sign.number, pieces: None });
            return Ok(());
        };
        let size_bytes = version.open.metadata().size_bytes;
        if sign.spans.iter().any(|span| span.range().end > size_bytes) {
            return Err(Error::protocol("the sender asks for what is not in the version of the file here"));
        }
        state.pieces_asked += pieces;
        if state.pieces_asked > PIECES_ASKED_MAX {
            return Err(Error::protocol("the sender asks for too many signatures at once"));
        }
        let Sign { number, spans, .. } = sign;
        state.jobs.push_back(Job::Sign { version, number, spans, pieces });
        drop(state);
        self.work.notify_one();
        Ok(())
    }

    /// Returns the version that was opened for a file, if it was.
    pub(super) fn version(&self, number: u32, entry: &Entry) -> Result<Option<Arc<Version>>, Error> {
        match self.state().versions.get(&number) {
            Some(version) if version.path != entry.path => {
                Err(Error::protocol("the sender compares a file with the version of another"))
            }
            Some(_) if entry.metadata.size_bytes > sealane_delta::FILE_BYTES_MAX => {
                Err(Error::protocol("the sender compares a file that is too long for it"))
            }
            version => Ok(version.cloned()),
        }
    }

    /// Nothing more is to be done about a file, or it is to be sent `again`. Does nothing if it has no version.
    pub(super) fn settle(&self, number: u32, again: bool) {
        let mut state = self.state();
        if state.versions.remove(&number).is_some() {
            state.outgoing.push_back(Message::Settled { file: number, again });
            drop(state);
            self.control.ring();
        }
    }

    /// Has whatever is complete by a new range read again.
    pub(super) fn check(&self, file: &Arc<ReceiveFile>, new: &Range<u64>) {
        let complete = {
            let mut state = file.state();
            let state = &mut *state;
            state.checks.as_mut().map_or_else(Vec::new, |checks| checks.complete(&state.ledger, new))
        };
        if complete.is_empty() {
            return;
        }
        let mut state = self.state();
        state.jobs.extend(complete.into_iter().map(|range| Job::Check { file: file.clone(), range }));
        drop(state);
        self.work.notify_all();
    }

    /// Returns the next message for the sender.
    pub(crate) fn next_message(&self) -> Option<Message> {
        self.state().outgoing.pop_front()
    }

    /// Ends all work.
    pub(crate) fn stop(&self) {
        self.state().is_over = true;
        self.work.notify_all();
    }

    fn next_job(&self) -> Option<Job> {
        let mut state = self.state();
        loop {
            if state.is_over {
                return None;
            }
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            state = self.work.wait_timeout(state, LONGEST).expect("no thread panics holding the versions").0;
        }
    }

    fn signature(&self, version: &Version, spans: &[Span], room: &mut Vec<u8>) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let mut found = Vec::new();
        for span in spans {
            found.clear();
            let fill = |at: u64, room: &mut [u8]| match version.open.read_at(at, room) {
                Ok(length) if length == room.len() => Ok(()),
                _ => Err(()),
            };
            let ranges: Vec<_> = match span.cut {
                Cut::Grid => vec![span.range()],
                Cut::Content(_) => version.open.extents_within(span.range()).collect(),
            };
            for range in ranges {
                pieces(range, (span.cut, 0), &self.key, room, fill, |piece| found.push(piece)).ok()?;
            }
            pack(span, &found, &mut bytes);
        }
        Some(bytes)
    }
}

impl Files {
    /// Gives a version to a file that was announced before, or answers at once for one that is settled.
    fn attach(&self, deltas: &Deltas, number: u32, version: &Arc<Version>) -> Result<(), Error> {
        let file = {
            let table = self.table();
            if is_settled(&table, number) {
                deltas.settle(number, false);
                return Ok(());
            }
            table.open.get(&number).cloned()
        };
        let Some(file) = file else { return Ok(()) };
        if deltas.version(number, &file.entry)?.is_none() || file.growing || file.part.is_none() {
            return Err(Error::protocol("the sender compares what is no file of a known size"));
        }
        file.state().build_of(&file, version.clone());
        deltas.check(&file, &(0..file.entry.metadata.size_bytes));
        Ok(())
    }

    /// Removes a file that was not built right of its version: the sender sends it again.
    pub(super) fn wrongly_built(&self, file: &ReceiveFile) -> Result<(), Error> {
        let mut table = self.table();
        if !table.open.contains_key(&file.number) {
            return Ok(());
        }
        if let Some(part) = &file.part {
            // One that cannot be removed only occupies space.
            let _ = part.discard();
        }
        if let Some(deltas) = &self.deltas {
            deltas.settle(file.number, true);
        }
        self.settle(&mut table, file.number)
    }

    /// Copies a range of a file from its version. Returns false if it is not copied, because the file is finished or has failed.
    pub(in crate::receive) fn copy(
        &self,
        file: &ReceiveFile,
        to: u64,
        copied: &Copied,
    ) -> Result<bool, Error> {
        let version = file.version.get();
        let version =
            version.ok_or_else(|| Error::protocol("the sender copies of a version that is not open"))?;
        let existing = version.range(copied)?;
        let end = to.checked_add(copied.bytes).filter(|&end| end <= file.entry.metadata.size_bytes);
        let _ = end.ok_or_else(|| Error::protocol("a copied range beyond the end of its file"))?;
        let Some(part) = &file.part else { return Ok(true) };
        if part.is_in_place() && part.is_same(existing) {
            // Whatever is written at a place is what the file is to have there.
            return match copied.from == to {
                true => Ok(true),
                false => Err(Error::protocol("the sender moves parts of a file that is written over")),
            };
        }
        let done = {
            let _turn = file.writing.lock().expect("no lane panics holding its turn to write");
            part.copy_from(existing, copied.from, to, copied.bytes)
        };
        match done {
            Ok(()) if version.is_unchanged() => Ok(true),
            Ok(()) | Err(sealane_tree::Error::Changed { .. }) => self.wrongly_built(file).map(|()| false),
            Err(error) => self.write_failed(file, error).map(|()| false),
        }
    }

    /// Reads a range of an unfinished file as it was written. Returns false if the file is finished or has failed.
    fn read_again(&self, file: &ReceiveFile, at: u64, group: &mut [u8]) -> Result<bool, Error> {
        let Some(part) = &file.part else { return Ok(false) };
        if !self.table().open.contains_key(&file.number) {
            return Ok(false);
        }
        match part.read_at(at, group) {
            Ok(length) if length == group.len() => Ok(true),
            // Somebody has made it shorter.
            Ok(_) => self.wrongly_built(file).map(|()| false),
            Err(error) => self.write_failed(file, error).map(|()| false),
        }
    }

    /// Has what is complete of a file read again, if it is built of a version. `new` was just added to its ledger.
    pub(in crate::receive) fn check(&self, file: &Arc<ReceiveFile>, new: &Range<u64>) {
        if let (Some(deltas), Some(_)) = (&self.deltas, file.version.get()) {
            deltas.check(file, new);
        }
    }
}

impl FileState {
    /// From now on what is there of its file is read again, because it may come of a version.
    pub(super) fn build_of(&mut self, file: &ReceiveFile, version: Arc<Version>) {
        let size_bytes = file.entry.metadata.size_bytes;
        self.digest.get_or_insert_with(|| TreeDigest::new(size_bytes));
        self.checks.get_or_insert_with(|| Checks::new(size_bytes));
        // It is the only one that was opened for this file.
        let _ = file.version.set(version);
    }
}

/// Runs a thread that signs and reads again, until the transfer stops.
pub(crate) fn run(receiving: &Receiving, deltas: &Deltas) {
    let _watch = shared::watch(&receiving.stop, &receiving.bells, &receiving.control);
    let mut room = Vec::new();
    while let Some(job) = deltas.next_job() {
        match job {
            Job::Sign { version, number, spans, pieces } => {
                let signature = deltas.signature(&version, &spans, &mut room);
                let mut state = deltas.state();
                state.pieces_asked -= pieces;
                state.outgoing.push_back(Message::Signature { number, pieces: signature });
                drop(state);
                deltas.control.ring();
            }
            Job::Check { file, range } => {
                if let Err(error) = check(&receiving.files, &file, range, &mut room) {
                    receiving.files.poison();
                    receiving.stop.fail(error, &receiving.bells);
                    receiving.control.ring();
                }
            }
        }
    }
}

/// Digests a range of a file as it was written, and gives the file its name if it was the last.
fn check(files: &Files, file: &ReceiveFile, range: Range<u64>, room: &mut Vec<u8>) -> Result<(), Error> {
    let size_bytes = file.entry.metadata.size_bytes;
    room.resize(GROUP_BYTES, 0);
    for at in range.clone().step_by(GROUP_BYTES) {
        let group = &mut room[..(range.end - at).min(GROUP_BYTES as u64) as usize];
        if !files.read_again(file, at, group)? {
            return Ok(());
        }
        let hash = hash_group(at, group, size_bytes);
        if let Some(digest) = &mut file.state().digest {
            digest.add(hash).map_err(|error| Error::protocol(error.to_string()))?;
        }
    }
    files.finish_if_complete(file)
}
