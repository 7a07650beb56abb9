//! Requests (draft, section 6; OpenSSH's PROTOCOL, section 4) and their bytes.

use crate::attributes::Attributes;
use crate::reply::Handle;
use crate::wire::{put_string, put_u32, put_u64};

pub(crate) const INIT: u8 = 1;
pub(crate) const OPEN: u8 = 3;
pub(crate) const CLOSE: u8 = 4;
pub(crate) const READ: u8 = 5;
pub(crate) const WRITE: u8 = 6;
pub(crate) const LSTAT: u8 = 7;
pub(crate) const FSTAT: u8 = 8;
pub(crate) const SETSTAT: u8 = 9;
pub(crate) const FSETSTAT: u8 = 10;
pub(crate) const OPENDIR: u8 = 11;
pub(crate) const READDIR: u8 = 12;
pub(crate) const REMOVE: u8 = 13;
pub(crate) const MKDIR: u8 = 14;
pub(crate) const RMDIR: u8 = 15;
pub(crate) const REALPATH: u8 = 16;
pub(crate) const STAT: u8 = 17;
pub(crate) const RENAME: u8 = 18;
pub(crate) const READLINK: u8 = 19;
pub(crate) const SYMLINK: u8 = 20;
pub(crate) const EXTENDED: u8 = 200;

/// The mode in which a file is opened. None of the modes uses the draft's `APPEND` or `TRUNC`: a new file is empty,
/// and an old one is written in place.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Access {
    /// For reading.
    Read,
    /// For writing; the file must exist.
    Write,
    /// For reading and writing; the file must exist.
    ReadWrite,
    /// For writing; the file is created, and must not exist.
    Create,
}

impl Access {
    fn flags(self) -> u32 {
        const READ: u32 = 0x1;
        const WRITE: u32 = 0x2;
        const CREATE: u32 = 0x8;
        const EXCLUSIVE: u32 = 0x20;
        match self {
            Self::Read => READ,
            Self::Write => WRITE,
            Self::ReadWrite => READ | WRITE,
            Self::Create => WRITE | CREATE | EXCLUSIVE,
        }
    }
}

