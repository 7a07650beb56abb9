//! Connections of strangers: accepted, distinguished, and authenticated, all by one thread.
//!
//! Guarantees: a stranger costs a descriptor and some kilobytes for a bounded time, and no thread; no address has
//! more than its share of connections, and one that opens more loses its oldest; no stranger can make another wait,
//! and a lack of descriptors does not end the loop. Strangers get no information beyond that of TLS.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, TcpStream},
    os::fd::{AsFd, BorrowedFd},
    thread,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags};
use sealane_engine::Inline;
use sealane_peer::{Agreements, Channel, ConnectionKind, TlsArrival, peek_kind};

use crate::{
    proto::join::JOIN_BYTES,
    session::accept::{JoinCheck, Registry},
    socket::{Socket, Wire as _},
};

/// The longest sleep, and so the delay of an end requested by a flag alone.
const NAP: Duration = Duration::from_millis(200);
/// The pause if the system has no descriptor for another connection.
const SHORTAGE: Duration = Duration::from_millis(20);
/// The time that a refused peer has to read the reason.
const LEAVE: Duration = Duration::from_secs(2);

/// The limits on the number of strangers and on their time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) all: usize,
    /// The maximum per IPv4 address, or per /64 of IPv6.
    pub(crate) per_address: usize,
    pub(crate) timeout: Duration,
}

impl Bounds {
    /// Returns bounds of at most `all` connections, of which no address has more than a quarter.
    pub(crate) fn new(all: usize, timeout: Duration) -> Self {
        Self { all, per_address: all.div_ceil(4), timeout }
    }
}

/// The handler of control connections.
pub(crate) trait Reception {
    /// Begins a handshake. `None` closes the connection.
    fn begin(&self, stream: TcpStream, address: SocketAddr, deadline: Instant) -> Option<TlsArrival>;
    /// Handles a finished handshake. A channel that is returned belongs to a peer that was sent the reason of its
    /// refusal.
    fn end(&self, arrival: TlsArrival, address: SocketAddr) -> Option<Channel>;
}

/// A listener for data streams alone.
pub(crate) struct NoReception;

impl Reception for NoReception {
    fn begin(&self, _: TcpStream, _: SocketAddr, _: Instant) -> Option<TlsArrival> {
        None
    }

    fn end(&self, _: TlsArrival, _: SocketAddr) -> Option<Channel> {
        None
    }
}

struct Stranger {
    address: SocketAddr,
    deadline: Instant,
    state: State,
}

enum State {
    /// The connection has sent nothing yet.
    Silent(TcpStream),
    /// A data stream that has sent this many bytes of its join.
    Joining {
        socket: Socket,
        message: [u8; JOIN_BYTES],
        filled: usize,
    },
    Shaking(Box<TlsArrival>),
    /// The connection was refused, with the reason sent.
    Leaving(Box<Channel>),
}

impl Stranger {
    fn poll_fd(&self) -> PollFd<'_> {
        let (fd, flags): (BorrowedFd<'_>, _) = match &self.state {
            State::Silent(stream) => (stream.as_fd(), PollFlags::IN),
            // A complete join waits for its transfer, or for the end of the connection.
            State::Joining { socket, filled: JOIN_BYTES, .. } => (socket.as_fd(), PollFlags::empty()),
            State::Joining { socket, .. } => (socket.as_fd(), PollFlags::IN),
            State::Shaking(arrival) if arrival.wants_write() => {
                (arrival.as_fd(), PollFlags::IN | PollFlags::OUT)
            }
            State::Shaking(arrival) => (arrival.as_fd(), PollFlags::IN),
            State::Leaving(channel) => (channel.as_fd(), PollFlags::IN),
        };
        PollFd::from_borrowed_fd(fd, flags)
    }

    fn deadline(&self) -> Instant {
        match &self.state {
            State::Shaking(arrival) => arrival.deadline(),
            _ => self.deadline,
        }
    }
}

