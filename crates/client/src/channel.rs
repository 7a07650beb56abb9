//! One connection to the service: its socket, and the client's ends of its rings.
//!
//! **Guarantees:** the jobs under way have answers of at most as many slots as a ring has, so an answer always finds
//! room; every submitted job is answered once, unless the connection ends. A waiting client notices within 100 ms that
//! the service is gone. A spin lasts 10 µs at most, and happens only for quick operations, while the service reports a
//! free core, and is awake or was a short time ago.

use crate::bell::{Bell, Woken};
use crate::doorbell::{BUSY, SPIN};
use crate::error::{ClientError, Refusal};
use crate::job::{Answer, Operation, RecordCipher, Status, answer_bytes_max};
use crate::key::{KeyInfo, Source};
use crate::memory::Memory;
use crate::ring::{Consumer, Direction, Head, MESSAGE_BYTES_MAX, NotPushed, Producer, SLOTS, slots};
use crate::setup::{Ask, Secret, Told, VERSION};
use crate::socket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, sockopt};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// The maximum number of jobs under way on one connection.
const IN_FLIGHT_MAX: usize = SLOTS / 2;

/// The number of looks into the ring, about a microsecond, before a spin reads the clock and gives its core to a thread
/// that waits for it: the service's, perhaps.
const LOOKS: u32 = 64;

/// The maximum number of answers that are taken before their slots are given back.
const SETTLED_AT_LEAST: u64 = 16;

/// The time for which it sleeps before it checks that the service still exists.
const GLANCE: Duration = Duration::from_millis(100);

/// The time for which a service may leave a job or a question unanswered, unless the caller says another one.
pub const DEADLINE: Duration = Duration::from_secs(5);

/// The time for making or importing a key, at the least: a key of RSA with 8,192 bits takes a minute.
const PATIENCE_FOR_KEYS: Duration = Duration::from_secs(300);

/// The identifier of a job under way, unique in its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u64);

/// The data that both halves need.
#[derive(Debug)]
struct Shared {
    socket: OwnedFd,
    bell: Bell,
    memory: Memory,
    /// The number of answers taken whose slots the service has back; only the receiver writes it.
    taken: AtomicU64,
    /// The number of slots that were reserved for them; only the receiver writes it.
    freed: AtomicU64,
    /// The time for which the service may leave a job or a question unanswered.
    patience: Duration,
}

/// The place of the number of reserved slots in a job's tag, above the job's own number.
const RESERVED_SHIFT: u32 = 48;

impl Shared {
    fn has_ended(&self) -> bool {
        let mut fds = [PollFd::new(&self.socket, PollFlags::RDHUP)];
        let ended = PollFlags::HUP | PollFlags::ERR | PollFlags::RDHUP;
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
            && fds[0].revents().intersects(ended)
    }
}

/// The half that submits.
#[derive(Debug)]
pub(crate) struct Sender {
    shared: Arc<Shared>,
    requests: Producer,
    /// The number of jobs submitted.
    submitted: u64,
    /// The number of slots that were reserved for their answers.
    reserved: u64,
}

impl Sender {
    /// Writes a job into the ring; the service sees it after [`Sender::flush`].
    #[inline]
    pub(crate) fn submit(
        &mut self,
        handle: u32,
        operation: Operation,
        content: &[u8],
    ) -> Result<Ticket, ClientError> {
        let (code, parameters) = operation.to_numbers();
        let answer_bytes = answer_bytes_max(code, content.len());
        if answer_bytes > MESSAGE_BYTES_MAX {
            return Err(ClientError::TooLong);
        }
        let needed = slots(answer_bytes) as u64;
        let in_flight = self.submitted - self.shared.taken.load(Ordering::Acquire);
        // A service that repeats other tags makes this client wait, or find no room.
        let held = self.reserved.wrapping_sub(self.shared.freed.load(Ordering::Acquire));
        if in_flight >= IN_FLIGHT_MAX as u64 || held.saturating_add(needed) > SLOTS as u64 {
            return Err(ClientError::Full);
        }
        let number = self.submitted & ((1 << RESERVED_SHIFT) - 1);
        let head = Head { tag: number | needed << RESERVED_SHIFT, code, key: handle, parameters };
        self.requests.push(&self.shared.memory, head, content).map_err(|error| match error {
            NotPushed::Full => ClientError::Full,
            NotPushed::TooLong => ClientError::TooLong,
            NotPushed::Lie => ClientError::Protocol { what: "the ring of requests" },
        })?;
        self.submitted += 1;
        self.reserved = self.reserved.wrapping_add(needed);
        Ok(Ticket(head.tag))
    }

