//! Measures a signature for each packet (N3, N29): the packet's digest and a public-key operation, on one lane to all.
//!
//! No layer of the stack signs, so signatures are measured alone, and the model adds TCP/IP. Guarantees: keys differ
//! between the packets of a batch; digests are part of the time, keys are not; lanes share nothing.

use super::{Bench, Profile, Timing};
use crate::LabError;
use crate::experiment::{Cell, Coordinates, MEGABITS, Sample, at, derive};
use crate::load::Watch;
use crate::speed::public_key::Samples;
use sealane_transform::{Asymmetric, AsymmetricJob, Digest, DigestJob, DigestKey, Kernels};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// The id of these cells.
pub(super) const SIGNED: &str = "signed";
/// Packets per second.
pub(super) const PACKETS: &str = "packets_per_s";
/// The paper's algorithm, two of today, and one that quantum computers do not break.
pub(super) const SCHEMES: [&str; 4] = ["rsa-2048", "ecdsa-p256", "ed25519", "ml-dsa-65"];
/// The operations on a packet, with the steps of the catalogue that do it: RSA's own steps take encoded digests.
const STEPS: [(&str, [&str; 2]); 2] = [("sign", ["sign", "private"]), ("verify", ["verify", "public"])];
/// Bytes of an Ethernet packet, and of the paper's.
const PACKET_BYTES: [usize; 2] = [1500, 4096];

/// One cell: packets that are signed or verified.
#[derive(Clone, Copy, Debug)]
struct Unit {
    algorithm: Asymmetric,
    /// The operation on a packet.
    way: &'static str,
    /// The number of the step among the algorithm's.
    step: usize,
    bytes: usize,
    batch: usize,
    lanes: usize,
}

impl Unit {
    fn place(&self) -> Coordinates {
        let [bytes, batch, lanes] = [self.bytes, self.batch, self.lanes].map(|count| count.to_string());
        let scheme = self.algorithm.name();
        at([
            ("id", SIGNED),
            ("scheme", scheme),
            ("way", self.way),
            ("bytes", &bytes),
            ("batch", &batch),
            ("lanes", &lanes),
        ])
    }

    /// Returns the packets per second of all lanes, after a time of warming up.
    fn packets_per_s(&self, settle: Duration, slice: Duration) -> Result<f64, LabError> {
        let barrier = Barrier::new(self.lanes);
        let lane = || self.lane(&barrier, settle, slice);
        let counted: Option<Vec<(u64, Instant, Instant)>> = thread::scope(|scope| {
            let lanes: Vec<_> = (0..self.lanes).map(|_| scope.spawn(lane)).collect();
            lanes.into_iter().map(|lane| lane.join().ok()?).collect()
        });
        let failed = || LabError::Unavailable(format!("{} refused a packet", self.algorithm));
        let counted = counted.ok_or_else(failed)?;
        let packets: u64 = counted.iter().map(|lane| lane.0).sum();
        let start = counted.iter().map(|lane| lane.1).min();
        let end = counted.iter().map(|lane| lane.2).max();
        let time = start.zip(end).map_or(Duration::ZERO, |(start, end)| end - start);
        Ok(packets as f64 / time.as_secs_f64().max(1e-9))
    }

    /// Returns the packets of one lane, and the time in which it was at work; `None` if an operation was refused.
    fn lane(&self, barrier: &Barrier, settle: Duration, slice: Duration) -> Option<(u64, Instant, Instant)> {
        let kernels = Kernels::best();
        let key = DigestKey::new(Digest::Sha256, &[]).ok();
        let packets = vec![vec![0x5a; self.bytes]; self.batch];
        let mut digests: Vec<DigestJob<'_>> =
            packets.iter().filter_map(|packet| Some(DigestJob::new(key.as_ref()?, packet))).collect();
        let mut samples = Samples::take(self.algorithm, self.step, self.batch);
        // Operations have digests of their own, of the same length: the packets' would take the same time.
        let mut sign = || {
            let refused = kernels.digest(Digest::Sha256, &mut digests);
            samples.jobs.iter_mut().for_each(AsymmetricJob::reset);
            refused + kernels.asymmetric(&mut samples.jobs)
        };
        let mut refused = sign();
        // Every lane waits, whatever it has found.
        barrier.wait();
        let mut run = |time: Duration| {
            let start = Instant::now();
            for batches in 1.. {
                refused += sign();
                let end = Instant::now();
                if end - start >= time {
                    return (batches * self.batch as u64, start, end);
                }
            }
            (0, start, start)
        };
        run(settle);
        let counted = run(slice);
        (refused == 0).then_some(counted)
    }
}

