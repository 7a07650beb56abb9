//! Finding what there is to send.
//!
//! Guarantees: memory is bounded by the queue, which makes the scan wait for the lanes; what cannot be read
//! is reported and the scan goes on.

use std::sync::atomic::Ordering::Relaxed;

use sealane_tree::{ShownPath, Walk};

use crate::{
    error::chain,
    journal::is_file_name,
    proto::{
        entry::{listed_hash, path_hash},
        message::HAVE_PER_MESSAGE,
    },
    send::{
        lane::Sending,
        work::{Candidate, OtherNames, PACK_ENTRIES},
    },
};

/// Names in one message; a directory is told by two hashes.
const KNOWN_PER_MESSAGE: usize = HAVE_PER_MESSAGE;

/// Walks the sources into the queue.
pub(crate) fn run(sending: &Sending, walk: Walk) {
    let filling = &sending.filling;
    let mut pack = Vec::with_capacity(PACK_ENTRIES);
    let mut known = Vec::new();
    for found in walk {
        match found {
            // A receiver would take it for what it knows of an earlier run.
            Ok(found) if is_file_name(found.path.file_name()) => {
                let reason =
                    format!("{} is the journal of an unfinished copy, and is not copied", found.path);
                filling.unfit(&ShownPath::from(&found.path), reason);
            }
            Ok(found) => {
                filling.progress.files_found.fetch_add(1, Relaxed);
                if filling.manifest.is_wanted() {
                    known.push(path_hash(&found.path));
                    known.extend(found.is_entered.then(|| listed_hash(found.path.as_bytes())));
                }
                pack.push(Candidate { found, others: OtherNames::Unknown });
            }
            Err(error) => {
                let reason = chain(&error);
                let unfit = matches!(
                    error,
                    sealane_tree::Error::SkippedDirectory { .. } | sealane_tree::Error::ReservedName { .. }
                );
                let shown = error.into_path().unwrap_or_else(|| ShownPath::new([]));
                if unfit { filling.unfit(&shown, reason) } else { filling.failed(&shown, reason) }
            }
        }
        if known.len() >= KNOWN_PER_MESSAGE {
            filling.manifest.hand_on(std::mem::take(&mut known));
            sending.control.ring();
        }
        if pack.len() == PACK_ENTRIES {
            let full = std::mem::replace(&mut pack, Vec::with_capacity(PACK_ENTRIES));
            if !filling.queue.push_found(full) {
                return;
            }
            sending.bells.ring();
        }
    }
    filling.manifest.hand_on(known);
    if !pack.is_empty() {
        filling.queue.push_found(pack);
    }
    finish(sending);
}

/// Nothing more will be found.
pub(crate) fn finish(sending: &Sending) {
    sending.filling.queue.scan_complete();
    sending.filling.progress.scan_complete.store(true, Relaxed);
    sending.bells.ring();
    sending.control.ring();
}
