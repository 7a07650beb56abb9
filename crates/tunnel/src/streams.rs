//! IKE and ESP in TCP connections (RFC 9329), for networks that let no UDP pass.
//!
//! [`Streams`] has all connections, of both directions. A thread of its own ([`Server`]) accepts them, and reads them; lanes and
//! key makers write to them.
//!
//! Guarantees: no call blocks; ESP that would wait longer than about 2 ms is dropped, as on any network, and IKE's
//! messages wait in a bounded queue; connections without a proof of who is at the other end are bounded in number, for each
//! address and for all, in time and in bytes; a connection that breaks the protocol is closed, and concerns no other.

pub mod frames;
mod server;

use std::{
    collections::{HashMap, VecDeque},
    io::{self, IoSlice},
    net::{SocketAddr, TcpStream},
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use arrayvec::ArrayVec;
use rustix::{
    event::{EventfdFlags, eventfd},
    io::Errno,
    net::{SendAncillaryBuffer, SendFlags, sendmsg, sockopt},
};
use sealane_ipsec::association::Way;
use sealane_port::Batch;
use sealane_port::stream::{delivery_rate, set_unsent_max};

pub use server::{Inward, Server};

use self::frames::{LENGTH_BYTES, PREFIX, length};

/// The time for which ESP may wait in a connection.
const UNSENT_TIME: Duration = Duration::from_millis(2);
/// The bytes that may wait while the connection's rate is not known, and the least and the most that may.
const UNSENT_BYTES: [u32; 3] = [128 << 10, 8 << 10, 8 << 20];
/// The interval between looks at a connection's rate.
const LOOK: Duration = Duration::from_millis(50);
/// The time without an acknowledgement after which a connection is given up, in milliseconds.
const GIVE_UP_MS: u32 = 10_000;
/// The maximum number of IKE's messages, and of their bytes, that wait in a connection.
const LETTERS_MAX: usize = 64;
const LETTER_BYTES_MAX: usize = 512 << 10;
/// The maximum number of packets that are written by one call.
const PACKETS_AT_ONCE: usize = 128;

/// The part of a connection that is written.
#[derive(Debug, Default)]
struct Out {
    /// The bytes of a packet whose beginning has been sent.
    rest: Vec<u8>,
    /// IKE's messages, with their lengths.
    letters: VecDeque<Vec<u8>>,
    letter_bytes: usize,
    looked: Option<Instant>,
}

/// One TCP connection, which lanes and key makers write to and the server reads.
#[derive(Debug)]
pub struct Connection {
    /// Its number.
    pub id: u32,
    /// The address of either end.
    pub local: SocketAddr,
    /// The address of the other end.
    pub remote: SocketAddr,
    socket: TcpStream,
    /// The end that has connected begins anew if the connection is gone.
    is_ours: bool,
    /// Somebody known is at the other end.
    is_proved: AtomicBool,
    is_over: AtomicBool,
    /// Something waits to be written.
    wants_out: AtomicBool,
    out: Mutex<Out>,
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

impl Connection {
    fn new(id: u32, socket: TcpStream, is_ours: bool) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        // Without these a connection carries packets as well, and some of them later.
        let _ = set_unsent_max(&socket, UNSENT_BYTES[0]);
        let _ = sockopt::set_tcp_user_timeout(&socket, GIVE_UP_MS);
        let mut out = Out::default();
        if is_ours {
            out.rest.extend(PREFIX);
        }
        Ok(Self {
            id,
            local: canonical(socket.local_addr()?),
            remote: canonical(socket.peer_addr()?),
            socket,
            is_ours,
            is_proved: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            wants_out: AtomicBool::new(is_ours),
            out: Mutex::new(out),
        })
    }

    /// Returns the way of packets in it.
    pub fn way(&self) -> Way {
        Way { remote: self.remote, local: Some(self.local.ip()), stream: Some(self.id) }
    }

    fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().expect("nobody panics writing to a connection")
    }

    /// Writes as many bytes as the kernel takes; a connection that is broken takes none.
    fn write(&self, slices: &[IoSlice<'_>]) -> usize {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        loop {
            match sendmsg(&self.socket, slices, &mut SendAncillaryBuffer::default(), flags) {
                Ok(bytes) => return bytes,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return 0,
                Err(_) => {
                    self.is_over.store(true, Relaxed);
                    return 0;
                }
            }
        }
    }

    /// Writes what waits. Returns whether nothing waits any more.
    fn flush(&self, out: &mut Out) -> bool {
        loop {
            if out.rest.is_empty() {
                let Some(letter) = out.letters.pop_front() else { return true };
                out.letter_bytes -= letter.len();
                out.rest = letter;
            }
            let sent = self.write(&[IoSlice::new(&out.rest)]);
            out.rest.drain(..sent);
            if !out.rest.is_empty() {
                return false;
            }
        }
    }

    /// Adapts the bytes that may wait to the connection's rate.
    fn look(&self, out: &mut Out) {
        let now = Instant::now();
        if out.looked.is_some_and(|looked| now < looked + LOOK) {
            return;
        }
        out.looked = Some(now);
        if let Some(rate) = delivery_rate(&self.socket) {
            let [_, least, most] = UNSENT_BYTES;
            let bytes = rate.saturating_mul(UNSENT_TIME.as_micros() as u64) / 1_000_000;
            let _ = set_unsent_max(&self.socket, (bytes.min(most.into()) as u32).max(least));
        }
    }

    /// Sends the packets of `batch` from `from` to `end` that have not been refused. Returns the number of those that were
    /// dropped, because there is no room.
    fn send(&self, batch: &Batch, from: usize, end: usize) -> u64 {
        let mut out = self.out();
        self.look(&mut out);
        let mut passed = (from..end).filter(|&index| batch.packets[index].is_passed()).peekable();
        if !self.flush(&mut out) {
            return passed.count() as u64;
        }
        let mut dropped = 0;
        while passed.peek().is_some() {
            let mut lengths = ArrayVec::<([u8; LENGTH_BYTES], usize), PACKETS_AT_ONCE>::new();
            while let Some(index) = passed.next_if(|_| !lengths.is_full()) {
                match length(batch.bytes(index).len()) {
                    Some(length) => lengths.push((length, index)),
                    None => dropped += 1,
                }
            }
            let slices: ArrayVec<IoSlice<'_>, { 2 * PACKETS_AT_ONCE }> = lengths
                .iter()
                .flat_map(|(length, index)| [IoSlice::new(length), IoSlice::new(batch.bytes(*index))])
                .collect();
            let mut sent = self.write(&slices);
            for (at, (length, index)) in lengths.iter().enumerate() {
                let packet = batch.bytes(*index);
                let bytes = LENGTH_BYTES + packet.len();
                if sent >= bytes {
                    sent -= bytes;
                    continue;
                }
                // The packet that has begun is completed, so that the next one can be found; the others are dropped.
                dropped += (lengths.len() - at) as u64;
                if sent > 0 {
                    dropped -= 1;
                    out.rest.extend(length.iter().chain(packet).skip(sent));
                    self.wants_out.store(true, Relaxed);
                }
                return dropped + passed.count() as u64;
            }
        }
        dropped
    }

    /// Appends a message of IKE to those that wait, and writes what the kernel takes. Returns whether there was room.
    fn send_letter(&self, letter: &[u8]) -> bool {
        let mut out = self.out();
        let has_room = out.letters.len() < LETTERS_MAX && out.letter_bytes + letter.len() <= LETTER_BYTES_MAX;
        let Some(length) = length(letter.len()).filter(|_| has_room) else { return false };
        let letter = [&length, letter].concat();
        out.letter_bytes += letter.len();
        out.letters.push_back(letter);
        if !self.flush(&mut out) {
            self.wants_out.store(true, Relaxed);
        }
        true
    }

    /// Writes what waits, when there is room.
    fn go_on(&self) {
        let mut out = self.out();
        self.wants_out.store(false, Relaxed);
        if !self.flush(&mut out) {
            self.wants_out.store(true, Relaxed);
        }
    }
}

