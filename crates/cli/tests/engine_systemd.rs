//! The engine and a tunnel under a real systemd, by the units, the policy and the scripts of the packages, with servers that sign with the
//! engine: a copy of this machine's own system, in namespaces of its own, of which nothing stays. `cargo xtask packages` does the same in a bare system.

#[path = "../../../testing/skip.rs"]
mod skip;

use skip::{skip, unless};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes the copy, puts the package's files into it, and starts systemd there.
const BOOT: &str = r#"
set -eu
work=$1 sources=$2 program=$3 libraries=$4 part=$5
mount -t tmpfs -o size=1g tmpfs "$work"
mkdir "$work/upper" "$work/below" "$work/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$work/upper,workdir=$work/below" "$work/root"
root=$work/root
# Nothing of this machine's own services.
rm -rf "$root/etc/systemd/system" "$root/srv"
mkdir -p "$root/etc/systemd/system" "$root/srv" "$root/etc/sealane" "$root/usr/lib/sealane" "$root/usr/share/sealane"
chmod 755 "$root"
cp "$program" "$root/usr/bin/sealane"
test -z "$libraries" || cp "$libraries"/libsealane_provider.so "$root/usr/lib/sealane/sealane-provider.so"
cp "$sources"/packaging/sealane-engine.service "$sources"/packaging/sealane-engine.socket "$root/usr/lib/systemd/system/"
cp "$sources"/packaging/sealane-tunnel@.service "$root/usr/lib/systemd/system/"
cp "$sources"/packaging/engine.toml "$root/etc/sealane/"
cp "$sources"/packaging/openssl-provider.cnf "$root/usr/share/sealane/"
cp "$sources/xtask/src/package/$part.sh" "$root/"
sed '/^mkdir -p .srv.trial$/,$d' "$sources"/xtask/src/package/trial.sh >"$root/trial.sh"
echo "mkdir -p /srv/trial; quick=1; . /$part.sh" >>"$root/trial.sh"
mount --bind /dev "$root/dev"
for package in debian debian-engine; do
    chroot "$root" sh -s configure <"$sources/packaging/$package/postinst"
done
umount "$root/dev"
sh "$sources"/xtask/src/package/boot.sh "$root"
"#;

/// Returns the reason why a system with these programs cannot be started here.
fn missing(programs: &[&str]) -> Option<String> {
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    if !is_root {
        return Some("only root may make namespaces and mounts".to_owned());
    }
    let absent = ["/lib/systemd/systemd", "/usr/sbin/adduser"].iter().chain(programs);
    if let Some(absent) = absent.into_iter().find(|program| !Path::new(program).exists()) {
        return Some(format!("no {absent}"));
    }
    let has_cgroups = fs::read_to_string("/proc/mounts").is_ok_and(|mounts| mounts.contains(" cgroup2 rw"));
    (!has_cgroups).then(|| "no control groups of version 2 that may be written".to_owned())
}

/// Tries a part of the package. Returns what was told.
fn try_out(part: &str, libraries: &Path) -> String {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let work = tempfile::tempdir().expect("a folder");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", BOOT, "sh"]);
    command.arg(work.path()).arg(sources).arg(env!("CARGO_BIN_EXE_sealane")).arg(libraries).arg(part);
    let output = command.output().expect("it runs");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{told}{}", String::from_utf8_lossy(&output.stderr));
    told
}

#[test]
fn servers_sign_under_systemd() {
    let Some(()) = unless(missing(&["/usr/sbin/nginx", "/usr/sbin/haproxy"])) else { return };
    let program = PathBuf::from(env!("CARGO_BIN_EXE_sealane"));
    let built = program.parent().expect("a folder");
    // Cargo puts it into the first of them before tests, and into the other one when all is built.
    let mut places = [built.join("deps"), built.to_owned()].into_iter();
    let Some(libraries) = places.find(|place| place.join("libsealane_provider.so").exists()) else {
        return skip("no provider: build the whole workspace");
    };
    let told = try_out("engine", &libraries);
    assert!(told.contains("HAProxy in its jail"), "{told}");
}

/// It reads its files again, forwards for its interfaces, and leaves nothing, within the sandbox of its unit.
#[test]
fn a_tunnel_runs_and_reloads_under_systemd() {
    let Some(()) = unless(missing(&["/usr/sbin/ip"])) else { return };
    let told = try_out("tunnel", Path::new(""));
    assert!(told.contains("a site file that is wrong"), "{told}");
}
