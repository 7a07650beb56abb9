//! The files of a transfer at its receiving end.
//!
//! Guarantees: a file gets its name only when every byte of it is written, its closing record has arrived, and its
//! digest, if checked, is right; after [`Files::poison`] no file gets its name any more; the number of files open at
//! once is bounded.

mod parts;
pub(crate) mod versions;

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs::File,
    io::{IoSlice, Write},
    ops::Range,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst},
    },
};

use crossbeam_channel::Sender;
use sealane_tree::{
    Differences, Division, EntryType, FileMark, Kind, PartFile, RelativePath, ShownPath, Target, Writer,
};

use crate::{
    digest::TreeDigest,
    error::{Error, ErrorKind},
    journal::{Entry as JournalEntry, Journal, Partial, State as JournalState},
    ledger::Ledger,
    options::{Existing, Piece, Portion, Upkeep, Wishes},
    proto::{
        entry::{Announcement, Closing, Entry},
        record::Header,
    },
    receive::{movable::Movable, permit::Permit, strays::Strays},
    summary::{Change, Dropped, Notice, Progress},
};
use parts::{is_claimed, others, random_number};
use versions::{Checks, Deltas, Version};

/// The destination of content.
#[derive(Debug)]
pub(crate) enum Destination {
    /// Into a tree. `sole` is the name of the only source at the target, unless the source keeps its own; `shown` is
    /// the name of the top folder in messages.
    Tree { target: Target, sole: Option<Vec<u8>>, shown: PathBuf },
    /// Nowhere, in a dry run: the existing entries are compared with those that would be sent. `None` if nothing is
    /// compared, or nothing exists.
    Preview { target: Option<Target>, sole: Option<Vec<u8>>, shown: PathBuf },
    /// Standard output, in order.
    Output(Mutex<File>),
    /// Nowhere: content is verified and discarded.
    Null,
}

/// The user's wishes that a receiving end asks again for each entry.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Treatment {
    /// The entries that are passed over because of what has their names.
    pub(crate) existing: Existing,
    /// Whether newer files of the target stay.
    pub(crate) update: bool,
    /// Whether every change is reported.
    pub(crate) itemise: bool,
    /// The part of the only file that arrives.
    pub(crate) portion: Option<Portion>,
    /// Whether digests are reported.
    pub(crate) digest: bool,
    pub(crate) fsync: bool,
}

impl Treatment {
    pub(crate) fn of(wishes: &Wishes) -> Self {
        let Wishes { update, portion, digest, fsync, upkeep: Upkeep { existing, itemise, .. }, .. } = *wishes;
        Self { existing, update, itemise, portion, digest, fsync }
    }
}

/// The accepted entries, and their treatment.
#[derive(Debug)]
pub(crate) struct Intake {
    pub(crate) permit: Permit,
    pub(crate) treatment: Treatment,
    /// Whether content is digested on arrival and compared, where records carry no integrity tags.
    pub(crate) verify_digests: bool,
    /// Whether records may be compressed.
    pub(crate) compressed: bool,
    /// The maximum number of unfinished large files.
    pub(crate) open_max: usize,
}

/// The receiving end's files.
#[derive(Debug)]
pub(crate) struct Files {
    pub(crate) destination: Destination,
    pub(crate) intake: Intake,
    pub(crate) journal: Option<Journal>,
    pub(crate) resumable: JournalState,
    pub(crate) notices: Sender<Notice>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) counters: Counters,
    pub(crate) poisoned: AtomicBool,
    /// Unfinished files that the search of the target has met.
    pub(crate) strays: Strays,
    /// Files that may have been moved at the source.
    pub(crate) movable: Movable,
    /// The versions of files that are compared, if any may be.
    pub(crate) deltas: Option<Deltas>,
    /// The number of the next unfinished file: from a random one on, so that no other run gives the same name.
    next_part: AtomicU64,
    table: Mutex<Table>,
}

/// Counters for the summary.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) bytes: AtomicU64,
    pub(crate) entries: AtomicU64,
    /// Sent entries that did not differ from the existing ones, so nothing was made.
    pub(crate) unchanged: AtomicU64,
    pub(crate) failed: AtomicU64,
}

