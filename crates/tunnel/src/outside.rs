//! The socket to the peers: ESP in UDP (RFC 3948), or ESP (RFC 4303) or AH (RFC 4302) as an IP protocol of its own.
//! AH packets include their IP headers, which AH covers.
//!
//! Guarantees: all packets received in one call have one sender and one traffic class; over IPv4 no message from
//! outside changes how packets are sent.

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr, UdpSocket},
    time::Duration,
};

use rustix::fd::BorrowedFd;
use sealane_ipsec::association::{Protocol, Way};
use sealane_peer::AddressFamily;
use sealane_port::Batch;
use sealane_port::{Port, errors::TooLong, raw::Raw, udp::Udp};
use sealane_wire::protocol;

use crate::site::{Encapsulation, Site};

/// The families of addresses that a socket reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Families {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
    /// Both, as a socket bound to `::` reaches them.
    Both,
}

impl Families {
    /// Returns the families of a socket bound to `listen`.
    pub fn of(listen: SocketAddr) -> Self {
        match listen.ip().to_canonical() {
            IpAddr::V4(_) => Self::V4,
            IpAddr::V6(ip) if ip.is_unspecified() => Self::Both,
            IpAddr::V6(_) => Self::V6,
        }
    }

    /// Returns whether the socket reaches `address`.
    pub fn has(self, address: IpAddr) -> bool {
        match self {
            Self::V4 => address.to_canonical().is_ipv4(),
            Self::V6 => address.to_canonical().is_ipv6(),
            Self::Both => true,
        }
    }
}

impl Families {
    /// Returns the only family; `None` if there are two.
    pub fn only(self) -> Option<AddressFamily> {
        match self {
            Self::V4 => Some(AddressFamily::V4),
            Self::V6 => Some(AddressFamily::V6),
            Self::Both => None,
        }
    }
}

impl fmt::Display for Families {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
            Self::Both => "IPv4 or IPv6",
        })
    }
}

/// The socket, or one half of it after [`Self::split`].
#[derive(Debug)]
pub enum Outside {
    /// Bursts in UDP.
    Udp(Udp),
    /// Packets of protocol 50 or 51.
    Raw(Raw),
}

impl Outside {
    /// Returns the socket for `site`; its packets carry `mark`.
    ///
    /// # Errors
    /// Fails if the system refuses.
    pub fn open(site: &Site, mark: Option<u32>) -> io::Result<Self> {
        let mut outside = match site.encapsulation {
            Encapsulation::Udp => {
                let udp = Udp::new(UdpSocket::bind(site.listen)?, None)?;
                if site.listen.ip().is_unspecified() {
                    udp.report_destinations()?;
                }
                Self::Udp(udp)
            }
            Encapsulation::None => Self::Raw(match site.protocol {
                Protocol::Esp => Raw::listen(protocol::ESP, site.listen.ip(), false)?,
                Protocol::Ah => Raw::listen_whole(protocol::AH, site.listen.ip())?,
            }),
        };
        match (&mut outside, mark) {
            (_, None) => {}
            (Self::Udp(udp), Some(mark)) => udp.set_mark(mark)?,
            (Self::Raw(raw), Some(mark)) => raw.set_mark(mark)?,
        }
        let seen = match &mut outside {
            Self::Udp(udp) => udp.report_too_long(),
            Self::Raw(raw) => raw.report_too_long(),
        };
        match seen {
            // The socket serves IPv6 only.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(outside),
            seen => seen.map(|()| outside),
        }
    }

    /// Passes on the messages about packets that were too long; over IPv6 the kernel does not report them.
    pub fn too_long(&self, hear: impl FnMut(TooLong)) {
        match self {
            Self::Udp(udp) => udp.too_long(hear),
            Self::Raw(raw) => raw.too_long(hear),
        }
    }

    /// Makes [`Self::waited`] known, as far as the socket can tell.
    pub fn report_times(&self) {
        if let Self::Udp(udp) = self {
            // Otherwise packets count from the time when they are received.
            let _ = udp.report_times();
        }
    }

    /// Returns the time for which the packets received last waited in the socket, and whether nothing was left there.
    pub fn waited(&self) -> (Duration, bool) {
        match self {
            Self::Udp(udp) => (udp.waited, udp.is_dry),
            Self::Raw(_) => (Duration::ZERO, false),
        }
    }

