//! Runs the key makers of two gateways on a virtual clock, with datagrams as events of one queue.

use std::{cell::Cell, fs, os::unix::fs::PermissionsExt as _, rc::Rc};

use sealane_ipsec::{association::Protocol, database::ShareBy};
use sealane_lanes::Bells;

use super::*;

const S: Duration = Duration::from_secs(1);
const PSK: &str = "0123456789abcdef0123456789abcdef";

/// The values of a peer's table: its identity, our identity, its networks, ours, and more.
struct Text {
    id: &'static str,
    local_id: &'static str,
    networks: &'static str,
    local_networks: &'static str,
    psk: &'static str,
    endpoint: Option<usize>,
    more: &'static str,
}

fn near() -> Text {
    Text {
        id: "far.example",
        local_id: "near.example",
        networks: "10.2.0.0/16",
        local_networks: "10.1.0.0/16",
        psk: PSK,
        endpoint: Some(1),
        more: "",
    }
}

fn far() -> Text {
    Text {
        id: "near.example",
        local_id: "far.example",
        networks: "10.1.0.0/16",
        local_networks: "10.2.0.0/16",
        psk: PSK,
        endpoint: None,
        more: "",
    }
}

fn address(end: usize) -> IpAddr {
    IpAddr::from([192, 0, 2, 1 + end as u8])
}

/// Returns the site of `text`, whose secret is in `folder`.
fn site(text: &Text, rekey_s: u32, folder: &std::path::Path) -> Site {
    let psk = folder.join("psk");
    fs::write(&psk, text.psk).expect("a file");
    fs::set_permissions(&psk, fs::Permissions::from_mode(0o600)).expect("a mode");
    let endpoint =
        text.endpoint.map_or_else(String::new, |end| format!("endpoint = \"{}:4500\"\n", address(end)));
    let Text { id, local_id, networks, local_networks, more, .. } = text;
    let text = format!(
        "device = \"sl0\"\nlisten = \"0.0.0.0:4500\"\n[[peers]]\nname = \"other\"\n{endpoint}networks = [\"{networks}\"]\n\
         rekey-seconds = {rekey_s}\n[peers.ike]\nid = \"{id}\"\nlocal-id = \"{local_id}\"\nlocal-networks = [\"{local_networks}\"]\n\
         psk-file = \"{}\"\n{more}\n",
        psk.display()
    );
    Site::parse(std::path::Path::new("/site.toml"), &text).expect("a good site file")
}

/// The routes of an end's host: our source address, and what has been asked of them.
#[derive(Clone, Default)]
struct Routes {
    /// The source address, if it is not the first one.
    own: Rc<Cell<Option<IpAddr>>>,
    asked: Rc<Cell<usize>>,
    has_changed: Rc<Cell<bool>>,
}

impl Routes {
    fn own_address(&self, end: usize) -> OwnAddress<'static> {
        let Self { own, asked, .. } = self.clone();
        Box::new(move |_, _| {
            asked.set(asked.get() + 1);
            Some(own.get().unwrap_or_else(|| address(end)))
        })
    }

    fn changes(&self) -> RoutesChange<'static> {
        let has_changed = Rc::clone(&self.has_changed);
        Box::new(move || has_changed.take())
    }
}

struct End {
    is_far: bool,
    peers: &'static Peers,
    ike: Ike<'static>,
    routes: Routes,
    said: Vec<String>,
}

