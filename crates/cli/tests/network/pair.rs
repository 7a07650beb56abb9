//! Two gateways of `sealane tunnel`, each in a namespace, with a cable between them.

use std::fmt::Display;
use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use super::namespaces::{self, End};
use crate::program::{self, Ends, Running, eventually, pattern, secret, text, utf8};

/// Inner addresses of the two ends.
pub(crate) const INNER: [&str; 2] = ["10.91.1.1", "10.91.2.1"];
/// Outer addresses.
pub(crate) const OUTER: [&str; 2] = ["10.90.0.1", "10.90.0.2"];

/// Settings of two gateways' protection, in addition to the suite.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    /// Additional first lines of a site file.
    pub(crate) site: &'static str,
    /// Additional lines of the peer.
    pub(crate) peer: &'static str,
    pub(crate) is_outer_v6: bool,
    pub(crate) is_inner_v6: bool,
    /// Whether the sockets are of both families, although outer addresses are of IPv4.
    pub(crate) listens_to_both: bool,
    /// Whether the gateways' own keys are of Ed25519 and ML-DSA-65.
    pub(crate) is_hybrid: bool,
}

pub(crate) const TUNNEL: Manner = Manner {
    site: "",
    peer: "",
    is_outer_v6: false,
    is_inner_v6: false,
    listens_to_both: false,
    is_hybrid: false,
};
pub(crate) const PLAIN: &str = "encapsulation = \"none\"\n";
pub(crate) const DIRECT: &str = "encapsulation = \"none\"\ndirect = true\n";
pub(crate) const AH: &str = "encapsulation = \"none\"\nprotocol = \"ah\"\n";
pub(crate) const TRANSPORT: &str = "mode = \"transport\"\n";

impl Manner {
    pub(crate) fn outer(self, end: usize) -> &'static str {
        if self.is_outer_v6 { ["[fd90::1]", "[fd90::2]"][end] } else { OUTER[end] }
    }

    /// Returns an end's inner address, and the bits of a host's network.
    pub(crate) fn inner(self, end: usize) -> (&'static str, u8) {
        if self.is_inner_v6 { (["fd91:1::1", "fd91:2::1"][end], 128) } else { (INNER[end], 32) }
    }
}

/// Two namespaces, a link between them, and a gateway in each.
pub(crate) struct Pair {
    pub(crate) names: [String; 2],
    pub(crate) folders: [tempfile::TempDir; 2],
    pub(crate) gateways: [Option<Running>; 2],
    pub(crate) lanes: &'static str,
    /// The engine of both ends; without one, it follows from the lanes.
    pub(crate) engine: Option<String>,
    pub(crate) manner: Manner,
}

/// Makes two namespaces with a link between them.
pub(crate) fn linked(tag: &str) -> [String; 2] {
    let names = [0, 1].map(|end| format!("slt{tag}{end}-{}", std::process::id()));
    for name in &names {
        namespaces::add(name).expect("a namespace");
    }
    let v4 = OUTER.map(|address| format!("{address}/24"));
    let addresses = [[&*v4[0], "fd90::1/64 nodad"], [&*v4[1], "fd90::2/64 nodad"]];
    let end = |at: usize| End {
        namespace: &names[at],
        device: ["o0", "o1"][at],
        addresses: &addresses[at],
        settings: "",
    };
    namespaces::cable([end(0), end(1)]).expect("a cable");
    names
}

/// Makes an identity. Returns its public key.
pub(crate) fn identity(folder: &Path) -> String {
    made(folder, &[])
}

/// Makes an identity of Ed25519 and ML-DSA-65. Returns its public key.
pub(crate) fn hybrid(folder: &Path) -> String {
    made(folder, &["--hybrid"])
}

fn made(folder: &Path, options: &[&str]) -> String {
    let mut command = program::sealane(&["id", "--identity"]);
    let made = command.arg(folder.join("identity")).args(options).output();
    text(&made.expect("it runs").stdout).trim().to_owned()
}

impl Pair {
    /// Makes two ends that know each other's keys; `more` is added to each end's configuration of the other. If
    /// `has_one_caller` is set, only the first has an endpoint to call.
    pub(crate) fn keyed(tag: &str, more: &str, has_one_caller: bool) -> Self {
        Self::keyed_as(tag, more, has_one_caller, TUNNEL)
    }

