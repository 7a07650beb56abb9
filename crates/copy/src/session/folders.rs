//! The comparison of folders: both ends walk the same tree, and exchange one digest for each folder; only of those that
//! differ is told what is in them.
//!
//! Guarantees: a folder counts as equal only if everything by which its entries and itself are compared is the same at
//! both ends, under a key that nobody knew before; one of which an end could not see everything is equal to nothing. A
//! receiver that lies is sent less, or more, of what it is sent anyway. Both ends remember about 50 bytes per folder, whose
//! number is bounded; of entries the receiver remembers some, within a bound ([`kept`]), and the sender those that differ
//! ([`lists`]).

mod kept;
mod listing;
mod lists;
mod names;

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError, atomic::Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use sealane_engine::record::Secret;
use sealane_tree::{Basis, EntryType, Folders, Metadata, Seen, SeenFolder, Special, Visitor, Xattrs};

use self::{
    kept::{Allowance, Files, Keeping},
    listing::{Listed, Listing, Numbers},
};
pub(crate) use self::{lists::hear_lists, names::tell_names};
use crate::{
    error::{Error, ErrorKind},
    journal::is_file_name,
    options::Preserve,
    proto::{
        entry::{UNKNOWN_ATTRIBUTES, bytes_hash, hash_xattrs},
        message::{FOLDERS_PER_MESSAGE, FolderDigest, HAVE_PER_MESSAGE, Have, Held, Message},
    },
    receive::{movable::Movable, strays::Strays},
    send::equal::Equal,
    session::{control::Control, messages},
    shared::NO_THREAD,
    transfer::known::Knowing,
};

/// The maximum number of folders of a receiver that are compared; the content of others is sent again.
pub(crate) const FOLDERS_MAX: usize = 1 << 22;
/// Folders with more entries are digested by the hashes of their entries, which bounds the memory.
const LONG_ENTRIES: usize = 4096;
/// The number of folders that a thread hands on together.
const TOGETHER: usize = 256;
/// The number of lists that threads hand on at once.
const IN_HAND_MAX: usize = 16;
/// The time between two signs of life.
const PULSE: Duration = Duration::from_millis(500);
/// The digest that is equal to nothing.
const UNKNOWN: [u8; 16] = [0; 16];

/// Whatever folders are compared by.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    key: [u8; 32],
    owner: bool,
    xattrs: Xattrs,
    folder_modes: bool,
    hard_links: bool,
    specials: bool,
}

impl Rules {
    pub(crate) fn new(key: &Secret, preserve: &Preserve) -> Self {
        Self {
            key: *key.expose(),
            owner: preserve.owner.is_wanted(),
            xattrs: preserve.kinds_of_xattrs(),
            folder_modes: preserve.folder_modes,
            hard_links: preserve.hard_links,
            specials: preserve.specials,
        }
    }

    /// Returns what counts where a folder is compared file by file.
    pub(crate) fn knowing(&self) -> Knowing {
        Knowing { with_owner: self.owner, hard_links: self.hard_links, ..Knowing::default() }
    }

    pub(crate) fn xattrs(&self) -> Xattrs {
        self.xattrs
    }
}

/// The facts that a receiver tells of the files in folders that differ.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Telling<'a> {
    pub(crate) knowing: Knowing,
    /// That they may be compared as other versions.
    pub(crate) versions: bool,
    /// That they may have been moved.
    pub(crate) movable: Option<&'a Movable>,
}

/// Ends a search when it is dropped: threads that make it must not outlive the reason for it.
struct Ends<'a>(&'a Folders);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// A folder as one end sees it.
struct Digested {
    root: u32,
    path: Box<[u8]>,
    digest: [u8; 16],
    /// The bytes of its files.
    bytes: u64,
    /// The number of its entries, if none is a folder.
    entries: Option<u32>,
    /// Its files, if they are kept.
    files: Option<Box<Files>>,
}

/// A receiver's notes beside the digests.
struct Notes<'a> {
    /// The list of unfinished files.
    strays: &'a Strays,
    keeping: Keeping<'a>,
}

