//! Turns records into requests: acts as the receiving end of a push for a far host that has only an SFTP server.
//!
//! Guarantees: a file gets its name only after every byte of it, its mode and its times were acknowledged; below the
//! target no name that was a link is entered; a batch whose connection is lost can be repeated.

mod attributes;
mod folders;
mod foretell;
mod large;
mod lease;
mod links;
mod naming;
mod order;
mod small;

pub(super) use attributes::metadata;

use std::{
    cell::{Cell, RefCell},
    collections::{BTreeMap, HashMap, HashSet},
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::PathBuf,
    rc::Rc,
    sync::Arc,
};

use crossbeam_channel::Sender;
use futures_util::{
    StreamExt,
    future::{LocalBoxFuture, join},
    lock::Mutex,
    stream::FuturesUnordered,
};
use sealane_sftp::{Access, Attributes, Handle, Request, StatusCode};
use sealane_tree::{Backups, Kind, Metadata, RelativePath, ShownPath, TempName};

use crate::{
    error::Error,
    journal::{Entry as JournalEntry, Identity, Journal, State as JournalState},
    ledger::Ledger,
    options::Ownership,
    proto::{
        entry::{Announcement, Closing, Entry, Pack, decode},
        record::{Header, Kind as RecordKind},
    },
    send::{batch::Body, work::SendFile},
    sftp::{
        far::{Far, Trouble, is_read_only},
        link::{Fault, Link},
        manners::Manners,
        place::{below, parent},
        remains::short_lived,
    },
    summary::{Dropped, Notice},
};

/// The rules for making entries.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) dry_run: bool,
    pub(super) fsync: bool,
    /// Whether newer files of the target stay.
    pub(super) update: bool,
    /// Whether every change is reported.
    pub(super) itemise: bool,
    pub(super) owner: Ownership,
    /// Whether existing folders get the sources' modes.
    pub(super) folder_modes: bool,
    pub(super) backups: Option<Backups>,
    /// The identity of the transfer, if the same command can continue it.
    pub(super) key: Option<u64>,
    /// The name and content of the lease that others find, if the same command can continue the transfer.
    pub(super) lease: Option<(String, Vec<u8>)>,
}

/// A folder of the target.
#[derive(Debug, Default)]
struct Folder {
    state: Mutex<Option<Found>>,
    /// The journal names it as made here: if the answer is lost, the folder may be there.
    is_noted: Cell<bool>,
    /// Its attributes as they were sent.
    sent: RefCell<Option<Metadata>>,
}

#[derive(Clone, Copy, Debug)]
struct Found {
    /// The folder was made here, so it contains only arrived entries.
    is_new: bool,
    /// The folder was made here, or by a copy that was cut off.
    is_made: bool,
    /// The mode before it was made writable.
    original_mode: Option<u32>,
    /// Its attributes before.
    attributes: Option<Attributes>,
}

impl Found {
    /// Returns its former attributes, unless this copy has made it.
    fn known(&self) -> Option<Attributes> {
        self.attributes.filter(|_| !self.is_made)
    }
}

/// The state of the lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Lease {
    /// Nothing unfinished was made.
    #[default]
    Needless,
    /// An unfinished file was made, or is about to be.
    Wanted,
    /// The lease may be there.
    Begun,
}

/// A large file on its way.
struct PutFile {
    number: u32,
    entry: Entry,
    identity: Identity,
    is_growing: bool,
    temp: TempName,
    part: Vec<u8>,
    handles: Mutex<Handles>,
    ledger: RefCell<Ledger>,
    /// The source, if content was taken from it as it was sent.
    source: RefCell<Option<Arc<SendFile>>>,
    /// The size according to the closing record.
    closing: Cell<Option<u64>>,
    is_finishing: Cell<bool>,
    /// The number of tasks whose requests to write it are under way.
    writers: Cell<usize>,
    /// A connection was lost before it answered a request to write it: the server may still carry that out.
    is_unanswered: Cell<bool>,
    /// The server takes its content only from front to back.
    is_in_order: Cell<bool>,
}

#[derive(Default)]
struct Handles {
    is_begun: bool,
    /// The handles by connection.
    open: HashMap<usize, Handle>,
    /// How far the file is written, if that goes from front to back on a single connection.
    written: u64,
}

