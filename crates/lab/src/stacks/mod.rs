//! Parallel protocol stacks: the study of Nahum et al. (NDSS 1996) on this machine, on the stack that ships.
//!
//! Guarantees: setups that are compared take turns in short slices of one run; every sample is kept; the scaling
//! model is computed before the cells that it predicts are read, and its error is printed; a claim whose cells were
//! not measured is omitted, and none is hidden for being false.

mod assignments;
mod asymmetric;
mod bounds;
mod capture;
mod demux;
mod driver;
mod granularity;
mod latencies;
mod layers;
mod model;
mod paper;
mod parts;
mod passes;
mod predict;
mod rig;
mod security;
mod signatures;
mod speedups;
mod words;

use crate::LabError;
use crate::experiment::{
    ANY, Cell, Claim, Coordinates, Experiment, Measure, Outcome, Plan, Profile, RATE, Repetition, Role,
    Sample, Value, by, derive, find,
};
use crate::report::number::quantity;
use crate::report::{Report, Tile};
use crate::request::Request;
use crate::rng::Rng;
use crate::studies::{ATOMIC, Cost, Family, NDSS, NDSS_TITLE, Study, cost, study};
use model::{Costs, Fit};
use rig::{Direction, Rig, Setup};
use sealane_lanes::Placement;
use sealane_stack::Catalogue;
use sealane_transform::Tier;
use std::io::Write;
use std::time::{Duration, Instant};

pub use capture::capture;
pub use predict::predict;

/// The family of `sealane lab stacks`.
pub(crate) const FAMILIES: &[Family] = &[Family {
    command: "lab stacks",
    needs: "two processors, better four",
    parts: PARTS,
    costs: COSTS,
    studies: STUDIES,
    run,
}];

/// One connection and twelve, and both tables, are computed from the same cells.
const COSTS: &[Cost] = &[
    cost(&["N26", "N28", "N29", "N31", "N33"], 23),
    cost(&["N27", "N28", "N29", "N32", "N33"], 24),
    cost(&["N20"], 5),
    cost(&["N28"], 3),
    cost(&["N29"], 23),
    cost(&["N30"], 13),
    cost(&["N34"], 58),
    cost(&["N36"], 25),
    cost(&["A12"], 14),
];

/// The parts of the study, by the inventory's ids.
const PARTS: &[&str] = &["N20", "N26", "N27", "N28", "N29", "N30", "N31", "N32", "N33", "N34", "N36", "A12"];

const STUDIES: &[Study] = &[
    study("N20", NDSS, "one lock or several, order kept or not, active map or packet filter", &["N20"]),
    study("N26", NDSS, "sending, packets of one connection on all lanes", &["N26"])
        .showing(&[("way", "send")]),
    study("N27", NDSS, "receiving, packets of one connection on all lanes", &["N27"])
        .showing(&[("way", "receive")]),
    study("N28", NDSS, "Table 1: what each layer adds to a packet's time", &["N28"]),
    study("N29", NDSS, "where the lock of one connection stops the gain", &["N29"]),
    study("N30", NDSS, "UDP beside TCP", &["N30"]),
    study("N31", NDSS, "sending, 12 connections shared out over all lanes", &["N31"])
        .showing(&[("way", "send")]),
    study("N32", NDSS, "receiving, 12 connections shared out over all lanes", &["N32"])
        .showing(&[("way", "receive")]),
    study("N33", NDSS, "Table 2: the same as N28 with 12 connections", &["N33"]),
    study("N34", NDSS, "12 to 384 connections: threads each, or lanes for all; fairness", &["N34"]),
    study(
        "N36",
        NDSS,
        "layers, functions and blocks as units of concurrency, and other units at the other end",
        &["N36"],
    ),
    study("A12", ATOMIC, "one pass over the data or several", &["A12"]),
];

/// Returns the layers from which stacks are made here: those of crate `stack`, and IPsec's.
fn catalogue() -> Catalogue {
    Catalogue::new().with(security::ESP).with(security::AH)
}

/// The paper's four stacks, and the fifth that its Table 2 has instead of the fourth.
const STACKS: [&str; 5] =
    ["tcp/ip/fddi", "tcp/md5/ip/fddi", "des/tcp/md5/ip/fddi", "3des/tcp/ip/fddi", "3des/tcp/md5/ip/fddi"];
/// A stack with present-day algorithms.
const MODERN: &str = "aes-128-gcm/tcp/ip/fddi";
/// Stacks with MD5 and DES alone, which together make up the third stack.
const DES_ALONE: &str = "des/tcp/ip/fddi";
/// Digests by a tree over links of 64 KiB, above the transport and below it.
const TREES: [&str; 2] = ["blake3/tcp/ip/fddi(65535)", "aes-128-ctr/udp/blake3/ip/fddi(65535)"];
/// The length of a message that fills such a link, with room for every header: 64 leaves of the tree with the
/// digest's own.
const LONG_BYTES: usize = (64 << 10) - 512;
/// Connections of the paper's connection-level test.
const CONNECTIONS: usize = 12;

