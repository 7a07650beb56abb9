//! Hosts as network namespaces, cables between them, and gateways of `sealane tunnel` in them.

// Each file of tests is a program of its own and uses only a part of this module.
#![allow(dead_code)]

pub(crate) mod guest;
pub(crate) mod pair;
pub(crate) mod strongswan;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::program::{self, text};

/// Returns the reason why such tests cannot run here.
pub(crate) fn missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("namespaces and TUN devices take root".to_owned());
    }
    if !Path::new("/dev/net/tun").exists() {
        return Some("there is no /dev/net/tun".to_owned());
    }
    let has = |program: &str| Command::new(program).arg("-V").output().is_ok();
    ["ip", "ping"].into_iter().find(|program| !has(program)).map(|program| format!("{program} is missing"))
}

/// Namespaces that are removed at the end, with all processes in them.
pub(crate) struct Net {
    tag: String,
    names: Vec<String>,
    pub(crate) children: Vec<Child>,
    pub(crate) folder: tempfile::TempDir,
}

pub(crate) fn ip(arguments: &str) {
    let output = Command::new("ip").args(arguments.split(' ')).output().expect("ip runs");
    assert!(output.status.success(), "ip {arguments}: {}", text(&output.stderr));
}

impl Net {
    pub(crate) fn new(tag: &str, hosts: &[&str]) -> Self {
        let tag = format!("slo{tag}{}", std::process::id());
        let net = Self {
            names: hosts.iter().map(|host| format!("{tag}{host}")).collect(),
            tag,
            children: Vec::new(),
            folder: tempfile::tempdir().expect("a folder"),
        };
        for name in &net.names {
            ip(&format!("netns add {name}"));
            ip(&format!("-n {name} link set lo up"));
            // Gateways forward.
            let forward = ["netns", "exec", name, "sysctl", "-qw", "net.ipv4.ip_forward=1"];
            let _ = Command::new("ip").args(forward).output();
        }
        net
    }

    pub(crate) fn name(&self, host: &str) -> String {
        format!("{}{host}", self.tag)
    }

    /// Makes a cable between two hosts, with an address at each end.
    pub(crate) fn link(&self, ends: [(&str, &str, &str); 2], mtu: u32) {
        let [(one, one_device, _), (other, other_device, _)] = ends;
        let (one, other) = (self.name(one), self.name(other));
        ip(&format!("link add {one_device} netns {one} type veth peer name {other_device} netns {other}"));
        for (host, device, address) in ends {
            let name = self.name(host);
            ip(&format!("-n {name} address add {address} dev {device}"));
            ip(&format!("-n {name} link set {device} mtu {mtu} up"));
        }
    }

    pub(crate) fn command(&self, host: &str, program: &str, arguments: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(host), program]).args(arguments.split_whitespace());
        command
    }

    pub(crate) fn run(&self, host: &str, program: &str, arguments: &str) -> Output {
        self.command(host, program, arguments).output().expect("ip runs")
    }

    /// Makes a host's identity. Returns its public key.
    pub(crate) fn key(&self, host: &str) -> String {
        let file = self.folder.path().join(format!("{host}.identity"));
        let made = program::sealane(&["id", "--identity", file.to_str().expect("a path in UTF-8")]).output();
        text(&made.expect("it runs").stdout).trim().to_owned()
    }

    /// Starts the gateway of `host`, with the text `rest` behind the first lines of its site file.
    pub(crate) fn gateway(&mut self, host: &str, mtu: u32, rest: &str) {
        let path = self.folder.path().join(format!("{host}.toml"));
        let head = format!("device = \"sl0\"\nmtu = {mtu}\nidentity = \"{host}.identity\"\n");
        fs::write(&path, head + rest).expect("a site file");
        let path = path.to_str().expect("a path in UTF-8").to_owned();
        let mut command = self.command(host, env!("CARGO_BIN_EXE_sealane"), "tunnel up");
        command.arg(path).env("SEALANE_RUN", self.folder.path().join(format!("{host}.run")));
        let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
        let mut said = [0; 6];
        child.stderr.as_mut().expect("it is a pipe").read_exact(&mut said).expect("it says that it is up");
        assert_eq!(&said, b"sl0 is");
        self.children.push(child);
    }

    pub(crate) fn wait_for_ping(&self, from: &str, to: &str) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.run(from, "ping", &format!("-c 1 -W 1 {to}")).status.success() {
            assert!(Instant::now() < deadline, "no answer from {to}");
        }
    }

    /// Runs `work` on a thread in a host's namespace, where its sockets then belong.
    pub(crate) fn inside<T: Send>(&self, host: &str, work: impl FnOnce() -> T + Send) -> T {
        inside(&self.name(host), work)
    }

    /// Returns the status of the gateway of `host`.
    pub(crate) fn status(&self, host: &str) -> serde_json::Value {
        let mut command = self.command(host, env!("CARGO_BIN_EXE_sealane"), "tunnel status --json");
        command.env("SEALANE_RUN", self.folder.path().join(format!("{host}.run")));
        serde_json::from_slice(&command.output().expect("it runs").stdout).expect("JSON")
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        take_away(&mut self.children, &self.names);
    }
}

/// Runs `work` on a thread in a namespace, where its sockets then belong.
pub(crate) fn inside<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> T {
    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    let namespace = File::open(format!("/run/netns/{namespace}")).expect("a namespace");
    thread::scope(|scope| {
        let entered = scope.spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("we are root");
            work()
        });
        entered.join().expect("no panic")
    })
}

/// Ends programs, and removes the namespaces that they ran in.
fn take_away<'c>(programs: impl IntoIterator<Item = &'c mut Child>, namespaces: &[String]) {
    for program in programs {
        let _ = program.kill();
        let _ = program.wait();
    }
    for namespace in namespaces {
        let _ = Command::new("ip").args(["netns", "del", namespace]).output();
    }
}

/// Sends `content` from `near` to `listener`, and compares the received bytes.
pub(crate) fn stream(mut near: TcpStream, listener: &TcpListener, content: &[u8]) {
    let got = thread::scope(|scope| {
        // The connection is accepted within the scope, so that a failure closes it and ends the writer.
        let (mut far, _) = listener.accept().expect("a connection");
        far.set_read_timeout(Some(Duration::from_secs(60))).expect("a stream");
        scope.spawn(move || near.write_all(content).expect("the other end reads"));
        let mut got = Vec::new();
        far.read_to_end(&mut got).expect("all of it");
        got
    });
    assert!(got == content, "{} bytes of {}, or others", got.len(), content.len());
}
