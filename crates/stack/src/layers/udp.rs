//! `udp`: a header, with a checksum if a network below provides addresses for it. There is no order and no state.
//!
//! Guarantees: packets that come up were sent to this association's port and are undamaged.

use std::sync::Arc;

use sealane_tcp::Ports;
use sealane_wire::{Sum, UDP_BYTES, Udp, UdpFields, protocol};

use crate::{Kind, Layer, Overhead, Way, network, spec::no_arguments};
use sealane_port::{Batch, Verdict};

pub(crate) const KIND: Kind = Kind {
    names: || vec!["udp".to_owned()],
    make: |layer, context| {
        no_arguments(layer)?;
        Ok(Arc::new(UdpLayer {
            ports: context.ports(),
            pseudo: network::pseudo(context, protocol::UDP),
            ignores_verdicts: context.ignores_verdicts,
        }))
    },
};

#[derive(Debug)]
struct UdpLayer {
    ports: Ports,
    pseudo: Option<Sum>,
    ignores_verdicts: bool,
}

impl UdpLayer {
    fn write(&self, datagram: &mut [u8]) -> Option<()> {
        let Ports { source, destination } = self.ports;
        let fields = UdpFields { source_port: source, destination_port: destination };
        fields.write(datagram, datagram.len() - UDP_BYTES).ok()?;
        if let Some(pseudo) = self.pseudo {
            let pseudo = pseudo.double(datagram.len() as u32);
            Udp::parse(datagram).ok()?.fill_checksum(pseudo);
        }
        Some(())
    }

    /// Returns the length of the whole datagram in bytes.
    fn read(&self, bytes: &[u8]) -> Result<usize, Verdict> {
        let udp = Udp::parse(bytes).map_err(|_| Verdict::Malformed)?;
        let total_bytes = udp.total_bytes();
        let is_right =
            self.pseudo.is_none_or(|pseudo| udp.checksum_is_right(pseudo.double(total_bytes as u32)));
        if !is_right && !self.ignores_verdicts {
            return Err(Verdict::Damaged);
        }
        let is_ours =
            (udp.source_port(), udp.destination_port()) == (self.ports.destination, self.ports.source);
        is_ours.then_some(total_bytes).ok_or(Verdict::Unwanted)
    }
}

impl Layer for UdpLayer {
    fn overhead(&self) -> Overhead {
        Overhead { head_bytes: UDP_BYTES, tail_bytes: 0 }
    }

    fn enter(&self, way: Way, batch: &mut Batch) {
        let Batch { work, packets, .. } = batch;
        let bytes = work.buffer.bytes_mut();
        for packet in packets.iter_mut().filter(|packet| packet.is_passed()) {
            match way {
                Way::Down => {
                    let header = packet.push_front(UDP_BYTES);
                    let span = packet.span().range();
                    if header.and_then(|_| self.write(&mut bytes[span])).is_none() {
                        packet.refuse(Verdict::TooLong);
                    }
                }
                Way::Up => match self.read(&bytes[packet.span().range()]) {
                    Ok(total_bytes) => {
                        packet.pull_back(packet.len() - total_bytes);
                        packet.pull_front(UDP_BYTES);
                    }
                    Err(verdict) => packet.refuse(verdict),
                },
            }
        }
    }
}
