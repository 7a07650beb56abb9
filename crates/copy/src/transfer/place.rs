//! The places where a transfer reads and writes: the meaning of source and target paths.
//!
//! Guarantees: a target that is an existing directory gets the sources under their own names, as with `cp` and `scp`;
//! any other target, and every one that must not be treated as such a directory, is the new name itself, also for a
//! resumed transfer that created it. Below a daemon's root no path leads out of it, not even through a link. A path
//! is resolved once, here; the result is held by descriptor.

use std::{
    ffi::OsStr,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
};

use sealane_tree::{
    Anchor, Basis, EntryType, ExpansionBounds, Following, Naming, RelativePath, Selection, Source,
    SourceRoot, Spot, TargetRoot, is_pattern,
};

use crate::{
    error::{Error, ErrorKind},
    journal,
    options::Bases,
    receive::permit::ITSELF,
};

/// The directory that confines a peer.
#[derive(Debug)]
pub(crate) struct Confinement {
    anchor: Anchor,
}

impl Confinement {
    /// Returns the confinement to the directory `root`.
    pub(crate) fn new(root: &Path) -> Result<Self, Error> {
        if std::fs::metadata(root).is_ok_and(|found| !found.is_dir()) {
            return Err(Error::new(ErrorKind::Io, format!("{} is not a folder", root.display())));
        }
        Ok(Self { anchor: Anchor::served(root)? })
    }

    /// Returns the confinement to a directory beneath this one.
    pub(crate) fn narrowed(&self, path: &Path) -> Result<Self, Error> {
        Ok(Self { anchor: self.anchor.narrowed(path)? })
    }
}

/// Returns the start of paths: anywhere, for a user of this machine.
fn anchor(confinement: Option<&Confinement>) -> Anchor {
    confinement.map(|confinement| confinement.anchor.clone()).unwrap_or_default()
}

/// Resolved sources.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) source: Source,
    /// Sources that could not be opened, beside some that could.
    pub(crate) missing: Vec<(Vec<u8>, Error)>,
}

/// The maximum number of matches of one transfer's patterns together.
const MATCHES_MAX: usize = 1 << 16;
/// The maximum number of names that are examined for them.
const NAMES_MAX: usize = 1 << 20;
/// The maximum number of folders and links among the matches, each of which takes a descriptor.
const EXPANDED_ROOTS_MAX: usize = 512;

/// The sources as requested.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sought<'a> {
    pub(crate) paths: &'a [Vec<u8>],
    /// The target's name for the only source, if the sources do not keep their names.
    pub(crate) name: Option<&'a [u8]>,
    /// The links that are followed.
    pub(crate) following: Following,
    /// Whether paths may contain patterns.
    pub(crate) globs: bool,
    /// The paths below the only source to which the transfer is limited.
    pub(crate) listed: Option<&'a [RelativePath]>,
}

/// Opens the sources.
///
/// # Errors
/// Fails if no source can be opened.
pub(crate) fn sources(sought: Sought<'_>, confinement: Option<&Confinement>) -> Result<Sources, Error> {
    let Sought { paths, name, following, .. } = sought;
    let naming = match name {
        Some(ITSELF) => Naming::Contents,
        Some(name) => Naming::As(RelativePath::new(name).map_err(sealane_tree::Error::from)?),
        None => Naming::Basename,
    };
    let anchor = anchor(confinement);
    if let (Some(listed), [path]) = (sought.listed, paths) {
        let path = Path::new(OsStr::from_bytes(path));
        let selection = Selection::list(listed.to_vec());
        let root = SourceRoot::selected(&anchor, path, path, selection, following)?;
        return Ok(Sources { source: Source::new(vec![root]), missing: Vec::new() });
    }
    let (mut roots, mut missing) = (Vec::with_capacity(paths.len()), Vec::new());
    let mut bounds =
        ExpansionBounds { folders_max: EXPANDED_ROOTS_MAX, names_max: NAMES_MAX, matches_max: MATCHES_MAX };
    for bytes in paths {
        let path = Path::new(OsStr::from_bytes(bytes));
        let opened = match sought.globs && is_pattern(bytes) && !is_there(&anchor, path) {
            true => expand(&anchor, path, following, &mut bounds, &mut roots, &mut missing),
            false => SourceRoot::open_at(&anchor, path, &naming, following)
                .map(|root| roots.push(root))
                .map_err(Error::from),
        };
        if let Err(error) = opened {
            missing.push((bytes.clone(), error));
        }
    }
    if roots.is_empty() && !missing.is_empty() {
        return Err(missing.swap_remove(0).1);
    }
    Ok(Sources { source: Source::new(roots), missing })
}

/// Returns whether a path of exactly this spelling exists.
fn is_there(anchor: &Anchor, path: &Path) -> bool {
    anchor.find(path).is_ok_and(|spot| spot.entry_type(false).is_ok_and(|found| found.is_some()))
}

