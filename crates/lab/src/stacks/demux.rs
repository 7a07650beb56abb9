//! Finds the flow of a packet: the active map that lanes share, and the packet filter that each lane has for itself
//! (Nahum et al., section 3.2).
//!
//! Guarantees: both read the same bytes of a packet and find the same flow; packets that belong to no flow are found
//! to. The map's lock is held for a batch, and its waits are counted; the filter has no lock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, TryLockError};

/// The ports of a segment or datagram, as they stand in the packet: they distinguish a stack's flows, whose addresses
/// are the same.
type Key = [u8; 4];

/// Reads a packet's key at its offset.
fn key(packet: &[u8], ports_at: usize) -> Option<Key> {
    packet.get(ports_at..)?.first_chunk().copied()
}

/// A demultiplexer of packets to flows.
#[derive(Debug)]
pub(super) enum Demux {
    /// One map for all lanes, behind a lock: packets go to any lane.
    Map(ActiveMap),
    /// A filter that never changes, so that each lane reads it alone: packets go to their connection's lane.
    Filter(HashMap<Key, usize>),
}

/// A table behind a lock.
#[derive(Debug)]
pub(super) struct ActiveMap {
    table: Mutex<HashMap<Key, usize>>,
    waits: AtomicU64,
}

/// Finds flows, for as long as the map's lock is held.
pub(super) enum Finder<'a> {
    Locked(MutexGuard<'a, HashMap<Key, usize>>),
    Free(&'a HashMap<Key, usize>),
}

impl Demux {
    /// Returns a demultiplexer of flows from a packet of each, whose ports begin at `ports_at`.
    pub(super) fn new<'a>(is_shared: bool, ports_at: usize, packets: impl Iterator<Item = &'a [u8]>) -> Self {
        let keys = packets.enumerate().filter_map(|(flow, packet)| Some((key(packet, ports_at)?, flow)));
        let table: HashMap<Key, usize> = keys.collect();
        if is_shared {
            Self::Map(ActiveMap { table: Mutex::new(table), waits: AtomicU64::new(0) })
        } else {
            Self::Filter(table)
        }
    }

    /// Returns a finder for the packets of one batch.
    pub(super) fn finder(&self) -> Finder<'_> {
        match self {
            Self::Filter(table) => Finder::Free(table),
            Self::Map(map) => Finder::Locked(match map.table.try_lock() {
                Ok(table) => table,
                Err(TryLockError::WouldBlock) => {
                    map.waits.fetch_add(1, Relaxed);
                    map.table.lock().expect("no lane panics holding the map")
                }
                Err(TryLockError::Poisoned(_)) => panic!("no lane panics holding the map"),
            }),
        }
    }

    /// Returns how often a lane had to wait for the map's lock.
    pub(super) fn waits(&self) -> u64 {
        match self {
            Self::Map(map) => map.waits.load(Relaxed),
            Self::Filter(_) => 0,
        }
    }
}

impl Finder<'_> {
    /// Returns the flow of a packet whose ports begin at `ports_at`.
    pub(super) fn find(&self, packet: &[u8], ports_at: usize) -> Option<usize> {
        let table: &HashMap<Key, usize> = match self {
            Self::Locked(table) => table,
            Self::Free(table) => table,
        };
        table.get(&key(packet, ports_at)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn map_and_filter_find_the_same_flow_and_no_other() {
        let packets: Vec<Vec<u8>> = (0..40u8).map(|flow| vec![0, 0, 7, flow, 0, 9, 1]).collect();
        for is_shared in [true, false] {
            let demux = Demux::new(is_shared, 2, packets.iter().map(Vec::as_slice));
            let finder = demux.finder();
            for (flow, packet) in packets.iter().enumerate() {
                assert_eq!(finder.find(packet, 2), Some(flow));
            }
            assert_eq!(finder.find(&[0, 0, 7, 40, 0, 9, 1], 2), None);
            assert_eq!(finder.find(&[0, 0, 7, 0, 0], 2), None, "cut short");
        }
    }

    #[test]
    fn whoever_waits_for_the_map_is_counted() {
        let demux = Demux::new(true, 0, std::iter::once(&[1, 2, 3, 4][..]));
        let held = demux.finder();
        std::thread::scope(|scope| {
            let other = scope.spawn(|| demux.finder().find(&[1, 2, 3, 4], 0));
            while demux.waits() == 0 {
                std::thread::yield_now();
            }
            drop(held);
            assert_eq!(other.join().unwrap(), Some(0));
        });
        assert_eq!(demux.waits(), 1);
    }
}
