//! The peers of a gateway as its lanes see them.
//!
//! Guarantees: a peer's endpoint changes only after a genuine packet from there, or by its key maker, and only to a
//! possible one ([`can_be_endpoint`](crate::endpoint::can_be_endpoint)); counters take no lock.

use std::{
    collections::BTreeMap,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    num::NonZeroU64,
    sync::{
        Mutex, MutexGuard, OnceLock,
        atomic::{
            AtomicBool, AtomicU8, AtomicU16, AtomicU64, AtomicUsize,
            Ordering::{Acquire, Relaxed, Release},
        },
    },
    time::{Duration, Instant},
};

use sealane_ike::IkeId;
use sealane_ipsec::{
    association::{Association, Kind, Protocol, Way, Whereabouts},
    counters::Drops,
    database::{Database, Request},
    policy::{Action, PeerId, Policies, Policy},
    selector::{Flow, Prefix, Selector},
};
use sealane_lanes::Bells;

use crate::{
    belief::Messages,
    endpoint::{Endpoint, can_be_endpoint},
    keep_alive,
    keying::{agreements::Agreement, mailbox::Mailbox},
    path::{self, Overhead},
    peer_state::{SILENT, SharedState},
    queue::{counters::Counters, outward::LINES_MAX},
    queueing::Queueing,
    site::{Encapsulation, Hosts, Keys, PeerSite, Site},
    strays::Strays,
    streams::Streams,
};

/// The traffic to or from a peer: packets, and their bytes on the wire, without UDP and IP headers.
#[derive(Debug, Default)]
pub struct Traffic {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Traffic {
    /// Returns the numbers of packets and bytes.
    pub fn read(&self) -> (u64, u64) {
        (self.packets.load(Relaxed), self.bytes.load(Relaxed))
    }

