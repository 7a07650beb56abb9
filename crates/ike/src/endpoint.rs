//! All IKE SAs of a gateway.
//!
//! Guarantees: a stranger's first message costs one keyed hash once [`Settings::cookie_threshold`] others are half open, until it
//! has shown that it receives where it says it is; half-open IKE SAs are bounded in number and time; events about strangers are
//! dropped rather than kept without bound.

use std::{
    collections::{BTreeSet, HashMap},
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::{Duration, Instant},
};

use aws_lc_rs::hmac;
use subtle::ConstantTimeEq as _;

use crate::{
    config::{Peer, Random, Settings},
    event::{ChildId, Event, IkeId, Path, Reason, Transmit},
    pool::Leases,
    sa::{
        Answer, Context, FirstMessage, HandOver, Opening, Output, Parts, Phase, Role, Sa, Task, only_notify,
    },
    wire::{
        Exchange, HEADER_BYTES, Header, Malformed, NotifyType, PayloadType, Spis, TrafficSelector,
        payload::Chain,
    },
};

/// How long one secret makes cookies, and the one before still counts.
const COOKIE_SECRET_LIFETIME: Duration = Duration::from_secs(60);
/// Events about strangers wait in this number at most for their owner.
const MAX_STRANGER_EVENTS: usize = 256;

/// What an endpoint has dropped or refused, since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams that are no message, or not one for an IKE SA of ours.
    pub unknown: u64,
    /// First messages that were answered with a cookie.
    pub cookies: u64,
    /// First messages that were dropped because too many IKE SAs are half open.
    pub overload: u64,
    /// First messages that were refused.
    pub refused: u64,
}

/// Secrets that cookies are made with.
struct Cookies {
    current: hmac::Key,
    previous: hmac::Key,
    renewed: Instant,
}

/// All IKE SAs of a gateway. In come datagrams, commands and the time; out come datagrams, events and the next deadline. After each
/// call the owner takes all datagrams and events.
pub struct Endpoint {
    settings: Settings,
    peers: Vec<Arc<Peer>>,
    random: Random,
    output: Output,
    /// By our SPI.
    sas: HashMap<u64, Box<Sa>>,
    /// When each has something due, and its SPI of ours.
    deadlines: BTreeSet<(Instant, u64)>,
    /// Half-open ones, by where they come from and the initiator's SPI: our SPI.
    half_open: HashMap<(SocketAddr, u64), u64>,
    cookies: Option<Cookies>,
    /// Where peers are begun with, ours first, in place of what their configuration says.
    ways: HashMap<usize, (IpAddr, IpAddr)>,
    next_ike: u64,
    counters: Counters,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("sas", &self.sas.len()).finish_non_exhaustive()
    }
}

impl Endpoint {
    /// An endpoint without any IKE SA.
    pub fn new(settings: Settings, peers: Vec<Peer>, random: Random) -> Self {
        let leases = settings.pools.iter().cloned().map(Leases::new).collect();
        Self {
            settings,
            peers: peers.into_iter().map(Arc::new).collect(),
            random,
            output: Output { leases, ..Output::default() },
            sas: HashMap::new(),
            deadlines: BTreeSet::new(),
            half_open: HashMap::new(),
            cookies: None,
            ways: HashMap::new(),
            next_ike: 0,
            counters: Counters::default(),
        }
    }

    /// What was dropped or refused.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// IKE SAs that both ends have proved themselves on, without predecessors that wait for their end.
    pub fn established(&self) -> impl Iterator<Item = IkeId> {
        self.sas.values().filter(|sa| sa.is_established()).map(|sa| sa.id)
    }

    /// IKE SAs in whatever state.
    pub fn sas(&self) -> usize {
        self.sas.len()
    }

    fn put(&mut self, sa: Box<Sa>) {
        let spi = sa.local_spi();
        self.deadlines.extend(sa.poll_timeout().map(|at| (at, spi)));
        self.sas.insert(spi, sa);
    }

    fn take(&mut self, spi: u64) -> Option<Box<Sa>> {
        let sa = self.sas.remove(&spi)?;
        if let Some(at) = sa.poll_timeout() {
            self.deadlines.remove(&(at, spi));
        }
        Some(sa)
    }

