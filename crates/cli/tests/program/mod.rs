//! Helpers that start the program under test, and read its output.

// Each file of tests is a program of its own and uses only a part of this module.
#![allow(dead_code, unused_imports)]

mod ends;
pub(crate) mod isolated;
#[path = "../../../../testing/running.rs"]
mod running;
#[path = "../../../../testing/skip.rs"]
mod skip;
pub(crate) mod terminal;
#[path = "../../../../testing/wait.rs"]
mod wait;

use std::fmt::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

pub(crate) use ends::Ends;
pub(crate) use running::Running;
pub(crate) use skip::{or_skip, say, skip, unless, without};
pub(crate) use wait::{eventually, eventually_some, wait_for};

/// Returns the path of the program under test: the one that was built with the test, unless the environment names
/// another. Tests of the laboratory take the product that was built beside it.
pub(crate) fn path() -> std::ffi::OsString {
    let built = match (option_env!("CARGO_BIN_EXE_sealane"), option_env!("CARGO_BIN_EXE_sealane-lab")) {
        (Some(product), _) => product.into(),
        (None, Some(laboratory)) => Path::new(laboratory).with_file_name("sealane"),
        (None, None) => unreachable!("a test of one of the two programs"),
    };
    let path = std::env::var_os("SEALANE_PROGRAM").unwrap_or_else(|| built.into());
    assert!(
        Path::new(&path).exists(),
        "the laboratory measures {path:?}: build it by `cargo build -p sealane`"
    );
    path
}

/// Returns the command `sealane` with `arguments`, without the user's own configuration, and with its output
/// captured.
pub(crate) fn sealane(arguments: &[&str]) -> Command {
    let mut command = Command::new(path());
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    without_the_users_own(&mut command).env_remove("CLICOLOR_FORCE");
    command
}

/// Takes the user's own configuration, and what the program remembers of earlier runs of theirs, away from a command.
pub(crate) fn without_the_users_own(command: &mut Command) -> &mut Command {
    command.env("HOME", "/nonexistent").env_remove("XDG_CONFIG_HOME").env_remove("XDG_STATE_HOME")
}

/// Returns output as text.
#[track_caller]
pub(crate) fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect("output is UTF-8")
}

/// Returns output as lines of JSON.
#[track_caller]
pub(crate) fn events(stdout: &[u8]) -> Vec<serde_json::Value> {
    text(stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Returns bytes that repeat only after 251 x 256 of them, so that a block in a wrong place is noticed.
pub(crate) fn pattern(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at % 251) as u8 ^ (at / 251 % 256) as u8).collect()
}

/// Returns a path of the test as text.
#[track_caller]
pub(crate) fn utf8(path: &Path) -> &str {
    path.to_str().expect("paths of tests are UTF-8")
}

/// Writes a file of the test.
#[track_caller]
pub(crate) fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).expect("the test's own folder can be written");
}

/// Sets the mode of a file of the test.
#[track_caller]
pub(crate) fn set_mode(path: impl AsRef<Path>, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it belongs to the test");
}

/// Writes a file that nobody else may read.
#[track_caller]
pub(crate) fn secret(path: impl AsRef<Path>, text: &str) {
    write(path.as_ref(), text.as_bytes());
    set_mode(path, 0o600);
}

/// Writes a program.
#[track_caller]
pub(crate) fn write_script(path: impl AsRef<Path>, text: &str) {
    write(path.as_ref(), text.as_bytes());
    set_mode(path, 0o755);
}

/// Returns `bytes` in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string succeeds");
        text
    })
}
