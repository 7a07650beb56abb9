//! The main thread of the service: it listens, lets clients in, and answers their set-up messages, beside the
//! workers.
//!
//! **Guarantees:** the kernel identifies clients; a client that is silent, or sends too much or nonsense, affects
//! only its own connection; a client that does not read its messages is dropped. A user whom the policy does not name
//! is refused before anything is received, and takes no place. Connections are bounded, per user and in total; who asks for a
//! place gets that of an idle connection of the same user, or of the user who has most, whose client connects again unseen. What
//! other processes have had in their hands is closed elsewhere ([`crate::closer`]).
//!
//! New connections are looked at at once, because the kernel holds all of them in one row; all else is done in turns ([`crate::queue`]):
//! one user's flood delays another one's set-up by one piece of work for each message of it. One user's set-up work beyond a
//! credit takes at most its share of the processors; strangers are one user in this. More than that waits. Nobody is refused for it but
//! who comes when [`VISITORS_MAX`] of the same user, or [`VISITORS_MAX_IN_ALL`], wait for a place that is not free.

use crate::audit::{Audit, Event};
use crate::chores::Chores;
use crate::closer::Closer;
use crate::connection::{ClientBell, End};
use crate::inquiries::Inquiries;
use crate::inquiry::Facts;
use crate::kernel::{Peer, peer, refuse_descriptors};
use crate::policy::{Grant, Policy};
use crate::protect;
use crate::queue::{Allowance, Queue};
use crate::scheduler::Id;
use crate::setup::{Answered, Asker, Keys, answer};
use crate::vault::{Vault, VaultError};
use crate::workers::{Shared, Workers, new_bell, ring};
use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with,
    bind, listen, recv, shutdown, socket_with, sockopt,
};
use rustix::time::{ClockId, clock_gettime};
use sealane_client::setup::{Ask, Told, VERSION, VERSION_OLDEST};
use sealane_client::{Bell, Memory, Refusal, socket};
use sealane_transform::Kernels;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The maximum number of connections in total. Each has two descriptors.
const CONNECTIONS_MAX: usize = 8000;

/// The number of descriptors that are left for all else: visitors, what is to be closed, keys and logs.
const DESCRIPTORS_BESIDE: usize = 320;

/// The maximum number of visitors that wait, of one user, and in all. The next ones are refused without a look for a place.
const VISITORS_MAX: usize = 64;
const VISITORS_MAX_IN_ALL: usize = 128;

/// The maximum number of connections that are accepted between two pieces of work.
const ACCEPTED_AT_ONCE: usize = 16;

/// The processor time of set-up work for one user: a twentieth of all processors' time, but no more than one of them. On two
/// processors that are busy that is some hundred connections a second that come and go, and as many at once before.
fn allowance() -> Allowance {
    let processors =
        thread::available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX));
    Allowance { credit: Duration::from_millis(100), share: (20 / processors).max(1) }
}

/// The shortest wait for a user who is to pay: all work that becomes due meanwhile costs one wake-up.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// The time that a client may take for its first message when others wait to be let in.
const HELLO_PATIENCE: Duration = Duration::from_secs(1);

/// The part of its connections that a user loses at a time, idle ones, when there is no place: few enough to be connected again
/// soon, and so many that this is rare.
const CLOSED_AT_ONCE: usize = 64;

/// Each event of a client's socket wakes this thread once, until it is awaited again.
const AWAITED: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ONESHOT);

const CONTROL: u64 = 0;
const STOP: u64 = 1;
const FIRST_LISTENER: u64 = 2;
const FIRST_ID: u64 = 16;

/// The maximum number of sockets at which it listens.
const LISTENERS_MAX: usize = (FIRST_ID - FIRST_LISTENER) as usize;

/// The error of a service that cannot start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The keys cannot be used.
    #[error(transparent)]
    Vault(#[from] VaultError),
    /// The socket cannot be used.
    #[error("cannot listen at {}", path.display())]
    Listen {
        /// The path of the socket.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// Another service is running.
    #[error("another engine listens at {}", path.display())]
    InUse {
        /// The path of the socket.
        path: PathBuf,
    },
    /// There is something else in the place of the socket.
    #[error("{} is not a socket, and stays: remove it, or choose another place", path.display())]
    NoSocket {
        /// The path at which the socket was to be made.
        path: PathBuf,
    },
    /// A service manager has given something that is not a socket of the right kind.
    #[error(
        "descriptor {number} that the service manager gave is no listening socket with packets: ListenSequentialPacket="
    )]
    Given {
        /// The number of the descriptor.
        number: usize,
    },
    /// Another system call failed.
    #[error("the engine cannot go on")]
    System(#[from] io::Error),
}

