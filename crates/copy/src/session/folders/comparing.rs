//! The sender's part: it compares the receiver's folders with its own while both come, asks for the files in those that differ, and
//! compares these.
//!
//! Guarantees: of a folder most of whose files are equal, only those that differ are remembered, so memory does not depend on the
//! number of files; the receiver's word for a file counts only in a folder that it was asked for, once, or as what it claims to have;
//! at most [`ASKED_MAX`] folders are asked for at once, so that neither end waits for the other to read.

use std::{
    collections::{HashMap, VecDeque},
    time::Instant,
};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use sealane_tree::{Folders, Memory};

use super::{
    ASKED_MAX, FOLDERS_MAX, PULSE, Rules, UNKNOWN, Walking, beside, cancelled,
    digesting::{Digested, Digesting},
    each_task,
    kept::{Allowance, Files, Keeping},
    listing::{append, count},
};
use crate::{
    error::Error,
    proto::{
        entry::bytes_hash,
        message::{FOLDERS_PER_MESSAGE, FolderDigest, HAVE_PER_MESSAGE, Have, List, Message},
    },
    send::{
        compare::{Verdict, compare_kept, compare_list},
        equal::Equal,
    },
    session::{control::Control, messages},
    transfer::known::Knowing,
};

/// One step that a thread has done.
enum Done {
    Digested(Vec<Digested>),
    Judged(Verdict),
    /// It has seen all folders.
    Walked,
}

impl From<Vec<Digested>> for Done {
    fn from(digested: Vec<Digested>) -> Self {
        Self::Digested(digested)
    }
}

/// A folder of the sender that differs.
#[derive(Debug)]
pub(super) struct Own {
    root: u32,
    path: Box<[u8]>,
    /// Its files, if they are kept, and whether it has no other entries.
    files: Option<(Box<Files>, bool)>,
}

/// A list of the receiver to be compared with a folder.
type Task = (Own, List);

/// How folders are compared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comparing {
    pub(crate) threads: u16,
    /// Folders that only the receiver has matter.
    pub(crate) finds_moved: bool,
    /// Files are judged by what the list of a folder says of them.
    pub(crate) judges_lists: bool,
}

/// Compares the receiver's folders with the sender's `own`, once the receiver has begun to tell them, and passes on to `take` what the
/// receiver has in those that differ. Returns the folders that are equal, or nearly so.
///
/// If nothing is known of the sender's own folders, it asks for all.
pub(crate) fn compare(
    control: &mut Control<'_>,
    rules: &Rules,
    own: Option<&Folders>,
    how: Comparing,
    take: impl FnMut(Have) -> Result<(), Error>,
) -> Result<Equal, Error> {
    let allowance = &Allowance::of(rules.kept_bytes);
    let (tasks, todo) = unbounded::<Task>();
    let threads = how.threads.max(1);
    let speaker = |walking| Speaker {
        control,
        take,
        tasks,
        how,
        walking,
        is_blind: own.is_none(),
        has_heard_all: false,
        table: Table::new(allowance),
        rest: Have::default(),
    };
    let Some(own) = own else {
        let (_, results) = unbounded();
        return speaker(0).run(&results);
    };
    let work = |out: Sender<Done>| {
        let keeping = Keeping::new(allowance);
        let mut judge = Judge { own, memory: own.memory(), knowing: rules.knowing(), allowance, out: &out };
        let digesting = Digesting::new(rules, None, keeping, out.clone());
        let between = || todo.try_iter().all(|task| judge.judge(task));
        let mut walking = Walking { digesting, between };
        own.visit(&mut walking);
        walking.digesting.hand_on();
        let _ = out.send(Done::Walked);
        each_task(&todo, &mut judge, |judge, task| _ = judge.judge(task), |_| true);
    };
    // Whatever threads hand on is remembered anyway.
    beside(own, threads, unbounded(), work, |results| speaker(threads).run(&results))
}

/// Compares lists, for one thread.
struct Judge<'a> {
    own: &'a Folders,
    memory: Memory,
    knowing: Knowing,
    allowance: &'a Allowance,
    out: &'a Sender<Done>,
}

impl Judge<'_> {
    /// Returns whether anybody takes the verdict.
    fn judge(&mut self, (Own { root, path, files }, list): Task) -> bool {
        let folder = (root, &*path);
        let verdict = match files {
            Some((files, is_all)) => {
                let verdict = compare_kept(self.knowing, folder, files.iter(), is_all, list);
                self.allowance.free(Some(files));
                verdict
            }
            None => compare_list(self.own, &mut self.memory, self.knowing, folder, list),
        };
        self.out.send(Done::Judged(verdict)).is_ok()
    }
}

