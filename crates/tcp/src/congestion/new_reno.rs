//! Congestion avoidance of RFC 5681, section 3.1: the window grows by one segment per round trip, and halves after a
//! loss.

use super::{Algorithm, Window};
use crate::Time;
use core::time::Duration;

#[derive(Debug, Clone, Default)]
pub(crate) struct NewReno {
    /// Acknowledged since the window grew last.
    counted_bytes: u32,
}

impl Algorithm for NewReno {
    fn avoid(&mut self, window: &mut Window, acked_bytes: u32, _: Duration, _: Time) {
        self.counted_bytes = self.counted_bytes.saturating_add(acked_bytes);
        if self.counted_bytes >= window.bytes {
            self.counted_bytes -= window.bytes;
            window.grow(window.mss);
        }
    }

    fn shrink(&mut self, _: &Window, flight_bytes: u32) -> u32 {
        self.counted_bytes = 0;
        flight_bytes / 2
    }

    fn restart(&mut self) {
        self.counted_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grows_by_a_segment_a_window() {
        let mut window = Window { bytes: 10_000, threshold_bytes: 10_000, mss: 1000 };
        let mut reno = NewReno::default();
        for _ in 0..9 {
            reno.avoid(&mut window, 1000, Duration::ZERO, Time::ZERO);
            assert_eq!(window.bytes, 10_000);
        }
        reno.avoid(&mut window, 1000, Duration::ZERO, Time::ZERO);
        assert_eq!(window.bytes, 11_000);
        assert_eq!(reno.shrink(&window, 11_000), 5_500);
    }
}
