//! The thread that accepts and reads connections, and makes them.

use std::{
    collections::HashMap,
    io::{self, Read as _},
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd as _,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread::Scope,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags};
use sealane_engine::Queue;
use sealane_engine::debug_only;
use sealane_ipsec::{counters::DropReason, selector::Prefix};
use sealane_lanes::Recycle as _;
use sealane_port::{Port as _, tun::Tun};

use super::{
    Connection, News, Streams,
    frames::{Frames, LENGTH_BYTES},
};
use crate::{
    host::keeper::Keeper,
    inward::{Acceptor, Arrival, Opener},
    lanes::{Lanes, while_doing},
    peers::Peers,
    pipeline::Processor as _,
};

/// The maximum number of connections.
const CONNECTIONS_MAX: usize = 20_000;
/// The maximum number of connections whose other end has not proved who it is: from one address (or one /64 of IPv6), and from
/// all.
const STRANGERS_MAX: [usize; 2] = [32, 512];
/// The time that a stranger has for the proof.
const STRANGER_TIME: Duration = Duration::from_secs(30);
/// The time that a stranger has at least, whoever else comes.
const NEW: Duration = Duration::from_secs(1);
/// The maximum length of a stranger's packet in bytes: IKE's messages with certificates.
const STRANGER_BYTES_MAX: usize = 16 << 10;
/// The number of bytes read from one connection before the next has its turn.
const READ_BYTES: usize = 256 << 10;
/// The time for a connection to be made.
const CONNECT_TIME: Duration = Duration::from_secs(5);
/// The interval between looks at deadlines.
const LOOK: Duration = Duration::from_millis(500);

/// A lane for packets that arrive in connections: it opens them, and passes them to the device.
pub struct Inward<'a> {
    peers: &'a Peers,
    opener: Opener<'a>,
    acceptor: Acceptor<'a>,
    tun: Tun,
    arrival: Arrival,
}

impl<'a> Inward<'a> {
    /// Returns a lane that opens packets through `queue`, for the device `tun`.
    pub fn new(peers: &'a Peers, queue: Box<dyn Queue>, tun: Tun) -> Self {
        let (opener, acceptor) = (Opener::new(peers, queue), Acceptor::new(peers));
        Self { peers, opener, acceptor, tun, arrival: Arrival::new() }
    }

    fn take(&mut self, packet: &[u8], connection: &Connection) -> io::Result<()> {
        if !self.arrival.batch.push_bytes(0, packet, 0) {
            self.flush(connection)?;
            if !self.arrival.batch.push_bytes(0, packet, 0) {
                self.peers.drops().count(DropReason::NoRoom);
            }
        }
        Ok(())
    }

    /// Passes on the packets that have arrived in a connection.
    fn flush(&mut self, connection: &Connection) -> io::Result<()> {
        let arrival = &mut self.arrival;
        if arrival.batch.packets.is_empty() {
            return Ok(());
        }
        // The congestion marks in TCP's own packets are answered by TCP (RFC 9329, section 6.7).
        arrival.source = Some(connection.way());
        arrival.time = Instant::now();
        self.opener.work(arrival);
        self.acceptor.accept(arrival);
        let refused = self.tun.refused_packets;
        let mut at = 0;
        while at < arrival.batch.packets.len() {
            let sent = self.tun.send(&arrival.batch, at);
            at += sent.map_err(while_doing("writing to the device"))?;
        }
        self.peers.drops().add(DropReason::NoRoom, self.tun.refused_packets - refused);
        arrival.recycle();
        Ok(())
    }
}

debug_only!(Inward<'_> {});

/// A connection that is read.
struct Reading {
    connection: Arc<Connection>,
    frames: Frames,
    since: Instant,
}

impl Reading {
    fn is_stranger(&self) -> bool {
        !self.connection.is_ours && !self.connection.is_proved.load(Relaxed)
    }
}

/// Returns the network that shares the places of strangers.
fn network(address: SocketAddr) -> Prefix {
    let ip = address.ip().to_canonical();
    Prefix::containing(ip, if ip.is_ipv4() { 32 } else { 64 })
}

/// Returns the place of the stranger that goes for one from `newcomer`, or whether there is no room; strangers are in order of
/// arrival, each with whether it is new.
fn victim(strangers: &[(Prefix, bool)], newcomer: Prefix) -> Result<Option<usize>, ()> {
    let [of_one, of_all] = STRANGERS_MAX;
    let own = || (0..strangers.len()).filter(|&at| strangers[at].0 == newcomer);
    if own().count() >= of_one {
        return own().find(|&at| !strangers[at].1).map(Some).ok_or(());
    }
    if strangers.len() < of_all {
        return Ok(None);
    }
    let mut crowds: HashMap<Prefix, usize> = HashMap::new();
    strangers.iter().for_each(|(network, _)| *crowds.entry(*network).or_default() += 1);
    // `max_by_key` returns the last of equals, so the oldest ones are looked at last.
    let old = (0..strangers.len()).rev().filter(|&at| !strangers[at].1);
    old.max_by_key(|&at| crowds[&strangers[at].0]).map(Some).ok_or(())
}

/// The thread's state.
pub struct Server<'a> {
    peers: &'a Peers,
    streams: &'a Streams,
    listeners: Vec<TcpListener>,
    /// The keeper, which creates sockets with the gateway's mark, if it has one.
    marks: Option<&'a Keeper>,
    lanes: &'a Lanes,
    inward: Inward<'a>,
    reading: Vec<Reading>,
    buffer: Vec<u8>,
}

