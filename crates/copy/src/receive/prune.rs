//! Deleting what the target has and its source has not.
//!
//! Guarantees: nothing is deleted before everything has arrived, nothing where the sender could not read all of its source,
//! nothing where more would go than was allowed. What goes lies below a name that was asked for, in a directory all of whose
//! names the sender has told; a link is removed, never followed; what the filters leave out stays.

use sealane_tree::{Backups, Extraneous, Filter, Judgement, RelativePath, Target, TempName};

use crate::{
    error::{Error, ErrorKind},
    journal,
    proto::entry::{listed_hash, path_hash},
    receive::permit::Permit,
};

/// Names that are kept in mind of what a source has, two for a directory.
const KNOWN_MAX: usize = 4 << 20;
/// Names that are removed in one go.
const ENTRIES_AT_ONCE: usize = 1 << 16;
/// Names that are counted, or listed by a dry run.
const COUNT_MAX: usize = 1 << 20;
/// Names that are looked at between two signs of life.
const NAMES_A_BREATH: usize = 1 << 12;

/// What is to be told on the way.
pub(crate) enum Step {
    /// This is gone, or would be.
    Deleted(RelativePath),
    /// This could not be looked at or removed.
    Failed(sealane_tree::Error),
    /// Why nothing is deleted.
    Refused(String),
    /// Nothing; a sign of life may be due.
    Going,
}

/// How it went.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pruned {
    pub(crate) deleted: u64,
    pub(crate) undeleted: u64,
}

#[derive(Debug)]
pub(crate) struct Prune {
    pub(crate) target: Target,
    pub(crate) permit: Permit,
    pub(crate) filter: Filter,
    pub(crate) one_file_system: bool,
    pub(crate) entries_max: Option<u64>,
    pub(crate) dry_run: bool,
    /// Where backups are.
    pub(crate) backup: Option<Backups>,
    /// Every deletion is told.
    pub(crate) itemise: bool,
    /// What the source has; sorted when all is there.
    pub(crate) known: Vec<[u8; 16]>,
    pub(crate) is_incomplete: bool,
}

impl Prune {
    /// Takes in what the sender has told.
    pub(crate) fn learn(&mut self, known: &[[u8; 16]]) {
        self.is_incomplete |= self.known.len() + known.len() > KNOWN_MAX;
        if !self.is_incomplete {
            self.known.extend_from_slice(known);
        }
    }

    /// Why nothing is deleted, if so. `unread` sources failed at the sending end.
    pub(crate) fn refusal(&self, unread: u64) -> Option<String> {
        if unread > 0 {
            return Some("nothing was deleted, because not all of the source could be read".to_owned());
        }
        self.is_incomplete.then(|| {
            format!(
                "nothing was deleted, because the source has more names than can be kept in memory ({KNOWN_MAX})"
            )
        })
    }

    /// Deletes, or with a dry run only tells.
    pub(crate) fn run(&mut self, mut tell: impl FnMut(Step) -> Result<(), Error>) -> Result<Pruned, Error> {
        self.known.sort_unstable();
        if let Some(most) = self.entries_max {
            let most = most.min(COUNT_MAX as u64 - 1);
            let there = self.count(most as usize + 1, &mut tell)?;
            if there > most {
                let reason = format!(
                    "nothing was deleted: more than {most} entries would be, and --max-delete does not allow that"
                );
                tell(Step::Refused(reason))?;
                return Ok(Pruned { deleted: 0, undeleted: there });
            }
        }
        let mut pruned = Pruned::default();
        for root in self.roots() {
            if self.dry_run {
                let found = self.look(root.as_ref(), COUNT_MAX, &mut tell)?;
                pruned.deleted += found.entries.len() as u64;
                pruned.undeleted += found.errors.len() as u64;
                found.entries.into_iter().try_for_each(|extra| tell(Step::Deleted(extra.path)))?;
                found.errors.into_iter().try_for_each(|error| tell(Step::Failed(error)))?;
                if found.has_more {
                    tell(Step::Refused("there is more to delete than is listed here".to_owned()))?;
                }
            } else {
                self.remove_below(root.as_ref(), &mut pruned, &mut tell)?;
            }
        }
        Ok(pruned)
    }

    /// The directories to look below; `None` stands for the target itself.
    fn roots(&self) -> Vec<Option<RelativePath>> {
        let is_listed = |path: &[u8]| self.has(&listed_hash(path));
        match self.permit.names() {
            Some(names) => {
                let listed = names.filter(|name| is_listed(name));
                listed.filter_map(|name| RelativePath::new(name).ok().map(Some)).collect()
            }
            None if is_listed(b"") && !self.permit.is_unnamed() => vec![None],
            None => Vec::new(),
        }
    }

