//! The data that accompany the bytes of a file: [`Metadata`] and [`Kind`].
//!
//! Both go over the wire. Decoding enforces every bound stated here, so a decoded value is as well formed as one made
//! on this machine: at most [`MAX_XATTRS`] attributes, nanoseconds under a second, permission bits only.

use std::fmt;

use rustix::fs::{Dev, FileType, Stat, major, makedev, minor};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::bytes;
use crate::path::RelativePath;

/// Permission bits with setuid, setgid and sticky.
pub const MODE_BITS: u32 = 0o7777;
/// Most extended attributes of one entry.
pub const MAX_XATTRS: usize = 64;
/// Longest name of an extended attribute in bytes (Linux's `XATTR_NAME_MAX`).
pub const MAX_XATTR_NAME_BYTES: usize = 255;
/// Longest value of an extended attribute in bytes (Linux's `XATTR_SIZE_MAX`).
pub const MAX_XATTR_VALUE_BYTES: usize = 64 * 1024;
/// Longest target of a symbolic link in bytes.
pub const MAX_LINK_BYTES: usize = 4095;

/// A time of last change: seconds since the epoch, and nanoseconds within that second.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Timestamp {
    /// Seconds since 1970-01-01T00:00:00Z, negative before it.
    pub seconds: i64,
    /// 0 to 999,999,999.
    #[serde(deserialize_with = "nanoseconds")]
    pub nanoseconds: u32,
}

fn nanoseconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let nanoseconds = u32::deserialize(deserializer)?;
    if nanoseconds >= 1_000_000_000 {
        return Err(D::Error::custom("nanoseconds of a second or more"));
    }
    Ok(nanoseconds)
}

/// Numeric owner and group.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Owner {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}

/// One extended attribute.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Xattr {
    /// Name with its namespace (`user.comment`), 1 to [`MAX_XATTR_NAME_BYTES`] bytes without NUL.
    pub name: Vec<u8>,
    /// Value, at most [`MAX_XATTR_VALUE_BYTES`] bytes.
    pub value: Vec<u8>,
}

impl Serialize for Xattr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Wire<'a>(
            #[serde(serialize_with = "bytes::serialize")] &'a [u8],
            #[serde(serialize_with = "bytes::serialize")] &'a [u8],
        );
        Wire(&self.name, &self.value).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Xattr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire(
            #[serde(deserialize_with = "bytes::deserialize::<MAX_XATTR_NAME_BYTES, _>")] Vec<u8>,
            #[serde(deserialize_with = "bytes::deserialize::<MAX_XATTR_VALUE_BYTES, _>")] Vec<u8>,
        );
        let Wire(name, value) = Wire::deserialize(deserializer)?;
        if name.is_empty() || name.contains(&0) {
            return Err(D::Error::custom("an attribute's name is empty or holds a NUL"));
        }
        Ok(Self { name, value })
    }
}

fn deserialize_xattrs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Xattr>, D::Error> {
    struct Bounded;
    impl<'de> Visitor<'de> for Bounded {
        type Value = Vec<Xattr>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "at most {MAX_XATTRS} extended attributes")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Vec<Xattr>, A::Error> {
            let mut xattrs = Vec::new();
            while let Some(xattr) = sequence.next_element()? {
                if xattrs.len() == MAX_XATTRS {
                    return Err(A::Error::invalid_length(MAX_XATTRS + 1, &self));
                }
                xattrs.push(xattr);
            }
            Ok(xattrs)
        }
    }
    deserializer.deserialize_seq(Bounded)
}

fn mode_bits<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let mode = u32::deserialize(deserializer)?;
    if mode & !MODE_BITS != 0 {
        return Err(D::Error::custom("mode bits beyond 07777"));
    }
    Ok(mode)
}

