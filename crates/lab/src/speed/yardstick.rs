//! ATOMIC-2's yardstick (A3): what UDP carries from one program to another here, beside what MD5 digests.
//!
//! Guarantees: only received bytes count; both figures have an interval over slices of their own, taken one after the
//! other; nothing leaves the loopback device.

use super::Row;
use crate::LabError;
use crate::experiment::{
    Cell, Claim, Experiment, Measure, Outcome, RATE, RESAMPLING_SEED, Role, Runs, Value, View, at, derive,
};
use crate::report::number::ratio;
use crate::stats::{CONFIDENCE, median, median_interval};
use crate::studies::ATOMIC_TITLE;
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// The payload of a datagram in an Ethernet frame, and the length of the digested messages.
pub(super) const BYTES: usize = 1472;
/// Slices of the clock.
const SLICES: usize = 11;
/// The receiver looks up this often whether the end has come.
const PATIENCE: Duration = Duration::from_millis(50);

/// Mb/s of UDP and of MD5 on a SPARC-10/51 and a SPARC-20/71.
const PAPERS: [(&str, f64, f64); 2] = [("SPARC-10/51", 100.0, 37.0), ("SPARC-20/71", 120.0, 57.0)];
/// The paper's sentence: MD5 is a third to a half of what is needed; a tenth is what the lab calls alike.
const NEEDED: [f64; 2] = [1.0 / 3.0 * 0.9, 1.0 / 2.0 * 1.1];

const HERE: &str = "this machine";

/// Returns MB/s of datagrams that one thread sends to another, with the interval over slices of `seconds` in all.
fn udp(seconds: f64) -> std::io::Result<Value> {
    let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    receiver.set_read_timeout(Some(PATIENCE))?;
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    sender.connect(receiver.local_addr()?)?;
    let (received, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let rates: Vec<f64> = thread::scope(|scope| {
        scope.spawn(|| {
            let mut buffer = [0; BYTES];
            while !is_over.load(Relaxed) {
                if let Ok(bytes) = receiver.recv(&mut buffer) {
                    received.fetch_add(bytes as u64, Relaxed);
                }
            }
        });
        scope.spawn(|| {
            let datagram = [7; BYTES];
            while !is_over.load(Relaxed) {
                // A datagram that finds no room is lost, and lost ones are not counted.
                let _ = sender.send(&datagram);
            }
        });
        let slice = Duration::from_secs_f64(seconds / SLICES as f64);
        thread::sleep(slice);
        let rates = (0..SLICES).map(|_| {
            let (start, before) = (Instant::now(), received.load(Relaxed));
            thread::sleep(slice);
            (received.load(Relaxed) - before) as f64 / start.elapsed().as_secs_f64() / 1e6
        });
        let rates = rates.collect();
        is_over.store(true, Relaxed);
        rates
    });
    let value = median(&rates).unwrap_or(0.0);
    Ok(match median_interval(&rates, CONFIDENCE, RESAMPLING_SEED) {
        Some(interval) => Value::Range { value, low: interval.low, high: interval.high },
        None => Value::Number(value),
    })
}

/// Returns the rates side by side, from the row of MD5 and a measurement of UDP that takes `seconds`.
pub(super) fn outcome(md5: &Row, seconds: f64) -> Result<Outcome, LabError> {
    let udp = udp(seconds).map_err(LabError::file("cannot send datagrams on", "127.0.0.1"))?;
    Ok(beside(udp, md5.rate(), md5.runs))
}

fn beside(udp: Value, md5: Value, runs: Runs) -> Outcome {
    let part = derive::ratio(&md5, &udp);
    let ours = part.as_ref().and_then(Value::number).map_or_else(|| "unknown".to_owned(), ratio);
    let [least, most] = PAPERS.map(|(_, udp, md5)| ratio(md5 / udp));
    let statement = format!(
        "MD5 is a third to a half of what UDP carries: {least} and {most} on the paper's two machines, here {ours}; within a \
         tenth, because the paper rounds."
    );
    let [low, high] = NEEDED;
    let claim = Claim::bound((statement, "A3"), "part", at([("machine", HERE)]), (Some(low), Some(high)));
    let cells = PAPERS
        .map(|(name, udp, md5)| {
            Cell::new([("machine", name)])
                .with(RATE, udp / 8.0)
                .with("md5", md5 / 8.0)
                .with("part", md5 / udp)
                .of_role(Role::Published)
        })
        .into_iter()
        .chain([Cell::new([("machine", HERE)])
            .behind(runs)
            .with(RATE, udp)
            .with("md5", md5)
            .with_some("part", part)])
        .collect();
    let measures = vec![
        Measure::rate(RATE, "UDP, MB/s"),
        Measure::rate("md5", "MD5, MB/s"),
        Measure::times("part", "MD5 over UDP"),
    ];
    let experiment =
        Experiment::new("yardstick", "A3", "What UDP carries, and what MD5 digests", &["machine"], measures);
    let experiment = experiment.of(ATOMIC_TITLE).claiming(vec![claim]).notes(&[
        "Datagrams of 1472 bytes from one thread to another through the loopback device, a system call each, and MD5 of messages \
         of that length, one at a time, on one core. The paper's machines sent to each other through a network.",
    ]);
    Outcome::new(experiment.shown(View::Cells, Vec::new()), cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Verdict;

    #[test]
    fn datagrams_arrive_and_the_claim_can_fail() {
        let Value::Range { value, low, high } = udp(0.2).unwrap() else { panic!("no interval") };
        assert!(0.0 < value && low <= value && value <= high);
        let verdict = |part: f64| {
            beside(Value::exact(100.0), Value::exact(100.0 * part), Runs::default()).claims[0].verdict
        };
        assert_eq!(
            [0.4, 0.9, 0.1].map(verdict),
            [Verdict::Holds, Verdict::DoesNotHold, Verdict::DoesNotHold]
        );
    }
}
