//! How tests start the program under test.

use std::process::{Command, Stdio};

/// The program with `arguments`, away from the user's own configuration, with its output caught.
pub(crate) fn sealane(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sealane"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.env("HOME", "/nonexistent").env_remove("XDG_CONFIG_HOME").env_remove("CLICOLOR_FORCE");
    command
}

/// Output as text.
#[track_caller]
pub(crate) fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect("output is UTF-8")
}