/// The far target.
pub(super) struct Put {
    pub(super) far: Rc<Far>,
    /// The folder of all paths, for requests to the server.
    pub(super) root: Vec<u8>,
    /// The name of that folder in messages.
    pub(super) shown: PathBuf,
    /// The name of the only source in the target, if it does not keep its own.
    pub(super) sole: Option<Vec<u8>>,
    pub(super) rules: Rules,
    pub(super) journal: Option<Journal>,
    pub(super) resumable: JournalState,
    pub(super) notices: Sender<Notice>,
    folders: RefCell<BTreeMap<Vec<u8>, Rc<Folder>>>,
    files: RefCell<HashMap<u32, Rc<PutFile>>>,
    /// Numbers of files that are finished, failed or abandoned.
    settled: RefCell<Ledger>,
    /// Small entries that are done, or reported as failed, and whose batch is repeated because its connection was lost.
    repeated: RefCell<HashSet<RelativePath>>,
    /// Entries that may have their names: a connection was lost before it answered the request.
    maybe_named: RefCell<HashSet<RelativePath>>,
    /// Files in place that a lost connection may have written since: their times are looked at again in the end.
    late: RefCell<Vec<Entry>>,
    pub(super) lease: Cell<Lease>,
    /// How the server treats links, once that was needed.
    manners: Mutex<Option<Manners>>,
    /// Whether the server takes content only from front to back, once that was needed.
    only_in_order: Mutex<Option<bool>>,
    /// Folders in which it was tried to make something, and the reason if that failed.
    tried: Mutex<Vec<(Vec<u8>, Option<Error>)>>,
    next_temp: Cell<u64>,
    pub(super) entries: Cell<u64>,
    /// Sent entries that did not differ from the existing ones, so nothing was made.
    pub(super) unchanged: Cell<u64>,
    /// The bytes of content that a dry run would send.
    pub(super) foretold_bytes: Cell<u64>,
    pub(super) failed: Cell<u64>,
    pub(super) dropped: Cell<Dropped>,
}

impl Put {
    pub(super) fn new(
        far: &Rc<Far>,
        (root, shown, sole): (Vec<u8>, PathBuf, Option<Vec<u8>>),
        rules: Rules,
        journal: Option<(Journal, JournalState)>,
        notices: Sender<Notice>,
        first_temp: u64,
    ) -> Self {
        let (journal, resumable) =
            journal.map_or_else(Default::default, |(journal, state)| (Some(journal), state));
        Self {
            far: far.clone(),
            root,
            shown,
            sole,
            rules,
            journal,
            resumable,
            notices,
            folders: RefCell::default(),
            files: RefCell::default(),
            settled: RefCell::new(Ledger::new(1 << 32)),
            repeated: RefCell::default(),
            maybe_named: RefCell::default(),
            late: RefCell::default(),
            lease: Cell::default(),
            manners: Mutex::default(),
            only_in_order: Mutex::default(),
            tried: Mutex::default(),
            next_temp: Cell::new(first_temp),
            entries: Cell::new(0),
            unchanged: Cell::new(0),
            foretold_bytes: Cell::new(0),
            failed: Cell::new(0),
            dropped: Cell::default(),
        }
    }

    /// Returns the number of unfinished large files.
    pub(super) fn open_count(&self) -> usize {
        self.files.borrow().len()
    }

    pub(super) fn at(&self, path: &[u8]) -> Vec<u8> {
        below(&self.root, path)
    }

    pub(super) fn shown(&self, path: &[u8]) -> ShownPath {
        self.shown.join(OsStr::from_bytes(path)).into()
    }

    fn notice(&self, notice: Notice) {
        // The receiver of notices is gone only when the transfer is over.
        let _ = self.notices.send(notice);
    }

    /// Reports a journal or lease in the target that an interrupted copy has left.
    pub(super) fn tell_left(&self, name: &[u8]) {
        self.notice(Notice::Left { path: self.shown(name).as_bytes().to_vec() });
    }

    pub(super) fn tell_failed(&self, path: &[u8], reason: String) {
        self.failed.set(self.failed.get() + 1);
        self.notice(Notice::EntryFailed { path: self.shown(path).as_bytes().to_vec(), reason });
    }

