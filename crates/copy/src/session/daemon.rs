//! The daemon: one listener for control connections (TLS 1.3) and data streams.
//!
//! Guarantees: connections, their memory, descriptors and threads, and the time of a stranger are bounded; each peer
//! is held to its rights, its directory, its rate and its share, and gets the reason of a refusal; a lack of
//! resources for one peer is no failure for another; the private key never leaves the process. Every request and its
//! outcome are reported.

use std::{
    collections::HashMap,
    fmt,
    net::{SocketAddr, TcpListener, TcpStream},
    num::NonZeroU64,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, Weak,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread::{self, Scope},
    time::{Duration, Instant},
};

use sealane_engine::{Implementations, Suite};
use sealane_lanes::Limiter;
use sealane_peer::{Application, AuthorisedPeer, Channel, Identity, PublicKey, TlsArrival};

use crate::{
    error::{Error, ErrorKind},
    options::{Level, ModeRules},
    proto::message::Role,
    session::{
        accept::{Registry, bind},
        agree::Policy,
        authorisation::AuthorisationList,
        budget::{Budget, descriptor_limit},
        door::{self, Bounds, Reception},
        messages,
        server::{Account, Doors, Rules, serve},
    },
    shared::NO_THREAD,
    transfer::place::Confinement,
};

/// The options of a daemon.
#[derive(Clone, Debug)]
pub struct DaemonOptions {
    /// The served directory; nothing outside it can be reached.
    pub root: PathBuf,
    /// Address and port to listen on.
    pub listen: SocketAddr,
    /// Refuses every write, whatever the peers' rights.
    pub read_only: bool,
    /// The file of peers and their rights; read again when it has changed.
    pub authorised_peers: PathBuf,
    /// The daemon's Ed25519 identity.
    pub identity: PathBuf,
    /// The weakest level that is served.
    pub minimum_level: Level,
    /// Serves outdated suites to clients that request them.
    pub allow_legacy: bool,
    /// Serves the laboratory's modes, which discard received content or send content from memory.
    pub measuring: bool,
    /// Takes and makes compressed records, where a client asks for them.
    pub compression: bool,
    /// The maximum number of simultaneous transfers.
    pub connections_max: usize,
    /// The limit in bytes per second for each peer, over all its transfers.
    pub limit_rate: Option<u64>,
    /// The treatment of modes.
    pub modes: ModeRules,
    /// The silence after which a peer is given up.
    pub idle_timeout: Duration,
    /// Time for a handshake.
    pub handshake_timeout: Duration,
    /// The implementations of the cipher suites.
    pub implementations: Implementations,
}

/// An event that an operator may want to know of.
#[derive(Clone, Debug)]
pub enum DaemonEvent {
    /// A connection ended before a transfer was requested.
    Refused {
        /// The address of the connection.
        address: SocketAddr,
        /// The peer, if proved.
        peer: Option<String>,
        /// The reason.
        error: Error,
    },
    /// A transfer is over.
    Transfer(TransferRecord),
    /// A message about the daemon itself.
    Warning(String),
}

/// The report of a daemon on one finished transfer.
#[derive(Clone, Debug)]
pub struct TransferRecord {
    /// The requesting peer, by its name in the list of authorised peers.
    pub peer: String,
    /// The address of the peer.
    pub address: SocketAddr,
    /// Whether the daemon received; otherwise it sent.
    pub received: bool,
    /// The requested sources or target.
    pub paths: Vec<Vec<u8>>,
    /// The level and suite in force, unless the request was refused.
    pub protection: Option<(Level, Suite)>,
    /// Content bytes moved.
    pub bytes: u64,
    /// Entries done.
    pub files: u64,
    /// Entries that failed, at either end.
    pub failed: u64,
    /// The time from the end of the handshake to the end of the transfer.
    pub seconds: f64,
    /// The reason why the transfer as a whole failed, if it did.
    pub error: Option<Error>,
}

