//! Path MTU discovery for the packets to peers (RFC 4301, section 8.2).
//!
//! Over IPv4 the gateway does it itself. Routers announce the limits of their links (RFC 1191), but anybody who knows
//! two addresses and a port can forge such a message (RFC 5927). A message is believed if it quotes a packet of ours:
//! the SPI of the association that we send under, and one of the last numbers assigned. Only hosts on the path have
//! seen both. A quote that is too short to contain them (RFC 792 requires eight bytes, which are UDP's header) is a
//! hint, and lowers no path's limit below that of every IPv6 link. All other messages are counted, and change
//! nothing. The kernel receives the same messages and believes them; so its limit for a path is used only if it is
//! higher than the known one, and the limit of its own device always.
//!
//! Over IPv6 the kernel's limit is used: it is never below that of every IPv6 link, and no router fragments packets.
//!
//! Guarantees: a host that does not see our packets lowers no path's limit below 1,280 bytes; nobody lowers one for
//! longer than ten minutes without another message; every message is counted under one verdict.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    time::{Duration, Instant},
};

use rustix::net::sockopt;
use sealane_ipsec::{
    association::{Outbound, Protocol},
    policy::PeerId,
};
use sealane_port::errors::{Teller, TooLong};

use crate::{belief::Belief, outside::Outside, peers::Peers};

/// The interval between queries to the kernel.
const LOOK: Duration = Duration::from_secs(1);
/// The number of peers checked each time; with more peers, each is checked less often.
const PEERS_AT_ONCE: usize = 64;
/// The time for which a message is believed (RFC 1191, section 6.3).
const BELIEVED: Duration = Duration::from_secs(600);
/// The number of last sequence numbers that a message may quote: the packets that a fast path has under way, and
/// those sent until the message is read.
const SENT_NUMBERS: u32 = 1 << 20;
/// The lowest limit that is believed: nearly all paths allow more, so a lower one is a mistake or a lie (Linux uses
/// the same bound).
const LEAST_BELIEVED: u32 = 552;
/// The lowest limit that is believed from a message that proves nothing (RFC 8200, section 5).
const LEAST_HINTED: u32 = 1280;

/// Returns the verdict on a message that quotes a packet to the peer of `outbound`.
fn judge(quoted: &[u8], outbound: &Outbound) -> Belief {
    let parameters = outbound.association().parameters();
    // In AH, four bytes stand in front of the SPI and number (RFC 4302, section 2).
    let at = match parameters.protocol {
        Protocol::Esp => 0,
        Protocol::Ah => 4,
    };
    let word = |at: usize| Some(u32::from_be_bytes(*quoted.get(at..)?.first_chunk()?));
    let (Some(spi), Some(shown)) = (word(at), word(at + 4)) else { return Belief::Hint };
    let next = outbound.numbers().next();
    // A packet contains the low half of its number.
    let behind = (next as u32).wrapping_sub(shown);
    let is_sent = (1..=SENT_NUMBERS).contains(&behind) && u64::from(behind) < next;
    if spi == parameters.spi && is_sent { Belief::Believed } else { Belief::Foreign }
}

/// The limits known for the IPv4 path to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PathLimits {
    endpoint: SocketAddr,
    /// The limit of our own link.
    link_bytes: u32,
    /// The limit that routers announced, and the end of its validity.
    told: Option<(u32, Instant)>,
}

impl PathLimits {
    fn hear(&mut self, verdict: Belief, mtu: u32, now: Instant) {
        let mtu = match verdict {
            Belief::Believed => mtu.max(LEAST_BELIEVED),
            Belief::Hint => mtu.max(LEAST_HINTED),
            Belief::Foreign => return,
        };
        if mtu < self.bytes(now) {
            self.told = Some((mtu, now + BELIEVED));
        }
    }

    fn bytes(&mut self, now: Instant) -> u32 {
        self.told = self.told.filter(|&(_, until)| now < until);
        self.told.map_or(self.link_bytes, |(mtu, _)| mtu.min(self.link_bytes))
    }
}

/// The paths to all peers.
#[derive(Debug)]
pub struct Paths {
    sockets: [Option<UdpSocket>; 2],
    due: Instant,
    next: usize,
    known: HashMap<PeerId, PathLimits>,
}

impl Paths {
    /// Returns the paths of packets with `mark`, before the first check. If a socket cannot be opened, the paths of
    /// its family stay unchanged.
    pub fn new(mark: Option<u32>, now: Instant) -> Self {
        let socket = |address: IpAddr| {
            let socket = UdpSocket::bind((address, 0)).ok()?;
            mark.map_or(Ok(()), |mark| sealane_port::set_mark(&socket, mark)).ok()?;
            Some(socket)
        };
        let sockets = [socket(Ipv4Addr::UNSPECIFIED.into()), socket(Ipv6Addr::UNSPECIFIED.into())];
        Self { sockets, due: now, next: 0, known: HashMap::new() }
    }