/// The parts of a service.
#[derive(Debug)]
pub struct Settings {
    /// The listening sockets, from [`bind_at`] or from a service manager ([`check_given`]).
    pub listeners: Vec<OwnedFd>,
    /// The keys.
    pub vault: Vault,
    /// The permissions of users.
    pub policy: Policy,
    /// The number of threads that compute; at least one.
    pub workers: usize,
    /// The kernels that compute several operations side by side: [`Kernels::best`], but for measurements.
    pub kernels: Kernels,
    /// The log.
    pub audit: Audit,
    /// Whether each operation with a key is a line of it.
    pub audits_uses: bool,
    /// Whether memory is locked, for the status.
    pub memory_locked: bool,
    /// The source of the passphrase, for the status.
    pub sealed_by: String,
}

/// Ends a service, or changes its policy, from any thread.
#[derive(Debug, Clone)]
pub struct Stop(Arc<Orders>);

#[derive(Debug)]
struct Orders {
    bell: OwnedFd,
    /// The policy that is to be from now on.
    policy: Mutex<Option<Policy>>,
    reopens: AtomicBool,
    is_over: AtomicBool,
}

impl Stop {
    /// Makes a switch that is not set.
    ///
    /// # Errors
    /// Fails if the kernel does.
    pub fn new() -> io::Result<Self> {
        let (reopens, is_over) = Default::default();
        Ok(Self(Arc::new(Orders { bell: new_bell()?, policy: Mutex::default(), reopens, is_over })))
    }

    /// Ends the services that were started with it.
    pub fn stop(&self) {
        self.0.is_over.store(true, Relaxed);
        ring(&self.0.bell);
    }

    /// Gives the service that was started with it another policy.
    pub fn change_policy(&self, policy: Policy) {
        *self.0.policy.lock().unwrap_or_else(PoisonError::into_inner) = Some(policy);
        ring(&self.0.bell);
    }

    /// Has the service that was started with it open its log again.
    pub fn reopen_log(&self) {
        self.0.reopens.store(true, Relaxed);
        ring(&self.0.bell);
    }
}

/// Makes a socket at `path` to which every user may connect: the policy decides who is let in. A socket without a
/// listener is replaced, and nothing else is.
///
/// # Errors
/// Fails if another service listens there, if there is something that is not a socket, or if the system fails.
pub fn bind_at(path: &Path) -> Result<OwnedFd, ServiceError> {
    let failed = |source: io::Error| ServiceError::Listen { path: path.to_owned(), source };
    let address = SocketAddrUnix::new(path).map_err(|error| failed(error.into()))?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
        .map_err(|error| failed(error.into()))?;
    if let Err(error) = bind(&listener, &address) {
        if error != Errno::ADDRINUSE {
            return Err(failed(error.into()));
        }
        // A link is not followed: it is what would be removed.
        if !fs::symlink_metadata(path).map_err(failed)?.file_type().is_socket() {
            return Err(ServiceError::NoSocket { path: path.to_owned() });
        }
        if socket::connect_to(path).is_ok() {
            return Err(ServiceError::InUse { path: path.to_owned() });
        }
        fs::remove_file(path).map_err(failed)?;
        bind(&listener, &address).map_err(|error| failed(error.into()))?;
    }
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).map_err(failed)?;
    listen(&listener, 128).map_err(|error| failed(error.into()))?;
    Ok(listener)
}

/// Checks sockets that a service manager has given.
///
/// # Errors
/// Fails if one of them is of another kind, if there are too many, or if the kernel fails.
pub fn check_given(sockets: &[OwnedFd]) -> Result<(), ServiceError> {
    for (number, socket) in (3..).zip(sockets) {
        let is_right = sockopt::socket_domain(socket) == Ok(AddressFamily::UNIX)
            && sockopt::socket_type(socket) == Ok(SocketType::SEQPACKET)
            && sockopt::socket_acceptconn(socket) == Ok(true);
        if !is_right || number - 3 >= LISTENERS_MAX {
            return Err(ServiceError::Given { number });
        }
        rustix::io::ioctl_fionbio(socket, true).map_err(io::Error::from)?;
    }
    Ok(())
}