    fn add(&self, packets: u64, bytes: u64) {
        self.packets.fetch_add(packets, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }
}

/// One peer.
#[derive(Debug)]
pub struct Peer {
    /// The name in messages and statistics.
    pub name: String,
    endpoint: Whereabouts,
    /// The endpoint came from the site file or the key maker; only a packet with a number above `fresh_above` changes
    /// it.
    is_endpoint_given: AtomicBool,
    /// A packet with a number up to this may be a replay of one that an earlier process has accepted.
    fresh_above: AtomicU64,
    /// The two hosts of transport mode; `None` in tunnel mode.
    pub hosts: Option<Hosts>,
    /// The networks beyond the peer.
    pub networks: Vec<Prefix>,
    /// The peer's state, which the housekeeper writes.
    pub state: SharedState,
    has_agreed_keys: bool,
    /// The reason why there are no associations with the peer.
    problem: Mutex<Option<String>>,
    /// The IKE SAs with the peer.
    agreements: Mutex<BTreeMap<IkeId, Agreement>>,
    /// The entry stands for many clients, so it has no endpoint of its own.
    is_many: bool,
    /// The site file does not have the peer any more.
    is_removed: AtomicBool,
    /// The interval of keep-alives in the site file.
    keep_alive: Option<Duration>,
    /// The rate that packets to the peer must not exceed, in bytes per second.
    rate: Option<NonZeroU64>,
    /// 1 if we are behind a NAT on the way to the peer, 0 if not, or [`UNKNOWN`].
    is_behind_nat: AtomicU8,
    /// The time of the last packet to the peer, to the housekeeper's tick, in milliseconds since the gateway began.
    sent_ms: AtomicU64,
    /// The peer's report about us in the last call.
    word: Mutex<Option<Word>>,
    /// The traffic to the peer.
    pub sent: Traffic,
    /// The traffic from the peer.
    pub received: Traffic,
    /// The number of packets to the peer that were sent to the device past IP.
    direct_packets: AtomicU64,
    /// The time of the peer's newest genuine packet, in milliseconds since the gateway began, from 1; 0 if there is
    /// none.
    heard_ms: AtomicU64,
    overhead: Overhead,
    is_v4: bool,
    /// The site's limit.
    mtu: u16,
    /// The length of the longest packet that senders inside may send, for IPv4 and for IPv6.
    inner_bytes_max: [AtomicU16; 2],
    /// The length of the longest packet that fits into one outside, for IPv4 and for IPv6.
    whole_bytes_max: [AtomicU16; 2],
}

/// The number of peers for which there are places beside those of twice the first site file, so that peers can be added to
/// a running gateway.
const SPARE_PLACES: usize = 1024;

/// No call has reported it.
const UNKNOWN: u8 = 2;

/// A peer's report about us in a call.
#[derive(Clone, Copy, Debug)]
struct Word {
    /// The time for which the peer had received no packet of ours; `None` if it had never received one.
    silence: Option<Duration>,
    /// The number of packets that we had sent to the peer by then.
    sent_packets: u64,
    /// Packets of ours have not reached the peer.
    is_unheard: bool,
}

impl Peer {
    fn new(peer: &PeerSite, encapsulation: Encapsulation, mtu: u16) -> Self {
        Self {
            name: peer.name.clone(),
            networks: peer.networks.clone(),
            state: SharedState::default(),
            has_agreed_keys: matches!(peer.keys, Keys::Peer(_) | Keys::Ike(_)),
            problem: Mutex::default(),
            agreements: Mutex::default(),
            is_many: peer.is_many(),
            is_removed: AtomicBool::new(false),
            keep_alive: peer.keep_alive,
            rate: peer.rate,
            is_behind_nat: AtomicU8::new(UNKNOWN),
            sent_ms: AtomicU64::new(0),
            word: Mutex::new(None),
            endpoint: {
                // A peer that we do not call has called an address of ours.
                let endpoint = Whereabouts::new(peer.endpoint.is_none());
                let address = peer.endpoint.as_ref().and_then(Endpoint::address);
                if let Some(address) = address {
                    endpoint.set(address.into());
                }
                endpoint
            },
            is_endpoint_given: AtomicBool::new(peer.endpoint.is_some()),
            fresh_above: AtomicU64::new(0),
            hosts: peer.hosts,
            sent: Traffic::default(),
            received: Traffic::default(),
            direct_packets: AtomicU64::new(0),
            heard_ms: AtomicU64::new(0),
            overhead: Overhead { kind: peer.kind(), encapsulation },
            is_v4: peer.networks.first().is_none_or(|network| network.address().is_ipv4()),
            mtu,
            inner_bytes_max: [mtu, mtu].map(AtomicU16::new),
            whole_bytes_max: [u16::MAX, u16::MAX].map(AtomicU16::new),
        }
    }

    /// Returns whether the site file does not have the peer any more.
    pub fn is_removed(&self) -> bool {
        self.is_removed.load(Relaxed)
    }

    /// Returns whether associations with the peer are agreed in calls.
    pub fn has_agreed_keys(&self) -> bool {
        self.has_agreed_keys
    }

    /// Returns the reason why there are no associations with the peer, as far as its key maker knows one.
    pub fn problem(&self) -> Option<String> {
        self.problem.lock().expect("nobody panics holding a problem").clone()
    }

    /// Sets the reason why there are no associations with the peer; `None` if there are some, or if there is none to be had
    /// yet.
    pub fn set_problem(&self, problem: Option<String>) {
        *self.problem.lock().expect("nobody panics holding a problem") = problem;
    }

    /// Returns the IKE SAs with the peer.
    pub fn agreements(&self) -> MutexGuard<'_, BTreeMap<IkeId, Agreement>> {
        self.agreements.lock().expect("nobody panics holding agreements")
    }

    /// Returns whether the entry stands for many clients. Each of their associations has an endpoint of its own.
    pub fn is_many(&self) -> bool {
        self.is_many
    }

    /// Returns whether we are behind a NAT on the way to the peer; `None` if no call has reported it.
    pub fn is_behind_nat(&self) -> Option<bool> {
        Some(self.is_behind_nat.load(Relaxed)).filter(|&found| found != UNKNOWN).map(|found| found == 1)
    }

    /// Returns the longest time without a packet to the peer, after which a keep-alive is sent; `None` if none is
    /// sent.
    pub fn keep_alive(&self) -> Option<Duration> {
        let found = || (self.is_behind_nat() == Some(true)).then_some(keep_alive::BEHIND_NAT);
        self.keep_alive.or_else(found).filter(|interval| !interval.is_zero())
    }

