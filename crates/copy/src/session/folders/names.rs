//! The names that a target has, for a sender that chooses among its entries by them.
//!
//! Guarantees: every name that arriving entries may have is told, whatever has it; nothing is opened but folders.

use std::collections::HashSet;

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use sealane_tree::{Filter, RelativePath, Seen, SeenFolder, Target, Visitor, Xattrs};

use super::{IN_HAND_MAX, PULSE, beside};
use crate::{
    error::Error,
    proto::message::{Dated, HAVE_PER_MESSAGE, Have, Message},
    receive::permit::Permit,
    session::survey::starting_folders,
    transfer::known::named,
};

/// Collects the names that one thread sees.
struct Names {
    path: Vec<u8>,
    names: Vec<Dated>,
    out: Sender<Vec<Dated>>,
}

impl Names {
    fn hand_on(&mut self) -> bool {
        self.names.is_empty() || self.out.send(std::mem::take(&mut self.names)).is_ok()
    }
}

impl Visitor for Names {
    fn begin(&mut self, path: &[u8]) {
        self.path.clear();
        self.path.extend_from_slice(path);
    }

    fn entry(&mut self, seen: &Seen<'_>) {
        if let Ok(path) = RelativePath::within(&self.path, seen.name) {
            self.names.push(named(&path));
        }
    }

    fn end(&mut self, _folder: &SeenFolder<'_>) -> bool {
        self.names.len() < HAVE_PER_MESSAGE / 8 || self.hand_on()
    }
}

/// Tells the sender all names that arriving entries may have.
pub(crate) fn tell_names(
    target: &Target,
    permit: &Permit,
    threads: u16,
    mut tell: impl FnMut(Message) -> Result<(), Error>,
) -> Result<(), Error> {
    let paths = starting_folders(target, permit)?;
    let mut starts = Vec::new();
    let mut first = Have::default();
    let mut seen = HashSet::new();
    let mut writer = target.writer();
    for path in paths {
        let Ok(path) = RelativePath::new(&path) else {
            starts.push(path);
            continue;
        };
        // The folders above a listed path are sent too.
        for path in std::iter::successors(Some(path.clone()), RelativePath::parent) {
            if !seen.insert(path.clone()) {
                break;
            }
            if let Ok(Some(_)) = writer.existing(&path) {
                first.dated.push(named(&path));
            }
        }
        starts.push(path.as_bytes().to_vec());
        if first.dated.len() >= HAVE_PER_MESSAGE / 2 {
            tell(Message::Have(std::mem::take(&mut first)))?;
        }
    }
    tell(Message::Have(first))?;
    if !permit.is_recursive() {
        return Ok(());
    }
    let all = target.folders(starts, Xattrs::default(), true, (Filter::default(), false));
    let work = |out: Sender<Vec<Dated>>| {
        let mut names = Names { path: Vec::new(), names: Vec::new(), out };
        all.visit(&mut names);
        names.hand_on();
    };
    beside(&all, threads, bounded(IN_HAND_MAX), work, |results| {
        let mut have = Have::default();
        loop {
            match results.recv_timeout(PULSE) {
                Ok(names) => have.dated.extend(names),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            // Also as a sign of life.
            let sent = have.dated.len().min(HAVE_PER_MESSAGE);
            if sent >= HAVE_PER_MESSAGE / 2 || results.is_empty() {
                let dated = have.dated.split_off(have.dated.len() - sent);
                tell(Message::Have(Have { dated, ..Have::default() }))?;
            }
        }
        for dated in have.dated.chunks(HAVE_PER_MESSAGE) {
            tell(Message::Have(Have { dated: dated.to_vec(), ..Have::default() }))?;
        }
        Ok(())
    })
}
