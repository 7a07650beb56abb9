//! One large file by ftp, scp, sftp, `sealane cp`, HTTP and HTTPS, in clear and through tunnels (R15, R16; figures 9
//! to 12): from host to host and through two gateways, over links of 1 Gb/s and as fast as the kernel, in memory and
//! on a disk.
//!
//! Guarantees: every copy equals its source; on a disk, the source is read from the disk and the copy is on it before
//! the clock stops.

use super::{Bench, Run, SECONDS, Turn, at_most, copy, is_of_few, measures, sample};
use crate::LabError;
use crate::experiment::{Cell, Claim, Drawn, Experiment, Outcome, Plot, Profile, View, at, find};
use crate::peers::{
    CURL_HTTP, CURL_HTTPS, FTP, Installed, OWN_OVER_SSH_TOOL, SCP, SCP_OLD, SFTP, Tool, Workload,
};
use crate::scratch::Scratch;
use crate::tunnel::Topology;
use crate::tunnel::net::{Ground, Links};
use crate::tunnel::{CARD, CLEAR, DEFAULT_SUITE, NATIVE, OWN, PROCESSOR};
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::path::Path;
use std::time::Instant;

/// The study's file.
pub(super) const BYTES_MAX: u64 = 200_000_000;

/// The axes of the tables.
const AXES: [&str; 4] = ["service", "hosts", "between", "suite"];

/// Programs, their parts of the study, and whether they protect what they carry.
const SERVICES: [(&Tool, &str, bool); 7] = [
    (&FTP, "ftp", false),
    (&SCP_OLD, "ftp", true),
    (&SCP, "ftp", true),
    (&SFTP, "ftp", true),
    (&OWN_OVER_SSH_TOOL, "ftp", true),
    (&CURL_HTTP, "http", false),
    (&CURL_HTTPS, "http", true),
];

/// A table's links, and the place of its files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Scene {
    links: Links,
    is_disk: bool,
    topology: Topology,
    /// Whether every connection is measured, or four of them.
    is_whole: bool,
}

/// Returns the scenes of a profile, those of one table beside each other.
fn scenes(profile: Profile) -> Vec<Scene> {
    let scene = |links, is_disk, topology, is_whole| Scene { links, is_disk, topology, is_whole };
    let both = [Topology::HostHost, Topology::Gateways];
    match profile {
        Profile::Smoke => vec![scene(Links::Gigabit, false, Topology::HostHost, false)],
        Profile::Quick => vec![
            scene(Links::Gigabit, false, Topology::HostHost, true),
            scene(Links::Gigabit, false, Topology::Gateways, false),
            scene(Links::Unshaped, false, Topology::HostHost, false),
            scene(Links::Gigabit, true, Topology::HostHost, false),
        ],
        Profile::Full | Profile::Paper => [Links::Gigabit, Links::Unshaped]
            .into_iter()
            .flat_map(|links| [false, true].map(|is_disk| (links, is_disk)))
            .flat_map(|(links, is_disk)| both.map(|topology| scene(links, is_disk, topology, true)))
            .collect(),
    }
}

/// Returns whether a service is measured through a connection: those that protect nothing through all, the others in
/// clear and through the default suite, and through all if there is time.
fn is_asked(profile: Profile, is_whole: bool, protects: bool, [between, suite]: [&str; 2]) -> bool {
    let is_default = (between, suite) == (OWN, DEFAULT_SUITE);
    match (protects, is_whole) {
        (false, whole) => whole || is_of_few([between, suite]),
        (true, false) => between == CLEAR.0,
        (true, true) => between == CLEAR.0 || is_default || matches!(profile, Profile::Full | Profile::Paper),
    }
}

/// The files of a scene.
struct SceneFiles {
    scratch: Scratch,
    workload: Workload,
}

impl SceneFiles {
    fn new(bench: &Bench<'_>, parent: Option<&Path>, bytes: u64) -> Result<Self, LabError> {
        let scratch = Scratch::create(&bench.request.surroundings, parent, 2 * bytes)?;
        Bench::served(&scratch, "served")?;
        let source = scratch.random_file("served/large", bytes, bench.request.seed)?;
        let workload = Workload::new(&source, &scratch.path().join("target"))?;
        Ok(Self { scratch, workload })
    }
}

