//! The files of folders that differ, as a sender takes them: it compares each list with its own folder while the next ones
//! come.
//!
//! Guarantees: of a folder most of whose files are equal, only those that differ are remembered, so memory does not depend on the
//! number of files; the receiver's word for a file counts only in a folder that it was asked for, once. Of other folders
//! everything is remembered that the receiver tells, up to the bound of whoever takes it.

use std::time::Instant;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use sealane_tree::Folders;

use super::{Asked, IN_HAND_MAX, Rules, beside, cancelled, listing::append};
use crate::{
    error::Error,
    proto::message::{Have, List, Message},
    send::{
        compare::{Verdict, compare_list},
        equal::Equal,
    },
    session::{control::Control, messages},
    transfer::known::Knowing,
};

/// A list, and the sender's own folder.
type Task = ((u32, Box<[u8]>), List);

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
        let List { done, dated, versions, .. } = equal.settle(verdict);
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
    let Some(own) = own else {
        let (out, verdicts) = unbounded();
        // Nobody judges.
        drop(out);
        return hear(verdicts);
    };
    // Each thread has this channel for itself: when all are gone, nobody waits to give them more.
    let judge = move |out| judge(own, rules.knowing(), &todo, &out);
    // Whatever is judged is remembered anyway, so threads need not wait for it to be taken.
    beside(own, threads, unbounded(), judge, hear)
}

/// Compares lists until there are no more, or nobody takes the verdicts.
fn judge(own: &Folders, knowing: Knowing, todo: &Receiver<Vec<Task>>, out: &Sender<Verdict>) {
    let mut memory = own.memory();
    for ((root, path), list) in todo.iter().flatten() {
        if out.send(compare_list(own, &mut memory, knowing, (root, &path), list)).is_err() {
            return;
        }
    }
}
