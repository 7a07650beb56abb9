//! SFTP servers of several makers, each on a port of its own.
//!
//! A server runs as a user who owns nothing on this machine but the far home folder: whatever it is made to do by mistake,
//! it can only do there.

use super::program::{Running, eventually_some, set_mode, skip, unless};
use std::fmt::Write;
use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The user of all servers: in the list of users of their own mounts only.
const USER: &str = "sealane-far";
const UID: u32 = 64_123;
/// The user's password, for servers that read lists of users, and its entry there (`openssl passwd -6`).
pub(crate) const PASSWORD: &str = "far";
const HASH: &str =
    "$6$sealane$0HwkUiWXpZBZOwAeGq3dHc1vS27SDtzON1cpbDfskqW6DURnPJLlXHLf/K5DZ2I89Q5FPDCbk5ZnZfBfL2eXv1";
/// The interpreter for which distributions package libraries.
const PYTHON: &str = "/usr/bin/python3";
/// ProFTPD, which distributions do not install beside other servers of ftp.
const PROFTPD: &str = "/usr/local/lib/sealane-peers/proftpd/usr";
const ASYNCSSH: &str = include_str!("asyncssh_server.py");
/// A ProxyCommand with a delay.
const DELAY: &str = include_str!("delay.py");
const PARAMIKO: &str = include_str!("paramiko_server.py");

/// A server program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Maker {
    OpenSsh,
    Dropbear,
    ProFtpd,
    /// With an oddity that its script knows, or none.
    AsyncSsh(&'static str),
    Paramiko,
    /// Go's pkg/sftp.
    Rclone,
}

impl Maker {
    /// Returns the reason why it cannot run here.
    fn missing(self) -> Option<String> {
        let program = match self {
            Self::OpenSsh => "/usr/sbin/sshd",
            Self::Dropbear => "dropbear",
            // It is no program of the machine.
            Self::ProFtpd => "sh",
            Self::AsyncSsh(_) | Self::Paramiko => PYTHON,
            Self::Rclone => "rclone",
        };
        let tools = [program, "unshare", "setpriv", "ssh", "ssh-keygen"];
        let has = |tool: &&str| succeeds(Command::new("sh").args(["-c", &format!("command -v {tool}")]));
        let library = match self {
            Self::AsyncSsh(_) => "import asyncssh",
            Self::Paramiko => "import paramiko",
            _ => "",
        };
        if let Some(tool) = tools.iter().find(|tool| !has(tool)) {
            return Some(format!("there is no {tool}"));
        }
        if !library.is_empty() && !succeeds(Command::new(PYTHON).args(["-W", "ignore", "-c", library])) {
            return Some(format!("{PYTHON} cannot {library}"));
        }
        match self {
            Self::ProFtpd if !Path::new(PROFTPD).join("sbin/proftpd").exists() => {
                Some(format!("there is no ProFTPD in {PROFTPD}"))
            }
            Self::Dropbear if !Path::new("/usr/lib/sftp-server").exists() => {
                Some("dropbear has no /usr/lib/sftp-server".to_owned())
            }
            _ => None,
        }
    }
}

fn succeeds(command: &mut Command) -> bool {
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// A running server, and the far home folder.
pub(crate) struct Server {
    /// Its namespace of processes ends with it.
    _process: Running,
    folder: tempfile::TempDir,
    port: u16,
}

impl Server {
    /// Starts a server; clients with [`Server::config`] reach it as the host `far`. `None` if that is not possible here.
    pub(crate) fn start(maker: Maker) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            skip("a server with a user of its own takes root");
            return None;
        }
        unless(maker.missing())?;
        let folder = tempfile::tempdir().expect("a folder");
        let at = folder.path();
        set_mode(at, 0o755);
        make_keys(at);
        for name in ["home", "home/.ssh"] {
            fs::create_dir(at.join(name)).expect("a folder");
        }
        fs::copy(at.join("user.pub"), at.join("home/.ssh/authorized_keys")).expect("a copy");
        for name in ["home", "home/.ssh", "home/.ssh/authorized_keys", "host-own"] {
            chown(at.join(name), Some(UID), Some(UID)).expect("root may");
        }
        let home = at.join("home").display().to_string();
        for (name, line) in [
            ("passwd", format!("{USER}:x:{UID}:{UID}::{home}:/bin/sh\n")),
            ("group", format!("{USER}:x:{UID}:\n")),
            ("shadow", format!("{USER}:{HASH}:19000:0:99999:7:::\n")),
        ] {
            let mut text = fs::read_to_string(Path::new("/etc").join(name)).expect("root may read it");
            text.push_str(&line);
            fs::write(at.join(name), text).expect("a file");
        }
        // It is free again until the server listens there.
        let port = TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr());
        let port = port.expect("a free port").port();
        write_configurations(at, port);
        let process = Running(spawn(at, &command(maker, at, port)));
        let server = Self { _process: process, folder, port };
        server.await_greeting();
        Some(server)
    }

    fn await_greeting(&self) {
        let greets = || {
            let mut front = [0; 4];
            let mut socket = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
            socket.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
            socket.read_exact(&mut front).ok()?;
            (&front == b"SSH-").then_some(())
        };
        assert!(eventually_some(greets).is_some(), "the server does not greet: {}", self.log());
    }

    /// Returns what the server has complained about.
    pub(crate) fn log(&self) -> String {
        let text = fs::read(self.at("log")).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a place in the far home folder.
    pub(crate) fn home(&self, name: &str) -> PathBuf {
        self.at("home").join(name)
    }

    /// Returns a file for `ssh -F`.
    pub(crate) fn config(&self) -> PathBuf {
        self.at("ssh_config")
    }

    /// Gives everything in the far home folder to the server's user.
    pub(crate) fn give_away(&self) {
        give_away(&self.at("home"));
    }
}

