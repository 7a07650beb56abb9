//! Whether comparing a file with the receiver's version takes less time than sending it.
//!
//! Comparing takes the time in which both ends cut and hash; it spares the time in which the line takes what both have. The rate of
//! the line is what the receiver acknowledged while the first file was sent that could be compared; that of hashing is
//! measured here, and taken to be the same at the other end; how much both have in common is what was found so far in this transfer,
//! and half at first.
//!
//! Guarantees: a line is measured once, within about a second; only the caller's clock is used, except for the rate of hashing.

use std::{
    sync::{
        Mutex, MutexGuard, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use sealane_delta::{Cut, Key, pieces};

/// Shorter files are sent as a whole.
pub(super) const BYTES_MIN: u64 = 256 << 10;
/// The content after which a line that takes it in less than [`TRIAL`] is measured.
const TRIAL_BYTES: u64 = 32 << 20;
/// The time after which a line is measured.
const TRIAL: Duration = Duration::from_secs(1);
/// The content that is taken to be compared before any is, half of it found.
const PRIOR_BYTES: u64 = 128 << 20;
/// The bytes by which hashing is measured.
const MEASURED_BYTES: usize = 2 << 20;
/// Both ends hash.
const ENDS: f64 = 2.0;

/// The rate of the line, as far as it is known.
#[derive(Debug, Default)]
pub(super) struct Line {
    /// Whether the rate is being measured.
    is_tried: AtomicBool,
    trial: Mutex<Option<Trial>>,
    /// Bytes in a second.
    rate: OnceLock<f64>,
    hashing: OnceLock<f64>,
    compared_bytes: AtomicU64,
    matched_bytes: AtomicU64,
}

#[derive(Debug)]
struct Trial {
    /// The time of the first arrival, which is not counted: streams had to be opened before.
    begun: Option<Instant>,
    bytes: u64,
}

impl Line {
    /// Returns a line of which nothing is known, unless it is limited to a rate.
    pub(super) fn new(limit_rate: Option<u64>) -> Self {
        let line = Self::default();
        if let Some(limit) = limit_rate {
            let _ = line.rate.set(limit as f64);
        }
        line
    }

    fn trial(&self) -> MutexGuard<'_, Option<Trial>> {
        self.trial.lock().expect("no thread panics holding a trial")
    }

    /// Returns whether the rate is known.
    pub(super) fn is_known(&self) -> bool {
        self.rate.get().is_some()
    }

    /// From now on what arrives is counted.
    pub(super) fn try_out(&self) {
        self.trial().get_or_insert(Trial { begun: None, bytes: 0 });
        self.is_tried.store(true, Relaxed);
    }

    /// Counts content that has arrived. Returns true once, when the rate becomes known by it.
    pub(super) fn arrived(&self, bytes: u64, now: Instant) -> bool {
        if bytes == 0 || !self.is_tried.load(Relaxed) {
            return false;
        }
        let mut trial = self.trial();
        let Some(running) = trial.as_mut() else { return false };
        let Some(begun) = running.begun else {
            running.begun = Some(now);
            return false;
        };
        running.bytes += bytes;
        let elapsed = now.saturating_duration_since(begun);
        if elapsed < TRIAL && running.bytes < TRIAL_BYTES {
            return false;
        }
        let rate = running.bytes as f64 / elapsed.as_secs_f64().max(1e-6);
        *trial = None;
        self.is_tried.store(false, Relaxed);
        self.rate.set(rate).is_ok()
    }

    /// Counts content that was compared, and how much of it was found.
    pub(super) fn compared(&self, bytes: u64, matched: u64) {
        self.compared_bytes.fetch_add(bytes, Relaxed);
        self.matched_bytes.fetch_add(matched, Relaxed);
    }

    /// Returns whether comparing is worth it, with this many threads at each end; false if nothing is known of the line.
    pub(super) fn is_slow(&self, threads: usize) -> bool {
        let Some(rate) = self.rate.get() else { return false };
        let hashing = *self.hashing.get_or_init(hashing_rate) * threads as f64;
        let (compared, matched) = (self.compared_bytes.load(Relaxed), self.matched_bytes.load(Relaxed));
        is_worth_it(*rate, hashing, (compared, matched))
    }

    /// A line and a processor of these rates.
    #[cfg(test)]
    fn known(rate: f64, hashing: f64) -> Self {
        Self { rate: rate.into(), hashing: hashing.into(), ..Self::default() }
    }
}

/// Returns whether the line takes longer for what both ends are likely to have than they take to find it.
fn is_worth_it(rate: f64, hashing: f64, (compared, matched): (u64, u64)) -> bool {
    let share = (matched + PRIOR_BYTES / 2) as f64 / (compared + PRIOR_BYTES) as f64;
    share / rate > ENDS / hashing
}

/// Returns the bytes that one thread cuts and hashes in a second.
fn hashing_rate() -> f64 {
    let mut content = vec![0; MEASURED_BYTES];
    blake3::Hasher::new().finalize_xof().fill(&mut content);
    let begun = Instant::now();
    let fill = |at: u64, room: &mut [u8]| {
        room.copy_from_slice(&content[at as usize..][..room.len()]);
        Ok::<(), ()>(())
    };
    let cut = (Cut::Content(sealane_delta::mean_log2(0)), 0);
    let mut count = 0;
    let done =
        pieces(0..content.len() as u64, cut, &Key::new(&[0; 32]), &mut Vec::new(), fill, |_| count += 1);
    assert!(done.is_ok() && count > 0, "memory is read");
    MEASURED_BYTES as f64 / begun.elapsed().as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_lines_compare_and_fast_ones_do_not() {
        let hashing = 1e9;
        for (rate, expected) in [(12.5e6, true), (125e6, true), (600e6, false), (1.25e9, false)] {
            assert_eq!(Line::known(rate, hashing).is_slow(2), expected, "{rate}");
        }
        assert!(!Line::default().is_slow(2));
        assert!(Line::new(Some(1000)).is_known());
    }

    #[test]
    fn who_finds_nothing_stops_looking() {
        let line = Line::known(50e6, 1e9);
        assert!(line.is_slow(2));
        line.compared(4 << 30, 0);
        assert!(!line.is_slow(2));
        line.compared(64 << 30, 64 << 30);
        assert!(line.is_slow(2));
    }

    #[test]
    fn a_line_is_measured_once_by_what_arrives() {
        let line = Line::default();
        let begun = Instant::now();
        let at = |millis| begun + Duration::from_millis(millis);
        assert!(!line.arrived(1 << 30, at(0)), "nothing is tried out");
        line.try_out();
        assert!(!line.arrived(1 << 30, at(0)), "it begins the time");
        assert!(!line.arrived(6_000_000, at(500)));
        assert!(line.arrived(6_500_000, at(1000)));
        assert!((line.rate.get().unwrap() - 12.5e6).abs() < 1.0);
        line.try_out();
        assert!(!line.arrived(1 << 40, at(2000)) && !line.arrived(1 << 40, at(4000)), "it is known");
        let fast = Line::default();
        fast.try_out();
        assert!(!fast.arrived(1, at(0)));
        assert!(fast.arrived(TRIAL_BYTES, at(30)));
        assert!(*fast.rate.get().unwrap() > 1e9);
    }

    #[test]
    fn hashing_takes_time() {
        let rate = hashing_rate();
        assert!(rate.is_finite() && rate > 0.0);
    }
}