/// For whom set-up work is done: a user whom the policy names, or strangers, who are one together.
type Payer = Option<u32>;

/// A piece of set-up work.
#[derive(Debug)]
enum Errand {
    /// Somebody has connected, and there is no place without more work, or never.
    Visitor { socket: OwnedFd, peer: Peer },
    /// A client has sent something, or has gone.
    Message(Id),
}

#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    peer: Peer,
    /// It is given to the asker when it is let in.
    grant: Grant,
    since: Instant,
    /// Set after the client's first message.
    inside: Option<(Asker, Arc<End>)>,
}

/// A service that starts to serve with [`Service::run`].
#[derive(Debug)]
pub struct Service {
    listeners: Vec<OwnedFd>,
    policy: Policy,
    audit: Arc<Audit>,
    keys: Keys,
    /// Its name and version, for clients.
    name: &'static str,
    shared: Arc<Shared>,
    epoll: OwnedFd,
    stop: Stop,
    closer: Closer,
    /// Whether nobody can send descriptors to it.
    kernel_refuses: bool,
    errands: Queue<Payer, Errand>,
    /// The numbers of visitors that wait.
    visitors: BTreeMap<Payer, usize>,
    /// The processor time of this thread at the start of the present work.
    charged: Duration,
    connections: BTreeMap<Id, Connection>,
    /// The numbers of connections by user.
    by_user: BTreeMap<u32, usize>,
    connections_max: usize,
    next_id: Id,
    /// It is the last field, so that it is dropped after the others.
    _workers: Workers,
}

impl Service {
    /// Opens the keys and starts the workers.
    ///
    /// # Errors
    /// Fails if the keys cannot be opened, or if the system fails.
    pub fn start(settings: Settings, stop: &Stop) -> Result<Self, ServiceError> {
        let shared = Arc::new(Shared::new(settings.kernels)?);
        let vault = Arc::new(settings.vault);
        let chores = Chores::start(&vault, &shared.control)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?;
        let own = [(shared.control.as_fd(), CONTROL), (stop.0.bell.as_fd(), STOP)];
        let listeners = settings.listeners.iter().map(AsFd::as_fd).zip(FIRST_LISTENER..FIRST_ID);
        for (fd, data) in own.into_iter().chain(listeners) {
            epoll::add(&epoll, fd, EventData::new_u64(data), EventFlags::IN).map_err(io::Error::from)?;
        }
        // A kernel that cannot refuse them delivers them, and none is received.
        let refused = settings.listeners.iter().filter(|listener| refuse_descriptors(listener)).count();
        let kernel_refuses = refused == settings.listeners.len();
        let descriptors = protect::raise_descriptors();
        let connections_max = (descriptors.saturating_sub(DESCRIPTORS_BESIDE) / 2).min(CONNECTIONS_MAX);
        let workers = settings.workers.max(1);
        let audit = Arc::new(settings.audit);
        let name = concat!("sealane engine ", env!("CARGO_PKG_VERSION"));
        let facts = Facts {
            service: name.to_owned(),
            start: Instant::now(),
            workers,
            memory_locked: settings.memory_locked,
            sealed_by: settings.sealed_by,
            audit: Arc::clone(&audit),
        };
        let inquiries = Inquiries::start(&shared, facts)?;
        let keys = Keys::new(vault.keys()?, vault, chores, inquiries);
        audit.write(&Event::Started { keys: keys.len() });
        if settings.audits_uses {
            shared.log_uses(Arc::clone(&audit));
        }
        Ok(Self {
            listeners: settings.listeners,
            policy: settings.policy,
            audit,
            keys,
            name,
            _workers: Workers::start(&shared, workers)?,
            shared,
            epoll,
            stop: stop.clone(),
            closer: Closer::default(),
            kernel_refuses,
            errands: Queue::new(allowance()),
            visitors: BTreeMap::new(),
            charged: Duration::ZERO,
            connections: BTreeMap::new(),
            by_user: BTreeMap::new(),
            connections_max,
            next_id: FIRST_ID,
        })
    }

