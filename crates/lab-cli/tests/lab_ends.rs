//! The end of `sealane lab` by a signal: of its processes, namespaces, mounts and folders nothing stays on the host.
//!
//! A real run of a study between hosts gets a signal while programs measure. A killed lab is cleaned up after by its
//! shells; where they were killed too, the next lab removes what is left.

#[path = "../../cli/tests/program/mod.rs"]
mod program;

use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};

use program::{Running, eventually, eventually_some};

/// The argument by which the shells that clean up are recognised.
const CLEANUP: &str = "sealane-lab-cleanup";

/// Returns the reason why such a lab cannot run here.
fn missing(programs: &[&str]) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("namespaces and TUN devices take root".to_owned());
    }
    let has = |program: &&&str| {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        !found.is_ok_and(|found| found.status.success())
    };
    programs.iter().find(has).map(|program| format!("{program} is missing"))
}

/// Returns the numbers and the command lines of all processes.
fn processes() -> Vec<(u32, String)> {
    let entries = fs::read_dir("/proc").expect("a process table").flatten();
    let process = |entry: fs::DirEntry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        let line = fs::read(entry.path().join("cmdline")).ok()?;
        Some((number, String::from_utf8_lossy(&line).replace('\0', " ")))
    };
    entries.filter_map(process).collect()
}

/// A lab that runs.
struct Lab {
    child: Running,
    /// Processes that it has started, with their start times, as far as they were seen.
    seen: BTreeSet<(u32, u64)>,
}

/// Returns the parent and the start time of a process that has not ended, by proc_pid_stat(5).
fn parent_and_start(process: u32) -> Option<(u32, u64)> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let has_ended = ["Z", "X"].contains(fields.first()?);
    (!has_ended).then_some((fields.get(1)?.parse().ok()?, fields.get(19)?.parse().ok()?))
}

impl Lab {
    fn start(arguments: &[&str]) -> Self {
        let mut command = program::sealane(&[&["lab"], arguments].concat());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Self { child: Running(command.spawn().expect("it starts")), seen: BTreeSet::new() }
    }

    /// Returns every trace of this lab on the host: namespaces, devices that lead to them, mounts, folders, and processes
    /// that name one of these.
    fn traces(&self) -> Vec<String> {
        let (namespace, folder) =
            (format!("sllab{}-", self.child.id()), format!("sealane-lab-{}-", self.child.id()));
        let is_ours = |line: &&str| line.contains(&namespace) || line.contains(&folder);
        let mut traces = Vec::new();
        for arguments in [&["netns", "list"][..], &["-o", "link"]] {
            let output = Command::new("ip").args(arguments).output().expect("ip runs");
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            traces.extend(text.lines().filter(is_ours).map(str::to_owned));
        }
        let mounts = fs::read_to_string("/proc/self/mounts").expect("a table of mounts");
        traces.extend(mounts.lines().filter(is_ours).map(str::to_owned));
        for parent in ["/dev/shm".into(), std::env::temp_dir()] {
            let names = fs::read_dir(&parent).into_iter().flatten().flatten();
            let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
            traces.extend(names.filter(|name| is_ours(&&**name)));
        }
        let processes = processes().into_iter().map(|(_, line)| line);
        traces.extend(processes.filter(|line| is_ours(&&**line)));
        traces
    }

    /// Notes the processes below the lab, and returns their command lines.
    fn look(&mut self) -> Vec<String> {
        let mut known = BTreeSet::from([self.child.id()]);
        let all = processes();
        let mut lines = Vec::new();
        loop {
            let before = known.len();
            for (process, line) in &all {
                if let Some((parent, start)) = parent_and_start(*process)
                    && known.contains(&parent)
                    && known.insert(*process)
                {
                    self.seen.insert((*process, start));
                    lines.push(line.clone());
                }
            }
            if known.len() == before {
                return lines;
            }
        }
    }

    /// Waits until one of the lab's traces, or the command line of one of its processes, contains `sign`.
    fn wait_for(&mut self, sign: &str) {
        let is_there = eventually(|| {
            assert!(self.child.try_wait().expect("it is a child").is_none(), "the lab has ended");
            self.look().into_iter().chain(self.traces()).any(|trace| trace.contains(sign))
        });
        assert!(is_there, "no {sign} in {:#?}", self.traces());
        // Processes that it has started since then count too.
        self.look();
    }

    fn end(&mut self, signal: Signal) -> ExitStatus {
        send(self.child.id(), signal);
        eventually_some(|| self.child.try_wait().expect("it is a child")).expect("the lab ends")
    }