    pub(crate) fn keyed_as(tag: &str, more: &str, has_one_caller: bool, manner: Manner) -> Self {
        let names = linked(tag);
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let make = if manner.is_hybrid { hybrid } else { identity };
        let keys = [0, 1].map(|end: usize| make(folders[end].path()));
        for (end, folder) in folders.iter().enumerate() {
            let other = 1 - end;
            let endpoint = match has_one_caller && end == 1 {
                true => String::new(),
                false => format!("endpoint = \"{}:4500\"\n", OUTER[other]),
            };
            let site = format!(
                "device = \"sl0\"\nlisten = \"{}:4500\"\nidentity = \"identity\"\n{}addresses = [\"{}/32\"]\n\
                 [[peers]]\nname = \"other\"\nkey = \"{}\"\nnetworks = [\"{}/32\"]\n{}{endpoint}{more}\n",
                if manner.site == AH { OUTER[end] } else { "0.0.0.0" },
                manner.site,
                INNER[end],
                keys[other],
                INNER[other],
                manner.peer,
            );
            fs::write(folder.path().join("site.toml"), site).expect("a site file");
        }
        let mut pair = Self { names, folders, gateways: [None, None], lanes: "1", engine: None, manner };
        pair.up(0);
        pair.up(1);
        pair
    }

    /// Waits until packets pass.
    pub(crate) fn wait_for_ping(&self) {
        assert!(eventually(|| self.ping("56")), "{}", self.status(0));
    }

    pub(crate) fn kill(&mut self, end: usize) {
        // `ip netns exec` has become the program, which is killed with the value.
        self.gateways[end].take().expect("it runs");
    }

    /// Returns the index under which an end sends.
    pub(crate) fn outbound_spi(&self, end: usize) -> u64 {
        super::spis(&self.status(end), "out").first().copied().unwrap_or(0)
    }

    pub(crate) fn new(tag: &str, suite: &str, material_bytes: usize, lanes: &'static str) -> Self {
        Self::new_as(tag, suite, material_bytes, lanes, TUNNEL)
    }

    pub(crate) fn new_as(
        tag: &str,
        suite: &str,
        material_bytes: usize,
        lanes: &'static str,
        manner: Manner,
    ) -> Self {
        let names = linked(tag);
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let hex = |seed: usize| -> String {
            (0..material_bytes).map(|at| format!("{:02x}", (at * 7 + seed) % 256)).collect()
        };
        for (end, folder) in folders.iter().enumerate() {
            let other = 1 - end;
            let bits = manner.inner(end).1;
            for (name, seed) in [("send.key", 10 + end), ("receive.key", 10 + other)] {
                secret(folder.path().join(name), &hex(seed));
            }
            let site = format!(
                r#"device = "sl0"
listen = "{}:4500"
{}addresses = ["{}/{bits}"]
[[peers]]
name = "other"
endpoint = "{}:4500"
networks = ["{}/{bits}"]
{}[peers.manual]
suite = "{suite}"
send = {{ spi = {}, key-file = "send.key" }}
receive = {{ spi = {}, key-file = "receive.key" }}
"#,
                if manner.listens_to_both { "[::]" } else { manner.outer(end) },
                manner.site,
                manner.inner(end).0,
                manner.outer(other),
                manner.inner(other).0,
                manner.peer,
                0x1000 + end,
                0x1000 + other,
            );
            fs::write(folder.path().join("site.toml"), site).expect("a site file");
        }
        let mut pair = Self { names, folders, gateways: [None, None], lanes, engine: None, manner };
        pair.up(0);
        pair.up(1);
        pair
    }

    /// Starts both gateways again, with another engine.
    pub(crate) fn change_engine(&mut self, engine: String) {
        self.engine = Some(engine);
        for end in [0, 1] {
            self.kill(end);
            self.up(end);
        }
    }

    pub(crate) fn run_folder(&self, end: usize) -> PathBuf {
        self.folders[end].path().join("run")
    }

    /// Returns a `sealane tunnel` command inside an end's namespace.
    pub(crate) fn tunnel(&self, end: usize, arguments: &[&str]) -> Command {
        let mut command = namespaces::command(&self.names[end], env!("CARGO_BIN_EXE_sealane"));
        command.arg("tunnel").args(arguments);
        command.env("SEALANE_RUN", self.run_folder(end));
        command
    }

