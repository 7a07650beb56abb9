//! One login to a far host: its connection is shared by everything that a copy runs there.
//!
//! Guarantees: the login's prompts, banners and complaints appear when they come; it is given up after the user's
//! patience; the connection ends with the last that uses it, and with this process.

use std::{
    fs,
    io::{IsTerminal, Read},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use sealane_peer::{ChannelError, RemoteProcess, Sharing, SshCommand, StderrMode, ssh_resolved_host};

use crate::{
    error::{Error, ErrorKind},
    transfer::complaints::complain,
};

/// Ciphers that are several times as fast as ssh's default on a processor with AES instructions.
const FAST_CIPHERS: [&str; 2] = ["aes128-gcm@openssh.com", "aes256-gcm@openssh.com"];
/// Lets ssh tell which ciphers it agrees on, and nothing else (OpenSSH 8.5).
const TELLING: &str = "LogVerbose=kex.c:kex_choose_conf():*";
/// The interval between two looks for the socket of a login under way.
const LOOK: Duration = Duration::from_millis(3);

/// The account that a login leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Destination {
    pub(crate) user: Option<String>,
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
}

/// Logins by their destinations.
type Kept = Vec<(Destination, Arc<Login>)>;

/// The logins of one command.
#[derive(Clone, Debug, Default)]
pub struct Logins(Arc<Mutex<Kept>>);

impl Logins {
    fn all(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().expect("nobody panics holding a login")
    }

    /// Returns the login to this destination, if there is one.
    pub(crate) fn existing(&self, destination: &Destination) -> Option<Arc<Login>> {
        let all = self.all();
        let found = all.iter().find(|(other, login)| other == destination && !login.is_over());
        found.map(|(_, login)| login.clone())
    }

    /// Keeps a login, in place of one that has ended.
    pub(crate) fn keep(&self, destination: Destination, login: &Arc<Login>) {
        let mut all = self.all();
        all.retain(|(other, _)| *other != destination);
        all.push((destination, login.clone()));
    }
}

/// A way to a far host that may be logged in already.
#[derive(Debug)]
pub struct Login {
    ssh: SshCommand,
    cipher: Cipher,
    /// Whether ssh can tell its cipher.
    tells: bool,
    shared: Option<Shared>,
    time: Duration,
}

/// A connection that others open channels of.
#[derive(Debug)]
struct Shared {
    socket: PathBuf,
    process: Mutex<RemoteProcess>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // ssh removes it when it ends, unless it was killed.
        let _ = fs::remove_file(&self.socket);
    }
}

impl Login {
    /// Logs in by this command, unless the user's configuration shares connections itself, there is no folder for a socket, or
    /// the program cannot share connections.
    pub(crate) fn open(ssh: SshCommand, state_dir: Option<&Path>, patience: Duration) -> Result<Self, Error> {
        let began = Instant::now();
        let (ssh, tells, shares) = with_fast_ciphers(ssh, began + patience);
        let cipher = Cipher::default();
        let mut login = Self { ssh, cipher, tells, shared: None, time: Duration::ZERO };
        if let Some(socket) = state_dir.filter(|_| !shares).and_then(sharing_socket) {
            let process = login.first().log_in(&socket)?;
            let shared = Shared { socket, process: Mutex::new(process) };
            login.shared = shared.wait(&login.ssh.host, began + patience)?.then_some(shared);
            login.time = began.elapsed();
        }
        Ok(login)
    }

    /// Returns the command for the process that logs in first, with the user's help.
    fn first(&self) -> SshCommand {
        // At a terminal ssh writes to it itself, because it asks for a touch of a key only there; then it cannot tell its
        // cipher without telling the user.
        match std::io::stderr().is_terminal() && matches!(self.ssh.stderr, StderrMode::Inherit) {
            true => self.ssh.clone(),
            false => self.telling(complain),
        }
    }

    /// Returns the command for a process whose lines, but those about its cipher, go to `others`.
    fn telling(&self, others: impl Fn(&str) + Send + Sync + 'static) -> SshCommand {
        let mut ssh = self.ssh.clone();
        if self.tells {
            ssh.options.push(TELLING.into());
        }
        ssh.stderr = self.cipher.listening(others);
        ssh
    }

