//! [`TempName`]: the name of an entry that is not complete yet.
//!
//! Guarantees: a peer cannot name an entry so, and an unfinished file is taken up only if it is a regular file of this
//! user without another name.

use std::fmt;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, FileType, Stat, StatxFlags, statx};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

const PREFIX: &[u8] = b".sealane-";
const SUFFIX: &[u8] = b".part";
const DIGITS: usize = 16;
const NAME_BYTES: usize = PREFIX.len() + DIGITS + SUFFIX.len();

/// The name of an unfinished file: `.sealane-`, 16 hexadecimal digits, `.part`. A peer cannot name an entry so.
#[derive(Clone, Copy, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(from = "u64", into = "u64")]
pub struct TempName {
    number: u64,
    name: [u8; NAME_BYTES],
}

impl TempName {
    /// Returns the name with this number. To find a file again, derive the number from its identity (the transfer and
    /// the path).
    pub fn new(number: u64) -> Self {
        let mut name = [0; NAME_BYTES];
        name[..PREFIX.len()].copy_from_slice(PREFIX);
        name[PREFIX.len() + DIGITS..].copy_from_slice(SUFFIX);
        for (index, digit) in name[PREFIX.len()..PREFIX.len() + DIGITS].iter_mut().enumerate() {
            let nibble = (number >> (60 - 4 * index)) & 0xf;
            *digit = b"0123456789abcdef"[nibble as usize];
        }
        Self { number, name }
    }

    /// Returns the number that the name was made from.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the name as bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.name
    }

    /// Returns the name that these bytes spell; `None` if they are no such name.
    pub fn parse(name: &[u8]) -> Option<Self> {
        if !Self::matches(name) {
            return None;
        }
        let digits = std::str::from_utf8(&name[PREFIX.len()..PREFIX.len() + DIGITS]).ok()?;
        u64::from_str_radix(digits, 16).ok().map(Self::new).filter(|parsed| parsed.as_bytes() == name)
    }

    /// Returns whether `name` is such a name.
    pub fn matches(name: &[u8]) -> bool {
        name.len() == NAME_BYTES
            && name.starts_with(PREFIX)
            && name.ends_with(SUFFIX)
            && name[PREFIX.len()..PREFIX.len() + DIGITS].iter().all(u8::is_ascii_hexdigit)
    }
}

impl fmt::Debug for TempName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ".sealane-{:016x}.part", self.number)
    }
}

impl From<u64> for TempName {
    fn from(number: u64) -> Self {
        Self::new(number)
    }
}

impl From<TempName> for u64 {
    fn from(name: TempName) -> Self {
        name.number
    }
}

/// The mark that tells an unfinished file from any other that has had its name: its inode and the time of its birth, which is 0
/// on file systems that do not keep it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct FileMark {
    /// The number of its inode.
    pub inode: u64,
    /// The time of its birth, in seconds since 1970.
    pub born_seconds: i64,
    /// The rest of that time, in nanoseconds.
    pub born_nanoseconds: u32,
}

impl FileMark {
    /// Returns the mark of an open file.
    pub(crate) fn of(fd: impl AsFd) -> rustix::io::Result<Self> {
        let found = statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::INO | StatxFlags::BTIME)?;
        let has_birth = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
        let (born_seconds, born_nanoseconds) = match has_birth {
            true => (found.stx_btime.tv_sec, found.stx_btime.tv_nsec),
            false => (0, 0),
        };
        Ok(Self { inode: found.stx_ino, born_seconds, born_nanoseconds })
    }
}

/// Returns whether the file is a regular one of this user without another name.
pub(crate) fn is_ours(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
        && stat.st_nlink == 1
        && stat.st_uid == geteuid().as_raw()
}
