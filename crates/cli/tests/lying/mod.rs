//! Peers that lie. They greet, prove their identity and derive the right keys, and then lie: the hostile end of a
//! transfer is written here with the protocol's own codecs, so that it can send anything.

// Each test program uses only a part of this module.
#![allow(dead_code)]

pub(crate) mod lies;
pub(crate) mod offers;
pub(crate) mod relayed;
pub(crate) mod scene;
pub(crate) mod versions;

use lies::Fate;
use sealane_copy::proto::entry::encode;
use sealane_copy::proto::join::{JOIN_BYTES, JOINED_BYTES, Join, Joined, Prover, decode};
use sealane_copy::proto::keys::{EXPORTER_LABEL, StreamDirection, TransferKeys};
use sealane_copy::proto::message::{
    Abort, Accept, DataPath, Hello, Message, Numbers, PROTOCOL_VERSION, Request, Role,
};
use sealane_copy::proto::record::{Kind, seal};
use sealane_copy::{Delta, Following, Level, Preserve, Suite, Wishes};
use sealane_engine::Implementations;
use sealane_engine::record::{Association, Secret};
use sealane_peer::{
    Application, AuthorisedPeers, Channel, HostPort, Identity, ServerTrust, accept_tls, connect_tls,
};
use serde::Serialize;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The level that every liar requests.
const LEVEL: Level = Level::Private;
const SUITE: Suite = Suite::Aes128Gcm;
/// Time within which the honest end reports its verdict about a lie.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

fn soon() -> Instant {
    Instant::now() + PATIENCE
}

/// One data stream of a liar.
pub(crate) struct Line {
    socket: TcpStream,
    keys: Association,
}

impl Line {
    /// Returns a record as on the wire, with the next number and a valid tag.
    pub(crate) fn seal(&mut self, kind: Kind, file: u32, offset: u64, body: &[u8]) -> Vec<u8> {
        seal(&mut self.keys, kind, file, offset, body)
    }

    /// Sends a record. The honest end may have hung up already.
    pub(crate) fn send(&mut self, kind: Kind, file: u32, offset: u64, body: &[u8]) {
        let record = self.seal(kind, file, offset, body);
        self.raw(&record);
    }

    /// Sends a record with a body of the data streams' codec.
    pub(crate) fn say(&mut self, kind: Kind, file: u32, offset: u64, body: &impl Serialize) {
        let mut bytes = vec![0; 64 << 10];
        let length = encode(body, &mut bytes).expect("it fits");
        self.send(kind, file, offset, &bytes[..length]);
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        let _ = self.socket.write_all(bytes);
    }

    /// Reads until some bytes have arrived or the stream ends.
    pub(crate) fn read(&mut self) -> usize {
        let _ = self.socket.set_read_timeout(Some(Duration::from_secs(2)));
        self.socket.read(&mut [0; 4096]).unwrap_or(0)
    }
}

enum Door {
    Connect(SocketAddr),
    Listen(TcpListener),
}

/// The honest end's reaction to a lie.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It gave up and reported it.
    Aborted(Abort),
    /// It closed the connection.
    Ended,
    /// It completed the transfer.
    Complete,
    /// It did not react.
    Silent,
}

/// One end of a transfer that both ends have agreed on.
pub(crate) struct Liar {
    pub(crate) channel: Channel,
    pub(crate) request: Request,
    keys: TransferKeys,
    prover: Prover,
    door: Door,
    generation: u32,
}

/// Returns a request that an honest client could make: `path` is the target of a push or the source of a pull.
pub(crate) fn request(role: Role, path: &str, transfer: [u8; 16]) -> Request {
    let wishes = Wishes {
        recursive: true,
        level: LEVEL,
        delta: Delta::Never,
        skip_same: false,
        preserve: Preserve { hard_links: true, ..Preserve::default() },
        following: Following::Nowhere,
        timeout: Duration::from_secs(5),
        ..Wishes::default()
    };
    Request {
        transfer,
        role,
        paths: vec![path.into()],
        name: None,
        names: vec![b"asked".to_vec()],
        into_directory: role == Role::Push,
        wishes,
        suite: SUITE.code(),
        streams: Some(2),
        streams_max: None,
        lanes: None,
        packet_placement: None,
        secret: None,
        data_path: DataPath::Direct,
        journal: Some(transfer),
        globs: false,
        listed: None,
        relayed: false,
        numbers: Numbers::default(),
    }
}

