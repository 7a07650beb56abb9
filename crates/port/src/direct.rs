//! Sends IPv4 packets to an Ethernet device directly, past the kernel's IP output, which looks up a route for each
//! packet, asks its firewall, and costs more than all the rest of a packet's way.
//!
//! A sender asks the kernel some times a second for the route and the neighbour. The packets to a peer that follow
//! such an answer first go by IP as usual: thus the kernel finds out whether the next hop still lives, or finds an
//! unknown one.
//!
//! Guarantees: packets sent here are the ones that IP would have sent, whole and unfragmented, to the same next hop;
//! packets that could not be the same (longer than the device takes, or for another kind of link) are left to IP. A
//! change of route or neighbour is followed within [`FRESH`].

use std::collections::HashMap;
use std::io::{self, IoSlice};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use arrayvec::ArrayVec;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use sealane_wire::{IPV4_BYTES, Ipv4Fields};

use crate::many::send_many;
use crate::route::{NextHop, Routes};
use crate::sys::{self, MANY};

/// Time for which an answer is believed.
const FRESH: Duration = Duration::from_millis(250);
/// Time for which the answer "no way" is believed: a neighbour is found within a round trip.
const FRESH_NONE: Duration = Duration::from_millis(10);
/// Most answers that are kept; then all are asked for anew.
const NEXT_HOPS_MAX: usize = 4096;
/// The value of the kernel's own packets (RFC 1700).
const TIME_TO_LIVE: u8 = 64;
const ETHERNET_BYTES: usize = 14;
/// EtherType of IPv4.
const IPV4: [u8; 2] = [0x08, 0x00];
const HEADERS_BYTES: usize = ETHERNET_BYTES + IPV4_BYTES;

/// A sender of packets of one protocol.
#[derive(Debug)]
pub(crate) struct Direct {
    link: OwnedFd,
    /// The device that `link` is bound to; 0 if it is not bound.
    device: u32,
    routes: Routes,
    protocol: u8,
    source: Option<Ipv4Addr>,
    next_hops: HashMap<Ipv4Addr, (Instant, Option<NextHop>)>,
    /// Packets that left here.
    pub(crate) sent_packets: u64,
}

impl Direct {
    /// Opens a sender with room for bursts of that many bytes, which uses the route of packets with this mark. Needs
    /// `CAP_NET_RAW`, once.
    pub(crate) fn open(
        protocol: u8,
        source: Option<Ipv4Addr>,
        mark: u32,
        buffer_bytes: usize,
    ) -> io::Result<Self> {
        // A packet socket without a protocol receives nothing.
        let link =
            rustix::net::socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        let _ = sockopt::set_socket_send_buffer_size_force(&link, buffer_bytes);
        let routes = Routes::open(mark)?;
        Ok(Self { link, device: 0, routes, protocol, source, next_hops: HashMap::new(), sent_packets: 0 })
    }

    /// Sends these payloads to `peer` in one call and returns the number sent. Returns `None` if IP has to send them.
    pub(crate) fn send(
        &mut self,
        peer: Ipv4Addr,
        traffic_class: u8,
        payloads: &ArrayVec<&[u8], MANY>,
    ) -> Option<usize> {
        let way = self.next_hop(peer)?;
        let fields = Ipv4Fields {
            traffic_class,
            // A packet that is never fragmented needs no identification (RFC 6864, section 4.1).
            identification: 0,
            dont_fragment: true,
            time_to_live: TIME_TO_LIVE,
            protocol: self.protocol,
            source: way.source,
            destination: peer,
        };
        let mut headers = [[0; HEADERS_BYTES]; MANY];
        for (header, payload) in headers.iter_mut().zip(payloads) {
            if IPV4_BYTES + payload.len() > way.mtu_bytes {
                return None;
            }
            let (ethernet, ip) = header.split_at_mut(ETHERNET_BYTES);
            ethernet[..6].copy_from_slice(&way.to);
            ethernet[6..12].copy_from_slice(&way.from);
            ethernet[12..].copy_from_slice(&IPV4);
            fields.write(ip, payload.len()).ok()?;
        }
        let datagrams: ArrayVec<_, MANY> = headers
            .iter()
            .zip(payloads)
            .map(|(header, payload)| [IoSlice::new(header), IoSlice::new(payload)])
            .collect();
        match send_many(self.link.as_fd(), &datagrams, None) {
            Ok(sent) if sent > 0 => {
                self.sent_packets += sent as u64;
                Some(sent)
            }
            // The device is gone, or down, or full: IP reports which.
            Ok(_) | Err(_) => {
                self.next_hops.remove(&peer);
                None
            }
        }
    }

    /// Returns the way to `peer`, as it was a moment ago. Returns `None` if there is no way, or IP has to look it up
    /// again.
    fn next_hop(&mut self, peer: Ipv4Addr) -> Option<NextHop> {
        let now = Instant::now();
        let is_fresh = |(asked, way): &&(Instant, Option<NextHop>)| {
            now.duration_since(*asked) < if way.is_some() { FRESH } else { FRESH_NONE }
        };
        let Some(&(_, way)) = self.next_hops.get(&peer).filter(is_fresh) else {
            if self.next_hops.len() >= NEXT_HOPS_MAX {
                self.next_hops.clear();
            }
            self.next_hops.insert(peer, (now, self.routes.next_hop(self.source, peer)));
            return None;
        };
        let way = way?;
        if way.device != self.device {
            self.device = 0;
            sys::bind_link(self.link.as_fd(), way.device).ok()?;
            self.device = way.device;
        }
        Some(way)
    }
}
