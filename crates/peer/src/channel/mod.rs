//! A channel of bounded frames to one peer, for one thread at a time.
//!
//! Guarantees, whatever the other end does:
//! * no call returns later than its deadline (but for the time that the work itself takes);
//! * frames arrive whole, in order, or not at all; the end of the stream is told apart from its being cut;
//! * while a frame is being sent, arriving ones are still taken in, so two ends that both send cannot block each
//!   other as long as 2 MiB hold what has not been received;
//! * after an error other than a passed deadline of `recv`, the channel stays broken.

mod session;
mod wire;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use crate::error::{ChannelError, PeerError};
use crate::frame::{self, Framer};
use crate::key::PublicKey;
use crate::launch::{ChildGuard, RemoteProcess};
use crate::location::HostPort;
use crate::tls::TlsFacts;
use session::{Filled, Session};

pub(crate) use session::{explain, flush_tls, is_cut};
pub(crate) use wire::{Wire, now_or_never};

/// How long after the end of its output a child may take to exit and so to say why.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How often a child that is about to exit is looked at.
const CHILD_POLL: Duration = Duration::from_millis(5);

/// What a channel runs over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChannelKind {
    /// TLS 1.3 over TCP.
    Tls,
    /// An ssh child.
    Ssh,
    /// Our own standard input and output: we are the far end of ssh or of a local child.
    Stdio,
    /// A process on this machine.
    Local,
}

/// Who is at the other end, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PeerName {
    /// A server reached over TLS.
    Server {
        /// Where it listens.
        address: HostPort,
        /// The key it has proved to own.
        key: PublicKey,
    },
    /// A client that came over TLS.
    Client {
        /// Its name in the list of authorised peers.
        name: String,
        /// Where it came from.
        from: SocketAddr,
    },
    /// A host reached through ssh.
    Ssh {
        /// `host` or `user@host`, as given.
        host: String,
    },
    /// Whoever started us with `--stdio`.
    Stdio {
        /// The address that sshd reports, if it started us.
        from: Option<String>,
    },
    /// A process on this machine.
    Local,
}

impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server { address, .. } => write!(f, "{address}"),
            Self::Client { name, from } => write!(f, "{name} ({from})"),
            Self::Ssh { host } => write!(f, "{host} (ssh)"),
            Self::Stdio { from: Some(from) } => write!(f, "{from} (ssh)"),
            Self::Stdio { from: None } => f.write_str("standard input"),
            Self::Local => f.write_str("local process"),
        }
    }
}

/// What [`Channel::recv_or_wake`] ended with.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// A frame.
    Frame(Vec<u8>),
    /// The wake descriptor is readable. It is the caller's to drain.
    Woken,
    /// The deadline passed.
    Deadline,
}

/// How the stream ended.
enum End {
    Orderly,
    Cut,
    /// Told once; then the channel is merely broken.
    Failed(ChannelError),
    Told,
}

/// A channel of frames to one peer.
///
/// Dropping it cuts the connection; [`close`](Self::close) ends it in order. Frames of a channel that
/// [`may_carry_secrets`](Self::may_carry_secrets) are wiped from its own buffers.
pub struct Channel {
    session: Session,
    framer: Framer,
    // Before the child: its end of the stream must close for it to go by itself.
    wire: Wire,
    child: Option<ChildGuard>,
    kind: ChannelKind,
    peer: PeerName,
    remote_addr: Option<SocketAddr>,
    tls: Option<TlsFacts>,
    end: Option<(End, Instant)>,
    /// A frame was written in part, so that nothing else may follow.
    broken_output: bool,
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channel").field("kind", &self.kind).field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Channel {
    /// The channel over our own standard input and output. `from` is whence the peer came, for people.
    ///
    /// Both are taken: afterwards reads from descriptor 0 find nothing and writes to descriptor 1 go where errors
    /// go, so that no stray message gets between the frames.
    ///
    /// # Errors
    /// A descriptor cannot be duplicated.
    pub fn stdio(from: Option<IpAddr>) -> Result<Self, PeerError> {
        let taken = || -> io::Result<Wire> {
            let input = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
            let output = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
            let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
            rustix::stdio::dup2_stdin(&null)?;
            rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
            Wire::pair(input, output)
        };
        let wire = taken().map_err(ChannelError::io("taking over standard input and output"))?;
        let from = from.map(|address| address.to_string());
        Ok(Self::plain(wire, ChannelKind::Stdio, PeerName::Stdio { from }, None))
    }