/// Equality within a tenth.
const ALIKE: (Option<f64>, Option<f64>) = (Some(0.9), Some(1.1));

/// The page's summary of the study.
const SUMMARY: &str = "The stacks of Nahum et al. (NDSS 1996) on this machine: any layers over a TCP that lanes share, fed \
    by drivers in memory. Setups that are compared took turns in short slices of one run; medians count.";

/// The times for which setups run before and while they count.
#[derive(Clone, Copy, Debug)]
struct Timing {
    settle: Duration,
    slice: Duration,
}

impl Timing {
    fn of(profile: Profile) -> Self {
        let (settle, slice) = match profile {
            Profile::Smoke => (1, 5),
            Profile::Quick => (6, 30),
            Profile::Full => (50, 400),
            // N25 requires ten runs of 30 s after 30 s.
            Profile::Paper => (30_000, 30_000),
        };
        Self { settle: Duration::from_millis(settle), slice: Duration::from_millis(slice) }
    }

    /// Returns the timing with slices in which each of many connections moves data.
    fn of_connections(self, connections: usize) -> Self {
        let least =
            self.slice.min(Self::of(Profile::Quick).slice) * (connections / CONNECTIONS).max(1) as u32;
        Self { slice: self.slice.max(least), ..self }
    }
}

/// The number of times a slice is repeated because other work disturbed it.
const RETRIES: usize = 4;

/// State that all parts share: the request, and every cell measured so far.
struct Bench<'a> {
    request: &'a Request,
    progress: &'a mut dyn Write,
    timing: Timing,
    repetition: Repetition,
    lanes: Vec<usize>,
    rng: Rng,
    cells: Vec<Cell>,
    /// The costs of the stack without security that sends, if it was measured.
    bare: Option<Costs>,
}

impl<'a> Bench<'a> {
    fn new(request: &'a Request, progress: &'a mut dyn Write) -> Self {
        let rule = request.profile.repetition();
        Self {
            timing: Timing::of(request.profile),
            repetition: Repetition { warm_up_rounds: 0, retries_per_round: RETRIES, ..rule },
            lanes: request.lane_counts(),
            rng: Rng::new(request.seed),
            cells: Vec::new(),
            bare: None,
            request,
            progress,
        }
    }

    fn most_lanes(&self) -> usize {
        self.lanes.last().copied().unwrap_or(1)
    }

    /// Returns the cells of setups that take turns, each under an id.
    fn take_turns(&mut self, setups: &[(&str, Setup)]) -> Result<Vec<Cell>, LabError> {
        let make = |(_, setup): &(&str, Setup)| Rig::new(setup, &self.request.engine, &mut self.rng);
        let rigs = setups.iter().map(make).collect::<Result<Vec<_>, _>>()?;
        // Caches, pools and congestion windows are warmed outside of the figures.
        rigs.iter().for_each(|rig| drop(rig.slice(Duration::ZERO, self.timing.settle)));
        let id = setups.first().map_or_else(String::new, |(id, setup)| format!("{id} {}", setup.stack));
        let places = setups.iter().map(|(id, setup)| setup.place(id)).collect();
        let Timing { settle, slice } = self.timing;
        self.cells_by(id, places, |cell| Ok(rigs[cell].slice(settle, slice).sample()))
    }

    /// Returns cells of these places, by the study's rule of repetition.
    fn cells_by(
        &mut self,
        id: String,
        places: Vec<Coordinates>,
        sample: impl FnMut(usize) -> Result<Sample, LabError>,
    ) -> Result<Vec<Cell>, LabError> {
        let plan = Plan::of_cells(id, self.repetition, places, self.rng.next_u64());
        plan.measure(&mut by(sample), self.progress)
    }

    /// Measures cells of one id, each relative to the first.
    fn beside_the_first(&mut self, id: &str, setups: Vec<Setup>) -> Result<(), LabError> {
        let setups: Vec<_> = setups.into_iter().map(|setup| (id, setup)).collect();
        let mut cells = self.take_turns(&setups)?;
        over(&mut cells, |_| Some(0));
        self.cells.extend(cells);
        Ok(())
    }