impl End {
    fn new(end: usize, text: &Text, rekey_s: u32, seed: u64, now: Instant) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let site = site(text, rekey_s, folder.path());
        // The peers live as long as the test's process.
        let peers: &'static Peers =
            Box::leak(Box::new(Peers::new(&site, now, Bells::new(1).expect("bells"))));
        let mut state = seed;
        let random = Random::from_source(move |bytes| {
            for byte in bytes {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                *byte = (state >> 56) as u8;
            }
        });
        let routes = Routes::default();
        let negotiated = Negotiated {
            peers: configured(&site, None).expect("good credentials").0,
            settings: settings(&site, false),
            random,
            own_address: routes.own_address(end),
            routes_change: routes.changes(),
            host: Box::new(|_| Ok(())),
        };
        let ike = Ike::new(peers, &site, Implementations::default(), negotiated, now);
        Self { is_far: end == 1, peers, ike, routes, said: Vec::new() }
    }

    /// Returns the SPI under which this end sends to `remote`.
    fn sends_under(&self, local: &str, remote: &str) -> Option<u32> {
        let flow = flow(local, remote);
        let snapshot = self.peers.database().snapshot();
        let outbound = snapshot.outbound.get(&PeerId(0))?.taking(&flow, ShareBy::Flow)?;
        Some(outbound.association().parameters().spi)
    }

    /// Returns the SPIs under which so many queues send.
    fn queues_send_under(&self, queues: u16) -> BTreeSet<u32> {
        let snapshot = self.peers.database().snapshot();
        let Some(all) = snapshot.outbound.get(&PeerId(0)) else { return BTreeSet::new() };
        let any = many(usize::from(self.is_far)).remove(0);
        let taking = (0..queues).filter_map(|queue| all.taking(&any, ShareBy::Queue(queue)));
        taking.map(|outbound| outbound.association().parameters().spi).collect()
    }

    fn receives_under(&self, spi: u32) -> bool {
        self.peers.database().snapshot().inbound.contains_key(&(Protocol::Esp, spi))
    }

    fn said(&self, words: &str) -> bool {
        self.said.iter().any(|line| line.contains(words))
    }
}

fn flow(local: &str, remote: &str) -> Flow {
    let address = |word: &str| word.parse().expect("an address");
    Flow {
        local: address(local),
        remote: address(remote),
        protocol: 6,
        local_port: Some(1024),
        remote_port: Some(80),
    }
}

struct Pair {
    ends: [End; 2],
    now: Instant,
    under_way: VecDeque<(Instant, usize, Transmit)>,
    /// The time that a datagram is under way.
    delay: Duration,
    /// The end that neither receives nor sends.
    dead: Option<usize>,
}

impl Pair {
    fn new(texts: [Text; 2], rekey_s: u32) -> Self {
        let now = Instant::now();
        let [near, far] = texts;
        let ends = [End::new(0, &near, rekey_s, 1, now), End::new(1, &far, rekey_s, 2, now)];
        Self { ends, now, under_way: VecDeque::new(), delay: S / 50, dead: None }
    }

    fn collect(&mut self) {
        for (from, end) in self.ends.iter_mut().enumerate() {
            while let Some(transmit) = end.ike.poll_transmit() {
                if self.dead.is_none() {
                    self.under_way.push_back((self.now + self.delay, 1 - from, transmit));
                }
            }
            while let Some(line) = end.ike.poll_news() {
                end.said.push(line);
            }
        }
    }

    /// Runs for `seconds`, and calls `look` after each event.
    fn run(&mut self, seconds: u32, mut look: impl FnMut(&[End; 2])) {
        let until = self.now + seconds * S;
        for _ in 0..1_000_000 {
            self.collect();
            look(&self.ends);
            let arrival = self.under_way.front().map(|(at, ..)| *at);
            let due = self.ends.iter().enumerate().filter(|(end, _)| self.dead != Some(*end));
            let due = due.filter_map(|(_, end)| end.ike.poll_timeout()).min();
            let Some(next) = arrival.into_iter().chain(due).min().filter(|next| *next <= until) else {
                self.now = until;
                return;
            };
            self.now = self.now.max(next);
            while let Some((_, to, transmit)) = self.under_way.pop_front_if(|(at, ..)| *at <= self.now) {
                let Transmit { from, to: at, bytes, .. } = transmit;
                self.ends[to].ike.handle(&bytes, from, at, self.now);
            }
            for (end, own) in self.ends.iter_mut().enumerate() {
                if self.dead != Some(end) && own.ike.poll_timeout().is_some_and(|at| at <= self.now) {
                    own.ike.handle_timeout(self.now);
                }
            }
        }
        panic!("the ends never come to rest");
    }

    /// Returns whether either end receives under the SPI that the other one sends under.
    fn is_joined(ends: &[End; 2]) -> bool {
        let [near, far] = ends;
        let (forth, back) =
            (near.sends_under("10.1.0.1", "10.2.0.1"), far.sends_under("10.2.0.1", "10.1.0.1"));
        forth.is_some_and(|spi| far.receives_under(spi)) && back.is_some_and(|spi| near.receives_under(spi))
    }
}

