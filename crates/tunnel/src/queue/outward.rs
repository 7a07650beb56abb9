//! Packets of the device that wait for the socket.
//!
//! Nobody else can queue them well: a TUN device drops what it has no room for and never stops its senders, and packets that come out
//! of it have left the accounts by which TCP keeps its own queue short. So the device is read dry, and what the link does not take yet
//! waits here, where flows take turns ([`fair`](super::fair)) and none stands for long ([`codel`](super::codel)); the socket gets as
//! much as keeps the link busy for a moment ([`below`](super::below)).
//!
//! Each peer has a **line**: a queue, and a socket of its own at the gateway's one port, so that what waits for a slow peer keeps no
//! packet of another waiting. Peers beyond the number of lines share them.
//!
//! A device with several queues has one of these for each, and the kernel gives each flow to one. They have parts of the memory, and
//! the rates of lines in common.
//!
//! Guarantees: the order within a flow is the device's; all lines together have at most `LIMIT_BYTES` of memory, and so have all queues
//! of a device together; lines take turns; a GSO packet is cut where a burst has to end, and loses a segment by CoDel, never all.

use std::{
    io,
    os::fd::BorrowedFd,
    sync::Arc,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags};
use sealane_port::{
    Batch, Port as _, Room,
    tun::{Tun, pieces},
};

use super::{
    LIMIT_BYTES,
    below::{Below, LEAST_BYTES},
    counters::Counters,
    fair::{Fair, Fate, Taker},
    read_bytes,
    shaper::{Booking, Shaper},
    whole::{Buffers, Seeds, Shape, Whole},
};
use crate::outside::Outside;

/// The number of lines at the most.
pub const LINES_MAX: usize = 64;
/// The flows that a line tells apart.
const FLOWS: usize = 4096;
/// The GSO packets that are read before some are sent.
const READ_PACKETS: usize = 256;
/// The memory that the kernel takes for a packet beside its bytes.
const KERNEL_BYTES: u32 = 768;

/// The properties that the queues of one device have in common.
#[derive(Clone, Debug)]
pub struct Common {
    /// The number of queues.
    queues: u32,
    begun: Instant,
    /// The states of the lines' rates.
    shapers: Arc<[Shaper]>,
}

impl Common {
    /// Returns those of a device with so many queues.
    pub fn of(queues: usize) -> Self {
        let shapers = (0..LINES_MAX).map(|_| Shaper::default()).collect();
        Self { queues: queues.max(1) as u32, begun: Instant::now(), shapers }
    }

    /// Returns the memory of each queue in bytes.
    fn limit_bytes(&self) -> u32 {
        LIMIT_BYTES / self.queues
    }

    /// Returns the number of flows that a line tells apart.
    fn flows(&self) -> usize {
        FLOWS / self.queues as usize
    }
}

/// Tells the line of a packet.
pub trait Lines {
    /// Returns the number of the line by which `packet` will leave.
    fn of(&mut self, packet: &[u8]) -> usize;

    /// Returns the rate that a line must not exceed, in bytes per second, and the bytes of the headers that packets get outside; `None`
    /// if there is no such rate.
    fn rate(&self, line: usize) -> Option<(u64, usize)>;
}

/// Tells what waits below a line.
pub trait Gauge {
    /// Returns the bytes of memory that packets take which have not left the host.
    fn unsent_bytes(&self) -> u32;
}

impl Gauge for Outside {
    fn unsent_bytes(&self) -> u32 {
        self.unsent_bytes()
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
        let Some(pieces) = pieces(whole.bytes()) else {
            // It was well-formed when it came.
            return std::mem::take(&mut whole.left_bytes);
        };
        let (mut laid, mut next) = (0, whole.next);
        while next < whole.count {
            let bytes = pieces.bytes(next as usize) as u32;
            if laid > 0 && laid + bytes > most_bytes || !room.push_piece(batch, &pieces, next as usize) {
                break;
            }
            laid += bytes;
            next += 1;
        }
        whole.next = next;
        whole.left_bytes = if next == whole.count { 0 } else { whole.left_bytes - laid };
        if laid > 0 {
            self.counters.waited(waited_ns);
        }
        laid
    }

    fn met(&mut self, fate: Fate, whole: &Whole) {
        self.counters.met(fate, whole);
    }

    fn retire(&mut self, whole: Whole) {
        self.buffers.give(whole.buffer, self.in_use);
    }
}

