//! Captures the packets of a stack in a file that Wireshark reads.
//!
//! Guarantees: both ends run in virtual time over a cable in memory, and nothing is sent anywhere; the received data
//! is compared with the sent data before the capture counts as good.

use super::catalogue;
use crate::LabError;
use sealane_engine::Inline;
use sealane_engine::record::Secret;
use sealane_lanes::{LaneWork as _, Placement, Turn};
use sealane_port::Batch;
use sealane_port::capture::{Tapped, Writer};
use sealane_port::link::Clock;
use sealane_port::memory::{Cable, Collect, Source};
use sealane_port::{Port, Room};
use sealane_stack::ends;
use sealane_stack::{Context, Crew, End, Ends, FlowPlan, Lane, Plan, Spec, Stack};
use sealane_transform::Kernels;
use sealane_wire::pcap::Link;
use std::fs::File;
use std::io::{self, BufWriter};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Messages of a capture: enough to fill an initial window and to be acknowledged.
const MESSAGES: usize = 12;
const MESSAGE_BYTES: usize = 1000;
/// The number of rounds of both ends after which a stack is considered endless.
const ROUNDS_MAX: usize = 1_000_000;

/// The interval at which lanes check their layers' deadlines. With longer steps of the clock an answer would appear
/// late.
const LOOK: Duration = Duration::from_millis(5);

/// The received data, while a stack has the port.
#[derive(Clone)]
struct Arrived(Arc<Mutex<Collect>>);

impl Port for Arrived {
    fn receive(&mut self, _: &mut Batch) -> io::Result<usize> {
        Ok(0)
    }

    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).send(batch, from)
    }
}

/// Returns the link type of the stack's packets.
fn link(spec: &Spec) -> Result<Link, LabError> {
    match spec.layers().last().map(|layer| &*layer.name) {
        Some("fddi") => Ok(Link::Fddi),
        Some("ether") => Ok(Link::Ethernet),
        Some("ip" | "ipv6") => Ok(Link::Ip),
        _ => Err(LabError::Stack(format!(
            "{spec} ends in nothing that a capture knows; end it in ip, ipv6, ether or fddi"
        ))),
    }
}

/// Sends a few messages through the stack and writes every packet that passes its near end, both ways, to `path`.
///
/// # Errors
/// Fails if the stack cannot be made or does not deliver, or the file cannot be written.
pub fn capture(spec: &Spec, path: &Path) -> Result<(), LabError> {
    let unavailable = |error: &dyn std::fmt::Display| LabError::Unavailable(format!("stack {spec}: {error}"));
    let link = link(spec)?;
    let stack = |end| -> Result<Stack, LabError> {
        let context = Context::new(Kernels::best(), Secret::new([1; 32]), end).with_association(0);
        catalogue().stack(spec, &context).map_err(|error| LabError::Stack(format!("stack {spec}: {error}")))
    };
    let (near, far) = (stack(End::Near)?, stack(End::Far)?);
    let room = near.overhead();
    let room = Room { headroom_bytes: room.head_bytes, tailroom_bytes: room.tail_bytes, ..Room::NONE };
    let file = File::create(path).map_err(LabError::file("cannot create", path))?;
    let writer = Writer::new(BufWriter::new(file), link).map_err(LabError::file("cannot write", path))?;
    let messages: Vec<Vec<u8>> =
        (0..MESSAGES).map(|i| (0..MESSAGE_BYTES).map(|j| (i * 31 + j) as u8).collect()).collect();
    let (one, other) = Cable::pair(room, 1000);
    let arrived = Arrived(Arc::new(Mutex::new(Collect::new(10 * MESSAGES))));
    let clock = Clock::still();
    let made = || -> io::Result<[Crew; 2]> {
        let plan = Plan {
            placement: Placement::Packet,
            lanes: NonZeroUsize::MIN,
            batches: 32,
            buffer_bytes: 64 << 10,
            packets: 8,
            in_flight: 3,
            keeps_order: true,
        };
        let ((received, sent), (there, back)) = (ends(Tapped::new(one, writer))?, ends(other)?);
        let source = ends(Source::new(messages.clone(), room, 3))?.0;
        let sink = ends(arrived.clone())?.1;
        let near = FlowPlan {
            stack: near,
            down: Ends { source: Some(Box::new(source)), sink: Some(Box::new(sent)) },
            up: Ends { source: Some(Box::new(received)), sink: None },
        };
        let far = FlowPlan {
            stack: far,
            down: Ends { source: None, sink: Some(Box::new(back)) },
            up: Ends { source: Some(Box::new(there)), sink: Some(Box::new(sink)) },
        };
        Ok([
            Crew::with_clock(plan, vec![near], clock.clone())?,
            Crew::with_clock(plan, vec![far], clock.clone())?,
        ])
    };
    let crews = made().map_err(|error| unavailable(&error))?;
    run(&crews, &clock).map_err(|error| unavailable(&error))?;
    // Buffered packets are written when the crews drop the file.
    drop(crews);
    let arrived = arrived.0.lock().unwrap_or_else(PoisonError::into_inner).packets.concat();
    if arrived != messages.concat() {
        return Err(unavailable(&format_args!("{} bytes arrived, not what was sent", arrived.len())));
    }
    Ok(())
}

/// Runs both crews until nothing moves and nothing is due.
fn run(crews: &[Crew; 2], clock: &Clock) -> io::Result<()> {
    let engine = Inline::new(Kernels::best());
    let mut lanes: Vec<Lane<'_>> =
        crews.iter().map(|crew| crew.lane(0, &engine)).collect::<io::Result<_>>()?;
    for _ in 0..ROUNDS_MAX {
        let step = |lane: &mut Lane<'_>| lane.step() == Turn::Moved;
        if lanes.iter_mut().fold(false, |any, lane| step(lane) | any) {
            continue;
        }
        if crews.iter().all(|crew| crew.poll_timeout().is_none()) {
            return Ok(());
        }
        clock.advance_to(clock.now() + LOOK);
    }
    Err(io::Error::other("it does not come to an end"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_capture_has_both_ways_and_an_end_that_it_knows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("stack.pcap");
        for (stack, link, packets) in [
            ("des/tcp/md5/ip/fddi", 10, 14),
            ("aes-128-gcm/udp/ip/ether", 1, 12),
            ("tcp/ipv6", 101, 14),
            ("tcp/ip/esp(aes-128-gcm)/fddi", 10, 14),
            ("tcp/ipv6/ah(hmac-sha256-128)/ether", 1, 14),
        ] {
            capture(&stack.parse().unwrap(), &path).unwrap();
            let bytes = fs::read(&path).unwrap();
            assert_eq!(bytes[20], link, "{stack}");
            let (mut at, mut found) = (24, Vec::new());
            while at < bytes.len() {
                let length = u32::from_le_bytes(*bytes[at + 8..].first_chunk().unwrap()) as usize;
                found.push(&bytes[at + 16..][..length]);
                at += 16 + length;
            }
            // Over TCP there are a handshake and acknowledgements as well.
            assert!(found.len() >= packets, "{stack}: {}", found.len());
            if stack == "tcp/ipv6" {
                // The first packets are SYN, SYN and ACK, ACK, each once.
                let flags: Vec<u8> = found.iter().take(3).map(|packet| packet[40 + 13] & 0x12).collect();
                assert_eq!(flags, [0x02, 0x12, 0x10]);
            }
        }
        assert!(capture(&"tcp/md5".parse().unwrap(), &path).unwrap_err().to_string().contains("end it in"));
    }
}
