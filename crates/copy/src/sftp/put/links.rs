//! Symbolic links at the far target.
//!
//! Guarantees: no request changes what a link points to; a link is made only in ways that the server was seen to
//! handle, and otherwise refused by name.

use sealane_sftp::{Attributes, Extension, FileKind, Request, StatusCode};
use sealane_tree::{Differences, RelativePath};

use super::Put;
use crate::{
    proto::entry::Entry,
    sftp::{
        far::Trouble,
        link::Link,
        manners::{Manners, PathOrder},
        place::parent,
    },
};

/// The state of a name that an entry is to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    Free,
    /// An entry that gives way when another is renamed to its name.
    Replaceable,
    /// A link that must be removed first, because renaming would replace what it points to.
    Link,
}

impl Put {
    /// Returns the name of a file or private folder for a trial of the server. A later run of the same command finds what a killed one has left there.
    pub(super) fn place_for_trial(&self, path: &RelativePath, purpose: &[u8]) -> Result<Vec<u8>, Trouble> {
        /// Stands for any entry of the folder in question.
        const ENTRY: &[u8] = b"trial";
        let above = match path.as_bytes().split(|&byte| byte == b'/').collect::<Vec<_>>()[..] {
            [first, _, ..] if self.sole.as_deref() == Some(first) => [first, b"/", ENTRY].concat(),
            _ => ENTRY.to_vec(),
        };
        let entry = RelativePath::new(&above).map_err(|error| Trouble::Entry(error.to_string()))?;
        Ok(self.temp_for(&entry, purpose))
    }

    /// Returns how the server treats links. If that is not known, it is tried once, in the folder of the target.
    pub(in crate::sftp) async fn manners(
        &self,
        link: &Link,
        path: &RelativePath,
    ) -> Result<Manners, Trouble> {
        let mut manners = self.manners.lock().await;
        if let Some(found) = *manners {
            return Ok(found);
        }
        match Manners::find(link, &self.place_for_trial(path, b"manners")?).await {
            Ok(found) => Ok(*manners.insert(found)),
            Err(fault) => {
                let doing = "try how its server treats links";
                Err(self.trouble(link, doing, path.as_bytes(), fault).await)
            }
        }
    }

    fn refused(&self, path: &RelativePath, what: &str) -> Trouble {
        Trouble::Entry(format!(
            "{}: the SFTP server of {} {what}",
            self.shown(path.as_bytes()),
            self.far.host
        ))
    }

    /// Returns how a name must be treated that has these attributes.
    pub(super) async fn taken(
        &self,
        link: &Link,
        path: &RelativePath,
        found: Option<&Attributes>,
    ) -> Result<Taken, Trouble> {
        match found.map(Attributes::kind) {
            None => Ok(Taken::Free),
            Some(FileKind::Symlink) if !link.treats_links_as_openssh() => {
                let manners = self.manners(link, path).await?;
                match manners {
                    Manners { renames: true, .. } => Ok(Taken::Replaceable),
                    Manners { removes: true, .. } => Ok(Taken::Link),
                    _ => Err(self.refused(path, "would replace what the link of this name points to")),
                }
            }
            Some(_) => Ok(Taken::Replaceable),
        }
    }

    /// Returns whether attributes of links themselves can be set.
    pub(super) async fn sets_links(&self, link: &Link, path: &RelativePath) -> Result<bool, Trouble> {
        if !link.has(Extension::LsetStat) || link.treats_links_as_openssh() {
            return Ok(link.has(Extension::LsetStat));
        }
        // A dry run makes nothing, and so tries nothing.
        Ok(!self.rules.dry_run && self.manners(link, path).await?.sets)
    }

    pub(super) async fn symlink(&self, link: &Link, entry: &Entry, target: &[u8]) -> Result<bool, Trouble> {
        let path = &entry.path;
        let folder = self.folder(link, path.split().0).await?;
        let there = match self.look(link, folder, path).await {
            Ok(there) => there,
            Err(fault) => return Err(self.trouble(link, "look at it", path.as_bytes(), fault).await),
        };
        let differences = self.compare(link, entry, there.as_ref()).await?;
        if !differences.is_new && !differences.target {
            return self.update_link(link, entry, there.as_ref(), differences).await;
        }
        let manners = self.manners(link, path).await?;
        let Some(order) = manners.making else {
            return Err(self.refused(path, "makes no symbolic links, or changes what they say"));
        };
        if !manners.renames {
            return self.link_in_place(link, entry, (order, target), there, differences).await;
        }
        let part = self.temp(path);
        let request = order.request(target, &part);
        let mut made = link.act(&request).await;
        if made.as_ref().is_err_and(|fault| fault.code() == Some(StatusCode::Failure)) {
            let _ = link.act(&Request::Remove { path: &part }).await;
            made = link.act(&request).await;
        }
        if let Err(fault) = made {
            return Err(self.trouble(link, "create it", path.as_bytes(), fault).await);
        }
        if manners.sets && link.has(Extension::LsetStat) {
            let set = self.link_attributes(link, &part, &entry.metadata).await;
            if let Err(fault) = set {
                return Err(self.trouble(link, "set its times", path.as_bytes(), fault).await);
            }
        }
        self.take_name(link, entry, &part, there).await
    }

