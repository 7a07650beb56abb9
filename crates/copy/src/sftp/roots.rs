//! Sources at the far host: the matches of paths and patterns, and their names at the target.

use sealane_sftp::{Attributes, FileKind};
use sealane_tree::{Following, Glob, RelativePath, is_pattern};

use crate::{
    error::{Error, ErrorKind},
    receive::permit::{ITSELF, last_component},
    sftp::{
        far::Far,
        link::{Link, NAMES_MAX},
        place::below,
    },
};

/// The maximum number of matches of one transfer's patterns together.
const MATCHES_MAX: usize = 1 << 16;

/// One source, found.
#[derive(Clone, Debug)]
pub(super) struct Root {
    /// The path for requests to the server.
    pub(super) path: Vec<u8>,
    /// The path for messages.
    pub(super) shown: Vec<u8>,
    /// The prefix of its entries' names; `None` for the content of a folder.
    pub(super) name: Option<RelativePath>,
    pub(super) attributes: Attributes,
}

/// The sources as requested.
pub(super) struct Wanted<'a> {
    pub(super) paths: &'a [Vec<u8>],
    /// The name of the only source in the target, if it does not keep its own.
    pub(super) name: Option<&'a [u8]>,
    pub(super) following: Following,
    /// Whether paths may contain patterns.
    pub(super) globs: bool,
}

/// Returns a path as text for the user.
pub(super) fn text(path: &[u8]) -> String {
    String::from_utf8_lossy(path).escape_debug().to_string()
}

/// Finds the sources: the existing ones, and the reasons why others are missing.
pub(super) async fn find(
    far: &Far,
    wanted: &Wanted<'_>,
) -> Result<(Vec<Root>, Vec<(Vec<u8>, Error)>), Error> {
    let (mut roots, mut missing) = (Vec::new(), Vec::new());
    for asked in wanted.paths {
        let path = far.expand(asked).await?;
        let link = far.any()?;
        let found = look(&link, &path, wanted.following)
            .await
            .map_err(|fault| far.error(&link, &text(asked), fault))?;
        match found {
            Some(attributes) => {
                let name = match wanted.name {
                    Some(ITSELF) => None,
                    Some(name) => Some(name),
                    None => last_component(&path),
                };
                let name = name.map(RelativePath::new).transpose().map_err(sealane_tree::Error::from)?;
                let is_contents = name.is_none() && attributes.kind() != FileKind::Directory;
                if is_contents || (wants_folder(asked) && attributes.kind() != FileKind::Directory) {
                    let message = format!("{}: {} is not a folder", far.host, text(asked));
                    missing.push((asked.clone(), Error::new(ErrorKind::Io, message)));
                } else {
                    roots.push(Root { path, shown: asked.clone(), name, attributes });
                }
            }
            None if wanted.globs && is_pattern(asked) => {
                let before = roots.len();
                expand(far, &path, wanted.following, &mut roots).await?;
                if roots.len() == before {
                    let message = format!("no file on {} matches {}", far.host, text(asked));
                    missing.push((asked.clone(), Error::new(ErrorKind::Io, message)));
                }
            }
            None => {
                let message = format!("{}: {} is not there", far.host, text(asked));
                missing.push((asked.clone(), Error::new(ErrorKind::Io, message)));
            }
        }
    }
    if roots.is_empty() && !missing.is_empty() {
        return Err(missing.swap_remove(0).1);
    }
    Ok((roots, missing))
}

fn wants_folder(path: &[u8]) -> bool {
    path.ends_with(b"/")
}

/// Returns a root, with a link followed if requested.
async fn look(
    link: &Link,
    path: &[u8],
    following: Following,
) -> Result<Option<Attributes>, crate::sftp::link::Fault> {
    match following {
        Following::Nowhere => link.lstat(path).await,
        Following::Roots | Following::Everywhere => match link.stat(path).await? {
            Some(found) => Ok(Some(found)),
            // A link without a target is copied as a link.
            None => link.lstat(path).await,
        },
    }
}

/// Adds the matches of a pattern.
async fn expand(far: &Far, pattern: &[u8], following: Following, roots: &mut Vec<Root>) -> Result<(), Error> {
    let is_absolute = pattern.starts_with(b"/");
    let components: Vec<&[u8]> =
        pattern.split(|&byte| byte == b'/').filter(|component| !component.is_empty()).collect();
    let mut found: Vec<Vec<u8>> = vec![if is_absolute { b"/".to_vec() } else { Vec::new() }];
    for component in components {
        if !is_pattern(component) {
            found.iter_mut().for_each(|folder| *folder = joined(folder, component));
            continue;
        }
        let glob = Glob::new(component);
        let mut next = Vec::new();
        for folder in found {
            let link = far.any()?;
            let listed = if folder.is_empty() { b".".as_slice() } else { &folder };
            // A folder that cannot be listed matches nothing, as in a shell.
            let names = link.list(listed, NAMES_MAX).await.ok().flatten().unwrap_or_default();
            let mut names: Vec<_> = names.into_iter().map(|found| found.name).collect();
            names.retain(|name| glob.matches(name));
            names.sort_unstable();
            next.extend(names.iter().map(|name| joined(&folder, name)));
            if next.len() + roots.len() > MATCHES_MAX {
                let message =
                    format!("{} matches too many names; name the folder that they are in", text(pattern));
                return Err(Error::new(ErrorKind::Io, message));
            }
        }
        found = next;
    }
    for path in found {
        let link = far.any()?;
        let fault = |fault| far.error(&link, &text(&path), fault);
        let attributes = look(&link, &path, following).await.map_err(fault)?;
        let name = last_component(&path).and_then(|name| RelativePath::new(name).ok());
        if let (Some(attributes), Some(name)) = (attributes, name) {
            roots.push(Root { shown: path.clone(), path, name: Some(name), attributes });
        }
    }
    Ok(())
}

fn joined(folder: &[u8], name: &[u8]) -> Vec<u8> {
    if folder.is_empty() { name.to_vec() } else { below(folder, name) }
}