    /// Two ends of a channel within this process, for tests.
    ///
    /// # Errors
    /// The system gives no socket pair.
    pub fn pair() -> Result<(Self, Self), PeerError> {
        let fault = ChannelError::io("making a socket pair");
        let (a, b) = UnixStream::pair().map_err(&fault)?;
        let end = |socket: UnixStream| {
            let wire = Wire::socket(socket.into()).map_err(&fault)?;
            Ok::<_, PeerError>(Self::plain(wire, ChannelKind::Local, PeerName::Local, None))
        };
        Ok((end(a)?, end(b)?))
    }

    /// The channel to a child that speaks frames on its standard input and output.
    ///
    /// # Errors
    /// The socket cannot be made non-blocking.
    pub fn from_child(child: RemoteProcess) -> Result<Self, PeerError> {
        let (socket, guard, kind, peer) = child.into_parts();
        let wire =
            Wire::socket(OwnedFd::from(socket)).map_err(ChannelError::io("taking over a child's socket"))?;
        Ok(Self::plain(wire, kind, peer, Some(guard)))
    }

    fn plain(wire: Wire, kind: ChannelKind, peer: PeerName, child: Option<ChildGuard>) -> Self {
        Self {
            session: Session::plain(),
            framer: Framer::new(),
            wire,
            child,
            kind,
            peer,
            remote_addr: None,
            tls: None,
            end: None,
            broken_output: false,
        }
    }

    /// A TLS connection after its handshake.
    pub(crate) fn over_tls(
        wire: Wire,
        connection: rustls::Connection,
        ours: PublicKey,
        peer: PeerName,
        remote_addr: SocketAddr,
        facts: TlsFacts,
    ) -> Self {
        Self {
            session: Session::tls(connection, ours),
            remote_addr: Some(remote_addr),
            tls: Some(facts),
            ..Self::plain(wire, ChannelKind::Tls, peer, None)
        }
    }

    /// Sends one frame, and returns when the system has all of it.
    ///
    /// # Errors
    /// The frame is too long (nothing is sent then), the deadline passed, or the connection broke.
    pub fn send(&mut self, body: &[u8], deadline: Instant) -> Result<(), ChannelError> {
        let Some(header) = frame::header(body.len()) else {
            return Err(ChannelError::SendTooLong { len_bytes: body.len() });
        };
        if self.broken_output {
            return Err(self.end_error(deadline).unwrap_or(ChannelError::Poisoned));
        }
        let sent = self.session.queue(&header, body).and_then(|()| self.drain_output("sending", deadline));
        if sent.is_err() {
            self.broken_output = true;
        }
        sent
    }

