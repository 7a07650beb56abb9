//! Installs the foreign programs with which tests communicate or compare, on a Debian machine.
//!
//! Tests skip, with a printed reason, if one is missing; with `SEALANE_REQUIRE_PEERS=1` they fail instead.

use anyhow::{Context, Result, ensure};
use std::{fs, path::Path, process::Command};

/// Packages, and their purposes.
const PACKAGES: &[(&str, &str)] = &[
    ("openssh-client", "ssh sessions that start the far end, scp as a rival"),
    ("openssh-server", "a throw-away sshd on a loopback port"),
    ("gcc-aarch64-linux-gnu", "compiles the C of libraries for the other architecture that is packaged"),
    ("qemu-user", "runs the tests of the transforms for that architecture"),
    ("libc6-dev-arm64-cross", "the headers that it compiles with"),
    ("rsync", "a rival, and an oracle for trees and filters"),
    ("iperf3", "the bare speed of the path that a copy is compared with"),
    ("rclone", "a rival"),
    ("dropbear-bin", "another ssh server, with which copies over SFTP are tried"),
    ("python3-asyncssh", "an SFTP server of another maker, with which they are tried"),
    ("python3-paramiko", "an SFTP server of another maker, with which they are tried"),
    ("sshpass", "types a password, once, at a prompt of ssh"),
    ("curl", "a rival over TLS, and stray HTTP requests against the daemon's port"),
    ("haproxy", "serves with a key of the engine, its handshakes as jobs"),
    ("nginx-light", "the other end of the rival over TLS; it serves with a key of the engine"),
    ("systemd", "starts the engine by its unit and socket, in a copy of the system"),
    ("adduser", "makes the engine's user there, as the package does"),
    ("procps", "finds processes there"),
    ("vsftpd", "a file by ftp, in the lab"),
    ("wget", "a mirror of a site, in the lab"),
    ("sshfs", "a network file system, on which the lab builds programs"),
    ("socat", "serves that file system without ssh"),
    ("bsdgames", "primes, the sieve of the lab"),
    ("zsh", "completes, as bash does"),
    (
        "openssl",
        "its libcrypto: an oracle for ciphers and digests, and a rival; its programs use keys of the engine",
    ),
    ("libssl-dev", "the headers with which OpenSSL's own test program is built"),
    ("softhsm2", "a token of PKCS#11 in software, with which the engine's isolated keys are compared"),
    ("p11-kit", "serves that token to other processes; loads the engine's module"),
    ("p11-kit-modules", "the module by which they reach it"),
    ("opensc", "pkcs11-tool, which signs and decrypts by the engine's module of PKCS#11"),
    ("gnutls-bin", "p11tool, which signs by it"),
    ("openjdk-17-jre-headless", "keytool, which lists the keys that have certificates there"),
    ("valgrind", "follows secrets through public-key operations"),
    ("attr", "extended attributes, read by another program than ours"),
    ("acl", "access control lists, read by another program than ours"),
    ("python3-scapy", "a foreign end for ESP and AH"),
    ("python3-cryptography", "what scapy encrypts with"),
    ("python3-venv", "a place of its own for a newer scapy, which reads IKEv2"),
    ("tshark", "decrypts our ESP with the keys given, and decodes captures"),
    ("iproute2", "network namespaces, and the links between them"),
    ("nftables", "takes away the tables of a gateway's host, and hides hosts behind one address"),
    ("iputils-ping", "small packets through a tunnel"),
    ("ethtool", "links that cut GSO packets into packets"),
    ("wireguard-tools", "keys and peers of wireguard-go, a rival of the tunnel"),
    ("openvpn", "a rival of the tunnel"),
    ("charon-systemd", "strongSwan, a rival of the tunnel with ESP in user space"),
    ("strongswan-swanctl", "tells strongSwan its connections"),
    ("libstrongswan-standard-plugins", "strongSwan's cryptography by OpenSSL"),
    (
        "libcharon-extra-plugins",
        "strongSwan's ESP in user space (kernel-libipsec), and its users' certificates (EAP-TLS)",
    ),
    ("libcharon-extauth-plugins", "strongSwan's users' passwords (EAP-MSCHAPv2)"),
];

/// The source of wireguard-go, of which distributions have old versions. Its own version text is v0.0.20250522.
const WIREGUARD_GO: &str = "golang.zx2c4.com/wireguard@v0.0.0-20260522210424-ecfc5a8d5446";

