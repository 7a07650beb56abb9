//! Deletes entries of the target that the source does not have.
//!
//! Guarantees: nothing is deleted before everything has arrived, nothing if the sender could not read all of its
//! source, nothing if more than the permitted number would be deleted; an entry is replaced by one of another kind
//! only once that is complete, and a directory not at all if something in it is protected. Deleted entries lie below
//! a requested name, in a directory whose names the sender has listed completely; a link is removed, never followed;
//! excluded entries stay.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use sealane_peer::chain;
use sealane_tree::{
    Backups, EntryType, Extra, Extraneous, Filter, Judgement, RelativePath, ShownPath, Successor, Target,
    TargetRules, TempName,
};

use crate::{
    error::{Error, ErrorKind},
    journal,
    options::Wishes,
    proto::entry::{equal_hash, listed_hash, path_hash},
    receive::permit::Permit,
    summary::Notice,
};

/// The maximum number of remembered hashes of the source's names, two per directory.
pub(crate) const KNOWN_MAX: usize = 4 << 20;
/// The number of names removed at a time.
const ENTRIES_AT_ONCE: usize = 1 << 16;
/// The maximum number of names that are counted, or listed by a dry run.
const COUNT_MAX: usize = 1 << 20;
/// The number of names that are looked at between two signs of life.
const NAMES_A_BREATH: usize = 1 << 12;

/// The events to report.
pub(crate) enum Step {
    /// This entry was deleted, or would be.
    Deleted(RelativePath),
    /// This entry could not be examined or removed.
    Failed(sealane_tree::Error),
    /// The sent entry does not get this name, for this reason: an entry of another kind keeps it.
    NotReplaced(RelativePath, String),
    /// The reason why nothing is deleted.
    Refused(String),
    /// Nothing happened; a sign of life may be due.
    Going,
}

impl Step {
    /// Returns the notice of this event, with names as `shown` gives them: none if nothing happened, and none of entries that are not
    /// replaced, which the target counts as failed.
    pub(crate) fn notice(self, shown: impl FnOnce(&[u8]) -> ShownPath) -> Option<Notice> {
        match self {
            Self::Deleted(path) => Some(Notice::Deleted { path: path.as_bytes().to_vec() }),
            Self::Failed(error) => Some(Notice::failed(error.shown_as(|path| shown(path.as_bytes())))),
            Self::Refused(reason) => Some(Notice::of_all(reason)),
            Self::NotReplaced(..) | Self::Going => None,
        }
    }
}

/// The result of pruning.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pruned {
    pub(crate) deleted: u64,
    pub(crate) undeleted: u64,
}

/// A target whose entries can be removed.
pub(crate) trait Prunable {
    /// Returns the same as [`Target::extraneous`].
    fn extraneous(
        &self,
        below: Option<&RelativePath>,
        one_file_system: bool,
        entries_max: usize,
        judge: &mut dyn FnMut(&RelativePath, bool) -> Judgement,
    ) -> sealane_tree::Result<Extraneous>;

    /// Returns a function that acts as [`sealane_tree::Writer::remove`], for one name after the other.
    fn remover(&self) -> impl FnMut(&Extra) -> sealane_tree::Result<bool>;

    /// Returns the same as [`Target::successors`]: nothing if no entry waits for its name.
    fn successors(&self) -> Vec<Successor> {
        Vec::new()
    }

    /// Returns the same as [`sealane_tree::Writer::has_successor`].
    fn has_successor(&self, _path: &RelativePath) -> bool {
        false
    }

    /// Returns whether this is the name of a directory; call this only for a name that an entry waits for.
    fn is_directory(&self, _path: &RelativePath) -> bool {
        false
    }

    /// Acts as [`sealane_tree::Writer::set_aside`].
    fn set_aside(&self, _path: &RelativePath) -> sealane_tree::Result<bool> {
        Ok(false)
    }

