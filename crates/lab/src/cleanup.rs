//! The removal of what the lab leaves on its host, however the lab ends: folders, mounts, namespaces, processes.
//!
//! Guarantees: a shell of its own process group does each removal once the lab is gone, even if the lab was killed; on
//! a signal, [`stop_everything`] ends all processes of the lab first and returns when every removal is done; a shell
//! that does such a removal is never ended by the lab.

use crate::process_tree::Tree;
use std::ffi::OsStr;
use std::io::Write as _;
use std::mem;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio, id};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The first argument of such shells, by which they are recognised.
pub(crate) const NAME: &str = "sealane-lab-cleanup";

/// Waits for a line, which says that nothing is left to do, or for the end of the input. Signals that end a whole unit
/// or session do not end it.
const WAIT: &str = "trap '' HUP INT TERM\nread -r _ && exit\n";

/// The time in which processes end after they were killed, and their removals after that.
const PATIENCE: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(5);

/// Removals to come.
static SHELLS: Mutex<Vec<Child>> = Mutex::new(Vec::new());
/// Whether the lab is ending.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// A removal to come.
#[derive(Debug)]
pub(crate) struct Cleanup {
    /// The process of the shell; `None` if there is no shell here.
    shell: Option<u32>,
}

impl Cleanup {
    /// Prepares a removal: the text of a shell, and its arguments from `$1` on.
    pub(crate) fn new(script: &str, arguments: &[&OsStr]) -> Self {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &format!("{WAIT}{script}"), NAME]).args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let mut shells = SHELLS.lock().unwrap_or_else(PoisonError::into_inner);
        let shell = command.spawn().ok().map(|shell| {
            let id = shell.id();
            shells.push(shell);
            id
        });
        Self { shell }
    }

    /// Ends the preparation: nothing is left to remove.
    pub(crate) fn dismiss(self) {
        if let Some(mut shell) = self.take() {
            // A shell that has ended cannot read it.
            let _ = shell.stdin.take().map(|mut input| input.write_all(b"done\n"));
            let _ = shell.wait();
        }
    }

    /// Does the removal now, and returns when it is done.
    pub(crate) fn run(self) {
        if let Some(mut shell) = self.take() {
            drop(shell.stdin.take());
            let _ = shell.wait();
        }
    }

    fn take(&self) -> Option<Child> {
        let mut shells = SHELLS.lock().unwrap_or_else(PoisonError::into_inner);
        let at = shells.iter().position(|shell| Some(shell.id()) == self.shell)?;
        Some(shells.swap_remove(at))
    }
}

/// Stops this thread for good if the lab is ending: the thread that ends it removes everything and ends the process.
pub(crate) fn stop_if_ending() {
    while IS_ENDING.load(SeqCst) {
        thread::sleep(PATIENCE);
    }
}

/// Ends all processes that the lab has started, and does all removals. The caller must end the process afterwards,
/// because other threads can then neither prepare nor do a removal.
pub fn stop_everything() {
    IS_ENDING.store(true, SeqCst);
    let mut shells = SHELLS.lock().unwrap_or_else(PoisonError::into_inner);
    let deadline = Instant::now() + PATIENCE;
    // A lab that this one has started has removals of its own, which begin when it is killed.
    let mut others = Vec::new();
    loop {
        let (processes, cleanups) = Tree::below_without(id(), NAME);
        for other in cleanups {
            if !others.contains(&other) && !shells.iter().any(|shell| shell.id() == other.id()) {
                others.push(other);
            }
        }
        if processes.is_empty() || Instant::now() > deadline {
            break;
        }
        processes.kill();
        thread::sleep(STEP);
    }
    for mut shell in mem::take(&mut *shells) {
        drop(shell.stdin.take());
        let _ = shell.wait();
    }
    while others.iter().any(|other| other.still_runs()) && Instant::now() < deadline + PATIENCE {
        thread::sleep(STEP);
    }
    // The lock is kept for ever.
    mem::forget(shells);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_removal_is_done_at_the_end_of_the_input_and_not_after_a_word() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        for (is_dismissed, is_there) in [(true, true), (false, false)] {
            fs::write(&file, "x").unwrap();
            let cleanup = Cleanup::new("rm -f -- \"$1\"", &[file.as_os_str()]);
            assert!(file.exists());
            if is_dismissed {
                cleanup.dismiss();
            } else {
                cleanup.run();
            }
            assert_eq!(file.exists(), is_there);
        }
    }

    #[test]
    fn shells_of_removals_are_not_among_the_processes_to_end() {
        let cleanup = Cleanup::new(":", &[]);
        let (processes, cleanups) = Tree::below_without(id(), NAME);
        let shell = cleanup.shell.unwrap();
        assert!(cleanups.iter().any(|process| process.id() == shell));
        assert!(!format!("{processes:?}").contains(&format!("pid: {shell},")));
        cleanup.dismiss();
    }
}
