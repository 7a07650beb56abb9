//! Packet headers as checked views over bytes in place, and operations on whole packets as bytes.
//!
//! - A view ([`Ipv4`], [`Ipv6`], [`Tcp`], [`Udp`], [`Icmp`], [`Esp`], [`Ah`], [`Ethernet`], [`Fddi`]) is made by
//!   `parse`, which checks every length that the view relies on; after that, no accessor can fail. Over `&mut [u8]`
//!   the same view edits in place. Nothing is copied or allocated.
//! - A header to be built is a plain struct of its fields (`Ipv4Fields`, ...) with `write`.
//! - Checksums are summed by vectors ([`Sum`]); [`update`] changes one for a changed field (RFC 1624).
//! - [`virtio`] is the header in front of a packet of a TUN device; [`gso`] cuts the large packets that such
//!   a device gives, and joins small packets into large ones; [`pcap`] is the format of captures.
//!
//! The crate has no I/O and no clock. Any bytes give a value or an error: nothing panics, and nothing reads out of
//! bounds.
#![forbid(unsafe_code)]

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod bytes;
mod checksum;
mod ethernet;
pub mod gso;
mod icmp;
mod ipsec;
mod ipv4;
mod ipv6;
mod malformed;
pub mod pcap;
mod tcp;
mod udp;
pub mod virtio;

pub use checksum::{Sum, update};
pub use ethernet::{
    ETHERNET_BYTES, Ethernet, EthernetFields, FDDI_SNAP_BYTES, Fddi, FddiFields, MacAddress, ethertype,
};
pub use icmp::{ICMP_BYTES, Icmp, IcmpFields, icmp_kind, icmp6_kind};
pub use ipsec::{AH_BYTES, Ah, AhFields, ESP_BYTES, Esp, EspFields, EspTrailer};
pub use ipv4::{IPV4_BYTES, Ipv4, Ipv4Fields};
pub use ipv6::{IPV6_BYTES, Ipv6, Ipv6Fields, Upper};
pub use malformed::Malformed;
pub use tcp::{TCP_BYTES, Tcp, TcpFields, TcpFlags, TcpOption, TcpOptions};
pub use udp::{UDP_BYTES, Udp, UdpFields};

/// Numbers of protocols over IP, as IANA assigns them.
pub mod protocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP for IPv4 (RFC 792).
    pub const ICMP: u8 = 1;
    /// IPv4 inside IP.
    pub const IPV4: u8 = 4;
    /// TCP (RFC 9293).
    pub const TCP: u8 = 6;
    /// UDP (RFC 768).
    pub const UDP: u8 = 17;
    /// IPv6 inside IP.
    pub const IPV6: u8 = 41;
    /// IPv6 routing header.
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header.
    pub const FRAGMENT: u8 = 44;
    /// ESP (RFC 4303).
    pub const ESP: u8 = 50;
    /// AH (RFC 4302).
    pub const AH: u8 = 51;
    /// ICMPv6 (RFC 4443).
    pub const ICMPV6: u8 = 58;
    /// No next header: ESP's dummy packets have it (RFC 4303 section 2.6).
    pub const NONE: u8 = 59;
    /// IPv6 destination options.
    pub const DESTINATION_OPTIONS: u8 = 60;
}
