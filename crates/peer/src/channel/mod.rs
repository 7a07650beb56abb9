//! A channel of bounded frames to one peer, for one thread at a time.
//!
//! It guarantees, whatever the other end does:
//! * no call returns later than its deadline (except for the time that the work itself takes);
//! * frames arrive complete and in order, or not at all; an orderly end of the stream is distinguished from a cut;
//! * while a frame is sent, arriving ones are still read, so two ends that both send cannot block each other as long
//!   as 2 MiB hold the frames not yet received;
//! * after any error except a passed deadline of `recv`, the channel stays broken.

mod security;
mod wire;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::PollFd;

use crate::error::{ChannelError, PeerError};
use crate::frame::{self, Framer};
use crate::key::PublicKey;
use crate::launch::{ChildGuard, RemoteProcess};
use crate::name::{ChannelKind, PeerName};
use sealane_transform::debug_only;
use security::{Filled, Security};

pub use security::TlsFacts;
pub(crate) use security::{explain, flush_tls, is_cut};
pub(crate) use wire::{Wire, now_or_never};

/// Time that a child has after the end of its output to exit, because its status shows why it ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The result of [`Channel::recv_or_wake`].
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// The content of one whole frame.
    Frame(Vec<u8>),
    /// One of the other descriptors is ready, or there is room for bytes to be sent.
    Woken,
    /// The deadline passed.
    Deadline,
}

/// The way in which the stream ended.
enum End {
    Orderly,
    Cut,
    /// It is reported once; after that the channel is only broken.
    Failed(ChannelError),
    Told,
}

/// A channel of frames to one peer.
///
/// Dropping it cuts the connection; [`close`](Self::close) ends it in an orderly way. If the channel
/// [`may_carry_secrets`](Self::may_carry_secrets), frames are wiped from its own buffers.
pub struct Channel {
    security: Security,
    framer: Framer,
    // It is declared before the child: its end of the stream must close so that the child exits by itself.
    wire: Wire,
    child: Option<ChildGuard>,
    kind: ChannelKind,
    peer: PeerName,
    remote_addr: Option<SocketAddr>,
    tls: Option<TlsFacts>,
    end: Option<(End, Instant)>,
    /// A frame was written in part, so no other bytes may follow.
    broken_output: bool,
}

debug_only!(Channel { kind, peer });

impl Channel {
    /// Returns the channel over our own standard input and output. `from` is the peer's address, for messages.
    ///
    /// The descriptors are taken: afterwards reads from descriptor 0 find nothing and writes to descriptor 1 go to
    /// standard error, so that no stray message gets between the frames.
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

    /// Returns the two ends of a channel within this process, for tests.
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

    /// Returns the channel to a child that speaks frames on its standard input and output.
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
            security: Security::plain(),
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

    /// Returns the channel over a TLS connection after its handshake.
    pub(crate) fn over_tls(
        wire: Wire,
        connection: rustls::Connection,
        ours: PublicKey,
        peer: PeerName,
        remote_addr: SocketAddr,
        facts: TlsFacts,
    ) -> Self {
        Self {
            security: Security::tls(connection, ours),
            remote_addr: Some(remote_addr),
            tls: Some(facts),
            ..Self::plain(wire, ChannelKind::Tls, peer, None)
        }
    }

    /// Sends one frame, and returns when the system has taken all of it.
    ///
    /// # Errors
    /// Fails if the frame is too long (then nothing is sent), the deadline passed, or the connection broke.
    pub fn send(&mut self, body: &[u8], deadline: Instant) -> Result<(), ChannelError> {
        let Some(header) = frame::header(body.len()) else {
            return Err(ChannelError::SendTooLong { len_bytes: body.len() });
        };
        if self.broken_output {
            return Err(self.end_error(deadline).unwrap_or(ChannelError::Poisoned));
        }
        let sent = self.security.queue(&header, body).and_then(|()| self.drain_output("sending", deadline));
        if sent.is_err() {
            self.broken_output = true;
        }
        sent
    }

