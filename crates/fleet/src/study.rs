//! Shared work of other kinds than copies: jobs of a program that are done by workers on many hosts, through the same
//! queue.
//!
//! Guarantees: each job has one result, which is on stable storage when it counts; the same command continues an
//! interrupted run; a host that fails repeatedly is left out and named; the end of this process ends its workers.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use sealane_copy::{Error, ErrorKind, Options};
use sealane_peer::{Channel, chain};

use crate::announcement::{Announcement, Speaker};
use crate::coordinate::OpenQueue;
use crate::crew::{Crew, LOOK, Shared};
use crate::error::{FleetError, Result};
use crate::hosts::Places;
use crate::keep::keeping;
use crate::memory::{Bounds, MemoryQueue};
use crate::news::News;
use crate::queue::{CoordinatorQueue, Job, JobId, Lease, Outcome, Put, Queue, Taken};
use crate::record::{Command, Held, LeftOut, Run, State, Status};
use crate::remote::Remote;
use crate::serve::serve;

/// The name of the worker in this process.
const HERE: &str = "here";
/// The interval at which the run's status is noted.
const NOTE: Duration = Duration::from_secs(1);
/// The time that a worker waits for work before it asks again.
const WAIT: Duration = Duration::from_secs(1);

/// Work that is shared.
pub struct Study {
    /// The facts that every worker must know.
    pub order: Vec<u8>,
    /// The jobs, which are all known from the beginning.
    pub jobs: Vec<Job>,
    /// The hosts whose workers this process starts over ssh, one each; a worker in this process if there are none.
    pub hosts: Option<Places>,
    /// How the hosts are reached.
    pub options: Options,
    /// A queue elsewhere, which other workers reach too.
    pub queue: Option<OpenQueue>,
    /// The command, which the user can repeat.
    pub command: Command,
    /// The run, whose folder keeps the results.
    pub run: Run,
}

/// Does jobs at the queue, under this name, as an order describes them.
pub type Studying<'a> = dyn Fn(&dyn Queue, &str, &[u8]) -> Result<()> + Sync + 'a;

/// Does jobs until there are no more: `work` makes the result of each, while the queue hears that it is under way.
///
/// # Errors
/// The queue is lost.
pub fn labour(queue: &dyn Queue, mut work: impl FnMut(&Job) -> Vec<u8>) -> Result<()> {
    loop {
        match queue.take(WAIT)? {
            Taken::Job(lease) => one(queue, lease, &mut work)?,
            Taken::Nothing => {}
            Taken::Over => return Ok(()),
        }
    }
}

fn one(queue: &dyn Queue, lease: Lease, work: &mut impl FnMut(&Job) -> Vec<u8>) -> Result<()> {
    let result = keeping(queue, &lease, |_| work(&lease.job))?;
    queue.finish(lease, &result).map(drop)
}

/// Shares the work, and returns all results. `keep` decides which results of an earlier invocation count; `here` works
/// in this process if no hosts are given and the queue is here.
///
/// # Errors
/// Fails if the run cannot complete; the same command continues it.
pub fn conduct(
    study: Study,
    keep: impl FnMut(&Outcome) -> bool,
    here: &Studying<'_>,
    cancel: &AtomicBool,
    tell: &mut dyn FnMut(News),
) -> Result<Vec<Outcome>> {
    let held = study.run.clone().hold(&study.command)?;
    let journal = held.journal_of(keep)?;
    let is_open = study.queue.is_some();
    let queue: Box<dyn CoordinatorQueue> = match study.queue {
        Some(open) => open(study.run.name(), journal)?,
        None => Box::new(MemoryQueue::journaled(Bounds::default(), journal)),
    };
    let speaker = Speaker::new(held.key(&study.options)?);
    let key = speaker.identity().public_key();
    // All jobs are put here.
    let shared = Arc::new(Shared::new(queue, study.options, key, |_| false));
    let wanted: HashSet<JobId> = study.jobs.iter().map(|job| job.id).collect();
    let mut conductor = Conductor {
        shared: &shared,
        held: &held,
        hosts: study.hosts,
        wanted: &wanted,
        found: Vec::new(),
        seen: 0,
        left_out: Vec::new(),
        started: Instant::now(),
        command: study.command.command.clone(),
        names: Vec::new(),
    };
    shared.queue.announce(&speaker.say(Announcement::Study(study.order.clone()))?)?;
    conductor.take_in()?;
    tell(News::Begun { run: study.run.name().to_owned(), key, done: conductor.found.len() as u64 });
    let works_here = !is_open && conductor.hosts.is_none();
    let outcome = thread::scope(|scope| {
        let (shared, order, jobs) = (&shared, &study.order, &study.jobs);
        let putter = thread::Builder::new().name("jobs".into());
        let putter = putter.spawn_scoped(scope, move || put_all(shared, jobs));
        let outcome = putter.map_err(FleetError::Thread).and_then(|putter| {
            let worker = works_here.then(|| {
                let worker = thread::Builder::new().name("worker".into());
                worker.spawn_scoped(scope, move || work_here(shared, here, order))
            });
            let mut worker = worker.transpose().map_err(FleetError::Thread)?;
            let outcome = conductor.steer(scope, is_open, cancel, tell, || {
                let is_gone = worker.as_ref().is_none_or(thread::ScopedJoinHandle::is_finished);
                is_gone.then(|| worker.take().map(thread::ScopedJoinHandle::join))
            });
            shared.is_stopped.store(true, SeqCst);
            drop(putter);
            outcome
        });
        shared.is_stopped.store(true, SeqCst);
        outcome
    });
    conductor.pass_on(tell);
    conductor.conclude(&outcome);
    outcome.map(|()| conductor.found)
}

