//! Parallel protocol stacks: the study of Nahum et al. (NDSS 1996) on this machine, on the stack that ships.
//!
//! Guarantees: a group of setups that are compared takes turns in short slices of one run; every sample is kept; the
//! scaling model is fed before the cells that it predicts are looked at, and its error is printed.

mod asymmetric;
mod capture;
mod demux;
mod driver;
mod fairness;
mod model;
mod page;
mod paper;
mod passes;
mod predict;
mod rig;
mod security;
mod sentences;
mod timing;

use crate::LabError;
use crate::experiment::{self, Coordinates, Profile, Repetition, Runner, Sample, derive};
use crate::rng::Rng;
use crate::stats::{CONFIDENCE, Centre, Interval, ratio_of_medians};
use rig::{Rig, Slice};
use sealane_engine::EngineChoice;
use sealane_stack::{Catalogue, Placement, available_lanes};
use sealane_transform::Tier;
use serde::Serialize;
use std::io::Write;
use std::mem;
use std::time::{Duration, Instant};
use timing::Timing;

pub use capture::capture;
pub use model::Costs;
pub use page::{predicted, report};
pub use passes::{OneLoop, Pass};
pub use predict::{Prediction, predict};
pub use rig::{Direction, Setup};
pub use sentences::Sentence;

/// What there is to find out, by the inventory's ids.
pub const IDS: [&str; 12] =
    ["N20", "N26", "N27", "N28", "N29", "N30", "N31", "N32", "N33", "N34", "N36", "A12"];
/// The layers that stacks are made of here: those of crate `stack`, and IPsec's.
fn catalogue() -> Catalogue {
    Catalogue::new().with(security::ESP).with(security::AH)
}

/// The paper's four stacks, and the fifth that its Table 2 has instead of the fourth.
const STACKS: [&str; 5] =
    ["tcp/ip/fddi", "tcp/md5/ip/fddi", "des/tcp/md5/ip/fddi", "3des/tcp/ip/fddi", "3des/tcp/md5/ip/fddi"];
/// What one would build today.
const MODERN: &str = "aes-128-gcm/tcp/ip/fddi";
/// Between them MD5 and DES add up to the third stack.
const DES_ALONE: &str = "des/tcp/ip/fddi";
/// Digests by a tree over links of 64 KiB, above the transport and below it.
const TREES: [&str; 2] = ["blake3/tcp/ip/fddi(65535)", "aes-128-ctr/udp/blake3/ip/fddi(65535)"];
/// A message that fills such a link, with room for every header: 64 leaves of the tree with the digest's own.
const LONG_BYTES: usize = (64 << 10) - 512;
/// Connections of the paper's connection-level test.
const CONNECTIONS: usize = 12;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Ids of [`IDS`]; all if there are none.
    pub only: Vec<String>,
    /// How thorough.
    pub profile: Profile,
    /// The engine that runs the stacks' cryptography.
    pub engine: EngineChoice,
    /// Seed of messages and keys, to repeat a run.
    pub seed: Option<u64>,
}

/// One figure with what it was measured on.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The inventory's id.
    pub id: &'static str,
    /// The stack.
    pub stack: String,
    /// The unit of concurrency; `thread-per-connection` where each connection has a thread.
    pub placement: &'static str,
    /// Threads.
    pub lanes: usize,
    /// Connections.
    pub connections: usize,
    /// Which way messages go.
    pub direction: Direction,
    /// Whether the order of packets is restored before TCP's turn and behind it.
    pub keeps_order: bool,
    /// How ciphers and digests are computed.
    pub tier: &'static str,
    /// Payload: the median of all slices, or their mean.
    pub mb_per_s: f64,
    /// Over the same on one lane.
    pub speedup: Option<f64>,
    /// 90 % interval of `mb_per_s`.
    pub interval: Option<Interval>,
    /// What stands for the slices.
    #[serde(skip)]
    pub centre: Centre,
    /// Nanoseconds of a message's turn at TCP, which one lane takes at a time.
    pub locked_ns: f64,
    /// How often a lane found another at TCP, for each message; it goes on with other work then.
    pub lock_wait: f64,
    /// Jain's index over connections: 1 where all got the same.
    pub jain: Option<f64>,
    /// 90 % interval of `jain`; none where connections had too few batches to tell.
    pub jain_interval: Option<Interval>,
    /// The largest connection's share over the smallest's.
    pub max_over_min: Option<f64>,
    /// How often a lane had to wait for the map that says whose packet it is, for each message.
    pub map_wait: f64,
    /// Batches handed to another lane, for each message.
    pub hand_offs: f64,
    /// Context switches a second, of the process.
    pub switches_per_s: f64,
    /// Most batches that one had to wait for, where order is restored.
    pub reorder_depth: u64,
    /// The least busy lane's bytes over the busiest's.
    pub lane_balance: Option<f64>,
    /// MB/s of each slice.
    pub samples: Vec<f64>,
    /// Slices that were taken again because something else disturbed them.
    pub repeated: usize,
    /// Which of the samples something else disturbed all the same.
    pub disturbed: Vec<bool>,
}

