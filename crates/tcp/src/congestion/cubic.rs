//! CUBIC (RFC 9438). The window is a cubic function of the time since the last loss, with its inflection where that
//! loss happened. Segments are the unit of the formulas, so they are kept as fractions.

use super::{Algorithm, Window};
use crate::Time;
use core::time::Duration;

/// The share of the window that remains after a loss (section 4.6).
const BETA: f64 = 0.7;
/// The steepness of the function, in segments per cubic second (section 5.1).
const C: f64 = 0.4;
/// The growth, in segments per round trip, by which Reno would reach the same average window (section 4.3).
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);

/// An epoch is congestion avoidance since the last loss.
#[derive(Debug, Clone)]
struct Epoch {
    start: Time,
    /// Seconds until the window is `window_max` again.
    k_s: f64,
    /// The window that Reno would have, in segments.
    reno: f64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Cubic {
    /// The window before the last loss, in segments.
    window_max: f64,
    /// The window before the last loss, before fast convergence reduced it.
    window_prior: f64,
    epoch: Option<Epoch>,
    /// Growth that is not yet a whole byte.
    fraction_bytes: f64,
}

impl Cubic {
    /// Returns the window `t_s` seconds into the epoch (section 4.2).
    fn window_at(&self, epoch: &Epoch, t_s: f64) -> f64 {
        let x = t_s - epoch.k_s;
        C * x * x * x + self.window_max
    }
}

impl Algorithm for Cubic {
    fn avoid(&mut self, window: &mut Window, acked_bytes: u32, rtt: Duration, now: Time) {
        let mss = f64::from(window.mss);
        let segments = f64::from(window.bytes) / mss;
        let acked = f64::from(acked_bytes) / mss;
        let mut epoch = self.epoch.take().unwrap_or_else(|| {
            if self.window_max < segments {
                self.window_max = segments;
            }
            Epoch { start: now, k_s: cube_root((self.window_max - segments) / C), reno: segments }
        });
        let t_s = now.since(epoch.start).as_secs_f64();
        // Section 4.3: once Reno's window has passed the one before the loss, it grows as Reno's does.
        let alpha = if epoch.reno < self.window_prior { ALPHA } else { 1.0 };
        epoch.reno += alpha * acked / segments;
        let next = if self.window_at(&epoch, t_s) < epoch.reno {
            epoch.reno.max(segments)
        } else {
            let target = self.window_at(&epoch, t_s + rtt.as_secs_f64()).clamp(segments, 1.5 * segments);
            segments + (target - segments) / segments * acked
        };
        self.epoch = Some(epoch);
        // One acknowledgement never doubles the window.
        let growth_bytes =
            ((next - segments) * mss).clamp(0.0, f64::from(window.bytes)) + self.fraction_bytes;
        let whole_bytes = growth_bytes as u32;
        self.fraction_bytes = growth_bytes - f64::from(whole_bytes);
        window.grow(whole_bytes);
    }

    fn shrink(&mut self, window: &Window, flight_bytes: u32) -> u32 {
        let segments = f64::from(window.bytes) / f64::from(window.mss);
        // Section 4.7: the window yields faster if it shrinks from loss to loss.
        self.window_prior = segments;
        self.window_max = if segments < self.window_max { segments * (1.0 + BETA) / 2.0 } else { segments };
        self.epoch = None;
        (f64::from(flight_bytes) * BETA) as u32
    }

    fn restart(&mut self) {
        self.epoch = None;
        self.fraction_bytes = 0.0;
    }
}

/// Returns the cube root of a non-negative number, by Newton's method, because `core` has no such function.
fn cube_root(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let mut root = if x > 1.0 { x } else { 1.0 };
    // Far from the root a step takes a third off; 2³⁰ segments need 50 steps and a few to settle.
    for _ in 0..80 {
        let next = (2.0 * root + x / (root * root)) / 3.0;
        if next >= root {
            break;
        }
        root = next;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;
    const RTT: Duration = Duration::from_millis(100);

    #[test]
    fn cube_roots() {
        for x in [0.0, 1e-6, 0.125, 1.0, 8.0, 1000.0, 1e9, 2.7e12] {
            assert!((cube_root(x) - f64::cbrt(x)).abs() <= 1e-9 * f64::cbrt(x).max(1.0), "{x}");
        }
    }

    /// Returns the window after `seconds` of congestion avoidance in which all of it is acknowledged each round trip.
    fn run(cubic: &mut Cubic, window: &mut Window, seconds: u32) {
        for round in 0..seconds * 10 {
            let now = Time::ZERO + RTT * round;
            for _ in 0..window.bytes / MSS {
                cubic.avoid(window, MSS, RTT, now);
            }
        }
    }

    #[test]
    fn returns_to_the_old_window_after_k_seconds() {
        let mut window = Window { bytes: 1000 * MSS, threshold_bytes: 1000 * MSS, mss: MSS };
        let mut cubic = Cubic::default();
        let threshold_bytes = cubic.shrink(&window, window.bytes);
        assert_eq!(threshold_bytes, 700 * MSS);
        window.bytes = threshold_bytes;
        // K = ∛(300 / 0.4) = 9.09 s: half-way there most is regained, at K all, and from then on the window probes.
        run(&mut cubic, &mut window, 4);
        assert!((900 * MSS..990 * MSS).contains(&window.bytes), "{}", window.bytes);
        cubic.restart();
        cubic.window_max = 1000.0;
        window.bytes = threshold_bytes;
        run(&mut cubic, &mut window, 9);
        assert!((990 * MSS..=1005 * MSS).contains(&window.bytes), "{}", window.bytes);
    }

    #[test]
    fn is_no_slower_than_reno_on_short_paths() {
        let mut window = Window { bytes: 10 * MSS, threshold_bytes: 10 * MSS, mss: MSS };
        let mut cubic = Cubic::default();
        window.bytes = cubic.shrink(&window, window.bytes);
        let rtt = Duration::from_millis(1);
        for round in 0..200 {
            for _ in 0..window.bytes / MSS {
                cubic.avoid(&mut window, MSS, rtt, Time::ZERO + rtt * round);
            }
        }
        // In 0.2 s the cubic function alone would not even regain its old value.
        assert!(window.bytes > 100 * MSS, "{}", window.bytes);
    }

    #[test]
    fn gives_way_faster_when_losses_come_early() {
        let window = Window { bytes: 80 * MSS, threshold_bytes: 0, mss: MSS };
        let mut cubic = Cubic { window_max: 100.0, ..Cubic::default() };
        cubic.shrink(&window, window.bytes);
        assert!((cubic.window_max - 68.0).abs() < 1e-9);
    }
}
