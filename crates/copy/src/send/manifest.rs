//! The names that the source has, on their way to a receiver that deletes the rest, and the entries of a dry run.
//!
//! Guarantees: what was handed on is told before the end of the transfer; no more than a few messages' worth is held, and
//! the scan and the lanes wait for the control channel.

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::proto::entry::{Entry, listed_hash};

/// Messages' worth of names that wait for the control thread.
const WAITING_MAX: usize = 8;

/// Entries that wait for the control thread.
const ENTRIES_MAX: usize = 8 << 10;

/// Messages that threads of the sending end hand on to the control thread.
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

    /// Hands on; waits while there is no room.
    pub(crate) fn hand_on(&self, one: T) {
        self.in_.send(one).expect("this end of the channel is held here");
    }

    /// Returns the next message.
    pub(crate) fn take(&self) -> Option<T> {
        self.out.try_recv().ok()
    }
}

impl Outgoing<Entry> {
    /// For the entries that a dry run would send.
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

    /// Returns whether anybody asks.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted
    }

    /// All that lies in the target itself will be told.
    pub(crate) fn list_target(&self) {
        self.hand_on(vec![listed_hash(b"")]);
    }

    /// Names, and directories all of whose names are told. Waits while there is no room.
    pub(crate) fn hand_on(&self, known: Vec<[u8; 16]>) {
        if self.is_wanted && !known.is_empty() {
            self.names.hand_on(known);
        }
    }

    /// Returns the next message.
    pub(crate) fn take(&self) -> Option<Vec<[u8; 16]>> {
        self.names.take()
    }
}
