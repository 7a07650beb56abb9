//! The files of folders that differ, as a sender takes them: it compares each list with its own folder while the next ones
//! come.
//!
//! Guarantees: of a folder most of whose files are equal, only those that differ are remembered, so memory does not depend on the
//! number of files; the receiver's word for a file counts only in a folder that it was asked for, once. Of other folders
//! everything is remembered that the receiver tells, up to the bound of whoever takes it.

use std::{
    collections::{HashMap, HashSet},
    time::Instant,
};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use sealane_tree::{EntryType, Folders, Memory, RelativePath, Seen, SeenFolder, Visitor};

use super::{Asked, IN_HAND_MAX, Rules, beside, cancelled, listing::append};
use crate::{
    error::Error,
    journal::is_file_name,
    proto::{
        entry::{attributes, bytes_hash, identity, path_hash},
        message::{Have, List, Message},
    },
    send::equal::Equal,
    session::{control::Control, messages},
};

/// A list, and the sender's own folder.
type Task = ((u32, Box<[u8]>), List);

/// The result of the comparison of a folder.
#[derive(Debug)]
pub(super) enum Verdict {
    /// All files are equal but the changed ones.
    Nearly {
        /// The number of its root, and the hash of its path.
        folder: (u32, [u8; 16]),
        /// The bytes of the equal files.
        bytes: u64,
        /// The hashes of the changed files' paths.
        changed: Vec<[u8; 16]>,
        /// The files of the list that are not equal to any.
        rest: List,
    },
    /// Nothing follows from it.
    Unknown(List),
}

/// Compares the sender's own folder with a list.
struct Comparing<'a> {
    rules: &'a Rules,
    list: List,
    held: HashMap<[u8; 16], [u8; 8]>,
    path: Vec<u8>,
    bytes: u64,
    equal_count: usize,
    /// The hashes of the paths of equal files, if the list has facts besides.
    equal: HashSet<[u8; 16]>,
    /// Files of the list with the same content and other attributes.
    touched: HashSet<[u8; 16]>,
    changed: Vec<[u8; 16]>,
    is_fit: bool,
    folder: Option<(u32, [u8; 16])>,
}

impl<'a> Comparing<'a> {
    fn new(rules: &'a Rules, list: List) -> Self {
        Self {
            rules,
            held: list.done.iter().map(|held| (held.identity, held.attributes)).collect(),
            list,
            path: Vec::new(),
            bytes: 0,
            equal_count: 0,
            equal: HashSet::new(),
            touched: HashSet::new(),
            changed: Vec::new(),
            is_fit: true,
            folder: None,
        }
    }

    fn verdict(self) -> Verdict {
        let Self { mut list, bytes, equal_count, equal, touched, changed, folder, .. } = self;
        // To remember what has changed is no gain where that is most.
        let Some(folder) = folder.filter(|_| changed.len() <= equal_count) else {
            return Verdict::Unknown(list);
        };
        list.done.retain(|held| touched.contains(&held.identity));
        list.dated.retain(|dated| !equal.contains(&dated.path));
        list.versions.retain(|version| !equal.contains(&version.path));
        Verdict::Nearly { folder, bytes, changed, rest: list }
    }
}

impl Visitor for Comparing<'_> {
    fn begin(&mut self, path: &[u8]) {
        self.path = path.to_vec();
    }

    fn unfinished(&mut self, _path: &[u8]) {
        self.is_fit = false;
    }

    fn entry(&mut self, seen: &Seen<'_>) {
        if is_file_name(seen.name) {
            self.is_fit = false;
        }
        if seen.entry_type != EntryType::File {
            return;
        }
        let Ok(path) = RelativePath::within(&self.path, seen.name) else {
            self.is_fit = false;
            return;
        };
        let identity = identity(&path, seen.metadata);
        let there = self.held.get(&identity);
        // Names of one file are found among all entries.
        let is_apart = self.rules.hard_links && seen.links > 1;
        if !is_apart
            && there.is_some_and(|there| *there == attributes(seen.metadata, false, self.rules.owner))
        {
            self.equal_count += 1;
            self.bytes = self.bytes.saturating_add(seen.metadata.size_bytes);
            if !self.list.dated.is_empty() || !self.list.versions.is_empty() {
                self.equal.insert(path_hash(&path));
            }
        } else {
            self.touched.extend(there.map(|_| identity));
            self.changed.push(path_hash(&path));
        }
    }

    fn end(&mut self, folder: &SeenFolder<'_>) -> bool {
        let is_known = folder.is_whole && self.is_fit;
        self.folder = is_known.then(|| (folder.root, bytes_hash(folder.path)));
        true
    }
}

