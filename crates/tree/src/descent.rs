//! Depth-first descent through one directory tree: one `getdents` call per batch of names, no `stat` if the directory
//! names the type, and a memory bound that depends neither on the width nor on the depth of the tree.
//!
//! Only the [`MAX_OPEN`] deepest directories are open. For a directory further up, the descent remembers the position
//! reached in it, and opens it again when it comes back; it must then still be the same directory.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, SeekFrom, Stat, fstat, openat, seek, statat};
use rustix::io::Errno;

use crate::beneath::Beneath;

/// Bytes requested from the kernel per call.
const BATCH_BYTES: usize = 32 * 1024;
/// Directories open at a time.
const MAX_OPEN: usize = 24;

const LIST: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

/// Device and inode, which identify an object whatever its name.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Identity {
    /// Device number.
    pub device: u64,
    /// Inode number on that device.
    pub inode: u64,
}

impl Identity {
    pub(crate) fn of(stat: &Stat) -> Self {
        Self { device: stat.st_dev, inode: stat.st_ino }
    }
}

/// Options of a descent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DescentOptions {
    /// Whether mount points are yielded but not entered.
    pub(crate) one_file_system: bool,
    /// Whether regular files are inspected too.
    pub(crate) inspect_files: bool,
    /// Whether symbolic links are yielded as their destinations, where `Beneath` follows them.
    pub(crate) follow: bool,
}

/// The kind of entry found; its path is in [`Descent::path`] until the next step.
#[derive(Debug)]
pub(crate) enum Found {
    /// A regular file, with its `stat` if the caller asked for that.
    File(Option<Box<Stat>>),
    /// A directory, entered unless it is a mount point that is not to be crossed.
    Directory(Box<Stat>),
    Symlink,
    Other,
    /// An entry that cannot be opened, listed or inspected.
    Failed(Errno),
    /// A symbolic link that was to be followed, but whose destination cannot be reached.
    Unreachable(Errno),
    /// An entry whose name makes the path longer than a path may be.
    TooLong,
}

#[derive(Clone, Copy, Debug)]
struct Name {
    start: u32,
    length: u16,
    file_type: FileType,
    /// The position at which listing goes on after this name.
    next: u64,
}

/// Names listed and not yet visited.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    names: Vec<Name>,
    visited: usize,
}

#[derive(Debug)]
struct Open {
    fd: OwnedFd,
    batch: Batch,
}

#[derive(Debug)]
struct Frame {
    /// Length of the path of this directory, in bytes.
    path_bytes: usize,
    identity: Identity,
    /// The position at which listing goes on.
    position: u64,
    open: Option<Open>,
}

/// A descent under way: the path of the entry found last, and a frame for each directory above it.
#[derive(Debug)]
pub(crate) struct Descent {
    options: DescentOptions,
    root_device: u64,
    path: Vec<u8>,
    frames: Vec<Frame>,
    buffer: Vec<u8>,
    max_path_bytes: usize,
}

impl Descent {
    /// Starts at the root of `beneath`, which is inspected. `max_path_bytes` bounds the paths yielded.
    pub(crate) fn new(
        beneath: &Beneath,
        options: DescentOptions,
        max_path_bytes: usize,
    ) -> Result<(Self, Stat), Errno> {
        Self::below(beneath, b"", options, max_path_bytes)
    }

    /// Starts at the directory `start` below the root; all yielded paths begin with it.
    pub(crate) fn below(
        beneath: &Beneath,
        start: &[u8],
        options: DescentOptions,
        max_path_bytes: usize,
    ) -> Result<(Self, Stat), Errno> {
        let fd = beneath.open(start, LIST)?;
        let stat = fstat(&fd)?;
        let identity = Identity::of(&stat);
        let mut descent = Self {
            options,
            root_device: identity.device,
            path: start.to_vec(),
            frames: Vec::new(),
            buffer: Vec::with_capacity(BATCH_BYTES),
            max_path_bytes,
        };
        descent.enter(fd, identity);
        Ok((descent, stat))
    }

    /// Returns the path, below the root, of the entry found last.
    pub(crate) fn path(&self) -> &[u8] {
        &self.path
    }

    /// Returns the directory found last, if it was entered.
    pub(crate) fn entered(&self) -> Option<&OwnedFd> {
        self.frames
            .last()
            .filter(|frame| frame.path_bytes == self.path.len())?
            .open
            .as_ref()
            .map(|open| &open.fd)
    }

    /// Passes over the entries of the directory found last, if it was entered.
    pub(crate) fn leave(&mut self) {
        self.frames.pop_if(|frame| frame.path_bytes == self.path.len());
    }

    fn enter(&mut self, fd: OwnedFd, identity: Identity) {
        if self.frames.len() >= MAX_OPEN {
            let parked = self.frames.len() - MAX_OPEN;
            self.frames[parked].open = None;
        }
        let open = Some(Open { fd, batch: Batch::default() });
        self.frames.push(Frame { path_bytes: self.path.len(), identity, position: 0, open });
    }

