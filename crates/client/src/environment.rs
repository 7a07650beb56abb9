//! Reads the place of the service, and the patience for it, from a program's environment. A program with more rights than its caller (set-user-ID) does not
//! read it.

#![allow(unsafe_code)]

use crate::channel::DEADLINE;
use std::path::PathBuf;
use std::time::Duration;

/// The variable that names the socket of another service than the system's.
const SOCKET_VARIABLE: &str = "SEALANE_ENGINE";

/// The variable with the milliseconds after which a service that does not answer is given up.
const DEADLINE_VARIABLE: &str = "SEALANE_ENGINE_DEADLINE_MS";

fn variable(name: &str) -> Option<std::ffi::OsString> {
    // SAFETY: the function reads a value that the kernel gave the process when it started.
    let has_more_rights = unsafe { libc::getauxval(libc::AT_SECURE) } != 0;
    std::env::var_os(name).filter(|value| !has_more_rights && !value.is_empty())
}

/// Returns the socket of the service: that of `SEALANE_ENGINE`, or the system's.
pub fn socket() -> PathBuf {
    variable(SOCKET_VARIABLE).map_or_else(|| PathBuf::from(crate::SOCKET), PathBuf::from)
}

/// Returns the time after which a service that does not answer is given up: that of `SEALANE_ENGINE_DEADLINE_MS`, or
/// [`DEADLINE`].
pub fn deadline() -> Duration {
    let value = variable(DEADLINE_VARIABLE).and_then(|value| value.to_str()?.parse().ok());
    value.filter(|ms| *ms > 0).map_or(DEADLINE, Duration::from_millis)
}
