//! ESP packets under SPIs that nobody here knows, for the key makers: after a restart, peers still send under associations
//! that are gone.
//!
//! Guarantees: one packet in [`BETWEEN`] is remembered, whatever strangers send; a lane takes no lock for the others.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use sealane_ipsec::association::Way;

/// The minimum time between two packets that are remembered.
const BETWEEN: Duration = Duration::from_millis(500);

/// The last such packet.
#[derive(Debug, Default)]
pub struct Strays {
    /// The time of the next one, in milliseconds since the gateway began.
    next_ms: AtomicU64,
    last: Mutex<Option<(u32, Way)>>,
}

impl Strays {
    /// Remembers a packet with its SPI and its way, `since_begun` after the gateway began. Returns whether there was room.
    pub fn put(&self, spi: u32, from: Way, since_begun: Duration) -> bool {
        let now_ms = since_begun.as_millis() as u64;
        let next_ms = self.next_ms.load(Relaxed);
        let later_ms = now_ms + BETWEEN.as_millis() as u64;
        let is_due = now_ms >= next_ms;
        if !is_due || self.next_ms.compare_exchange(next_ms, later_ms, Relaxed, Relaxed).is_err() {
            return false;
        }
        *self.last.lock().expect("nobody panics holding a stray packet") = Some((spi, from));
        true
    }

    /// Removes the last one.
    pub fn take(&self) -> Option<(u32, Way)> {
        self.last.lock().expect("nobody panics holding a stray packet").take()
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    #[test]
    fn few_are_remembered() {
        let (strays, from) = (Strays::default(), Way::from(SocketAddr::from(([192, 0, 2, 1], 4500))));
        let put = (0..10_000u64).filter(|ms| strays.put(7, from, Duration::from_millis(*ms))).count();
        assert_eq!((put, strays.take(), strays.take()), (20, Some((7, from)), None));
    }
}
