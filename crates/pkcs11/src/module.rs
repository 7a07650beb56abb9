//! The state of the module between `C_Initialize` and `C_Finalize`.
//!
//! **Guarantees:** the state belongs to the process that initialised the module; a forked child finds the module not
//! initialised, and takes no lock that a thread of its parent may have held.

use crate::attribute::{Template, number};
use crate::connections::Connections;
use crate::making;
use crate::object::{Item, Object, Objects};
use crate::refused::Refused;
use crate::secret::Wanted;
use crate::session::{Session, Sessions, locked};
use arc_swap::{ArcSwapOption, Guard};
use cryptoki_sys as c;
use sealane_client::{Operation, environment};
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
        let found = self.connections.with(|client| Ok((client.keys()?, client.certificates()?)));
        let (mut keys, chains) = found?;
        let hidden = environment::hidden_kinds();
        keys.retain(|info| !hidden.contains(&info.kind));
        let mut objects = self.objects();
        objects.update(keys, chains);
        Ok(objects.find(template))
    }

    pub(crate) fn item(&self, handle: c::CK_OBJECT_HANDLE) -> Option<Item> {
        self.objects().get(handle)
    }

    /// Returns a half of a key.
    pub(crate) fn object(&self, handle: c::CK_OBJECT_HANDLE) -> Option<Object> {
        match self.item(handle)? {
            Item::Key(object) => Some(object),
            Item::Certificate(_) | Item::Secret(_) => None,
        }
    }

    pub(crate) fn destroy(&self, handle: c::CK_OBJECT_HANDLE) -> Result<(), Refused> {
        self.objects().destroy(handle)
    }

    /// Destroys the secrets of sessions that have ended.
    pub(crate) fn forget_secrets(&self) {
        let sessions = self.sessions();
        self.objects().keep_secrets_of(|session| sessions.get(session).is_ok());
    }

    /// Has the service make a pair of keys; returns the handles of its public and its private half.
    pub(crate) fn generate(
        &self,
        mechanism: c::CK_MECHANISM_TYPE,
        public: &Template,
        private: &Template,
    ) -> Result<[c::CK_OBJECT_HANDLE; 2], Refused> {
        let (name, kind) = making::pair_of(mechanism, public, private)?;
        self.connections.with(|client| client.generate(&name, kind))?;
        let halves = [c::CKO_PUBLIC_KEY, c::CKO_PRIVATE_KEY].map(|class| -> Result<_, Refused> {
            let template = [(c::CKA_CLASS, number(class)), (c::CKA_LABEL, name.clone().into_bytes())];
            Ok(self.find(&template)?.first().copied())
        });
        let [public, private] = halves;
        // A program that hides keys of this kind does not see it.
        let hidden = Refused(c::CKR_FUNCTION_FAILED);
        Ok([public?.ok_or(hidden)?, private?.ok_or(hidden)?])
    }

    /// Has the service agree on a secret with a peer; returns its handle.
    pub(crate) fn derive(
        &self,
        session: c::CK_SESSION_HANDLE,
        key: c::CK_OBJECT_HANDLE,
        peer: &[u8],
        template: &Template,
    ) -> Result<c::CK_OBJECT_HANDLE, Refused> {
        let wanted = Wanted::of(template)?;
        let object = self.object(key).ok_or(Refused(c::CKR_KEY_HANDLE_INVALID))?;
        let peer = making::peer_of(&object, peer)?;
        let value = self.connections.call(&object.content.key, Operation::Derive, peer)?;
        self.objects().add_secret(session, wanted.made_of(value)?)
    }
}
