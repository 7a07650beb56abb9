//! A pull from a far host that has only an SFTP server.
//!
//! Guarantees: names come from the far host and are checked like those of any sender; every entry found is copied,
//! skipped or reported; nothing is deleted if any entry could not be read.

mod prune;

use std::{
    cell::{Cell, RefCell},
    collections::{HashSet, VecDeque},
    future::poll_fn,
    pin::pin,
    rc::Rc,
    sync::atomic::Ordering::Relaxed,
    task::{Context, Poll},
};

use crossbeam_channel::{Sender, bounded};
use futures_util::{
    Stream,
    future::{Either, LocalBoxFuture, select},
    stream::FuturesUnordered,
};
use sealane_sftp::{Attributes, FileKind, Request};
use sealane_tree::{
    Changes, EntryType, Existing, Filter, Following, Kind, LinkTarget, Metadata, RelativePath, Target,
    TempName, Timestamp, Writer,
};

use crate::{
    content,
    error::Error,
    journal, names,
    options::Preserve,
    proto::{
        entry::{Entry, listed_hash, path_hash},
        message::Finished,
    },
    receive::{
        apply::Applier,
        files::{Files, Preview},
        lane::Receiving,
        prune::{KNOWN_MAX, Prune, Pruned},
    },
    send::removal::Removed,
    sftp::{
        far::{Far, Trouble},
        get::{Found, Get},
        link::Fault,
        place::below,
        push::plan,
        put::metadata,
        report,
        roots::{self, Root, Wanted, text},
        survey::{self, Sight, descend},
        tell_agreement,
        texts::text_of_link,
        told,
    },
    summary::{Notice, Observer},
    transfer::{
        NOTICES_MAX, Transfer, claims,
        ends::{self, Plan},
        far_place::far_path,
        filters::filter,
        leftovers,
        outcome::{Outcome, Report, completion},
        receiving::{Opened, finish_folders, give_up},
        terms::processors,
    },
};

/// The maximum number of files in flight.
const FILES_MAX: usize = 256;
/// The maximum number of entries that wait to be fetched.
const WAITING_MAX: usize = 8192;

/// The maximum number of remembered folders that the source lists as empty.
const EMPTY_MAX: usize = 1 << 16;

/// Fetches everything from a far host.
pub(super) fn run(
    transfer: &Transfer<'_>,
    far: &Rc<Far>,
    observer: &mut dyn Observer,
) -> Result<Report, Error> {
    let options = transfer.options;
    let place = transfer.own_place()?;
    let paths: Vec<_> = transfer.sources.iter().map(far_path).collect();
    let name = place.as_ref().and_then(|place| place.name.clone());
    let wanted = Wanted {
        paths: &paths,
        name: name.as_deref().filter(|_| options.listed.is_none()),
        following: options.wishes.following,
        globs: transfer.has_globs(),
    };
    let (roots, missing) = far.reactor.run(roots::find(far, &wanted))?;
    let mut plan = plan(transfer);
    plan.wishes.preserve.owner = options.wishes.preserve.owner.where_it(sealane_tree::may_give_away());
    // The server knows its users by number.
    let preserve = Preserve { numeric_ids: true, ..plan.wishes.preserve.clone() };
    let changes = names::changes(&preserve, &names::told(&[0; 16]), &[0; 16])?;
    let (notices, pending) = bounded(NOTICES_MAX);
    let side = transfer.receiving_side(&plan, place, notices.clone())?;
    let Opened { mut receiving, prune, present, .. } = side.open(transfer.progress.clone())?;
    claims::keep_unaltered(&mut receiving.files, options.wishes.trust_partial);
    let resumed: u64 =
        receiving.files.resumable.partial.values().map(|partial| partial.ledger.covered_bytes()).sum();
    tell_agreement(transfer, &plan.wishes.preserve, resumed, observer);
    let outcome = told(&pending, observer, || {
        let pull = Pull {
            transfer,
            far,
            files: &receiving.files,
            with_owner: plan.wishes.preserve.owner.is_wanted(),
            changes,
            filter: filter(&options.wishes.patterns)?,
            present: RefCell::new(present.as_ref().map(Target::writer)),
            preview: RefCell::new(receiving.files.preview()),
            replaced: RefCell::default(),
            notices: notices.clone(),
            known: RefCell::default(),
            empty: RefCell::default(),
            waiting: RefCell::default(),
            is_scanned: Cell::new(false),
            counts: Counts::default(),
        };
        for (path, error) in missing {
            pull.failed(&path, error.message);
        }
        pull.run(&plan, &receiving, &roots, prune)
    });
    let (counts, pruned) = outcome.inspect_err(|error| give_up(&receiving, error))?;
    let complete = completion(&receiving.files, pruned);
    let finished = Finished {
        bytes: complete.bytes,
        files: complete.files,
        skipped: counts.skipped.get(),
        failed: counts.failed.get(),
        resumed_bytes: resumed,
        ..Finished::default()
    };
    let outcome = Outcome { finished, complete, removed: Removed::default() };
    Ok(report(far, plan.wishes.preserve.owner, outcome))
}

