//! Lines that a child writes to standard error before their relevance is known.
//!
//! Guarantees: nothing is lost except lines that the absence of a far end explains; the amount held is bounded.

use std::{
    io::Write,
    sync::{Arc, Mutex, MutexGuard},
};

use sealane_peer::StderrMode;

/// Lines that ssh and the far shell write before a far end has greeted: they are printed once it has greeted or
/// failed, and discarded if its absence is the reason and does no harm.
#[derive(Debug, Default)]
pub(super) struct Complaints(Mutex<HeldLines>);

#[derive(Debug, Default)]
struct HeldLines {
    lines: Vec<String>,
    are_told: bool,
}

/// The maximum number of lines held back.
const COMPLAINTS_MAX: usize = 256;

impl Complaints {
    fn lines(&self) -> MutexGuard<'_, HeldLines> {
        self.0.lock().expect("nobody panics holding a line")
    }

    /// Returns a sink that holds a child's lines back.
    pub(super) fn held(self: Arc<Self>) -> StderrMode {
        StderrMode::Relay(Arc::new(move |line| {
            let mut held = self.lines();
            if held.are_told {
                complain(line);
            } else if held.lines.len() < COMPLAINTS_MAX {
                held.lines.push(line.to_owned());
            }
        }))
    }

    /// From now on all lines are printed, starting with those that were held back.
    pub(super) fn tell(&self) {
        let mut held = self.lines();
        held.are_told = true;
        held.lines.drain(..).for_each(|line| complain(&line));
    }
}

/// Prints a line that a child has written to its standard error.
pub(crate) fn complain(line: &str) {
    // Like the child's own standard error: if it cannot be written, the line is lost.
    let _ = writeln!(std::io::stderr(), "{line}");
}