    /// Returns the number of keys that it keeps.
    pub fn keys(&self) -> usize {
        self.keys.len()
    }

    /// Serves until it is stopped.
    ///
    /// # Errors
    /// Fails if the kernel's means to wait do.
    pub fn run(mut self) -> Result<(), ServiceError> {
        while self.turn()? {}
        Ok(())
    }

    /// Waits for something to do, and does at most one errand; returns whether it is to go on.
    fn turn(&mut self) -> Result<bool, ServiceError> {
        let now = Instant::now();
        let (next, pause) = match self.errands.next(now) {
            Ok(next) => (Some(next), Some(Duration::ZERO)),
            Err(pause) => (None, pause.map(|pause| pause.max(SHORTEST_PAUSE))),
        };
        let pause = pause.map(|pause| Timespec::try_from(pause).unwrap_or_default());
        let mut space = [const { MaybeUninit::uninit() }; 64];
        let events: Vec<u64> = match epoll::wait(&self.epoll, &mut space, pause.as_ref()) {
            Ok((events, _)) => events.iter().map(|event| event.data.u64()).collect(),
            Err(Errno::INTR) => Vec::new(),
            Err(error) => return Err(io::Error::from(error).into()),
        };
        for event in events {
            match event {
                STOP => {
                    if self.stop.0.is_over.load(Relaxed) {
                        self.audit.write(&Event::Ended);
                        return Ok(false);
                    }
                    self.obey();
                }
                CONTROL => self.control(),
                FIRST_LISTENER..FIRST_ID => self.accept((event - FIRST_LISTENER) as usize),
                id => {
                    if let Some(connection) = self.connections.get(&id) {
                        self.errands.add(Some(connection.peer.user), Errand::Message(id));
                    }
                }
            }
        }
        if let Some((payer, errand)) = next {
            // Nobody is charged for looks at new connections: a flood of them would have its own work wait for ever.
            self.charged = processor_time();
            match errand {
                Errand::Visitor { socket, peer } => self.find_place(payer, socket, peer),
                Errand::Message(id) => {
                    self.hear(id);
                    self.await_more(id);
                }
            }
            self.charge(payer);
        }
        Ok(true)
    }

    /// Charges what this thread has computed since the start of the present work, and starts the next.
    fn charge(&mut self, payer: Payer) {
        let spent = processor_time();
        self.errands.charge(payer, spent.saturating_sub(self.charged), Instant::now());
        self.charged = spent;
    }

    /// Has the socket of a connection that still exists wake this thread again, once.
    fn await_more(&mut self, id: Id) {
        let Some(connection) = self.connections.get(&id) else { return };
        if epoll::modify(&self.epoll, &connection.socket, EventData::new_u64(id), AWAITED).is_err() {
            self.drop_connection(id);
        }
    }

