//! Non-blocking sockets of data streams.
//!
//! Guarantees: no call here waits beyond its deadline, or at all if it has none.

use std::{
    io,
    net::{SocketAddr, TcpStream},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags},
    io::Errno,
    net::{
        AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown,
        socket_with, sockopt,
    },
};

use crate::{low_water, segments};

/// The interval between checks whether a connection is still wanted.
const SLICE: Duration = Duration::from_millis(10);
/// Only the loopback device has such segments. If a path to this machine has smaller segments, it goes through
/// another device, and so possibly through any network, such as an emulated one.
const LOOPBACK_SEGMENT_BYTES: usize = 16 << 10;

/// The operations of a stream on its connection: a socket, or a substitute in tests. No call waits.
pub(crate) trait Wire {
    /// Sends as much as fits now; returns `None` if nothing does.
    fn try_send(&self, bytes: &[u8]) -> io::Result<Option<usize>>;

    /// Receives the available bytes; returns `None` if there are none, 0 at the end.
    fn try_recv(&self, bytes: &mut [u8]) -> io::Result<Option<usize>>;

    /// Makes a wait for input end only when `bytes` are available, or at the end; [`Self::try_recv`] still returns
    /// any available bytes.
    fn wake_at(&self, bytes: usize);

    /// Returns the number of times in a row that the same segment was sent again, without an answer.
    fn unanswered(&self) -> u8;

    /// Ends both directions at once; the peer and any lane that polls the connection notice.
    fn shutdown(&self);
}

/// A connected stream socket, TCP or Unix.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
}

impl Socket {
    /// Takes over a TCP connection. Small records must not wait for acknowledgements of earlier ones.
    ///
    /// # Errors
    /// Fails if the descriptor cannot be made non-blocking.
    pub(crate) fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        let local = is_this_machine(&stream) && segments::size(stream.as_fd()) >= LOOPBACK_SEGMENT_BYTES;
        let socket = Self::new(stream.into())?;
        if local {
            // A loopback path loses nothing, so a pacing congestion control (BBR) has no benefit there and costs its
            // timers. Reno is always allowed; if it is missing, the default is used.
            let _ = sockopt::set_tcp_congestion(&socket.fd, "reno");
        }
        Ok(socket)
    }

    /// Takes over any stream socket.
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self { fd })
    }

    /// Sends all of a short message by `deadline`.
    pub(crate) fn send_all(&self, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.try_send(bytes)? {
                Some(sent) => bytes = &bytes[sent..],
                None => self.wait_until(PollFlags::OUT, deadline)?,
            }
        }
        Ok(())
    }

    /// Receives exactly one short message by `deadline`, unless `goes_on` returns false meanwhile.
    pub(crate) fn recv_exact(
        &self,
        bytes: &mut [u8],
        deadline: Instant,
        goes_on: &dyn Fn() -> bool,
    ) -> io::Result<()> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.try_recv(&mut bytes[filled..])? {
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Some(received) => filled += received,
                None if !goes_on() => return Err(io::ErrorKind::ConnectionAborted.into()),
                None => self.wait_until(PollFlags::IN, deadline.min(Instant::now() + SLICE))?,
            }
            if filled < bytes.len() && Instant::now() >= deadline {
                return Err(io::ErrorKind::TimedOut.into());
            }
        }
        Ok(())
    }

    /// Returns the shortest round trip so far, zero if it is unknown.
    pub(crate) fn round_trip(&self) -> Duration {
        segments::round_trip(self.fd.as_fd())
    }

    /// Returns the number of packets that this end's kernel counts as lost, in either direction.
    pub(crate) fn losses(&self) -> u64 {
        segments::losses(self.fd.as_fd())
    }

    /// Waits until the socket can be read or written, or `patience` is over.
    pub(crate) fn ready(&self, flags: PollFlags, patience: Duration) -> io::Result<()> {
        sealane_lanes::wait(&mut [PollFd::new(&self.fd, flags)], patience).map(drop)
    }

    fn wait_until(&self, flags: PollFlags, deadline: Instant) -> io::Result<()> {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        sealane_lanes::wait(&mut [PollFd::new(&self.fd, flags)], left).map(drop)
    }
}

