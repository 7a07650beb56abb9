//! The ssh command line, built so that no host, user or path can act as an option or as shell code.
//!
//! File names are not part of it; they travel inside the channel. Only the name of the remote program reaches a
//! shell, and it is quoted.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::channel::{Wire, now_or_never};
use crate::error::{ChannelError, PeerError};
use crate::launch::{RemoteProcess, ServeLeave, StderrMode};
use crate::location::{check_host, check_user};
use crate::name::{ChannelKind, PeerName};

/// The default program at the far end.
const DEFAULT_PROGRAM: &str = "sealane";
/// The program of studies.
const LABORATORY: &str = "sealane-lab";
/// Runs a program of ours from the PATH, or from the place where `--install-far-end` puts it; its name, its arguments and a
/// quotation mark follow.
const SEARCH: &[u8] = b"sh -c 'PATH=\"$PATH:$HOME/.local/bin\"; export PATH; exec ";

/// `ssh -G` prints some kilobytes.
const MAX_CONFIG_BYTES: usize = 1 << 20;

/// The addresses of the host that ssh may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressFamily {
    /// `-4`
    V4,
    /// `-6`
    V6,
}

impl AddressFamily {
    /// Returns whether an address belongs to this family.
    #[must_use]
    pub fn has(self, address: IpAddr) -> bool {
        address.is_ipv4() == (self == Self::V4)
    }
}

/// The command to run at the far end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RemoteCommand {
    /// `sealane serve --stdio`: the control channel.
    Serve(ServeLeave),
    /// `sealane serve --relay PORT`: one data stream, relayed to that port there.
    Relay {
        /// A TCP port at the far end.
        port: u16,
    },
    /// `sealane fleet work`: a worker of a run on many hosts.
    Fleet,
    /// sshd's subsystem `sftp`, which needs no program of ours and no shell.
    Sftp,
    /// A line for the far shell, all of it a text of this program.
    Script(&'static str),
}

/// The parameters of an ssh process; every field but `host` may stay as [`new`](Self::new) sets it.
#[derive(Debug, Clone)]
pub struct SshCommand {
    /// The ssh program.
    pub program: OsString,
    /// The user there (`-l`).
    pub user: Option<String>,
    /// The host, as ssh's configuration names it.
    pub host: String,
    /// The port (`-p`).
    pub port: Option<u16>,
    /// Identity files (`-i`).
    pub identity_files: Vec<PathBuf>,
    /// Options in the form of the configuration file (`-o`).
    pub options: Vec<OsString>,
    /// Another configuration file (`-F`).
    pub config: Option<PathBuf>,
    /// Hosts to jump through (`-J`).
    pub jump: Option<OsString>,
    /// Restricts the addresses to IPv4 (`-4`) or IPv6 (`-6`).
    pub family: Option<AddressFamily>,
    /// The program at the far end. It is quoted for the shell there, except for a leading `~/`. The default is looked
    /// for in the PATH and in `~/.local/bin`.
    pub remote_program: OsString,
    /// The destination of the messages of ssh and of the far end.
    pub stderr: StderrMode,
    /// Which connection it uses.
    pub sharing: Sharing,
}

/// The connection that an ssh process uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Sharing {
    /// That which the user's configuration says.
    #[default]
    Configured,
    /// A further one to the same host: it is a separate one, and does not ask the user anything.
    Apart,
    /// That of the process that offers this socket ([`SshCommand::log_in`]). Without such a process it is a separate one.
    Through(PathBuf),
}

impl Sharing {
    /// Returns the options for it.
    fn arguments(&self) -> Vec<OsString> {
        match self {
            Self::Configured => Vec::new(),
            Self::Apart => {
                vec!["-oControlMaster=no".into(), "-oControlPath=none".into(), "-oBatchMode=yes".into()]
            }
            Self::Through(socket) => {
                vec!["-oControlMaster=no".into(), control_path(socket), "-oBatchMode=yes".into()]
            }
        }
    }
}

