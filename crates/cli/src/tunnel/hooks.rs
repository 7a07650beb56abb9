//! A site's commands and resolvers, which change the host when a gateway is up and restore it when the gateway has
//! ended.
//!
//! The gateway gives up its rights, so a process of its own keeps them for this: it starts the gateway, waits for it,
//! and receives nothing from the network. Guarantees: the restoring commands are run however the gateway ends; a
//! gateway whose commands fail does not stay up; the gateway does not outlive this process.

use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::signals::Interrupts;
use crate::{systemd, text};
use anyhow::{Context as _, anyhow};
use rustix::process::{Pid, Signal, kill_process};
use sealane_tunnel::site::{Hooks, Site};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus as ProcessStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The time that `sealane tunnel down` waits for a site's commands.
const PATIENCE: Duration = Duration::from_secs(90);
/// The interval between checks.
const LOOK: Duration = Duration::from_millis(20);

/// Returns the file that is locked until a site's commands are undone.
fn lock_file(folder: &Path, device: &str) -> PathBuf {
    folder.join(format!("tunnel-{device}.hooks"))
}

/// Waits until the commands and resolvers of the site of the gateway with this device are undone; returns at once if
/// there are none.
pub(super) fn wait_until_undone(folder: &Path, device: &str) -> io::Result<()> {
    let file = match File::open(lock_file(folder, device)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        file => file?,
    };
    let deadline = Instant::now() + PATIENCE;
    loop {
        match file.try_lock_shared() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => thread::sleep(LOOK),
            Err(error) => return Err(error.into()),
        }
    }
}

/// The lock of a process that runs a site's commands; the file is removed with it.
struct Lock {
    path: PathBuf,
    _file: File,
}

