//! CPU time of running processes and their descendants, from `/proc`.
//!
//! Guarantees: a process that ends while the tree is read counts as absent or as last read, never as an error; a
//! process is distinguished from a later one of the same number by its start time.

use rustix::process::{Pid, Signal, kill_process};
use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// `/proc/PID/stat` counts in ticks of `USER_HZ`, which is 100 on every Linux architecture that Rust supports.
const TICK: Duration = Duration::from_millis(10);

/// One process as `/proc/PID/stat` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pid: u32,
    parent: u32,
    /// CPU time of the process and of its reaped children, in ticks.
    ticks: u64,
    /// The start time in ticks after boot.
    started: u64,
    /// Whether it has ended, and only its parent has not noticed yet.
    has_ended: bool,
}

impl Process {
    fn read(pid: u32) -> Option<Self> {
        Self::parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// By proc_pid_stat(5) the name stands in parentheses and may hold any character, so fields count from the last
    /// one.
    fn parse(pid: u32, text: &str) -> Option<Self> {
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
        // Field 3 of the manual is index 0 here: ppid is 4; utime, stime, cutime, cstime are 14 to 17; starttime is
        // 22.
        Some(Self {
            pid,
            parent: u32::try_from(number(1)?).ok()?,
            ticks: number(11)?
                .saturating_add(number(12)?)
                .saturating_add(number(13)?)
                .saturating_add(number(14)?),
            started: number(19)?,
            has_ended: matches!(fields.first(), Some(&("Z" | "X"))),
        })
    }

    /// Returns the number of the process.
    pub(crate) fn id(self) -> u32 {
        self.pid
    }

    /// Returns whether it has not ended. A process that nobody has waited for yet has ended.
    pub(crate) fn still_runs(self) -> bool {
        Self::read(self.pid).is_some_and(|now| now.started == self.started && !now.has_ended)
    }

    /// Returns its arguments, each with a zero byte behind it.
    fn arguments(self) -> Vec<u8> {
        fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default()
    }

    /// Returns the greatest resident memory in bytes that it has had in its present program (`VmHWM` in proc_pid_status(5)).
    fn peak_bytes(self) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
    }

    /// Returns whether one of its arguments is this text.
    fn has_argument(self, text: &str) -> bool {
        let line = self.arguments();
        line.split(|&byte| byte == 0).any(|word| word == text.as_bytes())
    }

