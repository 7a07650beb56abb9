//! Folders: made when needed, finished at the end.
//!
//! Guarantees: a name that is a link is not entered; until folders made here are finished, only the writing user may
//! enter them.

use std::{cell::Cell, collections::BTreeMap};

use futures_util::{StreamExt, future::LocalBoxFuture, stream::FuturesUnordered};
use sealane_sftp::{Attributes, FileKind, Request};

use super::{Folder, Found, Put, attributes::times};
use crate::{
    error::Error,
    journal::Entry as JournalEntry,
    sftp::{far::Trouble, link::Link},
};

/// The mode of folders until they are finished, as on a local target: only the writing user may enter, and a later
/// copy recognises it.
const UNFINISHED_FOLDER: u32 = 0o1700;
/// The number of folders finished at once.
const FOLDERS_AT_ONCE: usize = 1024;

fn unfinished() -> Attributes {
    Attributes { mode: Some(UNFINISHED_FOLDER), ..Attributes::default() }
}

impl Put {
    /// Returns a folder of the target, creating it and its parents if they are missing.
    pub(super) fn folder<'a>(
        &'a self,
        link: &'a Link,
        path: &'a [u8],
    ) -> LocalBoxFuture<'a, Result<Found, Trouble>> {
        Box::pin(async move {
            if path.is_empty() {
                return Ok(Found { is_new: false, is_made: false, original_mode: None, attributes: None });
            }
            let folder = self.folders.borrow_mut().entry(path.to_vec()).or_default().clone();
            let mut state = folder.state.lock().await;
            if let Some(found) = *state {
                return Ok(found);
            }
            let above =
                path.iter().rposition(|&byte| byte == b'/').map_or(&path[..0], |slash| &path[..slash]);
            self.folder(link, above).await?;
            let found = self.make_folder(link, path, &folder.is_noted).await?;
            *state = Some(found);
            Ok(found)
        })
    }

    async fn make_folder(&self, link: &Link, path: &[u8], is_noted: &Cell<bool>) -> Result<Found, Trouble> {
        let at = self.at(path);
        if self.rules.dry_run {
            return self.find_folder(link, path).await;
        }
        // Go's pkg/sftp makes a folder without the attributes of the request. If it ends before it sets them, this copy or a
        // later one recognises the folder by the journal.
        if !link.behaves_as_openssh() && !is_noted.get() {
            match link.lstat(&at).await {
                Ok(Some(_)) => {}
                Ok(None) => {
                    self.note(&[JournalEntry::Opened { mode: UNFINISHED_FOLDER, path: path.to_vec() }])?;
                    is_noted.set(true);
                }
                Err(fault) => return Err(self.trouble(link, "look at it", path, fault).await),
            }
        }
        let made = link.act(&Request::MakeDirectory { path: &at, attributes: unfinished() }).await;
        let fault = match made {
            Ok(()) => {
                if !link.behaves_as_openssh() {
                    self.make_private(link, path).await?;
                }
                return Ok(Found { is_new: true, is_made: true, original_mode: None, attributes: None });
            }
            Err(fault) => fault,
        };
        let attributes = match link.lstat(&at).await {
            Ok(Some(attributes)) => attributes,
            Ok(None) => return Err(self.trouble(link, "create the folder", path, fault).await),
            Err(fault) => return Err(self.trouble(link, "look at it", path, fault).await),
        };
        self.check_is_folder(path, &attributes)?;
        let mode = attributes.permissions().unwrap_or(0o777);
        // A copy that was cut off has left this folder.
        let is_made = mode == UNFINISHED_FOLDER || is_noted.get() || self.resumable.opened.contains_key(path);
        let mut original_mode = None;
        if is_made && mode != UNFINISHED_FOLDER {
            self.make_private(link, path).await?;
        } else if mode & 0o700 != 0o700 {
            let opened = Attributes { mode: Some(mode | 0o700), ..Attributes::default() };
            // Missing permission is noticed when something is made in it.
            if link.act(&Request::SetStat { path: &at, attributes: opened }).await.is_ok() {
                original_mode = Some(mode);
            }
        }
        Ok(Found { is_new: false, is_made, original_mode, attributes: Some(attributes) })
    }

    /// Gives a folder that was made by a copy the mode of unfinished ones.
    async fn make_private(&self, link: &Link, path: &[u8]) -> Result<(), Trouble> {
        let request = Request::SetStat { path: &self.at(path), attributes: unfinished() };
        match link.act(&request).await {
            Ok(()) => Ok(()),
            Err(fault) => Err(self.trouble(link, "set the folder's mode", path, fault).await),
        }
    }

    /// Returns the same in a dry run, which changes nothing.
    async fn find_folder(&self, link: &Link, path: &[u8]) -> Result<Found, Trouble> {
        let attributes = match link.lstat(&self.at(path)).await {
            Ok(attributes) => attributes,
            Err(fault) => return Err(self.trouble(link, "look at it", path, fault).await),
        };
        if let Some(attributes) = &attributes {
            self.check_is_folder(path, attributes)?;
        }
        let is_made = attributes.is_some_and(|found| found.permissions() == Some(UNFINISHED_FOLDER));
        Ok(Found { is_new: attributes.is_none(), is_made, original_mode: None, attributes })
    }

    fn check_is_folder(&self, path: &[u8], found: &Attributes) -> Result<(), Trouble> {
        let what = match found.kind() {
            FileKind::Directory => return Ok(()),
            FileKind::Symlink => "a symbolic link is in the place of the folder, and is not followed",
            _ => "a file is in the place of the folder",
        };
        Err(Trouble::Entry(format!("{}: {what}", self.shown(path))))
    }

    /// Gives every folder its mode, owner and times, the deepest first.
    pub(in crate::sftp) async fn finish_folders(&self) -> Result<(), Error> {
        if self.rules.dry_run {
            return Ok(());
        }
        let folders = std::mem::take(&mut *self.folders.borrow_mut());
        let mut by_depth: BTreeMap<usize, Vec<_>> = BTreeMap::new();
        for (path, folder) in folders {
            let depth = path.iter().filter(|&&byte| byte == b'/').count();
            by_depth.entry(depth).or_default().push((path, folder));
        }
        for (_, level) in by_depth.into_iter().rev() {
            for some in level.chunks(FOLDERS_AT_ONCE) {
                let mut work: FuturesUnordered<_> =
                    some.iter().map(|(path, folder)| self.finish_folder(path, folder)).collect();
                while let Some(done) = work.next().await {
                    done?;
                }
            }
        }
        Ok(())
    }

    async fn finish_folder(&self, path: &[u8], folder: &Folder) -> Result<(), Error> {
        let Some(found) = *folder.state.lock().await else { return Ok(()) };
        let sent = folder.sent.borrow().clone();
        let link = self.far.any()?;
        let at = self.at(path);
        let begin = |attributes| link.begin(&Request::SetStat { path: &at, attributes });
        let has_owner = match &sent {
            Some(sent) => self.set_owner(sent, begin).await,
            None => Ok(false),
        };
        let set = match has_owner {
            Ok(has_owner) => {
                let attributes = match (&sent, found.is_made || self.rules.folder_modes) {
                    (Some(sent), true) => self.final_attributes(sent, has_owner),
                    (Some(sent), false) => Attributes {
                        mode: found.original_mode,
                        times: Some(times(sent.modified)),
                        ..Attributes::default()
                    },
                    // Its own entry has not arrived: the folder stays unfinished, and so private, until a later copy
                    // brings it.
                    (None, _) if found.is_made => return Ok(()),
                    (None, _) => Attributes { mode: found.original_mode, ..Attributes::default() },
                };
                if attributes == Attributes::default() { Ok(()) } else { begin(attributes).done().await }
            }
            Err(fault) => Err(fault),
        };
        match set {
            Ok(()) => Ok(()),
            Err(fault) => match self.trouble(&link, "set the folder's mode and times", path, fault).await {
                Trouble::Lost => Err(self.far.lost()),
                Trouble::Fatal(error) => Err(error),
                Trouble::Entry(reason) => {
                    self.tell_failed(path, reason);
                    Ok(())
                }
            },
        }
    }

    /// A transfer failed. If the same command can continue, folders that were made writable get their modes back;
    /// otherwise unfinished files are removed, and folders are finished.
    pub(in crate::sftp) async fn give_up(&self) {
        let Ok(link) = self.far.any() else { return };
        if self.journal.is_none() {
            let open: Vec<_> = self.files.borrow_mut().drain().collect();
            for (_, file) in open {
                let _ = link.act(&Request::Remove { path: &file.part }).await;
            }
            // The failure of the copy is the one to report.
            let _ = self.finish_folders().await;
            return;
        }
        let folders = std::mem::take(&mut *self.folders.borrow_mut());
        for (path, folder) in folders.into_iter().rev() {
            let found = *folder.state.lock().await;
            let Some(mode) = found.and_then(|found| found.original_mode) else { continue };
            let attributes = Attributes { mode: Some(mode), ..Attributes::default() };
            let _ = link.act(&Request::SetStat { path: &self.at(&path), attributes }).await;
        }
    }

    /// Removes files that an earlier run began and this one did not continue.
    pub(in crate::sftp) async fn discard_abandoned(&self) {
        let Ok(link) = self.far.any() else { return };
        for partial in self.resumable.partial.values() {
            if let Some((path, temp)) = partial.names() {
                // A file that cannot be removed only occupies space.
                let path = self.beside(&path, &temp);
                let _ = link.act(&Request::Remove { path: &path }).await;
            }
        }
    }
}
