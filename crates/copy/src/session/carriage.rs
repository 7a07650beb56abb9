//! One data stream inside the control channel: it needs no port, no process and no login of its own.
//!
//! The client opens it and the server passes it on to its own port, so that both ends treat it like any other: the bytes are
//! the stream's sealed records, and its join proves who opens it.
//!
//! Guarantees: each direction has at most [`WINDOW_BYTES`] under way, and no more is kept for a peer; bytes go only where the
//! channel takes them at once, so messages of the transfer are never far behind; a stream that has ended at one end ends at
//! the other.

use std::{
    io,
    net::SocketAddr,
    os::unix::net::UnixStream,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use rustix::event::{PollFd, PollFlags};
use sealane_peer::Channel;

use crate::{
    error::Error,
    proto::message::Message,
    session::messages,
    socket::{self, Socket, Wire},
};

/// The maximum number of bytes under way in each direction. A frame queue of the channel holds as many.
const WINDOW_BYTES: usize = 1 << 20;
/// The maximum number of bytes per message.
const PIECE_BYTES: usize = 64 << 10;
/// The number of passed bytes that are reported at once.
const REPORT_BYTES: usize = WINDOW_BYTES / 4;
/// The number of pieces that are sent before the channel is read again.
const PIECES_A_TURN: usize = 4;
/// The time that a connection to this end's own port may take.
const OWN_PORT_PATIENCE: Duration = Duration::from_secs(1);

/// The place from which a connecting thread takes a stream inside the channel. The newest replaces others.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seat(Arc<Mutex<Option<Socket>>>);

impl Seat {
    fn other(&self) -> MutexGuard<'_, Option<Socket>> {
        self.0.lock().expect("no thread panics holding a socket")
    }

    /// Returns the stream's end. The control thread must be woken to find the other.
    pub(crate) fn connect(&self) -> io::Result<Socket> {
        let (one, other) = UnixStream::pair()?;
        *self.other() = Some(Socket::new(other.into())?);
        Socket::new(one.into())
    }
}

/// An end's part in a stream inside its channel.
#[derive(Debug, Default)]
pub(crate) enum Part {
    /// It has none.
    #[default]
    None,
    /// It opens the stream.
    Opens(Seat),
    /// It passes the stream on to its own port.
    PassesOn(SocketAddr),
}

/// One end of the stream inside the channel.
#[derive(Debug, Default)]
pub(crate) struct Carriage {
    part: Part,
    /// The number of the current or last opening.
    opening: u32,
    socket: Option<Socket>,
    /// The number of bytes that the peer has room for.
    room: usize,
    /// Bytes for the peer; `Some` and empty is the end of the stream.
    outgoing: Option<Vec<u8>>,
    /// Bytes from the peer, of which the first `passed` are passed on.
    incoming: Vec<u8>,
    passed: usize,
    /// The number of bytes passed on that the peer has not been told of.
    unreported: usize,
}

impl Carriage {
    pub(crate) fn new(part: Part) -> Self {
        Self { part, ..Self::default() }
    }

    fn begin(&mut self, opening: u32, socket: Socket) {
        let part = std::mem::take(&mut self.part);
        *self = Self { part, opening, socket: Some(socket), room: WINDOW_BYTES, ..Self::default() };
    }

    /// Passes on what can be passed on without waiting. Returns whether there may be more at once.
    pub(crate) fn work(&mut self, channel: &mut Channel) -> Result<bool, Error> {
        let opened = match &self.part {
            Part::Opens(seat) => seat.other().take(),
            Part::None | Part::PassesOn(_) => None,
        };
        if let Some(socket) = opened {
            self.begin(self.opening.wrapping_add(1), socket);
        }
        if self.socket.is_none() && self.outgoing.is_none() {
            return Ok(false);
        }
        self.pass_on();
        if self.unreported >= REPORT_BYTES {
            let bytes = std::mem::take(&mut self.unreported) as u32;
            messages::send(channel, &Message::Carried { opening: self.opening, bytes })?;
        }
        for _ in 0..PIECES_A_TURN {
            self.collect();
            if self.outgoing.is_none() || !channel.has_room() {
                return Ok(false);
            }
            if let Some(bytes) = self.outgoing.take() {
                messages::send(channel, &Message::Carry { opening: self.opening, bytes })?;
            }
        }
        Ok(true)
    }

