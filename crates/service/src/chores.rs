//! The slow work of the set-up side: making keys, reading imported keys, writing files. It runs on one thread, so
//! that no client waits while a key of 8,192 bits is made for another one.

use crate::scheduler::Id;
use crate::vault::Vault;
use sealane_asymmetric::PrivateKey;
use sealane_client::setup::Secret;
use sealane_client::{KeyKind, Refusal};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TrySendError, channel, sync_channel};
use std::{io, thread};

/// The maximum number of waiting chores.
const WAITING_MAX: usize = 16;

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
    Import { bytes: Secret, passphrase: Option<Secret> },
}

/// A finished chore, or the reason for its failure.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) id: Id,
    pub(crate) user: u32,
    pub(crate) name: String,
    pub(crate) is_import: bool,
    pub(crate) outcome: Result<PrivateKey, Refusal>,
}

/// The thread of the chores. It ends when this is dropped, after its present chore.
#[derive(Debug)]
pub(crate) struct Chores {
    queue: SyncSender<Chore>,
    done: Receiver<Done>,
}

impl Chores {
    /// Starts the thread, which rings `bell` after each chore.
    pub(crate) fn start(vault: Arc<Vault>, bell: OwnedFd) -> io::Result<Self> {
        let (queue, waiting) = sync_channel(WAITING_MAX);
        let (tell, done) = channel();
        thread::Builder::new()
            .name("engine-chores".to_owned())
            .spawn(move || work(&vault, &waiting, &tell, &bell))?;
        Ok(Self { queue, done })
    }

    pub(crate) fn add(&self, chore: Chore) -> Result<(), Refusal> {
        self.queue.try_send(chore).map_err(|error| match error {
            TrySendError::Full(_) => Refusal::Limit { what: "keys being made".to_owned() },
            TrySendError::Disconnected(_) => {
                Refusal::Storage { why: "the thread that makes keys has ended".to_owned() }
            }
        })
    }

    pub(crate) fn done(&self) -> Option<Done> {
        self.done.try_recv().ok()
    }
}

fn work(vault: &Vault, waiting: &Receiver<Chore>, tell: &Sender<Done>, bell: &OwnedFd) {
    while let Ok(Chore { id, user, name, what }) = waiting.recv() {
        let is_import = matches!(what, What::Import { .. });
        let key = match what {
            What::Generate(kind) => PrivateKey::generate(kind),
            What::Import { bytes, passphrase } => {
                PrivateKey::import(&bytes.0, passphrase.as_ref().map(|passphrase| passphrase.0.as_slice()))
            }
        };
        let outcome = key.map_err(|_| Refusal::BadKey).and_then(|key| {
            vault.store(&name, &key).map_err(|error| Refusal::Storage { why: error.to_string() })?;
            Ok(key)
        });
        if tell.send(Done { id, user, name, is_import, outcome }).is_err() {
            return;
        }
        crate::workers::ring(bell);
    }
}
