//! Connections to the service, lent to one call at a time.
//!
//! **Guarantee:** at most [`CONNECTIONS_MAX`] exist; a call that finds none free waits for one. Threads that call at
//! the same time have different connections.

use sealane_client::{Client, ClientError, Key, Operation, environment, jail};
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use zeroize::Zeroizing;

/// The name of this module in its messages to the service.
const PROGRAM: &str = concat!("sealane-pkcs11 ", env!("CARGO_PKG_VERSION"));

/// The maximum number of connections of a process. More signatures at once would fill no larger batches.
const CONNECTIONS_MAX: usize = 16;

/// The connections of a process.
#[derive(Debug)]
pub(crate) struct Connections {
    socket: PathBuf,
    state: Mutex<State>,
    returned: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The connections that no call uses; the one that was used last is the last.
    idle: Vec<Client>,
    /// The number of those that calls use or are about to make.
    lent: usize,
}

/// A connection that a call uses, or the right to make one. It is given back when it is dropped.
struct Lent<'a> {
    connections: &'a Connections,
    client: Option<Client>,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        let mut state = self.connections.state();
        state.lent -= 1;
        state.idle.extend(self.client.take());
        drop(state);
        self.connections.returned.notify_one();
    }
}

impl Connections {
    pub(crate) fn new(socket: PathBuf) -> Self {
        // The program may change its root.
        jail::hold(&socket);
        Self { socket, state: Mutex::default(), returned: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lend(&self) -> Lent<'_> {
        let mut state = self.state();
        while state.lent >= CONNECTIONS_MAX {
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.lent += 1;
        let client = state.idle.pop();
        Lent { connections: self, client }
    }

    /// Returns the outcome of `call` with a connection, which is made if none is free.
    pub(crate) fn with<T>(
        &self,
        call: impl FnOnce(&mut Client) -> Result<T, ClientError>,
    ) -> Result<T, ClientError> {
        let mut lent = self.lend();
        let mut client = match lent.client.take() {
            Some(client) => client,
            None => Client::connect_within(&self.socket, PROGRAM, environment::deadline())?,
        };
        let outcome = call(&mut client);
        // A connection that cannot be made again is given up; the next call tries to connect.
        let is_lost = outcome.as_ref().is_err_and(ClientError::loses_connection);
        lent.client = (!is_lost).then_some(client);
        outcome
    }

    /// Has the service compute with a key.
    pub(crate) fn call(
        &self,
        key: &Key,
        operation: Operation,
        content: &[u8],
    ) -> Result<Zeroizing<Vec<u8>>, ClientError> {
        self.with(|client| client.call(key, operation, content))
    }

    /// Closes a parent's free connections in its forked child. Those that other threads of the parent were using stay
    /// open: their threads do not exist here.
    pub(crate) fn abandon(&self) {
        if let Ok(mut state) = self.state.try_lock() {
            state.idle.clear();
        }
    }
}
