//! Associations that are negotiated by IKEv2: converts the events of an [`Endpoint`] to associations, endpoints of
//! peers, addresses of this host, and messages for the operator. The module has no socket, no clock and no thread.
//!
//! Guarantees: an inbound association receives for [`GRACE`] after it has ended, so a rekey loses no packet, and an
//! outbound one ends at once; if this end may initiate, it tries until the peer answers, with growing pauses; a child
//! that cannot be entered in the database is deleted at the peer too; two ends that initiate at the same moment keep
//! one IKE SA; the number of IKE SAs is bounded, for one client and for all; strangers, clients and peers that fail
//! again and again cannot fill the log.

mod child;
mod configured;
mod given;
mod limits;
mod pairs;
mod reload;
mod renewal;
mod selectors;
mod shares;
mod shown;
mod streams;
mod ways;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use sealane_engine::Implementations;
use sealane_engine::debug_only;
use sealane_ike::{
    Assignment, ChildId, ChildPolicy, Endpoint, Event, IkeId, Install, Path, Peer, Random, Reason, Settings,
};
use sealane_ipsec::{
    association::{Way, Whereabouts},
    database::Request,
    key_maker::{KeyMaker, Transmit},
    lifetime::Age,
    policy::PeerId,
    selector::Flow,
};

pub use self::configured::{IkeError, configured, configured_peer, settings};
pub use self::reload::Shared;
pub use self::ways::{OwnAddress, RoutesChange};
use self::{
    child::{Child, Terms, misfit},
    selectors::trigger,
    shares::Shares,
    ways::Ways,
};
use crate::{
    endpoint::{Endpoint as PeerEndpoint, shown},
    keying::{carrier::IKE_PORT, words::LineLimit},
    peers::Peers,
    site::{Keys, PeerSite, Site},
};

/// The time for which an inbound association receives after it has ended.
const GRACE: Duration = Duration::from_secs(10);
/// The first pause before another attempt with a peer; it doubles up to [`PAUSE_MAX`].
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// The interval between checks which children have received.
const LOOK: Duration = Duration::from_millis(500);
/// The maximum number of messages that wait for the operator.
const NEWS_MAX: usize = 256;

/// Gives this host the addresses, and the resolvers, that peers have given us, in place of earlier ones. An error is a
/// message for the operator.
pub type Host<'a> = Box<dyn FnMut(&Assignment) -> Result<(), String> + 'a>;

/// A peer that speaks IKE.
#[derive(Debug)]
struct PeerState {
    id: PeerId,
    name: String,
    terms: Terms,
    /// The address in the site file; `None` for a name, which is looked up.
    address: Option<IpAddr>,
    may_begin: bool,
    /// The entry stands for many clients.
    is_many: bool,
    /// Our side of its traffic is the addresses that it gives us.
    is_virtual: bool,
    /// The resolvers that it names are used.
    takes_resolvers: bool,
    pause: Duration,
    /// The earliest time of the next request to it.
    not_before: Option<Instant>,
    /// The flow of the last request.
    wanted: Option<Flow>,
    /// The time of the next attempt, unless a request comes earlier.
    begin_at: Option<Instant>,
    /// Its streams, where UDP does not pass.
    streams: streams::Ways,
    /// The children that share its flows.
    shares: Shares,
    /// The policies of its traffic: all of it, and each pair of networks.
    children: Vec<ChildPolicy>,
    /// It has an association for each pair of networks.
    has_pairs: bool,
    /// The last message about it.
    told: String,
    /// The site file does not have it any more.
    is_gone: bool,
}