/// Returns the option that names a socket for shared connections.
fn control_path(path: &Path) -> OsString {
    // ssh replaces words that begin with this sign.
    let escaped =
        path.as_os_str().as_bytes().split(|&byte| byte == b'%').collect::<Vec<_>>().join(&b"%%"[..]);
    OsString::from_vec([b"-oControlPath=", escaped.as_slice()].concat())
}

/// Runs a command until it ends or standard input does, which it does with the process at its other end, however that ends. ssh may miss
/// a signal that comes just before it waits for its connection, so it is told until it is gone.
const HOLD: &str = r#"exec 3<&0; "$@" </dev/null 3<&- & held=$!; { read -r line <&3; while kill "$held"; do sleep 0.1 || sleep 1; done; } 2>/dev/null & wait "$held"; status=$?; kill $! 2>/dev/null; exit "$status""#;

/// The ends of an ssh connection, as its server reports them to the program that it starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SshAddresses {
    /// Whence the client came.
    pub client: Option<IpAddr>,
    /// The address by which the client reached this host.
    pub server: Option<IpAddr>,
}

impl SshAddresses {
    /// Parses `SSH_CONNECTION`: "client-address client-port server-address server-port". Invalid addresses are left
    /// out.
    pub fn parse(connection: &str) -> Self {
        let address = |word| connection.split(' ').nth(word)?.parse().ok();
        Self { client: address(0), server: address(2) }
    }
}

impl SshCommand {
    /// Returns the command for ssh to this host, with everything else as in ssh's own configuration.
    pub fn new(host: impl Into<String>) -> Self {
        Self {
            program: "ssh".into(),
            user: None,
            host: host.into(),
            port: None,
            identity_files: Vec::new(),
            options: Vec::new(),
            config: None,
            jump: None,
            family: None,
            remote_program: DEFAULT_PROGRAM.into(),
            stderr: StderrMode::default(),
            sharing: Sharing::Configured,
        }
    }

    /// Returns the arguments after the program's name.
    ///
    /// # Errors
    /// Fails if the host or user could be mistaken for something else, or the remote program has no name.
    fn argv(&self, remote: RemoteCommand) -> Result<Vec<OsString>, PeerError> {
        self.argv_of(self.remote_command(remote)?, remote == RemoteCommand::Sftp)
    }

    /// Returns the arguments that each process has.
    fn fixed() -> Vec<OsString> {
        // As in scp, there is no terminal, X11, agent or port forwarding for a program that only moves files.
        ["-x", "-T", "-a", "-oPermitLocalCommand=no", "-oClearAllForwardings=yes"]
            .into_iter()
            .chain(["-oRemoteCommand=none", "-oRequestTTY=no"])
            .map(Into::into)
            .collect()
    }

    fn argv_of(&self, line: OsString, is_subsystem: bool) -> Result<Vec<OsString>, PeerError> {
        let mut argv = Self::fixed();
        argv.extend(self.sharing.arguments());
        if is_subsystem {
            argv.push("-s".into());
        }
        argv.extend(self.destination()?);
        argv.push(line);
        Ok(argv)
    }

    /// Returns the command by which ssh gives `line` to the far shell; the caller writes the whole text, without
    /// parts from elsewhere.
    ///
    /// # Errors
    /// Fails as [`argv`](Self::argv) does.
    pub fn script(&self, line: &str) -> Result<Command, PeerError> {
        let mut command = Command::new(&self.program);
        command.args(self.argv_of(line.into(), false)?);
        Ok(command)
    }

    /// Starts an ssh that logs in and runs nothing. Once it has logged in, `socket` exists, and others open channels of its
    /// connection there ([`Sharing::Through`]). It ends with the returned value, and with this process.
    ///
    /// # Errors
    /// Fails as [`argv`](Self::argv) does, or if no process can be started.
    pub fn log_in(&self, socket: &Path) -> Result<RemoteProcess, PeerError> {
        let mut command = Command::new("sh");
        command.args(["-c", HOLD, "sh"]).arg(&self.program).args(Self::fixed());
        command.arg("-oControlMaster=yes").arg(control_path(socket)).args(["-oControlPersist=no", "-N"]);
        command.args(self.destination()?);
        RemoteProcess::spawn(command, &self.stderr, ChannelKind::Ssh, self.peer())
    }

