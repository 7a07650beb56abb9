//! A strongSwan over a kernel's own ESP (XFRM): in a guest of user-mode Linux, whose only device is a tap of a namespace.
//! The guest's root is this machine's, so that it runs this machine's strongSwan.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::{Net, namespaces::ip, settings, strongswan};
use crate::program::{Running, eventually, wait_for, write_script};

/// The folder in which `cargo xtask peers` unpacks the kernel and its modules.
const ROOT: &str = "/usr/local/lib/sealane-peers/uml";
/// The kernel's ESP and AH, AES-GCM, and the random numbers that its IVs begin with.
const MODULES: &str =
    "xfrm_user esp4 ah4 gcm ctr ghash-generic seqiv hmac sha512_generic jitterentropy_rng drbg";

/// Returns the reason why it cannot run here.
pub(crate) fn missing() -> Option<String> {
    let is_there = Path::new(ROOT).join("usr/bin/linux.uml").exists();
    strongswan::missing().or_else(|| (!is_there).then(|| format!("no user-mode Linux in {ROOT}")))
}

/// Returns the reason why user-mode Linux does not start on this processor, whatever is installed: Linux 6.1's has no room for
/// the registers of AMX, and ends in `put_fp_registers` before its first process.
pub(crate) fn refused_by_processor() -> Option<&'static str> {
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    processor.contains(" amx_tile").then_some("user-mode Linux does not start on a processor with AMX")
}

/// A running guest, which ends with the value.
pub(crate) struct Guest {
    process: Running,
    folder: PathBuf,
}

impl Guest {
    /// Starts a guest beside `host`, at 10.90.0.2 on a link whose other end is `host` at 10.90.0.1, and in it a strongSwan with
    /// the text of swanctl.conf(5). `inner` is another address of the guest.
    pub(crate) fn start(net: &Net, host: &str, inner: &str, connections: &str) -> Self {
        let name = net.name(host);
        ip(&format!("-n {name} tuntap add t0 mode tap"));
        ip(&format!("-n {name} address add 10.90.0.1/24 dev t0"));
        ip(&format!("-n {name} link set t0 up"));
        let folder = net.folder.path().join("guest");
        for sub in ["x509", "x509ca", "private"] {
            fs::create_dir_all(folder.join("swanctl").join(sub)).expect("a folder");
        }
        let shown = folder.display();
        let configuration = settings::Settings {
            load: "random nonce openssl pem pkcs1 pkcs8 x509 pubkey constraints kdf hmac kernel-netlink socket-default vici",
            socket: "/run/vici",
            log: &format!("{shown}/log"),
            levels: "default = 1",
            plugins: "",
            more: "",
        };
        fs::write(folder.join("strongswan.conf"), configuration.text()).expect("a file");
        fs::write(folder.join("swanctl/swanctl.conf"), connections).expect("a file");
        // Its clock and its processes are the guest's own; it writes what the kernel has, until it is told to end.
        let script = format!(
            "#!/bin/sh
exec >{shown}/out 2>&1
export PATH=/usr/sbin:/usr/bin:/sbin:/bin STRONGSWAN_CONF={shown}/strongswan.conf SWANCTL_DIR={shown}/swanctl
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t tmpfs run /run
for module in {MODULES}; do {ROOT}/modprobe -d {ROOT} $module; done
ip link set lo up; ip address add {inner}/32 dev lo
ip link set vec0 up; ip address add 10.90.0.2/24 dev vec0
charon-systemd &
until swanctl --load-all --uri unix:///run/vici; do sleep 0.1; done
touch {shown}/up
until [ -e {shown}/end ]; do
    ip -s xfrm state >{shown}/new; mv {shown}/new {shown}/state; sleep 0.2
done
poweroff -f
"
        );
        let init = folder.join("init");
        write_script(&init, &script);
        let console = fs::File::create(folder.join("console")).expect("a file");
        let mut command = net.command(host, &format!("{ROOT}/usr/bin/linux.uml"), "mem=192M root=/dev/root");
        command.args(["rootfstype=hostfs", "rootflags=/", "rw", "con=null", "con0=null,fd:1"]);
        command.args([&format!("init={}", init.display()), "vec0:transport=tap,ifname=t0,depth=64"]);
        command.stdin(Stdio::null()).stdout(console.try_clone().expect("a file")).stderr(console);
        let own = Self { process: Running(command.spawn().expect("it starts")), folder };
        wait_for("the guest's strongSwan", || own.folder.join("up").exists());
        own
    }

    /// Returns the associations of the guest's kernel, a moment ago.
    pub(crate) fn associations(&self) -> String {
        fs::read_to_string(self.folder.join("state")).unwrap_or_default()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = fs::write(self.folder.join("end"), "");
        eventually(|| !matches!(self.process.try_wait(), Ok(None)));
    }
}
