//! [`Client`]: one connection's side of the protocol, as a value.

use std::collections::{HashMap, VecDeque};
use std::mem;

use crate::reply::{self, Filesystem, Handle, Reply, StatusCode};
use crate::request::{self, Request};
use crate::server::{Extension, Limits, Server};
use crate::wire::{Fields, Malformed, PACKET_BYTES_MAX};

/// The maximum number of requests in flight; [`Client::has_room`] returns whether there are fewer.
pub const REQUESTS_MAX: usize = 32 * 1024;
const LENGTH_BYTES: usize = 4;
/// The length from which the missing part of a packet is worth a separate read.
const SPACE_BYTES_MIN: usize = 4096;
/// The number of long buffers kept for reuse.
const SPARE_BUFFERS_MAX: usize = 64;
/// The approximate length of the pieces in which short packets are sent together.
const PIECE_BYTES: usize = 32 * 1024;
/// The expected length of a list of names, which may be as long as a packet; OpenSSH's has 100 names.
const NAMES_BYTES_EXPECTED: usize = 16 * 1024;
/// The number of bytes that a short request or reply counts for.
const SHORT_BYTES: usize = 128;

/// The number of a request.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct RequestId(u32);

/// A request in flight.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// The type of its packet.
    code: u8,
    /// The extension of the request, if its replies differ by that.
    extension: Option<Extension>,
    /// The maximum data of the reply.
    data_bytes: usize,
    /// Its share of the bytes in flight.
    cost_bytes: usize,
}

#[derive(Debug)]
enum State {
    /// `VERSION` has not arrived.
    Greeting,
    Ready(Server),
}

/// A piece of the bytes to be sent.
#[derive(Debug)]
enum Piece {
    Bytes(Vec<u8>),
    Data { bytes: usize },
}

/// The next bytes to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outgoing<'a> {
    /// These bytes.
    Bytes(&'a [u8]),
    /// This much of the data that a [`Client::write_from`] has announced; its caller has them.
    Data {
        /// The number of bytes.
        bytes: usize,
    },
}

/// A packet with data to be written. It is filled in place, and then sent with [`Client::send`].
#[derive(Debug)]
pub struct PacketInHand {
    packet: Vec<u8>,
    start: usize,
    id: u32,
}

impl PacketInHand {
    /// Returns the data, which has no meaning at first.
    pub fn data_mut(&mut self) -> &mut [u8] {
        &mut self.packet[self.start..]
    }
}

/// The client of one connection: requests in, bytes out; bytes in, replies out.
///
/// Each reply is matched by number and must answer its request; anything else is [`Malformed`], after which the
/// connection is unusable: whatever else arrives is the same error.
#[derive(Debug)]
pub struct Client {
    state: State,
    /// The answer to `limits@openssh.com` has not arrived.
    awaits_limits: bool,
    next: u32,
    asked: HashMap<u32, Asked>,
    bytes_under_way: usize,
    /// The bytes to be sent, in pieces, and the number of sent bytes of the first.
    outgoing: VecDeque<Piece>,
    sent_bytes: usize,
    /// The packet that is arriving, in its full length, and its number of received bytes.
    arriving: Vec<u8>,
    arrived_bytes: usize,
    length: [u8; LENGTH_BYTES],
    length_bytes: usize,
    replies: VecDeque<(RequestId, Reply)>,
    spare: Vec<Vec<u8>>,
    /// How the server broke the protocol.
    broken: Option<Malformed>,
}

impl Default for Client {
    fn default() -> Self {
        Self::new()
    }
}

impl Client {
    /// Returns a new client, whose first bytes to be sent are its greeting.
    #[must_use]
    pub fn new() -> Self {
        let init = [0, 0, 0, 5, request::INIT, 0, 0, 0, 3].to_vec();
        Self {
            state: State::Greeting,
            awaits_limits: false,
            next: 0,
            asked: HashMap::new(),
            bytes_under_way: 0,
            outgoing: VecDeque::from([Piece::Bytes(init)]),
            sent_bytes: 0,
            arriving: Vec::new(),
            arrived_bytes: 0,
            length: [0; LENGTH_BYTES],
            length_bytes: 0,
            replies: VecDeque::new(),
            spare: Vec::new(),
            broken: None,
        }
    }