    /// Checks some peers' paths, if a check is due.
    pub fn look(&mut self, peers: &Peers, now: Instant) {
        if now < self.due {
            return;
        }
        self.due = now + LOOK;
        let count = peers.iter().count();
        for _ in 0..count.min(PEERS_AT_ONCE) {
            let id = PeerId((self.next % count) as u32);
            self.next = self.next.wrapping_add(1);
            let Some(endpoint) = peers.endpoint(id) else { continue };
            let Some(bytes) = self.path_bytes(endpoint) else { continue };
            if endpoint.is_ipv4() {
                let known = self.known(id, endpoint, bytes);
                known.link_bytes = known.link_bytes.max(bytes);
                peers.get(id).set_path(known.bytes(now), true);
            } else {
                peers.get(id).set_path(bytes.max(LEAST_HINTED), false);
            }
        }
    }

    /// Returns the limits known for the path to a peer's present endpoint. For a new path, the kernel may have
    /// believed forged messages, so its limit counts at most as a hint; the kernel reports the limit of our own link
    /// by itself.
    fn known(&mut self, id: PeerId, endpoint: SocketAddr, believed_bytes: u32) -> &mut PathLimits {
        let new = PathLimits { endpoint, link_bytes: believed_bytes.max(LEAST_HINTED), told: None };
        let known = self.known.entry(id).or_insert(new);
        if known.endpoint.ip() != endpoint.ip() {
            *known = new;
        }
        known
    }

    /// Processes the messages about packets that left through `outside`.
    pub fn hear(&mut self, peers: &Peers, outside: &Outside, now: Instant) {
        let mut places: Option<HashMap<SocketAddr, Vec<PeerId>>> = None;
        // Packets of an IP protocol of their own have no ports.
        let place = |address: SocketAddr| match outside {
            Outside::Udp(_) => address,
            Outside::Raw(_) => SocketAddr::new(address.ip(), 0),
        };
        outside.too_long(|TooLong { to, mtu, teller }| match teller {
            Teller::Kernel => {
                for (id, peer) in peers.iter() {
                    let Some(endpoint) = peers.endpoint(id).filter(|endpoint| endpoint.ip() == to.ip())
                    else {
                        continue;
                    };
                    let known = self.known(id, endpoint, mtu);
                    known.link_bytes = mtu;
                    peer.set_path(known.bytes(now), true);
                }
            }
            Teller::Router(quoted) => {
                let places = places.get_or_insert_with(|| {
                    let mut places: HashMap<SocketAddr, Vec<PeerId>> = HashMap::new();
                    for (id, _) in peers.iter() {
                        if let Some(endpoint) = peers.endpoint(id) {
                            places.entry(place(endpoint)).or_default().push(id);
                        }
                    }
                    places
                });
                let snapshot = peers.database().snapshot();
                let judged = places.get(&place(to)).into_iter().flatten().filter_map(|&id| {
                    let all = snapshot.outbound.get(&id)?.iter();
                    let verdict = all.map(|one| judge(&quoted, one)).find(|&it| it != Belief::Foreign)?;
                    Some((id, verdict))
                });
                let judged: Vec<_> = judged.collect();
                peers.messages().count(judged.first().map_or(Belief::Foreign, |&(_, verdict)| verdict));
                for (id, verdict) in judged {
                    let Some(endpoint) = peers.endpoint(id) else { continue };
                    let Some(bytes) = self.path_bytes(endpoint) else { continue };
                    let known = self.known(id, endpoint, bytes);
                    known.hear(verdict, mtu, now);
                    peers.get(id).set_path(known.bytes(now), true);
                }
            }
        });
    }

    /// Returns the kernel's limit for the path to `endpoint`.
    fn path_bytes(&self, endpoint: SocketAddr) -> Option<u32> {
        let socket = self.sockets[usize::from(endpoint.is_ipv6())].as_ref()?;
        // Nothing is sent: to connect a UDP socket only looks up the route.
        socket.connect(endpoint).ok()?;
        if endpoint.is_ipv4() { sockopt::ip_mtu(socket).ok() } else { sockopt::ipv6_mtu(socket).ok() }
    }
}

#[cfg(test)]
mod tests {
    use sealane_engine::Implementations;
    use sealane_ipsec::lifetime::Lifetime;

    use super::*;
    use crate::in_memory;

    /// Returns the first bytes of a packet with these fields.
    fn quote(spi: u32, number: u32) -> Vec<u8> {
        [spi.to_be_bytes(), number.to_be_bytes()].concat()
    }

