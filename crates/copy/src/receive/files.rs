//! The files of a transfer at its receiving end.
//!
//! Guarantees: a file gets its name only when every byte of it was written, its closing record has come, and
//! its digest, where one is checked, is right; after [`Files::poison`] no file gets its name any more; the
//! number of files open at once is bounded.

use std::{
    collections::HashMap,
    ffi::OsStr,
    fs::File,
    io::{IoSlice, Write},
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst},
    },
};

use crossbeam_channel::Sender;
use sealane_tree::{
    Differences, EntryType, Kind, PartFile, RelativePath, ShownPath, Target, TempName, Writer,
};

use crate::{
    digest::TreeDigest,
    error::{Error, ErrorKind, chain},
    journal::{Entry as JournalEntry, Journal, State as JournalState},
    ledger::Ledger,
    proto::{
        entry::{Announcement, Closing, Entry},
        record::Header,
    },
    receive::permit::Permit,
    summary::{Change, Dropped, Notice, Progress},
};

/// Where content goes.
#[derive(Debug)]
pub(crate) enum Destination {
    /// Into a tree. `sole` is what its only source is called there, if that is not the source's own choice; `shown`
    /// is what messages call the folder that everything lies in.
    Tree { target: Target, sole: Option<Vec<u8>>, shown: PathBuf },
    /// Nowhere, in a dry run: what is there is compared with what would be sent. `None` where nothing is looked at, or
    /// nothing is there.
    Preview { target: Option<Target>, sole: Option<Vec<u8>>, shown: PathBuf },
    /// To standard output, in order.
    Output(Mutex<File>),
    /// Nowhere: verified and discarded.
    Null,
}

/// What is taken, and what is done with it.
#[derive(Debug)]
pub(crate) struct Intake {
    pub(crate) permit: Permit,
    /// Nothing is replaced by what is older.
    pub(crate) keep_newer: bool,
    /// Every change is told.
    pub(crate) itemise: bool,
    pub(crate) fsync: bool,
    /// Digest what arrives and compare; where records carry no integrity of their own.
    pub(crate) verify_digests: bool,
    /// Large files that may be begun and not finished.
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
    table: Mutex<Table>,
}

/// What was done, for the summary.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) bytes: AtomicU64,
    pub(crate) entries: AtomicU64,
    /// Entries that were as they are sent, so that nothing was made.
    pub(crate) unchanged: AtomicU64,
    pub(crate) failed: AtomicU64,
}

#[derive(Debug)]
struct Table {
    open: HashMap<u32, Arc<ReceiveFile>>,
    /// Numbers of files that are through, one way or the other.
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
    /// What is told once it has its name.
    change: Option<Change>,
    writing: Mutex<()>,
    state: Mutex<FileState>,
}

#[derive(Debug)]
pub(crate) struct FileState {
    pub(crate) ledger: Ledger,
    pub(crate) digest: Option<TreeDigest>,
    closing: Option<([u8; 32], bool, u64)>,
}

/// The fate of a small entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placed {
    /// It was made, or what was there was brought up to date.
    Made,
    /// It was there as it was sent.
    Unchanged,
    /// It failed, which is reported, or something newer stays.
    No,
}

/// The target that a dry run compares with.
#[derive(Debug)]
pub(crate) struct Preview {
    writer: Option<Writer>,
}

/// The change that an entry would make.
#[derive(Debug)]
pub(crate) struct Previewed {
    pub(crate) change: Change,
    /// Something of another kind has its name, and would give way.
    pub(crate) gives_way: bool,
}

impl Preview {
    /// Returns the change that sending an entry would make; `None` if nothing differs, the entry that is there is
    /// newer, or sending would fail, which is told.
    pub(crate) fn look(&mut self, files: &Files, entry: &Entry) -> Result<Option<Previewed>, Error> {
        files.intake.permit.check(entry)?;
        let mut differences = Differences::NEW;
        if let Some(writer) = &mut self.writer {
            if files.would_age(writer, entry) {
                files.unchanged();
                return Ok(None);
            }
            differences = match writer.compare(&entry.path, &entry.kind, &entry.metadata) {
                Ok(differences) => differences,
                Err(error) => return files.entry_failed(entry, error).map(|()| None),
            };
        }
        // The content of a file that is sent differs, or is sent anyway.
        if !differences.any() && entry.kind != Kind::File {
            files.unchanged();
            return Ok(None);
        }
        files.counters.entries.fetch_add(1, Relaxed);
        files.counters.bytes.fetch_add(entry.content_bytes(), Relaxed);
        let gives_way = differences.gives_way;
        Ok(Some(Previewed { change: Change::of(entry, differences), gives_way }))
    }
}