/// A daemon that listens.
#[derive(Debug)]
pub struct Daemon {
    options: DaemonOptions,
    identity: Identity,
    listener: TcpListener,
    registry: Registry,
    authorised: AuthorisationList,
    seats: Mutex<Seats>,
    budget: Budget,
    strangers: usize,
    connections_max: usize,
    /// The rate limit of each peer with a running transfer.
    rates: Mutex<HashMap<PublicKey, Rate>>,
}

/// The bytes per second, and the limiter.
type Rate = (u64, Weak<Limiter>);

/// Connections of peers.
#[derive(Debug, Default)]
struct Seats {
    taken: usize,
    /// The number of connections of each peer, by key.
    by_peer: HashMap<PublicKey, u32>,
}

const STRANGERS_MAX: usize = 256;
/// The number of descriptors for everything outside transfers.
const OWN_DESCRIPTORS: usize = 32;
/// The number of descriptors of a peer that waits for its transfer to begin.
const CONNECTION_DESCRIPTORS: usize = 3;
/// The minimum number of bytes that may pass at once after a pause.
const BURST_BYTES_MIN: u64 = 4 << 20;

/// Set-user-id and set-group-id.
const SET_ID_BITS: u32 = 0o6000;

impl Daemon {
    /// Opens the identity, checks the peers' file and starts to listen.
    ///
    /// # Errors
    /// Fails if any of these steps fails.
    pub fn bind(options: DaemonOptions) -> Result<Self, Error> {
        let identity = Identity::load(&options.identity)?;
        let authorised = AuthorisationList::load(options.authorised_peers.clone())?;
        Confinement::new(&options.root)?;
        let listener = bind(options.listen, None)
            .map_err(|error| Error::io(&format!("cannot listen on {}", options.listen), &error))?;
        let registry =
            Registry::new().map_err(|error| Error::io("cannot make an event descriptor", &error))?;
        let limit = descriptor_limit();
        let strangers = STRANGERS_MAX.min(limit / 4).max(1);
        let connections_max = options.connections_max.min(limit / 16).max(1);
        let taken = strangers + OWN_DESCRIPTORS + CONNECTION_DESCRIPTORS * connections_max;
        Ok(Self {
            options,
            identity,
            listener,
            registry,
            authorised,
            seats: Mutex::default(),
            budget: Budget::new(limit.saturating_sub(taken).max(1)),
            strangers,
            connections_max,
            rates: Mutex::default(),
        })
    }

    /// Returns the address in use; the system chooses the port if 0 was requested.
    ///
    /// # Errors
    /// Fails if the system does not report the address.
    pub fn local_addr(&self) -> Result<SocketAddr, Error> {
        self.listener.local_addr().map_err(|error| Error::io("cannot tell the address", &error))
    }

    /// Returns the key by which peers know this daemon.
    pub fn public_key(&self) -> PublicKey {
        self.identity.public_key()
    }

    /// Returns the number of peers that are authorised now.
    pub fn authorised_count(&self) -> usize {
        self.authorised.count()
    }

    /// Serves until `stop` is set; running transfers are then awaited.
    ///
    /// # Errors
    /// Fails if the listener fails.
    pub fn run(&self, stop: &AtomicBool, report: &(dyn Fn(DaemonEvent) + Sync)) -> Result<(), Error> {
        thread::scope(|scope| {
            let hall = Hall { daemon: self, scope, report };
            let bounds = Bounds::new(self.strangers, self.options.handshake_timeout);
            door::run(&self.listener, &self.registry, bounds, &hall, || stop.load(SeqCst))
        })
        .map_err(|error| Error::io("cannot accept connections", &error))
    }

