//! Servers that take the content of a file only from front to back, as rclone's does without a cache of writes.
//!
//! Guarantees: whether a server is one is tried once, before the first large file, unless it is OpenSSH's; such a server gets
//! a large file over a single connection, one write after the other, with zeros for holes. What an interrupted copy has
//! written of it is written again.

use std::{rc::Rc, sync::Arc};

use futures_util::lock::MutexGuard;
use sealane_sftp::Request;

use super::{Handles, Put, PutFile};
use crate::{
    proto::record::Header,
    send::{batch::Body, work::SendFile},
    sftp::{
        far::Trouble,
        link::{Fault, Link},
        source::Source,
    },
};

/// The place of the byte that shows whether content is taken in any order: far behind the front.
const FAR_BEHIND: u64 = 1 << 20;
/// Up to this size the content comes in one piece or two, one behind the other.
const SHORT_BYTES_MAX: u64 = 1 << 20;

impl Put {
    /// Returns whether a file must be written from front to back, because the server takes no other content. If that is not
    /// known, it is tried.
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

    /// Refuses a file of unknown length by name, unless that is done: its content is gone once it has been read.
    pub(super) async fn refuse_growing(&self, link: &Link, file: &Rc<PutFile>) -> Result<(), Trouble> {
        if self.file(file.number).is_none() {
            return Ok(());
        }
        self.settle(file.number);
        self.discard(link, file).await;
        let shown = self.shown(file.entry.path.as_bytes());
        let reason = format!(
            "{shown}: the SFTP server of {} takes content only from front to back, and standard input comes in pieces; \
             copy from a file, or give rclone --vfs-cache-mode writes",
            self.far.host
        );
        self.entry_failed(&file.entry, Trouble::Entry(reason))
    }

    /// Writes a file up to the end of these records, and notes that they have arrived. Whatever lies before them is in the
    /// hands of other tasks, and comes from the source as well.
    pub(super) async fn write_in_order(
        &self,
        link: &Link,
        file: &PutFile,
        run: &[(Header, Body<'_>)],
    ) -> Result<(), Trouble> {
        let (Some((first, Body::Left(source))), Some((last, _))) = (run.first(), run.last()) else {
            return Ok(());
        };
        let end = last.offset + last.body_bytes as u64;
        file.source.borrow_mut().get_or_insert_with(|| Arc::clone(source));
        self.write_up_to(link, file, end, false).await?;
        self.arrived(file, first.offset..end, 0)
    }

    /// Writes what is left of a file, and gives it its attributes.
    pub(super) async fn end_in_order(&self, link: &Link, file: &PutFile) -> Result<(), Trouble> {
        self.write_up_to(link, file, file.entry.metadata.size_bytes, true).await
    }

    async fn write_up_to(&self, link: &Link, file: &PutFile, end: u64, settles: bool) -> Result<(), Trouble> {
        let mut handles = file.handles.lock().await;
        let source = file.source.borrow().clone();
        loop {
            let carrier = self.carrier(link, file, &mut handles).await?;
            let mut written = self.advance(&carrier, source.as_ref(), &mut handles, end).await;
            if let (true, Ok(()), Some(handle)) = (settles, &written, handles.open.get(&carrier.index)) {
                written = self.settle_attributes(&carrier, handle, &file.entry.metadata).await;
            }
            match written {
                // It is begun again on another connection.
                Err(Fault::Lost) if carrier.index != link.index => {}
                Err(Fault::Lost) => return Err(Trouble::Lost),
                Err(fault) => {
                    return Err(self.trouble(link, "write it", file.entry.path.as_bytes(), fault).await);
                }
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Returns the connection that writes a file from front to back, after beginning the file there if there is none.
    async fn carrier(
        &self,
        link: &Link,
        file: &PutFile,
        handles: &mut MutexGuard<'_, Handles>,
    ) -> Result<Rc<Link>, Trouble> {
        let live = self.far.reactor.live();
        let find = |index: usize| live.iter().find(|live| live.index == index).cloned();
        if let Some(carrier) = handles.open.keys().find_map(|&index| find(index)) {
            return Ok(carrier);
        }
        let Some(own) = find(link.index) else { return Err(Trouble::Lost) };
        self.folder(link, file.entry.path.split().0).await?;
        let handle = match self.create(&own, &file.part).await {
            Ok(handle) => handle,
            Err(fault) => {
                return Err(self.trouble(link, "create it", file.entry.path.as_bytes(), fault).await);
            }
        };
        handles.open.clear();
        handles.open.insert(own.index, handle);
        handles.written = 0;
        Ok(own)
    }

    /// Writes the source, or zeros, from where the file ends up to an offset.
    async fn advance(
        &self,
        carrier: &Link,
        source: Option<&Arc<SendFile>>,
        handles: &mut MutexGuard<'_, Handles>,
        end: u64,
    ) -> Result<(), Fault> {
        let Some(handle) = handles.open.get(&carrier.index).cloned() else { return Err(Fault::Lost) };
        while handles.written < end {
            let offset = handles.written;
            let length = (end - offset).min(u64::from(carrier.limits().write_bytes)) as usize;
            let written = match source {
                Some(source) => {
                    carrier.write_from(&handle, offset, length, Source::new(source, offset)).await?
                }
                None => {
                    let mut packet = carrier.packet(&handle, offset, length);
                    packet.data_mut().fill(0);
                    carrier.write(packet).await?
                }
            };
            written.done().await?;
            handles.written = offset + length as u64;
        }
        Ok(())
    }
}