#[derive(Debug)]
struct Table {
    open: HashMap<u32, Arc<ReceiveFile>>,
    /// Numbers of files that are finished, failed or abandoned.
    settled: Ledger,
}

/// A large file that is arriving.
#[derive(Debug)]
pub(crate) struct ReceiveFile {
    pub(crate) number: u32,
    pub(crate) entry: Entry,
    pub(crate) identity: [u8; 16],
    growing: bool,
    part: Option<PartFile>,
    /// Whether the part is the one that this end's claims are about.
    is_claimed: bool,
    /// The mark of the unfinished file, until the journal has it.
    pub(super) unnoted: Mutex<Option<FileMark>>,
    /// The change to report once the file has its name.
    change: Option<Change>,
    /// The version that ranges may be copied from.
    pub(super) version: OnceLock<Arc<Version>>,
    writing: Mutex<()>,
    state: Mutex<FileState>,
}

#[derive(Debug)]
pub(crate) struct FileState {
    pub(crate) ledger: Ledger,
    pub(crate) digest: Option<TreeDigest>,
    /// The ranges that are read again, of a file that has a version.
    pub(super) checks: Option<Checks>,
    closing: Option<([u8; 32], bool, u64)>,
}

/// The fate of a small entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// The entry was made, or an existing one was updated.
    Made,
    /// The existing entry did not differ.
    Unchanged,
    /// The entry failed, which is reported, or is passed over.
    No,
}

/// The target that a dry run compares with.
#[derive(Debug)]
pub(crate) struct Preview {
    writer: Option<Writer>,
}

impl Preview {
    /// Returns the change that sending an entry would cause; `None` if nothing differs, the existing entry is newer,
    /// or sending would fail, which is reported.
    pub(crate) fn look(&mut self, files: &Files, entry: &Entry) -> Result<Option<Change>, Error> {
        files.intake.permit.check(entry)?;
        let mut differences = Differences::NEW;
        if let Some(writer) = &mut self.writer {
            if files.passes_over(writer, entry) {
                files.unchanged();
                return Ok(None);
            }
            differences = match writer.compare(&entry.path, &entry.kind, &entry.metadata) {
                Ok(differences) => differences,
                Err(error) => return files.entry_failed(entry, error).map(|()| None),
            };
        }
        // The content of a sent file differs, or is sent anyway.
        let is_missing = self.writer.is_none() && files.intake.treatment.existing.skips_missing;
        if is_missing || (!differences.any() && entry.kind != Kind::File) {
            files.unchanged();
            return Ok(None);
        }
        files.counters.entries.fetch_add(1, Relaxed);
        files.counters.bytes.fetch_add(entry.content_bytes(), Relaxed);
        Ok(Some(Change::of(entry, differences)))
    }
}

/// No more of the file is wanted: it is complete, failed or was abandoned.
#[derive(Debug)]
pub(crate) enum Lookup {
    Open(Arc<ReceiveFile>),
    Settled,
}

impl Files {
    /// Returns an empty table.
    pub(crate) fn new(
        destination: Destination,
        intake: Intake,
        journal: Option<Journal>,
        resumable: JournalState,
        notices: Sender<Notice>,
        progress: Arc<Progress>,
    ) -> Self {
        Self {
            destination,
            intake,
            journal,
            resumable,
            notices,
            progress,
            counters: Counters::default(),
            poisoned: AtomicBool::new(false),
            strays: Strays::default(),
            movable: Movable::default(),
            deltas: None,
            next_part: AtomicU64::new(random_number()),
            table: Mutex::new(Table { open: HashMap::new(), settled: Ledger::new(1 << 32) }),
        }
    }

    /// Files may be compared with the versions that are opened for it.
    pub(crate) fn comparing(self, deltas: Option<Deltas>) -> Self {
        Self { deltas, ..self }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("no lane panics holding the table of files")
    }

    /// No more is wanted of a file.
    fn settle(&self, table: &mut Table, number: u32) -> Result<(), Error> {
        table.open.remove(&number);
        if let Some(deltas) = &self.deltas {
            deltas.settle(number, false);
        }
        let number = u64::from(number);
        let settled = table.settled.add(number..number + 1);
        settled.map(drop).map_err(|_| Error::protocol("the sender numbers its files in too wide a disorder"))
    }

