//! Scripts in their own mount, network and process namespaces, as root of a system that has nothing except this
//! program.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::{path, text};

/// The beginning of every script: mounts of its own, and `/run` and `/etc` that are empty except for a list of users.
const PRELUDE: &str = r#"
set -eu
mount --make-rprivate /
mount -t tmpfs tmpfs /run
mkdir -p /run/netns "$SCRATCH/etc/sealane"
[ -e "$SCRATCH/etc/passwd" ] || echo 'root:x:0:0:root:/root:/bin/sh' >"$SCRATCH/etc/passwd"
mount --bind "$SCRATCH/etc" /etc
ip link set lo up
cd "$SCRATCH"

# two_hosts: namespaces `a` and `b` with a cable between them, 192.0.2.1 and 192.0.2.2.
two_hosts() {
    ip netns add a
    ip netns add b
    ip link add o0 netns a type veth peer name o0 netns b
    for host in a b; do
        ip -n $host link set lo up
        ip -n $host link set o0 up
    done
    ip -n a address add 192.0.2.1/24 dev o0
    ip -n b address add 192.0.2.2/24 dev o0
}
# on HOST COMMAND: in a namespace.
on() { host=$1; shift; ip netns exec "$host" "$@"; }
# eventually COMMAND: until it succeeds.
eventually() {
    for attempt in $(seq 1 300); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.1
    done
    echo "never: $*" >&2
    return 1
}
"#;

/// Returns the reason why such scripts cannot run here.
pub(crate) fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("namespaces of one's own take root".to_owned());
    }
    if !Path::new("/dev/net/tun").exists() {
        return Some("there is no /dev/net/tun".to_owned());
    }
    let has = |tool: &&str| {
        let found =
            Command::new("sh").args(["-c", &format!("command -v {tool}")]).stdout(Stdio::null()).status();
        found.is_ok_and(|status| status.success())
    };
    let tools = ["unshare", "ip", "bash", "ping", "setpriv"];
    tools.iter().find(|tool| !has(tool)).map(|tool| format!("there is no {tool}"))
}

/// Runs a script; the program is `sealane` in its PATH, which begins with the folder `bin` of the scratch folder.
pub(crate) fn run(scratch: &Path, script: &str) -> Output {
    let bin = scratch.join("bin");
    fs::create_dir_all(&bin).expect("a folder");
    let program = fs::canonicalize(path()).expect("the program");
    if fs::symlink_metadata(bin.join("sealane")).is_err() {
        symlink(program, bin.join("sealane")).expect("a link");
    }
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c"]);
    command.arg(format!("{PRELUDE}\n{script}")).stdin(Stdio::null());
    command.env_clear().env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", bin.display()));
    command.env("SCRATCH", scratch).output().expect("unshare runs")
}

/// Runs a script that must succeed. Returns its standard output.
#[track_caller]
pub(crate) fn good(scratch: &Path, script: &str) -> String {
    let output = run(scratch, script);
    let (said, complained) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{}\n{said}\n{complained}", output.status);
    said.to_owned()
}