    /// Waits for the next frame until the deadline; `None` means that the deadline passed.
    ///
    /// With a deadline in the past, the call only checks for frames that have arrived.
    ///
    /// # Errors
    /// Fails if the peer closed ([`ChannelError::Closed`]) or the connection broke; frames that were complete before
    /// that are returned first.
    pub fn recv(&mut self, deadline: Instant) -> Result<Option<Vec<u8>>, ChannelError> {
        match self.receive(deadline, &[], false)? {
            Received::Frame(frame) => Ok(Some(frame)),
            Received::Deadline | Received::Woken => Ok(None),
        }
    }

    /// Does as [`recv`](Self::recv), and ends early when one of `wakes` is ready, such as an eventfd that other
    /// threads write, or, if `for_room`, when [`has_room`](Self::has_room). A frame that has arrived takes precedence.
    ///
    /// # Errors
    /// Fails as [`recv`](Self::recv) does.
    pub fn recv_or_wake(
        &mut self,
        deadline: Instant,
        wakes: &[PollFd<'_>],
        for_room: bool,
    ) -> Result<Received, ChannelError> {
        self.receive(deadline, wakes, for_room)
    }

    /// Returns whether the system takes bytes at once. A channel that is broken has room: sending shows why.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.broken_output
            || self.wire.wait(false, true, &[], Instant::now()).map_or(true, |ready| ready.output)
    }

    /// Derives bytes that only the two ends of this TLS connection know (RFC 8446 section 7.5).
    ///
    /// # Errors
    /// Fails if the channel is not TLS, or `out` is empty or absurdly long.
    pub fn export(&self, label: &[u8], context: &[u8], out: &mut [u8]) -> Result<(), ChannelError> {
        match &self.security {
            Security::Plain { .. } => Err(ChannelError::NoExporter),
            Security::Tls { connection, .. } => {
                connection.export_keying_material(out, label, Some(context)).map_err(ChannelError::Tls)?;
                Ok(())
            }
        }
    }

    /// Returns whether secrets may be sent through the channel, because it is confidential and has no exporter.
    #[must_use]
    pub fn may_carry_secrets(&self) -> bool {
        self.kind != ChannelKind::Tls
    }

    /// Returns the transport of the channel.
    #[must_use]
    pub fn kind(&self) -> ChannelKind {
        self.kind
    }

    /// Returns the other end's name, for messages.
    #[must_use]
    pub fn peer(&self) -> &PeerName {
        &self.peer
    }

    /// Returns the TCP address of the other end; only TLS has one.
    #[must_use]
    pub fn remote_addr(&self) -> Option<SocketAddr> {
        self.remote_addr
    }

