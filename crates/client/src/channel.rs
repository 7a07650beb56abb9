//! One connection to the service: its socket, and the client's ends of its rings.
//!
//! **Guarantees:** the jobs under way have answers of at most as many slots as a ring has, so an answer always finds room;
//! every
//! submitted job is answered once, unless the connection ends. A waiting client notices within 100 ms that the
//! service is gone. Spinning lasts 10 µs at most, and happens only while the service reports a free core.

use crate::doorbell::Waiting;
use crate::error::{ClientError, Refusal};
use crate::job::{Answer, Operation, RecordCipher, Status, answer_bytes_max};
use crate::key::{KeyInfo, Source};
use crate::memory::Memory;
use crate::ring::{Consumer, Direction, Head, MESSAGE_BYTES_MAX, NotPushed, Producer, SLOTS, slots};
use crate::setup::{Ask, Secret, Told, VERSION};
use crate::socket;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, sockopt};
use rustix::thread::futex;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// The maximum number of jobs under way on one connection.
const IN_FLIGHT_MAX: usize = SLOTS / 2;

/// The time for which a client spins before it sleeps.
const SPIN: Duration = Duration::from_micros(10);

/// The time for which it sleeps before it checks that the service still exists.
pub(crate) const GLANCE: Duration = Duration::from_millis(100);

/// The time for which a service may leave a job or a question unanswered.
const PATIENCE: Duration = Duration::from_secs(120);

/// The identifier of a job under way, unique in its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ticket(pub(crate) u64);

/// The data that both halves need.
#[derive(Debug)]
struct Shared {
    socket: OwnedFd,
    memory: Memory,
    /// The number of answers taken.
    taken: AtomicU64,
    /// The number of slots that were reserved for them.
    freed: AtomicU64,
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
    bell: OwnedFd,
    requests: Producer,
    /// The number of jobs submitted.
    submitted: u64,
    /// The number of slots that were reserved for their answers.
    reserved: u64,
}

