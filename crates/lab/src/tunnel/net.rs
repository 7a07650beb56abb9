//! Namespaces and links, between which a tunnel is measured.
//!
//! Guarantees: packets stay within namespaces that are made here; daemons and namespaces end when a net is dropped, and
//! when the lab is killed (see [`crate::cleanup`]). On confined ground every process of one side runs on one core.

use crate::LabError;
use crate::cleanup::{Cleanup, stop_if_ending};
use crate::error::unavailable;
use crate::peers::Hosts;
use crate::process_tree::Tree;
use crate::surroundings::Surroundings;
use crate::topology::Topology;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::ffi::{OsStr, OsString};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio, id};
use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The rate of the links between hosts and gateways.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Links {
    /// As fast as the kernel moves packets. The links of road warriors are slow in any case.
    #[default]
    Unshaped,
    /// The study's 1 Gb/s, by a token bucket at both ends.
    Gigabit,
}

/// The rate of the link that tunnels cross, in megabits a second, and the burst of its token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limit {
    pub(super) megabits: u32,
    pub(super) burst_kib: u32,
}

/// The bytes that wait before a limited link.
const LIMITED_KIB: u32 = 512;

/// The hosts, the links between them, and the cores that they may use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ground {
    /// The arrangement.
    pub(crate) topology: Topology,
    pub(crate) links: Links,
    /// Whether the first half of the hosts shares the first core, and the other half the last one.
    pub(crate) is_confined: bool,
}

impl From<Topology> for Ground {
    fn from(topology: Topology) -> Self {
        Self { topology, links: Links::Unshaped, is_confined: false }
    }
}

/// Returns the first and the last CPU that this process may use.
fn first_and_last_core() -> [usize; 2] {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
    let first = cores.next().unwrap_or(0);
    [first, cores.next_back().unwrap_or(first)]
}

/// The packets that fit into 1,500 bytes outside under any suite.
pub(super) const INNER_MTU: u32 = 1400;
/// Hosts on slow links.
const WARRIORS: usize = 3;
/// The study's slow links. Its queue holds as much as it carries in the latency.
const SLOW_LINK: &str = "root tbf rate 100mbit burst 32kb latency 50ms";
/// The study's fast links. The bucket's burst holds two GSO packets, which the kernel moves whole.
const FAST_LINK: &str = "root tbf rate 1gbit burst 128kb latency 10ms";
/// The end of a tunnel.
#[derive(Clone, Debug)]
pub(super) struct Gate {
    /// The host, whose namespace holds the end.
    pub(super) host: usize,
    /// The outer address.
    pub(super) outer: String,
    /// The network that is reached through it.
    pub(super) inner: String,
    /// Its own address inside, if it is a host.
    pub(super) address: Option<String>,
}

/// Fails if there can be no hosts here, or one of the programs that a study needs on them is missing.
pub(crate) fn missing(surroundings: &Surroundings, programs: &[&str]) -> Result<(), LabError> {
    for program in ["ip", "ping"].iter().chain(programs) {
        let found = surroundings.program(program);
        found.map_err(|absent| unavailable(format_args!("hosts in namespaces: {}", absent.reason)))?;
    }
    if rustix::process::geteuid().is_root() {
        Ok(())
    } else {
        Err(unavailable("namespaces and TUN devices take root"))
    }
}

/// The first letters of the names of namespaces, before the lab's process.
const TAG: &str = "sllab";

/// Removes the namespaces whose names begin with `$1`, and ends all processes in them.
const REMOVE: &str = r#"
for name in $(ip netns list | cut -d ' ' -f 1); do
    case $name in "$1"*) ;; *) continue ;; esac
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        pids=$(ip netns pids "$name") && [ "$pids" ] || break
        kill -9 $pids
        sleep 0.02
    done
    ip netns del "$name"
done
"#;

/// Removes the namespaces of labs that were killed together with the shells that would have removed them.
fn remove_those_of_killed_labs() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let list = run("ip", "netns list").unwrap_or_default();
        let mut labs: Vec<&str> = list
            .lines()
            .filter_map(|line| line.strip_prefix(TAG)?.split_once('-').map(|(process, _)| process))
            .filter(|process| !Path::new("/proc").join(process).exists())
            .collect();
        labs.dedup();
        for process in labs.into_iter().filter(|process| process.parse::<u32>().is_ok()) {
            Cleanup::new(REMOVE, &[OsStr::new(&format!("{TAG}{process}-"))]).run();
        }
    });
}

