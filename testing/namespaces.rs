//! Network namespaces as hosts, and cables between them. Tests and benchmarks include this file with `#[path]`.
//!
//! Guarantees: a failure names the command and what it printed; a namespace that was asked to go is gone even if a
//! process is still in it; a namespace whose owner is killed, by whatever signal, goes with the processes in it, at the
//! latest when the next owner makes one.

#![allow(dead_code, reason = "each test uses some of it")]

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::{
    fs::{self, File},
    os::{fd::AsFd as _, unix::process::CommandExt as _},
    path::Path,
    process::{Child, Command, Stdio, id},
    sync::OnceLock,
    thread,
};

/// The folder with a record of each namespace: a file of its name, which holds its owner.
const RECORDS: &str = "/run/sealane-namespaces";

/// A shell that waits until its input closes, and then removes the namespaces with the owner `$2` in the folder `$1` of
/// records, together with the processes in them. Signals for the owner's whole group do not end it.
const REMOVE: &str = r#"
trap '' HUP INT TERM
read -r _
for record in "$1"/*; do
    read -r owner <"$record" && [ "$owner" = "$2" ] || continue
    name=${record##*/}
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        pids=$(ip netns pids "$name") && [ "$pids" ] || break
        kill -9 $pids
        sleep 0.02
    done
    ip netns del "$name"
    rm -f "$record"
done
"#;

/// Returns a process as an owner: its number and the time of its start, which no later process has as well. Returns
/// `None` if the process has ended.
fn owner(process: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let start = stat.rsplit(')').next()?.split_whitespace().nth(19)?;
    Some(format!("{process} {start}"))
}

/// Starts the shell that removes an owner's namespaces. Its input is a pipe from this process if the owner still runs.
fn remover(owner: &str, input: Stdio) -> Option<Child> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", REMOVE, "sealane-namespaces", RECORDS, owner]).process_group(0);
    command.stdin(input).stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()
}

/// Records that this process owns a namespace which it is about to make. The first call starts the shell that outlives
/// this process, and removes the namespaces of owners that ended together with their shells.
fn record(name: &str) -> Result<(), String> {
    static REMOVER: OnceLock<Option<Child>> = OnceLock::new();
    let own = owner(id()).ok_or("/proc does not show this process")?;
    let failed = |error| format!("{RECORDS}: {error}");
    fs::create_dir_all(RECORDS).map_err(failed)?;
    REMOVER.get_or_init(|| {
        remove_abandoned();
        remover(&own, Stdio::piped())
    });
    fs::write(Path::new(RECORDS).join(name), own + "\n").map_err(failed)
}

/// Removes the namespaces of owners that have ended.
fn remove_abandoned() {
    let records = fs::read_dir(RECORDS).into_iter().flatten().flatten();
    let owners = records.filter_map(|record| fs::read_to_string(record.path()).ok());
    for gone in owners.map(|text| text.trim().to_owned()) {
        let process = gone.split(' ').next().and_then(|process| process.parse().ok());
        if process.and_then(owner).as_ref() != Some(&gone) {
            // The owner's own shell may do the same at this moment, which harms neither.
            let _ = remover(&gone, Stdio::null()).map(|mut shell| shell.wait());
        }
    }
}

/// Returns the reason why there can be no namespaces with TUN devices here, or why one of these programs cannot run.
pub(crate) fn missing(programs: &[&str]) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("namespaces and TUN devices take root".to_owned());
    }
    if !Path::new("/dev/net/tun").exists() {
        return Some("there is no /dev/net/tun".to_owned());
    }
    let has = |program: &&&str| {
        let mut command = Command::new(program);
        command.arg("-V").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok()
    };
    let absent = ["ip"].iter().chain(programs).find(|program| !has(program));
    absent.map(|program| format!("{program} is missing")).or_else(|| {
        let probe = Command::new("unshare").args(["-n", "true"]).stderr(Stdio::null()).status();
        let may = probe.is_ok_and(|status| status.success());
        (!may).then(|| "no network namespace can be made".to_owned())
    })
}

/// Runs ip(8) with words that are separated by spaces.
///
/// # Errors
/// Returns the words and the complaint if it fails.
pub(crate) fn try_ip(words: &str) -> Result<(), String> {
    let output =
        Command::new("ip").args(words.split(' ')).output().map_err(|error| format!("ip: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("ip {words}: {}", String::from_utf8_lossy(&output.stderr).trim())),
    }
}

/// Runs ip(8) as [`try_ip`] does; it must succeed.
#[track_caller]
pub(crate) fn ip(words: &str) {
    try_ip(words).expect("ip succeeds");
}

/// Makes a namespace whose loopback device is up.
///
/// # Errors
/// Fails as [`try_ip`] does.
pub(crate) fn add(name: &str) -> Result<(), String> {
    record(name)?;
    try_ip(&format!("netns add {name}"))?;
    try_ip(&format!("-n {name} link set lo up"))
}

/// Removes a namespace, if it is there.
pub(crate) fn remove(name: &str) {
    let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
    let _ = fs::remove_file(Path::new(RECORDS).join(name));
}

/// One end of a cable.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End<'a> {
    /// The name of the namespace.
    pub(crate) namespace: &'a str,
    /// The name of the device.
    pub(crate) device: &'a str,
    /// The device's addresses with their networks' bits, as in "192.0.2.1/24", each with further words of ip(8).
    pub(crate) addresses: &'a [&'a str],
    /// Words for the device that ip(8) sets, such as "mtu 1400"; may be empty.
    pub(crate) settings: &'a str,
}

/// Lays a cable between two namespaces; its devices are up.
///
/// # Errors
/// Fails as [`try_ip`] does.
pub(crate) fn cable(ends: [End<'_>; 2]) -> Result<(), String> {
    let [near, far] = ends;
    try_ip(&format!(
        "link add {} netns {} type veth peer name {} netns {}",
        near.device, near.namespace, far.device, far.namespace
    ))?;
    for End { namespace, device, addresses, settings } in ends {
        for address in addresses {
            try_ip(&format!("-n {namespace} address add {address} dev {device}"))?;
        }
        let settings = if settings.is_empty() { String::new() } else { format!("{settings} ") };
        try_ip(&format!("-n {namespace} link set dev {device} {settings}up"))?;
    }
    Ok(())
}

/// Makes a namespace forward packets.
///
/// # Errors
/// Fails if the kernel does not allow it.
pub(crate) fn forward(name: &str) -> Result<(), String> {
    let status = command(name, "sh")
        .args(["-c", "echo 1 >/proc/sys/net/ipv4/ip_forward"])
        .stderr(Stdio::null())
        .status();
    let is_done = status.is_ok_and(|status| status.success());
    is_done.then_some(()).ok_or_else(|| format!("{name} cannot forward packets"))
}

/// Returns a command that runs in a namespace; `ip` becomes the program.
pub(crate) fn command(name: &str, program: &str) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", name, program]);
    command
}

/// Runs `work` on a thread in a namespace, where its sockets then belong.
pub(crate) fn inside<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> T {
    let namespace = File::open(format!("/run/netns/{name}")).expect("a namespace has its file");
    thread::scope(|scope| {
        let entered = scope.spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("root may enter it");
            work()
        });
        entered.join().expect("no panic")
    })
}
