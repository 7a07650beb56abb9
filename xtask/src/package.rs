//! Makes packages for users who do not build: Debian packages of the program, the engine and the laboratory, and a program that
//! needs no libraries. Each is tested after it was made.

use crate::{generate, roots};
use anyhow::{Context, Result, bail, ensure};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An architecture for which packages are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Architecture {
    X86_64,
    Aarch64,
}

impl Architecture {
    pub(crate) const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// Returns this machine's architecture.
    ///
    /// # Errors
    /// Fails if there are no packages for it.
    pub(crate) fn own() -> Result<Self> {
        Self::named(env::consts::ARCH)
    }

    /// Returns the architecture of this name.
    ///
    /// # Errors
    /// Fails if the name is unknown.
    pub(crate) fn named(name: &str) -> Result<Self> {
        let found = Self::ALL.into_iter().find(|one| one.name() == name);
        found.with_context(|| format!("{name}: packages are made for x86_64 and aarch64"))
    }

    /// Returns the name that compilers know it by.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Returns the target of the static program, or of the Debian package's.
    pub(crate) fn target(self, libc: &str) -> String {
        format!("{}-unknown-linux-{libc}", self.name())
    }

    /// Returns a tool of Debian's cross compiler.
    fn tool(self, tool: &str) -> String {
        format!("{}-linux-gnu-{tool}", self.name())
    }

    fn is_own(self) -> bool {
        self.name() == env::consts::ARCH
    }

    /// Returns whether programs for it can be linked here.
    pub(crate) fn has_compiler(self) -> bool {
        self.is_own() || Command::new(self.tool("gcc")).arg("--version").output().is_ok()
    }

    /// Adds the settings for a target to a build, if that is not for this machine.
    fn cross(self, build: &mut Command, target: &str) {
        build.args(["--target", target]);
        if !self.is_own() {
            let name = target.replace('-', "_");
            build.env(format!("CARGO_TARGET_{}_LINKER", name.to_uppercase()), self.tool("gcc"));
            build.env(format!("CC_{name}"), self.tool("gcc"));
        }
    }

    /// Removes the symbols.
    fn strip(self, program: &Path) -> Result<String> {
        let tool = if self.is_own() { "strip".to_owned() } else { self.tool("strip") };
        run(Command::new(tool).arg(program))
    }

    /// Starts a program, with QEMU if it is for another architecture and QEMU is installed.
    fn try_start(self, program: &Path) -> Result<()> {
        if self.is_own() {
            return run(Command::new(program).arg("--version")).map(drop);
        }
        let qemu = format!("qemu-{}", self.name());
        if Command::new(&qemu).arg("--version").output().is_err() {
            println!("{} is not started: there is no {qemu} (Debian: qemu-user)", program.display());
            return Ok(());
        }
        let libraries = format!("/usr/{}-linux-gnu", self.name());
        run(Command::new(qemu).args(["-L", &libraries]).arg(program).arg("--version")).map(drop)
    }
}

/// Returns the folder in which cargo builds.
fn target_folder(root: &Path) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from)
}

/// A Debian package: its name, its package of cargo, the program or library in it that is stripped, and the files that it must have.
struct Deb {
    name: &'static str,
    package: &'static str,
    strips: &'static [&'static str],
    contents: &'static [&'static str],
}

/// The packages, each after those that it needs.
const DEBS: [Deb; 3] = [
    Deb { name: "sealane", package: "sealane", strips: &["sealane"], contents: PRODUCT },
    Deb {
        name: "sealane-engine",
        package: "sealane-provider",
        strips: &["libsealane_provider.so", "libsealane_pkcs11.so"],
        contents: ENGINE,
    },
    Deb {
        name: "sealane-lab",
        package: "sealane-lab-cli",
        strips: &["sealane-lab"],
        contents: &["usr/bin/sealane-lab"],
    },
];

