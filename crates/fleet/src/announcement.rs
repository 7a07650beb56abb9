//! The announcement of a run: what all its workers must know.
//!
//! Guarantees: only the coordinator's own announcement is read, and never an older one after a newer one.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{SystemTime, UNIX_EPOCH};

use sealane_peer::{Identity, PublicKey};
use serde::{Deserialize, Serialize};

use crate::error::{FleetError, Result};
use crate::signed::{Purpose, Signed};
use crate::wire::{decode, encode, reads_back};
use crate::work::Order;

/// The work of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Announcement {
    /// A copy between hosts, as its coordinator orders it.
    Copy(Box<Order>),
    /// Other work, in the format of its program.
    Study(Vec<u8>),
}

/// An announcement with the number that orders those of a run: the microseconds of its time.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Numbered {
    number: u64,
    announcement: Announcement,
}

/// The coordinator's side.
#[derive(Debug)]
pub(crate) struct Speaker {
    identity: Identity,
    last: AtomicU64,
}

impl Speaker {
    /// Returns the one that speaks with this key.
    pub(crate) fn new(identity: Identity) -> Self {
        Self { identity, last: AtomicU64::new(0) }
    }

    /// Returns the key of the run, with which it signs.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Signs an announcement.
    ///
    /// # Errors
    /// The key cannot sign.
    pub(crate) fn say(&self, announcement: Announcement) -> Result<Vec<u8>> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros();
        let after = self.last.load(SeqCst).saturating_add(1);
        let number = u64::try_from(now).unwrap_or(u64::MAX).max(after);
        self.last.store(number, SeqCst);
        let body = encode(&Numbered { number, announcement });
        Ok(encode(&Signed::by(&self.identity, Purpose::Announcement, body)?))
    }
}

/// A worker's side.
#[derive(Debug)]
pub(crate) struct Listener {
    key: PublicKey,
    newest: Cell<u64>,
}

impl Listener {
    /// Returns the one that listens to the owner of this key.
    pub(crate) fn new(key: PublicKey) -> Self {
        Self { key, newest: Cell::new(0) }
    }

    /// Returns the key of the run.
    pub(crate) fn key(&self) -> &PublicKey {
        &self.key
    }

    /// Reads an announcement.
    ///
    /// # Errors
    /// Fails if the bytes are no announcement, if the coordinator has not signed it, or if a newer one was read before.
    pub(crate) fn hear(&self, bytes: &[u8]) -> Result<Announcement> {
        let signed: Signed = decode(bytes)?;
        let Numbered { number, announcement } = decode(signed.open(&self.key, Purpose::Announcement)?)?;
        if number < self.newest.get() {
            return Err(FleetError::Protocol("an order of the run is older than the one before it".into()));
        }
        self.newest.set(number);
        Ok(announcement)
    }
}

/// Parses bytes as each of these types, and encodes the parsed value again; returns whether one of them succeeded.
pub(crate) fn read_any(bytes: &[u8]) -> bool {
    reads_back::<Signed>(bytes) | reads_back::<Numbered>(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_coordinator_is_heard_and_nobody_else() {
        let identity = || Identity::generate().expect("a key");
        let (ours, theirs) = (Speaker::new(identity()), Speaker::new(identity()));
        let listener = Listener::new(ours.identity().public_key());
        let study = |text: &[u8]| Announcement::Study(text.to_vec());
        let first = ours.say(study(b"one")).expect("it signs");
        let second = ours.say(study(b"two")).expect("it signs");
        assert_eq!(listener.hear(&first).expect("it is ours"), study(b"one"));
        assert_eq!(listener.hear(&second).expect("it is ours"), study(b"two"));
        // It may be read again, but not the one before it.
        assert_eq!(listener.hear(&second).expect("it is ours"), study(b"two"));
        assert!(matches!(listener.hear(&first), Err(FleetError::Protocol(_))));
        let forged = theirs.say(study(b"three")).expect("it signs");
        assert!(matches!(listener.hear(&forged), Err(FleetError::Forged { .. })));
        assert!(listener.hear(&[]).is_err());
    }
}
