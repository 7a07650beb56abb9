//! The cells of a measurement, and its duration.
//!
//! Guarantees: the plan is made before the first measurement, so that a request that cannot be met fails at once; it
//! holds no cell twice; and no cell uses more memory than [`MEMORY_BYTES_MAX`].

use super::work::{self, Task};
use super::{CacheState, Length, Peer, Row, Rule, SpeedError, SpeedOptions, clock, ours, peers, row};
use sealane_transform::{Algorithm, Direction, Isa, Kernels, Tier};
use std::collections::HashSet;
use std::fs;
use std::sync::atomic::AtomicBool;

/// The maximum memory for messages.
pub const MEMORY_BYTES_MAX: usize = 2 << 30;

/// The IMIX: 7 of 64 bytes, 4 of 576 and 1 of 1500, distributed over the dozen as evenly as possible.
const IMIX: [usize; 12] = [64, 576, 64, 64, 576, 64, 1500, 64, 576, 64, 64, 576];

/// A planned row.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) algorithm: Algorithm,
    pub(super) direction: Direction,
    pub(super) kernels: Kernels,
    pub(super) tier: Tier,
    pub(super) isa: Isa,
    pub(super) length: Length,
    pub(super) lanes: usize,
    pub(super) batch: usize,
    pub(super) peer: Option<Peer>,
    /// Lengths of a batch's messages, repeated if the messages must exceed the cache.
    pub(super) lengths: Vec<usize>,
    pub(super) keys: usize,
}

impl Cell {
    pub(super) fn task(&self) -> Task {
        Task {
            algorithm: self.algorithm,
            direction: self.direction,
            lengths: self.lengths.clone(),
            batch: self.batch,
            keys: self.keys,
            seed: 0x5ea1,
        }
    }

    /// Measures the row, with the time stamp counter's `ticks` per nanosecond. Returns `None` after `stop`.
    pub(super) fn measure(
        &self,
        rule: Rule,
        ticks: Option<f64>,
        stop: &AtomicBool,
    ) -> Result<Option<Row>, SpeedError> {
        let peer = self.peer.map(peers::runner).transpose()?;
        let task = self.task();
        let found = clock::alternate(&self.kernels, peer.as_deref(), &task, self.lanes, rule, stop)?;
        let Some((own, theirs)) = found else { return Ok(None) };
        let bytes = self.bytes();
        Ok(Some(Row {
            algorithm: self.algorithm.to_string(),
            mode: row::mode(self.algorithm),
            direction: row::direction(self.algorithm, self.direction),
            tier: self.tier.name(),
            isa: self.isa.name(),
            bytes,
            lanes: self.lanes,
            batch: self.batch,
            mb_per_s: own.mb_per_s,
            ns_per_message: own.ns_per_message,
            cycles_per_byte: ticks.map(|ticks| own.ns_per_message * ticks / bytes as f64),
            peer: self.peer.map(Peer::name),
            peer_mb_per_s: theirs.map(|theirs| theirs.mb_per_s),
            ratio: theirs.map(|theirs| own.mb_per_s / theirs.mb_per_s),
            mb_per_s_interval: own.interval.map(|interval| [interval.low, interval.high]),
            is_ragged: self.length == Length::Imix,
            spread: own.spread.map(|spread| [spread.low, spread.high]),
            runs: theirs.map_or(own.runs, |theirs| own.runs + theirs.runs),
        }))
    }

    /// Returns the mean length.
    pub(super) fn bytes(&self) -> usize {
        let total: usize = self.lengths.iter().sum();
        (total + self.lengths.len() / 2) / self.lengths.len().max(1)
    }
}

/// Returns all cells in the order of the rows.
pub(super) fn cells(options: &SpeedOptions) -> Result<Vec<Cell>, SpeedError> {
    for &peer in &options.peers {
        peers::require(peer)?;
    }
    let mut cells = Vec::new();
    let mut seen = HashSet::new();
    for &algorithm in &options.algorithms {
        for &direction in directions(options, algorithm) {
            for &lanes in &options.lanes {
                for &batch in &options.batches {
                    for &isa in &options.isas {
                        for &tier in &options.tiers {
                            let kernels = Kernels::select(tier, isa)?;
                            let runs = ours::tier(&kernels, algorithm, direction, batch);
                            // A tier without a kernel of its own runs the one below, which may be present already.
                            if !seen.insert((algorithm, direction, lanes, batch, kernels.isa(), runs)) {
                                continue;
                            }
                            for &length in &options.lengths {
                                add(options, &mut cells, |peer| {
                                    let length = length.fitting(algorithm);
                                    let lengths = lengths(options, algorithm, length, lanes, batch)?;
                                    let keys = match length {
                                        Length::Equal(_) => options.keys,
                                        Length::Imix => batch,
                                    };
                                    Ok(Cell {
                                        algorithm,
                                        direction,
                                        kernels,
                                        tier: runs,
                                        isa: kernels.isa(),
                                        length,
                                        lanes,
                                        batch,
                                        peer,
                                        lengths,
                                        keys,
                                    })
                                })?;
                            }
                        }
                    }
                }
            }
        }
    }
    Ok(cells)
}

