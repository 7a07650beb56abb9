//! The comparison of folders: both ends walk the same tree in the same order, and exchange one digest for each folder; of those
//! that differ the sender asks what is in them, while both go on.
//!
//! Guarantees: a folder counts as equal only if everything by which its entries and itself are compared is the same at
//! both ends, under a key that nobody knew before; one of which an end could not see everything is equal to nothing. A
//! receiver that lies is sent less, or more, of what it is sent anyway. Both ends remember about 50 bytes per folder, whose
//! number is bounded; of files those of folders that are not judged yet, within a bound ([`kept`]), and the sender those that
//! differ. If both ends come to a folder at about the same time, each looks into it once.

mod comparing;
mod digesting;
mod kept;
mod listing;
mod names;
mod telling;

use std::{sync::atomic::Ordering::Relaxed, thread, time::Duration};

use crossbeam_channel::{Receiver, Sender, TryRecvError};
use sealane_engine::record::Secret;
use sealane_tree::{Folders, Seen, SeenFolder, Visitor, Xattrs};

pub(crate) use self::{
    comparing::{Comparing, compare},
    names::tell_names,
    telling::{tell, tell_bases},
};
use crate::{
    error::{Error, ErrorKind},
    options::Preserve,
    receive::movable::Movable,
    session::control::Control,
    shared::NO_THREAD,
    transfer::known::Knowing,
};

/// The maximum number of folders of a receiver that are compared; the content of others is sent again.
pub(crate) const FOLDERS_MAX: usize = 1 << 22;
/// The number of folders that the sender asks for before it has their files. Their numbers fit into what lies between the ends, so
/// that neither waits for the other to read.
pub(crate) const ASKED_MAX: usize = 4096;
/// The number of folders that a thread hands on together.
const TOGETHER: usize = 256;
/// The number of lists that threads hand on at once.
const IN_HAND_MAX: usize = 16;
/// The time between two signs of life.
const PULSE: Duration = Duration::from_millis(500);
/// The digest that is equal to nothing.
const UNKNOWN: [u8; 16] = [0; 16];

/// Whatever folders are compared by.
#[derive(Clone, Debug)]
pub(crate) struct Rules {
    key: [u8; 32],
    owner: bool,
    xattrs: Xattrs,
    folder_modes: bool,
    hard_links: bool,
    specials: bool,
    /// The memory for the files of folders that are not judged yet.
    kept_bytes: usize,
}

impl Rules {
    pub(crate) fn new(key: &Secret, preserve: &Preserve) -> Self {
        Self {
            key: *key.expose(),
            owner: preserve.owner.is_wanted(),
            xattrs: preserve.kinds_of_xattrs(),
            folder_modes: preserve.folder_modes,
            hard_links: preserve.hard_links,
            specials: preserve.specials,
            kept_bytes: kept::KEPT_BYTES_MAX,
        }
    }

    /// Returns what counts where a folder is compared file by file.
    pub(crate) fn knowing(&self) -> Knowing {
        Knowing { with_owner: self.owner, hard_links: self.hard_links, ..Knowing::default() }
    }

    pub(crate) fn xattrs(&self) -> Xattrs {
        self.xattrs
    }
}

/// The facts that a receiver tells of the files in folders that differ.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Telling<'a> {
    pub(crate) knowing: Knowing,
    /// That they may be compared as other versions.
    pub(crate) versions: bool,
    /// That they may have been moved.
    pub(crate) movable: Option<&'a Movable>,
}

/// Ends a search when it is dropped: threads that make it must not outlive the reason for it.
struct Ends<'a>(&'a Folders);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Runs threads that visit the folders, each with its own `work`, while `main` takes what they hand on through this channel.
fn beside<T: Send, R>(
    folders: &Folders,
    threads: u16,
    (out, results): (Sender<T>, Receiver<T>),
    work: impl FnOnce(Sender<T>) + Clone + Send,
    main: impl FnOnce(Receiver<T>) -> Result<R, Error>,
) -> Result<R, Error> {
    thread::scope(|scope| {
        let _ends = Ends(folders);
        for _ in 0..threads.max(1) {
            let (out, work) = (out.clone(), work.clone());
            let started =
                thread::Builder::new().name("folders".into()).spawn_scoped(scope, move || work(out));
            started.map_err(|error| Error::io(NO_THREAD, &error))?;
        }
        drop((out, work));
        main(results)
    })
}

fn cancelled(control: &Control<'_>) -> Result<(), Error> {
    match control.progress.cancel.load(Relaxed) {
        true => Err(Error::new(ErrorKind::Cancelled, "interrupted")),
        false => Ok(()),
    }
}

/// Visits folders for a digest, and does other work between them.
struct Walking<V, F> {
    digesting: V,
    /// Returns whether the search goes on.
    between: F,
}

impl<V: Visitor, F: FnMut() -> bool> Visitor for Walking<V, F> {
    fn begin(&mut self, path: &[u8]) {
        self.digesting.begin(path);
    }

    fn unfinished(&mut self, path: &[u8]) {
        self.digesting.unfinished(path);
    }

    fn entry(&mut self, seen: &Seen<'_>) {
        self.digesting.entry(seen);
    }

    fn end(&mut self, folder: &SeenFolder<'_>) -> bool {
        self.digesting.end(folder) && (self.between)()
    }
}

/// Does one task after the other until there will be no more, or nobody takes what is done; `hand_on` hands that on before a wait.
fn each_task<S, T>(
    todo: &Receiver<T>,
    state: &mut S,
    mut work: impl FnMut(&mut S, T),
    mut hand_on: impl FnMut(&mut S) -> bool,
) {
    loop {
        match todo.try_recv() {
            Ok(task) => work(state, task),
            Err(TryRecvError::Disconnected) => return,
            Err(TryRecvError::Empty) if !hand_on(state) => return,
            Err(TryRecvError::Empty) => match todo.recv() {
                Ok(task) => work(state, task),
                Err(_) => return,
            },
        }
    }
}

#[cfg(test)]
mod both_ends;
#[cfg(test)]
mod tests;
