//! All IKE SAs of a gateway.
//!
//! Guarantees: if [`Settings::cookie_threshold`] IKE SAs are half open, a stranger's first message costs one keyed
//! hash until the stranger has shown that it receives at its claimed address; half-open IKE SAs are bounded in number
//! and time, and if there are too many, silent ones make room for strangers that have shown it; events about strangers
//! are dropped rather than kept without bound.

mod peers;
mod strays;
mod streams;
mod twins;

use std::{
    collections::{BTreeSet, HashMap, hash_map::Entry},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use aws_lc_rs::hmac;
use subtle::ConstantTimeEq as _;

use crate::{
    config::{Peer, Settings},
    crypto::{KeyExchange, exchange::respond_all},
    event::{Event, Path, Reason, Transmit},
    id::{ChildId, IkeId},
    pool::Leases,
    random::Random,
    sa::{
        Agreed, Answer, Context, FirstMessage, HandOver, Opening, Output, Parts, Phase, Role, Sa, Task,
        only_notify,
    },
    wire::{
        Exchange, HEADER_BYTES, Header, Malformed, NotifyType, PayloadType, Spis, TrafficSelector,
        payload::Chain,
    },
};
use sealane_transform::debug_only;

/// Time for which one secret makes cookies; cookies of the previous secret are still valid during it.
const COOKIE_SECRET_LIFETIME: Duration = Duration::from_secs(60);
/// Time of silence after which a half-open IKE SA can make room for another one.
const SILENCE_MIN: Duration = Duration::from_secs(1);
/// Maximum number of events about strangers that wait for the owner.
const MAX_STRANGER_EVENTS: usize = 256;

/// Numbers of datagrams that an endpoint has dropped or refused since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams that are not a message, or not one for an IKE SA of ours.
    pub unknown: u64,
    /// First messages that were answered with a cookie.
    pub cookies: u64,
    /// First messages that were dropped because too many IKE SAs are half open.
    pub overload: u64,
    /// First messages that were refused.
    pub refused: u64,
}

/// Maximum number of first messages that wait for their key exchanges: as many as are computed side by side.
const EXCHANGES_MAX: usize = sealane_transform::ASYMMETRIC_WAYS;

/// A first message that is worth a key exchange.
struct Waiting {
    header: Header,
    message: Vec<u8>,
    path: Path,
    parts: Parts,
    agreed: Agreed,
    now: Instant,
}

impl Waiting {
    fn key(&self) -> (SocketAddr, u64) {
        (self.path.remote, self.header.spis.initiator)
    }

    fn exchange(&self) -> (KeyExchange, &[u8]) {
        (self.agreed.exchange, self.parts.exchange.as_ref().map_or(&[], |(_, value)| value))
    }
}

/// Secrets that cookies are made with.
struct Cookies {
    current: hmac::Key,
    previous: hmac::Key,
    renewed: Instant,
}

/// The parts that all IKE SAs use.
struct Common {
    settings: Settings,
    peers: Vec<Arc<Peer>>,
    random: Random,
    output: Output,
}

impl Common {
    fn context(&mut self, now: Instant) -> Context<'_> {
        let Self { settings, peers, random, output } = self;
        Context { settings, peers, random, output, now }
    }
}

/// All IKE SAs of a gateway. Datagrams, commands and the time go in; datagrams, events and the next deadline come
/// out. After each call the owner takes all datagrams and events.
pub struct Endpoint {
    common: Common,
    /// IKE SAs by our SPI.
    sas: HashMap<u64, Box<Sa>>,
    /// Our SPIs of each IKE SA: a rekeyed one has several for a while.
    by_id: HashMap<IkeId, Vec<u64>>,
    /// Our SPI of each child's IKE SA.
    by_child: HashMap<ChildId, u64>,
    /// Each IKE SA's next deadline, with our SPI.
    deadlines: BTreeSet<(Instant, u64)>,
    /// Our SPI of each half-open IKE SA, by the sender's address and the initiator's SPI.
    half_open: HashMap<(SocketAddr, u64), u64>,
    /// First messages whose key exchanges are not computed yet.
    waiting: Vec<Waiting>,
    /// Peers with which both ends may have initiated an IKE SA, with the times of a decision and the number of further ones.
    twins: BTreeSet<(Instant, usize, u32)>,
    cookies: Option<Cookies>,
    /// Addresses for initiating towards a peer, ours first, which replace those of its configuration.
    ways: HashMap<usize, (IpAddr, IpAddr)>,
    next_ike: u64,
    counters: Counters,
}

