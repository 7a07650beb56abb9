//! strongSwan as the gateway of a namespace, with its ESP in user space (kernel-libipsec), so that the kernel needs
//! no IPsec.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::{Net, settings};
use crate::program::{Ends, Running, text, wait_for};

/// Returns the reason why it cannot run here.
pub(crate) fn missing() -> Option<String> {
    let has = |program: &&str| {
        ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].iter().any(|at| Path::new(at).join(program).exists())
    };
    let program = ["charon-systemd", "swanctl"].into_iter().find(|program| !has(program));
    super::missing().or_else(|| program.map(|program| format!("strongSwan's {program} is missing")))
}

/// The folder in which `cargo xtask peers` unpacks a strongSwan with ML-KEM.
const NEWER: &str = "/usr/local/lib/sealane-peers/strongswan";

/// Returns the reason why a strongSwan with ML-KEM cannot run here.
pub(crate) fn newer_is_missing() -> Option<String> {
    let is_there = Path::new(NEWER).join("usr/sbin/charon-systemd").exists();
    missing().or_else(|| (!is_there).then(|| format!("no strongSwan in {NEWER}")))
}

/// Returns the reason why a strongSwan cannot prove users to us here.
pub(crate) fn users_are_missing() -> Option<String> {
    let plugins = ["eap-mschapv2", "eap-tls"];
    let has = |name: &&str| Path::new(&format!("/usr/lib/ipsec/plugins/libstrongswan-{name}.so")).exists();
    let plugin = plugins.iter().find(|name| !has(name));
    missing().or_else(|| plugin.map(|name| format!("strongSwan's plugin {name} is missing")))
}

/// strongSwan in a host of a [`Net`], which ends it.
pub(crate) struct StrongSwan {
    host: &'static str,
    folder: PathBuf,
}

impl StrongSwan {
    /// Starts it with the text of swanctl.conf(5); `prepare` first puts files into its folder.
    pub(crate) fn start(
        net: &mut Net,
        host: &'static str,
        connections: &str,
        prepare: impl FnOnce(&Path),
    ) -> Self {
        Self::start_from((None, "no"), net, host, connections, prepare)
    }

    /// Starts a strongSwan with ML-KEM.
    pub(crate) fn start_newer(net: &mut Net, host: &'static str, connections: &str) -> Self {
        Self::start_from((Some(NEWER), "no"), net, host, connections, |_| {})
    }

    /// Starts a strongSwan that sends ESP without UDP, which version 5.9 cannot.
    pub(crate) fn start_plain(net: &mut Net, host: &'static str, connections: &str) -> Self {
        Self::start_from((Some(NEWER), "yes"), net, host, connections, |_| {})
    }

    fn start_from(
        (root, is_plain): (Option<&str>, &str),
        net: &mut Net,
        host: &'static str,
        connections: &str,
        prepare: impl FnOnce(&Path),
    ) -> Self {
        let folder = net.folder.path().join(format!("{host}.strongswan"));
        for sub in ["x509", "x509ca", "private"] {
            fs::create_dir_all(folder.join("swanctl").join(sub)).expect("a folder");
        }
        prepare(&folder.join("swanctl"));
        for setting in ["all", "default"] {
            net.run(host, "sysctl", &format!("-qw net.ipv4.conf.{setting}.rp_filter=0")).ends(0);
        }
        let at = |name: &str| folder.join(name).display().to_string();
        let configuration = settings::Settings {
            load: "random nonce openssl pem pkcs1 pkcs8 x509 revocation pubkey constraints kdf hmac eap-identity eap-mschapv2 \
                   eap-tls kernel-libipsec kernel-netlink socket-default vici",
            socket: &at("vici"),
            log: &at("log"),
            levels: "default = 1",
            plugins: &format!("kernel-libipsec {{\n allow_peer_ts = yes\n raw_esp = {is_plain}\n }}"),
            // Version 5.9 omits a message of TLS 1.3 in EAP (RFC 9190, section 2.5).
            more: "tls {\n version_max = 1.2\n }",
        };
        fs::write(folder.join("strongswan.conf"), configuration.text()).expect("a file");
        fs::write(folder.join("swanctl/swanctl.conf"), connections).expect("a file");
        let out = fs::File::create(folder.join("out")).expect("a file");
        let mut command = match root {
            None => net.command(host, "charon-systemd", ""),
            // It runs in a root of its own, but with this machine's temporary files, which contain its configuration.
            Some(root) => {
                let mut command = net.command(host, "unshare", "--mount sh -c");
                command.args([
                    "mount --bind /dev $0/dev && mount -t proc proc $0/proc && mount --bind /tmp $0/tmp && mount -t tmpfs run $0/run \
                     && exec chroot $0 /usr/sbin/charon-systemd",
                    root,
                ]);
                command
            }
        };
        command.env("STRONGSWAN_CONF", folder.join("strongswan.conf"));
        command.stdin(Stdio::null()).stdout(out.try_clone().expect("a file")).stderr(out);
        net.children.push(Running(command.spawn().expect("it starts")));
        let own = Self { host, folder };
        wait_for("strongSwan's control socket", || own.folder.join("vici").exists());
        // The socket exists a moment before the process listens on it.
        let is_loaded = || own.try_control(net, "--load-all").status.success();
        wait_for("strongSwan's taking its configuration", is_loaded);
        own
    }

    fn command(&self, net: &Net, arguments: &str) -> Command {
        let mut command = net.command(self.host, "swanctl", arguments);
        command.args(["--uri", &format!("unix://{}", self.folder.join("vici").display())]);
        command.env("STRONGSWAN_CONF", self.folder.join("strongswan.conf"));
        command.env("SWANCTL_DIR", self.folder.join("swanctl"));
        command
    }

    /// Runs a command of swanctl, and returns its output whether it succeeds or not.
    pub(crate) fn try_control(&self, net: &Net, arguments: &str) -> Output {
        self.command(net, arguments).output().expect("swanctl runs")
    }

    /// Runs a command of swanctl, and returns its output.
    #[track_caller]
    pub(crate) fn control(&self, net: &Net, arguments: &str) -> String {
        let output = self.try_control(net, arguments);
        let said = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "swanctl {arguments}: {said}\n{}", self.log());
        said
    }

    pub(crate) fn associations(&self, net: &Net) -> String {
        self.control(net, "--list-sas")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}