debug_only!(Server<'_> { listeners });

impl<'a> Server<'a> {
    /// Returns a server of `streams` at `listeners`, which do not block.
    pub fn new(
        peers: &'a Peers,
        streams: &'a Streams,
        listeners: Vec<TcpListener>,
        marks: Option<&'a Keeper>,
        lanes: &'a Lanes,
        inward: Inward<'a>,
    ) -> Self {
        let buffer = vec![0; READ_BYTES];
        Self { peers, streams, listeners, marks, lanes, inward, reading: Vec::new(), buffer }
    }

    /// Runs the thread.
    ///
    /// # Errors
    /// Fails if the device cannot be written to.
    pub fn run<'scope>(mut self, scope: &'scope Scope<'scope, '_>) -> io::Result<()>
    where
        'a: 'scope,
    {
        loop {
            let ready = self.wait();
            let (listeners, connections) = ready.split_at(self.listeners.len());
            for at in (0..listeners.len()).filter(|&at| listeners[at]) {
                self.accept(at);
            }
            for (at, is_ready) in connections.iter().enumerate() {
                if *is_ready {
                    self.read(at)?;
                }
            }
            self.make(scope);
            self.end_and_begin();
        }
    }

    /// Waits until there is something to do. Returns which listeners and connections have something.
    fn wait(&self) -> Vec<bool> {
        let bell = self.streams.bell.as_fd();
        let input = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut polled = vec![input(bell)];
        polled.extend(self.listeners.iter().map(|listener| input(listener.as_fd())));
        polled.extend(self.reading.iter().map(|own| {
            let out =
                if own.connection.wants_out.load(Relaxed) { PollFlags::OUT } else { PollFlags::empty() };
            PollFd::from_borrowed_fd(own.connection.as_fd(), PollFlags::IN | out)
        }));
        // A poll that fails is repeated.
        let _ = sealane_lanes::wait(&mut polled, LOOK);
        let _ = rustix::io::read(bell, &mut [0; 8]);
        for (own, polled) in self.reading.iter().zip(&polled[1 + self.listeners.len()..]) {
            if polled.revents().intersects(PollFlags::OUT) {
                own.connection.go_on();
            }
        }
        let input = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        polled[1..].iter().map(|fd| fd.revents().intersects(input)).collect()
    }

    fn accept(&mut self, listener: usize) {
        match self.listeners[listener].accept() {
            Ok((socket, _)) => self.streams.adopt(socket),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // There are no free descriptors; those of strangers will be released.
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
        // The connection that was just accepted counts for the next one.
        self.end_and_begin();
    }

    /// Makes room for a stranger. Returns whether there is room.
    fn make_room(&self, from: SocketAddr) -> bool {
        let now = Instant::now();
        let counts = |own: &Reading| own.is_stranger() && !own.connection.is_over.load(Relaxed);
        let places: Vec<usize> = (0..self.reading.len()).filter(|&at| counts(&self.reading[at])).collect();
        let strangers: Vec<_> = places
            .iter()
            .map(|&at| {
                let own = &self.reading[at];
                (network(own.connection.remote), now.saturating_duration_since(own.since) < NEW)
            })
            .collect();
        match victim(&strangers, network(from)) {
            Ok(Some(goes)) => {
                self.reading[places[goes]].connection.is_over.store(true, Relaxed);
                true
            }
            Ok(None) => self.reading.len() < CONNECTIONS_MAX,
            Err(()) => false,
        }
    }

    /// Reads what has arrived in a connection, up to a bound.
    fn read(&mut self, at: usize) -> io::Result<()> {
        let Self { reading, buffer, inward, .. } = self;
        let Reading { connection, frames, .. } = &mut reading[at];
        if connection.is_proved.load(Relaxed) || connection.is_ours {
            frames.allow_any_length();
        }
        let mut socket = &connection.socket;
        match socket.read(buffer) {
            Ok(0) => connection.is_over.store(true, Relaxed),
            Ok(bytes) => {
                let mut written = Ok(());
                let read = frames.push(&buffer[..bytes], |packet| {
                    if written.is_ok() {
                        written = inward.take(packet, connection);
                    }
                });
                written?;
                inward.flush(connection)?;
                if read.is_err() {
                    connection.is_over.store(true, Relaxed);
                }
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(_) => connection.is_over.store(true, Relaxed),
        }
        Ok(())
    }

    /// Makes the connections that were asked for, each on a thread of its own.
    fn make<'scope>(&self, scope: &'scope Scope<'scope, '_>)
    where
        'a: 'scope,
    {
        for (token, to) in self.streams.orders() {
            let (streams, marks, peers) = (self.streams, self.marks, self.peers);
            let life = move || {
                let connected = match marks {
                    Some(keeper) => keeper.connect(&to, CONNECT_TIME),
                    None => TcpStream::connect_timeout(&to, CONNECT_TIME),
                };
                let added = connected.and_then(|socket| streams.add(socket, true));
                streams.tell(match added {
                    Ok(connection) => News::Connected { token, connection },
                    Err(error) => News::Failed { token, problem: format!("TCP to {to}: {error}") },
                });
                peers.bells().ring();
                Ok(())
            };
            if let Err(error) = self.lanes.start(scope, "connect".to_owned(), life) {
                self.streams.tell(News::Failed { token, problem: format!("no thread: {error}") });
                self.peers.bells().ring();
            }
        }
    }

    /// Forgets the connections that are over, and begins to read new ones.
    fn end_and_begin(&mut self) {
        let now = Instant::now();
        for own in &self.reading {
            if own.is_stranger() && now >= own.since + STRANGER_TIME {
                own.connection.is_over.store(true, Relaxed);
            }
        }
        let is_over = |own: &Reading| own.connection.is_over.load(Relaxed);
        if self.reading.iter().any(is_over) {
            let (over, going): (Vec<_>, Vec<_>) =
                std::mem::take(&mut self.reading).into_iter().partition(is_over);
            self.reading = going;
            let ended: Vec<u32> = over.iter().map(|own| own.connection.id).collect();
            self.streams.change(|all| ended.iter().for_each(|id| drop(all.remove(id))));
            for own in over {
                // The other end hears of it even if a lane has the connection in its hands.
                let _ = own.connection.socket.shutdown(std::net::Shutdown::Both);
                if own.connection.is_ours {
                    self.streams.tell(News::Over { id: own.connection.id });
                    self.peers.bells().ring();
                }
            }
        }
        let all = self.streams.all.load();
        if all.len() > self.reading.len() {
            let known: Vec<u32> = self.reading.iter().map(|own| own.connection.id).collect();
            let mut new: Vec<_> = all.values().filter(|own| !known.contains(&own.id)).cloned().collect();
            new.sort_by_key(|connection| connection.id);
            for connection in new {
                if !connection.is_ours && !self.make_room(connection.remote) {
                    connection.is_over.store(true, Relaxed);
                }
                let frames = Frames::new(!connection.is_ours, STRANGER_BYTES_MAX + LENGTH_BYTES);
                self.reading.push(Reading { frames, connection, since: now });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(number: u32) -> Prefix {
        network(SocketAddr::from(((0x0a00_0000 + number).to_be_bytes(), 1)))
    }

    #[test]
    fn strangers_of_one_address_take_no_place_of_others() {
        let [of_one, of_all] = STRANGERS_MAX;
        let crowd: Vec<_> = (0..of_one).map(|at| (of(1), at >= 3)).collect();
        assert_eq!(victim(&crowd, of(1)), Ok(Some(0)), "its own oldest one");
        assert_eq!(victim(&crowd, of(2)), Ok(None));
        let new: Vec<_> = crowd.iter().map(|&(network, _)| (network, true)).collect();
        assert_eq!(victim(&new, of(1)), Err(()), "each has a second");
        // All places are in use: one of the largest crowd goes.
        let mut all = crowd;
        all.extend((all.len()..of_all).map(|at| (of(10 + at as u32), false)));
        assert_eq!(victim(&all, of(2)), Ok(Some(0)));
        let all: Vec<_> = all.into_iter().map(|(network, _)| (network, true)).collect();
        assert_eq!(victim(&all, of(2)), Err(()));
    }
}
