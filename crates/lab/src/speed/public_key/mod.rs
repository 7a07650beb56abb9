//! Measures public-key operations: every step of an algorithm, alone and side by side, beside competing libraries.
//!
//! The plan is made before the first measurement and holds no cell twice. Guarantees: keys and inputs differ between
//! the operations of a batch and are made outside of the measured time; a tier is measured only if its answers are
//! those of AWS-LC; a row names the tier that ran, not the one that was asked for.

mod row;
mod samples;
mod tables;
pub(super) mod work;

pub use row::PublicKeyRow;
pub(crate) use samples::Samples;
pub(super) use tables::operations;
pub use tables::public_key_tables;

use super::{Peer, Rule, SpeedError, clock, peers};
use crate::experiment::Profile;
use sealane_transform::{ASYMMETRIC_WAYS, Asymmetric, Isa, Kernels, Tier};
use std::collections::HashSet;
use std::sync::atomic::AtomicBool;
use work::{Ours, StepTask};

/// The maximum number of operations at a time: each has a key of its own.
pub const OPERATIONS_MAX: usize = 1024;

/// The options of a measurement of public-key operations.
#[derive(Clone, Debug)]
pub struct PublicKeyOptions {
    /// Algorithms in the order of the rows.
    pub algorithms: Vec<Asymmetric>,
    /// Tiers; `None` leaves the choice to the dispatcher.
    pub tiers: Vec<Option<Tier>>,
    /// Instruction sets; `None` is the machine's best.
    pub isas: Vec<Option<Isa>>,
    /// Numbers of threads.
    pub lanes: Vec<usize>,
    /// Operations handed over together.
    pub batches: Vec<usize>,
    /// The duration of the measurement of each cell's sides.
    pub rule: Rule,
    /// Libraries to compare with.
    pub peers: Vec<Peer>,
}

impl Default for PublicKeyOptions {
    fn default() -> Self {
        Self {
            algorithms: Vec::new(),
            tiers: vec![None],
            isas: vec![None],
            lanes: vec![1],
            batches: vec![1, ASYMMETRIC_WAYS, 64],
            rule: Profile::Quick.into(),
            peers: Vec::new(),
        }
    }
}

/// A planned row.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    load: StepTask,
    ours: Ours,
    lanes: usize,
    pub(super) peer: Option<Peer>,
}

impl Cell {
    /// Measures the row. Returns `None` after `stop`.
    pub(super) fn measure(&self, rule: Rule, stop: &AtomicBool) -> Result<Option<PublicKeyRow>, SpeedError> {
        let load = self.load;
        let peer = self.peer.map(peers::runner_of_operations).transpose()?;
        let found = clock::alternate(&self.ours, peer.as_deref(), &load, self.lanes, rule, stop)?;
        let Some((own, theirs)) = found else { return Ok(None) };
        Ok(Some(PublicKeyRow {
            algorithm: load.algorithm.name(),
            step: load.name(),
            tier: self.ours.tier.name(),
            isa: self.ours.kernels.isa().name(),
            lanes: self.lanes,
            batch: load.batch,
            ops_per_s: own.messages_per_s,
            us_per_operation: own.ns_per_message / 1e3,
            peer: self.peer.map(Peer::name),
            peer_ops_per_s: theirs.map(|theirs| theirs.messages_per_s),
            ratio: theirs.map(|theirs| own.messages_per_s / theirs.messages_per_s),
            ops_per_s_interval: own.messages_interval.map(|interval| [interval.low, interval.high]),
        }))
    }
}