/// Digests the folders that one thread visits.
struct Digesting<'a> {
    rules: &'a Rules,
    /// None at the sender.
    notes: Option<Notes<'a>>,
    out: Sender<Vec<Digested>>,
    digested: Vec<Digested>,
    encoded: Vec<u8>,
    entries: Vec<(u32, u32)>,
    hashes: Vec<[u8; 16]>,
    bytes: u64,
    count: Option<u32>,
    is_fit: bool,
}

impl<'a> Digesting<'a> {
    fn new(rules: &'a Rules, notes: Option<Notes<'a>>, out: Sender<Vec<Digested>>) -> Self {
        Self {
            rules,
            notes,
            out,
            digested: Vec::new(),
            encoded: Vec::new(),
            entries: Vec::new(),
            hashes: Vec::new(),
            bytes: 0,
            count: Some(0),
            is_fit: true,
        }
    }

    /// The sender's folders are equal to nothing if they have entries that it treats in another way than by comparison.
    fn is_sender(&self) -> bool {
        self.notes.is_none()
    }

    fn hasher(&self) -> blake3::Hasher {
        blake3::Hasher::new_keyed(&self.rules.key)
    }

    /// Replaces encoded entries by their hashes.
    fn shorten(&mut self) {
        for (start, end) in std::mem::take(&mut self.entries) {
            let mut hash = [0; 16];
            let entry = &self.encoded[start as usize..end as usize];
            self.hasher().update(entry).finalize_xof().fill(&mut hash);
            self.hashes.push(hash);
        }
        self.encoded.clear();
    }

    fn encode_metadata(&mut self, metadata: &Metadata, mode: u32) {
        let to = &mut self.encoded;
        to.extend_from_slice(&mode.to_le_bytes());
        to.extend_from_slice(&metadata.modified.seconds.to_le_bytes());
        to.extend_from_slice(&metadata.modified.nanoseconds.to_le_bytes());
        if let Some(owner) = metadata.owner.filter(|_| self.rules.owner) {
            to.extend_from_slice(&owner.uid.to_le_bytes());
            to.extend_from_slice(&owner.gid.to_le_bytes());
        }
        if self.rules.xattrs.any() && !metadata.xattrs.is_empty() {
            let mut hasher = blake3::Hasher::new();
            hash_xattrs(&mut hasher, &metadata.xattrs);
            self.encoded.extend_from_slice(hasher.finalize().as_bytes());
        }
    }

    fn hand_on(&mut self) -> bool {
        self.digested.is_empty() || self.out.send(std::mem::take(&mut self.digested)).is_ok()
    }
}

/// Set-group-id, which a folder inherits from its parent and keeps.
const SET_GROUP_ID: u32 = 0o2000;