    /// Publishes the submitted jobs to the service; returns whether it slept and was woken.
    pub(crate) fn flush(&mut self) -> bool {
        self.requests.publish(&self.shared.memory);
        let must_wake = self.shared.memory.bells().must_wake_service();
        if must_wake {
            self.shared.bell.ring();
        }
        self.requests.prepare(&self.shared.memory);
        must_wake
    }

    /// Sends a message to the service over the socket, and waits for the answer.
    pub(crate) fn ask(&self, ask: &Ask) -> Result<Told, ClientError> {
        let patience = match ask {
            Ask::Generate { .. } | Ask::Import { .. } | Ask::Replace { .. } => {
                self.shared.patience.max(PATIENCE_FOR_KEYS)
            }
            _ => self.shared.patience,
        };
        ask_over(&self.shared.socket, ask, patience).map(|(told, _)| told)
    }

    /// Opens a key.
    pub(crate) fn open(&self, ask: &Ask) -> Result<(u32, KeyInfo), ClientError> {
        match self.ask(ask)? {
            Told::Key { handle, info } => Ok((handle, info)),
            _ => Err(ClientError::Protocol { what: "its answer to the opening of a key" }),
        }
    }
}

/// The half that takes answers.
#[derive(Debug)]
pub(crate) struct Receiver {
    shared: Arc<Shared>,
    answers: Consumer,
    /// The number of answers taken whose slots the service does not have back, and the slots reserved for them. There
    /// are some only while more answers are in the ring.
    unsettled: (u64, u64),
}

impl Receiver {
    /// Takes the next answer, if there is one.
    #[inline]
    pub(crate) fn try_take(&mut self) -> Result<Option<(Ticket, Answer)>, ClientError> {
        let mut content = Zeroizing::new(Vec::new());
        let lie = |_| ClientError::Protocol { what: "the ring of answers" };
        let Some(head) = self.answers.take(&self.shared.memory, &mut content, true).map_err(lie)? else {
            return Ok(None);
        };
        self.unsettled.0 += 1;
        self.unsettled.1 += head.tag >> RESERVED_SHIFT;
        if !self.answers.has_more() || self.unsettled.0 >= SETTLED_AT_LEAST {
            self.settle();
        }
        let answer = match Status::of_number(head.code) {
            Status::Done => Ok(content),
            status => Err(status),
        };
        Ok(Some((Ticket(head.tag), answer)))
    }

    /// Gives the slots of the answers taken back to the service; returns whether there were any.
    #[inline]
    fn settle(&mut self) -> bool {
        let (jobs, slots) = std::mem::take(&mut self.unsettled);
        if jobs > 0 {
            self.answers.release(&self.shared.memory);
            let add = |count: &AtomicU64, more: u64| {
                count.store(count.load(Ordering::Relaxed).wrapping_add(more), Ordering::Release);
            };
            add(&self.shared.taken, jobs);
            add(&self.shared.freed, slots);
        }
        jobs > 0
    }

    /// Takes the next answer; waits for it, at first by spinning if `is_near`.
    #[inline]
    pub(crate) fn take(&mut self, is_near: bool) -> Result<(Ticket, Answer), ClientError> {
        match self.try_take() {
            Ok(Some(taken)) => Ok(taken),
            Ok(None) => self.wait(is_near),
            Err(error) => Err(error),
        }
    }

    /// Waits for the next answer, and takes it.
    fn wait(&mut self, is_near: bool) -> Result<(Ticket, Answer), ClientError> {
        if is_near && self.shared.memory.bells().core_is_free() {
            self.spin();
        }
        let since = Instant::now();
        loop {
            if let Some(taken) = self.try_take()? {
                return Ok(taken);
            }
            if !self.sleep() {
                if self.is_over() {
                    return Err(ClientError::Ended);
                }
                if since.elapsed() > self.shared.patience {
                    return Err(ClientError::Late { within: self.shared.patience });
                }
            }
        }
    }

    /// Returns whether the service has gone and left no answers.
    pub(crate) fn is_over(&self) -> bool {
        self.shared.has_ended() && !self.answers.is_pending(&self.shared.memory)
    }

    /// Spins until an answer comes, for [`SPIN`] at the longest.
    fn spin(&self) {
        let is_pending = || {
            std::hint::spin_loop();
            self.answers.is_pending(&self.shared.memory)
        };
        if (0..LOOKS).any(|_| is_pending()) {
            return;
        }
        let start = Instant::now();
        while !(0..LOOKS / 8).any(|_| is_pending()) && start.elapsed() < SPIN {
            thread::yield_now();
        }
    }