/// Copies the file. On a disk, it is read from there, and the copy's way there counts.
fn run(tool: &mut Installed, workload: &Workload, is_disk: bool) -> Result<Run, LabError> {
    if is_disk {
        let source =
            File::open(workload.source()).map_err(LabError::file("cannot read", workload.source()))?;
        source.sync_all().map_err(LabError::file("cannot write", workload.source()))?;
        // A file system that keeps the file in memory all the same is faster, and its figures are those of memory.
        let _ = fadvise(&source, 0, None, Advice::DontNeed);
    }
    let mut run = copy(tool, workload)?;
    if is_disk {
        let started = Instant::now();
        let copy = File::open(workload.copy()).map_err(LabError::file("cannot read", workload.copy()))?;
        copy.sync_all().map_err(LabError::file("cannot write", workload.copy()))?;
        run.seconds += started.elapsed().as_secs_f64();
    }
    Ok(run)
}

/// Measures the requested services.
pub(super) fn outcomes(bench: &mut Bench<'_>) -> Result<Vec<Outcome>, LabError> {
    let bytes = bench.sized(2_000_000, 20_000_000, BYTES_MAX);
    let mut tables: Vec<([bool; 2], Vec<Cell>)> = Vec::new();
    for scene in scenes(bench.profile()) {
        if !bench.request.hosts.topologies.contains(&scene.topology) {
            continue;
        }
        let temporary = bench.request.surroundings.temporary.clone();
        let place = match SceneFiles::new(bench, scene.is_disk.then_some(&*temporary), bytes) {
            Ok(place) => place,
            Err(error) => {
                bench.skipped.push(format!("files: {error}"));
                continue;
            }
        };
        if scene.is_disk == place.scratch.is_memory() {
            let what = if scene.is_disk {
                "a disk: the folder for temporary files is memory"
            } else {
                "memory: no room"
            };
            bench.skipped.push(format!("files on {what}"));
            continue;
        }
        let cells = measure(bench, scene, &place.workload)?;
        let key = [scene.links == Links::Gigabit, scene.is_disk];
        match tables.iter_mut().find(|(other, _)| *other == key) {
            Some((_, all)) => all.extend(cells),
            None => tables.push((key, cells)),
        }
    }
    let mut outcomes = Vec::new();
    for (key, cells) in tables {
        for part in ["ftp", "http"] {
            outcomes.extend(table(bench, part, key, bytes, &cells));
        }
    }
    Ok(outcomes)
}

/// Measures a scene.
fn measure(bench: &mut Bench<'_>, scene: Scene, workload: &Workload) -> Result<Vec<Cell>, LabError> {
    let Scene { links, is_disk, topology, is_whole } = scene;
    let profile = bench.profile();
    let mut connections = bench.connections();
    connections.retain(|connection| is_asked(profile, is_whole, false, connection.name));
    let nets = bench.nets(Ground { topology, links, is_confined: false }, connections);
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for (connection, net, sshd) in &nets {
        for (tool, part, protects) in SERVICES {
            if !bench.request.wants(&[part]) || !is_asked(profile, is_whole, protects, connection.name) {
                continue;
            }
            let Some(mut installed) = bench.installed(tool, net, sshd) else { continue };
            let [between, suite] = connection.name;
            let place = at(AXES.into_iter().zip([tool.name, topology.name(), between, suite]));
            let mut is_compared = false;
            let turn = move || {
                let taken = sample(Some(net), || run(&mut installed, workload, is_disk))?;
                // The first copy of a row shows that the row copies.
                if !is_compared {
                    workload.verify()?;
                    is_compared = true;
                }
                Ok(taken)
            };
            turns.push((place, Box::new(turn)));
        }
    }
    let storage = if is_disk { "disk" } else { "memory" };
    bench.take_turns(&format!("files, {}, {storage}", topology.name()), turns)
}

