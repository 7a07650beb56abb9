//! Measures the cost of the catalogue's kernels on this machine, beside competing libraries.
//!
//! A grid of algorithms, tiers, lengths, lanes and batches; each cell is one [`Row`]. Our kernel and the peer's
//! alternate in short slices of one run, and the medians count, so a ratio is valid however noisy the machine is.
//! Nothing here chooses a kernel: every row names the tier and instruction set that ran.

mod advice;
mod clock;
mod double_boxes;
mod error;
mod fit;
mod ours;
mod peer;
mod peers;
mod plan;
pub(crate) mod public_key;
mod row;
mod run;
mod sizes;
mod story;
mod tables;
pub mod trial;
mod tsc;
pub(crate) mod usage;
mod work;
mod yardstick;

pub use advice::advice;
pub use error::SpeedError;
pub use peer::Peer;
pub use plan::MEMORY_BYTES_MAX;
pub use public_key::{OPERATIONS_MAX, PublicKeyOptions, PublicKeyRow, public_key_tables};
pub use row::Row;
pub use run::{Line, Plan};
pub use story::PARTS;
pub use tables::{rates, summary};
pub use tsc::ticks_per_ns;

use crate::LabError;
use crate::experiment::{Outcome, Profile};
use crate::report::Report;
use crate::request::Request;
use crate::studies::{ATOMIC, Cost, Family, NDSS, NPCRYPTBENCH, OWN, Study, cost, study};
use sealane_transform::{Algorithm, Direction, Isa, Tier};
use std::io::Write;
use std::time::Instant;

/// The families of `sealane speed`, and of the papers' tables of kernels.
pub(crate) const FAMILIES: &[Family] = &[
    Family {
        command: "speed --story",
        needs: "one processor",
        parts: &PARTS,
        costs: COSTS,
        studies: STORIES,
        run: story::run,
    },
    Family {
        command: "speed",
        needs: "one processor",
        parts: &[],
        costs: &[cost(&[], 20)],
        studies: &[study(
            KERNELS,
            OWN,
            "what to use on this machine: AEADs, hashes and MACs, one message and many",
            &[],
        )],
        run,
    },
];

const COSTS: &[Cost] = &[
    cost(&["ladder", "flows", "batches", "blocks", "shared-message"], 45),
    cost(&["tables"], 1),
    cost(&["mix"], 1),
    cost(&["caches"], 15),
    cost(&["yardstick"], 1),
    cost(&["public-key"], 60),
    cost(&["double-s-boxes"], 1),
];

/// The id of the study of today's algorithms.
const KERNELS: &str = "kernels";

const STORIES: &[Study] = &[
    study(
        "B13",
        NPCRYPTBENCH,
        "Table IV: bytes of tables in near and in far memory, beside ours",
        &["tables"],
    ),
    study(
        "B22",
        NPCRYPTBENCH,
        "levels 1 to 3 on this processor; flows, messages and blocks at once (also B24)",
        &["ladder", "flows", "batches", "blocks", "shared-message"],
    ),
    study("B8", NPCRYPTBENCH, "Table II: tables and working sets beside the paper's", &["tables"]),
    study("B17", NPCRYPTBENCH, "instruction mix of ciphers beside kernels of packet processing", &["mix"]),
    study(
        "public-key",
        OWN,
        "public-key operations by tier, NPCryptBench's future work (B26)",
        &["public-key"],
    ),
    study("N17", NDSS, "DES by tables of two S-boxes, as the stacks had it, and of one", &["double-s-boxes"]),
    study("A2", ATOMIC, "MD5 and others from the caches and from memory", &["caches"]),
    study("A3", ATOMIC, "MD5 beside what UDP carries", &["yardstick"]),
    study("A9", ATOMIC, "the alternate hash beside MD5", &["caches"]),
];

/// The summary on the page of `sealane speed`.
const SUMMARY: &str = "Ciphers, digests, MACs and public-key operations in tiers, in the memory of one process. Kernels that stand side by side \
    took turns in short slices of one run; medians count.";

/// The algorithms that are measured if none is named.
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

/// Messages of a batch that is large enough for all ways of every kernel.
pub const MANY: usize = 512;

/// Returns outcomes as a report.
pub fn report(title: &str, seconds: f64, outcomes: Vec<Outcome>) -> Report {
    Report { seconds, ..Report::new("sealane speed", title, SUMMARY, outcomes) }
}

/// Advice on algorithms for this machine.
fn run(request: &Request, progress: &mut dyn Write) -> Result<Report, LabError> {
    let began = Instant::now();
    let options = SpeedOptions { rule: request.profile.into(), ..SpeedOptions::well_known() };
    let rows = run::messages(&options, progress)?;
    let mut outcomes: Vec<Outcome> =
        advice(&rows, &options.lengths).into_iter().chain(rates(&rows)).chain(summary(&rows)).collect();
    outcomes.iter_mut().for_each(|outcome| KERNELS.clone_into(&mut outcome.experiment.covers));
    Ok(report("Speed of the kernels", began.elapsed().as_secs_f64(), outcomes))
}

/// Lengths of a batch's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Length {
    /// All messages have this length, rounded down to one that the algorithm accepts.
    Equal(usize),
    /// 64, 576 and 1500 bytes as 7 : 4 : 1, with a key for every message of a batch.
    Imix,
}

/// The location of messages when they are needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheState {
    /// The same batch is used repeatedly, so it is as near as its size allows.
    #[default]
    Hot,
    /// Batches take turns in half of the second-level cache.
    L2,
    /// Batches take turns in four times the last-level cache, so every message comes from memory.
    Out,
}

impl CacheState {
    /// All states.
    pub const ALL: [Self; 3] = [Self::Hot, Self::L2, Self::Out];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hot => "hot",
            Self::L2 => "l2",
            Self::Out => "out",
        }
    }
}

/// The duration of the measurement of a cell's sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    /// Both sides take turns in short slices, and the medians count.
    Slices {
        /// Seconds of each side.
        seconds: f64,
    },
    /// Long runs, each warmed up, whose means count, with 90 % intervals.
    Runs {
        /// Runs of each side.
        count: usize,
        /// Seconds before each run.
        warm_up_seconds: f64,
        /// Seconds of each run.
        seconds: f64,
    },
}

impl Rule {
    /// Returns the seconds for each side of a cell.
    pub fn side_seconds(self) -> f64 {
        match self {
            Self::Slices { seconds } => seconds.max(0.0),
            Self::Runs { count, warm_up_seconds, seconds } => count as f64 * (warm_up_seconds + seconds),
        }
    }
}

impl From<Profile> for Rule {
    /// The paper's rule is N25 of Nahum et al.
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

/// The options of a measurement.
#[derive(Clone, Debug)]
pub struct SpeedOptions {
    /// Algorithms in the order of the rows.
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
    /// The directions of ciphers and AEADs.
    pub directions: Vec<Direction>,
    /// Associations to which the messages of a batch belong in turn.
    pub keys: usize,
    /// The location of messages.
    pub cache: CacheState,
    /// The duration of the measurement of each cell's sides.
    pub rule: Rule,
    /// Libraries to compare with.
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
    /// Returns the options for an advice: well-known algorithms, one short and one full packet alone and many.
    pub fn well_known() -> Self {
        Self {
            algorithms: WELL_KNOWN.iter().filter_map(|name| name.parse().ok()).collect(),
            lengths: [64, 1408].map(Length::Equal).to_vec(),
            // A library without batches is not slow for a program that has none.
            batches: vec![1, MANY],
            ..Self::default()
        }
    }
}
