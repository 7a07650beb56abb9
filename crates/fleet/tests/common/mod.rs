//! The kinds of queues, each with its kind of workers.

#[cfg(feature = "nats")]
pub(crate) mod nats;
#[cfg(feature = "nats")]
#[path = "../../../../testing/skip.rs"]
pub(crate) mod skip;

use sealane_fleet::journal::Journal;
use sealane_fleet::{
    Bounds, CoordinatorQueue, Finished, Job, JobId, Lease, MemoryQueue, Part, Queue, Remote, Taken, Weight,
    serve,
};
use sealane_peer::{Channel, PublicKey};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const BOUNDS: Bounds = Bounds { jobs: 50, bytes: 4 << 20 };

/// A queue, with its kind of workers.
pub(crate) trait Kind: Sync {
    fn name(&self) -> &'static str;
    /// The coordinator's side.
    fn coordinator(&self) -> &dyn CoordinatorQueue;
    /// One more worker.
    fn worker(&self) -> Box<dyn Queue>;
    /// Lets a worker disappear without a message; its queue notices that soon.
    fn kill(&self, worker: Box<dyn Queue>);
}

pub(crate) fn all_kinds() -> Vec<Box<dyn Kind>> {
    let mut all: Vec<Box<dyn Kind>> = vec![Box::new(InProcess::new()), Box::new(Piped::new())];
    #[cfg(feature = "nats")]
    match nats::Served::start() {
        Ok(served) => all.push(Box::new(served)),
        Err(why) => skip::skip(&why),
    }
    all
}

pub(crate) fn job(number: u32) -> Job {
    let body = format!("job {number}").into_bytes();
    Job { id: JobId::of(&[&body]), weight: Weight { files: 1, bytes: 10 }, body }
}

#[track_caller]
pub(crate) fn take(queue: &dyn Queue, wait: Duration) -> Lease {
    let deadline = std::time::Instant::now() + wait;
    loop {
        match queue.take(Duration::from_millis(500)).expect("a queue") {
            Taken::Job(lease) => return lease,
            Taken::Nothing if std::time::Instant::now() < deadline => {}
            other => panic!("no job, but {other:?}"),
        }
    }
}

#[track_caller]
pub(crate) fn finish(queue: &dyn Queue, lease: Lease) {
    let body = lease.job.body.clone();
    assert_eq!(queue.finish(lease, &body).expect("room"), Finished::First);
}

#[cfg(feature = "nats")]
impl Kind for nats::Served {
    fn name(&self) -> &'static str {
        "on a NATS server"
    }

    fn coordinator(&self) -> &dyn CoordinatorQueue {
        Self::coordinator(self)
    }

    fn worker(&self) -> Box<dyn Queue> {
        Self::worker(self)
    }

    fn kill(&self, worker: Box<dyn Queue>) {
        drop(worker);
    }
}

/// Workers are threads of one process.
struct InProcess {
    queue: Arc<MemoryQueue>,
}

/// The leases end when it is dropped, as those of a stream do.
struct Thread {
    queue: Arc<MemoryQueue>,
    held: Mutex<Vec<u64>>,
}

impl InProcess {
    fn new() -> Self {
        Self { queue: Arc::new(MemoryQueue::new(BOUNDS)) }
    }
}

impl Kind for InProcess {
    fn name(&self) -> &'static str {
        "in one process"
    }

    fn coordinator(&self) -> &dyn CoordinatorQueue {
        &*self.queue
    }

    fn worker(&self) -> Box<dyn Queue> {
        Box::new(Thread { queue: Arc::clone(&self.queue), held: Mutex::default() })
    }

    fn kill(&self, worker: Box<dyn Queue>) {
        drop(worker);
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        let held = self.held.get_mut().unwrap_or_else(PoisonError::into_inner);
        held.drain(..).for_each(|token| self.queue.expire(token));
    }
}

impl Queue for Thread {
    fn put(&self, job: &Job) -> sealane_fleet::Result<sealane_fleet::Put> {
        self.queue.put(job)
    }
    fn take(&self, wait: Duration) -> sealane_fleet::Result<Taken> {
        let taken = self.queue.take(wait)?;
        if let Taken::Job(lease) = &taken {
            self.held.lock().expect("no panic").push(lease.token);
        }
        Ok(taken)
    }
    fn extend(&self, lease: &Lease, done: Weight) -> sealane_fleet::Result<()> {
        self.queue.extend(lease, done)
    }
    fn finish(&self, lease: Lease, result: &[u8]) -> sealane_fleet::Result<Finished> {
        self.held.lock().expect("no panic").retain(|&token| token != lease.token);
        self.queue.finish(lease, result)
    }
    fn give_back(&self, lease: Lease, after: Duration) -> sealane_fleet::Result<()> {
        self.held.lock().expect("no panic").retain(|&token| token != lease.token);
        self.queue.give_back(lease, after)
    }
    fn result(&self, id: &JobId) -> sealane_fleet::Result<Option<Vec<u8>>> {
        self.queue.result(id)
    }
    fn announcement(&self) -> sealane_fleet::Result<Vec<u8>> {
        self.queue.announcement()
    }
}

/// Workers are at the other end of a stream, and results go into a journal.
struct Piped {
    queue: Arc<MemoryQueue>,
    _folder: tempfile::TempDir,
    is_stopped: Arc<AtomicBool>,
    servers: Mutex<Vec<JoinHandle<()>>>,
}

impl Piped {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let journal = Journal::open(&folder.path().join("results"), |_| true).expect("a journal");
        Self {
            queue: Arc::new(MemoryQueue::journaled(BOUNDS, journal)),
            _folder: folder,
            is_stopped: Arc::default(),
            servers: Mutex::default(),
        }
    }
}

impl Kind for Piped {
    fn name(&self) -> &'static str {
        "over a stream"
    }

    fn coordinator(&self) -> &dyn CoordinatorQueue {
        &*self.queue
    }

    fn worker(&self) -> Box<dyn Queue> {
        let (mut ours, mut theirs) = Channel::pair().expect("a pair");
        let (queue, is_stopped) = (Arc::clone(&self.queue), Arc::clone(&self.is_stopped));
        let server = thread::spawn(move || {
            let part = Part::Work {
                host: "here".into(),
                number: 0,
                key: PublicKey::from_bytes([0; 32]).to_string(),
            };
            serve(&mut ours, &*queue, part, |_| true, &AtomicBool::new(false), &is_stopped, &|| ());
        });
        self.servers.lock().expect("no panic").push(server);
        Remote::greeted(&mut theirs).expect("a greeting");
        Box::new(Remote::new(theirs).expect("the same version"))
    }

    fn kill(&self, worker: Box<dyn Queue>) {
        drop(worker);
    }
}

impl Drop for Piped {
    fn drop(&mut self) {
        self.is_stopped.store(true, SeqCst);
        for server in self.servers.lock().expect("no panic").drain(..) {
            let _ = server.join();
        }
    }
}
