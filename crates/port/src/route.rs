//! Asks the kernel how IPv4 packets to an address leave this host, by rtnetlink(7).
//!
//! Guarantees: an answer is the kernel's at this moment, from its routes, neighbours and devices; anything but a
//! plain way over Ethernet (tunnels, loopback, encapsulating routes, unknown neighbours) gives `None`. Asking changes
//! nothing.

use std::io;
use std::net::Ipv4Addr;

use netlink_packet_core::{NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::link::{LinkAttribute, LinkLayerType, LinkMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteType};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

/// An address of Ethernet.
pub(crate) type LinkAddress = [u8; 6];

/// The way of packets to the next hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NextHop {
    /// Index of the device.
    pub(crate) device: u32,
    /// The device's own address.
    pub(crate) from: LinkAddress,
    /// The next hop's.
    pub(crate) to: LinkAddress,
    /// Length of the longest IP packet that the device takes.
    pub(crate) mtu_bytes: usize,
    /// Source address of packets, if the sender leaves it open.
    pub(crate) source: Ipv4Addr,
}

/// A connection to rtnetlink.
#[derive(Debug)]
pub(crate) struct Routes {
    socket: Socket,
    /// Mark of the packets that it asks for; 0 if they have no mark.
    mark: u32,
}

impl Routes {
    pub(crate) fn open(mark: u32) -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self { socket, mark })
    }

    /// Returns the way to `destination`, from `source` if that is given. Returns `None` if there is no plain way over
    /// Ethernet now.
    pub(crate) fn next_hop(&self, source: Option<Ipv4Addr>, destination: Ipv4Addr) -> Option<NextHop> {
        let (device, hop, preferred) = self.hop(source, destination)?;
        let to = self.neighbour(device, hop)?;
        let (from, mtu_bytes) = self.device(device)?;
        Some(NextHop { device, from, to, mtu_bytes, source: source.or(preferred)? })
    }

    /// Sends one request, and reads its one answer.
    fn ask(&self, question: RouteNetlinkMessage) -> Option<RouteNetlinkMessage> {
        let mut message = NetlinkMessage::from(question);
        message.header.flags = NLM_F_REQUEST;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0).ok()?;
        let (answer, _) = self.socket.recv_from_full().ok()?;
        match NetlinkMessage::deserialize(&answer).ok()?.payload {
            NetlinkPayload::InnerMessage(answer) => Some(answer),
            _ => None,
        }
    }

    /// Returns device, next hop and preferred source.
    fn hop(
        &self,
        source: Option<Ipv4Addr>,
        destination: Ipv4Addr,
    ) -> Option<(u32, Ipv4Addr, Option<Ipv4Addr>)> {
        let mut question = RouteMessage::default();
        question.header.address_family = AddressFamily::Inet;
        question.header.destination_prefix_length = 32;
        question.attributes.push(RouteAttribute::Destination(RouteAddress::Inet(destination)));
        if self.mark != 0 {
            question.attributes.push(RouteAttribute::Mark(self.mark));
        }
        if let Some(source) = source {
            question.header.source_prefix_length = 32;
            question.attributes.push(RouteAttribute::Source(RouteAddress::Inet(source)));
        }
        let RouteNetlinkMessage::NewRoute(route) = self.ask(RouteNetlinkMessage::GetRoute(question))? else {
            return None;
        };
        if route.header.kind != RouteType::Unicast {
            return None;
        }
        let (mut device, mut hop, mut preferred) = (None, destination, None);
        for attribute in route.attributes {
            match attribute {
                RouteAttribute::Oif(index) => device = Some(index),
                RouteAttribute::Gateway(RouteAddress::Inet(gateway)) => hop = gateway,
                RouteAttribute::PrefSource(RouteAddress::Inet(address)) => preferred = Some(address),
                RouteAttribute::Via(_) | RouteAttribute::EncapType(_) => return None,
                _ => {}
            }
        }
        Some((device?, hop, preferred))
    }

    /// Returns the link address of a known neighbour.
    fn neighbour(&self, device: u32, hop: Ipv4Addr) -> Option<LinkAddress> {
        let mut question = NeighbourMessage::default();
        question.header.family = AddressFamily::Inet;
        question.header.ifindex = device;
        question.attributes.push(NeighbourAttribute::Destination(NeighbourAddress::Inet(hop)));
        let answer = self.ask(RouteNetlinkMessage::GetNeighbour(question))?;
        let RouteNetlinkMessage::NewNeighbour(neighbour) = answer else { return None };
        let is_known = matches!(
            neighbour.header.state,
            NeighbourState::Reachable
                | NeighbourState::Stale
                | NeighbourState::Delay
                | NeighbourState::Probe
                | NeighbourState::Permanent
        );
        neighbour.attributes.into_iter().filter(|_| is_known).find_map(|attribute| match attribute {
            NeighbourAttribute::LinkLayerAddress(address) => address.try_into().ok(),
            _ => None,
        })
    }

    /// Returns a device's own link address, and the longest packet that it takes.
    fn device(&self, index: u32) -> Option<(LinkAddress, usize)> {
        let mut question = LinkMessage::default();
        question.header.index = index;
        let RouteNetlinkMessage::NewLink(link) = self.ask(RouteNetlinkMessage::GetLink(question))? else {
            return None;
        };
        if link.header.link_layer_type != LinkLayerType::Ether {
            return None;
        }
        let (mut own, mut mtu) = (None, None);
        for attribute in link.attributes {
            match attribute {
                LinkAttribute::Address(address) => own = address.try_into().ok(),
                LinkAttribute::Mtu(bytes) => mtu = Some(bytes as usize),
                _ => {}
            }
        }
        Some((own?, mtu?))
    }
}
