//! Turns replies into records: acts as the sending end of a pull for a far host that has only an SFTP server.
//!
//! Guarantees: a file that changes while it is read is never closed as complete; the content that is read and not yet
//! in place is bounded; a range whose connection is lost is read again on another.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    ops::Range,
    rc::Rc,
    sync::atomic::Ordering::Relaxed,
    time::Instant,
};

use futures_util::{StreamExt, lock::Mutex, stream::FuturesOrdered};
use sealane_lanes::Limiter;
use sealane_sftp::{Access, Attributes, Data, Handle, Reply, Request, StatusCode};
use sealane_tree::{Kind, Metadata, RelativePath};
use serde::Serialize;

use crate::{
    proto::{
        entry::{Announcement, Closing, Entry, encode},
        record::{Header, Kind as RecordKind},
    },
    receive::{
        apply::Applier,
        files::{Files, Lookup},
    },
    sftp::{
        far::{Far, Trouble},
        link::{Fault, Link, UNDER_WAY_BYTES},
        survey::read_request,
    },
};

/// Files up to this size are read whole.
pub(super) const SMALL_FILE_BYTES: u64 = 32 * 1024;
/// The number of simultaneous reads of one file.
const READS_MAX: usize = 64;
/// The length of an entry without its content: its path, and a link's target.
const ENTRY_BYTES_MAX: usize = 16 << 10;
/// Zeros of at least this length become a hole.
const HOLE_BYTES_MIN: usize = 4096;

/// A file as it was found.
pub(super) struct Found {
    /// The path for requests to the server.
    pub(super) at: Vec<u8>,
    /// The path for messages.
    pub(super) shown: String,
    /// Its name in the target.
    pub(super) path: RelativePath,
    pub(super) metadata: Metadata,
    /// The length of a link's text, if the server tells it.
    pub(super) text_bytes: Option<u64>,
}

/// Reads far files and passes them on as records.
pub(super) struct Get<'a> {
    pub(super) far: &'a Far,
    pub(super) files: &'a Files,
    pub(super) applier: RefCell<Applier<'a>>,
    pub(super) next_file: Cell<u32>,
    pub(super) limiter: Limiter,
}

/// Handles of one file, by connection.
type Handles = Mutex<HashMap<usize, Handle>>;

