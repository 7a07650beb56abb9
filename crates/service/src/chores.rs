//! The slow work of the set-up side: making keys, reading imported and lent keys, writing files. It has threads of its own, so
//! that no client waits while a key of 8,192 bits is made for another one. **Guarantee:** a user has at most [`OF_USER_MAX`]
//! chores at a time.

use crate::connection::StoredKey;
use crate::priority::step_back;
use crate::scheduler::Id;
use crate::vault::{Vault, VaultError};
use sealane_asymmetric::{ImportError, PrivateKey};
use sealane_client::setup::Secret;
use sealane_client::{KeyKind, Refusal};
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::{io, thread};

/// The maximum number of waiting chores of each thread.
const WAITING_MAX: usize = 64;

/// The maximum number of chores of one user.
const OF_USER_MAX: usize = 8;

/// A chore and its client.
#[derive(Debug)]
pub(crate) struct Chore {
    pub(crate) id: Id,
    pub(crate) user: u32,
    pub(crate) name: String,
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    Generate(KeyKind),
    Import {
        bytes: Secret,
        passphrase: Option<Secret>,
    },
    /// With the key that has the name now, if there is one.
    Replace {
        bytes: Secret,
        passphrase: Option<Secret>,
        old: Option<Arc<StoredKey>>,
    },
    /// A key that the client keeps and lends.
    Lend {
        pkcs8: Secret,
    },
}

/// The kinds of chores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Generate,
    Import,
    Replace,
    Lend,
}

impl What {
    fn kind(&self) -> Kind {
        match self {
            Self::Generate(_) => Kind::Generate,
            Self::Import { .. } => Kind::Import,
            Self::Replace { .. } => Kind::Replace,
            Self::Lend { .. } => Kind::Lend,
        }
    }
}

/// A finished chore, or the reason for its failure.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) id: Id,
    pub(crate) user: u32,
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) outcome: Result<PrivateKey, Refusal>,
}

/// The threads of the chores: one for keys that are kept, one for those that are lent, so that neither waits for the other. They
/// end when this is dropped, after their present chores.
#[derive(Debug)]
pub(crate) struct Chores {
    kept: SyncSender<Chore>,
    lent: SyncSender<Chore>,
    /// The numbers of chores under way, by user.
    by_user: BTreeMap<u32, usize>,
    done: Receiver<Done>,
}

impl Chores {
    /// Starts the threads, which ring `bell` after each chore.
    pub(crate) fn start(vault: &Arc<Vault>, bell: &OwnedFd) -> io::Result<Self> {
        let (tell, done) = channel();
        let start = |name: &str, prepare: fn()| -> io::Result<SyncSender<Chore>> {
            let (queue, waiting) = sync_channel(WAITING_MAX);
            let (vault, tell, bell) = (Arc::clone(vault), tell.clone(), bell.try_clone()?);
            thread::Builder::new().name(name.to_owned()).spawn(move || {
                prepare();
                work(&vault, &waiting, &tell, &bell);
            })?;
            Ok(queue)
        };
        Ok(Self {
            kept: start("engine-chores", || {})?,
            // Anybody who may lend can have keys checked without end.
            lent: start("engine-lent", step_back)?,
            by_user: BTreeMap::new(),
            done,
        })
    }

    pub(crate) fn add(&mut self, chore: Chore) -> Result<(), Refusal> {
        let user = chore.user;
        let limit = || Refusal::Limit { what: "keys being made".to_owned() };
        if self.by_user.get(&user).is_some_and(|count| *count >= OF_USER_MAX) {
            return Err(limit());
        }
        let queue = if chore.what.kind() == Kind::Lend { &self.lent } else { &self.kept };
        queue.try_send(chore).map_err(|error| match error {
            TrySendError::Full(_) => limit(),
            TrySendError::Disconnected(_) => {
                Refusal::Storage { why: "the thread that makes keys has ended".to_owned() }
            }
        })?;
        *self.by_user.entry(user).or_default() += 1;
        Ok(())
    }

    pub(crate) fn done(&mut self) -> Option<Done> {
        let done = self.done.try_recv().ok()?;
        if let Some(count) = self.by_user.get_mut(&done.user) {
            *count -= 1;
            if *count == 0 {
                self.by_user.remove(&done.user);
            }
        }
        Some(done)
    }
}

fn work(vault: &Vault, waiting: &Receiver<Chore>, tell: &Sender<Done>, bell: &OwnedFd) {
    while let Ok(Chore { id, user, name, what }) = waiting.recv() {
        let kind = what.kind();
        let storage = |error: VaultError| Refusal::Storage { why: error.to_string() };
        let import = |bytes: &Secret, passphrase: &Option<Secret>| {
            let passphrase = passphrase.as_ref().map(|passphrase| passphrase.0.as_slice());
            PrivateKey::import(&bytes.0, passphrase)
        };
        let (key, old) = match what {
            What::Generate(kind) => (PrivateKey::generate(kind).map_err(ImportError::from), None),
            What::Import { bytes, passphrase } => (import(&bytes, &passphrase), None),
            What::Replace { bytes, passphrase, old } => (import(&bytes, &passphrase), old),
            What::Lend { pkcs8 } => (PrivateKey::of_pkcs8(&pkcs8.0).map_err(ImportError::from), None),
        };
        let refused = |error: ImportError| match error {
            ImportError::NoKey(_) => Refusal::BadKey,
            ImportError::Unsupported { found } => Refusal::Unsupported { found },
            ImportError::MlDsa(fault) => Refusal::Damaged { why: fault.to_string() },
        };
        let outcome = key.map_err(refused).and_then(|key| {
            if let Some(old) = &old {
                if old.info.public == key.public() {
                    return Err(Refusal::Exists);
                }
                vault.store_previous(&name, &old.key).map_err(storage)?;
            }
            if kind != Kind::Lend {
                vault.store(&name, &key).map_err(storage)?;
            }
            Ok(key)
        });
        if tell.send(Done { id, user, name, kind, outcome }).is_err() {
            return;
        }
        crate::workers::ring(bell);
    }
}