    /// Returns the tree that is written, if there is one.
    pub(crate) fn target(&self) -> Option<&Target> {
        match &self.destination {
            Destination::Tree { target, .. } => Some(target),
            Destination::Preview { .. } | Destination::Output(_) | Destination::Null => None,
        }
    }

    /// Returns a writer into the tree, if there is one.
    pub(crate) fn writer(&self) -> Option<Writer> {
        self.target().map(Target::writer)
    }

    /// Returns the target that a dry run compares with; nothing is created in it.
    pub(crate) fn preview(&self) -> Option<Preview> {
        match &self.destination {
            Destination::Preview { target, .. } => {
                Some(Preview { writer: target.as_ref().map(Target::writer) })
            }
            _ => None,
        }
    }

    /// Lets no file get its name from now on.
    pub(crate) fn poison(&self) {
        self.poisoned.store(true, SeqCst);
    }

    /// Returns the number of unfinished files. The count must be 0 when the sender says that it has finished.
    pub(crate) fn open_count(&self) -> usize {
        self.table().open.len()
    }

    /// Drops every unfinished file, with `discard` also its written content.
    pub(crate) fn close_all(&self, discard: bool) {
        let open: Vec<_> = self.table().open.drain().collect();
        for (_, file) in open {
            if let (true, Some(part)) = (discard, &file.part) {
                // A file that cannot be removed now is found by its name later.
                let _ = part.discard();
            }
        }
    }

    /// Returns whether folders were made here, or by an earlier run that was cut off.
    pub(crate) fn made_folders(&self) -> bool {
        matches!(&self.destination, Destination::Tree { target, .. } if target.made_directories())
    }

    /// Removes entries that waited for the names of others; those others stay as they are.
    pub(crate) fn withdraw_successors(&self) {
        if let Destination::Tree { target, .. } = &self.destination {
            target.withdraw_all();
        }
    }

    /// Reports that an entry does not get the name that it waited for, because another entry keeps the name for the
    /// given reason.
    pub(crate) fn not_replaced(&self, path: &RelativePath, why: &str) {
        if let Destination::Tree { target, .. } = &self.destination {
            // An entry that cannot be removed only occupies space.
            let _ = target.withdraw(path);
        }
        // The entry was counted when it was made.
        self.counters.entries.fetch_sub(1, Relaxed);
        let shown = self.shown(path.as_bytes());
        let reason = format!("{shown} is of another kind than what was sent, and was not replaced: {why}");
        self.tell_failed(&shown, reason);
    }

    /// Finishes the folders of a transfer that failed and cannot be resumed: they get the modes that they were sent
    /// with, or are removed if only their names had arrived.
    pub(crate) fn abandon_folders(&self) {
        if let Destination::Tree { target, .. } = &self.destination {
            target.abandon_directories();
        }
    }

    /// Gives folders that were made writable their modes back, after a transfer that failed and can be resumed.
    pub(crate) fn restore_modes(&self) {
        if let Destination::Tree { target, .. } = &self.destination {
            target.restore_modes();
        }
    }

    /// Returns the properties that the target could not keep.
    pub(crate) fn dropped(&self) -> Dropped {
        let Destination::Tree { target, .. } = &self.destination else { return Dropped::default() };
        target.dropped()
    }

    pub(crate) fn notice(&self, notice: Notice) {
        // The control thread is gone only when the transfer is over.
        let _ = self.notices.send(notice);
    }

    /// Reports a failed entry. A failure of the whole target ends the transfer, and so does a failure of the top
    /// folder.
    pub(crate) fn entry_failed(&self, entry: &Entry, error: sealane_tree::Error) -> Result<(), Error> {
        let error = error.shown_as(|path| self.shown(path.as_bytes()));
        if let Destination::Tree { target, .. } = &self.destination {
            target.mark_incomplete(&entry.path);
        }
        let holds_all = match &self.destination {
            Destination::Tree { sole: Some(name), .. } | Destination::Preview { sole: Some(name), .. } => {
                entry.kind == Kind::Directory && entry.path.as_bytes() == name
            }
            _ => false,
        };
        if holds_all || error.is_fatal() {
            return Err(error.into());
        }
        self.tell_failed(&self.shown(entry.path.as_bytes()), sealane_peer::chain(&error));
        Ok(())
    }