    /// Measures one stack in one direction: a lock that lanes share, connections that they do not share, and
    /// independent stacks.
    fn group(&mut self, stack: &str, direction: Direction) -> Result<(), LabError> {
        let [packet_id, connection_id] = ids(direction);
        let wants_connections = self.request.wants(&[connection_id, "N33"]);
        for &tier in tiers(stack) {
            let one = Setup::new(stack, direction, tier);
            let many = if tier == Some(Tier::Reference) { vec![1] } else { self.lanes.clone() };
            let mut setups = Vec::new();
            for &lanes in &many {
                setups.push((packet_id, Setup { lanes, ..one.clone() }));
                if wants_connections {
                    let (placement, connections) = (Placement::Connection, CONNECTIONS);
                    setups.push((connection_id, Setup { lanes, placement, connections, ..one.clone() }));
                }
                if lanes > 1 {
                    setups.push((APART, Setup { is_apart: true, connections: lanes, ..one.clone() }));
                }
            }
            // The paper's own scheme: twelve threads, each with its connection, on as many processors.
            if wants_connections && (tier == Some(Tier::Native) || !rig::has_tiers(stack)) {
                let threads = Setup {
                    is_apart: true,
                    placement: Placement::Connection,
                    connections: CONNECTIONS,
                    ..one.clone()
                };
                let on = |&processors: &usize| {
                    (THREADS_ID, Setup { processors: Some(processors), ..threads.clone() })
                };
                setups.extend(many.iter().map(on));
            }
            // Lanes beyond the connections have nothing to do: they are compared with as many stacks as there are connections.
            if wants_connections && self.most_lanes() > CONNECTIONS && !many.contains(&CONNECTIONS) {
                setups.push((APART, Setup { is_apart: true, connections: CONNECTIONS, ..one.clone() }));
            }
            let mut cells = self.take_turns(&setups)?;
            over(&mut cells, |at| {
                let is_single = |(id, setup): &(&str, Setup)| *id == setups[at].0 && setup.busy() == 1;
                setups.iter().position(is_single)
            });
            let fit = |id: &str, connections| {
                let of_id = || setups.iter().zip(&cells).filter(move |((own, _), _)| *own == id);
                predict::fit(
                    of_id().map(|((_, setup), cell)| (setup.lanes, cell)),
                    one.message_bytes,
                    connections,
                )
            };
            let fits =
                [(packet_id, fit(packet_id, None)), (connection_id, fit(connection_id, Some(CONNECTIONS)))];
            if stack == STACKS[0] && direction == Direction::Send {
                self.bare = fits[0].1.map(|fit| fit.costs);
            }
            for ((id, setup), cell) in setups.iter().zip(&cells).filter(|((_, setup), _)| setup.lanes > 1) {
                let Some((_, Some(fit))) = fits.iter().find(|(own, _)| own == id) else { continue };
                let busy = if *id == connection_id { setup.lanes.min(CONNECTIONS) } else { setup.lanes };
                let is_apart = |(id, other): &(&str, Setup)| *id == APART && other.connections == busy;
                let pair =
                    setups.iter().position(is_apart).and_then(|apart| pair(setup, cell, &cells[apart], *fit));
                self.cells.extend(pair);
            }
            self.cells.extend(cells.into_iter().filter(|cell| cell.at["id"] != APART));
        }
        Ok(())
    }

    /// Returns the cells of these ids, preceded by the paper's, and the claims about them; nothing if there are none.
    fn outcome(
        &self,
        experiment: Experiment,
        ids: &[&str],
        published: Vec<Cell>,
        claims: impl FnOnce(&[Cell]) -> Vec<Claim>,
    ) -> Option<Outcome> {
        let own: Vec<Cell> =
            self.cells.iter().filter(|cell| ids.contains(&&*cell.at["id"])).cloned().collect();
        let paper =
            if experiment.paper.is_empty() { NDSS_TITLE.to_owned() } else { experiment.paper.clone() };
        let mut experiment = Experiment { paper, claims: claims(&own), ..experiment };
        for axis in experiment.axes.iter_mut().filter(|axis| axis.name == "lanes") {
            axis.values = self.lanes.iter().map(usize::to_string).collect();
        }
        let in_words = |tier: &str| match tier {
            ANY | paper::PAPERS_TIER => tier.to_owned(),
            tier => format!("tier {tier}"),
        };
        if own.is_empty() {
            return None;
        }
        let cells = published.into_iter().chain(own).collect();
        Some(Outcome::new(experiment, cells).in_words("tier", in_words))
    }
}

/// Returns a setup of several lanes beside as many independent stacks as it has busy lanes, and what the model says.
fn pair(setup: &Setup, cell: &Cell, apart: &Cell, fit: Fit) -> Option<Cell> {
    let predicted = predict::megabytes(fit.per_second(setup.lanes), setup.message_bytes);
    let pair = Cell { at: setup.place(PAIR), ..Cell::default() }
        .with("ratio", derive::over(cell, apart, RATE)?)
        .with("predicted", predicted)
        .with_some("reached", predict::reached(cell, predicted))
        .with(predict::BASIS, predict::basis(setup.lanes))
        .behind(cell.runs() + apart.runs());
    // Connections that lanes do not share have no lock in common.
    Some(if setup.connections == 1 { pair.with("cap", fit.costs.cap()) } else { pair })
}