/// Two lanes on one stack against as many stacks of one lane each.
#[derive(Clone, Debug, Serialize)]
pub struct Pair {
    /// The stack.
    pub stack: String,
    /// The unit of concurrency.
    pub placement: &'static str,
    /// Lanes.
    pub lanes: usize,
    /// Which way messages go.
    pub direction: Direction,
    /// How ciphers and digests are computed.
    pub tier: &'static str,
    /// Rate of the stack over the rate of the independent ones.
    pub ratio: f64,
    /// 90 % interval.
    pub interval: Interval,
    /// What the model said, and by how much the measured rate differs from that.
    pub predicted_mb_per_s: Option<f64>,
    /// Measured over predicted, less 1.
    pub error: Option<f64>,
    /// (unlocked + locked) / locked: what no number of lanes passes.
    pub cap: f64,
}

/// Everything that was found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Study {
    /// The figures.
    pub cells: Vec<Cell>,
    /// The comparisons with independent stacks, and the model's predictions.
    pub pairs: Vec<Pair>,
    /// What more lanes would gain if every packet carried a signature.
    pub predictions: Vec<Prediction>,
    /// Integrated layer processing.
    pub passes: Vec<Pass>,
    /// What is not measured, with the reason.
    pub refused: Vec<String>,
}

/// All that is said of a study, held against it, for `--json`.
pub fn sentences(study: &Study) -> Vec<Sentence> {
    sentences::checked(study, &sentences::evidence(study)).iter().map(|(_, one)| one.into()).collect()
}

/// Microseconds of a message of 4 KB.
fn message_us(mb_per_s: f64) -> f64 {
    4096.0 / mb_per_s
}

impl Study {
    /// TCP/IP, with MD5, with DES and with both, whose costs add up or do not (N28).
    fn parts_of_a_sum(&self, direction: Direction) -> Option<[&Cell; 4]> {
        let of = |stack: &str| {
            let is_it = |cell: &&Cell| cell.id == "N28" && cell.stack == stack && cell.direction == direction;
            self.cells.iter().find(is_it)
        };
        Some([of(STACKS[0])?, of(STACKS[1])?, of(DES_ALONE)?, of(STACKS[2])?])
    }
}

/// Lanes to measure on: 1, 2, 4 and so on, and all.
fn lane_counts() -> Vec<usize> {
    let most = available_lanes();
    let mut lanes: Vec<usize> = (0..).map(|power| 1 << power).take_while(|&lanes| lanes <= most).collect();
    if !lanes.contains(&most) {
        lanes.push(most);
    }
    lanes
}

/// How often a slice is taken again because something else disturbed it.
const RETRIES: usize = 4;

/// Rigs that take turns.
struct Turns {
    rigs: Vec<Rig>,
    timing: Timing,
    slices: Vec<Vec<Slice>>,
    last: Slice,
    repeated: usize,
    /// Slices that may still be taken again: where the machine is never quiet, a run ends all the same.
    spare: usize,
}

