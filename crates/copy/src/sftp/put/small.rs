//! Small entries, each with all its requests in flight at once.

use sealane_sftp::{Attributes, Extension, Handle, Request, StatusCode};
use sealane_tree::{EntryType, Kind, RelativePath};

use super::{Found, Put, naming::differences};
use crate::{
    error::Error,
    proto::entry::Entry,
    sftp::{
        far::Trouble,
        link::{Fault, Link},
        place::entry_type,
        remains::COMPARED,
    },
};

impl Put {
    /// Makes a small entry, or reports why it cannot be made, and returns its path. The function for its kind returns
    /// whether it changed anything.
    pub(super) async fn entry(
        &self,
        link: &Link,
        entry: Entry,
        content: &[u8],
    ) -> Result<RelativePath, Trouble> {
        let placed = match &entry.kind {
            Kind::File => self.small_file(link, &entry, content).await,
            Kind::Attributes => self.attributes(link, &entry).await,
            Kind::Directory => self.directory(link, &entry).await,
            Kind::Symlink { target } => self.symlink(link, &entry, target.as_bytes()).await,
            Kind::HardLink { to } => self.hard_link(link, &entry, to).await,
            // A request for these is refused before anything is read.
            Kind::Special(_) => {
                Err(Trouble::Fatal(Error::protocol("SFTP makes no devices, pipes or sockets")))
            }
        };
        match placed {
            Ok(true) => {
                self.entry_done();
                self.count_xattrs(&entry.metadata);
            }
            Ok(false) if self.maybe_named.borrow_mut().remove(&entry.path) => self.entry_done(),
            Ok(false) => self.entry_unchanged(),
            Err(trouble) => self.entry_failed(&entry, trouble)?,
        }
        Ok(entry.path)
    }

    pub(super) async fn small_file(
        &self,
        link: &Link,
        entry: &Entry,
        content: &[u8],
    ) -> Result<bool, Trouble> {
        let path = &entry.path;
        let folder = self.folder(link, path.split().0).await?;
        let leave = link.leave().await;
        let part = self.temp(path);
        if self.has_name(link, entry, &part).await {
            return Ok(true);
        }
        let handle = match self.create(link, &part).await {
            Ok(handle) => handle,
            Err(fault) => return Err(self.trouble(link, "create it", path.as_bytes(), fault).await),
        };
        let made = self.fill(link, &handle, entry, content, folder).await;
        drop(leave);
        match made {
            Ok(found) => self.take_name(link, entry, &part, found).await,
            Err(fault) => {
                let trouble = self.trouble(link, "write it", path.as_bytes(), fault).await;
                if !matches!(trouble, Trouble::Lost) {
                    let _ = link.act(&Request::Remove { path: &part }).await;
                }
                Err(trouble)
            }
        }
    }

    /// Sends content, mode, times and closing, and reads the attributes of the existing entry, all at once.
    pub(super) async fn fill(
        &self,
        link: &Link,
        handle: &Handle,
        entry: &Entry,
        content: &[u8],
        folder: Found,
    ) -> Result<Option<Attributes>, Fault> {
        let mut pending = Vec::with_capacity(4);
        let most = link.limits().write_bytes as usize;
        for (index, chunk) in content.chunks(most).enumerate() {
            let mut packet = link.packet(handle, (index * most) as u64, chunk.len());
            packet.data_mut().copy_from_slice(chunk);
            pending.push(link.write_now(packet));
        }
        let mut outcome = Ok(());
        if !link.behaves_as_openssh() {
            // A write that is done later would change the file's time.
            for written in pending.drain(..) {
                outcome = outcome.and(written.done().await);
            }
            outcome?;
        }
        let has_owner = self
            .set_owner(&entry.metadata, |attributes| link.begin(&Request::FsetStat { handle, attributes }));
        let attributes = match has_owner.await {
            Ok(has_owner) => self.final_attributes(&entry.metadata, has_owner),
            Err(fault) => return Err(fault),
        };
        pending.push(link.begin(&Request::FsetStat { handle, attributes }));
        if self.syncs(link) {
            pending.push(link.begin(&Request::Fsync { handle }));
        }
        pending.push(link.begin(&Request::Close { handle }));
        let look = self.look(link, folder, &entry.path);
        let mut outcome = look.await;
        for pending in pending {
            if let Err(fault) = pending.done().await {
                outcome = outcome.and(Err(fault));
            }
        }
        outcome
    }

    pub(super) async fn directory(&self, link: &Link, entry: &Entry) -> Result<bool, Trouble> {
        let path = entry.path.as_bytes();
        let found = self.folder(link, path).await?;
        if let Some(folder) = self.folders.borrow().get(path) {
            *folder.sent.borrow_mut() = Some(entry.metadata.clone());
        }
        let differences = self.compare(link, entry, found.known().as_ref()).await?;
        self.tell_change(entry, differences);
        Ok(differences.any())
    }

