//! `esp(SUITE)` and `ah(SUITE)`: IPsec's protocols in transport mode, directly below `ip` or `ipv6`, at the place of
//! a "bump in the stack" in RFC 4301 (section 3.3). Examples are `esp(aes-128-gcm)`,
//! `esp(aes-128-cbc,hmac-sha256-128)`, `ah(hmac-sha1-96)`.
//!
//! Guarantees: packets are framed, checked and unframed by the tunnel's own code (crate `ipsec`); a packet's sequence
//! number is its number within its flow, assigned before the work is distributed; altered or replayed packets are
//! dropped.

use sealane_engine::{Direction, JobStatus};
use sealane_ipsec::ah::{Alignment, header_bytes};
use sealane_ipsec::association::{Inbound, Mode, Outbound, Parameters, Protocol};
use sealane_ipsec::counters::DropReason;
use sealane_ipsec::esp::{Given, Shape};
use sealane_ipsec::frame::{self, Ends, Framed, HEADROOM_BYTES, Opening, Outer, TAILROOM_BYTES};
use sealane_ipsec::lifetime::Lifetime;
use sealane_ipsec::policy::PeerId;
use sealane_ipsec::sequence::SequenceBits;
use sealane_ipsec::suite::{Iv, Suite};
use sealane_port::{Batch, LayerNote, Packet, Verdict};
use sealane_stack::{Context, Kind, Layer, LayerSpec, Overhead, SpecError, Way};
use sealane_wire::{IPV4_BYTES, IPV6_BYTES};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Instant;

/// Encapsulating security payload.
pub(super) const ESP: Kind =
    Kind { names: || vec!["esp".to_owned()], make: |layer, context| make(Protocol::Esp, layer, context) };
/// Authentication header.
pub(super) const AH: Kind =
    Kind { names: || vec!["ah".to_owned()], make: |layer, context| make(Protocol::Ah, layer, context) };

/// Smaller indexes are reserved (RFC 4303, section 2.1).
const SPI_MIN: u32 = 0x100;
/// The number of packets by which one may be late if lanes overtake each other.
const WINDOW_PACKETS: u32 = 4096;
/// In transport mode a packet keeps its own header.
const NO_OUTER: Outer = Outer {
    ends: Ends::V4 { source: Ipv4Addr::UNSPECIFIED, destination: Ipv4Addr::UNSPECIFIED },
    hop_limit: 0,
    dont_fragment: true,
    identification: 0,
};

/// Notes on a batch's packets between [`Layer::enter`] and [`Layer::leave`], for those that go on, in order.
#[derive(Debug, Default)]
struct Frames {
    framed: Vec<Framed>,
    openings: Vec<Opening>,
}

impl LayerNote for Frames {
    fn clear(&mut self) {
        self.framed.clear();
        self.openings.clear();
    }
}

#[derive(Debug)]
struct Security {
    outbound: Outbound,
    inbound: Inbound,
    /// The length of the network layer's headers.
    headers_bytes: usize,
    ignores_verdicts: bool,
}

fn make(protocol: Protocol, layer: &LayerSpec, context: &Context) -> Result<Arc<dyn Layer>, SpecError> {
    let refused = |takes: String| SpecError::Arguments { layer: layer.to_string(), takes };
    let suite: Suite = layer.arguments.join("+").parse().map_err(|_| {
        let example = match protocol {
            Protocol::Esp => "(aes-128-gcm) or (aes-128-cbc,hmac-sha256-128)",
            Protocol::Ah => "(hmac-sha256-128)",
        };
        refused(format!("a suite of {}, for example {example}", protocol.name()))
    })?;
    let headers_bytes = match context.above().map(|above| above.name.as_str()) {
        Some("ip") => IPV4_BYTES,
        Some("ipv6") => IPV6_BYTES,
        _ => return Err(refused("a place right below ip or ipv6, whose packets it protects".to_owned())),
    };
    let parameters = Parameters {
        spi: SPI_MIN + context.association(),
        peer: PeerId(0),
        protocol,
        mode: Mode::Transport,
        suite,
        sequence: SequenceBits::Extended,
        lifetime: Lifetime::default(),
    };
    let material = |way| context.material(layer, way, suite.material_bytes());
    let implementations = context.implementations;
    let now = Instant::now();
    // Numbers count from 1 (RFC 4303, section 2.2).
    let outbound = Outbound::new(implementations, parameters, &material(Way::Down), 1, now);
    let inbound = Inbound::new(implementations, parameters, &material(Way::Up), WINDOW_PACKETS, now);
    Ok(Arc::new(Security {
        outbound: outbound.map_err(|error| refused(error.to_string()))?,
        inbound: inbound.map_err(|error| refused(error.to_string()))?,
        headers_bytes,
        ignores_verdicts: context.ignores_verdicts(),
    }))
}

