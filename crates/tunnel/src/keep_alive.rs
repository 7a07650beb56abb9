//! NAT keep-alives (RFC 3948, section 4): decides when to send a peer a byte so that a NAT on the way keeps its
//! mapping.
//!
//! Guarantees: no keep-alive is due while other packets are sent to the peer; the module has no socket and no clock.

use std::time::{Duration, Instant};

/// The payload of a keep-alive in UDP, which its receiver ignores (RFC 3948, section 2.3).
pub const KEEP_ALIVE: &[u8] = &[0xff];
/// The default interval behind a NAT: home routers keep UDP mappings for at least 30 seconds, although RFC 4787
/// requires two minutes.
pub const BEHIND_NAT: Duration = Duration::from_secs(25);
/// The longest interval that may be configured, in seconds.
pub const KEEP_ALIVE_S_MAX: u32 = 3600;

/// The time since which no packet has been sent to a peer.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeepAlive {
    sent: u64,
    since: Option<Instant>,
}

impl KeepAlive {
    /// Returns whether a keep-alive is due. `interval` is the longest time without a packet to the peer, `None` for
    /// no limit; `sent` is the number of packets sent so far.
    pub fn is_due(&mut self, interval: Option<Duration>, sent: u64, now: Instant) -> bool {
        let since = *self.since.get_or_insert(now);
        if sent != self.sent {
            (self.sent, self.since) = (sent, Some(now));
            return false;
        }
        let is_due = interval.is_some_and(|interval| now >= since + interval);
        if is_due {
            self.since = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The NAT drops a mapping after 30 seconds without a packet from inside.
    #[test]
    fn a_mapping_that_is_kept_alive_never_expires() {
        let tick = Duration::from_millis(100);
        let forgets = Duration::from_secs(30);
        // Seconds of silence, followed by a second of packets.
        for (interval, silence_s, survives, alives) in [
            (Some(BEHIND_NAT), 600, true, 23..=25),
            (Some(BEHIND_NAT), 20, true, 0..=0),
            (Some(Duration::from_secs(1)), 600, true, 590..=600),
            (None, 600, false, 0..=0),
            (Some(Duration::from_secs(40)), 600, false, 14..=15),
        ] {
            let mut keep = KeepAlive::default();
            let begun = Instant::now();
            let (mut now, mut sent, mut last, mut longest, mut count) = (begun, 0, begun, Duration::ZERO, 0);
            while now < begun + Duration::from_secs(600) {
                now += tick;
                let second = (now - begun).as_secs();
                if second > 0 && second.is_multiple_of(silence_s + 1) {
                    sent += 1;
                    last = now;
                }
                if keep.is_due(interval, sent, now) {
                    count += 1;
                    last = now;
                }
                longest = longest.max(now - last);
            }
            assert_eq!(longest < forgets, survives, "{interval:?}: {longest:?}");
            assert!(alives.contains(&count), "{interval:?}: {count}");
        }
    }
}
