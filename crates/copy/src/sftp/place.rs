//! The target of a push at the far host, found by the same rules as every other target.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt, path::PathBuf, rc::Rc};

use futures_util::future::join;
use sealane_sftp::{Attributes, FileKind, Request};
use sealane_tree::EntryType;

use crate::{
    error::{Error, ErrorKind},
    receive::permit::{ITSELF, last_component},
    sftp::{
        far::Far,
        link::{Fault, Link},
    },
    transfer::place::{At, meaning},
};

/// A target at the far host.
#[derive(Debug)]
pub(super) struct FarTarget {
    /// The folder that contains the entries, for requests to the server.
    pub(super) root: Vec<u8>,
    /// Whether the folder must be created.
    pub(super) is_new: bool,
    /// Whether nothing of the sources is there: the folder is new, or the only name in it is free.
    pub(super) is_free: bool,
    /// The name of the only source there; `None` if sources keep their names.
    pub(super) name: Option<Vec<u8>>,
    /// The name of the folder in messages.
    pub(super) shown: PathBuf,
}

pub(super) fn entry_type(attributes: &Attributes) -> EntryType {
    match attributes.kind() {
        FileKind::File => EntryType::File,
        FileKind::Directory => EntryType::Directory,
        FileKind::Symlink => EntryType::Symlink,
        FileKind::Other => EntryType::Other,
    }
}

/// Returns the path of an entry below a folder that the server knows by `root`.
pub(super) fn below(root: &[u8], path: &[u8]) -> Vec<u8> {
    match root.last() {
        _ if path.is_empty() => root.to_vec(),
        Some(b'/') => [root, path].concat(),
        _ => [root, b"/", path].concat(),
    }
}

/// Returns a path without its last component.
pub(super) fn parent(path: &[u8]) -> Vec<u8> {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    match path[..end].iter().rposition(|&byte| byte == b'/') {
        Some(0) => b"/".to_vec(),
        Some(slash) => path[..slash].to_vec(),
        None => b".".to_vec(),
    }
}

/// Returns whether a path can only be that of a folder.
fn wants_folder(path: &[u8]) -> bool {
    let last = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
    matches!(last, b"" | b"." | b"..")
}

/// The entry at a target's path, and the folder above it.
pub(super) struct Sight {
    asked: Vec<u8>,
    path: Vec<u8>,
    link: Rc<Link>,
    found: Result<Option<Attributes>, Fault>,
    above: Result<Option<Attributes>, Fault>,
    /// The same bytes for all spellings of the place.
    pub(super) resolved: Vec<u8>,
}

/// Looks at a target and at the folder that contains it.
pub(super) async fn look(far: &Far, asked: &[u8]) -> Result<Sight, Error> {
    let path = far.expand(asked).await?;
    let link = far.any()?;
    // With its slashes, an existing file would seem to be missing.
    let bare_bytes = path.iter().rposition(|&byte| byte != b'/').map_or(1, |last| last + 1);
    let (bare, folder) = (&path[..bare_bytes.min(path.len())], parent(&path));
    let (own, its) = (Request::RealPath { path: bare }, Request::RealPath { path: &folder });
    let stats = join(link.stat(bare), link.stat(&folder));
    let ((found, above), (own, its)) = join(stats, join(link.path_of(&own), link.path_of(&its))).await;
    let is_folder = matches!(&found, Ok(Some(found)) if found.kind() == FileKind::Directory);
    let resolved = match (own, its) {
        (Ok(own), _) if is_folder => own,
        (_, Ok(its)) => below(&its, last_component(&path).unwrap_or_default()),
        _ => path.clone(),
    };
    Ok(Sight { asked: asked.to_vec(), found, above, path, link, resolved })
}

impl Sight {
    /// Resolves the target. `began` means that this transfer has begun before.
    pub(super) fn target(
        self,
        far: &Far,
        into_folder: bool,
        as_named: bool,
        began: bool,
    ) -> Result<FarTarget, Error> {
        let Self { asked, path, link, found, above, .. } = self;
        let shown = String::from_utf8_lossy(&asked).escape_debug().to_string();
        let found = found.map_err(|fault| far.error(&link, &shown, fault))?;
        let (name, is_missing) = (last_component(&path), found.is_none());
        let must_be_folder = into_folder || wants_folder(&path);
        let (at, name) = meaning(found.as_ref().map(entry_type), name, must_be_folder, as_named, || began)
            .map_err(|what| Error::new(ErrorKind::Usage, format!("{shown} {what}")))?;
        let given = PathBuf::from(OsStr::from_bytes(&asked));
        let shown = match (name, given.parent()) {
            (Some(name), Some(parent)) if name != ITSELF => parent.to_owned(),
            _ => given,
        };
        let (root, there) = match at {
            At::Parent => (parent(&path), Some(above)),
            At::Itself => (path.clone(), Some(Ok(found))),
            At::New => (path.clone(), None),
        };
        let is_new = there.is_none();
        let is_free = is_new || (name.is_some() && is_missing);
        if let Some(there) = there {
            let there = there.map_err(|fault| far.error(&link, &shown.display().to_string(), fault))?;
            if there.as_ref().map(Attributes::kind) != Some(FileKind::Directory) {
                let what = if there.is_some() { "is not a folder" } else { "is not there" };
                let folder = String::from_utf8_lossy(&root).escape_debug().to_string();
                return Err(Error::new(
                    ErrorKind::Io,
                    format!("cannot write to {}: {folder} {what}", far.host),
                ));
            }
        }
        Ok(FarTarget { root, is_new, is_free, name: name.map(<[u8]>::to_vec), shown })
    }
}

impl FarTarget {
    /// Creates the folder if it does not exist.
    pub(super) async fn make(&self, far: &Far) -> Result<(), Error> {
        if !self.is_new {
            return Ok(());
        }
        let link = far.any()?;
        let request = Request::MakeDirectory { path: &self.root, attributes: Attributes::default() };
        link.act(&request).await.map_err(|fault| far.error(&link, &self.shown.display().to_string(), fault))
    }

    pub(super) fn at(&self, path: &[u8]) -> Vec<u8> {
        below(&self.root, path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_and_folders_by_their_spelling() {
        for (path, expected) in
            [("a", "."), ("a/", "."), ("a/b", "a"), ("/a", "/"), ("/a/b//", "/a"), ("a//b", "a/")]
        {
            assert_eq!(parent(path.as_bytes()), expected.as_bytes(), "{path}");
        }
        for (path, expected) in
            [("a", false), ("a/", true), (".", true), ("a/..", true), ("..a", false), ("", true)]
        {
            assert_eq!(wants_folder(path.as_bytes()), expected, "{path}");
        }
    }
}
