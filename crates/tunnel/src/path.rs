//! What fits into a path, and telling inner senders so (RFC 4301, section 8.2). How long a path's packets may be is found out by
//! [`discovery`](crate::discovery).
//!
//! Guarantees: nobody is told less than every host must take ([`LEAST_V4`], [`LEAST_V6`]), and senders are told at a bounded rate.

use std::{
    io,
    time::{Duration, Instant},
};

use sealane_ipsec::{
    ah::{self, Alignment},
    association::{Kind, Mode, Protocol},
    esp::Shape,
    too_big::{self, LEAST_V4, LEAST_V6},
};
use sealane_port::Port;
use sealane_stack::Batch;

use crate::site::Encapsulation;

/// Answers to inner senders at once, and in a second (RFC 1812, section 4.3.2.8).
const ANSWERS_MAX: u32 = 50;

/// What packets to a peer gain on the way.
#[derive(Clone, Copy, Debug)]
pub struct Overhead {
    /// What is done to them.
    pub kind: Kind,
    /// What they travel in.
    pub encapsulation: Encapsulation,
}

impl Overhead {
    /// The longest packet inside, whose own family is given, that is no longer than `path_bytes` outside.
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

/// What senders inside are told where so much fits: what is longer than fits nevertheless is cut outside.
pub fn told(fits_bytes: u16, is_inner_v4: bool) -> u16 {
    fits_bytes.max(if is_inner_v4 { LEAST_V4 } else { LEAST_V6 })
}

/// Tells inner senders that their packets are too long.
pub struct Answers {
    device: Box<dyn Port>,
    batch: Batch,
    left: u32,
    since: Option<Instant>,
}

impl std::fmt::Debug for Answers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Answers").field("left", &self.left).finish_non_exhaustive()
    }
}

impl Answers {
    /// Through `device`, to whoever sent into it.
    pub fn new(device: Box<dyn Port>) -> Self {
        Self { device, batch: Batch::new(2048, 1), left: ANSWERS_MAX, since: None }
    }

    /// Tells the sender of `packet` to send no more than `mtu` bytes.
    ///
    /// # Errors
    /// The device is unusable.
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
            // 20 + 8 outside, 16 in front, 2 to 5 and 16 behind.
            ("aes-128-gcm", udp, 1500, true, true, 1438),
            ("aes-128-gcm", udp, 1500, false, true, 1418),
            ("aes-128-gcm", none, 1300, true, true, 1246),
            // The inner header of 20 or 40 bytes stays behind.
            ("transport aes-128-gcm", none, 1300, true, true, 1266),
            ("transport aes-128-gcm", none, 1300, true, false, 1286),
            ("ah hmac-sha256-128", none, 1300, true, true, 1252),
            ("ah hmac-sha256-128", none, 1400, false, true, 1328),
            ("ah transport hmac-sha256-128", none, 1300, true, true, 1272),
            // The least that every host takes.
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
