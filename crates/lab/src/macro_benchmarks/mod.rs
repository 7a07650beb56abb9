//! The macro studies of 2002 (R15 to R21): the effect of IPsec on the copying of files, the fetching of pages, the
//! mirroring of sites and the building of programs, and on other work of the machine.
//!
//! Guarantees: hosts are namespaces with links of the study's rate; all connections of a table exist at once and take
//! turns run by run; every run is kept, with the CPU seconds of the programs, of the tunnel and of the whole machine
//! beside its wall time; copies are compared with their sources; a program that is missing is named, with the rows
//! that it leaves out.

mod build;
mod files;
mod mirror;
mod sieve;
mod tiny;

use crate::LabError;
use crate::error::unavailable;
use crate::experiment::{
    Cell, Claim, Coordinates, Experiment, Found, MEGABITS, Measure, Outcome, Plan, Profile, Repetition,
    Sample, Sampler, find,
};
use crate::load::{MachineTime, is_disturbed};
use crate::peers::{Installed, OWN_OVER_SSH, Peer as _, SharedSshd, Tool, Workload};
use crate::program::Program;
use crate::report::Report;
use crate::request::Request;
use crate::scratch::Scratch;
use crate::studies::{COSTS, Cost, Family, Study, cost, study};
use crate::tunnel::between::Between;
use crate::tunnel::net::{self, Ground, Net};
use crate::tunnel::{
    ABOUT_CARDS, CARD, CLEAR, DEFAULT_SUITE, HYBRID, NATIVE, OWN, PAPER, PROCESSOR, TRIPLE_DES, UNITS, Unit,
    traffic,
};
use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::Instant;

pub use build::BUILD;

/// The family of `sealane lab macro`.
pub(crate) const FAMILIES: &[Family] = &[Family {
    command: "lab macro",
    needs: "root, namespaces and TUN devices, ftp, web and ssh servers",
    parts: &PARTS,
    costs: PARTS_COSTS,
    studies: STUDIES,
    run,
}];

/// Files by ftp and by HTTP go through the same tunnels.
const PARTS_COSTS: &[Cost] = &[
    cost(&["ftp", "http"], 20),
    cost(&["ftp"], 95),
    cost(&["http"], 50),
    cost(&["tiny"], 40),
    cost(&["sieve"], 80),
    cost(&["mirror"], 28),
    cost(&["build"], 64),
];

/// The parts of the study.
const PARTS: [&str; 6] = ["ftp", "http", "tiny", "sieve", "mirror", "build"];

const STUDIES: &[Study] = &[
    study("R15", COSTS, "200 MB by ftp, scp, sftp, sealane cp, and by ftp through tunnels", &["ftp"]),
    study("R16", COSTS, "200 MB by HTTP, by HTTPS, and by HTTP through tunnels", &["http"]),
    study(
        "R17",
        COSTS,
        "1,000 tiny transfers: clear, HTTPS, tunnels with manual and negotiated keys",
        &["tiny"],
    ),
    study("R18", COSTS, "the sieve of Eratosthenes beside constant traffic, on one core", &["sieve"]),
    study(
        "R19",
        COSTS,
        "what the scheduler gives to the sieve and to the traffic: CPU seconds of both",
        &["sieve"],
    ),
    study("R20", COSTS, "a mirror of 728 files, 21,882,048 bytes, by wget", &["mirror"]),
    study("R21", COSTS, "a build over a network file system: local, clear, AES, 3DES, hardware", &["build"]),
];

/// The names of the connections between the hosts.
pub const PEERS: [&str; 6] = [CLEAR.0, NATIVE, OWN, CARD, PROCESSOR, HYBRID];

/// The room for a mirror and its copy, for trees that are built, and for the gateways' files.
const ROOM_BYTES: u64 = 64 << 20;

/// The wall seconds of a run.
const SECONDS: &str = "s";