/// The packets for one peer, or for several that share the line.
#[derive(Debug)]
struct Line<G> {
    /// `None` until the first packet comes.
    fair: Option<Box<Fair<Whole>>>,
    below: Below,
    /// Its place in the rate.
    place: Booking,
    /// The socket that takes them.
    outside: G,
    /// The bytes that may be below, by the last look and by what was handed on since.
    unsent_bytes: u32,
}

impl<G: Gauge> Line<G> {
    fn new(outside: G) -> Self {
        Self { fair: None, below: Below::default(), place: None, outside, unsent_bytes: 0 }
    }

    /// Returns the time until there is room below. The socket is asked only if it may have much.
    fn pause_ns(&mut self, now_ns: u64, shaper: Option<&Shaper>) -> Option<u64> {
        if let Some(ns) = shaper.and_then(|shaper| shaper.pause_ns(now_ns, &mut self.place)) {
            return Some(ns);
        }
        if self.unsent_bytes >= LEAST_BYTES {
            self.unsent_bytes = self.outside.unsent_bytes();
        }
        self.below.pause_ns(now_ns, self.unsent_bytes)
    }
}

/// The queue of one device, read by one lane at a time.
#[derive(Debug)]
struct Queue<L, G = Outside> {
    lines: Vec<Line<G>>,
    of: L,
    /// The lines in which packets wait, by bits, and the one that is asked first.
    busy: u64,
    first: usize,
    /// The memory that all lines take.
    charge: u32,
    buffers: Buffers,
    seeds: Seeds,
    common: Common,
}

impl<L: Lines, G: Gauge> Queue<L, G> {
    fn new(outsides: impl IntoIterator<Item = G>, of: L, common: &Common) -> Self {
        Self {
            lines: outsides.into_iter().take(LINES_MAX).map(Line::new).collect(),
            of,
            busy: 0,
            first: 0,
            charge: 0,
            buffers: Buffers::within(common.limit_bytes()),
            seeds: Seeds::random(),
            common: common.clone(),
        }
    }

    fn now_ns(&self) -> u64 {
        self.common.begun.elapsed().as_nanos() as u64
    }

    /// Reads `tun` dry, and fills `batch` with a burst of the line whose turn it is. Waits until there is a packet, and until its line
    /// has room for it.
    fn receive(&mut self, tun: &mut Tun, counters: &Counters, batch: &mut Batch) -> io::Result<()> {
        let (room, mut may_have) = (tun.room(), true);
        loop {
            let mut now_ns = None;
            let (mut count, mut bytes, mut refused) = (0, 0, 0);
            let may_wait = self.busy == 0;
            let most_bytes = read_bytes(self.charge, self.common.limit_bytes());
            let mut keep = |buffer: &mut Box<[u8]>, read| {
                let now_ns = *now_ns.get_or_insert_with(|| self.now_ns());
                refused += u64::from(!self.push(buffer, read, now_ns, counters));
                (count, bytes) = (count + 1, bytes + read);
                count < READ_PACKETS && bytes < most_bytes
            };
            if may_have {
                tun.receive_whole(may_wait, &mut keep)?;
            }
            tun.refused_packets += refused;
            let now_ns = now_ns.unwrap_or_else(|| self.now_ns());
            let Some(pause_ns) = self.serve(now_ns, room, counters, batch) else { return Ok(()) };
            may_have = true;
            if self.busy > 0 {
                let fd = tun.fd().expect("a device has a descriptor");
                let mut fds = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
                sealane_lanes::wait(&mut fds, Duration::from_nanos(pause_ns))?;
                may_have = !fds[0].revents().is_empty();
            }
        }
    }

