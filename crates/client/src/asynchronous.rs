//! Calls as futures, for any executor: many tasks share one connection, and one thread takes the answers.
//!
//! **Guarantees:** a future resolves once, with its own answer; a future that is dropped leaves nothing behind when
//! its job is answered. No more jobs are under way than the connection takes; the other jobs wait for room. When the
//! service ends, every future resolves with [`ClientError::Ended`]; when it answers none of the jobs under way for too long, with
//! [`ClientError::Late`].

use crate::channel::{Channel, DEADLINE, Receiver, Sender, Ticket};
use crate::error::ClientError;
use crate::job::{Answer, Operation};
use crate::key::{Key, Source};
use crate::setup::Ask;
use std::collections::HashMap;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};
use zeroize::Zeroizing;

/// A connection that tasks share.
#[derive(Clone, Debug)]
pub struct AsyncClient {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    patience: Duration,
    /// It has a separate lock, because set-up calls wait for the service.
    handles: Mutex<HashMap<Vec<u8>, u32>>,
}

#[derive(Debug)]
struct State {
    sender: Sender,
    /// The jobs under way whose futures exist.
    waiting: HashMap<Ticket, Slot>,
    /// The tasks that wait for room.
    room: Vec<Waker>,
    has_ended: bool,
    /// Whether it has ended because there were no answers.
    is_late: bool,
    /// The time of the last answer, or of the first job without one.
    since: Instant,
}

impl State {
    /// Returns the reason for which it has ended.
    fn end(&self, patience: Duration) -> ClientError {
        if self.is_late { ClientError::Late { within: patience } } else { ClientError::Ended }
    }
}

#[derive(Debug)]
enum Slot {
    Waiting(Waker),
    Answered(Answer),
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AsyncClient {
    /// Connects to the service that listens at `path`, and starts the thread that takes answers. Blocks until that is
    /// done.
    ///
    /// # Errors
    /// Fails with [`ClientError::Unreachable`], or if the service refuses.
    pub fn connect(path: &Path, program: &str) -> Result<Self, ClientError> {
        Self::connect_within(path, program, DEADLINE)
    }

    /// Does the same, but gives a service up that does not answer within `patience`, now and later.
    ///
    /// # Errors
    /// Fails with [`ClientError::Unreachable`], or if the service refuses.
    pub fn connect_within(path: &Path, program: &str, patience: Duration) -> Result<Self, ClientError> {
        let (sender, receiver) = Channel::connect_within(path, program, patience)?.split();
        let state = State {
            sender,
            waiting: HashMap::new(),
            room: Vec::new(),
            has_ended: false,
            is_late: false,
            since: Instant::now(),
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), patience, handles: Mutex::default() });
        let weak = Arc::downgrade(&shared);
        thread::Builder::new()
            .name("sealane-answers".to_owned())
            .spawn(move || take_answers(&weak, receiver))?;
        Ok(Self { shared })
    }

    /// Opens a key. Blocks for one exchange with the service.
    ///
    /// # Errors
    /// Fails if there is no such key, or none for this user, or if the connection ends.
    pub fn open(&self, name: &str) -> Result<Key, ClientError> {
        let mut handles = self.shared.handles.lock().unwrap_or_else(PoisonError::into_inner);
        let (handle, info) = self.shared.state().sender.open(&Ask::Open(Source::Name(name.to_owned())))?;
        handles.insert(info.public.clone(), handle);
        Ok(Key { info })
    }

    /// Opens a key that was opened before, by this client or another one, unless this client has it already.
    ///
    /// # Errors
    /// Fails as [`AsyncClient::open`] does, and if the key of that name is now another one.
    pub fn open_once(&self, key: &Key) -> Result<Key, ClientError> {
        let handles = self.shared.handles.lock().unwrap_or_else(PoisonError::into_inner);
        if handles.contains_key(&key.info.public) {
            return Ok(key.clone());
        }
        drop(handles);
        let found = self.open(&key.info.name)?;
        if found.info.public == key.info.public {
            return Ok(found);
        }
        Err(ClientError::OtherKey { name: found.info.name })
    }

    /// Forgets that a key is open.
    pub fn forget(&self, key: &Key) {
        self.shared.handles.lock().unwrap_or_else(PoisonError::into_inner).remove(&key.info.public);
    }

    /// Has the service compute `operation` with a key that this client has opened.
    pub fn call(&self, key: &Key, operation: Operation, content: &[u8]) -> Answered {
        let handles = self.shared.handles.lock().unwrap_or_else(PoisonError::into_inner);
        // The service answers a job with a handle that does not exist by an error.
        let handle = handles.get(&key.info.public).copied().unwrap_or(u32::MAX);
        let content = Zeroizing::new(content.to_vec());
        Answered { shared: Arc::clone(&self.shared), step: Step::New { handle, operation, content } }
    }
}