/// Serves `listener` until `is_over` returns true.
///
/// # Errors
/// The system cannot poll.
pub(crate) fn run(
    listener: &TcpListener,
    registry: &Registry,
    bounds: Bounds,
    reception: &dyn Reception,
    is_over: impl Fn() -> bool,
) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let mut agreements = Agreements::new(&Inline::default())?;
    let mut strangers: Vec<Stranger> = Vec::new();
    while !is_over() {
        let now = Instant::now();
        let nap = strangers.iter().map(|stranger| stranger.deadline().saturating_duration_since(now)).min();
        let (is_called, is_knocked, ready) = {
            let bell = registry.bell();
            let mut fds = vec![PollFd::new(&bell, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
            fds.extend(strangers.iter().map(Stranger::poll_fd));
            sealane_lanes::wait(&mut fds, nap.map_or(NAP, |nap| nap.min(NAP)))?;
            let mut ready = fds.iter().map(|fd| !fd.revents().is_empty());
            let (called, knocked) = (ready.next(), ready.next());
            (called == Some(true), knocked == Some(true), ready.collect::<Vec<_>>())
        };
        if is_called {
            registry.hush();
        }
        let now = Instant::now();
        let turn = Turn { registry, reception, is_called, now };
        let mut stepped: Vec<(Stranger, bool)> = strangers
            .into_iter()
            .zip(ready)
            .filter_map(|(stranger, is_ready)| Some((turn.greet(stranger, is_ready)?, is_ready)))
            .collect();
        agreements.compute(stepped.iter_mut().filter_map(|(stranger, is_ready)| match &mut stranger.state {
            State::Shaking(arrival) if *is_ready => Some(&mut **arrival),
            _ => None,
        }));
        strangers =
            stepped.into_iter().filter_map(|(stranger, is_ready)| turn.step(stranger, is_ready)).collect();
        if is_knocked {
            accept(listener, &mut strangers, bounds, now);
        }
    }
    Ok(())
}

/// Accepts waiting connections.
fn accept(listener: &TcpListener, strangers: &mut Vec<Stranger>, bounds: Bounds, now: Instant) {
    // Only a few are accepted at once, so that connections that authenticate quickly are not displaced by
    // simultaneous ones.
    for _ in 0..bounds.per_address.div_ceil(4) {
        match listener.accept() {
            Ok((stream, address)) => {
                make_room(strangers, &address, bounds);
                let state = State::Silent(stream);
                strangers.push(Stranger { address, deadline: now + bounds.timeout, state });
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) if is_shortage(&error) => {
                hang_up_on_most(strangers);
                thread::sleep(SHORTAGE);
                return;
            }
            // The connection was gone before it was accepted.
            Err(_) => {}
        }
    }
}

fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

/// Closes a connection of an address that has used up its share, and, if all places are taken, one of the address
/// with the most.
fn make_room(strangers: &mut Vec<Stranger>, address: &SocketAddr, bounds: Bounds) {
    let own = origin(address);
    let count = strangers.iter().filter(|stranger| origin(&stranger.address) == own).count();
    if count >= bounds.per_address {
        hang_up(strangers, own);
    } else if strangers.len() >= bounds.all {
        hang_up_on_most(strangers);
    }
}

fn hang_up_on_most(strangers: &mut Vec<Stranger>) {
    let mut counts: HashMap<IpAddr, usize> = HashMap::new();
    for stranger in &*strangers {
        *counts.entry(origin(&stranger.address)).or_default() += 1;
    }
    if let Some((most, _)) = counts.into_iter().max_by_key(|&(_, count)| count) {
        hang_up(strangers, most);
    }
}

/// Closes the oldest connection that has sent little or nothing, or else the oldest. Connections are in order of
/// arrival.
fn hang_up(strangers: &mut Vec<Stranger>, from: IpAddr) {
    let mut own = strangers.iter().enumerate().filter(|(_, stranger)| origin(&stranger.address) == from);
    let oldest = own.clone().next();
    let is_slow = |stranger: &Stranger| matches!(stranger.state, State::Silent(_) | State::Joining { .. });
    if let Some((at, _)) = own.find(|(_, stranger)| is_slow(stranger)).or(oldest) {
        strangers.remove(at);
    }
}

/// Returns the address to which a share belongs: the owner of one IPv6 address has its /64.
fn origin(address: &SocketAddr) -> IpAddr {
    match address.ip().to_canonical() {
        IpAddr::V6(ip) => {
            let mut octets = ip.octets();
            octets[8..].fill(0);
            IpAddr::V6(Ipv6Addr::from(octets))
        }
        v4 => v4,
    }
}

/// One iteration of the loop.
struct Turn<'a> {
    registry: &'a Registry,
    reception: &'a dyn Reception,
    /// Whether a transfer has become ready for its streams.
    is_called: bool,
    now: Instant,
}

