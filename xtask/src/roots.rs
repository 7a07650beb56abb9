//! Bare systems for tests: of README's promises on a machine with nothing else, and of the packages after their
//! installation.
//!
//! A root is a folder that `debootstrap` has filled, with the requested packages and no others. Toolchain and sources
//! are mounted into it, read-only except for a build folder; mounts are in a namespace of their own, and end with it.

use anyhow::{Context, Result, ensure};
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

const MIRROR: &str = "http://deb.debian.org/debian";
const RELEASE: &str = "bookworm";

/// README's requirements alone: a C compiler, with the headers of the C library. The toolchain is mounted.
const MINIMAL: &[&str] = &["gcc", "libc6-dev"];

/// Headers of libraries that a build script might find and use by mistake.
const CROWDED: &[&str] = &[
    "gcc",
    "g++",
    "cmake",
    "libc6-dev",
    "libssl-dev",
    "libgnutls28-dev",
    "libgcrypt20-dev",
    "libnettle8",
    "nettle-dev",
    "libsodium-dev",
    "libb2-dev",
    "libxxhash-dev",
    "libzstd-dev",
    "liblz4-dev",
    "zlib1g-dev",
    "libcap-dev",
    "libacl1-dev",
    "libattr1-dev",
    "liburing-dev",
    "libbpf-dev",
    "libpcap-dev",
    "libnuma-dev",
    "libjemalloc-dev",
    "linux-libc-dev",
];

/// The path of the sources in a root. No file may name the checkout that contains it, so this is a path that no file
/// names.
const CHECKOUT: &str = "srv/sources-under-test";

/// Set in a process with a mount namespace of its own.
const UNSHARED: &str = "SEALANE_XTASK_UNSHARED";

/// A mount that is removed when dropped.
struct Mount(PathBuf);

impl Mount {
    /// Mounts `from` in `root` at the same path.
    fn bind(from: &Path, root: &Path, is_writable: bool) -> Result<Self> {
        let to = root.join(from.strip_prefix("/").context("an absolute path")?);
        fs::create_dir_all(&to).with_context(|| format!("making {}", to.display()))?;
        run(Command::new("mount").arg("--rbind").arg(from).arg(&to))?;
        let mount = Self(to);
        run(Command::new("mount").args(["--make-rslave"]).arg(&mount.0))?;
        if !is_writable {
            run(Command::new("mount").args(["-o", "remount,bind,ro"]).arg(&mount.0))?;
        }
        Ok(mount)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        // It is removed lazily: a program that still runs there keeps it until it ends.
        let _ = Command::new("umount").args(["--recursive", "--lazy"]).arg(&self.0).status();
    }
}

pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = format!("{command:?}");
    let status = command.status().with_context(|| format!("running {shown}"))?;
    ensure!(status.success(), "{shown} failed: {status}");
    Ok(())
}

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Returns a root with these packages, which is made if it is missing.
pub(crate) fn make(folder: &Path, packages: &[&str]) -> Result<()> {
    ensure!(is_root(), "only root may change roots");
    let made = fs::read_to_string(folder.join("made")).unwrap_or_default();
    if folder.join("usr/bin/dpkg").exists() && made == packages.join("\n") {
        return Ok(());
    }
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
    let mut bootstrap = Command::new("debootstrap");
    bootstrap.arg("--variant=minbase").arg(format!("--include={}", packages.join(",")));
    bootstrap.arg(RELEASE).arg(folder).arg(MIRROR).stdout(std::process::Stdio::null());
    run(&mut bootstrap).context("debootstrap makes the root (Debian: debootstrap)")?;
    fs::write(folder.join("made"), packages.join("\n")).context("marking the root as made")
}

/// Returns a command in a root, with only the necessary part of this environment.
pub(crate) fn inside(root: &Path, program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new("chroot");
    command
        .arg(root)
        .arg("/usr/bin/env")
        .arg("-i")
        .arg("PATH=/usr/sbin:/usr/bin:/sbin:/bin")
        .arg("LC_ALL=C.UTF-8");
    command.arg(program);
    command
}

/// README's commands to install and to test.
const COMMANDS: &[&[&str]] = &[&["install", "--path", "crates/cli", "--locked"], &["test", "--workspace"]];