/// Returns an honest greeting.
pub(crate) fn hello() -> Message {
    Message::Hello(Hello { version: PROTOCOL_VERSION, program: "sealane liar".into(), processors: 2 })
}

fn keys(channel: &Channel, request: &Request, asked: &[u8], answer: &[u8]) -> TransferKeys {
    let mut master = [0; 32];
    channel.export(EXPORTER_LABEL, &request.transfer, &mut master).expect("TLS exports");
    TransferKeys::new(Implementations::default(), &Secret::new(master), asked, answer)
}

/// Sends a message; the honest end may have closed the connection already.
pub(crate) fn tell(channel: &mut Channel, message: &Message) {
    let _ = channel.send(&message.encode(), soon());
}

fn hear(channel: &mut Channel) -> Option<(Message, Vec<u8>)> {
    let frame = channel.recv(soon()).ok()??;
    Some((Message::decode(&frame).expect("the honest end keeps to the protocol"), frame))
}

/// Waits for the honest end's last message.
pub(crate) fn verdict(channel: &mut Channel, patience: Duration) -> Verdict {
    let until = Instant::now() + patience;
    loop {
        match channel.recv(until) {
            Ok(None) => return Verdict::Silent,
            Err(_) => return Verdict::Ended,
            Ok(Some(frame)) => match Message::decode(&frame) {
                Ok(Message::Abort(abort)) => return Verdict::Aborted(abort),
                Ok(Message::Complete(_)) => return Verdict::Complete,
                _ => {}
            },
        }
    }
}

/// Opens a TLS channel to a daemon with an identity that it knows.
pub(crate) fn reach(address: SocketAddr, identity: &Identity) -> Channel {
    let known = tempfile::tempdir().expect("a folder");
    let trust = ServerTrust::accept_new(known.path().join("known"));
    let address = HostPort { host: address.ip().to_string(), port: address.port() };
    connect_tls(Application::Copy, &address, identity, &trust, soon()).expect("the daemon is alive")
}

impl Liar {
    /// Connects as a client to a daemon. Fails with the daemon's verdict if it does not accept.
    pub(crate) fn client(
        address: SocketAddr,
        identity: &Identity,
        request: Request,
    ) -> Result<Self, Verdict> {
        let mut channel = reach(address, identity);
        tell(&mut channel, &hello());
        let asked = Message::Request(Box::new(request.clone())).encode();
        let _ = channel.send(&asked, soon());
        loop {
            match hear(&mut channel) {
                Some((Message::Hello(_), _)) => {}
                Some((Message::Accept(accept), answer)) => {
                    let keys = keys(&channel, &request, &asked, &answer);
                    let prover = Prover::new(&keys.join(), LEVEL);
                    let door = Door::Connect(SocketAddr::new(address.ip(), accept.data_port));
                    return Ok(Self { channel, request, keys, prover, door, generation: 0 });
                }
                Some((Message::Abort(abort), _)) => return Err(Verdict::Aborted(abort)),
                Some((message, _)) => panic!("{message:?} instead of an answer"),
                None => return Err(Verdict::Ended),
            }
        }
    }

    /// Waits as a server for a client at `listener`, and accepts it. `edit` changes the honest answer.
    pub(crate) fn server(
        listener: TcpListener,
        identity: &Identity,
        client: &str,
        edit: impl FnOnce(&mut Accept),
    ) -> io::Result<Self> {
        let (stream, _) = listener.accept()?;
        let trusted = format!("{client} user rights=read,write\n");
        let trusted = AuthorisedPeers::parse(trusted.as_bytes()).map_err(io::Error::other)?;
        let accepted = accept_tls(Application::Copy, stream, identity, Arc::new(trusted), soon());
        let (mut channel, _) = accepted.map_err(io::Error::other)?;
        tell(&mut channel, &hello());
        let (request, asked) = loop {
            match hear(&mut channel) {
                Some((Message::Request(request), asked)) => break (*request, asked),
                Some((Message::Hello(_), _)) => {}
                other => return Err(io::Error::other(format!("{other:?} instead of a request"))),
            }
        };
        let mut accept = Accept {
            level: request.wishes.level,
            suite: request.suite,
            streams: request.streams.unwrap_or(1),
            streams_max: request.streams_max.or(request.streams).unwrap_or(1),
            lanes: 1,
            compression: request.wishes.compression,
            delta: request.wishes.delta,
            data_port: listener.local_addr()?.port(),
            name: None,
            may_own: true,
            may_set_privileges: false,
            numbers: Numbers::default(),
        };
        edit(&mut accept);
        let answer = Message::Accept(accept).encode();
        let _ = channel.send(&answer, soon());
        let keys = keys(&channel, &request, &asked, &answer);
        let prover = Prover::new(&keys.join(), LEVEL);
        Ok(Self { channel, request, keys, prover, door: Door::Listen(listener), generation: 0 })
    }