    /// Sleeps until there is an answer; returns false when it has slept for [`GLANCE`], or the service has gone.
    pub(crate) fn sleep(&self) -> bool {
        let bells = self.shared.memory.bells();
        bells.client_is_about_to_wait();
        let glance = GLANCE.min(self.shared.patience);
        let woken =
            self.answers.is_pending(&self.shared.memory) || self.shared.bell.sleep(glance) == Woken::Rung;
        bells.client_is_awake();
        woken
    }
}

/// Sends a message and waits for its answer.
fn ask_over(socket: &OwnedFd, ask: &Ask, patience: Duration) -> Result<(Told, Vec<OwnedFd>), ClientError> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::NotConnected => {
            ClientError::Ended
        }
        io::ErrorKind::WouldBlock => ClientError::Late { within: patience },
        _ => ClientError::Io(error),
    };
    sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, Some(patience)).map_err(io::Error::from)?;
    match socket::send(socket, ask, &[], SendFlags::empty()).map_err(failed) {
        // The service may have sent the reason before it closed the connection.
        Ok(()) | Err(ClientError::Ended) => {}
        Err(error) => return Err(error),
    }
    let receive = || socket::receive::<Told>(socket, RecvFlags::empty()).map_err(failed);
    let received = match receive() {
        // The end of the connection is told once, before what was sent until then.
        Err(ClientError::Ended) => receive(),
        received => received,
    };
    match received? {
        None => Err(ClientError::Ended),
        Some((Told::Refused(refusal), _)) => Err(refusal.into()),
        Some(told) => Ok(told),
    }
}

/// One connection, for one thread.
#[derive(Debug)]
pub struct Channel {
    sender: Sender,
    receiver: Receiver,
    /// Whether the answers to the jobs that were published last are near.
    is_near: bool,
    /// The time of the last flush that woke the service.
    woken: Option<Instant>,
    /// Whether all jobs since then are quick.
    is_quick: bool,
    service: String,
    /// Answers that came while another answer was waited for.
    early: Vec<(Ticket, Answer)>,
}

impl Channel {
    /// Connects to the service that listens at `path`. The service writes `program` into its log.
    ///
    /// # Errors
    /// Fails with [`ClientError::Unreachable`], or if the service refuses.
    pub fn connect(path: &Path, program: &str) -> Result<Self, ClientError> {
        Self::connect_within(path, program, DEADLINE)
    }

    /// Does the same, but gives a service up that does not answer a job or a message within `patience`.
    ///
    /// # Errors
    /// Fails with [`ClientError::Unreachable`], or if the service refuses or does not answer.
    pub fn connect_within(path: &Path, program: &str, patience: Duration) -> Result<Self, ClientError> {
        let socket = socket::connect_within(path, patience).map_err(|source| match source.kind() {
            io::ErrorKind::WouldBlock => ClientError::Late { within: patience },
            _ => ClientError::Unreachable { socket: path.display().to_string(), source },
        })?;
        let program = program.chars().take(64).collect();
        let hello = Ask::Hello { lowest: VERSION, highest: VERSION, program };
        let (told, descriptors) = ask_over(&socket, &hello, patience)?;
        let (Told::Welcome { version: VERSION, service }, Ok([memory, bell])) =
            (told, <[OwnedFd; 2]>::try_from(descriptors))
        else {
            return Err(Refusal::Unexpected.into());
        };
        let (memory, bell) = (Memory::map(memory.as_fd())?, Bell::of(bell));
        let (taken, freed) = (AtomicU64::new(0), AtomicU64::new(0));
        let shared = Arc::new(Shared { socket, bell, memory, taken, freed, patience });
        Ok(Self {
            sender: Sender {
                shared: Arc::clone(&shared),
                requests: Producer::new(Direction::Requests),
                submitted: 0,
                reserved: 0,
            },
            receiver: Receiver { shared, answers: Consumer::new(Direction::Answers), unsettled: (0, 0) },
            is_near: false,
            woken: None,
            is_quick: true,
            service,
            early: Vec::new(),
        })
    }

    /// Returns the service's name and version.
    pub fn service(&self) -> &str {
        &self.service
    }

    /// Sends a message to the service, and waits for the answer.
    ///
    /// # Errors
    /// Fails if the service refuses, or the connection ends.
    pub fn ask(&self, ask: &Ask) -> Result<Told, ClientError> {
        self.sender.ask(ask)
    }

    /// Opens a key; returns its handle and its description.
    ///
    /// # Errors
    /// Fails if the service refuses, or the connection ends.
    pub fn open(&self, source: Source) -> Result<(u32, KeyInfo), ClientError> {
        self.sender.open(&Ask::Open(source))
    }

