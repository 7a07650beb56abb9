//! What the source has, on its way to a receiver that deletes the rest.
//!
//! Guarantees: what was handed on is told before the end of the transfer; no more than a few messages' worth is held, and
//! the scan waits for the control channel.

use crossbeam_channel::{Receiver, Sender, bounded};

use crate::proto::entry::listed_hash;

/// Messages' worth of names that wait for the control thread.
const WAITING_MAX: usize = 8;

#[derive(Debug)]
pub(crate) struct Manifest {
    is_wanted: bool,
    in_: Sender<Vec<[u8; 16]>>,
    out: Receiver<Vec<[u8; 16]>>,
}

impl Manifest {
    pub(crate) fn new(is_wanted: bool) -> Self {
        let (in_, out) = bounded(WAITING_MAX);
        Self { is_wanted, in_, out }
    }

    /// Whether anybody asks.
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
            self.in_.send(known).expect("this end of the channel is held here");
        }
    }

    /// What is to be told next.
    pub(crate) fn take(&self) -> Option<Vec<[u8; 16]>> {
        self.out.try_recv().ok()
    }
}
