//! `tcp`: a connection (crate `tcp`) per association, which is opened automatically. If there is a layer above, its
//! packets arrive whole: each is preceded by its length in 4 bytes in the stream. Without a layer above, the stream's
//! bytes arrive in pieces.
//!
//! Checksums, headers and copies are made outside the connection's turn: `enter` reads headers, `leave` writes each
//! segment into a separate packet, because the layers below may change the bytes while the message waits to be
//! acknowledged.
//!
//! Guarantees: the sent bytes come up complete, once and in order, even if the link loses or reorders packets;
//! messages wait here, including unacknowledged ones, in a bounded number of batches, and at this bound the source is
//! not asked; packets that cannot be kept for lack of batches are dropped, as by a station without buffers, and are
//! sent again.

use std::{
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use sealane_engine::Span;
use sealane_tcp::{
    Config, HEADER_BYTES_MAX, Payload, Ports, Secrets, Segment, Seq, Time, Transmit, decode, encode,
};
use sealane_wire::{Sum, TCP_BYTES, Tcp, protocol};

use crate::{
    Context, End, Kind, Layer, Outbox, Overhead, Way, network,
    spec::no_arguments,
    transport::{BATCHES_KEPT, FRAME_BYTES, Held, Laid, Parsed, State},
};
use sealane_port::{Batch, Verdict};

pub(crate) const KIND: Kind = Kind {
    names: || vec!["tcp".to_owned()],
    make: |layer, context| {
        no_arguments(layer)?;
        Ok(Arc::new(TcpLayer::new(context)))
    },
};

#[derive(Debug)]
struct TcpLayer {
    ports: Ports,
    pseudo: Option<Sum>,
    is_framed: bool,
    ignores_verdicts: bool,
    /// The zero of TCP's time.
    epoch: Instant,
    has_room: AtomicBool,
    held: Arc<Held>,
    /// There is no contention, because the crew runs one direction at a time.
    state: Mutex<State>,
}

impl TcpLayer {
    fn new(context: &Context) -> Self {
        let mut secret = [0; 8];
        let end: &[u8] = if context.end == End::Near { b"near" } else { b"far" };
        context.secret.expand(&[b"tcp", end], &mut secret);
        let [a, b, c, d, e, f, g, h] = secret;
        let secrets = Secrets {
            isn: Seq(u32::from_be_bytes([a, b, c, d])),
            timestamp_offset: u32::from_be_bytes([e, f, g, h]),
        };
        let mss = context.packet_bytes().saturating_sub(TCP_BYTES).clamp(64, usize::from(u16::MAX));
        let config = Config {
            mss: mss as u16,
            nagle: false,
            join_messages: false,
            receive_bytes: 1 << 20,
            reassembly_segments: 512,
            ..Config::default()
        };
        let is_framed = context.above().is_some();
        let held = Arc::new(Held::new(2 * BATCHES_KEPT));
        let opens = context.end == End::Near;
        let state =
            State::new(config, secrets, opens, is_framed, context.overhead_below(), Arc::clone(&held));
        Self {
            ports: context.ports(),
            pseudo: network::pseudo(context, protocol::TCP),
            is_framed,
            ignores_verdicts: context.ignores_verdicts,
            epoch: Instant::now(),
            has_room: AtomicBool::new(true),
            held,
            state: Mutex::new(state),
        }
    }

    fn time(&self, now: Instant) -> Time {
        Time::ZERO + now.saturating_duration_since(self.epoch)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no lane panics holding a connection")
    }

    fn note(&self, state: &State) {
        self.has_room.store(state.has_room(), Relaxed);
    }

    /// Returns a segment's header, and the position at which its payload starts.
    fn read(&self, bytes: &[u8]) -> Result<(sealane_tcp::Header, usize), Verdict> {
        if let Some(pseudo) = self.pseudo {
            let tcp = Tcp::parse(bytes).map_err(|_| Verdict::Malformed)?;
            let is_right = tcp.checksum_is_right(pseudo.double(bytes.len() as u32));
            if !is_right && !self.ignores_verdicts {
                return Err(Verdict::Damaged);
            }
        }
        let (ports, header, payload_at) = decode(bytes).map_err(|_| Verdict::Malformed)?;
        let is_ours = (ports.source, ports.destination) == (self.ports.destination, self.ports.source);
        is_ours.then_some((header, payload_at)).ok_or(Verdict::Unwanted)
    }

    /// Writes a segment into its packet, if the packet has room for it.
    fn write(
        &self,
        transmit: &Transmit,
        packet: &mut sealane_port::Packet,
        bytes: &mut [u8],
    ) -> Result<(), Verdict> {
        for part in transmit.parts.iter() {
            let span = packet.push_back(part.bytes as usize).ok_or(Verdict::TooLong)?;
            // Bytes that were acknowledged meanwhile need not be sent again.
            let copied = self.held.copy(*part, &mut bytes[span.range()]);
            copied.then_some(()).ok_or(Verdict::Unwanted)?;
        }
        let mut header = [0; HEADER_BYTES_MAX];
        let header_bytes =
            encode(self.ports, &transmit.header, &mut header).map_err(|_| Verdict::Malformed)?;
        let span = packet.push_front(header_bytes).ok_or(Verdict::TooLong)?;
        bytes[span.range()].copy_from_slice(&header[..header_bytes]);
        if let Some(pseudo) = self.pseudo {
            let segment = &mut bytes[packet.span().range()];
            let pseudo = pseudo.double(segment.len() as u32);
            Tcp::parse(segment).map_err(|_| Verdict::Malformed)?.fill_checksum(pseudo);
        }
        Ok(())
    }
}

impl Layer for TcpLayer {
    fn overhead(&self) -> Overhead {
        let frame_bytes = if self.is_framed { FRAME_BYTES } else { 0 };
        Overhead { head_bytes: HEADER_BYTES_MAX + frame_bytes, tail_bytes: 0 }
    }

    /// A stream takes packets of any length.
    fn packet_bytes(&self, _below: usize) -> usize {
        usize::from(u16::MAX)
    }

    fn is_serial(&self, _: Way) -> bool {
        true
    }

    fn enter(&self, way: Way, batch: &mut Batch) {
        let Batch { work, packets, notes, .. } = batch;
        let bytes = work.buffer.bytes_mut();
        let Parsed(segments) = notes.of();
        segments.clear();
        for (index, packet) in packets.iter_mut().enumerate().filter(|(_, packet)| packet.is_passed()) {
            match way {
                Way::Down if self.is_framed => {
                    let length = (packet.len() as u32).to_be_bytes();
                    match packet.push_front(FRAME_BYTES) {
                        Some(Span { start, .. }) => {
                            bytes[start as usize..][..FRAME_BYTES].copy_from_slice(&length);
                        }
                        None => packet.refuse(Verdict::TooLong),
                    }
                }
                Way::Down => {}
                Way::Up => match self.read(&bytes[packet.span().range()]) {
                    Ok((header, payload_at)) => {
                        packet.pull_front(payload_at);
                        let Span { start, len } = packet.span();
                        let payload = Payload { slot: index as u32, start, bytes: len };
                        segments.push(Segment { header, payload });
                    }
                    Err(verdict) => packet.refuse(verdict),
                },
            }
        }
    }

    fn serial(&self, way: Way, batch: Batch, now: Instant, out: &mut Outbox<'_>) {
        let mut state = self.state();
        let time = self.time(now);
        match way {
            Way::Down => state.send(batch, time, out),
            Way::Up => state.receive(batch, time, out),
        }
        self.note(&state);
    }

    fn leave(&self, way: Way, batch: &mut Batch) {
        if way == Way::Up {
            return;
        }
        let Batch { work, packets, notes, is_unwritten, .. } = batch;
        let bytes = work.buffer.bytes_mut();
        let Laid(transmits) = notes.of();
        for (packet, transmit) in packets.iter_mut().zip(transmits.iter()) {
            if let Err(verdict) = self.write(transmit, packet, bytes) {
                packet.refuse(verdict);
            }
        }
        transmits.clear();
        *is_unwritten = false;
    }

    fn has_room(&self) -> bool {
        self.has_room.load(Relaxed)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let deadline = self.state().deadline()?;
        Some(self.epoch + Duration::from_nanos(deadline.as_ns()))
    }

    fn handle_timeout(&self, now: Instant, out: &mut Outbox<'_>) {
        let mut state = self.state();
        state.on_deadline(self.time(now), out);
        self.note(&state);
    }
}