/// Runs README's two commands in a root with only Rust and a C compiler, and in one with many other libraries'
/// headers; or in the named one of them.
///
/// It runs in a mount namespace of its own: however it ends, no mount outlives it, so that a root can be removed
/// without a check for mounts.
pub(crate) fn try_readme(sources: &Path, only: Option<&str>) -> Result<()> {
    ensure!(is_root(), "only root may change roots");
    let roots = [("minimal", MINIMAL), ("crowded", CROWDED)];
    if let Some(only) = only {
        ensure!(
            roots.iter().any(|(name, _)| *name == only),
            "there are the roots minimal and crowded, and no {only:?}"
        );
    }
    if env::var_os(UNSHARED).is_none() {
        let own = env::current_exe().context("this program")?;
        let mut apart = Command::new("unshare");
        apart
            .args(["--mount", "--propagation", "private"])
            .arg(own)
            .arg("chroot")
            .args(only)
            .env(UNSHARED, "1");
        return run(apart.current_dir(sources));
    }
    for (name, packages) in roots {
        if only.is_some_and(|only| only != name) {
            continue;
        }
        let root = sources.join("target/roots").join(name);
        println!("making {}", root.display());
        make(&root, packages)?;
        for arguments in COMMANDS {
            println!("in {name}: cargo {}", arguments.join(" "));
            let begun = Instant::now();
            cargo_inside(&root, sources, arguments)?;
            println!("in {name}: cargo {} took {} s", arguments.join(" "), begun.elapsed().as_secs());
        }
        let installed = root.join("srv/installed/bin/sealane");
        ensure!(installed.exists(), "{} was not installed", installed.display());
        run(inside(&root, "/srv/installed/bin/sealane").arg("--version"))?;
        // They have several gigabytes, and the next root does not need them.
        fs::remove_dir_all(root.join("srv/build")).context("removing what was built")?;
    }
    Ok(())
}

fn cargo_inside(root: &Path, sources: &Path, arguments: &[&str]) -> Result<()> {
    let home = |name: &str, folder: &str| {
        env::var_os(name)
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(folder)))
    };
    let cargo_home = home("CARGO_HOME", ".cargo").context("where cargo is")?;
    let rustup_home = home("RUSTUP_HOME", ".rustup").context("where the toolchain is")?;
    let build = root.join("srv/build");
    fs::create_dir_all(&build).context("a build folder")?;
    let mut mounts = Vec::new();
    for (from, is_writable) in [
        (Path::new("/proc"), true),
        (Path::new("/dev"), true),
        (Path::new("/sys"), true),
        (&rustup_home, false),
        // The registry replaces downloads; cargo locks files in it.
        (&cargo_home, true),
    ] {
        mounts.push(Mount::bind(from, root, is_writable)?);
    }
    // The copy excludes build outputs.
    let copy = root.join(CHECKOUT);
    if copy.exists() {
        fs::remove_dir_all(&copy).context("removing the sources of before")?;
    }
    fs::create_dir_all(&copy).context("a folder for the sources")?;
    let files = Command::new("git").args(["ls-files", "-z"]).current_dir(sources).output().context("git")?;
    ensure!(files.status.success(), "git lists no files");
    for file in files.stdout.split(|&byte| byte == 0).filter(|file| !file.is_empty()) {
        let file = Path::new(OsStr::new(std::str::from_utf8(file).context("names of sources are text")?));
        if sources.join(file).is_file() {
            let to = copy.join(file);
            fs::create_dir_all(to.parent().context("a file lies in a folder")?)?;
            fs::copy(sources.join(file), &to).with_context(|| format!("copying {}", file.display()))?;
        }
    }
    let mut path = cargo_home.join("bin").into_os_string();
    path.push(":/usr/bin:/bin");
    let mut command = Command::new("chroot");
    command.arg(root).args(["/usr/bin/env", "-i", "-C"]).arg(Path::new("/").join(CHECKOUT));
    command.args(["HOME=/root", "LC_ALL=C.UTF-8"]);
    let mut variable = |name: &str, value: &OsStr| {
        let mut pair = std::ffi::OsString::from(format!("{name}="));
        pair.push(value);
        command.arg(pair);
    };
    variable("PATH", &path);
    variable("CARGO_HOME", cargo_home.as_os_str());
    variable("RUSTUP_HOME", rustup_home.as_os_str());
    variable("CARGO_TARGET_DIR", OsStr::new("/srv/build"));
    variable("CARGO_INSTALL_ROOT", OsStr::new("/srv/installed"));
    variable("CARGO_NET_OFFLINE", OsStr::new("true"));
    if let Some(jobs) = env::var_os("CARGO_BUILD_JOBS") {
        variable("CARGO_BUILD_JOBS", &jobs);
    }
    command.arg("cargo").args(arguments);
    run(&mut command)
}