/// Returns the measures that runs have in common.
fn measures() -> Vec<Measure> {
    vec![
        Measure::cost(SECONDS, "s", "s"),
        Measure::megabits(),
        Measure::cost("cpu_s", "CPU s: programs", "s"),
        Measure::cost("tunnel_cpu_s", "tunnel", "s"),
        Measure::cost("system_cpu_s", "machine", "s"),
    ]
}

/// A connection between the hosts.
#[derive(Clone, Debug)]
struct Connection {
    /// The name and the suite in results.
    name: [&'static str; 2],
    between: Between,
}

impl Connection {
    fn clear() -> Self {
        Self { name: [CLEAR.0, CLEAR.1], between: Between::Clear }
    }

    /// Returns clear and the tunnels of the study, those that seal side by side only with suites of today.
    fn all() -> Vec<Self> {
        let is_asked =
            |peer: &str, suite: &str| peer != OWN || [DEFAULT_SUITE, "chacha20-poly1305"].contains(&suite);
        let units = UNITS.iter().filter(|unit| is_asked(unit.peer, unit.suite));
        let of =
            |unit: &Unit| Self { name: [unit.peer, unit.suite], between: Between::Ours(unit.gateways()) };
        [Self::clear()].into_iter().chain(units.map(of)).collect()
    }
}

/// Returns whether a connection is clear, the study's shortest or longest cipher in software, or the default suite.
fn is_of_few([between, suite]: [&str; 2]) -> bool {
    between == CLEAR.0
        || (between, suite) == (OWN, DEFAULT_SUITE)
        || (between == NATIVE && (suite == TRIPLE_DES || suite.starts_with("aes-128")))
}

/// State that all parts share.
struct Bench<'a> {
    request: &'a Request,
    program: Program,
    repetition: Repetition,
    /// The folder of workloads in memory.
    memory: Scratch,
    progress: &'a mut dyn Write,
    /// The omitted parts and the reasons.
    skipped: Vec<String>,
}

/// A run before the shares of tunnel and machine are known.
struct Run {
    seconds: f64,
    bytes: u64,
    /// CPU seconds of the programs.
    cpu_s: f64,
}

/// A cell: its place, and how one sample of it is taken.
type Turn<'n> = (Coordinates, Box<dyn FnMut() -> Result<Sample, LabError> + 'n>);

/// Cells that take turns.
struct Turns<'n>(Vec<Turn<'n>>);

impl Sampler for Turns<'_> {
    fn sample(&mut self, cell: usize) -> Result<Sample, LabError> {
        self.0[cell].1()
    }

    fn line(&self, cell: usize, result: &Result<Sample, LabError>) -> Option<String> {
        let name: Vec<&str> = self.0[cell].0.values().map(String::as_str).collect();
        Some(match result {
            Ok(sample) => format!("{}: {:.2} s", name.join(", "), sample.value(SECONDS)?),
            Err(error) => format!("{}: {error}", name.join(", ")),
        })
    }
}

