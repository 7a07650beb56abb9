//! [`Changes`]: what entries of a source have otherwise than on its disk.
//!
//! Guarantees: a change of modes sets and clears permission bits only, in the order given; the mode of a symbolic link, which
//! means nothing, stays.

use std::collections::HashMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::EntryType;
use crate::metadata::{MODE_BITS, Metadata, Owner, Xattr};
use crate::xattrs::is_acl;

/// Bits that let a file be executed.
const EXECUTE_BITS: u32 = 0o111;

/// The entries that a change of modes is about.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub enum ModeChangeOf {
    /// Folders and files.
    #[default]
    Both,
    /// Only folders.
    Folders,
    /// Everything else.
    Files,
}

/// A change of modes.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct ModeChange {
    /// The entries that it is about.
    pub of: ModeChangeOf,
    /// The bits that stay.
    #[serde(deserialize_with = "bits")]
    pub kept: u32,
    /// The bits that are set.
    #[serde(deserialize_with = "bits")]
    pub set: u32,
    /// Bits for execution are set only on folders, and on files that somebody may execute.
    pub spares_plain: bool,
}

fn bits<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let bits = u32::deserialize(from)?;
    if bits & !MODE_BITS == 0 { Ok(bits) } else { Err(D::Error::custom("mode bits beyond 07777")) }
}

impl ModeChange {
    fn apply(self, was: u32, mode: u32, is_folder: bool) -> u32 {
        match (self.of, is_folder) {
            (ModeChangeOf::Folders, false) | (ModeChangeOf::Files, true) => return mode,
            _ => {}
        }
        let is_plain = !is_folder && was & EXECUTE_BITS == 0;
        let set = if self.spares_plain && is_plain { self.set & !EXECUTE_BITS } else { self.set };
        (mode & self.kept | set) & MODE_BITS
    }
}

/// The numbers that users, or groups, of a source get.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Renumbering {
    /// Each that gets another one.
    pub others: HashMap<u32, u32>,
    /// The one that all get.
    pub all: Option<u32>,
}

impl Renumbering {
    fn of(&self, id: u32) -> u32 {
        self.all.unwrap_or_else(|| self.others.get(&id).copied().unwrap_or(id))
    }
}

/// Changes of what is read from a source.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Changes {
    /// Changes of modes, in order.
    pub modes: Vec<ModeChange>,
    /// The numbers of users.
    pub users: Renumbering,
    /// The numbers of groups.
    pub groups: Renumbering,
}

impl Changes {
    /// Changes what was read of an entry.
    pub fn apply(&self, entry_type: EntryType, metadata: &mut Metadata) {
        if let Some(Owner { uid, gid }) = metadata.owner {
            metadata.owner = Some(Owner { uid: self.users.of(uid), gid: self.groups.of(gid) });
        }
        if entry_type != EntryType::Symlink {
            let (was, is_folder) = (metadata.mode, entry_type == EntryType::Directory);
            metadata.mode = self.modes.iter().fold(was, |mode, change| change.apply(was, mode, is_folder));
        }
    }
    /// Changes the numbers of users and groups in access control lists. What is no list stays, and the kernel refuses it.
    pub fn apply_to_acls(&self, xattrs: &mut [Xattr]) {
        if self.users == Renumbering::default() && self.groups == Renumbering::default() {
            return;
        }
        for acl in xattrs.iter_mut().filter(|xattr| is_acl(&xattr.name)) {
            let Some(entries) = acl.value.get_mut(ACL_HEADER_BYTES..) else { continue };
            for entry in entries.chunks_exact_mut(ACL_ENTRY_BYTES) {
                let (tag, id) = (u16::from_le_bytes([entry[0], entry[1]]), &mut entry[4..]);
                let number = u32::from_le_bytes([id[0], id[1], id[2], id[3]]);
                // --chown gives an entry its owner, not the others their rights.
                let renumbered = match tag {
                    ACL_USER => self.users.others.get(&number),
                    ACL_GROUP => self.groups.others.get(&number),
                    _ => None,
                };
                if let Some(renumbered) = renumbered {
                    id.copy_from_slice(&renumbered.to_le_bytes());
                }
            }
        }
    }
}

/// The bytes of an access control list before its entries (`linux/posix_acl_xattr.h`).
const ACL_HEADER_BYTES: usize = 4;
/// A tag of two bytes, permissions of two, and a number of four.
const ACL_ENTRY_BYTES: usize = 8;
const ACL_USER: u16 = 0x02;
const ACL_GROUP: u16 = 0x08;
