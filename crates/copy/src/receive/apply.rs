//! Writes verified records to their places.
//!
//! Guarantees: a record is refused unless it makes sense for its file; everything that the journal calls written has
//! been written.

use std::{
    ops::Range,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use sealane_tree::{Differences, EntryType, Existing, Kind, Metadata, RelativePath, Writer};

use crate::{
    digest::{GROUP_BYTES, hash_group, hash_zero_group},
    error::{Error, ErrorKind},
    journal::Entry as JournalEntry,
    proto::{
        compression::Expander,
        entry::{Announcement, Closing, Copied, Entry, Pack, decode},
        record::{DATA_BYTES_MAX, Header, Kind as RecordKind},
    },
    receive::{
        files::{Destination, Files, Lookup, Placed, ReceiveFile},
        line::Arrived,
    },
    shared::Stop,
    summary::Notice,
};

/// One lane's writer of files.
#[derive(Debug)]
pub(crate) struct Applier<'a> {
    files: &'a Files,
    stop: &'a Stop,
    writer: Option<Writer>,
    /// The file of the last record.
    current: Option<Current>,
    /// Entries about written ranges that are not in the journal yet.
    unjournaled: Vec<JournalEntry>,
    /// `None` until a record is compressed.
    expansion: Option<Box<Expansion>>,
}

/// The place of expanded bodies.
#[derive(Debug)]
struct Expansion {
    expander: Expander,
    room: Vec<u8>,
}

/// The number of records whose bodies are expanded at once: a batch may have many, and each becomes as long as any.
const EXPANDED_AT_ONCE: usize = 8;

impl Expansion {
    fn new() -> Result<Box<Self>, Error> {
        let expander = Expander::new().ok_or_else(|| {
            Error::new(ErrorKind::Io, "there is no memory left to expand compressed records")
        })?;
        Ok(Box::new(Self { expander, room: vec![0; EXPANDED_AT_ONCE * DATA_BYTES_MAX] }))
    }

    /// Returns the records, at most [`EXPANDED_AT_ONCE`], as they were before they were compressed.
    fn expand<'a>(&'a mut self, records: &'a [(&Header, &[u8])]) -> Result<Vec<(Header, &'a [u8])>, Error> {
        let mut expanded = Vec::with_capacity(records.len());
        for (room, &(header, body)) in self.room.chunks_mut(DATA_BYTES_MAX).zip(records) {
            let Some(kind) = header.kind.expanded() else {
                expanded.push((*header, body));
                continue;
            };
            let length = self.expander.expand(body, room);
            let length = length.map_err(|error| Error::protocol(format!("the sender sent {error}")))?;
            expanded.push((Header { kind, body_bytes: length, ..*header }, &room[..length]));
        }
        Ok(expanded)
    }
}

#[derive(Debug)]
struct Current {
    number: u32,
    /// `None` if no more of the file is wanted.
    file: Option<Arc<ReceiveFile>>,
}

/// Returns the number of records at the front that are consecutive data of one file.
fn data_run(records: &[(&Header, &[u8])]) -> usize {
    let Some(&(first, _)) = records.first() else { return 0 };
    let mut next = first.offset;
    let follows = |&&(header, body): &&(&Header, &[u8])| {
        let fits = header.kind == RecordKind::Data && header.file == first.file && header.offset == next;
        next = next.wrapping_add(body.len() as u64);
        fits
    };
    records.iter().take_while(follows).count()
}

/// Returns whether the target has a file of this size and time, so that only its attributes may differ.
fn has_content(writer: &mut Writer, path: &RelativePath, sent: &Metadata) -> bool {
    let is_it = |found: Existing| {
        found.entry_type == EntryType::File
            && found.metadata.size_bytes == sent.size_bytes
            && found.metadata.modified == sent.modified
    };
    writer.existing(path).ok().flatten().is_some_and(is_it)
}

fn malformed(error: crate::proto::entry::Malformed) -> Error {
    Error::protocol(error.to_string())
}

impl<'a> Applier<'a> {
    pub(crate) fn new(files: &'a Files, stop: &'a Stop) -> Self {
        let (current, unjournaled, expansion) = (None, Vec::new(), None);
        Self { files, stop, writer: files.writer(), current, unjournaled, expansion }
    }