/// The keys with which Debian's releases are signed.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Packages that are unpacked into a folder of their own and never installed: tests and benchmarks expect them there.
struct Unpacked {
    /// The release of Debian; this machine's own if there is none.
    release: Option<&'static str>,
    root: &'static str,
    /// Files that are there once everything is unpacked.
    files: &'static [&'static str],
    /// The packages, with those libraries of theirs that no other peer brings.
    packages: &'static [&'static str],
    /// The consequence if they are absent.
    without: &'static str,
}

/// A strongSwan with ML-KEM, beside the machine's own, which runs from this root; and the program of its newer OpenSSL, with
/// which the provider's ML-KEM is measured.
const STRONGSWAN: Unpacked = Unpacked {
    release: Some("forky"),
    root: "/usr/local/lib/sealane-peers/strongswan",
    files: &["usr/sbin/swanctl", "usr/bin/openssl"],
    packages: &[
        "charon-systemd",
        "strongswan-libcharon",
        "libstrongswan",
        "libcharon-extra-plugins",
        "libcharon-extauth-plugins",
        "libstrongswan-standard-plugins",
        "libstrongswan-extra-plugins",
        "strongswan-swanctl",
        "openssl",
        "libc6",
        "libcap2",
        "libgmp10",
        "libip4tc2",
        "libpam0g",
        "libssl3t64",
        "libsystemd0",
        "libgcrypt20",
        "libgpg-error0",
        "zlib1g",
        "libzstd1",
        "liblzma5",
        "liblz4-1",
        "libaudit1",
        "libcap-ng0",
        "libgcc-s1",
    ],
    without: "tests with ML-KEM in strongSwan will be skipped",
};

/// libreswan, which Debian does not install beside strongSwan.
const LIBRESWAN: Unpacked = Unpacked {
    release: None,
    root: "/usr/local/lib/sealane-peers/libreswan",
    files: &["usr/libexec/ipsec/pluto"],
    packages: &[
        "libreswan",
        "libcurl3-nss",
        "libevent-2.1-7",
        "libevent-core-2.1-7",
        "libevent-pthreads-2.1-7",
        "libldap-2.5-0",
        "libldns3",
        "libnspr4",
        "libnss3",
        "libnss3-tools",
        "libunbound8",
    ],
    without: "tests with libreswan will be skipped",
};

/// ProFTPD and its SFTP server, which Debian does not install beside vsftpd; tests give it the folder of its libraries.
const PROFTPD: Unpacked = Unpacked {
    release: None,
    root: "/usr/local/lib/sealane-peers/proftpd",
    files: &["usr/sbin/proftpd", "usr/lib/proftpd/mod_sftp.so"],
    packages: &[
        "proftpd-core",
        "proftpd-mod-crypto",
        "libhashkit2",
        "libhiredis0.14",
        "libmemcached11",
        "libmemcachedutil2",
        "libpcre2-posix3",
        "libsasl2-2",
        "libsasl2-modules-db",
        "libsodium23",
    ],
    without: "copies over ProFTPD's SFTP server will not be tried",
};

/// User-mode Linux, a kernel with ESP that runs as a process, and the program that loads its modules.
const UML: Unpacked = Unpacked {
    release: None,
    root: "/usr/local/lib/sealane-peers/uml",
    files: &["usr/bin/linux.uml", "bin/kmod"],
    packages: &["user-mode-linux", "kmod"],
    without: "the test with a kernel's ESP will be skipped",
};

/// Intel's multi-buffer library of public-key operations, with which `sealane speed` compares; it needs no library but this
/// machine's OpenSSL.
const CRYPTO_MB: Unpacked = Unpacked {
    release: Some("sid"),
    root: "/usr/local/lib/sealane-peers/crypto-mb",
    files: &["usr/lib"],
    packages: &["libcrypto-mb12"],
    without: "public-key operations will not be compared with crypto_mb",
};

/// The OpenSSL that is supported for years, beside the machine's own and the newest.
const OPENSSL_NEWER: Unpacked = Unpacked {
    release: Some("trixie"),
    root: "/usr/local/lib/sealane-peers/openssl-3.5",
    files: &["usr/bin/openssl"],
    packages: &["openssl", "libssl3t64", "libc6", "zlib1g", "libzstd1"],
    without: "tests with OpenSSL 3.5 will be skipped",
};

/// DPDK's test program of cryptography and its drivers over Intel's library, with which the engines' bursts are compared.
const DPDK: Unpacked = Unpacked {
    release: None,
    root: "/usr/local/lib/sealane-peers/dpdk",
    files: &["usr/bin/dpdk-test-crypto-perf"],
    packages: &[
        "dpdk-dev",
        "librte-bus-vdev23",
        "librte-crypto-ipsec-mb23",
        "librte-crypto-scheduler23",
        "librte-cryptodev23",
        "librte-eal23",
        "librte-kvargs23",
        "librte-mbuf23",
        "librte-mempool23",
        "librte-mempool-ring23",
        "librte-net23",
        "librte-rcu23",
        "librte-reorder23",
        "librte-ring23",
        "librte-security23",
        "librte-telemetry23",
        "libipsec-mb1",
        "libbsd0",
        "libfdt1",
        "libnuma1",
    ],
    without: "bursts of the engines will not be compared with DPDK",
};

