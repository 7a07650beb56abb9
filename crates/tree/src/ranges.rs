//! A large file that several processes write together, on one host or on hosts that share a file system: each writes
//! ranges into the same temporary file.
//!
//! Behind the content, from the next whole MiB on, the temporary file has a place for a mark of every range, 64 KiB
//! apart, so that no page of memory holds the marks of two writers. A mark is written when the bytes of its range are
//! on stable storage.
//!
//! Guarantees: the file gets its name only when it has the marks of all ranges; whoever removes the temporary file
//! removes the marks too, so a file that was begun anew is never taken for a complete one; nothing here shortens a
//! file or clears a range, so writers of the same range do no harm to each other as long as they write the same bytes.

use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::fs::{
    AtFlags, FlockOperation, Mode, OFlags, fdatasync, flock, fstat, ftruncate, openat, statat, unlinkat,
};
use rustix::io::{Errno, pread, pwrite};

use crate::beneath::Parent;
use crate::descent::Identity;
use crate::error::{Error, Operation, Result, failed};
use crate::path::RelativePath;
use crate::temporary::{TempName, is_ours};

/// The maximum number of ranges of one file.
pub const RANGES_MAX: u64 = 65_536;
/// Ranges begin at multiples of this number of bytes: a multiple of every page and of most stripes.
const ALIGNMENT: u64 = 1 << 20;
/// The distance between two marks.
const MARK_STRIDE: u64 = 64 << 10;
const MARK_BYTES: usize = 32;
const MAGIC: [u8; 16] = *b"sealane range 1\n";
/// The number of times that the temporary file may be replaced while it is opened.
const OPEN_ATTEMPTS: u32 = 16;

/// The division of a file into ranges of equal length; the last one may be shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    size_bytes: u64,
    range_bytes: u64,
}

impl Division {
    /// Returns the division of `size_bytes` into ranges of `range_bytes`; `None` unless that is a multiple of 1 MiB
    /// and gives at least one range and at most [`RANGES_MAX`].
    pub fn new(size_bytes: u64, range_bytes: u64) -> Option<Self> {
        let is_aligned = range_bytes > 0 && range_bytes.is_multiple_of(ALIGNMENT);
        // A file system's largest offset is a signed number; the marks need room too.
        let has_room = size_bytes > 0 && size_bytes < (1 << 62);
        (is_aligned && has_room && size_bytes.div_ceil(range_bytes) <= RANGES_MAX)
            .then_some(Self { size_bytes, range_bytes })
    }

    /// Returns the length of the file in bytes.
    pub fn size_bytes(self) -> u64 {
        self.size_bytes
    }

    /// Returns the number of ranges.
    pub fn count(self) -> u32 {
        // It is at most RANGES_MAX.
        self.size_bytes.div_ceil(self.range_bytes) as u32
    }

    /// Returns the bytes of a range, or `None` if there is no range of this number.
    pub fn range(self, index: u32) -> Option<Range<u64>> {
        (index < self.count()).then(|| {
            let start = u64::from(index) * self.range_bytes;
            start..self.size_bytes.min(start + self.range_bytes)
        })
    }

    /// Returns the length of the temporary file.
    fn total_bytes(self) -> u64 {
        self.mark_offset(self.count())
    }

    fn mark_offset(self, index: u32) -> u64 {
        self.size_bytes.next_multiple_of(ALIGNMENT) + u64::from(index) * MARK_STRIDE
    }

    /// Returns the mark of a range, which states its bounds.
    fn mark_of(self, index: u32) -> [u8; MARK_BYTES] {
        let Range { start, end } = self.range(index).unwrap_or_default();
        let mut mark = [0; MARK_BYTES];
        mark[..16].copy_from_slice(&MAGIC);
        mark[16..24].copy_from_slice(&start.to_le_bytes());
        mark[24..].copy_from_slice(&end.to_le_bytes());
        mark
    }

