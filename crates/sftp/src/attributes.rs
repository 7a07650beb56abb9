//! Attributes of files (draft, section 5), as far as version 3 supports them.

use crate::wire::{Fields, Malformed, put_u32, put_u64};

const SIZE: u32 = 0x1;
const OWNER: u32 = 0x2;
const MODE: u32 = 0x4;
const TIMES: u32 = 0x8;
const EXTENDED: u32 = 0x8000_0000;
/// More extended attributes than any known server sends.
const EXTENDED_MAX: u32 = 256;

/// Numeric owner and group.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Owner {
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
}

/// Whole seconds since the epoch: times before it, or beyond the year 2106, cannot be expressed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Times {
    /// Last access.
    pub accessed: u32,
    /// Last change of the content.
    pub modified: u32,
}

/// Attributes of a file that are known or to be set. A field that is `None` is not sent, and leaves the attribute
/// unchanged.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Attributes {
    /// Size in bytes.
    pub size_bytes: Option<u64>,
    /// Owner and group.
    pub owner: Option<Owner>,
    /// Type and permission bits, as in `st_mode`.
    pub mode: Option<u32>,
    /// Last access and last change.
    pub times: Option<Times>,
}

/// The meaning of the type bits of a mode.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A directory (`S_IFDIR`).
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, pipe or socket, or a kind that the server does not report.
    Other,
}

impl Attributes {
    /// Returns the kind of the file, by its mode.
    #[must_use]
    pub fn kind(&self) -> FileKind {
        match self.mode.unwrap_or(0) & 0o170_000 {
            0o100_000 => FileKind::File,
            0o040_000 => FileKind::Directory,
            0o120_000 => FileKind::Symlink,
            _ => FileKind::Other,
        }
    }

    /// Returns the permission bits with set-user-id, set-group-id and sticky.
    #[must_use]
    pub fn permissions(&self) -> Option<u32> {
        self.mode.map(|mode| mode & 0o7777)
    }

    pub(crate) fn put(&self, packet: &mut Vec<u8>) {
        let flag = |is_said: bool, flag| if is_said { flag } else { 0 };
        let flags = flag(self.size_bytes.is_some(), SIZE)
            | flag(self.owner.is_some(), OWNER)
            | flag(self.mode.is_some(), MODE)
            | flag(self.times.is_some(), TIMES);
        put_u32(packet, flags);
        if let Some(size_bytes) = self.size_bytes {
            put_u64(packet, size_bytes);
        }
        if let Some(Owner { uid, gid }) = self.owner {
            put_u32(packet, uid);
            put_u32(packet, gid);
        }
        if let Some(mode) = self.mode {
            put_u32(packet, mode);
        }
        if let Some(Times { accessed, modified }) = self.times {
            put_u32(packet, accessed);
            put_u32(packet, modified);
        }
    }

    pub(crate) fn take(fields: &mut Fields<'_>) -> Result<Self, Malformed> {
        let flags = fields.u32()?;
        let has = |flag| flags & flag != 0;
        let mut attributes = Self::default();
        if has(SIZE) {
            attributes.size_bytes = Some(fields.u64()?);
        }
        if has(OWNER) {
            attributes.owner = Some(Owner { uid: fields.u32()?, gid: fields.u32()? });
        }
        if has(MODE) {
            attributes.mode = Some(fields.u32()?);
        }
        if has(TIMES) {
            attributes.times = Some(Times { accessed: fields.u32()?, modified: fields.u32()? });
        }
        if has(EXTENDED) {
            let count = fields.u32()?;
            if count > EXTENDED_MAX {
                let bytes = count as usize;
                return Err(Malformed::Long { what: "list of extended attributes", bytes });
            }
            for _ in 0..count {
                fields.string()?;
                fields.string()?;
            }
        }
        Ok(attributes)
    }
}