/// News of connections, for the key maker that wants them.
#[derive(Clone, Debug)]
pub enum News {
    /// A connection that was asked for stands.
    Connected {
        /// The number given with the order.
        token: usize,
        /// The connection, which can be written to.
        connection: Arc<Connection>,
    },
    /// A connection that was asked for does not stand, for this reason.
    Failed {
        /// The number given with the order.
        token: usize,
        /// The reason, in words.
        problem: String,
    },
    /// A connection that this end had made is over.
    Over {
        /// Its number.
        id: u32,
    },
}

/// All connections.
#[derive(Debug)]
pub struct Streams {
    /// Connections by their numbers. Lanes read it without a lock.
    all: ArcSwap<HashMap<u32, Arc<Connection>>>,
    /// Guards changes of `all`.
    changes: Mutex<()>,
    next: AtomicU32,
    news: Mutex<VecDeque<News>>,
    has_news: AtomicBool,
    orders: Mutex<Vec<(usize, SocketAddr)>>,
    /// Wakes the thread.
    bell: OwnedFd,
}

impl Streams {
    /// Returns no connections.
    ///
    /// # Errors
    /// Fails if the system refuses a descriptor.
    pub fn new() -> io::Result<Self> {
        Ok(Self {
            all: ArcSwap::default(),
            changes: Mutex::new(()),
            next: AtomicU32::new(1),
            news: Mutex::default(),
            has_news: AtomicBool::new(false),
            orders: Mutex::default(),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        })
    }

