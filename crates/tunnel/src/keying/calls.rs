//! Calls between gateways: TCP on the port that their UDP uses, TLS 1.3 between the keys of their site files, one
//! agreement, and the end. Each rekey is a call of its own, so that every pair of associations has a key exchange of
//! its own (X25519MLKEM768) and no connection exists between two calls.
//!
//! Guarantees: a call takes at most [`CALL_TIME`], however slow the other end is; strangers are served by one thread,
//! at most [`STRANGERS_MAX`](strangers::STRANGERS_MAX) at a time, and [`strangers`] decides which of them is dropped
//! for a new one; peers are called in turn ([`turns`](super::turns)), and each has at most one call in each direction
//! at a time; if a thread cannot be started, the call fails, not the gateway.

use std::{
    collections::HashMap,
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::{AsFd as _, BorrowedFd},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread::{self, Scope},
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags};
use sealane_engine::debug_only;
use sealane_engine::{Implementations, Inline};
use sealane_ipsec::{database::Request, policy::PeerId};
use sealane_peer::{
    Agreements, Application, AuthorisedPeers, Channel, ChannelError, HostPort, Identity, PeerError,
    PublicKey, ServerTrust, TlsArrival, connect_tls_over,
};
use zeroize::Zeroizing;

use crate::{
    endpoint::Endpoint,
    host::keeper::Keeper,
    keying::{
        agreement::{self, Answer, EXPORTER_LABEL, Material, Offer, READY, Refusal, Seen},
        peer_keys::{Errand, PeerKeys, Timing, Traffic, Who},
        strangers::{self, Stranger},
        turns::{Standing, Turns},
        words::{self, LineLimit},
    },
    lanes::Lanes,
    outside::Families,
    peer_state::SILENT,
    peers::Peers,
    site::{Keys, Site},
    streams::frames::PREFIX,
};

/// The time limit of a call.
const CALL_TIME: Duration = Duration::from_secs(5);
/// The interval between checks whether strangers take too long.
const LOOK: Duration = Duration::from_millis(200);

/// The minimum time between two lines about a peer whose offers are refused.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);

/// A peer that is known by its key.
struct CallPeer {
    id: PeerId,
    name: String,
    key: PublicKey,
    /// The address that is called.
    address: Option<HostPort>,
    keys: Mutex<PeerKeys>,
    /// The peer is calling us.
    is_answered: AtomicBool,
    /// Its name could not be resolved: the next call goes to its endpoint.
    goes_by_endpoint: AtomicBool,
    /// The last message about the peer, so that repeated failures of calls are logged once.
    told: Mutex<String>,
    /// The time at which a refused call of the peer was logged last.
    told_refused: Mutex<Option<Instant>>,
}

impl CallPeer {
    fn keys(&self) -> MutexGuard<'_, PeerKeys> {
        self.keys.lock().expect("nobody panics holding a peer's keys")
    }
}

/// The peers that are known by their keys, and the calls with them.
pub struct Calls<'a> {
    peers: &'a Peers,
    identity: Identity,
    known: Vec<CallPeer>,
    by_id: HashMap<PeerId, usize>,
    authorised: Arc<AuthorisedPeers>,
    under_way: AtomicUsize,
    turns: Mutex<Turns>,
    /// The families of addresses that our socket reaches.
    families: Families,
    lanes: &'a Lanes,
    /// The keeper, which creates sockets with the gateway's mark, if it has one.
    marks: Option<&'a Keeper>,
}

