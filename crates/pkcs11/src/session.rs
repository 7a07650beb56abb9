//! Sessions: what they have under way, and the order of calls that PKCS#11 wants.
//!
//! **Guarantees:** there are at most [`SESSIONS_MAX`]; a session has one operation with a key at a time, and beside it one
//! search; an operation that fails is over, unless only room for its result was missing; a handle is never used again.

use crate::connections::Connections;
use crate::mechanism::Mechanism;
use crate::object::Object;
use crate::operation::{Decrypting, Given, Signing, Verifying};
use crate::refused::Refused;
use cryptoki_sys as c;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The maximum number of sessions of a process.
pub(crate) const SESSIONS_MAX: usize = 1024;

#[derive(Debug)]
enum Operation {
    Sign(Signing),
    Verify(Verifying),
    Decrypt(Decrypting),
}

/// The state of a session: at most one operation and one search.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// Whether it was opened for writing, which only the making of keys needs.
    for_writing: bool,
    operation: Option<Operation>,
    /// The objects that a search has found and not yet told.
    found: Option<VecDeque<c::CK_OBJECT_HANDLE>>,
}

const NOT_STARTED: Refused = Refused(c::CKR_OPERATION_NOT_INITIALIZED);

/// Fails if the session has something under way already.
fn vacant<T>(place: &Option<T>) -> Result<(), Refused> {
    if place.is_some() { Err(Refused(c::CKR_OPERATION_ACTIVE)) } else { Ok(()) }
}

impl Session {
    pub(crate) fn is_for_writing(&self) -> bool {
        self.for_writing
    }

    /// Fails if an operation is active, so that another one cannot start.
    pub(crate) fn is_vacant(&self) -> Result<(), Refused> {
        vacant(&self.operation)
    }

    pub(crate) fn start_signing(&mut self, object: Object, mechanism: Mechanism) -> Result<(), Refused> {
        self.is_vacant()?;
        self.operation = Some(Operation::Sign(Signing::start(object, mechanism)?));
        Ok(())
    }

    pub(crate) fn start_verifying(&mut self, object: Object, mechanism: Mechanism) -> Result<(), Refused> {
        self.is_vacant()?;
        self.operation = Some(Operation::Verify(Verifying::start(object, mechanism)?));
        Ok(())
    }

    pub(crate) fn start_decrypting(&mut self, object: Object, mechanism: Mechanism) -> Result<(), Refused> {
        self.is_vacant()?;
        self.operation = Some(Operation::Decrypt(Decrypting::start(object, mechanism)?));
        Ok(())
    }

    /// Ends the operation if the outcome of its last call is one that ends it.
    fn settle(&mut self, outcome: Result<Given, Refused>) -> Result<Given, Refused> {
        if !matches!(outcome, Ok(Given::Length(_) | Given::TooSmall(_))) {
            self.operation = None;
        }
        outcome
    }

    /// Signs whole data, or the parts so far if there are none.
    pub(crate) fn sign(
        &mut self,
        data: Option<&[u8]>,
        room: Option<usize>,
        connections: &Connections,
    ) -> Result<Given, Refused> {
        let Some(Operation::Sign(signing)) = &self.operation else { return Err(NOT_STARTED) };
        let outcome = signing.finish(data, room, connections);
        self.settle(outcome)
    }

    pub(crate) fn decrypt(
        &mut self,
        ciphertext: &[u8],
        room: Option<usize>,
        connections: &Connections,
    ) -> Result<Given, Refused> {
        let Some(Operation::Decrypt(decrypting)) = &mut self.operation else { return Err(NOT_STARTED) };
        let outcome = decrypting.finish(ciphertext, room, connections);
        self.settle(outcome)
    }

    /// Verifies the signature of whole data, or of the parts so far if there are none.
    pub(crate) fn verify(&mut self, data: Option<&[u8]>, signature: &[u8]) -> Result<(), Refused> {
        let Some(Operation::Verify(verifying)) = &self.operation else { return Err(NOT_STARTED) };
        let outcome = verifying.finish(data, signature);
        self.operation = None;
        outcome
    }

    /// Adds a part to the message that is being signed.
    pub(crate) fn sign_part(&mut self, part: &[u8]) -> Result<(), Refused> {
        let Some(Operation::Sign(signing)) = &mut self.operation else { return Err(NOT_STARTED) };
        let outcome = signing.update(part);
        self.ended_by(outcome)
    }

    /// Adds a part to the message whose signature is being verified.
    pub(crate) fn verify_part(&mut self, part: &[u8]) -> Result<(), Refused> {
        let Some(Operation::Verify(verifying)) = &mut self.operation else { return Err(NOT_STARTED) };
        let outcome = verifying.update(part);
        self.ended_by(outcome)
    }

    fn ended_by(&mut self, outcome: Result<(), Refused>) -> Result<(), Refused> {
        if outcome.is_err() {
            self.operation = None;
        }
        outcome
    }

    /// Fails if a search is under way, so that another one cannot start.
    pub(crate) fn may_search(&self) -> Result<(), Refused> {
        vacant(&self.found)
    }

    pub(crate) fn start_search(&mut self, found: Vec<c::CK_OBJECT_HANDLE>) -> Result<(), Refused> {
        self.may_search()?;
        self.found = Some(found.into());
        Ok(())
    }

    /// Returns the next objects of a search.
    pub(crate) fn next_found(&mut self, most: usize) -> Result<Vec<c::CK_OBJECT_HANDLE>, Refused> {
        let found = self.found.as_mut().ok_or(NOT_STARTED)?;
        let count = most.min(found.len());
        Ok(found.drain(..count).collect())
    }

    pub(crate) fn end_search(&mut self) -> Result<(), Refused> {
        self.found.take().map(drop).ok_or(NOT_STARTED)
    }
}

/// The sessions of a process.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    by_handle: BTreeMap<c::CK_SESSION_HANDLE, Arc<Mutex<Session>>>,
    last: c::CK_SESSION_HANDLE,
    pub(crate) is_logged_in: bool,
}

impl Sessions {
    /// Opens a session. Some programs, such as `ssh`, want one for writing, although they write nothing.
    pub(crate) fn open(&mut self, for_writing: bool) -> Result<c::CK_SESSION_HANDLE, Refused> {
        if self.by_handle.len() >= SESSIONS_MAX {
            return Err(Refused(c::CKR_SESSION_COUNT));
        }
        self.last += 1;
        let session = Session { for_writing, ..Session::default() };
        self.by_handle.insert(self.last, Arc::new(Mutex::new(session)));
        Ok(self.last)
    }

    /// Closes a session. The last one logs out.
    pub(crate) fn close(&mut self, handle: c::CK_SESSION_HANDLE) -> Result<(), Refused> {
        self.by_handle.remove(&handle).ok_or(Refused(c::CKR_SESSION_HANDLE_INVALID))?;
        self.is_logged_in &= !self.by_handle.is_empty();
        Ok(())
    }

    pub(crate) fn close_all(&mut self) {
        self.by_handle.clear();
        self.is_logged_in = false;
    }

    pub(crate) fn count(&self) -> usize {
        self.by_handle.len()
    }

    pub(crate) fn get(&self, handle: c::CK_SESSION_HANDLE) -> Result<Arc<Mutex<Session>>, Refused> {
        self.by_handle.get(&handle).cloned().ok_or(Refused(c::CKR_SESSION_HANDLE_INVALID))
    }
}

/// Locks a session for a call.
pub(crate) fn locked(session: &Mutex<Session>) -> MutexGuard<'_, Session> {
    session.lock().unwrap_or_else(PoisonError::into_inner)
}
