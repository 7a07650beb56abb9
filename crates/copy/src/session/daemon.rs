//! The daemon: one listener for control connections (TLS 1.3) and data streams.
//!
//! Guarantees: connections, their memory and the time a stranger may take are bounded; each peer is held to
//! its rights, its directory and its rate, and told why it is refused; the private key never leaves the process.

use std::{
    collections::HashMap,
    fmt,
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags};
use sealane_engine::Implementations;
use sealane_peer::{AuthorisedPeer, AuthorisedPeers, ConnectionKind, Identity, accept_tls, peek_kind};

use crate::{
    error::{Error, ErrorKind},
    options::Level,
    session::{
        accept::{Registry, Stranger, Strangers, bind},
        agree::Policy,
        control,
        place::Confinement,
        server::{Doors, Rules, serve},
    },
};

/// How a daemon serves.
#[derive(Clone, Debug)]
pub struct DaemonOptions {
    /// The directory that is served; nothing outside it can be reached.
    pub root: PathBuf,
    /// Address and port to listen on.
    pub listen: SocketAddr,
    /// Refuse every write, whatever the peers' rights.
    pub read_only: bool,
    /// File of peers and their rights; read anew for each connection.
    pub authorised_peers: PathBuf,
    /// The daemon's Ed25519 identity.
    pub identity: PathBuf,
    /// Weakest level that is served.
    pub minimum_level: Level,
    /// Serve outdated suites to clients that ask for them.
    pub allow_legacy: bool,
    /// Peers served at once.
    pub connections_max: usize,
    /// Bytes per second for each transfer.
    pub limit_rate: Option<u64>,
    /// Silence after which a peer is given up.
    pub idle_timeout: Duration,
    /// Time for a handshake.
    pub handshake_timeout: Duration,
    /// Whose code seals and opens.
    pub implementations: Implementations,
}

/// A daemon that listens.
#[derive(Debug)]
pub struct Daemon {
    options: DaemonOptions,
    identity: Identity,
    listener: TcpListener,
    registry: Registry,
    seats: Mutex<Seats>,
    strangers: Strangers,
}

/// Connections of peers.
#[derive(Debug, Default)]
struct Seats {
    taken: usize,
    /// Those of each peer, by key.
    by_peer: HashMap<[u8; 32], u32>,
}

const STRANGERS_MAX: usize = 256;

impl Daemon {
    /// Opens the identity, checks the peers' file and starts to listen.
    ///
    /// # Errors
    /// When any of these cannot be done.
    pub fn bind(options: DaemonOptions) -> Result<Self, Error> {
        let identity = Identity::load(&options.identity)?;
        AuthorisedPeers::load(&options.authorised_peers)?;
        Confinement::new(&options.root)?;
        let listener = bind(options.listen, None)
            .map_err(|error| Error::io(&format!("cannot listen on {}", options.listen), &error))?;
        Ok(Self {
            options,
            identity,
            listener,
            registry: Registry::default(),
            seats: Mutex::default(),
            strangers: Strangers::new(STRANGERS_MAX),
        })
    }

