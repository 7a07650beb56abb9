//! How a test says that it cannot run here. Every crate's tests take this file in with `#[path]`.

// A program of tests may need only one of them.
#![allow(dead_code)]

use std::fmt::Display;
use std::io::Write;

/// This test, or a part of it, cannot run here, and need not: said past the harness, which keeps what a test prints
/// that passes.
pub(crate) fn say(reason: impl Display) {
    // Where nobody can be told, the test still ends as it should.
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
}

/// As [`say`], but a failure where nothing may be skipped (`SEALANE_REQUIRE_PEERS=1`).
#[track_caller]
pub(crate) fn skip(reason: impl Display) {
    let must_run = std::env::var_os("SEALANE_REQUIRE_PEERS").is_some_and(|value| value == "1");
    assert!(!must_run, "cannot run here: {reason}");
    say(reason);
}
