//! Other programs' tunnels: wireguard-go, boringtun, strongSwan's kernel-libipsec, OpenVPN.
//!
//! Guarantees: a program that is missing, or too old for a comparison, is named with a remedy; its files lie in the
//! given folder.

#[path = "../../../../testing/charon.rs"]
mod charon;

use super::net::{Gate, INNER_MTU, Net, ip, run, write_private};
use crate::LabError;
use crate::error::unavailable;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

/// The program and its path.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// WireGuard by a program that `wg` configures.
    WireGuard { program: PathBuf },
    /// strongSwan, with ESP in UDP in its own process.
    LibIpsec,
    /// OpenVPN, without its kernel module.
    OpenVpn,
}

/// A program that can be compared with.
pub(super) struct Peer {
    pub(super) name: &'static str,
    pub(super) suite: &'static str,
    pub(super) kind: Kind,
    /// The version in its own words.
    pub(super) version: String,
}

/// The first wireguard-go with GSO packets on both sides and fewer locks: Debian 12 has a slower one of 2022.
const WIREGUARD_GO_MIN: u32 = 20_250_522;

/// The plugins that strongSwan needs for IKEv2 with a shared secret, and for ESP in its own process.
const PLUGINS: &str = "random nonce openssl aes gcm hmac kdf pem pkcs1 x509 pubkey constraints kernel-libipsec \
    kernel-netlink socket-default vici";

/// strongSwan's daemon.
const CHARON: &str = "/usr/sbin/charon-systemd";

fn said(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(program).arg(argument).stderr(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).lines().next()?.trim().to_owned())
}

/// Returns the date in `wireguard-go v0.0.20250522`.
fn day(version: &str) -> Option<u32> {
    version.rsplit('.').next()?.get(..8)?.parse().ok()
}

fn wireguard_go() -> Result<Peer, String> {
    let how = "`GOBIN=/usr/local/bin go install golang.zx2c4.com/wireguard@latest` brings one";
    let found = ["wireguard", "wireguard-go"]
        .into_iter()
        .find_map(|program| Some((program, said(program, "--version")?)));
    let (program, version) = found.ok_or_else(|| format!("wireguard-go: not here; {how}"))?;
    if day(&version).is_none_or(|day| day < WIREGUARD_GO_MIN) {
        return Err(format!("{version} is too old to be compared with; {how}"));
    }
    wireguard("wireguard-go", program, version)
}

fn boringtun() -> Result<Peer, String> {
    let version = said("boringtun-cli", "--version");
    let version = version.ok_or("boringtun: not here; `cargo install boringtun-cli` brings it")?;
    wireguard("boringtun", "boringtun-cli", version)
}

/// Returns the peer that a program for WireGuard is, if it can be configured.
fn wireguard(name: &'static str, program: &str, version: String) -> Result<Peer, String> {
    if said("wg", "--version").is_none() {
        return Err(format!("{name}: no wg (wireguard-tools)"));
    }
    Ok(Peer { name, suite: "chacha20-poly1305", kind: Kind::WireGuard { program: program.into() }, version })
}

fn libipsec() -> Result<Peer, String> {
    // The help is used because the daemon would start if asked for its version, and swanctl would connect to a daemon
    // whose socket was left behind.
    let version = said("swanctl", "--help").filter(|_| Path::new(CHARON).exists());
    let version = version.ok_or(
        "libipsec: not here; `apt install charon-systemd strongswan-swanctl libcharon-extra-plugins libstrongswan-standard-plugins` \
         brings it",
    )?;
    Ok(Peer { name: "libipsec", suite: "aes-128-gcm", kind: Kind::LibIpsec, version })
}

fn openvpn() -> Result<Peer, String> {
    let version = said("openvpn", "--version").ok_or("openvpn: not here; `apt install openvpn` brings it")?;
    if said("openssl", "version").is_none() {
        return Err("openvpn: no openssl, which makes its certificates".to_owned());
    }
    let version = version.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    Ok(Peer { name: "openvpn", suite: "aes-128-gcm", kind: Kind::OpenVpn, version })
}

/// Returns all programs that can be compared with here, or the reasons why not.
pub(super) fn peers() -> [Result<Peer, String>; 4] {
    [wireguard_go(), boringtun(), libipsec(), openvpn()]
}

