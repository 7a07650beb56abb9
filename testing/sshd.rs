//! A private OpenSSH server for tests: 127.0.0.1, a free port, and keys that exist only as long as the server. Tests of programs
//! include this file with `#[path]`.
//!
//! Guarantees: it accepts one key, which exists only in its own folder, for the user who runs the test; it reads no configuration
//! of that user; both ends check each other's keys; server and keys are gone when the value is dropped.

// A test program may need only some of the functions.
#![allow(dead_code)]

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Paths of the server of the SFTP protocol in distributions.
const SFTP_SERVERS: [&str; 4] = [
    "/usr/lib/openssh/sftp-server",
    "/usr/libexec/openssh/sftp-server",
    "/usr/lib/ssh/sftp-server",
    "/usr/libexec/sftp-server",
];

/// The longest time that a server on a busy machine needs to answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running private server and the files that a client needs to reach it.
#[derive(Debug)]
pub(crate) struct PrivateSshd {
    server: Child,
    folder: tempfile::TempDir,
    port: u16,
}

impl PrivateSshd {
    /// The name under which clients with [`PrivateSshd::client_config`] reach the server.
    pub(crate) const HOST: &'static str = "sealane-peer";

    /// Starts a server and logs in once, so that an unusable server is detected here.
    pub(crate) fn start() -> Result<Self, String> {
        Self::start_with_path(&[])
    }

    /// Does the same as [`PrivateSshd::start`]; programs of clients are searched in `folders` first.
    pub(crate) fn start_with_path(folders: &[&Path]) -> Result<Self, String> {
        let failed = |what: &str, error: &dyn std::fmt::Display| format!("no private sshd: {what}: {error}");
        let folder = tempfile::tempdir().map_err(|error| failed("a folder", &error))?;
        let at = folder.path();
        // OpenSSH's server refuses to start as root without this folder, which some packages leave to systemd. Others may not.
        let _ = fs::create_dir_all("/run/sshd");
        for name in ["host", "user"] {
            let mut command = Command::new("ssh-keygen");
            command.args(["-q", "-t", "ed25519", "-N", "", "-C", Self::HOST, "-f"]).arg(at.join(name));
            let status = command.status().map_err(|error| failed("ssh-keygen", &error))?;
            if !status.success() {
                return Err(failed("ssh-keygen", &status));
            }
        }
        let host_key = fs::read_to_string(at.join("host.pub")).map_err(|error| failed("host.pub", &error))?;
        fs::write(at.join("empty"), "").map_err(|error| failed("empty", &error))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            // Another process may take the port before the server does: then the next one is tried.
            let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
            let port = port.map_err(|error| failed("a port", &error))?.port();
            let files = [
                ("sshd_config", server_config(at, port, folders)),
                ("known_hosts", known_hosts(&host_key, port)),
                ("ssh_config", client_config(at, port)),
            ];
            for (name, text) in files {
                fs::write(at.join(name), text).map_err(|error| failed(name, &error))?;
            }
            let log = fs::File::create(at.join("log")).map_err(|error| failed("log", &error))?;
            // It starts itself again for each login, which it can only do by an absolute path.
            let program = ["/usr/sbin/sshd", "/usr/bin/sshd", "/sbin/sshd"]
                .into_iter()
                .find(|path| Path::new(path).exists());
            let program = program.ok_or_else(|| "no private sshd: sshd is not installed".to_owned())?;
            let mut command = Command::new(program);
            command.args(["-D", "-e", "-f"]).arg(at.join("sshd_config"));
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
            let mut server = command.spawn().map_err(|error| failed(program, &error))?;
            loop {
                let mut login = Command::new("ssh");
                login.arg("-F").arg(at.join("ssh_config")).args([Self::HOST, "true"]);
                let login = login.stdin(Stdio::null()).output().map_err(|error| failed("ssh", &error))?;
                if login.status.success() {
                    return Ok(Self { server, folder, port });
                }
                let has_ended = server.try_wait().map_err(|error| failed("sshd", &error))?.is_some();
                if Instant::now() >= deadline {
                    let _ = server.kill();
                    let _ = server.wait();
                    let said = fs::read_to_string(at.join("log")).unwrap_or_default();
                    return Err(failed("it lets nobody in", &said));
                }
                sleep(Duration::from_millis(30));
                if has_ended {
                    break;
                }
            }
        }
    }

    /// Returns the port, on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns a file for `ssh -F`, `scp -F` and `sftp -F`. It contains only the host [`PrivateSshd::HOST`].
    pub(crate) fn client_config(&self) -> PathBuf {
        self.folder.path().join("ssh_config")
    }

    /// Returns the client's private key.
    pub(crate) fn user_key(&self) -> PathBuf {
        self.folder.path().join("user")
    }

    /// Returns the server's public key in the client's format, under [`PrivateSshd::HOST`] and under address and port.
    pub(crate) fn known_hosts(&self) -> PathBuf {
        self.folder.path().join("known_hosts")
    }

    /// Returns an OpenSSH client (`ssh`, `scp` or `sftp`) with [`PrivateSshd::client_config`].
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.arg("-F").arg(self.client_config());
        command
    }
}

impl Drop for PrivateSshd {
    fn drop(&mut self) {
        // Sessions end with their clients.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

fn server_config(at: &Path, port: u16, folders: &[&Path]) -> String {
    let at = at.display();
    let sftp = SFTP_SERVERS.into_iter().find(|path| Path::new(path).exists()).unwrap_or("internal-sftp");
    let mut config = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey \"{at}/host\"\nAuthorizedKeysFile \"{at}/user.pub\"\n\
         AuthenticationMethods publickey\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
         PermitRootLogin prohibit-password\nPermitUserRC no\nAllowTcpForwarding no\nAllowAgentForwarding no\n\
         StrictModes no\nUsePAM no\nPidFile none\nPrintMotd no\nSubsystem sftp {sftp}\n"
    );
    if !folders.is_empty() {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = folders.iter().map(|folder| (*folder).to_owned()).chain(std::env::split_paths(&path));
        let path: Vec<String> = path.map(|folder| folder.display().to_string()).collect();
        config.push_str(&format!("SetEnv \"PATH={}\"\n", path.join(":")));
    }
    config
}

fn known_hosts(host_key: &str, port: u16) -> String {
    // The third word, a comment, is omitted.
    let key = host_key.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    format!("{} {key}\n[127.0.0.1]:{port} {key}\n", PrivateSshd::HOST)
}

fn client_config(at: &Path, port: u16) -> String {
    let (at, host) = (at.display(), PrivateSshd::HOST);
    format!(
        "Host {host}\n  HostName 127.0.0.1\n  HostKeyAlias {host}\n  Port {port}\n  IdentityFile \"{at}/user\"\n  \
         IdentitiesOnly yes\n  IdentityAgent none\n  UserKnownHostsFile \"{at}/known_hosts\"\n  \
         GlobalKnownHostsFile none\n  StrictHostKeyChecking yes\n  UpdateHostKeys no\n  BatchMode yes\n  \
         Ciphers aes128-gcm@openssh.com\n  Compression no\n  ControlMaster no\n  LogLevel ERROR\n"
    )
}