    /// Reads the stream's next bytes for the peer, if it has room.
    fn collect(&mut self) {
        let Some(socket) = &self.socket else { return };
        if self.outgoing.is_some() || self.room == 0 {
            return;
        }
        let mut bytes = vec![0; PIECE_BYTES.min(self.room)];
        match socket.try_recv(&mut bytes) {
            Ok(None) => {}
            Ok(Some(length)) if length > 0 => {
                bytes.truncate(length);
                self.room -= length;
                self.outgoing = Some(bytes);
            }
            Ok(Some(_)) | Err(_) => self.end(),
        }
    }

    /// The stream has ended here.
    fn end(&mut self) {
        self.socket = None;
        self.incoming = Vec::new();
        self.passed = 0;
        self.outgoing = Some(Vec::new());
    }

    /// Writes the peer's bytes to the stream, as far as it takes them.
    fn pass_on(&mut self) {
        while self.passed < self.incoming.len() {
            let Some(socket) = &self.socket else { return };
            match socket.try_send(&self.incoming[self.passed..]) {
                Ok(Some(sent)) => {
                    self.passed += sent;
                    self.unreported += sent;
                }
                Ok(None) => return,
                Err(_) => return self.end(),
            }
        }
        self.incoming.clear();
        self.passed = 0;
    }

    /// Takes bytes from the peer.
    pub(crate) fn take(&mut self, opening: u32, bytes: &[u8]) -> Result<(), Error> {
        if opening > self.opening
            && let Part::PassesOn(port) = self.part
        {
            let connected = socket::connect_any(&[port], OWN_PORT_PATIENCE, None, &|| true);
            match connected {
                Ok(socket) => self.begin(opening, socket),
                // An end that has finished closes its port.
                Err(_) => {
                    self.opening = opening;
                    self.end();
                }
            }
        }
        if opening > self.opening || matches!(self.part, Part::None) {
            return Err(Error::protocol("a data stream inside the control channel, which nobody asked for"));
        }
        // Bytes of an earlier opening, or of one that has ended here, are of no use.
        if opening < self.opening || self.socket.is_none() {
            return Ok(());
        }
        if bytes.is_empty() {
            self.pass_on();
            // Bytes that the stream does not take are sent again on another.
            self.socket = None;
            return Ok(());
        }
        if self.incoming.len() - self.passed + self.unreported + bytes.len() > WINDOW_BYTES {
            return Err(Error::protocol("more data inside the control channel than there is room for"));
        }
        if self.passed > 0 {
            self.incoming.drain(..std::mem::take(&mut self.passed));
        }
        self.incoming.extend_from_slice(bytes);
        self.pass_on();
        Ok(())
    }

    /// The peer has passed on this number of bytes.
    pub(crate) fn make_room(&mut self, opening: u32, bytes: u32) -> Result<(), Error> {
        if opening > self.opening || matches!(self.part, Part::None) {
            return Err(Error::protocol("an account of a data stream that there is not"));
        }
        if opening < self.opening {
            return Ok(());
        }
        self.room += bytes as usize;
        match self.room <= WINDOW_BYTES {
            true => Ok(()),
            false => Err(Error::protocol("an account of more data than was sent inside the control channel")),
        }
    }

    /// Returns the operations of the stream's connection to wait for, and whether to wait for room in the channel.
    pub(crate) fn wants(&self) -> (Option<PollFd<'_>>, bool) {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, self.outgoing.is_none() && self.room > 0);
        flags.set(PollFlags::OUT, self.passed < self.incoming.len());
        let socket = self.socket.as_ref().filter(|_| !flags.is_empty());
        (socket.map(|socket| PollFd::new(socket, flags)), self.outgoing.is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{Read, Write},
        net::{Ipv4Addr, TcpListener},
        thread,
        time::Instant,
    };

    use super::*;
    use crate::error::ErrorKind;

    fn listener() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        (listener, address)
    }