    /// Counts content without opening it.
    pub(crate) fn count(&self, arrived: &Arrived) -> u64 {
        let data = |header: &&Header| matches!(header.kind, RecordKind::Data | RecordKind::Pack);
        let bytes = arrived.headers.iter().filter(data).map(|header| header.body_bytes as u64).sum();
        self.moved(bytes);
        bytes
    }

    /// Returns whether a record is about a file that neither this batch nor any finished one has announced.
    pub(crate) fn lacks_announcement(&self, arrived: &Arrived) -> bool {
        let mut announced = None;
        arrived.headers.iter().any(|header| match header.kind {
            RecordKind::Open => {
                announced = Some(header.file);
                false
            }
            RecordKind::Data
            | RecordKind::CompressedData
            | RecordKind::Hole
            | RecordKind::Kept
            | RecordKind::Copy
            | RecordKind::Close
                if announced != Some(header.file) =>
            {
                announced = Some(header.file);
                !self.files.knows(header.file)
            }
            _ => false,
        })
    }

    /// Writes every record of a batch to its place. Returns the bytes of content.
    pub(crate) fn apply(&mut self, arrived: &Arrived) -> Result<u64, Error> {
        let mut records = Vec::with_capacity(arrived.headers.len());
        for (header, body) in arrived.opened() {
            let body = body.ok_or_else(|| Error::protocol("a record that was not opened"))?;
            records.push((header, body));
        }
        self.put(&records)
    }

    /// Writes opened records to their places. Returns the bytes of content.
    pub(crate) fn put(&mut self, records: &[(&Header, &[u8])]) -> Result<u64, Error> {
        if records.iter().all(|(header, _)| header.kind.expanded().is_none()) {
            return self.put_plain(records);
        }
        if !self.files.intake.compressed {
            return Err(Error::protocol("the sender compresses records, which was not agreed"));
        }
        let mut expansion = self.expansion.take().map_or_else(Expansion::new, Ok)?;
        let mut bytes = 0;
        for some in records.chunks(EXPANDED_AT_ONCE) {
            let expanded = expansion.expand(some)?;
            let plain: Vec<_> = expanded.iter().map(|(header, body)| (header, *body)).collect();
            bytes += self.put_plain(&plain)?;
        }
        self.expansion = Some(expansion);
        Ok(bytes)
    }

    fn put_plain(&mut self, records: &[(&Header, &[u8])]) -> Result<u64, Error> {
        let mut bytes = 0;
        let mut rest = records;
        while let Some(&(header, body)) = rest.first() {
            let run = data_run(rest);
            bytes += match run {
                0 => self.apply_record(header, body)?,
                _ => self.data(header, &rest[..run])?,
            };
            rest = &rest[run.max(1)..];
        }
        self.journal_ranges()?;
        Ok(bytes)
    }

    fn apply_record(&mut self, header: &Header, body: &[u8]) -> Result<u64, Error> {
        match header.kind {
            RecordKind::Data => self.data(header, &[(header, body)]),
            RecordKind::Pack => self.pack(body),
            RecordKind::Open => {
                let announcement: Announcement = decode("announcement", body).map_err(malformed)?;
                if announcement.entry.kind != Kind::File {
                    return Err(Error::protocol("the sender announces something that is not a file"));
                }
                let lookup = self.files.announce(header.file, announcement, self.writer.as_mut())?;
                self.remember(header.file, lookup);
                Ok(0)
            }
            RecordKind::Hole => {
                let length: u64 = decode("hole", body).map_err(malformed)?;
                self.hole(header, length)?;
                Ok(0)
            }
            RecordKind::Kept => {
                let length: u64 = decode("kept range", body).map_err(malformed)?;
                if let Some(file) = self.file(header.file)? {
                    let range = header.offset..header.offset.saturating_add(length);
                    self.files.keep(&file, range.clone())?;
                    self.files.check(&file, &range);
                    self.files.finish_if_complete(&file)?;
                }
                Ok(0)
            }
            RecordKind::Copy => {
                let copied: Copied = decode("copied range", body).map_err(malformed)?;
                if let Some(file) = self.file(header.file)?
                    && self.files.copy(&file, header.offset, &copied)?
                {
                    self.arrived(&file, header.offset..header.offset + copied.bytes)?;
                }
                Ok(0)
            }
            RecordKind::Close => {
                let closing: Closing = decode("closing record", body).map_err(malformed)?;
                self.journal_ranges()?;
                if let Some(file) = self.file(header.file)? {
                    self.files.close(&file, closing)?;
                    self.current = None;
                }
                Ok(0)
            }
            RecordKind::CompressedData | RecordKind::CompressedPack => {
                Err(Error::protocol("the sender compresses a record twice"))
            }
            RecordKind::Acknowledge => Err(Error::protocol("the sender acknowledges instead of sending")),
        }
    }