impl Bench<'_> {
    fn profile(&self) -> Profile {
        self.request.profile
    }

    /// Returns the value of the profile; the paper's own profile has the full one.
    fn sized<T>(&self, smoke: T, quick: T, full: T) -> T {
        match self.profile() {
            Profile::Smoke => smoke,
            Profile::Quick => quick,
            Profile::Full | Profile::Paper => full,
        }
    }

    /// Returns the requested connections; a smoke run has one of each kind.
    fn connections(&self) -> Vec<Connection> {
        let asked = &self.request.hosts.between;
        let is_asked = |[between, suite]: [&str; 2]| {
            let is_named = asked.is_empty() || asked.iter().any(|name| name == between);
            let is_first =
                between == CLEAR.0 || [TRIPLE_DES, DEFAULT_SUITE].contains(&suite) && between != HYBRID;
            is_named && (is_first || self.profile() != Profile::Smoke)
        };
        Connection::all().into_iter().filter(|connection| is_asked(connection.name)).collect()
    }

    /// Returns the requested connections, in the quick profile only clear, the study's shortest and longest cipher in
    /// software, and the default suite: the connections that a part's claims are about.
    fn few_connections(&self) -> Vec<Connection> {
        let mut connections = self.connections();
        if self.profile() == Profile::Quick && self.request.hosts.between.is_empty() {
            connections.retain(|connection| is_of_few(connection.name));
        }
        connections
    }

    /// Starts the hosts of each connection. A connection that does not come up is skipped with its reason.
    fn nets(&mut self, ground: Ground, connections: Vec<Connection>) -> Vec<(Connection, Net, SharedSshd)> {
        let mut nets = Vec::new();
        for connection in connections {
            let net = Net::up(&self.program.path, self.memory.path(), ground, &connection.between);
            match net.and_then(traffic::carries) {
                Ok(net) => nets.push((connection, net, SharedSshd::default())),
                Err(error) => {
                    let place = ground.topology.name();
                    self.skipped.push(format!("{}, {place}: {error}", connection.name.join(", ")));
                }
            }
        }
        nets
    }

    /// Returns a program with its ends on the hosts of `net`; notes the reason if there is none.
    fn installed(&mut self, tool: &'static Tool, net: &Net, sshd: &SharedSshd) -> Option<Installed> {
        let surroundings = &self.request.surroundings;
        let mut installed = Installed::new(tool, surroundings, sshd).on(net.hosts(0));
        if tool.name == OWN_OVER_SSH {
            installed = installed.by(&self.program.path);
        }
        match installed.probe() {
            Ok(_) => Some(installed),
            Err(why) => {
                let why = format!("{}: {} (`cargo xtask peers` brings it)", tool.name, why.reason);
                if !self.skipped.contains(&why) {
                    self.skipped.push(why);
                }
                None
            }
        }
    }

    /// Lets the cells take turns.
    fn take_turns(&mut self, id: &str, turns: Vec<Turn<'_>>) -> Result<Vec<Cell>, LabError> {
        let places = turns.iter().map(|(place, _)| place.clone()).collect();
        let plan = Plan::of_cells(id, self.repetition, places, self.request.seed);
        let cells = plan.measure(&mut Turns(turns), self.progress)?;
        for cell in &cells {
            if let Some(why) = &cell.failure {
                self.skipped.push(format!("{}: {why}", cell.name()));
            }
        }
        Ok(cells)
    }

    /// Returns the result of these cells; nothing if there are no samples.
    fn outcome(&self, experiment: Experiment, cells: Vec<Cell>, claims: Vec<Claim>) -> Option<Outcome> {
        let cells: Vec<Cell> = cells.into_iter().filter(|cell| !cell.samples.is_empty()).collect();
        let is_measured = |claim: &Claim| {
            let has = |place: &&Coordinates| find(&cells, place).is_some();
            claim.shape.places().iter().all(has)
        };
        let claims = claims.into_iter().filter(is_measured).collect();
        let experiment = Experiment { repetition: self.repetition, ..experiment.of(PAPER).claiming(claims) };
        (!cells.is_empty()).then(|| Outcome { seed: self.request.seed, ..Outcome::new(experiment, cells) })
    }

    /// Makes a folder of workloads that servers may read as other users.
    fn served(scratch: &Scratch, name: &str) -> Result<PathBuf, LabError> {
        let folder = scratch.empty_directory(name)?;
        for (path, mode) in [(scratch.path(), 0o711), (folder.as_path(), 0o755)] {
            fs::set_permissions(path, Permissions::from_mode(mode))
                .map_err(LabError::file("cannot open", path))?;
        }
        Ok(folder)
    }
}

