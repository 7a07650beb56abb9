//! Examines a far tree, many folders at a time.
//!
//! Guarantees: no link is followed; a name that is not a valid path component is left out; the remembered state is
//! bounded.

use std::{
    collections::{HashSet, VecDeque},
    future::poll_fn,
    mem::replace,
    ops::Range,
    task::Poll,
};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use sealane_sftp::{Access, Attributes, FileKind, Handle, Reply, Request};
use sealane_tree::{Folders, RelativePath, Source};

use crate::{
    error::{Error, ErrorKind},
    options::{Upkeep, Wishes},
    proto::{
        entry::{attributes, content_identity},
        message::{Dated, Held},
    },
    receive::permit::Permit,
    send::fill::{POSSESSIONS_MAX, Possessions},
    sftp::{
        compared::Comparison,
        far::Far,
        link::{Fault, Link, NAMES_MAX},
        place::below,
        put::metadata,
        remains::Remains,
    },
    transfer::known::{Knowing, named},
};

/// The number of folders that are listed at once.
const LISTED_AT_ONCE: usize = 32;
/// The memory that the paths of folders may take that wait to be listed.
const WAITING_BYTES_MAX: usize = 128 << 20;
/// The number of names that are passed on before it is asked whether there is room for more.
const NAMES_AT_ONCE: usize = 1024;
/// The number of files whose content is read back at once.
const READ_AT_ONCE: usize = 16;

/// One finding in a tree.
pub(super) enum Sight {
    /// A folder whose list has no names; `None` stands for the root. Its server reports a list that fails in the same
    /// way.
    Empty(Option<RelativePath>),
    /// An entry, reported before its contents.
    Entry(RelativePath, Attributes),
    /// A folder that could not be listed; `None` stands for the root.
    Failed(Option<RelativePath>, Fault),
    /// A name that no path may contain, in this folder.
    Unfit(Option<RelativePath>, Vec<u8>),
    /// More names than can be kept in memory.
    TooMany(Option<RelativePath>),
}

/// Examines the contents of folders below `root`, recursively; `None` stands for the root itself. `each` returns
/// whether a folder is entered. While `is_full` returns true, nothing more is examined.
pub(super) async fn descend(
    far: &Far,
    root: &[u8],
    folders: Vec<Option<RelativePath>>,
    mut each: impl FnMut(Sight) -> Result<bool, Error>,
    is_full: impl Fn() -> bool,
) -> Result<(), Error> {
    let mut waiting = folders;
    let mut waiting_bytes = 0;
    let cost = |folder: &Option<RelativePath>| {
        size_of::<RelativePath>() + folder.as_ref().map_or(0, |folder| folder.as_bytes().len())
    };
    let mut listing = FuturesUnordered::new();
    let mut listed = VecDeque::new();
    // The main task is polled after every event, and so is this future.
    let room = || poll_fn(|_| if is_full() { Poll::Pending } else { Poll::Ready(()) });
    loop {
        room().await;
        while listing.len() + listed.len() < LISTED_AT_ONCE
            && let Some(folder) = waiting.pop()
        {
            let link = far.any()?;
            waiting_bytes -= cost(&folder).min(waiting_bytes);
            listing.push(async move {
                let path = below(root, folder.as_ref().map_or(&[][..], RelativePath::as_bytes));
                (link.list(&path, NAMES_MAX).await, folder)
            });
        }
        // Requests go out before a list is looked at, so that the server has work meanwhile.
        while let Some(Some(one)) = listing.next().now_or_never() {
            listed.push_back(one);
        }
        let (names, folder) = match listed.pop_front() {
            Some(one) => {
                let mut is_done = false;
                poll_fn(|context| {
                    if replace(&mut is_done, true) {
                        return Poll::Ready(());
                    }
                    context.waker().wake_by_ref();
                    Poll::Pending
                })
                .await;
                one
            }
            None => match listing.next().await {
                Some(one) => one,
                None => return Ok(()),
            },
        };
        let names = match names {
            Ok(Some(names)) => names,
            Ok(None) => {
                each(Sight::TooMany(folder))?;
                continue;
            }
            Err(Fault::Lost) => return Err(far.lost()),
            Err(fault) => {
                each(Sight::Failed(folder, fault))?;
                continue;
            }
        };
        if names.is_empty() {
            each(Sight::Empty(folder))?;
            continue;
        }
        let (mut inner, mut inner_bytes) = (Vec::new(), 0);
        for (index, found) in names.into_iter().enumerate() {
            if index % NAMES_AT_ONCE == NAMES_AT_ONCE - 1 {
                room().await;
            }
            let within = folder.as_ref().map_or(&[][..], RelativePath::as_bytes);
            let Ok(path) = RelativePath::within(within, &found.name) else {
                each(Sight::Unfit(folder.clone(), found.name))?;
                continue;
            };
            let is_folder = found.attributes.kind() == FileKind::Directory;
            let inside = is_folder.then(|| path.clone());
            if each(Sight::Entry(path, found.attributes))? && inside.is_some() {
                let path = inside;
                inner_bytes += cost(&path);
                inner.push(path);
            }
        }
        if waiting.len() + inner.len() > NAMES_MAX || waiting_bytes + inner_bytes > WAITING_BYTES_MAX {
            each(Sight::TooMany(folder))?;
            continue;
        }
        // The order is that of the listing, starting with the first.
        waiting_bytes += inner_bytes;
        waiting.extend(inner.into_iter().rev());
    }
}

