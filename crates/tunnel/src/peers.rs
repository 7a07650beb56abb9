//! The peers of a gateway as its lanes see them.
//!
//! Guarantees: a peer's end point changes only after a genuine packet from there, or by its key maker, and only to
//! what can be one ([`can_be_endpoint`](crate::endpoint::can_be_endpoint)); counters take no lock.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwapOption;
use sealane_ipsec::{
    association::{Association, Kind, Protocol},
    counters::Drops,
    database::{Database, Request},
    policy::{Action, PeerId, Policies, Policy},
    selector::{Flow, Prefix, Selector},
};
use sealane_stack::Bells;

use crate::{
    discovery::Messages,
    endpoint::{Endpoint, can_be_endpoint},
    keep_alive,
    keying::{agreements::Agreement, mailbox::Mailbox},
    news::{SILENT, SharedState},
    path::{self, Overhead},
    site::{Encapsulation, Hosts, Keys, Site},
};

/// What has gone to a peer or come from it: packets, and their bytes as they travel, without UDP and IP headers.
#[derive(Debug, Default)]
pub struct Traffic {
    packets: AtomicU64,
    bytes: AtomicU64,
}

impl Traffic {
    /// Packets and bytes.
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
    /// As in messages and statistics.
    pub name: String,
    endpoint: ArcSwapOption<SocketAddr>,
    /// The endpoint came from the site file or the key maker; only a packet with a number above `fresh_above` moves
    /// it.
    is_endpoint_given: AtomicBool,
    /// A packet with a number up to this may be a replay of one that an earlier process has accepted.
    fresh_above: AtomicU64,
    /// The two hosts of transport mode; `None`: tunnel mode.
    pub hosts: Option<Hosts>,
    /// Networks beyond it.
    pub networks: Vec<Prefix>,
    /// Its state, which the housekeeper writes.
    pub state: SharedState,
    has_agreed_keys: bool,
    /// What IKE has agreed on with it.
    agreements: Mutex<Vec<Agreement>>,
    /// The interval of keep-alives in the site file.
    keep_alive: Option<Duration>,
    /// 1 if we are behind a NAT on the way to it, 0 if not, or [`UNKNOWN`].
    is_behind_nat: AtomicU8,
    /// The time of the last packet to it, to the housekeeper's tick, in milliseconds since the gateway began.
    sent_ms: AtomicU64,
    /// Its report about us in the last call.
    word: Mutex<Option<Word>>,
    /// To the peer.
    pub sent: Traffic,
    /// From the peer.
    pub received: Traffic,
    /// Of the packets to it, those that went to the device past IP.
    direct_packets: AtomicU64,
    /// When its newest genuine packet came, in milliseconds since the gateway began, from 1; 0: never.
    heard_ms: AtomicU64,
    overhead: Overhead,
    is_v4: bool,
    /// Of the site.
    mtu: u16,
    /// The longest packet that senders inside may send, of IPv4 and of IPv6.
    inner_bytes_max: [AtomicU16; 2],
    /// The longest that fits into one outside.
    whole_bytes_max: [AtomicU16; 2],
}

/// No call has told.
const UNKNOWN: u8 = 2;

/// A peer's report about us in a call.
#[derive(Clone, Copy, Debug)]
struct Word {
    /// The time for which it had heard no packet of ours; `None`: it had never heard one.
    silence: Option<Duration>,
    /// The packets that we had sent to it by then.
    sent_packets: u64,
    /// Packets of ours have not reached it.
    is_unheard: bool,
}

impl Peer {
    /// Whether associations with it are agreed in calls.
    pub fn has_agreed_keys(&self) -> bool {
        self.has_agreed_keys
    }

