//! Connections to the service: one per thread and socket, made when the thread first needs it.
//!
//! **Guarantee:** a forked process never uses its parent's connection.

use crate::ffi::jobs::Job;
use crate::reason::Reason;
use sealane_client::{AsyncClient, Client, ClientError, Key, Operation, SOCKET, Uri};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::future::Future as _;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use zeroize::Zeroizing;

/// The name of this provider in its messages to the service.
const PROGRAM: &str = concat!("sealane-provider ", env!("CARGO_PKG_VERSION"));

#[derive(Default)]
struct Connections {
    process: u32,
    by_socket: HashMap<PathBuf, Client>,
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
            *connections = Connections { process, by_socket: HashMap::new() };
        }
        let client = match connections.by_socket.remove(socket) {
            Some(client) => Ok(client),
            None => Client::connect(socket, PROGRAM),
        };
        let mut client = client.map_err(|error| Reason::from(&error))?;
        let outcome = call(&mut client);
        // A connection that cannot be made again is given up; the next call tries to connect.
        let is_lost = outcome.as_ref().is_err_and(ClientError::loses_connection);
        if !is_lost {
            connections.by_socket.insert(socket.to_owned(), client);
        }
        outcome.map_err(|error| Reason::from(&error))
    });
    // A thread that is ending has no connection any more.
    outcome.unwrap_or(Err(Reason::Failed))
}

impl EngineKey {
    /// Opens the key that a reference names.
    pub(crate) fn open(uri: &Uri) -> Result<Self, Reason> {
        let socket = uri.socket.clone().unwrap_or_else(|| PathBuf::from(SOCKET));
        let key = with_client(&socket, |client| client.open(&uri.name))?;
        Ok(Self { socket, key })
    }

    /// Has the service compute. Within a job of OpenSSL, the program goes on with other work meanwhile.
    pub(crate) fn call(&self, operation: Operation, content: &[u8]) -> Result<Zeroizing<Vec<u8>>, Reason> {
        if let Some(job) = Job::current()
            && let Some(answer) = self.call_in(&job, operation, content)
        {
            return answer;
        }
        with_client(&self.socket, |client| client.call(&self.key, operation, content))
    }

    /// Computes within a job; returns `None` if the caller must wait by itself.
    fn call_in(
        &self,
        job: &Job,
        operation: Operation,
        content: &[u8],
    ) -> Option<Result<Zeroizing<Vec<u8>>, Reason>> {
        let client = shared_client(&self.socket)?;
        // A key that is already open is found without a message to the service.
        let key = client.open_once(&self.key).ok()?;
        let mut answer = pin!(client.call(&key, operation, content));
        let waker = job.waker();
        loop {
            match answer.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(Err(ClientError::Ended)) => {
                    forget_shared_client(&self.socket);
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

fn shared_client(socket: &Path) -> Option<AsyncClient> {
    let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let process = std::process::id();
    if shared.0 != process {
        *shared = (process, BTreeMap::new());
    }
    if let Some(client) = shared.1.get(socket) {
        return Some(client.clone());
    }
    let client = AsyncClient::connect(socket, PROGRAM).ok()?;
    shared.1.insert(socket.to_owned(), client.clone());
    Some(client)
}

fn forget_shared_client(socket: &Path) {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner).1.remove(socket);
}