    /// Kills the process at once, if it is still the one that was read.
    fn kill(self) {
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        if let (true, Some(pid)) = (self.still_runs(), pid) {
            // The process may end by itself in between, which has the same result.
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// A process and all its descendants, at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree(Vec<Process>);

impl Tree {
    /// Reads the tree below `root`, which comes first.
    pub(crate) fn of(root: u32) -> Self {
        Self::below(root, processes())
    }

    /// Reads the processes below `root`, which is not among them, and returns those that run, without the processes that
    /// have `argument` and what is below them; and these.
    pub(crate) fn below_without(root: u32, argument: &str) -> (Self, Vec<Process>) {
        let all = processes();
        let is_other = |process: &Process| process.pid != root && process.has_argument(argument);
        let others: Vec<Process> = Self::below(root, all.clone()).0.into_iter().filter(is_other).collect();
        let is_kept = |process: &Process| !others.iter().any(|other| other.pid == process.pid);
        let Self(mut kept) = Self::below(root, all.into_iter().filter(is_kept).collect());
        kept.retain(|process| process.pid != root && !process.has_ended);
        (Self(kept), others)
    }

    /// Returns whether there is no process.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn below(root: u32, all: Vec<Process>) -> Self {
        let mut children: HashMap<u32, Vec<Process>> = HashMap::new();
        let mut tree = Vec::new();
        for process in all {
            if process.pid == root {
                tree.push(process);
            } else {
                children.entry(process.parent).or_default().push(process);
            }
        }
        let mut next = 0;
        while let Some(process) = tree.get(next) {
            // Each entry leaves the map once, so a parent chain that changed while it was read cannot loop.
            tree.extend(children.remove(&process.pid).unwrap_or_default());
            next += 1;
        }
        Self(tree)
    }

    /// Returns whether one of the processes has the socket of this inode, or may have it: its descriptors cannot be read.
    pub(crate) fn may_have_socket(&self, inode: u64) -> bool {
        let wanted = format!("socket:[{inode}]");
        self.0.iter().any(|process| match fs::read_dir(format!("/proc/{}/fd", process.pid)) {
            Ok(descriptors) => descriptors
                .filter_map(|descriptor| fs::read_link(descriptor.ok()?.path()).ok())
                .any(|leads_to| leads_to.as_os_str() == wanted.as_str()),
            Err(_) => true,
        })
    }

    /// Returns the user and system time of all of them, ended and reaped children included.
    pub(crate) fn cpu(&self) -> Duration {
        let ticks: u64 = self.0.iter().map(|process| process.ticks).sum();
        TICK.saturating_mul(u32::try_from(ticks).unwrap_or(u32::MAX))
    }

    /// Returns the greatest resident memory in bytes that one of the processes below the root has had. A process that has
    /// not begun its own program yet still has the root's memory, and is left out.
    pub(crate) fn peak_bytes_below_root(&self) -> Option<u64> {
        let (root, below) = self.0.split_first()?;
        let own = root.arguments();
        below
            .iter()
            .filter(|process| process.arguments() != own)
            .filter_map(|process| process.peak_bytes())
            .max()
    }

    /// Kills the processes that still run.
    pub(crate) fn kill(&self) {
        self.0.iter().for_each(|process| process.kill());
    }
}

fn processes() -> Vec<Process> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Process::read)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, parent: u32, ticks: u64) -> Process {
        Process { pid, parent, ticks, started: 1, has_ended: false }
    }

    fn process_of(pid: u32, parent: u32, ticks: u64, started: u64) -> Process {
        Process { started, ..process(pid, parent, ticks) }
    }

    #[test]
    fn reads_the_fields_behind_any_name() {
        let tail = "S 7 1 1 0 -1 4194304 0 0 0 0 11 22 33 44 20 0 1 0 9876 0 0";
        for name in ["(sh)", "(a b)", "(odd ) S 1 (name))"] {
            let read = Process::parse(5, &format!("5 {name} {tail}")).unwrap();
            assert_eq!(read, process_of(5, 7, 110, 9876), "{name}");
        }
        assert_eq!(Process::parse(5, "5 (sh) S 7"), None);
        assert_eq!(Process::parse(5, ""), None);
    }

    #[test]
    fn a_tree_is_the_root_and_what_descends_from_it() {
        let all =
            vec![process(4, 3, 8), process(3, 2, 4), process(2, 1, 2), process(9, 1, 100), process(1, 0, 1)];
        assert_eq!(Tree::below(2, all.clone()).cpu(), 14 * TICK);
        assert_eq!(Tree::below(1, all.clone()).cpu(), 115 * TICK);
        assert_eq!(Tree::below(77, all).cpu(), Duration::ZERO);
    }

    #[test]
    fn parents_in_a_circle_end() {
        let all = vec![process(1, 2, 1), process(2, 1, 1), process(3, 3, 1)];
        assert_eq!(Tree::below(1, all.clone()).cpu(), 2 * TICK);
        assert_eq!(Tree::below(3, all).cpu(), TICK);
    }

    /// The peak stays when the memory is given back, and is not that of this process.
    #[test]
    fn the_peak_is_that_of_a_process_below() {
        let hungry = "a=$(head -c 30000000 /dev/zero | tr '\\0' x); a=; echo; read -r _";
        let mut command = std::process::Command::new("/bin/sh");
        command.args(["-c", hungry]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let ours = vec![1_u8; 90_000_000];
        let mut child = command.spawn().unwrap();
        let mut told = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut told).unwrap();
        let tree = Tree::of(std::process::id());
        let shell = tree.0.iter().find(|process| process.pid == child.id()).unwrap();
        let peak = Tree(vec![tree.0[0], *shell]).peak_bytes_below_root().unwrap();
        assert!((30_000_000..90_000_000).contains(&peak), "{peak} beside {}", ours.len());
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(Tree(vec![tree.0[0]]).peak_bytes_below_root(), None);
    }

    #[test]
    fn this_process_is_in_its_own_tree() {
        let tree = Tree::of(std::process::id());
        assert_eq!(tree.0[0].pid, std::process::id());
    }
}
