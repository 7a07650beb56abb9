//! Checks of a copy's paths before anything is started or opened.
//!
//! Guarantees: nothing is changed. Undecidable cases pass: they fail later, with the system's message.

use std::{
    fs::Metadata,
    io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

use sealane_tree::Following;

use crate::{
    error::{Error, ErrorKind},
    receive::permit::last_component,
};

/// Refuses a copy of which no source exists.
pub(crate) fn something_to_copy(sources: &[&Path]) -> Result<(), Error> {
    let mut failures = Vec::with_capacity(sources.len());
    for source in sources {
        match source.symlink_metadata() {
            Ok(_) => return Ok(()),
            Err(error) => failures.push(Error::io(&format!("cannot open {}", source.display()), &error)),
        }
    }
    failures.into_iter().next().map_or(Ok(()), Err)
}

/// Refuses to copy a file onto itself, or a directory onto or into itself, where it would find its own copy and copy
/// that too.
pub(crate) fn not_into_itself(
    sources: &[&Path],
    target: &Path,
    as_named: bool,
    following: Following,
) -> Result<(), Error> {
    let into = !as_named && target.metadata().is_ok_and(|found| found.is_dir());
    for source in sources {
        let follows = following != Following::Nowhere;
        let found = if follows { source.metadata() } else { source.symlink_metadata() };
        let Ok(found) = found else { continue };
        let place = match source.file_name() {
            Some(name) if into && !names_contents(source) => target.join(name),
            _ => target.to_owned(),
        };
        if is_same(&found, &place) {
            let (source, place) = (source.display(), place.display());
            return Err(Error::new(ErrorKind::Usage, format!("{source} and {place} are the same")));
        }
        // A name with a slash at its end refers to the target of a link.
        let is_directory = source
            .metadata()
            .is_ok_and(|through| through.is_dir() && (found.is_dir() || names_contents(source)));
        let (Ok(whole), Ok(part)) = (source.canonicalize(), resolved(&place)) else { continue };
        if is_directory && part.starts_with(&whole) {
            let (source, place) = (source.display(), place.display());
            return Err(Error::new(ErrorKind::Usage, format!("cannot copy {source} into itself ({place})")));
        }
    }
    Ok(())
}

/// Refuses deletion without recursion, and with a mixture of folders by name and contents of folders (`data/.`).
pub(crate) fn deletable(sources: impl Iterator<Item = Vec<u8>>, recursive: bool) -> Result<(), Error> {
    let usage = |what: &str| Err(Error::new(ErrorKind::Usage, what));
    if !recursive {
        return usage("--delete needs -r or -a: it works on folders");
    }
    let named: Vec<_> = sources.map(|source| last_component(&source).is_some()).collect();
    match named.iter().all(|&is_named| is_named == named[0]) {
        true => Ok(()),
        false => usage("with --delete give either folders by name or their contents (`data/.`), not both"),
    }
}

fn is_same(source: &Metadata, place: &Path) -> bool {
    place.symlink_metadata().is_ok_and(|there| (there.dev(), there.ino()) == (source.dev(), source.ino()))
}

/// Returns whether the path refers to the contents of a directory, not to the directory by its name.
fn names_contents(path: &Path) -> bool {
    path.file_name().is_none() || path.as_os_str().as_bytes().ends_with(b"/.")
}

/// Returns the path without links and dots; its end need not exist yet.
fn resolved(path: &Path) -> io::Result<PathBuf> {
    match (path.canonicalize(), path.parent(), path.file_name()) {
        (Err(error), Some(parent), Some(name)) if error.kind() == io::ErrorKind::NotFound => {
            let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
            Ok(resolved(parent)?.join(name))
        }
        (outcome, _, _) => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn verdict(sources: &[&Path], target: &Path) -> Result<(), String> {
        not_into_itself(sources, target, false, Following::Nowhere).map_err(|error| error.message)
    }

    #[test]
    fn nothing_goes_onto_or_into_itself() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("tree/sub")).unwrap();
        fs::write(at("tree/file"), "content").unwrap();
        std::os::unix::fs::symlink(at("tree"), at("link")).unwrap();
        let refused = |source: &str, target: &str| verdict(&[&at(source)], &at(target)).is_err();
        for (source, target) in [
            ("tree", "tree"),
            ("tree", "tree/sub"),
            ("tree", "tree/new"),
            ("tree", "tree/sub/../new"),
            ("tree", "link"),
            ("tree", "link/sub"),
            ("tree", ""),
            ("tree/.", "tree"),
            ("tree/sub", "tree"),
            ("tree/file", "tree"),
            ("tree/file", "tree/file"),
            ("tree/file", "link/file"),
            ("link/.", "tree/sub"),
        ] {
            assert!(refused(source, target), "{source} to {target}");
        }
        for (source, target) in [
            ("tree", "other"),
            ("tree", "tree2"),
            ("tree/sub", "other"),
            ("tree/sub/.", "tree"),
            ("tree/file", "tree/copy"),
            ("tree/file", "tree/sub"),
            ("link", "tree/sub"),
            ("missing", "tree"),
        ] {
            assert!(!refused(source, target), "{source} to {target}");
        }
    }

    #[test]
    fn one_source_that_is_there_is_enough() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        assert!(something_to_copy(&[&missing, folder.path()]).is_ok());
        assert!(something_to_copy(&[&missing]).unwrap_err().message.contains("missing"));
    }
}