fn give_away(path: &Path) {
    std::os::unix::fs::lchown(path, Some(UID), Some(UID)).expect("root may");
    if path.symlink_metadata().expect("it is there").is_dir() {
        for found in fs::read_dir(path).expect("a folder") {
            give_away(&found.expect("an entry").path());
        }
    }
}

fn make_keys(at: &Path) {
    for (name, kind) in [("host", "ed25519"), ("user", "ed25519")] {
        let mut command = Command::new("ssh-keygen");
        assert!(succeeds(command.args(["-q", "-t", kind, "-N", "", "-f"]).arg(at.join(name))), "ssh-keygen");
    }
    // Older libraries read no other form.
    let mut command = Command::new("ssh-keygen");
    command.args(["-q", "-t", "rsa", "-b", "2048", "-m", "PEM", "-N", "", "-f"]).arg(at.join("host-rsa"));
    assert!(succeeds(&mut command), "ssh-keygen");
    fs::copy(at.join("host-rsa"), at.join("host-own")).expect("a copy");
    fs::create_dir(at.join("keys")).expect("a folder");
    let exported =
        Command::new("ssh-keygen").args(["-e", "-m", "RFC4716", "-f"]).arg(at.join("user.pub")).output();
    let exported = exported.expect("ssh-keygen").stdout;
    fs::write(at.join("keys").join(USER), exported).expect("a file");
}

fn write_configurations(at: &Path, port: u16) {
    let here = at.display();
    let sshd = format!(
        "Port {port}\nListenAddress 127.0.0.1\nHostKey {here}/host\nAuthorizedKeysFile {here}/user.pub\n\
         StrictModes no\nUsePAM no\nPidFile none\nPrintMotd no\nSubsystem sftp internal-sftp\n"
    );
    let proftpd = format!(
        "ServerName far\nServerType standalone\nUseIPv6 off\nDefaultAddress 127.0.0.1\nPort {port}\n\
         User {USER}\nGroup {USER}\nUseFtpUsers off\nRequireValidShell off\nAuthOrder mod_auth_unix.c\n\
         ModulePath {PROFTPD}/lib/proftpd\nLoadModule mod_sftp.c\nPidFile {here}/proftpd.pid\n\
         ScoreboardFile {here}/proftpd.scores\nDelayEngine off\nWtmpLog off\nUmask 022\nAllowOverwrite on\n\
         SystemLog {here}/log\nSFTPEngine on\nSFTPLog {here}/log\nSFTPHostKey {here}/host-rsa\n\
         SFTPAuthorizedUserKeys file:{here}/keys/%u\nSFTPAuthMethods publickey\n"
    );
    let client = format!(
        "Host far\nHostName 127.0.0.1\nPort {port}\nUser {USER}\nIdentityFile {here}/user\nIdentitiesOnly yes\n\
         StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\nLogLevel ERROR\n"
    );
    for (name, text) in [("sshd_config", sshd), ("proftpd.conf", proftpd), ("ssh_config", client)] {
        fs::write(at.join(name), text).expect("a file");
    }
    fs::write(at.join("asyncssh_server.py"), ASYNCSSH).expect("a file");
    fs::write(at.join("delay.py"), DELAY).expect("a file");
    fs::write(at.join("paramiko_server.py"), PARAMIKO).expect("a file");
}

/// Returns the command line that starts the server.
fn command(maker: Maker, at: &Path, port: u16) -> String {
    let here = at.display();
    let own = format!("cd {here}/home; setpriv --reuid {UID} --regid {UID} --clear-groups");
    match maker {
        Maker::OpenSsh => format!("mkdir -p /run/sshd; /usr/sbin/sshd -D -e -f {here}/sshd_config"),
        Maker::Dropbear => format!(
            "dropbearkey -t ed25519 -f {here}/host-dropbear >{here}/log; \
             dropbear -F -E -s -W 1000000 -p 127.0.0.1:{port} -r {here}/host-dropbear"
        ),
        Maker::ProFtpd => format!(
            "LD_LIBRARY_PATH=$(echo {PROFTPD}/lib/*-linux-gnu) {PROFTPD}/sbin/proftpd --nodaemon \
             --config {here}/proftpd.conf"
        ),
        Maker::AsyncSsh(oddity) => format!(
            "{own} {PYTHON} -W ignore {here}/asyncssh_server.py {port} {here}/host-own {here}/user.pub '{oddity}'"
        ),
        Maker::Paramiko => {
            format!("{own} {PYTHON} -W ignore {here}/paramiko_server.py {port} {here}/host-own")
        }
        Maker::Rclone => format!(
            "{own} rclone serve sftp {here}/home --addr 127.0.0.1:{port} --authorized-keys {here}/user.pub \
             --key {here}/host-own --config /dev/null"
        ),
    }
}

/// Runs a server among mounts and processes of its own, with a list of users that has one more.
fn spawn(at: &Path, command: &str) -> Child {
    let mut script = String::from("set -e; mount --make-rprivate /\n");
    for name in ["passwd", "group", "shadow"] {
        let _ = writeln!(script, "mount --bind {}/{name} /etc/{name}", at.display());
    }
    // The shell stays, because a process that changes its user no longer ends with its parent.
    let _ = writeln!(script, "{command} & wait");
    let log = fs::File::options().append(true).create(true).open(at.join("log")).expect("a file");
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", &script]);
    unshare.env("HOME", at.join("home")).stdin(Stdio::null());
    unshare.stdout(log.try_clone().expect("a descriptor")).stderr(log);
    unshare.spawn().expect("unshare starts")
}
