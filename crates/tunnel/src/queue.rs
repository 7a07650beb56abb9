//! Packets of the device that wait for the socket: FQ-CoDel in user space, and a bound on what waits below it.
//!
//! Nobody else can do it: a TUN device drops what it has no room for and never stops its senders, and packets that come out of it
//! have left the accounts by which TCP keeps its own queue short. So the device is read dry, and what the link does not take yet
//! waits here, where flows take turns ([`fair`]) and none stands for long ([`codel`]); the socket gets as much as keeps the link
//! busy for a moment ([`below`]).
//!
//! Guarantees: the order within a flow is the device's; memory is bounded (`LIMIT_BYTES`); a superpacket is cut where a train has to
//! end, and loses a segment by CoDel, never all.

pub mod below;
pub mod codel;
pub mod counters;
pub mod fair;

use std::{io, os::fd::BorrowedFd, time::Instant};

use rustix::event::{PollFd, PollFlags};
use sealane_ipsec::marks::Ecn;
use sealane_port::{
    Batch, Port as _, Room,
    tun::{Tun, WHOLE_BYTES, pieces},
};
use sealane_wire::{Ipv4, protocol, virtio::VIRTIO_BYTES};

use self::{
    below::{Below, LEAST_BYTES},
    counters::Counters,
    fair::{Fair, Fate, Parcel, Taker},
};
use crate::{outside::Outside, queueing::Queueing};

/// The memory of waiting packets in bytes.
const LIMIT_BYTES: u32 = 8 << 20;
/// The lengths of buffers: a packet is charged for its own, not for its bytes.
const BUFFERS: [usize; 4] = [512, 2048, 16 << 10, WHOLE_BYTES];
/// The superpackets and bytes that are read before some are sent.
const READ_MAX: (usize, usize) = (256, 512 << 10);
/// The memory that the kernel takes for a packet beside its bytes.
const KERNEL_BYTES: u32 = 768;

/// A superpacket that waits.
#[derive(Debug)]
struct Whole {
    buffer: Box<[u8]>,
    /// The length of the superpacket with its virtio-net header.
    used: u32,
    /// The next of its segments, and their number.
    next: u32,
    count: u32,
    header_bytes: u32,
    segment_bytes: u32,
    left_bytes: u32,
}

impl Parcel for Whole {
    fn left_bytes(&self) -> u32 {
        self.left_bytes
    }

    fn charge_bytes(&self) -> u32 {
        self.buffer.len() as u32
    }

    fn lose_segment(&mut self) -> u32 {
        let lost = match self.next + 1 >= self.count {
            true => self.left_bytes,
            false => self.header_bytes + self.segment_bytes,
        };
        self.next += 1;
        self.left_bytes -= lost;
        lost
    }

    fn mark(&mut self) -> bool {
        let packet = &mut self.buffer[VIRTIO_BYTES..self.used as usize];
        let class = match packet[0] >> 4 {
            4 => packet[1],
            _ => packet[0] << 4 | packet[1] >> 4,
        };
        match Ecn::of(class) {
            Ecn::NotCapable => return false,
            Ecn::Congested => return true,
            Ecn::Capable0 | Ecn::Capable1 => {}
        }
        if packet[0] >> 4 == 4 {
            let Ok(mut ip) = Ipv4::parse(packet) else { return false };
            ip.set_ecn(Ecn::Congested as u8);
        } else {
            packet[1] |= (Ecn::Congested as u8) << 4;
        }
        true
    }
}

/// Buffers that are free, by length.
#[derive(Debug, Default)]
struct Buffers {
    free: [Vec<Box<[u8]>>; BUFFERS.len()],
    bytes: usize,
}

impl Buffers {
    fn take(&mut self, kind: usize) -> Box<[u8]> {
        match self.free[kind].pop() {
            Some(buffer) => {
                self.bytes -= buffer.len();
                buffer
            }
            None => vec![0; BUFFERS[kind]].into(),
        }
    }

    /// Keeps a buffer, if all that are in use or free are within the limit.
    fn give(&mut self, buffer: Box<[u8]>, in_use: u32) {
        if self.bytes + in_use as usize + buffer.len() > LIMIT_BYTES as usize {
            return;
        }
        if let Some(kind) = BUFFERS.iter().position(|&bytes| bytes == buffer.len()) {
            self.bytes += buffer.len();
            self.free[kind].push(buffer);
        }
    }
}

/// Lays segments into a batch, and counts.
struct Laying<'a> {
    batch: Option<(&'a mut Batch, Room)>,
    buffers: &'a mut Buffers,
    in_use: u32,
    counters: &'a Counters,
}