    pub(crate) fn tell(&mut self, message: &Message) {
        tell(&mut self.channel, message);
    }

    /// Returns whether this end of the transfer sends.
    fn sends(&self) -> bool {
        matches!(
            (&self.door, self.request.role),
            (Door::Connect(_), Role::Push) | (Door::Listen(_), Role::Pull)
        )
    }

    /// Performs the steps before data: the receiver announces the data that it has. The honest end may already give
    /// up here.
    pub(crate) fn prepare(&mut self) -> Result<(), Verdict> {
        if !self.sends() {
            self.tell(&Message::HaveEnd);
            return Ok(());
        }
        loop {
            match hear(&mut self.channel) {
                Some((Message::HaveEnd, _)) => return Ok(()),
                Some((Message::FoldersEnd, _)) => {
                    self.tell(&Message::DifferEnd);
                    return Ok(());
                }
                Some((Message::Abort(abort), _)) => return Err(Verdict::Aborted(abort)),
                Some(_) => {}
                None => return Err(Verdict::Ended),
            }
        }
    }

    /// Hears, as a sender, which folders the receiver has, and returns their number.
    pub(crate) fn folders(&mut self) -> Result<usize, Verdict> {
        let mut count = 0;
        loop {
            match hear(&mut self.channel) {
                Some((Message::Folders(told), _)) => count += told.len(),
                Some((Message::FoldersEnd, _)) => return Ok(count),
                Some((Message::Abort(abort), _)) => return Err(Verdict::Aborted(abort)),
                Some((Message::HaveEnd, _)) | None => return Err(Verdict::Ended),
                Some(_) => {}
            }
        }
    }

    /// Joins a stream with the message `join`. Returns `None` if the honest end closes the connection.
    pub(crate) fn join(&self, join: &Join) -> Option<(TcpStream, Joined)> {
        let Door::Connect(address) = &self.door else { return None };
        let mut socket = TcpStream::connect(address).ok()?;
        let _ = socket.set_read_timeout(Some(PATIENCE));
        let message = self.prover.join(join);
        socket.write_all(&message).ok()?;
        let mut answer = [0; JOINED_BYTES];
        socket.read_exact(&mut answer).ok()?;
        let joined = self.prover.verify_joined(&message, &answer).expect("the honest end proves who it is");
        Some((socket, joined))
    }

    /// Waits for a connection of the honest end and its message, and does not answer.
    pub(crate) fn joiner(&self) -> Option<(TcpStream, [u8; JOIN_BYTES], Join)> {
        let Door::Listen(listener) = &self.door else { return None };
        let (mut socket, _) = listener.accept().ok()?;
        let mut message = [0; JOIN_BYTES];
        let _ = socket.set_read_timeout(Some(PATIENCE));
        socket.read_exact(&mut message).ok()?;
        let join = decode(&message).expect("the honest end joins as it should");
        assert!(self.prover.verify_join(&message), "the honest end proves who it is");
        Some((socket, message, join))
    }

    /// Answers a join.
    pub(crate) fn answer(&self, message: &[u8; JOIN_BYTES]) -> [u8; JOINED_BYTES] {
        self.prover.joined(message, &Joined { accepted: true, taken: 0 })
    }

    /// Opens stream 0, or lets the honest end open it.
    pub(crate) fn line(&mut self) -> Option<Line> {
        let way = if self.sends() { StreamDirection::Forward } else { StreamDirection::Backward };
        match &self.door {
            Door::Connect(_) => {
                self.generation += 1;
                let generation = self.generation;
                let join = Join {
                    transfer: self.request.transfer,
                    stream: 0,
                    generation,
                    last: generation - 1,
                    taken: 0,
                };
                let (socket, _) = self.join(&join).filter(|(_, joined)| joined.accepted)?;
                Some(Line { socket, keys: self.keys.stream(SUITE, 0, generation, way) })
            }
            Door::Listen(_) => loop {
                let (mut socket, message, join) = self.joiner()?;
                socket.write_all(&self.answer(&message)).ok()?;
                if join.stream == 0 {
                    let suite = Suite::from_code(self.request.suite)?;
                    return Some(Line { socket, keys: self.keys.stream(suite, 0, join.generation, way) });
                }
            },
        }
    }
}