/// Returns whether a message asks for a new IKE SA.
fn is_first(header: &Header) -> bool {
    let begins = header.exchange == Exchange::Init && !header.is_response && header.is_from_initiator;
    begins && header.message_id == 0 && header.spis.responder == 0
}

debug_only!(self: Endpoint { sas: self.sas.len() });

impl Endpoint {
    /// Returns an endpoint without any IKE SA.
    pub fn new(settings: Settings, peers: Vec<Peer>, random: Random) -> Self {
        let leases = settings.pools.iter().cloned().map(Leases::new).collect();
        let peers = peers.into_iter().map(Arc::new).collect();
        let output = Output { leases, ..Output::default() };
        Self {
            common: Common { settings, peers, random, output },
            sas: HashMap::new(),
            by_id: HashMap::new(),
            by_child: HashMap::new(),
            deadlines: BTreeSet::new(),
            half_open: HashMap::new(),
            waiting: Vec::with_capacity(EXCHANGES_MAX),
            twins: BTreeSet::new(),
            cookies: None,
            ways: HashMap::new(),
            next_ike: 0,
            counters: Counters::default(),
        }
    }

    /// Returns the numbers of datagrams that were dropped or refused.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the IKE SAs on which both ends have proved themselves, except for replaced ones that wait for their
    /// end.
    pub fn established(&self) -> impl Iterator<Item = IkeId> {
        self.sas.values().filter(|sa| sa.is_established()).map(|sa| sa.id)
    }

    /// Returns the number of IKE SAs in any state.
    pub fn sas(&self) -> usize {
        self.sas.len()
    }

    fn put(&mut self, sa: Box<Sa>) {
        let spi = sa.local_spi();
        self.deadlines.extend(sa.poll_timeout().map(|at| (at, spi)));
        self.by_id.entry(sa.id).or_default().push(spi);
        self.by_child.extend(sa.children.iter().map(|child| (child.id, spi)));
        self.sas.insert(spi, sa);
    }

    fn take(&mut self, spi: u64) -> Option<Box<Sa>> {
        let sa = self.sas.remove(&spi)?;
        if let Some(at) = sa.poll_timeout() {
            self.deadlines.remove(&(at, spi));
        }
        self.forget(sa.id, spi);
        for child in &sa.children {
            self.by_child.remove(&child.id);
        }
        Some(sa)
    }

    /// Removes one of an IKE SA's SPIs.
    fn forget(&mut self, id: IkeId, spi: u64) {
        if let Entry::Occupied(mut spis) = self.by_id.entry(id) {
            spis.get_mut().retain(|other| *other != spi);
            if spis.get().is_empty() {
                spis.remove();
            }
        }
    }