fn verdict(reason: DropReason) -> Verdict {
    match reason {
        DropReason::BadIntegrity => Verdict::Forged,
        DropReason::Duplicate | DropReason::TooOld => Verdict::Replayed,
        DropReason::NoRoom | DropReason::TooBig => Verdict::TooLong,
        _ => Verdict::Malformed,
    }
}

/// Sets a packet's bounds to its present position.
fn bound(packet: &mut Packet, start: u32, end: usize) -> Result<(), Verdict> {
    let span = packet.span();
    let moved = if start <= span.start {
        packet.push_front((span.start - start) as usize).ok_or(Verdict::TooLong)
    } else {
        packet.pull_front((start - span.start) as usize).ok_or(Verdict::Malformed)
    };
    moved?;
    let now_ends = packet.span().end();
    let moved = if end >= now_ends {
        packet.push_back(end - now_ends).ok_or(Verdict::TooLong)
    } else {
        packet.pull_back(now_ends - end).ok_or(Verdict::Malformed)
    };
    moved.map(drop)
}

impl Security {
    fn seal(&self, batch: &mut Batch) {
        batch.clear_jobs(Direction::Seal);
        let association = self.outbound.association();
        let Batch { work, packets, first, notes, .. } = batch;
        let frames: &mut Frames = notes.of();
        frames.clear();
        let session = work.session(association.session()).expect("the first of a work");
        let mut ivs = Ivs::new(association.parameters().suite);
        for (number, packet) in (*first + 1..).zip(packets).filter(|(_, packet)| packet.is_passed()) {
            let given = Given { number, iv: ivs.next(), session };
            let span = packet.span();
            let bytes = work.buffer.bytes_mut();
            let has_room =
                packet.headroom_bytes() >= HEADROOM_BYTES && packet.tailroom_bytes() >= TAILROOM_BYTES;
            let framed = if has_room {
                frame::seal(&self.outbound, bytes, span, &NO_OUTER, Alignment::Rfc, &given).map_err(verdict)
            } else {
                Err(Verdict::TooLong)
            };
            let framed = framed.and_then(|framed| {
                bound(packet, framed.packet.start, framed.packet.end())?;
                Ok(framed)
            });
            match framed {
                Ok(framed) => {
                    work.jobs.push(framed.job);
                    frames.framed.push(framed);
                }
                Err(verdict) => packet.refuse(verdict),
            }
        }
    }

    fn open(&self, batch: &mut Batch) {
        batch.clear_jobs(Direction::Open);
        let Batch { work, packets, notes, .. } = batch;
        let frames: &mut Frames = notes.of();
        frames.clear();
        let session = work.session(self.inbound.association().session()).expect("the first of a work");
        let window = self.inbound.window();
        for packet in packets.iter_mut().filter(|packet| packet.is_passed()) {
            match frame::open(&self.inbound, &window, work.buffer.bytes_mut(), packet.span(), session) {
                Ok(opening) => {
                    work.jobs.push(opening.job);
                    frames.openings.push(opening);
                }
                Err(reason) => packet.refuse(verdict(reason)),
            }
        }
    }

    fn finish(batch: &mut Batch) {
        let Batch { work, packets, notes, .. } = batch;
        let frames: &mut Frames = notes.of();
        let passed = packets.iter_mut().filter(|packet| packet.is_passed());
        for ((packet, framed), job) in passed.zip(&frames.framed).zip(&work.jobs) {
            framed.finish(work.buffer.bytes_mut());
            if job.status != JobStatus::Done {
                packet.refuse(Verdict::Malformed);
            }
        }
    }