/// Adds a cell for each peer that has the algorithm, or one cell alone.
fn add(
    options: &SpeedOptions,
    cells: &mut Vec<Cell>,
    cell: impl Fn(Option<Peer>) -> Result<Cell, SpeedError>,
) -> Result<(), SpeedError> {
    let alone = cell(None)?;
    let able = |peer: &&Peer| peers::has(**peer, alone.algorithm);
    let before = cells.len();
    for &peer in options.peers.iter().filter(able) {
        cells.push(cell(Some(peer))?);
    }
    if cells.len() == before {
        cells.push(alone);
    }
    Ok(())
}

fn directions(options: &SpeedOptions, algorithm: Algorithm) -> &[Direction] {
    match algorithm {
        Algorithm::Digest(_) | Algorithm::Gmac(_) => &[Direction::Encrypt],
        Algorithm::Cipher(_) | Algorithm::Aead(_) => &options.directions,
    }
}

/// Returns the lengths of one batch, or of as many batches as exceed the cache.
fn lengths(
    options: &SpeedOptions,
    algorithm: Algorithm,
    length: Length,
    lanes: usize,
    batch: usize,
) -> Result<Vec<usize>, SpeedError> {
    let one = |index: usize| match length {
        Length::Equal(bytes) => bytes,
        Length::Imix => row::fitting(algorithm, IMIX[index % IMIX.len()]),
    };
    let mut lengths: Vec<usize> = (0..batch).map(one).collect();
    let batch_bytes = work::memory_bytes(&lengths).max(1);
    let wanted = match options.cache {
        CacheState::Hot => 0,
        // The other half of the cache holds keys, jobs and other data.
        CacheState::L2 => cache_bytes(2).unwrap_or(1 << 20) / 2,
        CacheState::Out => (cache_bytes(3).unwrap_or(32 << 20) * 4).clamp(64 << 20, 512 << 20) / lanes,
    };
    let times = (wanted / batch_bytes).max(1);
    // Opening needs the sealed message beside the result.
    let copies = if matches!(algorithm, Algorithm::Aead(_)) { 2 } else { 1 };
    let sides = copies * (1 + options.peers.len().min(1));
    let needed_bytes = batch_bytes.saturating_mul(times).saturating_mul(lanes).saturating_mul(sides);
    if needed_bytes > MEMORY_BYTES_MAX {
        return Err(SpeedError::TooMuchMemory { needed_bytes, max_bytes: MEMORY_BYTES_MAX });
    }
    lengths = lengths.repeat(times);
    Ok(lengths)
}

/// Returns the size of the first CPU's data cache of this level, as reported by the kernel.
pub(super) fn cache_bytes(level: u32) -> Option<usize> {
    (0..8).find_map(|index| {
        let read = |name: &str| {
            fs::read_to_string(format!("/sys/devices/system/cpu/cpu0/cache/index{index}/{name}")).ok()
        };
        let is_it = read("level")?.trim() == level.to_string() && read("type")?.trim() != "Instruction";
        let size = read("size").filter(|_| is_it)?;
        let kib: usize = size.trim().strip_suffix('K')?.parse().ok()?;
        kib.checked_mul(1024)
    })
}

impl Length {
    fn fitting(self, algorithm: Algorithm) -> Self {
        match self {
            Self::Equal(bytes) => Self::Equal(row::fitting(algorithm, bytes)),
            Self::Imix => Self::Imix,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(names: &[&str]) -> SpeedOptions {
        SpeedOptions {
            algorithms: names.iter().map(|name| name.parse().unwrap()).collect(),
            tiers: Tier::ALL.into_iter().map(Some).collect(),
            isas: vec![Some(Isa::Portable)],
            ..SpeedOptions::default()
        }
    }

    #[test]
    fn imix_is_seven_four_one() {
        let count = |bytes| IMIX.iter().filter(|&&length| length == bytes).count();
        assert_eq!((count(64), count(576), count(1500)), (7, 4, 1));
    }

    #[test]
    fn no_tier_is_measured_twice_under_two_names() {
        let cells = cells(&SpeedOptions { lengths: vec![Length::Equal(64)], ..options(&["md5", "des-cbc"]) });
        let found: Vec<(String, Tier)> =
            cells.unwrap().iter().map(|cell| (cell.algorithm.to_string(), cell.tier)).collect();
        let of = |name: &str| -> Vec<Tier> {
            found.iter().filter(|(found, _)| found == name).map(|(_, tier)| *tier).collect()
        };
        assert_eq!(of("md5"), [Tier::Reference, Tier::Generic]);
        assert_eq!(of("des-cbc"), [Tier::Reference, Tier::Generic, Tier::Batch]);
    }

    #[test]
    fn imix_lengths_fit_the_mode_and_have_a_key_each() {
        let options =
            SpeedOptions { lengths: vec![Length::Imix], batches: vec![24], ..options(&["aes-128-cbc"]) };
        let cells = cells(&options).unwrap();
        assert_eq!((cells[0].lengths.len(), cells[0].keys, cells[0].bytes()), (24, 24, 353));
        assert!(cells[0].lengths.iter().all(|bytes| bytes % 16 == 0));
    }

    #[test]
    fn too_much_memory_is_refused_before_anything_runs() {
        let huge = SpeedOptions { lengths: vec![Length::Equal(1 << 30)], ..options(&["md5"]) };
        assert!(matches!(cells(&huge), Err(SpeedError::TooMuchMemory { .. })));
    }
}