    fn with<R>(
        &mut self,
        now: Instant,
        spi: u64,
        work: impl FnOnce(&mut Sa, &mut Context<'_>) -> R,
    ) -> Option<R> {
        // The IKE SA keeps its entries in the tables, unless they change.
        let mut sa = self.sas.remove(&spi)?;
        let due = sa.poll_timeout();
        for child in &sa.children {
            self.by_child.remove(&child.id);
        }
        if sa.is_beginning() {
            self.common.output.is_first_contact =
                !self.sas.values().any(|other| other.peer_index == sa.peer_index);
        }
        let was_established = sa.is_established();
        let was_tracked = sa.is_half_open() || sa.is_finished();
        let mut context = self.common.context(now);
        let result = work(&mut sa, &mut context);
        // An IKE SA that a stranger's wrong proof has ended still counts, until it is forgotten.
        let is_gone = sa.is_gone(now);
        if was_tracked && (is_gone || !(sa.is_half_open() || sa.is_finished())) {
            self.half_open.retain(|_, half_open| *half_open != spi);
        }
        let next = sa.poll_timeout().filter(|_| !is_gone);
        if due != next {
            if let Some(at) = due {
                self.deadlines.remove(&(at, spi));
            }
            self.deadlines.extend(next.map(|at| (at, spi)));
        }
        if is_gone {
            self.forget(sa.id, spi);
        } else {
            if !was_established && sa.is_established() {
                self.note_twins(&sa, now);
            }
            self.by_child.extend(sa.children.iter().map(|child| (child.id, spi)));
            self.sas.insert(spi, sa);
        }
        self.settle(now);
        Some(result)
    }

    /// Gives a test access to one IKE SA, if there is one, bypassing its state machine.
    #[cfg(test)]
    pub(crate) fn with_any_for_tests(&mut self, now: Instant, work: impl FnOnce(&mut Sa, &mut Context<'_>)) {
        if let Some(&spi) = self.sas.keys().min() {
            self.with(now, spi, work);
        }
    }

    /// Distributes the output of a call.
    fn settle(&mut self, now: Instant) {
        for sa in std::mem::take(&mut self.common.output.spawned) {
            self.put(Box::new(sa));
        }
        for HandOver { ike, peer, to, children, tasks } in std::mem::take(&mut self.common.output.handed_over)
        {
            let successor = self.take(to);
            let mut context = self.common.context(now);
            match successor {
                Some(mut sa) if !sa.is_finished() => {
                    sa.take_over(&mut context, children, tasks);
                    self.put(sa);
                }
                // The successor ended before it received them.
                ended => {
                    children.into_iter().for_each(|child| child.end(&mut context, &Reason::Lost));
                    let from =
                        ended.as_ref().map_or_else(|| SocketAddr::from(([0; 4], 0)), |sa| sa.path.remote);
                    context.output.event(Event::Down { ike, peer: Some(peer), from, reason: Reason::Lost });
                    ended.into_iter().for_each(|sa| self.put(sa));
                }
            }
        }
        for contact in std::mem::take(&mut self.common.output.initial_contacts) {
            let others = self.sas.iter().filter(|(_, sa)| {
                sa.is_established()
                    && sa.peer_index == contact.peer
                    && sa.holder.as_ref() == Some(&contact.holder)
                    && sa.stands_since.is_some_and(|since| since < contact.began)
            });
            // Several devices of one user may have one identity, and each can speak only for itself.
            let is_shared =
                self.common.peers.get(contact.peer).is_some_and(|peer| peer.remote_identity.is_none());
            for spi in others.map(|(spi, _)| *spi).collect::<Vec<_>>() {
                self.with(now, spi, |sa, context| match is_shared && sa.path.remote != contact.from {
                    true => sa.doubt(context),
                    false => sa.end_at_once(context, Reason::Replaced),
                });
            }
        }
    }

    /// Handles a datagram that was sent from `from` to `to`, an address of ours. On a port other than
    /// [`Settings::ike_port`] a message begins with the non-ESP marker; a datagram without it is ESP or a keepalive,
    /// and is ignored.
    pub fn handle(&mut self, datagram: &[u8], from: SocketAddr, to: SocketAddr, now: Instant) {
        self.take_in(datagram, from, to, now);
        self.answer_waiting();
    }

    /// Handles a datagram like [`Self::handle`], but leaves the key exchanges of strangers' first messages to
    /// [`Self::answer_waiting`], so that those of several messages are computed side by side. At most as
    /// many wait as are computed side by side.
    pub fn take_in(&mut self, datagram: &[u8], from: SocketAddr, to: SocketAddr, now: Instant) {
        self.take_along(datagram, Path::new(to, from), now);
    }

    /// Handles a datagram like [`Self::take_in`], or a packet of a stream, which begins with the non-ESP marker on any port.
    pub fn take_along(&mut self, datagram: &[u8], path: Path, now: Instant) {
        let Some(message) = self.message(datagram, path) else { return };
        let header = match Header::parse(message) {
            Ok(header) => header,
            Err(malformed) => {
                self.counters.unknown += 1;
                return self.note_old_version(&malformed, message, path);
            }
        };
        if header.exchange == Exchange::Init && !header.is_response {
            if is_first(&header) {
                return self.handle_first(&header, message, path, now);
            }
            self.counters.unknown += 1;
            return;
        }
        let spi = if header.is_from_initiator { header.spis.responder } else { header.spis.initiator };
        let is_ours = self.sas.get(&spi).is_some_and(|sa| match header.exchange {
            Exchange::Init => sa.spis.initiator == header.spis.initiator,
            _ => sa.spis == header.spis,
        });
        if !is_ours {
            self.counters.unknown += 1;
            return self.take_unknown(&header, message, path, now);
        }
        self.with(now, spi, |sa, context| match header.exchange {
            Exchange::Init => sa.handle_init_response(context, &header, message, path),
            _ => sa.handle(context, &header, message, path),
        });
    }

    /// Handles a stranger's first message like [`Self::take_in`], if a cookie is wanted and it carries none: the only
    /// thing that the sender gets needs no address of ours, but only the port `to` on which the message arrived. In a
    /// flood a caller need not find out an address for every stranger. Returns false, and does nothing, about any
    /// other datagram.
    pub fn demands_cookie(&mut self, datagram: &[u8], from: SocketAddr, to: u16, now: Instant) -> bool {
        if !self.is_cookie_wanted() {
            return false;
        }
        let any = match from {
            SocketAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            SocketAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        };
        let path = Path::new(SocketAddr::new(any, to), from);
        let Some(message) = self.message(datagram, path) else { return false };
        let Ok(header) = Header::parse(message) else { return false };
        let is_new = is_first(&header) && !self.is_known((from, header.spis.initiator));
        is_new && self.is_without_cookie(&header, message, path, now)
    }

    /// Returns the message of a datagram that arrived along `path`; `None` if it is ESP or a keepalive.
    fn message<'d>(&self, datagram: &'d [u8], path: Path) -> Option<&'d [u8]> {
        match path.has_marker(self.common.settings.ike_port) {
            false => Some(datagram),
            true => datagram.strip_prefix(&[0; 4]),
        }
    }

