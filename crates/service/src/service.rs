//! The main thread of the service: it listens, lets clients in, and answers their set-up messages, beside the
//! workers.
//!
//! **Guarantees:** the kernel identifies clients; a client that is silent, or sends too much or nonsense, affects
//! only its own connection; a client that does not read its messages is dropped; connections are bounded, per user
//! and in total.

use crate::audit::{Audit, Event};
use crate::chores::Chores;
use crate::connection::End;
use crate::policy::{Grant, Policy};
use crate::scheduler::Id;
use crate::setup::{Answered, Asker, Facts, Keys, answer};
use crate::vault::{Vault, VaultError};
use crate::workers::{Shared, Workers, new_bell, ring};
use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, listen,
    socket_with, sockopt,
};
use sealane_client::setup::{Ask, Told, VERSION};
use sealane_client::{Bell, Memory, Refusal, socket};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The maximum number of connections in total.
const CONNECTIONS_MAX: usize = 1024;

/// The maximum number of connections of a user whom the policy does not name, until each has been refused.
const STRANGER_CONNECTIONS_MAX: u32 = 4;

/// The time that a client may take for its first message when others wait to be let in.
const HELLO_PATIENCE: Duration = Duration::from_secs(5);

const LISTENER: u64 = 0;
const CONTROL: u64 = 1;
const STOP: u64 = 2;
const FIRST_ID: u64 = 16;

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
    /// Another system call failed.
    #[error("the engine cannot go on")]
    System(#[from] io::Error),
}

/// The parts of a service.
#[derive(Debug)]
pub struct Settings {
    /// A listening socket, from [`bind_at`] or from a service manager.
    pub listener: OwnedFd,
    /// The keys.
    pub vault: Vault,
    /// The permissions of users.
    pub policy: Policy,
    /// The number of threads that compute; at least one.
    pub workers: usize,
    /// The log.
    pub audit: Audit,
    /// Whether memory is locked, for the status.
    pub memory_locked: bool,
    /// The source of the passphrase, for the status.
    pub sealed_by: String,
}

/// Ends a service from any thread.
#[derive(Debug, Clone)]
pub struct Stop(Arc<OwnedFd>);

impl Stop {
    /// Makes a switch that is not set.
    ///
    /// # Errors
    /// Fails if the kernel does.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(new_bell()?)))
    }

    /// Ends the services that were started with it.
    pub fn stop(&self) {
        ring(&self.0);
    }
}

/// Makes a socket at `path` to which every user may connect: the policy decides who is let in. A socket without a
/// listener is replaced.
///
/// # Errors
/// Fails if another service listens there, or if the system fails.
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

#[derive(Debug)]
struct Connection {
    socket: OwnedFd,
    user: u32,
    process: i32,
    grant: Option<Grant>,
    since: Instant,
    /// Set after the client's first message.
    inside: Option<(Asker, Arc<End>)>,
}

