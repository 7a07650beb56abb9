//! A private OpenSSH server: one address, a free port, and keys that exist only as long as the server.
//!
//! Guarantees: it accepts one key, which exists only in its private directory, for the user who runs the lab; it
//! reads no configuration and touches no key of that user; both ends check each other's keys; server and keys are
//! gone when the value is dropped, or soon after the process is killed.

use super::client::{Client, run_to_end};
use super::server::{Hosts, Server};
use super::{Version, version::version};
use crate::LabError;
use crate::scratch::Scratch;
use crate::skipped::Skipped;
use crate::surroundings::{Surroundings, is_program};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The cheapest cipher of OpenSSH on a CPU with AES instructions, so that `ssh` shows its best result.
const CIPHER: &str = "aes128-gcm@openssh.com";

const SETUP_LIMIT: Duration = Duration::from_secs(20);

/// OpenSSH's server refuses to start as root without this directory, and some packages leave it to systemd.
const PRIVILEGE_SEPARATION: &str = "/run/sshd";

/// Paths of the server of the SFTP protocol in distributions.
const SFTP_SERVERS: [&str; 4] = [
    "/usr/lib/openssh/sftp-server",
    "/usr/libexec/openssh/sftp-server",
    "/usr/lib/ssh/sftp-server",
    "/usr/libexec/sftp-server",
];

/// Returns the path of the server of the SFTP protocol.
pub(crate) fn sftp_server() -> Option<&'static str> {
    SFTP_SERVERS.into_iter().find(|path| is_program(Path::new(path)))
}

/// A running private server and the files that a client needs to reach it.
#[derive(Debug)]
pub struct PrivateSshd {
    // Fields are dropped in this order: the server ends before its keys are removed.
    server: Server,
    directory: Scratch,
    hosts: Hosts,
    port: u16,
    version: Version,
}

impl PrivateSshd {
    /// The name under which clients with [`PrivateSshd::client_config`] reach the server.
    pub const HOST: &'static str = "sealane-peer";

    /// Starts a server and logs in once, so that an unusable server is detected here.
    pub fn start(surroundings: &Surroundings) -> Result<Self, Skipped> {
        Self::start_with_path(surroundings, &[])
    }

    /// Does the same as [`PrivateSshd::start`]; programs of clients are searched in `directories` first.
    pub fn start_with_path(surroundings: &Surroundings, directories: &[&Path]) -> Result<Self, Skipped> {
        Self::start_on(surroundings, directories, Hosts::default())
    }

    /// Does the same as [`PrivateSshd::start_with_path`], with the server and its clients on these hosts.
    pub(super) fn start_on(
        surroundings: &Surroundings,
        directories: &[&Path],
        hosts: Hosts,
    ) -> Result<Self, Skipped> {
        let sshd = surroundings.program("sshd")?;
        let keygen = surroundings.program("ssh-keygen")?;
        let ssh = surroundings.program("ssh")?;
        let version = version(&ssh, "-V")?;
        let unusable = |error| Skipped::because(format!("no private sshd: {error}"));
        let started =
            Self::set_up(surroundings, [&sshd, &keygen], directories, hosts, version).map_err(unusable)?;
        let mut command = started.command(&ssh);
        command.args([Self::HOST, "true"]);
        match run_to_end(Client::new(command), SETUP_LIMIT) {
            Ok(_) => Ok(started),
            // By design the client learns nothing; the server knows the reason, e.g. that the account is locked.
            Err(error) => Err(Skipped::because(format!(
                "no private sshd: {error}; the server said: {}",
                started.server.last_words()
            ))),
        }
    }

    fn set_up(
        surroundings: &Surroundings,
        [sshd, keygen]: [&Path; 2],
        directories: &[&Path],
        hosts: Hosts,
        version: Version,
    ) -> Result<Self, LabError> {
        let directory = Scratch::create(surroundings, None, 0)?;
        let at = directory.path();
        if rustix::process::geteuid().is_root() {
            // Another process may create it at the same time.
            fs::create_dir_all(PRIVILEGE_SEPARATION)
                .map_err(LabError::file("cannot create", PRIVILEGE_SEPARATION))?;
        }
        for name in ["host", "user"] {
            let mut command = Command::new(keygen);
            command.args(["-q", "-t", "ed25519", "-N", "", "-C", Self::HOST, "-f"]).arg(at.join(name));
            run_to_end(Client::new(command), SETUP_LIMIT)?;
        }
        let (server, port) = Server::listening(&hosts, "sshd", |port| {
            let config = at.join("sshd_config");
            let text = server_config(at, (&hosts.address, port), directories, &surroundings.search_path);
            fs::write(&config, text).map_err(LabError::file("cannot write", &config))?;
            let arguments = ["-D".into(), "-e".into(), "-f".into(), config.into_os_string()];
            Ok(std::iter::once(sshd.as_os_str().to_owned()).chain(arguments).collect())
        })?;
        let host_key = at.join("host.pub");
        let host_key = fs::read_to_string(&host_key).map_err(LabError::file("cannot read", host_key))?;
        let files = [
            ("known_hosts", known_hosts(&host_key, (&hosts.address, port))),
            ("ssh_config", client_config(at, (&hosts.address, port))),
            ("empty", String::new()),
        ];
        for (name, text) in files {
            let path = at.join(name);
            fs::write(&path, text).map_err(LabError::file("cannot write", path))?;
        }
        Ok(Self { server, directory, hosts, port, version })
    }