    /// Returns whether this stranger has an IKE SA that is half open, or one that will be.
    fn is_known(&self, key: (SocketAddr, u64)) -> bool {
        self.half_open.contains_key(&key) || self.waiting.iter().any(|waiting| waiting.key() == key)
    }

    fn half_open_count(&self) -> usize {
        self.half_open.len() + self.waiting.len()
    }

    fn is_cookie_wanted(&self) -> bool {
        self.half_open_count() >= self.common.settings.cookie_threshold
    }

    /// Asks the sender of a first message without a cookie of ours for one. Returns false if it carries one.
    fn is_without_cookie(&mut self, header: &Header, message: &[u8], path: Path, now: Instant) -> bool {
        match self.check_cookie(header, message, path, now) {
            Ok(Some(answer)) => {
                self.counters.cookies += 1;
                self.send(path, &answer);
                true
            }
            Ok(None) => false,
            Err(_) => {
                self.counters.unknown += 1;
                true
            }
        }
    }

    fn send(&mut self, path: Path, message: &[u8]) {
        let marker: &[u8] = if path.has_marker(self.common.settings.ike_port) { &[0; 4] } else { &[] };
        let bytes = [marker, message].concat();
        self.common.output.transmits.push_back(Transmit { path, is_answer: true, bytes });
    }

    fn handle_first(&mut self, header: &Header, message: &[u8], path: Path, now: Instant) {
        let key = (path.remote, header.spis.initiator);
        if let Some(&spi) = self.half_open.get(&key) {
            self.with(now, spi, |sa, context| {
                if sa.began_with(message) {
                    sa.send_first_response(context, path);
                }
            });
            return;
        }
        // A message that comes twice is answered once.
        if self.waiting.iter().any(|waiting| waiting.key() == key) {
            return;
        }
        let is_cookie_wanted = self.is_cookie_wanted();
        if is_cookie_wanted && self.is_without_cookie(header, message, path, now) {
            return;
        }
        let is_full = self.half_open_count() >= self.common.settings.max_half_open;
        if is_full && !is_cookie_wanted {
            self.counters.overload += 1;
            return;
        }
        let parts = match Parts::parse(header.first, &message[HEADER_BYTES..]) {
            Ok(parts) => parts,
            Err(malformed) => {
                self.counters.refused += 1;
                if let Malformed::UnknownCritical { number } = malformed {
                    let answer = only_notify(header, NotifyType::UNSUPPORTED_CRITICAL_PAYLOAD, [number]);
                    self.send(path, &answer);
                }
                return;
            }
        };
        let context = self.common.context(now);
        let first = FirstMessage { header, message, path, parts };
        match first.judge(&context) {
            Ok(_) if is_full && !self.make_room(now) => self.counters.overload += 1,
            Ok(agreed) => {
                let parts = first.parts;
                let (header, message) = (*header, message.to_vec());
                self.waiting.push(Waiting { header, message, path, parts, agreed, now });
                if self.waiting.len() == EXCHANGES_MAX {
                    self.answer_waiting();
                }
            }
            Err(answer) => self.give(answer, path, (path.remote, header.spis.initiator)),
        }
    }