    /// Returns the kind of the peer's associations.
    pub fn kind(&self) -> Kind {
        self.overhead.kind
    }

    /// Returns whether the peer's first network is of IPv4.
    pub fn is_v4(&self) -> bool {
        self.is_v4
    }

    /// Returns the number of packets to the peer that were sent to the device past IP.
    pub fn direct_packets(&self) -> u64 {
        self.direct_packets.load(Relaxed)
    }

    /// Returns the length of the longest packet of this family that senders inside may send.
    pub fn inner_bytes_max(&self, is_v4: bool) -> u16 {
        self.inner_bytes_max[usize::from(!is_v4)].load(Relaxed)
    }

    /// Returns the length of the longest inner packet of this family that fits into one outside.
    pub fn whole_bytes_max(&self, is_v4: bool) -> u16 {
        self.whole_bytes_max[usize::from(!is_v4)].load(Relaxed)
    }

    /// Sets the limit of the path to the peer to `path_bytes`.
    pub fn set_path(&self, path_bytes: u32, is_outer_v4: bool) {
        for (at, is_inner_v4) in [true, false].into_iter().enumerate() {
            let fits = self.overhead.fits(path_bytes, is_outer_v4, is_inner_v4);
            self.whole_bytes_max[at].store(fits, Relaxed);
            self.inner_bytes_max[at].store(path::told(fits, is_inner_v4).min(self.mtu), Relaxed);
        }
    }

    /// Returns the time of the peer's newest genuine packet, in milliseconds since the gateway began, from 1; 0 if
    /// there is none.
    pub fn heard_ms(&self) -> u64 {
        self.heard_ms.load(Relaxed)
    }
}

/// All peers of a gateway.
#[derive(Debug)]
pub struct Peers {
    /// The peers by their ids: places are filled in order, and a filled one stays, so that lanes take no lock.
    peers: Box<[OnceLock<Box<Peer>>]>,
    /// The number of peers, removed ones included.
    count: AtomicUsize,
    encapsulation: Encapsulation,
    mtu: u16,
    database: Database,
    drops: Drops,
    /// The packets that waited for the socket, and those that waited for the device.
    waiting: [Counters; 2],
    /// The rates of lines in bytes per second, 0 where there is none: see [`Self::rate`].
    rates: [AtomicU64; LINES_MAX],
    queueing: Queueing,
    messages: Messages,
    listen: SocketAddr,
    protocol: Protocol,
    begun: Instant,
    bells: Bells,
    /// Packets travel in UDP, and so have ports.
    has_ports: bool,
    /// The mailbox for datagrams that are not ESP; `None` if no key maker accepts them.
    mailbox: Option<Mailbox>,
    /// Packets under unknown SPIs; `None` if no key maker wants to know of them.
    strays: Option<Strays>,
    /// Connections of peers that no UDP reaches; `None` if there are none to be.
    streams: Option<Streams>,
    /// Sockets that find out whether an address can be sent to.
    probes: [Option<UdpSocket>; 2],
}

impl Peers {
    /// Returns the peers of `site`, without associations. `bells` are rung when the key maker gets a new request.
    pub fn new(site: &Site, begun: Instant, bells: Bells) -> Self {
        let count = site.peers.len();
        let places = (0..2 * count + SPARE_PLACES).map(|_| OnceLock::new());
        let peers: Box<[OnceLock<Box<Peer>>]> = places.collect();
        for (place, peer) in peers.iter().zip(&site.peers) {
            place.get_or_init(|| Box::new(Peer::new(peer, site.encapsulation, site.mtu)));
        }
        let database = Database::new(policies((0..).map(PeerId).zip(&site.peers)));
        let &Site { listen, protocol, .. } = site;
        let (drops, messages) = (Drops::default(), Messages::default());
        let has_ports = site.encapsulation == Encapsulation::Udp;
        let takes_mail = site.peers.iter().any(|peer| matches!(peer.keys, Keys::Ike(_)));
        let mailbox = (has_ports && takes_mail).then(Mailbox::default);
        let any = [IpAddr::from(Ipv4Addr::UNSPECIFIED), IpAddr::from(Ipv6Addr::UNSPECIFIED)];
        // A host may have only one family.
        let probes = any.map(|any| UdpSocket::bind((any, 0)).ok());
        let strays = takes_mail.then(Strays::default);
        let (count, encapsulation, mtu) = (AtomicUsize::new(count), site.encapsulation, site.mtu);
        let peers = Self {
            peers,
            count,
            encapsulation,
            mtu,
            database,
            drops,
            waiting: Default::default(),
            rates: std::array::from_fn(|_| AtomicU64::new(0)),
            queueing: site.queueing,
            messages,
            listen,
            protocol,
            begun,
            bells,
            has_ports,
            mailbox,
            strays,
            streams: None,
            probes,
        };
        peers.set_rates();
        peers
    }

