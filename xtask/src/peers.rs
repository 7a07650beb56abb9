//! The foreign programs that tests talk to or compare with, and how a Debian machine gets them.
//!
//! Tests skip, with a printed reason, where one is missing; with `SEALANE_REQUIRE_PEERS=1` they fail instead.

use anyhow::{Context, Result, ensure};
use std::process::Command;

/// Package, and what needs it.
const PACKAGES: &[(&str, &str)] = &[
    ("openssh-client", "ssh sessions that start the far end, scp as a rival"),
    ("openssh-server", "a throw-away sshd on a loopback port"),
    ("gcc-aarch64-linux-gnu", "compiles the C of libraries for the other architecture that is packaged"),
    ("libc6-dev-arm64-cross", "the headers that it compiles with"),
    ("rsync", "a rival, and an oracle for trees and filters"),
    ("iperf3", "the bare speed of the path that a copy is compared with"),
    ("rclone", "a rival"),
    ("curl", "a rival over TLS, and stray HTTP requests against the daemon's port"),
    ("nginx-light", "the other end of the rival over TLS"),
    ("zsh", "completes, as bash does"),
    ("openssl", "its libcrypto: an oracle for ciphers and digests, and a rival"),
    ("attr", "extended attributes, read by another program than ours"),
    ("acl", "access control lists, read by another program than ours"),
    ("python3-scapy", "a foreign end for ESP and AH"),
    ("python3-cryptography", "what scapy encrypts with"),
    ("tshark", "decrypts our ESP with the keys given, and decodes captures"),
    ("iproute2", "network namespaces, and the links between them"),
    ("nftables", "takes away the tables of a gateway's host, and hides hosts behind one address"),
    ("iputils-ping", "small packets through a tunnel"),
    ("ethtool", "links that cut trains into packets"),
    ("wireguard-tools", "keys and peers of wireguard-go, a rival of the tunnel"),
    ("openvpn", "a rival of the tunnel"),
    ("charon-systemd", "strongSwan, a rival of the tunnel with ESP in user space"),
    ("strongswan-swanctl", "tells strongSwan its connections"),
    ("libstrongswan-standard-plugins", "strongSwan's cryptography by OpenSSL"),
    ("libcharon-extra-plugins", "strongSwan's ESP in user space (kernel-libipsec)"),
];

/// wireguard-go, of which distributions have old ones: where it comes from. It calls itself v0.0.20250522.
const WIREGUARD_GO: &str = "golang.zx2c4.com/wireguard@v0.0.0-20260522210424-ecfc5a8d5446";

/// Installs every package that is not there yet, and wireguard-go where Go is.
///
/// # Errors
/// When `apt-get` is missing, refuses, or the user may not install packages.
pub(crate) fn install() -> Result<()> {
    packages()?;
    wireguard_go()
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

/// The tunnel's rival, as `wireguard`. Without Go, without network or without the right to install there is none, and what is
/// compared with it says so.
fn wireguard_go() -> Result<()> {
    let has = |program: &str, argument: &str| Command::new(program).arg(argument).output().is_ok();
    if has("wireguard", "--version") {
        return Ok(());
    }
    if !has("go", "version") {
        println!("no go: `go install {WIREGUARD_GO}` brings the wireguard-go that tunnels are compared with");
        return Ok(());
    }
    let mut command = Command::new("go");
    command.args(["install", WIREGUARD_GO]).env("GOBIN", "/usr/local/bin");
    if !command.status().context("running go")?.success() {
        println!("go install {WIREGUARD_GO} failed: tunnels are compared without wireguard-go");
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
    fn an_unknown_package_is_not_installed() {
        assert!(!installed("sealane-no-such-package"));
    }
}
