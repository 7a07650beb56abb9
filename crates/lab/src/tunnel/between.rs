//! The connection between the hosts: links alone, our gateways, or another program's tunnel.
//!
//! Guarantees: a connection is returned only once its daemons are ready. On confined ground every process of one side
//! runs on one core, but for the thread that plays a simulated card.

use super::net::{Gate, Ground, INNER_MTU, Net, write_private};
use super::{foreign, null, traffic};
use crate::LabError;
use crate::error::unavailable;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The maximum of bytes that a daemon may print before it is ready.
const SAID_BYTES_MAX: u64 = 4096;
/// The name of the thread of a simulated card.
const CARD: &str = "card";
/// The time in which such a thread starts.
const CARD_TIME: Duration = Duration::from_secs(2);
/// The secret of gateways that agree on keys by IKE; nothing of value goes through them.
const SECRET: &str = "lab-0123456789abcdef0123456789abcdef";

/// The connection between the hosts.
#[derive(Clone, Debug)]
pub(crate) enum Between {
    /// The links alone.
    Clear,
    /// Our gateways.
    Ours(Ours),
    /// GSO packets, moved without changes.
    Null,
    /// Another program.
    Foreign(foreign::Kind),
}

/// The properties of our gateways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ours {
    /// The suite's name in the site file.
    pub(crate) suite: &'static str,
    /// The forced tier, if any.
    pub(crate) tier: Option<&'static str>,
    /// The engine that seals and opens packets.
    pub(crate) engine: &'static str,
    /// The source of the keys.
    pub(crate) keys: Keys,
    /// Lines of the site file about the way of ESP between the gateways; UDP if empty.
    pub(crate) way: &'static str,
    /// The number of child associations that share the flows of a peer, if the keys are from IKE.
    pub(crate) children: usize,
    /// The number of lanes, if not the gateways' own choice.
    pub(crate) lanes: Option<&'static str>,
    /// The packets go in a TCP connection, because the link lets no UDP pass.
    pub(crate) is_by_tcp: bool,
}

impl Ours {
    /// Returns gateways with this suite, and otherwise as users have them, with keys from files.
    pub(crate) const fn of(suite: &'static str) -> Self {
        Self {
            suite,
            tier: None,
            engine: "inline",
            keys: Keys::Manual,
            way: "",
            children: 1,
            lanes: None,
            is_by_tcp: false,
        }
    }
}

/// The source of a tunnel's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    /// Files.
    Manual,
    /// The gateways' own calls, by TLS.
    Calls,
    /// IKEv2 with a shared secret.
    Ike,
}

/// Returns the text of the site file of one of our gateways, below `folders`, where it writes the keys that the file names.
fn site_file(
    program: &Path,
    folders: &Path,
    own: &Gate,
    others: &[(usize, &Gate)],
    ours: &Ours,
) -> Result<String, LabError> {
    let folder = folders.join(own.host.to_string());
    let address = own.address.as_ref().map_or_else(String::new, |address| format!("\"{address}/32\""));
    let mut site = format!(
        "device = \"t0\"\nlisten = \"{}:4500\"\nmtu = {INNER_MTU}\naddresses = [{address}]\n{}",
        own.outer, ours.way
    );
    if ours.keys == Keys::Calls {
        site += "identity = \"identity\"\n";
    }
    for &(pair, other) in others {
        let (host, endpoint, inner) = (other.host, &other.outer, &other.inner);
        site += &format!("[[peers]]\nname = \"host{host}\"\nnetworks = [\"{inner}\"]\n");
        // One of two ends that are joined by TCP connects.
        if !ours.is_by_tcp || own.host < host {
            site += &format!("endpoint = \"{endpoint}:4500\"\n");
        }
        if ours.is_by_tcp {
            site += "tcp = true\n";
        }
        site += &match ours.keys {
            Keys::Manual => manual_keys(&folder, pair, ours.suite)?,
            Keys::Calls => {
                let theirs = folders.join(host.to_string()).join("identity");
                let _ = identity(program, &folder.join("identity"))?;
                format!("suite = \"{}\"\nkey = \"{}\"\n", ours.suite, identity(program, &theirs)?)
            }
            Keys::Ike => {
                write_private(&folder.join("secret"), SECRET)?;
                format!(
                    "[peers.ike]\nid = \"host{host}.example\"\nlocal-id = \"host{}.example\"\n\
                     local-networks = [\"{}\"]\npsk-file = \"secret\"\nchildren = {}\n",
                    own.host, own.inner, ours.children
                )
            }
        };
    }
    Ok(site)
}

impl Net {
    /// Starts the hosts, the links and the tunnel. Files are written to `folder`.
    pub(crate) fn up(
        program: &Path,
        folder: &Path,
        ground: impl Into<Ground>,
        between: &Between,
    ) -> Result<Self, LabError> {
        let ground: Ground = ground.into();
        let (mut net, near, far) = Self::linked(ground)?;
        let folder = folder.join(net.number.to_string());
        fs::create_dir_all(&folder).map_err(LabError::file("cannot create", &folder))?;
        match between {
            Between::Clear => net.clear(&near, &far, ground.topology)?,
            Between::Ours(ours) => {
                let ends = near.iter().enumerate().map(|(at, near)| (at, near, &far));
                for (at, own, other) in ends {
                    net.ours(program, &folder, own, &[(2 * at, other)], ours)?;
                }
                let others: Vec<(usize, &Gate)> =
                    near.iter().enumerate().map(|(at, near)| (2 * at + 1, near)).collect();
                net.ours(program, &folder, &far, &others, ours)?;
                if ours.children > 1 {
                    let run = folder.join(near[0].host.to_string()).join("run");
                    traffic::bring_children(&net, || {
                        net.children(near[0].host, program, &run) >= ours.children
                    })?;
                }
            }
            Between::Null => null::up(&mut net, program, &near, &far)?,
            Between::Foreign(kind) => foreign::up(&mut net, kind, &folder, &near, &far)?,
        }
        Ok(net)
    }

