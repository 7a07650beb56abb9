//! Connections to the service: one per thread and socket, made when the thread first needs it.
//!
//! **Guarantees:** a forked process never uses its parent's connection; a process that changes its root or its user after it has
//! loaded its keys still finds the service; a service that does not answer is given up after a deadline, and from then on after a
//! moment, until it answers again.

use crate::ffi::jobs::{Job, is_in_job};
use crate::reason::Reason;
use sealane_client::{AsyncClient, Client, ClientError, Key, Operation, Status, Uri, environment, jail};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::future::Future as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use zeroize::Zeroizing;

/// The name of this provider in its messages to the service.
const PROGRAM: &str = concat!("sealane-provider ", env!("CARGO_PKG_VERSION"));

/// The deadline of the configuration in milliseconds; 0 without one.
static DEADLINE_MS: AtomicU64 = AtomicU64::new(0);

/// The deadline for a service that has missed one.
const MOMENT: Duration = Duration::from_millis(250);

/// Sets the time after which a service that does not answer is given up, from a text with a number of seconds.
pub(crate) fn set_deadline(seconds: &str) {
    if let Ok(seconds) = seconds.trim().parse::<f64>()
        && (0.001..=3600.0).contains(&seconds)
    {
        DEADLINE_MS.store((seconds * 1000.0) as u64, Relaxed);
    }
}

fn deadline() -> Duration {
    match DEADLINE_MS.load(Relaxed) {
        0 => environment::deadline(),
        ms => Duration::from_millis(ms),
    }
}

#[derive(Default)]
struct Connections {
    process: u32,
    by_socket: HashMap<PathBuf, Client>,
    /// Those whose service has missed its last deadline.
    late: BTreeSet<PathBuf>,
}

thread_local! {
    static CONNECTIONS: RefCell<Connections> = RefCell::default();
}

/// A key of the service.
#[derive(Clone, Debug)]
pub(crate) struct EngineKey {
    socket: PathBuf,
    pub(crate) key: Key,
}

fn with_client<T>(
    socket: &Path,
    call: impl FnOnce(&mut Client) -> Result<T, ClientError>,
) -> Result<T, Reason> {
    let outcome = CONNECTIONS.try_with(|connections| {
        let Ok(mut connections) = connections.try_borrow_mut() else { return Err(Reason::Failed) };
        let process = std::process::id();
        if connections.process != process {
            *connections = Connections { process, ..Connections::default() };
        }
        let client = match connections.by_socket.remove(socket) {
            Some(client) => Ok(client),
            None => {
                let is_late = connections.late.contains(socket);
                let patience = if is_late { MOMENT.min(deadline()) } else { deadline() };
                Client::connect_within(socket, PROGRAM, patience)
            }
        };
        let mut client = match client {
            Ok(client) => client,
            Err(error) => {
                if matches!(error, ClientError::Late { .. }) {
                    connections.late.insert(socket.to_owned());
                }
                return Err(Reason::from(&error));
            }
        };
        let outcome = call(&mut client);
        // A connection that was made with little patience is not kept once the service answers.
        let was_late = match &outcome {
            Err(ClientError::Late { .. }) => {
                connections.late.insert(socket.to_owned());
                true
            }
            _ => connections.late.remove(socket),
        };
        // A connection that cannot be made again is given up; the next call tries to connect.
        let is_lost = outcome.as_ref().is_err_and(ClientError::loses_connection);
        if !is_lost && !was_late {
            connections.by_socket.insert(socket.to_owned(), client);
        }
        outcome.map_err(|error| Reason::from(&error))
    });
    // A thread that is ending has no connection any more.
    outcome.unwrap_or(Err(Reason::Failed))
}

/// Returns the certificates in DER that the service keeps beside the key that a reference names.
pub(crate) fn certificates(uri: &Uri) -> Result<Vec<Vec<u8>>, Reason> {
    let socket = uri.socket.clone().unwrap_or_else(environment::socket);
    with_client(&socket, |client| client.certificates_of(&uri.name))
}

impl EngineKey {
    /// Opens the key that a reference names.
    pub(crate) fn open(uri: &Uri) -> Result<Self, Reason> {
        let socket = uri.socket.clone().unwrap_or_else(environment::socket);
        jail::hold(&socket);
        let key = with_client(&socket, |client| client.open(&uri.name))?;
        Ok(Self { socket, key })
    }

    /// Has the service compute. Within a job of OpenSSL, the program goes on with other work meanwhile.
    pub(crate) fn call(&self, operation: Operation, content: &[u8]) -> Result<Zeroizing<Vec<u8>>, Reason> {
        if is_in_job()
            && let Some(answer) = self.call_in(operation, content)
        {
            return answer;
        }
        with_client(&self.socket, |client| client.call(&self.key, operation, content))
    }

    /// Computes within a job; returns `None` if the caller must wait by itself.
    fn call_in(&self, operation: Operation, content: &[u8]) -> Option<Result<Zeroizing<Vec<u8>>, Reason>> {
        let client = shared_client(&self.socket)?;
        // A key that is already open is found without a message to the service.
        let key = client.open_once(&self.key).ok()?;
        let job = Job::current()?;
        let mut answer = pin!(client.call(&key, operation, content));
        let waker = job.waker();
        loop {
            match answer.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(Err(ClientError::Ended)) => {
                    forget_shared_client(&self.socket);
                    return None;
                }
                Poll::Ready(Err(error @ ClientError::Late { .. })) => {
                    forget_shared_client(&self.socket);
                    return Some(Err(Reason::from(&error)));
                }
                // It may be there again, and is opened again by the other way.
                Poll::Ready(Err(ClientError::Job(Status::Removed | Status::UnknownKey))) => {
                    client.forget(&key);
                    return None;
                }
                Poll::Ready(answer) => return Some(answer.map_err(|error| Reason::from(&error))),
                Poll::Pending if job.pause() => {}
                Poll::Pending => return None,
            }
        }
    }
}

/// The connections that jobs of all threads share, by sockets, and the process that made them.
static SHARED: Mutex<(u32, BTreeMap<PathBuf, AsyncClient>)> = Mutex::new((0, BTreeMap::new()));

/// The process that may not have the thread that takes answers for jobs; its calls wait by themselves.
static WITHOUT_THREADS: AtomicU32 = AtomicU32::new(0);

fn shared_client(socket: &Path) -> Option<AsyncClient> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if shared.0 != process {
        *shared = (process, BTreeMap::new());
    }
    if let Some(client) = shared.1.get(socket) {
        return Some(client.clone());
    }
    if WITHOUT_THREADS.load(Relaxed) == process {
        return None;
    }
    let client = match AsyncClient::connect_within(socket, PROGRAM, deadline()) {
        Ok(client) => client,
        Err(error) => {
            // HAProxy forbids itself new threads, for good.
            if matches!(error, ClientError::Io(_)) {
                WITHOUT_THREADS.store(process, Relaxed);
            }
            return None;
        }
    };
    shared.1.insert(socket.to_owned(), client.clone());
    Some(client)
}

fn forget_shared_client(socket: &Path) {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner).1.remove(socket);
}