/// Counts for the summary.
#[derive(Default)]
struct Counts {
    skipped: Cell<u64>,
    failed: Cell<u64>,
    /// Failed entries that no repetition could copy.
    unfit: Cell<u64>,
}

fn count(counter: &Cell<u64>, by: u64) {
    counter.set(counter.get() + by);
}

/// An entry that was found and must be fetched.
enum Candidate {
    File(Found),
    Symlink(Found),
}

/// The part of a file that the target has already.
enum Held {
    Nothing,
    /// All of its content, though its attributes may differ.
    Content,
    /// A newer file, which must stay.
    Newer,
}

struct Pull<'a> {
    transfer: &'a Transfer<'a>,
    far: &'a Rc<Far>,
    files: &'a Files,
    with_owner: bool,
    changes: Changes,
    filter: Filter,
    /// The target for examinations before an entry is fetched.
    present: RefCell<Option<Writer>>,
    /// In a dry run, the target to compare with.
    preview: RefCell<Option<Preview>>,
    /// In a dry run, the names of entries that would be replaced by entries of other kinds.
    replaced: RefCell<Vec<RelativePath>>,
    notices: Sender<Notice>,
    /// Hashes of the names that the source has, if other entries are to be deleted.
    known: RefCell<Vec<[u8; 16]>>,
    /// Folders whose lists had no names, by their names in the target; `None` stands for the target itself.
    empty: RefCell<Vec<Option<RelativePath>>>,
    waiting: RefCell<VecDeque<Candidate>>,
    is_scanned: Cell<bool>,
    counts: Counts,
}