impl Runner for Turns {
    fn sample(&mut self, cell: usize) -> Result<Sample, LabError> {
        self.last = self.rigs[cell].slice(self.timing.settle, self.timing.slice);
        self.repeated += usize::from(self.last.is_disturbed);
        let is_disturbed = self.last.is_disturbed && self.spare > 0;
        self.spare -= usize::from(is_disturbed);
        Ok(Sample { is_disturbed, ..Sample::default() })
    }

    fn counts(&mut self, cell: usize) {
        let last = mem::take(&mut self.last);
        let repeated = mem::take(&mut self.repeated) - usize::from(last.is_disturbed);
        self.slices[cell].push(Slice { repeated, ..last });
    }
}

/// The setups' slices, taken in turns.
fn measure(
    setups: &[Setup],
    engine: &EngineChoice,
    timing: Timing,
    rng: &mut Rng,
) -> Result<Vec<Vec<Slice>>, LabError> {
    let rigs = setups.iter().map(|setup| Rig::new(setup, engine, rng)).collect::<Result<Vec<_>, _>>()?;
    // Caches, pools and congestion windows get warm outside of the figures.
    rigs.iter().for_each(|rig| drop(rig.slice(Duration::ZERO, timing.settle)));
    let places = vec![Coordinates::new(); rigs.len()];
    let slices = vec![Vec::new(); rigs.len()];
    let rule = Repetition {
        warm_up_rounds: 0,
        rounds: timing.rounds,
        retries_per_round: RETRIES,
        centre: timing.centre,
    };
    let spare = timing.rounds * rigs.len() / 4;
    let mut turns = Turns { rigs, timing, slices, last: Slice::default(), repeated: 0, spare };
    experiment::run(&places, rule, rng.next_u64(), &mut turns)?;
    Ok(turns.slices)
}

fn rates(slices: &[Slice]) -> Vec<f64> {
    slices.iter().map(|slice| slice.mb_per_s).collect()
}

fn rate(slices: &[Slice], centre: Centre) -> f64 {
    centre.of(&rates(slices)).unwrap_or(0.0)
}

/// Nanoseconds of a message's turn at TCP.
fn locked_ns(slices: &[Slice]) -> f64 {
    let (ns, messages) = slices
        .iter()
        .fold((0, 0), |(ns, messages), slice| (ns + slice.counts.turn_ns, messages + slice.messages));
    ns as f64 / messages.max(1) as f64
}

fn cell(id: &'static str, setup: &Setup, slices: &[Slice], one_lane: Option<f64>, timing: Timing) -> Cell {
    let samples = rates(slices);
    let messages = slices.iter().map(|slice| slice.messages).sum::<u64>().max(1) as f64;
    let sum = |pick: fn(&Slice) -> u64| slices.iter().map(pick).sum::<u64>() as f64;
    let connections = slices.first().map_or(0, |slice| slice.shares.len());
    let share = |at: usize| slices.iter().map(|slice| slice.shares[at]).sum::<u64>() as f64;
    let shares: Vec<f64> = (0..connections).map(share).collect();
    let lanes = slices.first().map_or(0, |slice| slice.lane_bytes.len());
    let bytes = |lane: usize| slices.iter().map(|slice| slice.lane_bytes[lane]).sum::<u64>() as f64;
    let of_lanes: Vec<f64> = (0..lanes).map(bytes).collect();
    let busiest = of_lanes.iter().copied().fold(0.0, f64::max);
    let idlest = of_lanes.iter().copied().fold(f64::INFINITY, f64::min);
    let mb_per_s = rate(slices, timing.centre);
    Cell {
        id,
        stack: setup.stack.clone(),
        placement: if setup.is_apart { "thread-per-connection" } else { setup.placement.name() },
        lanes: setup.threads(),
        connections: setup.connections,
        direction: setup.direction,
        keeps_order: setup.keeps_order,
        tier: setup.tier_name(),
        mb_per_s,
        speedup: one_lane.filter(|&one| one > 0.0).map(|one| mb_per_s / one),
        interval: timing.centre.interval(&samples, 1),
        centre: timing.centre,
        locked_ns: locked_ns(slices),
        lock_wait: sum(|slice| slice.counts.found_busy) / messages,
        jain: derive::jain(&shares),
        jain_interval: fairness::jain_interval(slices),
        max_over_min: derive::max_over_min(&shares),
        map_wait: sum(|slice| slice.map_waits) / messages,
        hand_offs: sum(|slice| slice.counts.handed_over) / messages,
        switches_per_s: sum(|slice| slice.switches) / (slices.len() as f64 * timing.slice.as_secs_f64()),
        reorder_depth: slices.iter().map(|slice| slice.counts.reorder_depth).max().unwrap_or(0),
        lane_balance: (lanes > 1 && busiest > 0.0).then(|| idlest / busiest),
        samples,
        repeated: slices.iter().map(|slice| slice.repeated).sum(),
        disturbed: slices.iter().map(|slice| slice.is_disturbed).collect(),
    }
}