    fn peer(&self) -> PeerName {
        let host = match &self.user {
            Some(user) => format!("{user}@{}", self.host),
            None => self.host.clone(),
        };
        PeerName::Ssh { host }
    }

    /// Starts ssh with its standard input and output on one socket.
    ///
    /// # Errors
    /// Fails as [`argv`](Self::argv) does, or if ssh cannot be started.
    pub fn spawn(&self, remote: RemoteCommand) -> Result<RemoteProcess, PeerError> {
        let mut command = Command::new(&self.program);
        command.args(self.argv(remote)?);
        RemoteProcess::spawn(command, &self.stderr, ChannelKind::Ssh, self.peer())
    }

    /// Returns the options that choose the destination, and the destination itself.
    fn destination(&self) -> Result<Vec<OsString>, PeerError> {
        let refuse = |what, text: &str, fault| PeerError::SshArgument { what, text: text.to_owned(), fault };
        check_host(&self.host).map_err(|fault| refuse("host", &self.host, fault))?;
        let mut argv: Vec<OsString> = Vec::new();
        match self.family {
            Some(AddressFamily::V4) => argv.push("-4".into()),
            Some(AddressFamily::V6) => argv.push("-6".into()),
            None => {}
        }
        let mut option = |name: &str, value: &OsStr| argv.extend([OsString::from(name), value.to_owned()]);
        if let Some(config) = &self.config {
            option("-F", config.as_os_str());
        }
        if let Some(jump) = &self.jump {
            option("-J", jump);
        }
        if let Some(port) = self.port {
            option("-p", OsStr::new(&port.to_string()));
        }
        for file in &self.identity_files {
            option("-i", file.as_os_str());
        }
        for value in &self.options {
            option("-o", value);
        }
        if let Some(user) = &self.user {
            check_user(user).map_err(|fault| refuse("user", user, fault))?;
            option("-l", OsStr::new(user));
        }
        argv.push("--".into());
        argv.push(self.host.clone().into());
        Ok(argv)
    }

    fn remote_command(&self, remote: RemoteCommand) -> Result<OsString, PeerError> {
        match remote {
            RemoteCommand::Sftp => return Ok("sftp".into()),
            RemoteCommand::Script(line) => return Ok(line.into()),
            _ => {}
        }
        let program = self.remote_program.as_bytes();
        if program.is_empty() || program.contains(&0) {
            let text = self.remote_program.to_string_lossy().into_owned();
            return Err(PeerError::SshArgument { what: "remote program", text, fault: "it names no file" });
        }
        let mut line = Vec::new();
        match remote {
            RemoteCommand::Serve(leave) => {
                line.extend_from_slice(b" serve --stdio");
                for argument in leave.arguments() {
                    line.push(b' ');
                    line.extend_from_slice(argument.as_bytes());
                }
            }
            RemoteCommand::Relay { port } => {
                line.extend_from_slice(format!(" serve --relay {port}").as_bytes())
            }
            RemoteCommand::Fleet => line.extend_from_slice(b" fleet work"),
            RemoteCommand::Sftp | RemoteCommand::Script(_) => {}
        }
        if [DEFAULT_PROGRAM.as_bytes(), LABORATORY.as_bytes()].contains(&program) {
            // The command is one word for the far shell, which need not be a POSIX one.
            return Ok(OsString::from_vec([SEARCH, program, line.as_slice(), b"'"].concat()));
        }
        Ok(OsString::from_vec([quote(program), line].concat()))
    }
}

