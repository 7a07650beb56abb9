//! Namespaces, links and gateways of one tunnel under test.
//!
//! Guarantees: packets stay within namespaces that are made here; daemons and namespaces go when a net is dropped.

use crate::LabError;
use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// How hosts and gateways stand (figures 2 and 3 of the 2002 study).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Topology {
    /// Two hosts, which are their own gateways.
    HostHost,
    /// Two hosts, each behind a gateway.
    Gateways,
}

impl Topology {
    /// Both.
    pub const ALL: [Self; 2] = [Self::HostHost, Self::Gateways];

    /// As on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HostHost => "host-host",
            Self::Gateways => "gateways",
        }
    }
}

/// In which `/proc` counts CPU time, on every architecture of this day.
const TICKS_PER_SECOND: f64 = 100.0;
/// What fits 1,500 bytes outside under any suite.
const INNER_MTU: u32 = 1400;
/// The most that a daemon may say before it is up.
const SAID_BYTES_MAX: u64 = 4096;

/// What stands between the hosts.
#[derive(Clone, Debug)]
pub(super) enum Between {
    /// Nothing: the links alone.
    Clear,
    /// Our gateways with this suite, and the tier that is forced, if one is.
    Ours { suite: String, tier: Option<&'static str> },
    /// wireguard-go.
    WireGuard { program: PathBuf },
}

/// Two hosts with something between them.
pub(super) struct Net {
    names: Vec<String>,
    daemons: Vec<Child>,
    /// Where the second host is reached.
    pub(super) server: &'static str,
}

fn unavailable(what: impl std::fmt::Display) -> LabError {
    LabError::Unavailable(what.to_string())
}

fn run(program: &str, arguments: &str) -> Result<String, LabError> {
    let output = Command::new(program)
        .args(arguments.split_whitespace())
        .output()
        .map_err(|source| LabError::Start { program: program.into(), source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(unavailable(format_args!("{program} {arguments}: {}", said.trim())))
}

fn ip(arguments: &str) -> Result<(), LabError> {
    run("ip", arguments).map(drop)
}

fn write_private(path: &Path, text: &str) -> Result<(), LabError> {
    fs::write(path, text).map_err(LabError::file("cannot write", path))?;
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(LabError::file("cannot protect", path))
}

impl Net {
    /// Brings it all up. Files go to `folder`.
    pub(super) fn up(
        program: &Path,
        folder: &Path,
        topology: Topology,
        between: &Between,
    ) -> Result<Self, LabError> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let hosts = if topology == Topology::HostHost { 2 } else { 4 };
        let tag = format!("sllab{}-{number}", std::process::id());
        let mut net = Self { names: Vec::new(), daemons: Vec::new(), server: "10.94.2.1" };
        for host in 0..hosts {
            let name = format!("{tag}-{host}");
            ip(&format!("netns add {name}"))?;
            net.names.push(name.clone());
            ip(&format!("-n {name} link set lo up"))?;
            run("ip", &format!("netns exec {name} sysctl -qw net.ipv4.ip_forward=1"))?;
        }
        let folder = folder.join(number.to_string());
        fs::create_dir_all(&folder).map_err(LabError::file("cannot create", &folder))?;
        // The hosts at both ends; what stands between them, in their order.
        let gates = if topology == Topology::HostHost { [0, 1] } else { [1, 2] };
        net.link(gates[0], "o0", "192.0.2.1/24", gates[1], "o1", "192.0.2.2/24")?;
        if topology == Topology::Gateways {
            net.server = "10.94.2.2";
            net.link(0, "h0", "10.94.1.2/24", 1, "h1", "10.94.1.1/24")?;
            net.link(3, "h2", "10.94.2.2/24", 2, "h3", "10.94.2.1/24")?;
            for (host, gateway) in [(0, "10.94.1.1"), (3, "10.94.2.1")] {
                ip(&format!("-n {} route add default via {gateway}", net.names[host]))?;
            }
        }
        for (end, host) in gates.into_iter().enumerate() {
            let (own, other) = (end + 1, 2 - end);
            let name = net.names[host].clone();
            let is_host = topology == Topology::HostHost;
            match between {
                Between::Clear => {
                    if is_host {
                        ip(&format!("-n {name} addr add 10.94.{own}.1/32 dev lo"))?;
                    }
                    ip(&format!("-n {name} route add 10.94.{other}.0/24 via 192.0.2.{other}"))?;
                }
                Between::Ours { suite, tier } => {
                    let address = if is_host { format!("\"10.94.{own}.1/32\"") } else { String::new() };
                    net.ours(program, &folder, end, host, suite, *tier, &address)?;
                }
                Between::WireGuard { program } => {
                    net.wireguard(program, &folder, end, host)?;
                    if is_host {
                        ip(&format!("-n {name} addr add 10.94.{own}.1/32 dev t0"))?;
                    }
                    ip(&format!("-n {name} link set t0 mtu {INNER_MTU} up"))?;
                    ip(&format!("-n {name} route add 10.94.{other}.0/24 dev t0"))?;
                }
            }
        }
        Ok(net)
    }

    fn link(
        &self,
        one: usize,
        one_device: &str,
        one_address: &str,
        other: usize,
        other_device: &str,
        other_address: &str,
    ) -> Result<(), LabError> {
        let (one, other) = (&self.names[one], &self.names[other]);
        ip(&format!("link add {one_device} netns {one} type veth peer name {other_device} netns {other}"))?;
        for (name, device, address) in [(one, one_device, one_address), (other, other_device, other_address)]
        {
            ip(&format!("-n {name} addr add {address} dev {device}"))?;
            ip(&format!("-n {name} link set {device} up"))?;
        }
        Ok(())
    }

    /// One of our gateways, with keys of its own for every tunnel.
    #[allow(clippy::too_many_arguments)]
    fn ours(
        &mut self,
        program: &Path,
        folder: &Path,
        end: usize,
        host: usize,
        suite: &str,
        tier: Option<&str>,
        address: &str,
    ) -> Result<(), LabError> {
        let folder = folder.join(end.to_string());
        fs::create_dir_all(&folder).map_err(LabError::file("cannot create", &folder))?;
        let bytes: usize =
            super::material_bytes(suite).ok_or_else(|| unavailable(format_args!("no suite {suite}")))?;
        for (name, seed) in [("send.key", 3 + end), ("receive.key", 4 - end)] {
            let key: String = (0..bytes).map(|at| format!("{:02x}", (at * 29 + seed * 101) % 256)).collect();
            write_private(&folder.join(name), &key)?;
        }
        let (own, other) = (end + 1, 2 - end);
        let site = format!(
            "device = \"t0\"\nlisten = \"192.0.2.{own}:4500\"\nmtu = {INNER_MTU}\naddresses = [{address}]\n[[peers]]\n\
             name = \"other\"\nendpoint = \"192.0.2.{other}:4500\"\nnetworks = [\"10.94.{other}.0/24\"]\n[peers.manual]\n\
             suite = \"{suite}\"\nsend = {{ spi = {}, key-file = \"send.key\" }}\n\
             receive = {{ spi = {}, key-file = \"receive.key\" }}\n",
            0x1000 + end,
            0x1001 - end,
        );
        let path = folder.join("site.toml");
        write_private(&path, &site)?;
        let mut command = self.command(host, &program.to_string_lossy(), "tunnel up");
        command.arg(&path).args(["--allow-legacy", "--allow-manual-counter"]);
        command.env("SEALANE_RUN", folder.join("run")).stdin(Stdio::null()).stdout(Stdio::null());
        if let Some(tier) = tier {
            command.env("SEALANE_TIER", tier);
        }
        let start = |source| LabError::Start { program: program.into(), source };
        let mut child = command.stderr(Stdio::piped()).spawn().map_err(start)?;
        let said = child.stderr.take().map(|stderr| {
            let mut line = String::new();
            // It says one line when it is up, or why it is not.
            let _ = BufReader::new(stderr.take(SAID_BYTES_MAX)).read_line(&mut line);
            line
        });
        self.daemons.push(child);
        let said = said.unwrap_or_default();
        if said.contains(" is up") { Ok(()) } else { Err(unavailable(said.trim())) }
    }

    fn wireguard(&mut self, program: &Path, folder: &Path, end: usize, host: usize) -> Result<(), LabError> {
        let keys = ["a", "b"].map(|name| folder.join(name));
        for key in &keys {
            if !key.exists() {
                write_private(key, &run("wg", "genkey")?)?;
            }
        }
        let [own, theirs] = [&keys[end], &keys[1 - end]];
        let secret = fs::read_to_string(own).map_err(LabError::file("cannot read", own))?;
        let theirs = File::open(theirs).map_err(LabError::file("cannot read", theirs))?;
        let public = Command::new("wg").arg("pubkey").stdin(theirs).output();
        let public = public.map_err(|source| LabError::Start { program: "wg".into(), source })?.stdout;
        let public = String::from_utf8_lossy(&public);
        let other = 2 - end;
        let path = folder.join(format!("wg{end}"));
        write_private(
            &path,
            &format!(
                "[Interface]\nListenPort = 51820\nPrivateKey = {secret}\n[Peer]\nPublicKey = {}\n\
                 Endpoint = 192.0.2.{other}:51820\nAllowedIPs = 10.94.{other}.0/24\n",
                public.trim(),
            ),
        )?;
        // Both daemons would have one control socket; `ip netns exec` has given each mounts of its own.
        let script = format!(
            "mkdir -p /var/run/wireguard && mount -t tmpfs none /var/run/wireguard || exit; \
             (until wg setconf t0 {} 2>/dev/null; do sleep 0.1; done) & exec {} -f t0",
            path.display(),
            program.display()
        );
        let mut command = self.command(host, "sh", "-c");
        command.arg(script).env("WG_PROCESS_FOREGROUND", "1").env("LOG_LEVEL", "error");
        let daemon = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        self.daemons.push(daemon.map_err(|source| LabError::Start { program: program.into(), source })?);
        let name = self.names[host].clone();
        for _ in 0..100 {
            if run("ip", &format!("-n {name} link show t0")).is_ok() {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        Err(unavailable("wireguard-go made no device"))
    }

    /// A command in the namespace of a host.
    fn command(&self, host: usize, program: &str, arguments: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.names[host], program]).args(arguments.split_whitespace());
        command
    }

    /// On the first host.
    pub(super) fn client(&self, program: &str, arguments: &str) -> Command {
        self.command(0, program, arguments)
    }

    /// On the last one.
    pub(super) fn server(&self, program: &str, arguments: &str) -> Command {
        self.command(self.names.len() - 1, program, arguments)
    }

    /// The last host's namespace, as a file.
    pub(super) fn server_namespace(&self) -> PathBuf {
        Path::new("/run/netns").join(&self.names[self.names.len() - 1])
    }

    /// CPU seconds that the daemons have used.
    pub(super) fn cpu_seconds(&self) -> f64 {
        let used = |daemon: &Child| {
            let stat = fs::read_to_string(format!("/proc/{}/stat", daemon.id())).unwrap_or_default();
            let behind = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
            let field = |at: usize| behind.split(' ').nth(at).and_then(|field| field.parse::<f64>().ok());
            (field(11).unwrap_or_default() + field(12).unwrap_or_default()) / TICKS_PER_SECOND
        };
        self.daemons.iter().map(used).sum()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
        }
    }
}