struct Run {
    timing: Timing,
    only: Vec<String>,
    engine: EngineChoice,
    lanes: Vec<usize>,
    rng: Rng,
    study: Study,
    /// What sharing costs, by direction.
    sharing: [Sharing; 2],
}

/// What a message costs more on two lanes that share a connection than on two that do not, by the stack that has nothing
/// else: TCP/IP.
#[derive(Clone, Copy, Debug, Default)]
struct Sharing {
    hand_over_ns: f64,
    spread_ns: f64,
}

impl Sharing {
    /// From two lanes that share one connection, and two that have one each.
    fn of(shared: &[Slice], apart: &[Slice], message_bytes: usize) -> Self {
        let lane_ns =
            |slices: &[Slice]| 2.0 * message_bytes as f64 * 1e3 / rate(slices, Centre::Median).max(1e-9);
        let hand_over_ns = (locked_ns(shared) - locked_ns(apart)).max(0.0);
        let spread_ns = (lane_ns(shared) - lane_ns(apart) - hand_over_ns).max(0.0);
        Self { hand_over_ns, spread_ns }
    }

    fn costs(self, slices: &[Slice], lanes: usize, message_bytes: usize) -> Costs {
        let locked_ns = locked_ns(slices);
        let message_ns = lanes as f64 * message_bytes as f64 * 1e3 / rate(slices, Centre::Median).max(1e-9);
        let Self { hand_over_ns, spread_ns } = self;
        Costs { free_ns: (message_ns - locked_ns).max(0.0), locked_ns, hand_over_ns, spread_ns }
    }
}

/// Measures what is asked for.
///
/// # Errors
/// A stack or thread that cannot be had.
pub fn run(options: &Options, progress: &mut dyn Write) -> Result<Study, LabError> {
    let mut run = Run {
        timing: Timing::of(options.profile),
        only: options.only.clone(),
        engine: options.engine.clone(),
        lanes: lane_counts(),
        rng: Rng::new(options.seed.unwrap_or_else(Rng::fresh_seed)),
        study: Study::default(),
        sharing: [Sharing::default(); 2],
    };
    let began = Instant::now();
    let mut say = |what: &str| writeln!(progress, "[{:5.1} s] {what}", began.elapsed().as_secs_f64());
    for direction in Direction::ALL {
        for stack in STACKS.iter().chain([&MODERN]) {
            if run.wants_group(direction) {
                say(&format!("{stack}, {}", direction.name()))?;
                run.group(stack, direction)?;
            }
        }
    }
    for (id, what, measure) in [
        ("N28", "whether costs add up", Run::sums as fn(&mut Run) -> Result<(), LabError>),
        ("N20", "locks and order", Run::locks),
        ("N30", "UDP", Run::udp),
        ("N34", "12 to 384 connections", Run::connections),
        ("N36", "layers, functions and blocks", Run::parts),
    ] {
        if run.wants(id) {
            say(what)?;
            measure(&mut run)?;
        }
    }
    if run.wants("N29") {
        say("a signature for each packet")?;
        run.signatures()?;
    }
    if run.wants("A12") {
        say("integrated layer processing")?;
        run.study.passes = passes::measure(run.timing.rounds.min(5), &mut run.rng)?;
    }
    Ok(run.study)
}