    /// What IKE has agreed on with it: an entry for each IKE SA.
    pub fn agreements(&self) -> MutexGuard<'_, Vec<Agreement>> {
        self.agreements.lock().expect("nobody panics holding agreements")
    }

    /// Whether we are behind a NAT on the way to it; `None`: no call has told.
    pub fn is_behind_nat(&self) -> Option<bool> {
        Some(self.is_behind_nat.load(Relaxed)).filter(|&found| found != UNKNOWN).map(|found| found == 1)
    }

    /// The longest time without a packet to it, after which a keep-alive is sent; `None`: no keep-alives.
    pub fn keep_alive(&self) -> Option<Duration> {
        let found = || (self.is_behind_nat() == Some(true)).then_some(keep_alive::BEHIND_NAT);
        self.keep_alive.or_else(found).filter(|interval| !interval.is_zero())
    }

    /// The kind of its associations.
    pub fn kind(&self) -> Kind {
        self.overhead.kind
    }

    /// Whether its first network is of IPv4.
    pub fn is_v4(&self) -> bool {
        self.is_v4
    }

    /// Of the packets to it, those that went to the device past IP.
    pub fn direct_packets(&self) -> u64 {
        self.direct_packets.load(Relaxed)
    }

    /// The longest packet, of this family, that senders inside may send.
    pub fn inner_bytes_max(&self, is_v4: bool) -> u16 {
        self.inner_bytes_max[usize::from(!is_v4)].load(Relaxed)
    }

    /// The longest packet inside, of this family, that fits into one outside.
    pub fn whole_bytes_max(&self, is_v4: bool) -> u16 {
        self.whole_bytes_max[usize::from(!is_v4)].load(Relaxed)
    }

    /// The path to it takes packets of so many bytes.
    pub fn set_path(&self, path_bytes: u32, is_outer_v4: bool) {
        for (at, is_inner_v4) in [true, false].into_iter().enumerate() {
            let fits = self.overhead.fits(path_bytes, is_outer_v4, is_inner_v4);
            self.whole_bytes_max[at].store(fits, Relaxed);
            self.inner_bytes_max[at].store(path::told(fits, is_inner_v4).min(self.mtu), Relaxed);
        }
    }

    /// When its newest genuine packet came, in milliseconds since the gateway began, from 1; 0: never.
    pub fn heard_ms(&self) -> u64 {
        self.heard_ms.load(Relaxed)
    }
}

/// All peers of a gateway.
#[derive(Debug)]
pub struct Peers {
    peers: Vec<Peer>,
    database: Database,
    drops: Drops,
    messages: Messages,
    listen: SocketAddr,
    protocol: Protocol,
    begun: Instant,
    bells: Bells,
    /// Whether packets have ports.
    has_ports: bool,
    /// For datagrams that are not ESP; `None`: nobody takes them.
    mailbox: Option<Mailbox>,
}

impl Peers {
    /// The peers of `site`, without associations. `bells` are rung when the key maker is asked for something new.
    pub fn new(site: &Site, begun: Instant, bells: Bells) -> Self {
        let peers = site.peers.iter().map(|peer| Peer {
            name: peer.name.clone(),
            networks: peer.networks.clone(),
            state: SharedState::default(),
            has_agreed_keys: matches!(peer.keys, Keys::Peer(_) | Keys::Ike(_)),
            agreements: Mutex::default(),
            keep_alive: peer.keep_alive,
            is_behind_nat: AtomicU8::new(UNKNOWN),
            sent_ms: AtomicU64::new(0),
            word: Mutex::new(None),
            endpoint: ArcSwapOption::from_pointee(peer.endpoint.as_ref().and_then(Endpoint::address)),
            is_endpoint_given: AtomicBool::new(peer.endpoint.is_some()),
            fresh_above: AtomicU64::new(0),
            hosts: peer.hosts,
            sent: Traffic::default(),
            received: Traffic::default(),
            direct_packets: AtomicU64::new(0),
            heard_ms: AtomicU64::new(0),
            overhead: Overhead { kind: peer.kind(), encapsulation: site.encapsulation },
            is_v4: peer.networks.first().is_none_or(|network| network.address().is_ipv4()),
            mtu: site.mtu,
            inner_bytes_max: [site.mtu, site.mtu].map(AtomicU16::new),
            whole_bytes_max: [u16::MAX, u16::MAX].map(AtomicU16::new),
        });
        let database = Database::new(policies(site));
        let &Site { listen, protocol, .. } = site;
        let (peers, drops, messages) = (peers.collect(), Drops::default(), Messages::default());
        let has_ports = site.encapsulation == Encapsulation::Udp;
        let takes_mail = site.peers.iter().any(|peer| matches!(peer.keys, Keys::Ike(_)));
        let mailbox = takes_mail.then(Mailbox::default);
        Self { peers, database, drops, messages, listen, protocol, begun, bells, has_ports, mailbox }
    }