impl PeerState {
    /// Returns a peer with which we soon begin to negotiate, if we know where it is.
    fn new(id: PeerId, own: &PeerSite, peer: &Peer, now: Instant) -> Self {
        let may_begin = own.endpoint.is_some();
        Self {
            id,
            name: own.name.clone(),
            terms: Terms {
                window_packets: own.window_packets,
                rekey: peer.child_lifetime.unwrap_or_default(),
            },
            address: own.endpoint.as_ref().and_then(PeerEndpoint::address).map(|at| at.ip().to_canonical()),
            may_begin,
            is_many: own.is_many(),
            is_virtual: !peer.asks_for.is_empty(),
            takes_resolvers: matches!(&own.keys, Keys::Ike(ike) if ike.takes_resolvers),
            pause: PAUSE,
            not_before: None,
            wanted: None,
            begin_at: may_begin.then_some(now),
            streams: streams::Ways::to(own.tcp.filter(|_| may_begin)),
            shares: Shares::new(match &own.keys {
                Keys::Ike(ike) => ike.children,
                _ => 1,
            }),
            children: peer.children.clone(),
            has_pairs: false,
            told: String::new(),
            is_gone: false,
        }
    }
}

/// An established IKE SA.
#[derive(Debug)]
struct Stands {
    place: usize,
    identity: String,
    /// The user that the peer has proved to be.
    user: Option<String>,
    /// The addresses that the client has got from us.
    leased: Vec<IpAddr>,
    /// The addresses and resolvers that we have got from the peer.
    given: Option<Assignment>,
    algorithms: String,
    since: Instant,
    path: Option<Path>,
    whereabouts: Arc<Whereabouts>,
    /// The peer has begun it, at an address of ours.
    is_called: bool,
    /// Another IKE SA is to take its place, because the peer does not let it be renewed.
    is_worn: bool,
}

/// The arguments of [`Ike::new`] for the negotiations.
pub struct Negotiated<'a> {
    /// The peers, from [`configured`].
    pub peers: Vec<(PeerId, Peer)>,
    /// The settings, from [`settings`].
    pub settings: Settings,
    /// The source of nonces.
    pub random: Random,
    /// Finds our source address for packets to a peer.
    pub own_address: OwnAddress<'a>,
    /// Notices when that address may have changed.
    pub routes_change: RoutesChange<'a>,
    /// Gives this host addresses.
    pub host: Host<'a>,
}

debug_only!(self: Negotiated<'_> { peers: self.peers.len() });

/// All peers of a gateway that speak IKE.
pub struct Ike<'a> {
    peers: &'a Peers,
    begun: Instant,
    endpoint: Endpoint,
    implementations: Implementations,
    /// The peers, in the order of the endpoint's peers.
    known: Vec<PeerState>,
    places: BTreeMap<PeerId, usize>,
    sas: BTreeMap<IkeId, Stands>,
    children: BTreeMap<ChildId, Child>,
    /// The inbound associations that have ended, and the times of their removal.
    draining: VecDeque<(Instant, u32)>,
    /// The times of the next attempts with peers.
    begins: BTreeSet<(Instant, usize)>,
    look_at: Instant,
    /// New children that share flows, and the times at which packets are sent under them.
    waiting_shares: VecDeque<(Instant, ChildId)>,
    news: VecDeque<String>,
    /// The limit of lines about strangers.
    strangers: LineLimit,
    /// The limit of lines about wrong proofs.
    logins: LineLimit,
    /// The limit of lines about ends that have proved who they are.
    proved: LineLimit,
    /// The IKE SAs that have changed.
    changed: BTreeSet<IkeId>,
    ways: Ways<'a>,
    host: Host<'a>,
    /// The addresses and resolvers that this host has by now.
    given: Assignment,
    is_closing: bool,
}

