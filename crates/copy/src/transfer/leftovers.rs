//! Leftovers of interrupted copies of other sources in a target.
//!
//! Guarantees: what no journal tells of is told if nobody writes it; a journal that a running transfer holds is left alone, and so is one that tells of names that this copy
//! does not bring; a part is removed only if its file is in place, as it was to be.

use crate::{
    journal::{Other, State},
    receive::{files::Files, strays::STRAYS_MAX},
    summary::Notice,
    transfer::ends::is_finished,
};

/// The maximum number of journals that are told: the thread that passes notices on is the one that makes these.
const TOLD_MAX: u64 = 64;

/// Removes what interrupted copies have left of entries that this copy has brought, and tells what stays. Call it when
/// everything has arrived, before folders get their times.
pub(crate) fn settle(files: &Files) {
    let (Some(target), Some(own)) = (files.target(), &files.journal) else { return };
    if files.intake.treatment.portion.is_some() {
        return;
    }
    let (mut writer, mut told) = (target.writer(), 0);
    let strays = files.strays.take();
    let mut settle = |other: Other<'_>, state: &State, name: &str| {
        let is_concerned = match other {
            // Its writer has died before it said which names it is about.
            Other::Journal(journal) if !journal.is_resumed() => true,
            // It does not say which names it is about, and never will if its writer has died.
            Other::EmptyLease => true,
            Other::Journal(_) | Other::Lease => files.intake.permit.brings(&state.covers),
        };
        if !is_concerned {
            return;
        }
        let mut is_needed = false;
        for (identity, partial) in &state.partial {
            if !is_finished(&mut writer, &partial.path, identity) {
                is_needed = true;
                continue;
            }
            partial.discard(&mut writer);
        }
        match other {
            // It tells of nothing that is missing, and harms nobody if it stays.
            Other::Journal(journal) if !is_needed => drop(journal.remove()),
            // The client that holds a lease's journal may still be running.
            _ if told < TOLD_MAX => {
                told += 1;
                files.notice(Notice::Left { path: files.shown(name.as_bytes()).as_bytes().to_vec() });
            }
            _ => {}
        }
    };
    // A folder that cannot be listed keeps them.
    let _ = own.others(&mut settle);
    if told > 0 {
        return;
    }
    let left = strays.iter().filter(|path| writer.is_abandoned(path)).take(STRAYS_MAX);
    for path in left {
        files.notice(Notice::Left { path: files.shown(path.as_bytes()).as_bytes().to_vec() });
    }
}