impl Pull<'_> {
    fn run(
        self,
        plan: &Plan,
        receiving: &Receiving,
        roots: &[Root],
        prune: Option<Prune>,
    ) -> Result<(Counts, Pruned), Error> {
        let get = Get {
            far: self.far,
            files: self.files,
            applier: RefCell::new(Applier::new(self.files, &receiving.stop)),
            next_file: Cell::new(0),
            limiter: ends::limiter(plan, plan.wishes.limit_rate),
        };
        let _ = receiving.first_byte.set(std::time::Instant::now());
        self.far.reactor.run(async {
            let grow = pin!(async {
                self.far.grow(self.transfer.options.streams, processors()).await;
                std::future::pending::<()>().await;
            });
            let work = pin!(async {
                let scan = pin!(self.scan(&get, roots));
                let fetch = pin!(self.fetch(&get));
                futures_util::future::try_join(scan, fetch).await.map(drop)
            });
            match select(work, grow).await {
                Either::Left((done, _)) => done,
                Either::Right(_) => Ok(()),
            }
        })?;
        let pruned = self.settle(prune)?;
        Ok((self.counts, pruned))
    }

    fn notice(&self, notice: Notice) {
        // The receiver of notices is gone only when the transfer is over.
        let _ = self.notices.send(notice);
    }

    fn failed(&self, path: &[u8], reason: String) {
        count(&self.counts.failed, 1);
        self.notice(Notice::EntryFailed { path: path.to_vec(), reason });
    }

    fn unfit(&self, path: &[u8], reason: String) {
        count(&self.counts.unfit, 1);
        self.failed(path, reason);
    }

    fn knows(&self, hash: [u8; 16]) {
        let mut known = self.known.borrow_mut();
        // With one hash too many nothing is deleted.
        if self.transfer.options.wishes.upkeep.delete.is_some() && known.len() <= KNOWN_MAX {
            known.push(hash);
        }
    }

    /// Finds all entries to fetch; folders are made at once.
    async fn scan(&self, get: &Get<'_>, roots: &[Root]) -> Result<(), Error> {
        for root in roots {
            match &self.transfer.options.listed {
                Some(listed) => self.scan_list(get, root, listed).await?,
                None => self.scan_root(get, root).await?,
            }
        }
        self.is_scanned.set(true);
        self.transfer.progress.scan_complete.store(true, Relaxed);
        Ok(())
    }

    async fn scan_root(&self, get: &Get<'_>, root: &Root) -> Result<(), Error> {
        let is_folder = root.attributes.kind() == FileKind::Directory;
        let Some(name) = &root.name else {
            if !self.transfer.options.wishes.recursive {
                self.unfit(
                    &root.shown,
                    format!("{} is a folder and is skipped; -r copies it", text(&root.shown)),
                );
                return Ok(());
            }
            self.knows(listed_hash(b""));
            return self.scan_below(get, root, None).await;
        };
        if !is_folder && !self.filter.includes(name.file_name(), false) {
            return Ok(());
        }
        if is_folder && !self.transfer.options.wishes.recursive {
            self.unfit(
                &root.shown,
                format!("{} is a folder and is skipped; -r copies it", text(&root.shown)),
            );
            return Ok(());
        }
        let found = self.found(root, None, name.clone(), &root.attributes);
        if self.entry(get, found, &root.attributes)? {
            self.scan_below(get, root, None).await?;
        }
        Ok(())
    }

    /// Finds only the listed paths, and the folders that contain them.
    async fn scan_list(&self, get: &Get<'_>, root: &Root, listed: &[RelativePath]) -> Result<(), Error> {
        let mut paths = listed.to_vec();
        paths.sort_by(|one, other| one.components().cmp(other.components()));
        paths.dedup();
        let mut made = HashSet::new();
        let mut walked: Option<RelativePath> = None;
        for path in paths {
            if walked.as_ref().is_some_and(|walked| path.starts_with(walked)) {
                continue;
            }
            let mut above: Vec<_> = std::iter::successors(path.parent(), RelativePath::parent).collect();
            above.reverse();
            if above.iter().any(|folder| !self.filter.includes(folder.as_bytes(), true)) {
                continue;
            }
            above.retain(|folder| made.insert(folder.clone()));
            for (path, is_whole) in above.into_iter().map(|folder| (folder, false)).chain([(path, true)]) {
                let link = self.far.any()?;
                let at = below(&root.path, path.as_bytes());
                let shown = self.shown(root, Some(&path));
                let looked = match self.transfer.options.wishes.following {
                    Following::Everywhere => link.stat(&at).await,
                    _ => link.lstat(&at).await,
                };
                let attributes = match looked {
                    Ok(Some(attributes)) => attributes,
                    Ok(None) => {
                        self.failed(&shown, format!("{} is not there", text(&shown)));
                        continue;
                    }
                    Err(fault) => {
                        let error = self.far.error(&link, &text(&shown), fault);
                        self.failed(&shown, error.message);
                        continue;
                    }
                };
                let is_folder = attributes.kind() == FileKind::Directory;
                if is_whole && !self.filter.includes(path.as_bytes(), is_folder) {
                    continue;
                }
                let found = self.found(root, Some(&path), path.clone(), &attributes);
                let is_entered = self.entry(get, found, &attributes)?;
                if is_entered && is_whole && self.transfer.options.wishes.recursive {
                    walked = Some(path.clone());
                    self.scan_below(get, root, Some(path)).await?;
                }
            }
        }
        Ok(())
    }

    /// Walks the contents of a folder; `within` is the folder's path below the root.
    async fn scan_below(
        &self,
        get: &Get<'_>,
        root: &Root,
        within: Option<RelativePath>,
    ) -> Result<(), Error> {
        let follows = self.transfer.options.wishes.following == Following::Everywhere;
        let mut links = Vec::new();
        let mut folders = vec![within];
        while !folders.is_empty() {
            descend(
                self.far,
                &root.path,
                std::mem::take(&mut folders),
                |sight| match sight {
                    Sight::Entry(path, attributes) => {
                        if follows && attributes.kind() == FileKind::Symlink {
                            links.push(path);
                            return Ok(false);
                        }
                        self.sighted(get, root, path, &attributes)
                    }
                    Sight::Empty(folder) => {
                        self.is_empty(root, folder);
                        Ok(false)
                    }
                    Sight::Failed(folder, fault) => {
                        let shown = self.shown(root, folder.as_ref());
                        let code = fault.code().map_or_else(String::new, |code| code.to_string());
                        self.failed(
                            &shown,
                            format!("cannot list {}: {} says: {code}", text(&shown), self.far.host),
                        );
                        Ok(false)
                    }
                    Sight::Unfit(folder, name) => {
                        let shown = self.shown(root, folder.as_ref());
                        self.failed(
                            &shown,
                            format!("{}: the name {:?} in it cannot be one", text(&shown), text(&name)),
                        );
                        Ok(false)
                    }
                    Sight::TooMany(folder) => {
                        let shown = self.shown(root, folder.as_ref());
                        self.failed(&shown, format!("{}: there are too many names in it", text(&shown)));
                        Ok(false)
                    }
                },
                || self.waiting.borrow().len() >= WAITING_MAX,
            )
            .await?;
            for path in links.drain(..) {
                let link = self.far.any()?;
                let shown = self.shown(root, Some(&path));
                match link.stat(&below(&root.path, path.as_bytes())).await {
                    Ok(Some(attributes)) => {
                        if self.sighted(get, root, path.clone(), &attributes)? {
                            folders.push(Some(path));
                        }
                    }
                    Ok(None) => self.failed(&shown, format!("{} leads nowhere", text(&shown))),
                    Err(fault) => {
                        let error = self.far.error(&link, &text(&shown), fault);
                        self.failed(&shown, error.message);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns an entry of a folder. Returns whether the entry is entered.
    fn sighted(
        &self,
        get: &Get<'_>,
        root: &Root,
        path: RelativePath,
        attributes: &Attributes,
    ) -> Result<bool, Error> {
        let is_folder = attributes.kind() == FileKind::Directory;
        if !self.filter.includes(path.as_bytes(), is_folder) {
            return Ok(false);
        }
        let shown = self.shown(root, Some(&path));
        let Some(name) = self.name(root, &path) else {
            self.failed(&shown, format!("{}: the path is too long", text(&shown)));
            return Ok(false);
        };
        if !is_folder && (TempName::matches(name.file_name()) || journal::is_file_name(name.file_name())) {
            self.unfit(&shown, format!("{} is of an unfinished copy, and is not copied", text(&shown)));
            return Ok(false);
        }
        let found = self.found(root, Some(&path), name, attributes);
        self.entry(get, found, attributes)
    }

    /// Returns the name in the target of what lies below a root; `None` if the path is too long.
    fn name(&self, root: &Root, path: &RelativePath) -> Option<RelativePath> {
        match &root.name {
            Some(name) if self.transfer.options.listed.is_none() => name.join(path).ok(),
            _ => Some(path.clone()),
        }
    }

    /// Remembers a folder whose list had no names.
    fn is_empty(&self, root: &Root, folder: Option<RelativePath>) {
        let mut empty = self.empty.borrow_mut();
        // With one too many nothing is deleted.
        if self.transfer.options.wishes.upkeep.delete.is_some() && empty.len() <= EMPTY_MAX {
            empty.push(match folder {
                Some(folder) => self.name(root, &folder),
                None => root.name.clone(),
            });
        }
    }

    fn shown(&self, root: &Root, path: Option<&RelativePath>) -> Vec<u8> {
        path.map_or_else(|| root.shown.clone(), |path| below(&root.shown, path.as_bytes()))
    }

    fn found(
        &self,
        root: &Root,
        path: Option<&RelativePath>,
        name: RelativePath,
        attributes: &Attributes,
    ) -> Found {
        let mut metadata = metadata(attributes);
        if attributes.kind() != FileKind::File {
            metadata.size_bytes = 0;
        }
        if !self.with_owner {
            metadata.owner = None;
        }
        let entry_type = match attributes.kind() {
            FileKind::File => EntryType::File,
            FileKind::Directory => EntryType::Directory,
            FileKind::Symlink => EntryType::Symlink,
            FileKind::Other => EntryType::Other,
        };
        self.changes.apply(entry_type, &mut metadata);
        let at = path.map_or_else(|| root.path.clone(), |path| below(&root.path, path.as_bytes()));
        let text_bytes = attributes.size_bytes.filter(|_| attributes.kind() == FileKind::Symlink);
        Found { at, shown: text(&self.shown(root, path)), path: name, metadata, text_bytes }
    }

    /// Handles an entry. Returns whether the contents of the entry must be examined.
    fn entry(&self, get: &Get<'_>, found: Found, attributes: &Attributes) -> Result<bool, Error> {
        let progress = self.transfer.progress;
        progress.files_found.fetch_add(1, Relaxed);
        progress.files_measured.fetch_add(1, Relaxed);
        self.knows(path_hash(&found.path));
        let kind = attributes.kind();
        if self.passes_over(&found.path, kind) {
            count(&self.counts.skipped, 1);
            progress.files_done.fetch_add(1, Relaxed);
            return Ok(false);
        }
        match kind {
            FileKind::Directory => {
                self.knows(listed_hash(found.path.as_bytes()));
                let entry = self.bare(&found, Kind::Directory);
                match self.whole(get, &entry) {
                    Ok(()) => Ok(true),
                    Err(Trouble::Fatal(error)) => Err(error),
                    Err(Trouble::Entry(reason)) => {
                        self.failed(entry.path.as_bytes(), reason);
                        Ok(false)
                    }
                    Err(Trouble::Lost) => Err(self.far.lost()),
                }
            }
            FileKind::File if attributes.size_bytes.is_none() => {
                self.unfit(
                    found.shown.as_bytes(),
                    format!("{}: {} does not tell its size", found.shown, self.far.host),
                );
                Ok(false)
            }
            FileKind::File if !self.transfer.options.wishes.sizes.include(found.metadata.size_bytes) => {
                count(&self.counts.skipped, 1);
                progress.files_done.fetch_add(1, Relaxed);
                Ok(false)
            }
            FileKind::File => {
                self.waiting.borrow_mut().push_back(Candidate::File(found));
                Ok(false)
            }
            FileKind::Symlink => {
                self.waiting.borrow_mut().push_back(Candidate::Symlink(found));
                Ok(false)
            }
            FileKind::Other => {
                self.unfit(
                    found.shown.as_bytes(),
                    format!("{}: it is a device, pipe or socket", found.shown),
                );
                Ok(false)
            }
        }
    }

    /// Returns whether two times count as the same, one of which a server tells in whole seconds.
    fn has_time(&self, one: Timestamp, other: Timestamp) -> bool {
        let whole = |time: Timestamp| Timestamp { nanoseconds: 0, ..time };
        self.transfer.options.wishes.upkeep.sameness.has(whole(one), whole(other))
    }

    /// Returns what has a name in the target, if that is examined.
    fn there(&self, path: &RelativePath) -> Option<Existing> {
        self.present.borrow_mut().as_mut()?.existing(path).ok()?
    }

    /// Returns whether nothing is made of an entry because of what has its name, or has not.
    fn passes_over(&self, path: &RelativePath, kind: FileKind) -> bool {
        let existing = self.transfer.options.wishes.upkeep.existing;
        if !existing.matters() {
            return false;
        }
        let there = self.there(path).map(|there| there.entry_type);
        let are_folders = kind == FileKind::Directory && there == Some(EntryType::Directory);
        existing.passes_over(there.is_some(), are_folders)
    }

    /// Returns an entry without content. If the target's time is the same in whole seconds, which is the server's
    /// precision, it is kept.
    fn bare(&self, found: &Found, kind: Kind) -> Entry {
        let (path, mut metadata) = (found.path.clone(), found.metadata.clone());
        let there = self.there(&path);
        let sameness = self.transfer.options.wishes.upkeep.sameness;
        let is_kept = |there: Timestamp| {
            !sameness.is_apart_from_time() && self.has_time(there, metadata.modified)
                || there.seconds == metadata.modified.seconds
        };
        if let Some(there) = there.filter(|there| is_kept(there.metadata.modified)) {
            metadata.modified = there.metadata.modified;
        }
        Entry { path, kind, metadata, digest: None }
    }

    /// Makes an entry without content, or reports the change that it would cause.
    fn whole(&self, get: &Get<'_>, entry: &Entry) -> Result<(), Trouble> {
        match self.foretell(entry).map_err(Trouble::Fatal)? {
            true => Ok(()),
            false => get.whole(entry, &[]),
        }
    }

    /// In a dry run, reports the change that an entry would cause, if any. Returns whether this is a dry run.
    fn foretell(&self, entry: &Entry) -> Result<bool, Error> {
        let mut preview = self.preview.borrow_mut();
        let Some(preview) = preview.as_mut() else { return Ok(false) };
        if let Some(change) = preview.look(self.files, entry)? {
            if change.differences.gives_way {
                self.replaced.borrow_mut().push(entry.path.clone());
            }
            self.notice(Notice::WouldSend { change, bytes: entry.content_bytes() });
        }
        Ok(true)
    }

    /// Fetches the entries found until none is left.
    async fn fetch(&self, get: &Get<'_>) -> Result<(), Error> {
        let mut work: FuturesUnordered<LocalBoxFuture<'_, Result<(), Error>>> = FuturesUnordered::new();
        poll_fn(|context: &mut Context<'_>| {
            loop {
                while work.len() < FILES_MAX {
                    let Some(candidate) = self.waiting.borrow_mut().pop_front() else { break };
                    work.push(Box::pin(self.one(get, candidate)));
                }
                match pin!(&mut work).poll_next(context) {
                    Poll::Ready(Some(Ok(()))) => {}
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                    Poll::Ready(None) if self.is_scanned.get() && self.waiting.borrow().is_empty() => {
                        return Poll::Ready(Ok(()));
                    }
                    Poll::Ready(None) | Poll::Pending => return Poll::Pending,
                }
            }
        })
        .await
    }

    async fn one(&self, get: &Get<'_>, candidate: Candidate) -> Result<(), Error> {
        let (found, outcome) = match candidate {
            Candidate::File(found) => {
                let outcome = match self.held(&found).await? {
                    Held::Newer => {
                        count(&self.counts.skipped, 1);
                        self.transfer.progress.files_done.fetch_add(1, Relaxed);
                        Ok(())
                    }
                    Held::Content => self.whole(get, &self.bare(&found, Kind::Attributes)),
                    Held::Nothing if self.foretell(&get.entry(&found))? => Ok(()),
                    Held::Nothing => {
                        let size_bytes = found.metadata.size_bytes;
                        if size_bytes <= super::get::SMALL_FILE_BYTES {
                            self.transfer.progress.bytes_found.fetch_add(size_bytes, Relaxed);
                        }
                        get.file(&found).await
                    }
                };
                (found, outcome)
            }
            Candidate::Symlink(found) => {
                let outcome = self.symlink(get, &found).await;
                (found, outcome)
            }
        };
        match outcome {
            Ok(()) => Ok(()),
            Err(Trouble::Fatal(error)) => Err(error),
            Err(Trouble::Lost) => Err(self.far.lost()),
            Err(Trouble::Entry(reason)) => {
                let is_named = reason.starts_with(&*found.shown);
                let reason = if is_named { reason } else { format!("{}: {reason}", found.shown) };
                self.failed(found.shown.as_bytes(), reason);
                Ok(())
            }
        }
    }

    async fn symlink(&self, get: &Get<'_>, found: &Found) -> Result<(), Trouble> {
        let link = self.far.any().map_err(Trouble::Fatal)?;
        let target = match link.path_of(&Request::ReadLink { path: &found.at }).await {
            Ok(target) => target,
            Err(fault) => return Err(self.far.trouble(&link, b".", "read it", &found.shown, fault).await),
        };
        let target = match found.text_bytes {
            Some(bytes) if bytes > 0 && bytes != target.len() as u64 => {
                text_of_link(self.far, &link, (&found.at, &found.shown), &target, bytes).await?
            }
            _ => target,
        };
        let target = LinkTarget::new(target)
            .ok_or_else(|| Trouble::Entry(format!("{}: where it points is no path", found.shown)))?;
        self.whole(get, &self.bare(found, Kind::Symlink { target }))
    }

    /// Returns the part of a file that the target has already.
    async fn held(&self, found: &Found) -> Result<Held, Error> {
        let options = self.transfer.options;
        let Metadata { size_bytes, modified, .. } = found.metadata;
        let Some(there) = self.there(&found.path).filter(|there| there.entry_type == EntryType::File) else {
            return Ok(Held::Nothing);
        };
        if options.wishes.update && there.metadata.modified.seconds > modified.seconds {
            return Ok(Held::Newer);
        }
        let is_held = match options.wishes.upkeep.checksum {
            _ if there.metadata.size_bytes != size_bytes => false,
            true => self.has_content(found).await?,
            false => options.wishes.skip_same && self.has_time(there.metadata.modified, modified),
        };
        Ok(if is_held { Held::Content } else { Held::Nothing })
    }

    async fn has_content(&self, found: &Found) -> Result<bool, Error> {
        let size_bytes = found.metadata.size_bytes;
        let opened =
            self.present.borrow_mut().as_mut().and_then(|writer| writer.read_existing(&found.path).ok());
        let is_over = || self.transfer.progress.cancel.load(Relaxed);
        let Some(file) = opened else { return Ok(false) };
        if let Some(sum) = self.far.sum(&found.at, size_bytes).await {
            return Ok(sum.matching(&file, size_bytes, is_over).is_some());
        }
        let Some(own) = content::digest(&file, size_bytes, is_over) else { return Ok(false) };
        let link = self.far.any()?;
        match survey::digest(&link, &found.at, size_bytes).await {
            Ok(digest) => Ok(digest == Some(own)),
            Err(Fault::Lost) => Err(self.far.lost()),
            Err(Fault::Said(_)) => Ok(false),
        }
    }

    /// Everything has arrived: deletes entries that the source does not have, and gives folders their modes and
    /// times.
    fn settle(&self, prune: Option<Prune>) -> Result<Pruned, Error> {
        let counts = &self.counts;
        let is_complete =
            counts.failed.get() == counts.unfit.get() && self.files.counters.failed.load(Relaxed) == 0;
        if is_complete {
            self.files.discard_abandoned();
            leftovers::settle(self.files);
        }
        let pruned = prune.map(|prune| self.prune(prune)).transpose()?.unwrap_or_default();
        finish_folders(self.files, || Ok(()))?;
        if let (Some(journal), true) = (&self.files.journal, is_complete) {
            journal.remove().map_err(|error| Error::io("cannot remove the journal", &error))?;
        }
        Ok(pruned)
    }
}