    /// Opens the temporary file for one range, or creates it.
    pub(crate) fn open(self, parent: &Parent, path: &RelativePath, temp: &TempName) -> Result<OwnedFd> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        for _ in 0..OPEN_ATTEMPTS {
            let fd = match openat(parent, temp.as_bytes(), flags, Mode::from_raw_mode(0o600)) {
                Ok(fd) => fd,
                // A link, a folder or the like: something that only looks like one.
                Err(Errno::LOOP | Errno::ISDIR | Errno::NXIO) => {
                    remove(parent, path, temp)?;
                    continue;
                }
                Err(errno) => return Err(failed(Operation::Create, path, errno)),
            };
            lock(&fd, FlockOperation::NonBlockingLockShared, path)?;
            let Some(size_bytes) = current_size(parent, path, temp, &fd)? else { continue };
            if size_bytes < self.total_bytes() {
                ftruncate(&fd, self.total_bytes()).map_err(|errno| failed(Operation::Resize, path, errno))?;
            }
            return Ok(fd);
        }
        Err(Error::Busy { path: path.into() })
    }

    /// Opens the temporary file of which all ranges have been written.
    pub(crate) fn gather(self, parent: &Parent, path: &RelativePath, temp: &TempName) -> Result<OwnedFd> {
        let incomplete = || Error::Incomplete { path: path.into() };
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let fd = match openat(parent, temp.as_bytes(), flags, Mode::empty()) {
            Ok(fd) => fd,
            Err(Errno::NOENT | Errno::LOOP | Errno::ISDIR | Errno::NXIO) => return Err(incomplete()),
            Err(errno) => return Err(failed(Operation::Open, path, errno)),
        };
        lock(&fd, FlockOperation::NonBlockingLockExclusive, path)?;
        if current_size(parent, path, temp, &fd)? != Some(self.total_bytes()) {
            return Err(incomplete());
        }
        for index in 0..self.count() {
            let mut found = [0; MARK_BYTES];
            let read = rustix::io::retry_on_intr(|| pread(&fd, &mut found, self.mark_offset(index)));
            let read = read.map_err(|errno| failed(Operation::Read, path, errno))?;
            if read < MARK_BYTES || found != self.mark_of(index) {
                return Err(incomplete());
            }
        }
        Ok(fd)
    }

    /// Marks a range as complete, once its bytes are on stable storage.
    pub(crate) fn mark(self, fd: &OwnedFd, index: u32, path: &RelativePath) -> Result<()> {
        let sync = || fdatasync(fd).map_err(|errno| failed(Operation::Sync, path, errno));
        sync()?;
        let mark = self.mark_of(index);
        let written = rustix::io::retry_on_intr(|| pwrite(fd, &mark, self.mark_offset(index)));
        match written.map_err(|errno| failed(Operation::Write, path, errno))? {
            MARK_BYTES => sync(),
            _ => Err(failed(Operation::Write, path, Errno::IO)),
        }
    }
}

/// Takes a lock that shows how the file is used. File systems without locks go without.
fn lock(fd: &OwnedFd, operation: FlockOperation, path: &RelativePath) -> Result<()> {
    match flock(fd, operation) {
        Err(Errno::WOULDBLOCK) => Err(Error::Busy { path: path.into() }),
        _ => Ok(()),
    }
}

/// Returns the size of the open file, or `None` if it no longer has its temporary name. A file that is not ours loses
/// that name.
fn current_size(parent: &Parent, path: &RelativePath, temp: &TempName, fd: &OwnedFd) -> Result<Option<u64>> {
    let inspect = |errno| failed(Operation::Inspect, path, errno);
    let stat = fstat(fd).map_err(inspect)?;
    let is_current = match statat(parent, temp.as_bytes(), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(named) => Identity::of(&named) == Identity::of(&stat),
        Err(Errno::NOENT) => false,
        Err(errno) => return Err(inspect(errno)),
    };
    if is_current && !is_ours(&stat) {
        remove(parent, path, temp)?;
        return Ok(None);
    }
    Ok(is_current.then(|| u64::try_from(stat.st_size).unwrap_or(0)))
}