impl Lock {
    fn take(folder: &Path, device: &str) -> io::Result<Self> {
        let path = lock_file(folder, device);
        let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path)?;
        file.try_lock()?;
        Ok(Self { path, _file: file })
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Runs the gateway of `site` in a process of its own, with the program's own `arguments`, between the site's
/// commands.
pub(super) fn supervise(site: &Site, folder: &Path, arguments: Vec<OsString>) -> Result<(), Failure> {
    let failed = |error: anyhow::Error| Failure::new(ExitStatus::Io, error);
    let resolvers = Resolvers::find(site).map_err(failed)?;
    // The same program is started, even if its file has been replaced.
    let mut gateway = Command::new("/proc/self/exe");
    gateway.args(arguments).arg("--supervised").env_remove("NOTIFY_SOCKET").stdout(Stdio::piped());
    let mut child = gateway.spawn().context("cannot start the gateway").map_err(failed)?;
    let pid = Pid::from_child(&child);
    // The process is waited for below, so the number cannot be that of another process yet.
    let send = move |signal| {
        let _ = kill_process(pid, signal);
    };
    let interrupts = Interrupts::listen_beside_hangup(move |_| send(Signal::TERM), move || send(Signal::HUP));
    let _interrupts = interrupts.context("cannot listen to signals").map_err(failed)?;
    let Some((device, told)) = up_device(&mut child) else {
        // The gateway has printed the reason.
        return ended(wait(&mut child).map_err(failed)?);
    };
    // The folder exists, because it contains the gateway's socket.
    let _lock = Lock::take(folder, &device).context("cannot lock the site's commands").map_err(failed)?;
    let has_resolvers = !site.hooks.dns.is_empty();
    let set = if has_resolvers { resolvers.set(&device, &[], &[]) } else { Ok(()) };
    let done = set.and_then(|()| run_all(&site.hooks.up, &device));
    match &done {
        Ok(()) => {
            if let Err(error) = systemd::tell_ready() {
                text::complain(format_args!(
                    "cannot tell the service manager that the gateway is up: {error}"
                ));
            }
        }
        Err(_) => {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
    let status = thread::scope(|scope| {
        scope.spawn(|| follow(told, &resolvers, &device));
        wait(&mut child)
    });
    // Each command is run, even if others fail.
    for command in &site.hooks.down {
        if let Err(error) = run(command, &device) {
            text::complain(format_args!("{error:#}"));
        }
    }
    if let Err(error) = resolvers.unset(&device) {
        text::complain(format_args!("{error:#}"));
    }
    done.map_err(failed)?;
    ended(status.map_err(failed)?)
}

/// Returns the device of a gateway that is up, and what it tells later; `None` if it ended before.
fn up_device(child: &mut Child) -> Option<(String, BufReader<ChildStdout>)> {
    let mut line = String::new();
    let mut told = BufReader::new(child.stdout.take()?);
    told.read_line(&mut line).ok()?;
    Some((line.strip_prefix(UP)?.trim_end().to_owned(), told))
}

/// A supervised gateway writes this to standard output, before the name of its device.
pub(super) const UP: &str = "up ";
/// It writes this before the resolvers that a peer has given, and the domains that they know.
const RESOLVERS: &str = "resolvers ";
/// The word for an empty list.
const NONE: &str = "-";
/// The maximum length of a line in bytes.
const LINE_BYTES_MAX: u64 = 16_384;

/// Returns the line by which a supervised gateway hands on what a peer has given.
pub(super) fn resolvers_line(servers: &[IpAddr], domains: &[String]) -> String {
    let servers: Vec<String> = servers.iter().map(ToString::to_string).collect();
    let word = |list: &[String]| if list.is_empty() { NONE.to_owned() } else { list.join(",") };
    format!("{RESOLVERS}{} {}\n", word(&servers), word(domains))
}

/// Reads such a line. The gateway reads packets of strangers, so nothing but addresses and names of hosts gets
/// through.
fn resolvers_of(line: &str) -> Option<(Vec<IpAddr>, Vec<String>)> {
    let (servers, domains) = line.strip_prefix(RESOLVERS)?.trim_end().split_once(' ')?;
    let words = |list: &str| -> Vec<String> {
        list.split(',').filter(|word| *word != NONE).map(str::to_owned).collect()
    };
    let servers = words(servers).iter().map(|word| word.parse().ok()).collect::<Option<Vec<IpAddr>>>()?;
    let domains = words(domains);
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_domain = |name: &String| {
        (1..=253).contains(&name.len()) && name.bytes().all(is_plain) && !name.starts_with('-')
    };
    domains.iter().all(is_domain).then_some((servers, domains))
}

/// Sets the resolvers that a gateway tells of, until it ends.
fn follow(mut told: BufReader<ChildStdout>, resolvers: &Resolvers<'_>, device: &str) {
    loop {
        let mut line = String::new();
        match (&mut told).take(LINE_BYTES_MAX).read_line(&mut line) {
            Ok(bytes) if bytes > 0 => {}
            _ => return,
        }
        let Some((servers, domains)) = resolvers_of(&line) else { continue };
        if let Err(error) = resolvers.set(device, &servers, &domains) {
            text::complain(format_args!("{error:#}"));
        }
    }
}

fn wait(child: &mut Child) -> anyhow::Result<ProcessStatus> {
    child.wait().context("cannot wait for the gateway")
}

/// Converts the gateway's exit status to this process's result.
fn ended(status: ProcessStatus) -> Result<(), Failure> {
    match status.code() {
        Some(0) => Ok(()),
        Some(code) => Err(Failure::Told { status: ExitStatus::of_code(code) }),
        None => Err(Failure::new(ExitStatus::Io, anyhow!("the gateway was ended by a signal: {status}"))),
    }
}

fn run_all(commands: &[String], device: &str) -> anyhow::Result<()> {
    commands.iter().try_for_each(|command| run(command, device))
}

/// Runs one command of a site in the shell.
fn run(command: &str, device: &str) -> anyhow::Result<()> {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", command])
        .stdin(Stdio::null())
        .env("SEALANE_DEVICE", device)
        .env_remove("NOTIFY_SOCKET");
    let status = shell.status().with_context(|| format!("cannot run `{command}`"))?;
    anyhow::ensure!(status.success(), "`{command}` failed: {status}");
    Ok(())
}

/// The program that manages this host's resolvers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manager {
    /// systemd-resolved.
    Resolvectl,
    /// openresolv, or Debian's resolvconf.
    Resolvconf,
}

/// A site's resolvers, and the program that configures them.
struct Resolvers<'a> {
    hooks: &'a Hooks,
    /// The program; `None` if the site has no resolvers.
    manager: Option<Manager>,
}

impl<'a> Resolvers<'a> {
    /// Looks for a program that can configure resolvers, before the gateway starts.
    fn find(site: &'a Site) -> anyhow::Result<Self> {
        let hooks = &site.hooks;
        if hooks.dns.is_empty() && !site.takes_resolvers() {
            return Ok(Self { hooks, manager: None });
        }
        let answers = |program: &str, argument: &str| {
            let mut command = Command::new(program);
            command.arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status()
        };
        // The command fails if systemd-resolved does not run.
        let manager = if answers("resolvectl", "status").is_ok_and(|status| status.success()) {
            Manager::Resolvectl
        } else if answers("resolvconf", "--version").is_ok() {
            Manager::Resolvconf
        } else {
            anyhow::bail!(
                "the site file has `dns` or `peer-dns`, which takes systemd-resolved or resolvconf, and this host has neither: \
                 install one (Debian: openresolv), or take it out and set the resolver by commands in `up` and `down`"
            );
        };
        Ok(Self { hooks, manager: Some(manager) })
    }