const PRODUCT: &[&str] = &[
    "usr/bin/sealane",
    "usr/share/man/man1/sealane.1.gz",
    "usr/share/man/man1/sealane-cp.1.gz",
    "usr/share/bash-completion/completions/sealane",
    "usr/share/zsh/vendor-completions/_sealane",
    "usr/share/fish/vendor_completions.d/sealane.fish",
    "usr/lib/systemd/system/sealane.service",
    "usr/lib/systemd/system/sealane-tunnel@.service",
    "usr/lib/sealane/far-ends",
    "etc/default/sealane",
    "etc/sealane/authorised-peers",
    "usr/share/doc/sealane/copyright",
];

/// The service that keeps keys, and the libraries by which servers use it.
const ENGINE: &[&str] = &[
    "usr/lib/systemd/system/sealane-engine.service",
    "usr/lib/systemd/system/sealane-engine.socket",
    "usr/lib/sealane/sealane-provider.so",
    "usr/lib/sealane/sealane-pkcs11.so",
    "usr/share/p11-kit/modules/sealane.module",
    "usr/share/sealane/openssl-provider.cnf",
    "usr/include/sealane_engine.h",
    "etc/sealane/engine.toml",
    "usr/share/doc/sealane-engine/engine.md",
    "usr/share/doc/sealane-engine/copyright",
];

