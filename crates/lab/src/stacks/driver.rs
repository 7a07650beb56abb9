//! The paper's in-memory drivers (Nahum et al., section 3.3): a peer below the stack accepts, acknowledges and sends
//! as fast as it can, and an application above it does the same.
//!
//! Like a network interface, which moves bytes without a processor, they copy no bytes where order is given or
//! restored: a [`Wire`] below the stack does, on any lane.
//!
//! Guarantees: a peer's packets are preconstructed, once, by a stack of the other end; only TCP's numbers are set per
//! packet. So the peer computes no checksum, digest or cipher. The stack under test computes all of them and ignores
//! the result. No packet is lost or late; data beyond the stack's window is not sent. Messages are random, and new
//! for each run.

use super::catalogue;
use super::demux::Demux;
use crate::LabError;
use crate::rng::Rng;
use sealane_engine::record::Secret;
use sealane_engine::{Engine as _, Inline, Queue};
use sealane_port::{Batch, Verdict};
use sealane_stack::{Context, End, Layer, Overhead, Sink, Source, Spec, Way};
use sealane_tcp::{Flags, HEADER_BYTES_MAX, Header, Options, Seq, decode, encode};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

/// The maximum of messages per batch: for TCP, whose window holds few, and for datagrams, which come in bursts.
pub(super) const SEGMENTS: usize = 8;
const DATAGRAMS: usize = 32;
/// The maximum of bytes of a burst with more messages than TCP has: a share of a core's second-level cache.
const BURST_BYTES: usize = 128 << 10;
/// The peer's first number.
const ISN: u32 = 1000;

/// Whether data moves. Handshakes are always allowed.
pub(super) type Gate = Arc<AtomicBool>;

/// Packets as the peer sends them.
#[derive(Debug)]
struct Templates {
    /// The offset of the transport's header and ports; `None` if a layer below has encrypted them.
    transport_at: Option<usize>,
    is_tcp: bool,
    syn_ack: Vec<u8>,
    ack: Vec<u8>,
    data: Vec<u8>,
    /// Bytes of a data packet in TCP's stream.
    data_bytes: u32,
    /// The number of messages per batch.
    batch: usize,
}

#[derive(Debug, Default)]
struct State {
    /// The answer to a SYN.
    answer: Option<u32>,
    is_open: bool,
    /// Acknowledgements to be sent.
    acks: VecDeque<u32>,
    /// Data segments since the last acknowledgement.
    unacknowledged: u32,
    /// The next sequence numbers of the stack under test and of the peer.
    received: u32,
    sent: u32,
    /// The end of the peer's send window, and the scale of windows.
    edge: u32,
    scale: u8,
}

/// One connection's peer and application.
#[derive(Debug)]
pub(super) struct Driver {
    templates: Templates,
    receives: bool,
    gate: Gate,
    state: Mutex<State>,
    /// Messages that have passed the stack.
    pub(super) messages: AtomicU64,
}

fn run(layer: &Arc<dyn Layer>, batch: &mut Batch, queue: &mut dyn Queue) {
    layer.enter(Way::Down, batch);
    if batch.work.pending() > 0 {
        let mut works = VecDeque::from([std::mem::take(&mut batch.work)]);
        queue.submit(&mut works);
        batch.work = queue.finished().expect("it computes at once");
    }
    layer.leave(Way::Down, batch);
    batch.clear_jobs(batch.work.direction);
}

