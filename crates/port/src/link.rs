//! An emulated link: delay, rate, loss, reordering and duplication, from a seed, around any port.
//!
//! [`Emulation`] is the link as a value: packets go in with the time of their arrival, and come out when they are
//! due. It has no clock, so a test of hours of a bad network takes milliseconds. [`Emulated`] applies it to the
//! packets that a port receives, with a given clock.
//!
//! **Guarantees:** the same seed and the same packets at the same times give the same result; at most `queue_bytes`
//! are under way, and packets beyond that are dropped, as in a router's queue; memory of packets is used again.

use crate::Batch;
use crate::{Port, Room};
use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use rustix::fd::BorrowedFd;
pub use sealane_lanes::Clock;
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::io;
use std::time::{Duration, Instant};

/// The effects of a link on packets in one direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Link {
    /// Delay from one end to the other: half a round trip.
    pub delay: Duration,
    /// Bytes per second; `None` is unlimited.
    pub bytes_per_second: Option<u64>,
    /// Share of packets that are lost, 0 to 1.
    pub loss: f64,
    /// Share of packets that come late, 0 to 1.
    pub reorder: f64,
    /// The extra delay of late packets.
    pub lateness: Duration,
    /// Share of packets that come twice, 0 to 1.
    pub duplicate: f64,
    /// Most bytes under way, including those that wait because of the rate.
    pub queue_bytes: usize,
    /// Seed of the random decisions.
    pub seed: u64,
}

impl Link {
    /// A perfect one.
    pub const PERFECT: Self = Self {
        delay: Duration::ZERO,
        bytes_per_second: None,
        loss: 0.0,
        reorder: 0.0,
        lateness: Duration::from_millis(1),
        duplicate: 0.0,
        queue_bytes: 64 << 20,
        seed: 0,
    };
}

/// A packet under way.
#[derive(Debug, PartialEq, Eq)]
struct UnderWay {
    due: Instant,
    /// Packets that are due at the same time keep their order.
    number: u64,
    bytes: Vec<u8>,
}

impl Ord for UnderWay {
    /// The greatest is the one that is due first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.due, other.number).cmp(&(self.due, self.number))
    }
}

impl PartialOrd for UnderWay {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Counts of packets by their fate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fates {
    /// Offered to the link.
    pub offered: u64,
    /// Lost by chance.
    pub lost: u64,
    /// Dropped because too many bytes were under way.
    pub dropped: u64,
    /// Came late.
    pub late: u64,
    /// Came twice.
    pub twice: u64,
}

/// One direction of a link, as a value.
#[derive(Debug)]
pub struct Emulation {
    link: Link,
    random: SplitMix64,
    under_way: BinaryHeap<UnderWay>,
    under_way_bytes: usize,
    given: u64,
    /// Time at which the link has sent all packets given so far.
    free_at: Option<Instant>,
    spare: Vec<Vec<u8>>,
    /// Counts of packets by their fate.
    pub fates: Fates,
}

impl Emulation {
    /// Returns a link with nothing under way.
    #[must_use]
    pub fn new(link: Link) -> Self {
        Self {
            link,
            random: SplitMix64::seed_from_u64(link.seed),
            under_way: BinaryHeap::new(),
            under_way_bytes: 0,
            given: 0,
            free_at: None,
            spare: Vec::new(),
            fates: Fates::default(),
        }
    }

    /// Returns whether an event that happens to `share` of all packets happens to this one.
    fn happens(&mut self, share: f64) -> bool {
        // Every seed of SplitMix64 is good, and each number costs a few cycles.
        let fraction = (self.random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        fraction < share
    }

    /// Takes a packet that arrives at `now`.
    pub fn offer(&mut self, now: Instant, packet: &[u8]) {
        self.fates.offered += 1;
        // All random decisions are made for each packet, so that one more loss does not change all later ones.
        let [is_lost, is_late, is_twice] =
            [self.link.loss, self.link.reorder, self.link.duplicate].map(|share| self.happens(share));
        if self.under_way_bytes + packet.len() > self.link.queue_bytes {
            self.fates.dropped += 1;
            return;
        }
        let mut leaves = self.free_at.map_or(now, |free| free.max(now));
        if let Some(rate) = self.link.bytes_per_second {
            let nanoseconds = packet.len() as u128 * 1_000_000_000 / u128::from(rate.max(1));
            leaves += Duration::from_nanos(nanoseconds as u64);
            self.free_at = Some(leaves);
        }
        if is_lost {
            self.fates.lost += 1;
            return;
        }
        let mut due = leaves + self.link.delay;
        if is_late {
            self.fates.late += 1;
            due += self.link.lateness;
        }
        self.put(due, packet);
        if is_twice && self.under_way_bytes + packet.len() <= self.link.queue_bytes {
            self.fates.twice += 1;
            self.put(due, packet);
        }
    }

    fn put(&mut self, due: Instant, packet: &[u8]) {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(packet);
        self.under_way_bytes += bytes.len();
        self.under_way.push(UnderWay { due, number: self.given, bytes });
        self.given += 1;
    }

    /// Appends the packets that are due at `now` to `batch`, as far as it has room, and returns their number.
    pub fn take(&mut self, now: Instant, room: Room, batch: &mut Batch) -> usize {
        let mut taken = 0;
        while let Some(next) = self.under_way.peek()
            && next.due <= now
            && room.push_bytes(batch, &next.bytes)
        {
            let used = self.under_way.pop().expect("it was just looked at").bytes;
            self.under_way_bytes -= used.len();
            self.spare.push(used);
            taken += 1;
        }
        taken
    }

    /// Returns the time at which the next packet is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.under_way.peek().map(|next| next.due)
    }
}

/// A port behind an emulated link, which affects received packets. Packets are sent without the link; the link of the
/// other direction is at the other end.
#[derive(Debug)]
pub struct Emulated<P> {
    port: P,
    link: Emulation,
    clock: Clock,
    room: Room,
    arrivals: Batch,
    has_ended: bool,
}

impl<P: Port> Emulated<P> {
    /// Puts a link around `port`, which must not block. Received packets are laid out as `room` says.
    #[must_use]
    pub fn new(port: P, link: Link, clock: Clock, room: Room) -> Self {
        let arrivals = Batch::new(4 * 65_536, 256);
        Self { port, link: Emulation::new(link), clock, room, arrivals, has_ended: false }
    }

    /// Returns the counts of packets by their fate.
    pub const fn fates(&self) -> Fates {
        self.link.fates
    }
}

impl<P: Port> Port for Emulated<P> {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let now = self.clock.now();
        while !self.has_ended {
            self.arrivals.clear();
            match self.port.receive(&mut self.arrivals) {
                Ok(0) => self.has_ended = true,
                Ok(_) => {
                    for packet in self.arrivals.passed() {
                        self.link.offer(now, packet);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        match self.link.take(now, self.room, batch) {
            0 if !self.has_ended || self.link.poll_timeout().is_some() => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            taken => Ok(taken),
        }
    }

    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        self.port.send(batch, from)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.port.fd()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.link.poll_timeout()
    }
}
