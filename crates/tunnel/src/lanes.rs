//! The threads of a gateway, of which none ends unnoticed.
//!
//! Guarantees: a thread that ends by an error or by a panic is known to the housekeeper ([`Lanes::failure`]), which
//! then ends the gateway as if it had been told to; the first failure is the one that is told, because others may
//! follow from it.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
};

/// The threads of one gateway.
#[derive(Debug, Default)]
pub struct Lanes {
    failure: Mutex<Option<String>>,
}

impl Lanes {
    fn first(&self) -> MutexGuard<'_, Option<String>> {
        // A panic cannot leave the value half written.
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says that the part of the gateway called `name` cannot go on, and why.
    pub fn fail(&self, name: &str, why: &str) {
        self.first().get_or_insert_with(|| format!("the gateway ends: {name}: {why}"));
    }

    /// The first failure, in words for an operator.
    pub fn failure(&self) -> Option<String> {
        self.first().clone()
    }

    /// Runs `life` on this thread. Its failure becomes the gateway's.
    pub fn guard(&self, name: &str, life: impl FnOnce() -> io::Result<()>) {
        // After a panic the process only undoes its changes to the host, with values that `life` does not touch.
        match catch_unwind(AssertUnwindSafe(life)) {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.fail(name, &error.to_string()),
            Err(_) => self.fail(name, "it panicked, which is a defect of this program"),
        }
    }

    /// Runs `life` on a thread of its own, as [`Self::guard`] does.
    ///
    /// # Errors
    /// The system has no room for a thread.
    pub fn start<'scope>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, '_>,
        name: String,
        life: impl FnOnce() -> io::Result<()> + Send + 'scope,
    ) -> io::Result<()> {
        let label = name.clone();
        let guarded = move || self.guard(&label, life);
        thread::Builder::new().name(name).spawn_scoped(scope, guarded).map(drop)
    }

    /// Runs `life` on a thread of its own, as [`Self::guard`] does; the gateway fails if there is no room for it.
    pub fn begin<'scope>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, '_>,
        name: String,
        life: impl FnOnce() -> io::Result<()> + Send + 'scope,
    ) {
        let label = name.clone();
        if let Err(error) = self.start(scope, name, life) {
            self.fail(&label, &format!("cannot start it: {error}"));
        }
    }
}

/// Says what was being done when `error` came.
pub fn while_doing(doing: &'static str) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{doing}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_panics_or_fails_is_known_and_the_first_is_told() {
        for (is_panic, says) in [(true, "panicked"), (false, "reading: no room")] {
            let lanes = Lanes::default();
            thread::scope(|scope| {
                lanes.start(scope, "good".to_owned(), || Ok(())).expect("a thread");
                assert_eq!(lanes.failure(), None);
                let life = move || {
                    assert!(!is_panic, "this panic is the test's");
                    Err(while_doing("reading")(io::Error::other("no room")))
                };
                lanes.start(scope, "in-0".to_owned(), life).expect("a thread");
            });
            lanes.guard("in-1", || Err(io::Error::other("a later one")));
            let failure = lanes.failure().expect("a failure");
            assert!(failure.contains("in-0") && failure.contains(says), "{failure}");
        }
    }
}