    /// Returns the connection for one more process.
    pub(crate) fn sharing(&self) -> Sharing {
        self.socket().map_or(Sharing::Configured, |socket| Sharing::Through(socket.to_owned()))
    }

    /// Returns the command for a process that opens a channel of the connection, or logs in as the user's configuration says.
    #[must_use]
    pub fn command(&self) -> SshCommand {
        let mut ssh = match self.is_shared() {
            // Nothing that a far shell writes controls the terminal.
            true if matches!(self.ssh.stderr, StderrMode::Inherit) => {
                SshCommand { stderr: StderrMode::Relay(Arc::new(complain)), ..self.ssh.clone() }
            }
            true => self.ssh.clone(),
            false => self.first(),
        };
        ssh.sharing = self.sharing();
        ssh
    }

    /// Returns the command for a process with a connection of its own, which asks the user nothing: a refused login is no
    /// failure.
    pub(crate) fn apart(&self) -> SshCommand {
        let mut ssh = self.telling(|_| ());
        ssh.sharing = Sharing::Apart;
        ssh
    }

    /// Returns the socket through which channels are opened.
    pub(crate) fn socket(&self) -> Option<&Path> {
        self.shared.as_ref().map(|shared| shared.socket.as_path())
    }

    /// Returns whether it is logged in, and processes open channels of one connection.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.is_some()
    }

    /// Returns whether the connection has ended.
    fn is_over(&self) -> bool {
        self.shared.as_ref().is_some_and(Shared::is_over)
    }

    /// Returns the wall time of the login, if it was made.
    pub(crate) fn time(&self) -> Option<Duration> {
        self.is_shared().then_some(self.time)
    }

    /// Returns the cipher of the way to the far host, if ssh has told it.
    pub(crate) fn cipher(&self) -> Option<String> {
        self.cipher.0.lock().expect("nobody panics holding a name").clone()
    }
}

impl Shared {
    fn is_over(&self) -> bool {
        let mut process = self.process.lock().expect("nobody panics holding a process");
        !matches!(process.wait(Instant::now()), Ok(None))
    }

    /// Waits until the user has logged in. Returns false if the program is no ssh that offers a connection.
    fn wait(&self, host: &str, deadline: Instant) -> Result<bool, Error> {
        loop {
            let mut process = self.process.lock().expect("nobody panics holding a process");
            let ended = process.wait(Instant::now());
            match ended {
                Ok(None) if self.socket.exists() => return Ok(true),
                // An ssh that runs nothing writes nothing.
                Ok(None) if has_written(process.socket()) => return Ok(false),
                Ok(None) => {}
                Err(ChannelError::ChildFailed { status, .. }) if status.code() == Some(255) => {
                    let message = format!("ssh could not reach {host} or log in");
                    return Err(Error::new(ErrorKind::Connect, message));
                }
                Ok(Some(_)) | Err(_) => return Ok(false),
            }
            drop(process);
            if Instant::now() >= deadline {
                let message = format!("{host} does not answer; is it stopped, or the network down?");
                return Err(Error::new(ErrorKind::TimedOut, message));
            }
            thread::sleep(LOOK);
        }
    }
}

/// Returns whether a process has written to its standard output.
fn has_written(mut socket: &UnixStream) -> bool {
    socket.set_nonblocking(true).is_ok() && matches!(socket.read(&mut [0]), Ok(1..))
}

/// The cipher that ssh tells, once it has.
#[derive(Clone, Debug, Default)]
struct Cipher(Arc<Mutex<Option<String>>>);

impl Cipher {
    /// Returns a sink that takes ssh's lines about ciphers for itself, and passes on all others.
    fn listening(&self, others: impl Fn(&str) + Send + Sync + 'static) -> StderrMode {
        let cipher = self.clone();
        StderrMode::Relay(Arc::new(move |line| match told_by_ssh(line) {
            None => others(line),
            Some(None) => {}
            Some(Some(name)) => {
                *cipher.0.lock().expect("nobody panics holding a name") = Some(name.to_owned());
            }
        }))
    }
}

/// Returns whether a line of ssh's is one that [`TELLING`] asks for, and the cipher of the way to the far host if it
/// names that.
fn told_by_ssh(line: &str) -> Option<Option<&str>> {
    let (_, told) = line.split_once("kex_choose_conf():")?;
    let (_, told) = told.split_once("client->server cipher: ").unwrap_or_default();
    Some(told.split(' ').next().filter(|name| !name.is_empty()))
}