/// The part of a far target that a sender must know.
pub(super) struct Survey<'a> {
    pub(super) far: &'a Far,
    pub(super) root: &'a [u8],
    pub(super) permit: &'a Permit,
    /// Owners that are kept are compared.
    pub(super) wishes: &'a Wishes,
    /// Sources whose content is compared with files of the same size.
    pub(super) checksum: Option<&'a Source>,
    /// The sender's folders, if files are compared with those in them.
    pub(super) own: Option<&'a Folders>,
}

impl Survey<'_> {
    /// Examines every file that sent entries may replace, and notes unfinished ones.
    pub(super) async fn possessions(&self, remains: &mut Remains) -> Result<Possessions, Error> {
        let Wishes { skip_same, update, upkeep: Upkeep { sameness, existing, .. }, .. } = *self.wishes;
        let mut kept = Possessions { whole_seconds: true, sameness, ..Possessions::default() };
        // All names count.
        let existing = existing.matters();
        if !skip_same && !update && !existing && self.checksum.is_none() {
            return Ok(kept);
        }
        let mut folders = Vec::new();
        let mut files = Vec::new();
        match self.permit.names() {
            Some(names) => {
                let mut paths: Vec<_> = names.filter_map(|name| RelativePath::new(name).ok()).collect();
                if existing {
                    let above =
                        |path: &RelativePath| std::iter::successors(path.parent(), RelativePath::parent);
                    let above: HashSet<_> = paths.iter().flat_map(above).collect();
                    paths.extend(above);
                }
                let mut looks: FuturesUnordered<_> = FuturesUnordered::new();
                for path in paths {
                    let link = self.far.any()?;
                    looks.push(async move {
                        let found = link.lstat(&below(self.root, path.as_bytes())).await;
                        (path, found)
                    });
                }
                while let Some((path, found)) = looks.next().await {
                    match found {
                        Ok(Some(found))
                            if found.kind() == FileKind::Directory && self.permit.is_recursive() =>
                        {
                            self.keep(path.clone(), &found, &mut kept, &mut files);
                            folders.push(Some(path));
                        }
                        Ok(Some(found)) => {
                            remains.looked_at(&path, found.kind());
                            self.keep(path, &found, &mut kept, &mut files);
                        }
                        Err(Fault::Lost) => return Err(self.far.lost()),
                        // A file that is missing or cannot be examined is sent.
                        Ok(None) | Err(Fault::Said(_)) => {}
                    }
                }
            }
            None if self.permit.is_recursive() => folders.push(None),
            None => {}
        }
        let mut comparison = self.own.map(|own| Comparison::new(own, self.wishes));
        descend(
            self.far,
            self.root,
            folders,
            |sight| {
                let Sight::Entry(path, found) = sight else { return Ok(false) };
                remains.saw(&path, found.kind());
                let remembered = match &mut comparison {
                    Some(comparison) => {
                        comparison.take(&path, &found);
                        comparison.remembered()
                    }
                    None => {
                        self.keep(path, &found, &mut kept, &mut files);
                        kept.done.len() + kept.dated.len() + files.len()
                    }
                };
                // Files beyond the bound are sent again.
                Ok(remembered < POSSESSIONS_MAX)
            },
            || false,
        )
        .await?;
        if let Some(comparison) = comparison {
            let (equal, rest) = comparison.end();
            kept.equal = equal;
            kept.done.extend(rest.into_iter().map(|held| (held.identity, held.attributes)));
        }
        if existing && kept.done.len() + kept.dated.len() + files.len() >= POSSESSIONS_MAX {
            let message =
                "--existing and --ignore-existing: there are too many files at the target to remember them";
            return Err(Error::new(ErrorKind::Refused, message));
        }
        if let Some(source) = self.checksum {
            self.read_back(source, files, &mut kept).await?;
        }
        Ok(kept)
    }

    /// Adds a file by its size and time, or to the files whose content is read.
    fn keep(
        &self,
        path: RelativePath,
        found: &Attributes,
        kept: &mut Possessions,
        files: &mut Vec<(RelativePath, Attributes)>,
    ) {
        let knowing = Knowing { whole_seconds: true, ..Knowing::of(self.wishes) };
        let note = |Dated { path, modified }| (path, modified);
        kept.dated.extend(self.wishes.upkeep.existing.matters().then(|| note(named(&path))));
        if found.kind() != FileKind::File {
            return;
        }
        let there = metadata(found);
        kept.dated.extend(knowing.dated(&path, &there).map(note));
        if self.checksum.is_some() {
            files.push((path, *found));
        } else if self.wishes.skip_same {
            let Held { identity, attributes } = knowing.held(&path, &there);
            kept.done.insert(identity, attributes);
        }
    }

    /// Reads files that may have the same content as their sources, judged by their lengths.
    async fn read_back(
        &self,
        source: &Source,
        files: Vec<(RelativePath, Attributes)>,
        kept: &mut Possessions,
    ) -> Result<(), Error> {
        let mut reader = source.reader();
        let mut files = files.into_iter().filter_map(|(path, found)| {
            let size_bytes = found.size_bytes?;
            let roots = u32::try_from(source.roots().len()).unwrap_or(u32::MAX);
            let mut opened = (0..roots).filter_map(|root| reader.open(root, &path).ok());
            let own = opened.find(|open| open.metadata().size_bytes == size_bytes)?;
            Some((path, size_bytes, found, own))
        });
        let mut reading = FuturesUnordered::new();
        loop {
            while reading.len() < READ_AT_ONCE
                && let Some((path, size_bytes, found, own)) = files.next()
            {
                let link = self.far.any()?;
                reading.push(async move {
                    let at = below(self.root, path.as_bytes());
                    let digest = match self.far.sum(&at, size_bytes).await {
                        Some(sum) => Ok(sum.matching(&own, size_bytes, || self.far.is_cancelled())),
                        None => digest(&link, &at, size_bytes).await,
                    };
                    (path, size_bytes, found, digest)
                });
            }
            match reading.next().await {
                Some((path, size_bytes, found, Ok(Some(digest)))) => {
                    let there = attributes(&metadata(&found), true, self.wishes.preserve.owner.is_wanted());
                    kept.done.insert(content_identity(&path, size_bytes, &digest), there);
                }
                Some((_, _, _, Err(Fault::Lost))) => return Err(self.far.lost()),
                Some(_) => {}
                None => return Ok(()),
            }
        }
    }
}