    /// Returns all that is left of the lab.
    fn left(&self) -> Vec<String> {
        let runs =
            |(process, start): &&(u32, u64)| parent_and_start(*process).is_some_and(|(_, now)| now == *start);
        let processes = self.seen.iter().filter(runs).map(|(process, _)| {
            let line = fs::read_to_string(format!("/proc/{process}/cmdline")).unwrap_or_default();
            format!("process {process}: {}", line.replace('\0', " "))
        });
        self.traces().into_iter().chain(processes).collect()
    }

    #[track_caller]
    fn assert_gone_soon(&self) {
        assert!(eventually(|| self.left().is_empty()), "left behind: {:#?}", self.left());
    }
}

fn send(process: u32, signal: Signal) {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw).expect("a process");
    kill_process(process, signal).expect("the process is ours");
}

/// A study of tunnels, and the sign that a client of iperf3 runs through the last of them.
const TUNNEL: [&str; 9] =
    ["tunnel", "--only", "tcp1", "--topology", "gateways", "--between", "simulated-hybrid", "--seconds", "9"];
const TUNNEL_NEEDS: [&str; 5] = ["ip", "ping", "iperf3", "timeout", "tc"];
const CLIENT: &str = "iperf3 -c";

#[test]
fn a_terminated_study_of_tunnels_leaves_nothing() {
    let Some(()) = program::unless(missing(&TUNNEL_NEEDS)) else { return };
    let mut lab = Lab::start(&TUNNEL);
    lab.wait_for(CLIENT);
    assert_eq!(lab.end(Signal::TERM).code(), Some(128 + 15));
    assert!(lab.left().is_empty(), "left behind: {:#?}", lab.left());
}

/// A folder of the far host is mounted when the lab is interrupted.
#[test]
fn an_interrupted_build_over_the_network_leaves_nothing() {
    let needs = ["ip", "ping", "tc", "taskset", "make", "cc", "socat", "sshfs", "nsenter", "umount"];
    let Some(()) = program::unless(missing(&needs)) else { return };
    let mut lab = Lab::start(&["macro", "--only", "build", "--between", "clear"]);
    lab.wait_for("fuse.sshfs");
    assert_eq!(lab.end(Signal::INT).code(), Some(128 + 2));
    assert!(lab.left().is_empty(), "left behind: {:#?}", lab.left());
}

#[test]
fn a_killed_study_of_tunnels_is_removed_by_its_shells() {
    let Some(()) = program::unless(missing(&TUNNEL_NEEDS)) else { return };
    let mut lab = Lab::start(&TUNNEL);
    lab.wait_for(CLIENT);
    assert_eq!(lab.end(Signal::KILL).signal(), Some(9));
    lab.assert_gone_soon();
}

/// Folders in shared memory stay until the host is started again; nothing else knows whose they are.
#[test]
fn what_is_left_of_a_lab_killed_with_its_shells_is_removed_by_the_next() {
    let Some(()) = program::unless(missing(&TUNNEL_NEEDS)) else { return };
    let mut killed = Lab::start(&TUNNEL);
    killed.wait_for(CLIENT);
    let (namespace, folder) =
        (format!("sllab{}-", killed.child.id()), format!("sealane-lab-{}-", killed.child.id()));
    let is_shell =
        |line: &str| line.contains(CLEANUP) && (line.contains(&namespace) || line.contains(&folder));
    let shells: Vec<u32> =
        processes().into_iter().filter(|(_, line)| is_shell(line)).map(|(process, _)| process).collect();
    assert!(shells.len() >= 2, "{shells:?}");
    shells.into_iter().for_each(|shell| send(shell, Signal::KILL));
    killed.end(Signal::KILL);
    assert!(
        killed.traces().iter().any(|trace| trace.contains(&namespace)),
        "the namespaces are gone already"
    );
    let mut next = Lab::start(&TUNNEL);
    next.wait_for(&format!("sllab{}-", next.child.id()));
    let is_namespace = |trace: &String| trace.contains(&namespace);
    let is_gone = eventually(|| !killed.traces().iter().any(is_namespace));
    assert!(is_gone, "left behind: {:#?}", killed.traces());
    next.end(Signal::TERM);
    assert!(next.left().is_empty(), "left behind: {:#?}", next.left());
    for parent in ["/dev/shm".into(), std::env::temp_dir()] {
        for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&folder) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}
