//! Calls between gateways: TCP on the port that their UDP uses, TLS 1.3 between the keys of their site files, one agreement, and
//! an end. A rekey is a call of its own, so that every pair of associations has a key exchange of its own (X25519MLKEM768) and
//! nothing lives between two of them.
//!
//! Guarantees: a call takes [`CALL_TIME`] at most, however slow the other end is; strangers are held by one thread,
//! [`STRANGERS_MAX`] at a time and an address's share of them, and the oldest of an address that has its share makes room; a peer has one call in each direction at a time; a lack of threads
//! costs a call, not the gateway.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, TcpListener, TcpStream},
    os::fd::AsFd as _,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread::{self, Scope},
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags};
use sealane_engine::Implementations;
use sealane_ipsec::{database::Request, policy::PeerId, selector::Prefix};
use sealane_peer::{
    Application, AuthorisedPeers, Channel, HostPort, Identity, PublicKey, ServerTrust, TlsArrival,
    connect_tls,
};
use zeroize::Zeroizing;

use crate::{
    keying::{
        KeyMaker as _,
        agreement::{self, Answer, EXPORTER_LABEL, Material, Offer, READY, Refusal},
        peer_keys::{Errand, PeerKeys, Timing, Traffic, Who},
    },
    peers::Peers,
    site::{Keys, Site},
};

/// What a call may take.
pub const CALL_TIME: Duration = Duration::from_secs(5);
/// Connections that have not yet proved whose they are.
pub const STRANGERS_MAX: usize = 128;
/// Of these, those of one address.
pub const STRANGERS_OF_ADDRESS_MAX: usize = STRANGERS_MAX / 4;
/// Calls of ours under way.
const CALLS_MAX: usize = 32;
/// Between two looks at whether strangers take too long.
const LOOK: Duration = Duration::from_millis(200);

/// A peer that is known by its key.
struct Known {
    id: PeerId,
    name: String,
    key: PublicKey,
    /// Where it is called.
    address: Option<HostPort>,
    keys: Mutex<PeerKeys>,
    /// It is calling us.
    is_answered: AtomicBool,
    /// What was said of it last, so that a call that fails again is not told again.
    told: Mutex<String>,
}

impl Known {
    fn keys(&self) -> MutexGuard<'_, PeerKeys> {
        self.keys.lock().expect("nobody panics holding a peer's keys")
    }
}

/// The peers that are known by their keys, and the calls with them.
pub struct Calls<'a> {
    peers: &'a Peers,
    identity: Identity,
    known: Vec<Known>,
    by_id: HashMap<PeerId, usize>,
    authorised: Arc<AuthorisedPeers>,
    under_way: AtomicUsize,
}

impl std::fmt::Debug for Calls<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Calls").field("peers", &self.known.len()).finish_non_exhaustive()
    }
}

/// Bytes of an index at a time from the system.
fn random() -> u32 {
    getrandom::u32().expect("the system has random bytes once it has booted")
}

impl<'a> Calls<'a> {
    /// Over the peers of `site` that have keys; none where there are none.
    pub fn new(site: &Site, identity: Identity, implementations: Implementations, peers: &'a Peers) -> Self {
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
            known.push(Known {
                id,
                name: peer.name.clone(),
                key: keys.key,
                address: peer
                    .endpoint
                    .map(|endpoint| HostPort { host: endpoint.ip().to_string(), port: endpoint.port() }),
                keys: Mutex::new(PeerKeys::new(who, implementations, timing)),
                is_answered: AtomicBool::new(false),
                told: Mutex::new(String::new()),
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
        }
    }

    /// Tells the peers' keys what the lanes ask for and how the traffic goes, and starts calls. Says to whom a sign of life is
    /// owed. To be called some times a second.
    pub fn poll<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        requests: &[Request],
        now: Instant,
        say: &'scope (impl Fn(&str) + Sync),
    ) -> Vec<PeerId> {
        for &request in requests {
            if let Some(&place) = self.by_id.get(&request.peer()) {
                self.known[place].keys().request(request, now);
            }
        }
        let mut owed = Vec::new();
        for known in &self.known {
            let peer = self.peers.get(known.id);
            let traffic = Traffic {
                sent: peer.sent.read().0,
                received: peer.received.read().0,
                heard_ms: peer.heard_ms(),
            };
            if self.under_way.load(SeqCst) >= CALLS_MAX {
                known.keys().drain(self.peers.database(), now);
                continue;
            }
            let errand = known.keys().poll(self.peers.database(), traffic, now);
            match errand {
                Some(Errand::KeepAlive) => owed.push(known.id),
                Some(Errand::Call) => {
                    self.under_way.fetch_add(1, SeqCst);
                    let life = move || {
                        self.call(known, say);
                        self.under_way.fetch_sub(1, SeqCst);
                    };
                    if let Err(error) = thread::Builder::new().spawn_scoped(scope, life) {
                        self.under_way.fetch_sub(1, SeqCst);
                        known.keys().called(self.peers.database(), None, now);
                        self.tell(known, Some(format!("no thread for a call: {error}")), say);
                    }
                }
                None => {}
            }
        }
        owed
    }

