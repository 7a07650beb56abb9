//! Servers that never outlive their owner.
//!
//! Guarantees: a server is ready when it is returned; it is ended when its value is dropped, with all its
//! descendants; it is also ended when the lab is killed, because a guarding shell then sees its input close.

use super::rusage::{Ended, reap, wait_until};
use super::tail::Tail;
use crate::LabError;
use crate::process_tree::Tree;
use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Runs its arguments; ends them when its input closes; returns their status when they end by themselves.
const GUARD: &str = r#"
exec 3<&0 </dev/null
"$@" 3<&- &
server=$!
{ read -r _ <&3; kill "$server"; } >/dev/null 2>&1 &
guard=$!
exec 3<&-
wait "$server"; code=$?
kill "$guard" 2>/dev/null
exit "$code"
"#;

/// The time that a server may take to listen, or to end after its last client.
const PATIENCE: Duration = Duration::from_secs(10);
/// The number of attempts to start a server on another port, in case another program takes the free one.
const ATTEMPTS: usize = 3;
/// The maximum length of a server's first line.
const LINE_BYTES_MAX: u64 = 16 << 10;

/// The hosts of a server and its clients, and the address by which the clients reach it.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    /// Words before a client's command.
    client: Vec<OsString>,
    /// Words before a server's command.
    server: Vec<OsString>,
    pub(crate) address: String,
}

impl Default for Hosts {
    /// Returns hosts that are both this one.
    fn default() -> Self {
        Self { client: Vec::new(), server: Vec::new(), address: Ipv4Addr::LOCALHOST.to_string() }
    }
}

impl Hosts {
    /// Returns hosts by the words before a command that runs there, with the server at `address`.
    pub(crate) fn new(client: Vec<OsString>, server: Vec<OsString>, address: &str) -> Self {
        Self { client, server, address: address.to_owned() }
    }

    /// Returns a client's command.
    pub(crate) fn client(&self, program: impl Into<OsString>) -> Command {
        command(&self.client, program)
    }
}

fn command(prefix: &[OsString], program: impl Into<OsString>) -> Command {
    let mut words = prefix.iter().cloned().chain([program.into()]);
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words);
    command
}

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    name: String,
    child: Option<Child>,
    printed: Option<Tail>,
}

impl Server {
    /// Starts the command that `command` returns for a free port, waits until it listens there, and returns the port
    /// too.
    pub(crate) fn listening(
        hosts: &Hosts,
        program: &str,
        command: impl Fn(u16) -> Result<Vec<OsString>, LabError>,
    ) -> Result<(Self, u16), LabError> {
        let mut attempt = 1;
        loop {
            let port = free_port()?;
            let mut server = Self::start(hosts, program, command(port)?, Stdio::null())?;
            match server.wait_for(port) {
                Ok(()) => return Ok((server, port)),
                Err(error) if attempt == ATTEMPTS => return Err(error),
                Err(_) => attempt += 1,
            }
        }
    }

    /// Starts `words`, waits for the first line on standard output, and returns it too.
    pub(super) fn announcing(program: &str, words: Vec<OsString>) -> Result<(Self, String), LabError> {
        let mut server = Self::start(&Hosts::default(), program, words, Stdio::piped())?;
        let output = server.child.as_mut().and_then(|child| child.stdout.take());
        let (sender, receiver) = std::sync::mpsc::sync_channel(1);
        std::thread::spawn(move || {
            let mut line = String::new();
            if let Some(output) = output {
                let mut output = BufReader::new(output.take(LINE_BYTES_MAX));
                // An unreadable line is an empty one, which is refused below.
                let _ = output.read_line(&mut line);
                let _ = sender.send(line);
                // The server may continue to print; a closed pipe could end it.
                let _ = io::copy(&mut output.into_inner().into_inner(), &mut io::sink());
            }
        });
        let line = receiver.recv_timeout(PATIENCE).unwrap_or_default();
        let line = line.trim();
        if line.is_empty() {
            return Err(server.failure("printed nothing"));
        }
        Ok((server, line.to_owned()))
    }