/// Hosts with a connection between them.
pub(crate) struct Net {
    /// The number of the net in this process.
    pub(super) number: u32,
    names: Vec<String>,
    /// The removal of the namespaces, once there are some.
    cleanup: Option<Cleanup>,
    pub(super) daemons: Vec<Child>,
    links: Links,
    /// The hosts of the one link that tunnels cross, if there is one.
    pair: Option<[usize; 2]>,
    /// The cores of both halves of the hosts, if they are confined.
    pub(super) cores: Option<[usize; 2]>,
    /// Hosts that send requests to the last one; each has one stream of a test.
    pub(crate) clients: usize,
    /// The address of the last host.
    pub(crate) server: &'static str,
}

pub(super) fn run(program: &str, arguments: &str) -> Result<String, LabError> {
    stop_if_ending();
    let output = Command::new(program)
        .args(arguments.split_whitespace())
        .output()
        .map_err(|source| LabError::Start { program: program.into(), source })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(unavailable(format_args!("{program} {arguments}: {}", said.trim())))
}

pub(super) fn ip(arguments: &str) -> Result<(), LabError> {
    run("ip", arguments).map(drop)
}

pub(super) fn write_private(path: &Path, text: &str) -> Result<(), LabError> {
    fs::write(path, text).map_err(LabError::file("cannot write", path))?;
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(LabError::file("cannot protect", path))
}

