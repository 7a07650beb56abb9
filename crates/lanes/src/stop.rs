//! The common end of the lanes' work.
//!
//! Guarantees: the decision to stop is made once for all lanes; the first reason counts; a sleeping lane is woken to
//! notice it.

use crate::{
    Bells,
    sync::{AtomicBool, Mutex, SeqCst},
};

/// Whether the lanes have to stop, and the reason.
#[derive(Debug)]
pub struct Stop<E> {
    stopped: AtomicBool,
    reason: Mutex<Option<E>>,
}

impl<E> Default for Stop<E> {
    fn default() -> Self {
        Self { stopped: AtomicBool::new(false), reason: Mutex::new(None) }
    }
}

impl<E: Clone> Stop<E> {
    /// Makes a value that is not stopped.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether lanes must return.
    pub fn is_set(&self) -> bool {
        self.stopped.load(SeqCst)
    }

    /// Stops the lanes without an error.
    pub fn finish(&self, bells: &Bells) {
        self.stopped.store(true, SeqCst);
        bells.ring();
    }

    /// Stops the lanes for a reason; the first reason counts.
    pub fn fail(&self, error: E, bells: &Bells) {
        self.reason.lock().expect("no thread panics holding the reason").get_or_insert(error);
        self.finish(bells);
    }

    /// Returns the reason, if there was an error.
    pub fn reason(&self) -> Option<E> {
        self.reason.lock().expect("no thread panics holding the reason").clone()
    }
}
