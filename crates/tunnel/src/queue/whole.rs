//! A GSO packet that waits, and the memory in which it does.
//!
//! Guarantees: a parcel is charged for the buffer that it has and for its place in the queue, not for its bytes; buffers are used
//! again, so that there is no allocation once a queue was full.

use sealane_ipsec::marks::Ecn;
use sealane_port::tun::WHOLE_BYTES;
use sealane_wire::{Ipv4, gso::Pieces, protocol, virtio::VIRTIO_BYTES};

use super::{LIMIT_BYTES, fair::Parcel};

/// The lengths of buffers.
const BUFFERS: [usize; 5] = [512, 2048, 5 << 10, 16 << 10, WHOLE_BYTES];
/// The memory of a place in a queue, twice: places grow in steps of two.
pub const PLACE_BYTES: u32 = 128;

/// A GSO packet that waits.
#[derive(Debug)]
pub struct Whole {
    /// The buffer, in which it begins with its virtio-net header.
    pub buffer: Box<[u8]>,
    /// The length of the GSO packet with its virtio-net header.
    pub used: u32,
    /// The next of its segments, and their number.
    pub next: u32,
    /// The number of its segments.
    pub count: u32,
    header_bytes: u32,
    segment_bytes: u32,
    /// The bytes of the segments that are left.
    pub left_bytes: u32,
}

impl Whole {
    /// Takes over the GSO packet of `used` bytes in `buffer`, whose segments are `pieces`.
    pub fn of(buffers: &mut Buffers, buffer: &mut Box<[u8]>, used: usize, shape: Shape) -> Self {
        let kind = BUFFERS.iter().position(|&bytes| used <= bytes).unwrap_or(BUFFERS.len() - 1);
        let mut own = buffers.take(kind);
        if own.len() == buffer.len() {
            std::mem::swap(&mut own, buffer);
        } else {
            own[..used].copy_from_slice(&buffer[..used]);
        }
        let Shape { count, header_bytes, first_bytes, last_bytes } = shape;
        Self {
            buffer: own,
            used: used as u32,
            next: 0,
            count,
            header_bytes,
            segment_bytes: first_bytes - header_bytes,
            left_bytes: (count - 1) * first_bytes + last_bytes,
        }
    }

    /// Returns the packet behind the virtio-net header.
    pub fn packet(&self) -> &[u8] {
        &self.buffer[VIRTIO_BYTES..self.used as usize]
    }

    /// Returns the GSO packet with its virtio-net header.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.used as usize]
    }
}

/// The lengths of a GSO packet's segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    count: u32,
    /// The bytes of headers that each segment has; 0 if there is one.
    header_bytes: u32,
    first_bytes: u32,
    last_bytes: u32,
}

impl Shape {
    /// Returns the lengths of `pieces`.
    pub fn of(pieces: &Pieces<'_>) -> Self {
        let count = pieces.count() as u32;
        let [first_bytes, last_bytes] = [0, pieces.count() - 1].map(|at| pieces.bytes(at) as u32);
        let header_bytes = if count > 1 { pieces.header_bytes() as u32 } else { 0 };
        Self { count, header_bytes, first_bytes, last_bytes }
    }
}

impl Parcel for Whole {
    fn left_bytes(&self) -> u32 {
        self.left_bytes
    }

    fn charge_bytes(&self) -> u32 {
        self.buffer.len() as u32 + PLACE_BYTES
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
        let class = match packet {
            [first, second, ..] if *first >> 4 == 4 => *second,
            [first, second, ..] => *first << 4 | *second >> 4,
            _ => return false,
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
#[derive(Debug)]
pub struct Buffers {
    free: [Vec<Box<[u8]>>; BUFFERS.len()],
    bytes: usize,
    limit_bytes: u32,
}

impl Default for Buffers {
    fn default() -> Self {
        Self::within(LIMIT_BYTES)
    }
}

impl Buffers {
    /// Returns buffers that take `limit_bytes` of memory at the most, used or not.
    pub fn within(limit_bytes: u32) -> Self {
        Self { free: Default::default(), bytes: 0, limit_bytes }
    }

    fn take(&mut self, kind: usize) -> Box<[u8]> {
        match self.free[kind].pop() {
            Some(buffer) => {
                self.bytes -= buffer.len();
                buffer
            }
            None => vec![0; BUFFERS[kind]].into(),
        }
    }

    /// Returns the memory of the buffers that are free.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Keeps a buffer, if all that are in use or free are within the limit.
    pub fn give(&mut self, buffer: Box<[u8]>, in_use: u32) {
        if self.bytes + in_use as usize + buffer.len() > self.limit_bytes as usize {
            return;
        }
        if let Some(kind) = BUFFERS.iter().position(|&bytes| bytes == buffer.len()) {
            self.bytes += buffer.len();
            self.free[kind].push(buffer);
        }
    }
}

/// Random numbers that nobody outside knows, by which flows are told apart.
#[derive(Clone, Copy, Debug)]
pub struct Seeds([u64; 2]);

impl Seeds {
    /// Returns new ones.
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).expect("the system has random bytes once it has booted");
        // An odd factor loses nothing.
        let seed = |at: usize| bytes[at..].first_chunk().map_or(1, |&word| u64::from_ne_bytes(word) | 1);
        Self([seed(0), seed(8)])
    }

    /// Returns a hash of the flow that a packet belongs to: its addresses, protocol and ports. Fragments have no ports.
    pub fn hash(self, packet: &[u8]) -> u64 {
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
        // Multiplications whose halves are folded.
        let fold = |one: u64, other: u64| {
            let product = u128::from(one) * u128::from(other);
            product as u64 ^ (product >> 64) as u64
        };
        let [first, second] = self.0;
        let mut hash = fold(addresses[0] ^ first, addresses[1] ^ second);
        if addresses[2..] != [0, 0] {
            hash = fold(hash ^ addresses[2] ^ first, addresses[3] ^ second);
        }
        fold(hash ^ (ports << 8 | u64::from(kind)) ^ second, first)
    }
}