impl Net {
    /// Starts the hosts and the links. Returns them with the gates of the requesting ends and of the last one.
    pub(super) fn linked(ground: Ground) -> Result<(Self, Vec<Gate>, Gate), LabError> {
        let Ground { topology, links, is_confined } = ground;
        remove_those_of_killed_labs();
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Relaxed);
        let (hosts, clients, server, pair) = match topology {
            Topology::HostHost => (2, 1, "10.94.2.1", Some([0, 1])),
            Topology::Gateways => (4, 1, "10.94.2.2", Some([1, 2])),
            Topology::RoadWarrior => (WARRIORS + 2, WARRIORS, "10.94.2.2", None),
            Topology::RoadWarriorEnds => (WARRIORS + 2, WARRIORS, "10.94.2.1", None),
        };
        let tag = format!("{TAG}{}-{number}-", id());
        let cores = is_confined.then(first_and_last_core);
        let cleanup = Some(Cleanup::new(REMOVE, &[OsStr::new(&tag)]));
        let (names, daemons) = (Vec::new(), Vec::new());
        let mut net = Self { number, names, cleanup, daemons, links, pair, cores, clients, server };
        for host in 0..hosts {
            let name = format!("{tag}{host}");
            ip(&format!("netns add {name}"))?;
            net.names.push(name.clone());
            ip(&format!("-n {name} link set lo up"))?;
        }
        let (near, far) = match topology {
            Topology::HostHost => net.ends_of_pair([0, 1])?,
            Topology::Gateways => net.gateways()?,
            Topology::RoadWarrior | Topology::RoadWarriorEnds => net.road_warriors(topology)?,
        };
        Ok((net, near, far))
    }

    /// Links two hosts, and returns the gates of both ends.
    fn ends_of_pair(&self, hosts: [usize; 2]) -> Result<(Vec<Gate>, Gate), LabError> {
        self.link(hosts[0], "o0", "192.0.2.1/24", hosts[1], "o1", "192.0.2.2/24")?;
        let gate = |end: usize| Gate {
            host: hosts[end],
            outer: format!("192.0.2.{}", end + 1),
            inner: format!("10.94.{}.0/24", end + 1),
            address: Some(format!("10.94.{}.1", end + 1)),
        };
        Ok((vec![gate(0)], gate(1)))
    }

    /// Connects two gateways with a host behind each.
    fn gateways(&self) -> Result<(Vec<Gate>, Gate), LabError> {
        self.forwards(&[1, 2])?;
        let (near, far) = self.ends_of_pair([1, 2])?;
        self.link(0, "h0", "10.94.1.2/24", 1, "h1", "10.94.1.1/24")?;
        self.link(3, "h2", "10.94.2.2/24", 2, "h3", "10.94.2.1/24")?;
        for (host, gateway) in [(0, "10.94.1.1"), (3, "10.94.2.1")] {
            self.routes(host, &[("default", gateway)])?;
        }
        let near = near.into_iter().map(|gate| Gate { address: None, ..gate }).collect();
        Ok((near, Gate { address: None, ..far }))
    }

    /// Connects three hosts on slow links to a gateway, and one host behind that.
    fn road_warriors(&self, topology: Topology) -> Result<(Vec<Gate>, Gate), LabError> {
        let (gateway, server) = (WARRIORS, WARRIORS + 1);
        let is_gateway = topology == Topology::RoadWarrior;
        self.forwards(&[gateway])?;
        for host in 0..WARRIORS {
            let (near, middle) = (format!("w{host}"), format!("g{host}"));
            let subnet = 10 + host;
            self.link(
                host,
                &near,
                &format!("192.0.{subnet}.1/24"),
                gateway,
                &middle,
                &format!("192.0.{subnet}.2/24"),
            )?;
            for (host, device) in [(host, &near), (gateway, &middle)] {
                let words = format!("-n {} qdisc add dev {device} {SLOW_LINK}", self.names[host]);
                run("tc", &words)
                    .map_err(|error| unavailable(format_args!("no link of 100 Mb/s: {error}")))?;
            }
            self.routes(host, &[("default", &format!("192.0.{subnet}.2"))])?;
        }
        self.link(gateway, "h0", "10.94.2.1/24", server, "h1", "10.94.2.2/24")?;
        let far_host = if is_gateway { gateway } else { server };
        ip(&format!("-n {} addr add 192.0.2.2/32 dev lo", self.names[far_host]))?;
        self.routes(server, &[("default", "10.94.2.1")])?;
        if !is_gateway {
            // The last host's addresses move from its link to a device of its own, and to its tunnel.
            for (host, device, old, new) in
                [(gateway, "h0", "10.94.2.1", "192.0.3.1"), (server, "h1", "10.94.2.2", "192.0.3.2")]
            {
                let name = &self.names[host];
                ip(&format!("-n {name} addr del {old}/24 dev {device}"))?;
                ip(&format!("-n {name} addr add {new}/24 dev {device}"))?;
            }
            self.routes(server, &[("default", "192.0.3.1")])?;
            self.routes(gateway, &[("192.0.2.2/32", "192.0.3.2")])?;
        }
        let warrior = |host: usize| Gate {
            host,
            outer: format!("192.0.{}.1", 10 + host),
            inner: format!("10.94.{}.1/32", 11 + host),
            address: Some(format!("10.94.{}.1", 11 + host)),
        };
        let far = Gate {
            host: far_host,
            outer: "192.0.2.2".to_owned(),
            inner: "10.94.2.0/24".to_owned(),
            address: (!is_gateway).then(|| "10.94.2.1".to_owned()),
        };
        Ok(((0..WARRIORS).map(warrior).collect(), far))
    }

    /// Makes these hosts forward packets between others. The others do not forward, because a gateway that forwards
    /// sets up its device differently.
    fn forwards(&self, hosts: &[usize]) -> Result<(), LabError> {
        let names = hosts.iter().map(|&host| &self.names[host]);
        names
            .map(|name| run("ip", &format!("netns exec {name} sysctl -qw net.ipv4.ip_forward=1")))
            .try_for_each(|done| done.map(drop))
    }

    fn routes(&self, host: usize, routes: &[(&str, &str)]) -> Result<(), LabError> {
        let name = &self.names[host];
        routes.iter().try_for_each(|(to, via)| ip(&format!("-n {name} route replace {to} via {via}")))
    }

    /// Adds routes to the inner networks without a tunnel.
    pub(super) fn clear(&self, near: &[Gate], far: &Gate, topology: Topology) -> Result<(), LabError> {
        for gate in near.iter().chain([far]) {
            if let Some(address) = &gate.address {
                ip(&format!("-n {} addr add {address}/32 dev lo", self.names[gate.host]))?;
            }
        }
        match topology {
            Topology::HostHost | Topology::Gateways => {
                self.routes(near[0].host, &[(&far.inner, &far.outer)])?;
                self.routes(far.host, &[(&near[0].inner, &near[0].outer)])
            }
            Topology::RoadWarrior | Topology::RoadWarriorEnds => {
                for gate in near {
                    self.routes(WARRIORS, &[(&gate.inner, &gate.outer)])?;
                    let source = gate.address.as_deref().unwrap_or_default();
                    let gateway = format!("192.0.{}.2", 10 + gate.host);
                    let name = &self.names[gate.host];
                    ip(&format!("-n {name} route replace {} via {gateway} src {source}", far.inner))?;
                }
                if topology == Topology::RoadWarriorEnds {
                    self.routes(WARRIORS, &[(&far.inner, "192.0.3.2")])?;
                }
                Ok(())
            }
        }
    }

    fn link(
        &self,
        one: usize,
        one_device: &str,
        one_address: &str,
        other: usize,
        other_device: &str,
        other_address: &str,
    ) -> Result<(), LabError> {
        let (one, other) = (&self.names[one], &self.names[other]);
        ip(&format!("link add {one_device} netns {one} type veth peer name {other_device} netns {other}"))?;
        for (name, device, address) in [(one, one_device, one_address), (other, other_device, other_address)]
        {
            ip(&format!("-n {name} addr add {address} dev {device}"))?;
            ip(&format!("-n {name} link set {device} up"))?;
            if self.links == Links::Gigabit {
                run("tc", &format!("-n {name} qdisc add dev {device} {FAST_LINK}"))
                    .map_err(|error| unavailable(format_args!("no link of 1 Gb/s: {error}")))?;
            }
        }
        Ok(())
    }

    /// Makes the link that tunnels cross split UDP's GSO packets into packets, or pass them whole again.
    pub(super) fn split_gso(&self, is_split: bool) -> Result<(), LabError> {
        let pair = self.pair.ok_or_else(|| unavailable("there are several links to split GSO packets"))?;
        let state = if is_split { "off" } else { "on" };
        pair.into_iter().enumerate().try_for_each(|(end, host)| {
            let name = &self.names[host];
            let words = format!("netns exec {name} ethtool -K o{end} tx-udp-segmentation {state}");
            ip(&words)
        })
    }

    /// Limits the link that tunnels cross, at both ends, or lets it be as fast as it can.
    pub(super) fn limit(&self, limit: Option<Limit>) -> Result<(), LabError> {
        let pair = self.pair.ok_or_else(|| unavailable("there are several links to limit"))?;
        pair.into_iter().enumerate().try_for_each(|(end, host)| {
            let name = &self.names[host];
            // There is none yet, or the one of the last run.
            let _ = run("tc", &format!("-n {name} qdisc del dev o{end} root"));
            let Some(Limit { megabits, burst_kib }) = limit else { return Ok(()) };
            let words = format!("root tbf rate {megabits}mbit burst {burst_kib}kb limit {LIMITED_KIB}kb");
            run("tc", &format!("-n {name} qdisc add dev o{end} {words}"))
                .map(drop)
                .map_err(|error| unavailable(format_args!("no link of {megabits} Mb/s: {error}")))
        })
    }

    /// Makes a gateway get no ESP and no IKE by UDP, as in a network that lets none pass.
    pub(super) fn stop_udp(&self, host: usize) -> Result<(), LabError> {
        for rule in [
            "add table inet noudp",
            "add chain inet noudp in { type filter hook prerouting priority -200 ; }",
            "add rule inet noudp in udp dport { 500, 4500 } drop",
        ] {
            run("ip", &format!("netns exec {} nft {rule}", self.names[host]))?;
        }
        Ok(())
    }

    pub(super) fn start(&self, command: &mut Command, program: &Path) -> Result<Child, LabError> {
        command.spawn().map_err(|source| LabError::Start { program: program.into(), source })
    }

    /// Starts a daemon that ends with the net, and prints nothing.
    pub(super) fn daemon(&mut self, mut command: Command, program: &Path) -> Result<(), LabError> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = self.start(&mut command, program)?;
        self.daemons.push(child);
        Ok(())
    }

    /// Returns the namespace of a host.
    pub(crate) fn name(&self, host: usize) -> &str {
        &self.names[host]
    }

    /// Returns the core of a confined host.
    pub(super) fn core(&self, host: usize) -> Option<usize> {
        self.cores.map(|cores| cores[usize::from(2 * host >= self.names.len())])
    }

    /// Returns the words before a command that runs on a host.
    fn words(&self, host: usize) -> Vec<OsString> {
        let mut words = ["ip", "netns", "exec", &self.names[host]].map(OsString::from).to_vec();
        if let Some(core) = self.core(host) {
            words.extend(["taskset", "-c", &core.to_string()].map(OsString::from));
        }
        words
    }

    /// Returns a command in the namespace of a host.
    pub(crate) fn command(&self, host: usize, program: &str, arguments: &str) -> Command {
        let words = self.words(host);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).arg(program).args(arguments.split_whitespace());
        command
    }

    /// Returns a client on a requesting host, and a server on the last one.
    pub(crate) fn hosts(&self, client: usize) -> Hosts {
        Hosts::new(self.words(client), self.words(self.names.len() - 1), self.server)
    }

    /// Returns whether daemons carry the traffic.
    pub(crate) fn has_daemons(&self) -> bool {
        !self.daemons.is_empty()
    }

    /// Returns the CPU seconds that the daemons have used.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.daemons.iter().map(|daemon| Tree::of(daemon.id()).cpu().as_secs_f64()).sum()
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let del = |name: &String| {
            let deleted = Command::new("ip").args(["netns", "del", name]).stderr(Stdio::null()).status();
            deleted.is_ok_and(|status| status.success())
        };
        let are_deleted = self.names.iter().filter(|name| !del(name)).count() == 0;
        match self.cleanup.take() {
            Some(cleanup) if are_deleted => cleanup.dismiss(),
            Some(cleanup) => cleanup.run(),
            None => {}
        }
    }
}