/// Returns the BLAKE3 digest of a far file; `None` if its length differs.
pub(super) async fn digest(link: &Link, path: &[u8], size_bytes: u64) -> Result<Option<[u8; 32]>, Fault> {
    let mut hasher = blake3::Hasher::new();
    let is_whole = read(link, path, 0..size_bytes, |bytes| {
        hasher.update(bytes);
    })
    .await?;
    Ok(is_whole.then(|| *hasher.finalize().as_bytes()))
}

/// Passes a range of a far file to `each`, in order. Returns whether all of it is there.
pub(super) async fn read(
    link: &Link,
    path: &[u8],
    range: Range<u64>,
    mut each: impl FnMut(&[u8]),
) -> Result<bool, Fault> {
    /// The number of simultaneous reads of one file.
    const READS: usize = 4;
    let _leave = link.leave().await;
    let handle = link.open(path, Access::Read).await?;
    let most = u64::from(link.limits().read_bytes);
    let mut pending = VecDeque::new();
    let (mut asked, mut done) = (range.start, range.start);
    let mut outcome = Ok(());
    while outcome.is_ok() && (asked < range.end || !pending.is_empty()) {
        while asked < range.end && pending.len() < READS {
            let length = most.min(range.end - asked);
            pending.push_back((link.begin(&read_request(&handle, asked, length)), length));
            asked += length;
        }
        let Some((reply, length)) = pending.pop_front() else { break };
        match reply.reply().await {
            Ok(Reply::Data(data)) if data.len() as u64 == length => {
                each(&data);
                done += length;
                link.recycle(data.into_buffer());
            }
            // The file became shorter, or the server returns less than it accepts: it is not compared.
            Ok(_) => break,
            Err(fault) => outcome = Err(fault),
        }
    }
    link.act(&Request::Close { handle: &handle }).await.ok();
    outcome?;
    Ok(done == range.end)
}

pub(super) fn read_request(handle: &Handle, offset: u64, length: u64) -> Request<'_> {
    Request::Read { handle, offset, length_bytes: u32::try_from(length).unwrap_or(u32::MAX) }
}