    /// The address in use; the port is chosen by the system when 0 was asked for.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn local_addr(&self) -> Result<SocketAddr, Error> {
        self.listener.local_addr().map_err(|error| Error::io("cannot tell the address", &error))
    }

    /// What peers must know this daemon by.
    pub fn public_key(&self) -> sealane_peer::PublicKey {
        self.identity.public_key()
    }

    /// Serves until `stop` is set. `report` gets a line about every transfer that failed.
    ///
    /// # Errors
    /// When the listener fails.
    pub fn run(&self, stop: &AtomicBool, report: &(dyn Fn(String) + Sync)) -> Result<(), Error> {
        let failed = |error: std::io::Error| Error::io("cannot accept connections", &error);
        self.listener.set_nonblocking(true).map_err(failed)?;
        thread::scope(|scope| {
            while !stop.load(SeqCst) {
                match self.listener.accept() {
                    Ok((stream, address)) => {
                        if let Some(stranger) = self.strangers.admit() {
                            scope.spawn(move || self.receive(stream, address, stranger, report));
                        }
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                        let mut fds = [PollFd::new(&self.listener, PollFlags::IN)];
                        sealane_stack::wait(&mut fds, Duration::from_millis(200)).map_err(failed)?;
                    }
                    // The connection was gone before it was accepted, or descriptors are short.
                    Err(_) => thread::sleep(Duration::from_millis(10)),
                }
            }
            Ok(())
        })
    }

    fn receive(
        &self,
        stream: TcpStream,
        address: SocketAddr,
        stranger: Stranger,
        report: &(dyn Fn(String) + Sync),
    ) {
        let deadline = Instant::now() + self.options.handshake_timeout;
        match peek_kind(&stream, deadline) {
            Ok(ConnectionKind::Data) => self.registry.take_up(stream),
            Ok(ConnectionKind::Tls) => {
                if let Err(error) = self.converse(stream, stranger, deadline) {
                    report(format!("{address}: {error}"));
                }
            }
            // Strangers are told nothing.
            Ok(ConnectionKind::Unknown) | Err(_) => {}
        }
    }

    fn converse(&self, stream: TcpStream, stranger: Stranger, deadline: Instant) -> Result<(), Error> {
        // Rights that were changed count from the next connection on.
        let authorised = Arc::new(AuthorisedPeers::load(&self.options.authorised_peers)?);
        let (mut channel, peer) = accept_tls(stream, &self.identity, authorised, deadline)?;
        drop(stranger);
        let admitted = self.seat(&peer).and_then(|seat| Ok((seat, self.rules(&peer)?, self.doors()?)));
        let served = match admitted {
            Ok((_seat, rules, doors)) => serve(&mut channel, &rules, &doors),
            Err(error) => {
                control::abort(&mut channel, &error);
                Err(error)
            }
        };
        let _ = channel.close(Instant::now() + Duration::from_secs(2));
        served.map_err(|error| Error::new(error.kind, format!("{}: {}", peer.name, error.message)))
    }

    fn doors(&self) -> Result<Doors<'_>, Error> {
        Ok(Doors::Shared { registry: &self.registry, port: self.local_addr()?.port() })
    }

    fn rules(&self, peer: &AuthorisedPeer) -> Result<Rules, Error> {
        let options = &self.options;
        let root = Confinement::new(&options.root)?;
        let confinement = match &peer.path {
            Some(path) => root.narrowed(path)?,
            None => root,
        };
        let own = peer.rate_bytes_per_s.map(std::num::NonZeroU64::get);
        let rate = match (own, options.limit_rate) {
            (Some(own), Some(all)) => Some(own.min(all)),
            (own, all) => own.or(all),
        };
        Ok(Rules {
            policy: Policy { minimum_level: options.minimum_level, allow_legacy: options.allow_legacy },
            may_read: peer.rights.read,
            may_write: peer.rights.write && !options.read_only,
            confinement: Some(confinement),
            rate,
            timeout_max: options.idle_timeout,
            implementations: options.implementations,
        })
    }

    fn seat(&self, peer: &AuthorisedPeer) -> Result<Seat<'_>, Error> {
        let key = *peer.key.as_bytes();
        let mut seats = self.seats();
        let own = seats.by_peer.get(&key).copied().unwrap_or_default();
        let all = self.options.connections_max;
        let refused = |whose: &str, most: &dyn fmt::Display| {
            let message =
                format!("no more connections of {whose} are taken now (limit {most}); try again later");
            Err(Error::new(ErrorKind::Refused, message))
        };
        match peer.connections {
            Some(most) if own >= most.get() => return refused("this peer", &most),
            _ if seats.taken >= all => return refused("any peer", &all),
            _ => {}
        }
        seats.taken += 1;
        seats.by_peer.insert(key, own + 1);
        Ok(Seat { daemon: self, key })
    }

    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().expect("no thread panics holding the seats")
    }
}

/// One connection of one peer, given back when dropped.
struct Seat<'a> {
    daemon: &'a Daemon,
    key: [u8; 32],
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
