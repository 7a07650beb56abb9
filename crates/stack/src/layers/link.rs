//! `fddi` and `ether`, also `ether(9000)`: the frame of a local network, with the maximum number of bytes that it
//! carries. The defaults are 4,352 bytes for `fddi` and 1,500 for `ether`.
//!
//! Guarantees: packets that come up were sent to this station, and are of the protocol of the layer above; longer
//! packets do not go down.

use std::sync::Arc;

use sealane_wire::{ETHERNET_BYTES, Ethernet, EthernetFields, FDDI_SNAP_BYTES, Fddi, FddiFields, MacAddress};

use crate::{End, Kind, Layer, Overhead, SpecError, Way, network};
use sealane_port::{Batch, Verdict};

/// The range of the maximum number of bytes that an argument may set.
const PACKET_BYTES: std::ops::RangeInclusive<usize> = 576..=65_535;

pub(crate) const KIND: Kind = Kind {
    names: || ["ether", "fddi"].map(str::to_owned).to_vec(),
    make: |layer, context| {
        let is_fddi = layer.name == "fddi";
        let packet_bytes = match layer.arguments.as_slice() {
            [] => Some(if is_fddi { 4352 } else { 1500 }),
            [bytes] => bytes.parse().ok().filter(|bytes| PACKET_BYTES.contains(bytes)),
            _ => None,
        };
        let packet_bytes = packet_bytes.ok_or_else(|| SpecError::Arguments {
            layer: layer.to_string(),
            takes: "at most the bytes of a packet, 576 to 65535".to_owned(),
        })?;
        let (near, far) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);
        let (source, destination) = if context.end == End::Near { (near, far) } else { (far, near) };
        let ethertype = network::ethertype_above(context);
        Ok(Arc::new(Frame { is_fddi, packet_bytes, source, destination, ethertype }))
    },
};

#[derive(Debug)]
struct Frame {
    is_fddi: bool,
    packet_bytes: usize,
    source: MacAddress,
    destination: MacAddress,
    ethertype: u16,
}

impl Frame {
    const fn header_bytes(&self) -> usize {
        if self.is_fddi { FDDI_SNAP_BYTES } else { ETHERNET_BYTES }
    }

    fn write(&self, header: &mut [u8]) -> Option<()> {
        let Self { source, destination, ethertype, .. } = *self;
        let written = if self.is_fddi {
            FddiFields { destination, source, ethertype }.write(header)
        } else {
            EthernetFields { destination, source, ethertype }.write(header)
        };
        written.ok()
    }

    fn check(&self, frame: &[u8]) -> Result<(), Verdict> {
        let (destination, ethertype) = if self.is_fddi {
            let frame = Fddi::parse(frame).map_err(|_| Verdict::Malformed)?;
            (frame.destination(), frame.ethertype())
        } else {
            let frame = Ethernet::parse(frame).map_err(|_| Verdict::Malformed)?;
            (frame.destination(), frame.ethertype())
        };
        let is_ours = destination == self.source && ethertype == self.ethertype;
        is_ours.then_some(()).ok_or(Verdict::Unwanted)
    }
}

impl Layer for Frame {
    fn overhead(&self) -> Overhead {
        Overhead { head_bytes: self.header_bytes(), tail_bytes: 0 }
    }

    fn packet_bytes(&self, below: usize) -> usize {
        self.packet_bytes.min(below)
    }

    fn enter(&self, way: Way, batch: &mut Batch) {
        let Batch { work, packets, .. } = batch;
        let bytes = work.buffer.bytes_mut();
        for packet in packets.iter_mut().filter(|packet| packet.is_passed()) {
            match way {
                Way::Down => {
                    let fits = packet.len() <= self.packet_bytes;
                    let header = fits.then(|| packet.push_front(self.header_bytes())).flatten();
                    if header.and_then(|header| self.write(&mut bytes[header.range()])).is_none() {
                        packet.refuse(Verdict::TooLong);
                    }
                }
                Way::Up => match self.check(&bytes[packet.span().range()]) {
                    Ok(()) => drop(packet.pull_front(self.header_bytes())),
                    Err(verdict) => packet.refuse(verdict),
                },
            }
        }
    }
}