    /// Returns the server, once it has greeted. Requests may follow at once; until [`Self::knows_limits`] its limits are
    /// those of a server that tells none.
    #[must_use]
    pub fn server(&self) -> Option<&Server> {
        match &self.state {
            State::Ready(server) => Some(server),
            State::Greeting => None,
        }
    }

    /// Returns whether the server has greeted, and has told its limits if it tells any.
    #[must_use]
    pub fn knows_limits(&self) -> bool {
        matches!(self.state, State::Ready(_)) && !self.awaits_limits
    }

    /// Returns the number of bytes of the requests in flight: those to be written, and those to be read.
    #[must_use]
    pub fn bytes_under_way(&self) -> usize {
        self.bytes_under_way
    }

    /// Returns the number of requests in flight.
    #[must_use]
    pub fn requests_under_way(&self) -> usize {
        self.asked.len()
    }

    /// Returns whether one more request may be made.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.asked.len() < REQUESTS_MAX
    }

    /// Adds a request to the bytes to be sent.
    ///
    /// # Panics
    /// Panics if a read is longer than the server's [`Limits`] allow, or [`REQUESTS_MAX`] are in flight.
    pub fn request(&mut self, request: &Request<'_>) -> RequestId {
        let data_bytes = match *request {
            Request::Read { length_bytes, .. } => length_bytes as usize,
            _ => 0,
        };
        let extension = match request {
            Request::StatVfs { .. } => Some(Extension::StatVfs),
            Request::Limits => Some(Extension::Limits),
            Request::ExpandPath { .. } => Some(Extension::ExpandPath),
            _ => None,
        };
        let cost_bytes = match request {
            Request::ReadDirectory { .. } => NAMES_BYTES_EXPECTED,
            _ => data_bytes + SHORT_BYTES,
        };
        let code = request.code();
        let id = self.ask(Asked { code, extension, data_bytes, cost_bytes });
        self.put_short(0, |piece| request.put(id, piece));
        RequestId(id)
    }

    /// Adds a short packet, or the front of one that `data_bytes` bytes follow, to the bytes to be sent.
    fn put_short(&mut self, data_bytes: usize, put: impl FnOnce(&mut Vec<u8>)) {
        let mut piece = match self.outgoing.pop_back() {
            Some(Piece::Bytes(piece)) if piece.len() < PIECE_BYTES => piece,
            last => {
                self.outgoing.extend(last);
                Vec::with_capacity(1024)
            }
        };
        let start = piece.len();
        piece.extend_from_slice(&[0; LENGTH_BYTES]);
        put(&mut piece);
        let length = piece.len() - start - LENGTH_BYTES + data_bytes;
        assert!(length <= PACKET_BYTES_MAX, "a packet holds so much");
        piece[start..start + LENGTH_BYTES].copy_from_slice(&(length as u32).to_be_bytes());
        self.outgoing.push_back(Piece::Bytes(piece));
    }

    /// Writes `data_bytes` bytes to a file, at `offset`, that the caller sends itself when they are due
    /// ([`Outgoing::Data`]).
    ///
    /// # Panics
    /// Panics if `data_bytes` is more than a packet holds, or [`REQUESTS_MAX`] are in flight.
    pub fn write_from(&mut self, handle: &Handle, offset: u64, data_bytes: usize) -> RequestId {
        let cost_bytes = data_bytes + SHORT_BYTES;
        let id = self.ask(Asked { code: request::WRITE, extension: None, data_bytes: 0, cost_bytes });
        self.put_short(data_bytes, |front| request::put_write(id, handle, offset, data_bytes, front));
        self.outgoing.push_back(Piece::Data { bytes: data_bytes });
        RequestId(id)
    }

    /// Returns a packet to write `data_bytes` bytes to a file, at `offset`. It is in flight once it is sent; a packet
    /// that is dropped has no effect.
    ///
    /// # Panics
    /// Panics if `data_bytes` is more than a packet holds.
    pub fn packet(&mut self, handle: &Handle, offset: u64, data_bytes: usize) -> PacketInHand {
        let mut packet = self.spare.pop().unwrap_or_default();
        let id = self.fresh_id();
        let mut front = Vec::with_capacity(64 + handle.as_bytes().len());
        front.extend_from_slice(&[0; LENGTH_BYTES]);
        request::put_write(id, handle, offset, data_bytes, &mut front);
        let start = front.len();
        let length = start - LENGTH_BYTES + data_bytes;
        assert!(length <= PACKET_BYTES_MAX, "a packet holds so much");
        front[..LENGTH_BYTES].copy_from_slice(&(length as u32).to_be_bytes());
        packet.resize(start + data_bytes, 0);
        packet[..start].copy_from_slice(&front);
        PacketInHand { packet, start, id }
    }

    /// Sends a filled packet.
    ///
    /// # Panics
    /// Panics if [`REQUESTS_MAX`] are in flight.
    pub fn send(&mut self, PacketInHand { packet, id, .. }: PacketInHand) -> RequestId {
        let asked = Asked {
            code: request::WRITE,
            extension: None,
            data_bytes: 0,
            cost_bytes: packet.len() + SHORT_BYTES,
        };
        self.note(id, asked);
        self.outgoing.push_back(Piece::Bytes(packet));
        RequestId(id)
    }

    fn fresh_id(&mut self) -> u32 {
        // A request keeps its number even if it is held back while four thousand million others are sent.
        while self.asked.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let id = self.next;
        self.next = self.next.wrapping_add(1);
        id
    }

    fn ask(&mut self, asked: Asked) -> u32 {
        let id = self.fresh_id();
        self.note(id, asked);
        id
    }

    fn note(&mut self, id: u32, asked: Asked) {
        assert!(self.has_room(), "callers look for room first");
        assert!(asked.data_bytes < PACKET_BYTES_MAX, "callers ask for what a packet holds");
        self.bytes_under_way += asked.cost_bytes;
        self.asked.insert(id, asked);
    }

    /// Returns the bytes to be sent, if any. Report sent bytes with [`Self::transmitted`].
    pub fn poll_transmit(&self) -> impl Iterator<Item = Outgoing<'_>> {
        let sent_bytes = self.sent_bytes;
        self.outgoing.iter().enumerate().map(move |(index, piece)| {
            let skipped = if index == 0 { sent_bytes } else { 0 };
            match piece {
                Piece::Bytes(bytes) => Outgoing::Bytes(&bytes[skipped..]),
                Piece::Data { bytes } => Outgoing::Data { bytes: bytes - skipped },
            }
        })
    }

    /// Returns whether there are bytes to be sent.
    #[must_use]
    pub fn wants_to_send(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Removes the first `bytes` of the bytes to be sent.
    ///
    /// # Panics
    /// Panics if there were fewer.
    pub fn transmitted(&mut self, mut bytes: usize) {
        while bytes > 0 {
            let length = match self.outgoing.front().expect("no more was sent than there was") {
                Piece::Bytes(piece) => piece.len(),
                Piece::Data { bytes } => *bytes,
            };
            let left = length - self.sent_bytes;
            if bytes < left {
                self.sent_bytes += bytes;
                return;
            }
            bytes -= left;
            self.sent_bytes = 0;
            if let Some(Piece::Bytes(piece)) = self.outgoing.pop_front() {
                self.recycle(piece);
            }
        }
    }

    /// Takes a long buffer back for reuse.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        if buffer.capacity() >= SPACE_BYTES_MIN && self.spare.len() < SPARE_BUFFERS_MAX {
            self.spare.push(buffer);
        }
    }

    /// Returns space for the next bytes of a long packet, if one is arriving: the caller reads into its front and
    /// calls [`Self::filled`], which saves a copy.
    pub fn space(&mut self) -> Option<&mut [u8]> {
        let space = self.arriving.get_mut(self.arrived_bytes..)?;
        (space.len() >= SPACE_BYTES_MIN).then_some(space)
    }

    /// Records that this many bytes of [`Self::space`] have been received.
    ///
    /// # Errors
    /// The server breaks the protocol.
    ///
    /// # Panics
    /// Panics if there was less space.
    pub fn filled(&mut self, bytes: usize) -> Result<(), Malformed> {
        self.arrived_bytes += bytes;
        assert!(self.arrived_bytes <= self.arriving.len(), "no more was read than there was room for");
        self.unless_broken(Self::complete)
    }

    /// Takes received bytes.
    ///
    /// # Errors
    /// The server breaks the protocol.
    pub fn handle(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        self.unless_broken(|client| client.arrive(bytes))
    }

    fn unless_broken(
        &mut self,
        go_on: impl FnOnce(&mut Self) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        if self.broken.is_none() {
            self.broken = go_on(self).err();
        }
        self.broken.map_or(Ok(()), Err)
    }

    fn arrive(&mut self, mut bytes: &[u8]) -> Result<(), Malformed> {
        while !bytes.is_empty() {
            if self.length_bytes < LENGTH_BYTES {
                let taken = bytes.len().min(LENGTH_BYTES - self.length_bytes);
                self.length[self.length_bytes..][..taken].copy_from_slice(&bytes[..taken]);
                self.length_bytes += taken;
                bytes = &bytes[taken..];
                if self.length_bytes == LENGTH_BYTES {
                    self.begin()?;
                }
                continue;
            }
            let missing = self.arriving.len() - self.arrived_bytes;
            let taken = bytes.len().min(missing);
            self.arriving[self.arrived_bytes..][..taken].copy_from_slice(&bytes[..taken]);
            self.arrived_bytes += taken;
            bytes = &bytes[taken..];
            self.complete()?;
        }
        Ok(())
    }

    /// Handles the length of a packet.
    fn begin(&mut self) -> Result<(), Malformed> {
        let bytes = u32::from_be_bytes(self.length) as usize;
        if bytes == 0 || bytes > PACKET_BYTES_MAX {
            return Err(Malformed::PacketLength { bytes });
        }
        if bytes >= SPACE_BYTES_MIN {
            self.arriving = self.spare.pop().unwrap_or_default();
        }
        self.arriving.resize(bytes, 0);
        Ok(())
    }

    /// Handles a complete packet.
    fn complete(&mut self) -> Result<(), Malformed> {
        if self.arrived_bytes < self.arriving.len() {
            return Ok(());
        }
        let packet = mem::take(&mut self.arriving);
        self.arrived_bytes = 0;
        self.length_bytes = 0;
        match self.take(packet)? {
            Some(mut packet) if packet.capacity() < SPACE_BYTES_MIN => {
                packet.clear();
                self.arriving = packet;
            }
            Some(packet) => self.recycle(packet),
            None => {}
        }
        Ok(())
    }

    /// Returns the buffer unless the reply keeps it.
    fn take(&mut self, packet: Vec<u8>) -> Result<Option<Vec<u8>>, Malformed> {
        let code = packet[0];
        if let State::Greeting = self.state {
            if code != reply::VERSION {
                return Err(Malformed::Type { code });
            }
            let server = Server::parse(&packet[1..])?;
            self.awaits_limits = server.has(Extension::Limits);
            if self.awaits_limits {
                self.request(&Request::Limits);
            }
            self.state = State::Ready(server);
            return Ok(Some(packet));
        }
        let id = Fields::new(&packet[1..], "packet").u32()?;
        let asked = self.asked.remove(&id).ok_or(Malformed::Unasked { id })?;
        self.bytes_under_way -= asked.cost_bytes;
        let body = &packet[5..];
        if asked.extension == Some(Extension::Limits)
            && let State::Ready(server) = &mut self.state
        {
            server.limits = match code {
                reply::EXTENDED_REPLY => Limits::parse(body)?,
                // The extension was announced but is not supported: it counts as not announced.
                reply::STATUS => Limits::default(),
                _ => return Err(Malformed::Unfit { code, asked: asked.code }),
            };
            self.awaits_limits = false;
            return Ok(Some(packet));
        }
        if code == reply::DATA && asked.code == request::READ {
            let data = reply::data(packet, asked.data_bytes)?;
            self.replies.push_back((RequestId(id), Reply::Data(data)));
            return Ok(None);
        }
        let reply = self.read(code, &asked, body)?;
        self.replies.push_back((RequestId(id), reply));
        Ok(Some(packet))
    }

    fn read(&self, code: u8, asked: &Asked, body: &[u8]) -> Result<Reply, Malformed> {
        let unfit = Malformed::Unfit { code, asked: asked.code };
        match (code, asked.code) {
            (reply::STATUS, _) => {
                let status = reply::status(body)?;
                let is_answer = status.code != StatusCode::Ok || is_done_by_status(asked);
                // The server reports success, and does not send the requested reply.
                if is_answer { Ok(Reply::Status(status)) } else { Err(unfit) }
            }
            (reply::HANDLE, request::OPEN | request::OPENDIR) => Ok(Reply::Handle(reply::handle(body)?)),
            (reply::NAME, request::READDIR) => Ok(Reply::Names(reply::names(body, reply::NAME_BYTES_MAX)?)),
            (reply::NAME, request::REALPATH | request::READLINK) => one_name(body),
            (reply::NAME, request::EXTENDED) if asked.extension == Some(Extension::ExpandPath) => {
                one_name(body)
            }
            (reply::ATTRS, request::LSTAT | request::STAT | request::FSTAT) => {
                Ok(Reply::Attributes(reply::attributes(body)?))
            }
            (reply::EXTENDED_REPLY, request::EXTENDED) if asked.extension == Some(Extension::StatVfs) => {
                Ok(Reply::Filesystem(Filesystem::parse(body)?))
            }
            (reply::STATUS..=reply::ATTRS | reply::EXTENDED_REPLY, _) => Err(unfit),
            _ => Err(Malformed::Type { code }),
        }
    }

    /// Returns the next reply.
    pub fn poll_reply(&mut self) -> Option<(RequestId, Reply)> {
        self.replies.pop_front()
    }

    /// Gives up, and returns every request in flight that has no reply, in the order in which they were made.
    pub fn abandon(&mut self) -> Vec<RequestId> {
        let mut ids: Vec<_> = self.asked.drain().map(|(id, _)| id).collect();
        // Numbers wrap around after four thousand million requests, which only disturbs the order.
        ids.sort_unstable();
        self.bytes_under_way = 0;
        ids.into_iter().map(RequestId).collect()
    }
}

/// Returns whether a status is the only possible reply.
fn is_done_by_status(asked: &Asked) -> bool {
    match asked.code {
        request::CLOSE
        | request::WRITE
        | request::SETSTAT
        | request::FSETSTAT
        | request::REMOVE
        | request::MKDIR
        | request::RMDIR
        | request::RENAME
        | request::SYMLINK => true,
        request::EXTENDED => asked.extension.is_none(),
        _ => false,
    }
}

fn one_name(body: &[u8]) -> Result<Reply, Malformed> {
    let names = reply::names(body, reply::PATH_BYTES_MAX)?;
    match names.len() {
        1 => Ok(Reply::Names(names)),
        asked => Err(Malformed::Amount { bytes: asked, asked: 1 }),
    }
}
