//! Ports without a kernel: packets from memory, packets to memory, and cables between two users in one process.

use crate::Batch;
use crate::{Port, Room};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

/// Gives a list of packets, in order, up to `batch_packets` per call.
#[derive(Debug)]
pub struct Source {
    packets: VecDeque<Vec<u8>>,
    room: Room,
    batch_packets: usize,
}

impl Source {
    /// Returns a source of `packets`.
    #[must_use]
    pub fn new(packets: impl IntoIterator<Item = Vec<u8>>, room: Room, batch_packets: usize) -> Self {
        Self { packets: packets.into_iter().collect(), room, batch_packets }
    }
}

impl Port for Source {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let mut received = 0;
        while received < self.batch_packets
            && let Some(packet) = self.packets.front()
        {
            if !self.room.push_bytes(batch, packet) {
                return if received == 0 { Err(no_room()) } else { Ok(received) };
            }
            self.packets.pop_front();
            received += 1;
        }
        Ok(received)
    }

    fn send(&mut self, _: &Batch, _: usize) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Gives one preconstructed packet again and again, to measure the cost of packets without the cost of making them.
#[derive(Debug)]
pub struct Template {
    packet: Vec<u8>,
    left_packets: u64,
    room: Room,
    batch_packets: usize,
}

impl Template {
    /// Returns a source that gives `packet` `count` times, up to `batch_packets` per call.
    #[must_use]
    pub fn new(packet: Vec<u8>, count: u64, room: Room, batch_packets: usize) -> Self {
        Self { packet, left_packets: count, room, batch_packets }
    }
}

impl Port for Template {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let mut received = 0;
        while received < self.batch_packets && self.left_packets > 0 {
            if !self.room.push_bytes(batch, &self.packet) {
                return if received == 0 { Err(no_room()) } else { Ok(received) };
            }
            self.left_packets -= 1;
            received += 1;
        }
        Ok(received)
    }

    fn send(&mut self, _: &Batch, _: usize) -> io::Result<usize> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Takes packets and counts them.
#[derive(Debug, Default)]
pub struct Discard {
    /// Packets taken.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

impl Port for Discard {
    fn receive(&mut self, _: &mut Batch) -> io::Result<usize> {
        Ok(0)
    }

    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        let packets = &batch.packets[from..];
        for packet in packets.iter().filter(|packet| packet.is_passed()) {
            self.packets += 1;
            self.bytes += packet.len() as u64;
        }
        Ok(packets.len())
    }
}

/// Takes packets and keeps them, up to a fixed number.
#[derive(Debug)]
pub struct Collect {
    /// The packets taken, in order.
    pub packets: Vec<Vec<u8>>,
    max_packets: usize,
}

impl Collect {
    /// Takes up to `max_packets`.
    #[must_use]
    pub const fn new(max_packets: usize) -> Self {
        Self { packets: Vec::new(), max_packets }
    }
}

impl Port for Collect {
    fn receive(&mut self, _: &mut Batch) -> io::Result<usize> {
        Ok(0)
    }

    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        for (index, packet) in batch.packets.iter().enumerate().skip(from) {
            if !packet.is_passed() {
                continue;
            }
            if self.packets.len() == self.max_packets {
                return if index == from { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(index - from) };
            }
            self.packets.push(batch.bytes(index).to_vec());
        }
        Ok(batch.packets.len() - from)
    }
}

/// Packets under way in one direction of a cable.
#[derive(Debug, Default)]
struct Channel {
    packets: VecDeque<Vec<u8>>,
    /// Used memory, for packets to come.
    spare: Vec<Vec<u8>>,
    is_closed: bool,
}

/// One end of a cable.
#[derive(Debug)]
pub struct Cable {
    inward: Arc<Mutex<Channel>>,
    outward: Arc<Mutex<Channel>>,
    room: Room,
    max_packets: usize,
}

const HELD: &str = "no user panics holding a cable";

impl Cable {
    /// Returns both ends of a new cable that holds `max_packets` in each direction.
    #[must_use]
    pub fn pair(room: Room, max_packets: usize) -> (Self, Self) {
        let channels = [Arc::new(Mutex::new(Channel::default())), Arc::new(Mutex::new(Channel::default()))];
        let [one, other] = channels;
        let end = |inward: &Arc<_>, outward: &Arc<_>| Self {
            inward: Arc::clone(inward),
            outward: Arc::clone(outward),
            room,
            max_packets,
        };
        (end(&one, &other), end(&other, &one))
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for way in [&self.inward, &self.outward] {
            if let Ok(mut way) = way.lock() {
                way.is_closed = true;
            }
        }
    }
}

impl Port for Cable {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let mut way = self.inward.lock().expect(HELD);
        let mut received = 0;
        while let Some(packet) = way.packets.front() {
            if !self.room.push_bytes(batch, packet) {
                return if received == 0 { Err(no_room()) } else { Ok(received) };
            }
            let used = way.packets.pop_front().expect("it was just looked at");
            way.spare.push(used);
            received += 1;
        }
        if received == 0 && !way.is_closed {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(received)
    }

    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        let mut way = self.outward.lock().expect(HELD);
        if way.is_closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        for (index, packet) in batch.packets.iter().enumerate().skip(from) {
            if !packet.is_passed() {
                continue;
            }
            if way.packets.len() == self.max_packets {
                return if index == from { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(index - from) };
            }
            let mut bytes = way.spare.pop().unwrap_or_default();
            bytes.clear();
            bytes.extend_from_slice(batch.bytes(index));
            way.packets.push_back(bytes);
        }
        Ok(batch.packets.len() - from)
    }
}

/// Returns the error of a batch given to `receive` without room for even one packet, which is a fault of the caller.
pub(crate) fn no_room() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "the batch has no room for a packet")
}
