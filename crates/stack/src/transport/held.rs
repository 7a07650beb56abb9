//! Batches whose messages are not yet acknowledged, which every lane can read.

use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use sealane_tcp::Payload;

use sealane_port::Batch;

const HELD: &str = "no lane panics holding a message";

/// The maximum number of packets of a batch, so that a slot's number can name them.
pub(super) const PACKETS_MAX: usize = 1 << 8;
const PLACES_MAX: usize = 1 << 8;

#[derive(Debug, Default)]
struct BatchSlot {
    /// The number of batches that had this place before.
    generation: u16,
    batch: Option<Batch>,
}

/// Places for batches.
#[derive(Debug)]
pub(crate) struct Held(Box<[RwLock<BatchSlot>]>);

/// The packet of a batch at a place that a payload's slot identifies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) place: usize,
    pub(super) packet: usize,
    generation: u16,
}

impl Slot {
    pub(super) fn number(self) -> u32 {
        u32::from(self.generation) << 16 | (self.place as u32) << 8 | self.packet as u32
    }

    pub(super) fn of(number: u32) -> Self {
        let [high, low, place, packet] = number.to_be_bytes();
        Self { place: place.into(), packet: packet.into(), generation: u16::from_be_bytes([high, low]) }
    }
}

impl Held {
    pub(crate) fn new(places: usize) -> Self {
        assert!(places <= PLACES_MAX, "a place has 8 bits of a slot's number");
        Self((0..places).map(|_| RwLock::default()).collect())
    }

    pub(super) fn places(&self) -> usize {
        self.0.len()
    }

    fn read(&self, place: usize) -> RwLockReadGuard<'_, BatchSlot> {
        self.0[place].read().expect(HELD)
    }

    fn write(&self, place: usize) -> RwLockWriteGuard<'_, BatchSlot> {
        self.0[place].write().expect(HELD)
    }

    pub(super) fn put(&self, place: usize, batch: Batch) {
        self.write(place).batch = Some(batch);
    }

    /// Takes a batch whose messages are all acknowledged. Copies of them that were not made yet will fail.
    pub(super) fn take(&self, place: usize) -> Option<Batch> {
        let mut place = self.write(place);
        place.generation = place.generation.wrapping_add(1);
        place.batch.take()
    }

    /// Writes the messages of the packets from `from` on into `into`, as many as fit, each with its packet's number;
    /// returns how many.
    pub(super) fn messages(&self, place: usize, from: usize, into: &mut [(Payload, usize)]) -> usize {
        let held = self.read(place);
        let Some(batch) = &held.batch else { return 0 };
        let packets = batch.packets.iter().enumerate().skip(from).filter(|(_, packet)| !packet.is_empty());
        let mut count = 0;
        for (into, (number, packet)) in into.iter_mut().zip(packets) {
            let slot = Slot { place, packet: number, generation: held.generation };
            let span = packet.span();
            *into = (Payload { slot: slot.number(), start: span.start, bytes: span.len }, number);
            count += 1;
        }
        count
    }

    /// Copies a part of a message; returns false if the message is gone.
    pub(crate) fn copy(&self, part: Payload, into: &mut [u8]) -> bool {
        let slot = Slot::of(part.slot);
        let held = self.read(slot.place);
        let Some(batch) = held.batch.as_ref().filter(|_| held.generation == slot.generation) else {
            return false;
        };
        into.copy_from_slice(&batch.work.buffer.bytes()[part.start as usize..][..part.bytes as usize]);
        true
    }
}