/// A scapy whose IKEv2 writes what it has read, which Debian's does not: the version, and its place, a virtual environment.
/// Tests of crate `ike` expect it there.
const SCAPY: (&str, &str) = ("scapy==2.8.0", "/usr/local/lib/sealane-peers/scapy");

/// Wireshark's captures of IKEv2 and the keys that belong to them, for the tests of crate `ike`: its source has them, and
/// no package.
const CAPTURES: &str = "/usr/local/lib/sealane-peers/wireshark";

/// The place of OpenSSL's own test program and its vectors, for the tests of crate `provider`: the source of this machine's
/// version has them, and no package.
const OPENSSL: &str = "/usr/local/lib/sealane-peers/openssl";

/// The queue's server, of which distributions have versions that are out of support.
const NATS_SERVER: &str = "github.com/nats-io/nats-server/v2@v2.15.2";

/// The SFTP server of another maker, without an sshd around it.
const SFTP_SERVER: &str = "github.com/pkg/sftp/server_standalone@v1.13.12";

/// Installs every missing package, the programs that Go builds if Go is installed, and a newer strongSwan and crypto_mb if
/// there is a mirror of Debian.
///
/// # Errors
/// Fails if `apt-get` is missing, refuses, or the user may not install packages.
pub(crate) fn install() -> Result<()> {
    packages()?;
    of_go("wireguard", WIREGUARD_GO, "tunnels are compared with")?;
    of_go("nats-server", NATS_SERVER, "runs on many hosts are tried with")?;
    of_go("server_standalone", SFTP_SERVER, "copies over SFTP are tried with")?;
    unpacked(&STRONGSWAN, make_a_root)?;
    unpacked(&LIBRESWAN, nothing)?;
    unpacked(&PROFTPD, nothing)?;
    if cfg!(target_arch = "x86_64") {
        unpacked(&UML, link_modules)?;
        // Releases change, and no test needs these two.
        for what in [&CRYPTO_MB, &DPDK] {
            if let Err(error) = unpacked(what, nothing) {
                println!("{error:#}; {}", what.without);
            }
        }
    }
    scapy()?;
    captures()?;
    openssl()?;
    unpacked(&OPENSSL_NEWER, nothing)
}

/// Downloads packages or sources of a release of Debian into the folder `work`, apart from the machine's own lists.
/// `line` is one of a list of sources, in which `{}` is the mirror.
fn download(work: &Path, mirror: &str, line: &str, arguments: &[&str]) -> Result<()> {
    for folder in ["lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(work.join(folder)).with_context(|| format!("making {}", work.display()))?;
    }
    let list = line.replace("{}", &format!("[signed-by={KEYRING}] {mirror}"));
    fs::write(work.join("sources.list"), list + "\n")?;
    let shown = work.display();
    let options = [
        format!("Dir::Etc::sourcelist={shown}/sources.list"),
        "Dir::Etc::sourceparts=/dev/null".to_owned(),
        format!("Dir::State::Lists={shown}/lists"),
        format!("Dir::Cache={shown}/cache"),
        "APT::Sandbox::User=root".to_owned(),
    ];
    for arguments in [&["update"][..], arguments] {
        let mut command = Command::new("apt-get");
        command.current_dir(work).args(["--quiet=2"]);
        for option in &options {
            command.args(["-o", option]);
        }
        let status = command.args(arguments).status().context("running apt-get")?;
        ensure!(status.success(), "apt-get {} failed: {status}", arguments.join(" "));
    }
    Ok(())
}

/// Returns the name of this machine's release of Debian.
fn own_release() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    name.unwrap_or("stable").to_owned()
}

/// Installs the newer scapy, which is written in Python alone, beside Debian's.
fn scapy() -> Result<()> {
    let (version, root) = SCAPY;
    let pip = Path::new(root).join("bin/pip");
    let has_version = |pip: &Path| {
        let (name, number) = version.split_once("==").unwrap_or((version, ""));
        let output = Command::new(pip).args(["show", name]).output();
        output.is_ok_and(|output| {
            String::from_utf8_lossy(&output.stdout).contains(&format!("Version: {number}\n"))
        })
    };
    if has_version(&pip) {
        return Ok(());
    }
    let python = Command::new("/usr/bin/python3").args(["-m", "venv", "--clear", root]).status();
    ensure!(python.context("running python3")?.success(), "making the virtual environment {root} failed");
    let status = Command::new(&pip).args(["install", "--quiet", version]).status().context("running pip")?;
    if !status.success() {
        println!("pip install {version} failed: the test with scapy's IKEv2 will be skipped");
    }
    Ok(())
}

