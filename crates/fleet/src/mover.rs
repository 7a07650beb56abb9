//! A mover: a worker on a source host that takes jobs of a copy from a queue and does them.
//!
//! Guarantees: a share is an ordinary session to one target, and has its result when the target has its files under
//! their final names; so is a range of a large file, whose bytes are on stable storage then; a file whose ranges did
//! not all arrive is copied as a whole by one mover; a share that fails at one target is tried at others (but, if each has a
//! folder of its own, not one that may have some of its files), and after three failures the failure is its result; when
//! the queue is lost, the session in progress ends.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use sealane_copy::{
    ChangeKind, Error, ErrorKind, Location, Notice, Options, Pattern, Piece, Portion, Progress, RelativePath,
    Summary, copy,
};
use sealane_peer::chain;

use crate::announcement::{Announcement, Listener};
use crate::error::{FleetError, Result};
use crate::keep::{TELL, keeping};
use crate::mark;
use crate::queue::{Job, JobId, Lease, Put, Queue, Taken, Weight};
use crate::share::ranked;
use crate::walk;
use crate::wire::Marking;
use crate::work::{
    Charge, CopyTask, Large, Order, Report, Root, Share, Spread, Task, destination, is_copy_task,
};

/// The time that a mover waits for work before it asks again.
const WAIT: Duration = Duration::from_secs(1);
/// The maximum number of targets at which a share is tried, and of times that it is handed out.
const TRIES: usize = 3;
/// The pause before a share is tried again.
const PAUSE: Duration = Duration::from_secs(1);
/// The number of targets that are asked at the same time.
const ASKED_AT_ONCE: usize = 8;

/// A worker for copies.
pub(crate) struct Mover<'a> {
    pub(crate) queue: &'a dyn Queue,
    pub(crate) host: String,
    /// Hears the coordinator, and nobody else.
    pub(crate) listener: Listener,
    /// The options that belong to this host.
    pub(crate) base: Options,
    /// The number of the next target, if all are alike.
    pub(crate) turn: Cell<usize>,
}

/// The end of an attempt at a job.
enum End {
    Finish,
    /// The job is to be tried again, here or elsewhere.
    Again(Duration),
}

/// The order and the options that apply to a job.
struct Instructions {
    order: Order,
    options: Options,
}