    fn doors(&self) -> Result<Doors<'_>, Error> {
        Ok(Doors::Shared { registry: &self.registry, port: self.local_addr()?.port(), budget: &self.budget })
    }

    fn rules(&self, peer: &AuthorisedPeer) -> Result<Rules, Error> {
        let options = &self.options;
        let root = Confinement::new(&options.root)?;
        let confinement = match &peer.path {
            Some(path) => root.narrowed(path)?,
            None => root,
        };
        let kept_back = if peer.rights.set_id { 0 } else { SET_ID_BITS };
        Ok(Rules {
            policy: Policy {
                minimum_level: options.minimum_level,
                allow_legacy: options.allow_legacy,
                measuring: options.measuring,
                compression: options.compression,
            },
            may_read: peer.rights.read,
            may_write: peer.rights.write && !options.read_only,
            confinement: Some(confinement),
            rate: self.rate(peer),
            timeout_max: options.idle_timeout,
            implementations: options.implementations,
            peer: Some(peer.key.identifier()),
            modes: ModeRules { removed: options.modes.removed | kept_back, ..options.modes },
            may_own: peer.rights.owner,
            may_make_specials: peer.rights.devices,
            may_set_privileges: peer.rights.privileges,
            may_delete: peer.rights.delete && !options.read_only,
        })
    }

    /// Returns the common limiter of all transfers of this peer.
    fn rate(&self, peer: &AuthorisedPeer) -> Option<Arc<Limiter>> {
        let own = peer.rate_bytes_per_s.map(NonZeroU64::get);
        let rate = [own, self.options.limit_rate].into_iter().flatten().min()?;
        let mut rates = self.rates.lock().expect("no thread panics holding the rates");
        rates.retain(|_, (_, limiter)| limiter.strong_count() > 0);
        match rates.get(&peer.key) {
            Some((known, limiter)) if *known == rate => limiter.upgrade(),
            _ => {
                // A lane that wakes up late may catch up for as much as 50 ms.
                let limiter = Limiter::new(NonZeroU64::new(rate), BURST_BYTES_MIN.max(rate / 20));
                let limiter = Arc::new(limiter);
                rates.insert(peer.key, (rate, Arc::downgrade(&limiter)));
                Some(limiter)
            }
        }
    }

    fn seat(&self, peer: &AuthorisedPeer) -> Result<Seat<'_>, Error> {
        let key = peer.key;
        let mut seats = self.seats();
        let own = seats.by_peer.get(&key).copied().unwrap_or_default();
        let all = self.connections_max;
        // A peer with an unlimited number still leaves some to others.
        let share = peer.connections.map_or((all - all / 8) as u64, |most| u64::from(most.get()));
        let refused = |whose: &str, most: &dyn fmt::Display| {
            let message =
                format!("no more connections of {whose} are taken now (limit {most}); try again later");
            Err(Error::new(ErrorKind::Refused, message))
        };
        if seats.taken >= all {
            return refused("any peer", &all);
        }
        if u64::from(own) >= share {
            return refused("this peer", &share);
        }
        seats.taken += 1;
        seats.by_peer.insert(key, own + 1);
        Ok(Seat { daemon: self, key })
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().expect("no thread panics holding the seats")
    }
}

/// A running daemon, which takes the connections with proved keys.
struct Hall<'scope, 'env> {
    daemon: &'env Daemon,
    scope: &'scope Scope<'scope, 'env>,
    report: &'env (dyn Fn(DaemonEvent) + Sync),
}

impl Hall<'_, '_> {
    fn turned_away(&self, address: SocketAddr, peer: Option<String>, error: Error) {
        (self.report)(DaemonEvent::Refused { address, peer, error });
    }