debug_only!(Ike<'_> { sas });

impl<'a> Ike<'a> {
    /// Returns a key maker for the peers of `site` that speak IKE. It soon begins to negotiate with those that have
    /// an endpoint.
    pub fn new(
        peers: &'a Peers,
        site: &Site,
        implementations: Implementations,
        negotiated: Negotiated<'a>,
        now: Instant,
    ) -> Self {
        let Negotiated { peers: configured, settings, random, own_address, routes_change, host } = negotiated;
        let mut all = Vec::with_capacity(configured.len());
        let mut known = Vec::with_capacity(configured.len());
        for (id, peer) in configured {
            known.push(PeerState::new(id, &site.peers[id.0 as usize], &peer, now));
            all.push(peer);
        }
        let begins = known.iter().zip(0..).filter_map(|(known, place)| Some((known.begin_at?, place)));
        Self {
            peers,
            begun: now,
            endpoint: Endpoint::new(settings, all, random),
            implementations,
            places: known.iter().enumerate().map(|(place, known)| (known.id, place)).collect(),
            begins: begins.collect(),
            known,
            sas: BTreeMap::new(),
            children: BTreeMap::new(),
            draining: VecDeque::new(),
            look_at: now,
            waiting_shares: VecDeque::new(),
            news: VecDeque::new(),
            strangers: LineLimit::new(),
            logins: LineLimit::new(),
            proved: LineLimit::new(),
            changed: BTreeSet::new(),
            ways: Ways::new(own_address, routes_change),
            host,
            given: Assignment::default(),
            is_closing: false,
        }
    }

    fn say(&mut self, line: String) {
        if self.news.len() < NEWS_MAX {
            self.news.push_back(line);
        }
    }

    /// Logs a message about a peer, if it is new.
    fn tell(&mut self, place: usize, message: String) {
        let known = &mut self.known[place];
        if known.told == message {
            return;
        }
        known.told.clone_from(&message);
        let line = format!("peer {:?}: {message}", known.name);
        self.say(line);
    }

    /// Logs a message about the other end of an IKE SA: about a peer if it is new, about a client unless there were
    /// too many.
    fn tell_about(&mut self, place: usize, message: String, now: Instant) {
        let known = &self.known[place];
        match known.is_many {
            true => {
                let message = format!("peer {:?}: {message}", known.name);
                self.tell_proved(&message, now);
            }
            false => self.tell(place, message),
        }
    }

    /// Logs a message about a stranger, unless there were too many.
    fn tell_refused(&mut self, message: &str, now: Instant) {
        let line = self.strangers.line(message, now);
        line.into_iter().for_each(|line| self.say(line));
    }

    /// Logs a message about an end that has proved who it is, unless there were too many.
    fn tell_proved(&mut self, message: &str, now: Instant) {
        let line = self.proved.line(message, now);
        line.into_iter().for_each(|line| self.say(line));
    }

    /// Logs the end of a negotiation of a stranger. The line about a wrong proof has a format that programs such as fail2ban
    /// read: the address stands before all text that the stranger has chosen.
    fn tell_stranger(&mut self, from: SocketAddr, reason: &Reason, now: Instant) {
        let address = from.ip();
        match reason {
            Reason::Authentication { identity, problem } => {
                let message = format!("authentication failed from {address} for {identity:?}: {problem}");
                let line = self.logins.line(&message, now);
                line.into_iter().for_each(|line| self.say(line));
            }
            reason => self.tell_refused(&format!("a negotiation with {from} came to nothing: {reason}"), now),
        }
    }

    fn schedule(&mut self, place: usize, at: Option<Instant>) {
        if let Some(before) = std::mem::replace(&mut self.known[place].begin_at, at) {
            self.begins.remove(&(before, place));
        }
        self.begins.extend(at.map(|at| (at, place)));
    }

    /// Requests a child that takes `flow` from the peer, on the established IKE SA or on a new one.
    fn acquire(&mut self, place: usize, flow: Option<Flow>, now: Instant) {
        self.schedule(place, None);
        let known = &mut self.known[place];
        known.not_before = Some(now + known.pause);
        known.pause = (2 * known.pause).min(PAUSE_MAX);
        known.wanted = flow;
        let retry = known.not_before.filter(|_| known.may_begin);
        if !self.find_way(place) {
            // The peer's name is not resolved yet, or no route leads there.
            self.schedule(place, retry);
            return;
        }
        // If the peer gives us our address, a packet from another address is no reason.
        let known = &mut self.known[place];
        known.wanted = known.wanted.take().filter(|_| !known.is_virtual);
        let trigger = known.wanted.map(|flow| trigger(&flow));
        let policy = self.policy_for(place);
        self.endpoint.acquire(place, policy, trigger, now);
        if !self.stands_with(place) {
            self.watch_datagrams(place, now);
        }
    }

    /// Finds the addresses of both ends for negotiations that we begin. Returns whether they are known.
    fn find_way(&mut self, place: usize) -> bool {
        let known = &self.known[place];
        let remote = known.address.or_else(|| Some(self.peers.endpoint(known.id)?.ip().to_canonical()));
        let local = remote.and_then(|remote| self.ways.own_address(remote, None));
        let Some((local, remote)) = local.zip(remote) else { return false };
        self.endpoint.set_way(place, local, remote);
        true
    }

    fn stands_with(&self, place: usize) -> bool {
        self.sas.values().any(|stands| stands.place == place)
    }

    /// Processes all events of the endpoint.
    fn take_events(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            self.take(event, now);
        }
        for ike in std::mem::take(&mut self.changed) {
            self.publish(ike);
        }
    }

    fn take(&mut self, event: Event, now: Instant) {
        self.prove_stream(&event);
        match event {
            Event::Established { ike, peer: place, identity, user, algorithms, is_initiator } => {
                let identity = identity.to_string();
                let who = user.as_ref().unwrap_or(&identity);
                let message = format!("IKE SA with {who} ({algorithms})");
                self.known[place].pause = PAUSE;
                self.reset_shares(place);
                self.schedule(place, None);
                self.tell_about(place, message, now);
                let stands = Stands {
                    place,
                    identity,
                    user,
                    leased: Vec::new(),
                    given: None,
                    algorithms,
                    since: now,
                    path: None,
                    whereabouts: Arc::new(Whereabouts::new(!is_initiator)),
                    is_called: !is_initiator,
                    is_worn: false,
                };
                self.sas.insert(ike, stands);
                if self.note_established(place, ike, now) {
                    self.leave_streams(place, ike);
                }
                self.changed.insert(ike);
                self.limit(ike, now);
            }
            Event::Rekeyed { ike } => {
                self.changed.insert(ike);
            }
            Event::Leased { ike, assignment, .. } => {
                if let Some(stands) = self.sas.get_mut(&ike) {
                    stands.leased = assignment.addresses;
                    let who = stands.user.as_ref().unwrap_or(&stands.identity);
                    let message = format!("{who} has the address {}", list(&stands.leased));
                    let place = stands.place;
                    self.tell_about(place, message, now);
                    self.changed.insert(ike);
                }
            }
            Event::Configured { ike, assignment, .. } => self.configure(ike, assignment),
            Event::Down { ike, peer, from, reason } => self.take_down(ike, peer, from, &reason, now),
            Event::Install(install) => self.install(*install, now),
            Event::UseOutbound { child } => self.go_live(child),
            Event::Remove { child, .. } => self.remove(child, now),
            Event::ChildFailed { ike, resource, reason, .. } => {
                match self.sas.get(&ike).map(|stands| stands.place) {
                    Some(place) if resource.is_some() => self.refuse_share(place, &reason, now),
                    Some(place) => self.tell_failed(place, &reason, now),
                    None => {}
                }
            }
            Event::RekeyRefused { ike, child, proposals, wanted, reason } => {
                let refused = renewal::Refused { is_child: child.is_some(), proposals, wanted, reason };
                self.renew_otherwise(ike, &refused, now);
            }
            Event::Refused { path, reason } => {
                let from = path.remote;
                self.tell_refused(&format!("refused to negotiate with {from}: {reason}"), now);
            }
            Event::Moved { ike, path, .. } => {
                if let Some(stands) = self.sas.get_mut(&ike) {
                    stands.path = Some(path);
                    self.ways.note_path();
                    let way = way(path);
                    stands.whereabouts.set(way);
                    self.peers.is_reached_by(self.known[stands.place].id, way);
                    self.changed.insert(ike);
                }
            }
            // The crate may get other events.
            _ => {}
        }
    }

    fn take_down(
        &mut self,
        ike: IkeId,
        peer: Option<usize>,
        from: SocketAddr,
        reason: &Reason,
        now: Instant,
    ) {
        let ended = self.sas.remove(&ike);
        let Some(place) = ended.as_ref().map(|stands| stands.place).or(peer) else {
            return self.tell_stranger(from, reason, now);
        };
        self.peers.get(self.known[place].id).agreements().remove(&ike);
        self.changed.remove(&ike);
        if self.is_given_up(place, ike) {
            return;
        }
        self.end_unused_stream(place);
        self.end_share_request(place);
        if ended.as_ref().is_some_and(|stands| stands.given.is_some()) {
            self.give();
        }
        let is_told = match (self.known[place].is_many, &ended) {
            (true, _) => true,
            // Another one carries the traffic.
            (false, Some(_)) => !self.stands_with(place),
            (false, None) => true,
        };
        if *reason == Reason::Replaced
            && let Some(stands) = &ended
        {
            let who = stands.user.as_ref().unwrap_or(&stands.identity);
            let at = stands.whereabouts.get().map_or_else(String::new, |at| format!(" at {}", shown(at)));
            let name = &self.known[place].name;
            let message = format!("peer {name:?}: the IKE SA with {who}{at} is over: {reason}");
            self.tell_proved(&message, now);
        } else if !self.is_closing && is_told {
            let of = ended.map(|stands| stands.user.unwrap_or(stands.identity));
            let message = match of.filter(|_| self.known[place].is_many) {
                Some(who) => format!("no IKE SA with {who} any more: {reason}"),
                None => format!("no IKE SA: {reason}"),
            };
            if !self.stands_with(place) {
                self.show_problem(place, Some(message.clone()));
            }
            self.tell_about(place, message, now);
        }
        if self.known[place].may_begin && !self.stands_with(place) && !self.is_closing {
            let known = &self.known[place];
            // The pause keeps two ends that lose each other from initiating at the same moment each time, because one
            // of them notices first.
            let at = known.not_before.filter(|&at| at > now).unwrap_or(now + PAUSE);
            self.schedule(place, Some(at));
        }
    }

    fn install(&mut self, install: Install, now: Instant) {
        let place = install.peer;
        let is_share = self.is_share(&install);
        let has_address = || self.sas.get(&install.ike).is_some_and(|stands| stands.given.is_some());
        if self.known[place].is_virtual && !has_address() {
            self.endpoint.delete_child(install.child, now);
            let message = "it gives us no address: give it a pool, or name our side in `local-networks`";
            return self.tell(place, message.to_owned());
        }
        let (peer, terms) = (self.known[place].id, self.known[place].terms);
        if let Some(problem) = misfit(&install, self.peers.has_ports(), self.peers.get(peer).hosts.is_some())
        {
            self.endpoint.delete_child(install.child, now);
            if is_share {
                self.limit_shares(place);
            }
            return self.tell(place, problem.to_owned());
        }
        let whereabouts = self.sas.get(&install.ike).map(|stands| Arc::clone(&stands.whereabouts));
        let made = whereabouts
            .and_then(|place| Child::make(self.implementations, peer, terms, place, &install, now));
        let Some(mut child) = made else {
            self.endpoint.delete_child(install.child, now);
            return self.tell(place, "an association that was agreed on cannot be made".to_owned());
        };
        if self.peers.database().install_inbound(Arc::clone(&child.inbound)).is_err() {
            // The SPI belongs to an association that drains, or to one with keys from files.
            return self.endpoint.delete_child(install.child, now);
        }
        child.is_share = is_share;
        let is_of_use = is_share || install.replaces.is_some() || self.is_of_use(&child);
        self.children.insert(install.child, child);
        if let Some(stands) = self.sas.get_mut(&install.ike) {
            if stands.path.replace(install.path) != Some(install.path) {
                self.ways.note_path();
            }
            // An endpoint learnt from packets may be newer.
            if stands.whereabouts.get().is_none() {
                let way = way(install.path);
                stands.whereabouts.set(way);
                self.peers.is_reached_by(self.known[place].id, way);
            }
        }
        self.look_at = self.look_at.min(now + LOOK);
        self.changed.insert(install.ike);
        if !is_of_use {
            self.endpoint.delete_child(install.child, now);
        } else if install.is_outbound_live && is_share && install.replaces.is_none() {
            self.begin_share(&install, now);
        } else if install.is_outbound_live {
            self.go_live(install.child);
            self.end_worn(install.ike, now);
        }
    }

    /// Uses the child's outbound association from now on, in place of the one that it replaces.
    fn go_live(&mut self, id: ChildId) {
        let Some(child) = self.children.get_mut(&id) else { return };
        if std::mem::replace(&mut child.is_live, true) {
            return;
        }
        let (place, is_share, outbound) = (child.place, child.is_share, Arc::clone(&child.outbound));
        let replaced = child.replaces;
        self.show_problem(place, None);
        let old = replaced.and_then(|old| self.children.get(&old));
        let old = old.map(|old| *old.outbound.association().parameters());
        if is_share {
            self.end_share_request(place);
            return self.peers.database().add_share(outbound, old.map(|old| old.spi));
        }
        self.peers.database().add_outbound(outbound);
        if let Some(old) = old {
            self.peers.database().remove_outbound(old.peer, old.spi);
        }
        self.tell_lanes_of_shares(place);
    }

    fn remove(&mut self, id: ChildId, now: Instant) {
        let Some(child) = self.children.remove(&id) else { return };
        let outbound = child.outbound.association().parameters();
        let was_in_use = self.peers.database().remove_outbound(outbound.peer, outbound.spi);
        if child.is_share {
            self.end_share_request(child.place);
            if was_in_use {
                self.pause_shares(child.place, now);
            }
        }
        self.draining.push_back((now + GRACE, child.inbound.association().parameters().spi));
        self.changed.insert(child.ike);
    }

    /// Reports to the endpoint which children have received, and moves IKE SAs when our own address changes.
    fn look(&mut self, now: Instant) {
        self.look_at = now + LOOK;
        let mut received = Vec::new();
        for (&id, child) in &mut self.children {
            let top = child.inbound.window().top();
            if top != child.top {
                child.top = top;
                received.push(id);
            }
        }
        for id in received {
            self.endpoint.note_received(id, now);
            self.note_share_received(id);
        }
        let paths = self.sas.iter().filter_map(|(&ike, stands)| Some((ike, stands.path?, stands.is_called)));
        // A connection has the address that it was made with.
        let paths = paths.filter(|(_, path, _)| path.stream.is_none());
        let moved = self.ways.moved(paths);
        for (ike, local) in moved {
            let goes_on = self.endpoint.relocate(ike, local, now);
            if let Some(path) = self.sas.get_mut(&ike).and_then(|stands| stands.path.as_mut()) {
                // The query is made once for each address.
                path.local = local;
            }
            if !goes_on {
                self.endpoint.probe(ike, now);
            }
        }
    }
}

