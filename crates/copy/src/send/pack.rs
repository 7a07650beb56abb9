//! Turns small entries into records, many per record.
//!
//! Guarantees: a small file is in a record completely and as of one moment, or not at all.

use std::{
    ops::Range,
    sync::{Arc, atomic::Ordering::Relaxed},
};

use sealane_peer::chain;
use sealane_tree::{
    Division, Entry as Found, EntryKind, Kind, Metadata, OpenFile, RelativePath, ShownPath, Timestamp, Xattrs,
};

use crate::{
    content,
    digest::{GROUP_BYTES, TreeDigest},
    options::Piece,
    proto::{
        entry::{self, Announcement, Entry, content_identity},
        record::Kind as RecordKind,
    },
    send::{
        batch::Builder,
        fill::{
            Filler,
            delta::{Choice, Old},
        },
        moved::Elsewhere,
        ranges::{align, complement, subtract, within},
        work::{Bytes, Candidate, Check, Claim, Content, OtherNames, Pack, SendFile},
    },
    summary::Notice,
};

/// Files up to this size are sent whole, many per record.
const SMALL_FILE_BYTES: u64 = 32 * 1024;
/// The number of attempts to read a small file that changes meanwhile.
const SMALL_FILE_TRIES: usize = 3;

/// The fate of an entry.
enum Written {
    /// The entry is in the record.
    Entry { length: usize, content_bytes: u64 },
    /// Skipped, failed, large, or a link: not in this record.
    Elsewhere,
    /// The record is full; a file that was opened in vain is returned.
    NoRoom(Option<OpenFile>),
}

