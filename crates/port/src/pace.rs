//! Estimates how densely packets come. A packet that wakes its receiver costs a wake-up and goes on alone; packets
//! that have gathered meanwhile are joined again. Network cards hold interrupts back for the same reason.
//!
//! Guarantees: if packets are few, none waits; otherwise none waits longer than [`PAUSE`] and the timer's slack;
//! without packets there is no work.

use std::thread;
use std::time::{Duration, Instant};

/// Over which packets are counted.
const SPAN: Duration = Duration::from_micros(250);
/// Packets per span that count as dense: 64,000 per second.
const DENSE_PACKETS: usize = 16;
/// Time for which a receiver lets packets gather. The kernel adds its timers' slack, by default 50 µs.
const PAUSE: Duration = Duration::from_micros(20);

/// A receiver's recent observations.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Time since which packets are counted.
    since: Option<Instant>,
    packets: usize,
    is_dense: bool,
}

/// Lets packets gather. Pauses; call it only after taking all packets, so that none that waits already waits longer.
pub(crate) fn pause() {
    thread::sleep(PAUSE);
}

impl Pace {
    /// Returns whether more packets will have come after a [`pause`].
    pub(crate) fn is_dense(&self) -> bool {
        self.is_dense
    }

    /// Notes the number of packets that came.
    pub(crate) fn after(&mut self, packets: usize) {
        self.count(packets, Instant::now());
    }

    fn count(&mut self, packets: usize, now: Instant) {
        self.packets += packets;
        let since = *self.since.get_or_insert(now);
        let span = now - since;
        if span >= SPAN {
            // A long sleep counts as all the spans that it covers.
            let spans = (span.as_nanos() / SPAN.as_nanos()).max(1);
            self.is_dense = self.packets as u128 >= DENSE_PACKETS as u128 * spans;
            (self.since, self.packets) = (Some(now), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns whether batches of these sizes and intervals end up dense.
    fn is_dense(batches: &[(usize, u64)]) -> bool {
        let (mut pace, mut now) = (Pace::default(), Instant::now());
        for &(packets, apart_us) in batches {
            now += Duration::from_micros(apart_us);
            pace.count(packets, now);
        }
        pace.is_dense
    }

    #[test]
    fn only_what_comes_densely_gathers() {
        assert!(!is_dense(&[(1, 2000); 50]), "pings");
        assert!(!is_dense(&[(1, 50); 50]), "20,000 packets a second");
        assert!(is_dense(&[(1, 5); 100]), "200,000 packets a second, one by one");
        assert!(is_dense(&[(16, 75); 20]), "the same, gathered");
        let stopped: Vec<_> = [(16, 75); 20].into_iter().chain([(1, 2000)]).collect();
        assert!(!is_dense(&stopped), "one after a silence");
        let thinned: Vec<_> = [(16, 75); 20].into_iter().chain([(1, 500); 4]).collect();
        assert!(!is_dense(&thinned), "few come now");
    }
}
