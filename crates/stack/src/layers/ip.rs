//! `ip` and `ipv6`: a header without options or extensions, between the two ends of a stack. Packets are not
//! fragmented.
//!
//! Guarantees: packets that come up were sent by the other end to this one, and are of the protocol of the layer
//! above.

use std::sync::Arc;

use sealane_wire::{IPV4_BYTES, IPV6_BYTES, Ipv4, Ipv4Fields, Ipv6, Ipv6Fields};

use crate::{
    Kind, Layer, Overhead, Way,
    network::{self, Addresses},
    spec::no_arguments,
};
use sealane_port::{Batch, Verdict};

const HOPS: u8 = 64;

pub(crate) const KIND: Kind = Kind {
    names: || ["ip", "ipv6"].map(str::to_owned).to_vec(),
    make: |layer, context| {
        no_arguments(layer)?;
        let addresses = Addresses::of(&layer.name, context.end).expect("one of the names above");
        let protocol = network::protocol_above(context);
        Ok(Arc::new(Ip { addresses, protocol, ignores_verdicts: context.ignores_verdicts }))
    },
};

#[derive(Debug)]
struct Ip {
    addresses: Addresses,
    protocol: u8,
    ignores_verdicts: bool,
}

impl Ip {
    fn write(&self, header: &mut [u8], payload_bytes: usize) -> Option<()> {
        match self.addresses {
            Addresses::V4 { local, remote } => {
                let fields = Ipv4Fields {
                    traffic_class: 0,
                    identification: 0,
                    dont_fragment: true,
                    time_to_live: HOPS,
                    protocol: self.protocol,
                    source: local,
                    destination: remote,
                };
                fields.write(header, payload_bytes).ok()
            }
            Addresses::V6 { local, remote } => {
                let fields = Ipv6Fields {
                    traffic_class: 0,
                    flow_label: 0,
                    next_header: self.protocol,
                    hop_limit: HOPS,
                    source: local,
                    destination: remote,
                };
                fields.write(header, payload_bytes).ok()
            }
        }
    }

    /// Returns the lengths of the header and of the whole packet in bytes.
    fn read(&self, bytes: &[u8]) -> Result<(usize, usize), Verdict> {
        match self.addresses {
            Addresses::V4 { local, remote } => {
                let ip = Ipv4::parse(bytes).map_err(|_| Verdict::Malformed)?;
                if !ip.checksum_is_right() && !self.ignores_verdicts {
                    return Err(Verdict::Damaged);
                }
                let is_ours = ip.destination() == local
                    && ip.source() == remote
                    && ip.protocol() == self.protocol
                    && !ip.is_fragment();
                is_ours.then(|| (ip.header_bytes(), ip.total_bytes())).ok_or(Verdict::Unwanted)
            }
            Addresses::V6 { local, remote } => {
                let ip = Ipv6::parse(bytes).map_err(|_| Verdict::Malformed)?;
                let is_ours =
                    ip.destination() == local && ip.source() == remote && ip.next_header() == self.protocol;
                is_ours.then(|| (IPV6_BYTES, ip.total_bytes())).ok_or(Verdict::Unwanted)
            }
        }
    }
}

impl Layer for Ip {
    fn overhead(&self) -> Overhead {
        let head_bytes = match self.addresses {
            Addresses::V4 { .. } => IPV4_BYTES,
            Addresses::V6 { .. } => IPV6_BYTES,
        };
        Overhead { head_bytes, tail_bytes: 0 }
    }

    fn enter(&self, way: Way, batch: &mut Batch) {
        let Batch { work, packets, .. } = batch;
        let bytes = work.buffer.bytes_mut();
        for packet in packets.iter_mut().filter(|packet| packet.is_passed()) {
            match way {
                Way::Down => {
                    let payload_bytes = packet.len();
                    let header = packet.push_front(self.overhead().head_bytes);
                    let written =
                        header.and_then(|header| self.write(&mut bytes[header.range()], payload_bytes));
                    if written.is_none() {
                        packet.refuse(Verdict::TooLong);
                    }
                }
                Way::Up => match self.read(&bytes[packet.span().range()]) {
                    Ok((header_bytes, total_bytes)) => {
                        // A link may have padded the packet.
                        let padding_bytes = packet.len().saturating_sub(total_bytes);
                        packet.pull_back(padding_bytes);
                        packet.pull_front(header_bytes);
                    }
                    Err(verdict) => packet.refuse(verdict),
                },
            }
        }
    }
}
