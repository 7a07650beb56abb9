//! Waits for what happens in other processes and threads. Tests include this file with `#[path]`.
//!
//! Guarantee: a wait for what never comes ends after a minute, which is longer than anything takes on a busy machine.

// A test program may need only some of the functions.
#![allow(dead_code)]

use std::{
    thread,
    time::{Duration, Instant},
};

/// The longest time that anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(10);

/// Returns whether a condition comes to hold.
pub(crate) fn eventually(mut is_so: impl FnMut() -> bool) -> bool {
    eventually_some(|| is_so().then_some(())).is_some()
}

/// Returns a value as soon as there is one.
pub(crate) fn eventually_some<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = look();
        if found.is_some() || Instant::now() > deadline {
            return found;
        }
        thread::sleep(PAUSE);
    }
}

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn wait_for(what: &str, is_so: impl FnMut() -> bool) {
    assert!(eventually(is_so), "{what} does not come to be");
}
