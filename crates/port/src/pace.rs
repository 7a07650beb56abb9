//! How densely packets come. Each that wakes its receiver costs a waking, and goes on alone; packets that have gathered meanwhile
//! are joined again. A network card does the same when it holds interrupts back.
//!
//! Guarantees: nothing waits where packets are few, nor longer than [`PAUSE`] and what the timer adds; without packets nothing is
//! done at all.

use std::thread;
use std::time::{Duration, Instant};

/// Over which packets are counted.
const SPAN: Duration = Duration::from_micros(250);
/// So many in a span are dense: 64,000 a second.
const DENSE_PACKETS: usize = 16;
/// For how long a receiver lets packets gather. The kernel adds its timers' slack, 50 µs unless it was told otherwise.
const PAUSE: Duration = Duration::from_micros(20);

/// What a receiver has seen of late.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Since when packets are counted.
    since: Option<Instant>,
    packets: usize,
    is_dense: bool,
}

/// Lets packets gather. For a receiver that has taken all there were: what waits already is not to wait longer.
pub(crate) fn pause() {
    thread::sleep(PAUSE);
}

impl Pace {
    /// Whether more packets will have come after a [`pause`].
    pub(crate) fn is_dense(&self) -> bool {
        self.is_dense
    }

    /// So many packets came.
    pub(crate) fn after(&mut self, packets: usize) {
        self.count(packets, Instant::now());
    }

    fn count(&mut self, packets: usize, now: Instant) {
        self.packets += packets;
        let since = *self.since.get_or_insert(now);
        let span = now - since;
        if span >= SPAN {
            // Spans that were slept through are as many as they are long.
            let spans = (span.as_nanos() / SPAN.as_nanos()).max(1);
            self.is_dense = self.packets as u128 >= DENSE_PACKETS as u128 * spans;
            (self.since, self.packets) = (Some(now), 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether batches of so many packets, so far apart, end up dense.
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