    /// Adds connections for peers that no UDP reaches.
    #[must_use]
    pub fn with_streams(self, streams: Streams) -> Self {
        Self { streams: Some(streams), ..self }
    }

    /// Returns the connections of peers that no UDP reaches; `None` if there are none to be.
    pub fn streams(&self) -> Option<&Streams> {
        self.streams.as_ref()
    }

    /// Returns the number of peers that may still be added.
    pub fn room(&self) -> usize {
        self.peers.len() - self.count.load(Relaxed)
    }

    /// Adds a peer, without associations and policies; `None` if there is no room.
    pub fn add(&self, peer: &PeerSite) -> Option<PeerId> {
        let at = self.count.load(Relaxed);
        self.peers.get(at)?.set(Box::new(Peer::new(peer, self.encapsulation, self.mtu))).ok()?;
        self.count.store(at + 1, Release);
        self.set_rates();
        Some(PeerId(at as u32))
    }

    /// Notes whether the site file still has a peer.
    pub fn set_removed(&self, id: PeerId, is_removed: bool) {
        self.get(id).is_removed.store(is_removed, Relaxed);
        self.set_rates();
    }

    /// Returns the databases of associations and policies.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Returns the counters of dropped packets.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Returns the order in which packets of the device leave.
    pub fn queueing(&self) -> Queueing {
        self.queueing
    }

    /// Returns the counts of packets that waited for the socket, and of those that waited for the device.
    pub fn waiting(&self) -> [&Counters; 2] {
        self.waiting.each_ref()
    }

    /// Returns the rate that a line of `lines`, a power of two, must not exceed, in bytes per second: the lowest of its peers; `None` if
    /// none of them has one.
    pub fn rate(&self, line: usize, lines: usize) -> Option<u64> {
        let own = self.rates.iter().skip(line).step_by(lines);
        own.map(|rate| rate.load(Relaxed)).filter(|&rate| rate > 0).min()
    }

    fn set_rates(&self) {
        let mut rates = [0; LINES_MAX];
        for (PeerId(id), peer) in self.iter().filter(|(_, peer)| !peer.is_removed()) {
            let own = &mut rates[id as usize % LINES_MAX];
            *own = match peer.rate.map(NonZeroU64::get) {
                Some(rate) if *own == 0 || rate < *own => rate,
                _ => *own,
            };
        }
        self.rates.iter().zip(rates).for_each(|(rate, new)| rate.store(new, Relaxed));
    }

    /// Returns the counters of messages about packets that were too long.
    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// Returns all peers, removed ones too, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (PeerId, &Peer)> {
        let count = self.count.load(Acquire);
        let known = self.peers[..count].iter().filter_map(|place| place.get().map(|peer| &**peer));
        (0..).map(PeerId).zip(known)
    }

    /// Returns a peer.
    pub fn get(&self, id: PeerId) -> &Peer {
        self.peers[id.0 as usize].get().expect("ids are those of peers")
    }

    /// Returns whether packets travel in UDP, and so have ports.
    pub fn has_ports(&self) -> bool {
        self.has_ports
    }

    /// Returns the address that peers send to.
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Returns the protocol that protects packets.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Returns the endpoint of a peer, if it is known.
    pub fn endpoint(&self, id: PeerId) -> Option<SocketAddr> {
        self.get(id).endpoint.get()
    }

