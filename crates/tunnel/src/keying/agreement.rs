//! The messages by which two gateways agree on a pair of associations, on an authenticated channel.
//!
//! ```text
//! caller                             called
//! Offer { spi, seen, kind }  ─────────►
//!                            ◄─────────   Answer::Taken { spi, seen } or Answer::Refused
//! Ready                      ─────────►
//! ```
//!
//! Each end sends the SPI under which it wants to receive, and its view of the other end ([`Seen`]): an end that is
//! seen under an address other than its own is behind a NAT. The keys are derived by the channel's exporter, bound to
//! both SPIs and the kind, so no secret is sent here. With `Ready` the caller confirms that it receives: the called
//! end may send.
//!
//! Guarantees: any bytes are either a message or an error; no memory is allocated for lengths that they claim.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use sealane_engine::debug_only;
use sealane_ipsec::association::Kind;
use zeroize::Zeroizing;

/// The first bytes of an offer: the protocol and its version.
const MAGIC: &[u8; 16] = b"sealane tunnel 2";
/// The maximum length of the text of a kind in bytes.
const KIND_BYTES_MAX: usize = 64;
/// The label of the channel's exporter (RFC 8446, section 7.5).
pub(crate) const EXPORTER_LABEL: &[u8] = b"EXPORTER-sealane-tunnel-2";

/// One end's view of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The address of the other end of the call, as this end sees it; IPv4 addresses are not IPv6-mapped.
    pub address: SocketAddr,
    /// The seconds since a packet of the other end was received; `None` if none was.
    pub heard_s: Option<u32>,
}

/// The length of a [`Seen`] in bytes: an IPv6 address, IPv4-mapped for IPv4, a port, and seconds.
const SEEN_BYTES: usize = 16 + 2 + 4;
/// The value in place of seconds if no packet was received.
const NEVER: u32 = u32::MAX;

impl Seen {
    /// Returns the view of an end at `address`, of which a packet was received `heard_s` seconds ago.
    pub fn new(address: SocketAddr, heard_s: Option<u64>) -> Self {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        Self { address, heard_s: heard_s.map(|seconds| u32::try_from(seconds).unwrap_or(NEVER - 1)) }
    }

    fn to_bytes(self) -> [u8; SEEN_BYTES] {
        let ip = match self.address.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        let mut bytes = [0; SEEN_BYTES];
        bytes[..16].copy_from_slice(&ip.octets());
        bytes[16..18].copy_from_slice(&self.address.port().to_be_bytes());
        bytes[18..].copy_from_slice(&self.heard_s.unwrap_or(NEVER).to_be_bytes());
        bytes
    }

    fn parse(bytes: [u8; SEEN_BYTES]) -> Self {
        let field = |at| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let ip: [u8; 16] = *bytes.first_chunk().expect("an address is shorter");
        let ip = IpAddr::from(Ipv6Addr::from(ip)).to_canonical();
        let port = u16::from_be_bytes([bytes[16], bytes[17]]);
        Self {
            address: SocketAddr::new(ip, port),
            heard_s: Some(field(18)).filter(|&seconds| seconds != NEVER),
        }
    }

    /// Returns whether the seen end, whose own address is `own`, is seen under another one, as behind a NAT.
    pub fn is_behind_nat(self, own: SocketAddr) -> bool {
        self.address != SocketAddr::new(own.ip().to_canonical(), own.port())
    }
}

/// The caller's offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The SPI under which the caller will receive.
    pub spi: u32,
    /// The caller's view of the called end.
    pub seen: Seen,
    /// The kind of protection, in both directions.
    pub kind: Kind,
}

/// The answer of the called end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The called end accepts, and receives under this SPI.
    Taken {
        /// The SPI under which it receives.
        spi: u32,
        /// The called end's view of the caller.
        seen: Seen,
    },
    /// The called end refuses.
    Refused(Refusal),
}

/// Reasons why an offer is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The called end's file has another kind.
    #[error("its site file names another suite, protocol or mode for us")]
    Suite,
    /// Offers come faster than associations are used up.
    #[error("we have asked too often")]
    TooOften,
    /// The called end is calling us at this moment.
    #[error("it is calling us at this moment")]
    Busy,
}

/// The message that the caller receives.
pub(crate) const READY: &[u8] = b"\x02";

/// The bytes are not a valid message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the peer speaks another protocol, or another version of it")]
pub struct NotUnderstood;

/// Returns an SPI that a packet may contain (RFC 4303, section 2.1).
fn spi(bytes: [u8; 4]) -> Result<u32, NotUnderstood> {
    Some(u32::from_be_bytes(bytes)).filter(|&spi| spi >= 0x100).ok_or(NotUnderstood)
}

impl Offer {
    /// Returns the offer as it is sent.
    pub fn to_bytes(self) -> Vec<u8> {
        let kind = self.kind.to_string();
        [&MAGIC[..], &self.spi.to_be_bytes(), &self.seen.to_bytes(), kind.as_bytes()].concat()
    }

    /// Reads an offer.
    ///
    /// # Errors
    /// Fails if the bytes are not an offer.
    pub fn parse(bytes: &[u8]) -> Result<Self, NotUnderstood> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(NotUnderstood)?;
        let (&index, rest) = rest.split_first_chunk().ok_or(NotUnderstood)?;
        let (&seen, name) = rest.split_first_chunk().ok_or(NotUnderstood)?;
        if name.len() > KIND_BYTES_MAX {
            return Err(NotUnderstood);
        }
        let name = str::from_utf8(name).map_err(|_| NotUnderstood)?;
        let kind = name.parse().map_err(|_| NotUnderstood)?;
        Ok(Self { spi: spi(index)?, seen: Seen::parse(seen), kind })
    }
}