/// A folder of the sender that the receiver has not told of yet.
struct Mine {
    root: u32,
    /// Its path; none if there are several of that path.
    path: Option<Box<[u8]>>,
    digest: [u8; 16],
    bytes: u64,
    entries: Option<u32>,
    files: Option<Box<Files>>,
}

/// The folders of both ends, as far as they are known.
pub(super) struct Table<'a> {
    allowance: &'a Allowance,
    mine: HashMap<[u8; 16], Mine>,
    theirs: HashMap<[u8; 16], (u32, [u8; 16])>,
    /// The number of folders that the receiver has told.
    pub(super) count: usize,
    /// The numbers of the receiver's folders that differ and that are still to be asked for, with the sender's own.
    pub(super) differ: VecDeque<(u32, Option<Own>)>,
    /// The folders that it was asked for.
    asked: HashMap<u32, Option<Own>>,
    pub(super) equal: Equal,
}

impl<'a> Table<'a> {
    pub(super) fn new(allowance: &'a Allowance) -> Self {
        Self {
            allowance,
            mine: HashMap::new(),
            theirs: HashMap::new(),
            count: 0,
            differ: VecDeque::new(),
            asked: HashMap::new(),
            equal: Equal::default(),
        }
    }

    fn judge(&mut self, hash: [u8; 16], mine: Mine, (number, digest): (u32, [u8; 16])) {
        let Mine { root, path, bytes, entries, files, .. } = mine;
        if mine.digest == digest && digest != UNKNOWN {
            self.allowance.free(files);
            return self.equal.add(root, hash, bytes, entries);
        }
        let own = path.map(|path| {
            let files = files.map(|files| {
                let is_all = entries == Some(files.count());
                (files, is_all)
            });
            Own { root, path, files }
        });
        self.differ.push_back((number, own));
    }

    pub(super) fn add_mine(&mut self, Digested { root, path, digest, bytes, entries, files }: Digested) {
        let hash = bytes_hash(&path);
        let mut mine = Mine { root, path: Some(path), digest, bytes, entries, files };
        if let Some(theirs) = self.theirs.remove(&hash) {
            return self.judge(hash, mine, theirs);
        }
        // Two sources with a folder of one path: the receiver's has entries of both.
        if self.mine.contains_key(&hash) {
            self.allowance.free(mine.files.take());
            (mine.digest, mine.path) = (UNKNOWN, None);
        }
        if let Some(first) = self.mine.insert(hash, mine) {
            self.allowance.free(first.files);
        }
    }

    pub(super) fn add_theirs(&mut self, told: Vec<FolderDigest>, is_blind: bool) -> Result<(), Error> {
        for FolderDigest { path, digest } in told {
            if self.count >= FOLDERS_MAX {
                return Err(Error::protocol("the receiver tells of more folders than can be kept in memory"));
            }
            let theirs = (self.count as u32, digest);
            self.count += 1;
            if is_blind {
                self.differ.push_back((theirs.0, None));
                continue;
            }
            match self.mine.remove(&path) {
                Some(mine) => self.judge(path, mine, theirs),
                None => drop(self.theirs.insert(path, theirs)),
            }
        }
        Ok(())
    }

    /// Returns the numbers of the next folders to ask for.
    pub(super) fn next_to_ask(&mut self) -> Vec<u32> {
        let room = ASKED_MAX.saturating_sub(self.asked.len()).min(FOLDERS_PER_MESSAGE);
        let next = self.differ.drain(..room.min(self.differ.len()));
        let mut numbers = Vec::with_capacity(next.len());
        for (number, own) in next {
            numbers.push(number);
            self.asked.insert(number, own);
        }
        numbers
    }

    pub(super) fn is_settled(&self) -> bool {
        self.differ.is_empty() && self.asked.is_empty()
    }
}

/// The state of the thread that speaks with the receiver.
struct Speaker<'a, 'c, T> {
    control: &'a mut Control<'c>,
    take: T,
    tasks: Sender<Task>,
    how: Comparing,
    /// The number of threads that have not seen all folders.
    walking: u16,
    /// Nothing is known of the sender's own folders.
    is_blind: bool,
    has_heard_all: bool,
    table: Table<'a>,
    /// Whatever lists leave to be judged when the files are looked at.
    rest: Have,
}

