//! A push to a far host that has only an SFTP server.
//!
//! Guarantees: every queued entry is put in place or reported, whichever connection it took; folders get their modes
//! and times, and sources are removed, only after everything has arrived.

use std::{
    cell::Cell,
    future::poll_fn,
    os::fd::AsFd,
    pin::pin,
    rc::Rc,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Poll},
    thread,
    time::{Duration, Instant},
};

use crossbeam_channel::{bounded, never};
use futures_util::{
    FutureExt, Stream,
    future::{Either, FusedFuture, LocalBoxFuture, join, join3, select},
    stream::FuturesUnordered,
};
use sealane_engine::{Buffer, Inline, Suite};
use sealane_lanes::Placement;
use sealane_sftp::Extension;
use sealane_tree::WalkOptions;

use crate::{
    error::{Error, ErrorKind},
    journal::{Journal, State as JournalState, file_name, lease, lease_name},
    names,
    options::{Compression, Delta, Level, Ownership},
    proto::message::{Complete, Numbers},
    proto::record::DATA_BYTES_MAX,
    receive::{
        permit::Permit,
        prune::{self, KNOWN_MAX, Pruned},
    },
    send::{
        batch::{Builder, record_bytes_max},
        fill::{Filler, Possessions},
        lane::Sending,
        line::{Flushed, Settled},
        removal::{Removal, Removed},
        scan,
    },
    sftp::{
        compared,
        far::{Far, Trouble},
        link::{Link, UNDER_WAY_BYTES},
        place::{self, FarTarget},
        put::{Lease, Put, Rules},
        remains::Remains,
        report, resume,
        survey::Survey,
        tell_agreement, told,
    },
    shared::{self, Threads},
    summary::Observer,
    transfer::{
        NOTICES_MAX, Transfer,
        ends::{self, Plan},
        far_place::far_path,
        filters::walk_options,
        outcome::{Outcome, Report, conclusion},
        place as near, random,
        receiving::hold_journal,
        roles::is_standard_stream,
        sources::{announce, standard_input},
        terms::{Terms, processors},
    },
};

/// The number of records per batch, besides room for a closing record.
const BATCH_RECORDS: usize = 8;
/// The content of large files in one batch: four packets as OpenSSH's server takes them.
const CONTENT_BYTES: usize = 4 * 261_120;
/// The number of batches in flight on one connection: those of small files hold far fewer bytes than those of large
/// ones.
const BATCHES_MAX: usize = 16;
/// The number of entries that a dry run examines at once.
const LOOKS_MAX: usize = 256;
/// The longest interval between two checks of a dry run for new entries.
const FORETELLING_SLEEP: Duration = Duration::from_millis(100);

pub(super) fn terms(streams: u16) -> Terms {
    Terms {
        level: Level::Private,
        suite: Suite::Null,
        streams,
        streams_max: streams,
        lanes: 1,
        placement: Placement::Connection,
        compression: Compression::None,
        delta: Delta::Never,
    }
}

pub(super) fn plan(transfer: &Transfer<'_>) -> Plan {
    // Records are not sealed.
    let engine = Arc::new(Inline::new(transfer.options.implementations));
    Plan::of(transfer.options.wishes.clone(), terms(1), engine)
}