/// Returns all cells in the order of the rows, as [`super::Plan::of_operations`] asks for them.
pub(super) fn cells(options: &PublicKeyOptions) -> Result<Vec<Cell>, SpeedError> {
    let too_many = options.batches.iter().find(|batch| **batch > OPERATIONS_MAX);
    if let Some(&batch) = too_many.filter(|_| !options.algorithms.is_empty()) {
        return Err(SpeedError::TooManyOperations { batch, max: OPERATIONS_MAX });
    }
    options.peers.iter().try_for_each(|peer| peers::require(*peer))?;
    let mut cells = Vec::new();
    let mut seen = HashSet::new();
    for load in loads(options) {
        for &lanes in &options.lanes {
            for &isa in &options.isas {
                for &tier in &options.tiers {
                    let ours = Ours::new(Kernels::select(tier, isa)?, load);
                    if !seen.insert((load, lanes, ours.kernels.isa(), ours.tier)) {
                        continue;
                    }
                    let able = |peer: &&Peer| peers::has_step(**peer, load.algorithm, load.name());
                    let before = cells.len();
                    let cell = |peer| Cell { load, ours, lanes, peer };
                    cells.extend(options.peers.iter().filter(able).map(|&peer| cell(Some(peer))));
                    if cells.len() == before {
                        cells.push(cell(None));
                    }
                }
            }
        }
    }
    Ok(cells)
}

/// Returns every step of every algorithm with every number of operations at a time.
fn loads(options: &PublicKeyOptions) -> impl Iterator<Item = StepTask> {
    let steps = options.algorithms.iter().flat_map(|&algorithm| {
        (0..algorithm.steps().len()).map(move |step| StepTask { algorithm, step, batch: 1 })
    });
    steps.flat_map(|load| options.batches.iter().map(move |&batch| StepTask { batch, ..load }))
}

#[cfg(test)]
mod tests {
    use super::super::run::{self, Plan};
    use super::*;

    fn short(algorithms: &[Asymmetric]) -> PublicKeyOptions {
        PublicKeyOptions {
            algorithms: algorithms.to_vec(),
            rule: Rule::Slices { seconds: 0.001 },
            ..PublicKeyOptions::default()
        }
    }

    /// Every step has a row for every number at a time; a tier that is not there has the row of the one below.
    #[test]
    fn every_step_has_its_rows_once() {
        for algorithm in Asymmetric::ALL {
            let one = short(&[algorithm]);
            let steps = algorithm.steps().len();
            assert_eq!(Plan::of_operations(&one).unwrap().len(), 3 * steps, "{algorithm}");
            let tiers = [Tier::Generic, Tier::Native].map(Some).to_vec();
            let both = Plan::of_operations(&PublicKeyOptions { tiers, ..one }).unwrap();
            // AWS-LC's operation stands for tier generic where that has no code of ours.
            let tiers = if algorithm.name().starts_with("ml-dsa-") { 2 } else { 1 };
            assert_eq!(both.len(), 3 * steps * tiers, "{algorithm}");
        }
    }

    /// A peer that is not installed is left out.
    #[test]
    fn rates_are_measured_beside_every_peer() {
        let algorithm = Asymmetric::ALL.into_iter().find(|one| one.name() == "x25519").unwrap();
        let able = |peer: &Peer| peers::has_step(*peer, algorithm, "agree");
        let peers: Vec<Peer> = Peer::ALL.into_iter().filter(able).collect();
        let options = PublicKeyOptions {
            tiers: [Tier::Reference, Tier::Native, Tier::Batch].map(Some).to_vec(),
            batches: vec![1, 9],
            peers: peers.clone(),
            ..short(&[algorithm])
        };
        let rows = run::operations(&options, &mut std::io::sink()).unwrap();
        let found = |peer: &Peer| rows.iter().filter(|row| row.peer == Some(peer.name())).count();
        assert!(peers.contains(&Peer::AwsLc) && peers.iter().all(|peer| found(peer) >= 4), "{rows:?}");
        for row in rows {
            let peers_rate = row.peer_ops_per_s.unwrap();
            assert!((row.ratio.unwrap() - row.ops_per_s / peers_rate).abs() < 1e-9, "{row:?}");
            assert!((row.ops_per_s * row.us_per_operation / 1e6 - 1.0).abs() < 1e-6, "{row:?}");
            assert_eq!(row.algorithm, "x25519");
        }
    }

    #[test]
    fn too_many_operations_are_refused_before_keys_are_made() {
        let options = PublicKeyOptions { batches: vec![8, 4096], ..short(&Asymmetric::ALL) };
        let error = Plan::of_operations(&options).unwrap_err().to_string();
        assert!(error.contains("4096") && error.contains("1024"), "{error}");
    }
}