    /// Reports a folder that could not get its mode and times.
    pub(crate) fn folder_failed(&self, error: sealane_tree::Error) {
        let error = error.shown_as(|path| self.shown(path.as_bytes()));
        let reason = sealane_peer::chain(&error);
        self.tell_failed(&error.into_path().unwrap_or_else(|| self.shown(b"")), reason);
    }

    fn tell_failed(&self, shown: &ShownPath, reason: String) {
        self.counters.failed.fetch_add(1, Relaxed);
        self.notice(Notice::EntryFailed { path: shown.as_bytes().to_vec(), reason });
    }

    /// Returns the user's name for the entry of this path on the wire.
    pub(crate) fn shown(&self, path: &[u8]) -> ShownPath {
        match &self.destination {
            Destination::Tree { shown, .. } | Destination::Preview { shown, .. } => {
                shown.join(OsStr::from_bytes(path)).into()
            }
            Destination::Output(_) | Destination::Null => ShownPath::new(path),
        }
    }

    /// Returns the file of an announced number.
    pub(crate) fn lookup(&self, number: u32) -> Result<Lookup, Error> {
        let table = self.table();
        match table.open.get(&number) {
            Some(file) => Ok(Lookup::Open(file.clone())),
            None if is_settled(&table, number) => Ok(Lookup::Settled),
            None => Err(Error::protocol("the sender names a file that it has not announced")),
        }
    }

    /// Returns whether a number has been announced.
    pub(crate) fn knows(&self, number: u32) -> bool {
        let table = self.table();
        table.open.contains_key(&number) || is_settled(&table, number)
    }

    /// Handles the announcement of a large file; the first announcement begins the file.
    pub(crate) fn announce(
        &self,
        number: u32,
        announcement: Announcement,
        writer: Option<&mut Writer>,
    ) -> Result<Lookup, Error> {
        let mut table = self.table();
        if let Some(file) = table.open.get(&number) {
            if file.entry != announcement.entry || file.growing != announcement.growing {
                return Err(Error::protocol("the sender gives one number to two files"));
            }
            return Ok(Lookup::Open(file.clone()));
        }
        if is_settled(&table, number) {
            return Ok(Lookup::Settled);
        }
        if table.open.len() >= self.intake.open_max {
            return Err(Error::protocol("the sender begins too many files at once"));
        }
        let Announcement { entry, growing } = announcement;
        self.intake.permit.check(&entry)?;
        let identity = entry.identity();
        let division = self.division(&entry, growing)?;
        let known = self.resumable.partial.get(&identity).filter(|_| division.is_none());
        let mut writer = writer;
        if writer.as_deref_mut().is_some_and(|writer| self.passes_over(writer, &entry)) {
            self.settle(&mut table, number)?;
            return Ok(Lookup::Settled);
        }
        let change = writer.as_deref_mut().and_then(|writer| self.change(writer, &entry));
        let begun =
            writer.map(|writer| self.begin_part(writer, (&entry, growing), known, division)).transpose()?;
        let (part, is_new) = match begun {
            Some((Ok(part), is_new)) => (Some(part), is_new),
            Some((Err(error), _)) => {
                self.settle(&mut table, number)?;
                drop(table);
                self.entry_failed(&entry, error)?;
                return Ok(Lookup::Settled);
            }
            None => (None, false),
        };
        let size = if growing { u64::MAX } else { entry.metadata.size_bytes };
        let ledger = match division {
            Some((division, piece)) => others(Ledger::new(size), division, piece)?,
            None => Ledger::new(size),
        };
        let is_claimed = known.zip(part.as_ref()).is_some_and(|(known, part)| is_claimed(known, part));
        let mark = match (&part, &self.journal) {
            (Some(part), Some(_)) if is_new => part.mark().ok(),
            _ => None,
        };
        let version = match &self.deltas {
            Some(deltas) if part.is_some() => deltas.version(number, &entry)?,
            _ => None,
        };
        let digest = self.intake.verify_digests.then(|| TreeDigest::new(entry.metadata.size_bytes));
        let state = FileState { ledger, digest, checks: None, closing: None };
        let file = Arc::new(ReceiveFile {
            number,
            entry,
            identity,
            growing,
            part,
            is_claimed,
            unnoted: Mutex::new(mark),
            change,
            version: OnceLock::new(),
            writing: Mutex::new(()),
            state: Mutex::new(state),
        });
        if let Some(version) = version {
            file.state().build_of(&file, version);
        }
        table.open.insert(number, file.clone());
        Ok(Lookup::Open(file))
    }