    fn with<R>(
        &mut self,
        now: Instant,
        spi: u64,
        work: impl FnOnce(&mut Sa, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let mut sa = self.take(spi)?;
        if sa.is_beginning() {
            self.output.is_first_contact = !self.sas.values().any(|other| other.peer_index == sa.peer_index);
        }
        let was_tracked = sa.is_half_open() || sa.is_finished();
        let mut context = Context {
            settings: &self.settings,
            peers: &self.peers,
            random: &mut self.random,
            output: &mut self.output,
            now,
        };
        let result = work(&mut sa, &mut context);
        // One that a stranger's wrong proof has ended still counts, until it is forgotten.
        let is_gone = sa.is_gone(now);
        if was_tracked && (is_gone || !(sa.is_half_open() || sa.is_finished())) {
            self.half_open.retain(|_, half_open| *half_open != spi);
        }
        if !is_gone {
            self.put(sa);
        }
        self.settle(now);
        Some(result)
    }

    /// Works on one IKE SA, if there is one, past its state machine.
    #[cfg(test)]
    pub(crate) fn with_any_for_tests(&mut self, now: Instant, work: impl FnOnce(&mut Sa, &mut Context<'_>)) {
        if let Some(&spi) = self.sas.keys().min() {
            self.with(now, spi, work);
        }
    }

    /// Puts what a call has made where it belongs.
    fn settle(&mut self, now: Instant) {
        for sa in std::mem::take(&mut self.output.spawned) {
            self.put(Box::new(sa));
        }
        for HandOver { ike, peer, to, children, tasks } in std::mem::take(&mut self.output.handed_over) {
            let successor = self.take(to);
            let mut context = Context {
                settings: &self.settings,
                peers: &self.peers,
                random: &mut self.random,
                output: &mut self.output,
                now,
            };
            match successor {
                Some(mut sa) if !sa.is_finished() => {
                    sa.take_over(&mut context, children, tasks);
                    self.put(sa);
                }
                // The successor ended before it got them.
                ended => {
                    children.into_iter().for_each(|child| child.end(&mut context, &Reason::Lost));
                    context.output.event(Event::Down { ike, peer: Some(peer), reason: Reason::Lost });
                    ended.into_iter().for_each(|sa| self.put(sa));
                }
            }
        }
        for contact in std::mem::take(&mut self.output.initial_contacts) {
            let others = self.sas.iter().filter(|(_, sa)| {
                sa.is_established()
                    && sa.peer_index == contact.peer
                    && sa.holder.as_ref() == Some(&contact.holder)
                    && sa.stands_since.is_some_and(|since| since < contact.began)
            });
            for spi in others.map(|(spi, _)| *spi).collect::<Vec<_>>() {
                self.with(now, spi, |sa, context| sa.fail(context, Reason::Replaced));
            }
        }
    }

    /// Takes a datagram that came from `from` and was sent to `to`, an address of ours. On another port than
    /// [`Settings::ike_port`] it begins with the non-ESP marker; without, it is ESP or a keepalive, and ignored.
    pub fn handle(&mut self, datagram: &[u8], from: SocketAddr, to: SocketAddr, now: Instant) {
        let path = Path { local: to, remote: from };
        let message =
            if to.port() == self.settings.ike_port { Some(datagram) } else { datagram.strip_prefix(&[0; 4]) };
        let Some(message) = message else { return };
        let Ok(header) = Header::parse(message) else {
            self.counters.unknown += 1;
            return;
        };
        if header.exchange == Exchange::Init && !header.is_response {
            if header.is_from_initiator && header.message_id == 0 && header.spis.responder == 0 {
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
            return;
        }
        self.with(now, spi, |sa, context| match header.exchange {
            Exchange::Init => sa.handle_init_response(context, &header, message, path),
            _ => sa.handle(context, &header, message, path),
        });
    }

    fn send(&mut self, path: Path, message: &[u8]) {
        let marker: &[u8] = if path.local.port() == self.settings.ike_port { &[] } else { &[0; 4] };
        self.output.transmits.push_back(Transmit { path, bytes: [marker, message].concat() });
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
        if self.half_open.len() >= self.settings.max_half_open {
            self.counters.overload += 1;
            return;
        }
        if self.half_open.len() >= self.settings.cookie_threshold {
            match self.check_cookie(header, message, path, now) {
                Ok(Some(answer)) => {
                    self.counters.cookies += 1;
                    return self.send(path, &answer);
                }
                Ok(None) => {}
                Err(_) => {
                    self.counters.unknown += 1;
                    return;
                }
            }
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
        self.next_ike += 1;
        let id = IkeId(self.next_ike);
        let mut context = Context {
            settings: &self.settings,
            peers: &self.peers,
            random: &mut self.random,
            output: &mut self.output,
            now,
        };
        match (FirstMessage { header, message, path, parts }).answer(&mut context, id) {
            Answer::Accepted(sa) => {
                self.half_open.insert(key, sa.local_spi());
                self.put(sa);
            }
            Answer::Refused(answer, reason) => {
                self.counters.refused += 1;
                self.send(path, &answer);
                if self.output.events.len() < MAX_STRANGER_EVENTS {
                    self.output.event(Event::Refused { path, reason });
                }
            }
            Answer::Again(answer) => self.send(path, &answer),
            Answer::Dropped => self.counters.refused += 1,
        }
    }

    /// Whether a first message has a cookie of ours in front; if not, the answer that gives one (RFC 7296, section 2.6).
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
        let random = &mut self.random;
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
        let is_current = current.as_ref().ct_eq(given) | make(&cookies.previous).as_ref().ct_eq(given);
        Ok((!bool::from(is_current)).then(|| only_notify(header, NotifyType::COOKIE, current.as_ref())))
    }

    /// From now on a peer is begun with from our address `local` at its address `remote`, whatever its configuration says; it may
    /// still begin from wherever that allows.
    pub fn set_way(&mut self, peer: usize, local: IpAddr, remote: IpAddr) {
        self.ways.insert(peer, (local, remote));
    }

    /// When an IKE SA is rekeyed; `None`: never, or it does not stand.
    pub fn rekey_at(&self, ike: IkeId) -> Option<Instant> {
        self.sas.get(&self.current(ike)?)?.rekey_at()
    }

    /// When a child is rekeyed; `None`: never, or another one has taken its place.
    pub fn child_rekey_at(&self, child: ChildId) -> Option<Instant> {
        let sa = self.sas.get(&self.of_child(child)?)?;
        sa.children.iter().find(|known| known.id == child)?.rekey_at
    }

    /// Begins an IKE SA with a peer, and its first child, for the packet whose selectors are given, ours first. `None` if the peer, the
    /// child or an address of either end is not configured.
    pub fn initiate(
        &mut self,
        peer: usize,
        child: Option<usize>,
        trigger: Option<(TrafficSelector, TrafficSelector)>,
        now: Instant,
    ) -> Option<IkeId> {
        let configured = self.peers.get(peer)?.clone();
        let (local, remote) = match self.ways.get(&peer) {
            Some(&way) => way,
            None => (configured.local?, configured.remote?),
        };
        let path = Path {
            local: SocketAddr::new(local, self.settings.ike_port),
            remote: SocketAddr::new(remote, self.settings.ike_port),
        };
        if child.is_some_and(|child| child >= configured.children.len()) {
            return None;
        }
        self.next_ike += 1;
        let id = IkeId(self.next_ike);
        let spis = Spis { initiator: self.random.ike_spi(), responder: 0 };
        let wanted = child.map(|child| (child, trigger));
        let opening = Opening::initiator(self.random.nonce(), wanted);
        let phase = Phase::Opening(Box::new(opening));
        let sa = Sa::new(id, Role::Initiator, spis, (peer, configured), path, phase, now);
        self.put(Box::new(sa));
        self.with(now, spis.initiator, |sa, context| sa.begin(context, None));
        Some(id)
    }

    fn current(&self, ike: IkeId) -> Option<u64> {
        self.sas.iter().find(|(_, sa)| sa.id == ike && sa.is_established()).map(|(spi, _)| *spi)
    }

    fn of_child(&self, child: ChildId) -> Option<u64> {
        let has = |sa: &Sa| sa.children.iter().any(|known| known.id == child);
        self.sas.iter().find(|(_, sa)| has(sa)).map(|(spi, _)| *spi)
    }

    /// A packet of a policy has no child yet: asks for one on the IKE SA that stands, or begins one. `None` as of
    /// [`Self::initiate`].
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

    /// Asks for another child of a policy on an IKE SA that stands, for a resource of ours such as a core (RFC 9611): associations that no
    /// other resource sends under. The other end may have too many of them and refuse with TS_MAX_QUEUE.
    pub fn add_resource(&mut self, ike: IkeId, child: usize, resource: u32, now: Instant) {
        self.task(
            self.current(ike),
            Task::AddChild { policy: child, trigger: None, resource: Some(resource) },
            now,
        );
    }

    /// Asks for new keys of an IKE SA.
    pub fn rekey(&mut self, ike: IkeId, now: Instant) {
        self.task(self.current(ike), Task::RekeyIke, now);
    }

    /// Asks for new keys of a child, as when it is near its end.
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
        let spis = self.sas.iter().filter(|(_, sa)| sa.id == ike).map(|(spi, _)| *spi).collect::<Vec<_>>();
        for spi in spis {
            self.with(now, spi, |sa, context| sa.close(context));
        }
    }

    /// Asks whether the peer still lives.
    pub fn probe(&mut self, ike: IkeId, now: Instant) {
        if let Some(spi) = self.current(ike) {
            self.with(now, spi, |sa, context| sa.probe(context));
        }
    }

    /// A genuine ESP packet came under a child's keys: the peer lives, and may be sent to under them.
    pub fn note_received(&mut self, child: ChildId, now: Instant) {
        if let Some(spi) = self.of_child(child) {
            self.with(now, spi, |sa, context| sa.note_child_received(context, child));
        }
    }

    /// Our address towards an IKE SA's peer has changed; whether both ends speak MOBIKE, so that it goes on from there.
    pub fn relocate(&mut self, ike: IkeId, local: SocketAddr, now: Instant) -> bool {
        let Some(spi) = self.current(ike) else { return false };
        self.with(now, spi, |sa, context| sa.relocate(context, local)).unwrap_or(false)
    }

    /// The next datagram to be sent.
    pub fn poll_transmit(&mut self) -> Option<Transmit> {
        self.output.transmits.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.output.events.pop_front()
    }

    /// When [`Self::handle_timeout`] is to be called at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        let due: Vec<u64> =
            self.deadlines.iter().take_while(|(at, _)| *at <= now).map(|(_, spi)| *spi).collect();
        for spi in due {
            self.with(now, spi, Sa::handle_timeout);
        }
    }
}
