//! Modes, times and owners, as far as SFTP supports them.
//!
//! Guarantees: without its owner no file gets set-user-id or set-group-id; properties that could not be kept are
//! counted.

use std::time::{SystemTime, UNIX_EPOCH};

use sealane_sftp::{Attributes, Extension, Handle, Owner, Request, Times};
use sealane_tree::{Metadata, Timestamp};

use super::Put;
use crate::{
    options::Ownership,
    sftp::link::{Fault, Link, Pending},
};

pub(super) const SET_ID_BITS: u32 = 0o6000;

pub(super) fn seconds(time: Timestamp) -> u32 {
    u32::try_from(time.seconds.max(0)).unwrap_or(u32::MAX)
}

/// Returns the times to set: SFTP cannot leave the time of last access alone.
pub(super) fn times(modified: Timestamp) -> Times {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    Times { accessed: u32::try_from(now).unwrap_or(u32::MAX), modified: seconds(modified) }
}

/// Returns the server's attributes as metadata.
pub(in crate::sftp) fn metadata(attributes: &Attributes) -> Metadata {
    let modified = attributes.times.map_or(0, |times| i64::from(times.modified));
    Metadata {
        mode: attributes.permissions().unwrap_or(0),
        modified: Timestamp { seconds: modified, nanoseconds: 0 },
        size_bytes: attributes.size_bytes.unwrap_or(0),
        owner: attributes.owner.map(|Owner { uid, gid }| sealane_tree::Owner { uid, gid }),
        xattrs: Vec::new(),
    }
}

impl Put {
    /// Sets mode, times and owner; then, if requested, flushes everything to disk.
    pub(super) async fn settle_attributes(
        &self,
        link: &Link,
        handle: &Handle,
        sent: &Metadata,
    ) -> Result<(), Fault> {
        let has_owner =
            self.set_owner(sent, |attributes| link.begin(&Request::FsetStat { handle, attributes }));
        let attributes = self.final_attributes(sent, has_owner.await?);
        let set = link.begin(&Request::FsetStat { handle, attributes });
        let synced = self.syncs(link).then(|| link.begin(&Request::Fsync { handle }));
        set.done().await?;
        match synced {
            Some(synced) => synced.done().await,
            None => Ok(()),
        }
    }

    pub(super) fn syncs(&self, link: &Link) -> bool {
        self.rules.fsync && link.has(Extension::Fsync)
    }

    /// Returns false if no owner is requested, or the user there may not set it.
    pub(super) async fn set_owner(
        &self,
        sent: &Metadata,
        begin: impl FnOnce(Attributes) -> Pending,
    ) -> Result<bool, Fault> {
        let Some(owner) = sent.owner.filter(|_| self.rules.owner.is_wanted()) else {
            return Ok(false);
        };
        let owner = Some(Owner { uid: owner.uid, gid: owner.gid });
        match begin(Attributes { owner, ..Attributes::default() }).done().await {
            Ok(()) => Ok(true),
            Err(Fault::Lost) => Err(Fault::Lost),
            Err(Fault::Said(_)) if self.rules.owner == Ownership::WherePossible => Ok(false),
            Err(Fault::Said(_)) => {
                let mut dropped = self.dropped.get();
                dropped.owners += 1;
                self.dropped.set(dropped);
                Ok(false)
            }
        }
    }

    /// Without its owner a file does not get the bits that let others act as its owner.
    pub(super) fn final_attributes(&self, sent: &Metadata, has_owner: bool) -> Attributes {
        let mut mode = sent.mode;
        if !has_owner && mode & SET_ID_BITS != 0 {
            mode &= !SET_ID_BITS;
            let mut dropped = self.dropped.get();
            dropped.privileges += 1;
            self.dropped.set(dropped);
        }
        Attributes { mode: Some(mode), times: Some(times(sent.modified)), ..Attributes::default() }
    }

    pub(super) async fn link_attributes(
        &self,
        link: &Link,
        path: &[u8],
        sent: &Metadata,
    ) -> Result<(), Fault> {
        self.set_owner(sent, |attributes| link.begin(&Request::LsetStat { path, attributes })).await?;
        let attributes = Attributes { times: Some(times(sent.modified)), ..Attributes::default() };
        link.act(&Request::LsetStat { path, attributes }).await
    }
}
