//! The bound on what waits below the queue: in the socket's send buffer and the queues of the device behind it.
//!
//! Guarantees: once the buffer drains at a rate that is known, it gets no more bytes than that rate carries in about a millisecond, but
//! [`LEAST_BYTES`] in any case; a link that ran dry while packets waited gets more; a buffer that empties at once, as on a link
//! that is faster than this host, is bounded by nothing here. Time is a value, in nanoseconds.

use super::fair::Turn;

/// The bytes that may wait below in any case.
pub const LEAST_BYTES: u32 = 16 << 10;
/// The bytes that may wait below at the most.
pub const MOST_BYTES: u32 = 7 << 20;
/// The bytes that may wait before a rate is known.
const FIRST_BYTES: u32 = 64 << 10;
/// The time for which bytes may wait below.
const WAIT_NS: f64 = 1.0e6;
/// The time that a burst takes on the link, at the most, and the turn of a flow.
pub const BURST_NS: f64 = 0.5e6;
const TURN_NS: f64 = 0.125e6;
/// The longest burst in bytes.
pub const BURST_BYTES: u32 = 64 << 10;
/// The longest turn in bytes.
pub const TURN_BYTES: u32 = 64 << 10;
/// The shortest turn, which is a packet.
const TURN_BYTES_LEAST: u32 = 1514;
/// The limits of a pause, before the buffer is looked at again.
const PAUSE_NS: [f64; 2] = [100e3, 2e6];
/// The time over which a rate is measured.
const MEASURED_NS: u64 = 4_000_000;
/// The time after which a rate that bounds nothing is forgotten.
const FORGET_NS: u64 = 200_000_000;

/// The state of the link below, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub struct Below {
    /// The bytes that may wait.
    limit_bytes: u32,
    /// The rate at which bytes leave, per nanosecond; 0 if it is not known.
    byte_per_ns: f64,
    /// The bytes that left and the time that passed, since the rate was computed.
    left_bytes: u64,
    left_ns: u64,
    /// The first look in a pause: its time and what waited.
    paused: Option<(u64, u32)>,
    /// The time of the newest pause.
    full_ns: Option<u64>,
}

impl Default for Below {
    fn default() -> Self {
        Self {
            limit_bytes: FIRST_BYTES,
            byte_per_ns: 0.0,
            left_bytes: 0,
            left_ns: 0,
            paused: None,
            full_ns: None,
        }
    }
}

impl Below {
    /// Returns the time to wait until more bytes may be sent, of which `unsent_bytes` wait below at `now_ns`; `None` if
    /// they may be sent now.
    pub fn pause_ns(&mut self, now_ns: u64, unsent_bytes: u32) -> Option<u64> {
        let is_full = unsent_bytes >= self.limit_bytes;
        if let Some((since_ns, before)) = self.paused
            && !is_full
        {
            self.paused = None;
            self.learn(now_ns - since_ns, before - unsent_bytes.min(before), unsent_bytes == 0);
        }
        if !is_full {
            return None;
        }
        self.full_ns = Some(now_ns);
        let (_, before) = *self.paused.get_or_insert((now_ns, unsent_bytes));
        if unsent_bytes > before {
            // Others share the socket: the look begins anew.
            self.paused = Some((now_ns, unsent_bytes));
        }
        let [least, most] = PAUSE_NS;
        let over = f64::from(unsent_bytes) - 0.75 * f64::from(self.limit_bytes);
        let pause = if self.byte_per_ns > 0.0 { over / self.byte_per_ns } else { 2.0 * least };
        Some(pause.clamp(least, most) as u64)
    }

    /// Notes that `bytes` left in `ns`, and whether none was left.
    fn learn(&mut self, ns: u64, bytes: u32, is_dry: bool) {
        if is_dry {
            // The link had nothing to send for a part of the time: there was too little.
            self.limit_bytes = (self.limit_bytes.saturating_add(self.limit_bytes / 2)).min(MOST_BYTES);
            let rate = f64::from(bytes) / ns.max(1) as f64;
            self.byte_per_ns = self.byte_per_ns.max(rate);
            return;
        }
        self.left_bytes += u64::from(bytes);
        self.left_ns += ns;
        if self.left_ns < MEASURED_NS {
            return;
        }
        let rate = self.left_bytes as f64 / self.left_ns as f64;
        self.byte_per_ns = match self.byte_per_ns {
            0.0 => rate,
            old => old + (rate - old) / 4.0,
        };
        (self.left_bytes, self.left_ns) = (0, 0);
        // A limit that was too low has grown in a step, and shrinks slowly.
        let wanted = (self.byte_per_ns * WAIT_NS) as u32;
        let shrunk = self.limit_bytes - self.limit_bytes / 16;
        self.limit_bytes =
            wanted.max(if self.limit_bytes > 4 * wanted { wanted } else { shrunk.min(wanted.max(shrunk)) });
        self.limit_bytes = self.limit_bytes.clamp(LEAST_BYTES, MOST_BYTES);
    }

