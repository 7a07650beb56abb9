//! The lease of a push: a file in the target by which others find that it has begun unfinished files.
//!
//! Guarantees: the lease costs no file a round trip; one that was begun is there, or has failed, before it is removed;
//! without it nothing but the notice to others is missing.

use std::{future::poll_fn, task::Poll};

use sealane_sftp::{Access, Request};

use super::{Lease, Put};
use crate::journal::Journal;

impl Put {
    /// Puts the lease into the target once an unfinished file is made.
    pub(in crate::sftp) async fn keep_lease(&self) {
        let Some((name, content)) = &self.rules.lease else { return };
        // The main task is polled after every event, and so is this future.
        poll_fn(|_| if self.lease.get() == Lease::Wanted { Poll::Ready(()) } else { Poll::Pending }).await;
        self.lease.set(Lease::Begun);
        let Ok(link) = self.far.any() else { return };
        let Ok(handle) = link.open(&self.at(name.as_bytes()), Access::Create).await else { return };
        let mut packet = link.packet(&handle, 0, content.len());
        packet.data_mut().copy_from_slice(content);
        if let Ok(written) = link.write(packet).await {
            let _ = written.done().await;
        }
        let _ = link.act(&Request::Close { handle: &handle }).await;
    }

    /// Removes the lease: nothing unfinished is left.
    pub(in crate::sftp) async fn end_lease(&self) {
        let (Some((name, _)), Ok(link)) = (&self.rules.lease, self.far.any()) else { return };
        let is_resumed = self.journal.as_ref().is_some_and(Journal::is_resumed);
        if self.lease.get() == Lease::Begun || is_resumed {
            let _ = link.act(&Request::Remove { path: &self.at(name.as_bytes()) }).await;
        }
    }
}
