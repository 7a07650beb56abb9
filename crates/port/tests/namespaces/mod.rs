//! Two network namespaces, a link between them, and a tunnel over that link.

#[path = "../../../../testing/namespaces.rs"]
mod hosts;

pub(crate) use hosts::inside;
use hosts::{End, ip};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;

/// Inner MTU: the part of 1500 that an ESP tunnel over UDP leaves.
const INNER_MTU: u32 = 1436;
/// The unit of CPU time in `/proc`, on every architecture of today.
const TICKS_PER_SECOND: f64 = 100.0;
/// The namespaces' addresses outside and inside the tunnel.
const OUTER: [&str; 2] = ["10.201.0.1", "10.201.0.2"];
/// See [`OUTER`].
pub(crate) const INNER: [&str; 2] = ["10.202.0.1", "10.202.0.2"];

/// Returns the reason why such tests cannot run here.
pub(crate) fn missing() -> Option<String> {
    hosts::missing(&["iperf3", "ping"])
}

/// Returns the path of the example that was built together with the tests.
pub(crate) fn null_tunnel() -> PathBuf {
    let mut path = std::env::current_exe().expect("a test has a path");
    path.pop();
    path.pop();
    path.join("examples").join("null_tunnel")
}

/// One namespace without a link. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Alone(String);

impl Alone {
    /// Makes an empty namespace, whose name ends with `tag`.
    pub(crate) fn new(tag: &str) -> Self {
        let name = format!("slC{:x}{tag}", std::process::id());
        hosts::add(&name).expect("a namespace");
        Self(name)
    }

    /// Does as [`inside`].
    pub(crate) fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        inside(&self.0, work)
    }

    /// Gives the device `t0` the first inner address.
    pub(crate) fn set_up_device(&self) {
        ip(&format!("-n {} addr add {}/24 dev t0", self.0, INNER[0]));
        ip(&format!("-n {} link set t0 up", self.0));
    }
}

impl Drop for Alone {
    fn drop(&mut self) {
        hosts::remove(&self.0);
    }
}

/// A host beside the far end of a tunnel, with a program. It is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Neighbour {
    name: String,
    program: Option<Child>,
}

impl Neighbour {
    /// Makes a host at the first of two addresses, with their networks' bits; the tunnel's far end has the second.
    pub(crate) fn of(tunnel: &Tunnel, addresses: [&str; 2]) -> Self {
        let name = format!("slN{:x}", std::process::id());
        hosts::add(&name).expect("a namespace");
        let own = Self { name, program: None };
        let names = [&own.name, &tunnel.names[1]];
        let lists = addresses.map(|address| [address]);
        let end = |at: usize| End {
            namespace: names[at],
            device: ["n0", "n1"][at],
            addresses: &lists[at],
            settings: "",
        };
        hosts::cable([end(0), end(1)]).expect("a cable");
        own
    }

    /// Returns a command that runs there.
    pub(crate) fn command(&self, program: &str, arguments: &[String]) -> Command {
        let mut command = hosts::command(&self.name, program);
        command.args(arguments);
        command
    }

    /// Starts a program there, in place of the one that may run.
    pub(crate) fn start(&mut self, words: &[String]) {
        self.end();
        let mut command = self.command(&words[0], &words[1..]);
        self.program = Some(command.stdout(Stdio::null()).spawn().expect("ip is there"));
    }

    /// Ends the program, without a farewell.
    pub(crate) fn end(&mut self) {
        if let Some(mut program) = self.program.take() {
            let _ = program.kill();
            let _ = program.wait();
        }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.end();
        hosts::remove(&self.name);
    }
}

/// Two namespaces with a tunnel between them. All of it is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Tunnel {
    /// Names of the namespaces.
    pub(crate) names: [String; 2],
    daemons: Vec<Child>,
}

