//! The list of authorised peers while a daemon runs.
//!
//! Guarantees: a change takes effect with the next connection; a malformed list admits nobody, and the peers of the
//! last valid one get the reason.

use std::{
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
};

use sealane_peer::AuthorisedPeers;

use crate::error::{Error, ErrorKind};

#[derive(Debug)]
pub(crate) struct AuthorisationList {
    path: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    stamp: Option<Stamp>,
    /// The last that was understood.
    good: Arc<AuthorisedPeers>,
    is_faulty: bool,
}

/// The properties that change with a file: device, inode, length, and the time of its last change.
type Stamp = (u64, u64, u64, i64, i64);

impl AuthorisationList {
    /// # Errors
    /// Fails if the file cannot be read or parsed.
    pub(crate) fn load(path: PathBuf) -> Result<Self, Error> {
        let stamp = stamp(&path);
        let good = Arc::new(AuthorisedPeers::load(&path)?);
        Ok(Self { path, state: Mutex::new(State { stamp, good, is_faulty: false }) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics holding the list")
    }

    pub(crate) fn count(&self) -> usize {
        self.state().good.iter().count()
    }

    /// Returns the peers of the last valid list, and a message about a change.
    pub(crate) fn current(&self) -> (Arc<AuthorisedPeers>, Option<String>) {
        let stamp = stamp(&self.path);
        let mut state = self.state();
        if stamp == state.stamp {
            return (state.good.clone(), None);
        }
        state.stamp = stamp;
        let said = match AuthorisedPeers::load(&self.path) {
            Ok(peers) => {
                state.good = Arc::new(peers);
                std::mem::take(&mut state.is_faulty)
                    .then(|| format!("{} is in order again", self.path.display()))
            }
            Err(error) => {
                state.is_faulty = true;
                Some(format!("nobody is let in until this is fixed: {}", Error::from(error)))
            }
        };
        (state.good.clone(), said)
    }

    /// Returns the reason why nobody is admitted now.
    pub(crate) fn fault(&self) -> Option<Error> {
        self.state().is_faulty.then(|| {
            let message = "the daemon cannot read its list of authorised peers and lets nobody in until its \
                           operator has fixed it; its log says what is wrong";
            Error::new(ErrorKind::Refused, message)
        })
    }
}

fn stamp(path: &Path) -> Option<Stamp> {
    let found = path.metadata().ok()?;
    Some((found.dev(), found.ino(), found.len(), found.ctime(), found.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_list_that_is_not_understood_admits_nobody_until_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("authorised-peers");
        let list = AuthorisationList::load(path.clone()).unwrap();
        assert_eq!((list.count(), list.current().1), (0, None));
        let key = sealane_peer::PublicKey::from_bytes([1; 32]);
        fs::write(&path, format!("{key} ada rights=read\n")).unwrap();
        assert_eq!((list.current().0.iter().count(), list.fault().is_none()), (1, true));
        fs::write(&path, format!("{key} ada rights=read\nnonsense and more\n")).unwrap();
        let (peers, said) = list.current();
        assert_eq!(peers.iter().count(), 1);
        assert!(said.unwrap().contains(":2:"));
        assert!(list.fault().is_some());
        assert_eq!(list.current().1, None, "it is said once");
        fs::write(&path, "").unwrap();
        assert!(list.current().1.unwrap().contains("in order again"));
        assert_eq!((list.count(), list.fault().is_none()), (0, true));
        assert!(AuthorisationList::load("/proc/self/mem".into()).is_err());
    }
}
