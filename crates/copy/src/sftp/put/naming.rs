//! Names: the existing entry of a name, and its replacement.
//!
//! Guarantees: an existing entry is replaced only by a complete one, and backed up first if requested; a folder, a
//! device, a pipe or a socket is not replaced; an entry that has its name is not made again because an answer was lost,
//! since a second copy under a temporary name would stay if the next connection is lost, too.

use sealane_sftp::{Attributes, Extension, Request};
use sealane_tree::{Differences, EntryType, Kind, Metadata, RelativePath};

use super::{
    Found, Put,
    attributes::{SET_ID_BITS, metadata, seconds},
    links::{Taken, leads_to},
};
use crate::{
    proto::entry::Entry,
    sftp::{
        far::Trouble,
        link::{Fault, Link},
        place::entry_type,
    },
    summary::{Change, Notice},
};

impl Put {
    /// Returns the attributes of the existing entry of this path, if there may be one.
    pub(super) async fn look(
        &self,
        link: &Link,
        folder: Found,
        path: &RelativePath,
    ) -> Result<Option<Attributes>, Fault> {
        match folder.is_new && !self.maybe_named.borrow().contains(path) {
            true => Ok(None),
            false => link.lstat(&self.at(path.as_bytes())).await,
        }
    }

    /// Returns whether a file has got its name by a request whose answer was lost.
    pub(super) async fn has_name(&self, link: &Link, entry: &Entry, part: &[u8]) -> bool {
        let path = &entry.path;
        if !self.maybe_named.borrow().contains(path) || !matches!(link.lstat(part).await, Ok(None)) {
            return false;
        }
        matches!(link.lstat(&self.at(path.as_bytes())).await, Ok(Some(found)) if is_same(entry, &found))
    }

    /// Renames an entry from its temporary name to its final one. Returns false if the existing entry is newer, and
    /// stays.
    pub(super) async fn take_name(
        &self,
        link: &Link,
        entry: &Entry,
        part: &[u8],
        found: Option<Attributes>,
    ) -> Result<bool, Trouble> {
        let path = &entry.path;
        let refused = self.check_gives_way(entry, found.as_ref());
        if refused.is_err() || self.is_newer(entry, found.as_ref()) {
            let _ = link.act(&Request::Remove { path: part }).await;
            return refused.map(|()| false);
        }
        let differences = differences(entry, found.as_ref());
        // A file that a lost connection has put in place is no earlier version.
        let earlier = found.as_ref().filter(|found| !(self.far.has_lost() && is_same(entry, found)));
        let renamed = match self.make_way(link, path, earlier, found.as_ref()).await {
            Ok(taken) => self.rename(link, part, &self.at(path.as_bytes()), taken).await,
            Err(trouble) => {
                let _ = link.act(&Request::Remove { path: part }).await;
                return Err(trouble);
            }
        };
        if let Err(fault) = renamed {
            let trouble = self.trouble(link, "give it its name", path.as_bytes(), fault).await;
            if matches!(trouble, Trouble::Lost) {
                self.maybe_named.borrow_mut().insert(path.clone());
            } else {
                let _ = link.act(&Request::Remove { path: part }).await;
            }
            return Err(trouble);
        }
        self.tell_change(entry, differences);
        Ok(true)
    }

    /// Keeps a backup of the entry that a new one replaces, if backups are wanted.
    async fn make_way(
        &self,
        link: &Link,
        path: &RelativePath,
        earlier: Option<&Attributes>,
        found: Option<&Attributes>,
    ) -> Result<Taken, Trouble> {
        let taken = self.taken(link, path, found).await?;
        self.back_up(link, path, earlier, true).await?;
        Ok(taken)
    }

    /// Refuses to replace a folder, a device, a pipe or a socket.
    pub(super) fn check_gives_way(&self, entry: &Entry, found: Option<&Attributes>) -> Result<(), Trouble> {
        let what = match found.map(entry_type) {
            Some(EntryType::Directory) => "a folder is in its place",
            Some(EntryType::Other) => "a device, pipe or socket is in its place, and is not replaced",
            _ => return Ok(()),
        };
        Err(Trouble::Entry(format!("{}: {what}", self.shown(entry.path.as_bytes()))))
    }

    /// Returns whether the existing entry is newer than the sent one, and must stay.
    pub(super) fn is_newer(&self, entry: &Entry, found: Option<&Attributes>) -> bool {
        found.is_some_and(|found| {
            self.rules.update && metadata(found).modified.seconds > entry.metadata.modified.seconds
        })
    }

    /// Returns the differences between an entry and the existing one.
    pub(super) async fn compare(
        &self,
        link: &Link,
        entry: &Entry,
        found: Option<&Attributes>,
    ) -> Result<Differences, Trouble> {
        let mut differences = differences(entry, found);
        match &entry.kind {
            Kind::Symlink { target } if !differences.is_new => {
                let at = self.at(entry.path.as_bytes());
                let said = match link.path_of(&Request::ReadLink { path: &at }).await {
                    Ok(said) => said,
                    Err(fault) => {
                        return Err(self.trouble(link, "read it", entry.path.as_bytes(), fault).await);
                    }
                };
                // A server that does not show links may tell where they lead instead of their texts.
                let is_hidden = found.is_some_and(|found| found.size_bytes.is_none());
                let wanted = target.as_bytes();
                differences.target = said != wanted && !(is_hidden && leads_to(&at, wanted, &said));
                // No other request applies to a link itself.
                if !self.sets_links(link, &entry.path).await? {
                    differences = Differences { target: differences.target, ..Differences::default() };
                }
            }
            Kind::Directory if !self.rules.folder_modes => differences.mode = false,
            _ => {}
        }
        Ok(differences)
    }