    /// Returns up to `count` sockets more of the same address, which send the same packets and receive nothing; none if the kernel or the
    /// encapsulation has none. Call it before packets come.
    pub fn siblings(&self, count: usize, mark: Option<u32>) -> Vec<Self> {
        let Self::Udp(udp) = self else { return Vec::new() };
        let mut siblings = udp.siblings(count).unwrap_or_default();
        if let Some(mark) = mark {
            siblings.retain(|sibling| sibling.set_mark(mark).is_ok());
        }
        siblings.into_iter().map(Self::Udp).collect()
    }

    /// Receives packets without waiting for them.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::WouldBlock`] if there is none, and errors of the kernel.
    pub fn receive_now(&mut self, batch: &mut Batch) -> io::Result<usize> {
        match self {
            Self::Udp(udp) => udp.receive_now(batch),
            Self::Raw(raw) => raw.receive_now(batch),
        }
    }

    /// Returns the same socket twice, so that one thread can receive while another sends.
    #[must_use]
    pub fn split(self) -> (Self, Self) {
        match self {
            Self::Udp(udp) => {
                let (one, other) = udp.split();
                (Self::Udp(one), Self::Udp(other))
            }
            Self::Raw(raw) => {
                let (one, other) = raw.split();
                (Self::Raw(one), Self::Raw(other))
            }
        }
    }

    /// Sends this half's packets to the device past IP, if `site` asks for that.
    ///
    /// # Errors
    /// Fails if the system refuses.
    pub fn send_directly(&mut self, site: &Site) -> io::Result<()> {
        match self {
            Self::Raw(raw) if site.is_direct => raw.send_directly(protocol::ESP, site.listen.ip()),
            _ => Ok(()),
        }
    }

    /// Returns the number of packets that were sent past IP.
    pub fn direct_packets(&self) -> u64 {
        match self {
            Self::Udp(_) => 0,
            Self::Raw(raw) => raw.direct_packets(),
        }
    }

    /// Sends packets by `way` from now on, with this traffic class; `is_whole` forbids fragmentation.
    pub fn aim(&mut self, way: Way, traffic_class: u8, is_whole: bool) {
        match self {
            Self::Udp(udp) => {
                udp.set_peer(way.remote);
                udp.local = way.local;
                udp.set_whole(is_whole);
                udp.traffic_class = traffic_class;
            }
            Self::Raw(raw) => {
                raw.set_peer(way.remote.ip());
                raw.set_whole(is_whole);
                // If this fails, the packet is sent nevertheless.
                let _ = raw.set_traffic_class(traffic_class);
            }
        }
    }

    /// Returns the way to the sender, and the traffic class, of the packets received last.
    pub fn last(&self) -> (Option<Way>, u8) {
        match self {
            Self::Udp(udp) => {
                let way = udp.source.map(|source| Way { local: udp.destination, ..Way::from(source) });
                (way, udp.received_traffic_class)
            }
            Self::Raw(raw) => {
                let way = raw.source.map(|ip| Way::from(SocketAddr::new(ip, 0)));
                (way, raw.received_traffic_class)
            }
        }
    }

    /// Returns the bytes of memory that packets take which have not left the host.
    pub fn unsent_bytes(&self) -> u32 {
        match self {
            Self::Udp(udp) => udp.unsent_bytes(),
            Self::Raw(raw) => raw.unsent_bytes(),
        }
    }

    /// Returns the number of packets that the kernel refused.
    pub fn refused_packets(&self) -> u64 {
        match self {
            Self::Udp(udp) => udp.refused_packets,
            Self::Raw(raw) => raw.refused_packets,
        }
    }
}

impl Port for Outside {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        match self {
            Self::Udp(udp) => udp.receive(batch),
            Self::Raw(raw) => raw.receive(batch),
        }
    }

    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        match self {
            Self::Udp(udp) => udp.send(batch, from),
            Self::Raw(raw) => raw.send(batch, from),
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Self::Udp(udp) => udp.fd(),
            Self::Raw(raw) => raw.fd(),
        }
    }
}
