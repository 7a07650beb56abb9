//! Lines that a child writes to standard error before it is known whether they matter.
//!
//! Guarantees: nothing is lost but what the absence of a far end explains; what is held is bounded.

use std::{
    io::Write,
    sync::{Arc, Mutex, MutexGuard},
};

use sealane_peer::StderrMode;

/// Lines that ssh and the far shell write before a far end has greeted: told once it has, or has failed, and not
/// where its absence is the reason and costs nothing.
#[derive(Debug, Default)]
pub(super) struct Complaints(Mutex<HeldLines>);

#[derive(Debug, Default)]
struct HeldLines {
    lines: Vec<String>,
    are_told: bool,
}

/// Lines that are held back.
const COMPLAINTS_MAX: usize = 256;

impl Complaints {
    fn lines(&self) -> MutexGuard<'_, HeldLines> {
        self.0.lock().expect("nobody panics holding a line")
    }

    /// Returns a sink that holds a child's complaints back.
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

    /// From now on all are told, and those that were held back first.
    pub(super) fn tell(&self) {
        let mut held = self.lines();
        held.are_told = true;
        held.lines.drain(..).for_each(|line| complain(&line));
    }
}

fn complain(line: &str) {
    // As the child's own standard error would: where nobody can be told, nobody is.
    let _ = writeln!(std::io::stderr(), "{line}");
}
