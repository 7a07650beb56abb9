//! The state of the module between `C_Initialize` and `C_Finalize`.
//!
//! **Guarantees:** the state belongs to the process that initialised the module; a forked child finds the module not
//! initialised, and takes no lock that a thread of its parent may have held.

use crate::connections::Connections;
use crate::object::{Object, Objects};
use crate::refused::Refused;
use crate::session::{Session, Sessions, locked};
use arc_swap::{ArcSwapOption, Guard};
use cryptoki_sys as c;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

static CURRENT: ArcSwapOption<Module> = ArcSwapOption::const_empty();

/// The state of an initialised module.
#[derive(Debug)]
pub(crate) struct Module {
    process: u32,
    pub(crate) socket: PathBuf,
    pub(crate) connections: Connections,
    sessions: Mutex<Sessions>,
    objects: Mutex<Objects>,
    /// It is held by a search, so that an older list of keys does not replace a newer one.
    search: Mutex<()>,
}

/// Initialises the module for the service that listens at `socket`, which need not be there.
///
/// # Errors
/// Fails if the module is initialised already.
pub(crate) fn initialize(socket: PathBuf) -> Result<(), Refused> {
    let module = Module {
        process: std::process::id(),
        connections: Connections::new(socket.clone()),
        socket,
        sessions: Mutex::default(),
        objects: Mutex::default(),
        search: Mutex::default(),
    };
    let found = CURRENT.load();
    let expected = address(&found);
    if found.as_ref().is_some_and(|module| module.is_own()) {
        return Err(Refused(c::CKR_CRYPTOKI_ALREADY_INITIALIZED));
    }
    let replaced = CURRENT.compare_and_swap(&found, Some(Arc::new(module)));
    if address(&replaced) != expected {
        return Err(Refused(c::CKR_CRYPTOKI_ALREADY_INITIALIZED));
    }
    if let Some(parents) = Guard::into_inner(replaced) {
        parents.connections.abandon();
        // Other threads of the parent may have been changing it when the process was forked.
        std::mem::forget(parents);
    }
    Ok(())
}

fn address(module: &Option<Arc<Module>>) -> Option<*const Module> {
    module.as_ref().map(Arc::as_ptr)
}

/// Ends all sessions and connections.
///
/// # Errors
/// Fails if the module is not initialised.
pub(crate) fn finalize() -> Result<(), Refused> {
    current()?;
    CURRENT.swap(None).map(drop).ok_or(Refused(c::CKR_CRYPTOKI_NOT_INITIALIZED))
}

/// Returns the state.
///
/// # Errors
/// Fails if this process has not initialised the module.
pub(crate) fn current() -> Result<Arc<Module>, Refused> {
    let found = CURRENT.load_full().filter(|module| module.is_own());
    found.ok_or(Refused(c::CKR_CRYPTOKI_NOT_INITIALIZED))
}

impl Module {
    fn is_own(&self) -> bool {
        self.process == std::process::id()
    }

    /// Returns whether the service is there and lets this user in.
    pub(crate) fn has_token(&self) -> bool {
        self.connections.with(|client| client.status()).is_ok()
    }

    pub(crate) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn objects(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the outcome of `call` with a session, which no other call uses meanwhile.
    pub(crate) fn with_session<T>(
        &self,
        handle: c::CK_SESSION_HANDLE,
        call: impl FnOnce(&mut Session) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let session = self.sessions().get(handle)?;
        let mut session = locked(&session);
        call(&mut session)
    }

    /// Asks the service for its present keys; returns the handles of the objects that match a template.
    pub(crate) fn find(
        &self,
        template: &[(c::CK_ATTRIBUTE_TYPE, Vec<u8>)],
    ) -> Result<Vec<c::CK_OBJECT_HANDLE>, Refused> {
        let _search = self.search.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = self.connections.with(|client| client.keys())?;
        let mut objects = self.objects();
        objects.update(keys);
        Ok(objects.find(template))
    }

    pub(crate) fn object(&self, handle: c::CK_OBJECT_HANDLE) -> Option<Object> {
        self.objects().get(handle)
    }
}