    /// Begins or continues what the content of a file is written to: the file that is there if that is written over, what is known of an
    /// earlier run, a part of a file that several transfers write, or something new. Returns also whether it is new, in which case
    /// the journal has it.
    fn begin_part(
        &self,
        writer: &mut Writer,
        (entry, growing): (&Entry, bool),
        known: Option<&Partial>,
        division: Option<(Division, Piece)>,
    ) -> Result<(sealane_tree::Result<PartFile>, bool), Error> {
        let temp = self.temp_for(known);
        let is_new = known.is_none() && division.is_none() && !growing;
        let over = match is_new {
            true => writer.begin_over(&entry.path, &entry.metadata),
            false => Ok(None),
        };
        if let Some(over) = over.transpose() {
            return Ok((over, false));
        }
        if let (Some(journal), true) = (&self.journal, is_new) {
            // This comes first, so that a later run knows of the file whenever this one ends.
            let (temp_name, path) = (temp.as_bytes().to_vec(), entry.path.as_bytes().to_vec());
            let (identity, size) = (entry.identity(), entry.metadata.size_bytes);
            let started = JournalEntry::Started { identity, temp_name, path, size };
            journal.append(&[started]).map_err(|error| Error::io("cannot write the journal", &error))?;
        }
        Ok((self.begin(writer, entry, growing, &temp, division), is_new))
    }

    /// Returns whether nothing is to be made of an entry because of what has its name.
    pub(crate) fn passes_over(&self, writer: &mut Writer, entry: &Entry) -> bool {
        let existing = self.intake.treatment.existing;
        if existing.matters() {
            let found = writer.existing(&entry.path).ok().flatten().map(|found| found.entry_type);
            let are_folders = entry.kind == Kind::Directory && found == Some(EntryType::Directory);
            if existing.passes_over(found.is_some(), are_folders) {
                return true;
            }
        }
        self.would_age(writer, entry)
    }

    /// Returns whether the entry would replace a newer one although that is not allowed.
    fn would_age(&self, writer: &mut Writer, entry: &Entry) -> bool {
        let mut modified = |path: &RelativePath| {
            let found = writer.existing(path).ok()??;
            (found.entry_type != EntryType::Directory).then_some(found.metadata.modified)
        };
        let sent = match &entry.kind {
            _ if !self.intake.treatment.update => return false,
            Kind::Directory => return false,
            Kind::HardLink { to } => modified(to),
            Kind::File | Kind::Attributes | Kind::Symlink { .. } | Kind::Special(_) => {
                Some(entry.metadata.modified)
            }
        };
        // A missing entry is older than any other.
        modified(&entry.path) > sent
    }

    /// Returns the change that replacing a file will cause, if changes are reported; call this before the file is
    /// replaced.
    pub(crate) fn change(&self, writer: &mut Writer, entry: &Entry) -> Option<Change> {
        if !self.intake.treatment.itemise {
            return None;
        }
        // An error here is reported when the entry is made.
        let differences =
            writer.compare(&entry.path, &entry.kind, &entry.metadata).unwrap_or(Differences::NEW);
        Some(Change::of(entry, differences))
    }

    /// Reports a change after it is made.
    pub(crate) fn tell_change(&self, change: Option<Change>) {
        if let Some(change) = change {
            self.notice(Notice::Changed(change));
        }
    }

    /// Counts an entry without content that is in place, with these differences.
    pub(crate) fn entry_made(&self, entry: &Entry, differences: Differences) -> Placed {
        if !differences.any() {
            self.unchanged();
            return Placed::Unchanged;
        }
        if self.intake.treatment.itemise {
            self.notice(Notice::Changed(Change::of(entry, differences)));
        }
        Placed::Made
    }

