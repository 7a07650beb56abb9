//! Lines that a child writes to standard error before their relevance is known.
//!
//! Guarantees: nothing is lost except lines that the absence of a far end explains; the amount held is bounded; lines that
//! belong to a login are printed when they come.

use std::{
    io::Write,
    sync::{Arc, Mutex, MutexGuard},
    thread,
    time::{Duration, Instant},
};

use sealane_peer::StderrMode;

/// Lines that ssh and the far shell write before a far end has greeted: they are printed once it has greeted or
/// failed, and discarded if its absence is the reason and does no harm.
#[derive(Debug, Default)]
pub(crate) struct Complaints(Mutex<HeldLines>);

#[derive(Debug, Default)]
struct HeldLines {
    lines: Vec<String>,
    are_told: bool,
}

/// Parts of lines by which shells, servers and ssh tell that a far end is absent.
const OF_ABSENCE: [&str; 3] = ["sealane", "not found", "request failed on channel"];
/// ssh's line about a server that runs no commands.
const NO_COMMANDS: &str = "exec request failed on channel";
/// The time in which a line arrives that was written before its process ended.
const LAST_LINES: Duration = Duration::from_millis(200);
/// The maximum number of lines held back.
const COMPLAINTS_MAX: usize = 256;

impl Complaints {
    fn lines(&self) -> MutexGuard<'_, HeldLines> {
        self.0.lock().expect("nobody panics holding a line")
    }

    /// Returns a sink that holds a child's lines back: all of them if the child does not log in, and otherwise those that
    /// an absence explains.
    pub(crate) fn held(self: Arc<Self>, is_logged_in: bool) -> StderrMode {
        StderrMode::Relay(Arc::new(move |line| {
            let mut held = self.lines();
            let is_explained = is_logged_in || OF_ABSENCE.iter().any(|part| line.contains(part));
            if held.are_told || !is_explained {
                complain(line);
            } else if held.lines.len() < COMPLAINTS_MAX {
                held.lines.push(line.to_owned());
            }
        }))
    }

    /// Returns whether ssh has logged in to a server that runs no commands.
    pub(crate) fn tell_of_no_commands(&self) -> bool {
        let until = Instant::now() + LAST_LINES;
        loop {
            if self.lines().lines.iter().any(|line| line.contains(NO_COMMANDS)) {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            thread::sleep(LAST_LINES / 20);
        }
    }

    /// From now on all lines are printed, starting with those that were held back.
    pub(crate) fn tell(&self) {
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
