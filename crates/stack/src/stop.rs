//! The end of what lanes do together.
//!
//! Guarantees: whether to go on is decided once and for all lanes; the first reason counts; a lane that sleeps is
//! woken to see it.

use crate::{
    Bells,
    sync::{AtomicBool, Mutex, SeqCst},
};

/// Whether to go on, and if not, why.
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
    /// Not stopped.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether lanes are to return.
    pub fn is_set(&self) -> bool {
        self.stopped.load(SeqCst)
    }

    /// Ends it well.
    pub fn finish(&self, bells: &Bells) {
        self.stopped.store(true, SeqCst);
        bells.ring();
    }

    /// Ends it for a reason; the first one counts.
    pub fn fail(&self, error: E, bells: &Bells) {
        self.reason.lock().expect("no thread panics holding the reason").get_or_insert(error);
        self.finish(bells);
    }

    /// The reason, if it did not end well.
    pub fn reason(&self) -> Option<E> {
        self.reason.lock().expect("no thread panics holding the reason").clone()
    }
}