    fn start(hosts: &Hosts, program: &str, words: Vec<OsString>, stdout: Stdio) -> Result<Self, LabError> {
        let mut command = command(&hosts.server, "/bin/sh");
        command.args(["-c", GUARD, "sh"]).args(&words);
        command.stdin(Stdio::piped()).stdout(stdout).stderr(Stdio::piped());
        // The server has a process group of its own, so that Ctrl-C reaches the lab first and servers end in order.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command
            .spawn()
            .map_err(|source| LabError::Start { program: PathBuf::from("/bin/sh"), source })?;
        let printed = child.stderr.take().map(Tail::of);
        Ok(Self { name: program.to_owned(), child: Some(child), printed })
    }

    fn wait_for(&mut self, port: u16) -> Result<(), LabError> {
        const STEP: Duration = Duration::from_millis(2);
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if is_listening(self.pid(), port) {
                return Ok(());
            }
            let has_ended = wait_until(self.pid(), Instant::now() + STEP);
            if has_ended.map_err(LabError::file("cannot watch", self.name.as_str()))? {
                return Err(self.failure("ended at once"));
            }
        }
        Err(self.failure("does not listen"))
    }

    fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Returns the CPU time of the server and all its descendants so far.
    pub(crate) fn cpu(&self) -> Duration {
        Tree::of(self.pid()).cpu()
    }

    /// Waits for a server that ends by itself, and returns its usage since its start.
    pub(super) fn wait(mut self) -> Result<Ended, LabError> {
        let deadline = Instant::now() + PATIENCE;
        let has_ended = wait_until(self.pid(), deadline)
            .map_err(LabError::file("cannot wait for", self.name.as_str()))?;
        if !has_ended {
            return Err(self.failure("does not end"));
        }
        let Some(mut child) = self.child.take() else { return Err(self.failure("is gone")) };
        drop(child.stdin.take());
        let ended = reap(child).map_err(LabError::file("cannot wait for", self.name.as_str()))?;
        if !ended.status.success() {
            return Err(self.failure(&ended.status.to_string()));
        }
        Ok(ended)
    }

    /// Returns the server's failure with its output; the server is ended first.
    fn failure(&mut self, what: &str) -> LabError {
        self.end();
        let printed = self.printed.as_ref().map(Tail::text).unwrap_or_default();
        LabError::Copy { kind: self.name.clone(), message: format!("the server {what}: {}", printed.trim()) }
    }

    /// Ends it and returns its output on one line.
    pub(super) fn last_words(mut self) -> String {
        const CHARACTERS: usize = 400;
        self.end();
        let printed = self.printed.as_ref().map(Tail::text).unwrap_or_default();
        let lines: Vec<&str> = printed.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines.join("; ").chars().take(CHARACTERS).collect()
    }

    fn end(&mut self) {
        let Some(mut child) = self.child.take() else { return };
        // The tree is read before any process ends: orphans get another parent and could not be found any more.
        let tree = Tree::of(child.id());
        drop(child.stdin.take());
        const GRACE: Duration = Duration::from_secs(2);
        let _ = wait_until(child.id(), Instant::now() + GRACE);
        tree.kill();
        // The process has ended or was killed; an error cannot be handled.
        let _ = reap(child);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns a loopback port on which no process listens at present.
fn free_port() -> Result<u16, LabError> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(LabError::file("cannot bind", "127.0.0.1"))?;
    Ok(listener.local_addr().map_err(LabError::file("cannot bind", "127.0.0.1"))?.port())
}

/// Returns whether a process or one below it listens on the port, determined without a connection, because some servers
/// serve only the first one. Another process may listen there for a moment: it looks for a free port.
fn is_listening(pid: u32, port: u16) -> bool {
    ["tcp", "tcp6"]
        .iter()
        .filter_map(|file| fs::read_to_string(format!("/proc/{pid}/net/{file}")).ok())
        .filter_map(|table| listener(&table, port))
        .any(|inode| Tree::of(pid).may_have_socket(inode))
}

