//! The receiver's part: it tells the digests of its folders, and, while it looks at the next ones, what is in those that differ.
//!
//! Guarantees: a folder is told once, and only if it was asked for; the files of the folders that were told last are kept, within a
//! bound, so that one that is asked for soon is not searched again; whatever the sender asks for waits within a bound.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use sealane_tree::{Basis, Folders, Memory};

use super::{
    ASKED_MAX, FOLDERS_MAX, IN_HAND_MAX, PULSE, Rules, Telling, Walking, beside, cancelled,
    digesting::{Digested, Digesting},
    each_task,
    kept::{Allowance, Files, Keeping},
    listing::{AskedFor, Listed, Listing},
};
use crate::{
    error::Error,
    proto::{
        entry::{UNKNOWN_ATTRIBUTES, bytes_hash},
        message::{FOLDERS_PER_MESSAGE, FolderDigest, HAVE_PER_MESSAGE, Have, Held, Message},
    },
    receive::strays::Strays,
    session::{control::Control, messages},
};

/// One step that a thread has done.
enum Done {
    Digested(Vec<Digested>),
    Listed(Listed),
    /// It has seen all folders.
    Walked,
}

impl From<Vec<Digested>> for Done {
    fn from(digested: Vec<Digested>) -> Self {
        Self::Digested(digested)
    }
}

impl From<Listed> for Done {
    fn from(listed: Listed) -> Self {
        Self::Listed(listed)
    }
}

/// A folder's path, and its files, if they are kept.
type Folder = (Box<[u8]>, Option<Box<Files>>);

/// A folder of which the sender wants to know the files.
struct Task {
    asked: AskedFor,
    folder: Folder,
}

/// Lists folders, for one thread.
struct Lister<'a> {
    all: &'a Folders,
    memory: Memory,
    allowance: &'a Allowance,
    listing: Listing<'a, Done>,
}

impl Lister<'_> {
    fn list(&mut self, Task { asked, folder: (path, files) }: Task) {
        self.listing.told_for(asked);
        match files {
            Some(files) => {
                self.listing.list_kept(&path, &files);
                self.allowance.free(Some(files));
            }
            None => self.all.visit_only((0, &path), &mut self.memory, &mut self.listing),
        }
        // If nobody takes it, the search has ended.
        self.listing.folder_is_told();
    }
}

