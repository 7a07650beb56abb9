//! How a server treats symbolic links, found by trying it in a private folder that is removed again.
//!
//! The protocol leaves it open whether a request with the path of a link means the link or what it points to, and servers
//! differ: ProFTPD's renames what a link points to, wherever that lies. OpenSSH's server makes one system call per request,
//! none of which follows a link that it renames or removes.
//!
//! Guarantees: no path that is tried leads out of the private folder, whichever of the two a server means.

use futures_util::future::{join, join_all};
use sealane_sftp::{Access, Attributes, Extension, FileKind, Reply, Request, Times};

use crate::sftp::{
    link::{Fault, Link, Pending},
    place::below,
};

/// The order in which a server takes the two paths of SYMLINK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PathOrder {
    /// The target first, as OpenSSH's does.
    TargetFirst,
    /// The link first, as the draft says.
    LinkFirst,
}

impl PathOrder {
    /// Returns the request that makes a link.
    pub(super) fn request<'a>(self, target: &'a [u8], link: &'a [u8]) -> Request<'a> {
        match self {
            Self::TargetFirst => Request::SymbolicLink { target, link },
            Self::LinkFirst => Request::SymbolicLink { target: link, link: target },
        }
    }
}

/// How a server treats symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Manners {
    /// The way to make a link with the text that is asked for; `None` if there is none.
    pub(super) making: Option<PathOrder>,
    /// Renaming means links themselves: those that are renamed, and those that are replaced.
    pub(super) renames: bool,
    /// Removing a link removes the link itself.
    pub(super) removes: bool,
    /// The extension for attributes of links sets those of links themselves.
    pub(super) sets: bool,
    /// Lists of names show which of them are links.
    pub(super) lists: bool,
}

/// The text of the link that shows the order of paths; nothing has this name.
const ABSENT: &[u8] = b"absent";
/// The link that shows the order of paths.
const ORDER: &[u8] = b"order";
/// A file that is renamed to the name of a link.
const FRESH: &[u8] = b"fresh";
/// The new name of a link that is renamed.
const MOVED: &[u8] = b"moved";
/// Links, each with the file that it points to.
const SEEN: Pair = Pair { link: b"seen", file: b"file-seen" };
const RENAMED: Pair = Pair { link: b"renamed", file: b"file-renamed" };
const REPLACED: Pair = Pair { link: b"replaced", file: b"file-replaced" };
const REMOVED: Pair = Pair { link: b"removed", file: b"file-removed" };
const DATED: Pair = Pair { link: b"dated", file: b"file-dated" };
const PAIRS: [Pair; 5] = [SEEN, RENAMED, REPLACED, REMOVED, DATED];
/// The time that a link gets, and the file that it points to must not get.
const MARK: Times = Times { accessed: 1, modified: 1 };
/// More names than the private folder has.
const NAMES_MAX: usize = 64;

struct Pair {
    link: &'static [u8],
    file: &'static [u8],
}

impl Manners {
    const OPENSSH: Self =
        Self { making: Some(PathOrder::TargetFirst), renames: true, removes: true, sets: true, lists: true };

    /// Returns how the server of `link` treats links. If that is not known, it is tried in `folder`, which is made and
    /// removed; what an earlier trial has left there is removed first.
    pub(super) async fn find(link: &Link, folder: &[u8]) -> Result<Self, Fault> {
        if link.treats_links_as_openssh() {
            return Ok(Self::OPENSSH);
        }
        let attributes = Attributes { mode: Some(0o700), ..Attributes::default() };
        let make = Request::MakeDirectory { path: folder, attributes };
        if link.act(&make).await.is_err() {
            clear(link, folder).await;
            link.act(&make).await?;
        }
        let found = Trial { link, folder }.run().await;
        clear(link, folder).await;
        found
    }
}

/// Removes the private folder, and everything that a trial may have left in it.
async fn clear(link: &Link, folder: &[u8]) {
    let links = PAIRS.iter().map(|pair| pair.link).chain([ABSENT, ORDER, MOVED]);
    let links: Vec<_> = links.map(|name| below(folder, name)).collect();
    let files = PAIRS.iter().map(|pair| pair.file).chain([FRESH]);
    let paths: Vec<_> = links.iter().cloned().chain(files.map(|name| below(folder, name))).collect();
    let remove_all = || join_all(paths.iter().map(|path| link.begin(&Request::Remove { path }).done()));
    let remove_folder = async || link.act(&Request::RemoveDirectory { path: folder }).await;
    remove_all().await;
    if !remove_folder().await.is_err_and(|fault| fault.code().is_some()) {
        return;
    }
    // If the server removes what links point to, files take the names of the links.
    let fresh = below(folder, FRESH);
    for to in &links {
        let Ok(handle) = link.open(&fresh, Access::Create).await else { continue };
        let _ = link.act(&Request::Close { handle: &handle }).await;
        let _ = link.act(&Request::PosixRename { from: &fresh, to }).await;
    }
    remove_all().await;
    // A folder that cannot be removed only occupies a name.
    let _ = remove_folder().await;
}

struct Trial<'a> {
    link: &'a Link,
    folder: &'a [u8],
}