impl Templates {
    fn new(spec: &Spec, context: &Context, message_bytes: usize) -> Result<Self, LabError> {
        let unavailable = |what: String| LabError::Unavailable(format!("stack {spec}: {what}"));
        let refused = |what: String| LabError::Stack(format!("stack {spec}: {what}"));
        let transport = spec
            .layers()
            .iter()
            .position(|layer| matches!(layer.name.as_str(), "tcp" | "udp"))
            .ok_or_else(|| refused("the driver needs a transport, tcp or udp".to_owned()))?;
        let is_tcp = spec.layers()[transport].name == "tcp";
        let stack = catalogue().stack(spec, context).map_err(|error| refused(error.to_string()))?;
        let (above, below) = (&stack.layers()[..=transport], &stack.layers()[transport + 1..]);
        let mut queue = Inline::new(context.implementations)
            .queue(NonZeroUsize::MIN)
            .map_err(|error| unavailable(error.to_string()))?;
        let room = stack.overhead();
        let mut make = |layers: &[Arc<dyn Layer>], bytes: &[u8]| {
            let mut batch = Batch::new(bytes.len() + room.head_bytes + room.tail_bytes + 128, 1);
            let fits = batch.push_bytes(room.head_bytes, bytes, room.tail_bytes);
            assert!(fits, "the batch was made for it");
            layers.iter().for_each(|layer| run(layer, &mut batch, queue.as_mut()));
            let passed = batch.passed().next().map(<[u8]>::to_vec);
            passed.ok_or_else(|| unavailable(format!("no packet holds {message_bytes} bytes")))
        };
        // TCP's own part is the length before a message.
        let content = make(above, &vec![0x5a; message_bytes])?;
        // Layers that only add a header leave the rest of the packet unchanged.
        let header_bytes_of =
            |packet: &[u8], content: &[u8]| packet.ends_with(content).then(|| packet.len() - content.len());
        if !is_tcp {
            let data = make(below, &content)?;
            let transport_at = header_bytes_of(&data, &content);
            let (syn_ack, ack) = (Vec::new(), Vec::new());
            let batch = (BURST_BYTES / message_bytes).clamp(SEGMENTS, DATAGRAMS);
            return Ok(Self { transport_at, is_tcp, syn_ack, ack, data, data_bytes: 0, batch });
        }
        let mut transport_at = None;
        let mut segment = |flags, options, content: &[u8]| {
            let header = Header { seq: Seq(ISN), ack: Seq(0), flags, window: u16::MAX, options };
            let mut bytes = [0; HEADER_BYTES_MAX];
            let header_bytes = encode(context.ports(), &header, &mut bytes).expect("room for a header");
            let segment = [&bytes[..header_bytes], content].concat();
            let packet = make(below, &segment)?;
            transport_at = Some(header_bytes_of(&packet, &segment).ok_or_else(|| {
                unavailable("the driver cannot number segments that are enciphered below TCP".to_owned())
            })?);
            Ok::<_, LabError>(packet)
        };
        let options = Options {
            mss: Some(u16::MAX),
            window_scale: Some(7),
            sack_permitted: true,
            ..Options::default()
        };
        let syn_ack = segment(Flags::SYN | Flags::ACK, options, &[])?;
        let ack = segment(Flags::ACK, Options::default(), &[])?;
        let data = segment(Flags::ACK | Flags::PSH, Options::default(), &content)?;
        let data_bytes = content.len() as u32;
        Ok(Self { transport_at, is_tcp, syn_ack, ack, data, data_bytes, batch: SEGMENTS })
    }
}

impl Driver {
    /// Returns a peer of the association that has this context at its near end.
    pub(super) fn new(
        spec: &Spec,
        secret: &Secret,
        association: u32,
        message_bytes: usize,
        receives: bool,
        gate: &Gate,
    ) -> Result<Arc<Self>, LabError> {
        let context = Context::new(sealane_transform::Kernels::best(), secret.clone(), End::Far)
            .with_association(association);
        Ok(Arc::new(Self {
            templates: Templates::new(spec, &context, message_bytes)?,
            receives,
            gate: Arc::clone(gate),
            state: Mutex::default(),
            messages: AtomicU64::new(0),
        }))
    }

    /// Returns whether data can move.
    pub(super) fn is_open(&self) -> bool {
        !self.templates.is_tcp || self.state().is_open
    }

    /// Returns the maximum of messages per batch.
    ///
    /// Two lanes that share a connection hand locks, places in its order and batches to each other once per batch.
    /// All other work takes a microsecond or two for eight datagrams of 4 KB, which is less than that.
    pub(super) fn batch(&self) -> usize {
        self.templates.batch
    }