    /// Calls a peer, once.
    fn call(&self, known: &Known, say: &impl Fn(&str)) {
        let deadline = Instant::now() + CALL_TIME;
        let outcome = self.agree(known, deadline);
        let database = self.peers.database();
        let now = Instant::now();
        match outcome {
            Ok((offer, theirs, material, mut channel)) => {
                if known.keys().called(database, Some((offer, theirs, &material)), now) {
                    // If it is lost, what we send tells them.
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

    /// The caller's part. What went wrong, if it is worth telling.
    fn agree(
        &self,
        known: &Known,
        deadline: Instant,
    ) -> Result<(Offer, u32, Material, Channel), Option<String>> {
        let told = |error: &dyn std::fmt::Display| Some(error.to_string());
        let Some(address) = &known.address else { return Err(None) };
        let trust = ServerTrust::exactly(known.key);
        let mut channel = connect_tls(Application::Tunnel, address, &self.identity, &trust, deadline)
            .map_err(|error| told(&error))?;
        let offer = known.keys().begin(self.peers.database(), random);
        channel.send(&offer.to_bytes(), deadline).map_err(|error| told(&error))?;
        let answer = channel.recv(deadline).map_err(|error| told(&error))?;
        match Answer::parse(&answer.unwrap_or_default()).map_err(|error| told(&error))? {
            Answer::Refused(Refusal::Busy) => Err(None),
            Answer::Refused(refusal) => Err(told(&refusal)),
            Answer::Taken { spi } => match export(&channel, offer, spi) {
                Some(material) => Ok((offer, spi, material, channel)),
                None => Err(told(&"the channel gives no keys")),
            },
        }
    }

    /// Says what is new of a peer.
    fn tell(&self, known: &Known, message: Option<String>, say: &impl Fn(&str)) {
        let message = message.unwrap_or_default();
        let mut told = known.told.lock().expect("nobody panics telling");
        if *told != message {
            if !message.is_empty() {
                say(&format!("peer {:?}: {message}", known.name));
            }
            *told = message;
        }
    }

    /// The life of the thread that holds strangers: takes connections, lets them prove whose they are, and gives those that have
    /// to a thread of the peer's own. `listener` must not block.
    pub fn hold_strangers<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, listener: &TcpListener) {
        let mut strangers: Vec<(IpAddr, TlsArrival)> = Vec::new();
        loop {
            let mut polled = vec![PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
            polled.extend(strangers.iter().map(|(_, stranger)| {
                let out = if stranger.wants_write() { PollFlags::OUT } else { PollFlags::empty() };
                PollFd::from_borrowed_fd(stranger.as_fd(), PollFlags::IN | out)
            }));
            // One that cannot be polled is found out below.
            let _ = sealane_stack::wait(&mut polled, LOOK);
            let ready: Vec<bool> = polled.iter().map(|fd| !fd.revents().is_empty()).collect();
            let now = Instant::now();
            let mut ready = ready.into_iter();
            let has_new = ready.next().unwrap_or_default();
            let (over, waiting): (Vec<_>, Vec<_>) = strangers
                .into_iter()
                .zip(ready)
                .map(|((origin, mut stranger), is_ready)| {
                    let is_over = is_ready && stranger.advance() || now >= stranger.deadline();
                    ((origin, stranger), is_over)
                })
                .partition(|(_, is_over)| *is_over);
            strangers = waiting.into_iter().map(|(stranger, _)| stranger).collect();
            for ((_, stranger), _) in over {
                // Who is not known is told so by TLS; there is nothing to tell an operator that a scan would not repeat.
                if let Ok((channel, entry)) = stranger.finish() {
                    self.give(scope, channel, entry.key);
                }
            }
            match has_new.then(|| listener.accept()) {
                Some(Ok((stream, address))) => {
                    let origin = origin(address.ip());
                    let origins: Vec<IpAddr> = strangers.iter().map(|(origin, _)| *origin).collect();
                    if let Some(goes) = makes_room(&origins, origin) {
                        strangers.remove(goes);
                    }
                    strangers.extend(self.stranger(stream, now).map(|stranger| (origin, stranger)));
                }
                // Gone before it was taken.
                Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => {}
                // No descriptors: those that are held will be free again.
                Some(Err(_)) => thread::sleep(LOOK),
                None => {}
            }
        }
    }

    fn stranger(&self, stream: TcpStream, now: Instant) -> Option<TlsArrival> {
        TlsArrival::new(
            Application::Tunnel,
            stream,
            &self.identity,
            Arc::clone(&self.authorised),
            now + CALL_TIME,
        )
        .ok()
    }

    /// Answers a call in a thread of its own, if the peer has no other.
    fn give<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, channel: Channel, key: PublicKey) {
        let known = self.known.iter().find(|known| known.key == key);
        if let Some(known) = known.filter(|known| !known.is_answered.swap(true, SeqCst)) {
            let life = move || {
                // Whatever a peer does, it ends with its call.
                let _ = self.answer(known, channel);
                known.is_answered.store(false, SeqCst);
            };
            if thread::Builder::new().spawn_scoped(scope, life).is_err() {
                // No thread to be had: the channel is cut, and the peer calls again.
                known.is_answered.store(false, SeqCst);
            }
        }
    }

    /// The called end's part.
    fn answer(&self, known: &Known, mut channel: Channel) -> io::Result<()> {
        let deadline = Instant::now() + CALL_TIME;
        let database = self.peers.database();
        let text = channel.recv(deadline).map_err(io::Error::other)?.unwrap_or_default();
        let offer = Offer::parse(&text).map_err(io::Error::other)?;
        let answer = known
            .keys()
            .offered(database, offer, Instant::now(), random, |spi| export(&channel, offer, spi))
            .unwrap_or_else(Answer::Refused);
        channel.send(&answer.to_bytes(), deadline).map_err(io::Error::other)?;
        let last = channel.recv(deadline).map_err(io::Error::other)?;
        if matches!(answer, Answer::Taken { .. }) && last.as_deref() == Some(READY) {
            known.keys().ready(database, Instant::now());
        }
        Ok(())
    }
}

/// Whom a share belongs to: whoever has one IPv6 address has its /64.
fn origin(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(ip) => Prefix::containing(ip.into(), 64).address(),
        v4 => v4,
    }
}

/// Which stranger makes room for one from `newcomer`, of those from `origins`, who are in the order of their coming: the oldest of
/// the same address if that has its share; where all places are taken, the oldest of the address that has the most.
fn makes_room(origins: &[IpAddr], newcomer: IpAddr) -> Option<usize> {
    let count = |of: &IpAddr| origins.iter().filter(|origin| *origin == of).count();
    let from = if count(&newcomer) >= STRANGERS_OF_ADDRESS_MAX {
        newcomer
    } else if origins.len() >= STRANGERS_MAX {
        *origins.iter().max_by_key(|origin| count(origin))?
    } else {
        return None;
    };
    origins.iter().position(|origin| *origin == from)
}

/// The keys of an offer that was taken.
fn export(channel: &Channel, offer: Offer, called_spi: u32) -> Option<Material> {
    let mut exported = Zeroizing::new(vec![0; 2 * offer.kind.suite.material_bytes()]);
    channel.export(EXPORTER_LABEL, &agreement::context(offer, called_spi), &mut exported).ok()?;
    Some(Material::of(&exported))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_its_share_of_strangers_and_no_more() {
        let ip = |text: &str| -> IpAddr { text.parse().expect("an address") };
        let (loud, shy) = (ip("192.0.2.1"), ip("192.0.2.2"));
        let mut origins = vec![shy];
        for _ in 0..STRANGERS_OF_ADDRESS_MAX {
            assert_eq!(makes_room(&origins, loud), None);
            origins.push(loud);
        }
        // Its own oldest goes, never another's.
        assert_eq!(makes_room(&origins, loud), Some(1));
        assert_eq!(makes_room(&origins, shy), None);
        let mut others = (10..).map(|last| ip(&format!("198.51.{last}.1")));
        while origins.len() < STRANGERS_MAX {
            origins.extend(others.next());
        }
        assert_eq!(
            makes_room(&origins, others.next().expect("one more")),
            Some(1),
            "of whoever has the most"
        );
        // A network costs no more than an address.
        assert_eq!(origin(ip("2001:db8:1:2:3::4")), origin(ip("2001:db8:1:2:ffff::")));
        assert_ne!(origin(ip("2001:db8:1:2::")), origin(ip("2001:db8:1:3::")));
        assert_eq!(origin(ip("::ffff:192.0.2.1")), loud);
    }
}
