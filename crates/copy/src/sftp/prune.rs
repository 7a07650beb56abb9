//! Deletes entries of a far target that the source does not have, over SFTP: the rules are those of every other
//! target.

use std::{collections::BTreeMap, collections::HashSet, io, rc::Rc};

use sealane_sftp::{FileKind, Request, StatusCode};
use sealane_tree::{Error as TreeError, Extra, Extraneous, Judgement, Operation, RelativePath};

use crate::{
    error::{Error, ErrorKind},
    receive::{
        permit::Permit,
        prune::{Prunable, Prune, Pruned},
    },
    sftp::{
        far::{Far, Trouble},
        link::{Fault, NAMES_MAX},
        put::Put,
        survey::{Sight, descend},
    },
    transfer::{Transfer, filters::deletion_filter},
};

/// Deletes entries; in a dry run, only reports them. `unread` sources could not be read.
pub(super) fn run(
    transfer: &Transfer<'_>,
    far: &Rc<Far>,
    put: &Put,
    permit: &Permit,
    known: Vec<[u8; 16]>,
    unread: u64,
) -> Result<Pruned, Error> {
    let wishes = &transfer.options.wishes;
    if wishes.upkeep.delete.is_none() {
        return Ok(Pruned::default());
    }
    let (target, backups) = (FarTarget { far, put }, put.rules.backups.clone());
    let mut prune = Prune::new(target, permit.clone(), deletion_filter(wishes)?, wishes, backups);
    prune.learn(&known);
    let refusal = prune.refusal(unread);
    prune.run_unless(refusal, |step| {
        // No entry waits for a name there: a conflicting one has failed already.
        if let Some(notice) = step.notice(|path| put.shown(path)) {
            let _ = put.notices.send(notice);
        }
        Ok(())
    })
}

/// A far target as the interface for removing names.
struct FarTarget<'a> {
    far: &'a Rc<Far>,
    put: &'a Put,
}

/// Returns a fault as an error of the tree.
fn failed(operation: Operation, path: &RelativePath, fault: &Fault) -> TreeError {
    let source = match fault.code() {
        None => io::ErrorKind::NotConnected.into(),
        Some(StatusCode::NoSuchFile) => io::ErrorKind::NotFound.into(),
        Some(StatusCode::PermissionDenied) => io::ErrorKind::PermissionDenied.into(),
        Some(code) => io::Error::other(code.to_string()),
    };
    TreeError::Io { operation, path: path.into(), source }
}

/// Returns the error for a transfer that failed while the target was examined.
fn ended(path: &RelativePath, error: &Error) -> TreeError {
    let source = match error.kind {
        ErrorKind::Cancelled => io::ErrorKind::Interrupted.into(),
        _ => io::Error::other(error.to_string()),
    };
    TreeError::Io { operation: Operation::List, path: path.into(), source }
}

/// Returns the error for an entry that is not removed.
fn troubled(path: &RelativePath, trouble: Trouble) -> TreeError {
    match trouble {
        Trouble::Lost => failed(Operation::Remove, path, &Fault::Lost),
        Trouble::Entry(reason) => TreeError::Io {
            operation: Operation::Remove,
            path: path.into(),
            source: io::Error::other(reason),
        },
        Trouble::Fatal(error) => ended(path, &error),
    }
}

/// A look in progress.
#[derive(Default)]
struct Look {
    /// Folders that were entered, and whether they are extraneous themselves.
    entered: BTreeMap<RelativePath, bool>,
    entries: Vec<Extra>,
    errors: Vec<TreeError>,
    /// Folders that stay because of their contents.
    kept: HashSet<RelativePath>,
    has_more: bool,
}

impl Look {
    fn keep(&mut self, folder: Option<RelativePath>) {
        let mut folder = folder;
        while let Some(path) = folder {
            folder = path.parent();
            if !self.kept.insert(path) {
                break;
            }
        }
    }

    /// Returns whether the entry is entered.
    fn see(
        &mut self,
        path: RelativePath,
        is_directory: bool,
        entries_max: usize,
        judge: &mut dyn FnMut(&RelativePath, bool) -> Judgement,
    ) -> bool {
        let above = path.parent();
        let is_inside = above.as_ref().is_some_and(|above| self.entered.get(above) == Some(&true));
        let is_extraneous = match judge(&path, is_directory) {
            Judgement::Protected => {
                self.keep(above);
                return false;
            }
            _ if is_inside => true,
            Judgement::Known => return false,
            Judgement::Listed => false,
            Judgement::Extraneous => true,
        };
        if is_directory && self.entered.len() == NAMES_MAX {
            self.keep(Some(path));
            return false;
        }
        if is_extraneous {
            if self.entries.len() == entries_max {
                self.has_more = true;
                self.keep(above);
                return false;
            }
            self.entries.push(Extra { path: path.clone(), is_directory });
        }
        if is_directory {
            self.entered.insert(path, is_extraneous);
        }
        is_directory
    }