    fn unframe(&self, batch: &mut Batch) {
        let Batch { work, packets, notes, .. } = batch;
        let frames: &mut Frames = notes.of();
        let mut window = self.inbound.window();
        let passed = packets.iter_mut().filter(|packet| packet.is_passed());
        for ((packet, opening), job) in passed.zip(&frames.openings).zip(&work.jobs) {
            let bytes = work.buffer.bytes_mut();
            let opened = if self.ignores_verdicts {
                opening.strip(&self.inbound, bytes)
            } else {
                opening.unframe(&self.inbound, &mut window, job, bytes)
            };
            let bounded =
                opened.map_err(verdict).and_then(|opened| bound(packet, opened.start, opened.end()));
            if let Err(verdict) = bounded {
                packet.refuse(verdict);
            }
        }
    }
}

impl Layer for Security {
    /// Returns the room that framing needs around every packet of a buffer.
    fn overhead(&self) -> Overhead {
        Overhead { head_bytes: HEADROOM_BYTES, tail_bytes: TAILROOM_BYTES }
    }

    fn packet_bytes(&self, below: usize) -> usize {
        let Parameters { protocol, suite, .. } = *self.outbound.association().parameters();
        let behind = below.saturating_sub(self.headers_bytes);
        let payload_bytes = match protocol {
            Protocol::Esp => {
                let longest = Shape::of(suite).payload_bytes_max(behind.try_into().unwrap_or(u32::MAX));
                longest.unwrap_or(0) as usize
            }
            Protocol::Ah => {
                behind.saturating_sub(header_bytes(suite, Alignment::Rfc, self.headers_bytes == IPV6_BYTES))
            }
        };
        self.headers_bytes + payload_bytes
    }

    fn enter(&self, way: Way, batch: &mut Batch) {
        match way {
            Way::Down => self.seal(batch),
            Way::Up => self.open(batch),
        }
    }

    fn leave(&self, way: Way, batch: &mut Batch) {
        match way {
            Way::Down => Self::finish(batch),
            Way::Up => self.unframe(batch),
        }
    }
}

/// Unpredictable initialisation vectors, for suites that require them (RFC 3602, section 3).
struct Ivs {
    is_wanted: bool,
    /// Vectors of 16 bytes each, drawn for several packets at once.
    drawn: [[u8; 16]; 16],
    left: usize,
}

impl Ivs {
    fn new(suite: Suite) -> Self {
        Self { is_wanted: matches!(suite.iv(), Iv::Random(_)), drawn: [[0; 16]; 16], left: 0 }
    }

