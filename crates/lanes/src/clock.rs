//! Time as a value, so that a test can simulate hours of a bad network in milliseconds.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

/// A source of the present time.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The system's clock.
    Real,
    /// A clock that only the test moves.
    Virtual(Arc<Mutex<Instant>>),
}

impl Clock {
    /// Returns a virtual clock that stands still until it is moved.
    #[must_use]
    pub fn still() -> Self {
        Self::Virtual(Arc::new(Mutex::new(Instant::now())))
    }

    /// Returns the present time.
    ///
    /// # Panics
    /// Panics if another user of a virtual clock panicked while holding it.
    #[must_use]
    pub fn now(&self) -> Instant {
        match self {
            Self::Real => Instant::now(),
            Self::Virtual(now) => *now.lock().expect("no user panics holding the clock"),
        }
    }

    /// Moves a virtual clock to `to`, if that is later; the system's clock moves by itself.
    ///
    /// # Panics
    /// Panics if another user of a virtual clock panicked while holding it.
    pub fn advance_to(&self, to: Instant) {
        if let Self::Virtual(now) = self {
            let mut now = now.lock().expect("no user panics holding the clock");
            *now = (*now).max(to);
        }
    }
}