    fn accept(&mut self, listener: usize) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        for _ in 0..ACCEPTED_AT_ONCE {
            let Some(listener) = self.listeners.get(listener) else { return };
            let socket = match accept_with(listener, flags) {
                Ok(socket) => socket,
                Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                    // The connection stays in the queue, and the event recurs.
                    thread::sleep(Duration::from_millis(10));
                    return;
                }
                Err(_) => return,
            };
            self.look_at(socket);
        }
    }

    /// Gives somebody who has connected a place if there is one, and lets him wait for his turn if not.
    fn look_at(&mut self, socket: OwnedFd) {
        let Ok(peer) = peer(&socket) else { return self.close(socket) };
        if !self.kernel_refuses {
            refuse_descriptors(&socket);
        }
        let grant = self.policy.grant(peer.user, peer.group);
        let payer = grant.is_some().then_some(peer.user);
        if let Some(grant) = grant {
            let own = self.by_user.get(&peer.user).copied().unwrap_or(0);
            if own < grant.connections() as usize && self.connections.len() < self.connections_max {
                return self.give_place(socket, peer, grant);
            }
        }
        let waiting = self.visitors.get(&payer).copied().unwrap_or(0);
        if waiting >= VISITORS_MAX || self.visitors.values().sum::<usize>() >= VISITORS_MAX_IN_ALL {
            let refusal = match payer {
                None => Refusal::NotAllowed,
                Some(user) => {
                    Refusal::Limit { what: format!("connections of user {user} that wait for a place") }
                }
            };
            self.refuse(socket, peer, refusal);
        } else {
            self.visitors.insert(payer, waiting + 1);
            self.errands.add(payer, Errand::Visitor { socket, peer });
        }
    }

    /// Finds a place for a visitor, or refuses him.
    fn find_place(&mut self, payer: Payer, socket: OwnedFd, peer: Peer) {
        if let Some(waiting) = self.visitors.get_mut(&payer) {
            *waiting -= 1;
            if *waiting == 0 {
                self.visitors.remove(&payer);
            }
        }
        let Some(grant) = self.policy.grant(peer.user, peer.group) else {
            return self.refuse(socket, peer, Refusal::NotAllowed);
        };
        let own = self.by_user.get(&peer.user).copied().unwrap_or(0);
        let most = grant.connections() as usize;
        if own >= most && !self.make_room(peer.user) {
            let what = format!("{most} connections of user {}, `connections` of the policy,", peer.user);
            return self.refuse(socket, peer, Refusal::Limit { what });
        }
        if self.connections.len() >= self.connections_max && !self.make_room_anywhere() {
            let what = format!("{} connections in all", self.connections_max);
            return self.refuse(socket, peer, Refusal::Limit { what });
        }
        self.give_place(socket, peer, grant);
    }

    fn give_place(&mut self, socket: OwnedFd, peer: Peer, grant: Grant) {
        let (id, since) = (self.next_id, Instant::now());
        if epoll::add(&self.epoll, &socket, EventData::new_u64(id), AWAITED).is_err() {
            return self.close(socket);
        }
        self.next_id += 1;
        *self.by_user.entry(peer.user).or_default() += 1;
        let connection = Connection { socket, peer, grant, since, inside: None };
        self.connections.insert(id, connection);
    }

    /// Closes the socket of a client, at once if nothing can be in it that makes that wait.
    fn close(&self, socket: OwnedFd) {
        if !self.kernel_refuses {
            self.closer.close(socket);
        }
    }

    /// Tells a client whom it does not let in why.
    fn refuse(&self, socket: OwnedFd, peer: Peer, why: Refusal) {
        self.shared.counters.connections_refused.fetch_add(1, Relaxed);
        let Peer { user, process, .. } = peer;
        self.audit.write(&Event::Refused { user, process, why: why.to_string() });
        let _ = socket::send(&socket, &Told::Refused(why), &[], SendFlags::DONTWAIT);
        let _ = shutdown(&socket, Shutdown::Read);
        // Its first message, if it came already, is thrown away: a socket that is closed with a message inside resets the
        // connection, and the client would not hear why.
        if self.kernel_refuses || socket::carries_descriptors(&socket).is_ok_and(|carries| !carries) {
            let _ = recv(&socket, &mut [0u8; 1][..], RecvFlags::DONTWAIT);
        }
        self.close(socket);
    }

    /// Drops idle connections of a user, and those that have said nothing for too long; returns whether there were any.
    fn make_room(&mut self, user: u32) -> bool {
        let own = |connection: &&Connection| connection.peer.user == user;
        let is_silent = |connection: &Connection| {
            connection.inside.is_none() && connection.since.elapsed() > HELLO_PATIENCE
        };
        let count = self.by_user.get(&user).copied().unwrap_or(0);
        let silent =
            self.connections.iter().filter(|(_, connection)| own(connection) && is_silent(connection));
        let mut found: Vec<Id> = silent.map(|(id, _)| *id).collect();
        if found.is_empty() {
            let idle = self.shared.scheduler().idle(user, 1 + count / CLOSED_AT_ONCE);
            let has_chore = |id: &Id| {
                let connection = self.connections.get(id).and_then(|connection| connection.inside.as_ref());
                connection.is_none_or(|(asker, _)| asker.has_chore)
            };
            found = idle.into_iter().filter(|id| !has_chore(id)).collect();
        }
        self.shared.counters.connections_idle.fetch_add(found.len() as u64, Relaxed);
        let has_some = !found.is_empty();
        found.into_iter().for_each(|id| self.drop_connection(id));
        self.errands.retain(Some(user), |errand| match errand {
            Errand::Message(id) => self.connections.contains_key(id),
            Errand::Visitor { .. } => true,
        });
        has_some
    }

    /// Does the same for the user who has most connections, if it has idle ones, and so on.
    fn make_room_anywhere(&mut self) -> bool {
        let mut users: Vec<(usize, u32)> = self.by_user.iter().map(|(user, count)| (*count, *user)).collect();
        users.sort_unstable_by(|one, other| other.cmp(one));
        users.into_iter().any(|(_, user)| self.make_room(user))
    }

    /// Opens the log again, and applies another policy to all who are inside, if the orders are so.
    fn obey(&mut self) {
        let _ = rustix::io::read(&self.stop.0.bell, &mut [0u8; 8]);
        if self.stop.0.reopens.swap(false, Relaxed)
            && let Err(error) = self.audit.reopen()
        {
            let _ = writeln!(io::stderr(), "sealane: the audit log stays the old one: {error}");
        }
        let Some(policy) = self.stop.0.policy.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        self.policy = policy;
        self.audit.write(&Event::PolicyChanged);
        let now = Instant::now();
        let mut outside = Vec::new();
        for (id, connection) in &mut self.connections {
            let Peer { user, group, process } = connection.peer;
            let Some(grant) = self.policy.grant(user, group) else {
                self.audit.write(&Event::Refused { user, process, why: Refusal::NotAllowed.to_string() });
                outside.push(*id);
                continue;
            };
            self.shared.scheduler().change_grant(*id, grant.rate(), &grant, now);
            if let Some((asker, _)) = &mut connection.inside {
                asker.grant = grant.clone();
            }
            connection.grant = grant;
        }
        outside.into_iter().for_each(|id| self.drop_connection(id));
    }

    /// Receives one message of a client.
    fn hear(&mut self, id: Id) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match socket::carries_descriptors(&connection.socket) {
            Ok(false) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Ok(true) => {
                // It is not received, so it is closed with its socket.
                self.lied(id);
                return self.drop_connection(id);
            }
            Err(_) => return self.drop_connection(id),
        }
        let told = match socket::receive::<Ask>(&connection.socket, RecvFlags::DONTWAIT) {
            Ok(None) => return self.drop_connection(id),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => {
                if error.kind() == io::ErrorKind::InvalidData {
                    self.lied(id);
                }
                return self.drop_connection(id);
            }
            Ok(Some((ask, _))) => match &mut connection.inside {
                None => return self.greet(id, &ask),
                Some((asker, _)) => {
                    answer(ask, asker, &mut self.keys, &self.policy, &self.shared, &self.audit)
                }
            },
        };
        if let Answered::Now(told) = told {
            self.tell(id, told, &[]);
        }
    }

    fn tell(&mut self, id: Id, told: Told, descriptors: &[BorrowedFd<'_>]) {
        let Some(connection) = self.connections.get(&id) else { return };
        let version = connection.inside.as_ref().map_or(VERSION, |(asker, _)| asker.version);
        let told = match told {
            Told::Refused(refusal) => Told::Refused(refusal.of_version(version)),
            told => told,
        };
        if socket::send(&connection.socket, &told, descriptors, SendFlags::DONTWAIT).is_err() {
            self.drop_connection(id);
        }
    }

    /// Answers a first message.
    fn greet(&mut self, id: Id, ask: &Ask) {
        let outcome = self.let_in(id, ask);
        let Some(connection) = self.connections.get(&id) else { return };
        let Peer { user, process, .. } = connection.peer;
        match (outcome, ask) {
            (Ok((version, memory, bell)), Ask::Hello { program, .. }) => {
                let program: String = program.chars().filter(|char| !char.is_control()).take(64).collect();
                self.audit.write(&Event::Connected { user, process, program });
                let told = Told::Welcome { version, service: self.name.to_owned() };
                // The first version had two pipes: an end to write, one to read, and one to keep.
                let all = [memory.as_fd(), bell.as_fd(), bell.as_fd(), bell.as_fd()];
                self.tell(id, told, if version == 1 { &all } else { &all[..2] });
                // The client may have them already, and do with them what makes a close wait.
                self.closer.close(memory);
                self.closer.close(bell);
            }
            (outcome, _) => {
                let refusal = outcome.err().unwrap_or(Refusal::Unexpected);
                self.audit.write(&Event::Refused { user, process, why: refusal.to_string() });
                self.tell(id, Told::Refused(refusal), &[]);
                self.drop_connection(id);
            }
        }
    }

    /// Makes the rings of a client, and returns their version, their memory and its end of the bell. Workers know them before the
    /// client does, so none of its requests is missed.
    fn let_in(&mut self, id: Id, ask: &Ask) -> Result<(u16, OwnedFd, OwnedFd), Refusal> {
        let connection = self.connections.get_mut(&id).ok_or(Refusal::Unexpected)?;
        let Ask::Hello { lowest, highest, .. } = ask else { return Err(Refusal::Unexpected) };
        let version = VERSION.min(*highest);
        if version < VERSION_OLDEST.max(*lowest) {
            return Err(Refusal::Version { lowest: VERSION_OLDEST, highest: VERSION });
        }
        let grant = connection.grant.clone();
        let limit = |_| Refusal::Limit { what: "memory and descriptors".to_owned() };
        let (memory, fd) = Memory::create().map_err(limit)?;
        let pair = if version == 1 { Bell::pair_for_version_1() } else { Bell::pair() };
        let (bell, given) = pair.map_err(limit)?;
        let bell = ClientBell::new(bell, &self.closer);
        self.shared.listen_to(&bell, id).map_err(limit)?;
        memory.bells().service_is_about_to_sleep();
        let end = Arc::new(End::new(memory, bell));
        let Peer { user, process, .. } = connection.peer;
        self.shared.scheduler().add(id, Arc::clone(&end), user, grant.rate(), Instant::now());
        connection.inside = Some((Asker { id, user, process, version, grant, has_chore: false }, end));
        Ok((version, fd, given))
    }

    /// Processes the messages of workers and chores.
    fn control(&mut self) {
        self.charged = processor_time();
        let _ = rustix::io::read(&self.shared.control, &mut [0u8; 8]);
        let fallen = self.shared.scheduler().fallen();
        for id in fallen {
            let payer = self.connections.get(&id).map(|connection| connection.peer.user);
            self.lied(id);
            self.drop_connection(id);
            self.charge(payer);
        }
        while let Some(done) = self.keys.chores.done() {
            let id = done.id;
            let told = self.keys.settle(done, &self.shared, &self.audit);
            self.tell_later(id, told);
        }
        while let Some((id, told)) = self.keys.inquiries.done() {
            self.tell_later(id, told);
        }
    }

    /// Sends an answer that another thread has made.
    fn tell_later(&mut self, id: Id, told: Told) {
        let inside = self.connections.get_mut(&id).and_then(|connection| connection.inside.as_mut());
        if let Some((asker, _)) = inside {
            asker.has_chore = false;
        }
        self.tell(id, told, &[]);
        if let Some(connection) = self.connections.get(&id) {
            let payer = Some(connection.peer.user);
            self.charge(payer);
        }
    }

    fn lied(&self, id: Id) {
        if let Some(connection) = self.connections.get(&id) {
            let Peer { user, process, .. } = connection.peer;
            self.audit.write(&Event::Lied { user, process });
        }
    }

    fn drop_connection(&mut self, id: Id) {
        let Some(connection) = self.connections.remove(&id) else { return };
        let user = connection.peer.user;
        let is_last = self.by_user.get_mut(&user).is_some_and(|count| {
            *count -= 1;
            *count == 0
        });
        if is_last {
            self.by_user.remove(&user);
        }
        // It does not matter if it is not registered.
        let _ = epoll::delete(&self.epoll, &connection.socket);
        if let Some((asker, end)) = &connection.inside {
            if asker.has_chore {
                self.keys.inquiries.forget(user, id);
            }
            self.shared.forget(&end.bell);
            let mut scheduler = self.shared.scheduler();
            scheduler.remove(id);
            scheduler.forget_idle(Instant::now());
        }
        // The client is notified now.
        let _ = shutdown(&connection.socket, Shutdown::Both);
        self.close(connection.socket);
    }
}

/// Returns the processor time of this thread.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