    /// Returns the way to a peer, if it is known.
    pub fn way(&self, id: PeerId) -> Option<Way> {
        self.get(id).endpoint.way()
    }

    /// Returns the way of packets under `association`, if it is known.
    pub fn way_of(&self, association: &Association) -> Option<Way> {
        match association.whereabouts() {
            Some(whereabouts) => whereabouts.way(),
            None => self.way(association.parameters().peer),
        }
    }

    /// Sends a request to the key maker, unless it is pending.
    pub fn request(&self, request: Request) {
        if self.database.request(request) {
            self.bells.ring();
        }
    }

    /// Requests an association that takes `flow` from the key maker, unless the request is pending.
    pub fn acquire(&self, peer: PeerId, flow: &Flow) {
        if self.database.acquire(peer, flow) {
            self.bells.ring();
        }
    }

    /// Returns the bells that wake the housekeeper, which runs the key makers.
    pub fn bells(&self) -> &Bells {
        &self.bells
    }

    /// Returns the mailbox of datagrams that are not ESP, for the key makers; `None` if no key maker accepts them.
    pub fn mailbox(&self) -> Option<&Mailbox> {
        self.mailbox.as_ref()
    }

    /// Remembers a packet that came by the way `from` under an unknown SPI, if it is time for another one.
    pub fn note_stray(&self, spi: u32, from: Way) {
        let strays = self.strays.as_ref().filter(|_| can_be_endpoint(from.remote, self.has_ports));
        if strays.is_some_and(|strays| strays.put(spi, from, self.begun.elapsed())) {
            self.bells.ring();
        }
    }

    /// Returns the last packet under an unknown SPI, if there was one.
    pub fn take_stray(&self) -> Option<(u32, Way)> {
        self.strays.as_ref()?.take()
    }

    /// Counts a burst to a peer.
    pub fn sent(&self, id: PeerId, packets: u64, bytes: u64) {
        self.get(id).sent.add(packets, bytes);
    }

    /// Counts the packets of a burst that were sent to the device past IP.
    pub fn sent_directly(&self, id: PeerId, packets: u64) {
        self.get(id).direct_packets.fetch_add(packets, Relaxed);
    }

    /// Counts packets of a peer.
    pub fn received(&self, id: PeerId, packets: u64, bytes: u64) {
        self.get(id).received.add(packets, bytes);
    }

    /// Records that a genuine packet came under `association` by the way `from`, with this number, higher than all
    /// before.
    pub fn heard_under(&self, association: &Association, from: Way, number: u64) {
        if let Some(whereabouts) = association.whereabouts()
            && !whereabouts.has(from)
            && self.can_be_sent_to(from)
        {
            whereabouts.set(from);
        }
        self.heard(association.parameters().peer, from, number);
    }

    /// Records that a genuine packet of the peer came by the way `from`, with this number, higher than all before.
    pub fn heard(&self, id: PeerId, from: Way, number: u64) {
        let peer = self.get(id);
        let since = self.begun.elapsed().as_millis() as u64;
        peer.heard_ms.store(since.max(1), Relaxed);
        if peer.is_many || peer.endpoint.has(from) {
            return;
        }
        let may_be_old = peer.is_endpoint_given.load(Relaxed) && number <= peer.fresh_above.load(Relaxed);
        if !may_be_old && self.can_be_sent_to(from) {
            peer.endpoint.set(from);
            peer.is_endpoint_given.store(false, Relaxed);
        }
    }

    /// Returns whether packets can be sent by a way. The kernel refuses to connect to the broadcast address of a link.
    fn can_be_sent_to(&self, way: Way) -> bool {
        let probe = self.probes[usize::from(way.remote.is_ipv6())].as_ref().filter(|_| way.stream.is_none());
        can_be_endpoint(way.remote, self.has_ports)
            && probe.is_none_or(|probe| {
                // Nothing is sent: to connect a UDP socket only looks up the route.
                let connected = probe.connect((way.remote.ip(), way.remote.port().max(1)));
                !connected.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
            })
    }

    /// Sets the endpoint: the peer has answered a call at `address`, or its name resolves to it.
    pub fn is_at(&self, id: PeerId, address: SocketAddr) {
        self.is_reached_by(id, address.into());
    }