    /// Lends the service a private key, PKCS#8 in DER, until the connection ends.
    ///
    /// # Errors
    /// Fails if the service refuses, or the connection ends.
    pub fn lend(&self, pkcs8: &[u8]) -> Result<(u32, KeyInfo), ClientError> {
        self.sender.open(&Ask::Lend { pkcs8: Secret(pkcs8.to_vec()) })
    }

    /// Lends the service a key for records, until the connection ends or the handle is closed; returns the handle.
    ///
    /// # Errors
    /// Fails if the service refuses, or the connection ends.
    pub fn session(&self, cipher: RecordCipher, key: &[u8]) -> Result<u32, ClientError> {
        match self.ask(&Ask::Session { cipher, key: Secret(key.to_vec()) })? {
            Told::Session { handle } => Ok(handle),
            _ => Err(ClientError::Protocol { what: "its answer to the opening of a session" }),
        }
    }

    /// Writes a job into the ring; the service sees it after [`Channel::flush`].
    ///
    /// # Errors
    /// Fails with [`ClientError::Full`] or [`ClientError::TooLong`].
    #[inline]
    pub fn submit(
        &mut self,
        handle: u32,
        operation: Operation,
        content: &[u8],
    ) -> Result<Ticket, ClientError> {
        self.is_quick &= operation.is_quick();
        match self.sender.submit(handle, operation, content) {
            Err(ClientError::Full) if self.receiver.settle() => {
                self.sender.submit(handle, operation, content)
            }
            submitted => submitted,
        }
    }

    /// Publishes the submitted jobs to the service, and wakes it if it sleeps.
    pub fn flush(&mut self) {
        let mut is_busy = true;
        if self.sender.flush() {
            let now = Instant::now();
            is_busy = self.woken.replace(now).is_some_and(|woken| now - woken < BUSY);
        }
        self.is_near = self.is_quick && is_busy;
        self.is_quick = true;
    }

    /// Returns the next answer, of any job, if there is one.
    ///
    /// # Errors
    /// Fails if the service broke the protocol.
    pub fn try_take(&mut self) -> Result<Option<(Ticket, Answer)>, ClientError> {
        match self.early.pop() {
            Some(early) => Ok(Some(early)),
            None => self.receiver.try_take(),
        }
    }

    /// Returns the next answer, of any job; waits for it.
    ///
    /// # Errors
    /// Fails if the connection ends.
    #[inline]
    pub fn take(&mut self) -> Result<(Ticket, Answer), ClientError> {
        match self.early.pop() {
            Some(early) => Ok(early),
            None => self.receiver.take(self.is_near),
        }
    }

    /// Returns the answer of one job; waits for it, and keeps others for later.
    ///
    /// # Errors
    /// Fails if the connection ends.
    pub fn take_of(&mut self, ticket: Ticket) -> Result<Answer, ClientError> {
        if let Some(at) = self.early.iter().position(|(early, _)| *early == ticket) {
            return Ok(self.early.swap_remove(at).1);
        }
        loop {
            let taken = self.receiver.take(self.is_near)?;
            if taken.0 == ticket {
                return Ok(taken.1);
            }
            self.early.push(taken);
        }
    }

    /// Submits one job and returns its answer.
    ///
    /// # Errors
    /// Fails if the connection ends; an error of the job is in its answer.
    pub fn call(&mut self, handle: u32, operation: Operation, content: &[u8]) -> Result<Answer, ClientError> {
        let ticket = self.submit(handle, operation, content)?;
        self.flush();
        self.take_of(ticket)
    }

    /// For an event loop: requests that the service make [`Channel::fd`] readable when the next answer is there.
    /// Returns true if there is an answer already.
    pub fn arm(&mut self) -> bool {
        let shared = &self.receiver.shared;
        shared.memory.bells().client_is_about_to_wait();
        !self.early.is_empty() || self.receiver.answers.is_pending(&shared.memory)
    }

    /// For an event loop: makes [`Channel::fd`] unreadable until the next [`Channel::arm`].
    ///
    /// # Errors
    /// Fails if the connection ends.
    pub fn disarm(&mut self) -> Result<(), ClientError> {
        let shared = &self.receiver.shared;
        shared.memory.bells().client_is_awake();
        match shared.bell.silence() {
            Woken::Rung | Woken::Otherwise => Ok(()),
            Woken::Closed => Err(ClientError::Ended),
        }
    }

    /// Returns the descriptor that an event loop polls for reading after [`Channel::arm`].
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.receiver.shared.bell.as_fd()
    }

    /// Returns the number of jobs whose answers have not been taken out of the ring.
    pub fn in_flight(&self) -> usize {
        let taken = self.receiver.shared.taken.load(Ordering::Acquire) + self.receiver.unsettled.0;
        (self.sender.submitted - taken) as usize
    }

    pub(crate) fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }
}
