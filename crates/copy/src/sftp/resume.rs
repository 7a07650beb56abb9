//! A journal of a push over SFTP, and what an earlier run has left at the far host.
//!
//! Guarantees: the journal is found by the far host and the place, not by their names; a part counts only as far as it
//! was read back just now, and is as the source is, unless the user trusts the journal; no other run knows the name
//! of a part, so none writes it.

use std::{
    os::fd::{AsFd, OwnedFd},
    path::Path,
    sync::atomic::Ordering::Relaxed,
};

use futures_util::{StreamExt, future::join, stream::FuturesUnordered};
use sealane_sftp::{Access, FileKind, Reply, Request};

use crate::{
    digest::{GROUP_BYTES, PieceHash, hash_group},
    error::Error,
    journal::{Identity, Partial, State as JournalState, is_file_name, is_never_filled, replay},
    login::private_folder,
    receive::permit::Permit,
    send::work::{Check, Claim},
    sftp::{
        far::Far,
        link::{Fault, Link},
        place::{FarTarget, below},
        put::{Put, metadata},
        remains::Remains,
        survey::{read, read_request},
    },
    transfer::{Transfer, claims, place::journal_at},
};

/// A boot's name is shorter.
const BOOT_ID_BYTES: u64 = 64;
/// The number of names in the target among which journals are looked for.
const LISTED_MAX: usize = 4096;
/// The number of journals that are looked at, and the bytes of each.
const LEFT_MAX: usize = 16;
const LEFT_BYTES_MAX: u64 = 64 << 10;
/// The number of pieces that are read back at once.
const READ_AT_ONCE: usize = 8;

/// Returns what tells the far host from others: the boot of its kernel, as far as its server reports it, because data that
/// a kernel had not written when it crashed is lost, but a journal might claim it; otherwise its name.
pub(super) async fn host(far: &Far, transfer: &Transfer<'_>) -> Result<Vec<u8>, Error> {
    if transfer.journal_name().is_none() {
        return Ok(Vec::new());
    }
    let link = far.any()?;
    let boot = boot_id(far, &link).await?;
    Ok(if boot.is_empty() { format!("{:?}", transfer.far).into_bytes() } else { boot })
}

/// Returns the name of the journal of a push to a place at a far host.
pub(super) fn journal_key(transfer: &Transfer<'_>, host: &[u8], resolved: &[u8]) -> Option<[u8; 16]> {
    let name = transfer.journal_name()?;
    Some(journal_at(name, &[b"sftp", host, b"/", resolved].concat()))
}

/// Returns the identity of the far kernel's boot; empty if its server does not give it. A connection that is lost meanwhile
/// says nothing about that: under another key the next run would not know what this one has begun.
async fn boot_id(far: &Far, link: &Link) -> Result<Vec<u8>, Error> {
    let handle = match link.open(b"/proc/sys/kernel/random/boot_id", Access::Read).await {
        Ok(handle) => handle,
        Err(Fault::Lost) => return Err(far.lost()),
        Err(Fault::Said(_)) => return Ok(Vec::new()),
    };
    let read = link.begin(&read_request(&handle, 0, BOOT_ID_BYTES));
    let closed = link.begin(&Request::Close { handle: &handle });
    let (read, _) = join(read.reply(), closed.done()).await;
    match read {
        Ok(Reply::Data(data)) => Ok(data.to_vec()),
        Err(Fault::Lost) => Err(far.lost()),
        Ok(_) | Err(Fault::Said(_)) => Ok(Vec::new()),
    }
}

/// Returns the folder of the journals of far targets.
pub(super) fn state_folder(path: &Path) -> std::io::Result<OwnedFd> {
    private_folder(path)?;
    Ok(std::fs::File::open(path)?.into())
}

/// Returns a number that belongs to a journal that this process holds, and to no other journal in use on any host: from it
/// follow the names of short-lived files, so that the remains of a killed run are replaced.
pub(super) fn number(journal: impl AsFd) -> u64 {
    let found = rustix::fs::fstat(journal).map(|stat| (stat.st_dev, stat.st_ino));
    let boot = std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mut number = [0; 8];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&boot).update(format!("{found:?}").as_bytes()).finalize_xof().fill(&mut number);
    u64::from_le_bytes(number)
}

/// Returns the far path of an unfinished file of a journal.
fn part(place: &FarTarget, partial: &Partial) -> Option<Vec<u8>> {
    let (path, temp) = partial.names()?;
    Some(below(&place.at(path.split().0), temp.as_bytes()))
}

/// Keeps only the entries of a journal that really exist, and removes files of which nothing has arrived: they would stay for
/// ever if their sources have changed, because they are begun under other names then.
pub(super) async fn check_presence(
    far: &Far,
    place: &FarTarget,
    state: &mut JournalState,
) -> Result<(), Error> {
    let mut present = std::collections::HashMap::new();
    for (identity, partial) in std::mem::take(&mut state.partial) {
        let Some(at) = part(place, &partial) else { continue };
        let link = far.any()?;
        let Ok(Some(found)) = link.lstat(&at).await else { continue };
        let is_begun = found.kind() == FileKind::File && found.size_bytes == Some(partial.size);
        if is_begun && partial.ledger.ranges().next().is_some() {
            present.insert(identity, partial);
        } else {
            // A file that cannot be removed only occupies space.
            let _ = link.act(&Request::Remove { path: &at }).await;
        }
    }
    state.partial = present.into_iter().collect();
    Ok(())
}