    /// Returns a packet of the peer.
    pub(super) fn packet(&self) -> &[u8] {
        &self.templates.data
    }

    /// Returns the offset of a packet's ports, if they can be read.
    pub(super) fn ports_at(&self) -> Option<usize> {
        self.templates.transport_at
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no lane panics holding a driver")
    }

    fn may_move(&self) -> bool {
        self.gate.load(Relaxed)
    }

    fn count(&self, messages: usize) {
        self.messages.fetch_add(messages as u64, Relaxed);
    }
}

/// The sink of the stack's packets.
pub(super) struct WireSink(pub(super) Arc<Driver>);

impl Sink for WireSink {
    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        let Driver { templates, receives, .. } = &*self.0;
        let packets = batch.packets.len() - from;
        let Some(tcp_at) = templates.tcp_at() else {
            if !receives {
                self.0.count(batch.packets[from..].iter().filter(|packet| packet.is_passed()).count());
            }
            return Ok(packets);
        };
        let mut state = self.0.state();
        let mut messages = 0;
        let sent = (from..batch.packets.len()).filter(|&index| batch.packets[index].is_passed());
        for segment in sent.filter_map(|index| batch.bytes(index).get(tcp_at..)) {
            let Ok((_, header, payload_at)) = decode(segment) else { continue };
            if header.flags.has(Flags::SYN) {
                state.answer = Some((header.seq + 1).0);
                state.received = (header.seq + 1).0;
                state.scale = header.options.window_scale.unwrap_or(0);
                state.edge = ISN;
                continue;
            }
            state.is_open = true;
            let edge = header.ack + (u32::from(header.window) << state.scale);
            state.edge = Seq(state.edge).later(edge).0;
            let bytes = (segment.len() - payload_at) as u32;
            if bytes == 0 {
                continue;
            }
            // No packet is lost here: a segment that is not new was retransmitted.
            if header.seq == Seq(state.received) {
                state.received = (header.seq + bytes).0;
                messages += 1;
            }
            state.unacknowledged += 1;
            if state.unacknowledged == 2 {
                let ack = state.received;
                state.acks.push_back(ack);
                state.unacknowledged = 0;
            }
        }
        drop(state);
        if !receives {
            self.0.count(messages);
        }
        Ok(packets)
    }
}

/// The source of the peer's packets.
pub(super) struct WireSource(pub(super) Arc<Driver>);

/// The template of a packet.
#[derive(Clone, Copy, Debug)]
enum Kind {
    SynAck,
    Ack,
    Data,
}

impl Templates {
    /// Returns the offset of TCP's header; `None` over UDP.
    fn tcp_at(&self) -> Option<usize> {
        self.transport_at.filter(|_| self.is_tcp)
    }

    fn of(&self, kind: Kind) -> &[u8] {
        match kind {
            Kind::SynAck => &self.syn_ack,
            Kind::Ack => &self.ack,
            Kind::Data => &self.data,
        }
    }
}

/// Bytes of the note that a packet carries until [`Wire`] has written it: its kind, and TCP's numbers.
const NOTE_BYTES: usize = 9;

/// Adds a packet that [`Wire`] will write.
fn push(batch: &mut Batch, templates: &Templates, kind: Kind, seq: u32, ack: u32) -> bool {
    let bytes = templates.of(kind).len();
    let Some(packet) = batch.push(0, bytes, 0) else { return false };
    packet.push_back(bytes).expect("it was laid out for so many bytes");
    let last = batch.packets.len() - 1;
    let note = &mut batch.bytes_mut(last)[..NOTE_BYTES];
    note[0] = kind as u8;
    note[1..5].copy_from_slice(&seq.to_be_bytes());
    note[5..].copy_from_slice(&ack.to_be_bytes());
    true
}

/// The lowest layer: it writes the packets that came in, and finds their flows.
#[derive(Debug)]
pub(super) struct Wire {
    pub(super) driver: Arc<Driver>,
    pub(super) demux: Arc<Demux>,
    /// The driver's index in the demultiplexer.
    pub(super) flow: usize,
}