/// A file of which no more is wanted: it is complete, failed or was abandoned.
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
            table: Mutex::new(Table { open: HashMap::new(), settled: Ledger::new(1 << 32) }),
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().expect("no lane panics holding the table of files")
    }

    /// Returns a writer into the tree, if there is one.
    pub(crate) fn writer(&self) -> Option<Writer> {
        match &self.destination {
            Destination::Tree { target, .. } => Some(target.writer()),
            Destination::Preview { .. } | Destination::Output(_) | Destination::Null => None,
        }
    }

    /// Returns the target that a dry run compares with; nothing is made in it.
    pub(crate) fn preview(&self) -> Option<Preview> {
        match &self.destination {
            Destination::Preview { target, .. } => {
                Some(Preview { writer: target.as_ref().map(Target::writer) })
            }
            _ => None,
        }
    }

    /// From now on nothing is kept that is not complete already.
    pub(crate) fn poison(&self) {
        self.poisoned.store(true, SeqCst);
    }

    /// Unfinished files. None may be left when the sender says that it has finished.
    pub(crate) fn open_count(&self) -> usize {
        self.table().open.len()
    }

    /// Drops every unfinished file, with `discard` also what was written of it.
    pub(crate) fn close_all(&self, discard: bool) {
        let open: Vec<_> = self.table().open.drain().collect();
        for (_, file) in open {
            if let (true, Some(part)) = (discard, &file.part) {
                // What cannot be removed now is found by its name later.
                let _ = part.discard();
            }
        }
    }

    /// Returns whether folders were made here, or go back to a run that was cut off.
    pub(crate) fn made_folders(&self) -> bool {
        matches!(&self.destination, Destination::Tree { target, .. } if target.made_directories())
    }

    /// Entries that waited for the names of other things go, and those things stay as they are.
    pub(crate) fn withdraw_successors(&self) {
        if let Destination::Tree { target, .. } = &self.destination {
            target.withdraw_all();
        }
    }

    /// An entry that waited for a name does not get it: something else keeps the name, and this is why.
    pub(crate) fn not_replaced(&self, path: &RelativePath, why: &str) {
        if let Destination::Tree { target, .. } = &self.destination {
            // An entry that cannot be removed takes up room, no more.
            let _ = target.withdraw(path);
        }
        // It was counted when it was made.
        self.counters.entries.fetch_sub(1, Relaxed);
        let shown = self.shown(path.as_bytes());
        let reason = format!("{shown} is of another kind than what was sent, and was not replaced: {why}");
        self.tell_failed(&shown, reason);
    }

    /// A transfer failed that nothing can take up again: folders get the modes they were sent with, or go where only
    /// their names had come.
    pub(crate) fn abandon_folders(&self) {
        if let Destination::Tree { target, .. } = &self.destination {
            target.abandon_directories();
        }
    }

    /// A transfer failed that the same command can go on with: folders that were opened up are closed again.
    pub(crate) fn restore_modes(&self) {
        if let Destination::Tree { target, .. } = &self.destination {
            target.restore_modes();
        }
    }

    /// Everything is in place: what an earlier run began and nobody has gone on with, because it is no longer sent or
    /// another name of it came first, is removed.
    pub(crate) fn discard_abandoned(&self) {
        let Destination::Tree { target, .. } = &self.destination else { return };
        let mut writer = target.writer();
        for (&identity, partial) in &self.resumable.partial {
            if let Ok(path) = RelativePath::new(&partial.path) {
                // What cannot be removed takes up room, no more.
                let _ = writer.discard(&path, &temp_name(identity));
            }
        }
    }

    /// What the target could not keep of what was sent.
    pub(crate) fn dropped(&self) -> Dropped {
        let Destination::Tree { target, .. } = &self.destination else { return Dropped::default() };
        let sealane_tree::Dropped { owners, xattrs, privileges } = target.dropped();
        Dropped { owners, set_ids: privileges, xattrs }
    }

    pub(crate) fn notice(&self, notice: Notice) {
        // The control thread is gone only when the transfer is over.
        let _ = self.notices.send(notice);
    }

    /// One entry failed. A failure of the whole target ends the transfer, and so does one of the folder that all else
    /// lies in.
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
        self.tell_failed(&self.shown(entry.path.as_bytes()), chain(&error));
        Ok(())
    }

    /// A folder could not be given its mode and times.
    pub(crate) fn folder_failed(&self, error: sealane_tree::Error) {
        let error = error.shown_as(|path| self.shown(path.as_bytes()));
        let reason = chain(&error);
        self.tell_failed(&error.into_path().unwrap_or_else(|| self.shown(b"")), reason);
    }

    fn tell_failed(&self, shown: &ShownPath, reason: String) {
        self.counters.failed.fetch_add(1, Relaxed);
        self.notice(Notice::EntryFailed { path: shown.as_bytes().to_vec(), reason });
    }

    /// What the user calls the entry of this path on the wire.
    pub(crate) fn shown(&self, path: &[u8]) -> ShownPath {
        match &self.destination {
            Destination::Tree { shown, .. } | Destination::Preview { shown, .. } => {
                shown.join(OsStr::from_bytes(path)).into()
            }
            Destination::Output(_) | Destination::Null => ShownPath::new(path),
        }
    }

    /// Returns the file of a number that was announced.
    pub(crate) fn lookup(&self, number: u32) -> Result<Lookup, Error> {
        let table = self.table();
        match table.open.get(&number) {
            Some(file) => Ok(Lookup::Open(file.clone())),
            None if is_settled(&table, number) => Ok(Lookup::Settled),
            None => Err(Error::protocol("the sender names a file that it has not announced")),
        }
    }

    /// Returns whether a number was announced.
    pub(crate) fn knows(&self, number: u32) -> bool {
        let table = self.table();
        table.open.contains_key(&number) || is_settled(&table, number)
    }

    /// A large file is announced; the first announcement begins it.
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
        let known = self.resumable.partial.get(&identity);
        let mut writer = writer;
        if writer.as_deref_mut().is_some_and(|writer| self.would_age(writer, &entry)) {
            settle(&mut table, number)?;
            return Ok(Lookup::Settled);
        }
        let change = writer.as_deref_mut().and_then(|writer| self.change(writer, &entry));
        let part = match writer {
            Some(writer) => match self.begin(writer, &entry, growing, identity, known.is_some()) {
                Ok(part) => Some(part),
                Err(error) => {
                    settle(&mut table, number)?;
                    drop(table);
                    self.entry_failed(&entry, error)?;
                    return Ok(Lookup::Settled);
                }
            },
            None => None,
        };
        let size = if growing { u64::MAX } else { entry.metadata.size_bytes };
        let ledger = match known {
            Some(known) if part.is_some() => known.ledger.clone(),
            _ => Ledger::new(size),
        };
        if let (Some(journal), Some(temp), None) =
            (&self.journal, part.as_ref().and_then(PartFile::temp_name), known)
        {
            let started = JournalEntry::Started {
                identity,
                temp_name: temp.as_bytes().to_vec(),
                path: entry.path.as_bytes().to_vec(),
                size,
            };
            journal.append(&[started]).map_err(|error| Error::io("cannot write the journal", &error))?;
        }
        let digest = self.intake.verify_digests.then(|| TreeDigest::new(entry.metadata.size_bytes));
        let state = FileState { ledger, digest, closing: None };
        let file = Arc::new(ReceiveFile {
            number,
            entry,
            identity,
            growing,
            part,
            change,
            writing: Mutex::new(()),
            state: Mutex::new(state),
        });
        table.open.insert(number, file.clone());
        Ok(Lookup::Open(file))
    }

    /// Returns whether the entry would replace what is newer, where that is not to be.
    pub(crate) fn would_age(&self, writer: &mut Writer, entry: &Entry) -> bool {
        let mut modified = |path: &RelativePath| {
            let found = writer.existing(path).ok()??;
            (found.entry_type != EntryType::Directory).then_some(found.metadata.modified)
        };
        let sent = match &entry.kind {
            _ if !self.intake.keep_newer => return false,
            Kind::Directory => return false,
            Kind::HardLink { to } => modified(to),
            Kind::File | Kind::Attributes | Kind::Symlink { .. } => Some(entry.metadata.modified),
        };
        // What is not there is older than anything.
        modified(&entry.path) > sent
    }

    /// Returns the change that replacing a file will make, if changes are told: to be asked before the file is
    /// replaced.
    pub(crate) fn change(&self, writer: &mut Writer, entry: &Entry) -> Option<Change> {
        if !self.intake.itemise {
            return None;
        }
        // Making it will say what is wrong.
        let differences =
            writer.compare(&entry.path, &entry.kind, &entry.metadata).unwrap_or(Differences::NEW);
        Some(Change::of(entry, differences))
    }

    /// Tells a change once it is made.
    pub(crate) fn tell_change(&self, change: Option<Change>) {
        if let Some(change) = change {
            self.notice(Notice::Changed(change));
        }
    }

    /// Something without content is in place, and this was different.
    pub(crate) fn entry_made(&self, entry: &Entry, differences: Differences) -> Placed {
        if !differences.any() {
            self.unchanged();
            return Placed::Unchanged;
        }
        if self.intake.itemise {
            self.notice(Notice::Changed(Change::of(entry, differences)));
        }
        Placed::Made
    }

    /// An entry was sent and is as it was.
    pub(crate) fn unchanged(&self) {
        self.counters.unchanged.fetch_add(1, Relaxed);
        self.progress.files_done.fetch_add(1, Relaxed);
    }

    fn begin(
        &self,
        writer: &mut Writer,
        entry: &Entry,
        growing: bool,
        identity: [u8; 16],
        known: bool,
    ) -> sealane_tree::Result<PartFile> {
        if growing {
            return writer.begin_growing_file(&entry.path);
        }
        let resume = known.then(|| temp_name(identity));
        match (resume, &self.journal) {
            (Some(name), _) => writer.begin_file(&entry.path, &entry.metadata, Some(&name)),
            // A name that the journal can tell us again; what an earlier attempt left under it is written over.
            (None, Some(_)) => {
                let part = writer.begin_file(&entry.path, &entry.metadata, Some(&temp_name(identity)))?;
                if part.resumed_bytes().is_some() {
                    part.zero_at(0, entry.metadata.size_bytes)?;
                }
                Ok(part)
            }
            (None, None) => writer.begin_file(&entry.path, &entry.metadata, None),
        }
    }

    /// The closing record of a file has come.
    pub(crate) fn close(&self, file: &ReceiveFile, closing: Closing) -> Result<(), Error> {
        match closing {
            Closing::Abandoned { .. } => {
                settle(&mut self.table(), file.number)?;
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

    /// Gives the file its name if nothing is missing any more.
    pub(crate) fn finish_if_complete(&self, file: &ReceiveFile) -> Result<(), Error> {
        // The transfer has failed: what is not in place already stays unfinished, and the journal silent about it.
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
            // Some of its content is still being digested by another lane, which will come here.
            Some(None) => return Ok(()),
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
            // At once, so that a record of it that comes twice never finds it neither open nor settled.
            settle(&mut table, file.number)?;
        }
        // It may have become newer while this one was on its way.
        if let (Destination::Tree { target, .. }, Some(part)) = (&self.destination, &file.part)
            && self.would_age(&mut target.writer(), &file.entry)
        {
            let _ = part.discard();
            return Ok(());
        }
        let finished = self.finish(file, size_bytes);
        match finished {
            Ok(()) => {
                self.tell_change(file.change.clone());
                self.entry_done(&file.entry, has_digest.then_some(digest));
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
        // Content that comes twice must not change the times that are given here.
        let _turn = file.writing.lock().expect("no lane panics holding its turn to write");
        part.finish(&metadata, self.intake.fsync)
    }

    /// An entry is in place.
    pub(crate) fn entry_done(&self, entry: &Entry, digest: Option<[u8; 32]>) {
        self.counters.entries.fetch_add(1, Relaxed);
        self.progress.files_done.fetch_add(1, Relaxed);
        if let Some(digest) = digest {
            self.notice(Notice::Digest { path: entry.path.as_bytes().to_vec(), digest });
        }
    }

    /// Files need not be sent again.
    pub(crate) fn journal_done(&self, done: &[JournalEntry]) -> Result<(), Error> {
        let Some(journal) = &self.journal else { return Ok(()) };
        journal.append(done).map_err(|error| Error::io("cannot write the journal", &error))
    }

    /// Returns a directory that has to be opened up gets its mode back in the end, even if this run is killed.
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

    /// Writes records that follow one another in `file`, from `offset` on. False when they are not written, because
    /// the file is finished or has failed; then they must not be noted as there.
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
            // The kernel lets one writer at a time into a file and has the others spin. Waiting here costs no
            // processor, which on the same machine the sender needs.
            let _turn = file.writing.lock().expect("no lane panics holding its turn to write");
            part.write_vectored_at(offset, &slices)
        };
        let Err(error) = written else { return Ok(true) };
        // Content that comes twice, after a cut or a resumption, may find its file finished; and another lane may
        // have found out before this one that the disk is full.
        if self.table().open.contains_key(&file.number) {
            settle(&mut self.table(), file.number)?;
            self.entry_failed(&file.entry, error)?;
        }
        Ok(false)
    }
}

impl ReceiveFile {
    pub(crate) fn state(&self) -> MutexGuard<'_, FileState> {
        self.state.lock().expect("no lane panics holding a file's state")
    }
}

/// Returns the name under which an unfinished file is kept; the same file has the same, so it can be resumed.
pub(crate) fn temp_name(identity: [u8; 16]) -> TempName {
    let [a, b, c, d, e, f, g, h, ..] = identity;
    TempName::new(u64::from_le_bytes([a, b, c, d, e, f, g, h]))
}

fn is_settled(table: &Table, number: u32) -> bool {
    table.settled.contains(u64::from(number))
}

fn settle(table: &mut Table, number: u32) -> Result<(), Error> {
    table.open.remove(&number);
    let number = u64::from(number);
    let settled = table.settled.add(number..number + 1);
    settled.map(|_| ()).map_err(|_| Error::protocol("the sender numbers its files in too wide a disorder"))
}