    /// Returns the port, on 127.0.0.1 unless the server is on another host.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns a file for `ssh -F`, `scp -F` and `sftp -F`. It contains only the host [`PrivateSshd::HOST`].
    pub fn client_config(&self) -> PathBuf {
        self.directory.path().join("ssh_config")
    }

    /// Returns the client's private key.
    pub fn user_key(&self) -> PathBuf {
        self.directory.path().join("user")
    }

    /// Returns the server's public key in the client's format, under [`PrivateSshd::HOST`] and under address and
    /// port.
    pub fn known_hosts(&self) -> PathBuf {
        self.directory.path().join("known_hosts")
    }

    /// Returns an empty file, for clients that must not read the user's own configuration.
    pub(super) fn empty_file(&self) -> PathBuf {
        self.directory.path().join("empty")
    }

    /// Returns the client's version.
    pub(super) fn version(&self) -> &Version {
        &self.version
    }

    /// Returns an OpenSSH client (`ssh`, `scp` or `sftp`) with [`PrivateSshd::client_config`].
    pub fn command(&self, program: &Path) -> Command {
        let mut command = self.hosts.client(program);
        command.arg("-F").arg(self.client_config());
        command
    }

    /// Returns the CPU time of the server and its sessions so far.
    pub(crate) fn cpu(&self) -> Duration {
        self.server.cpu()
    }

    /// Returns the server with its sessions, for the time they use.
    pub(super) fn server(&self) -> &Server {
        &self.server
    }
}

fn server_config(
    at: &Path,
    (address, port): (&str, u16),
    directories: &[&Path],
    search_path: &[PathBuf],
) -> String {
    let at = at.display();
    let sftp = sftp_server().unwrap_or("internal-sftp");
    let mut config = format!(
        "Port {port}\nListenAddress {address}\nHostKey \"{at}/host\"\nAuthorizedKeysFile \"{at}/user.pub\"\n\
         AuthenticationMethods publickey\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
         PermitRootLogin prohibit-password\nPermitUserRC no\nAllowTcpForwarding no\nAllowAgentForwarding no\n\
         StrictModes no\nUsePAM no\nPidFile none\nPrintMotd no\nSubsystem sftp {sftp}\n"
    );
    if !directories.is_empty() {
        let path = directories.iter().copied().chain(search_path.iter().map(PathBuf::as_path));
        let path: Vec<_> = path.map(Path::to_string_lossy).collect();
        // sshd has no escape for a quote in a value, so such directories are not supported.
        config.push_str(&format!("SetEnv \"PATH={}\"\n", path.join(":").replace(['"', '\n'], "")));
    }
    config
}

fn known_hosts(host_key: &str, (address, port): (&str, u16)) -> String {
    // The third word, a comment, is omitted.
    let mut words = host_key.split_whitespace();
    let key = format!("{} {}", words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let host = PrivateSshd::HOST;
    format!("{host} {key}\n[{address}]:{port} {key}\n")
}

fn client_config(at: &Path, (address, port): (&str, u16)) -> String {
    let (at, host) = (at.display(), PrivateSshd::HOST);
    format!(
        "Host {host}\n  HostName {address}\n  HostKeyAlias {host}\n  Port {port}\n  IdentityFile \"{at}/user\"\n  \
         IdentitiesOnly yes\n  IdentityAgent none\n  UserKnownHostsFile \"{at}/known_hosts\"\n  \
         GlobalKnownHostsFile none\n  StrictHostKeyChecking yes\n  UpdateHostKeys no\n  BatchMode yes\n  \
         Ciphers {CIPHER}\n  Compression no\n  ControlMaster no\n  LogLevel ERROR\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peers::tests::started;

    #[test]
    fn keys_are_listed_under_both_names() {
        let known = known_hosts("ssh-ed25519 AAAA comment\n", ("127.0.0.1", 22));
        assert_eq!(known, "sealane-peer ssh-ed25519 AAAA\n[127.0.0.1]:22 ssh-ed25519 AAAA\n");
        assert_eq!(known_hosts("", ("127.0.0.1", 1)).lines().count(), 2);
    }

    #[test]
    fn runs_programs_for_its_own_key_only_and_vanishes() {
        let own = tempfile::tempdir().unwrap();
        let Some(sshd) = started(PrivateSshd::start_with_path(&Surroundings::default(), &[own.path()]))
        else {
            return;
        };
        let ssh = Surroundings::default().program("ssh").unwrap();
        let mut command = sshd.command(&ssh);
        command.args([PrivateSshd::HOST, "echo $PATH"]);
        let printed = run_to_end(Client::new(command), SETUP_LIMIT).unwrap();
        // The user's shell may put more in front.
        assert!(printed.contains(&format!("{}:", own.path().display())), "{printed}");

        let stranger = own.path().join("stranger");
        let mut command = Command::new(Surroundings::default().program("ssh-keygen").unwrap());
        command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&stranger);
        run_to_end(Client::new(command), SETUP_LIMIT).unwrap();
        let config = fs::read_to_string(sshd.client_config()).unwrap();
        let other = own.path().join("config");
        let key = sshd.user_key().display().to_string();
        fs::write(&other, config.replace(&key, &stranger.display().to_string())).unwrap();
        let mut command = Command::new(&ssh);
        command.arg("-F").arg(&other).args([PrivateSshd::HOST, "true"]);
        let refused = run_to_end(Client::new(command), SETUP_LIMIT).unwrap_err().to_string();
        assert!(refused.contains("Permission denied"), "{refused}");

        let keys = sshd.user_key();
        drop(sshd);
        assert!(!keys.exists());
    }
}