/// Opens the matches of a pattern. A link that leads nowhere is missing, and the others are there.
fn expand(
    anchor: &Anchor,
    pattern: &Path,
    following: Following,
    bounds: &mut ExpansionBounds,
    roots: &mut Vec<SourceRoot>,
    missing: &mut Vec<(Vec<u8>, Error)>,
) -> Result<(), Error> {
    let expansions = anchor.expand(pattern, bounds)?;
    if expansions.is_empty() {
        let message = format!("no file matches {}", pattern.display());
        return Err(Error::new(ErrorKind::Io, message));
    }
    for expansion in expansions {
        let given = expansion.folder;
        let folder = if given.as_os_str().is_empty() { Path::new(".") } else { given.as_path() };
        // A link that is followed is opened separately.
        let follows = following != Following::Nowhere;
        let (links, names): (Vec<_>, Vec<_>) =
            expansion.names.into_iter().partition(|found| found.is_link && follows);
        for link in links {
            bounds.folders_max = bounds.folders_max.checked_sub(1).ok_or_else(|| {
                let pattern = pattern.to_owned().into();
                Error::from(sealane_tree::Error::TooManyMatches { pattern })
            })?;
            let path = given.join(OsStr::from_bytes(link.name.as_bytes()));
            match SourceRoot::open_at(anchor, &path, &Naming::Basename, following) {
                Ok(root) => roots.push(root),
                Err(error) => missing.push((path.as_os_str().as_bytes().to_vec(), error.into())),
            }
        }
        if !names.is_empty() {
            let names = names.into_iter().map(|found| found.name).collect();
            roots.push(SourceRoot::selected(anchor, folder, &given, Selection::names(names), following)?);
        }
    }
    Ok(())
}

/// Returns no sources: the content does not come from a tree.
pub(crate) fn no_sources() -> Sources {
    Sources { source: Source::new(Vec::new()), missing: Vec::new() }
}

/// The folder of a target, open, and what it was asked as.
#[derive(Debug)]
pub(crate) struct ResolvedTarget {
    /// The directory that entries go beneath.
    pub(crate) root: TargetRoot,
    /// The name of the only source; `None` if sources keep their names.
    pub(crate) name: Option<Vec<u8>>,
    /// The path as requested, for messages.
    asked: PathBuf,
    /// The start of paths beside it.
    anchor: Anchor,
    /// The name of the transfer's journal in the folder, if it can be resumed.
    pub(crate) journal: Option<[u8; 16]>,
}

impl ResolvedTarget {
    /// Returns the folder of the entries' paths as the user named it.
    pub(crate) fn shown(&self) -> PathBuf {
        match (self.name.as_deref(), self.asked.parent()) {
            (Some(name), Some(parent)) if name != ITSELF => parent.to_owned(),
            _ => self.asked.clone(),
        }
    }