/// One request, except for writing, whose packet is made by [`Client::packet`](crate::Client::packet). Paths are
/// bytes; a relative path begins in the directory that the server started in.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "the fields are those of the system calls of the same names")]
pub enum Request<'a> {
    /// Opens a file. Follows a symbolic link, even as the last component.
    Open { path: &'a [u8], access: Access, attributes: Attributes },
    /// Closes a file or a directory.
    Close { handle: &'a Handle },
    /// Reads at most this many bytes.
    Read { handle: &'a Handle, offset: u64, length_bytes: u32 },
    /// Requests the attributes of an entry; of a link itself.
    Lstat { path: &'a [u8] },
    /// Requests the attributes of an entry with links followed.
    Stat { path: &'a [u8] },
    /// Requests the attributes of an open file.
    Fstat { handle: &'a Handle },
    /// Sets attributes of an entry with links followed.
    SetStat { path: &'a [u8], attributes: Attributes },
    /// Sets attributes of an open file.
    FsetStat { handle: &'a Handle, attributes: Attributes },
    /// Opens a directory, for [`Self::ReadDirectory`].
    OpenDirectory { path: &'a [u8] },
    /// The next names of a directory.
    ReadDirectory { handle: &'a Handle },
    /// Removes an entry other than a directory.
    Remove { path: &'a [u8] },
    /// Makes a directory; fails if the name exists.
    MakeDirectory { path: &'a [u8], attributes: Attributes },
    /// Removes an empty directory.
    RemoveDirectory { path: &'a [u8] },
    /// The absolute path of a name.
    RealPath { path: &'a [u8] },
    /// Renames; OpenSSH's server fails if the new name exists.
    Rename { from: &'a [u8], to: &'a [u8] },
    /// The target of a symbolic link.
    ReadLink { path: &'a [u8] },
    /// Makes a symbolic link. The order of the two paths is OpenSSH's, not the draft's (PROTOCOL, section 4.1).
    SymbolicLink { target: &'a [u8], link: &'a [u8] },
    /// `posix-rename@openssh.com`: renames, and replaces an existing entry of the new name.
    PosixRename { from: &'a [u8], to: &'a [u8] },
    /// `hardlink@openssh.com`.
    HardLink { from: &'a [u8], to: &'a [u8] },
    /// `fsync@openssh.com`.
    Fsync { handle: &'a Handle },
    /// `lsetstat@openssh.com`: sets attributes of a link itself.
    LsetStat { path: &'a [u8], attributes: Attributes },
    /// `statvfs@openssh.com`.
    StatVfs { path: &'a [u8] },
    /// `expand-path@openssh.com`: like `RealPath`, with `~` and `~user` as home directories.
    ExpandPath { path: &'a [u8] },
    /// `limits@openssh.com`.
    Limits,
}

impl Request<'_> {
    /// Returns the type byte of the request's packet.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Open { .. } => OPEN,
            Self::Close { .. } => CLOSE,
            Self::Read { .. } => READ,
            Self::Lstat { .. } => LSTAT,
            Self::Stat { .. } => STAT,
            Self::Fstat { .. } => FSTAT,
            Self::SetStat { .. } => SETSTAT,
            Self::FsetStat { .. } => FSETSTAT,
            Self::OpenDirectory { .. } => OPENDIR,
            Self::ReadDirectory { .. } => READDIR,
            Self::Remove { .. } => REMOVE,
            Self::MakeDirectory { .. } => MKDIR,
            Self::RemoveDirectory { .. } => RMDIR,
            Self::RealPath { .. } => REALPATH,
            Self::Rename { .. } => RENAME,
            Self::ReadLink { .. } => READLINK,
            Self::SymbolicLink { .. } => SYMLINK,
            Self::PosixRename { .. }
            | Self::HardLink { .. }
            | Self::Fsync { .. }
            | Self::LsetStat { .. }
            | Self::StatVfs { .. }
            | Self::ExpandPath { .. }
            | Self::Limits => EXTENDED,
        }
    }

    /// Writes the packet, without its length: type, number, fields.
    pub(crate) fn put(&self, id: u32, packet: &mut Vec<u8>) {
        packet.push(self.code());
        put_u32(packet, id);
        match *self {
            Self::Open { path, access, attributes } => {
                put_string(packet, path);
                put_u32(packet, access.flags());
                attributes.put(packet);
            }
            Self::Close { handle } | Self::Fstat { handle } | Self::ReadDirectory { handle } => {
                put_string(packet, handle.as_bytes());
            }
            Self::Read { handle, offset, length_bytes } => {
                put_string(packet, handle.as_bytes());
                put_u64(packet, offset);
                put_u32(packet, length_bytes);
            }
            Self::Lstat { path }
            | Self::Stat { path }
            | Self::OpenDirectory { path }
            | Self::Remove { path }
            | Self::RemoveDirectory { path }
            | Self::RealPath { path }
            | Self::ReadLink { path } => put_string(packet, path),
            Self::SetStat { path, attributes } | Self::MakeDirectory { path, attributes } => {
                put_string(packet, path);
                attributes.put(packet);
            }
            Self::FsetStat { handle, attributes } => {
                put_string(packet, handle.as_bytes());
                attributes.put(packet);
            }
            Self::Rename { from, to } => {
                put_string(packet, from);
                put_string(packet, to);
            }
            Self::SymbolicLink { target, link } => {
                put_string(packet, target);
                put_string(packet, link);
            }
            Self::PosixRename { from, to } => {
                put_string(packet, b"posix-rename@openssh.com");
                put_string(packet, from);
                put_string(packet, to);
            }
            Self::HardLink { from, to } => {
                put_string(packet, b"hardlink@openssh.com");
                put_string(packet, from);
                put_string(packet, to);
            }
            Self::Fsync { handle } => {
                put_string(packet, b"fsync@openssh.com");
                put_string(packet, handle.as_bytes());
            }
            Self::LsetStat { path, attributes } => {
                put_string(packet, b"lsetstat@openssh.com");
                put_string(packet, path);
                attributes.put(packet);
            }
            Self::StatVfs { path } => {
                put_string(packet, b"statvfs@openssh.com");
                put_string(packet, path);
            }
            Self::ExpandPath { path } => {
                put_string(packet, b"expand-path@openssh.com");
                put_string(packet, path);
            }
            Self::Limits => put_string(packet, b"limits@openssh.com"),
        }
    }
}

/// Writes the front of a `WRITE` packet, without its length; the data follows.
pub(crate) fn put_write(id: u32, handle: &Handle, offset: u64, data_bytes: usize, packet: &mut Vec<u8>) {
    packet.push(WRITE);
    put_u32(packet, id);
    put_string(packet, handle.as_bytes());
    put_u64(packet, offset);
    put_u32(packet, data_bytes as u32);
}