    /// Ends the oldest half-open IKE SA whose initiator has sent nothing since its first message, or whose proof was
    /// wrong, if it is old enough that a genuine initiator would have continued. Returns whether there was one.
    fn make_room(&mut self, now: Instant) -> bool {
        let silent = self.half_open.iter().filter_map(|(&key, &spi)| {
            let began = self.sas.get(&spi)?.silent_since()?;
            (now.saturating_duration_since(began) >= SILENCE_MIN).then_some((began, spi, key))
        });
        let Some((_, spi, key)) = silent.min_by_key(|&(began, spi, _)| (began, spi)) else { return false };
        self.half_open.remove(&key);
        if let Some(mut sa) = self.take(spi) {
            let mut context = self.common.context(now);
            sa.fail(&mut context, Reason::Abandoned);
        }
        true
    }

    /// Computes the key exchanges of the first messages that [`Self::take_in`] has left, and answers them. Returns the
    /// time of the last message; `None` if there was none.
    pub fn answer_waiting(&mut self) -> Option<Instant> {
        let mut waiting = std::mem::take(&mut self.waiting);
        let last = waiting.last()?.now;
        let exchanges: Vec<_> = waiting.iter().map(Waiting::exchange).collect();
        let exchanged = respond_all(&exchanges);
        for (waiting, exchanged) in waiting.drain(..).zip(exchanged) {
            self.next_ike += 1;
            let id = IkeId(self.next_ike);
            let mut context = self.common.context(waiting.now);
            let (path, key) = (waiting.path, waiting.key());
            let Waiting { header, message, path: _, parts, agreed, .. } = waiting;
            let first = FirstMessage { header: &header, message: &message, path, parts };
            let answer = first.answer(agreed, exchanged, &mut context, id);
            self.give(answer, path, key);
        }
        // The next messages find the room of these.
        self.waiting = waiting;
        Some(last)
    }

    /// Carries out the answer to a first message.
    fn give(&mut self, answer: Answer, path: Path, key: (SocketAddr, u64)) {
        match answer {
            Answer::Accepted(sa) => {
                self.half_open.insert(key, sa.local_spi());
                self.put(sa);
            }
            Answer::Refused(answer, reason) => {
                self.counters.refused += 1;
                self.send(path, &answer);
                self.tell_refused(path, reason);
            }
            Answer::Again(answer) => self.send(path, &answer),
            Answer::Dropped => self.counters.refused += 1,
        }
    }

    /// Checks that a first message begins with a cookie of ours; if not, returns the answer that carries one (RFC
    /// 7296, section 2.6).
    fn check_cookie(
        &mut self,
        header: &Header,
        message: &[u8],
        path: Path,
        now: Instant,
    ) -> Result<Option<Vec<u8>>, Malformed> {
        let mut nonce = &[][..];
        let mut given = &[][..];
        for raw in Chain::new(header.first, &message[HEADER_BYTES..]) {
            let raw = raw?;
            match raw.kind {
                PayloadType::NONCE => nonce = raw.body,
                PayloadType::NOTIFY => {
                    let cookie = [0, 0, (NotifyType::COOKIE.0 >> 8) as u8, NotifyType::COOKIE.0 as u8];
                    given = raw.body.strip_prefix(&cookie).unwrap_or(given);
                }
                _ => {}
            }
        }
        let key = |random: &mut Random| hmac::Key::new(hmac::HMAC_SHA256, &random.bytes::<32>());
        let random = &mut self.common.random;
        let cookies = self.cookies.get_or_insert_with(|| Cookies {
            current: key(random),
            previous: key(random),
            renewed: now,
        });
        if now.saturating_duration_since(cookies.renewed) >= COOKIE_SECRET_LIFETIME {
            cookies.previous = std::mem::replace(&mut cookies.current, key(random));
            cookies.renewed = now;
        }
        let make = |key: &hmac::Key| {
            let mut context = hmac::Context::with_key(key);
            context.update(nonce);
            context.update(&header.spis.initiator.to_be_bytes());
            let (remote, port) = (path.remote.ip(), path.remote.port());
            match remote {
                IpAddr::V4(address) => context.update(&address.octets()),
                IpAddr::V6(address) => context.update(&address.octets()),
            }
            context.update(&port.to_be_bytes());
            context.sign()
        };
        let current = make(&cookies.current);
        let is_one = |key: &hmac::Key| bool::from(make(key).as_ref().ct_eq(given));
        // Most strangers in a flood bring no cookie, and cost one hash.
        let is_ours =
            !given.is_empty() && (bool::from(current.as_ref().ct_eq(given)) || is_one(&cookies.previous));
        Ok((!is_ours).then(|| only_notify(header, NotifyType::COOKIE, current.as_ref())))
    }

