//! The bell that wakes a submitter which sleeps until there is something for it to see.
//!
//! Guarantees: the signal, a system call, is raised only if the submitter has asked for it since it was raised last; a
//! submitter that asks, looks once more and then sleeps misses nothing.

use crate::sync::{AtomicBool, SeqCst, fence};

/// A signal that stays until it is lowered, and for which a thread can sleep.
pub(crate) trait Signal {
    /// Wakes whoever sleeps, or will.
    fn raise(&self);
    /// Takes the signal back.
    fn lower(&self);
}

/// The bell of one submitter.
#[derive(Debug)]
pub(crate) struct Bell<S> {
    signal: S,
    is_asked_for: AtomicBool,
}

impl<S: Signal> Bell<S> {
    /// Returns a bell that its submitter has asked for.
    pub(crate) fn new(signal: S) -> Self {
        Self { signal, is_asked_for: AtomicBool::new(true) }
    }

    /// Returns the signal to sleep for.
    pub(crate) fn signal(&self) -> &S {
        &self.signal
    }

    /// Called when there is something new to see.
    pub(crate) fn ring(&self) {
        // At least one of this thread and a submitter that asks sees what the other has written.
        fence(SeqCst);
        if self.is_asked_for.swap(false, SeqCst) {
            self.signal.raise();
        }
    }

    /// Called by the submitter, which must look once more after this and before it sleeps.
    pub(crate) fn ask(&self) {
        // In the other order a ring between the two would be taken back, and no later one would be raised.
        self.signal.lower();
        self.is_asked_for.store(true, SeqCst);
        fence(SeqCst);
    }
}