impl Taker<Whole> for Laying<'_> {
    fn take(&mut self, whole: &mut Whole, most_bytes: u32, waited_ns: u64) -> u32 {
        let Some((batch, room)) = &mut self.batch else { return 0 };
        let Some(pieces) = pieces(&whole.buffer[..whole.used as usize]) else {
            // It was well-formed when it came.
            return std::mem::take(&mut whole.left_bytes);
        };
        let mut laid = 0;
        while whole.next < whole.count {
            let bytes = pieces.bytes(whole.next as usize) as u32;
            if laid > 0 && laid + bytes > most_bytes || !room.push_piece(batch, &pieces, whole.next as usize)
            {
                break;
            }
            laid += bytes;
            whole.next += 1;
        }
        whole.left_bytes = if whole.next == whole.count { 0 } else { whole.left_bytes - laid };
        if laid > 0 {
            self.counters.waited(waited_ns);
        }
        laid
    }

    fn met(&mut self, fate: Fate, whole: &Whole) {
        match fate {
            Fate::Marked => self.counters.add(fate, 1),
            Fate::Lost => self.counters.add(fate, 1),
            Fate::Full => self.counters.add(fate, u64::from(whole.count - whole.next)),
        }
    }

    fn retire(&mut self, whole: Whole) {
        self.buffers.give(whole.buffer, self.in_use);
    }
}

/// Returns a hash of the flow that a packet belongs to: its addresses, protocol and ports. Fragments have no ports.
fn hash(packet: &[u8], seeds: [u64; 2]) -> u64 {
    let word = |at: usize| {
        packet.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |&word| u64::from_ne_bytes(word))
    };
    let half = |at: usize| {
        let word = packet.get(at..).and_then(|rest| rest.first_chunk());
        word.map_or(0, |&word| u64::from(u32::from_ne_bytes(word)))
    };
    let has_ports = |protocol: u8| [protocol::TCP, protocol::UDP].contains(&protocol);
    let byte = |at: usize| packet.get(at).copied().unwrap_or_default();
    let (addresses, kind, ports) = match byte(0) >> 4 {
        4 => {
            let is_piece = byte(6) & 0x3f | byte(7) != 0;
            let upper_at = usize::from(byte(0) & 0xf) * 4;
            let ports = if has_ports(byte(9)) && !is_piece { half(upper_at) } else { 0 };
            ([word(12), 0, 0, 0], byte(9), ports)
        }
        _ => {
            let ports = if has_ports(byte(6)) { half(40) } else { 0 };
            ([word(8), word(16), word(24), word(32)], byte(6), ports)
        }
    };
    // Multiplications whose halves are folded, under seeds that nobody outside knows.
    let fold = |one: u64, other: u64| {
        let product = u128::from(one) * u128::from(other);
        product as u64 ^ (product >> 64) as u64
    };
    let [first, second] = seeds;
    let mut hash = fold(addresses[0] ^ first, addresses[1] ^ second);
    if addresses[2..] != [0, 0] {
        hash = fold(hash ^ addresses[2] ^ first, addresses[3] ^ second);
    }
    fold(hash ^ (ports << 8 | u64::from(kind)) ^ second, first)
}

/// The queue of one device, read by one lane at a time.
#[derive(Debug)]
pub struct Queue {
    fair: Fair<Whole>,
    below: Below,
    buffers: Buffers,
    seeds: [u64; 2],
    begun: Instant,
    /// The bytes that may be below, by the last look and by what was handed on since.
    unsent_bytes: u32,
}