    /// Sets the site's resolvers, and behind them those that a peer has given, with the domains that they know.
    fn set(&self, device: &str, given: &[IpAddr], domains: &[String]) -> anyhow::Result<()> {
        let Hooks { dns, dns_search, .. } = self.hooks;
        let servers: Vec<String> = dns.iter().chain(given).map(ToString::to_string).collect();
        let dns_search = &[&dns_search[..], domains].concat();
        if servers.is_empty() {
            return self.revert(device);
        }
        match self.manager {
            None => Ok(()),
            Some(Manager::Resolvectl) => {
                // The root domain, for routing only: all names are resolved there.
                let all = ["~.".to_owned()];
                let domains = if dns_search.is_empty() { &all[..] } else { dns_search };
                tell("resolvectl", [&["dns".to_owned(), device.to_owned()], &servers[..]].concat(), "")?;
                tell("resolvectl", [&["domain".to_owned(), device.to_owned()], domains].concat(), "")
            }
            Some(Manager::Resolvconf) => {
                let mut lines: String =
                    servers.iter().map(|server| format!("nameserver {server}\n")).collect();
                if !dns_search.is_empty() {
                    lines += &format!("search {}\n", dns_search.join(" "));
                }
                tell("resolvconf", vec!["-a".to_owned(), device.to_owned()], &lines)
            }
        }
    }

    /// Takes back what was set while the device is there.
    fn revert(&self, device: &str) -> anyhow::Result<()> {
        match self.manager {
            None => Ok(()),
            Some(Manager::Resolvectl) => tell("resolvectl", vec!["revert".to_owned(), device.to_owned()], ""),
            Some(Manager::Resolvconf) => self.unset(device),
        }
    }

    fn unset(&self, device: &str) -> anyhow::Result<()> {
        match self.manager {
            // systemd-resolved removes the settings of a device that is gone.
            None | Some(Manager::Resolvectl) => Ok(()),
            Some(Manager::Resolvconf) => tell("resolvconf", vec!["-d".to_owned(), device.to_owned()], ""),
        }
    }
}

fn tell(program: &str, arguments: Vec<String>, input: &str) -> anyhow::Result<()> {
    let shown = format!("{program} {}", arguments.join(" "));
    let mut command = Command::new(program);
    command.args(&arguments).stdin(Stdio::piped()).stdout(Stdio::null());
    let mut child = command.spawn().with_context(|| format!("cannot run `{shown}`"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // If the program does not read its input, its exit status shows the reason.
        let _ = stdin.write_all(input.as_bytes());
    }
    let status = child.wait().with_context(|| format!("cannot wait for `{shown}`"))?;
    anyhow::ensure!(status.success(), "`{shown}` failed: {status}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolvers_of_a_peer_are_addresses_and_names_and_nothing_else() {
        let servers: Vec<IpAddr> =
            ["10.1.1.53", "fd00::53"].map(|word| word.parse().expect("an address")).to_vec();
        let domains = ["corp.example".to_owned()];
        for (servers, domains) in [(&servers[..], &domains[..]), (&servers, &[]), (&[], &[])] {
            let read = resolvers_of(&resolvers_line(servers, domains)).expect("what was written");
            assert_eq!((&read.0[..], &read.1[..]), (servers, domains));
        }
        for line in
            ["", "up sl0", "resolvers 10.1.1.53", "resolvers a -", "resolvers - --help", "resolvers - a;b"]
        {
            assert!(resolvers_of(line).is_none(), "{line}");
        }
    }
}