impl<T: FnMut(Have) -> Result<(), Error>> Speaker<'_, '_, T> {
    fn run(mut self, results: &Receiver<Done>) -> Result<Equal, Error> {
        loop {
            cancelled(self.control)?;
            results.try_iter().try_for_each(|done| self.done(done))?;
            self.ask()?;
            if self.has_heard_all && self.walking == 0 && self.table.is_settled() {
                break;
            }
            // A receiver that has told all says something only when it is asked.
            if self.has_heard_all && self.walking > 0 {
                match results.recv_timeout(PULSE) {
                    Ok(done) => self.done(done)?,
                    Err(RecvTimeoutError::Timeout) => self.send(&Message::Differ(Vec::new()))?,
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(Error::protocol("a thread that compares folders has ended early"));
                    }
                }
                while let Some(frame) = self.control.channel.recv(Instant::now())? {
                    self.hear(Message::decode(&frame).map_err(|error| Error::protocol(error.to_string()))?)?;
                }
            } else {
                let deadline = Instant::now() + self.control.timeout;
                let message = messages::receive(self.control.channel, deadline)?.0;
                self.hear(message)?;
            }
        }
        self.end()?;
        // Threads end when there will be no more tasks.
        self.tasks = unbounded().0;
        results.iter().try_for_each(|done| self.done(done))?;
        (self.take)(self.rest)?;
        Ok(self.table.equal)
    }

    fn send(&mut self, message: &Message) -> Result<(), Error> {
        messages::send(self.control.channel, message)
    }

    fn done(&mut self, done: Done) -> Result<(), Error> {
        match done {
            Done::Digested(digested) => digested.into_iter().for_each(|folder| self.table.add_mine(folder)),
            Done::Judged(verdict) => return self.settle(verdict),
            Done::Walked => self.walking -= 1,
        }
        Ok(())
    }

    fn settle(&mut self, verdict: Verdict) -> Result<(), Error> {
        let List { done, dated, versions, .. } = self.table.equal.settle(verdict);
        append(&mut self.rest, Have { done, dated, versions, ..Have::default() });
        // Whoever takes it counts how often it is told something.
        match count(&self.rest) < HAVE_PER_MESSAGE {
            true => Ok(()),
            false => (self.take)(std::mem::take(&mut self.rest)),
        }
    }

    /// Asks for the files in folders that differ, as far as it may.
    fn ask(&mut self) -> Result<(), Error> {
        loop {
            let numbers = self.table.next_to_ask();
            if numbers.is_empty() {
                return Ok(());
            }
            self.send(&Message::Differ(numbers))?;
        }
    }

    fn hear(&mut self, message: Message) -> Result<(), Error> {
        match message {
            Message::Folders(told) if !self.has_heard_all => self.table.add_theirs(told, self.is_blind),
            Message::FoldersEnd if !self.has_heard_all => {
                self.has_heard_all = true;
                Ok(())
            }
            Message::Lists(lists) => lists.into_lists().try_for_each(|list| {
                let list =
                    list.ok_or_else(|| Error::protocol("the receiver tells fewer files than it says"))?;
                self.listed(list)
            }),
            Message::Have(have) => (self.take)(have),
            Message::Abort(abort) => Err(abort.into()),
            _ => Err(Error::protocol("the receiver does not say which folders it has")),
        }
    }

    /// Takes the list of a folder.
    fn listed(&mut self, list: List) -> Result<(), Error> {
        let own = self.table.asked.remove(&list.folder).ok_or_else(|| {
            Error::protocol("the receiver tells the files of a folder that it was not asked for")
        })?;
        match own {
            // Nothing is equal to a folder without files.
            Some(own) if self.how.judges_lists && !list.done.is_empty() => {
                let ended = |_| Error::protocol("a thread that compares folders has ended early");
                self.tasks.send((own, list)).map_err(ended)
            }
            own => {
                let files = own.and_then(|own| own.files);
                self.table.allowance.free(files.map(|(files, _)| files));
                self.settle(Verdict::Unknown(list))
            }
        }
    }

    /// Tells which folders only the receiver has, and hears what was in these.
    fn end(&mut self) -> Result<(), Error> {
        let left = self.table.theirs.values().map(|(number, _)| *number);
        let mut gone: Vec<_> = left.filter(|_| self.how.finds_moved).collect();
        gone.sort_unstable();
        for numbers in gone.chunks(FOLDERS_PER_MESSAGE) {
            self.send(&Message::Gone(numbers.to_vec()))?;
        }
        self.send(&Message::DifferEnd)?;
        if gone.is_empty() {
            return Ok(());
        }
        loop {
            cancelled(self.control)?;
            match messages::receive(self.control.channel, Instant::now() + self.control.timeout)?.0 {
                Message::HaveEnd => return Ok(()),
                message => self.hear(message)?,
            }
        }
    }
}
