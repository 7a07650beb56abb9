//! The engine that computes in another process: the service of `sealane engine serve`, seen as an engine.
//!
//! Guarantees: a job is run by the service as any other engine would run it, or comes back
//! [`Pending`](JobStatus::Pending) with its bytes untouched: if there is no service, if it ends with works under way, and
//! for protections other than AEADs. Nothing here waits for the service longer than [`PATIENCE`], and that only when a
//! connection or a session is opened.
//!
//! The bytes of a job are copied into the rings and out of them, and a wake-up takes some 20 µs. This engine is for
//! programs that shall share the service's cores and accelerators, not for the least time of a job.

use std::{
    collections::{HashMap, VecDeque},
    io,
    num::{NonZeroU32, NonZeroUsize},
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::PathBuf,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use rustix::event::{EventfdFlags, epoll, eventfd};
use sealane_client::{
    Answer, Channel, ClientError, Operation, RecordCipher, SOCKET, Status, Ticket,
    job::{NONCE_BYTES, TAG_BYTES},
    setup::Ask,
};
use sealane_transform::Aead;
use sealane_transform::debug_only;
use zeroize::Zeroizing;

use crate::{
    Cost, Direction, Engine, Implementations, Job, JobStatus, Protection, Queue, Session, Trust, Work,
    inline::Costs,
    kind::{Kind, Make, Parse},
    notes::Notes,
    run::hull,
};

/// The time for which the service may leave a message of set-up unanswered.
const PATIENCE: Duration = Duration::from_millis(250);
/// The time after which a service that could not be reached is tried again. The scheduler above asks at growing
/// intervals.
const RETRY: Duration = Duration::from_millis(100);
/// The maximum number of sessions of a queue that the service keeps.
const SESSIONS_MAX: usize = 256;
/// One job in this many is computed again, as with other engines that are not code of this process.
const CHECKED: NonZeroU32 = NonZeroU32::new(64).unwrap();
/// Nanoseconds that a job costs besides its computation: a wake-up shared by a batch, and the ring.
const WAY_NS: f64 = 1_500.0;
/// Nanoseconds per byte of the copies.
const COPY_NS: f64 = 0.1;

pub(crate) const KIND: Kind = Kind {
    name: "service",
    form: "service[:SOCKET]",
    about: "the service of `sealane engine serve`, which must let this user lend keys; the program goes on by itself when \
            the service does not answer",
    parse: Parse::Alone(|argument| {
        if argument.is_some_and(str::is_empty) {
            return None;
        }
        let socket = PathBuf::from(argument.unwrap_or(SOCKET));
        let make: Arc<Make> =
            Arc::new(move |implementations| Ok(Arc::new(Process::new(socket.clone(), implementations))));
        Some(make)
    }),
};

/// The service behind a socket.
#[derive(Debug)]
pub struct Process {
    socket: PathBuf,
    costs: Costs,
}

impl Process {
    /// Makes the engine of the service that listens at `socket`. Whether there is one shows when work is submitted.
    pub fn new(socket: PathBuf, implementations: impl Into<Implementations>) -> Self {
        Self { socket, costs: Costs::new(implementations.into()) }
    }
}

fn cipher_of(protection: Protection) -> Option<RecordCipher> {
    match protection {
        Protection::Aead(Aead::Aes128Gcm) => Some(RecordCipher::Aes128Gcm),
        Protection::Aead(Aead::Aes256Gcm) => Some(RecordCipher::Aes256Gcm),
        Protection::Aead(Aead::ChaCha20Poly1305) => Some(RecordCipher::ChaCha20Poly1305),
        _ => None,
    }
}

impl Engine for Process {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn cost(&self, protection: Protection) -> Option<Cost> {
        cipher_of(protection)?;
        let Cost { fixed_ns, byte_ns } = self.costs.of(protection)?;
        Some(Cost { fixed_ns: fixed_ns + WAY_NS, byte_ns: byte_ns + COPY_NS })
    }

    fn trust(&self) -> Trust {
        Trust::Checked { one_in: CHECKED }
    }

    fn queue(&self, depth: NonZeroUsize) -> io::Result<Box<dyn Queue>> {
        Ok(Box::new(ProcessQueue::new(self.socket.clone(), depth.get())?))
    }
}

/// A connection, and the sessions that were opened over it.
struct Connection {
    channel: Channel,
    /// The handles of sessions, the oldest first.
    sessions: VecDeque<(Weak<Session>, u32)>,
    /// The work and the job of each job under way.
    tickets: HashMap<Ticket, (u64, usize)>,
}

/// A work of which jobs are at the service, or wait for room in the ring.
struct UnderWay {
    work: Work,
    /// The number of jobs whose outcome is not known.
    left: usize,
}

struct ProcessQueue {
    socket: PathBuf,
    depth: usize,
    connection: Option<Connection>,
    retry_at: Instant,
    works: Notes<UnderWay>,
    /// Jobs that wait for room in the ring.
    waiting: VecDeque<(u64, usize)>,
    ready: VecDeque<Work>,
    /// Becomes readable with `bell` and with the connection's socket.
    epoll: OwnedFd,
    /// Readable while there may be works that are ready.
    bell: OwnedFd,
    /// Memory for the content of a job.
    content: Zeroizing<Vec<u8>>,
}

debug_only!(self: ProcessQueue { in_flight: self.in_flight() });

impl Connection {
    fn open(socket: &std::path::Path) -> Result<Self, ClientError> {
        const PROGRAM: &str = concat!("sealane ", env!("CARGO_PKG_VERSION"));
        let channel = Channel::connect_within(socket, PROGRAM, PATIENCE)?;
        Ok(Self { channel, sessions: VecDeque::new(), tickets: HashMap::new() })
    }

    /// Returns the service's handle of a session; opens it if it is new.
    fn session(&mut self, session: &Arc<Session>, cipher: RecordCipher) -> Result<u32, ClientError> {
        let is_it = |known: &Weak<Session>| std::ptr::eq(known.as_ptr(), Arc::as_ptr(session));
        if let Some((_, handle)) = self.sessions.iter().rfind(|(known, _)| is_it(known)) {
            return Ok(*handle);
        }
        // A weak reference keeps the address of its session from being used again.
        let is_full = self.sessions.len() >= SESSIONS_MAX && self.tickets.is_empty();
        let has_ended = |(known, _): &(Weak<Session>, u32)| known.strong_count() == 0;
        let old = self.sessions.iter().position(has_ended).or_else(|| is_full.then_some(0));
        if let Some((_, handle)) = old.and_then(|place| self.sessions.remove(place)) {
            self.channel.ask(&Ask::Close { handle })?;
        }
        let handle = self.channel.session(cipher, session.keys_given().0)?;
        self.sessions.push_back((Arc::downgrade(session), handle));
        Ok(handle)
    }
}

impl ProcessQueue {
    fn new(socket: PathBuf, depth: usize) -> io::Result<Self> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &bell, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        Ok(Self {
            socket,
            depth,
            connection: None,
            retry_at: Instant::now(),
            works: Notes::with_capacity(depth),
            waiting: VecDeque::new(),
            ready: VecDeque::with_capacity(depth),
            epoll,
            bell,
            content: Zeroizing::default(),
        })
    }

    fn ring(&self) {
        // Fails only if the bell was rung 2^64 - 2 times without being read.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    /// Connects, unless an attempt has failed a short time ago.
    fn connect(&mut self) {
        if self.connection.is_some() || Instant::now() < self.retry_at {
            return;
        }
        let connected = Connection::open(&self.socket).ok().filter(|connection| {
            let data = epoll::EventData::new_u64(1);
            epoll::add(&self.epoll, connection.channel.fd(), data, epoll::EventFlags::IN).is_ok()
        });
        match connected {
            Some(connection) => self.connection = Some(connection),
            None => self.retry_at = Instant::now() + RETRY,
        }
    }

    /// Gives the connection up, and hands back what it had.
    fn lose(&mut self) {
        let Some(connection) = self.connection.take() else { return };
        // The socket is closed next, which removes it as well.
        let _ = epoll::delete(&self.epoll, connection.channel.fd());
        drop(connection);
        self.retry_at = Instant::now() + RETRY;
        self.waiting.clear();
        while let Some(UnderWay { work, .. }) = self.works.take_if(|_| true) {
            self.ready.push_back(work);
        }
        self.ring();
    }

    /// Submits waiting jobs while there is room.
    fn pump(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        let mut outcome = Ok(());
        let mut refused = Vec::new();
        while let Some(&(token, index)) = self.waiting.front() {
            let Some(UnderWay { work, .. }) = self.works.get(token) else {
                self.waiting.pop_front();
                continue;
            };
            match submit(connection, work, index, &mut self.content) {
                Ok(ticket) => {
                    connection.tickets.insert(ticket, (token, index));
                    self.waiting.pop_front();
                }
                Err(ClientError::Full) => break,
                Err(ClientError::TooLong | ClientError::Refused(_)) => {
                    refused.push(token);
                    self.waiting.pop_front();
                }
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        connection.channel.flush();
        // From now on an answer makes the descriptor readable; one that came before rings the bell.
        if outcome.is_ok() && connection.channel.arm() {
            self.ring();
        }
        for token in refused {
            self.settle(token, None);
        }
        if outcome.is_err() {
            self.lose();
        }
    }

    /// Records the outcome of one job: its index and the answer; `None` if the service did not take it.
    fn settle(&mut self, token: u64, answer: Option<(usize, Answer)>) {
        let Some(under_way) = self.works.get_mut(token) else { return };
        if let Some((index, answer)) = answer {
            let work = &mut under_way.work;
            match answer {
                Ok(content) => put(work, index, &content),
                Err(Status::NotDecrypted) => work.jobs[index].status = JobStatus::Forged,
                // It runs elsewhere.
                Err(_) => {}
            }
        }
        under_way.left -= 1;
        if under_way.left == 0
            && let Some(UnderWay { work, .. }) = self.works.take(token)
        {
            self.ready.push_back(work);
            self.ring();
        }
    }

    /// Takes all answers that are there.
    fn collect(&mut self) {
        loop {
            let Some(connection) = &mut self.connection else { return };
            match connection.channel.try_take() {
                Ok(Some((ticket, answer))) => {
                    if let Some((token, index)) = connection.tickets.remove(&ticket) {
                        self.settle(token, Some((index, answer)));
                    }
                }
                Ok(None) => {
                    if !self.waiting.is_empty() {
                        let before = self.waiting.len();
                        self.pump();
                        if self.waiting.len() < before {
                            continue;
                        }
                    }
                    let Some(connection) = &mut self.connection else { return };
                    if !connection.channel.arm() {
                        return;
                    }
                }
                Err(_) => return self.lose(),
            }
        }
    }
}

impl Queue for ProcessQueue {
    fn submit(&mut self, from: &mut VecDeque<Work>) -> usize {
        let mut count = 0;
        while self.in_flight() < self.depth
            && let Some(mut work) = from.pop_front()
        {
            count += 1;
            self.connect();
            let bytes = work.buffer.capacity_bytes();
            let mut here = Vec::new();
            if self.connection.is_some() {
                for index in 0..work.jobs.len() {
                    let job = work.jobs[index];
                    if job.status != JobStatus::Pending {
                        continue;
                    }
                    if hull(&work.sessions, bytes, &job).is_none() {
                        work.jobs[index].status = JobStatus::Malformed;
                    } else if cipher_of(work.sessions[usize::from(job.session)].protection()).is_some() {
                        here.push(index);
                    }
                }
            }
            if here.is_empty() {
                self.ready.push_back(work);
                self.ring();
                continue;
            }
            let token = self.works.put(UnderWay { work, left: here.len() });
            self.waiting.extend(here.into_iter().map(|index| (token, index)));
        }
        if count > 0 {
            self.pump();
        }
        count
    }

    fn finished(&mut self) -> Option<Work> {
        if let Some(work) = self.ready.pop_front() {
            return Some(work);
        }
        // The next poll sees every ring from here on.
        let _ = rustix::io::read(&self.bell, &mut [0u8; 8]);
        if let Some(connection) = &mut self.connection {
            match connection.channel.disarm() {
                Ok(()) => self.collect(),
                Err(_) => {
                    // Answers that came before the end count.
                    self.collect();
                    self.lose();
                }
            }
        }
        self.ready.pop_front()
    }

    fn in_flight(&self) -> usize {
        self.works.count() + self.ready.len()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.epoll.as_fd())
    }
}

/// Copies a job into the ring.
fn submit(
    connection: &mut Connection,
    work: &Work,
    index: usize,
    content: &mut Vec<u8>,
) -> Result<Ticket, ClientError> {
    let job = &work.jobs[index];
    let session = &work.sessions[usize::from(job.session)];
    // `ProcessQueue::submit` has looked.
    let Some(cipher) = cipher_of(session.protection()) else { return Err(ClientError::TooLong) };
    let handle = connection.session(session, cipher)?;
    let bytes = work.buffer.bytes();
    content.clear();
    content.extend_from_slice(&job.iv[..NONCE_BYTES]);
    let clear = span(bytes, job.clear);
    let (front, rest) = clear.split_at(job.suffix.front_bytes().unwrap_or(clear.len()));
    for part in [front, job.suffix.bytes(), rest] {
        content.extend_from_slice(part);
    }
    let clear_bytes = (content.len() - NONCE_BYTES) as u32;
    content.extend_from_slice(span(bytes, job.body));
    let operation = match work.direction {
        Direction::Seal => Operation::Seal { clear_bytes },
        Direction::Open => {
            content.extend_from_slice(span(bytes, job.tag));
            Operation::Open { clear_bytes }
        }
    };
    connection.channel.submit(handle, operation, content)
}

fn span(bytes: &[u8], span: crate::Span) -> &[u8] {
    if span.is_empty() { &[] } else { &bytes[span.range()] }
}

/// Copies a job's result into the buffer. A result of another length is none.
fn put(work: &mut Work, index: usize, content: &[u8]) {
    let Job { body, tag, .. } = work.jobs[index];
    let tag_bytes = if work.direction == Direction::Seal { TAG_BYTES } else { 0 };
    if content.len() != body.len as usize + tag_bytes {
        return;
    }
    let (text, made) = content.split_at(body.len as usize);
    let bytes = work.buffer.bytes_mut();
    if !text.is_empty() {
        bytes[body.range()].copy_from_slice(text);
    }
    if !made.is_empty() {
        bytes[tag.range()].copy_from_slice(made);
    }
    work.jobs[index].status = JobStatus::Done;
}