/// Starts a tunnel between the gates of `net`.
pub(super) fn up(
    net: &mut Net,
    kind: &Kind,
    folder: &Path,
    near: &[Gate],
    far: &Gate,
) -> Result<(), LabError> {
    match (kind, near) {
        (Kind::WireGuard { program }, _) => wireguard_up(net, program, folder, near, far),
        (Kind::LibIpsec, [near]) => libipsec_up(net, folder, [near, far]),
        (Kind::OpenVpn, [near]) => openvpn_up(net, folder, [near, far]),
        _ => Err(unavailable("between two ends only")),
    }
}

fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) -> Result<(), LabError> {
    for _ in 0..200 {
        if is_there() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(50));
    }
    Err(unavailable(format_args!("{what} did not come")))
}

/// Waits for the device of a gate, and routes packets to `others` through it.
pub(super) fn lead(net: &Net, gate: &Gate, device: &str, others: &[&Gate]) -> Result<(), LabError> {
    let name = net.name(gate.host);
    wait_for(&format!("the device {device}"), || {
        run("ip", &format!("-n {name} link show {device}")).is_ok()
    })?;
    if let Some(address) = &gate.address {
        ip(&format!("-n {name} addr add {address}/32 dev {device}"))?;
    }
    ip(&format!("-n {name} link set {device} mtu {INNER_MTU} up"))?;
    others.iter().try_for_each(|other| ip(&format!("-n {name} route add {} dev {device}", other.inner)))
}