/// Compares a list with this folder.
pub(super) fn compare_list(
    own: &Folders,
    memory: &mut Memory,
    rules: &Rules,
    ((root, path), list): Task,
) -> Verdict {
    let mut comparing = Comparing::new(rules, list);
    own.visit_only((root, &path), memory, &mut comparing);
    comparing.verdict()
}

/// The sender's part, once it has asked for the files of folders: hears them, compares them with its own, notes what is `equal`, and
/// passes the rest to `take`.
///
/// Without an `own` search all goes to `take`.
pub(crate) fn hear_lists(
    control: &mut Control<'_>,
    (rules, own): (&Rules, Option<&Folders>),
    mut asked: Asked,
    threads: u16,
    equal: &mut Equal,
    mut take: impl FnMut(Have) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut settle = |verdict, rest: &mut Have| {
        let List { done, dated, versions, .. } = match verdict {
            Verdict::Unknown(list) => list,
            Verdict::Nearly { folder: (root, path), bytes, changed, rest } => {
                equal.add_nearly(root, path, bytes, changed);
                rest
            }
        };
        append(rest, Have { done, dated, versions, ..Have::default() });
    };
    let (tasks, todo) = bounded::<Vec<Task>>(IN_HAND_MAX);
    let hear = |verdicts: Receiver<Verdict>| {
        let mut rest = Have::default();
        loop {
            cancelled(control)?;
            verdicts.try_iter().for_each(|verdict| settle(verdict, &mut rest));
            match messages::receive(control.channel, Instant::now() + control.timeout)?.0 {
                Message::Lists(lists) => {
                    let mut together = Vec::new();
                    for list in lists.into_lists() {
                        let list = list
                            .ok_or_else(|| Error::protocol("the receiver tells fewer files than it says"))?;
                        match asked.remove(&list.folder) {
                            Some(Some(folder)) if own.is_some() => together.push((folder, list)),
                            Some(_) => settle(Verdict::Unknown(list), &mut rest),
                            None => {
                                return Err(Error::protocol(
                                    "the receiver tells the files of a folder that it was not asked for",
                                ));
                            }
                        }
                    }
                    if !together.is_empty() && tasks.send(together).is_err() {
                        return Err(Error::protocol("a thread that compares folders has ended early"));
                    }
                }
                Message::Have(have) => append(&mut rest, have),
                Message::HaveEnd => break,
                Message::Abort(abort) => return Err(abort.into()),
                _ => return Err(Error::protocol("the receiver does not say which files it has")),
            }
            take(std::mem::take(&mut rest))?;
        }
        drop(tasks);
        verdicts.iter().for_each(|verdict| settle(verdict, &mut rest));
        take(rest)
    };
    let Some(own) = own else { return hear(unbounded().1) };
    // Each thread has this channel for itself: when all are gone, nobody waits to give them more.
    let judge = move |out| judge(own, rules, &todo, &out);
    // Whatever is judged is remembered anyway, so threads need not wait for it to be taken.
    beside(own, threads, unbounded(), judge, hear)
}

/// Compares lists until there are no more, or nobody takes the verdicts.
fn judge(own: &Folders, rules: &Rules, todo: &Receiver<Vec<Task>>, out: &Sender<Verdict>) {
    let mut memory = own.memory();
    for task in todo.iter().flatten() {
        if out.send(compare_list(own, &mut memory, rules, task)).is_err() {
            return;
        }
    }
}