    fn remember(&mut self, number: u32, lookup: Lookup) {
        let file = match lookup {
            Lookup::Open(file) => Some(file),
            Lookup::Settled => None,
        };
        self.current = Some(Current { number, file });
    }

    fn file(&mut self, number: u32) -> Result<Option<Arc<ReceiveFile>>, Error> {
        if self.current.as_ref().is_none_or(|current| current.number != number) {
            let lookup = self.files.lookup(number)?;
            self.remember(number, lookup);
        }
        Ok(self.current.as_ref().and_then(|current| current.file.clone()))
    }

    /// Takes over consecutive data records of a file.
    fn data(&mut self, first: &Header, run: &[(&Header, &[u8])]) -> Result<u64, Error> {
        let bytes = run.iter().map(|(_, body)| body.len() as u64).sum();
        let Some(file) = self.file(first.file)? else { return Ok(bytes) };
        let end = first.offset.checked_add(bytes);
        let end = end.ok_or_else(|| Error::protocol("data beyond the end of any file"))?;
        if !self.files.write(&file, first.offset, run)? {
            return Ok(bytes);
        }
        let hashes: Vec<_> = match self.files.intake.verify_digests {
            true => {
                let size_bytes = file.entry.metadata.size_bytes;
                run.iter().map(|(header, body)| hash_group(header.offset, body, size_bytes)).collect()
            }
            false => Vec::new(),
        };
        if self.files.intake.verify_digests {
            let mut state = file.state();
            if let Some(digest) = &mut state.digest {
                let added = hashes.into_iter().try_for_each(|hash| digest.add(hash));
                added.map_err(|error| Error::protocol(error.to_string()))?;
            }
        }
        let fresh = self.arrived(&file, first.offset..end)?;
        self.moved(fresh);
        Ok(bytes)
    }

    /// Notes a range of a file that is written. Returns the number of its bytes that were missing.
    fn arrived(&mut self, file: &Arc<ReceiveFile>, range: Range<u64>) -> Result<u64, Error> {
        let (fresh, complete) = {
            let mut state = file.state();
            let fresh = state.ledger.add(range.clone());
            let fresh = fresh.map_err(|error| Error::protocol(error.to_string()))?;
            (fresh, state.ledger.is_complete())
        };
        self.files.check(file, &range);
        let Range { start, end } = range;
        match self.unjournaled.last_mut() {
            // A part is copied as a whole or not at all.
            _ if self.files.intake.treatment.portion.is_some() || !file.is_resumable() => {}
            Some(JournalEntry::Range { identity, end: last, .. })
                if *identity == file.identity && *last == start =>
            {
                *last = end;
            }
            _ => {
                let identity = file.identity;
                let mark = file.unnoted.lock().expect("no lane panics holding a mark").take();
                self.unjournaled.extend(mark.map(|mark| JournalEntry::Marked { identity, mark }));
                self.unjournaled.push(JournalEntry::Range { identity, start, end });
            }
        }
        if complete {
            self.journal_ranges()?;
            self.files.finish_if_complete(file)?;
        }
        Ok(fresh)
    }

    fn hole(&mut self, header: &Header, length: u64) -> Result<(), Error> {
        let Some(file) = self.file(header.file)? else { return Ok(()) };
        let size_bytes = file.entry.metadata.size_bytes;
        let end = header.offset.checked_add(length).filter(|&end| end <= size_bytes);
        let end = end.ok_or_else(|| Error::protocol("a hole beyond the end of its file"))?;
        if !self.files.zero(&file, header.offset..end)? {
            return Ok(());
        }
        if self.files.intake.verify_digests {
            for group in (header.offset..end).step_by(GROUP_BYTES) {
                // A hole is announced quickly and can take very long to digest.
                if self.stop.is_set() {
                    return Ok(());
                }
                let hash = hash_zero_group(group, size_bytes);
                if let Some(digest) = &mut file.state().digest {
                    digest.add(hash).map_err(|error| Error::protocol(error.to_string()))?;
                }
            }
        }
        let fresh = file
            .state()
            .ledger
            .add(header.offset..end)
            .map_err(|error| Error::protocol(error.to_string()))?;
        self.moved(fresh);
        self.files.check(&file, &(header.offset..end));
        self.files.finish_if_complete(&file)
    }