/// Returns what the far host has of unfinished files, read back unless the user trusts the journal.
pub(super) async fn claims(
    far: &Far,
    place: &FarTarget,
    state: &JournalState,
    transfer: &Transfer<'_>,
) -> Result<Vec<(Identity, Vec<Claim>)>, Error> {
    let trust = transfer.options.wishes.trust_partial;
    let mut claimed = Vec::new();
    for (&identity, partial) in &state.partial {
        let Some(at) = part(place, partial) else { continue };
        let pieces = claims::pieces(partial);
        if trust {
            let claim = |(start, end)| Claim { range: start..end, check: Check::Trusted };
            claimed.push((identity, pieces.into_iter().map(claim).collect()));
            continue;
        }
        let bytes: u64 = pieces.iter().map(|(start, end)| end - start).sum();
        transfer.progress.bytes_to_check.fetch_add(bytes, Relaxed);
        let mut pieces = pieces.into_iter();
        let (mut reading, mut found) = (FuturesUnordered::new(), Vec::new());
        loop {
            while reading.len() < READ_AT_ONCE
                && let Some((start, end)) = pieces.next()
            {
                let (link, at, size) = (far.any()?, &at, partial.size);
                reading.push(async move { (start..end, hash(&link, at, start..end, size).await) });
            }
            match reading.next().await {
                Some((range, Ok(Some(hash)))) => {
                    transfer.progress.bytes_checked.fetch_add(range.end - range.start, Relaxed);
                    found.push(Claim { range, check: Check::Hash(hash) });
                }
                Some((_, Err(Fault::Lost))) => return Err(far.lost()),
                Some((range, _)) => {
                    transfer.progress.bytes_checked.fetch_add(range.end - range.start, Relaxed);
                }
                None => break,
            }
        }
        found.sort_unstable_by_key(|claim| claim.range.start);
        claimed.push((identity, found));
    }
    Ok(claimed)
}

/// Tells the user of journals and leases in the target that interrupted copies of the same names have left, or of unfinished
/// files if there are none. Call it after a complete copy.
pub(super) async fn tell_left(far: &Far, put: &Put, permit: &Permit, remains: &Remains) -> Result<(), Error> {
    if put.journal.is_none() {
        return Ok(());
    }
    let link = far.any()?;
    let mut told = false;
    let mut tell = |name: &[u8]| {
        told = true;
        put.tell_left(name);
    };
    // A journal that cannot be listed or read is not told.
    let names = link.list(&put.root, LISTED_MAX).await.ok().flatten().unwrap_or_default();
    for name in names.iter().map(|found| &found.name).filter(|name| is_file_name(name)).take(LEFT_MAX) {
        let mut content = Vec::new();
        let Ok(Some(found)) = link.lstat(&put.at(name)).await else { continue };
        let size = found.size_bytes.unwrap_or_default().min(LEFT_BYTES_MAX);
        if size == 0 && found.kind() == FileKind::File {
            // Its writer fills it in a moment, or has died.
            let is_gone = is_never_filled(metadata(&found).modified.seconds)
                && link.act(&Request::Remove { path: &put.at(name) }).await.is_ok();
            if !is_gone {
                tell(name);
            }
            continue;
        }
        if read(&link, &put.at(name), 0..size, |bytes| content.extend_from_slice(bytes)).await.is_err() {
            continue;
        }
        if permit.brings(&replay(&content).covers) {
            tell(name);
        }
    }
    if !told {
        let left = remains.left(far, &put.root).await?;
        left.into_iter().for_each(|path| put.tell_left(path.as_bytes()));
    }
    Ok(())
}

/// Returns the hash of a piece of a far file; `None` if it cannot be read.
async fn hash(
    link: &Link,
    path: &[u8],
    range: std::ops::Range<u64>,
    size: u64,
) -> Result<Option<[u8; 32]>, Fault> {
    let (mut piece, mut group, mut at) = (PieceHash::default(), Vec::with_capacity(GROUP_BYTES), range.start);
    let end = range.end;
    let is_whole = read(link, path, range, |mut bytes| {
        while !bytes.is_empty() {
            let wanted = ((end - at).min(GROUP_BYTES as u64) as usize) - group.len();
            let (taken, rest) = bytes.split_at(wanted.min(bytes.len()));
            group.extend_from_slice(taken);
            bytes = rest;
            if group.len() as u64 == (end - at).min(GROUP_BYTES as u64) {
                piece.add(&hash_group(at, &group, size));
                at += group.len() as u64;
                group.clear();
            }
        }
    });
    Ok(is_whole.await?.then(|| piece.finish()))
}