    /// Returns the next entry that `wanted` (called with its path and whether it is a directory) accepts; a directory
    /// comes before its entries.
    pub(crate) fn next(
        &mut self,
        beneath: &Beneath,
        mut wanted: impl FnMut(&[u8], bool) -> bool,
    ) -> Option<Found> {
        loop {
            let name = match self.advance(beneath)? {
                Ok(name) => name,
                Err(found) => return Some(found),
            };
            let open = self.frames.last().and_then(|frame| frame.open.as_ref());
            let folder = &open.expect("the folder that a name is from is open").fd;
            let bytes = &self.path[self.path.len() - usize::from(name.length)..];
            let mut stat = None;
            let mut file_type = name.file_type;
            if file_type == FileType::Unknown
                || (file_type == FileType::RegularFile && self.options.inspect_files)
            {
                match statat(folder, bytes, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(found) => {
                        file_type = FileType::from_raw_mode(found.st_mode);
                        stat = Some(Box::new(found));
                    }
                    // The entry was removed since it was listed, and counts as removed before.
                    Err(Errno::NOENT) => continue,
                    Err(errno) => return Some(Found::Failed(errno)),
                }
            }
            let is_followed = file_type == FileType::Symlink && self.options.follow;
            if is_followed {
                match beneath.open(&self.path, OFlags::PATH).and_then(fstat) {
                    Ok(found) => {
                        file_type = FileType::from_raw_mode(found.st_mode);
                        stat = Some(Box::new(found));
                    }
                    Err(errno) if wanted(&self.path, false) => return Some(Found::Unreachable(errno)),
                    Err(_) => continue,
                }
            }
            if !wanted(&self.path, file_type == FileType::Directory) {
                continue;
            }
            return Some(match file_type {
                FileType::RegularFile => Found::File(stat),
                FileType::Symlink => Found::Symlink,
                FileType::Directory => {
                    let opened = match is_followed {
                        true => beneath.open(&self.path, LIST),
                        false => openat(folder, bytes, LIST, Mode::empty()),
                    };
                    self.found_directory(opened)
                }
                _ => Found::Other,
            });
        }
    }

    /// Goes on to the next name in the deepest folder that has one, which then ends the path. Returns instead what stands in the way.
    fn advance(&mut self, beneath: &Beneath) -> Option<Result<Name, Found>> {
        loop {
            let frame = self.frames.last_mut()?;
            self.path.truncate(frame.path_bytes);
            let open = match &mut frame.open {
                Some(open) => open,
                None => match reopen(beneath, &self.path, frame) {
                    Ok(open) => frame.open.insert(open),
                    Err(errno) => {
                        self.frames.pop();
                        return Some(Err(Found::Failed(errno)));
                    }
                },
            };
            if open.batch.visited == open.batch.names.len() {
                match fill(&open.fd, &mut open.batch, &mut self.buffer) {
                    Ok(true) => {}
                    Ok(false) => {
                        self.frames.pop();
                        continue;
                    }
                    Err(errno) => {
                        self.frames.pop();
                        return Some(Err(Found::Failed(errno)));
                    }
                }
            }
            let name = open.batch.names[open.batch.visited];
            open.batch.visited += 1;
            frame.position = name.next;
            let start = name.start as usize;
            let bytes = &open.batch.bytes[start..start + usize::from(name.length)];
            let separator = usize::from(!self.path.is_empty());
            if self.path.len() + separator + bytes.len() > self.max_path_bytes {
                return Some(Err(Found::TooLong));
            }
            if separator != 0 {
                self.path.push(b'/');
            }
            self.path.extend_from_slice(bytes);
            return Some(Ok(name));
        }
    }

    fn found_directory(&mut self, opened: Result<OwnedFd, Errno>) -> Found {
        let inspected = opened.and_then(|fd| fstat(&fd).map(|stat| (fd, stat)));
        match inspected {
            Ok((fd, stat)) => {
                let identity = Identity::of(&stat);
                // A descent comes back to a directory that it is in only over a link.
                if self.options.follow && self.frames.iter().any(|frame| frame.identity == identity) {
                    return Found::Unreachable(Errno::LOOP);
                }
                if !self.options.one_file_system || identity.device == self.root_device {
                    self.enter(fd, identity);
                }
                Found::Directory(Box::new(stat))
            }
            Err(errno) => Found::Failed(errno),
        }
    }
}

/// Reopens a directory whose descriptor was given up, and seeks to the position at which its listing stopped.
fn reopen(beneath: &Beneath, path: &[u8], frame: &Frame) -> Result<Open, Errno> {
    let fd = beneath.open(path, LIST)?;
    if Identity::of(&fstat(&fd)?) != frame.identity {
        return Err(Errno::STALE);
    }
    seek(&fd, SeekFrom::Start(frame.position))?;
    Ok(Open { fd, batch: Batch::default() })
}

/// Lists the next names; returns false at the end of the directory.
fn fill(fd: &impl AsFd, batch: &mut Batch, buffer: &mut Vec<u8>) -> Result<bool, Errno> {
    batch.bytes.clear();
    batch.names.clear();
    batch.visited = 0;
    buffer.clear();
    let spare: &mut [MaybeUninit<u8>] = buffer.spare_capacity_mut();
    let mut listing = RawDir::new(fd.as_fd(), spare);
    while let Some(entry) = listing.next() {
        let entry = match entry {
            Err(Errno::INTR) => continue,
            entry => entry?,
        };
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            // There are at most BATCH_BYTES of names, each of at most NAME_MAX bytes: both numbers fit.
            batch.names.push(Name {
                start: batch.bytes.len() as u32,
                length: name.len() as u16,
                file_type: entry.file_type(),
                next: entry.next_entry_cookie(),
            });
            batch.bytes.extend_from_slice(name);
        }
        if listing.is_buffer_empty() && !batch.names.is_empty() {
            return Ok(true);
        }
    }
    Ok(!batch.names.is_empty())
}