/// Returns the way of ESP along a path.
fn way(path: Path) -> Way {
    let local = Some(path.local.ip()).filter(|ip| !ip.is_unspecified());
    Way { remote: path.remote, local, stream: path.stream }
}

fn list(addresses: &[IpAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

impl KeyMaker for Ike<'_> {
    fn request(&mut self, request: Request, now: Instant) {
        let Some(&place) = self.places.get(&request.peer()) else { return };
        match request {
            Request::Acquire(id) => {
                // Clients begin by themselves; and a peer that has given us an address carries that one's packets alone.
                // The request stays, so that further packets wake nobody.
                let known = &self.known[place];
                if known.is_many || known.is_virtual && self.stands_with(place) {
                    return;
                }
                if self.known[place].not_before.is_none_or(|at| at <= now) && !self.is_closing {
                    let flow = self.peers.database().acquired_flow(id);
                    self.peers.database().withdraw(request);
                    self.acquire(place, flow, now);
                    self.take_events(now);
                }
            }
            Request::Share(_) => self.request_share(place, now),
            Request::Rekey(_) | Request::Expired(_) => {
                // An entry for clients may have several places.
                let known = &self.known;
                let is_due = |child: &Child| {
                    known[child.place].id == request.peer()
                        && !child.is_renewed
                        && (child.outbound.association().age(now) != Age::Young
                            || child.outbound.numbers().left() == 0)
                };
                let mut due = Vec::new();
                for (&id, child) in self.children.iter_mut().filter(|(_, child)| is_due(child)) {
                    child.is_renewed = true;
                    due.push(id);
                }
                due.into_iter().for_each(|id| self.endpoint.rekey_child(id, now));
                if let Request::Expired(id) = request {
                    self.end_expired(id, now);
                }
                self.take_events(now);
            }
        }
    }

    fn handle(&mut self, datagram: &[u8], from: SocketAddr, to: SocketAddr, now: Instant) {
        if self.endpoint.demands_cookie(datagram, from, to.port(), now) {
            return;
        }
        // Datagrams that we have no address to answer from are lost.
        let own = Some(to.ip())
            .filter(|ip| !ip.is_unspecified())
            .or_else(|| self.ways.own_address(from.ip(), None));
        if let Some(own) = own {
            self.endpoint.take_in(datagram, from, SocketAddr::new(own, to.port()), now);
            self.take_events(now);
        }
    }

    fn handle_streamed(&mut self, packet: &[u8], stream: u32, now: Instant) {
        let Some(connection) = self.peers.streams().and_then(|streams| streams.get(stream)) else { return };
        let path = Path { local: connection.local, remote: connection.remote, stream: Some(stream) };
        self.endpoint.take_along(packet, path, now);
        self.take_events(now);
    }

    fn stray(&mut self, spi: u32, from: Way, _: Instant) {
        let own = from.local.or_else(|| self.ways.own_address(from.remote.ip(), None));
        let Some(own) = own.filter(|_| !self.is_closing && from.stream.is_none()) else { return };
        let (port, remote) = match self.peers.has_ports() {
            true => (self.peers.listen().port(), from.remote),
            false => (IKE_PORT, SocketAddr::new(from.remote.ip(), IKE_PORT)),
        };
        self.endpoint.refuse_spi(spi, Path::new(SocketAddr::new(own, port), remote));
    }

    fn poll_transmit(&mut self) -> Option<Transmit> {
        // All datagrams of a turn have been handled: what strangers among them want is computed together.
        self.endpoint.answer_waiting().into_iter().for_each(|now| self.take_events(now));
        let sealane_ike::Transmit { path, is_answer, bytes } = self.endpoint.poll_transmit()?;
        Some(Transmit { from: path.local, to: path.remote, stream: path.stream, is_answer, bytes })
    }

    fn poll_timeout(&self) -> Option<Instant> {
        let look = (!self.children.is_empty()).then_some(self.look_at);
        let begins = self.begins.first().map(|&(at, _)| at).filter(|_| !self.is_closing);
        let drains = self.draining.front().map(|&(at, _)| at);
        let shares = self.waiting_shares.front().map(|&(at, _)| at);
        let streams = self.streams_due();
        [self.endpoint.poll_timeout(), look, begins, drains, shares, streams].into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
        while let Some((_, spi)) = self.draining.pop_front_if(|(at, _)| *at <= now) {
            self.peers.database().remove_inbound(self.peers.protocol(), spi);
        }
        while let Some(&(at, place)) = self.begins.first()
            && at <= now
            && !self.is_closing
        {
            match self.stands_with(place) {
                true => self.schedule(place, None),
                false => self.acquire(place, None, now),
            }
        }
        self.use_shares(now);
        self.look_at_streams(now);
        if !self.children.is_empty() && self.look_at <= now {
            self.look(now);
        }
        self.take_events(now);
    }

    fn poll_news(&mut self) -> Option<String> {
        self.news.pop_front()
    }

    fn close(&mut self, now: Instant) {
        self.is_closing = true;
        let all: Vec<IkeId> = self.sas.keys().copied().collect();
        all.into_iter().for_each(|ike| self.endpoint.close(ike, now));
        self.take_events(now);
    }

    fn is_closed(&self) -> bool {
        self.sas.is_empty()
    }
}

#[cfg(test)]
mod tests;
