//! The file of `--log-file`: the events of a copy, a line of JSON each.
//!
//! Guarantees: lines are appended whole; a file that cannot be opened is an error before anything is copied, one that cannot
//! be written to later does not stop a copy.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::events::Event;

/// An open log.
#[derive(Debug)]
pub(crate) struct EventLog(Mutex<File>);

impl EventLog {
    /// Opens the file, and makes it if it is missing.
    ///
    /// # Errors
    /// Fails with a message that names the file if it cannot be appended to.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        let opened = File::options().create(true).append(true).open(path);
        opened
            .map(|file| Self(Mutex::new(file)))
            .map_err(|error| format!("--log-file {}: {error}", path.display()))
    }

    pub(crate) fn add(&self, event: &Event) {
        let line = event.line();
        // The copy matters more.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes());
    }
}