    fn moved(&self, bytes: u64) {
        self.files.counters.bytes.fetch_add(bytes, Relaxed);
        self.files.progress.bytes_moved.fetch_add(bytes, Relaxed);
    }

    fn pack(&mut self, body: &[u8]) -> Result<u64, Error> {
        let mut bytes = 0;
        let mut done = Vec::new();
        for packed in Pack::new(body) {
            let (entry, content) = packed.map_err(malformed)?;
            self.files.intake.permit.check(&entry)?;
            if self.files.intake.verify_digests
                && entry.kind == Kind::File
                && entry.digest.is_some_and(|digest| digest != *blake3::hash(content).as_bytes())
            {
                self.files.poison();
                let path = String::from_utf8_lossy(entry.path.as_bytes()).into_owned();
                let message = format!("{path}: the content that arrived has another digest than was sent");
                return Err(Error::new(ErrorKind::Integrity, message));
            }
            let placed = self.place(&entry, content)?;
            if let (Kind::Attributes, Some(digest), true) =
                (&entry.kind, entry.digest, placed == Placed::Unchanged)
            {
                // Both ends have read the content, and it is the same.
                self.files.notice(Notice::Digest { path: entry.path.as_bytes().to_vec(), digest });
            }
            match placed {
                Placed::No | Placed::Unchanged => continue,
                Placed::Made => {}
            }
            bytes += content.len() as u64;
            self.files.entry_done(&entry, entry.digest);
            // Directories are finished at the end, so a resumed transfer must receive them again.
            if self.files.journal.is_some() && entry.kind == Kind::File {
                let path = entry.path.as_bytes().to_vec();
                done.push(JournalEntry::Done { identity: entry.identity(), path });
            }
        }
        self.moved(bytes);
        if !done.is_empty() {
            self.files.journal_done(&done)?;
        }
        Ok(bytes)
    }

    /// Makes one small entry, or updates the existing one.
    fn place(&mut self, entry: &Entry, content: &[u8]) -> Result<Placed, Error> {
        let Some(writer) = &mut self.writer else {
            if let (Destination::Output(_), Kind::File) = (&self.files.destination, &entry.kind) {
                self.files.output(content)?;
            }
            return Ok(Placed::Made);
        };
        if self.files.passes_over(writer, entry) {
            return Ok(Placed::No);
        }
        let Entry { path, kind, metadata, .. } = entry;
        let made = match kind {
            Kind::File => {
                let change = self.files.change(writer, entry);
                return match writer.small_file(path, metadata, content) {
                    Ok(()) => {
                        self.files.tell_change(change);
                        Ok(Placed::Made)
                    }
                    Err(error) => self.files.entry_failed(entry, error).map(|()| Placed::No),
                };
            }
            Kind::Attributes if writer.has_bases() && !has_content(writer, path, metadata) => {
                writer.from_basis(path, metadata)
            }
            Kind::Attributes => writer.attributes(path, metadata),
            Kind::Directory => {
                self.files.journal_mode(writer, path)?;
                writer.directory(path, metadata)
            }
            Kind::Symlink { target } if writer.leaves_out_link(path, target, metadata) => {
                Ok(Differences::default())
            }
            Kind::Symlink { target } => writer.symlink(path, target, metadata),
            Kind::HardLink { to } => writer.hard_link(path, to),
            Kind::Special(special) => writer.special(path, *special, metadata),
        };
        match made {
            Ok(differences) => Ok(self.files.entry_made(entry, differences)),
            Err(error) => self.files.entry_failed(entry, error).map(|()| Placed::No),
        }
    }

