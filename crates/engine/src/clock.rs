//! Time as a value, so that hours of a bad network are a test of milliseconds.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

/// What time it is.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The system's.
    Real,
    /// Whatever the test says.
    Virtual(Arc<Mutex<Instant>>),
}

impl Clock {
    /// One that stands still until it is moved.
    #[must_use]
    pub fn still() -> Self {
        Self::Virtual(Arc::new(Mutex::new(Instant::now())))
    }

    /// Now.
    ///
    /// # Panics
    /// When another user of a virtual clock panicked holding it.
    #[must_use]
    pub fn now(&self) -> Instant {
        match self {
            Self::Real => Instant::now(),
            Self::Virtual(now) => *now.lock().expect("no user panics holding the clock"),
        }
    }

    /// Moves a virtual clock to `to`, if that is later; the system's moves by itself.
    ///
    /// # Panics
    /// When another user of a virtual clock panicked holding it.
    pub fn advance_to(&self, to: Instant) {
        if let Self::Virtual(now) = self {
            let mut now = now.lock().expect("no user panics holding the clock");
            *now = (*now).max(to);
        }
    }
}
