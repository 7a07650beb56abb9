//! Reads the place of the service, and the patience for it, from a program's environment. A program with more rights than its caller (set-user-ID) does not
//! read it.

#![allow(unsafe_code)]

use crate::channel::DEADLINE;
use crate::key::KeyKind;
use std::path::PathBuf;
use std::time::Duration;

/// The variable that names the socket of another service than the system's.
const SOCKET_VARIABLE: &str = "SEALANE_ENGINE";

/// The variable with the milliseconds after which a service that does not answer is given up.
const DEADLINE_VARIABLE: &str = "SEALANE_ENGINE_DEADLINE_MS";

/// The variable with kinds of keys that a program does not see by PKCS#11, between commas.
const HIDDEN_VARIABLE: &str = "SEALANE_PKCS11_HIDE";

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

/// Returns the kinds of keys that a program does not see by PKCS#11: those of `SEALANE_PKCS11_HIDE`, such as `ed25519,x25519`. Words
/// that are no kinds hide nothing.
pub fn hidden_kinds() -> Vec<KeyKind> {
    let value = variable(HIDDEN_VARIABLE).and_then(|value| value.into_string().ok()).unwrap_or_default();
    value.split(',').filter_map(|word| word.trim().parse().ok()).collect()
}