/// Returns the table of one part.
fn table(
    bench: &Bench<'_>,
    part: &str,
    [is_shaped, is_disk]: [bool; 2],
    bytes: u64,
    cells: &[Cell],
) -> Option<Outcome> {
    let is_of_part =
        |cell: &&Cell| SERVICES.iter().any(|(tool, of, _)| *of == part && tool.name == cell.at["service"]);
    let cells: Vec<Cell> = cells.iter().filter(is_of_part).cloned().collect();
    let links = if is_shaped { "links of 1 Gb/s" } else { "links as fast as the kernel" };
    let storage = if is_disk { "on a disk" } else { "in memory" };
    let (covers, names, figure) = match (part, is_disk) {
        ("ftp", false) => ("R15", "ftp, scp, sftp and sealane cp", "figure 10"),
        ("ftp", true) => ("R15", "ftp, scp, sftp and sealane cp", "figure 9"),
        (_, false) => ("R16", "HTTP and HTTPS", "figure 12"),
        (_, true) => ("R16", "HTTP and HTTPS", "figure 11"),
    };
    let id = format!(
        "{part}-{}-{}",
        if is_shaped { "gigabit" } else { "unshaped" },
        if is_disk { "disk" } else { "memory" }
    );
    let title = format!("A file of {} MB by {names}, {links}, {storage}", bytes / 1_000_000);
    let figure =
        format!("The paper's {figure}: seconds for 200 MB; here megabits a second make sizes comparable.");
    let notes = [
        &*figure,
        "scp, sftp and sealane cp log in by ssh in each run; scp -O speaks the protocol of 2002, scp speaks SFTP. ftp and HTTP \
         fetch the file, the others send it.",
        "The paper puts no IPsec under scp and sftp; the rows here that do show the cost of protecting twice.",
    ];
    let plots = vec![
        Plot::new(Drawn::Bars, "suite", SECONDS, &["service", "between"])
            .each("hosts")
            .titled("Elapsed time"),
    ];
    let experiment = Experiment::new(&id, covers, &title, &AXES, measures());
    let experiment = experiment.notes(&notes).shown(View::Cells, plots);
    let claims = if part == "ftp" { ftp_claims(&cells) } else { http_claims(&cells) };
    bench.outcome(experiment, cells, claims)
}

/// Returns the cells of a clear service through the study's software tunnels.
fn through<'c>(cells: &'c [Cell], service: &'static str) -> impl Iterator<Item = &'c Cell> {
    cells.iter().filter(move |cell| cell.at["service"] == service && cell.at["between"] == NATIVE)
}

fn ftp_claims(cells: &[Cell]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for cell in through(cells, FTP.name) {
        let (suite, hosts) = (&cell.at["suite"], &cell.at["hosts"]);
        if hosts == Topology::Gateways.name() {
            let statement = format!(
                "ftp, {suite}: through two gateways no slower than from host to host, because they relieve the hosts."
            );
            let other = cell.elsewhere(&[("hosts", Topology::HostHost.name())]);
            claims.push(at_most("R15, figure 10", statement, SECONDS, [cell.at.clone(), other], 1.0));
        }
        let [card, processor] = [CARD, PROCESSOR].map(|peer| cell.elsewhere(&[("between", peer)]));
        if [&card, &processor].iter().all(|place| find(cells, place).is_some()) {
            let statement = format!(
                "{hosts}: ftp through IPsec ({suite}) takes no longer in hardware than in software; a simulated card of 2003 beside \
                 a simulated processor of its time."
            );
            claims.push(at_most("R15, figure 10; R14", statement, SECONDS, [card, processor], 1.0));
        }
        if suite.starts_with("aes-128") {
            for service in [SCP_OLD.name, SFTP.name] {
                let statement =
                    format!("{hosts}: ftp through IPsec ({suite}) takes no longer than {service}.");
                let other = cell.elsewhere(&[("service", service), ("between", CLEAR.0), ("suite", CLEAR.1)]);
                claims.push(at_most("R15", statement, SECONDS, [cell.at.clone(), other], 1.0));
            }
        }
    }
    claims
}

fn http_claims(cells: &[Cell]) -> Vec<Claim> {
    let claim = |cell: &Cell| {
        let statement = format!(
            "{}: HTTP through IPsec ({}) takes no longer than HTTPS.",
            cell.at["hosts"], cell.at["suite"]
        );
        let https = cell.elsewhere(&[("service", CURL_HTTPS.name), ("between", CLEAR.0), ("suite", CLEAR.1)]);
        at_most("R16, figures 11 and 12", statement, SECONDS, [cell.at.clone(), https], 1.0)
    };
    through(cells, CURL_HTTP.name).map(claim).collect()
}