/// The future answer of one job.
#[derive(Debug)]
pub struct Answered {
    shared: Arc<Shared>,
    step: Step,
}

#[derive(Debug)]
enum Step {
    New { handle: u32, operation: Operation, content: Zeroizing<Vec<u8>> },
    UnderWay(Ticket),
    Over,
}

impl Future for Answered {
    type Output = Result<Zeroizing<Vec<u8>>, ClientError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let mut state = this.shared.state();
        let outcome = match &this.step {
            Step::New { .. } | Step::UnderWay(_) if state.has_ended => Err(state.end(this.shared.patience)),
            Step::New { handle, operation, content } => {
                match state.sender.submit(*handle, *operation, content) {
                    Ok(ticket) => {
                        state.sender.flush();
                        if state.waiting.is_empty() {
                            state.since = Instant::now();
                        }
                        state.waiting.insert(ticket, Slot::Waiting(context.waker().clone()));
                        this.step = Step::UnderWay(ticket);
                        return Poll::Pending;
                    }
                    Err(ClientError::Full) => {
                        state.room.push(context.waker().clone());
                        return Poll::Pending;
                    }
                    Err(error) => Err(error),
                }
            }
            Step::UnderWay(ticket) => match state.waiting.remove(ticket) {
                Some(Slot::Answered(answer)) => answer.map_err(ClientError::Job),
                _ => {
                    state.waiting.insert(*ticket, Slot::Waiting(context.waker().clone()));
                    return Poll::Pending;
                }
            },
            Step::Over => panic!("polled after it was ready"),
        };
        this.step = Step::Over;
        Poll::Ready(outcome)
    }
}

impl Drop for Answered {
    fn drop(&mut self) {
        if let Step::UnderWay(ticket) = self.step {
            self.shared.state().waiting.remove(&ticket);
        }
    }
}

/// Takes answers until the connection ends, or the client is dropped.
fn take_answers(shared: &Weak<Shared>, mut receiver: Receiver) {
    while take_one(shared, &mut receiver).unwrap_or(false) {}
    if let Some(shared) = shared.upgrade() {
        let mut state = shared.state();
        state.has_ended = true;
        let waiting = state.waiting.drain().filter_map(|(_, slot)| match slot {
            Slot::Waiting(waker) => Some(waker),
            Slot::Answered(_) => None,
        });
        let mut wakers: Vec<Waker> = waiting.collect();
        wakers.append(&mut state.room);
        drop(state);
        wakers.into_iter().for_each(Waker::wake);
    }
}

/// Takes an answer, or sleeps for a limited time until there is one; returns false when the client is dropped, or the
/// service has ended.
fn take_one(shared: &Weak<Shared>, receiver: &mut Receiver) -> Result<bool, ClientError> {
    let taken = receiver.try_take()?;
    let Some(shared) = shared.upgrade() else { return Ok(false) };
    let Some((ticket, answer)) = taken else {
        let mut state = shared.state();
        // Those whose futures are gone count as answered, which is soon right.
        state.is_late = !state.waiting.is_empty() && state.since.elapsed() > shared.patience;
        if state.is_late {
            return Ok(false);
        }
        drop(state);
        drop(shared);
        return Ok(receiver.sleep() || !receiver.is_over());
    };
    let mut state = shared.state();
    state.since = Instant::now();
    let woken = state.waiting.get_mut(&ticket).map(|slot| std::mem::replace(slot, Slot::Answered(answer)));
    // All tasks are woken: if the future of a single woken task were gone, no other task would use the room.
    let mut wakers = std::mem::take(&mut state.room);
    drop(state);
    if let Some(Slot::Waiting(waker)) = woken {
        wakers.push(waker);
    }
    wakers.into_iter().for_each(Waker::wake);
    Ok(true)
}
