//! The engine that computes on a pool of worker lanes.
//!
//! Guarantees: the workers' queue and the queue of every submitter are bounded; every work that was taken is given
//! back; a submitter that found the workers' queue full, even of others' work, is woken when a worker has taken from
//! it; the panic of a worker is passed on to the submitters that wait for its work, so that they do not wait for
//! ever.
//!
//! Small works of several submitters run as one ([`Gathering`]), because a kernel's lanes are filled by messages and
//! not by works.

use std::{
    any::Any,
    collections::VecDeque,
    fmt, io,
    num::NonZeroUsize,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use crossbeam_channel::{Receiver, Sender, bounded};
use rustix::event::{EventfdFlags, eventfd};

use crate::{
    Cost, Engine, Implementations, Kind, Protection, Queue, Software, Work,
    choice::Make,
    copies::{Joined, hull_bytes},
    gathering::{Gathered, Gathering},
    inline::Costs,
};

/// The number of works in the workers' queue per worker.
const WORKS_PER_LANE: usize = 4;
/// The maximum number of workers: more than any machine has processors for.
const LANES_MAX: usize = 1024;
/// The maximum window: waiting longer never pays for a batch.
const WINDOW_MAX: Duration = Duration::from_millis(10);
/// The maximum numbers of jobs and bytes of a small work: a larger one fills a kernel's lanes by itself.
const SMALL_JOBS: usize = 16;
const SMALL_BYTES: usize = 16 << 10;
/// The numbers of jobs and bytes up to which works are gathered.
const BATCH_JOBS: f32 = 128.0;
const BATCH_BYTES: f32 = 65_536.0;

pub(crate) const KIND: Kind = Kind {
    name: "lanes",
    form: "lanes[:N[:MICROSECONDS]]",
    about: "N worker threads compute for all lanes; by default as many as there are CPUs. They wait so long for small works \
            that share a batch, by default not at all",
    parse: |argument| {
        let (lanes, window) = match argument {
            None => (None, None),
            Some(text) => match text.split_once(':') {
                None => (Some(text), None),
                Some((lanes, window)) => (Some(lanes), Some(window)),
            },
        };
        let given = match lanes {
            None => None,
            Some(text) => Some(text.parse().ok().filter(|lanes: &NonZeroUsize| lanes.get() <= LANES_MAX)?),
        };
        let window = match window {
            None => Duration::ZERO,
            Some(text) => {
                Some(Duration::from_micros(text.parse().ok()?)).filter(|window| *window <= WINDOW_MAX)?
            }
        };
        let make: Arc<Make> = Arc::new(move |implementations| {
            let lanes = given.or_else(|| thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
            let queue_works = lanes.saturating_mul(NonZeroUsize::MIN.saturating_add(WORKS_PER_LANE - 1));
            Ok(Arc::new(Lanes::gathering(implementations, lanes, queue_works, window)?))
        });
        Some(make)
    },
};

/// A pool of worker lanes shared by any number of submitters. The pool lives as long as its last queue.
#[derive(Debug)]
pub struct Lanes {
    costs: Costs,
    pool: Arc<Pool>,
}

type Finished = Result<Work, Box<dyn Any + Send>>;

struct Task {
    work: Work,
    done: Sender<Finished>,
    bell: Bell,
    door: u64,
    share: Option<f32>,
}

/// Returns the part of a batch that a small work makes; `None` for other works.
fn share(work: &Work) -> Option<f32> {
    let (jobs, bytes) = (work.jobs.len(), hull_bytes(work));
    let is_small = jobs <= SMALL_JOBS && bytes <= SMALL_BYTES;
    is_small.then(|| (jobs as f32 / BATCH_JOBS).max(bytes as f32 / BATCH_BYTES))
}

impl Gathered for Task {
    fn submitter(&self) -> u64 {
        self.door
    }

    fn share(&self) -> Option<f32> {
        self.share
    }

    fn goes_with(&self, other: &Self) -> bool {
        self.work.direction == other.work.direction
    }
}

/// A bell that wakes one submitter.
#[derive(Clone)]
struct Bell(Arc<OwnedFd>);

impl PartialEq for Bell {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Bell {
    fn ring(&self) {
        // Fails only if the bell was rung 2^64 - 2 times without being read.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }
}

struct Pool {
    queue: Arc<Gathering<Task, Bell>>,
    workers: Vec<JoinHandle<()>>,
    lanes: usize,
    /// The number of queues made so far.
    doors: AtomicU64,
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("workers", &self.workers.len()).finish_non_exhaustive()
    }
}

impl Lanes {
    /// Starts `lanes` workers behind a queue of `queue_works`. The engine reports the costs of `implementations`;
    /// each session brings the implementations that run it.
    ///
    /// # Errors
    /// Fails if the system cannot start another thread.
    pub fn new(
        implementations: impl Into<Implementations>,
        lanes: NonZeroUsize,
        queue_works: NonZeroUsize,
    ) -> io::Result<Self> {
        Self::gathering(implementations, lanes, queue_works, Duration::ZERO)
    }

    /// Does the same as [`Self::new`], with workers that wait for at most `window` until small works of several
    /// submitters fill a batch.
    ///
    /// # Errors
    /// Fails if the system cannot start another thread.
    pub fn gathering(
        implementations: impl Into<Implementations>,
        lanes: NonZeroUsize,
        queue_works: NonZeroUsize,
        window: Duration,
    ) -> io::Result<Self> {
        let lanes = lanes.get();
        let queue = Arc::new(Gathering::new(queue_works, window));
        let workers = Vec::with_capacity(lanes);
        let mut pool = Pool { queue: Arc::clone(&queue), workers, lanes, doors: AtomicU64::new(0) };
        for lane in 0..lanes {
            let queue = Arc::clone(&queue);
            let worker = thread::Builder::new().name(format!("engine-{lane}"));
            pool.workers.push(worker.spawn(move || serve(&queue))?);
        }
        Ok(Self { costs: Costs::new(implementations.into()), pool: Arc::new(pool) })
    }
}

fn serve(queue: &Gathering<Task, Bell>) {
    let (mut software, mut joined) = (Software::default(), Joined::default());
    let mut tasks = Vec::new();
    while let Some(wanting) = queue.take(&mut tasks) {
        wanting.iter().for_each(Bell::ring);
        let run = AssertUnwindSafe(|| match tasks.as_mut_slice() {
            [task] => software.run(&mut task.work),
            tasks => {
                let mut works: Vec<&mut Work> = tasks.iter_mut().map(|task| &mut task.work).collect();
                joined.run(&mut works, &mut software);
            }
        });
        let mut panic = catch_unwind(run).err();
        let has_panicked = panic.is_some();
        for Task { work, done, bell, .. } in tasks.drain(..) {
            let finished = match panic.take() {
                Some(panic) => Err(panic),
                None if has_panicked => Err(Box::new("a worker panicked over a batch") as Box<_>),
                None => Ok(work),
            };
            // The submitter may be gone; then nobody needs the work.
            let _ = done.try_send(finished);
            bell.ring();
        }
    }
}

impl Engine for Lanes {
    fn name(&self) -> &'static str {
        "lanes"
    }

    fn cost(&self, protection: Protection) -> Option<Cost> {
        self.costs.of(protection)
    }

    fn pace_ns(&self, cost: Cost, bytes: usize) -> f64 {
        cost.job_ns(bytes) / self.pool.lanes as f64
    }

    fn queue(&self, depth: NonZeroUsize) -> io::Result<Box<dyn Queue>> {
        let (done, finished) = bounded(depth.get());
        let bell = Bell(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?));
        let (pool, depth) = (Arc::clone(&self.pool), depth.get());
        let door = pool.doors.fetch_add(1, Relaxed);
        Ok(Box::new(LanesQueue { pool, done, finished, bell, door, depth, in_flight: 0 }))
    }
}

struct LanesQueue {
    pool: Arc<Pool>,
    done: Sender<Finished>,
    finished: Receiver<Finished>,
    bell: Bell,
    door: u64,
    depth: usize,
    in_flight: usize,
}

impl LanesQueue {
    fn take(&mut self) -> Option<Work> {
        let finished = self.finished.try_recv().ok()?;
        self.in_flight -= 1;
        Some(finished.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

impl Queue for LanesQueue {
    fn submit(&mut self, from: &mut VecDeque<Work>) -> usize {
        let mut count = 0;
        while self.in_flight < self.depth {
            let Some(work) = from.pop_front() else { break };
            let (done, bell, door) = (self.done.clone(), self.bell.clone(), self.door);
            let share = share(&work);
            let task = Task { work, done, bell, door, share };
            if let Err(task) = self.pool.queue.put(task, || self.bell.clone()) {
                from.push_front(task.work);
                break;
            }
            self.in_flight += 1;
            count += 1;
        }
        count
    }

    fn finished(&mut self) -> Option<Work> {
        self.take().or_else(|| {
            // The bell is silenced before the last look, so a work that finishes after that look rings again.
            let _ = rustix::io::read(&*self.bell.0, &mut [0; 8]);
            self.take()
        })
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.bell.0.as_fd())
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.queue.close();
        for worker in self.workers.drain(..) {
            // A worker ends only when the queue is closed; it has passed on its panics.
            let _ = worker.join();
        }
    }
}