/// Sends everything to a far host.
pub(super) fn run(
    transfer: &Transfer<'_>,
    far: &Rc<Far>,
    observer: &mut dyn Observer,
) -> Result<Report, Error> {
    let options = transfer.options;
    let (place, key, owner) = target(transfer, far)?;
    let mut plan = plan(transfer);
    plan.wishes.preserve.owner = owner;
    let paths: Vec<_> = transfer.sources.iter().map(far_path).collect();
    let sought = transfer.sought(&paths, place.name.as_deref());
    let has_input = transfer.sources.iter().any(is_standard_stream);
    let sources = if has_input { near::no_sources() } else { near::sources(sought, None)? };
    let permit = transfer.permit(place.name.as_deref());
    if options.wishes.upkeep.delete.is_some() {
        prune::check(&permit)?;
    }
    plan.changes = Arc::new(names::changes(&plan.wishes.preserve, &Numbers::default(), &[0; 16])?);
    let walk = walk_options(&plan)?;
    if !options.wishes.dry_run {
        far.reactor.run(place.make(far))?;
    }
    let journal = journal(transfer, far, &place, key)?;
    let own = compared::is_enough(&plan.wishes).then(|| sources.source.folders(&walk)).flatten();
    let survey = Survey {
        far,
        root: &place.root,
        permit: &permit,
        wishes: &plan.wishes,
        checksum: options.wishes.upkeep.checksum.then_some(&sources.source),
        own: own.as_ref(),
    };
    transfer.progress.is_comparing.store(true, Relaxed);
    let (possessions, remains) = possessions(transfer, &place, &survey, journal.as_ref())?;
    drop(own);
    let claimed = possessions.partial.values().flatten();
    let resumed = claimed.map(|claim| claim.range.end - claim.range.start).sum();
    tell_agreement(transfer, &plan.wishes.preserve, resumed, observer);
    transfer.progress.is_comparing.store(false, Relaxed);
    let (notices, pending) = bounded(NOTICES_MAX);
    let sending = Arc::new(ends::sending(&plan, possessions, notices.clone(), transfer.progress.clone())?);
    if has_input {
        let input = standard_input(&sending.filling.queue, place.name.as_deref())?;
        match options.wishes.dry_run {
            true => sending.filling.preview.hand_on(input.announcement.entry.clone()),
            false => sending.filling.queue.push_file(input),
        }
    }
    let rules = Rules {
        dry_run: plan.wishes.dry_run,
        fsync: plan.wishes.fsync,
        update: plan.wishes.update,
        itemise: plan.wishes.upkeep.itemise,
        owner,
        folder_modes: plan.wishes.preserve.folder_modes,
        backups: ends::backups(&plan, place.name.as_deref()),
        key: journal.as_ref().map(|(journal, _)| resume::number(journal)),
        lease: key.filter(|_| journal.is_some()).map(|key| (lease_name(key), lease(permit.covers()))),
    };
    let first_temp = u64::from_le_bytes(random()?);
    let put = Put::new(far, (place.root, place.shown, place.name), rules, journal, notices, first_temp);
    let push = Push { transfer, far, sending: &sending, put: &put, remains, known: Cell::default() };
    let walk = (!has_input).then_some(walk);
    let (pruned, removed) = told(&pending, observer, || push.run_beside_scan(sources, walk, &permit))?;
    Ok(report(far, owner, push.outcome(pruned, removed)))
}

/// Returns the place of the copy, the key of its journal, and the owners that can be kept there.
fn target(transfer: &Transfer<'_>, far: &Far) -> Result<(FarTarget, Option<[u8; 16]>, Ownership), Error> {
    let options = transfer.options;
    if options.wishes.fsync && !far.any()?.has(Extension::Fsync) {
        let message = format!("--fsync: the SFTP server of {} cannot flush files to disk", far.host);
        return Err(Error::new(ErrorKind::Refused, message));
    }
    let asked = far_path(transfer.target);
    // A long path makes each look at the far host cost a round trip.
    let (host, sight, may_give) = far.reactor.run(async {
        Ok(join3(resume::host(far, transfer), place::look(far, &asked), far.may_give_files_away()).await)
    })?;
    let (host, sight) = (host?, sight?);
    let key = resume::journal_key(transfer, &host, &sight.resolved);
    let state_dir = options.remote.state_dir.as_deref();
    let began = key.zip(state_dir).is_some_and(|(key, folder)| folder.join(file_name(key)).exists());
    let place = sight.target(far, transfer.takes_several(), options.wishes.as_named, began)?;
    Ok((place, key, options.wishes.preserve.owner.where_it(may_give?)))
}

/// Opens the journal. Without a folder for it there is none, and interrupted large files are sent anew.
fn journal(
    transfer: &Transfer<'_>,
    far: &Far,
    place: &FarTarget,
    key: Option<[u8; 16]>,
) -> Result<Option<(Journal, JournalState)>, Error> {
    let state_dir = transfer.options.remote.state_dir.as_deref();
    let folder = state_dir.and_then(|folder| Some((folder, resume::state_folder(folder).ok()?)));
    let (Some(key), Some((folder, opened)), false) = (key, folder, transfer.options.wishes.dry_run) else {
        return Ok(None);
    };
    let (opened, mut state) = hold_journal(opened.as_fd(), key, folder, &[])?;
    far.reactor.run(resume::check_presence(far, place, &mut state))?;
    Ok(Some((opened, state)))
}