impl Get<'_> {
    /// Writes one record to its place. Returns the number of content bytes.
    fn put(&self, kind: RecordKind, file: u32, offset: u64, body: &[u8]) -> Result<(), Trouble> {
        let header = Header { kind, body_bytes: body.len(), file, offset };
        self.applier.borrow_mut().put(&[(&header, body)]).map(drop).map_err(Trouble::Fatal)
    }

    fn put_value(
        &self,
        kind: RecordKind,
        file: u32,
        offset: u64,
        value: &impl Serialize,
    ) -> Result<(), Trouble> {
        let mut body = vec![0; ENTRY_BYTES_MAX];
        let length = encode(value, &mut body).ok_or_else(too_long)?;
        self.put(kind, file, offset, &body[..length])
    }

    /// Writes a complete entry to its place.
    pub(super) fn whole(&self, entry: &Entry, content: &[u8]) -> Result<(), Trouble> {
        let mut body = vec![0; ENTRY_BYTES_MAX + content.len()];
        let length = encode(entry, &mut body).ok_or_else(too_long)?;
        body.get_mut(length..length + content.len()).ok_or_else(too_long)?.copy_from_slice(content);
        self.put(RecordKind::Pack, 0, 0, &body[..length + content.len()])
    }

    /// Reads a file and writes it to its place.
    pub(super) async fn file(&self, found: &Found) -> Result<(), Trouble> {
        match found.metadata.size_bytes <= SMALL_FILE_BYTES {
            true => self.small(found).await,
            false => self.large(found).await,
        }
    }

    pub(super) fn entry(&self, found: &Found) -> Entry {
        let Found { path, metadata, .. } = found;
        Entry { path: path.clone(), kind: Kind::File, metadata: metadata.clone(), digest: None }
    }

    /// Returns the connection with the least in flight, once one has room.
    async fn link(&self) -> Result<Rc<Link>, Trouble> {
        loop {
            let link = self.far.any().map_err(Trouble::Fatal)?;
            if link.bytes_under_way() < UNDER_WAY_BYTES {
                return Ok(link);
            }
            link.change().await;
        }
    }

    /// Waits until this many bytes may be requested.
    async fn allowed(&self, bytes: u64) {
        self.far.reactor.sleep(self.limiter.delay(bytes, Instant::now())).await;
    }

    async fn small(&self, found: &Found) -> Result<(), Trouble> {
        self.allowed(found.metadata.size_bytes).await;
        loop {
            let link = self.link().await?;
            match self.read_small(&link, found).await {
                Err(Fault::Lost) => {}
                Err(fault) => return Err(self.unreadable(found, &fault)),
                Ok(None) => {
                    return Err(Trouble::Entry(format!("{}: it changes while it is read", found.shown)));
                }
                Ok(Some(content)) => return self.whole(&self.entry(found), &content),
            }
        }
    }

    fn unreadable(&self, found: &Found, fault: &Fault) -> Trouble {
        let code = fault.code().map_or_else(String::new, |code| code.to_string());
        Trouble::Entry(format!("{}: cannot read it: {} says: {code}", found.shown, self.far.host))
    }

    /// Returns the content of a small file; `None` if the file has changed.
    async fn read_small(&self, link: &Link, found: &Found) -> Result<Option<Vec<u8>>, Fault> {
        let _leave = link.leave().await;
        let handle = link.open(&found.at, Access::Read).await?;
        let size = found.metadata.size_bytes;
        // One byte more than expected is requested, to detect the end.
        let read = link.begin(&read_request(&handle, 0, size + 1));
        let stat = link.begin(&Request::Fstat { handle: &handle });
        let close = link.begin(&Request::Close { handle: &handle });
        let (read, stat) = (read.reply().await?, stat.reply().await?);
        close.done().await?;
        let content = match read {
            Reply::Data(data) => {
                let content = data.to_vec();
                link.recycle(data.into_buffer());
                content
            }
            Reply::Status(status) if status.code == StatusCode::EndOfFile => Vec::new(),
            Reply::Status(status) => return Err(Fault::Said(status)),
            _ => return Err(Fault::Lost),
        };
        let is_same = content.len() as u64 == size && self.is_unchanged(&stat, found);
        Ok(is_same.then_some(content))
    }

    fn is_unchanged(&self, stat: &Reply, found: &Found) -> bool {
        let Reply::Attributes(now) = stat else { return false };
        is_as_found(now, &found.metadata)
    }

    async fn large(&self, found: &Found) -> Result<(), Trouble> {
        let number = self.next_file.replace(self.next_file.get() + 1);
        let announcement = Announcement { entry: self.entry(found), growing: false };
        self.put_value(RecordKind::Open, number, 0, &announcement)?;
        let ranges: Vec<Range<u64>> = match self.files.lookup(number).map_err(Trouble::Fatal)? {
            Lookup::Open(file) => {
                self.files.keep_all(&file).map_err(Trouble::Fatal)?;
                file.state().ledger.missing().collect()
            }
            // The file failed, which was reported, or is older than the existing one.
            Lookup::Settled => return Ok(()),
        };
        let missing: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        self.files.progress.bytes_found.fetch_add(missing, Relaxed);
        let handles = Handles::default();
        let outcome = self.ranges(number, found, &handles, ranges).await;
        let closing = match &outcome {
            Ok(()) => Closing::Complete { size_bytes: found.metadata.size_bytes, digest: None },
            Err(Trouble::Entry(reason)) => {
                let mut reason = reason.clone();
                reason.truncate(reason.floor_char_boundary(512));
                Closing::Abandoned { reason }
            }
            Err(_) => return outcome,
        };
        self.put_value(RecordKind::Close, number, 0, &closing)?;
        outcome
    }

    async fn ranges(
        &self,
        number: u32,
        found: &Found,
        handles: &Handles,
        ranges: Vec<Range<u64>>,
    ) -> Result<(), Trouble> {
        let link = self.link().await?;
        let most = u64::from(link.limits().read_bytes);
        let mut chunks = ranges.into_iter().flat_map(|range| {
            let Range { start, end } = range;
            (start..end).step_by(most as usize).map(move |at| at..(at + most).min(end))
        });
        let mut reading = FuturesOrdered::new();
        loop {
            while reading.len() < READS_MAX
                && let Some(chunk) = chunks.next()
            {
                reading.push_back(self.chunk(found, handles, chunk));
            }
            let Some(read) = reading.next().await else { break };
            for (link, offset, data) in read? {
                self.content(number, offset, &data)?;
                link.recycle(data.into_buffer());
            }
        }
        let is_unchanged = self.check(found, handles).await?;
        match is_unchanged {
            true => Ok(()),
            false => {
                Err(Trouble::Entry(format!("{}: it changed while it was read; copy it again", found.shown)))
            }
        }
    }

    /// Writes content to its place; zeros become a hole.
    fn content(&self, number: u32, offset: u64, data: &[u8]) -> Result<(), Trouble> {
        let is_hole = data.len() >= HOLE_BYTES_MIN && data.iter().all(|&byte| byte == 0);
        match is_hole && self.files.writer().is_some() {
            true => self.put_value(RecordKind::Hole, number, offset, &(data.len() as u64)),
            false => self.put(RecordKind::Data, number, offset, data),
        }
    }

    async fn handle(&self, link: &Link, found: &Found, handles: &Handles) -> Result<Handle, Fault> {
        let mut handles = handles.lock().await;
        if let Some(handle) = handles.get(&link.index) {
            return Ok(handle.clone());
        }
        let handle = link.open(&found.at, Access::Read).await?;
        handles.insert(link.index, handle.clone());
        Ok(handle)
    }

    /// Reads a part of a file, in as many pieces as the server returns.
    async fn chunk(
        &self,
        found: &Found,
        handles: &Handles,
        chunk: Range<u64>,
    ) -> Result<Vec<(Rc<Link>, u64, Data)>, Trouble> {
        let mut pieces = Vec::with_capacity(1);
        let mut at = chunk.start;
        self.allowed(chunk.end - chunk.start).await;
        while at < chunk.end {
            let link = self.link().await?;
            let reply = match self.handle(&link, found, handles).await {
                Ok(handle) => link.call(&read_request(&handle, at, chunk.end - at)).await,
                Err(fault) => Err(fault),
            };
            match reply {
                Ok(Reply::Data(data)) => {
                    let length = data.len() as u64;
                    pieces.push((link, at, data));
                    at += length;
                }
                Ok(Reply::Status(status)) if status.code == StatusCode::EndOfFile => {
                    return Err(Trouble::Entry(format!(
                        "{}: it became shorter while it was read",
                        found.shown
                    )));
                }
                Ok(Reply::Status(status)) => return Err(self.unreadable(found, &Fault::Said(status))),
                Ok(_) | Err(Fault::Lost) => {}
                Err(fault) => return Err(self.unreadable(found, &fault)),
            }
        }
        Ok(pieces)
    }

    /// Closes a file, and returns whether it is unchanged.
    async fn check(&self, found: &Found, handles: &Handles) -> Result<bool, Trouble> {
        let handles: Vec<_> = handles.lock().await.drain().collect();
        let live = self.far.reactor.live();
        let mut closing = Vec::new();
        for (index, handle) in handles {
            if let Some(link) = live.iter().find(|link| link.index == index) {
                closing.push(link.begin(&Request::Close { handle: &handle }));
            }
        }
        for close in closing {
            let _ = close.done().await;
        }
        loop {
            let link = self.link().await?;
            match link.stat(&found.at).await {
                Ok(now) => return Ok(now.is_some_and(|now| is_as_found(&now, &found.metadata))),
                Err(Fault::Lost) => {}
                Err(fault) => return Err(self.unreadable(found, &fault)),
            }
        }
    }
}

/// Returns whether size and time are unchanged.
fn is_as_found(now: &Attributes, then: &Metadata) -> bool {
    let now = super::put::metadata(now);
    now.size_bytes == then.size_bytes && now.modified == then.modified
}

fn too_long() -> Trouble {
    Trouble::Entry("its name and attributes are too long".to_owned())
}