impl Turn<'_> {
    /// Sees by a silent stranger's first byte what its connection is, and returns the stranger unless it is finished.
    fn greet(&self, stranger: Stranger, is_ready: bool) -> Option<Stranger> {
        let Stranger { address, deadline, state } = stranger;
        let state = match state {
            State::Silent(stream) if is_ready => self.first_byte(stream, address, deadline)?,
            other => other,
        };
        Some(Stranger { address, deadline, state })
    }

    /// Advances a stranger, and returns it unless it is finished.
    fn step(&self, stranger: Stranger, is_ready: bool) -> Option<Stranger> {
        let is_late = self.now >= stranger.deadline();
        let Stranger { address, deadline, state } = stranger;
        let state = match state {
            State::Shaking(mut arrival) => match (is_ready && arrival.advance()) || is_late {
                false => State::Shaking(arrival),
                true => return self.leaving(self.reception.end(*arrival, address)?, address),
            },
            _ if is_late => return None,
            State::Joining { socket, message, filled } if is_ready || self.is_called => {
                self.join(socket, message, filled, is_ready)?
            }
            State::Leaving(mut channel) if is_ready => loop {
                match channel.recv(self.now) {
                    Ok(Some(_)) => {}
                    Ok(None) => break State::Leaving(channel),
                    Err(_) => return None,
                }
            },
            other => other,
        };
        Some(Stranger { address, deadline, state })
    }

    fn leaving(&self, channel: Channel, address: SocketAddr) -> Option<Stranger> {
        Some(Stranger { address, deadline: self.now + LEAVE, state: State::Leaving(Box::new(channel)) })
    }

    fn first_byte(&self, stream: TcpStream, address: SocketAddr, deadline: Instant) -> Option<State> {
        match peek_kind(&stream, self.now).ok()? {
            ConnectionKind::Data => {
                let socket = Socket::tcp(stream).ok()?;
                Some(State::Joining { socket, message: [0; JOIN_BYTES], filled: 0 })
            }
            ConnectionKind::Tls => {
                let arrival = self.reception.begin(stream, address, deadline)?;
                Some(State::Shaking(Box::new(arrival)))
            }
            ConnectionKind::Unknown => None,
        }
    }

    fn join(
        &self,
        socket: Socket,
        mut message: [u8; JOIN_BYTES],
        mut filled: usize,
        is_ready: bool,
    ) -> Option<State> {
        if filled == JOIN_BYTES && is_ready {
            // No bytes may come before the answer, so this is the end of the connection.
            return None;
        }
        while filled < JOIN_BYTES {
            match socket.try_recv(&mut message[filled..]).ok()? {
                Some(0) => return None,
                Some(received) => filled += received,
                None => return Some(State::Joining { socket, message, filled }),
            }
        }
        match self.registry.judge(&message) {
            JoinCheck::Unready => Some(State::Joining { socket, message, filled }),
            JoinCheck::Proven(expected, join) => {
                expected.bring(join, message, socket);
                None
            }
            JoinCheck::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{ErrorKind, Read},
        net::{Ipv4Addr, SocketAddrV4},
        sync::atomic::{AtomicBool, Ordering::SeqCst},
    };

    use rustix::net::{AddressFamily, SocketType};

    use super::*;

    fn is_open(mut stream: &TcpStream) -> bool {
        stream.set_nonblocking(true).unwrap();
        matches!(stream.read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    #[test]
    fn an_address_loses_its_oldest_and_never_anothers() {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let over = AtomicBool::new(false);
        let registry = Registry::new().unwrap();
        thread::scope(|scope| {
            let (listener, registry, over) = (&listener, &registry, &over);
            let bounds = Bounds { all: 6, per_address: 4, timeout: Duration::from_secs(3600) };
            scope.spawn(move || run(listener, registry, bounds, &NoReception, || over.load(SeqCst)).unwrap());
            let connect = |last| {
                let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
                let from = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, last), 0);
                rustix::net::bind(&socket, &from).unwrap();
                rustix::net::connect(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, port)).unwrap();
                let stream = TcpStream::from(socket);
                // The pause makes them arrive in this order.
                thread::sleep(Duration::from_millis(20));
                stream
            };
            let settle = |streams: &[TcpStream], want: &[bool]| {
                let is_so = || streams.iter().map(is_open).eq(want.iter().copied());
                (0..500).any(|_| {
                    is_so() || {
                        thread::sleep(Duration::from_millis(10));
                        false
                    }
                })
            };
            let mut streams: Vec<_> = (0..5).map(|_| connect(1)).collect();
            let own = settle(&streams, &[false, true, true, true, true]);
            streams.extend((0..2).map(|_| connect(2)));
            let others = settle(&streams, &[false, true, true, true, true, true, true]);
            // All places are taken: the address with the most makes room, whatever address the new one has.
            streams.push(connect(3));
            let most = settle(&streams, &[false, false, true, true, true, true, true, true]);
            over.store(true, SeqCst);
            assert_eq!((own, others, most), (true, true, true));
        });
    }

    #[test]
    fn a_share_is_of_a_network_where_addresses_cost_nothing() {
        let of = |text: &str| origin(&text.parse().unwrap());
        assert_eq!(of("[2001:db8::1]:1"), of("[2001:db8::ffff:2]:9"));
        assert_ne!(of("[2001:db8::1]:1"), of("[2001:db8:0:1::1]:1"));
        assert_ne!(of("192.0.2.1:1"), of("192.0.2.2:1"));
        assert_eq!(of("[::ffff:192.0.2.1]:1"), of("192.0.2.1:1"));
    }
}