/// The properties of an entry besides its name and its bytes. They take about 15 bytes on the wire without owner and
/// attributes.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct Metadata {
    /// Permission bits, within [`MODE_BITS`].
    #[serde(deserialize_with = "mode_bits")]
    pub mode: u32,
    /// Time of last change of the content.
    pub modified: Timestamp,
    /// Size in bytes; 0 for entries that are not files.
    pub size_bytes: u64,
    /// Numeric owner, when it is to be kept.
    pub owner: Option<Owner>,
    /// Extended attributes, when they are to be kept; at most [`MAX_XATTRS`].
    #[serde(deserialize_with = "deserialize_xattrs")]
    pub xattrs: Vec<Xattr>,
}

impl Metadata {
    /// Returns the metadata in `stat`, without attributes.
    pub(crate) fn from_stat(stat: &Stat, with_owner: bool) -> Self {
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        Self {
            mode: stat.st_mode & MODE_BITS,
            modified: Timestamp { seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec as u32 },
            size_bytes: if is_file { u64::try_from(stat.st_size).unwrap_or(0) } else { 0 },
            owner: with_owner.then_some(Owner { uid: stat.st_uid, gid: stat.st_gid }),
            xattrs: Vec::new(),
        }
    }
}

/// The destination of a symbolic link: 1 to [`MAX_LINK_BYTES`] bytes without NUL. It is stored, never followed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct LinkTarget(Vec<u8>);

impl LinkTarget {
    /// Returns `None` if the length is not allowed or the target contains a NUL.
    pub fn new(target: Vec<u8>) -> Option<Self> {
        let fits = (1..=MAX_LINK_BYTES).contains(&target.len()) && !target.contains(&0);
        fits.then_some(Self(target))
    }

    /// Returns the bytes of the link.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Serialize for LinkTarget {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        bytes::serialize(&self.0, serializer)
    }
}

impl<'de> Deserialize<'de> for LinkTarget {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let target = bytes::deserialize::<MAX_LINK_BYTES, D>(deserializer)?;
        Self::new(target).ok_or_else(|| D::Error::custom("an empty link, or one with a NUL"))
    }
}

/// An entry that is no file, directory or link. The numbers of devices are Linux's.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Special {
    /// A device of characters.
    CharacterDevice {
        /// The number of its driver.
        major: u32,
        /// The number that the driver knows it by.
        minor: u32,
    },
    /// A device of blocks.
    BlockDevice {
        /// The number of its driver.
        major: u32,
        /// The number that the driver knows it by.
        minor: u32,
    },
    /// A pipe with a name.
    Pipe,
    /// The name of a socket, which belongs to nobody until a program binds it again.
    Socket,
}

impl Special {
    /// Returns what an entry is; `None` for files, directories and links.
    pub(crate) fn of(stat: &Stat) -> Option<Self> {
        let (major, minor) = (major(stat.st_rdev), minor(stat.st_rdev));
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::CharacterDevice => Some(Self::CharacterDevice { major, minor }),
            FileType::BlockDevice => Some(Self::BlockDevice { major, minor }),
            FileType::Fifo => Some(Self::Pipe),
            FileType::Socket => Some(Self::Socket),
            _ => None,
        }
    }

    /// Returns what `mknod` makes it of.
    pub(crate) fn type_and_number(self) -> (FileType, Dev) {
        match self {
            Self::CharacterDevice { major, minor } => (FileType::CharacterDevice, makedev(major, minor)),
            Self::BlockDevice { major, minor } => (FileType::BlockDevice, makedev(major, minor)),
            Self::Pipe => (FileType::Fifo, 0),
            Self::Socket => (FileType::Socket, 0),
        }
    }
}

/// The kinds of entries that a target can make. There is nothing else.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory; its entries are made one by one.
    Directory,
    /// A symbolic link.
    Symlink {
        /// The link's destination.
        target: LinkTarget,
    },
    /// Another name of a regular file of the same tree.
    HardLink {
        /// The name which exists already.
        to: RelativePath,
    },
    /// The attributes of a regular file that the target has already, with the sent size and content.
    Attributes,
    /// A device, pipe or socket.
    Special(Special),
}