    /// Waits for the next frame until the deadline; `None` means that it passed.
    ///
    /// A deadline in the past is one look at what has arrived.
    ///
    /// # Errors
    /// The peer closed ([`ChannelError::Closed`]) or the connection broke; frames that came whole before that are
    /// given first.
    pub fn recv(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, ChannelError> {
        match self.receive(deadline, None)? {
            Received::Frame(frame) => Ok(Some(frame)),
            Received::Deadline | Received::Woken => Ok(None),
        }
    }

    /// As [`recv`](Self::recv), and ends early when `wake` becomes readable, such as an eventfd that other threads
    /// write. A frame that is there goes first.
    ///
    /// # Errors
    /// As [`recv`](Self::recv).
    pub fn recv_or_wake(
        &mut self,
        deadline: Instant,
        wake: BorrowedFd<'_>,
    ) -> Result<Received, ChannelError> {
        self.receive(deadline, Some(wake))
    }

    /// Derives bytes that only the two ends of this TLS connection know (RFC 8446 section 7.5).
    ///
    /// # Errors
    /// The channel is not TLS, or `out` is empty or absurdly long.
    pub fn export(&self, label: &[u8], context: &[u8], out: &mut [u8]) -> Result<(), ChannelError> {
        match &self.session {
            Session::Plain { .. } => Err(ChannelError::NoExporter),
            Session::Tls { connection, .. } => {
                connection.export_keying_material(out, label, Some(context)).map_err(ChannelError::Tls)?;
                Ok(())
            }
        }
    }

    /// Whether secrets are to be sent through the channel, because it is confidential and has no exporter.
    #[must_use]
    pub fn may_carry_secrets(&self) -> bool {
        self.kind != ChannelKind::Tls
    }

    /// What the channel runs over.
    #[must_use]
    pub fn kind(&self) -> ChannelKind {
        self.kind
    }

    /// Who is at the other end, for messages.
    #[must_use]
    pub fn peer(&self) -> &PeerName {
        &self.peer
    }

    /// The TCP address of the other end; only TLS knows one.
    #[must_use]
    pub fn remote_addr(&self) -> Option<SocketAddr> {
        self.remote_addr
    }

    /// The TCP address of this end; only TLS knows one.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.remote_addr?;
        rustix::net::getsockname(&self.wire).ok()?.try_into().ok()
    }

    /// What TLS negotiated.
    #[must_use]
    pub fn tls(&self) -> Option<&TlsFacts> {
        self.tls.as_ref()
    }

    /// Says goodbye as far as that goes without waiting: nothing more is sent. What still arrives is to be received
    /// until the peer has ended too, or what it was told last might not reach it.
    pub fn end_output(&mut self) {
        if !self.broken_output {
            self.session.queue_goodbye();
            let _ = self.session.flush(&self.wire);
            self.broken_output = true;
        }
        self.wire.shutdown_write();
    }

    /// Ends the stream in order: says goodbye, waits until the peer has ended too, and reaps the child.
    ///
    /// Frames that still arrive are dropped.
    ///
    /// # Errors
    /// The peer did not end before the deadline, or not in order, or the child failed.
    pub fn close(mut self, deadline: Instant) -> Result<(), ChannelError> {
        if !self.broken_output {
            self.session.queue_goodbye();
            match self.drain_output("closing", deadline) {
                // A peer that closed first may be gone already; the reads below tell how it went.
                Ok(()) | Err(ChannelError::Closed) => {}
                Err(error) => return Err(error),
            }
        }
        self.wire.shutdown_write();
        self.broken_output = true;
        loop {
            match self.receive(deadline, None) {
                Ok(Received::Frame(_)) => {}
                Ok(_) => return Err(ChannelError::Deadline { doing: "closing" }),
                Err(ChannelError::Closed) => break,
                Err(error) => return Err(error),
            }
        }
        match &mut self.child {
            Some(child) => child.finish(deadline),
            None => Ok(()),
        }
    }

    #[cfg(test)]
    pub(crate) fn update_keys(&mut self) {
        self.session.update_keys();
    }

    fn receive(&mut self, deadline: Instant, wake: Option<BorrowedFd<'_>>) -> Result<Received, ChannelError> {
        loop {
            if let Some(frame) = self.framer.pop() {
                return Ok(Received::Frame(frame));
            }
            let mut idle = true;
            if self.end.is_none() {
                if !self.broken_output && self.session.has_output() {
                    // Left by TLS itself, such as the answer to a key update. If it cannot be written, reads tell why.
                    self.broken_output = self.session.flush(&self.wire).is_err();
                }
                idle = !self.fill();
                if let Some(frame) = self.framer.pop() {
                    return Ok(Received::Frame(frame));
                }
            }
            let passed = Instant::now() >= deadline;
            if self.end.is_some() {
                if let Some(error) = self.end_error(Instant::now()) {
                    return Err(error);
                }
                if passed {
                    return Ok(Received::Deadline);
                }
                // The child is about to exit and to tell by its status why the stream ended.
                std::thread::sleep(CHILD_POLL.min(deadline.saturating_duration_since(Instant::now())));
                continue;
            }
            if passed {
                return Ok(Received::Deadline);
            }
            if idle {
                let write = !self.broken_output && self.session.has_output();
                let ready =
                    self.wire.wait(true, write, wake, deadline).map_err(ChannelError::io("waiting"))?;
                if ready.wake && !ready.input {
                    return Ok(Received::Woken);
                }
            }
        }
    }