impl Run {
    fn wants(&self, id: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only.eq_ignore_ascii_case(id))
    }

    fn wants_any(&self, ids: &[&str]) -> bool {
        ids.iter().any(|id| self.wants(id))
    }

    /// TCP/IP as it was measured on one lane, and a signature outside of TCP's turn.
    fn signatures(&mut self) -> Result<(), LabError> {
        let is_bare = |cell: &&Cell| {
            cell.id == "N26"
                && cell.stack == STACKS[0]
                && cell.direction == Direction::Send
                && cell.lanes == 1
        };
        let Some(cell) = self.study.cells.iter().find(is_bare) else { return Ok(()) };
        let message_ns = 4096e3 / cell.mb_per_s.max(1e-9);
        let Sharing { hand_over_ns, spread_ns } = self.sharing[Direction::Send as usize];
        let locked_ns = cell.locked_ns;
        let bare = Costs { free_ns: (message_ns - locked_ns).max(0.0), locked_ns, hand_over_ns, spread_ns };
        self.study.predictions = predict::with_signatures(bare, asymmetric::signature_ns()?);
        Ok(())
    }

    fn wants_group(&self, direction: Direction) -> bool {
        self.wants_any(&["N28", "N29", "N33"])
            || match direction {
                Direction::Send => self.wants_any(&["N26", "N31"]),
                Direction::Receive => self.wants_any(&["N27", "N32"]),
            }
    }

    /// The tiers of a stack: the paper's processors had neither batches nor instructions for ciphers.
    fn tiers(stack: &str) -> &'static [Option<Tier>] {
        match stack {
            // No layer has tiers.
            "tcp/ip/fddi" | "udp/ip/fddi" | MODERN => &[None],
            _ => &[Some(Tier::Reference), Some(Tier::Native), None],
        }
    }

    /// One stack one way: a lock that lanes share, connections that they do not, and independent stacks.
    fn group(&mut self, stack: &str, direction: Direction) -> Result<(), LabError> {
        let (packet_id, connection_id) = match direction {
            Direction::Send => ("N26", "N31"),
            Direction::Receive => ("N27", "N32"),
        };
        let wants_connections = self.wants_any(&[connection_id, "N33"]);
        for &tier in Self::tiers(stack) {
            let one = Setup::new(stack, direction, tier);
            let many = if tier == Some(Tier::Reference) { &[1] } else { &self.lanes[..] };
            let mut setups = Vec::new();
            for &lanes in many {
                setups.push((packet_id, Setup { lanes, ..one.clone() }));
                if wants_connections {
                    let connection = Setup {
                        lanes,
                        placement: Placement::Connection,
                        connections: CONNECTIONS,
                        ..one.clone()
                    };
                    setups.push((connection_id, connection));
                }
                if lanes > 1 {
                    setups.push(("pair", Setup { is_apart: true, connections: lanes, ..one.clone() }));
                }
            }
            // The bare stack takes turns with those whose cryptography is short, for which the model needs what sharing
            // costs at the same time.
            if tier.is_none() && stack != STACKS[0] && self.lanes.len() > 1 {
                let bare = Setup::new(STACKS[0], direction, None);
                setups.push(("bare", Setup { lanes: 2, ..bare.clone() }));
                setups.push(("bare", Setup { is_apart: true, connections: 2, ..bare }));
            }
            let list: Vec<Setup> = setups.iter().map(|(_, setup)| setup.clone()).collect();
            let found = measure(&list, &self.engine, self.timing, &mut self.rng)?;
            let centre = self.timing.centre;
            let single = |placement: Placement| {
                let is_it = |setup: &Setup| setup.placement == placement && setup.threads() == 1;
                let at = list.iter().position(is_it);
                at.map(|at| rate(&found[at], centre))
            };
            self.learn_sharing(direction, &list, &found);
            for ((id, setup), slices) in setups.iter().zip(&found) {
                if matches!(*id, "pair" | "bare") {
                    continue;
                }
                let of_one = single(setup.placement);
                self.study.cells.push(cell(id, setup, slices, of_one, self.timing));
                self.pair(setup, slices, &list, &found);
            }
        }
        Ok(())
    }

    fn learn_sharing(&mut self, direction: Direction, setups: &[Setup], found: &[Vec<Slice>]) {
        let bare = |is_apart: bool| {
            let is_it = |setup: &Setup| {
                setup.stack == STACKS[0]
                    && setup.placement == Placement::Packet
                    && setup.is_apart == is_apart
                    && setup.threads() == 2
            };
            setups.iter().position(is_it).map(|at| &found[at])
        };
        if let (Some(shared), Some(apart)) = (bare(false), bare(true)) {
            self.sharing[direction as usize] = Sharing::of(shared, apart, setups[0].message_bytes);
        }
    }

    /// A setup of several lanes beside as many independent stacks.
    fn pair(&mut self, setup: &Setup, slices: &[Slice], setups: &[Setup], found: &[Vec<Slice>]) {
        let is_it =
            |other: &Setup| other.is_apart && other.connections == setup.lanes && other.stack == setup.stack;
        let apart = setups.iter().position(is_it);
        let Some(apart) = apart.map(|at| &found[at]) else { return };
        let Some((ratio, interval)) = ratio_of_medians(&rates(slices), &rates(apart), CONFIDENCE, 1) else {
            return;
        };
        let costs = self.sharing[setup.direction as usize].costs(apart, setup.lanes, setup.message_bytes);
        // What the bare stack does on two lanes is where the model has its costs of sharing from.
        let is_shared = setup.connections == 1 && (setup.stack != STACKS[0] || setup.lanes > 2);
        let predicted = is_shared.then(|| costs.per_second(setup.lanes) * setup.message_bytes as f64 / 1e6);
        self.study.pairs.push(Pair {
            stack: setup.stack.clone(),
            placement: setup.placement.name(),
            lanes: setup.lanes,
            direction: setup.direction,
            tier: setup.tier_name(),
            ratio,
            interval,
            predicted_mb_per_s: predicted,
            error: predicted.map(|predicted| rate(slices, self.timing.centre) / predicted - 1.0),
            cap: costs.cap(),
        });
    }

    /// Cells of one id over setups that take turns, each with the first as its measure.
    fn cells(&mut self, id: &'static str, setups: &[Setup]) -> Result<(), LabError> {
        let found = measure(setups, &self.engine, self.timing, &mut self.rng)?;
        self.note(id, setups, &found);
        Ok(())
    }

    /// Cells of what was found of these setups, each with the first as its measure.
    fn note(&mut self, id: &'static str, setups: &[Setup], found: &[Vec<Slice>]) {
        let one = found.first().map(|slices| rate(slices, self.timing.centre));
        for (setup, slices) in setups.iter().zip(found) {
            self.study.cells.push(cell(id, setup, slices, one, self.timing));
        }
    }

    /// Each layer alone and both together, in turns.
    fn sums(&mut self) -> Result<(), LabError> {
        for direction in Direction::ALL {
            let setups = [STACKS[0], STACKS[1], DES_ALONE, STACKS[2]]
                .map(|stack| Setup::new(stack, direction, Some(Tier::Native)));
            self.cells("N28", &setups)?;
        }
        Ok(())
    }

    /// One connection's lock against those of several, and order restored or not. Only what is received is left out of
    /// order: the driver that takes what is sent keeps no segment for later, as no packet of its is late.
    fn locks(&mut self) -> Result<(), LabError> {
        let lanes = *self.lanes.last().expect("there is one lane at least");
        for stack in [STACKS[0], MODERN] {
            for direction in Direction::ALL {
                let one = Setup { lanes, ..Setup::new(stack, direction, None) };
                let several = Setup { connections: CONNECTIONS, ..one.clone() };
                let apart = Setup { placement: Placement::Connection, ..several.clone() };
                let mut setups = vec![one.clone(), several, apart];
                if direction == Direction::Receive {
                    setups.push(Setup { keeps_order: false, ..one });
                }
                self.cells("N20", &setups)?;
            }
        }
        Ok(())
    }

    fn udp(&mut self) -> Result<(), LabError> {
        for direction in Direction::ALL {
            for stack in STACKS {
                let over = |transport: &str| {
                    let one = Setup::new(&stack.replace("tcp", transport), direction, Some(Tier::Native));
                    self.lanes.iter().map(|&lanes| Setup { lanes, ..one.clone() }).collect::<Vec<_>>()
                };
                // Both take turns, so that what the machine does beside meets both.
                let setups = [over("udp"), over("tcp")];
                let found = measure(&setups.concat(), &self.engine, self.timing, &mut self.rng)?;
                for (setups, found) in setups.iter().zip(found.chunks(self.lanes.len())) {
                    self.note("N30", setups, found);
                }
            }
        }
        Ok(())
    }

    /// Threads for connections against threads for processors.
    fn connections(&mut self) -> Result<(), LabError> {
        let lanes = *self.lanes.last().expect("there is one lane at least");
        let stacks = [(STACKS[0], None), (STACKS[4], Some(Tier::Native)), (MODERN, None)];
        let usual = self.timing;
        for (stack, tier) in stacks {
            for connections in [CONNECTIONS, 96, 384] {
                self.timing = usual.of_connections(connections);
                let one = Setup { connections, ..Setup::new(stack, Direction::Send, tier) };
                let placement = Placement::Connection;
                let processors = Setup { lanes, placement, ..one.clone() };
                let threads = Setup { is_apart: true, placement, ..one };
                self.cells("N34", &[processors, threads])?;
            }
        }
        self.timing = usual;
        Ok(())
    }

    /// The other placements, each where it can gain, beside one lane and beside packets.
    fn parts(&mut self) -> Result<(), LabError> {
        let lanes = *self.lanes.last().expect("there is one lane at least");
        let native = Some(Tier::Native);
        let cases = [
            ("des/tcp/md5/ip/fddi", Direction::Send, Placement::Layer),
            ("des/tcp/md5/ip/fddi", Direction::Receive, Placement::Layer),
            ("etm(des,hmac-md5)/tcp/ip/fddi", Direction::Receive, Placement::Function),
            ("des-ecb/tcp/ip/fddi", Direction::Send, Placement::Block),
            ("aes-128-ctr/tcp/ip/fddi", Direction::Send, Placement::Block),
            ("des/tcp/ip/fddi", Direction::Receive, Placement::Block),
        ];
        for (stack, direction, placement) in cases {
            let one = Setup::new(stack, direction, native);
            let packet = Setup { lanes, ..one.clone() };
            let parts = Setup { lanes, placement, ..one.clone() };
            self.cells("N36", &[one, packet, parts])?;
        }
        for stack in TREES {
            for direction in Direction::ALL {
                let one = Setup { message_bytes: LONG_BYTES, ..Setup::new(stack, direction, native) };
                let packet = Setup { lanes, ..one.clone() };
                let parts = Setup { placement: Placement::Block, ..packet.clone() };
                self.cells("N36", &[one, packet, parts])?;
            }
        }
        self.study.refused = vec![
            "CBC encryption by blocks: each block of CBC is enciphered with the one before it, so its pieces wait for one \
             another. Opening is the other way round: each needs only ciphertext."
                .to_owned(),
            "The function of sealing by encrypt-then-MAC: the authenticator reads what the cipher has written. When a \
             packet is opened both read the same ciphertext, at once."
                .to_owned(),
            "A tree of digests (BLAKE3's) over one packet of 4 KB by blocks: it has four leaves and a bit, less than one \
             vector, which takes hardly longer than one leaf. Over links of 64 KiB a packet is cut."
                .to_owned(),
            "A signature on each packet (N3, N29): the engine has no asymmetric jobs.".to_owned(),
        ];
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(id: &'static str, stack: &str, tier: &'static str, lanes: usize, mb_per_s: f64) -> Cell {
        let samples: Vec<f64> = (0..5).map(|at| mb_per_s * (1.0 + 0.001 * f64::from(at))).collect();
        Cell {
            id,
            stack: stack.to_owned(),
            placement: "packet",
            lanes,
            connections: 1,
            direction: Direction::Send,
            keeps_order: true,
            tier,
            mb_per_s,
            speedup: None,
            interval: Centre::Median.interval(&samples, 1),
            centre: Centre::Median,
            locked_ns: 30.0,
            lock_wait: 0.0,
            jain: None,
            jain_interval: None,
            max_over_min: None,
            map_wait: 0.0,
            hand_offs: 0.0,
            switches_per_s: 0.0,
            reorder_depth: 1,
            lane_balance: None,
            disturbed: vec![false; samples.len()],
            samples,
            repeated: 0,
        }
    }

    /// A study that nobody measured: one claim of each kind has what it needs.
    pub(super) fn study() -> Study {
        let interval = |value: f64| Interval { low: value * 0.99, high: value * 1.01 };
        let pair = |stack: &str, tier, predicted: Option<f64>| Pair {
            stack: stack.to_owned(),
            placement: "packet",
            lanes: 2,
            direction: Direction::Send,
            tier,
            ratio: 0.97,
            interval: interval(0.97),
            predicted_mb_per_s: predicted,
            error: None,
            cap: 6.0,
        };
        let connections = |placement, jain| Cell {
            placement,
            connections: 12,
            jain: Some(jain),
            jain_interval: Some(interval(jain)),
            ..cell("N34", STACKS[0], "best", 2, 9_000.0)
        };
        // 4, 8, 10 and 14 µs of a message.
        let sums = [(STACKS[0], 1024.0), (STACKS[1], 512.0), (DES_ALONE, 409.6), (STACKS[2], 4096.0 / 14.0)];
        let mut cells = vec![
            cell("N26", STACKS[0], "best", 1, 8_000.0),
            cell("N26", STACKS[0], "best", 2, 9_000.0),
            cell("N26", STACKS[1], "native", 1, 700.0),
            cell("N26", STACKS[1], "native", 2, 1_390.0),
            cell("N26", MODERN, "best", 2, 6_000.0),
            connections("connection", 0.99),
            connections("thread-per-connection", 0.3),
        ];
        cells.extend(sums.map(|(stack, rate)| cell("N28", stack, "native", 1, rate)));
        let over_udp = STACKS.map(|stack| stack.replace("tcp", "udp"));
        // Over UDP 1.5 times on two lanes, over TCP 1.2 times; with a cipher the same.
        for (stack, [one, two]) in [
            (over_udp[0].as_str(), [16_000.0, 24_000.0]),
            (STACKS[0], [8_000.0, 9_600.0]),
            (over_udp[3].as_str(), [100.0, 198.0]),
            (STACKS[3], [99.0, 196.0]),
        ] {
            cells.extend([(1, one), (2, two)].map(|(lanes, rate)| cell("N30", stack, "native", lanes, rate)));
        }
        let pass = Pass {
            layers: "checksum, md5",
            bytes: 16 << 10,
            separate_mb_per_s: 500.0,
            fused_mb_per_s: 600.0,
            gain: 1.2,
            interval: interval(1.2),
            one_loop: Some(OneLoop { mb_per_s: 510.0, gain: 1.02, interval: interval(1.02) }),
        };
        Study {
            cells,
            pairs: vec![
                pair(STACKS[0], "best", None),
                pair(STACKS[1], "native", Some(1_400.0)),
                pair(MODERN, "best", Some(4_000.0)),
            ],
            passes: vec![pass],
            ..Study::default()
        }
    }

    /// Whoever reads the page finds the paper's figures beside ours, and no claim that nothing stands behind.
    #[test]
    fn the_report_has_the_papers_rows_and_every_claim() {
        let study = study();
        let report = report(&study);
        let outcome = |id: &str| report.outcomes.iter().find(|one| one.experiment.id == id).unwrap();
        let text = crate::report::outcomes_text(&report, None);
        for words in ["the paper", "near linear", "paper: µs", "over independent", "one loop gains"] {
            assert!(text.contains(words), "{words}");
        }
        assert_eq!(outcome("packets").cells.len(), paper::PACKETS.len() + 5);
        assert_eq!(outcome("latency").cells[0].figure("paper_us"), Some(236.0));
        let claims: usize = report.outcomes.iter().map(|one| one.claims.len()).sum();
        assert_eq!(claims, sentences::checked(&study, &sentences::evidence(&study)).len());
        assert_eq!(sentences(&study).len(), claims);
        assert!(crate::report::to_html(&report).unwrap().contains("Packet-level parallelism"));
    }
}