/// A service that starts to serve with [`Service::run`].
#[derive(Debug)]
pub struct Service {
    listener: OwnedFd,
    policy: Policy,
    audit: Audit,
    keys: Keys,
    facts: Facts,
    shared: Arc<Shared>,
    epoll: OwnedFd,
    /// It keeps the descriptor open that the service waits for.
    _stop: Stop,
    connections: BTreeMap<Id, Connection>,
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
        let shared = Arc::new(Shared::new()?);
        let vault = Arc::new(settings.vault);
        let chores = Chores::start(Arc::clone(&vault), shared.control.try_clone()?)?;
        let keys = Keys::new(vault.keys()?, vault, chores);
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(io::Error::from)?;
        for (fd, data, flags) in [
            (settings.listener.as_fd(), LISTENER, EventFlags::IN),
            (shared.control.as_fd(), CONTROL, EventFlags::IN),
            (stop.0.as_fd(), STOP, EventFlags::IN),
        ] {
            epoll::add(&epoll, fd, EventData::new_u64(data), flags).map_err(io::Error::from)?;
        }
        let workers = settings.workers.max(1);
        let facts = Facts {
            service: concat!("sealane engine ", env!("CARGO_PKG_VERSION")).to_owned(),
            start: Instant::now(),
            workers,
            memory_locked: settings.memory_locked,
            sealed_by: settings.sealed_by,
        };
        settings.audit.write(&Event::Started { keys: keys.len() });
        Ok(Self {
            listener: settings.listener,
            policy: settings.policy,
            audit: settings.audit,
            keys,
            facts,
            _workers: Workers::start(&shared, workers)?,
            shared,
            epoll,
            _stop: stop.clone(),
            connections: BTreeMap::new(),
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
        loop {
            let mut space = [const { MaybeUninit::uninit() }; 64];
            let events: Vec<u64> = match epoll::wait(&self.epoll, &mut space, None) {
                Ok((events, _)) => events.iter().map(|event| event.data.u64()).collect(),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(io::Error::from(error).into()),
            };
            for event in events {
                match event {
                    STOP => {
                        self.audit.write(&Event::Ended);
                        return Ok(());
                    }
                    LISTENER => self.accept(),
                    CONTROL => self.control(),
                    id => self.hear(id),
                }
            }
        }
    }

    fn accept(&mut self) {
        // A client that occupies a place without sending a message is dropped in favour of the next.
        let silent: Vec<Id> = self
            .connections
            .iter()
            .filter(|(_, connection)| {
                connection.inside.is_none() && connection.since.elapsed() > HELLO_PATIENCE
            })
            .map(|(id, _)| *id)
            .collect();
        silent.into_iter().for_each(|id| self.drop_connection(id));
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = match accept_with(&self.listener, flags) {
            Ok(socket) => socket,
            Err(Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::NOBUFS) => {
                // The connection stays in the queue, and the event recurs.
                std::thread::sleep(Duration::from_millis(10));
                return;
            }
            Err(_) => return,
        };
        let Ok(peer) = sockopt::socket_peercred(&socket) else { return };
        let (user, process) = (peer.uid.as_raw(), peer.pid.as_raw_nonzero().get());
        let grant = self.policy.grant(user, peer.gid.as_raw());
        let most = grant.as_ref().map_or(STRANGER_CONNECTIONS_MAX, Grant::connections);
        let own = self.connections.values().filter(|connection| connection.user == user).count();
        if self.connections.len() >= CONNECTIONS_MAX || own >= most as usize {
            let what = "connections".to_owned();
            let _ = socket::send(&socket, &Told::Refused(Refusal::Limit { what }), &[], SendFlags::DONTWAIT);
            return;
        }
        let id = self.next_id;
        if epoll::add(&self.epoll, &socket, EventData::new_u64(id), EventFlags::IN | EventFlags::RDHUP)
            .is_err()
        {
            return;
        }
        self.next_id += 1;
        let since = Instant::now();
        self.connections.insert(id, Connection { socket, user, process, grant, since, inside: None });
    }

    /// Receives one message of a client.
    fn hear(&mut self, id: Id) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
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
                    answer(ask, asker, &mut self.keys, &self.shared, &self.facts, &self.audit)
                }
            },
        };
        if let Answered::Now(told) = told {
            self.tell(id, &told, &[]);
        }
    }

    fn tell(&mut self, id: Id, told: &Told, descriptors: &[BorrowedFd<'_>]) {
        let Some(connection) = self.connections.get(&id) else { return };
        if socket::send(&connection.socket, told, descriptors, SendFlags::DONTWAIT).is_err() {
            self.drop_connection(id);
        }
    }

    /// Answers a first message.
    fn greet(&mut self, id: Id, ask: &Ask) {
        let outcome = self.let_in(id, ask);
        let Some(connection) = self.connections.get(&id) else { return };
        let (user, process) = (connection.user, connection.process);
        match (outcome, ask) {
            (Ok(descriptors), Ask::Hello { program, .. }) => {
                let program: String = program.chars().filter(|char| !char.is_control()).take(64).collect();
                self.audit.write(&Event::Connected { user, process, program });
                let told = Told::Welcome { version: VERSION, service: self.facts.service.clone() };
                self.tell(id, &told, &descriptors.each_ref().map(AsFd::as_fd));
            }
            (outcome, _) => {
                let refusal = outcome.err().unwrap_or(Refusal::Unexpected);
                self.audit.write(&Event::Refused { user, process, why: refusal.to_string() });
                self.tell(id, &Told::Refused(refusal), &[]);
                self.drop_connection(id);
            }
        }
    }

    /// Makes the rings of a client. Workers know them before the client does, so none of its requests is missed.
    fn let_in(&mut self, id: Id, ask: &Ask) -> Result<[OwnedFd; 4], Refusal> {
        let connection = self.connections.get_mut(&id).ok_or(Refusal::Unexpected)?;
        let Ask::Hello { lowest, highest, .. } = ask else { return Err(Refusal::Unexpected) };
        if !(*lowest..=*highest).contains(&VERSION) {
            return Err(Refusal::Version { lowest: VERSION, highest: VERSION });
        }
        let grant = connection.grant.clone().ok_or(Refusal::NotAllowed)?;
        let limit = |_| Refusal::Limit { what: "memory and descriptors".to_owned() };
        let (memory, fd) = Memory::create().map_err(limit)?;
        let (bell, given) = Bell::pair().map_err(limit)?;
        self.shared.listen_to(&bell, id).map_err(limit)?;
        memory.bells().service_is_about_to_sleep();
        let end = Arc::new(End::new(memory, bell));
        self.shared.scheduler().add(id, Arc::clone(&end), connection.user, grant.rate(), Instant::now());
        let (user, process) = (connection.user, connection.process);
        connection.inside = Some((Asker { id, user, process, grant, has_chore: false }, end));
        let [theirs, own, kept] = given;
        Ok([fd, theirs, own, kept])
    }

    /// Processes the messages of workers and chores.
    fn control(&mut self) {
        let _ = rustix::io::read(&self.shared.control, &mut [0u8; 8]);
        let fallen = self.shared.scheduler().fallen();
        for id in fallen {
            self.lied(id);
            self.drop_connection(id);
        }
        while let Some(done) = self.keys.chores.done() {
            let id = done.id;
            let inside = self.connections.get_mut(&id).and_then(|connection| connection.inside.as_mut());
            if let Some((asker, _)) = inside {
                asker.has_chore = false;
            }
            let told = self.keys.settle(done, &self.audit);
            self.tell(id, &told, &[]);
        }
    }

    fn lied(&self, id: Id) {
        if let Some(connection) = self.connections.get(&id) {
            self.audit.write(&Event::Lied { user: connection.user, process: connection.process });
        }
    }

    fn drop_connection(&mut self, id: Id) {
        let Some(connection) = self.connections.remove(&id) else { return };
        // It does not matter if it is not registered.
        let _ = epoll::delete(&self.epoll, &connection.socket);
        if let Some((_, end)) = &connection.inside {
            self.shared.forget(&end.bell);
            let mut scheduler = self.shared.scheduler();
            scheduler.remove(id);
            scheduler.forget_idle(Instant::now());
        }
        // The client is notified now.
        let _ = rustix::net::shutdown(&connection.socket, rustix::net::Shutdown::Both);
    }
}