    /// Lays a burst of the first line that may send. Returns the time until one may, if none may now.
    fn serve(&mut self, now_ns: u64, room: Room, counters: &Counters, batch: &mut Batch) -> Option<u64> {
        let mut soonest_ns = u64::MAX;
        let lines = self.lines.len();
        for at in (0..lines).map(|turn| (self.first + turn) % lines) {
            if self.busy & 1 << at == 0 {
                continue;
            }
            let rate = self.of.rate(at);
            let (line, shaper) = (&mut self.lines[at], &self.common.shapers[at]);
            if let Some(pause_ns) = line.pause_ns(now_ns, rate.map(|_| shaper)) {
                soonest_ns = soonest_ns.min(pause_ns);
                continue;
            }
            let fair = line.fair.as_mut().expect("a line in which packets wait has a queue");
            let turn = line.below.turn(now_ns);
            let turn = rate.map_or(turn, |(bytes_per_s, _)| Shaper::shorten(turn, bytes_per_s));
            let (before, in_use, buffers) = (fair.charge(), self.charge, &mut self.buffers);
            let mut laying = Laying { batch: Some((&mut *batch, room)), buffers, in_use, counters };
            let laid = fair.serve(now_ns, turn, &mut laying);
            self.charge -= before - fair.charge();
            if fair.is_empty() {
                self.busy &= !(1 << at);
            }
            if laid > 0 {
                let packets = batch.packets.len() as u32;
                line.unsent_bytes = line.unsent_bytes.saturating_add(laid + packets * KERNEL_BYTES);
                if let Some((bytes_per_s, header_bytes)) = rate {
                    let outside: usize =
                        batch.packets.iter().map(|packet| packet.room().len as usize + header_bytes).sum();
                    shaper.spend(&mut line.place, outside as u64, bytes_per_s);
                }
                self.first = (at + 1) % lines;
                return None;
            }
            shaper.leave(&mut line.place);
        }
        Some(soonest_ns)
    }

    /// Takes over the GSO packet of `read` bytes in `buffer`. Returns `false` if it is malformed.
    fn push(&mut self, buffer: &mut Box<[u8]>, read: usize, now_ns: u64, counters: &Counters) -> bool {
        let Some(shape) = pieces(&buffer[..read]).as_ref().map(Shape::of) else { return false };
        let whole = Whole::of(&mut self.buffers, buffer, read, shape);
        let hash = self.seeds.hash(whole.packet());
        let at = if self.lines.len() > 1 { self.of.of(whole.packet()) % self.lines.len() } else { 0 };
        let line = &mut self.lines[at];
        let turn = line.below.turn(now_ns).quantum;
        let (flows, limit) = (self.common.flows(), self.common.limit_bytes());
        let fair = line.fair.get_or_insert_with(|| Box::new(Fair::new(flows, limit)));
        let (before, in_use) = (fair.charge(), self.charge);
        let mut laying = Laying { batch: None, buffers: &mut self.buffers, in_use, counters };
        fair.push(hash, whole, now_ns, turn, &mut laying);
        self.busy |= 1 << at;
        self.charge = self.charge - before + fair.charge();
        while self.charge > limit {
            self.lose(counters);
        }
        true
    }

    /// Loses a packet of the line that has the most.
    fn lose(&mut self, counters: &Counters) {
        let charge = |line: &Line<G>| line.fair.as_ref().map_or(0, |fair| fair.charge());
        let heaviest = (0..self.lines.len()).max_by_key(|&at| charge(&self.lines[at]));
        let at = heaviest.expect("there is a line");
        let Some(fair) = &mut self.lines[at].fair else { return };
        let (before, in_use, buffers) = (fair.charge(), self.charge, &mut self.buffers);
        fair.lose_of_heaviest(&mut Laying { batch: None, buffers, in_use, counters });
        self.charge -= before - fair.charge();
        if fair.is_empty() {
            self.busy &= !(1 << at);
        }
    }
}

/// The device, with what waits of it.
#[derive(Debug)]
pub struct Source<L> {
    tun: Tun,
    queue: Option<Box<Queue<L>>>,
}

impl<L: Lines> Source<L> {
    /// Returns the packets of `tun` in order of arrival.
    pub fn in_order(tun: Tun) -> Self {
        Self { tun, queue: None }
    }

    /// Returns the packets of `tun` by flows. Each leaves by the socket of its line, of which there are at most [`LINES_MAX`], and
    /// `of` tells which that is.
    pub fn by_flows(tun: Tun, outsides: impl IntoIterator<Item = Outside>, of: L, common: &Common) -> Self {
        Self { tun, queue: Some(Box::new(Queue::new(outsides, of, common))) }
    }

    /// Fills `batch` with the packets that are next, and waits for the first.
    ///
    /// # Errors
    /// Returns errors of the device.
    pub fn receive(&mut self, counters: &Counters, batch: &mut Batch) -> io::Result<()> {
        match &mut self.queue {
            Some(queue) => queue.receive(&mut self.tun, counters, batch),
            None => self.tun.receive(batch).map(drop),
        }
    }

    /// Returns the descriptor that becomes readable when there are packets; `None` if some wait here.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        let waits = self.queue.as_ref().is_some_and(|queue| queue.busy > 0);
        if waits { None } else { self.tun.fd() }
    }
}

#[cfg(test)]
mod tests;