debug_only!(self: Calls<'_> { peers: self.known.len() });

/// Returns a random number, for an SPI.
fn random() -> u32 {
    getrandom::u32().expect("the system has random bytes once it has booted")
}

impl<'a> Calls<'a> {
    /// Returns the calls for the peers of `site` that have keys, which may be none. Calls run as threads of `lanes`.
    pub fn new(
        site: &Site,
        identity: Identity,
        implementations: Implementations,
        peers: &'a Peers,
        lanes: &'a Lanes,
    ) -> Self {
        let own = identity.public_key();
        let mut known = Vec::new();
        let mut list = String::new();
        for (id, peer) in (0..).map(PeerId).zip(&site.peers) {
            let Keys::Peer(keys) = &peer.keys else { continue };
            let who = Who {
                id,
                kind: peer.kind(),
                window_packets: peer.window_packets,
                may_call: peer.endpoint.is_some(),
                goes_first: own < keys.key,
            };
            let timing = Timing::rekeyed_after(keys.rekey);
            list += &format!("{} peer-{} rights=read\n", keys.key, id.0);
            known.push(CallPeer {
                id,
                name: peer.name.clone(),
                key: keys.key,
                address: peer.endpoint.as_ref().map(Endpoint::host_port),
                keys: Mutex::new(PeerKeys::new(who, implementations, timing)),
                is_answered: AtomicBool::new(false),
                goes_by_endpoint: AtomicBool::new(false),
                told: Mutex::new(String::new()),
                told_refused: Mutex::new(None),
            });
        }
        let authorised = AuthorisedPeers::parse(list.as_bytes()).expect("keys and names differ in a site");
        let by_id = known.iter().enumerate().map(|(place, known)| (known.id, place)).collect();
        Self {
            peers,
            identity,
            known,
            by_id,
            authorised: Arc::new(authorised),
            under_way: AtomicUsize::new(0),
            turns: Mutex::new(Turns::default()),
            families: Families::of(site.listen),
            lanes,
            marks: None,
        }
    }

    /// Makes the calls use sockets with the gateway's mark, which `keeper` creates.
    #[must_use]
    pub fn marked_by(self, keeper: &'a Keeper) -> Self {
        Self { marks: Some(keeper), ..self }
    }

    /// Passes the lanes' requests and the state of the traffic to the peers' keys, and starts calls. Returns the
    /// peers to which a dummy packet is to be sent. It is to be called several times per second.
    pub fn poll<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        requests: &[Request],
        now: Instant,
        say: &'scope (impl Fn(&str) + Sync),
    ) -> Vec<PeerId> {
        for &request in requests {
            if let Some(&place) = self.by_id.get(&request.peer()) {
                self.known[place].keys().request(request);
            }
        }
        let (mut owed, snapshot) = (Vec::new(), self.peers.database().snapshot());
        let standing = |place: usize| match &self.known[place] {
            known if known.keys().has_failed() => Standing::Failing,
            known if snapshot.outbound.contains_key(&known.id) => Standing::Live,
            _ => Standing::Fresh,
        };
        let look = |place: usize, may_call: bool| {
            let known = &self.known[place];
            let peer = self.peers.get(known.id);
            let traffic = Traffic {
                sent: peer.sent.read().0,
                received: peer.received.read().0,
                heard_ms: peer.heard_ms(),
                has_endpoint: self.peers.endpoint(known.id).is_some(),
            };
            let errand = known.keys().poll(self.peers.database(), traffic, may_call, now);
            match errand {
                Some(Errand::KeepAlive) => owed.push(known.id),
                Some(Errand::Call) => {
                    self.under_way.fetch_add(1, SeqCst);
                    let life = move || {
                        self.call(known, say);
                        self.under_way.fetch_sub(1, SeqCst);
                        Ok(())
                    };
                    if let Err(error) = self.lanes.start(scope, "call".to_owned(), life) {
                        self.under_way.fetch_sub(1, SeqCst);
                        known.keys().called(self.peers.database(), None, now);
                        self.tell(known, Some(format!("no thread for a call: {error}")), say);
                    }
                    return true;
                }
                None => {}
            }
            false
        };
        let mut turns = self.turns.lock().expect("nobody panics holding the turns");
        turns.go_round(self.known.len(), self.under_way.load(SeqCst), standing, look);
        owed
    }

    /// Makes one call to a peer.
    fn call(&self, known: &CallPeer, say: &impl Fn(&str)) {
        let deadline = Instant::now() + CALL_TIME;
        let outcome = self.agree(known, deadline);
        let database = self.peers.database();
        let now = Instant::now();
        match outcome {
            Ok(Agreed { offer, theirs, material, seen, mut channel }) => {
                self.found(known, &channel, seen);
                // For a silent peer, the address that answered the call is taken as its endpoint; the packets of
                // other peers determine theirs.
                if let Some(at) = channel.remote_addr()
                    && self.peers.silence(known.id).is_none_or(|silence| silence > SILENT)
                {
                    self.peers.is_at(known.id, SocketAddr::new(at.ip().to_canonical(), at.port()));
                }
                if known.keys().called(database, Some((offer, theirs, &material)), now) {
                    // If the message is lost, our first packet has the same effect.
                    let _ = channel.send(READY, deadline);
                    let _ = channel.close(deadline);
                }
                self.tell(known, None, say);
            }
            Err(message) => {
                known.keys().called(database, None, now);
                self.tell(known, message, say);
            }
        }
    }

    /// Performs the caller's part. Fails with the reason, if it is to be logged.
    fn agree(&self, known: &CallPeer, deadline: Instant) -> Result<Agreed, Option<String>> {
        let Some(address) = &known.address else { return Err(None) };
        let trust = ServerTrust::exactly(known.key);
        let endpoint = self.peers.endpoint(known.id).filter(|_| known.goes_by_endpoint.swap(false, SeqCst));
        let last = endpoint.map(|at| HostPort { host: at.ip().to_string(), port: address.port });
        let connected = self.connect(last.as_ref().unwrap_or(address), &trust, deadline);
        if matches!(connected, Err(PeerError::Resolve { .. })) {
            // The resolver may be behind this very tunnel.
            known.goes_by_endpoint.store(true, SeqCst);
        }
        let mut channel = connected.map_err(|error| Some(words::of_call(&error)))?;
        let cut = |error: ChannelError| Some(words::of_channel(&error));
        let told = |message: &dyn std::fmt::Display| Some(message.to_string());
        let offer = known.keys().begin(self.peers.database(), self.seen(known, &channel), random);
        channel.send(&offer.to_bytes(), deadline).map_err(cut)?;
        let answer = channel.recv(deadline).map_err(cut)?;
        match Answer::parse(&answer.unwrap_or_default()).map_err(|error| told(&error))? {
            Answer::Refused(Refusal::Busy) => Err(None),
            Answer::Refused(refusal) => Err(told(&refusal)),
            Answer::Taken { spi, seen } => match export(&channel, offer, spi) {
                Some(material) => Ok(Agreed { offer, theirs: spi, material, seen, channel }),
                None => Err(told(&"the channel gives no keys")),
            },
        }
    }

    /// Connects to a peer at one of the addresses that our packets can be sent to as well.
    fn connect(
        &self,
        address: &HostPort,
        trust: &ServerTrust,
        deadline: Instant,
    ) -> Result<Channel, PeerError> {
        let dial = |to: &SocketAddr, patience| match self.marks {
            Some(keeper) => keeper.connect(to, patience),
            None => TcpStream::connect_timeout(to, patience),
        };
        let family = self.families.only();
        connect_tls_over(Application::Tunnel, family, &dial, address, &self.identity, trust, deadline)
    }

    /// Returns our view of the other end of a call.
    fn seen(&self, known: &CallPeer, channel: &Channel) -> Seen {
        let nowhere = SocketAddr::from(([0; 4], 0));
        let silence = self.peers.silence(known.id).map(|silence| silence.as_secs());
        Seen::new(channel.remote_addr().unwrap_or(nowhere), silence)
    }

    /// Records the other end's view of us.
    fn found(&self, known: &CallPeer, channel: &Channel, seen: Seen) {
        if let Some(own) = channel.local_addr() {
            self.peers.told(known.id, seen.is_behind_nat(own), seen.heard_s);
        }
    }

    /// Logs a message about a peer, if it is new.
    fn tell(&self, known: &CallPeer, message: Option<String>, say: &impl Fn(&str)) {
        self.peers.get(known.id).set_problem(message.clone());
        let message = message.unwrap_or_default();
        let mut told = known.told.lock().expect("nobody panics telling");
        if *told != message {
            if !message.is_empty() {
                say(&format!("peer {:?}: {message}", known.name));
            }
            *told = message;
        }
    }

    /// Logs that a peer's offer was refused, and the reason, at most once per [`REFUSED_PAUSE`].
    fn tell_refused(&self, known: &CallPeer, channel: &Channel, offer: Offer, say: &impl Fn(&str)) {
        let now = Instant::now();
        let mut told = known.told_refused.lock().expect("nobody panics telling");
        if told.is_some_and(|told| now < told + REFUSED_PAUSE) {
            return;
        }
        *told = Some(now);
        let from = channel.remote_addr().map_or_else(String::new, |from| format!(" from {}", from.ip()));
        let (theirs, ours) = (offer.kind, self.peers.get(known.id).kind());
        say(&format!(
            "peer {:?} called{from} and was refused: its site file says {theirs} for us, and ours says {ours} for it",
            known.name
        ));
    }

    /// Runs the thread that serves strangers: accepts connections, lets them prove their identity, and passes those
    /// that have to a thread of the peer's own. `listener` must not block.
    pub fn hold_strangers<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        listener: &TcpListener,
        say: &'scope (impl Fn(&str) + Sync),
    ) {
        let mut strangers: Vec<(Stranger, Instant, Caller)> = Vec::new();
        let mut agreements = Agreements::new(&Inline::default()).ok();
        let mut refusals = LineLimit::new();
        loop {
            let mut polled = vec![PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
            polled.extend(strangers.iter().map(|(.., caller)| {
                let out = if caller.wants_write() { PollFlags::OUT } else { PollFlags::empty() };
                PollFd::from_borrowed_fd(caller.as_fd(), PollFlags::IN | out)
            }));
            // A listener that cannot be polled is detected below.
            let _ = sealane_lanes::wait(&mut polled, LOOK);
            let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
            let now = Instant::now();
            let mut ready = ready.into_iter();
            let has_new = ready.next().unwrap_or_default();
            if let Some(agreements) = &mut agreements {
                let heard = strangers.iter_mut().zip(ready.clone()).filter(|(_, is_ready)| *is_ready);
                agreements.compute(heard.filter_map(|((.., caller), _)| caller.arrival()));
            }
            let (over, waiting): (Vec<_>, Vec<_>) = strangers
                .into_iter()
                .zip(ready)
                .map(|((mut stranger, since, mut caller), is_ready)| {
                    stranger.has_spoken |= is_ready;
                    if is_ready {
                        caller = self.known_by_its_first_byte(caller, now);
                    }
                    let is_over = is_ready && caller.advance() || caller.is_late(now);
                    stranger.has_failed = caller.is_refused();
                    stranger.is_new = now.saturating_duration_since(since) < strangers::NEW;
                    ((stranger, since, caller), is_over)
                })
                .partition(|(_, is_over)| *is_over);
            strangers = waiting.into_iter().map(|(stranger, _)| stranger).collect();
            for ((.., caller), _) in over {
                let Caller::Tls(arrival) = caller else { continue };
                let from = arrival.from();
                match arrival.finish() {
                    Ok((channel, entry)) => self.give(scope, channel, entry.key, say),
                    Err(PeerError::NotAuthorised { key }) => {
                        refusals.of(from, key, now).iter().for_each(|line| say(line));
                    }
                    // A line for every failed handshake would let any port scan fill the log.
                    Err(_) => {}
                }
            }
            match has_new.then(|| listener.accept()) {
                Some(Ok((stream, address))) => {
                    let held: Vec<Stranger> = strangers.iter().map(|(stranger, ..)| *stranger).collect();
                    if let Some(goes) = strangers::victim(&held, address.ip()) {
                        strangers.remove(goes);
                    }
                    let stranger = Stranger::new(address.ip());
                    strangers.extend(self.stranger(stream, now).map(|caller| (stranger, now, caller)));
                }
                // The connection was gone before it was accepted.
                Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                // There are no free descriptors; those of the present strangers will be released.
                Some(Err(_)) => thread::sleep(LOOK),
                None => {}
            }
        }
    }

    fn stranger(&self, stream: TcpStream, now: Instant) -> Option<Caller> {
        if self.peers.streams().is_some() {
            stream.set_nonblocking(true).ok()?;
            return Some(Caller::Silent(stream, now + CALL_TIME));
        }
        self.caller(stream, now)
    }

    fn caller(&self, stream: TcpStream, now: Instant) -> Option<Caller> {
        let (identity, authorised) = (&self.identity, Arc::clone(&self.authorised));
        let arrival =
            TlsArrival::new(Application::Tunnel, stream, identity, authorised, now + CALL_TIME).ok()?;
        Some(Caller::Tls(Box::new(arrival)))
    }

    /// Looks at the first byte of a connection: it is a call, or a stream of IKE and ESP (RFC 9329), which others read.
    fn known_by_its_first_byte(&self, caller: Caller, now: Instant) -> Caller {
        let Caller::Silent(stream, until) = caller else { return caller };
        let mut first = [0];
        match (stream.peek(&mut first), self.peers.streams()) {
            (Ok(1), Some(streams)) if first[0] == PREFIX[0] => {
                streams.adopt(stream);
                Caller::Gone
            }
            (Ok(1), _) => self.caller(stream, now).unwrap_or(Caller::Gone),
            (Err(error), _) if error.kind() == io::ErrorKind::WouldBlock => Caller::Silent(stream, until),
            _ => Caller::Gone,
        }
    }

    /// Answers a call in a thread of its own, if the peer has no other call.
    fn give<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        channel: Channel,
        key: PublicKey,
        say: &'scope (impl Fn(&str) + Sync),
    ) {
        let known = self.known.iter().find(|known| known.key == key);
        if let Some(known) = known.filter(|known| !known.is_answered.swap(true, SeqCst)) {
            let life = move || {
                let mut channel = channel;
                // Errors of a peer end only its call.
                let _ = self.answer(known, &mut channel, say);
                // A peer that sees the end of this call may begin another one at once.
                known.is_answered.store(false, SeqCst);
                drop(channel);
                Ok(())
            };
            if self.lanes.start(scope, "answer".to_owned(), life).is_err() {
                // No thread could be started: the channel is closed, and the peer calls again.
                known.is_answered.store(false, SeqCst);
            }
        }
    }

    /// Performs the called end's part.
    fn answer(&self, known: &CallPeer, channel: &mut Channel, say: &impl Fn(&str)) -> io::Result<()> {
        let deadline = Instant::now() + CALL_TIME;
        let database = self.peers.database();
        let text = channel.recv(deadline).map_err(io::Error::other)?.unwrap_or_default();
        let offer = Offer::parse(&text).map_err(io::Error::other)?;
        let seen = self.seen(known, channel);
        let export = |spi| export(channel, offer, spi);
        let answer = known.keys().offered(database, offer, seen, Instant::now(), random, export);
        if answer == Err(Refusal::Suite) {
            self.tell_refused(known, channel, offer, say);
        }
        self.found(known, channel, offer.seen);
        let answer = answer.unwrap_or_else(Answer::Refused);
        channel.send(&answer.to_bytes(), deadline).map_err(io::Error::other)?;
        let last = channel.recv(deadline).map_err(io::Error::other)?;
        if matches!(answer, Answer::Taken { .. }) && last.as_deref() == Some(READY) {
            known.keys().ready(database, Instant::now());
        }
        Ok(())
    }
}