/// Takes one sample: runs `what`, and adds the CPU seconds of the tunnel and the machine.
fn sample(net: Option<&Net>, what: impl FnOnce() -> Result<Run, LabError>) -> Result<Sample, LabError> {
    let tunnel = || net.map_or(0.0, Net::cpu_seconds);
    let (before, tunnel_before) = (MachineTime::now(), tunnel());
    let started = Instant::now();
    let run = what()?;
    let wall = started.elapsed();
    let tunnel_cpu_s = tunnel() - tunnel_before;
    let machine = before.and_then(|before| Some(MachineTime::now()?.since(before))).unwrap_or_default();
    let mut values = BTreeMap::from([
        (SECONDS.to_owned(), run.seconds),
        ("cpu_s".to_owned(), run.cpu_s),
        ("system_cpu_s".to_owned(), machine.busy_seconds),
    ]);
    if net.is_some_and(Net::has_daemons) {
        values.insert("tunnel_cpu_s".to_owned(), tunnel_cpu_s);
    }
    if run.bytes > 0 {
        values.insert(MEGABITS.to_owned(), run.bytes as f64 * 8e-6 / run.seconds);
    }
    let others = machine.busy_seconds - run.cpu_s - tunnel_cpu_s;
    let is_disturbed = is_disturbed(others, machine.stolen_seconds, wall);
    Ok(Sample::new(Found::Values(values), is_disturbed))
}

/// Copies a workload by a program, and compares the copy with its source.
fn copy(tool: &mut Installed, workload: &Workload) -> Result<Run, LabError> {
    workload.clear_target()?;
    let sample = tool.run(workload)?;
    let Found::Copy(copied) = sample.found else { return Err(unavailable("no copy")) };
    Ok(Run { seconds: copied.wall_seconds, bytes: copied.bytes, cpu_s: copied.cpu_seconds })
}

/// Returns the claim that one cell takes at most `high` times what another takes.
fn at_most(
    source: &str,
    statement: String,
    measure: &str,
    [top, bottom]: [Coordinates; 2],
    high: f64,
) -> Claim {
    Claim::ratio((statement, source), measure, (top, bottom), (None, Some(high)))
}

/// Runs the requested parts.
fn run(request: &Request, progress: &mut dyn Write) -> Result<Report, LabError> {
    let began = Instant::now();
    net::missing(&request.surroundings, &["taskset", "tc"])?;
    let rule = request.profile.repetition();
    let rounds = request.hosts.rounds.unwrap_or(rule.rounds);
    let retries_per_round = usize::from(request.profile != Profile::Smoke);
    let repetition = Repetition { rounds, warm_up_rounds: 0, retries_per_round, ..rule };
    let mut bench = Bench {
        request,
        program: request.program()?,
        repetition,
        memory: Scratch::create(&request.surroundings, None, ROOM_BYTES)?,
        progress,
        skipped: Vec::new(),
    };
    let mut outcomes = Vec::new();
    type Part = fn(&mut Bench<'_>) -> Result<Vec<Outcome>, LabError>;
    let parts: [(&[&str], Part); 5] = [
        (&["ftp", "http"], files::outcomes),
        (&["tiny"], tiny::outcomes),
        (&["sieve"], sieve::outcomes),
        (&["mirror"], mirror::outcomes),
        (&["build"], build::outcomes),
    ];
    for (names, part) in parts {
        if request.wants(names) {
            outcomes.extend(part(&mut bench)?);
        }
    }
    let summary = "The macro studies of 2002 with our gateways: files, pages, a mirror and a build, between namespaces \
                   of this machine, and a sieve beside the traffic.";
    Ok(Report {
        seconds: began.elapsed().as_secs_f64(),
        profile: Some(request.profile),
        skipped: bench.skipped,
        method: vec![
            "Hosts are network namespaces of this machine, so both ends, both gateways and the programs share its CPUs; links \
             of 1 Gb/s are token buckets."
                .to_owned(),
            "CPU seconds of the machine hold everything that ran meanwhile, the kernel's network work included.".to_owned(),
        ],
        limits: vec![ABOUT_CARDS.to_owned()],
        sources: vec![PAPER.to_owned()],
        ..Report::new("sealane lab macro", "What security costs users", summary, outcomes)
    })
}
