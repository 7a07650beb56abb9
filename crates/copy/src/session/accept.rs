//! Taking up data streams at the end that is connected to.
//!
//! Guarantees: a stranger costs a bounded time and no memory that lasts; a connection is handed to a transfer
//! only after its proof was verified; a generation is taken up once, and only a newer one replaces another.

use std::{
    collections::HashMap,
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::OwnedFd,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};

use crate::{
    proto::{
        join::{JOIN_BYTES, Joined, Prover, decode},
        keys::TransferKeys,
    },
    session::line::Lines,
    socket::Socket,
};

/// Connections whose proof is awaited at once.
const STRANGERS_MAX: usize = 128;
const JOIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Connections that have not proved yet whose they are.
#[derive(Debug)]
pub(crate) struct Strangers {
    count: Arc<AtomicUsize>,
    most: usize,
}

impl Strangers {
    pub(crate) fn new(most: usize) -> Self {
        Self { count: Arc::default(), most }
    }

    /// Counts one more, unless there are too many.
    pub(crate) fn admit(&self) -> Option<Stranger> {
        let before = self.count.fetch_add(1, SeqCst);
        let stranger = Stranger(self.count.clone());
        (before < self.most).then_some(stranger)
    }
}

/// One of [`Strangers`], until it is dropped.
#[derive(Debug)]
pub(crate) struct Stranger(Arc<AtomicUsize>);

impl Drop for Stranger {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// A transfer that expects streams.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) lines: Lines,
    pub(crate) keys: TransferKeys,
    pub(crate) prover: Prover,
    /// Newest generation taken up, for each stream.
    pub(crate) generations: Mutex<Vec<u32>>,
}

/// Transfers that expect streams, by name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Registry {
    transfers: Arc<Transfers>,
}

#[derive(Debug, Default)]
struct Transfers {
    /// `None` while a transfer is announced, but not ready for its streams.
    by_name: Mutex<HashMap<[u8; 16], Option<Arc<Expected>>>>,
    ready: Condvar,
}

/// Takes the transfer out of the registry when dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    registry: Registry,
    transfer: [u8; 16],
}

impl Registration {
    /// The transfer is ready for its streams.
    pub(crate) fn expect(&self, lines: Lines, keys: TransferKeys, prover: Prover) {
        let generations = Mutex::new(vec![0; usize::from(lines.count())]);
        let expected = Arc::new(Expected { lines, keys, prover, generations });
        self.registry.map().insert(self.transfer, Some(expected));
        self.registry.transfers.ready.notify_all();
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.registry.map().remove(&self.transfer);
        self.registry.transfers.ready.notify_all();
    }
}

impl Registry {
    fn map(&self) -> MutexGuard<'_, HashMap<[u8; 16], Option<Arc<Expected>>>> {
        self.transfers.by_name.lock().expect("no thread panics holding the registry")
    }

    /// Announces a transfer: streams that come early wait for [`Self::expect`]. `None` when its name is in
    /// use: names are random, so somebody plays.
    pub(crate) fn announce(&self, transfer: [u8; 16]) -> Option<Registration> {
        let mut map = self.map();
        if map.contains_key(&transfer) {
            return None;
        }
        map.insert(transfer, None);
        Some(Registration { registry: self.clone(), transfer })
    }

    /// The transfer of that name, once it is ready.
    fn find(&self, transfer: &[u8; 16], deadline: Instant) -> Option<Arc<Expected>> {
        let mut map = self.map();
        loop {
            if let Some(expected) = map.get(transfer)? {
                return Some(expected.clone());
            }
            let left = deadline.checked_duration_since(Instant::now())?;
            let waited = self.transfers.ready.wait_timeout(map, left);
            map = waited.expect("no thread panics holding the registry").0;
        }
    }

    /// Takes up one connection, or hangs up.
    pub(crate) fn take_up(&self, stream: TcpStream) {
        // Whatever goes wrong, the other side is told nothing.
        let _ = self.join(stream);
    }

    fn join(&self, stream: TcpStream) -> io::Result<()> {
        let deadline = Instant::now() + JOIN_TIMEOUT;
        let socket = Socket::tcp(stream)?;
        let mut message = [0; JOIN_BYTES];
        socket.recv_exact(&mut message, deadline)?;
        let refused = || io::Error::from(io::ErrorKind::PermissionDenied);
        let join = decode(&message).ok_or_else(refused)?;
        let expected = self.find(&join.transfer, deadline).ok_or_else(refused)?;
        if join.stream >= expected.lines.count() || !expected.prover.verify_join(&message) {
            return Err(refused());
        }
        // Held until the stream is installed, so that two openings of one stream cannot cross.
        let mut generations = expected.generations.lock().map_err(|_| refused())?;
        let newest = &mut generations[usize::from(join.stream)];
        if join.generation <= *newest {
            let answer = Joined { accepted: false, taken: 0 };
            return socket.send_all(&expected.prover.joined(&message, &answer), deadline);
        }
        *newest = join.generation;
        let taken = expected.lines.prepare(join.stream);
        let answer = Joined { accepted: true, taken };
        socket.send_all(&expected.prover.joined(&message, &answer), deadline)?;
        expected.lines.install(&expected.keys, join.stream, join.generation, socket, join.last, join.taken);
        Ok(())
    }
}

/// Binds a listener, on the first free port of `ports` if they are given.
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

/// Ends [`accept`] at once.
#[derive(Debug)]
pub(crate) struct Closing(OwnedFd);

impl Closing {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// No more streams are accepted.
    pub(crate) fn close(&self) {
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    fn is_closed(&self) -> bool {
        let mut count = [0; 8];
        // What is read is not put back: there is one reader, and it ends.
        rustix::io::read(&self.0, &mut count).is_ok()
    }
}

/// Accepts data streams until `closing` is closed.
pub(crate) fn accept(listener: &TcpListener, registry: &Registry, closing: &Closing) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let strangers = Strangers::new(STRANGERS_MAX);
    while !closing.is_closed() {
        match listener.accept() {
            Ok((stream, _)) => {
                let Some(stranger) = strangers.admit() else { continue };
                let registry = registry.clone();
                thread::spawn(move || {
                    registry.take_up(stream);
                    drop(stranger);
                });
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let mut fds = [PollFd::new(listener, PollFlags::IN), PollFd::new(&closing.0, PollFlags::IN)];
                sealane_stack::wait(&mut fds, Duration::from_secs(1))?;
            }
            // The connection was gone before it was accepted, or descriptors are short: the next may do.
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
    Ok(())
}
