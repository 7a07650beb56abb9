//! The service's view of one client's rings: requests are taken, become jobs, and answers are put back.
//!
//! **Guarantees:** a request is copied, then checked; a job is taken only if its answer has room, so an answer never
//! waits for a client; waking a client cannot block the service. The computation gets only keys and copies.

use crate::counters::Counters;
use crate::record::RecordKey;
use rustix::net::SendFlags;
use rustix::thread::futex;
use sealane_asymmetric::{PrivateKey, Request, run_together};
use sealane_client::job::{Use, answer_bytes_max};
use sealane_client::ring::{Consumer, Direction, Head, Lie, Producer, slots};
use sealane_client::setup::Told;
use sealane_client::{Answer, KeyInfo, KeyKind, Memory, Operation, Status, Waiting, socket};
use sealane_transform::Kernels;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use zeroize::Zeroizing;

/// The maximum number of handles of one connection.
pub(crate) const HANDLES_MAX: usize = 1024;

/// A private key that the service holds.
#[derive(Debug)]
pub(crate) struct StoredKey {
    pub(crate) info: KeyInfo,
    pub(crate) key: PrivateKey,
    /// Set when the key was removed; handles to it are then invalid.
    pub(crate) removed: AtomicBool,
}

/// The key of a job.
#[derive(Clone, Debug)]
enum JobKey {
    Private(Arc<StoredKey>),
    Record(Arc<RecordKey>),
}

/// One operation that a client requests, on a copy of its content.
#[derive(Debug)]
pub(crate) struct Job {
    key: JobKey,
    operation: Operation,
    content: Zeroizing<Vec<u8>>,
    answer: Option<Answer>,
    tag: u64,
    /// The number of slots that are reserved for the answer.
    slots: usize,
    end: Arc<End>,
    pub(crate) user: u32,
    pub(crate) expected_ns: u64,
}

/// Computes jobs: operations with private keys side by side, records one after the other.
pub(crate) fn compute(kernels: &Kernels, jobs: &mut [Job]) {
    let mut requests = Vec::with_capacity(jobs.len());
    for job in &mut *jobs {
        match &job.key {
            JobKey::Private(key) => {
                requests.push(Request { key: &key.key, operation: job.operation, content: &job.content });
            }
            JobKey::Record(key) => {
                job.answer = Some(key.run(job.operation, std::mem::take(&mut job.content)));
            }
        }
    }
    let answers = run_together(kernels, &requests);
    drop(requests);
    for (job, answer) in jobs.iter_mut().filter(|job| job.answer.is_none()).zip(answers) {
        job.answer = Some(answer);
    }
}

impl Job {
    /// Puts the answer into the ring; a job without an answer has failed.
    pub(crate) fn deliver(self, counters: &Counters) {
        let answer = self.answer.unwrap_or(Err(Status::Failed));
        match &answer {
            Ok(_) => counters.count_done(self.operation),
            Err(status) => counters.count_refused(*status),
        }
        let (status, content) = match answer {
            Ok(content) => (Status::Done, content),
            Err(status) => (status, Zeroizing::default()),
        };
        self.end.put(&[Ready { tag: self.tag, status, content }]);
        self.end.under_way.fetch_sub(self.slots, Ordering::AcqRel);
    }
}

/// An answer that needed no computation.
#[derive(Debug)]
pub(crate) struct Ready {
    tag: u64,
    status: Status,
    content: Zeroizing<Vec<u8>>,
}

/// The part of a connection that workers need.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) memory: Memory,
    /// The set-up socket, at which a client in an event loop is woken.
    socket: Arc<OwnedFd>,
    answers: Mutex<Producer>,
    /// The number of slots that are reserved for answers to jobs under way.
    under_way: AtomicUsize,
    /// Set when no more answers may be put into the ring.
    pub(crate) is_over: AtomicBool,
}