    /// Makes later initiations towards a peer use our address `local` and its address `remote`, whatever its
    /// configuration says. The peer may still initiate from any address that its configuration allows.
    pub fn set_way(&mut self, peer: usize, local: IpAddr, remote: IpAddr) {
        self.ways.insert(peer, (local, remote));
    }

    /// Returns the time at which an IKE SA is rekeyed; `None` if it is never rekeyed or not established.
    pub fn rekey_at(&self, ike: IkeId) -> Option<Instant> {
        self.sas.get(&self.current(ike)?)?.rekey_at()
    }

    /// Returns the time at which a child is rekeyed; `None` if it is never rekeyed or has been replaced.
    pub fn child_rekey_at(&self, child: ChildId) -> Option<Instant> {
        let sa = self.sas.get(&self.of_child(child)?)?;
        sa.children.iter().find(|known| known.id == child)?.rekey_at
    }

    /// Initiates an IKE SA with a peer, and its first child, for the packet with the given selectors, ours first.
    /// Returns `None` if the peer, the child or an address of either end is not configured.
    pub fn initiate(
        &mut self,
        peer: usize,
        child: Option<usize>,
        trigger: Option<(TrafficSelector, TrafficSelector)>,
        now: Instant,
    ) -> Option<IkeId> {
        let configured = self.common.peers.get(peer)?;
        let (local, remote) = match self.ways.get(&peer) {
            Some(&way) => way,
            None => (configured.local?, configured.remote?),
        };
        let at = |address| SocketAddr::new(address, self.common.settings.ike_port);
        self.initiate_along(peer, child, trigger, Path::new(at(local), at(remote)), now)
    }

    /// Initiates an IKE SA like [`Self::initiate`], along this path.
    pub fn initiate_along(
        &mut self,
        peer: usize,
        child: Option<usize>,
        trigger: Option<(TrafficSelector, TrafficSelector)>,
        path: Path,
        now: Instant,
    ) -> Option<IkeId> {
        let configured = self.common.peers.get(peer)?.clone();
        if child.is_some_and(|child| child >= configured.children.len()) {
            return None;
        }
        self.next_ike += 1;
        let id = IkeId(self.next_ike);
        let spis = Spis { initiator: self.common.random.ike_spi(), responder: 0 };
        let wanted = child.map(|child| (child, trigger));
        let opening = Opening::initiator(self.common.random.nonce(), wanted);
        let phase = Phase::Opening(Box::new(opening));
        let sa = Sa::new(id, Role::Initiator, spis, (peer, configured), path, phase, now);
        self.put(Box::new(sa));
        self.with(now, spis.initiator, |sa, context| sa.begin(context, None));
        Some(id)
    }

    fn current(&self, ike: IkeId) -> Option<u64> {
        let spis = self.by_id.get(&ike)?;
        spis.iter().copied().find(|spi| self.sas.get(spi).is_some_and(|sa| sa.is_established()))
    }

    fn of_child(&self, child: ChildId) -> Option<u64> {
        self.by_child.get(&child).copied()
    }

    /// Asks for a child for a packet whose policy has none, on the established IKE SA, or initiates an IKE SA if none
    /// is under way.
    /// Returns `None` in the same cases as [`Self::initiate`].
    pub fn acquire(
        &mut self,
        peer: usize,
        child: usize,
        trigger: Option<(TrafficSelector, TrafficSelector)>,
        now: Instant,
    ) -> Option<IkeId> {
        let stands = self.sas.iter().find(|(_, sa)| sa.peer_index == peer && sa.is_established());
        if let Some((&spi, _)) = stands {
            return self.with(now, spi, |sa, context| {
                sa.enqueue(Task::AddChild { policy: child, trigger, resource: None });
                sa.run_tasks(context);
                sa.id
            });
        }
        let begins = self.sas.values().find(|sa| {
            sa.peer_index == peer && sa.role == Role::Initiator && matches!(sa.phase, Phase::Opening(_))
        });
        match begins {
            Some(sa) => Some(sa.id),
            None => self.initiate(peer, Some(child), trigger, now),
        }
    }