/// Tells the sender the folders, and the files in those that it asks for, and notes unfinished files.
pub(crate) fn tell(
    control: &mut Control<'_>,
    rules: &Rules,
    all: &Folders,
    strays: &Strays,
    (threads, telling): (u16, Telling<'_>),
) -> Result<(), Error> {
    // The sender begins to look at its own.
    messages::send(control.channel, &Message::Folders(Vec::new()))?;
    let allowance = &Allowance::of(rules.kept_bytes);
    let (tasks, todo) = unbounded::<Task>();
    let work = |out: Sender<Done>| {
        let keeping = Keeping::new(allowance);
        let listing = Listing::new(telling, out.clone());
        let mut lister = Lister { all, memory: all.memory(), allowance, listing };
        let digesting = Digesting::new(rules, Some(strays), keeping, out.clone());
        let between = || {
            todo.try_iter().for_each(|task| lister.list(task));
            lister.listing.hand_on()
        };
        let mut walking = Walking { digesting, between };
        all.visit(&mut walking);
        walking.digesting.hand_on();
        let _ = out.send(Done::Walked);
        each_task(&todo, &mut lister, |lister, task| lister.list(task), |lister| lister.listing.hand_on());
    };
    let threads = threads.max(1);
    beside(all, threads, bounded(IN_HAND_MAX), work, |results| {
        Teller {
            control,
            allowance,
            tasks,
            walking: threads,
            under_way: 0,
            folders: Vec::new(),
            window: VecDeque::new(),
            digests: Vec::new(),
            listed: Listed::default(),
            finds_moved: telling.movable.is_some(),
            gone: Vec::new(),
            has_told_all: false,
            is_asked_all: false,
        }
        .run(&results)
    })
}

/// The state of the thread that speaks with the sender.
struct Teller<'a, 'c> {
    control: &'a mut Control<'c>,
    allowance: &'a Allowance,
    tasks: Sender<Task>,
    /// The number of threads that have not seen all folders.
    walking: u16,
    /// The number of folders that threads list.
    under_way: usize,
    /// The folders that were told, by their numbers; `None` once one was asked for.
    folders: Vec<Option<Folder>>,
    /// The numbers of those whose files may be kept, in this order.
    window: VecDeque<u32>,
    digests: Vec<FolderDigest>,
    listed: Listed,
    finds_moved: bool,
    /// The numbers of folders that the sender does not have.
    gone: Vec<u32>,
    has_told_all: bool,
    is_asked_all: bool,
}

impl Teller<'_, '_> {
    fn run(mut self, results: &Receiver<Done>) -> Result<(), Error> {
        loop {
            cancelled(self.control)?;
            if self.walking > 0 || self.under_way > 0 {
                match results.recv_timeout(PULSE) {
                    Ok(done) => self.take(done),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(Error::protocol("a thread that looks at folders has ended early"));
                    }
                }
                while !self.is_full()
                    && let Ok(done) = results.try_recv()
                {
                    self.take(done);
                }
                self.say()?;
            }
            if self.walking == 0 && !self.has_told_all {
                messages::send(self.control.channel, &Message::FoldersEnd)?;
                self.has_told_all = true;
            }
            if !self.is_asked_all {
                self.hear()?;
            } else if self.under_way == 0 {
                break;
            }
        }
        match self.gone.is_empty() {
            true => Ok(()),
            false => messages::send(self.control.channel, &Message::HaveEnd),
        }
    }

    fn is_full(&self) -> bool {
        self.digests.len() >= FOLDERS_PER_MESSAGE / 2 || self.listed.count() >= HAVE_PER_MESSAGE / 2
    }

    fn take(&mut self, done: Done) {
        match done {
            Done::Digested(digested) => {
                for Digested { path, digest, files, .. } in digested {
                    if self.folders.len() >= FOLDERS_MAX {
                        self.allowance.free(files);
                        continue;
                    }
                    self.digests.push(FolderDigest { path: bytes_hash(&path), digest });
                    self.window.extend(files.is_some().then_some(self.folders.len() as u32));
                    self.folders.push(Some((path, files)));
                }
                self.make_room();
            }
            Done::Listed(listed) => {
                self.under_way -= listed.folders;
                self.listed.append(listed);
            }
            Done::Walked => self.walking -= 1,
        }
    }

    /// Drops the files of the folders that were told first: most of these are equal.
    fn make_room(&mut self) {
        while self.allowance.is_low()
            && let Some(number) = self.window.pop_front()
        {
            if let Some(Some((_, files))) = self.folders.get_mut(number as usize) {
                self.allowance.free(files.take());
            }
        }
    }

    /// Sends what there is to tell; if that is nothing, a sign of life.
    fn say(&mut self) -> Result<(), Error> {
        let channel = &mut *self.control.channel;
        let is_any = !self.digests.is_empty() || self.listed != Listed::default();
        if !self.digests.is_empty() || (!is_any && !self.has_told_all) {
            messages::send(channel, &Message::Folders(std::mem::take(&mut self.digests)))?;
        }
        let Listed { lists, have, .. } = std::mem::take(&mut self.listed);
        // The files of a long folder come before its end.
        if have != Have::default() {
            messages::send(channel, &Message::Have(have))?;
        }
        if lists.count() > 0 || (!is_any && self.has_told_all) {
            messages::send(channel, &Message::Lists(lists))?;
        }
        Ok(())
    }

    /// Hears what the sender asks for: while threads have work, whatever has come.
    fn hear(&mut self) -> Result<(), Error> {
        let patience =
            if self.walking == 0 && self.under_way == 0 { self.control.timeout } else { Duration::ZERO };
        let mut frame = self.control.channel.recv(Instant::now() + patience)?;
        if frame.is_none() && !patience.is_zero() {
            return Err(messages::silent());
        }
        while let Some(found) = frame {
            match Message::decode(&found).map_err(|error| Error::protocol(error.to_string()))? {
                Message::Differ(numbers) => {
                    if self.under_way + numbers.len() > ASKED_MAX {
                        return Err(Error::protocol("the sender asks for more folders than it may at once"));
                    }
                    numbers.into_iter().try_for_each(|number| self.ask(number, AskedFor::Files(number)))?;
                }
                Message::Gone(numbers) if self.finds_moved && self.has_told_all => {
                    if self.gone.len() + numbers.len() > self.folders.len() {
                        return Err(Error::protocol("the sender misses more folders than it was told"));
                    }
                    self.gone.extend(numbers);
                }
                Message::DifferEnd if self.has_told_all => {
                    self.is_asked_all = true;
                    let gone = std::mem::take(&mut self.gone);
                    gone.iter().try_for_each(|number| self.ask(*number, AskedFor::Versions))?;
                    self.gone = gone;
                    return Ok(());
                }
                Message::Abort(abort) => return Err(abort.into()),
                _ => return Err(Error::protocol("the sender does not say which folders differ")),
            }
            frame = self.control.channel.recv(Instant::now())?;
        }
        Ok(())
    }

    fn ask(&mut self, number: u32, asked: AskedFor) -> Result<(), Error> {
        let folder = self.folders.get_mut(number as usize).and_then(Option::take);
        let folder =
            folder.ok_or_else(|| Error::protocol("the sender asks for a folder that is not there"))?;
        self.under_way += 1;
        let ended = |_| Error::protocol("a thread that looks at folders has ended early");
        self.tasks.send(Task { asked, folder }).map_err(ended)
    }
}

/// Tells the sender the files of earlier copies, of which it then sends no more than their attributes, or what has changed.
pub(crate) fn tell_bases(
    bases: &[Basis],
    (threads, versions): (u16, bool),
    mut tell: impl FnMut(Message) -> Result<(), Error>,
) -> Result<(), Error> {
    for basis in bases {
        let all = basis.folders();
        let work = |out: Sender<Listed>| {
            let telling = Telling { versions, ..Telling::default() };
            let mut listing = Listing::new(telling, out);
            all.visit(&mut listing);
            listing.hand_on();
        };
        beside(&all, threads, bounded(IN_HAND_MAX), work, |results| {
            let mut have = Have::default();
            loop {
                let is_late = match results.recv_timeout(PULSE) {
                    Ok(Listed { have: more, .. }) => {
                        // Whether they are as they are to be is decided where they are taken.
                        let unknown = |held| Held { attributes: UNKNOWN_ATTRIBUTES, ..held };
                        have.done.extend(more.done.into_iter().map(unknown));
                        have.versions.extend(more.versions);
                        false
                    }
                    Err(RecvTimeoutError::Timeout) => true,
                    Err(RecvTimeoutError::Disconnected) => break,
                };
                if is_late || have.done.len() >= HAVE_PER_MESSAGE / 2 {
                    tell(Message::Have(std::mem::take(&mut have)))?;
                }
            }
            tell(Message::Have(have))
        })?;
    }
    Ok(())
}
