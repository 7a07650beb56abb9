//! Congestion control: slow start for all algorithms, and the growth and reduction of the window beyond it per
//! algorithm.

mod cubic;
mod new_reno;

use crate::Time;
use core::time::Duration;
use cubic::Cubic;
use new_reno::NewReno;

/// Which algorithm governs congestion avoidance.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Congestion {
    /// RFC 5681 and RFC 6582.
    NewReno,
    /// RFC 9438.
    #[default]
    Cubic,
}

/// The window and the slow start threshold, in bytes.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    pub(crate) bytes: u32,
    pub(crate) threshold_bytes: u32,
    pub(crate) mss: u32,
}

/// Upper bound of the window, which keeps sums within 32 bits.
const WINDOW_MAX: u32 = 1 << 30;

/// Most segments that one acknowledgement adds in slow start (RFC 9406, section 4.2: eight without pacing).
const SLOW_START_SEGMENTS_MAX: u32 = 8;

impl Window {
    pub(crate) fn grow(&mut self, bytes: u32) {
        self.bytes = self.bytes.saturating_add(bytes).min(WINDOW_MAX);
    }

    fn is_slow_start(&self) -> bool {
        self.bytes < self.threshold_bytes
    }
}

/// A congestion avoidance algorithm. It sees acknowledgements of new data only while the window limits the sender.
pub(crate) trait Algorithm {
    /// Grows the window after `acked_bytes` were acknowledged in congestion avoidance.
    fn avoid(&mut self, window: &mut Window, acked_bytes: u32, rtt: Duration, now: Time);

    /// Shrinks the window after data was lost with `flight_bytes` in flight; returns the new threshold.
    fn shrink(&mut self, window: &Window, flight_bytes: u32) -> u32;

    /// Starts congestion avoidance anew, after a timeout or idle time.
    fn restart(&mut self);
}

#[derive(Debug, Clone)]
enum Chosen {
    NewReno(NewReno),
    Cubic(Cubic),
}

/// A window and the algorithm that governs it.
#[derive(Debug, Clone)]
pub(crate) struct Controller {
    pub(crate) window: Window,
    chosen: Chosen,
}

impl Controller {
    pub(crate) fn new(congestion: Congestion, mss: u32) -> Self {
        let chosen = match congestion {
            Congestion::NewReno => Chosen::NewReno(NewReno::default()),
            Congestion::Cubic => Chosen::Cubic(Cubic::default()),
        };
        let window = Window { bytes: initial_bytes(mss), threshold_bytes: WINDOW_MAX, mss };
        Self { window, chosen }
    }

    fn algorithm(&mut self) -> (&mut dyn Algorithm, &mut Window) {
        let algorithm: &mut dyn Algorithm = match &mut self.chosen {
            Chosen::NewReno(new_reno) => new_reno,
            Chosen::Cubic(cubic) => cubic,
        };
        (algorithm, &mut self.window)
    }

    /// Grows the window after new data was acknowledged while the window limited the sender.
    pub(crate) fn on_ack(&mut self, acked_bytes: u32, rtt: Duration, now: Time) {
        if self.window.is_slow_start() {
            self.window.grow(acked_bytes.min(SLOW_START_SEGMENTS_MAX * self.window.mss));
        } else {
            let (algorithm, window) = self.algorithm();
            algorithm.avoid(window, acked_bytes, rtt, now);
        }
    }

    /// Shrinks the window after duplicate or selective acknowledgements revealed a loss. The window itself follows by
    /// PRR.
    pub(crate) fn on_loss(&mut self, flight_bytes: u32) {
        let (algorithm, window) = self.algorithm();
        window.threshold_bytes = algorithm.shrink(window, flight_bytes).max(2 * window.mss);
    }

    /// Shrinks the window after the retransmission timer ran out; `is_first` of a series (RFC 5681, section 3.1).
    pub(crate) fn on_timeout(&mut self, flight_bytes: u32, is_first: bool) {
        if is_first {
            self.on_loss(flight_bytes);
        }
        let (algorithm, window) = self.algorithm();
        algorithm.restart();
        window.bytes = window.mss;
    }

    /// Shrinks the window after nothing was sent for longer than a timeout (RFC 5681, section 4.1).
    pub(crate) fn on_idle(&mut self) {
        let (algorithm, window) = self.algorithm();
        algorithm.restart();
        window.bytes = window.bytes.min(initial_bytes(window.mss));
    }
}

/// Returns the initial window (RFC 6928, section 2).
fn initial_bytes(mss: u32) -> u32 {
    (10 * mss).min((2 * mss).max(14_600))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    #[test]
    fn starts_with_ten_segments_of_ethernet_or_two_large_ones() {
        assert_eq!(initial_bytes(1460), 14_600);
        assert_eq!(initial_bytes(536), 5_360);
        assert_eq!(initial_bytes(9_000), 18_000);
    }

    #[test]
    fn slow_start_doubles_and_a_timeout_falls_to_one_segment() {
        for congestion in [Congestion::NewReno, Congestion::Cubic] {
            let mut controller = Controller::new(congestion, 1000);
            for _ in 0..10 {
                controller.on_ack(1000, RTT, Time::ZERO);
            }
            assert_eq!(controller.window.bytes, 20_000);
            controller.on_ack(1 << 20, RTT, Time::ZERO);
            assert_eq!(controller.window.bytes, 28_000, "one acknowledgement adds eight segments at most");
            controller.on_timeout(20_000, true);
            assert_eq!(controller.window.bytes, 1000);
            let threshold_bytes = controller.window.threshold_bytes;
            assert!((10_000..=14_000).contains(&threshold_bytes));
            controller.on_timeout(1000, false);
            assert_eq!(controller.window.threshold_bytes, threshold_bytes);
            controller.on_timeout(1000, true);
            assert_eq!(controller.window.threshold_bytes, 2000, "never below two segments");
        }
    }

    #[test]
    fn idle_time_costs_what_was_gained_beyond_the_start() {
        let mut controller = Controller::new(Congestion::Cubic, 1000);
        controller.window.bytes = 500_000;
        controller.on_idle();
        assert_eq!(controller.window.bytes, 10_000);
        controller.window.bytes = 3_000;
        controller.on_idle();
        assert_eq!(controller.window.bytes, 3_000);
    }
}