    /// Returns the TCP address of this end; only TLS has one.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.remote_addr?;
        rustix::net::getsockname(&self.wire).ok()?.try_into().ok()
    }

    /// Returns the parameters that TLS negotiated.
    #[must_use]
    pub fn tls(&self) -> Option<&TlsFacts> {
        self.tls.as_ref()
    }

    /// Sends the end of the stream as far as possible without waiting: no frame is sent after it. Keep receiving
    /// until the peer has ended too, or the last frames sent might not reach it.
    pub fn end_output(&mut self) {
        if !self.broken_output {
            self.security.queue_goodbye();
            let _ = self.security.flush(&self.wire);
            self.broken_output = true;
        }
        self.wire.shutdown_write();
    }

    /// Ends the stream in an orderly way: sends its end, waits until the peer has ended too, and reaps the child.
    ///
    /// Frames that still arrive are dropped.
    ///
    /// # Errors
    /// Fails if the peer did not end before the deadline, or not in an orderly way, or the child failed.
    pub fn close(mut self, deadline: Instant) -> Result<(), ChannelError> {
        if !self.broken_output {
            self.security.queue_goodbye();
            match self.drain_output("closing", deadline) {
                // A peer that closed first may be gone already; the reads below show how it ended.
                Ok(()) | Err(ChannelError::Closed) => {}
                Err(error) => return Err(error),
            }
        }
        self.wire.shutdown_write();
        self.broken_output = true;
        loop {
            match self.receive(deadline, &[], false) {
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
        self.security.update_keys();
    }

    fn receive(
        &mut self,
        deadline: Instant,
        wakes: &[PollFd<'_>],
        for_room: bool,
    ) -> Result<Received, ChannelError> {
        loop {
            if let Some(frame) = self.framer.pop() {
                return Ok(Received::Frame(frame));
            }
            let mut idle = true;
            if self.end.is_none() {
                if !self.broken_output && self.security.has_output() {
                    // TLS itself left bytes to write, such as the answer to a key update. If they cannot be written,
                    // reads show why.
                    self.broken_output = self.security.flush(&self.wire).is_err();
                }
                idle = !self.fill();
                if let Some(frame) = self.framer.pop() {
                    return Ok(Received::Frame(frame));
                }
            }
            if self.end.is_some() {
                // A child is about to exit, and its status shows why the stream ended.
                return self.end_error(deadline).map_or(Ok(Received::Deadline), Err);
            }
            if Instant::now() >= deadline {
                return Ok(Received::Deadline);
            }
            if idle {
                let write = !self.broken_output && (for_room || self.security.has_output());
                let ready =
                    self.wire.wait(true, write, wakes, deadline).map_err(ChannelError::io("waiting"))?;
                if (ready.wake || for_room && ready.output) && !ready.input {
                    return Ok(Received::Woken);
                }
            }
        }
    }

    /// Writes until nothing is left, and reads the bytes that arrive meanwhile.
    fn drain_output(&mut self, doing: &'static str, deadline: Instant) -> Result<(), ChannelError> {
        loop {
            if let Err(source) = self.security.flush(&self.wire) {
                if !is_cut(&source) {
                    return Err(ChannelError::Io { doing, source });
                }
                // The peer's last bytes, such as a TLS alert, explain more than a broken pipe.
                while self.end.is_none() && self.framer.has_room() && self.fill() {}
                if self.end.is_none() {
                    self.end = Some((End::Cut, Instant::now()));
                }
                return Err(self.end_error(deadline).unwrap_or(ChannelError::Truncated));
            }
            if !self.security.has_output() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(ChannelError::Deadline { doing });
            }
            let read = self.end.is_none() && self.framer.has_room();
            let ready = self.wire.wait(read, true, &[], deadline).map_err(ChannelError::io("waiting"))?;
            if ready.input {
                self.fill();
                if let Some((End::Failed(_), _)) = self.end {
                    return Err(self.end_error(deadline).unwrap_or(ChannelError::Poisoned));
                }
            }
        }
    }

    /// Reads once; returns false if there was nothing to read.
    fn fill(&mut self) -> bool {
        let end = match self.security.fill(&self.wire, &mut self.framer) {
            Ok(Filled::Some) => return true,
            Ok(Filled::Nothing) => return false,
            Ok(Filled::End { orderly: true }) => End::Orderly,
            Ok(Filled::End { orderly: false }) => End::Cut,
            Err(error) => End::Failed(self.named(error)),
        };
        self.end = Some((end, Instant::now()));
        true
    }

    /// Replaces the error by a better one: text in place of the first frame comes from a program that does not use
    /// frames.
    fn named(&self, error: ChannelError) -> ChannelError {
        match (&error, self.security.first_bytes()) {
            (ChannelError::Frame(_), Some(first)) if self.child.is_some() && self.framer.is_first() => {
                ChannelError::Banner { from: self.peer.clone(), text: printable(first) }
            }
            _ => error,
        }
    }

    /// Returns the reason why the stream ended. Returns `None` while a child may still explain the end by its exit
    /// status, for which it has until `patience`, and [`LAST_WORDS`] in total.
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

/// Returns foreign bytes as text for a message: one line, without characters that control a terminal.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes.trim_ascii());
    text.chars().flat_map(|c| if c == '"' { vec![c] } else { c.escape_debug().collect() }).collect()
}

impl AsFd for Channel {
    /// Returns the descriptor that becomes readable when bytes arrive, for a wait on several descriptors. A frame may
    /// be available although the descriptor is not readable: first call [`recv`](Self::recv) with a past deadline.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wire.as_fd()
    }
}

#[cfg(test)]
mod tests;