    /// Does what the control thread does. Returns whether anything moved.
    fn turn(carriage: &mut Carriage, channel: &mut Channel) -> bool {
        let is_busy = carriage.work(channel).unwrap();
        let Some(frame) = channel.recv(Instant::now()).unwrap() else { return is_busy };
        match Message::decode(&frame).unwrap() {
            Message::Carry { opening, bytes } => carriage.take(opening, &bytes).unwrap(),
            Message::Carried { opening, bytes } => carriage.make_room(opening, bytes).unwrap(),
            other => panic!("{other:?}"),
        }
        true
    }

    /// Several windows of bytes go both ways, as they are, whatever is read late; then the stream is opened again.
    #[test]
    fn a_stream_inside_the_channel_is_like_one_beside_it() {
        let (listener, port) = listener();
        let echo = thread::spawn(move || {
            for _ in 0..2 {
                let (mut socket, _) = listener.accept().unwrap();
                let mut buffer = vec![0; 100_000];
                loop {
                    match socket.read(&mut buffer).unwrap_or(0) {
                        0 => break,
                        // A client that is gone takes nothing.
                        length => drop(socket.write_all(&buffer[..length])),
                    }
                }
            }
        });
        let seat = Seat::default();
        let (mut near, mut far) = Channel::pair().unwrap();
        let (mut opens, mut passes) =
            (Carriage::new(Part::Opens(seat.clone())), Carriage::new(Part::PassesOn(port)));
        for opening in 0..2u8 {
            let socket = seat.connect().unwrap();
            let sent: Vec<u8> = (0..5 * WINDOW_BYTES).map(|at| (at / 7) as u8 ^ opening).collect();
            let (mut at, mut received, mut buffer) = (0, Vec::new(), vec![0; 60_000]);
            while received.len() < sent.len() {
                at += socket.try_send(&sent[at..]).unwrap().unwrap_or(0);
                let length = socket.try_recv(&mut buffer).unwrap().unwrap_or(0);
                received.extend_from_slice(&buffer[..length]);
                let moved = turn(&mut opens, &mut near) | turn(&mut passes, &mut far);
                if !moved && length == 0 {
                    thread::yield_now();
                }
            }
            assert!(sent == received, "opening {opening}");
        }
        drop(seat.connect());
        while opens.socket.is_some() || passes.socket.is_some() || passes.opening < 3 {
            turn(&mut opens, &mut near);
            turn(&mut passes, &mut far);
            thread::yield_now();
        }
        echo.join().unwrap();
    }

    #[test]
    fn a_peer_that_takes_liberties_is_refused() {
        let is_refused =
            |outcome: Result<(), Error>| outcome.is_err_and(|error| error.kind == ErrorKind::Protocol);
        let (listener, port) = listener();
        let mut passes = Carriage::new(Part::PassesOn(port));
        passes.take(1, b"some").unwrap();
        let (_kept, _) = listener.accept().unwrap();
        // The connection takes some of it, and no more than that and a window are kept.
        let piece = vec![0; PIECE_BYTES];
        assert!((0..1000).any(|_| is_refused(passes.take(1, &piece))));
        assert!(passes.incoming.len() <= WINDOW_BYTES);
        assert!(is_refused(passes.make_room(1, 1)));
        assert!(is_refused(passes.make_room(2, 0)));
        let mut none = Carriage::new(Part::None);
        assert!(is_refused(none.take(1, b"some")));
        assert!(is_refused(none.take(0, b"some")));
        assert!(is_refused(none.make_room(0, 0)));
        // A server opens none.
        let mut opens = Carriage::new(Part::Opens(Seat::default()));
        assert!(is_refused(opens.take(1, b"some")));
    }

    #[test]
    fn a_stream_to_a_port_that_is_closed_ends() {
        let (gone, port) = listener();
        drop(gone);
        let (mut near, mut far) = Channel::pair().unwrap();
        let mut passes = Carriage::new(Part::PassesOn(port));
        passes.take(1, b"some").unwrap();
        passes.work(&mut near).unwrap();
        let frame = far.recv(Instant::now() + Duration::from_secs(20)).unwrap().unwrap();
        assert_eq!(Message::decode(&frame).unwrap(), Message::Carry { opening: 1, bytes: Vec::new() });
        // Further bytes of it are of no use.
        passes.take(1, b"more").unwrap();
        passes.take(0, b"late").unwrap();
    }
}