/// A connection that was accepted.
enum Caller {
    /// No byte has come, and none comes after this time.
    Silent(TcpStream, Instant),
    /// It is a call.
    Tls(Box<TlsArrival>),
    /// It is over, or somebody else's.
    Gone,
}

impl Caller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Silent(stream, _) => stream.as_fd(),
            Self::Tls(arrival) => arrival.as_fd(),
            Self::Gone => unreachable!("what is gone is dropped before the next wait"),
        }
    }

    fn arrival(&mut self) -> Option<&mut TlsArrival> {
        match self {
            Self::Tls(arrival) => Some(arrival),
            Self::Silent(..) | Self::Gone => None,
        }
    }

    fn wants_write(&self) -> bool {
        matches!(self, Self::Tls(arrival) if arrival.wants_write())
    }

    fn is_refused(&self) -> bool {
        matches!(self, Self::Tls(arrival) if arrival.is_refused())
    }

    /// Goes on, because something has arrived or there is room. Returns whether it is over.
    fn advance(&mut self) -> bool {
        match self {
            Self::Tls(arrival) => arrival.advance(),
            Self::Silent(..) => false,
            Self::Gone => true,
        }
    }

    fn is_late(&self, now: Instant) -> bool {
        match self {
            Self::Tls(arrival) => now >= arrival.deadline(),
            Self::Silent(_, until) => now >= *until,
            Self::Gone => true,
        }
    }
}

/// The result of a call that the peer has agreed to.
struct Agreed {
    offer: Offer,
    /// The SPI under which the called end receives.
    theirs: u32,
    material: Material,
    /// The called end's view of us.
    seen: Seen,
    channel: Channel,
}

/// Returns the keys for an accepted offer.
fn export(channel: &Channel, offer: Offer, called_spi: u32) -> Option<Material> {
    let mut exported = Zeroizing::new(vec![0; 2 * offer.kind.suite.material_bytes()]);
    channel.export(EXPORTER_LABEL, &agreement::context(offer, called_spi), &mut exported).ok()?;
    Some(Material::of(&exported))
}
