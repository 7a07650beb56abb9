//! The service's view of one client's rings: requests are taken, become jobs, and answers are put back.
//!
//! **Guarantees:** a request is copied, then checked; a job is taken only if its answer has room, so an answer never
//! waits for a client; waking a client cannot block the service. The computation gets only keys and copies. A request
//! that needs no computation is answered where it is taken, and costs neither memory nor a lock of its own.

use crate::audit::Event;
use crate::closer::Closer;
use crate::counters::{Counters, operation_name};
use crate::kernel::refuse_descriptors;
use crate::policy::Grant;
use crate::record::RecordKey;
use sealane_asymmetric::{Halves, PrivateKey, Request, Spent, pass, run_together};
use sealane_client::job::{Use, answer_bytes_max};
use sealane_client::ring::{Consumer, Direction, Head, Lie, Producer, slots};
use sealane_client::socket::carries_descriptors;
use sealane_client::{Answer, Bell, KeyInfo, KeyKind, Memory, Operation, Status};
use sealane_transform::Kernels;
use std::collections::BTreeSet;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use zeroize::Zeroizing;

/// The maximum number of handles of one connection.
pub(crate) const HANDLES_MAX: usize = 1024;

/// The number of answers after which they are published, so that a client that is awake takes them meanwhile.
const PUBLISHED_AT_LEAST: usize = 8;

/// A private key that the service holds.
#[derive(Debug)]
pub(crate) struct StoredKey {
    pub(crate) info: KeyInfo,
    pub(crate) key: PrivateKey,
    /// Set when the key was removed; handles to it are then invalid.
    pub(crate) removed: AtomicBool,
    /// The number of operations that were done with it.
    pub(crate) used: AtomicU64,
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
    /// Returns the number of jobs like it that fill one pass of the kernels.
    pub(crate) fn pass(&self) -> usize {
        match &self.key {
            JobKey::Private(key) => pass(key.info.kind),
            JobKey::Record(_) => 1,
        }
    }

    /// Returns whether several like it are computed faster than one after the other on processors without wide vectors too.
    pub(crate) fn gains_without_wide_vectors(&self) -> bool {
        matches!(self.operation, Operation::SignMlDsa { .. })
    }

    fn request(&self) -> Option<Request<'_>> {
        let JobKey::Private(key) = &self.key else { return None };
        Some(Request { key: &key.key, operation: self.operation, content: &self.content })
    }

    /// Returns whether its operation may have halves.
    pub(crate) fn may_have_halves(&self) -> bool {
        self.request().is_some_and(|request| Halves::are_possible(&request))
    }

    /// Begins its operation in halves; returns `None` if it has none.
    pub(crate) fn halves(&self, kernels: &Kernels) -> Option<(Halves, Spent)> {
        Halves::begin(kernels, &self.request()?)
    }

    /// Makes a job with its room reserved, for tests of workers.
    #[cfg(test)]
    pub(crate) fn of_test(
        end: &Arc<End>,
        key: &Arc<StoredKey>,
        operation: Operation,
        content: &[u8],
    ) -> Self {
        let slots = slots(answer_bytes_max(operation.to_numbers().0, content.len()));
        end.under_way.fetch_add(slots, Ordering::AcqRel);
        Self {
            key: JobKey::Private(Arc::clone(key)),
            operation,
            content: Zeroizing::new(content.to_vec()),
            answer: None,
            tag: 7,
            slots,
            end: Arc::clone(end),
            user: 1,
            expected_ns: 0,
        }
    }

    /// Returns the answer, for tests of workers.
    #[cfg(test)]
    pub(crate) fn answer(&self) -> Option<&Answer> {
        self.answer.as_ref()
    }

    pub(crate) fn set_answer(&mut self, answer: Answer) {
        self.answer = Some(answer);
    }

    /// Returns the line for the log, if it was done with a key of the service.
    pub(crate) fn used(&self) -> Option<Event> {
        let JobKey::Private(key) = &self.key else { return None };
        let operation = operation_name(self.operation).to_owned();
        let is_done = matches!(self.answer, Some(Ok(_)));
        is_done.then(|| Event::Used { user: self.user, key: key.info.name.clone(), operation })
    }

    /// Puts the answer into the ring; a job without an answer has failed. The caller must look into all rings after this.
    pub(crate) fn deliver(self, counters: &Counters) {
        let answer = self.answer.unwrap_or(Err(Status::Failed));
        match &answer {
            Ok(_) => {
                counters.count_done(self.operation, 1);
                if let JobKey::Private(key) = &self.key {
                    key.used.fetch_add(1, Ordering::Relaxed);
                }
            }
            Err(status) => counters.count_refused(*status),
        }
        let (status, content) = match answer {
            Ok(content) => (Status::Done, content),
            Err(status) => (status, Zeroizing::default()),
        };
        self.end.put(self.tag, status, &content);
        self.end.under_way.fetch_sub(self.slots, Ordering::AcqRel);
    }
}