    /// Returns the rate, while the link bounds what is sent.
    fn bounding(&self, now_ns: u64) -> Option<f64> {
        let is_new = now_ns.saturating_sub(self.full_ns?) < FORGET_NS;
        (is_new && self.byte_per_ns > 0.0).then_some(self.byte_per_ns)
    }

    /// Returns the length of the next burst and of a flow's turn. GSO packets are cut only for a link that bounds what is
    /// sent: elsewhere each is a burst.
    pub fn turn(&self, now_ns: u64) -> Turn {
        let Some(rate) = self.bounding(now_ns) else {
            return Turn { most_bytes: BURST_BYTES, quantum: TURN_BYTES as i32, is_whole: true };
        };
        let most_bytes = ((rate * BURST_NS) as u32).clamp(1, BURST_BYTES);
        let quantum = ((rate * TURN_NS) as u32).clamp(TURN_BYTES_LEAST, TURN_BYTES) as i32;
        Turn { most_bytes, quantum, is_whole: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A link of so many bytes per nanosecond, whose user is late by up to `late_ns`.
    fn run(below: &mut Below, start_ns: u64, rate: f64, late_ns: u64, for_ns: u64) -> (u64, u32, f64) {
        let (mut now, mut unsent, mut sent, mut most, mut idle) = (start_ns, 0.0_f64, 0u64, 0u32, 0.0);
        let mut passes = |unsent: &mut f64, ns: u64| {
            let left = *unsent - rate * ns as f64;
            if left < 0.0 {
                idle -= left / rate;
            }
            *unsent = left.max(0.0);
        };
        let mut turn = 0;
        while now < start_ns + for_ns {
            match below.pause_ns(now, unsent as u32) {
                None => {
                    let burst = below.turn(now).most_bytes.max(1400);
                    unsent += f64::from(burst);
                    sent += u64::from(burst);
                    if now > start_ns + for_ns / 2 {
                        most = most.max(unsent as u32);
                    }
                    // Sealing takes time as well.
                    passes(&mut unsent, u64::from(burst) / 4);
                    now += u64::from(burst) / 4;
                }
                Some(pause) => {
                    turn += 1;
                    let ns = pause + late_ns * (turn % 5) / 4;
                    passes(&mut unsent, ns);
                    now += ns;
                }
            }
        }
        (sent, most, idle / for_ns as f64)
    }

    #[test]
    fn a_slow_link_has_little_below_and_stays_busy() {
        for (mbit_per_s, late_us) in [(20.0, 50), (100.0, 50), (100.0, 500), (1000.0, 50), (1000.0, 300)] {
            let rate = mbit_per_s / 8e3;
            let mut below = Below::default();
            let (sent, most, idle) = run(&mut below, 0, rate, late_us * 1000, 2_000_000_000);
            let carried = sent as f64 / (rate * 2e9);
            assert!(carried > 0.97 && carried < 1.02 && idle < 0.02, "{mbit_per_s}: {carried}, idle {idle}");
            let bound = (rate * 4e6).max(1.5 * f64::from(LEAST_BYTES));
            assert!(f64::from(most) < bound, "{mbit_per_s} Mb/s, late {late_us} us: {most} bytes below");
        }
    }

    #[test]
    fn a_link_that_becomes_faster_is_used_and_a_slower_one_is_not_flooded() {
        let mut below = Below::default();
        run(&mut below, 0, 100.0 / 8e3, 50_000, 1_000_000_000);
        let (sent, ..) = run(&mut below, 1_000_000_000, 1000.0 / 8e3, 50_000, 1_000_000_000);
        assert!(sent as f64 > 0.9 * 125e6, "{sent}");
        let (_, most, _) = run(&mut below, 2_000_000_000, 20.0 / 8e3, 50_000, 2_000_000_000);
        assert!(most < 2 * LEAST_BYTES, "{most}");
    }

    #[test]
    fn a_buffer_that_is_always_empty_bounds_nothing() {
        let mut below = Below::default();
        for ns in 0..1000 {
            assert_eq!(below.pause_ns(ns * 1000, 0), None);
            let turn = below.turn(ns);
            assert_eq!((turn.most_bytes, turn.is_whole), (BURST_BYTES, true));
        }
    }
}