/// Makes a folder that nobody else may enter, unless it is there.
pub(crate) fn private_folder(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Returns a socket's path for channels of a connection: nobody else may enter its folder. `None` if the path is too
/// long for a socket, or there is no such folder.
fn sharing_socket(state_dir: &Path) -> Option<PathBuf> {
    /// ssh listens under the name with 17 more characters first, and a socket's path has 107 at most.
    const PATH_BYTES_MAX: usize = 107 - 17;
    static COUNT: AtomicU32 = AtomicU32::new(0);
    private_folder(state_dir).ok()?;
    let number = COUNT.fetch_add(1, Relaxed);
    let socket = state_dir.join(format!("ssh-{}-{number}", std::process::id()));
    (socket.as_os_str().len() <= PATH_BYTES_MAX).then_some(socket)
}

/// Returns ssh with the ciphers first that this processor has instructions for, unless its user has chosen some; whether it
/// can tell its cipher; and whether the user's configuration shares connections.
fn with_fast_ciphers(mut ssh: SshCommand, deadline: Instant) -> (SshCommand, bool, bool) {
    let resolved = |ssh: &SshCommand| ssh_resolved_host(ssh, deadline);
    let mut telling = ssh.clone();
    telling.options.push(TELLING.into());
    let mut bare = SshCommand::new(ssh.host.clone());
    bare.program.clone_from(&ssh.program);
    bare.config = Some("none".into());
    let (users, default) = thread::scope(|scope| {
        let default = has_aes().then(|| scope.spawn(|| resolved(&bare).ok()));
        let users = resolved(&telling);
        (users, default.and_then(|default| default.join().ok().flatten()))
    });
    let (users, tells) = match users {
        Ok(users) => (Ok(users), true),
        Err(_) => (resolved(&ssh), false),
    };
    // A configuration that is not known may share them.
    let shares = users.as_ref().map_or(true, |users| users.shares);
    if let (Ok(users), Some(default)) = (users, default)
        && users.ciphers == default.ciphers
        && let Some(reordered) = fast_first(&default.ciphers)
    {
        ssh.options.push(format!("Ciphers={reordered}").into());
    }
    (ssh, tells, shares)
}

/// Returns whether this processor has AES instructions.
pub(crate) fn has_aes() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("pclmulqdq");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

fn fast_first(ciphers: &str) -> Option<String> {
    let all: Vec<&str> = ciphers.split(',').collect();
    let (fast, others): (Vec<&str>, Vec<&str>) =
        all.iter().partition(|cipher| FAST_CIPHERS.contains(*cipher));
    let is_first = all.first().is_some_and(|cipher| FAST_CIPHERS.contains(cipher));
    (!fast.is_empty() && !is_first).then(|| [fast, others].concat().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cipher_that_ssh_tells_is_heard_and_nothing_else_taken() {
        let told = |way| {
            format!(
                "debug1: kex.c:kex_choose_conf():1003 (pid=7): kex: {way} cipher: aes128-gcm@openssh.com MAC: <implicit>"
            )
        };
        assert_eq!(told_by_ssh(&told("client->server")), Some(Some("aes128-gcm@openssh.com")));
        assert_eq!(told_by_ssh(&told("server->client")), Some(None));
        assert_eq!(told_by_ssh("debug1: kex.c:kex_choose_conf():9 (pid=7): kex: algorithm: x"), Some(None));
        assert_eq!(told_by_ssh("kex_choose_conf(): client->server cipher: "), Some(None));
        assert_eq!(told_by_ssh("Permission denied (publickey)."), None);
    }

    #[test]
    fn ciphers_of_aes_come_first_where_they_are_and_do_not() {
        let default =
            "chacha20-poly1305@openssh.com,aes128-ctr,aes128-gcm@openssh.com,aes256-gcm@openssh.com";
        let reordered =
            "aes128-gcm@openssh.com,aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,aes128-ctr";
        assert_eq!(fast_first(default).as_deref(), Some(reordered));
        for kept in [reordered, "aes128-ctr", ""] {
            assert_eq!(fast_first(kept), None);
        }
    }
}