impl Queue {
    /// Returns an empty queue.
    pub fn new() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the system has random bytes once it has booted");
        // An odd factor loses nothing.
        let seed = |at: usize| bytes[at..].first_chunk().map_or(1, |&word| u64::from_ne_bytes(word) | 1);
        Self {
            fair: Fair::new(LIMIT_BYTES),
            below: Below::default(),
            buffers: Buffers::default(),
            seeds: [seed(0), seed(8)],
            begun: Instant::now(),
            unsent_bytes: 0,
        }
    }

    /// Returns whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.fair.is_empty()
    }

    fn now_ns(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    /// Reads `tun` dry, and fills `batch` with a train, in whose turn it is. Waits until there is a packet, and until `outside` has
    /// room for it.
    ///
    /// # Errors
    /// Returns errors of the device.
    pub fn receive(
        &mut self,
        tun: &mut Tun,
        outside: &Outside,
        counters: &Counters,
        batch: &mut Batch,
    ) -> io::Result<()> {
        let room = tun.room();
        loop {
            let mut now_ns = None;
            let may_wait = self.fair.is_empty();
            let (mut count, mut bytes, mut refused) = (0, 0, 0);
            tun.receive_whole(may_wait, |buffer, read| {
                let now_ns = *now_ns.get_or_insert_with(|| self.begun.elapsed().as_nanos() as u64);
                refused += u64::from(!self.push(buffer, read, now_ns, counters));
                (count, bytes) = (count + 1, bytes + read);
                count < READ_MAX.0 && bytes < READ_MAX.1
            })?;
            tun.refused_packets += refused;
            let now_ns = now_ns.unwrap_or_else(|| self.now_ns());
            match self.pause_ns(now_ns, outside) {
                None => {
                    let turn = self.below.turn(now_ns);
                    let in_use = self.fair.charge();
                    let buffers = &mut self.buffers;
                    let mut laying = Laying { batch: Some((batch, room)), buffers, in_use, counters };
                    let laid = self.fair.serve(now_ns, turn, &mut laying);
                    if laid > 0 {
                        let packets = batch.packets.len() as u32;
                        self.unsent_bytes = self.unsent_bytes.saturating_add(laid + packets * KERNEL_BYTES);
                        return Ok(());
                    }
                }
                Some(pause_ns) => {
                    let mut fds: Vec<PollFd<'_>> =
                        tun.fd().iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
                    sealane_lanes::wait(&mut fds, std::time::Duration::from_nanos(pause_ns))?;
                }
            }
        }
    }

    /// Returns the time until there is room below. The socket is asked only if it may have much.
    fn pause_ns(&mut self, now_ns: u64, outside: &Outside) -> Option<u64> {
        if self.unsent_bytes >= LEAST_BYTES {
            self.unsent_bytes = outside.unsent_bytes();
        }
        self.below.pause_ns(now_ns, self.unsent_bytes)
    }

    /// Takes over the superpacket of `read` bytes in `buffer`. Returns `false` if it is malformed.
    fn push(&mut self, buffer: &mut Box<[u8]>, read: usize, now_ns: u64, counters: &Counters) -> bool {
        let Some(pieces) = pieces(&buffer[..read]) else { return false };
        let count = pieces.count() as u32;
        let first = pieces.bytes(0) as u32;
        let last = pieces.bytes(count as usize - 1) as u32;
        let header_bytes = if count > 1 { pieces.header_bytes() as u32 } else { 0 };
        let kind = BUFFERS.iter().position(|&bytes| read <= bytes).unwrap_or(BUFFERS.len() - 1);
        let mut own = self.buffers.take(kind);
        if own.len() == buffer.len() {
            std::mem::swap(&mut own, buffer);
        } else {
            own[..read].copy_from_slice(&buffer[..read]);
        }
        let whole = Whole {
            buffer: own,
            used: read as u32,
            next: 0,
            count,
            header_bytes,
            segment_bytes: first - header_bytes,
            left_bytes: (count - 1) * first + last,
        };
        let hash = hash(&whole.buffer[VIRTIO_BYTES..read], self.seeds);
        let turn = self.below.turn(now_ns).quantum;
        let (in_use, buffers) = (self.fair.charge(), &mut self.buffers);
        let mut laying = Laying { batch: None, buffers, in_use, counters };
        self.fair.push(hash, whole, now_ns, turn, &mut laying);
        true
    }
}

/// The device, with what waits of it.
#[derive(Debug)]
pub struct Source {
    tun: Tun,
    outside: Outside,
    queue: Option<Box<Queue>>,
}

impl Source {
    /// Returns the packets of `tun`, which leave by `outside`.
    pub fn new(queueing: Queueing, tun: Tun, outside: Outside) -> Self {
        let queue = (queueing == Queueing::Fair).then(Box::<Queue>::default);
        Self { tun, outside, queue }
    }

    /// Fills `batch` with the packets that are next, and waits for the first.
    ///
    /// # Errors
    /// Returns errors of the device.
    pub fn receive(&mut self, counters: &Counters, batch: &mut Batch) -> io::Result<()> {
        match &mut self.queue {
            Some(queue) => queue.receive(&mut self.tun, &self.outside, counters, batch),
            None => self.tun.receive(batch).map(drop),
        }
    }

    /// Returns the descriptor that becomes readable when there are packets; `None` if some wait here.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        let waits = self.queue.as_ref().is_some_and(|queue| !queue.is_empty());
        if waits { None } else { self.tun.fd() }
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self::new()
    }
}
