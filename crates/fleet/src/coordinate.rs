//! The coordinator of a copy between many hosts: it has the queue, keeps movers on the sources, and knows the
//! progress of the whole.
//!
//! Guarantees: content never passes this process; its memory depends on the numbers of hosts and shares, not on that
//! of files; a host that fails repeatedly is left out and named; the end of the process ends its movers, and the same
//! command continues where it stopped; orders are signed with the run's key, and an answer counts only for the charge that
//! it answers: no mover can add a target, or end a stage that is not its own.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{Ordering::Relaxed, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use sealane_copy::{Error, ErrorKind, Location, Options, Progress};
use sealane_peer::chain;

use crate::announcement::{Announcement, Speaker};
use crate::crew::{Crew, LOOK, Shared};
use crate::error::{FleetError, Result};
use crate::hosts::{Places, shown_host};
use crate::journal::Journal;
use crate::memory::{Bounds, MemoryQueue};
use crate::news::News;
use crate::queue::{CoordinatorQueue, JobId, Outcome, Put, Standing, Weight};
use crate::record::{Command, Held, LeftOut, Run, State, Status};
use crate::settings::Settings;
use crate::work::{Charge, Order, Report, Root, Spread, WorkKind, destination, is_copy_task};

/// The interval at which it notes the run's status and looks at lists of hosts.
const NOTE: Duration = Duration::from_secs(1);

/// A checked copy between many hosts.
pub struct Plan {
    /// The sources. All stand for the same hosts.
    pub sources: Vec<Places>,
    /// The targets, one place for each host.
    pub target: Places,
    /// The options of every session.
    pub options: Options,
    /// Movers on each source.
    pub movers: u16,
    /// The maximum number of bytes of a share; larger files are cut into ranges.
    pub share_bytes: u64,
    /// The command, which movers get and which the user can repeat.
    pub command: Command,
    /// The run, whose folder keeps the results.
    pub run: Run,
    /// A queue elsewhere, which other workers reach too; in this process by default.
    pub queue: Option<OpenQueue>,
}

/// Opens a queue elsewhere for the run of this name, whose results are kept in this journal too.
pub type OpenQueue = Box<dyn FnOnce(&str, Journal) -> Result<Box<dyn CoordinatorQueue>> + Send>;

/// The totals of a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    /// The files and bytes that this invocation copied to the targets.
    pub copied: Weight,
    /// Entries that were there already.
    pub skipped: u64,
    /// Entries that were deleted.
    pub deleted: u64,
    /// Entries that failed.
    pub failed: u64,
}

/// Runs a copy to its end.
///
/// # Errors
/// Fails if the run cannot complete; the same command continues it.
pub fn coordinate(plan: Plan, progress: &Arc<Progress>, tell: &mut dyn FnMut(News)) -> Result<Totals> {
    let held = plan.run.clone().hold(&plan.command)?;
    let mut coordinator = Coordinator::new(plan, held)?;
    let outcome = coordinator.run(progress, tell);
    coordinator.conclude(&outcome);
    outcome
}

/// Returns the copied folders, and the places of the sources: those on hosts first.
fn roots(plan: &Plan) -> Result<Vec<Root>> {
    let hosts = |places: &Places| places.texts().iter().map(|text| shown_host(text)).collect::<Vec<_>>();
    let first = plan.sources.first().ok_or_else(|| FleetError::Usage("there is nothing to copy".into()))?;
    let mut roots = Vec::new();
    for places in &plan.sources {
        if hosts(places) != hosts(first) {
            return Err(FleetError::Usage("all sources must be on the same hosts".into()));
        }
        let text = places.texts().swap_remove(0);
        let path = match Location::parse(OsStr::from_bytes(&text))? {
            Location::Ssh { path, .. } => path,
            Location::Local(path) => std::path::absolute(&path)
                .map_err(|error| Error::io("cannot find the source", &error))?
                .into_os_string()
                .into_encoded_bytes(),
            Location::Daemon { .. } => {
                let text = String::from_utf8_lossy(&text).into_owned();
                return Err(FleetError::Usage(format!(
                    "{text}: a source of many hosts is reached by ssh, which starts sealane there"
                )));
            }
        };
        let name = last_component(&path).filter(|_| !plan.options.wishes.as_named).map(<[u8]>::to_vec);
        roots.push(Root { path, name, stamp: None });
    }
    if roots.len() > 1 && roots.iter().any(|root| root.name.is_none()) {
        return Err(FleetError::Usage("several sources need names of their own in the target".into()));
    }
    Ok(roots)
}