    fn journal_ranges(&mut self) -> Result<(), Error> {
        let Some(journal) = &self.files.journal else {
            self.unjournaled.clear();
            return Ok(());
        };
        if self.unjournaled.is_empty() {
            return Ok(());
        }
        let appended = journal.append(&self.unjournaled);
        self.unjournaled.clear();
        appended.map_err(|error| Error::io("cannot write the journal", &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        journal::State,
        proto::{compression::Compressor, entry::encode},
        receive::{
            files::{Intake, Treatment},
            permit::Permit,
        },
        summary::Notice,
    };

    /// Returns files that discard the entry of this name, and their notices.
    fn discarding(name: &[u8], compressed: bool) -> (Files, crossbeam_channel::Receiver<Notice>) {
        let intake = Intake {
            permit: Permit::new(None, [name], false, false),
            treatment: Treatment::default(),
            verify_digests: false,
            compressed,
            open_max: usize::MAX,
        };
        let (notices, pending) = crossbeam_channel::bounded(8);
        let (journal, progress) = (State::default(), Arc::default());
        (Files::new(Destination::Null, intake, None, journal, notices, progress), pending)
    }

    #[test]
    fn what_was_not_asked_for_is_refused_by_name() {
        let (files, _pending) = discarding(b"good.txt", false);
        let stop = Stop::new();
        let mut applier = Applier::new(&files, &stop);
        for (path, expected) in [("good.txt", true), (".bashrc_", false), ("good.txt/below", false)] {
            let path = RelativePath::new(path).unwrap();
            let shown = path.to_string();
            let entry = Entry { path, kind: Kind::File, metadata: Metadata::default(), digest: None };
            let mut pack = vec![0; 200];
            let length = encode(&entry, &mut pack).unwrap();
            let packed = applier.pack(&pack[..length]);
            let announced = files.announce(0, Announcement { entry, growing: false }, None);
            assert_eq!((packed.is_ok(), announced.is_ok()), (expected, expected), "{shown}");
            for error in [packed.err(), announced.err()].into_iter().flatten() {
                assert_eq!(error.kind, ErrorKind::Protocol);
                assert!(error.message.contains(&shown), "{error}");
            }
            files.close_all(false);
        }
    }

    /// Each is an error that names the sender, and nothing of it is written.
    #[test]
    fn compressed_records_that_no_sender_makes_end_the_transfer() {
        let mut room = vec![0; 4096];
        let entry = Entry {
            path: RelativePath::new("a").unwrap(),
            kind: Kind::File,
            metadata: Metadata { size_bytes: 3000, ..Metadata::default() },
            digest: None,
        };
        let mut body = vec![0; 8192];
        let length = encode(&entry, &mut body).unwrap();
        body.truncate(length + 3000);
        let mut compress = |body: &[u8]| {
            let length = Compressor::new().unwrap().compress(1, body, &mut room).unwrap();
            room[..length].to_vec()
        };
        let (good, bomb) = (compress(&body), compress(&vec![7; DATA_BYTES_MAX + 1]));
        let cut = good[..good.len() - 1].to_vec();
        let kinds = (RecordKind::CompressedPack, RecordKind::CompressedData);
        for (kind, body, agreed, expected) in [
            (kinds.0, &good, true, None),
            (kinds.0, &good, false, Some("not agreed")),
            (kinds.0, &bomb, true, Some("65537 bytes")),
            (kinds.0, &cut, true, Some("cut off")),
            (kinds.0, &b"garbage".to_vec(), true, Some("length")),
            (kinds.0, &Vec::new(), true, Some("length")),
            (kinds.1, &bomb, true, Some("65537 bytes")),
            (kinds.1, &good, true, Some("")),
        ] {
            let (files, _pending) = discarding(b"a", agreed);
            let stop = Stop::new();
            let mut applier = Applier::new(&files, &stop);
            let header = Header { kind, body_bytes: body.len(), file: 0, offset: 0 };
            let put = applier.put(&[(&header, body)]);
            match expected {
                None => assert_eq!(put.unwrap(), 3000),
                Some(words) => {
                    let error = put.unwrap_err();
                    assert_eq!(error.kind, ErrorKind::Protocol, "{error}");
                    assert!(error.message.contains(words), "{error}");
                    assert_eq!(files.counters.bytes.load(Relaxed), 0);
                }
            }
            files.close_all(false);
        }
    }
}
