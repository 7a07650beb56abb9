//! A site's commands and resolvers, which change the host when a gateway is up and change it back when the gateway has ended.
//!
//! The gateway gives its rights away, so a process of its own keeps them for this: it starts the gateway, waits for it, and listens to
//! nobody. Guarantees: the commands that undo are run however the gateway ends; a gateway whose commands fail does not stay up; the
//! gateway does not outlive this process.

use crate::environment;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::signals::Interrupts;
use crate::text;
use anyhow::{Context as _, anyhow};
use rustix::process::{Pid, Signal, kill_process};
use sealane_tunnel::site::{Hooks, Site};
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus as ProcessStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The time that `sealane tunnel down` waits for a site's commands.
const PATIENCE: Duration = Duration::from_secs(90);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// The file that is locked while a site's commands are not undone yet.
fn lock_file(folder: &Path, device: &str) -> PathBuf {
    folder.join(format!("tunnel-{device}.hooks"))
}

/// Waits until what the site of the gateway with this device asked for is undone; at once where it asked for nothing.
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

/// The lock of a process that does a site's commands; the file goes with it.
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

/// Runs the gateway of `site` by the program's own `arguments` in a process of its own, between the site's commands.
pub(super) fn supervise(site: &Site, folder: &Path, arguments: Vec<OsString>) -> Result<(), Failure> {
    let failed = |error: anyhow::Error| Failure::new(ExitStatus::Io, error);
    let resolvers = Resolvers::find(&site.hooks).map_err(failed)?;
    // Whatever file the program was started from, it is this program that goes on.
    let mut gateway = Command::new("/proc/self/exe");
    gateway.args(arguments).arg("--supervised").env_remove("NOTIFY_SOCKET").stdout(Stdio::piped());
    let mut child = gateway.spawn().context("cannot start the gateway").map_err(failed)?;
    let pid = Pid::from_child(&child);
    let interrupts = Interrupts::listen(move |_| {
        // It is waited for below, so the number is not another process's yet.
        let _ = kill_process(pid, Signal::TERM);
    });
    let _interrupts = interrupts.context("cannot listen to signals").map_err(failed)?;
    let device = up_device(&mut child);
    let Some(device) = device else {
        // It has said why.
        return ended(wait(&mut child).map_err(failed)?);
    };
    // Its folder is there since the gateway has its socket in it.
    let _lock = Lock::take(folder, &device).context("cannot lock the site's commands").map_err(failed)?;
    let done = resolvers.set(&device).and_then(|()| run_all(&site.hooks.up, &device));
    match &done {
        Ok(()) => {
            if let Err(error) = environment::tell_ready() {
                text::complain(format_args!(
                    "cannot tell the service manager that the gateway is up: {error}"
                ));
            }
        }
        Err(_) => {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
    let status = wait(&mut child);
    // Each of them is tried, whatever became of the others.
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

/// The device of a gateway that is up; `None`: it ended before.
fn up_device(child: &mut Child) -> Option<String> {
    let mut line = String::new();
    BufReader::new(child.stdout.take()?).read_line(&mut line).ok()?;
    Some(line.strip_prefix(UP)?.trim_end().to_owned())
}

/// A supervised gateway says this on standard output, before the name of its device.
pub(super) const UP: &str = "up ";

fn wait(child: &mut Child) -> anyhow::Result<ProcessStatus> {
    child.wait().context("cannot wait for the gateway")
}

/// As the gateway ended.
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

/// Runs one command of a site by the shell.
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

/// A site's resolvers, and the program that is told of them.
struct Resolvers<'a> {
    hooks: &'a Hooks,
    /// `None`: the site has none.
    manager: Option<Manager>,
}

impl<'a> Resolvers<'a> {
    /// Looks for a program that can be told, before the gateway starts.
    fn find(hooks: &'a Hooks) -> anyhow::Result<Self> {
        if hooks.dns.is_empty() {
            return Ok(Self { hooks, manager: None });
        }
        let answers = |program: &str, argument: &str| {
            let mut command = Command::new(program);
            command.arg(argument).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.status()
        };
        // It says no where systemd-resolved does not run.
        let manager = if answers("resolvectl", "status").is_ok_and(|status| status.success()) {
            Manager::Resolvectl
        } else if answers("resolvconf", "--version").is_ok() {
            Manager::Resolvconf
        } else {
            anyhow::bail!(
                "the site file has `dns`, which takes systemd-resolved or resolvconf, and this host has neither: install one \
                 (Debian: openresolv), or take `dns` out and set the resolver by commands in `up` and `down`"
            );
        };
        Ok(Self { hooks, manager: Some(manager) })
    }

    fn set(&self, device: &str) -> anyhow::Result<()> {
        let Hooks { dns, dns_search, .. } = self.hooks;
        let servers: Vec<String> = dns.iter().map(ToString::to_string).collect();
        match self.manager {
            None => Ok(()),
            Some(Manager::Resolvectl) => {
                // The root domain, for routing alone: all names are asked there.
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

    fn unset(&self, device: &str) -> anyhow::Result<()> {
        match self.manager {
            // systemd-resolved forgets a device that is gone.
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
        // If it does not read, its status says why.
        let _ = stdin.write_all(input.as_bytes());
    }
    let status = child.wait().with_context(|| format!("cannot wait for `{shown}`"))?;
    anyhow::ensure!(status.success(), "`{shown}` failed: {status}");
    Ok(())
}
