//! Unfinished files that the search of a far target meets.
//!
//! Guarantees: one is removed only if this transfer's journal, which nobody else holds, gives its name to an entry
//! beside it; the others are told if they are still there in the end; the memory is bounded.

use std::collections::{BTreeSet, HashSet};

use futures_util::{StreamExt, stream::FuturesUnordered};
use sealane_sftp::{FileKind, Request};
use sealane_tree::{RelativePath, TempName};

use crate::{
    error::Error,
    receive::strays::STRAYS_MAX,
    sftp::{
        far::Far,
        link::{Fault, NAMES_MAX},
        place::below,
    },
};

/// The number of unfinished files that are remembered.
const SEEN_MAX: usize = 1 << 16;
/// The number of requests under way at once.
const AT_ONCE: usize = 64;
/// For which purposes an entry has a short-lived file beside it.
const PURPOSES: [&[u8]; 2] = [b"", COMPARED];
/// The purpose of a second name, by which it is found out whether two names belong to one file.
pub(super) const COMPARED: &[u8] = b"compared";

/// Returns the name of an entry's short-lived file: the same in all runs that hold the journal of this number, so the
/// remains of a killed run are replaced.
pub(super) fn short_lived(journal: u64, path: &RelativePath, purpose: &[u8]) -> TempName {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&journal.to_le_bytes()).update(path.as_bytes()).update(purpose);
    let mut number = [0; 8];
    hasher.finalize_xof().fill(&mut number);
    TempName::new(u64::from_le_bytes(number))
}

/// Returns the paths of an entry's short-lived files.
fn names(journal: u64, path: &RelativePath) -> impl Iterator<Item = RelativePath> + use<> {
    PURPOSES
        .map(|purpose| RelativePath::within(path.split().0, short_lived(journal, path, purpose).as_bytes()))
        .into_iter()
        .flatten()
}

/// The unfinished files that a search has met.
#[derive(Debug, Default)]
pub(super) struct Remains {
    /// The number of the journal, if an earlier run has begun it.
    journal: Option<u64>,
    seen: Vec<RelativePath>,
    /// Files of this transfer that may be there.
    own: Vec<RelativePath>,
}

impl Remains {
    pub(super) fn new(journal: Option<u64>) -> Self {
        Self { journal, ..Self::default() }
    }

    /// Takes note of an entry of the target.
    pub(super) fn saw(&mut self, path: &RelativePath, kind: FileKind) {
        let is_unfinished = kind != FileKind::Directory && TempName::matches(path.file_name());
        if is_unfinished && self.seen.len() < SEEN_MAX {
            self.seen.push(path.clone());
        }
    }

    /// Takes note of an entry that was looked at without a list of its folder: what may be beside it is not known.
    pub(super) fn looked_at(&mut self, path: &RelativePath, kind: FileKind) {
        if let Some(journal) = self.journal.filter(|_| kind != FileKind::Directory) {
            self.own.extend(names(journal, path));
        }
    }

    /// Removes those of earlier runs of this transfer. An entry that is in place need not come again, so its short-lived
    /// file is not replaced. Call it before folders get their times.
    pub(super) async fn clear(&mut self, far: &Far, root: &[u8]) -> Result<(), Error> {
        if let Some(journal) = self.journal {
            self.recognise(far, root, journal).await?;
        }
        for some in std::mem::take(&mut self.own).chunks(AT_ONCE) {
            let link = far.any()?;
            let paths: Vec<_> = some.iter().map(|path| below(root, path.as_bytes())).collect();
            let mut removed: FuturesUnordered<_> =
                paths.iter().map(|path| link.begin(&Request::Remove { path }).done()).collect();
            while let Some(done) = removed.next().await {
                // One that cannot be removed only occupies space.
                if let Err(Fault::Lost) = done {
                    return Err(far.lost());
                }
            }
        }
        Ok(())
    }

    /// Lists the folders of unfinished files again, for the entries beside them.
    async fn recognise(&mut self, far: &Far, root: &[u8], journal: u64) -> Result<(), Error> {
        let folders: BTreeSet<Vec<u8>> = self.seen.iter().map(|path| path.split().0.to_vec()).collect();
        let mut own = HashSet::new();
        for folder in folders {
            let listed = far.any()?.list(&below(root, &folder), NAMES_MAX).await;
            if let Err(Fault::Lost) = listed {
                return Err(far.lost());
            }
            let entries = listed.ok().flatten().unwrap_or_default();
            let paths = entries.iter().flat_map(|entry| RelativePath::within(&folder, &entry.name));
            own.extend(paths.flat_map(|path| names(journal, &path)));
        }
        let (mut own, seen): (Vec<_>, _) =
            std::mem::take(&mut self.seen).into_iter().partition(|path| own.contains(path));
        self.own.append(&mut own);
        self.seen = seen;
        Ok(())
    }

    /// Returns some of those that are still there.
    pub(super) async fn left(&self, far: &Far, root: &[u8]) -> Result<Vec<&RelativePath>, Error> {
        let mut left = Vec::new();
        for path in self.seen.iter().take(STRAYS_MAX) {
            if let Ok(Some(_)) = far.any()?.lstat(&below(root, path.as_bytes())).await {
                left.push(path);
            }
        }
        Ok(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_one_journal_one_entry_and_one_purpose() {
        let all = |journal, path: &str| -> Vec<_> {
            names(journal, &RelativePath::new(path.as_bytes()).expect("a path")).collect()
        };
        let own = all(7, "a/b");
        assert!(
            own.iter().all(|name| name.split().0 == b"a" && TempName::matches(name.file_name())),
            "{own:?}"
        );
        assert_eq!(own, all(7, "a/b"));
        for others in [all(8, "a/b"), all(7, "a/c"), all(7, "b")] {
            assert!(own.iter().all(|name| !others.contains(name)));
        }
        assert_ne!(own[0], own[1]);
        assert_eq!(all(7, "b")[0].split().0, b"");
    }
}