impl Visitor for Digesting<'_> {
    fn begin(&mut self, _path: &[u8]) {
        self.encoded.clear();
        self.entries.clear();
        self.hashes.clear();
        (self.bytes, self.count, self.is_fit) = (0, Some(0), true);
        if let Some(notes) = &mut self.notes {
            notes.keeping.begin();
        }
    }

    fn unfinished(&mut self, path: &[u8]) {
        if let Some(notes) = &self.notes {
            notes.strays.saw(path);
        }
    }

    fn entry(&mut self, seen: &Seen<'_>) {
        if is_file_name(seen.name) {
            self.is_fit &= !self.is_sender();
            return;
        }
        let start = self.encoded.len() as u32;
        // A name has at most 255 bytes, and the destination of a link at most 4,095.
        self.encoded.extend_from_slice(&(seen.name.len() as u16).to_le_bytes());
        self.encoded.extend_from_slice(seen.name);
        match seen.entry_type {
            EntryType::Directory => {
                self.encoded.push(b'd');
                self.count = None;
            }
            EntryType::File => {
                self.encoded.push(b'f');
                self.encoded.extend_from_slice(&seen.metadata.size_bytes.to_le_bytes());
                self.encode_metadata(seen.metadata, seen.metadata.mode);
                self.bytes += seen.metadata.size_bytes;
                // Names of one file are found among all entries.
                self.is_fit &= !(self.is_sender() && self.rules.hard_links && seen.links > 1);
                if let Some(notes) = &mut self.notes {
                    notes.keeping.add(seen);
                }
            }
            EntryType::Symlink => {
                self.encoded.push(b'l');
                self.encoded.extend_from_slice(&(seen.target.len() as u16).to_le_bytes());
                self.encoded.extend_from_slice(seen.target);
                self.encode_metadata(seen.metadata, 0);
            }
            EntryType::Other if self.rules.specials => {
                let (letter, numbers) = match seen.special {
                    Some(Special::CharacterDevice { major, minor }) => (b'c', [major, minor]),
                    Some(Special::BlockDevice { major, minor }) => (b'b', [major, minor]),
                    Some(Special::Pipe) => (b'p', [0; 2]),
                    Some(Special::Socket) => (b's', [0; 2]),
                    None => (b'o', [0; 2]),
                };
                self.encoded.push(letter);
                numbers.iter().for_each(|number| self.encoded.extend_from_slice(&number.to_le_bytes()));
                self.encode_metadata(seen.metadata, seen.metadata.mode);
            }
            EntryType::Other => {
                self.encoded.push(b'o');
                self.is_fit &= !self.is_sender();
            }
        }
        self.count = self.count.and_then(|count| count.checked_add(1));
        self.entries.push((start, self.encoded.len() as u32));
        if !self.hashes.is_empty() || self.entries.len() > LONG_ENTRIES {
            self.shorten();
        }
    }

    fn end(&mut self, folder: &SeenFolder<'_>) -> bool {
        let mut digest = UNKNOWN;
        if folder.is_whole && self.is_fit {
            let mut hasher = self.hasher();
            match self.hashes.is_empty() {
                true => {
                    let encoded = &self.encoded;
                    let entry = |&(start, end): &(u32, u32)| &encoded[start as usize..end as usize];
                    self.entries.sort_unstable_by(|one, other| entry(one).cmp(entry(other)));
                    self.entries.iter().for_each(|one| _ = hasher.update(entry(one)));
                }
                false => {
                    self.hashes.sort_unstable();
                    self.hashes.iter().for_each(|hash| _ = hasher.update(hash));
                }
            }
            let count = self.entries.len() + self.hashes.len();
            self.encoded.clear();
            self.encoded.extend_from_slice(&(count as u64).to_le_bytes());
            // The target itself keeps its own attributes.
            if !folder.path.is_empty() {
                let mode = if self.rules.folder_modes { folder.metadata.mode & !SET_GROUP_ID } else { 0 };
                self.encode_metadata(folder.metadata, mode);
            }
            hasher.update(&self.encoded).finalize_xof().fill(&mut digest);
        }
        self.digested.push(Digested {
            root: folder.root,
            path: folder.path.into(),
            digest,
            bytes: self.bytes,
            entries: self.count,
            files: self.notes.as_mut().and_then(|notes| notes.keeping.end()),
        });
        self.digested.len() < TOGETHER || self.hand_on()
    }
}

/// Runs threads that visit the folders, each with its own `work`, while `main` takes what they hand on through this channel.
fn beside<T: Send, R>(
    folders: &Folders,
    threads: u16,
    (out, results): (Sender<T>, Receiver<T>),
    work: impl FnOnce(Sender<T>) + Clone + Send,
    main: impl FnOnce(Receiver<T>) -> Result<R, Error>,
) -> Result<R, Error> {
    thread::scope(|scope| {
        let _ends = Ends(folders);
        for _ in 0..threads.max(1) {
            let (out, work) = (out.clone(), work.clone());
            let started =
                thread::Builder::new().name("folders".into()).spawn_scoped(scope, move || work(out));
            started.map_err(|error| Error::io(NO_THREAD, &error))?;
        }
        drop((out, work));
        main(results)
    })
}

fn cancelled(control: &Control<'_>) -> Result<(), Error> {
    match control.progress.cancel.load(Relaxed) {
        true => Err(Error::new(ErrorKind::Cancelled, "interrupted")),
        false => Ok(()),
    }
}