/// Returns what the target has already, and what other copies left there.
fn possessions(
    transfer: &Transfer<'_>,
    place: &FarTarget,
    survey: &Survey<'_>,
    journal: Option<&(Journal, JournalState)>,
) -> Result<(Possessions, Remains), Error> {
    let (far, reactor) = (survey.far, &survey.far.reactor);
    let resumed = journal.filter(|(journal, _)| journal.is_resumed());
    let mut remains = Remains::new(resumed.map(|(journal, _)| resume::number(journal)));
    let mut possessions = Possessions { whole_seconds: true, ..Possessions::default() };
    if !place.is_free {
        possessions = reactor.run(survey.possessions(&mut remains))?;
        if !transfer.options.wishes.dry_run {
            reactor.run(remains.clear(far, &place.root))?;
        }
    }
    if let Some((_, state)) = journal {
        possessions.partial = reactor.run(resume::claims(far, place, state, transfer))?.into_iter().collect();
    }
    Ok((possessions, remains))
}

/// Passes on the entries found by the scan that a dry run would send. It has a thread of its own, because it waits
/// while there is no room for them.
fn foretell(sending: &Sending, reader: sealane_tree::Reader) {
    let _watch = shared::watch(&sending.stop, &sending.bells, &sending.control);
    let mut filler = Filler::new(&sending.filling, reader);
    // In a dry run the buffer is never used.
    let buffer = Buffer::new(record_bytes_max(Suite::Null, DATA_BYTES_MAX) + 4096);
    let mut batch = Builder::new(buffer, Suite::Null);
    while !sending.filling.queue.is_done() && !sending.filling.queue.is_stopped() {
        sending.bells.announce(0);
        filler.fill(&mut batch);
        sending.control.ring();
        if !sending.filling.queue.is_done() {
            sending.bells.sleep(0, &mut Vec::new(), FORETELLING_SLEEP);
        }
        sending.bells.awake(0);
    }
    sending.control.ring();
}

struct Push<'a> {
    transfer: &'a Transfer<'a>,
    far: &'a Rc<Far>,
    sending: &'a Arc<Sending>,
    put: &'a Put,
    remains: Remains,
    /// Hashes of the names that the source has, if other entries are to be deleted.
    known: Cell<Vec<[u8; 16]>>,
}

/// A finished batch: its connection, its content, and its result.
type Done = (usize, Builder, Result<(), Trouble>);