/// Returns one word for a POSIX shell. A leading `~/` is not quoted, so that it means the home directory.
fn quote(word: &[u8]) -> Vec<u8> {
    let (tilde, rest) = match word.strip_prefix(b"~/") {
        Some(rest) if !rest.is_empty() => (&b"~/"[..], rest),
        _ => (&b""[..], word),
    };
    let safe = |b: &u8| b.is_ascii_alphanumeric() || b"_./+:@%,-".contains(b);
    let mut out = tilde.to_vec();
    if rest.iter().all(safe) {
        out.extend_from_slice(rest);
        return out;
    }
    out.push(b'\'');
    for &byte in rest {
        match byte {
            b'\'' => out.extend_from_slice(br"'\''"),
            _ => out.push(byte),
        }
    }
    out.push(b'\'');
    out
}

/// Which host ssh would connect to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ResolvedHost {
    /// The name or address after all aliases are resolved.
    pub host: String,
    /// The user who logs in; empty if ssh does not print it.
    pub user: String,
    /// The port; empty if ssh does not print it.
    pub port: String,
    /// Whether ssh reaches the host through another host or a command, so that a direct connection may fail.
    pub proxied: bool,
    /// Ciphers in the order in which they are offered, separated by commas; empty if ssh does not print them.
    pub ciphers: String,
    /// Whether the configuration says that connections are shared.
    pub shares: bool,
}

/// Asks ssh (`ssh -G`) for the host that its configuration means, because data streams connect directly to it.
///
/// # Errors
/// Fails if ssh cannot be started, does not answer before the deadline, or does not support `-G`.
pub fn ssh_resolved_host(ssh: &SshCommand, deadline: Instant) -> Result<ResolvedHost, PeerError> {
    let program = ssh.program.to_string_lossy().into_owned();
    let spawn_fault = |source| PeerError::Spawn { program: program.clone(), source };
    let mut child = Command::new(&ssh.program)
        .arg("-G")
        .args(ssh.destination()?)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(spawn_fault)?;
    let read =
        child.stdout.take().ok_or(ChannelError::Poisoned).and_then(|out| read_all(out.into(), deadline));
    // The process is not needed any more, and `-G` has no state to lose.
    let _ = child.kill();
    let _ = child.wait();
    let fault = |said: &str| PeerError::SshConfig { host: ssh.host.clone(), said: said.to_owned() };
    parse_config(&read?).ok_or_else(|| fault("there is no line `hostname` in its answer"))
}

fn read_all(out: OwnedFd, deadline: Instant) -> Result<Vec<u8>, ChannelError> {
    let doing = "asking ssh for its configuration";
    let wire = Wire::socket(out).map_err(ChannelError::io(doing))?;
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    while bytes.len() < MAX_CONFIG_BYTES {
        match now_or_never(|| (&wire).read(&mut chunk)).map_err(ChannelError::io(doing))? {
            Some(0) => break,
            Some(n) => bytes.extend_from_slice(&chunk[..n]),
            None => {
                if Instant::now() >= deadline {
                    return Err(ChannelError::Deadline { doing });
                }
                wire.wait(true, false, &[], deadline).map_err(ChannelError::io(doing))?;
            }
        }
    }
    Ok(bytes)
}

