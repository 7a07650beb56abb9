//! Packages for those who do not build: a Debian package, and a program that needs no libraries. Each is tried after it
//! was made.

use crate::{generate, roots};
use anyhow::{Context, Result, bail, ensure};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const STATIC_TARGET: &str = "x86_64-unknown-linux-musl";

/// What the Debian package must hold, so that none is lost without notice.
const CONTENTS: &[&str] = &[
    "usr/bin/sealane",
    "usr/share/man/man1/sealane.1.gz",
    "usr/share/man/man1/sealane-cp.1.gz",
    "usr/share/bash-completion/completions/sealane",
    "usr/share/zsh/vendor-completions/_sealane",
    "usr/share/fish/vendor_completions.d/sealane.fish",
    "usr/lib/systemd/system/sealane.service",
    "usr/lib/systemd/system/sealane-tunnel@.service",
    "etc/default/sealane",
    "etc/sealane/authorised-peers",
    "usr/share/doc/sealane/copyright",
];

fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn run(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}");
    let output = command.output().with_context(|| format!("running {shown}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{shown} failed: {}\n{said}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Builds the program for release and makes `target/debian/sealane_*.deb` of it, with what cargo-deb is told in
/// `crates/cli/Cargo.toml`.
pub(crate) fn deb(root: &Path) -> Result<PathBuf> {
    let has_tool = cargo().args(["deb", "--version"]).output().is_ok_and(|output| output.status.success());
    ensure!(has_tool, "cargo-deb is missing: `cargo install cargo-deb`");
    let made = root.join("target/deb");
    generate::man(root, &made.join("man"))?;
    generate::completions(root, &made.join("completions"))?;
    run(cargo().current_dir(root).args([
        "build",
        "--quiet",
        "--release",
        "--locked",
        "--package",
        "sealane",
    ]))?;
    let package = run(cargo().current_dir(root).args([
        "deb",
        "--quiet",
        "--no-build",
        "--strip",
        "--package",
        "sealane",
    ]))?;
    let package = PathBuf::from(package.lines().last().context("cargo-deb names no package")?);
    try_deb(&package, &made.join("unpacked"))?;
    println!("{}", package.display());
    Ok(package)
}

/// Unpacks a package, looks for what it is to hold, and starts what it holds.
fn try_deb(package: &Path, folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder).context("emptying a folder")?;
    }
    run(Command::new("dpkg-deb").arg("--extract").arg(package).arg(folder))?;
    let missing: Vec<_> = CONTENTS.iter().filter(|path| !folder.join(path).exists()).collect();
    ensure!(missing.is_empty(), "the package lacks {missing:?}");
    run(Command::new(folder.join("usr/bin/sealane")).arg("--version"))?;
    let unit = folder.join("usr/lib/systemd/system/sealane.service");
    let verify = Command::new("systemd-analyze").arg("verify").arg("--man=no").arg(&unit).output();
    // It says of the program that it is not installed here, which is no fault of the unit.
    if let Ok(output) = verify {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_fault = |line: &&str| line.contains("sealane.service") && !line.contains("is not executable");
        if let Some(fault) = said.lines().find(is_fault) {
            bail!("{fault}");
        }
    }
    Ok(())
}

/// Builds the program without a need of any library into `target/static/sealane`, and starts it in an empty root where
/// the user may.
pub(crate) fn static_program(root: &Path) -> Result<PathBuf> {
    let mut build = cargo();
    build.current_dir(root).args(["build", "--quiet", "--release", "--locked", "--package", "sealane"]);
    build.args(["--target", STATIC_TARGET]);
    if env::var_os("CC_x86_64_unknown_linux_musl").is_none() {
        build.env("CC_x86_64_unknown_linux_musl", "musl-gcc");
    }
    run(&mut build).with_context(|| {
        format!("it needs `rustup target add {STATIC_TARGET}` and musl-gcc (Debian: musl-tools)")
    })?;
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let folder = root.join("target/static");
    fs::create_dir_all(&folder).context("making a folder")?;
    let program = folder.join("sealane");
    fs::copy(target.join(STATIC_TARGET).join("release/sealane"), &program).context("copying the program")?;
    run(Command::new("strip").arg(&program))?;
    run(Command::new(&program).arg("--version"))?;
    // As in a container of nothing else. Only root may change roots.
    let mut bare = Command::new("chroot");
    bare.arg(&folder).args(["/sealane", "--version"]);
    if fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0) {
        run(&mut bare)?;
    }
    println!("{}", program.display());
    Ok(program)
}

/// Makes both, installs the package into a bare system and runs its service's commands there, and starts the static
/// program as the container file says.
pub(crate) fn packages(root: &Path) -> Result<()> {
    let package = deb(root)?;
    let program = static_program(root)?;
    try_installed(root, &package)?;
    try_container(root, &program)
}

