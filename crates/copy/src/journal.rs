//! The record of a receiving end's progress, with which the same command continues after a crash of either end.
//!
//! If the target's host keeps no journals, the sender keeps one, and a lease in the target, `.sealane-<key>.lease`,
//! tells others that a transfer began unfinished files there, and under which names.
//!
//! A journal is a file in the target directory, `.sealane-<key>.journal`, which only grows while a transfer runs and
//! is removed when it is complete. The key names the transfer; one process holds the journal at a time.
//!
//! Guarantees, once [`Journal::append`] has returned:
//! - when the process is killed, nothing is lost: the entries are in the kernel;
//! - when the kernel crashes or power fails, everything appended before the last [`Journal::sync`] is kept. Later
//!   entries may be lost, always from some entry to the end; never one from the middle. Conversely, an entry may
//!   survive file content that it refers to. Where that matters, sync the content before appending the entry;
//! - a torn or corrupt entry ends the journal, and opening it again cuts that off. The content of lost entries is
//!   transferred again.
//!
//! The names in a journal are returned as they were written. Resolve them below the target like a peer's names.

mod codec;

use std::io;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};
use sealane_tree::Timestamp;

pub use codec::replay_any;
use codec::{COVERED_MAX, MAGIC, Replayer};
#[allow(unused_imports, reason = "the whole vocabulary, whichever part the caller names")]
pub(crate) use codec::{Entry, Identity, NAMES_BYTES_MAX, Partial, State, replay};

/// The end of a lease's name.
const LEASE: &[u8] = b".lease";
/// The maximum number of names in a lease, which is written at once.
const LEASED_MAX: usize = 64;
/// The age from which a lease without content has no writer any more: it gets its content a round trip after its name.
const LEASE_FILLED_SECONDS: i64 = 60;
/// A journal shorter than this is not worth rewriting.
const REWRITE_FROM_BYTES: u64 = 1 << 20;
/// The number of bytes read or written at once.
const PIECE_BYTES: usize = 256 * 1024;
/// The capacity that a buffer for appending keeps between uses.
const BUFFER_KEPT_BYTES: usize = 1 << 20;
/// The number of times that a journal may vanish between opening and locking it.
const OPEN_ATTEMPTS: u32 = 16;

/// The errors of a journal, in addition to the kernel's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum JournalError {
    /// Another transfer with this key writes into this directory.
    #[error("the same transfer is already running into this directory (it holds {name})")]
    InUse {
        /// The journal's file name.
        name: String,
    },
    /// The file was not made by us or by the directory's owner for this purpose.
    #[error("{name} is not a journal of this user; remove it or choose another target")]
    Foreign {
        /// The journal's file name.
        name: String,
    },
    /// Other processes created and removed the journal repeatedly.
    #[error("{name} was replaced again and again while it was opened")]
    Unsettled {
        /// The journal's file name.
        name: String,
    },
    /// An append failed half-way and could not be undone.
    #[error("the journal ends in a torn entry")]
    Torn,
    /// Longer than [`NAMES_BYTES_MAX`].
    #[error("names of {bytes} bytes are too long for a journal")]
    NamesTooLong {
        /// Temporary name and path together.
        bytes: usize,
    },
}

impl JournalError {
    /// Returns the journal's own error within an [`io::Error`], if it is one.
    pub(crate) fn of(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }
}