    /// Returns a connection.
    pub fn get(&self, id: u32) -> Option<Arc<Connection>> {
        self.all.load().get(&id).cloned()
    }

    fn change(&self, change: impl FnOnce(&mut HashMap<u32, Arc<Connection>>)) {
        let _guard = self.changes.lock().expect("nobody panics changing connections");
        let mut all = HashMap::clone(&self.all.load());
        change(&mut all);
        self.all.store(Arc::new(all));
    }

    /// Adds a connection.
    fn add(&self, socket: TcpStream, is_ours: bool) -> io::Result<Arc<Connection>> {
        let id = self.next.fetch_add(1, Relaxed);
        let connection = Arc::new(Connection::new(id, socket, is_ours)?);
        self.change(|all| drop(all.insert(id, Arc::clone(&connection))));
        self.ring();
        Ok(connection)
    }

    /// Takes a connection that somebody else has accepted, and that begins like a stream of packets.
    pub fn adopt(&self, socket: TcpStream) {
        // A connection that is gone already is not missed.
        let _ = self.add(socket, false);
    }

    fn ring(&self) {
        // A bell that rings already needs no other sound.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Sends packets of `batch` in a connection. Returns the number of those that were dropped.
    pub fn send(&self, id: u32, batch: &Batch, from: usize, end: usize) -> u64 {
        let Some(connection) = self.get(id) else {
            return batch.packets[from..end].iter().filter(|packet| packet.is_passed()).count() as u64;
        };
        let dropped = connection.send(batch, from, end);
        if connection.wants_out.load(Relaxed) {
            self.ring();
        }
        dropped
    }

    /// Sends a message of IKE in a connection. One that finds no room is lost.
    pub fn send_letter(&self, id: u32, letter: &[u8]) {
        let Some(connection) = self.get(id) else { return };
        connection.send_letter(letter);
        if connection.wants_out.load(Relaxed) {
            self.ring();
        }
    }

    /// Notes that somebody known is at the other end.
    pub fn prove(&self, id: u32) {
        if let Some(connection) = self.get(id)
            && !connection.is_proved.swap(true, Relaxed)
        {
            self.ring();
        }
    }

    /// Closes a connection.
    pub fn close(&self, id: u32) {
        if let Some(connection) = self.get(id) {
            connection.is_over.store(true, Relaxed);
            self.ring();
        }
    }

    /// Asks for a connection; the answer is [`News`] with this number.
    pub fn connect(&self, token: usize, to: SocketAddr) {
        self.orders.lock().expect("nobody panics ordering").push((token, to));
        self.ring();
    }

    fn orders(&self) -> Vec<(usize, SocketAddr)> {
        std::mem::take(&mut *self.orders.lock().expect("nobody panics ordering"))
    }

    fn tell(&self, news: News) {
        self.news.lock().expect("nobody panics telling").push_back(news);
        self.has_news.store(true, Relaxed);
    }

    /// Returns whether there are news.
    pub fn has_news(&self) -> bool {
        self.has_news.load(Relaxed)
    }

    /// Removes the oldest news.
    pub fn poll_news(&self) -> Option<News> {
        let mut all = self.news.lock().expect("nobody panics telling");
        let news = all.pop_front();
        if news.is_none() {
            self.has_news.store(false, Relaxed);
        }
        news
    }
}