#[test]
fn rekeying_never_leaves_an_end_without_keys_that_the_other_has() {
    let more = "ike-rekey-seconds = 7";
    let mut pair = Pair::new([Text { more, ..near() }, Text { more, ..far() }], 3);
    pair.run(2, |_| ());
    assert!(Pair::is_joined(&pair.ends), "{:?} {:?}", pair.ends[0].said, pair.ends[1].said);
    let mut spis = BTreeSet::new();
    pair.run(120, |ends| {
        assert!(Pair::is_joined(ends), "{:?} {:?}", ends[0].said, ends[1].said);
        spis.extend(ends[0].sends_under("10.1.0.1", "10.2.0.1"));
    });
    assert!(spis.len() > 20, "{} successors", spis.len());
    for end in &pair.ends {
        let snapshot = end.peers.database().snapshot();
        assert!(snapshot.inbound.len() <= 8, "{} inbound associations stay", snapshot.inbound.len());
        let agreements = end.peers.get(PeerId(0)).agreements();
        assert_eq!(agreements.len(), 1);
        let agreement = agreements.values().next().expect("one");
        assert_eq!(agreement.algorithms, "aes256gcm16-prfsha384");
        assert!(agreement.rekey_at.is_some() && agreement.children.len() == 1, "{agreements:?}");
        assert_eq!(end.peers.endpoint(PeerId(0)).map(|at| at.port()), Some(4500));
    }
}

#[test]
fn a_dead_peer_is_noticed_and_joined_again_when_it_is_back() {
    let mut pair = Pair::new([near(), far()], 3600);
    pair.run(2, |_| ());
    assert!(Pair::is_joined(&pair.ends));
    pair.dead = Some(1);
    pair.run(120, |_| ());
    let near = &pair.ends[0];
    assert!(
        near.sends_under("10.1.0.1", "10.2.0.1").is_none() && near.said("does not answer"),
        "{:?}",
        near.said
    );
    // The restarted end has lost its state.
    pair.ends[1] = End::new(1, &far(), 3600, 3, pair.now);
    pair.dead = None;
    pair.run(120, |_| ());
    assert!(Pair::is_joined(&pair.ends), "{:?}", pair.ends[0].said);
    // In the other direction the peer learns of the restart at once: an end that initiates says that it has no SAs.
    pair.ends[0] = End::new(0, &self::near(), 3600, 4, pair.now);
    pair.run(2, |_| ());
    assert!(Pair::is_joined(&pair.ends), "{:?} {:?}", pair.ends[0].said, pair.ends[1].said);
    assert_eq!(pair.ends[1].peers.get(PeerId(0)).agreements().len(), 1);
}

/// The called end has lost its state, and the other one sends as before.
#[test]
fn an_end_that_lost_its_state_says_so_when_packets_arrive() {
    for is_told in [true, false] {
        let mut pair = Pair::new([near(), far()], 3600);
        pair.run(2, |_| ());
        let spi = pair.ends[0].sends_under("10.1.0.1", "10.2.0.1").expect("it is joined");
        pair.ends[1] = End::new(1, &far(), 3600, 3, pair.now);
        let (from, now) = (Way::from(SocketAddr::new(address(0), 4500)), pair.now);
        if is_told {
            pair.ends[1].ike.stray(spi, from, now);
        }
        pair.run(10, |_| ());
        assert_eq!(Pair::is_joined(&pair.ends), is_told, "{:?}", pair.ends[0].said);
        // Whoever makes such a message up has the peer asked, and no more.
        let spi = pair.ends[0].sends_under("10.1.0.1", "10.2.0.1").expect("it is joined, or believes so");
        let forger = End::new(1, &far(), 3600, 4, pair.now);
        let mut other = std::mem::replace(&mut pair.ends[1], forger);
        pair.ends[1].ike.stray(spi, from, pair.now);
        pair.collect();
        std::mem::swap(&mut pair.ends[1], &mut other);
        pair.run(10, |_| ());
        if is_told {
            assert_eq!(pair.ends[0].sends_under("10.1.0.1", "10.2.0.1"), Some(spi), "nothing has changed");
        }
    }
}