    fn found(self) -> Extraneous {
        let mut entries = self.entries;
        entries.retain(|extra| !self.kept.contains(&extra.path));
        // A folder comes before its content.
        entries.sort_unstable_by(|one, other| one.path.cmp(&other.path));
        Extraneous { entries, errors: self.errors, has_more: self.has_more }
    }
}

impl Prunable for FarTarget<'_> {
    fn extraneous(
        &self,
        below: Option<&RelativePath>,
        _one_file_system: bool,
        entries_max: usize,
        judge: &mut dyn FnMut(&RelativePath, bool) -> Judgement,
    ) -> sealane_tree::Result<Extraneous> {
        let reactor = &self.far.reactor;
        let root = &self.put.root;
        if let Some(below) = below {
            let at = self.put.at(below.as_bytes());
            let found = reactor.run(async { Ok(self.far.any()?.lstat(&at).await) });
            match found {
                // A link is not a folder of the target.
                Ok(Ok(Some(found))) if found.kind() == FileKind::Directory => {}
                Ok(Ok(_)) => return Ok(Extraneous::default()),
                Ok(Err(fault)) => return Err(failed(Operation::Inspect, below, &fault)),
                Err(error) => return Err(ended(below, &error)),
            }
        }
        let mut look = Look::default();
        let looked = reactor.run(descend(
            self.far,
            root,
            vec![below.cloned()],
            |sight| {
                Ok(match sight {
                    Sight::Entry(path, found) => {
                        look.see(path, found.kind() == FileKind::Directory, entries_max, judge)
                    }
                    Sight::Failed(folder, fault) => {
                        if let Some(path) = &folder {
                            look.errors.push(failed(Operation::List, path, &fault));
                        }
                        look.keep(folder);
                        false
                    }
                    Sight::Empty(_) => false,
                    Sight::TooMany(folder) | Sight::Unfit(folder, _) => {
                        look.keep(folder);
                        false
                    }
                })
            },
            || false,
        ));
        match (looked, below) {
            (Ok(()), _) => self.checked(look.found()),
            (Err(error), Some(below)) => Err(ended(below, &error)),
            (Err(error), None) => {
                let source = io::Error::other(error.to_string());
                Err(TreeError::Root { path: self.put.shown.clone().into(), source })
            }
        }
    }

    fn remover(&self) -> impl FnMut(&Extra) -> sealane_tree::Result<bool> {
        |extra| {
            let removed = self.far.reactor.run(async { Ok(self.remove(extra).await) });
            removed.unwrap_or_else(|error| Err(ended(&extra.path, &error)))
        }
    }
}

impl FarTarget<'_> {
    /// Returns what was found, unless the server hides links in its lists: what seems to be in a folder may lie elsewhere.
    fn checked(&self, found: Extraneous) -> sealane_tree::Result<Extraneous> {
        let Some(first) = found.entries.first().filter(|_| !self.put.rules.dry_run) else {
            return Ok(found);
        };
        let path = first.path.clone();
        let tried = self.far.reactor.run(async {
            let link = self.far.any()?;
            Ok(self.put.manners(&link, &path).await)
        });
        match tried.map_err(|error| ended(&path, &error))? {
            Ok(manners) if manners.lists => Ok(found),
            Ok(_) => {
                let source = io::Error::other("the SFTP server there does not show which names are links");
                let error = TreeError::Io { operation: Operation::Remove, path: (&path).into(), source };
                Ok(Extraneous { errors: vec![error], ..Extraneous::default() })
            }
            Err(trouble) => Err(troubled(&path, trouble)),
        }
    }

    /// Removes one name; a folder only if it is empty.
    async fn remove(&self, extra: &Extra) -> sealane_tree::Result<bool> {
        let Extra { path, is_directory } = extra;
        let fail = |fault: &Fault| failed(Operation::Remove, path, fault);
        let link = self.far.any().map_err(|error| ended(path, &error))?;
        let at = self.put.at(path.as_bytes());
        let keeps_backups = self.put.rules.backups.is_some();
        if keeps_backups && !is_directory {
            let found = link.lstat(&at).await.map_err(|fault| fail(&fault))?;
            match self.put.back_up(&link, path, found.as_ref(), false).await {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(trouble) => return Err(troubled(path, trouble)),
            }
        }
        if !is_directory {
            self.put.check_deletable(&link, path).await.map_err(|trouble| troubled(path, trouble))?;
        }
        let request = match is_directory {
            true => Request::RemoveDirectory { path: &at },
            false => Request::Remove { path: &at },
        };
        match link.act(&request).await {
            Ok(()) => Ok(true),
            Err(fault) if fault.code() == Some(StatusCode::NoSuchFile) => Ok(true),
            // The folder holds backups.
            Err(fault) if *is_directory && keeps_backups && fault.code() == Some(StatusCode::Failure) => {
                Ok(false)
            }
            Err(fault) => Err(fail(&fault)),
        }
    }
}