/// The service's end of a bell.
///
/// A client could send open files with its rings, and the service would have to close them, for as long as that takes. Where the
/// kernel cannot refuse them, they are not received, and the end is closed elsewhere.
#[derive(Debug)]
pub(crate) struct ClientBell {
    /// Empty only while it is dropped.
    bell: Option<Bell>,
    /// `None` if the kernel refuses.
    closer: Option<Closer>,
}

impl ClientBell {
    pub(crate) fn new(bell: Bell, closer: &Closer) -> Self {
        let closer = (!refuse_descriptors(&bell)).then(|| closer.clone());
        Self { bell: Some(bell), closer }
    }

    fn bell(&self) -> &Bell {
        self.bell.as_ref().expect("it has its bell until it is dropped")
    }

    /// Wakes the client.
    pub(crate) fn ring(&self) {
        self.bell().ring();
    }

    /// Takes all rings.
    ///
    /// # Errors
    /// Fails if something came with them.
    pub(crate) fn silence(&self) -> Result<(), Lie> {
        if self.closer.is_some() && carries_descriptors(self.bell()).unwrap_or(false) {
            return Err(Lie);
        }
        self.bell().silence();
        Ok(())
    }
}

impl AsFd for ClientBell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell().as_fd()
    }
}

impl Drop for ClientBell {
    fn drop(&mut self) {
        if let (Some(bell), Some(closer)) = (self.bell.take(), &self.closer) {
            closer.close(bell.into_socket());
        }
    }
}

/// The part of a connection that workers need.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) memory: Memory,
    pub(crate) bell: ClientBell,
    answers: Mutex<Producer>,
    /// The number of slots that are reserved for answers to jobs under way.
    under_way: AtomicUsize,
    /// Set when no more answers may be put into the ring.
    pub(crate) is_over: AtomicBool,
}

impl End {
    pub(crate) fn new(memory: Memory, bell: ClientBell) -> Self {
        let answers = Mutex::new(Producer::new(Direction::Answers));
        Self { memory, bell, answers, under_way: AtomicUsize::new(0), is_over: AtomicBool::new(false) }
    }

    fn answers(&self) -> MutexGuard<'_, Producer> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the ring has room for an answer of this many slots, besides those to jobs under way.
    #[inline]
    fn has_room(&self, answers: &mut Producer, slots: usize) -> Result<bool, Lie> {
        answers.fits(&self.memory, slots + self.under_way.load(Ordering::Acquire))
    }

    /// Puts an answer into the ring, and wakes the client if it waits. The caller must look into all rings after this: the
    /// client sees with the answer that its next request needs no wake-up, until the service asks for one again.
    fn put(&self, tag: u64, status: Status, content: &[u8]) {
        if self.is_over.load(Ordering::Acquire) {
            return;
        }
        self.memory.bells().service_is_awake();
        let mut answers = self.answers();
        if !self.push(&mut answers, tag, status, content) {
            return;
        }
        answers.publish(&self.memory);
        drop(answers);
        if self.memory.bells().must_wake_client() {
            self.bell.ring();
        }
    }