impl Mover<'_> {
    /// Works until there is no more work.
    ///
    /// # Errors
    /// Fails if the queue is lost, or this host cannot take part.
    pub(crate) fn run(&self) -> Result<()> {
        loop {
            match self.queue.take(WAIT)? {
                Taken::Job(lease) => self.one(lease)?,
                Taken::Nothing => {}
                Taken::Over => return Ok(()),
            }
        }
    }

    fn instructions(&self) -> Result<Instructions> {
        let Announcement::Copy(order) = self.listener.hear(&self.queue.announcement()?)? else {
            return Err(FleetError::Protocol("the run is not a copy any more".into()));
        };
        let options = order.settings.options(&self.base).map_err(|error| match error {
            FleetError::Unfit(why) => FleetError::Unfit(format!("{}: {why}", self.host)),
            error => error,
        })?;
        Ok(Instructions { order: *order, options })
    }

    fn one(&self, lease: Lease) -> Result<()> {
        let instructions = self.instructions()?;
        let other = instructions
            .order
            .roots
            .iter()
            .find(|root| root.stamp.as_ref().is_some_and(|stamp| !walk::is_same(&root.path, stamp)));
        if let Some(root) = other {
            self.queue.give_back(lease, Duration::ZERO)?;
            return Err(FleetError::Unfit(format!(
                "{}: {} is not the same folder as on the other sources; sources must share one file system",
                self.host,
                path(&root.path).display()
            )));
        }
        let task = match Task::read(&lease.job, self.listener.key()) {
            Ok(task) => task,
            Err(error) => {
                // It is not done, whoever has put it, and the coordinator hears of it.
                let mut report = Report { host: self.host.clone(), ..Report::default() };
                report.fault(ErrorKind::Protocol, &chain(&error));
                return self.queue.finish(lease, &report.encode()).map(drop);
            }
        };
        let started = Instant::now();
        let mut report = Report {
            kind: task.kind(),
            host: self.host.clone(),
            weight: lease.job.weight,
            ..Report::default()
        };
        let end = keeping(self.queue, &lease, |progress| {
            self.work(&instructions, &lease, &task, &mut report, progress)
        })??;
        report.micros = started.elapsed().as_micros() as u64;
        match end {
            End::Finish => self.queue.finish(lease, &report.encode()).map(drop),
            End::Again(after) => self.queue.give_back(lease, after),
        }
    }

    fn work(
        &self,
        instructions: &Instructions,
        lease: &Lease,
        task: &Task,
        report: &mut Report,
        progress: &Arc<Progress>,
    ) -> Result<End> {
        match task {
            Task::Charge(Charge::Look { targets }) => self.look(instructions, targets, report),
            Task::Charge(Charge::Walk { root }) => {
                let (order, options) = (&instructions.order, &instructions.options);
                let walked = walk::run(order, *root, options, report, |job| {
                    if progress.cancel.load(Relaxed) {
                        return Err(FleetError::Queue("it is lost".into()));
                    }
                    self.put(&job)
                });
                match walked {
                    Ok(()) => {}
                    Err(FleetError::Copy(error)) => report.fault(error.kind(), &chain(&error)),
                    Err(FleetError::Usage(error)) => report.fault(ErrorKind::Usage, &error),
                    Err(error) => return Err(error),
                }
                Ok(End::Finish)
            }
            Task::Copy(CopyTask::Share(share)) => {
                self.share(instructions, lease, share, None, report, progress)
            }
            Task::Copy(CopyTask::Range { file, index }) => {
                self.range(instructions, lease, file, *index, report, progress)
            }
            Task::Copy(CopyTask::Name(file)) => self.name(instructions, lease, file, report, progress),
            Task::Charge(Charge::Finish { root, target }) => {
                self.finishing(instructions, lease, *root, target.as_deref(), report, progress)
            }
            Task::Charge(Charge::Unmark { is_refused }) => {
                let doing = if *is_refused { Marking::Undo } else { Marking::Remove };
                for target in &instructions.order.targets {
                    // Remaining marks are removed together with the other remains of a copy.
                    let _ = mark::ask(&instructions.order, target, doing, &instructions.options);
                }
                Ok(End::Finish)
            }
        }
    }

    /// Puts a share, and copies others while there is no room for it.
    fn put(&self, job: &Job) -> Result<()> {
        while self.queue.put(job)? == Put::Full {
            match self.queue.take(Duration::ZERO)? {
                Taken::Job(lease) if is_copy_task(&lease.job) => self.one(lease)?,
                Taken::Job(lease) => self.queue.give_back(lease, PAUSE)?,
                Taken::Nothing | Taken::Over => thread::sleep(TELL / 5),
            }
        }
        Ok(())
    }

    fn look(&self, instructions: &Instructions, targets: &[Vec<u8>], report: &mut Report) -> Result<End> {
        for root in &instructions.order.roots {
            match walk::open(&root.path, &instructions.options).and_then(|_| {
                walk::stamp(&root.path).map_err(|error| Error::io("cannot read a source", &error).into())
            }) {
                Ok(stamp) => report.stamps.push(stamp),
                Err(error) => {
                    report.fault(ErrorKind::Io, &format!("{}: {}", self.host, chain(&error)));
                    return Ok(End::Finish);
                }
            }
        }
        let mut answers = Vec::new();
        for some in targets.chunks(ASKED_AT_ONCE) {
            thread::scope(|scope| {
                let ask = |target: &'_ Vec<u8>| {
                    let doing =
                        if instructions.options.wishes.dry_run { Marking::Look } else { Marking::Make };
                    mark::ask(&instructions.order, target, doing, &instructions.options)
                };
                let asked: Vec<_> = some.iter().map(|target| scope.spawn(move || ask(target))).collect();
                answers.extend(asked.into_iter().map(|thread| {
                    thread.join().unwrap_or_else(|_| Err(FleetError::Protocol("a thread panicked".into())))
                }));
            });
        }
        let mut marks = Vec::new();
        for (target, answer) in targets.iter().zip(answers) {
            match answer {
                Ok(mark) => {
                    report.targets.push(target.clone());
                    marks.push(mark);
                }
                Err(error) => report.unreachable.push((target.clone(), chain(&error))),
            }
        }
        if let (true, Some((target, why))) = (marks.is_empty(), report.unreachable.last()) {
            let message = format!("{}: {why}", crate::hosts::shown_host(target));
            report.fault(ErrorKind::Connect, &message);
            return Ok(End::Finish);
        }
        let known: Vec<_> = marks.iter().flatten().collect();
        let mut distinct = known.clone();
        distinct.sort_unstable();
        distinct.dedup();
        report.spread = match (marks.len(), known.len(), distinct.len()) {
            (1, ..) => Spread::Shared,
            (all, known, 1) if all == known => Spread::Shared,
            (_, known, distinct) if known == distinct => Spread::Own,
            _ => {
                report.fault(
                    ErrorKind::Refused,
                    "some of the targets share a folder and others do not; all must, or none",
                );
                Spread::Unknown
            }
        };
        Ok(End::Finish)
    }

    /// Returns the targets for a job, first choice first.
    fn candidates<'o>(&self, order: &'o Order, share: &Share) -> Vec<&'o Vec<u8>> {
        let count = order.targets.len();
        let mut targets: Vec<_> = match (order.spread, &share.target) {
            (Spread::Own, Some(wanted)) => {
                let first = order.targets.iter().find(|target| *target == wanted);
                let key = share.paths.first().map(Vec::as_slice).unwrap_or_default();
                let others = ranked(key, &order.targets).into_iter().filter(|target| *target != wanted);
                first.into_iter().chain(others).collect()
            }
            _ => {
                let turn = self.turn.get();
                self.turn.set(turn.wrapping_add(1));
                (0..count).map(|at| &order.targets[(turn % count.max(1) + at) % count]).collect()
            }
        };
        targets.truncate(TRIES);
        targets
    }

    fn share(
        &self,
        instructions: &Instructions,
        lease: &Lease,
        share: &Share,
        portion: Option<Portion>,
        report: &mut Report,
        progress: &Arc<Progress>,
    ) -> Result<End> {
        let root = instructions.order.root(share.root)?;
        let paths: std::result::Result<Vec<_>, _> = share.paths.iter().map(RelativePath::new).collect();
        let paths = paths.map_err(|error| FleetError::Protocol(error.to_string()))?;
        let mut options = instructions.options.clone();
        options.wishes.recursive = false;
        options.listed = Some(paths);
        options.share = Some(lease.job.id.0);
        options.wishes.patterns = Vec::new();
        options.wishes.as_named = false;
        options.wishes.preserve.hard_links = false;
        options.wishes.upkeep.delete = None;
        options.wishes.portion = portion;
        // The source is still needed for the other ranges.
        options.wishes.upkeep.remove_sources &= portion.is_none_or(|portion| portion.piece == Piece::Name);
        let mut candidates = self.candidates(&instructions.order, share);
        if portion.is_some() && instructions.order.spread == Spread::Own {
            // All parts of a file go to one folder.
            candidates.truncate(1);
        }
        let end = self.at_one_of(
            (instructions.order.spread, lease),
            &candidates,
            root,
            &options,
            report,
            progress,
        )?;
        // Failures are named one by one, so that they can be listed.
        if let Some(fault) = report.error.take() {
            report.failures.clear();
            for path in &share.paths {
                let shown = String::from_utf8_lossy(path);
                report.fail(path.clone(), &format!("{shown}: {}", fault.message));
            }
        }
        Ok(end)
    }

    /// Copies a range of a large file.
    fn range(
        &self,
        instructions: &Instructions,
        lease: &Lease,
        file: &Large,
        index: u32,
        report: &mut Report,
        progress: &Arc<Progress>,
    ) -> Result<End> {
        let portion = file.portion(Piece::Range(index))?;
        let end = self.share(instructions, lease, &file.share(), Some(portion), report, progress)?;
        // The file is counted when it gets its name.
        report.copied.files = 0;
        report.skipped = 0;
        match end {
            End::Finish if !report.is_good() && lease.attempt < TRIES as u32 => {
                Ok(End::Again(PAUSE * lease.attempt))
            }
            end => Ok(end),
        }
    }

    /// Gives a large file its name, once all its ranges have arrived. If one has failed, or the target no longer has
    /// them all, the file is copied as a whole.
    fn name(
        &self,
        instructions: &Instructions,
        lease: &Lease,
        file: &Large,
        report: &mut Report,
        progress: &Arc<Progress>,
    ) -> Result<End> {
        let mut have_arrived = true;
        // The last ranges arrive last.
        for index in (0..file.division()?.count()).rev() {
            match self.queue.result(&file.range(index)?.id)? {
                Some(result) => have_arrived &= Report::read(&result)?.is_good(),
                None => return Ok(End::Again(PAUSE)),
            }
        }
        if have_arrived {
            let portion = file.portion(Piece::Name)?;
            let end = self.share(instructions, lease, &file.share(), Some(portion), report, progress)?;
            if !matches!(end, End::Finish) || report.is_good() {
                return Ok(end);
            }
            report.failures.clear();
            report.failures_left_out = 0;
        }
        self.share(instructions, lease, &file.share(), None, report, progress)
    }

    fn finishing(
        &self,
        instructions: &Instructions,
        lease: &Lease,
        root: u32,
        target: Option<&[u8]>,
        report: &mut Report,
        progress: &Arc<Progress>,
    ) -> Result<End> {
        let place = target.unwrap_or_default();
        let share = JobId::of(&[b"finish", instructions.order.run.as_bytes(), &root.to_le_bytes(), place]);
        let root = instructions.order.root(root)?;
        let mut options = instructions.options.clone();
        options.wishes.recursive = true;
        options.wishes.as_named = true;
        // The name of the job is another one in each invocation, which would not find the journal of the last.
        options.share = Some(share.0);
        // Only these options need a second look at all files.
        if options.wishes.upkeep.delete.is_none() && !options.wishes.preserve.hard_links {
            options.wishes.patterns.push(Pattern::Include("*/".into()));
            options.wishes.patterns.push(Pattern::Exclude("*".into()));
        }
        let targets: Vec<_> = match target {
            Some(target) => instructions.order.targets.iter().filter(|found| *found == target).collect(),
            None => instructions.order.targets.iter().collect(),
        };
        self.at_one_of((instructions.order.spread, lease), &targets, root, &options, report, progress)
    }

    fn at_one_of(
        &self,
        (spread, lease): (Spread, &Lease),
        targets: &[&Vec<u8>],
        root: &Root,
        options: &Options,
        report: &mut Report,
        progress: &Arc<Progress>,
    ) -> Result<End> {
        let source = Location::Local(path(&root.path));
        let mut last = Error::new(ErrorKind::Connect, "no target is left");
        for target in targets.iter().take(TRIES) {
            let place = destination(target, root.name.as_deref())?;
            report.target.clone_from(target);
            report.failures.clear();
            report.failures_left_out = 0;
            report.changes.clear();
            report.deletions.clear();
            report.changes_left_out = 0;
            // Without changes files are told by their shares, and folders at the end, each once.
            let is_end = options.wishes.recursive;
            let mut observer = |notice: Notice| match notice {
                Notice::EntryFailed { path, reason } => report.fail(path, &reason),
                Notice::WouldSend { change, bytes } if is_end == (change.kind == ChangeKind::Directory) => {
                    report.foretell(change.path.clone(), Some((change, bytes)));
                }
                Notice::Deleted { path } if options.wishes.dry_run => report.foretell(path, None),
                _ => {}
            };
            match copy(std::slice::from_ref(&source), &place, options, progress, &mut observer) {
                Ok(summary) => {
                    account(report, &summary);
                    if options.wishes.dry_run {
                        let bytes = if is_end { 0 } else { summary.bytes };
                        let files = report.changes.len() as u64 + report.changes_left_out;
                        report.copied = Weight { files, bytes };
                    }
                    return Ok(End::Finish);
                }
                Err(error) if error.kind() == ErrorKind::Cancelled => return Ok(End::Again(Duration::ZERO)),
                Err(error) => {
                    last = Error::new(error.kind(), format!("{}: {error}", crate::hosts::shown_host(target)));
                    // At a target that is there some of the files may be, too: they would be at two targets then.
                    if spread == Spread::Own && !is_lost(error.kind()) {
                        break;
                    }
                }
            }
        }
        let may_help = !matches!(last.kind(), ErrorKind::Usage | ErrorKind::DiskFull);
        if lease.attempt < TRIES as u32 && may_help {
            return Ok(End::Again(PAUSE * lease.attempt));
        }
        report.fault(last.kind(), &chain(&last));
        Ok(End::Finish)
    }
}

/// Returns whether a failure of this kind means that the target cannot be used at all.
fn is_lost(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Connect | ErrorKind::Refused | ErrorKind::TimedOut | ErrorKind::Disconnected)
}

fn account(report: &mut Report, summary: &Summary) {
    report.copied = Weight { files: summary.files, bytes: summary.bytes };
    report.skipped = summary.skipped;
    report.deleted = summary.deleted;
    let dropped = summary.dropped;
    for (count, what) in [
        (dropped.owners, "entries did not get their owner"),
        (dropped.privileges, "entries lost set-user-id or set-group-id"),
        (dropped.xattrs, "extended attributes were lost"),
        (dropped.capabilities, "capabilities were lost"),
        (summary.undeleted, "entries were not deleted"),
    ] {
        if count > 0 {
            report.fail(Vec::new(), &format!("{count} {what}"));
        }
    }
}

fn path(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}
