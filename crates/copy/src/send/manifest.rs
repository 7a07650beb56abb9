//! The names that the source has, for a receiver that deletes the rest, and the entries of a dry run.
//!
//! Guarantees: everything passed on is sent before the end of the transfer; only a few messages' worth is held, and
//! the scan and the lanes wait for the control channel.

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::proto::entry::{Entry, equal_hash, listed_hash};

/// The maximum number of messages' worth of names that wait for the control thread.
const WAITING_MAX: usize = 8;

/// The maximum number of entries that wait for the control thread.
const ENTRIES_MAX: usize = 8 << 10;

/// Messages from threads of the sending end to the control thread.
#[derive(Debug)]
pub(crate) struct Outgoing<T> {
    in_: Sender<T>,
    out: Receiver<T>,
}

impl<T> Outgoing<T> {
    fn bounded(waiting_max: usize) -> Self {
        let (in_, out) = bounded(waiting_max);
        Self { in_, out }
    }

    /// Passes one value on; waits while there is no room.
    pub(crate) fn hand_on(&self, one: T) {
        self.in_.send(one).expect("this end of the channel is held here");
    }

    /// Returns the next message.
    pub(crate) fn take(&self) -> Option<T> {
        self.out.try_recv().ok()
    }

    /// Returns the end at which messages wait, for a thread that waits for something else too.
    pub(crate) fn waiting(&self) -> &Receiver<T> {
        &self.out
    }
}

impl Outgoing<Entry> {
    /// Returns the queue for the entries that a dry run would send.
    pub(crate) fn entries() -> Self {
        Self::bounded(ENTRIES_MAX)
    }
}

#[derive(Debug)]
pub(crate) struct Manifest {
    is_wanted: bool,
    names: Outgoing<Vec<[u8; 16]>>,
}

impl Manifest {
    pub(crate) fn new(is_wanted: bool) -> Self {
        Self { is_wanted, names: Outgoing::bounded(WAITING_MAX) }
    }

    /// Returns whether the receiver needs the names.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// Records that all names in the target itself will be listed, or that it has those of the source.
    pub(crate) fn list_target(&self, is_equal: bool) {
        self.hand_on(vec![if is_equal { equal_hash(b"") } else { listed_hash(b"") }]);
    }

    /// Passes on names, and directories whose names are all listed. Waits while there is no room.
    pub(crate) fn hand_on(&self, known: Vec<[u8; 16]>) {
        if self.is_wanted && !known.is_empty() {
            self.names.hand_on(known);
        }
    }

    /// Returns the next message.
    pub(crate) fn take(&self) -> Option<Vec<[u8; 16]>> {
        self.names.take()
    }

    /// Returns the end at which messages wait.
    pub(crate) fn waiting(&self) -> &Receiver<Vec<[u8; 16]>> {
        self.names.waiting()
    }
}