/// Works in this process, at the other end of a stream, so that its work ends as that of any worker does.
fn work_here(shared: &Shared, here: &Studying<'_>, order: &[u8]) -> Result<()> {
    let (mut ours, mut theirs) = Channel::pair()?;
    thread::scope(|scope| {
        scope.spawn(|| {
            let (part, never) = (shared.part(HERE, 0), AtomicBool::new(false));
            serve(&mut ours, &*shared.queue, part, shared.may_put, &never, &shared.is_stopped, &|| ());
            // The worker sees the end of the stream.
            drop(ours);
        });
        Remote::greeted(&mut theirs)?;
        here(&Remote::new(theirs)?, HERE, order)
    })
}

/// Puts the jobs, and seals the queue; a queue that fails is noticed where its results are read.
fn put_all(shared: &Shared, jobs: &[Job]) {
    for job in jobs {
        while matches!(shared.queue.put(job), Ok(Put::Full)) {
            if shared.is_stopped.load(SeqCst) {
                return;
            }
            thread::sleep(LOOK);
        }
    }
    // Workers would wait for ever; the run's coordinator ends them.
    let _ = shared.queue.seal();
}

struct Conductor<'a> {
    shared: &'a Arc<Shared>,
    held: &'a Held,
    hosts: Option<Places>,
    wanted: &'a HashSet<JobId>,
    found: Vec<Outcome>,
    /// The number of the last result that has been looked at.
    seen: u64,
    left_out: Vec<LeftOut>,
    started: Instant,
    command: String,
    names: Vec<String>,
}

