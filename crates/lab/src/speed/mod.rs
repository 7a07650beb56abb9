//! What the kernels of the catalogue cost on this machine, beside the libraries that others would use.
//!
//! A grid of algorithms, tiers, lengths, lanes and batches; each cell is one [`Row`]. Ours and the peer's kernel
//! alternate in short slices of one run, and the medians count, so a ratio holds however noisy the machine is.
//! Nothing here decides which kernel is right: every row says which tier and instruction set ran.

mod advice;
mod clock;
mod error;
mod fit;
mod ours;
mod peers;
mod plan;
mod row;
mod story;
mod tables;
pub mod trial;
mod tsc;
pub(crate) mod usage;
mod work;

pub use advice::advice;
pub use error::SpeedError;
pub use peers::Peer;
pub use plan::MEMORY_BYTES_MAX;
pub use row::Row;
pub use story::PARTS;
pub use tables::{rates, summary};
pub use tsc::ticks_per_ns;

use crate::LabError;
use crate::experiment::{Outcome, Profile};
use crate::report::Report;
use crate::request::Request;
use crate::studies::{ATOMIC, Family, NPCRYPTBENCH, OWN, Study, study};
use sealane_transform::{Algorithm, Direction, Isa, Tier};
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// `sealane speed`, and the papers' tables of kernels.
pub(crate) const FAMILIES: &[Family] = &[
    Family { command: "speed --story", parts: &PARTS, studies: STORIES, run: story::run },
    Family {
        command: "speed",
        parts: &[],
        studies: &[study(
            "kernels",
            OWN,
            "what to use on this machine: AEADs, hashes and MACs, one message and many",
            &[],
            20,
        )],
        run,
    },
];

const STORIES: &[Study] = &[
    study(
        "B13",
        NPCRYPTBENCH,
        "Table IV: bytes of tables in near and in far memory, beside ours",
        &["tables"],
        1,
    ),
    study(
        "B22",
        NPCRYPTBENCH,
        "levels 1 to 3 on this processor; flows, messages and blocks at once (also B24)",
        &["ladder", "flows", "batches", "blocks", "shared-message"],
        45,
    ),
    study("B8", NPCRYPTBENCH, "Table II: tables and working sets beside the paper's", &["tables"], 1),
    study("B17", NPCRYPTBENCH, "instruction mix of our kernels beside CommBench", &["mix"], 1),
    study("A2", ATOMIC, "MD5 and others from the caches and from memory (also A9)", &["caches"], 15),
];

/// What the page of `sealane speed` says of itself.
const SUMMARY: &str = "Ciphers, digests and MACs in tiers, in the memory of one process. Kernels that stand side by side \
    took turns in short slices of one run; medians count.";

/// What is measured where no algorithm is named.
const WELL_KNOWN: [&str; 22] = [
    "aes-128-gcm",
    "aes-256-gcm",
    "chacha20-poly1305",
    "sha256",
    "sha512",
    "blake3",
    "hmac-sha256",
    "hmac-sha512",
    "aes-128-gmac",
    "md5",
    "sha1",
    "hmac-sha1",
    "des-cbc",
    "3des-cbc",
    "aes-128-cbc",
    "aes-128-ctr",
    "rc5-cbc",
    "rc6-cbc",
    "blowfish-cbc",
    "idea-cbc",
    "rc4",
    "seal3",
];

/// Messages of a batch that is large enough for all lanes.
pub const MANY: usize = 512;

/// Outcomes as a report.
pub fn report(title: &str, seconds: f64, outcomes: Vec<Outcome>) -> Report {
    Report { seconds, ..Report::new("sealane speed", title, SUMMARY, outcomes) }
}

/// What to use on this machine.
fn run(request: &Request, progress: &mut dyn Write) -> Result<Report, LabError> {
    let began = Instant::now();
    let options = SpeedOptions { rule: request.profile.into(), ..SpeedOptions::well_known() };
    let rows = measured(&options, progress)?;
    let outcomes =
        advice(&rows, &options.lengths).into_iter().chain(rates(&rows)).chain(summary(&rows)).collect();
    Ok(report("Speed of the kernels", began.elapsed().as_secs_f64(), outcomes))
}

/// Every row that is asked for.
fn measured(options: &SpeedOptions, progress: &mut dyn Write) -> Result<Vec<Row>, LabError> {
    let unavailable = |error: SpeedError| LabError::Unavailable(error.to_string());
    let plan = Plan::new(options).map_err(unavailable)?;
    if !plan.is_empty() {
        let seconds = plan.estimate().as_secs_f64();
        writeln!(
            progress,
            "{} measurements, about {} s",
            plan.len(),
            crate::report::number::quantity(seconds)
        )?;
    }
    let mut rows = Vec::new();
    plan.run::<SpeedError>(&AtomicBool::new(false), |row| {
        rows.push(row);
        Ok(())
    })
    .map_err(unavailable)?;
    Ok(rows)
}

/// Lengths of a batch's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Length {
    /// All alike; rounded down to what the algorithm takes.
    Equal(usize),
    /// 64, 576 and 1500 bytes as 7 : 4 : 1, with a key for every message of a batch.
    Imix,
}

/// Where the messages are when they are needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheState {
    /// The same batch again and again: as near as it fits.
    #[default]
    Hot,
    /// Batches that take turns in half of the second-level cache.
    L2,
    /// Batches that take turns in four times the last-level cache: every message comes from memory.
    Out,
}

impl CacheState {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Hot, Self::L2, Self::Out];

    /// As on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::L2 => "l2",
            Self::Out => "out",
        }
    }
}