    fn has(&self, hash: &[u8; 16]) -> bool {
        self.known.binary_search(hash).is_ok()
    }

    fn judge(&self, has_name: bool, path: &RelativePath, is_directory: bool) -> Judgement {
        let name = path.file_name();
        let is_backup = self.backup.as_ref().is_some_and(|backups| backups.has(path));
        // An unfinished copy's, maybe of one that runs.
        if is_backup || TempName::matches(name) || journal::is_file_name(name) {
            return Judgement::Protected;
        }
        let below = match has_name {
            true => path.as_bytes().splitn(2, |&byte| byte == b'/').nth(1).unwrap_or_default(),
            false => path.as_bytes(),
        };
        if !self.filter.includes(below, is_directory) {
            return Judgement::Protected;
        }
        match self.has(&path_hash(path)) {
            true if self.has(&listed_hash(path.as_bytes())) => Judgement::Listed,
            true => Judgement::Known,
            false => Judgement::Extraneous,
        }
    }

    /// What is extraneous below a root: nothing where the target has no such directory.
    fn look(
        &self,
        root: Option<&RelativePath>,
        entries_max: usize,
        tell: &mut impl FnMut(Step) -> Result<(), Error>,
    ) -> Result<Extraneous, Error> {
        let (mut names, mut broken) = (0_usize, None);
        let judge = |path: &RelativePath, is_directory: bool| {
            names += 1;
            if names.is_multiple_of(NAMES_A_BREATH) && broken.is_none() {
                broken = tell(Step::Going).err();
            }
            match broken {
                Some(_) => Judgement::Protected,
                None => self.judge(root.is_some(), path, is_directory),
            }
        };
        let found = self.target.extraneous(root, self.one_file_system, entries_max, judge);
        match (broken, found) {
            (Some(error), _) => Err(error),
            (None, Ok(found)) => Ok(found),
            (None, Err(error)) if is_no_directory(&error) => Ok(Extraneous::default()),
            (None, Err(error)) => Ok(Extraneous { errors: vec![error], ..Extraneous::default() }),
        }
    }

    fn count(&self, most: usize, tell: &mut impl FnMut(Step) -> Result<(), Error>) -> Result<u64, Error> {
        let mut count = 0;
        for root in self.roots() {
            count += self.look(root.as_ref(), most - count, tell)?.entries.len();
        }
        Ok(count as u64)
    }

    fn remove_below(
        &self,
        root: Option<&RelativePath>,
        pruned: &mut Pruned,
        tell: &mut impl FnMut(Step) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut writer = self.target.writer();
        loop {
            let found = self.look(root, ENTRIES_AT_ONCE, tell)?;
            let (mut removed, mut errors) = (0, found.errors);
            // What a directory holds comes after it.
            for extra in found.entries.iter().rev() {
                match writer.remove(extra) {
                    Ok(false) => {}
                    Ok(true) => {
                        removed += 1;
                        tell(if self.itemise { Step::Deleted(extra.path.clone()) } else { Step::Going })?;
                    }
                    Err(error) => errors.push(error),
                }
            }
            pruned.deleted += removed;
            // What failed may be in the way of the rest.
            if found.has_more && removed > 0 {
                continue;
            }
            pruned.undeleted += errors.len() as u64;
            errors.into_iter().try_for_each(|error| tell(Step::Failed(error)))?;
            return Ok(());
        }
    }
}

/// Whether a name is no directory of the target: a link, a file, nothing.
fn is_no_directory(error: &sealane_tree::Error) -> bool {
    match error {
        sealane_tree::Error::BlockedPath { .. } => true,
        sealane_tree::Error::Io { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

/// Refuses what cannot be done for a peer's request.
pub(crate) fn check(permit: &Permit) -> Result<(), Error> {
    let refused = |what: &str| Err(Error::new(ErrorKind::Refused, what));
    if permit.has_patterns() || permit.is_list() {
        return refused("--delete needs folders given by name, not patterns or a list of paths");
    }
    match (permit.is_recursive(), permit.is_unnamed()) {
        (false, _) => refused("--delete needs -r or -a: it works on folders"),
        (true, true) => refused("--delete does not work with so many sources; name the folder they are in"),
        (true, false) => Ok(()),
    }
}