impl Answer {
    /// Returns the answer as it is sent.
    pub fn to_bytes(self) -> Vec<u8> {
        match self {
            Self::Taken { spi, seen } => [&[1][..], &spi.to_be_bytes(), &seen.to_bytes()].concat(),
            Self::Refused(Refusal::Suite) => vec![0, 1],
            Self::Refused(Refusal::TooOften) => vec![0, 2],
            Self::Refused(Refusal::Busy) => vec![0, 3],
        }
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// Fails if the bytes are not an answer.
    pub fn parse(bytes: &[u8]) -> Result<Self, NotUnderstood> {
        match *bytes {
            [1, a, b, c, d, ref seen @ ..] => {
                let seen = Seen::parse(seen.try_into().map_err(|_| NotUnderstood)?);
                Ok(Self::Taken { spi: spi([a, b, c, d])?, seen })
            }
            [0, 1] => Ok(Self::Refused(Refusal::Suite)),
            [0, 2] => Ok(Self::Refused(Refusal::TooOften)),
            [0, 3] => Ok(Self::Refused(Refusal::Busy)),
            _ => Err(NotUnderstood),
        }
    }
}

/// Returns the context that the exporter's output is bound to beside the channel.
pub(crate) fn context(offer: Offer, called_spi: u32) -> Vec<u8> {
    [offer.to_bytes(), called_spi.to_be_bytes().to_vec()].concat()
}

/// The key material of both directions.
pub struct Material {
    /// The material from the caller to the called end.
    pub(crate) forth: Zeroizing<Vec<u8>>,
    /// The material from the called end to the caller.
    pub(crate) back: Zeroizing<Vec<u8>>,
}

debug_only!(Material {});

impl Material {
    /// Splits an exporter's output of twice [`Suite::material_bytes`](sealane_ipsec::suite::Suite::material_bytes).
    pub(crate) fn of(exported: &Zeroizing<Vec<u8>>) -> Self {
        let (forth, back) = exported.split_at(exported.len() / 2);
        Self { forth: Zeroizing::new(forth.to_vec()), back: Zeroizing::new(back.to_vec()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen() -> Seen {
        Seen::new("198.51.100.7:4500".parse().expect("an address"), Some(7))
    }

    fn offer(kind: &str) -> Offer {
        Offer { spi: 0x1234_5678, seen: seen(), kind: kind.parse().expect("a kind") }
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        for kind in ["ah transport hmac-sha256-128", "aes-256-gcm"] {
            let offer = offer(kind);
            assert_eq!(Offer::parse(&offer.to_bytes()), Ok(offer));
        }
        let others = [
            Seen::new("[::ffff:192.0.2.1]:1".parse().expect("an address"), None),
            Seen::new("[2001:db8::1]:65535".parse().expect("an address"), Some(u64::MAX)),
        ];
        assert_eq!(others[0].address, "192.0.2.1:1".parse().expect("an address"));
        for seen in [others[0], others[1], seen()] {
            let answer = Answer::Taken { spi: 0x100, seen };
            assert_eq!(Answer::parse(&answer.to_bytes()), Ok(answer));
        }
        for answer in [Refusal::Suite, Refusal::TooOften, Refusal::Busy].map(Answer::Refused) {
            assert_eq!(Answer::parse(&answer.to_bytes()), Ok(answer));
        }
    }

    #[test]
    fn an_end_that_is_seen_elsewhere_is_behind_a_nat() {
        let own = |text: &str| text.parse().expect("an address");
        assert!(!seen().is_behind_nat(own("198.51.100.7:4500")));
        assert!(!seen().is_behind_nat(own("[::ffff:198.51.100.7]:4500")));
        assert!(seen().is_behind_nat(own("192.168.1.7:4500")));
        assert!(seen().is_behind_nat(own("198.51.100.7:4501")));
    }

    #[test]
    fn nothing_else_is_a_message() {
        let good = offer("aes-256-gcm").to_bytes();
        for length in 0..good.len() {
            assert_eq!(Offer::parse(&good[..length]), Err(NotUnderstood), "{length}");
        }
        let long = [&good[..20 + SEEN_BYTES], &[b'a'; 10_000]].concat();
        let other = [b"sealane tunnel 1", &good[16..]].concat();
        let reserved = [&good[..16], &[0, 0, 0, 0xff], &good[20..]].concat();
        for bytes in [&long[..], &other, &reserved, &[0xff; 53]] {
            assert_eq!(Offer::parse(bytes), Err(NotUnderstood));
        }
        let good = Answer::Taken { spi: 0x100, seen: seen() }.to_bytes();
        for length in 0..good.len() {
            assert_eq!(Answer::parse(&good[..length]), Err(NotUnderstood), "{length}");
        }
        let reserved = [&[1, 0, 0, 0, 0xff][..], &good[5..]].concat();
        let longer = [&good[..], &[0]].concat();
        for bytes in [&reserved[..], &longer, &[0], &[0, 0], &[0, 4], &[2], &[1; 6]] {
            assert_eq!(Answer::parse(bytes), Err(NotUnderstood));
        }
    }
}