    /// Sets the way to the peer, which its key maker has found.
    pub fn is_reached_by(&self, id: PeerId, way: Way) {
        let peer = self.get(id);
        let is_possible = !peer.is_many && can_be_endpoint(way.remote, self.has_ports);
        // A call tells an address alone.
        let way = Way { local: way.local.or_else(|| peer.endpoint.way()?.local), ..way };
        if is_possible && peer.endpoint.set(way) {
            peer.is_endpoint_given.store(true, Relaxed);
        }
    }

    /// Records the report of a call with the peer: whether we are behind a NAT, and how many seconds ago the peer
    /// received a packet of ours; `None` if it never did.
    pub fn told(&self, id: PeerId, is_behind_nat: bool, heard_s: Option<u32>) {
        let peer = self.get(id);
        peer.is_behind_nat.store(u8::from(is_behind_nat), Relaxed);
        let silence = heard_s.map(|seconds| Duration::from_secs(seconds.into()));
        let sent_packets = peer.sent.read().0;
        let since_sent =
            self.begun.elapsed().saturating_sub(Duration::from_millis(peer.sent_ms.load(Relaxed)));
        let mut word = peer.word.lock().expect("nobody panics holding a word");
        let is_unheard = match (silence, *word) {
            (Some(silence), _) => sent_packets > 0 && since_sent + SILENT <= silence,
            // A restarted peer reports this once.
            (None, Some(before)) => before.silence.is_none() && sent_packets > before.sent_packets,
            (None, None) => false,
        };
        *word = Some(Word { silence, sent_packets, is_unheard });
    }

    /// Records that packets have been sent to the peer since the housekeeper's last check.
    pub fn note_sent(&self, id: PeerId) {
        self.get(id).sent_ms.store(self.begun.elapsed().as_millis() as u64, Relaxed);
    }

    /// Returns whether packets of ours had not reached the peer, by its report in the last call.
    pub fn is_unheard(&self, id: PeerId) -> bool {
        let word = *self.get(id).word.lock().expect("nobody panics holding a word");
        word.is_some_and(|word| word.is_unheard)
    }

    /// Records that an earlier process may have accepted the peer's packets with numbers up to `number`: such packets
    /// do not change a given endpoint.
    pub fn may_be_replayed_up_to(&self, id: PeerId, number: u64) {
        self.get(id).fresh_above.store(number, Relaxed);
    }

    /// Returns the time since the peer's newest packet; `None` if there is none.
    pub fn silence(&self, id: PeerId) -> Option<Duration> {
        let heard = self.get(id).heard_ms.load(Relaxed);
        (heard > 0).then(|| self.begun.elapsed().saturating_sub(Duration::from_millis(heard)))
    }
}