/// Unpacks Wireshark's captures of IKEv2, and the text of the tests that has their keys.
fn captures() -> Result<()> {
    let root = Path::new(CAPTURES);
    if root.join("captures").exists() {
        return Ok(());
    }
    let Some(mirror) = mirror().filter(|_| Path::new(KEYRING).exists()) else {
        println!("no Debian here: the test with Wireshark's captures of IKEv2 will be skipped");
        return Ok(());
    };
    let work = root.with_extension("download");
    let source = ["source", "--download-only", "--tar-only", "wireshark"];
    download(&work, &mirror, &format!("deb-src {{}} {} main", own_release()), &source)?;
    let unpack = "set -e; tar -xf wireshark_*.orig.tar.* --strip-components=2 --wildcards \
            '*/test/captures/ikev2*' '*/test/config/ikev2*'
        mkdir -p \"$1\"; cp -r captures config \"$1\"";
    let mut command = Command::new("sh");
    command.current_dir(&work).args(["-c", unpack, "sh", CAPTURES]);
    let status = command.status().context("running sh")?;
    ensure!(status.success(), "unpacking Wireshark's captures failed: {status}");
    fs::remove_dir_all(&work)?;
    Ok(())
}

/// Builds OpenSSL's test program, which needs no other part of OpenSSL's build, with this machine's libcrypto.
fn openssl() -> Result<()> {
    let root = Path::new(OPENSSL);
    if root.join("evp_test").exists() {
        return Ok(());
    }
    let Some(mirror) = mirror().filter(|_| Path::new(KEYRING).exists()) else {
        println!("no Debian here: the test with OpenSSL's own vectors will be skipped");
        return Ok(());
    };
    let work = root.with_extension("download");
    let source = ["source", "--download-only", "--tar-only", "openssl"];
    download(&work, &mirror, &format!("deb-src {{}} {} main", own_release()), &source)?;
    // The shell finds the archive's version, and the files of the program.
    let build = "set -e; tar -xf openssl_*.orig.tar.gz; cd openssl-*/; mkdir objects; cd objects
        for file in ../test/evp_test.c ../apps/lib/opt.c ../test/testutil/*.c; do
            case $file in */test_cleanup.c|*/test_options.c) continue ;; esac
            gcc -w -I/usr/include -I../include -I../apps/include -I../test -I.. -c \"$file\"
        done
        gcc -o evp_test ./*.o -lssl -lcrypto
        cp ../test/recipes/30-test_evp_data/*.txt evp_test \"$1\"";
    fs::create_dir_all(root)?;
    let mut command = Command::new("sh");
    command.current_dir(&work).args(["-c", build, "sh", OPENSSL]);
    let status = command.status().context("running sh")?;
    ensure!(status.success(), "building OpenSSL's evp_test failed: {status}");
    fs::remove_dir_all(&work)?;
    Ok(())
}

/// Brings packages, unless their files are there. `prepare` is run in the root before they are unpacked.
fn unpacked(what: &Unpacked, prepare: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let root = Path::new(what.root);
    if what.files.iter().all(|file| root.join(file).exists()) {
        return Ok(());
    }
    let Some(mirror) = mirror().filter(|_| Path::new(KEYRING).exists()) else {
        println!("no Debian here: {}", what.without);
        return Ok(());
    };
    let work = root.with_extension("download");
    let release = what.release.map_or_else(own_release, str::to_owned);
    download(
        &work,
        &mirror,
        &format!("deb {{}} {release} main"),
        &[&["download"][..], what.packages].concat(),
    )?;
    fs::create_dir_all(root)?;
    prepare(root)?;
    unpack(&work, root)
}

/// Prepares nothing.
fn nothing(_: &Path) -> Result<()> {
    Ok(())
}

/// Makes the folders of a system that a program may have as its root.
fn make_a_root(root: &Path) -> Result<()> {
    for folder in ["bin", "sbin", "lib", "lib64"] {
        fs::create_dir_all(root.join("usr").join(folder))?;
        if !root.join(folder).exists() {
            std::os::unix::fs::symlink(format!("usr/{folder}"), root.join(folder))?;
        }
    }
    for folder in ["proc", "dev", "sys", "tmp", "run", "var", "etc"] {
        fs::create_dir_all(root.join(folder))?;
    }
    Ok(())
}

/// Links the modules of user-mode Linux, and the program that loads them, to the places where the kernel looks for them.
fn link_modules(root: &Path) -> Result<()> {
    fs::create_dir_all(root.join("lib"))?;
    for (target, link) in [("../usr/lib/uml/modules", "lib/modules"), ("bin/kmod", "modprobe")] {
        if fs::symlink_metadata(root.join(link)).is_err() {
            std::os::unix::fs::symlink(target, root.join(link))?;
        }
    }
    Ok(())
}

/// Unpacks the downloaded packages into a root, and removes what was downloaded.
fn unpack(work: &Path, root: &Path) -> Result<()> {
    for entry in fs::read_dir(work)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            let status =
                Command::new("dpkg").arg("-x").arg(&path).arg(root).status().context("running dpkg")?;
            ensure!(status.success(), "unpacking {} failed: {status}", path.display());
        }
    }
    fs::remove_dir_all(work)?;
    Ok(())
}

/// Returns the source of this machine's packages, if that is a mirror of Debian's.
fn mirror() -> Option<String> {
    let folder =
        fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten().map(|entry| entry.path());
    let files = std::iter::once("/etc/apt/sources.list".into()).chain(folder);
    let texts: Vec<String> = files.filter_map(|path| fs::read_to_string(path).ok()).collect();
    texts.iter().find_map(|text| debian_mirror(text))
}

/// Returns the first archive of Debian's own in a list of sources, in either format.
fn debian_mirror(text: &str) -> Option<String> {
    let words =
        text.lines().filter(|line| !line.trim_start().starts_with('#')).flat_map(str::split_whitespace);
    let mut urls = words.filter(|word| word.starts_with("http://") || word.starts_with("https://"));
    urls.find(|url| url.trim_end_matches('/').ends_with("/debian")).map(str::to_owned)
}

fn packages() -> Result<()> {
    let missing: Vec<&str> = PACKAGES.iter().map(|&(name, _)| name).filter(|name| !installed(name)).collect();
    if missing.is_empty() {
        println!("all {} packages are installed", PACKAGES.len());
        return Ok(());
    }
    println!("installing {}", missing.join(" "));
    apt_get(&["update", "--quiet=2"])?;
    let mut arguments = vec!["install", "--yes", "--quiet=2", "--no-install-recommends"];
    arguments.extend(missing);
    apt_get(&arguments)
}

/// Installs a program with Go, because distributions have old versions of it. It is skipped without Go, without network
/// or without the right to install, and comparisons or tests with it then print the reason.
fn of_go(program: &str, module: &str, what: &str) -> Result<()> {
    let has = |program: &str, argument: &str| Command::new(program).arg(argument).output().is_ok();
    if has(program, "--version") {
        return Ok(());
    }
    if !has("go", "version") {
        println!("no go: `go install {module}` brings the {program} that {what}");
        return Ok(());
    }
    let mut command = Command::new("go");
    command.args(["install", module]).env("GOBIN", "/usr/local/bin");
    if !command.status().context("running go")?.success() {
        println!("go install {module} failed: there is no {program} that {what}");
    }
    Ok(())
}

fn installed(package: &str) -> bool {
    let output =
        Command::new("dpkg-query").args(["--show", "--showformat=${db:Status-Status}", package]).output();
    output.is_ok_and(|output| output.status.success() && output.stdout == b"installed")
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("apt-get");
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    let status = command.status().context("running apt-get")?;
    ensure!(status.success(), "apt-get {} failed: {status}", arguments.join(" "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_named_once_and_explained() {
        let mut names: Vec<&str> = PACKAGES.iter().map(|&(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PACKAGES.len());
        assert!(PACKAGES.iter().all(|(_, why)| why.len() > 5));
    }

    #[test]
    fn debians_mirror_is_found_in_both_forms_of_lists() {
        let old = "# deb http://a/debian x main\ndeb [signed-by=/k] https://m.example/debian-security x main\ndeb http://m.example/debian bookworm main\n";
        assert_eq!(debian_mirror(old).as_deref(), Some("http://m.example/debian"));
        let new = "Types: deb\nURIs: https://m.example/debian/\nSuites: trixie\n";
        assert_eq!(debian_mirror(new).as_deref(), Some("https://m.example/debian/"));
        assert_eq!(debian_mirror("deb http://archive.ubuntu.com/ubuntu noble main\n"), None);
    }

    #[test]
    fn an_unknown_package_is_not_installed() {
        assert!(!installed("sealane-no-such-package"));
    }
}