impl Push<'_> {
    /// Runs the push beside the scan of its sources, or, without one, with what is in the queue.
    fn run_beside_scan(
        &self,
        mut sources: near::Sources,
        walk: Option<WalkOptions>,
        permit: &Permit,
    ) -> Result<(Pruned, Removed), Error> {
        let options = self.transfer.options;
        let sending = self.sending;
        let filling = &sending.filling;
        announce(&mut sources, filling);
        let source = &sources.source;
        let removal = walk
            .clone()
            .filter(|_| options.wishes.upkeep.remove_sources && !options.wishes.dry_run)
            .map(|walk| Removal { source: source.clone(), walk });
        thread::scope(|scope| {
            let threads = Threads::new(scope, &sending.stop, &sending.bells);
            threads.start("scan", || match walk {
                None => scan::finish(sending),
                Some(walk) => scan::run(sending, source.walk(walk), || source.reader()),
            });
            if options.wishes.dry_run {
                threads.start("foretell", || foretell(sending, source.reader()));
            }
            let outcome = self.run(source.reader(), permit, removal);
            filling.queue.stop();
            sending.stop.finish(&sending.bells);
            // A thread of its own passes on the notices.
            filling.drain_until(&threads.ended(), &never());
            outcome
        })
    }

    fn outcome(&self, pruned: Pruned, removed: Removed) -> Outcome {
        let put = self.put;
        let complete = Complete {
            bytes: put.foretold_bytes.get(),
            files: put.entries.get(),
            unchanged: put.unchanged.get(),
            failed: put.failed.get(),
            deleted: pruned.deleted,
            undeleted: pruned.undeleted,
            dropped: put.dropped.get(),
            ..Complete::default()
        };
        Outcome { finished: conclusion(self.sending), complete, removed }
    }

    fn run(
        &self,
        reader: sealane_tree::Reader,
        permit: &Permit,
        removal: Option<Removal>,
    ) -> Result<(Pruned, Removed), Error> {
        let reactor = &self.far.reactor;
        let is_dry = self.transfer.options.wishes.dry_run;
        reactor.hear(match is_dry {
            true => vec![self.sending.control.clone()],
            false => vec![self.sending.bells.clone(), self.sending.control.clone()],
        });
        let moved = reactor.run(async {
            let grow = pin!(async {
                self.far.grow(self.transfer.options.streams, processors()).await;
                std::future::pending::<()>().await;
            });
            let moved: LocalBoxFuture<'_, _> = match is_dry {
                true => Box::pin(self.foretell_all()),
                false => Box::pin(self.move_all(reader)),
            };
            let mut lease = pin!(self.put.keep_lease().fuse());
            let moved = {
                let beside = pin!(join(&mut lease, grow));
                match select(moved, beside).await {
                    Either::Left((moved, _)) => moved,
                    Either::Right(_) => Ok(()),
                }
            };
            // One that is begun must not come after it was removed.
            if self.put.lease.get() == Lease::Begun && !lease.is_terminated() {
                lease.await;
            }
            moved
        });
        let settled = moved.and_then(|()| self.settle(permit));
        match settled {
            Ok(pruned) => {
                let removed = removal.map(|removal| self.remove_sources(removal)).transpose()?;
                Ok((pruned, removed.unwrap_or_default()))
            }
            Err(error) => {
                self.give_up(&error);
                Err(error)
            }
        }
    }

    /// Fills batches and puts them in place until nothing is left.
    async fn move_all(&self, reader: sealane_tree::Reader) -> Result<(), Error> {
        let sending = self.sending;
        let queue = &sending.filling.queue;
        let mut filler = Filler::new(&sending.filling, reader);
        let mut work: FuturesUnordered<LocalBoxFuture<'_, Done>> = FuturesUnordered::new();
        let mut batches: Vec<usize> = Vec::new();
        let mut spare: Vec<Buffer> = Vec::new();
        poll_fn(|context: &mut Context<'_>| {
            loop {
                self.learn();
                while let Some(link) = self.link_with_room(&batches) {
                    let buffer = spare.pop().unwrap_or_else(|| {
                        Buffer::new(BATCH_RECORDS * record_bytes_max(Suite::Null, DATA_BYTES_MAX) + 4096)
                    });
                    let mut batch = Builder::leaving_content(buffer, CONTENT_BYTES);
                    filler.fill(&mut batch);
                    if batch.is_empty() {
                        spare.extend(batch.dissolve().0);
                        break;
                    }
                    sending.first_byte.get_or_init(Instant::now);
                    if !batch.counted {
                        queue.batch_out();
                        batch.counted = true;
                    }
                    batches.resize(batches.len().max(link.index + 1), 0);
                    batches[link.index] += 1;
                    let delay = sending.limiter.delay(batch.wire_bytes(), Instant::now());
                    work.push(Box::pin(self.batch(link, batch, delay)));
                }
                match pin!(&mut work).poll_next(context) {
                    Poll::Ready(Some((link, mut batch, outcome))) => {
                        batches[link] -= 1;
                        let (buffer, contents, _) = batch.dissolve();
                        spare.extend(buffer);
                        match outcome {
                            Ok(()) => sending.arrived(Flushed {
                                acknowledged: contents,
                                batches: 1,
                                ..Flushed::default()
                            }),
                            // The trouble of an entry was reported where it arose.
                            Err(Trouble::Lost | Trouble::Entry(_)) => {
                                sending.settle(Settled { again: contents, batches: 1, ..Settled::default() });
                            }
                            Err(Trouble::Fatal(error)) => return Poll::Ready(Err(error)),
                        }
                    }
                    Poll::Ready(None) | Poll::Pending => break,
                }
            }
            if let Some(error) = sending.stop.reason() {
                return Poll::Ready(Err(error));
            }
            if queue.is_done() && work.is_empty() {
                return Poll::Ready(Ok(()));
            }
            if self.far.link().is_none() {
                return Poll::Ready(Err(self.far.lost()));
            }
            Poll::Pending
        })
        .await
    }

    /// Reports the change that each entry would cause, until nothing is left.
    async fn foretell_all(&self) -> Result<(), Error> {
        let filling = &self.sending.filling;
        let mut work: FuturesUnordered<LocalBoxFuture<'_, Result<(), Error>>> = FuturesUnordered::new();
        poll_fn(|context: &mut Context<'_>| {
            loop {
                self.learn();
                // This is read before the check for entries, which may be passed on in between.
                let is_done = filling.queue.is_done();
                while work.len() < LOOKS_MAX
                    && let Some(entry) = filling.preview.take()
                {
                    work.push(Box::pin(self.put.foretell(entry)));
                }
                match pin!(&mut work).poll_next(context) {
                    Poll::Ready(Some(Ok(()))) => {}
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error)),
                    Poll::Ready(None) if is_done => return Poll::Ready(Ok(())),
                    Poll::Ready(None) | Poll::Pending => break,
                }
            }
            match self.sending.stop.reason() {
                Some(error) => Poll::Ready(Err(error)),
                None => Poll::Pending,
            }
        })
        .await
    }

    async fn batch(&self, link: Rc<Link>, batch: Builder, delay: Duration) -> Done {
        self.far.reactor.sleep(delay).await;
        let records: Vec<_> = batch.plain().collect();
        let outcome = self.put.batch(&link, &records).await;
        drop(records);
        (link.index, batch, outcome)
    }

    fn link_with_room(&self, batches: &[usize]) -> Option<Rc<Link>> {
        let link = self.far.link()?;
        let under_way = batches.get(link.index).copied().unwrap_or(0);
        (link.bytes_under_way() < UNDER_WAY_BYTES && under_way < BATCHES_MAX).then_some(link)
    }

    /// Adds the names that the scan has passed on.
    fn learn(&self) {
        while let Some(known) = self.sending.filling.manifest.take() {
            let mut all = self.known.take();
            // With one hash too many nothing is deleted.
            if all.len() <= KNOWN_MAX {
                all.extend(known);
            }
            self.known.set(all);
        }
    }

    /// Everything has arrived: deletes entries that the source does not have, and gives folders their modes and
    /// times.
    fn settle(&self, permit: &Permit) -> Result<Pruned, Error> {
        let reactor = &self.far.reactor;
        self.learn();
        if self.put.open_count() > 0 {
            return Err(Error::protocol(
                "files were begun and not completed, which is a fault of this program",
            ));
        }
        let finished = conclusion(self.sending);
        let is_complete = finished.failed == finished.unfit && self.put.failed.get() == 0;
        if is_complete && !self.transfer.options.wishes.dry_run {
            reactor.run(async {
                self.put.discard_abandoned().await;
                Ok(())
            })?;
        }
        // Files that failed are gone; those of an earlier run wait for the next one.
        if is_complete || self.put.resumable.partial.is_empty() {
            reactor.run(async {
                self.put.end_lease().await;
                Ok(())
            })?;
        }
        reactor.run(self.put.settle_late())?;
        let unread = finished.failed.saturating_sub(finished.unfit);
        let pruned = super::prune::run(self.transfer, self.far, self.put, permit, self.known.take(), unread)?;
        reactor.run(async {
            let left = async {
                match is_complete {
                    true => resume::tell_left(self.far, self.put, permit, &self.remains).await,
                    false => Ok(()),
                }
            };
            let (finished, told) = join(self.put.finish_folders(), left).await;
            finished.and(told)
        })?;
        if let (Some(journal), true) = (&self.put.journal, is_complete) {
            journal.remove().map_err(|error| Error::io("cannot remove the journal", &error))?;
        }
        Ok(pruned)
    }

    fn remove_sources(&self, removal: Removal) -> Result<Removed, Error> {
        let has_failures = conclusion(self.sending).failed > 0 || self.put.failed.get() > 0;
        removal.run(&self.sending.filling.sent, has_failures, |notice| {
            if let Some(notice) = notice {
                let _ = self.put.notices.send(notice);
            }
            match self.transfer.progress.cancel.load(Relaxed) {
                true => Err(Error::new(ErrorKind::Cancelled, "interrupted")),
                false => Ok(()),
            }
        })
    }

    /// Leaves the results such that the same command can continue, or removes them if nothing can.
    fn give_up(&self, error: &Error) {
        let reactor = &self.far.reactor;
        reactor.is_ending();
        if matches!(error.kind, ErrorKind::Disconnected | ErrorKind::TimedOut | ErrorKind::Protocol) {
            return;
        }
        let _ = reactor.run(async {
            let tidy = pin!(self.put.give_up());
            // The reason is reported soon, whatever the far host does.
            select(tidy, pin!(reactor.sleep(Duration::from_secs(1)))).await;
            Ok(())
        });
        if let Some(journal) = self.put.journal.as_ref().filter(|journal| journal.is_unused()) {
            let _ = journal.remove();
        }
    }
}