/// What the package's dependencies and scripts need, so that nothing is fetched when it is installed.
const INSTALLED_BESIDE: &[&str] = &["adduser", "libgcc-s1", "libc6"];

fn try_installed(root: &Path, package: &Path) -> Result<()> {
    let bare = root.join("target/roots/installed");
    roots::make(&bare, INSTALLED_BESIDE)?;
    fs::copy(package, bare.join("sealane.deb")).context("copying the package")?;
    // The root is made once: what an earlier run has left goes first.
    let script = "set -e
        dpkg --purge sealane 2>/dev/null
        rm -rf /srv/* /etc/sealane /var/lib/sealane
        dpkg --install /sealane.deb
        getent passwd sealane
        test \"$(stat -c %U /srv/sealane)\" = sealane
        sealane --version
        test -s /usr/share/man/man1/sealane-cp.1.gz
        install -d -o sealane /var/lib/sealane
        as='setpriv --reuid=sealane --regid=sealane --clear-groups'
        $as sealane id --identity /var/lib/sealane/identity
        sealane id --identity /srv/identity > /srv/key
        sealane authorise \"$(cat /srv/key)\" tester read,write --authorised-peers /etc/sealane/authorised-peers
        $as sealane serve /srv/sealane --listen 127.0.0.1:17522 --identity /var/lib/sealane/identity \\
            --authorised-peers /etc/sealane/authorised-peers &
        daemon=$!
        trap 'kill $daemon' EXIT
        sleep 1
        echo text > /srv/file
        sealane cp --identity /srv/identity --known-peers /srv/known --accept-new /srv/file sealane://127.0.0.1:17522/
        trap - EXIT
        kill $daemon
        wait $daemon || true
        cmp /srv/file /srv/sealane/file
        dpkg --purge sealane
        test ! -e /usr/bin/sealane
        test -f /srv/sealane/file -a ! -e /var/lib/sealane";
    roots::run(roots::inside(&bare, "sh").args(["-c", script]))
        .context("installing the package in a bare system")?;
    println!("{} installs, serves and goes", package.display());
    Ok(())
}

/// Follows the container file by a change of root: nothing but the program, and what a user mounts.
fn try_container(root: &Path, program: &Path) -> Result<()> {
    let steps = fs::read_to_string(root.join("packaging/Containerfile")).context("the container file")?;
    let words = |instruction: &str| -> Result<Vec<String>> {
        let line = steps.lines().find_map(|line| line.strip_prefix(instruction));
        let line = line.with_context(|| format!("no {instruction} in the container file"))?;
        Ok(line.split('"').skip(1).step_by(2).map(str::to_owned).collect())
    };
    ensure!(steps.contains("\nFROM scratch\n") && steps.contains("\nCOPY sealane /sealane\n"), "other steps");
    let container = root.join("target/roots/container");
    if container.exists() {
        fs::remove_dir_all(&container).context("emptying the container")?;
    }
    for folder in ["keys", "data", "proc", "dev"] {
        fs::create_dir_all(container.join(folder)).context("a container's folders")?;
    }
    fs::copy(program, container.join("sealane")).context("copying the program")?;
    let (entry, command) = (words("ENTRYPOINT ")?, words("CMD ")?);
    let inside = |arguments: &[String]| {
        let mut inside = Command::new("chroot");
        inside.arg(&container).args(&entry).args(arguments);
        inside
    };
    let own = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    run(&mut inside(&own("id --identity /keys/identity")))?;
    let outside = |arguments: &[&str]| {
        let mut outside = Command::new(program);
        outside.args(arguments);
        outside
    };
    let keys = container.join("keys");
    let at = |name: &str| keys.join(name).display().to_string();
    let key = run(&mut outside(&["id", "--identity", &at("client")]))?;
    let peers = "--authorised-peers /keys/authorised-peers";
    run(&mut inside(&own(&format!("authorise {} tester read,write {peers}", key.trim()))))?;
    let mut daemon = inside(&command).spawn().context("starting the container's command")?;
    std::thread::sleep(std::time::Duration::from_secs(1));
    let target = "sealane://127.0.0.1:7522/copy";
    let options = ["--identity", &at("client"), "--known-peers", &at("known"), "--accept-new"];
    let copied = run(outside(&["cp"]).args(options).arg(program).arg(target));
    let _ = daemon.kill();
    let _ = daemon.wait();
    copied?;
    ensure!(fs::read(program)? == fs::read(container.join("data/copy"))?, "the copy differs");
    println!("the container file's steps serve");
    Ok(())
}
