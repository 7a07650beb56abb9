//! Accepts data streams at the end that is connected to.
//!
//! Guarantees: a connection is passed to a transfer only after its proof was verified; a generation is accepted once,
//! and only a newer one replaces another; at most twice as many connections wait for a transfer as it has streams.

use std::{
    collections::{HashMap, VecDeque},
    io,
    net::{SocketAddr, TcpListener},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use rustix::event::{EventfdFlags, eventfd};

use crate::{
    proto::{
        join::{JOIN_BYTES, Join, Joined, Prover, decode},
        keys::TransferKeys,
    },
    session::line::Lines,
    socket::Socket,
};

/// The timeout of an answer of a few bytes, which any connection accepts at once.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// A transfer that expects streams.
#[derive(Debug)]
pub(crate) struct Expected {
    lines: Lines,
    keys: TransferKeys,
    prover: Prover,
    brought: Mutex<VecDeque<Brought>>,
}

/// A connection that has proved its transfer and stream.
#[derive(Debug)]
struct Brought {
    join: Join,
    message: [u8; JOIN_BYTES],
    socket: Socket,
}

impl Expected {
    fn brought(&self) -> MutexGuard<'_, VecDeque<Brought>> {
        self.brought.lock().expect("no thread panics holding what was brought")
    }

    /// Passes on a connection whose proof was right. If too many wait, it is closed.
    pub(crate) fn bring(&self, join: Join, message: [u8; JOIN_BYTES], socket: Socket) {
        {
            let mut brought = self.brought();
            if brought.len() >= 2 * usize::from(self.lines.count()) {
                return;
            }
            brought.push_back(Brought { join, message, socket });
        }
        self.lines.control().ring();
    }

    /// Accepts the connections that were passed on. `newest` holds the generation of each stream that was accepted
    /// last. Returns false if there were none.
    pub(crate) fn take_up(&self, newest: &mut [u32]) -> bool {
        let mut some = false;
        loop {
            let next = self.brought().pop_front();
            let Some(brought) = next else { return some };
            some = true;
            // The connector notices any failure, and opens another connection.
            let _ = self.open(brought, newest);
        }
    }

    fn open(&self, Brought { join, message, socket }: Brought, newest: &mut [u32]) -> io::Result<()> {
        let deadline = Instant::now() + ANSWER_TIMEOUT;
        let newest = &mut newest[usize::from(join.stream)];
        if join.generation <= *newest {
            let answer = Joined { accepted: false, taken: 0 };
            return socket.send_all(&self.prover.joined(&message, &answer), deadline);
        }
        *newest = join.generation;
        let taken = self.lines.prepare(join.stream);
        let answer = Joined { accepted: true, taken };
        socket.send_all(&self.prover.joined(&message, &answer), deadline)?;
        self.lines.install(&self.keys, join.stream, join.generation, socket, join.last, join.taken);
        Ok(())
    }
}

/// Transfers that expect streams, by name.
#[derive(Clone, Debug)]
pub(crate) struct Registry {
    transfers: Arc<Transfers>,
}

#[derive(Debug)]
struct Transfers {
    /// `None` while a transfer is announced, but not ready for its streams.
    by_name: Mutex<HashMap<[u8; 16], Option<Arc<Expected>>>>,
    /// Rung when a transfer becomes ready or ends.
    bell: OwnedFd,
}

/// Removes the transfer from the registry when dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    registry: Registry,
    transfer: [u8; 16],
}

impl Registration {
    /// Makes the transfer ready for its streams.
    pub(crate) fn expect(&self, lines: Lines, keys: TransferKeys, prover: Prover) -> Arc<Expected> {
        let expected = Arc::new(Expected { lines, keys, prover, brought: Mutex::default() });
        self.registry.map().insert(self.transfer, Some(expected.clone()));
        self.registry.ring();
        expected
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.map().remove(&self.transfer);
        self.registry.ring();
    }
}

/// The result of checking a join.
pub(crate) enum JoinCheck {
    /// The transfer or stream is unknown, or the proof is wrong.
    Unknown,
    /// Its transfer is announced, and will ring the bell when it is ready.
    Unready,
    Proven(Arc<Expected>, Join),
}

impl Registry {
    /// # Errors
    /// Fails if the process has no descriptors left.
    pub(crate) fn new() -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { transfers: Arc::new(Transfers { by_name: Mutex::default(), bell }) })
    }

    fn map(&self) -> MutexGuard<'_, HashMap<[u8; 16], Option<Arc<Expected>>>> {
        self.transfers.by_name.lock().expect("no thread panics holding the registry")
    }

    /// Returns a descriptor that is readable when joins should be checked again.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.transfers.bell.as_fd()
    }

    /// Wakes the thread that polls the bell.
    pub(crate) fn ring(&self) {
        let _ = rustix::io::write(&self.transfers.bell, &1u64.to_ne_bytes());
    }

    /// The bell was heard.
    pub(crate) fn hush(&self) {
        let _ = rustix::io::read(&self.transfers.bell, &mut [0; 8]);
    }

    /// Announces a transfer: early streams wait for [`Registration::expect`]. Returns `None` if its name is in use:
    /// names are random, so the peer is not honest.
    pub(crate) fn announce(&self, transfer: [u8; 16]) -> Option<Registration> {
        let mut map = self.map();
        if map.contains_key(&transfer) {
            return None;
        }
        map.insert(transfer, None);
        Some(Registration { registry: self.clone(), transfer })
    }

    /// Returns the transfer and stream of a join, if it is proved.
    pub(crate) fn judge(&self, message: &[u8; JOIN_BYTES]) -> JoinCheck {
        let Some(join) = decode(message) else { return JoinCheck::Unknown };
        let expected = match self.map().get(&join.transfer) {
            Some(Some(expected)) => expected.clone(),
            Some(None) => return JoinCheck::Unready,
            None => return JoinCheck::Unknown,
        };
        match join.stream < expected.lines.count() && expected.prover.verify_join(message) {
            true => JoinCheck::Proven(expected, join),
            false => JoinCheck::Unknown,
        }
    }
}

/// Binds a listener, on the first free port of `ports` if given.
pub(crate) fn bind(address: SocketAddr, ports: Option<(u16, u16)>) -> io::Result<TcpListener> {
    let (low, high) = ports.unwrap_or_else(|| (address.port(), address.port()));
    let mut last = io::Error::from(io::ErrorKind::AddrInUse);
    for port in low..=high {
        match TcpListener::bind(SocketAddr::new(address.ip(), port)) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}
