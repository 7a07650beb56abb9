//! Packets of peers that wait for the device: opened, and before the write in which this host's own TCP does its work.
//!
//! Packets wait in the socket's receive buffer if the processor is the limit. So the socket is emptied first, and what
//! was opened waits here, where flows take turns ([`fair`](super::fair)) and none stands for long ([`codel`](super::codel)): a packet's
//! time counts from its arrival at the socket.
//!
//! Guarantees: the order within a flow is that of the association; memory is bounded by `LIMIT_BYTES`; what waits is written while the
//! socket has more, after at most as many bytes as `read_bytes` returns.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Instant,
};

use sealane_port::{
    Port as _,
    tun::{Tun, pieces},
};
use sealane_wire::gso::behead;

use super::{
    LIMIT_BYTES,
    below::TURN_BYTES,
    counters::Counters,
    fair::{Fair, Fate, Taker, Turn},
    read_bytes,
    whole::{Buffers, Seeds, Shape, Whole},
};
use crate::inward::Arrival;

/// The flows that are told apart.
const FLOWS: usize = 16_384;
/// GSO packets are written whole, one after the other.
const TURN: Turn = Turn { most_bytes: TURN_BYTES, quantum: TURN_BYTES as i32, is_whole: true };

/// Writes GSO packets into the device, and counts.
struct Writing<'a> {
    tun: Option<&'a mut Tun>,
    buffers: &'a mut Buffers,
    in_use: u32,
    counters: &'a Counters,
    failure: Option<io::Error>,
}

impl Taker<Whole> for Writing<'_> {
    fn take(&mut self, whole: &mut Whole, _: u32, waited_ns: u64) -> u32 {
        let (Some(tun), None) = (&mut self.tun, &self.failure) else { return 0 };
        let bytes = &mut whole.buffer[..whole.used as usize];
        // CoDel has taken the first ones.
        let start = if whole.next == 0 { Some(0) } else { behead(bytes, whole.next as usize) };
        if let Some(start) = start {
            self.failure = tun.write_whole(&bytes[start..], u64::from(whole.count - whole.next)).err();
            self.counters.waited(waited_ns);
        }
        std::mem::take(&mut whole.left_bytes)
    }

    fn met(&mut self, fate: Fate, whole: &Whole) {
        self.counters.met(fate, whole);
    }

    fn retire(&mut self, whole: Whole) {
        self.buffers.give(whole.buffer, self.in_use);
    }
}

/// The queue of one device, filled and emptied by one lane at a time.
#[derive(Debug)]
struct Queue {
    fair: Fair<Whole>,
    buffers: Buffers,
    seeds: Seeds,
    begun: Instant,
    /// The bytes that came since the last write.
    read_bytes: u32,
    /// Set while there is something.
    waits: Arc<AtomicBool>,
}

impl Queue {
    fn writing<'a>(
        buffers: &'a mut Buffers,
        in_use: u32,
        tun: Option<&'a mut Tun>,
        counters: &'a Counters,
    ) -> Writing<'a> {
        Writing { tun, buffers, in_use, counters, failure: None }
    }

    /// Takes over the packets of an arrival.
    fn push(&mut self, tun: &mut Tun, counters: &Counters, arrival: &Arrival) {
        let came = arrival.time.checked_sub(arrival.waited).unwrap_or(arrival.time);
        let since_ns = came.saturating_duration_since(self.begun).as_nanos() as u64;
        let Self { fair, buffers, seeds, .. } = self;
        tun.join(&arrival.batch, |buffer, used, _| {
            let shape = pieces(&buffer[..used]).as_ref().map(Shape::of);
            let shape = shape.expect("a GSO packet of our own");
            let whole = Whole::of(buffers, buffer, used, shape);
            let hash = seeds.hash(whole.packet());
            let mut writing = Self::writing(buffers, fair.charge(), None, counters);
            self.read_bytes = self.read_bytes.saturating_add(used as u32);
            fair.push(hash, whole, since_ns, TURN.quantum, &mut writing);
        });
        self.waits.store(!self.fair.is_empty(), Relaxed);
    }

    /// Writes GSO packets of a turn.
    fn serve(&mut self, tun: &mut Tun, counters: &Counters) -> io::Result<()> {
        let now_ns = self.begun.elapsed().as_nanos() as u64;
        let Self { fair, buffers, .. } = self;
        let mut writing = Self::writing(buffers, fair.charge(), Some(tun), counters);
        fair.serve(now_ns, TURN, &mut writing);
        let failure = writing.failure;
        self.read_bytes = 0;
        self.waits.store(!self.fair.is_empty(), Relaxed);
        failure.map_or(Ok(()), Err)
    }

    /// Returns whether some is to be written before more is read.
    fn is_due(&self) -> bool {
        self.read_bytes as usize >= read_bytes(self.fair.charge(), LIMIT_BYTES)
    }
}

/// The device, with what waits for it.
#[derive(Debug)]
pub struct Sink {
    tun: Tun,
    queue: Option<Box<Queue>>,
}

impl Sink {
    /// Returns the way into `tun` for packets in order of arrival.
    pub fn in_order(tun: Tun) -> Self {
        Self { tun, queue: None }
    }

    /// Returns the way into `tun` by flows. `waits` is set while packets wait.
    pub fn by_flows(tun: Tun, waits: Arc<AtomicBool>) -> Self {
        let queue = Queue {
            fair: Fair::new(FLOWS, LIMIT_BYTES),
            buffers: Buffers::default(),
            seeds: Seeds::random(),
            begun: Instant::now(),
            read_bytes: 0,
            waits,
        };
        Self { tun, queue: Some(Box::new(queue)) }
    }

    /// Writes the packets of an arrival, or lets them wait; some that wait are written if that is due.
    ///
    /// # Errors
    /// Returns errors of the device.
    pub fn send(&mut self, counters: &Counters, arrival: &Arrival) -> io::Result<()> {
        let Some(queue) = &mut self.queue else {
            let mut at = 0;
            while at < arrival.batch.packets.len() {
                at += self.tun.send(&arrival.batch, at)?;
            }
            return Ok(());
        };
        queue.push(&mut self.tun, counters, arrival);
        if arrival.was_last || queue.is_due() { queue.serve(&mut self.tun, counters) } else { Ok(()) }
    }

    /// Writes some of the packets that wait.
    ///
    /// # Errors
    /// Returns errors of the device.
    pub fn serve(&mut self, counters: &Counters) -> io::Result<()> {
        self.queue.as_mut().map_or(Ok(()), |queue| queue.serve(&mut self.tun, counters))
    }

    /// Returns the number of packets that the device did not take.
    pub fn refused_packets(&self) -> u64 {
        self.tun.refused_packets
    }
}
