//! Digests of existing files, used to find files with the same content at both ends.
//!
//! Guarantees: a file that is written meanwhile, cut short or unreadable has no digest, and is therefore sent.

use std::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

use crossbeam_channel::{RecvTimeoutError, unbounded};
use sealane_tree::{ExistingFile, Metadata, OpenFile, Target, Writer, Xattrs};

use crate::{
    error::Error,
    proto::{
        entry::{attributes, content_identity},
        message::Held,
    },
    shared::NO_THREAD,
};

const BUFFER_BYTES: usize = 128 << 10;
/// The time between two signs of life to the other end.
const PULSE: Duration = Duration::from_millis(500);

/// Returns the BLAKE3 hash of the first `size_bytes` of a file; `None` if they cannot be read, the file changes
/// meanwhile, or `is_over` returns true.
pub(crate) fn digest(file: &OpenFile, size_bytes: u64, is_over: impl Fn() -> bool) -> Option<[u8; 32]> {
    digest_beside(file, size_bytes, is_over, |_| ())
}

/// Does the same, and passes the bytes to `each` as they are read.
pub(crate) fn digest_beside(
    file: &OpenFile,
    size_bytes: u64,
    is_over: impl Fn() -> bool,
    mut each: impl FnMut(&[u8]),
) -> Option<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut at = 0;
    while at < size_bytes {
        let length = (size_bytes - at).min(BUFFER_BYTES as u64) as usize;
        if is_over() || file.read_at(at, &mut buffer[..length]).ok()? < length {
            return None;
        }
        hasher.update(&buffer[..length]);
        each(&buffer[..length]);
        at += length as u64;
    }
    file.unchanged().then(|| *hasher.finalize().as_bytes())
}

/// Returns the content identities of files of a target, computed by several threads. Unreadable files are left out.
/// `live` is called every moment meanwhile, and can stop the work.
pub(crate) fn identities(
    target: &Target,
    files: &[ExistingFile],
    threads: u16,
    (with_owner, xattrs): (bool, Xattrs),
    live: impl FnMut() -> Result<(), Error>,
) -> Result<Vec<Held>, Error> {
    let one = |writer: &mut Writer, number: usize, is_over: &AtomicBool| {
        let ExistingFile { path, metadata } = files.get(number)?;
        let size_bytes = metadata.size_bytes;
        let file = writer.read_existing(path).ok()?;
        let digest = digest(&file, size_bytes, || is_over.load(Relaxed))?;
        let identity = content_identity(path, size_bytes, &digest);
        let xattrs = if xattrs.any() { file.read_xattrs(path, xattrs).ok()? } else { Vec::new() };
        let metadata = Metadata { xattrs, ..metadata.clone() };
        Some(Held { identity, attributes: attributes(&metadata, true, with_owner) })
    };
    spread(threads, files.len(), || target.writer(), one, live)
}

/// Does `count` pieces of work, each given by its number, on several threads, and returns their results in any order;
/// pieces without a result are left out. Each thread makes what it keeps from one piece to the next by `begin`. `live` is
/// called every moment meanwhile, and can stop the work: the flag that each piece gets tells it so.
pub(crate) fn spread<T: Send, S>(
    threads: u16,
    count: usize,
    begin: impl Fn() -> S + Sync,
    one: impl Fn(&mut S, usize, &AtomicBool) -> Option<T> + Sync,
    mut live: impl FnMut() -> Result<(), Error>,
) -> Result<Vec<T>, Error> {
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (found, finding) = unbounded();
    thread::scope(|scope| {
        for _ in 0..usize::from(threads.max(1)).min(count) {
            let (begin, one, next, is_over, found) = (&begin, &one, &next, &is_over, found.clone());
            let work = move || {
                let mut kept = begin();
                loop {
                    let number = next.fetch_add(1, Relaxed);
                    if number >= count || is_over.load(Relaxed) {
                        return;
                    }
                    if let Some(result) = one(&mut kept, number, is_over) {
                        // The receiver is gone if the transfer has ended.
                        let _ = found.send(result);
                    }
                }
            };
            let started = thread::Builder::new().name("content".into()).spawn_scoped(scope, work);
            if let Err(error) = started {
                is_over.store(true, Relaxed);
                return Err(Error::io(NO_THREAD, &error));
            }
        }
        drop(found);
        let mut results = Vec::new();
        let mut told = Instant::now();
        loop {
            match finding.recv_timeout(PULSE.saturating_sub(told.elapsed())) {
                Ok(result) => results.push(result),
                Err(RecvTimeoutError::Disconnected) => return Ok(results),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if told.elapsed() < PULSE {
                continue;
            }
            told = Instant::now();
            if let Err(error) = live() {
                is_over.store(true, Relaxed);
                return Err(error);
            }
        }
    })
}
