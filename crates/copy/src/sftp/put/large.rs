//! Large files, in ranges over any number of connections.
//!
//! Guarantees: a file is begun once, and finished by the task that finds it complete; everything that the journal
//! calls written was acknowledged.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};

use futures_util::lock::Mutex;
use sealane_sftp::{Access, Attributes, Handle, Request};
use sealane_tree::TempName;

use super::{Put, PutFile, attributes::times, naming::is_same};
use crate::{
    error::Error,
    journal::Entry as JournalEntry,
    ledger::Ledger,
    proto::{
        entry::{Announcement, Entry},
        record::Header,
    },
    send::batch::Body,
    sftp::{far::Trouble, link::Link, source::Source},
};

impl Put {
    pub(super) fn file(&self, number: u32) -> Option<Rc<PutFile>> {
        self.files.borrow().get(&number).cloned()
    }

    pub(super) fn settle(&self, number: u32) {
        self.files.borrow_mut().remove(&number);
        let number = u64::from(number);
        // Files are numbered here, one after the other.
        let _ = self.settled.borrow_mut().add(number..number + 1);
    }

    /// Returns a large file; `None` if no more of it is wanted.
    pub(super) fn announce(&self, number: u32, announcement: Announcement) -> Option<Rc<PutFile>> {
        if let Some(file) = self.file(number) {
            return Some(file);
        }
        if self.settled.borrow().contains(u64::from(number)) {
            return None;
        }
        let Announcement { entry, growing } = announcement;
        let identity = entry.identity();
        let size = if growing { u64::MAX } else { entry.metadata.size_bytes };
        let known = self.resumable.partial.get(&identity).filter(|_| !growing);
        // The name is random, and known to one journal alone: no other run writes this file.
        let temp =
            known.and_then(|known| TempName::parse(&known.temp_name)).unwrap_or_else(|| self.new_temp());
        let part = match &self.journal {
            Some(_) if !growing => self.beside(&entry.path, &temp),
            _ => self.temp(&entry.path),
        };
        let file = Rc::new(PutFile {
            number,
            entry,
            identity,
            is_growing: growing,
            temp,
            part,
            handles: Mutex::default(),
            ledger: RefCell::new(Ledger::new(size)),
            source: RefCell::default(),
            closing: Cell::new(None),
            is_finishing: Cell::new(false),
            writers: Cell::new(0),
            is_unanswered: Cell::new(false),
            is_in_order: Cell::new(false),
        });
        self.files.borrow_mut().insert(number, file.clone());
        Some(file)
    }

    /// Returns the file's handle on a connection. The first call begins the file.
    pub(super) async fn handle(&self, link: &Link, file: &PutFile) -> Result<Handle, Trouble> {
        let mut handles = file.handles.lock().await;
        if let Some(handle) = handles.open.get(&link.index) {
            return Ok(handle.clone());
        }
        let path = file.entry.path.as_bytes();
        let is_known = self.resumable.partial.contains_key(&file.identity) && !file.is_growing;
        let handle = if handles.is_begun || is_known {
            link.open(&file.part, Access::Write).await
        } else {
            self.folder(link, file.entry.path.split().0).await?;
            // This comes first, so that a later run knows of the file whenever this one ends.
            self.note_start(file)?;
            self.create(link, &file.part).await
        };
        let handle = match handle {
            Ok(handle) => handle,
            Err(fault) => return Err(self.trouble(link, "create it", path, fault).await),
        };
        if !handles.is_begun && !is_known {
            self.begin(link, file, &handle).await?;
        }
        handles.is_begun = true;
        handles.open.insert(link.index, handle.clone());
        Ok(handle)
    }

    /// Records in the journal that a file is about to be begun.
    fn note_start(&self, file: &PutFile) -> Result<(), Trouble> {
        if file.is_growing {
            return Ok(());
        }
        self.note(&[JournalEntry::Started {
            identity: file.identity,
            temp_name: file.temp.as_bytes().to_vec(),
            path: file.entry.path.as_bytes().to_vec(),
            size: file.entry.metadata.size_bytes,
        }])
    }

    /// Gives a new file its size.
    pub(super) async fn begin(&self, link: &Link, file: &PutFile, handle: &Handle) -> Result<(), Trouble> {
        let Entry { path, metadata, .. } = &file.entry;
        if file.is_growing {
            return Ok(());
        }
        let size_bytes = Some(metadata.size_bytes);
        let attributes = Attributes { size_bytes, ..Attributes::default() };
        let sized = link.act(&Request::FsetStat { handle, attributes }).await;
        match sized {
            Ok(()) => Ok(()),
            Err(fault) => Err(self.trouble(link, "give it its size", path.as_bytes(), fault).await),
        }
    }

