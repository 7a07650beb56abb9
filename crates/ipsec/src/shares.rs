//! Associations of one peer that share its flows (RFC 9611), so that no counter of numbers and no replay window is all
//! lanes' own. Flows have their shares by a hash, or by the queue of the device from which they come.
//!
//! Guarantees: all packets of a flow have one share as long as the number of shares stays; a successor takes its
//! predecessor's share; a share without an association is not used.

use std::{
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher},
    sync::Arc,
};

use crate::{association::Outbound, selector::Flow};

/// The property that tells the share of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShareBy {
    /// A hash of its flow.
    #[default]
    Flow,
    /// The number of the queue from which it comes, which has all packets of its flow. Queues beyond the number of shares have those of
    /// the first ones.
    Queue(u16),
}

/// The associations that share a peer's flows with its first one, which has the first share.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shares {
    /// The number of shares that there are to be, the first one included; 0 and 1 are the same.
    wanted: usize,
    /// The associations of the shares after the first, the oldest share first.
    others: Arc<[Arc<Outbound>]>,
}

impl Shares {
    /// Returns the place of a flow's share among the others; `None` if it is the first share.
    fn place(&self, flow: &Flow, by: ShareBy) -> Option<usize> {
        let count = self.wanted.max(self.others.len() + 1);
        if count == 1 {
            return None;
        }
        let number = match by {
            ShareBy::Flow => BuildHasherDefault::<DefaultHasher>::new().hash_one(flow) as usize,
            ShareBy::Queue(queue) => queue.into(),
        };
        (number % count).checked_sub(1)
    }

    /// Returns the association of the flow's share; `None` if that is the first one's, or if there is none.
    pub(crate) fn taking(&self, flow: &Flow, by: ShareBy) -> Option<&Arc<Outbound>> {
        self.others.get(self.place(flow, by)?).filter(|outbound| outbound.association().takes(flow))
    }

    /// Returns whether the flow's share still has no association.
    pub(crate) fn is_missing(&self, flow: &Flow, by: ShareBy) -> bool {
        self.place(flow, by).is_some_and(|place| place >= self.others.len())
    }

    /// Returns the associations of all shares except for the first.
    pub(crate) fn others(&self) -> &[Arc<Outbound>] {
        &self.others
    }

    /// Sets the number of shares that there are to be.
    pub(crate) fn set_wanted(&mut self, wanted: usize) {
        self.wanted = wanted;
    }

    /// Gives `outbound` the share of the association with the SPI `instead_of`, or a share of its own.
    pub(crate) fn add(&mut self, outbound: Arc<Outbound>, instead_of: Option<u32>) {
        let mut others = self.others.to_vec();
        let old = others.iter_mut().find(|old| Some(old.association().parameters().spi) == instead_of);
        match old {
            Some(old) => *old = outbound,
            None => others.push(outbound),
        }
        self.others = others.into();
    }

    /// Removes the association with this SPI, and its share. Returns whether there was one.
    pub(crate) fn remove(&mut self, spi: u32) -> bool {
        let stays = |outbound: &&Arc<Outbound>| outbound.association().parameters().spi != spi;
        let left: Arc<[_]> = self.others.iter().filter(stays).cloned().collect();
        let is_removed = left.len() < self.others.len();
        self.others = left;
        is_removed
    }
}
