//! The hand-over of one half of a computation to another thread.
//!
//! **Guarantees:** an offer is taken once, by another thread or by the one that has made it. Of two threads that arrive at a
//! meeting, the second gets what both have brought, and none waits for the other: the first goes on with other work.

use crate::sync::{AtomicBool, Mutex, MutexGuard, PoisonError, SeqCst};

/// A place for one offer.
#[derive(Debug)]
pub(crate) struct OfferSlot<T> {
    offer: Mutex<Option<T>>,
    /// Whether there probably is an offer: a look that takes no lock.
    has_offer: AtomicBool,
}

impl<T> OfferSlot<T> {
    /// Returns an empty place.
    pub(crate) fn new() -> Self {
        Self { offer: Mutex::new(None), has_offer: AtomicBool::new(false) }
    }

    fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.offer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an offer into the place; returns whether the place was empty, and drops the offer if it was not.
    pub(crate) fn offer(&self, offer: T) -> bool {
        let mut place = self.lock();
        let was_empty = place.is_none();
        if was_empty {
            *place = Some(offer);
            self.has_offer.store(true, SeqCst);
        }
        was_empty
    }

    /// Returns whether [`OfferSlot::take`] would find an offer, if no other thread takes it before.
    pub(crate) fn has_offer(&self) -> bool {
        self.has_offer.load(SeqCst)
    }

    /// Takes the offer, if there is one.
    pub(crate) fn take(&self) -> Option<T> {
        if !self.has_offer() {
            return None;
        }
        let mut place = self.lock();
        self.has_offer.store(false, SeqCst);
        place.take()
    }
}

/// A meeting of two threads.
#[derive(Debug)]
pub(crate) struct Meeting<T>(Mutex<Option<T>>);

impl<T> Meeting<T> {
    /// Returns a meeting at which nobody has arrived.
    pub(crate) fn new() -> Self {
        Self(Mutex::new(None))
    }

    /// Leaves `own` if this thread is the first; returns the first's and its own if it is the second.
    pub(crate) fn arrive(&self, own: T) -> Option<[T; 2]> {
        let mut left = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match left.take() {
            Some(first) => Some([first, own]),
            None => {
                *left = Some(own);
                None
            }
        }
    }
}