impl From<JournalError> for io::Error {
    fn from(error: JournalError) -> Self {
        let kind = match error {
            JournalError::InUse { .. } => io::ErrorKind::ResourceBusy,
            JournalError::Foreign { .. } => io::ErrorKind::PermissionDenied,
            JournalError::NamesTooLong { .. } => io::ErrorKind::InvalidInput,
            JournalError::Unsettled { .. } | JournalError::Torn => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

/// A file by which another transfer that is not complete is known in the target.
#[derive(Debug)]
pub(crate) enum Other<'a> {
    /// Its journal, which nobody else holds.
    Journal(&'a Journal),
    /// The lease of one whose journal is at another host.
    Lease,
    /// A lease that does not say yet which names the transfer brings.
    EmptyLease,
}

/// The open journal of a running transfer; no other process can hold it while this value lives.
#[derive(Debug)]
pub(crate) struct Journal {
    directory: OwnedFd,
    name: String,
    file: OwnedFd,
    writer: Mutex<Writer>,
    is_resumed: bool,
    last_written: Timestamp,
}

#[derive(Debug)]
struct Writer {
    buffer: Vec<u8>,
    /// Bytes of the file. No other process writes to it.
    length: u64,
    /// Entries behind a torn one would never be read.
    is_torn: bool,
    /// The length that tells only what the transfer brings.
    empty_bytes: u64,
}

impl Journal {
    /// Opens the journal of the transfer `key` in the target directory, or creates it, and returns its state. A new one
    /// begins with the entries `first`, which are [`covered`] by the transfer: a journal that others find has no content
    /// at all, or says whose it is.
    ///
    /// A torn end is cut off, and a journal that is long for its content is replaced by a compact one.
    ///
    /// # Errors
    /// [`JournalError::InUse`] (of kind [`io::ErrorKind::ResourceBusy`]) while another transfer holds it,
    /// [`JournalError::Foreign`], and errors of the kernel.
    pub(crate) fn open(
        directory: BorrowedFd<'_>,
        key: [u8; 16],
        first: &[Entry],
    ) -> io::Result<(Self, State)> {
        Self::take(directory, key, Some(first))
    }

    /// Opens the journal of `key`, which begins with these entries if it is new; with `None` only one that is there,
    /// and without a change of one that has no content.
    fn take(directory: BorrowedFd<'_>, key: [u8; 16], first: Option<&[Entry]>) -> io::Result<(Self, State)> {
        let name = file_name(key);
        let mut file = open_locked(directory, &name, first.is_some())?;
        let (state, good_bytes) = read(&file)?;
        let mut length = good_bytes;
        let found = rustix::fs::fstat(&file)?;
        let last_written = Timestamp { seconds: found.st_mtime, nanoseconds: found.st_mtime_nsec as u32 };
        if found.st_size as u64 != good_bytes {
            rustix::fs::ftruncate(&file, good_bytes)?;
        }
        let mut empty_bytes = MAGIC.len() as u64;
        if let (0, Some(first)) = (length, first) {
            let mut content = MAGIC.to_vec();
            first.iter().try_for_each(|entry| entry.encode_into(&mut content))?;
            if let Err(error) = write_all(&file, &content) {
                let _ = rustix::fs::ftruncate(&file, 0);
                return Err(error);
            }
            length = content.len() as u64;
            empty_bytes = length;
        }
        if length >= REWRITE_FROM_BYTES && length / 2 >= state.compact_bytes() {
            // If there is no room for a second journal, the long one is used.
            if let Ok((compact, compact_bytes)) = rewrite(directory, &name, &state) {
                (file, length) = (compact, compact_bytes);
            }
        }
        let journal = Self {
            directory: directory.try_clone_to_owned()?,
            name,
            file,
            writer: Mutex::new(Writer { buffer: Vec::new(), length, is_torn: false, empty_bytes }),
            is_resumed: good_bytes > 0,
            last_written,
        };
        Ok((journal, state))
    }

    /// Appends entries, with one write for all of them. Any thread may call this.
    ///
    /// # Errors
    /// Errors of the kernel, for example a full disk: none of the entries is in the journal then, and the journal
    /// remains usable. [`JournalError::NamesTooLong`], with the same consequence. [`JournalError::Torn`] if part of
    /// an entry could not be removed again.
    pub(crate) fn append(&self, entries: &[Entry]) -> io::Result<()> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        if writer.is_torn {
            return Err(JournalError::Torn.into());
        }
        let mut buffer = mem::take(&mut writer.buffer);
        buffer.clear();
        entries.iter().try_for_each(|entry| entry.encode_into(&mut buffer))?;
        let outcome = write_all(&self.file, &buffer);
        match outcome {
            Ok(()) => writer.length += buffer.len() as u64,
            Err(_) => writer.is_torn = rustix::fs::ftruncate(&self.file, writer.length).is_err(),
        }
        buffer.clear();
        buffer.shrink_to(BUFFER_KEPT_BYTES);
        writer.buffer = buffer;
        outcome
    }

    /// Returns whether an earlier run had opened it, and so may have begun to write to the target.
    pub(crate) fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Opens the other journals of the folder that no transfer holds, and the leases, and calls `each` with each of
    /// them, its state and its name. A lease that its writer has never filled is removed once it is old.
    ///
    /// # Errors
    /// Fails if the folder cannot be listed.
    pub(crate) fn others(&self, mut each: impl FnMut(Other<'_>, &State, &str)) -> io::Result<()> {
        let folder = rustix::fs::Dir::read_from(&self.directory)?;
        for found in folder {
            let found = found?;
            let name = found.file_name().to_bytes();
            if !is_file_name(name) || name == self.name.as_bytes() {
                continue;
            }
            let Some((text, key)) = str::from_utf8(name).ok().zip(key_of(name)) else { continue };
            if name.ends_with(LEASE) {
                if let Ok((other, state)) = self.lease(text) {
                    each(other, &state, text);
                }
                continue;
            }
            // One that is in use, or of another user, is none of ours.
            let Ok((other, state)) = Self::take(self.directory.as_fd(), key, None) else { continue };
            each(Other::Journal(&other), &state, text);
        }
        Ok(())
    }

    /// Reads a lease of the folder.
    fn lease(&self, name: &str) -> io::Result<(Other<'static>, State)> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.directory, name, flags, Mode::empty())?;
        let found = rustix::fs::fstat(&file)?;
        let is_empty = found.st_size == 0 && FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
        if is_empty && is_never_filled(found.st_mtime) && is_current(self.directory.as_fd(), name, &file)? {
            rustix::fs::unlinkat(&self.directory, name, AtFlags::empty())?;
            return Err(io::ErrorKind::NotFound.into());
        }
        let (state, _) = read(&file)?;
        Ok((if is_empty { Other::EmptyLease } else { Other::Lease }, state))
    }

    /// Returns when an earlier run, or whoever else, wrote to it last.
    pub(crate) fn last_written(&self) -> Timestamp {
        self.last_written
    }

    /// Returns whether this run created the journal and it is empty. A journal that an earlier run opened means, even
    /// when empty, that the target was made by that run.
    pub(crate) fn is_unused(&self) -> bool {
        let Writer { length, empty_bytes, .. } = *self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        !self.is_resumed && length <= empty_bytes
    }

    /// Removes all entries, but keeps the file: the target was still made by this transfer.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub(crate) fn forget(&self) -> io::Result<()> {
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        rustix::fs::ftruncate(&self.file, writer.empty_bytes)?;
        writer.length = writer.empty_bytes;
        writer.is_torn = false;
        Ok(())
    }

    /// Deletes the journal: the transfer is complete.
    ///
    /// # Errors
    /// Errors of the kernel; a journal that another process removed is no error.
    pub(crate) fn remove(&self) -> io::Result<()> {
        // The file is still locked, so nobody can have begun to use the one that is unlinked.
        if is_current(self.directory.as_fd(), &self.name, &self.file)? {
            rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty())?;
        }
        Ok(())
    }
}

impl AsFd for Journal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Returns the journal's name in the target directory.
pub(crate) fn file_name(key: [u8; 16]) -> String {
    format!(".sealane-{:032x}.journal", u128::from_be_bytes(key))
}

/// Returns the name of the lease of a transfer whose journal is at another host.
pub(crate) fn lease_name(key: [u8; 16]) -> String {
    format!(".sealane-{:032x}.lease", u128::from_be_bytes(key))
}

/// Returns the entries that say which names a transfer brings; none if they are too many for a journal.
pub(crate) fn covered(names: impl Iterator<Item = Vec<u8>>) -> Vec<Entry> {
    let entries: Vec<_> = names.take(COVERED_MAX + 1).map(|path| Entry::Covers { path }).collect();
    if entries.len() <= COVERED_MAX { entries } else { Vec::new() }
}

/// Returns the content of a lease: which names the transfer brings.
pub(crate) fn lease(names: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut content = MAGIC.to_vec();
    for path in names.take(LEASED_MAX) {
        // A name that is too long is left out.
        let _ = Entry::Covers { path }.encode_into(&mut content);
    }
    content
}

/// Returns whether a lease without content, of this time of last change in seconds, has no writer any more. A clock that is
/// wrong costs others no more than the notice that the lease gives.
pub(crate) fn is_never_filled(modified_seconds: i64) -> bool {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_secs();
    i64::try_from(now).is_ok_and(|now| now.saturating_sub(modified_seconds) > LEASE_FILLED_SECONDS)
}

/// Returns whether `name` has the form that [`file_name`] or [`lease_name`] returns.
pub(crate) fn is_file_name(name: &[u8]) -> bool {
    key_of(name).is_some()
}

/// Returns the key of a journal or a lease of this name.
fn key_of(name: &[u8]) -> Option<[u8; 16]> {
    let rest = name.strip_prefix(b".sealane-")?;
    let digits = rest.strip_suffix(b".journal").or_else(|| rest.strip_suffix(LEASE))?;
    let is_key = digits.len() == 32 && digits.iter().all(u8::is_ascii_hexdigit);
    let digits = str::from_utf8(digits).ok().filter(|_| is_key)?;
    u128::from_str_radix(digits, 16).ok().map(u128::to_be_bytes)
}

/// Returns whether a transfer holds the journal in this file at the moment.
pub(crate) fn is_held(file: impl AsFd) -> bool {
    rustix::fs::flock(file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}

/// Opens the journal, or creates it if it `may_create`, and takes its lock.
fn open_locked(directory: BorrowedFd<'_>, name: &str, may_create: bool) -> io::Result<OwnedFd> {
    // Opening does not block, in case the name is a pipe.
    let flags = OFlags::RDWR
        | OFlags::APPEND
        | if may_create { OFlags::CREATE } else { OFlags::empty() }
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    for _ in 0..OPEN_ATTEMPTS {
        let file = retry_on_intr(|| rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR))?;
        if !is_ours(directory, &file)? {
            return Err(JournalError::Foreign { name: name.to_owned() }.into());
        }
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(JournalError::InUse { name: name.to_owned() }.into()),
            Err(error) => return Err(error.into()),
        }
        // Its last holder may have removed or replaced the file after we opened it.
        if is_current(directory, name, &file)? {
            return Ok(file);
        }
    }
    Err(JournalError::Unsettled { name: name.to_owned() }.into())
}

