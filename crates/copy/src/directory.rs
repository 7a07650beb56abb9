//! The names that a directory service lists (LDAP, sssd, winbind, NIS), by the system's program `getent`: a program that is not linked
//! with the system's C library, as the static one is, cannot ask such a service itself.
//!
//! Guarantees: `getent` is run only where the system's configuration names a service besides files, without a shell, without the
//! environment and without a search for it; it is ended after [`PATIENCE`]; what it writes is bounded, and a line that was cut off does
//! not count. One by one nobody is asked for: a service that does not list its names (sssd, unless `enumerate` is set) adds none.

use std::{
    fs::File,
    io::Read,
    os::fd::AsFd,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

const CONFIGURATION: &str = "/etc/nsswitch.conf";
const PROGRAM: &str = "/usr/bin/getent";
/// The bytes that are read of the configuration.
const CONFIGURATION_BYTES_MAX: u64 = 64 << 10;
/// The time after which what has been listed is all that counts.
const PATIENCE: Duration = Duration::from_secs(2);
/// The sources that have no more than files have, or no names of people.
const LOCAL: [&str; 4] = ["files", "compat", "db", "systemd"];

/// Returns the lines of a database (`passwd`, `group`), in the form of its file, if a service is asked for it.
pub(crate) fn list(database: &str, bytes_max: u64) -> Option<Vec<u8>> {
    let mut configuration = String::new();
    let file = File::open(CONFIGURATION).ok()?;
    file.take(CONFIGURATION_BYTES_MAX).read_to_string(&mut configuration).ok()?;
    asks_service(&configuration, database)
        .then(|| run(Command::new(PROGRAM).arg(database), PATIENCE, bytes_max))
        .flatten()
}

/// Returns whether a configuration (nsswitch.conf(5)) names a service for a database.
fn asks_service(configuration: &str, database: &str) -> bool {
    let sources = configuration.lines().find_map(|line| {
        let (name, sources) = line.split('#').next()?.split_once(':')?;
        (name.trim() == database).then_some(sources)
    });
    let is_service = |word: &str| !word.contains(['[', ']', '=']) && !LOCAL.contains(&word);
    sources.is_some_and(|sources| sources.split_whitespace().any(is_service))
}

/// Runs a command for at most this time, and returns the complete lines of its output; `None` if it cannot be run.
fn run(command: &mut Command, patience: Duration, bytes_max: u64) -> Option<Vec<u8>> {
    let deadline = Instant::now() + patience;
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().ok()?;
    let mut lines = Vec::new();
    if let Some(mut output) = child.stdout.take() {
        let mut room = vec![0; 64 << 10];
        while (lines.len() as u64) < bytes_max && is_ready(&output, deadline) {
            match output.read(&mut room) {
                Ok(length) if length > 0 => lines.extend_from_slice(&room[..length]),
                _ => break,
            }
        }
    }
    // It may have ended itself.
    let _ = child.kill();
    let _ = child.wait();
    let end = lines.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
    lines.truncate(end);
    Some(lines)
}

/// Waits until there is something to read, or an end; returns false once it is too late.
fn is_ready(output: &impl AsFd, deadline: Instant) -> bool {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(left) = Timespec::try_from(left) else { return false };
        match poll(&mut [PollFd::new(output, PollFlags::IN)], Some(&left)) {
            Ok(count) => return count > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_whatever_is_not_local() {
        let asks = |line: &str| asks_service(&format!("# passwd: sss\nhosts: dns\n{line}\n"), "passwd");
        for line in [
            "passwd: files sss",
            "passwd:\tfiles [NOTFOUND=continue] ldap",
            " passwd : winbind # files",
            "passwd: files altfiles",
        ] {
            assert!(asks(line), "{line}");
        }
        for line in [
            "passwd: files systemd",
            "passwd: compat",
            "passwd: files [!UNAVAIL=return] # sss",
            "group: sss",
            "",
        ] {
            assert!(!asks(line), "{line}");
        }
    }

    /// Runs a script in place of `getent`.
    fn run_script(script: &str, patience: Duration, bytes_max: u64) -> Vec<u8> {
        run(Command::new("/bin/sh").args(["-c", script]), patience, bytes_max).unwrap()
    }

    #[test]
    fn whatever_is_listed_is_read_within_bounds() {
        let long = Duration::from_secs(600);
        assert_eq!(run_script("echo ada:x:5:; printf cut:x:77", long, 1000), b"ada:x:5:\n");
        assert_eq!(run_script("exit 2", long, 1000), b"");
        let endless = run_script("while :; do echo ada:x:5:; done", long, 100_000);
        assert!((100_000..300_000).contains(&endless.len()) && endless.ends_with(b"\n"), "{}", endless.len());
        let slow = run_script("echo ada:x:5:; exec sleep 1000", Duration::from_millis(700), 1000);
        assert!(slow.is_empty() || slow == b"ada:x:5:\n");
        assert_eq!(run(&mut Command::new("/no/such/program"), long, 1000), None);
    }
}