    /// Handles the trouble of an entry: returns only troubles that affect others as well.
    fn entry_failed(&self, entry: &Entry, trouble: Trouble) -> Result<(), Trouble> {
        match trouble {
            Trouble::Entry(reason) => {
                let holds_all = self.sole.as_deref() == Some(entry.path.as_bytes());
                if holds_all && entry.kind == Kind::Directory {
                    return Err(Trouble::Fatal(Error::new(crate::ErrorKind::Io, reason)));
                }
                self.tell_failed(entry.path.as_bytes(), reason);
                Ok(())
            }
            trouble => Err(trouble),
        }
    }

    fn entry_done(&self) {
        self.entries.set(self.entries.get() + 1);
    }

    fn entry_unchanged(&self) {
        self.unchanged.set(self.unchanged.get() + 1);
    }

    /// SFTP has no request that sets them.
    fn count_xattrs(&self, sent: &Metadata) {
        let mut dropped = self.dropped.get();
        dropped.xattrs += sent.xattrs.len() as u64;
        self.dropped.set(dropped);
    }

    /// Returns a fault with an entry: the failure of the whole transfer if nothing can be made in the target.
    pub(super) async fn trouble(&self, link: &Link, doing: &str, path: &[u8], fault: Fault) -> Trouble {
        let trouble = self.far.trouble(link, &self.root, doing, self.shown(path), fault).await;
        match trouble {
            Trouble::Entry(_) if self.entries.get() == 0 && !self.rules.dry_run => {
                self.closed_target(link, path).await.unwrap_or(trouble)
            }
            trouble => trouble,
        }
    }

    /// Returns why nothing can be made in the folder that the transfer fills, if that is so. It is tried once.
    async fn closed_target(&self, link: &Link, path: &[u8]) -> Option<Trouble> {
        let path = RelativePath::new(path).ok()?;
        let trial = self.place_for_trial(&path, b"writing").ok()?;
        let folder = parent(&trial);
        let mut tried = self.tried.lock().await;
        if let Some((_, found)) = tried.iter().find(|(at, _)| *at == folder) {
            return found.clone().map(Trouble::Fatal);
        }
        let at = below(&folder, self.new_temp().as_bytes());
        let found = match link.open(&at, Access::Create).await {
            Ok(handle) => {
                let _ = link.act(&Request::Close { handle: &handle }).await;
                let _ = link.act(&Request::Remove { path: &at }).await;
                None
            }
            Err(Fault::Lost) => return Some(Trouble::Lost),
            Err(Fault::Said(status)) => {
                let why = match is_read_only(link, &folder).await {
                    true => "its file system is read-only".to_owned(),
                    false => format!("the server says: {}", status.code),
                };
                let shown = String::from_utf8_lossy(&folder).escape_debug().to_string();
                let message = format!("cannot write to {shown} on {}: {why}", self.far.host);
                Some(Error::new(crate::ErrorKind::Io, message))
            }
        };
        tried.push((folder, found.clone()));
        found.map(Trouble::Fatal)
    }

    /// Returns a temporary name that no other run gives.
    fn new_temp(&self) -> TempName {
        TempName::new(self.next_temp.replace(self.next_temp.get().wrapping_add(1)))
    }

    fn temp(&self, path: &RelativePath) -> Vec<u8> {
        self.temp_for(path, b"")
    }

    /// Returns a temporary name of an entry for another purpose than its arrival.
    fn temp_for(&self, path: &RelativePath, purpose: &[u8]) -> Vec<u8> {
        let temp = match self.rules.key {
            // The same file has the same name, so the remains of a killed run are replaced.
            Some(key) => short_lived(key, path, purpose),
            None => self.new_temp(),
        };
        self.beside(path, &temp)
    }

    fn beside(&self, path: &RelativePath, temp: &TempName) -> Vec<u8> {
        below(&self.at(path.split().0), temp.as_bytes())
    }