    /// Writes consecutive records of a file.
    pub(super) async fn data(
        &self,
        link: &Link,
        file: Rc<PutFile>,
        run: &[(Header, Body<'_>)],
    ) -> Result<(), Trouble> {
        file.writers.set(file.writers.get() + 1);
        let written = self.write(link, &file, run).await;
        file.writers.set(file.writers.get() - 1);
        if matches!(written, Err(Trouble::Lost)) {
            file.is_unanswered.set(true);
        }
        match written {
            Ok(()) => Ok(()),
            Err(Trouble::Entry(reason)) if self.file(file.number).is_some() => {
                self.settle(file.number);
                self.discard(link, &file).await;
                self.entry_failed(&file.entry, Trouble::Entry(reason))
            }
            // Another part of the file has reported it.
            Err(Trouble::Entry(_)) => Ok(()),
            Err(trouble) => Err(trouble),
        }
    }

    async fn write(&self, link: &Link, file: &PutFile, run: &[(Header, Body<'_>)]) -> Result<(), Trouble> {
        if self.has_name(link, &file.entry, &file.part).await {
            return Ok(());
        }
        if file.is_in_order.get() {
            return self.write_in_order(link, file, run).await;
        }
        let handle = self.handle(link, file).await?;
        let most = link.limits().write_bytes as usize;
        let mut pending = Vec::new();
        let mut records = run.iter().peekable();
        while let Some(&(header, body)) = records.next() {
            let start = header.offset;
            let cuts = |total: usize| (0..total).step_by(most).map(move |at| (at, most.min(total - at)));
            match body {
                Body::Left(source) => {
                    file.source.borrow_mut().get_or_insert_with(|| source.clone());
                    for (at, length) in cuts(header.body_bytes) {
                        let offset = start + at as u64;
                        let source = Source::new(source, offset);
                        pending.push((
                            link.write_from(&handle, offset, length, source).await,
                            offset,
                            length,
                        ));
                    }
                }
                Body::Here(first) => {
                    // Bodies that lie in the batch fill packets together.
                    let mut bodies = vec![first];
                    while let Some((_, Body::Here(next))) =
                        records.next_if(|(_, body)| matches!(body, Body::Here(_)))
                    {
                        bodies.push(next);
                    }
                    let mut bytes = bodies.into_iter();
                    let mut body: &[u8] = &[];
                    let total: usize = bytes.clone().map(<[u8]>::len).sum();
                    for (at, length) in cuts(total) {
                        let offset = start + at as u64;
                        let mut packet = link.packet(&handle, offset, length);
                        take(packet.data_mut(), &mut body, &mut bytes);
                        pending.push((link.write(packet).await, offset, length));
                    }
                }
            }
        }
        let mut outcome = Ok(());
        for (written, offset, length) in pending {
            let written = match written {
                Ok(written) => written.done().await,
                Err(fault) => Err(fault),
            };
            match written {
                Ok(()) => {
                    let range = offset..offset + length as u64;
                    self.arrived(file, range, length as u64)?;
                }
                Err(fault) => outcome = Err(fault),
            }
        }
        match outcome {
            Ok(()) => Ok(()),
            Err(fault) => Err(self.trouble(link, "write it", file.entry.path.as_bytes(), fault).await),
        }
    }

    pub(super) fn arrived(
        &self,
        file: &PutFile,
        range: std::ops::Range<u64>,
        written: u64,
    ) -> Result<(), Trouble> {
        let (start, end) = (range.start, range.end);
        let added = file.ledger.borrow_mut().add(range);
        added.map_err(|error| Trouble::Fatal(Error::protocol(error.to_string())))?;
        if written == 0 || file.is_growing {
            return Ok(());
        }
        self.note(&[JournalEntry::Range { identity: file.identity, start, end }])
    }

    pub(super) async fn finish_if_complete(&self, link: &Link, file: &Rc<PutFile>) -> Result<(), Trouble> {
        let Some(size_bytes) = file.closing.get() else { return Ok(()) };
        let is_complete = {
            let ledger = file.ledger.borrow();
            if file.is_growing { ledger.is_exactly(size_bytes) } else { ledger.is_complete() }
        };
        // A request under way would give a finished file the time of now: its task finishes the file.
        let is_quiet = file.writers.get() == 0;
        if !is_complete || !is_quiet || self.file(file.number).is_none() || file.is_finishing.replace(true) {
            return Ok(());
        }
        let finished = self.finish(link, file).await;
        file.is_finishing.set(false);
        match finished {
            Ok(true) => {
                self.settle(file.number);
                if file.is_unanswered.get() {
                    self.late.borrow_mut().push(file.entry.clone());
                }
                self.entry_done();
                self.count_xattrs(&file.entry.metadata);
                let path = file.entry.path.as_bytes().to_vec();
                if file.is_in_order.get() {
                    return Ok(());
                }
                self.note(&[JournalEntry::Done { identity: file.identity, path }])
            }
            Ok(false) => {
                self.settle(file.number);
                Ok(())
            }
            Err(Trouble::Entry(reason)) => {
                self.settle(file.number);
                self.discard(link, file).await;
                self.entry_failed(&file.entry, Trouble::Entry(reason))
            }
            Err(trouble) => Err(trouble),
        }
    }

    pub(super) async fn finish(&self, link: &Link, file: &PutFile) -> Result<bool, Trouble> {
        if self.has_name(link, &file.entry, &file.part).await {
            return Ok(true);
        }
        let source = file.source.borrow().clone();
        if let Some((source, fault)) = source.and_then(|source| source.fault().map(|fault| (source, fault))) {
            return Err(Trouble::Entry(format!("{}: {fault}", source.shown)));
        }
        let path = &file.entry.path;
        let outcome = match file.is_in_order.get() {
            true => {
                self.end_in_order(link, file).await?;
                Ok(())
            }
            false => {
                let handle = self.handle(link, file).await?;
                self.settle_attributes(link, &handle, &file.entry.metadata).await
            }
        };
        if let Err(fault) = outcome {
            return Err(self.trouble(link, "set its mode and times", path.as_bytes(), fault).await);
        }
        self.close(file).await;
        let folder = self.folder(link, path.split().0).await?;
        let found = match self.look(link, folder, path).await {
            Ok(found) => found,
            Err(fault) => return Err(self.trouble(link, "look at it", path.as_bytes(), fault).await),
        };
        self.take_name(link, &file.entry, &file.part, found).await
    }

    /// Gives files their times again that a lost connection has written after they were finished.
    ///
    /// # Errors
    /// Fails if all connections are lost.
    pub(in crate::sftp) async fn settle_late(&self) -> Result<(), Error> {
        for entry in self.late.take() {
            let link = self.far.any()?;
            let at = self.at(entry.path.as_bytes());
            let Ok(Some(found)) = link.lstat(&at).await else { continue };
            if !is_same(&entry, &found) && found.size_bytes == Some(entry.metadata.size_bytes) {
                let times = Some(times(entry.metadata.modified));
                let attributes = Attributes { times, ..Attributes::default() };
                if let Err(fault) = link.act(&Request::SetStat { path: &at, attributes }).await {
                    let trouble = self.trouble(&link, "set its time", entry.path.as_bytes(), fault).await;
                    self.entry_failed(&entry, trouble).map_err(|_| self.far.lost())?;
                }
            }
        }
        Ok(())
    }

    pub(super) async fn close(&self, file: &PutFile) {
        let open: Vec<_> = file.handles.lock().await.open.drain().collect();
        let live = self.far.reactor.live();
        let mut closed = Vec::new();
        for (index, handle) in open {
            if let Some(link) = live.iter().find(|link| link.index == index) {
                closed.push(link.begin(&Request::Close { handle: &handle }));
            }
        }
        for pending in closed {
            // The server would have reported a failure of this file when it was asked to sync.
            let _ = pending.done().await;
        }
    }

    /// The file will not be completed.
    pub(super) async fn abandon(&self, link: &Link, file: Rc<PutFile>) -> Result<(), Trouble> {
        self.settle(file.number);
        self.discard(link, &file).await;
        Ok(())
    }

    pub(super) async fn discard(&self, link: &Link, file: &PutFile) {
        self.close(file).await;
        // A file that cannot be removed only occupies space.
        let _ = link.act(&Request::Remove { path: &file.part }).await;
    }
}

/// Fills `room` with the rest of `body` and the bodies after it, and leaves in `body` what is left of the last one.
fn take<'a>(mut room: &mut [u8], body: &mut &'a [u8], bodies: &mut impl Iterator<Item = &'a [u8]>) {
    while !room.is_empty() {
        if body.is_empty() {
            *body = bodies.next().unwrap_or_default();
        }
        let taken = body.len().min(room.len());
        room[..taken].copy_from_slice(&body[..taken]);
        room = &mut room[taken..];
        *body = &body[taken..];
    }
}
