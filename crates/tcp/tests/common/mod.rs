//! Helpers of the tests: pools that count, a seeded source of numbers, and hosts that carry bytes for a connection.

#![allow(dead_code, reason = "every test uses a part of it")]

pub(crate) mod ip;
pub(crate) mod link;
pub(crate) mod node;
pub(crate) mod tun;

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use sealane_tcp::{Out, Payload, Transmit};

/// Pseudo-random numbers from a seed.
#[derive(Debug, Clone)]
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn within(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    /// Returns true once in `times` calls on average.
    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn permille(&mut self, permille: u64) -> bool {
        self.below(1000) < permille
    }

    pub(crate) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len() as u64) as usize]
    }
}

/// Returns the byte at `position` of the stream `stream`.
pub(crate) fn content(stream: u64, position: u64) -> u8 {
    ((position ^ (stream << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 53) as u8
}

/// Slots, each with its bytes while it is owned. Freeing a slot twice, or reading a free one, panics.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    slots: Vec<Option<Vec<u8>>>,
    free: Vec<u32>,
    pub(crate) peak: usize,
}

impl Pool {
    pub(crate) fn put(&mut self, bytes: Vec<u8>) -> Payload {
        let length = bytes.len() as u32;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        self.slots[slot as usize] = Some(bytes);
        self.peak = self.peak.max(self.in_use());
        Payload { slot, start: 0, bytes: length }
    }

    pub(crate) fn get(&self, payload: Payload) -> &[u8] {
        let bytes = self.slots[payload.slot as usize].as_ref().expect("a slot that is owned");
        &bytes[payload.start as usize..][..payload.bytes as usize]
    }

    pub(crate) fn free(&mut self, slot: u32) {
        assert!(self.slots[slot as usize].take().is_some(), "slot {slot} was given back twice");
        self.free.push(slot);
    }

    pub(crate) fn in_use(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns the bytes of a segment to be sent: its parts one behind the other.
    pub(crate) fn gather(&self, transmit: &Transmit) -> Vec<u8> {
        transmit.parts.iter().flat_map(|&part| self.get(part)).copied().collect()
    }
}

/// Returns the capacities of all lists, which must never change.
pub(crate) fn capacities(out: &Out) -> [usize; 6] {
    [
        out.send.capacity(),
        out.deliver.capacity(),
        out.acked.capacity(),
        out.refused.capacity(),
        out.abandoned.capacity(),
        out.events.capacity(),
    ]
}