#[test]
fn the_shown_endpoint_follows_packets() {
    let mut pair = Pair::new([near(), far()], 3600);
    pair.run(2, |_| ());
    let moved = SocketAddr::from(([192, 0, 2, 77], 1234));
    let peers = pair.ends[1].peers;
    let inbound = Arc::clone(peers.database().snapshot().inbound.values().next().expect("one"));
    peers.heard_under(inbound.association(), moved.into(), 1000);
    let agreements = peers.get(PeerId(0)).agreements();
    assert_eq!(agreements.values().next().and_then(|own| own.whereabouts.get()), Some(moved));
}

#[test]
fn two_ends_that_begin_at_the_same_moment_keep_one_ike_sa() {
    for is_swapped in [false, true] {
        let both = Text { endpoint: Some(0), ..far() };
        // Whatever end has the smaller identity.
        let texts = if is_swapped { swapped(near(), both) } else { [near(), both] };
        let mut pair = Pair::new(texts, 3600);
        pair.run(1, |_| ());
        assert!(Pair::is_joined(&pair.ends), "{:?} {:?}", pair.ends[0].said, pair.ends[1].said);
        let count = |end: &End| end.peers.get(PeerId(0)).agreements().len();
        assert_eq!((count(&pair.ends[0]), count(&pair.ends[1])), (2, 2), "both have begun");
        pair.run(30, |ends| assert!(Pair::is_joined(ends), "{:?} {:?}", ends[0].said, ends[1].said));
        assert_eq!((count(&pair.ends[0]), count(&pair.ends[1])), (1, 1));
        // It is the same one at both ends.
        let spi = |end: &End, is_inbound: bool| {
            let agreements = end.peers.get(PeerId(0)).agreements();
            let child = agreements.values().next().expect("one").children[0].clone();
            if is_inbound { child.inbound_spi } else { child.outbound_spi }
        };
        assert_eq!(spi(&pair.ends[0], true), spi(&pair.ends[1], false));
        for end in &pair.ends {
            assert!(!end.said("no IKE SA"), "{:?}", end.said);
        }
    }
}

/// Exchanges the identities of two ends.
fn swapped(near: Text, far: Text) -> [Text; 2] {
    let (id, local_id) = (near.id, near.local_id);
    [Text { id: local_id, local_id: id, ..near }, Text { id, local_id, ..far }]
}

#[test]
fn a_gateway_that_ends_tells_its_peer() {
    let mut pair = Pair::new([near(), far()], 3600);
    pair.run(2, |_| ());
    let now = pair.now;
    pair.ends[0].ike.close(now);
    assert!(!pair.ends[0].ike.is_closed());
    pair.run(1, |_| ());
    assert!(pair.ends[0].ike.is_closed());
    for end in &pair.ends {
        assert!(end.peers.database().snapshot().outbound.is_empty());
        assert!(end.peers.get(PeerId(0)).agreements().is_empty());
    }
    assert!(pair.ends[1].said("the peer ended it"), "{:?}", pair.ends[1].said);
}

#[test]
fn routes_are_asked_once_and_again_after_a_change() {
    let mut pair = Pair::new([near(), far()], 3600);
    pair.run(5, |_| ());
    assert!(Pair::is_joined(&pair.ends));
    let asked = |pair: &Pair| pair.ends[0].routes.asked.get();
    let before = asked(&pair);
    pair.run(60, |_| ());
    assert_eq!(asked(&pair), before, "nothing has changed");
    let moved = IpAddr::from([192, 0, 2, 77]);
    pair.ends[0].routes.own.set(Some(moved));
    pair.run(5, |_| ());
    assert_eq!(pair.ends[1].peers.endpoint(PeerId(0)).map(|at| at.ip()), Some(address(0)));
    pair.ends[0].routes.has_changed.set(true);
    pair.run(5, |_| ());
    assert_eq!(pair.ends[1].peers.endpoint(PeerId(0)).map(|at| at.ip()), Some(moved), "the peer follows");
    // Once after the change, and once for the path that came of it.
    assert!((1..=2).contains(&(asked(&pair) - before)), "{} times", asked(&pair) - before);
}