impl Tunnel {
    /// Starts a program for each end; `command` returns the program and its arguments for (device, own address,
    /// peer's address).
    pub(crate) fn up(command: impl Fn(&str, &str, &str) -> Vec<String>) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let id = format!("{:x}{:x}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let mut tunnel = Self { names: [format!("slA{id}"), format!("slB{id}")], daemons: Vec::new() };
        let [a, b] = tunnel.names.clone();
        for name in [&a, &b] {
            hosts::add(name).expect("a namespace");
        }
        let outer = OUTER.map(|address| format!("{address}/24"));
        let addresses = [[&*outer[0]], [&*outer[1]]];
        let end = |at: usize| End {
            namespace: [&a, &b][at],
            device: ["o0", "o1"][at],
            addresses: &addresses[at],
            settings: "",
        };
        hosts::cable([end(0), end(1)]).expect("a cable");
        for (end, name) in [&a, &b].into_iter().enumerate() {
            let program = command("t0", OUTER[end], OUTER[1 - end]);
            let mut daemon = hosts::command(name, &program[0]);
            daemon.args(&program[1..]).stdout(Stdio::null());
            tunnel.daemons.push(daemon.spawn().expect("ip is there"));
            tunnel.wait_for_device(name);
            ip(&format!("-n {name} addr add {}/24 dev t0", INNER[end]));
            ip(&format!("-n {name} link set t0 mtu {INNER_MTU}"));
            ip(&format!("-n {name} link set t0 up"));
        }
        tunnel
    }

    /// Makes a GSO packet and its headers fit into one burst, for a tunnel that does not do so itself.
    pub(crate) fn of_single_bursts(self) -> Self {
        for name in &self.names {
            ip(&format!("-n {name} link set t0 gso_max_size 60000 gro_max_size 60000"));
        }
        self
    }

    fn wait_for_device(&mut self, name: &str) {
        let has_device = || {
            let output = Command::new("ip").args(["-n", name, "link", "show", "t0"]).output();
            output.is_ok_and(|output| output.status.success())
        };
        for _ in 0..500 {
            if has_device() {
                return;
            }
            if let Some(Ok(Some(status))) = self.daemons.last_mut().map(Child::try_wait) {
                panic!("the tunnel's end in {name} ended: {status}");
            }
            thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("no device in {name}");
    }

    /// Returns a command that runs in namespace `end`.
    pub(crate) fn command(&self, end: usize, program: &str, arguments: &str) -> Command {
        let mut command = hosts::command(&self.names[end], program);
        command.args(arguments.split(' '));
        command
    }

    /// Returns the CPU seconds that both ends have used.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        let used = |daemon: &Child| {
            let stat = fs::read_to_string(format!("/proc/{}/stat", daemon.id())).unwrap_or_default();
            let fields: Vec<f64> = stat
                .rsplit_once(") ")
                .map(|(_, fields)| fields.split(' ').map(|field| field.parse().unwrap_or_default()).collect())
                .unwrap_or_default();
            fields.get(11..13).map_or(0.0, |times| times.iter().sum::<f64>() / TICKS_PER_SECOND)
        };
        self.daemons.iter().map(used).sum()
    }

    /// Returns the memory that the program of an end has at present, and the most that it has had, in KiB.
    pub(crate) fn resident_kib(&self, end: usize) -> [u64; 2] {
        let path = format!("/proc/{}/status", self.daemons[end].id());
        let status = fs::read_to_string(path).expect("it runs");
        ["VmRSS:", "VmHWM:"].map(|field| {
            let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("Linux has it");
            line.trim().trim_end_matches(" kB").parse().expect("a number")
        })
    }

    /// Runs one TCP stream through the tunnel for some seconds; returns Gb/s received, and segments sent again.
    pub(crate) fn iperf3(&self, seconds: u32) -> (f64, u64) {
        let mut server = self.command(1, "iperf3", "-s -1 --forceflush");
        let mut server = server.stdout(Stdio::piped()).spawn().expect("iperf3 is there");
        let mut lines = BufReader::new(server.stdout.take().expect("it was piped")).lines();
        while !lines.next().expect("it says that it listens").expect("text").contains("listening") {}
        let arguments = format!("-c {} -t {seconds} -J", INNER[1]);
        let output = self.command(0, "iperf3", &arguments).output().expect("iperf3 is there");
        lines.for_each(drop);
        server.wait().expect("it was started");
        let report: Value = serde_json::from_slice(&output.stdout).expect("iperf3 -J prints JSON");
        let field = |object: &str, field: &str| {
            report["end"][object][field].as_f64().unwrap_or_else(|| panic!("iperf3: {report}"))
        };
        (field("sum_received", "bits_per_second") / 1e9, field("sum_sent", "retransmits") as u64)
    }
}

impl Drop for Tunnel {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        for name in &self.names {
            hosts::remove(name);
        }
    }
}