    /// Writes the records of a batch to their places.
    pub(super) async fn batch(&self, link: &Link, records: &[(Header, Body<'_>)]) -> Result<(), Trouble> {
        let large: FuturesUnordered<LocalBoxFuture<'_, Result<(), Trouble>>> = FuturesUnordered::new();
        let small: FuturesUnordered<LocalBoxFuture<'_, Result<RelativePath, Trouble>>> =
            FuturesUnordered::new();
        let mut touched: Vec<Rc<PutFile>> = Vec::new();
        let mut rest = records;
        while let Some(&(header, body)) = rest.first() {
            let run = data_run(rest);
            let bytes = body.bytes();
            match header.kind {
                RecordKind::Open => {
                    let announcement: Announcement = decode("announcement", bytes).map_err(own_fault)?;
                    if let Some(file) = self.announce(header.file, announcement) {
                        file.is_in_order.set(self.is_out_of_order(link, &file).await?);
                        match file.is_in_order.get() && file.is_growing {
                            true => self.refuse_growing(link, &file).await?,
                            false => touched.push(file),
                        }
                    }
                }
                RecordKind::Data => {
                    if let Some(file) = self.file(header.file) {
                        large.push(Box::pin(self.data(link, file, &rest[..run])));
                    }
                }
                RecordKind::Hole => {
                    let length: u64 = decode("hole", bytes).map_err(own_fault)?;
                    if let Some(file) = self.file(header.file) {
                        self.arrived(&file, header.offset..header.offset.saturating_add(length), 0)?;
                    }
                }
                RecordKind::Kept => {
                    let length: u64 = decode("kept range", bytes).map_err(own_fault)?;
                    if let Some(file) = self.file(header.file) {
                        self.arrived(&file, header.offset..header.offset.saturating_add(length), 0)?;
                    }
                }
                RecordKind::Close => {
                    let closing: Closing = decode("closing record", bytes).map_err(own_fault)?;
                    if let Some(file) = self.file(header.file) {
                        match closing {
                            Closing::Complete { size_bytes, .. } => file.closing.set(Some(size_bytes)),
                            Closing::Abandoned { .. } => large.push(Box::pin(self.abandon(link, file))),
                        }
                    }
                }
                RecordKind::Pack => {
                    for packed in Pack::new(bytes) {
                        let (entry, content) = packed.map_err(own_fault)?;
                        if !self.repeated.borrow_mut().remove(&entry.path) {
                            small.push(Box::pin(self.entry(link, entry, content)));
                        }
                    }
                }
                // Nobody at an SFTP server would expand them: this end compresses nothing for one.
                RecordKind::CompressedData | RecordKind::CompressedPack => {}
                RecordKind::Copy | RecordKind::Acknowledge => {}
            }
            rest = &rest[run.max(1)..];
        }
        let (large, small) = join(large.collect::<Vec<_>>(), small.collect::<Vec<_>>()).await;
        let mut outcome: Result<(), Trouble> = large.into_iter().collect();
        let mut done = Vec::with_capacity(small.len());
        for small in small {
            match small {
                Ok(path) => done.push(path),
                Err(trouble) => outcome = outcome.and(Err(trouble)),
            }
        }
        for file in touched {
            if outcome.is_ok() {
                outcome = self.finish_if_complete(link, &file).await;
            }
        }
        if outcome.is_err() {
            self.repeated.borrow_mut().extend(done);
        }
        outcome
    }

    fn note(&self, entries: &[JournalEntry]) -> Result<(), Trouble> {
        let Some(journal) = &self.journal else { return Ok(()) };
        let noted = journal.append(entries);
        noted.map_err(|error| Trouble::Fatal(Error::io("cannot write the journal", &error)))
    }

    /// Creates a file under a temporary name. A file of this name from an earlier run is removed.
    async fn create(&self, link: &Link, part: &[u8]) -> Result<Handle, Fault> {
        if self.lease.get() == Lease::Needless {
            self.lease.set(Lease::Wanted);
        }
        match link.open(part, Access::Create).await {
            Err(fault) if fault.code() == Some(StatusCode::Failure) => {
                link.act(&Request::Remove { path: part }).await?;
                link.open(part, Access::Create).await
            }
            opened => opened,
        }
    }
}

/// Returns the number of records at the front that are consecutive data of one file.
fn data_run(records: &[(Header, Body<'_>)]) -> usize {
    let Some(&(first, _)) = records.first() else { return 0 };
    let mut next = first.offset;
    let follows = |&&(header, _): &&(Header, Body<'_>)| {
        let fits = header.kind == RecordKind::Data && header.file == first.file && header.offset == next;
        next = next.wrapping_add(header.body_bytes as u64);
        fits
    };
    records.iter().take_while(follows).count()
}

/// Returns the trouble of a malformed record, a defect of our own because records come from this process.
fn own_fault(error: crate::proto::entry::Malformed) -> Trouble {
    Trouble::Fatal(Error::protocol(error.to_string()))
}