    /// Asks for another child of a policy on an established IKE SA, for a resource of ours such as a core (RFC 9611).
    /// No other resource sends under the child's associations. The other end refuses with TS_MAX_QUEUE if it has too
    /// many of them.
    pub fn add_resource(&mut self, ike: IkeId, child: usize, resource: u32, now: Instant) {
        self.task(
            self.current(ike),
            Task::AddChild { policy: child, trigger: None, resource: Some(resource) },
            now,
        );
    }

    /// Asks for new keys for an IKE SA.
    pub fn rekey(&mut self, ike: IkeId, now: Instant) {
        self.task(self.current(ike), Task::RekeyIke, now);
    }

    /// Asks for new keys for a child, for example because its lifetime is nearly over.
    pub fn rekey_child(&mut self, child: ChildId, now: Instant) {
        self.task(self.of_child(child), Task::RekeyChild(child), now);
    }

    /// Ends a child.
    pub fn delete_child(&mut self, child: ChildId, now: Instant) {
        self.task(self.of_child(child), Task::DeleteChild(child), now);
    }

    fn task(&mut self, spi: Option<u64>, task: Task, now: Instant) {
        let Some(spi) = spi else { return };
        self.with(now, spi, |sa, context| {
            sa.enqueue(task);
            sa.run_tasks(context);
        });
    }

    /// Ends an IKE SA with all its children.
    pub fn close(&mut self, ike: IkeId, now: Instant) {
        for spi in self.by_id.get(&ike).cloned().unwrap_or_default() {
            self.with(now, spi, |sa, context| sa.close(context));
        }
    }

    /// Ends an IKE SA with all its children at once, whether its peer answers or not. The peer is told.
    pub fn end(&mut self, ike: IkeId, reason: &Reason, now: Instant) {
        for spi in self.by_id.get(&ike).cloned().unwrap_or_default() {
            self.with(now, spi, |sa, context| sa.end_at_once(context, reason.clone()));
        }
    }

    /// Returns the time since an IKE SA's peer was last heard.
    pub fn silence(&self, ike: IkeId, now: Instant) -> Option<Duration> {
        Some(now.saturating_duration_since(self.sas.get(&self.current(ike)?)?.heard()))
    }

    /// Checks whether the peer is still alive.
    pub fn probe(&mut self, ike: IkeId, now: Instant) {
        if let Some(spi) = self.current(ike) {
            self.with(now, spi, |sa, context| sa.probe(context));
        }
    }

    /// Notes that a genuine ESP packet arrived under a child's keys: the peer is alive, and can receive under them.
    pub fn note_received(&mut self, child: ChildId, now: Instant) {
        if let Some(spi) = self.of_child(child) {
            self.with(now, spi, |sa, context| sa.note_child_received(context, child));
        }
    }

    /// Notes that our address towards an IKE SA's peer has changed. Returns whether both ends speak MOBIKE, so that
    /// the IKE SA continues from the new address.
    pub fn relocate(&mut self, ike: IkeId, local: SocketAddr, now: Instant) -> bool {
        let Some(spi) = self.current(ike) else { return false };
        self.with(now, spi, |sa, context| sa.relocate(context, local)).unwrap_or(false)
    }

    /// Returns the next datagram to be sent.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.common.output.transmits.pop_front()
    }

    /// Returns the next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.common.output.events.pop_front()
    }

    /// Returns the time by which [`Self::handle_timeout`] has to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let twins = self.twins.first().map(|(at, ..)| *at);
        self.deadlines.first().map(|(at, _)| *at).into_iter().chain(twins).min()
    }

    /// Performs the actions that are due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        let due: Vec<u64> =
            self.deadlines.iter().take_while(|(at, _)| *at <= now).map(|(_, spi)| *spi).collect();
        for spi in due {
            self.with(now, spi, Sa::handle_timeout);
        }
        while let Some(&(at, peer, tries)) = self.twins.first()
            && at <= now
        {
            self.twins.pop_first();
            self.decide_twins(peer, tries, now);
        }
    }
}