impl End {
    pub(crate) fn new(memory: Memory, socket: Arc<OwnedFd>) -> Self {
        let answers = Mutex::new(Producer::new(Direction::Answers));
        Self { memory, socket, answers, under_way: AtomicUsize::new(0), is_over: AtomicBool::new(false) }
    }

    /// Returns the number of slots for answers besides those reserved for jobs under way.
    fn room(&self) -> Result<usize, Lie> {
        let free = self.answers.lock().unwrap_or_else(PoisonError::into_inner).free(&self.memory)?;
        Ok(free.saturating_sub(self.under_way.load(Ordering::Acquire)))
    }

    /// Puts answers into the ring, and wakes the client if it waits. If the ring has no room although room was
    /// reserved, the client has lied, and the connection is over.
    pub(crate) fn put(&self, answers: &[Ready]) {
        if self.is_over.load(Ordering::Acquire) {
            return;
        }
        let mut producer = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        for answer in answers {
            let head = Head { tag: answer.tag, code: answer.status.to_number(), ..Head::default() };
            if producer.push(&self.memory, head, &answer.content).is_err() {
                self.is_over.store(true, Ordering::Release);
                return;
            }
        }
        producer.publish(&self.memory);
        drop(producer);
        match self.memory.bells().must_wake_client() {
            Waiting::No => {}
            Waiting::Futex => {
                // There may be no sleeper, which does not matter.
                let _ = futex::wake(self.memory.bells().client_word(), futex::Flags::empty(), 1);
            }
            Waiting::Socket => {
                // A socket that is full of these messages wakes as well; the flag keeps a client from blocking this
                // call.
                let _ = socket::send(&*self.socket, &Told::Answers, &[], SendFlags::DONTWAIT);
            }
        }
    }
}

/// The meaning of a handle of one connection.
#[derive(Debug)]
pub(crate) enum Handle {
    /// A private key, and the uses that the connection may make of it.
    Private { key: Arc<StoredKey>, uses: BTreeSet<Use> },
    /// A key for records, which the connection has lent.
    Record(Arc<RecordKey>),
}

/// The requests of one connection; the owner of this value is the ring's consumer.
#[derive(Debug)]
pub(crate) struct Intake {
    pub(crate) end: Arc<End>,
    pub(crate) user: u32,
    requests: Consumer,
    handles: Vec<Option<Handle>>,
}

/// The requests taken from a ring.
#[derive(Debug, Default)]
pub(crate) struct Work {
    /// The jobs to be computed.
    pub(crate) jobs: Vec<Job>,
    /// The answers to be put back without a computation, and their connection.
    pub(crate) ready: Option<(Arc<End>, Vec<Ready>)>,
}

impl Intake {
    pub(crate) fn new(end: Arc<End>, user: u32) -> Self {
        Self { end, user, requests: Consumer::new(Direction::Requests), handles: Vec::new() }
    }

    /// Gives a key a handle in this connection; returns `None` if there are too many.
    pub(crate) fn open(&mut self, handle: Handle) -> Option<u32> {
        let at = match self.handles.iter().position(Option::is_none) {
            Some(at) => at,
            None if self.handles.len() < HANDLES_MAX => {
                self.handles.push(None);
                self.handles.len() - 1
            }
            None => return None,
        };
        self.handles[at] = Some(handle);
        u32::try_from(at).ok()
    }

    pub(crate) fn close(&mut self, handle: u32) {
        if let Some(place) = self.handles.get_mut(handle as usize) {
            *place = None;
        }
    }

    /// Returns whether there is a request that may be taken. A client that leaves no room for answers must wait until
    /// it takes some.
    pub(crate) fn is_pending(&self) -> bool {
        match self.requests.next_length(&self.end.memory) {
            Ok(None) => false,
            Ok(Some(length)) => self.end.room().is_ok_and(|room| slots(answer_bytes_max(length)) <= room),
            // It is taken, and ends the connection.
            Err(Lie) => true,
        }
    }