    /// Gives a peer a thread of its own, or returns the channel with the reason why not.
    fn usher(
        &self,
        channel: Channel,
        peer: &AuthorisedPeer,
        address: SocketAddr,
    ) -> Result<(), Box<(Channel, Error)>> {
        let daemon = self.daemon;
        let admitted = self.daemon.authorised.fault().map_or(Ok(()), Err).and_then(|()| {
            let seat = daemon.seat(peer)?;
            Ok((seat, daemon.rules(peer)?, daemon.doors()?))
        });
        let (seat, rules, doors) = match admitted {
            Ok(admitted) => admitted,
            Err(error) => return Err(Box::new((channel, error))),
        };
        // If no thread is available, the channel must not be lost with the closure that was to use it.
        let handed = Arc::new(Mutex::new(Some(channel)));
        let kept = handed.clone();
        let take = |slot: &Mutex<Option<Channel>>| slot.lock().ok().and_then(|mut slot| slot.take());
        let (name, report) = (peer.name.clone(), self.report);
        let work = move || {
            let Some(channel) = take(&handed) else { return };
            let record = converse(channel, name, address, &rules, &doors);
            drop(seat);
            report(DaemonEvent::Transfer(record));
        };
        match thread::Builder::new().name("transfer".into()).spawn_scoped(self.scope, work) {
            Ok(_) => Ok(()),
            Err(error) => match take(&kept) {
                Some(channel) => Err(Box::new((channel, Error::io(NO_THREAD, &error)))),
                None => Ok(()),
            },
        }
    }
}

impl Reception for Hall<'_, '_> {
    fn begin(&self, stream: TcpStream, address: SocketAddr, deadline: Instant) -> Option<TlsArrival> {
        let (authorised, said) = self.daemon.authorised.current();
        if let Some(said) = said {
            (self.report)(DaemonEvent::Warning(said));
        }
        let arrival = TlsArrival::new(Application::Copy, stream, &self.daemon.identity, authorised, deadline);
        arrival.map_err(|error| self.turned_away(address, None, error.into())).ok()
    }

    fn end(&self, arrival: TlsArrival, address: SocketAddr) -> Option<Channel> {
        let (channel, peer) = match arrival.finish() {
            Ok(admitted) => admitted,
            Err(error) => {
                self.turned_away(address, None, error.into());
                return None;
            }
        };
        let (mut channel, error) = *self.usher(channel, &peer, address).err()?;
        // The message is short and the connection new: it is sent at once or never.
        messages::abort_now(&mut channel, &error);
        channel.end_output();
        self.turned_away(address, Some(peer.name), error);
        Some(channel)
    }
}

/// Serves one transfer, and fills in its record.
fn converse(
    mut channel: Channel,
    peer: String,
    address: SocketAddr,
    rules: &Rules,
    doors: &Doors<'_>,
) -> TransferRecord {
    let began = Instant::now();
    let mut account = Account::default();
    // A panic ends one transfer, and is reported.
    let served = catch_unwind(AssertUnwindSafe(|| serve(&mut channel, rules, doors, &mut account)));
    let served = served.unwrap_or_else(|_| {
        let error = Error::new(ErrorKind::Io, "a thread panicked, which is a fault of this program");
        messages::abort(&mut channel, &error);
        Err(error)
    });
    let _ = channel.close(Instant::now() + Duration::from_secs(2));
    let moved = account.progress.snapshot();
    let (bytes, files, failed) = match &account.outcome {
        Some(outcome) => (
            outcome.finished.bytes,
            outcome.finished.files.min(outcome.complete.files),
            outcome.finished.failed + outcome.complete.failed,
        ),
        None => (moved.bytes_moved, moved.files_done, 0),
    };
    TransferRecord {
        peer,
        address,
        received: account.role == Some(Role::Push),
        paths: account.paths,
        protection: account.terms.map(|terms| (terms.level, terms.suite)),
        bytes,
        files,
        failed,
        seconds: began.elapsed().as_secs_f64(),
        error: served.err(),
    }
}

/// One connection of one peer, released when dropped.
struct Seat<'a> {
    daemon: &'a Daemon,
    key: PublicKey,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut seats = self.daemon.seats();
        seats.taken -= 1;
        if let Some(own) = seats.by_peer.get_mut(&self.key) {
            *own -= 1;
            if *own == 0 {
                seats.by_peer.remove(&self.key);
            }
        }
    }
}