#[test]
fn traffic_is_what_both_ends_have_in_common() {
    let narrow = Text { networks: "10.1.7.0/24", ..far() };
    let mut pair = Pair::new([near(), narrow], 3600);
    pair.run(2, |_| ());
    let near = &pair.ends[0];
    assert!(near.sends_under("10.1.7.1", "10.2.0.1").is_some(), "{:?}", near.said);
    assert!(near.sends_under("10.1.8.1", "10.2.0.1").is_none());
    let traffic: Vec<String> = near
        .peers
        .get(PeerId(0))
        .agreements()
        .values()
        .flat_map(|agreement| agreement.children.iter().map(|child| child.traffic.clone()))
        .collect();
    assert_eq!(traffic, ["10.1.7.0/24 === 10.2.0.0/16"]);
    // A packet that the peer's policy does not allow causes a request, and then none for a while.
    let request = Request::Acquire(PeerId(0));
    let mut asked = 0;
    for _ in 0..100 {
        let now = pair.now;
        let end = &mut pair.ends[0];
        end.peers.database().acquire(PeerId(0), &flow("10.1.8.1", "10.2.0.1"));
        end.ike.request(request, now);
        pair.collect();
        asked += pair.under_way.len();
        pair.run(1, |_| ());
    }
    assert!((1..20).contains(&asked), "{asked} messages in 100 seconds");
    assert!(pair.ends[0].said("no association"), "{:?}", pair.ends[0].said);
    assert!(pair.ends[0].sends_under("10.1.7.1", "10.2.0.1").is_some());
}

/// Has both ends' lanes send packets of many flows, and their requests reach the key makers.
fn send_many(pair: &mut Pair) {
    let now = pair.now;
    for (end, own) in pair.ends.iter_mut().enumerate() {
        let snapshot = own.peers.database().snapshot();
        let Some(all) = snapshot.outbound.get(&PeerId(0)) else { continue };
        if many(end).iter().any(|flow| all.lacks_share(flow, ShareBy::Flow)) {
            own.peers.database().request(Request::Share(PeerId(0)));
        }
        for request in own.peers.database().standing_requests() {
            own.ike.request(request, now);
        }
    }
}

/// Returns many flows, as an end sees them.
fn many(end: usize) -> Vec<Flow> {
    let (own, other) = (1 + end, 2 - end);
    (0..200).map(|host| flow(&format!("10.{own}.0.{host}"), &format!("10.{other}.0.1"))).collect()
}

/// Returns the SPIs under which an end sends the packets of many flows.
fn sends_many_under(end: usize, own: &End) -> BTreeSet<u32> {
    let snapshot = own.peers.database().snapshot();
    let Some(all) = snapshot.outbound.get(&PeerId(0)) else { return BTreeSet::new() };
    let spi =
        |flow: &Flow| all.taking(flow, ShareBy::Flow).map(|outbound| outbound.association().parameters().spi);
    many(end).iter().map(|flow| spi(flow).expect("an association for each flow")).collect()
}

#[test]
fn children_share_flows_as_far_as_both_ends_allow() {
    for (ours, theirs, expected) in
        [("children = 4", "children = 4", 4), ("children = 4", "children = 3", 3), ("children = 4", "", 1)]
    {
        for is_swapped in [false, true] {
            let (near_more, far_more) = if is_swapped { (theirs, ours) } else { (ours, theirs) };
            let mut pair =
                Pair::new([Text { more: near_more, ..near() }, Text { more: far_more, ..far() }], 20);
            pair.run(2, |_| ());
            for _ in 0..10 {
                send_many(&mut pair);
                pair.run(1, |_| ());
            }
            let used = |pair: &Pair| [0, 1].map(|end| sends_many_under(end, &pair.ends[end]));
            let said = |pair: &Pair| [&pair.ends[0].said, &pair.ends[1].said].map(|said| said.join("\n"));
            let before = used(&pair);
            let lengths = before.each_ref().map(BTreeSet::len);
            assert_eq!(lengths, [expected; 2], "{ours:?} {theirs:?}: {:?}", said(&pair));
            assert_eq!(pair.ends.each_ref().map(|own| own.queues_send_under(4).len()), [expected; 2]);
            // Each child gets successors of its own, and each flow always has one that the other end knows.
            for _ in 0..60 {
                send_many(&mut pair);
                pair.run(1, |ends| {
                    for (end, own) in ends.iter().enumerate() {
                        let other = &ends[1 - end];
                        let unknown = sends_many_under(end, own);
                        let unknown = unknown.iter().find(|spi| !other.receives_under(**spi));
                        assert_eq!(unknown, None, "{:?}", own.said);
                    }
                });
            }
            let after = used(&pair);
            assert!(after.iter().zip(&before).all(|(after, before)| after.is_disjoint(before)));
            assert_eq!(after.each_ref().map(BTreeSet::len), [expected; 2], "{:?}", said(&pair));
            for end in &pair.ends {
                let agreements = end.peers.get(PeerId(0)).agreements();
                let children: usize = agreements.values().map(|agreement| agreement.children.len()).sum();
                assert_eq!((agreements.len(), children), (1, expected));
            }
            // A peer's refusal is said once.
            let refused = said(&pair).map(|said| said.matches("pairs of associations").count());
            assert!(refused.iter().sum::<usize>() <= 1, "{refused:?}");
        }
    }
}

