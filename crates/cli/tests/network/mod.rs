//! Hosts as network namespaces, cables between them, and gateways of `sealane tunnel` in them.

// Each file of tests is a program of its own and uses only a part of this module.
#![allow(dead_code)]

pub(crate) mod guest;
#[path = "../../../../testing/namespaces.rs"]
pub(crate) mod namespaces;
pub(crate) mod pair;
#[path = "../../../../testing/charon.rs"]
mod settings;
pub(crate) mod strongswan;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use namespaces::{End, ip};

use crate::program::{self, Ends, Running, eventually, text, without};

/// Returns the reason why such tests cannot run here.
pub(crate) fn missing() -> Option<String> {
    namespaces::missing(&["ping"])
}

/// Namespaces that are removed at the end, with all processes in them.
pub(crate) struct Net {
    tag: String,
    names: Vec<String>,
    pub(crate) children: Vec<Running>,
    pub(crate) folder: tempfile::TempDir,
}

impl Net {
    /// Makes the hosts. Their names begin with `tag`, and are those of no other test.
    pub(crate) fn new(tag: &str, hosts: &[&str]) -> Self {
        static NETS: AtomicU32 = AtomicU32::new(0);
        let tag = format!("slo{tag}{}n{}", std::process::id(), NETS.fetch_add(1, Relaxed));
        let net = Self {
            names: hosts.iter().map(|host| format!("{tag}{host}")).collect(),
            tag,
            children: Vec::new(),
            folder: tempfile::tempdir().expect("a folder"),
        };
        for name in &net.names {
            namespaces::add(name).expect("a namespace");
            // Gateways forward.
            let _ = namespaces::forward(name);
        }
        net
    }

    pub(crate) fn name(&self, host: &str) -> String {
        format!("{}{host}", self.tag)
    }

    /// Makes a cable between two hosts, with an address at each end.
    pub(crate) fn link(&self, ends: [(&str, &str, &str); 2], mtu: u32) {
        let names = ends.map(|(host, ..)| self.name(host));
        let (addresses, settings) = (ends.map(|(.., address)| [address]), format!("mtu {mtu}"));
        let end = |at: usize| End {
            namespace: &names[at],
            device: ends[at].1,
            addresses: &addresses[at],
            settings: &settings,
        };
        namespaces::cable([end(0), end(1)]).expect("a cable");
    }

    pub(crate) fn command(&self, host: &str, program: &str, arguments: &str) -> Command {
        let mut command = namespaces::command(&self.name(host), program);
        command.args(arguments.split_whitespace());
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
        let mut command = self.tunnel(host, "up");
        let mut child = command.arg(path).stderr(Stdio::piped()).spawn().expect("it starts");
        let mut said = [0; 6];
        child.stderr.as_mut().expect("it is a pipe").read_exact(&mut said).expect("it says that it is up");
        assert_eq!(&said, b"sl0 is");
        self.children.push(Running(child));
    }

    pub(crate) fn wait_for_ping(&self, from: &str, to: &str) {
        let is_answered = || self.run(from, "ping", &format!("-c 1 -W 1 {to}")).status.success();
        assert!(eventually(is_answered), "no answer from {to}");
    }

    /// Adds rules to the packet filter of `host`; if that cannot be, the test is skipped for want of `what`.
    pub(crate) fn filter(&self, host: &str, what: &str, rules: &[&str]) -> Option<()> {
        rules.iter().try_for_each(|rule| {
            let output = self.command(host, "nft", "").arg(rule).output().expect("ip runs");
            without(what, output.status.success().then_some(()).ok_or_else(|| text(&output.stderr)))
        })
    }

    /// Runs `work` on a thread in a host's namespace, where its sockets then belong.
    pub(crate) fn inside<T: Send>(&self, host: &str, work: impl FnOnce() -> T + Send) -> T {
        namespaces::inside(&self.name(host), work)
    }

    /// Returns a command of `sealane tunnel` about the gateway of `host`.
    pub(crate) fn tunnel(&self, host: &str, arguments: &str) -> Command {
        let mut command = self.command(host, env!("CARGO_BIN_EXE_sealane"), &format!("tunnel {arguments}"));
        command.env("SEALANE_RUN", self.folder.path().join(format!("{host}.run")));
        command
    }

    /// Ends the gateway of `host` in an orderly way.
    #[track_caller]
    pub(crate) fn down(&self, host: &str) {
        self.tunnel(host, "down sl0").ends(0);
    }

    /// Returns the status of the gateway of `host`.
    pub(crate) fn status(&self, host: &str) -> serde_json::Value {
        let output = self.tunnel(host, "status --json").output().expect("it runs");
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// Returns the SPIs of associations in a direction, as [`spis`] does.
    pub(crate) fn spis(&self, host: &str, direction: &str) -> Vec<u64> {
        spis(&self.status(host), direction)
    }

    /// Gives a host's device `o0` the address 10.90.0.77 in place of another.
    pub(crate) fn readdress(&self, host: &str, address: &str) {
        readdress(&self.name(host), address);
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        // The programs end before the namespaces that they run in.
        self.children.clear();
        self.names.iter().for_each(|name| namespaces::remove(name));
    }
}

/// Returns the SPIs of the associations with the first peer of a status, in a direction.
pub(crate) fn spis(status: &serde_json::Value, direction: &str) -> Vec<u64> {
    let all = status["peers"][0]["associations"].as_array().expect("a list").iter();
    let own = all.filter(|association| association["direction"] == direction);
    own.map(|association| association["spi"].as_u64().expect("a number")).collect()
}

/// Gives the device `o0` of a namespace the address 10.90.0.77 in place of another.
pub(crate) fn readdress(namespace: &str, address: &str) {
    ip(&format!("-n {namespace} address add 10.90.0.77/24 dev o0"));
    ip(&format!("-n {namespace} address del {address}/24 dev o0"));
    ip(&format!("-n {namespace} address replace 10.90.0.77/24 dev o0"));
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