impl Filler<'_> {
    /// Returns whether the lane has finished its pack.
    pub(super) fn fill_pack(&mut self, batch: &mut Builder, pack: &mut Pack) -> bool {
        let mut written = 0;
        let mut bytes = 0;
        pack.written.reserve(pack.candidates.len());
        let mut full = false;
        let before = pack.candidates.len();
        while let Some(candidate) = pack.candidates.as_slice().first() {
            if self.shared.deltas.is_full() {
                full = true;
                break;
            }
            match self.write_candidate(candidate, pack.opened.take(), &mut batch.body()[written..]) {
                Written::Entry { length, content_bytes } => {
                    written += length;
                    bytes += content_bytes;
                    pack.written.extend(pack.candidates.next());
                }
                Written::Elsewhere => {
                    pack.candidates.next();
                }
                Written::NoRoom(opened) if written > 0 => {
                    pack.opened = opened;
                    full = true;
                    break;
                }
                Written::NoRoom(_) => {
                    let reason = self.of(&candidate.found, "its name and attributes are too long to send");
                    self.failed(&candidate.found, reason);
                    pack.candidates.next();
                }
            }
        }
        self.shared.progress.files_measured.fetch_add((before - pack.candidates.len()) as u64, Relaxed);
        if written > 0 {
            self.shared.counters.bytes.fetch_add(bytes, Relaxed);
            self.shared.counters.entries.fetch_add(pack.written.len() as u64, Relaxed);
            batch.push(RecordKind::Pack, 0, 0, written);
            batch.contents.push(Content::Pack { candidates: std::mem::take(&mut pack.written), bytes });
        }
        !full
    }

    /// Writes one entry to the front of `body`, or handles it otherwise.
    fn write_candidate(
        &mut self,
        candidate: &Candidate,
        opened: Option<OpenFile>,
        body: &mut [u8],
    ) -> Written {
        let found = &candidate.found;
        let path = &found.path;
        let entry = |kind, metadata| Entry { path: path.clone(), kind, metadata, digest: None };
        if self.shared.passes_over(path, matches!(found.kind, EntryKind::Directory(_))) {
            return self.passed_over();
        }
        if let OtherNames::Sent(to) = &candidate.others {
            return self.write_bare(&entry(Kind::HardLink { to: to.clone() }, Metadata::default()), body);
        }
        let written = match &found.kind {
            EntryKind::File => self.write_file(candidate, opened, body),
            EntryKind::Directory(metadata) => {
                Ok(self.write_bare(&entry(Kind::Directory, metadata.clone()), body))
            }
            EntryKind::Symlink => self
                .reader
                .read_link(found.root, path)
                .map(|(target, metadata)| {
                    self.shared.sent.add(|| entry::identity(path, &metadata));
                    self.write_bare(&entry(Kind::Symlink { target }, metadata), body)
                })
                .map_err(|error| self.reason(found, error)),
            EntryKind::Other if self.shared.wishes.preserve.specials => self
                .reader
                .read_special(found.root, path)
                .map(|(special, metadata)| {
                    self.shared.sent.add(|| entry::identity(path, &metadata));
                    self.write_bare(&entry(Kind::Special(special), metadata), body)
                })
                .map_err(|error| self.reason(found, error)),
            EntryKind::Other => {
                let shown = self.reader.show(found.root, path);
                let reason = self.of(found, "it is a device, pipe or socket; -D copies it");
                self.shared.unfit(&shown, reason);
                Ok(Written::Elsewhere)
            }
        };
        written.unwrap_or_else(|reason| {
            self.failed(found, reason);
            Written::Elsewhere
        })
    }

    fn failed(&self, found: &Found, reason: String) {
        self.shared.failed(&self.reader.show(found.root, &found.path), reason);
    }

    /// Returns a message about the entry, with its name.
    fn of(&self, found: &Found, what: &str) -> String {
        format!("{}: {what}", self.reader.show(found.root, &found.path))
    }

    /// Returns the reason why the entry cannot be read, with the user's name for it.
    fn reason(&self, found: &Found, error: sealane_tree::Error) -> String {
        chain(&error.shown_as(|_| self.reader.show(found.root, &found.path)))
    }

    /// Writes an entry without content.
    fn write_bare(&self, entry: &Entry, body: &mut [u8]) -> Written {
        if self.shared.wishes.dry_run {
            return self.would_send(entry);
        }
        match entry::encode(entry, body) {
            Some(length) => Written::Entry { length, content_bytes: 0 },
            None => Written::NoRoom(None),
        }
    }

    /// In a dry run the receiver gets the entry, and reports the change it would cause.
    fn would_send(&self, entry: &Entry) -> Written {
        self.shared.counters.entries.fetch_add(1, Relaxed);
        self.shared.counters.bytes.fetch_add(entry.content_bytes(), Relaxed);
        self.shared.preview.hand_on(entry.clone());
        Written::Elsewhere
    }

    fn write_file(
        &mut self,
        candidate: &Candidate,
        mut opened: Option<OpenFile>,
        body: &mut [u8],
    ) -> Result<Written, String> {
        let shared = self.shared;
        let found = &candidate.found;
        let path = &found.path;
        if opened.is_none() {
            if shared.wishes.sizes.are_limited()
                && let Ok(Some(looked)) = self.reader.look(found.root, path, Xattrs::default())
                && !shared.wishes.sizes.include(looked.metadata.size_bytes)
            {
                return Ok(self.passed_over());
            }
            if let Some(written) = self.without_opening(found, body) {
                return Ok(written);
            }
        }
        for _ in 0..SMALL_FILE_TRIES {
            let open = match opened.take() {
                Some(open) => open,
                None => self.reader.open(found.root, path).map_err(|error| self.reason(found, error))?,
            };
            let identity = entry::identity(path, open.metadata());
            if let Some(written) = self.without_content(candidate, &open, &identity, body)? {
                return Ok(written);
            }
            let size_bytes = open.metadata().size_bytes;
            let mut metadata = open.metadata().clone();
            self.read_xattrs(found, &open, &mut metadata)?;
            shared.sent.add(|| identity);
            let entry = Entry { path: path.clone(), kind: Kind::File, metadata, digest: None };
            let piece = self.piece(&identity, size_bytes).map_err(|what| self.of(found, what))?;
            if size_bytes > SMALL_FILE_BYTES || piece.is_some() {
                let shown = self.reader.show(found.root, path);
                self.large_file(entry, shown, open, identity, piece);
                return Ok(Written::Elsewhere);
            }
            if let Some(written) =
                self.write_whole(entry, open, body).map_err(|what| self.of(found, &what))?
            {
                if matches!(written, Written::Entry { .. }) {
                    shared.progress.bytes_found.fetch_add(size_bytes, Relaxed);
                }
                return Ok(written);
            }
        }
        Err(self.of(found, "it changes while it is read"))
    }

    /// Handles an open file whose content is not sent: its size is not wanted, it goes under another of its names, the receiver has it,
    /// or has a newer one, or nothing is sent at all. Returns `None` for others.
    fn without_content(
        &self,
        candidate: &Candidate,
        open: &OpenFile,
        identity: &[u8; 16],
        body: &mut [u8],
    ) -> Result<Option<Written>, String> {
        let shared = self.shared;
        let found = &candidate.found;
        let path = &found.path;
        let size_bytes = open.metadata().size_bytes;
        if !shared.wishes.sizes.include(size_bytes) {
            return Ok(Some(self.passed_over()));
        }
        if let Some(others) = self.other_names(candidate, open, identity) {
            if matches!(others, OtherNames::Sent(_)) {
                shared.sent.add(|| *identity);
            }
            shared.queue.push_last(Candidate { others, ..candidate.clone() });
            return Ok(Some(Written::Elsewhere));
        }
        let known = shared.possessions.of(path, open.metadata(), identity).map(|known| (known, None));
        if let Some((known, digest)) = known.or_else(|| self.with_content(path, open)) {
            // A digest is told only of what both ends have read.
            let digest = digest.filter(|_| shared.wishes.digest);
            let mut metadata = open.metadata().clone();
            self.read_xattrs(found, open, &mut metadata)?;
            return Ok(Some(self.write_known(path, (metadata, *identity), (known, digest), body)));
        }
        let dated = &shared.possessions.dated;
        let is_older = |there: &Timestamp| *there > open.metadata().modified;
        if shared.wishes.update && dated.get(&entry::path_hash(path)).is_some_and(is_older) {
            shared.progress.bytes_found.fetch_add(size_bytes, Relaxed);
            shared.counters.skipped.fetch_add(1, Relaxed);
            shared.progress.bytes_moved.fetch_add(size_bytes, Relaxed);
            return Ok(Some(Written::Elsewhere));
        }
        if shared.wishes.dry_run {
            shared.progress.bytes_found.fetch_add(size_bytes, Relaxed);
            let (path, metadata) = (path.clone(), open.metadata().clone());
            return Ok(Some(self.would_send(&Entry { path, kind: Kind::File, metadata, digest: None })));
        }
        Ok(None)
    }

    /// Handles a file whose content the receiver has, with attributes of which the hash is `known`: what differs of them is sent, and the
    /// digest, if there is one.
    fn write_known(
        &self,
        path: &RelativePath,
        (metadata, identity): (Metadata, [u8; 16]),
        (known, digest): (&[u8; 8], Option<[u8; 32]>),
        body: &mut [u8],
    ) -> Written {
        let shared = self.shared;
        let size_bytes = metadata.size_bytes;
        let mut written = Written::Elsewhere;
        let with_owner = shared.wishes.preserve.owner.is_wanted();
        if digest.is_none() && *known == entry::attributes(&metadata, shared.is_apart_from_time(), with_owner)
        {
            shared.counters.skipped.fetch_add(1, Relaxed);
            shared.progress.files_done.fetch_add(1, Relaxed);
        } else {
            let entry = Entry { path: path.clone(), kind: Kind::Attributes, metadata, digest };
            written = self.write_bare(&entry, body);
            if matches!(written, Written::NoRoom(_)) {
                return written;
            }
            if let Some(digest) = digest {
                shared.notice(Notice::Digest { path: path.as_bytes().to_vec(), digest });
            }
        }
        shared.sent.add(|| identity);
        shared.counters.resumed_bytes.fetch_add(size_bytes, Relaxed);
        written
    }

    /// Reads the extended attributes of an open file that are asked for.
    fn read_xattrs(&self, found: &Found, open: &OpenFile, metadata: &mut Metadata) -> Result<(), String> {
        let kinds = self.shared.wishes.preserve.kinds_of_xattrs();
        if kinds.any() {
            let read = open.read_xattrs(&found.path, kinds);
            metadata.xattrs = read.map_err(|error| self.reason(found, error))?;
            self.shared.changes.apply_to_acls(&mut metadata.xattrs);
        }
        Ok(())
    }

    /// Counts an entry that is not to be sent. It is not removed from the source either.
    fn passed_over(&self) -> Written {
        self.shared.counters.skipped.fetch_add(1, Relaxed);
        self.shared.progress.files_done.fetch_add(1, Relaxed);
        Written::Elsewhere
    }

    /// Handles a file whose content the receiver has, judged without opening it; returns `None` for others.
    fn without_opening(&mut self, found: &Found, body: &mut [u8]) -> Option<Written> {
        let shared = self.shared;
        if shared.checksum || shared.wishes.digest || shared.possessions.done.is_empty() {
            return None;
        }
        // Whatever is wrong with the file is found again, and told, when it is opened.
        let path = &found.path;
        let looked = self.reader.look(found.root, path, shared.wishes.preserve.kinds_of_xattrs()).ok()??;
        if shared.wishes.preserve.hard_links && looked.links > 1 {
            return None;
        }
        let metadata = looked.metadata;
        let identity = entry::identity(path, &metadata);
        let known = shared.possessions.of(path, &metadata, &identity)?;
        Some(self.write_known(path, (metadata, identity), (known, None), body))
    }

    /// Returns the attributes of the receiver's file with the same content under this path, and the digest of that, if
    /// contents are compared.
    fn with_content(&self, path: &RelativePath, open: &OpenFile) -> Option<(&[u8; 8], Option<[u8; 32]>)> {
        let shared = self.shared;
        if !shared.checksum || shared.possessions.done.is_empty() {
            return None;
        }
        let size_bytes = open.metadata().size_bytes;
        let digest = content::digest(open, size_bytes, || shared.queue.is_stopped())?;
        let known = shared.possessions.done.get(&content_identity(path, size_bytes, &digest))?;
        Some((known, Some(digest)))
    }

    /// Returns the reason why this name must wait for another one of its file, if links are preserved: that one is
    /// sent, or the receiver may have a part of it.
    fn other_names(&self, candidate: &Candidate, open: &OpenFile, identity: &[u8; 16]) -> Option<OtherNames> {
        if !self.shared.wishes.preserve.hard_links || open.links() == 1 {
            return None;
        }
        let path = &candidate.found.path;
        let mut inodes = self.shared.inodes.lock().expect("no lane panics holding the inodes");
        if let Some(sent) = inodes.get(&open.identity()) {
            return (sent != path).then(|| OtherNames::Sent(sent.clone()));
        }
        let possessions = &self.shared.possessions;
        if matches!(candidate.others, OtherNames::Unknown)
            && possessions.has_others_than(path, open.metadata(), identity)
        {
            return Some(OtherNames::Seen);
        }
        inodes.insert(open.identity(), path.clone());
        None
    }

    /// Writes a small file with its content; returns `None` if it changed meanwhile.
    fn write_whole(
        &self,
        mut entry: Entry,
        open: OpenFile,
        body: &mut [u8],
    ) -> Result<Option<Written>, String> {
        let size_bytes = entry.metadata.size_bytes;
        let content_bytes = size_bytes as usize;
        // The length of the entry does not depend on the digest's value, so the content is read in place.
        entry.digest = self.shared.wishes.digest.then_some([0; 32]);
        let (length, content) = match entry::encode(&entry, body) {
            Some(length) if body.len() - length >= content_bytes => {
                (length, &mut body[length..][..content_bytes])
            }
            _ => return Ok(Some(Written::NoRoom(Some(open)))),
        };
        let read = open.read_at(0, content).map_err(|error| chain(&error))?;
        // Files of the kernel's own (/proc, /sys) have content and no size, or more content than their size.
        let has_more = content_bytes == 0 && !matches!(open.read_at(0, &mut [0]), Ok(0));
        if !open.unchanged() {
            return Ok(None);
        }
        if read < content_bytes || has_more {
            return Err(
                "its content has another size than the system reports; use `cat FILE | sealane cp - TARGET`"
                    .to_owned(),
            );
        }
        if self.shared.wishes.digest {
            let digest = *blake3::hash(content).as_bytes();
            entry.digest = Some(digest);
            entry::encode(&entry, body);
            self.shared.notice(Notice::Digest { path: entry.path.as_bytes().to_vec(), digest });
        }
        Ok(Some(Written::Entry { length: length + content_bytes, content_bytes: size_bytes }))
    }

    /// Returns the bytes to send, if only a part of the file is to be copied.
    fn piece(&self, identity: &[u8; 16], size_bytes: u64) -> Result<Option<Range<u64>>, &'static str> {
        let Some(portion) = self.shared.wishes.portion else { return Ok(None) };
        let changed = "it has changed since the copy of its first part";
        let division = Division::new(size_bytes, portion.range_bytes);
        let division = division.filter(|_| *identity == portion.identity).ok_or(changed)?;
        match portion.piece {
            Piece::Range(index) => division.range(index).map(Some).ok_or(changed),
            Piece::Name => Ok(Some(size_bytes..size_bytes)),
        }
    }

    /// Has a large file sent, in whatever way.
    fn large_file(
        &self,
        entry: Entry,
        shown: ShownPath,
        open: OpenFile,
        identity: [u8; 16],
        piece: Option<Range<u64>>,
    ) {
        let shared = self.shared;
        let size_bytes = entry.metadata.size_bytes;
        let known = if shared.both_digest { None } else { shared.possessions.partial.get(&identity) };
        // A part of a file comes from a share, which has no journal of its own.
        let claims = known.filter(|_| shared.wishes.portion.is_none()).map_or(&[][..], Vec::as_slice);
        let (choice, old) = self.choose(&entry, piece.as_ref(), claims);
        let digests = shared.wishes.digest || choice != Choice::Whole;
        let alignment = if digests { GROUP_BYTES as u64 } else { 1 };
        let data = align(open.extents(), alignment, size_bytes);
        let holes = complement(&data, size_bytes);
        let (data, holes) = match &piece {
            Some(piece) => (within(&data, piece), within(&holes, piece)),
            None => (data, holes),
        };
        let claimed: Vec<_> = claims.iter().map(|claim| claim.range.clone()).collect();
        let ranges = if claimed.is_empty() { data.clone() } else { subtract(&data, &claimed) };
        let digest = digests.then(|| TreeDigest::new(size_bytes));
        let (number, bytes) = (shared.queue.next_file(), Bytes::File(Arc::new(open)));
        let announcement = Announcement { entry, growing: false };
        if choice == Choice::Compared {
            let file = SendFile::new(number, announcement, shown, bytes, [], holes, digest);
            let file = Arc::new(file.with_claims(claims).compared());
            return shared.deltas.begin(&shared.queue, file, (data, &ranges), old);
        }
        let to_send: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        shared.progress.bytes_found.fetch_add(to_send, Relaxed);
        // The file must be announced and closed even if nothing of it is left to send.
        let nothing = ranges.is_empty().then_some(size_bytes..size_bytes);
        let ranges = ranges.into_iter().chain(nothing);
        let file = SendFile::new(number, announcement, shown, bytes, ranges, holes, digest);
        let file = Arc::new(file.with_claims(claims));
        if choice == Choice::Tried {
            shared.deltas.try_out(file.clone(), data, old);
        }
        shared.queue.push_file(file);
    }

    /// Returns what is to be done about a file by the receiver's version of it, and which that is.
    fn choose(&self, entry: &Entry, piece: Option<&Range<u64>>, claims: &[Claim]) -> (Choice, Old) {
        let shared = self.shared;
        let (versions, moved) = (&shared.possessions.versions, &shared.possessions.moved);
        if versions.is_empty() || shared.both_digest || piece.is_some() {
            return (Choice::Whole, Old::default());
        }
        // A digest takes all bytes, and one who trusts the receiver reads none of them.
        if claims.iter().any(|claim| claim.check == Check::Trusted) {
            return (Choice::Whole, Old::default());
        }
        let metadata = &entry.metadata;
        if !shared.deltas.takes(metadata.size_bytes) {
            return (Choice::Whole, Old::default());
        }
        let exact = moved.exact(&entry.path, metadata);
        let own =
            || versions.get(&entry::path_hash(&entry.path)).map(|&bytes| Old { bytes, elsewhere: None });
        let elsewhere = |found: Elsewhere| Old { bytes: found.bytes, elsewhere: Some(found.path) };
        let old = exact.map(elsewhere).or_else(own);
        let old = old.or_else(|| moved.take_alike(&entry.path, metadata).map(elsewhere));
        match old {
            Some(old) => (shared.deltas.choose(metadata.size_bytes, old.bytes, exact.is_some()), old),
            None => (Choice::Whole, Old::default()),
        }
    }
}