    /// Counts an entry that was sent and did not differ.
    pub(crate) fn unchanged(&self) {
        self.counters.unchanged.fetch_add(1, Relaxed);
        self.progress.files_done.fetch_add(1, Relaxed);
    }

    /// Handles the closing record of a file.
    pub(crate) fn close(&self, file: &ReceiveFile, closing: Closing) -> Result<(), Error> {
        match closing {
            Closing::Abandoned { .. } => {
                self.settle(&mut self.table(), file.number)?;
                if let Some(part) = &file.part {
                    let _ = part.discard();
                }
                Ok(())
            }
            Closing::Complete { size_bytes, digest } => {
                if !file.growing && size_bytes != file.entry.metadata.size_bytes {
                    return Err(Error::protocol(
                        "the sender closes a file with another size than it announced",
                    ));
                }
                file.state().closing = Some((digest.unwrap_or_default(), digest.is_some(), size_bytes));
                self.finish_if_complete(file)
            }
        }
    }

    /// Gives the file its name if nothing is missing.
    pub(crate) fn finish_if_complete(&self, file: &ReceiveFile) -> Result<(), Error> {
        // The transfer has failed: incomplete files stay unfinished, and the journal does not mention them.
        if self.poisoned.load(SeqCst) {
            return Ok(());
        }
        let state = file.state();
        let Some((digest, has_digest, size_bytes)) = state.closing else { return Ok(()) };
        let complete =
            if file.growing { state.ledger.is_exactly(size_bytes) } else { state.ledger.is_complete() };
        if !complete {
            return Ok(());
        }
        let computed = state.digest.as_ref().map(TreeDigest::finish);
        drop(state);
        match computed {
            // Some of its content is still being digested by another lane, which will call this function.
            Some(None) => return Ok(()),
            // The version that it was built of may have been written meanwhile.
            Some(Some(computed)) if file.version.get().is_some() && (!has_digest || computed != digest) => {
                return self.wrongly_built(file);
            }
            Some(Some(computed)) if has_digest && computed != digest => {
                let path = String::from_utf8_lossy(file.entry.path.as_bytes()).into_owned();
                self.poison();
                return Err(Error::new(
                    ErrorKind::Integrity,
                    format!(
                        "{path}: the content that arrived has another digest than the content that was sent"
                    ),
                ));
            }
            _ => {}
        }
        // Two lanes may find the file complete at once; one of them takes it out of the table.
        {
            let mut table = self.table();
            if !table.open.contains_key(&file.number) {
                return Ok(());
            }
            // This happens at once, so that a repeated record never finds the file neither open nor settled.
            self.settle(&mut table, file.number)?;
        }
        // The existing file may have become newer, or have come, meanwhile.
        if let (Destination::Tree { target, .. }, Some(part)) = (&self.destination, &file.part)
            && !part.is_in_place()
            && self.passes_over(&mut target.writer(), &file.entry)
        {
            let _ = part.discard();
            return Ok(());
        }
        let finished = self.finish(file, size_bytes);
        match finished {
            // The transfer that gives the file its name counts it.
            Ok(())
                if matches!(self.intake.treatment.portion, Some(Portion { piece: Piece::Range(_), .. })) =>
            {
                Ok(())
            }
            Ok(()) => {
                self.tell_change(file.change.clone());
                let tells_digest = has_digest && self.intake.treatment.digest;
                self.entry_done(&file.entry, tells_digest.then_some(digest));
                let path = file.entry.path.as_bytes().to_vec();
                self.journal_done(&[JournalEntry::Done { identity: file.identity, path }])
            }
            Err(error) => self.entry_failed(&file.entry, error),
        }
    }

    fn finish(&self, file: &ReceiveFile, size_bytes: u64) -> sealane_tree::Result<()> {
        let Some(part) = &file.part else { return Ok(()) };
        let mut metadata = file.entry.metadata.clone();
        metadata.size_bytes = size_bytes;
        // Repeated content must not change the times that are set here.
        let _turn = file.writing.lock().expect("no lane panics holding its turn to write");
        part.finish(&metadata, self.intake.treatment.fsync)
    }