/// Ids of independent stacks, and of the comparison with them.
const APART: &str = "apart";
const PAIR: &str = "pair";
/// The id of twelve threads, each with a connection, on several processors.
const THREADS_ID: &str = "threads";

/// Ids of one connection's packets and of twelve connections, on several lanes.
const fn ids(direction: Direction) -> [&'static str; 2] {
    match direction {
        Direction::Send => ["N26", "N31"],
        Direction::Receive => ["N27", "N32"],
    }
}

/// Returns the tiers of a stack: the paper's processors had neither batches nor instructions for ciphers.
fn tiers(stack: &str) -> &'static [Option<Tier>] {
    match stack {
        MODERN => &[None],
        stack if rig::has_tiers(stack) => &[Some(Tier::Reference), Some(Tier::Native), None],
        _ => &[None],
    }
}

/// Gives each cell its rate relative to another one: `times`.
fn over(cells: &mut [Cell], base: impl Fn(usize) -> Option<usize>) {
    let bases: Vec<Option<usize>> = (0..cells.len()).map(base).collect();
    derive::give_over(cells, &bases, RATE, "times");
}

/// Runs the requested parts.
fn run(request: &Request, progress: &mut dyn Write) -> Result<Report, LabError> {
    let began = Instant::now();
    let mut bench = Bench::new(request, progress);
    for direction in Direction::ALL {
        let [packets, connections] = ids(direction);
        if request.wants(&["N28", "N29", "N33", packets, connections]) {
            for stack in STACKS.iter().chain([&MODERN]) {
                bench.group(stack, direction)?;
            }
        }
    }
    let outcomes = parts::all(&mut bench)?;
    Ok(Report {
        seconds: began.elapsed().as_secs_f64(),
        profile: Some(request.profile),
        tiles: tiles(&bench.cells),
        skipped: if request.wants(&["N36"]) {
            parts::REFUSED.map(str::to_owned).to_vec()
        } else {
            Vec::new()
        },
        sources: vec![NDSS_TITLE.to_owned()],
        ..Report::new("sealane lab stacks", "Parallel protocol stacks", SUMMARY, outcomes)
    })
}

/// Returns the most important figures.
fn tiles(cells: &[Cell]) -> Vec<Tile> {
    let sent = |stack: &str, more: &[(&str, &str)]| {
        let wanted =
            crate::experiment::at([("id", "N26"), ("stack", stack)].into_iter().chain(more.iter().copied()));
        let is_it = |cell: &&Cell| find(std::slice::from_ref(*cell), &wanted).is_some();
        cells.iter().filter(is_it).max_by_key(|cell| lanes_of(cell))
    };
    let mut tiles = Vec::new();
    let mut tile = |label: String, value: Option<String>, unit: &str, detail: &str| {
        tiles.extend(value.map(|value| Tile {
            label,
            value,
            unit: unit.to_owned(),
            detail: detail.to_owned(),
        }));
    };
    let turn = sent(STACKS[0], &[("lanes", "1")]).and_then(|bare| bare.figure("locked_ns"));
    tile("TCP's turn for a message of 4 KB".to_owned(), turn.map(quantity), "ns", "the paper: 164 µs");
    for (stack, detail) in [(STACKS[1], "the paper: 8 on 12"), (STACKS[2], "the paper: nearly 12 on 12")] {
        if let Some(cell) = sent(stack, &[("tier", "native")]).filter(|cell| lanes_of(cell) > 1) {
            let label = format!("{stack} on {} lanes, tier native", cell.at["lanes"]);
            tile(label, cell.figure("times").map(|times| format!("{times:.2}")), "times one", detail);
        }
    }
    tiles
}

/// Returns a measure's figure, and the ends of its interval.
fn interval_of(cell: &Cell, measure: &str) -> Option<[f64; 3]> {
    let interval = cell.interval(measure)?;
    Some([cell.figure(measure)?, interval.low, interval.high])
}

fn lanes_of(cell: &Cell) -> usize {
    cell.at.get("lanes").and_then(|lanes| lanes.parse().ok()).unwrap_or(0)
}

fn rate() -> Measure {
    Measure::rate(RATE, "MB/s")
}

/// Returns the paper's rows.
fn published(rates: &[paper::Rate]) -> Vec<Cell> {
    let cell = |row: &paper::Rate| {
        let lanes = row.processors.to_string();
        let place = [("stack", row.stack), ("way", "send"), ("tier", paper::PAPERS_TIER), ("lanes", &*lanes)];
        let cell = Cell::new(place).with_some(RATE, row.megabits.map(|megabits| megabits / 8.0));
        let times = row.times.parse().map_or_else(|_| row.times.into(), Value::Number);
        cell.with("times", times).of_role(Role::Published)
    };
    rates.iter().map(cell).collect()
}