    pub(crate) fn up(&mut self, end: usize) {
        // If there are several lanes, the engine has threads of its own.
        let of_lanes = if self.lanes == "1" { "inline" } else { "lanes:2" };
        let engine = self.engine.as_deref().unwrap_or(of_lanes);
        let mut child = self
            .tunnel(
                end,
                &["up", &self.site(end), "--lanes", self.lanes, "--engine", engine, "--allow-manual-counter"],
            )
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut said = [0; 6];
        child.stderr.as_mut().expect("it is a pipe").read_exact(&mut said).expect("it says that it is up");
        assert_eq!(&said, b"sl0 is");
        self.gateways[end] = Some(Running(child));
    }

    pub(crate) fn output(&self, end: usize, arguments: &[&str]) -> Output {
        self.tunnel(end, arguments).output().expect("it runs")
    }

    pub(crate) fn status(&self, end: usize) -> serde_json::Value {
        let output = self.output(end, &["status", "--json"]).ends(0);
        serde_json::from_slice(&output.stdout).expect("it is JSON")
    }

    pub(crate) fn dropped(&self, end: usize, reason: &str) -> u64 {
        let status = self.status(end);
        let drops = status["drops"].as_array().expect("a list").clone();
        drops.iter().find(|drop| drop[0] == reason).map_or(0, |drop| drop[1].as_u64().expect("a count"))
    }

    /// Neither end may have dropped packets for these reasons.
    #[track_caller]
    pub(crate) fn none_dropped(&self, about: impl Display, reasons: &[&str]) {
        for end in [0, 1] {
            for reason in reasons {
                assert_eq!(self.dropped(end, reason), 0, "{about}: {reason} at end {end}");
            }
        }
    }

    /// Returns the path of the site file of an end.
    pub(crate) fn site(&self, end: usize) -> String {
        utf8(&self.folders[end].path().join("site.toml")).to_owned()
    }

    /// Replaces a part of the site file of an end. Returns whether it was there.
    pub(crate) fn edit_site(&self, end: usize, from: &str, to: &str) -> bool {
        let site = self.site(end);
        let known = fs::read_to_string(&site).expect("a site file");
        fs::write(site, known.replace(from, to)).expect("a site file");
        known.contains(from)
    }

    /// Returns the number of pieces into which an end's kernel has cut packets.
    pub(crate) fn pieces_made(&self, end: usize) -> u64 {
        let snmp =
            self.inside(end, || fs::read_to_string("/proc/thread-self/net/snmp").expect("Linux has it"));
        let mut lines = snmp.lines().filter(|line| line.starts_with("Ip:"));
        let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
        let mut fields = names.split(' ').zip(values.split(' '));
        let (_, made) = fields.find(|(name, _)| *name == "FragCreates").expect("it counts them");
        made.parse().expect("a number")
    }

    /// Returns whether a packet of this size passes and is answered within two seconds.
    pub(crate) fn ping(&self, size: &str) -> bool {
        self.ping_within(size, "2")
    }

    /// Returns whether one packet passes and is answered, however busy the machine is.
    pub(crate) fn answers(&self) -> bool {
        self.ping_within("56", "30")
    }

    fn ping_within(&self, size: &str, seconds: &str) -> bool {
        let inner = self.manner.inner(1).0;
        let mut ping = namespaces::command(&self.names[0], "ping");
        ping.args(["-c", "1", "-W", seconds, "-s", size, inner]).output().expect("ping runs").status.success()
    }

    /// Runs `work` on a thread of an end's namespace, where its sockets then belong.
    pub(crate) fn inside<T: Send>(&self, end: usize, work: impl FnOnce() -> T + Send) -> T {
        namespaces::inside(&self.names[end], work)
    }

    /// Sends `bytes` over TCP from one end to the other and compares them.
    pub(crate) fn transfer(&self, bytes: usize) {
        let listener = self.inside(1, || TcpListener::bind((self.manner.inner(1).0, 0)).expect("a port"));
        let port = listener.local_addr().expect("a port").port();
        let near =
            self.inside(0, || TcpStream::connect((self.manner.inner(1).0, port)).expect("the other end"));
        super::stream(near, &listener, &pattern(bytes));
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // The programs end before the namespaces that they run in.
        self.gateways = [None, None];
        self.names.iter().for_each(|name| namespaces::remove(name));
    }
}