    fn next(&mut self) -> [u8; 16] {
        if !self.is_wanted {
            return [0; 16];
        }
        if self.left == 0 {
            getrandom::fill(self.drawn.as_flattened_mut()).expect("the system gives random bytes");
            self.left = self.drawn.len();
        }
        self.left -= 1;
        self.drawn[self.left]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stacks::catalogue;
    use sealane_engine::record::Secret;
    use sealane_engine::{Engine as _, Inline};
    use sealane_stack::{End, Stack};
    use sealane_transform::Kernels;
    use std::collections::VecDeque;

    fn stack(text: &str, end: End) -> Stack {
        let context = Context::new(Kernels::best(), Secret::new([3; 32]), end).with_association(5);
        catalogue().stack(&text.parse().unwrap(), &context).unwrap()
    }

    /// Returns the packets that leave a stack in one direction, with the verdicts.
    fn pass(stack: &Stack, way: Way, packets: &[Vec<u8>]) -> Vec<Result<Vec<u8>, Verdict>> {
        let room = stack.overhead();
        let bytes = |packet: &Vec<u8>| packet.len() + room.head_bytes + room.tail_bytes + 64;
        let mut batch = Batch::new(packets.iter().map(bytes).sum(), packets.len());
        for packet in packets {
            assert!(batch.push_bytes(room.head_bytes, packet, room.tail_bytes));
        }
        let mut queue = Inline::new(Kernels::best()).queue(std::num::NonZeroUsize::MIN).unwrap();
        for step in 0..stack.layers().len() {
            let layer = stack.layer(way, step).unwrap();
            layer.enter(way, &mut batch);
            if batch.work.pending() > 0 {
                let mut works = VecDeque::from([std::mem::take(&mut batch.work)]);
                queue.submit(&mut works);
                batch.work = queue.finished().unwrap();
            }
            layer.leave(way, &mut batch);
            batch.clear_jobs(batch.work.direction);
        }
        let of = |index: usize| match batch.packets[index].verdict {
            Verdict::Passed => Ok(batch.bytes(index).to_vec()),
            verdict => Err(verdict),
        };
        (0..packets.len()).map(of).collect()
    }

    fn sent(stack: &Stack, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
        pass(stack, Way::Down, packets).into_iter().map(Result::unwrap).collect()
    }

    const STACKS: [&str; 6] = [
        "udp/ip/esp(aes-128-gcm)/fddi",
        "udp/ipv6/esp(chacha20-poly1305)/fddi",
        "udp/ip/esp(aes-256-cbc,hmac-sha256-128)/fddi",
        "udp/ip/esp(aes-128-gmac)",
        "udp/ip/ah(hmac-sha1-96)/fddi",
        "udp/ipv6/ah(hmac-sha256-128)",
    ];

    #[test]
    fn what_is_sent_arrives_and_nothing_else_does() {
        let packets: Vec<Vec<u8>> = (0..40).map(|index| vec![index as u8; 1 + 37 * index]).collect();
        for text in STACKS {
            let (near, far) = (stack(text, End::Near), stack(text, End::Far));
            let wire = sent(&near, &packets);
            for (packet, wire) in packets.iter().zip(&wire) {
                assert!(wire.len() > packet.len() + 28, "{text}");
            }
            let arrived: Vec<_> = pass(&far, Way::Up, &wire);
            assert!(
                arrived.iter().zip(&packets).all(|(arrived, sent)| arrived.as_ref() == Ok(sent)),
                "{text}"
            );
            let again = pass(&far, Way::Up, &wire);
            assert!(again.iter().all(|packet| *packet == Err(Verdict::Replayed)), "{text}: {again:?}");
        }
    }

    #[test]
    fn what_was_altered_goes_no_further() {
        for text in STACKS {
            let (near, far) = (stack(text, End::Near), stack(text, End::Far));
            let wire = sent(&near, &[vec![7; 200]]).remove(0);
            let last = wire.len() - 1;
            for at in [last, last - 20, wire.len() - 100] {
                let mut altered = wire.clone();
                altered[at] ^= 1;
                assert_eq!(pass(&far, Way::Up, &[altered]), [Err(Verdict::Forged)], "{text}, byte {at}");
            }
            assert!(pass(&far, Way::Up, &[wire[..30].to_vec()])[0].is_err(), "{text}");
            assert_eq!(pass(&far, Way::Up, &[wire]), [Ok(vec![7; 200])], "{text}");
        }
    }

    #[test]
    fn batches_may_overtake_each_other() {
        let text = STACKS[0];
        let (near, far) = (stack(text, End::Near), stack(text, End::Far));
        let wire = sent(&near, &(0..30).map(|index| vec![index; 40]).collect::<Vec<_>>());
        let mut numbered: Vec<Vec<u8>> = wire.chunks(3).rev().flatten().cloned().collect();
        numbered.rotate_left(7);
        assert!(pass(&far, Way::Up, &numbered).iter().all(Result::is_ok));
    }

    #[test]
    fn a_suite_that_is_none_and_a_place_that_is_wrong_are_refused_with_what_is_right() {
        let refused = |text: &str| {
            let context = Context::new(Kernels::best(), Secret::new([3; 32]), End::Near);
            catalogue().stack(&text.parse().unwrap(), &context).unwrap_err().to_string()
        };
        assert!(refused("udp/ip/esp(rot13)/fddi").contains("(aes-128-gcm)"));
        assert!(refused("udp/ip/ah").contains("(hmac-sha256-128)"));
        assert!(refused("udp/ip/ah(aes-128-gcm)").contains("ah"));
        assert!(refused("udp/esp(aes-128-gcm)/ip").contains("right below ip"));
    }
}