    /// Updates the attributes of a file that has the content of its source.
    async fn attributes(&self, link: &Link, entry: &Entry) -> Result<bool, Trouble> {
        let path = entry.path.as_bytes();
        let at = self.at(path);
        let found = match link.lstat(&at).await {
            Ok(found) => found,
            Err(fault) => return Err(self.trouble(link, "look at it", path, fault).await),
        };
        // Requests by path follow links.
        if found.as_ref().map(entry_type) != Some(EntryType::File) {
            return Err(Trouble::Entry(format!("{}: it is no longer a file", self.shown(path))));
        }
        let differences = differences(entry, found.as_ref());
        if !differences.any() {
            return Ok(false);
        }
        let has_owner = self
            .set_owner(&entry.metadata, |attributes| link.begin(&Request::SetStat { path: &at, attributes }))
            .await;
        let set = match has_owner {
            Ok(has_owner) => {
                let attributes = self.final_attributes(&entry.metadata, has_owner);
                link.act(&Request::SetStat { path: &at, attributes }).await
            }
            Err(fault) => Err(fault),
        };
        if let Err(fault) = set {
            return Err(self.trouble(link, "set its attributes", path, fault).await);
        }
        self.tell_change(entry, differences);
        Ok(true)
    }

    pub(super) async fn hard_link(
        &self,
        link: &Link,
        entry: &Entry,
        to: &RelativePath,
    ) -> Result<bool, Trouble> {
        let path = &entry.path;
        if !link.has(Extension::HardLink) {
            let what = "the SFTP server there makes no hard links";
            return Err(Trouble::Entry(format!("{}: {what}", self.shown(path.as_bytes()))));
        }
        let folder = self.folder(link, path.split().0).await?;
        let found = match self.look(link, folder, path).await {
            Ok(found) => found,
            Err(fault) => return Err(self.trouble(link, "look at it", path.as_bytes(), fault).await),
        };
        let part = self.temp(path);
        let is_in_place = match &found {
            Some(found) => self.are_one_file(link, path, &part, to, found).await,
            None => Ok(false),
        };
        match is_in_place {
            Ok(true) => return Ok(false),
            Ok(false) => {}
            Err(fault) => return Err(self.trouble(link, "compare it", path.as_bytes(), fault).await),
        }
        if let Err(fault) = link_anew(link, &self.at(to.as_bytes()), &part).await {
            return Err(self.trouble(link, "create it", path.as_bytes(), fault).await);
        }
        let is_replaced = found.is_some();
        let done = self.take_name(link, entry, &part, found).await;
        // Renaming one name of a file to another name of the same file does nothing, and leaves both.
        if matches!(done, Ok(true)) && is_replaced {
            let _ = link.act(&Request::Remove { path: &part }).await;
        }
        done
    }

    /// Returns whether `path`, with these attributes, is a name of the file `to`. SFTP tells no numbers of files, but
    /// renaming one name of a file to another name of the same file does nothing, and leaves both. Only temporary
    /// names are renamed, and `part` is one of them.
    async fn are_one_file(
        &self,
        link: &Link,
        path: &RelativePath,
        part: &[u8],
        to: &RelativePath,
        found: &Attributes,
    ) -> Result<bool, Fault> {
        let to = self.at(to.as_bytes());
        if !link.has(Extension::PosixRename) || !may_be_one(found, link.lstat(&to).await?.as_ref()) {
            return Ok(false);
        }
        let other = self.temp_for(path, COMPARED);
        link_anew(link, &to, part).await?;
        link_anew(link, &self.at(path.as_bytes()), &other).await?;
        let renamed = link.act(&Request::PosixRename { from: part, to: &other }).await;
        let is_left = link.lstat(part).await;
        for name in [part, other.as_slice()] {
            let _ = link.act(&Request::Remove { path: name }).await;
        }
        renamed?;
        Ok(is_left?.is_some())
    }
}

/// Returns whether two names may belong to one file, judged by their attributes.
pub(super) fn may_be_one(one: &Attributes, other: Option<&Attributes>) -> bool {
    let facts = |found: &Attributes| {
        (found.mode, found.size_bytes, found.owner, found.times.map(|times| times.modified))
    };
    entry_type(one) == EntryType::File && other.is_some_and(|other| facts(one) == facts(other))
}

/// Gives a file another name, in place of what a killed run has left there.
async fn link_anew(link: &Link, from: &[u8], to: &[u8]) -> Result<(), Fault> {
    let request = Request::HardLink { from, to };
    match link.act(&request).await {
        Err(fault) if fault.code() == Some(StatusCode::Failure) => {
            let _ = link.act(&Request::Remove { path: to }).await;
            link.act(&request).await
        }
        made => made,
    }
}
