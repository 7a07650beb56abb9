//! `sequence`: a header of 8 bytes with the packet's number; on the way up, only packets newer than all earlier ones
//! pass.
//!
//! Guarantees: even if a link loses, repeats or reorders packets, they come up in the order in which they were sent,
//! each at most once. The layer does not wait for late packets, which would be the task of a transport.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

use crate::{Kind, Layer, Outbox, Overhead, Way, layers::Layout, spec::no_arguments};
use sealane_port::{Batch, Verdict};

pub(crate) const KIND: Kind = Kind {
    names: || vec!["sequence".to_owned()],
    make: |layer, _| {
        no_arguments(layer)?;
        Ok(Arc::new(Sequence::default()))
    },
};

#[derive(Debug, Default)]
struct Sequence {
    /// The newest number that came up, plus one. Only the lane whose turn it is writes it.
    next: AtomicU64,
}

impl Layer for Sequence {
    fn overhead(&self) -> Overhead {
        Overhead { head_bytes: 8, tail_bytes: 0 }
    }

    fn is_serial(&self, way: Way) -> bool {
        way == Way::Up
    }

    fn enter(&self, way: Way, batch: &mut Batch) {
        if way == Way::Up {
            return;
        }
        let Batch { work, packets, first, .. } = batch;
        for (number, packet) in (*first..).zip(packets).filter(|(_, packet)| packet.is_passed()) {
            let mut layout = Layout { bytes: work.buffer.bytes_mut(), packet };
            if let Err(verdict) = layout.header(number.to_be_bytes()) {
                packet.refuse(verdict);
            }
        }
    }

    fn serial(&self, way: Way, mut batch: Batch, _: Instant, out: &mut Outbox<'_>) {
        let Batch { work, packets, .. } = &mut batch;
        for packet in packets.iter_mut().filter(|packet| packet.is_passed()) {
            let mut layout = Layout { bytes: work.buffer.bytes_mut(), packet };
            match layout.behead::<8>().map(|(_, number)| u64::from_be_bytes(number)) {
                Ok(number) if number >= self.next.load(Relaxed) && number < u64::MAX => {
                    self.next.store(number + 1, Relaxed);
                }
                Ok(_) => packet.refuse(Verdict::Replayed),
                Err(verdict) => packet.refuse(verdict),
            }
        }
        out.put(way, batch);
    }
}