    /// Counts an entry that is in place.
    pub(crate) fn entry_done(&self, entry: &Entry, digest: Option<[u8; 32]>) {
        self.counters.entries.fetch_add(1, Relaxed);
        self.progress.files_done.fetch_add(1, Relaxed);
        if let Some(digest) = digest {
            self.notice(Notice::Digest { path: entry.path.as_bytes().to_vec(), digest });
        }
    }

    /// Records that files need not be sent again.
    pub(crate) fn journal_done(&self, done: &[JournalEntry]) -> Result<(), Error> {
        let Some(journal) = &self.journal else { return Ok(()) };
        journal.append(done).map_err(|error| Error::io("cannot write the journal", &error))
    }

    /// Writes the mode of a directory that must be made writable into the journal, so that it is restored even if
    /// this run is killed.
    pub(crate) fn journal_mode(&self, writer: &mut Writer, path: &RelativePath) -> Result<(), Error> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let Some(mode) = writer.mode_to_restore(path) else { return Ok(()) };
        let opened = JournalEntry::Opened { mode, path: path.as_bytes().to_vec() };
        journal.append(&[opened]).map_err(|error| Error::io("cannot write the journal", &error))
    }

    /// Writes content to standard output.
    pub(crate) fn output(&self, bytes: &[u8]) -> Result<(), Error> {
        let Destination::Output(output) = &self.destination else { return Ok(()) };
        let mut output = output.lock().expect("no lane panics holding the output");
        output.write_all(bytes).map_err(|error| Error::io("cannot write to standard output", &error))
    }

    /// Makes a hole of `file`. A new file has it already; one that an earlier run began, or that other transfers write
    /// as well, may not. Returns false if the file is finished or has failed.
    pub(crate) fn zero(&self, file: &ReceiveFile, hole: Range<u64>) -> Result<bool, Error> {
        let Some(part) = &file.part else { return Ok(true) };
        if self.intake.treatment.portion.is_none() && part.resumed_bytes().is_none() {
            return Ok(true);
        }
        match part.zero_at(hole.start, hole.end - hole.start) {
            Ok(()) => Ok(true),
            Err(error) => self.write_failed(file, error).map(|()| false),
        }
    }

    /// Writes consecutive records into `file`, from `offset` on. Returns false if they are not written, because the
    /// file is finished or has failed; then they must not be counted as present.
    pub(crate) fn write(
        &self,
        file: &ReceiveFile,
        offset: u64,
        run: &[(&Header, &[u8])],
    ) -> Result<bool, Error> {
        if matches!(self.destination, Destination::Output(_)) {
            return run.iter().try_for_each(|(_, body)| self.output(body)).map(|()| true);
        }
        let Some(part) = &file.part else { return Ok(true) };
        let slices: Vec<IoSlice<'_>> = run.iter().map(|(_, body)| IoSlice::new(body)).collect();
        let written = {
            // The kernel admits one writer per file at a time and lets the others spin. Waiting here uses no
            // processor time, which a sender on the same machine needs.
            let _turn = file.writing.lock().expect("no lane panics holding its turn to write");
            part.write_vectored_at(offset, &slices)
        };
        match written {
            Ok(()) => Ok(true),
            Err(error) => self.write_failed(file, error).map(|()| false),
        }
    }

    fn write_failed(&self, file: &ReceiveFile, error: sealane_tree::Error) -> Result<(), Error> {
        // Repeated content, after a cut or a resumption, may find its file finished; and another lane may have
        // noticed the full disk before this one.
        if self.table().open.contains_key(&file.number) {
            self.settle(&mut self.table(), file.number)?;
            self.entry_failed(&file.entry, error)?;
        }
        Ok(())
    }
}

impl ReceiveFile {
    /// Returns whether a later run could take up what has arrived: not in a file that is written over.
    pub(super) fn is_resumable(&self) -> bool {
        self.part.as_ref().is_none_or(|part| !part.is_in_place())
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, FileState> {
        self.state.lock().expect("no lane panics holding a file's state")
    }
}

fn is_settled(table: &Table, number: u32) -> bool {
    table.settled.contains(u64::from(number))
}