/// A peer that has proved who it is ends each child that it has granted: all queues send under the first one again, and the peer is not
/// asked without end.
#[test]
fn a_peer_that_ends_what_it_has_granted_is_asked_again_after_a_pause() {
    let more = "children = 4";
    let mut pair = Pair::new([Text { more, ..near() }, Text { more, ..far() }], 3600);
    pair.run(2, |_| ());
    let first = pair.ends[0].queues_send_under(4);
    assert_eq!(first.len(), 1, "{:?}", pair.ends[0].said);
    let mut granted = BTreeSet::new();
    for _ in 0..200 {
        send_many(&mut pair);
        let now = pair.now;
        let far = &mut pair.ends[1];
        let ids = far.ike.children.iter().filter(|(_, child)| child.is_share).map(|(&id, _)| id);
        let ids: Vec<ChildId> = ids.collect();
        ids.into_iter().for_each(|id| far.ike.endpoint.delete_child(id, now));
        far.ike.take_events(now);
        pair.now += S / 10;
        pair.run(0, |ends| {
            let used = ends[0].queues_send_under(4);
            assert!(used.is_superset(&first), "{:?}", ends[0].said);
            granted.extend(used.difference(&first).copied());
        });
    }
    // Either end asks once in two seconds.
    assert!((3..=22).contains(&granted.len()), "{} children in 20 s: {:?}", granted.len(), pair.ends[0].said);
}

/// The answer that makes a child is under way for a second, or its receiver is as busy.
#[test]
fn a_new_child_carries_nothing_before_both_ends_have_it() {
    let more = "children = 2";
    let mut pair = Pair::new([Text { more, ..near() }, Text { more, ..far() }], 3600);
    pair.run(2, |_| ());
    pair.delay = S;
    let now = pair.now;
    pair.ends[0].ike.request(Request::Share(PeerId(0)), now);
    for _ in 0..10 {
        pair.run(1, |ends| {
            for (end, own) in ends.iter().enumerate() {
                let unknown = sends_many_under(end, own);
                let unknown = unknown.iter().find(|spi| !ends[1 - end].receives_under(**spi));
                assert_eq!(unknown, None, "{:?}", own.said);
            }
        });
    }
    let used = [0, 1].map(|end| sends_many_under(end, &pair.ends[end]).len());
    assert_eq!(used, [2, 2], "{:?} {:?}", pair.ends[0].said, pair.ends[1].said);
}

#[test]
fn what_does_not_match_is_said_once() {
    for (other, at_responder, at_initiator) in [
        (Text { psk: "another secret that is as long", ..far() }, "near.example", "AUTHENTICATION_FAILED"),
        (Text { id: "else.example", ..far() }, "expected is else.example", "AUTHENTICATION_FAILED"),
        (
            Text { more: "proposals = [\"aes128-sha512-modp4096\"]", ..far() },
            "no common",
            "NO_PROPOSAL_CHOSEN",
        ),
        (Text { more: "esp-proposals = [\"aes128-sha256\"]", ..far() }, "no common", "NO_PROPOSAL_CHOSEN"),
        (Text { local_networks: "10.9.0.0/16", ..far() }, "no common traffic", "TS_UNACCEPTABLE"),
    ] {
        let mut pair = Pair::new([near(), other], 3600);
        pair.run(100, |_| ());
        let [near, far] = &pair.ends;
        assert!(!Pair::is_joined(&pair.ends));
        assert!(far.said(at_responder), "{at_responder}: {:?}", far.said);
        assert!(near.said(at_initiator), "{at_initiator}: {:?}", near.said);
        assert!(near.said.len() < 10 && far.said.len() < 20, "{:?} {:?}", near.said, far.said);
    }
}
