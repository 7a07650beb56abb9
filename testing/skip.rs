//! The reports of tests that cannot run here. Every crate's tests include this file with `#[path]`.

// A test program may need only one of the functions.
#![allow(dead_code)]

use std::fmt::Display;
use std::io::Write;

/// Reports that this test, or a part of it, cannot run here, and need not: the report bypasses the harness, which
/// hides the output of passing tests.
pub(crate) fn say(reason: impl Display) {
    // If it cannot be written, the test still ends as it should.
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

/// Does the same as [`say`], but fails if nothing may be skipped (`SEALANE_REQUIRE_PEERS=1`).
#[track_caller]
pub(crate) fn skip(reason: impl Display) {
    let must_run = std::env::var_os("SEALANE_REQUIRE_PEERS").is_some_and(|value| value == "1");
    assert!(!must_run, "cannot run here: {reason}");
    say(reason);
}

/// Reports, as [`skip`] does, why a test cannot run here, if there is a reason: such a test has nothing to do.
#[track_caller]
pub(crate) fn unless(missing: Option<impl Display>) -> Option<()> {
    missing.map_or(Some(()), |reason| {
        skip(reason);
        None
    })
}

/// Returns the value, or reports, as [`skip`] does, why there is none.
#[track_caller]
pub(crate) fn or_skip<T>(made: Result<T, impl Display>) -> Option<T> {
    unless(made.as_ref().err())?;
    made.ok()
}

/// Does the same as [`or_skip`], and says that there is no `what`.
#[track_caller]
pub(crate) fn without<T>(what: &str, made: Result<T, impl Display>) -> Option<T> {
    or_skip(made.map_err(|problem| format!("no {what}: {problem}")))
}