    /// Writes an answer into the ring. If the ring has no room although room was reserved, the client has lied, and
    /// the connection is over.
    #[inline]
    fn push(&self, answers: &mut Producer, tag: u64, status: Status, content: &[u8]) -> bool {
        let head = Head { tag, code: status.to_number(), ..Head::default() };
        let is_pushed = answers.push(&self.memory, head, content).is_ok();
        if !is_pushed {
            self.is_over.store(true, Ordering::Release);
        }
        is_pushed
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

impl Handle {
    /// Returns whether the key is the client's own.
    fn is_lent(&self) -> bool {
        match self {
            Self::Private { key, .. } => key.info.name.is_empty(),
            Self::Record(_) => true,
        }
    }
}

/// The requests of one connection; the owner of this value is the ring's consumer.
#[derive(Debug)]
pub(crate) struct Intake {
    pub(crate) end: Arc<End>,
    pub(crate) user: u32,
    requests: Consumer,
    handles: Vec<Option<Handle>>,
    /// The time of the last request that was taken.
    pub(crate) used_at: Instant,
    /// Memory for the content of a request.
    content: Zeroizing<Vec<u8>>,
}

/// The requests taken from rings.
#[derive(Debug, Default)]
pub(crate) struct TakenRequests {
    /// The jobs to be computed.
    pub(crate) jobs: Vec<Job>,
    /// The number of requests that were answered without a computation.
    pub(crate) answered: usize,
    /// A client with such answers that must be woken.
    pub(crate) to_wake: Option<Arc<End>>,
}

impl Intake {
    pub(crate) fn new(end: Arc<End>, user: u32, now: Instant) -> Self {
        Self {
            end,
            user,
            used_at: now,
            requests: Consumer::new(Direction::Requests),
            handles: Vec::new(),
            content: Zeroizing::default(),
        }
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

    /// Returns whether it has no request and no job.
    pub(crate) fn is_quiet(&self) -> bool {
        !self.is_shown() && self.end.under_way.load(Ordering::Acquire) == 0
    }

    /// Returns whether it has no request and no job, and no key that its client would have to lend anew.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_quiet() && !self.handles.iter().flatten().any(Handle::is_lent)
    }

    /// Gives every handle the uses that a changed policy allows.
    pub(crate) fn change_grant(&mut self, grant: &Grant) {
        for handle in self.handles.iter_mut().flatten() {
            if let Handle::Private { key, uses } = handle
                && !key.info.name.is_empty()
            {
                *uses = grant.uses(&key.info.name);
            }
        }
        if !grant.may_lend() {
            self.handles
                .iter_mut()
                .filter(|handle| handle.as_ref().is_some_and(Handle::is_lent))
                .for_each(|handle| *handle = None);
        }
    }

    /// Returns whether there is a request that may be taken. A client that leaves no room for answers must wait until
    /// it takes some.
    pub(crate) fn is_pending(&self) -> bool {
        let memory = &self.end.memory;
        let may_take = || -> Result<bool, Lie> {
            self.requests.check(memory)?;
            let Some((code, length)) = self.requests.next(memory)? else { return Ok(false) };
            self.end.has_room(&mut self.end.answers(), slots(answer_bytes_max(code, length)))
        };
        // An impossible request is taken, and ends the connection.
        may_take().unwrap_or(true)
    }

    /// Returns whether the client's count shows a request, which perhaps must not be taken.
    pub(crate) fn is_shown(&self) -> bool {
        self.requests.is_pending(&self.end.memory)
    }

    /// Returns about how many requests wait, which is nearly the number that may be taken.
    pub(crate) fn waiting(&self) -> usize {
        if self.is_pending() { self.requests.waiting(&self.end.memory).unwrap_or(1) } else { 0 }
    }

    /// Takes up to `jobs` jobs to be computed, and answers up to `ready` requests that need no computation.
    pub(crate) fn take(
        &mut self,
        jobs: usize,
        ready: usize,
        work: &mut TakenRequests,
        counters: &Counters,
    ) -> Result<(), Lie> {
        let (end, memory) = (&*self.end, &self.end.memory);
        self.requests.check(memory)?;
        let mut ring = end.answers();
        let (mut jobs_left, mut done, mut answered) = (jobs, 0, 0);
        while jobs_left > 0
            && answered < ready
            && let Some((code, length)) = self.requests.next(memory)?
        {
            let slots = slots(answer_bytes_max(code, length));
            if !end.has_room(&mut ring, slots)? {
                break;
            }
            let Some(head) = self.requests.take(memory, &mut self.content, false)? else { break };
            // Room was found for the answer to what it said at first.
            if head.code != code || self.content.len() > length {
                return Err(Lie);
            }
            match job_of(&self.handles, head) {
                Ok((key, operation)) => {
                    jobs_left -= 1;
                    end.under_way.fetch_add(slots, Ordering::AcqRel);
                    work.jobs.push(Job {
                        expected_ns: expected_ns(operation, &key, self.content.len()),
                        key,
                        operation,
                        content: std::mem::take(&mut self.content),
                        answer: None,
                        tag: head.tag,
                        slots,
                        end: Arc::clone(&self.end),
                        user: self.user,
                    });
                }
                Err(status) => {
                    if status == Status::Done {
                        done += 1;
                    } else {
                        self.content.clear();
                        counters.count_refused(status);
                    }
                    if !end.push(&mut ring, head.tag, status, &self.content) {
                        break;
                    }
                    answered += 1;
                    if answered.is_multiple_of(PUBLISHED_AT_LEAST) {
                        ring.publish(memory);
                    }
                }
            }
        }
        self.requests.release(memory);
        if answered > 0 {
            ring.publish(memory);
            counters.count_done(Operation::Null, done);
            work.answered += answered;
            if memory.bells().must_wake_client() {
                work.to_wake = Some(Arc::clone(&self.end));
            }
            ring.prepare(memory);
        }
        Ok(())
    }
}

/// Returns the key and operation of a request, or the status with which it is answered without a computation.
fn job_of(handles: &[Option<Handle>], head: Head) -> Result<(JobKey, Operation), Status> {
    let operation = Operation::of_numbers(head.code, head.parameters).ok_or(Status::UnknownOperation)?;
    if operation == Operation::Null {
        return Err(Status::Done);
    }
    let handle = handles.get(head.key as usize).and_then(Option::as_ref).ok_or(Status::UnknownKey)?;
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

/// Returns a rough estimate of a job's cost, on a core of 4 GHz, which is used until the cost is known.
fn expected_ns(operation: Operation, key: &JobKey, content_bytes: usize) -> u64 {
    let kind = match key {
        JobKey::Record(_) => return 300 + content_bytes as u64 / 4,
        JobKey::Private(key) => key.info.kind,
    };
    match (operation, kind) {
        (Operation::Null, _) => 200,
        (_, KeyKind::Rsa { bits } | KeyKind::RsaPss { bits, .. }) => {
            let relative = u64::from(bits) * 1000 / 2048;
            200 * relative * relative * relative / 1_000_000
        }
        (_, KeyKind::P384) => 150_000,
        (_, KeyKind::P521) => 400_000,
        (_, KeyKind::MlDsa(_)) => 90_000,
        _ => 30_000,
    }
}