impl Sender {
    /// Writes a job into the ring; the service sees it after [`Sender::flush`].
    pub(crate) fn submit(
        &mut self,
        handle: u32,
        operation: Operation,
        content: &[u8],
    ) -> Result<Ticket, ClientError> {
        let answer_bytes = answer_bytes_max(content.len());
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
        let (code, parameters) = operation.to_numbers();
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

    /// Publishes the submitted jobs to the service, and wakes it if it sleeps.
    pub(crate) fn flush(&self) -> Result<(), ClientError> {
        self.requests.publish(&self.shared.memory);
        if self.shared.memory.bells().must_wake_service() {
            match rustix::io::write(&self.bell, &1u64.to_ne_bytes()) {
                // A counter that is full wakes as well.
                Ok(_) | Err(Errno::AGAIN) => {}
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
        Ok(())
    }

    /// Sends a message to the service over the socket, and waits for the answer.
    pub(crate) fn ask(&self, ask: &Ask) -> Result<Told, ClientError> {
        ask_over(&self.shared.socket, ask).map(|(told, _)| told)
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
}

impl Receiver {
    /// Takes the next answer, if there is one.
    pub(crate) fn try_take(&mut self) -> Result<Option<(Ticket, Answer)>, ClientError> {
        let mut content = Zeroizing::new(Vec::new());
        let memory = &self.shared.memory;
        let lie = |_| ClientError::Protocol { what: "the ring of answers" };
        let Some(head) = self.answers.take(memory, &mut content, true).map_err(lie)? else {
            return Ok(None);
        };
        self.answers.release(memory);
        self.shared.taken.fetch_add(1, Ordering::Release);
        self.shared.freed.fetch_add(head.tag >> RESERVED_SHIFT, Ordering::Release);
        let answer = match Status::of_number(head.code) {
            Status::Done => Ok(content),
            status => Err(status),
        };
        Ok(Some((Ticket(head.tag), answer)))
    }

    /// Takes the next answer; waits for it.
    pub(crate) fn take(&mut self) -> Result<(Ticket, Answer), ClientError> {
        let since = Instant::now();
        loop {
            if let Some(taken) = self.try_take()? {
                return Ok(taken);
            }
            if self.shared.memory.bells().core_is_free() && self.spin() {
                continue;
            }
            if !self.sleep(GLANCE)? {
                if self.is_over()? {
                    return Err(ClientError::Ended);
                }
                if since.elapsed() > PATIENCE {
                    return Err(ClientError::Protocol { what: "its promise to answer" });
                }
            }
        }
    }

    /// Returns whether the service has gone and left no answers.
    pub(crate) fn is_over(&self) -> Result<bool, ClientError> {
        Ok(self.shared.has_ended() && !self.answers.is_pending(&self.shared.memory))
    }

    /// Spins for a while; returns whether an answer came.
    fn spin(&self) -> bool {
        let start = Instant::now();
        while start.elapsed() < SPIN {
            for _ in 0..8 {
                if self.answers.is_pending(&self.shared.memory) {
                    return true;
                }
                std::hint::spin_loop();
            }
        }
        false
    }

    /// Sleeps until there is an answer; returns false when `at_most` has passed.
    pub(crate) fn sleep(&self, at_most: Duration) -> Result<bool, ClientError> {
        let bells = self.shared.memory.bells();
        bells.client_is_about_to_wait(Waiting::Futex);
        let woken = if self.answers.is_pending(&self.shared.memory) {
            Ok(true)
        } else {
            let timeout = Timespec::try_from(at_most).unwrap_or_default();
            match futex::wait(bells.client_word(), futex::Flags::empty(), 1, Some(&timeout)) {
                Ok(()) | Err(Errno::AGAIN | Errno::INTR) => Ok(true),
                Err(Errno::TIMEDOUT) => Ok(false),
                Err(error) => Err(io::Error::from(error).into()),
            }
        };
        bells.client_is_awake();
        woken
    }
}

/// Sends a message and waits for its answer; skips announcements of answers in the ring.
fn ask_over(socket: &OwnedFd, ask: &Ask) -> Result<(Told, Vec<OwnedFd>), ClientError> {
    let ended = |error: io::Error| match error.kind() {
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::NotConnected => {
            ClientError::Ended
        }
        _ => ClientError::Io(error),
    };
    match socket::send(socket, ask, &[], SendFlags::empty()).map_err(ended) {
        // The service may have sent the reason before it closed the connection.
        Ok(()) | Err(ClientError::Ended) => {}
        Err(error) => return Err(error),
    }
    loop {
        match socket::receive::<Told>(socket, RecvFlags::empty()).map_err(ended)? {
            None => return Err(ClientError::Ended),
            Some((Told::Answers, _)) => {}
            Some((Told::Refused(refusal), _)) => return Err(refusal.into()),
            Some(told) => return Ok(told),
        }
    }
}

/// One connection, for one thread.
#[derive(Debug)]
pub struct Channel {
    sender: Sender,
    receiver: Receiver,
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
        Self::connect_within(path, program, PATIENCE)
    }

    /// Does the same, but gives a service up that does not answer a message within `patience`.
    ///
    /// # Errors
    /// Fails with [`ClientError::Unreachable`], or if the service refuses or does not answer.
    pub fn connect_within(path: &Path, program: &str, patience: Duration) -> Result<Self, ClientError> {
        let unreachable = |source| ClientError::Unreachable { socket: path.display().to_string(), source };
        let socket = socket::connect_to(path).map_err(unreachable)?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(patience))
            .map_err(io::Error::from)?;
        let program = program.chars().take(64).collect();
        let hello = Ask::Hello { lowest: VERSION, highest: VERSION, program };
        let (told, descriptors) = ask_over(&socket, &hello)?;
        let (Told::Welcome { version: VERSION, service }, Ok([memory, bell])) =
            (told, <[OwnedFd; 2]>::try_from(descriptors))
        else {
            return Err(Refusal::Unexpected.into());
        };
        let memory = Memory::map(memory.as_fd())?;
        let shared = Arc::new(Shared { socket, memory, taken: AtomicU64::new(0), freed: AtomicU64::new(0) });
        Ok(Self {
            sender: Sender {
                shared: Arc::clone(&shared),
                bell,
                requests: Producer::new(Direction::Requests),
                submitted: 0,
                reserved: 0,
            },
            receiver: Receiver { shared, answers: Consumer::new(Direction::Answers) },
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
    pub fn submit(
        &mut self,
        handle: u32,
        operation: Operation,
        content: &[u8],
    ) -> Result<Ticket, ClientError> {
        self.sender.submit(handle, operation, content)
    }

    /// Publishes the submitted jobs to the service.
    ///
    /// # Errors
    /// Fails if the system does.
    pub fn flush(&self) -> Result<(), ClientError> {
        self.sender.flush()
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
    pub fn take(&mut self) -> Result<(Ticket, Answer), ClientError> {
        match self.early.pop() {
            Some(early) => Ok(early),
            None => self.receiver.take(),
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
            let taken = self.receiver.take()?;
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
        self.flush()?;
        self.take_of(ticket)
    }

    /// For an event loop: requests that the service write to [`Channel::fd`] when the next answer is there. Returns
    /// true if there is an answer already.
    pub fn arm(&mut self) -> bool {
        let shared = &self.receiver.shared;
        shared.memory.bells().client_is_about_to_wait(Waiting::Socket);
        !self.early.is_empty() || self.receiver.answers.is_pending(&shared.memory)
    }

    /// For an event loop: reads the messages that the service has written to [`Channel::fd`].
    ///
    /// # Errors
    /// Fails if the connection ends.
    pub fn disarm(&mut self) -> Result<(), ClientError> {
        let shared = &self.receiver.shared;
        shared.memory.bells().client_is_awake();
        loop {
            match socket::receive::<Told>(&shared.socket, RecvFlags::DONTWAIT) {
                Ok(Some((Told::Answers, _))) => {}
                Ok(Some(_)) => return Err(ClientError::Protocol { what: "a message nobody asked for" }),
                Ok(None) => return Err(ClientError::Ended),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the descriptor that an event loop polls for reading after [`Channel::arm`].
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.receiver.shared.socket.as_fd()
    }

    /// Returns the number of jobs whose answers have not been taken out of the ring.
    pub fn in_flight(&self) -> usize {
        (self.sender.submitted - self.receiver.shared.taken.load(Ordering::Acquire)) as usize
    }

    pub(crate) fn split(self) -> (Sender, Receiver) {
        (self.sender, self.receiver)
    }
}