    /// The associations and policies.
    pub fn database(&self) -> &Database {
        &self.database
    }

    /// Packets that went nowhere.
    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// Messages of packets that were too long on their way.
    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// All peers, in the order of their ids.
    pub fn iter(&self) -> impl Iterator<Item = (PeerId, &Peer)> {
        (0..).map(PeerId).zip(&self.peers)
    }

    /// One peer.
    pub fn get(&self, id: PeerId) -> &Peer {
        &self.peers[id.0 as usize]
    }

    /// Whether packets travel in UDP, and so have ports.
    pub fn has_ports(&self) -> bool {
        self.has_ports
    }

    /// Where peers send to.
    pub fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// What protects packets.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Where a peer is, if that is known.
    pub fn endpoint(&self, id: PeerId) -> Option<SocketAddr> {
        self.get(id).endpoint.load().as_deref().copied()
    }

    /// Where packets under `association` go, if that is known.
    pub fn endpoint_of(&self, association: &Association) -> Option<SocketAddr> {
        match association.whereabouts() {
            Some(whereabouts) => whereabouts.get(),
            None => self.endpoint(association.parameters().peer),
        }
    }

    /// Asks the key maker, once.
    pub fn request(&self, request: Request) {
        if self.database.request(request) {
            self.bells.ring();
        }
    }

    /// Asks the key maker, once, for an association that takes `flow`.
    pub fn acquire(&self, peer: PeerId, flow: &Flow) {
        if self.database.acquire(peer, flow) {
            self.bells.ring();
        }
    }

    /// What wakes the housekeeper, who has the key makers.
    pub fn bells(&self) -> &Bells {
        &self.bells
    }

    /// Where datagrams that are not ESP wait for the key makers; `None`: nobody takes them.
    pub fn mailbox(&self) -> Option<&Mailbox> {
        self.mailbox.as_ref()
    }

    /// Counts a train to a peer.
    pub fn sent(&self, id: PeerId, packets: u64, bytes: u64) {
        self.get(id).sent.add(packets, bytes);
    }

    /// Counts those of a train that went to the device past IP.
    pub fn sent_directly(&self, id: PeerId, packets: u64) {
        self.get(id).direct_packets.fetch_add(packets, Relaxed);
    }

    /// Counts packets of a peer.
    pub fn received(&self, id: PeerId, packets: u64, bytes: u64) {
        self.get(id).received.add(packets, bytes);
    }

    /// A genuine packet came under `association` from `from`, with this number, newer than all before.
    pub fn heard_under(&self, association: &Association, from: SocketAddr, number: u64) {
        if let Some(whereabouts) = association.whereabouts()
            && whereabouts.get() != Some(from)
            && can_be_endpoint(from, self.has_ports)
        {
            whereabouts.set(from);
        }
        self.heard(association.parameters().peer, from, number);
    }

    /// A genuine packet of the peer came from `from`, with this number, newer than all before.
    pub fn heard(&self, id: PeerId, from: SocketAddr, number: u64) {
        let peer = self.get(id);
        let since = self.begun.elapsed().as_millis() as u64;
        peer.heard_ms.store(since.max(1), Relaxed);
        if peer.endpoint.load().as_deref() == Some(&from) {
            return;
        }
        let may_be_old = peer.is_endpoint_given.load(Relaxed) && number <= peer.fresh_above.load(Relaxed);
        if !may_be_old && can_be_endpoint(from, self.has_ports) {
            peer.is_endpoint_given.store(false, Relaxed);
            peer.endpoint.store(Some(Arc::new(from)));
        }
    }