    #[test]
    fn who_shows_what_was_sent_is_believed() {
        let suite = "aes-128-gcm".parse().expect("a suite");
        let (spi, now) = (0x1234_5678, Instant::now());
        let made = in_memory::association(
            Implementations::default(),
            suite,
            spi,
            PeerId(0),
            7,
            Lifetime::default(),
            now,
        );
        let (outbound, _) = made.expect("good parameters");
        for number in [0, 1] {
            assert_eq!(judge(&quote(spi, number), &outbound), Belief::Foreign, "nothing was sent");
        }
        outbound.numbers().reserve(1000).expect("numbers");
        for (number, verdict) in [
            (1, Belief::Believed),
            (1000, Belief::Believed),
            (0, Belief::Foreign),
            (1001, Belief::Foreign),
            (u32::MAX, Belief::Foreign),
        ] {
            assert_eq!(judge(&quote(spi, number), &outbound), verdict, "{number}");
            assert_eq!(judge(&quote(spi ^ 1, number), &outbound), Belief::Foreign);
        }
        // The number is beyond the low half, and far from the first ones.
        outbound.numbers().reserve(1 << 32).expect("numbers");
        let next = outbound.numbers().next() as u32;
        assert_eq!(judge(&quote(spi, next.wrapping_sub(1)), &outbound), Belief::Believed);
        assert_eq!(judge(&quote(spi, next.wrapping_sub(SENT_NUMBERS)), &outbound), Belief::Believed);
        assert_eq!(judge(&quote(spi, next.wrapping_sub(SENT_NUMBERS + 1)), &outbound), Belief::Foreign);
        assert_eq!(judge(&quote(spi, next), &outbound), Belief::Foreign);
        for bytes in 0..8 {
            assert_eq!(judge(&quote(spi, next)[..bytes], &outbound), Belief::Hint, "{bytes} bytes");
        }
    }

    #[test]
    fn ah_shows_it_behind_four_bytes() {
        let (protocol, suite) = (Protocol::Ah, "hmac-sha256-128".parse().expect("a suite"));
        let parameters = sealane_ipsec::association::Parameters {
            spi: 0x9876,
            peer: PeerId(0),
            protocol,
            mode: sealane_ipsec::association::Mode::Tunnel,
            suite,
            sequence: sealane_ipsec::sequence::SequenceBits::Short,
            lifetime: Lifetime::default(),
        };
        let made = Outbound::new(Implementations::default(), parameters, &[1; 32], 1, Instant::now());
        let outbound = made.expect("good parameters");
        outbound.numbers().reserve(5).expect("numbers");
        let quoted = [&[4, 5, 0, 0][..], &quote(0x9876, 5)].concat();
        assert_eq!(judge(&quoted, &outbound), Belief::Believed);
        assert_eq!(judge(&quoted[..8], &outbound), Belief::Hint);
        assert_eq!(judge(&quoted[4..], &outbound), Belief::Hint);
        assert_eq!(judge(&[&quoted[4..], &[0; 4]].concat(), &outbound), Belief::Foreign);
    }

    #[test]
    fn paths_are_as_narrow_as_is_known() {
        let (now, later) = (Instant::now(), Instant::now() + BELIEVED);
        let endpoint = SocketAddr::from(([192, 0, 2, 1], 4500));
        let new = PathLimits { endpoint, link_bytes: 1500, told: None };
        let after = |heard: &[(Belief, u32)]| {
            let mut known = new;
            heard.iter().for_each(|&(verdict, mtu)| known.hear(verdict, mtu, now));
            assert_eq!(known.bytes(later), 1500, "nobody is believed for longer");
            known.hear(Belief::Believed, 1492, later);
            assert_eq!(known.bytes(later), 1492);
            let mut known = new;
            heard.iter().for_each(|&(verdict, mtu)| known.hear(verdict, mtu, now));
            known.bytes(now)
        };
        for (heard, bytes) in [
            (&[(Belief::Believed, 1300)][..], 1300),
            (&[(Belief::Believed, 1300), (Belief::Believed, 1400)], 1300),
            (&[(Belief::Believed, 9000)], 1500),
            (&[(Belief::Believed, 0)], LEAST_BELIEVED),
            (&[(Belief::Hint, 1400)], 1400),
            (&[(Belief::Hint, 68)], LEAST_HINTED),
            (&[(Belief::Believed, 1000), (Belief::Hint, 68)], 1000),
            (&[(Belief::Hint, 68), (Belief::Believed, 1000)], 1000),
            (&[(Belief::Foreign, 68)], 1500),
        ] {
            assert_eq!(after(heard), bytes, "{heard:?}");
        }
    }

    #[test]
    fn what_was_made_up_of_a_place_before_narrows_no_path_to_it() {
        let now = Instant::now();
        let mut paths = Paths::new(None, now);
        let places = [1, 2].map(|last| SocketAddr::from(([192, 0, 2, last], 4500)));
        let known = paths.known(PeerId(0), places[0], 552);
        assert_eq!(known.bytes(now), LEAST_HINTED);
        known.hear(Belief::Believed, 1000, now);
        assert_eq!(paths.known(PeerId(0), places[0], 1500).bytes(now), 1000);
        // A limit announced for one endpoint does not apply to another.
        assert_eq!(paths.known(PeerId(0), places[1], 1500).bytes(now), 1500);
    }
}