/// Returns the inode of the socket that listens on the port. The format is, by proc_net_tcp: `sl local_address
/// rem_address st queues timer retransmits uid timeout inode ...`; the first ones are hexadecimal; state 0A is LISTEN.
fn listener(table: &str, port: u16) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [_, local, _, state, _, _, _, _, _, inode, ..] = words[..] else { return None };
        let listens_at = local.rsplit_once(':').and_then(|(_, port)| u16::from_str_radix(port, 16).ok());
        (state == "0A" && listens_at == Some(port)).then(|| inode.parse().ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Vec<OsString> {
        ["/bin/sh", "-c", script].map(OsString::from).to_vec()
    }

    #[test]
    fn only_listeners_count() {
        let line = |place: u8, port: &str, state: &str| {
            let rest = "00000000:00000000 00:00000000 00000000     0        0";
            format!(
                "   {place}: 0100007F:{port} 00000000:0000 {state} {rest} 770{place} 1 0000 100 0 0 10 0\n"
            )
        };
        let table = format!(
            "  sl  local_address rem_address   st\n{}{}",
            line(0, "1F90", "0A"),
            line(1, "1F91", "01")
        );
        assert_eq!(listener(&table, 0x1f90), Some(7700));
        assert_eq!(listener(&table, 0x1f91), None);
        assert_eq!(listener("", 1), None);
        let own = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = own.local_addr().unwrap().port();
        assert!(is_listening(std::process::id(), port));
        // The port is in use, but not by this process.
        let mut other = Command::new("sleep").arg("60").spawn().unwrap();
        let is_of_the_other = is_listening(other.id(), port);
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(!is_of_the_other);
    }

    #[test]
    fn gives_the_first_line_and_what_the_server_used() {
        let (server, line) = Server::announcing("greeter", sh("echo hello; echo more")).unwrap();
        assert_eq!(line, "hello");
        assert!(server.wait().unwrap().status.success());
    }

    #[test]
    fn a_dropped_server_ends_with_its_children() {
        let (server, line) = Server::announcing("sleeper", sh("sleep 1000 & echo $!; wait")).unwrap();
        let grandchild = PathBuf::from(format!("/proc/{line}/stat"));
        assert!(grandchild.exists());
        let pid = server.pid();
        drop(server);
        assert!(!PathBuf::from(format!("/proc/{pid}")).exists());
        // The new parent of the grandchild reaps it at some later time.
        let is_gone = |text: String| text.rsplit_once(')').is_some_and(|(_, state)| state.starts_with(" Z"));
        let deadline = Instant::now() + PATIENCE;
        while !fs::read_to_string(&grandchild).map_or(true, is_gone) {
            assert!(Instant::now() < deadline, "the grandchild still runs");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_server_ends_when_its_owner_is_killed() {
        let (mut server, line) = Server::announcing("sleeper", sh("echo $$; exec sleep 1000")).unwrap();
        // This is what the kernel does for a killed owner: it closes its end of the pipe. Nobody else acts.
        drop(server.child.as_mut().unwrap().stdin.take());
        assert!(wait_until(server.pid(), Instant::now() + PATIENCE).unwrap());
        assert!(!PathBuf::from(format!("/proc/{line}")).exists());
    }

    #[test]
    fn a_failing_server_says_why() {
        let error = Server::announcing("broken", sh("echo reason >&2; exit 3")).unwrap_err();
        assert!(error.to_string().contains("reason"), "{error}");
        let (server, _) =
            Server::announcing("talker", sh("printf 'a\\n b\\n' >&2; echo up; exec sleep 1000")).unwrap();
        // Some shells add that the server was terminated.
        let words = server.last_words();
        assert!(words.starts_with("a; b"), "{words}");
        let (server, _) = Server::announcing("late", sh("echo up; echo why >&2; exit 4")).unwrap();
        let error = server.wait().unwrap_err().to_string();
        assert!(error.contains('4') && error.contains("why"), "{error}");
        let error =
            Server::listening(&Hosts::default(), "mute", |_| Ok(sh("echo no >&2; exit 1"))).unwrap_err();
        assert!(error.to_string().contains("ended at once"), "{error}");
    }
}