    /// Writes until nothing is left, taking in what arrives meanwhile.
    fn drain_output(&mut self, doing: &'static str, deadline: Instant) -> Result<(), ChannelError> {
        loop {
            if let Err(source) = self.session.flush(&self.wire) {
                if !is_cut(&source) {
                    return Err(ChannelError::Io { doing, source });
                }
                // The peer's last words, such as a TLS alert, say more than a broken pipe.
                while self.end.is_none() && self.framer.has_room() && self.fill() {}
                if self.end.is_none() {
                    self.end = Some((End::Cut, Instant::now()));
                }
                return Err(self.end_error(deadline).unwrap_or(ChannelError::Truncated));
            }
            if !self.session.has_output() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(ChannelError::Deadline { doing });
            }
            let read = self.end.is_none() && self.framer.has_room();
            let ready = self.wire.wait(read, true, None, deadline).map_err(ChannelError::io("waiting"))?;
            if ready.input {
                self.fill();
                if let Some((End::Failed(_), _)) = self.end {
                    return Err(self.end_error(deadline).unwrap_or(ChannelError::Poisoned));
                }
            }
        }
    }

    /// Reads once; false means that nothing was there.
    fn fill(&mut self) -> bool {
        let end = match self.session.fill(&self.wire, &mut self.framer) {
            Ok(Filled::Some) => return true,
            Ok(Filled::Nothing) => return false,
            Ok(Filled::End { orderly: true }) => End::Orderly,
            Ok(Filled::End { orderly: false }) => End::Cut,
            Err(error) => End::Failed(self.named(error)),
        };
        self.end = Some((end, Instant::now()));
        true
    }

    /// Text where the first frame belongs is what a program prints that does not know of frames.
    fn named(&self, error: ChannelError) -> ChannelError {
        match (&error, self.session.first_bytes()) {
            (ChannelError::Frame(_), Some(first)) if self.child.is_some() && self.framer.is_first() => {
                ChannelError::Banner { from: self.peer.clone(), text: printable(first) }
            }
            _ => error,
        }
    }

    /// Why there is nothing more. `None` while a child may still tell by its exit status, which it gets until
    /// `patience` to do, and [`LAST_WORDS`] in all.
    fn end_error(&mut self, patience: Instant) -> Option<ChannelError> {
        let (end, since) = self.end.as_mut()?;
        if let End::Failed(_) = end {
            self.broken_output = true;
            let End::Failed(error) = std::mem::replace(end, End::Told) else { return None };
            return Some(error);
        }
        if let Some(child) = &mut self.child {
            let last = *since + LAST_WORDS;
            match child.exited_by(patience.min(last)) {
                Some(status) if !status.success() => return Some(child.failure(status)),
                None if Instant::now() < last => return None,
                _ => {}
            }
        }
        Some(match end {
            End::Orderly => ChannelError::Closed,
            End::Cut => ChannelError::Truncated,
            End::Failed(_) | End::Told => ChannelError::Poisoned,
        })
    }
}

/// Foreign bytes for a message: one line, nothing that a terminal obeys.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.trim_ascii());
    text.chars().flat_map(|c| if c == '"' { vec![c] } else { c.escape_debug().collect() }).collect()
}

impl AsFd for Channel {
    /// The descriptor that becomes readable when bytes arrive, to wait on it together with others. A frame may be
    /// there although nothing is readable: look with [`recv`](Self::recv) and a past deadline first.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }
}

#[cfg(test)]
mod tests;