    /// Returns about how many requests wait, which is nearly the number that may be taken.
    pub(crate) fn waiting(&self) -> usize {
        if self.is_pending() { self.requests.waiting(&self.end.memory).unwrap_or(1) } else { 0 }
    }

    /// Takes up to `jobs` jobs to be computed, and up to `ready` requests that need no computation.
    pub(crate) fn take(
        &mut self,
        jobs: usize,
        ready: usize,
        work: &mut Work,
        counters: &Counters,
    ) -> Result<(), Lie> {
        let memory = &self.end.memory;
        let mut room = self.end.room()?;
        let (mut jobs_left, mut ready_left) = (jobs, ready);
        let mut answers = Vec::new();
        let mut taken = 0;
        while jobs_left > 0
            && ready_left > 0
            && let Some(length) = self.requests.next_length(memory)?
        {
            let slots = slots(answer_bytes_max(length));
            if slots > room {
                break;
            }
            let mut content = Zeroizing::new(Vec::new());
            let Some(head) = self.requests.take(memory, &mut content, false)? else { break };
            if content.len() > length {
                return Err(Lie);
            }
            room -= slots;
            taken += 1;
            match self.job(head) {
                Ok((key, operation)) => {
                    jobs_left -= 1;
                    self.end.under_way.fetch_add(slots, Ordering::AcqRel);
                    work.jobs.push(Job {
                        expected_ns: expected_ns(operation, &key, content.len()),
                        key,
                        operation,
                        content,
                        answer: None,
                        tag: head.tag,
                        slots,
                        end: Arc::clone(&self.end),
                        user: self.user,
                    });
                }
                Err(status) => {
                    ready_left -= 1;
                    match status {
                        Status::Done => counters.count_done(Operation::Null),
                        _ => {
                            content.clear();
                            counters.count_refused(status);
                        }
                    }
                    answers.push(Ready { tag: head.tag, status, content });
                }
            }
        }
        if taken > 0 {
            self.requests.release(memory);
        }
        if !answers.is_empty() {
            work.ready = Some((Arc::clone(&self.end), answers));
        }
        Ok(())
    }

    /// Returns the key and operation of a request, or the status with which it is answered without a computation.
    fn job(&self, head: Head) -> Result<(JobKey, Operation), Status> {
        let operation = Operation::of_numbers(head.code, head.parameters).ok_or(Status::UnknownOperation)?;
        if operation == Operation::Null {
            return Err(Status::Done);
        }
        let handle =
            self.handles.get(head.key as usize).and_then(Option::as_ref).ok_or(Status::UnknownKey)?;
        let (key, uses, needed) = match (handle, operation.of_use()) {
            (Handle::Record(key), None) => return Ok((JobKey::Record(Arc::clone(key)), operation)),
            (Handle::Private { key, uses }, Some(needed)) => (key, uses, needed),
            _ => return Err(Status::WrongKind),
        };
        if key.removed.load(Ordering::Acquire) {
            return Err(Status::Removed);
        }
        if !operation.suits(key.info.kind) {
            return Err(Status::WrongKind);
        }
        if !uses.contains(&needed) {
            return Err(Status::NotAllowed);
        }
        Ok((JobKey::Private(Arc::clone(key)), operation))
    }
}

/// Returns a rough estimate of a job's cost, on a core of 4 GHz, which is used until the cost is known.
fn expected_ns(operation: Operation, key: &JobKey, content_bytes: usize) -> u64 {
    let kind = match key {
        JobKey::Record(_) => return 300 + content_bytes as u64 / 4,
        JobKey::Private(key) => key.info.kind,
    };
    match (operation, kind) {
        (Operation::Null, _) => 200,
        (_, KeyKind::Rsa { bits }) => {
            let relative = u64::from(bits) * 1000 / 2048;
            200 * relative * relative * relative / 1_000_000
        }
        (_, KeyKind::P384) => 150_000,
        _ => 30_000,
    }
}