impl Layer for Wire {
    fn enter(&self, way: Way, batch: &mut Batch) {
        if way == Way::Down {
            return;
        }
        let templates = &self.driver.templates;
        for index in 0..batch.packets.len() {
            let bytes = batch.bytes_mut(index);
            let Some(&note) = bytes.first_chunk::<NOTE_BYTES>() else { continue };
            let kind = [Kind::SynAck, Kind::Ack, Kind::Data][usize::from(note[0])];
            bytes.copy_from_slice(templates.of(kind));
            if let Some(tcp_at) = templates.tcp_at() {
                bytes[tcp_at + 4..][..8].copy_from_slice(&note[1..]);
            }
        }
        let Some(ports_at) = self.driver.ports_at() else { return };
        let finder = self.demux.finder();
        for index in 0..batch.packets.len() {
            if finder.find(batch.bytes(index), ports_at) != Some(self.flow) {
                batch.packets[index].refuse(Verdict::Unwanted);
            }
        }
    }
}

fn some(packets: usize) -> io::Result<usize> {
    if packets == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(packets) }
}

impl Source for WireSource {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let driver = &*self.0;
        let templates = &driver.templates;
        let mut packets = 0;
        if !templates.is_tcp {
            let sends = driver.receives && driver.may_move();
            while sends && packets < templates.batch && push(batch, templates, Kind::Data, 0, 0) {
                packets += 1;
            }
            return some(packets);
        }
        let mut state = driver.state();
        if let Some(ack) = state.answer
            && push(batch, templates, Kind::SynAck, ISN, ack)
        {
            state.answer = None;
            state.sent = ISN + 1;
            packets += 1;
        }
        // Between two slices nothing stays in flight, so that no timer expires.
        if !driver.may_move() && state.unacknowledged > 0 {
            let ack = state.received;
            state.acks.push_back(ack);
            state.unacknowledged = 0;
        }
        while packets < templates.batch
            && let Some(&ack) = state.acks.front()
            && push(batch, templates, Kind::Ack, state.sent, ack)
        {
            state.acks.pop_front();
            packets += 1;
        }
        let sends = driver.receives && state.is_open && driver.may_move();
        while sends
            && packets < templates.batch
            && (Seq(state.sent) + templates.data_bytes).is_at_most(Seq(state.edge))
            && push(batch, templates, Kind::Data, state.sent, state.received)
        {
            state.sent = (Seq(state.sent) + templates.data_bytes).0;
            packets += 1;
        }
        some(packets)
    }
}

/// The source of the application's messages. Each buffer is filled with random bytes when it is first used (N18), and
/// remains random afterwards: it holds ciphertext, or the data that was sent before.
pub(super) struct MessageSource {
    driver: Arc<Driver>,
    message_bytes: usize,
    room: Overhead,
    rng: Rng,
}

impl MessageSource {
    pub(super) fn new(driver: &Arc<Driver>, message_bytes: usize, room: Overhead, rng: &mut Rng) -> Self {
        Self { driver: Arc::clone(driver), message_bytes, room, rng: Rng::new(rng.next_u64()) }
    }
}

impl Source for MessageSource {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        if self.driver.receives || !self.driver.may_move() {
            return some(0);
        }
        let mut packets = 0;
        while packets < self.driver.batch() {
            let Overhead { head_bytes, tail_bytes } = self.room;
            let Some(packet) = batch.push(head_bytes, self.message_bytes, tail_bytes) else { break };
            packet.push_back(self.message_bytes).expect("it was laid out for so many bytes");
            let message = batch.bytes_mut(packets);
            let middle = message.len() / 2;
            if message[middle..].iter().take(64).all(|&byte| byte == 0) {
                self.rng.fill(message);
            }
            packets += 1;
        }
        some(packets)
    }
}

/// The sink of the application's messages.
pub(super) struct MessageSink(pub(super) Arc<Driver>);

impl Sink for MessageSink {
    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        let packets = &batch.packets[from..];
        self.0.count(packets.iter().filter(|packet| packet.is_passed()).count());
        Ok(packets.len())
    }
}