/// Returns the cargo that runs this program, or the one in PATH.
pub(crate) fn cargo() -> Command {
    Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Returns cargo for a build or a package of the tree in `root`. Its results tell neither the folders of this machine nor the time.
fn reproducing(root: &Path) -> Result<Command> {
    let home = env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cargo")));
    let home = home.context("neither CARGO_HOME nor HOME is set")?;
    // Generated sources lie below the tree, or where the user wants them; the last prefix that fits counts.
    let folders = [(home.as_path(), "/cargo"), (root, "/sealane"), (&target_folder(root), "/target")];
    let joined = |option: &str, divider: &str| {
        let each = folders.iter().map(|(folder, name)| format!("{option}={}={name}", folder.display()));
        each.collect::<Vec<_>>().join(divider)
    };
    let mut cargo = cargo();
    // A space may be in a folder's name.
    cargo.current_dir(root).env("CARGO_ENCODED_RUSTFLAGS", joined("--remap-path-prefix", "\u{1f}"));
    cargo.env("CFLAGS", joined("-ffile-prefix-map", " "));
    // Sources without their history have the time of their files.
    if let Ok(time) = run(Command::new("git").current_dir(root).args(["log", "-1", "--format=%ct"])) {
        cargo.env("SOURCE_DATE_EPOCH", time.trim());
    }
    Ok(cargo)
}

/// Runs a command, and returns its output.
///
/// # Errors
/// Fails with what it says if it fails.
pub(crate) fn run(command: &mut Command) -> Result<String> {
    let shown = format!("{command:?}");
    let output = command.output().with_context(|| format!("running {shown}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{shown} failed: {}\n{said}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Builds everything for release and makes the packages of [`DEBS`] in `target/debian`, or in the same folder below the target's
/// for another architecture, with the settings for cargo-deb in their manifests. Returns them in their order. The product's
/// carries copiers for far ends of all architectures for which they can be built here.
pub(crate) fn debs(root: &Path, architecture: Architecture) -> Result<Vec<PathBuf>> {
    let has_tool = cargo().args(["deb", "--version"]).output().is_ok_and(|output| output.status.success());
    ensure!(has_tool, "cargo-deb is missing: `cargo install cargo-deb`");
    let made = root.join("target/deb");
    generate::man(root, &made.join("man"))?;
    generate::completions(root, &made.join("completions"))?;
    let mut build = reproducing(root)?;
    build.args(["build", "--quiet", "--release", "--locked"]);
    for package in ["sealane", "sealane-lab-cli", "sealane-provider", "sealane-pkcs11"] {
        build.args(["--package", package]);
    }
    let carried = root.join("target/far-ends");
    if carried.exists() {
        fs::remove_dir_all(&carried).context("emptying a folder")?;
    }
    fs::create_dir_all(&carried).context("making a folder")?;
    for processor in Architecture::ALL {
        if !processor.has_compiler() {
            println!(
                "none is carried for {}: {}",
                processor.name(),
                needs(processor, &processor.target("musl"))
            );
            continue;
        }
        match copier(root, processor, &carried) {
            Err(why) if processor != architecture => {
                println!("none is carried for {}: {why}", processor.name())
            }
            made => made?,
        }
    }
    let target = architecture.target("gnu");
    if architecture.is_own() {
        run(&mut build)?;
    } else {
        architecture.cross(&mut build, &target);
        run(&mut build).with_context(|| needs(architecture, &target))?;
    }
    let pack = |deb: &Deb| -> Result<PathBuf> {
        let mut pack = reproducing(root)?;
        pack.args(["deb", "--quiet", "--no-build", "--package", deb.package]);
        if architecture.is_own() {
            pack.arg("--strip");
        } else {
            for built in deb.strips {
                architecture.strip(&target_folder(root).join(&target).join("release").join(built))?;
            }
            // The tools that look up libraries know only those of this machine.
            pack.args(["--no-strip", "--target", &target, "--variant", "cross"]);
        }
        Ok(PathBuf::from(run(&mut pack)?.lines().last().context("cargo-deb names no package")?))
    };
    let unpacked = made.join("unpacked");
    if unpacked.exists() {
        fs::remove_dir_all(&unpacked).context("emptying a folder")?;
    }
    let mut packages = Vec::new();
    for deb in &DEBS {
        let package = pack(deb)?;
        unpack(&package, deb, &unpacked)?;
        println!("{}", package.display());
        packages.push(package);
    }
    try_unpacked(&unpacked, architecture)?;
    Ok(packages)
}

/// Returns the requirements of a build for a target.
fn needs(architecture: Architecture, target: &str) -> String {
    let compiler = match (architecture.is_own(), target.ends_with("musl")) {
        (true, true) => "musl-gcc (Debian: musl-tools)".to_owned(),
        (true, false) => "a C compiler".to_owned(),
        (false, _) => format!("{} (Debian: gcc-{}-linux-gnu)", architecture.tool("gcc"), architecture.name()),
    };
    format!("it needs `rustup target add {target}` and {compiler}")
}

/// Unpacks a package beside the others, and checks that it has its files, and none of another one.
fn unpack(package: &Path, deb: &Deb, folder: &Path) -> Result<()> {
    let list = run(Command::new("dpkg-deb").arg("--contents").arg(package))?;
    let files = list.lines().filter(|line| !line.starts_with('d'));
    let paths: Vec<_> = files.filter_map(|line| line.split(" ./").nth(1)).collect();
    let has = |wanted: &str| {
        paths.iter().any(|path| {
            path.strip_prefix(wanted).is_some_and(|rest| matches!(rest.as_bytes(), [] | [b'/', ..]))
        })
    };
    let missing: Vec<_> = deb.contents.iter().filter(|path| !has(path)).collect();
    ensure!(missing.is_empty(), "{} lacks {missing:?}", package.display());
    let shared: Vec<_> = paths.iter().filter(|path| folder.join(path).exists()).collect();
    ensure!(shared.is_empty(), "{} has what another package has: {shared:?}", package.display());
    run(Command::new("dpkg-deb").arg("--extract").arg(package).arg(folder)).map(drop)
}

/// Starts the program of the unpacked packages, and checks their units.
fn try_unpacked(folder: &Path, architecture: Architecture) -> Result<()> {
    architecture.try_start(&folder.join("usr/bin/sealane"))?;
    for name in
        ["sealane.service", "sealane-tunnel@.service", "sealane-engine.service", "sealane-engine.socket"]
    {
        let unit = folder.join("usr/lib/systemd/system").join(name);
        let verify = Command::new("systemd-analyze").arg("verify").arg("--man=no").arg(&unit).output();
        // The output contains that the program is not installed here, which is not a fault of the unit.
        let Ok(output) = verify else { continue };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let is_fault = |line: &&str| line.contains("sealane") && !line.contains("is not executable");
        if let Some(fault) = said.lines().find(is_fault) {
            bail!("{fault}");
        }
    }
    Ok(())
}

/// Builds the program without dependence on any library, with these faces, or all with `None`, and starts it.
fn without_libraries(
    root: &Path,
    architecture: Architecture,
    faces: Option<&str>,
    program: &Path,
) -> Result<()> {
    let target = architecture.target("musl");
    let mut build = reproducing(root)?;
    build.args(["build", "--quiet", "--release", "--locked", "--package", "sealane"]);
    if let Some(faces) = faces {
        build.args(["--no-default-features", "--features", faces]);
    }
    architecture.cross(&mut build, &target);
    let compiler = format!("CC_{}", target.replace('-', "_"));
    if architecture.is_own() && env::var_os(&compiler).is_none() {
        build.env(compiler, "musl-gcc");
    }
    run(&mut build).with_context(|| needs(architecture, &target))?;
    let built = target_folder(root).join(&target).join("release/sealane");
    fs::copy(built, program).context("copying the program")?;
    architecture.strip(program)?;
    architecture.try_start(program)
}

/// Makes the copier that `sealane cp --install-far-end` carries to hosts with this processor.
fn copier(root: &Path, processor: Architecture, folder: &Path) -> Result<()> {
    let program = folder.join(processor.name());
    without_libraries(root, processor, Some("copy"), &program)?;
    println!("{}: {} bytes", program.display(), fs::metadata(&program).context("the copier")?.len());
    Ok(())
}

/// Makes the program without dependence on any library in `target/static/sealane`, for another architecture in a folder of its
/// name below that, and starts it in an empty root if the user may do that.
pub(crate) fn static_program(root: &Path, architecture: Architecture) -> Result<PathBuf> {
    let all = root.join("target/static");
    let folder = if architecture.is_own() { all } else { all.join(architecture.name()) };
    fs::create_dir_all(&folder).context("making a folder")?;
    let program = folder.join("sealane");
    without_libraries(root, architecture, None, &program)?;
    // This is as in an empty container. Only root may change roots.
    let is_root = fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0);
    if architecture.is_own() && is_root {
        let mut bare = Command::new("chroot");
        bare.arg(&folder).args(["/sealane", "--version"]);
        run(&mut bare)?;
    }
    println!("{}", program.display());
    Ok(program)
}

/// Makes them all and the static program, installs the packages into a bare system, runs its service's commands there and both services under a
/// systemd of their own, and starts the static program as in the container file. Packages of other architectures are
/// made as well, if their compiler is installed.
pub(crate) fn packages(root: &Path) -> Result<()> {
    let own = Architecture::own()?;
    let packages = debs(root, own)?;
    let program = static_program(root, own)?;
    try_installed(root, &packages)?;
    try_container(root, &program)?;
    for other in Architecture::ALL.into_iter().filter(|other| *other != own) {
        if other.has_compiler() {
            debs(root, other)?;
            static_program(root, other)?;
        } else {
            println!("nothing is made for {}: {}", other.name(), needs(other, &other.target("gnu")));
        }
    }
    Ok(())
}

/// Tries what [`packages`] has made for this architecture: its trial takes minutes, and the builds half an hour.
pub(crate) fn try_again(root: &Path) -> Result<()> {
    let made = root.join("target/debian");
    let named = |name: &str| -> Result<PathBuf> {
        let mut found = fs::read_dir(&made)
            .context("the packages that were made")?
            .filter_map(|entry| Some(entry.ok()?.path()));
        let is_it = |path: &PathBuf| {
            let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
            file.starts_with(&format!("{name}_"))
        };
        found.find(is_it).with_context(|| format!("no package {name} in {}", made.display()))
    };
    let packages = DEBS.iter().map(|deb| named(deb.name)).collect::<Result<Vec<_>>>()?;
    try_installed(root, &packages)?;
    try_container(root, &root.join("target/static/sealane"))
}

/// Packages that the dependencies and scripts of ours need, so that nothing is downloaded when it is installed.
const INSTALLED_BESIDE: &[&str] = &[
    "adduser",
    "libgcc-s1",
    "libc6",
    "systemd",
    "iproute2",
    "iputils-ping",
    "procps",
    "openssl",
    // Servers that sign with a key of the engine.
    "nginx-light",
    "haproxy",
    "postgresql",
    "apache2",
    "stunnel4",
    "postfix",
    "dovecot-imapd",
    "openvpn",
    "openssh-server",
];

/// The script that starts systemd in a root, and its services.
const BOOT: &str = include_str!("package/boot.sh");
const TRIAL: &str = include_str!("package/trial.sh");
const TUNNEL_TRIAL: &str = include_str!("package/tunnel.sh");
const ENGINE_TRIAL: &str = include_str!("package/engine.sh");
const SERVERS_TRIAL: &str = include_str!("package/servers.sh");

fn try_installed(root: &Path, packages: &[PathBuf]) -> Result<()> {
    let bare = root.join("target/roots/installed");
    roots::make(&bare, INSTALLED_BESIDE)?;
    for (index, package) in packages.iter().enumerate() {
        fs::copy(package, bare.join(format!("{index}.deb"))).context("copying a package")?;
    }
    // The root is made once, so files of an earlier run are removed first.
    let script = "set -e
        dpkg --purge sealane-lab sealane-engine sealane 2>/dev/null
        rm -rf /srv/* /etc/sealane /var/lib/sealane /var/lib/sealane-engine /var/lib/postgresql/trial
        rm -rf /etc/systemd/system/nginx.service.d /etc/systemd/system/haproxy.service.d
        rm -rf /etc/systemd/system/apache2.service.d /etc/systemd/system/sealane-engine.s*.d /srv/jail
        sed -i '/^frontend trial/,$d; /ssl-mode-async/d' /etc/haproxy/haproxy.cfg
        dpkg --install /[0-9].deb
        sealane-lab --version
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
        cmp /srv/file /srv/sealane/file";
    roots::run(roots::inside(&bare, "sh").args(["-c", script]))
        .context("installing the package in a bare system")?;
    fs::write(bare.join("trial.sh"), TRIAL).context("writing the services' trial")?;
    fs::write(bare.join("tunnel.sh"), TUNNEL_TRIAL).context("writing the tunnel's trial")?;
    fs::write(bare.join("engine.sh"), ENGINE_TRIAL).context("writing the engine's trial")?;
    fs::write(bare.join("servers.sh"), SERVERS_TRIAL).context("writing the servers' trial")?;
    roots::run(Command::new("sh").args(["-c", BOOT, "boot"]).arg(&bare))
        .context("starting the package's services under systemd")?;
    let script = "set -e
        test -e /etc/sealane/engine-passphrase
        dpkg --purge sealane-engine
        test ! -e /etc/sealane/engine-passphrase -a ! -e /var/lib/sealane-engine -a -e /usr/bin/sealane
        dpkg --purge sealane-lab sealane
        test ! -e /usr/bin/sealane
        test -f /srv/sealane/file -a ! -e /var/lib/sealane";
    roots::run(roots::inside(&bare, "sh").args(["-c", script])).context("removing the package")?;
    println!("the packages install, serve, join networks, sign and go");
    Ok(())
}

/// Follows the container file by a change of root: it contains only the program, and the user's mounts.
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