impl Trial<'_> {
    fn at(&self, name: &[u8]) -> Vec<u8> {
        below(self.folder, name)
    }

    async fn run(&self) -> Result<Manners, Fault> {
        let Some(order) = self.order().await? else {
            // As far as such a server shows, nothing there is a link.
            return Ok(Manners { making: None, renames: false, removes: false, sets: false, lists: true });
        };
        let files = PAIRS.iter().map(|pair| pair.file).chain([FRESH]);
        for made in join_all(files.map(|name| self.make_file(name))).await {
            made?;
        }
        let paths = PAIRS.map(|pair| self.at(pair.link));
        let made = PAIRS.iter().zip(&paths).map(|(pair, path)| order.request(pair.file, path));
        let made: Vec<_> = made.map(|request| self.link.begin(&request).done()).collect();
        for made in join_all(made).await {
            made?;
        }
        let (lists, keeps_text) = self.see().await?;
        let (renames, removes, sets) = self.change().await?;
        Ok(Manners { making: Some(order).filter(|_| keeps_text), renames, removes, sets, lists })
    }

    /// Finds the order of the paths of SYMLINK; both lie in the private folder. `None` if it makes no link.
    async fn order(&self) -> Result<Option<PathOrder>, Fault> {
        let (absent, order) = (self.at(ABSENT), self.at(ORDER));
        let request = PathOrder::TargetFirst.request(&absent, &order);
        match self.link.act(&request).await {
            Ok(()) => {}
            Err(Fault::Lost) => return Err(Fault::Lost),
            Err(Fault::Said(_)) => return Ok(None),
        }
        Ok(match (self.is_link(ORDER).await?, self.is_link(ABSENT).await?) {
            (true, false) => Some(PathOrder::TargetFirst),
            (false, true) => Some(PathOrder::LinkFirst),
            _ => None,
        })
    }

    async fn make_file(&self, name: &[u8]) -> Result<(), Fault> {
        let handle = self.link.open(&self.at(name), Access::Create).await?;
        self.link.act(&Request::Close { handle: &handle }).await
    }

    /// Returns whether a list of names shows a link as one, and whether a link has the text that was asked for.
    async fn see(&self) -> Result<(bool, bool), Fault> {
        let path = self.at(SEEN.link);
        let (listed, text) = join(self.link.list(self.folder, NAMES_MAX), self.text(&path)).await;
        let names = listed?.unwrap_or_default();
        let seen = names.iter().find(|found| found.name == SEEN.link).map(|found| found.attributes);
        let is_shown = seen.is_some_and(|seen| seen.kind() == FileKind::Symlink);
        let length = seen.filter(|_| is_shown).and_then(|seen| seen.size_bytes);
        // Some servers tell where a link leads instead of its text; its length is that of the text.
        let keeps_text = text?.is_some_and(|text| {
            text == SEEN.file || text.ends_with(SEEN.file) && length == Some(SEEN.file.len() as u64)
        });
        Ok((is_shown, keeps_text))
    }

    /// Returns whether renaming, removing and setting attributes mean links themselves.
    async fn change(&self) -> Result<(bool, bool, bool), Fault> {
        let link = self.link;
        let [renamed, moved, fresh, replaced, removed, dated] =
            [RENAMED.link, MOVED, FRESH, REPLACED.link, REMOVED.link, DATED.link].map(|name| self.at(name));
        // Without this extension nothing is renamed to a name that exists.
        let replaces = link.has(Extension::PosixRename);
        let rename = match replaces {
            true => Request::PosixRename { from: &renamed, to: &moved },
            false => Request::Rename { from: &renamed, to: &moved },
        };
        let replace = Request::PosixRename { from: &fresh, to: &replaced };
        let date = Attributes { times: Some(MARK), ..Attributes::default() };
        let date = Request::LsetStat { path: &dated, attributes: date };
        let renamed = link.begin(&rename);
        let replaced = replaces.then(|| link.begin(&replace));
        let removed = link.begin(&Request::Remove { path: &removed });
        let dated = link.has(Extension::LsetStat).then(|| link.begin(&date));
        let renamed = is_done(Some(renamed)).await?;
        let replaced = is_done(replaced).await?;
        let removed = is_done(Some(removed)).await?;
        let dated = is_done(dated).await?;
        let renames = renamed && self.is_link(MOVED).await? && self.is_untouched(RENAMED.file).await?;
        let replaces_well =
            replaced && !self.is_link(REPLACED.link).await? && self.is_untouched(REPLACED.file).await?;
        let removes =
            removed && !self.is_link(REMOVED.link).await? && self.is_untouched(REMOVED.file).await?;
        let sets = dated && self.is_untouched(DATED.file).await?;
        Ok((renames && (replaces_well || !replaces), removes, sets))
    }

    /// Returns the text of a link; `None` if there is no link of this name.
    async fn text(&self, path: &[u8]) -> Result<Option<Vec<u8>>, Fault> {
        match self.link.path_of(&Request::ReadLink { path }).await {
            Ok(text) => Ok(Some(text)),
            Err(Fault::Lost) => Err(Fault::Lost),
            Err(Fault::Said(_)) => Ok(None),
        }
    }

    async fn is_link(&self, name: &[u8]) -> Result<bool, Fault> {
        Ok(self.text(&self.at(name)).await?.is_some())
    }

    /// Returns whether a file that a link pointed to is there as it was made.
    async fn is_untouched(&self, name: &[u8]) -> Result<bool, Fault> {
        let looked = self.link.call(&Request::Lstat { path: &self.at(name) }).await?;
        let Reply::Attributes(found) = looked else { return Ok(false) };
        Ok(found.kind() == FileKind::File && found.times != Some(MARK))
    }
}

/// Waits for a request, and returns whether it succeeded; one that was not made has not.
async fn is_done(pending: Option<Pending>) -> Result<bool, Fault> {
    match pending {
        None => Ok(false),
        Some(pending) => match pending.done().await {
            Ok(()) => Ok(true),
            Err(Fault::Lost) => Err(Fault::Lost),
            Err(Fault::Said(_)) => Ok(false),
        },
    }
}