    /// Opens folders of earlier copies, given relative to the target. One that is not there is passed over, as on the first
    /// night of a series.
    pub(crate) fn bases(&self, folders: &[Vec<u8>]) -> Result<Vec<Basis>, Error> {
        if folders.len() > Bases::FOLDERS_MAX {
            let message = format!("at most {} folders of earlier copies can be given", Bases::FOLDERS_MAX);
            return Err(Error::new(ErrorKind::Usage, message));
        }
        let within = self.name.as_deref().filter(|&name| name != ITSELF).map(RelativePath::new);
        let within = within.transpose().map_err(sealane_tree::Error::from)?;
        let mut bases = Vec::new();
        for folder in folders {
            let folder = Path::new(OsStr::from_bytes(folder));
            let spot = match self.anchor.find(&beside(&self.asked, folder, self.is_there())) {
                Ok(spot) => spot,
                Err(sealane_tree::Error::Root { source, .. })
                    if source.kind() == std::io::ErrorKind::NotFound =>
                {
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            match spot.entry_type(true)? {
                Some(EntryType::Directory) => bases.push(Basis::open(&spot.directory()?, within.clone())?),
                None => {}
                Some(_) => {
                    let message = format!("{} is not a folder", folder.display());
                    return Err(Error::new(ErrorKind::Usage, message));
                }
            }
        }
        Ok(bases)
    }

    /// Returns whether the target as it was asked for is a folder now.
    fn is_there(&self) -> bool {
        let spot = self.anchor.find(&self.asked);
        spot.is_ok_and(|spot| matches!(spot.entry_type(true), Ok(Some(EntryType::Directory))))
    }

    /// Returns an error of this place with the user's names.
    pub(crate) fn explain(&self, error: sealane_tree::Error) -> Error {
        explain(&self.asked, error)
    }
}

/// Returns the path of a folder that is given relative to a target. A target that `is_there` may be a link, so the system
/// resolves dots behind it; of another one only the name is known.
fn beside(target: &Path, folder: &Path, is_there: bool) -> PathBuf {
    if is_there || folder.is_absolute() {
        return target.join(folder);
    }
    let mut base = target.to_owned();
    let mut rest = folder.components().peekable();
    while let Some(component) = rest.peek() {
        match component {
            Component::CurDir => {}
            Component::ParentDir if base.file_name().is_some() => drop(base.pop()),
            _ => break,
        }
        rest.next();
    }
    if base.as_os_str().is_empty() {
        base.push(".");
    }
    base.extend(rest);
    base
}

fn explain(asked: &Path, error: sealane_tree::Error) -> Error {
    match error {
        sealane_tree::Error::Root { source, .. } => {
            Error::io(&format!("cannot write to {}", asked.display()), &source)
        }
        other => other.into(),
    }
}

/// A target as requested.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) path: &'a [u8],
    /// The target must be a directory, because there are several sources.
    pub(crate) into_directory: bool,
    /// The target is the new name itself, even if it is an existing directory.
    pub(crate) as_named: bool,
    /// The name of the transfer, if it can be resumed: of its sources, and of whoever asks for it.
    pub(crate) journal: Option<[u8; 16]>,
}

/// Returns the name of the journal of a transfer to a place, however the place is spelled.
pub(crate) fn journal_at(transfer: [u8; 16], resolved: &[u8]) -> [u8; 16] {
    let mut name = [0; 16];
    blake3::Hasher::new_derive_key("sealane 2026 journal of a transfer to a place")
        .update(&transfer)
        .update(resolved)
        .finalize_xof()
        .fill(&mut name);
    name
}

/// Resolves the target.
pub(crate) fn target(asked: Asked<'_>, confinement: Option<&Confinement>) -> Result<ResolvedTarget, Error> {
    let path = Path::new(OsStr::from_bytes(asked.path));
    let explain = |error| explain(path, error);
    let anchor = anchor(confinement);
    let spot = anchor.find(path).map_err(explain)?;
    let refused = |what: &str| Err(Error::new(ErrorKind::Usage, format!("{} {what}", path.display())));
    let journal = asked.journal.map(|transfer| journal_at(transfer, &spot.resolved()));
    let place = |root: TargetRoot, name: Option<&[u8]>| {
        let anchor = anchor.clone();
        Ok(ResolvedTarget { root, name: name.map(<[u8]>::to_vec), asked: path.to_owned(), anchor, journal })
    };
    let must_be_directory = asked.into_directory || spot.wants_directory();
    let found = spot.entry_type(true).map_err(explain)?;
    let began = || began(&spot, journal);
    let (at, name) = match meaning(found, spot.name(), must_be_directory, asked.as_named, began) {
        Ok(meaning) => meaning,
        Err(what) => return refused(what),
    };
    let root = match at {
        At::Parent => spot.parent(),
        At::Itself => spot.directory().map_err(explain)?,
        At::New => spot.new_directory(),
    };
    place(root, name)
}

/// The directory that contains the entries.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum At {
    /// The folder that contains the target's name.
    Parent,
    /// The target, which is there.
    Itself,
    /// The target, which does not exist yet.
    New,
}

/// Returns the meaning of a target by its present state: the folder of the entries, and the name of the only source
/// there, if it does not keep its own. `name` is the target's last component, if it has one.
///
/// # Errors
/// Fails if the target makes no sense; the text gives the reason.
pub(crate) fn meaning(
    found: Option<EntryType>,
    name: Option<&[u8]>,
    must_be_directory: bool,
    as_named: bool,
    began: impl FnOnce() -> bool,
) -> Result<(At, Option<&[u8]>), &'static str> {
    match (found, name) {
        (Some(EntryType::File | EntryType::Symlink), _) if must_be_directory => Err("is not a directory"),
        (Some(EntryType::Other), _) => {
            Err("is a device, pipe or socket, and is not replaced; standard output is `-`")
        }
        (_, Some(name)) if as_named => Ok((At::Parent, Some(name))),
        (_, None) if as_named => Ok((At::Itself, Some(ITSELF))),
        // The name did not exist when the transfer began: this transfer has made the present directory.
        (Some(EntryType::Directory), Some(name)) if !must_be_directory && began() => {
            Ok((At::Parent, Some(name)))
        }
        (Some(EntryType::Directory), _) => Ok((At::Itself, None)),
        // The folder is made when the target is opened.
        (None, Some(_)) if must_be_directory => Ok((At::New, None)),
        (_, name) => Ok((At::Parent, name)),
    }
}

/// Returns whether this transfer has begun before, into the folder that contains the target.
fn began(spot: &Spot, journal: Option<[u8; 16]>) -> bool {
    journal.is_some_and(|key| spot.has_beside(&journal::file_name(key)))
}