    /// Sets the endpoint: the peer has answered a call at `address`, or its name resolves to it.
    pub fn is_at(&self, id: PeerId, address: SocketAddr) {
        let peer = self.get(id);
        if can_be_endpoint(address, self.has_ports) && peer.endpoint.load().as_deref() != Some(&address) {
            peer.endpoint.store(Some(Arc::new(address)));
            peer.is_endpoint_given.store(true, Relaxed);
        }
    }

    /// A call with the peer has told whether we are behind a NAT, and how many seconds ago it heard a packet of
    /// ours; `None`: never.
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
            // A restarted peer says so once.
            (None, Some(before)) => before.silence.is_none() && sent_packets > before.sent_packets,
            (None, None) => false,
        };
        *word = Some(Word { silence, sent_packets, is_unheard });
    }

    /// Takes note that packets have been sent to the peer since the housekeeper's last look.
    pub fn note_sent(&self, id: PeerId) {
        self.get(id).sent_ms.store(self.begun.elapsed().as_millis() as u64, Relaxed);
    }

    /// Whether packets of ours had not reached the peer, by its report in the last call.
    pub fn is_unheard(&self, id: PeerId) -> bool {
        let word = *self.get(id).word.lock().expect("nobody panics holding a word");
        word.is_some_and(|word| word.is_unheard)
    }

    /// An earlier process may have accepted the peer's packets with numbers up to `number`: such packets do not
    /// move a given endpoint.
    pub fn may_be_replayed_up_to(&self, id: PeerId, number: u64) {
        self.get(id).fresh_above.store(number, Relaxed);
    }

    /// How long ago the peer was heard of; `None`: never.
    pub fn silence(&self, id: PeerId) -> Option<Duration> {
        let heard = self.get(id).heard_ms.load(Relaxed);
        (heard > 0).then(|| self.begun.elapsed().saturating_sub(Duration::from_millis(heard)))
    }
}

/// Everything between the inside, or those of its networks that the peer knows of, and a peer's networks goes through the peer's
/// tunnel, the most precise network first.
fn policies(site: &Site) -> Policies {
    let mut ordered = Vec::new();
    for (id, peer) in (0..).map(PeerId).zip(&site.peers) {
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
            "[2001:db8::1]:0",
            "[::ffff:255.255.255.255]:4500",
            "[::ffff:224.0.0.1]:4500",
            "[::ffff:0.0.0.0]:4500",
            "[::ffff:198.51.100.9]:0",
        ] {
            peers.heard(PeerId(0), address(bad), 1);
            assert_eq!(peers.endpoint(PeerId(0)), Some(address("198.51.100.7:4500")), "{bad}");
        }
        assert!(peers.silence(PeerId(0)).is_some(), "it lives all the same");
        for good in
            ["198.51.100.7:1", "203.0.113.1:65535", "[2001:db8::1]:4500", "[::ffff:198.51.100.9]:4500"]
        {
            peers.heard(PeerId(0), address(good), 2);
            assert_eq!(peers.endpoint(PeerId(0)), Some(address(good)));
        }
        // Packets of a protocol of their own have no ports.
        assert!(can_be_endpoint(address("198.51.100.7:0"), false));
        assert!(!can_be_endpoint(address("224.0.0.1:0"), false));
        peers.is_at(PeerId(0), address("224.0.0.1:4500"));
        assert_eq!(peers.endpoint(PeerId(0)), Some(address("[::ffff:198.51.100.9]:4500")));
    }

    #[test]
    fn a_peer_that_hears_nothing_of_what_is_sent_says_so_in_its_calls() {
        let id = PeerId(0);
        let long = Some(3600);
        // The answers of calls, and whether packets go there before each.
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
            peers.heard(PeerId(0), elsewhere, number);
            assert_eq!(peers.endpoint(PeerId(0)), Some(given), "{number}");
        }
        peers.heard(PeerId(0), elsewhere, 1001);
        assert_eq!(peers.endpoint(PeerId(0)), Some(elsewhere));
        // For a peer without a given endpoint, the newest packet is the best hint.
        let peers = peers_of("");
        peers.may_be_replayed_up_to(PeerId(0), 1000);
        for from in [given, elsewhere] {
            peers.heard(PeerId(0), from, 7);
            assert_eq!(peers.endpoint(PeerId(0)), Some(from));
        }
    }
}