impl Conductor<'_> {
    /// Looks after the run until every job has its result. `ended` returns what became of the worker in this process
    /// when it is no longer there.
    fn steer<'scope>(
        &mut self,
        scope: &'scope thread::Scope<'scope, '_>,
        is_open: bool,
        cancel: &AtomicBool,
        tell: &mut dyn FnMut(News),
        mut ended: impl FnMut() -> Option<Option<thread::Result<Result<()>>>>,
    ) -> Result<()> {
        let mut crew = Crew::default();
        let mut noted: Option<Instant> = None;
        loop {
            if noted.is_none_or(|then| then.elapsed() >= NOTE) {
                let is_first = noted.is_none();
                if let Some(hosts) = &mut self.hosts
                    && (hosts.refresh() || is_first)
                {
                    crew.staff(scope, self.shared, hosts.texts(), 1, is_first)?;
                    self.names = crew.hosts();
                }
                self.held.note(&self.status(State::Running))?;
                noted = Some(Instant::now());
            }
            // This precedes the look at results: a worker that has ended by now has left its result.
            let is_gone = crew.is_gone() && !is_open;
            let here = ended();
            self.take_in()?;
            self.pass_on(tell);
            if self.found.len() == self.wanted.len() {
                return Ok(());
            }
            if cancel.load(SeqCst) || self.held.run.is_stopped() {
                let message = "stopped; the same command, or `sealane fleet retry`, goes on";
                return Err(Error::new(ErrorKind::Cancelled, message).into());
            }
            match here {
                Some(Some(Ok(Err(error)))) => return Err(error),
                Some(Some(Err(_))) => return Err(FleetError::Protocol("the worker panicked".into())),
                Some(_) if is_gone => return Err(self.shared.nobody_left()),
                _ => {}
            }
            thread::sleep(LOOK);
        }
    }

    /// Takes in results that have come.
    fn take_in(&mut self) -> Result<()> {
        loop {
            let outcomes = self.shared.queue.results(self.seen)?;
            let Some(last) = outcomes.last() else { return Ok(()) };
            self.seen = last.number;
            self.found.extend(outcomes.into_iter().filter(|outcome| self.wanted.contains(&outcome.id)));
        }
    }

    fn pass_on(&mut self, tell: &mut dyn FnMut(News)) {
        for news in self.shared.news() {
            if let News::LeftOut(host) = &news {
                self.left_out.push(host.clone());
            }
            tell(news);
        }
    }

    fn status(&self, state: State) -> Status {
        let (done, all) = (self.found.len() as u64, self.wanted.len() as u64);
        let seconds = self.started.elapsed().as_secs_f64();
        Status {
            run: self.held.run.name().to_owned(),
            state,
            command: self.command.clone(),
            process: std::process::id(),
            seconds,
            files: done,
            files_found: all,
            walked: true,
            waiting: all - done,
            movers: self.shared.movers.load(SeqCst),
            sources: self.names.clone(),
            left_out: self.left_out.clone(),
            ..Status::default()
        }
    }

    fn conclude(&self, outcome: &Result<()>) {
        let state = match outcome {
            Ok(()) => State::Done,
            Err(FleetError::Copy(error)) if error.kind() == ErrorKind::Cancelled => State::Stopped,
            Err(_) => State::Failed,
        };
        let error = outcome.as_ref().err().map(|error| chain(error));
        // If it cannot be recorded, the run looks as if it had been killed, and the same command continues it.
        let _ = self.held.note(&Status { error, ..self.status(state) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::queue::Weight;
    use crate::record::Runs;
    use std::path::Path;
    use std::sync::Mutex;

    fn job(number: u32) -> Job {
        let body = number.to_le_bytes().to_vec();
        Job { id: JobId::of(&[&body]), weight: Weight { files: 1, bytes: 0 }, body }
    }

    fn study(folder: &Path, jobs: u32) -> Study {
        Study {
            order: b"order".to_vec(),
            jobs: (0..jobs).map(job).collect(),
            hosts: None,
            options: Options::default(),
            queue: None,
            command: Command::new("sealane lab", Vec::new(), Path::new("/")),
            run: Runs::below(folder).of(&[b"study"]),
        }
    }

    #[test]
    fn every_job_has_its_result_and_an_interrupted_run_goes_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let done = Mutex::new(Vec::new());
        let conducted = |here: &Studying<'_>| {
            let study = study(folder.path(), 100);
            conduct(study, |_| true, here, &AtomicBool::new(false), &mut |_| ())
        };
        let work = |job: &Job| {
            done.lock().expect("no panic").push(job.id);
            job.body.iter().rev().copied().collect::<Vec<u8>>()
        };
        // The first worker ends after some of the jobs.
        let stopped = conducted(&|queue, host, order| {
            assert_eq!((host, order), ("here", &b"order"[..]));
            for _ in 0..70 {
                if let Taken::Job(lease) = queue.take(Duration::from_secs(10))? {
                    let result = work(&lease.job);
                    queue.finish(lease, &result)?;
                }
            }
            Err(FleetError::Unfit("it is enough".into()))
        });
        assert!(matches!(stopped, Err(FleetError::Unfit(_))), "{stopped:?}");
        assert_eq!(done.lock().expect("no panic").len(), 70);
        let found = conducted(&|queue, _, _| labour(queue, work)).expect("it is done");
        let ids: HashSet<_> = found.iter().map(|outcome| outcome.id).collect();
        let all = done.lock().expect("no panic");
        assert_eq!((found.len(), ids.len(), all.len()), (100, 100, 100));
        assert!(found.iter().all(|outcome| {
            let body: Vec<u8> = outcome.result.iter().rev().copied().collect();
            JobId::of(&[&body]) == outcome.id
        }));
    }
}