fn parse_config(bytes: &[u8]) -> Option<ResolvedHost> {
    let text = String::from_utf8_lossy(bytes);
    let mut host = None;
    let (mut user, mut port) = (String::new(), String::new());
    let mut proxied = false;
    let mut ciphers = String::new();
    let mut shares = false;
    for line in text.lines() {
        let Some((name, value)) = line.split_once(' ') else { continue };
        match name {
            "hostname" => host = check_host(value).is_ok().then(|| value.to_owned()),
            "user" => value.clone_into(&mut user),
            "port" => value.clone_into(&mut port),
            "proxyjump" | "proxycommand" => proxied |= value != "none",
            "ciphers" => value.clone_into(&mut ciphers),
            "controlmaster" => shares |= !matches!(value, "false" | "no"),
            "controlpath" => shares |= value != "none",
            _ => {}
        }
    }
    Some(ResolvedHost { host: host?, user, port, proxied, ciphers, shares })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const FIXED: &[&str] = &[
        "-x",
        "-T",
        "-a",
        "-oPermitLocalCommand=no",
        "-oClearAllForwardings=yes",
        "-oRemoteCommand=none",
        "-oRequestTTY=no",
    ];

    #[track_caller]
    fn check(change: impl FnOnce(&mut SshCommand), remote: RemoteCommand, want: &[&str]) {
        let mut ssh = SshCommand::new("host");
        change(&mut ssh);
        let got = ssh.argv(remote).unwrap();
        let want: Vec<_> = FIXED.iter().chain(want).map(OsString::from).collect();
        assert_eq!(got, want);
    }

    /// A program that misses the first signal ends all the same.
    #[test]
    fn a_login_ends_though_its_program_misses_a_signal() {
        let deaf = "trap 'trap - TERM' TERM; while :; do sleep 0.02; done";
        let mut child = Command::new("sh")
            .args(["-c", HOLD, "sh", "sh", "-c", deaf])
            .stdin(Stdio::piped())
            .spawn()
            .expect("a shell");
        std::thread::sleep(Duration::from_millis(100));
        drop(child.stdin.take());
        let begun = Instant::now();
        while child.try_wait().expect("a child").is_none() {
            assert!(begun.elapsed().as_secs() < 30, "it goes on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn argv_table() {
        use RemoteCommand::Relay;
        let found = |arguments: &str| {
            format!("sh -c 'PATH=\"$PATH:$HOME/.local/bin\"; export PATH; exec sealane{arguments}'")
        };
        const SERVE: RemoteCommand =
            RemoteCommand::Serve(ServeLeave { allow_legacy: false, measuring: false });
        let both = RemoteCommand::Serve(ServeLeave { allow_legacy: true, measuring: true });
        check(|_| (), both, &["--", "host", &found(" serve --stdio --allow-legacy --measuring")]);
        check(|_| (), SERVE, &["--", "host", &found(" serve --stdio")]);
        check(|_| (), Relay { port: 4000 }, &["--", "host", &found(" serve --relay 4000")]);
        check(|_| (), RemoteCommand::Fleet, &["--", "host", &found(" fleet work")]);
        check(|_| (), RemoteCommand::Sftp, &["-s", "--", "host", "sftp"]);
        let alone = ["-oControlMaster=no", "-oControlPath=none", "-oBatchMode=yes"];
        let further = [&alone[..], &["-s", "-p", "2222", "--", "host", "sftp"]].concat();
        let change = |ssh: &mut SshCommand| {
            ssh.sharing = Sharing::Apart;
            ssh.port = Some(2222);
        };
        check(change, RemoteCommand::Sftp, &further);
        let guest = ["-oControlMaster=no", "-oControlPath=/run/c%%d", "-oBatchMode=yes"];
        let through = [&guest[..], &["-s", "--", "host", "sftp"]].concat();
        check(|s| s.sharing = Sharing::Through("/run/c%d".into()), RemoteCommand::Sftp, &through);
        check(|s| s.user = Some("u".into()), SERVE, &["-l", "u", "--", "host", &found(" serve --stdio")]);
        check(|s| s.host = "::1".into(), SERVE, &["--", "::1", &found(" serve --stdio")]);
        check(
            |s| {
                s.family = Some(AddressFamily::V6);
                s.config = Some("-f".into());
                s.jump = Some("a,b".into());
                s.port = Some(2222);
                s.identity_files = vec!["id1".into(), "id 2".into()];
                s.options = vec!["Compression=no".into()];
                s.remote_program = "/opt/my tools/sealane".into();
            },
            SERVE,
            &[
                "-6",
                "-F",
                "-f",
                "-J",
                "a,b",
                "-p",
                "2222",
                "-i",
                "id1",
                "-i",
                "id 2",
                "-o",
                "Compression=no",
                "--",
                "host",
                "'/opt/my tools/sealane' serve --stdio",
            ],
        );
        for (program, want) in [
            ("~/bin/sealane", "~/bin/sealane serve --stdio"),
            ("~/my bin/sealane", "~/'my bin/sealane' serve --stdio"),
            ("it's", r"'it'\''s' serve --stdio"),
            ("$(reboot)", "'$(reboot)' serve --stdio"),
            ("a;b", "'a;b' serve --stdio"),
            ("~", "'~' serve --stdio"),
        ] {
            check(|s| s.remote_program = program.into(), SERVE, &["--", "host", want]);
        }
    }

    #[test]
    fn refused_arguments() {
        for host in ["", "-oProxyCommand=x", "-", "a b", "a;b", "$(x)", "a'b", "a\nb", "a@b"] {
            let error = SshCommand::new(host).argv(RemoteCommand::Serve(ServeLeave::default())).unwrap_err();
            assert!(matches!(error, PeerError::SshArgument { what: "host", .. }), "{host}");
        }
        for user in ["", "-l", "a b", "a`b", "a\\", "a;b"] {
            let mut ssh = SshCommand::new("host");
            ssh.user = Some(user.into());
            let error = ssh.argv(RemoteCommand::Serve(ServeLeave::default())).unwrap_err();
            assert!(matches!(error, PeerError::SshArgument { what: "user", .. }), "{user}");
        }
        let mut ssh = SshCommand::new("host");
        ssh.remote_program = OsString::new();
        assert!(ssh.argv(RemoteCommand::Serve(ServeLeave::default())).is_err());
    }

    #[test]
    fn config_lines() {
        let parse = |text: &str| parse_config(text.as_bytes());
        let plain = ResolvedHost { host: "10.0.0.1".into(), ..ResolvedHost::default() };
        let whole = ResolvedHost { user: "me".into(), port: "22".into(), ..plain.clone() };
        assert_eq!(parse("user me\nhostname 10.0.0.1\nport 22\n"), Some(whole));
        assert_eq!(parse("hostname 10.0.0.1\nproxycommand none\n"), Some(plain));
        let proxied = ResolvedHost { host: "b".into(), proxied: true, ..ResolvedHost::default() };
        assert_eq!(parse("hostname b\nproxyjump a\n"), Some(proxied.clone()));
        assert_eq!(parse("hostname b\nproxycommand nc %h %p\n"), Some(proxied));
        let is_shared =
            |lines: &str| parse(&format!("hostname b\n{lines}")).is_some_and(|found| found.shares);
        assert!(!is_shared("controlmaster false\ncontrolpath none\n"));
        for lines in ["controlmaster auto\n", "controlmaster false\ncontrolpath /run/a\n"] {
            assert!(is_shared(lines), "{lines}");
        }
        assert_eq!(parse("usage: ssh"), None);
        assert_eq!(parse("hostname -oProxyCommand=x"), None);
    }

    /// Writes a stand-in for ssh, so that the test needs no network and no configuration, and returns its path.
    fn fake_ssh(dir: &Path, script: &str) -> OsString {
        use std::os::unix::fs::PermissionsExt;
        let path = dir.join("ssh");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.into()
    }

    #[test]
    fn a_stand_in_for_ssh_is_run() {
        let dir = tempfile::tempdir().unwrap();
        let soon = || Instant::now() + Duration::from_secs(20);
        let mut ssh = SshCommand::new("alias");
        ssh.program = fake_ssh(dir.path(), r#"[ "$1 $2 $3" = "-G -- alias" ] && echo hostname real"#);
        let resolved = ssh_resolved_host(&ssh, soon()).unwrap();
        assert_eq!((&*resolved.host, resolved.proxied), ("real", false));

        ssh.program = fake_ssh(dir.path(), "exec sleep 100");
        let error = ssh_resolved_host(&ssh, Instant::now() + Duration::from_millis(50)).unwrap_err();
        assert!(matches!(error, PeerError::Channel(ChannelError::Deadline { .. })), "{error}");

        // The last argument goes through a shell, as in sshd.
        ssh.remote_program = "~/no such/program".into();
        ssh.stderr = StderrMode::Relay(std::sync::Arc::new(|_| ()));
        ssh.program = fake_ssh(dir.path(), r#"for last; do :; done; exec sh -c "$last""#);
        let serve = RemoteCommand::Serve(ServeLeave::default());
        let mut channel = crate::Channel::from_child(ssh.spawn(serve).unwrap()).unwrap();
        let error = channel.recv(soon()).unwrap_err();
        assert!(error.to_string().contains("--remote-program"), "{error}");
        assert_eq!(channel.peer().to_string(), "alias (ssh)");
    }

    #[test]
    fn a_login_ends_with_its_owner_and_tells_its_status() {
        let dir = tempfile::tempdir().unwrap();
        let soon = || Instant::now() + Duration::from_secs(20);
        let mut ssh = SshCommand::new("host");
        let note = dir.path().join("process");
        let script = format!("echo $$ > {0}.new; mv {0}.new {0}; exec sleep 1000", note.display());
        ssh.program = fake_ssh(dir.path(), &script);
        let process = ssh.log_in(Path::new("/run/a%b")).unwrap();
        let until = soon();
        while !note.exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        let held = std::fs::read_to_string(&note).unwrap();
        let is_there = || Path::new("/proc").join(held.trim()).exists();
        assert!(is_there());
        drop(process);
        while is_there() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(!is_there());
        ssh.program = fake_ssh(dir.path(), r#"case "$*" in *-oControlPath=/run/a%%b*-N*) exit 7;; esac"#);
        let error = ssh.log_in(Path::new("/run/a%b")).unwrap().wait(soon()).unwrap_err();
        assert!(
            matches!(error, ChannelError::ChildFailed { status, .. } if status.code() == Some(7)),
            "{error}"
        );
    }

    #[test]
    fn a_shell_that_greets_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let mut ssh = SshCommand::new("host");
        ssh.program =
            fake_ssh(dir.path(), r#"printf 'Welcome to \033[1mhost\033[0m\nYou have "mail"\n'; cat"#);
        let serve = RemoteCommand::Serve(ServeLeave::default());
        let mut channel = crate::Channel::from_child(ssh.spawn(serve).unwrap()).unwrap();
        let error = channel.recv(Instant::now() + Duration::from_secs(20)).unwrap_err();
        assert!(matches!(error, ChannelError::Banner { .. }), "{error}");
        let message = error.to_string();
        let greeting = r#"host (ssh) prints text before sealane starts: "Welcome to \u{1b}[1mhost\u{1b}[0m\nYou have "mail"""#;
        assert!(message.starts_with(greeting), "{message}");
        assert!(message.contains(".bashrc"), "{message}");
    }

    proptest! {
        #[test]
        fn a_shell_undoes_the_quoting(word in prop::collection::vec(1u8.., 1..20)) {
            prop_assume!(!word.starts_with(b"~/"));
            // This is a shell in few lines: outside quotes, only safe bytes and `\'` are allowed.
            let quoted = quote(&word);
            let (mut out, mut inside, mut rest) = (Vec::new(), false, &quoted[..]);
            while let Some((&b, after)) = rest.split_first() {
                rest = after;
                match (inside, b) {
                    (_, b'\'') => inside = !inside,
                    (true, _) => out.push(b),
                    (false, b'\\') => {
                        prop_assert_eq!(rest.first(), Some(&b'\''));
                        out.push(b'\'');
                        rest = &rest[1..];
                    }
                    (false, _) => {
                        prop_assert!(b.is_ascii_alphanumeric() || b"_./+:@%,-".contains(&b));
                        out.push(b);
                    }
                }
            }
            prop_assert!(!inside);
            prop_assert_eq!(out, word);
        }
    }
}