/// Returns the last name of a path; `None` if it ends in `.`, `..` or a root.
fn last_component(path: &[u8]) -> Option<&[u8]> {
    let last = path.split(|&byte| byte == b'/').rfind(|component| !component.is_empty())?;
    (last != b"." && last != b"..").then_some(last)
}

/// The stage of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Looking,
    /// The run is refused, and what the look has made goes away.
    Refusing,
    Copying,
    Finishing,
    Tidying,
    Ending,
}

/// A charge that was given.
struct Asked {
    kind: WorkKind,
    /// The targets that a look may answer for.
    targets: Vec<Vec<u8>>,
}

struct Coordinator {
    plan: Plan,
    held: Held,
    order: Order,
    speaker: Speaker,
    /// The charges that have no answer yet.
    asked: HashMap<JobId, Asked>,
    shared: Arc<Shared>,
    stage: Stage,
    /// Why the run is refused.
    refusal: Option<FleetError>,
    /// Results that have been looked at.
    seen: u64,
    walks_left: usize,
    looks_asked: u32,
    totals: Totals,
    started: Instant,
    left_out: Vec<LeftOut>,
    /// The sources that take part.
    sources: Vec<String>,
    resumed: u64,
    standing: Standing,
    /// Other workers may join the queue, so the run does not end when none is left here.
    is_open: bool,
}

impl Coordinator {
    fn new(mut plan: Plan, held: Held) -> Result<Self> {
        let roots = roots(&plan)?;
        let targets = plan.target.texts();
        for target in &targets {
            destination(target, None)?;
        }
        // Listing is not doing.
        let is_dry = plan.options.wishes.dry_run;
        let journal = if is_dry { held.journal_of(|_| false)? } else { held.journal()? };
        let resumed = journal.last_number();
        let mut invocation = [0; 16];
        getrandom::fill(&mut invocation).map_err(|error| {
            Error::new(ErrorKind::Io, format!("the system gives no random bytes: {error}"))
        })?;
        let order = Order {
            run: plan.run.name().to_owned(),
            settings: Settings::of(&plan.options),
            roots,
            targets,
            spread: Spread::Unknown,
            invocation,
            share_bytes: plan.share_bytes,
        };
        let workers = plan.sources[0].texts().len().saturating_mul(plan.movers.into());
        let bounds = Bounds { jobs: workers.saturating_mul(2).clamp(16, 1024), ..Bounds::default() };
        let is_open = plan.queue.is_some();
        let queue: Box<dyn CoordinatorQueue> = match plan.queue.take() {
            Some(open) => open(plan.run.name(), journal)?,
            None => Box::new(MemoryQueue::journaled(bounds, journal)),
        };
        let speaker = Speaker::new(held.key(&plan.options)?);
        let key = speaker.identity().public_key();
        let shared = Shared::new(queue, plan.options.clone(), key, is_copy_task);
        Ok(Self {
            walks_left: order.roots.len(),
            plan,
            held,
            order,
            speaker,
            asked: HashMap::new(),
            shared: Arc::new(shared),
            stage: Stage::Looking,
            refusal: None,
            seen: resumed,
            looks_asked: 0,
            totals: Totals::default(),
            started: Instant::now(),
            left_out: Vec::new(),
            sources: Vec::new(),
            resumed,
            standing: Standing::default(),
            is_open,
        })
    }