    /// Starts one of our gateways. `others` are the peers, each with the number of its pair of keys.
    fn ours(
        &mut self,
        program: &Path,
        folder: &Path,
        own: &Gate,
        others: &[(usize, &Gate)],
        ours: &Ours,
    ) -> Result<(), LabError> {
        let folders = folder;
        let folder = folders.join(own.host.to_string());
        fs::create_dir_all(&folder).map_err(LabError::file("cannot create", &folder))?;
        let site = site_file(program, folders, own, others, ours)?;
        let path = folder.join("site.toml");
        write_private(&path, &site)?;
        if ours.is_by_tcp {
            self.stop_udp(own.host)?;
        }
        // Only the laboratory has the card.
        let words = if ours.engine.contains(CARD) { "lab gateway" } else { "tunnel up" };
        let mut command = self.command(own.host, &program.to_string_lossy(), words);
        command.arg(&path).args(["--allow-legacy", "--engine", ours.engine]);
        if ours.keys == Keys::Manual {
            command.arg("--allow-manual-counter");
        }
        if let Some(lanes) = ours.lanes {
            command.args(["--lanes", lanes]);
        }
        command.env("SEALANE_RUN", folder.join("run")).stdin(Stdio::null()).stdout(Stdio::null());
        if let Some(tier) = ours.tier {
            command.env("SEALANE_TIER", tier);
        }
        let mut child = self.start(command.stderr(Stdio::piped()), program)?;
        let pid = child.id();
        let said = child.stderr.take().map(|stderr| {
            let mut line = String::new();
            // The daemon prints one line when it is ready, or the reason of its failure.
            let _ = BufReader::new(stderr.take(SAID_BYTES_MAX)).read_line(&mut line);
            line
        });
        self.daemons.push(child);
        let said = said.unwrap_or_default();
        if !said.contains(" is up") {
            return Err(unavailable(said.trim()));
        }
        match self.cores {
            Some(cores) if ours.engine.contains(CARD) => {
                let other = cores[usize::from(self.core(own.host) == Some(cores[0]))];
                move_card(pid, other)
            }
            _ => Ok(()),
        }
    }

    /// Returns the number of child associations that a gateway of ours has with its first peer.
    fn children(&self, host: usize, program: &Path, run: &Path) -> usize {
        let mut command = self.command(host, &program.to_string_lossy(), "tunnel status --json");
        let Ok(output) = command.env("SEALANE_RUN", run).output() else { return 0 };
        let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        let agreements = status["peers"][0]["ike"].as_array().into_iter().flatten();
        agreements.filter_map(|ike| ike["children"].as_array()).map(Vec::len).sum()
    }
}

/// Writes the keys of one pair of associations, and returns the peer's part of the site file.
fn manual_keys(folder: &Path, pair: usize, suite: &str) -> Result<String, LabError> {
    let bytes: usize =
        super::material_bytes(suite).ok_or_else(|| unavailable(format_args!("no suite {suite}")))?;
    // The two ends of a pair have neighbouring numbers.
    let back = pair ^ 1;
    for (name, seed) in [("send", pair), ("receive", back)] {
        let key: String =
            (0..bytes).map(|at| format!("{:02x}", (at * 29 + (seed + 3) * 101) % 256)).collect();
        write_private(&folder.join(format!("{name}{pair}.key")), &key)?;
    }
    Ok(format!(
        "[peers.manual]\nsuite = \"{suite}\"\nsend = {{ spi = {}, key-file = \"send{pair}.key\" }}\n\
         receive = {{ spi = {}, key-file = \"receive{pair}.key\" }}\n",
        0x1000 + pair,
        0x1000 + back,
    ))
}

/// Returns the public key of an identity, which is made if it does not exist.
fn identity(program: &Path, path: &Path) -> Result<String, LabError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(LabError::file("cannot create", folder))?;
    }
    let output = Command::new(program).args(["id", "--identity"]).arg(path).output();
    let output = output.map_err(|source| LabError::Start { program: program.into(), source })?;
    let key = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if key.is_empty() { Err(unavailable(String::from_utf8_lossy(&output.stderr).trim())) } else { Ok(key) }
}

/// Moves the thread that simulates a card to a core of its own: a card's work takes no time of its host.
fn move_card(pid: u32, core: usize) -> Result<(), LabError> {
    let deadline = Instant::now() + CARD_TIME;
    let mut cores = CpuSet::new();
    cores.set(core);
    while Instant::now() < deadline {
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let is_card = fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim() == CARD);
            let id = task.file_name().to_str().and_then(|id| Pid::from_raw(id.parse().ok()?));
            if let (true, Some(id)) = (is_card, id) {
                return sched_setaffinity(Some(id), &cores)
                    .map_err(|error| unavailable(format_args!("a core for the card: {error}")));
            }
        }
        thread::sleep(Duration::from_millis(5));
    }
    Err(unavailable("the simulated card has no thread"))
}
