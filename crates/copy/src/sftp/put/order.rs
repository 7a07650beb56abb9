//! Servers that take the content of a file only from front to back, as rclone's does without a cache of writes.
//!
//! Guarantees: whether a server is one is tried once, before the first large file, unless it is OpenSSH's; such a server gets
//! no large file, whose content comes over several connections, with holes, and in ranges that are continued later.

use std::rc::Rc;

use sealane_sftp::Request;

use super::{Put, PutFile};
use crate::sftp::{
    far::Trouble,
    link::{Fault, Link},
};

/// The place of the byte that shows whether content is taken in any order: far behind the front.
const FAR_BEHIND: u64 = 1 << 20;
/// Up to this size the content comes in one piece or two, one behind the other.
const SHORT_BYTES_MAX: u64 = 1 << 20;

impl Put {
    /// Returns whether the server cannot take a file, because it takes content only from front to back. If that is not known,
    /// it is tried.
    pub(super) async fn is_out_of_order(&self, link: &Link, file: &PutFile) -> Result<bool, Trouble> {
        let is_short = !file.is_growing && file.entry.metadata.size_bytes <= SHORT_BYTES_MAX;
        if link.behaves_as_openssh() || is_short {
            return Ok(false);
        }
        let path = &file.entry.path;
        let mut only_in_order = self.only_in_order.lock().await;
        if let Some(found) = *only_in_order {
            return Ok(found);
        }
        // If nothing can be made there, the file itself will say so.
        match self.folder(link, path.split().0).await {
            Ok(_) => {}
            Err(Trouble::Entry(_)) => return Ok(false),
            Err(trouble) => return Err(trouble),
        }
        let Ok(at) = self.place_for_trial(path, b"order") else { return Ok(false) };
        let handle = match self.create(link, &at).await {
            Ok(handle) => handle,
            Err(Fault::Lost) => return Err(Trouble::Lost),
            Err(Fault::Said(_)) => return Ok(false),
        };
        let packet = link.packet(&handle, FAR_BEHIND, 1);
        let written = match link.write(packet).await {
            Ok(written) => written.done().await,
            Err(fault) => Err(fault),
        };
        let _ = link.act(&Request::Close { handle: &handle }).await;
        let _ = link.act(&Request::Remove { path: &at }).await;
        match written {
            Err(Fault::Lost) => Err(Trouble::Lost),
            written => Ok(*only_in_order.insert(written.is_err())),
        }
    }

    /// Refuses a large file by name, unless that is done.
    pub(super) async fn refuse_large(&self, link: &Link, file: &Rc<PutFile>) -> Result<(), Trouble> {
        if self.file(file.number).is_none() {
            return Ok(());
        }
        self.settle(file.number);
        self.discard(link, file).await;
        let shown = self.shown(file.entry.path.as_bytes());
        let reason = format!(
            "{shown}: the SFTP server of {} takes content only from front to back, which suffices for files of \
             1 MiB; rclone takes it in any order with --vfs-cache-mode writes",
            self.far.host
        );
        self.entry_failed(&file.entry, Trouble::Entry(reason))
    }
}