/// Returns policies that lead all traffic between the inside, or those of its networks that the peer knows of, and a
/// peer's networks through the peer's tunnel, the most specific network first.
pub fn policies<'s>(peers: impl IntoIterator<Item = (PeerId, &'s PeerSite)>) -> Policies {
    let mut ordered = Vec::new();
    for (id, peer) in peers {
        for &remote in &peer.networks {
            let is_v4 = remote.address().is_ipv4();
            let locals = match (peer.hosts, &peer.keys) {
                (Some(hosts), _) => vec![Prefix::host(hosts.local)],
                (None, Keys::Ike(ike)) => ike.local_networks.clone(),
                (None, _) => vec![if is_v4 { Prefix::ALL_V4 } else { Prefix::ALL_V6 }],
            };
            let locals = locals.into_iter().filter(|local| local.address().is_ipv4() == is_v4);
            ordered.extend(locals.map(|local| Policy {
                selector: Selector::between(local, remote),
                action: Action::Protect(id),
            }));
        }
    }
    ordered.sort_by_key(|policy| std::cmp::Reverse(policy.selector.remote.bits()));
    Policies::new(ordered)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn peers_of(endpoint: &str) -> Peers {
        let text = format!(
            "device = \"sl0\"\nlisten = \"0.0.0.0:4500\"\n[[peers]]\nname = \"other\"\n{endpoint}\n\
             networks = [\"10.2.0.0/16\"]\n[peers.manual]\nsuite = \"aes-128-cbc+hmac-sha256-128\"\n\
             send = {{ spi = 256, key-file = \"a\" }}\nreceive = {{ spi = 256, key-file = \"b\" }}\n"
        );
        let site = Site::parse(Path::new("site.toml"), &text).expect("a good site file");
        Peers::new(&site, Instant::now(), Bells::new(1).expect("descriptors"))
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn an_address_that_cannot_be_an_endpoint_moves_none() {
        let peers = peers_of("endpoint = \"198.51.100.7:4500\"");
        for bad in [
            "198.51.100.7:0",
            "0.0.0.0:4500",
            "0.1.2.3:4500",
            "255.255.255.255:4500",
            "224.0.0.1:4500",
            "239.255.255.255:4500",
            "[::]:4500",
            "[ff02::1]:4500",
            // The broadcast address of a link, the one that every host has.
            "127.255.255.255:4500",
            "[2001:db8::1]:0",
            "[::ffff:255.255.255.255]:4500",
            "[::ffff:224.0.0.1]:4500",
            "[::ffff:0.0.0.0]:4500",
            "[::ffff:198.51.100.9]:0",
        ] {
            peers.heard(PeerId(0), address(bad).into(), 1);
            assert_eq!(peers.endpoint(PeerId(0)), Some(address("198.51.100.7:4500")), "{bad}");
        }
        assert!(peers.silence(PeerId(0)).is_some(), "it lives all the same");
        for good in
            ["198.51.100.7:1", "203.0.113.1:65535", "[2001:db8::1]:4500", "[::ffff:198.51.100.9]:4500"]
        {
            peers.heard(PeerId(0), address(good).into(), 2);
            assert_eq!(peers.endpoint(PeerId(0)), Some(address(good)));
        }
        // Packets of an IP protocol of their own have no ports.
        assert!(can_be_endpoint(address("198.51.100.7:0"), false));
        assert!(!can_be_endpoint(address("224.0.0.1:0"), false));
        peers.is_at(PeerId(0), address("224.0.0.1:4500"));
        assert_eq!(peers.endpoint(PeerId(0)), Some(address("[::ffff:198.51.100.9]:4500")));
    }

    #[test]
    fn a_peer_that_hears_nothing_of_what_is_sent_says_so_in_its_calls() {
        let id = PeerId(0);
        let long = Some(3600);
        // The answers of calls, and whether packets are sent before each.
        for (calls, is_unheard) in [
            (&[(false, None)][..], false),
            (&[(true, None)], false),
            (&[(true, None), (true, None)], true),
            (&[(true, None), (false, None)], false),
            (&[(true, Some(0))], false),
            (&[(true, long)], true),
            (&[(false, long)], false),
            (&[(true, long), (true, Some(1))], false),
        ] {
            let peers = peers_of("");
            for &(is_sent, heard_s) in calls {
                if is_sent {
                    peers.sent(id, 1, 100);
                    peers.note_sent(id);
                }
                peers.told(id, false, heard_s);
            }
            assert_eq!(peers.is_unheard(id), is_unheard, "{calls:?}");
        }
    }

    #[test]
    fn a_packet_that_an_earlier_process_may_have_taken_moves_no_given_endpoint() {
        let (given, elsewhere) = (address("198.51.100.7:4500"), address("203.0.113.66:4500"));
        let peers = peers_of("endpoint = \"198.51.100.7:4500\"");
        peers.may_be_replayed_up_to(PeerId(0), 1000);
        for number in [1, 999, 1000] {
            peers.heard(PeerId(0), elsewhere.into(), number);
            assert_eq!(peers.endpoint(PeerId(0)), Some(given), "{number}");
        }
        peers.heard(PeerId(0), elsewhere.into(), 1001);
        assert_eq!(peers.endpoint(PeerId(0)), Some(elsewhere));
        // For a peer without a given endpoint, the newest packet is the best hint.
        let peers = peers_of("");
        peers.may_be_replayed_up_to(PeerId(0), 1000);
        for from in [given, elsewhere] {
            peers.heard(PeerId(0), from.into(), 7);
            assert_eq!(peers.endpoint(PeerId(0)), Some(from));
        }
    }
}