fn public_key(secret: &Path) -> Result<String, LabError> {
    let file = fs::File::open(secret).map_err(LabError::file("cannot read", secret))?;
    let output = Command::new("wg").arg("pubkey").stdin(file).output();
    let output = output.map_err(|source| LabError::Start { program: "wg".into(), source })?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn wireguard_up(
    net: &mut Net,
    program: &Path,
    folder: &Path,
    near: &[Gate],
    far: &Gate,
) -> Result<(), LabError> {
    let key = |gate: &Gate| folder.join(format!("key{}", gate.host));
    for gate in near.iter().chain([far]) {
        write_private(&key(gate), &run("wg", "genkey")?)?;
    }
    let nears: Vec<&Gate> = near.iter().collect();
    let sides = near.iter().map(|gate| (gate, vec![far])).chain([(far, nears)]);
    for (gate, others) in sides {
        let secret = fs::read_to_string(key(gate)).map_err(LabError::file("cannot read", &key(gate)))?;
        let mut text = format!("[Interface]\nListenPort = 51820\nPrivateKey = {secret}\n");
        for other in &others {
            text += &format!(
                "[Peer]\nPublicKey = {}\nEndpoint = {}:51820\nAllowedIPs = {}\n",
                public_key(&key(other))?,
                other.outer,
                other.inner
            );
        }
        let path = folder.join(format!("wg{}", gate.host));
        write_private(&path, &text)?;
        // All daemons would share one control socket, but `ip netns exec` has given each its own mounts.
        let script = format!(
            "mkdir -p /var/run/wireguard && mount -t tmpfs none /var/run/wireguard || exit; \
             (until wg setconf t0 {} 2>/dev/null; do sleep 0.1; done) & exec {} -f t0",
            path.display(),
            program.display()
        );
        let mut command = net.command(gate.host, "sh", "-c");
        command.arg(script);
        command.env("WG_PROCESS_FOREGROUND", "1").env("LOG_LEVEL", "error");
        // boringtun would go on as the user who has logged in.
        command.env("WG_SUDO", "1").env("WG_LOG_LEVEL", "error");
        net.daemon(command, program)?;
        lead(net, gate, "t0", &others)?;
    }
    Ok(())
}

/// Returns an IKEv2 connection with a shared secret and ESP in UDP.
fn swanctl_conf(own: &Gate, other: &Gate) -> String {
    let (own_id, other_id) = (own.host, other.host);
    format!(
        "connections {{ t {{\n version = 2\n local_addrs = {}\n remote_addrs = {}\n proposals = aes128-sha256-x25519\n \
         encap = yes\n mobike = no\n local {{ auth = psk\n id = p{own_id} }}\n remote {{ auth = psk\n id = p{other_id} }}\n \
         children {{ c {{\n local_ts = {}\n remote_ts = {}\n esp_proposals = aes128gcm16\n mode = tunnel }} }}\n}} }}\n\
         secrets {{ ike-1 {{ id-1 = p{own_id}\n id-2 = p{other_id}\n secret = \"0123456789abcdef0123456789abcdef\" }} }}\n",
        own.outer, other.outer, own.inner, other.inner
    )
}

fn libipsec_up(net: &mut Net, folder: &Path, gates: [&Gate; 2]) -> Result<(), LabError> {
    let at = |gate: &Gate| folder.join(format!("swan{}", gate.host));
    for (own, other) in [(gates[0], gates[1]), (gates[1], gates[0])] {
        let at = at(own);
        for part in ["x509", "x509ca", "private", "conf.d"] {
            let path = at.join("swanctl").join(part);
            fs::create_dir_all(&path).map_err(LabError::file("cannot create", &path))?;
        }
        let [socket, log] = ["vici", "charon.log"].map(|name| at.join(name).to_string_lossy().into_owned());
        let settings = charon::Settings {
            load: PLUGINS,
            socket: &socket,
            log: &log,
            levels: "default = 1",
            plugins: "kernel-libipsec { allow_peer_ts = yes }",
            more: "",
        };
        write_private(&at.join("strongswan.conf"), &settings.text())?;
        write_private(&at.join("swanctl/swanctl.conf"), &swanctl_conf(own, other))?;
        if let Some(address) = &own.address {
            ip(&format!("-n {} addr add {address}/32 dev lo", net.name(own.host)))?;
        }
        let mut command = net.command(own.host, CHARON, "");
        command.env("STRONGSWAN_CONF", at.join("strongswan.conf"));
        net.daemon(command, Path::new(CHARON))?;
    }
    let ask = |gate: &Gate, words: &str| {
        let at = at(gate);
        let mut command = net.command(gate.host, "swanctl", words);
        command.arg("--uri").arg(format!("unix://{}/vici", at.display()));
        command.env("STRONGSWAN_CONF", at.join("strongswan.conf")).env("SWANCTL_DIR", at.join("swanctl"));
        let output =
            command.output().map_err(|source| LabError::Start { program: "swanctl".into(), source })?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let why = said.lines().rfind(|line| !line.starts_with("plugin ")).unwrap_or_default();
        Err(unavailable(format_args!("swanctl {words}: {why}")))
    };
    for gate in gates {
        wait_for("strongSwan's socket", || at(gate).join("vici").exists())?;
        ask(gate, "--load-all")?;
    }
    ask(gates[0], "--initiate --child c")?;
    // Its device reader truncates longer packets.
    gates.iter().try_for_each(|gate| {
        let name = net.name(gate.host);
        wait_for("ipsec0", || run("ip", &format!("-n {name} link show ipsec0")).is_ok())?;
        ip(&format!("-n {name} link set ipsec0 mtu {INNER_MTU}"))
    })
}

fn openvpn_up(net: &mut Net, folder: &Path, gates: [&Gate; 2]) -> Result<(), LabError> {
    let file = |gate: &Gate, kind: &str| folder.join(format!("vpn{}.{kind}", gate.host));
    let mut prints = Vec::new();
    for gate in gates {
        let (key, certificate) = (file(gate, "key"), file(gate, "crt"));
        let made = format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=host{} -keyout {} -out {}",
            gate.host,
            key.display(),
            certificate.display()
        );
        run("openssl", &made)?;
        let print =
            run("openssl", &format!("x509 -in {} -noout -fingerprint -sha256", certificate.display()))?;
        prints.push(print.rsplit('=').next().unwrap_or_default().to_owned());
    }
    let [near, far] = gates;
    let common = format!(
        "--dev t0 --dev-type tun --proto udp --port 1194 --data-ciphers AES-128-GCM --disable-dco --tun-mtu {INNER_MTU} --mssfix 0 \
         --txqueuelen 1000 --verb 1 --auth-nocache"
    );
    let roles = [
        (far, near, 0, "--tls-server --dh none".to_owned()),
        (near, far, 1, format!("--tls-client --remote {}", far.outer)),
    ];
    for (own, other, print, role) in roles {
        let words = format!(
            "{common} {role} --local {} --cert {} --key {} --peer-fingerprint {}",
            own.outer,
            file(own, "crt").display(),
            file(own, "key").display(),
            prints[print]
        );
        let command = net.command(own.host, "openvpn", &words);
        net.daemon(command, Path::new("openvpn"))?;
        lead(net, own, "t0", &[other])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_tell_their_day() {
        assert_eq!(day("wireguard-go v0.0.20250522"), Some(20_250_522));
        assert_eq!(day("wireguard-go 0.0.20220316"), Some(20_220_316));
        assert_eq!(day("wireguard-go"), None);
    }
}