/// Measures signatures and verifications for each packet by every scheme of the catalogue.
///
/// # Errors
/// Fails if the lab's schedule is interrupted.
pub(super) fn measure(bench: &mut Bench<'_>) -> Result<Vec<Cell>, LabError> {
    // The largest number takes as many keys on every lane.
    let batches: &[usize] = if bench.request.profile == Profile::Smoke { &[1, 8] } else { &[1, 8, 64] };
    let schemes = SCHEMES.iter().filter_map(|name| name.parse::<Asymmetric>().ok());
    let steps = schemes.flat_map(|algorithm| {
        STEPS.iter().filter_map(move |(way, names)| {
            let step = algorithm.steps().iter().position(|step| names.contains(&step.name))?;
            Some((algorithm, *way, step))
        })
    });
    let mut units = Vec::new();
    for (algorithm, way, step) in steps {
        for bytes in PACKET_BYTES {
            for &batch in batches {
                for &lanes in &bench.lanes {
                    units.push(Unit { algorithm, way, step, bytes, batch, lanes });
                }
            }
        }
    }
    if units.is_empty() {
        return Ok(Vec::new());
    }
    let Timing { settle, slice } = bench.timing;
    let sample = |cell: usize| {
        let unit: &Unit = &units[cell];
        let watch = Watch::begin();
        let packets_per_s = unit.packets_per_s(settle, slice)?;
        let is_disturbed = watch.is_disturbed(0.0);
        let megabits = packets_per_s * unit.bytes as f64 * 8.0 / 1e6;
        Ok(Sample::of([(PACKETS, packets_per_s), (MEGABITS, megabits)], is_disturbed))
    };
    let places = units.iter().map(Unit::place).collect();
    let mut cells = bench.cells_by(SIGNED.to_owned(), places, sample)?;
    derive::over_first(&mut cells, "lanes", "1", PACKETS, "times");
    Ok(cells)
}

/// Returns the nanoseconds of one lane for a signature on each packet of 4 KB, for every scheme that was measured, with
/// the number at a time.
pub(super) fn signature_ns(cells: &[Cell]) -> Vec<(String, f64)> {
    let is_it = |cell: &&Cell| {
        let has = |axis: &str, value: &str| cell.at.get(axis).is_some_and(|own| own == value);
        has("id", SIGNED) && has("way", "sign") && has("bytes", "4096") && has("lanes", "1")
    };
    let named = |cell: &Cell| {
        let (scheme, batch) = (&cell.at["scheme"], &cell.at["batch"]);
        Some((format!("{scheme}×{batch}"), 1e9 / cell.figure(PACKETS)?))
    };
    cells
        .iter()
        .filter(is_it)
        .filter(|cell| ["1", "8"].contains(&&*cell.at["batch"]))
        .filter_map(named)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any step serves to try the measurement.
    #[test]
    fn packets_of_all_lanes_are_counted() {
        let algorithm: Asymmetric = "x25519".parse().unwrap();
        let unit = Unit { algorithm, way: "sign", step: 0, bytes: 1500, batch: 3, lanes: 2 };
        let rate = unit.packets_per_s(Duration::ZERO, Duration::from_millis(2)).unwrap();
        assert!(rate > 100.0, "{rate}");
        assert_eq!((&*unit.place()["lanes"], &*unit.place()["batch"]), ("2", "3"));
    }

    #[test]
    fn the_model_gets_the_time_of_signing_a_long_packet_on_one_lane() {
        let place = |way: &str, bytes: &str, batch: &str, lanes: &str| {
            let place = [("id", SIGNED), ("scheme", "s"), ("way", way), ("bytes", bytes)];
            Cell::new(place.into_iter().chain([("batch", batch), ("lanes", lanes)])).with(PACKETS, 1e4)
        };
        let cells = [
            place("sign", "4096", "1", "1"),
            place("sign", "4096", "8", "2"),
            place("sign", "1500", "8", "1"),
            place("verify", "4096", "8", "1"),
            place("sign", "4096", "64", "1"),
        ];
        assert_eq!(signature_ns(&cells), [("s×1".to_owned(), 1e5)]);
    }
}