    /// Acts as [`sealane_tree::Writer::succeed`].
    fn succeed(&self, _path: &RelativePath) -> sealane_tree::Result<()> {
        Ok(())
    }
}

impl Prunable for Target {
    fn extraneous(
        &self,
        below: Option<&RelativePath>,
        one_file_system: bool,
        entries_max: usize,
        judge: &mut dyn FnMut(&RelativePath, bool) -> Judgement,
    ) -> sealane_tree::Result<Extraneous> {
        self.extraneous(below, one_file_system, entries_max, judge)
    }

    fn remover(&self) -> impl FnMut(&Extra) -> sealane_tree::Result<bool> {
        let mut writer = self.writer();
        move |extra| writer.remove(extra)
    }

    fn successors(&self) -> Vec<Successor> {
        self.successors()
    }

    fn has_successor(&self, path: &RelativePath) -> bool {
        self.writer().has_successor(path)
    }

    fn is_directory(&self, path: &RelativePath) -> bool {
        let found = self.writer().existing(path).ok().flatten();
        found.is_some_and(|found| found.entry_type == EntryType::Directory)
    }

    fn set_aside(&self, path: &RelativePath) -> sealane_tree::Result<bool> {
        self.writer().set_aside(path)
    }

    fn succeed(&self, path: &RelativePath) -> sealane_tree::Result<()> {
        self.writer().succeed(path)
    }
}

#[derive(Debug)]
pub(crate) struct Prune<T = Target> {
    pub(crate) target: T,
    pub(crate) permit: Permit,
    pub(crate) filter: Filter,
    /// The filter files that the target has, if any count.
    pub(crate) rules: Option<Mutex<TargetRules>>,
    pub(crate) one_file_system: bool,
    pub(crate) entries_max: Option<u64>,
    pub(crate) dry_run: bool,
    /// The place of backups.
    pub(crate) backup: Option<Backups>,
    /// Whether every deletion is reported.
    pub(crate) itemise: bool,
    /// In a dry run, the names of entries that would be replaced by entries of other kinds.
    pub(crate) replaced: Vec<RelativePath>,
    /// The hashes of the source's names; sorted when all have arrived.
    pub(crate) known: Vec<[u8; 16]>,
    pub(crate) is_incomplete: bool,
}

impl<T: Prunable> Prune<T> {
    /// Returns the deletion that these wishes ask for, within one file system or several, without the target's filter files.
    pub(crate) fn new(
        target: T,
        permit: Permit,
        filter: Filter,
        wishes: &Wishes,
        backup: Option<Backups>,
    ) -> Self {
        Self {
            target,
            permit,
            filter,
            rules: None,
            one_file_system: false,
            entries_max: wishes.upkeep.delete.and_then(|deletion| deletion.entries_max),
            dry_run: wishes.dry_run,
            backup,
            itemise: wishes.upkeep.itemise,
            replaced: Vec::new(),
            known: Vec::new(),
            is_incomplete: false,
        }
    }

    /// Adds hashes that the sender has sent.
    pub(crate) fn learn(&mut self, known: &[[u8; 16]]) {
        self.is_incomplete |= self.known.len() + known.len() > KNOWN_MAX;
        if !self.is_incomplete {
            self.known.extend_from_slice(known);
        }
    }

    /// Returns the reason why nothing is deleted, if so. `unread` is the number of sources that failed at the sending
    /// end.
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

    /// Deletes entries, or nothing if there is a reason against that; in a dry run, only reports them.
    pub(crate) fn run_unless(
        &mut self,
        refusal: Option<String>,
        mut tell: impl FnMut(Step) -> Result<(), Error>,
    ) -> Result<Pruned, Error> {
        let Some(reason) = refusal else { return self.run(tell) };
        self.keep_all(&reason, &mut tell)?;
        tell(Step::Refused(reason))?;
        Ok(Pruned { deleted: 0, undeleted: 1 })
    }