    fn run(&mut self, progress: &Arc<Progress>, tell: &mut dyn FnMut(News)) -> Result<Totals> {
        let done = self.resumed;
        let key = self.speaker.identity().public_key();
        tell(News::Begun { run: self.order.run.clone(), key, done });
        let shared = Arc::clone(&self.shared);
        self.announce()?;
        self.look()?;
        let outcome = thread::scope(|scope| {
            let outcome = self.steer(scope, progress, tell);
            shared.is_stopped.store(outcome.is_err(), SeqCst);
            outcome
        });
        // The movers have ended: their remaining messages are reported.
        self.pass_on(tell);
        outcome
    }

    fn steer<'scope>(
        &mut self,
        scope: &'scope thread::Scope<'scope, '_>,
        progress: &Arc<Progress>,
        tell: &mut dyn FnMut(News),
    ) -> Result<Totals> {
        let mut crew = Crew::default();
        let mut noted: Option<Instant> = None;
        loop {
            if noted.is_none_or(|then| then.elapsed() >= NOTE) {
                self.refresh(scope, &mut crew, noted.is_none())?;
                self.held.note(&self.status(State::Running))?;
                noted = Some(Instant::now());
            }
            // This precedes the look at results: a mover that has ended by now has left its result.
            self.standing = self.shared.queue.standing()?;
            self.take_in(tell)?;
            self.pass_on(tell);
            self.count(progress);
            if progress.cancel.load(Relaxed) || self.held.run.is_stopped() {
                return Err(Error::new(
                    ErrorKind::Cancelled,
                    "stopped; the same command, or `sealane fleet retry`, goes on",
                )
                .into());
            }
            self.advance()?;
            if crew.is_gone() {
                self.take_in(tell)?;
                if self.stage == Stage::Ending {
                    return Ok(self.totals);
                }
                if self.is_open {
                    thread::sleep(LOOK);
                    continue;
                }
                self.pass_on(tell);
                return Err(self.shared.nobody_left());
            }
            thread::sleep(LOOK);
        }
    }

    /// Reads the lists of hosts again; new hosts take part, removed ones end after the jobs that they hold.
    fn refresh<'scope>(
        &mut self,
        scope: &'scope thread::Scope<'scope, '_>,
        crew: &mut Crew<'scope>,
        is_first: bool,
    ) -> Result<()> {
        let has_changed = self.plan.sources[0].refresh();
        if is_first || has_changed {
            let places = self.plan.sources[0].texts();
            if !is_first && self.plan.options.wishes.limit_rate.is_some() {
                self.announce()?;
            }
            crew.staff(scope, &self.shared, places, self.plan.movers, is_first)?;
            self.sources = crew.hosts();
        }
        // The list is not read before the first targets are known: a change would be forgotten.
        if self.stage != Stage::Looking && self.plan.target.refresh() {
            let wanted = self.plan.target.texts();
            // Removed hosts get no more jobs; new ones are examined first.
            let stay: Vec<_> =
                self.order.targets.iter().filter(|target| wanted.contains(target)).cloned().collect();
            if !stay.is_empty() && stay.len() < self.order.targets.len() {
                self.order.targets = stay;
                self.announce()?;
            }
            if wanted.iter().any(|target| !self.order.targets.contains(target))
                && self.stage == Stage::Copying
            {
                self.look()?;
            }
        }
        Ok(())
    }

    /// Lets a mover examine the targets.
    fn look(&mut self) -> Result<()> {
        self.looks_asked += 1;
        let targets = self.plan.target.texts();
        self.give(&Charge::Look { targets: targets.clone() }, self.looks_asked, targets)
    }

    /// Announces the order, with the run's signature.
    fn announce(&mut self) -> Result<()> {
        // All movers together keep below the rate, however many there are now.
        let movers = self.plan.sources[0].texts().len() as u64 * u64::from(self.plan.movers);
        let share = |rate: u64| (rate / movers.max(1)).max(1);
        self.order.settings.wishes.limit_rate = self.plan.options.wishes.limit_rate.map(share);
        self.shared.queue.announce(&self.speaker.say(Announcement::Copy(Box::new(self.order.clone())))?)
    }

    /// Gives a charge to the movers. There are few of them, and they are short, so this waits for room. `number`
    /// distinguishes equal charges of this invocation.
    fn give(&mut self, charge: &Charge, number: u32, targets: Vec<Vec<u8>>) -> Result<()> {
        let salt = [&self.order.invocation[..], &number.to_le_bytes()].concat();
        let job = charge.job(&salt, self.speaker.identity())?;
        self.asked.insert(job.id, Asked { kind: charge.kind(), targets });
        loop {
            match self.shared.queue.put(&job)? {
                Put::New => return Ok(()),
                Put::Full => thread::sleep(LOOK),
                Put::Known => {
                    return Err(FleetError::Overreach(
                        "a host that takes part has put a job in the coordinator's name".into(),
                    ));
                }
            }
        }
    }

    /// Looks at results that have come.
    fn take_in(&mut self, tell: &mut dyn FnMut(News)) -> Result<()> {
        loop {
            let outcomes = self.shared.queue.results(self.seen)?;
            let Some(last) = outcomes.last() else { return Ok(()) };
            self.seen = last.number;
            for outcome in outcomes {
                self.answered(&outcome, tell)?;
            }
        }
    }

    /// Looks at a result. A result of another kind than its job's is none: it would end what is not over.
    fn answered(&mut self, outcome: &Outcome, tell: &mut dyn FnMut(News)) -> Result<()> {
        let asked = self.asked.remove(&outcome.id);
        let report = Report::read(&outcome.result).ok().filter(|report| match &asked {
            Some(asked) => report.kind == asked.kind,
            None => report.kind.is_copy_task(),
        });
        match (report, asked) {
            (Some(report), Some(Asked { kind: WorkKind::Look, targets })) => {
                let is_asked = |target: &Vec<u8>| targets.contains(target);
                let named = report.targets.iter().chain(report.unreachable.iter().map(|(target, _)| target));
                if let Some(other) = named.into_iter().find(|target| !is_asked(target)) {
                    return Err(FleetError::Overreach(format!(
                        "{} answers for {}, which is no target of this copy: it lies, or is broken",
                        report.host,
                        shown_host(other)
                    )));
                }
                self.account(report, tell)
            }
            (Some(report), _) => self.account(report, tell),
            (None, Some(asked)) if matches!(asked.kind, WorkKind::Look | WorkKind::Walk) => {
                let message = match Report::read(&outcome.result).ok().and_then(|report| report.error) {
                    Some(fault) => fault.message,
                    None => "a host that takes part gives an answer to something else: it lies, or is broken"
                        .into(),
                };
                Err(FleetError::Overreach(message))
            }
            (None, _) => {
                self.totals.failed += 1;
                let reason =
                    "a host that takes part gives an answer to something else: it lies, or is broken";
                tell(News::EntryFailed { path: Vec::new(), reason: reason.into() });
                Ok(())
            }
        }
    }

    fn account(&mut self, mut report: Report, tell: &mut dyn FnMut(News)) -> Result<()> {
        if report.kind == WorkKind::Range {
            self.totals.copied = self.totals.copied.plus(report.copied);
            return Ok(());
        }
        for failure in &report.failures {
            tell(News::EntryFailed { path: failure.path.clone(), reason: failure.reason.clone() });
        }
        if report.failures_left_out > 0 {
            let reason = format!("{} more entries failed", report.failures_left_out);
            tell(News::EntryFailed { path: Vec::new(), reason });
        }
        if self.plan.options.wishes.dry_run {
            for (change, bytes) in report.changes.drain(..) {
                tell(News::WouldSend { change, bytes });
            }
            report.deletions.drain(..).for_each(|path| tell(News::WouldDelete { path }));
            if report.changes_left_out > 0 {
                self.totals.failed += 1;
                let reason = format!("{} more changes could not be listed", report.changes_left_out);
                tell(News::EntryFailed { path: Vec::new(), reason });
            }
        }
        self.totals.failed += report.failures.len() as u64 + report.failures_left_out;
        let fault = report.error.as_ref().map(|fault| Error::new(fault.kind, fault.message.clone()));
        match report.kind {
            WorkKind::Look => return self.looked(report, fault),
            WorkKind::Walk => {
                if let Some(fault) = fault {
                    return Err(fault.into());
                }
                self.walks_left = self.walks_left.saturating_sub(1);
            }
            WorkKind::Share | WorkKind::Name => {
                self.totals.copied = self.totals.copied.plus(report.copied);
                self.totals.skipped += report.skipped;
            }
            WorkKind::Finish => {
                self.totals.deleted += report.deleted;
                // Folders, which no share has counted, and any other work of the last stage.
                self.totals.copied = self.totals.copied.plus(report.copied);
            }
            WorkKind::Unmark | WorkKind::Range => {}
        }
        if let Some(fault) = fault {
            self.totals.failed += 1;
            tell(News::EntryFailed { path: Vec::new(), reason: fault.to_string() });
        }
        Ok(())
    }

    fn looked(&mut self, report: Report, fault: Option<Error>) -> Result<()> {
        let is_first = self.stage == Stage::Looking;
        if let Some(fault) = fault {
            if is_first {
                return self.refuse(fault.into(), report.targets);
            }
            self.shared
                .tell(News::LeftOut(LeftOut { host: "a new target".into(), reason: fault.to_string() }));
            return Ok(());
        }
        for (target, reason) in &report.unreachable {
            self.leave_out(shown_host(target), reason.clone());
        }
        if !is_first {
            if report.spread == self.order.spread {
                for target in report.targets.iter().filter(|target| !self.order.targets.contains(target)) {
                    self.shared.tell(News::Joined { host: shown_host(target) });
                }
                self.order.targets = report.targets;
                return self.announce();
            }
            let reason =
                "the new target is not to the others as they are to each other: all share a folder, or none";
            self.leave_out("a new target".into(), reason.into());
            return Ok(());
        }
        self.order.targets = report.targets;
        self.order.spread = report.spread;
        for (root, stamp) in self.order.roots.iter_mut().zip(report.stamps) {
            root.stamp = Some(stamp);
        }
        let options = &self.plan.options;
        if self.order.spread == Spread::Own
            && (options.wishes.upkeep.delete.is_some() || options.wishes.preserve.hard_links)
        {
            let why = "each target has a folder of its own: --delete, and --hard-links or -a, need targets that share one";
            return self.refuse(FleetError::Usage(why.into()), self.order.targets.clone());
        }
        self.announce()?;
        self.stage = Stage::Copying;
        for root in 0..self.order.roots.len() as u32 {
            self.give(&Charge::Walk { root }, 0, Vec::new())?;
        }
        Ok(())
    }

    /// Ends the run with this error, once nothing of it is left at these targets.
    fn refuse(&mut self, error: FleetError, targets: Vec<Vec<u8>>) -> Result<()> {
        if targets.is_empty() || self.plan.options.wishes.dry_run {
            return Err(error);
        }
        self.refusal = Some(error);
        self.stage = Stage::Refusing;
        self.order.targets = targets;
        self.announce()?;
        self.give(&Charge::Unmark { is_refused: true }, 0, Vec::new())
    }

    fn leave_out(&self, host: String, reason: String) {
        self.shared.tell(News::LeftOut(LeftOut { host, reason }));
    }

    /// Continues with the next stage, when this one is over.
    fn advance(&mut self) -> Result<()> {
        let standing = self.standing;
        let is_idle = standing.waiting == 0 && standing.held == 0;
        if self.stage == Stage::Refusing && self.asked.is_empty() {
            return self.refusal.take().map_or(Ok(()), Err);
        }
        if !is_idle || self.walks_left > 0 {
            return Ok(());
        }
        match self.stage {
            Stage::Copying => {
                self.stage = Stage::Finishing;
                let places: Vec<_> = match self.order.spread {
                    Spread::Own => self.order.targets.iter().cloned().map(Some).collect(),
                    _ => vec![None],
                };
                for root in 0..self.order.roots.len() as u32 {
                    for target in &places {
                        self.give(&Charge::Finish { root, target: target.clone() }, 0, Vec::new())?;
                    }
                }
            }
            // Nothing was marked.
            Stage::Finishing if self.plan.options.wishes.dry_run => {
                self.stage = Stage::Ending;
                self.shared.queue.seal()?;
            }
            Stage::Finishing => {
                self.stage = Stage::Tidying;
                self.give(&Charge::Unmark { is_refused: false }, 0, Vec::new())?;
            }
            Stage::Tidying => {
                self.stage = Stage::Ending;
                self.shared.queue.seal()?;
            }
            Stage::Looking | Stage::Refusing | Stage::Ending => {}
        }
        Ok(())
    }

    /// Reports the messages of the movers' threads.
    fn pass_on(&mut self, tell: &mut dyn FnMut(News)) {
        for news in self.shared.news() {
            if let News::LeftOut(host) = &news {
                self.left_out.push(host.clone());
            }
            tell(news);
        }
    }

    fn count(&self, progress: &Progress) {
        let standing = self.standing;
        let moved = standing.finished.plus(standing.under_way);
        progress.bytes_found.store(standing.put.bytes, Relaxed);
        progress.files_found.store(standing.put.files, Relaxed);
        progress.files_measured.store(standing.put.files, Relaxed);
        progress.bytes_moved.store(moved.bytes.min(standing.put.bytes), Relaxed);
        progress.files_done.store(moved.files.min(standing.put.files), Relaxed);
        progress.scan_complete.store(self.walks_left == 0, Relaxed);
    }

    fn status(&self, state: State) -> Status {
        let standing = self.standing;
        let moved = standing.finished.plus(standing.under_way);
        let seconds = self.started.elapsed().as_secs_f64();
        let left = standing.put.bytes.saturating_sub(moved.bytes);
        let rate = moved.bytes as f64 / seconds.max(0.001);
        let seconds_left = (self.walks_left == 0 && moved.bytes > 0).then(|| left as f64 / rate);
        Status {
            run: self.order.run.clone(),
            key: self.speaker.identity().public_key().to_string(),
            state,
            command: self.plan.command.command.clone(),
            process: std::process::id(),
            seconds,
            bytes: moved.bytes.min(standing.put.bytes),
            bytes_found: standing.put.bytes,
            files: moved.files.min(standing.put.files),
            files_found: standing.put.files,
            walked: self.walks_left == 0,
            seconds_left: seconds_left.filter(|_| state == State::Running),
            waiting: standing.waiting as u64,
            in_hand: standing.held as u64,
            movers: self.shared.movers.load(Relaxed),
            sources: self.sources.clone(),
            targets: self.order.targets.iter().map(|place| shown_host(place)).collect(),
            left_out: self.left_out.clone(),
            failed: self.totals.failed,
            error: None,
        }
    }

    /// Records the outcome.
    fn conclude(&self, outcome: &Result<Totals>) {
        let state = match outcome {
            Ok(totals) if totals.failed == 0 => State::Done,
            Ok(_) => State::Incomplete,
            Err(FleetError::Copy(error)) if error.kind() == ErrorKind::Cancelled => State::Stopped,
            Err(_) => State::Failed,
        };
        let error = outcome.as_ref().err().map(|error| chain(error));
        // If it cannot be recorded, the run looks as if it had been killed, and the same command continues it.
        let _ = self.held.note(&Status { error, ..self.status(state) });
    }
}
