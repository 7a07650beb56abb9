//! The maximum length of packets on a path, and the answers to inner senders that exceed it (RFC 4301, section 8.2).
//! The limits of paths are found by [`discovery`](crate::discovery).
//!
//! Guarantees: no sender gets a limit below the length that every host must accept ([`LEAST_V4`], [`LEAST_V6`]), and
//! the rate of answers is bounded.

use std::{
    io,
    time::{Duration, Instant},
};

use sealane_engine::debug_only;
use sealane_ipsec::{
    ah::{self, Alignment},
    association::{Kind, Mode, Protocol},
    esp::Shape,
    too_big::{self, LEAST_V4, LEAST_V6},
};
use sealane_port::Batch;
use sealane_port::Port;

use crate::site::Encapsulation;

/// The maximum number of answers to inner senders at once, and per second (RFC 1812, section 4.3.2.8).
const ANSWERS_MAX: u32 = 50;

/// The bytes that packets to a peer gain on the way.
#[derive(Clone, Copy, Debug)]
pub struct Overhead {
    /// The kind of protection.
    pub kind: Kind,
    /// The protocol that carries the packets.
    pub encapsulation: Encapsulation,
}

impl Overhead {
    /// Returns the length of the longest inner packet of the given family whose outer packet is no longer than
    /// `path_bytes`.
    pub fn fits(self, path_bytes: u32, is_outer_v4: bool, is_inner_v4: bool) -> u16 {
        let header = |is_v4| if is_v4 { 20 } else { 40 };
        let udp = if self.encapsulation == Encapsulation::Udp { 8 } else { 0 };
        let Kind { protocol, mode, suite } = self.kind;
        let payload = match protocol {
            Protocol::Esp => {
                let esp = path_bytes.saturating_sub(header(is_outer_v4) + udp);
                Shape::of(suite).payload_bytes_max(esp).unwrap_or_default()
            }
            Protocol::Ah => {
                let ah = ah::header_bytes(suite, Alignment::Rfc, !is_outer_v4) as u32;
                path_bytes.saturating_sub(header(is_outer_v4) + ah)
            }
        };
        let inner = match mode {
            Mode::Tunnel => payload,
            Mode::Transport => payload + header(is_inner_v4),
        };
        u16::try_from(inner).unwrap_or(u16::MAX)
    }
}

/// Returns the limit for senders inside if packets of `fits_bytes` fit; longer packets within this limit are
/// fragmented outside.
pub fn told(fits_bytes: u16, is_inner_v4: bool) -> u16 {
    fits_bytes.max(if is_inner_v4 { LEAST_V4 } else { LEAST_V6 })
}

/// Sends inner senders the limit for their packets.
pub struct Answers {
    device: Box<dyn Port>,
    batch: Batch,
    left: u32,
    since: Option<Instant>,
}

debug_only!(Answers { left });

impl Answers {
    /// Returns answers through `device`.
    pub fn new(device: Box<dyn Port>) -> Self {
        Self { device, batch: Batch::new(2048, 1), left: ANSWERS_MAX, since: None }
    }

    /// Asks the sender of `packet` to send at most `mtu` bytes.
    ///
    /// # Errors
    /// Fails if the device is unusable.
    pub fn too_big(&mut self, packet: &[u8], mtu: u16, now: Instant) -> io::Result<()> {
        let since = *self.since.get_or_insert(now);
        if now.saturating_duration_since(since) >= Duration::from_secs(1) {
            self.since = Some(now);
            self.left = ANSWERS_MAX;
        }
        let Some(answer) = too_big::answer(packet, mtu).filter(|_| self.left > 0) else { return Ok(()) };
        self.left -= 1;
        self.batch.clear();
        let is_laid = self.batch.push_bytes(0, &answer, 0);
        assert!(is_laid, "an empty batch has room for one answer");
        self.device.send(&self.batch, 0).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fits_inside_is_what_is_left_of_the_path() {
        let of = |kind: &str, encapsulation| Overhead { kind: kind.parse().expect("a kind"), encapsulation };
        let (udp, none) = (Encapsulation::Udp, Encapsulation::None);
        for (kind, encapsulation, path, outer_v4, inner_v4, expected) in [
            // 20 + 8 bytes outside, 16 in front, 2 to 5 and 16 behind.
            ("aes-128-gcm", udp, 1500, true, true, 1438),
            ("aes-128-gcm", udp, 1500, false, true, 1418),
            ("aes-128-gcm", none, 1300, true, true, 1246),
            // The inner header of 20 or 40 bytes is not sent.
            ("transport aes-128-gcm", none, 1300, true, true, 1266),
            ("transport aes-128-gcm", none, 1300, true, false, 1286),
            ("ah hmac-sha256-128", none, 1300, true, true, 1252),
            ("ah hmac-sha256-128", none, 1400, false, true, 1328),
            ("ah transport hmac-sha256-128", none, 1300, true, true, 1272),
            // The length that every host must accept.
            ("aes-128-gcm", udp, 552, true, true, 576),
            ("aes-128-gcm", udp, 1280, true, false, 1280),
            ("aes-128-gcm", udp, 0, true, true, 576),
            ("aes-128-gcm", udp, u32::MAX, true, true, u16::MAX),
        ] {
            let fits = of(kind, encapsulation).fits(path, outer_v4, inner_v4);
            let bytes = told(fits, inner_v4);
            assert_eq!(bytes, expected, "{kind} {path} {outer_v4} {inner_v4}");
        }
    }
}