/// The receiver's part: tells its folders, and then what is in those that differ, and notes unfinished files. `list`
/// returns the search for the folders with these paths.
pub(crate) fn tell(
    control: &mut Control<'_>,
    rules: &Rules,
    all: &Folders,
    list: impl FnOnce(Vec<Vec<u8>>) -> Folders,
    strays: &Strays,
    (threads, telling): (u16, Telling<'_>),
) -> Result<(), Error> {
    let folders = tell_digests(control, rules, all, strays, threads)?;
    let asked = asked(control, folders, telling.movable.is_some())?;
    if asked.is_empty() {
        return Ok(());
    }
    let numbers: Numbers = asked.iter().map(|asked| (asked.path.clone(), asked.number)).collect();
    let (kept, lost): (Vec<_>, Vec<_>) = asked.into_iter().partition(|asked| asked.files.is_some());
    let listed = list(lost.into_iter().map(|asked| asked.path.into()).collect());
    tell_files(control, kept, &listed, &numbers, (threads, telling))
}

/// Tells the digest of each folder, and returns the folders in this order, with their files as far as they are kept.
fn tell_digests(
    control: &mut Control<'_>,
    rules: &Rules,
    all: &Folders,
    strays: &Strays,
    threads: u16,
) -> Result<Vec<Folder>, Error> {
    // The sender begins to look at its own.
    messages::send(control.channel, &Message::Folders(Vec::new()))?;
    let allowance = Allowance::default();
    let digest = |out: Sender<Vec<Digested>>| {
        let notes = Notes { strays, keeping: Keeping::new(&allowance) };
        let mut digesting = Digesting::new(rules, Some(notes), out);
        all.visit(&mut digesting);
        digesting.hand_on();
    };
    beside(all, threads, bounded(IN_HAND_MAX), digest, |results| {
        let mut folders: Vec<Folder> = Vec::new();
        let mut told = Vec::new();
        loop {
            cancelled(control)?;
            let is_late = match results.recv_timeout(PULSE) {
                Ok(digested) => {
                    for Digested { path, digest, files, .. } in digested {
                        if folders.len() < FOLDERS_MAX {
                            told.push(FolderDigest { path: bytes_hash(&path), digest });
                            folders.push((path, files));
                        }
                    }
                    false
                }
                Err(RecvTimeoutError::Timeout) => true,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if is_late || told.len() >= FOLDERS_PER_MESSAGE {
                messages::send(control.channel, &Message::Folders(std::mem::take(&mut told)))?;
            }
        }
        messages::send(control.channel, &Message::Folders(told))?;
        messages::send(control.channel, &Message::FoldersEnd)?;
        Ok(folders)
    })
}

/// Tells the files in folders that differ: those that are kept, and those that are searched once more.
fn tell_files(
    control: &mut Control<'_>,
    kept: Vec<AskedFolder>,
    listed: &Folders,
    numbers: &Numbers,
    (threads, telling): (u16, Telling<'_>),
) -> Result<(), Error> {
    let kept = Mutex::new(kept.into_iter());
    let work = |out: Sender<Listed>| {
        let mut listing = Listing::new(telling, numbers, out);
        let next = || kept.lock().unwrap_or_else(PoisonError::into_inner).next();
        while let Some(AskedFolder { path, files, .. }) = next() {
            listing.begin(&path);
            for (name, metadata) in files.iter().flat_map(|files| files.iter()) {
                listing.file(name, &metadata);
            }
            if !listing.folder_ends() {
                return;
            }
        }
        listed.visit(&mut listing);
        listing.hand_on();
    };
    beside(listed, threads, bounded(IN_HAND_MAX), work, |results| {
        let mut told = Listed::default();
        loop {
            cancelled(control)?;
            let is_late = match results.recv_timeout(PULSE) {
                Ok(listed) => {
                    told.append(listed);
                    false
                }
                Err(RecvTimeoutError::Timeout) => true,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if is_late || told.count() >= HAVE_PER_MESSAGE / 2 {
                let Listed { lists, have } = std::mem::take(&mut told);
                messages::send(control.channel, &Message::Lists(lists))?;
                if have != Have::default() {
                    messages::send(control.channel, &Message::Have(have))?;
                }
            }
        }
        messages::send(control.channel, &Message::Lists(told.lists))?;
        messages::send(control.channel, &Message::Have(told.have))?;
        messages::send(control.channel, &Message::HaveEnd)
    })
}

/// Tells the sender the files of earlier copies, of which it then sends no more than their attributes, or what has changed.
pub(crate) fn tell_bases(
    bases: &[Basis],
    (threads, versions): (u16, bool),
    mut tell: impl FnMut(Message) -> Result<(), Error>,
) -> Result<(), Error> {
    for basis in bases {
        let all = basis.folders();
        let work = |out: Sender<Listed>| {
            let telling = Telling { versions, ..Telling::default() };
            let nothing = Numbers::new();
            let mut listing = Listing::new(telling, &nothing, out);
            all.visit(&mut listing);
            listing.hand_on();
        };
        beside(&all, threads, bounded(IN_HAND_MAX), work, |results| {
            let mut have = Have::default();
            loop {
                let is_late = match results.recv_timeout(PULSE) {
                    Ok(Listed { have: more, .. }) => {
                        // Whether they are as they are to be is decided where they are taken.
                        let unknown = |held| Held { attributes: UNKNOWN_ATTRIBUTES, ..held };
                        have.done.extend(more.done.into_iter().map(unknown));
                        have.versions.extend(more.versions);
                        false
                    }
                    Err(RecvTimeoutError::Timeout) => true,
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                if is_late || have.done.len() >= HAVE_PER_MESSAGE / 2 {
                    tell(Message::Have(std::mem::take(&mut have)))?;
                }
            }
            tell(Message::Have(have))
        })?;
    }
    Ok(())
}

/// A folder's path, and its files, if they are kept.
type Folder = (Box<[u8]>, Option<Box<Files>>);

/// A folder of which the sender wants to know the files.
struct AskedFolder {
    /// Its number; none if the sender does not have it.
    number: Option<u32>,
    path: Box<[u8]>,
    files: Option<Box<Files>>,
}

/// Receives which folders differ, and which the sender does not have, if they matter, and returns these.
fn asked(
    control: &mut Control<'_>,
    folders: Vec<Folder>,
    finds_moved: bool,
) -> Result<Vec<AskedFolder>, Error> {
    let mut folders: Vec<_> = folders.into_iter().map(Some).collect();
    let mut asked = Vec::new();
    let mut take = |numbers: Vec<u32>, next: &mut u32, is_there: bool| {
        for number in numbers {
            let folder = folders.get_mut(number as usize).filter(|_| number >= *next).and_then(Option::take);
            let (path, files) =
                folder.ok_or_else(|| Error::protocol("the sender asks for a folder that is not there"))?;
            asked.push(AskedFolder { number: is_there.then_some(number), path, files });
            *next = number + 1;
        }
        Ok::<_, Error>(())
    };
    let (mut next, mut next_gone) = (0, 0);
    loop {
        cancelled(control)?;
        match messages::receive(control.channel, Instant::now() + control.timeout)?.0 {
            Message::Differ(numbers) => take(numbers, &mut next, true)?,
            Message::Gone(numbers) if finds_moved => take(numbers, &mut next_gone, false)?,
            Message::DifferEnd => return Ok(asked),
            Message::Abort(abort) => return Err(abort.into()),
            _ => return Err(Error::protocol("the sender does not say which folders differ")),
        }
    }
}

/// A sender's folder that the receiver has not told of yet.
struct Mine {
    root: u32,
    /// Its path; none if there are several of that path.
    path: Option<Box<[u8]>>,
    digest: [u8; 16],
    bytes: u64,
    entries: Option<u32>,
}

/// A folder of the sender: the number of its root, and its path.
type OwnFolder = (u32, Box<[u8]>);

/// The folders of which the sender has asked for the files, by their numbers, with its own.
pub(crate) type Asked = HashMap<u32, Option<OwnFolder>>;

/// The state of a comparison at the sender.
#[derive(Default)]
struct Table {
    mine: HashMap<[u8; 16], Mine>,
    theirs: HashMap<[u8; 16], (u32, [u8; 16])>,
    count: usize,
    /// The numbers of the receiver's folders that differ, with the sender's own, if that is known.
    differ: Vec<(u32, Option<OwnFolder>)>,
    equal: Equal,
    /// The folders that only the receiver has matter.
    finds_moved: bool,
}

impl Table {
    fn judge(&mut self, hash: [u8; 16], mine: Mine, (number, digest): (u32, [u8; 16])) {
        if mine.digest == digest && digest != UNKNOWN {
            self.equal.add(mine.root, hash, mine.bytes, mine.entries);
        } else {
            self.differ.push((number, mine.path.map(|path| (mine.root, path))));
        }
    }

    fn add_mine(&mut self, Digested { root, path, digest, bytes, entries, .. }: Digested) {
        let hash = bytes_hash(&path);
        let mut mine = Mine { root, path: Some(path), digest, bytes, entries };
        if let Some(theirs) = self.theirs.remove(&hash) {
            return self.judge(hash, mine, theirs);
        }
        // Two sources with a folder of one path: the receiver's has entries of both.
        if self.mine.contains_key(&hash) {
            (mine.digest, mine.path) = (UNKNOWN, None);
        }
        self.mine.insert(hash, mine);
    }

    fn add_theirs(&mut self, told: Vec<FolderDigest>) -> Result<(), Error> {
        for FolderDigest { path, digest } in told {
            if self.count >= FOLDERS_MAX {
                return Err(Error::protocol("the receiver tells of more folders than can be kept in memory"));
            }
            let theirs = (self.count as u32, digest);
            self.count += 1;
            match self.mine.remove(&path) {
                Some(mine) => self.judge(path, mine, theirs),
                None => drop(self.theirs.insert(path, theirs)),
            }
        }
        Ok(())
    }
}

/// The sender's part, once the receiver has begun to tell its folders: compares them with its own, and asks for what is in
/// those that differ. Returns the equal ones, and those that it has asked for; none if the receiver has nothing to tell.
pub(crate) fn compare(
    control: &mut Control<'_>,
    rules: &Rules,
    own: Option<&Folders>,
    threads: u16,
    finds_moved: bool,
) -> Result<(Equal, Option<Asked>), Error> {
    let mut table = Table { finds_moved, ..Table::default() };
    let Some(own) = own else {
        while hear(control, &mut table)? {}
        // Nothing is known of the sender's own folders: it asks for all.
        table.differ = (0..table.count as u32).map(|number| (number, None)).collect();
        table.theirs.clear();
        return answer(control, table);
    };
    let digest = |out: Sender<Vec<Digested>>| {
        let mut digesting = Digesting::new(rules, None, out);
        own.visit(&mut digesting);
        digesting.hand_on();
    };
    // Until the receiver has told its folders, nobody takes these all the time; together they are what the table remembers.
    let table = beside(own, threads, unbounded(), digest, |results| {
        while hear(control, &mut table)? {
            cancelled(control)?;
            results.try_iter().flatten().for_each(|digested| table.add_mine(digested));
        }
        loop {
            cancelled(control)?;
            match results.recv_timeout(PULSE) {
                Ok(digested) => digested.into_iter().for_each(|digested| table.add_mine(digested)),
                Err(RecvTimeoutError::Timeout) => {
                    messages::send(control.channel, &Message::Differ(Vec::new()))?;
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(table),
            }
        }
    })?;
    answer(control, table)
}

/// Receives a message about the receiver's folders. Returns whether there are more.
fn hear(control: &mut Control<'_>, table: &mut Table) -> Result<bool, Error> {
    match messages::receive(control.channel, Instant::now() + control.timeout)?.0 {
        Message::Folders(told) => table.add_theirs(told).map(|()| true),
        Message::FoldersEnd => Ok(false),
        Message::Abort(abort) => Err(abort.into()),
        _ => Err(Error::protocol("the receiver does not say which folders it has")),
    }
}

/// Asks for what is in the folders that differ.
fn answer(control: &mut Control<'_>, mut table: Table) -> Result<(Equal, Option<Asked>), Error> {
    table.differ.sort_unstable_by_key(|(number, _)| *number);
    for folders in table.differ.chunks(FOLDERS_PER_MESSAGE) {
        let numbers = folders.iter().map(|(number, _)| *number).collect();
        messages::send(control.channel, &Message::Differ(numbers))?;
    }
    let left = table.theirs.values().map(|(number, _)| *number);
    let mut gone: Vec<_> = left.filter(|_| table.finds_moved).collect();
    gone.sort_unstable();
    for numbers in gone.chunks(FOLDERS_PER_MESSAGE) {
        messages::send(control.channel, &Message::Gone(numbers.to_vec()))?;
    }
    messages::send(control.channel, &Message::DifferEnd)?;
    let is_any = !table.differ.is_empty() || !gone.is_empty();
    Ok((table.equal, is_any.then(|| table.differ.into_iter().collect())))
}

#[cfg(test)]
mod tests;