    fn run(&mut self, mut tell: impl FnMut(Step) -> Result<(), Error>) -> Result<Pruned, Error> {
        self.known.sort_unstable();
        let mut pruned = Pruned::default();
        // In a dry run no entry waits.
        let waiting = match self.dry_run {
            true => {
                let replaced = std::mem::take(&mut self.replaced).into_iter();
                replaced.map(|path| Successor { path, is_directory: false, is_incomplete: false }).collect()
            }
            false => self.target.successors(),
        };
        let mut replacements = Vec::new();
        for successor in waiting {
            match self.replaceable(&successor, &mut tell)? {
                Ok(entries) => replacements.push((successor, entries)),
                Err(reason) => tell(Step::NotReplaced(successor.path, reason))?,
            }
        }
        if let Some(most) = self.entries_max {
            let most = most.min(COUNT_MAX as u64 - 1);
            let there = replacements.iter().map(|(_, entries)| entries).sum::<u64>();
            let there = match there > most {
                true => there,
                false => there + self.count((most - there) as usize + 1, &mut tell)?,
            };
            if there > most {
                let reason = format!(
                    "nothing was deleted: more than {most} entries would be, and --max-delete does not allow that"
                );
                for (Successor { path, .. }, entries) in replacements {
                    // An entry that is not a directory is replaced, not deleted.
                    match entries {
                        0 => self.replace(&path, 0, &mut pruned, &mut tell)?,
                        _ => tell(Step::NotReplaced(path, "--max-delete does not allow it".to_owned()))?,
                    }
                }
                tell(Step::Refused(reason))?;
                return Ok(Pruned { deleted: 0, undeleted: there });
            }
        }
        for (successor, entries) in replacements {
            self.replace(&successor.path, entries, &mut pruned, &mut tell)?;
        }
        for root in self.roots() {
            if self.dry_run {
                let found = self.look(root.as_ref(), COUNT_MAX, &mut tell)?;
                let gone = self.without_backups(found.entries);
                pruned.deleted += gone.len() as u64;
                pruned.undeleted += found.errors.len() as u64;
                gone.into_iter().try_for_each(|extra| tell(Step::Deleted(extra.path)))?;
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

    /// Returns the extraneous entries to delete: a directory stays if backups of its files stay in it.
    fn without_backups(&self, mut entries: Vec<Extra>) -> Vec<Extra> {
        if self.backup.as_ref().is_none_or(|backups| backups.folder.is_some()) {
            return entries;
        }
        let mut holding = HashSet::new();
        for extra in entries.iter().filter(|extra| !extra.is_directory) {
            let above = std::iter::successors(extra.path.parent(), RelativePath::parent);
            for folder in above {
                if !holding.insert(folder) {
                    break;
                }
            }
        }
        entries.retain(|extra| !extra.is_directory || !holding.contains(&extra.path));
        entries
    }

    /// Deletes nothing, and so replaces nothing by another kind either.
    fn keep_all(&self, reason: &str, mut tell: impl FnMut(Step) -> Result<(), Error>) -> Result<(), Error> {
        let waiting = self.target.successors().into_iter().map(|successor| successor.path);
        for path in waiting.chain(self.replaced.iter().cloned()) {
            tell(Step::NotReplaced(path, reason.to_owned()))?;
        }
        Ok(())
    }

    /// Returns the number of entries that are deleted with a directory that a successor replaces, 0 for other
    /// entries; or the reason why it is not replaced.
    fn replaceable(
        &self,
        successor: &Successor,
        tell: &mut impl FnMut(Step) -> Result<(), Error>,
    ) -> Result<Result<u64, String>, Error> {
        let Successor { path, is_directory, is_incomplete } = successor;
        if *is_incomplete {
            return Ok(Err("not all that it is to hold has arrived".to_owned()));
        }
        if !self.dry_run && !self.target.has_successor(path) {
            return Ok(Err("somebody has removed it since it arrived".to_owned()));
        }
        // An entry that is replaced by a directory is not one itself, and contains nothing.
        if *is_directory {
            return Ok(Ok(0));
        }
        let mut is_protected = false;
        let found = self.look_by(Some(path), COUNT_MAX, tell, |path, is_directory| {
            let is_kept = self.judge(path, is_directory) == Judgement::Protected;
            is_protected |= is_kept;
            if is_kept { Judgement::Protected } else { Judgement::Extraneous }
        })?;
        Ok(match found.errors.first() {
            Some(error) => Err(chain(error)),
            None if is_protected => {
                Err("something in it is excluded, a backup, or of an unfinished copy".to_owned())
            }
            None if found.has_more => Err("it holds more than is looked at; delete it by hand".to_owned()),
            // A device, pipe or socket contains nothing, and is not a directory that is deleted.
            None => Ok(found.entries.len() as u64 + u64::from(self.target.is_directory(path))),
        })
    }

    /// Gives a successor its name.
    fn replace(
        &self,
        path: &RelativePath,
        entries: u64,
        pruned: &mut Pruned,
        tell: &mut impl FnMut(Step) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let all = |_: &RelativePath, _| Judgement::Extraneous;
        if entries > 0 {
            let gone = self.look_by(Some(path), COUNT_MAX, tell, all)?.entries.into_iter();
            let gone = gone.map(|extra| extra.path).chain([path.clone()]);
            if self.dry_run {
                pruned.deleted += entries;
                return gone.map(Step::Deleted).try_for_each(tell);
            }
            match self.target.set_aside(path) {
                Ok(true) => {
                    pruned.deleted += entries;
                    if self.itemise {
                        gone.map(Step::Deleted).try_for_each(&mut *tell)?;
                    }
                }
                Ok(false) => {
                    self.remove_by(Some(path), pruned, tell, all)?;
                    let itself = Extra { path: path.clone(), is_directory: true };
                    let removed = self.target.remover()(&itself);
                    if let Ok(true) = removed {
                        pruned.deleted += 1;
                        tell(if self.itemise { Step::Deleted(itself.path) } else { Step::Going })?;
                    }
                }
                Err(error) => return tell(Step::NotReplaced(path.clone(), chain(&error))),
            }
        }
        if self.dry_run {
            return Ok(());
        }
        match self.target.succeed(path) {
            Ok(()) => Ok(()),
            Err(error) => tell(Step::NotReplaced(path.clone(), chain(&error))),
        }
    }

    /// Returns the directories to look below; `None` stands for the target itself.
    fn roots(&self) -> Vec<Option<RelativePath>> {
        let is_listed = |path: &[u8]| self.is_listed(path);
        match self.permit.names() {
            Some(names) => {
                let listed = names.filter(|name| is_listed(name));
                listed.filter_map(|name| RelativePath::new(name).ok().map(Some)).collect()
            }
            None if is_listed(b"") && !self.permit.is_unnamed() => vec![None],
            None => Vec::new(),
        }
    }

    /// Returns whether all names of the source in this directory are known.
    fn is_listed(&self, path: &[u8]) -> bool {
        self.has(&listed_hash(path)) || self.has(&equal_hash(path))
    }

    /// Returns whether the source has this name: by itself, or because its directory is equal at both ends.
    fn is_known(&self, path: &RelativePath) -> bool {
        self.has(&path_hash(path)) || self.has(&equal_hash(path.split().0))
    }

    fn has(&self, hash: &[u8; 16]) -> bool {
        self.known.binary_search(hash).is_ok()
    }

    fn judge(&self, path: &RelativePath, is_directory: bool) -> Judgement {
        let name = path.file_name();
        let is_backup = self.backup.as_ref().is_some_and(|backups| backups.has(path));
        // The file belongs to an unfinished copy, possibly of a running transfer.
        if is_backup || TempName::matches(name) || journal::is_file_name(name) {
            return Judgement::Protected;
        }
        let below = match self.permit.names().is_some() {
            true => path.as_bytes().splitn(2, |&byte| byte == b'/').nth(1).unwrap_or_default(),
            false => path.as_bytes(),
        };
        let top = &path.as_bytes()[..path.as_bytes().len() - below.len()];
        let top = top.strip_suffix(b"/").unwrap_or(top);
        let included = self.filter.decides(below, is_directory).unwrap_or_else(|| {
            let rules = self.rules.as_ref().map(|rules| rules.lock().unwrap_or_else(PoisonError::into_inner));
            rules.is_none_or(|mut rules| rules.includes(top, path, is_directory))
        });
        if !included {
            return Judgement::Protected;
        }
        match self.is_known(path) {
            true if is_directory && self.is_listed(path.as_bytes()) => Judgement::Listed,
            true => Judgement::Known,
            false => Judgement::Extraneous,
        }
    }

    /// Returns the extraneous entries below a root: none if the target has no such directory.
    pub(crate) fn look(
        &self,
        root: Option<&RelativePath>,
        entries_max: usize,
        tell: &mut impl FnMut(Step) -> Result<(), Error>,
    ) -> Result<Extraneous, Error> {
        self.look_by(root, entries_max, tell, |path, is_directory| self.judge(path, is_directory))
    }

    /// Returns the same by another judgement.
    fn look_by(
        &self,
        root: Option<&RelativePath>,
        entries_max: usize,
        tell: &mut impl FnMut(Step) -> Result<(), Error>,
        mut judge_one: impl FnMut(&RelativePath, bool) -> Judgement,
    ) -> Result<Extraneous, Error> {
        let (mut names, mut broken) = (0_usize, None);
        let mut judge = |path: &RelativePath, is_directory: bool| {
            names += 1;
            if names.is_multiple_of(NAMES_A_BREATH) && broken.is_none() {
                broken = tell(Step::Going).err();
            }
            match broken {
                Some(_) => Judgement::Protected,
                None => judge_one(path, is_directory),
            }
        };
        let found = self.target.extraneous(root, self.one_file_system, entries_max, &mut judge);
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
            let found = self.look(root.as_ref(), most - count, tell)?;
            // The folders that contain the rest are not among those found.
            if found.has_more {
                return Ok(most as u64);
            }
            count += found.entries.len();
        }
        Ok(count as u64)
    }

    fn remove_below(
        &self,
        root: Option<&RelativePath>,
        pruned: &mut Pruned,
        tell: &mut impl FnMut(Step) -> Result<(), Error>,
    ) -> Result<(), Error> {
        self.remove_by(root, pruned, tell, |path, is_directory| self.judge(path, is_directory))
    }

    fn remove_by(
        &self,
        root: Option<&RelativePath>,
        pruned: &mut Pruned,
        tell: &mut impl FnMut(Step) -> Result<(), Error>,
        judge: impl Fn(&RelativePath, bool) -> Judgement,
    ) -> Result<(), Error> {
        let mut remove = self.target.remover();
        loop {
            let found = self.look_by(root, ENTRIES_AT_ONCE, tell, &judge)?;
            let (mut removed, mut errors) = (0, found.errors);
            // The contents of a directory come after it.
            for extra in found.entries.iter().rev() {
                match remove(extra) {
                    Ok(false) => {}
                    Ok(true) => {
                        removed += 1;
                        tell(if self.itemise { Step::Deleted(extra.path.clone()) } else { Step::Going })?;
                    }
                    Err(error) => errors.push(error),
                }
            }
            pruned.deleted += removed;
            // Entries that failed may block the rest.
            if found.has_more && removed > 0 {
                continue;
            }
            pruned.undeleted += errors.len() as u64;
            errors.into_iter().try_for_each(|error| tell(Step::Failed(error)))?;
            return Ok(());
        }
    }
}

/// Returns whether the error means that a name is not a directory of the target: a link, a file, or missing.
fn is_no_directory(error: &sealane_tree::Error) -> bool {
    match error {
        sealane_tree::Error::BlockedPath { .. } => true,
        sealane_tree::Error::Io { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

/// Refuses requests of a peer that cannot be met.
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