/// Returns whether the file may be trusted and truncated: it is a regular file without another name, and belongs to
/// us or to the directory's owner, who could replace anything in it.
fn is_ours(directory: BorrowedFd<'_>, file: &OwnedFd) -> io::Result<bool> {
    let stat = rustix::fs::fstat(file)?;
    let is_plain = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile && stat.st_nlink <= 1;
    let owner_is_us = stat.st_uid == rustix::process::geteuid().as_raw();
    Ok(is_plain && (owner_is_us || stat.st_uid == rustix::fs::fstat(directory)?.st_uid))
}

/// Returns whether the name still refers to this file.
fn is_current(directory: BorrowedFd<'_>, name: &str, file: &OwnedFd) -> io::Result<bool> {
    let opened = rustix::fs::fstat(file)?;
    match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(named) => Ok((named.st_dev, named.st_ino) == (opened.st_dev, opened.st_ino)),
        Err(Errno::NOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Returns the state of the journal, and the length of its intact part in bytes.
fn read(file: &OwnedFd) -> io::Result<(State, u64)> {
    let mut replayer = Replayer::default();
    // The buffer holds less than one entry between two reads.
    let mut buffer = Vec::new();
    let mut offset = 0;
    while !replayer.stopped {
        let filled = buffer.len();
        buffer.resize(filled + PIECE_BYTES, 0);
        let read_bytes = retry_on_intr(|| rustix::io::pread(file, &mut buffer[filled..], offset))?;
        if read_bytes == 0 {
            break;
        }
        buffer.truncate(filled + read_bytes);
        offset += read_bytes as u64;
        let taken = replayer.feed(&buffer);
        buffer.drain(..taken);
    }
    Ok((replayer.state, replayer.good_bytes))
}

/// Replaces the journal whose lock we hold by a compact one, and returns that, locked, with its length.
fn rewrite(directory: BorrowedFd<'_>, name: &str, state: &State) -> io::Result<(OwnedFd, u64)> {
    let new_name = format!("{name}.new");
    let unlink = || rustix::fs::unlinkat(directory, &new_name, AtFlags::empty());
    // Only the holder of the lock gets here: an existing file was left by a crash.
    match unlink() {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    let flags = OFlags::RDWR
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::EXCL
        | OFlags::NOFOLLOW
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    let file = rustix::fs::openat(directory, &new_name, flags, Mode::RUSR | Mode::WUSR)?;
    let fill_and_rename = || {
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        let length = write_compact(&file, state)?;
        // After a crash there must be the old journal or all of the new one.
        rustix::fs::fdatasync(&file)?;
        rustix::fs::renameat(directory, &new_name, directory, name)?;
        Ok(length)
    };
    match fill_and_rename() {
        Ok(length) => Ok((file, length)),
        Err(error) => {
            // Best effort: the next rewrite removes it as well.
            let _ = unlink();
            Err(error)
        }
    }
}

fn write_compact(file: &OwnedFd, state: &State) -> io::Result<u64> {
    let mut buffer = MAGIC.to_vec();
    let mut length = 0;
    for entry in state.entries() {
        entry.encode_into(&mut buffer)?;
        if buffer.len() >= PIECE_BYTES {
            write_all(file, &buffer)?;
            length += buffer.len() as u64;
            buffer.clear();
        }
    }
    write_all(file, &buffer)?;
    Ok(length + buffer.len() as u64)
}

/// Writes everything, in one call unless the kernel takes less.
fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match retry_on_intr(|| rustix::io::write(file, bytes))? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => bytes = &bytes[written..],
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