/// How long the sides of a cell are measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Both sides take turns in short slices, and the medians count.
    Slices {
        /// Of each side.
        seconds: f64,
    },
    /// Long runs, each warmed up, and their means count, with 90 % intervals.
    Runs {
        /// Of each side.
        count: usize,
        /// Before each run.
        warm_up_seconds: f64,
        /// Of each run.
        seconds: f64,
    },
}

impl Rule {
    /// Seconds for each side of a cell.
    pub fn side_seconds(self) -> f64 {
        match self {
            Self::Slices { seconds } => seconds.max(0.0),
            Self::Runs { count, warm_up_seconds, seconds } => count as f64 * (warm_up_seconds + seconds),
        }
    }
}

impl From<Profile> for Rule {
    /// The paper's rule is N25's, of Nahum et al.
    fn from(profile: Profile) -> Self {
        match (profile.run_seconds(), profile) {
            (Some((warm_up_seconds, seconds)), _) => {
                Self::Runs { count: profile.repetition().rounds, warm_up_seconds, seconds }
            }
            (None, Profile::Smoke) => Self::Slices { seconds: 0.001 },
            (None, Profile::Quick) => Self::Slices { seconds: 0.2 },
            (None, Profile::Full | Profile::Paper) => Self::Slices { seconds: 2.0 },
        }
    }
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct SpeedOptions {
    /// Algorithms in the order they are shown.
    pub algorithms: Vec<Algorithm>,
    /// Tiers; `None` leaves the choice to the dispatcher.
    pub tiers: Vec<Option<Tier>>,
    /// Instruction sets; `None` is the machine's best.
    pub isas: Vec<Option<Isa>>,
    /// Lengths of messages.
    pub lengths: Vec<Length>,
    /// Numbers of threads.
    pub lanes: Vec<usize>,
    /// Messages handed over together.
    pub batches: Vec<usize>,
    /// Ways that ciphers and AEADs run.
    pub directions: Vec<Direction>,
    /// Associations that the messages of a batch belong to in turn.
    pub keys: usize,
    /// Where messages come from.
    pub cache: CacheState,
    /// How long each side of each cell is measured.
    pub rule: Rule,
    /// Libraries to measure beside.
    pub peers: Vec<Peer>,
}

impl Default for SpeedOptions {
    fn default() -> Self {
        Self {
            algorithms: Vec::new(),
            tiers: vec![None],
            isas: vec![None],
            lengths: [64, 256, 1408, 16384].map(Length::Equal).to_vec(),
            lanes: vec![1],
            batches: vec![MANY],
            directions: vec![Direction::Encrypt],
            keys: 1,
            cache: CacheState::Hot,
            rule: Profile::Quick.into(),
            peers: Vec::new(),
        }
    }
}

impl SpeedOptions {
    /// Well-known algorithms, one short and one full packet alone and many, for an advice.
    pub fn well_known() -> Self {
        Self {
            algorithms: WELL_KNOWN.iter().filter_map(|name| name.parse().ok()).collect(),
            lengths: [64, 1408].map(Length::Equal).to_vec(),
            // A library that takes no batches is not slow for a program that has none.
            batches: vec![1, MANY],
            ..Self::default()
        }
    }
}

/// A plan that can be run once it is known to be possible.
#[derive(Debug)]
pub struct Plan {
    cells: Vec<plan::Cell>,
    rule: Rule,
}

impl Plan {
    /// Lays out every cell.
    ///
    /// # Errors
    /// A tier, instruction set, peer or amount of memory that cannot be had.
    pub fn new(options: &SpeedOptions) -> Result<Self, SpeedError> {
        Ok(Self { cells: plan::cells(options)?, rule: options.rule })
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Whether there is nothing to measure.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// About how long it takes: the slices, and what it takes to prepare and warm up.
    pub fn estimate(&self) -> Duration {
        const PREPARATION_SECONDS: f64 = 0.005;
        let sides: usize = self.cells.iter().map(|cell| 1 + usize::from(cell.peer.is_some())).sum();
        Duration::from_secs_f64(
            sides as f64 * self.rule.side_seconds() + self.cells.len() as f64 * PREPARATION_SECONDS,
        )
    }

    /// Measures cell by cell and tells each row as it comes. Stops between slices once `stop` is set, and says whether
    /// all was measured.
    ///
    /// # Errors
    /// A length that an algorithm does not take, a thread that the system refuses, or what `tell` returns.
    pub fn run<E: From<SpeedError>>(
        &self,
        stop: &AtomicBool,
        mut tell: impl FnMut(Row) -> Result<(), E>,
    ) -> Result<bool, E> {
        let ticks = ticks_per_ns();
        for cell in &self.cells {
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            let peer = cell.peer.map(peers::runner).transpose()?;
            let task = cell.task();
            let found = clock::alternate(&cell.kernels, peer.as_deref(), &task, cell.lanes, self.rule, stop)?;
            let Some((own, theirs)) = found else { return Ok(false) };
            let bytes = cell.bytes();
            let row = Row {
                algorithm: cell.algorithm.to_string(),
                mode: row::mode(cell.algorithm),
                direction: row::direction(cell.algorithm, cell.direction),
                tier: cell.tier.name(),
                isa: cell.isa.name(),
                bytes,
                lanes: cell.lanes,
                batch: cell.batch,
                mb_per_s: own.mb_per_s,
                ns_per_message: own.ns_per_message,
                cycles_per_byte: ticks.map(|ticks| own.ns_per_message * ticks / bytes as f64),
                peer: cell.peer.map(Peer::name),
                peer_mb_per_s: theirs.map(|theirs| theirs.mb_per_s),
                ratio: theirs.map(|theirs| own.mb_per_s / theirs.mb_per_s),
                mb_per_s_interval: own.interval.map(|interval| [interval.low, interval.high]),
                is_ragged: cell.length == Length::Imix,
            };
            tell(row)?;
        }
        Ok(true)
    }
}