fn remove(parent: &Parent, path: &RelativePath, temp: &TempName) -> Result<()> {
    match unlinkat(parent, temp.as_bytes(), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(failed(Operation::Remove, path, errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Metadata, Target, TargetOptions};
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    proptest! {
        #[test]
        fn ranges_cover_a_file_once(size in 1_u64..1 << 45, mibs in 1_u64..5000) {
            let Some(division) = Division::new(size, mibs * MIB) else {
                prop_assert!(size.div_ceil(mibs * MIB) > RANGES_MAX);
                return Ok(());
            };
            let mut at = 0;
            for index in 0..division.count() {
                let range = division.range(index).expect("it exists");
                prop_assert_eq!(range.start, at);
                prop_assert!(range.start % MIB == 0 && range.end > range.start);
                at = range.end;
            }
            prop_assert_eq!(at, size);
            prop_assert_eq!(division.range(division.count()), None);
        }
    }

    #[test]
    fn divisions_of_no_sense_are_refused() {
        for (size, range) in [(0, MIB), (5, 0), (5, 7), (u64::MAX, MIB), (u64::MAX, 1 << 63), (1 << 50, MIB)]
        {
            assert_eq!(Division::new(size, range), None, "{size} {range}");
        }
    }

    #[test]
    fn a_file_gets_its_name_when_every_range_is_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let target =
            Target::open(folder.path(), TargetOptions { resumable_as: Some(1), ..TargetOptions::default() })
                .expect("a target");
        let path = RelativePath::new("large").expect("a path");
        let (temp, size) = (TempName::new(5), 2 * MIB + 100);
        let division = Division::new(size, MIB).expect("three ranges");
        let mut writer = target.writer();
        let is_incomplete = |error: Result<crate::PartFile>| matches!(error, Err(Error::Incomplete { .. }));
        assert!(is_incomplete(writer.gather_ranges(&path, &temp, division)));
        let metadata = Metadata { mode: 0o640, size_bytes: size, ..Metadata::default() };
        let write = |index: u32, byte: u8| {
            let mut writer = target.writer();
            let part = writer.begin_range(&path, &temp, division, index).expect("a range");
            let range = division.range(index).expect("it exists");
            assert!(part.write_at(range.start.wrapping_sub(1), b"xx").is_err());
            assert!(part.write_at(range.end - 1, b"xx").is_err());
            part.write_at(range.start, &vec![byte; (range.end - range.start) as usize]).expect("room");
            part
        };
        let (one, other) = (write(2, b'c'), write(0, b'a'));
        one.finish(&metadata, false).expect("it is marked");
        // One that is abandoned leaves what others have written.
        other.discard().expect("it goes");
        assert!(matches!(writer.gather_ranges(&path, &temp, division), Err(Error::Busy { .. })));
        drop((one, other));
        write(1, b'b').finish(&metadata, false).expect("it is marked");
        assert!(is_incomplete(writer.gather_ranges(&path, &temp, division)));
        write(0, b'a').finish(&metadata, false).expect("it is marked");
        assert!(!folder.path().join("large").exists());
        writer
            .gather_ranges(&path, &temp, division)
            .expect("all are there")
            .finish(&metadata, false)
            .expect("a name");
        let content = std::fs::read(folder.path().join("large")).expect("a file");
        let expected = [vec![b'a'; MIB as usize], vec![b'b'; MIB as usize], vec![b'c'; 100]].concat();
        assert!(content == expected);
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }

    #[test]
    fn a_file_that_was_begun_anew_is_not_complete() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = Target::open(folder.path(), TargetOptions::default()).expect("a target");
        let path = RelativePath::new("large").expect("a path");
        let (temp, division) = (TempName::new(5), Division::new(2 * MIB, MIB).expect("two ranges"));
        let mut writer = target.writer();
        let metadata = Metadata { size_bytes: 2 * MIB, ..Metadata::default() };
        for index in [0, 1] {
            let part = writer.begin_range(&path, &temp, division, index).expect("a range");
            part.finish(&metadata, false).expect("it is marked");
            if index == 0 {
                std::fs::remove_file(folder.path().join(".sealane-0000000000000005.part"))
                    .expect("it is there");
            }
        }
        assert!(matches!(writer.gather_ranges(&path, &temp, division), Err(Error::Incomplete { .. })));
        // A whole file takes up what is there, without the marks.
        let whole = writer.begin_file(&path, &metadata, Some(&temp)).expect("a file");
        assert!(whole.resumed_bytes().is_some_and(|bytes| bytes > 2 * MIB));
        assert!(matches!(writer.begin_range(&path, &temp, division, 0), Err(Error::Busy { .. })));
        drop(whole);
        drop(writer.begin_range(&path, &temp, division, 0).expect("a range"));
        assert!(matches!(writer.gather_ranges(&path, &temp, division), Err(Error::Incomplete { .. })));
    }
}