    /// Reports the change that an entry has caused, if changes are reported.
    pub(super) fn tell_change(&self, entry: &Entry, differences: Differences) {
        if self.rules.itemise && differences.any() {
            self.notice(Notice::Changed(Change::of(entry, differences)));
        }
    }

    /// Renames an entry, replacing the existing one of that name.
    async fn rename(&self, link: &Link, from: &[u8], to: &[u8], taken: Taken) -> Result<(), Fault> {
        let replaces = link.has(Extension::PosixRename);
        if taken == Taken::Link || (taken == Taken::Replaceable && !replaces) {
            link.act(&Request::Remove { path: to }).await?;
        }
        match replaces {
            true => link.act(&Request::PosixRename { from, to }).await,
            false => link.act(&Request::Rename { from, to }).await,
        }
    }

    /// Gives an entry another name, if backups are wanted: in addition to its own if it is `replaced`, so that the
    /// name is never missing. Returns false if there is nothing to keep.
    pub(in crate::sftp) async fn back_up(
        &self,
        link: &Link,
        path: &RelativePath,
        found: Option<&Attributes>,
        replaced: bool,
    ) -> Result<bool, Trouble> {
        let Some(backups) = &self.rules.backups else { return Ok(false) };
        let is_kept = |kind| matches!(kind, EntryType::File | EntryType::Symlink);
        if !found.map(entry_type).is_some_and(is_kept) {
            return Ok(false);
        }
        let too_long = || format!("{}: its backup's name would be too long", self.shown(path.as_bytes()));
        let place = backups.place(path).map_err(|_| Trouble::Entry(too_long()))?;
        self.folder(link, place.split().0).await?;
        let (from, to) = (self.at(path.as_bytes()), self.at(place.as_bytes()));
        let temp = self.temp(&place);
        let follows = found.map(entry_type) == Some(EntryType::Symlink) && !link.treats_links_as_openssh();
        if follows && !self.manners(link, path).await?.renames {
            let what = "the SFTP server there would rename what it points to, so no backup of it is kept";
            return Err(Trouble::Entry(format!("{}: {what}", self.shown(path.as_bytes()))));
        }
        let linked = replaced
            && !follows
            && link.has(Extension::HardLink)
            && link.has(Extension::PosixRename)
            && link.act(&Request::HardLink { from: &from, to: &temp }).await.is_ok();
        let moved = if linked {
            let moved = link.act(&Request::PosixRename { from: &temp, to: &to }).await;
            // Renaming to another name of the same file does nothing, and leaves both.
            let _ = link.act(&Request::Remove { path: &temp }).await;
            moved
        } else {
            let there = link.lstat(&to).await.unwrap_or_default();
            let taken = self.taken(link, &place, there.as_ref()).await?;
            self.rename(link, &from, &to, taken).await
        };
        match moved {
            Ok(()) => Ok(true),
            Err(fault) => Err(self.trouble(link, "keep a backup of it", path.as_bytes(), fault).await),
        }
    }
}

/// Returns whether an existing file is as it was sent, judged by size and time.
pub(super) fn is_same(entry: &Entry, found: &Attributes) -> bool {
    let found = metadata(found);
    let Metadata { size_bytes, modified, .. } = entry.metadata;
    found.size_bytes == size_bytes && found.modified.seconds == i64::from(seconds(modified))
}

/// Returns the differences between an entry and the existing one of its name, judged by attributes: times by whole
/// seconds. They show neither the target of a link, nor whether two names belong to one file.
pub(super) fn differences(entry: &Entry, found: Option<&Attributes>) -> Differences {
    let wanted = match &entry.kind {
        Kind::File | Kind::Attributes | Kind::HardLink { .. } => EntryType::File,
        Kind::Directory => EntryType::Directory,
        Kind::Symlink { .. } => EntryType::Symlink,
        Kind::Special(_) => EntryType::Other,
    };
    let Some(found) = found.filter(|found| entry_type(found) == wanted) else { return Differences::NEW };
    if matches!(entry.kind, Kind::HardLink { .. }) {
        return Differences { target: true, ..Differences::default() };
    }
    let (found, sent) = (metadata(found), &entry.metadata);
    let owner = sent.owner.zip(found.owner);
    let mode = if owner.is_some() { sent.mode } else { sent.mode & !SET_ID_BITS };
    Differences {
        target: wanted == EntryType::Symlink,
        size: wanted == EntryType::File && found.size_bytes != sent.size_bytes,
        time: found.modified.seconds != i64::from(seconds(sent.modified)),
        mode: wanted != EntryType::Symlink && found.mode != mode,
        owner: owner.is_some_and(|(sent, found)| sent.uid != found.uid),
        group: owner.is_some_and(|(sent, found)| sent.gid != found.gid),
        ..Differences::default()
    }
}