    /// Makes a link under its final name, which is freed first: the server would rename what it points to.
    async fn link_in_place(
        &self,
        link: &Link,
        entry: &Entry,
        (order, target): (PathOrder, &[u8]),
        there: Option<Attributes>,
        differences: Differences,
    ) -> Result<bool, Trouble> {
        let path = &entry.path;
        self.check_gives_way(entry, there.as_ref())?;
        if self.is_newer(entry, there.as_ref()) {
            return Ok(false);
        }
        let at = self.at(path.as_bytes());
        if let Some(found) = &there {
            let taken = self.taken(link, path, Some(found)).await?;
            self.back_up(link, path, Some(found), true).await?;
            match link.act(&Request::Remove { path: &at }).await {
                Ok(()) => {}
                // It is a backup now.
                Err(fault) if fault.code() == Some(StatusCode::NoSuchFile) && taken != Taken::Link => {}
                Err(fault) => {
                    return Err(self.trouble(link, "replace it", path.as_bytes(), fault).await);
                }
            }
        }
        let made = match link.act(&order.request(target, &at)).await {
            Ok(()) => link.path_of(&Request::ReadLink { path: &at }).await.map(drop),
            Err(fault) => Err(fault),
        };
        if let Err(fault) = made {
            let trouble = self.trouble(link, "create it", path.as_bytes(), fault).await;
            if matches!(trouble, Trouble::Lost) {
                self.maybe_named.borrow_mut().insert(path.clone());
            }
            return Err(trouble);
        }
        if self.sets_links(link, path).await?
            && let Err(fault) = self.link_attributes(link, &at, &entry.metadata).await
        {
            return Err(self.trouble(link, "set its times", path.as_bytes(), fault).await);
        }
        self.tell_change(entry, differences);
        Ok(true)
    }

    /// Updates the differing attributes of a link that has the right target.
    async fn update_link(
        &self,
        link: &Link,
        entry: &Entry,
        there: Option<&Attributes>,
        differences: Differences,
    ) -> Result<bool, Trouble> {
        if !differences.any() || self.is_newer(entry, there) {
            return Ok(false);
        }
        let path = entry.path.as_bytes();
        if let Err(fault) = self.link_attributes(link, &self.at(path), &entry.metadata).await {
            return Err(self.trouble(link, "set its times", path, fault).await);
        }
        self.tell_change(entry, differences);
        Ok(true)
    }

    /// Refuses to delete a link if its server would delete what it points to.
    pub(in crate::sftp) async fn check_deletable(
        &self,
        link: &Link,
        path: &RelativePath,
    ) -> Result<(), Trouble> {
        if link.treats_links_as_openssh() || self.manners(link, path).await?.removes {
            return Ok(());
        }
        match link.lstat(&self.at(path.as_bytes())).await {
            Ok(Some(found)) if found.kind() == FileKind::Symlink => {
                Err(self.refused(path, "would delete what this link points to"))
            }
            Ok(_) => Ok(()),
            Err(fault) => Err(self.trouble(link, "look at it", path.as_bytes(), fault).await),
        }
    }
}

/// Returns whether the link at `at` leads to where a server says that it leads, if it has this text.
pub(super) fn leads_to(at: &[u8], text: &[u8], said: &[u8]) -> bool {
    let wanted = match text.first() {
        Some(b'/') => resolved(text),
        _ => resolved(&[&parent(at), &b"/"[..], text].concat()),
    };
    match wanted.first() {
        _ if !said.starts_with(b"/") => wanted == said,
        Some(b'/') => wanted == said,
        // It lies below the server's own folder, whose name is not known here.
        _ => {
            let is_below = !wanted.is_empty() && !wanted.starts_with(b"..");
            is_below && said.ends_with(&[&b"/"[..], &wanted].concat())
        }
    }
}

/// Returns a path without `.`, `..` and empty components, as far as its text tells.
fn resolved(path: &[u8]) -> Vec<u8> {
    let is_absolute = path.starts_with(b"/");
    let mut kept: Vec<&[u8]> = Vec::new();
    for component in path.split(|&byte| byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." if kept.last().is_some_and(|last| *last != b"..") => {
                kept.pop();
            }
            b".." if is_absolute => {}
            component => kept.push(component),
        }
    }
    let path = kept.join(&b'/');
    if is_absolute { [&b"/"[..], &path].concat() } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_link_leads_follows_from_its_place_and_text() {
        for (at, text, said, expected) in [
            ("/a/b/link", "c", "/a/b/c", true),
            ("/a/b/link", "../c/./d/", "/a/c/d", true),
            ("/a/b/link", "/c//d", "/c/d", true),
            ("/a/b/link", "c", "/a/c", false),
            ("/a/b/link", "c", "c", false),
            ("b/link", "../c", "c", true),
            ("b/link", "c", "/h/b/c", true),
            ("b/link", "../../c", "/c", false),
            ("link", "..", "/", false),
        ] {
            let is_there = leads_to(at.as_bytes(), text.as_bytes(), said.as_bytes());
            assert_eq!(is_there, expected, "{at} -> {text}: {said}");
        }
    }
}
