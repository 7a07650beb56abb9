//! What all threads of one transfer share: whether to go on, and why not.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use crate::{error::Error, wake::Bells};

/// The end of a transfer, decided once.
#[derive(Debug)]
pub(crate) struct Stop {
    stopped: AtomicBool,
    reason: Mutex<Option<Error>>,
}

impl Stop {
    pub(crate) fn new() -> Self {
        Self { stopped: AtomicBool::new(false), reason: Mutex::new(None) }
    }

    /// Whether threads are to return.
    pub(crate) fn is_set(&self) -> bool {
        self.stopped.load(SeqCst)
    }

    /// Ends the transfer well.
    pub(crate) fn finish(&self, bells: &Bells) {
        self.stopped.store(true, SeqCst);
        bells.ring();
    }

    /// Ends the transfer for a reason; the first one counts.
    pub(crate) fn fail(&self, error: Error, bells: &Bells) {
        self.reason.lock().expect("no thread panics holding the reason").get_or_insert(error);
        self.finish(bells);
    }

    /// The reason, if the transfer failed.
    pub(crate) fn reason(&self) -> Option<Error> {
        self.reason.lock().expect("no thread panics holding the reason").clone()
    }
}
