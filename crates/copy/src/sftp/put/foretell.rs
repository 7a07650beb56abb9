//! Dry runs: the change that an entry would cause at the far target.
//!
//! Guarantees: nothing is made or changed; an entry that a real run would refuse is reported in the same way.

use sealane_tree::{Differences, Kind};

use super::{Put, small::may_be_one};
use crate::{
    error::Error,
    proto::entry::Entry,
    sftp::{far::Trouble, link::Link},
    summary::{Change, Notice},
};

impl Put {
    /// Reports the change that an entry would cause, if any.
    pub(in crate::sftp) async fn foretell(&self, entry: Entry) -> Result<(), Error> {
        loop {
            let link = self.far.any()?;
            return match self.foresee(&link, &entry).await {
                Ok(None) => {
                    self.entry_unchanged();
                    Ok(())
                }
                Ok(Some(differences)) => {
                    let bytes = entry.content_bytes();
                    self.entry_done();
                    self.foretold_bytes.set(self.foretold_bytes.get() + bytes);
                    self.notice(Notice::WouldSend { change: Change::of(&entry, differences), bytes });
                    Ok(())
                }
                Err(trouble) => match self.entry_failed(&entry, trouble) {
                    Ok(()) => Ok(()),
                    Err(Trouble::Fatal(error)) => Err(error),
                    // Another connection may remain.
                    Err(_) => continue,
                },
            };
        }
    }

    /// Returns the differences that an entry would remove; `None` if there are none, or something newer stays.
    async fn foresee(&self, link: &Link, entry: &Entry) -> Result<Option<Differences>, Trouble> {
        let path = entry.path.as_bytes();
        let found = match entry.kind {
            Kind::Directory => self.folder(link, path).await?.known(),
            _ => {
                let folder = self.folder(link, entry.path.split().0).await?;
                let found = self.look(link, folder, &entry.path).await;
                match found {
                    Ok(found) => found,
                    Err(fault) => return Err(self.trouble(link, "look at it", path, fault).await),
                }
            }
        };
        if entry.kind != Kind::Directory {
            self.check_gives_way(entry, found.as_ref())?;
            if self.is_newer(entry, found.as_ref()) {
                return Ok(None);
            }
        }
        if let (Kind::HardLink { to }, Some(found)) = (&entry.kind, &found) {
            // Nothing is made in a dry run, so attributes decide.
            match link.lstat(&self.at(to.as_bytes())).await {
                Ok(other) if may_be_one(found, other.as_ref()) => return Ok(None),
                Ok(_) => {}
                Err(fault) => return Err(self.trouble(link, "look at it", path, fault).await),
            }
        }
        let differences = self.compare(link, entry, found.as_ref()).await?;
        // The content of a sent file differs, or is sent anyway.
        Ok(Some(differences).filter(|differences| differences.any() || entry.kind == Kind::File))
    }
}
