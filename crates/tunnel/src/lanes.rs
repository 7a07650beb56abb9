//! The threads of a gateway; none of them ends unnoticed.
//!
//! Guarantees: a thread that ends by an error or by a panic is reported to the housekeeper ([`Lanes::failure`]),
//! which then ends the gateway as if it had been asked to; only the first failure is reported, because others may
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

    /// Records that the part of the gateway called `name` cannot continue, and the reason.
    pub fn fail(&self, name: &str, why: &str) {
        self.first().get_or_insert_with(|| format!("the gateway ends: {name}: {why}"));
    }

    /// Returns the first failure, as a message for the operator.
    pub fn failure(&self) -> Option<String> {
        self.first().clone()
    }

    /// Runs `life` on this thread. If it fails, the gateway fails.
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
    /// Fails if the system cannot start a thread.
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

    /// Runs `life` on a thread of its own, as [`Self::guard`] does; if the thread cannot be started, the gateway
    /// fails.
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

/// Returns a function that adds the operation to an error.
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