impl Wire for Socket {
    fn wake_at(&self, bytes: usize) {
        low_water::set(self.fd.as_fd(), bytes);
    }

    fn try_send(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        loop {
            match send(&self.fd, bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => return Ok(Some(sent)),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn try_recv(&self, bytes: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match recv(&self.fd, &mut *bytes, RecvFlags::DONTWAIT) {
                Ok((received, _)) => return Ok(Some(received)),
                Err(Errno::AGAIN) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn unanswered(&self) -> u8 {
        segments::unanswered(self.fd.as_fd())
    }

    fn shutdown(&self) {
        let _ = shutdown(&self.fd, Shutdown::Both);
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn is_this_machine(stream: &TcpStream) -> bool {
    match (stream.local_addr(), stream.peer_addr()) {
        (Ok(local), Ok(peer)) => local.ip() == peer.ip() || peer.ip().is_loopback(),
        _ => false,
    }
}

/// The time after which the next address is tried as well.
const STAGGER: Duration = Duration::from_millis(250);

/// Connects to the first of the addresses that answers within `patience`, with segments of at most `segment_bytes` in both
/// directions. Addresses are tried beside each other, and none
/// any more once `goes_on` returns false.
///
/// # Errors
/// No address has answered; the error is that of the last one that refused.
pub(crate) fn connect_any(
    addresses: &[SocketAddr],
    patience: Duration,
    segment_bytes: Option<u16>,
    goes_on: &dyn Fn() -> bool,
) -> Result<Socket, (Option<SocketAddr>, io::Error)> {
    let deadline = Instant::now() + patience;
    let mut rest = addresses.iter().copied();
    let mut pending: Vec<(SocketAddr, OwnedFd)> = Vec::new();
    let mut last = (addresses.first().copied(), io::Error::from(io::ErrorKind::TimedOut));
    let mut next = Instant::now();
    while goes_on() && Instant::now() < deadline {
        if pending.is_empty() || Instant::now() >= next {
            match rest.next() {
                Some(address) => match begin(address, segment_bytes) {
                    Ok(fd) => {
                        pending.push((address, fd));
                        next = Instant::now() + STAGGER;
                    }
                    Err(error) => last = (Some(address), error),
                },
                None if pending.is_empty() => break,
                None => next = deadline,
            }
        }
        if pending.is_empty() {
            continue;
        }
        let until = next.min(deadline).saturating_duration_since(Instant::now()).min(SLICE);
        let ready = {
            let mut fds: Vec<_> = pending.iter().map(|(_, fd)| PollFd::new(fd, PollFlags::OUT)).collect();
            sealane_lanes::wait(&mut fds, until).map_err(|error| (None, error))?;
            fds.iter().position(|fd| !fd.revents().is_empty())
        };
        let Some(at) = ready else { continue };
        let (address, fd) = pending.swap_remove(at);
        match sockopt::socket_error(&fd).and_then(|outcome| outcome) {
            Ok(()) => return Socket::tcp(fd.into()).map_err(|error| (Some(address), error)),
            Err(error) => {
                last = (Some(address), error.into());
                next = Instant::now();
            }
        }
    }
    Err(last)
}

/// Begins to connect.
fn begin(address: SocketAddr, segment_bytes: Option<u16>) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let fd = socket_with(family, SocketType::STREAM, flags, None)?;
    if let Some(segment_bytes) = segment_bytes {
        segments::limit(fd.as_fd(), segment_bytes);
    }
    match rustix::net::connect(&fd, &address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(fd),
        Err(error) => Err(error.into()),
    }
}
